# A backend is killed by SIGKILL in the middle of a join, and the server recovers.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('crash', "fasted.threads = 2\nrestart_after_crash = on\n");
create_wide_views($node);

my $victim = FastedTest::Session->new($node);
$victim->send("SET fasted.memory_limit = '16MB';");
$victim->send("SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, id_column => 'id');");
ok(wait_until(sub { thread_count($victim->pid) > 1 && temp_files($node) }), 'the join runs, and has a temporary file');
kill 'KILL', $victim->pid;
ok(wait_until(sub { !is_alive($victim->pid) }), 'the backend has ended');
$victim->quit;

ok($node->poll_query_until('postgres', 'SELECT true'), 'the server recovers');
is($node->safe_psql('postgres', "SELECT count(*) FROM fasted_self_join('small', 'v', 1)"),
	99, 'a join gives the right answer');
is(scalar temp_files($node), 0, 'recovery removed the temporary file');

$node->stop;
done_testing();
