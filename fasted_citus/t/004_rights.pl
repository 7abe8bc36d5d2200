# Workers use the privileges of the user who joins; and the cases that are not distributed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../test/t";
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

# --- privileges of the caller

like(failure("SET ROLE reader; $count"), qr/42501: permission denied for table items/, 'no privilege to read the table');
sql('GRANT SELECT (id, v) ON items TO reader');
is(sql("SET ROLE reader; $count"), 99, 'privileges on two columns');
like(sql("SET ROLE reader; $plan"), $divided, 'the join is distributed');
like(failure("SET ROLE reader; SELECT count(*) FROM fasted_self_join('items', 'secret', 1)"), qr/42501/, 'no privilege on a third column');
sql(q{CREATE ROLE "o'neil \\ x" LOGIN; GRANT SELECT (id, v) ON items TO "o'neil \\ x"});
like(sql(qq{SET ROLE "o'neil \\ x"; $plan}), $divided, 'a role whose name is quoted in a connection string');
# connection strings that Citus accepts: an escape without a character, parameters without a value
my $node_id = sql('SELECT nodeid FROM pg_dist_node WHERE nodeport = ' . $workers[0]->port);
for my $case ([ 'password=secret\\', 'host=127.0.0.1\\' ], [ "password=''", "dbname=''" ])
{
	my ($auth, $pool) = @$case;
	my $change = "INSERT INTO pg_dist_authinfo VALUES (0, 'reader', \$\$$auth\$\$); INSERT INTO pg_dist_poolinfo VALUES ($node_id, \$\$$pool\$\$)";
	my ($status, $out, $err) = $node->psql('postgres', "BEGIN; $change; SET LOCAL ROLE reader; $plan; ROLLBACK");
	ok($status == 0 && $out =~ $divided && $err !~ /secret/, "connection strings $auth and $pool") or diag($out, $err);
}
sql("CREATE FUNCTION definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM fasted_self_join(''items'', ''secret'', 1)'");
is(sql("SET ROLE reader; SELECT definer()"), 99, 'a SECURITY DEFINER function has the privileges of its owner');
is(sql("SET ROLE reader; SELECT count(*) FROM fasted_citus.join_slice('items', 'v', 1, 'id', 'bigint', 'l2', false, 'count', 0, 1)"),
	2, 'a user with privileges may request a slice');
like(failure("SET ROLE reader; SELECT fasted_citus.join_slice('items', 'secret', 1, 'id', 'bigint', 'l2', false, 'count', 0, 1)"),
	qr/42501/, 'a slice is read with the privileges of the caller');
for my $slice ('0, 0', '1, 1', '-1, 3', '3, 3')
{
	like(failure("SELECT fasted_citus.join_slice('items', 'v', 1, 'id', 'bigint', 'l2', false, 'count', $slice)"),
		qr/22023: invalid slice number/, "slice $slice");
}
like(failure("SELECT fasted_citus.join_slice('items', 'v', 1, 'id', 'bigint', 'l2', false, 'triples', 0, 1)"),
	qr/22023: unrecognized slice output/, 'an invalid output');

# --- an extension that Citus has not created on all nodes: another user might have made its functions there

