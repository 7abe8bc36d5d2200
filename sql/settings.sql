-- Invalid arguments, and settings.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

CREATE TABLE t (id int PRIMARY KEY, v real[]);
INSERT INTO t SELECT i, ARRAY[i % 7, i % 5, i % 3]::real[] FROM generate_series(1, 500) AS i;

SELECT * FROM fasted_self_join('t', 'v', -1);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'v', '-Infinity');
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'v', 'NaN');
\echo :SQLSTATE
SELECT * FROM fasted_self_join(NULL::regclass, 'v', 1::float8);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', NULL, 1);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'v', 1, ordered => NULL);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'v', 1, self_pairs => NULL);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'v', -1, id_type => NULL::int);
\echo :SQLSTATE
-- within NULL there is no pair
SELECT * FROM fasted_self_join('t', 'v', NULL);
SELECT count(*) FROM fasted_self_join('t', 'v', NULL::float8, id_type => NULL::int, ordered => true, self_pairs => true) AS p WHERE dist < 9;

-- messages worded by PostgreSQL
\set VERBOSITY sqlstate
SET fasted.engine = 'gpu';
SET fasted.threads = -1;
SET fasted.memory_limit = '1kB';
SET fasted.cpu_kernel = 'sse2';
SET fasted.filter = 'fp8';
SET fasted.gpu_memory_limit = -1;
SET fasted.gpu_devices = 'first';
SET fasted.nonsense = 1;
\set VERBOSITY default

SELECT name, unit, context, vartype, min_val, max_val, enumvals, boot_val FROM pg_settings
WHERE name LIKE 'fasted.%' ORDER BY name;

-- developer options
SELECT name FROM pg_settings
WHERE name LIKE 'fasted.%' AND 'NOT_IN_SAMPLE' = ANY (pg_settings_get_flags(name)) ORDER BY name;

-- untyped literals and parameters resolve to the function
SELECT count(*) FROM fasted_self_join('t', 'v', '1');
SELECT count(*) FROM fasted_self_join('t', 'v', '1', id_column => 'id');
SELECT count(*) FROM fasted_self_join('t', 'v', 'Infinity', id_column => 'id');
SELECT count(*) FROM fasted_self_join('t', 'v', '1', id_column => 'id', ordered => 'true', self_pairs => 'true');
SELECT count(*) FROM fasted_self_join('t', 'v', '1', id_column => 'id');
SELECT count(*) FROM fasted_self_join('t', 'v', 1, id_column => 'id');
SELECT count(*) FROM fasted_self_join('t', 'v', 1, id_column => 'id'::text);
PREPARE three AS SELECT count(*) FROM fasted_self_join($1, $2, $3);
PREPARE four AS SELECT count(*) FROM fasted_self_join($1, $2, $3, id_column => $4);
PREPARE six AS SELECT count(*) FROM fasted_self_join($1, $2, $3, id_column => $4, ordered => $5, self_pairs => $6);
PREPARE typed AS SELECT pg_typeof(min(id_a)), count(*) FROM fasted_self_join($1, $2, $3, id_type => NULL::int, id_column => $4, ordered => $5, self_pairs => $6);
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY 1;
EXECUTE three('t', 'v', '1');
EXECUTE four('t', 'v', '1', 'id');
EXECUTE six('t', 'v', '1', 'id', 'true', 'true');
EXECUTE typed('t', 'v', '1', 'id', 'false', 'false');
DEALLOCATE ALL;

-- the result is the same with all settings
CREATE TABLE result AS SELECT * FROM fasted_self_join('t', 'v', 2);
SELECT count(*), sum((dist * dist)::int) FROM result;
CREATE FUNCTION differences() RETURNS bigint LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM (TABLE result EXCEPT ALL SELECT * FROM fasted_self_join('t', 'v', 2)) x)
		 + (SELECT count(*) FROM (SELECT * FROM fasted_self_join('t', 'v', 2) EXCEPT ALL TABLE result) x)
$$;
SET fasted.threads = 1;
SELECT differences();
SET fasted.threads = 7;
SELECT differences();
SET fasted.cpu_kernel = 'portable';
SELECT differences();
RESET fasted.cpu_kernel;
RESET fasted.threads;
SET fasted.engine = 'cpu';
SELECT differences();
SET fasted.filter = 'fp16';
SELECT differences();
SET fasted.filter = 'int8';
SELECT differences();
RESET fasted.filter;
RESET fasted.engine;
SET work_mem = '64kB';
SELECT differences();
RESET work_mem;

-- more rows than memory_limit allows: panels
CREATE TABLE big AS
	SELECT i AS id, ARRAY(SELECT ((i * k) % 13)::real FROM generate_series(1, 200) AS k) AS v FROM generate_series(1, 3000) AS i;
SELECT count(*), sum(id_a), sum(id_b), sum(dist) = 0 AS all_zero FROM fasted_self_join('big', 'v', 0, id_column => 'id');
SET fasted.memory_limit = '1MB';
SELECT count(*), sum(id_a), sum(id_b), sum(dist) = 0 AS all_zero FROM fasted_self_join('big', 'v', 0, id_column => 'id');
RESET fasted.memory_limit;

DROP TABLE t, result, big;
DROP FUNCTION differences;
