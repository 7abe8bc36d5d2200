-- Requests to the workers of a Citus cluster: one slice of the pairs, returned as messages.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted_citus CASCADE;
RESET client_min_messages;

-- Rows are in no order of their keys; whole numbers, so that distances tie; one null; zero vectors.
CREATE TABLE sliced (id int PRIMARY KEY, v real[]);
INSERT INTO sliced SELECT i * 7919 % 10007, CASE i % 100 WHEN 3 THEN NULL WHEN 4 THEN '{0,0,0,0,0}'
	ELSE (SELECT array_agg((hashint4(i % 450 * 5 + k) & 7)::real) FROM generate_series(1, 5) k) END
FROM generate_series(1, 1000) AS i;

-- Parts of values that are stored out of line are read without the rest.
CREATE TABLE messages (n int, slice int, slices int, output text, m bytea);
ALTER TABLE messages ALTER m SET STORAGE external;
INSERT INTO messages
SELECT row_number() OVER (), slice, slices, output,
	fasted_citus.join_slice('sliced', 'v', 3, 'id', 'bigint', 'l2', false, output, slice, slices)
FROM unnest(ARRAY['pairs', 'count', 'counts', 'connections']) AS output,
	generate_series(1, 3) AS slices, generate_series(0, slices - 1) AS slice;

-- Reads a number from its binary form; the first bytes of a vector are its number of array dimensions.
CREATE FUNCTION uint32(m bytea, at int) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
	SELECT ('x' || regexp_replace(encode(substr(m, at + 1, 4), 'hex'), '(..)(..)(..)(..)',
		CASE get_byte(fasted_citus.vector_bytes('{1}'::real[]), 0) WHEN 1 THEN '\4\3\2\1' ELSE '\1\2\3\4' END))::bit(32)::bigint $$;

-- all workers have read the same rows, and report that in the first and the last message
SELECT count(*), count(DISTINCT substr(m, 2, 24)) FROM messages WHERE substr(m, 1, 1) IN ('R', 'D');
SELECT DISTINCT uint32(m, 9) + uint32(m, 13) AS rows FROM messages WHERE substr(m, 1, 1) IN ('R', 'D');

-- pairs of rows, numbered in key order: each pair is in exactly one slice
CREATE TABLE keys AS SELECT id, row_number() OVER (ORDER BY id) - 1 AS row FROM sliced WHERE v IS NOT NULL;
CREATE TABLE pairs AS
SELECT slices, uint32(m, at) AS a, uint32(m, at + 4) AS b
FROM messages, generate_series(1, length(m) - 1, 16) AS at
WHERE output = 'pairs' AND substr(m, 1, 1) = 'P';
CREATE TABLE right_pairs AS
SELECT a.row AS a, b.row AS b FROM fasted_self_join('sliced', 'v', 3) p
	JOIN keys a ON a.id = p.id_a JOIN keys b ON b.id = p.id_b;
SELECT slices, count(*) = (SELECT count(*) FROM right_pairs) AS as_many,
	(SELECT count(*) FROM (SELECT a, b FROM pairs q WHERE q.slices = p.slices EXCEPT TABLE right_pairs) x) AS wrong
FROM pairs p GROUP BY slices ORDER BY slices;
SELECT count(*) > 1000 AS some FROM right_pairs;
ANALYZE pairs, right_pairs, keys;

-- numbers of neighbors add up over the slices
CREATE TABLE counts AS
SELECT slices, (at - 1) / 4 AS row, sum(uint32(m, at)) AS count
FROM messages, generate_series(1, length(m) - 4, 4) AS at
WHERE output = 'counts' AND substr(m, 1, 1) = 'C' GROUP BY 1, 2;
SELECT slices, count(*), sum(abs(count - neighbors)) AS wrong
FROM counts JOIN keys USING (row) JOIN fasted_neighbors('sliced', 'v', 3) USING (id)
GROUP BY slices ORDER BY slices;

-- connections are fewer than pairs, and give the same components
CREATE TABLE connections AS
SELECT slices, uint32(m, at)::int AS a, uint32(m, at + 4)::int AS b
FROM messages, generate_series(1, length(m) - 1, 16) AS at
WHERE output = 'connections' AND substr(m, 1, 1) = 'P';
ANALYZE connections;
SELECT slices, count(*) < slices * (SELECT count(*) FROM keys) AS few,
	count(*) FILTER (WHERE NOT EXISTS (SELECT FROM right_pairs r WHERE r.a = c.a AND r.b = c.b)) AS invented
