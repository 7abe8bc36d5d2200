-- What "make demo" shows, in a database of its own.
\set QUIET on
\set ON_ERROR_STOP on
\set eps 20
\pset footer off
SET client_min_messages = warning;

CREATE EXTENSION fasted;

CREATE TABLE digits (id int PRIMARY KEY, digit int NOT NULL, pixels real[] NOT NULL);
\copy digits FROM 'test/demo/digits.tsv'

-- A user of pgvector has a column of its type, and compares vectors by its operator.
SELECT count(*) > 0 AS pgvector FROM pg_available_extensions WHERE name = 'vector' \gset
\if :pgvector
	CREATE EXTENSION vector;
	ALTER TABLE digits ALTER pixels TYPE vector(64);
	\set operator 'pgvector''s operator'
	SELECT 'a.pixels <-> b.pixels' AS distance \gset
\else
	\set operator fasted_distance
	SELECT 'fasted_distance(a.pixels, b.pixels)' AS distance \gset
\endif
ANALYZE digits;

-- Images side by side, one text row for each of their 8 rows of pixels.
CREATE FUNCTION draw(VARIADIC ids int[]) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT '    ' || string_agg(pixels_row, ' | ' ORDER BY image)
	FROM (SELECT image, y,
			string_agg(repeat(substr(' .:-=+*#%@', 1 + ((pixels::real[])[8 * y + x] * 9 / 16)::int, 1), 2),
					   '' ORDER BY x) AS pixels_row
		  FROM unnest(ids) WITH ORDINALITY AS i (id, image) JOIN digits USING (id),
			generate_series(0, 7) AS y, generate_series(1, 8) AS x
		  GROUP BY image, y) AS r
	GROUP BY y ORDER BY y
$$;

SELECT count(*) AS n, count(*) * (count(*) - 1) / 2 AS all_pairs FROM digits \gset
\echo
\echo :n 'scans of handwritten digits, 8 x 8 pixels each, are in table "digits".'
\echo 'Which of their' :all_pairs 'pairs are alike, that is, within distance' :eps 'of each other?'
\echo
SELECT format(E'    SELECT a.id AS id_a, b.id AS id_b, %s AS dist\n    FROM digits a JOIN digits b ON a.id < b.id AND %s <= %s;',
	:'distance', :'distance', :eps) AS query \gset
\echo :query
\echo

-- PostgreSQL's own best: the planner would not bother for a table of this size.
SET fasted.join_node = off;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET max_parallel_workers_per_gather = 8;
SET jit = off;
SELECT clock_timestamp() AS t0 \gset
CREATE TABLE plain AS
	SELECT a.id AS id_a, b.id AS id_b, :distance AS dist
	FROM digits a JOIN digits b ON a.id < b.id AND :distance <= :eps;
SELECT clock_timestamp() AS t1 \gset
RESET ALL;
SET client_min_messages = warning;

SELECT extract(epoch FROM :'t1'::timestamptz - :'t0') AS seconds \gset plain_
SELECT count(*) AS pairs, round(:plain_seconds, 3) AS shown FROM plain \gset plain_

SELECT clock_timestamp() AS t0 \gset
CREATE TABLE near AS
	SELECT a.id AS id_a, b.id AS id_b, :distance AS dist
	FROM digits a JOIN digits b ON a.id < b.id AND :distance <= :eps;
SELECT clock_timestamp() AS t1 \gset

SELECT extract(epoch FROM :'t1'::timestamptz - :'t0') AS seconds \gset fasted_
SELECT count(*) AS pairs, round(:fasted_seconds, 3) AS shown, round(:plain_seconds / :fasted_seconds) AS times
FROM near \gset fasted_
\echo 'Nested loop over' :operator', in parallel:' :plain_pairs 'pairs in' :plain_shown 's'
\echo 'The same statement with fasted:' :fasted_pairs 'pairs in' :fasted_shown 's,' :fasted_times 'times as fast'
\echo
SELECT (SELECT count(*) FROM (TABLE near EXCEPT TABLE plain) x) AS near,
	(SELECT count(*) FROM (TABLE plain EXCEPT TABLE near) x) AS plain \gset only_
\echo 'Rows of either that the other lacks, by EXCEPT both ways:' :only_near 'and' :only_plain'.'
\echo 'A row is the two numbers and the distance, which is equal to the last bit.'

-- Pairs with what they are.
CREATE VIEW near_digits AS
	SELECT n.id_a, n.id_b, a.digit AS digit_a, b.digit AS digit_b, n.dist
	FROM near n JOIN digits a ON a.id = n.id_a JOIN digits b ON b.id = n.id_b;

