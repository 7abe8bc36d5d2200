# With the scan node, a caller sees the same rows and gets the same errors as with
# the function.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('scan_privileges');
create_small_table($node);
$node->safe_psql('postgres', <<'END');
CREATE ROLE owner; CREATE ROLE reader; CREATE ROLE columns_reader; CREATE ROLE half_reader;
CREATE ROLE stranger; CREATE ROLE no_execute; CREATE ROLE member IN ROLE reader;
ALTER TABLE small OWNER TO owner;
ALTER TABLE small ADD COLUMN secret text;
GRANT SELECT ON small TO reader, no_execute;
GRANT SELECT (id, v) ON small TO columns_reader;
GRANT SELECT (id, secret) ON small TO half_reader;

CREATE TABLE owned (id int PRIMARY KEY, who name, v real[]);
INSERT INTO owned SELECT g, CASE WHEN g % 2 = 0 THEN 'reader' ELSE 'stranger' END, ARRAY[g] FROM generate_series(1, 40) g;
ALTER TABLE owned ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON owned USING (who = current_user);
GRANT SELECT ON owned TO reader, stranger, member, owner;

CREATE VIEW few WITH (security_barrier) AS SELECT id, v FROM small WHERE id <= 10;
CREATE VIEW few_as_invoker WITH (security_invoker) AS SELECT id, v FROM small WHERE id <= 10;
CREATE VIEW pairs AS SELECT * FROM fasted_self_join('small', 'v', 1);
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM fasted_self_join('small', 'v', 3) WHERE dist < 2;
GRANT SELECT ON few, few_as_invoker, pairs, barrier TO PUBLIC;
ALTER VIEW few OWNER TO owner;

CREATE FUNCTION as_owner(OUT n bigint, OUT total float8) LANGUAGE sql SECURITY DEFINER
	AS $$ SELECT count(id_a), sum(dist) FROM fasted_self_join('small', 'v', 1) $$;
CREATE FUNCTION as_caller(OUT n bigint, OUT total float8) LANGUAGE sql
	AS $$ SELECT count(id_a), sum(dist) FROM fasted_self_join('small', 'v', 1) $$;
ALTER FUNCTION as_owner OWNER TO owner;
CREATE FUNCTION leak(bigint) RETURNS boolean LANGUAGE plpgsql COST 0.0001
	AS $$ BEGIN RAISE NOTICE 'seen: %', $1; RETURN true; END $$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fasted_self_join(regclass, name, double precision, text, boolean, boolean, name, name)
	TO owner, reader, columns_reader, half_reader, stranger;
GRANT EXECUTE ON FUNCTION fasted_self_join(regclass, name, double precision, anycompatible, boolean, boolean, name, name, text) TO reader;
GRANT EXECUTE ON FUNCTION as_owner, as_caller, leak TO PUBLIC;
END

my $small = "fasted_self_join('small', 'v', 1)";
my %queries = (
	'counting' => "SELECT count(*) FROM $small",
	'sums' => "SELECT sum(dist), max(id_b) FROM $small",
	'a limit' => "SELECT count(*) FROM (SELECT FROM $small LIMIT 5) x",
	'typed ids' => "SELECT count(id_a) FROM fasted_self_join('small', 'v', 1, id_type => NULL::int)",
	'a plan' => "EXPLAIN (COSTS OFF) SELECT id_a FROM $small WHERE false",
	'a prepared statement' => "PREPARE p AS SELECT sum(dist) FROM $small; EXECUTE p",
	'a cursor' => "BEGIN; DECLARE c CURSOR FOR SELECT dist FROM $small; FETCH 3 FROM c; CLOSE c; COMMIT",
	'lateral' => "SELECT e, sum(dist) FROM generate_series(1, 2) e, LATERAL fasted_self_join('small', 'v', e) GROUP BY e ORDER BY e",
	'row security' => "SELECT count(id_a), sum(id_a) FROM fasted_self_join('owned', 'v', 2)",
	'a barrier view' => "SELECT count(id_a) FROM fasted_self_join('few', 'v', 1, id_column => 'id')",
	'an invoker view' => "SELECT count(id_a) FROM fasted_self_join('few_as_invoker', 'v', 1, id_column => 'id')",
	'a view of pairs' => 'SELECT count(*), sum(id_a) FROM pairs',
	'a barrier view of pairs' => 'SELECT sum(dist), sum(id_a) FROM barrier',
	'a function of the owner' => 'SELECT * FROM as_owner()',
	'a function of the caller' => 'SELECT * FROM as_caller()');

# The superuser of a test server is named after the operating-system user.
my $superuser = $node->safe_psql('postgres', 'SELECT quote_ident(current_user)');

