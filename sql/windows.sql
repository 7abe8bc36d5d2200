-- Window functions: clusters, representatives and numbers of neighbors of any query.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

-- Partitions of 1, 3 (without vectors), 40, 91, 92, 200 and 17 rows, and many of 1 to 5 rows.
-- Coordinates are whole numbers, so there are duplicates, and many distances equal eps.
-- Each row of items has its partition, an id in another order than that of insertion, and a
-- priority, some of which are null or equal.
CREATE TABLE items (g int, id int PRIMARY KEY, v real[], p int);
INSERT INTO items
SELECT g, (n * 7919) % 10007, CASE WHEN g <> 2 AND n % 11 <> 0 THEN ARRAY[x, hashint4(n * 3) & spread, hashint4(n * 3 + 1) & 1] END,
	CASE WHEN n % 7 <> 0 THEN hashint4(n) & 15 END
FROM (SELECT g, row_number() OVER (ORDER BY g, i)::int AS n, size > 100 AS large
	FROM (VALUES (1, 1), (2, 3), (3, 40), (4, 91), (5, 92), (6, 200), (7, 17)) AS sizes (g, size), generate_series(1, size) AS i
	UNION ALL SELECT g, 1000 + row_number() OVER (ORDER BY g, i)::int, false FROM generate_series(8, 30) AS g, generate_series(1, 1 + g % 5) AS i) AS rows,
	LATERAL (SELECT CASE WHEN large THEN 31 ELSE 15 END AS spread) AS s, LATERAL (SELECT hashint4(n * 3 + 2) & spread AS x) AS x;
-- the same with zero vectors, and with lengths that do not matter for cosine distance
CREATE TABLE angles AS
SELECT g, id, CASE WHEN id % 9 = 0 AND v IS NOT NULL THEN '{0,0,0}'::real[] ELSE (SELECT array_agg((x - 7) * (1 + id % 3) ORDER BY i) FROM unnest(v) WITH ORDINALITY AS u (x, i)) END AS v, p
FROM items;
ALTER TABLE angles ADD PRIMARY KEY (id);
ANALYZE items, angles;
SELECT count(*), count(v), count(DISTINCT g), count(*) FILTER (WHERE id IN (SELECT id FROM angles WHERE 0 = ALL (v))) AS zeros FROM items;

-- all pairs within a partition, by the functions of two vectors
CREATE TABLE items_near AS
SELECT a.g, a.id AS a, b.id AS b, fasted_distance(a.v, b.v) AS dist FROM items a JOIN items b ON a.g = b.g AND a.id <> b.id WHERE a.v IS NOT NULL AND b.v IS NOT NULL;
CREATE TABLE angles_near AS
SELECT a.g, a.id AS a, b.id AS b, fasted_cosine_distance(a.v, b.v) AS dist FROM angles a JOIN angles b ON a.g = b.g AND a.id <> b.id WHERE a.v IS NOT NULL AND b.v IS NOT NULL;
CREATE INDEX ON items_near (a);
CREATE INDEX ON angles_near (a);
ANALYZE items_near, angles_near;

