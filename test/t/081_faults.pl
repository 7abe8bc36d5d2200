# Every allocation and every system call fails once, in sessions, in parallel workers and in the
# engine's threads.  A statement must raise a clear error or return the right result, nothing must
# leak, and the same statement must succeed afterwards.
#
# The library test/t/preload/failing_calls.c makes the nth call fail, and then the nth and all
# following ones.  Its comment says which calls are counted.  The numbers n are chosen at random, with
# more of the first calls.  FASTED_ALL_FAULTS=1 takes all of them, FASTED_SEED chooses others, and
# FASTED_FAULTS=REGEX selects cases by their names.  FASTED_TRACE=1 prints the stack of each failing
# call to the server's log.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'sanitizers replace the functions that allocate memory' if sanitized();

my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
chomp(my $pkglibdir = `$pg_config --pkglibdir`);
plan skip_all => 'gcov does not check whether its own allocations fail'
  if slurp_file("$pkglibdir/fasted.so") =~ /libgcov profiling error/;

my $cc = $ENV{CC} || 'cc';
my $directory = PostgreSQL::Test::Utils::tempdir_short();
my $library = "$directory/failing_calls.so";
my $trace = $ENV{FASTED_TRACE} ? 'true' : 'false';
my $seed = random_seed();
alarm 0 if $ENV{FASTED_ALL_FAULTS};

# About this many calls of a case fail, one after the other, in each of the two ways.
my $most_faults = $ENV{FASTED_ALL_FAULTS} ? 1_000_000 : 9;

chomp(my $include = `$pg_config --includedir-server`);
system($cc, qw(-std=gnu11 -O1 -U_FORTIFY_SOURCE -D_GNU_SOURCE -Wall -shared -fPIC), "-I$include",
	"$FindBin::RealBin/preload/failing_calls.c", '-o', $library, '-ldl') == 0
  or die 'could not compile failing_calls.c';

# Three GPUs.
my $engine = simulated_engine();

local $ENV{SERVER_PRELOAD} = $library;
my $node = new_node('faults', <<"END");
fasted.cuda_library = '$engine'
fasted.threads = 2
max_worker_processes = 16
max_parallel_workers = 16
max_parallel_workers_per_gather = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
parallel_leader_participation = off
statement_timeout = '60s'
END

$node->safe_psql('postgres', <<"END");
CREATE FUNCTION fault_arm(at bigint, from_there_on boolean, trace boolean) RETURNS void AS '$library' LANGUAGE c STRICT;
CREATE FUNCTION fault_disarm() RETURNS bigint AS '$library' LANGUAGE c;
CREATE FUNCTION fault_failed() RETURNS bigint AS '$library' LANGUAGE c;
CREATE FUNCTION fault_blocks() RETURNS bigint AS '$library' LANGUAGE c;
CREATE FUNCTION fault_mapped() RETURNS bigint AS '$library' LANGUAGE c;
SELECT setseed(0.5);
CREATE TABLE t AS SELECT i AS id, i % 3 AS kind, 'key ' || i * 7919 % 1000 AS name, i * 7919 % 1000 AS priority,
	ARRAY(SELECT (random() + i % 10)::real FROM generate_series(1, 20)) AS v FROM generate_series(1, 300) AS i;
ALTER TABLE t ADD PRIMARY KEY (id);
CREATE TABLE u AS SELECT id + 1000 AS id, kind, v FROM t WHERE id % 2 = 0;
ALTER TABLE u ADD PRIMARY KEY (id);
CREATE VIEW view AS SELECT id, kind, priority, v FROM t WHERE id > 0;
CREATE TABLE doubles AS SELECT id, v::float8[] AS v FROM t;
CREATE TABLE bits AS SELECT id, (id % 50)::bit(100) AS v FROM t;
-- more than 1 MB of vectors and of texts
CREATE TABLE large (id int PRIMARY KEY, text text, v real[]);
ALTER TABLE large ALTER text SET STORAGE PLAIN, ALTER v SET STORAGE EXTERNAL;
INSERT INTO large SELECT i, repeat(md5(i::text), 90), array_fill((i / 2)::real, ARRAY[600]) FROM generate_series(1, 400) AS i;
-- catches errors in a subtransaction
CREATE FUNCTION caught(statement text) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE result text;
BEGIN
	EXECUTE statement INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN 'SQLSTATE ' || sqlstate || ': ' || sqlerrm;
