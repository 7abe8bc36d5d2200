-- SELECT count(*) over a join on a distance: computed by the node or the engine.  The result is
-- the same as by a nested loop.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;
-- whole-number coordinates, so that distances tie at each eps; duplicates, nulls, zero vectors
CREATE TABLE counted (id int PRIMARY KEY, other int, k int, name text, v real[]);
INSERT INTO counted SELECT g, nullif(g % 90, 7), nullif(g % 5, 3), 'row ' || g,
	CASE WHEN g % 17 = 0 THEN NULL WHEN g % 29 = 0 THEN array_fill(0::real, ARRAY[24])
		ELSE (SELECT array_agg(abs(hashint8extended(i, g / 3) % 6)::real) FROM generate_series(1, 24) i) END
	FROM generate_series(1, 400) g;
CREATE TABLE few AS SELECT * FROM counted WHERE id < 50;
ALTER TABLE few ADD PRIMARY KEY (id);
CREATE TABLE others AS SELECT id + 100 AS id, k, v FROM counted WHERE id % 2 = 0;
CREATE TABLE no_rows (LIKE counted INCLUDING ALL);
CREATE TABLE nulls AS SELECT id, NULL::real[] AS v FROM counted;
-- vectors of different dimensions, which another clause keeps apart
CREATE TABLE odd AS SELECT id, id % 3 AS k, CASE WHEN id % 3 = 0 THEN v[1:9] ELSE v END AS v FROM counted;
ALTER TABLE odd ADD PRIMARY KEY (id);
CREATE VIEW seen AS SELECT id, k, v FROM counted WHERE id % 7 <> 1;
ANALYZE counted, few, others, no_rows, nulls, odd;

-- the number by the node, which component counts, and whether a nested loop returns the same
CREATE FUNCTION same_count(query text, OUT count bigint, OUT same boolean, OUT counted_by text)
LANGUAGE plpgsql AS $$
DECLARE
	line text;
	rows boolean := false;
	expected bigint;
