-- Pruning compares rows in reduced dimensions first and returns the same pairs.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
CREATE TABLE pruned (id int PRIMARY KEY, v real[]);
INSERT INTO pruned SELECT i, ARRAY(SELECT (sin(i % 40 * 7.0 + k * k) + 0.02 * sin(i * 1.3 + k))::real FROM generate_series(1, 70) k)
FROM generate_series(1, 2000) i;
SET fasted.engine = cpu;
SET fasted.prune = off;
CREATE TABLE whole AS SELECT * FROM fasted_self_join('pruned', 'v', 0.12);
SET fasted.prune = force;
CREATE TABLE forced AS SELECT * FROM fasted_self_join('pruned', 'v', 0.12);
SELECT count(*) > 1000 AS enough FROM whole;
(TABLE whole EXCEPT TABLE forced) UNION ALL (TABLE forced EXCEPT TABLE whole);

-- and by cosine, with rows of different lengths and some zero vectors
UPDATE pruned SET v = CASE WHEN id % 100 = 7 THEN array_fill(0::real, ARRAY[70])
	ELSE ARRAY(SELECT x * (1 + id % 3)::real FROM unnest(v) WITH ORDINALITY AS u (x, k) ORDER BY k) END;
SET fasted.prune = off;
CREATE TABLE whole_cosine AS SELECT * FROM fasted_self_join('pruned', 'v', 0.0002, metric => 'cosine');
SET fasted.prune = force;
CREATE TABLE forced_cosine AS SELECT * FROM fasted_self_join('pruned', 'v', 0.0002, metric => 'cosine');
SELECT count(*) > 1000 AS enough, count(*) < 100000 AS few FROM whole_cosine;
(TABLE whole_cosine EXCEPT TABLE forced_cosine) UNION ALL (TABLE forced_cosine EXCEPT TABLE whole_cosine);

-- EXPLAIN shows pruning, but only if the join was pruned
CREATE FUNCTION tiles(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line LIKE '%Tiles Tested%' THEN
			RETURN NEXT regexp_replace(trim(line), '[0-9.]+%', 'N%', 'g');
		END IF;
	END LOOP;
END $$;
SELECT tiles('SELECT * FROM fasted_self_join(''pruned'', ''v'', 0.12)');
SELECT tiles('SELECT * FROM fasted_self_join(''pruned'', ''v'', 0.0002, metric => ''cosine'')');
SELECT tiles('SELECT count(*) FROM pruned a JOIN pruned b ON a.id < b.id AND fasted_within(a.v, b.v, 0.12)');
RESET fasted.prune;
SELECT tiles('SELECT * FROM fasted_self_join(''pruned'', ''v'', 0.12)');
SET fasted.prune = 'on';
RESET fasted.engine;
DROP TABLE pruned, whole, forced, whole_cosine, forced_cosine;
DROP FUNCTION tiles;