END \$\$;
-- reads a few rows, then the rest, through a cursor
CREATE FUNCTION read_by_cursor(statement text) RETURNS bigint LANGUAGE plpgsql AS \$\$
DECLARE
	c refcursor;
	row record;
	n bigint := 0;
BEGIN
	OPEN c FOR EXECUTE statement;
	LOOP
		FETCH c INTO row;
		EXIT WHEN NOT FOUND;
		n := n + 1;
	END LOOP;
	CLOSE c;
	RETURN n;
END \$\$;
VACUUM ANALYZE;
CHECKPOINT;
END

# Returns a statement whose result is the number of the rows of a query, and their hash.
sub digest { return "SELECT count(*) || ' ' || coalesce(sum(hashtext(r::text)::bigint), 0) FROM ($_[0]) AS r"; }

my $self = "SELECT * FROM fasted_self_join('t', 'v', 2)";
my $stored = 'SET fasted.scan_node = off';
my $small = "SET fasted.memory_limit = '2MB'; SET work_mem = '64kB'";
my $parallel = 'SET max_parallel_workers_per_gather = 2';
my $gpus = 'SET fasted.engine = cuda; SET fasted.gpu_devices = "0, 1, 2"';
my $on = 'ON fasted_within(a.v, b.v, 2)';

