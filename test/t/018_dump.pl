# A database that uses the extension is dumped and restored, and upgraded by pg_upgrade to a
# new cluster: from the same PostgreSQL, or from that of FASTED_OLD_PG_CONFIG,
# where the extension must be installed, too.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Dependents;
use PostgreSQL::Test::Utils;
use Test::More;

my $old_pg_config = $ENV{FASTED_OLD_PG_CONFIG};
chomp(my $bindir = qx{$ENV{PG_CONFIG} --bindir});
chomp(my $old_bindir = defined $old_pg_config ? qx{$old_pg_config --bindir} : $bindir);

my $node = new_node('dump', '', defined $old_pg_config ? (install_path => "$old_bindir/..") : ());
$node->safe_psql('postgres', 'CREATE DATABASE origin');
$node->safe_psql('origin', 'CREATE EXTENSION fasted');
create_dependents($node, 'origin');
my $before = look_at_dependents($node, 'origin');

# --- pg_dump, as a script and as an archive

my $file = "$PostgreSQL::Test::Utils::tmp_check/dump";
for my $format (qw(plain custom))
{
	$node->safe_psql('postgres', 'CREATE DATABASE restored');
	$node->command_ok([ 'pg_dump', '-F', $format, '-f', $file, '-d', $node->connstr('origin') ], "$format: dumped");
	unlike(slurp_file($file), qr/CREATE FUNCTION public\.fasted/, 'without the functions of the extension')
	  if $format eq 'plain';
	$node->command_ok($format eq 'plain'
		? [ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $file ]
		: [ 'pg_restore', '-e', '-j', '2', '-d', $node->connstr('restored'), $file ], "$format: restored");
	is(look_at_dependents($node, 'restored'), $before, "$format: all objects exist and return the same rows");
	$node->safe_psql('postgres', 'DROP DATABASE restored');
	unlink $file;
}

# --- pg_upgrade

# PostgreSQL 18 enables checksums by default, and both clusters must have the same setting
my $new = PostgreSQL::Test::Cluster->new('upgraded');
$new->init($node->safe_psql('postgres', 'SHOW data_checksums') eq 'on' ? () : (no_data_checksums => 1));
$new->append_conf('postgresql.conf', "fasted.engine = cpu\n");
$node->stop;
chdir $PostgreSQL::Test::Utils::tmp_check or die;
$new->command_ok([ 'pg_upgrade', '-d', $node->data_dir, '-D', $new->data_dir, '-b', $old_bindir, '-B', $bindir,
		'-s', $new->host, '-p', $node->port, '-P', $new->port ], 'pg_upgrade');
start_node($new);
is(look_at_dependents($new, 'origin'), $before, 'all objects exist and return the same rows');
$new->safe_psql('origin', 'DROP EXTENSION fasted CASCADE; CREATE EXTENSION fasted');
is($new->safe_psql('origin', "SELECT count(*) > 0 FROM fasted_self_join('items', 'v', 1)"), 't', 'the extension works after it was created again');
$new->stop;
done_testing();
