-- The scan node: where it is used, and that it returns the same as the function.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET fasted.engine = cpu;

-- two tables: one with keys in the order of its rows, one with keys in another order
CREATE TABLE points (id bigint PRIMARY KEY, kind int, v real[]);
INSERT INTO points SELECT i, i % 3, ARRAY[i % 20, i / 20 % 10, 7]::real[] FROM generate_series(1, 300) AS i;
CREATE TABLE mixed (id int PRIMARY KEY, label text UNIQUE, u uuid UNIQUE, v real[]);
INSERT INTO mixed SELECT (i * 7919) % 301, 'item ' || (i * 101) % 301, md5(i::text)::uuid, ARRAY[i % 11, i % 13]::real[]
	FROM generate_series(1, 300) AS i;
CREATE TABLE radius (eps float8, kind int);
INSERT INTO radius VALUES (0, 0), (1.5, 1), (3, 2), (3, 1), (-0.0, 0);
ANALYZE points, mixed, radius;

-- Checks that the plan has the node and that the result is that of the function.
CREATE FUNCTION compare(query text, OUT nodes int, OUT nrows bigint, OUT same boolean) LANGUAGE plpgsql AS $$
DECLARE
	digest text := format('SELECT count(*), coalesce(sum(hashtextextended(x::text, 0)), 0) FROM (%s) AS x', query);
	line text;
	streamed numeric;
	stored numeric;
	stored_rows bigint;
BEGIN
	nodes := 0;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		nodes := nodes + (line LIKE '%Custom Scan (FastedSelfJoin)%')::int;
	END LOOP;
	EXECUTE digest INTO nrows, streamed;
	SET LOCAL fasted.scan_node = off;
	EXECUTE digest INTO stored_rows, stored;
	SET LOCAL fasted.scan_node = on;
	same := nrows = stored_rows AND streamed = stored;
END $$;

