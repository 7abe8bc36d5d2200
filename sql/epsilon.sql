-- fasted_epsilon: the eps for a given mean number of neighbors.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

CREATE TABLE t (id int PRIMARY KEY, v real[]);
INSERT INTO t VALUES (1, '{0,0}'), (2, '{3,4}'), (3, '{3,5}'), (4, '{100,0}'), (5, NULL);

-- a small table: exact
SELECT * FROM fasted_epsilon('t', 'v', 0.5);
SELECT eps, rows FROM fasted_epsilon('t', 'v', 1);
SELECT eps = sqrt(97.0::float8 * 97.0 + 16.0) AS fourth_smallest FROM fasted_epsilon('t', 'v', 2);
SELECT * FROM fasted_self_join('t', 'v', (SELECT eps FROM fasted_epsilon('t', 'v', 1))) ORDER BY dist;
SELECT p.* FROM fasted_epsilon('t', 'v', 0.5) AS e, fasted_self_join('t', 'v', e.eps) AS p;
SELECT (fasted_epsilon('t', 'v', 0.5)).eps;

-- a join with this eps has at least the requested number of pairs, and with the next smaller eps fewer
CREATE TABLE points AS
	SELECT i AS id, ARRAY(SELECT (hashint4(i * 4 + k) & 65535)::real FROM generate_series(1, 4) AS k) AS v
	FROM generate_series(1, 3000) AS i;
ALTER TABLE points ADD PRIMARY KEY (id);
CREATE FUNCTION is_exact(relation regclass, s float8) RETURNS boolean LANGUAGE sql AS $$
	SELECT count(*) >= ceil(s * e.rows / 2) AND count(*) FILTER (WHERE p.dist < e.eps) < ceil(s * e.rows / 2)
		AND bool_and(e.sampled = e.rows)
	FROM fasted_epsilon(relation, 'v', s) AS e, fasted_self_join(relation, 'v', e.eps, id_column => 'id') AS p
	GROUP BY e.rows
$$;
SELECT s, is_exact('points', s) FROM unnest('{0.001, 1, 64, 777.7}'::float8[]) AS s;
CREATE VIEW few AS SELECT * FROM points WHERE id <= 50;
SELECT s, is_exact('few', s) FROM unnest('{0.001, 1, 49}'::float8[]) AS s;

-- exactly the requested number of pairs, however S = 2 k / n is rounded
SELECT count(*) AS wrong FROM generate_series(1, 1225, 3) AS k,
	LATERAL fasted_epsilon('few', 'v', k * 2.0::float8 / 50) AS e
WHERE k <> (SELECT count(*) FROM fasted_self_join('few', 'v', 'Infinity', id_column => 'id') AS p WHERE p.dist <= e.eps);

-- many equal distances: more pairs than memory can hold at distance 0, and at 1
CREATE TABLE twins AS SELECT i AS id, ARRAY[i % 2]::real[] AS v FROM generate_series(1, 3000) AS i;
SELECT s, eps FROM unnest('{1, 1499, 1500, 2999}'::float8[]) AS s, fasted_epsilon('twins', 'v', s);
SELECT s, e.* FROM unnest('{1, 2500}'::float8[]) AS s, fasted_epsilon('twins', 'v', s, 2500, seed => 1) AS e;

-- without pairs of duplicates
SELECT s, eps FROM unnest('{1, 1499, 1500}'::float8[]) AS s, fasted_epsilon('twins', 'v', s, ignore_copies => true);
SELECT s, e.* FROM unnest('{1, 1000}'::float8[]) AS s, fasted_epsilon('twins', 'v', s, 2500, seed => 1, ignore_copies => true) AS e;
SELECT * FROM fasted_epsilon('twins', 'v', 1501, ignore_copies => true);
SELECT * FROM fasted_epsilon('twins', 'v', 2500, 2500, seed => 1, ignore_copies => true);
CREATE VIEW some_twins AS SELECT * FROM twins WHERE id <= 20;
SELECT s, eps FROM unnest('{9, 10, 11}'::float8[]) AS s, fasted_epsilon('some_twins', 'v', s, ignore_copies => s > 9);
SELECT * FROM fasted_epsilon('some_twins', 'v', 1, ignore_copies => NULL);
\echo :SQLSTATE

