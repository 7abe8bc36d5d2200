# Window functions: cancelled at each stage, the same result with little memory and above a parallel
# plan, shown in the progress view, and computed by the CPU if a GPU fails.  The GPU engine is
# test/t/engine/simulated_engine.c.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;
use Time::HiRes qw(usleep);

my $engine = simulated_engine();
my $node = new_node('windows', <<"END");
fasted.cuda_library = '$engine'
fasted.gpu_devices = '1'
fasted.threads = 2
fasted.memory_limit = '400MB'
max_worker_processes = 16
max_parallel_workers = 16
log_temp_files = 0
END
create_small_table($node);

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

# --- cancelled quickly; nothing remains

# The sequence counts the vectors computed, which happens when they are passed to a join.
sql('CREATE SEQUENCE made');
sub made { return sql('SELECT last_value FROM made'); }

# A query over rows that are cheap to generate: $rows of them, in partitions of $size rows.
sub query_of
{
	my ($rows, $dimensions, $size) = @_;
	return "SELECT count(c) FROM (SELECT fasted_dbscan(CASE WHEN nextval('made') > 0 THEN array_fill(g::real, ARRAY[$dimensions]) END, 0.5)"
	  . ' OVER (' . ($size ? "PARTITION BY g / $size" : '') . ") AS c FROM (SELECT generate_series(1, $rows) AS g) AS s) AS s;";
}

my $limit_ms = sanitized() ? 2000 : 100;
my $computes = sub { thread_count($_[0]) > 1 && usleep(100_000) };
my %stages = (
	'collecting rows' => {
		sql => query_of(1_000_000_000, 500),
		reached => sub { grep { $_ > 50_000_000 } temp_files($node) },
	},
	'reading' => {
		sql => query_of(1_000_000, 500),
		reached => sub { made() > 20_000 },
	},
	'reading into a temporary file' => {
		settings => "SET fasted.memory_limit = '1MB';",
		sql => query_of(1_000_000, 500),
		reached => sub { grep { $_ > 50_000_000 } temp_files($node) },
	},
	'computing' => {
		settings => 'SET fasted.prune = off;',
		sql => query_of(40_000, 1000),
		reached => $computes,
	},
	'computing in panels' => {
		settings => "SET fasted.prune = off; SET fasted.memory_limit = '16MB';",
		sql => query_of(40_000, 1000),
		reached => $computes,
	},
	'many small partitions' => {
		sql => query_of(500_000, 800, 90),
		reached => sub { made() > 5000 },
	},
	'many partitions' => {
		sql => query_of(500_000, 200, 300),
		reached => sub { made() > 5000 },
	});