CREATE TABLE shapes (n serial, query text);
\copy shapes (query) FROM stdin
SELECT * FROM fasted_self_join('points', 'v', 3)
SELECT dist FROM fasted_self_join('points', 'v', 3)
SELECT id_b, id_a FROM fasted_self_join('points', 'v', 3)
SELECT dist, id_b FROM fasted_self_join('points', 'v', 3) AS p (a, id_b, dist)
SELECT 1 FROM fasted_self_join('points', 'v', 3)
SELECT id_a + id_b, dist * 2 FROM fasted_self_join('points', 'v', 3)
SELECT * FROM fasted_self_join('points', 'v', 3, ordered => true)
SELECT * FROM fasted_self_join('points', 'v', 3, self_pairs => true)
SELECT * FROM fasted_self_join('points', 'v', 3, ordered => true, self_pairs => true)
SELECT * FROM fasted_self_join('mixed', 'v', 2)
SELECT * FROM fasted_self_join('mixed', 'v', 2, ordered => true, self_pairs => true)
SELECT id_a FROM fasted_self_join('mixed', 'v', 2, ordered => true)
SELECT * FROM fasted_self_join('mixed', 'v', 2, id_type => NULL::text, id_column => 'label')
SELECT id_b, dist FROM fasted_self_join('mixed', 'v', 2, id_type => NULL::text, id_column => 'label', ordered => true, self_pairs => true)
SELECT * FROM fasted_self_join('mixed', 'v', 2, id_type => NULL::uuid, id_column => 'u')
SELECT * FROM fasted_self_join('mixed', 'v', 2, id_type => NULL::int) WHERE id_a > 100
SELECT count(*) FROM fasted_self_join('points', 'v', 3)
SELECT count(*), count(*) + 1 AS n, count(*)::text FROM fasted_self_join('mixed', 'v', 2, ordered => true, self_pairs => true)
SELECT count(*) FROM fasted_self_join('points', 'v', 3) WHERE dist < 2 AND dist > 1
SELECT count(*) FROM fasted_self_join('points', 'v', 3) HAVING count(*) > 5
SELECT count(*), sum(dist) > 0 FROM fasted_self_join('points', 'v', 3)
SELECT count(dist) FROM fasted_self_join('points', 'v', 3)
SELECT count(*) FILTER (WHERE dist < 2) FROM fasted_self_join('points', 'v', 3)
SELECT DISTINCT dist FROM fasted_self_join('points', 'v', 3)
SELECT dist FROM fasted_self_join('points', 'v', 3) ORDER BY dist + id_a LIMIT 7
SELECT id_a, max(dist) FROM fasted_self_join('points', 'v', 3) GROUP BY id_a HAVING count(*) > 2
SELECT id_a, rank() OVER (PARTITION BY id_a ORDER BY dist) FROM fasted_self_join('points', 'v', 3)
SELECT a.kind, b.kind AS kind_b, p.dist FROM fasted_self_join('points', 'v', 2) p JOIN points a ON a.id = p.id_a JOIN points b ON b.id = p.id_b
SELECT q.kind, p.id_b FROM points q LEFT JOIN fasted_self_join('points', 'v', 2) p ON p.id_a = q.id AND p.dist < 1.5
SELECT id FROM points WHERE id IN (SELECT id_a FROM fasted_self_join('points', 'v', 1))
SELECT id FROM points q WHERE NOT EXISTS (SELECT FROM fasted_self_join('points', 'v', 1) p WHERE q.id IN (p.id_a, p.id_b))
SELECT id FROM points EXCEPT SELECT id_a FROM fasted_self_join('points', 'v', 1, ordered => true)
WITH p AS MATERIALIZED (SELECT * FROM fasted_self_join('points', 'v', 2)) SELECT x.id_a, y.id_b FROM p x JOIN p y ON x.id_b = y.id_a
WITH p AS NOT MATERIALIZED (SELECT * FROM fasted_self_join('points', 'v', 2)) SELECT x.id_a, y.id_b FROM p x JOIN p y ON x.id_b = y.id_a
WITH RECURSIVE reached (id) AS (VALUES (7::bigint) UNION SELECT p.id_b FROM reached r, fasted_self_join('points', 'v', 1.5) p WHERE p.id_a = r.id) SELECT * FROM reached
SELECT * FROM fasted_self_join('points', 'v', 1) UNION ALL SELECT id_b, id_a, dist FROM fasted_self_join('points', 'v', 1)
SELECT x.id_a FROM (SELECT * FROM fasted_self_join('points', 'v', 2) OFFSET 0) x
SELECT eps, p.* FROM radius, LATERAL fasted_self_join('points', 'v', eps) p
SELECT eps, p.* FROM radius, LATERAL fasted_self_join('points', 'v', 3) p WHERE p.dist <= eps
SELECT eps, p.* FROM radius LEFT JOIN LATERAL fasted_self_join('points', 'v', abs(eps)) p ON p.id_a < 20 + kind
SELECT eps, (SELECT count(*) FROM fasted_self_join('points', 'v', eps)) AS n FROM radius
SELECT eps, (SELECT count(*) FROM fasted_self_join('points', 'v', 3) WHERE dist <= eps) AS n FROM radius
SELECT eps, (SELECT sum(dist) FROM fasted_self_join('points', 'v', 3) WHERE dist <= eps) AS n FROM radius
SELECT p.* FROM fasted_self_join('points', 'v', (SELECT max(eps) FROM radius)) p
SELECT p.* FROM (SELECT relname, oid FROM pg_class WHERE relname IN ('points', 'mixed')) c, fasted_self_join(c.oid, 'v', 1) p
SELECT * FROM fasted_self_join('points', 'v', 3) p JOIN fasted_self_join('points', 'v', 2) q USING (id_a, id_b)
SELECT r.eps, p.id_a FROM radius r JOIN fasted_self_join('points', 'v', 3) p ON p.dist < r.eps
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist < 2
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE 2 >= dist AND dist > 0
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist = 1
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist BETWEEN 1 AND 1.4142135623730951
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist < 1.4142135623730951
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist <> 1
SELECT * FROM fasted_self_join('points', 'v', 3, self_pairs => true) WHERE dist <= 0
SELECT * FROM fasted_self_join('points', 'v', 3, self_pairs => true) WHERE dist < 0
SELECT * FROM fasted_self_join('points', 'v', 3, self_pairs => true) WHERE dist > '-Infinity'
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist < 'NaN'
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist >= 'NaN'
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist = 'NaN'
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist > 'NaN'
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist <= 'Infinity' AND dist < 'Infinity'
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist > 'Infinity'
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist < (SELECT max(kind) FROM radius)
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist < (SELECT eps FROM radius WHERE eps > 99)
SELECT * FROM fasted_self_join('points', 'v', 3, ordered => true) WHERE id_a < id_b
SELECT * FROM fasted_self_join('points', 'v', 3, ordered => true) WHERE id_b < id_a AND dist > 1
SELECT * FROM fasted_self_join('points', 'v', 3, ordered => true, self_pairs => true) WHERE id_a <= id_b
SELECT * FROM fasted_self_join('mixed', 'v', 3, ordered => true, self_pairs => true) WHERE id_a >= id_b
SELECT * FROM fasted_self_join('mixed', 'v', 3, ordered => true, self_pairs => true) WHERE id_a = id_b
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE id_a > id_b
SELECT dist FROM fasted_self_join('mixed', 'v', 3, ordered => true, self_pairs => true) WHERE id_a > id_b
SELECT count(*) FROM fasted_self_join('mixed', 'v', 3, ordered => true, self_pairs => true) WHERE id_a > id_b
SELECT count(*) FROM fasted_self_join('mixed', 'v', 3, ordered => true, self_pairs => true) WHERE id_a <> id_b
SELECT count(*) FROM fasted_self_join('mixed', 'v', 3, ordered => true, self_pairs => true) WHERE id_a <= id_b AND dist < 2
SELECT * FROM fasted_self_join('mixed', 'v', 2, id_type => NULL::text, id_column => 'label', ordered => true) WHERE id_a < id_b
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE id_a = 42 OR id_b = 42
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE id_a % 2 = 0 AND dist < 2.5
SELECT dist FROM fasted_self_join('points', 'v', 3) WHERE id_a % 2 = 0
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE false
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE current_setting('fasted.engine') = 'cpu'
SELECT count(*) FROM fasted_self_join('points', 'v', 3) WHERE current_setting('fasted.engine') = 'cuda'
SELECT * FROM fasted_self_join('points', 'v', 3) WHERE dist < current_setting('work_mem')::text::float8 * 0 + 2
SELECT CASE WHEN dist > 1 THEN id_a ELSE id_b END AS x FROM fasted_self_join('points', 'v', 3)
SELECT * FROM fasted_self_join('mixed', 'v', 0.01, metric => 'cosine')
SELECT * FROM fasted_self_join('mixed', 'v', 0.01, ordered => true, self_pairs => true, metric => 'cosine')
SELECT count(*) FROM fasted_self_join('mixed', 'v', 0.01, self_pairs => true, metric => 'cosine')
SELECT id_b, dist FROM fasted_self_join('mixed', 'v', 0.01, id_type => NULL::text, id_column => 'label', metric => 'cosine') WHERE dist > 0
SELECT eps, kind, p.* FROM radius, LATERAL fasted_self_join('points', 'v', eps / 1000, metric => CASE kind WHEN 1 THEN 'cosine' ELSE 'l2' END) p
\.
UPDATE shapes SET query = replace(query, 'current_setting(''work_mem'')::text::float8', 'length(current_setting(''work_mem''))::float8');
SELECT n, nodes, nrows, same, left(query, 110) AS query FROM shapes, compare(query) ORDER BY n;

