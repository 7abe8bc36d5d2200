# Damaged out-of-line vectors: entries of the TOAST table's index that lead to other chunks.  Each way to
# read vectors raises PostgreSQL's own error, XX001.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('damaged');
$node->safe_psql('postgres', <<'END');
CREATE TABLE items (id int PRIMARY KEY, v real[]);
ALTER TABLE items ALTER v SET STORAGE external;
INSERT INTO items SELECT g, (SELECT array_agg(g + k) FROM generate_series(1, 700) AS k) FROM generate_series(1, 60) AS g;
ANALYZE items;
END
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', <<'END');
SELECT pg_relation_filepath(indexrelid) FROM pg_index JOIN pg_class AS c ON c.reltoastrelid = indrelid WHERE c.relname = 'items'
END

my %ways = (
	'in the session' => "SELECT count(*) FROM fasted_self_join('items', 'v', 0)",
	'by workers' => "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
		SELECT count(*) FROM fasted_self_join('items', 'v', 0)",
	'by the join node' => 'SELECT count(*) FROM items AS a JOIN items AS b ON a.id < b.id AND fasted_within(a.v, b.v, 0)',
	'in a window' => 'SELECT count(c) FROM (SELECT fasted_dbscan(v, 0) OVER () AS c FROM items) AS s');

# Each index entry is a line pointer, whose lower 15 bits are the place of a tuple: the TID of a chunk, and
# (chunk_id, chunk_seq).  Each value has two chunks, so that entries 2k and 2k + 1 belong to the k-th value.
# The entry "to" leads to the chunk of the entry "from", or is marked as dead if that is undefined.
sub damage
{
	my ($name, $from, $to) = @_;
	$node->stop;
	open my $fh, '+<:raw', $file or die "$file: $!";
	read $fh, my $intact, 2 * 8192;
	my $pointer = sub { return unpack('V', substr($intact, 8192 + 24 + 4 * $_[0], 4)) };
	my $place = sub { return 8192 + ($pointer->($_[0]) & 0x7fff) };
	my $damaged = $intact;
	if (defined $from) { substr($damaged, $place->($to), 6) = substr($intact, $place->($from), 6); }
	else { substr($damaged, 8192 + 24 + 4 * $to, 4) = pack('V', $pointer->($to) | 3 << 15); }
	seek $fh, 0, 0;
	syswrite $fh, $damaged;
	$node->start;
	my (undef, undef, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT sum(length(v::text)) FROM items");
	like($err, qr/ERROR:  XX001: /, "$name: the error of PostgreSQL");
	my ($error) = $err =~ /(ERROR:.*)/;
	for my $way (sort keys %ways)
	{
		(undef, undef, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$ways{$way}");
		like($err, qr/\Q$error\E/, "$name, $way");
	}
	$node->stop;
	sysseek $fh, 0, 0;
	syswrite $fh, $intact;
	$node->start;
	is($node->safe_psql('postgres', $ways{'in the session'}), '0', 'undamaged again');
	return;
}

damage('a chunk of another value', 20, 31);
damage('a chunk that is repeated', 40, 41);
damage('a missing chunk', undef, $_) for 50, 119;
$node->stop;
done_testing();
