# Rows that are inserted after an index was built stand beside similar ones, and take the places of deleted rows,
# also while sessions insert, delete and vacuum concurrently.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('places', "autovacuum = off\nfsync = off\nmax_parallel_maintenance_workers = 0\nmax_parallel_workers_per_gather = 0\n");
$node->safe_psql('postgres', <<'END');
CREATE TABLE items (id serial PRIMARY KEY, v real[]);
CREATE PROCEDURE add_rows(n int) LANGUAGE sql AS $$
	INSERT INTO items (v) SELECT CASE WHEN i % 500 > 0 THEN ARRAY(SELECT (random() - 0.5)::real FROM generate_series(1, 20) WHERE i > 0) END
	FROM generate_series(1, n) i
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
$node->stop;
done_testing();
