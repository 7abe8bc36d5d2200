# Sixteen concurrent sessions join for minutes.  They are cancelled, terminated and
# killed at random, and run out of disk space, shared memory and time.  README.md lists
# the conditions that must hold at the end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../t", $FindBin::RealBin;
use FastedTest;
use SoakSession;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = $ENV{FASTED_SOAK_SECONDS} // 600;
my $sessions = 16;
my $seed = $ENV{FASTED_SOAK_SEED} // $$ ^ int(time);
srand($seed);
diag("seed $seed, $seconds seconds");

my $node = new_node('soak', <<'END');
fasted.threads = 2
fasted.memory_limit = 64MB
temp_file_limit = 300MB
max_connections = 50
max_worker_processes = 20
max_parallel_workers = 16
max_parallel_workers_per_gather = 3
min_parallel_table_scan_size = 1MB
restart_after_crash = on
fsync = off
log_min_messages = warning
log_error_verbosity = verbose
END
create_wide_views($node);
create_brute_force($node);
$node->safe_psql('postgres', <<'END');
-- vectors of whole numbers, out of line
CREATE TABLE toasted (id int PRIMARY KEY, v real[]);
ALTER TABLE toasted ALTER COLUMN v SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT g, array_fill((g % 700)::real, ARRAY[960]) FROM generate_series(1, 8000) g;
CREATE TABLE texts AS SELECT md5(id::text) AS id, v[1:64] FROM toasted;
CREATE TABLE checked (id int PRIMARY KEY, v real[]);
INSERT INTO checked SELECT g, ARRAY[g % 50, g % 31, g % 3] FROM generate_series(1, 1500) g;
VACUUM ANALYZE;
END
if ($ENV{FASTED_SOAK_DISK})
{
	mkdir "$ENV{FASTED_SOAK_DISK}/temp" or die $!;
	$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$ENV{FASTED_SOAK_DISK}/temp'");
	$node->safe_psql('postgres', 'ALTER DATABASE postgres SET temp_tablespaces = small');
}

# --- statements of the sessions: [settings, query with a known answer, or none]

my $toasted = "SELECT count(*), sum(id_a), sum(id_b) FROM fasted_self_join('toasted', 'v', 0)";
my $texts = "SELECT count(*), min(id_a), max(id_b) FROM fasted_self_join_typed(NULL::text, 'texts', 'v', 0, 'id')";
my $small = "SELECT count(*), sum(dist) FROM fasted_self_join('small', 'v', 1)";
my $spill = "SET fasted.memory_limit = '1MB';";
my $not_enough = "$spill SET temp_file_limit = '10MB';";
my @work = (
	[ '', $toasted ], [ '', $toasted ], [ 'SET max_parallel_workers_per_gather = 0;', $toasted ],
	[ 'SET parallel_leader_participation = off;', $toasted ],
	[ '', $texts ], [ '', $small ], [ 'SET fasted.scan_node = off;', $small ],
	[ $spill, $toasted ], [ $spill, $toasted ], [ $not_enough, $toasted ],
	[ "BEGIN ISOLATION LEVEL SERIALIZABLE;", $toasted ],
	[ 'BEGIN; DELETE FROM small WHERE id > 50; INSERT INTO small SELECT id, v FROM checked WHERE false;',
		"SELECT count(*), sum(dist) - 49 FROM fasted_self_join('small', 'v', 1)", '49|0' ],
	[ 'BEGIN;', "DECLARE c CURSOR FOR SELECT * FROM fasted_self_join('many_pairs', 'v', 'Infinity', id_column => 'id'); MOVE 1000 FROM c; ROLLBACK", '' ],
	[ '', "SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, 'id')", undef ],
	[ $spill, "SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, 'id')", undef ],
	[ '', "SELECT count(*) FROM fasted_self_join('endless', 'v', 0.5, 'id')", undef ],
	[ '', "SELECT * FROM fasted_self_join('many_pairs', 'v', 'Infinity', id_column => 'id') ORDER BY dist LIMIT 1 OFFSET 1000000000", undef ],
	[ '', "SELECT * FROM pg_stat_fasted_progress WHERE pid = 0", '' ]);

my %answers;
for my $query ($toasted, $texts, $small)
{
	$answers{$query} = $node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 0; $query");
}
is($answers{$small}, '99|99', 'the right result before the soak');

# SQLSTATEs that the test's actions cause.
my %expected_errors = map { $_ => 1 } (
	'25P02',					# after an error in a transaction
	'57014',					# canceled, statement_timeout
	'57P01', '57P02', '57P03',	# terminated, crash of another process, starting up
	'53100', '53400',			# disk full, temp_file_limit
	'53200', '53000', '53300',	# out of memory, shared memory, connections
	'55000',					# lost connection to parallel worker
	'08006', '08000', '08003');

my @kills;						# times of the kills
my %count;
my @problems;

sub next_work
{
	my ($session) = @_;
	my $work = $work[ rand @work ];
	my ($settings, $query, $answer) = @$work;
	$answer = $answers{$query} if @$work == 2;
	# without an answer: the query runs until it is cancelled
	my $timeout = 'SET statement_timeout = ' . (defined $answer && rand() < 0.7 ? 0 : 50 + int rand 3000) . ';';
	$session->ask("RESET ALL; SET fasted.engine = cpu; $settings $timeout", $query, $answer);
	return;
}

