-- fasted_medoid, compared with the sums of all distances.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

-- Groups of 1, 2, 3 (without vectors), 4 (a square, so all sums are equal), 60 (whole numbers, with copies and ties)
-- and 200 rows (isotropic, far from zero, with outliers, and of few directions).  Ids are in another order than rows.
CREATE TABLE doubles (g int, id int, v float8[]);
INSERT INTO doubles
SELECT g, i * 73 % 997, CASE
	WHEN g = 3 OR i % 50 = 7 THEN NULL
	WHEN g = 4 THEN ARRAY[i & 1, i >> 1 & 1, 0, 0, 0, 0]
	WHEN g = 5 THEN ARRAY[hashint4(i) & 3, hashint4(i + 100) & 1, 0, 0, 0, 0]
	ELSE ARRAY(SELECT (CASE g WHEN 7 THEN 1e9 ELSE 0 END + x * CASE g WHEN 8 THEN exp(3 * z) WHEN 9 THEN 1.0 / k / k ELSE 1 END)::float8
		FROM (SELECT k, hashint4(i * 10 + k + g * 5000) / 2147483648.0::float8 AS x, hashint4(i + 77) / 2147483648.0::float8 AS z FROM generate_series(1, 6) AS k) AS u ORDER BY k) END
FROM (VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 60), (6, 200), (7, 200), (8, 200), (9, 200)) AS sizes (g, size), generate_series(0, size - 1) AS i;
INSERT INTO doubles VALUES (5, 998, '{0,0,0,0,0,0}'), (5, 999, '{0,0,0,0,0,0}'), (6, 998, '{0,0,0,0,0,0}');
CREATE VIEW reals AS SELECT g, id, v::real[] AS v FROM doubles;
CREATE VIEW bits AS SELECT g, id, CASE WHEN v IS NOT NULL THEN (hashint4(id % 200)::bit(32) & hashint4(g)::bit(32))::bit(32) END AS v FROM doubles;
CREATE FUNCTION right_medoids(points regclass, distance text, OUT g int, OUT id int) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('
		SELECT DISTINCT ON (a.g) a.g, a.id FROM %1$s a LEFT JOIN %1$s b ON a.g = b.g AND a.id <> b.id
		WHERE a.v IS NOT NULL AND %2$s(a.v, a.v) <> ''NaN''
		GROUP BY a.g, a.id ORDER BY a.g, coalesce(sum(nullif(%2$s(a.v, b.v), ''NaN'')::text::numeric), 0)::float8, a.id', points, distance);
END $$;
CREATE FUNCTION compared(points regclass, metric text, distance text, OUT groups bigint, OUT medoids bigint, OUT other bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('
		SELECT count(*), count(m.id), count(*) FILTER (WHERE m.id IS DISTINCT FROM r.id)
		FROM (SELECT g, fasted_medoid(v, id, $1) AS id FROM %1$s GROUP BY g) AS m LEFT JOIN right_medoids(%1$L, %2$L) AS r USING (g)', points, distance)
	USING metric INTO groups, medoids, other;
END $$;
SELECT points, metric, (compared(points, metric, distance)).*
FROM (VALUES ('doubles'::regclass, 'l2', 'fasted_distance'), ('doubles', 'cosine', 'fasted_cosine_distance'), ('doubles', 'inner_product', 'fasted_negative_inner_product'),
	('reals', 'l2', 'fasted_distance'), ('reals', 'cosine', 'fasted_cosine_distance'), ('reals', 'inner_product', 'fasted_negative_inner_product'),
	('bits', 'hamming', 'fasted_hamming_distance'), ('bits', 'jaccard', 'fasted_jaccard_distance')) AS c (points, metric, distance);
-- the smallest and largest magnitudes, where squares underflow or overflow
SELECT scale, fasted_medoid(ARRAY[x * scale, 0], x), fasted_medoid(ARRAY[x * scale, scale], x, 'cosine') AS cosine
FROM generate_series(1, 30) AS x, unnest('{1e-300,1e-160,1e150,1e300}'::float8[]) AS scale GROUP BY scale ORDER BY scale;
SELECT scale, fasted_medoid(ARRAY[x * scale], -x), fasted_medoid(ARRAY[x * scale], -x, 'inner_product') AS product
FROM generate_series(1, 2) AS x, unnest('{4e-162,9e-162}'::float8[]) AS scale GROUP BY scale ORDER BY scale;
-- sums are rounded once: those of 1 and 2 are the same
SELECT fasted_medoid(ARRAY[x], id) FROM (VALUES (0, 3 * 2.0::float8 ^ 53), (1, -2), (2, -(0.5::float8 ^ 53)), (3, 0)) AS t (id, x);

-- no rows, rows without a vector or a direction
SELECT fasted_medoid(v, id), fasted_medoid(v, id, 'cosine') FROM doubles WHERE false;
SELECT fasted_medoid(v, id), fasted_medoid('{0,0}'::real[], id, 'cosine') FROM doubles WHERE g = 3;
-- ids of other types; of equal sums the least id, nulls last
SELECT fasted_medoid(v, id::text COLLATE "C"), fasted_medoid(v, md5(id::text)::uuid), fasted_medoid(v, ROW(g, id)), fasted_medoid(v, nullif(id, 0)) FROM doubles WHERE g = 4;
SELECT fasted_medoid(v, NULL::int) FROM doubles WHERE g = 4;
-- other types of vectors
SELECT fasted_medoid(v, v) FROM (VALUES ('{1,2}'::int[]), ('{2,3}'), ('{9,9}')) AS t (v);
SELECT fasted_medoid(v, v) FROM (VALUES ('{1,2}'::numeric[]), ('{2,3}'), ('{9,9}')) AS t (v);
SELECT fasted_medoid(v, v, 'hamming') FROM (VALUES (B'0011'), (B'0111'), (B'1111')) AS t (v);
-- as a window function, with a filter, of sorted and of hashed groups
SELECT count(DISTINCT (g, m)) FROM (SELECT g, fasted_medoid(v, id) OVER (PARTITION BY g) AS m FROM doubles) AS w JOIN right_medoids('doubles', 'fasted_distance') AS r USING (g) WHERE m = r.id;
SELECT fasted_medoid(v, id) FILTER (WHERE g = 5) = (SELECT id FROM right_medoids('doubles', 'fasted_distance') WHERE g = 5) AS same FROM doubles;
SET enable_sort = off;
SELECT count(*) FROM (SELECT g, fasted_medoid(v, id) AS id FROM doubles GROUP BY g) AS m JOIN right_medoids('doubles', 'fasted_distance') USING (g, id);
RESET enable_sort;
-- few sums are computed: those of all 20000 rows would take a minute
SELECT fasted_medoid(ARRAY[cos(i), sin(i), i % 7 - 3], i) IS NOT NULL FROM generate_series(1, 20000) AS i;
-- many copies
SELECT fasted_medoid(ARRAY[i % 3], i) FROM generate_series(1, 20000) AS i;

-- errors
SELECT fasted_medoid(v, id, 'l1') FROM doubles;
SELECT fasted_medoid(v, id, NULL) FROM doubles;
SELECT fasted_medoid(ARRAY[i], i, (ARRAY['l2', 'cosine'])[i]) FROM generate_series(1, 2) AS i;
SELECT fasted_medoid(v, id, 'hamming') FROM doubles;
SELECT fasted_medoid(v, id) FROM bits;
SELECT fasted_medoid(id, id) FROM doubles;
SELECT fasted_medoid(ARRAY[i, NULL]::real[], i) FROM generate_series(1, 2) AS i;
SELECT fasted_medoid(array_fill(1, ARRAY[i])::real[], i) FROM generate_series(1, 2) AS i;
SELECT fasted_medoid(v, to_json(id)) FROM doubles;

DROP FUNCTION right_medoids, compared;
DROP VIEW reals, bits;
DROP TABLE doubles;
