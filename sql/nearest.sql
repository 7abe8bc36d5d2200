-- fasted_knn_join: the k nearest rows of one relation for each row of another.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET fasted.engine = cpu;
SET max_parallel_workers_per_gather = 0;

-- few distinct distances, so there are many ties; ids are in no order, some vectors are null
CREATE TABLE t (id int PRIMARY KEY, v real[], g text, u uuid, n text COLLATE "C");
INSERT INTO t SELECT i * 37 % 307, CASE WHEN i % 13 <> 0 THEN ARRAY[i * 7 % 6, i * 11 % 5, 1]::real[] END,
	CASE WHEN i % 11 <> 0 THEN 'g' || i % 9 END, md5(i::text)::uuid, chr(65 + i % 26) || chr(97 + i / 26) FROM generate_series(1, 300) AS i;
CREATE TABLE s (id bigint PRIMARY KEY, w double precision[], g text, u uuid, n text COLLATE "C");
INSERT INTO s SELECT 1000 - i, ARRAY[i % 6 + (i % 2) / 2.0, i % 4, 1], 'g' || i % 7, md5('s' || i)::uuid, chr(97 + i % 26) || chr(65 + i / 26) FROM generate_series(1, 90) AS i;
ANALYZE t, s;

-- the expected result, by the definition in SQL
CREATE FUNCTION nearest_reference(a text, b text, k int, metric text, most float8, within boolean, self boolean, id text DEFAULT 'id') RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
	EXECUTE format('
		SELECT string_agg(format(''%%s %%s %%s %%s'', id_a, id_b, dist, rank), '','' ORDER BY id_a, rank)
		FROM (SELECT a.%8$s AS id_a, b.%8$s AS id_b, d.dist, row_number() OVER (PARTITION BY a.%8$s ORDER BY d.dist, b.%8$s) AS rank
			FROM (SELECT %8$s, v::real[], g FROM %1$s) AS a, (SELECT %8$s, v::real[], g FROM %2$s) AS b, %3$s(a.v, b.v) AS d (dist)
			WHERE d.dist <= %4$L AND d.dist <> ''NaN'' AND (a.g = b.g OR NOT %5$L) AND (a.%8$s <> b.%8$s OR NOT %6$L)) AS r
		WHERE rank <= %7$s', a, b, CASE metric WHEN 'l2' THEN 'fasted_distance' ELSE 'fasted_cosine_distance' END,
		coalesce(most, 'Infinity'), within, self, k, id) INTO found;
	RETURN found;
