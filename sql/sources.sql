-- What is read: the relation, columns, casts and functions as resolved; no other user's code is run.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
DROP ROLE IF EXISTS regress_fasted_stranger;
CREATE ROLE regress_fasted_stranger;
CREATE SCHEMA shared_with_strangers;
GRANT CREATE, USAGE ON SCHEMA shared_with_strangers TO regress_fasted_stranger;
SELECT current_user AS me \gset
RESET client_min_messages;

-- keys are converted only without loss; if the type has no length, no key is truncated
CREATE TABLE fruit (id int PRIMARY KEY, c char(6), b bit(8), vb varbit, name text, n name, big bigint, num numeric, r real,
	at timestamp, day date, v real[]);
INSERT INTO fruit VALUES
	(1, 'apple', '00000001', '00000001', repeat('a', 70) || '1', 'a', 9007199254740993, 1.00000000000000000001, 1.5, '2026-03-29 02:30', '2026-01-01', '{1}'),
	(2, 'banana', '00000011', '00000011', repeat('a', 70) || '2', 'b', 9007199254740992, 1, 2.5, '2026-03-29 03:30', '2026-01-02', '{1}');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::char(6), id_column => 'c');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::bpchar, id_column => 'c');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::text, id_column => 'c');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::bpchar, id_column => 'name');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::bit, id_column => 'b');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::bit, id_column => 'vb');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::text, id_column => 'n');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::numeric, id_column => 'id');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::double precision, id_column => 'id');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::double precision, id_column => 'r');
SELECT id_a, id_b FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::timestamp, id_column => 'day');
-- conversions that round, truncate or depend on a time zone are errors
SELECT * FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::name, id_column => 'name');
SELECT * FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::real, id_column => 'big');
SELECT * FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::double precision, id_column => 'big');
SELECT * FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::real, id_column => 'id');
SELECT * FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::double precision, id_column => 'num');
SELECT * FROM fasted_self_join('fruit', 'v', 0, id_type => NULL::timestamptz, id_column => 'at');
\echo :SQLSTATE

-- ctid as the key
CREATE TABLE keyless AS SELECT v FROM fruit;
SELECT pg_typeof(id_a), * FROM fasted_self_join('keyless', 'v', 0, id_type => NULL::tid, id_column => 'ctid');
\set VERBOSITY terse
SELECT * FROM fasted_self_join('keyless', 'v', 0, id_type => NULL::oid, id_column => 'tableoid');
\set VERBOSITY default
CREATE VIEW keyless_view AS SELECT v FROM keyless;
SELECT * FROM fasted_self_join('keyless_view', 'v', 0, id_type => NULL::tid, id_column => 'ctid');
-- keys of several columns, in a view: as a row number or as a composite
CREATE TYPE place AS (shelf text, slot int);
CREATE TABLE stock (shelf text, slot int, v real[], PRIMARY KEY (shelf, slot));
INSERT INTO stock VALUES ('b', 1, '{1}'), ('a', 10, '{1}'), ('a', 9, '{2}');
CREATE VIEW numbered_stock AS SELECT row_number() OVER (ORDER BY shelf, slot) AS id, * FROM stock;
CREATE VIEW placed_stock AS SELECT ROW(shelf, slot)::place AS id, v FROM stock;
SELECT * FROM fasted_self_join('numbered_stock', 'v', 0, id_column => 'id');
SELECT * FROM fasted_self_join('placed_stock', 'v', 0, id_type => NULL::place, id_column => 'id');

-- numeric[] is rounded once, to real: rounded first to double precision, these values would be equal
CREATE TABLE precise (id int PRIMARY KEY, v numeric[]);
INSERT INTO precise VALUES (1, '{1.00000005960464477539062500001, 0}'), (2, '{1, 0}');
SELECT *, dist = 1.00000005960464477539062500001::numeric::real - 1::real AS as_cast FROM fasted_self_join('precise', 'v', 1);
SELECT * FROM fasted_self_join('precise', 'v', 0);
UPDATE precise SET v = '{1e39, 0}' WHERE id = 2;
SELECT * FROM fasted_self_join('precise', 'v', 0);
UPDATE precise SET v = '{0, NaN}' WHERE id = 2;
SELECT * FROM fasted_self_join('precise', 'v', 0);
UPDATE precise SET v = '{0, NULL}' WHERE id = 2;
SELECT * FROM fasted_self_join('precise', 'v', 0);
UPDATE precise SET v = '{1, 1e-60}' WHERE id = 2;
SELECT count(*) FROM fasted_self_join('precise', 'v', 1);

