# Joins on a distance, which Citus distributes by shards if it can.  Each shard uses our join node.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../test/t";
use CitusCluster;
use FastedTest;
use Test::More;

my ($node) = new_cluster('joins');

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

sql(<<'END');
CREATE FUNCTION vector(i int, of int) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 50 = 7 THEN NULL ELSE (SELECT array_agg((hashint4(i % of * 6 + k) & 7)::real) FROM generate_series(1, 6) k) END $$;
CREATE TABLE plain_items (id int PRIMARY KEY, tenant int, v real[]);
INSERT INTO plain_items SELECT i, i % 7, vector(i, 700) FROM generate_series(1, 1500) i;
CREATE TABLE plain_others (id int PRIMARY KEY, tenant int, v real[]);
INSERT INTO plain_others SELECT i, i % 5, vector(i * 3, 500) FROM generate_series(1, 900) i;
CREATE TABLE plain_tenants (tenant int, id int, v real[], PRIMARY KEY (tenant, id));
INSERT INTO plain_tenants SELECT tenant, id, v FROM plain_items;
CREATE TABLE plain_ref (LIKE plain_others INCLUDING ALL);
INSERT INTO plain_ref TABLE plain_others;
CREATE TABLE items (LIKE plain_items INCLUDING ALL);
CREATE TABLE others (LIKE plain_others INCLUDING ALL);
CREATE TABLE tenants (LIKE plain_tenants INCLUDING ALL);
CREATE TABLE ref (LIKE plain_ref INCLUDING ALL);
SELECT create_distributed_table('items', 'id');
SELECT create_distributed_table('others', 'id', colocate_with => 'none', shard_count => 4);
SELECT create_distributed_table('tenants', 'tenant', colocate_with => 'none');
SELECT create_reference_table('ref');
INSERT INTO items TABLE plain_items;
INSERT INTO others TABLE plain_others;
INSERT INTO tenants TABLE plain_tenants;
INSERT INTO ref TABLE plain_ref;
END

# The result is the same as that of the query over local tables, and each of the expected
# number of tasks has a join node.
sub same
{
	my ($name, $query, $tasks) = @_;
	(my $plain = $query) =~ s/\b(FROM|JOIN|USING|TABLE) (items|others|tenants|ref)\b/$1 plain_$2/g;
	my $rows = sql("SELECT count(*), md5(string_agg(x::text, ',' ORDER BY x::text)) FROM ($query) x");
	is($rows, sql("SELECT count(*), md5(string_agg(x::text, ',' ORDER BY x::text)) FROM ($plain) x"), $name);
	cmp_ok((split(/\|/, $rows))[0], '>', 0, "$name: there are rows");
	like(sql("EXPLAIN (COSTS off) $query"), qr/Task Count: $tasks\n(?!.*Task Count).*Custom Scan \(FastedJoin\)/s,
		"$name: $tasks tasks have a join node");
	return;
}

my $within = 'fasted_within(a.v, b.v, 3)';
my $columns = 'SELECT a.id AS id_a, b.id AS id_b';
same('a reference table', "$columns, fasted_distance(a.v, b.v) AS dist FROM items a JOIN ref b ON $within", 6);
same('an outer join', "$columns FROM items a LEFT JOIN ref b ON a.id < b.id AND fasted_within(a.v, b.v, 1)", 6);
same('a semijoin', "SELECT a.id FROM items a WHERE EXISTS (SELECT FROM ref b WHERE $within)", 6);
same('an antijoin', "SELECT a.id FROM items a WHERE NOT EXISTS (SELECT FROM ref b WHERE $within)", 6);
same('by cosine', "$columns FROM items a JOIN ref b ON fasted_within(a.v, b.v, 0.02, 'cosine')", 6);
same('a local table', "$columns FROM items a JOIN plain_ref b ON $within", 6);
same('co-located rows', "$columns FROM tenants a JOIN tenants b ON a.tenant = b.tenant AND a.id < b.id AND $within", 6);
same('two tables, one of which goes to all workers',
	"$columns FROM items a JOIN (SELECT id, v FROM others OFFSET 0) b ON $within", 6);
