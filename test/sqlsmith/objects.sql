-- Objects from which sqlsmith makes queries that use the extension.
--
-- sqlsmith chooses tables, functions and operators at random, and gives them arguments of the
-- right type.  It can't make useful arguments of type regclass or name, and calls no function that
-- returns rows and no window function.  So tables and metrics have numbers, and views and
-- functions contain the calls.  Operators make join conditions.  Functions and operators have
-- copies, so that they are chosen as often as PostgreSQL's own.  sqlsmith's sessions have schema
-- smith_catalog first in their search_path, so that they find fewer of PostgreSQL's functions.

CREATE EXTENSION fasted;
CREATE EXTENSION fasted_citus;
CREATE ROLE smith LOGIN;
SELECT setseed(0.5);

-- Vectors of 8 dimensions with copies and near copies; some are NULL, zero, or large.
CREATE TABLE smith_double AS
SELECT id::int AS id, (id % 5)::int AS part, 'k' || id AS key,
	(ARRAY[0, 0.1, 1, 2, 3, 5, 0.5, 30, 1e30, 1e-9, -1, 'infinity', 'nan'])[1 + id % 13]::float8 AS eps,
	CASE WHEN id % 23 = 0 THEN NULL WHEN id % 19 = 0 THEN array_fill(0::float8, ARRAY[8])
		ELSE (SELECT array_agg(CASE WHEN id % 29 = 0 THEN 1e150 ELSE 1 END * (j * (id % 7)
			+ round((random() * 3 + 0 * id)::numeric, 1 + (id % 5)::int))::float8) FROM generate_series(1, 8) j) END AS v
FROM generate_series(1, 120) id;
CREATE TABLE smith_real AS SELECT id, part, key, eps,
	(SELECT array_agg(least(x, 1e30)::real) FROM unnest(v) x) AS v FROM smith_double;
CREATE TABLE smith_int AS SELECT id::bigint AS id, part, key, eps,
	(SELECT array_agg(least(x, 2e9)::int) FROM unnest(v) x) AS v FROM smith_double;
CREATE TABLE smith_numeric AS SELECT id, part, key, eps, v::numeric[] AS v FROM smith_real;
CREATE TABLE smith_bit AS SELECT id, part, key, eps, (id * 2654435761 % 65536)::int::bit(16) AS v FROM smith_double;
CREATE TABLE smith_varbit AS SELECT id, part, key, eps, v::bit varying AS v FROM smith_bit;
CREATE TABLE smith_wrong AS SELECT id, part, key, eps,
	CASE id % 3 WHEN 0 THEN ARRAY['nan'::real] WHEN 1 THEN ARRAY[1, NULL::real] ELSE '{{1,2},{3,4}}' END AS v FROM smith_double;
CREATE TABLE smith_partitioned (LIKE smith_real) PARTITION BY LIST (part);
CREATE TABLE smith_partition_1 PARTITION OF smith_partitioned FOR VALUES IN (0, 1);
CREATE TABLE smith_partition_2 PARTITION OF smith_partitioned DEFAULT;
INSERT INTO smith_partitioned SELECT * FROM smith_real;
CREATE TABLE smith_empty (LIKE smith_real);
-- Rows in random order of ids, so many that sqlsmith's time limit of one second ends their joins.
CREATE TABLE smith_many AS SELECT id::int AS id, (id % 5)::int AS part,
	(SELECT array_agg((hashint8extended(id, j) % 1000)::real) FROM generate_series(1, 12) j) AS v
FROM generate_series(1, 40000) id ORDER BY hashint8extended(id, 0);
CREATE UNIQUE INDEX ON smith_real (id);
CREATE INDEX ON smith_double (part);
CREATE VIEW rows_view AS SELECT * FROM smith_real WHERE v IS NOT NULL AND id < 70;

