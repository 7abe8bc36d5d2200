# An update to a fictitious next version.  Users' objects that depend on the extension are
# unchanged after it, in sessions that began before it, too.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Dependents;
use PostgreSQL::Test::Utils;
use Test::More;

chomp(my $folder = qx{$ENV{PG_CONFIG} --sharedir});
$folder .= '/extension';
plan skip_all => "$folder is not ours to write to" unless -w $folder;

# Files of the fictitious versions, which are removed in any case.
my ($next, $broken) = ("$folder/fasted--0.1.0--99.0.0.sql", "$folder/fasted--99.0.0--99.0.1.sql");

END
{
	local $?;
	unlink grep { defined } $next, $broken;
}

# Changes that an update may contain: a new function, a changed cost, and a view with an
# additional column.
append_to_file($next, <<'END');
\echo Use "ALTER EXTENSION fasted UPDATE TO '99.0.0'" to load this file. \quit
CREATE FUNCTION fasted_next() RETURNS integer LANGUAGE sql AS 'SELECT 99';
CREATE OR REPLACE FUNCTION fasted_distance(a "any", b "any")
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 30
SUPPORT fasted_distance_support;
CREATE OR REPLACE VIEW pg_stat_fasted_progress AS
SELECT p.pid, d.datname, pg_catalog.pg_get_userbyid(p.usesysid) AS usename, p.relid,
	CASE WHEN d.datname = pg_catalog.current_database() THEN p.relid::pg_catalog.regclass END AS relation,
	p.phase, p.rows_read, p.rows_expected, p.units_done, p.units_total, p.pairs, 99 AS next
FROM fasted_internal.progress() p
	LEFT JOIN pg_catalog.pg_database d ON d.oid = p.datid;
END

my $node = new_node('next_version');
create_dependents($node, 'postgres');
my $before = look_at_dependents($node, 'postgres');
like($before, qr/^200\|\w{32}$/m, 'the dependent objects return rows');

# Cached generic plans of the scan node and the join node, and an open cursor.
my $session = FastedTest::Session->new($node);
my @prepared = ('pairs(float8) AS SELECT count(*), sum(dist) FROM fasted_self_join(\'items\', \'v\', $1)',
	'joined(float8) AS SELECT count(*) FROM items a JOIN items b ON fasted_within(a.v, b.v, $1)',
	'viewed(float8) AS SELECT count(*) FROM pairs WHERE dist < $1');
$session->query('SET plan_cache_mode = force_generic_plan; SET enable_nestloop = off');
$session->query("PREPARE $_") for @prepared;
my $execute = join ' ', map { 'EXECUTE ' . s/\(.*//sr . '(1.5);' } @prepared;
my $executed = $session->query($execute);
is(scalar(split /\n/, $executed), 3, 'three prepared statements');
like($session->query("EXPLAIN EXECUTE $_(1.5)"), qr/Custom Scan/, "$_: by a node of ours") for qw(pairs joined viewed);
my $fetched = $session->query('DECLARE c CURSOR WITH HOLD FOR SELECT id_a, id_b FROM pairs ORDER BY 1, 2; FETCH 2 FROM c');

my (undef, undef, $said) = $node->psql('postgres', "ALTER EXTENSION fasted UPDATE TO '99.0.0'");
is($said, '', 'the update prints no message');
is($node->safe_psql('postgres', "SELECT state, advice FROM fasted_info() WHERE component = 'fasted'"),
	'library 0.1.0, SQL script 99.0.0|Run this statement in a new session: ALTER EXTENSION fasted UPDATE',
	'fasted_info sees that library and script have different versions');
is($node->safe_psql('postgres', "SELECT extversion, fasted_next() FROM pg_extension WHERE extname = 'fasted'"),
	'99.0.0|99', 'the next version is installed');
is(look_at_dependents($node, 'postgres'), $before, 'dependent objects are unchanged');
is($session->query($execute), $executed, 'prepared statements of an older session work');
is($session->query('MOVE ABSOLUTE 0 FROM c; FETCH 2 FROM c'), $fetched, 'a cursor of an older session works');
is($session->{err}, '', 'the older session has no error');
is($node->safe_psql('postgres', "SELECT procost FROM pg_proc WHERE oid = 'fasted_distance(\"any\", \"any\")'::regprocedure"), '30',
	'the cost of a function has changed');
is($node->safe_psql('postgres', 'SELECT count(next) FROM pg_stat_fasted_progress'), '0', 'the view has another column');
$session->quit;

# Users' objects survive a failing update, and DROP EXTENSION without CASCADE.
append_to_file($broken, 'DROP FUNCTION fasted_next(); SELECT 1 / 0;');
my (undef, undef, $err) = $node->psql('postgres', "ALTER EXTENSION fasted UPDATE TO '99.0.1'");
like($err, qr/division by zero/, 'an update whose script raises an error fails');
is(look_at_dependents($node, 'postgres'), $before, 'an update that fails changes nothing');
(undef, undef, $err) = $node->psql('postgres', 'DROP EXTENSION fasted');
like($err, qr/other objects depend on it.*view pairs depends on function fasted_self_join/s, 'DROP EXTENSION refuses to drop dependent objects');

$node->stop;
done_testing();
