# Cancels joins at every stage and under load.  They end quickly and release everything.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('cancel', "fasted.threads = 2\nfasted.memory_limit = '400MB'\n");
create_wide_views($node);
# Groups of rows that are so far from each other that the filter cannot exclude pairs of different
# groups: the searches of a spanning tree compute all of these distances, which takes seconds.
$node->safe_psql('postgres', <<'END');
CREATE VIEW islands AS
	SELECT g AS id, array_fill((g % 4000 / 40.0)::real, ARRAY[50])
		|| array_fill((g / 4000 * 1e6)::real, ARRAY[50]) AS v FROM generate_series(1, 20000) g;
END

my $limit_ms = sanitized() ? 2000 : 100;
my $join = "SELECT count(*) FROM fasted_self_join('%s', 'v', %s, id_column => 'id');";

sub is_in_phase
{
	my ($pid, $phase) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_fasted_progress WHERE pid = $pid AND phase = '$phase'");
}

# Conditions, checked from outside, that tell which stage the query has reached.
my %stages = (
	'reading' => {
		sql => sprintf($join, 'endless', 1),
		reached => sub { memory_of($_[0], 'VmRSS') > 100 * 1024 },
	},
	'reading into a temporary file' => {
		settings => "SET fasted.memory_limit = '1MB';",
		sql => sprintf($join, 'endless', 1),
		reached => sub { grep { $_ > 50_000_000 } temp_files($node) },
	},
	'computing' => {
		sql => sprintf($join, 'wide', 0.5),
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'computing in panels' => {
		settings => "SET fasted.memory_limit = '16MB';",
		sql => sprintf($join, 'wide', 0.5),
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'output' => {
		settings => "SET work_mem = '64kB'; SET fasted.scan_node = off;",
		sql => sprintf($join, 'many_pairs', "float8 'Infinity'"),
		reached => sub { grep { $_ > 50_000_000 } temp_files($node) },
	},
	'output within work_mem' => {
		settings => "SET work_mem = '2GB'; SET fasted.scan_node = off;",
		sql => sprintf($join, 'many_pairs', "float8 'Infinity'"),
		reached => sub { memory_of($_[0], 'VmRSS') > 200 * 1024 },
	},
	'output by the scan node' => {
		sql => "SELECT sum(dist) FROM fasted_self_join('many_pairs', 'v', float8 'Infinity', id_column => 'id');",
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'counting' => {
		sql => sprintf($join, 'many_pairs', "float8 'Infinity'"),
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'nearest rows of a spanning tree' => {
		sql => "SELECT count(*) FROM fasted_spanning_tree('wide', 'v', id_column => 'id');",
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'searches of a spanning tree' => {
		sql => "SELECT count(*) FROM fasted_hdbscan('islands', 'v', 5, id_column => 'id');",
		reached => sub { is_in_phase($_[0], 'spanning tree') && usleep(50_000) },
	},
	'sums of a medoid' => {
		sql => "SELECT fasted_medoid(hashint4(i)::bit(32), i, 'jaccard') FROM generate_series(1, 200000) AS i;",
		reached => sub { usleep(500_000) },
	},
	'reading a sample' => {
		sql => "SELECT * FROM fasted_epsilon('endless', 'v', 1);",
		reached => sub { memory_of($_[0], 'VmRSS') > 100 * 1024 },
	},
	'joining a sample' => {
		sql => "SELECT * FROM fasted_epsilon('wide', 'v', 1000, 40000);",
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	});

for my $name (sort keys %stages)
{
	my $session = FastedTest::Session->new($node);
	my $small = "SELECT count(*) FROM fasted_self_join('small', 'v', 1)";
	$session->query($small);
	my $memory = memory_of($session->pid, 'VmRSS');
	my ($state, $best) = cancel_soon($session, $limit_ms, %{ $stages{$name} });
	is($state, '57014', "$name: the query is cancelled");
	cmp_ok($best, '<', $limit_ms, sprintf("%s: within %d ms (%.0f)", $name, $limit_ms, $best));
	is(thread_count($session->pid), 1, "$name: no thread remains");
	is(scalar temp_files($node), 0, "$name: no temporary file remains");
	is($session->query($small), 99, "$name: the session remains usable");
  SKIP:
	{
		skip 'a sanitizer keeps memory', 1 if sanitized();
		ok(wait_until(sub { memory_of($session->pid, 'VmRSS') - $memory < 30 * 1024 }, 10), "$name: memory is released");
	}
	$session->quit;
}

$node->stop;
done_testing();
