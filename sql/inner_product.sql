-- The inner product: functions of two vectors, functions of a table, and joins.  Joins of bits.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

-- integers: their products are exact
SELECT fasted_negative_inner_product('{1,2}', '{3,-4}') AS literals, fasted_negative_inner_product('{1,2}'::real[], '{3,-4}') AS reals,
	fasted_negative_inner_product(ARRAY[1, 2], ARRAY[3, 4]) AS integers, fasted_negative_inner_product(ARRAY[0.5, 2], ARRAY[3, 4]) AS numbers,
	fasted_negative_inner_product('{0.1}'::float8[], '{0.7}'::real[]) = -(0.1::float8 * 0.7::real) AS doubles,
	fasted_negative_inner_product('{1,0}'::real[], '{0,1}') AS none, fasted_negative_inner_product('{1e200}'::float8[], '{1e200}') AS infinite;
SELECT fasted_within('{1,2}', '{3,-4}', 5, 'inner_product') AS equal, fasted_within('{1,2}', '{3,-4}', 4.99, 'inner_product') AS less,
	fasted_within('{1,2}', '{3,4}', -11, 'inner_product') AS negative, fasted_within('{1,2}', '{3,4}', -11.5, 'inner_product') AS below;
\set VERBOSITY terse
SELECT fasted_negative_inner_product('{1,2}', '{3}');
SELECT fasted_negative_inner_product('{1,NaN}', '{3,4}');
SELECT fasted_within('{1}', '{2}', '-Infinity', 'inner_product');
SELECT fasted_within('{1}', '{2}', 'NaN', 'inner_product');
SELECT fasted_within('{1}', '{2}', -1);

