# Row security: a join sees only the rows that are visible to its role.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('row_security');
$node->safe_psql('postgres', <<'END');
CREATE ROLE owner LOGIN;
CREATE ROLE alice LOGIN;
CREATE ROLE bob LOGIN;
CREATE ROLE auditor LOGIN BYPASSRLS;
GRANT CREATE ON SCHEMA public TO owner;
SET ROLE owner;
CREATE TABLE notes (id int PRIMARY KEY, author name, v real[]);
-- alice has 1 to 10, bob has 11 to 30
INSERT INTO notes
	SELECT g, CASE WHEN g <= 10 THEN 'alice' ELSE 'bob' END, ARRAY[g] FROM generate_series(1, 30) g;
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON notes FOR SELECT USING (author = current_user);
GRANT SELECT ON notes TO alice, bob, auditor;

CREATE FUNCTION join_as_owner() RETURNS bigint LANGUAGE sql SECURITY DEFINER
	AS $$ SELECT count(*) FROM fasted_self_join('notes', 'v', 1) $$;
CREATE VIEW as_owner AS TABLE notes;
GRANT SELECT ON as_owner TO alice;
END

my $join = "SELECT count(*), min(id_a), max(id_b) FROM fasted_self_join('notes', 'v', 1)";

sub as_role
{
	my ($role, $sql) = @_;
	return $node->safe_psql('postgres', $sql, extra_params => [ '-U', $role ]);
}

is(as_role('alice', $join), '9|1|10', 'a role sees pairs of its own rows');
is(as_role('bob', $join), '19|11|30', 'another role sees pairs of other rows');
is(as_role('auditor', $join), '29|1|30', 'a role with BYPASSRLS sees all rows');
is(as_role('owner', $join), '29|1|30', 'the owner sees all rows');
is($node->safe_psql('postgres', $join), '29|1|30', 'a superuser sees all rows');
is(as_role('alice', 'SELECT join_as_owner()'), 29, 'a SECURITY DEFINER function sees the rows of its owner');
is(as_role('alice', "SELECT count(*) FROM fasted_self_join('as_owner', 'v', 1, id_column => 'id')"),
	29, 'a view, read as its owner');

my ($status, undef, $err) = $node->psql('postgres', "SET row_security = off; $join",
	extra_params => [ '-U', 'alice' ]);
like($err, qr/would be affected by row-level security policy/, 'an error if row_security is off');

# One prepared statement, executed by several roles.
my $session = FastedTest::Session->new($node);
$session->query("PREPARE p AS $join");
for my $round (1 .. 2)
{
	is($session->query('EXECUTE p'), '29|1|30', 'prepared: superuser');
	is($session->query('SET ROLE alice; EXECUTE p'), '9|1|10', 'prepared: one role');
	is($session->query('SET ROLE bob; EXECUTE p'), '19|11|30', 'prepared: another role');
	$session->query('RESET ROLE');
}
$session->quit;

$node->safe_psql('postgres', 'ALTER TABLE notes FORCE ROW LEVEL SECURITY');
is(as_role('owner', $join), '0||', 'FORCE ROW LEVEL SECURITY applies to the owner');
is($node->safe_psql('postgres', $join), '29|1|30', 'FORCE ROW LEVEL SECURITY does not apply to a superuser');

$node->stop;
done_testing();
