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
	# as pg_terminate_backend does
	my %ends = ('its client was killed' => sub { $_[0]->kill }, 'it was terminated' => sub { kill 'TERM', $_[0]->pid });

	for my $end (sort keys %ends)
	{
		my $ms;
		# up to five times, because other processes may disturb the measurement
		for my $try (1 .. 5)
		{
			my $session = FastedTest::Session->new($node);
			$session->send($query);
			in_the_middle($session->pid, $query) or die "$stage: the join does not run";
			my $watch = watch($session->pid);
			$ends{$end}->($session);
			wait_until(sub { !is_alive($session->pid) });
			$ms = lateness($watch);
			$session->quit;
			last if $ms < $limit_ms;
		}
		cmp_ok($ms, '<', $limit_ms, "$stage: the backend ends after $end (ms)");
	}
}

is(scalar temp_files($node), 0, 'no temporary file remains');
is($node->safe_psql('postgres', "SELECT count(*) FROM fasted_self_join('small', 'v', 1)"),
	99, 'the server remains usable');
unlike(log_since($node, 0), qr/PANIC|terminated by signal|was terminated|reinitializing/,
	'no process crashed');

$node->stop;
done_testing();