-- queries that only the function supports
TRUNCATE shapes RESTART IDENTITY;
\copy shapes (query) FROM stdin
SELECT p FROM fasted_self_join('points', 'v', 2) p
SELECT count(p) FROM fasted_self_join('points', 'v', 2) p
SELECT id_a FROM fasted_self_join('points', 'v', 2) p WHERE p IS NOT NULL
SELECT row_to_json(p)::text FROM fasted_self_join('points', 'v', 2) p
SELECT n IS NULL AS n, id_a FROM fasted_self_join('points', 'v', 2) WITH ORDINALITY AS p (id_a, id_b, dist, n)
SELECT * FROM ROWS FROM (fasted_self_join('points', 'v', 1), generate_series(1, 5)) AS p (a, b, d, n) WHERE n IS NULL
SELECT (fasted_self_join('points', 'v', 2)).*
SELECT fasted_self_join('points', 'v', 2)
\.
SELECT n, nodes, nrows, same, query FROM shapes, compare(query) ORDER BY n;
DROP TABLE shapes;

-- locked or changed rows
BEGIN;
EXPLAIN (COSTS OFF) SELECT q.kind FROM points q JOIN fasted_self_join('points', 'v', 0) p ON p.id_a = q.id FOR UPDATE OF q;
SELECT count(*) FROM (SELECT q.kind FROM points q JOIN fasted_self_join('points', 'v', 1) p ON p.id_a = q.id FOR UPDATE OF q) x;
UPDATE points SET kind = 9 FROM fasted_self_join('points', 'v', 1) p WHERE p.id_a = points.id;
SELECT count(*) FROM points WHERE kind = 9;
MERGE INTO points USING (SELECT DISTINCT id_b FROM fasted_self_join('points', 'v', 1)) p ON p.id_b = points.id
	WHEN MATCHED THEN UPDATE SET kind = 10;
