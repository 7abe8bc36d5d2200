-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION fasted_citus" to load this file. \quit

-- Functions that a join distributed over a Citus cluster calls on other nodes, by name, as the
-- user who runs the join.  So all users have USAGE and EXECUTE, and may call them with any arguments:
-- the functions check all of them.  Reading a table still needs privileges.
CREATE SCHEMA fasted_citus;

COMMENT ON SCHEMA fasted_citus IS
	'internal to the extension fasted_citus: joins distributed over a Citus cluster';

GRANT USAGE ON SCHEMA fasted_citus TO PUBLIC;

CREATE FUNCTION fasted_citus.vector_hash(real[])
RETURNS bigint
AS 'MODULE_PATHNAME', 'fasted_citus_vector_hash'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION fasted_citus.vector_hash(real[]) IS
	'hash of a vector as it is joined';

CREATE FUNCTION fasted_citus.vector_hash(double precision[])
RETURNS bigint
AS 'MODULE_PATHNAME', 'fasted_citus_vector_hash'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION fasted_citus.vector_hash(double precision[]) IS
	'hash of a vector as it is joined';

CREATE FUNCTION fasted_citus.vector_hash(numeric[])
RETURNS bigint
AS 'MODULE_PATHNAME', 'fasted_citus_vector_hash'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION fasted_citus.vector_hash(numeric[]) IS
	'hash of a vector as it is joined';

CREATE FUNCTION fasted_citus.vector_hash(bit varying)
RETURNS bigint
AS 'MODULE_PATHNAME', 'fasted_citus_vector_hash'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;

COMMENT ON FUNCTION fasted_citus.vector_hash(bit varying) IS
	'hash of a vector as it is joined';

CREATE FUNCTION fasted_citus.vector_bytes(real[])
RETURNS bytea
AS 'MODULE_PATHNAME', 'fasted_citus_vector_bytes'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_citus.vector_bytes(real[]) IS
	'the array as bytea, as it is in memory';

CREATE FUNCTION fasted_citus.vector_bytes(double precision[])
RETURNS bytea
AS 'MODULE_PATHNAME', 'fasted_citus_vector_bytes'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_citus.vector_bytes(double precision[]) IS
	'the array as bytea, as it is in memory';

CREATE FUNCTION fasted_citus.vector_bytes(bit varying)
RETURNS bytea
AS 'MODULE_PATHNAME', 'fasted_citus_vector_bytes'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_citus.vector_bytes(bit varying) IS
	'the bits as bytea, as they are in memory';

CREATE FUNCTION fasted_citus.join_slice(
	relation regclass,
	vector_column name,
	eps double precision,
	id_column name,
	key_type regtype,
	metric text,
	skip_zeros boolean,
	output text,
	slice integer,
	slices integer,
	identical_kernels boolean DEFAULT false)
RETURNS SETOF bytea
AS 'MODULE_PATHNAME', 'fasted_citus_join_slice'
LANGUAGE C STABLE STRICT PARALLEL UNSAFE COST 1000000 ROWS 1000;

COMMENT ON FUNCTION fasted_citus.join_slice(regclass, name, double precision, name, regtype, text, boolean, text, integer, integer, boolean) IS
	'one slice of the pairs of a relation, as binary messages';

CREATE FUNCTION fasted_citus.kernel()
RETURNS text
AS 'MODULE_PATHNAME', 'fasted_citus_kernel'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_citus.kernel() IS
	'the CPU kernel and settings that determine the order of rows on this node';

CREATE FUNCTION fasted_citus.nearest_slice(
	a regclass,
	a_column name,
	a_id name,
	b regclass,
	b_column name,
	b_id name,
	key_type regtype,
	k integer,
	max_distance double precision,
	metric text,
	slice integer,
	slices integer)
RETURNS SETOF bytea
AS 'MODULE_PATHNAME', 'fasted_citus_nearest_slice'
LANGUAGE C STABLE STRICT PARALLEL UNSAFE COST 1000000 ROWS 1000;

COMMENT ON FUNCTION fasted_citus.nearest_slice(regclass, name, name, regclass, name, name, regtype, integer, double precision, text, integer, integer) IS
	'the nearest rows of b for one slice of the rows of a, as binary messages';
