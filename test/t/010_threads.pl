# fasted.threads limits the threads of a backend, and fasted.max_threads limits
# fasted.threads.  The threads receive no signals.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('threads');
create_wide_views($node);

# Signals that only the backend itself may receive: SIGINT, SIGUSR1, SIGTERM.
my $signals = 1 << 1 | 1 << 9 | 1 << 14;

for my $threads (1 .. 4)
{
	my $session = FastedTest::Session->new($node);
	my $pid = $session->pid;
	$session->send("SET fasted.threads = $threads;");
	$session->send("SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, id_column => 'id');");
	ok(wait_until(sub { thread_count($pid) > 1 }), "threads = $threads: the join runs");
	my $most = 0;
	for (1 .. 50)
	{
		my $count = thread_count($pid);
		$most = $count if $count > $most;
		usleep(5000);
	}
	is($most, 1 + $threads, "threads = $threads: the join has this number of threads besides the backend's own");

	my $open = 0;
	for my $task (grep { !m{/$pid$} } glob("/proc/$pid/task/*"))
	{
		my ($blocked) = slurp_file("$task/status") =~ /^SigBlk:\s+[0-9a-f]*([0-9a-f]{8})$/m;
		$open++ if (hex($blocked) & $signals) != $signals;
	}
	is($open, 0, "threads = $threads: all signals are blocked in the threads of the join");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$session->query('SELECT');
	is(thread_count($pid), 1, "threads = $threads: no thread of the join remains");
	$session->quit;
}

# The administrator's limit applies to users' settings and to the engine's own choice.
$node->append_conf('postgresql.conf', "fasted.max_threads = 1\n");
$node->reload;
$node->safe_psql('postgres', 'CREATE ROLE ordinary LOGIN; GRANT SELECT ON wide TO ordinary; '
	. 'CREATE ROLE trusted LOGIN; GRANT SELECT ON wide TO trusted; LOAD \'fasted\'; ALTER ROLE trusted SET fasted.max_threads = 3');
my $before_loading = 'SET fasted.max_threads = 8';
for my $case ([ 'ordinary', 4, 1 ], [ 'ordinary', 0, 1 ], [ 'ordinary', 4, 1, $before_loading ],
	[ 'trusted', 4, 3 ], [ 'trusted', 2, 2 ], [ 'trusted', 4, 3, $before_loading ])
{
	my ($role, $threads, $expected, $first) = @$case;
	my $session = FastedTest::Session->new($node, user => $role);
	my $pid = $session->pid;
	$session->query($first) if $first;
	$session->send("SET fasted.threads = $threads;");
	$session->send("SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, id_column => 'id');");
	ok(wait_until(sub { thread_count($pid) > 1 }), "$role, threads = $threads: the join runs" . ($first ? ", after $first" : ''));
	usleep(200_000);
	is(thread_count($pid), 1 + $expected, "$role, threads = $threads: $expected threads");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$session->query('SELECT');
	$session->query('SET fasted.max_threads = 8; SHOW fasted.max_threads');
	like($session->{err}, qr/permission denied to set parameter "fasted.max_threads"/, "$role: users may not raise fasted.max_threads");
	$session->quit;
}

$node->stop;
done_testing();
