# Statements that end at a random moment, in every way in which PostgreSQL ends a statement.  The
# engine's threads must have stopped before anything that they use is freed, so the server must
# survive, and the session must return right results afterwards.  Rows are stored in random order of
# ids, so that keys are ranked.  Each statement ends 4 times on a server with assertions, where freed
# memory is overwritten, and fewer times on others.
#
#	PROVE_TESTS=test/t/024_early_ends.pl make fuzz		for an hour
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

random_seed();
my $seconds = $ENV{FASTED_FUZZ_SECONDS} // 0;
alarm 1800 + $seconds;
my $node = new_node('ends', <<'END');
fasted.threads = 2
fsync = off
min_parallel_table_scan_size = 0
parallel_setup_cost = 0
parallel_tuple_cost = 0
max_parallel_workers_per_gather = 2
END
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION some_rows(n int, seed int) RETURNS TABLE (id bigint, name text, tenant int, v real[])
LANGUAGE sql AS $$
	SELECT g, md5(g::text), (g % 20)::int, ARRAY(SELECT (hashint8extended(g * 8 + k, seed) % 1000 / 1000.0)::real
		FROM generate_series(1, 5) k WHERE g > 0)
	FROM generate_series(1, n) g ORDER BY hashint8extended(g, seed)
$$;
CREATE TABLE a AS SELECT * FROM some_rows(34000, 1);
CREATE TABLE b AS SELECT * FROM some_rows(20000, 2);
CREATE TABLE small AS SELECT * FROM some_rows(300, 3);
CREATE TABLE copies AS SELECT id, name, tenant, v FROM some_rows(33000, 4) UNION ALL
	SELECT 40000 + id, name, tenant, ARRAY[(id % 3)::real, 1, 1, 1, 1] FROM some_rows(2000, 5);
ALTER TABLE a ADD PRIMARY KEY (id);
ALTER TABLE b ADD PRIMARY KEY (id);
ALTER TABLE small ADD PRIMARY KEY (id);
ALTER TABLE copies ADD PRIMARY KEY (id);
VACUUM ANALYZE;
END

my $assertions = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
my $ends = $assertions ? 4 : $ENV{FASTED_QUICK} ? 1 : 2;

my $panels = "SET fasted.memory_limit = '1MB';";
my $alone = 'SET max_parallel_workers_per_gather = 0;';
my @statements = (
	[ '', "SELECT count(*) FROM fasted_self_join('a', 'v', 0.3)" ],
	[ $panels, "SELECT sum(dist) FROM fasted_self_join('a', 'v', 0.3)" ],
	[ '', "SELECT id_a, id_b FROM fasted_self_join('a', 'v', 0.4, partition_by => 'tenant')" ],
	[ $alone, "SELECT id, neighbors FROM fasted_neighbors('a', 'v', 0.3)" ],
	[ '', "SELECT id, cluster FROM fasted_cluster('a', 'v', 0.4, min_samples => 5)" ],
	[ $panels, "SELECT id, cluster FROM fasted_cluster('a', 'v', 0.4)" ],
	[ '', "SELECT id, kept FROM fasted_keep_one('a', 'v', 0.4, priority_column => 'name')" ],
	[ '', "SELECT id_a, id_b FROM fasted_knn_join('a', 'v', 'a', 'v', 10)" ],
	[ $panels, "SELECT id_a, id_b FROM fasted_knn_join('b', 'v', 'a', 'v', 5)" ],
	[ $alone, "SELECT id_a, id_b FROM fasted_knn_join('a', 'v', 'b', 'v', 5, partition_by => 'tenant')" ],
	[ '', "SELECT id, cluster FROM fasted_hdbscan('a', 'v', 5)" ],
	[ $alone, "SELECT id, cluster FROM fasted_hdbscan('copies', 'v', 5)" ],
	[ '', "SELECT id_a, id_b FROM fasted_spanning_tree('a', 'v', 3, partition_by => 'tenant')" ],
	[ $panels, "SELECT eps FROM fasted_epsilon('a', 'v', 20, sample_rows => 20000)" ],
	[ '', 'SELECT id, fasted_dbscan(v, 0.3, 5) OVER (PARTITION BY tenant) FROM a' ],
	[ '', 'SELECT id, fasted_keep(v, 0.3, id) OVER (ORDER BY name) FROM a' ],
	[ '', 'SELECT a.id, b.id AS other FROM a JOIN b ON fasted_within(a.v, b.v, 0.3)' ],
	[ $panels, 'SELECT a.id, b.name FROM a JOIN b ON a.tenant = b.tenant AND fasted_within(a.v, b.v, 0.3)' ],
	[ $alone, 'SELECT a.id FROM a WHERE NOT EXISTS (SELECT FROM b WHERE fasted_within(a.v, b.v, 0.3) AND a.id <> b.id)' ],
	[ '', 'SELECT a.id FROM a LEFT JOIN a c ON a.id < c.id AND fasted_within(a.v, c.v, 0.3)' ]);

