-- Joins on a distance, by the engine that the settings choose.  The rows are the same as by a
-- nested loop.  The TAP test 070 has more cases.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
CREATE TABLE left_side AS SELECT g AS id, g % 4 AS k, 'left ' || g AS name,
	(SELECT array_agg(abs(hashint8extended(i, g / 2) % 7)::real) FROM generate_series(1, 40) i) AS v
	FROM generate_series(1, 700) g;
CREATE TABLE right_side AS SELECT g AS id, g % 3 AS k, 'right ' || g AS name,
	CASE WHEN g % 50 <> 0 THEN (SELECT array_agg(abs(hashint8extended(i, (g + 300) / 2) % 7)::real) FROM generate_series(1, 40) i) END AS v
	FROM generate_series(1, 500) g;
INSERT INTO left_side VALUES (1001, 1, 'null', NULL), (1002, 1, 'zero', array_fill(0::real, ARRAY[40]));
ANALYZE left_side, right_side;

-- compares the rows of both plans of a query, or with the nested loop of another query
CREATE FUNCTION same(query text, looped text DEFAULT NULL, OUT rows bigint, OUT same boolean) LANGUAGE plpgsql AS $$
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
	EXECUTE 'CREATE TEMP TABLE by_loop AS ' || coalesce(looped, query);
	SELECT count(*) INTO rows FROM by_node;
	SELECT count(*) INTO expected FROM by_loop;
	SELECT count(*) INTO differing FROM (TABLE by_node EXCEPT ALL TABLE by_loop) d;
	same := rows = expected AND differing = 0;
	DROP TABLE by_node, by_loop;
