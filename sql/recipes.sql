-- Statements of the pages, over rows without a vector, zero vectors, rows without a tenant, and partitions.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

CREATE TABLE items (id bigint PRIMARY KEY, title text, tenant text, created date, embedding real[]) PARTITION BY HASH (id);
CREATE TABLE items_0 PARTITION OF items FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE items_1 PARTITION OF items FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO items
SELECT i, 'item ' || i, (ARRAY['a', 'b', NULL])[1 + i % 3], date '2026-01-01' + i * 37 % 50,
	CASE WHEN i % 10 = 4 THEN NULL WHEN i % 10 = 7 THEN '{0,0}' ELSE ARRAY[1 + i * i % 23, 1 + i * 7 % 11] END
FROM generate_series(1, 120) AS i;
ANALYZE items;

-- keep one of each set of duplicates: rows without a vector remain
BEGIN;
DELETE FROM items
USING (SELECT id, fasted_keep(embedding, 0.3, id) OVER (PARTITION BY tenant ORDER BY created DESC NULLS LAST) AS kept FROM items) AS k
WHERE items.id = k.id AND k.kept <> k.id;
SELECT count(embedding) < 108 AS deleted, count(*) - count(embedding) AS without_vector,
	(SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND a.tenant IS NOT DISTINCT FROM b.tenant AND fasted_within(a.embedding, b.embedding, 0.3)) AS pairs
FROM items;
ROLLBACK;

-- the same by fasted_keep_one, which does not return rows without a vector
SELECT count(*), count(*) FILTER (WHERE k.kept IS DISTINCT FROM o.kept) AS differ, count(*) FILTER (WHERE o.id IS NULL AND k.kept = k.id) AS without_vector
FROM (SELECT id, embedding, fasted_keep(embedding, 0.3, id) OVER (ORDER BY id) AS kept FROM items) AS k
	LEFT JOIN fasted_keep_one('items', 'embedding', 0.3) AS o USING (id);

-- clusters: no group of the rows without a vector
SELECT count(*) > 1 AS groups, bool_and(array_position(vectors, NULL) IS NULL) AS with_vectors
FROM (SELECT cluster, array_agg(embedding::text) AS vectors
	FROM (SELECT id, embedding, fasted_dbscan(embedding, 0.3) OVER (ORDER BY id) AS cluster FROM items) AS c
	WHERE cluster IS NOT NULL
	GROUP BY cluster HAVING count(*) > 1) AS g;
-- clusters of partitions are numbered from 0 in each
SELECT count(*) = count(DISTINCT component) AS separate, bool_and(ids <@ all_ids AND all_ids <@ ids) AS same
FROM (SELECT array_agg(id) AS ids, min(id) AS first
	FROM (SELECT id, tenant, fasted_dbscan(embedding, 2) OVER (PARTITION BY tenant ORDER BY id) AS cluster FROM items) AS c
	WHERE cluster IS NOT NULL AND tenant IS NOT NULL GROUP BY tenant, cluster) AS w
	JOIN (SELECT cluster AS component, array_agg(id) AS all_ids, min(id) AS first
		FROM fasted_cluster('items', 'embedding', 2, partition_by => 'tenant') GROUP BY cluster) AS f USING (first);

-- components from the spanning tree of each partition, for any eps and metric
CREATE TABLE tree (id_a bigint, id_b bigint, dist float8, tenant text);
CREATE FUNCTION cut(eps float8) RETURNS TABLE (component bigint, ids bigint[]) LANGUAGE sql AS $$
	WITH RECURSIVE edge AS MATERIALIZED (
		SELECT id_a AS a, id_b AS b, dist FROM tree UNION ALL SELECT id_b, id_a, dist FROM tree),
	walk (id, previous, component) AS (
		SELECT min(id_a), NULL::bigint, min(id_a) FROM tree GROUP BY tenant
		UNION ALL
		SELECT b, walk.id, CASE WHEN dist <= cut.eps THEN component ELSE b END
		FROM walk JOIN edge ON a = walk.id AND b IS DISTINCT FROM previous)
	SELECT component, array_agg(id ORDER BY id) FROM walk GROUP BY component HAVING count(*) > 1 $$;
