# Workers read shards from the nodes that store them, one stream from each node, in key order.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../test/t";
use CitusCluster;
use FastedTest;
use Test::More;
use Time::HiRes qw(time);

my ($node, @workers) = new_cluster('shards');
my @all = ($node, @workers);

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }
sub failure { my ($sql) = @_; my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql"); return $err; }

# Statements that read shards, running on these nodes.
sub readers
{
	return join('', map { $_->safe_psql('postgres',
			"SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY (SELECT k::%' AND state = 'active'") } @_);
}

# Counts in the logs how many statements have read shards, and how many were read through Citus.
$_->safe_psql('postgres', "ALTER SYSTEM SET log_statement = 'all'; SELECT pg_reload_conf()") for @all;
sub ways
{
	my ($call) = @_;
	my @sizes = map { log_size($_) } @all;
	sql($call);
	my $log = join('', map { log_since($all[$_], $sizes[$_]) } 0 .. $#all);
	my $copies = () = $log =~ /(?:statement|execute[^:]*): COPY \(SELECT k::/g;
	my $selects = () = $log =~ /(?:statement|execute[^:]*): SELECT [^\n]*fasted_citus\.vector_bytes\(/g;
	return ($copies > 0 ? "$copies copies" : 'no copies') . ($selects > 0 ? ', and through Citus' : '');
}

# Compares the result of a function for a distributed table (dist) and a local one (plain).
sub same
{
	my ($name, $call) = @_;
	(my $plain = $call) =~ s/'([^']*)dist'/'$1plain'/g;
	my ($rows, $differ) = split(/\|/, sql("WITH x AS MATERIALIZED (SELECT * FROM $call), y AS MATERIALIZED (SELECT * FROM $plain)
		SELECT (SELECT count(*) FROM x), (SELECT count(*) FROM (TABLE x EXCEPT ALL TABLE y) d) +
			(SELECT count(*) FROM (TABLE y EXCEPT ALL TABLE x) d)"));
	ok($rows > 0 && $differ == 0, "$name: $rows rows, $differ differ");
	return;
}

sub tables
{
	my ($schema, $columns, $rows, $distribute) = @_;
	sql("DROP TABLE IF EXISTS ${schema}dist, ${schema}plain;
		CREATE TABLE ${schema}plain ($columns); INSERT INTO ${schema}plain $rows;
		CREATE TABLE ${schema}dist ($columns); $distribute; INSERT INTO ${schema}dist TABLE ${schema}plain");
	return;
}
sub by { my ($table, $column) = @_; return "SELECT create_distributed_table('$table', '$column')"; }

# --- keys and vectors of all kinds

tables('', 'id int PRIMARY KEY, v real[]', "SELECT i * 7919 % 10007, CASE WHEN i % 9 > 0 THEN ARRAY[i % 40, i % 7, 1] END
	FROM generate_series(1, 3000) i", by('dist', 'id'));
same('integers', "fasted_self_join('dist', 'v', 1)");
is(ways("SELECT count(*) FROM fasted_self_join('dist', 'v', 1)"), '9 copies', 'each worker reads from each node');
is(ways("SELECT count(*) FROM fasted_knn_join('dist', 'v', 'dist', 'v', 1)"), '9 copies', 'nearest neighbours within one table: read once');
tables('', 'id bigint PRIMARY KEY, v double precision[]', "SELECT i * 7919 % 10007, ARRAY[i % 40 + 1e-9 * i, 1e30, i % 7]
	FROM generate_series(1, 3000) i", by('dist', 'id'));
same('doubles', "fasted_self_join('dist', 'v', 1.5)");
same('doubles, nearest rows', "fasted_knn_join('dist', 'v', 'dist', 'v', 3, metric => 'cosine')");
tables('', 'id bigint PRIMARY KEY, v bit(100)', "SELECT i * 7919 % 10007, repeat((i % 40)::bit(10)::text, 10)::bit(100) FROM generate_series(1, 3000) i",
	by('dist', 'id'));
same('bits', "fasted_self_join('dist', 'v', 10, metric => 'hamming')");
is(ways("SELECT count(*) FROM fasted_self_join('dist', 'v', 10, metric => 'hamming')"), '9 copies', 'bits: each worker reads from each node');
tables('', 'id text COLLATE "C" PRIMARY KEY, v real[]', "SELECT repeat(chr(i % 60 + 33), i % 30) || i, ARRAY[i % 40, i % 7]
	FROM generate_series(1, 2000) i", by('dist', 'id'));
same('texts', "fasted_self_join('dist', 'v', 1, id_type => NULL::text)");
tables('', 'id numeric PRIMARY KEY, tenant int, v real[]', "SELECT i / 7.0, i % 5, ARRAY[i % 40, i % 7] FROM generate_series(1, 2000) i",
	"ALTER TABLE dist DROP CONSTRAINT dist_pkey, ADD PRIMARY KEY (tenant, id); " . by('dist', 'tenant'));
same('distributed by another column', "fasted_self_join('dist', 'v', 1, id_type => NULL::numeric, id_column => 'id')");
# types whose unqualified names mean a single character, or a single bit
tables('', 'tenant int, id char(6), v real[], PRIMARY KEY (tenant, id)', "SELECT i % 5, 'k' || i, ARRAY[i % 40, i % 7] FROM generate_series(1, 2000) i",
	by('dist', 'tenant'));
same('characters', "fasted_self_join('dist', 'v', 1, id_type => NULL::char(6), id_column => 'id')");
tables('', 'tenant int, id bit(16), v real[], PRIMARY KEY (tenant, id)', "SELECT i % 5, i::bit(16), ARRAY[i % 40, i % 7] FROM generate_series(1, 2000) i",
	by('dist', 'tenant'));
same('bits', "fasted_self_join('dist', 'v', 1, id_type => NULL::bit(16), id_column => 'id')");
is(ways("SELECT count(*) FROM fasted_self_join('dist', 'v', 1, id_type => NULL::bit(16), id_column => 'id')"), '9 copies', 'bit(16) keys: copies');
sql('CREATE SCHEMA "My schema"');
my $long = 'x' x 50;
tables('"My schema".', '"Id" smallint PRIMARY KEY, "V" real[]', "SELECT i, ARRAY[i % 40, i % 7] FROM generate_series(1, 1000) i",
	by('"My schema".dist', 'Id'));
same('names in quotes', q{fasted_self_join('"My schema".dist', 'V', 1)});
is(ways(q{SELECT count(*) FROM fasted_self_join('"My schema".dist', 'V', 1)}), '9 copies', 'names in quotes: copies');
tables("\"My schema\".$long", 'id smallint PRIMARY KEY, v real[]', "SELECT i, ARRAY[i % 40, i % 7] FROM generate_series(1, 1000) i",
	by("\"My schema\".${long}dist", 'id'));
same('a long name', "fasted_self_join('\"My schema\".${long}dist', 'v', 1)");

# long vectors, stored in TOAST tables; COPY lines of any length; all rows on one node
tables('', 'id int PRIMARY KEY, v real[]', "SELECT i, (SELECT array_agg(sin(i * k)::real) FROM generate_series(1, 1500) k)
	FROM generate_series(1, 400) i", by('dist', 'id'));
same('long vectors', "fasted_knn_join('dist', 'v', 'dist', 'v', 3)");
tables('', 'id int, one int DEFAULT 1, v real[], PRIMARY KEY (id, one)', "SELECT i, 1, ARRAY[i % 40] FROM generate_series(1, 500) i", by('dist', 'one'));
same('all rows in one shard', "fasted_self_join('dist', 'v', 0, id_column => 'id')");

# columns that are cast to real[], by the type of the column or by a view
tables('', 'id int PRIMARY KEY, v int[]', "SELECT i, ARRAY[i % 40, i % 7] FROM generate_series(1, 500) i", by('dist', 'id'));
same('integers as elements', "fasted_self_join('dist', 'v', 1)");
is(ways("SELECT count(*) FROM fasted_self_join('dist', 'v', 1)"), '9 copies', 'integers as elements: copies');

SKIP:
{
	skip('no pgvector', 2) if sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'") == 0;
	sql('CREATE SCHEMA vectors; CREATE EXTENSION vector SCHEMA vectors');
	tables('', 'id int PRIMARY KEY, v vectors.vector(2)', "SELECT i, ARRAY[i % 40, i % 7]::real[]::vectors.vector FROM generate_series(1, 500) i", by('dist', 'id'));
	same('pgvector', "fasted_self_join('dist', 'v', 1)");
	is(ways("SELECT count(*) FROM fasted_self_join('dist', 'v', 1)"), '9 copies', 'pgvector: copies');
}

# partitions, some of them empty
sql(<<'END');
CREATE TABLE parted (id int, day int, v real[], PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (5);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (5) TO (50);
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (50) TO (100);
SELECT create_distributed_table('parted', 'id');
INSERT INTO parted SELECT i, i % 10, ARRAY[i % 40, i % 7] FROM generate_series(1, 1000) i;
END
is(sql("SELECT count(*) FROM fasted_self_join('parted', 'v', 1, id_column => 'id')"),
	sql("SET fasted_citus.distribute = off; SELECT count(*) FROM fasted_self_join('parted', 'v', 1, id_column => 'id')"), 'partitions');
is(ways("SELECT count(*) FROM fasted_self_join('parted', 'v', 1, id_column => 'id')"), '9 copies', 'partitions: copies');

# a cast that turns null into a vector
sql(<<'END');
CREATE TYPE pair AS (x real, y real);
CREATE FUNCTION pair_to_array(pair) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$ SELECT ARRAY[coalesce(($1).x, 1), coalesce(($1).y, 2)] $$;
END
# Citus does not propagate casts
$_->safe_psql('postgres', 'CREATE CAST (pair AS real[]) WITH FUNCTION pair_to_array(pair)') for @all;
tables('', 'id int PRIMARY KEY, v pair', "SELECT i, CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN ROW(i % 40, NULL)::pair ELSE ROW(i % 40, i % 7)::pair END
	FROM generate_series(1, 500) i", by('dist', 'id'));
same('pairs with nulls', "fasted_self_join('dist', 'v', 1)");

# relations that are read through Citus
SKIP:
{
	skip('no isn', 2) if sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'isn'") == 0;
	sql('CREATE EXTENSION isn');
	tables('', 'tenant int, id ean13, v real[], PRIMARY KEY (tenant, id)', "SELECT i % 5, ('978' || lpad(i::text, 9, '0') || '?')::ean13, ARRAY[i % 40, i % 7]
		FROM generate_series(1, 200) i", by('dist', 'tenant'));
	same('ISBN keys', "fasted_self_join('dist', 'v', 1, id_type => NULL::ean13, id_column => 'id')");
	is(ways("SELECT count(*) FROM fasted_self_join('dist', 'v', 1, id_type => NULL::ean13, id_column => 'id')"), 'no copies, and through Citus', 'ISBN keys: through Citus');
}
tables('', 'id int PRIMARY KEY, v numeric[]', "SELECT i, ARRAY[i % 40, i % 7] FROM generate_series(1, 500) i", by('dist', 'id'));
same('numeric', "fasted_self_join('dist', 'v', 1)");
is(ways("SELECT count(*) FROM fasted_self_join('dist', 'v', 1)"), 'no copies', 'numeric: through Citus');
tables('', 'id int PRIMARY KEY, v real[]', "SELECT i, ARRAY[i % 40, i % 7] FROM generate_series(1, 500) i", by('dist', 'id'));
sql('CREATE VIEW even AS SELECT * FROM dist WHERE id % 2 = 0');
is(ways("SELECT count(*) FROM fasted_self_join('even', 'v', 1, id_column => 'id')"), 'no copies, and through Citus', 'a view: through Citus');

# not distributed: within the transaction; the session reads binary values, too
my $here = 'SET fasted_citus.distribute = off; SELECT count(*) FROM';
for my $call ("fasted_self_join('dist', 'v', 1)", "fasted_self_join('even', 'v', 1, id_column => 'id')",
	"fasted_knn_join('dist', 'v', 'dist', 'v', 3, partition_by => 'id')", "fasted_epsilon('dist', 'v', 3)",
	"fasted_keep_one('dist', 'v', 1, 'id', descending => true)")
{
	is(ways("$here $call"), 'no copies, and through Citus', "$call: in binary form");
	my $both = sql("$here $call; RESET fasted_citus.distribute; SELECT count(*) FROM $call");
	my ($off, $divided) = split(/\n/, $both);
	is($off, $divided, "$call: the same result");
}
is(sql("BEGIN; INSERT INTO dist VALUES (3000, '{0.5, 100}'), (3001, '{0, 100}'); $here fasted_self_join('dist', 'v', 0.5); ROLLBACK"),
	1 + sql("$here fasted_self_join('dist', 'v', 0.5)"), 'with rows written by the transaction');
# without the function, as before the extension is updated
sql('CREATE SCHEMA other; SET citus.enable_ddl_propagation = off; ALTER FUNCTION fasted_citus.vector_bytes(real[]) SET SCHEMA other');
is(sql("$here fasted_self_join('dist', 'v', 1)"), sql("SELECT count(*) FROM fasted_self_join('plain', 'v', 1)"), 'without the function: as arrays');
sql('SET citus.enable_ddl_propagation = off; ALTER FUNCTION other.vector_bytes(real[]) SET SCHEMA fasted_citus');

sql('DROP VIEW even');

# --- errors about rows and keys are the same as for local tables

my $join = "SELECT count(*) FROM fasted_self_join('dist', 'v', 1, id_column => 'id')";
for my $bad (["'{1, NULL}'", qr/22004: vector has a null element.*the vector in the row with id = 1000.*Citus worker/s], ["'{1, NaN}'", qr/22003: .*NaN.*id = 1000/s],
	["'{}'", qr/2202E: vector has no elements.*id = 1000/s], ["'{{1, 2}, {3, 4}}'", qr/2202E: .*an array with 2 dimensions.*id = 1000/s],
	["'{1, 2, 3}'", qr/22000: .*different numbers of dimensions/s])
{
	sql("INSERT INTO dist VALUES (1000, $bad->[0])");
	like(failure($join), $bad->[1], "a vector $bad->[0]");
	sql('DELETE FROM dist WHERE id = 1000');
}
is(sql($join), sql("SELECT count(*) FROM fasted_self_join('plain', 'v', 1)"), 'valid again without this row');
# a node that sends invalid data
$workers[1]->safe_psql('postgres', 'SET citus.enable_ddl_propagation = off; ALTER FUNCTION fasted_citus.vector_bytes(real[]) RENAME TO true_bytes');
for my $bytes ("''::bytea", 'substr(fasted_citus.true_bytes($1), 1, 11)', 'substr(fasted_citus.true_bytes($1), 1, 27)',
	'set_byte(fasted_citus.true_bytes($1), 9, 7)', 'set_byte(fasted_citus.true_bytes($1), 14, 127)', 'set_byte(fasted_citus.true_bytes($1), 4, 100)')
{
	$workers[1]->safe_psql('postgres', "SET citus.enable_ddl_propagation = off;
		CREATE OR REPLACE FUNCTION fasted_citus.vector_bytes(real[]) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS 'SELECT " . ($bytes =~ s/'/''/gr) . "'");
	like(failure($join), qr/08P01: received an invalid vector from a shard of "dist".*HINT/s, "a node sends $bytes");
}
$workers[1]->safe_psql('postgres', 'SET citus.enable_ddl_propagation = off; DROP FUNCTION fasted_citus.vector_bytes(real[]);
	ALTER FUNCTION fasted_citus.true_bytes(real[]) RENAME TO vector_bytes');
is(sql($join), sql("SELECT count(*) FROM fasted_self_join('plain', 'v', 1)"), 'valid again with the right data');

sql('CREATE TABLE loose (id int, tenant int, v real[])');
sql(by('loose', 'tenant') . '; INSERT INTO loose SELECT i, i, ARRAY[i] FROM generate_series(1, 50) i');
is(sql("SELECT count(*) FROM fasted_self_join('loose', 'v', 1, id_column => 'id')"), 49, 'a key without an index');
sql('INSERT INTO loose VALUES (7, 1001, ARRAY[7])');
like(failure("SELECT count(*) FROM fasted_self_join('loose', 'v', 1, id_column => 'id')"), qr/ERROR:.*unique|ERROR:.*more than one row|ERROR:.*twice/si, 'a duplicate key');
sql('DELETE FROM loose WHERE tenant = 1001; INSERT INTO loose VALUES (NULL, 1001, ARRAY[7])');
like(failure("SELECT count(*) FROM fasted_self_join('loose', 'v', 1, id_column => 'id')"), qr/23502: key column "id" of relation "loose" is null/, 'a null key');

# --- privileges are checked on the worker, too, before a shard is read

sql("CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN; GRANT SELECT ON dist TO reader");
my $slice = "SELECT count(*) FROM (SELECT fasted_citus.join_slice('dist', 'v', 1, 'id', 'bigint', 'l2', false, 'count', 0, 1)) x";
is($workers[0]->safe_psql('postgres', "SET ROLE reader; $slice"), 2, 'a slice');
like(($workers[0]->psql('postgres', "SET ROLE writer; $slice"))[2], qr/permission denied for table dist$/m, 'without the privilege to read');

# --- a shard is moved, and dropped on its former node, after a worker has looked up this node

my $shard = $workers[1]->safe_psql('postgres', "SELECT shard_name(logicalrelid, shardid) FROM pg_dist_shard JOIN pg_dist_shard_placement USING (shardid)
	WHERE logicalrelid = 'dist'::regclass AND nodeport = " . $workers[1]->port . ' LIMIT 1');
my $rename = 'SET citus.enable_ddl_propagation = off; SET citus.enable_manual_changes_to_shards = on; ALTER TABLE';
$workers[1]->safe_psql('postgres', "$rename $shard RENAME TO former");
like(($workers[0]->psql('postgres', "\\set VERBOSITY verbose\n$slice"))[2],
	qr/40001: relation "public.$shard" does not exist.*DETAIL:.*"dist" may have been moved.*HINT:.*Try again/s, 'a shard that was moved');
$workers[1]->safe_psql('postgres', "$rename former RENAME TO $shard");
is($workers[0]->safe_psql('postgres', $slice), 2, 'the shard is found again');

# --- a node fails, or a session ends early

$_->safe_psql('postgres', "ALTER SYSTEM RESET log_statement; SELECT pg_reload_conf()") for @all;
tables('', 'id int PRIMARY KEY, v real[]', "SELECT i, array_fill(hashint4(i)::real, '{1000}') FROM generate_series(1, 60000) i", by('dist', 'id'));
my $long_read = "SELECT count(*) FROM fasted_self_join('dist', 'v', 0)";

sub reading
{
	my ($condition) = @_;
	my $session = FastedTest::Session->new($node);
	$session->send("$long_read;\n\\echo done");
	ok(wait_until($condition), 'shards are read');
	return $session;
}

my $session = reading(sub { $workers[1]->safe_psql('postgres', "SELECT count(*) FROM (SELECT pid FROM pg_stat_activity
	WHERE query LIKE 'COPY (SELECT k::%' AND state = 'active' LIMIT 1) AS reader WHERE pg_terminate_backend(pid)") });
$session->wait_for(qr/(done)/);
wait_until(sub { $session->{run}->pump_nb; $session->{err} =~ /ERROR/ }, 5);
like($session->{err}, qr/terminating connection|lost connection to Citus worker/, 'the backend that reads shards on a node is terminated');
ok(wait_until(sub { readers(@workers) eq '' }, 10), 'all other nodes stop reading');

$session = reading(sub { readers($workers[1]) ne '' });
my $begin = time;
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $session->pid . ')');
$session->wait_for(qr/(done)/);
ok(wait_until(sub { readers(@workers) eq '' }, 10), sprintf('cancelled: no node reads after %.1f s', time - $begin));

done_testing();
