-- Numbers of neighbors, clusters, and one representative of near rows.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

-- points on a line: 0 1 2 3, an isolated 10, 20 21 22, and row 5 without a vector; ids in another order
CREATE TABLE t (id int PRIMARY KEY, name text, v real[], score int);
INSERT INTO t VALUES (9, 'zero', '{0}', 5), (8, 'one', '{1}', 7), (7, 'two', '{2}', 7), (6, 'three', '{3}', NULL), (5, 'none', NULL, 9),
	(4, 'ten', '{10}', 1), (3, 'twenty', '{20}', NULL), (2, 'twenty-one', '{21}', NULL), (1, 'twenty-two', '{22}', NULL);

-- the number of other rows within eps
SELECT * FROM fasted_neighbors('t', 'v', 1);
SELECT * FROM fasted_neighbors('t', 'v', 0);
SELECT min(neighbors), max(neighbors), count(*) FROM fasted_neighbors('t', 'v', 'Infinity');
SELECT neighbors, count(*) FROM fasted_neighbors('t', 'v', 2, id_column => 'id') GROUP BY 1 ORDER BY 1;

-- connected components of the pairs
SELECT * FROM fasted_cluster('t', 'v', 1);
SELECT count(DISTINCT cluster), bool_and(core) FROM fasted_cluster('t', 'v', 0);
SELECT count(DISTINCT cluster) FROM fasted_cluster('t', 'v', 10);

-- core rows, border rows and noise; clusters are numbered by their smallest id, including border rows
SELECT * FROM fasted_cluster('t', 'v', 1, 2);
SELECT * FROM fasted_cluster('t', 'v', 1, 3);
SELECT * FROM fasted_cluster('t', 'v', 1, min_samples => 4);
SELECT count(*), count(cluster) FROM fasted_cluster('t', 'v', 'Infinity', 2147483647);
SELECT count(*), max(cluster) FROM fasted_cluster('t', 'v', 'Infinity', 8) WHERE core;

-- PostGIS's example: ST_ClusterDBSCAN(geom, eps := 1.5, minpoints := 4) of these points; 5 is a border row, 6 noise
CREATE TABLE points (id int PRIMARY KEY, v real[]);
INSERT INTO points VALUES (1, '{0,0}'), (2, '{1,0}'), (3, '{0,1}'), (4, '{1,1}'), (5, '{2.2,1}'), (6, '{3.5,1.5}');
SELECT * FROM fasted_cluster('points', 'v', 1.5, 4);

-- so many copies that the engine gets only some of them: the same result as for rows that differ little
CREATE TABLE copies AS SELECT i * 37 % 307 AS id, i % 2 AS g, i * 7 % 5 AS p, CASE WHEN i % 10 = 6 THEN '{0,0}' WHEN i % 10 < 6 THEN ARRAY[1 + i % 4, 0] ELSE ARRAY[1 + i % 17, i % 11 + i % 17 % 2 * 20] END::float8[] AS v FROM generate_series(1, 300) AS i;
CREATE TABLE differ AS SELECT id, g, CASE WHEN v[1] = 0 THEN v ELSE ARRAY[v[1] + id * 1e-9, v[2]] END AS v FROM copies;
SELECT count(*), sum(n) > 0 AS clusters, count(*) FILTER (WHERE wrong = 0) AS right FROM unnest('{1,2,3,10,40}'::int[]) AS min_samples, unnest('{0.5,1.5,2.5}'::float8[]) AS eps, unnest('{id,g}'::text[]) AS p, unnest('{l2,cosine}'::text[]) AS metric,
	LATERAL (SELECT count(c.cluster) AS n, count(*) FILTER (WHERE (c.cluster, c.core) IS DISTINCT FROM (d.cluster, d.core)) AS wrong
		FROM fasted_cluster('copies', 'v', CASE metric WHEN 'l2' THEN eps ELSE eps / 100 END, min_samples, id_column => 'id', metric => metric, partition_by => nullif(p, 'id')) AS c
		JOIN fasted_cluster('differ', 'v', CASE metric WHEN 'l2' THEN eps ELSE eps / 100 END, min_samples, id_column => 'id', metric => metric, partition_by => nullif(p, 'id')) AS d USING (id)) AS x;
