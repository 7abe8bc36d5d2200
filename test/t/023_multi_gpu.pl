# Nearest neighbours by a GPU, of all rows and within partitions.  If the GPU fails, the CPU takes
# over with all rows, unless engine = cuda.  The GPU engine is test/t/engine/simulated_engine.c.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = simulated_engine();
my $node = new_node('group_engine', "fasted.cuda_library = '$library'\nfasted.gpu_devices = '1'\nfasted.threads = 1\n");

# Partitions of 400, 900, 100 and 20 rows.  By the planner's estimates the tables are worth a GPU.
# Before an engine is chosen, the rows of the partitions are counted, and are too few for a GPU.
$node->safe_psql('postgres', <<'END');
SELECT setseed(0.5);
CREATE TABLE items AS SELECT i AS id, CASE WHEN i <= 400 THEN 'a' WHEN i <= 1300 THEN 'b' WHEN i <= 1400 THEN 'c' ELSE 'd' END AS g,
	ARRAY(SELECT (random() + 0 * i)::real FROM generate_series(1, 16)) AS v FROM generate_series(1, 1420) AS i;
ALTER TABLE items ADD PRIMARY KEY (id);
CREATE TABLE others AS SELECT id + 10000 AS id, g, v FROM items;
ALTER TABLE others ADD PRIMARY KEY (id);
VACUUM ANALYZE items, others;
UPDATE pg_class SET reltuples = 1e7 WHERE relname IN ('items', 'others');
END

my %queries;
for (['itself', 'items'], ['another relation', 'others'])
{
	my ($what, $other) = @$_;
	my $call = "SELECT count(*), sum(id_a), sum(id_b * rank), sum(hashfloat8(dist)::bigint)
		FROM fasted_knn_join('items', 'v', '$other', 'v', 5";
	$queries{$what} = "$call)";
	$queries{"$what, partitions"} = "$call, partition_by => 'g')";
}
my %right = map { $_ => $node->safe_psql('postgres', $queries{$_}) } keys %queries;

sub run_query
{
	my ($engine, $place, $query) = @_;
	return $node->psql('postgres', "SET fasted.engine = $engine; SET fasted.gpu_memory_limit = '${place}kB'; "
		. "SET client_min_messages = debug1; $query", on_error_stop => 0);
}

sub engines { my ($err) = @_; return join ' ', $err =~ /engine (\w+), kernel/g; }

# The failing functions, as simulated_engine.c numbers them; from 100 on, in their second call.
my %places = (open => 2, set_open => 3, stage => 4, 'stage, later' => 104, commit => 5, 'commit, later' => 105,
	seal => 7, join_open => 8, next => 9, nearest => 17);
for my $what (sort keys %queries)
{
	my $partitions = $what =~ /partitions/;
	my ($status, $out, $err) = run_query('cuda', 0, $queries{$what});
	is($out, $right{$what}, "$what: all neighbours");
	is(engines($err), 'cuda', "$what: found by the GPU");
	($status, $out, $err) = run_query('auto', 0, $queries{$what});
	is($out, $right{$what}, "$what: all neighbours by the engine that auto chooses");
	is(engines($err), $partitions ? 'cpu' : 'cuda', "$what: auto chooses by the number of compared rows");

	for my $place (sort keys %places)
	{
		($status, $out, $err) = run_query('cuda', $places{$place}, $queries{$what});
		like($err, qr/ERROR:  the GPU reported an error/, "$what, failure in $place: an error");
		next if $partitions;
		($status, $out, $err) = run_query('auto', $places{$place}, $queries{$what});
		# the CPU takes over until the join has started
		if ($place =~ /^ne/)
		{
			like($err, qr/ERROR:  the GPU reported an error/, "$what, failure in $place: an error with auto, too");
			next;
		}
		is($out, $right{$what}, "$what, failure in $place: all neighbours");
		is(engines($err), 'cpu', "$what, failure in $place: by the CPU");
		is(scalar(() = $err =~ /WARNING:  the GPU failed/g), 1, "$what, failure in $place: a warning");
	}
}

$node->stop;
done_testing();