CREATE FUNCTION smith_table(n int) RETURNS regclass STABLE PARALLEL SAFE LANGUAGE sql AS $$
	SELECT t[1 + abs(hashint4(n)::bigint) % cardinality(t)]::regclass FROM (SELECT ARRAY['smith_double', 'smith_real',
		'smith_int', 'smith_numeric', 'smith_bit', 'smith_varbit', 'smith_partitioned', 'smith_double', 'smith_real',
		'smith_wrong', 'smith_empty', 'rows_view']) a(t) $$;
-- A metric for the vectors of that table, in most cases.
CREATE FUNCTION smith_metric(n int, of_table int) RETURNS text STABLE PARALLEL SAFE LANGUAGE sql AS $$
	SELECT CASE WHEN h % 16 = 0 THEN 'wrong' WHEN smith_table(of_table)::text ~ 'bit'
		THEN (ARRAY['hamming', 'jaccard'])[1 + h % 2] ELSE (ARRAY['l2', 'cosine', 'inner_product'])[1 + h % 3] END
	FROM (SELECT abs(hashint4(n)::bigint)) a(h) $$;
CREATE FUNCTION smith_column(n int) RETURNS name STABLE PARALLEL SAFE LANGUAGE sql AS $$
	SELECT (ARRAY[NULL, 'id', 'part', NULL, 'id', 'key', 'eps'])[1 + abs(hashint4(n)::bigint) % 7]::name $$;

-- Functions that return rows, as tables.
CREATE VIEW pairs_view AS SELECT * FROM fasted_self_join('smith_real', 'v', 3, id_column => 'id');
CREATE VIEW pairs_typed_view AS
	SELECT * FROM fasted_self_join('smith_double', 'v', 3, id_type => NULL::text, id_column => 'key', partition_by => 'part');
CREATE VIEW neighbors_view AS SELECT * FROM fasted_neighbors('smith_int', 'v', 5, id_column => 'id');
CREATE VIEW cluster_view AS SELECT * FROM fasted_cluster('smith_real', 'v', 3, 3, id_column => 'id');
CREATE VIEW keep_one_view AS SELECT * FROM fasted_keep_one('smith_double', 'v', 3, 'part', true, id_column => 'id');
CREATE VIEW spanning_tree_view AS SELECT * FROM fasted_spanning_tree('smith_real', 'v', 2, 'l2', 'id');
CREATE VIEW hdbscan_view AS SELECT * FROM fasted_hdbscan('smith_double', 'v', 4, id_column => 'id');
CREATE VIEW nearest_view AS SELECT * FROM fasted_knn_join('smith_real', 'v', 'smith_double', 'v', 3, a_id => 'id', b_id => 'id');
CREATE VIEW nearest_bits_view AS
	SELECT * FROM fasted_knn_join('smith_bit', 'v', 'smith_varbit', 'v', 3, a_id => 'id', b_id => 'id', metric => 'jaccard');
CREATE VIEW many_nearest_view AS SELECT * FROM fasted_knn_join('smith_many', 'v', 'smith_many', 'v', 3, a_id => 'id', b_id => 'id');
CREATE VIEW many_hdbscan_view AS SELECT * FROM fasted_hdbscan('smith_many', 'v', 4, id_column => 'id');
CREATE VIEW many_join_view AS SELECT a.id, b.id AS other FROM smith_many a JOIN smith_many b ON fasted_within(a.v, b.v, 300);
CREATE VIEW epsilon_view AS SELECT * FROM fasted_epsilon('smith_real', 'v', 4);
CREATE VIEW window_view AS
SELECT id, part, fasted_dbscan(v, 3, 2) OVER p, fasted_dbscan(v, 3) OVER p AS component, fasted_keep(v, 3, id) OVER o,
	fasted_neighbor_count(v, 3) OVER p, (fasted_hdbscan_cluster(v, 3) OVER p).*