# Name, statement, settings.
my @cases = (
	[ 'self-join', digest($self) ],
	[ 'self-join, stored', digest($self), "$stored; SET work_mem = '64kB'" ],
	[ 'self-join, count', "SELECT count(*) FROM fasted_self_join('t', 'v', 2)" ],
	[ 'self-join, text keys', digest("SELECT * FROM fasted_self_join('t', 'v', 2, id_type => NULL::text, id_column => 'name')") ],
	[ 'self-join, partitions', digest("SELECT * FROM fasted_self_join('t', 'v', 2, partition_by => 'kind')") ],
	[ 'self-join, panels', digest("SELECT * FROM fasted_self_join('large', 'v', 0)"), $small ],
	[ 'self-join, in a subtransaction', "SELECT caught('@{[digest($self) =~ s/'/''/gr]}')" ],
	[ 'self-join, cursor', "SELECT read_by_cursor('@{[$self =~ s/'/''/gr]}')" ],
	[ 'self-join, parallel read', digest($self), "$parallel; $stored" ],
	[ 'self-join, parallel plan', digest($self), $parallel ],
	[ 'self-join, doubles', digest("SELECT * FROM fasted_self_join('doubles', 'v', 2, id_column => 'id')") ],
	[ 'self-join, bits', digest("SELECT * FROM fasted_self_join('bits', 'v', 1, id_column => 'id', metric => 'hamming')") ],
	[ 'nearest', digest("SELECT * FROM fasted_knn_join('t', 'v', 'u', 'v', 3)") ],
	[ 'nearest, panels', digest("SELECT * FROM fasted_knn_join('large', 'v', 'large', 'v', 2)"), $small ],
	[ 'nearest, partitions, parallel', digest("SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 3, partition_by => 'kind')"), $parallel ],
	[ 'cluster', digest("SELECT * FROM fasted_cluster('t', 'v', 2, 5)") ],
	[ 'cluster, components, parallel', digest("SELECT * FROM fasted_cluster('t', 'v', 2)"), $parallel ],
	[ 'hdbscan', digest("SELECT id, cluster FROM fasted_hdbscan('t', 'v', 5)") ],
	[ 'spanning tree', digest("SELECT * FROM fasted_spanning_tree('t', 'v')") ],
	[ 'keep one', digest("SELECT * FROM fasted_keep_one('t', 'v', 2, 'priority')") ],
	[ 'keep one, view', digest("SELECT * FROM fasted_keep_one('view', 'v', 2, 'priority', true, id_column => 'id')") ],
	[ 'neighbors, parallel', digest("SELECT * FROM fasted_neighbors('t', 'v', 2)"), $parallel ],
	[ 'epsilon', digest("SELECT * FROM fasted_epsilon('t', 'v', 5, 200, seed => 1)") ],
	[ 'join', digest("SELECT a.id, b.id FROM t a JOIN u b $on") ],
	[ 'join, count', "SELECT count(*) FROM t a JOIN u b $on" ],
	[ 'join, left, condition', digest("SELECT a.id, b.id FROM t a LEFT JOIN u b $on AND a.kind < b.kind") ],
	[ 'join, semi', digest("SELECT id FROM t a WHERE EXISTS (SELECT FROM u b WHERE fasted_within(a.v, b.v, 1.6))") ],
	[ 'join, anti', digest("SELECT id FROM t a WHERE NOT EXISTS (SELECT FROM u b WHERE fasted_within(a.v, b.v, 1.6))") ],
	[ 'join, partitions', digest("SELECT a.id, b.id FROM t a JOIN u b $on AND a.kind = b.kind") ],
	[ 'join, panels, rows in a file', digest("SELECT a.id, b.text FROM large a JOIN large b ON a.id < b.id AND fasted_within(a.v, b.v, 0) AND a.text <> b.text"), $small ],
	[ 'join, parallel', digest("SELECT a.id, b.id FROM t a JOIN u b $on"), $parallel ],
	[ 'join, partitions, parallel', digest("SELECT a.id, b.id FROM t a JOIN u b $on AND a.kind = b.kind"), $parallel ],
	[ 'GPUs, self-join', digest($self), $gpus ],
	[ 'GPUs, self-join, panels', digest("SELECT * FROM fasted_self_join('large', 'v', 0)"), "$gpus; $small" ],
	[ 'GPUs, neighbors, parallel read', digest("SELECT * FROM fasted_neighbors('t', 'v', 2)"), "$gpus; $parallel" ],
	[ 'GPUs, join, partitions', digest("SELECT a.id, b.id FROM t a JOIN u b $on AND a.kind = b.kind"), $gpus ],
	[ 'windows', digest("SELECT id, fasted_dbscan(v, 2, 5) OVER w, fasted_dbscan(v, 2) OVER w, fasted_keep(v, 2, id) OVER w,
		fasted_neighbor_count(v, 2) OVER w, fasted_hdbscan_cluster(v, 5) OVER w FROM t WINDOW w AS (PARTITION BY kind ORDER BY id)") ],
	[ 'info', 'SELECT count(*) FROM fasted_info()' ]
);
@cases = grep { $_->[0] =~ /$ENV{FASTED_FAULTS}/ } @cases if $ENV{FASTED_FAULTS};

# SQLSTATEs of errors that the system causes: resources, files, and workers that could not start.
my $clear = qr/^(53\d\d\d|58\d\d\d|55000)$/;

# --- what a session holds

# Open files except those of tables, which PostgreSQL keeps open.
sub files_of
{
	my ($pid) = @_;
	my $base = $node->data_dir;
	return scalar grep { defined && !m{^\Q$base\E/(base/\d|global|pg_)} } map { readlink } glob("/proc/$pid/fd/*");
}

sub held
{
	my ($session) = @_;
	my $pid = $session->pid;
	my ($blocks, $mapped, $contexts, $bytes) = split /\|/,
	  $session->query('SELECT fault_blocks(), fault_mapped(), count(*), sum(total_bytes) FROM pg_backend_memory_contexts');
	return { blocks => $blocks, mapped => $mapped, threads => thread_count($pid), files => files_of($pid),
		temporary => scalar temp_files($node), contexts => $contexts, bytes => $bytes };
}

# --- runs

# Runs a statement with a fault for each n, and after it without one.  Returns for each n the
# state, the result, whether a call failed, and the result without a fault.
sub run_faults
{
	my ($session, $statement, $from_there_on, @n) = @_;
	my $script = '';
	for my $n (@n)
	{
		$script .= "SELECT fault_arm($n, $from_there_on, $trace);\n\\echo <$n>\n$statement;\n\\echo <state> :SQLSTATE :LAST_ERROR_MESSAGE\n"
		  . "SELECT 'calls ' || fault_disarm() || ' ' || fault_failed();\n$statement;\n\\echo <end>\n";
	}
	my @runs;
	my $out = $session->query($script);
	while ($out =~ /^<(\d+)>\n(.*?)^<state> (\w+) (.*?)\ncalls (\d+) (\d+)\n(.*?)^<end>$/msg)
	{
		my ($n, $result, $state, $message, $calls, $failed, $again) = ($1, $2, $3, $4, $5, $6, $7);
		chomp($result, $again);
		($state, $message) = ($1, $2) if $result =~ /^SQLSTATE (\w+): (.*)/s;
		push @runs, { n => $n, result => $result, state => $state, message => $message, calls => $calls, failed => $failed, again => $again };
	}
	die "the session ended: $out $session->{err}" if @runs != @n;
	return @runs;
}

# Returns about $most numbers of calls in ascending order: half of them in growing steps from the first
# call on, and the others anywhere.
sub choose_calls
{
	my ($calls, $most) = @_;
	return (1 .. $calls) if $calls <= $most;
	my %chosen = map { 1 + int(rand($calls)) => 1 } 1 .. $most / 2;
	for (my $n = 1; $n <= $calls; $n += 1 + int(rand($n * 8 / $most)))
	{
		$chosen{$n} = 1;
	}
	return sort { $a <=> $b } keys %chosen;
}

# Begins the choices of a case, which do not depend on those of other cases.
sub choose_for { my ($name) = @_; srand($seed + unpack('%32C*', $name)); return; }

# Starts a session with these settings.
sub new_session
{
	my ($settings) = @_;
	my $session = FastedTest::Session->new($node);
	$session->query("SET client_min_messages = error; $settings");
	return $session;
}

# Returns a description of what is wrong with a run; an empty string if nothing is.
sub fault_of
{
	my ($run, $expected) = @_;
	my $state = $run->{state};
	my $failed = $state ne '00000';
	return '' if $run->{again} eq $expected && ($failed ? $run->{failed} && $state =~ $clear : $run->{result} eq $expected);
	return "call $run->{n} of $run->{calls}: $state " . ($failed ? $run->{message} : $run->{result}) . ", then $run->{again}\n";
}

# Runs a case in one session, which must hold no more after the faults than before.
sub check_case
{
	my ($name, $statement, $settings) = @_;
	choose_for($name);
	my $session = new_session($settings // '');
	my $expected = $session->query($statement);
	my ($bad, $runs, $errors, $before) = ('', 0, 0);

	for my $from_there_on ('false', 'true')
	{
		my ($count) = run_faults($session, $statement, $from_there_on, 0);
		# caches are filled after the first errors
		run_faults($session, $statement, $from_there_on, choose_calls($count->{calls}, 5));
		$before //= held($session);
		my @n = choose_calls($count->{calls}, $most_faults);
		while (my @some = splice(@n, 0, 20))
		{
			for my $run (run_faults($session, $statement, $from_there_on, @some))
			{
				my $fault = fault_of($run, $expected);
				$bad .= ($from_there_on eq 'true' ? 'from there on: ' : '') . $fault if $fault;
				$runs += $run->{failed} > 0;
				$errors += $run->{state} ne '00000';
			}
		}
	}
	my $after = held($session);
	is($bad, '', "$name: $runs runs with a fault, of which $errors raised an error");
	cmp_ok($errors, '>', 0, "$name: there were errors");
	is($after->{$_}, $before->{$_}, "$name: the same $_ as before") for qw(blocks mapped threads files temporary contexts);
	cmp_ok($after->{bytes} - $before->{bytes}, '<', 256 * 1024, "$name: no more memory contexts (bytes)");
	$session->quit;
	return;
}

# Runs a case as the first statement of a session, which also loads the library and fills its caches.
# PostgreSQL ends a session that has no memory for the string of a setting.  fasted_info is not a case:
# it returns one more row if the engine's library could not be loaded.
sub check_first_statement
{
	my ($name, $statement, $settings) = @_;
	choose_for($name);
	my ($bad, $errors) = ('', 0);
	my $first = sub {
		my ($n) = @_;
		my $session = new_session($settings // '');
		my ($run) = eval { run_faults($session, $statement, 'false', $n) };
		my $ended = $session->{err} =~ /^FATAL:  out of memory/m;
		die $@ if !defined $run && !$ended;
		$session->quit;
		return $run;
	};
	my $right = $first->(0);
	for my $n (choose_calls($right->{calls}, $most_faults / 2))
	{
		my $run = $first->($n);
		next if !defined $run;
		$bad .= fault_of($run, $right->{result});
		$errors += $run->{state} ne '00000';
	}
	is($bad, '', "first statement, $name: an error or the right result");
	cmp_ok($errors, '>', 0, "first statement, $name: there were errors");
	return;
}

check_case(@$_) for @cases;
check_first_statement(@$_) for grep { $_->[0] =~ /^(self-join|nearest, partitions, parallel|join, partitions|windows)$/ } @cases;

is(scalar orphan_segments(), 0, 'no segment of shared memory remains');
unlike(log_since($node, 0), qr/PANIC|terminated by signal|TRAP:|WARNING: .*(leak|refcount)/, 'no process crashed, and nothing leaked');
$node->stop;
done_testing();
