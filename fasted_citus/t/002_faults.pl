# If a query ends early, its work ends on all workers.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../test/t";
use CitusCluster;
use FastedTest;
use Test::More;
use Time::HiRes qw(time usleep);

my ($node, @workers) = new_cluster('faults');

# At least half a minute of work: a slow kernel, no pruning, one thread.
$node->safe_psql('postgres', <<'END');
CREATE TABLE items (id int PRIMARY KEY, v real[]);
SELECT create_distributed_table('items', 'id');
INSERT INTO items SELECT i, (SELECT array_agg((hashint4(i * 64 + k) & 255)::real) FROM generate_series(1, 64) k)
	FROM generate_series(1, 120000) i;
CREATE TABLE few (id int PRIMARY KEY, v real[]);
SELECT create_distributed_table('few', 'id');
INSERT INTO few SELECT i, ARRAY[i] FROM generate_series(1, 100) i;
END
my $slow = "SET fasted.cpu_kernel = portable; SET fasted.filter = fp16; SET fasted.prune = off; SET fasted.threads = 1; SELECT count(*) FROM fasted_self_join('items', 'v', 1)";
my $quick = "SELECT count(*) FROM fasted_self_join('few', 'v', 1)";

sub joining
{
	my ($worker) = @_;
	return $worker->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_fasted_progress WHERE phase = 'joining'") eq '1';
}

sub none_left
{
	my ($name, $begin, @where) = @_;
	my $gone = wait_until(sub { !grep { slices_at($_) ne '' } @where }, 20);
	my $seconds = time - $begin;
	ok($gone, sprintf('%s: no query remains after %.1f s', $name, $seconds));
}

# Starts a session and waits until its join runs on all workers.
sub busy
{
	my ($sql) = @_;
	my $session = FastedTest::Session->new($node);
	$session->send("$sql;\n\\echo done");
	ok(wait_until(sub { !grep { !joining($_) } @workers }), 'the join runs on all workers') or diag($session->{err});
	return $session;
}

sub ended
{
	my ($name, $session, $error) = @_;
	$session->wait_for(qr/(done)/);
	wait_until(sub { $session->{run}->pump_nb; $session->{err} =~ /ERROR/ }, 5);
	like($session->{err}, $error, $name);
}

# --- cancelled

my $session = busy($slow);
my $begin = time;
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->pid . ')');
ended('cancelled', $session, qr/canceling statement due to user request/);
none_left('cancelled', $begin, @workers);

$begin = time;
$session->send("SET statement_timeout = '2s';\n$slow;\n\\echo once more done");
$session->wait_for(qr/(once more done)/);
wait_until(sub { $session->{run}->pump_nb; $session->{err} =~ /timeout/ }, 5);
like($session->{err}, qr/statement timeout/, 'statement_timeout');
none_left('a timeout', $begin, @workers);

# while rows are read: no worker has a row to send yet
$session = FastedTest::Session->new($node);
$session->send("SET fasted.cpu_kernel = portable;\n$slow;\n\\echo done");
ok(wait_until(sub { grep { slices_at($_) ne '' } @workers }), 'workers read rows');
$begin = time;
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->pid . ')');
ended('cancelled while rows are read', $session, qr/canceling statement due to user request/);
none_left('cancelled while rows are read', $begin, @workers);

# --- the session ends

$session = busy($slow);
$begin = time;
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $session->pid . ')');
none_left('terminated', $begin, @workers);

# --- LIMIT

is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT FROM fasted_self_join('items', 'v', 'Infinity') LIMIT 10) x"),
	10, 'LIMIT');
none_left('LIMIT', time, @workers);

# --- a worker's query is cancelled, and its backend is killed

$session = busy($slow);
$begin = time;
$workers[1]->safe_psql('postgres', 'SELECT pg_cancel_backend(' . slices_at($workers[1]) . ')');
ended('cancelled on a worker', $session, qr/canceling statement due to user request.*Citus worker "127\.0\.0\.1/s);
none_left('cancelled on a worker', $begin, @workers);

$session = busy($slow);
$begin = time;
kill 'KILL', slices_at($workers[1]);
ended('a worker was killed', $session, qr/lost connection to Citus worker|terminating connection/);
cmp_ok(time - $begin, '<', 20, 'the failure was noticed long before the end of the join');
ok(wait_until(sub { $workers[1]->psql('postgres', 'SELECT 1') == 0 }), 'the worker is available again');
none_left('a worker was killed', $begin, @workers);
ok(wait_until(sub { ($node->psql('postgres', $quick))[1] eq '99' }), 'the next join works');

# --- a worker is shut down

$session = busy($slow);
$begin = time;
$workers[2]->stop('immediate');
ended('a worker was stopped', $session, qr/lost connection to Citus worker|terminating connection/);
none_left('a worker was stopped', $begin, @workers[0, 1]);
my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$quick");
like($err, qr/08001.*could not connect to Citus worker "127\.0\.0\.1:\d+".*HINT.*fasted_citus\.distribute = off/s, 'a worker is down');
none_left('a worker is down', time, @workers[0, 1]);
start_node($workers[2]);
ok(wait_until(sub { ($node->psql('postgres', $quick))[1] eq '99' }), 'the worker is available again');

done_testing();
