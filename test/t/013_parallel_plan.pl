# In a parallel plan the leader runs the join.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('parallel', <<'END');
max_parallel_workers_per_gather = 2
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
END
create_small_table($node);
$node->safe_psql('postgres', <<'END');
CREATE TABLE big AS SELECT g AS id, g % 7 AS kind FROM generate_series(1, 100000) g;
ANALYZE big;
ANALYZE small;
END

my $query = <<'END';
SELECT count(*), sum(p.id_b), sum(p.dist)
FROM (SELECT id FROM big WHERE kind < 3) b JOIN fasted_self_join('small', 'v', 2) p ON p.id_a = b.id
END
my $expected = $node->safe_psql('postgres', "SET max_parallel_workers_per_gather = 0; $query");
like($node->safe_psql('postgres', "EXPLAIN (COSTS OFF) $query"), qr/Gather/, 'the plan is parallel');
is($node->safe_psql('postgres', $query), $expected, 'the parallel plan has the same result as the serial plan');

# This developer setting runs every parallel-safe plan in a worker.
my $force = $node->safe_psql('postgres',
	"SELECT name FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')");
is($node->safe_psql('postgres', "SET $force = on; SELECT count(*) FROM fasted_self_join('small', 'v', 1)"),
	99, 'forced parallel mode: the same result');
is($node->safe_psql('postgres',
		"SET $force = on; SELECT count(*) FROM big b WHERE kind = 0 "
		  . "AND id IN (SELECT id_a FROM fasted_self_join('small', 'v', 1))"),
	14, 'forced parallel mode, in a subquery');

$node->stop;
done_testing();