same('the other table goes to all workers', "$columns FROM others a JOIN (SELECT id, v FROM items OFFSET 0) b ON $within", 4);
same('a self-join', "$columns FROM items a JOIN (SELECT id, v FROM items OFFSET 0) b ON a.id < b.id AND $within", 6);
my $with = "WITH b AS MATERIALIZED (SELECT id, v FROM items) SELECT count(*) FROM items a JOIN b ON a.id < b.id AND $within";
is(sql($with), sql("SELECT count(*) FROM fasted_self_join('plain_items', 'v', 3)"), 'WITH');
like(sql("EXPLAIN (ANALYZE, COSTS off) $with"), qr/Distributed Subplan.*Task Count: 6\n.*FastedJoin.*Aggregate: count\(\*\)/s, 'WITH: the worker counts the pairs');
is(sql("BEGIN; INSERT INTO items VALUES (2001, 1, '{-50,0,0,0,0,0}'), (2002, 1, '{-50,0,0,0,0,1}'); $with; ROLLBACK"),
	sql($with) + 1, "a transaction's own rows");
is(sql("BEGIN; DELETE FROM items a USING (SELECT id, v FROM items OFFSET 0) b WHERE b.id < a.id AND fasted_within(a.v, b.v, 0); SELECT count(*) FROM items; ROLLBACK"),
	sql("BEGIN; DELETE FROM plain_items a USING plain_items b WHERE b.id < a.id AND fasted_within(a.v, b.v, 0); SELECT count(*) FROM plain_items; ROLLBACK"),
	'DELETE');
is(sql("BEGIN; INSERT INTO others SELECT id + 10000, tenant, v FROM items a WHERE NOT EXISTS (SELECT FROM ref b WHERE $within); SELECT count(*) FROM others; ROLLBACK"),
	sql("SELECT count(*) + 900 FROM plain_items a WHERE NOT EXISTS (SELECT FROM plain_ref b WHERE $within)"), 'INSERT');

# --- our functions in statements that write: in a subquery, or in an earlier statement

my $keep = "fasted_keep_one('items', 'v', 3, 'tenant', descending => true)";
my $kept = sql("SELECT count(*) FROM fasted_keep_one('plain_items', 'v', 3, 'tenant', descending => true) WHERE kept <> id");
cmp_ok($kept, '>', 100, 'there are rows to delete');
my ($status, $out, $err) = $node->psql('postgres', "DELETE FROM items USING $keep k WHERE items.id = k.id AND k.kept <> k.id");
like($err, qr/ERROR:  cannot execute a distributed query from a query on a shard/, 'Citus rejects the direct form');
for my $delete ("DELETE FROM items WHERE id IN (SELECT id FROM $keep k WHERE kept <> id)",
	"DELETE FROM items USING (SELECT * FROM $keep OFFSET 0) k WHERE items.id = k.id AND k.kept <> k.id",
	"WITH k AS MATERIALIZED (SELECT * FROM $keep) DELETE FROM items USING k WHERE items.id = k.id AND k.kept <> k.id",
	"CREATE TEMP TABLE k ON COMMIT DROP AS SELECT * FROM $keep; DELETE FROM items WHERE id IN (SELECT id FROM k WHERE kept <> id)")
{
	is(sql("BEGIN; $delete; SELECT (SELECT count(*) FROM items), (SELECT count(*) FROM items JOIN (TABLE plain_items) p USING (id, v)); ROLLBACK"),
		(1500 - $kept) . '|' . sql("SELECT count(*) - $kept FROM plain_items WHERE v IS NOT NULL"), (split(/ \(| k /, $delete))[0]);
}
like(sql("EXPLAIN (ANALYZE, COSTS off) CREATE TEMP TABLE k AS SELECT * FROM $keep"), qr/Citus Workers/, 'into a temporary table first: distributed');

($status, $out, $err) = $node->psql('postgres', "SELECT count(*) FROM items a JOIN others b ON $within");
like($err, qr/ERROR:  complex joins are only supported/, 'Citus rejects a join of two tables in this form');

done_testing();