MERGE INTO points USING fasted_self_join('points', 'v', 0) p ON p.id_b = points.id AND p.id_a = 1
	WHEN MATCHED THEN DELETE;
SELECT count(*) FROM points WHERE kind = 10;
INSERT INTO points SELECT 1000 + row_number() OVER (), id_a, '{0, 0, 7}' FROM fasted_self_join('points', 'v', 1);
SELECT count(*) FROM points WHERE id > 1000;
DELETE FROM points USING fasted_self_join('points', 'v', 1) p WHERE p.id_a = points.id AND id < 1000;
SELECT count(*) FROM points WHERE id < 1000;
ROLLBACK;

-- EXPLAIN
EXPLAIN (COSTS OFF) SELECT count(*) FROM fasted_self_join('points', 'v', 3) WHERE dist < 2 AND id_a < id_b;
EXPLAIN (COSTS OFF) SELECT sum(p.dist) FROM fasted_self_join('points', 'v', 3) p WHERE 2 > dist AND id_a % 2 = 0;
EXPLAIN (COSTS OFF) SELECT dist FROM fasted_self_join('mixed', 'v', 3, id_type => NULL::text, id_column => 'label') p ORDER BY dist * 2;
EXPLAIN (COSTS OFF) SELECT eps, dist FROM radius, fasted_self_join('points', 'v', eps) ORDER BY 1;
EXPLAIN (COSTS OFF) SELECT * FROM radius r JOIN fasted_self_join('points', 'v', 3) p ON p.dist < r.eps;
EXPLAIN (COSTS OFF) SELECT id_a FROM fasted_self_join('points', 'v', 0.1, metric => 'cosine') WHERE dist < 0.05;
EXPLAIN (COSTS OFF) SELECT eps, dist FROM radius, fasted_self_join('points', 'v', eps, metric => CASE kind WHEN 1 THEN 'cosine' ELSE 'l2' END);
EXPLAIN (COSTS OFF) SELECT id_a FROM fasted_self_join('points', 'v', 0.1, metric => 'none');
CREATE VIEW no_key AS SELECT v FROM points;
EXPLAIN (COSTS OFF) SELECT id_a FROM fasted_self_join('no_key', 'v', 3, id_column => 'kind') FETCH FIRST 1 ROW ONLY;
EXPLAIN (COSTS OFF) SELECT * FROM fasted_self_join('no_key', 'v', 3);
EXPLAIN (COSTS OFF) SELECT * FROM fasted_self_join(NULL, 'v', 3);
EXPLAIN (COSTS OFF) SELECT * FROM fasted_self_join('points', 'nothing', 3);
SET fasted.filter = 'fp16';
EXPLAIN (COSTS OFF, VERBOSE) SELECT p.id_a FROM fasted_self_join('points', 'v', 3) p;
CREATE TEMP TABLE "of mine" (id int PRIMARY KEY, v real[]);
EXPLAIN (COSTS OFF, VERBOSE) SELECT count(*) FROM fasted_self_join('"of mine"', 'v', 3);
RESET fasted.filter;
SET fasted.engine = 'auto';
EXPLAIN (COSTS OFF) SELECT count(*) FROM fasted_self_join('points', 'v', 3);
SET fasted.cuda_library = 'not_built';
SET fasted.engine = 'cuda';
EXPLAIN (COSTS OFF) SELECT count(*) FROM fasted_self_join('points', 'v', 3);
EXPLAIN (COSTS OFF) SELECT id_a FROM fasted_self_join('points', 'v', 3);
RESET fasted.cuda_library;
SET fasted.engine = 'cpu';

