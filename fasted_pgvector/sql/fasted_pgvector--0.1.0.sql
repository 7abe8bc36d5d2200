-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION fasted_pgvector" to load this file. \quit

-- Exact indexes for vector, halfvec and bit, by pgvector's own operators.

-- Whoever may install this extension may choose a schema with other objects of the same names.  The functions
-- below would read values of another type "vector" beyond their ends.  So these must be the extensions' own.
DO $$
BEGIN
	IF EXISTS (
		SELECT 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, t::pg_catalog.oid
		FROM pg_catalog.unnest('{vector,halfvec,fasted_ball}'::pg_catalog.regtype[]) AS t
		UNION ALL
		SELECT 'pg_catalog.pg_operator'::pg_catalog.regclass::pg_catalog.oid, o::pg_catalog.oid
		FROM pg_catalog.unnest('{"<->(vector,vector)","<=>(vector,vector)","<#>(vector,vector)","<->(halfvec,halfvec)",
			"<=>(halfvec,halfvec)","<#>(halfvec,halfvec)","<~>(bit,bit)","<%>(bit,bit)"}'::pg_catalog.regoperator[]) AS o
		EXCEPT
		SELECT classid, objid FROM pg_catalog.pg_depend JOIN pg_catalog.pg_extension AS e ON e.oid = refobjid
		WHERE refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
			AND deptype = 'e' AND extname IN ('vector', 'fasted'))
	THEN
		RAISE object_not_in_prerequisite_state USING
			MESSAGE = 'objects of the chosen schema hide those of pgvector or fasted',
			HINT = 'Use CREATE EXTENSION fasted_pgvector SCHEMA with the schema of pgvector.';
	END IF;
END $$;

-- Only for index conditions, one for each metric: pgvector's operator decides.
CREATE FUNCTION fasted_internal.maybe_within_ball(vector vector, ball fasted_ball)
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_maybe_within_ball'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.maybe_within_ball(vector, fasted_ball) IS
	'implementation of operators of index conditions';

