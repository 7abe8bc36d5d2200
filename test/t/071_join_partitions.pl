# Joins within many partitions: in one engine, in several, in panels.  The result is the same as
# by a nested loop.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('join_groups');

# Whole-number coordinates: ties at every eps, duplicates within partitions and across them.
# Partitions of 1 to 60 rows and one of 900; some vectors have 5 dimensions instead of 7;
# nulls, and vectors that only the clauses can compare.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION some_vector(seed int, d int) RETURNS real[] LANGUAGE sql IMMUTABLE AS
	$$ SELECT array_agg((abs(hashint8extended(k, seed / 2)) % 4)::real) FROM generate_series(1, d) k $$;
CREATE TABLE items AS SELECT g AS id, t AS tenant, CASE WHEN g % 37 <> 0 THEN some_vector(g, 7) END AS v
	FROM (SELECT row_number() OVER ()::int AS g, t FROM (SELECT t FROM generate_series(1, 150) t, generate_series(1, 1 + t * 7 % 60) k
		UNION ALL SELECT 1000 FROM generate_series(1, 900)) x) y;
CREATE TABLE others AS SELECT id * 3 AS id, tenant, some_vector(id * 5 % 4001, 7) AS v FROM items WHERE tenant % 4 > 0 AND id % 2 = 0;
CREATE TABLE mixed AS SELECT id, tenant, CASE WHEN tenant % 5 = 2 THEN some_vector(id, 5) ELSE v END AS v FROM items;
CREATE TABLE odd AS SELECT id, tenant, CASE WHEN id % 211 = 7 THEN v[1:3] WHEN id % 89 = 3 THEN v || '{0}' ELSE v END AS v FROM items
	WHERE tenant BETWEEN 1 AND 60;
CREATE TABLE pairs AS SELECT g AS id, g / 2 AS tenant, some_vector(g, 7) AS v FROM generate_series(1, 6000) g;
ANALYZE;
END

my $forced = 'SET enable_nestloop = off; SET enable_hashjoin = off; SET enable_mergejoin = off';
my $within = 'fasted_within(a.v, b.v, 2)';

# Returns the result, or the SQLSTATE of the error.
sub result_of
{
	my ($set, $query) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "$set;\n$query", extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
	return $status == 0 ? $out : ($err =~ /ERROR:\s+(\w{5})/ ? "error $1" : "status $status: $err");
}

sub explained
{
	my ($set, $query) = @_;
	return $node->safe_psql('postgres', "$forced; $set;\nEXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query");
}

my %in_memory = ('all partitions together' => 'SELECT', 'a few partitions at a time' => "SET fasted.memory_limit = '1MB'",
	'read by workers' => "SET fasted.memory_limit = '1MB'; SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0");

sub same
{
	my ($query, $name) = @_;
	my $sum = "SELECT count(*), sum(hashtextextended(q::text, 0)::numeric) FROM ($query) q";
	my $expected = result_of('SET fasted.join_node = off', $sum);
	for my $memory (sort keys %in_memory)
	{
		my $set = "$forced; $in_memory{$memory}";
		is(result_of($set, $sum), $expected, "$name, $memory");
		like(result_of($set, "EXPLAIN $sum"), qr/Custom Scan \(FastedJoin\)/, "$name, $memory: by the node");
	}
	return;
}

for my $table ('items', 'mixed', 'odd', 'pairs')
{
	my $key = 'a.tenant = b.tenant';
	# which row raises an error first is undefined
	my $guard = $table eq 'odd' ? ' AND cardinality(a.v) = cardinality(b.v)' : '';
	same("SELECT a.id, b.id AS c, fasted_distance(a.v, b.v) FROM $table a JOIN $table b ON $key AND a.id < b.id AND $within", "$table")
		unless $table eq 'odd';
	same("SELECT a.id, b.id AS c FROM $table a JOIN $table b ON $key AND $within", "$table, both ways") unless $table eq 'odd';
	same("SELECT a.id, b.id AS c FROM items a LEFT JOIN $table b ON $key AND b.id % 3 > 0 AND $within", "$table, left join")
		if $table eq 'items';
	is(result_of("$forced", "SELECT count(*) FROM $table a JOIN $table b ON $key AND a.id < b.id AND $within"),
		result_of('SET fasted.join_node = off', "SELECT count(*) FROM $table a JOIN $table b ON $key AND a.id < b.id AND $within"), "$table, counted");
}
same("SELECT a.id, b.id AS c FROM items a JOIN others b ON a.tenant = b.tenant AND $within", 'two tables');
same("SELECT a.id, b.id AS c FROM others a LEFT JOIN items b ON a.tenant = b.tenant AND $within", 'two tables, left join');
same("SELECT a.id FROM items a WHERE NOT EXISTS (SELECT FROM others b WHERE a.tenant = b.tenant AND $within)", 'two tables, anti join');
same("SELECT a.id FROM items a WHERE EXISTS (SELECT FROM others b WHERE a.tenant = b.tenant AND fasted_within(a.v, b.v, 0.1, 'cosine'))", 'two tables, cosine');
# if the vectors of compared partitions differ in dimensions, there is an error, or no pair
same('SELECT a.id, b.id AS c FROM mixed a JOIN mixed b ON a.tenant = b.tenant AND a.id < b.id AND fasted_within(a.v, b.v, 0)', 'duplicates');
like(result_of($forced, "SELECT count(*) FROM odd a JOIN odd b ON a.tenant = b.tenant AND $within"), qr/^error 22000$/, 'different numbers of dimensions');

