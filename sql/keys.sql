-- Ids: choice of the column, types, and order.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

CREATE TABLE t (id int PRIMARY KEY, big bigint, small smallint, u uuid, name text, c char(4), vc varchar(10), at timestamptz, num numeric, j json, v real[]);
INSERT INTO t
	SELECT i, 10000000000 - i, i, md5(i::text)::uuid, 'row ' || i, chr(64 + i), 'v' || i, '2026-01-01 00:00+00'::timestamptz - i * interval '1 day', i / 10.0, '{}',
		ARRAY[i / 2, 0]::real[]
	FROM generate_series(1, 6) AS i;

-- integer keys of any width
SELECT * FROM fasted_self_join('t', 'v', 0) ORDER BY 1;
SELECT * FROM fasted_self_join('t', 'v', 0, id_column => 'big') ORDER BY 1;
SELECT * FROM fasted_self_join('t', 'v', 0, id_column => 'small') ORDER BY 1;

-- any type with a sort order; id_a < id_b in that order
SELECT pg_typeof(id_a), * FROM fasted_self_join('t', 'v', 0, id_type => NULL::int) ORDER BY 2;
SELECT pg_typeof(id_a), * FROM fasted_self_join('t', 'v', 0, id_type => NULL::uuid, id_column => 'u') ORDER BY 2;
SELECT pg_typeof(id_a), * FROM fasted_self_join('t', 'v', 0, id_type => NULL::text, id_column => 'name') ORDER BY 2;
SELECT pg_typeof(id_a), * FROM fasted_self_join('t', 'v', 0, id_type => NULL::text, id_column => 'vc') ORDER BY 2;
SELECT pg_typeof(id_a), * FROM fasted_self_join('t', 'v', 0, id_type => NULL::varchar, id_column => 'vc') ORDER BY 2;
SELECT pg_typeof(id_a), * FROM fasted_self_join('t', 'v', 0, id_type => NULL::bpchar, id_column => 'c') ORDER BY 2;
SET timezone = 'UTC';
SELECT pg_typeof(id_a), * FROM fasted_self_join('t', 'v', 0, id_type => NULL::timestamptz, id_column => 'at') ORDER BY 2;
SELECT pg_typeof(id_a), * FROM fasted_self_join('t', 'v', 0, id_type => NULL::numeric, id_column => 'num') ORDER BY 2;
SELECT pg_typeof(id_a), * FROM fasted_self_join('t', 'v', 0, id_type => NULL::bigint) ORDER BY 2;

-- id_type is a correlated subquery, with a plan of its own
SELECT x, count(*) FROM generate_series(1, 3) AS x,
	fasted_self_join('t', 'v', x - 1, id_type => (SELECT max(t.id) FROM t WHERE t.id < x - 10)) GROUP BY x ORDER BY x;

-- stored in descending key order, and shuffled
CREATE TABLE shuffled AS SELECT (i * 37) % 101 AS id, ARRAY[i % 10]::real[] AS v FROM generate_series(1, 100) AS i;
SELECT count(*), bool_and(id_a < id_b), sum(id_a), sum(id_b) FROM fasted_self_join('shuffled', 'v', 0, id_column => 'id');
SELECT count(*), bool_and(id_a < id_b) FROM fasted_self_join('t', 'v', 100, id_type => NULL::text, id_column => 'name');
SELECT count(*), count(DISTINCT (id_a, id_b)), count(*) FILTER (WHERE id_a < id_b)
	FROM fasted_self_join('shuffled', 'v', 0, id_column => 'id', ordered => true);

-- the collation of the column
CREATE TABLE words (w text COLLATE "C" PRIMARY KEY, v real[]);
INSERT INTO words VALUES ('b', '{1}'), ('A', '{1}'), ('a', '{1}'), ('B', '{1}');
SELECT * FROM fasted_self_join('words', 'v', 0, id_type => NULL::text) ORDER BY id_a COLLATE "C", id_b COLLATE "C";

