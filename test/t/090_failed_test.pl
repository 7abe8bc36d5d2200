# A test that fails leaves nothing in the system's folder for temporary files.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use File::Path qw(remove_tree);
use File::Temp;
use IPC::Run qw(run);
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = File::Temp->newdir;
my $script = "$folder/fails.pl";
append_to_file($script, <<'END');
use FastedTest;
use Test::More;
new_node('fails');
note('sockets: ', join(' ', glob("$ENV{TMPDIR}/*")));
fail('on purpose');
exit 1 if $ARGV[0] eq 'exits';
die 'on purpose' if $ARGV[0] eq 'dies';
done_testing();
END

for my $way (qw(ends exits dies))
{
	my $temp = File::Temp->newdir;
	local $ENV{TMPDIR} = "$temp";
	delete local $ENV{PG_TEST_NOCLEAN};
	run([ $^X, "-I$FindBin::RealBin", $script, $way ], '>', \my $out, '2>', \my $err);
	like($out, qr/^not ok 1 - on purpose$/m, "$way: the test fails") or diag($err);
	like($out, qr/^# sockets: \S/m, "$way: there was a folder for its sockets");
	is_deeply([ glob("$temp/*") ], [], "$way: and nothing of it is left");
	remove_tree(glob("$PostgreSQL::Test::Utils::tmp_check/t_fails_fails_data"));
}

done_testing();
