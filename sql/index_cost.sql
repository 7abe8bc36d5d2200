-- Exact indexes: the planner chooses them on one side of each break-even, and another plan on the other side.  All cases
-- are several times beyond it.  EXPLAIN ANALYZE counts the work of the chosen plan, and of the best one without its kind of node.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET fasted.engine = cpu;

-- 200 clusters of 100 rows with 40 dimensions; rows of a cluster are about 1.5 apart, others about 5
SELECT setseed(0.25);
CREATE TABLE centres AS SELECT c, (SELECT array_agg(random() * 2 - 1) AS v FROM generate_series(1, 40) WHERE c > 0) FROM generate_series(0, 199) AS c;
CREATE TABLE points AS SELECT i AS id, i % 1000 AS tenant, i % 2 AS half, (SELECT array_agg((x + (random() - 0.5) * 0.6)::real) FROM unnest(v) AS x WHERE i > 0) AS v
FROM generate_series(1, 20000) AS i JOIN centres ON c = i % 200;
ALTER TABLE points ADD PRIMARY KEY (id);
CREATE INDEX ON points (tenant);
CREATE INDEX ON points USING fasted (v);
VACUUM ANALYZE points;
CREATE FUNCTION q(int) RETURNS real[] IMMUTABLE LANGUAGE sql RETURN (SELECT v FROM points WHERE id = $1);

