-- Minimum spanning trees and HDBSCAN.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET extra_float_digits = 1;

-- --- spanning trees, compared with Kruskal's algorithm over all pairs

-- Six groups of rows that are far apart, so that lists of nearest rows do not connect them.
-- Coordinates are whole numbers, so there are duplicates and many equal distances.  Ids are in
-- another order than rows, and some vectors are zero or NULL.
CREATE TABLE reals (id int PRIMARY KEY, g int, v real[]);
INSERT INTO reals
SELECT i * 73 % 211, i % 3, CASE WHEN i % 40 = 7 THEN NULL WHEN i % 50 = 9 THEN '{0,0,0,0}' ELSE
	ARRAY[(hashint4(i) & 7) + 100 * (i % 6), (hashint4(i + 1000) & 7) - 30 * (i % 4), hashint4(i + 2000) & 3, hashint4(i + 3000) & 1] END
FROM generate_series(1, 200) AS i;
-- coordinates that are not representable in real
CREATE TABLE doubles AS SELECT id, g, (SELECT array_agg(x::float8 + id % 5 * 1e-9 / (1 + i) ORDER BY i) FROM unnest(v) WITH ORDINALITY AS u (x, i)) AS v FROM reals;
UPDATE doubles SET v = '{0,0,0,0}' WHERE id IN (SELECT id FROM reals WHERE v = '{0,0,0,0}');
CREATE TABLE bits AS SELECT id, g, (hashint4(id % 6)::bit(32) || hashint4(id % 6 + 10)::bit(32)) # (hashint4(id) & hashint4(id + 500) & hashint4(id + 900))::bit(64) AS v FROM reals WHERE v IS NOT NULL;
UPDATE bits SET v = 0::bit(64) WHERE id % 50 = 9;
-- so many copies of one row, in each partition, that the engine gets only some of them
CREATE TABLE copied AS SELECT id, g, CASE WHEN id % 5 < 4 AND v IS NOT NULL THEN '{1,2,3,4}' ELSE v END AS v FROM reals;
CREATE TABLE copied_bits AS SELECT id, g, CASE WHEN id % 5 < 4 THEN repeat('01', 32)::bit(64) ELSE v END AS v FROM bits;
ANALYZE reals, doubles, bits, copied, copied_bits;

CREATE FUNCTION right_tree(points regclass, distance text, samples int, condition text DEFAULT 'true')
RETURNS TABLE (id_a bigint, id_b bigint, dist float8) LANGUAGE plpgsql AS $$
DECLARE
	component bigint[] = array(SELECT generate_series(1, 300));
