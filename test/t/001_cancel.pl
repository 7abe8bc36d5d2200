# Cancelling a join: soon, at any stage and under any load, and nothing of it is left.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('cancel', "jit = off\nfasted.threads = 2\nfasted.memory_limit = '400MB'\n");
create_wide_views($node);

my $limit_ms = sanitized() ? 2000 : 100;
my $join = "SELECT count(*) FROM fasted_self_join('%s', 'v', %s, 'id');";

# Where the query is to be when it is cancelled, seen from outside.
my %stages = (
	'reading' => {
		join => sprintf($join, 'endless', 1),
		reached => sub { memory_of($_[0], 'VmRSS') > 100 * 1024 },
	},
	'reading into a temporary file' => {
		settings => "SET fasted.memory_limit = '1MB';",
		join => sprintf($join, 'endless', 1),
		reached => sub { grep { $_ > 50_000_000 } temp_files($node) },
	},
	'computing' => {
		join => sprintf($join, 'wide', 0.5),
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'computing in panels' => {
		settings => "SET fasted.memory_limit = '16MB';",
		join => sprintf($join, 'wide', 0.5),
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'output' => {
		settings => "SET work_mem = '64kB'; SET fasted.scan_node = off;",
		join => sprintf($join, 'many_pairs', "float8 'Infinity'"),
		reached => sub { grep { $_ > 50_000_000 } temp_files($node) },
	},
	'output within work_mem' => {
		settings => "SET work_mem = '2GB'; SET fasted.scan_node = off;",
		join => sprintf($join, 'many_pairs', "float8 'Infinity'"),
		reached => sub { memory_of($_[0], 'VmRSS') > 200 * 1024 },
	},
	'output by the scan node' => {
		join => "SELECT sum(dist) FROM fasted_self_join('many_pairs', 'v', float8 'Infinity', 'id');",
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'counting' => {
		join => sprintf($join, 'many_pairs', "float8 'Infinity'"),
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	},
	'reading a sample' => {
		join => "SELECT * FROM fasted_epsilon('endless', 'v', 1);",
		reached => sub { memory_of($_[0], 'VmRSS') > 100 * 1024 },
	},
	'joining a sample' => {
		join => "SELECT * FROM fasted_epsilon('wide', 'v', 1000, 40000);",
		reached => sub { thread_count($_[0]) > 1 && usleep(100_000) },
	});

# Cancels once; returns how late the session runs another query.
sub cancel_once
{
	my ($session, $stage) = @_;
	$session->{out} = $session->{err} = '';
	$session->send($stage->{settings} // '');
	$session->send("$stage->{join}\n\\echo state :SQLSTATE\n"
		. "SELECT 'back at ' || extract(epoch FROM clock_timestamp()) || ';';\nRESET ALL;");
	wait_until(sub { $stage->{reached}->($session->pid) }, 60)
	  or die "the stage was not reached: $session->{out} $session->{err}";
	# what pg_cancel_backend does, at a moment that we know
	my $threads = thread_count($session->pid) - 1;
	my $watch = watch($session->pid);
	kill 'INT', $session->pid;
	my $back = $session->wait_for(qr/back at ([\d.]+);/);
	my $state = $session->{out} =~ /^state (\w+)/m ? $1 : '';
	return ($state, lateness($watch, threads => $threads || 1, end => $back));
}

for my $name (sort keys %stages)
{
	my $session = FastedTest::Session->new($node);
	my $small = "SELECT count(*) FROM fasted_self_join('small', 'v', 1)";
	$session->query($small);
	my $memory = memory_of($session->pid, 'VmRSS');
	my ($best, $state);
	for my $try (1 .. 3)
	{
		($state, my $ms) = cancel_once($session, $stages{$name});
		$best = $ms if !defined $best || $ms < $best;
		last if $state ne '57014' || $best < $limit_ms;
	}
	is($state, '57014', "$name: the query is cancelled");
	cmp_ok($best, '<', $limit_ms, sprintf("%s: within %d ms (%.0f)", $name, $limit_ms, $best));
	is(thread_count($session->pid), 1, "$name: no thread is left");
	is(scalar temp_files($node), 0, "$name: no temporary file is left");
	is($session->query($small), 99, "$name: the session works on");
  SKIP:
	{
		skip 'a sanitizer keeps memory', 1 if sanitized();
		cmp_ok(memory_of($session->pid, 'VmRSS') - $memory, '<', 30 * 1024,
			"$name: memory is released (kB)");
	}
	$session->quit;
}

$node->stop;
done_testing();
