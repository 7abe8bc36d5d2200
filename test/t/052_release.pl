# Who cancels a join does not wait until its memory and its temporary files have
# been given back: the session's own thread spends next to no time on that.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('release', "jit = off\nfasted.threads = 1\nlog_temp_files = 0\n");
create_small_table($node);
$node->safe_psql('postgres', <<'END_SQL');
CREATE VIEW endless AS
	SELECT g AS id, array_fill(g::real, ARRAY[5000]) AS v FROM (SELECT generate_series(1, 1000000000) AS g) s;
END_SQL
my $file_mb = 1500;

# Processor time of the session's own thread, in hundredths of a second.
sub ticks
{
	my ($pid) = @_;
	my @fields = split / /, slurp_file("/proc/$pid/task/$pid/stat") =~ s/.*\) //sr;
	return $fields[11] + $fields[12];
}

sub file_size
{
	my $sum = 0;
	$sum += $_ for temp_files($node);
	return $sum;
}

my ($best, $size);
for my $try (1 .. 3)
{
	my $session = FastedTest::Session->new($node);
	my $pid = $session->pid;
	$session->send("SET fasted.memory_limit = '1MB';");
	$session->send("SELECT count(*) FROM fasted_self_join('endless', 'v', 1, 'id');\n\\echo state :SQLSTATE");
	ok(wait_until(sub { file_size() > $file_mb * 1_000_000 }), 'a large temporary file');

	# it stops: what comes now is the end of it
	kill 'STOP', $pid;
	my $before = ticks($pid);
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	kill 'CONT', $pid;
	is($session->wait_for(qr/state (\w+)/), '57014', 'the query is cancelled');
	my $used = ticks($pid) - $before;
	is(scalar temp_files($node), 0, 'the file is gone');
	is($session->query("SELECT count(*) FROM fasted_self_join('small', 'v', 1)"), 99, 'the session works on');
	$best = $used if !defined $best || $used < $best;

	# its descriptors as well, though it is another thread that closes them
	ok(wait_until(sub { !grep { (readlink($_) // '') =~ /pgsql_tmp/ } glob("/proc/$pid/fd/*") }),
		'no descriptor is left');
	ok(wait_until(sub { scalar(() = glob("/proc/$pid/task/*")) == 1 }), 'and no thread');
	$session->quit;
	last if $best <= 5;
}
cmp_ok($best, '<=', 5, "$file_mb MB of temporary file: processor time for the end (hundredths of a second)");

# The server knows how large they were.
like(log_since($node, 0), qr/temporary file: path "[^"]*", size 1073741824$/m, 'log_temp_files tells of a whole segment');

$node->stop;
done_testing();
