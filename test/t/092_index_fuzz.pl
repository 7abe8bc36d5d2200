# Random tables with an exact index, random changes, and random queries.  Each query returns the same rows
# by the index and by a sequential scan.  With pgvector, its types are among those of the vectors.
#
#	FASTED_SEED=N		selects other cases than those of this revision
#	FASTED_INDEX_ROUNDS=N	number of tables (default 15)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

random_seed();
my $rounds = $ENV{FASTED_INDEX_ROUNDS} // 15;
my $node = new_node('index_fuzz', "client_min_messages = error\nfasted.join_node = off\nmax_parallel_workers_per_gather = 0\n");
my $session = FastedTest::Session->new($node);
my ($queries, $rows, $differences, $errors) = (0, 0, 0, 0);
my %scans;

sub pick { return $_[ int rand @_ ]; }

# The types: a literal's parts, operator classes, metrics, and whether numbers may be very large or small.
my %floats = (l2 => [ '<->', 'l2', 0, 0.2 ], cosine => [ '<=>', 'cosine', 0, 0.2 ], inner_product => [ '<#>', 'ip', -1e9, undef ]);
my %bits = (hamming => [ '<~>', 'hamming', 0, 2 ], jaccard => [ '<%>', 'jaccard', 0, 0.2 ]);
my @types = (
	{ type => 'real[]', name => 'real', open => '{', close => '}', metrics => \%floats, wild => [ 1e6, 1e34, 1e-34 ] },
	{ type => 'float8[]', name => 'double', open => '{', close => '}', metrics => \%floats, wild => [ 1e6, 1e300, 1e-300 ] });
