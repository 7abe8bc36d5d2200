# The library: it exports only symbols that PostgreSQL looks up, it is replaced as a whole, and it
# has a version.
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

# An installation that fails leaves the libraries of the previous one.  In a built source tree.
SKIP:
{
	skip 'no built source tree', 3 unless -e 'Makefile' && -e 'fasted.so';
	my $root = PostgreSQL::Test::Utils::tempdir();
	my $sums = "md5sum '$root" . $node->config_data('--pkglibdir') . "'/*.so";
	# an engine for GPUs that was not built is not compiled here, which would take minutes
	my @install = (qw(make -s -k install-lib install-citus install-cuda), "DESTDIR=$root", -e 'fasted_cuda.so' ? () : 'NVCC=',
		map { -e "$_.so" ? ('-o', "$_.so") : () } qw(fasted fasted_cuda));

	PostgreSQL::Test::Utils::append_to_file("$root/broken", 'for target; do :; done; echo incomplete >"$target"; exit 1');
	is(system(@install), 0, 'the libraries are installed');
	my $before = `$sums`;
	isnt(system(@install, "INSTALL=sh $root/broken"), 0, 'an installation fails');
	is(`$sums`, $before, 'the installed libraries are unchanged');
}

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
