# Nearest neighbours: the same with all settings, and with a file if memory is too small.
# They can be cancelled quickly at each stage, and progress is shown.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('nearest', <<'END');
max_worker_processes = 16
max_parallel_workers = 16
log_temp_files = 0
fasted.threads = 2
fasted.memory_limit = '400MB'
END
create_wide_views($node);

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

# 6000 x 64 in clusters, and 3000 vectors near them; ids are in no order, and vectors are
# of whole numbers, so that many distances are equal
sql(<<'END');
CREATE FUNCTION point(n int) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$
	SELECT array_agg((hashint4(n % 60 * 64 + k) & 63) + (hashint4(n * 64 + k) & 3))::real[] FROM generate_series(1, 64) k $$;
CREATE TABLE a AS SELECT i * 7919 % 100003 AS id, point(i) AS v, i % 300 AS g, i % 40 AS h FROM generate_series(1, 6000) i;
CREATE TABLE b AS SELECT i * 7907 % 100003 AS id, point(i) AS v, i % 290 AS g, i % 37 AS h FROM generate_series(6001, 9000) i;
ALTER TABLE a ADD PRIMARY KEY (id);
ALTER TABLE b ADD PRIMARY KEY (id);
-- one in twenty rows of each, against which the answers for all are checked
CREATE TABLE reference AS
	SELECT 'b' AS what, a.id AS id_a, n.* FROM a CROSS JOIN LATERAL
		(SELECT b.id AS id_b, d AS dist, row_number() OVER (ORDER BY d, b.id)::int AS rank FROM b, fasted_distance(a.v, b.v) d ORDER BY 3 LIMIT 20) n
	WHERE a.id % 20 = 0
	UNION ALL
	SELECT 'a', a.id, n.* FROM a CROSS JOIN LATERAL
		(SELECT b.id, d, row_number() OVER (ORDER BY d, b.id)::int FROM a b, fasted_distance(a.v, b.v) d WHERE b.id <> a.id ORDER BY 3 LIMIT 20) n
	WHERE a.id % 20 = 0
	UNION ALL
	SELECT 'h', a.id, n.* FROM a CROSS JOIN LATERAL
		(SELECT b.id, d, row_number() OVER (ORDER BY d, b.id)::int FROM b, fasted_distance(a.v, b.v) d WHERE b.h = a.h ORDER BY 3 LIMIT 20) n
	WHERE a.id % 20 = 0;
ANALYZE;
END
my %calls = (
	a => "fasted_knn_join('a', 'v', 'a', 'v', 20)",
	b => "fasted_knn_join('a', 'v', 'b', 'v', 20)",
	h => "fasted_knn_join('a', 'v', 'b', 'v', 20, partition_by => 'h')");

# Returns the number of rows, and how many rows of the reference are missing or differ.
sub check
{
	my ($what, $settings) = @_;
	return sql(<<END);
$settings;
CREATE TEMP TABLE found AS SELECT * FROM $calls{$what};
SELECT (SELECT count(*) FROM found), (SELECT count(*) > 5000 FROM reference WHERE what = '$what'),
	(SELECT count(*) FROM (SELECT id_a, id_b, dist, rank FROM reference WHERE what = '$what' EXCEPT TABLE found) d),
	(SELECT count(*) FROM found WHERE id_a % 20 = 0) = (SELECT count(*) FROM reference WHERE what = '$what')
END
}

my %rows = (a => 120000, b => 120000, h => 111000);
for my $settings ('SET fasted.threads = 1', 'SET fasted.threads = 3', 'SET fasted.filter = fp16',
	"SET fasted.filter = 'int8'", "SET fasted.cpu_kernel = portable", 'SET fasted.scan_node = off',
	"SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 3")
{
	is(check($_, $settings), "$rows{$_}|t|0|t", "$_, $settings") for sort keys %calls;
}

# --- many ties at the last rank, resolved by id; the rows are not in order of id

sql(<<'END');
CREATE TABLE same AS SELECT i * 7919 % 100003 AS id, chr(65 + i % 2 * 32 + i % 26) || md5(i::text) AS n,
	array_fill((i % 5)::real, ARRAY[200]) AS v, i % 3 AS h FROM generate_series(1, 1500) i ORDER BY hashint4(i);
ALTER TABLE same ADD PRIMARY KEY (id), ALTER n TYPE text COLLATE "C";
CREATE VIEW again AS SELECT * FROM same WHERE h > 0;
ANALYZE same;
END

