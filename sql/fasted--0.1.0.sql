-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION fasted" to load this file. \quit

-- The planner asks it for rows and cost; being asked, it also makes the library
-- loaded, so that a scan node can take the function's place (doc/plans.md).
CREATE FUNCTION fasted_self_join_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_self_join_support'
LANGUAGE C STRICT;

COMMENT ON FUNCTION fasted_self_join_support(internal) IS
	'planner support for fasted_self_join';

-- Every pair of rows within Euclidean distance eps of each other.
--
-- STABLE: reads the table in the snapshot of the calling query.
-- Not STRICT: id_column may be NULL, and other NULLs get an error, not silence.
CREATE FUNCTION fasted_self_join(
	relation regclass,
	"column" name,
	eps double precision,
	id_column name DEFAULT NULL,
	ordered boolean DEFAULT false,
	self_pairs boolean DEFAULT false)
RETURNS TABLE (id_a bigint, id_b bigint, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_self_join'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_self_join_support;

COMMENT ON FUNCTION fasted_self_join(regclass, name, double precision, name, boolean, boolean) IS
	'every pair of rows whose vectors are within eps of each other, for integer keys';

-- The same for keys of any type with a default btree order; id_type is a NULL
-- of that type and has no other use.
CREATE FUNCTION fasted_self_join(
	id_type anyelement,
	relation regclass,
	"column" name,
	eps double precision,
	id_column name DEFAULT NULL,
	ordered boolean DEFAULT false,
	self_pairs boolean DEFAULT false)
RETURNS TABLE (id_a anyelement, id_b anyelement, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_self_join_any'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_self_join_support;

COMMENT ON FUNCTION fasted_self_join(anyelement, regclass, name, double precision, name, boolean, boolean) IS
	'every pair of rows whose vectors are within eps of each other, for keys of any ordered type';

-- The eps with which rows have so many neighbours on average.
--
-- VOLATILE: another sample of the rows each time.
-- Not STRICT: sample_rows and seed may be NULL, and other NULLs get an error.
CREATE FUNCTION fasted_epsilon(
	relation regclass,
	"column" name,
	selectivity double precision,
	sample_rows integer DEFAULT NULL,
	confidence double precision DEFAULT 0.95,
	seed bigint DEFAULT NULL,
	OUT eps double precision,
	OUT eps_low double precision,
	OUT eps_high double precision,
	OUT rows bigint,
	OUT sampled bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'fasted_epsilon'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000;

COMMENT ON FUNCTION fasted_epsilon(regclass, name, double precision, integer, double precision, bigint) IS
	'the eps with which rows have so many neighbours on average, estimated from a sample';

-- Internal: what parallel workers read, they put into shared memory.  COST is
-- that of detoasting and converting a vector; only the join's own query may call
-- these.
CREATE FUNCTION fasted_internal_put(key "any", vector "any")
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL SAFE COST 40;

COMMENT ON FUNCTION fasted_internal_put("any", "any") IS
	'internal to fasted_self_join: a parallel worker hands over a row';

CREATE FUNCTION fasted_internal_call()
RETURNS bytea
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal_call() IS
	'internal to fasted_self_join: a parallel worker calls its leader';

-- Internal: the joins at work that the current user may know of.
CREATE FUNCTION fasted_internal_progress(
	OUT pid integer,
	OUT datid oid,
	OUT usesysid oid,
	OUT relid oid,
	OUT phase text,
	OUT rows_read bigint,
	OUT rows_expected bigint,
	OUT units_done bigint,
	OUT units_total bigint,
	OUT pairs bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED ROWS 10;

COMMENT ON FUNCTION fasted_internal_progress() IS
	'internal: what pg_stat_fasted_progress shows';

CREATE VIEW pg_stat_fasted_progress AS
SELECT p.pid, d.datname, pg_catalog.pg_get_userbyid(p.usesysid) AS usename, p.relid,
	CASE WHEN d.datname = pg_catalog.current_database() THEN p.relid::pg_catalog.regclass END AS relation,
	p.phase, p.rows_read, p.rows_expected, p.units_done, p.units_total, p.pairs
FROM fasted_internal_progress() p
	LEFT JOIN pg_catalog.pg_database d ON d.oid = p.datid;

COMMENT ON VIEW pg_stat_fasted_progress IS
	'how far each running fasted_self_join is';

GRANT SELECT ON pg_stat_fasted_progress TO PUBLIC;
