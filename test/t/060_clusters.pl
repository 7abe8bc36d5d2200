# Neighbours, clusters and representatives: the same as by brute force in SQL, with every kernel,
# memory limit, number of threads and way of reading.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = new_node('groups', <<'END');
max_worker_processes = 16
max_parallel_workers = 16
max_parallel_workers_per_gather = 2
log_temp_files = 0
fasted.threads = 2
END
create_wide_views($node);
create_brute_force($node);

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

# --- brute force in SQL

sql(reference_functions());

# Tables of whole numbers, which avoid rounding; many distances are equal.
# Ids are in no order, some rows have no vector, some priorities are null or equal.
my %tables = (
	plane => [ 160, "ARRAY[(random() * 18)::int, (random() * 18)::int]" ],
	line => [ 150, "ARRAY[(random() * 240)::int]" ],
	# 12 clusters of different sizes
	clusters => [ 280, "ARRAY(SELECT (hashint4((sqrt(i))::int % 12 * 8 + k) & 63) + (random() * 4)::int FROM generate_series(1, 8) k)" ],
	twins => [ 150, "ARRAY[i % 7, 0, i % 2 * 30]" ]);

for my $table (sort keys %tables)
{
	my ($rows, $vector) = @{ $tables{$table} };
	sql(<<END);
SELECT setseed(0.25);
CREATE TABLE $table AS
	SELECT (i * 7919) % 10007 - 5000 AS id, CASE WHEN i % 20 <> 0 THEN ($vector)::real[] END AS v,
		CASE WHEN i % 9 <> 0 THEN (random() * 40)::int END AS priority
	FROM generate_series(1, $rows) i;
ALTER TABLE $table ADD PRIMARY KEY (id);
CREATE TABLE ${table}_distances AS SELECT id_a AS a, id_b AS b, dist FROM brute_force('$table', 'Infinity');
INSERT INTO ${table}_distances SELECT b, a, dist FROM ${table}_distances;
CREATE INDEX ON ${table}_distances (a, dist);
ANALYZE $table, ${table}_distances;
END
}

# Checks that a call returns the reference's rows, in order of id.  The queries are collected here;
# are_references runs and compares them in one session.
my @noted;
sub is_reference
{
	my ($call, $reference, $name) = @_;
	push @noted, [ $name, "SELECT r, row_number() OVER () FROM $call r",
		"SELECT r, row_number() OVER (ORDER BY id) FROM $reference r ORDER BY id" ];
	return;
}

sub are_references
{
	my $script = join '', map { "\\echo next\n$_->[1];\n\\echo next\n$_->[2];\n" } @noted;
	my (undef, @answers) = split /^next\n?/m, sql($script);
	chomp @answers;
	is(scalar @answers, 2 * @noted, 'a result for each query');
	is(shift @answers, shift @answers, $_->[0]) for @noted;
	@noted = ();
	return;
}

for my $table (sort keys %tables)
{
	my $of = "'$table', '${table}_distances'";
	for my $eps (0, 1, 2.5, 4, 9, 1000)
	{
		is_reference("fasted_neighbors('$table', 'v', $eps)", "reference_neighbors($of, $eps)", "$table, $eps: neighbours");
		for my $min_samples ($eps < 1000 ? (1, 2, 3, 5, 10, 30, 1000) : (1, 30, 1000))
		{
			is_reference("fasted_cluster('$table', 'v', $eps, $min_samples)",
				"reference_cluster($of, $eps, $min_samples)", "$table, $eps: clusters, min_samples $min_samples");
		}
		is_reference("fasted_keep_one('$table', 'v', $eps)",
			"reference_keep_one($of, $eps, 'id')", "$table, $eps: representatives, by id");
		is_reference("fasted_keep_one('$table', 'v', $eps, 'priority')",
			"reference_keep_one($of, $eps, 'priority NULLS LAST, id')", "$table, $eps: representatives, by priority");
		is_reference("fasted_keep_one('$table', 'v', $eps, 'priority', true)",
			"reference_keep_one($of, $eps, 'priority DESC NULLS LAST, id')", "$table, $eps: representatives, by priority, descending");
	}
	are_references();
}

