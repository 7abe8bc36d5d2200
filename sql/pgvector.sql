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
	SELECT ROW(fasted_dbscan(embedding, 0.5, 3) OVER w, fasted_dbscan(embedding, 1) OVER w, fasted_keep(embedding, 1, id) OVER w, fasted_neighbor_count(embedding, 0.05, 'cosine') OVER w) AS v,
		ROW(fasted_dbscan(half, 0.5, 3) OVER w, fasted_dbscan(half, 1) OVER w, fasted_keep(half, 1, id) OVER w, fasted_neighbor_count(half, 0.05, 'cosine') OVER w) AS h,
		ROW(fasted_dbscan(embedding::real[], 0.5, 3) OVER w, fasted_dbscan(embedding::real[], 1) OVER w, fasted_keep(embedding::real[], 1, id) OVER w, fasted_neighbor_count(embedding::real[], 0.05, 'cosine') OVER w) AS r
	FROM items WINDOW w AS (PARTITION BY id < 40 ORDER BY id)) AS s;
SELECT fasted_medoid(embedding, id) = fasted_medoid(embedding::real[], id) AS vector, fasted_medoid(half, id, 'cosine') = fasted_medoid(half::real[], id, 'cosine') AS half FROM items;
SELECT count(*), count(*) FILTER (WHERE w.cluster IS DISTINCT FROM c.cluster) AS differences, max(c.cluster) > 0 AS several FROM fasted_cluster('items', 'half', 0.5, 3) AS c
JOIN (SELECT id, fasted_dbscan(half, 0.5, 3) OVER (ORDER BY id) AS cluster FROM items) AS w USING (id);
SELECT id, fasted_dbscan('[1,2,3]'::vector, 0) OVER (ORDER BY id) AS same, fasted_keep(embedding, 1, embedding) OVER (ORDER BY id) AS kept FROM items WHERE id IN (1, 2, 60, 61, 201) ORDER BY id;
SELECT fasted_dbscan(CASE WHEN id = 3 THEN '[1,2]' ELSE '[1,2,3]' END::vector, 0) OVER (ORDER BY id) FROM items;

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

-- the inner product itself: integers here, and limits that equal them
CREATE FUNCTION product_pairs(condition text, OUT nodes int, OUT pairs bigint, OUT same boolean) LANGUAGE plpgsql AS $$
DECLARE
	query text := 'SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND ' || condition;
	looped bigint;
BEGIN
	PERFORM set_config('enable_nestloop', 'off', true);
	nodes := jsonb_array_length(jsonb_path_query_array(explained(query), '$.**."Custom Plan Provider"'));
	EXECUTE query INTO pairs;
	PERFORM set_config('enable_nestloop', 'on', true), set_config('fasted.join_node', 'off', true);
	EXECUTE query INTO looped;
	PERFORM set_config('fasted.join_node', 'on', true);
	same := pairs = looped;
END $$;
SELECT format(product, 'a.' || v, 'b.' || v, op), p.* FROM unnest('{embedding,half}'::text[]) AS v, unnest('{>,>=}'::text[]) AS op,
	unnest('{"-(%s <#> %s) %s 12","(%s <#> %s) * -1 %s 12","inner_product(%s, %s) %s 12"}'::text[]) AS product, product_pairs(format(product, 'a.' || v, 'b.' || v, op)) AS p ORDER BY 1;
SELECT * FROM product_pairs('inner_product(a.embedding, b.embedding) < 12');
SELECT * FROM product_pairs('(a.embedding <-> b.embedding < 1.5) IS TRUE');
DROP FUNCTION product_pairs;

-- ORDER BY: an index that omits rows looks cheapest for reading the table, and is not used
CREATE TABLE places AS SELECT i AS id, i % 50 AS k, ARRAY[sqrt(i)::numeric % 1, i * 0.37 % 1, i * i * 0.013 % 1]::real[]::vector(3) AS v, repeat('x', 500) AS note FROM generate_series(1, 8000) AS i;
ANALYZE places;
CREATE FUNCTION ordered_pairs(index text, by text) RETURNS TABLE (pairs bigint, by_index boolean, node boolean) LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT %s AS rank FROM places a JOIN places b ON a.id < b.id AND fasted_within(a.v, b.v, 0.4) WHERE a.k = 1 AND b.k = 1', by);
	plan json;
BEGIN
	EXECUTE 'CREATE INDEX places_v ON places USING ' || index || ' WHERE k = 1';
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN QUERY EXECUTE format('SELECT count(rank), %L::boolean, %L::boolean FROM (%s) s', plan::text ~ 'places_v', plan::text ~ 'FastedJoin', query);
	DROP INDEX places_v;
END $$;
SELECT count(*) FROM places a JOIN places b ON a.id < b.id AND fasted_within(a.v, b.v, 0.4) WHERE a.k = 1 AND b.k = 1;
SELECT index, by, p.* FROM unnest('{hnsw (v vector_l2_ops),ivfflat (v vector_l2_ops) WITH (lists = 20)}'::text[]) AS index,
	unnest(ARRAY['rank() OVER (ORDER BY a.v <-> ''[0,0,0]'')', 'rank() OVER (ORDER BY b.v <-> ''[1,1,1]'')']) AS by, ordered_pairs(index, by) AS p;
DROP TABLE places;
DROP FUNCTION ordered_pairs;

-- every pair of types in every function: the count or the SQLSTATE by the node is that by a nested loop (overloads.sql has the other types)
CREATE FUNCTION outcome(node text, condition text, OUT result text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('fasted.join_node', node, true), set_config('enable_nestloop', CASE node WHEN 'on' THEN 'off' ELSE 'on' END, true);
	EXECUTE 'WITH i AS (SELECT *, id::int::bit(8) AS bits, embedding::sparsevec AS sparse, half::real[] AS f4, half::real[]::float8[] AS f8, embedding::text AS word FROM items WHERE id < 20) SELECT count(*) FROM i a JOIN i b ON ' || condition INTO result;
EXCEPTION WHEN OTHERS THEN
	result := 'error ' || SQLSTATE;
END $$;
SELECT call, count(*) AS pairs_of_types, count(*) FILTER (WHERE by_node !~ 'error') AS answers, string_agg(DISTINCT substring(by_node FROM 'error (.*)'), ' ') AS errors, count(*) FILTER (WHERE by_node <> by_loop) AS differences
FROM unnest('{"fasted_distance(a.%s, b.%s) < 3","fasted_within(a.%s, b.%s, 0.5, ''cosine'')","-fasted_negative_inner_product(a.%s, b.%s) > 3","fasted_jaccard_distance(a.%s, b.%s) < 0.5","a.%s <-> b.%s < 3","a.%s <~> b.%s < 3","inner_product(a.%s, b.%s) > 3"}'::text[]) WITH ORDINALITY AS f (call, n),
	unnest('{embedding,half,sparse,bits,id,f4,f8,word}'::text[]) AS x, unnest('{embedding,half,sparse,bits,id,f4,f8,word}'::text[]) AS y,
	LATERAL outcome('on', format(call, x, y)) AS by_node, LATERAL outcome('off', format(call, x, y)) AS by_loop GROUP BY n, call ORDER BY n;
DROP FUNCTION outcome;

-- sparsevec has no cast to real[]
ALTER TABLE items ADD sparse sparsevec(3);
SELECT * FROM fasted_self_join('items', 'sparse', 1.5);
SELECT fasted_dbscan(sparse, 1.5) OVER () FROM items;

DROP TABLE items;
DROP FUNCTION explained;
DROP EXTENSION vector;