END $$;
SELECT * FROM same('SELECT a.id, b.id AS idb FROM left_side a JOIN right_side b ON fasted_within(a.v, b.v, 0)');
SELECT * FROM same('SELECT a.id, b.id AS idb, fasted_distance(a.v, b.v) FROM left_side a JOIN right_side b ON fasted_distance(a.v, b.v) < 12 AND a.k <> b.k');
SELECT * FROM same('SELECT a.id, a.name, b.name AS nameb FROM left_side a LEFT JOIN right_side b ON fasted_within(b.v, a.v, 11) AND a.k = b.k');
SELECT * FROM same('SELECT a.id FROM left_side a WHERE EXISTS (SELECT FROM right_side b WHERE 13::real >= fasted_distance(a.v, b.v))');
SELECT * FROM same('SELECT a.* FROM left_side a WHERE NOT EXISTS (SELECT FROM right_side b WHERE fasted_within(a.v, b.v, 12) AND b.k > 0)');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM left_side a JOIN left_side b ON a.id < b.id AND fasted_within(a.v, b.v, 14)');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM left_side a JOIN left_side b ON fasted_cosine_distance(a.v, b.v) <= 0.2');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM left_side a JOIN right_side b ON fasted_within(a.v, b.v, 0.15, ''cosine'') AND a.id > b.id');
SELECT * FROM same('SELECT a.id FROM left_side a WHERE NOT EXISTS (SELECT FROM left_side b WHERE a.id > b.id AND fasted_within(a.v, b.v, 1e-7, ''cosine''))');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM left_side a JOIN left_side b ON a.id < b.id AND 1 - fasted_cosine_distance(a.v, b.v) > 0.8');
SELECT * FROM same('SELECT a.id, b.id AS idb FROM left_side a JOIN right_side b ON (a.k = b.k AND fasted_within(a.v, b.v, 13)) IS TRUE AND fasted_within(a.v, b.v, 13) IS TRUE');
-- distances that the query selects are those of the engine, in any spelling, if they are equal bit for bit
SELECT rows, same, query FROM unnest(ARRAY[
	'a.id, b.id AS idb, fasted_distance(a.v, b.v), b.v <-> a.v AS swapped FROM left_side a JOIN left_side b ON fasted_within(a.v, b.v, 11)',
	'a.id, b.id AS idb, a.v <-> b.v FROM left_side a JOIN left_side b ON a.id < b.id AND fasted_distance(b.v, a.v) < 11 AND a.k <> b.k ORDER BY 3, 1, 2 LIMIT 9',
	'a.id, b.id AS idb, 1 - (a.v <=> b.v), fasted_cosine_similarity(a.v, b.v) FROM left_side a JOIN right_side b ON 1 - (b.v <=> a.v) > 0.8',
	'a.id, b.id AS idb, fasted_cosine_distance(a.v, b.v) FROM left_side a JOIN right_side b ON fasted_cosine_similarity(a.v, b.v) > 0.8 AND a.k = b.k',
	'a.id, b.id AS idb, a.v <#> b.v, a.v <-> b.v AS other FROM left_side a JOIN right_side b ON a.v <#> b.v < -500 AND a.id > b.id',
	'a.id, b.id AS idb, a.v::float8[] <-> b.v FROM left_side a JOIN right_side b ON a.v::float8[] <-> b.v < 11',
	'a.id, b.id AS idb, a.v <-> b.v FROM left_side a JOIN right_side b ON a.v <-> b.v <= ''NaN'' AND a.id < 9',
	'a.id, b.id AS idb, a.v <-> b.v FROM left_side a LEFT JOIN right_side b ON a.v <-> b.v < 11 AND a.id > 9',
	'a.id, b.id AS idb, a.v <-> b.v FROM left_side a JOIN right_side b ON a.v <-> b.v < 11 JOIN right_side c ON a.id = c.id',
	'a.id, b.id AS idb, fasted_hamming_distance(a.k::bit(3), b.k::bit(3)) FROM left_side a JOIN right_side b ON fasted_hamming_distance(b.k::bit(3), a.k::bit(3)) < 2 AND a.id = b.id',
	'a.k, count(*), min(a.v <-> b.v), max(b.v <-> a.v) FROM left_side a JOIN left_side b ON a.id < b.id AND a.v <-> b.v < 12 GROUP BY a.k HAVING max(a.v <-> b.v) > 0',
	'a.k, b.k AS kb, min(a.v <-> b.v) FROM left_side a JOIN right_side b ON a.v <-> b.v < 12 GROUP BY ROLLUP (a.k, b.k)',
	'a.v <-> b.v, count(*) FROM left_side a JOIN right_side b ON a.v <-> b.v < 8 GROUP BY ROLLUP (a.v, b.v) HAVING a.v <-> b.v IS NULL OR a.v <-> b.v > 1',
	'round((a.v <-> b.v)::numeric, 1), count(DISTINCT a.v <-> b.v) FROM left_side a JOIN right_side b ON a.v <-> b.v < 12 GROUP BY 1',
	'a.id, b.id AS idb, rank() OVER (PARTITION BY a.id ORDER BY a.v <-> b.v), max(a.v <-> b.v) OVER (PARTITION BY a.k) FROM left_side a JOIN right_side b ON a.v <-> b.v < 12']) AS query,
	same('SELECT ' || query);
SET fasted.engine = cpu;
EXPLAIN (VERBOSE, COSTS OFF) SELECT sum(fasted_distance(a.v, b.v)), sum(a.v <=> b.v) FROM left_side a JOIN left_side b ON a.id < b.id AND b.v <-> a.v < 12 HAVING min(b.v <-> a.v) > 0;
EXPLAIN (VERBOSE, COSTS OFF) SELECT a.id, 2 * (a.v <-> b.v) FROM left_side a JOIN left_side b ON a.v <-> b.v < 12;
RESET fasted.engine;
-- inner products, which are integers here, and limits that equal them
SELECT op, bound, (j).* FROM unnest('{>,>=}'::text[]) op, unnest('{500,499.9999999999999,Infinity,NaN}'::float8[]) bound, unnest('{-%s,"%s * -1"}'::text[]) negated,
	same(format('SELECT a.id, b.id AS idb FROM left_side a JOIN right_side b ON %s %s %L', format(negated, 'fasted_negative_inner_product(a.v, b.v)'), op, bound)) j