my $check = "SELECT count(*), sum(id_a) FROM fasted_knn_join('small', 'v', 'small', 'v', 3)";
my $session;
my $right;

sub connect_session
{
	$session = FastedTest::Session->new($node);
	$session->query("LOAD 'fasted'");
	return;
}

# --- the ways to end, each given the statement and a moment in seconds; they return false if the
# session has ended

my %ways = (
	'statement_timeout' => sub {
		my ($sql, $moment) = @_;
		$session->query('SET statement_timeout = ' . int(1 + 1000 * $moment) . "; CREATE TEMP TABLE r AS $sql");
		return 1;
	},
	'cancel in a subtransaction' => sub {
		my ($sql, $moment) = @_;
		$session->query('SET statement_timeout = ' . int(1 + 1000 * $moment) . ";\n"
			. "DO \$\$ BEGIN CREATE TEMP TABLE r AS $sql; EXCEPTION WHEN query_canceled THEN PERFORM count(*) FROM fasted_self_join('small', 'v', 1); END \$\$");
		return 1;
	},
	'terminate' => sub {
		my ($sql, $moment) = @_;
		$session->send("CREATE TEMP TABLE r AS $sql;");
		usleep(1e6 * $moment);
		kill 'TERM', $session->pid;
		$session->quit;
		return 0;
	},
	'lost client' => sub {
		my ($sql, $moment) = @_;
		$session->send("CREATE TEMP TABLE r AS $sql;");
		usleep(1e6 * $moment);
		$session->kill;
		return 0;
	},
	'terminated workers' => sub {
		my ($sql, $moment) = @_;
		$session->send("CREATE TEMP TABLE r AS $sql;");
		usleep(1e6 * $moment);
		$node->safe_psql('postgres', 'SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE leader_pid = ' . $session->pid);
		$session->query('');
		return 1;
	},
	'LIMIT' => sub {
		my ($sql, $moment, $share) = @_;
		$session->query("SELECT count(*) FROM ($sql LIMIT " . int(1 + $share**4 * 100000) . ') q');
		return 1;
	},
	'closed cursor' => sub {
		my ($sql, $moment, $share) = @_;
		my $end = (qw(COMMIT ROLLBACK), 'CLOSE c; COMMIT', 'ROLLBACK TO s; SELECT 1; COMMIT')[ int rand 4 ];
		$session->query("BEGIN; SAVEPOINT s; DECLARE c CURSOR FOR $sql; MOVE " . int($share**4 * 100000) . " FROM c; $end");
		return 1;
	},
	'error above' => sub {
		my ($sql, $moment, $share) = @_;
		$session->query("SELECT sum(1 / (n - " . int(1 + $share**4 * 100000) . ")) FROM (SELECT row_number() OVER () AS n FROM ($sql) q) q");
		return 1;
	});
my @names = sort keys %ways;
my $turn = 0;

sub end_early
{
	my ($settings, $sql, $way, $seconds) = @_;
	my $share = rand;
	$session->query("RESET ALL; $settings");
	my $lives = $ways{$way}->($sql, 1.1 * $seconds * $share, $share);
	connect_session() if !$lives;
	$session->query('ROLLBACK') if $session->{err} =~ /transaction is aborted/;
	# a short statement_timeout may end the statement that resets it
	do { $session->query('RESET ALL') } while ($session->{err} =~ /statement timeout/);
	return $session->query("DROP TABLE IF EXISTS r; $check") eq $right;
}

connect_session();
$right = $session->query($check);
like($right, qr/^900\|/, 'the right result before');
my $end = time + $seconds;
do
{
	for my $statement (@statements)
	{
		my ($settings, $sql) = @$statement;
		my @wrong;
		my $begin = time;
		$session->query("RESET ALL; $settings CREATE TEMP TABLE r AS $sql");
		my $whole = time - $begin;
		is($session->{err} =~ /ERROR|FATAL/ ? $session->{err} : '', '', "$settings $sql");
		for my $i (1 .. $ends)
		{
			my $way = $names[ $turn++ % @names ];
			my $is_right = eval { end_early($settings, $sql, $way, $whole) };
			push @wrong, "$way: " . ($@ || "$session->{out} $session->{err}") if !$is_right;
			connect_session() if $@;
		}
		is(join("\n", @wrong), '', "results after $ends ends are right: $settings $sql");
	}
} while (time < $end);

is(thread_count($session->pid), 1, 'no thread remains');
# a session may still run whose client was lost
ok(wait_until(sub { $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'client|parallel'") == 2 }), 'all sessions have ended');
is(scalar temp_files($node), 0, 'no temporary file remains');
unlike(log_since($node, 0), qr/terminated by signal|TRAP:|PANIC|Sanitizer/, 'the server never crashed');
$session->quit;
$node->stop;
is(orphan_segments(), 0, 'no shared memory remains');
done_testing();
