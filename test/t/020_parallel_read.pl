# Parallel workers read the table.  Pairs, privileges and errors are the same as without them.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('parallel_read', <<'END');
max_worker_processes = 16
max_parallel_workers = 16
max_parallel_workers_per_gather = 3
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
wal_level = minimal
max_wal_senders = 0
END
create_brute_force($node);

# Joins a relation: returns the pairs, the number of rows that workers read, and of workers.
sub join_of
{
	my ($relation, %options) = @_;
	my $set = $options{set} // '';
	my $call = $options{call} // "fasted_self_join('$relation', 'v', 2.5, id_column => 'id')";
	my ($status, $out, $err) = $node->psql('postgres',
		"$set;\nSET client_min_messages = debug1; SELECT count(*), sum(hashtext(p::text)::bigint) FROM $call p",
		extra_params => [ (map { ('-U', $_) } grep { defined } $options{user}), '-v', 'VERBOSITY=verbose' ]);
	my ($rows, $worker_rows, $workers) =
	  $err =~ /fasted: read (\d+) rows in \S+ s, (\d+) of them by (\d+) workers/;
	return { out => $out, err => $err, rows => $rows, worker_rows => $worker_rows, workers => $workers };
}

# The leader does not participate in the scan, so that all rows come from workers.
my $workers_only = 'SET parallel_leader_participation = off';
my $alone = 'SET max_parallel_workers_per_gather = 0';

