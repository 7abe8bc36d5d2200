-- Vectors: their types, their values, and errors.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

CREATE DOMAIN embedding AS real[] CHECK (cardinality(VALUE) = 2);
CREATE TABLE t (id int PRIMARY KEY, f4 real[], f8 double precision[], i4 int[], i8 bigint[], n numeric[], dom embedding, lower_bound real[], txt text, one real, ta text[], b boolean[], iv int2vector);
INSERT INTO t VALUES
	(1, '{0.1,2}', '{0.1,2}', '{1,2}', '{1,2}', '{0.1,2}', '{0.1,2}', '[0:1]={0.1,2}', '{1,2}', 1, '{1,2}', '{t,f}', '1 2'),
	(2, '{0.1,4}', '{0.1,4}', '{1,4}', '{1,4}', '{0.1,4}', '{0.1,4}', '[5:6]={0.1,4}', '{1,4}', 1, '{1,4}', '{t,f}', '1 4');

SELECT * FROM fasted_self_join('t', 'f4', 2);
SELECT * FROM fasted_self_join('t', 'f8', 2);
SELECT * FROM fasted_self_join('t', 'i4', 2);
SELECT * FROM fasted_self_join('t', 'i8', 2);
SELECT * FROM fasted_self_join('t', 'n', 2);
SELECT * FROM fasted_self_join('t', 'dom', 2);
SELECT * FROM fasted_self_join('t', 'lower_bound', 2);

-- double precision is compared without rounding; a cast rounds it
CREATE TABLE rounded (id int PRIMARY KEY, v double precision[]);
INSERT INTO rounded VALUES (1, '{1,0}'), (2, '{1.00000001,1e-300}'), (3, '{1.0000001192092896,0}');
SELECT * FROM fasted_self_join('rounded', 'v', 1) ORDER BY 1, 2;
CREATE VIEW as_real AS SELECT id, ARRAY[v[1], 0]::real[] AS v FROM rounded;
SELECT * FROM fasted_self_join('as_real', 'v', 1, id_column => 'id') ORDER BY 1, 2;
DROP VIEW as_real;

-- minus zero equals zero, and denormal numbers are not flushed to zero
CREATE TABLE zeros (id int PRIMARY KEY, v real[]);
INSERT INTO zeros VALUES (1, '{0,0}'), (2, '{-0,0}'), (3, '{1e-45,0}');
SELECT * FROM fasted_self_join('zeros', 'v', 0);
SELECT * FROM fasted_self_join('zeros', 'v', 1e-40) ORDER BY 1, 2;

-- errors name the row
SELECT * FROM fasted_self_join('t', 'txt', 2);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'one', 2);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'ta', 2);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'b', 2);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'id', 2);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'iv', 2);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'none', 2);
\echo :SQLSTATE

CREATE TABLE bad (id int PRIMARY KEY, v real[], w double precision[]);
INSERT INTO bad VALUES (7, '{1,2,3}', '{1,2,3}');
INSERT INTO bad VALUES (8, '{1,NULL,3}', '{1,NULL,3}');
SELECT * FROM fasted_self_join('bad', 'v', 2);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('bad', 'w', 2);
\echo :SQLSTATE
UPDATE bad SET v = '{1,2,NaN}', w = '{1,2,NaN}' WHERE id = 8;
SELECT * FROM fasted_self_join('bad', 'v', 2);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('bad', 'w', 2);
\echo :SQLSTATE
UPDATE bad SET v = '{-Infinity,2,NaN}', w = '{1,2,Infinity}' WHERE id = 8;
SELECT * FROM fasted_self_join('bad', 'v', 2);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('bad', 'w', 2);
\echo :SQLSTATE
UPDATE bad SET v = '{1,2}', w = '{1,1e39,2}' WHERE id = 8;
SELECT * FROM fasted_self_join('bad', 'v', 2);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('bad', 'w', 2);
\echo :SQLSTATE
UPDATE bad SET v = '{}' WHERE id = 8;
SELECT * FROM fasted_self_join('bad', 'v', 2);
\echo :SQLSTATE
UPDATE bad SET v = '{{1,2,3}}' WHERE id = 8;
SELECT * FROM fasted_self_join('bad', 'v', 2);
\echo :SQLSTATE
UPDATE bad SET v = (SELECT array_agg(1) FROM generate_series(1, 65537));
SELECT * FROM fasted_self_join('bad', 'v', 2);
\echo :SQLSTATE

DROP TABLE t, rounded, zeros, bad;
DROP DOMAIN embedding;

-- casts of users: from types of fixed length, and from bytea, which is not taken for an array
BEGIN;
CREATE FUNCTION vector_of(int) RETURNS real[] LANGUAGE sql IMMUTABLE AS 'SELECT ARRAY[$1]::real[]';
CREATE FUNCTION vector_of(bytea) RETURNS real[] LANGUAGE sql IMMUTABLE AS 'SELECT ARRAY[length($1)]::real[]';
CREATE CAST (int AS real[]) WITH FUNCTION vector_of(int);
CREATE CAST (bytea AS real[]) WITH FUNCTION vector_of(bytea);
CREATE TABLE cast_by_users AS SELECT g AS id, decode(repeat('00', g), 'hex') AS b FROM generate_series(1, 4) g;
SELECT * FROM fasted_self_join('cast_by_users', 'id', 1, id_column => 'id') ORDER BY 1;
SELECT * FROM fasted_self_join('cast_by_users', 'b', 1, id_column => 'id') ORDER BY 1;
SELECT id, fasted_neighbor_count(id, 1) OVER (), fasted_neighbor_count(b, 1) OVER () FROM cast_by_users ORDER BY 1;
-- an operator of users; the argument of the operator's function is converted, too
CREATE OPERATOR <~~> (LEFTARG = "any", RIGHTARG = "any", FUNCTION = fasted_distance);
SELECT id, v <~~> v AS same, v <~~> id AS converted, v <~~> '[1]' AS literal
	FROM (SELECT id, ARRAY[2]::real[] AS v FROM cast_by_users OFFSET 0) s ORDER BY 1;
ROLLBACK;