END $$;
CREATE FUNCTION nearest_answer(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
	EXECUTE format('SELECT string_agg(format(''%%s %%s %%s %%s'', id_a, id_b, dist, rank), '','' ORDER BY id_a, rank) FROM %s', call) INTO found;
	RETURN found;
END $$;
CREATE VIEW sv AS SELECT id, w AS v, g, u, n FROM s;

-- one table and two, k below and above the number of rows, metrics, limits, partitions
CREATE TEMP TABLE tried AS
SELECT self, k, metric, most, within,
	nearest_answer(format('fasted_knn_join(''t'', ''v'', %L, ''v'', %s, b_id => ''id'', metric => %L, max_distance => %L, partition_by => %L)',
		CASE WHEN self THEN 't' ELSE 'sv' END, k, metric, most, CASE WHEN within THEN 'g' END)) AS found,
	nearest_reference('t', CASE WHEN self THEN 't' ELSE 'sv' END, k, metric, most, within, self) AS expected
FROM unnest(ARRAY[true, false]) AS self, unnest(ARRAY[1, 4, 1000]) AS k, unnest(ARRAY['l2', 'cosine']) AS metric,
	unnest(ARRAY[NULL, 0.01, 1.5]) AS most, unnest(ARRAY[true, false]) AS within
WHERE k = 4 OR most IS NULL OR k = 1000 AND most = 1.5;
SELECT self, within, count(*), count(*) FILTER (WHERE found IS NOT DISTINCT FROM expected) AS right, sum(length(found)) > 100000 AS long FROM tried GROUP BY 1, 2 ORDER BY 1, 2;
SELECT * FROM tried WHERE found IS DISTINCT FROM expected LIMIT 1;
DROP TABLE tried;

-- many copies, of which the engine gets only some, in another order than that of the ids
CREATE TABLE copies AS SELECT i * 37 % 307 AS id, CASE WHEN i % 10 < 6 THEN ARRAY[(i % 2)::real, '-0'] ELSE ARRAY[i % 7, i % 11]::real[] END AS v, i % 2 AS g FROM generate_series(1, 300) AS i;
CREATE TABLE fourth AS SELECT id, v, g FROM copies WHERE id % 4 = 0;
SELECT self, count(*), count(*) FILTER (WHERE nearest_answer(format('fasted_knn_join(''copies'', ''v'', %L, ''v'', %s, a_id => ''id'', b_id => ''id'', max_distance => %L, partition_by => %L)', CASE WHEN self THEN 'copies' ELSE 'fourth' END, k, most, CASE WHEN within THEN 'g' END))
	= nearest_reference('copies', CASE WHEN self THEN 'copies' ELSE 'fourth' END, k, 'l2', most, within, self)) AS right
FROM unnest(ARRAY[true, false]) AS self, unnest(ARRAY[1, 20, 90]) AS k, unnest(ARRAY[NULL, 0]) AS most, unnest(ARRAY[true, false]) AS within GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM fasted_knn_join('copies', 'v', 'copies', 'v', 3, a_id => 'id');
DROP TABLE copies, fourth;

-- partitions that are large enough for an engine
CREATE TABLE big WITH (autovacuum_enabled = off) AS SELECT i AS id, ARRAY[i * 7 % 23, i * 11 % 19]::real[] AS v, CASE WHEN i < 500 THEN 'a' WHEN i < 600 THEN 'b' ELSE 'c' || i / 3 END AS g FROM generate_series(1, 800) AS i;
SELECT k, nearest_answer(format('fasted_knn_join(''big'', ''v'', ''big'', ''v'', %s, a_id => ''id'', partition_by => ''g'')', k)) = nearest_reference('big', 'big', k, 'l2', NULL, true, true)
FROM unnest(ARRAY[5, 200]) AS k;
-- every second partition has vectors of another number of dimensions
CREATE TABLE lengths AS SELECT i AS id, array_fill((i % 17)::real, ARRAY[1 + i % 6 / 2]) || (i % 5)::real AS v, (i % 6)::text AS g FROM generate_series(1, 600) AS i;
SELECT nearest_answer('fasted_knn_join(''lengths'', ''v'', ''lengths'', ''v'', 3, a_id => ''id'', partition_by => ''g'')') = nearest_reference('lengths', 'lengths', 3, 'l2', NULL, true, true);
SELECT count(*) FROM (SELECT * FROM fasted_knn_join('lengths', 'v', 'lengths', 'v', 3, a_id => 'id', partition_by => 'g') LIMIT 700) AS l;
DROP TABLE lengths;
-- on one side only
CREATE VIEW fewer AS SELECT * FROM big WHERE id % 10 = 0 OR g LIKE 'c%';
SELECT nearest_answer('fasted_knn_join(''big'', ''v'', ''fewer'', ''v'', 3, a_id => ''id'', b_id => ''id'', partition_by => ''g'')') = nearest_reference('big', 'fewer', 3, 'l2', NULL, true, false),
	nearest_answer('fasted_knn_join(''fewer'', ''v'', ''big'', ''v'', 3, a_id => ''id'', b_id => ''id'', partition_by => ''g'')') = nearest_reference('fewer', 'big', 3, 'l2', NULL, true, false);

-- keys of other types, in their sort order, with many ties
SELECT id, k, nearest_answer(format('fasted_knn_join(''t'', ''v'', ''t'', ''v'', %s, id_type => NULL::%s, a_id => %L)', k, type, id)) = nearest_reference('t', 't', k, 'l2', NULL, false, true, id),
	nearest_answer(format('fasted_knn_join(''t'', ''v'', ''sv'', ''v'', %s, id_type => NULL::%s, a_id => %L, b_id => %L)', k, type, id, id)) = nearest_reference('t', 'sv', k, 'l2', NULL, false, false, id),
	nearest_answer(format('fasted_knn_join(''t'', ''v'', ''sv'', ''v'', %s, id_type => NULL::%s, a_id => %L, b_id => %L, partition_by => ''g'')', k, type, id, id)) = nearest_reference('t', 'sv', k, 'l2', NULL, true, false, id),
	-- the last rows of partitions have no neighbour
	nearest_answer(format('fasted_knn_join(''t'', ''v'', ''sv'', ''v'', %s, id_type => NULL::%s, a_id => %L, b_id => %L, max_distance => 0.6, partition_by => ''g'')', k, type, id, id)) = nearest_reference('t', 'sv', k, 'l2', 0.6, true, false, id)
FROM (VALUES ('uuid', 'u'), ('text', 'n')) AS c (type, id), unnest(ARRAY[1, 7]) AS k ORDER BY 1, 2;
SELECT pg_typeof(id_a), pg_typeof(id_b), pg_typeof(dist), pg_typeof(rank) FROM fasted_knn_join('t', 'v', 't', 'v', 1, id_type => NULL::uuid, b_id => 'u') LIMIT 1;
SELECT nearest_answer('fasted_knn_join(''t'', ''v'', ''t'', ''v'', 2, id_type => NULL::int)') = nearest_answer('fasted_knn_join(''t'', ''v'', ''t'', ''v'', 2)');

-- the same table with another vector column, or a view of it, is a different relation
CREATE VIEW tv AS SELECT * FROM t;
SELECT count(*), count(*) FILTER (WHERE id_a = id_b), sum(dist) FROM fasted_knn_join('t', 'v', 'tv', 'v', 1, b_id => 'id');
ALTER TABLE s ADD x real[];
UPDATE s SET x = w;
SELECT count(*), sum(dist) FROM fasted_knn_join('s', 'w', 's', 'x', 1);

-- zero vectors have no direction; duplicates; fewer rows than k
CREATE TABLE z (id int PRIMARY KEY, v real[], g int);
SELECT * FROM fasted_knn_join('z', 'v', 'z', 'v', 3);
SELECT * FROM fasted_knn_join('z', 'v', 't', 'v', 3);
SELECT * FROM fasted_knn_join('t', 'v', 'z', 'v', 3);
INSERT INTO z VALUES (1, '{0, 0}', 1);
SELECT * FROM fasted_knn_join('z', 'v', 'z', 'v', 3);
SELECT * FROM fasted_knn_join('z', 'v', 'z', 'v', 3, partition_by => 'g');
INSERT INTO z VALUES (2, '{1, 1}', 1), (3, '{2, 2}', 1), (4, NULL, 1), (5, '{1, 1}', NULL), (6, '{1, 1}', 2);
SELECT * FROM fasted_knn_join('z', 'v', 'z', 'v', 2147483647);
SELECT * FROM fasted_knn_join('z', 'v', 'z', 'v', 2, metric => 'cosine');
SELECT * FROM fasted_knn_join('z', 'v', 'z', 'v', 2, metric => 'cosine', partition_by => 'g');
SELECT * FROM fasted_knn_join('z', 'v', 'z', 'v', 1, max_distance => 0);

-- EXPLAIN; PostgreSQL 18 shows rows with two decimals
CREATE FUNCTION nearest_ran(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, BUFFERS OFF, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		CONTINUE WHEN line LIKE '%Candidates%' OR line LIKE '%Pairs%' OR line LIKE '%Distance Filter: %' OR line LIKE '%Tiles%';
		RETURN NEXT regexp_replace(line, 'rows=(\d+)\.00', 'rows=\1');
	END LOOP;
END $$;
EXPLAIN (COSTS OFF) SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 3);
EXPLAIN (COSTS OFF) SELECT id_a, rank FROM fasted_knn_join('t', 'v', 'sv', 'v', 3, b_id => 'id', metric => 'cosine', max_distance => 0.5, partition_by => 'g') AS k WHERE rank < 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT dist FROM fasted_knn_join('t', 'v', 't', 'v', 3, id_type => NULL::uuid, b_id => 'u');
SELECT nearest_ran($$SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 3)$$);
SELECT nearest_ran($$SELECT * FROM fasted_knn_join('t', 'v', 'sv', 'v', 3, b_id => 'id') WHERE rank > 1$$);
SELECT nearest_ran($$SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 3, partition_by => 'g')$$);
SELECT nearest_ran($$SELECT * FROM fasted_knn_join('big', 'v', 'big', 'v', 3, a_id => 'id', partition_by => 'g')$$);
SELECT nearest_ran($$SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 3) LIMIT 5$$);
SELECT nearest_ran($$SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 3) WHERE false$$);
-- count(*) alone returns no rows from the node
EXPLAIN (COSTS OFF) SELECT count(*) + 1 FROM fasted_knn_join('t', 'v', 't', 'v', 3, max_distance => 1.5);
EXPLAIN (COSTS OFF) SELECT count(*) FROM fasted_knn_join('t', 'v', 't', 'v', 3) WHERE rank > 1;
SELECT within, count(*), max(n) = count(*), max(n) > 50 FROM (VALUES (NULL), ('g')) AS w (within),
	LATERAL (SELECT count(*) FROM fasted_knn_join('t', 'v', 'sv', 'v', 3, b_id => 'id', max_distance => 1.5, partition_by => w.within::name)) AS c (n),
	LATERAL fasted_knn_join('t', 'v', 'sv', 'v', 3, b_id => 'id', max_distance => 1.5, partition_by => w.within::name) AS k GROUP BY within ORDER BY within;
