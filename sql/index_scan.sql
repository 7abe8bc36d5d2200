-- Exact indexes: which conditions and orders they serve; each result is that of a sequential scan.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET jit = off;
SET fasted.join_node = off;

-- vectors with near-duplicates, a null and zero vectors
CREATE TABLE items (id int PRIMARY KEY, tenant bigint, kind text, v real[], w double precision[]);
INSERT INTO items SELECT i, i % 7, 'k' || i % 3, v, v FROM generate_series(1, 1500) AS i,
	LATERAL (SELECT array_agg((sin(i % 500 * (j + 1)) + i % 2 * 0.01)::real ORDER BY j) AS v FROM generate_series(1, 12) AS j) AS s;
INSERT INTO items VALUES (2001, 1, 'k1', NULL, NULL), (2002, 1, 'k1', array_fill(0, ARRAY[12]), array_fill(0, ARRAY[12])), (2003, NULL, NULL, array_fill(0, ARRAY[12]), array_fill(0, ARRAY[12]));
CREATE INDEX items_l2 ON items USING fasted (v, tenant, kind);
CREATE INDEX items_cosine ON items USING fasted (v real_cosine_ops);
CREATE INDEX items_product ON items USING fasted (v real_ip_ops);
CREATE INDEX items_double ON items USING fasted (w) WHERE tenant = 3;
CREATE INDEX items_double_cosine ON items USING fasted (w double_cosine_ops);
CREATE INDEX items_double_product ON items USING fasted (w double_ip_ops);
CREATE INDEX items_sum ON items USING fasted ((v || w::real[]));
ANALYZE items;

-- Runs a query by a sequential scan, and by index and bitmap scans; shows the index scans, and differences.
CREATE FUNCTION compare(query text, show boolean DEFAULT true) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	due text;
	got text;
	line text;
	indexed boolean := false;
BEGIN
	PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'on', true);
	EXECUTE 'SELECT coalesce(array_agg(q)::text, ''none'') FROM (' || query || ') AS q' INTO due;
	PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_seqscan', 'off', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'using items_[cdlps]' THEN indexed := true; END IF;
		IF show AND line ~ 'items_|Cond:|Order By:' THEN
			RETURN NEXT replace(regexp_replace(line, '{[-0-9.,e]+}', '{...}', 'g'), '(InitPlan 1).col1', '$0');
		END IF;
	END LOOP;
	EXECUTE 'SELECT coalesce(array_agg(q)::text, ''none'') FROM (' || query || ') AS q' INTO got;
	IF NOT indexed THEN RETURN NEXT 'no index'; END IF;
	IF got IS DISTINCT FROM due THEN RETURN NEXT 'index scan: ' || got || ' is not ' || due; END IF;
	PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'on', true);
	EXECUTE 'SELECT coalesce(array_agg(q)::text, ''none'') FROM (' || query || ') AS q' INTO got;
	IF got IS DISTINCT FROM due THEN RETURN NEXT 'bitmap scan: ' || got || ' is not ' || due; END IF;
	RETURN NEXT (length(due) - length(replace(due, '(', ''))) || ' rows';
END $$;
CREATE FUNCTION vector(id int) RETURNS real[] IMMUTABLE LANGUAGE sql RETURN (SELECT v FROM items WHERE items.id = vector.id);

