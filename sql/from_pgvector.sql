-- from-pgvector.md's statements, in its order: made by "test/setup/examples update".
SELECT count(*) = 0 AS no_pgvector FROM pg_available_extensions WHERE name = 'vector' \gset
\if :no_pgvector
\quit
\endif
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS fasted CASCADE;
CREATE EXTENSION fasted;
DROP EXTENSION IF EXISTS vector CASCADE;
RESET client_min_messages;

CREATE EXTENSION vector;
CREATE TABLE documents (id bigint PRIMARY KEY, tenant int, embedding vector(3));
INSERT INTO documents VALUES (1, 1, '[0,1,1]'), (2, 1, '[0,1,1]'), (3, 1, '[1,0.39,0.28]'), (4, 2, '[1,0.5,0.31]');

SELECT fasted_distance('{0}', '{0}');
SELECT a.id, b.id, a.embedding <-> b.embedding AS dist
FROM documents a JOIN documents b ON a.id < b.id AND a.embedding <-> b.embedding < 0.3
ORDER BY dist, a.id;

SET client_min_messages = warning;
DROP TABLE documents CASCADE;
DROP EXTENSION vector CASCADE;
