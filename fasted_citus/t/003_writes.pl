# Rows change during a join: the result is right, or there is a serialization failure.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../test/t";
use CitusCluster;
use FastedTest;
use Test::More;

my ($node, @workers) = new_cluster('writes');

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

sql(<<'END');
CREATE TABLE items (id int PRIMARY KEY, v real[]);
SELECT create_distributed_table('items', 'id');
INSERT INTO items SELECT i, ARRAY[i % 100 * 10] FROM generate_series(1, 2000) i;
END
my $count = "SELECT count(*) FROM fasted_self_join('items', 'v', 1)";
my $pairs = 100 * 20 * 19 / 2;
is(sql($count), $pairs, 'without concurrent writes');

# --- within the transaction

is(sql("BEGIN; INSERT INTO items VALUES (2001, '{-50}'), (2002, '{-50}');
	$count; ROLLBACK"), $pairs + 1, "a transaction's own rows are joined");
is(sql("BEGIN; CREATE TABLE other (id int); SELECT create_distributed_table('other', 'id'); INSERT INTO other VALUES (1), (2);
	$count; ROLLBACK") =~ s/\s//gr, $pairs, 'a transaction that wrote to another table');
is(sql("BEGIN ISOLATION LEVEL REPEATABLE READ; $count; $count; COMMIT"), "$pairs\n$pairs", 'repeatable read');

# --- a worker reads later than the session

$workers[2]->safe_psql('postgres', <<'END');
SET citus.enable_ddl_propagation = off;
ALTER FUNCTION fasted_citus.join_slice(regclass, name, double precision, name, regtype, text, boolean, text, integer, integer, boolean)
	RENAME TO prompt_slice;
CREATE FUNCTION fasted_citus.join_slice(r regclass, c name, e float8, i name, k regtype, m text, z bool, o text, s int, n int, a bool)
RETURNS SETOF bytea LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM pg_sleep(4);
	RETURN QUERY SELECT fasted_citus.prompt_slice(r, c, e, i, k, m, z, o, s, n, a);
END $$;
END
is(sql($count), $pairs, 'the session waits for a late worker');

sub late
{
	my ($name, $change, $undo) = @_;
	my $session = FastedTest::Session->new($node);
	$session->send("\\set VERBOSITY verbose\n$count;\n\\echo done");
	ok(wait_until(sub { slices_at($workers[2]) ne '' }), 'the late worker has received its request');
	# the session has read its rows when it waits for the workers
	ok(wait_until(sub { sql("SELECT wait_event FROM pg_stat_activity WHERE pid = " . $session->pid) eq 'Extension' }, 3),
		'the session has read its rows');
	sleep 1;
	sql($change);
	$session->wait_for(qr/(done)/);
	wait_until(sub { $session->{run}->pump_nb; $session->{err} =~ /HINT/ }, 5);
	like($session->{err}, qr/40001: could not join "items".*concurrent writes.*DETAIL:.*contents or their order differ.*HINT:.*Try again/s, $name);
	sql($undo);
}

late('a row is inserted', "INSERT INTO items VALUES (2001, '{-50}')", 'DELETE FROM items WHERE id = 2001');
late('a vector changes', "UPDATE items SET v = '{-50}' WHERE id = 7", "UPDATE items SET v = '{70}' WHERE id = 7");
my $swap = 'UPDATE items SET v = ARRAY[150 - v[1]]::real[] WHERE id IN (7, 8)';
late('two rows swap', $swap, $swap);
$workers[2]->safe_psql('postgres', <<'END');
SET citus.enable_ddl_propagation = off;
DROP FUNCTION fasted_citus.join_slice(regclass, name, double precision, name, regtype, text, boolean, text, integer, integer, boolean);
ALTER FUNCTION fasted_citus.prompt_slice(regclass, name, double precision, name, regtype, text, boolean, text, integer, integer, boolean)
	RENAME TO join_slice;
END
is(sql($count), $pairs, 'without the delay the result is the same as before');

# --- continuous writes: a row moves between clusters of equal shape, so that all states
# of the table have the same number of pairs

sql("DELETE FROM items WHERE id = 2000; INSERT INTO items VALUES (2000, '{0}')");
my $state = sql($count);
sql(<<'END');
CREATE PROCEDURE write(rounds int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..rounds LOOP
		UPDATE items SET v = ARRAY[(i * 37) % 99 * 10 + 10] WHERE id = 2000;
		COMMIT;
		PERFORM pg_sleep(0.15);
	END LOOP;
END $$;
END
sql("UPDATE items SET v = '{10}' WHERE id = 2000");
$state = sql($count);
my $writer = FastedTest::Session->new($node);
$writer->send("CALL write(1000);");
my %seen;
for (1 .. 40)
{
	my ($status, $out, $err) = $node->psql('postgres', $count);
	$seen{ $status == 0 ? $out : $err =~ /concurrent writes/ ? 'failure' : $err }++;
}
my $moves = join(', ', map { "$_: $seen{$_}" } sort keys %seen);
diag("concurrent writes: $moves");
is(join(' ', grep { $_ ne 'failure' && $_ ne $state } keys %seen), '', 'each result is right or a serialization failure');
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $writer->pid . ')');

done_testing();
