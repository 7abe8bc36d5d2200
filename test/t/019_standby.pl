# Joins on a hot standby, which can write temporary files only.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $primary = new_node('primary', "wal_level = replica\nmax_wal_senders = 5\n");
$primary->safe_psql('postgres', <<'END');
CREATE TABLE items AS SELECT g AS id, array_fill((g % 50)::real, ARRAY[600]) || (g % 7)::real AS v FROM generate_series(1, 1000) g;
ALTER TABLE items ADD PRIMARY KEY (id);
ANALYZE items;
END
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
start_node($standby);
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't', 'this is a standby');

# more rows than memory_limit allows, so that they go to a file; every function that reads rows
for my $query ("SELECT count(*), sum(dist) FROM fasted_self_join('items', 'v', 2)",
	'SELECT count(*) FROM items a JOIN items b ON fasted_within(a.v, b.v, 2)',
	"SELECT count(*), count(DISTINCT cluster) FROM fasted_cluster('items', 'v', 2, 3)",
	"SELECT eps FROM fasted_epsilon('items', 'v', 3, seed => 1)")
{
	my $settings = "SET fasted.memory_limit = '1MB'";
	$settings = 'SELECT' if $query =~ /epsilon/;
	is($standby->safe_psql('postgres', "$settings; $query"), $primary->safe_psql('postgres', "$settings; $query"), $query);
}

$standby->stop;
$primary->stop;
done_testing();