-- Runs a query.  Returns its plan's nodes, and its work: rows of tables that were read, and distances computed,
-- of which 100 of heads, 10 of levels or, in a join, 1000 take as long as one of whole rows.  A scan of such an
-- index takes 20 before.
CREATE FUNCTION run(query text, OUT nodes text, OUT work numeric) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
	node jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT json) ' || query INTO plan;
	work := 0;
	FOR node IN SELECT jsonb_path_query(plan, 'strict $.** ? (exists(@."Node Type"))') LOOP
		nodes := concat_ws(', ', nodes, (node ->> 'Node Type') || coalesce(' ' || (node ->> 'Index Name'), ''));
		IF node ->> 'Node Type' ~ '^(Seq|Index|Bitmap Heap) Scan' THEN
			work := work + (node ->> 'Actual Loops')::numeric * (CASE WHEN node ->> 'Index Name' ~ '_v_' THEN 20 ELSE 0 END + (node ->> 'Actual Rows')::numeric +
				coalesce((node ->> 'Rows Removed by Filter')::numeric, 0) + coalesce((node ->> 'Rows Removed by Index Recheck')::numeric, 0));
		ELSIF node ->> 'Node Type' = 'Custom Scan' THEN
			work := work + (node #>> '{Plans,0,Actual Rows}')::numeric * (node #>> '{Plans,1,Actual Rows}')::numeric / 1000;
		END IF;
	END LOOP;
	SELECT work + coalesce(sum(n / CASE key WHEN 'Rows Tested' THEN 100 ELSE 10 END), 0) INTO work
	FROM jsonb_path_query(plan, 'strict $.** ? (exists(@."Rows Tested"))') AS scan, jsonb_each(scan) AS e(key, value),
		LATERAL (SELECT CASE WHEN key ~ '^Rows (Tested|Passed L)' THEN value::text::numeric ELSE 0 END) AS s(n);
END $$;
-- Shows the chosen nodes, and whether the work is more without them, because of settings or another query.
CREATE FUNCTION choice(query text, settings text, other_query text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	chosen record;
	other record;
BEGIN
	chosen := run(query);
	PERFORM set_config(s, 'off', true) FROM unnest(string_to_array(settings, ',')) AS s;
	other := run(coalesce(other_query, query));
	PERFORM set_config(s, 'on', true) FROM unnest(string_to_array(settings, ',')) AS s;
	IF other.nodes = chosen.nodes THEN RETURN 'no other plan than ' || other.nodes; END IF;
	RETURN CASE WHEN other.work > chosen.work THEN chosen.nodes ELSE format('%s: %s, but %s: %s', chosen.nodes, chosen.work, other.nodes, other.work) END;
END $$;

-- few and many rows within a distance; the small distance is below all that the statistics know
SELECT r, choice(format('SELECT id FROM points WHERE v <-> q(77) < %s', r), CASE WHEN r < 5 THEN 'enable_indexscan,enable_bitmapscan' ELSE 'enable_seqscan' END)
FROM unnest('{0.01,1,7,100}'::float8[]) AS r;
-- nearest rows
SELECT k, choice(format('SELECT id FROM points ORDER BY v <-> q(77) LIMIT %s', k), CASE WHEN k < 1000 THEN 'enable_indexscan' ELSE 'enable_seqscan' END)
FROM unnest('{1,10,19000}'::int[]) AS k;
-- another condition that leaves 20 rows, or half of all
SELECT choice('SELECT id FROM points WHERE v <-> q(77) < 4 AND tenant = 7', 'enable_seqscan', 'SELECT id FROM points WHERE v <-> q(77) < 4 AND tenant + 0 = 7');
SELECT choice('SELECT id FROM points WHERE v <-> q(77) < 0.5 AND half = 1', 'enable_indexscan,enable_bitmapscan');
SELECT choice('SELECT id FROM points WHERE tenant = 7 ORDER BY v <-> q(77) LIMIT 10', 'enable_seqscan', 'SELECT id FROM points WHERE tenant + 0 = 7 ORDER BY v <-> q(77) LIMIT 10');
SELECT choice('SELECT id FROM points WHERE half = 1 ORDER BY v <-> q(77) LIMIT 10', 'enable_indexscan');
-- a small table
CREATE TABLE small AS SELECT * FROM points WHERE id <= 12;
CREATE INDEX ON small USING fasted (v);
VACUUM ANALYZE small;
SELECT choice('SELECT id FROM small WHERE v <-> q(77) < 1', 'enable_seqscan');
SELECT choice('SELECT id FROM small ORDER BY v <-> q(77) LIMIT 3', 'enable_seqscan');
-- wide vectors, of which ANALYZE stores none
CREATE TABLE wide AS SELECT id, (SELECT v || v || v || v || v || v || v || v FROM points AS p WHERE p.id = points.id) AS v FROM points WHERE id <= 4000;
CREATE INDEX ON wide USING fasted (v);
VACUUM ANALYZE wide;
SELECT r, choice(format('SELECT id FROM wide WHERE v <-> %L::real[] < %s', q(77) || q(77) || q(77) || q(77) || q(77) || q(77) || q(77) || q(77), r),
	CASE WHEN r < 10 THEN 'enable_indexscan,enable_bitmapscan' ELSE 'enable_seqscan' END)
FROM unnest('{1,100}'::float8[]) AS r;
-- few and many rows of another table: a nested loop, and the join node
SELECT n, choice(format('SELECT a.id, b.id FROM points AS a JOIN points AS b ON a.v <-> b.v < 0.5 WHERE a.id <= %s', n), CASE WHEN n < 10 THEN 'enable_nestloop' ELSE 'fasted.join_node' END)
FROM unnest('{3,20000}'::int[]) AS n;

-- each metric: estimates of the rows that a scan fetches, for distances within which 0.2%, 10% and 50% of the rows are
CREATE INDEX points_cosine ON points USING fasted (v real_cosine_ops);
CREATE INDEX points_product ON points USING fasted (v real_ip_ops);
CREATE FUNCTION estimate(operator text, share float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	radius float8;
	plan jsonb;
	estimated numeric;
	fetched numeric;
BEGIN
	EXECUTE format('SELECT percentile_disc($1) WITHIN GROUP (ORDER BY v %s q(77)) FROM points', operator) INTO radius USING share;
	EXECUTE format('EXPLAIN (ANALYZE, TIMING OFF, FORMAT json) SELECT id FROM points WHERE v %s q(77) < %L', operator, radius) INTO plan;
	estimated := jsonb_path_query_first(plan, 'strict $.** ? (@."Node Type" == "Bitmap Index Scan")."Plan Rows"');
	fetched := jsonb_path_query_first(plan, 'strict $.**."Rows Fetched"');
	RETURN CASE WHEN estimated / fetched BETWEEN 0.2 AND 5 THEN 'right' ELSE format('%s instead of %s', estimated, fetched) END;
END $$;
SET enable_seqscan = off;
SET enable_indexscan = off;
SELECT operator, share, estimate(operator, share) FROM unnest('{<->,<=>,<#>}'::text[]) AS operator, unnest('{0.002,0.1,0.5}'::float8[]) AS share;
RESET enable_seqscan;
RESET enable_indexscan;

-- EXPLAIN shows the numbers of each scan of such an index, and nothing of others
CREATE FUNCTION lines(options text, query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (%s) ', options) || query LOOP
		IF line ~ 'tested=' THEN
			RETURN NEXT trim(regexp_replace(regexp_replace(line, '^ *Index \w+: (skipped chunks=\d+ )?', ''), '\d+', 'N', 'g'));
		END IF;
	END LOOP;
END $$;
SELECT lines('ANALYZE', 'SELECT a.id FROM points AS a, LATERAL (SELECT id FROM points AS b ORDER BY b.v <-> a.v LIMIT 2) AS s WHERE a.id < 5');
SELECT lines('COSTS OFF', 'SELECT id FROM points WHERE v <-> q(77) < 0.01');
SELECT lines('ANALYZE', 'SELECT id FROM points WHERE id = 77');
-- fasted_info() advises to rebuild an index that has got many rows since
SELECT regexp_replace(state, '\d+', 'N') AS state, advice FROM fasted_info() WHERE component = 'exact indexes';
INSERT INTO small SELECT id, tenant, half, v FROM points WHERE id > 12;
SELECT regexp_replace(state, '\d+', 'N') AS state, advice FROM fasted_info() WHERE component = 'exact indexes';
REINDEX INDEX small_v_idx;
SELECT regexp_replace(state, '\d+', 'N') AS state, advice FROM fasted_info() WHERE component = 'exact indexes';
DROP FUNCTION q, run, choice, estimate, lines;
DROP TABLE centres, points, small, wide;
