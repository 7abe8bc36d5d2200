-- README's statements, in its order: made by "test/setup/readme update".
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS fasted CASCADE;
RESET client_min_messages;

CREATE EXTENSION fasted;
CREATE TABLE items (id bigint PRIMARY KEY, title text, created timestamptz DEFAULT now(), embedding real[]);
INSERT INTO items (id, title, embedding) VALUES
    (1, 'aqua', '{0, 1, 1}'), (2, 'cyan', '{0, 1, 1}'), (3, 'tomato', '{1, 0.39, 0.28}'),
    (4, 'coral', '{1, 0.5, 0.31}'), (5, 'navy', '{0, 0, 0.5}'), (6, 'ivory', '{1, 1, 0.94}');

SELECT a.title, b.title, fasted_distance(a.embedding, b.embedding) AS dist
FROM items a JOIN items b ON a.id < b.id AND fasted_within(a.embedding, b.embedding, 0.3)
ORDER BY dist;

-- or by a function, for ad-hoc work
SELECT * FROM fasted_self_join('items', 'embedding', 0.3) ORDER BY dist;

-- with about one neighbour per row: fasted_epsilon finds the distance
SELECT * FROM fasted_self_join('items', 'embedding', (SELECT eps FROM fasted_epsilon('items', 'embedding', 1)))
ORDER BY dist;

-- exact duplicates
SELECT * FROM fasted_self_join('items', 'embedding', 0);

-- by cosine distance: what points in nearly the same direction
SELECT * FROM fasted_self_join('items', 'embedding', 0.05, metric => 'cosine') ORDER BY dist;

-- rows without any neighbour
SELECT id FROM fasted_neighbors('items', 'embedding', 0.8) WHERE neighbors = 0;

-- keys that are no integers: a null of their type comes first
SELECT * FROM fasted_self_join_typed(NULL::text, 'items', 'embedding', 0.3, id_column => 'title') ORDER BY dist;

-- part of a table, or a view without a primary key
CREATE VIEW recent AS SELECT * FROM items WHERE created > now() - interval '1 day';
SELECT * FROM fasted_self_join('recent', 'embedding', 0.3, id_column => 'id') ORDER BY dist;

-- only what is new, by cosine distance
WITH incoming (id, title, embedding) AS (VALUES (7, 'teal', '{0, 0.5, 0.5}'::real[]), (8, 'lime', '{0, 1, 0}'))
INSERT INTO items SELECT id, title, now(), embedding FROM incoming n
WHERE NOT EXISTS (SELECT FROM items i WHERE fasted_within(i.embedding, n.embedding, 0.05, 'cosine'))
RETURNING title;

DELETE FROM items
USING fasted_keep_one('items', 'embedding', 0.3, 'created', descending => true) AS k
WHERE items.id = k.id AND k.kept <> k.id;

SET client_min_messages = warning;
DROP TABLE items CASCADE;
