-- Columns of pgvector's types.  Without pgvector, the alternative expected file applies.
SELECT count(*) = 0 AS no_pgvector FROM pg_available_extensions WHERE name = 'vector' \gset
\if :no_pgvector
\quit
\endif
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
CREATE EXTENSION vector;
RESET client_min_messages;

CREATE TABLE items (id bigint PRIMARY KEY, embedding vector(3), half halfvec(3));
INSERT INTO items SELECT i, ARRAY[i % 4, i % 3, i % 5]::real[]::vector, ARRAY[i % 4, i % 3, i % 5]::real[]::halfvec FROM generate_series(1, 200) AS i;
INSERT INTO items VALUES (201, NULL, NULL);

SELECT count(*), sum((dist * dist)::int) FROM fasted_self_join('items', 'embedding', 1.5);
SELECT count(*), sum((dist * dist)::int) FROM fasted_self_join('items', 'half', 1.5);
SELECT count(*), sum(((a.embedding <-> b.embedding) ^ 2)::int)
FROM items a JOIN items b ON a.id < b.id AND a.embedding <-> b.embedding <= 1.5;
SELECT count(*) = (SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND fasted_cosine_distance(a.embedding, b.embedding) <= 0.05) AS same
FROM fasted_self_join('items', 'embedding', 0.05, metric => 'cosine');
SELECT count(*) = (SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND fasted_cosine_distance(a.half, b.half) <= 0.05) AS same
FROM fasted_self_join('items', 'half', 0.05, metric => 'cosine');

-- functions of two vectors: combined with arrays of any type and with literals, too
SELECT fasted_distance(v, v2) = 5 AS vectors, fasted_distance(v, f4) = 5 AS reals, fasted_distance(i4, v) = 5 AS integers,
	fasted_distance(v, n) = 5 AS numbers, fasted_distance(v, '{4,6}') = 5 AS literal, fasted_distance('{4,6}', v) = 5 AS of_literal,
	fasted_within(v, f4, 5) AND NOT fasted_within(v, '{4,6}', 4.99) AS within
FROM (SELECT '[1,2]'::vector AS v, '[4,6]'::vector AS v2, '{4,6}'::real[] AS f4, '{4,6}'::int[] AS i4, '{4,6}'::numeric[] AS n) AS s;

-- in the text form of pgvector
SELECT count(*) AS near, count(*) FILTER (WHERE fasted_within('[1,2,3]', embedding, 1)) AS turned,
	count(*) FILTER (WHERE fasted_distance(embedding, '[1,2,3]') <= 1) AS distance,
	count(*) FILTER (WHERE embedding <-> '[1,2,3]' <= 1) AS operator, count(*) FILTER (WHERE fasted_distance('[1,2,3]', '[1,2,4]') = 1) AS literals
FROM items WHERE fasted_within(embedding, '[1,2,3]', 1);
-- double precision[] is cast, as for the operators of pgvector
SELECT bool_and(fasted_distance(embedding, '[1,2,3]') = fasted_distance(embedding, '{1,2,3}'::float8[]::vector)) AS same FROM items;

-- window functions: the same as for columns of real[]
SELECT count(*), count(*) FILTER (WHERE (v, h) IS DISTINCT FROM (r, r)) AS differences FROM (
	SELECT ROW(fasted_dbscan(embedding, 0.5, 3) OVER w, fasted_components(embedding, 1) OVER w, fasted_keep(id, embedding, 1) OVER w, fasted_neighbor_count(embedding, 0.05, 'cosine') OVER w) AS v,
		ROW(fasted_dbscan(half, 0.5, 3) OVER w, fasted_components(half, 1) OVER w, fasted_keep(id, half, 1) OVER w, fasted_neighbor_count(half, 0.05, 'cosine') OVER w) AS h,
		ROW(fasted_dbscan(embedding::real[], 0.5, 3) OVER w, fasted_components(embedding::real[], 1) OVER w, fasted_keep(id, embedding::real[], 1) OVER w, fasted_neighbor_count(embedding::real[], 0.05, 'cosine') OVER w) AS r
	FROM items WINDOW w AS (PARTITION BY id < 40 ORDER BY id)) AS s;
SELECT count(*), count(*) FILTER (WHERE w.cluster IS DISTINCT FROM c.cluster) AS differences, max(c.cluster) > 0 AS several FROM fasted_cluster('items', 'half', 0.5, 3) AS c
JOIN (SELECT id, fasted_dbscan(half, 0.5, 3) OVER (ORDER BY id) AS cluster FROM items) AS w USING (id);
SELECT id, fasted_components('[1,2,3]'::vector, 0) OVER (ORDER BY id) AS same, fasted_keep(embedding, embedding, 1) OVER (ORDER BY id) AS kept FROM items WHERE id IN (1, 2, 60, 61, 201) ORDER BY id;
SELECT fasted_components(CASE WHEN id = 3 THEN '[1,2]' ELSE '[1,2,3]' END::vector, 0) OVER (ORDER BY id) FROM items;