unlike(sql("BEGIN; DELETE FROM pg_dist_object WHERE classid = 'pg_extension'::regclass
	AND objid = (SELECT oid FROM pg_extension WHERE extname = 'fasted_citus'); $plan; ROLLBACK"), qr/Citus Workers/,
	'functions of an extension that may be missing on a node are not called');

# --- row security: applied, and the join is not distributed

sql("CREATE POLICY odd ON items USING (id % 2 = 1); ALTER TABLE items ENABLE ROW LEVEL SECURITY");
like(sql($plan), $divided, 'row security does not apply to a superuser');
is(sql("SET ROLE reader; SELECT count(*) FROM fasted_self_join('items', 'v', 2)"), 49, 'only rows that the policy allows');
unlike(sql("SET ROLE reader; $plan"), qr/Citus Workers/, 'a join with row security is not distributed');
sql("ALTER TABLE items DISABLE ROW LEVEL SECURITY; DROP POLICY odd ON items");

# --- views

sql(<<'END');
CREATE VIEW half AS SELECT id, v, secret FROM items WHERE id > 50;
CREATE VIEW quarter AS SELECT id AS key, v AS w FROM half WHERE id > 75;
CREATE VIEW numbered AS SELECT row_number() OVER () AS id, v FROM items;
CREATE VIEW few AS SELECT id, v FROM items LIMIT 10;
CREATE VIEW today AS SELECT id, v FROM items WHERE now() > '-infinity';
CREATE VIEW twice AS SELECT a.id, a.v FROM items a JOIN items b USING (id);
SET citus.enable_ddl_propagation = off;
CREATE VIEW here AS SELECT id, v FROM items WHERE id > 90;
END
sub view
{
	my ($call) = @_;
	return sql("SELECT count(*) FROM $call") . (sql("EXPLAIN (ANALYZE, COSTS off) SELECT count(*) FROM $call") =~ /Citus Workers/ ? ', divided' : '');
}
is(view("fasted_self_join('half', 'v', 1, id_column => 'id')"), '49, divided', 'a view');
is(view("fasted_self_join('quarter', 'w', 1, id_column => 'key')"), '24, divided', 'a view of a view');
is(view("fasted_self_join('numbered', 'v', 1, id_column => 'id')"), 99, 'a view with row numbers');
is(sql("SELECT count(*) FROM fasted_neighbors('few', 'v', 0, id_column => 'id')"), 10, 'a view with a limit');
is(view("fasted_self_join('today', 'v', 1, id_column => 'id')"), 99, 'a view that calls now()');
is(view("fasted_self_join('twice', 'v', 1, id_column => 'id')"), 99, 'a view of a join');
is(view("fasted_self_join('here', 'v', 1, id_column => 'id')"), 9, 'a view that exists on this node only');
like(sql("EXPLAIN (ANALYZE, COSTS off) SELECT * FROM fasted_knn_join('half', 'v', 'items', 'v', 2, a_id => 'id')"), qr/Citus Workers/,
	'nearest rows of a view');
for my $case ([ 'CREATE VIEW new AS SELECT id AS key, v AS w FROM items WHERE id > 90', 'new', 9 ],
	[ 'CREATE OR REPLACE VIEW half AS SELECT id, v, secret FROM items WHERE id > 80', 'quarter', 19 ])
{
	my ($change, $view, $pairs) = @$case;
	# workers would not see the change, or would wait for the end of the transaction
	is(sql("BEGIN; SET LOCAL statement_timeout = '60s'; $change; SELECT count(*) FROM fasted_self_join('$view', 'w', 1, id_column => 'key'); ROLLBACK"),
		$pairs, "in the transaction: $change");
}
my $half = "SELECT count(*) FROM fasted_self_join('half', 'secret', 1, id_column => 'id')";
like(failure("SET ROLE reader; $half"), qr/42501/, 'no privilege to read the view');
sql('GRANT SELECT ON half TO reader; GRANT SELECT (secret) ON items TO reader');
is(sql("SET ROLE reader; $half"), 49, 'privileges on the view and on the table, which Citus requires');
sql('REVOKE SELECT (secret) ON items FROM reader');
is(sql("BEGIN; INSERT INTO items VALUES (101, '{101}'); SELECT count(*) FROM fasted_self_join('half', 'v', 1, id_column => 'id'); ROLLBACK"),
	50, 'of a table that the transaction writes to');
sql("CREATE POLICY odd ON items USING (id % 2 = 1); ALTER TABLE items ENABLE ROW LEVEL SECURITY");
is(view("fasted_self_join('half', 'v', 1, id_column => 'id')"), 49, 'of a table with row security');
sql("ALTER TABLE items DISABLE ROW LEVEL SECURITY; DROP POLICY odd ON items; DROP VIEW here, twice, today, few, numbered, quarter, half");

# --- settings of the session apply to the workers; errors of workers are reported

like(sql("SET fasted.cpu_kernel = portable; $plan"), qr/Kernel: portable/, 'settings are sent to workers');
like(failure("SET fasted.engine = cuda; SET fasted.cuda_library = 'none'; $count"), qr/CUDA engine is not available/,
	'an engine that a worker does not have');
$workers[1]->safe_psql('postgres', <<'END');
SET citus.enable_ddl_propagation = off;
ALTER FUNCTION fasted_citus.join_slice(regclass, name, double precision, name, regtype, text, boolean, text, integer, integer, boolean)
	RENAME TO other_slice;
END
like(failure($count), qr/42883: function fasted_citus\.join_slice.* does not exist.*Citus worker/s, 'a worker without the function');
$workers[1]->safe_psql('postgres', <<'END');
SET citus.enable_ddl_propagation = off;
ALTER FUNCTION fasted_citus.other_slice(regclass, name, double precision, name, regtype, text, boolean, text, integer, integer, boolean)
	RENAME TO join_slice;
END

# different panel sizes: the slices would not be complementary
sql("INSERT INTO items SELECT i, array_fill(i::real, '{500}'), NULL FROM generate_series(101, 3000) i; DELETE FROM items WHERE id <= 100");
is(sql($count), 0, 'more rows');
configure("fasted.memory_limit = '2MB'", $workers[1]);
like(failure($count), qr/55000: the Citus workers divide the join into different slices.*panels of/s, 'another panel size on one worker');
is(sql("SET fasted.memory_limit = '3MB'; $count"), 0, 'the same panel size on all workers');
is(sql("SET fasted_citus.distribute = off; $count"), 0, 'not distributed');

# --- choice of the nodes

sql("SELECT citus_set_node_property('127.0.0.1', " . $workers[1]->port . ", 'shouldhaveshards', false)");
my $two = sql("SET fasted.memory_limit = '3MB'; $plan");
unlike($two, $divided, 'a node with shouldhaveshards = false does not join');
like($two, qr/Citus Workers: \S+ \(50%.*, \S+ \(50%/, 'the nodes with shouldhaveshards = true join');

# a sufficiently large table
sql("SET fasted.memory_limit = '3MB'; INSERT INTO items SELECT i, array_agg(sin(i * k)), NULL FROM generate_series(3001, 23000) i, generate_series(1, 500) k GROUP BY i");
like(sql("SET fasted_citus.distribute = auto; $plan"), qr/Citus Workers/, 'auto: a large table is distributed');

done_testing();
