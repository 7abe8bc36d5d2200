-- README's statements, in its order: made by "test/setup/readme update".
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS fasted CASCADE;
RESET client_min_messages;

CREATE EXTENSION fasted;
CREATE TABLE items (id bigint PRIMARY KEY, title text, created timestamptz DEFAULT now(), embedding real[]);
INSERT INTO items (id, title, embedding) VALUES
    (1, 'aqua', '{0, 1, 1}'), (2, 'cyan', '{0, 1, 1}'), (3, 'tomato', '{1, 0.39, 0.28}'),
    (4, 'coral', '{1, 0.5, 0.31}'), (5, 'navy', '{0, 0, 0.5}'), (6, 'ivory', '{1, 1, 0.94}');

SELECT * FROM fasted_self_join('items', 'embedding', 0.3) ORDER BY dist;

-- who is near whom
SELECT a.title, b.title, p.dist
FROM fasted_self_join('items', 'embedding', 0.3) AS p
JOIN items a ON a.id = p.id_a
JOIN items b ON b.id = p.id_b
ORDER BY p.dist;

-- with about one neighbour per row: fasted_epsilon finds the distance
SELECT * FROM fasted_self_join('items', 'embedding', (SELECT eps FROM fasted_epsilon('items', 'embedding', 1)))
ORDER BY dist;

-- exact duplicates
SELECT * FROM fasted_self_join('items', 'embedding', 0);

-- rows without any neighbour
SELECT id FROM fasted_neighbors('items', 'embedding', 0.8) WHERE neighbors = 0;

-- keys that are no integers: a null of their type comes first
SELECT * FROM fasted_self_join_typed(NULL::text, 'items', 'embedding', 0.3, id_column => 'title') ORDER BY dist;

-- part of a table, or a view without a primary key
CREATE VIEW recent AS SELECT * FROM items WHERE created > now() - interval '1 day';
SELECT * FROM fasted_self_join('recent', 'embedding', 0.3, id_column => 'id') ORDER BY dist;

DELETE FROM items
USING fasted_keep_one('items', 'embedding', 0.3, 'created', descending => true) AS k
WHERE items.id = k.id AND k.kept <> k.id;

SET client_min_messages = warning;
DROP TABLE items CASCADE;
