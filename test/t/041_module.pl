# Symbols that the library exports: only those that PostgreSQL looks up, and its
# version.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('module');

# If another extension exports the same name, its function could be called in place of
# ours, or ours in place of its function.
my $library = $node->config_data('--pkglibdir') . '/fasted.so';
my @names = map { (split)[2] =~ s/@.*//r } split /\n/, `nm -D --defined-only '$library'`;
ok(scalar(@names), 'the library exports symbols');
is(join(' ', grep { !/^(Pg_magic_func|_PG_init|(pg_finfo_)?fasted_\w+)$/ } @names), '', 'no symbol that another library may have');

if ($node->pg_version < 18)
{
	$node->stop;
	done_testing();
	exit;
}
is($node->safe_psql('postgres',
		"LOAD 'fasted'; SELECT module_name, version = (SELECT extversion FROM pg_extension WHERE extname = 'fasted') "
		  . "FROM pg_get_loaded_modules() WHERE file_name LIKE 'fasted.%'"),
	'fasted|t', 'name and version of the library');
$node->stop;
done_testing();
