-- New rows in the clusters of earlier rows, by the statements of functions.md.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

-- Four groups of different densities, background, and as many new rows.  Distances differ.
CREATE TABLE rows_of (kind text, id int, v float8[]);
INSERT INTO rows_of
SELECT kind, i, ARRAY(SELECT CASE WHEN i % 6 < 4 THEN (i % 6 >> k & 1) * 4 + (1 + i % 6) * 0.3 * r ELSE 3 + 6 * r END
	FROM (SELECT k, hashint4(hashint4(i * 2 + k * 5000) # (kind = 'new')::int) / 2147483648.0::float8 AS r FROM generate_series(0, 2) AS k) AS u ORDER BY k)
FROM (VALUES ('old', 300), ('new', 60)) AS kinds (kind, n), generate_series(1, n) AS i;
CREATE VIEW old AS SELECT id, id % 2 AS g, v FROM rows_of WHERE kind = 'old';
CREATE VIEW new AS SELECT id, id % 2 AS g, v FROM rows_of WHERE kind = 'new';
CREATE VIEW old_reals AS SELECT id, g, v::real[] AS v FROM old;
CREATE VIEW old_bits AS SELECT id, g, hashint4(id % 9)::bit(32) # (hashint4(id + 100) & hashint4(id + 900) & hashint4(id + 1700))::bit(32) AS v FROM old;

-- The distance of the min_samples-th nearest row, itself included.
-- no workers for the subquery of each row
CREATE FUNCTION wrong_cores(points regclass, distance text, metric text, samples int, partition name DEFAULT NULL) RETURNS SETOF bigint LANGUAGE plpgsql
SET max_parallel_workers_per_gather = 0 AS $$
BEGIN
	RETURN QUERY EXECUTE format('
		SELECT count(*) FROM fasted_hdbscan(%1$L, ''v'', 5, $1, metric => $2, id_column => ''id'', partition_by => $3) AS h
		WHERE core_distance IS DISTINCT FROM (
			SELECT CASE WHEN $1 = 1 THEN 0 ELSE coalesce((array_agg(d ORDER BY d))[$1 - 1], ''Infinity'') END
			FROM %1$s AS a, %1$s AS b, %2$s(a.v, b.v) AS d
			WHERE a.id = h.id AND b.id <> a.id AND d <> ''NaN'' AND ($3 IS NULL OR a.g = b.g))', points, distance) USING samples, metric, partition;
END $$;
SELECT points, samples, partition, wrong_cores(points, distance, metric, samples, partition)
FROM (VALUES ('old'::regclass, 'fasted_distance', 'l2'), ('old_reals', 'fasted_cosine_distance', 'cosine'), ('old_bits', 'fasted_jaccard_distance', 'jaccard')) AS c (points, distance, metric),
	unnest('{1,2,7}'::int[]) AS samples, unnest('{NULL,g}'::name[]) AS partition;
SELECT core_distance, count(*) FROM fasted_hdbscan('old', 'v', 5, 301, id_column => 'id') GROUP BY 1;

-- The statement of functions.md, for all new rows and the k nearest old ones.
CREATE TABLE clusters (id int, g int, cluster int, core_distance float8, birth_distance float8, death_distance float8, v float8[]);
CREATE FUNCTION assign(points regclass, samples int, k int, metric text DEFAULT 'l2', partition name DEFAULT NULL)
RETURNS TABLE (id bigint, cluster int, probability float8, nearest bigint, reach float8, certain boolean) LANGUAGE sql AS $$
	SELECT DISTINCT ON (id_a) id_a, CASE WHEN reach <= birth_distance THEN cluster END,
		CASE WHEN reach <= birth_distance THEN least(1, death_distance / nullif(reach, 0)) ELSE 0 END, id_b, reach, n < k OR reach <= last
	FROM (SELECT *, max(dist) FILTER (WHERE rank <= samples) OVER w AS core, max(dist) OVER w AS last, count(*) OVER w AS n
			FROM fasted_knn_join(points, 'v', 'clusters', 'v', k, metric, NULL, 'id', 'id', partition)
			WINDOW w AS (PARTITION BY id_a)) AS n
		JOIN clusters ON id = id_b, greatest(dist, core, core_distance) AS reach
	ORDER BY id_a, reach, rank $$;
CREATE PROCEDURE cluster_rows(size int, samples int, metric text DEFAULT 'l2', method text DEFAULT 'eom', epsilon float8 DEFAULT 0, single boolean DEFAULT false, partition name DEFAULT NULL) LANGUAGE sql AS $$
	TRUNCATE clusters;
	INSERT INTO clusters SELECT id, g, cluster, core_distance, birth_distance, death_distance, v
	FROM fasted_hdbscan('old', 'v', size, samples, method, epsilon, single, NULL, metric, 'id', partition) JOIN old USING (id) $$;
-- mostly the k nearest rows include the nearest one by mutual reachability distance
CREATE FUNCTION compared(samples int, k int, OUT rows bigint, OUT certain bigint, OUT other_rows bigint) LANGUAGE sql AS $$
	WITH cores AS MATERIALIZED (
		SELECT n.id, (array_agg(d ORDER BY d))[samples] AS core FROM new n, old o, fasted_distance(n.v, o.v) AS d GROUP BY n.id),
	nearest AS (
		SELECT DISTINCT ON (n.id) n.id, c.id AS nearest, reach FROM new n JOIN cores USING (id), clusters c, fasted_distance(n.v, c.v) AS d, greatest(d, core, core_distance) AS reach
		ORDER BY n.id, reach, d, c.id)
	SELECT count(*), count(*) FILTER (WHERE certain), count(*) FILTER (WHERE certain AND (a.nearest, a.reach) <> (n.nearest, n.reach))
	FROM assign('new', samples, k) a JOIN nearest n USING (id) $$;
CALL cluster_rows(15, 4);
SELECT k, (compared(4, k)).* FROM unnest('{4,5,8,16,400}'::int[]) AS k;

-- These are also the labels and probabilities of approximate_predict in hdbscan 0.8.44, with min_samples 3, which
-- does not count the row itself.
SELECT array_agg(coalesce(cluster, -1) ORDER BY id) AS clusters, array_agg(round(probability::numeric, 4) ORDER BY id) AS probabilities FROM assign('new', 4, 8);

-- Old rows, given again, get their own clusters.
CREATE FUNCTION moved(samples int, metric text DEFAULT 'l2', partition name DEFAULT NULL, OUT clusters bigint, OUT noise bigint, OUT moved bigint) LANGUAGE sql AS $$
	SELECT count(DISTINCT c.cluster), count(*) FILTER (WHERE c.cluster IS NULL), count(*) FILTER (WHERE c.cluster IS DISTINCT FROM a.cluster)
	FROM assign('old', samples, samples * 2, metric, partition) a JOIN clusters c USING (id) $$;
CALL cluster_rows(12, 1);
SELECT * FROM moved(1);
CALL cluster_rows(5, 5, 'cosine', 'leaf');
SELECT * FROM moved(5, 'cosine');
CALL cluster_rows(5, 3, partition => 'g');
SELECT * FROM moved(3, partition => 'g');
CALL cluster_rows(5, 3, method => 'leaf', epsilon => 0.5);
SELECT * FROM moved(3);
-- all rows may be one cluster: those that leave it last, or within epsilon
CALL cluster_rows(150, 3, single => true);
SELECT * FROM moved(3);
CALL cluster_rows(150, 3, single => true, epsilon => 3);
SELECT * FROM moved(3);
SELECT bool_and(birth_distance = 3) AS epsilon, count(*) FROM clusters WHERE cluster IS NOT NULL;

-- DBSCAN and components: the cluster of the nearest core row within eps
CREATE TABLE members AS SELECT id, cluster, core, v FROM fasted_cluster('old', 'v', 0.6, 4, id_column => 'id') JOIN old USING (id);
CREATE VIEW cores AS SELECT * FROM members WHERE core;
SELECT count(*), count(m.cluster), count(*) FILTER (WHERE NOT m.core AND m.cluster IS NOT NULL) AS border, count(*) FILTER (WHERE m.cluster IS DISTINCT FROM c.cluster) AS moved
FROM members m LEFT JOIN fasted_knn_join('old', 'v', 'cores', 'v', 1, max_distance => 0.6, a_id => 'id', b_id => 'id') ON id_a = m.id LEFT JOIN cores c ON c.id = id_b;

DROP FUNCTION wrong_cores, assign, compared, moved;
DROP PROCEDURE cluster_rows;
DROP VIEW old, new, old_reals, old_bits, cores;
DROP TABLE rows_of, clusters, members;
