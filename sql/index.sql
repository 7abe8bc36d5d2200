-- index.md's statements, in its order: made by "test/setup/examples update".
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS fasted CASCADE;
CREATE EXTENSION fasted;
RESET client_min_messages;

CREATE TABLE colours (id bigint PRIMARY KEY, palette int, name text, embedding real[]);
INSERT INTO colours VALUES
    (1, 1, 'aqua', '{0, 1, 1}'),  (2, 1, 'tomato', '{1, 0.39, 0.28}'),  (3, 2, 'coral', '{1, 0.5, 0.31}'),
    (4, 2, 'navy', '{0, 0, 0.5}'),  (5, 1, 'ivory', '{1, 1, 0.94}');
CREATE INDEX ON colours USING fasted (embedding, palette);

-- all rows within a distance
SELECT name FROM colours WHERE embedding <-> '{1, 0.4, 0.3}' < 0.2 ORDER BY id;

-- the nearest rows, of one palette
SELECT name FROM colours WHERE palette = 1 ORDER BY embedding <-> '{1, 0.4, 0.3}' LIMIT 2;

CREATE TABLE texts (id bigint PRIMARY KEY, content text, embedding real[],
    EXCLUDE USING fasted (fasted_ball(embedding, 0.1) WITH &&));
INSERT INTO texts VALUES (1, 'Hello', '{1, 0.4, 0.3}'), (2, 'Good day', '{0, 1, 0.2}');
INSERT INTO texts VALUES (3, 'Hello!', '{1, 0.5, 0.3}') ON CONFLICT DO NOTHING;
SELECT id FROM texts ORDER BY id;

SET client_min_messages = warning;
DROP TABLE colours CASCADE;
DROP TABLE texts CASCADE;
