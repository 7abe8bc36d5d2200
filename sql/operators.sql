-- The operators of real[] and double precision[].
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET fasted.engine = 'cpu';

CREATE TABLE items AS SELECT i AS id, ARRAY[i % 4 + 0.1, i % 3, i % 5]::real[] AS r, ARRAY[i % 4 + 0.1, i % 3, i % 5]::float8[] AS d FROM generate_series(1, 200) AS i;
INSERT INTO items VALUES (201, NULL, NULL), (202, '{0,0,0}', '{0,0,0}');

-- the canonical distances, for each combination of types
SELECT count(*) AS pairs,
	bool_and(a.r <-> b.r = fasted_distance(a.r, b.r) AND a.d <-> b.d = fasted_distance(a.d, b.d) AND a.r <-> b.d = fasted_distance(a.r, b.d) AND a.d <-> b.r = fasted_distance(a.d, b.r)) AS l2,
	bool_and(a.r <=> b.r = fasted_cosine_distance(a.r, b.r) AND a.d <=> b.d = fasted_cosine_distance(a.d, b.d) AND a.r <=> b.d = fasted_cosine_distance(a.r, b.d) AND a.d <=> b.r = fasted_cosine_distance(a.d, b.r)) AS cosine,
	bool_and(a.r <#> b.r = fasted_negative_inner_product(a.r, b.r) AND a.d <#> b.d = fasted_negative_inner_product(a.d, b.d) AND a.r <#> b.d = fasted_negative_inner_product(a.r, b.d) AND a.d <#> b.r = fasted_negative_inner_product(a.d, b.r)) AS product
FROM items a, items b;
SELECT '{1e-30,2e-30}'::real[] <=> '{1e-200,3e-200}'::float8[] = fasted_cosine_distance('{1e-30,2e-30}'::real[]::float8[], '{1e-200,3e-200}'::float8[]) AS scaled,
	'{3,4}'::real[] <-> ARRAY[0, 0.5] AS numbers, ARRAY[3, 4.5] <-> '{0,0.5}'::float8[] AS doubles, '{3,4}'::real[] <-> '{0,0}' AS literal, '{3,4}'::real[] <-> NULL AS unknown;

-- a cast of real[] is left out
EXPLAIN (COSTS OFF) SELECT FROM items ORDER BY d <-> r;
PREPARE nearest AS SELECT id FROM items ORDER BY r <-> $1::float8[], id LIMIT 2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE nearest('{1.1,0,4}');
EXECUTE nearest('{1.1,0,4}');
RESET plan_cache_mode;

-- errors
SELECT '{1,2}'::real[] <-> '{1,2,3}';
SELECT '{1,NaN}'::real[] <#> '{1,2}'::float8[];
SELECT '{1,NULL}'::real[] <=> '{1,2}';
SELECT '{}'::float8[] <-> '{}';

-- joins
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND a.r <-> b.r < 1.5;
EXPLAIN (COSTS OFF) SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND b.d <=> a.r <= 0.1;
CREATE TABLE due AS SELECT a.r <-> b.r AS l2, a.r <=> b.d AS cosine, a.d <#> b.r AS product FROM items a, items b WHERE a.id < b.id;
SELECT (SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND a.r <-> b.r < 1.5) = count(*) FILTER (WHERE l2 < 1.5) AS l2,
	(SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND 0.1 >= b.d <=> a.r) = count(*) FILTER (WHERE cosine <= 0.1) AS cosine,
	(SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND 1 - (a.r <=> b.d) > 0.9) = count(*) FILTER (WHERE 1 - cosine > 0.9) AS similarity,
	(SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND a.d <#> b.r < -20) = count(*) FILTER (WHERE product < -20) AS product
FROM due;
DROP TABLE items, due;
