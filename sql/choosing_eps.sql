-- choosing-eps.md's statements, in its order: made by "test/setup/examples update".
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS fasted CASCADE;
CREATE EXTENSION fasted;
RESET client_min_messages;

CREATE TABLE notes AS
SELECT g AS id, array(SELECT (abs(hashint4(g / 3 * 100 + k)) % 100 + (g % 3) * 2 * (k % 2))::real FROM generate_series(1, 8) k) AS v
FROM generate_series(1, 300) g;

SELECT eps FROM fasted_epsilon('notes', 'v', 1, seed => 1);

SELECT a.id, b.id, fasted_distance(a.v, b.v) AS dist FROM notes a, notes b WHERE a.id = 30 AND b.id IN (31, 32, 33);

SELECT floor(dist / 10) * 10 AS dist_from, count(*)
FROM fasted_self_join('notes', 'v', 60, id_column => 'id') GROUP BY 1 ORDER BY 1;

SET client_min_messages = warning;
DROP TABLE notes CASCADE;