if ($node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"))
{
	$node->safe_psql('postgres', 'CREATE EXTENSION vector; CREATE EXTENSION fasted_pgvector');
	push @types, { type => 'vector', name => 'vector', open => '[', close => ']', metrics => \%floats, wild => [ 1e15, 1e-15 ] },
	  { type => 'halfvec', name => 'halfvec', open => '[', close => ']', metrics => \%floats, wild => [ 60, 1e-6 ] },
	  { type => 'bit', name => 'bit', metrics => \%bits };
}

# The literal of a vector.
sub literal
{
	my ($t, @v) = @_;
	return "B'" . join('', map { $_ > 0 ? 1 : 0 } @v) . "'" if $t->{name} eq 'bit';
	return "'$t->{open}" . join(',', @v) . "$t->{close}'::$t->{type}";
}

# Integers, so that distances are equal.
sub integers { return map { int(rand 3) - 1 } 1 .. $_[0]{d}; }

# Returns rows for an INSERT.
sub new_rows
{
	my ($t, $n) = @_;
	my @new;
	for (1 .. $n)
	{
		my $kind = rand;
		my @v = $kind < 0.05 ? (0) x $t->{d} : $kind < 0.5 ? integers($t) : map { $t->{scale} * (rand(2) - 1) } 1 .. $t->{d};
		@v = map { $_ * pick(1, 1, 1, @{ $t->{wild} }) } @v if $t->{is_wild} && rand() < 0.1;
		push @new, "(DEFAULT, " . pick('NULL', 1 .. 4) . ', 0, ' . (rand() < 0.04 ? 'NULL' : literal($t, @v)) . ')';
	}
	return join ', ', @new;
}

sub run
{
	my ($sql) = @_;
	my $out = $session->query($sql);
	return $session->{err} ne '' ? "error: $session->{err}" : $out;
}

# Runs a query, or statements that end with one, by both kinds of scans.
sub compare
{
	my ($what) = @_;
	my $scan = pick('indexscan', 'indexscan', 'bitmapscan');
	my $other = $scan eq 'indexscan' ? 'bitmapscan' : 'indexscan';
	my $due = run("SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off; $what");
	my $got = run("SET enable_seqscan = off; SET enable_$scan = on; SET enable_$other = off; $what");
	$queries++;
	$errors++ if $due =~ /^error/;
	$rows += () = $got =~ /\n/g;
	$scans{$1}++ if $what =~ /^SELECT/ && run("EXPLAIN $what") =~ /(Bitmap Index Scan|Index Scan) (?:on|using) t_index/;
	return if $due eq $got;
	$differences++;
	diag("$what\nby the index: $got\nis not:       $due");
	return;
}

# A literal, a row's vector as a subquery, or rarely a vector that is null or zero.
sub query_vector
{
	my ($t) = @_;
	my $q = rand;
	return "(SELECT v FROM t WHERE v IS NOT NULL ORDER BY abs(id - " . int(rand 600) . "), id LIMIT 1)" if $q < 0.6;
	return literal($t, integers($t)) if $q < 0.95;
	return pick("NULL::$t->{column}", literal($t, (0) x $t->{d}));
}

sub query
{
	my ($t) = @_;
	my $q = query_vector($t);
	my $distance = "v $t->{op} $q";
	# often the distance of a row, so that rows are at the limit
	my $x = rand() < 0.8 ? "(SELECT v $t->{op} $q FROM t WHERE v IS NOT NULL ORDER BY abs(id - " . int(rand 600) . "), id LIMIT 1)"
	  : pick(0, -1, 0.5, 1, "'NaN'::float8", "'Infinity'::float8", 'NULL::float8');
	my $where = pick("$distance < $x", "$distance <= $x", "$x >= $distance", "1 - ($distance) > 1 - $x", "1 - ($distance) >= 1 - $x",
		"fasted_within(v, $q, $t->{least}, '$t->{metric}')", "fasted_within(v, $q, CASE WHEN $x >= $t->{bottom} AND $x <> 'NaN' THEN $x END, '$t->{metric}')");
	my $tenant = pick('', ' AND tenant = ' . pick(1 .. 4), ' AND kind = 0');
	my $limit = 'LIMIT ' . pick(1, 3, 10, 100, 1000) . pick('', ' OFFSET ' . int rand 20);
	return pick(
		"SELECT id FROM t WHERE $where$tenant ORDER BY id",
		"SELECT id, kind FROM t WHERE $where AND $distance <= 1.5 ORDER BY id",
		"SELECT $distance FROM t WHERE true$tenant ORDER BY $distance $limit",
		"SELECT $distance FROM t WHERE $where$tenant ORDER BY $distance $limit",
		"SELECT a.id, b.id FROM t a JOIN t b ON a.id < b.id AND a.v $t->{op} b.v <= $t->{least} WHERE a.id % 50 = " . int(rand 50) . ' ORDER BY 1, 2',
		"SELECT a.id, d FROM t a, LATERAL (SELECT b.v $t->{op} a.v AS d FROM t b WHERE b.tenant = a.tenant ORDER BY b.v $t->{op} a.v LIMIT 2) AS l WHERE a.id % 50 = " . int(rand 50) . ' ORDER BY 1, 2',
		"SELECT a.id FROM t a WHERE a.id % 20 = " . int(rand 20) . " AND NOT EXISTS (SELECT FROM t b WHERE b.v $t->{op} a.v <= $t->{least} AND a.id <> b.id) ORDER BY 1");
}

# Fetches forward and backward.
sub cursor
{
	my ($t) = @_;
	my $q = literal($t, integers($t));
	my @fetch = map { pick('FETCH 3', 'FETCH 20', 'FETCH BACKWARD 5', 'FETCH FIRST', 'FETCH ABSOLUTE 7', 'MOVE 4', 'FETCH LAST') . ' FROM c' } 1 .. 6;
	return compare("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT v $t->{op} $q FROM t ORDER BY v $t->{op} $q; " . join('; ', @fetch) . '; COMMIT');
}

sub change
{
	my ($t) = @_;
	my $n = int rand 40;
	my $some = 'id % ' . pick(3, 7, 20, 50) . ' = 1';
	return run(pick(
		'INSERT INTO t VALUES ' . new_rows($t, 1 + $n), 'INSERT INTO t VALUES ' . new_rows($t, 1 + $n),
		"DELETE FROM t WHERE $some", "UPDATE t SET kind = 1 - kind WHERE $some", "UPDATE t SET v = (SELECT v FROM t LIMIT 1) WHERE $some",
		"UPDATE t SET tenant = " . pick(1 .. 4) . " WHERE $some", 'VACUUM t', 'VACUUM (FREEZE) t', 'VACUUM FULL t', 'REINDEX INDEX t_index', 'ANALYZE t',
		'REINDEX INDEX CONCURRENTLY t_index', 'BEGIN; SAVEPOINT s; INSERT INTO t VALUES ' . new_rows($t, 1 + $n) . "; ROLLBACK TO s; DELETE FROM t WHERE id % 30 = 1; COMMIT",
		'BEGIN; DELETE FROM t WHERE id % 2 = 0; ROLLBACK', 'CHECKPOINT'));
}

for my $round (1 .. $rounds)
{
	my %type = %{ $types[ ($round - 1) % @types ] };
	my $metric = pick(sort keys %{ $type{metrics} });
	my $t = { %type, d => pick(1, 2, 3, 8, 17, 40, 70, 130), metric => $metric, scale => pick(1, 1, 100, 1e-3), is_wild => $type{wild} && rand() < 0.3 };
	(@$t{qw(op class bottom least)}) = @{ $type{metrics}{$metric} };
	$t->{least} //= -0.3 * $t->{d};
	$t->{column} = $type{name} eq 'bit' ? "bit($t->{d})" : $type{type};
	my $class = "$type{name}_$t->{class}_ops";
	my $index = "CREATE INDEX t_index ON t USING fasted (v $class" . pick('', ', tenant', ', tenant, kind') . ')' . pick('', '', ' WHERE kind = 0');
	note("table $round: $t->{column} of $t->{d} dimensions; $index");
	my $first = rand() < 0.5;
	is(run("DROP TABLE IF EXISTS t; CREATE TABLE t (id serial PRIMARY KEY, tenant bigint, kind int, v $t->{column}) WITH (fillfactor = 70); " . ($first ? $index : '')), '', 'a table');
	run('INSERT INTO t (tenant, kind) SELECT i % 4 + 1, 0 FROM generate_series(1, 700) i') if rand() < 0.3;
	for (1 .. pick(0, 1, 5))
	{
		run('INSERT INTO t VALUES ' . new_rows($t, 100));
	}
	is($first ? '' : run($index), '', 'an index');
	run('INSERT INTO t VALUES ' . new_rows($t, 30));
	for (1 .. 20)
	{
		my $result = change($t);
		is($result, '', 'a change') if $result =~ /error/;
		compare(query($t)) for 1 .. 3;
		cursor($t) if rand() < 0.2;
	}
	like(run("SELECT fasted_index_check('t_index')"), qr/^\d+$/, 'the index is consistent with the table');
}
is($differences, 0, "$queries queries with $rows rows have the same result by the index");
cmp_ok($errors, '<', $queries / 20, "$errors queries raise an error");
ok($scans{'Index Scan'} && $scans{'Bitmap Index Scan'}, 'the index was used');
$node->stop;
done_testing();