-- domains
CREATE DOMAIN item_id AS int CHECK (VALUE > 0);
CREATE TABLE d (id item_id PRIMARY KEY, v real[]);
INSERT INTO d VALUES (1, '{1}'), (2, '{1}');
SELECT * FROM fasted_self_join('d', 'v', 0);
SELECT pg_typeof(id_a), * FROM fasted_self_join('d', 'v', 0, id_type => NULL::item_id);

-- errors
SELECT * FROM fasted_self_join('t', 'v', 0, id_column => 'u');
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'v', 0, id_column => 'num');
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'v', 0, id_type => NULL::uuid);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'v', 0, id_type => NULL::json, id_column => 'j');
\echo :SQLSTATE
-- an untyped null is of type text
SELECT pg_typeof(id_a), * FROM fasted_self_join('t', 'v', 0, id_type => NULL, id_column => 'name') ORDER BY 2;
SELECT * FROM fasted_self_join('t', 'v', 0, id_type => NULL, id_column => 'u');
\echo :SQLSTATE
-- the parser takes the argument that is written as the fourth one for id_type
SELECT pg_typeof(id_a), * FROM fasted_self_join(eps => 0, relation => 't', vector_column => 'v', id_type => NULL::int) ORDER BY 2;
SELECT * FROM fasted_self_join('t', 'v', 0, id_column => 'u', id_type => NULL::uuid);
\echo :SQLSTATE
SELECT dist FROM fasted_self_join(id_type => NULL::uuid, relation => 't', vector_column => 'v', eps => 0, id_column => 'u') WHERE id_b > 1;
SELECT count(*) FROM fasted_self_join(id_type => NULL::uuid, relation => 't', vector_column => 'v', eps => 0, id_column => 'u');
-- only the type of id_type counts
SELECT * FROM fasted_self_join('t', 'v', 0, 5);
SELECT (fasted_self_join('t', 'v', 0, true)).*;
-- every function in FROM returns keys of any ordered type
SELECT * FROM fasted_neighbors('t', 'v', 0, id_type => NULL::text, id_column => 'name') ORDER BY id;
SELECT * FROM fasted_cluster('t', 'v', 0, 1, id_type => NULL::uuid, id_column => 'u') ORDER BY id LIMIT 3;
SELECT * FROM fasted_keep_one('t', 'v', 0, id_type => NULL::numeric, id_column => 'num') ORDER BY id;
-- by priority: keys by reference, and rows in the order of another column
SELECT id, kept FROM fasted_keep_one('t', 'v', 0, id_type => NULL::numeric, id_column => 'num', priority_column => 'num', descending => true) ORDER BY id;
SELECT id, pg_typeof(id), cluster FROM fasted_hdbscan('t', 'v', 2, NULL, id_type => NULL::timestamptz, id_column => 'at') ORDER BY id;
SELECT pg_typeof(id_a), id_a, id_b, dist > 0 AS apart FROM fasted_spanning_tree('t', 'v', 1, id_type => NULL::text, id_column => 'name') ORDER BY dist, 2, 3;
-- an id_type that is not null is an error, whatever the plan
PREPARE by_type(text) AS SELECT count(*) FROM fasted_spanning_tree('t', 'v', 1, id_type => $1, id_column => 'name');
SET plan_cache_mode = force_custom_plan;
EXECUTE by_type('x');
EXECUTE by_type(NULL);
SET plan_cache_mode = force_generic_plan;
EXECUTE by_type('x');
EXECUTE by_type(NULL);
RESET plan_cache_mode;
DEALLOCATE by_type;
SELECT id_a, id_b, rank FROM fasted_knn_join('t', 'v', 't', 'v', 1, id_type => NULL::text, a_id => 'name') ORDER BY 1;
SET fasted.engine = auto;
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM fasted_cluster('t', 'v', 0, 2, id_type => NULL::uuid, id_column => 'u');
RESET fasted.engine;
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'v', 0, id_column => 'nothing');
\echo :SQLSTATE
-- a metric in place of a column name, in each function
SELECT * FROM fasted_self_join('t', 'v', 0.05, id_column => 'cosine');
\echo :SQLSTATE
SELECT * FROM fasted_self_join('t', 'v', 0.05, id_type => NULL::text, id_column => 'l2');
SELECT * FROM fasted_neighbors('t', 'v', 0.05, id_column => 'cosine');
SELECT * FROM fasted_cluster('t', 'v', 0.05, 2, id_column => 'cosine');
SELECT * FROM fasted_keep_one('t', 'v', 0.05, 'cosine');
SELECT * FROM fasted_keep_one('t', 'v', 0.05, 'id', true, id_column => 'cosine');
SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 1, a_id => 'cosine');
SELECT * FROM fasted_knn_join('t', 'v', 't', 'v', 1, partition_by => 'cosine');
SELECT * FROM fasted_self_join('t', 'v', 0.05, id_column => 'Cosine');
-- a column name as written in a query, which differs from the stored name
CREATE TABLE "Quoted" ("Id" int PRIMARY KEY, "Embedding" real[], plain real[], "it's ""q""" real[], cosine int);
SELECT * FROM fasted_self_join('"Quoted"', '"Embedding"', 0);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('"Quoted"', 'Embedding', 0, id_column => '"Id"');
SELECT * FROM fasted_epsilon('"Quoted"', 'PLAIN', 1);
SELECT * FROM fasted_epsilon('"Quoted"', '"it''s ""q"""', 1);
SELECT * FROM fasted_knn_join('"Quoted"', 'Embedding', '"Quoted"', 'Embedding', 1, partition_by => '"plain"');
SELECT * FROM fasted_neighbors('"Quoted"', '"embedding"', 0);
SELECT * FROM fasted_neighbors('"Quoted"', '"Embedding', 0);
SELECT * FROM fasted_neighbors('"Quoted"', 'Embedding', 0, id_column => 'cosine');
DROP TABLE "Quoted";
SELECT * FROM fasted_self_join('t', 'v', 0, id_column => 'ctid');
\echo :SQLSTATE
SELECT * FROM fasted_self_join('shuffled', 'v', 0);
\echo :SQLSTATE
CREATE TABLE two (a int, b int, v real[], PRIMARY KEY (a, b));
SELECT * FROM fasted_self_join('two', 'v', 0);
\echo :SQLSTATE
INSERT INTO two VALUES (1, 1, '{1}'), (1, 2, '{2}'), (2, 3, '{2}');
SELECT * FROM fasted_self_join('two', 'v', 0, id_column => 'b');
\echo :SQLSTATE
SELECT * FROM fasted_self_join('two', 'v', 0, id_column => 'a');
\echo :SQLSTATE
INSERT INTO two VALUES (0, 4, NULL), (0, 5, NULL);
SELECT * FROM fasted_self_join('two', 'v', 0, id_column => 'b');
\echo :SQLSTATE
CREATE TABLE nullable (id int, v real[]);
INSERT INTO nullable VALUES (NULL, NULL), (1, '{1}');
SELECT * FROM fasted_self_join('nullable', 'v', 0, id_column => 'id', self_pairs => true);
\echo :SQLSTATE
INSERT INTO nullable VALUES (NULL, '{2}');
SELECT * FROM fasted_self_join('nullable', 'v', 0, id_column => 'id');
\echo :SQLSTATE
CREATE TABLE long (id text, v real[]);
INSERT INTO long VALUES (repeat('x', 1000), '{1}'), (repeat('x', 1000), '{1}');
SELECT * FROM fasted_self_join('long', 'v', 0, id_type => NULL::text, id_column => 'id');
\echo :SQLSTATE

DROP TABLE t, shuffled, words, d, two, nullable, long;
DROP DOMAIN item_id;
