-- What "make demo" shows, in a database of its own.
\set QUIET on
\set ON_ERROR_STOP on
\set eps 20
\pset footer off
SET client_min_messages = warning;

CREATE EXTENSION fasted;

CREATE TABLE digits (id int PRIMARY KEY, digit int NOT NULL, pixels real[] NOT NULL);
\copy digits FROM 'test/demo/digits.tsv'
ANALYZE digits;

-- The first call of a session loads the library, which is not what we time.
SELECT count(*) AS exact_duplicates FROM fasted_self_join('digits', 'pixels', 0) \gset

SELECT clock_timestamp() AS t0 \gset
CREATE TABLE near AS SELECT * FROM fasted_self_join('digits', 'pixels', :eps);
SELECT clock_timestamp() AS t1 \gset

-- Pairs with what they are.
CREATE VIEW near_digits AS
	SELECT n.id_a, n.id_b, a.digit AS digit_a, b.digit AS digit_b, n.dist
	FROM near n JOIN digits a ON a.id = n.id_a JOIN digits b ON b.id = n.id_b;

-- Two images side by side, one text row for each of their 8 rows of pixels.
CREATE FUNCTION draw(a int, b int) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT '    ' || string_agg(pixels_row, ' | ' ORDER BY image)
	FROM (SELECT image, y,
			string_agg(repeat(substr(' .:-=+*#%@', 1 + (pixels[8 * y + x] * 9 / 16)::int, 1), 2),
					   '' ORDER BY x) AS pixels_row
		  FROM (VALUES (1, a), (2, b)) AS i (image, id) JOIN digits USING (id),
			generate_series(0, 7) AS y, generate_series(1, 8) AS x
		  GROUP BY image, y) AS r
	GROUP BY y ORDER BY y
$$;

\echo
SELECT count(*) AS n, count(*) * (count(*) - 1) / 2 AS all_pairs FROM digits \gset
SELECT count(*) AS pairs,
	round(100.0 * count(*) FILTER (WHERE digit_a = digit_b) / count(*), 1) AS same,
	count(*) FILTER (WHERE digit_a <> digit_b) AS differ,
	round(1000 * extract(epoch FROM :'t1'::timestamptz - :'t0')) AS ms
FROM near_digits \gset
\echo :n 'scans of handwritten digits, 8 x 8 pixels each, in a table:' :all_pairs 'pairs.'
\echo
SELECT format('    SELECT * FROM fasted_self_join(''digits'', ''pixels'', %s);', :eps) AS query \gset
\echo :query
\echo
\echo 'finds the' :pairs 'pairs within distance' :eps 'in' :ms 'ms.'
\echo 'Both scans show the same digit in' :same '% of them (the join never sees the labels).'
\echo
\echo 'The closest pairs:'
\echo
SELECT id_a, id_b, digit_a, digit_b, round(dist::numeric, 3) AS dist
FROM near_digits ORDER BY near_digits.dist, id_a, id_b LIMIT 8;

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