-- bits: the definitions in SQL
\set VERBOSITY default
CREATE FUNCTION jaccard(a bit, b bit) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN bit_count(a & b) = 0 THEN 1 ELSE bit_count(a # b)::float8 / bit_count(a | b) END
$$;
CREATE FUNCTION random_bits(seed bigint, n int, one_in int) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
	SELECT string_agg(CASE WHEN hashint8extended(i, seed) & 1023 < 1024 / one_in THEN '1' ELSE '0' END, '' ORDER BY i)::bit varying FROM generate_series(1, n) i
$$;
SELECT n, count(*), bool_and(fasted_hamming_distance(a, b) = bit_count(a # b)) AS hamming,
	bool_and(fasted_jaccard_distance(a, b) = jaccard(a, b)) AS jaccard,
	bool_and(fasted_within(a, b, 3, 'hamming') = (bit_count(a # b) <= 3)) AS within,
	bool_and(fasted_within(a, b, 0.5, 'jaccard') = (jaccard(a, b) <= 0.5)) AS within_jaccard
FROM (SELECT n, random_bits(i, n, 1 + i % 4) AS a, random_bits(i + i % 7, n, 1 + i % 4) AS b
	FROM unnest('{1,7,8,9,63,64,65,130}'::int[]) n, generate_series(1, 40) i) AS s GROUP BY n ORDER BY n;
SELECT fasted_hamming_distance(B'10101010', B'10011010') AS bits, fasted_hamming_distance(B'10101010'::varbit, '10011010') AS literal,
	fasted_hamming_distance('1010', '1001') AS literals, fasted_hamming_distance(B'1010'::bit(4), B'1001'::bit varying(7)) AS mixed,
	fasted_jaccard_distance(B'000', B'000') AS none, fasted_jaccard_distance(B'110', B'011') = 2 / 3::float8 AS third,
	fasted_within(B'000', B'000', 0.99, 'jaccard') AS without, fasted_hamming_distance(NULL, B'1') IS NULL AS nothing;
SELECT fasted_jaccard_similarity(B'1110', '0110'::varbit) AS bits, fasted_jaccard_similarity('1110', '0001') AS none, fasted_jaccard_similarity(B'000', B'000') AS without;
-- of integers: 24/25, the sums of the distance, as by double precision
SELECT fasted_cosine_similarity('{3,4}'::real[], '{4,3}') AS real, fasted_cosine_similarity('{3,4}'::float8[], '{4,3}'::real[]) AS double, fasted_cosine_similarity('{3,4}'::int[], '{4,3}'::numeric[]) AS int,
	fasted_cosine_similarity('[3,4]', '{4,3}') AS text, fasted_cosine_similarity('{3e-200,4e-200}'::float8[], '{4e200,3e200}') > 0.95 AS scaled,
	fasted_cosine_similarity('{-3,4}', '{3,-4}') AS opposite, fasted_cosine_similarity('{0,0}', '{1,0}') AS zero;
SELECT fasted_cosine_similarity(B'101', B'100');
SELECT fasted_hamming_distance(B'101', B'1010');
SELECT fasted_hamming_distance(B'', B'1');
SELECT fasted_within(B'101', B'100', 1);
SELECT fasted_within('{1}'::real[], '{2}', 1, 'hamming');
SELECT fasted_within(B'101', B'100', -1, 'hamming');

-- functions of a table, against a nested loop: short and long vectors, zeros, negative products
CREATE TABLE items AS SELECT g AS id, g % 3 AS k, ARRAY(SELECT ((hashint8extended(i, g / 2) % 100) * CASE g % 10 WHEN 0 THEN 0 WHEN 1 THEN 3 ELSE 0.7 END)::real / 100
	FROM generate_series(1, 24) i) AS v FROM generate_series(1, 400) g;
ALTER TABLE items ADD d float8[], ADD PRIMARY KEY (id);
UPDATE items SET d = ARRAY(SELECT x / 3.0 FROM unnest(v::float8[]) x);
INSERT INTO items VALUES (1001, 1);
ANALYZE items;
CREATE TABLE due AS SELECT a.id AS id_a, b.id AS id_b, a.k = b.k AS same_k, fasted_negative_inner_product(a.v, b.v) AS v, fasted_negative_inner_product(a.d, b.d) AS d
	FROM items a, items b WHERE a.v IS NOT NULL AND b.v IS NOT NULL;
CREATE FUNCTION check_pairs(column_name name, eps float8, partition name DEFAULT NULL, OUT pairs bigint, OUT wrong bigint, OUT counted bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TEMP TABLE found AS SELECT id_a, id_b, dist FROM fasted_self_join(''items'', %L, %L, metric => ''inner_product'', partition_by => %L)', column_name, eps, partition);
	EXECUTE format('CREATE TEMP TABLE looped AS SELECT id_a, id_b, %I FROM due WHERE id_a < id_b AND %I <= %L AND (same_k OR %L::name IS NULL)', column_name, column_name, eps, partition);
	SELECT count(*) INTO pairs FROM found;
	SELECT count(*) INTO wrong FROM ((TABLE found EXCEPT ALL TABLE looped) UNION ALL (TABLE looped EXCEPT ALL TABLE found)) x;
	EXECUTE format('SELECT count(*) FROM fasted_self_join(''items'', %L, %L, metric => ''inner_product'', partition_by => %L)', column_name, eps, partition) INTO counted;
	DROP TABLE found, looped;
END $$;
SET client_min_messages = warning;
CREATE INDEX ON due (id_a);
SELECT c, quantile, pairs, wrong, counted = pairs AS counted
FROM unnest('{v,d}'::name[]) WITH ORDINALITY c (c, n), unnest('{0,0.001,0.02,0.3,0.7,1}'::float8[]) quantile,
	LATERAL (SELECT percentile_disc(quantile) WITHIN GROUP (ORDER BY CASE c WHEN 'v' THEN v ELSE d END) AS eps FROM due WHERE id_a < id_b OFFSET 0) e, check_pairs(c, eps) ORDER BY n, 2;
SELECT eps, pairs, wrong, counted = pairs AS counted FROM unnest('{-1.5,0,-1e300,Infinity}'::float8[]) eps, check_pairs('v', eps);
SELECT eps, pairs, wrong, counted = pairs AS counted FROM unnest('{-1.5,0}'::float8[]) eps, check_pairs('v', eps, 'k');
RESET client_min_messages;
-- conditions on the distance, which may be negative
CREATE FUNCTION rows_of(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE 'SELECT count(*) FROM ' || query INTO n;
	RETURN n;
END $$;
SELECT condition, rows_of('fasted_self_join(''items'', ''v'', 0.5, metric => ''inner_product'') WHERE ' || condition) = looped AS same, looped > 0 AS some FROM (
	SELECT condition, rows_of('due, LATERAL (SELECT v AS dist) x WHERE id_a < id_b AND v <= 0.5 AND ' || condition) AS looped
	FROM unnest('{dist < -0.3,dist > -0.3,dist >= 0,dist <= -0.3 AND dist > -1,dist = 0,dist < NULL,dist < ''-Infinity'',dist >= ''-Infinity'',dist > ''NaN''}'::text[]) condition) s;
-- nearest rows: the greatest inner products, with ties
WITH found AS MATERIALIZED (SELECT id_a, id_b, dist, rank FROM fasted_knn_join('items', 'v', 'items', 'd', 3, metric => 'inner_product')),
	looped AS MATERIALIZED (SELECT id_a, id_b, dist, rank FROM (SELECT a.id AS id_a, b.id AS id_b, fasted_negative_inner_product(a.v, b.d) AS dist,
		row_number() OVER (PARTITION BY a.id ORDER BY fasted_negative_inner_product(a.v, b.d), b.id)::int AS rank FROM items a, items b WHERE b.d IS NOT NULL AND a.v IS NOT NULL) s WHERE rank <= 3)
SELECT count(*), count(*) FILTER (WHERE dist < 0) > 0 AS negative, (SELECT count(*) FROM (TABLE found EXCEPT TABLE looped) x) AS wrong FROM found;
SELECT count(*) = (SELECT count(*) FROM due WHERE v <= -1.5 AND id_a <> id_b) AS same FROM fasted_knn_join('items', 'v', 'items', 'v', 400, metric => 'inner_product', max_distance => -1.5);
-- clusters, representatives and neighbours agree with pairs
SELECT count(*), count(*) FILTER (WHERE n.neighbors <> (SELECT count(*) FROM due WHERE id_a = n.id AND id_b <> n.id AND v <= -1)) AS wrong FROM fasted_neighbors('items', 'v', -1, metric => 'inner_product') n;
SELECT count(DISTINCT c.cluster) FROM fasted_cluster('items', 'v', -1, 1, metric => 'inner_product') c;
SELECT count(*), count(*) FILTER (WHERE o.kept <> o.id AND d.v > -1) AS wrong, count(*) FILTER (WHERE o.kept <> o.id) > 0 AS some
FROM fasted_keep_one('items', 'v', -1, metric => 'inner_product') o JOIN due d ON d.id_a = o.id AND d.id_b = o.kept;
SELECT count(*), count(*) FILTER (WHERE w.n <> (SELECT count(*) FROM due WHERE id_a = w.id AND id_b <> w.id AND v <= -1)) AS wrong
FROM (SELECT id, fasted_neighbor_count(v, -1, 'inner_product') OVER () AS n FROM items WHERE v IS NOT NULL) w;
-- eps: exactly, with a negative result, by rank of the distance
SELECT e.eps = (SELECT v FROM due WHERE id_a < id_b ORDER BY v OFFSET 399 LIMIT 1) AS same, e.eps < 0 AS negative
FROM fasted_epsilon('items', 'v', 2, metric => 'inner_product') e;
SELECT eps < 0 AS negative, sampled
FROM fasted_epsilon('items', 'v', 40, sample_rows => 200, seed => 1, metric => 'inner_product');
\set VERBOSITY terse
SELECT fasted_epsilon('items', 'v', 2, metric => 'inner_product', ignore_copies => true);
SELECT count(*) FROM fasted_self_join('items', 'v', 1, self_pairs => true, metric => 'inner_product');
SELECT count(*) FROM fasted_self_join('items', 'v', 'NaN', metric => 'inner_product');
SELECT count(*) FROM fasted_knn_join('items', 'v', 'items', 'v', 1, max_distance => -1);
\set VERBOSITY default
-- estimates: with the power law of the smallest distances, and without
CREATE FUNCTION estimate(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan->0->'Plan'->>'Plan Rows';
END $$;
SELECT eps, estimate(format('SELECT * FROM fasted_self_join(''items'', ''v'', %s, metric => ''inner_product'')', eps)) / (SELECT greatest(count(*), 1) FROM due WHERE id_a < id_b AND v <= eps)
	BETWEEN CASE WHEN eps < -2 THEN 0 ELSE 0.3 END AND 3 AS near FROM unnest('{-1000,-1.5,-0.1,0.1}'::float8[]) eps;

-- joins: the same rows as by a nested loop
CREATE FUNCTION same(query text, OUT rows bigint, OUT same boolean) LANGUAGE plpgsql AS $$
DECLARE
	plan text := '';
	line text;
	expected bigint;
	differing bigint;
BEGIN
	PERFORM set_config('fasted.join_node', 'on', true), set_config('enable_nestloop', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		plan := plan || line;
	END LOOP;
	IF plan !~ 'FastedJoin' THEN
		RAISE EXCEPTION 'not by the node: %', plan;
	END IF;
	EXECUTE 'CREATE TEMP TABLE by_node AS ' || query;
	PERFORM set_config('fasted.join_node', 'off', true), set_config('enable_nestloop', 'on', true);
	EXECUTE 'CREATE TEMP TABLE by_loop AS ' || query;
	SELECT count(*) INTO rows FROM by_node;
	SELECT count(*) INTO expected FROM by_loop;
	SELECT count(*) INTO differing FROM (TABLE by_node EXCEPT ALL TABLE by_loop) d;
	same := rows = expected AND differing = 0;
	DROP TABLE by_node, by_loop;
END $$;
SELECT * FROM same('SELECT a.id, b.id AS idb, fasted_negative_inner_product(a.v, b.v) FROM items a JOIN items b ON fasted_within(a.v, b.v, -1, ''inner_product'')');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM items a JOIN items b ON a.id < b.id AND fasted_negative_inner_product(a.v, b.v) < -1');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM items a JOIN items b ON a.id < b.id AND fasted_negative_inner_product(a.v, b.v) < 0');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM items a JOIN items b ON a.id < b.id AND fasted_negative_inner_product(a.v, b.v) <= 0');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM items a LEFT JOIN items b ON a.k = b.k AND -0.9 > fasted_negative_inner_product(a.d, b.v)');
SELECT * FROM same('SELECT a.id FROM items a WHERE NOT EXISTS (SELECT FROM items b WHERE a.id > b.id AND fasted_within(b.v, a.v, -1.2, ''inner_product''))');
SELECT * FROM same('SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND fasted_within(a.v, b.v, -1, ''inner_product'')');
SELECT * FROM same('SELECT count(*) FROM items a JOIN items b ON fasted_within(a.v, b.v, -1, ''inner_product'')');
SELECT operator, bound, s.* FROM unnest('{<,<=}'::text[]) operator, unnest('{-Infinity,-1e308,Infinity,NaN}'::float8[]) bound, same(format('SELECT a.id, b.id AS idb FROM items a JOIN items b ON a.id < b.id AND fasted_negative_inner_product(a.v, b.v) %s %L', operator, bound)) s;
-- rows of another number of dimensions; tiny and huge elements
CREATE TABLE other AS SELECT g AS id, CASE WHEN g % 20 = 0 THEN '{1}' WHEN g % 7 = 0 THEN ARRAY(SELECT x * 1e30::float8 FROM unnest(v) x)::real[]
	WHEN g % 7 = 1 THEN ARRAY(SELECT x * 1e-36::float8 FROM unnest(v) x)::real[] ELSE v END AS v, g % 20 = 0 AS short FROM items, LATERAL (SELECT id AS g) x WHERE v IS NOT NULL;
ANALYZE other;
SELECT * FROM same('SELECT a.id, b.id AS idb FROM other a JOIN other b ON a.short = b.short AND fasted_negative_inner_product(a.v, b.v) < -1.0');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM other a JOIN other b ON a.short = b.short AND fasted_negative_inner_product(a.v, b.v) < -1e-50');
-- bits
CREATE TABLE prints AS SELECT g AS id, g % 3 AS k, CASE WHEN g % 30 > 0 THEN random_bits(g / 4, 100, 2 + g % 3) | CASE g % 2 WHEN 0 THEN random_bits(g, 100, 16) ELSE random_bits(0, 100, 1024) END END::bit(100) AS v FROM generate_series(1, 400) g;
INSERT INTO prints VALUES (1001, 1, B'0'::bit(100)), (1002, 1, B'0'::bit(100));
ALTER TABLE prints ADD w bit varying;
UPDATE prints SET w = v;
ANALYZE prints;
SELECT metric, eps, s.* FROM (VALUES ('hamming', 0), ('hamming', 6.5), ('hamming', 100), ('jaccard', 0), ('jaccard', 0.25), ('jaccard', 1)) m (metric, eps),
	same(format('SELECT a.id, b.id AS idb, fasted_%s_distance(a.v, b.v) FROM prints a JOIN prints b ON a.id < b.id AND fasted_within(a.v, b.v, %s, %L)', metric, eps, metric)) s;
SELECT * FROM same('SELECT a.id, b.id AS idb FROM prints a JOIN prints b ON a.k = b.k AND fasted_hamming_distance(a.v, b.w) < 6');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM prints a LEFT JOIN prints b ON a.id <> b.id AND fasted_hamming_distance(a.w, b.w) <= 6');
SELECT * FROM same('SELECT a.id FROM prints a WHERE EXISTS (SELECT FROM prints b WHERE a.id > b.id AND 0.3 > fasted_jaccard_distance(a.v, b.v))');
SELECT * FROM same('SELECT count(*) FROM prints a JOIN prints b ON a.id < b.id AND fasted_jaccard_distance(a.v, b.v) <= 0.3');
-- a row without any bit does not match itself
SELECT * FROM same('SELECT a.id, b.id AS idb FROM prints a JOIN prints b ON fasted_jaccard_distance(a.v, b.v) <= 0.3');
SELECT * FROM same('SELECT count(*) FROM prints a JOIN prints b ON fasted_jaccard_distance(a.v, b.v) <= 0.3');
SELECT * FROM same('SELECT count(*) FROM prints a JOIN prints b ON fasted_within(a.v, b.v, 4, ''hamming'')');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM prints a JOIN (SELECT id, CASE WHEN id % 5 = 0 THEN B''101'' ELSE w END AS w FROM prints) b ON b.id % 5 > 0 AND fasted_hamming_distance(a.w, b.w) <= 6');
SELECT count(*) FROM prints a JOIN (SELECT id, CASE WHEN id % 5 = 0 THEN B'101' ELSE w END AS w FROM prints) b ON fasted_hamming_distance(a.w, b.w) <= 6;
-- decimal limits: rows of 1 to 200 bits have all quotients of such integers
CREATE TABLE prefixes AS SELECT i AS id, rpad(repeat('1', i), 200, '0')::bit(200) AS v FROM generate_series(1, 200) i;
ALTER TABLE prefixes ADD PRIMARY KEY (id);
ANALYZE prefixes;
CREATE TABLE limits AS SELECT i / 1000::float8 AS x, count(*) FILTER (WHERE 1000 * (b - a) <= i * b) AS within, count(*) FILTER (WHERE 1000 * (b - a) < i * b) AS below,
		count(*) FILTER (WHERE 1000 * a >= i * b) AS alike, count(*) FILTER (WHERE 1000 * a > i * b) AS above
	FROM generate_series(1, 200) a, generate_series(a + 1, 200) b, generate_series(0, 1000) i WHERE i % 8 = 0 OR i % 25 = 0 GROUP BY i;
SELECT bool_and(within = n) AS within FROM limits, LATERAL (SELECT count(*) AS n FROM fasted_self_join('prefixes', 'v', x, metric => 'jaccard')) f;
SELECT bool_and(below = n) AS below FROM limits, LATERAL (SELECT count(*) AS n FROM fasted_self_join('prefixes', 'v', 1, metric => 'jaccard') WHERE dist < x) f;
CREATE FUNCTION count_pairs(condition text, x float8) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM prefixes a JOIN prefixes b ON a.id < b.id AND fasted_jaccard_%s %L', condition, x) INTO n;
	RETURN n;
END $$;
SET enable_nestloop = off;
SELECT bool_and(count_pairs('distance(a.v, b.v) <=', x) = within) AS within, bool_and(count_pairs('distance(a.v, b.v) <', x) = below) AS below,
	bool_and(count_pairs('similarity(a.v, b.v) >=', x) = alike) AS alike, bool_and(count_pairs('similarity(a.v, b.v) >', x) = above) AS above FROM limits;
RESET enable_nestloop;
SET fasted.join_node = off;
SELECT bool_and(count_pairs('distance(a.v, b.v) <=', x) = within) AS within, bool_and(count_pairs('distance(a.v, b.v) <', x) = below) AS below,
	bool_and(count_pairs('similarity(a.v, b.v) >=', x) = alike) AS alike, bool_and(count_pairs('similarity(a.v, b.v) >', x) = above) AS above FROM limits WHERE x IN (0.3, 0.7);
RESET fasted.join_node;
-- similarities: those of a nested loop, also just below and above a quotient
SELECT form, bool_and(same) AS same, sum(rows) AS rows FROM unnest('{fasted_jaccard_similarity(a.v\, b.v) >=,fasted_jaccard_similarity(b.v\, a.v) >,1 - fasted_jaccard_distance(a.v\, b.v) >=,1 - fasted_jaccard_distance(a.v\, b.v) >}'::text[]) form,
	unnest('{-1,0,0.3,0.7,0.7000000000000001,0.6999999999999999,0.85,0.95,1,1.0000000000000002,2,-Infinity,Infinity,NaN}'::float8[]) x,
	same(format('SELECT a.id, b.id AS idb FROM prefixes a JOIN prefixes b ON a.id < b.id AND %s %L', form, x)) GROUP BY form ORDER BY form;
SELECT * FROM same('SELECT a.id, b.id AS idb FROM prints a LEFT JOIN prints b ON a.k = b.k AND 0.7 <= fasted_jaccard_similarity(a.v, b.w)');
-- cosine similarities of integer vectors, zero among them, at quotients that occur
CREATE TABLE angles AS SELECT x * 100 + y AS id, ARRAY[x, y]::real[] AS v, ARRAY[x, y]::float8[] AS d, x, y FROM generate_series(-5, 5) x, generate_series(0, 5) y;
ANALYZE angles;
SELECT form, bool_and(same) AS same, sum(rows) AS rows FROM unnest('{fasted_cosine_similarity(a.v\, b.v) >=,fasted_cosine_similarity(a.v\, b.v) >,fasted_cosine_similarity(a.d\, b.v) >=,1 - fasted_cosine_distance(a.d\, b.d) >}'::text[]) form,
	unnest('{-1,-0.96,-0.28,0,0.28,0.5,0.49999999999999994,0.6,0.96,1,1.0000000000000002,-1.5,Infinity,NaN}'::float8[]) s,
	same(format('SELECT a.id, b.id AS idb FROM angles a JOIN angles b ON %s %L', form, s)) GROUP BY form ORDER BY form;
SELECT p, count(*) AS rows, count(*) = sum(alike::int) AS same FROM (VALUES (7), (15), (20), (24)) s (p), LATERAL (
	SELECT a.x * b.x + a.y * b.y > 0 AND 625 * (a.x * b.x + a.y * b.y)^2 >= p * p * (a.x * a.x + a.y * a.y) * (b.x * b.x + b.y * b.y) AS alike
	FROM angles a JOIN angles b ON fasted_cosine_similarity(a.v, b.v) >= p / 25::float8) j GROUP BY p ORDER BY p;
SELECT count(*) AS rows FROM angles a JOIN angles b ON a.x * b.x + a.y * b.y > 0 AND 625 * (a.x * b.x + a.y * b.y)^2 >= 576 * (a.x * a.x + a.y * a.y) * (b.x * b.x + b.y * b.y);
EXPLAIN (COSTS OFF) SELECT FROM angles a JOIN angles b ON fasted_cosine_similarity(a.v, b.v) <= 0.5;
-- read by workers
SET parallel_setup_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT * FROM same('SELECT a.id, b.id AS idb FROM items a JOIN items b ON a.id < b.id AND fasted_negative_inner_product(a.v, b.v) < -1');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM prints a JOIN prints b ON a.id < b.id AND fasted_hamming_distance(a.v, b.v) <= 6');
SELECT * FROM same('SELECT count(*) FROM prints a JOIN prints b ON a.id < b.id AND fasted_within(a.w, b.w, 0.3, ''jaccard'')');
RESET parallel_setup_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;

DROP TABLE items, due, other, prints, prefixes, limits, angles;
DROP FUNCTION jaccard, random_bits, check_pairs, estimate, rows_of, same, count_pairs;
