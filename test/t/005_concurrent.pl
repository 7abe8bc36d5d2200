# Eight concurrent sessions, each with its own table and eps.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('concurrent', "fasted.threads = 2\n");
create_brute_force($node);

my @jobs = map { { table => "t$_", eps => 1 + $_ / 2, rows => 200 + 30 * $_, d => 2 + $_ } } 1 .. 8;
for my $job (@jobs)
{
	$node->safe_psql('postgres', <<END);
SELECT setseed(0.5);
CREATE TABLE $job->{table} (id int PRIMARY KEY, v real[]);
INSERT INTO $job->{table}
	SELECT g, ARRAY(SELECT floor(random() * 5)::real FROM generate_series(1, $job->{d}) WHERE g > 0)
	FROM generate_series(1, $job->{rows}) g;
CREATE TABLE $job->{table}_pairs (round int, id_a bigint, id_b bigint, dist float8);
END
}

my @sessions = map { FastedTest::Session->new($node) } @jobs;
for my $i (0 .. $#jobs)
{
	my ($table, $eps) = @{ $jobs[$i] }{qw(table eps)};
	$sessions[$i]->send("INSERT INTO ${table}_pairs SELECT $_, * FROM fasted_self_join('$table', 'v', $eps);")
	  for 1 .. 5;
}
$_->query('SELECT') for @sessions;
for my $i (0 .. $#jobs)
{
	my ($table, $eps) = @{ $jobs[$i] }{qw(table eps)};
	is_same_pairs($node, "SELECT * FROM ${table}_pairs",
		"SELECT round, p.* FROM generate_series(1, 5) round, brute_force('$table', $eps) p",
		"session $i finds the pairs of its own table, five times");
	$sessions[$i]->quit;
}

$node->stop;
done_testing();
