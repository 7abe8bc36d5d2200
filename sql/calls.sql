-- Places in a query where the function can be called.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

CREATE TABLE t (id int PRIMARY KEY, label text, v real[]);
INSERT INTO t SELECT i, 'item ' || i, ARRAY[i % 4]::real[] FROM generate_series(1, 8) AS i;

-- joins, aggregates, conditions, LIMIT
SELECT a.label, b.label, p.dist
FROM fasted_self_join('t', 'v', 0) AS p JOIN t a ON a.id = p.id_a JOIN t b ON b.id = p.id_b
ORDER BY 1, 2;
SELECT dist, count(*) FROM fasted_self_join('t', 'v', 3) GROUP BY 1 ORDER BY 1;
SELECT id_a FROM fasted_self_join('t', 'v', 3) WHERE dist = 0 AND id_b = 8;
SELECT count(*) FROM (SELECT * FROM fasted_self_join('t', 'v', 3) LIMIT 3) x;
SELECT count(*), sum(n) FROM fasted_self_join('t', 'v', 0) WITH ORDINALITY AS p (a, b, dist, n);
SELECT p FROM fasted_self_join('t', 'v', 0) AS p ORDER BY p LIMIT 2;

-- CTE, LATERAL, select list, several calls in one query
WITH pairs AS MATERIALIZED (SELECT * FROM fasted_self_join('t', 'v', 1))
SELECT count(*), (SELECT count(*) FROM pairs WHERE dist = 0) FROM pairs;
SELECT eps, count(*) FROM generate_series(0, 3) AS eps, LATERAL fasted_self_join('t', 'v', eps) GROUP BY 1 ORDER BY 1;
SELECT fasted_self_join('t', 'v', 0) ORDER BY 1 LIMIT 2;
SELECT (fasted_self_join('t', 'v', 0, id_type => NULL::int)).* ORDER BY 1, 2 LIMIT 2;
SELECT count(*) FROM fasted_self_join('t', 'v', 0) p JOIN fasted_self_join('t', 'v', 1) q USING (id_a, id_b);

-- prepared statements, cursors, PL/pgSQL
PREPARE near (float8) AS SELECT count(*) FROM fasted_self_join('t', 'v', $1);
EXECUTE near(0);
EXECUTE near(1);
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT * FROM fasted_self_join('t', 'v', 0) ORDER BY 1, 2;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH 2 FROM c;
CLOSE c;
COMMIT;
DO $$
DECLARE
	pair record;
	n int := 0;
BEGIN
	FOR pair IN SELECT * FROM fasted_self_join('t', 'v', 1) LOOP
		n := n + pair.id_b - pair.id_a;
	END LOOP;
	RAISE NOTICE 'sum of differences: %', n;
	BEGIN
		PERFORM * FROM fasted_self_join('t', 'v', -1);
	EXCEPTION WHEN invalid_parameter_value THEN
		RAISE NOTICE 'caught: %', SQLERRM;
	END;
	PERFORM * FROM fasted_self_join('t', 'v', 1);
	RAISE NOTICE 'went on: %', FOUND;
END $$;

-- changes by the same transaction are seen; rows that the query itself writes are not
BEGIN;
INSERT INTO t VALUES (100, 'new', '{0}');
SELECT count(*) FROM fasted_self_join('t', 'v', 0) WHERE id_b = 100;
SAVEPOINT s;
DELETE FROM t WHERE id < 5;
SELECT count(*) FROM fasted_self_join('t', 'v', 0);
ROLLBACK TO s;
SELECT count(*) FROM fasted_self_join('t', 'v', 0);
WITH added AS (INSERT INTO t VALUES (200, 'newer', '{0}') RETURNING id)
SELECT count(*), (SELECT count(*) FROM added) FROM fasted_self_join('t', 'v', 0);
ROLLBACK;
CREATE TABLE pairs AS SELECT * FROM fasted_self_join('t', 'v', 0);
INSERT INTO pairs SELECT * FROM fasted_self_join('t', 'v', 0, ordered => true) WHERE id_a > id_b;
SELECT count(*), count(DISTINCT (id_a, id_b)) FROM pairs;

-- an empty search_path does not matter
SET search_path = '';
SELECT count(*) FROM public.fasted_self_join('public.t', 'v', 0);
RESET search_path;

-- EXPLAIN shows the function or node
SET fasted.engine = cpu;
EXPLAIN (COSTS OFF) SELECT * FROM fasted_self_join('t', 'v', 0);
SET fasted.scan_node = off;
EXPLAIN (COSTS OFF) SELECT * FROM fasted_self_join('t', 'v', 0);
RESET fasted.scan_node;
RESET fasted.engine;
SELECT provolatile, proparallel, proisstrict, prosecdef FROM pg_proc WHERE proname LIKE 'fasted_self_join%' AND NOT proname LIKE '%support';

DROP TABLE t, pairs;