CREATE OPERATOR fasted_internal.<@ (LEFTARG = vector, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

COMMENT ON OPERATOR fasted_internal.<@ (vector, fasted_ball) IS
	'condition of an index scan; true for all rows';

CREATE OPERATOR fasted_internal.<=>@ (LEFTARG = vector, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

COMMENT ON OPERATOR fasted_internal.<=>@ (vector, fasted_ball) IS
	'condition of an index scan; true for all rows';

CREATE OPERATOR fasted_internal.<#>@ (LEFTARG = vector, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

COMMENT ON OPERATOR fasted_internal.<#>@ (vector, fasted_ball) IS
	'condition of an index scan; true for all rows';

CREATE FUNCTION fasted_internal.vector_l2_kind(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_vector_l2_kind'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.vector_l2_kind(internal) IS
	'support of operator class vector_l2_ops';

CREATE OPERATOR CLASS vector_l2_ops
DEFAULT FOR TYPE vector USING fasted AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<@ (vector, fasted_ball),
	FUNCTION 1 fasted_internal.vector_l2_kind(internal);

CREATE FUNCTION fasted_internal.vector_cosine_kind(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_vector_cosine_kind'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.vector_cosine_kind(internal) IS
	'support of operator class vector_cosine_ops';

CREATE OPERATOR CLASS vector_cosine_ops
FOR TYPE vector USING fasted AS
	OPERATOR 1 <=> (vector, vector) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<=>@ (vector, fasted_ball),
	FUNCTION 1 fasted_internal.vector_cosine_kind(internal);

CREATE FUNCTION fasted_internal.vector_product_kind(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_vector_product_kind'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.vector_product_kind(internal) IS
	'support of operator class vector_ip_ops';

CREATE OPERATOR CLASS vector_ip_ops
FOR TYPE vector USING fasted AS
	OPERATOR 1 <#> (vector, vector) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<#>@ (vector, fasted_ball),
	FUNCTION 1 fasted_internal.vector_product_kind(internal);

-- Only for index conditions, one for each metric: pgvector's operator decides.
CREATE FUNCTION fasted_internal.maybe_within_ball(vector halfvec, ball fasted_ball)
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_maybe_within_ball'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.maybe_within_ball(halfvec, fasted_ball) IS
	'implementation of operators of index conditions';

CREATE OPERATOR fasted_internal.<@ (LEFTARG = halfvec, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

COMMENT ON OPERATOR fasted_internal.<@ (halfvec, fasted_ball) IS
	'condition of an index scan; true for all rows';

CREATE OPERATOR fasted_internal.<=>@ (LEFTARG = halfvec, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

COMMENT ON OPERATOR fasted_internal.<=>@ (halfvec, fasted_ball) IS
	'condition of an index scan; true for all rows';

CREATE OPERATOR fasted_internal.<#>@ (LEFTARG = halfvec, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

COMMENT ON OPERATOR fasted_internal.<#>@ (halfvec, fasted_ball) IS
	'condition of an index scan; true for all rows';

CREATE FUNCTION fasted_internal.halfvec_l2_kind(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_halfvec_l2_kind'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.halfvec_l2_kind(internal) IS
	'support of operator class halfvec_l2_ops';

CREATE OPERATOR CLASS halfvec_l2_ops
DEFAULT FOR TYPE halfvec USING fasted AS
	OPERATOR 1 <-> (halfvec, halfvec) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<@ (halfvec, fasted_ball),
	FUNCTION 1 fasted_internal.halfvec_l2_kind(internal);

CREATE FUNCTION fasted_internal.halfvec_cosine_kind(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_halfvec_cosine_kind'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.halfvec_cosine_kind(internal) IS
	'support of operator class halfvec_cosine_ops';

CREATE OPERATOR CLASS halfvec_cosine_ops
FOR TYPE halfvec USING fasted AS
	OPERATOR 1 <=> (halfvec, halfvec) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<=>@ (halfvec, fasted_ball),
	FUNCTION 1 fasted_internal.halfvec_cosine_kind(internal);

CREATE FUNCTION fasted_internal.halfvec_product_kind(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_halfvec_product_kind'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.halfvec_product_kind(internal) IS
	'support of operator class halfvec_ip_ops';

CREATE OPERATOR CLASS halfvec_ip_ops
FOR TYPE halfvec USING fasted AS
	OPERATOR 1 <#> (halfvec, halfvec) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<#>@ (halfvec, fasted_ball),
	FUNCTION 1 fasted_internal.halfvec_product_kind(internal);

CREATE FUNCTION fasted_internal.maybe_within_ball(vector bit, ball fasted_ball)
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_maybe_within_ball'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.maybe_within_ball(bit, fasted_ball) IS
	'implementation of operators of index conditions';

CREATE OPERATOR fasted_internal.<~>@ (LEFTARG = bit, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

COMMENT ON OPERATOR fasted_internal.<~>@ (bit, fasted_ball) IS
	'condition of an index scan; true for all rows';

CREATE FUNCTION fasted_internal.bit_hamming_kind(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_bit_hamming_kind'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.bit_hamming_kind(internal) IS
	'support of operator class bit_hamming_ops';

CREATE OPERATOR CLASS bit_hamming_ops
DEFAULT FOR TYPE bit USING fasted AS
	OPERATOR 1 <~> (bit, bit) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<~>@ (bit, fasted_ball),
	FUNCTION 1 fasted_internal.bit_hamming_kind(internal);

CREATE OPERATOR fasted_internal.<%>@ (LEFTARG = bit, RIGHTARG = fasted_ball,
	FUNCTION = fasted_internal.maybe_within_ball, RESTRICT = contsel, JOIN = contjoinsel);

COMMENT ON OPERATOR fasted_internal.<%>@ (bit, fasted_ball) IS
	'condition of an index scan; true for all rows';

CREATE FUNCTION fasted_internal.bit_jaccard_kind(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_bit_jaccard_kind'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION fasted_internal.bit_jaccard_kind(internal) IS
	'support of operator class bit_jaccard_ops';

CREATE OPERATOR CLASS bit_jaccard_ops
FOR TYPE bit USING fasted AS
	OPERATOR 1 <%> (bit, bit) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<%>@ (bit, fasted_ball),
	FUNCTION 1 fasted_internal.bit_jaccard_kind(internal);
