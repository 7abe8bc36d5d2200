-- Functions of two vectors: of any types of numbers, and of literals without a type.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET extra_float_digits = 1;

-- every two types meet, with domains over them and literals in a place of theirs
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

-- in which type: real where all are real or go there, else double precision
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
-- a literal is of the other one's type, as everywhere
SELECT fasted_distance(ARRAY[1, 2], '{4.5,6}');
SELECT fasted_distance(ARRAY[1.0, 2], '{4.5,6}'), fasted_distance(ARRAY[1, 2], ARRAY[4.5, 6]);
-- what is too large for real, and what is no vector
\set VERBOSITY terse
SELECT fasted_distance(ARRAY[1e39], ARRAY[1]);
SELECT fasted_distance('{1,2}', '{4,6');
SELECT fasted_distance('{1,NULL}', '{4,6}');
SELECT fasted_distance(ARRAY[1, NULL], ARRAY[4, 6]);
SELECT fasted_distance(ARRAY['a'], ARRAY['b']);
SELECT fasted_distance(NULL, '{1}') IS NULL AND fasted_distance(NULL, NULL) IS NULL AS strict;

\set VERBOSITY default
-- joins of them are the node's; the same rows as fasted_self_join's
CREATE TABLE numbers (id int PRIMARY KEY, i2 smallint[], i4 integer[], i8 bigint[], n numeric[], w whole, f4 real[]);
INSERT INTO numbers SELECT id, v, v, v, v, v, v FROM (
	SELECT id, ARRAY[id % 7, id * id % 11, id % 5] AS v FROM generate_series(1, 300) id) s;
UPDATE numbers SET n = ARRAY[n[1] + 0.1, n[2], n[3]];
SET enable_nestloop = off;
SET fasted.engine = cpu;
EXPLAIN (COSTS OFF) SELECT count(*) FROM numbers a JOIN numbers b ON a.id < b.id AND fasted_within(a.i4, b.i4, 1);
RESET fasted.engine;
CREATE FUNCTION check_join(a_column text, b_column text, condition text, OUT pairs bigint, OUT same boolean) LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
	query text := format('SELECT a.id AS id_a, b.id AS id_b FROM numbers a JOIN numbers b ON a.id < b.id AND ' || condition, 'a.' || a_column, 'b.' || b_column);
	plain text := format('SELECT a.id AS id_a, b.id AS id_b FROM numbers a JOIN numbers b ON a.id < b.id AND fasted_distance(a.%I::real[], b.%I::real[]) <= 2', a_column, b_column);
BEGIN
	PERFORM set_config('fasted.join_node', 'on', true);
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		plan := plan || line;
	END LOOP;
	IF plan !~ 'FastedJoin' THEN
		RAISE EXCEPTION 'not by the node: %', plan;
	END IF;
	EXECUTE 'CREATE TEMP TABLE by_node AS ' || query;
	PERFORM set_config('fasted.join_node', 'off', true);
	EXECUTE 'CREATE TEMP TABLE by_loop AS ' || plain;
	SELECT count(*), count(*) = (SELECT count(*) FROM by_loop) AND NOT EXISTS (TABLE by_node EXCEPT TABLE by_loop) INTO pairs, same FROM by_node;
	DROP TABLE by_node, by_loop;
END $$;
SELECT c, (j).* FROM unnest('{i2,i4,i8,n,w,f4}'::text[]) c, check_join(c, c, 'fasted_within(%s, %s, 2)') j;
SELECT c, (j).* FROM unnest('{i2,i4,i8,n,w,f4}'::text[]) c, check_join(c, 'n', 'fasted_distance(%s, %s) <= 2') j;
SELECT (SELECT array_agg((id_a, id_b) ORDER BY id_a, id_b) FROM fasted_self_join('numbers', 'n', 2)) =
	(SELECT array_agg((a.id::bigint, b.id::bigint) ORDER BY a.id, b.id) FROM numbers a JOIN numbers b ON a.id < b.id AND fasted_within(a.n, b.n, 2)) AS as_the_function;

DROP TABLE numbers;
DROP FUNCTION answers, in_type, check_join;
DROP DOMAIN whole, embedding, long_embedding;
