-- Each function, metric and element type returns the rows of a brute-force join, whatever the magnitude of the vectors.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
SELECT count(*) > 0 AS pgvector FROM pg_available_extensions WHERE name = 'vector' \gset
\if :pgvector
CREATE EXTENSION vector;
\endif
SET extra_float_digits = 1;
-- the planner must not choose a nested loop
SET enable_nestloop = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off;

-- NULL: each row has its own magnitude.
CREATE TABLE magnitudes AS
	SELECT type, u.m FROM (VALUES ('double precision[]', '{1e-320,1e-160,1e-100,1,1e76,1e150,1e300,NULL}'::float8[]),
		('real[]', '{1e-38,1,1e36,NULL}'), ('vector(3)', '{1e-38,1,1e36,NULL}'), ('halfvec(3)', '{1e-3,1,1e3,NULL}')) AS t (type, m), unnest(t.m) AS u (m)
	WHERE to_regtype(type) IS NOT NULL;
CREATE TABLE shapes (id int PRIMARY KEY, g int, shape float8[]);
INSERT INTO shapes VALUES (1, 0, '{3,4,1}'), (2, 1, '{3,4,1}'), (3, 0, '{3,4,1.1}'), (4, 1, '{6,8,2}'), (5, 0, '{-3,-4,-1}'),
	(6, 1, '{0,0,0}'), (7, 0, NULL), (8, 1, '{1,0,0}'), (9, 0, '{1,0.05,0}'), (10, 1, '{1,0.1,0}'), (11, 0, '{0,1,0}'),
	(12, 1, '{0,1,0.08}'), (13, 0, '{9,9,9}'), (14, 1, '{9,9,9.06}'), (15, 0, '{-0,0,0}'), (16, 1, '{0,0,-1}');

-- Table t is joined.  The expected result is computed from rows r and distances d, by the definitions in SQL, without workers.
CREATE TABLE t (id int, g int, v real[]);
CREATE TABLE r (id int, has_vector boolean) WITH (parallel_workers = 0);
CREATE TABLE d (a int, b int, same_g boolean, dist float8) WITH (parallel_workers = 0);
CREATE FUNCTION due_clusters(within float8, min_samples int) RETURNS TABLE (id bigint, cluster int, core boolean) LANGUAGE sql AS $$
	WITH RECURSIVE core AS MATERIALIZED (
		SELECT id FROM r WHERE has_vector AND (SELECT count(*) FROM d WHERE a = r.id AND dist <= within) + 1 >= min_samples
	), reached AS (
		SELECT id, id AS label FROM core
		UNION SELECT d.b, e.label FROM reached e JOIN d ON d.a = e.id AND d.dist <= within JOIN core c ON c.id = d.b
	), labels AS (
		SELECT id, min(label) AS label FROM reached GROUP BY id
	), members AS (
		SELECT r.id, l.label IS NOT NULL AS core, coalesce(l.label, (SELECT n.label FROM d JOIN labels n ON n.id = d.b
			WHERE d.a = r.id AND d.dist <= within ORDER BY d.dist, d.b LIMIT 1)) AS label
		FROM r LEFT JOIN labels l USING (id) WHERE has_vector
	), numbers AS (
		SELECT label, row_number() OVER (ORDER BY min(id)) - 1 AS number FROM members WHERE label IS NOT NULL GROUP BY label
	)
	SELECT m.id, n.number::int, m.core FROM members m LEFT JOIN numbers n USING (label)
$$;
CREATE FUNCTION due_kept(within float8) RETURNS TABLE (id bigint, kept bigint, dist float8) LANGUAGE sql AS $$
	WITH RECURSIVE steps AS (
		SELECT 0 AS id, '{}'::int[] AS before, false AS kept
		UNION ALL SELECT r.id, s.before || CASE WHEN s.kept THEN s.id END,
			has_vector AND NOT EXISTS (SELECT FROM d WHERE a = r.id AND b = ANY (s.before || CASE WHEN s.kept THEN s.id END) AND d.dist <= within)
		FROM steps s JOIN r ON r.id = s.id + 1
	)
	SELECT r.id, coalesce(k.b, r.id), coalesce(k.dist, 0)
	FROM r JOIN steps s USING (id) LEFT JOIN LATERAL (
		SELECT b, dist FROM d WHERE a = r.id AND b = ANY (s.before) AND d.dist <= within ORDER BY dist, b LIMIT 1) k ON NOT s.kept
	WHERE has_vector
