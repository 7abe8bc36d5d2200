-- Functions of two vectors: of all numeric types, and of untyped literals.  Their joins are in
-- joins.sql.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET extra_float_digits = 1;

-- all combinations of two types, with domains over them, and literals in place of either
CREATE DOMAIN whole AS integer[];
CREATE DOMAIN embedding AS real[] CHECK (cardinality(VALUE) = 2);
CREATE DOMAIN long_embedding AS double precision[];
CREATE FUNCTION answers(call text, OUT a text, OUT b text, OUT answer text) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	FOR a, b IN SELECT t.name, u.name FROM
		unnest('{smallint[],integer[],bigint[],numeric[],real[],float8[],whole,embedding,long_embedding,unknown}'::text[]) WITH ORDINALITY t (name, n),
		unnest('{smallint[],integer[],bigint[],numeric[],real[],float8[],whole,embedding,long_embedding,unknown}'::text[]) WITH ORDINALITY u (name, n)
		ORDER BY t.n, u.n
	LOOP
		EXECUTE format('SELECT ' || call, CASE a WHEN 'unknown' THEN '''{1,2}''' ELSE '''{1,2}''::' || a END,
			CASE b WHEN 'unknown' THEN '''{4,6}''' ELSE '''{4,6}''::' || b END) INTO answer;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT answer, count(*) FROM answers('fasted_distance(%s, %s)') GROUP BY 1;
SELECT answer, count(*) FROM answers('fasted_cosine_distance(%s, %s)::numeric(8, 6)') GROUP BY 1;
SELECT answer, count(*) FROM answers('fasted_cosine_similarity(%s, %s)::numeric(8, 6)') GROUP BY 1;
SELECT answer, count(*) FROM answers('fasted_within(%s, %s, 5)') GROUP BY 1;
SELECT answer, count(*) FROM answers('fasted_within(%s, %s, 4.999, ''l2'')') GROUP BY 1;
SELECT answer, count(*) FROM answers('fasted_within(%s, %s, eps => 0.0078, metric => ''cosine'')') GROUP BY 1;

-- the type of the computation: real if both types are real or convert implicitly, else double precision
CREATE FUNCTION in_type(a text, b text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	distance float8;
BEGIN
	EXECUTE format('SELECT fasted_distance(%s, %s)', a, b) INTO distance;
	RETURN CASE distance WHEN 0.7::real::float8 - 0.1::real::float8 THEN 'real' WHEN 0.7::float8 - 0.1::float8 THEN 'double precision'
		ELSE 'other ' || distance END;
END $$;
SELECT a || '[]' AS a, b || '[]' AS b, in_type(format('''{0.1}''::%s[]', a), format('''{0.7}''::%s[]', b)),
	in_type(format('''{0.1}''::%s[]', a), '''{0.7}''') AS with_literal, in_type('''{0.1}''', format('''{0.7}''::%s[]', b)) AS of_literal
FROM unnest('{numeric,real,float8}'::text[]) a, unnest('{numeric,real,float8}'::text[]) b;
SELECT in_type('''{0.1}''', '''{0.7}''') AS literals, in_type('ARRAY[0.1]', 'ARRAY[0.7]') AS numbers;
-- parameters need a type
PREPARE half_typed(real[]) AS SELECT fasted_distance($1, $2);
PREPARE cast_to AS SELECT fasted_distance($1::real[], $2::real[]), fasted_within($1, $2, $3);
EXECUTE cast_to('{1,2}', '{4,6}', 5);
-- integers beside real[] or a literal are compared as real[], beside double precision[] without loss
SELECT fasted_distance(ARRAY[1, 2], '{4.5,6}');
SELECT fasted_distance(ARRAY[16777217], ARRAY[16777216]::real[]) AS reals, fasted_distance(ARRAY[16777217], ARRAY[16777216]::float8[]) AS doubles;
SELECT fasted_distance(ARRAY[1.0, 2], '{4.5,6}'), fasted_distance(ARRAY[1, 2], ARRAY[4.5, 6]);

-- pgvector's text form
SELECT fasted_distance('[1,2]', '[4,6]') AS both, fasted_distance(E' [1, 2]\n', '{4,6}') AS one, fasted_distance('[0:1]={1,2}', '[4,6]') AS bounds,
	fasted_within('[1,2]', '[4,6]', 5) AS within, fasted_cosine_distance('[1,2]', '[2,4]') AS cosine;
CREATE TYPE pgvector_like AS (v real[]);
CREATE FUNCTION reals_of(pgvector_like) RETURNS real[] LANGUAGE sql IMMUTABLE STRICT RETURN $1.v;
CREATE CAST (pgvector_like AS real[]) WITH FUNCTION reals_of(pgvector_like) AS IMPLICIT;
CREATE TABLE likes AS SELECT ROW('{1,2}')::pgvector_like AS v;
SELECT fasted_distance(v, '[4,6]') AS literal, fasted_distance('[4,6]', v) AS of_literal, fasted_distance(v, '{4,6}') AS "array",
	fasted_within(v, '[4,6]', 5) AS within, fasted_within('[4,6]', v, 4.99) AS not_within, fasted_within(v, '[2,4]', 1e-9, 'cosine') AS cosine,
	fasted_cosine_distance(v, '[2,4]') AS angle, fasted_cosine_distance('[2,4]', v) AS of_angle, fasted_distance(v, v) AS same,
	fasted_distance(v, ARRAY[4, 6]) AS numbers, fasted_distance(v, NULL) IS NULL AS nothing FROM likes;
-- one like halfvec, whose cast is for assignments only; in each position beside every other type
CREATE TYPE halfvec_like AS (v real[]);
CREATE FUNCTION reals_of(halfvec_like) RETURNS real[] LANGUAGE sql IMMUTABLE STRICT RETURN $1.v;
CREATE CAST (halfvec_like AS real[]) WITH FUNCTION reals_of(halfvec_like) AS ASSIGNMENT;
CREATE DOMAIN half_embedding AS halfvec_like;
CREATE TABLE halves AS SELECT i AS id, ROW(ARRAY[i, i % 3])::halfvec_like AS h, ROW(ARRAY[i, i % 3])::halfvec_like::half_embedding AS d, ROW(ARRAY[i, i % 3])::pgvector_like AS v,
	ARRAY[i, i % 3]::real[] AS f4, ARRAY[i, i % 3]::float8[] AS f8, ARRAY[i, i % 3] AS i4, ARRAY[i, i % 3]::numeric[] AS n FROM generate_series(1, 60) i;
ALTER TABLE halves ADD PRIMARY KEY (id);
ANALYZE halves;
CREATE FUNCTION plain_pairs(eps float8) RETURNS text LANGUAGE sql STABLE AS $$
	SELECT count(*) || ' ' || sum(a.id * b.id) FROM halves a JOIN halves b ON a.id < b.id AND sqrt((a.f8[1] - b.f8[1]) ^ 2 + (a.f8[2] - b.f8[2]) ^ 2) <= eps
$$;
-- by a nested loop, and by the node
CREATE FUNCTION pairs(condition text, OUT plan text, OUT answer text) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	query text := 'SELECT count(*) || '' '' || sum(a.id * b.id) FROM halves a JOIN halves b ON a.id < b.id AND ' || condition;
	line text;
BEGIN
	FOR plan IN SELECT unnest('{off,on}'::text[]) LOOP
		PERFORM set_config('fasted.join_node', plan, true), set_config('enable_nestloop', CASE plan WHEN 'on' THEN 'off' ELSE 'on' END, true);
		EXECUTE query INTO answer;
		FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
			IF line ~ 'Nested Loop|FastedJoin' THEN
				plan := substring(line FROM 'Nested Loop|FastedJoin');
				RETURN NEXT;
			END IF;
		END LOOP;
	END LOOP;
	PERFORM set_config('enable_nestloop', 'on', true);
END $$;
SELECT plan, answer = plain_pairs(3) AS same, count(*) FROM unnest('{h,d,v,f4,f8,i4,n}'::text[]) x, unnest('{h,d,v,f4,f8,i4,n}'::text[]) y,
	pairs(format('fasted_within(a.%s, b.%s, 3)', x, y)) p GROUP BY 1, 2 ORDER BY 1;
SELECT plan, answer = plain_pairs(2) AS same, count(*) FROM unnest('{h,d,v,f4,f8,i4,n}'::text[]) x, unnest('{h,d,v,f4,f8,i4,n}'::text[]) y,
	pairs(format('fasted_distance(a.%s, b.%s) <= 2::real', x, y)) p GROUP BY 1, 2 ORDER BY 1;
SET enable_nestloop = off;
SET fasted.engine = cpu;
EXPLAIN (COSTS OFF) SELECT FROM halves a JOIN halves b ON a.id < b.id AND fasted_within(a.h, b.h, 3);
RESET enable_nestloop;
RESET fasted.engine;
SELECT fasted_distance(h, '[4,5]') AS literal, fasted_distance('{4,5}', h) AS of_literal, fasted_within(d, '[4,5]', 5) AS within, fasted_within('[4,5]', d, '4.99', 'l2') AS not_within,
	fasted_cosine_distance(h, h) AS cosine, fasted_negative_inner_product(h, '[1,1]') AS product, fasted_distance(h, NULL) IS NULL AS nothing,
	fasted_distance(NULL::halfvec_like, h) IS NULL AS null_half FROM halves WHERE id = 1;
-- constants, which the planner evaluates
SELECT fasted_distance(ROW('{1,2}')::halfvec_like, '[4,6]') AS literal, fasted_within(ROW('{1,2}')::halfvec_like, ROW('{4,6}')::half_embedding, 5) AS within,
	fasted_distance(ROW('{0.1}')::halfvec_like, '{0.7}'::float8[]) = 0.7::float8 - 0.1::real AS doubles, fasted_distance(ROW(NULL)::halfvec_like, '[4,6]') IS NULL AS nothing;
-- outside of queries: the expressions of a table, of PL/pgSQL, and a call as a table
CREATE TABLE checked (a real[], i int[], h halfvec_like, b bit(3), CHECK (fasted_distance(h, '[1,2]') < 9), CHECK (fasted_within(b, '101', 2, 'hamming')),
	norm float8 GENERATED ALWAYS AS (fasted_distance(i, '{0,0}')) STORED);
CREATE INDEX ON checked (fasted_distance(a, i), fasted_cosine_distance(h, a));
INSERT INTO checked VALUES ('{1,2}', '{4,6}', ROW('{2,4}'), B'111'), ('{3,4}', '{3,4}', ROW('{3,4}'), B'101');
INSERT INTO checked VALUES ('{1,2}', '{4,6}', ROW('{20,4}'), B'111');
INSERT INTO checked VALUES ('{1,2}', '{4,6}', ROW('{2,4}'), B'010');
SELECT fasted_distance(a, i), norm, fasted_cosine_distance(h, a) AS angle FROM checked ORDER BY 1;
DO $$
DECLARE
	h halfvec_like := ROW('{1,2}');
	literal text := '[4,6]';
BEGIN
	RAISE NOTICE '% % %', fasted_distance(h, '[4,6]'), fasted_within('{4,6}', h, 5), fasted_distance(literal::real[], h);
EXCEPTION WHEN invalid_text_representation THEN
	RAISE NOTICE '% %', SQLERRM, fasted_distance(translate(literal, '[]', '{}')::real[], h);
END $$;
SELECT * FROM fasted_distance(ARRAY[1, 2], '[4,6]');
SELECT sum(fasted_distance(a, i)) OVER (ORDER BY fasted_distance(i, h)) FROM checked;
DROP TABLE checked;
PREPARE beside(text) AS SELECT fasted_distance(v, $1) FROM likes;
EXECUTE beside('[4,6]');
CREATE ROLE regress_fasted_plain;
GRANT SELECT ON likes TO regress_fasted_plain;
SET ROLE regress_fasted_plain;
SELECT fasted_distance('[1,2]', '[4,6]'), fasted_distance(v, '[4,6]') FROM likes;
-- as pg_dump writes it
CREATE TEMP VIEW distances AS SELECT fasted_distance(v, '[4,6]') AS a, fasted_distance('[4,6]', v) AS b, fasted_within('[1,2]', '[4,6]', 5) AS c,
	fasted_within(v, '[4,6]', 5) AS d, fasted_within('[4,6]', v, 4.99) AS e, fasted_within('{1,2}'::real[], v, 0.5) AS f FROM likes;
SELECT 'CREATE TEMP VIEW again AS ' || pg_get_viewdef('distances') AS again \gset
:again
TABLE again;
DROP VIEW distances, again;
RESET ROLE;
\set VERBOSITY terse
SELECT fasted_distance('[1,2', '[4,6]');
SELECT fasted_distance('[1,2}', '[4,6]');
-- a literal is read once, at planning
SELECT fasted_distance(v, '[4,x]') FROM likes LIMIT 0;
SELECT fasted_distance(v, '[]') FROM likes;
SELECT fasted_distance(v, '[[4,6]]') FROM likes;
SELECT fasted_distance('{1,2}'::real[], '[4,6]');
\set VERBOSITY default

-- values out of range for real, and invalid vectors
\set VERBOSITY terse
SELECT fasted_distance(ARRAY[1e39], ARRAY[1]);
SELECT fasted_distance('{1,2}', '{4,6');
SELECT fasted_distance('{1,NULL}', '{4,6}');
SELECT fasted_distance(ARRAY[1, NULL], ARRAY[4, 6]);
SELECT fasted_distance(ARRAY['a'], ARRAY['b']);
\set VERBOSITY default
SELECT fasted_distance(1, '{1}'::real[]);
SELECT fasted_within('{1}'::real[], i, 1) FROM generate_series(1, 2) i;
SELECT fasted_distance(B'101', B'100');
SELECT fasted_within(B'101', h, 1) FROM halves;
SELECT fasted_distance(id::bit(8), id::bit(8)) FROM halves;
\set VERBOSITY terse
SELECT fasted_distance(NULL, '{1}') IS NULL AND fasted_distance(NULL, NULL) IS NULL AS strict;

-- a cast that is a function of another user does not run
CREATE ROLE regress_fasted_author;
ALTER FUNCTION reals_of(halfvec_like) OWNER TO regress_fasted_author;
SELECT fasted_distance(h, h) FROM halves;
SELECT fasted_distance(h::real[], h::real[]) FROM halves LIMIT 1;
ALTER FUNCTION reals_of(halfvec_like) OWNER TO CURRENT_USER;

-- every pair of types in every function: a join by the node and by a nested loop have the same count or SQLSTATE, and so has a call without a join
CREATE DOMAIN byte AS bit(8);
CREATE TYPE pair AS (x int, y int);
CREATE TABLE kinds AS SELECT i AS id, i::bit(8) AS bits, i::bit(8)::bit varying AS varbits, i::bit(8)::byte AS domain_bits, i::bigint AS big, format('{%s,%s}', i, i % 3) AS word,
	ARRAY[i, i % 3] AS i4, ARRAY[i, i % 3]::bigint[] AS i8, ARRAY[i, i % 3]::numeric[] AS n, ARRAY[i, i % 3]::real[] AS f4, ARRAY[i, i % 3]::float8[] AS f8,
	ARRAY[i, i % 3]::embedding AS domain_f4, '2000-01-01'::date + i AS day, '\x01'::bytea AS bytes, ROW(i, i)::pair AS pair FROM generate_series(1, 12) i;
CREATE FUNCTION outcome(node text, query text, condition text, OUT result text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('fasted.join_node', node, true), set_config('enable_nestloop', CASE node WHEN 'on' THEN 'off' ELSE 'on' END, true);
	EXECUTE format(query, condition) INTO result;
EXCEPTION WHEN OTHERS THEN
	result := 'error ' || SQLSTATE;
END $$;
SELECT call, count(*) AS pairs_of_types, count(*) FILTER (WHERE by_node !~ 'error') AS answers, string_agg(DISTINCT substring(by_node FROM 'error (.*)'), ' ') AS errors,
	count(*) FILTER (WHERE by_node <> by_loop) AS differences, count(*) FILTER (WHERE (direct ~ 'error') <> (by_loop ~ 'error')) AS other_calls
FROM unnest('{"fasted_distance(%s, %s) < 3","fasted_cosine_distance(%s, %s) < 0.5","fasted_negative_inner_product(%s, %s) < -3","fasted_hamming_distance(%s, %s) < 3","fasted_jaccard_distance(%s, %s) < 0.5",
		"fasted_within(%s, %s, 3)","fasted_within(%s, %s, 0.5, ''cosine'')","fasted_within(%s, %s, 3, ''hamming'')"}'::text[]) WITH ORDINALITY AS f (call, n),
	unnest('{a.bits,a.varbits,a.domain_bits,a.id,a.big,a.word,a.i4,a.i8,a.n,a.f4,a.f8,a.domain_f4,a.day,a.bytes,a.pair,"''{1,2}''","''10101010''"}'::text[]) AS x,
	unnest('{a.bits,a.varbits,a.domain_bits,a.id,a.big,a.word,a.i4,a.i8,a.n,a.f4,a.f8,a.domain_f4,a.day,a.bytes,a.pair,"''{1,2}''","''10101010''"}'::text[]) AS y,
	LATERAL outcome('on', 'SELECT count(*) FROM kinds a JOIN kinds b ON %s', format(call, x, replace(y, 'a.', 'b.'))) AS by_node,
	LATERAL outcome('off', 'SELECT count(*) FROM kinds a JOIN kinds b ON %s', format(call, x, replace(y, 'a.', 'b.'))) AS by_loop,
	LATERAL outcome('off', 'SELECT count(%s) FROM kinds a', format(call, x, y)) AS direct GROUP BY n, call ORDER BY n;
\set VERBOSITY default
SET enable_nestloop = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*) FROM kinds a JOIN kinds b ON a.id % 4 = b.id % 4 AND fasted_within(a.bits, b.id, 3);
RESET enable_nestloop;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT fasted_within(B'101', '101'::text, 1, 'hamming');
SELECT fasted_distance(i4, bits) FROM kinds LIMIT 0;
\set VERBOSITY terse
DROP TABLE kinds;
DROP FUNCTION outcome;
DROP DOMAIN byte;
DROP TYPE pair;

DROP FUNCTION answers, in_type, pairs, plain_pairs;
DROP TABLE likes, halves;
DROP ROLE regress_fasted_plain, regress_fasted_author;
DROP CAST (pgvector_like AS real[]);
DROP CAST (halfvec_like AS real[]);
DROP FUNCTION reals_of(pgvector_like), reals_of(halfvec_like);
DROP DOMAIN whole, embedding, long_embedding, half_embedding;
DROP TYPE pgvector_like, halfvec_like;
