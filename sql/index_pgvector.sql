-- Exact indexes for pgvector's types.  Without pgvector, the alternative expected file applies.
SELECT count(*) = 0 AS no_pgvector FROM pg_available_extensions WHERE name = 'vector' \gset
\if :no_pgvector
\quit
\endif
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
CREATE EXTENSION vector;
-- not in a schema whose objects hide those of pgvector
CREATE SCHEMA hiding;
CREATE OPERATOR hiding.<~> (LEFTARG = bit, RIGHTARG = bit, FUNCTION = hamming_distance);
\set VERBOSITY terse
CREATE EXTENSION fasted_pgvector SCHEMA hiding;
\set VERBOSITY default
DROP SCHEMA hiding CASCADE;
CREATE EXTENSION fasted_pgvector;
RESET client_min_messages;
SET jit = off;

-- vectors of 40 dimensions: duplicates, near-duplicates, zero, very small and very large ones
CREATE TABLE items (id int PRIMARY KEY, tenant int, v vector(40), h halfvec(40));
INSERT INTO items SELECT i, i % 7, v::vector, v::halfvec FROM generate_series(1, 600) AS i,
	LATERAL (SELECT array_agg((sin(i % 200 * (j + 1)) + i % 2 * 0.001)::real ORDER BY j) AS v FROM generate_series(1, 40) AS j) AS s;
INSERT INTO items VALUES (1001, 1, NULL, NULL), (1002, 1, array_fill(0, ARRAY[40])::vector, array_fill(0, ARRAY[40])::halfvec),
	(1003, 1, array_fill(1e-20::real, ARRAY[40])::vector, array_fill(6e-8::real, ARRAY[40])::halfvec),
	(1004, 1, array_fill(1e18::real, ARRAY[40])::vector, array_fill(60000::real, ARRAY[40])::halfvec),
	(1005, 1, array_fill(1e-23::real, ARRAY[40])::vector, array_fill(-65504::real, ARRAY[40])::halfvec);
CREATE INDEX items_v_l2 ON items USING fasted (v, tenant);
CREATE INDEX items_v_cosine ON items USING fasted (v vector_cosine_ops);
CREATE INDEX items_v_ip ON items USING fasted (v vector_ip_ops);
CREATE INDEX items_h_l2 ON items USING fasted (h);
CREATE INDEX items_h_cosine ON items USING fasted (h halfvec_cosine_ops);
CREATE INDEX items_h_ip ON items USING fasted (h halfvec_ip_ops);
ANALYZE items;

-- For many rows: the rows within the distance of another row, and one unit in the last place beside it
CREATE FUNCTION differences(kolumn text, operator text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	q text;
	limits float8[];
	x float8;
	query text;
	due text;
	got text;
	plan text;
	cases int := 0;
	bad int := 0;
BEGIN
	FOR i IN 1..5 LOOP
		EXECUTE format('SELECT quote_literal(%I) FROM items WHERE id = $1', kolumn) INTO q USING CASE WHEN i < 3 THEN i * 97 ELSE i + 1000 END;
		EXECUTE format('SELECT array_agg(%I %s %s) FROM items WHERE id %% 300 = 1 OR id > 1002', kolumn, operator, q) INTO limits;
		FOREACH x IN ARRAY limits LOOP
			FOREACH query IN ARRAY ARRAY[format('SELECT count(*) || '' '' || sum(id) FROM items WHERE %I %s %s <= %L', kolumn, operator, q, x),
				format('SELECT count(*) || '' '' || sum(id) FROM items WHERE %I %s %s < %L AND tenant = 1', kolumn, operator, q, x),
				format('SELECT count(*) || '' '' || sum(id) FROM items WHERE 1 - (%I %s %s) >= 1 - %L::float8', kolumn, operator, q, x),
				format('SELECT count(*) || '' '' || sum(id) FROM items WHERE fasted_within(%I, %s, %L, %L)', kolumn, q, greatest(x, -1e300),
					CASE operator WHEN '<->' THEN 'l2' WHEN '<=>' THEN 'cosine' WHEN '<#>' THEN 'inner_product' WHEN '<~>' THEN 'hamming' ELSE 'jaccard' END),
				format('SELECT string_agg(d::text, '','') FROM (SELECT %1$I %2$s %3$s AS d FROM items ORDER BY %1$I %2$s %3$s LIMIT %4$s) AS s', kolumn, operator, q, cases % 20 + 1)] LOOP
				CONTINUE WHEN x = 'NaN' AND query ~ 'within' OR operator !~ '[=%]' AND query ~ '1 -';
				PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
				EXECUTE query INTO due;
				PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true);
				EXECUTE query INTO got;
				EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
				cases := cases + 1;
				IF got IS DISTINCT FROM due OR plan !~ 'items_[vhb]_' THEN
					bad := bad + 1;
					RAISE NOTICE '%: % is not %', query, got, due;
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
	RETURN format('%s of %s', bad, cases);
END $$;
SELECT kolumn, operator, differences(kolumn, operator) FROM unnest('{v,h}'::text[]) AS kolumn, unnest('{<->,<=>,<#>}'::text[]) AS operator;

ALTER TABLE items ADD b bit(70);
UPDATE items SET b = CASE WHEN id = 600 THEN repeat('0', 70) WHEN id % 200 <> 199 THEN rpad(translate(md5((id % 200)::text), '0123456789abcdef', '0001011001101101'), 40 + id % 5, '1') END::bit(70);
CREATE INDEX items_b_hamming ON items USING fasted (b);
CREATE INDEX items_b_jaccard ON items USING fasted (b bit_jaccard_ops);
ANALYZE items;
SELECT operator, differences('b', operator) FROM unnest('{<~>,<%>}'::text[]) AS operator;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM items WHERE (b <~> repeat('01', 35)::bit(70)) / 70 < 0.1;
SELECT id FROM items WHERE fasted_jaccard_similarity(b, (SELECT b FROM items WHERE id = 4)) > 0.9 ORDER BY id;
EXPLAIN (COSTS OFF) SELECT id FROM items WHERE v <-> array_fill(1, ARRAY[40])::vector < 3 AND tenant = 4;
EXPLAIN (COSTS OFF) SELECT a.id FROM items a JOIN items b ON 1 - (a.h <=> b.h) > 0.99 WHERE a.id < 3;
EXPLAIN (COSTS OFF) SELECT id FROM items ORDER BY v <#> array_fill(1, ARRAY[40])::vector LIMIT 3;
-- errors as those of pgvector
SELECT id FROM items WHERE v <-> '[1,2]' < 1;
SELECT id FROM items ORDER BY h <-> '[1,2]' LIMIT 1;
DROP TABLE items;
DROP FUNCTION differences;
DROP EXTENSION fasted_pgvector, vector;
-- in a database without fasted, its library leaves an index of pgvector alone
SELECT current_database() AS regress \gset
CREATE DATABASE regress_fasted_none;
\c regress_fasted_none
LOAD 'fasted';
CREATE EXTENSION vector;
CREATE TABLE items (v vector(2));
CREATE INDEX ON items USING hnsw (v vector_l2_ops);
SELECT count(*) FROM items WHERE v <-> '[1,2]' < 5;
\c :regress
DROP DATABASE regress_fasted_none;
