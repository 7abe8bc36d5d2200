-- Columns of bits: Hamming and Jaccard distance, compared with bit_count of PostgreSQL.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
CREATE SCHEMA of_bits;
SET search_path = of_bits, public;
RESET client_min_messages;
SET fasted.join_node = off;

-- Groups of ten rows: a row and a copy, rows that differ from it in a few bits, rows with some of its
-- bits, a row without any bit, a row with all bits, a sparse row; in some groups a null.
CREATE FUNCTION random_bits(i int, n int) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
	SELECT substring(string_agg(('x' || md5(i || ' ' || k))::bit(128)::text, '' ORDER BY k)::bit varying FROM 1 FOR n)
	FROM generate_series(0, n / 128) AS k
$$;
CREATE FUNCTION flip(b bit varying, place int) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
	SELECT set_bit(b, place % length(b), 1 - get_bit(b, place % length(b)))
$$;
CREATE FUNCTION bits_of_row(i int, n int) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE i % 10 WHEN 2 THEN flip(r, i) WHEN 3 THEN flip(flip(r, i), 7 * i) WHEN 4 THEN r & random_bits(-i, n)
		WHEN 5 THEN r & random_bits(i, n) WHEN 6 THEN r # r WHEN 7 THEN ~ (r # r)
		WHEN 8 THEN r & random_bits(i, n) & random_bits(-i, n) & random_bits(i + 1000, n)
		WHEN 9 THEN CASE WHEN i % 20 = 9 THEN random_bits(i, n) END ELSE r END
	FROM random_bits(i / 10, n) AS r