SELECT count(*) FROM fasted_knn_join('z', 'v', 'z', 'v', 1, max_distance => 0) WHERE false;
-- estimated rows: those of a times k, or times the rows of b
CREATE FUNCTION nearest_estimated(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan->0->'Plan'->>'Plan Rows';
END $$;
SELECT k, nearest_estimated(format('SELECT * FROM fasted_knn_join(''big'', ''v'', ''s'', ''w'', %s, a_id => ''id'')', k)) FROM unnest(ARRAY[1, 10, 100]) AS k;
ANALYZE big;
SELECT k, nearest_estimated(format('SELECT * FROM fasted_knn_join(''big'', ''v'', ''s'', ''w'', %s, a_id => ''id'')', k)) FROM unnest(ARRAY[1, 10, 100]) AS k;
-- the startup cost includes the whole computation
CREATE TABLE wide_rows AS SELECT i AS id, i % 50 AS g, ARRAY(SELECT (i + k)::real FROM generate_series(1, 100) AS k) AS v FROM generate_series(1, 1000) AS i;
ANALYZE wide_rows;
-- most of the cost is the computation
UPDATE pg_class SET reltuples = 1e6 WHERE oid = 'wide_rows'::regclass;
CREATE FUNCTION nearest_first_share(arguments text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE format('EXPLAIN (FORMAT json) SELECT * FROM fasted_knn_join(''wide_rows'', ''v'', ''wide_rows'', ''v'', 10, a_id => %s)', arguments) INTO plan;
	RETURN (plan->0->'Plan'->>'Startup Cost')::numeric / (plan->0->'Plan'->>'Total Cost')::numeric;
END $$;
SELECT nearest_first_share('''id''') > 0.9 AS at_once;
DROP TABLE wide_rows;
DROP FUNCTION nearest_first_share;

-- the same as by the function, in other places of a query
SET fasted.scan_node = off;
SELECT count(*), sum(dist)::numeric(12, 4), sum(rank) FROM fasted_knn_join('t', 'v', 't', 'v', 30);
RESET fasted.scan_node;
SELECT count(*), sum(dist)::numeric(12, 4), sum(rank) FROM fasted_knn_join('t', 'v', 't', 'v', 30);
SELECT count(*), sum((k).dist)::numeric(12, 4), sum((k).rank) FROM (SELECT fasted_knn_join('t', 'v', 't', 'v', 30) AS k) AS r;
SELECT count(*), max(ordinality) FROM fasted_knn_join('t', 'v', 't', 'v', 3, partition_by => 'g') WITH ORDINALITY;
DO $$
DECLARE
	r record;
	n int = 0;
BEGIN
	FOR r IN SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 3, partition_by => 'g') LOOP
		n = n + r.rank;
		EXIT WHEN n > 100;
	END LOOP;
	RAISE NOTICE '%', n > 100;
END $$;

-- rescans: an argument changes, or the node is the inner side of a nested loop
SELECT k, count(*), sum(dist)::numeric(12, 4) FROM generate_series(1, 31, 15) AS k, LATERAL fasted_knn_join('t', 'v', 't', 'v', k) AS n GROUP BY 1 ORDER BY 1;
SELECT id, (SELECT string_agg(id_b::text, ' ' ORDER BY rank) FROM fasted_knn_join('t', 'v', 't', 'v', 2, partition_by => 'g') AS n WHERE n.id_a = t.id) FROM t WHERE id IN (1, 37, 74) ORDER BY id;
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT nearest_ran($$SELECT g FROM generate_series(1, 3) AS g LEFT JOIN fasted_knn_join('t', 'v', 't', 'v', 1) AS n ON n.id_a <= g$$);
SELECT g, n.id_a, n.dist FROM generate_series(0, 2) AS g LEFT JOIN fasted_knn_join('t', 'v', 't', 'v', 1, partition_by => 'g') AS n ON n.id_a <= g ORDER BY 1, 2;
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;

-- parameters, cursors
PREPARE near AS SELECT count(*), sum(rank) FROM fasted_knn_join($1, $2, $3, $4, $5, partition_by => $6);
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE near('t', 'v', 't', 'v', 2, 'g');
EXECUTE near('t', 'v', 't', 'v', 2, 'g');
EXECUTE near('t', 'v', 't', 'v', 3, NULL);
RESET plan_cache_mode;
BEGIN;
DECLARE c CURSOR FOR SELECT rank FROM fasted_knn_join('t', 'v', 't', 'v', 2, partition_by => 'g');
DECLARE d CURSOR FOR SELECT id_a, rank FROM fasted_knn_join('t', 'v', 'tv', 'v', 2, b_id => 'id');
FETCH 2 FROM c;
FETCH 2 FROM d;
SAVEPOINT p;
TRUNCATE t;
\echo :SQLSTATE
ROLLBACK TO p;
DELETE FROM t;
MOVE 30 FROM c;
MOVE 30 FROM d;
FETCH 1 FROM c;
FETCH 1 FROM d;
CLOSE d;
FETCH BACKWARD 1 FROM c;
\echo :SQLSTATE
ROLLBACK;

-- a cursor continues within and after a subtransaction
BEGIN;
DECLARE c CURSOR FOR SELECT rank FROM fasted_knn_join('t', 'v', 't', 'v', 1, partition_by => 'g');
FETCH 1 FROM c;
DECLARE d CURSOR FOR SELECT rank FROM fasted_knn_join('t', 'v', 't', 'v', 2, partition_by => 'g');
SAVEPOINT p;
MOVE 100 FROM c;
FETCH 1 FROM d;
SELECT 1 / 0;
ROLLBACK TO p;
FETCH 1 FROM c;
FETCH 1 FROM d;
COMMIT;

-- privileges on both relations, row security of both
CREATE ROLE fasted_nearest_reader;
GRANT SELECT (id, v) ON t TO fasted_nearest_reader;
GRANT SELECT ON s TO fasted_nearest_reader;
SET ROLE fasted_nearest_reader;
SELECT count(*) FROM fasted_knn_join('t', 'v', 's', 'w', 1);
SELECT count(*) FROM fasted_knn_join('s', 'w', 't', 'v', 1, b_id => 'n');
SELECT count(*) FROM fasted_knn_join('s', 'w', 't', 'v', 1, id_type => NULL::text, a_id => 'n', b_id => 'n');
\echo :SQLSTATE
SELECT count(*) FROM fasted_knn_join('s', 'w', 't', 'v', 1, partition_by => 'g');
\echo :SQLSTATE
RESET ROLE;
REVOKE ALL ON t FROM fasted_nearest_reader;
SET ROLE fasted_nearest_reader;
SELECT count(*) FROM fasted_knn_join('t', 'v', 's', 'w', 1);
\echo :SQLSTATE
SELECT count(*) FROM fasted_knn_join('s', 'w', 't', 'v', 1);
\echo :SQLSTATE
RESET ROLE;
GRANT SELECT ON t TO fasted_nearest_reader;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON t USING (id < 50);
ALTER TABLE s ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON s USING (id > 950);
SET ROLE fasted_nearest_reader;
SELECT count(*), max(id_a), min(id_b) FROM fasted_knn_join('t', 'v', 's', 'w', 100);
SELECT count(*), min(id_a), max(id_b) FROM fasted_knn_join('s', 'w', 't', 'v', 100, partition_by => 'g');
SELECT count(*), max(id_a), max(id_b) FROM fasted_knn_join('t', 'v', 't', 'v', 100);
RESET ROLE;
ALTER TABLE t DISABLE ROW LEVEL SECURITY;
ALTER TABLE s DISABLE ROW LEVEL SECURITY;
REVOKE EXECUTE ON FUNCTION fasted_knn_join(regclass, name, regclass, name, integer, text, double precision, name, name, name) FROM PUBLIC;
SET ROLE fasted_nearest_reader;
SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 1);
\echo :SQLSTATE
RESET ROLE;
GRANT EXECUTE ON FUNCTION fasted_knn_join(regclass, name, regclass, name, integer, text, double precision, name, name, name) TO PUBLIC;

