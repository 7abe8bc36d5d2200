-- Exact indexes of rows in clusters, whose chunks have boxes that exclude other clusters, and scans of many rows in
-- little memory.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET jit = off;
CREATE TABLE clustered (id int PRIMARY KEY, v real[]);
INSERT INTO clustered SELECT i, ARRAY[i % 4 / 2 * 100 + sin(i), i % 4 % 2 * 100 + cos(i), i % 3, 1]::real[] FROM generate_series(1, 20000) AS i;
CREATE INDEX clustered_v ON clustered USING fasted (v);
CREATE INDEX clustered_product ON clustered USING fasted (v real_ip_ops);
ANALYZE clustered;

-- The rows near the centres of the clusters, and their sums of ids.
PREPARE near AS SELECT x, y, count(*), sum(id) FROM (VALUES (0, 0), (0, 100), (100, 0), (100, 100)) AS c (x, y), LATERAL
	(SELECT id FROM clustered WHERE v <-> ARRAY[x, y, 1, 1]::real[] < 1.2) AS s GROUP BY x, y ORDER BY x, y;
SET enable_seqscan = off;
SET fasted.join_node = off;
EXECUTE near;
SELECT count(*), sum(id) FROM clustered WHERE v <#> '{1,1,0,0}' < -200.5;
-- any of several balls
CREATE INDEX clustered_ball ON clustered USING fasted (fasted_ball(v, 0.5));
SELECT count(*) FROM clustered WHERE fasted_ball(v, 0.5) && ANY (ARRAY[fasted_ball('{0,0,1,1}'::real[], 0.7), fasted_ball('{100,0,1,1}'::real[], 0.7)]);
DROP INDEX clustered_ball;
-- rows of one cluster at the places of rows of another
DELETE FROM clustered WHERE id % 4 = 0;
VACUUM clustered;
INSERT INTO clustered SELECT i, ARRAY[100 + sin(i), 100 + cos(i), i % 3, 1]::real[] FROM generate_series(30001, 32000) AS i;
EXECUTE near;
SELECT count(*), sum(id) FROM clustered WHERE v <#> '{1,1,0,0}' < -200.5;
SELECT fasted_index_check('clustered_v'), fasted_index_check('clustered_product');
SET enable_seqscan = on;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
DISCARD PLANS;
EXECUTE near;
SELECT count(*), sum(id) FROM clustered WHERE v <#> '{1,1,0,0}' < -200.5;
RESET enable_indexscan;
RESET enable_bitmapscan;

-- more rows than work_mem has room for, most of them with equal bounds or without a vector, in batches
UPDATE clustered SET v = CASE WHEN id % 8 = 1 THEN '{100,100,2,1}'::real[] WHEN id % 8 = 2 THEN NULL END WHERE id % 8 < 5;
DISCARD PLANS;
SET enable_seqscan = off;
SET work_mem = '64kB';
CREATE TEMP TABLE found AS SELECT row_number() OVER () AS place, * FROM (SELECT id, v <-> '{100,100,1,1}' AS dist FROM clustered ORDER BY v <-> '{100,100,1,1}' LIMIT 100000) AS s;
SELECT count(*), count(DISTINCT id), count(dist), (SELECT count(*) FROM found AS a JOIN found AS b ON b.place = a.place + 1 WHERE b.dist < a.dist OR a.dist IS NULL AND b.dist IS NOT NULL) AS wrong FROM found;
EXPLAIN (COSTS OFF) SELECT id, v <-> '{100,100,1,1}' AS dist FROM clustered ORDER BY v <-> '{100,100,1,1}' LIMIT 100000;
DROP TABLE clustered, found;

-- rows that are sorted by hashes of the first further column, too: a scan with an equality visits few chunks
CREATE TABLE tenants (id int, tenant int, v real[]);
INSERT INTO tenants SELECT i, nullif(i % 50, 49), CASE WHEN i % 400 > 0 THEN ARRAY[sin(i), cos(i), i % 3]::real[] END FROM generate_series(1, 20000) AS i;
CREATE INDEX tenants_v ON tenants USING fasted (v, tenant);
PREPARE near_of (int) AS SELECT count(*), sum(id) FROM tenants WHERE tenant = $1 AND v <-> '{0,1,1}' < 1.5;
SET enable_seqscan = off;
CREATE FUNCTION pg_temp.skipped(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF) ' || query LOOP
		IF line ~ 'skipped' THEN RETURN (regexp_match(line, 'skipped chunks=([0-9]+)'))[1]; END IF;
	END LOOP;
END $$;
SELECT pg_temp.skipped('SELECT FROM tenants WHERE tenant = 7 AND v <-> ''{0,1,1}'' < 100') > 60 AS most_of_79_chunks;
EXECUTE near_of (7);
SELECT array_agg(id) FROM (SELECT id FROM tenants WHERE tenant = 7 ORDER BY v <-> '{0,1,1}', id LIMIT 5) AS s;
-- other tenants at the places of deleted rows, and new rows
DELETE FROM tenants WHERE tenant BETWEEN 10 AND 20;
VACUUM tenants;
INSERT INTO tenants SELECT i, i % 70, ARRAY[sin(i), cos(i), i % 3]::real[] FROM generate_series(20001, 40000) AS i;
SELECT fasted_index_check('tenants_v');
CREATE TEMP TABLE found AS SELECT t, n.* FROM generate_series(0, 70) AS t, LATERAL (SELECT count(*), sum(id) FROM tenants WHERE tenant = t AND v <-> '{0,1,1}' < 1.5) AS n;
SET enable_seqscan = on;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SELECT count(*), sum(f.count) FROM found AS f, LATERAL (SELECT count(*), sum(id) FROM tenants WHERE tenant = t AND v <-> '{0,1,1}' < 1.5) AS n WHERE f.count = n.count AND f.sum IS NOT DISTINCT FROM n.sum;
-- a B-tree finds the rows of one value in fewer pages
CREATE INDEX tenants_id ON tenants USING fasted (v, id);
CREATE INDEX tenants_btree ON tenants (id);
ANALYZE tenants;
RESET enable_indexscan;
EXPLAIN (COSTS OFF) SELECT v FROM tenants WHERE id = 7;
-- PostgreSQL scans the exact index for each value of an array
RESET enable_bitmapscan;
EXPLAIN (COSTS OFF) SELECT v FROM tenants WHERE id = ANY ('{1,2,3,4,5,6,7,8,9,10}');
DROP TABLE tenants, found;
