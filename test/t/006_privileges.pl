# A join reads only what its caller has the privilege to read.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('privileges');
create_small_table($node);
$node->safe_psql('postgres', <<'END');
CREATE ROLE reader LOGIN;
CREATE ROLE columns_reader LOGIN;
CREATE ROLE half_reader LOGIN;
CREATE ROLE stranger LOGIN;
CREATE ROLE view_reader LOGIN;
ALTER TABLE small ADD COLUMN secret text;
GRANT SELECT ON small TO reader;
GRANT SELECT (id, v) ON small TO columns_reader;
GRANT SELECT (id, secret) ON small TO half_reader;

CREATE VIEW few WITH (security_barrier) AS SELECT id, v FROM small WHERE id <= 10;
CREATE VIEW few_as_invoker WITH (security_invoker) AS SELECT id, v FROM small WHERE id <= 10;
GRANT SELECT ON few, few_as_invoker TO view_reader;

CREATE FUNCTION join_as_owner() RETURNS bigint LANGUAGE sql SECURITY DEFINER
	AS $$ SELECT count(*) FROM fasted_self_join('small', 'v', 1) $$;
CREATE FUNCTION join_as_caller() RETURNS bigint LANGUAGE sql
	AS $$ SELECT count(*) FROM fasted_self_join('small', 'v', 1) $$;

CREATE SCHEMA hidden;
CREATE TABLE hidden.t AS TABLE small;
ALTER TABLE hidden.t ADD PRIMARY KEY (id);
GRANT SELECT ON hidden.t TO reader;
END

# Returns the result of a query run as a role: a number, or the error message.
sub as_role
{
	my ($role, $sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres', $sql,
		extra_params => [ '-U', $role, '-v', 'VERBOSITY=verbose' ]);
	return $status == 0 ? $out : $err;
}

my $join = "SELECT count(*) FROM fasted_self_join('%s', 'v', 1, id_column => 'id')";
my $small = sprintf $join, 'small';
my $denied = qr/42501: permission denied/;

is(as_role('reader', $small), 99, 'SELECT on the table');
is(as_role('columns_reader', $small), 99, 'SELECT on the two columns');
like(as_role('half_reader', $small), $denied, 'no SELECT on the vectors');
like(as_role('stranger', $small), $denied, 'no SELECT at all');
like(as_role('stranger', "SELECT count(*) FROM fasted_self_join('small', 'v', 0)"), $denied,
	'no SELECT at all, with the primary key');

is(as_role('view_reader', sprintf $join, 'few'), 9, 'a view, read with the privileges of its owner');
like(as_role('view_reader', sprintf $join, 'few_as_invoker'), $denied,
	'a view, read with the privileges of its invoker');
like(as_role('view_reader', $small), $denied, 'the table of the view, without the view');

is(as_role('stranger', 'SELECT join_as_owner()'), 99, 'a SECURITY DEFINER function');
like(as_role('stranger', 'SELECT join_as_caller()'), $denied,
	'a SECURITY INVOKER function');

like(as_role('reader', sprintf $join, 'hidden.t'), $denied, 'a schema without USAGE');

my $oid = $node->safe_psql('postgres', "SELECT 'hidden.t'::regclass::oid");
like(as_role('stranger', sprintf $join, $oid), $denied, 'a table without SELECT, given by its OID');

# Privileges are checked at execution, in a prepared statement too.
my $session = FastedTest::Session->new($node);
$session->query("PREPARE p AS $small");
is($session->query('EXECUTE p'), 99, 'prepared as a superuser');
$session->query('SET ROLE stranger');
$session->query('EXECUTE p') for 1 .. 2;
like($session->{err}, qr/permission denied/, 'executed as another role');
is($session->query("RESET ROLE; EXECUTE p"), 99, 'executed as a superuser again');
$session->quit;

# The EXECUTE privilege on the functions.
$node->safe_psql('postgres', <<'END');
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fasted_self_join(regclass, name, double precision, text, boolean, boolean, name, name)
	TO columns_reader;
END
like(as_role('reader', $small), qr/42501: permission denied for function fasted_self_join/,
	'no EXECUTE');
is(as_role('columns_reader', $small), 99, 'EXECUTE on one of the functions');
like(as_role('columns_reader',
		"SELECT count(*) FROM fasted_self_join('small', 'v', 1, id_type => NULL::int)"),
	qr/42501: permission denied for function fasted_self_join/, 'no EXECUTE on the other function');

$node->stop;
done_testing();