$$;
SELECT format('CREATE TABLE bits_%s (id int PRIMARY KEY, v bit(%s), w bit varying);
	INSERT INTO bits_%s SELECT (i * 7919) %% 10007, b, b FROM generate_series(0, 129) AS i, bits_of_row(i, %s) AS b;', n, n, n, n)
FROM unnest('{1,7,8,63,64,65,2048,16000}'::int[]) AS n \gexec

CREATE FUNCTION jaccard(a bit varying, b bit varying) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE bit_count(a & b) WHEN 0 THEN 1 ELSE bit_count(a # b)::float8 / bit_count(a | b)::float8 END
$$;
CREATE TABLE due (n int, metric text, id_a int, id_b int, dist float8);
SELECT format('INSERT INTO due SELECT %s, metric, a.id, b.id, CASE metric WHEN ''hamming'' THEN bit_count(a.w # b.w) ELSE jaccard(a.w, b.w) END
	FROM bits_%s AS a, bits_%s AS b, unnest(''{hamming,jaccard}''::text[]) AS metric WHERE a.w IS NOT NULL AND b.w IS NOT NULL', n, n, n)
FROM unnest('{1,7,8,63,64,65,2048,16000}'::int[]) AS n \gexec
CREATE INDEX ON due (n, metric, dist);
CREATE INDEX ON due (n, metric, id_a);
ANALYZE due;
SELECT n, metric, count(*), count(DISTINCT dist) AS distances, count(*) FILTER (WHERE dist = 0) AS equal, max(dist)
FROM due GROUP BY n, metric ORDER BY n, metric;

-- Rows of one query that the other one does not return, in both directions.
CREATE FUNCTION differences(found_by text, due_by text, OUT rows bigint, OUT wrong bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('WITH f AS MATERIALIZED (%s), d AS MATERIALIZED (%s)
		SELECT (SELECT count(*) FROM f),
			(SELECT count(*) FROM ((TABLE f EXCEPT ALL TABLE d) UNION ALL (TABLE d EXCEPT ALL TABLE f)) AS x)',
		found_by, due_by) INTO rows, wrong;
END $$;

-- pairs, for eps equal to distances that occur and just below them, 0, 1 and others
CREATE FUNCTION check_join(n int, metric text, eps float8, OUT rows bigint, OUT wrong bigint) LANGUAGE sql AS $$
	SELECT * FROM differences(
		format('SELECT id_a, id_b, float8send(dist) FROM fasted_self_join(%L, %L, %L, metric => %L)', 'bits_' || n,
			CASE WHEN n % 2 = 0 THEN 'v' ELSE 'w' END, eps, metric),
		format('SELECT id_a, id_b, float8send(dist) FROM due WHERE n = %L AND metric = %L AND dist <= %L AND id_a < id_b', n, metric, eps))
$$;
CREATE TABLE radii AS
	SELECT n, metric, eps FROM (SELECT DISTINCT ON (n, metric, ntile) * FROM (
			SELECT n, metric, dist, ntile(9) OVER (PARTITION BY n, metric ORDER BY dist) FROM due) AS t
			ORDER BY n, metric, ntile, hashfloat8(dist)) AS d,
		LATERAL (VALUES (dist), (dist - dist * 2.3e-16)) AS e (eps) WHERE ntile IN (1, 3, 6)
	UNION SELECT n, metric, eps FROM (SELECT DISTINCT n, metric FROM due) AS d, unnest('{0,1,2.9,Infinity}'::float8[]) AS eps;
SELECT n, metric, count(*) AS radii, sum(rows) AS pairs, sum(wrong) AS wrong
FROM radii, LATERAL check_join(n, metric, eps) AS c GROUP BY n, metric ORDER BY n, metric;

-- each kernel, filter and number of threads
SELECT name, value, sum(rows) AS pairs, sum(wrong) AS wrong
FROM (VALUES ('cpu_kernel', 'portable'), ('filter', 'int8'), ('filter', 'fp16'), ('threads', '1'), ('prune', 'force')) AS s (name, value),
	set_config('fasted.' || name, value, false) AS set, unnest('{65,16000}'::int[]) AS n,
	LATERAL (VALUES ('hamming', 10 + 0 * length(set)), ('jaccard', 0.7)) AS m (metric, eps), LATERAL check_join(n, metric, eps) AS c
GROUP BY name, value ORDER BY name, value;
RESET fasted.cpu_kernel;
RESET fasted.filter;
RESET fasted.threads;
RESET fasted.prune;

-- both orders, self pairs, conditions, counts, parameters; a row without any bit has the distance 1 to itself, too
SELECT eps, condition, rows, wrong, (SELECT count(*) FROM bits_65 WHERE bit_count(v) = 0) AS without FROM unnest('{0,0.5,1}'::float8[]) AS eps,
	unnest('{true,dist = 1,dist < 0.3,id_a = id_b,dist > 0 AND id_a = id_b}'::text[]) AS condition, LATERAL differences(
		format('SELECT id_a, id_b, dist FROM fasted_self_join(''bits_65'', ''v'', %s, ordered => true, self_pairs => true, metric => ''jaccard'') WHERE %s', eps, condition),
		format('SELECT id_a, id_b, dist FROM due WHERE n = 65 AND metric = ''jaccard'' AND dist <= %s AND %s', eps, condition));
SELECT (SELECT count(*) FROM fasted_self_join('bits_65', 'v', 1, self_pairs => true, metric => 'jaccard') WHERE dist = 1) = count(*) AS same FROM due WHERE n = 65 AND metric = 'jaccard' AND dist = 1 AND id_a <= id_b;
SELECT count(*) = (SELECT count(*) FROM due WHERE n = 2048 AND metric = 'hamming' AND dist BETWEEN 2 AND 900 AND id_a < id_b) AS same
FROM fasted_self_join('bits_2048', 'v', 1000, metric => 'hamming') WHERE dist >= 2 AND dist < 901;
PREPARE near(text, float8) AS SELECT count(*) FROM fasted_self_join('bits_64', 'v', $2, metric => $1);
EXECUTE near('hamming', 5);
EXECUTE near('jaccard', 0.5);
SET fasted.scan_node = off;
SELECT * FROM check_join(2048, 'jaccard', 0.7);
RESET fasted.scan_node;

-- nearest rows: of one table, of two tables, within a distance; ties by id
CREATE TABLE odd AS SELECT * FROM bits_65 WHERE id % 2 = 1;
ALTER TABLE odd ADD PRIMARY KEY (id);
CREATE FUNCTION check_nearest(b text, n int, metric text, k int, most float8, OUT rows bigint, OUT wrong bigint) LANGUAGE sql AS $$
	SELECT * FROM differences(
		format('SELECT id_a, id_b, float8send(dist), rank FROM fasted_knn_join(%L, ''v'', %L, ''v'', %L, metric => %L, max_distance => %L)',
			'bits_' || n, b, k, metric, most),
		format('SELECT * FROM (SELECT id_a, id_b, float8send(dist), row_number() OVER (PARTITION BY id_a ORDER BY dist, id_b)::int AS rank FROM due
			WHERE n = %L AND metric = %L AND dist <= %L AND CASE %L WHEN ''odd'' THEN id_b %% 2 = 1 ELSE id_a <> id_b END) AS x WHERE rank <= %L',
			n, metric, most, b, k))
$$;
SELECT b, metric, k, most, rows, wrong
FROM (VALUES ('bits_65', 65), ('odd', 65), ('bits_1', 1), ('bits_2048', 2048), ('bits_16000', 16000)) AS t (b, n),
	(VALUES ('hamming', 3.0), ('jaccard', 0.6), ('hamming', 'Infinity'), ('jaccard', 1)) AS m (metric, most),
	unnest('{1,7}'::int[]) AS k, LATERAL check_nearest(b, n, metric, k, most) ORDER BY n, b, metric, most, k;

-- neighbours, clusters and representatives: those of the pairs in SQL
CREATE FUNCTION neighbors_due(n int, metric text, eps float8) RETURNS TABLE (id bigint, neighbors bigint) LANGUAGE sql AS $$
	SELECT id_a::bigint, count(*) FILTER (WHERE dist <= eps AND id_a <> id_b) FROM due
	WHERE due.n = neighbors_due.n AND due.metric = neighbors_due.metric GROUP BY id_a
$$;
CREATE FUNCTION components_due(n int, metric text, eps float8) RETURNS TABLE (id bigint, cluster int) LANGUAGE plpgsql AS $$
BEGIN
	CREATE TEMP TABLE near AS SELECT id_a, id_b FROM due
	WHERE due.n = components_due.n AND due.metric = components_due.metric AND (dist <= eps OR id_a = id_b);
	CREATE TEMP TABLE label AS SELECT DISTINCT id_a AS row, id_a AS least FROM near;
	LOOP
		UPDATE label SET least = l.least FROM (SELECT id_a, min(least) AS least FROM near JOIN label ON label.row = id_b GROUP BY id_a) AS l
		WHERE label.row = id_a AND l.least < label.least;
		EXIT WHEN NOT FOUND;
	END LOOP;
	RETURN QUERY SELECT label.row::bigint, dense_rank() OVER (ORDER BY least)::int - 1 FROM label;
	DROP TABLE near, label;
END $$;
CREATE FUNCTION kept_due(n int, metric text, eps float8) RETURNS TABLE (id bigint, kept bigint, dist float8) LANGUAGE plpgsql AS $$
DECLARE
	r record;
	k record;
	stay int[] := '{}';
BEGIN
	FOR r IN SELECT DISTINCT id_a FROM due WHERE due.n = kept_due.n ORDER BY id_a LOOP
		SELECT d.id_b, d.dist INTO k FROM due d WHERE d.n = kept_due.n AND d.metric = kept_due.metric AND d.id_a = r.id_a AND d.id_b = ANY (stay) AND d.dist <= eps
		ORDER BY d.dist, d.id_b LIMIT 1;
		IF k.id_b IS NULL THEN
			stay := stay || r.id_a;
		END IF;
		RETURN QUERY SELECT r.id_a::bigint, COALESCE(k.id_b, r.id_a)::bigint, COALESCE(k.dist, 0);
	END LOOP;
END $$;
CREATE TABLE calls (found_by text, due_by text);
INSERT INTO calls VALUES
	('SELECT * FROM fasted_neighbors(%1$L, ''v'', %2$L, metric => %3$L)', 'SELECT * FROM neighbors_due(%4$s, %3$L, %2$L)'),
	('SELECT id, cluster FROM fasted_cluster(%1$L, ''v'', %2$L, metric => %3$L)', 'SELECT * FROM components_due(%4$s, %3$L, %2$L)'),
	('SELECT * FROM fasted_keep_one(%1$L, ''v'', %2$L, metric => %3$L)', 'SELECT * FROM kept_due(%4$s, %3$L, %2$L)'),
	('SELECT id::bigint, fasted_neighbor_count(w, %2$L, metric => %3$L) OVER (ORDER BY id) FROM %1$s WHERE v IS NOT NULL', 'SELECT * FROM neighbors_due(%4$s, %3$L, %2$L)'),
	('SELECT id::bigint, fasted_dbscan(v, %2$L, metric => %3$L) OVER (ORDER BY id) FROM %1$s WHERE v IS NOT NULL', 'SELECT * FROM components_due(%4$s, %3$L, %2$L)'),
	('SELECT id::bigint, fasted_keep(v, %2$L, id, %3$L) OVER (ORDER BY id)::bigint FROM %1$s WHERE v IS NOT NULL', 'SELECT id, kept FROM kept_due(%4$s, %3$L, %2$L)');
SELECT substring(found_by FROM 'fasted_\w+') AS function, metric, eps, sum(rows) AS rows, sum(wrong) AS wrong
FROM calls, unnest('{65,2048}'::int[]) AS n, (VALUES ('hamming', 0), ('hamming', 3), ('jaccard', 0), ('jaccard', 0.5), ('jaccard', 1)) AS m (metric, eps),
	LATERAL differences(format(found_by, 'bits_' || n, eps, metric, n), format(due_by, 'bits_' || n, eps, metric, n))
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
-- DBSCAN: squared Euclidean distances of zeros and ones are Hamming distances
CREATE TABLE reals AS SELECT id, w, string_to_array(w::text, NULL)::real[] AS r FROM bits_65;
ALTER TABLE reals ADD PRIMARY KEY (id);
SELECT min_samples, eps, rows, wrong FROM unnest('{2,3,10}'::int[]) AS min_samples, unnest('{0,2,5,30}'::int[]) AS eps,
	LATERAL differences(format('SELECT * FROM fasted_cluster(''reals'', ''w'', %s, %s, metric => ''hamming'')', eps, min_samples),
		format('SELECT * FROM fasted_cluster(''reals'', ''r'', sqrt(%s + 0.5), %s)', eps, min_samples));
SELECT * FROM differences('SELECT id, fasted_dbscan(w, 5, 3, ''hamming'') OVER (ORDER BY id) FROM reals', 'SELECT id, fasted_dbscan(r, sqrt(5.5), 3) OVER (ORDER BY id) FROM reals');

-- estimates: exact for all rows; the greatest distance is 1, or the number of bits
SELECT metric, neighbors, eps = (SELECT dist FROM (SELECT dist, row_number() OVER (ORDER BY dist) AS place FROM due
		WHERE n = 65 AND due.metric = e.metric AND id_a < id_b) AS x WHERE place = ceil(neighbors * rows / 2)) AS same
FROM unnest('{hamming,jaccard}'::text[]) AS e (metric), unnest('{0.5,3,20,100}'::float8[]) AS neighbors,
	LATERAL fasted_epsilon('bits_65', 'v', neighbors, metric => e.metric) ORDER BY metric, neighbors;
CREATE TABLE many AS SELECT i AS id, CASE WHEN i % 50 = 0 THEN 0::bit(64) ELSE random_bits(i, 64)::bit(64) & random_bits(i / 20, 64)::bit(64) END AS v
	FROM generate_series(1, 3000) AS i;
ALTER TABLE many ADD PRIMARY KEY (id);
ANALYZE many;
SELECT metric, n / 30 BETWEEN 0.7 AND 1.5 AS close
FROM unnest('{hamming,jaccard}'::text[]) AS metric, LATERAL fasted_epsilon('many', 'v', 30, sample_rows => 1500, seed => 1, metric => metric) AS e,
	LATERAL (SELECT 2.0 * count(*) / rows AS n FROM fasted_self_join('many', 'v', eps, metric => metric)) AS c ORDER BY metric;
CREATE FUNCTION planned(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT metric, eps, found, planned(format('SELECT * FROM fasted_self_join(''many'', ''v'', %L, metric => %L)', eps, metric)) / found BETWEEN 0.5 AND 2 AS close
FROM (VALUES ('hamming', 20), ('hamming', 64), ('jaccard', 0.7), ('jaccard', 1)) AS m (metric, eps),
	LATERAL (SELECT count(*) AS found FROM fasted_self_join('many', 'v', eps, metric => metric)) AS c ORDER BY metric, eps;
-- in panels
CREATE VIEW wide AS SELECT id, repeat(v::text, 64)::bit(4096) AS v FROM many;
SET fasted.memory_limit = '1MB';
SELECT metric, n = (SELECT count(*) FROM fasted_self_join('many', 'v', eps, metric => metric)) AS same
FROM (VALUES ('hamming', 8), ('jaccard', 0.5)) AS m (metric, eps), LATERAL (SELECT count(*) AS n
	FROM fasted_self_join('wide', 'v', CASE metric WHEN 'hamming' THEN 64 ELSE 1 END * eps, id_column => 'id', metric => metric)) AS c ORDER BY metric;
SELECT count(*) FROM fasted_self_join('wide', 'v', 1, id_column => 'id', self_pairs => true, metric => 'jaccard') WHERE id_a = id_b AND dist = 1;
RESET fasted.memory_limit;
-- more than half of all pairs
SELECT count(*) FROM fasted_self_join('many', 'v', 0.99, metric => 'jaccard');

-- read by parallel workers; zero rows, and rows of other lengths in partitions
ALTER TABLE many ADD g int, ADD w bit varying;
UPDATE many SET g = id % 3, w = substring(v::bit varying FROM 1 FOR 62 + id % 3);
ALTER TABLE many SET (parallel_workers = 2);
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
CREATE TABLE counts AS
	SELECT workers, metric, n, s, p FROM unnest('{0,2}'::text[]) AS workers, set_config('max_parallel_workers_per_gather', workers, false) AS set,
		(VALUES ('hamming', 9), ('jaccard', 0.5)) AS m (metric, eps),
		LATERAL (SELECT count(*) AS n, sum(id_a * id_b) + length(set) AS s FROM fasted_self_join('many', 'v', eps, metric => metric)) AS c,
		LATERAL (SELECT count(*) + length(set) AS p FROM fasted_self_join('many', 'w', eps, metric => metric, partition_by => 'g')) AS d;
SELECT a.metric, a.n, a.s = b.s AS same, a.p = b.p AS same_in_partitions FROM counts a JOIN counts b USING (metric, n) WHERE a.workers = '0' AND b.workers = '2' ORDER BY 1;
SELECT count(*) = (SELECT p - 1 FROM counts WHERE metric = 'hamming' AND workers = '0') AS same
FROM (SELECT id_a FROM unnest('{0,1,2}'::int[]) AS g, LATERAL (SELECT a.id AS id_a FROM many a JOIN many b ON a.g = b.g AND a.id < b.id AND bit_count(a.w # b.w) <= 9 WHERE a.g = g.g) AS x) AS y;
SET max_parallel_workers_per_gather = 2;
SELECT count(*), sum(id_a) FROM fasted_self_join('many', 'v', 1, self_pairs => true, metric => 'jaccard', partition_by => 'g') WHERE id_a = id_b AND dist = 1;
SELECT count(*), sum(id_a) FROM fasted_self_join('many', 'v', 1, self_pairs => true, metric => 'jaccard') WHERE id_a = id_b AND dist = 1;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET parallel_leader_participation;
RESET max_parallel_workers_per_gather;

-- domains, views, partitioned tables, two columns of different types
CREATE DOMAIN fingerprint AS bit(64);
CREATE TABLE parted (id int PRIMARY KEY, d fingerprint, w bit varying) PARTITION BY HASH (id);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parted SELECT id, v, w FROM bits_64;
CREATE VIEW seen AS SELECT id, v | B'0'::bit(64) AS v FROM bits_64;
SELECT relation, differences.* FROM (VALUES ('parted', 'd'), ('parted', 'w'), ('seen', 'v')) AS t (relation, name), LATERAL differences(
	format('SELECT id_a, id_b, dist FROM fasted_self_join(%L, %L, 8, id_column => ''id'', metric => ''hamming'')', relation, name),
	'SELECT id_a, id_b, dist FROM due WHERE n = 64 AND metric = ''hamming'' AND dist <= 8 AND id_a < id_b');
SELECT * FROM differences('SELECT id_a, id_b FROM fasted_knn_join(''parted'', ''d'', ''bits_64'', ''w'', 1, metric => ''hamming'')',
	'SELECT DISTINCT ON (id_a) id_a, id_b FROM due WHERE n = 64 AND metric = ''hamming'' ORDER BY id_a, dist, id_b');
SET fasted.engine = cpu;
EXPLAIN (COSTS off) SELECT * FROM fasted_self_join('bits_64', 'v', 8, metric => 'hamming');
RESET fasted.engine;

-- a Hamming distance divided by a number, in joins, with limits that are quotients and their neighbors
SET fasted.join_node = on;
SET enable_nestloop = off;
SET fasted.engine = cpu;
EXPLAIN (COSTS off) SELECT count(*) FROM bits_64 a JOIN bits_64 b ON fasted_hamming_distance(a.v, b.v) / 64.0 <= 0.04;
RESET fasted.engine;
CREATE FUNCTION by_quotient(divisor float8, op text, bound float8, OUT pairs bigint, OUT wanted bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*) FROM bits_64 a JOIN bits_64 b ON fasted_hamming_distance(a.v, b.v) / %s %s %s', divisor, op, bound) INTO pairs;
	EXECUTE format('SELECT count(*) FROM due WHERE n = 64 AND metric = ''hamming'' AND dist / %s %s %s', divisor, op, bound) INTO wanted;
END $$;
SELECT divisor, op, count(*) AS limits, count(DISTINCT pairs) > 20 AS several, count(*) FILTER (WHERE pairs <> wanted) AS wrong
FROM unnest('{64,63,48.3}'::float8[]) AS divisor, unnest('{<,<=}'::text[]) AS op, generate_series(0, 47) AS h, unnest('{-1.2e-16,0,2.3e-16}'::float8[]) AS e,
	LATERAL by_quotient(divisor, op, h / divisor + h / divisor * e) GROUP BY 1, 2 ORDER BY 1, 2;
RESET enable_nestloop;
SET fasted.join_node = off;

-- errors: the metric does not fit the type, other lengths, no bits, too many bits
\set VERBOSITY default
CREATE TABLE wrong (id int PRIMARY KEY, v bit varying, r real[], d fingerprint);
SELECT * FROM fasted_self_join('wrong', 'v', 1);
\echo :SQLSTATE
SELECT * FROM fasted_self_join('wrong', 'd', 1, metric => 'cosine');
SELECT * FROM fasted_neighbors('wrong', 'v', 1, metric => 'inner_product');
SELECT * FROM fasted_self_join('wrong', 'r', 1, metric => 'hamming');
\echo :SQLSTATE
SELECT * FROM fasted_knn_join('wrong', 'v', 'wrong', 'r', 1, metric => 'jaccard');
SELECT * FROM fasted_epsilon('wrong', 'v', 1);
SELECT fasted_dbscan(v, 1) OVER () FROM (VALUES (B'101')) AS x (v);
SELECT fasted_dbscan(v, 1, metric => 'jaccard') OVER () FROM (VALUES (ARRAY[1.0])) AS x (v);
SELECT * FROM fasted_self_join('wrong', 'v', 1, metric => 'tanimoto');
SELECT * FROM fasted_self_join('wrong', 'id', 1, metric => 'hamming');
INSERT INTO wrong VALUES (1, B'101'), (2, B'1010');
SELECT * FROM fasted_self_join('wrong', 'v', 1, metric => 'hamming');
\echo :SQLSTATE
UPDATE wrong SET v = B'' WHERE id = 2;
SELECT * FROM fasted_self_join('wrong', 'v', 1, metric => 'hamming');
\echo :SQLSTATE
UPDATE wrong SET v = repeat('1', 65537)::bit varying;
SELECT * FROM fasted_self_join('wrong', 'v', 1, metric => 'hamming');
UPDATE wrong SET v = repeat('1', 65536)::bit varying;
SELECT * FROM fasted_self_join('wrong', 'v', 0, metric => 'jaccard');

SET client_min_messages = warning;
DROP SCHEMA of_bits CASCADE;