FROM connections c GROUP BY slices ORDER BY slices;
-- those of one slice form a forest: the number of rows minus the number of components
SELECT (SELECT count(*) FROM connections WHERE slices = 1) =
	(SELECT count(*) - count(DISTINCT cluster) FROM fasted_cluster('sliced', 'v', 3)) AS is_a_forest;

-- with eps 0, too, rows are numbered in key order
SELECT count(*) = (SELECT count(*) FROM fasted_self_join('sliced', 'v', 0)) AS as_many, count(*) > 100 AS some,
	count(*) FILTER (WHERE a.v <> b.v) AS wrong
FROM (SELECT fasted_citus.join_slice('sliced', 'v', 0, 'id', 'bigint', 'l2', false, 'pairs', s, 3) AS m FROM generate_series(0, 2) s) x,
	generate_series(1, length(m) - 1, 16) AS at, (keys JOIN sliced USING (id)) AS a, (keys JOIN sliced USING (id)) AS b
WHERE get_byte(m, 0) = ascii('P') AND a.row = uint32(m, at) AND b.row = uint32(m, at + 4);

-- only the first and the last message, which are reports
SELECT output, array_agg(encode(substr(m, 1, 1), 'escape') ORDER BY n) FROM messages WHERE output = 'count' AND slices = 1 GROUP BY output;

-- identical kernels reorder rows: each pair is in exactly one slice, and all report the same order
SET fasted.prune = force;
INSERT INTO messages
SELECT 0, slice, slices, 'pruned',
	fasted_citus.join_slice('sliced', 'v', 3, 'id', 'bigint', 'l2', false, 'pairs', slice, slices, true)
FROM generate_series(2, 3) AS slices, generate_series(0, slices - 1) AS slice;
SET fasted.engine = cpu;
SET fasted.cpu_kernel = portable;
INSERT INTO messages SELECT 0, 0, 1, 'portable',
	fasted_citus.join_slice('sliced', 'v', 3, 'id', 'bigint', 'l2', false, 'pairs', 0, 1, true);
RESET fasted.cpu_kernel;
RESET fasted.engine;
RESET fasted.prune;
CREATE TABLE pruned_pairs AS
SELECT slices, uint32(m, at) AS a, uint32(m, at + 4) AS b
FROM messages, generate_series(1, length(m) - 1, 16) AS at
WHERE output = 'pruned' AND substr(m, 1, 1) = 'P';
SELECT slices, count(*) = (SELECT count(*) FROM right_pairs) AS as_many,
	(SELECT count(*) FROM (SELECT a, b FROM pruned_pairs q WHERE q.slices = p.slices EXCEPT TABLE right_pairs) x) AS wrong
FROM pruned_pairs p GROUP BY slices ORDER BY slices;
SELECT output, count(DISTINCT cut) FROM messages, substring(encode(m, 'escape') FROM ', order [0-9a-f]{16}') AS cut
WHERE output IN ('pruned', 'portable') AND substr(m, 1, 1) = 'D' GROUP BY output ORDER BY output;

-- nearest neighbors of shares of the rows: each row of a is in one share, with all neighbors in order
CREATE TABLE others (id int PRIMARY KEY, v real[]);
INSERT INTO others SELECT i * 31 % 1009, (SELECT array_agg((hashint4(i * 5 + k) & 7)::real) FROM generate_series(1, 5) k)
FROM generate_series(1, 700) AS i;
CREATE TABLE shares (b text, slice int, slices int, m bytea, n serial);
ALTER TABLE shares ALTER m SET STORAGE external;
INSERT INTO shares (b, slice, slices, m)
SELECT b, slice, slices,
	fasted_citus.nearest_slice('sliced', 'v', 'id', b::regclass, 'v', 'id', 'bigint', 15, 2, 'l2', slice, slices)