-- The expected results, by the definitions.  Rows are in the order of their ids, or of a priority.
CREATE FUNCTION right_clusters(points regclass, eps float8, min_samples int)
RETURNS TABLE (id int, cluster int) LANGUAGE plpgsql SET max_parallel_workers_per_gather = 0 AS $$
BEGIN
	RETURN QUERY EXECUTE format('
		WITH RECURSIVE near AS MATERIALIZED (SELECT * FROM %1$s_near WHERE dist <= $1),
		cores AS MATERIALIZED (
			SELECT p.id FROM %1$s p LEFT JOIN near ON near.a = p.id
			WHERE p.v IS NOT NULL GROUP BY p.id HAVING count(near.a) + 1 >= $2),
		links AS MATERIALIZED (SELECT a, b FROM near JOIN cores x ON x.id = a JOIN cores y ON y.id = b),
		reached (root, id) AS (
			SELECT id, id FROM cores
			UNION SELECT root, b FROM reached JOIN links ON a = reached.id AND root < b),
		labels AS MATERIALIZED (SELECT id, min(root) AS label FROM reached GROUP BY id),
		members AS (
			SELECT p.g, p.id, coalesce(l.label, (
				SELECT c.label FROM near JOIN labels c ON c.id = near.b WHERE near.a = p.id ORDER BY near.dist, near.b LIMIT 1)) AS label
			FROM %1$s p LEFT JOIN labels l USING (id)),
		firsts AS (SELECT g, label, min(id) AS first FROM members WHERE label IS NOT NULL GROUP BY g, label),
		numbers AS (SELECT label, (row_number() OVER (PARTITION BY g ORDER BY first) - 1)::int AS number FROM firsts)
		SELECT m.id, n.number FROM members m LEFT JOIN numbers n USING (label)', points) USING eps, min_samples;
END $$;
CREATE FUNCTION right_counts(points regclass, eps float8)
RETURNS TABLE (id int, neighbors bigint) LANGUAGE plpgsql SET max_parallel_workers_per_gather = 0 AS $$
BEGIN
	RETURN QUERY EXECUTE format('
		SELECT p.id, CASE WHEN p.v IS NOT NULL THEN count(near.a) END
		FROM %1$s p LEFT JOIN %1$s_near near ON near.a = p.id AND near.dist <= $1 GROUP BY p.id', points) USING eps;
END $$;
CREATE FUNCTION right_kept(points regclass, eps float8, ranks text)
RETURNS TABLE (id int, kept int) LANGUAGE plpgsql SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
	r record;
	stay int[] := '{}';			-- in the order of their ranks
	nearest int;
	find text := format('SELECT b FROM %s_near JOIN unnest($2) WITH ORDINALITY s (id, rank) ON s.id = b
		WHERE a = $1 AND dist <= $3 ORDER BY dist, rank LIMIT 1', points);
BEGIN
	FOR r IN EXECUTE format('SELECT id, g, v IS NULL AS none, g IS DISTINCT FROM lag(g) OVER (ORDER BY g, %2$s) AS first
		FROM %1$s ORDER BY g, %2$s', points, ranks) LOOP
		IF r.first THEN
			stay := '{}';
		END IF;
		IF r.none THEN
			RETURN QUERY SELECT r.id, r.id;
			CONTINUE;
		END IF;
		EXECUTE find INTO nearest USING r.id, stay, eps;
		IF nearest IS NULL THEN
			stay := stay || r.id;
		END IF;
		RETURN QUERY SELECT r.id, coalesce(nearest, r.id);
	END LOOP;
END $$;

-- Returns whether there are rows, and in how many rows two queries differ.
CREATE FUNCTION compare(one text, other text, OUT rows boolean, OUT differences bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('WITH x AS MATERIALIZED (%s), y AS MATERIALIZED (%s) SELECT (SELECT count(*) FROM x) > 0 AND (SELECT count(*) FROM y) > 0,
		(SELECT count(*) FROM (TABLE x EXCEPT ALL TABLE y) d) + (SELECT count(*) FROM (TABLE y EXCEPT ALL TABLE x) d)', one, other)
		INTO rows, differences;
END $$;
-- A query with window functions over one of the tables.
CREATE FUNCTION windows(points text, calls text, ranks text DEFAULT 'id', parts text DEFAULT 'PARTITION BY g') RETURNS text LANGUAGE sql AS $$
	SELECT format('SELECT id, %s FROM %s WINDOW w AS (%s ORDER BY %s)', calls, points, parts, ranks)
$$;

-- compared with the definitions
SELECT points, metric, eps, min_samples, c.* FROM (VALUES ('items', 'l2', 0::float8), ('items', 'l2', 1), ('items', 'l2', 1.5), ('items', 'l2', 2),
	('angles', 'cosine', 0), ('angles', 'cosine', 0.001), ('angles', 'cosine', 0.004)) AS t (points, metric, eps),
	unnest('{1,2,3,5}'::int[]) AS min_samples,
	compare(windows(points, format('fasted_dbscan(v, %s, %s, %L) OVER w', eps, min_samples, metric)),
		format('SELECT * FROM right_clusters(%L, %s, %s)', points, eps, min_samples)) AS c;
SELECT points, metric, eps, c.*, k.*, n.* FROM (VALUES ('items', 'l2', 0::float8), ('items', 'l2', 1), ('items', 'l2', 2.5), ('items', 'l2', 'Infinity'),
	('angles', 'cosine', 0), ('angles', 'cosine', 0.01), ('angles', 'cosine', 0.3), ('angles', 'cosine', 'Infinity')) AS t (points, metric, eps),
	compare(windows(points, format('fasted_dbscan(v, %L, metric => %L) OVER w', eps, metric)),
		windows(points, format('fasted_dbscan(v, %L, 1, %L) OVER w', eps, metric))) AS c (components, differ),
	compare(windows(points, format('fasted_keep(v, %L, id, %L) OVER w', eps, metric), 'p DESC NULLS LAST, id'),
		format('SELECT * FROM right_kept(%L, %L, ''p DESC NULLS LAST, id'')', points, eps)) AS k (kept, differ),
	compare(windows(points, format('fasted_neighbor_count(v, %L, %L) OVER w', eps, metric)),
		format('SELECT * FROM right_counts(%L, %L)', points, eps)) AS n (counts, differ);

-- Compared with the functions in FROM.  With partition_by, clusters are numbered over all partitions.
SELECT points, metric, eps, n.*, c.*, k.*, d.* FROM (VALUES ('items', 'l2', 1::float8), ('items', 'l2', 4), ('angles', 'cosine', 0.01), ('angles', 'cosine', 0.5)) AS t (points, metric, eps),
	compare(windows(points || ' WHERE v IS NOT NULL', format('fasted_neighbor_count(v, %s, %L) OVER w', eps, metric)),
		format('SELECT id, neighbors FROM fasted_neighbors(%L, ''v'', %s, metric => %L, partition_by => ''g'')', points, eps, metric)) AS n (counts, differ),
	compare('SELECT id, dense_rank() OVER (ORDER BY first) - 1 AS cluster FROM (SELECT id, min(id) OVER (PARTITION BY g, c) AS first, c FROM ('
		|| windows(points, format('fasted_dbscan(v, %s, 3, %L) OVER w AS c, g', eps, metric)) || ') AS s) AS s WHERE c IS NOT NULL',
		format('SELECT id, cluster FROM fasted_cluster(%L, ''v'', %s, 3, metric => %L, partition_by => ''g'') WHERE cluster IS NOT NULL', points, eps, metric)) AS c (clusters, differ),
	compare(windows(points || ' WHERE v IS NOT NULL', format('fasted_keep(v, %s, id, %L) OVER w', eps, metric), 'p, id'),
		format('SELECT id, kept FROM fasted_keep_one(%L, ''v'', %s, ''p'', metric => %L, partition_by => ''g'')', points, eps, metric)) AS k (kept, differ),
	compare(windows(points || ' WHERE v IS NOT NULL', format('fasted_keep(v, %s, id, %L) OVER w', eps, metric), 'p DESC NULLS LAST, id'),
		format('SELECT id, kept FROM fasted_keep_one(%L, ''v'', %s, ''p'', true, metric => %L, partition_by => ''g'')', points, eps, metric)) AS d (descending, differ);
-- one partition
SELECT n.*, c.*, k.* FROM
	compare(windows('items WHERE v IS NOT NULL', 'fasted_neighbor_count(v, 1) OVER w', parts => ''), 'SELECT id, neighbors FROM fasted_neighbors(''items'', ''v'', 1)') AS n (counts, differ),
	compare(windows('items WHERE v IS NOT NULL', 'fasted_dbscan(v, 1, 4) OVER w', parts => ''), 'SELECT id, cluster FROM fasted_cluster(''items'', ''v'', 1, 4)') AS c (clusters, differ),
	compare(windows('items WHERE v IS NOT NULL', 'fasted_keep(v, 3, id) OVER w', parts => ''), 'SELECT id, kept FROM fasted_keep_one(''items'', ''v'', 3)') AS k (kept, differ);
-- without ORDER BY: clusters are the same except for their numbers
SELECT count(*) > 0 AS rows, count(DISTINCT a) = count(DISTINCT (a, b)) AND count(DISTINCT b) = count(DISTINCT (a, b)) AS same
FROM (SELECT fasted_dbscan(v, 1) OVER (PARTITION BY g) AS a, fasted_dbscan(v, 1) OVER (PARTITION BY g ORDER BY id) AS b FROM items WHERE g = 6 AND v IS NOT NULL) AS s;
-- 91 rows need no engine, more rows do: the same clusters
SELECT count(*) > 0 AS rows, count(*) FILTER (WHERE a <> b - 1) AS differences
FROM (SELECT id, fasted_dbscan(v, 2, 1) OVER (ORDER BY id) AS a FROM items WHERE g = 4 AND v IS NOT NULL) AS a
JOIN (SELECT id, fasted_dbscan(v, 2, 1) OVER (ORDER BY id) AS b FROM (SELECT id, v FROM items WHERE g = 4 UNION ALL SELECT -i, '{1000,1000,1000}' FROM generate_series(1, 20) AS i) AS s) AS b USING (id);

-- types of vectors; double precision is compared without rounding
CREATE DOMAIN embedding AS real[] CHECK (cardinality(VALUE) = 3);
CREATE DOMAIN amounts AS numeric[];
CREATE DOMAIN integers AS int[];
SELECT type, c.* FROM unnest('{double precision[],integer[],bigint[],smallint[],numeric[],embedding,amounts,integers}'::text[]) WITH ORDINALITY AS t (type, n),
	compare(windows('items', format('fasted_dbscan(v::%1$s, 1.5, 2) OVER w, fasted_keep(v::%1$s, 2, id) OVER w, fasted_neighbor_count(v::%1$s, 2) OVER w, fasted_dbscan(v::%1$s, 0.05, metric => ''cosine'') OVER w', type)),
		windows('items', 'fasted_dbscan(v, 1.5, 2) OVER w, fasted_keep(v, 2, id) OVER w, fasted_neighbor_count(v, 2) OVER w, fasted_dbscan(v, 0.05, metric => ''cosine'') OVER w')) AS c ORDER BY n;
SELECT n, count(*), sum(d) AS double, sum(r) AS real FROM (
	SELECT n, fasted_neighbor_count(v, 1.5e-12) OVER (PARTITION BY n) AS d, fasted_neighbor_count(v::real[], 1.5e-12) OVER (PARTITION BY n) AS r
	FROM unnest('{10,200}'::int[]) AS n, LATERAL (SELECT ARRAY[1 + i * 1e-12, 2]::float8[] AS v FROM generate_series(1, n) AS i) AS v) AS s GROUP BY n ORDER BY n;

-- a user-defined type with a cast to real[], whose result is an invalid vector for some values
CREATE TYPE place AS (x real, y real);
CREATE FUNCTION place_to_reals(place) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN $1.x < 90 THEN ARRAY[$1.x, $1.y] END $$;
CREATE CAST (place AS real[]) WITH FUNCTION place_to_reals(place);
SELECT x, fasted_dbscan(ROW(x, 0)::place, 1) OVER w AS components, fasted_keep(ROW(x, 0)::place, 1, x) OVER w AS kept FROM unnest('{1,2,95,7,NULL,8,99}'::real[]) WITH ORDINALITY AS t (x, i) WINDOW w AS (ORDER BY i) ORDER BY i;
SELECT count(*), count(c), max(c) FROM (SELECT fasted_dbscan(ROW(i, 0)::place, 0.5) OVER (ORDER BY i) AS c FROM generate_series(-99, 100) AS i) AS s;
DROP CAST (place AS real[]);
DROP FUNCTION place_to_reals;
DROP TYPE place;

-- extreme magnitudes, with distances equal to eps
CREATE TABLE far AS SELECT i AS id, i % 2 AS g, CASE WHEN i % 4 < 2 THEN ARRAY[1e37 * (i / 4 % 7), -1e37] ELSE ARRAY[1e-40 * (i / 4 % 7), 3e-45] END::real[] AS v FROM generate_series(1, 240) AS i;
INSERT INTO far SELECT id + 1000, 2 + id % 20, v FROM far;
SELECT eps, c.*, sum > 0 AS counted FROM unnest('{0,1e-45,1e-40,2e-40,1,1e37,1.5e37,9e37,Infinity}'::float8[]) AS eps,
	compare(format('SELECT id, fasted_neighbor_count(v, %L) OVER (PARTITION BY g) FROM far', eps), format('SELECT a.id, count(b.id) FROM far a LEFT JOIN far b ON a.g = b.g AND a.id <> b.id AND fasted_distance(a.v, b.v) + 0 <= %L GROUP BY a.id', eps)) AS c,
	LATERAL (SELECT sum(n) FROM (SELECT fasted_neighbor_count(v, eps) OVER (PARTITION BY g) AS n FROM far) AS s) AS n;
SELECT (SELECT dist FROM fasted_self_join('far', 'v', 1e38, id_column => 'id') WHERE dist > 1e37 ORDER BY dist LIMIT 1) AS eps \gset
SELECT c.* FROM compare(format('SELECT id, fasted_dbscan(v, %L) OVER (ORDER BY id) FROM far', :'eps'), format('SELECT id, cluster FROM fasted_cluster(''far'', ''v'', %L, 1, id_column => ''id'')', :'eps')) AS c;

-- long vectors: an engine is used for fewer rows
SELECT n, count(DISTINCT c) AS clusters, sum(k) AS neighbors FROM (
	SELECT n, fasted_dbscan(v, 10) OVER w AS c, fasted_neighbor_count(v, 10) OVER w AS k
	FROM unnest('{20,80}'::int[]) AS n, LATERAL (SELECT i, array_fill((i / 4)::real, ARRAY[4000]) AS v FROM generate_series(1, n) AS i) AS v WINDOW w AS (PARTITION BY n ORDER BY i)) AS s GROUP BY n ORDER BY n;

-- ids of any type, also null
CREATE TYPE name_and_number AS (name text, number int);
CREATE DOMAIN label AS text;
CREATE TABLE ids AS SELECT id, g, v, p, md5(id::text)::uuid AS u, repeat(md5(id::text), 1 + id % 300) AS long, id / 7.0 AS n, ROW('row ' || id, id)::name_and_number AS c,
	('label ' || id)::label AS l, CASE WHEN id % 3 = 0 THEN id END AS null_id, ARRAY[id, -id] AS a, id::text COLLATE "C" AS t FROM items;
ALTER TABLE ids ALTER long SET STORAGE EXTERNAL;
UPDATE ids SET long = long || '.';
ALTER TABLE ids ADD PRIMARY KEY (id);
SELECT column_name, c.* FROM unnest('{u,long,n,c,l,null_id,a,t}'::text[]) WITH ORDINALITY AS t (column_name, i),
	compare(format('SELECT id, fasted_keep(v, 2, %I) OVER (PARTITION BY g ORDER BY p, id) FROM ids', column_name),
		format('SELECT s.id, k.%I FROM (SELECT id, fasted_keep(v, 2, id) OVER (PARTITION BY g ORDER BY p, id) AS kept FROM ids) AS s LEFT JOIN ids k ON k.id = s.kept', column_name)) AS c ORDER BY i;
SELECT pg_typeof(fasted_keep(v, 2, u) OVER w) AS u, pg_typeof(fasted_keep(v, 2, c) OVER w) AS c, pg_typeof(fasted_keep(v, 2, l) OVER w) AS l, pg_typeof(fasted_keep(v, 2, NULL::int) OVER w) AS null,
	pg_typeof(fasted_dbscan(v, 2, 1) OVER w) AS dbscan, pg_typeof(fasted_dbscan(v, 2) OVER w) AS components, pg_typeof(fasted_neighbor_count(v, 2) OVER w) AS neighbors
FROM ids WHERE g = 1 WINDOW w AS ();
-- a query returns only a long id: memory for one partition is released with it
SELECT count(*) > 0 AS rows, count(*) FILTER (WHERE k IS DISTINCT FROM (SELECT long FROM ids WHERE id = j)) AS differences
FROM (SELECT id, fasted_keep(v, 2, long) OVER (PARTITION BY g ORDER BY id) AS k FROM ids) AS k JOIN (SELECT id, fasted_keep(v, 2, id) OVER (PARTITION BY g ORDER BY id) AS j FROM ids) AS j USING (id);

-- the first row of each partition determines its eps, min_samples and metric
SELECT c.* FROM compare('SELECT id, fasted_dbscan(v, g % 3, 1 + g % 4, CASE WHEN g % 2 = 0 THEN ''l2'' ELSE ''cosine'' END) OVER (PARTITION BY g ORDER BY id) FROM items',
	'SELECT s.* FROM (SELECT DISTINCT g FROM items) AS p, LATERAL (SELECT id, fasted_dbscan(v, p.g % 3, 1 + p.g % 4, CASE WHEN p.g % 2 = 0 THEN ''l2'' ELSE ''cosine'' END) OVER (ORDER BY id) FROM items WHERE g = p.g) AS s') AS c;
SELECT id, fasted_dbscan(ARRAY[id]::real[], eps) OVER (ORDER BY id) AS components, fasted_keep(ARRAY[id]::real[], eps, id) OVER (ORDER BY id DESC) AS kept
FROM (VALUES (1, 1), (2, NULL), (4, -1), (5, 3)) AS s (id, eps) ORDER BY id;

-- rows of a query: on a line 0 1 2 3, an isolated 10, and a row without a vector
CREATE VIEW letters AS SELECT id, v, row_number() OVER (ORDER BY id) AS n FROM (VALUES ('a', '{0}'::real[]), ('b', '{1}'), ('c', '{2}'), ('d', NULL), ('e', '{10}'), ('f', '{3}')) AS s (id, v);
SELECT id, fasted_dbscan(v, 1, 3) OVER w AS dbscan, fasted_dbscan(v, 1) OVER w AS components, fasted_keep(v, 1, id) OVER w AS kept, fasted_neighbor_count(v, 1) OVER w AS neighbors
FROM letters WINDOW w AS (ORDER BY id) ORDER BY id;
SELECT id, fasted_dbscan(v, 1, 3) OVER w AS dbscan, fasted_dbscan(v, 1) OVER w AS components, fasted_keep(v, 1, id) OVER w AS kept, fasted_neighbor_count(v, 1) OVER w AS neighbors
FROM letters WINDOW w AS (ORDER BY id DESC) ORDER BY id;
SELECT id, fasted_dbscan(vector => v, min_samples => 2, eps => 1, metric => 'cosine') OVER (ORDER BY id) AS dbscan, fasted_neighbor_count(v, metric => 'cosine', eps => 0) OVER (ORDER BY id) AS neighbors FROM letters ORDER BY id;
SELECT fasted_dbscan(v, 1, 3) OVER () FROM letters WHERE false;
SELECT id, fasted_dbscan(v, 1, 1) OVER () AS dbscan, fasted_dbscan(v, 1) OVER () AS components, fasted_keep(v, 1, id) OVER () AS kept, fasted_neighbor_count(v, 1) OVER () AS neighbors FROM letters WHERE v IS NULL;
SELECT id, fasted_dbscan(v, 1, 1) OVER () AS one, fasted_dbscan(v, 1, 2) OVER () AS two, fasted_keep(v, 1, id) OVER () AS kept, fasted_neighbor_count(v, 1) OVER () AS neighbors FROM letters WHERE n = 5;
-- rows with a null key form a partition
SELECT g, array_agg(c ORDER BY id) FROM (SELECT id, nullif(n % 2, 1) AS g, fasted_dbscan(v, 2) OVER (PARTITION BY nullif(n % 2, 1) ORDER BY id) AS c FROM letters) AS s GROUP BY g ORDER BY g;
-- several windows
SELECT id, fasted_dbscan(v, 1) OVER w AS components, fasted_keep(v, 1, id) OVER (w ORDER BY id DESC) AS down, fasted_keep(v, 1, id) OVER (w ORDER BY id) AS up,
	fasted_neighbor_count(v, 2) OVER (PARTITION BY id < 'c') AS half, row_number() OVER w AS row, count(*) OVER (PARTITION BY v IS NULL) AS vectors
FROM letters WINDOW w AS () ORDER BY id;
-- an explicit default frame
SELECT id, fasted_dbscan(v, 1) OVER (ORDER BY id RANGE UNBOUNDED PRECEDING) AS a, fasted_dbscan(v, 1) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS b,
	fasted_dbscan(v, 1) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE NO OTHERS) AS c, row_number() OVER (ORDER BY id) AS d, rank() OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS e
FROM letters ORDER BY id;
SELECT id, fasted_dbscan(v, 0, metric => 'cosine') OVER (ORDER BY id) FROM letters ORDER BY id;

-- places in a query where they can be called
CREATE VIEW clustered AS SELECT g, id, fasted_dbscan(v, 1, 2) OVER (PARTITION BY g ORDER BY id) AS cluster FROM items;
SELECT c.* FROM compare('SELECT id, cluster FROM clustered', windows('items', 'fasted_dbscan(v, 1, 2) OVER w')) AS c;
CREATE VIEW only_6 AS SELECT id, v FROM items WHERE g = 6;
SELECT c.* FROM compare('SELECT id, cluster FROM clustered WHERE g = 6', 'SELECT id, cluster FROM fasted_cluster(''only_6'', ''v'', 1, 2, id_column => ''id'') UNION ALL SELECT id, NULL FROM items WHERE g = 6 AND v IS NULL') AS c;
WITH sizes AS (SELECT g, cluster, count(*) AS n FROM clustered WHERE cluster IS NOT NULL GROUP BY g, cluster) SELECT g, max(cluster) + 1 = count(*) AS from_zero, max(n) >= 2 AS large FROM sizes WHERE g < 8 GROUP BY g ORDER BY g;
CREATE TABLE result (g int, id int, kept int);
INSERT INTO result SELECT g, id, fasted_keep(v, 2, id) OVER (PARTITION BY g ORDER BY p DESC NULLS LAST, id) FROM items;
SELECT c.* FROM compare('SELECT id, kept FROM result JOIN items USING (id) WHERE v IS NOT NULL', 'SELECT id, kept FROM fasted_keep_one(''items'', ''v'', 2, ''p'', true, partition_by => ''g'')') AS c;
BEGIN;
DELETE FROM items USING (SELECT id, fasted_keep(v, 2, id) OVER (PARTITION BY g ORDER BY p DESC NULLS LAST, id) AS kept FROM items) AS k WHERE k.id = items.id AND k.kept <> k.id;
SELECT count(*) > 0 AS rows, count(*) FILTER (WHERE id NOT IN (SELECT kept FROM result)) AS others, (SELECT count(*) FROM fasted_self_join('items', 'v', 2, partition_by => 'g')) AS pairs FROM items WHERE v IS NOT NULL;
ROLLBACK;
BEGIN;
UPDATE result SET kept = NULL FROM clustered c WHERE c.id = result.id AND c.cluster IS NULL;
SELECT (SELECT count(*) FROM result WHERE kept IS NULL) = (SELECT count(*) FROM clustered WHERE cluster IS NULL) AS same;
ROLLBACK;
SELECT * FROM (SELECT id, fasted_dbscan(v, 1) OVER (ORDER BY id) AS c FROM letters LIMIT 3) AS s ORDER BY id;
SELECT DISTINCT fasted_dbscan(v, 1) OVER (ORDER BY id) AS c FROM letters ORDER BY c;
SELECT id FROM letters ORDER BY fasted_neighbor_count(v, 1) OVER (ORDER BY id) DESC NULLS LAST, id;
SELECT count(*), sum(c) FROM (SELECT fasted_dbscan(v, 1) OVER (ORDER BY id) AS c FROM letters) AS s;
SELECT g, max(c) + 1 AS clusters FROM (SELECT i % 2 AS g, fasted_dbscan(array_agg(i * j ORDER BY j), 5) OVER (PARTITION BY i % 2 ORDER BY i) AS c FROM generate_series(1, 12) AS i, generate_series(1, 3) AS j GROUP BY i) AS s GROUP BY g ORDER BY g;
-- a subquery that runs again: with another eps, and with other rows
SELECT eps, clusters FROM (VALUES (0), (1), (2), (4), (1)) AS t (eps), LATERAL (SELECT count(DISTINCT c) AS clusters FROM (SELECT fasted_dbscan(v, eps) OVER (PARTITION BY g ORDER BY id) AS c, v FROM items WHERE g IN (5, 6)) AS s) AS s;
SELECT p.g, s.* FROM generate_series(1, 7) AS p (g), LATERAL compare(format('SELECT id, c FROM (SELECT id, fasted_dbscan(v, 1) OVER (ORDER BY id) AS c FROM items WHERE g = %s) AS s', p.g), format('SELECT id, fasted_dbscan FROM (%s) AS s WHERE g = %s', windows('items', 'fasted_dbscan(v, 1) OVER w, g'), p.g)) AS s;
SELECT p.g, (SELECT sum(n) FROM (SELECT fasted_neighbor_count(v, 1) OVER () AS n FROM items WHERE items.g = p.g) AS s) = (SELECT count(*) FROM items_near WHERE items_near.g = p.g AND dist <= 1) AS same FROM (SELECT DISTINCT g FROM items WHERE g BETWEEN 3 AND 7) AS p ORDER BY 1;
-- a cursor that scrolls in both directions
BEGIN;
DECLARE both_ways SCROLL CURSOR WITH HOLD FOR SELECT g, id, fasted_keep(v, 2, 'row ' || id) OVER (PARTITION BY g ORDER BY id) AS kept FROM items WHERE g BETWEEN 2 AND 7 ORDER BY g, id;
FETCH ABSOLUTE 30 FROM both_ways;
FETCH 2 FROM both_ways;
FETCH BACKWARD 2 FROM both_ways;
FETCH ABSOLUTE 150 FROM both_ways;
FETCH ABSOLUTE 30 FROM both_ways;
MOVE ALL IN both_ways;
FETCH PRIOR FROM both_ways;
COMMIT;
FETCH ABSOLUTE 30 FROM both_ways;
CLOSE both_ways;
-- over a join, also a join on a distance
SELECT c.* FROM compare('SELECT id, fasted_dbscan(v, 1) OVER (PARTITION BY g ORDER BY id) FROM items JOIN result USING (g, id)', windows('items', 'fasted_dbscan(v, 1) OVER w')) AS c;
SELECT c.* FROM compare('SELECT DISTINCT a.id, fasted_dbscan(a.v, 1) OVER (ORDER BY a.id) AS c FROM only_6 a JOIN only_6 b ON a.id <> b.id AND fasted_within(a.v, b.v, 1)',
	'SELECT id, fasted_dbscan(v, 1) OVER (ORDER BY id) FROM (SELECT id, v, fasted_neighbor_count(v, 1) OVER () AS n FROM only_6) AS s WHERE n > 0') AS c;
SELECT c.* FROM compare('SELECT n.id, fasted_dbscan(i.v, 2) OVER (ORDER BY n.id) FROM fasted_neighbors(''only_6'', ''v'', 1, id_column => ''id'') AS n JOIN items i USING (id) WHERE neighbors > 1',
	'SELECT id, fasted_dbscan(v, 2) OVER (ORDER BY id) FROM (SELECT id, v, fasted_neighbor_count(v, 1) OVER () AS n FROM only_6) AS s WHERE n > 1') AS c;
-- in PL/pgSQL
CREATE FUNCTION clusters_of(which int, eps float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	result text := '';
	problem text;
BEGIN
	FOR r IN SELECT fasted_dbscan(v, clusters_of.eps) OVER (PARTITION BY g ORDER BY id) AS c FROM items WHERE g >= which LOOP
		result := result || coalesce(r.c::text, '-');
		BEGIN
			PERFORM fasted_keep(v, -1, id) OVER () FROM items;
		EXCEPTION WHEN invalid_parameter_value THEN
			GET STACKED DIAGNOSTICS problem = MESSAGE_TEXT;
		END;
	END LOOP;
	RETURN problem || ', ' || result;
END $$;
SELECT clusters_of(25, 2), clusters_of(28, 20), clusters_of(26, 0);
DROP FUNCTION clusters_of;
-- prepared statements, with a generic plan as well
PREPARE clusters (float8, int, text) AS SELECT count(DISTINCT (g, c)), count(c) FROM (SELECT g, fasted_dbscan(v, $1, $2, $3) OVER (PARTITION BY g ORDER BY id) AS c FROM items) AS s;
EXECUTE clusters (1, 2, 'l2');
SET plan_cache_mode = force_generic_plan;
EXECUTE clusters (1, 2, 'l2');
EXECUTE clusters (4, 3, 'l2');
EXECUTE clusters (0.01, 3, 'cosine');
EXECUTE clusters (NULL, 3, 'cosine');
EXECUTE clusters (1, 2, 'l2');
RESET plan_cache_mode;
DEALLOCATE clusters;

-- The executor stops a partition early for a condition on row_number(): earlier rows are correct.
CREATE FUNCTION top_rows(condition text, parts text DEFAULT 'PARTITION BY g', other text DEFAULT 'id') RETURNS text LANGUAGE sql AS $$
	SELECT format('SELECT * FROM (SELECT g, id, row_number() OVER w AS n, fasted_dbscan(v, 1.5, 2) OVER w AS c, fasted_keep(v, 2, ''row '' || id) OVER w AS k, fasted_neighbor_count(v, 2) OVER o AS o, fasted_keep(v, 2, id::numeric) OVER o AS l
		FROM items WINDOW w AS (%1$s ORDER BY p, id), o AS (%1$s ORDER BY %3$s)) AS s WHERE %2$s', parts, condition, other)
$$;
SELECT parts, other, n, c.* FROM unnest('{PARTITION BY g,""}'::text[]) WITH ORDINALITY AS p (parts, i), unnest('{"p, id",id}'::text[]) WITH ORDINALITY AS o (other, j), unnest('{1,3,60}'::int[]) AS n,
	compare(top_rows('n <= ' || n, parts, other), top_rows('n + 0 <= ' || n, parts, other)) AS c ORDER BY i, j, n;
SELECT count(*) FROM (SELECT row_number() OVER w AS n, fasted_keep(v, 2, 'row ' || id) OVER w FROM items WINDOW w AS (PARTITION BY g ORDER BY id)) AS s WHERE n <= 0;
SELECT g, n, c FROM (SELECT g, rank() OVER w AS n, fasted_dbscan(v, 1) OVER w AS c FROM items WINDOW w AS (PARTITION BY g ORDER BY id)) AS s WHERE n = 1 AND g < 8 ORDER BY g;
DROP FUNCTION top_rows;

-- privileges and row security: those of the query
CREATE ROLE fasted_windows_reader;
CREATE TABLE owned (id int, owner name, v real[], secret real[]);
INSERT INTO owned SELECT i, CASE WHEN i % 3 = 0 THEN 'nobody' ELSE 'fasted_windows_reader' END, ARRAY[i], ARRAY[i] FROM generate_series(1, 9) AS i;
ALTER TABLE owned ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON owned USING (owner = current_user);
GRANT SELECT (id, v, owner) ON owned TO fasted_windows_reader;
SELECT max(c) FROM (SELECT fasted_dbscan(v, 1) OVER () AS c FROM owned) AS s;
SET ROLE fasted_windows_reader;
SELECT id, fasted_dbscan(v, 1) OVER (ORDER BY id) AS components, fasted_keep(v, 1, id) OVER (ORDER BY id) AS kept, fasted_neighbor_count(v, 1) OVER () AS neighbors FROM owned ORDER BY id;
SELECT fasted_dbscan(secret, 1) OVER () FROM owned;
RESET ROLE;

-- errors: frames, with complete messages
\set VERBOSITY default
SELECT fasted_dbscan(v, 1, 2) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) FROM letters;
\set VERBOSITY terse
SELECT fasted_dbscan(v, 1) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM letters;
\echo :SQLSTATE
SELECT fasted_keep(v, 1, id) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM letters;
SELECT fasted_neighbor_count(v, 1) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM letters;
SELECT fasted_neighbor_count(v, 1) OVER (ORDER BY n RANGE CURRENT ROW) FROM letters;
SELECT fasted_dbscan(v, 1, 2) OVER (ORDER BY id GROUPS 1 PRECEDING) FROM letters;
SELECT fasted_dbscan(v, 1) OVER (ORDER BY id RANGE UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) FROM letters;
SELECT fasted_dbscan(v, 1) OVER (ORDER BY id RANGE UNBOUNDED PRECEDING EXCLUDE TIES) FROM letters;
SELECT row_number() OVER w, fasted_dbscan(v, 1) OVER w FROM letters WINDOW w AS (ORDER BY id ROWS 3 PRECEDING);

-- arguments
SELECT fasted_dbscan(v, NULL, 2) OVER () FROM letters;
\echo :SQLSTATE
SELECT fasted_dbscan(v, 1, NULL) OVER () FROM letters;
SELECT fasted_dbscan(v, 1, 2, NULL) OVER () FROM letters;
SELECT fasted_dbscan(v, NULL) OVER () FROM letters;
SELECT fasted_dbscan(v, 1, metric => NULL) OVER () FROM letters;
SELECT fasted_keep(v, NULL, id) OVER () FROM letters;
SELECT fasted_keep(v, 1, id, NULL) OVER () FROM letters;
SELECT fasted_neighbor_count(v, NULL) OVER () FROM letters;
SELECT fasted_neighbor_count(v, 1, NULL) OVER () FROM letters;
SELECT fasted_neighbor_count(NULL::real[], NULL) OVER () FROM letters;
SELECT fasted_dbscan(v, -0.5) OVER () FROM letters;
\echo :SQLSTATE
SELECT fasted_dbscan(v, 'NaN') OVER () FROM letters;
SELECT fasted_dbscan(v, '-Infinity') OVER () FROM letters;
SELECT fasted_dbscan(v, 1, 0) OVER () FROM letters;
\echo :SQLSTATE
SELECT fasted_dbscan(v, 1, -1) OVER () FROM letters;
SELECT fasted_dbscan(v, 1, metric => 'euclidean') OVER () FROM letters;
\echo :SQLSTATE
-- invalid arguments in the first row of a later partition
SELECT fasted_dbscan(v, CASE WHEN g < 6 THEN 1 ELSE -1 END) OVER (PARTITION BY g) FROM items;
-- no vectors
\set VERBOSITY default
SELECT fasted_dbscan(id, 1) OVER () FROM letters;
SELECT fasted_dbscan('{1,2}', 1) OVER () FROM letters;
\set VERBOSITY terse
\echo :SQLSTATE
SELECT fasted_dbscan(NULL, 1) OVER () FROM letters;
SELECT fasted_dbscan(ARRAY[id], 1) OVER () FROM letters;
SELECT fasted_dbscan(true, 1, 1) OVER () FROM letters;
SELECT fasted_dbscan(ARRAY[now()], 1, 1) OVER () FROM letters;
SELECT fasted_keep(letters, 1, 1) OVER () FROM letters;
SELECT fasted_keep(v, 1, 'literal') OVER () FROM letters;
-- invalid vectors, and their row numbers in the order of the window
\set VERBOSITY default
SELECT fasted_dbscan(CASE WHEN n = 3 THEN '{1,NaN}'::real[] ELSE '{1,1}' END, 1) OVER (ORDER BY n DESC) FROM letters;
\echo :SQLSTATE
SELECT fasted_dbscan(CASE WHEN n = 3 THEN '{-Infinity,2}'::float8[] ELSE '{1,1}' END, 1) OVER (ORDER BY n) FROM letters;
SELECT fasted_dbscan(CASE WHEN n = 3 THEN ARRAY[1, NULL] ELSE '{1,1}' END::int[], 1, 2) OVER (ORDER BY n) FROM letters;
SELECT fasted_keep(CASE WHEN n = 1 THEN ARRAY[[1, 2], [3, 4]] ELSE '{1,1}' END::real[], 1, n) OVER (ORDER BY n) FROM letters;
SELECT fasted_neighbor_count(CASE WHEN n <> 2 THEN '{}' ELSE '{1,1}' END::real[], 1) OVER (ORDER BY n) FROM letters;
SELECT fasted_dbscan(v[:1 + n % 2], 1) OVER (ORDER BY n) FROM (SELECT i AS n, array_fill(1::real, ARRAY[2]) AS v FROM generate_series(3, 8) AS i) AS s;
\echo :SQLSTATE
SELECT fasted_dbscan(array_fill(0::real, ARRAY[CASE WHEN n = 4 THEN 100000 ELSE 1 END]), 1) OVER (ORDER BY n DESC) FROM letters WHERE n < 5;
\set VERBOSITY terse
SELECT fasted_dbscan(CASE WHEN i = 150 THEN '{1,NaN}'::real[] ELSE '{1,1}' END, 1) OVER (ORDER BY i) FROM generate_series(1, 200) AS i;
SELECT fasted_dbscan(array_fill(1::real, ARRAY[i / 150 + 1]), 1) OVER (ORDER BY i) FROM generate_series(1, 200) AS i;
SELECT fasted_dbscan(ARRAY[1e39, i]::numeric[], 1) OVER (ORDER BY i) FROM generate_series(1, 2) AS i;
-- different numbers of dimensions in different partitions are allowed
SELECT n, max(c) + 1 AS clusters, count(*) FROM (SELECT n, fasted_dbscan(array_fill(i::real, ARRAY[n]), 2) OVER (PARTITION BY n ORDER BY i) AS c FROM generate_series(1, 5) AS n, generate_series(1, n * n * 10) AS i) AS s GROUP BY n ORDER BY n;
-- places and forms in which they cannot be called
SELECT fasted_dbscan(v, 1, 2) FROM letters;
\echo :SQLSTATE
SELECT fasted_dbscan(DISTINCT v, 1) OVER () FROM letters;
SELECT fasted_dbscan(v, 1) FILTER (WHERE id > 'a') OVER () FROM letters;
SELECT fasted_dbscan(v, 1 ORDER BY id) OVER () FROM letters;
SELECT fasted_dbscan(v, fasted_neighbor_count(v, 1) OVER ()) OVER () FROM letters;
SELECT id FROM letters WHERE fasted_dbscan(v, 1) OVER () = 0;
SELECT * FROM fasted_dbscan('{1}'::real[], 1);
SELECT fasted_dbscan(v, 1) OVER () FROM letters FOR UPDATE;
SELECT fasted_keep(id => v, vector => 1) OVER () FROM letters;
SELECT count(*) FROM letters;

SELECT proname, prokind, provolatile, proparallel, proisstrict, prosecdef FROM pg_proc WHERE proname IN ('fasted_dbscan', 'fasted_keep', 'fasted_neighbor_count') ORDER BY 1;

SET client_min_messages = warning;
DROP TABLE items, angles, items_near, angles_near, far, ids, result, owned CASCADE;
DROP VIEW letters;
DROP FUNCTION right_clusters, right_counts, right_kept, compare, windows;
DROP DOMAIN embedding, amounts, integers, label;
DROP TYPE name_and_number;
DROP ROLE fasted_windows_reader;