-- A cast belongs to the owner of its type, and reading a table must not run that owner's code.
SET ROLE regress_fasted_stranger;
SET search_path = shared_with_strangers, public;
CREATE TYPE trap AS (x real, y real);
CREATE FUNCTION spring(trap) RETURNS real[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RAISE WARNING 'this runs as %', current_user;
	RETURN ARRAY[$1.x, $1.y];
END $$;
CREATE CAST (trap AS real[]) WITH FUNCTION spring(trap);
CREATE FUNCTION spring_key(trap) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RAISE WARNING 'this runs as %', current_user;
	RETURN $1.x;
END $$;
CREATE CAST (trap AS bigint) WITH FUNCTION spring_key(trap) AS IMPLICIT;
CREATE TABLE baits (id int PRIMARY KEY, key trap, v trap, w real[]);
INSERT INTO baits VALUES (1, '(1,1)', '(1,1)', '{1}'), (2, '(2,2)', '(1,1)', '{1}');
GRANT SELECT ON baits TO PUBLIC;
-- the owner of the function may run it
SELECT * FROM fasted_self_join('baits', 'v', 0);
RESET ROLE;
-- other users may not
SELECT * FROM fasted_self_join('baits', 'v', 0);
\echo :SQLSTATE
SELECT * FROM fasted_epsilon('baits', 'v', 1);
SELECT fasted_dbscan(v, 0, 1) OVER () FROM baits;
SELECT * FROM fasted_self_join('baits', 'w', 0, id_column => 'key');
-- a function that is owned by a superuser now is trusted
SELECT 'ALTER FUNCTION spring(trap) OWNER TO ' || quote_ident(:'me') AS take \gset
SET client_min_messages = error;
:take;
SELECT * FROM fasted_self_join('baits', 'v', 0);
RESET client_min_messages;

-- Parallel workers that read a table call no function by name.
GRANT CREATE ON SCHEMA public TO regress_fasted_stranger;
SET ROLE regress_fasted_stranger;
CREATE FUNCTION public.fasted_internal_put(bigint, real[]) RETURNS boolean LANGUAGE plpgsql PARALLEL SAFE AS $$
BEGIN
	RAISE EXCEPTION 'a stranger sees % as %', $2, current_user;
END $$;
RESET ROLE;
CREATE TABLE secrets AS SELECT i AS id, ARRAY[i % 100]::real[] AS v FROM generate_series(1, 5000) AS i;
ALTER TABLE secrets SET (parallel_workers = 2);
ANALYZE secrets;
SET min_parallel_table_scan_size = 0;
SELECT count(*) FROM fasted_self_join('secrets', 'v', 0, id_column => 'id');
-- users see only functions that are meant for them
SELECT proname FROM pg_proc WHERE proname LIKE 'fasted%' AND pg_function_is_visible(oid) AND proowner <> 'regress_fasted_stranger'::regrole ORDER BY 1;
SELECT has_schema_privilege('public', 'fasted_internal', 'USAGE') AS usage;
-- other servers receive the call as the planner transforms it, so no function body names that schema
SELECT oid::regprocedure FROM pg_proc WHERE pg_get_function_sqlbody(oid) LIKE '%fasted_internal%';


-- A view over the join reads the table as its caller; a SECURITY DEFINER function reveals pairs only.
SET search_path = public;
CREATE VIEW near_secrets AS SELECT * FROM fasted_self_join('shared_with_strangers.secrets', 'v', 0, id_column => 'id');
CREATE FUNCTION secret_pairs() RETURNS TABLE (id_a bigint, id_b bigint, dist double precision)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, shared_with_strangers
BEGIN ATOMIC
	SELECT * FROM fasted_self_join('shared_with_strangers.secrets', 'v', 0, id_column => 'id');
END;
CREATE VIEW shown_secrets AS SELECT * FROM secret_pairs();
GRANT SELECT ON near_secrets, shown_secrets TO regress_fasted_stranger;
SET ROLE regress_fasted_stranger;
SELECT count(*) FROM near_secrets;
SELECT count(*) FROM shown_secrets;
RESET ROLE;

SET client_min_messages = error;
DROP FUNCTION secret_pairs CASCADE;
DROP TABLE fruit, keyless, stock, precise, shared_with_strangers.secrets CASCADE;
DROP TYPE place;
DROP OWNED BY regress_fasted_stranger CASCADE;
DROP SCHEMA shared_with_strangers CASCADE;
DROP ROLE regress_fasted_stranger;