FROM unnest(ARRAY['sliced', 'others']) AS b, generate_series(1, 3) AS slices, generate_series(0, slices - 1) AS slice;
SELECT b, count(*), count(DISTINCT substr(m, 2, 40)) FROM shares WHERE substr(m, 1, 1) IN ('R', 'D') GROUP BY b;
CREATE TABLE near AS
SELECT b, slices, slice, uint32(m, at) AS a_row, uint32(m, at + 4) AS b_row,
	row_number() OVER (PARTITION BY b, slices, uint32(m, at) ORDER BY n, at) AS rank
FROM shares, generate_series(1, length(m) - 1, 16) AS at WHERE substr(m, 1, 1) = 'P';
CREATE TABLE right_near AS
SELECT 'sliced' AS b, a.row AS a_row, b.row AS b_row, rank FROM fasted_knn_join('sliced', 'v', 'sliced', 'v', 15, max_distance => 2)
	JOIN keys a ON a.id = id_a JOIN keys b ON b.id = id_b
UNION ALL
SELECT 'others', a.row, b.row, rank FROM fasted_knn_join('sliced', 'v', 'others', 'v', 15, max_distance => 2)
	JOIN keys a ON a.id = id_a JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS row FROM others) b ON b.id = id_b;
SELECT b, slices, count(*) = (SELECT count(*) FROM right_near r WHERE r.b = n.b) AS as_many, count(*) > 1000 AS some,
	(SELECT count(*) FROM (SELECT a_row, b_row, rank FROM near m WHERE m.b = n.b AND m.slices = n.slices
		EXCEPT SELECT a_row, b_row, rank FROM right_near r WHERE r.b = n.b) x) AS wrong,
	count(*) FILTER (WHERE a_row / 64 % slices <> slice) AS elsewhere
FROM near n GROUP BY b, slices ORDER BY b, slices;

-- hashes of the rows distinguish real and double precision, zeros and invalid vectors
SELECT fasted_citus.vector_hash('{1,2}'::real[]) <> fasted_citus.vector_hash('{1,2}'::float8[]) AS f8,
	fasted_citus.vector_hash('{0.1,2}'::real[]) = fasted_citus.vector_hash('{0.1,2}'::numeric[]) AS n,
	fasted_citus.vector_hash('{1,2}'::real[]) <> fasted_citus.vector_hash('{2,1}'::real[]) AS o,
	fasted_citus.vector_hash('{1,2}'::real[]) <> fasted_citus.vector_hash('{1,2,0}'::real[]) AS d,
	fasted_citus.vector_hash('{0,-0,0}'::real[]) AS zeros,
	fasted_citus.vector_hash('{}'::real[]) AS empty, fasted_citus.vector_hash('{NaN}'::real[]) AS nan,
	fasted_citus.vector_hash(NULL::real[]) AS nothing;
SELECT count(DISTINCT fasted_citus.vector_hash(ARRAY[i, i / 7]::real[])) FROM generate_series(1, 100000) i;
SELECT fasted_citus.vector_hash(B'0000') AS zero, fasted_citus.vector_hash(B'01') <> fasted_citus.vector_hash(B'010') AS lengths,
	fasted_citus.vector_hash(B'') AS empty, length(fasted_citus.vector_bytes(B'101'::bit(3))) AS bytes;
SELECT count(DISTINCT fasted_citus.vector_hash(v)) = count(DISTINCT v) AS same
FROM (SELECT (i / 2 * 2654435761)::bit(64) AS v FROM generate_series(0, 10000) i) x;

-- vectors are sent in binary form: doubles, too, rows of any length, and invalid vectors
SELECT length(fasted_citus.vector_bytes('{1,2}'::real[])) AS f4, length(fasted_citus.vector_bytes('{1,2}'::float8[])) AS f8,
	fasted_citus.vector_bytes(NULL::real[]) AS nothing;
CREATE TABLE doubles (id int PRIMARY KEY, odd text, v float8[]);
INSERT INTO doubles SELECT i, repeat('x', i % 7), array_fill(i % 30 + 1e-9, ARRAY[3]) FROM generate_series(1, 300) i;
SELECT count(*) FROM fasted_self_join('doubles', 'v', 1);
SELECT sum(length(m) - 1) / 16 AS pairs FROM (SELECT fasted_citus.join_slice('doubles', 'v', 1, 'id', 'bigint', 'l2', false, 'pairs', s, 3) AS m
	FROM generate_series(0, 2) s) x WHERE get_byte(m, 0) = ascii('P');
