# A GPU fails.  If the join has not been started and the engine is auto, the CPU takes over with one
# warning.  Otherwise there is an error.  The session remains usable.
# The GPU engine is test/t/engine/simulated_engine.c.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $engine = simulated_engine();
my $node = new_node('fallback', "fasted.cuda_library = '$engine'\nfasted.gpu_devices = '1'\n");

# "auto" uses the planner's estimate, which is many rows here; in fact there are few.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION many() RETURNS SETOF int LANGUAGE plpgsql STABLE ROWS 100000000 AS
	$$ BEGIN RETURN QUERY SELECT * FROM generate_series(1, 100); END $$;
CREATE VIEW thought_large AS SELECT i AS id, array_fill((i / 2)::real, ARRAY[100]) AS v FROM many() AS i;
END
my $join = "SELECT count(*), sum(id_b - id_a) FROM fasted_self_join('thought_large', 'v', 0.5, id_column => 'id')";
my $right = '49|49';

# Positions of the failure before the start and after it, as simulated_engine.c numbers them.
my %before = (open => 2, set_open => 3, stage => 4, commit => 5, read_back => 6, seal => 7, join_open => 8, set_reset => 10);
my %after = (next => 9, stage => 11);
for my $place (sort keys %before)
{
	my $limit = "SET fasted.gpu_memory_limit = '$before{$place}kB'";
	my ($status, $out, $err) =
	  $node->psql('postgres', "SET fasted.engine = auto; $limit; $join; $join; SET fasted.engine = cpu; $join");
	is($out, "$right\n$right\n$right", "auto, failure in $place: the CPU finds the pairs");
	my @warnings = $err =~ /WARNING:  the GPU failed/g;
	is(scalar @warnings, 1, 'one warning per session');
	like($err, qr/DETAIL:  simulated GPU: The engine was told to fail in $place\./, 'the detail gives the reason');

	($status, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSET fasted.engine = cuda; $limit; $join; SET fasted.engine = auto; $join",
		on_error_stop => 0);
	like($err, qr/ERROR:  58000: the GPU reported an error/, "cuda, failure in $place: an error");
	is($out, $right, 'the session remains usable');
	unlike($err, qr/were not closed/, 'every context was closed');
}
for my $place (sort keys %after)
{
	for my $engine ('auto', 'cuda')
	{
		my ($status, $out, $err) = $node->psql('postgres',
			"\\set VERBOSITY verbose\nSET fasted.engine = $engine; SET fasted.gpu_memory_limit = '$after{$place}kB'; $join; SET fasted.engine = cpu; $join",
			on_error_stop => 0);
		like($err, qr/ERROR:  58000: the GPU reported an error\nDETAIL:  simulated GPU: The engine was told to fail in $place\.\nHINT:  Use "SET fasted.engine = cpu"/,
			"$engine, failure in $place after the start: an error");
		unlike($err, qr/WARNING|were not closed/, 'no warning, and every context was closed');
		is($out, $right, 'the session remains usable');
	}
}

# If an engine can't find nearest neighbours, the CPU does, or there is an error.
my $without = "SET fasted.cuda_library = '" . simulated_engine('-DWITHOUT_NEAREST') . "'";
my $nearest = "SELECT count(*), sum(dist) FROM fasted_knn_join('thought_large', 'v', 'thought_large', 'v', 1, a_id => 'id'%s)";
for my $call (sprintf($nearest, ''), sprintf($nearest, ", partition_by => 'id'"))
{
	my $found = $call =~ /partition_by/ ? '0|' : '100|20';
	my ($status, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\n$without; SET fasted.engine = auto; $call; SET fasted.engine = cuda; $call; SET fasted.engine = cpu; $call",
		on_error_stop => 0);
	is($out, "$found\n$found", 'auto: the CPU finds neighbours');
	unlike($err, qr/WARNING/, 'auto: no warning if the GPU engine does not support the output');
	like($err, qr/ERROR:  0A000: the CUDA engine does not find nearest neighbors\nHINT:  Use "SET fasted.engine = auto"/,
		'cuda: the error says that the output is not supported');
}

# The same with parallel readers: they stop, then read again for the CPU engine.
$node->safe_psql('postgres', <<'END');
CREATE TABLE read_in_parallel (id int PRIMARY KEY, v real[]);
INSERT INTO read_in_parallel SELECT i, array_fill((i / 2)::real, ARRAY[100]) FROM generate_series(1, 5000) AS i;
VACUUM ANALYZE read_in_parallel;
-- so that a GPU seems to pay
UPDATE pg_class SET reltuples = 1e8 WHERE relname = 'read_in_parallel';
END
my $settings = join ';', map { "SET $_" } 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0',
  'min_parallel_table_scan_size = 0', 'client_min_messages = debug1';