BEGIN
	FOR id_a, id_b, dist IN EXECUTE format('
		WITH pairs AS MATERIALIZED (
			SELECT * FROM (SELECT a.id AS a, b.id AS b, %2$s(a.v, b.v) AS d FROM %1$s a JOIN %1$s b ON a.id <> b.id AND %3$s) AS p WHERE d <> ''NaN''),
		cores AS MATERIALIZED (
			SELECT a AS id, CASE WHEN $1 = 1 THEN ''-Infinity'' ELSE coalesce((array_agg(d ORDER BY d))[$1 - 1], ''Infinity'') END AS d FROM pairs GROUP BY a)
		SELECT a, b, greatest(p.d, x.d, y.d) FROM pairs p JOIN cores x ON x.id = a JOIN cores y ON y.id = b
		WHERE a < b AND greatest(p.d, x.d, y.d) < ''Infinity'' ORDER BY 3, 1, 2', points, distance, condition) USING samples
	LOOP
		CONTINUE WHEN component[id_a] = component[id_b];
		component = array_replace(component, component[id_b], component[id_a]);
		RETURN NEXT;
	END LOOP;
END $$;

CREATE TABLE cases (points regclass, metric text, distance text, samples int);
INSERT INTO cases SELECT p::regclass, m, d, s
FROM (VALUES ('reals', 'l2', 'fasted_distance'), ('reals', 'cosine', 'fasted_cosine_distance'), ('reals', 'inner_product', 'fasted_negative_inner_product'),
	('doubles', 'l2', 'fasted_distance'), ('doubles', 'cosine', 'fasted_cosine_distance'), ('doubles', 'inner_product', 'fasted_negative_inner_product'),
	('bits', 'hamming', 'fasted_hamming_distance'), ('bits', 'jaccard', 'fasted_jaccard_distance'),
	('copied', 'l2', 'fasted_distance'), ('copied', 'cosine', 'fasted_cosine_distance'), ('copied', 'inner_product', 'fasted_negative_inner_product'),
	('copied_bits', 'hamming', 'fasted_hamming_distance'), ('copied_bits', 'jaccard', 'fasted_jaccard_distance')) AS c (p, m, d), unnest('{1,4}'::int[]) AS s;
CREATE TABLE right_trees AS
SELECT c.points, c.metric, c.samples, false AS partitioned, count(*) AS edges, array_agg((id_a, id_b, float8send(dist))::text) AS tree
FROM cases c, right_tree(c.points, c.distance, c.samples) GROUP BY 1, 2, 3
UNION ALL
SELECT c.points, c.metric, c.samples, true, count(*), array_agg((id_a, id_b, float8send(dist))::text)
FROM cases c, right_tree(c.points, c.distance, c.samples, 'a.g = b.g') GROUP BY 1, 2, 3;
-- the order of the edges, ids and bits of distances are the same
SELECT points, metric, samples, partitioned, edges, tree = (
	SELECT array_agg((id_a, id_b, float8send(dist))::text)
	FROM fasted_spanning_tree(points, 'v', samples, metric, 'id', CASE WHEN partitioned THEN 'g' END)) AS same
FROM right_trees ORDER BY points::text, metric, samples, partitioned;
-- as a stored result, and for keys of another type
SET fasted.scan_node = off;
SELECT tree = (SELECT array_agg((id_a, id_b, float8send(dist))::text) FROM fasted_spanning_tree('reals', 'v', 4))
FROM right_trees WHERE points = 'reals'::regclass AND metric = 'l2' AND samples = 4 AND NOT partitioned;
RESET fasted.scan_node;
CREATE TABLE named AS SELECT lpad(id::text, 3, '0') AS id, v FROM reals;
SELECT tree = (SELECT array_agg((id_a::int, id_b::int, float8send(dist))::text) FROM fasted_spanning_tree('named', 'v', 4, id_type => NULL::text, id_column => 'id'))
FROM right_trees WHERE points = 'reals'::regclass AND metric = 'l2' AND samples = 4 AND NOT partitioned;
SELECT * FROM fasted_spanning_tree('named', 'v', id_column => 'id');
\echo :SQLSTATE

-- few rows, equal rows, more samples than rows
CREATE TABLE few (id int PRIMARY KEY, v real[]);
SELECT * FROM fasted_spanning_tree('few', 'v');
INSERT INTO few VALUES (5, '{1,2}');
SELECT * FROM fasted_spanning_tree('few', 'v');
INSERT INTO few VALUES (3, '{4,6}');
SELECT * FROM fasted_spanning_tree('few', 'v');
SELECT * FROM fasted_spanning_tree('few', 'v', 3);
INSERT INTO few VALUES (9, '{1,2}'), (1, NULL);
SELECT * FROM fasted_spanning_tree('few', 'v');
SELECT * FROM fasted_spanning_tree('few', 'v', 2);
SELECT * FROM fasted_spanning_tree('few', 'v', 2147483647);
CREATE TABLE equal AS SELECT i AS id, '{1,2}'::real[] AS v FROM generate_series(1, 100) AS i;
SELECT count(*), max(dist), count(*) FILTER (WHERE id_a = 1) FROM fasted_spanning_tree('equal', 'v', 7, id_column => 'id');

-- the engine's memory is too small for the rows
CREATE TABLE wide (id int PRIMARY KEY, v real[]);
INSERT INTO wide SELECT i * 7 % 601, array_agg((hashint4(i * 1000 + j) & 255) + 300 * (i % 5) ORDER BY j)
FROM generate_series(1, 600) AS i, generate_series(1, 500) AS j GROUP BY i;
ANALYZE wide;
CREATE TABLE wide_tree AS SELECT row_number() OVER () AS n, * FROM fasted_spanning_tree('wide', 'v', 3);
CREATE TABLE wide_clusters AS SELECT * FROM fasted_hdbscan('wide', 'v', 5, 3);
SELECT count(*) FROM wide_tree;
CREATE FUNCTION shown(query text, label text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	RETURN plan->0->'Plan'->>label;
END $$;
-- of copies, the CPU engine compares only some
SET fasted.engine = cpu;
SELECT shown('SELECT * FROM fasted_spanning_tree(''copied'', ''v'', id_column => ''id'')', 'Pairs') < 7000;
RESET fasted.engine;
CREATE TABLE wide_copies AS SELECT id, CASE WHEN id % 2 = 0 THEN first_value(v) OVER (ORDER BY id) ELSE v END AS v FROM wide ORDER BY id % 7;
CREATE TABLE wide_copies_tree AS SELECT row_number() OVER () AS n, * FROM fasted_spanning_tree('wide_copies', 'v', 3, id_column => 'id');
SET fasted.engine = cpu;
SET fasted.memory_limit = '1MB';
SELECT shown('SELECT * FROM fasted_spanning_tree(''wide_copies'', ''v'', 3, id_column => ''id'')', 'Panels') > 1;
SELECT count(*) FROM (SELECT row_number() OVER () AS n, * FROM fasted_spanning_tree('wide_copies', 'v', 3, id_column => 'id')) AS t JOIN wide_copies_tree USING (n, id_a, id_b, dist);
SELECT shown('SELECT * FROM fasted_spanning_tree(''wide'', ''v'', 3)', 'Panels') > 1;
SELECT count(*) FROM (SELECT row_number() OVER () AS n, * FROM fasted_spanning_tree('wide', 'v', 3)) AS t JOIN wide_tree USING (n, id_a, id_b, dist);
SELECT count(*) FROM fasted_hdbscan('wide', 'v', 5, 3) AS h JOIN wide_clusters AS c USING (id, probability, outlier_score) WHERE h.cluster IS NOT DISTINCT FROM c.cluster;
-- and for the tree
CREATE TABLE narrow AS SELECT i AS id, ARRAY[i]::real[] AS v FROM generate_series(1, 8000) AS i;
\set VERBOSITY terse
SELECT count(*) FROM fasted_spanning_tree('narrow', 'v', id_column => 'id');
\echo :SQLSTATE
\set VERBOSITY default
-- the copy of the core distances counts: 8 bytes a row, and a third of this for the engine
CREATE FUNCTION needed_kb(call text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE detail text;
BEGIN
	EXECUTE 'SELECT count(*) FROM ' || call;
	RETURN 0;
EXCEPTION WHEN configuration_limit_exceeded THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN substring(detail FROM '(\d+) kB are needed');
END $$;
SELECT needed_kb('fasted_hdbscan(''narrow'', ''v'', 5, id_column => ''id'')')
	- needed_kb('fasted_spanning_tree(''narrow'', ''v'', 5, id_column => ''id'')') BETWEEN 83 AND 84 AS counted;
RESET fasted.memory_limit;
RESET fasted.engine;
SELECT count(*) FROM fasted_spanning_tree('narrow', 'v', id_column => 'id');

-- --- clusters: two groups of four, and a row that is far from both
CREATE TABLE line (id int PRIMARY KEY, g int, v real[]);
INSERT INTO line VALUES (9, 1, '{0}'), (2, 1, '{1}'), (3, 1, '{2}'), (4, 1, '{3}'), (5, 1, '{10}'), (6, 1, '{11}'), (7, 1, '{12}'), (8, 1, '{13}'), (1, 1, '{100}'), (10, 1, NULL);
-- the weights are 1 within a group, 7 between them, and 87
SELECT * FROM fasted_hdbscan('line', 'v', 3, 1);
-- core distances are 1 in the middle of a group and 2 at its ends
SELECT * FROM fasted_hdbscan('line', 'v', 3);
SELECT array_agg(cluster ORDER BY id) FROM fasted_hdbscan('line', 'v', 3, 1, cluster_selection_method => 'leaf');
SELECT array_agg(cluster ORDER BY id) FROM fasted_hdbscan('line', 'v', 5, 1);
SELECT array_agg(cluster ORDER BY id) FROM fasted_hdbscan('line', 'v', 5, 1, allow_single_cluster => true);
SELECT array_agg(cluster ORDER BY id) FROM fasted_hdbscan('line', 'v', 3, 1, cluster_selection_epsilon => 8, allow_single_cluster => true);
SELECT method, epsilon, array_agg(cluster ORDER BY id) FROM unnest('{eom,leaf}'::text[]) AS method, unnest('{0,90}'::float8[]) AS epsilon,
	fasted_hdbscan('line', 'v', 5, 1, metric => 'l2', cluster_selection_method => method, cluster_selection_epsilon => epsilon, allow_single_cluster => true) GROUP BY 1, 2 ORDER BY 1, 2;
SELECT array_agg(cluster ORDER BY id) FROM fasted_hdbscan('line', 'v', 2, 1, max_cluster_size => 3);
SELECT array_agg(cluster ORDER BY id) FROM fasted_hdbscan('line', 'v', 3, 10);
SELECT * FROM fasted_hdbscan('few', 'v', 2);
SELECT count(*), count(cluster) FROM fasted_hdbscan('equal', 'v', 5, id_column => 'id', allow_single_cluster => true);
DELETE FROM few;
SELECT * FROM fasted_hdbscan('few', 'v', 2);
-- zero vectors have no cosine distance
SELECT count(*), count(*) FILTER (WHERE 0 = ALL (v)) AS zeros, count(cluster) FILTER (WHERE 0 = ALL (v)), count(DISTINCT cluster) > 1 FROM fasted_hdbscan('reals', 'v', 5, metric => 'cosine') JOIN reals USING (id);

-- the window function returns the same, also for few rows, which are joined without an engine
CREATE VIEW fewer AS SELECT * FROM reals WHERE id < 80;
SELECT count(*), count(t.cluster), bool_and((t.cluster, t.probability, t.outlier_score, t.core_distance, t.birth_distance, t.death_distance)::fasted_hdbscan_result IS NOT DISTINCT FROM w.r)
FROM (SELECT id, v, fasted_hdbscan_cluster(v, 4, 3) OVER (ORDER BY id) AS r FROM reals) AS w LEFT JOIN fasted_hdbscan('reals', 'v', 4, 3) AS t USING (id) WHERE v IS NOT NULL;
SELECT count(*), count(t.cluster), bool_and((t.cluster, t.probability, t.outlier_score, t.core_distance, t.birth_distance, t.death_distance)::fasted_hdbscan_result IS NOT DISTINCT FROM w.r)
FROM (SELECT id, v, fasted_hdbscan_cluster(v, 3, 2, metric => 'cosine', cluster_selection_method => 'leaf', cluster_selection_epsilon => 0.01, allow_single_cluster => true, max_cluster_size => 9) OVER (ORDER BY id) AS r FROM fewer) AS w
	LEFT JOIN fasted_hdbscan('fewer', 'v', 3, 2, metric => 'cosine', cluster_selection_method => 'leaf', cluster_selection_epsilon => 0.01, allow_single_cluster => true, max_cluster_size => 9, id_column => 'id') AS t USING (id) WHERE v IS NOT NULL;
SELECT id, (fasted_hdbscan_cluster(v, 3, 1) OVER ()).cluster, fasted_hdbscan_cluster(v, 3, 1) OVER () IS NULL AS none FROM line ORDER BY id DESC LIMIT 2;
-- partitions: the same clusters with other numbers
SELECT count(*), count(t.cluster) > 50, bool_and((t.cluster IS NULL) = ((w.r).cluster IS NULL) AND t.probability = (w.r).probability AND t.outlier_score = (w.r).outlier_score),
	count(DISTINCT t.cluster) = count(DISTINCT (w.g, (w.r).cluster)) FILTER (WHERE t.cluster IS NOT NULL), count(DISTINCT t.cluster) = count(DISTINCT (t.cluster, w.g, (w.r).cluster)) FILTER (WHERE t.cluster IS NOT NULL)
FROM (SELECT id, g, fasted_hdbscan_cluster(v, 4) OVER (PARTITION BY g ORDER BY id) AS r FROM reals) AS w JOIN fasted_hdbscan('reals', 'v', 4, partition_by => 'g') AS t USING (id);

-- a cut of the spanning tree: the connected components at any eps
CREATE TABLE tree AS SELECT * FROM fasted_spanning_tree('reals', 'v');
CREATE FUNCTION cut(eps float8) RETURNS TABLE (id bigint, component bigint) LANGUAGE sql AS $$
	WITH RECURSIVE edge AS MATERIALIZED (
		SELECT id_a AS a, id_b AS b, dist FROM tree UNION ALL SELECT id_b, id_a, dist FROM tree),
	walk (id, previous, component) AS (
		SELECT min(id_a), NULL::bigint, min(id_a) FROM tree
		UNION ALL
		SELECT b, walk.id, CASE WHEN dist <= eps THEN component ELSE b END
		FROM walk JOIN edge ON a = walk.id AND b IS DISTINCT FROM previous)
	SELECT id, component FROM walk $$;
SELECT eps, count(*), count(DISTINCT cluster) AS clusters, count(DISTINCT component) = count(DISTINCT cluster) AND count(DISTINCT (cluster, component)) = count(DISTINCT cluster) AS same
FROM unnest('{0,1,2.5,50,100}'::float8[]) AS eps, LATERAL (SELECT * FROM cut(eps) JOIN fasted_cluster('reals', 'v', eps) USING (id)) AS c GROUP BY 1 ORDER BY 1;

-- --- plans
SET fasted.engine = cpu;
EXPLAIN (COSTS OFF) SELECT * FROM fasted_hdbscan('line', 'v', 3);
EXPLAIN (COSTS OFF) SELECT * FROM fasted_hdbscan('reals', 'v', 3, 4, metric => 'cosine', cluster_selection_method => 'leaf', cluster_selection_epsilon => 0.5, allow_single_cluster => true, max_cluster_size => 9, id_column => 'id', partition_by => 'g');
EXPLAIN (COSTS OFF) SELECT id_a FROM fasted_spanning_tree('line', 'v', metric => 'cosine') AS t WHERE dist > 0.1 LIMIT 3;
RESET fasted.engine;
SELECT label, shown('SELECT * FROM fasted_hdbscan(''reals'', ''v'', 3)', label) > 0
FROM unnest('{Rows Read,Candidates,Searches,Rows Searched,Memory Usage,Spanning Tree Time,Clustering Time}'::text[]) AS label;
-- rows are computed once for all rescans; conditions, LIMIT and cursors
SELECT g, (SELECT count(*) FROM fasted_spanning_tree('line', 'v') AS t WHERE t.dist > g * 5) FROM generate_series(0, 2) AS g;
SELECT * FROM fasted_spanning_tree('line', 'v') WHERE id_a = 1 LIMIT 1;
SELECT m, (SELECT count(cluster) FROM fasted_hdbscan('line', 'v', m)) FROM generate_series(2, 4) AS m;
BEGIN;
DECLARE c CURSOR FOR SELECT id, cluster FROM fasted_hdbscan('line', 'v', 3, 1);
FETCH 1 FROM c;
DELETE FROM line;
FETCH 2 FROM c;
ROLLBACK;

-- --- errors
SELECT * FROM fasted_spanning_tree('line', 'v', 0);
SELECT * FROM fasted_spanning_tree('line', 'v', NULL);
SELECT * FROM fasted_hdbscan('line', 'v', 1);
SELECT * FROM fasted_hdbscan('line', 'v', NULL);
SELECT * FROM fasted_hdbscan('line', 'v', 3, 0);
SELECT * FROM fasted_hdbscan('line', 'v', 3, cluster_selection_method => 'mass');
SELECT * FROM fasted_hdbscan('line', 'v', 3, cluster_selection_epsilon => -1);
SELECT * FROM fasted_hdbscan('line', 'v', 3, cluster_selection_epsilon => 'NaN');
SELECT * FROM fasted_hdbscan('line', 'v', 3, max_cluster_size => 0);
SELECT * FROM fasted_hdbscan('line', 'v', 3, metric => 'inner_product');
SELECT fasted_hdbscan_cluster(v, 3, metric => 'hamming') OVER () FROM line;
SELECT fasted_hdbscan_cluster(v, NULL) OVER () FROM line;
SELECT fasted_hdbscan_cluster(v, 3) OVER (ORDER BY id ROWS 1 PRECEDING) FROM line;

DROP FUNCTION right_tree, shown, cut;
DROP VIEW fewer;
DROP TABLE reals, doubles, bits, cases, right_trees, named, few, equal, wide, wide_tree, wide_clusters, narrow, line, tree;
