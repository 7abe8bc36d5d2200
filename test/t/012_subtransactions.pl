# A PL/pgSQL block or a savepoint catches errors and cancellation.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('subtransactions', "fasted.threads = 2\n");
create_wide_views($node);
$node->safe_psql('postgres', <<'END');
CREATE TABLE bad (id int PRIMARY KEY, v real[]);
INSERT INTO bad SELECT g, ARRAY[g] FROM generate_series(1, 5000) g;
INSERT INTO bad VALUES (5001, '{1, 2}');

-- Runs a query; returns the SQLSTATE of its error and a count made after it.
CREATE FUNCTION try(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE state text := 'none';
BEGIN
	BEGIN
		EXECUTE query;
	EXCEPTION WHEN OTHERS OR query_canceled THEN
		state := SQLSTATE;
	END;
	RETURN state || ' ' || (SELECT count(*) FROM fasted_self_join('small', 'v', 1));
END $$;
-- An error while pairs are being fetched by a loop.
CREATE FUNCTION try_loop() RETURNS text LANGUAGE plpgsql AS $$
DECLARE pair record;
BEGIN
	FOR pair IN SELECT * FROM fasted_self_join('small', 'v', 5) LOOP
		PERFORM 1 / (pair.id_a - 50);
	END LOOP;
	RETURN 'no error';
EXCEPTION WHEN division_by_zero THEN
	RETURN 'caught ' || (SELECT count(*) FROM fasted_self_join('small', 'v', 1));
END $$;
END

my $session = FastedTest::Session->new($node);
my $pid = $session->pid;

is($session->query("SELECT try('SELECT * FROM fasted_self_join(''bad'', ''v'', 1)')"),
	'22000 99', 'an error in reading is caught');
is($session->query("SELECT try('SELECT * FROM fasted_self_join(''small'', ''v'', -1)')"),
	'22023 99', 'an error in an argument is caught');
is($session->query('SELECT try_loop()'), 'caught 99', 'an error in a loop over pairs is caught');

# Cancelled in the middle of the computation; the function continues, and the statement waits for a lock.
my $holder = FastedTest::Session->new($node);
$holder->query('SELECT pg_advisory_lock(1)');
$session->send("SELECT 'tried ' || try('SELECT * FROM fasted_self_join(''wide'', ''v'', 0.5, id_column => ''id'')'), pg_advisory_lock(1);");
ok(wait_until(sub { thread_count($pid) > 1 }), 'the join runs in a block');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
ok(wait_until(sub { thread_count($pid) == 1 }, 60), 'the threads end with the block');
$holder->quit;
is($session->wait_for(qr/^tried (.*)\|/m), '57014 99', 'cancellation is caught');

$session->query('BEGIN');
$session->query('SAVEPOINT s');
$session->query("SELECT count(*) FROM fasted_self_join('bad', 'v', 1)");
like($session->{err}, qr/different numbers of dimensions/, 'an error after a savepoint');
$session->query('ROLLBACK TO s');
is($session->query("SELECT count(*) FROM fasted_self_join('small', 'v', 1)"), 99,
	'the transaction continues after ROLLBACK TO');
$session->query("INSERT INTO small VALUES (101, '{101, 7, -1}')");
$session->query('RELEASE s');
is($session->query("SELECT count(*) FROM fasted_self_join('small', 'v', 1)"), 100,
	'the transaction sees the rows of a released subtransaction');
$session->query('COMMIT');

# A cursor of the outer transaction, whose join fails in a subtransaction: its resources are
# released then, although the cursor exists until it is closed.
sub files { return grep { (readlink($_) // '') =~ /pgsql_tmp/ } glob("/proc/$pid/fd/*"); }
my $rss = memory_of($pid, 'VmRSS');
my %large = (
	'a join' => [ "fasted_self_join('wide', 'v', 0.5, id_column => 'id')", sub { thread_count($pid) > 1 } ],
	'neighbors' => [ "fasted_knn_join('wide', 'v', 'wide', 'v', 5, a_id => 'id')", sub { thread_count($pid) > 1 } ],
	'neighbors of groups' => [ "fasted_knn_join('one_group', 'v', 'one_group', 'v', 5, a_id => 'id', partition_by => 'g')", sub { thread_count($pid) > 1 } ],
	'a file' => [ "fasted_self_join('endless', 'v', 0.5, id_column => 'id')", sub { files() > 0 }, "SET LOCAL fasted.memory_limit = '1MB'" ],
	'clusters' => [ "fasted_cluster('wide', 'v', 0.5, 3, id_column => 'id')", sub { thread_count($pid) > 1 } ]);
$node->safe_psql('postgres', 'CREATE VIEW one_group AS SELECT 1 AS g, * FROM wide');
for my $what (sort keys %large)
{
	my ($from, $reached, $setting) = @{ $large{$what} };
	$session->query('BEGIN; ' . ($setting // ''));
	$session->query("DECLARE c CURSOR FOR SELECT * FROM $from");
	$session->query('SAVEPOINT s');
	$session->send('FETCH 1 FROM c;');
	ok(wait_until($reached), "$what: the join runs for a cursor");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$session->query('ROLLBACK TO s');
	is($session->query('SELECT name FROM pg_cursors'), 'c', "$what: the cursor still exists");
	is(thread_count($pid), 1, "$what: its threads have ended");
	ok(wait_until(sub { !files() }, 20), "$what: its files are removed");
  SKIP:
	{
		skip 'a sanitizer keeps memory', 1 if sanitized();
		ok(wait_until(sub { memory_of($pid, 'VmRSS') < $rss + 50 * 1024 }, 20), "$what: its memory is released");
	}
	is($session->query("SELECT count(*) FROM fasted_self_join('small', 'v', 1)"), 100, "$what: the transaction continues");
	$session->query('CLOSE c; COMMIT');
	is($session->query("SELECT count(*) FROM fasted_self_join('small', 'v', 1)"), 100, "$what: the session remains usable");
}
$session->query("BEGIN; DECLARE c CURSOR FOR SELECT dist FROM fasted_self_join('small', 'v', 'Infinity')");
my @rows = ($session->query('FETCH 2000 FROM c'));
$session->query('SAVEPOINT s');
push @rows, $session->query('FETCH 1000 FROM c');
$session->query('SELECT 1 / 0');
$session->query('ROLLBACK TO s');
push @rows, $session->query('FETCH ALL FROM c');
is(scalar(map { split /\n/ } @rows), 5050, 'a cursor that did not fail itself returns all rows');
$session->query('COMMIT');

# Many joins in one transaction, half of which fail, accumulate no resources.
my $memory = memory_of($pid, 'VmRSS');
is($session->query(<<'END'), '300', '300 blocks with an error');
SELECT count(*) FROM generate_series(1, 300) g, LATERAL try(
	format('SELECT * FROM fasted_self_join(''bad'', ''v'', %s)', g)) t WHERE t LIKE '22000 %'
END
is(thread_count($pid), 1, 'no thread remains');
SKIP:
{
	skip 'a sanitizer keeps memory', 1 if sanitized();
	cmp_ok(memory_of($pid, 'VmRSS') - $memory, '<', 20 * 1024, 'memory does not grow (kB)');
}
$session->quit;

$node->stop;
done_testing();
