# Damaged pages of an index: queries and inserts may fail with an error of their own or of PostgreSQL's storage,
# and never crash.  After a crash of the server, the index matches its table.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('damage', "autovacuum = off\nfsync = off\n");
random_seed();

$node->safe_psql('postgres', <<'END');
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS fasted;
CREATE TABLE items (id serial PRIMARY KEY, tenant int, v real[]);
CREATE PROCEDURE add_rows(n int) LANGUAGE sql AS $$
	INSERT INTO items (tenant, v)
	SELECT i % 5, array_agg(sin(i * k) + random() * 0.1) FROM generate_series(1, n) i, generate_series(1, 150) k GROUP BY i
$$;
CALL add_rows(1500);
INSERT INTO items (tenant) VALUES (1), (NULL);
CREATE INDEX items_index ON items USING fasted (v, tenant);
END

# a crash, after changes that are committed and some that are not
$node->safe_psql('postgres', 'CHECKPOINT; CALL add_rows(700); DELETE FROM items WHERE id % 3 = 0');
$node->safe_psql('postgres', 'VACUUM items; CALL add_rows(100)');
$node->safe_psql('postgres', 'BEGIN; CALL add_rows(300); ROLLBACK');
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', "SELECT fasted_index_check('items_index') = count(*) FROM items"), 't',
	'the index matches its table after a crash');

# Each statement, in a session of its own, with the damaged index.
my @statements = (
	"SELECT id FROM items ORDER BY v <-> (SELECT v FROM items WHERE id = 5) LIMIT 20",
	"SELECT id FROM items WHERE v <-> (SELECT v FROM items WHERE id = 5) < 2 AND tenant = 2",
	"SELECT id FROM items ORDER BY v <-> (SELECT v FROM items WHERE id = 5)",
	"SELECT fasted_index_check('items_index')",
	"INSERT INTO items (tenant, v) SELECT tenant, v FROM items WHERE id < 10",
	"DELETE FROM items WHERE id % 7 = 0", "VACUUM items");
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', "CHECKPOINT; SELECT pg_relation_filepath('items_index')");
my $saved = $node->basedir . '/saved';
$node->stop;
system('cp', '-a', $node->data_dir, $saved) == 0 or die;
my $size = -s $file;
my $others = '';
for my $case (1 .. 12)
{
	open(my $pages, '+<:raw', $file) or die $!;
	for (1 .. (1, 1, 20, 200)[rand 4])
	{
		my $page = rand() < 0.3 ? int(rand 2) : int(rand($size / 8192));
		seek($pages, $page * 8192 + int(rand() < 0.5 ? rand 8192 : 20 + rand 80), 0);
		print $pages chr((0, 255, int(rand 256))[rand 3]);
	}
	close $pages;
	truncate($file, 8192 * int(rand($size / 8192))) if $case % 6 == 0;
	$node->start;
	for my $statement (@statements)
	{
		my $error;
		$node->psql('postgres', "\\set VERBOSITY sqlstate\nSET enable_seqscan = off; SET ignore_checksum_failure = on;\n$statement",
			stderr => \$error);
		# errors of the index and of its pages; XX000: of the executor, "index returned tuples in wrong order",
		# to which damaged codes lead
		$others .= "case $case: $statement: $error\n"
			if $error =~ /ERROR|FATAL|connection/ && $error !~ /ERROR:  (?:XX001|XX002)/
			&& !($error =~ /ERROR:  XX000/ && $statement =~ /ORDER BY/);
	}
	$node->stop;
	system('rm', '-rf', $node->data_dir) == 0 or die;
	system('cp', '-a', $saved, $node->data_dir) == 0 or die;
}
is($others, '', 'damaged pages lead to errors that say so');
done_testing();