SELECT count(*), count(*) FILTER (WHERE c.cluster = w.cluster) FROM fasted_cluster('copies', 'v', 1.5, 1, id_column => 'id') AS c JOIN (SELECT id, fasted_dbscan(v, 1.5, 1) OVER (ORDER BY id) AS cluster FROM copies) AS w USING (id);
CREATE FUNCTION kept_reference(eps float8, metric text) RETURNS TABLE (id bigint, kept bigint) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	stay bigint[] = '{}';
BEGIN
	FOR r IN SELECT * FROM copies ORDER BY p, copies.id LOOP
		SELECT s.id INTO kept FROM unnest(stay) WITH ORDINALITY AS s (id, n) JOIN copies c ON c.id = s.id,
			LATERAL (SELECT CASE metric WHEN 'l2' THEN fasted_distance(c.v, r.v) ELSE fasted_cosine_distance(c.v, r.v) END) AS d (dist)
			WHERE dist <= eps AND dist <> 'NaN' ORDER BY dist, n LIMIT 1;
		IF kept IS NULL THEN
			stay = stay || r.id::bigint;
		END IF;
		id = r.id;
		kept = coalesce(kept, id);
		RETURN NEXT;
	END LOOP;
END $$;
SELECT count(*), count(*) FILTER (WHERE wrong = 0) AS right FROM (VALUES ('l2', 0.5), ('l2', 1.5), ('l2', 2.5), ('cosine', 0.005), ('cosine', 0.05)) AS m (metric, eps),
	LATERAL (SELECT count(*) FILTER (WHERE k.kept IS DISTINCT FROM r.kept) AS wrong
		FROM kept_reference(eps, metric) AS r LEFT JOIN fasted_keep_one('copies', 'v', eps, 'p', false, id_column => 'id', metric => metric) AS k USING (id)) AS x;
-- no NOTICE of many pairs, with the CPU engine, which gets few copies: first, few pairs of all rows but most pairs of those that the engine gets; then only pairs of copies, which are not counted
CREATE TABLE many (id int PRIMARY KEY, v real[]);
INSERT INTO many SELECT i, CASE WHEN i <= 3000 THEN ARRAY[i % 20 * 100] ELSE ARRAY[9000 + i * 1e-5] END FROM generate_series(1, 3300) AS i;
SET fasted.engine = cpu;
SELECT count(DISTINCT cluster) FROM fasted_cluster('many', 'v', 1);
UPDATE many SET v = ARRAY[CASE WHEN id <= 3000 THEN 0 ELSE id END];
SELECT count(DISTINCT cluster) FROM fasted_cluster('many', 'v', 0.5);
DROP TABLE copies, differ, many;
RESET fasted.engine;
DROP FUNCTION kept_reference;

-- a border row between two clusters: it joins the nearest core row; if distances tie, the one with the smaller id
CREATE TABLE border (id int PRIMARY KEY, v real[]);
INSERT INTO border VALUES (1, '{-1.5}'), (2, '{-1.5}'), (3, '{-1.5}'), (4, '{-1.5}'), (5, '{-1}'),
	(10, '{0}'), (21, '{1}'), (22, '{1.5}'), (23, '{1.5}'), (24, '{1.5}'), (25, '{1.5}');
SELECT * FROM fasted_cluster('border', 'v', 1, 5);
UPDATE border SET v = '{0.125}' WHERE id = 10;
SELECT * FROM fasted_cluster('border', 'v', 1.125, 5) WHERE id IN (5, 10, 21);
UPDATE border SET v = '{0}', id = 100 + id WHERE id <= 10;
UPDATE border SET v = CASE id WHEN 105 THEN '{-1}' WHEN 110 THEN '{0}' ELSE '{-1.5}' END::real[], id = CASE id WHEN 110 THEN 10 ELSE id END WHERE id > 100;
SELECT * FROM fasted_cluster('border', 'v', 1, 5);
CREATE TABLE border_reversed AS SELECT * FROM border ORDER BY id DESC;
SELECT * FROM fasted_cluster('border_reversed', 'v', 1, 5, id_column => 'id') WHERE id IN (10, 21, 105);