# --- cosine distance, with the same tables and vectors of other lengths; zero vectors have no pair

for my $table (sort keys %tables)
{
	sql(<<END);
UPDATE $table SET v = array_fill(0::real, ARRAY[cardinality(v)]) WHERE id % 23 = 0 AND v IS NOT NULL;
UPDATE $table SET v = (SELECT array_agg(x * 1000) FROM unnest(v) x) WHERE id % 7 = 0;
CREATE TABLE ${table}_angles AS SELECT a.id::bigint AS a, b.id::bigint AS b, dist
	FROM $table a JOIN $table b ON a.id <> b.id, fasted_cosine_distance(a.v, b.v) dist WHERE dist <> 'NaN';
CREATE INDEX ON ${table}_angles (a, dist);
ANALYZE $table, ${table}_angles;
END
}

for my $table (sort keys %tables)
{
	my $of = "'$table', '${table}_angles'";
	my $by = "metric => 'cosine'";
	cmp_ok(sql("SELECT count(*) FROM $table WHERE 0 = ALL (v)"), '>', 1, "$table: zero vectors");
	for my $eps (0, 1e-4, 0.01, 0.1, 1, 2, "float8 'Infinity'")
	{
		is_reference("fasted_neighbors('$table', 'v', $eps, $by)", "reference_neighbors($of, $eps)", "$table, cosine, $eps: neighbours");
		for my $min_samples ($eps =~ /^0/ ? (1, 2, 5, 30) : (1, 30))
		{
			is_reference("fasted_cluster('$table', 'v', $eps, $min_samples, $by)",
				"reference_cluster($of, $eps, $min_samples)", "$table, cosine, $eps: clusters, min_samples $min_samples");
		}
		is_reference("fasted_keep_one('$table', 'v', $eps, $by)",
			"reference_keep_one($of, $eps, 'id')", "$table, cosine, $eps: representatives, by id");
		is_reference("fasted_keep_one('$table', 'v', $eps, 'priority', true, $by)",
			"reference_keep_one($of, $eps, 'priority DESC NULLS LAST, id')", "$table, cosine, $eps: representatives, by priority");
	}
	are_references();
}

# --- scikit-learn as a peer: all cases in one process, because loading it is slow

my $peer = <<'END';
import sys
import numpy
from sklearn.cluster import DBSCAN
points = numpy.loadtxt(sys.argv[1], delimiter=',')
for case in sys.argv[2:]:
    eps, min_samples, metric = case.split()
    found = DBSCAN(eps=float(eps), min_samples=int(min_samples), metric=metric, algorithm='brute').fit(points[:, 1:])
    core = set(found.core_sample_indices_)
    first = {}
    for i, label in enumerate(found.labels_):
        # a border row may belong to any of several clusters, so only core rows are compared
        if i in core: first.setdefault(label, int(points[i, 0]))
    for i, label in enumerate(found.labels_):
        print('%d|%s|%s' % (points[i, 0], 't' if i in core else 'f', first[label] if i in core else 'noise' if label < 0 else 'border'))
END
my @cases = ([ 1.5, 3, 'l2' ], [ 2.5, 10, 'l2' ], [ 4, 5, 'l2' ], [ 9, 30, 'l2' ],
	[ 0.0003, 3, 'cosine' ], [ 0.012, 10, 'cosine' ], [ 0.07, 30, 'cosine' ]);