# Expects the first 40 rows at distance 0 by a key, except the row itself in a self-join.
sub same_in_order
{
	my ($key, $type, $other, $within, $settings) = @_;
	my $call = "fasted_knn_join('same', 'v', '$other', 'v', 40, id_type => NULL::$type, a_id => '$key', b_id => '$key'"
	  . ($within ? ", partition_by => 'h')" : ')');
	my $both = $other eq 'same';
	my $of = $within ? 'v, h' : 'v';
	return sql(<<END);
$settings;
CREATE TEMP TABLE found AS SELECT id_a, id_b, dist, rank FROM $call;
CREATE TEMP TABLE expected AS
	SELECT a.$key AS id_a, b.$key AS id_b, 0::float8 AS dist, (b.r - CASE WHEN ${\($both ? 'b.r > a.r' : 'false')} THEN 1 ELSE 0 END)::int AS rank
	FROM (SELECT *, row_number() OVER (PARTITION BY $of ORDER BY $key) AS r FROM same) AS a
		JOIN (SELECT *, row_number() OVER (PARTITION BY $of ORDER BY $key) AS r FROM $other) AS b
		ON a.v = b.v AND (a.h = b.h OR ${\($within ? 'false' : 'true')}) AND b.r <= 41 AND (a.$key <> b.$key OR ${\($both ? 'false' : 'true')});
DELETE FROM expected WHERE rank > 40;
SELECT (SELECT count(*) FROM found), (SELECT count(*) FROM (TABLE found EXCEPT TABLE expected) d), (SELECT count(*) FROM (TABLE expected EXCEPT TABLE found) d)
END
}

my $parallel = 'SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 3';
for my $settings ('SET max_parallel_workers_per_gather = 0', $parallel, "$parallel; SET fasted.memory_limit = '1MB'", 'SET fasted.scan_node = off')
{
	for my $key ([ 'id', 'int' ], [ 'n', 'text' ])
	{
		is(same_in_order(@$key, 'same', 0, $settings), '60000|0|0', "ties, $key->[0], $settings");
		is(same_in_order(@$key, 'again', 0, $settings), '60000|0|0', "ties with another relation, $key->[0], $settings");
		is(same_in_order(@$key, 'same', 1, $settings), '60000|0|0', "ties in partitions, $key->[0], $settings");
		# rows without another row in their partition have no neighbour
		is(same_in_order(@$key, 'again', 1, $settings), '40000|0|0', "ties in partitions with another relation, $key->[0], $settings");
	}
}

# --- EXPLAIN ANALYZE names the engine also if the join stopped early or the last run had none

for my $call (sort values %calls)
{
	like(sql("SET fasted.engine = auto; EXPLAIN (ANALYZE) SELECT * FROM $call LIMIT 1"), qr/Engine: (?!auto)\w+\n(?:.*\n)*?\s+Rows Read: [1-9]/, "LIMIT: the engine of $call");
}
sql('CREATE VIEW tiny AS SELECT * FROM a WHERE id < 1000');
like(sql("SET fasted.engine = auto; EXPLAIN (ANALYZE) SELECT * FROM (VALUES ('a'::regclass), ('tiny')) r (t), LATERAL fasted_knn_join(t, 'v', t, 'v', 3, a_id => 'id', partition_by => 'h')"),
	qr/Engine: (?!auto)\w+\n(?:.*\n)*?\s+Runs: 2\n/, 'a run of small partitions after one with an engine');

# --- parallel workers return the result

my $cheap = "$parallel; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0";
my $sums = "SELECT count(*), sum(id_a), sum(id_b * rank), sum(rank), max(dist) FROM $calls{b} WHERE id_b % 3 > 0";
like(sql("$cheap; EXPLAIN (COSTS OFF) $sums"), qr/Gather.*Parallel Custom Scan \(FastedNearest\)/s, 'rows are distributed to workers');
is(sql("$cheap; $sums"), sql("SET max_parallel_workers_per_gather = 0; $sums"), 'workers: the same rows as without workers');
is(sql("$cheap; $_"), sql("SET max_parallel_workers_per_gather = 0; $_"), 'workers: the same rows with GROUP BY')
  for "SELECT id_a % 7, count(*), sum(id_b), max(dist) FROM $calls{h} GROUP BY 1 ORDER BY 1";
unlike(sql("$cheap; EXPLAIN (COSTS OFF) SELECT count(dist) FROM fasted_knn_join('same', 'v', 'same', 'v', 10, id_type => NULL::text, a_id => 'n')"),
	qr/Parallel Custom/, 'no workers with ids that are passed by reference');

# --- memory