-- representatives: without a priority the first row by id; only a representative excludes other rows
SELECT * FROM fasted_keep_one('t', 'v', 1);
SELECT * FROM fasted_keep_one('t', 'v', 1.5);
SELECT * FROM fasted_keep_one('t', 'v', 2);
SELECT count(DISTINCT kept) FROM fasted_keep_one('t', 'v', 0);
SELECT count(DISTINCT kept), max(dist) FROM fasted_keep_one('t', 'v', 'Infinity');
-- by priority: nulls last in both directions, ties resolved by id
SELECT * FROM fasted_keep_one('t', 'v', 1, 'score');
SELECT * FROM fasted_keep_one('t', 'v', 1, priority_column => 'score', descending => true);
SELECT * FROM fasted_keep_one('t', 'v', 1, descending => true);
SELECT * FROM fasted_keep_one('t', 'v', 1, 'name');
SELECT * FROM fasted_keep_one('t', 'v', 1, 'name', true) WHERE id <> kept;
-- the nearest representative; if distances tie, the one of higher priority
SELECT * FROM fasted_keep_one('border', 'v', 1) WHERE id IN (10, 21, 105);
CREATE TABLE middle (id int PRIMARY KEY, v real[], p int);
INSERT INTO middle VALUES (1, '{0}', 3), (2, '{4}', 2), (3, '{2}', 1000), (4, '{1}', 1001), (5, '{2}', 1002);
SELECT * FROM fasted_keep_one('middle', 'v', 2.5, 'p');
SELECT * FROM fasted_keep_one('middle', 'v', 2.5);

-- duplicates
CREATE TABLE twins AS SELECT i AS id, ARRAY[i % 3, 1]::real[] AS v FROM generate_series(1, 9) AS i;
SELECT * FROM fasted_keep_one('twins', 'v', 0, id_column => 'id');
SELECT * FROM fasted_cluster('twins', 'v', 0, 3, id_column => 'id');
SELECT * FROM fasted_neighbors('twins', 'v', 0, id_column => 'id') WHERE neighbors <> 2;

-- no row, one row, no vector
CREATE TABLE few (id int PRIMARY KEY, v real[]);
SELECT * FROM fasted_neighbors('few', 'v', 1);
SELECT * FROM fasted_cluster('few', 'v', 1, 2);
SELECT * FROM fasted_keep_one('few', 'v', 1, 'id');
INSERT INTO few VALUES (1, NULL);
SELECT * FROM fasted_cluster('few', 'v', 1);
INSERT INTO few VALUES (2, '{1,2,3}');
SELECT * FROM fasted_neighbors('few', 'v', 1);
SELECT * FROM fasted_cluster('few', 'v', 1);
SELECT * FROM fasted_cluster('few', 'v', 1, 2);
SELECT * FROM fasted_keep_one('few', 'v', 1);
INSERT INTO few VALUES (3, '{1,2,3.5}');
SELECT * FROM fasted_keep_one('few', 'v', 1);
DELETE FROM few WHERE id = 3;

-- other keys: the window functions, which number clusters in the order of the window
CREATE TABLE keyed (n numeric, u uuid, w text COLLATE "C", m name, v real[]);
INSERT INTO keyed VALUES (1.5, md5('1')::uuid, 'b', 'b', '{0}'), (0.5, md5('2')::uuid, 'A', 'A', '{1}'), (-1, md5('3')::uuid, 'a', 'a', '{2}'), (10, md5('4')::uuid, 'B', 'B', '{9}');
SELECT n, fasted_neighbor_count(v, 1) OVER () FROM keyed ORDER BY n;
SELECT w, fasted_dbscan(v, 1, 3) OVER (ORDER BY w) FROM keyed;
SELECT m, fasted_dbscan(v, 1, 1) OVER (ORDER BY m) FROM keyed;
SELECT m, kept, pg_typeof(kept) FROM (SELECT m, fasted_keep(v, 1, m) OVER (ORDER BY m) AS kept FROM keyed) AS k;
SELECT u, fasted_keep(v, 1, u) OVER (ORDER BY n) AS kept FROM keyed ORDER BY u;
SELECT n, fasted_keep(v, 1, n) OVER (ORDER BY w DESC) AS kept FROM keyed ORDER BY n;
SELECT kept, count(*) FROM (SELECT fasted_keep(v, 1, ctid) OVER (ORDER BY ctid) AS kept FROM t) AS k GROUP BY 1 ORDER BY 1;