for my $name (sort keys %stages)
{
	my $session = FastedTest::Session->new($node);
	my $small = 'SELECT max(c) FROM (SELECT fasted_dbscan(v, 0.5) OVER (ORDER BY id) AS c FROM small) AS s';
	$session->query($small);
	my $memory = memory_of($session->pid, 'VmRSS');
	my %stage = %{ $stages{$name} };
	$stage{settings} = "SELECT setval('made', 1);" . ($stage{settings} // '');
	my ($state, $best) = cancel_soon($session, $limit_ms, %stage);
	is($state, '57014', "$name: the query is cancelled");
	cmp_ok($best, '<', $limit_ms, sprintf('%s: within %d ms (%.0f)', $name, $limit_ms, $best));
	is(thread_count($session->pid), 1, "$name: no thread remains");
	is(scalar temp_files($node), 0, "$name: no temporary file remains");
	is($session->query($small), 99, "$name: the session remains usable");
  SKIP:
	{
		skip 'a sanitizer keeps memory', 1 if sanitized();
		ok(wait_until(sub { memory_of($session->pid, 'VmRSS') - $memory < 30 * 1024 }, 10), "$name: memory is released");
	}
	$session->quit;
}

# statement_timeout, in the middle of a join
{
	my $session = FastedTest::Session->new($node);
	$session->query(q{SET fasted.prune = off; SET statement_timeout = '1s'});
	my $watch = watch($session->pid);
	$session->query(query_of(40_000, 1000));
	my $ms = lateness($watch, threads => 3);
	like($session->{err}, qr/canceling statement due to statement timeout/, 'statement_timeout is respected');
	cmp_ok($ms, '<', 1000 + 10 * $limit_ms, sprintf('and soon (%.0f ms)', $ms));
	is(thread_count($session->pid), 1, 'no thread remains');
	$session->quit;
}

# --- the progress view

{
	my $session = FastedTest::Session->new($node);
	my $view = 'pg_stat_fasted_progress';
	my $phase = sub { my ($columns) = @_; return sql("SELECT $columns FROM $view WHERE pid = " . $session->pid) };
	$session->send('SET fasted.prune = off; SET fasted.threads = 1; SET fasted.cpu_kernel = portable;');
	$session->send(query_of(40_000, 1000));
	ok(wait_until(sub { $phase->("phase, relid IS NULL, relation IS NULL, rows_expected, pairs, rows_read > 0") eq 'reading|t|t|40000|0|t' }),
		'progress: rows of a partition are read, no relation, and the expected number of rows');
	ok(wait_until(sub { $phase->("phase, units_done > 0, rows_read, units_done <= units_total") eq 'joining|t|40000|t' }), 'progress: the rows are joined');
	sql('SELECT pg_cancel_backend(' . $session->pid . ')');
	$session->query('SELECT');
	is($phase->('count(*)'), 0, 'progress: the row disappears');
	$session->quit;
}

# --- the same with all settings

# 20000 rows: one partition has a third of them, others have 80, 160, 240 rows and so on; some
# have no vector
sql(<<'END');
SELECT setseed(0.5);
CREATE TABLE many AS
	SELECT i AS id, CASE WHEN i % 3 = 0 THEN 0 ELSE width_bucket(sqrt(i), 1, 142, 20) END AS g,
		CASE WHEN i % 17 > 0 THEN ARRAY(SELECT (hashint4(i % 100 * 8 + k) & 15) + random() * CASE WHEN i % 10 < 7 THEN 2 ELSE 9 END FROM generate_series(1, 8) AS k)::real[] END AS v,
		md5((i % 5000)::text) AS priority
	FROM generate_series(1, 20000) AS i;
ALTER TABLE many ADD PRIMARY KEY (id);
ANALYZE many;
END
my $all = <<'END';
SELECT id, fasted_dbscan(v, 2.5, 5) OVER w AS dbscan, fasted_dbscan(v, 0.1, metric => 'cosine') OVER (PARTITION BY g % 3 ORDER BY id) AS components,
	fasted_keep(v, 3, priority || id) OVER w AS kept, fasted_neighbor_count(v, 3) OVER (PARTITION BY g) AS neighbors
FROM many WINDOW w AS (PARTITION BY g ORDER BY priority, id)
END
my $digest = 'SELECT count(*), count(dbscan), count(DISTINCT kept), sum(neighbors) > 100000, md5(string_agg(r::text, \',\' ORDER BY id)) FROM (%s) r';
my $query = sprintf $digest, $all;
my $expected = sql($query);
like($expected, qr/^20000\|[1-9]\d{3,}\|[1-9]\d{3,}\|t\|/, "many rows: $expected");

# Bytes of temporary files since the given position of the log.
sub bytes_filed
{
	my ($offset) = @_;
	my $bytes = 0;
	$bytes += $_ for log_since($node, $offset) =~ /temporary file: path .*, size (\d+)/g;
	return $bytes;
}
my %ways = (
	'memory_limit 1MB' => "fasted.memory_limit = '1MB'",
	'little of any memory' => "fasted.memory_limit = '1MB'; SET work_mem = '64kB'",
	'work_mem 64kB' => "work_mem = '64kB'",
	'one thread' => 'fasted.threads = 1',
	'kernel portable' => 'fasted.cpu_kernel = portable');
for my $way (sort keys %ways)
{
	my $offset = log_size($node);
	is(sql("SET work_mem = '64MB'; SET $ways{$way}; $query"), $expected, "$way: the same result");
	cmp_ok(bytes_filed($offset), '>', 500_000, "$way: in files") if $way =~ /64kB|little/;
}
is(scalar temp_files($node), 0, 'no temporary file remains');

# --- random rows: the same as the functions in FROM with partition_by, even if distances equal eps

sql(<<'END');
CREATE TABLE chance (id int PRIMARY KEY, g int, v real[], d float8[], p int);
CREATE FUNCTION compare_chance(vector name, eps float8, min_samples int, metric text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	differences bigint;
BEGIN
	EXECUTE format('
		WITH windows AS (
			SELECT id, g, fasted_dbscan(%1$I, %2$L, %3$s, %4$L) OVER w AS cluster, fasted_keep(%1$I, %2$L, id, %4$L) OVER (PARTITION BY g ORDER BY p, id) AS kept,
				fasted_neighbor_count(%1$I, %2$L, %4$L) OVER w AS neighbors FROM chance WINDOW w AS (PARTITION BY g ORDER BY id)),
		functions AS (
			SELECT id, g, cluster, coalesce(kept, id) AS kept, neighbors FROM chance
			LEFT JOIN fasted_cluster(''chance'', %1$L, %2$L, %3$s, metric => %4$L, partition_by => ''g'') USING (id)
			LEFT JOIN fasted_keep_one(''chance'', %1$L, %2$L, ''p'', metric => %4$L, partition_by => ''g'') USING (id)
			LEFT JOIN fasted_neighbors(''chance'', %1$L, %2$L, metric => %4$L, partition_by => ''g'') USING (id)),
		-- a cluster by its first row
		x AS (SELECT id, CASE WHEN cluster IS NOT NULL THEN min(id) OVER (PARTITION BY g, cluster) END AS cluster, kept, neighbors FROM windows),
		y AS (SELECT id, CASE WHEN cluster IS NOT NULL THEN min(id) OVER (PARTITION BY g, cluster) END AS cluster, kept, neighbors FROM functions)
		SELECT count(*) FROM x JOIN y USING (id) WHERE (x.cluster, x.kept, x.neighbors) IS DISTINCT FROM (y.cluster, y.kept, y.neighbors)',
		vector, eps, min_samples, metric) INTO differences;
	RETURN differences;
END $$;
CREATE FUNCTION try_chance(cases int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	rows int;
	dimensions int;
	partitions int;
	scale float8;
	eps float8;
	min_samples int;
	vector name;
	metric text;
	problems text := '';
	total int := 0;
BEGIN
	FOR i IN 1 .. cases LOOP
		rows := 1 + random() * random() * 400;
		dimensions := 1 + random() * random() * 40;
		partitions := 1 + random() * random() * 8;
		scale := power(10, (random() * 6 - 3)::int);
		min_samples := 1 + random() * random() * 12;
		vector := CASE WHEN random() < 0.5 THEN 'v' ELSE 'd' END;
		metric := CASE WHEN random() < 0.5 THEN 'l2' ELSE 'cosine' END;
		TRUNCATE chance;
		INSERT INTO chance
		SELECT j, j % partitions, CASE WHEN random() < 0.05 THEN NULL WHEN j % 5 = 0 THEN array_fill((j % 3)::real, ARRAY[dimensions])
			ELSE ARRAY(SELECT (random() * scale + 0 * j)::real FROM generate_series(1, dimensions)) END, NULL, CASE WHEN random() < 0.8 THEN random() * 20 END
		FROM generate_series(1, rows) AS j;
		UPDATE chance SET d = (SELECT array_agg(x + random() * 1e-9 * scale) FROM unnest(v) AS x);
		EXECUTE format('SELECT percentile_disc(%s) WITHIN GROUP (ORDER BY dist)
			FROM (SELECT %s(a.%I, b.%3$I) AS dist FROM chance a, chance b WHERE a.id < b.id AND a.v IS NOT NULL AND b.v IS NOT NULL) AS s WHERE dist <> ''NaN''',
			random() * random() * 0.3, CASE metric WHEN 'l2' THEN 'fasted_distance' ELSE 'fasted_cosine_distance' END, vector) INTO eps;
		total := total + rows;
		IF compare_chance(vector, coalesce(eps, 1), min_samples, metric) > 0 THEN
			problems := problems || format(' %s rows, %s dimensions, %s partitions, scale %s, column %s, eps %s, min_samples %s, %s;',
				rows, dimensions, partitions, scale, vector, eps, min_samples, metric);
		END IF;
	END LOOP;
	RETURN CASE WHEN total < 50 * cases THEN 'few rows' ELSE problems END;
END $$;
END
random_seed();
my $seed = rand;
is(sql("SELECT setseed($seed); SELECT try_chance(200)") =~ s/^\n//r, '', "random rows, with seed $seed");

# temp_file_limit; the session remains usable
{
	my ($status, $out, $err) = $node->psql('postgres',
		"SET temp_file_limit = '200kB'; SET work_mem = '64kB'; $query; RESET work_mem; SET work_mem = '64MB'; $query", on_error_stop => 0);
	like($err, qr/temporary file size exceeds/, 'temp_file_limit is respected');
	is($out, $expected, 'the session remains usable');
}

# a parallel plan below the window
{
	my $parallel = join '; ', map { "SET $_" } 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0',
	  'parallel_leader_participation = off';
	like(sql("$parallel; EXPLAIN (COSTS OFF) $all"), qr/WindowAgg.*Gather/s, 'workers read below the window');
	is(sql("$parallel; $query"), $expected, 'the same result above a parallel plan');
}

# a session's memory does not grow with the partitions, also before the query ends
{
	my $session = FastedTest::Session->new($node);
	my $partitions = sub { return "SELECT fasted_keep(v, 3, id::text) OVER (PARTITION BY id / $_[0] ORDER BY id) AS k FROM many, generate_series(1, 5)" };
	$session->query('SELECT count(k) FROM (' . $partitions->(20) . ') AS s');
	my $memory = memory_of($session->pid, 'VmHWM');
	$session->query('SELECT count(k) FROM (' . $partitions->($_) . ') AS s') for 1, 5, 20;
  SKIP:
	{
		skip 'a sanitizer keeps memory', 1 if sanitized();
		cmp_ok(memory_of($session->pid, 'VmHWM') - $memory, '<', 20 * 1024, 'memory does not grow with partitions (kB)');
	}
	is($session->query(<<'END'), '9412|9412', 'two cursors alternately');
CREATE FUNCTION in_turns() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a CURSOR FOR SELECT id, fasted_keep(v, 3, id) OVER (PARTITION BY g ORDER BY id) AS k FROM many WHERE v IS NOT NULL AND id <= 10000;
	b CURSOR FOR SELECT id, fasted_keep(v, 3, id) OVER (PARTITION BY g ORDER BY id) AS k FROM many WHERE v IS NOT NULL AND id <= 10000;
	x record;
	y record;
	n int := 0;
	same int := 0;
BEGIN
	OPEN a;
	OPEN b;
	LOOP
		FETCH a INTO x;
		EXIT WHEN NOT FOUND;
		BEGIN
			FETCH b INTO y;
			n := n + 1;
			same := same + (x = y)::int;
		EXCEPTION WHEN division_by_zero THEN
			RAISE;
		END;
	END LOOP;
	RETURN n || '|' || same;
END $$;
SELECT in_turns()
END
	$session->quit;
}

# --- a GPU fails: the CPU takes over until the join starts, unless engine = cuda

# By the number of rows of a partition, including those without a vector, a GPU seems to pay.
sql(<<'END');
CREATE TABLE large AS SELECT i AS id, CASE WHEN i % 80 = 0 THEN array_fill((i / 160)::real, ARRAY[400]) END AS v FROM generate_series(1, 40000) AS i;
ANALYZE large;
END
my $on_gpu = <<'END';
SELECT count(c), max(c), count(DISTINCT k), sum(n), sum(c * id), sum(k * id) FROM (
	SELECT id, fasted_dbscan(v, 0, 2) OVER (ORDER BY id) AS c, fasted_keep(v, 20, id) OVER (ORDER BY id) AS k, fasted_neighbor_count(v, 20) OVER () AS n FROM large) AS s
END
my $right = sql("SET fasted.engine = cpu; $on_gpu");
like($right, qr/^\d+\|2\d\d\|/, "without a GPU: $right");
my $few = 'SELECT max(c) FROM (SELECT fasted_dbscan(v, 0.5) OVER (ORDER BY id) AS c FROM small WHERE id < 90) AS s';
# Positions of the failure, as simulated_engine.c numbers them; those after the start are errors.
my %before = (open => 2, set_open => 3, stage => 4, commit => 5, read_back => 6, seal => 7, join_open => 8, set_reset => 10);
my %after = (next => 9, stage => 11, 'next, after a pair' => 12);
for my $place (sort keys %before)
{
	my $limit = "SET fasted.gpu_memory_limit = '$before{$place}kB'; SET work_mem = '@{[$before{$place} % 2 ? 64 : 4096]}kB'";
	my ($status, $out, $err) = $node->psql('postgres', "SET fasted.engine = auto; $limit; $on_gpu; $on_gpu");
	is($out, "$right\n$right", "auto, failure in $place: the CPU computes the result");
	is(scalar(() = $err =~ /WARNING:  the GPU failed/g), 1, 'one warning per session');
	like($err, qr/DETAIL:  simulated GPU: The engine was told to fail in $place\./, 'the detail gives the reason');

	($status, $out, $err) = $node->psql('postgres',
		"SET fasted.engine = cuda; $limit; $on_gpu; $few; SET fasted.engine = auto; $on_gpu", on_error_stop => 0);
	like($err, qr/ERROR:  the GPU reported an error/, "cuda, failure in $place: an error");
	is($out, "88\n$right", 'the session remains usable, and few rows need no GPU');
	unlike($err, qr/were not closed/, 'every context was closed');
}
for my $place (sort keys %after)
{
	my ($status, $out, $err) = $node->psql('postgres',
		"SET fasted.engine = auto; SET fasted.gpu_memory_limit = '$after{$place}kB'; $on_gpu; SET fasted.engine = cpu; $on_gpu", on_error_stop => 0);
	like($err, qr/ERROR:  the GPU reported an error/, "failure in $place after the start: an error");
	is($out, $right, 'the session remains usable');
}
unlike(log_since($node, 0), qr/was terminated by signal|reinitializing/, 'no process crashed');

$node->stop;
done_testing();
