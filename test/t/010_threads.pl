# fasted.threads bounds the threads of a backend; they take no signals.
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

# Signals that the backend must get itself: SIGINT, SIGUSR1, SIGTERM
my $signals = 1 << 1 | 1 << 9 | 1 << 14;

for my $threads (1 .. 4)
{
	my $session = FastedTest::Session->new($node);
	my $pid = $session->pid;
	$session->send("SET fasted.threads = $threads;");
	$session->send("SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, 'id');");
	ok(wait_until(sub { thread_count($pid) > 1 }), "threads = $threads: the join runs");
	my $most = 0;
	for (1 .. 50)
	{
		my $count = thread_count($pid);
		$most = $count if $count > $most;
		usleep(5000);
	}
	is($most, 1 + $threads, "threads = $threads: so many beside the backend's own");

	my $open = 0;
	for my $task (grep { !m{/$pid$} } glob("/proc/$pid/task/*"))
	{
		my ($blocked) = slurp_file("$task/status") =~ /^SigBlk:\s+[0-9a-f]*([0-9a-f]{8})$/m;
		$open++ if (hex($blocked) & $signals) != $signals;
	}
	is($open, 0, "threads = $threads: all signals are blocked in them");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$session->query('SELECT');
	is(thread_count($pid), 1, "threads = $threads: none is left");
	$session->quit;
}

$node->stop;
done_testing();
