# A coordinator and three workers, all with Citus and the extension.
package CitusCluster;

use strict;
use warnings;
use Exporter qw(import);
use FastedTest;
use Test::More;

our @EXPORT = qw(new_cluster is_same_rows slices_at make_late make_prompt changes_before_late_read $divided);

# Matches EXPLAIN (ANALYZE) if the work was divided among three workers.
our $divided = qr/Citus Workers: 127\.0\.0\.1:\d+ \(3\d%.*, 127\.0\.0\.1:\d+ \(3\d%.*, 127\.0\.0\.1:\d+ \(3\d%/;

# Returns the nodes, the coordinator first.  Joins of distributed tables of any size are
# distributed, unless the test sets otherwise.  FASTED_ENGINE selects the engine of all nodes (default cpu).
sub new_cluster
{
	my ($name) = @_;
	my $engine = $ENV{FASTED_ENGINE} // 'cpu';
	my @nodes = map { new_node("${name}_$_", <<"END") } qw(coordinator worker1 worker2 worker3);
fasted.engine = $engine
listen_addresses = '127.0.0.1'
shared_preload_libraries = 'citus'
citus.shard_count = 6
citus.node_conninfo = 'sslmode=disable'
citus.recover_2pc_interval = -1
max_connections = 150
max_prepared_transactions = 50
shared_buffers = 32MB
fsync = off
jit = off
restart_after_crash = on
fasted_citus.distribute = force
fasted.threads = 1
END
	$_->safe_psql('postgres', 'CREATE EXTENSION citus') for @nodes;
	my ($coordinator, @workers) = @nodes;
	$coordinator->safe_psql('postgres', "SELECT citus_set_coordinator_host('127.0.0.1', " . $coordinator->port . ")");
	$coordinator->safe_psql('postgres', "SELECT citus_add_node('127.0.0.1', " . $_->port . ")") for @workers;
	$coordinator->safe_psql('postgres', 'CREATE EXTENSION fasted_citus');
	return @nodes;
}

# Compares a query over distributed tables with the same over local tables.  Returns the number
# of rows.
sub is_same_rows
{
	my ($node, $divided_query, $plain_query, $name, $settings) = @_;
	my $both = $node->safe_psql('postgres', ($settings // '') . <<END);
;
CREATE TEMP TABLE x AS $divided_query;
CREATE TEMP TABLE y AS $plain_query;
SELECT (SELECT count(*) FROM x), (SELECT count(*) FROM y),
	(SELECT count(*) FROM (TABLE x EXCEPT ALL TABLE y) d)
END
	my ($x, $y, $differ) = split(/\|/, $both);
	ok($x == $y && $differ == 0, "$name: $x rows") or diag($both);
	return $x;
}

# Sessions on a node that join a slice.
sub slices_at
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT fasted_citus.%_slice(%' AND pid <> pg_backend_pid()");
}

# Lets a worker's function that joins slices wait, before it reads rows, until no session on that node has a lock.
sub make_late
{
	my ($worker, $function) = @_;
	my $types = $worker->safe_psql('postgres', "SELECT oidvectortypes(proargtypes) FROM pg_proc WHERE oid = '$function'::regproc");
	my $arguments = join(', ', map { "\$$_" } 1 .. split(/,/, $types));
	$worker->safe_psql('postgres', <<"END");
SET citus.enable_ddl_propagation = off;
ALTER FUNCTION $function($types) RENAME TO prompt_slice;
CREATE FUNCTION $function($types) RETURNS SETOF bytea LANGUAGE plpgsql VOLATILE AS \$\$
BEGIN
	PERFORM pg_advisory_xact_lock_shared(1);
	RETURN QUERY SELECT fasted_citus.prompt_slice($arguments);
END \$\$;
END
}

sub make_prompt
{
	my ($worker, $function) = @_;
	my $types = $worker->safe_psql('postgres', "SELECT oidvectortypes(proargtypes) FROM pg_proc WHERE oid = '$function'::regproc");
	$worker->safe_psql('postgres', <<"END");
SET citus.enable_ddl_propagation = off;
DROP FUNCTION $function($types);
ALTER FUNCTION fasted_citus.prompt_slice($types) RENAME TO @{[ $function =~ s/.*\.//r ]};
END
}

# Runs a query that joins `table`, and changes rows after the session has read its rows and before the
# late worker reads its own: the query must fail.
sub changes_before_late_read
{
	my ($node, $worker, $name, $table, $query, $change, $undo) = @_;
	my $session = FastedTest::Session->new($node);
	my $lock = FastedTest::Session->new($worker);
	$lock->query('SELECT pg_advisory_lock(1)');
	$session->send("\\set VERBOSITY verbose\n$query;\n\\echo done");
	ok(wait_until(sub { slices_at($worker) ne '' }), "$name: the late worker has received its request");
	ok(wait_until(sub { $node->safe_psql('postgres', 'SELECT phase FROM pg_stat_fasted_progress WHERE pid = ' . $session->pid) eq 'joining' }),
		"$name: the session has read its rows");
	$node->safe_psql('postgres', $change);
	$lock->quit;
	$session->wait_for(qr/(done)/);
	wait_until(sub { $session->{run}->pump_nb; $session->{err} =~ /HINT/ }, 5);
	like($session->{err}, qr/40001: could not join "$table".*concurrent writes.*DETAIL:.*contents or their order differ.*HINT:.*Try again/s, $name);
	$node->safe_psql('postgres', $undo);
}

1;
