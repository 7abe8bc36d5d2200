# CREATE EXTENSION says that sessions should preload the library, unless they do, and with
# which statement; fasted_info says the same later.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('preload');
my $create = 'CREATE EXTENSION fasted';
my $preloading = "SELECT state, advice FROM fasted_info() WHERE component = 'preloading'";

# What the statements print as messages, in a session of its own.
sub said
{
	my ($database, $sql, @params) = @_;
	my ($status, $out, $err) = $node->psql($database, $sql, extra_params => [@params]);
	return $err;
}

# The statement that a message or fasted_info advises.
sub statement
{
	my ($advice) = @_;
	return $advice =~ /takes effect in new sessions: (ALTER DATABASE .*)/ ? $1 : "-- none in: $advice";
}

# In a database whose name needs quotes.
$node->safe_psql('postgres', 'CREATE DATABASE "An ""odd"" name"');
my $odd = 'An "odd" name';
my $notice = said($odd, $create);
like($notice, qr/NOTICE:  sessions do not preload .*^DETAIL: .*^HINT:  Run this statement/ms, 'a NOTICE');
is(statement($notice), q{ALTER DATABASE "An ""odd"" name" SET session_preload_libraries = 'fasted'}, 'with the statement');
like($node->safe_psql($odd, $preloading), qr/^none.*\|Run.* = 'fasted'$/, 'fasted_info advises it, too');
$node->safe_psql($odd, statement($notice));
is($node->safe_psql($odd, $preloading), 'by session_preload_libraries|', 'it has effect in new sessions');
is(said($odd, "DROP EXTENSION fasted; $create"), '', 'where there is no NOTICE');

# When there is none.
is(said('postgres', "SET client_min_messages = warning; DROP EXTENSION fasted; $create"), '', 'not for clients that want none');
is(said('postgres', "BEGIN; DROP EXTENSION fasted; $create; ROLLBACK; SELECT 1"), '', 'not after ROLLBACK');
is(said('postgres', "BEGIN; DROP EXTENSION fasted; SAVEPOINT s; $create; ROLLBACK TO s; COMMIT"), '', 'nor after ROLLBACK TO');
is(() = said('postgres', "BEGIN; $create; CREATE TABLE t (); COMMIT; DROP TABLE t") =~ /NOTICE/g, 1, 'once, at COMMIT');

# Other libraries stay.  Who may not read the list is not shown it.
$node->safe_psql('postgres', q{CREATE ROLE owner LOGIN; CREATE DATABASE other OWNER owner;
	ALTER DATABASE other SET session_preload_libraries = 'plpgsql', '$libdir/plpgsql'});
like(said('other', $create, '-U', 'owner'), qr/^HINT:  Ask a superuser to add "fasted" to session_preload_libraries\.$/m,
	'the list is not for all');
my $advice = $node->safe_psql('other', $preloading);
is(statement($advice), q{ALTER DATABASE other SET session_preload_libraries = 'plpgsql', '$libdir/plpgsql', 'fasted'},
	'for others it is complete');
$node->safe_psql('other', statement($advice));
is($node->safe_psql('other', "SHOW session_preload_libraries; $preloading"),
	qq{plpgsql, "\$libdir/plpgsql", fasted\nby session_preload_libraries|}, 'and can be set so');

# Who may set it.
$node->safe_psql('postgres', 'CREATE DATABASE plain OWNER owner');
like(said('plain', $create, '-U', 'owner'), qr/^HINT:  Ask a superuser to run this statement/m, 'without the privilege');
$node->safe_psql('postgres', 'GRANT SET ON PARAMETER session_preload_libraries TO owner');
like($notice = said('plain', "DROP EXTENSION fasted; $create", '-U', 'owner'), qr/^HINT:  Run this statement/m, 'with it');
is(said('plain', statement($notice), '-U', 'owner'), '', 'the owner runs it');
is($node->safe_psql('plain', $preloading), 'by session_preload_libraries|', 'for all');

# With pgvector installed: its row names the consequence, and so it is.
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
	like($node->safe_psql('plain', $plan), qr/Custom Scan \(FastedJoin\)/, 'not where it is preloaded');
}

$node->stop;
done_testing();
