-- What "make demo" shows, in a database of its own.
\set QUIET on
\set ON_ERROR_STOP on
\set eps 0.1
\pset footer off
SET client_min_messages = warning;

CREATE EXTENSION fasted;
-- for joins by pgvector's operators, in new sessions
ALTER DATABASE :"DBNAME" SET session_preload_libraries = 'fasted';

-- The table of doc/getting-started.md.
CREATE TABLE documents (
	id uuid PRIMARY KEY, tenant text, collection text, source text, content text, metadata jsonb, created timestamptz,
	embedding real[]);
\copy documents FROM 'test/demo/documents.tsv'

-- A larger table for the comparison: four variants of each embedding.
CREATE TABLE variants AS
	SELECT row_number() OVER (ORDER BY created, i) AS id,
		embedding[:i - 1] || (embedding[i] + 1)::real || embedding[i + 1:] AS embedding
	FROM documents, generate_series(1, 4) AS i;

-- A user of pgvector has columns of its type, and compares vectors by its operator.
SELECT count(*) > 0 AS pgvector FROM pg_available_extensions WHERE name = 'vector' \gset
\if :pgvector
	CREATE EXTENSION vector;
	ALTER TABLE documents ALTER embedding TYPE vector(64);
	ALTER TABLE variants ALTER embedding TYPE vector(64);
	\set operator 'pgvector''s operator'
	SELECT 'a.embedding <=> b.embedding' AS distance \gset
\else
	\set operator fasted_cosine_distance
	SELECT 'fasted_cosine_distance(a.embedding, b.embedding)' AS distance \gset
\endif
ANALYZE;

SELECT count(*) AS n FROM documents \gset
SELECT count(*) AS n, count(*) * (count(*) - 1) / 2 AS all_pairs FROM variants \gset variants_
\echo
\echo :n 'texts of PostgreSQL''s manual, with their embeddings, are in table "documents".'
\echo :variants_n 'embeddings, four variants of each, are in table "variants".'
\echo 'Which of their' :variants_all_pairs 'pairs are similar, that is, within cosine distance' :eps'?'
\echo
SELECT format(E'    SELECT a.id AS id_a, b.id AS id_b, %s AS dist\n    FROM variants a JOIN variants b ON a.id < b.id AND %s <= %s;',
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
	FROM variants a JOIN variants b ON a.id < b.id AND :distance <= :eps;
SELECT clock_timestamp() AS t1 \gset
SELECT extract(epoch FROM :'t1'::timestamptz - :'t0') AS seconds \gset plain_
SELECT count(*) AS pairs, round(:plain_seconds, 3) AS shown FROM plain \gset plain_

-- A new session, with the settings that a user has.
\c
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.top_node(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	EXECUTE 'EXPLAIN (COSTS OFF) ' || query INTO line;
	RETURN line;
END $$;
SELECT pg_temp.top_node(:'query') AS top_node \gset
SELECT clock_timestamp() AS t0 \gset
CREATE TABLE near AS
	SELECT a.id AS id_a, b.id AS id_b, :distance AS dist
	FROM variants a JOIN variants b ON a.id < b.id AND :distance <= :eps;
SELECT clock_timestamp() AS t1 \gset

SELECT extract(epoch FROM :'t1'::timestamptz - :'t0') AS seconds \gset fasted_
SELECT count(*) AS pairs, round(:fasted_seconds, 3) AS shown, round(:plain_seconds / :fasted_seconds) AS times
FROM near \gset fasted_
\echo 'Nested loop over' :operator', in parallel:' :plain_pairs 'pairs in' :plain_shown 's'
\echo 'The same statement with fasted:' :fasted_pairs 'pairs in' :fasted_shown 's,' :fasted_times 'times as fast'
\echo 'The first line of EXPLAIN:' :top_node
\echo
SELECT (SELECT count(*) FROM (TABLE near EXCEPT TABLE plain) x) AS near,
	(SELECT count(*) FROM (TABLE plain EXCEPT TABLE near) x) AS plain \gset only_
\echo 'Rows of either that the other lacks, by EXCEPT both ways:' :only_near 'and' :only_plain'.'
\echo 'A row is the two numbers and the distance, which is equal to the last bit.'

-- Pairs of texts.
CREATE TABLE pairs AS
	SELECT a.source AS source_a, a.content AS content_a, b.source AS source_b, b.content AS content_b, :distance AS dist
	FROM documents a JOIN documents b ON a.created < b.created AND :distance <= :eps;
SELECT count(*) AS n, count(*) FILTER (WHERE content_a = content_b) AS equal FROM pairs \gset pairs_
\echo
\echo 'Of the' :n 'texts,' :pairs_n 'pairs are within' :eps', and' :pairs_equal 'of these are of equal texts.'
\echo 'The closest of the others, each wording once:'
\pset tuples_only on
\pset format unaligned
SELECT format(E'\n    %-28s%s\n    %-28s%s', source_a, left(content_a, 100), source_b, left(content_b, 100))
FROM (SELECT DISTINCT ON (least(content_a, content_b), greatest(content_a, content_b)) * FROM pairs
	  WHERE content_a <> content_b ORDER BY least(content_a, content_b), greatest(content_a, content_b), source_a, source_b) AS p
ORDER BY dist, source_a, source_b LIMIT 5;

-- Clusters, rows to keep, outliers.
\echo
\echo 'Clusters by density, of texts with at least four others within 0.2 (fasted_dbscan), with up to three of their texts:'
CREATE TABLE clusters AS
	SELECT source, content, fasted_dbscan(embedding, 0.2, 5, 'cosine') OVER (ORDER BY created) AS cluster FROM documents;
SELECT format(E'\n    Texts: %s, pages: %s\n        %s', count(*), count(DISTINCT source),
	array_to_string((array_agg(DISTINCT left(content, 100)))[:3], E'\n        '))
FROM clusters WHERE cluster IS NOT NULL GROUP BY cluster ORDER BY count(*) DESC, cluster LIMIT 6;
\echo
SELECT count(*) AS n FROM (SELECT id, fasted_keep(embedding, 0.02, id, 'cosine') OVER (ORDER BY created DESC) AS kept FROM documents) k
WHERE kept = id \gset kept_
\echo 'Without near-duplicates,' :kept_n 'of the' :n 'texts remain: no two of them are within 0.02 of each other,'
\echo 'and each of the others is within 0.02 of one of them (fasted_keep).'
\echo
CREATE TABLE neighbors AS
	SELECT content, source, created, fasted_neighbor_count(embedding, 0.5, 'cosine') OVER () AS neighbors FROM documents;
SELECT count(*) AS n FROM neighbors WHERE neighbors = 0 \gset outliers_
\echo 'Which are like no other?' :outliers_n 'have no neighbour within 0.5 (fasted_neighbor_count), for example:'
\echo
SELECT format('    %-28s%s', source, left(content, 100)) FROM neighbors WHERE neighbors = 0 ORDER BY created LIMIT 5;
