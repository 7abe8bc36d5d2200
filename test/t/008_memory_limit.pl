# Tables larger than fasted.memory_limit are joined in panels, with a temporary file.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('memory_limit', "log_temp_files = 0\n");
# 20000 x 64 in 200 clusters: 5 MB
$node->safe_psql('postgres', <<'END');
SELECT setseed(0.5);
CREATE TABLE t (id int PRIMARY KEY, v real[]);
INSERT INTO t
	SELECT g, ARRAY(
		SELECT (hashint4(g % 200 * 64 + k) % 100 + (random() < 0.3)::int)::real
		FROM generate_series(1, 64) k)
	FROM generate_series(1, 20000) g;
END

my $digest = <<'END';
SELECT count(*), md5(string_agg(id_a || ' ' || id_b || ' ' || dist, ',' ORDER BY id_a, id_b))
FROM fasted_self_join('t', 'v', 5)
END

sub run_with
{
	my ($limit) = @_;
	my ($status, $out, $err) = $node->psql('postgres',
		"SET work_mem = '512MB'; SET fasted.memory_limit = '$limit'; SET client_min_messages = debug1; $digest");
	my ($panels) = $err =~ /panels (\d+)/;
	return ($out, $panels);
}

my ($expected, $panels) = run_with('1GB');
like($expected, qr/^[1-9]\d{4,}\|/, 'many pairs');
is($panels, 1, '1GB: all rows are in memory');
unlike(log_since($node, 0), qr/temporary file: path/, '1GB: no temporary file');

for my $limit ('8MB', '1MB')
{
	my $offset = log_size($node);
	my ($result, $panels) = run_with($limit);
	is($result, $expected, "$limit: the same rows");
	cmp_ok($panels, '>', 1, "$limit: several panels");
	my ($size) = log_since($node, $offset) =~ /temporary file: path .*, size (\d+)/;
	is($size, 20000 * 64 * 4, "$limit: a temporary file of all vectors");
	is(scalar temp_files($node), 0, "$limit: the temporary file is removed");
}

my ($status, $out, $err) = $node->psql('postgres',
	"\\set VERBOSITY verbose\nSET temp_file_limit = '1MB'; SET fasted.memory_limit = '1MB'; $digest");
like($err, qr/53400: temporary file size exceeds "?temp_file_limit/, 'temp_file_limit is respected');
is(scalar temp_files($node), 0, 'no temporary file remains');

$node->stop;
done_testing();
