# The server tells which version of the library it has loaded, from PostgreSQL 18 on.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('module');
plan skip_all => 'PostgreSQL before 18 does not ask' if $node->pg_version < 18;
is($node->safe_psql('postgres',
		"LOAD 'fasted'; SELECT module_name, version = (SELECT extversion FROM pg_extension WHERE extname = 'fasted') "
		  . "FROM pg_get_loaded_modules() WHERE file_name LIKE 'fasted.%'"),
	'fasted|t', 'name and version of the library');
$node->stop;
done_testing();