-- relations of other kinds
CREATE TABLE parts (id int, v real[], g int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (50);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (50) TO (1000);
INSERT INTO parts SELECT id, v, length(g) FROM t;
CREATE MATERIALIZED VIEW mat AS SELECT * FROM parts WHERE v IS NOT NULL;
SELECT nearest_answer('fasted_knn_join(''parts'', ''v'', ''mat'', ''v'', 3, a_id => ''id'', b_id => ''id'')') = nearest_reference('parts', 'mat', 3, 'l2', NULL, false, false),
	nearest_answer('fasted_knn_join(''mat'', ''v'', ''parts'', ''v'', 3, a_id => ''id'', b_id => ''id'', partition_by => ''g'')') = nearest_reference('mat', 'parts', 3, 'l2', NULL, true, false);

-- beside double precision[], numbers of other types are not rounded to real, as in a join
CREATE TABLE numbers (id int PRIMARY KEY, d double precision[], n numeric[], s smallint[], i integer[], b bigint[], r real[]);
INSERT INTO numbers SELECT g, ARRAY[g / 10.0, 16777216], ARRAY[g / 10.0, 16777217], ARRAY[g, 32767], ARRAY[g, 16777217], ARRAY[g, 16777217], ARRAY[g / 10.0, 16777216]
FROM generate_series(1, 3) g;
SELECT c, count(*), count(*) FILTER (WHERE k.dist <> CASE c WHEN 'n' THEN fasted_distance(x.d, y.n) WHEN 's' THEN fasted_distance(x.d, y.s)
	WHEN 'i' THEN fasted_distance(x.d, y.i) WHEN 'b' THEN fasted_distance(x.d, y.b) ELSE fasted_distance(x.d, y.r) END) AS wrong, min(k.dist) < 1 AS rounded
FROM unnest('{n,s,i,b,r}'::name[]) c, fasted_knn_join('numbers', 'd', 'numbers', c, 3) k
	JOIN numbers x ON x.id = id_a JOIN numbers y ON y.id = id_b GROUP BY c ORDER BY c;
SELECT count(*) FROM (SELECT id_a, id_b, dist FROM fasted_knn_join('numbers', 'n', 'numbers', 'd', 3) EXCEPT
	SELECT a.id, b.id, fasted_distance(a.n, b.d) FROM numbers a, numbers b) x;
DROP TABLE numbers;

-- errors name the argument
SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 0);
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', NULL);
\echo :SQLSTATE
SELECT * FROM fasted_knn_join(NULL, 'v', 't', 'v', 1);
SELECT * FROM fasted_knn_join('t', NULL, 't', 'v', 1);
SELECT * FROM fasted_knn_join('t', 'v', NULL, 'v', 1);
SELECT * FROM fasted_knn_join('t', 'v', 't', NULL, 1);
SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 1, metric => NULL);
SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 1, metric => 'manhattan');
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 1, max_distance => -1);
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 1, max_distance => 'NaN');
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('t', 'x', 't', 'v', 1);
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('t', 'v', 's', 'y', 1);
SELECT * FROM fasted_knn_join('t', 'v', 's', 'w', 1, b_id => 'y');
SELECT * FROM fasted_knn_join('t', 'v', 's', 'g', 1);
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('t', 'v', 's', 'w', 1, partition_by => 'y');
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('t', 'v', 'tv', 'v', 1);
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('big', 'v', 't', 'v', 1);
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('t', 'v', 's', 'w', 1, b_id => 'u');
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('t', 'v', 's', 'w', 1, a_id => 'u');
SELECT * FROM fasted_knn_join('t', 'v', 's', 'w', 1, id_type => NULL::uuid, a_id => 'u');
SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 1, a_id => 'id', b_id => 'n');
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('t', 'v', 'z', 'v', 1);
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('z', 'v', 't', 'v', 1);
SELECT count(*) FROM fasted_knn_join('t', 'v', 'parts', 'v', 1, b_id => 'id', partition_by => 'g');
\echo :SQLSTATE
CREATE VIEW posix AS SELECT id, v, g COLLATE "POSIX" AS g FROM t;
SELECT count(*) FROM fasted_knn_join('t', 'v', 'posix', 'v', 1, b_id => 'id', partition_by => 'g');
\echo :SQLSTATE
CREATE VIEW z1 AS SELECT id, ARRAY[1, 2, 3]::real[] AS v, g FROM z;
SELECT * FROM fasted_knn_join('z1', 'v', 'z', 'v', 1, a_id => 'id', partition_by => 'g');
\echo :SQLSTATE
UPDATE z SET v = '{1}', g = 1 WHERE id = 3;
SELECT * FROM fasted_knn_join('z', 'v', 'z', 'v', 1);
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('z', 'v', 'z', 'v', 1, partition_by => 'g');
\echo :SQLSTATE
CREATE VIEW twice AS SELECT id / 2 AS id, v, 'g'::text AS g FROM t;
SELECT * FROM fasted_knn_join('t', 'v', 'twice', 'v', 1, b_id => 'id');
\echo :SQLSTATE
SELECT count(*) FROM fasted_knn_join('twice', 'v', 'twice', 'v', 1, b_id => 'id', partition_by => 'g');
CREATE VIEW pairs AS SELECT id / 2 AS id, v, (id / 4)::text AS g FROM t;
SELECT count(*) FROM fasted_knn_join('pairs', 'v', 'pairs', 'v', 1, b_id => 'id', partition_by => 'g');
CREATE VIEW nameless AS SELECT nullif(id, 3) AS id, v FROM t;
SELECT * FROM fasted_knn_join('nameless', 'v', 't', 'v', 1, a_id => 'id');
\echo :SQLSTATE

DROP OWNED BY fasted_nearest_reader;
DROP ROLE fasted_nearest_reader;
DROP VIEW nameless, pairs, twice, z1, posix, tv, sv, fewer;
DROP MATERIALIZED VIEW mat;
DROP TABLE t, s, z, big, parts;
DROP FUNCTION nearest_reference, nearest_answer, nearest_ran, nearest_estimated;