# keys with the same hash (4119 and 209697), and equal keys with different bits
$node->safe_psql('postgres', <<'END');
CREATE TABLE keyed AS SELECT g AS id, CASE WHEN g % 3 = 0 THEN 4119 ELSE 209697 END AS tenant,
	CASE g % 3 WHEN 0 THEN 4119 WHEN 1 THEN 209697 END::bigint AS big, CASE g % 4 WHEN 0 THEN '1' WHEN 1 THEN '1.00' ELSE '2' END::numeric AS number,
	CASE g % 4 WHEN 0 THEN '0' WHEN 1 THEN '-0' ELSE '2' END::float8 AS float, (g % 3)::float4 AS small, repeat('x', 300 + g % 2) AS word,
	CASE WHEN g % 50 <> 49 THEN some_vector(g % 40, 7) END AS v FROM generate_series(1, 400) g;
ANALYZE keyed;
END
is($node->safe_psql('postgres', 'SELECT hashint4(4119) = hashint4(209697)'), 't', 'two keys with the same hash');
for my $key ('a.tenant = b.tenant', 'a.tenant = b.big', 'a.big = b.tenant', 'a.number = b.number', 'a.float = b.float', 'a.float = b.small',
	'a.word = b.word AND a.tenant = b.tenant')
{
	same("SELECT a.id, b.id AS c FROM keyed a JOIN keyed b ON $key AND $within", "keys: $key");
	for my $other ('keyed', '(SELECT * FROM keyed OFFSET 1)')
	{
		my $counted = "SELECT count(*) FROM keyed a JOIN $other b ON $key AND $within";
		is(result_of($forced, $counted), result_of('SET fasted.join_node = off', $counted), "keys: $key, counted, $other");
	}
}
same("SELECT b.id, a.id AS c, b.word, a.float, b.big FROM keyed a LEFT JOIN keyed b ON a.id + 1 < b.id AND a.id <> 7 AND $within", 'result columns in another order, with nulls');

# one engine joins all rows of all partitions
my $join = "SELECT a.id FROM items a JOIN items b ON a.tenant = b.tenant AND a.id < b.id AND $within";
my $plan = explained('SELECT', $join);
my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM items WHERE v IS NOT NULL');
like($plan, qr/Partitions: 151\n/, 'all partitions');
like($plan, qr/Rows Read: $rows\n/, 'all rows');
like($plan, qr/Panels: 1\n/, 'one panel');
my ($candidates) = $plan =~ /Candidates: (\d+)/;
cmp_ok($candidates, '<', 600_000, 'pairs of different partitions are no candidates');
like(explained("SET fasted.memory_limit = '1MB'", $join), qr/Partitions: 151\n(?:.*\n)*?\s+Rows Read: $rows\n/, 'EXPLAIN counts all partitions and rows if some partitions are joined at a time');

like($plan, qr/Small Partitions: 0\n/, 'all partitions use an engine');
like(explained('SELECT', "$join LIMIT 5"), qr/Engine: cpu\n(?:.*\n)*?\s+Rows Read: $rows\n/, 'statistics of an engine that was stopped early');

# partitions of two rows need no engine
like(explained('SELECT', "SELECT a.id FROM pairs a JOIN pairs b ON a.tenant = b.tenant AND a.id < b.id AND $within"),
	qr/ Partitions: ([1-9]\d*)\n\s+Small Partitions: \1\n(?:.*\n)*?\s+Engine: none\n/, 'no engine for tiny partitions');

# rescanned for each row of another table, and stopped early
is($node->safe_psql('postgres', "$forced; SELECT count(*) FROM (VALUES (1), (2)) w (r), LATERAL (SELECT a.id FROM items a JOIN items b ON a.tenant = b.tenant AND a.id < b.id AND fasted_within(a.v, b.v, w.r) OFFSET 0) q"),
	$node->safe_psql('postgres', "SELECT (SELECT count(*) FROM items a JOIN items b ON a.tenant = b.tenant AND a.id < b.id AND fasted_within(a.v, b.v, 1)) + (SELECT count(*) FROM items a JOIN items b ON a.tenant = b.tenant AND a.id < b.id AND fasted_within(a.v, b.v, 2))"),
	'rescans');
is($node->safe_psql('postgres', "$forced; SELECT count(*) FROM (SELECT a.id FROM items a JOIN items b ON a.tenant = b.tenant AND $within LIMIT 5) q"), '5', 'a LIMIT');

done_testing();
