# How far a join is: pg_stat_fasted_progress.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('progress', "fasted.threads = 1\n");
create_wide_views($node);
$node->safe_psql('postgres', <<'END');
CREATE ROLE worker LOGIN;
CREATE ROLE other LOGIN;
CREATE ROLE monitor LOGIN IN ROLE pg_read_all_stats;
GRANT SELECT ON wide, endless TO worker;
CREATE DATABASE elsewhere;
END
$node->safe_psql('elsewhere', 'CREATE EXTENSION fasted');

my $view = 'pg_stat_fasted_progress';
my $endless = "SELECT count(*) FROM fasted_self_join('endless', 'v', 0.5, 'id');";
my $wide = "SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, 'id');";

sub look { return $node->safe_psql($_[1] // 'postgres', $_[0]); }
sub number { return look("SELECT coalesce(max($_[0]), 0) FROM $view") }

is(number('pid'), 0, 'no join, no row');

# --- reading

my $session = FastedTest::Session->new($node, user => 'worker');
my $pid = $session->pid;
$session->send("SET fasted.memory_limit = '16MB';");
$session->send($endless);
ok(wait_until(sub { number('rows_read') > 1000 }), 'rows are read');
is(look("SELECT pid, datname, usename, relation, phase, units_total, pairs FROM $view"),
	"$pid|postgres|worker|endless|reading|0|0", 'which join, and in what phase');
is(look("SELECT relid = 'endless'::regclass, rows_expected > 0 FROM $view"), 't|t', 'relation and rows expected');
my $before = number('rows_read');
ok(wait_until(sub { number('rows_read') > $before }), 'the number of rows grows');

# whom it is shown to
sub seen_by
{
	my ($role, $database) = @_;
	return $node->safe_psql($database // 'postgres', "SELECT count(*) FROM $view", extra_params => [ '-U', $role ]);
}
is(seen_by('worker'), 1, 'shown to the same role');
is(seen_by('other'), 0, 'not to another one');
is(seen_by('monitor'), 1, 'but to pg_read_all_stats');
is(look("SELECT datname, relation IS NULL, relid > 0 FROM $view", 'elsewhere'), 'postgres|t|t',
	'seen from another database: without a name');
for my $column ('VACUUM', 'ANALYZE', 'CLUSTER', 'CREATE INDEX', 'BASEBACKUP', 'COPY')
{
	is(look("SELECT count(*) FROM pg_stat_get_progress_info('$column')"), 0, "no progress of $column");
}

$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('SELECT');
is(number('pid'), 0, 'after an error the row is gone');

# --- joining

$session->send("RESET fasted.memory_limit; SET fasted.cpu_kernel = portable; SET fasted.prune = off;");
$session->send($wide);
ok(wait_until(sub { number("CASE WHEN phase = 'joining' THEN units_done END") > 0 }), 'units of work get done');
is(look("SELECT rows_read, units_done < units_total FROM $view"), '40000|t', 'of more');
$before = number('units_done');
ok(wait_until(sub { number('units_done') > $before }), 'more and more');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('SELECT');
is(number('pid'), 0, 'the row is gone');

# --- a join on a distance is of no one relation

$session->send("SELECT count(*) FROM wide a JOIN wide b ON a.id < b.id AND fasted_within(a.v, b.v, 0.5);");
ok(wait_until(sub { number("CASE WHEN phase = 'joining' THEN units_done END") > 0 }), 'a join on a distance');
is(look("SELECT relid IS NULL, relation IS NULL, rows_read FROM $view"), 't|t|79998',
	'has no relation, and the rows of both sides; the last outer row and the first inner row have no partner');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('SELECT');

# --- two joins at once, errors in between, COPY

$node->safe_psql('postgres', 'GRANT SELECT ON small, many_pairs TO worker');
is($session->query("SELECT count(*) FROM fasted_self_join('small', 'v', 1)"), 99, 'a short join');
is(number('pid'), 0, 'leaves no row');
is($session->query(<<'END'), '99|99', 'two joins in one query');
SELECT (SELECT count(*) FROM fasted_self_join('small', 'v', 1)), (SELECT count(*) FROM fasted_self_join('small', 'v', 1))
END
is($session->query(<<'END'), '1|99', 'a join in a subtransaction that fails');
CREATE TEMP TABLE log (n bigint);
DO $$ BEGIN
	BEGIN
		PERFORM 1 / (count(*) - 99) FROM fasted_self_join('small', 'v', 1);
	EXCEPTION WHEN division_by_zero THEN
		INSERT INTO log SELECT count(*) FROM fasted_self_join('small', 'v', 1);
	END;
END $$;
SELECT count(*), sum(n) FROM log
END
is(number('pid'), 0, 'leaves no row');

# COPY has the backend's place for progress.
$session->send('COPY (' . substr($wide, 0, -1) . ') TO STDOUT;');
ok(wait_until(sub { thread_count($pid) > 1 }), 'a join within COPY');
sleep 1;
is(number('pid'), 0, 'is not in our view');
is(look("SELECT command, type FROM pg_stat_progress_copy WHERE pid = $pid"), 'COPY TO|PIPE', 'but in that of COPY, unharmed');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('SELECT');

$session->quit;

$session = FastedTest::Session->new($node);
$session->query('SET track_activities = off');
$session->send($wide);
ok(wait_until(sub { thread_count($session->pid) > 1 }), 'nothing is tracked: the join runs');
sleep 1;
is(number('pid'), 0, 'nothing is tracked: no row');
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->pid . ')');
$session->query('SELECT');
$session->quit;

$node->stop;
done_testing();