-- priorities of any type with a sort order
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN grade AS int CHECK (VALUE < 100);
CREATE TABLE ranked (id int PRIMARY KEY, v real[], e mood, g grade, a int[], b bool, f float8, j json);
INSERT INTO ranked VALUES (1, '{0}', 'happy', 3, '{1,2}', true, 'NaN', '{}'), (2, '{1}', 'sad', 1, NULL, NULL, '-Infinity', '{}'), (3, '{2}', 'ok', 2, '{1}', false, 0, '{}');
SELECT c, (SELECT string_agg(kept::text, ' ') FROM fasted_keep_one('ranked', 'v', 2, c)) AS up,
	(SELECT string_agg(kept::text, ' ') FROM fasted_keep_one('ranked', 'v', 2, c, true)) AS down
FROM unnest('{id,e,g,a,b,f,v,ctid}'::name[]) AS c;

-- cosine distance: lengths do not matter; a zero vector has no direction, so it is near no row
CREATE TABLE directions (id int PRIMARY KEY, v real[], p int);
INSERT INTO directions VALUES (1, '{1,0}', 9), (2, '{5,0.5}', 8), (3, '{0,0}', 7), (4, '{0,1e-30}', 6), (5, '{0,1e30}', 5), (6, '{0,0}', 4), (7, '{-1,0}', 3), (8, '{1,1}', 2);
SELECT * FROM fasted_neighbors('directions', 'v', 0.01, metric => 'cosine');
SELECT * FROM fasted_neighbors('directions', 'v', 'Infinity', metric => 'cosine');
SELECT * FROM fasted_cluster('directions', 'v', 0.01, metric => 'cosine');
SELECT * FROM fasted_cluster('directions', 'v', 0.3, 2, metric => 'cosine');
SELECT * FROM fasted_cluster('directions', 'v', 2, 6, metric => 'cosine');
SELECT * FROM fasted_keep_one('directions', 'v', 0.01, metric => 'cosine') WHERE dist < 1e-12 OR kept <> id;
SELECT id, kept, dist = fasted_cosine_distance((SELECT v FROM directions WHERE id = k.id), (SELECT v FROM directions WHERE id = kept)) AS same
FROM fasted_keep_one('directions', 'v', 0.3, 'p', metric => 'cosine') AS k;
SELECT * FROM fasted_neighbors('directions', 'v', 1, metric => 'l2') WHERE neighbors > 1;
SELECT neighbors, count(*) FROM fasted_neighbors('directions', 'v', 0.01, id_column => 'id', metric => 'cosine') GROUP BY 1 ORDER BY 1;

-- views, partitioned tables, casts of vectors
CREATE VIEW mixed AS SELECT id, v::numeric[] AS v, -id AS p FROM t WHERE id < 9;
SELECT * FROM fasted_keep_one('mixed', 'v', 1, 'p', id_column => 'id');
CREATE TYPE polar AS (radius real, angle real);
CREATE FUNCTION place(polar) RETURNS real[] LANGUAGE sql IMMUTABLE STRICT AS 'SELECT CASE WHEN $1.radius > 0 THEN ARRAY[$1.radius * cos($1.angle), $1.radius * sin($1.angle)] END';
CREATE CAST (polar AS real[]) WITH FUNCTION place;
CREATE TABLE places (id int PRIMARY KEY, v polar, p int);
INSERT INTO places VALUES (1, '(1,0)', 9), (2, '(1,0.5)', 8), (3, '(0,0)', 7), (4, '(2,0)', 6);	-- the vector of row 3 is null
SELECT id, kept FROM fasted_keep_one('places', 'v', 0.6, 'p');
CREATE VIEW numbered AS SELECT row_number() OVER (ORDER BY id DESC) AS n, v, random() AS p FROM t WHERE v IS NOT NULL;
SELECT * FROM fasted_neighbors('numbered', 'v', 1, id_column => 'n');
SELECT count(*), count(*) FILTER (WHERE dist <= 1) FROM fasted_keep_one('numbered', 'v', 1, 'p', id_column => 'n');
CREATE TABLE parted (id int PRIMARY KEY, v real[], p int) PARTITION BY RANGE (id);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (10) TO (20);
INSERT INTO parted VALUES (15, '{1}', 1), (2, '{1}', 2), (11, '{1}', 3), (5, '{3}', 4);
SELECT * FROM fasted_keep_one('parted', 'v', 0, 'p');
SELECT * FROM fasted_cluster('parted', 'v', 0);

-- delete near-duplicates, except the best row
BEGIN;
DELETE FROM t USING fasted_keep_one('t', 'v', 1, 'score', descending => true) AS k WHERE t.id = k.id AND k.kept <> k.id;
SELECT id, name FROM t ORDER BY id;
ROLLBACK;

