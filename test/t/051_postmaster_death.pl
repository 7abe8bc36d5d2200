# If the postmaster is killed, a join ends by itself at any stage, so that the
# server can start again.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = new_node('postmaster_death',
	"fasted.threads = 2\nfasted.cpu_kernel = portable\nfasted.memory_limit = '400MB'\n");
create_wide_views($node);

my $join = "SELECT count(*) FROM fasted_self_join('%s', 'v', %s, id_column => 'id');";
my @stages = (
	[ 'computing', sprintf($join, 'wide', 0.5), sub { thread_count($_[0]) > 1 } ],
	[ 'reading', sprintf($join, 'endless', 1), sub { memory_of($_[0], 'VmRSS') > 100 * 1024 } ],
	[ 'reading into a temporary file', "SET fasted.memory_limit = '1MB'; " . sprintf($join, 'endless', 1),
		sub { grep { $_ > 20_000_000 } temp_files($node) } ],
	[ 'joining a sample', "SELECT * FROM fasted_epsilon('wide', 'v', 1000, 40000);", sub { thread_count($_[0]) > 1 } ]);

# A process that has ended may remain as a zombie.
sub has_ended
{
	my ($pid) = @_;
	open(my $file, '<', "/proc/$pid/stat") or return 1;
	return (<$file> // ') Z') =~ /\) [ZX]/;
}

for my $stage (@stages)
{
	my ($name, $sql, $reached) = @$stage;
	my $session = FastedTest::Session->new($node);
	my $pid = $session->pid;
	$session->send($sql);
	ok(wait_until(sub { $reached->($pid) }), "$name: the join has reached the stage");
	$node->kill9;
	my $begin = time;
	ok(wait_until(sub { has_ended($pid) }, 30), sprintf('%s: the backend ends (%.1f s)', $name, time - $begin));
	kill 'KILL', $pid;
	$session->quit;

	start_node($node);
	is($node->safe_psql('postgres', sprintf($join, 'small', 1)), 99, "$name: a join returns the right result");
}

like(log_since($node, 0), qr/FATAL:  terminating connection due to unexpected postmaster exit/, 'the log gives the reason');
is(scalar temp_files($node), 0, 'no temporary file remains');

$node->stop;
done_testing();