my $parallel_join = "SELECT count(*), sum(id_b - id_a) FROM fasted_self_join('read_in_parallel', 'v', 0.5)";
# the join node, whose sides workers read: with itself, and with another table
my $node_joins = 'SELECT count(*) FROM read_in_parallel a JOIN read_in_parallel b ON a.id < b.id AND fasted_distance(a.v, b.v) <= 0;'
  . 'SELECT count(a.id) FROM read_in_parallel a JOIN read_in_parallel b ON a.id + 0 < b.id AND fasted_distance(a.v, b.v) <= 0';
for my $place (sort keys %before)
{
	my $limit = "SET fasted.gpu_memory_limit = '$before{$place}kB'";
	for my $leader (qw(on off))
	{
		my ($status, $out, $err) = $node->psql('postgres', "SET fasted.engine = auto; $limit; $settings; "
			. "SET parallel_leader_participation = $leader; $parallel_join; $node_joins");
		is($out, "2499|2499\n2499\n2499", "parallel, leader $leader, failure in $place: the CPU finds the pairs");
		like($err, qr/DETAIL:  simulated GPU: The engine was told to fail in $place\./, 'a warning');
		like($err, qr/read 5000 rows in \S+ s, [1-9]\d* of them by [12] workers/, 'workers read') if $leader eq 'off';
	}
}

# If it fails while rows are read, they are read again, and only then ranked by another scan.
my ($of_cpu, $of_both) = map { $node->safe_psql('postgres', <<"END") } 'cpu', 'auto';
SET client_min_messages = error; SET max_parallel_workers_per_gather = 0;
SET fasted.engine = $_; SET fasted.gpu_memory_limit = '104kB';
BEGIN;
SELECT count(DISTINCT kept) FROM fasted_keep_one('read_in_parallel', 'v', 0.5, priority_column => 'id');
SELECT seq_scan + idx_scan FROM pg_stat_xact_user_tables WHERE relname = 'read_in_parallel';
END
like($of_cpu, qr/^2501\n\d+$/, 'representatives by the CPU');
is($of_both, $of_cpu =~ s/\n(\d+)$/"\n" . ($1 + 1)/er, 'failure while rows are read: one more scan');

# Rows that the engine reads from memory shared with the workers (registered memory).
my %registered = (put => 13, wait_read => 14, next => 15);
for my $place (sort keys %registered)
{
	my $limit = "SET fasted.gpu_memory_limit = '$registered{$place}kB'; SET parallel_leader_participation = off";
	for my $engine ('auto', 'cuda')
	{
		my ($status, $out, $err) = $node->psql('postgres',
			"SET fasted.engine = $engine; $limit; $settings; $parallel_join; $node_joins; SET fasted.engine = cpu; $parallel_join",
			on_error_stop => 0);
		like($err, qr/ [1-9]\d* from registered memory/, 'the CPU engine reads from registered memory, too');
		if ($engine eq 'auto' && $place ne 'next')
		{
			is($out, "2499|2499\n2499\n2499\n2499|2499", "registered memory, failure in $place: the CPU finds the pairs");
			like($err, qr/WARNING: .*\nDETAIL:  simulated GPU: The engine was told to fail in $place\./, 'a warning');
			next;
		}
		is(() = $err =~ /ERROR: .*\nDETAIL:  simulated GPU: The engine was told to fail in $place/g, 3, "$engine, registered memory, failure in $place: an error");
		is($out, '2499|2499', 'the session remains usable');
	}
}
$node->safe_psql('postgres', <<'END');
CREATE TABLE with_error AS SELECT * FROM read_in_parallel;
INSERT INTO with_error VALUES (9999, '{1, 2}');
VACUUM ANALYZE with_error;
END

# In a function, the memory is released before the join when a transaction or session ends.
# The engine must have unregistered it by then.
$node->safe_psql('postgres', <<'END');
-- more than the workers' memory holds, so that the engine has come when they sleep
CREATE TABLE large AS SELECT i AS id, array_fill((i / 2)::real, ARRAY[100]) AS v FROM generate_series(1, 60000) AS i;
CREATE VIEW slow AS SELECT id, v FROM large WHERE id <> 59990 OR pg_sleep(60) IS NULL;
CREATE FUNCTION join_of(relation regclass) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN count(*) FROM fasted_self_join(relation, 'v', 0.5, id_column => 'id');
EXCEPTION WHEN data_exception THEN
	RETURN sqlerrm;