my $csv = $node->basedir . '/points.csv';
for my $table ('plane', 'clusters')
{
	unlink $csv;
	append_to_file($csv, sql("SELECT id || ',' || array_to_string(v, ',') FROM $table WHERE v IS NOT NULL ORDER BY id") . "\n");
	my ($theirs, $err) = run_command([ '/usr/bin/python3', '-c', $peer, $csv, map { "@$_" } @cases ]);
	my @rows = split /\n/, $theirs;
	for my $case (@cases)
	{
		my ($eps, $min_samples, $metric) = @$case;
		my @ours = split /\n/, sql(<<END);
SELECT id, core, CASE WHEN core THEN (min(id) FILTER (WHERE core) OVER (PARTITION BY cluster))::text
	WHEN cluster IS NULL THEN 'noise' ELSE 'border' END
FROM fasted_cluster('$table', 'v', $eps, $min_samples, metric => '$metric') ORDER BY id
END
		is_deeply(\@ours, [ splice @rows, 0, scalar @ours ], "$table, $metric, $eps: scikit-learn's clusters, min_samples $min_samples")
		  or diag($err);
	}
	is(scalar @rows, 0, "$table: the same number of rows");
}

# --- the same with all settings, and correct at a size for which sorting and files matter

# 10000 x 16, in 100 clusters and between them, in no order of id; 350,000 pairs
sql(<<'END');
SELECT setseed(0.5);
CREATE TABLE many AS
	SELECT (i * 7919::bigint) % 100003 AS id,
		ARRAY(SELECT (hashint4(i % 100 * 16 + k) & 31) + random() * CASE WHEN i % 10 < 7 THEN 2 ELSE 9 END FROM generate_series(1, 16) k)::real[] AS v,
		CASE WHEN i % 11 <> 0 THEN md5((i % 2500)::text) END AS priority
	FROM generate_series(1, 10000) i;
ALTER TABLE many ADD PRIMARY KEY (id);
CREATE TABLE near AS SELECT * FROM fasted_self_join('many', 'v', 5, ordered => true);
ANALYZE many, near;
END
cmp_ok(sql('SELECT count(*) / 2 FROM near'), '>', 200_000, 'many pairs');

