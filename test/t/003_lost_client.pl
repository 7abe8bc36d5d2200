# A client is killed, or a backend is terminated, in the middle of a join.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('client', "fasted.threads = 2\n");
create_wide_views($node);

my $limit_ms = sanitized() ? 9_000 : 1_000;
my $computing = "SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, id_column => 'id');";
my $reading = "SELECT count(*) FROM fasted_self_join('endless', 'v', 1, id_column => 'id');";

sub in_the_middle
{
	my ($pid, $query) = @_;
	return wait_until(sub { $query eq $reading ?
		memory_of($pid, 'VmRSS') > 100 * 1024 : thread_count($pid) > 1 });
}

is($node->safe_psql('postgres', 'SHOW client_connection_check_interval'), '0',
	'the server does not check client connections itself');

for my $query ($reading, $computing)
{
	my $stage = $query eq $reading ? 'reading' : 'computing';

	my $session = FastedTest::Session->new($node);
	$session->send($query);
	ok(in_the_middle($session->pid, $query), "$stage: the join runs");
	my $watch = watch($session->pid);
	$session->kill;
	wait_until(sub { !is_alive($session->pid) });
	cmp_ok(lateness($watch), '<', $limit_ms, "$stage: the backend ends after its client was killed (ms)");

	$session = FastedTest::Session->new($node);
	$session->send($query);
	ok(in_the_middle($session->pid, $query), "$stage: the join runs");
	$watch = watch($session->pid);
	# as pg_terminate_backend does
	kill 'TERM', $session->pid;
	wait_until(sub { !is_alive($session->pid) });
	cmp_ok(lateness($watch), '<', $limit_ms, "$stage: the backend is terminated (ms)");
	$session->quit;
}

is(scalar temp_files($node), 0, 'no temporary file remains');
is($node->safe_psql('postgres', "SELECT count(*) FROM fasted_self_join('small', 'v', 1)"),
	99, 'the server remains usable');
unlike(log_since($node, 0), qr/PANIC|terminated by signal|was terminated|reinitializing/,
	'no process crashed');

$node->stop;
done_testing();
