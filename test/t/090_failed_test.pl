# A failing test leaves nothing in the system's temporary directory; and the output of
# run-tests.
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
	like($out, qr/^# sockets: \S/m, "$way: the sockets had a directory");
	is_deeply([ glob("$temp/*") ], [], "$way: the directory of the sockets is removed");
	remove_tree(glob("$PostgreSQL::Test::Utils::tmp_check/t_fails_fails_data"));
}

# run-tests prints a line for each stage, then the failures, and the totals as its last
# line.  All other output goes to the file, also if the run is interrupted.
my $setup = "$FindBin::RealBin/../setup";

sub report
{
	my ($stages) = @_;
	my $script = "$folder/report.bash";
	unlink($script);
	append_to_file($script, "set -euo pipefail\n. '$setup/lib.bash'\n. '$setup/stages.bash'\n"
			. "open_log '$folder/build/check.log' '$folder/failures'\n$stages\nfinish title\n");
	run([ 'bash', $script ], '>', \my $out, '2>', \my $err);
	return ($?, $out, slurp_file("$folder/build/check.log"), $err);
}

my $tap = "'^ok [0-9]+' '^not ok [0-9]+'";
my $lines = 'for i in $(seq 2000); do echo "ok $i - fine"; done';
my ($status, $out, $all, $err) = report(<<"END");
stage good $tap bash -c '$lines' || true
stage one '' '' true || true
stage bad $tap bash -c '$lines; echo "not ok 2001 - this one"; echo "# it was 5"; $lines; exit 1' || true
stage regress $tap bash -c 'echo "not ok 1 - join 5 ms"; echo "diff -U3 a b"; echo "-expected row"; exit 1' || true
stage broken '' '' bash -c 'for i in \$(seq 300); do echo "ERROR:  expected \$i"; done; echo no space left; exit 3' || true
stage nothing $tap true || true
END
is($status >> 8, 1, 'report: the exit status') or diag($err);
like($out, qr/^   good +2000 passed +0 failed +\d+ s\n   one +1 passed +0 failed/m, 'report: one line for each stage');
like($out, qr/^== bad: failures\nnot ok 2001 - this one\n# it was 5\n-- the end/m, 'report: the failed tests with their diagnostics');
like($out, qr/not ok 1 - join 5 ms\ndiff -U3 a b\n-expected row\n/, 'report: differences');
like($out, qr/^== broken: failures\n-- the end of its output:\n(ERROR:  expected \d+\n){39}no space left\n/m, 'report: the last lines of a stage that broke down');
like($out, qr/no test was run/, 'report: a stage without a test');
like($out, qr{^All output is in \Q$folder\E/build/check.log\n6001 passed, 4 failed\n\z}m, 'report: the last line');
cmp_ok(scalar(() = $out =~ /\n/g), '<', 150, 'report: few lines');
cmp_ok(scalar(() = $all =~ /^ok /mg), '==', 6000, 'report: all lines are in the file');

($status, $out, $all, $err) = report("stage good $tap echo 'ok 1' || true\nstage long '' '' bash -c 'echo begun; kill -TERM \$PPID; sleep 1'");
isnt($status, 0, 'interrupted: the exit status');
like($all, qr/^ok 1\n.*^begun\n/ms, 'interrupted: the file has all output until then');

done_testing();
