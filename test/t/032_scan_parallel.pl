# The scan node in parallel plans: the leader runs the join, all processes share its pairs.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use JSON::PP qw(decode_json);
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('scan_parallel', <<'END');
max_parallel_workers_per_gather = 2
max_parallel_workers = 8
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
log_temp_files = 0
fasted.threads = 2
END
create_small_table($node);
$node->safe_psql('postgres', <<'END');
CREATE TABLE many (id int PRIMARY KEY, v real[]);
INSERT INTO many SELECT (g * 7919) % 1501, ARRAY[g, -g] FROM generate_series(1, 1500) g;
CREATE TABLE kinds (id int, kind int);
INSERT INTO kinds SELECT g % 1500, g % 7 FROM generate_series(1, 2000) g;
CREATE TABLE texts (id text PRIMARY KEY, v real[]);
INSERT INTO texts SELECT 'item ' || id, v FROM many;
CREATE TABLE empty (id int);
ANALYZE;
END
my $many = "fasted_self_join('many', 'v', 'Infinity')";
my $serial = 'SET max_parallel_workers_per_gather = 0;';

sub plan_of
{
	my ($query, $settings) = @_;
	return $node->safe_psql('postgres', ($settings // '') . "EXPLAIN (COSTS OFF) $query");
}

# Checks that the plan is parallel and its result is the same as that of the serial plan.
sub is_parallel
{
	my ($query, $name, $settings) = @_;
	$settings //= '';
	like(plan_of($query, $settings), qr/Parallel Custom Scan/, "$name: parallel");
	my $expected = $node->safe_psql('postgres', "$serial SET fasted.scan_node = off; $query");
	isnt($expected, '', "$name: there is a result");
	is($node->safe_psql('postgres', $settings . $query), $expected, "$name: the same result as the serial plan");
}

my $groups = "SELECT id_a, count(*), sum(dist)::numeric(12, 2) FROM $many GROUP BY 1 ORDER BY 1";
is_parallel($groups, 'GROUP BY');
is_parallel("SELECT sum(id_a), sum(id_b), max(dist), min(id_b - id_a) FROM $many", 'sums');
is_parallel("SELECT sum(id_a) FROM fasted_self_join('many', 'v', 'Infinity', id_column => 'id', ordered => true, self_pairs => true) WHERE id_a % 3 = 1",
	'both directions, self pairs, a condition');
is_parallel("SELECT sum(id_a) FROM $many WHERE dist < 40 AND id_b % 2 = 0", 'conditions');
is_parallel("SELECT sum(id_a), count(id_b) FROM fasted_self_join('many', 'v', 500, id_type => NULL::int)", 'typed ids');
is_parallel("SELECT DISTINCT dist::int % 50 AS d FROM $many ORDER BY 1", 'distinct');
is_parallel("SELECT k.kind, sum(p.id_b), count(*) FROM $many p JOIN kinds k ON k.id = p.id_a GROUP BY 1 ORDER BY 1",
	'a join');
is_parallel("SELECT n, count(*) FROM (SELECT id_a, count(*) AS n FROM $many GROUP BY 1) x GROUP BY 1 ORDER BY 1",
	'GROUP BY in a subquery');
is_parallel("SELECT sum(id_a) FROM $many", 'sums without the leader\'s share',
	'SET max_parallel_workers_per_gather = 4;');
is_parallel("SELECT sum(p.id_b), count(p.dist) FROM kinds k JOIN $many p ON k.id = p.id_a",
	'the inner side of a parallel hash join',
	'SET enable_mergejoin = off; SET enable_nestloop = off; SET parallel_leader_participation = on;');

# Two nodes below a parallel hash join, whose processes wait for each other at barriers.
my $both = "SELECT sum(p.id_b), count(q.dist) FROM $many p JOIN fasted_self_join('many', 'v', 300) q "
  . 'ON p.id_a = q.id_a AND p.id_b = q.id_b';
is_parallel($both, 'both sides of a join', 'SET enable_mergejoin = off; SET enable_nestloop = off;');
is_parallel($both, 'both sides of a join, in batches',
	"SET enable_mergejoin = off; SET enable_nestloop = off; SET work_mem = '64kB'; SET hash_mem_multiplier = 1;");

# The workers return rows, unless they begin when the leader has returned all of them.
my ($plan, @shares);
ok(wait_until(sub {
	$plan = decode_json($node->safe_psql('postgres',
		"EXPLAIN (ANALYZE, VERBOSE, FORMAT json) SELECT sum(length(repeat(id_a::text, 50))) FROM $many"))->[0]{Plan};
	$plan = $plan->{Plans}[0] until $plan->{'Custom Plan Provider'};
	@shares = map { $_->{'Actual Rows'} * $_->{'Actual Loops'} } @{ $plan->{Workers} };
	return grep { $_ > 0 } @shares;
}, 60), "workers return rows (@shares)");
is($plan->{Pairs}, 1500 * 1499 / 2, 'the leader reports the statistics of the engine');
is($plan->{Runs} // 1, 1, 'the leader reports the statistics of a single run');

# Queries without a parallel plan.
unlike(plan_of("SELECT id_a, sum(dist) FROM fasted_self_join('texts', 'v', 500, id_type => NULL::text) GROUP BY 1"),
	qr/Parallel Custom/, 'no parallel plan with ids that are passed by reference');
unlike(plan_of($groups, 'SET parallel_leader_participation = off;'), qr/Parallel Custom/,
	'no parallel plan without leader participation');
unlike(plan_of("SELECT sum(dist) FROM kinds k, LATERAL fasted_self_join('many', 'v', k.id) p"),
	qr/Parallel Custom/, 'no parallel plan with an argument that changes');
unlike(plan_of("SELECT sum(dist) FROM (SELECT * FROM $many UNION ALL SELECT * FROM $many) x"),
	qr/Parallel Custom/, 'no parallel plan below an Append');
unlike(plan_of("SELECT count(*) FROM $many"), qr/Gather/, 'no parallel plan for count(*)');

# A plan that is executed after its settings changed.
my $session = FastedTest::Session->new($node);
my $expected = $session->query("$serial $groups");
$session->query("RESET ALL; SET plan_cache_mode = force_generic_plan; PREPARE p AS $groups");
like($session->query('EXPLAIN (COSTS OFF) EXECUTE p'), qr/Parallel Custom/, 'prepared');
for my $setting ('work_mem = 1024', 'parallel_leader_participation = off', 'max_parallel_workers = 0',
	'parallel_leader_participation = on', 'max_parallel_workers = 1')
{
	is($session->query("SET $setting; EXECUTE p"), $expected, "prepared, then $setting");
}
$session->query('RESET ALL');

# A temporary table, which only the leader can read, and uncommitted changes.
$session->query('CREATE TEMP TABLE mine (id bigint PRIMARY KEY, v real[]); BEGIN; '
	  . 'INSERT INTO mine SELECT g, ARRAY[g] FROM generate_series(1, 900) g; ANALYZE mine');
like($session->query("EXPLAIN (COSTS OFF) SELECT sum(dist) FROM fasted_self_join('mine', 'v', 900)"),
	qr/Parallel Custom/, 'a temporary table: parallel');
is($session->query("SELECT sum(dist), sum(id_a) FROM fasted_self_join('mine', 'v', 900)"),
	899 * 900 * 901 / 6 . '|' . 899 * 900 * 901 / 6, 'a temporary table: the uncommitted rows are joined');
$session->query('ROLLBACK');

# A plan that was made before leader participation was disabled.  The leader runs the
# join nevertheless, because no worker could read the table.
$session->query('CREATE TEMP TABLE own (id bigint PRIMARY KEY, v real[]); '
	  . 'INSERT INTO own SELECT g, ARRAY[g] FROM generate_series(1, 900) g; ANALYZE own; '
	  . 'SET plan_cache_mode = force_generic_plan');
my %cached = (
	'a gather' => "SELECT sum(dist), sum(id_a) FROM fasted_self_join('own', 'v', 900)",
	'a gather that merges' => "SELECT id_a, count(id_b) FROM fasted_self_join('own', 'v', 900) GROUP BY 1 ORDER BY 1",
	'a gather in a loop' => 'SELECT g, (SELECT count(p.dist) FROM (SELECT dist FROM '
	  . "fasted_self_join('own', 'v', 900) WHERE id_b > 0 GROUP BY dist OFFSET 0) p WHERE p.dist > g) FROM generate_series(1, 3) g ORDER BY 1");
for my $name (sort keys %cached)
{
	my $expected = $session->query("SET max_parallel_workers_per_gather = 0; $cached{$name}");
	$session->query("RESET max_parallel_workers_per_gather; PREPARE q AS $cached{$name}");
	like($session->query('EXPLAIN (COSTS OFF) EXECUTE q'), qr/Parallel Custom/, "$name: parallel");
	is($session->query('SET parallel_leader_participation = off; EXECUTE q'), $expected,
		"$name: a leader that should not participate runs the join of its temporary table");
	my $plan = decode_json($session->query('EXPLAIN (ANALYZE, FORMAT json) EXECUTE q'))->[0]{Plan};
	$plan = $plan->{Plans}[-1] until $plan->{'Custom Plan Provider'};
	is($plan->{Pairs} // 'none', 900 * 899 / 2 * ($plan->{Runs} // 1), "$name: EXPLAIN shows the statistics of the engine");
	$session->query('RESET parallel_leader_participation; DEALLOCATE q');
}
$session->query('RESET ALL');

# The query ends before all rows have been returned.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION slow(bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 100000
	AS $$ BEGIN RETURN $1 > 0; END $$;
END
my $slow = "SELECT id_a, id_b FROM $many WHERE slow(id_a)";
like(plan_of($slow), qr/Gather.*Parallel Custom/s, 'a Gather without an aggregate');
is(scalar(split /\n/, $session->query($slow)), 1500 * 1499 / 2, 'a Gather without an aggregate returns all rows');
unlike(plan_of("$slow LIMIT 5"), qr/Gather/, 'a small LIMIT needs no workers');
my $left = 'SELECT count(*) FROM generate_series(1, 4) g WHERE EXISTS '
  . "(SELECT FROM $many p WHERE slow(p.id_a) AND p.id_b > 9 + g)";
my $inner = 'SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; ';
like(plan_of($left, $inner), qr/Nested Loop Semi Join.*Gather.*Parallel Custom/s, 'a Gather in a nested loop');
is($session->query("$inner $left"), 4, 'a nested loop stops the Gather early and runs it again');
is($session->query("SELECT count(*) FROM generate_series(1, 3) g WHERE EXISTS "
		  . "(SELECT 1 FROM (SELECT max(id_b) AS m FROM $many GROUP BY id_a OFFSET 0) p WHERE p.m > g + 9)"),
	3, 'a Gather that is run again');
is($session->query("SELECT count(*), sum(id_a) FROM $many p JOIN empty e ON e.id = p.id_a"), '0|', 'a join with an empty table');
$session->query('RESET ALL');
$session->query("SELECT sum(id_a / (id_b - 1400)) FROM $many");
like($session->{err}, qr/division by zero/, 'an error in a worker or in the leader');
$session->query("SELECT sum(id_a) FROM fasted_self_join('many', 'w', 1000)");
like($session->{err}, qr/column "w" of relation "many" does not exist/, 'an error of the join');
is(thread_count($session->pid), 1, 'no thread remains');
is($session->query($groups), $expected, 'the session remains usable');

# Cancelled while workers wait and while they run.
$session->send("SELECT sum(length(repeat(md5(dist::text), 100))) FROM $many p, generate_series(1, 1000) g;\n\\echo state :SQLSTATE");
wait_until(sub { thread_count($session->pid) > 1
		|| $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'") > 0 }, 60);
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->pid . ')');
is($session->wait_for(qr/^state (\w+)/m), '57014', 'cancelled');
is($node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'"),
	1, 'no worker remains');
$session->quit;

$node->stop;
done_testing();
