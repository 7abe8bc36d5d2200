# Joins on a distance by the join node return the same rows as by a nested loop.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('join_node');
my $pgvector = $node->safe_psql('postgres',
	"SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'");
$node->safe_psql('postgres', 'CREATE EXTENSION vector') if $pgvector;

# Whole-number coordinates, so that distances tie at every eps; nulls and duplicates.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION some_vector(seed int, d int) RETURNS real[] LANGUAGE sql IMMUTABLE AS
	$$ SELECT array_agg(CASE WHEN seed % 23 = 0 THEN 0 ELSE abs(hashint8extended(k, seed / 2) % 5) END::real)
		FROM generate_series(1, d) k $$;
CREATE TABLE s (id int PRIMARY KEY, k int, word text, v real[], dim int);
INSERT INTO s SELECT g, nullif(g % 7, 3), repeat(chr(97 + g % 5), g % 4), CASE WHEN g % 11 <> 0 THEN some_vector(g, 6) END, 6
	FROM generate_series(1, 150) g ORDER BY hashint4(g);
CREATE TABLE t (id int PRIMARY KEY, k int, word text, v real[], dim int);
INSERT INTO t SELECT g, nullif(g % 5, 2), repeat(chr(97 + g % 3), g % 5), CASE WHEN g % 13 <> 0 THEN some_vector(g + 40, 6) END, 6
	FROM generate_series(1, 90) g;
CREATE TABLE nothing (LIKE s);
CREATE TABLE sparse AS SELECT * FROM s WHERE id % 20 = 1;
CREATE TABLE one AS SELECT * FROM t WHERE id = 5;
CREATE TABLE no_vectors AS SELECT id, k, word, NULL::real[] AS v, dim FROM s;
CREATE TABLE wide AS SELECT id, k, repeat(md5(id::text), 100) AS word, v, dim FROM s;
CREATE TABLE mixed AS SELECT id, k, word, CASE WHEN id % 4 = 0 THEN v[1:4] ELSE v END AS v,
	CASE WHEN id % 4 = 0 THEN 4 ELSE 6 END AS dim FROM s;
CREATE TABLE bad AS SELECT id, k, word, CASE WHEN id = 77 THEN '{1,2,3,NULL,5,6}' ELSE v END AS v, dim FROM s;
CREATE VIEW odd_ids AS SELECT * FROM s WHERE id % 2 = 1;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM t WHERE k <> 1;
CREATE VIEW joined AS SELECT s.id, t.k, s.word, t.v, t.dim FROM s JOIN t ON t.id = s.id + 3;
CREATE TABLE parts (LIKE s) PARTITION BY HASH (id);
CREATE TABLE part_a PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE part_b PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts TABLE s;
ANALYZE;
END

my $forced = 'SET enable_nestloop = off; SET enable_hashjoin = off; SET enable_mergejoin = off';
my $plain = 'SET fasted.join_node = off; SET max_parallel_workers_per_gather = 0';
my $workers = 'SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2';

# Runs queries, each with its own settings, in one session.  Returns the result of each: the rows, or
# the SQLSTATE of the error.
sub results_of
{
	my (@queries) = @_;
	my (undef, $out, $err) = $node->psql('postgres', join('', map { "DISCARD ALL; $_->[0];\n$_->[1];\n\\echo = :SQLSTATE\n" } @queries), on_error_stop => 0);
	my @results = $out =~ /\G(.*?)^= (\w{5})(?:\n|\z)/gms;
	return map {
		my ($rows, $state) = splice @results, 0, 2;
		!defined $state ? "lost: $err" : $state eq '00000' ? $rows =~ s/\n\z//r : "error $state"
	} @queries;
}

sub result_of
{
	my ($result) = results_of([@_]);
	return $result;
}

# Checks are collected, because a session for each would take most of the time.  They run before
# sql() can change their tables.
my @checks;

sub check_later
{
	my ($queries, $check) = @_;
	push @checks, [ $queries, $check ];
	run_checks() if @checks == 50;
	return;
}

sub run_checks
{
	my @results = results_of(map { @{ $_->[0] } } @checks);
	for my $check (splice @checks)
	{
		$check->[1]->(splice @results, 0, scalar @{ $check->[0] });
	}
	return;
}

sub sql
{
	my ($sql) = @_;
	run_checks();
	return $node->safe_psql('postgres', $sql);
}

sub plan_of
{
	my ($set, $query) = @_;
	return $node->safe_psql('postgres', "$set;\nEXPLAIN $query");
}

