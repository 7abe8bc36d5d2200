# Objects that depend on the extension: created once, and compared after the extension
# was updated, dumped or upgraded.
package Dependents;

use strict;
use warnings;
use Exporter qw(import);

our @EXPORT = qw(create_dependents look_at_dependents);

sub create_dependents
{
	my ($node, $database) = @_;
	$node->safe_psql($database, <<'END');
CREATE ROLE reader;
CREATE TABLE items (id int PRIMARY KEY, tenant int, v real[],
	twin real[] DEFAULT '{0, 0}', CONSTRAINT near_twin CHECK (fasted_within(v, twin, 1000)),
	length float8 GENERATED ALWAYS AS (fasted_distance(v, '{0, 0}')) STORED);
INSERT INTO items SELECT g, g % 3, ARRAY[g % 17, g % 5] FROM generate_series(1, 200) g;
CREATE INDEX by_distance ON items (fasted_distance(v, '{1, 2}'));
CREATE INDEX exact ON items USING fasted (v real_cosine_ops, tenant) WHERE id > 5;
CREATE TABLE unlike (id int, v real[], EXCLUDE USING fasted (fasted_ball(v, 0.4) WITH &&, id WITH =));
INSERT INTO unlike SELECT id % 20, v FROM items ON CONFLICT DO NOTHING;
CREATE VIEW near AS SELECT id FROM items WHERE v <=> '{1, 2}'::float8[] < 0.2 AND fasted_ball(v, 1) && '<{1,2},4>';
CREATE VIEW pairs AS SELECT * FROM fasted_self_join('items', 'v', 1);
CREATE VIEW named AS SELECT * FROM fasted_self_join(vector_column => 'v', relation => 'items', ordered => true, eps => 1.5);
CREATE VIEW joined AS SELECT a.id, b.id AS other FROM items a JOIN items b
	ON a.tenant = b.tenant AND fasted_within(a.v, b.v, 2);
CREATE VIEW new AS SELECT * FROM items a WHERE NOT EXISTS
	(SELECT FROM items b WHERE b.id < a.id AND fasted_within(a.v, b.v, 0.01, 'cosine'));
CREATE VIEW kept AS SELECT * FROM fasted_keep_one('items', 'v', 1);
CREATE VIEW clusters AS SELECT * FROM fasted_cluster('items', 'v', 1, 3);
CREATE VIEW edges AS SELECT * FROM fasted_spanning_tree('items', 'v', 2, partition_by => 'tenant');
CREATE VIEW memberships AS SELECT id, fasted_hdbscan_cluster(v, 3) OVER (ORDER BY id) AS membership FROM items;
CREATE VIEW nearest AS SELECT * FROM fasted_knn_join('items', 'v', 'items', 'v', 3, partition_by => 'tenant');
CREATE MATERIALIZED VIEW counts AS SELECT * FROM fasted_neighbors('items', 'v', 2);
CREATE VIEW progress AS SELECT pid, phase FROM pg_stat_fasted_progress;
CREATE FUNCTION atomic(x float8) RETURNS bigint STABLE
	BEGIN ATOMIC SELECT count(*) FROM fasted_self_join('items', 'v', x, id_type => NULL::int); END;
CREATE FUNCTION late(x float8) RETURNS bigint LANGUAGE plpgsql AS
	$$ BEGIN RETURN (SELECT count(*) FROM items a JOIN items b ON fasted_distance(a.v, b.v) < x); END $$;
GRANT SELECT ON pairs, items TO reader;
REVOKE EXECUTE ON FUNCTION fasted_epsilon FROM PUBLIC;
ANALYZE;
END
	return;
}

# The result of all dependent objects, as text.
my @queries = (
	(map { "SELECT count(*), md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM $_ t" }
		  qw(pairs named joined new kept clusters edges memberships nearest counts progress items near unlike)),
	'SELECT atomic(1), late(2)',
	"SELECT count(*) FROM items WHERE fasted_distance(v, '{1, 2}') < 3",
	"SELECT pg_get_viewdef(oid) FROM pg_class WHERE relkind IN ('v', 'm') AND relnamespace = 'public'::regnamespace\n"
	  . "AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e') ORDER BY relname",
	"SELECT pg_get_indexdef('by_distance'::regclass), pg_get_indexdef('exact'::regclass), pg_get_indexdef('unlike_fasted_ball_id_excl'::regclass)",
	"SELECT fasted_index_check('exact'), fasted_index_check('unlike_fasted_ball_id_excl')",
	"SET enable_seqscan = off; SELECT id FROM items WHERE id > 5 ORDER BY v <=> '{1, 2}', id LIMIT 7",
	"SELECT has_function_privilege('reader', (SELECT oid FROM pg_proc WHERE proname = 'fasted_epsilon'), 'EXECUTE')",
	'SET ROLE reader; SELECT count(*) FROM pairs');

sub look_at_dependents
{
	my ($node, $database) = @_;
	return join "\n", map { $node->safe_psql($database, $_) } @queries;
}

1;
