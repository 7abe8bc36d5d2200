# Calls in FROM next to rows that are changed or locked: the node is used, and rows are
# evaluated again if necessary (EvalPlanQual).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('groups_changes');
$node->safe_psql('postgres', <<'END');
CREATE TABLE items AS SELECT g AS id, 'word ' || g AS word, 0 AS n, g % 7 AS rank, ARRAY[g % 40, g % 3, 0]::real[] AS v FROM generate_series(1, 600) g;
ALTER TABLE items ADD PRIMARY KEY (id);
ANALYZE;
END

my $kept = "fasted_keep_one('items', 'v', 0.5, 'rank')";
my %statements = (
	'DELETE' => "DELETE FROM items USING $kept AS k WHERE items.id = k.id AND k.kept <> k.id RETURNING items.id, k.kept",
	'DELETE with the row' => "DELETE FROM items USING $kept AS k WHERE items.id = k.id AND k.kept <> k.id RETURNING items.id, k",
	'UPDATE' => "UPDATE items SET n = k.kept FROM $kept AS k WHERE items.id = k.id RETURNING items.id, n, k.kept",
	'UPDATE by neighbors' => "UPDATE items SET n = c.neighbors FROM fasted_neighbors('items', 'v', 1.5) AS c WHERE items.id = c.id AND c.neighbors > 20 RETURNING items.id, n",
	'UPDATE by clusters' => "UPDATE items SET n = c.cluster FROM fasted_cluster('items', 'v', 0.5) AS c WHERE items.id = c.id RETURNING items.id, n",
	'UPDATE by HDBSCAN' => "UPDATE items SET n = h.cluster, word = h.probability || ' ' || h.outlier_score FROM fasted_hdbscan('items', 'v', 5) AS h WHERE items.id = h.id RETURNING items.id, word, n",
	'UPDATE by the row of HDBSCAN' => "UPDATE items SET word = to_jsonb(h)::text FROM fasted_hdbscan('items', 'v', 5) AS h WHERE items.id = h.id RETURNING items.id, word",
	'DELETE by a spanning tree' => "DELETE FROM items USING fasted_spanning_tree('items', 'v') AS s WHERE items.id = s.id_b AND s.dist = 0 RETURNING items.id, s",
	'two calls' => "DELETE FROM items USING $kept AS k, fasted_neighbors('items', 'v', 1.5) AS c WHERE items.id = k.id AND c.id = k.id AND k.kept <> k.id RETURNING items.id, neighbors",
	'UPDATE by the row' => "UPDATE items SET word = to_jsonb(k)::text FROM fasted_cluster('items', 'v', 0.5) AS k WHERE items.id = k.id RETURNING items.id, word",
	'UPDATE by the row, other names' => "UPDATE items SET word = row_to_json(k)::text FROM $kept AS k (number, \"The one\") WHERE items.id = k.number RETURNING items.id, word",
	'SELECT FOR UPDATE of a row' => "SELECT items.id, row_to_json(k)::text FROM items JOIN $kept AS k USING (id) WHERE k IS NOT NULL FOR UPDATE OF items",
	'SELECT FOR UPDATE' => "SELECT items.id, k.kept FROM items JOIN $kept AS k USING (id) WHERE k.kept <> k.id FOR UPDATE OF items",
);
$statements{'MERGE'} = "MERGE INTO items USING $kept AS k ON items.id = k.id WHEN MATCHED AND k.kept <> k.id THEN DELETE WHEN MATCHED THEN UPDATE SET n = k.kept";

sub outcome
{
	my ($set, $statement) = @_;
	my $query = $statement =~ /^MERGE/ ? "$statement; SELECT id, n FROM items ORDER BY id"
		: "WITH changed AS ($statement) SELECT * FROM changed q ORDER BY q::text";
	$query = "SELECT * FROM ($statement) q ORDER BY q::text" if $statement =~ /^SELECT/;
	return $node->safe_psql('postgres', "SET fasted.scan_node = $set; BEGIN; $query; ROLLBACK");
}

for my $name (sort keys %statements)
{
	my $statement = $statements{$name};
	my $expected = outcome('off', $statement);
	cmp_ok(length $expected, '>', 500, "$name: many rows");
	is(outcome('on', $statement), $expected, "$name: the same as by the function");
}

# A statement that waited for another transaction evaluates the row again, with those of the call.
for my $word ("k.kept || '/' || items.n", "to_jsonb(k) || to_jsonb(items.n)")
{
	my %after;

	for my $set ('off', 'on')
	{
		my ($writer, $waiter) = map { FastedTest::Session->new($node) } 1, 2;

		$writer->query('BEGIN; UPDATE items SET n = -1 WHERE id IN (81, 90, 599)');
		$waiter->query("SET fasted.scan_node = $set");
		$waiter->{out} = '';
		$waiter->send("UPDATE items SET word = $word FROM $kept AS k WHERE items.id = k.id AND items.n <= 0 AND k.kept > 5;\n\\echo updated");
		wait_until(sub { $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = " . $waiter->pid) == 1 })
		  or die 'it does not wait';
		$writer->query('COMMIT');
		$waiter->wait_for(qr/^updated$/m);
		$after{$set} = $node->safe_psql('postgres', 'SELECT id, word FROM items ORDER BY id');
		$_->quit for $writer, $waiter;
		$node->safe_psql('postgres', "UPDATE items SET word = 'word ' || id, n = 0");
	}
	is(() = $after{on} =~ m{-1\]?$}mg, 3, "rows changed in the meantime: $word");
	is($after{on}, $after{off}, "an UPDATE that waited, the same as by the function: $word");
}

done_testing();