-- one text in twelve occurs twice: duplicates alone give rows 0.16 neighbors on average
CREATE TABLE with_copies AS SELECT * FROM points UNION ALL SELECT id + 3000, v FROM points WHERE id % 12 = 0 ORDER BY 1;
SELECT eps FROM fasted_epsilon('with_copies', 'v', 0.1);
SELECT s, (SELECT count(*) >= ceil(s * e.rows / 2) AND count(*) FILTER (WHERE dist < e.eps) < ceil(s * e.rows / 2)
		FROM fasted_self_join('with_copies', 'v', e.eps, id_column => 'id') WHERE dist > 0) AS exact
FROM unnest('{0.1, 1, 64}'::float8[]) AS s, fasted_epsilon('with_copies', 'v', s, ignore_copies => true) AS e;
-- without duplicates the result is the same
SELECT count(*) FROM unnest('{0.1, 64}'::float8[]) AS s, fasted_epsilon('points', 'v', s) AS e,
	fasted_epsilon('points', 'v', s, ignore_copies => true) AS f WHERE e = f;
SELECT s, avg(e.eps / truth.eps) BETWEEN 0.9 AND 1.1 AS unbiased
FROM unnest('{5, 64}'::float8[]) AS s, fasted_epsilon('with_copies', 'v', s, ignore_copies => true) AS truth,
	generate_series(1, 20) AS seed, LATERAL fasted_epsilon('with_copies', 'v', s, 1000, seed, ignore_copies => true) AS e
GROUP BY s ORDER BY s;

-- a sample: near the exact eps
SELECT s, count(DISTINCT e.eps) > 15 AS by_chance,
	avg(e.eps / truth.eps) BETWEEN 0.98 AND 1.02 AS unbiased, min(e.rows) AS rows, max(e.sampled) AS sampled
FROM unnest('{5, 300}'::float8[]) AS s, fasted_epsilon('points', 'v', s) AS truth, generate_series(1, 20) AS seed,
	LATERAL fasted_epsilon('points', 'v', s, 1000, seed) AS e
GROUP BY s ORDER BY s;

-- seed: the same sample each time; without a seed, a different one
SELECT count(DISTINCT eps) FROM generate_series(1, 5) AS i, LATERAL fasted_epsilon('points', 'v', 64, 1000 + i * 0, seed => -7);
SELECT count(DISTINCT eps) > 1 FROM generate_series(1, 5) AS i, LATERAL fasted_epsilon('points', 'v', 64, 1000 + i * 0);

-- all pairs: the largest distance of the sample
SELECT bool_and(e.eps <= truth.eps) AS no_more, bool_and(e.eps > truth.eps / 2) AS near FROM fasted_epsilon('points', 'v', 2999) AS truth,
	generate_series(1, 10) AS seed, LATERAL fasted_epsilon('points', 'v', 2999, 200, seed) AS e;

-- cosine: rows that are zero are excluded, as in a join by cosine
SET max_parallel_workers_per_gather = 0;
CREATE TABLE angles AS SELECT id, CASE WHEN id % 3 = 0 THEN '{0,0,0,0}' ELSE
	ARRAY(SELECT x - 32767.5 FROM unnest(v) AS x) END::real[] AS v FROM points ORDER BY id;
CREATE FUNCTION is_exact_cosine(relation regclass, s float8, OUT exact boolean, OUT rows bigint) LANGUAGE sql AS $$
	SELECT count(*) >= ceil(s * e.rows / 2) AND count(*) FILTER (WHERE p.dist < e.eps) < ceil(s * e.rows / 2)
		AND bool_and(e.sampled = e.rows), e.rows
	FROM fasted_epsilon(relation, 'v', s, metric => 'cosine') AS e,
		fasted_self_join(relation, 'v', e.eps, id_column => 'id', metric => 'cosine') AS p
	GROUP BY e.rows
