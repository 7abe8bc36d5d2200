-- getting-started.md's statements, in its order: made by "test/setup/examples update".
\getenv sources PG_ABS_SRCDIR
\cd :sources
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS fasted CASCADE;
CREATE EXTENSION fasted;
RESET client_min_messages;

CREATE TABLE documents (
    id uuid PRIMARY KEY,
    tenant text,
    collection text,
    content text,
    metadata jsonb,
    created timestamptz,
    embedding real[]
);

CREATE TEMP TABLE scans (number int, digit int, pixels real[]);
\copy scans FROM 'test/demo/digits.tsv'

CREATE TEMP VIEW incoming (id, tenant, collection, content, metadata, created, embedding) AS
SELECT md5(number::text)::uuid, CASE number % 2 WHEN 0 THEN 'acme' ELSE 'globex' END, 'scans',
    format('digit-%s/scan-%s', digit, number), jsonb_build_object('digit', digit),
    timestamptz '2026-01-01 UTC' + number * interval '1 hour', pixels
FROM scans;

INSERT INTO documents SELECT * FROM incoming WHERE created < '2026-03-12 UTC';
ANALYZE documents;
SELECT count(*) FROM documents;

SELECT round(eps::numeric, 3) AS eps FROM fasted_epsilon('documents', 'embedding', 0.1, metric => 'cosine');

SELECT a.content, b.content, round(fasted_cosine_distance(a.embedding, b.embedding)::numeric, 3) AS dist
FROM documents a JOIN documents b
    ON a.tenant = b.tenant AND a.created < b.created AND fasted_within(a.embedding, b.embedding, 0.016, 'cosine')
ORDER BY dist, a.created LIMIT 3;

BEGIN;

DELETE FROM documents d
USING (SELECT id, fasted_keep(id, embedding, 0.016, 'cosine') OVER (PARTITION BY tenant, collection ORDER BY created DESC) AS kept
       FROM documents) k
WHERE d.id = k.id AND k.kept <> k.id;

SELECT count(*) FROM documents;

COMMIT;                      -- or ROLLBACK

SELECT tenant, cluster, count(*), mode() WITHIN GROUP (ORDER BY metadata->'digit') AS digit
FROM (SELECT *, fasted_dbscan(embedding, 0.057, 10, 'cosine') OVER (PARTITION BY tenant ORDER BY created) AS cluster
      FROM documents) c
WHERE cluster IS NOT NULL
GROUP BY tenant, cluster ORDER BY count DESC, tenant, cluster LIMIT 3;

SELECT a.content, rank, b.content AS nearest, round(dist::numeric, 3) AS dist
FROM fasted_knn_join_typed(NULL::uuid, 'documents', 'embedding', 'documents', 'embedding', 2,
                           metric => 'cosine', partition_by => 'tenant')
    JOIN documents a ON a.id = id_a JOIN documents b ON b.id = id_b
ORDER BY a.created, rank LIMIT 2;

INSERT INTO documents
SELECT id, tenant, collection, content, metadata, created, embedding
FROM (SELECT *, fasted_keep(id, embedding, 0.016, 'cosine') OVER (PARTITION BY tenant, collection ORDER BY created DESC) AS kept
      FROM incoming n
      WHERE created >= '2026-03-12 UTC' AND NOT EXISTS (
          SELECT FROM documents d
          WHERE d.tenant = n.tenant AND d.collection = n.collection AND fasted_within(d.embedding, n.embedding, 0.016, 'cosine'))) n
WHERE kept = id;

SELECT count(*) FROM documents;

SET client_min_messages = warning;
DROP TABLE documents CASCADE;
