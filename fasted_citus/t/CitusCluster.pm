# A coordinator and three workers, all with Citus and the extension.
package CitusCluster;

use strict;
use warnings;
use Exporter qw(import);
use FastedTest;
use Test::More;

our @EXPORT = qw(new_cluster is_same_rows slices_at $divided);

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

1;