$$;
SELECT s, e.* FROM unnest('{0.001, 1, 64, 777.7}'::float8[]) AS s, is_exact_cosine('angles', s) AS e;
CREATE VIEW few_angles AS SELECT * FROM angles WHERE id <= 75;
SELECT s, e.* FROM unnest('{0.001, 1, 49}'::float8[]) AS s, is_exact_cosine('few_angles', s) AS e;
-- for vectors of length 1, the squared Euclidean distance is twice the cosine distance
CREATE TABLE directions AS SELECT id, (SELECT array_agg(x / sqrt(length) ORDER BY k)
		FROM unnest(v) WITH ORDINALITY AS e (x, k))::real[] AS v
	FROM angles, LATERAL (SELECT sum(x::float8 * x) AS length FROM unnest(v) AS x) AS l WHERE length > 0 ORDER BY id;
SELECT s, bool_and(abs(c.eps - l.eps ^ 2 / 2) < 1e-6) AS eps, count(DISTINCT c.eps) > 3 AS by_chance,
	min(c.rows) AS rows, max(c.sampled) AS sampled
FROM unnest('{5, 300}'::float8[]) AS s, generate_series(1, 5) AS seed,
	LATERAL fasted_epsilon('angles', 'v', s, 700, seed, metric => 'cosine') AS c,
	LATERAL fasted_epsilon('directions', 'v', s, 700, seed) AS l
GROUP BY s ORDER BY s;
RESET max_parallel_workers_per_gather;
-- more pairs than memory can hold at distance 0, and at 2
CREATE TABLE opposites AS SELECT i AS id, ARRAY[1 - i % 2 * 2]::real[] AS v FROM generate_series(1, 3000) AS i;
SELECT s, eps FROM unnest('{1, 1499, 1500, 2999}'::float8[]) AS s, fasted_epsilon('opposites', 'v', s, metric => 'cosine');
SELECT s, e.* FROM unnest('{1, 2500}'::float8[]) AS s, fasted_epsilon('opposites', 'v', s, 2500, seed => 1, metric => 'cosine') AS e;
SELECT eps FROM fasted_epsilon('opposites', 'v', 1, metric => 'cosine', ignore_copies => true);
SELECT * FROM fasted_epsilon('t', 'v', 2.1, metric => 'cosine');
SELECT rows FROM fasted_epsilon('t', 'v', 2, metric => 'cosine');
SELECT * FROM fasted_epsilon('t', 'v', 1, metric => 'dot');
\echo :SQLSTATE
SELECT * FROM fasted_epsilon('t', 'v', 1, metric => NULL);
\echo :SQLSTATE

-- arguments by name
SELECT eps FROM fasted_epsilon(relation => 't', vector_column => 'v', neighbors => 1);

-- a sample that is too small
SELECT eps > 0 AS positive, sampled FROM fasted_epsilon('points', 'v', 0.1, 1000, seed => 1);

-- any engine setting works
SET fasted.threads = 1;
SELECT is_exact('points', 64);
SET fasted.memory_limit = '1MB';
SELECT is_exact('points', 64);
RESET fasted.threads;
RESET fasted.memory_limit;

-- no key is needed; an error names the row by its primary key, if there is one
CREATE TABLE keyless (v double precision[]);
INSERT INTO keyless VALUES ('{1,1}'), ('{1,2}'), ('{1,4}');
SELECT eps FROM fasted_epsilon('keyless', 'v', 2);
CREATE TABLE named (name text PRIMARY KEY, v real[]);
INSERT INTO named VALUES ('a', '{1,1}'), ('b', '{1}');
SELECT eps FROM fasted_epsilon('named', 'v', 1);
\echo :SQLSTATE
INSERT INTO keyless VALUES ('{1}');
SELECT eps FROM fasted_epsilon('keyless', 'v', 1);
\echo :SQLSTATE
UPDATE keyless SET v = '{1,NaN}' WHERE v = '{1}';
SELECT eps FROM fasted_epsilon('keyless', 'v', 1);
\echo :SQLSTATE