# Checks that the result with workers is the same as without, and that they read most rows.
# The leader reads rows that do not fit into a block.
sub reads_alike
{
	my ($name, $relation, %options) = @_;
	my $set = $options{set} // 'SELECT';
	my $one = join_of($relation, %options, set => "$set; $alone");
	my $many = join_of($relation, %options, set => "$set; $workers_only");
	my $both = join_of($relation, %options, set => $set);
	like($one->{out}, qr/^[1-9]\d*\|/, "$name: there are pairs");
	is($one->{workers}, 0, "$name: no worker if the setting is zero");
	is($many->{out}, $one->{out}, "$name: the same pairs by workers");
	is($both->{out}, $one->{out}, "$name: the same pairs by workers and leader");
	cmp_ok($many->{workers} // 0, '>', 0, "$name: there were workers") or diag($many->{err});
	cmp_ok($many->{worker_rows} // 0, '>', 0.7 * $many->{rows}, "$name: workers read most rows");
	return;
}

sub reads_without_workers
{
	my ($name, $relation, %options) = @_;
	my $one = join_of($relation, %options, set => ($options{set} // 'SELECT') . "; $alone");
	my $many = join_of($relation, %options);
	like($one->{out}, qr/^[1-9]\d*\|/, "$name: there are pairs");
	is($many->{out}, $one->{out}, "$name: the same pairs");
	is($many->{workers}, 0, "$name: without workers");
	return;
}

# --- relations

$node->safe_psql('postgres', <<'END');
CREATE TABLE plain (id int PRIMARY KEY, v real[], kind int);
INSERT INTO plain SELECT g, ARRAY[g % 1000, g % 7, g % 11, 1], g % 3 FROM generate_series(1, 20000) g;
-- rows in an order that is not that of their keys
CREATE TABLE shuffled AS SELECT id, v FROM plain ORDER BY hashint4(id);
CREATE TABLE far_apart AS SELECT CASE id WHEN 1 THEN -9223372036854775808 WHEN 2 THEN 9223372036854775807
	ELSE (id % 2 * 2 - 1) * 1000000007::bigint * id END AS id, v FROM plain WHERE id < 700;
CREATE TABLE doubles AS SELECT id, v::float8[] AS v FROM plain;
CREATE TABLE integers AS SELECT id, v::int[] AS v FROM plain;
CREATE DOMAIN embedding AS real[];
CREATE TABLE domains AS SELECT id, v::embedding AS v FROM plain;
CREATE TABLE gaps AS SELECT id, CASE WHEN id % 3 = 0 THEN v END AS v FROM plain;
-- other numbers of dimensions in other partitions, rows of none, partitions too long for a block
CREATE TABLE tenants AS SELECT id, CASE WHEN id % 11 > 0 THEN v[1:2 + id % 3] END AS v, CASE WHEN id % 7 > 0 THEN id % 3 END AS kind,
	'tenant ' || id % 3 || repeat('z', CASE WHEN id % 500 = 1 THEN 500000 ELSE 0 END) AS tenant FROM plain;
CREATE VIEW filtered AS SELECT id, v FROM plain WHERE kind = 1;
CREATE VIEW joined AS SELECT a.id, b.v FROM plain a JOIN shuffled b ON b.id = a.id + 5 WHERE a.kind = 2;
CREATE VIEW barrier WITH (security_barrier) AS SELECT id, v FROM plain WHERE kind = 1;
CREATE VIEW grouped AS SELECT max(id) AS id, v FROM plain GROUP BY v;
CREATE TABLE parted (id int, v real[]) PARTITION BY HASH (id);
SELECT format('CREATE TABLE part%s PARTITION OF parted FOR VALUES WITH (MODULUS 4, REMAINDER %1$s)', g)
	FROM generate_series(0, 3) g \gexec
INSERT INTO parted SELECT id, v FROM plain;
CREATE TABLE parent (id int, v real[]);
CREATE TABLE child () INHERITS (parent);
INSERT INTO parent SELECT id, v FROM plain WHERE id % 2 = 0;
INSERT INTO child SELECT id, v FROM plain WHERE id % 2 = 1;
CREATE TABLE texts AS SELECT 'key ' || repeat('x', id % 50) || id AS id, v FROM plain;
CREATE TABLE uuids AS SELECT md5(id::text)::uuid AS id, v FROM plain;
CREATE TABLE names AS SELECT id::text::name AS id, v FROM plain;
CREATE TABLE vast_keys AS SELECT id::text || repeat('y', CASE WHEN id % 100 = 0 THEN 500000 ELSE 0 END) AS id, v FROM plain
	WHERE id <= 1000;
-- out of line, as it is and compressed
CREATE TABLE external (id int, v real[]);
ALTER TABLE external ALTER COLUMN v SET STORAGE EXTERNAL;
INSERT INTO external SELECT g, array_fill((g % 100)::real, ARRAY[3000]) FROM generate_series(1, 1000) g;
CREATE VIEW external_tenants AS SELECT id, v, id % 5 AS tenant FROM external;
CREATE TABLE compressed AS TABLE external;
CREATE TABLE long_rows (id int, v real[]);
INSERT INTO long_rows SELECT g, array_fill((g % 10)::real, ARRAY[65536]) FROM generate_series(1, 60) g;
CREATE TABLE long_doubles AS SELECT id, v::float8[] AS v FROM long_rows WHERE id <= 30;
CREATE TABLE bits AS SELECT id, (id % 1000)::bit(10) || repeat('01', 27)::bit(54) AS v, id % 5 AS tenant FROM plain;
CREATE TABLE long_bits AS SELECT g AS id, repeat((g % 8)::bit(64)::text, 1024)::bit(65536) AS v FROM generate_series(1, 200) g;
VACUUM ANALYZE;
END

reads_alike('table', 'plain');
reads_alike('shuffled', 'shuffled');
reads_alike('keys far apart', 'far_apart');
is_same_pairs($node, "SELECT * FROM fasted_self_join('far_apart', 'v', 2.5, id_column => 'id')",
	"SELECT * FROM brute_force('far_apart', 2.5)", 'keys far apart, against brute force');
reads_alike('double precision[]', 'doubles');
reads_alike('integer[]', 'integers');
reads_alike('a domain', 'domains');
reads_alike('null vectors', 'gaps');
reads_alike('view', 'filtered');
reads_alike('view of a join', 'joined');
reads_alike('security-barrier view', 'barrier');
reads_alike('partitions', 'parted');
reads_alike('inheritance', 'parent');
reads_alike('out of line', 'external');
reads_alike('compressed', 'compressed');
reads_alike('the longest vectors', 'long_rows');
reads_alike('the longest vectors of doubles', 'long_doubles');
reads_alike('bits', 'bits', call => "fasted_self_join('bits', 'v', 0, id_column => 'id', metric => 'hamming')");
reads_alike('bits by partition', 'bits',
	call => "fasted_self_join('bits', 'v', 0.01, id_column => 'id', metric => 'jaccard', partition_by => 'tenant')");
reads_alike('the longest bits', 'long_bits', call => "fasted_self_join('long_bits', 'v', 1500, id_column => 'id', metric => 'hamming')");
reads_alike('spilled to disk', 'external', set => "SET fasted.memory_limit = '1MB'");
reads_alike('serializable', 'plain',
	set => 'SET default_transaction_isolation = serializable');
for my $type (qw(text uuid name))
{
	reads_alike("$type keys", "${type}s",
		call => "fasted_self_join('${type}s', 'v', 2.5, id_type => NULL::$type, id_column => 'id')");
}
reads_alike('keys of half a megabyte', 'vast_keys',
	call => "fasted_self_join('vast_keys', 'v', 2.5, id_type => NULL::text, id_column => 'id')");
for my $column (qw(kind tenant))
{
	reads_alike("by $column", 'tenants', call => "fasted_self_join('tenants', 'v', 2.5, id_column => 'id', partition_by => '$column')");
	reads_alike("by $column, cosine", 'tenants',
		call => "fasted_self_join('tenants', 'v', 1e-9, id_column => 'id', metric => 'cosine', partition_by => '$column')");
}
for my $limit ('1MB', '20MB')
{
	reads_alike("by partition, $limit of memory", 'external_tenants', set => "SET fasted.memory_limit = '$limit'",
		call => "fasted_self_join('external_tenants', 'v', 2.5, id_column => 'id', partition_by => 'tenant')");
}
reads_alike('own uncommitted changes', 'plain',
	set => "BEGIN; UPDATE plain SET v = '{1,1,1,1}' WHERE id < 50; DELETE FROM plain WHERE id % 4 = 0");
reads_alike('in a function of PL/pgSQL', 'plain', call => 'in_plpgsql()', set => <<'END');
CREATE OR REPLACE FUNCTION in_plpgsql() RETURNS TABLE (id_a bigint, id_b bigint, dist float8) LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN
		RETURN QUERY SELECT * FROM fasted_self_join('plain', 'v', 2.5);
	END;
END $$
END

# Rows that a condition hides stay hidden, however late it is evaluated.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION costly(int) RETURNS boolean LANGUAGE plpgsql PARALLEL SAFE COST 1000000
	AS $$ BEGIN RETURN $1 % 20 = 0; END $$;
CREATE VIEW small_view AS
	SELECT a.id, a.v FROM plain a JOIN shuffled s ON s.id = a.id * 2 WHERE costly(a.id);
END
reads_alike('costly condition', 'small_view');
is_same_pairs($node, "SELECT * FROM fasted_self_join('small_view', 'v', 2.5, id_column => 'id')",
	"SELECT * FROM brute_force('small_view', 2.5)", 'costly condition, against brute force');

reads_without_workers('temporary table', 'temporary', set => 'CREATE TEMP TABLE temporary AS TABLE plain');
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION unsafe(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN $1; END $$;
CREATE VIEW unsafe_view AS SELECT unsafe(id) AS id, v FROM plain;
CREATE VIEW limited AS SELECT id, v FROM plain ORDER BY id LIMIT 5000;
CREATE TABLE told_not_to WITH (parallel_workers = 0) AS TABLE plain;
END
reads_without_workers('a view with a function that is not parallel safe', 'unsafe_view');
reads_without_workers('parallel_workers = 0', 'told_not_to');
reads_without_workers('too small a table', 'plain', set => "SET min_parallel_table_scan_size = '8MB'");
reads_without_workers('none can be started', 'plain', set => 'SET max_parallel_workers = 0');
$node->safe_psql('postgres', <<'END');
CREATE VIEW unions AS SELECT id, v FROM plain WHERE kind = 0 UNION ALL SELECT id + 100000, v FROM shuffled WHERE id % 3 = 1;
CREATE VIEW windows AS SELECT row_number() OVER (ORDER BY id DESC) AS id, v FROM plain;
CREATE VIEW with_cte AS WITH x AS MATERIALIZED (SELECT id, v FROM plain WHERE kind = 0) SELECT * FROM x;
CREATE VIEW semijoin AS SELECT id, v FROM plain p WHERE EXISTS (SELECT FROM shuffled s WHERE s.id = p.id + 7);
CREATE VIEW subselect AS SELECT id, (SELECT s.v FROM shuffled s WHERE s.id = p.id) AS v FROM plain p WHERE id < 300;
END
for my $view (qw(grouped unions windows with_cte semijoin subselect))
{
	my $expected = join_of($view, set => $alone)->{out};
	like($expected, qr/^[1-9]\d*\|/, "view $view: there are pairs");
	is(join_of($view)->{out}, $expected, "view $view: the same pairs");
	is(join_of($view, set => $workers_only)->{out}, $expected, "view $view: the same pairs by workers");
}
is(join_of('limited')->{out}, join_of('limited', set => $alone)->{out}, 'a view with LIMIT: the same pairs');

# --- number of workers

# a slow scan, so that each worker gets rows
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION slowly(int, float8) RETURNS int LANGUAGE plpgsql PARALLEL SAFE
	AS $$ BEGIN PERFORM pg_sleep($2); RETURN $1; END $$;
CREATE TABLE some_rows AS SELECT id, v, repeat('x', 2000) AS filler FROM plain WHERE id <= 1000;
CREATE VIEW slow_view AS SELECT slowly(id, 0.001) AS id, v FROM some_rows;
ANALYZE some_rows;
END
my $result;
for my $n (2, 5)
{
	$result = join_of('slow_view', set => "$workers_only; SET max_parallel_workers_per_gather = $n");
	is($result->{workers}, $n, "max_parallel_workers_per_gather = $n");
}
# a table whose vectors are all in its TOAST table
my $toasted = join_of('external', set => "$workers_only; SET min_parallel_table_scan_size = '512kB'");
cmp_ok($toasted->{workers}, '>', 1, 'pages of the TOAST table count');
is($node->safe_psql('postgres', "SELECT pg_relation_size('external') < 512 * 1024"), 't',
	'without the TOAST table there would be no worker');

# A leader that is slow to read its share still reads its worker's rows.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION slow_leader(int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
	IF pg_backend_pid()::text = current_setting('test.leader') THEN
		PERFORM pg_sleep(0.003);
	END IF;
	RETURN $1;
END $$;
CREATE TABLE many_compressed (id int, v real[]);
INSERT INTO many_compressed SELECT g, array_fill(g::real, ARRAY[3000]) FROM generate_series(1, 8000) g;
ANALYZE many_compressed;
CREATE VIEW slow_leader_view AS SELECT slow_leader(id) AS id, v FROM many_compressed;
END
$result = join_of('slow_leader_view',
	set => "SELECT set_config('test.leader', pg_backend_pid()::text, false); SET max_parallel_workers_per_gather = 1");
is($result->{workers}, 1, 'a slow leader and a worker');
cmp_ok($result->{worker_rows}, '>', 6000, 'the worker reads most rows');

# --- privileges

$node->safe_psql('postgres', <<'END');
CREATE ROLE owner LOGIN;
CREATE ROLE alice LOGIN;
CREATE ROLE stranger LOGIN;
CREATE TABLE notes AS SELECT id, v, CASE WHEN id <= 5000 THEN 'alice' ELSE 'bob' END AS author FROM plain;
ALTER TABLE notes OWNER TO owner;
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON notes FOR SELECT USING (author = current_user);
GRANT SELECT ON notes, barrier TO alice;
ANALYZE notes;
END
reads_alike('row security, the owner', 'notes', user => 'owner');
reads_alike('row security, another role', 'notes', user => 'alice');
is((split /\|/, join_of('notes', user => 'alice', set => $workers_only)->{out})[0],
	$node->safe_psql('postgres', 'CREATE TEMP TABLE own AS SELECT id, v FROM notes WHERE id <= 5000; '
		. "SELECT count(*) FROM fasted_self_join('own', 'v', 2.5, id_column => 'id')"),
	"only pairs of the role's own rows");
reads_alike('security-barrier view, another role', 'barrier', user => 'alice');
like(join_of('plain', user => 'stranger')->{err}, qr/42501: permission denied for table plain/,
	'no privilege: an error');
like(join_of('notes', user => 'alice', set => 'SET row_security = off')->{err},
	qr/would be affected by row-level security policy/, 'row_security = off is an error');
# a user's cast that converts a null to a vector
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION vector_of(int) RETURNS real[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT ARRAY[coalesce($1, 7)]::real[]';
CREATE CAST (int AS real[]) WITH FUNCTION vector_of(int);
CREATE TABLE cast_by_users AS SELECT id, CASE WHEN id % 100 > 0 THEN id END AS v FROM plain;
ANALYZE cast_by_users;
END
reads_alike('a cast of users', 'cast_by_users');
$node->safe_psql('postgres', 'DROP CAST (int AS real[])');
# --- errors name the row

sub fails_alike
{
	my ($name, $table, $pattern, %options) = @_;
	for my $set ($alone, $workers_only, 'SELECT')
	{
		like(join_of($table, %options, set => $set)->{err}, $pattern, "$name ($set)");
	}
	return;
}

$node->safe_psql('postgres', <<'END');
CREATE TABLE has_nan AS SELECT id, CASE WHEN id = 777 THEN '{1,2,NaN,4}' ELSE v END AS v FROM plain;
CREATE TABLE has_null AS SELECT id, CASE WHEN id = 777 THEN '{1,2,3,NULL}' ELSE v END AS v FROM plain;
CREATE TABLE is_empty AS SELECT id, CASE WHEN id = 777 THEN '{}' ELSE v END AS v FROM plain;
CREATE TABLE not_flat AS SELECT id, CASE WHEN id = 777 THEN '{{1,2},{3,4}}' ELSE v END AS v FROM plain;
CREATE TABLE too_large AS SELECT id, CASE WHEN id = 777 THEN '{1,2,1e39,4}' ELSE v::numeric[] END AS v FROM plain;
CREATE TABLE shorter AS SELECT id, CASE WHEN id = 777 THEN '{1,2,3}' ELSE v END AS v FROM plain;
CREATE TABLE too_long AS SELECT id, (CASE WHEN id = 777 THEN array_fill(1, ARRAY[70000])::real[] ELSE v END) AS v FROM plain
	WHERE id BETWEEN 777 AND 778;
CREATE TABLE odd_tenant AS SELECT id, CASE WHEN id = 777 THEN '{1,2,3}' ELSE v END AS v, id % 5 AS tenant FROM plain;
CREATE TABLE no_key AS SELECT nullif(id, 777) AS id, v FROM plain;
CREATE TABLE twice AS SELECT CASE WHEN id = 19999 THEN 777 ELSE id END AS id, v FROM plain;
ANALYZE;
END
fails_alike('NaN', 'has_nan',
	qr/ERROR:  22003: vector has an element that is NaN.*DETAIL:  The element is number 3 of the vector in the row with id = 777, column "v" of "has_nan"\..*HINT:  Distances need finite/s);
fails_alike('null element', 'has_null', qr/ERROR:  22004: vector has a null element.*The element is number 4 of the vector in the row with id = 777, /s);
fails_alike('empty vector', 'is_empty', qr/ERROR:  2202E: vector has no elements.*The vector is in the row with id = 777, /s);
fails_alike('nested array', 'not_flat', qr/ERROR:  2202E: vector is an array with 2 dimensions.*The vector is in the row with id = 777, /s);
fails_alike('out of range', 'too_large', qr/ERROR:  22003: vector has an element beyond the range.*The element is number 3 of the vector in the row with id = 777, /s);
fails_alike('dimensions', 'shorter',
	qr/ERROR:  22000: vectors have different numbers.*(?:is 4 in the row with id = \d+, and 3 in the row with id = 777|is 3 in the row with id = 777, and 4 in the row with id = \d+)\./s);
fails_alike('dimensions in a partition', 'odd_tenant',
	qr/ERROR:  22000: vectors of one partition have different numbers.*in the row with id = \d*[27],/s,
	call => "fasted_self_join('odd_tenant', 'v', 3, partition_by => 'tenant', id_column => 'id')");
# reported immediately, however long the next rows take, but after rows that were read before
$node->safe_psql('postgres', <<'END');
CREATE TABLE odd_ones (id int, v real[]) WITH (parallel_workers = 2);
INSERT INTO odd_ones VALUES (7, '{1,2,3}'), (8, '{1,2}'), (9, '{1,2,3}');
CREATE VIEW slow_odd_ones AS SELECT slowly(id, CASE WHEN id > 8 THEN 120 ELSE 0 END) AS id, v FROM odd_ones;
ANALYZE odd_ones;
END
like(join_of('slow_odd_ones', set => "$workers_only; SET statement_timeout = '60s'")->{err},
	qr/is 3 in the row with id = 7, and 2 in the row with id = 8\./, 'errors are reported immediately, and rows are named in their order');
# also if one worker has read both rows before the leader first checks
is($node->safe_psql('postgres', <<'SQL'), 0, 'rows are named in their order, 300 times');
CREATE TABLE odd_pair (id int, v real[]) WITH (parallel_workers = 2);
INSERT INTO odd_pair VALUES (7, '{1,2,3}'), (8, '{1,2}');
ANALYZE odd_pair;
CREATE FUNCTION in_another_order(OUT times int) LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	times := 0;
	FOR i IN 1 .. 300 LOOP
		BEGIN
			PERFORM FROM fasted_self_join('odd_pair', 'v', 2.5, id_column => 'id');
		EXCEPTION WHEN data_exception THEN
			GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
			times := times + (detail NOT LIKE '%is 3 in the row with id = 7, and 2 in the row with id = 8.')::int;
		END;
	END LOOP;
END
$$;
SELECT in_another_order();
SQL
fails_alike('too many dimensions', 'too_long',
	qr/ERROR:  (?:54000: vector has too many dimensions: 70000.*The vector is in the row with id = 777,|22000: vectors have different numbers.*70000 in the row with id = 777)/s);
fails_alike('null key', 'no_key',
	qr/ERROR:  23502: key column "id" of relation "no_key" is null.*DETAIL:  A row with a vector has a null key\./s);
fails_alike('key twice', 'twice', qr/ERROR:  23505: key column "id" of relation "twice" is not unique.*has id = 777\./s);

# --- cancelled: nothing remains

$node->safe_psql('postgres', 'CREATE VIEW very_slow_view AS SELECT slowly(id, 0.1) AS id, v FROM some_rows');
for my $set ('SELECT', $workers_only)
{
	like(join_of('very_slow_view', set => "$set; SET statement_timeout = '500ms'")->{err},
		qr/57014: canceling statement/, "cancelled while it reads ($set)");
}
# A worker ends before its rows are read: an error, not fewer rows.
for my $set ('SELECT', $workers_only)
{
	my $session = FastedTest::Session->new($node);
	my $pid = $session->pid;
	$session->{out} = '';
	$session->send("$set; SELECT count(*) FROM fasted_self_join('very_slow_view', 'v', 2.5, id_column => 'id');\n\\echo over");
	my $worker = "SELECT pid FROM pg_stat_activity WHERE leader_pid = $pid AND wait_event = 'PgSleep' LIMIT 1";
	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM ($worker) w WHERE pg_terminate_backend(pid)");
	$session->wait_for(qr/^over$/m);
	unlike($session->{out}, qr/^\d/m, "a worker is terminated: no result ($set)");
	like($session->{err}, qr/terminating (?:background worker|connection)|lost connection to parallel worker/,
		"an error ($set)");
	$session->quit;
}
ok($node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'"),
	'no worker remains');
ok(wait_until(sub { !orphan_segments() }), 'no shared memory remains');
my $segment = "/dev/shm/PostgreSQL.1$$";
append_to_file($segment, pack('L', 0x12345678));
ok((grep { $_ eq $segment } orphan_segments()), 'an orphaned segment would be found');
unlink $segment;
append_to_file($segment, pack('L', 0x0ce26608 ^ 2));
ok(!(grep { $_ eq $segment } orphan_segments()), 'segments of the cumulative statistics are excluded');
unlink $segment;
unlike(log_since($node, 0), qr/leak|PANIC|TRAP/, 'the log reports no leak');

$node->stop;
done_testing();