BEGIN
	PERFORM set_config('fasted.join_node', 'on', true), set_config('enable_nestloop', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		counted_by := coalesce(counted_by, substring(line from 'Counted By: (.*)'));
		rows := rows OR line ~ 'FastedJoin';
	END LOOP;
	counted_by := coalesce(counted_by, CASE WHEN rows THEN 'rows' END);
	EXECUTE query INTO count;
	PERFORM set_config('fasted.join_node', 'off', true), set_config('enable_nestloop', 'on', true);
	EXECUTE query INTO expected;
	same := count = expected;
END $$;
CREATE FUNCTION same_counts(conditions text[], relations text DEFAULT 'counted a JOIN counted b',
	OUT condition text, OUT count bigint, OUT same boolean, OUT counted_by text)
RETURNS SETOF record LANGUAGE sql AS $$
	SELECT condition, q.* FROM unnest(conditions) condition,
		same_count(format('SELECT count(*) FROM %s ON %s', relations, condition)) q;
$$;

-- a self-join: each pair once; or both directions, and each row with itself
SELECT * FROM same_counts(ARRAY[
	'a.id < b.id AND fasted_within(a.v, b.v, 0)',
	'a.id < b.id AND fasted_within(a.v, b.v, 9)',
	'b.id < a.id AND fasted_within(a.v, b.v, 9)',
	'a.id > b.id AND fasted_distance(a.v, b.v) <= sqrt(77)',
	'a.id > b.id AND fasted_distance(a.v, b.v) < sqrt(77)',
	'fasted_distance(a.v, b.v) < sqrt(77)',
	'sqrt(77) >= fasted_distance(b.v, a.v)',
	'fasted_within(a.v, b.v, 0)',
	'fasted_distance(a.v, b.v) < 0',
	'fasted_distance(a.v, b.v) < 1e-300',
	'fasted_distance(a.v, b.v) <= -1',
	'fasted_distance(a.v, b.v) < ''Infinity''',
	'fasted_within(a.v, b.v, ''Infinity'') AND a.id < b.id',
	'fasted_distance(a.v, b.v) <= ''NaN''',
	'fasted_within(a.v, b.v, NULL)']);
SELECT * FROM same_counts(ARRAY[
	'a.id < b.id AND fasted_within(a.v, b.v, 0.2, ''cosine'')',
	'fasted_within(a.v, b.v, 0.2, ''cosine'')',
	'fasted_within(a.v, b.v, 0, ''cosine'')',
	'fasted_cosine_distance(a.v, b.v) < 0',
	'fasted_cosine_distance(a.v, b.v) < 0.3 AND a.id > b.id',
	'fasted_cosine_distance(a.v, b.v) < 2',
	'fasted_cosine_distance(a.v, b.v) <= 2',
	'fasted_cosine_distance(a.v, b.v) < 3 AND a.id < b.id',
	'fasted_cosine_distance(a.v, b.v) < ''Infinity''',
	'fasted_cosine_distance(a.v, b.v) <= ''NaN''']);
-- at each distance that occurs, and just below it
SELECT bool_and(same), count(*) FROM (SELECT DISTINCT fasted_cosine_distance(a.v, b.v) AS x FROM few a, few b ORDER BY x LIMIT 40) d,
	unnest('{<,<=}'::text[]) o, same_count(format('SELECT count(*) FROM few a JOIN few b ON a.id < b.id AND fasted_cosine_distance(a.v, b.v) %s %L', o, x));
SELECT bool_and(same), count(*) FROM (SELECT DISTINCT fasted_distance(a.v, b.v) AS x FROM few a, few b ORDER BY x LIMIT 40) d,
	unnest('{<,<=}'::text[]) o, same_count(format('SELECT count(*) FROM few a JOIN few b ON fasted_distance(a.v, b.v) %s %L', o, x));

-- an order that may not be total, and other clauses: not counted by the engine
SELECT * FROM same_counts(ARRAY[
	'a.other < b.other AND fasted_within(a.v, b.v, 9)',
	'a.name < b.name AND fasted_within(a.v, b.v, 9)',
	'a.id <= b.id AND fasted_within(a.v, b.v, 9)',
	'a.id <> b.id AND fasted_within(a.v, b.v, 9)',
	'a.id < b.other AND fasted_within(a.v, b.v, 9)',
	'a.id < b.id AND a.k < b.k AND fasted_within(a.v, b.v, 9)',
	'a.id < b.id AND a.other < b.other AND fasted_within(a.v, b.v, 9)',
	'a.id < b.id AND fasted_within(a.v, b.v, 9) AND fasted_within(a.v, b.v, 0.1, ''cosine'')']);
-- unique, but some values are null; then not null; then unique for some rows, with a second column, or at commit
ALTER TABLE counted ADD COLUMN n int;
UPDATE counted SET n = nullif(id, 5);
CREATE UNIQUE INDEX counted_n ON counted (n);
SELECT * FROM same_counts('{"a.n < b.n AND fasted_within(a.v, b.v, 9)"}');
UPDATE counted SET n = id;
ALTER TABLE counted ALTER n SET NOT NULL;
SELECT * FROM same_counts('{"a.n < b.n AND fasted_within(a.v, b.v, 9)"}');
DROP INDEX counted_n;
CREATE UNIQUE INDEX counted_n ON counted (n) WHERE id > 0;
SELECT * FROM same_counts('{"a.n < b.n AND fasted_within(a.v, b.v, 9)"}');
DROP INDEX counted_n;
CREATE UNIQUE INDEX counted_n ON counted (n, k);
SELECT * FROM same_counts('{"a.n < b.n AND fasted_within(a.v, b.v, 9)"}');
DROP INDEX counted_n;
ALTER TABLE counted ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED;
BEGIN;
UPDATE counted SET n = 1;
SELECT * FROM same_counts('{"a.n < b.n AND fasted_within(a.v, b.v, 9)"}');
ROLLBACK;
-- an order with another collation or operator family than the unique index
ALTER TABLE counted ADD COLUMN word text COLLATE "C";
UPDATE counted SET word = CASE WHEN id % 2 = 0 THEN 'w' ELSE 'W' END || id / 2;
ALTER TABLE counted ALTER word SET NOT NULL, ADD UNIQUE (word);
SELECT * FROM same_counts(ARRAY['a.word < b.word AND fasted_within(a.v, b.v, 9)',
	'a.word < b.word COLLATE "POSIX" AND fasted_within(a.v, b.v, 9)', 'a.word ~<~ b.word AND fasted_within(a.v, b.v, 9)']);

-- two tables, two sides of one table, empty sides, fallback rows
SELECT * FROM same_counts('{"fasted_within(a.v, b.v, 9)","fasted_distance(a.v, b.v) < 5","fasted_cosine_distance(a.v, b.v) < 0.2","a.id < b.id AND fasted_within(a.v, b.v, 9)"}', 'counted a JOIN others b');
SELECT * FROM same_counts('{"fasted_within(a.v, b.v, 9)","a.id < b.id AND fasted_within(a.v, b.v, 9)"}', 'counted a JOIN (SELECT * FROM counted WHERE k > 1) b');
SELECT * FROM same_counts('{"fasted_within(a.v, b.v, 9)","a.id < b.id AND fasted_within(a.v, b.v, 0.2, ''cosine'')"}', 'seen a JOIN seen b');
SELECT * FROM same_counts('{"fasted_within(a.v, b.v, 9)"}', 'counted a JOIN no_rows b');
SELECT * FROM same_counts('{"fasted_within(a.v, b.v, -1)"}', 'no_rows a JOIN no_rows b');
SELECT * FROM same_counts('{"fasted_within(a.v, b.v, 9)"}', 'counted a JOIN nulls b');
SELECT * FROM same_counts('{"a.id < b.id AND fasted_within(a.v, b.v, 9)"}', 'nulls a JOIN nulls b');
SELECT * FROM same_counts('{"a.k = b.k AND fasted_within(a.v, b.v, 5)","a.k = b.k AND a.id < b.id AND fasted_within(a.v, b.v, 5)","a.k = b.k + 0 AND a.id < b.id AND fasted_within(a.v, b.v, 5)","a.k % 3 = b.k % 3 AND fasted_cosine_distance(a.v, b.v) < 0.2"}', 'odd a JOIN odd b');
SELECT count(*) FROM odd a JOIN odd b ON a.id < b.id AND fasted_within(a.v, b.v, 5);
SELECT count(*) FROM counted a JOIN others b ON fasted_within(a.v, b.v, -1);
-- partitions: large ones, and many small ones; null keys are in no partition
SELECT * FROM same_counts(ARRAY[
	'a.k = b.k AND fasted_within(a.v, b.v, 9)',
	'a.k = b.k AND a.id < b.id AND fasted_distance(a.v, b.v) < 9',
	'a.k = b.k AND a.id < b.id AND fasted_cosine_distance(a.v, b.v) < 0.3',
	'a.k = b.k AND a.other < b.other AND fasted_within(a.v, b.v, 9)',
	'a.other = b.other AND fasted_within(a.v, b.v, 13)',
	'a.k = b.k AND a.other = b.other AND a.id < b.id AND fasted_within(a.v, b.v, 13)',
	'a.k = b.other AND fasted_within(a.v, b.v, 9)']);
SELECT * FROM same_counts('{"a.k = b.k AND fasted_within(a.v, b.v, 9)"}', 'counted a JOIN others b');
-- different keys with one hash value
CREATE FUNCTION one_hash(int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT 1';
CREATE FUNCTION equals(int, int) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'int4eq';
CREATE OPERATOR === (FUNCTION = equals, LEFTARG = int, RIGHTARG = int, COMMUTATOR = ===, HASHES, RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR FAMILY same_hash USING hash;
ALTER OPERATOR FAMILY same_hash USING hash ADD OPERATOR 1 === (int, int), FUNCTION 1 (int, int) one_hash(int);
SELECT * FROM same_counts('{"a.k === b.k AND a.id < b.id AND fasted_within(a.v, b.v, 9)","a.k === b.k AND fasted_within(a.v, b.v, 9)"}');
SELECT * FROM same_counts('{"a.k === b.k AND fasted_within(a.v, b.v, 9)"}', 'counted a JOIN others b');

-- queries that use the rows, or the count, in other ways
SELECT * FROM same_count('SELECT count(*) + 1 FROM counted a JOIN counted b ON a.id < b.id AND fasted_within(a.v, b.v, 9)');
SELECT * FROM same_count('SELECT count(*) FROM counted a JOIN counted b ON a.id < b.id AND fasted_within(a.v, b.v, 9) ORDER BY count(*) LIMIT 1');
SELECT * FROM same_count('SELECT DISTINCT count(*) FROM counted a, counted b WHERE a.id < b.id AND fasted_within(a.v, b.v, 9)');
SELECT * FROM same_count('SELECT count(a.k) FROM counted a JOIN counted b ON fasted_within(a.v, b.v, 9)');
SELECT * FROM same_count('SELECT count(*) FILTER (WHERE a.k > 1) FROM counted a JOIN counted b ON fasted_within(a.v, b.v, 9)');
SELECT * FROM same_count('SELECT count(*) FROM counted a JOIN counted b ON fasted_within(a.v, b.v, 9) HAVING count(*) > 1');
SELECT * FROM same_count('SELECT count(*) FROM counted a JOIN counted b ON fasted_within(a.v, b.v, 9) GROUP BY a.k IS NULL ORDER BY 1 LIMIT 1');
SELECT * FROM same_count('SELECT count(*) + max(a.k) FROM counted a JOIN counted b ON fasted_within(a.v, b.v, 9)');
SELECT * FROM same_count('SELECT count(*) FROM (SELECT FROM counted a JOIN counted b ON fasted_within(a.v, b.v, 9) LIMIT 7) q');
SELECT * FROM same_count('SELECT count(*) FROM (SELECT a.id FROM counted a JOIN counted b ON a.id < b.id AND fasted_within(a.v, b.v, 9)) q');
SELECT * FROM same_count('SELECT count(*) FROM counted a LEFT JOIN counted b ON a.id < b.id AND fasted_within(a.v, b.v, 9)');
SELECT * FROM same_count('SELECT count(*) FROM counted a WHERE EXISTS (SELECT FROM others b WHERE fasted_within(a.v, b.v, 9))');
-- the join below another join, in any order that the planner may prefer
SET join_collapse_limit = 1;
SELECT * FROM same_count('SELECT count(*) FROM counted a JOIN counted b ON a.id < b.id AND fasted_within(a.v, b.v, 9) JOIN others c ON c.id = a.id');
RESET join_collapse_limit;
SELECT * FROM same_count('SELECT count(*) FROM (SELECT a.v FROM counted a JOIN others c ON c.id = a.id) a JOIN others b ON fasted_within(a.v, b.v, 9)');
SELECT * FROM same_count('SELECT (SELECT count(*) FROM counted a JOIN counted b ON a.id < b.id AND fasted_within(a.v, b.v, 9)) + (SELECT count(*) FROM no_rows)');

-- rescans with other rows and another eps, in one plan
SELECT * FROM same_count('SELECT sum(n * number)::bigint FROM (SELECT row_number() OVER () AS number,
	(SELECT count(*) FROM counted a JOIN counted b ON a.id < b.id AND fasted_within(a.v, b.v, x) WHERE a.k > y AND b.k > y) AS n
	FROM (VALUES (0::float8, 0), (9, 0), (9, 2), (NULL, 1), (5, 1), (9, 0)) r (x, y) OFFSET 0) q');
SET plan_cache_mode = force_generic_plan;
PREPARE pairs(float8) AS SELECT count(*) FROM counted a JOIN counted b ON a.id < b.id AND fasted_distance(a.v, b.v) < $1;
EXECUTE pairs(9);
EXECUTE pairs(0);
EXECUTE pairs(NULL);
EXECUTE pairs('NaN');
EXECUTE pairs(sqrt(77));
-- the same after ids are no longer unique
ALTER TABLE counted DROP CONSTRAINT counted_pkey;
UPDATE counted SET id = id / 2;
EXECUTE pairs(9);
SELECT * FROM same_counts('{"a.id < b.id AND fasted_distance(a.v, b.v) < 9"}');
RESET plan_cache_mode;
-- in panels
SET fasted.memory_limit = '1MB';
CREATE TABLE wide AS SELECT g AS id, (SELECT array_agg(((i * g) % 5)::real) FROM generate_series(1, 800) i) AS v FROM generate_series(1, 250) g;
ALTER TABLE wide ADD PRIMARY KEY (id);
ANALYZE wide;
SELECT * FROM same_counts('{"a.id < b.id AND fasted_within(a.v, b.v, 30)","fasted_cosine_distance(a.v, b.v) < 0.1"}', 'wide a JOIN wide b');
RESET fasted.memory_limit;

-- row security, and a view that hides rows
CREATE ROLE regress_fasted_counter;
GRANT SELECT ON counted, seen TO regress_fasted_counter;
ALTER TABLE counted ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON counted USING (n % 3 = 0);
SET ROLE regress_fasted_counter;
SELECT count(*) FROM counted a JOIN counted b ON fasted_within(a.v, b.v, 9);
SET fasted.join_node = off;
SELECT count(*) FROM counted a JOIN counted b ON fasted_within(a.v, b.v, 9);
RESET fasted.join_node;
RESET ROLE;
DROP TABLE counted, few, others, no_rows, nulls, odd, wide CASCADE;
DROP FUNCTION same_counts, same_count;
DROP OPERATOR FAMILY same_hash USING hash;
DROP OPERATOR === (int, int);
DROP FUNCTION one_hash;
DROP FUNCTION equals;
DROP ROLE regress_fasted_counter;
