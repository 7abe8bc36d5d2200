# Joins by three workers return the same as by one server, and as by brute force.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../test/t";
use CitusCluster;
use FastedTest;
use Test::More;

my ($node, @workers) = new_cluster('results');

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

# The same rows in a distributed table (dist) and in a local one (plain).  The complete results
# for both tables are compared, and the join of dist must have been distributed.
sub same
{
	my ($name, $call) = @_;
	(my $plain = $call) =~ s/'dist'/'plain'/g;
	my $rows = is_same_rows($node, "SELECT * FROM $call", "SELECT * FROM $plain", $name);
	like(sql("EXPLAIN (ANALYZE, TIMING off, COSTS off) SELECT * FROM $call"), $divided, "$name: divided");
	return $rows;
}

# A window function reads a distributed table on the coordinator.
sub same_by_window
{
	my ($name, $call) = @_;
	is_same_rows($node, "SELECT id, $call FROM dist", "SELECT id, $call FROM plain", $name);
}

sub tables
{
	my ($columns, $rows, $distribute) = @_;
	sql("DROP TABLE IF EXISTS dist, plain; CREATE TABLE plain ($columns); INSERT INTO plain $rows;
		CREATE TABLE dist ($columns); SELECT $distribute; INSERT INTO dist TABLE plain");
}

my $hash = "create_distributed_table('dist', 'id')";

# whole numbers, so that distances tie at eps; duplicates; nulls; zero vectors
tables('id int PRIMARY KEY, v real[]', <<'END', $hash);
SELECT i, CASE WHEN i % 50 = 7 THEN NULL WHEN i % 50 = 8 THEN '{0,0,0,0,0,0}'
	ELSE (SELECT array_agg((hashint4(i % 700 * 6 + k) & 7)::real) FROM generate_series(1, 6) k) END
FROM generate_series(1, 1500) i
END
create_brute_force($node);
sql("CREATE TABLE truth AS SELECT * FROM brute_force('plain', 4)");
sql("ALTER TABLE plain ADD p int; ALTER TABLE dist ADD p int;
	UPDATE plain SET p = nullif(hashint4(id) % 3, 1); UPDATE dist SET p = nullif(hashint4(id) % 3, 1)");
is_same_pairs($node, "SELECT * FROM fasted_self_join('dist', 'v', 4)", "SELECT * FROM truth",
	'pairs as by brute force, including ties at eps');
for my $eps (0, 3, 4, 12)
{
	ok(same("pairs within $eps", "fasted_self_join('dist', 'v', $eps)") > 0, 'there are pairs');
}
same('both orders and self pairs', "fasted_self_join('dist', 'v', 3, ordered => true, self_pairs => true)");
same('cosine', "fasted_self_join('dist', 'v', 0.05, metric => 'cosine')");
same('infinity', "fasted_self_join('dist', 'v', 'Infinity')");
same('neighbors', "fasted_neighbors('dist', 'v', 4)");
same('neighbors by cosine', "fasted_neighbors('dist', 'v', 0.05, metric => 'cosine')");
same('clusters', "fasted_cluster('dist', 'v', 3)");
same('clusters of two', "fasted_cluster('dist', 'v', 3, 2)");
same('DBSCAN', "fasted_cluster('dist', 'v', 4, 6)");
is(sql("SELECT count(*) FROM fasted_self_join('dist', 'v', 4)"), sql("SELECT count(*) FROM truth"),
	'count(*)');
like(sql("EXPLAIN (ANALYZE, COSTS off) SELECT count(*) FROM fasted_self_join('dist', 'v', 4)"), $divided,
	'count(*): distributed');
is(sql("SELECT count(*) FROM fasted_self_join('dist', 'v', 4) WHERE dist > 2"),
	sql("SELECT count(*) FROM truth WHERE dist > 2"), 'a lower bound of the distance');
is(sql("SELECT count(*) FROM (SELECT FROM fasted_self_join('dist', 'v', 4) LIMIT 5) x"), 5, 'LIMIT');
is(sql("SELECT sum(neighbors) FROM dist JOIN fasted_neighbors('dist', 'v', 4) USING (id)"),
	2 * sql("SELECT count(*) FROM truth"), 'joined with its own table');
for my $call ("fasted_neighbors('dist', 'v', 4)", "(SELECT id_a AS id FROM fasted_self_join('dist', 'v', 4)) x",
	"(SELECT id_a AS id FROM fasted_knn_join('dist', 'v', 'dist', 'v', 2)) x")
{
	my $query = "EXPLAIN (ANALYZE) SELECT count(*) FROM dist JOIN $call USING (id)";
	my ($status, $out, $err) = $node->psql('postgres', $query);
	like($err, qr/ERROR:  EXPLAIN \(ANALYZE\) does not support fasted functions.*HINT.*fasted\.scan_node = off/s, 'EXPLAIN ANALYZE of a subplan of Citus is an error');
	like(sql("SET fasted.scan_node = off; $query"), qr/Distributed Subplan/, 'EXPLAIN ANALYZE works with fasted.scan_node = off');
}
is(sql("SELECT count(*) FROM (SELECT fasted_self_join('dist', 'v', 4)) x"),
	sql("SELECT count(*) FROM truth"), 'the function in a select list');
is(sql("SET fasted_citus.distribute = off; SELECT count(*) FROM fasted_self_join('dist', 'v', 4)"),
	sql("SELECT count(*) FROM truth"), 'fasted_citus.distribute = off: all pairs');
unlike(sql("SET fasted_citus.distribute = off; EXPLAIN (ANALYZE, COSTS off) SELECT count(*) FROM fasted_self_join('dist', 'v', 4)"),
	qr/Citus Workers/, 'fasted_citus.distribute = off: not divided');
unlike(sql("SET fasted_citus.distribute = auto; EXPLAIN (ANALYZE, COSTS off) SELECT count(*) FROM fasted_self_join('dist', 'v', 4)"),
	qr/Citus Workers/, 'fasted_citus.distribute = auto: a small join is not divided');
unlike(sql("EXPLAIN (ANALYZE, COSTS off) SELECT count(*) FROM fasted_self_join('plain', 'v', 4)"),
	qr/Citus Workers/, 'not a table of Citus: not divided');
same('the row to keep', "fasted_keep_one('dist', 'v', 3)");
same('the row to keep, by a priority', "fasted_keep_one('dist', 'v', 3, 'v')");
same('the other way', "fasted_keep_one('dist', 'v', 3, 'v', descending => true)");
same('by a priority that ties', "fasted_keep_one('dist', 'v', 4, 'p', metric => 'cosine')");
is(sql("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
	SELECT count(*) FROM (SELECT id_a % 7 FROM fasted_self_join('dist', 'v', 4) WHERE id_a % 2 = id_b % 2 GROUP BY 1) x"),
	7, 'with parallel workers');
is(sql("BEGIN; DECLARE c CURSOR FOR SELECT * FROM fasted_self_join('dist', 'v', 4); MOVE 100 IN c;
	SELECT count(*) FROM dist; MOVE ALL IN c; FETCH 1 IN c; COMMIT"), 1500, 'a cursor');

# huge and tiny magnitudes, arbitrary numbers, panels
tables('id bigint PRIMARY KEY, v double precision[]', <<'END', $hash);
SELECT i * 7919 % 100003, (SELECT array_agg(sin(i * k) * 10 ^ (CASE i % 3 WHEN 0 THEN -20 WHEN 1 THEN 0 ELSE 15 END))
	FROM generate_series(1, 37) k) FROM generate_series(1, 1777) i
END
same('magnitudes', "fasted_self_join('dist', 'v', 4)");
same('huge ones', "fasted_self_join('dist', 'v', 3e15)");
sql("ALTER DATABASE postgres SET fasted.memory_limit = '1MB'");
same('panels', "fasted_self_join('dist', 'v', 4)");
sql("ALTER DATABASE postgres RESET fasted.memory_limit");

# workers agree on an order of the rows
sql("ALTER DATABASE postgres SET fasted.prune = 'force'");
my $pruned = "EXPLAIN (ANALYZE, COSTS off) SELECT * FROM fasted_self_join('dist', 'v', 4)";
same('pruned', "fasted_self_join('dist', 'v', 4)");
same('pruned, neighbors', "fasted_neighbors('dist', 'v', 4)");
same('pruned, clusters', "fasted_cluster('dist', 'v', 4)");
like(sql($pruned), qr/Tiles Tested/, 'pruning is used');
is(sql("SET fasted.memory_limit = '1MB'; SELECT count(*) FROM fasted_self_join('dist', 'v', 4)"),
	sql("SELECT count(*) FROM fasted_self_join('plain', 'v', 4)"), 'pruned, panels');

# kernels and numbers of threads may differ between workers
configure($_, $workers[1]) for 'fasted.cpu_kernel = portable', 'fasted.threads = 2';
same('another kernel', "fasted_self_join('dist', 'v', 4)");
unlike(sql($pruned), qr/Tiles Tested/, 'different kernels: workers do not agree on an order');
# if workers were told that kernels are identical, each would reorder rows in its own way
sub on_workers { my ($sql) = @_; $_->safe_psql('postgres', "SET citus.enable_ddl_propagation = off; $sql") for @workers; return; }
on_workers("ALTER FUNCTION fasted_citus.kernel() RENAME TO true_kernel;
	CREATE FUNCTION fasted_citus.kernel() RETURNS text LANGUAGE sql AS 'SELECT ''any'''");
my $refused = ($node->psql('postgres', "\\set VERBOSITY verbose\nSELECT count(*) FROM fasted_self_join('dist', 'v', 4)"))[2];
like($refused, qr/55000: the Citus workers divide the join into different slices.*, order [0-9a-f]{16}\. .*, order [0-9a-f]{16}\..*fasted\.prune = off/s,
	'different orders are an error');
on_workers('DROP FUNCTION fasted_citus.kernel(); ALTER FUNCTION fasted_citus.true_kernel() RENAME TO kernel');
configure($_, $workers[1]) for 'fasted.cpu_kernel = auto', 'fasted.threads = 1';
sql("ALTER DATABASE postgres RESET fasted.prune");
configure('fasted.prune = off', $workers[1]);
configure('fasted.prune = force', @workers[0, 2]);
same('pruned on some', "fasted_self_join('dist', 'v', 4)");
unlike(sql($pruned), qr/Tiles Tested/, 'pruning is off on some workers: no worker prunes');
configure('fasted.prune = auto', @workers);
sql("ALTER DATABASE postgres SET fasted.cpu_kernel = 'portable'");
same('another kernel everywhere', "fasted_self_join('dist', 'v', 5)");
sql("ALTER DATABASE postgres RESET fasted.cpu_kernel");

# bits: near copies, rows without a bit
tables('id int PRIMARY KEY, v bit(200)', <<'END', $hash);
SELECT i, CASE WHEN i % 50 = 7 THEN NULL WHEN i % 50 = 8 THEN 0::bit(200)
	ELSE set_bit(repeat((hashint4(i % 90) & 16383)::bit(14)::text, 15)::bit(200), i % 200, i % 2) END
FROM generate_series(1, 1500) i
END
same('Hamming distance', "fasted_self_join('dist', 'v', 2, metric => 'hamming')");
same('Jaccard distance', "fasted_self_join('dist', 'v', 0.02, metric => 'jaccard')");
same('clusters of bits', "fasted_cluster('dist', 'v', 0.02, 3, metric => 'jaccard')");
same('nearest rows of bits', "fasted_knn_join('dist', 'v', 'dist', 'v', 5, metric => 'jaccard')");

# cosine distance: a vector of doubles has a direction, whatever its magnitude
tables('id int PRIMARY KEY, v double precision[]', <<'END', $hash);
SELECT i, CASE WHEN i % 50 = 0 THEN '{0,0}' ELSE ARRAY[cos(i * 0.003) * m, sin(i * 0.003) * m] END
FROM generate_series(1, 1500) i, LATERAL (SELECT ('{1e-320,1e-160,1e-100,1,1e76,1e150,1e300}'::float8[])[1 + i % 7]) s (m)
END
is_same_rows($node, "SELECT * FROM fasted_neighbors('dist', 'v', 0.0001, metric => 'cosine')",
	'SELECT id, (SELECT count(*) FROM plain b WHERE a.id <> b.id AND fasted_cosine_distance(a.v, b.v) <= 0.0001) FROM plain a',
	'cosine distance at any magnitude, as by brute force');
same("cosine of any magnitude, $_", "$_ metric => 'cosine')")
  for "fasted_self_join('dist', 'v', 0.0001,", "fasted_neighbors('dist', 'v', 0.0001,", "fasted_cluster('dist', 'v', 0.000004,",
	"fasted_cluster('dist', 'v', 0.0001, 8,", "fasted_keep_one('dist', 'v', 0.0001,", "fasted_knn_join('dist', 'v', 'dist', 'v', 3,";

# keys of other types
tables('id uuid PRIMARY KEY, v real[]', "SELECT md5(i::text)::uuid, ARRAY[i % 40, i % 7] FROM generate_series(1, 1000) i", $hash);
same('uuid', "fasted_self_join('dist', 'v', 1, id_type => NULL::uuid)");
same_by_window('uuid, clusters', "fasted_dbscan(v, 1, 5) OVER (ORDER BY id)");
tables('id text PRIMARY KEY, v numeric[]', "SELECT 'row ' || i, ARRAY[i % 40, i % 7] FROM generate_series(1, 1000) i", $hash);
same('text', "fasted_self_join('dist', 'v', 1, id_type => NULL::text)");
same_by_window('text, neighbors', 'fasted_neighbor_count(v, 1) OVER ()');
same_by_window('text, the row to keep', 'fasted_keep(v, 1, id) OVER (ORDER BY v DESC, id)');
tables('id smallint PRIMARY KEY, "My v" real[]', "SELECT i, ARRAY[i % 40, i % 7] FROM generate_series(1, 1000) i",
	"create_reference_table('dist')");
same('a reference table', "fasted_self_join('dist', 'My v', 1)");
sql("CREATE TYPE letter AS ENUM ('z', 'a', 'm')");
tables('k int, id letter, v real[]', "VALUES (1, 'z'::letter, '{1}'::real[]), (2, 'a', '{2}'), (3, 'm', '{3}')", "create_distributed_table('dist', 'k')");
is_same_rows($node, "SELECT * FROM fasted_self_join('dist', 'v', 1, id_type => NULL::letter, id_column => 'id')",
	"SELECT * FROM fasted_self_join('plain', 'v', 1, id_type => NULL::letter, id_column => 'id')", 'an enum, whose labels have an OID on each node');
sql('CREATE DOMAIN doubles AS double precision[]');
tables('id int PRIMARY KEY, v doubles', "SELECT i, ARRAY[i % 40 + 1e-9 * i, i % 7] FROM generate_series(1, 500) i", $hash);
same('a domain', "fasted_self_join('dist', 'v', 1)");
same_by_window('a domain, neighbors', 'fasted_neighbor_count(v, 1) OVER ()');

# few rows, or none
tables('id int PRIMARY KEY, v real[]', 'SELECT 1, NULL WHERE false', $hash);
is(sql("SELECT count(*) FROM fasted_self_join('dist', 'v', 1)"), 0, 'an empty table');
is(sql("SELECT count(*) FROM fasted_neighbors('dist', 'v', 1)"), 0, 'an empty table, neighbors');
is(sql("SELECT * FROM fasted_cluster('dist', 'v', 1)"), '', 'an empty table, clusters');
is(sql("SELECT * FROM fasted_keep_one('dist', 'v', 1, 'v')"), '', 'an empty table, representatives');
sql("INSERT INTO dist VALUES (5, '{1}')");
is(sql("SELECT * FROM fasted_neighbors('dist', 'v', 1)"), '5|0', 'one row');
sql("INSERT INTO dist VALUES (6, '{2}')");
is(sql("SELECT * FROM fasted_self_join('dist', 'v', 1)"), '5|6|1', 'two rows');
is(sql("SELECT * FROM fasted_keep_one('dist', 'v', 1, 'v', descending => true)"), "5|6|1\n6|6|0", 'the second row is the representative');

# errors about rows are the same as without workers
my ($status, $out, $err);
sql("INSERT INTO dist VALUES (7, '{1, 2}')");
($status, $out, $err) = $node->psql('postgres', "SELECT count(*) FROM fasted_self_join('dist', 'v', 1)");
like($err, qr/different numbers of dimensions/, 'dimensions differ');
like($err, qr/Citus worker "127\.0\.0\.1:\d+"/, 'the error names the worker');
sql("UPDATE dist SET v = '{NaN}' WHERE id = 7");
($status, $out, $err) = $node->psql('postgres', "SELECT count(*) FROM fasted_self_join('dist', 'v', 1)");
like($err, qr/NaN|not finite/i, 'NaN');

done_testing();