$$;
-- The stored numbers: the text of a tiny number is exact only after multiplication by a power of two.
CREATE FUNCTION exact_number(x float8) RETURNS numeric LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN abs(x) < 1e-290 THEN (x * 2::float8 ^ 1000)::text::numeric / 2::numeric ^ 1000 ELSE x::text::numeric END
$$;
CREATE FUNCTION plain_distance(metric text, a float8[], b float8[]) RETURNS numeric LANGUAGE sql AS $$
	SELECT CASE WHEN metric = 'l2' THEN sqrt(sum((x - y) * (x - y)))
		WHEN sum(x * x) = 0 OR sum(y * y) = 0 THEN 'NaN'
		ELSE 1 - sum(x * y) / sqrt(sum(x * x) * sum(y * y)) END
	FROM (SELECT exact_number(x) AS x, exact_number(y) AS y FROM unnest(a, b) AS u (x, y)) AS n
$$;
-- If a square overflows in double precision, the distance is infinite; if it underflows, zero.
CREATE FUNCTION is_right(metric text, dist float8, plain numeric) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN plain = 'NaN' THEN dist = 'NaN' WHEN metric = 'cosine' THEN abs(dist::numeric - plain) < 1e-12
		WHEN plain > 1e155 THEN dist = 'Infinity' ELSE abs(dist::numeric - plain) <= 1e-12 * plain + 1e-161 END
$$;

-- Arguments of format: 1 eps, 2 the metric, 3 the function of two vectors, 4 its vector type.
CREATE TABLE calls (n serial, name text, found text, due text);
INSERT INTO calls (name, found, due) VALUES
	('fasted_self_join', 'SELECT id_a, id_b, float8send(dist) FROM fasted_self_join(''t'', ''v'', %1$L, metric => %2$L)',
		'SELECT a, b, float8send(dist) FROM d WHERE a < b AND dist <= %1$L'),
	('count', 'SELECT count(*) FROM fasted_self_join(''t'', ''v'', %1$L, metric => %2$L)', 'SELECT count(*) FROM d WHERE a < b AND dist <= %1$L'),
	('fasted_neighbors', 'SELECT * FROM fasted_neighbors(''t'', ''v'', %1$L, metric => %2$L)',
		'SELECT id, (SELECT count(*) FROM d WHERE a = id AND dist <= %1$L) FROM r WHERE has_vector'),
	('fasted_cluster', 'SELECT * FROM fasted_cluster(''t'', ''v'', %1$L, metric => %2$L)', 'SELECT * FROM due_clusters(%1$L, 1)'),
	('fasted_cluster, 2', 'SELECT * FROM fasted_cluster(''t'', ''v'', %1$L, 2, metric => %2$L)', 'SELECT * FROM due_clusters(%1$L, 2)'),
	('fasted_cluster, 3', 'SELECT * FROM fasted_cluster(''t'', ''v'', %1$L, 3, metric => %2$L)', 'SELECT * FROM due_clusters(%1$L, 3)'),
	('fasted_keep_one', 'SELECT id, kept, float8send(dist) FROM fasted_keep_one(''t'', ''v'', %1$L, metric => %2$L)',
		'SELECT id, kept, float8send(dist) FROM due_kept(%1$L)'),
	('fasted_keep_one, priority', 'SELECT id, kept, float8send(dist) FROM fasted_keep_one(''t'', ''v'', %1$L, ''id'', metric => %2$L)',
		'SELECT id, kept, float8send(dist) FROM due_kept(%1$L)'),
	('fasted_knn_join', 'SELECT id_a, id_b, rank, float8send(dist) FROM fasted_knn_join(''t'', ''v'', ''t'', ''v'', 3, metric => %2$L)',
		'SELECT a, b, rank::int, float8send(dist) FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY dist, b) AS rank FROM d WHERE dist <= ''Infinity'') AS n WHERE rank <= 3'),
	('fasted_knn_join, partition_by', 'SELECT id_a, id_b, rank, float8send(dist) FROM fasted_knn_join(''t'', ''v'', ''t'', ''v'', 2, metric => %2$L, max_distance => %1$L, partition_by => ''g'')',
		'SELECT a, b, rank::int, float8send(dist) FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY dist, b) AS rank FROM d WHERE same_g AND dist <= %1$L) AS n WHERE rank <= 2'),
	('fasted_epsilon', 'SELECT float8send(eps) FROM fasted_epsilon(''t'', ''v'', 1, metric => %2$L)',
		'SELECT float8send(dist) FROM d WHERE a < b AND dist <= ''Infinity'' ORDER BY dist OFFSET CASE %2$L WHEN ''l2'' THEN 7 ELSE 6 END LIMIT 1'),
	('join on fasted_within', 'SELECT a.id, b.id FROM t a JOIN t b ON a.id < b.id AND fasted_within(a.v::%4$s, b.v::%4$s, %1$L, %2$L)', 'SELECT a, b FROM d WHERE a < b AND dist <= %1$L'),
	('join on the distance', 'SELECT a.id, b.id FROM t a JOIN t b ON a.id < b.id AND %3$s(a.v::%4$s, b.v::%4$s) <= %1$L', 'SELECT a, b FROM d WHERE a < b AND dist <= %1$L'),
	('join of groups', 'SELECT a.id, b.id FROM t a JOIN t b ON a.g = b.g AND a.id < b.id AND fasted_within(a.v::%4$s, b.v::%4$s, %1$L, %2$L)',
		'SELECT a, b FROM d WHERE a < b AND same_g AND dist <= %1$L'),
	('NOT EXISTS', 'SELECT id FROM t a WHERE NOT EXISTS (SELECT FROM t b WHERE a.id <> b.id AND fasted_within(a.v::%4$s, b.v::%4$s, %1$L, %2$L))',
		'SELECT id FROM r WHERE id NOT IN (SELECT a FROM d WHERE dist <= %1$L)');

