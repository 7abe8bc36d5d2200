-- fasted_info: the state of each component, and advice.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

SELECT component, state ~ CASE component
		WHEN 'fasted' THEN '^library (\d+\.\d+\.\d+), SQL script \1$'
		WHEN 'PostgreSQL' THEN '^1[5-9]'
		WHEN 'preloading' THEN '^(none: |by (shared|session|local)_preload_libraries$)'
		WHEN 'engine' THEN '^(cpu|cuda|none).* \(fasted.engine = \w+\)$'
		WHEN 'CPU' THEN '^kernel \w+, threads \d+, available processors \d+$'
		ELSE '^(not installed|[\d.]+.*)$' END AS as_expected
FROM fasted_info() WHERE component NOT LIKE 'GPU%';
-- a state is shown for GPUs, whether there are any or not
SELECT count(*) > 0 AS gpus, count(*) FILTER (WHERE state = '') AS without_state FROM fasted_info() WHERE component LIKE 'GPU%';
-- advice is shown only if something has to be done
SELECT component, advice FROM fasted_info() WHERE component IN ('fasted', 'PostgreSQL', 'CPU', 'Citus') AND advice IS NOT NULL;
SELECT (state LIKE 'by %') = (advice IS NULL) AS advised,
	coalesce(advice ~ ' statement, .*ALTER DATABASE .* SET session_preload_libraries = .*''fasted''$', true) AS statement
FROM fasted_info() WHERE component = 'preloading';

-- settings with values that can't be met
SET fasted.threads = 3;
SET fasted.cpu_kernel = portable;
SET fasted.engine = cpu;
SELECT component, regexp_replace(state, 'processors \d+', 'processors N') AS state, advice
FROM fasted_info() WHERE component IN ('engine', 'CPU');
SELECT CASE WHEN version() LIKE '%x86_64%' THEN 'neon' ELSE 'avx2' END AS foreign_kernel \gset
SET fasted.cpu_kernel = :foreign_kernel;
SELECT component, regexp_replace(state, '\w+$', 'NAME') AS state, advice FROM fasted_info() WHERE component = 'CPU';
-- a session that has not loaded the CUDA engine
\c -
SET fasted.cuda_library = '/nowhere/at/all';
SET fasted.engine = auto;
SELECT component, state, advice FROM fasted_info() WHERE component = 'engine' OR component LIKE 'GPU%';
SET fasted.engine = cuda;
SET fasted.gpu_devices = '7';
SELECT component, state, advice FROM fasted_info() WHERE component = 'engine' OR component LIKE 'GPU%';
CREATE TEMP TABLE points AS SELECT i AS id, ARRAY[i]::real[] AS v FROM generate_series(1, 1000) AS i;
SELECT count(*) FROM fasted_self_join('points', 'v', 1, id_column => 'id');
\echo :SQLSTATE
RESET ALL;

-- readable by any user
CREATE ROLE regress_fasted_info;
SET ROLE regress_fasted_info;
SELECT count(*) >= 8 AS complete FROM fasted_info();
RESET ROLE;
DROP ROLE regress_fasted_info;