-- conditions
SELECT compare('SELECT id FROM items WHERE v <-> ''{1,0,0,0,0,0,0,0,0,0,0,0}'' < 2.2 ORDER BY id');
SELECT compare('SELECT id FROM items WHERE 0.1::real >= v <-> vector(4) ORDER BY id');
SELECT compare('SELECT id FROM items WHERE v <=> (SELECT vector(4)) <= 0.001 ORDER BY id');
SELECT compare('SELECT id FROM items WHERE 1 - (v <=> vector(4)) > 0.99 ORDER BY id');
SELECT compare('SELECT id FROM items WHERE fasted_cosine_similarity(v, vector(4)) >= 0.99 ORDER BY id');
SELECT compare('SELECT id FROM items WHERE v <#> vector(4) < -4 ORDER BY id');
SELECT compare('SELECT id FROM items WHERE -(v <#> vector(4)) >= 4 ORDER BY id');
SELECT compare('SELECT id FROM items WHERE fasted_within(v, vector(4), 0.04) ORDER BY id');
SELECT compare('SELECT id FROM items WHERE fasted_within(v, vector(4)::float8[], 0.04) IS TRUE AND tenant = 4 AND kind = ''k1'' ORDER BY id');
SELECT compare('SELECT id FROM items WHERE fasted_within(vector(4), v, 0.001, ''cosine'') ORDER BY id');
SELECT compare('SELECT id FROM items WHERE fasted_within(w, vector(4), 0.001, ''cosine'') ORDER BY id');
SELECT compare('SELECT id FROM items WHERE w <-> vector(4) < 3 AND tenant = 3 ORDER BY id');
SELECT compare('SELECT id FROM items WHERE w <#> vector(4)::float8[] < -4 ORDER BY id');
SELECT compare('SELECT id FROM items WHERE (v || w::real[]) <-> (vector(4) || vector(4)) < 0.1 ORDER BY id');
SELECT compare('SELECT id FROM items WHERE v <-> vector(4) < 3 AND v <=> vector(5) < 1 AND tenant = 4 ORDER BY id');
-- the distance at the limit
SELECT compare(format('SELECT id FROM items WHERE v <-> vector(4) %s %s ORDER BY id', o, vector(4) <-> vector(i)), false)
FROM unnest('{<,<=}'::text[]) AS o, unnest('{4,500,504,505,7}'::int[]) AS i;
-- orders, also by distances that are null or not a number
SELECT compare('SELECT v <-> vector(4) AS d FROM items ORDER BY v <-> vector(4) LIMIT 5');
SELECT compare('SELECT v <-> vector(4)::float8[] AS d FROM items WHERE tenant = 4 AND kind = ''k1'' ORDER BY v <-> vector(4)::float8[] LIMIT 5');
SELECT compare('SELECT v <=> vector(4) AS d FROM items ORDER BY v <=> vector(4) LIMIT 5 OFFSET 1498');
SELECT compare('SELECT v <#> vector(4) AS d FROM items ORDER BY v <#> vector(4) OFFSET 1490');
SELECT compare('SELECT w <=> vector(4)::float8[] AS d FROM items WHERE w <=> vector(4)::float8[] < 0.5 ORDER BY w <=> vector(4)::float8[]');
SELECT compare('SELECT v <-> NULL AS d FROM items WHERE v <-> vector(1) < 3 ORDER BY v <-> NULL LIMIT 3', false);
-- bounds that are null, NaN, infinite, negative or too large
SELECT x, c, compare(format('SELECT id FROM items WHERE %s ORDER BY id', format(c, quote_nullable(x) || '::float8')), false)
FROM unnest('{NULL,NaN,Infinity,-Infinity,-1,1e308,5e-324,0}'::text[]) AS x,
	unnest('{v <-> vector(4) < %s,v <-> vector(4) <= %s,v <=> vector(4) < %s,v <=> vector(4) <= %s,1 - (v <=> vector(4)) > %s,1 - (v <=> vector(4)) >= %s,v <#> vector(4) < %s}'::text[]) AS c;
-- queries that are null or zero
SELECT compare('SELECT id FROM items WHERE v <-> NULL::real[] < 1', false) UNION ALL SELECT compare('SELECT id FROM items WHERE v <-> array_fill(0::real, ARRAY[12]) < 1 ORDER BY id', false)
UNION ALL SELECT compare('SELECT id FROM items WHERE v <=> array_fill(0::real, ARRAY[12]) < 1 ORDER BY id', false)
UNION ALL SELECT compare('SELECT id FROM items WHERE 1 - (v <=> array_fill(0::real, ARRAY[12])) > 0.5 ORDER BY id', false);
-- errors as those of a sequential scan
SET enable_seqscan = off;
SELECT count(*) FROM items WHERE v <-> '{1,2}' < 1;
SELECT count(*) FROM items WHERE v <-> array_fill('NaN'::real, ARRAY[12]) < 1;
SELECT count(*) FROM items WHERE v <-> '{}' < 1;
SELECT count(*) FROM items WHERE fasted_within(v, vector(4), -1);
SELECT id FROM items ORDER BY v <-> '{1,2}' LIMIT 1;
SELECT id FROM items ORDER BY v <-> '{1,NULL}' LIMIT 1;

-- columns that no index has
CREATE INDEX ON items USING fasted (tenant, v);
CREATE INDEX items_both ON items USING fasted (v, w);
-- an operator class of others
CREATE OPERATOR CLASS plain_ops FOR TYPE real[] USING fasted AS OPERATOR 1 <-> (real[], real[]) FOR ORDER BY float_ops;
CREATE INDEX ON items USING fasted (v plain_ops);
DROP OPERATOR FAMILY plain_ops USING fasted;
-- a concurrent build, before which there was no vector
CREATE SEQUENCE calls;
CREATE FUNCTION late(v real[]) RETURNS real[] IMMUTABLE LANGUAGE sql RETURN CASE WHEN nextval('calls') > 2 THEN v END;
CREATE TABLE few AS SELECT '{1,2,3}'::real[] AS v;
CREATE INDEX CONCURRENTLY few_late ON few USING fasted (late(v));
SELECT fasted_index_check('few_late');
SELECT fasted_index_check('few');
DROP TABLE few;
DROP FUNCTION late;
DROP SEQUENCE calls;

