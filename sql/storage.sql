-- Vectors stored in line and out of line are read alike.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
CREATE SCHEMA storage;
SET search_path = storage, public;
-- Vectors in line and out of line, compressed or not, in several orders, of several types, in two TOAST
-- tables: each way to read them returns the same rows.
CREATE TABLE written AS SELECT g AS id, ARRAY(SELECT CASE WHEN g % 5 = 0 THEN g % 150 ELSE (g % 150 * 7919 + k * 104729) % 10007 END
	FROM generate_series(1, 1100) AS k) AS v FROM generate_series(1, 300) AS g;
CREATE TABLE stored (storage text, type text, relation regclass);
DO $$
DECLARE storage text; type text; name text;
BEGIN
	FOREACH storage IN ARRAY '{plain,main,external,extended,lz4,parts}'::text[] LOOP
		FOREACH type IN ARRAY '{real[],double precision[],integer[],numeric[],bit varying}'::text[] LOOP
			CONTINUE WHEN storage = 'plain' AND type IN ('double precision[]', 'numeric[]');	-- longer than a page
			name := 'stored_' || (SELECT count(*) FROM stored);
			EXECUTE format('CREATE TABLE %I (id int, v %s, PRIMARY KEY (id)) %s', name, type,
				CASE storage WHEN 'parts' THEN 'PARTITION BY RANGE (id)' END);
			IF storage = 'parts' THEN
				EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (1) TO (100)', name || '_a', name);
				EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', name || '_b', name);
			ELSIF storage = 'lz4' THEN
				BEGIN
					EXECUTE format('ALTER TABLE %I ALTER v SET COMPRESSION lz4', name);
				EXCEPTION WHEN feature_not_supported THEN NULL;	-- a server without LZ4
				END;
			ELSE
				EXECUTE format('ALTER TABLE %I ALTER v SET STORAGE %s', name, storage);
			END IF;
			EXECUTE format('INSERT INTO %I SELECT id, %s FROM written ORDER BY id * 7919 %% 307', name,
				CASE type WHEN 'bit varying' THEN $x$(SELECT string_agg(x::bit(14)::text, '') FROM unnest(v) AS x)::bit varying$x$
				ELSE 'v::' || type END);
			EXECUTE format('UPDATE %I SET v = v WHERE id %% 10 = 3', name);
			EXECUTE format('INSERT INTO %I SELECT id + 1000, NULL FROM written WHERE id %% 50 = 0', name);
			INSERT INTO stored VALUES (storage, type, name);
		END LOOP;
	END LOOP;
END $$;
-- each row has one equal row; in the view, several rows have the same value
CREATE FUNCTION read_rows(relation regclass, type text, way text, OUT answer text) LANGUAGE plpgsql AS $$
DECLARE metric text := CASE type WHEN 'bit varying' THEN 'hamming' ELSE 'l2' END;
BEGIN
	EXECUTE format('CREATE OR REPLACE VIEW twice AS SELECT id + n * 10000 AS id, v FROM %s, generate_series(0, 1) AS n', relation);
	EXECUTE format(CASE way
		WHEN 'function' THEN 'SELECT count(*) || '' '' || sum(id_a * id_b) FROM fasted_self_join(%1$L, ''v'', 0.5, %2$L)'
		WHEN 'view' THEN 'SELECT count(*) || '' '' || sum(id_a * id_b) FROM fasted_self_join(''twice'', ''v'', 0.5, %2$L, id_column => ''id'')'
		WHEN 'window' THEN 'SELECT count(c) || '' '' || sum(c * id) FROM (SELECT id, fasted_dbscan(v, 0.5, 1, %2$L) OVER (ORDER BY id) AS c FROM %1$s) AS s'
		WHEN 'join' THEN 'SELECT count(*) || '' '' || sum(a.id * b.id) FROM %1$s AS a JOIN %1$s AS b ON a.id < b.id AND fasted_within(a.v, b.v, 0.5, %2$L)'
		ELSE 'SELECT count(*) || '' '' || sum(id_a * id_b) FROM fasted_knn_join(%1$L, ''v'', %1$L, ''v'', 1, %2$L)' END, relation, metric) INTO answer;
	DROP VIEW twice;
END $$;
SELECT way, count(*), count(DISTINCT answer), min(answer) FROM stored, unnest('{function,view,window,join,nearest}'::text[]) AS way, read_rows(relation, type, way) GROUP BY way ORDER BY way;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT way, count(*), count(DISTINCT answer), min(answer) FROM stored, unnest('{function,join}'::text[]) AS way, read_rows(relation, type, way) GROUP BY way ORDER BY way;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
DROP SCHEMA storage CASCADE;
