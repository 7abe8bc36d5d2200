# Indexes that parallel workers help to build: workers encode rows, errors of theirs are reported, and the index
# matches its table, also after a crash.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('parallel', "maintenance_work_mem = '1MB'\nmax_parallel_maintenance_workers = 2\nmax_parallel_workers_per_gather = 0\n");

# The leader lingers over each row, so that workers read most of them.  A worker's notice says that it has read one.
$node->safe_psql('postgres', <<'END');
CREATE FUNCTION seen(v real[]) RETURNS real[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF pg_backend_pid()::text = current_setting('test.leader', true) THEN
		PERFORM pg_sleep(0.001);
	ELSIF array_length(v, 1) > 1 THEN
		RAISE NOTICE 'another process reads a row';
	END IF;
	RETURN v;
END $$;
CREATE FUNCTION seen_unsafe(v real[]) RETURNS real[] LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN public.seen(v); END';
CREATE TABLE items (id int, tenant int, v real[], radius float8) WITH (parallel_workers = 2);
SELECT setseed(0.5);
INSERT INTO items SELECT i, i % 5, CASE WHEN i % 100 > 0 THEN array_agg((random() - 0.5 + sin(i * k))::real) END, i / 1e9
FROM generate_series(1, 1500) i, generate_series(1, 150) k GROUP BY i;
CREATE TABLE empty (v real[]) WITH (parallel_workers = 2);
END

# Runs a statement in a session in which the leader lingers.  Returns its errors, and sets the number of notices.
my $notices;
sub lingering
{
	my ($statement) = @_;
	my (undef, undef, $errors) = $node->psql('postgres', "SELECT set_config('test.leader', pg_backend_pid()::text, false);\n$statement");
	$notices = () = $errors =~ /another process reads a row/g;
	return $errors;
}

# Runs a statement until workers have read rows: if other processes have the CPUs, the leader may have read all of them.
sub by_workers
{
	my ($statement, $what) = @_;
	ok(wait_until(sub { lingering($statement); return $notices > 0 }, 60), "workers read $notices rows for $what");
	return;
}

sub matches
{
	my ($index, $what) = @_;
	is($node->safe_psql('postgres', "SELECT fasted_index_check('$index')"), $node->safe_psql('postgres', 'SELECT count(*) FROM items'),
		"$what matches its table");
	return;
}

by_workers('DROP INDEX IF EXISTS items_seen; CREATE INDEX items_seen ON items USING fasted (seen(v), tenant)', 'a build');
matches('items_seen', 'the index');
by_workers('REINDEX INDEX CONCURRENTLY items_seen', 'a concurrent build');
matches('items_seen', 'the index');
for my $order ('seen(v) <-> (SELECT v FROM items WHERE id = 77)', 'seen(v) <-> (SELECT v FROM items WHERE id = 1234)')
{
	my $query = "SELECT id FROM items ORDER BY $order LIMIT 300";
	like($node->safe_psql('postgres', "SET enable_seqscan = off; EXPLAIN $query"), qr/Index Scan using items_seen/, 'a query uses the index');
	is($node->safe_psql('postgres', "SET enable_seqscan = off; $query"),
		$node->safe_psql('postgres', "SET enable_indexscan = off; $query"), 'its result is that of a sequential scan');
}
unlike(lingering('CREATE INDEX items_unsafe ON items USING fasted (seen_unsafe(v))'), qr/ERROR/, 'an index on a function that is not parallel safe');
is($notices, 0, 'workers do not call it');

# the greatest radius of all participants, and a constraint that the rows violate
by_workers('ALTER TABLE items DROP CONSTRAINT IF EXISTS apart; ALTER TABLE items ADD CONSTRAINT apart EXCLUDE USING fasted (fasted_ball(seen(v), radius) WITH &&)',
	'a constraint');
like(lingering('INSERT INTO items VALUES (0, 1, (SELECT v FROM items WHERE id = 1499), 0)'), qr/violates exclusion constraint/, 'the constraint holds');
$node->safe_psql('postgres', 'ALTER TABLE items DROP CONSTRAINT apart');
like(lingering('ALTER TABLE items ADD EXCLUDE USING fasted (fasted_ball(v, 9) WITH &&)'), qr/could not create exclusion constraint/, 'a constraint that rows violate');

# temporary and unlogged tables, tables without vectors, and parts of a table
$node->safe_psql('postgres', 'CREATE INDEX items_part ON items USING fasted (v) WHERE tenant < 3; ALTER TABLE items SET UNLOGGED; ALTER TABLE items SET LOGGED');
is($node->safe_psql('postgres', "SELECT fasted_index_check('items_part')"), '900', 'a partial index matches its table');
is($node->safe_psql('postgres', "CREATE INDEX empty_index ON empty USING fasted (v); SELECT fasted_index_check('empty_index')"), '0', 'an empty table');
is($node->safe_psql('postgres', "CREATE TEMP TABLE own WITH (parallel_workers = 2) AS SELECT * FROM items; CREATE INDEX own_index ON own USING fasted (v);
	SELECT fasted_index_check('own_index')"), '1500', 'a temporary table');

# the build is in WAL
$node->stop('immediate');
$node->start;
matches('items_seen', 'after a crash, the index');

# an error of a worker
$node->safe_psql('postgres', "DROP INDEX items_seen, items_unsafe, items_part; UPDATE items SET v = '{1}' WHERE id = 1250");
like(lingering('CREATE INDEX ON items USING fasted (seen(v))'), qr/expected 150 dimensions, not 1/, 'a row of other dimensions is an error');
$node->stop;
done_testing();