-- NULL if no eps gives rows so many neighbors, and then no pairs
SELECT * FROM fasted_epsilon('t', 'v', 3.1);
CREATE TABLE lone (id int PRIMARY KEY, v real[]);
SELECT * FROM fasted_epsilon('lone', 'v', 0.1);
INSERT INTO lone VALUES (1, '{1}'), (2, NULL);
SELECT * FROM fasted_epsilon('lone', 'v', 0.1);
SELECT * FROM fasted_self_join('lone', 'v', (SELECT eps FROM fasted_epsilon('lone', 'v', 0.1)), self_pairs => true);

-- errors
SELECT * FROM fasted_epsilon('t', 'v', 0);
\echo :SQLSTATE
SELECT * FROM fasted_epsilon('t', 'v', 'NaN');
SELECT * FROM fasted_epsilon('t', 'v', 'Infinity');
SELECT * FROM fasted_epsilon('t', 'v', 1, sample_rows => 99);
\echo :SQLSTATE
SELECT * FROM fasted_epsilon('t', 'v', NULL);
\echo :SQLSTATE
SELECT * FROM fasted_epsilon('t', NULL, 1);
SELECT * FROM fasted_epsilon('t', 'none', 1);
\echo :SQLSTATE
SELECT * FROM fasted_epsilon('t', 'id', 1);
\echo :SQLSTATE
SET fasted.memory_limit = '1MB';
CREATE VIEW wide AS SELECT array_fill(i::real, ARRAY[1000]) AS v FROM generate_series(1, 1000) AS i;
SELECT * FROM fasted_epsilon('wide', 'v', 1, 500);
\echo :SQLSTATE
SELECT sampled FROM fasted_epsilon('wide', 'v', 100);
CREATE VIEW wider AS SELECT array_fill(i::real, ARRAY[4096]) AS v FROM generate_series(1, 200) AS i;
SELECT * FROM fasted_epsilon('wider', 'v', 10);
-- the limit at the start of the call applies, even if a function in the view changes it
SET fasted.memory_limit = '16MB';
CREATE VIEW shrinking AS SELECT array_fill(CASE WHEN i = 1000 AND
	set_config('fasted.memory_limit', '1MB', false) IS NULL THEN 0 ELSE i END::real, ARRAY[200]) AS v
	FROM generate_series(1, 3000) AS i;
SELECT rows, sampled FROM fasted_epsilon('shrinking', 'v', 10, 2500);
RESET fasted.memory_limit;

-- privileges of the caller, who need not be able to read the key
CREATE ROLE regress_fasted_epsilon;
SET ROLE regress_fasted_epsilon;
\set SHOW_CONTEXT never
SELECT eps FROM fasted_epsilon('t', 'v', 1);
\echo :SQLSTATE
RESET ROLE;
GRANT SELECT (v) ON t TO regress_fasted_epsilon;
SET ROLE regress_fasted_epsilon;
SELECT eps FROM fasted_epsilon('t', 'v', 1);
RESET ROLE;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY near ON t USING (v <> '{100,0}');
SET ROLE regress_fasted_epsilon;
SELECT eps, rows FROM fasted_epsilon('t', 'v', 1);
RESET ROLE;
REVOKE ALL ON t FROM regress_fasted_epsilon;
DROP ROLE regress_fasted_epsilon;

SELECT provolatile, proparallel, proisstrict, prosecdef FROM pg_proc WHERE proname = 'fasted_epsilon';

SET client_min_messages = warning;
DROP FUNCTION is_exact, is_exact_cosine;
DROP TABLE t, points, angles, directions, opposites, twins, with_copies, keyless, named, lone CASCADE;
DROP VIEW wide;
