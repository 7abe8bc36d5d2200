-- double precision[]: vectors are compared in double precision, without rounding
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
\set VERBOSITY terse
\pset format unaligned
SET extra_float_digits = 1;
-- computed by PostgreSQL in double precision, in another order of addition: no distance is close to eps
CREATE FUNCTION plain_distance(a float8[], b float8[]) RETURNS float8 LANGUAGE sql IMMUTABLE AS
	$$ SELECT sqrt(sum((x - y) * (x - y))) FROM unnest(a, b) AS u (x, y) $$;

-- vectors that differ by less than the precision of real, and are equal after a cast to real
CREATE TABLE line (id int PRIMARY KEY, v double precision[], g int);
INSERT INTO line SELECT i, ARRAY[1e6 + i * 2 ^ -30, 7], i % 3 FROM generate_series(1, 200) i;
SELECT count(*), min(dist) = 2 ^ -30 AS least, max(dist) = 2 ^ -29 AS most FROM fasted_self_join('line', 'v', 2 ^ -29);
SELECT count(*) FROM fasted_self_join('line', 'v', 2 ^ -30 - 2 ^ -80);
CREATE VIEW line_real AS SELECT id, v::real[] AS v, g FROM line;
SELECT count(*), max(dist) FROM fasted_self_join('line_real', 'v', 0, id_column => 'id');

-- each function
SELECT neighbors, count(*) FROM fasted_neighbors('line', 'v', 2 ^ -30) GROUP BY 1 ORDER BY 1;
SELECT count(DISTINCT cluster) AS clusters, count(*) FROM fasted_cluster('line', 'v', 2 ^ -31);
SELECT count(DISTINCT cluster) AS clusters, count(*) FROM fasted_cluster('line', 'v', 2 ^ -30);
SELECT count(*) FILTER (WHERE id = kept) AS kept FROM fasted_keep_one('line', 'v', 2 ^ -30);
SELECT bool_and(abs(id_a - id_b) <= 2) AS next_ones, count(*) FROM fasted_knn_join('line', 'v', 'line', 'v', 2);
SELECT bool_and(abs(id_a - id_b) <= 6) AS next_ones, count(*) FROM fasted_knn_join('line', 'v', 'line', 'v', 2, partition_by => 'g');
SELECT eps = 2 ^ -30 AS least FROM fasted_epsilon('line', 'v', 1.9);

-- the join node and the functions of two vectors: bit-identical distances
SELECT count(*) FROM line a JOIN line b ON a.id < b.id AND fasted_within(a.v, b.v, 2 ^ -29);
SELECT count(*) FROM line a JOIN line b ON a.id < b.id AND fasted_distance(a.v, b.v) < 2 ^ -29;
SELECT count(*) FROM line a JOIN line b ON a.g = b.g AND a.id < b.id AND fasted_distance(a.v, b.v) <= 3 * 2 ^ -30;
SET fasted.join_node = off;
SELECT count(*) FROM line a JOIN line b ON a.id < b.id AND fasted_within(a.v, b.v, 2 ^ -29);
SELECT count(*) FROM line a JOIN line b ON a.g = b.g AND a.id < b.id AND fasted_distance(a.v, b.v) <= 3 * 2 ^ -30;
RESET fasted.join_node;

-- many rows of any magnitude, compared with plain SQL; some are out of range for real
CREATE TABLE many (id int PRIMARY KEY, v double precision[], t int);
INSERT INTO many SELECT i, ARRAY(SELECT (CASE WHEN i % 40 = 3 THEN 1e60 ELSE 1 END) * (1 + (i % 20)) * (1 + 1e-12 * ((i * 7919 + k * 104729) % 1009)) FROM generate_series(1, 33) k), i % 4
	FROM generate_series(1, 900) i;
SET fasted.filter = 'int8';
CREATE TABLE found AS SELECT * FROM fasted_self_join('many', 'v', 2e-9);
RESET fasted.filter;
SELECT count(*) AS found FROM found;
CREATE TABLE plain AS SELECT a.id AS id_a, b.id AS id_b, plain_distance(a.v, b.v) AS dist
	FROM many a JOIN many b ON a.id < b.id AND a.id % 20 = b.id % 20 AND (a.id % 40 = 3) = (b.id % 40 = 3);
