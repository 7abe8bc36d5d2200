-- partition_by: only rows with equal values of a column are compared, in all functions.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
CREATE TABLE parts (id integer PRIMARY KEY, v real[], g text, u uuid);
INSERT INTO parts SELECT i, ARRAY[i % 7, i * 13 % 11, i * 5 % 3]::real[], CASE WHEN i % 10 = 0 THEN NULL WHEN i % 3 = 0 THEN 'large' ELSE 'p' || i % 17 END,
	md5((i % 23)::text)::uuid FROM generate_series(1, 300) AS i;
-- different numbers of dimensions in one partition
INSERT INTO parts SELECT 1000 + i, ARRAY[i % 4, 1, 2, i % 5, 7]::real[], 'wide' FROM generate_series(1, 30) AS i;
CREATE VIEW pairs_by_sql AS SELECT a.id AS id_a, b.id AS id_b, fasted_distance(a.v, b.v) AS dist FROM parts AS a, parts AS b
	WHERE a.g = b.g AND a.id <> b.id AND array_length(a.v, 1) = array_length(b.v, 1);
SELECT count(*) = (SELECT count(*) FROM pairs_by_sql WHERE id_a < id_b AND dist <= 2) AS counted, count(*) > 100 AS enough FROM fasted_self_join('parts', 'v', 2, partition_by => 'g');
SELECT count(*) AS wrong FROM (
	(SELECT id_a, id_b, dist FROM fasted_self_join('parts', 'v', 2, partition_by => 'g', ordered => true) EXCEPT SELECT * FROM pairs_by_sql WHERE dist <= 2) UNION ALL
	(SELECT * FROM pairs_by_sql WHERE dist <= 2 EXCEPT SELECT id_a, id_b, dist FROM fasted_self_join('parts', 'v', 2, partition_by => 'g', ordered => true))) AS d;
SELECT count(*) AS wrong FROM fasted_neighbors('parts', 'v', 2, partition_by => 'g') AS n
	WHERE neighbors <> (SELECT count(*) FROM pairs_by_sql WHERE id_a = n.id AND dist <= 2);
SELECT count(*) AS rows_with_a_partition FROM fasted_neighbors('parts', 'v', 2, partition_by => 'g');
SELECT count(*) AS wrong FROM (SELECT cluster FROM fasted_cluster('parts', 'v', 1, partition_by => 'g') AS c JOIN parts USING (id) WHERE cluster IS NOT NULL GROUP BY cluster HAVING count(DISTINCT g) > 1) AS c;
SELECT count(*) AS wrong FROM fasted_keep_one('parts', 'v', 1, partition_by => 'g') AS k JOIN parts AS a ON a.id = k.id JOIN parts AS b ON b.id = k.kept WHERE a.g <> b.g OR dist > 1;
SELECT count(*) AS wrong FROM fasted_keep_one('parts', 'v', 1, 'id', true, partition_by => 'g') AS k WHERE kept < id OR (kept = id AND
	EXISTS (SELECT FROM pairs_by_sql JOIN fasted_keep_one('parts', 'v', 1, 'id', true, partition_by => 'g') AS o ON o.id = id_b AND o.kept = o.id WHERE id_a = k.id AND id_b > id_a AND pairs_by_sql.dist <= 1));
SELECT k, (SELECT count(*) FROM (SELECT id_a, id_b, dist, rank FROM fasted_knn_join('parts', 'v', 'parts', 'v', k, partition_by => 'g') EXCEPT
	SELECT id_a, id_b, dist, row_number() OVER (PARTITION BY id_a ORDER BY dist, id_b) FROM pairs_by_sql) AS d) AS wrong,
	(SELECT count(*) FROM fasted_knn_join('parts', 'v', 'parts', 'v', k, partition_by => 'g')) = (SELECT sum(least(k, n)) FROM (SELECT count(*) AS n FROM pairs_by_sql GROUP BY id_a) AS s) AS complete
	FROM (VALUES (1), (4), (1000)) AS ks (k);
SELECT count(*) = (SELECT count(*) FROM parts AS a, parts AS b WHERE a.u = b.u AND a.id < b.id AND fasted_distance(a.v, b.v) <= 3) AS by_uuid FROM fasted_self_join('parts', 'v', 3, partition_by => 'u');
-- a type that has no hash function
ALTER TABLE parts ADD m money;
SELECT count(*) FROM fasted_self_join('parts', 'v', 6, partition_by => 'm');
SET fasted.engine = cpu;
EXPLAIN (COSTS OFF) SELECT * FROM fasted_self_join('parts', 'v', 2, partition_by => 'g');
RESET fasted.engine;
UPDATE parts SET v = '{1,2}' WHERE id = 1;
SELECT count(*) FROM fasted_self_join('parts', 'v', 2, partition_by => 'g');
SELECT count(*) FROM fasted_self_join('parts', 'v', 2, partition_by => 'nothing');
ALTER TABLE parts ADD j json;
SELECT count(*) FROM fasted_self_join('parts', 'v', 2, partition_by => 'j');
\echo :SQLSTATE
DROP TABLE parts CASCADE;
