-- If a relation is not parallel safe, the plan around its join has no workers.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;

-- "parallel" or "serial"
CREATE FUNCTION kind_of_plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line LIKE '%Gather%' THEN
			RETURN 'parallel';
		END IF;
	END LOOP;
	RETURN 'serial';
END $$;

CREATE TABLE items (id int PRIMARY KEY, v real[]);
INSERT INTO items SELECT i, ARRAY[i % 100]::real[] FROM generate_series(1, 3000) AS i;
ANALYZE items;
CREATE TABLE others AS SELECT i AS id FROM generate_series(1, 3000) AS i;
ANALYZE others;
-- a subtransaction, which is not allowed during a parallel operation
CREATE FUNCTION safe_divide(real, real) RETURNS real LANGUAGE plpgsql AS $$
BEGIN
	RETURN $1 / $2;
EXCEPTION WHEN division_by_zero THEN
	RETURN 0;
END $$;
CREATE VIEW divided AS SELECT id, ARRAY[safe_divide(v[1], 1)] AS v FROM items;
CREATE SEQUENCE numbers;
CREATE VIEW numbered AS SELECT nextval('numbers') AS id, v FROM items;
CREATE VIEW plain AS SELECT id, v FROM items;

SELECT kind_of_plan($$SELECT dist, count(*) FROM fasted_self_join('items', 'v', 0) GROUP BY dist$$);
SELECT kind_of_plan($$SELECT dist, count(*) FROM fasted_self_join('plain', 'v', 0, id_column => 'id') GROUP BY dist$$);
SELECT kind_of_plan($$SELECT dist, count(*) FROM fasted_self_join('divided', 'v', 0, id_column => 'id') GROUP BY dist$$);
SELECT dist, count(*) FROM fasted_self_join('divided', 'v', 0, id_column => 'id') GROUP BY dist;
SELECT dist, count(*) FROM fasted_self_join('numbered', 'v', 0, id_column => 'id') GROUP BY dist;

-- together with a table that workers would read, and with CREATE TABLE AS
SELECT count(*) FROM others o JOIN fasted_self_join('divided', 'v', 0, id_column => 'id') p ON o.id = p.id_a;
SELECT count(*) FROM others o JOIN (SELECT * FROM fasted_self_join('divided', 'v', 0, id_column => 'id') OFFSET 0) p ON o.id = p.id_a;
SET fasted.scan_node = off;
SELECT count(*) FROM others o JOIN fasted_self_join('divided', 'v', 0, id_column => 'id') p ON o.id = p.id_a;
SELECT count(*) FROM others WHERE id <= (SELECT count(*) FROM fasted_self_join('numbered', 'v', 0, id_column => 'id'));
RESET fasted.scan_node;

-- the same for the functions that return a row for each row
SELECT kind_of_plan(format('SELECT count(*) FROM others o JOIN %s USING (id)', f)), f
FROM unnest(ARRAY[
	$$fasted_neighbors('plain', 'v', 0, id_column => 'id')$$, $$fasted_neighbors('divided', 'v', 0, id_column => 'id')$$,
	$$fasted_cluster('plain', 'v', 0, 2, id_column => 'id')$$, $$fasted_cluster('divided', 'v', 0, id_column => 'id')$$,
	$$fasted_keep_one('plain', 'v', 0, id_column => 'id')$$,
	$$fasted_keep_one('divided', 'v', 0, 'id', true, id_column => 'id')$$]) AS f;
SELECT count(*) FROM others JOIN fasted_neighbors('divided', 'v', 0, id_column => 'id') USING (id);
SELECT count(*) FROM others JOIN fasted_keep_one('numbered', 'v', 0, 'v', id_column => 'id') k ON others.id = k.kept % 3000;

-- a row security policy, and the roles to which it applies
CREATE ROLE regress_fasted_reader;
GRANT SELECT ON items, others TO regress_fasted_reader;
ALTER TABLE items ENABLE ROW LEVEL SECURITY;
CREATE POLICY careful ON items USING (safe_divide(id, 1) > 1000);
PREPARE by_dist AS SELECT dist, count(*) FROM fasted_self_join('items', 'v', 0) GROUP BY dist;
EXECUTE by_dist;
SET ROLE regress_fasted_reader;
SELECT dist, count(*) FROM fasted_self_join('items', 'v', 0) GROUP BY dist;
EXECUTE by_dist;
RESET ROLE;
ALTER TABLE items DISABLE ROW LEVEL SECURITY;

-- a plan that was made before the view became unsafe is replanned
SET plan_cache_mode = force_generic_plan;
PREPARE from_view AS SELECT dist, count(*) FROM fasted_self_join('plain', 'v', 0, id_column => 'id') GROUP BY dist;
EXECUTE from_view;
CREATE OR REPLACE VIEW plain AS SELECT id, ARRAY[safe_divide(v[1], 1)] AS v FROM items;
EXECUTE from_view;
-- the relation is unknown at planning: no workers
PREPARE from_any(regclass) AS SELECT dist, count(*) FROM fasted_self_join($1, 'v', 0, id_column => 'id') GROUP BY dist;
EXECUTE from_any('divided');
EXECUTE from_any('items');
SELECT kind_of_plan($$EXECUTE from_any('items')$$);
RESET plan_cache_mode;

-- errors are those of the function
SELECT dist, count(*) FROM fasted_self_join('items', 'none', 0) GROUP BY dist;
SELECT dist, count(*) FROM fasted_self_join(1::oid::regclass, 'v', 0) GROUP BY dist;

SET client_min_messages = warning;
DROP TABLE items, others CASCADE;
DROP FUNCTION safe_divide, kind_of_plan;
DROP SEQUENCE numbers;
DROP ROLE regress_fasted_reader;