SELECT round(100.0 * count(*) FILTER (WHERE digit_a = digit_b) / count(*), 1) AS same,
	count(*) FILTER (WHERE digit_a <> digit_b) AS differ
FROM near_digits \gset
\echo
\echo 'Both scans show the same digit in' :same '% of the pairs (the join never sees the labels).'
\echo 'The closest:'
\echo
SELECT id_a, id_b, digit_a, digit_b, round(dist::numeric, 3) AS dist
FROM near_digits ORDER BY near_digits.dist, id_a, id_b LIMIT 5;

\pset tuples_only on
\pset format unaligned
SELECT id_a AS a, id_b AS b, digit_a AS da, digit_b AS db, round(dist::numeric, 3) AS dist
FROM near_digits ORDER BY near_digits.dist, id_a, id_b LIMIT 1 \gset
\echo 'The closest pair, numbers' :a 'and' :b '(a' :da 'and a' :db', distance' :dist'):'
SELECT draw(:a, :b);
\echo
SELECT id_a AS a, id_b AS b, digit_a AS da, digit_b AS db, round(dist::numeric, 3) AS dist
FROM near_digits WHERE digit_a <> digit_b ORDER BY near_digits.dist, id_a, id_b LIMIT 1 \gset
\echo 'The closest of the' :differ 'that differ, numbers' :a 'and' :b '(a' :da 'and a' :db', distance' :dist'):'
SELECT draw(:a, :b);

-- Groups, and what stands for each.
\pset format aligned
\pset tuples_only off
\echo
\echo 'Which belong together? Clusters by density, of scans with at least nine others within 20:'
\echo
\echo '    SELECT * FROM fasted_cluster(''digits'', ''pixels'', 20, 10);'
\echo
CREATE TABLE groups AS SELECT * FROM fasted_cluster('digits', 'pixels', :eps, 10);
CREATE VIEW group_digits AS
	SELECT cluster, count(*) AS scans, mode() WITHIN GROUP (ORDER BY digit) AS digit,
		string_agg(DISTINCT digit::text, ' ') AS digits
	FROM groups JOIN digits USING (id) WHERE cluster IS NOT NULL GROUP BY cluster;
SELECT * FROM group_digits ORDER BY scans DESC, cluster LIMIT 8;
\pset tuples_only on
\pset format unaligned
\echo 'Of the five largest, the scan with the most neighbours (fasted_neighbors):'
SELECT draw(VARIADIC array_agg(id::int ORDER BY scans DESC, cluster))
FROM (SELECT DISTINCT ON (cluster) cluster, scans, id
	  FROM (SELECT * FROM group_digits ORDER BY scans DESC, cluster LIMIT 5) AS largest
		JOIN groups USING (cluster) JOIN fasted_neighbors('digits', 'pixels', :eps) USING (id)
	  ORDER BY cluster, neighbors DESC, id) AS best;
\echo
CREATE TABLE keepers AS SELECT * FROM fasted_keep_one('digits', 'pixels', :eps);
SELECT count(*) FILTER (WHERE kept = id) AS kept, count(*) AS scans FROM keepers \gset
\echo 'To have one of each kind,' :kept 'of the' :scans 'would do: no two of them are within' :eps 'of each other,'
\echo 'and all others are within that of one of them (fasted_keep_one).'
\echo
SELECT kept AS best, count(*) - 1 AS others FROM keepers GROUP BY kept ORDER BY 2 DESC, 1 LIMIT 1 \gset
\echo 'Number' :best 'would do for' :others 'others; here it is, with the four farthest of these:'
SELECT draw(VARIADIC array_agg(id::int ORDER BY dist = 0 DESC, dist, id))
FROM (SELECT * FROM keepers WHERE kept = :best ORDER BY id = kept DESC, dist DESC, id LIMIT 5) AS group_of_best;
\echo
SELECT count(*) AS lonely FROM fasted_neighbors('digits', 'pixels', 28) WHERE neighbors = 0 \gset
\echo 'Which are like no other?' :lonely 'have no neighbour within 28; here are five of them:'
\echo
\echo '    SELECT id FROM fasted_neighbors(''digits'', ''pixels'', 28) WHERE neighbors = 0;'
\echo
SELECT draw(VARIADIC array_agg(id::int ORDER BY id))
FROM (SELECT id FROM fasted_neighbors('digits', 'pixels', 28) WHERE neighbors = 0 ORDER BY id LIMIT 5) AS lonely;
