-- The result: which pairs, which distances, which options.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

CREATE TABLE points (id int PRIMARY KEY, v real[]);
INSERT INTO points VALUES (1, '{0,0}'), (2, '{3,4}'), (3, '{3,4}'), (4, '{-3,-4}'), (5, '{100,100}'), (6, NULL);

-- each unordered pair once, id_a < id_b, no row with itself
SELECT * FROM fasted_self_join('points', 'v', 5) ORDER BY 1, 2;
SELECT * FROM fasted_self_join('points', 'v', 10) ORDER BY 1, 2;

-- a distance equal to eps is included; with the next smaller eps it is not
SELECT count(*) FROM fasted_self_join('points', 'v', 4.999999999999999);

-- exact duplicates; all pairs; options
SELECT * FROM fasted_self_join('points', 'v', 0);
SELECT * FROM fasted_self_join('points', 'v', '-0');
SELECT count(*), max(dist) FROM fasted_self_join('points', 'v', 'Infinity');
SELECT * FROM fasted_self_join('points', 'v', 5, ordered => true) ORDER BY 1, 2;
SELECT * FROM fasted_self_join('points', 'v', 5, self_pairs => true) ORDER BY 1, 2;
SELECT * FROM fasted_self_join('points', 'v', 5, ordered => true, self_pairs => true) ORDER BY 1, 2;
SELECT * FROM fasted_self_join('points', 'v', 5, id_column => 'id', ordered => true, self_pairs => true) ORDER BY 1, 2 LIMIT 3;

-- the selectivity as defined in the paper: S = (|R| - |D|) / |D|
SELECT (count(*) - 5) / 5.0 AS selectivity
FROM fasted_self_join('points', 'v', 5, ordered => true, self_pairs => true);

-- no rows, one row, only null vectors
CREATE TABLE few (id int PRIMARY KEY, v real[]);
SELECT * FROM fasted_self_join('few', 'v', 1, self_pairs => true);
INSERT INTO few VALUES (1, NULL);
SELECT * FROM fasted_self_join('few', 'v', 1, self_pairs => true);
INSERT INTO few VALUES (2, '{1}');
SELECT * FROM fasted_self_join('few', 'v', 1);
SELECT * FROM fasted_self_join('few', 'v', 1, self_pairs => true);

-- one dimension, and the largest possible distances
INSERT INTO few VALUES (3, '{3.4028235e38}'), (4, '{-3.4028235e38}'), (5, '{1e-45}'), (6, '{0}');
SELECT * FROM fasted_self_join('few', 'v', 'Infinity') ORDER BY 1, 2;
SELECT * FROM fasted_self_join('few', 'v', 1.5e-45) ORDER BY 1, 2;

-- compared with SQL, on whole numbers, for which plain float8 arithmetic is exact
CREATE TABLE grid AS
	SELECT i AS id, ARRAY(SELECT ((i * 7919 + k * k * 104729 + i * k) % 16)::real FROM generate_series(1, 37) AS k) AS v
	FROM generate_series(1, 331) AS i;
CREATE FUNCTION sql_distance(a real[], b real[]) RETURNS float8 LANGUAGE sql IMMUTABLE AS
	$$ SELECT sqrt(sum((x::float8 - y) ^ 2)) FROM unnest(a, b) AS u (x, y) $$;
CREATE TABLE by_sql AS
	SELECT a.id AS id_a, b.id AS id_b, sql_distance(a.v, b.v) AS dist FROM grid a JOIN grid b ON a.id < b.id;
SELECT eps,
	(SELECT count(*) FROM by_sql WHERE dist <= eps) AS by_sql,
	(SELECT count(*) FROM fasted_self_join('grid', 'v', eps, id_column => 'id')) AS by_fasted,
	(SELECT count(*) FROM (SELECT * FROM by_sql WHERE dist <= eps
		EXCEPT ALL SELECT * FROM fasted_self_join('grid', 'v', eps, id_column => 'id')) x) AS missed,
	(SELECT count(*) FROM (SELECT * FROM fasted_self_join('grid', 'v', eps, id_column => 'id')
		EXCEPT ALL SELECT * FROM by_sql WHERE dist <= eps) x) AS invented
FROM unnest(ARRAY[0, 20, sqrt(500), 30, 36.5, 'Infinity']::float8[]) AS eps;

DROP TABLE points, few, grid, by_sql;
DROP FUNCTION sql_distance;