-- a chain: deletion by pairs also deletes rows near deleted rows; deletion by representative does not
CREATE TABLE stock (id int PRIMARY KEY, v real[]);
INSERT INTO stock SELECT i, ARRAY[0.9 * i, 0] FROM generate_series(1, 5) AS i;
BEGIN;
DELETE FROM stock a USING stock b WHERE b.id < a.id AND fasted_within(a.v, b.v, 1);
SELECT array_agg(id ORDER BY id) AS left_by_pairs FROM stock;
ROLLBACK;
SELECT array_agg(id ORDER BY id) AS kept FROM fasted_keep_one('stock', 'v', 1) WHERE id = kept;

-- a batch: first delete rows that exist already, then duplicates within the batch
CREATE TABLE batch (LIKE stock INCLUDING ALL);
INSERT INTO batch SELECT 100 + i, ARRAY[i * 7919 % 1000 / 100.0, i * 104729 % 1000 / 100.0] FROM generate_series(1, 300) AS i;
CREATE TABLE arrived AS TABLE batch;
DELETE FROM batch n WHERE EXISTS (SELECT FROM stock s WHERE fasted_within(s.v, n.v, 1));
INSERT INTO stock SELECT n.* FROM batch n JOIN fasted_keep_one('batch', 'v', 1) AS k ON n.id = k.id AND n.id = k.kept;
SELECT count(*) FILTER (WHERE id > 100) AS inserted,
	count(*) FILTER (WHERE id > 100 AND EXISTS (SELECT FROM stock o WHERE o.id <> s.id AND fasted_within(o.v, s.v, 1))) AS copies,
	(SELECT count(*) FROM arrived a WHERE NOT EXISTS (SELECT FROM stock o WHERE fasted_within(o.v, a.v, 1))) AS lost
FROM stock s;

-- places in a query where the functions can be called
SELECT fasted_neighbors('few', 'v', 1);
SELECT (fasted_cluster('points', 'v', 1.5, 4)).* LIMIT 2;
SELECT eps, count(DISTINCT c.cluster) FROM generate_series(0, 3) AS eps, LATERAL fasted_cluster('t', 'v', eps) AS c GROUP BY 1 ORDER BY 1;
SELECT p.id_a, p.id_b, c.cluster FROM fasted_self_join('t', 'v', 1) AS p JOIN fasted_cluster('t', 'v', 1) AS c ON c.id = p.id_a ORDER BY 1, 2;
PREPARE kept AS SELECT count(*) FROM fasted_keep_one($1, $2, $3) WHERE id = kept;
EXECUTE kept('t', 'v', '1');
SELECT proname, provolatile, proparallel, proisstrict, prosecdef FROM pg_proc
WHERE proname ~ '^fasted_(neighbors|cluster|keep_one)$' ORDER BY 1;
SELECT count(*) FROM pg_proc WHERE proname LIKE 'fasted_%' AND obj_description(oid, 'pg_proc') IS NULL;

-- privileges and row security: as for a SELECT of the columns that are read
CREATE ROLE fasted_groups_reader;
GRANT SELECT (id, v) ON t TO fasted_groups_reader;
CREATE TABLE owned (id int PRIMARY KEY, who name, v real[], p int);
INSERT INTO owned SELECT i, CASE WHEN i % 2 = 0 THEN 'fasted_groups_reader' ELSE 'nobody' END, ARRAY[i], -i FROM generate_series(1, 6) i;
ALTER TABLE owned ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON owned USING (who = current_user);
GRANT SELECT ON owned TO fasted_groups_reader;
CREATE VIEW lent AS SELECT id, v, score FROM t WHERE id < 3;
GRANT SELECT ON lent TO fasted_groups_reader;
SET ROLE fasted_groups_reader;
SELECT count(*) FROM fasted_neighbors('t', 'v', 1);
SELECT count(*) FROM fasted_keep_one('t', 'v', 1, 'id');
SELECT count(*) FROM fasted_keep_one('t', 'v', 1, 'score');
\echo :SQLSTATE
SELECT * FROM fasted_keep_one('owned', 'v', 2, 'p');
SELECT * FROM fasted_keep_one('lent', 'v', 1, 'score', true, id_column => 'id');
RESET ROLE;

