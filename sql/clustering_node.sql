-- The plan node that replaces fasted_neighbors, fasted_cluster and fasted_keep_one.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET fasted.engine = cpu;
SET max_parallel_workers_per_gather = 0;

-- the vector column is between the id columns, and ids are in no order
CREATE TABLE t (id int PRIMARY KEY, v real[], p int, u uuid);
INSERT INTO t SELECT i * 37 % 101, ARRAY[i / 4, i % 4], i % 5, md5(i::text)::uuid FROM generate_series(1, 100) AS i;
ANALYZE t;

-- EXPLAIN; PostgreSQL 18 shows rows with two decimals
CREATE FUNCTION ran(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS OFF, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		RETURN NEXT regexp_replace(line, 'rows=(\d+)\.00', 'rows=\1');
	END LOOP;
END $$;
EXPLAIN (COSTS OFF) SELECT * FROM fasted_neighbors('t', 'v', 1);
EXPLAIN (COSTS OFF) SELECT cluster FROM fasted_cluster('t', 'v', 1.5, 5) AS c WHERE core ORDER BY c.id;
EXPLAIN (COSTS OFF) SELECT * FROM fasted_keep_one('t', 'v', 0.01, 'p', true, metric => 'cosine');
EXPLAIN (COSTS OFF) SELECT * FROM fasted_keep_one('t', 'v', 1, id_column => 'id');
EXPLAIN (VERBOSE, COSTS OFF) SELECT kept FROM fasted_keep_one('t', 'v', 1, 'p', id_column => 'id');
EXPLAIN SELECT * FROM fasted_cluster('t', 'v', 1);
SELECT ran($$SELECT * FROM fasted_cluster('t', 'v', 1)$$);
SELECT ran($$SELECT * FROM fasted_cluster('t', 'v', 1) WHERE cluster > 0$$);
SELECT ran($$SELECT * FROM fasted_neighbors('t', 'v', 1) LIMIT 3$$);
SELECT ran($$SELECT * FROM fasted_neighbors('t', 'v', 1) WHERE false$$);

-- numbers that EXPLAIN shows in each format, and that are positive
CREATE FUNCTION shown(query text, label text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	RETURN (plan->0->'Plan'->>label)::float8 > 0;
END $$;
SELECT c, bool_and(shown('SELECT * FROM ' || c, label))
FROM unnest(ARRAY['fasted_neighbors(''t'', ''v'', 1)', 'fasted_cluster(''t'', ''v'', 1, 4)', 'fasted_keep_one(''t'', ''v'', 1, ''p'')']) AS c,
	unnest(ARRAY['Rows Read', 'Dimensions', 'Candidates', 'Pairs', 'Panels', 'Threads', 'Host Memory', 'Memory Usage',
		'Read Time', 'Wait Time', 'Filter Time', 'Actual Total Time']) AS label GROUP BY c ORDER BY c;
-- pairs in a temporary file: fasted_keep_one writes all of them if they exceed the memory limit, here one more
-- than three full buffers; fasted_cluster writes full buffers, unless half of its pairs can be used and dropped,
-- and stores no pair of known core rows
CREATE TABLE grouped AS SELECT i AS id, ARRAY[CASE WHEN i <= 443 THEN 0 ELSE i / 2 END + i % 1000 * 1e-4]::real[] AS v FROM generate_series(1, 1247) AS i;
-- most pairs of copies are not compared, or not stored
CREATE TABLE copies AS SELECT id, ARRAY[trunc(v[1])]::real[] AS v FROM grouped;
CREATE TABLE hundreds AS SELECT i AS id, ARRAY[i / 100]::real[] AS v FROM generate_series(0, 1999) AS i;
CREATE FUNCTION spilled(query text, OUT pairs text, OUT spilled text, OUT memory boolean) LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	plan := plan->0->'Plan';
	pairs := plan->>'Pairs';
	spilled := plan->>'Spilled Pairs';
	memory := (plan->>'Memory Usage')::float8 BETWEEN 1024 AND 1536;
END $$;
SELECT keep_one.pairs, keep_one.spilled FROM spilled($$SELECT * FROM fasted_keep_one('grouped', 'v', 0.4, id_column => 'id')$$) AS keep_one;
SET fasted.memory_limit = '1MB';
SET fasted.threads = 1;	-- the order of pairs decides which can be dropped
SELECT * FROM unnest(ARRAY['fasted_keep_one(''grouped'', ''v'', 0.4, id_column => ''id'')', 'fasted_cluster(''grouped'', ''v'', 0.4, 500, id_column => ''id'')',
	'fasted_cluster(''hundreds'', ''v'', 0, 100, id_column => ''id'')', 'fasted_cluster(''grouped'', ''v'', 0.4, 2, id_column => ''id'')',
	'fasted_keep_one(''copies'', ''v'', 0.4, id_column => ''id'')', 'fasted_cluster(''copies'', ''v'', 0.4, 2, id_column => ''id'')']) AS c, spilled('SELECT * FROM ' || c) AS s;
-- three copies of each row, which have three pairs unless one of them is withheld; vectors to compare with exceed the limit
CREATE TABLE triples AS SELECT i AS id, array_fill(i / 3, ARRAY[1000])::real[] AS v FROM generate_series(0, 299) AS i;
SELECT pairs::int BETWEEN 101 AND 299 AS some_withheld FROM spilled($$SELECT * FROM fasted_cluster('triples', 'v', 0.5, 1, id_column => 'id')$$);
RESET fasted.memory_limit;
RESET fasted.threads;

-- the same rows as by the function, whichever columns are selected
CREATE TEMP TABLE calls (call text);
INSERT INTO calls VALUES ('fasted_neighbors(''t'', ''v'', 1)'), ('fasted_cluster(''t'', ''v'', 1, 4)'), ('fasted_keep_one(''t'', ''v'', 1, ''p'')');
CREATE FUNCTION answer(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE rows text;
BEGIN
	EXECUTE format('SELECT string_agg(r::text, '','') FROM (%s) AS r', query) INTO rows;
	RETURN rows;
END $$;
CREATE FUNCTION by_function(query text) RETURNS text LANGUAGE plpgsql SET fasted.scan_node = off
	AS $$ BEGIN RETURN answer(query); END $$;
SELECT count(*), count(*) FILTER (WHERE answer(query) = by_function(query)), min(length(answer(query))) > 100
FROM calls, unnest(ARRAY['SELECT * FROM ', 'SELECT id FROM ']) AS s, format('%s%s', s, call) AS query;
SELECT answer('SELECT kept, count(*) FROM fasted_keep_one(''t'', ''v'', 3) GROUP BY 1 ORDER BY 1') =
	by_function('SELECT kept, count(*) FROM fasted_keep_one(''t'', ''v'', 3) GROUP BY 1 ORDER BY 1');
-- the window functions return the same, whatever the key type
SELECT count(*), bool_and(w.neighbors = n.neighbors) AS neighbors, bool_and(w.cluster IS NOT DISTINCT FROM c.cluster) AS clusters, bool_and(w.kept = kept.u) AS kept
FROM (SELECT id, fasted_neighbor_count(v, 1) OVER () AS neighbors, fasted_dbscan(v, 1, 4) OVER (ORDER BY id) AS cluster,
		fasted_keep(v, 1, u) OVER (ORDER BY p, id) AS kept FROM t) AS w
	JOIN fasted_neighbors('t', 'v', 1) AS n USING (id) JOIN fasted_cluster('t', 'v', 1, 4) AS c USING (id)
	JOIN fasted_keep_one('t', 'v', 1, 'p') AS k USING (id) JOIN t AS kept ON kept.id = k.kept;
SELECT count(*) FROM fasted_neighbors('t', 'v', 1);
SELECT 1 FROM fasted_cluster('t', 'v', 1) LIMIT 2;

-- not replaced: whole rows, WITH ORDINALITY, ROWS FROM, the select list; replaced: with locked rows, in subqueries
CREATE FUNCTION plan_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; nodes text[];
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		nodes = nodes || substring(line FROM 'Custom Scan|Function Scan|ProjectSet');
	END LOOP;
	RETURN array_to_string(nodes, ', ');
END $$;
SELECT query, plan_of(query) FROM unnest(ARRAY[
	'SELECT c FROM fasted_cluster(''t'', ''v'', 1) AS c',
	'SELECT * FROM fasted_cluster(''t'', ''v'', 1) WITH ORDINALITY',
	'SELECT * FROM ROWS FROM (fasted_cluster(''t'', ''v'', 1), generate_series(1, 2)) AS r',
	'SELECT * FROM t JOIN fasted_cluster(''t'', ''v'', 1) AS c USING (id) FOR UPDATE OF t',
	'SELECT fasted_neighbors(''t'', ''v'', 1)',
	'SELECT t.id FROM t JOIN (SELECT DISTINCT kept FROM fasted_keep_one(''t'', ''v'', 1)) AS k ON k.kept = t.id FOR UPDATE OF t',
	'SELECT * FROM (SELECT id FROM fasted_neighbors(''t'', ''v'', 1) WHERE neighbors > 2) AS n']) AS query;
SELECT string_agg(c::text, ',') = (SELECT string_agg(format('(%s,%s,%s)', id, cluster, CASE WHEN core THEN 't' ELSE 'f' END), ',') FROM fasted_cluster('t', 'v', 1))
FROM fasted_cluster('t', 'v', 1) AS c;

-- the node runs again when an argument changes, and only then
SELECT ran($$SELECT e, c.cluster FROM generate_series(0, 3) AS e, LATERAL fasted_cluster('t', 'v', e) AS c$$);
SELECT e, count(DISTINCT c.cluster) FROM generate_series(0, 3) AS e, LATERAL fasted_cluster('t', 'v', e) AS c GROUP BY 1 ORDER BY 1;
SELECT ran($$SELECT id, (SELECT neighbors FROM fasted_neighbors('t', 'v', 1) AS n WHERE n.id = t.id) FROM t$$);
SELECT count(*) FILTER (WHERE n = (SELECT neighbors FROM fasted_neighbors('t', 'v', 1) AS m WHERE m.id = x.id)), sum(n)
FROM (SELECT id, (SELECT neighbors FROM fasted_neighbors('t', 'v', 1) AS n WHERE n.id = t.id) AS n FROM t) AS x;
SELECT sum((SELECT sum(cluster) FROM fasted_cluster('t', 'v', e / 2.0) AS c WHERE c.id > i)) FROM generate_series(0, 2) AS e, generate_series(0, 100, 20) AS i;
SELECT count(*) FROM generate_series(0, 2) AS e, LATERAL fasted_neighbors('t', 'v', (SELECT e + max(p) - 4 FROM t));
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT ran($$SELECT g FROM generate_series(1, 3) AS g LEFT JOIN fasted_cluster('t', 'v', 0.5) AS c ON c.id <= g$$);
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;

-- parameters, cursors, a view
PREPARE clusters AS SELECT max(cluster) FROM fasted_cluster($1, $2, $3, $4);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE clusters('t', 'v', '1', 1);
EXECUTE clusters('t', 'v', '0.5', 1);
EXECUTE clusters('t', 'v', '0.5', 2);
RESET plan_cache_mode;
CREATE VIEW groups AS SELECT cluster, count(*) AS size, array_agg(id) AS ids FROM fasted_cluster('t', 'v', 0) GROUP BY cluster;
SELECT size, count(*) FROM groups GROUP BY 1;
BEGIN;
DECLARE c CURSOR FOR SELECT id, neighbors FROM fasted_neighbors('t', 'v', 1);
SAVEPOINT s;
TRUNCATE t;
\echo :SQLSTATE
ROLLBACK TO s;
FETCH 2 FROM c;
DELETE FROM t;
FETCH 1 FROM c;
FETCH BACKWARD 1 FROM c;
\echo :SQLSTATE
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, neighbors FROM fasted_neighbors('t', 'v', 1);
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
COMMIT;

-- privileges to execute and to read are checked at execution
CREATE ROLE fasted_node_reader;
GRANT SELECT (id, v) ON t TO fasted_node_reader;
SET ROLE fasted_node_reader;
SELECT count(*) FROM fasted_keep_one('t', 'v', 1);
SELECT count(*) FROM fasted_keep_one('t', 'v', 1, 'p');
\echo :SQLSTATE
SELECT count(*) FROM groups;
\echo :SQLSTATE
EXPLAIN (COSTS OFF) SELECT id FROM fasted_keep_one('t', 'v', 1, 'p');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION fasted_neighbors(regclass, name, double precision, text, name, name) FROM PUBLIC;
SET ROLE fasted_node_reader;
SELECT count(*) FROM fasted_neighbors('t', 'v', 1);
\echo :SQLSTATE
RESET ROLE;
GRANT EXECUTE ON FUNCTION fasted_neighbors(regclass, name, double precision, text, name, name) TO PUBLIC;

-- the errors are those of the function
SELECT * FROM fasted_cluster('t', 'v', -1);
\echo :SQLSTATE
SELECT * FROM fasted_cluster('t', 'v', 1, 0);
\echo :SQLSTATE
SELECT * FROM fasted_neighbors('t', 'nothing', 1);
\echo :SQLSTATE
SELECT * FROM fasted_neighbors('t', 'v', 1, metric => NULL);
\echo :SQLSTATE
SELECT * FROM fasted_keep_one('t', 'v', 1, metric => 'manhattan');
\echo :SQLSTATE
ALTER FUNCTION fasted_cluster(regclass, name, double precision, integer, text, name, name) SET work_mem = '1MB';
SELECT plan_of('SELECT * FROM fasted_cluster(''t'', ''v'', 1)');
ALTER FUNCTION fasted_cluster(regclass, name, double precision, integer, text, name, name) RESET work_mem;
SET fasted.scan_node = off;
SELECT plan_of('SELECT * FROM fasted_cluster(''t'', ''v'', 1)');
RESET fasted.scan_node;

SET client_min_messages = warning;
DROP TABLE t, calls, grouped, copies, hundreds, triples CASCADE;
DROP VIEW IF EXISTS groups;
DROP FUNCTION shown, spilled, answer, by_function, plan_of;
DROP ROLE fasted_node_reader;
