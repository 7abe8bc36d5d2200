# While no rows are requested the engine pauses: immediately for a cursor, and after a
# second where PostgreSQL does not announce the pause (LIMIT in a subquery, SCROLL, a
# slow consumer).  No row is lost.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('pause', "fasted.threads = 2\nfasted.cpu_kernel = portable\n");
$node->safe_psql('postgres', <<'END_SQL');
-- takes a while: 2 * 10^11 multiplications; ten rows in a place
CREATE VIEW steady AS
	SELECT g AS id, array_fill((g / 10)::real, ARRAY[500]) AS v FROM generate_series(1, 30000) g;
-- more pairs than wait for the caller: 499500
CREATE VIEW pairs AS SELECT g AS id, ARRAY[g::real] AS v FROM generate_series(1, 1000) g;
END_SQL

my $steady = "SELECT id_a, id_b FROM fasted_self_join('steady', 'v', 0.5, id_column => 'id')";
my $pairs = "SELECT id_a, id_b, dist FROM fasted_self_join('pairs', 'v', float8 'Infinity', id_column => 'id')";

# CPU time of all threads, in hundredths of a second.
sub ticks
{
	my ($pid) = @_;
	my @fields = split / /, slurp_file("/proc/$pid/stat") =~ s/.*\) //sr;
	return $fields[11] + $fields[12];
}

# In three seconds two running threads use up to 600, and more than a few on any machine.  If other processes
# have the CPUs, they may still have to complete a unit of work at first.
sub is_at_rest
{
	my ($pid, $name) = @_;
	my $used;
	for my $try (1 .. 5)
	{
		my $before = ticks($pid);
		sleep 3;
		$used = ticks($pid) - $before;
		last if $used <= 8;
	}
	cmp_ok($used, '<=', 8, "$name: paused (hundredths of a second in 3 s)");
	cmp_ok(thread_count($pid), '>', 1, "$name: the threads exist");
	is($node->safe_psql('postgres', "SELECT phase, units_done < units_total FROM pg_stat_fasted_progress WHERE pid = $pid"),
		'joining|t', "$name: there is work left");
}

sub is_at_work
{
	my ($pid, $name) = @_;
	my $before = ticks($pid);
	ok(wait_until(sub { ticks($pid) > $before + 40 }), "$name: running");
}

my $session = FastedTest::Session->new($node);
my $pid = $session->pid;

# --- a cursor

is($session->query("BEGIN; DECLARE c CURSOR FOR $steady; FETCH 1 FROM c") =~ /^\d+\|\d+$/, 1, 'the first row of a cursor');
usleep(500_000);
is_at_rest($pid, 'cursor');
my $pairs_seen = "SELECT pairs FROM pg_stat_fasted_progress WHERE pid = $pid";
cmp_ok($node->safe_psql('postgres', $pairs_seen), '>', 0, 'cursor: progress shows pairs');
$session->query('MOVE 5000 IN c');
cmp_ok($node->safe_psql('postgres', $pairs_seen), '>', 5000, 'cursor: progress includes the rows returned');
usleep(500_000);
is_at_rest($pid, 'cursor, moved on');
$session->send('MOVE ALL IN c;');
is_at_work($pid, 'cursor, asked for all');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('ROLLBACK');
is(thread_count($pid), 1, 'cursor: the end of the transaction ends the threads');

# --- without an announcement of the pause

$session->send("SELECT pg_sleep(max(id_a) * 0 + 600) FROM ($steady LIMIT 10) x;");
my $sleeps = "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND wait_event = 'PgSleep'";
ok($node->poll_query_until('postgres', $sleeps, '1'), 'the LIMIT is reached');
usleep(1_500_000);
is_at_rest($pid, 'LIMIT');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");

$session->query("BEGIN; DECLARE c SCROLL CURSOR FOR $steady; FETCH 1 FROM c");
usleep(1_500_000);
is_at_rest($pid, 'SCROLL cursor');
$session->send('MOVE ALL IN c;');
is_at_work($pid, 'SCROLL cursor, asked for all');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('ROLLBACK');

$session->send("SELECT pg_sleep(id_a * 0 + 600) FROM ($steady LIMIT 1) x;");
ok($node->poll_query_until('postgres', $sleeps, '1'), 'the LIMIT of one row is reached');
usleep(1_500_000);
is_at_rest($pid, 'a consumer that sleeps');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");

# --- no row is lost

$node->safe_psql('postgres', <<'END_SQL');
CREATE FUNCTION in_turns(query text, at_once int, pause float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	r record;
	n bigint := 0;
	sum_a bigint := 0;
	sum_b bigint := 0;
	sum_dist float8 := 0;
BEGIN
	OPEN c FOR EXECUTE query;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		n := n + 1;
		sum_a := sum_a + r.id_a;
		sum_b := sum_b + r.id_a * r.id_b;
		sum_dist := sum_dist + r.dist;
		IF n % at_once = 1 THEN
			PERFORM pg_sleep(pause);
		END IF;
	END LOOP;
	RETURN format('%s %s %s %s', n, sum_a, sum_b, sum_dist);
END $$;
END_SQL
my $expected = $node->safe_psql('postgres',
	"SELECT format('%s %s %s %s', count(*), sum(id_a), sum(id_a * id_b), sum(dist)) FROM ($pairs) p");
like($expected, qr/^499500 /, 'all pairs');
for my $turns ([ 100_000, 0.1 ], [ 150_000, 1.2 ])
{
	is($session->query("SELECT in_turns(\$\$$pairs\$\$, $turns->[0], $turns->[1])"), $expected,
		"the same with a pause of $turns->[1] s after each $turns->[0] rows");
}
$session->quit;

$node->stop;
done_testing();