for my $call ("fasted_neighbors('many', 'v', 5)", "fasted_cluster('many', 'v', 5)", "fasted_keep_one('many', 'v', 5)")
{
	like(sql("EXPLAIN SELECT * FROM $call"), qr/rows=10000 /, "the planner knows the rows of $call");
}
is(sql("SELECT count(*), count(*) FILTER (WHERE c.neighbors = coalesce(n.n, 0)) FROM fasted_neighbors('many', 'v', 5) c
	LEFT JOIN (SELECT id_a AS id, count(*) AS n FROM near GROUP BY 1) n USING (id)"), '10000|10000', 'many: neighbours');

# These conditions determine the result: a row is a representative if and only if no representative
# of higher rank is within eps.  Other rows name the nearest one, and by rank if distances tie.
sub keeps_rightly
{
	my ($arguments, $ranks, $set) = @_;
	return sql(<<END);
$set;
CREATE TEMP TABLE r AS SELECT k.*, row_number() OVER (ORDER BY $ranks) AS rank FROM fasted_keep_one('many', 'v', 5 $arguments) k JOIN many m USING (id);
ANALYZE r;
SELECT count(*), count(*) FILTER (WHERE r.kept = r.id) > 1000, count(*) FILTER (WHERE r.kept <> r.id) > 1000,
	count(*) FILTER (WHERE (r.kept, r.dist) IS DISTINCT FROM (coalesce(n.kept, r.id), coalesce(n.dist, 0)))
FROM r LEFT JOIN (
	SELECT DISTINCT ON (d.id) d.id, k.id AS kept, near.dist
	FROM r d JOIN near ON near.id_a = d.id JOIN r k ON k.id = near.id_b AND k.kept = k.id AND k.rank < d.rank
	ORDER BY d.id, near.dist, k.rank) n USING (id)
END
}
for my $limit ('1GB', '1MB')
{
	my $set = "SET fasted.memory_limit = '$limit'";
	is(keeps_rightly('', 'id', $set), '10000|t|t|0', "many, $limit: representatives, by id");
	is(keeps_rightly(", 'priority'", 'priority NULLS LAST, id', $set), '10000|t|t|0', "many, $limit: representatives, by priority");
	is(keeps_rightly(", 'priority', true", 'priority DESC NULLS LAST, id', $set), '10000|t|t|0',
		"many, $limit: representatives, by priority, descending");
}

my %calls = (
	neighbors => "fasted_neighbors('many', 'v', 5)",
	(map { ("cluster, min_samples $_" => "fasted_cluster('many', 'v', 5, $_)") } (1, 2, 10, 40, 70, 1000, 2_000_000_000)),
	kept => "fasted_keep_one('many', 'v', 5)",
	'neighbors, cosine' => "fasted_neighbors('many', 'v', 0.005, metric => 'cosine')",
	'cluster, cosine' => "fasted_cluster('many', 'v', 0.005, 10, metric => 'cosine')",
	'kept, cosine' => "fasted_keep_one('many', 'v', 0.005, 'priority', metric => 'cosine')",
	'kept, by priority' => "fasted_keep_one('many', 'v', 5, 'priority', true)");
my $digest = 'SELECT count(*), md5(string_agg(r::text, \',\')) FROM %s r';
my %expected = map { $_ => sql(sprintf $digest, $calls{$_}) } keys %calls;
is(scalar(grep { !/^10000\|/ } values %expected), 0, 'one result row for each row');
cmp_ok(sql("SELECT sum(neighbors) FROM $calls{'neighbors, cosine'}"), '>', 200_000, 'many pairs by cosine distance');

# --- EXPLAIN ANALYZE shows the engine's numbers, and they are right

my $pairs = sql('SELECT count(*) / 2 FROM near');
my $cosine_pairs = sql("SELECT count(*) FROM fasted_self_join('many', 'v', 0.005, metric => 'cosine')");
for my $name (sort keys %calls)
{
	my $found = $name =~ /cosine/ ? $cosine_pairs : $pairs;
	my $plan = sql("EXPLAIN (ANALYZE) SELECT * FROM $calls{$name}");
	my %shown = $plan =~ /^ *([A-Z][\w ]*): (.*)$/mg;
	like($plan, qr/^Custom Scan \(FastedClustering\).*rows=10000 /, "$name: by the node");
	is("@shown{'Engine', 'Rows Read', 'Dimensions', 'Pairs', 'Threads'}", "cpu 10000 16 $found 2", "$name: EXPLAIN shows the numbers of the join");
	like(sql("SET fasted.engine = auto; EXPLAIN (ANALYZE) SELECT * FROM $calls{$name} LIMIT 1"), qr/Engine: (?!auto)\w+\n(?:.*\n)*?\s+Rows Read: 10000\n/, "$name: EXPLAIN shows the engine and the rows with LIMIT");
	cmp_ok($shown{Candidates}, '>=', $found, "$name: candidates");
	like($shown{$_}, qr/^[1-9]\d* kB$/, "$name: $_") for 'Host Memory', 'Memory Usage';
	like($shown{$_}, qr/^\d+\.\d+ ms$/, "$name: $_") for 'Read Time', 'Wait Time', 'Clustering Time', 'Filter Time';
}
{
	my $plan = sql("SET fasted.memory_limit = '1MB'; EXPLAIN (ANALYZE) SELECT * FROM $calls{kept}");
	like($plan, qr/Spilled Pairs: $pairs$/m, 'EXPLAIN shows the pairs in a file');
	my ($memory) = $plan =~ /Memory Usage: (\d+) kB/;
	cmp_ok($memory, '<', 4096, 'writing pairs to a file needs little memory');
}

my %ways = (
	'memory_limit 1MB' => "fasted.memory_limit = '1MB'",
	'memory_limit 3MB' => "fasted.memory_limit = '3MB'",
	'one thread' => 'fasted.threads = 1',
	'kernel portable' => 'fasted.cpu_kernel = portable',
	'filter int8' => 'fasted.filter = int8',
	'workers read' => 'min_parallel_table_scan_size = 0; SET parallel_leader_participation = off',
	'no worker reads' => 'max_parallel_workers_per_gather = 0');
for my $way (sort keys %ways)
{
	my @names = sort keys %calls;
	my @found = split /\n/, sql("SET $ways{$way}; " . join '; ', map { sprintf $digest, $calls{$_} } @names);
	is(shift @found, $expected{$_}, "$way: $_") for @names;
}
is(scalar temp_files($node), 0, 'no temporary file remains');

# --- workers read the table also if there is a priority

sql(<<'END');
CREATE TABLE spread (id int, v real[], priority int) PARTITION BY HASH (id);
CREATE TABLE spread_0 PARTITION OF spread FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE spread_1 PARTITION OF spread FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO spread SELECT id, v, id % 100 FROM many;
CREATE TABLE named AS SELECT 'row ' || id AS id, v, id AS priority FROM many;
CREATE VIEW viewed AS SELECT * FROM spread;
ANALYZE spread, named;
END
my $by_workers = "SET min_parallel_table_scan_size = 0; SET parallel_leader_participation = off; SET client_min_messages = debug1;";
sub workers_rows
{
	my ($call) = @_;
	$node->psql('postgres', "$by_workers SELECT count(*) FROM $call", stderr => \my $err);
	return $err =~ /read 10000 rows in [\d.]+ s, (\d+) of them by/ ? $1 : -1;
}
cmp_ok(workers_rows("fasted_keep_one('many', 'v', 5, 'priority')"), '>', 0, 'workers read a table with a priority');
cmp_ok(workers_rows("fasted_keep_one('spread', 'v', 5, 'priority', true, id_column => 'id')"), '>', 0, 'workers read a partitioned table');
cmp_ok(workers_rows("fasted_keep_one('named', 'v', 5, id_type => NULL::text, id_column => 'id', priority_column => 'priority')"), '>', 0, 'workers read a table with text for keys');
is(workers_rows("fasted_keep_one('viewed', 'v', 5, 'priority', id_column => 'id')"), 0, 'workers do not read a view, whose rows are read in order');
for my $down ('false', 'true')
{
	my $kept = sql(sprintf $digest, "fasted_keep_one('viewed', 'v', 5, 'priority', $down, id_column => 'id')");
	is(sql("$by_workers " . sprintf($digest, "fasted_keep_one('spread', 'v', 5, 'priority', $down, id_column => 'id')")), $kept,
		"descending $down: the same representatives");
	my $order = $down eq 'true' ? 'priority DESC' : 'priority';
	is(sql("SELECT count(*), count(*) FILTER (WHERE b.kept = 'row ' || a.kept)
		FROM fasted_keep_one('spread', 'v', 5, 'id', $down, id_column => 'id') a
		JOIN (SELECT id, fasted_keep(v, 5, id) OVER (ORDER BY $order) AS kept FROM named) b ON b.id = 'row ' || a.id"),
		'10000|10000', "descending $down: the window function, with text for keys");
}

# --- pairs beyond fasted.memory_limit are written to a file, but no more than documented

# Returns the bytes of the temporary files of a query.
sub bytes_filed
{
	my ($set, $call) = @_;
	my $offset = log_size($node);
	my $bytes = 0;
	sql("SET work_mem = '512MB'; SET $set; SELECT count(*) FROM $call");
	$bytes += $_ for log_since($node, $offset) =~ /temporary file: path .*, size (\d+)/g;
	return $bytes;
}
my $vectors = 10000 * 16 * 4;
is(bytes_filed("fasted.memory_limit = '1GB'", $calls{kept}), 0, 'representatives: no file');
is(bytes_filed("fasted.memory_limit = '1MB'", $calls{kept}), $vectors + 16 * $pairs, 'representatives: a file of all pairs');
is(bytes_filed("fasted.memory_limit = '1MB'", $calls{'cluster, min_samples 2'}), $vectors, 'clusters, min_samples 2: no pair is stored');
is(bytes_filed("fasted.memory_limit = '1MB'", $calls{'cluster, min_samples 10'}), $vectors, 'clusters, min_samples 10: the stored pairs fit into memory');
my $most = 16 * sql('SELECT sum(least(neighbors, 1998) * 0.5) FROM fasted_neighbors(\'many\', \'v\', 5)');
my $filed = bytes_filed("fasted.memory_limit = '1MB'", $calls{'cluster, min_samples 1000'}) - $vectors;
cmp_ok($filed, '>', 0.8 * $most, 'clusters, min_samples 1000, without any core row: a file');
cmp_ok($filed, '<=', $most, 'without the pairs that fit into memory');

my ($status, undef, $err) = $node->psql('postgres',
	"\\set VERBOSITY verbose\nSET temp_file_limit = '3MB'; SET fasted.memory_limit = '1MB'; SELECT count(*) FROM $calls{kept}");
like($err, qr/53400: temporary file size exceeds "?temp_file_limit/, 'temp_file_limit is respected');
is(scalar temp_files($node), 0, 'no temporary file remains');

# --- long chains: a random walk, in which each row depends on the previous one

sql(<<'END');
SELECT setseed(0.75);
CREATE TABLE walk AS
	SELECT i AS id, ARRAY[sum(random() - 0.5) OVER w, sum(random() - 0.5) OVER w, sum(random() - 0.5) OVER w]::real[] AS v
	FROM generate_series(1, 100000) i WINDOW w AS (ORDER BY i);
ALTER TABLE walk ADD PRIMARY KEY (id);
CREATE TABLE steps AS SELECT i AS id, ARRAY[i]::real[] AS v FROM generate_series(1, 20000) i;
END
my $begin = time;
my $walk = sql("SELECT count(*), count(*) FILTER (WHERE kept <> id), max(dist) <= 1.5 FROM fasted_keep_one('walk', 'v', 1.5)");
like($walk, qr/^100000\|[1-9]\d{4}\|t$/, 'a random walk');
cmp_ok(time - $begin, '<', sanitized() ? 600 : 300, sprintf('in seconds (%.1f)', time - $begin));
is(sql("SELECT count(*) FILTER (WHERE kept = id), bool_and((kept = id) = (id % 2 = 1)), max(id - kept) FROM fasted_keep_one('steps', 'v', 1, id_column => 'id')"),
	'10000|t|1', 'equal steps: every other row is a representative');
is(sql("SELECT count(*), max(cluster) FROM fasted_cluster('steps', 'v', 1, 3, id_column => 'id')"), '20000|0', 'equal steps: one cluster');
is(sql("SELECT count(*), max(cluster) FROM fasted_cluster('steps', 'v', 0.5, id_column => 'id')"), '20000|19999', 'equal steps: each row is its own cluster');

# --- an UPDATE that waited for another transaction evaluates its rows again

sql('CREATE TABLE noted AS SELECT id, -1 AS n, 0 AS note FROM plane');
my ($writer, $waiter) = map { FastedTest::Session->new($node) } 1, 2;
$writer->query('BEGIN; UPDATE noted SET note = 1 WHERE id = (SELECT min(id) FROM noted)');
$waiter->{out} = '';
$waiter->send("UPDATE noted SET n = coalesce((SELECT neighbors FROM fasted_neighbors('plane', 'v', 2.5) c WHERE c.id = noted.id), 0);\n\\echo updated");
wait_until(sub { sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = " . $waiter->pid) == 1 })
  or die 'it does not wait';
$writer->query('COMMIT');
$waiter->wait_for(qr/^updated$/m);
is(sql("SELECT count(*), sum(note), count(*) FILTER (WHERE n = coalesce(neighbors, 0)) FROM noted LEFT JOIN fasted_neighbors('plane', 'v', 2.5) USING (id)"),
	'160|1|160', 'an UPDATE that had to wait');
$_->quit for $writer, $waiter;

# --- cancelled at each stage

sql(<<'END');
CREATE VIEW complete AS SELECT g AS id, ARRAY[g::real] AS v, -g AS priority FROM generate_series(1, 8000) g;
CREATE VIEW ordered_endless AS SELECT id, v, -id AS priority FROM endless;
END
my $limit_ms = sanitized() ? 2000 : 100;
my $infinity = "float8 'Infinity'";
my $observer = FastedTest::Session->new($node);

sub clustering { my ($pid) = @_; return $observer->query("SELECT 'yes' FROM pg_stat_fasted_progress WHERE pid = $pid AND phase = 'clustering'") eq 'yes' }
sub computing { my ($pid) = @_; return thread_count($pid) > 1 && usleep(100_000) }

my %stages = (
	'reading' => [ "fasted_cluster('endless', 'v', 1, 2, id_column => 'id')", sub { memory_of($_[0], 'VmRSS') > 100 * 1024 } ],
	'reading in order' => [ "fasted_keep_one('ordered_endless', 'v', 1, 'priority', id_column => 'id')", sub { grep { $_ > 20_000_000 } temp_files($node) } ],
	'computing' => [ "fasted_neighbors('wide', 'v', 0.5, id_column => 'id')", \&computing ],
	'counting' => [ "fasted_neighbors('many_pairs', 'v', $infinity, id_column => 'id')", \&computing ],
	'uniting' => [ "fasted_cluster('many_pairs', 'v', $infinity, 10, id_column => 'id')", \&computing ],
	'keeping pairs' => [ "fasted_keep_one('many_pairs', 'v', $infinity, id_column => 'id')", sub { memory_of($_[0], 'VmRSS') > 250 * 1024 } ],
	'making room to sort' => [ "fasted_keep_one('many_pairs', 'v', $infinity, id_column => 'id')", sub { memory_of($_[0], 'VmRSS') > 600 * 1024 }, '1GB' ],
	'writing pairs' => [ "fasted_keep_one('many_pairs', 'v', $infinity, id_column => 'id')", sub { grep { $_ > 100_000_000 } temp_files($node) }, '40MB' ],
	'pairs of no cluster yet' => [ "fasted_cluster('many_pairs', 'v', $infinity, 100000, id_column => 'id')", sub { grep { $_ > 100_000_000 } temp_files($node) }, '40MB' ],
	'sorting' => [ "fasted_keep_one('complete', 'v', $infinity, id_column => 'id')", \&clustering, '2GB' ],
	'merging' => [ "fasted_keep_one('complete', 'v', $infinity, 'priority', id_column => 'id')", \&clustering, '40MB' ],
	'the pairs again' => [ "fasted_cluster('complete', 'v', $infinity, 100000, id_column => 'id')", \&clustering, '40MB' ]);

for my $name (sort keys %stages)
{
	my $session = FastedTest::Session->new($node);
	my $small = "SELECT max(cluster) FROM fasted_cluster('small', 'v', 0.5)";
	$session->query($small);
	my $memory = memory_of($session->pid, 'VmRSS');
	my ($call, $reached, $limit) = @{ $stages{$name} };
	my ($state, $best) = cancel_soon($session, $limit_ms, settings => "SET fasted.memory_limit = '" . ($limit // '400MB') . "';",
		sql => "SELECT count(*) FROM $call;", reached => $reached);
	is($state, '57014', "$name: the query is cancelled");
	cmp_ok($best, '<', $limit_ms, sprintf("%s: within %d ms (%.0f)", $name, $limit_ms, $best));
	is(thread_count($session->pid), 1, "$name: no thread remains");
	is(scalar temp_files($node), 0, "$name: no temporary file remains");
	is($session->query($small), 99, "$name: the session remains usable");
  SKIP:
	{
		skip 'a sanitizer keeps memory', 1 if sanitized();
		# a thread releases it in the background
		ok(wait_until(sub { memory_of($session->pid, 'VmRSS') - $memory < 30 * 1024 }, 10), "$name: memory is released");
	}
	$session->quit;
}
is($observer->query("SELECT count(*) FROM pg_stat_fasted_progress"), 0, 'no progress entry remains');
$observer->quit;

$node->stop;
done_testing();