-- errors
SELECT * FROM fasted_neighbors(NULL, 'v', 1);
\echo :SQLSTATE
SELECT * FROM fasted_cluster('t', NULL, 1);
\echo :SQLSTATE
SELECT * FROM fasted_keep_one('t', 'v', NULL);
\echo :SQLSTATE
SELECT * FROM fasted_cluster('t', 'v', 1, NULL);
\echo :SQLSTATE
SELECT * FROM fasted_cluster('t', 'v', 1, metric => NULL);
\echo :SQLSTATE
SELECT * FROM fasted_cluster('t', 'v', 1, metric => 'euclidean');
\echo :SQLSTATE
SELECT * FROM fasted_keep_one('t', 'v', 1, NULL, NULL);
\echo :SQLSTATE
SELECT * FROM fasted_neighbors('t', 'v', -1);
\echo :SQLSTATE
SELECT * FROM fasted_cluster('t', 'v', 'NaN');
\echo :SQLSTATE
SELECT * FROM fasted_cluster('t', 'v', 1, 0);
\echo :SQLSTATE
SELECT * FROM fasted_cluster('t', 'v', 1, -3);
\echo :SQLSTATE
SELECT * FROM fasted_neighbors('t', 'name', 1);
\echo :SQLSTATE
SELECT * FROM fasted_neighbors('t', 'v', 1, id_column => 'name');
\echo :SQLSTATE
SELECT * FROM fasted_cluster('twins', 'v', 1);
\echo :SQLSTATE
SELECT * FROM fasted_cluster('t', 'v', 1, id_column => 'name');
\echo :SQLSTATE
SELECT * FROM fasted_keep_one('t', 'v', 1, 'nothing');
\echo :SQLSTATE
SELECT * FROM fasted_keep_one('ranked', 'v', 1, 'j');
\echo :SQLSTATE
SELECT * FROM fasted_keep_one('t', 'v', 1, id_column => 'score');
\echo :SQLSTATE
SELECT * FROM fasted_keep_one('ranked', 'v', 1, id_column => 'j');
\echo :SQLSTATE

-- more pairs than fit into memory: 900 rows that become core rows late, 10 border rows, 500 rows of noise
CREATE TABLE dense AS SELECT i AS id, i * 7919 % 1410 AS priority,
	ARRAY[CASE WHEN i <= 900 THEN i % 30 WHEN i <= 910 THEN 45 ELSE 1000 + i % 10 END, 0]::real[] AS v FROM generate_series(1, 1410) AS i;
ALTER TABLE dense ADD PRIMARY KEY (id);
CREATE TABLE dense_kept AS SELECT * FROM fasted_keep_one('dense', 'v', 5, 'priority');
-- most pairs of rows are within eps, but without a NOTICE, since many rows are copies
SET fasted.engine = cpu;
SELECT count(DISTINCT cluster) FROM fasted_cluster('dense', 'v', 30);
RESET fasted.engine;
SET fasted.memory_limit = '1MB';
SET client_min_messages = warning;
SELECT n AS min_samples, cluster, core, count(*) FROM (VALUES (2), (100), (500), (800)) AS m (n), LATERAL fasted_cluster('dense', 'v', 30, n)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT count(*), count(DISTINCT kept) FROM fasted_keep_one('dense', 'v', 5, 'priority') AS k JOIN dense_kept USING (id, kept, dist);
-- each border row has one core row, the center of its cluster, so every pair with a center matters
CREATE TABLE stars AS SELECT 121 * g + i AS id, ARRAY[10 * g + CASE WHEN i = 0 THEN 0 WHEN i % 2 = 0 THEN 1 ELSE -1 END]::real[] AS v
	FROM generate_series(0, 19) AS g, generate_series(0, 120) AS i ORDER BY 1;
SELECT core, count(cluster), count(DISTINCT cluster) FROM fasted_cluster('stars', 'v', 1, 100, id_column => 'id') GROUP BY 1 ORDER BY 1;
SELECT eps, count(*), count(DISTINCT kept), max(dist) FROM generate_series(1, 2) AS eps, LATERAL fasted_keep_one('stars', 'v', eps, 'v', id_column => 'id') GROUP BY 1 ORDER BY 1;
RESET fasted.memory_limit;

DROP TABLE t, points, border, border_reversed, middle, twins, few, keyed, ranked, directions, parted, owned, stock, batch, arrived, dense, dense_kept, stars, places CASCADE;
DROP TYPE mood;
DROP TYPE polar CASCADE;
DROP DOMAIN grade;
DROP ROLE fasted_groups_reader;
