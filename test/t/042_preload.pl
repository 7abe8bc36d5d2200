# CREATE EXTENSION advises to preload the library, unless sessions do so already, and gives
# the statement.  fasted_info gives the same advice later.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('preload');
my $create = 'CREATE EXTENSION fasted';
my $preloading = "SELECT state, advice FROM fasted_info() WHERE component = 'preloading'";

# Returns the messages that statements print in a new session.
sub said
{
	my ($database, $sql, @params) = @_;
	my ($status, $out, $err) = $node->psql($database, $sql, extra_params => [@params]);
	return $err;
}

# The statement that a message or fasted_info recommends.
sub statement
{
	my ($advice) = @_;
	return $advice =~ /takes effect in new sessions: (ALTER DATABASE .*)/ ? $1 : "-- none in: $advice";
}

# In a database whose name needs quotes.
$node->safe_psql('postgres', 'CREATE DATABASE "An ""odd"" name"');
my $odd = 'An "odd" name';
my $notice = said($odd, $create);
like($notice, qr/NOTICE:  sessions do not preload .*^DETAIL: .*^HINT:  Run this statement/ms, 'CREATE EXTENSION raises a NOTICE');
is(statement($notice), q{ALTER DATABASE "An ""odd"" name" SET session_preload_libraries = 'fasted'}, 'the hint gives the statement');
like($node->safe_psql($odd, $preloading), qr/^none.*\|Run.* = 'fasted'$/, 'fasted_info gives the same statement');
like($node->safe_psql($odd, statement($notice) . "; $preloading"), qr/^by session_preload_libraries, in new sessions\|Reconnect: /,
	'the session that has run the statement is told to reconnect');
is($node->safe_psql($odd, $preloading), 'by session_preload_libraries|', 'the recommended statement is effective in new sessions');
is(said($odd, "DROP EXTENSION fasted; $create"), '', 'no NOTICE if the library is preloaded already');

# Cases without a NOTICE.
is(said('postgres', "BEGIN; DROP EXTENSION fasted; $create; ALTER DATABASE postgres SET session_preload_libraries = 'plpgsql', 'fasted'; COMMIT;
	DROP EXTENSION fasted; $create; ALTER DATABASE postgres RESET ALL"), '', 'no NOTICE if new sessions preload the library');
is(said('postgres', "ALTER ROLE CURRENT_USER SET session_preload_libraries = 'fasted'; DROP EXTENSION fasted; $create;
	ALTER ROLE CURRENT_USER RESET ALL"), '', 'nor if the role has the setting');
like(said('postgres', "ALTER ROLE CURRENT_USER SET session_preload_libraries = 'plpgsql';
	ALTER DATABASE postgres SET session_preload_libraries = 'fasted'; DROP EXTENSION fasted; $create;
	ALTER ROLE CURRENT_USER RESET ALL; ALTER DATABASE postgres RESET ALL"), qr/NOTICE:  sessions do not preload.*ALTER ROLE .* IN DATABASE postgres SET session_preload_libraries = 'plpgsql', 'fasted'$/s,
	'a NOTICE if the setting of the role overrides that of the database, with a statement for the role');
is(said('postgres', "SET client_min_messages = warning; DROP EXTENSION fasted; $create"), '', 'no NOTICE if client_min_messages excludes it');
is(said('postgres', "BEGIN; DROP EXTENSION fasted; $create; ROLLBACK; SELECT 1"), '', 'no NOTICE after ROLLBACK');
is(said('postgres', "BEGIN; DROP EXTENSION fasted; SAVEPOINT s; $create; ROLLBACK TO s; COMMIT"), '', 'no NOTICE after ROLLBACK TO');
is(() = said('postgres', "BEGIN; $create; CREATE TABLE t (); COMMIT; DROP TABLE t") =~ /NOTICE/g, 1, 'a single NOTICE, at COMMIT');

# Other libraries are retained.  A user who may not read the setting is not shown it.
$node->safe_psql('postgres', q{CREATE ROLE owner LOGIN; CREATE DATABASE other OWNER owner;
	ALTER DATABASE other SET session_preload_libraries = 'plpgsql', '$libdir/plpgsql'});
like(said('other', $create, '-U', 'owner'), qr/^HINT:  Ask a superuser to add "fasted" to session_preload_libraries\.$/m,
	'a user without the privilege does not see the list');
my $advice = $node->safe_psql('other', $preloading);
is(statement($advice), q{ALTER DATABASE other SET session_preload_libraries = 'plpgsql', '$libdir/plpgsql', 'fasted'},
	'other users see the complete list');
$node->safe_psql('other', statement($advice));
is($node->safe_psql('other', "SHOW session_preload_libraries; $preloading"),
	qq{plpgsql, "\$libdir/plpgsql", fasted\nby session_preload_libraries|}, 'the recommended list with other libraries can be set');

# Which users may set it.
$node->safe_psql('postgres', 'CREATE DATABASE plain OWNER owner');
like(said('plain', $create, '-U', 'owner'), qr/^HINT:  Ask a superuser to run this statement/m, 'the hint for a user without the privilege');
$node->safe_psql('postgres', 'GRANT SET ON PARAMETER session_preload_libraries TO owner');
like($notice = said('plain', "DROP EXTENSION fasted; $create", '-U', 'owner'), qr/^HINT:  Run this statement/m, 'the hint for a user with the privilege');
is(said('plain', statement($notice), '-U', 'owner'), '', 'the owner of the database runs the recommended statement');
is($node->safe_psql('plain', $preloading), 'by session_preload_libraries|', 'the statement of the owner applies to all users');

# With pgvector installed, the row of fasted_info names the consequence, which is checked here.
SKIP:
{
	skip 'pgvector is not installed', 4
	  unless $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'");
	my $query = "SELECT state ~ '^\\d', advice IS NOT NULL FROM fasted_info() WHERE component = 'pgvector'";
	is($node->safe_psql($_->[0], "CREATE EXTENSION vector; $query"), $_->[1], "pgvector in $_->[0]")
	  for [ 'postgres', 't|t' ], [ 'plain', 't|f' ];
	my $plan = <<'END';
CREATE TABLE t AS SELECT i AS id, ARRAY[i % 7, i % 11, i]::vector(3) AS v FROM generate_series(1, 3000) AS i;
ANALYZE t;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t a JOIN t b ON a.v <-> b.v < 0.5;
END
	like($node->safe_psql('postgres', $plan), qr/Nested Loop/, 'a nested loop, in a session without the library');
	like($node->safe_psql('plain', $plan), qr/Custom Scan \(FastedJoin\)/, 'the join node, in a session with the library');
}

# Shared memory of more than 4 GB.
my $pages = "SELECT state, advice FROM fasted_info() WHERE component = 'huge pages'";
is($node->safe_psql('plain', $pages), '', 'no row about huge pages with small shared_buffers');
$node->append_conf('postgresql.conf', "shared_buffers = '4608MB'\nhuge_pages = off\n");
$node->restart;
is($node->safe_psql('plain', $pages), 'off (huge_pages = off, shared_buffers 4.5 GB)|Reserve huge pages: tables are then read faster.',
	'advice to use huge pages with large shared_buffers');

$node->stop;
done_testing();
