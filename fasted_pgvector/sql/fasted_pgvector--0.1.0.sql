-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION fasted_pgvector" to load this file. \quit

-- Exact indexes for vector, halfvec and bit, by pgvector's own operators.

-- Whoever may install this extension may choose a schema with other objects of the same names.  The index
-- would read values of another type "vector" beyond their ends.  So these must be the extensions' own.
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

CREATE OPERATOR CLASS vector_l2_ops
DEFAULT FOR TYPE vector USING fasted AS
	OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS vector_cosine_ops
FOR TYPE vector USING fasted AS
	OPERATOR 1 <=> (vector, vector) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<=>@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS vector_ip_ops
FOR TYPE vector USING fasted AS
	OPERATOR 1 <#> (vector, vector) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<#>@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS halfvec_l2_ops
DEFAULT FOR TYPE halfvec USING fasted AS
	OPERATOR 1 <-> (halfvec, halfvec) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS halfvec_cosine_ops
FOR TYPE halfvec USING fasted AS
	OPERATOR 1 <=> (halfvec, halfvec) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<=>@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS halfvec_ip_ops
FOR TYPE halfvec USING fasted AS
	OPERATOR 1 <#> (halfvec, halfvec) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<#>@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS bit_hamming_ops
DEFAULT FOR TYPE bit USING fasted AS
	OPERATOR 1 <~> (bit, bit) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<~>@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);

CREATE OPERATOR CLASS bit_jaccard_ops
FOR TYPE bit USING fasted AS
	OPERATOR 1 <%> (bit, bit) FOR ORDER BY float_ops,
	OPERATOR 2 fasted_internal.<%>@ (anyelement, fasted_ball),
	FUNCTION 1 fasted_internal.index_kind(internal);