SELECT count(*) AS lost FROM plain WHERE dist < 1.999e-9 AND NOT EXISTS (SELECT FROM found f WHERE f.id_a = plain.id_a AND f.id_b = plain.id_b);
SELECT count(*) AS invented FROM found LEFT JOIN plain USING (id_a, id_b) WHERE plain.dist IS NULL OR plain.dist > 2.001e-9;
SELECT count(*) AS other_bits FROM found JOIN many a ON a.id = id_a JOIN many b ON b.id = id_b WHERE float8send(fasted_distance(a.v, b.v)) <> float8send(dist);
SET fasted.filter = 'fp16';
SELECT count(*) AS differ FROM ((TABLE found EXCEPT SELECT * FROM fasted_self_join('many', 'v', 2e-9)) UNION ALL (SELECT * FROM fasted_self_join('many', 'v', 2e-9) EXCEPT TABLE found)) s;
RESET fasted.filter;
-- in panels, from a temporary file
SET fasted.memory_limit = '1MB';
SELECT count(*) AS differ FROM ((TABLE found EXCEPT SELECT * FROM fasted_self_join('many', 'v', 2e-9)) UNION ALL (SELECT * FROM fasted_self_join('many', 'v', 2e-9) EXCEPT TABLE found)) s;
RESET fasted.memory_limit;
SELECT count(*) AS differ FROM (SELECT id_a, id_b, dist FROM found EXCEPT SELECT a.id, b.id, fasted_distance(a.v, b.v) FROM many a JOIN many b ON a.id < b.id AND fasted_within(a.v, b.v, 2e-9)) s;

-- two relations, one of them real: compared as doubles
CREATE TABLE reals (id int PRIMARY KEY, v real[]);
INSERT INTO reals VALUES (1, '{0.1,0.2}'), (2, '{1000000,7}');
CREATE TABLE doubles (id int PRIMARY KEY, w double precision[]);
INSERT INTO doubles VALUES (1, '{0.1,0.2}'), (2, '{1000000.0000000001,7}'), (3, '{0.10000000149011612,0.20000000298023224}');
SELECT id_a, id_b, dist FROM fasted_knn_join('reals', 'v', 'doubles', 'w', 1) ORDER BY 1;
SELECT id_a, id_b, dist FROM fasted_knn_join('doubles', 'w', 'reals', 'v', 1) ORDER BY 1;
SELECT r.id, d.id, fasted_distance(r.v, d.w) FROM reals r JOIN doubles d ON fasted_within(r.v, d.w, 1e-8) ORDER BY 1, 2;
SELECT r.id, d.id FROM reals r JOIN doubles d ON fasted_distance(r.v, d.w) <= 0 ORDER BY 1, 2;

-- cosine distance: each vector except zero has a direction, whatever its magnitude
CREATE TABLE sizes (id int PRIMARY KEY, v double precision[]);
INSERT INTO sizes VALUES (1, '{3,4}'), (2, '{3e-300,4e-300}'), (3, '{3e300,4e300}'), (4, '{0,0}'), (5, '{-4e-320,3e-320}'), (6, '{3e-60,4e-60}');
SELECT id_a, id_b, dist < 1e-15 AS same FROM fasted_self_join('sizes', 'v', 1e-12, metric => 'cosine') ORDER BY 1, 2;
SELECT a.id, b.id FROM sizes a JOIN sizes b ON a.id < b.id AND fasted_within(a.v, b.v, 1e-12, 'cosine') ORDER BY 1, 2;
SELECT fasted_cosine_distance(a.v, b.v) = dist AS same, count(*) FROM fasted_self_join('sizes', 'v', 2, metric => 'cosine') JOIN sizes a ON a.id = id_a JOIN sizes b ON b.id = id_b GROUP BY 1;
SELECT fasted_cosine_distance('{0,0}'::float8[], '{1,2}');
SELECT id_a, id_b, rank, dist < 1e-15 AS near FROM fasted_knn_join('sizes', 'v', 'sizes', 'v', 1, metric => 'cosine') ORDER BY 1;

-- L2: values out of range for real only take more time; a square that overflows gives Infinity, one that underflows zero
SELECT id_a, id_b, dist FROM fasted_self_join('sizes', 'v', 1e-100) ORDER BY 1, 2;
SELECT id_a, id_b, dist FROM fasted_self_join('sizes', 'v', 'Infinity') WHERE dist > 6 ORDER BY 1, 2;

-- errors name the row
\set VERBOSITY default
UPDATE sizes SET v = '{1,Infinity}' WHERE id = 2;
SELECT * FROM fasted_self_join('sizes', 'v', 1);
\echo :SQLSTATE
UPDATE sizes SET v = '{1,NULL}' WHERE id = 2;
SELECT * FROM fasted_knn_join('reals', 'v', 'sizes', 'v', 1);
\echo :SQLSTATE
SELECT fasted_distance('{1,NaN}'::float8[], '{1,2}');
SELECT fasted_distance('{1,2}'::float8[], '{1}'::real[]);
-- numeric is rounded to real, but not beside double precision
UPDATE sizes SET v = '{1,2}';
CREATE VIEW numbers AS SELECT id, ARRAY[1e39, id] AS v FROM sizes WHERE id = 1;
SELECT id_a, id_b, dist FROM fasted_knn_join('sizes', 'v', 'numbers', 'v', 1, b_id => 'id') WHERE id_a = 1;
SELECT * FROM fasted_neighbors('numbers', 'v', 1, id_column => 'id');
\echo :SQLSTATE
DROP VIEW numbers, line_real;
DROP TABLE line, many, found, plain, reals, doubles, sizes;
DROP FUNCTION plain_distance;