for my $limit ('2MB', '1MB')
{
	for my $what ('a', 'b')
	{
		my $offset = log_size($node);
		is(check($what, "SET fasted.memory_limit = '$limit'"), "$rows{$what}|t|0|t", "$what, $limit");
		like(log_since($node, $offset), qr/temporary file: path/, "$what, $limit: with a temporary file");
		is(scalar temp_files($node), 0, "$what, $limit: the file is removed");
	}
}
like(sql("SET fasted.memory_limit = '1MB'; EXPLAIN (ANALYZE, TIMING OFF) SELECT * FROM $calls{b}"), qr/Panels: ([2-9]|\d\d)/, 'several panels');

# --- cancelled

my $limit_ms = sanitized() ? 2000 : 100;
sql(<<'END');
CREATE VIEW few AS SELECT * FROM endless LIMIT 10;
CREATE VIEW half AS SELECT * FROM wide WHERE id <= 20000;
CREATE VIEW wide_groups AS SELECT id, v, id % 20 AS g FROM wide;
CREATE VIEW small_groups AS SELECT g AS id, g / 20 AS g, array_fill(g::real, ARRAY[100]) AS v FROM generate_series(1, 100000000) g;
END
my %stages = (
	'reading' => {
		sql => "SELECT count(*) FROM fasted_knn_join('endless', 'v', 'small', 'v', 1, a_id => 'id');",
		reached => sub { memory_of($_[0], 'VmRSS') > 100 * 1024 },
	},
	'reading neighbours' => {
		sql => "SELECT count(*) FROM fasted_knn_join('few', 'v', 'endless', 'v', 1, a_id => 'id', b_id => 'id');",
		reached => sub { memory_of($_[0], 'VmRSS') > 100 * 1024 },
	},
	'computing' => {
		sql => "SELECT count(*) FROM fasted_knn_join('wide', 'v', 'wide', 'v', 5, a_id => 'id');",
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'computing in panels' => {
		settings => "SET fasted.memory_limit = '16MB';",
		sql => "SELECT count(*) FROM fasted_knn_join('wide', 'v', 'wide', 'v', 5, a_id => 'id');",
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'a partition' => {
		sql => "SELECT count(*) FROM fasted_knn_join('wide_groups', 'v', 'wide_groups', 'v', 5, a_id => 'id', partition_by => 'g');",
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'small partitions' => {
		settings => 'SET fasted.scan_node = off;',
		sql => "SELECT count(*) FROM fasted_knn_join('small_groups', 'v', 'small_groups', 'v', 5, a_id => 'id', partition_by => 'g');",
		reached => sub { sql('SELECT coalesce(max(rows_read), 0) FROM pg_stat_fasted_progress') > 0 || temp_files($node) },
	});

for my $name (sort keys %stages)
{
	my $session = FastedTest::Session->new($node);
	my ($state, $best) = cancel_soon($session, $limit_ms, %{ $stages{$name} });
	is($state, '57014', "$name: cancelled");
	cmp_ok($best, '<', $limit_ms, "$name: quickly (ms)");
	is($session->query("SELECT count(*) FROM fasted_knn_join('small', 'v', 'small', 'v', 1)"), 100, "$name: the session remains usable");
	is(scalar temp_files($node), 0, "$name: no file remains");
	$session->quit;
}

# --- progress

my $session = FastedTest::Session->new($node);
my $view = 'pg_stat_fasted_progress';
$session->send("SET fasted.cpu_kernel = portable;");
$session->send("SELECT count(*) FROM fasted_knn_join('half', 'v', 'half', 'v', 5, a_id => 'id');");
ok(wait_until(sub { sql("SELECT relation, rows_read, units_done < units_total FROM $view WHERE phase = 'joining' AND units_done > 0") eq 'half|20000|t' }), 'progress of a join');
sql('SELECT pg_cancel_backend(' . $session->pid . ')');
$session->query('SELECT');
is(sql("SELECT count(*) FROM $view"), 0, 'progress: the row disappears');
# of all partitions, not of a single one
$session->send("SET fasted.scan_node = off; SELECT count(*) FROM fasted_knn_join('wide_groups', 'v', 'wide_groups', 'v', 5, a_id => 'id', partition_by => 'g');");
ok(wait_until(sub { sql("SELECT relation, rows_read, rows_expected FROM $view WHERE phase = 'joining'") eq 'wide_groups|40000|40000' }), 'the numbers of rows are those of all partitions');
sql('SELECT pg_cancel_backend(' . $session->pid . ')');
$session->query('SELECT');
$session->quit;

$node->stop;
done_testing();
