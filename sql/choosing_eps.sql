-- choosing-eps.md's statements, in its order: made by "test/setup/examples update".
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS fasted CASCADE;
CREATE EXTENSION fasted;
RESET client_min_messages;

CREATE TABLE notes AS
SELECT g AS id, array(SELECT (abs(hashint4(g / 3 * 100 + k)) % 100 + (g % 3) * 2 * (k % 2))::real FROM generate_series(1, 8) k) AS v
FROM generate_series(1, 300) g;

SELECT eps FROM fasted_epsilon('notes', 'v', 1, seed => 1);

SELECT floor(dist / 10) * 10 AS dist_from, count(*)
FROM fasted_self_join('notes', 'v', 60, id_column => 'id') GROUP BY 1 ORDER BY 1;

SELECT eps, count(*) AS clusters, max(rows) AS largest, sum(rows) AS in_clusters
FROM unnest('{10,40,50,60,70}'::float8[]) AS eps, LATERAL
    (SELECT count(*) AS rows FROM fasted_cluster('notes', 'v', eps, 3, id_column => 'id') WHERE cluster IS NOT NULL GROUP BY cluster) AS c
GROUP BY eps ORDER BY eps;

SELECT tenth, max(dist)::numeric(3, 1) AS dist, repeat('*', (max(dist) / 4)::int) AS plot
FROM (SELECT dist, ntile(10) OVER (ORDER BY dist) AS tenth
      FROM fasted_knn_join('notes', 'v', 'notes', 'v', 2, a_id => 'id', b_id => 'id') WHERE rank = 2) AS d
GROUP BY tenth ORDER BY tenth OFFSET 6;

SET client_min_messages = warning;
DROP TABLE notes CASCADE;