# Returns the result for a role, by the node or the function: rows, or the error message.
sub as_role
{
	my ($role, $scan_node, $sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres',
		"SET fasted.scan_node = $scan_node; SET ROLE $role; $sql", extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	$err =~ s/^(LOCATION|CONTEXT):.*\n?//mg;
	return $status == 0 ? $out : $err;
}

my %denied;
for my $query (sort keys %queries)
{
	for my $role ($superuser, qw(owner reader member columns_reader half_reader stranger no_execute))
	{
		my $expected = as_role($role, 'off', $queries{$query});
		$denied{$query}++ if $expected =~ /42501: permission denied/;
		is(as_role($role, 'on', $queries{$query}), $expected, "$query, as $role");
	}
}
for my $query ('counting', 'sums', 'a limit', 'a cursor', 'a prepared statement', 'lateral')
{
	is($denied{$query}, 3, "$query: denied for three roles");
}
is($denied{'typed ids'}, 5, 'only one role and its member may call the typed function');

# Checks that the queries above did use the node.
for my $query ('counting', 'sums', 'lateral', 'row security', 'a view of pairs')
{
	like($node->safe_psql('postgres', "EXPLAIN (COSTS OFF) $queries{$query}"), qr/FastedSelfJoin/,
		"$query: by the node");
}

# Without EXECUTE there is no plan either.
like(as_role('no_execute', 'on', "EXPLAIN SELECT id_a FROM $small"),
	qr/42501: permission denied for function fasted_self_join/, 'EXPLAIN needs EXECUTE');

# The condition of a security-barrier view is evaluated before functions that could leak rows.
is(as_role('reader', 'on', 'SELECT count(*) FROM barrier WHERE leak(id_b - id_a) AND dist > 1'), 0,
	'a leaking function sees no row that the view hides');
my ($status, $out, $err) = $node->psql('postgres', 'SELECT sum(id_a) FROM barrier WHERE leak(id_b - id_a)');
unlike($err, qr/seen: [23]/, 'no pair of hidden rows is seen');
like($err, qr/seen: 1/, 'pairs of visible rows are seen');

# Privileges are those of the current user at the time of each fetch.
my $session = FastedTest::Session->new($node);
for my $scan_node ('on', 'off')
{
	$session->query("SET fasted.scan_node = $scan_node; BEGIN; DECLARE c CURSOR FOR SELECT id_a FROM $small");
	$session->query('SET ROLE stranger; FETCH 1 FROM c');
	like($session->{err}, qr/permission denied for table small/, "$scan_node: the first fetch of a cursor by another role");
	$session->query('ROLLBACK; RESET ROLE');
	$session->query("PREPARE p AS SELECT count(*) FROM $small");
	$session->query('SET ROLE no_execute; EXECUTE p');
	like($session->{err}, qr/permission denied for function fasted_self_join/, "$scan_node: execution by a role without the privilege");
	is($session->query('SET ROLE reader; EXECUTE p'), 99, "$scan_node: execution by a role with the privilege");
	$session->query('RESET ROLE; DEALLOCATE p');
}
$session->quit;

# A function with SECURITY DEFINER or its own settings is not replaced by the node.
$node->safe_psql('postgres',
	'ALTER FUNCTION fasted_self_join(regclass, name, double precision, text, boolean, boolean, name, name) SECURITY DEFINER');
unlike($node->safe_psql('postgres', "EXPLAIN SELECT id_a FROM $small"), qr/FastedSelfJoin/,
	'SECURITY DEFINER on the function itself: no node');
is(as_role('stranger', 'on', $queries{counting}), 99, 'SECURITY DEFINER on the function itself: it has the privileges of its owner');

# Estimates reveal nothing about vectors that the user may not read.
$node->safe_psql('postgres', <<'END');
ALTER FUNCTION fasted_self_join(regclass, name, double precision, text, boolean, boolean, name, name) SECURITY INVOKER;
CREATE TABLE alike (id int PRIMARY KEY, v real[]);
INSERT INTO alike SELECT g, ARRAY[g % 3, 5] FROM generate_series(1, 3000) g;
ANALYZE alike;
END
my %estimate;
for my $role ($superuser, 'stranger')
{
	for my $eps (0.5, 5)
	{
		as_role($role, 'on', "EXPLAIN SELECT id_a FROM fasted_self_join('alike', 'v', $eps)") =~ /Estimated Pairs: (\d+)/;
		$estimate{$role}{$eps} = $1;
	}
}
isnt($estimate{$superuser}{5}, $estimate{$superuser}{0.5}, 'estimates depend on the data for a user who may read them');
is($estimate{stranger}{5}, $estimate{stranger}{0.5}, 'estimates do not depend on the data for a user who may not read them');

$node->stop;
done_testing();