WHERE bound < 501 OR negated = '-%s' ORDER BY 1, 2, 3;
-- an invalid metric, and a metric that is no constant
SELECT count(*) FROM left_side a JOIN left_side b ON fasted_within(a.v, b.v, 0.2, 'nothing');
SELECT count(*) FROM left_side a JOIN left_side b ON fasted_within(a.v, b.v, 0.2, 'hamming');
SELECT count(*), count(*) FILTER (WHERE fasted_cosine_distance(a.v, b.v) <= 0.2) AS expected
FROM left_side a JOIN left_side b ON a.id < b.id AND fasted_within(a.v, b.v, 0.2, CASE WHEN a.id > 0 THEN 'cosine' ELSE 'l2' END);
-- which conditions the node supports: an upper bound that is constant, of a distance between both sides
CREATE FUNCTION l2_distance(a real[], b real[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN fasted_distance(a, b); END';
CREATE FUNCTION hamming_distance(a bit, b bit) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN 0; END';
CREATE FUNCTION uses(pattern text, sides text, condition text) RETURNS boolean LANGUAGE plpgsql SET enable_nestloop = off AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (VERBOSE, FORMAT json) SELECT FROM %s ON %s', sides, condition) INTO plan;
	RETURN plan::text ~ pattern;
END $$;
SELECT uses('FastedJoin', 'left_side a JOIN right_side b', condition) AS node, condition FROM unnest(ARRAY[
	'fasted_distance(a.v, b.v) < 9', '9 >= fasted_distance(b.v, a.v)', 'fasted_distance(a.v, b.v) < 9::real', 'fasted_distance(a.v, b.v) < 8 + (SELECT 1)',
	'1 - fasted_cosine_distance(a.v, b.v) > 0.8', '0.8 <= 1 - fasted_cosine_distance(a.v, b.v)',
	'fasted_within(a.v, b.v, 9) IS TRUE', '(fasted_distance(a.v, b.v) < 9) IS TRUE', '-fasted_negative_inner_product(a.v, b.v) > 0.8', 'fasted_negative_inner_product(a.v, b.v) * -1 > 0.8::real',
	'0.8 <= -1 * fasted_negative_inner_product(a.v, b.v)', 'fasted_hamming_distance(a.k::bit(3), b.k::bit(3)) / 3 < 0.4',
	'fasted_within(a.v, b.v, 9) IS NOT FALSE', '-fasted_negative_inner_product(a.v::float8[], b.v) > 0.8', '-fasted_cosine_distance(a.v, b.v) > -0.8', '-fasted_negative_inner_product(a.v, b.v) < 0.8',
	'fasted_negative_inner_product(a.v, b.v) * -2 > 0.8', 'fasted_hamming_distance(a.k::bit(3), b.k::bit(3)) / 0.5 < 0.4', 'fasted_hamming_distance(a.k::bit(3), b.k::bit(3)) / (a.k + 1) < 0.4', 'fasted_distance(a.v, b.v) / 3 < 0.4',
	'fasted_distance(a.v, b.v) > 9', 'fasted_distance(a.v, b.v) = 9', 'fasted_distance(a.v, b.v) <> 9', 'fasted_distance(a.v, b.v) < a.k', 'fasted_distance(a.v, b.v) < ANY (ARRAY[8, 9])',
	'2 - fasted_cosine_distance(a.v, b.v) > 0.8', 'a.k - fasted_cosine_distance(a.v, b.v) > 0.8', '1 + fasted_cosine_distance(a.v, b.v) > 0.8',
	'1 - fasted_cosine_distance(a.v, b.v) < 0.8', '1 - fasted_distance(a.v, b.v) > 0.8', '1 - abs(a.k - b.k) > 0.8', 'abs(a.k - b.k) < 9',
	'fasted_distance(a.v, CASE WHEN b.k > 0 THEN a.v ELSE b.v END) < 9', 'fasted_distance(CASE WHEN a.k > b.k THEN a.v ELSE b.v END, ''{1}'') < 9',
	'l2_distance(a.v, b.v) < 9', 'hamming_distance(a.k::bit(3), b.k::bit(3)) < 9']) AS condition;
-- rows are retained without their vectors, which are then found by ctid
SELECT uses('ctid', 'right_side c WHERE 0 < (SELECT count(*) FROM left_side a JOIN right_side b', 'a.id <> b.id AND fasted_distance(a.v, b.v) < ' || bound || ')') AS late, bound FROM unnest(ARRAY[
	'9', 'c.id', 'sqrt(c.id)', '(SELECT 9)']) AS bound;
-- a side is not read in the order of an index, for which an index of pgvector omits rows (pgvector.sql), but as a whole
CREATE TABLE located AS SELECT i AS id, i % 200 AS k, point(i, i % 7) AS place, ARRAY[i % 3, i % 5, i % 7]::real[] AS v, repeat('x', 500) AS note FROM generate_series(1, 8000) AS i;
CREATE INDEX ON located USING gist (place) WHERE k = 1;
ANALYZE located;
SET enable_bitmapscan = off;
SELECT uses('FastedJoin', sides, condition) AS node, uses('"Order By"', sides, condition) AS ordered, sides FROM unnest(ARRAY['located a JOIN located b', 'located a JOIN right_side b',
	'right_side b JOIN located a', '(located a CROSS JOIN (VALUES (1), (2)) c) JOIN right_side b', '(SELECT * FROM located WHERE k = 1 ORDER BY place <-> point(9, 9) LIMIT 100) a JOIN right_side b']) AS sides,
	concat('fasted_within(a.v, b.v, 3) WHERE a.k = 1 ORDER BY a.place <-> point(1, 1)') AS condition;
RESET enable_bitmapscan;
-- invalid vectors, which a condition on their row excludes; and null vectors
SELECT * FROM same('SELECT a.id, b.id AS idb FROM (SELECT * FROM left_side WHERE id < 100) a LEFT JOIN right_side b ON a.k <> 2 AND a.id <> b.id AND fasted_within((CASE WHEN a.k <> 2 THEN a.v::text ELSE a.name END)::real[], b.v, 12)');
SELECT * FROM same('SELECT a.id FROM left_side a WHERE NOT EXISTS (SELECT FROM (SELECT id, nullif(v, v) AS v FROM right_side) b WHERE fasted_within(a.v, b.v, 12))');
-- estimates: the fraction of pairs that another condition leaves
CREATE FUNCTION planned(query text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT sides, condition, round(planned(format('SELECT FROM %s ON fasted_cosine_distance(a.v, b.v) < 0.25 AND %s', sides, condition)) /
	planned(format('SELECT FROM %s ON fasted_cosine_distance(a.v, b.v) < 0.25', sides)), 2) AS share
FROM unnest(ARRAY['left_side a JOIN left_side b', 'left_side a JOIN right_side b', '(SELECT * FROM left_side OFFSET 0) a JOIN (SELECT * FROM left_side OFFSET 0) b']) AS sides,
	unnest(ARRAY['a.id < b.id', 'b.name > a.name COLLATE "C"', 'a.id < b.k', 'a.id + 1 < b.id', 'a.id < b.id + 1', 'a < b', 'a.id <> b.id', 'fasted_within(a.v, b.v, 14)']) AS condition
WHERE sides ~ '^left_side a JOIN left' OR condition = 'a.id < b.id';
SELECT round(planned('SELECT FROM left_side a JOIN left_side b ON 1 - fasted_cosine_distance(a.v, b.v) > 0.75') / pairs, 2) AS as_similarity,
	round(planned('SELECT FROM left_side a JOIN left_side b ON fasted_cosine_distance(a.v, b.v) < 0.25 JOIN left_side c ON a.id < c.id') / pairs) AS of_three
FROM planned('SELECT FROM left_side a JOIN left_side b ON fasted_cosine_distance(a.v, b.v) < 0.25') AS pairs;
-- a condition of one side alone does not replace that of both
SELECT round(planned('SELECT FROM left_side l LEFT JOIN left_side b ON fasted_within((SELECT ''{1}''::real[]), ''{2}'', 3) AND fasted_cosine_distance(l.v, b.v) < 0.25') / pairs, 2) AS of_outer
FROM planned('SELECT FROM left_side a JOIN left_side b ON fasted_cosine_distance(a.v, b.v) < 0.25') AS pairs;
-- rows with a match: as if each row had a random number of matches
SELECT pairs < 702 AS few, abs(matched - 702 * (1 - exp(-pairs / 702))) < 2 AS matched, abs(702 - matched - others) < 2 AS others
FROM planned('SELECT FROM left_side a JOIN right_side b ON fasted_within(a.v, b.v, 12)') AS pairs,
	planned('SELECT FROM left_side a WHERE EXISTS (SELECT FROM right_side b WHERE fasted_within(a.v, b.v, 12))') AS matched,
	planned('SELECT FROM left_side a WHERE NOT EXISTS (SELECT FROM right_side b WHERE fasted_within(a.v, b.v, 12))') AS others;
SELECT round(planned('SELECT FROM left_side a LEFT JOIN left_side b ON fasted_cosine_distance(a.v, b.v) < 0.25 WHERE EXISTS (SELECT FROM right_side c WHERE c.k = a.k)') /
	planned('SELECT FROM left_side a WHERE EXISTS (SELECT FROM right_side c WHERE c.k = a.k)') * 702 /
	planned('SELECT FROM left_side a JOIN left_side b ON fasted_cosine_distance(a.v, b.v) < 0.25'), 2) AS outer_join;
-- in panels
SELECT set_config('fasted.memory_limit', '1MB', false);
CREATE TABLE long_side AS SELECT g AS id, (SELECT array_agg(((i * g) % 5)::real) FROM generate_series(1, 800) i) AS v FROM generate_series(1, 600) g;
ANALYZE long_side;
SELECT * FROM same('SELECT a.id, b.id AS idb FROM long_side a JOIN (SELECT * FROM long_side WHERE id > 500) b ON fasted_within(a.v, b.v, 30)');
RESET fasted.memory_limit;
-- double precision, including expressions
SET fasted.engine = cpu;
EXPLAIN (COSTS OFF) SELECT count(*) FROM left_side a JOIN right_side b ON fasted_within(a.v::float8[], b.v::float8[], 7);
RESET fasted.engine;
SELECT (SELECT count(*) FROM left_side a JOIN right_side b ON fasted_within(a.v::float8[], b.v::float8[], 7)) = (SELECT count(*) FROM left_side a JOIN right_side b ON fasted_within(a.v, b.v, 7)) AS same;
-- other numeric types, and domains: converted to real; the same rows as by fasted_self_join
CREATE DOMAIN whole AS integer[];
CREATE TABLE numbers (id int PRIMARY KEY, i2 smallint[], i4 integer[], i8 bigint[], n numeric[], w whole, f4 real[]);
INSERT INTO numbers SELECT id, v, v, v, v, v, v FROM (
	SELECT id, ARRAY[id % 7, id * id % 11, id % 5] AS v FROM generate_series(1, 300) id) s;
UPDATE numbers SET n = ARRAY[n[1] + 0.1, n[2], n[3]];
SET enable_nestloop = off;
SET fasted.engine = cpu;
EXPLAIN (COSTS OFF) SELECT count(*) FROM numbers a JOIN numbers b ON a.id < b.id AND fasted_within(a.i4, b.i4, 1);
RESET fasted.engine;
CREATE FUNCTION self_join(condition text, a_column text, b_column text) RETURNS text LANGUAGE sql AS $$
	SELECT 'SELECT a.id, b.id AS idb FROM numbers a JOIN numbers b ON a.id < b.id AND ' || format(condition, a_column, b_column);
$$;
SELECT c, (j).* FROM unnest('{i2,i4,i8,n,w,f4}'::text[]) c,
	same(self_join('fasted_within(a.%s, b.%s, 2)', c, c), self_join('fasted_distance(a.%s::real[], b.%s::real[]) <= 2', c, c)) j;
SELECT c, (j).* FROM unnest('{i2,i4,i8,n,w,f4}'::text[]) c,
	same(self_join('fasted_distance(a.%s, b.%s) <= 2', c, 'n'), self_join('fasted_distance(a.%s::real[], b.%s::real[]) <= 2', c, 'n')) j;
SELECT (SELECT array_agg((id_a, id_b) ORDER BY id_a, id_b) FROM fasted_self_join('numbers', 'n', 2)) =
	(SELECT array_agg((a.id::bigint, b.id::bigint) ORDER BY a.id, b.id) FROM numbers a JOIN numbers b ON a.id < b.id AND fasted_within(a.n, b.n, 2)) AS as_the_function;
RESET enable_nestloop;
-- distances of pgvector, which is known by the name of its extension: here a stand-in with two dimensions
BEGIN;
SET LOCAL client_min_messages = warning;
DROP EXTENSION IF EXISTS vector CASCADE;
SET LOCAL allow_system_table_mods = on;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
	SELECT 1000000001, 'vector', oid, 'public'::regnamespace, true, '0' FROM pg_roles WHERE rolname = current_user;
CREATE TYPE vector AS (x real, y real);
CREATE TYPE other AS (x real, y real);
CREATE FUNCTION reals(vector) RETURNS real[] LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN ARRAY[$1.x, $1.y]; END';
CREATE FUNCTION reals(other) RETURNS real[] LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN ARRAY[$1.x, $1.y]; END';
CREATE CAST (vector AS real[]) WITH FUNCTION reals(vector);
CREATE CAST (other AS real[]) WITH FUNCTION reals(other);
CREATE FUNCTION l2_distance(a vector, b vector) RETURNS float8 LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN fasted_distance(reals(a), reals(b)); END';
CREATE FUNCTION l2_distance(a other, b other) RETURNS float8 LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN fasted_distance(reals(a), reals(b)); END';
CREATE FUNCTION l2_distance(a vector, b other) RETURNS float8 LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN fasted_distance(reals(a), reals(b)); END';
CREATE FUNCTION l2_distance(a vector, b vector, factor float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN factor * l2_distance(a, b); END';
CREATE FUNCTION cosine_distance(a vector, b vector) RETURNS float8 LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN 0; END';
CREATE TABLE points AS SELECT i AS id, row(i % 9, i % 11)::vector AS v, row(i % 9, i % 11)::other AS o, i::bit(8) AS b FROM generate_series(1, 60) AS i;
ALTER EXTENSION vector ADD TYPE vector;
ALTER EXTENSION vector ADD FUNCTION reals(vector);
ALTER EXTENSION vector ADD FUNCTION l2_distance(vector, vector);
ALTER EXTENSION vector ADD FUNCTION l2_distance(other, other);
ALTER EXTENSION vector ADD FUNCTION l2_distance(vector, other);
ALTER EXTENSION vector ADD FUNCTION l2_distance(vector, vector, float8);
ALTER EXTENSION vector ADD FUNCTION hamming_distance(bit, bit);
SELECT uses('FastedJoin', 'points a JOIN points b', condition) AS node, uses('ctid', 'points a JOIN points b', 'a.id <> b.id AND ' || condition) AS late, condition
FROM unnest(ARRAY['l2_distance(a.v, b.v) < 2', 'l2_distance(a.o, b.o) < 2', 'l2_distance(a.v, b.o) < 2', 'l2_distance(a.v, b.v, 3) < 2', 'cosine_distance(a.v, b.v) < 2',
	'hamming_distance(a.b, b.b) < 2', 'fasted_distance(reals(a.v), reals(b.v)) < 2']) AS condition;
ALTER FUNCTION reals(vector) STABLE;
SELECT uses('FastedJoin', 'points a JOIN points b', 'l2_distance(a.v, b.v) < 2') AS node;
ALTER FUNCTION reals(vector) IMMUTABLE;
SELECT * FROM same('SELECT a.id, b.id AS idb FROM points a JOIN points b ON a.id <> b.id AND l2_distance(a.v, b.v) < 2');
ROLLBACK;
-- functions
SELECT fasted_within('{1,2}'::real[], '{4,6}', 5), fasted_within('{1,2}'::real[], '{4,6}', 5, 'l2'), fasted_within('{1,2}'::real[], '{2,4}', 0, 'cosine');
SELECT fasted_within('{1,2}'::real[], '{4,6}', 5, 'manhattan');
SELECT fasted_within('{1,2}'::real[], '{4,6}', -1);
SELECT fasted_distance('{1,2}'::real[], '{4,6,7}');
SELECT fasted_distance('{1,NULL}'::real[], '{4,6}');
SELECT fasted_distance('{}'::real[], '{4,6}');
SELECT fasted_distance('{{1,2}}'::real[], '{4,6}');
SELECT fasted_cosine_distance('{1,Infinity}'::real[], '{4,6}');
SELECT fasted_distance(NULL::real[], '{4,6}') IS NULL AS strict;
DROP TABLE left_side, right_side, long_side, numbers, located;
DROP FUNCTION same, self_join, l2_distance, hamming_distance, uses, planned;
DROP DOMAIN whole;
