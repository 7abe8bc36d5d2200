-- README.md's statements, in its order: made by "test/setup/examples update".
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS fasted CASCADE;

CREATE EXTENSION fasted;
RESET client_min_messages;
CREATE TABLE items (id bigint PRIMARY KEY, title text, created date, embedding real[]);
INSERT INTO items VALUES
    (1, 'aqua', '2026-01-05', '{0, 1, 1}'),          (2, 'cyan', '2026-03-09', '{0, 1, 1}'),
    (3, 'tomato', '2026-02-01', '{1, 0.39, 0.28}'),  (4, 'coral', '2026-01-20', '{1, 0.5, 0.31}'),
    (5, 'navy', '2026-02-14', '{0, 0, 0.5}'),        (6, 'ivory', '2026-03-01', '{1, 1, 0.94}');

SELECT a.title, b.title, fasted_distance(a.embedding, b.embedding) AS dist
FROM items a JOIN items b ON a.id < b.id AND fasted_within(a.embedding, b.embedding, 0.3)
ORDER BY dist;

SELECT * FROM fasted_self_join('items', 'embedding', 0.3) ORDER BY dist;

BEGIN;
DELETE FROM items
USING (SELECT id, fasted_keep(embedding, 0.3, id) OVER (ORDER BY created DESC NULLS LAST) AS kept FROM items) AS k
WHERE items.id = k.id AND k.kept <> k.id
RETURNING items.title, k.kept;
ROLLBACK;                    -- or COMMIT

SELECT cluster, array_agg(title ORDER BY id)
FROM (SELECT id, title, fasted_dbscan(embedding, 0.3) OVER (ORDER BY id) AS cluster FROM items) AS c
GROUP BY cluster HAVING count(*) > 1 ORDER BY cluster;

SELECT a.title, array_agg(b.title ORDER BY rank) AS nearest
FROM fasted_knn_join('items', 'embedding', 'items', 'embedding', 2)
    JOIN items a ON a.id = id_a JOIN items b ON b.id = id_b
GROUP BY a.id ORDER BY a.id LIMIT 2;

CREATE INDEX ON items USING fasted (embedding);
SELECT title FROM items ORDER BY embedding <-> '{1, 0.4, 0.3}' LIMIT 2;

SET client_min_messages = warning;
DROP TABLE items CASCADE;