CREATE TABLE checks (type text, m float8, metric text, pairs bigint, call text, wrong bigint);
DO $$
DECLARE
	c record;
	call record;
	eps float8;
	wrong bigint;
BEGIN
	FOR c IN SELECT *, CASE metric WHEN 'l2' THEN 'fasted_distance' ELSE 'fasted_cosine_distance' END AS distance,
		CASE type WHEN 'double precision[]' THEN type ELSE 'real[]' END AS compared
		FROM magnitudes, unnest('{l2,cosine}'::text[]) AS metric
	LOOP
		eps := CASE c.metric WHEN 'l2' THEN 0.07 * coalesce(c.m, 1) ELSE 0.002 END;
		DROP TABLE t;
		EXECUTE format('CREATE TABLE t AS SELECT id, g, ARRAY(SELECT x * coalesce($1, (SELECT (array_agg(m))[1 + id %% count(m)]
			FROM magnitudes WHERE type = $2)) FROM unnest(shape) AS x)::%1$s AS v FROM shapes WHERE shape IS NOT NULL
			UNION ALL SELECT id, g, NULL FROM shapes WHERE shape IS NULL', c.type) USING c.m, c.type;
		ALTER TABLE t ADD PRIMARY KEY (id);
		TRUNCATE r, d;
		INSERT INTO r SELECT id, v IS NOT NULL FROM t;
		EXECUTE format('INSERT INTO d SELECT a.id, b.id, a.g = b.g, %1$s(a.v::%2$s, b.v::%2$s) FROM t a JOIN t b ON a.id <> b.id AND a.v IS NOT NULL AND b.v IS NOT NULL',
			c.distance, c.compared);
		ANALYZE t, r, d;
		EXECUTE format('SELECT count(*) FROM d JOIN t x ON x.id = a JOIN t y ON y.id = b WHERE a < b AND NOT is_right($1, dist, plain_distance($1, x.v::%1$s, y.v::%1$s))', c.compared)
			INTO wrong USING c.metric;
		INSERT INTO checks SELECT c.type, c.m, c.metric, count(*), c.distance, wrong FROM d WHERE dist <= eps;
		/* eps 0 is a hash join */
		FOR call IN SELECT calls.*, within FROM calls, unnest(ARRAY[eps, 0]) AS within LOOP
			EXECUTE format('WITH found AS MATERIALIZED (' || call.found || '), due AS MATERIALIZED (' || call.due || ')
				SELECT count(*) FROM ((TABLE found EXCEPT ALL TABLE due) UNION ALL (TABLE due EXCEPT ALL TABLE found)) AS x',
				call.within, c.metric, c.distance, c.compared) INTO wrong;
			INSERT INTO checks VALUES (c.type, c.m, c.metric, NULL, call.name, wrong);
		END LOOP;
	END LOOP;
END $$;
SELECT metric, call, sum(wrong) AS wrong, string_agg(concat_ws(' ', type, 'at', coalesce(m::text, 'all')), ', ') FILTER (WHERE wrong > 0) AS of
FROM checks GROUP BY metric, call ORDER BY metric DESC, call COLLATE "C";
SELECT metric, m, pairs FROM checks WHERE type = 'double precision[]' AND pairs IS NOT NULL ORDER BY 1, 2;
DROP TABLE magnitudes, shapes, t, r, d, calls, checks;
DROP FUNCTION due_clusters, due_kept, exact_number, plain_distance, is_right;
\if :pgvector
DROP EXTENSION vector;
\endif
