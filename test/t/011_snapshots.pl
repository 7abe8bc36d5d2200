# A join sees the rows in the snapshot of its query.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('snapshots');
create_small_table($node);
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION join_stable() RETURNS bigint LANGUAGE plpgsql STABLE
	AS $$ BEGIN RETURN (SELECT count(*) FROM fasted_self_join('small', 'v', 1)); END $$;
CREATE FUNCTION join_volatile() RETURNS bigint LANGUAGE plpgsql VOLATILE
	AS $$ BEGIN RETURN (SELECT count(*) FROM fasted_self_join('small', 'v', 1)); END $$;
CREATE FUNCTION insert_and_join(i int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO small VALUES (i, ARRAY[i, 7, -1]);
	RETURN join_volatile();
END $$;
END

my $count = "SELECT count(*) FROM fasted_self_join('small', 'v', 1)";
my $one = FastedTest::Session->new($node);
my $two = FastedTest::Session->new($node);

$one->query('BEGIN');
$one->query("INSERT INTO small VALUES (101, '{101, 7, -1}')");
is($one->query($count), 100, "rows inserted by the transaction itself are seen");
is($two->query($count), 99, "rows of another transaction are not seen before it commits");
$one->query('DELETE FROM small WHERE id = 50');
is($one->query($count), 98, 'rows deleted by the transaction itself are not seen');
$one->query("UPDATE small SET v = '{1000, 7, -1}' WHERE id = 101");
is($one->query($count), 97, 'updates by the transaction itself are seen');
$one->query('ROLLBACK');
is($one->query($count), 99, 'all rows are seen after a rollback');

$one->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($one->query($count), 99, 'REPEATABLE READ: initial result');
$two->query("INSERT INTO small VALUES (101, '{101, 7, -1}')");
is($two->query($count), 100, "another session sees its own committed row");
is($one->query($count), 99, 'REPEATABLE READ: unchanged result');
is($one->query('SELECT join_volatile()'), 99, 'REPEATABLE READ: unchanged result in a function');
$one->query('COMMIT');
is($one->query($count), 100, 'READ COMMITTED: the new row is seen');

is($one->query("WITH i AS (INSERT INTO small VALUES (102, '{102, 7, -1}') RETURNING id) "
		. "SELECT (SELECT count(*) FROM i) || ' ' || count(*) FROM fasted_self_join('small', 'v', 1)"),
	'1 100', 'a row that the same query inserts is not seen');
is($one->query($count), 101, 'the next query sees the row');
is($one->query('SELECT insert_and_join(103)'), 102, 'a volatile function sees its own changes');
is($one->query("WITH c AS MATERIALIZED (SELECT insert_and_join(104) AS after) "
		. 'SELECT after, join_stable() FROM c'),
	'103|102', 'a stable function keeps to the snapshot of its query');

# A cursor keeps its snapshot.
$one->query('BEGIN');
$one->query("DECLARE c CURSOR FOR $count");
$one->query("DECLARE h CURSOR WITH HOLD FOR SELECT * FROM fasted_self_join('small', 'v', 1) ORDER BY id_a");
$one->query('DELETE FROM small WHERE id = 1');
is($one->query('FETCH c'), 103, 'a cursor has the snapshot of its DECLARE');
is($one->query('FETCH 2 FROM h'), "1|2|1\n2|3|1", 'a cursor WITH HOLD returns its first rows');
$one->query('COMMIT');
is($one->query('FETCH 1 FROM h'), '3|4|1', 'a cursor WITH HOLD continues after the transaction');
is($one->query('MOVE ALL FROM h; CLOSE h; SELECT 1'), '1', 'a cursor WITH HOLD reaches its end');

$one->query("PREPARE p (float8) AS SELECT count(*) FROM fasted_self_join('small', 'v', \$1)");
is($one->query("EXECUTE p ($_)"), { 0 => 0, 1 => 102, 2 => 203 }->{$_}, "prepared, eps $_")
  for (0, 1, 2) x 3;

$_->quit for $one, $two;
$node->stop;
done_testing();
