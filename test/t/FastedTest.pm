# Code shared by the TAP tests: a server with the extension, background sessions,
# and functions that inspect a backend from outside.
package FastedTest;

# If a test failed, PostgreSQL's test modules keep all their directories for
# inspection.  The socket directories, in the system's temporary directory, contain
# nothing useful.  This block precedes the modules, because END blocks run in
# reverse order: at that time all servers have stopped.
my @socket_dirs;

END
{
	local $?;
	File::Path::remove_tree(@socket_dirs);
}

use strict;
use warnings;
# a slow machine waits
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 600; }
use Exporter qw(import);
use File::Basename ();
use File::Path ();
use IPC::Run ();
use List::Util qw(max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(clock_gettime time usleep);

our @EXPORT = qw(random_seed new_node start_node configure sanitized simulated_engine wait_until watch lateness cancel_soon thread_count memory_of
  is_alive temp_files orphan_segments log_size log_since create_wide_views create_small_table
  create_brute_force reference_functions is_same_pairs);

# Shared memory from before the test, of another server that may have been killed.
my %older_segments = map { $_ => 1 } glob('/dev/shm/PostgreSQL.*');

my $patience = $PostgreSQL::Test::Utils::timeout_default || 180;

# A test that hangs reports the place before the caller's own time limit.
my @nodes;
my $most_seconds = 900;
my $test_pid = $$;
$SIG{ALRM} = sub {
	exit 1 if $$ != $test_pid;
	diag("after $most_seconds seconds, with a load of " . slurp_file('/proc/loadavg'));
	for my $node (grep { -e $_->data_dir . '/postmaster.pid' } @nodes)
	{
		diag(qx{timeout 20 psql -X -d "@{[$node->connstr('postgres')]}" -c "SELECT pid, leader_pid, backend_type,
			state, wait_event, left(query, 200) AS query FROM pg_stat_activity ORDER BY leader_pid, pid" 2>&1});
	}
	die "the test takes too long\n";
};
alarm $most_seconds;

# Seeds Perl's random numbers, so that the cases of a test depend on the revision only; returns the seed.
sub random_seed
{
	my $here = File::Basename::dirname(__FILE__);
	chomp(my $seed = `$here/../setup/seed`);
	note("FASTED_SEED=$seed");
	srand($seed);
	return $seed;
}

# Under a sanitizer, memory and times are not comparable.
sub sanitized { return defined $ENV{ASAN_OPTIONS}; }

# Compiles test/t/engine/simulated_engine.c with compiler options, links it with the objects of the
# extension's CPU engine, and returns the path for fasted.cuda_library.
sub simulated_engine
{
	my @options = @_;
	my $here = File::Basename::dirname(__FILE__);
	my $src = "$here/../../src";
	my $library = PostgreSQL::Test::Utils::tempdir_short() . '/simulated';
	# libgcov is needed if the objects count their lines
	system($ENV{CC} || 'cc', qw(-std=gnu11 -O2 -Wall -fPIC -fvisibility=hidden -shared), "-I$src", @options,
		"$here/engine/simulated_engine.c", glob("$src/cpu/*/*.o $src/engine/{metric_rules,thread,processors}.o"),
		'-o', "$library.so", qw(-lpthread -lm -lgcov)) == 0
	  or die 'could not compile simulated_engine.c';
	return $library;
}

# Creates the cluster of a node.  It is a copy of the first cluster that a test has created: initdb takes
# longer.
sub init_node
{
	my ($node) = @_;
	my $template = "$PostgreSQL::Test::Utils::tmp_check/template";
	return $node->init if defined $node->{_install_path};
	my $run = \&PostgreSQL::Test::Utils::system_or_bail;
	no warnings 'redefine';
	local *PostgreSQL::Test::Utils::system_or_bail = sub {
		return $run->(@_) if $_[0] ne 'initdb';
		return $run->('cp', '-RPp', $template, $node->data_dir) if -d $template;
		$run->(@_);
		$run->('cp', '-RPp', $node->data_dir, "$template.$$");
		# another test may have created it meanwhile
		rename "$template.$$", $template or File::Path::remove_tree("$template.$$");
		return;
	};
	return $node->init;
}

# Returns a running server with the extension in database postgres.  The engine is the
# CPU engine, which every machine has, unless the test sets another one.  Expressions are not compiled,
# because that takes longer than most queries.  Plans do not depend on the moment of an autovacuum.
sub new_node
{
	my ($name, $conf, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, %options);
	push @nodes, $node;
	push @socket_dirs, $node->host if $node->host =~ m{^/} && !defined $ENV{PG_TEST_NOCLEAN};
	init_node($node);
	$node->append_conf('postgresql.conf', "fasted.engine = cpu\njit = off\nautovacuum = off\n" . ($conf // ''));
	start_node($node);
	$node->safe_psql('postgres', 'SET client_min_messages = warning; CREATE EXTENSION fasted');
	return $node;
}

# Tries it several times: a process of a killed server may still use its shared memory, and while a node of a
# Citus cluster is down, another connection may take its TCP port.
sub start_node
{
	my ($node) = @_;
	local $ENV{LD_PRELOAD} = $ENV{SERVER_PRELOAD} if $ENV{SERVER_PRELOAD};
	delete local $ENV{LD_PRELOAD} unless $ENV{SERVER_PRELOAD};
	for (1 .. 20)
	{
		return 1 if $node->start(fail_ok => 1);
		$node->stop('fast', fail_ok => 1);
		sleep 1;
	}
	BAIL_OUT('the server does not start');
}

# Appends a line to the configuration of nodes, and waits until new sessions have the setting.
sub configure
{
	my ($line, @nodes) = @_;
	my ($name, $value) = $line =~ /^(\S+) = '?([^']*)/;
	for my $node (@nodes)
	{
		$node->append_conf('postgresql.conf', $line);
		$node->reload;
	}
	wait_until(sub { !grep { $_->safe_psql('postgres', "SHOW $name") ne $value } @nodes }) or die "no effect: $line";
	return;
}

# Calls a function until it returns true; returns false after a time limit.
sub wait_until
{
	my ($condition, $seconds) = @_;
	my $end = time + ($seconds // $patience);
	while (time < $end)
	{
		return 1 if $condition->();
		usleep(5000);
	}
	return 0;
}

# Returns how many milliseconds a process was late to react.  On an idle machine that is the
# elapsed time.  On a loaded one even a correct process waits for a CPU.  Therefore
# the result is the largest of these times:
#	- the CPU time of the process meanwhile, divided by its number of threads
#	- the CPU time of the session's own thread
#	- the elapsed time, but at most the time for which CPUs were idle, because the
#	  process did not have to wait for a CPU then
# A reaction after ten seconds is late in any case.
#
#	my $watch = watch($pid);	# the process is signalled now
#	lateness($watch, threads => 2, end => $time);	# the reaction was seen

sub watch
{
	my ($pid) = @_;
	return { pid => $pid, time => time, processor => processor_ms($pid), own => own_ms($pid), idle => idle_ms(), throttled => throttled() };
}

sub lateness
{
	my ($watch, %options) = @_;
	my $passed = 1000 * (($options{end} // time) - $watch->{time});
	my $used = (processor_ms($watch->{pid}) - $watch->{processor}) / ($options{threads} // 1);
	my $idle = throttled() == $watch->{throttled} ? idle_ms() - $watch->{idle} : 0;
	my $own = own_ms($watch->{pid}) - $watch->{own};
	return $passed if $passed > 10_000;
	# CPU time after the end does not count
	return min($passed, max($used, $own, $idle));
}

# Cancels a statement at a given stage, and measures how late the session runs another
# query; up to ten times, because other processes may disturb the measurement, and because a statement
# may end before its stage was seen.
#
#	cancel_soon($session, $limit_ms, settings => 'SET ...;', sql => 'SELECT ...;',
#		reached => sub { my ($pid) = @_; ... })
#
# Returns the SQLSTATE and the smallest number of milliseconds.
sub cancel_soon
{
	my ($session, $limit_ms, %stage) = @_;
	my $best = 9**9**9;
	my $state;
	for my $try (1 .. 10)
	{
		($state, my $ms) = cancel_once($session, %stage);
		$best = min($best, $ms) if $state eq '57014';
		last if $best < $limit_ms;
	}
	return ($state, $best);
}

sub cancel_once
{
	my ($session, %stage) = @_;
	$session->{out} = $session->{err} = '';
	$session->send($stage{settings} // '');
	$session->send("$stage{sql}\n\\echo state :SQLSTATE\n"
		. "SELECT 'back at ' || extract(epoch FROM clock_timestamp()) || ';';\n\\echo over");
	my $has_ended = sub { $session->{run}->pump_nb; $session->{out} =~ /^state/m };
	wait_until(sub { $has_ended->() || $stage{reached}->($session->pid) })
	  or die "the stage was not reached: $session->{out} $session->{err}";
	# as pg_cancel_backend does, at a known time
	my $threads = thread_count($session->pid) - 1;
	my $watch = watch($session->pid);
	kill 'INT', $session->pid unless $has_ended->();
	$session->wait_for(qr/^(over)$/m);
	my ($state) = $session->{out} =~ /^state (\w+)/m;
	my ($back) = $session->{out} =~ /^back at ([\d.]+);/m;
	$session->query('RESET ALL');
	return ($state, lateness($watch, threads => $threads || 1, end => $back));
}

# CPU time of all threads of a process, including ended ones; 0 if the process does not
# exist.  The number of the clock is that of clock_getcpuclockid().
sub processor_ms
{
	my ($pid) = @_;
	my $seconds = clock_gettime(-8 * ($pid + 1) + 2);
	return $seconds > 0 ? 1000 * $seconds : 0;
}

# CPU time of the first thread of a process, in steps of 10 ms; 0 if it does not exist.
sub own_ms
{
	my ($pid) = @_;
	my $file = "/proc/$pid/task/$pid/stat";
	return 0 unless -r $file;
	my @fields = split / /, slurp_file($file) =~ s/.*\) //sr;
	return 10 * ($fields[11] + $fields[12]);
}

# Total idle time of all CPUs, in steps of 10 ms.
sub idle_ms
{
	return slurp_file('/proc/stat') =~ /^cpu +\d+ +\d+ +\d+ +(\d+)/ ? 10 * $1 : 0;
}

# How often this container was throttled because its CPU quota was used up.
sub throttled
{
	my $file = '/sys/fs/cgroup/cpu.stat';
	return -r $file && slurp_file($file) =~ /^nr_throttled (\d+)/m ? $1 : 0;
}

# Number of threads: the backend's own thread and those of a join.  The kernel lists a thread for a moment
# after pthread_join has returned, with the flag PF_EXITING, which is the seventh field after the name.
sub thread_count
{
	my ($pid) = @_;
	my $count = 0;
	for my $stat (glob("/proc/$pid/task/*/stat"))
	{
		open(my $file, '<', $stat) or next;
		$count++ if (<$file> // '') =~ /.*\) \S(?: -?\d+){5} (\d+)/ && !($1 & 4);
	}
	return $count;
}

# VmRSS, VmHWM and similar values, in kB.
sub memory_of
{
	my ($pid, $what) = @_;
	return slurp_file("/proc/$pid/status") =~ /^$what:\s+(\d+) kB/m ? $1 : 0;
}

sub is_alive
{
	my ($pid) = @_;
	return -d "/proc/$pid";
}

# Temporary files of queries, with their sizes.
sub temp_files
{
	my ($node) = @_;
	return map { -s $_ // 0 } glob($node->data_dir . '/base/pgsql_tmp/*');
}

# Returns whether a segment holds the server's cumulative statistics.  It exists
# while the server runs, and at times no process has it mapped.  It begins with the
# magic number of dsa.c, XORed with its index in the area (at most 1024).
sub holds_statistics
{
	my ($path) = @_;
	my $magic;
	open(my $file, '<:raw', $path) or return 0;
	return read($file, $magic, 4) == 4 && (unpack('L', $magic) ^ 0x0ce26608) < 1024;
}

# Dynamic shared memory segments that were created since the test began and that no
# process has mapped, except those of statistics.
sub orphan_segments
{
	my %orphans = map { $_ => 1 }
	  grep { -o $_ && !$older_segments{$_} && !holds_statistics($_) } glob('/dev/shm/PostgreSQL.*');
	for my $maps (glob('/proc/[0-9]*/maps'))
	{
		open(my $file, '<', $maps) or next;
		while (my $line = <$file>)
		{
			delete $orphans{$1} if $line =~ m{(/dev/shm/PostgreSQL\.\d+)};
		}
	}
	return grep { -e $_ } keys %orphans;
}

sub log_size { my ($node) = @_; return -s $node->logfile // 0; }

sub log_since
{
	my ($node, $offset) = @_;
	return slurp_file($node->logfile, $offset);
}

# Views of rows that are cheap to generate:
#	wide		about 10^12 floating-point operations, almost no pairs
#	endless		more rows than a test can wait for
#	many_pairs	200 million pairs within eps = Infinity
# In sessions that begin later, all dimensions of rows are compared (no pruning): wide
# rows lie on a line, so that one dimension would suffice.
sub create_wide_views
{
	my ($node) = @_;
	$node->safe_psql('postgres', <<'END');
ALTER DATABASE postgres SET fasted.prune = 'off';
CREATE VIEW wide AS
	SELECT g AS id, array_fill(g::real, ARRAY[1000]) AS v FROM generate_series(1, 40000) g;
CREATE VIEW endless AS
	SELECT g AS id, array_fill(g::real, ARRAY[500]) AS v
	FROM (SELECT generate_series(1, 1000000000) AS g) s;
CREATE VIEW many_pairs AS
	SELECT g AS id, ARRAY[g::real] AS v FROM generate_series(1, 20000) g;
END
	create_small_table($node);
}

# Table small: 100 rows, 99 pairs at a distance of exactly 1.
sub create_small_table
{
	my ($node) = @_;
	$node->safe_psql('postgres', <<'END');
CREATE TABLE small (id int PRIMARY KEY, v real[] NOT NULL);
INSERT INTO small SELECT g, ARRAY[g, 7, -1] FROM generate_series(1, 100) g;
END
}

# SQL function brute_force(relation, eps): the correct result for columns id and v
# if coordinates are whole numbers, which avoids rounding.
sub create_brute_force
{
	my ($node) = @_;
	$node->safe_psql('postgres', <<'END');
CREATE FUNCTION brute_force(relation regclass, eps float8)
RETURNS TABLE (id_a bigint, id_b bigint, dist float8) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('
		SELECT * FROM (
			SELECT a.id::bigint, b.id::bigint, sqrt(
				(SELECT sum((x - y) * (x - y)) FROM unnest(a.v::float8[], b.v::float8[]) u (x, y)))
			FROM %1$s a JOIN %1$s b ON a.id < b.id) p (id_a, id_b, dist)
		WHERE dist <= $1', relation) USING eps;
END $$;
END
}

# Returns statements that create SQL functions reference_neighbors, reference_cluster and
# reference_keep_one.  They compute the results of the functions by their definitions, from a relation
# of rows (id, v) and a relation of the distances of all pairs in both directions (a, b, dist).
# Argument ranks is an expression that orders the rows.
sub reference_functions
{
	return <<'END';
CREATE FUNCTION reference_neighbors(points regclass, distances regclass, eps float8)
RETURNS TABLE (id bigint, neighbors bigint) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('
		SELECT p.id::bigint, count(d.a) FROM %s p LEFT JOIN %s d ON d.a = p.id AND d.dist <= $1
		WHERE p.v IS NOT NULL GROUP BY p.id', points, distances) USING eps;
END $$;

CREATE FUNCTION reference_cluster(points regclass, distances regclass, eps float8, min_samples int)
RETURNS TABLE (id bigint, cluster int, core boolean) LANGUAGE plpgsql AS $$
DECLARE changed int;
BEGIN
	CREATE TEMP TABLE member ON COMMIT DROP AS
		SELECT n.id, n.neighbors + 1 >= min_samples AS core, CASE WHEN n.neighbors + 1 >= min_samples THEN n.id END AS label
		FROM reference_neighbors(points, distances, eps) n;
	EXECUTE format('CREATE TEMP TABLE edge ON COMMIT DROP AS SELECT a, b, dist FROM %s WHERE dist <= %L', distances, eps);
	-- core rows take the least label around them until none changes
	LOOP
		UPDATE member m SET label = l.label
		FROM (SELECT e.a, min(n.label) AS label FROM edge e JOIN member n ON n.id = e.b AND n.core GROUP BY e.a) l
		WHERE m.id = l.a AND m.core AND l.label < m.label;
		GET DIAGNOSTICS changed = ROW_COUNT;
		EXIT WHEN changed = 0;
	END LOOP;
	UPDATE member m SET label = (
		SELECT n.label FROM edge e JOIN member n ON n.id = e.b AND n.core WHERE e.a = m.id ORDER BY e.dist, e.b LIMIT 1)
	WHERE NOT m.core;
	RETURN QUERY SELECT m.id, c.number::int, m.core
		FROM member m LEFT JOIN (
			SELECT l.label, row_number() OVER (ORDER BY min(l.id)) - 1 AS number FROM member l WHERE l.label IS NOT NULL GROUP BY l.label
		) c ON c.label = m.label;
	DROP TABLE member, edge;
END $$;

CREATE FUNCTION reference_keep_one(points regclass, distances regclass, eps float8, ranks text)
RETURNS TABLE (id bigint, kept bigint, dist float8) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	representative record;
	n int := 0;
BEGIN
	CREATE TEMP TABLE stay (id bigint PRIMARY KEY, rank int) ON COMMIT DROP;
	FOR r IN EXECUTE format('SELECT id FROM %s WHERE v IS NOT NULL ORDER BY %s', points, ranks) LOOP
		n := n + 1;
		EXECUTE format('SELECT s.id, d.dist FROM stay s JOIN %s d ON d.a = $1 AND d.b = s.id AND d.dist <= $2
			ORDER BY d.dist, s.rank LIMIT 1', distances) INTO representative USING r.id, eps;
		IF representative.id IS NULL THEN
			INSERT INTO stay VALUES (r.id, n);
			RETURN QUERY SELECT r.id::bigint, r.id::bigint, 0.0::float8;
		ELSE
			RETURN QUERY SELECT r.id::bigint, representative.id::bigint, representative.dist::float8;
		END IF;
	END LOOP;
	DROP TABLE stay;
END $$;
END
}

# Checks that both queries return the same rows, and at least one.
sub is_same_pairs
{
	my ($node, $query, $expected, $name) = @_;
	my $result = $node->safe_psql('postgres', <<END);
WITH x AS MATERIALIZED ($query), y AS MATERIALIZED ($expected)
SELECT (SELECT count(*) FROM x) = (SELECT count(*) FROM y),
	(SELECT count(*) FROM y) > 0,
	(SELECT count(*) FROM (TABLE x EXCEPT ALL TABLE y) d)
END
	return is($result, 't|t|0', $name);
}

# --- background sessions

package FastedTest::Session;

use strict;
use warnings;
use Time::HiRes qw(time usleep);

my $count = 0;

# A psql process that waits for input.  Its output is in {out} and {err}.
sub new
{
	my ($class, $node, %options) = @_;
	my $name = 'session_' . ++$count;
	my $self = bless { node => $node, in => '', out => '', err => '', marks => 0 }, $class;
	my $connstr = $node->connstr('postgres') . " application_name='$name'";
	$connstr .= " user='$options{user}'" if defined $options{user};
	local $ENV{PGOPTIONS} = $options{options} if defined $options{options};
	$self->{run} = IPC::Run::start(
		[ 'psql', '-X', '-q', '-A', '-t', '-d', $connstr ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err});
	$self->{pid} = $self->query('SELECT pg_backend_pid()');
	return $self;
}

sub pid { return $_[0]->{pid}; }

# Sends without waiting.
sub send
{
	my ($self, $text) = @_;
	$self->{in} .= "$text\n";
	$self->{run}->pump_nb;
}

# Waits for output.  The time limit is that between two lines, since a script may have many statements.
sub wait_for
{
	my ($self, $pattern) = @_;
	my $end = time + $patience;
	while ($self->{out} !~ $pattern)
	{
		my $length = length $self->{out};
		die "session says neither this nor that: $self->{out} $self->{err}"
		  if time > $end || !$self->{run}->pumpable;
		$self->{run}->pump_nb;
		$end = time + $patience if length $self->{out} > $length;
		usleep(2000);
	}
	return $self->{out} =~ $pattern ? $1 : undef;
}

# Sends statements and returns their output; errors are in {err}.
sub query
{
	my ($self, $sql) = @_;
	my $mark = 'end of query ' . ++$self->{marks};
	$self->{out} = $self->{err} = '';
	$self->send("$sql\n;\n\\echo $mark");
	$self->wait_for(qr/^\Q$mark\E$/m);
	# errors arrive through another pipe
	$self->{run}->pump_nb for 1 .. 3;
	(my $out = $self->{out}) =~ s/^\Q$mark\E\n//m;
	chomp $out;
	return $out;
}

sub quit
{
	my ($self) = @_;
	$self->{in} .= "\\q\n";
	eval { $self->{run}->finish; };
}

sub kill
{
	my ($self) = @_;
	$self->{run}->kill_kill(grace => 0);
}

1;
