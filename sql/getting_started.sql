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
    source text,
    content text,
    metadata jsonb,
    created timestamptz,
    embedding real[]
);

CREATE TEMP TABLE incoming (LIKE documents);
\copy incoming FROM 'test/demo/documents.tsv'

INSERT INTO documents SELECT * FROM incoming WHERE source <> 'vacuumdb';
ANALYZE documents;

SELECT round(eps::numeric, 3) AS eps
FROM fasted_epsilon('documents', 'embedding', 0.1, metric => 'cosine', ignore_copies => true);

SELECT left(a.content, 50) AS a, left(b.content, 50) AS b, round(fasted_cosine_distance(a.embedding, b.embedding)::numeric, 3) AS dist
FROM documents a JOIN documents b
    ON a.tenant = b.tenant AND a.created < b.created AND fasted_within(a.embedding, b.embedding, 0.05, 'cosine')
ORDER BY dist DESC, a.created LIMIT 2;

BEGIN;

WITH deleted AS (
    DELETE FROM documents d
    USING (SELECT id, fasted_keep(embedding, 0.02, id, 'cosine') OVER (PARTITION BY tenant, collection ORDER BY created DESC NULLS LAST) AS kept
           FROM documents) k
    WHERE d.id = k.id AND k.kept <> k.id
    RETURNING d.*, kept)
SELECT count(*) OVER () AS deleted, left(d.content, 30) AS content, left(k.content, 30) AS kept
FROM deleted d JOIN documents k ON k.id = kept
ORDER BY fasted_cosine_distance(d.embedding, k.embedding) DESC LIMIT 2;

COMMIT;                      -- or ROLLBACK

CREATE TEMP TABLE topics AS
SELECT id, content, embedding, (fasted_hdbscan_cluster(embedding, 10, 5, metric => 'cosine') OVER (ORDER BY created)).*
FROM documents;

SELECT cluster, left(content, 60) AS content
FROM topics JOIN (SELECT fasted_medoid(embedding, id, 'cosine') AS id FROM topics WHERE cluster IS NOT NULL GROUP BY cluster) m USING (id)
ORDER BY cluster LIMIT 3;

CREATE INDEX ON documents USING fasted (embedding real_cosine_ops);

INSERT INTO documents
SELECT id, tenant, collection, source, content, metadata, created, embedding
FROM (SELECT *, fasted_keep(embedding, 0.02, id, 'cosine') OVER (PARTITION BY tenant, collection ORDER BY created DESC NULLS LAST) AS kept
      FROM incoming n
      WHERE source = 'vacuumdb' AND NOT EXISTS (
          SELECT FROM documents d
          WHERE (d.tenant, d.collection) IS NOT DISTINCT FROM (n.tenant, n.collection)
              AND fasted_within(d.embedding, n.embedding, 0.02, 'cosine'))) n
WHERE kept = id
ON CONFLICT DO NOTHING;

SELECT count(*) FROM documents WHERE source = 'vacuumdb';

CREATE TEMP VIEW arrived AS SELECT id, embedding FROM documents WHERE source = 'vacuumdb';

WITH assigned AS (
    SELECT DISTINCT ON (id_a) id_a AS id, CASE WHEN reach <= birth_distance THEN cluster END AS cluster, reach <= last AS certain
    FROM (SELECT *, max(dist) FILTER (WHERE rank <= 5) OVER w AS core, max(dist) OVER w AS last
          FROM fasted_knn_join('arrived', 'embedding', 'topics', 'embedding', 10, id_type => NULL::uuid,
                               metric => 'cosine', a_id => 'id', b_id => 'id')
          WINDOW w AS (PARTITION BY id_a)) n
        JOIN topics ON id = id_b, greatest(dist, core, core_distance) AS reach
    ORDER BY id_a, reach, rank)
SELECT cluster, count(*), bool_and(certain) AS certain FROM assigned GROUP BY cluster ORDER BY count(*) DESC, cluster;

SET client_min_messages = warning;
DROP TABLE documents CASCADE;
