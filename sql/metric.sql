-- metric => 'cosine': bit-identical to a nested loop over fasted_cosine_distance.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET fasted.join_node = off;

-- Random vectors; duplicates; multiples by two and three; vectors with huge and tiny
-- elements; opposite ones; near ones; zero vectors, with both signs.
CREATE FUNCTION random_vector(i int, d int) RETURNS float8[] LANGUAGE sql IMMUTABLE AS $$
	SELECT array_agg(((hashint4(i * 100 + k) & 2047) - 1023)::float8 ORDER BY k) FROM generate_series(1, d) AS k
$$;
CREATE FUNCTION directions(n int, d int) RETURNS TABLE (id int, label text, v real[]) LANGUAGE sql STABLE AS $$
	SELECT (i * 7919) % 10007, 'item ' || i, (SELECT array_agg((x * CASE i % 10
		WHEN 2 THEN 2 WHEN 3 THEN 3 WHEN 4 THEN 1e35 WHEN 5 THEN 1e-43 WHEN 6 THEN -1
		WHEN 8 THEN 0 WHEN 9 THEN -0.0::float8 ELSE 1 END
		+ CASE WHEN i % 10 = 7 THEN (hashint4(-i - k::int) & 31) - 15 ELSE 0 END)::real ORDER BY k)
		FROM unnest(random_vector(i / 10, d)) WITH ORDINALITY AS e (x, k))
	FROM generate_series(0, n - 1) AS i
$$;
CREATE TABLE line (id int PRIMARY KEY, label text UNIQUE, v real[]);
CREATE TABLE small (LIKE line INCLUDING ALL);
CREATE TABLE large (LIKE line INCLUDING ALL);
INSERT INTO line SELECT * FROM directions(150, 1);
INSERT INTO small SELECT * FROM directions(300, 3);
INSERT INTO large SELECT * FROM directions(250, 67);
INSERT INTO small VALUES (-1, NULL, NULL);

CREATE TABLE due AS
	SELECT t, a.id AS id_a, b.id AS id_b, a.label AS label_a, b.label AS label_b, fasted_cosine_distance(a.v, b.v) AS dist
	FROM (SELECT 'line' AS t, * FROM line UNION ALL SELECT 'small', * FROM small UNION ALL SELECT 'large', * FROM large) AS a
		JOIN (SELECT 'line' AS t, * FROM line UNION ALL SELECT 'small', * FROM small UNION ALL SELECT 'large', * FROM large) AS b USING (t);
CREATE INDEX ON due (t, dist);
ANALYZE due;
SELECT t, count(*), count(*) FILTER (WHERE dist = 'NaN') AS without, count(*) FILTER (WHERE dist = 0) AS equal,
	count(*) FILTER (WHERE dist > 0 AND dist < 1e-6) AS nearly, count(*) FILTER (WHERE dist = 2) AS opposite,
	count(*) FILTER (WHERE id_a = id_b AND dist NOT IN (0, 'NaN')) AS far_from_itself
FROM due GROUP BY t ORDER BY t;

