# The scan node streams pairs, stops early, and can be suspended and resumed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use JSON::PP qw(decode_json);
use Test::More;

my $node = new_node('scan_node', "log_temp_files = 0\nwork_mem = '64kB'\nfasted.threads = 2\n");
create_small_table($node);
$node->safe_psql('postgres', <<'END');
CREATE TABLE many (id int PRIMARY KEY, v real[]);
INSERT INTO many SELECT g, ARRAY[g, -g] FROM generate_series(1, 6000) g;
CREATE TABLE eps_of (kind int, eps float8);
INSERT INTO eps_of VALUES (1, 1), (2, 2), (3, 3), (4, 2);
ANALYZE;
END
my $all = 6000 * 5999 / 2;    # pairs within Infinity
my $many = "fasted_self_join('many', 'v', 'Infinity')";

# Returns the node's part of EXPLAIN (ANALYZE, FORMAT json), wherever it is in the plan.
sub find_node
{
	my ($plan) = @_;
	return $plan if ($plan->{'Custom Plan Provider'} // '') eq 'FastedSelfJoin';
	for my $child (@{ $plan->{Plans} // [] })
	{
		my $found = find_node($child);
		return $found if $found;
	}
	return;
}

sub analyze_node
{
	my ($query, $settings) = @_;
	my $json = $node->safe_psql('postgres',
		($settings // '') . "; EXPLAIN (ANALYZE, BUFFERS, FORMAT json) $query");
	return find_node(decode_json($json)->[0]{Plan});
}

# --- the first query of a session, without preloading
is($node->safe_psql('postgres', "EXPLAIN (COSTS OFF) SELECT id_a FROM fasted_self_join('small', 'v', 1)")
	  =~ /Custom Scan \(FastedSelfJoin\)/, 1, 'the first query of a session has the node');

# --- EXPLAIN
my $plan = analyze_node("SELECT id_a, sum(dist) FROM fasted_self_join('small', 'v', 2) GROUP BY 1");
is_deeply([ @$plan{ 'Relation', 'Vector Column', 'Eps', 'Engine' } ],
	[ 'small', 'v', '2', 'cpu' ], 'EXPLAIN: the relation and the settings of the join');
is_deeply([ @$plan{ 'Rows Read', 'Dimensions', 'Pairs', 'Panels', 'Actual Rows' } ],
	[ 100, 3, 197, 1, 197 ], 'EXPLAIN ANALYZE: statistics of the join');
cmp_ok($plan->{'Candidates'}, '>=', 197, 'EXPLAIN ANALYZE: candidates');
ok((!grep { !defined $plan->{$_} } map { "$_ Time" } qw(Read Prepare Filter Refine Wait Output)),
	'EXPLAIN ANALYZE: times');
cmp_ok($plan->{'Shared Hit Blocks'} + $plan->{'Shared Read Blocks'}, '>', 0,
	'EXPLAIN BUFFERS: blocks read from the table');
$plan = analyze_node('SELECT e.kind, count(*), sum(p.dist) '
	  . "FROM eps_of e, LATERAL fasted_self_join('small', 'v', e.eps) p GROUP BY 1", 'SET enable_memoize = off');
is_deeply([ @$plan{ 'Actual Loops', 'Runs', 'Rows Read', 'Pairs' } ],
	[ 4, 4, 400, 99 + 197 + 294 + 197 ], 'EXPLAIN ANALYZE: sums over runs');
$plan = analyze_node("SELECT count(*) FROM fasted_self_join('small', 'v', 2)");
is_deeply([ @$plan{ 'Aggregate', 'Pairs', 'Actual Rows' } ], [ 'count(*)', 197, 1 ],
	'EXPLAIN: count(*) by the engine');

# --- conditions are passed to the engine
$plan = analyze_node("SELECT * FROM fasted_self_join('small', 'v', 50) WHERE dist < 2");
is_deeply([ @$plan{ 'Pairs', 'Actual Rows' } ], [ 99, 99 ], 'the engine does not return pairs that a condition excludes');
is($plan->{'Rows Removed by Filter'} // 0, 0, 'the node removes no rows by a condition that the engine applies');

# --- the node stops early
my $offset = log_size($node);
$plan = analyze_node("SELECT * FROM $many LIMIT 10");
is($plan->{'Actual Rows'}, 10, 'LIMIT: the node returns ten rows');
cmp_ok($plan->{'Pairs'}, '<', $all / 4, "LIMIT: the engine stops early ($plan->{Pairs} of $all pairs)");
$plan = analyze_node("SELECT * FROM $many LIMIT 10", 'SET fasted.engine = auto');
is($plan->{'Rows Read'}, 6000, 'LIMIT: EXPLAIN shows the work of the stopped engine');
isnt($plan->{$_}, 'auto', "LIMIT: $_") for 'Engine', 'Distance Filter';
$plan = analyze_node("SELECT * FROM eps_of e, LATERAL fasted_self_join('small', 'v', e.eps) LIMIT 150",
	'SET fasted.engine = auto; SET enable_memoize = off');
is_deeply([ @$plan{ 'Runs', 'Rows Read' } ], [ 2, 200 ], 'LIMIT: the statistics include earlier runs');
isnt($plan->{Engine}, 'auto', 'LIMIT: EXPLAIN names the engine of several runs');
is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT FROM $many LIMIT 10) x"), 10, 'LIMIT');
is($node->safe_psql('postgres', "SELECT EXISTS (SELECT FROM $many WHERE id_a = id_b - 1)"), 't', 'EXISTS');
is($node->safe_psql('postgres', "SELECT count(*), sum(id_a) FROM (SELECT * FROM $many OFFSET 5) x")
	  =~ /^(\d+)/ ? $1 : '', $all - 5, 'OFFSET: all other rows are returned');

# --- cursors
my $session = FastedTest::Session->new($node);
$session->query("BEGIN; DECLARE c CURSOR FOR SELECT id_a FROM $many; DECLARE d CURSOR FOR SELECT id_b FROM $many");
is(scalar(split /\n/, $session->query('FETCH 2000 FROM c')), 2000, 'first rows of a cursor');
is(scalar(split /\n/, $session->query('FETCH 10 FROM d')), 10, 'a second cursor, while the first one is open');
is($session->query("SELECT count(*) FROM fasted_self_join('small', 'v', 1)"), 99, 'another query, while both are open');
$session->query('SAVEPOINT s');
is(scalar(split /\n/, $session->query('FETCH 3000 FROM c')), 3000, 'rows in a subtransaction');
$session->query('ROLLBACK TO s');
is(scalar(split /\n/, $session->query('FETCH 7 FROM d')), 7, 'rows after a subtransaction that was rolled back');
is(thread_count($session->pid) > 1, 1, "the first cursor's threads exist");
$session->query('CLOSE c; CLOSE d');
is(thread_count($session->pid), 1, 'closing the cursor before its end ends the threads');
$session->query('FETCH BACKWARD 1 FROM c');
like($session->{err}, qr/cursor "c" does not exist/, 'a closed cursor does not exist');
$session->query("ROLLBACK; BEGIN; DECLARE c CURSOR FOR SELECT id_a, id_b FROM fasted_self_join('small', 'v', 2)");
$session->query('FETCH 2 FROM c');
$session->query('FETCH BACKWARD 1 FROM c');
like($session->{err}, qr/cursor can only scan forward/, 'a cursor without SCROLL does not scan backward');
$session->query("ROLLBACK; BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id_a, id_b FROM fasted_self_join('small', 'v', 2)");
my @forward = split /\n/, $session->query('FETCH ALL FROM c');
my @backward = split /\n/, $session->query('FETCH BACKWARD ALL FROM c');
is_deeply([ reverse @backward ], \@forward, 'a SCROLL cursor, forward and backward');
is($session->query('FETCH ABSOLUTE 5 FROM c'), $forward[4], 'a SCROLL cursor, to a row by number');
$session->query('COMMIT');

# An error while cursors are open.
$session->query("BEGIN; DECLARE c CURSOR FOR SELECT id_a FROM $many");
$session->query('FETCH 10 FROM c');
$session->query('SELECT 1/0');
is($session->query('ROLLBACK'), '', 'an error while a cursor is open: ROLLBACK works');
is(thread_count($session->pid), 1, 'an error ends the threads of an open cursor');
$session->query("SELECT id_a / (id_a - 77) FROM fasted_self_join('small', 'v', 1)");
like($session->{err}, qr/division by zero/, 'an error above the node');
is($session->query("SELECT count(*) FROM fasted_self_join('small', 'v', 1)"), 99, 'the session remains usable');

# --- PL/pgSQL
$node->safe_psql('postgres', <<"END");
CREATE FUNCTION first_ones(wanted int) RETURNS bigint LANGUAGE plpgsql AS \$\$
DECLARE
	pair record;
	n bigint := 0;
BEGIN
	FOR pair IN SELECT * FROM $many LOOP
		BEGIN
			n := n + 1;
			IF n % 100 = 0 THEN PERFORM 1/0; END IF;
		EXCEPTION WHEN division_by_zero THEN
			NULL;
		END;
		EXIT WHEN n = wanted;
	END LOOP;
	RETURN n;
END \$\$;
CREATE PROCEDURE with_commits() LANGUAGE plpgsql AS \$\$
DECLARE
	pair record;
	n int := 0;
BEGIN
	FOR pair IN SELECT * FROM fasted_self_join('small', 'v', 2) LOOP
		n := n + 1;
		IF n % 50 = 0 THEN COMMIT; END IF;
	END LOOP;
	RAISE NOTICE 'rows: %', n;
END \$\$;
END
is($session->query('SELECT first_ones(1234)'), 1234, 'a FOR loop that ends early, with subtransactions');
is(thread_count($session->pid), 1, 'no thread remains');
is($session->query('SELECT max(first_ones(n)) FROM generate_series(1, 20) n'), 20, 'many FOR loops that end early');
$session->query('CALL with_commits()');
like($session->{err}, qr/rows: 197/, 'a FOR loop with commits');

# --- a row that another transaction has changed is evaluated again, with its join (EvalPlanQual)
my $other = FastedTest::Session->new($node);
$other->query('BEGIN; UPDATE eps_of SET eps = 9 WHERE kind = 2');
$session->send("UPDATE eps_of SET eps = (SELECT count(*) FROM fasted_self_join('small', 'v', eps_of.eps)) WHERE kind = 2;\n"
	  . '\\echo updated');
$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
$other->query('COMMIT');
$session->wait_for(qr/^updated$/m);
is($node->safe_psql('postgres', 'SELECT eps FROM eps_of WHERE kind = 2'), 99 * 9 - 36,
	'an update joins with the value that another transaction wrote');
$other->quit;

# --- prepared statements, custom and generic plans
for my $mode (qw(force_custom_plan force_generic_plan auto))
{
	$session->query("SET plan_cache_mode = $mode; DEALLOCATE ALL; PREPARE p (regclass, float8, float8) AS "
		  . "SELECT count(*), coalesce(sum(id_a), 0) FROM fasted_self_join(\$1, 'v', \$2) WHERE dist < \$3");
	is($session->query("EXECUTE p('small', 2, 9)"), '197|9801', "$mode: first parameters") for 1 .. 7;
	is($session->query("EXECUTE p('small', 9, 1.5)"), '99|4950', "$mode: other parameters");
	is($session->query("EXECUTE p('small', 9, NULL)"), '0|0', "$mode: a null in a condition");
	is($session->query("EXECUTE p('small', NULL, 1)"), '0|0', "$mode: no pair is within a null eps");
	$session->query("EXECUTE p(NULL, 2, 1)");
	like($session->{err}, qr/argument "relation" of fasted_self_join must not be null/, "$mode: a null argument");
}
$session->query('SET fasted.scan_node = off');
is($session->query("EXECUTE p('small', 2, 9)"), '197|9801', 'a plan that was made before the setting changed');
$session->query('RESET fasted.scan_node; DEALLOCATE ALL');
$session->query("PREPARE q AS SELECT sum(id_a) FROM fasted_self_join('small', 'v', 1)");
is($session->query('EXECUTE q'), 4950, 'a prepared statement');
$node->safe_psql('postgres', 'UPDATE small SET v = ARRAY[1000, 0, 0] WHERE id = 100');
is($session->query('EXECUTE q'), 4950 - 99, 'a prepared statement sees changes by other sessions');
$node->safe_psql('postgres', "ALTER TABLE small RENAME v TO w");
$session->query('EXECUTE q');
like($session->{err}, qr/column "v" of relation "small" does not exist/, 'a prepared statement sees changes of the table definition');
$session->quit;

# --- memory, temporary files
unlike(log_since($node, $offset), qr/temporary file: path .*, size [0-9]{7,}/, 'no large temporary file');
is($node->safe_psql('postgres', "SELECT sum(temp_bytes) < 1000000 FROM pg_stat_database"), 't',
	'no large temporary file according to pg_stat_database');

# EXPLAIN reports the engine that was used, not the one in the settings.
$plan = analyze_node("SELECT sum(id_a) FROM fasted_self_join('many', 'v', 1)", 'SET fasted.filter = fp16');
is($plan->{'Distance Filter'}, 'fp32', 'after a run EXPLAIN shows the filter that was used');
ok($plan->{'Host Memory'} > 0, 'after a run EXPLAIN shows the host memory');
ok(!exists $plan->{'Device Memory'}, 'EXPLAIN shows no device memory on a CPU');

# The planner takes the same lock as a plain SELECT to read a table.
$node->safe_psql('postgres', <<'END');
CREATE TABLE parts (id int PRIMARY KEY, v real[]) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE VIEW seen AS SELECT id, v FROM many;
END
my $holder = FastedTest::Session->new($node);
my $asker = FastedTest::Session->new($node);
for my $case ([ 'many', 'many' ], [ 'parts', 'part' ], [ 'parts', 'parts' ], [ 'seen', 'seen' ])
{
	my ($joined, $locked) = @$case;
	my $explain = "EXPLAIN SELECT id_a FROM fasted_self_join('$joined', 'v', 1, id_column => 'id')";
	for my $scan_node ('on', 'off')
	{
		$holder->query("BEGIN; LOCK TABLE $locked IN ACCESS EXCLUSIVE MODE");
		$asker->query("SET fasted.scan_node = $scan_node; SET lock_timeout = '50ms'; \\set VERBOSITY verbose\n$explain");
		like($asker->{err}, qr/ERROR:  55P03/, "EXPLAIN of a join of $joined waits for a lock on $locked, scan node $scan_node");
		$holder->query('ROLLBACK');
		$asker->query('RESET lock_timeout; BEGIN');
		like($asker->query($explain), qr/rows=/, 'EXPLAIN continues after the lock is released');
		is($asker->query("SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation = '$locked'::regclass"),
			'AccessShareLock', 'EXPLAIN holds its own lock until the end of its transaction');
		$asker->query('ROLLBACK');
	}
}
$_->quit for $holder, $asker;

# the planner asks for the estimates of a call several times
$node->psql('postgres', "SET client_min_messages = log; SET debug_print_plan = on; EXPLAIN SELECT count(*) FROM $many", stderr => \my $log);
is(scalar(() = $log =~ /LOG:  plan:/g), 2, "one plan of the query, and one of a call's source");

SKIP:
{
	skip('PostgreSQL has no GENERIC_PLAN', 1) if $node->safe_psql('postgres', 'SHOW server_version_num') < 160000;
	like($node->safe_psql('postgres', q{EXPLAIN (GENERIC_PLAN) SELECT * FROM fasted_self_join($1, 'v', 1)}), qr/FastedSelfJoin/,
		'EXPLAIN with a parameter as the relation');
}

$node->stop;
done_testing();