END $$;
END
my $registered = "SET fasted.engine = cuda; SET fasted.gpu_memory_limit = '15kB'; $settings; "
  . 'SET parallel_leader_participation = off';
my ($status, $out, $err) = $node->psql('postgres', "$registered; SELECT join_of('with_error')");
is($out, 'vectors have different numbers of dimensions', 'registered memory, and an invalid row');
for my $query ('SELECT count(*) FROM slow a JOIN read_in_parallel b ON fasted_distance(a.v, b.v) <= 0', "SELECT join_of('slow')", "SELECT count(*) FROM fasted_self_join('slow', 'v', 0.5, id_column => 'id')")
{
	my $session = FastedTest::Session->new($node);
	my $pid = $session->pid;
	$session->send("$registered; $query;");
	ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity "
		. "WHERE wait_event = 'PgSleep' AND coalesce(leader_pid, pid) = $pid"), "$query: most rows are read");
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	ok(wait_until(sub { !is_alive($pid) }), 'the session is terminated while memory is registered');
	$session->quit;
}
is($node->safe_psql('postgres', "SET fasted.engine = cpu; $parallel_join"), '2499|2499', 'other sessions remain usable');
unlike(log_since($node, 0), qr/was terminated by signal|reinitializing/, 'no process crashed');

($status, $out, $err) = $node->psql('postgres',
	"SET fasted.engine = auto; SET fasted.gpu_memory_limit = '12kB'; $join; SET fasted.engine = cpu; $join",
	on_error_stop => 0);
like($err, qr/ERROR:  the GPU reported an error/, 'a pair has been returned: an error');
is($out, $right, 'the session remains usable');

($status, $out, $err) = $node->psql('postgres', <<"END", on_error_stop => 0);
SET fasted.engine = cuda;
SET fasted.cuda_library = '/nowhere/at/all';
$join;
END
like($err, qr/the CUDA engine is not available/, 'an engine library that does not exist');

# Choice of the GPU: the engine has the numbers 0 to 2.
for my $list ('1', ' 1 , GPU-10f0f0f0', 'gpu-10F0')
{
	($status, $out, $err) = $node->psql('postgres',
		"SET fasted.engine = cuda; SET fasted.gpu_memory_limit = '2kB'; SET fasted.gpu_devices = '$list'; $join");
	like($err, qr/The engine was told to fail in open/, "fasted.gpu_devices = '$list': the GPU exists");
}
for my $list ('3', '0, 7', 'GPU-10f0f0f0, GPU-3')
{
	for my $engine ('cuda', 'auto')
	{
		($status, $out, $err) = $node->psql('postgres',
			"\\set VERBOSITY verbose\nSET fasted.engine = $engine; SET fasted.gpu_devices = '$list'; $join; RESET fasted.gpu_devices; SET fasted.engine = cpu; $join",
			on_error_stop => 0);
		like($err, qr/ERROR:  22023: invalid value for parameter "fasted.gpu_devices"\n/, "$engine, fasted.gpu_devices = '$list': the GPU does not exist");
		like($err, qr/DETAIL:  No GPU matches the list\.\nHINT:  Available GPUs: 0, 1, 2\./, 'the hint lists the GPUs');
		is($out, $right, 'the session remains usable');
	}
}
for my $list (',', '0,', 'GPU', 'one', '-1', '0; 1', '0 1', 'GPU-123456789')
{
	($status, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nLOAD 'fasted'; SET fasted.gpu_devices = '$list'");
	like($err, qr/ERROR:  22023: invalid value for parameter "fasted.gpu_devices"/, "fasted.gpu_devices = '$list' is not a valid list");
	like($err, qr/HINT:  .*nvidia-smi -L/, 'the hint describes a valid list');
}

# If an engine does not support an option, its message becomes the detail and the hint.
($status, $out, $err) = $node->psql('postgres',
	"\\set VERBOSITY verbose\nSET fasted.engine = cuda; SET fasted.gpu_memory_limit = '16kB'; $join");
like($err, qr/ERROR:  0A000: engine "cuda" does not support this join\nDETAIL:  The rows are too long\.\nHINT:  Use shorter rows\./, 'an unsupported option, with a hint');

$node->safe_psql('postgres', 'CREATE ROLE ordinary');
($status, $out, $err) = $node->psql('postgres', "LOAD 'fasted'; SET ROLE ordinary; SET fasted.cuda_library = 'x'");
like($err, qr/permission denied to set parameter/, 'only superusers may set the library');

$node->stop;
done_testing();