-- Rows of one query that the other one does not return, in both directions.
CREATE FUNCTION differences(found_by text, due_by text, OUT pairs bigint, OUT wrong bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('WITH f AS MATERIALIZED (%s), d AS MATERIALIZED (%s)
		SELECT (SELECT count(*) FROM f),
			(SELECT count(*) FROM ((TABLE f EXCEPT ALL TABLE d) UNION ALL (TABLE d EXCEPT ALL TABLE f)) AS x)',
		found_by, due_by) INTO pairs, wrong;
END $$;
CREATE FUNCTION check_join(t text, eps float8, ordered bool, self_pairs bool, OUT pairs bigint, OUT wrong bigint) LANGUAGE sql AS $$
	SELECT * FROM differences(
		format('SELECT id_a, id_b, float8send(dist) FROM fasted_self_join(%L, ''v'', %L, ''cosine'', %L, %L)',
			t, eps, ordered, self_pairs),
		format('SELECT id_a, id_b, float8send(dist) FROM due WHERE t = %L AND dist <= %L
			AND (id_a < id_b OR id_a > id_b AND %L OR id_a = id_b AND %L)', t, eps, ordered, self_pairs))
$$;
SELECT t, eps, pairs, wrong
FROM unnest('{line,small,large}'::text[]) WITH ORDINALITY AS a (t, n),
	unnest('{0,1e-15,1e-12,1e-6,0.001,0.05,0.5,1,1.9999,2,3,Infinity}'::float8[]) AS eps,
	check_join(t, eps, false, false) ORDER BY n, eps;
SELECT t, eps, ordered, self_pairs, pairs, wrong
FROM unnest('{line,small,large}'::text[]) WITH ORDINALITY AS a (t, n), unnest('{0,0.05,2}'::float8[]) AS eps,
	(VALUES (true, false), (false, true), (true, true)) AS o (ordered, self_pairs),
	check_join(t, eps, ordered, self_pairs) ORDER BY n, eps, ordered, self_pairs;

-- eps equal to a distance that occurs, and just below it
CREATE FUNCTION just_below(x float8) RETURNS float8 LANGUAGE sql AS $$ SELECT x - x * 2.3e-16 $$;
SELECT count(*) AS ties, sum(wrong) AS wrong, bool_and(lost > 0) AS below
FROM (SELECT DISTINCT ON (ntile) dist AS eps FROM (SELECT dist, ntile(10) OVER (ORDER BY dist) FROM due
		WHERE t = 'large' AND dist BETWEEN 1e-3 AND 1.99) AS x) AS e,
	LATERAL check_join('large', eps, false, false) AS at,
	LATERAL (SELECT at.pairs - pairs AS lost FROM check_join('large', just_below(eps), false, false)) AS b;

-- each kernel and setting
SET fasted.cpu_kernel = 'portable';
SELECT * FROM check_join('large', 0.7, true, true);
RESET fasted.cpu_kernel;
SET fasted.filter = 'int8';
SELECT * FROM check_join('large', 0.7, true, true);
RESET fasted.filter;
SET fasted.threads = 1;
SELECT * FROM check_join('large', 0.7, true, true);
RESET fasted.threads;
CREATE VIEW many AS SELECT i AS id, random_vector(i % 3000, 64)::real[] AS v FROM generate_series(1, 6000) AS i;
SET fasted.memory_limit = '1MB';
SELECT count(*), max(dist) FROM fasted_self_join('many', 'v', 0, id_column => 'id', metric => 'cosine');
RESET fasted.memory_limit;

-- keys of other types, views, columns of other types
SELECT * FROM differences(
	'SELECT id_a, id_b, float8send(dist) FROM fasted_self_join(''large'', ''v'', 0.8, id_type => NULL::text, id_column => ''label'', metric => ''cosine'')',
	'SELECT label_a, label_b, float8send(dist) FROM due WHERE t = ''large'' AND dist <= 0.8 AND label_a < label_b');
SELECT * FROM differences(
	'SELECT id_a, id_b, float8send(dist) FROM fasted_self_join(''small'', ''v'', 0.8, id_type => NULL::int, metric => ''cosine'', self_pairs => true)',
	'SELECT id_a, id_b, float8send(dist) FROM due WHERE t = ''small'' AND dist <= 0.8 AND id_a <= id_b');
CREATE VIEW casts AS SELECT id, v::float8[] AS doubles, v::numeric[] AS numerics FROM small WHERE id % 3 <> 0;
SELECT column_name, differences.* FROM unnest('{doubles,numerics}'::text[]) AS column_name, differences(
	format('SELECT id_a, id_b, float8send(dist) FROM fasted_self_join(''casts'', %L, 0.8, id_column => ''id'', ordered => false, self_pairs => true, metric => ''cosine'')', column_name),
	'SELECT id_a, id_b, float8send(dist) FROM due WHERE t = ''small'' AND dist <= 0.8 AND id_a <= id_b AND id_a % 3 <> 0 AND id_b % 3 <> 0');
-- numeric becomes zero when rounded to real; double precision has a direction, however small
CREATE TABLE vanishing (id int PRIMARY KEY, doubles float8[], numerics numeric[]);
INSERT INTO vanishing VALUES (1, '{1e-60,-1e-50}', '{1e-60,-1e-50}'), (2, '{1e-60,1}', '{1e-60,1}'), (3, '{0,2}', '{0,2}');
SELECT * FROM fasted_self_join('vanishing', 'doubles', 2, self_pairs => true, metric => 'cosine') ORDER BY 1, 2;
SELECT * FROM fasted_self_join('vanishing', 'numerics', 2, self_pairs => true, metric => 'cosine') ORDER BY 1, 2;
DROP TABLE vanishing;

-- counts, conditions, LIMIT, arguments from other tables, parameters
SELECT t, n, n = (SELECT count(*) FROM due WHERE due.t = a.t AND dist <= 0.8 AND id_a <= id_b) AS same
FROM unnest('{line,small,large}'::text[]) AS a (t),
	LATERAL (SELECT count(*) AS n FROM fasted_self_join(t::regclass, 'v', 0.8, self_pairs => true, metric => 'cosine')) AS c;
SELECT count(*) = (SELECT count(*) FROM due WHERE t = 'large' AND dist < 0.6 AND dist > 0.2 AND id_a < id_b) AS same
FROM fasted_self_join('large', 'v', 0.8, metric => 'cosine') WHERE dist < 0.6 AND dist > 0.2;
SELECT count(*), bool_and(dist <= 0.8) FROM (SELECT * FROM fasted_self_join('large', 'v', 0.8, metric => 'cosine') LIMIT 7) AS x;
SELECT metric, eps, n, n = CASE metric WHEN 'cosine' THEN (SELECT count(*) FROM due WHERE t = 'large' AND dist <= eps AND id_a < id_b)
	ELSE (SELECT count(*) FROM large a, large b WHERE fasted_distance(a.v, b.v) <= eps AND a.id < b.id) END AS same
FROM (VALUES ('cosine', 0.7), ('l2', 9000), ('cosine', 0.9)) AS p (metric, eps),
	LATERAL (SELECT count(*) AS n, sum(id_a) FROM fasted_self_join('large', 'v', eps, metric => metric)) AS c;
PREPARE near(float8, text) AS SELECT count(*), sum(id_a) FROM fasted_self_join('large', 'v', $1, metric => $2);
EXECUTE near(0.7, 'cosine');
SET plan_cache_mode = force_generic_plan;
EXECUTE near(0.7, 'cosine');
EXECUTE near(9000, 'l2');
RESET plan_cache_mode;
PREPARE untyped AS SELECT count(*) FROM fasted_self_join($1, $2, $3, id_column => $4, ordered => $5, self_pairs => $6, metric => $7);
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
EXECUTE untyped('large', 'v', '0.7', NULL, 'true', 'true', 'cosine');

-- the function itself returns the same
SET fasted.scan_node = off;
SELECT t, eps, pairs, wrong FROM unnest('{line,small,large}'::text[]) AS t, unnest('{0,0.05,0.5}'::float8[]) AS eps,
	check_join(t, eps, true, true) ORDER BY t, eps;
RESET fasted.scan_node;
SELECT count(*) FROM (SELECT fasted_self_join('large', 'v', 0.7, metric => 'cosine')) AS x;

-- zero vectors: among many rows, read by the session or by workers; and a table of zero vectors only
CREATE TABLE holes AS SELECT i AS id, CASE WHEN hashint4(i) % 3 = 0 OR i < 3000 THEN '{0,0}' ELSE ARRAY[i % 10 + 1, 1]::real[] END AS v
	FROM generate_series(1, 20000) AS i;
ALTER TABLE holes ADD PRIMARY KEY (id);
ALTER TABLE holes SET (parallel_workers = 2);
ANALYZE holes;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
SELECT workers, n, rows, n - rows = (SELECT sum(c * (c - 1) / 2) FROM (SELECT count(*) AS c FROM holes WHERE v <> '{0,0}' GROUP BY v) AS x) AS same
FROM (SELECT count(*) AS rows FROM holes WHERE v <> '{0,0}') AS r, unnest('{0,2}'::text[]) AS workers,
	set_config('max_parallel_workers_per_gather', workers, false) AS set,
	LATERAL (SELECT count(*) AS n FROM fasted_self_join('holes', 'v', length(set) * 1e-9, self_pairs => true, metric => 'cosine')) AS c;
SELECT count(*), sum(id_a), bool_and(id_a = id_b) FROM fasted_self_join('holes', 'v', 1e-9, self_pairs => true, metric => 'cosine') WHERE id_a = id_b;
CREATE VIEW holes_alone AS SELECT * FROM holes WHERE v = '{0,0}';
SELECT count(*) FROM fasted_self_join('holes_alone', 'v', 2, id_column => 'id', self_pairs => true, metric => 'cosine');
SELECT * FROM fasted_self_join('holes_alone', 'v', 2, id_column => 'id', self_pairs => true, metric => 'cosine');
-- a vector with another number of dimensions, in any place
INSERT INTO holes VALUES (0, '{0,0,0}');
\set VERBOSITY sqlstate
SELECT count(*) FROM fasted_self_join('holes', 'v', 1e-9, metric => 'cosine');
SET max_parallel_workers_per_gather = 0;
SELECT count(*) FROM fasted_self_join('holes', 'v', 1e-9, metric => 'cosine');
\set VERBOSITY default
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET parallel_leader_participation;
RESET max_parallel_workers_per_gather;

-- zero vectors are checked like others
CREATE TABLE odd (id int, v real[]);
INSERT INTO odd VALUES (1, '{1,1}'), (2, '{0,0,0}');
SELECT * FROM fasted_self_join('odd', 'v', 2, id_column => 'id', metric => 'cosine');
\echo :SQLSTATE
UPDATE odd SET v = '{0,0}', id = NULL WHERE id = 2;
SELECT * FROM fasted_self_join('odd', 'v', 2, id_column => 'id', metric => 'cosine');
\echo :SQLSTATE
UPDATE odd SET v = '{0,NaN}', id = 2 WHERE id IS NULL;
SELECT * FROM fasted_self_join('odd', 'v', 2, id_column => 'id', metric => 'cosine');
\echo :SQLSTATE

-- invalid arguments
SELECT * FROM fasted_self_join('small', 'v', 1, metric => 'Cosine');
\echo :SQLSTATE
SELECT * FROM fasted_self_join('small', 'v', 1, metric => NULL);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('small', 'v', 1, id_type => NULL::int, metric => 'euclid');
\echo :SQLSTATE
SELECT * FROM fasted_self_join('small', 'v', -1, metric => 'cosine');
\echo :SQLSTATE

DROP VIEW many, casts, holes_alone;
DROP TABLE line, small, large, due, holes, odd;
DROP FUNCTION check_join, differences, just_below, directions, random_vector;
