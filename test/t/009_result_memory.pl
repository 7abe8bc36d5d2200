# A large result does not fill memory.  The scan node streams it; the function itself
# writes it to disk beyond work_mem.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('result_memory', "log_temp_files = 0\nfasted.threads = 2\n");
$node->safe_psql('postgres', <<'END');
CREATE VIEW t AS SELECT g AS id, ARRAY[g, -g]::real[] AS v FROM generate_series(1, 4500) g;
END

my $session = FastedTest::Session->new($node);
$session->query("SELECT count(*) FROM fasted_self_join('t', 'v', 1.5, id_column => 'id')");
my $before = memory_of($session->pid, 'VmHWM');
my $offset = log_size($node);
is( $session->query(
		"SET work_mem = '1MB'; "
		  . "SELECT count(*), sum(id_b - id_a) FROM fasted_self_join('t', 'v', 'Infinity', id_column => 'id')"),
	4500 * 4499 / 2 . '|' . 4499 * 4500 * 4501 / 6, 'ten million pairs through the scan node');
unlike(log_since($node, $offset), qr/temporary file/, 'the scan node needs no temporary file');
is( $session->query(
		"SET fasted.scan_node = off; "
		  . "SELECT count(*) FROM fasted_self_join('t', 'v', 'Infinity', id_column => 'id')"),
	4500 * 4499 / 2, 'ten million pairs through the function');
my ($size) = log_since($node, $offset) =~ /temporary file: path .*, size (\d+)/;
cmp_ok($size, '>', 100_000_000, 'the function writes a temporary file (bytes)');
SKIP:
{
	skip 'a sanitizer keeps memory', 1 if sanitized();
	cmp_ok(memory_of($session->pid, 'VmHWM') - $before, '<', 16 * 1024,
		'the scan node and the function need little memory (kB)');
}
is(scalar temp_files($node), 0, 'the temporary file is removed');
$session->quit;

$node->stop;
done_testing();