FROM smith_real WHERE v IS NOT NULL WINDOW p AS (PARTITION BY part), o AS (ORDER BY id);
CREATE VIEW medoid_view AS
SELECT part, fasted_medoid(v, id), fasted_medoid(v, id, 'cosine') AS by_direction FROM smith_real GROUP BY part;
CREATE VIEW join_view AS
SELECT a.id, b.id AS other, a.v, b.v AS other_v, fasted_distance(a.v, b.v) AS dist
FROM smith_real a JOIN smith_double b ON fasted_within(a.v, b.v, 3);
CREATE VIEW left_join_view AS
SELECT a.id, b.id AS other, a.v, b.key, fasted_hamming_distance(a.v, b.v) AS dist
FROM smith_bit a LEFT JOIN smith_varbit b ON fasted_hamming_distance(a.v, b.v) < 5 AND a.part = b.part;
CREATE VIEW best_view AS
SELECT a.id, a.v, b.id AS other, b.dist FROM smith_int a CROSS JOIN LATERAL
	(SELECT b.id, fasted_cosine_distance(a.v, b.v) AS dist FROM smith_real b
		WHERE b.v IS NOT NULL ORDER BY fasted_cosine_distance(a.v, b.v) LIMIT 3) b WHERE a.v IS NOT NULL;

-- Functions that return rows, as functions that count them.
DO $do$
DECLARE
	call text[];
BEGIN
	FOR copy IN 1..10 LOOP
		FOREACH call SLICE 1 IN ARRAY ARRAY[
			['self_join', 'float8, bool, bool, int, int, int',
				$$fasted_self_join(smith_table($5), 'v', $1, id_column => smith_column($6), ordered => $2, self_pairs => $3, metric => smith_metric($4, $5))$$],
			['self_join_by', 'float8, int, int, int',
				$$fasted_self_join(smith_table($2), 'v', $1, id_column => 'id', ordered => false, self_pairs => false, metric => smith_metric($3, $2), partition_by => smith_column($4))$$],
			['self_join_of_text', 'float8, int, int',
				$$fasted_self_join(smith_table($2), 'v', $1, id_type => NULL::text, id_column => 'key', metric => smith_metric($3, $2))$$],
			['neighbors', 'float8, int, int, int',
				$$fasted_neighbors(smith_table($2), 'v', $1, id_column => 'id', metric => smith_metric($3, $2), partition_by => smith_column($4))$$],
			['cluster', 'float8, int, int, int',
				$$fasted_cluster(smith_table($2), 'v', $1, $3, id_column => 'id', metric => smith_metric($4, $2))$$],
			['keep_one', 'float8, int, int, bool, int',
				$$fasted_keep_one(smith_table($2), 'v', $1, smith_column($3), $4, id_column => 'id', metric => smith_metric($5, $2))$$],
			['spanning_tree', 'int, int, int, int',
				$$fasted_spanning_tree(smith_table($1), 'v', $2, smith_metric($3, $1), 'id', smith_column($4))$$],
			['hdbscan', 'int, int, int, int, bool, float8',
				$$fasted_hdbscan(smith_table($1), 'v', $2, $3, metric => smith_metric($4, $1), cluster_selection_method => CASE WHEN $5 THEN 'eom' ELSE 'leaf' END, cluster_selection_epsilon => $6, allow_single_cluster => $5, id_column => 'id')$$],
			['nearest', 'int, int, int, int, float8',
				$$fasted_knn_join(smith_table($1), 'v', smith_table($2), 'v', $3, a_id => 'id', b_id => 'id', metric => smith_metric($4, $1), max_distance => $5)$$],
			['epsilon', 'int, float8, int, bigint, int, bool',
				$$fasted_epsilon(smith_table($1), 'v', $2, $3, $4, metric => smith_metric($5, $1), ignore_copies => $6)$$],
			['window', 'float8, int, int',
				$$(SELECT fasted_dbscan(v, $1, $2, smith_metric($3, 2)) OVER (PARTITION BY part),
					fasted_keep(v, $1, id) OVER (ORDER BY key, id) FROM smith_real WHERE v IS NOT NULL) w$$]]
		LOOP
			EXECUTE format('CREATE FUNCTION smith_%s_%s(%s) RETURNS bigint STABLE PARALLEL RESTRICTED LANGUAGE sql AS %L',
				call[1], copy, call[2], 'SELECT count(*) FROM ' || call[3]);
		END LOOP;
	END LOOP;
