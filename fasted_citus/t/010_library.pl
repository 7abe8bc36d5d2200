# The library is missing, or was built with another version of fasted: joins fail until the extension
# is dropped, and only in a database that has it.  Without Citus.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/t";
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('library');
my $library = $node->config_data('--pkglibdir') . '/fasted_citus.so';
plan skip_all => "$library is not ours to replace" unless -w $library && -w $node->config_data('--pkglibdir');
my $built = slurp_file($library);

END
{
	local $?;
	replace($built) if defined $built;
}

# A session may have mapped the old file, which must not change.
sub replace
{
	my ($content) = @_;
	unlink $library;
	return unless defined $content;
	append_to_file($library, $content);
	chmod 0755, $library;
}

sub run_sql { my ($database, $sql) = @_; return ($node->psql($database, $sql))[ 1, 2 ]; }

my $join = "SELECT count(*) FROM fasted_self_join('items', 'v', 1)";
for my $database (qw(postgres other))
{
	$node->safe_psql('postgres', 'CREATE DATABASE other') if $database eq 'other';
	$node->safe_psql($database, 'SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS fasted;
		CREATE TABLE items AS SELECT i AS id, ARRAY[i]::real[] AS v FROM generate_series(1, 10) i; ALTER TABLE items ADD PRIMARY KEY (id)');
}
$node->safe_psql('postgres', 'CREATE EXTENSION fasted_citus');
(my $other = $built) =~ s/(?<=0\.1\.0-)(\d)(?=\d+-\d+\0)/9 - $1/e;
isnt($other, $built, 'a library of another version');
for my $case ([ undef, qr/could not access file.*fasted_citus/ ],
	[ $other, qr/library "fasted_citus" was built with another version of library "fasted".*HINT:  Install the same version/s ])
{
	my ($content, $error) = @$case;
	replace($content);
	like((run_sql('postgres', $join))[1], $error, 'a join where the extension exists');
	like((run_sql('postgres', 'SELECT fasted_citus.kernel()'))[1], $error, 'a function of the extension');
	is((run_sql('other', $join))[0], 9, 'a join in another database');
	like((run_sql('other', 'CREATE EXTENSION fasted_citus'))[1], $error, 'the extension is not created there');
}
is((run_sql('postgres', "DROP EXTENSION fasted_citus; $join"))[0], 9, 'a join after the extension was dropped');
replace($built);
is((run_sql('postgres', "CREATE EXTENSION fasted_citus; $join"))[0], 9, 'with the library of the same version');
$node->stop;
done_testing();
