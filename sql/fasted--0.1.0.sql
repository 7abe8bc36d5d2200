-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION fasted" to load this file. \quit

-- Estimates rows and cost for the planner.  The call also loads the library, so that the planner
-- can replace the function with a scan node (doc/reference.md).
CREATE FUNCTION fasted_self_join_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_self_join_support'
LANGUAGE C STRICT;

COMMENT ON FUNCTION fasted_self_join_support(internal) IS
	'planner support for fasted_self_join';

-- Functions in FROM have two forms: for keys that convert to bigint, and for keys of any type with a
-- default btree operator class.  The latter have an argument id_type, a NULL of that type.
--
-- id_type cannot be the last argument, with a default: the parser determines the types of polymorphic
-- columns from the argument at the same position of the call as written, before it adds defaults
-- and sorts named arguments.  So the arguments before id_type have no default.  id_type replaces
-- an argument of a string type, which becomes the last one.  Then no call by position is ambiguous:
-- the parser prefers the string type for an untyped literal or parameter.
-- With anycompatible, an untyped NULL is text, so the error that follows is about the key type.

-- All pairs of rows within distance eps of each other.
--
-- STABLE, because it reads the table in the snapshot of the calling query.
-- Not STRICT, because id_column may be NULL.  If eps is NULL, the result is empty, as that of a join
-- within NULL; a NULL in another argument raises an error.
CREATE FUNCTION fasted_self_join(
	relation regclass,
	vector_column name,
	eps double precision,
	metric text DEFAULT 'l2',
	ordered boolean DEFAULT false,
	self_pairs boolean DEFAULT false,
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id_a bigint, id_b bigint, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_self_join'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_self_join_support;

COMMENT ON FUNCTION fasted_self_join(regclass, name, double precision, text, boolean, boolean, name, name) IS
	'every pair of rows whose vectors are within eps of each other, for integer keys';

CREATE FUNCTION fasted_self_join(
	relation regclass,
	vector_column name,
	eps double precision,
	id_type anycompatible,
	ordered boolean DEFAULT false,
	self_pairs boolean DEFAULT false,
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL,
	metric text DEFAULT 'l2')
RETURNS TABLE (id_a anycompatible, id_b anycompatible, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_self_join'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_self_join_support;

COMMENT ON FUNCTION fasted_self_join(regclass, name, double precision, anycompatible, boolean, boolean, name, name, text) IS
	'every pair of rows whose vectors are within eps of each other, for keys of any ordered type';

-- Estimates the fraction of pairs within eps for the planner.  The call also loads the library,
-- so that an engine can compute joins on a distance (doc/joins.md).
CREATE FUNCTION fasted_distance_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_distance_support'
LANGUAGE C STRICT;

COMMENT ON FUNCTION fasted_distance_support(internal) IS
	'planner support for functions of two vectors';

-- Functions of two vectors: values of any types with a cast to real[], and untyped literals, as an
-- array or in pgvector's form.  The planner checks the types and converts the vectors
-- (fasted_distance_support).  With "any", no call is ambiguous, and no type converts to another one first.
CREATE FUNCTION fasted_distance(a "any", b "any")
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_distance("any", "any") IS
	'Euclidean distance between two vectors, as computed by fasted_self_join';

-- 1 - cosine similarity; NaN if either vector is zero.
CREATE FUNCTION fasted_cosine_distance(a "any", b "any")
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_cosine_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_cosine_distance("any", "any") IS
	'cosine distance between two vectors, from 0 to 2';

-- The cosine of the angle; NULL if either vector is zero.
CREATE FUNCTION fasted_cosine_similarity(a "any", b "any")
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_cosine_similarity'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_cosine_similarity("any", "any") IS
	'cosine similarity of two vectors, from -1 to 1';

CREATE FUNCTION fasted_negative_inner_product(a "any", b "any")
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_negative_inner_product'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_negative_inner_product("any", "any") IS
	'negative inner product of two vectors';

-- Accepts bits, too.
CREATE FUNCTION fasted_within(a "any", b "any", eps double precision, metric text DEFAULT 'l2')
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_within'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_within("any", "any", double precision, text) IS
	'is the distance between two vectors at most eps, by metric l2, cosine, inner_product, hamming or jaccard?';

-- Distances and similarity of bits.  Values of type bit varying are accepted, too.
CREATE FUNCTION fasted_hamming_distance(a bit, b bit)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_hamming_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_hamming_distance(bit, bit) IS
	'number of bits in which two vectors differ';

CREATE FUNCTION fasted_jaccard_distance(a bit, b bit)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_jaccard_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_jaccard_distance(bit, bit) IS
	'Jaccard distance between two vectors of bits, from 0 to 1; 1 if they have no common bit';

CREATE FUNCTION fasted_jaccard_similarity(a bit, b bit)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_jaccard_similarity'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_jaccard_similarity(bit, bit) IS
	'Jaccard (Tanimoto) similarity of two vectors of bits, from 0 to 1; 0 if they have no common bit';

-- Internal objects; other users have no USAGE on this schema.
CREATE SCHEMA fasted_internal;

COMMENT ON SCHEMA fasted_internal IS
	'internal to the extension fasted';

-- The same distances as operators, for arrays.  A vector of real[] beside one of double precision[] is cast;
-- the planner then replaces the operator by one that an index on real[] has, too, but that the parser
-- must not see: it could not choose among so many for an operand of type numeric[].

CREATE FUNCTION fasted_internal.array_distance(a real[], b real[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR <-> (LEFTARG = real[], RIGHTARG = real[],
	FUNCTION = fasted_internal.array_distance, COMMUTATOR = <->);

COMMENT ON FUNCTION fasted_internal.array_distance(real[], real[]) IS
	'implementation of <-> operator';
COMMENT ON OPERATOR <-> (real[], real[]) IS
	'Euclidean distance';

CREATE FUNCTION fasted_internal.array_distance(a real[], b double precision[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR fasted_internal.<-> (LEFTARG = real[], RIGHTARG = double precision[],
	FUNCTION = fasted_internal.array_distance, COMMUTATOR = OPERATOR(fasted_internal.<->));

COMMENT ON FUNCTION fasted_internal.array_distance(real[], double precision[]) IS
	'implementation of <-> operator';
COMMENT ON OPERATOR fasted_internal.<-> (real[], double precision[]) IS
	'Euclidean distance';

CREATE FUNCTION fasted_internal.array_distance(a double precision[], b real[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR fasted_internal.<-> (LEFTARG = double precision[], RIGHTARG = real[],
	FUNCTION = fasted_internal.array_distance, COMMUTATOR = OPERATOR(fasted_internal.<->));

COMMENT ON FUNCTION fasted_internal.array_distance(double precision[], real[]) IS
	'implementation of <-> operator';
COMMENT ON OPERATOR fasted_internal.<-> (double precision[], real[]) IS
	'Euclidean distance';

CREATE FUNCTION fasted_internal.array_distance(a double precision[], b double precision[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR <-> (LEFTARG = double precision[], RIGHTARG = double precision[],
	FUNCTION = fasted_internal.array_distance, COMMUTATOR = <->);

COMMENT ON FUNCTION fasted_internal.array_distance(double precision[], double precision[]) IS
	'implementation of <-> operator';
COMMENT ON OPERATOR <-> (double precision[], double precision[]) IS
	'Euclidean distance';

CREATE FUNCTION fasted_internal.array_cosine_distance(a real[], b real[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_cosine_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR <=> (LEFTARG = real[], RIGHTARG = real[],
	FUNCTION = fasted_internal.array_cosine_distance, COMMUTATOR = <=>);

COMMENT ON FUNCTION fasted_internal.array_cosine_distance(real[], real[]) IS
	'implementation of <=> operator';
COMMENT ON OPERATOR <=> (real[], real[]) IS
	'cosine distance, from 0 to 2; NaN if either vector is zero';

CREATE FUNCTION fasted_internal.array_cosine_distance(a real[], b double precision[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_cosine_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR fasted_internal.<=> (LEFTARG = real[], RIGHTARG = double precision[],
	FUNCTION = fasted_internal.array_cosine_distance, COMMUTATOR = OPERATOR(fasted_internal.<=>));

COMMENT ON FUNCTION fasted_internal.array_cosine_distance(real[], double precision[]) IS
	'implementation of <=> operator';
COMMENT ON OPERATOR fasted_internal.<=> (real[], double precision[]) IS
	'cosine distance, from 0 to 2; NaN if either vector is zero';

CREATE FUNCTION fasted_internal.array_cosine_distance(a double precision[], b real[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_cosine_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR fasted_internal.<=> (LEFTARG = double precision[], RIGHTARG = real[],
	FUNCTION = fasted_internal.array_cosine_distance, COMMUTATOR = OPERATOR(fasted_internal.<=>));

COMMENT ON FUNCTION fasted_internal.array_cosine_distance(double precision[], real[]) IS
	'implementation of <=> operator';
COMMENT ON OPERATOR fasted_internal.<=> (double precision[], real[]) IS
	'cosine distance, from 0 to 2; NaN if either vector is zero';

CREATE FUNCTION fasted_internal.array_cosine_distance(a double precision[], b double precision[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_cosine_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR <=> (LEFTARG = double precision[], RIGHTARG = double precision[],
	FUNCTION = fasted_internal.array_cosine_distance, COMMUTATOR = <=>);

COMMENT ON FUNCTION fasted_internal.array_cosine_distance(double precision[], double precision[]) IS
	'implementation of <=> operator';
COMMENT ON OPERATOR <=> (double precision[], double precision[]) IS
	'cosine distance, from 0 to 2; NaN if either vector is zero';

CREATE FUNCTION fasted_internal.array_negative_inner_product(a real[], b real[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_negative_inner_product'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR <#> (LEFTARG = real[], RIGHTARG = real[],
	FUNCTION = fasted_internal.array_negative_inner_product, COMMUTATOR = <#>);

COMMENT ON FUNCTION fasted_internal.array_negative_inner_product(real[], real[]) IS
	'implementation of <#> operator';
COMMENT ON OPERATOR <#> (real[], real[]) IS
	'negative inner product';

CREATE FUNCTION fasted_internal.array_negative_inner_product(a real[], b double precision[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_negative_inner_product'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR fasted_internal.<#> (LEFTARG = real[], RIGHTARG = double precision[],
	FUNCTION = fasted_internal.array_negative_inner_product, COMMUTATOR = OPERATOR(fasted_internal.<#>));

COMMENT ON FUNCTION fasted_internal.array_negative_inner_product(real[], double precision[]) IS
	'implementation of <#> operator';
COMMENT ON OPERATOR fasted_internal.<#> (real[], double precision[]) IS
	'negative inner product';

CREATE FUNCTION fasted_internal.array_negative_inner_product(a double precision[], b real[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_negative_inner_product'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR fasted_internal.<#> (LEFTARG = double precision[], RIGHTARG = real[],
	FUNCTION = fasted_internal.array_negative_inner_product, COMMUTATOR = OPERATOR(fasted_internal.<#>));

COMMENT ON FUNCTION fasted_internal.array_negative_inner_product(double precision[], real[]) IS
	'implementation of <#> operator';
COMMENT ON OPERATOR fasted_internal.<#> (double precision[], real[]) IS
	'negative inner product';

CREATE FUNCTION fasted_internal.array_negative_inner_product(a double precision[], b double precision[])
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_array_negative_inner_product'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

CREATE OPERATOR <#> (LEFTARG = double precision[], RIGHTARG = double precision[],
	FUNCTION = fasted_internal.array_negative_inner_product, COMMUTATOR = <#>);

COMMENT ON FUNCTION fasted_internal.array_negative_inner_product(double precision[], double precision[]) IS
	'implementation of <#> operator';
COMMENT ON OPERATOR <#> (double precision[], double precision[]) IS
	'negative inner product';

-- All vectors within a distance of a vector: an operand of index conditions, and of exclusion constraints.
CREATE TYPE fasted_ball;

CREATE FUNCTION fasted_ball_in(cstring)
RETURNS fasted_ball
AS 'MODULE_PATHNAME', 'fasted_ball_in'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_ball_in(cstring) IS
	'I/O of type fasted_ball';

CREATE FUNCTION fasted_ball_out(fasted_ball)
RETURNS cstring
AS 'MODULE_PATHNAME', 'fasted_ball_out'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_ball_out(fasted_ball) IS
	'I/O of type fasted_ball';

CREATE TYPE fasted_ball (
	INPUT = fasted_ball_in,
	OUTPUT = fasted_ball_out,
	ALIGNMENT = double,
	STORAGE = external);

COMMENT ON TYPE fasted_ball IS
	'a vector and a radius: all vectors within this Euclidean distance';

CREATE FUNCTION fasted_ball(centre real[], radius double precision)
RETURNS fasted_ball
AS 'MODULE_PATHNAME', 'fasted_ball'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_ball(real[], double precision) IS
	'all vectors within a Euclidean distance of a vector';

CREATE FUNCTION fasted_ball(centre double precision[], radius double precision)
RETURNS fasted_ball
AS 'MODULE_PATHNAME', 'fasted_ball'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_ball(double precision[], double precision) IS
	'all vectors within a Euclidean distance of a vector';

-- Balls of index conditions, which the planner adds beside conditions on distances.
CREATE FUNCTION fasted_internal.index_ball(centre anyelement, radius double precision, least_distance double precision)
RETURNS fasted_ball
AS 'MODULE_PATHNAME', 'fasted_index_ball'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.index_ball(anyelement, double precision, double precision) IS
	'the vectors that an index condition selects';

CREATE FUNCTION fasted_internal.ball_overlaps(a fasted_ball, b fasted_ball)
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_ball_overlaps'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;

CREATE OPERATOR && (LEFTARG = fasted_ball, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.ball_overlaps, COMMUTATOR = &&, RESTRICT = contsel, JOIN = contjoinsel);

COMMENT ON FUNCTION fasted_internal.ball_overlaps(fasted_ball, fasted_ball) IS
	'implementation of && operator';
COMMENT ON OPERATOR && (fasted_ball, fasted_ball) IS
	'is the distance of the centres at most the sum of the radii?';

-- Only for index conditions, one for each metric: the original condition decides.
CREATE FUNCTION fasted_internal.maybe_within_ball(vector anyelement, ball fasted_ball)
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_maybe_within_ball'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.maybe_within_ball(anyelement, fasted_ball) IS
	'implementation of operators of index conditions';

CREATE OPERATOR fasted_internal.<@ (LEFTARG = anyelement, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

CREATE OPERATOR fasted_internal.<=>@ (LEFTARG = anyelement, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

CREATE OPERATOR fasted_internal.<#>@ (LEFTARG = anyelement, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

CREATE OPERATOR fasted_internal.<~>@ (LEFTARG = anyelement, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

CREATE OPERATOR fasted_internal.<%>@ (LEFTARG = anyelement, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

-- Exact indexes.  src/index/index.h describes the strategies and support functions of the operator classes.
CREATE FUNCTION fasted_handler(internal)
RETURNS index_am_handler
AS 'MODULE_PATHNAME', 'fasted_handler'
LANGUAGE C STRICT;

COMMENT ON FUNCTION fasted_handler(internal) IS
	'handler of index access method fasted';

CREATE ACCESS METHOD fasted TYPE INDEX HANDLER fasted_handler;

COMMENT ON ACCESS METHOD fasted IS
	'exact index of vectors: all rows within a distance, and nearest rows';

-- Compares an index with its table, which may be written to meanwhile.
CREATE FUNCTION fasted_index_check(index regclass)
RETURNS bigint
AS 'MODULE_PATHNAME', 'fasted_index_check'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION fasted_index_check(regclass) IS
	'number of rows of the table, which are in the index; an error if the index is damaged';

REVOKE ALL ON FUNCTION fasted_index_check(regclass) FROM PUBLIC;

CREATE FUNCTION fasted_internal.index_kind(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_index_kind'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.index_kind(internal) IS
	'support of operator classes for vectors and balls';

CREATE OPERATOR CLASS real_l2_ops
DEFAULT FOR TYPE real[] USING fasted AS
	OPERATOR 1 <-> (real[], real[]) FOR ORDER BY float_ops,
	OPERATOR 1 fasted_internal.<-> (real[], double precision[]) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS double_l2_ops
DEFAULT FOR TYPE double precision[] USING fasted AS
	OPERATOR 1 <-> (double precision[], double precision[]) FOR ORDER BY float_ops,
	OPERATOR 1 fasted_internal.<-> (double precision[], real[]) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS real_cosine_ops
FOR TYPE real[] USING fasted AS
	OPERATOR 1 <=> (real[], real[]) FOR ORDER BY float_ops,
	OPERATOR 1 fasted_internal.<=> (real[], double precision[]) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<=>@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS double_cosine_ops
FOR TYPE double precision[] USING fasted AS
	OPERATOR 1 <=> (double precision[], double precision[]) FOR ORDER BY float_ops,
	OPERATOR 1 fasted_internal.<=> (double precision[], real[]) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<=>@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS real_ip_ops
FOR TYPE real[] USING fasted AS
	OPERATOR 1 <#> (real[], real[]) FOR ORDER BY float_ops,
	OPERATOR 1 fasted_internal.<#> (real[], double precision[]) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<#>@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS double_ip_ops
FOR TYPE double precision[] USING fasted AS
	OPERATOR 1 <#> (double precision[], double precision[]) FOR ORDER BY float_ops,
	OPERATOR 1 fasted_internal.<#> (double precision[], real[]) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<#>@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS fasted_ball_ops
DEFAULT FOR TYPE fasted_ball USING fasted AS
	OPERATOR 3 && (fasted_ball, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

-- Further columns of an index, for equalities.  PostgreSQL hashes these types by the same functions.
CREATE OPERATOR FAMILY integer_ops USING fasted;

CREATE OPERATOR CLASS int2_ops
DEFAULT FOR TYPE smallint USING fasted FAMILY integer_ops AS
	OPERATOR 4 = (smallint, smallint),
	FUNCTION 2 hashint2(smallint);

CREATE OPERATOR CLASS int4_ops
DEFAULT FOR TYPE integer USING fasted FAMILY integer_ops AS
	OPERATOR 4 = (integer, integer),
	FUNCTION 2 hashint4(integer);

CREATE OPERATOR CLASS int8_ops
DEFAULT FOR TYPE bigint USING fasted FAMILY integer_ops AS
	OPERATOR 4 = (bigint, bigint),
	FUNCTION 2 hashint8(bigint);

ALTER OPERATOR FAMILY integer_ops USING fasted ADD
	OPERATOR 4 = (smallint, integer),
	OPERATOR 4 = (smallint, bigint),
	OPERATOR 4 = (integer, smallint),
	OPERATOR 4 = (integer, bigint),
	OPERATOR 4 = (bigint, smallint),
	OPERATOR 4 = (bigint, integer);

CREATE OPERATOR CLASS bool_ops
DEFAULT FOR TYPE boolean USING fasted AS
	OPERATOR 4 = (boolean, boolean),
	FUNCTION 2 hashchar("char");

CREATE OPERATOR CLASS oid_ops
DEFAULT FOR TYPE oid USING fasted AS
	OPERATOR 4 = (oid, oid),
	FUNCTION 2 hashoid(oid);

CREATE OPERATOR CLASS text_ops
DEFAULT FOR TYPE text USING fasted AS
	OPERATOR 4 = (text, text),
	FUNCTION 2 hashtext(text);

CREATE OPERATOR CLASS bpchar_ops
DEFAULT FOR TYPE character USING fasted AS
	OPERATOR 4 = (character, character),
	FUNCTION 2 hashbpchar(character);

CREATE OPERATOR CLASS uuid_ops
DEFAULT FOR TYPE uuid USING fasted AS
	OPERATOR 4 = (uuid, uuid),
	FUNCTION 2 uuid_hash(uuid);

CREATE OPERATOR CLASS date_ops
DEFAULT FOR TYPE date USING fasted AS
	OPERATOR 4 = (date, date),
	FUNCTION 2 hashint4(integer);

CREATE OPERATOR CLASS timestamp_ops
DEFAULT FOR TYPE timestamp USING fasted AS
	OPERATOR 4 = (timestamp, timestamp),
	FUNCTION 2 timestamp_hash(timestamp);

CREATE OPERATOR CLASS timestamptz_ops
DEFAULT FOR TYPE timestamp with time zone USING fasted AS
	OPERATOR 4 = (timestamp with time zone, timestamp with time zone),
	FUNCTION 2 timestamp_hash(timestamp);

CREATE OPERATOR CLASS numeric_ops
DEFAULT FOR TYPE numeric USING fasted AS
	OPERATOR 4 = (numeric, numeric),
	FUNCTION 2 hash_numeric(numeric);

CREATE OPERATOR CLASS bytea_ops
DEFAULT FOR TYPE bytea USING fasted AS
	OPERATOR 4 = (bytea, bytea),
	FUNCTION 2 hashvarlena(internal);

CREATE OPERATOR CLASS enum_ops
DEFAULT FOR TYPE anyenum USING fasted AS
	OPERATOR 4 = (anyenum, anyenum),
	FUNCTION 2 hashenum(anyenum);

-- The eps that gives rows a wanted mean number of neighbors.
--
-- The result has NULLs if no eps does.
--
-- VOLATILE, because it uses a different sample of the rows each time.
-- Not STRICT, because sample_rows and seed may be NULL; a NULL in another argument raises an error.
CREATE FUNCTION fasted_epsilon(
	relation regclass,
	vector_column name,
	neighbors double precision,
	sample_rows integer DEFAULT NULL,
	seed bigint DEFAULT NULL,
	ignore_copies boolean DEFAULT false,
	metric text DEFAULT 'l2',
	OUT eps double precision,
	OUT rows bigint,
	OUT sampled bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'fasted_epsilon'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000;

COMMENT ON FUNCTION fasted_epsilon(regclass, name, double precision, integer, bigint, boolean, text) IS
	'the eps that gives rows this mean number of neighbors, estimated from a sample';

-- Estimates rows and cost of the following functions, and tells the planner what they read.
CREATE FUNCTION fasted_clustering_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_clustering_support'
LANGUAGE C STRICT;

COMMENT ON FUNCTION fasted_clustering_support(internal) IS
	'planner support for clustering functions and fasted_spanning_tree';

-- The number of other rows within eps of each row.
CREATE FUNCTION fasted_neighbors(
	relation regclass,
	vector_column name,
	eps double precision,
	metric text DEFAULT 'l2',
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id bigint, neighbors bigint)
AS 'MODULE_PATHNAME', 'fasted_neighbors'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_neighbors(regclass, name, double precision, text, name, name) IS
	'the number of other rows within eps of each row, for integer keys';

CREATE FUNCTION fasted_neighbors(
	relation regclass,
	vector_column name,
	eps double precision,
	id_type anycompatible,
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL,
	metric text DEFAULT 'l2')
RETURNS TABLE (id anycompatible, neighbors bigint)
AS 'MODULE_PATHNAME', 'fasted_neighbors'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_neighbors(regclass, name, double precision, anycompatible, name, name, text) IS
	'the number of other rows within eps of each row, for keys of any ordered type';

-- Clusters by DBSCAN.  min_samples counts the row itself; with 1, the clusters are the connected
-- components of the pairs within eps.
CREATE FUNCTION fasted_cluster(
	relation regclass,
	vector_column name,
	eps double precision,
	min_samples integer DEFAULT 1,
	metric text DEFAULT 'l2',
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id bigint, cluster integer, core boolean)
AS 'MODULE_PATHNAME', 'fasted_cluster'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_cluster(regclass, name, double precision, integer, text, name, name) IS
	'the cluster of each row, by density (DBSCAN), for integer keys';

CREATE FUNCTION fasted_cluster(
	relation regclass,
	vector_column name,
	eps double precision,
	min_samples integer,
	id_type anycompatible,
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL,
	metric text DEFAULT 'l2')
RETURNS TABLE (id anycompatible, cluster integer, core boolean)
AS 'MODULE_PATHNAME', 'fasted_cluster'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_cluster(regclass, name, double precision, integer, anycompatible, name, name, text) IS
	'the cluster of each row, by density (DBSCAN), for keys of any ordered type';

-- The representative of each row, among rows within eps of each other.
CREATE FUNCTION fasted_keep_one(
	relation regclass,
	vector_column name,
	eps double precision,
	priority_column name DEFAULT NULL,
	descending boolean DEFAULT false,
	metric text DEFAULT 'l2',
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id bigint, kept bigint, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_keep_one'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_keep_one(regclass, name, double precision, name, boolean, text, name, name) IS
	'the representative of each row, which may be the row itself, for integer keys';

CREATE FUNCTION fasted_keep_one(
	relation regclass,
	vector_column name,
	eps double precision,
	id_type anycompatible,
	descending boolean DEFAULT false,
	metric text DEFAULT 'l2',
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL,
	priority_column name DEFAULT NULL)
RETURNS TABLE (id anycompatible, kept anycompatible, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_keep_one'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_keep_one(regclass, name, double precision, anycompatible, boolean, text, name, name, name) IS
	'the representative of each row, which may be the row itself, for keys of any ordered type';

-- The minimum spanning tree of the rows; with min_samples above 1, of mutual reachability distances.
CREATE FUNCTION fasted_spanning_tree(
	relation regclass,
	vector_column name,
	min_samples integer DEFAULT 1,
	metric text DEFAULT 'l2',
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id_a bigint, id_b bigint, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_spanning_tree'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_spanning_tree(regclass, name, integer, text, name, name) IS
	'the edges of the minimum spanning tree of the rows, for integer keys';

CREATE FUNCTION fasted_spanning_tree(
	relation regclass,
	vector_column name,
	min_samples integer,
	id_type anycompatible,
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL,
	metric text DEFAULT 'l2')
RETURNS TABLE (id_a anycompatible, id_b anycompatible, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_spanning_tree'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_spanning_tree(regclass, name, integer, anycompatible, name, name, text) IS
	'the edges of the minimum spanning tree of the rows, for keys of any ordered type';

-- Clusters of varying density, without an eps (HDBSCAN).
--
-- Not STRICT, because min_samples, max_cluster_size, id_column and partition_by may be NULL.
CREATE FUNCTION fasted_hdbscan(
	relation regclass,
	vector_column name,
	min_cluster_size integer,
	min_samples integer DEFAULT NULL,
	cluster_selection_method text DEFAULT 'eom',
	cluster_selection_epsilon double precision DEFAULT 0,
	allow_single_cluster boolean DEFAULT false,
	max_cluster_size integer DEFAULT NULL,
	metric text DEFAULT 'l2',
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id bigint, cluster integer, probability double precision,
	outlier_score double precision, core_distance double precision,
	birth_distance double precision, death_distance double precision)
AS 'MODULE_PATHNAME', 'fasted_hdbscan'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_hdbscan(regclass, name, integer, integer, text, double precision, boolean, integer, text, name, name) IS
	'the cluster of each row, by varying density (HDBSCAN), for integer keys';

CREATE FUNCTION fasted_hdbscan(
	relation regclass,
	vector_column name,
	min_cluster_size integer,
	min_samples integer,
	id_type anycompatible,
	cluster_selection_epsilon double precision DEFAULT 0,
	allow_single_cluster boolean DEFAULT false,
	max_cluster_size integer DEFAULT NULL,
	metric text DEFAULT 'l2',
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL,
	cluster_selection_method text DEFAULT 'eom')
RETURNS TABLE (id anycompatible, cluster integer, probability double precision,
	outlier_score double precision, core_distance double precision,
	birth_distance double precision, death_distance double precision)
AS 'MODULE_PATHNAME', 'fasted_hdbscan'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_hdbscan(regclass, name, integer, integer, anycompatible, double precision, boolean, integer, text, name, name, text) IS
	'the cluster of each row, by varying density (HDBSCAN), for keys of any ordered type';

-- Window functions for the rows of any query; rows are compared within their window partition.
CREATE FUNCTION fasted_dbscan(vector "any", eps double precision, min_samples integer DEFAULT 1, metric text DEFAULT 'l2')
RETURNS integer
AS 'MODULE_PATHNAME', 'fasted_dbscan'
LANGUAGE C IMMUTABLE WINDOW PARALLEL RESTRICTED COST 1000;

COMMENT ON FUNCTION fasted_dbscan("any", double precision, integer, text) IS
	'the cluster of each row in its window partition, by density (DBSCAN)';

CREATE FUNCTION fasted_keep(vector "any", eps double precision, id anyelement, metric text DEFAULT 'l2')
RETURNS anyelement
AS 'MODULE_PATHNAME', 'fasted_keep'
LANGUAGE C IMMUTABLE WINDOW PARALLEL RESTRICTED COST 1000;

COMMENT ON FUNCTION fasted_keep("any", double precision, anyelement, text) IS
	'the representative of each row in its window partition, which may be the row itself';

CREATE FUNCTION fasted_neighbor_count(vector "any", eps double precision, metric text DEFAULT 'l2')
RETURNS bigint
AS 'MODULE_PATHNAME', 'fasted_neighbor_count'
LANGUAGE C IMMUTABLE WINDOW PARALLEL RESTRICTED COST 1000;

COMMENT ON FUNCTION fasted_neighbor_count("any", double precision, text) IS
	'the number of other rows in the window partition within eps of each row';

CREATE TYPE fasted_hdbscan_result AS (
	cluster integer,
	probability double precision,
	outlier_score double precision,
	core_distance double precision,
	birth_distance double precision,
	death_distance double precision);

COMMENT ON TYPE fasted_hdbscan_result IS
	'result of fasted_hdbscan_cluster: the columns of fasted_hdbscan after the id';

-- Not STRICT, because min_samples and max_cluster_size may be NULL.
CREATE FUNCTION fasted_hdbscan_cluster(
	vector "any",
	min_cluster_size integer,
	min_samples integer DEFAULT NULL,
	cluster_selection_method text DEFAULT 'eom',
	cluster_selection_epsilon double precision DEFAULT 0,
	allow_single_cluster boolean DEFAULT false,
	max_cluster_size integer DEFAULT NULL,
	metric text DEFAULT 'l2')
RETURNS fasted_hdbscan_result
AS 'MODULE_PATHNAME', 'fasted_hdbscan_cluster'
LANGUAGE C IMMUTABLE WINDOW PARALLEL RESTRICTED COST 1000;

COMMENT ON FUNCTION fasted_hdbscan_cluster("any", integer, integer, text, double precision, boolean, integer, text) IS
	'the cluster of each row in its window partition, by varying density (HDBSCAN)';

-- The medoid of each group: the row with the least sum of distances to the others.
--
-- Not STRICT, because an id may be NULL.  An aggregate cannot have default arguments.
CREATE FUNCTION fasted_internal.medoid_add(internal, "any", anyelement)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_internal_medoid_add'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.medoid_add(internal, "any", anyelement) IS
	'transition function of fasted_medoid';

CREATE FUNCTION fasted_internal.medoid(internal, "any", anyelement)
RETURNS anyelement
AS 'MODULE_PATHNAME', 'fasted_internal_medoid'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;

COMMENT ON FUNCTION fasted_internal.medoid(internal, "any", anyelement) IS
	'final function of fasted_medoid';

-- The state's size makes the planner sort large groups, and keep one in memory, instead of all.
CREATE AGGREGATE fasted_medoid(vector "any", id anyelement) (
	SFUNC = fasted_internal.medoid_add,
	STYPE = internal,
	SSPACE = 1000000,
	FINALFUNC = fasted_internal.medoid,
	FINALFUNC_EXTRA,
	PARALLEL = SAFE);

COMMENT ON AGGREGATE fasted_medoid("any", anyelement) IS
	'the id of the row with the least sum of distances to the others';

CREATE FUNCTION fasted_internal.medoid_add(internal, "any", anyelement, text)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_internal_medoid_add'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.medoid_add(internal, "any", anyelement, text) IS
	'transition function of fasted_medoid';

CREATE FUNCTION fasted_internal.medoid(internal, "any", anyelement, text)
RETURNS anyelement
AS 'MODULE_PATHNAME', 'fasted_internal_medoid'
LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;

COMMENT ON FUNCTION fasted_internal.medoid(internal, "any", anyelement, text) IS
	'final function of fasted_medoid';

-- The state's size makes the planner sort large groups, and keep one in memory, instead of all.
CREATE AGGREGATE fasted_medoid(vector "any", id anyelement, metric text) (
	SFUNC = fasted_internal.medoid_add,
	STYPE = internal,
	SSPACE = 1000000,
	FINALFUNC = fasted_internal.medoid,
	FINALFUNC_EXTRA,
	PARALLEL = SAFE);

COMMENT ON AGGREGATE fasted_medoid("any", anyelement, text) IS
	'the id of the row with the least sum of distances to the others, by a metric';

-- Estimates rows and cost of the following functions, and tells the planner what they read.
CREATE FUNCTION fasted_knn_join_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_knn_join_support'
LANGUAGE C STRICT;

COMMENT ON FUNCTION fasted_knn_join_support(internal) IS
	'planner support for fasted_knn_join';

-- The k nearest rows of b for each row of a.
--
-- Not STRICT, because a_id, b_id, max_distance and partition_by may be NULL; a NULL in another
-- argument raises an error.
CREATE FUNCTION fasted_knn_join(
	a regclass,
	a_column name,
	b regclass,
	b_column name,
	k integer,
	metric text DEFAULT 'l2',
	max_distance double precision DEFAULT NULL,
	a_id name DEFAULT NULL,
	b_id name DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id_a bigint, id_b bigint, dist double precision, rank integer)
AS 'MODULE_PATHNAME', 'fasted_knn_join'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_knn_join_support;

COMMENT ON FUNCTION fasted_knn_join(regclass, name, regclass, name, integer, text, double precision, name, name, name) IS
	'the k nearest rows of b for each row of a, for integer keys';

CREATE FUNCTION fasted_knn_join(
	a regclass,
	a_column name,
	b regclass,
	b_column name,
	k integer,
	id_type anycompatible,
	max_distance double precision DEFAULT NULL,
	a_id name DEFAULT NULL,
	b_id name DEFAULT NULL,
	partition_by name DEFAULT NULL,
	metric text DEFAULT 'l2')
RETURNS TABLE (id_a anycompatible, id_b anycompatible, dist double precision, rank integer)
AS 'MODULE_PATHNAME', 'fasted_knn_join'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_knn_join_support;

COMMENT ON FUNCTION fasted_knn_join(regclass, name, regclass, name, integer, anycompatible, double precision, name, name, name, text) IS
	'the k nearest rows of b for each row of a, for keys of any ordered type';

-- The running joins that the current user may see.
CREATE FUNCTION fasted_internal.progress(
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
AS 'MODULE_PATHNAME', 'fasted_internal_progress'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED ROWS 10;

COMMENT ON FUNCTION fasted_internal.progress() IS
	'rows of the view pg_stat_fasted_progress';

CREATE VIEW pg_stat_fasted_progress AS
SELECT p.pid, d.datname, pg_catalog.pg_get_userbyid(p.usesysid) AS usename, p.relid,
	CASE WHEN d.datname = pg_catalog.current_database() THEN p.relid::pg_catalog.regclass END AS relation,
	p.phase, p.rows_read, p.rows_expected, p.units_done, p.units_total, p.pairs
FROM fasted_internal.progress() p
	LEFT JOIN pg_catalog.pg_database d ON d.oid = p.datid;

COMMENT ON VIEW pg_stat_fasted_progress IS
	'progress of the running joins of fasted';

GRANT SELECT ON pg_stat_fasted_progress TO PUBLIC;

-- One row for each component that matters for a support question.
CREATE FUNCTION fasted_info(
	OUT component text,
	OUT state text,
	OUT advice text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'fasted_info'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED ROWS 10;

COMMENT ON FUNCTION fasted_info() IS
	'state of versions, preloading, engines and GPUs, with advice';

CREATE FUNCTION fasted_internal.advise_preload()
RETURNS void
AS 'MODULE_PATHNAME', 'fasted_internal_advise_preload'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION fasted_internal.advise_preload() IS
	'called by the install script: raises a NOTICE if sessions do not preload the library';

SELECT fasted_internal.advise_preload();
