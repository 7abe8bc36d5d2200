-- Exclusion constraints that keep similar rows out.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
CREATE TABLE docs (id int PRIMARY KEY, v real[], draft boolean DEFAULT false,
	CONSTRAINT docs_unlike EXCLUDE USING fasted (fasted_ball(v, 0.25) WITH &&) WHERE (NOT draft));
INSERT INTO docs SELECT i, ARRAY[i, i % 3, 0] FROM generate_series(1, 300) AS i;
INSERT INTO docs VALUES (301, '{7,1,0.5}');
INSERT INTO docs VALUES (301, '{7,1,0.51}', false), (302, NULL, false), (303, NULL, false), (304, '{7,1,0}', true);
INSERT INTO docs VALUES (305, '{100,1,0.3}'), (306, '{100,1,0.7}') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO docs VALUES (307, '{200,2,0.3}'), (308, '{200.5,2,0.8}') ON CONFLICT ON CONSTRAINT docs_unlike DO NOTHING RETURNING id;
UPDATE docs SET v = '{7,1,0.1}' WHERE id = 9;
UPDATE docs SET draft = false WHERE id = 304;
UPDATE docs SET v = v WHERE id = 7;
INSERT INTO docs VALUES (309, '{1,2}');
DELETE FROM docs WHERE id = 7;
UPDATE docs SET v = '{7,1,-0.1}' WHERE id = 9 RETURNING v;
VACUUM docs;
INSERT INTO docs VALUES (310, '{9,0,0}');
REINDEX TABLE docs;
INSERT INTO docs VALUES (311, '{9.4,0,0}');
SELECT count(*) AS overlaps FROM docs a JOIN docs b ON a.id < b.id AND NOT a.draft AND NOT b.draft AND fasted_ball(a.v, 0.25) && fasted_ball(b.v, 0.25);
-- different radii; checked when the transaction ends; together with a tenant
CREATE TABLE areas (tenant int, ball fasted_ball, EXCLUDE USING fasted (ball WITH &&, tenant WITH =) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO areas VALUES (1, '<{0,0},1>'), (1, '<{5,0},3.9>'), (2, '<{0,0},20>'), (NULL, '<{0,0},1>');
BEGIN;
INSERT INTO areas VALUES (1, '<{0,2.5},1.5>'), (1, '<{0,9},0>');
DELETE FROM areas WHERE ball && '<{0,0},0>';
INSERT INTO areas VALUES (2, '<{0,0},1>');
COMMIT;
BEGIN;
INSERT INTO areas VALUES (1, '<{0,2.5},0>');
COMMIT;
SELECT tenant, ball FROM areas ORDER BY ball::text;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT FROM areas WHERE ball && '<{0,0},1>' AND tenant = 1;
SELECT tenant FROM areas WHERE ball && '<{0,5.5},1.5>' AND tenant = 1;
DROP TABLE docs, areas;
