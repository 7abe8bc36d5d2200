# Every available version can be installed and updated to the default version, with the same
# catalog as a fresh installation.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('upgrade');

# All objects of the extension, as text.
my $catalog = <<'END';
SELECT pg_describe_object(d.classid, d.objid, d.objsubid),
	CASE p.prokind WHEN 'a' THEN (SELECT a::text FROM pg_aggregate a WHERE a.aggfnoid = p.oid)
		ELSE pg_get_functiondef(p.oid) END, p.proacl, obj_description(d.objid, 'pg_proc')
FROM pg_depend d
	JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
	LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE e.extname = 'fasted' AND d.deptype = 'e' ORDER BY 1
END
my $works = <<'END';
CREATE TABLE t (id int PRIMARY KEY, v real[]);
INSERT INTO t VALUES (1, '{0, 0}'), (2, '{3, 4}'), (3, '{100, 0}');
SELECT * FROM fasted_self_join('t', 'v', 5);
DROP TABLE t;
END

my $default = $node->safe_psql('postgres',
	"SELECT default_version FROM pg_available_extensions WHERE name = 'fasted'");
my $fresh = $node->safe_psql('postgres', $catalog);
like($fresh, qr/fasted_self_join/, "version $default has functions");
is($node->safe_psql('postgres', "SELECT extversion FROM pg_extension WHERE extname = 'fasted'"),
	$default, 'the default version is installed by default');

# Versions created by 017, which may run concurrently, are excluded.
my @versions = split /\n/, $node->safe_psql('postgres',
	"SELECT version FROM pg_available_extension_versions WHERE name = 'fasted' AND version !~ '^99' ORDER BY 1");
ok((grep { $_ eq '0.1.0' } @versions), 'the first version can still be installed');

for my $version (@versions)
{
	$node->safe_psql('postgres', 'CREATE DATABASE upgrade');
	$node->safe_psql('upgrade', "CREATE EXTENSION fasted VERSION '$version'");
	is($node->safe_psql('upgrade', "SELECT path IS NOT NULL FROM pg_extension_update_paths('fasted') "
			. "WHERE source = '$version' AND target = '$default' UNION ALL SELECT '$version' = '$default' LIMIT 1"),
		't', "$version: there is a way to $default");
	$node->safe_psql('upgrade', 'ALTER EXTENSION fasted UPDATE');
	is($node->safe_psql('upgrade', "SELECT extversion FROM pg_extension WHERE extname = 'fasted'"),
		$default, "$version: the update leads to $default");
	is($node->safe_psql('upgrade', $catalog), $fresh, "$version: the same catalog after the update");
	is($node->safe_psql('upgrade', $works), '1|2|5', "$version: the functions work");
	$node->safe_psql('postgres', 'DROP DATABASE upgrade');
}

# Dropped, then installed again, in another schema.
$node->safe_psql('postgres', 'DROP EXTENSION fasted');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_proc WHERE proname LIKE 'fasted%' OR pronamespace::regnamespace::text LIKE 'fasted%'"),
	0, 'DROP EXTENSION leaves nothing');
$node->safe_psql('postgres', 'CREATE EXTENSION fasted');
is($node->safe_psql('postgres', $catalog), $fresh, 'the extension can be dropped and installed again');
$node->safe_psql('postgres', 'DROP EXTENSION fasted; CREATE SCHEMA elsewhere; CREATE EXTENSION fasted SCHEMA elsewhere');
is($node->safe_psql('postgres', "SET search_path = elsewhere, public; $works"), '1|2|5',
	'the extension can be installed in another schema');
is($node->safe_psql('postgres',
		"CREATE TABLE t (id uuid PRIMARY KEY, v real[]); SET search_path = pg_catalog;"
		  . "SELECT count(*) FROM elsewhere.fasted_self_join('public.t', 'v', 5, id_type => NULL::uuid)"),
	0, 'a function in another schema is called by its qualified name');

# Which roles may install it.
$node->safe_psql('postgres', 'CREATE ROLE plain LOGIN; DROP EXTENSION fasted');
my ($status, undef, $err) = $node->psql('postgres', 'CREATE EXTENSION fasted',
	extra_params => [ '-U', 'plain' ]);
like($err, qr/permission denied/, 'a role without privileges may not install it');

$node->stop;
done_testing();