INSERT INTO doubles VALUES (1000, '', '{1,NULL,3}');
SELECT fasted_citus.join_slice('doubles', 'v', 1, 'id', 'bigint', 'l2', false, 'pairs', 0, 1);
UPDATE doubles SET v = '{1,Infinity,3}' WHERE id = 1000;
SELECT fasted_citus.join_slice('doubles', 'v', 1, 'id', 'bigint', 'l2', false, 'pairs', 0, 1);
DROP TABLE doubles;

-- a change of any row changes the report
CREATE FUNCTION print() RETURNS bytea LANGUAGE sql AS $$ SELECT substr(m, 2, 20) FROM (SELECT
	fasted_citus.join_slice('sliced', 'v', 0, 'id', 'bigint', 'l2', false, 'count', 0, 1) AS m LIMIT 1) s $$;
CREATE TEMP TABLE before AS SELECT print();
BEGIN;
UPDATE sliced SET v = v[2:5] || v[1] WHERE id = (SELECT min(id) FROM sliced WHERE v[1] <> v[2]);
SELECT print() = (TABLE before) AS turned;
ROLLBACK;
BEGIN;
UPDATE sliced SET id = -1 WHERE id = (SELECT min(id) FROM sliced WHERE v IS NOT NULL);
SELECT print() = (TABLE before) AS renamed;
ROLLBACK;
BEGIN;
DELETE FROM sliced WHERE id = (SELECT max(id) FROM sliced WHERE v IS NOT NULL);
SELECT print() = (TABLE before) AS deleted;
ROLLBACK;
BEGIN;
DELETE FROM sliced WHERE v IS NULL;
CLUSTER sliced USING sliced_pkey;
SELECT print() = (TABLE before) AS same;
ROLLBACK;

-- rejected requests
SELECT fasted_citus.join_slice('sliced', 'v', 3, 'id', 'bigint', 'l2', false, 'pairs', 2, 2);
SELECT fasted_citus.join_slice('sliced', 'v', 3, 'id', 'bigint', 'l2', false, 'pairs', 0, 0);
SELECT fasted_citus.join_slice('sliced', 'v', 3, 'id', 'bigint', 'l2', false, 'nearest', 0, 1);
SELECT fasted_citus.join_slice('sliced', 'v', -3, 'id', 'bigint', 'l2', false, 'pairs', 0, 1);
SELECT fasted_citus.join_slice('sliced', 'v', 3, 'id', 'bigint', 'dot', false, 'pairs', 0, 1);
SELECT fasted_citus.join_slice('sliced', 'v', 3, 'v', 'bigint', 'l2', false, 'pairs', 0, 1);
CREATE TEMP VIEW nokey AS SELECT '{1,2}'::real[] AS v;
SELECT fasted_citus.join_slice('nokey', 'v', 1, 'id', 0, 'l2', true, 'pairs', 0, 1);
SELECT fasted_citus.join_slice('sliced', 'v', 3, 'id', 4294967295, 'l2', false, 'pairs', 0, 1);
SELECT fasted_citus.join_slice(0, 'v', 3, 'id', 'bigint', 'l2', false, 'pairs', 0, 1);
CREATE TEMP VIEW two_bits AS SELECT 1 AS id, B'10' AS v;
SELECT fasted_citus.join_slice('two_bits', 'v', 3, 'id', 'bigint', 'hamming', true, 'pairs', 0, 1);

SELECT fasted_citus.nearest_slice('sliced', 'v', 'id', 'others', 'v', 'id', 'bigint', 1, 2, 'l2', 2, 2);
SELECT fasted_citus.nearest_slice('sliced', 'v', 'id', 'others', 'v', 'id', 'bigint', 0, 2, 'l2', 0, 1);
SELECT fasted_citus.nearest_slice('sliced', 'v', 'id', 'others', 'v', 'id', 'bigint', 1, -2, 'l2', 0, 1);
SELECT fasted_citus.nearest_slice('nokey', 'v', 'id', 'others', 'v', 'id', 0, 1, 2, 'l2', 0, 1);

DROP TABLE others, shares, near, right_near, pruned_pairs, sliced, messages, keys, pairs, right_pairs, counts, connections;
DROP FUNCTION uint32, print;
