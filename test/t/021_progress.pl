# The progress of a join: pg_stat_fasted_progress.
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
my $endless = "SELECT count(*) FROM fasted_self_join('endless', 'v', 0.5, id_column => 'id');";
my $wide = "SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, id_column => 'id');";

sub look { return $node->safe_psql($_[1] // 'postgres', $_[0]); }
sub number { return look("SELECT coalesce(max($_[0]), 0) FROM $view") }

is(number('pid'), 0, 'no row without a join');

# --- reading

my $session = FastedTest::Session->new($node, user => 'worker');
my $pid = $session->pid;
$session->send("SET fasted.memory_limit = '16MB';");
$session->send($endless);
ok(wait_until(sub { look("SELECT pid, datname, usename, relation, phase, units_total, pairs FROM $view WHERE rows_read > 1000") eq
	"$pid|postgres|worker|endless|reading|0|0" }), 'the view shows the join and its phase');
is(look("SELECT relid = 'endless'::regclass, rows_expected > 0 FROM $view"), 't|t', 'the view shows the relation and the expected number of rows');
my $before = number('rows_read');
ok(wait_until(sub { number('rows_read') > $before }), 'the number of rows grows');

# which roles see it
sub seen_by
{
	my ($role, $database) = @_;
	return $node->safe_psql($database // 'postgres', "SELECT count(*) FROM $view", extra_params => [ '-U', $role ]);
}
is(seen_by('worker'), 1, 'shown to the same role');
is(seen_by('other'), 0, 'hidden from another role');
is(seen_by('monitor'), 1, 'shown to pg_read_all_stats');
is(look("SELECT datname, relation IS NULL, relid > 0 FROM $view", 'elsewhere'), 'postgres|t|t',
	'another database shows no relation name');
for my $column ('VACUUM', 'ANALYZE', 'CLUSTER', 'CREATE INDEX', 'BASEBACKUP', 'COPY')
{
	is(look("SELECT count(*) FROM pg_stat_get_progress_info('$column')"), 0, "pg_stat_get_progress_info shows nothing for $column");
}

$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('SELECT');
is(number('pid'), 0, 'the row disappears after an error');

# --- joining

$session->send("RESET fasted.memory_limit; SET fasted.cpu_kernel = portable; SET fasted.prune = off;");
$session->send($wide);
ok(wait_until(sub { look("SELECT rows_read, units_done < units_total FROM $view WHERE phase = 'joining' AND units_done > 0") eq '40000|t' }),
	'units of work are completed, fewer than in total');
$before = number('units_done');
ok(wait_until(sub { number('units_done') > $before }), 'the number of completed units grows');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('SELECT');
is(number('pid'), 0, 'the row disappears');

# --- a join on a distance has no single relation

$session->send("SELECT count(*) FROM wide a JOIN wide b ON a.id < b.id AND fasted_within(a.v, b.v, 0.5);");
ok(wait_until(sub { look("SELECT relid IS NULL, relation IS NULL, rows_read FROM $view WHERE phase = 'joining' AND units_done > 0") eq 't|t|80000' }),
	'a join on a distance: no relation, and the rows of both sides');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('SELECT');

# --- two concurrent joins, errors between joins, COPY

$node->safe_psql('postgres', 'GRANT SELECT ON small, many_pairs TO worker');
is($session->query("SELECT count(*) FROM fasted_self_join('small', 'v', 1)"), 99, 'a short join');
is(number('pid'), 0, 'the row disappears after a short join');
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
is(number('pid'), 0, 'no row remains after several joins');

# COPY occupies the backend's progress entry.
$session->send('COPY (' . substr($wide, 0, -1) . ') TO STDOUT;');
ok(wait_until(sub { thread_count($pid) > 1 }), 'a join within COPY');
sleep 1;
is(number('pid'), 0, 'a join within COPY is not in our view');
is(look("SELECT command, type FROM pg_stat_progress_copy WHERE pid = $pid"), 'COPY TO|PIPE', 'the entry in the view of COPY is unchanged');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->query('SELECT');

$session->quit;

$session = FastedTest::Session->new($node);
$session->query('SET track_activities = off');
$session->send($wide);
ok(wait_until(sub { thread_count($session->pid) > 1 }), 'track_activities is off: the join runs');
sleep 1;
is(number('pid'), 0, 'track_activities is off: no row');
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->pid . ')');
$session->query('SELECT');
$session->quit;

$node->stop;
done_testing();