sub judge
{
	my ($session) = @_;
	my @states = $session->{err} =~ /(?:ERROR|FATAL|PANIC):  ([0-9A-Z]{5}): /g;
	$count{$_}++ for @states;
	$count{'no shared memory'}++ if $session->{err} =~ /shared memory/;
	$count{'no space on disk'}++ if $session->{err} =~ /could not (?:write|extend).*No space left/;
	push @problems, map { "$_: $session->{err}" } grep { !$expected_errors{$_} } @states;
	if (!@states && $session->{err} !~ /connection|terminat|server/ && defined $session->{answer})
	{
		$count{answers}++;
		push @problems, "wrong answer to $session->{query}: $session->{out}, not $session->{answer}"
		  if $session->{out} ne $session->{answer};
	}
	push @problems, "threads left after $session->{query}"
	  if $session->{idle} && $session->{pid} && -d "/proc/$session->{pid}" && thread_count($session->{pid}) > 1;
	return;
}

# PostgreSQL creates a segment before it records its name.  A process that is killed
# in between, or one that ends because of that, leaves the segment behind.
sub is_of_a_kill
{
	my ($segment) = @_;
	my $changed = (Time::HiRes::stat($segment))[10];
	return scalar grep { $changed > $_ - 0.1 && $changed < $_ + 1 } @kills;
}

# Processes of the server by their titles.
sub server_processes
{
	my ($pattern) = @_;
	my $postmaster = $node->{_pid} or return;
	my @found;
	for my $stat (glob('/proc/[0-9]*/stat'))
	{
		my ($pid) = $stat =~ /(\d+)/;
		open(my $file, '<', $stat) or next;
		next unless (<$file> // '') =~ /\) \S (\d+) / && $1 == $postmaster;
		open($file, '<', "/proc/$pid/cmdline") or next;
		push @found, $pid if (<$file> // '') =~ $pattern;
	}
	return @found;
}

# Returns false if there is no such process.
sub signal_one
{
	my ($name, $what, @pids) = @_;
	return 0 unless @pids;
	$count{"$name to a $what"} += kill $name, $pids[ rand @pids ];
	push @kills, time if $name eq 'KILL';
	return 1;
}

my $backends = qr/^postgres: .*\[local\]/;
my $workers = qr/^postgres: (?:\w+: )?parallel worker/;
# mean interval in seconds, and action
my @faults = (
	[ 0.15, sub { signal_one('INT', 'session', server_processes($backends)) } ],
	[ 1, sub { signal_one('TERM', 'session', server_processes($backends)) } ],
	[ 1.5, sub { signal_one('TERM', 'worker', server_processes($workers)) } ],
	[ 40, sub { signal_one('KILL', 'worker', server_processes($workers)) } ],
	[ 90, sub { signal_one('KILL', 'session', server_processes($backends)) } ]);
$_->[2] = time + rand() * 2 * $_->[0] for @faults;

# --- the soak

my @sessions = map { SoakSession->new($node) } 1 .. $sessions;
my $end = time + $seconds;
while (time < $end && @problems < 10)
{
	for my $session (@sessions)
	{
		next unless $session->is_done;
		judge($session);
		$session->renew if !$session->{idle} || rand() < 0.02;
		next_work($session) if $session->{idle};
	}
	for my $fault (@faults)
	{
		next if time < $fault->[2];
		$fault->[2] = time + rand() * 2 * $fault->[0] if $fault->[1]->();
	}
	usleep(5000);
}
is(join("\n", @problems), '', 'all results right, all errors expected, no thread remains');
diag(join ', ', map { "$_: $count{$_}" } sort keys %count);
cmp_ok($count{answers} // 0, '>', $seconds / 2, 'there were results');
cmp_ok($count{$_} // 0, '>', 0, "there was $_") for '57014', '57P01', '53400', 'INT to a session', 'TERM to a session', 'TERM to a worker';
if ($ENV{FASTED_SOAK_DISK})
{
	cmp_ok($count{$_} // 0, '>', 0, "there was $_") for 'no shared memory', 'no space on disk';
}

# --- afterwards

kill 'INT', server_processes($backends);
$_->end for @sessions;
ok($node->poll_query_until('postgres', 'SELECT true'), 'the server is running');
ok($node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker' "
		. "OR (backend_type = 'client backend' AND pid <> pg_backend_pid())"),
	'no session and no worker remains');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_fasted_progress'), 0, 'no progress entry remains');
is(join(' ', grep { -f $_ } glob($node->data_dir . '/base/pgsql_tmp/* ' . ($ENV{FASTED_SOAK_DISK} // '/nowhere')
				. '/temp/*/pgsql_tmp/*')), '', 'no temporary file remains');
wait_until(sub { !orphan_segments() }, 5);
my @orphans = orphan_segments();
is(join(' ', grep { !is_of_a_kill($_) } @orphans), '', 'no shared memory remains');
diag(scalar(@orphans) . ' segments were left by SIGKILL within dsm_create, of ' . @kills . ' times') if @orphans;
is($node->safe_psql('postgres', $_), $answers{$_}, 'the right answer afterwards') for sort keys %answers;
is_same_pairs($node, "SELECT * FROM fasted_self_join('checked', 'v', 3)", "SELECT * FROM brute_force('checked', 3)",
	'the right result by brute force');

my $log = log_since($node, 0);
my %signals;
$signals{$1}++ while $log =~ /terminated by signal (\d+)/g;
delete $signals{9};
is(join(', ', %signals), '', 'no process crashed except the killed ones');
# the server cleans up after a killed process; a segment may already be removed then
my @worse = grep { /PANIC|TRAP:|leak|could not remove|stuck spinlock/ && !/shared memory segment .*: No such file/ }
  split /\n/, $log;
is(join("\n", @worse), '', 'no other error in the log');

$node->stop;
done_testing();
