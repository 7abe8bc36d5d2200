# Whoever joins does so as himself, on the workers too; what can't be divided is not.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use CitusCluster;
use FastedTest;
use Test::More;

my ($node, @workers) = new_cluster('rights');

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }
sub failure { my ($sql) = @_; my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql"); return $err; }

sql(<<'END');
CREATE ROLE reader LOGIN;
CREATE TABLE items (id int PRIMARY KEY, v real[], secret real[]);
SELECT create_distributed_table('items', 'id');
INSERT INTO items SELECT i, ARRAY[i], ARRAY[i] FROM generate_series(1, 100) i;
END
my $count = "SELECT count(*) FROM fasted_self_join('items', 'v', 1)";
my $plan = "EXPLAIN (ANALYZE, COSTS off) $count";

# --- the caller's rights

like(failure("SET ROLE reader; $count"), qr/42501: permission denied for table items/, 'no right to read');
sql('GRANT SELECT (id, v) ON items TO reader');
is(sql("SET ROLE reader; $count"), 99, 'rights to two columns');
like(sql("SET ROLE reader; $plan"), $divided, 'and divided');
like(failure("SET ROLE reader; SELECT count(*) FROM fasted_self_join('items', 'secret', 1)"), qr/42501/, 'but not to others');
sql("CREATE FUNCTION definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM fasted_self_join(''items'', ''secret'', 1)'");
is(sql("SET ROLE reader; SELECT definer()"), 99, 'SECURITY DEFINER');
is(sql("SET ROLE reader; SELECT count(*) FROM fasted_citus.join_slice('items', 'v', 1, 'id', 'bigint', 'l2', false, 'count', 0, 1)"),
	2, 'a slice by itself');
like(failure("SET ROLE reader; SELECT fasted_citus.join_slice('items', 'secret', 1, 'id', 'bigint', 'l2', false, 'count', 0, 1)"),
	qr/42501/, 'but with the same rights');
for my $slice ('0, 0', '1, 1', '-1, 3', '3, 3')
{
	like(failure("SELECT fasted_citus.join_slice('items', 'v', 1, 'id', 'bigint', 'l2', false, 'count', $slice)"),
		qr/22023: there is no slice/, "slice $slice");
}
like(failure("SELECT fasted_citus.join_slice('items', 'v', 1, 'id', 'bigint', 'l2', false, 'triples', 0, 1)"),
	qr/22023: there is no output/, 'an output that is none');

# --- row security: not divided, and in force

sql("CREATE POLICY odd ON items USING (id % 2 = 1); ALTER TABLE items ENABLE ROW LEVEL SECURITY");
like(sql($plan), $divided, 'it does not concern a superuser');
is(sql("SET ROLE reader; SELECT count(*) FROM fasted_self_join('items', 'v', 2)"), 49, 'the rows of the policy');
unlike(sql("SET ROLE reader; $plan"), qr/Citus Workers/, 'not divided');
sql("ALTER TABLE items DISABLE ROW LEVEL SECURITY; DROP POLICY odd ON items");

# --- what a session sets holds on the workers, what is wrong there is told

like(sql("SET fasted.cpu_kernel = portable; $plan"), qr/Kernel: portable/, 'settings go along');
like(failure("SET fasted.engine = cuda; SET fasted.cuda_library = 'none'; $count"), qr/CUDA engine is not available/,
	'an engine that is not there');
$workers[1]->safe_psql('postgres', <<'END');
SET citus.enable_ddl_propagation = off;
ALTER FUNCTION fasted_citus.join_slice(regclass, name, double precision, name, regtype, text, boolean, text, integer, integer)
	RENAME TO other_slice;
END
like(failure($count), qr/42883: function fasted_citus\.join_slice.* does not exist.*Citus worker/s, 'a worker without it');
$workers[1]->safe_psql('postgres', <<'END');
SET citus.enable_ddl_propagation = off;
ALTER FUNCTION fasted_citus.other_slice(regclass, name, double precision, name, regtype, text, boolean, text, integer, integer)
	RENAME TO join_slice;
END

# panels of other sizes: slices would not be complements
sql("INSERT INTO items SELECT i, array_fill(i::real, '{500}'), NULL FROM generate_series(101, 3000) i; DELETE FROM items WHERE id <= 100");
is(sql($count), 0, 'more rows');
$workers[1]->append_conf('postgresql.conf', "fasted.memory_limit = '2MB'");
$workers[1]->reload;
like(failure($count), qr/55000: the Citus workers do not divide a join alike.*panels of/s, 'other panels on one worker');
is(sql("SET fasted.memory_limit = '3MB'; $count"), 0, 'the same for all');
is(sql("SET fasted.distribute = off; $count"), 0, 'off');

# --- which nodes

sql("SELECT citus_set_node_property('127.0.0.1', " . $workers[1]->port . ", 'shouldhaveshards', false)");
my $two = sql("SET fasted.memory_limit = '3MB'; $plan");
unlike($two, $divided, 'a node that should have no shards');
like($two, qr/Citus Workers: \S+ \(50%.*, \S+ \(50%/, 'the others do it');

# a table that is large enough
sql("SET fasted.memory_limit = '3MB'; INSERT INTO items SELECT i, array_agg(sin(i * k)), NULL FROM generate_series(3001, 23000) i, generate_series(1, 500) k GROUP BY i");
like(sql("SET fasted.distribute = auto; $plan"), qr/Citus Workers/, 'auto: divided, it is large');

done_testing();