-- fasted_index_check calls no function that another schema of the caller's search_path has
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.join_arrays(real[], real[]) RETURNS real[] LANGUAGE plpgsql AS $$ BEGIN RAISE 'hostile operator'; END $$;
CREATE OPERATOR hostile.|| (LEFTARG = real[], RIGHTARG = real[], FUNCTION = hostile.join_arrays);
CREATE FUNCTION twice(v real[]) RETURNS real[] IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN v || v; END $$;
CREATE INDEX items_twice ON items USING fasted (twice(v));
SET search_path = hostile, pg_catalog, public;
SELECT fasted_index_check('items_twice');
RESET search_path;
DROP INDEX items_twice;
DROP FUNCTION twice;
SET client_min_messages = warning;
DROP SCHEMA hostile CASCADE;
RESET client_min_messages;

-- no index-only scan, also if no column is used
CREATE TEMP TABLE plain AS SELECT v FROM items;
CREATE INDEX ON plain USING fasted (v);
VACUUM plain;
SELECT count(*) FROM plain;
EXPLAIN (COSTS OFF) SELECT count(*) FROM items WHERE tenant = 3;

-- joins, as a nested loop with an index scan
SET enable_seqscan = on;
SELECT compare('SELECT a.id, b.id AS other FROM items a JOIN items b ON a.v <-> b.v < 0.04 AND a.tenant = b.tenant WHERE a.id < 20 ORDER BY 1, 2');
SELECT compare('SELECT a.id, b.id AS other FROM items a LEFT JOIN items b ON a.id < b.id AND b.v <=> a.v < 0.001 * a.tenant WHERE a.id < 20 ORDER BY 1, 2');
SELECT compare('SELECT a.id FROM items a WHERE a.id > 1480 AND NOT EXISTS (SELECT FROM items b WHERE fasted_within(a.v, b.v, 0.04) AND b.id < a.id) ORDER BY 1');
SELECT compare('SELECT a.id, d FROM items a, LATERAL (SELECT b.v <-> a.v AS d FROM items b WHERE b.tenant = a.tenant ORDER BY b.v <-> a.v LIMIT 2) AS s WHERE a.id > 1490 ORDER BY 1, 2');
-- generic plans
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
PREPARE near AS SELECT count(*) FROM items WHERE v <-> $1 <= $2;
EXPLAIN (COSTS OFF) EXECUTE near(vector(4), 0.1);
EXECUTE near(vector(4), 0.1);
EXECUTE near(vector(4), NULL);
EXECUTE near(NULL, 1);
EXECUTE near('{1,2}', 1);
RESET plan_cache_mode;
-- as a user without privileges on the schema of internal functions
SET client_min_messages = warning;
CREATE ROLE regress_fasted_reader;
GRANT SELECT ON items TO regress_fasted_reader;
RESET client_min_messages;
SET ROLE regress_fasted_reader;
SET enable_bitmapscan = off;
PREPARE near_doubles AS SELECT count(*) FROM items WHERE v <-> $1::float8[] <= 0.1;
EXECUTE near_doubles('{1,0,0,0,0,0,0,0,0,0,0,0}');
EXPLAIN (COSTS OFF) SELECT id FROM items WHERE v <-> array_fill(1::real, ARRAY[12]) < 0.1;
SELECT id FROM items WHERE v <-> (SELECT v FROM items WHERE id = 4) < 0.1 ORDER BY v <-> (SELECT v FROM items WHERE id = 4)::float8[], id;
RESET ROLE;
DROP OWNED BY regress_fasted_reader;
DROP ROLE regress_fasted_reader;
-- a domain over real[]
CREATE DOMAIN items_vector AS real[];
CREATE TEMP TABLE of_domain AS SELECT id, v::items_vector AS v FROM items;
CREATE INDEX items_domain ON of_domain USING fasted (v);
SELECT compare('SELECT id FROM of_domain WHERE v <-> vector(4)::float8[] < 0.1 ORDER BY id', false);
SELECT compare('SELECT v <-> vector(4)::float8[] AS d FROM of_domain ORDER BY v <-> vector(4)::float8[] LIMIT 5', false);
DROP TABLE of_domain;
DROP DOMAIN items_vector;
-- partitions; an estimate from statistics
CREATE TABLE parts (LIKE items) PARTITION BY HASH (id);
CREATE TABLE part_a PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE part_b PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE INDEX items_parts ON parts USING fasted (v);
INSERT INTO parts TABLE items;
ANALYZE parts;
SELECT count(*) = (SELECT count(*) FROM items WHERE v <-> vector(4) < 2) AS same FROM parts WHERE v <-> vector(4) < 2;
EXPLAIN (COSTS OFF) SELECT id FROM parts ORDER BY v <-> '{1,0,0,0,0,0,0,0,0,0,0,0}' LIMIT 3;
CREATE FUNCTION estimate(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan #>> '{0,Plan,Plan Rows}';
END $$;
SELECT estimate('SELECT FROM items WHERE v <-> ''{1,0,0,0,0,0,0,0,0,0,0,0}'' < 0.5') < 20 AS few, estimate('SELECT FROM items WHERE v <-> ''{1,0,0,0,0,0,0,0,0,0,0,0}'' < 100') > 1000 AS many;
DROP FUNCTION compare, vector, estimate;
DROP TABLE items, parts;