END
$do$;

-- Functions of two vectors, and join conditions: the planner replaces each call by its body.
DO $do$
DECLARE
	types text[];
	body text;
	first text;
	second text;
	third text;
	i int := 0;
BEGIN
	FOREACH types SLICE 1 IN ARRAY ARRAY[['real[]', 'real[]'], ['float8[]', 'float8[]'], ['int[]', 'int[]'],
		['numeric[]', 'numeric[]'], ['real[]', 'float8[]'], ['int[]', 'real[]'], ['bit', 'bit'],
		['bit varying', 'bit varying'], ['bit', 'bit varying']]
	LOOP
		FOREACH body IN ARRAY CASE WHEN types[1] ~ 'bit' THEN ARRAY['fasted_hamming_distance($1, $2)',
			'fasted_jaccard_distance($1, $2)'] ELSE ARRAY['fasted_distance($1, $2)',
			'fasted_cosine_distance($1, $2)', 'fasted_negative_inner_product($1, $2)'] END
		LOOP
			FOR copy IN 1..3 LOOP
				i := i + 1;
				EXECUTE format('CREATE FUNCTION smith_distance_%s(%s, %s) RETURNS float8 IMMUTABLE PARALLEL SAFE LANGUAGE sql AS %L',
					i, types[1], types[2], 'SELECT ' || body);
			END LOOP;
		END LOOP;
		FOREACH first IN ARRAY '{~,@,#,&}'::text[] LOOP
			FOREACH second IN ARRAY '{~,@,#,&}'::text[] LOOP
				FOREACH third IN ARRAY '{~,@,#,&}'::text[] LOOP
					i := i + 1;
					body := CASE WHEN types[1] ~ 'bit' THEN (ARRAY['fasted_within($1, $2, 4, ''hamming'')',
						'fasted_hamming_distance($1, $2) < 3', 'fasted_jaccard_distance($1, $2) <= 0.5',
						'fasted_within($1, $2, 0.4, ''jaccard'')', 'fasted_jaccard_similarity($1, $2) >= 0.6'])[1 + i % 5]
						ELSE (ARRAY['fasted_within($1, $2, 2)', 'fasted_distance($1, $2) < 1', '0 >= fasted_distance($1, $2)',
						'fasted_within($1, $2, 0.01, ''cosine'')', 'fasted_cosine_distance($1, $2) < 0.001',
						'fasted_negative_inner_product($1, $2) < -500', 'fasted_within($1, $2, -400, ''inner_product'')',
						'fasted_cosine_similarity($1, $2) > 0.999'])[1 + i % 8] END;
					EXECUTE format('CREATE FUNCTION smith_within_%s(%s, %s) RETURNS bool IMMUTABLE PARALLEL SAFE LANGUAGE sql AS %L',
						i, types[1], types[2], 'SELECT ' || body);
					EXECUTE format('CREATE OPERATOR <%s%s%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = smith_within_%s)',
						first, second, third, types[1], types[2], i);
				END LOOP;
			END LOOP;
		END LOOP;
	END LOOP;
END
$do$;

-- Every fifth function of PostgreSQL, without polymorphic ones: sqlsmith calls most of them wrongly.
CREATE SCHEMA smith_catalog;
CREATE TABLE smith_catalog.pg_proc WITH (parallel_workers = 0) AS
SELECT oid, proname, pronamespace, prorettype, proretset, prokind, proargtypes FROM pg_catalog.pg_proc
WHERE pronamespace = 'public'::regnamespace OR oid::bigint % 5 = 0 AND NOT EXISTS (SELECT FROM unnest(proargtypes) AS a
	JOIN pg_type AS t ON t.oid = a WHERE typtype = 'p');
CREATE INDEX ON smith_catalog.pg_proc (oid);
GRANT USAGE ON SCHEMA smith_catalog TO smith;
GRANT SELECT ON smith_catalog.pg_proc TO smith;

GRANT ALL ON ALL TABLES IN SCHEMA public TO smith;
ANALYZE;
