# fasted.threads limits the threads of a backend, and only users with the privilege may change it.
# The threads receive no signals.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('threads', "fasted.cpu_kernel = portable\n");
create_wide_views($node);

# Signals that only the backend itself may receive: SIGINT, SIGUSR1, SIGTERM.
my $signals = 1 << 1 | 1 << 9 | 1 << 14;

for my $threads (1 .. 4)
{
	my $session = FastedTest::Session->new($node);
	my $pid = $session->pid;
	$session->send("SET fasted.threads = $threads;");
	$session->send("SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, id_column => 'id');");
	ok(wait_until(sub { thread_count($pid) > $threads }), "threads = $threads: the join runs");
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

# The administrator's limit, for all users and for a role.
configure('fasted.threads = 1', $node);
$node->safe_psql('postgres', join('', map { "CREATE ROLE $_ LOGIN; GRANT SELECT ON wide TO $_;" } qw(ordinary trusted granted))
	. "LOAD 'fasted'; ALTER ROLE trusted SET fasted.threads = 3; GRANT SET ON PARAMETER fasted.threads TO granted");
my $set = 'SET fasted.threads = 4';
for my $case ([ 'ordinary', 1 ], [ 'ordinary', 1, $set ], [ 'trusted', 3 ], [ 'trusted', 3, $set ], [ 'granted', 1 ], [ 'granted', 4, $set ])
{
	my ($role, $expected, $before_loading) = @$case;
	my $session = FastedTest::Session->new($node, user => $role);
	my $pid = $session->pid;
	$session->query($before_loading) if $before_loading;
	$session->send("SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, id_column => 'id');");
	ok(wait_until(sub { thread_count($pid) > $expected }), "$role: the join runs" . ($before_loading ? ", after $set" : ''));
	usleep(200_000);
	is(thread_count($pid), 1 + $expected, "$role: $expected threads");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$session->query('SELECT');
	$session->query($set);
	$role eq 'granted' ? is($session->{err}, '', "$role: may change fasted.threads")
	  : like($session->{err}, qr/permission denied to set parameter "fasted.threads"/, "$role: may not change fasted.threads");
	$session->quit;
}

$node->stop;
done_testing();
