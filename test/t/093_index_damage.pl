# Damaged pages of an index.  If PostgreSQL verifies checksums, each query either reports the damage or has the
# right rows.  If not, queries and changes may fail with an error of their own or of PostgreSQL's storage, and
# never crash.  After a crash of the server, the index matches its table.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('damage', "fsync = off\n");
random_seed();

$node->safe_psql('postgres', <<'END');
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS fasted;
CREATE TABLE items (id serial PRIMARY KEY, tenant int, v real[]);
CREATE PROCEDURE add_rows(n int) LANGUAGE sql AS $$
	INSERT INTO items (tenant, v)
	SELECT i % 5, array_agg(sin(i * k) + hashint8extended(i * 150 + k, last_value) % 1000 / 1e4)
	FROM items_id_seq, generate_series(1, n) i, generate_series(1, 150) k GROUP BY i
$$;
CALL add_rows(1500);
INSERT INTO items (tenant) VALUES (1), (NULL);
CREATE INDEX items_index ON items USING fasted (v, tenant);
INSERT INTO items VALUES (-1, 1, array_fill(1e30::real, ARRAY[150]));
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
my @queries = (
	"SELECT id FROM items ORDER BY v <-> (SELECT v FROM items WHERE id = 5) LIMIT 20",
	"SELECT count(*), sum(id) FROM items WHERE v <-> (SELECT v FROM items WHERE id = 5) < 2 AND tenant = 2",
	"SELECT id, v <-> (SELECT v FROM items WHERE id = 5) FROM items ORDER BY v <-> (SELECT v FROM items WHERE id = 5), id");
my @statements = (@queries,
	"SELECT fasted_index_check('items_index')",
	"INSERT INTO items (tenant, v) SELECT tenant, v FROM items WHERE id < 10",
	"DELETE FROM items WHERE id % 7 = 0", "VACUUM items");
my %due = map { $_ => $node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; $_") } @queries;
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', "CHECKPOINT; SELECT pg_relation_filepath('items_index')");
my $saved = $node->basedir . '/saved';
my $checksums = $node->safe_psql('postgres', 'SHOW data_checksums');
$node->stop;

# the box of a chunk that has a row without a bound gets bounds
my $bytes = PostgreSQL::Test::Utils::slurp_file($file);
my ($boxes) = grep { unpack('x8182 v', substr($bytes, $_ * 8192, 8192)) == 0xFA05 } 0 .. length($bytes) / 8192 - 1;
for my $scale (map { $boxes * 8192 + 24 + 70 * $_ + 68 } 0 .. 115)
{
	substr($bytes, $scale, 2) = pack('v', 0x3f80) if substr($bytes, $scale, 2) eq "\0\0";
}
system('cp', $file, "$file.saved") == 0 or die;
PostgreSQL::Test::Utils::append_to_file("$file.damaged", $bytes);
rename("$file.damaged", $file) or die $!;
$node->start;
my (undef, undef, $error) = $node->psql('postgres', "SET ignore_checksum_failure = on; SELECT fasted_index_check('items_index')");
like($error, qr/has codes, or a box, of another vector/, 'a box that leaves out a row is found');
$node->stop;
rename("$file.saved", $file) or die $!;

PostgreSQL::Test::Utils::system_or_bail('pg_checksums', '--enable', '-D', $node->data_dir) if $checksums eq 'off';
system('cp', '-a', $node->data_dir, $saved) == 0 or die;
my $size = -s $file;
my $others = '';
my $verified = 0;
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
	for my $checked (1, 0)
	{
		for my $statement ($checked ? @queries : @statements)
		{
			my $error;
			my $rows;
			$node->psql('postgres', "\\set VERBOSITY verbose\nSET enable_seqscan = off;" .
				($checked ? '' : "SET ignore_checksum_failure = on;") . "\n$statement", stdout => \$rows, stderr => \$error);
			$verified++ if $checked && $error eq '';
			# errors of the index and of its pages; if damaged codes are read, the bound of a row may be above its distance
			next if $error =~ /ERROR:  XX00[12]/ || ($error !~ /ERROR|FATAL|connection/ && (!$checked || $rows eq $due{$statement}));
			next if !$checked && $statement =~ /ORDER BY/ && $error =~ /ERROR:  XX000: index returned tuples in wrong order/;
			$others .= "case $case, " . ($checked ? '' : 'not ') . "checked: $statement: $error\n";
		}
	}
	$node->stop;
	system('rm', '-rf', $node->data_dir) == 0 or die;
	system('cp', '-a', $saved, $node->data_dir) == 0 or die;
}
is($others, '', 'damaged pages lead to errors that say so');
cmp_ok($verified, '>', 0, "$verified queries did not read the damaged pages");
done_testing();