CREATE FUNCTION cuts(metric text, VARIADIC eps float8[], OUT components bigint, OUT missing bigint, OUT other bigint) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	e float8;
BEGIN
	TRUNCATE tree;
	INSERT INTO tree SELECT id_a, id_b, dist, tenant
	FROM fasted_spanning_tree('items', 'embedding', partition_by => 'tenant', metric => cuts.metric) JOIN items ON id = id_a;
	FOREACH e IN ARRAY eps LOOP
		RETURN QUERY WITH f AS (SELECT array_agg(id ORDER BY id) AS ids FROM fasted_cluster('items', 'embedding', e, metric => cuts.metric, partition_by => 'tenant')
				GROUP BY cluster HAVING count(*) > 1),
			c AS (SELECT ids FROM cut(e))
		SELECT (SELECT count(*) FROM f), (SELECT count(*) FROM (TABLE f EXCEPT TABLE c) x), (SELECT count(*) FROM (TABLE c EXCEPT TABLE f) x);
	END LOOP;
END $$;
SELECT * FROM cuts('l2', 0, 1.5, 3);
SELECT * FROM cuts('cosine', 0, 0.001);

-- two distances in an OR: UNION, with the keys of both sides
SELECT (SELECT count(*) FROM (
		SELECT a.id, b.id, a.title, b.title FROM items a JOIN items b ON a.id < b.id AND fasted_within(a.embedding, b.embedding, 0.3)
		UNION
		SELECT a.id, b.id, a.title, b.title FROM items a JOIN items b ON a.id < b.id AND fasted_within(a.embedding, b.embedding, 0.0001, 'cosine')) AS u) =
	(SELECT count(*) FROM items a JOIN items b ON a.id < b.id AND (fasted_within(a.embedding, b.embedding, 0.3) OR fasted_within(a.embedding, b.embedding, 0.0001, 'cosine'))) AS same;

-- new rows every night: rows without a vector are inserted once for each id, and copies are not, also without a tenant
CREATE TABLE documents (LIKE items INCLUDING ALL);
CREATE TEMP TABLE incoming (LIKE items);
CREATE PROCEDURE night() LANGUAGE sql AS $$
	INSERT INTO documents
	SELECT id, title, tenant, created, embedding
	FROM (SELECT *, fasted_keep(embedding, 0.3, id) OVER (PARTITION BY tenant, title ORDER BY created DESC NULLS LAST, id) AS kept
		FROM incoming n
		WHERE NOT EXISTS (
			SELECT FROM documents d
			WHERE (d.tenant, d.title) IS NOT DISTINCT FROM (n.tenant, n.title)
				AND fasted_within(d.embedding, n.embedding, 0.3))) n
	WHERE kept = id
	ON CONFLICT DO NOTHING $$;
INSERT INTO incoming SELECT id, left(title, 4), tenant, created, embedding FROM items;
CALL night();
SELECT tenant, count(*), count(embedding), count(*) FILTER (WHERE embedding = '{0,0}') AS zeros FROM documents GROUP BY tenant ORDER BY tenant;
CALL night();
SELECT count(*) FROM documents;
UPDATE incoming SET id = id + 1000;
CALL night();
SELECT count(*) FILTER (WHERE embedding IS NULL) AS without_vector, count(*) FROM documents WHERE id > 1000;

-- a new tenant: an estimated eps, for no row, one row and two rows
CREATE TEMP VIEW tenants AS SELECT * FROM items WHERE tenant = 'new';
SET client_min_messages = warning;
SELECT * FROM fasted_self_join('tenants', 'embedding', (SELECT eps FROM fasted_epsilon('tenants', 'embedding', 1)), id_column => 'id') ORDER BY dist;
INSERT INTO items VALUES (1001, 'first', 'new', '2026-03-01', '{1,2}'), (1002, 'none', 'new', '2026-03-01', NULL);
SELECT * FROM fasted_self_join('tenants', 'embedding', (SELECT eps FROM fasted_epsilon('tenants', 'embedding', 1)), id_column => 'id') ORDER BY dist;
SELECT id, kept FROM fasted_keep_one('tenants', 'embedding', (SELECT coalesce(eps, 0) FROM fasted_epsilon('tenants', 'embedding', 1)), id_column => 'id');
SELECT id, fasted_keep(embedding, (SELECT coalesce(eps, 0) FROM fasted_epsilon('tenants', 'embedding', 1)), id) OVER () AS kept FROM tenants ORDER BY id;
INSERT INTO items VALUES (1003, 'second', 'new', '2026-03-02', '{1,3}');
SELECT * FROM fasted_self_join('tenants', 'embedding', (SELECT eps FROM fasted_epsilon('tenants', 'embedding', 1)), id_column => 'id') ORDER BY dist;
RESET client_min_messages;

DROP VIEW tenants;
DROP PROCEDURE night;
DROP FUNCTION cut, cuts;
DROP TABLE items, documents, incoming, tree;