-- the planner's estimates
CREATE FUNCTION estimated(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Estimated Pairs')::float8;
END $$;
CREATE FUNCTION planned(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Plan Rows')::float8;
END $$;
CREATE TABLE square AS SELECT i AS id, ARRAY[hashint4(i) % 1000, hashint4(-i) % 1000]::real[] AS v FROM generate_series(1, 2500) AS i;
ANALYZE square;
SELECT eps, n, (estimated / n)::numeric(10, 1) BETWEEN 0.4 AND 2.5 AS near_enough
FROM unnest(ARRAY[20, 60, 200, 800, 'Infinity']::float8[]) AS eps,
	LATERAL (SELECT count(*) AS n FROM fasted_self_join('square', 'v', eps, id_column => 'id')) AS c,
	estimated(format('SELECT * FROM fasted_self_join(''square'', ''v'', %L::float8, id_column => ''id'')', eps));

-- cosine: with many zero vectors, and with doubles whose squares overflow or underflow
CREATE TABLE holes AS SELECT id, CASE WHEN id % 3 = 0 THEN '{0,0}' WHEN id % 4 = 0 THEN '{1,1}' ELSE v END AS v FROM square;
CREATE TABLE extremes AS SELECT id, ARRAY[v[1] * m, v[2] * m] AS v FROM square, LATERAL (SELECT CASE id % 2 WHEN 0 THEN 1e200::float8 ELSE 1e-200 END) AS s (m);
ANALYZE holes, extremes;
SET client_min_messages = warning;	-- joins of most pairs raise a NOTICE
SELECT t, eps, n, (estimated / n)::numeric(10, 1) BETWEEN 0.4 AND 2.5 AS near_enough
FROM unnest('{square,holes,extremes}'::text[]) AS t, unnest(ARRAY[1e-5, 0.001, 0.1, 1, 1.9, 2]::float8[]) AS eps,
	LATERAL (SELECT count(*) AS n FROM fasted_self_join(t::regclass, 'v', eps, id_column => 'id', metric => 'cosine')) AS c,
	estimated(format('SELECT * FROM fasted_self_join(%L, ''v'', %L::float8, id_column => ''id'', metric => ''cosine'')', t, eps))
ORDER BY t DESC, eps;
SELECT metric, eps, n, (planned / n)::numeric(10, 1) BETWEEN 0.4 AND 2.5 AS near_enough
FROM (VALUES ('cosine', 0.001), ('cosine', 0.1), ('l2', 200)) AS p (metric, eps),
	LATERAL (SELECT 2 * count(*) AS n FROM fasted_self_join('square', 'v', eps, id_column => 'id', metric => metric)) AS c,
	planned(format('SELECT FROM square a, square b WHERE fasted_within(a.v, b.v, %L, %L)', eps, metric));

RESET client_min_messages;

-- children of a parent table are counted as they are read, also if the parent has statistics of its own rows
CREATE TABLE parent (id int, v real[]);
CREATE TABLE child () INHERITS (parent);
INSERT INTO parent SELECT i FROM generate_series(1, 100) AS i;
INSERT INTO child SELECT * FROM square;
ANALYZE parent, child;
SELECT eps, (estimated(format('SELECT * FROM fasted_self_join(''parent'', ''v'', %L::float8, id_column => ''id'')', eps)) /
	estimated(format('SELECT * FROM fasted_self_join(''child'', ''v'', %L::float8, id_column => ''id'')', eps)))::numeric(10, 1) BETWEEN 0.8 AND 1.2 AS self,
	(planned(format('SELECT FROM parent a, parent b WHERE fasted_within(a.v, b.v, %L)', eps)) /
	planned(format('SELECT FROM child a, child b WHERE fasted_within(a.v, b.v, %L)', eps)))::numeric(10, 1) BETWEEN 0.8 AND 1.3 AS joined,
	planned(format('SELECT FROM ONLY parent a, ONLY parent b WHERE fasted_within(a.v, b.v, %L)', eps)) < 2000 AS apart
FROM unnest(ARRAY[60, 200]::float8[]) AS eps;
DROP TABLE parent, child;

-- the closest pairs, as described in doc/functions.md
SELECT k, same FROM unnest(ARRAY[1, 10, 125]) AS k,
	LATERAL (SELECT array_agg(dist) = (SELECT array_agg(dist) FROM (
		SELECT dist FROM fasted_self_join('square', 'v', 'Infinity', id_column => 'id') ORDER BY dist LIMIT k) y) AS same
	FROM (SELECT dist FROM fasted_self_join('square', 'v', (SELECT eps FROM fasted_epsilon('square', 'v', 0.1)), id_column => 'id')
		ORDER BY dist LIMIT k) x) z;

-- estimates reveal nothing about a column that the user may not read
CREATE FUNCTION numbers(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	plan := plan -> 0 -> 'Plan';
	RETURN concat_ws(' ', plan ->> 'Plan Rows', plan ->> 'Total Cost', plan ->> 'Estimated Pairs');
END $$;
CREATE TABLE secret (id int PRIMARY KEY, plain real[], sparse real[], wide real[]);
INSERT INTO secret SELECT i, ARRAY[i, -i], CASE WHEN i % 4 = 0 THEN ARRAY[i, -i] END, ARRAY(SELECT (i + k)::real FROM generate_series(1, 60) AS k)
FROM generate_series(1, 1000) AS i;
CREATE TABLE secured AS TABLE secret;
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
ANALYZE secret, secured;
CREATE VIEW differing AS
	SELECT t, eps, count(DISTINCT numbers(format('SELECT * FROM fasted_self_join(%L, %L, %L, id_column => ''id'')', t, c, eps))) AS estimates
	FROM unnest('{secret,secured}'::text[]) AS t, unnest('{1,Infinity}'::float8[]) AS eps, unnest('{plain,sparse,wide}'::text[]) AS c
	GROUP BY t, eps ORDER BY t, eps;
ALTER VIEW differing SET (security_invoker);
CREATE VIEW few AS SELECT * FROM secret WHERE id <= 10;
CREATE VIEW many AS SELECT * FROM secret WHERE id <= 900;
CREATE ROLE regress_fasted_stranger;
CREATE ROLE regress_fasted_reader;
GRANT SELECT ON differing TO regress_fasted_stranger, regress_fasted_reader;
GRANT SELECT ON secret, secured TO regress_fasted_reader;
TABLE differing;
SET ROLE regress_fasted_reader;
TABLE differing;
SET ROLE regress_fasted_stranger;
TABLE differing;
SELECT count(DISTINCT numbers(format('SELECT * FROM fasted_self_join(%L, ''plain'', 1, id_column => ''id'')', t)))
FROM unnest('{few,many}'::text[]) AS t;
SET fasted.scan_node = off;
TABLE differing;
RESET fasted.scan_node;
RESET ROLE;
GRANT SELECT (plain, wide) ON secret TO regress_fasted_stranger;
SET ROLE regress_fasted_stranger;
TABLE differing;
RESET ROLE;

-- arguments, even volatile ones, are evaluated once for all scans, unless a parameter in them changes
CREATE SEQUENCE drawn;
CREATE VIEW scans AS
	SELECT 'self' AS what, count(DISTINCT n), nextval('drawn') AS drawn FROM (
		SELECT (SELECT count(*) FROM fasted_self_join('points', 'v', nextval('drawn')) WHERE id_a + 0 * i > 0) AS n
		FROM generate_series(1, 4) i OFFSET 0) s
	UNION ALL
	SELECT 'subquery', count(DISTINCT n), nextval('drawn') FROM (
		SELECT (SELECT count(*) FROM fasted_self_join('points', 'v', nextval('drawn') +
			(SELECT max(0 * id) FROM points WHERE id > random() - 1)) WHERE id_a + 0 * i > 0) AS n
		FROM generate_series(1, 4) i OFFSET 0) s
	UNION ALL
	SELECT 'changing', count(DISTINCT n), nextval('drawn') FROM (
		SELECT (SELECT count(*) FROM fasted_self_join('points', 'v', i + nextval('drawn')) WHERE id_a + 0 * i > 0) AS n
		FROM generate_series(1, 4) i OFFSET 0) s
	UNION ALL
	SELECT 'nearest', count(DISTINCT n), nextval('drawn') FROM (
		SELECT (SELECT count(*) FROM fasted_knn_join('points', 'v', 'points', 'v', nextval('drawn')::int) WHERE id_a + 0 * i > 0) AS n
		FROM generate_series(1, 4) i OFFSET 0) s
	UNION ALL
	SELECT 'groups', count(DISTINCT n), nextval('drawn') FROM (
		SELECT (SELECT sum(neighbors) FROM fasted_neighbors('points', 'v', nextval('drawn')) WHERE id + 0 * i > 0) AS n
		FROM generate_series(1, 4) i OFFSET 0) s;
TABLE scans;
SET fasted.scan_node = off;
ALTER SEQUENCE drawn RESTART;
TABLE scans;
RESET fasted.scan_node;

-- one NOTICE if more than half of all pairs are within eps, however the pairs are used
CREATE TABLE most AS SELECT i AS id, ARRAY[1 + i % 10, 1]::real[] AS v FROM generate_series(1, 1000) i;
SELECT count(*) FROM fasted_self_join('most', 'v', 0.95, id_column => 'id', metric => 'cosine');
SELECT count(*), sum(dist) > 0 FROM fasted_self_join('most', 'v', 4, id_column => 'id');
SELECT count(*), sum(n) FROM generate_series(1, 3) AS i,
	LATERAL (SELECT count(*) AS n FROM fasted_self_join('most', 'v', 4, id_column => 'id') WHERE id_a + i > 0 OFFSET 0) AS p;
SELECT sum(neighbors) FROM generate_series(1, 3) AS i, fasted_neighbors('most', 'v', 4 + 0 * i, id_column => 'id');
SET fasted.scan_node = off;
SELECT count(*) FROM fasted_self_join('most', 'v', 4, id_column => 'id');
SELECT sum(neighbors) FROM fasted_neighbors('most', 'v', 4, id_column => 'id');
RESET fasted.scan_node;
-- no NOTICE for fewer pairs, if all pairs are requested, for fewer rows, or with a small LIMIT
SELECT count(*), 999 * 250 FROM fasted_self_join('most', 'v', 2, id_column => 'id');
SELECT count(*), 999 * 500 FROM fasted_self_join('most', 'v', 'Infinity', id_column => 'id');
SELECT count(*) FROM fasted_self_join('most', 'v', 2, id_column => 'id', metric => 'cosine');
CREATE VIEW fewer AS SELECT * FROM most WHERE id < 1000;
SELECT count(*) FROM fasted_self_join('fewer', 'v', 4, id_column => 'id');
SELECT count(*) FROM fasted_self_join('most', 'v', 4, id_column => 'id') WHERE dist < 1.5;
DROP VIEW fewer;
DROP TABLE most;

-- a function that is not one of fasted's, with as many arguments
CREATE FUNCTION seven(a int, b int, c int, d int, e int, f int, g int, OUT x int, OUT y bigint) LANGUAGE plpgsql AS 'BEGIN x := a; y := g; END';
SELECT y FROM seven(1, 2, 3, 4, 5, 6, 7);
DROP FUNCTION seven;

-- the errors are those of the function
SELECT * FROM fasted_self_join(NULL, 'v', 1);
SELECT * FROM fasted_self_join('points', 'v', NULL);
SELECT fasted_self_join('points', 'v', NULL);
SELECT count(*) FROM fasted_self_join('points', 'v', -1);
SELECT count(*) FROM fasted_self_join('points', 'nothing', 1);
SELECT sum(dist) FROM radius, fasted_self_join('points', 'v', eps - 1);
SELECT * FROM fasted_self_join('no_key', 'v', 1);
SELECT * FROM fasted_self_join('points', 'v', 1, id_type => NULL::int);

DROP VIEW no_key, differing, scans, few, many;
DROP SEQUENCE drawn;
DROP TABLE points, mixed, radius, square, holes, extremes, secret, secured;
DROP FUNCTION compare, estimated, planned, numbers;
DROP ROLE regress_fasted_stranger, regress_fasted_reader;
