-- Relations that can be joined: each kind that SELECT can read.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

CREATE TABLE plain (id int PRIMARY KEY, v real[]);
INSERT INTO plain VALUES (1, '{1,1}'), (2, '{1,1}'), (3, '{2,2}');

CREATE TEMP TABLE temporary AS TABLE plain;
CREATE UNLOGGED TABLE unlogged AS TABLE plain;
CREATE VIEW view AS SELECT id, v FROM plain WHERE id <> 3;
CREATE MATERIALIZED VIEW matview AS TABLE plain;
SELECT * FROM fasted_self_join('plain', 'v', 0);
SELECT * FROM fasted_self_join('temporary', 'v', 0, id_column => 'id');
SELECT * FROM fasted_self_join('unlogged', 'v', 0, id_column => 'id');
SELECT * FROM fasted_self_join('view', 'v', 9, id_column => 'id');
SELECT * FROM fasted_self_join('matview', 'v', 0, id_column => 'id');

-- a view with a join, expressions and row numbers
CREATE VIEW computed AS
	SELECT row_number() OVER (ORDER BY p.id, q.id) AS n, ARRAY[p.id, q.id]::real[] AS v
	FROM plain p CROSS JOIN plain q;
SELECT count(*) FROM fasted_self_join('computed', 'v', 1, id_column => 'n');

-- partitions
CREATE TABLE parted (id int PRIMARY KEY, v real[]) PARTITION BY RANGE (id);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (10) TO (20);
INSERT INTO parted VALUES (15, '{1}'), (2, '{1}'), (11, '{1}'), (5, '{3}');
SELECT * FROM fasted_self_join('parted', 'v', 0) ORDER BY 1, 2;
SELECT * FROM fasted_self_join('parted_high', 'v', 0) ORDER BY 1, 2;

-- inheritance, as SELECT reads it; the parent's primary key does not apply to its children
CREATE TABLE child () INHERITS (plain);
INSERT INTO child VALUES (10, '{1,1}');
SELECT * FROM fasted_self_join('plain', 'v', 0) ORDER BY 1, 2;
INSERT INTO child VALUES (1, '{7,7}');
SELECT * FROM fasted_self_join('plain', 'v', 0) ORDER BY 1, 2;
DELETE FROM child WHERE v = '{7,7}';

-- names that need quotes, other schemas, reserved words
CREATE SCHEMA "Odd schema";
CREATE TABLE "Odd schema"."select ""x""" ("Id;" int PRIMARY KEY, "The vector" real[]);
INSERT INTO "Odd schema"."select ""x""" VALUES (1, '{1}'), (2, '{1}');
SELECT * FROM fasted_self_join('"Odd schema"."select ""x"""', 'The vector', 0);

-- generated and dropped columns
CREATE TABLE altered (gone int, id int PRIMARY KEY, x real, v real[] GENERATED ALWAYS AS (ARRAY[x, -x]) STORED);
ALTER TABLE altered DROP COLUMN gone;
INSERT INTO altered (id, x) VALUES (1, 1), (2, 1), (3, 3);
SELECT * FROM fasted_self_join('altered', 'v', 0);

-- long vectors, stored in TOAST tables and compressed
CREATE TABLE toasted (id int PRIMARY KEY, v real[]);
INSERT INTO toasted
	SELECT i, ARRAY(SELECT (sin(k * (1 + i % 3)) + i % 3)::real FROM generate_series(1, 3000) AS k) FROM generate_series(1, 6) AS i;
INSERT INTO toasted SELECT 10 + i, array_fill(i::real, ARRAY[3000]) FROM generate_series(1, 2) AS i;
SELECT id_a, id_b, round(dist::numeric, 3) AS dist FROM fasted_self_join('toasted', 'v', 80) ORDER BY 1, 2;

-- errors
SELECT * FROM fasted_self_join('no_such_table', 'v', 0);
\echo :SQLSTATE
SELECT * FROM fasted_self_join(1::oid::regclass, 'v', 0);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('plain_pkey', 'v', 0);
\echo :SQLSTATE
CREATE SEQUENCE seq;
SELECT * FROM fasted_self_join('seq', 'v', 0);
\echo :SQLSTATE
CREATE TYPE composite AS (id int, v real[]);
SELECT * FROM fasted_self_join('composite', 'v', 0);
\echo :SQLSTATE
CREATE VIEW locking AS SELECT id, v FROM plain FOR UPDATE;
SELECT * FROM fasted_self_join('locking', 'v', 0, id_column => 'id');
\echo :SQLSTATE
SELECT * FROM fasted_self_join('altered', 'gone', 0);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('altered', '........pg.dropped.1........', 0);
\echo :SQLSTATE

SET client_min_messages = warning;
DROP TABLE plain, temporary, unlogged, parted, "Odd schema"."select ""x""", altered, toasted CASCADE;
DROP SCHEMA "Odd schema";
DROP SEQUENCE seq;
DROP TYPE composite;
