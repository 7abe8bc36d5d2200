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
PREPARE untyped AS SELECT fasted_distance($1, $2), fasted_within($1, $2, $3);
EXECUTE untyped('{1,2}', '{4,6}', 5);
PREPARE half_typed(real[]) AS SELECT fasted_distance($1, $2), pg_typeof($2);
EXECUTE half_typed('{1,2}', '{4,6}');
-- a literal gets the type of the other argument, as usual
SELECT fasted_distance(ARRAY[1, 2], '{4.5,6}');
SELECT fasted_distance(ARRAY[1.0, 2], '{4.5,6}'), fasted_distance(ARRAY[1, 2], ARRAY[4.5, 6]);

-- pgvector's text form: with another literal, and with a type that converts to real[] implicitly
SELECT fasted_distance('[1,2]', '[4,6]') AS both, fasted_distance(E' [1, 2]\n', '{4,6}') AS one, fasted_distance('[0:1]={1,2}', '[4,6]') AS bounds,
	fasted_within('[1,2]', '[4,6]', 5) AS within, fasted_cosine_distance('[1,2]', '[2,4]') AS cosine;
CREATE TYPE pgvector_like AS (v real[]);
CREATE FUNCTION reals_of(pgvector_like) RETURNS real[] LANGUAGE sql IMMUTABLE STRICT RETURN $1.v;
CREATE CAST (pgvector_like AS real[]) WITH FUNCTION reals_of(pgvector_like) AS IMPLICIT;
CREATE TABLE likes AS SELECT ROW('{1,2}')::pgvector_like AS v, '[4,6]' AS word;
SELECT fasted_distance(v, '[4,6]') AS literal, fasted_distance('[4,6]', v) AS of_literal, fasted_distance(v, '{4,6}') AS "array",
	fasted_within(v, '[4,6]', 5) AS within, fasted_within('[4,6]', v, 4.99) AS not_within, fasted_within(v, '[2,4]', 1e-9, 'cosine') AS cosine,
	fasted_cosine_distance(v, '[2,4]') AS angle, fasted_cosine_distance('[2,4]', v) AS of_angle, fasted_distance(v, v) AS same,
	fasted_distance(v, word) AS word, fasted_distance(v, ARRAY[4, 6]) AS numbers, fasted_distance(v, NULL) IS NULL AS nothing FROM likes;
PREPARE beside AS SELECT fasted_distance(v, $1), pg_typeof($1) FROM likes;
EXECUTE beside('[4,6]');
EXECUTE beside('{4,6}');
CREATE ROLE regress_fasted_plain;
GRANT SELECT ON likes TO regress_fasted_plain;
SET ROLE regress_fasted_plain;
SELECT fasted_distance('[1,2]', '[4,6]'), fasted_distance(v, '[4,6]') FROM likes;
-- as pg_dump writes it
CREATE TEMP VIEW distances AS SELECT fasted_distance(v, '[4,6]') AS a, fasted_distance('[4,6]', v) AS b, fasted_within('[1,2]', '[4,6]', 5) AS c FROM likes;
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
-- a real[] argument determines the type of a literal
SELECT fasted_distance('{1,2}'::real[], '[4,6]');
\set VERBOSITY default

-- values out of range for real, and invalid vectors
\set VERBOSITY terse
SELECT fasted_distance(ARRAY[1e39], ARRAY[1]);
SELECT fasted_distance('{1,2}', '{4,6');
SELECT fasted_distance('{1,NULL}', '{4,6}');
SELECT fasted_distance(ARRAY[1, NULL], ARRAY[4, 6]);
SELECT fasted_distance(ARRAY['a'], ARRAY['b']);
SELECT fasted_distance(NULL, '{1}') IS NULL AND fasted_distance(NULL, NULL) IS NULL AS strict;

DROP FUNCTION answers, in_type;
DROP TABLE likes;
DROP ROLE regress_fasted_plain;
DROP CAST (pgvector_like AS real[]);
DROP FUNCTION reals_of;
DROP TYPE pgvector_like;
DROP DOMAIN whole, embedding, long_embedding;
