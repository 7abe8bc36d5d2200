-- The extension beside fasted: without Citus, joins are the same whether it exists or not.
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS fasted, fasted_citus CASCADE;
RESET client_min_messages;
\set VERBOSITY terse
CREATE EXTENSION fasted_citus;
SET client_min_messages = warning;
CREATE EXTENSION fasted_citus CASCADE;
RESET client_min_messages;
CREATE TABLE joined AS SELECT i AS id, ARRAY[i % 20, i % 3]::real[] AS v FROM generate_series(1, 120) i;

-- a session whose first call is one of a worker
\c -
SELECT fasted_citus.kernel() LIKE '%, prune auto, filter auto, memory % kB' AS kernel;
SHOW fasted_citus.distribute;
SELECT count(*) FROM fasted_self_join('joined', 'v', 0, id_column => 'id');

-- the first join loads the library, which replaces invalid settings
\c -
SET fasted_citus.distribute = sometimes;
SET fasted_citus.distribution = off;
SELECT count(*) FROM fasted_self_join('joined', 'v', 0, id_column => 'id');
SHOW fasted_citus.distribute;
SET fasted_citus.distribute = sometimes;
SELECT enumvals, boot_val, context FROM pg_settings WHERE name LIKE 'fasted_citus.%';

-- fasted remains when it is dropped, in sessions that have loaded its library, too
DROP EXTENSION fasted_citus;
SELECT count(*) FROM fasted_self_join('joined', 'v', 0, id_column => 'id');
SELECT nspname FROM pg_namespace WHERE nspname = 'fasted_citus';
\c -
SELECT count(*) FROM fasted_self_join('joined', 'v', 0, id_column => 'id');
SHOW fasted_citus.distribute;
-- a schema of this name that belongs to a user
CREATE SCHEMA fasted_citus;
SELECT count(*) FROM fasted_self_join('joined', 'v', 0, id_column => 'id');
SHOW fasted_citus.distribute;
CREATE EXTENSION fasted_citus;
DROP SCHEMA fasted_citus;

-- a user who may create objects in the database, but is no superuser
CREATE ROLE regress_creator;
SELECT format('GRANT CREATE ON DATABASE %I TO regress_creator', current_database()) \gexec
GRANT SELECT ON joined TO regress_creator;
SET ROLE regress_creator;
CREATE EXTENSION fasted_citus;
SELECT count(*) FROM fasted_self_join('joined', 'v', 0, id_column => 'id');
SELECT substr(fasted_citus.join_slice('joined', 'v', 0, 'id', 'int', 'l2', false, 'count', 0, 1), 1, 1);
RESET ROLE;
-- a user without privileges on the table
CREATE ROLE regress_reader;
SET ROLE regress_reader;
SELECT fasted_citus.join_slice('joined', 'v', 0, 'id', 'int', 'l2', false, 'count', 0, 1);
SELECT fasted_citus.nearest_slice('joined', 'v', 'id', 'joined', 'v', 'id', 'int', 1, 2, 'l2', 0, 1);
SELECT fasted_citus.kernel() IS NOT NULL AS kernel;
RESET ROLE;
SELECT format('REVOKE CREATE ON DATABASE %I FROM regress_creator', current_database()) \gexec
DROP TABLE joined;
DROP EXTENSION fasted;
DROP EXTENSION fasted_citus, fasted;
DROP ROLE regress_creator, regress_reader;