# Checks that the result is the same by a nested loop and by the node; passes the node's plan to a function.
sub same_result
{
	my ($query, $name, %options) = @_;
	my $set = $options{set} // 'SELECT';
	my @queries = ([ "$set; $plain", $query ], [ "$forced; $set", $query ]);
	push @queries, [ "$forced; $set", "EXPLAIN $query" ] if $options{plan};
	check_later(\@queries, sub {
		my ($expected, $result, $plan) = @_;
		is($result, $expected, $name) or diag(join "\n", $query, $plan // ());
		$options{plan}->($plan) if $options{plan};
	});
	return;
}

# Checks the rows of a query.
sub same
{
	my ($query, $name, %options) = @_;
	same_result("SELECT count(*), sum(hashtextextended(q::text, 0)::numeric) FROM ($query) q", $name, %options,
		plan => sub { like($_[0], qr/Custom Scan \(FastedJoin\)/, "$name: by the node") unless $options{any_plan}; });
	return;
}

# Checks count(*), which the node can compute without returning rows.
sub same_count
{
	my ($query, $name, %options) = @_;
	my $by = $options{by};
	same_result($query, "counted, $name", %options, plan => sub { like($_[0], qr/Counted By: $by/, "$name: by the $by") if defined $by; });
	return;
}

# --- generated queries

random_seed();
sub pick { return $_[ int(rand(@_)) ]; }

my @sides = qw(s t s t odd_ids barrier joined parts wide one nothing no_vectors);
push @sides, '(SELECT * FROM s WHERE k > 1 ORDER BY id LIMIT 40)', "(VALUES (1, 2, 'b', '{1,2,3,4,0,1}'::real[], 6), (2, 3, 'c', NULL, 6))";
my @radii = (0, 1, 1.5, 2, 2.2360679774997896, 3, 4, 1e10, '2.236068::real', '3::real', "'Infinity'", -1, "'NaN'", 'NULL', '(SELECT 2.5)', 'sqrt(5)');
my @cosine_radii = (0, 1e-9, 0.01, 0.05, 0.2, 0.29289321881345254, 0.5, 1, 2, 3, "'Infinity'", "'NaN'", -1, 'NULL', '0.1 + 0.1');
my @extras = ('a.id < b.id', 'a.id <> b.id', 'a.k = b.k', 'a.k < b.k', 'a.word = b.word', 'a.k IS NOT DISTINCT FROM b.k',
	'a.id % 3 = b.id % 2', 'a.word < b.word', 'a.id + b.id > 60', 'length(a.word || b.word) > 2', 'a.dim = b.dim',
	'a.k = b.k AND a.id <= b.id', 'b.k > 1', 'a.k > 1', 'now() IS NOT NULL', '(SELECT true)', '(SELECT count(*) FROM one) > 1');

sub condition
{
	my $radius = pick(@radii);
	my ($x, $y) = rand() < 0.5 ? ('a.v', 'b.v') : ('b.v', 'a.v');
	my $cosine = rand() < 0.4;
	$radius = pick(@cosine_radii) if $cosine;
	# an expression that the planner must assume can raise an error
	($x, $y) = map { rand() < 0.15 ? "($_\::text)::real[]" : $_ } $x, $y;
	my $similarity = pick("1 - fasted_cosine_distance($x, $y)", "fasted_cosine_similarity($x, $y)");
	return pick("$similarity " . pick('>', '>=') . " $radius", "$radius " . pick('<', '<=') . " $similarity")
	  if $cosine && rand() < 0.3;
	return "fasted_within($x, $y, $radius" . ($cosine ? ", 'cosine')" : pick(')', ", 'l2')"))
	  if $radius !~ /-1|NaN/ && rand() < 0.5;
	my $distance = $cosine ? "fasted_cosine_distance($x, $y)" : "fasted_distance($x, $y)";
	return rand() < 0.5 ? $distance . pick(' < ', ' <= ') . $radius : $radius . pick(' > ', ' >= ') . $distance;
}

for my $case (1 .. 80)
{
	my ($a, $b) = (pick(@sides), pick(@sides));
	my @on = (condition(), map { pick(@extras) } 1 .. int(rand(3)));
	my $on = join ' AND ', sort { rand() <=> 0.5 } @on;
	my $columns = pick('a.id, b.id AS idb', 'a.*, b.id AS idb', 'a.word, b.word AS wb, a.id', '1', 'a.v, b.v AS vb',
		'a.id + b.id AS sum, fasted_distance(a.v, b.v)');
	my $cols = '(id, k, word, v, dim)';
	my $type = pick('JOIN', 'JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'EXISTS', 'NOT EXISTS');
	my $query =
	  $type =~ /EXISTS/
	  ? 'SELECT ' . pick('a.id', 'a.*', 'a.word, a.k') . " FROM $a a $cols WHERE $type (SELECT FROM $b b $cols WHERE $on)"
	  : "SELECT $columns FROM $a a $cols $type $b b $cols ON $on";
	$query .= pick('', '', ' WHERE b.id IS NULL', ' WHERE b.k > 1', ' WHERE a.k > 1') if $type =~ /JOIN/;
	# constant conditions may exclude all rows
	my $set = pick('SELECT', $workers);
	same($query, "case $case, $set", any_plan => 1, set => $set);
	same_count("SELECT count(*) FROM $a a $cols JOIN $b b $cols ON " . join(' AND ', @on[0 .. int(rand(@on))]), "case $case, $set", set => $set);
	same_count("SELECT count(*) FROM $a a $cols JOIN $a b $cols ON $on[0]" . pick('', ' AND a.id < b.id', ' AND a.id > b.id', ' AND a.k = b.k AND a.id < b.id'),
		"case $case, with itself, $set", set => $set);
}

# --- plans

my $both = 's a JOIN t b ON fasted_within(a.v, b.v, 2)';
same("SELECT a.id, b.id AS c FROM $both", 'inner join');
same("SELECT a.id, b.id AS c FROM s a LEFT JOIN t b ON fasted_within(a.v, b.v, 2)", 'left join');
same("SELECT a.id FROM s a WHERE EXISTS (SELECT FROM t b WHERE fasted_within(a.v, b.v, 2))", 'semi join');
same("SELECT a.id FROM s a WHERE NOT EXISTS (SELECT FROM t b WHERE fasted_within(a.v, b.v, 2))", 'anti join');
same("SELECT a.id, b.id AS c FROM s a JOIN s b ON a.id < b.id AND 2 > fasted_distance(b.v, a.v)", 'a table joined with itself');
same("SELECT a.id, b.id AS c, x.id AS d FROM $both JOIN s x ON fasted_within(x.v, b.v, 1)", 'three tables');
same("SELECT a.id, b.id AS c FROM s a JOIN t b ON a.dim = b.dim AND fasted_within(a.v, b.v, 2) WHERE a.id IN (SELECT id FROM t WHERE k = 1)", 'a join node above and below other joins');
same("SELECT g, n FROM generate_series(0, 3) g, LATERAL (SELECT count(*) AS n FROM s a JOIN t b ON fasted_within(a.v, b.v, g)) q",
	'the node is rescanned with other values of eps');
same("SELECT g, n FROM generate_series(0, 3) g, LATERAL (SELECT count(*) AS n FROM (SELECT * FROM s WHERE k >= g) a JOIN t b ON fasted_within(a.v, b.v, 2)) q",
	'the node is rescanned with other rows');
same("SELECT a.id, b.id AS c FROM parts a JOIN parts b ON a.id = b.id AND fasted_within(a.v, b.v, 2)", 'partitionwise',
	set => 'SET enable_partitionwise_join = on', any_plan => 1);
for my $type ('LEFT JOIN', 'RIGHT JOIN')
{
	same("SELECT a.id, b.id AS c, b.word FROM parts a $type parts b ON a.id = b.id AND fasted_within(a.v, b.v, 2)", "partitionwise, $type",
		set => 'SET enable_partitionwise_join = on', any_plan => 1);
}
same("SELECT a.id, a.word FROM parts a WHERE NOT EXISTS (SELECT FROM parts b WHERE a.id = b.id AND b.k > 2 AND fasted_within(a.v, b.v, 2))", 'partitionwise, anti',
	set => 'SET enable_partitionwise_join = on', any_plan => 1);
# outer joins that the planner may reorder
for my $on (['a.id = b.id', 'fasted_within(b.v, c.v, 2)'], ['fasted_within(a.v, b.v, 1)', 'b.id = c.id'], ['fasted_within(a.v, b.v, 1)', 'fasted_within(b.v, c.v, 1)'])
{
	for my $tables (['s', 't', 'one'], ['one', 's', 't'], ['t', 'one', 's'], ['t', 's', 'sparse'])
	{
		my ($x, $y, $z) = @$tables;
		same("SELECT a.id, b.id AS c, c.id AS d, b.word, c.k FROM $x a LEFT JOIN $y b ON $on->[0] LEFT JOIN $z c ON $on->[1]",
			"two left joins of $x, $y, $z: $on->[0], $on->[1]", any_plan => 1);
		same("SELECT a.id, b.id AS c, c.id AS d FROM $x a LEFT JOIN ($y b LEFT JOIN $z c ON $on->[1]) ON $on->[0]",
			"a left join in a left join of $x, $y, $z: $on->[0], $on->[1]", any_plan => 1);
		same("SELECT a.id, b.id AS c, c.id AS d FROM $x a LEFT JOIN ($y b JOIN $z c ON $on->[1]) ON $on->[0]",
			"a join in a left join of $x, $y, $z: $on->[0], $on->[1]", any_plan => 1);
	}
}
# a clause that occurs twice on one side
for my $where ('a.k > 2 AND b.id % 2 = 1', 'b.k > 2 AND a.id % 2 = 1', 'a.k > 2 AND b.k > 2', 'a.k > 2 AND a.id % 2 = 1 AND b.id % 2 = 1 AND b.k > 2')
{
	same("SELECT a.id, b.id AS c FROM odd_ids a JOIN odd_ids b ON fasted_within(a.v, b.v, 2) WHERE $where", "sides of a view, where $where");
	same("SELECT a.id FROM odd_ids a WHERE NOT EXISTS (SELECT FROM odd_ids b WHERE fasted_within(a.v, b.v, 1) AND a.id <> b.id AND b.id % 2 = 1) AND a.k > 2", 'anti join of a view')
	  if $where =~ /^a.k > 2 AND b.id/;
}
# row addresses (ctid) are columns, too
same("SELECT a.ctid AS p, b.ctid AS q FROM s a JOIN s b ON a.id < b.id AND fasted_within(a.v, b.v, 2)", 'row addresses (ctid) are selected');
same("SELECT count(*), min(a.id), max(b.id) FROM s a JOIN s b ON a.ctid < b.ctid AND fasted_within(a.v, b.v, 2)", 'row addresses (ctid) are compared');
same("SELECT a.id, b.ctid AS q, b.tableoid AS r FROM s a LEFT JOIN t b ON fasted_within(a.v, b.v, 2)", 'row addresses (ctid) of one side');
# aggregates that return vectors
same("SELECT k FROM s WHERE k IS NOT NULL GROUP BY k HAVING fasted_within(array_agg(id ORDER BY id)::real[], '{1, 8, 15}', 1e9) IS NULL OR count(*) > 0", 'aggregates in HAVING', any_plan => 1);
same("SELECT x.k FROM (SELECT k, array_agg(k)::real[] AS v FROM s WHERE k IS NOT NULL GROUP BY k, id) x WHERE fasted_within(x.v, '{1}', 2)", 'aggregates of a subquery', any_plan => 1);
# infinite distances
sql('CREATE TABLE huge AS SELECT g AS id, ARRAY[g * 1e300]::float8[] AS v FROM generate_series(1, 60) g');
same("SELECT a.id, b.id AS c FROM huge a JOIN huge b ON fasted_distance(a.v, b.v) $_ 'Infinity'", "huge ones: $_ infinity") for '<', '<=';
same("SELECT a.id, b.id AS c FROM s a JOIN t b ON fasted_distance(a.v, b.v) < 'Infinity'", 'below infinity');
same("SELECT a.id, b.id AS c FROM nothing a JOIN nothing b ON fasted_within(a.v, b.v, 1, 'foo')", 'an unknown metric of no rows', any_plan => 1);
same("SELECT a.id, b.id AS c FROM s a JOIN s b ON fasted_within(a.v, b.v, 1, 'foo')", 'an unknown metric', any_plan => 1);
same("SELECT a.id, b.id AS c FROM mixed a JOIN s b ON a.dim = b.dim AND fasted_within(a.v, b.v, 2)", 'other dimensions, which another clause separates');
same("SELECT a.id, b.id AS c FROM s a JOIN mixed b ON a.dim = b.dim AND fasted_within(a.v, b.v, 2)", 'other dimensions on the inner side, which another clause separates');
same("SELECT a.id, b.id AS c FROM mixed a JOIN mixed b ON a.dim = b.dim AND fasted_within(a.v, b.v, 2)", 'other dimensions on both sides');
same("SELECT a.id FROM mixed a WHERE NOT EXISTS (SELECT FROM mixed b WHERE a.id < b.id AND a.dim = b.dim AND fasted_within(a.v, b.v, 2))", 'other dimensions on both sides of an anti join');
same("SELECT a.id, b.id AS c FROM mixed a LEFT JOIN mixed b ON a.id < b.id AND a.dim = b.dim AND fasted_within(a.v, b.v, 2)", 'other dimensions on both sides of a left join');
is(result_of($forced, "SELECT count(*) FROM mixed a JOIN s b ON fasted_within(a.v, b.v, 2)"), 'error 22000', 'different numbers of dimensions: an error');
is(result_of($forced, "SELECT count(*) FROM bad a JOIN s b ON fasted_within(a.v, b.v, 2)"), 'error 22004', 'a null element: an error');
same("SELECT a.id, b.id AS c FROM bad a JOIN s b ON a.id <> 77 AND fasted_within(a.v, b.v, 2)", 'a null element in a row that another clause excludes: no error');
is(result_of($forced, "SELECT count(*) FROM s a JOIN t b ON fasted_within(a.v, b.v, -1)"), 'error 22023', 'a negative eps: an error');
same("SELECT count(*) FROM s a JOIN nothing b ON fasted_within(a.v, b.v, -1)", 'not where there is no row', any_plan => 1);
same("SELECT a.id, a.word, b.word AS x FROM wide a JOIN wide b ON fasted_within(a.v, b.v, 2)", 'rows in a file', set => "SET fasted.memory_limit = '1MB'");
same("SELECT a.id, length(a.word || b.word) AS n FROM s a $_ t b ON a.k < b.k + 2 AND fasted_within(a.v, b.v, 2)", "compiled expressions, $_",
	set => 'SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0')
  for 'JOIN', 'LEFT JOIN';
same("SELECT a.id, b.id AS c FROM s a JOIN t b ON fasted_within(a.v, b.v, 2)", "kernel $_", set => "SET fasted.cpu_kernel = $_")
  for sql("SELECT 1 FROM fasted_self_join('s', 'v', 1) LIMIT 1; SELECT unnest('{auto,portable}'::text[])") =~ /^([a-z]\w+)$/mg;

sql(<<'END');
CREATE TABLE long_a AS SELECT g AS id, some_vector(g, 700) AS v FROM generate_series(1, 300) g;
CREATE TABLE long_b AS SELECT g AS id, some_vector(g + 100, 700) AS v FROM generate_series(1, 450) g;
ANALYZE long_a, long_b;
END
same("SELECT a.id, b.id AS c FROM long_a a JOIN long_b b ON fasted_within(a.v, b.v, 45) AND a.id <> b.id", 'panels', set => "SET fasted.memory_limit = '1MB'");
my $explain = sql("$forced; SET fasted.memory_limit = '1MB'; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT a.id FROM long_a a JOIN long_b b ON fasted_within(a.v, b.v, 0)");
like($explain, qr/Panels: (?!1\b)\d+/, 'there were several panels');

# --- an expression of the outer side is not evaluated for rows that another condition excludes

sql(<<'END');
CREATE TABLE texts AS SELECT id, k, id % 10 <> 0 AS valid, CASE WHEN id % 10 <> 0 THEN v::text ELSE 'no vector' END AS body FROM s;
ANALYZE texts;
END
{
	my $near = 'fasted_within(a.body::real[], b.v, 2)';
	my $nested = 'SET enable_hashjoin = off; SET enable_mergejoin = off';
	for my $on ('a.valid', 'a.valid AND a.id <> b.id', 'a.valid AND a.k = b.k')
	{
		same("SELECT a.id, b.id AS c FROM texts a LEFT JOIN t b ON $on AND $near", "left join, $on", set => $nested);
		same("SELECT a.id FROM texts a WHERE NOT EXISTS (SELECT FROM t b WHERE $on AND $near)", "anti join, $on", set => $nested);
	}
	for my $on ('true', 'a.id <> b.id', 'a.k = b.k', 'a.k > 1')
	{
		my $sql = "SELECT count(*) FROM texts a LEFT JOIN t b ON $on AND $near";
		check_later([ map { [ "$_; $nested", $sql ] } $forced, $plain ], sub {
			my ($error, $expected) = @_;
			like($error, qr/^error 22/, "an error, $on");
			is($error, $expected, "the same error, $on");
		});
	}
	same("SELECT a.id, b.id AS c FROM texts a LEFT JOIN nothing b ON $near", 'an empty side');
}
# eps is not evaluated if a side has no row
for my $sides ('s a LEFT JOIN nothing b', 'nothing a LEFT JOIN t b', 's a JOIN nothing b', 's a JOIN t b', 's a LEFT JOIN t b')
{
	for my $near ('fasted_within(a.v, b.v, 1 / (SELECT 0))', 'fasted_distance(a.v, b.v) < 1 / (SELECT 0)', 'fasted_within(a.v, b.v, (SELECT -1))',
		"fasted_distance(a.v, b.v) <= (SELECT 'NaN'::float8)", 'fasted_distance(a.v, b.v) < (SELECT NULL::float8)')
	{
		same("SELECT a.id, b.id AS c FROM $sides ON $near", "$near, $sides");
		same("SELECT a.id, b.id AS c FROM $sides ON a.k = b.k AND $near", "$near, $sides, in partitions", any_plan => 1);
	}
}
same("SELECT a.id, b.id AS c FROM s a LEFT JOIN t b ON a.id < 0 AND fasted_within(a.v, b.v, 1 / (SELECT 0))", 'a bound that no row asks for');

# --- null vectors are in no pair

for my $query ('SELECT a.id FROM s a WHERE NOT EXISTS (SELECT FROM no_vectors b WHERE NEAR)', 'SELECT a.id FROM no_vectors a WHERE NOT EXISTS (SELECT FROM s b WHERE NEAR)',
	'SELECT a.id, b.id AS c FROM no_vectors a LEFT JOIN s b ON a.dim = b.dim AND NEAR', 'SELECT a.id, b.id AS c FROM s a LEFT JOIN no_vectors b ON a.k = b.k AND NEAR',
	'SELECT a.id, b.id AS c FROM no_vectors a JOIN mixed b ON NEAR', 'SELECT a.id, b.id AS c FROM mixed a LEFT JOIN no_vectors b ON NEAR',
	'SELECT a.id, b.id AS c FROM no_vectors a LEFT JOIN no_vectors b ON NEAR')
{
	my $sql = $query =~ s/NEAR/fasted_within(a.v, b.v, 2)/r;
	same($sql, "null vectors: $sql");
	unlike(sql("$forced; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $sql"), qr/Rows Removed by Join Filter/, "no pair with a null vector is tested: $sql");
}

# --- conditions that are constant during the query, beside the join

for my $condition ("current_user <> 'nobody at all'", '(SELECT NULL::bool)', '1 / (SELECT count(*) FROM nothing) = 1')
{
	my $near = 'fasted_within(a.v, b.v, 2)';
	same("SELECT * FROM (SELECT a.id, b.id AS c FROM s a JOIN t b ON $near OFFSET 0) q WHERE $condition", "one value above a join: $condition");
	same("SELECT a.id, b.id AS c FROM s a LEFT JOIN t b ON $near WHERE $condition", "one value: $condition", any_plan => 1);
	same_result("SELECT count(*) FROM s a JOIN t b ON $near WHERE $condition", "one value, counted: $condition");
}

# --- sides that depend on rows outside the join, or on each other

sql('CREATE TABLE few AS SELECT g AS k, g / 2.0::float8 AS radius FROM generate_series(0, 4) g; ANALYZE few');
my ($some_s, $some_t) = map { "LATERAL (SELECT * FROM $_ WHERE $_.k >= few.k OFFSET 0)" } qw(s t);
same("SELECT few.k AS f, a.id, b.id AS c FROM few, $some_s a, $some_t b WHERE fasted_within(a.v, b.v, 2)", 'both sides lateral', any_plan => 1);
same("SELECT few.k AS f, a.id, b.id AS c FROM few, $some_s a, $some_t b WHERE fasted_within(a.v, b.v, 2) AND a.k = b.k AND a.id + b.id > 40 * few.k", 'both sides lateral, with a clause on the outer relation', any_plan => 1);
same("SELECT few.k AS f, a.id, b.id AS c FROM few, s a, $some_t b WHERE fasted_within(a.v, b.v, 2)", 'one side lateral', any_plan => 1);
same("SELECT few.k AS f, q.* FROM few, LATERAL (SELECT a.id, b.id AS c, b.word FROM (SELECT * FROM s WHERE s.k >= few.k OFFSET 0) a LEFT JOIN t b ON b.k <> few.k AND fasted_within(a.v, b.v, 2)) q", 'a left join in a lateral subquery',
	any_plan => 1);
same("SELECT few.k AS f, q.* FROM few, LATERAL (SELECT a.id, b.id AS c, b.sum FROM s a LEFT JOIN (SELECT t.*, t.k + few.k AS sum FROM t) b ON fasted_within(a.v, b.v, 2)) q", 'a column of the outer relation in a lateral subquery', any_plan => 1);
same("SELECT few.k AS f, q.* FROM few, LATERAL (SELECT a.id, b.id AS c, a.sum + b.sum AS sum FROM (SELECT s.*, s.k + few.k AS sum FROM s OFFSET 0) a JOIN (SELECT s.*, s.k + few.k AS sum FROM s OFFSET 0) b ON a.id < b.id AND fasted_within(a.v, b.v, 2)) q",
	'a self-join with a column of the outer relation', any_plan => 1);
same("SELECT few.k AS f, a.id, b.id AS c FROM few, $some_s a, $some_t b WHERE fasted_within(a.v, b.v, few.radius)", 'a radius from the outer relation', any_plan => 1);
same("SELECT a.id, b.id AS c FROM s a, LATERAL (SELECT * FROM t WHERE t.k >= a.k OFFSET 0) b WHERE fasted_within(a.v, b.v, 2)", 'one side depends on the other side', any_plan => 1);
same("SELECT few.k AS f, a.id, b.id AS c FROM parts few, $some_s a, $some_t b WHERE fasted_within(a.v, b.v, 0) AND few.id < 9", 'both sides depend on a partitioned table', any_plan => 1,
	set => "SET enable_partitionwise_join = $_")
  for qw(on off);

# --- a clause that orders the rows of a pair, in a self-join

sql(<<'END');
CREATE TABLE keyed AS SELECT g AS id, nullif(g % 9, 4)::smallint AS small, (g % 8)::numeric / 3 AS number,
	CASE WHEN g % 7 = 0 THEN 'NaN' WHEN g % 5 = 0 THEN '-0' WHEN g % 11 = 0 THEN NULL ELSE (g % 6)::float8 END AS double,
	CASE WHEN g % 13 = 0 THEN 'NaN' ELSE (g % 4)::real END AS single, md5((g % 20)::text) AS word,
	(CASE WHEN g % 2 = 0 THEN 'a' ELSE 'B' END || g % 30)::varchar(9) AS name, md5((g % 40)::text)::uuid AS code,
	ARRAY[g % 3, nullif(g % 5, 2)] AS pair, g % 2 = 0 AS flag, DATE '2026-01-01' + g % 50 AS day,
	repeat(md5((g % 6)::text), 200) || g % 50 AS long, some_vector(g, 6) AS v
	FROM generate_series(1, 200) g;
ALTER TABLE keyed ALTER long SET STORAGE EXTERNAL;
CREATE INDEX keyed_index ON keyed (id, v);
VACUUM ANALYZE keyed;
END
my $near = 'fasted_within(a.v, b.v, 2.5)';
for my $key (qw(id small number double single word name code pair flag day long))
{
	for my $order ("a.$key < b.$key", "b.$key > a.$key", "b.$key < a.$key", "a.$key > b.$key")
	{
		same("SELECT a.id, b.id AS c FROM keyed a JOIN keyed b ON $order AND $near", "ordered: $order");
	}
	same("SELECT a.id, b.id AS c FROM keyed a JOIN keyed b ON a.$key > b.$key AND $near AND a.id % 3 <> b.id % 2 AND a.small < b.small", "ordered by $key, and more");
	same("SELECT a.id, b.id AS c FROM keyed a JOIN keyed b ON (a.$key < b.$key OR a.id = b.id) AND $near", "not ordered: $key or the same row");
	same("SELECT a.id, b.id AS c FROM keyed a JOIN keyed b ON a.$key <= b.$key AND $near", "not ordered: $key <=");
	same("SELECT a.id, b.id AS c, b.small FROM keyed a LEFT JOIN keyed b ON a.$key < b.$key AND $near", "ordered by $key, left join");
	same("SELECT a.id FROM keyed a WHERE EXISTS (SELECT FROM keyed b WHERE b.$key < a.$key AND $near)", "ordered by $key, semi join");
	same("SELECT a.id FROM keyed a WHERE NOT EXISTS (SELECT FROM keyed b WHERE b.$key > a.$key AND $near)", "ordered by $key, anti join");
	same_result("SELECT count(*) FROM keyed a JOIN keyed b ON a.$key < b.$key AND $near", "counted: $key");
}
same("SELECT a.id, b.id AS c FROM keyed a JOIN keyed b ON a.word < b.word COLLATE \"C\" AND $near", 'ordered, by a collation');
same("SELECT a.id, b.id AS c FROM keyed a JOIN keyed b ON a.id < b.small AND $near", 'not ordered: two columns');
same("SELECT a.id, b.id AS c FROM keyed a JOIN keyed b ON a.id + 0 < b.id AND $near", 'not ordered: an expression');
same("SELECT a.id, b.id AS c FROM keyed a JOIN keyed b ON a.small = b.small AND a.id < b.id AND $near", 'ordered, in partitions');
same("SELECT a.id, b.id AS c, length(b.long) AS l FROM keyed a JOIN keyed b ON a.id < b.id AND $near", 'ordered, rows in a file',
	set => "SET fasted.memory_limit = '1MB'");
same("SELECT a.id, a.long, b.long AS l FROM wide_keys a JOIN wide_keys b ON a.long < b.long AND $near", 'ordered by a key in the temporary file',
	set => "CREATE TEMP TABLE wide_keys AS SELECT id, repeat(long, 3) AS long, v FROM keyed; SET fasted.memory_limit = '1MB'");

# columns of the inner side only, from scans that would not return them otherwise
my $inner = "SELECT a.id, b.name, b.day FROM keyed a JOIN keyed b ON $near";
same($inner, 'columns of the inner side, with parallel workers',
	set => 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET enable_indexonlyscan = off');
same($inner, 'columns of the inner side, with an index', set => 'SET enable_seqscan = off; SET enable_bitmapscan = off');

# --- vectors that are fetched from their table when needed

for my $case (["SELECT count(*) FROM keyed a JOIN keyed b ON a.id < b.id AND $near", 1], ["SELECT a.id, b.id FROM keyed a JOIN t b ON $near", 1],
	["SELECT a.v FROM keyed a JOIN keyed b ON a.id < b.id AND $near", 0], ["SELECT b.v FROM keyed a JOIN keyed b ON a.id < b.id AND $near", 0],
	["SELECT a.id FROM keyed a JOIN keyed b ON a.small = b.small AND $near", 0], ["SELECT a.id FROM keyed a JOIN keyed b ON $near AND a.v <> b.v", 0])
{
	my ($sql, $left) = @$case;
	my $plan = sql("$forced; EXPLAIN (VERBOSE, COSTS OFF) $sql");
	is(scalar($plan =~ /ctid/), $left ? 1 : '', ($left ? 'fetched later' : 'read at once') . ": $sql");
}
same("SELECT a.id, b.id AS c FROM mixed a JOIN mixed b ON a.id < b.id AND a.dim = b.dim + 0 AND fasted_within(a.v, b.v, 2)", 'vectors are fetched for fallback rows');
same("SELECT a.id, b.id AS c FROM mixed a JOIN s b ON a.dim = b.dim + 0 AND fasted_within(a.v, b.v, 2)", 'vectors are fetched for fallback rows of two tables');
my $gated = "PREPARE g(bool) AS SELECT count(*), count(b.id) FROM s a LEFT JOIN (SELECT * FROM t WHERE \$1) b ON $near; EXECUTE g(true); EXECUTE g(false)";
is(result_of("SET plan_cache_mode = force_generic_plan; $forced", $gated), result_of($plain, $gated), 'below a one-time filter');
my $changed = 'BEGIN; DECLARE c CURSOR FOR SELECT a.id, b.id FROM mixed a JOIN mixed b ON a.dim = b.dim + 0 AND fasted_within(a.v, b.v, 2) ORDER BY random() * 0, 1, 2; '
  . 'DECLARE d NO SCROLL CURSOR FOR SELECT a.dim FROM mixed a JOIN mixed b ON a.dim = b.dim + 0 AND fasted_within(a.v, b.v, 2); MOVE 1 FROM d; '
  . 'UPDATE mixed SET v = NULL; DELETE FROM mixed; FETCH ALL FROM c; MOVE ALL FROM d; ROLLBACK';
same_result($changed, 'fetched although other transactions do not see them any more');

same("SELECT a.id, b.id AS c FROM s a JOIN t b ON fasted_within(a.v, b.v, 0.1, 'cosine')", 'cosine');
same("SELECT a.id, b.id AS c FROM s a JOIN s b ON a.id < b.id AND fasted_cosine_distance(a.v, b.v) <= 0.1", 'cosine, with itself');
is(sql("SELECT fasted_cosine_distance('{1,0}'::real[], '{0,2}'), fasted_cosine_distance('{1,2}'::real[], '{2,4}'), "
	. "fasted_cosine_distance('{1,2}'::real[], '{-1,-2}'), fasted_cosine_distance('{0,0}'::real[], '{1,2}'), fasted_within('{0,0}'::real[], '{0,0}', 2, 'cosine'), "
	. "fasted_distance('{1,2}'::real[], '{4,6}'), fasted_within('{1,2}'::real[], '{4,6}', 5), fasted_within('{1,2}'::real[], '{4,6}', 4.999)"),
	'1|0|2|NaN|f|5|t|f', 'distances');
is(result_of('SELECT', "SELECT fasted_within('{1}'::real[], '{2}', 1, 'l1')"), 'error 22023', 'an unknown metric');
is(result_of('SELECT', "SELECT fasted_distance('{1,2}'::real[], '{2}')"), 'error 22000', 'different numbers of dimensions');
is(result_of('SELECT', "SELECT fasted_cosine_distance('{1,NaN}'::real[], '{2,1}')"), 'error 22003', 'NaN');
# distances of all pairs are bit-identical to those of the self-join
is(sql("SELECT count(*), count(*) FILTER (WHERE p.dist = fasted_distance(a.v, b.v)) FROM fasted_self_join('long_a', 'v', 1e9, id_column => 'id') p "
	. 'JOIN long_a a ON a.id = id_a JOIN long_a b ON b.id = id_b'), '44850|44850', 'the same bits as from the engine');

# equalities besides the distance: partitions, some of which are large enough for an engine
sql(<<'END');
CREATE TABLE tenants AS SELECT g AS id, CASE WHEN g % 10 < 6 THEN g % 3 WHEN g % 10 < 9 THEN 100 + g % 40 END AS tenant,
	(g % 3)::bigint AS big, (g % 5)::numeric AS number, md5((g % 7)::text)::uuid AS code, chr(97 + g % 4) COLLATE "C" AS letter,
	CASE WHEN g % 17 <> 0 THEN some_vector(g, 8) END AS v FROM generate_series(1, 1200) g;
INSERT INTO tenants SELECT g, 7777, 1, 1, NULL, 'x', some_vector(g, 5) FROM generate_series(2001, 2010) g;
ANALYZE tenants;
END
for my $key ('a.tenant = b.tenant', 'a.tenant = b.tenant AND a.letter = b.letter', 'a.tenant = b.big', 'b.number = a.number AND a.tenant = b.tenant', 'a.code = b.code AND a.tenant < b.tenant',
	'a.tenant % 5 = b.tenant % 5 AND a.id < b.id', 'lower(a.letter) = b.letter AND a.tenant <> 7777 AND b.tenant <> 7777')
{
	same("SELECT a.id, b.id AS c FROM tenants a JOIN tenants b ON $key AND fasted_within(a.v, b.v, 3)", "partitions: $key");
	same("SELECT a.id, b.id AS c FROM tenants a LEFT JOIN (SELECT * FROM tenants WHERE id % 3 > 0) b ON $key AND fasted_within(a.v, b.v, 3)", "partitions, left join: $key");
	same("SELECT a.id FROM tenants a WHERE NOT EXISTS (SELECT FROM tenants b WHERE $key AND a.id <> b.id AND fasted_within(a.v, b.v, 2))", "partitions, anti join: $key");
	same("SELECT a.id FROM tenants a WHERE EXISTS (SELECT FROM tenants b WHERE $key AND a.id <> b.id AND fasted_within(a.v, b.v, 0.02, 'cosine'))", "partitions, cosine: $key");
}
$explain = sql("$forced; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT a.id FROM tenants a JOIN tenants b ON a.tenant = b.tenant AND fasted_within(a.v, b.v, 1)");
like($explain, qr/Partition Key: a.tenant\n\s+Partitions: 16\n/, 'the number of partitions');
like(plan_of('SELECT', 'SELECT FROM tenants a JOIN tenants b ON a.tenant = b.tenant AND fasted_within(a.v, b.v, 1)'), qr/FastedJoin/, 'cheaper than a hash join');

same("SELECT a.id, b.id AS c FROM (SELECT * FROM mixed UNION ALL SELECT id, k, word, v || v, 12 FROM s) a JOIN (SELECT * FROM mixed UNION ALL SELECT id, k, word, v || v, 12 FROM s) b "
	. 'ON a.dim = b.dim AND fasted_within(a.v, b.v, 2)', 'partitions of other dimensions');

# --- estimates close to the actual rows, for PostgreSQL's join nodes and for nodes above, too

sql(<<'END');
CREATE TABLE spread AS SELECT g AS id, g % 10 AS k,
	(SELECT array_agg((hashint8extended(k, g) % 1000 / 1000.0)::real) FROM generate_series(1, 4) k) AS v
	FROM generate_series(1, 1500) g;
ANALYZE spread;
END

# Checks that the planner's estimate is right within a factor.
sub foreseen
{
	my ($sql, $factor, $name, $set) = @_;
	my @modes = map { join '; ', $_, $set // () } $forced, $plain;
	check_later([ [ 'SELECT', "SELECT count(*) FROM ($sql) q" ], map { [ $_, "EXPLAIN $sql" ] } @modes ], sub {
		my ($rows, @plans) = @_;
		$rows ||= 1;	# the planner estimates at least one row
		for my $plan (@plans)
		{
			my ($estimate) = $plan =~ /rows=(\d+)/;
			ok($estimate >= $rows / $factor && $estimate <= $rows * $factor, "$name: $estimate rows estimated, $rows actual");
		}
	});
	return;
}

sub foreseen_joins
{
	my ($table, $near, $set) = @_;
	foreseen("SELECT FROM $table a JOIN $table b ON $near", 2, "estimate of $near", $set);
	foreseen("SELECT FROM $table a JOIN $table b ON a.id < b.id AND $near", 2, "ordered, $near", $set);
	foreseen("SELECT FROM $table a LEFT JOIN $table b ON $near", 2, "left join, $near", $set);
	foreseen("SELECT FROM $table a JOIN $table b ON $near JOIN $table c ON c.id = b.id", 2, "below another join, $near", $set);
	foreseen("SELECT FROM $table a JOIN $table b ON $near AND $near", 2, "said twice, $near", $set);
	foreseen("SELECT FROM $table a WHERE EXISTS (SELECT FROM $table b WHERE $near)", 2, "semi join, $near", $set);
	foreseen("SELECT FROM $table a WHERE a.id < 300 AND NOT EXISTS (SELECT FROM $table b WHERE b.id <> a.id AND $near)", 50, "anti join, $near", $set);
	return;
}
foreseen_joins('spread', $_)
  for 'fasted_distance(a.v, b.v) < 0.4', '0.4 >= fasted_distance(b.v, a.v)', 'fasted_cosine_distance(a.v, b.v) < 0.1', 'fasted_within(a.v, b.v, 0.4)';
my ($unknown) = plan_of($plain, 'SELECT FROM no_vectors a JOIN no_vectors b ON fasted_distance(a.v, b.v) < 1') =~ /rows=(\d+)/;
is($unknown, 1500, 'ten rows for each row, without statistics');

# the node is also used if rows are locked or changed
for my $query ("SELECT a.id FROM $both FOR UPDATE", "SELECT a.id FROM $both FOR SHARE OF b",
	'DELETE FROM s a USING t b WHERE fasted_within(a.v, b.v, 0)',
	'UPDATE s a SET k = b.k FROM t b WHERE fasted_within(a.v, b.v, 0)',
	'DELETE FROM s a USING s b WHERE a.id < b.id AND fasted_within(a.v, b.v, 0)',
	'DELETE FROM s a WHERE NOT EXISTS (SELECT FROM t b WHERE fasted_within(a.v, b.v, 2))',
	'MERGE INTO s a USING t b ON fasted_within(a.v, b.v, 0) WHEN MATCHED THEN UPDATE SET k = b.k WHEN NOT MATCHED THEN INSERT VALUES (b.id + 1000)')
{
	like(plan_of($forced, $query), qr/FastedJoin/, "by the node: $query");
}
unlike(plan_of($forced, 'DELETE FROM parts a USING t b WHERE fasted_within(a.v, b.v, 2)'), qr/FastedJoin/,
	'not by the node: changed rows of a partitioned table');
for my $change ('DELETE FROM s a USING t b WHERE fasted_within(a.v, b.v, 2)', "UPDATE s a SET word = 'changed' FROM t b WHERE fasted_within(a.v, b.v, 2)",
	'DELETE FROM s a USING s b WHERE a.id < b.id AND fasted_within(a.v, b.v, 1)',
	'UPDATE s a SET k = -1 WHERE NOT EXISTS (SELECT FROM t b WHERE fasted_within(a.v, b.v, 2) AND a.k = b.k)',
	"MERGE INTO s a USING one b ON fasted_within(a.v, b.v, 3) WHEN MATCHED THEN UPDATE SET k = b.id WHEN NOT MATCHED THEN INSERT VALUES (b.id + 1000)",
	'DELETE FROM parts a USING t b WHERE fasted_within(a.v, b.v, 2)')
{
	my $sum = 'SELECT count(*), sum(hashtextextended(s::text, 0)::numeric), (SELECT count(*) FROM parts) FROM s';
	same_result("BEGIN; $change; $sum; ROLLBACK", $change);
}

# Rows that another transaction changes while the query waits for it: some match no more,
# some match only after the change, some match with another row.
for my $command ('DELETE FROM racing a USING t b WHERE NEAR RETURNING a.id', 'UPDATE racing a SET k = b.id FROM one b WHERE NEAR RETURNING a.id, a.k',
	'SELECT a.id, b.id FROM racing a JOIN t b ON NEAR FOR UPDATE OF a', 'SELECT a.id, b.id FROM racing a JOIN racing b ON a.id < b.id AND NEAR FOR SHARE',
	'DELETE FROM racing a WHERE NOT EXISTS (SELECT FROM t b WHERE NEAR) RETURNING a.id', 'SELECT a.id, b.id FROM racing a LEFT JOIN t b ON a.k = b.k AND NEAR FOR UPDATE OF a')
{
	my ($sql, @results) = ($command =~ s/NEAR/fasted_within(a.v, b.v, 2)/r);
	for my $mode ($forced, $plain)
	{
		sql('DROP TABLE IF EXISTS racing; CREATE TABLE racing AS TABLE s; ANALYZE racing');
		my ($first, $second) = map { FastedTest::Session->new($node) } 1, 2;
		$first->query('BEGIN; UPDATE racing SET v = (SELECT v FROM s WHERE s.id = 150 - racing.id) WHERE id % 3 = 0; DELETE FROM racing WHERE id % 10 = 1');
		$second->query($mode);
		$second->{out} = '';
		$second->send("WITH result AS ($sql) SELECT count(*), sum(hashtextextended(result::text, 0)::numeric) FROM result;\n\\echo over") if $sql !~ /^SELECT/;
		$second->send("SELECT count(*), sum(hashtextextended(q::text, 0)::numeric) FROM ($sql) q;\n\\echo over") if $sql =~ /^SELECT/;
		$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
		$first->query('COMMIT');
		$second->wait_for(qr/^over$/m);
		push @results, $second->{out} . $second->{err};
		$_->quit for $first, $second;
	}
	is($results[0], $results[1], "evaluated again: $command");
	like($results[0], qr/^[1-9]/m, 'rows are returned');
}

# A subquery that is first evaluated while a row is evaluated again must return all of its rows.
sql(<<'END');
CREATE TABLE docs AS SELECT g AS id, 0 AS n, 2.0::float8 AS eps FROM generate_series(1, 20) g;
CREATE TABLE long_rows AS SELECT g AS id, (SELECT array_agg((g % 50 + k)::real) FROM generate_series(1, 128) k) AS v FROM generate_series(1, 600) g;
ANALYZE docs, long_rows;
END
for my $command ('UPDATE docs SET n = n + 1 WHERE id > 7 AND id NOT IN (SELECT b.id % 7 FROM long_rows a JOIN long_rows b ON a.id < b.id AND fasted_within(a.v, b.v, 0)) RETURNING id, n',
	'UPDATE docs SET n = n + (SELECT count(*) FROM long_rows a JOIN long_rows b ON fasted_within(a.v, b.v, docs.eps)) WHERE id = 8 RETURNING id, n')
{
	my @results;
	for my $mode ($forced, $plain)
	{
		sql('UPDATE docs SET n = 0');
		my ($first, $second) = map { FastedTest::Session->new($node) } 1, 2;
		$first->query('BEGIN; UPDATE docs SET n = 100 WHERE id = 8');
		$second->query($mode . ($mode eq $plain ? '; SET enable_nestloop = on' : ''));
		$second->{out} = '';
		$second->send("$command;\n\\echo over");
		$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
		$first->query('COMMIT');
		$second->wait_for(qr/^over$/m);
		push @results, join("\n", sort grep { /\|/ } split(/\n/, $second->{out})) . $second->{err};
		$_->quit for $first, $second;
	}
	is($results[0], $results[1], "a subquery of a row that is evaluated again: $command");
}

# the node is not used for unsupported queries, nor for few rows
for my $query ('SELECT FROM s a JOIN t b ON fasted_within(a.v, b.v, a.id)',
	'SELECT FROM s a JOIN t b ON fasted_within(a.v, b.v, random())',
	'SELECT FROM s a JOIN t b ON fasted_within(a.v, b.v, 1) AND a.k = (SELECT max(k) FROM t x WHERE x.id = a.id + b.id)',
	'SELECT FROM s a, LATERAL (SELECT * FROM t WHERE t.k > a.k OFFSET 0) b WHERE fasted_within(a.v, b.v, 1)',
	'SELECT FROM s a FULL JOIN t b ON fasted_within(a.v, b.v, 1) AND a.id = b.id')
{
	unlike(plan_of('SET enable_hashjoin = off', $query), qr/FastedJoin/, "not by the node: $query");
}
unlike(plan_of('SELECT', 'SELECT FROM one a JOIN one b ON fasted_within(a.v, b.v, 1)'), qr/FastedJoin/, 'not for one row');
like(plan_of('SELECT', 'SELECT FROM long_a a JOIN long_b b ON fasted_within(a.v, b.v, 1)'), qr/FastedJoin/, 'for many rows');
# A nested loop is used for few rows only, also before statistics exist.
sql(<<'END');
CREATE TABLE many_rows (id int PRIMARY KEY, k int, v real[]);
INSERT INTO many_rows SELECT g, g % 10, ARRAY[g % 100, g % 99, g % 98, g % 97, g % 10, g % 9, g % 8, g % 7]::real[] FROM generate_series(1, 20000) g;
CREATE TABLE few_rows AS TABLE many_rows LIMIT 20;
ANALYZE few_rows;
END
for my $statistics ('without statistics', 'with statistics')
{
	my $near = 'fasted_within(a.v, b.v, 3)';
	for my $query ("SELECT a.id, b.id FROM many_rows a JOIN many_rows b ON a.id < b.id AND $near", "SELECT a.id, b.id FROM many_rows a JOIN many_rows b ON $near",
		"SELECT count(*) FROM many_rows a JOIN many_rows b ON a.id < b.id AND $near", "SELECT a.id, b.id FROM many_rows a LEFT JOIN many_rows b ON a.id < b.id AND $near",
		"SELECT a.id FROM many_rows a WHERE EXISTS (SELECT FROM many_rows b WHERE a.id <> b.id AND $near)",
		"SELECT a.id FROM many_rows a WHERE NOT EXISTS (SELECT FROM many_rows b WHERE a.id > b.id AND $near)",
		'SELECT a.id, b.id FROM many_rows a JOIN many_rows b ON fasted_cosine_distance(a.v, b.v) < 0.1',
		'SELECT a.id, b.id FROM many_rows a JOIN many_rows b ON fasted_distance(a.v, b.v) < (SELECT 3.0)')
	{
		like(plan_of('SELECT', $query), qr/FastedJoin/, "many rows, $statistics: $query");
	}
	sql('ANALYZE many_rows');
}
unlike(plan_of('SELECT', 'SELECT a.id, b.id FROM few_rows a JOIN few_rows b ON a.id < b.id AND fasted_within(a.v, b.v, 3)'), qr/FastedJoin/, 'a nested loop for few rows');

like(plan_of('SELECT', 'INSERT INTO long_a SELECT * FROM long_b n WHERE NOT EXISTS (SELECT FROM long_a i WHERE fasted_within(i.v, n.v, 1))'),
	qr/FastedJoin.*Join Type: Anti/s, 'rows without a near row');
my $new = 'SELECT * FROM long_b n WHERE NOT EXISTS (SELECT FROM long_a i WHERE fasted_within(i.v, n.v, 0))';
my $expected = sql("$plain; SELECT count(*), sum(id) FROM ($new) q");
is(sql("WITH i AS (INSERT INTO long_a $new RETURNING id) SELECT count(*), sum(id) FROM i"),
	$expected, 'rows without a near row are inserted');
is(sql("SELECT count(*) FROM ($new) q"), '0', 'no row is new afterwards');

# The query loads the library.  From PostgreSQL 18 on, the planner loads it for any equality that is in one
# of its operator classes, as it does for those of contrib/bloom.
is(sql("SELECT count(*) FROM pg_settings WHERE name = 'fasted.join_node' AND current_setting('server_version_num')::int < 180000"),
	'0', 'the library is not loaded yet');

# --- prepared statements, cursors, functions

my $prepared = join "\n", 'PREPARE p(float8) AS SELECT count(*), sum(a.id * b.id) FROM s a JOIN t b ON fasted_distance(a.v, b.v) <= $1;',
  (map { "EXECUTE p($_);" } 0, 1, 2, 3, 'NULL', -1, "'NaN'", "'Infinity'", 2);
for my $mode (qw(force_custom_plan force_generic_plan))
{
	same_result($prepared, "prepared, $mode", set => "SET plan_cache_mode = $mode");
}
my $cursor = "BEGIN; DECLARE c CURSOR FOR SELECT a.id, b.id FROM $both ORDER BY 1, 2; FETCH 3 FROM c; FETCH 4 FROM c; CLOSE c; "
  . "DECLARE d SCROLL CURSOR FOR SELECT count(*) OVER () FROM $both; FETCH 2 FROM d; FETCH BACKWARD 1 FROM d; "
  . "DECLARE h CURSOR WITH HOLD FOR SELECT a.id, b.id FROM $both ORDER BY 1 DESC, 2; COMMIT; FETCH 5 FROM h";
same_result($cursor, 'cursors');
my $function = <<'END';
CREATE OR REPLACE FUNCTION looped() RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; n int := 0;
BEGIN
	FOR r IN SELECT a.id FROM s a JOIN t b ON fasted_within(a.v, b.v, 2) LOOP
		n := n + 1;
		EXIT WHEN n = 10;
	END LOOP;
	BEGIN
		PERFORM 1 / (a.id - 50) FROM s a JOIN s b ON fasted_within(a.v, b.v, 0) AND a.id = b.id;
	EXCEPTION WHEN division_by_zero THEN
		n := n + 1000;
	END;
	RETURN n;
END $$;
SELECT looped();
END
is(result_of($forced, $function), '1010', 'loops that end early or with an error');

# --- privileges

sql(<<'END');
CREATE ROLE reader LOGIN;
CREATE TABLE secrets AS TABLE s;
ALTER TABLE secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON secrets USING (k = 2);
ALTER TABLE secrets ADD PRIMARY KEY (id);
ANALYZE secrets;
GRANT SELECT ON secrets, barrier, t TO reader;
END
for my $relation (qw(secrets barrier))
{
	my $sql = "SET ROLE reader; SELECT count(*), sum(a.id) FROM $relation a JOIN t b ON fasted_within(a.v, b.v, 2)";
	same_result($sql, "privileges: $relation");
}
same_count('SELECT count(*) FROM secrets a JOIN secrets b ON fasted_within(a.v, b.v, 2) AND a.id < b.id', 'row security, with a leakproof order',
	set => 'SET ROLE reader', by => 'engine');
same_count('SELECT count(*) FROM secrets a JOIN secrets b ON fasted_within(a.v, b.v, 2) AND a.word < b.word', 'row security, with an order that may leak rows', set => 'SET ROLE reader');
is(result_of("$forced; SET ROLE reader", "SELECT count(*) FROM s a JOIN t b ON fasted_within(a.v, b.v, 2)"), 'error 42501', 'an error without the privilege');

# --- similarity 1 - cosine distance: that of zero vectors is NaN, which is above any number

sql(<<'END');
CREATE TABLE directions AS SELECT g AS id, some_vector(g, 3) AS v, some_vector(g, 3)::float8[] AS d, some_vector(g, 3)::int[] AS i
	FROM generate_series(1, 120) g;
ANALYZE directions;
END
for my $column (qw(v d i))
{
	my $similarity = "1 - fasted_cosine_distance(a.$column, b.$column)";
	my @bounds = ("$similarity > 0.95", "$similarity > 1", "$similarity >= 1", "$similarity > -1", "$similarity >= 'NaN'");
	push @bounds, "0.9 <= $similarity", "$similarity >= 0.95::real", "0.95::real < $similarity", "$similarity >= -1", "$similarity >= 1.0000000000000002", "$similarity > 0.9999999999999999",
	  "$similarity > -5", "$similarity > 1e-300", "$similarity > 'Infinity'", "$similarity >= '-Infinity'", "$similarity > 'NaN'", "$similarity > NULL", "$similarity > (SELECT 0.5)"
	  if $column eq 'v';
	for my $on (@bounds)
	{
		# a constant that is NULL excludes all rows
		same("SELECT a.id, b.id AS c FROM directions a JOIN directions b ON a.id < b.id AND $on", "similarity: $on", any_plan => $on =~ /NULL/);
		same("SELECT a.id FROM directions a WHERE NOT EXISTS (SELECT FROM s b WHERE $on)", "similarity, anti: $on", any_plan => 1) if $column eq 'v';
		same_count("SELECT count(*) FROM directions a JOIN directions b ON $on", "similarity: $on", $on =~ /NULL/ ? () : (by => 'engine'));
	}
	# at every similarity that occurs in the table
	for my $x (split /\n/, sql("SELECT DISTINCT $similarity FROM directions a, directions b WHERE a.id < b.id AND b.id < 40 ORDER BY 1 DESC LIMIT 12"))
	{
		same_count("SELECT count(*) FROM directions a JOIN directions b ON $similarity $_ '$x'", "similarity of $column $_ $x", by => 'engine') for '>', '>=';
	}
}
unlike(plan_of($forced, "SELECT FROM s a JOIN t b ON $_"), qr/FastedJoin/, "not the node's: $_")
  for '1 - fasted_cosine_distance(a.v, b.v) < 0.9', '2 - fasted_cosine_distance(a.v, b.v) > 1.9', '1 - fasted_distance(a.v, b.v) > 0.5';

# --- pgvector

SKIP:
{
	skip 'pgvector is not there', 1 unless $pgvector;
	sql(<<'END');
CREATE TABLE va AS SELECT id, k, v::vector(6) AS v, v::vector(6)::halfvec(6) AS h FROM s;
CREATE TABLE vb AS SELECT id, k, v::vector(6) AS v, v::vector(6)::halfvec(6) AS h FROM t;
CREATE TABLE fine AS SELECT g AS id, (SELECT array_agg((hashint8extended(k, g / 3) % 1000003 / 1000003.0 * 1e-3 + 1)::real) FROM generate_series(1, 96) k)::vector AS v
	FROM generate_series(1, 300) g;
CREATE TABLE tiny AS SELECT id, (v::real[]::float8[])[1:3]::vector AS v FROM fine;
ALTER TABLE va ADD PRIMARY KEY (id);
ALTER TABLE fine ADD PRIMARY KEY (id);
ANALYZE va, vb, fine, tiny;
END
	my $load = "LOAD 'fasted'";
	for my $on ('a.v <-> b.v < 2', 'a.v <-> b.v <= 2', '2 > b.v <-> a.v', 'l2_distance(a.v, b.v) < 3', 'a.h <-> b.h <= 2.2360679774997896',
		'a.v <=> b.v < 0.1', '0.05 >= b.h <=> a.h', 'cosine_distance(a.v, b.v) <= 0', 'a.v <=> b.v < 1', "a.v <=> b.v <= 'NaN'",
		'a.v <-> b.v < sqrt(5)', 'a.v <-> b.v <= sqrt(5)', "a.v <-> b.v < 'NaN'", 'a.v <-> b.v < -1', 'a.v <-> b.v <= 0',
		'a.v <-> b.v < 2::real', '2.236068::real >= a.h <-> b.h', '1 - (a.v <=> b.v) > 0.9', '0.95::real <= 1 - (b.h <=> a.h)', '1 - (a.v <=> b.v) >= 1',
		'1 - (a.v <=> b.v) > 2', "1 - (a.v <=> b.v) > 'Infinity'", "1 - (a.v <=> b.v) >= 'NaN'", "1 - (a.v <=> b.v) > 'NaN'", '1.0 - cosine_distance(a.v, b.v) > -1',
		'a.v <#> b.v < -8', '-6 >= a.h <#> b.h', 'a.v <#> b.v < 0', 'a.v <#> b.v <= 0', 'vector_negative_inner_product(a.v, b.v) <= 3', "a.v <#> b.v < 'NaN'",
		"a.v <#> b.v < 'Infinity'", "a.v <#> b.v <= '-Infinity'")
	{
		same("SELECT a.id, b.id AS c FROM va a JOIN vb b ON $on AND a.id <> b.id", "pgvector: $on", set => $load);
		same("SELECT a.id FROM va a WHERE NOT EXISTS (SELECT FROM vb b WHERE $on)", "pgvector, anti: $on", set => $load);
		same_count("SELECT count(*) FROM va a JOIN vb b ON $on", "pgvector: $on", set => $load, by => 'node');
		same_count("SELECT count(*) FROM va a JOIN va b ON $on" . pick('', ' AND a.id < b.id', ' AND a.k = b.k'), "pgvector, with itself: $on", set => $load);
	}
	sql('CREATE TABLE spread_v AS SELECT id, v::vector(4) AS v FROM spread; ANALYZE spread_v');
	foreseen_joins('spread_v', 'a.v <-> b.v < 0.4', $load);
	foreseen_joins('spread_v', '0.1 > b.v <=> a.v', $load);
	for my $on ('1 - (a.v <=> b.v) < 0.9', '2 - (a.v <=> b.v) > 1.9', '1 - (a.v <-> b.v) > 0.5', '1 - (a.v <=> b.v) = 1')
	{
		unlike(plan_of("$forced; $load", "SELECT FROM va a JOIN vb b ON $on"), qr/FastedJoin/, "not by the node: $on");
	}
	# invalid vectors, which a condition on the outer side excludes
	my $vector = "translate(a.body, '{}', '[]')::vector";
	for my $on ("a.valid AND $vector <-> b.v < 2", "a.valid AND a.id <> b.id AND 1 - ($vector <=> b.v) > 0.9")
	{
		same("SELECT a.id, b.id AS c FROM texts a LEFT JOIN vb b ON $on", "pgvector, left join: $on", set => $load);
		same("SELECT a.id FROM texts a WHERE NOT EXISTS (SELECT FROM vb b WHERE $on)", "pgvector, anti join: $on", set => $load);
	}
	is(result_of("$forced; $load", "SELECT count(*) FROM texts a JOIN vb b ON $vector <-> b.v < 2"), 'error 22P02', 'pgvector: an invalid vector is an error');
	# from the TOAST table, at distances near x; and vectors that must be read in different ways
	sql('CREATE TABLE long_v AS SELECT id, (v::float8[])::vector AS v, v::vector::halfvec AS h FROM long_b; ANALYZE long_v');
	for my $vector (qw(v h))
	{
		my $x = sql("SELECT percentile_disc(0.1) WITHIN GROUP (ORDER BY a.$vector <-> b.$vector) FROM long_v a, long_v b WHERE a.id < b.id AND b.id < 100");
		for my $limit ('1MB', '100MB')
		{
			same("SELECT a.id, b.id AS c FROM long_v a JOIN long_v b ON a.$vector <-> b.$vector <= $x AND a.id < b.id", "pgvector, $vector, from TOAST, $limit",
				set => "$load; SET fasted.memory_limit = '$limit'");
		}
	}
	# near x pgvector's FP32 arithmetic decides: at every distance that occurs in the table
	for my $distance ('a.v <-> b.v', 'a.v <=> b.v', '1 - (a.v <=> b.v)', 'a.v <#> b.v')
	{
		my @compare = $distance =~ /^1/ ? ('>', '>=') : ('<', '<=');
		my @distances = split /\n/, sql("SELECT DISTINCT $distance FROM fine a, fine b WHERE a.id < 30 AND b.id BETWEEN a.id + 1 AND a.id + 3 ORDER BY 1 LIMIT 30");
		same("SELECT a.id, b.id AS c FROM fine a JOIN fine b ON $distance " . pick(@compare) . " $_ AND a.id < b.id",
			"pgvector, $distance beside $_", set => $load)
		  for @distances;
		same_count("SELECT count(*) FROM fine a JOIN fine b ON $distance " . pick(@compare) . " $_ AND a.id < b.id",
			"pgvector, $distance beside $_", set => $load, by => 'node')
		  for @distances;
	}
	for my $scale ('1e-25', '1e-18', '1e18', '1e30')
	{
		sql("DROP TABLE IF EXISTS scaled; CREATE TABLE scaled AS SELECT id, (SELECT array_agg((x * $scale)::real ORDER BY i) FROM unnest(v::real[]) WITH ORDINALITY u (x, i))::vector AS v FROM va WHERE v IS NOT NULL; ANALYZE scaled");
		same("SELECT a.id, b.id AS c FROM scaled a JOIN scaled b ON a.v <-> b.v < 2 * $scale AND a.id < b.id", "pgvector, elements of $scale", set => $load);
		same("SELECT a.id, b.id AS c FROM scaled a JOIN scaled b ON a.v <=> b.v < 0.05 AND a.id < b.id", "pgvector, cosine, elements of $scale", set => $load);
		same("SELECT a.id, b.id AS c FROM scaled a LEFT JOIN va b ON a.v <=> b.v < 0.05", "pgvector, cosine, beside others", set => $load);
		same("SELECT a.id, b.id AS c FROM scaled a JOIN va b ON 1 - (a.v <=> b.v) > 0.95", "pgvector, similarity, elements of $scale", set => $load);
		same("SELECT a.id, b.id AS c FROM scaled a JOIN scaled b ON a.v <#> b.v < -8 * $scale * $scale", "pgvector, inner product, elements of $scale", set => $load);
		same("SELECT a.id, b.id AS c FROM scaled a LEFT JOIN va b ON a.v <#> b.v <= -8 * $scale", "pgvector, inner product, beside others", set => $load);
	}
}

SKIP:
{
	skip 'pgvector has no distances of bits', 1
	  unless $pgvector && sql("SELECT count(*) FROM pg_proc WHERE proname = 'jaccard_distance'");
	sql(<<'END');
CREATE TABLE prints AS SELECT g AS id, g % 5 AS k, CASE WHEN g % 20 > 0 THEN (hashint8extended(g / 5, 0) & hashint8extended(g % 3, 1))::bit(64)::bit(60) END AS v FROM generate_series(1, 500) g;
INSERT INTO prints VALUES (1000, 0, 0::bit(60)), (1001, 0, 0::bit(60));
ANALYZE prints;
END
	my $load = "LOAD 'fasted'";
	for my $on ('a.v <~> b.v < 6', '5.5 >= a.v <~> b.v', 'hamming_distance(a.v, b.v) <= 0', 'a.v <~> b.v < 1000', "a.v <~> b.v < 'NaN'", 'a.v <%> b.v < 0.3', 'a.v <%> b.v <= 1 - 5 / 6::float8',
		'jaccard_distance(a.v, b.v) <= 0', 'a.v <%> b.v < 1', 'a.v <%> b.v <= 1', 'a.v <%> b.v <= 0.3', '1 - (a.v <%> b.v) >= 0.7', '1 - jaccard_distance(a.v, b.v) > 0.5',
		"1 - (a.v <%> b.v) > 'NaN'", 'fasted_jaccard_similarity(a.v, b.v) >= 0.7')
	{
		same("SELECT a.id, b.id AS c FROM prints a LEFT JOIN prints b ON $on", "pgvector: $on", set => $load);
		same_count("SELECT count(*) FROM prints a JOIN prints b ON $on" . pick('', ' AND a.k = b.k'), "pgvector: $on", set => $load, by => $on =~ /%|jaccard/ ? 'node' : 'engine');
	}
}

# --- sides that parallel workers read

# null and long values, values in a TOAST table, and vectors that the engine does not take
sql(<<'END');
CREATE TABLE many (id int, k int, word text, v real[], usable int);
ALTER TABLE many ALTER word SET STORAGE EXTERNAL;
INSERT INTO many SELECT g, nullif(g % 7, 3), CASE WHEN g % 400 = 1 THEN repeat('long', 150000) WHEN g % 10 > 0 THEN repeat(md5(g::text), g % 5 * (g % 9)) END,
	CASE WHEN g % 300 = 2 THEN '{1,2,NaN,4,5,6}' WHEN g % 300 = 3 THEN some_vector(g, 4) WHEN g % 300 = 4 THEN '{1,2,NULL,4,5,6}'
	WHEN g % 300 = 5 THEN '{0,0,0,0,0,0}' WHEN g % 11 > 0 THEN some_vector(g, 6) END, (g % 300 NOT IN (2, 3, 4))::int FROM generate_series(1, 600) g;
CREATE TABLE many_doubles AS SELECT id, k, word, v::float8[] AS v, usable FROM many;
CREATE TABLE no_rows AS TABLE many;
DELETE FROM no_rows;
CREATE TABLE late AS SELECT g AS id, repeat(chr(97 + g % 26), 1900) AS word, CASE WHEN g >= 300 THEN some_vector(g, 6) END AS v FROM generate_series(1, 600) g;
ANALYZE many, many_doubles, late;
END
for my $table ('many', 'many_doubles')
{
	for my $near ('fasted_distance(a.v, b.v) <= 2', 'fasted_cosine_distance(a.v, b.v) < 0.05', '1 - fasted_cosine_distance(a.v, b.v) > 0.95', 'fasted_cosine_similarity(a.v, b.v) > 0.95')
	{
		my $usable = "a.usable + b.usable = 2 AND $near";
		for my $set ("$workers; SET parallel_leader_participation = off", "$workers; SET fasted.memory_limit = '1MB'")
		{
			same("SELECT a.id, b.id AS c, a.word, b.k FROM $table a JOIN $table b ON a.id < b.id AND $usable", "$near: with itself, $set", set => $set);
			same("SELECT a.id, b.id AS c, b.word, a.k FROM $table a LEFT JOIN $table b ON a.id + 0 < b.id AND $usable", "$near: left join, $set", set => $set);
			same("SELECT a.id, a.word FROM $table a WHERE NOT EXISTS (SELECT FROM $table b WHERE a.id <> b.id AND a.k < b.id AND $usable)", "$near: anti join, $set", set => $set);
			same("SELECT a.id, b.id AS c, a.word, b.k FROM $table a JOIN $table b ON a.k = b.k AND a.id < b.id AND $usable", "$near: with equal keys, $set", set => $set);
			same("SELECT a.id, b.id AS c, b.word, a.v FROM $table a LEFT JOIN $table b ON a.k = b.k AND b.id > 5 AND $usable", "$near: left join with equal keys, $set", set => $set);
		}
		same_count("SELECT count(*) FROM $table a JOIN $table b ON a.id < b.id AND $near WHERE a.usable = 1 AND b.usable = 1", $near, set => $workers);
	}
}
my $of_many = 'many a JOIN many b ON a.id < b.id AND a.usable + b.usable = 2 AND fasted_distance(a.v, b.v) <= 2';
like(plan_of("$forced; $workers", "SELECT a.id, b.word FROM $of_many"), qr/FastedJoin.*Gather.*Parallel Custom Scan \(FastedParallelRead\).*Parallel Seq Scan on many/s,
	'workers read the side');
like(plan_of("$forced; $workers", "SELECT a.id, b.id FROM many a LEFT JOIN many b ON a.k = b.k AND b.id > 5 AND fasted_distance(a.v, b.v) <= 2"), qr/Parallel Seq Scan on many a.*Parallel Seq Scan on many b/s,
	'workers read both sides with equality keys');
same("SELECT a.id, b.id AS c FROM many a LEFT JOIN no_rows b ON a.id / (a.k - a.k) > 0 AND fasted_distance(a.v, b.v) <= 2", 'workers: without inner rows, a clause on outer rows is not evaluated',
	set => "$workers; SET enable_hashjoin = off; SET enable_mergejoin = off");
same("SELECT a.id, b.id AS c FROM many a LEFT JOIN no_rows b ON a.k = b.k AND fasted_distance(a.v, b.v) <= 2", 'workers read no inner rows', set => $workers);
# rows are read after one has been fetched from the temporary file
same("SELECT x.n, (SELECT md5(string_agg(a.word, '' ORDER BY a.id)) FROM late a LEFT JOIN t b ON fasted_distance(a.v, b.v) <= x.e) FROM (VALUES (1, NULL::float8), (2, NULL)) x (n, e)", 'workers, and a null bound',
	set => "$workers; SET parallel_leader_participation = off; SET fasted.memory_limit = '1MB'");
same("SELECT g, n FROM generate_series(0, 3) g, LATERAL (SELECT count(*) AS n FROM many a JOIN many_doubles b ON a.id < b.id AND a.usable + b.usable > 1 AND fasted_distance(a.v::float8[], b.v) <= g) q",
	'workers read again', set => $workers);
same("SELECT count(*) FROM (SELECT a.id FROM $of_many LIMIT 7) q", 'workers, and LIMIT', set => $workers);
is(result_of("$forced; $workers", "SELECT count(*) FROM many a JOIN many b ON a.id < b.id AND fasted_distance(a.v, b.v) <= 2") =~ /^error 22/, 1, 'workers, and a row that is compared with an error');

# --- cancelled in every phase

sql(<<'END');
CREATE FUNCTION slowly(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN $1; END $$;
CREATE VIEW slow AS SELECT slowly(id) AS id, v FROM s OFFSET 0;
CREATE VIEW large AS SELECT g AS id, array_fill(g::real, ARRAY[500]) AS v FROM generate_series(1, 40000) g OFFSET 0;
CREATE VIEW dense AS SELECT g AS id, ARRAY[g::real] AS v FROM generate_series(1, 20000) g OFFSET 0;
END
my %phases = (
	'while the engine counts' => 'SELECT count(*) FROM large a JOIN large b ON fasted_within(a.v, b.v, 0)',
	'while a side is read' => 'SELECT count(*) FROM slow a JOIN slow b ON fasted_within(a.v, b.v, 1)',
	'while the engine computes' => 'SELECT count(*) FROM large a JOIN large b ON fasted_within(a.v, b.v, 0) AND a.id + b.id < 0',
	'while workers read' => "$workers; SELECT count(*) FROM s a JOIN t b ON fasted_within(a.v, b.v, 1) WHERE pg_sleep(0.1 * (b.id - b.id + 1)) IS NOT NULL",
	'while pairs come' => 'SELECT count(*) FROM dense a JOIN dense b ON fasted_within(a.v, b.v, 100000) AND a.id + b.id < 0');
for my $phase (sort keys %phases)
{
	my $session = FastedTest::Session->new($node);
	$session->query("$forced; SET fasted.cpu_kernel = portable");
	$session->{out} = '';
	$session->send("SET statement_timeout = '1s'; $phases{$phase};\n\\echo over");
	$session->wait_for(qr/^over$/m);
	like($session->{err}, qr/canceling statement due to statement timeout/, "cancelled $phase");
	is($session->query('SELECT 1'), '1', 'the session remains usable');
	$session->quit;
}
run_checks();
unlike(log_since($node, 0), qr/leak|PANIC|TRAP|was terminated by signal/, 'the log reports no leak and no crash');

$node->stop;
done_testing();
