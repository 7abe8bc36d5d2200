# Rows that are inserted after an index was built stand beside similar ones, and take the places of deleted rows,
# also while sessions insert, delete and vacuum concurrently.  A standby has the same index.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('places', "fsync = off\nwal_level = replica\nmax_wal_senders = 2\nwal_keep_size = '1GB'\nwal_consistency_checking = 'generic'\nmax_parallel_maintenance_workers = 0\nmax_parallel_workers_per_gather = 0\n");
$node->safe_psql('postgres', <<'END');
CREATE TABLE items (id serial PRIMARY KEY, v real[]);
CREATE PROCEDURE add_rows(n int) LANGUAGE sql AS $$
	INSERT INTO items (v) SELECT CASE WHEN i % 500 > 0 THEN ARRAY(SELECT (hashint8extended(i * 20 + k, last_value) % 1000000 / 2e6)::real FROM generate_series(1, 20) k) END
	FROM items_id_seq, generate_series(1, n) i
$$;
CALL add_rows(300);
CREATE INDEX items_index ON items USING fasted (v);
END

sub matches
{
	my ($when) = @_;
	is($node->safe_psql('postgres', "SELECT fasted_index_check('items_index') = count(*) FROM items"), 't', "$when, the index matches its table");
	for my $query ('SELECT id FROM items ORDER BY v <-> (SELECT v FROM items WHERE v IS NOT NULL ORDER BY id DESC LIMIT 1), id LIMIT 50',
		'SELECT id FROM items WHERE v <-> (SELECT v FROM items WHERE v IS NOT NULL ORDER BY id DESC LIMIT 1) < 0.8 ORDER BY id')
	{
		is($node->safe_psql('postgres', "SET enable_seqscan = off; $query"),
			$node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; $query"), "$when, a scan returns the rows of a sequential scan");
	}
	return;
}

sub pages { return $node->safe_psql('postgres', "SELECT pg_relation_size('items_index') / 8192"); }

$node->safe_psql('postgres', 'CALL add_rows(30000)');
matches('after inserts');
my $full = pages();
$node->safe_psql('postgres', 'REINDEX INDEX items_index');
cmp_ok($full, '<', 1.3 * pages(), 'few places are free between the inserted rows');

# free places among rows, and chunks that have none, are used again
for my $some ('id % 3 = 1', 'id < 20000', 'true')
{
	my $before = pages();
	my $n = $node->safe_psql('postgres', "WITH gone AS (DELETE FROM items WHERE $some RETURNING 1) SELECT count(*) FROM gone");
	$node->safe_psql('postgres', 'VACUUM items');
	$node->safe_psql('postgres', "CALL add_rows($n)");
	cmp_ok(pages(), '<', 1.3 * $before, "$n new rows take the places of those where $some");
}
matches('after deletions');

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
start_node($standby);
my @sessions = map { FastedTest::Session->new($node) } 1 .. 6;
for my $s (0 .. $#sessions)
{
	$sessions[$s]->send(join("\n", map { $s == 0 ? 'VACUUM items;' : "CALL add_rows(400); DELETE FROM items WHERE id % 7 = $s AND id % 5 = $_ % 5;" } 1 .. 10)
		  . "\n\\echo over");
}
for (@sessions)
{
	$_->wait_for(qr/^over$/m);
	is($_->{err}, '', 'a session reports no error');
	$_->quit;
}
matches('after concurrent changes');
$node->stop('immediate');
$node->start;
matches('after a crash');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT fasted_index_check('items_index') = count(*) FROM items"), 't', 'on a standby, the index matches its table');
$standby->stop;

# chunks of rows that came before the first vector do not make lists
sub size { return $node->safe_psql('postgres', "$_[0]; SELECT pg_relation_size('later_index') / 8192"); }
my $nulls = size('CREATE TABLE later (v real[]) WITH (fillfactor = 50); CREATE INDEX later_index ON later USING fasted (v); INSERT INTO later SELECT NULL FROM generate_series(1, 40000)');
is(size('SET seed = 0.5; INSERT INTO later SELECT array_agg(random() - 0.5) FROM generate_series(1, 300) i, generate_series(1, 16) GROUP BY i'), $nulls + 3,
	'the basis, the boxes and a chunk hold the first vectors');
like($node->safe_psql('postgres', "LOAD 'fasted'; SET enable_seqscan = off; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT FROM later WHERE v <-> array_fill(0::real, ARRAY[16]) < 1"),
	qr/skipped chunks=132/, 'a scan within a ball skips chunks without vectors');

# rows without a vector take their places again
is(size('DELETE FROM later WHERE v IS NULL; VACUUM (TRUNCATE off) later; INSERT INTO later SELECT NULL FROM generate_series(1, 39000)'), $nulls + 3,
	'rows without a vector take the places of those before the first vector');
is($node->safe_psql('postgres', "SELECT fasted_index_check('later_index') = count(*) FROM later"), 't', 'the index matches its table');

# a snapshot that sees older versions of rows than the index has
$node->safe_psql('postgres', 'DROP INDEX later_index');
my $older = FastedTest::Session->new($node);
$older->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM later');
$node->safe_psql('postgres', 'UPDATE later SET v[1] = 1 WHERE v IS NOT NULL; CREATE INDEX later_index ON later USING fasted (v)');
$older->query("SELECT fasted_index_check('later_index')");
like($older->{err}, qr/newer than the snapshot/, 'a check needs a newer snapshot');
$older->quit;

# pages that are used often remain in memory
SKIP:
{
	skip 'pg_buffercache is not installed', 1
	  if $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_buffercache'") == 0;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_buffercache; INSERT INTO later SELECT NULL FROM generate_series(1, 100)');
	is($node->safe_psql('postgres', "SELECT usagecount FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('later_index') AND relblocknumber = 0"),
		'5', 'inserts raise the usage count of the metapage');
}
$node->stop;
done_testing();
