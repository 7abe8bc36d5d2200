-- What "make demo DATA=..." shows after demo.sql: more sentences, with their embeddings.
\set QUIET on
\set ON_ERROR_STOP on
\pset footer off
SET client_min_messages = warning;

CREATE TABLE sentences (id int PRIMARY KEY, sentence text NOT NULL, embedding real[] NOT NULL);
\copy sentences FROM pstdin
ANALYZE sentences;

SELECT count(*) AS n, count(*) * (count(*) - 1) / 2 AS all_pairs FROM sentences \gset
\echo
\echo :n 'sentences of the descriptions of Debian packages are in table "sentences".'
\echo 'Which of their' :all_pairs 'pairs mean nearly the same, by a cosine of 0.95 or more?'
\echo
\echo '    SELECT a.id AS id_a, b.id AS id_b FROM sentences a JOIN sentences b'
\echo '    ON a.id < b.id AND fasted_within(a.embedding, b.embedding, 0.05, ''cosine'');'
\echo
SELECT clock_timestamp() AS t0 \gset
CREATE TABLE alike AS
	SELECT a.id AS id_a, b.id AS id_b FROM sentences a JOIN sentences b
	ON a.id < b.id AND fasted_within(a.embedding, b.embedding, 0.05, 'cosine');
SELECT clock_timestamp() AS t1 \gset
SELECT count(*) AS pairs, round(extract(epoch FROM :'t1'::timestamptz - :'t0'), 2) AS seconds FROM alike \gset
\echo '   ' :pairs 'pairs in' :seconds 's'
\echo
\echo 'Five of them, at random:'
\pset tuples_only on
\pset format unaligned
SELECT format(E'\n    %s\n    %s', a.sentence, b.sentence)
FROM alike JOIN sentences a ON a.id = id_a JOIN sentences b ON b.id = id_b
ORDER BY hashint8(id_a::int8 * 1000003 + id_b), id_a, id_b LIMIT 5;
\echo
