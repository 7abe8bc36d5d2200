# Nearest neighbours: each worker finds those of a share of the rows.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../test/t";
use CitusCluster;
use FastedTest;
use Test::More;
use Time::HiRes qw(time);

my ($node, @workers) = new_cluster('nearest');

# Few rows give few units of work, and how many depends on the processor: four are half of the work of one worker.
my $shared = qr/Citus Workers: 127\.0\.0\.1:\d+ \([2-5]\d%.*, 127\.0\.0\.1:\d+ \([2-5]\d%.*, 127\.0\.0\.1:\d+ \([2-5]\d%/;

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }
sub failure { my ($sql) = @_; my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql"); return $err; }

# The same rows in distributed tables (dist, ref) and in local ones.  The complete results
# for both are compared, and the join of distributed tables must have been distributed.
sub same
{
	my ($name, $call, $settings) = @_;
	$settings //= '';
	(my $plain = $call) =~ s/'(dist|ref)'/'plain_$1'/g;
	my $rows = is_same_rows($node, "SELECT * FROM $call", "SELECT * FROM $plain", $name, $settings);
	like(sql("$settings; EXPLAIN (ANALYZE, TIMING off, COSTS off) SELECT * FROM $call"), $shared, "$name: divided");
	return $rows;
}

# whole numbers, so that distances tie; duplicates; nulls; zero vectors; keys in no order
sql(<<'END');
CREATE FUNCTION vector(i int, of int) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 50 = 7 THEN NULL WHEN i % 50 = 8 THEN '{0,0,0,0,0,0}'
		ELSE (SELECT array_agg((hashint4(i % of * 6 + k) & 7)::real) FROM generate_series(1, 6) k) END $$;
CREATE TABLE plain_dist (id int PRIMARY KEY, v real[], w real[]);
INSERT INTO plain_dist SELECT i * 7919 % 10007, vector(i, 700), vector(i + 1, 300) FROM generate_series(1, 1500) i;
CREATE TABLE dist (LIKE plain_dist INCLUDING ALL);
SELECT create_distributed_table('dist', 'id');
INSERT INTO dist TABLE plain_dist;
CREATE TABLE plain_ref (key bigint PRIMARY KEY, v real[]);
INSERT INTO plain_ref SELECT i * 31 % 1009, vector(i * 3, 500) FROM generate_series(1, 900) i;
CREATE TABLE ref (LIKE plain_ref INCLUDING ALL);
SELECT create_reference_table('ref');
INSERT INTO ref TABLE plain_ref;
END

is(sql(<<'END'), 0, 'as by brute force, including ties');
WITH brute AS (
	SELECT a.id AS id_a, b.id AS id_b, fasted_distance(a.v, b.v) AS dist,
		row_number() OVER (PARTITION BY a.id ORDER BY fasted_distance(a.v, b.v), b.id) AS rank
	FROM plain_dist a JOIN plain_dist b ON a.id <> b.id
	WHERE a.v IS NOT NULL AND b.v IS NOT NULL)
SELECT count(*) FROM (SELECT id_a, id_b, dist, rank FROM brute WHERE rank <= 7) x
FULL JOIN fasted_knn_join('dist', 'v', 'dist', 'v', 7) y USING (id_a, id_b, dist, rank)
WHERE x.id_a IS NULL OR y.id_a IS NULL
END
is(same('k', "fasted_knn_join('dist', 'v', 'dist', 'v', 10)"), 14700, 'the expected number of rows');
same('one', "fasted_knn_join('dist', 'v', 'dist', 'v', 1)");
is(same('more than rows', "fasted_knn_join('ref', 'v', 'ref', 'v', 2000)"), 882 * 881, 'all rows are neighbours');
same('cosine', "fasted_knn_join('dist', 'v', 'dist', 'v', 5, metric => 'cosine')");
same('within a distance', "fasted_knn_join('dist', 'v', 'dist', 'v', 20, max_distance => 2)");
same('within a distance of zero', "fasted_knn_join('dist', 'v', 'dist', 'v', 20, max_distance => 0)");
same('two tables', "fasted_knn_join('dist', 'v', 'ref', 'v', 10)");
same('two tables in the opposite order', "fasted_knn_join('ref', 'v', 'dist', 'v', 10, metric => 'cosine')");
same('two columns of a table', "fasted_knn_join('dist', 'v', 'dist', 'w', 3)");
same('panels', "fasted_knn_join('dist', 'v', 'dist', 'v', 40)", "SET fasted.memory_limit = '1MB'");
same('another kernel', "fasted_knn_join('dist', 'v', 'ref', 'v', 4)", "SET fasted.cpu_kernel = portable");
is(sql("SET fasted.scan_node = off; SELECT count(*), sum(rank) FROM fasted_knn_join('dist', 'v', 'dist', 'v', 10)"),
	14700 . '|' . 1470 * 55, 'a function call that stores its result');
is(sql("SELECT count(*) FROM (SELECT FROM fasted_knn_join('dist', 'v', 'dist', 'v', 10) LIMIT 5) x"), 5, 'LIMIT');
is(sql("SELECT count(*) FROM generate_series(1, 2) g, LATERAL (SELECT * FROM fasted_knn_join('dist', 'v', 'dist', 'v', g)) x"),
	1470 * 3, 'LATERAL');
like(sql("EXPLAIN (ANALYZE, COSTS off) SELECT * FROM fasted_knn_join('dist', 'v', 'ref', 'v', 10)"),
	qr/Rows Read: 2352\n.*Pairs: 14700\n.*, cpu, 5120 pairs\)/s, 'EXPLAIN ANALYZE shows the workers');

# not distributed, with the right result
for my $case (["fasted_knn_join('dist', 'v', 'plain_ref', 'v', 3)", 'a table of this server alone as the second table'],
	["fasted_knn_join('plain_dist', 'v', 'ref', 'v', 3)", 'a table of this server alone as the first table'])
{
	my ($call, $name) = @$case;
	(my $plain = $call) =~ s/'(dist|ref)'/'plain_$1'/g;
	is(sql("SELECT count(*), sum(id_a * id_b * rank) FROM $call"), sql("SELECT count(*), sum(id_a * id_b * rank) FROM $plain"), $name);
	unlike(sql("EXPLAIN (ANALYZE, COSTS off) SELECT * FROM $call"), qr/Citus Workers/, "$name: not distributed");
}
unlike(sql("SET fasted_citus.distribute = auto; EXPLAIN (ANALYZE, COSTS off) SELECT * FROM fasted_knn_join('dist', 'v', 'ref', 'v', 3)"),
	qr/Citus Workers/, 'fasted_citus.distribute = auto: a join of small tables is not divided');

# keys passed by reference; magnitudes; empty tables
sql(<<'END');
DROP TABLE dist, plain_dist, ref, plain_ref;
CREATE TABLE plain_dist (id text PRIMARY KEY, v double precision[]);
INSERT INTO plain_dist SELECT 'row ' || i * 7919 % 100003,
	(SELECT array_agg(sin(i * k) * 10 ^ (CASE i % 3 WHEN 0 THEN -20 WHEN 1 THEN 0 ELSE 15 END)) FROM generate_series(1, 37) k)
	FROM generate_series(1, 777) i;
CREATE TABLE dist (LIKE plain_dist INCLUDING ALL);
SELECT create_distributed_table('dist', 'id');
INSERT INTO dist TABLE plain_dist;
CREATE TABLE plain_ref (id text PRIMARY KEY, v double precision[]);
CREATE TABLE ref (LIKE plain_ref INCLUDING ALL);
SELECT create_distributed_table('ref', 'id');
END
same('text', "fasted_knn_join('dist', 'v', 'dist', 'v', 9, id_type => NULL::text)");
same('text, cosine', "fasted_knn_join('dist', 'v', 'dist', 'v', 9, id_type => NULL::text, metric => 'cosine')");
is(sql("SELECT count(*) FROM fasted_knn_join('dist', 'v', 'ref', 'v', 9, id_type => NULL::text)"), 0, 'an empty second relation');
is(sql("SELECT count(*) FROM fasted_knn_join('ref', 'v', 'dist', 'v', 9, id_type => NULL::text)"), 0, 'an empty first relation');
is(sql("SELECT count(*) FROM fasted_knn_join('ref', 'v', 'ref', 'v', 9, id_type => NULL::text)"), 0, 'both relations empty');
sql("INSERT INTO ref VALUES ('x', '{1, 2}')");
like(failure("SELECT count(*) FROM fasted_knn_join('dist', 'v', 'ref', 'v', 9, id_type => NULL::text)"),
	qr/22000: vectors have different numbers of dimensions.*"dist" is 37 .*"ref" is 2 .*Citus worker/s, 'dimensions differ');
is(sql("SELECT count(*) FROM fasted_knn_join('ref', 'v', 'ref', 'v', 9, id_type => NULL::text)"), 0, 'one row');

# --- privileges of the caller

sql('CREATE ROLE reader LOGIN');
my $nearest = "SELECT count(*) FROM fasted_knn_join('dist', 'v', 'dist', 'v', 9, id_type => NULL::text)";
like(failure("SET ROLE reader; $nearest"), qr/42501: permission denied for table dist/, 'no privilege to read the table');
sql('GRANT SELECT ON dist TO reader');
is(sql("SET ROLE reader; $nearest"), 777 * 9, 'the privilege to read the table suffices');
for my $slice ('9, 1, \'l2\', 0, 0', '9, 1, \'l2\', 3, 3', '0, 1, \'l2\', 0, 1', '9, -1, \'l2\', 0, 1', '9, 1, \'dot\', 0, 1')
{
	like(failure("SELECT fasted_citus.nearest_slice('dist', 'v', 'id', 'dist', 'v', 'id', 'text', $slice)"),
		qr/ERROR:  22023/, "invalid arguments of a slice: $slice");
}

# --- rows change during the join

sql('DELETE FROM ref; INSERT INTO ref SELECT id, v FROM plain_dist WHERE v[1] > -10 AND v[1] < 10');
my $two = "SELECT count(*) FROM fasted_knn_join('dist', 'v', 'ref', 'v', 1, id_type => NULL::text)";
is(sql($two), 777, 'without concurrent writes');
my $function = 'fasted_citus.nearest_slice';
make_late($workers[2], $function);

sub late { changes_before_late_read($node, $workers[2], @_); }

late('a row that looks', 'dist', $two, "INSERT INTO dist VALUES ('z', array_fill(1, '{37}'))", "DELETE FROM dist WHERE id = 'z'");
late('a row that is near', 'ref', $two, "INSERT INTO ref VALUES ('z', array_fill(1, '{37}'))", "DELETE FROM ref WHERE id = 'z'");
late('one table', 'dist', $nearest, "UPDATE dist SET v = v[2:37] || v[1] WHERE id = 'row 7919'",
	"UPDATE dist SET v = v[37] || v[1:36] WHERE id = 'row 7919'");
make_prompt($workers[2], $function);
is(sql($two), 777, 'without the delay the result is the same as before');

# rows written by the transaction itself
is(sql("BEGIN; INSERT INTO ref VALUES ('z', array_fill(1, '{37}')); $two; ROLLBACK"), 777, 'the transaction sees its own row');

# --- if a query ends early, its work ends on all workers

sql(<<'END');
CREATE TABLE items (id int PRIMARY KEY, v real[]);
SELECT create_distributed_table('items', 'id');
INSERT INTO items SELECT i, (SELECT array_agg((hashint4(i * 64 + k) & 255)::real) FROM generate_series(1, 64) k)
	FROM generate_series(1, 40000) i;
END
my $slow = "SET fasted.cpu_kernel = portable; SET fasted.prune = off; SELECT count(*) FROM fasted_knn_join('items', 'v', 'items', 'v', 50)";

sub busy
{
	my $session = FastedTest::Session->new($node);
	$session->send("$slow;\n\\echo done");
	ok(wait_until(sub { !grep { $_->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_fasted_progress WHERE phase = 'joining'") ne '1' } @workers }),
		'the join runs on all workers') or diag($session->{err});
	return $session;
}

sub ended
{
	my ($name, $session, $begin, $error) = @_;
	$session->wait_for(qr/(done)/);
	wait_until(sub { $session->{run}->pump_nb; $session->{err} =~ /ERROR/ }, 5);
	like($session->{err}, $error, $name);
	my $gone = wait_until(sub { !grep { slices_at($_) ne '' } @workers }, 20);
	ok($gone, sprintf('%s: no query remains after %.1f s', $name, time - $begin));
}

my $session = busy();
my $begin = time;
sql('SELECT pg_cancel_backend(' . $session->pid . ')');
ended('cancelled', $session, $begin, qr/canceling statement due to user request/);
$session = busy();
$begin = time;
$workers[1]->safe_psql('postgres', 'SELECT pg_cancel_backend(' . slices_at($workers[1]) . ')');
ended('cancelled on a worker', $session, $begin, qr/canceling statement due to user request.*Citus worker "127\.0\.0\.1/s);

done_testing();