-- inner products, and bits
SELECT count(*) AS pairs, count(*) = (SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND a.embedding <#> b.embedding <= -20) AS same,
	(SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND fasted_negative_inner_product(a.embedding, b.embedding) <= -20) AS by_function,
	(SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND fasted_within(a.half, b.half, -20, 'inner_product')) AS within
FROM fasted_self_join('items', 'embedding', -20, metric => 'inner_product');
SELECT fasted_negative_inner_product(embedding, '[1,2,3]') = embedding <#> '[1,2,3]' AS literal,
	fasted_hamming_distance(B'10110', B'00111') = B'10110' <~> B'00111' AS hamming, fasted_jaccard_distance(B'10110', B'00111') = B'10110' <%> B'00111' AS jaccard,
	fasted_jaccard_distance(B'00', B'00') = B'00' <%> B'00' AS without FROM items WHERE id = 7;
CREATE FUNCTION explained(query text, OUT plan jsonb) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
END $$;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT FROM items a JOIN items b ON a.id < b.id AND a.half <#> b.half < -20;
EXPLAIN (COSTS OFF) SELECT FROM (VALUES (B'101'), (B'111')) a (v) JOIN (VALUES (B'101'), (B'111')) b (v) ON a.v <%> b.v < 0.4;
SELECT (jsonb_path_query_first(plan, '$.**."Dimensions"'))::int AS dimensions FROM explained('SELECT FROM items a JOIN items b ON a.id < b.id AND a.half <#> b.half < -20');
SELECT (SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND fasted_cosine_similarity(a.embedding, b.embedding) >= 0.96) AS by_vector,
	(SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND 0.96 <= fasted_cosine_similarity(a.half, b.half)) AS by_half,
	(SELECT count(*) FROM (SELECT fasted_cosine_similarity(a.embedding, b.half) AS s FROM items a, items b WHERE a.id < b.id OFFSET 0) AS q WHERE s >= 0.96) AS due,
	fasted_cosine_similarity('[3,4,0]'::vector, '[4,3,0]') AS literal, fasted_cosine_similarity('{3,4,0}', '[4,3,0]'::halfvec) AS half;
-- 1 - c / u of pgvector decides at its own rounding: 1 - 7/10 exceeds 0.3
CREATE TABLE prefixes AS SELECT i AS id, rpad(repeat('1', i), 40, '0')::bit(40) AS v FROM generate_series(1, 40) AS i;
CREATE TABLE due AS SELECT a.v <%> b.v AS dist, fasted_jaccard_distance(a.v, b.v) AS exact FROM prefixes a, prefixes b WHERE a.id < b.id;
SELECT bool_and(near = (SELECT count(*) FROM due WHERE dist <= x)) AS near, bool_and(below = (SELECT count(*) FROM due WHERE dist < x)) AS below,
	bool_and(alike = (SELECT count(*) FROM due WHERE 1 - dist >= x)) AS alike, sum(near) < sum((SELECT count(*) FROM due WHERE exact <= x)) AS other
FROM generate_series(0, 100) AS i, LATERAL (SELECT i / 100::float8 AS x) AS l,
	LATERAL (SELECT count(*) AS near FROM prefixes a JOIN prefixes b ON a.id < b.id AND a.v <%> b.v <= x) AS n,
	LATERAL (SELECT count(*) AS below FROM prefixes a JOIN prefixes b ON a.id < b.id AND jaccard_distance(a.v, b.v) < x) AS o,
	LATERAL (SELECT count(*) AS alike FROM prefixes a JOIN prefixes b ON a.id < b.id AND 1 - (a.v <%> b.v) >= x) AS p;
EXPLAIN (COSTS OFF) SELECT count(*) FROM prefixes a JOIN prefixes b ON a.id < b.id AND 1 - (a.v <%> b.v) >= 0.7;
DROP TABLE prefixes, due;
RESET enable_nestloop;
EXPLAIN (COSTS OFF) SELECT FROM items a JOIN items b ON a.embedding <+> b.embedding < 2;

-- sparsevec has no cast to real[]
ALTER TABLE items ADD sparse sparsevec(3);
SELECT * FROM fasted_self_join('items', 'sparse', 1.5);
SELECT fasted_components(sparse, 1.5) OVER () FROM items;

DROP TABLE items;
DROP FUNCTION explained;
DROP EXTENSION vector;
