-- An open cursor keeps the relation that it reads in use, as a cursor over the table itself does.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

CREATE TABLE items (id int PRIMARY KEY, v real[]);
INSERT INTO items SELECT i, ARRAY[i % 4]::real[] FROM generate_series(1, 8) AS i;
CREATE VIEW over_items AS SELECT * FROM items;
CREATE TABLE parted (id int PRIMARY KEY, v real[]) PARTITION BY RANGE (id);
CREATE TABLE parted_one PARTITION OF parted FOR VALUES FROM (0) TO (100);
INSERT INTO parted TABLE items;

-- a cursor over the table itself
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM items;
TRUNCATE items;
ROLLBACK;

BEGIN;
DECLARE c CURSOR FOR SELECT count(*) OVER (), id_a, id_b FROM fasted_self_join('items', 'v', 0);
SAVEPOINT s;
TRUNCATE items;
ROLLBACK TO s;
ALTER TABLE items ALTER v TYPE double precision[];
ROLLBACK TO s;
DROP TABLE items CASCADE;
ROLLBACK TO s;
FETCH 1 FROM c;
-- also after all rows were read, until the cursor is closed
TRUNCATE items;
ROLLBACK TO s;
CLOSE c;
TRUNCATE items;
ROLLBACK;

-- through a view, and through a partitioned table
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM fasted_self_join('over_items', 'v', 0, id_column => 'id');
SAVEPOINT s;
TRUNCATE items;
ROLLBACK TO s;
FETCH 1 FROM c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM fasted_self_join('parted', 'v', 0);
SAVEPOINT s;
TRUNCATE parted_one;
ROLLBACK TO s;
FETCH 1 FROM c;
ROLLBACK;

-- the relation is a parameter of a prepared statement
PREPARE p(regclass) AS SELECT * FROM fasted_self_join($1, 'v', 0);
SET plan_cache_mode = force_generic_plan;
DO $$
DECLARE
	c CURSOR (rel regclass) FOR SELECT * FROM fasted_self_join(rel, 'v', 0);
BEGIN
	OPEN c('items');
	TRUNCATE items;
END $$;
RESET plan_cache_mode;
DEALLOCATE p;

-- rows are those at the time of DECLARE, also if other or the same transactions change them
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM fasted_self_join('items', 'v', 0);
DELETE FROM items WHERE id > 4;
FETCH 1 FROM c;
SELECT count(*) FROM fasted_self_join('items', 'v', 0);
ROLLBACK;

SET client_min_messages = warning;
DROP TABLE items, parted CASCADE;
