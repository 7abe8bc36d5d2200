-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION fasted" to load this file. \quit

-- Estimates rows and cost for the planner.  The call also loads the library, so that the planner
-- can replace the function with a scan node (doc/plans.md).
CREATE FUNCTION fasted_self_join_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_self_join_support'
LANGUAGE C STRICT;

COMMENT ON FUNCTION fasted_self_join_support(internal) IS
	'planner support for fasted_self_join';

-- All pairs of rows within distance eps of each other.
--
-- STABLE, because it reads the table in the snapshot of the calling query.
-- Not STRICT, because id_column may be NULL.  If eps is NULL, the result is empty, as that of a join
-- within NULL; a NULL in another argument raises an error.
CREATE FUNCTION fasted_self_join(
	relation regclass,
	vector_column name,
	eps double precision,
	id_column name DEFAULT NULL,
	ordered boolean DEFAULT false,
	self_pairs boolean DEFAULT false,
	metric text DEFAULT 'l2',
	partition_by name DEFAULT NULL)
RETURNS TABLE (id_a bigint, id_b bigint, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_self_join'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_self_join_support;

COMMENT ON FUNCTION fasted_self_join(regclass, name, double precision, name, boolean, boolean, text, name) IS
	'every pair of rows whose vectors are within eps of each other, for integer keys';

-- The same for keys of any type with a default btree operator class.  id_type is a NULL of that
-- type, which only determines the type of the result.
--
-- It has a name of its own, because calls with untyped literals would be ambiguous otherwise.
-- id_type comes first and has no default, because the parser determines a polymorphic result
-- type from the arguments of the call as written.
-- With anycompatible, an untyped NULL is text, so the error that follows is about the key type.
CREATE FUNCTION fasted_self_join_typed(
	id_type anycompatible,
	relation regclass,
	vector_column name,
	eps double precision,
	id_column name DEFAULT NULL,
	ordered boolean DEFAULT false,
	self_pairs boolean DEFAULT false,
	metric text DEFAULT 'l2',
	partition_by name DEFAULT NULL)
RETURNS TABLE (id_a anycompatible, id_b anycompatible, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_self_join_typed'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_self_join_support;

COMMENT ON FUNCTION fasted_self_join_typed(anycompatible, regclass, name, double precision, name, boolean, boolean, text, name) IS
	'every pair of rows whose vectors are within eps of each other, for keys of any ordered type';

-- Estimates the fraction of pairs within eps for the planner.  The call also loads the library,
-- so that an engine can compute joins on a distance (doc/joins.md).
CREATE FUNCTION fasted_distance_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'fasted_distance_support'
LANGUAGE C STRICT;

COMMENT ON FUNCTION fasted_distance_support(internal) IS
	'planner support for functions of two vectors';

-- Functions of two vectors: arrays, text (fasted_reals, fasted_doubles), or values of any other
-- type with a cast to real[].  The planner converts the vectors (fasted_distance_support).
--
-- No call is ambiguous, because each overload is for other combinations of arguments:
--
--	anycompatiblearray, anycompatiblearray	arrays; an untyped literal or parameter beside an array
--	anynonarray, anycompatible				other types, and a literal, as text, beside them
--	anyarray, anycompatiblenonarray			an array beside another type
--	text, anycompatiblenonarray				a literal, as text, beside another type or a literal

CREATE FUNCTION fasted_distance(a anycompatiblearray, b anycompatiblearray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_distance(anycompatiblearray, anycompatiblearray) IS
	'Euclidean distance between two vectors, as computed by fasted_self_join';

CREATE FUNCTION fasted_distance(a anynonarray, b anycompatible)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_distance(anynonarray, anycompatible) IS
	'Euclidean distance between two vectors, as computed by fasted_self_join';

CREATE FUNCTION fasted_distance(a anyarray, b anycompatiblenonarray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_distance(anyarray, anycompatiblenonarray) IS
	'Euclidean distance between two vectors, as computed by fasted_self_join';

CREATE FUNCTION fasted_distance(a text, b anycompatiblenonarray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_distance(text, anycompatiblenonarray) IS
	'Euclidean distance between two vectors, as computed by fasted_self_join';

-- 1 - cosine similarity; NaN if either vector is zero.
CREATE FUNCTION fasted_cosine_distance(a anycompatiblearray, b anycompatiblearray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_cosine_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_cosine_distance(anycompatiblearray, anycompatiblearray) IS
	'cosine distance between two vectors, from 0 to 2';

CREATE FUNCTION fasted_cosine_distance(a anynonarray, b anycompatible)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_cosine_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_cosine_distance(anynonarray, anycompatible) IS
	'cosine distance between two vectors, from 0 to 2';

CREATE FUNCTION fasted_cosine_distance(a anyarray, b anycompatiblenonarray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_cosine_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_cosine_distance(anyarray, anycompatiblenonarray) IS
	'cosine distance between two vectors, from 0 to 2';

CREATE FUNCTION fasted_cosine_distance(a text, b anycompatiblenonarray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_cosine_distance'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_cosine_distance(text, anycompatiblenonarray) IS
	'cosine distance between two vectors, from 0 to 2';

-- The cosine of the angle; NULL if either vector is zero.
CREATE FUNCTION fasted_cosine_similarity(a anycompatiblearray, b anycompatiblearray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_cosine_similarity'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_cosine_similarity(anycompatiblearray, anycompatiblearray) IS
	'cosine similarity of two vectors, from -1 to 1';

CREATE FUNCTION fasted_cosine_similarity(a anynonarray, b anycompatible)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_cosine_similarity'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_cosine_similarity(anynonarray, anycompatible) IS
	'cosine similarity of two vectors, from -1 to 1';

CREATE FUNCTION fasted_cosine_similarity(a anyarray, b anycompatiblenonarray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_cosine_similarity'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_cosine_similarity(anyarray, anycompatiblenonarray) IS
	'cosine similarity of two vectors, from -1 to 1';

CREATE FUNCTION fasted_cosine_similarity(a text, b anycompatiblenonarray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_cosine_similarity'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_cosine_similarity(text, anycompatiblenonarray) IS
	'cosine similarity of two vectors, from -1 to 1';

CREATE FUNCTION fasted_negative_inner_product(a anycompatiblearray, b anycompatiblearray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_negative_inner_product'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_negative_inner_product(anycompatiblearray, anycompatiblearray) IS
	'negative inner product of two vectors';

CREATE FUNCTION fasted_negative_inner_product(a anynonarray, b anycompatible)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_negative_inner_product'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_negative_inner_product(anynonarray, anycompatible) IS
	'negative inner product of two vectors';

CREATE FUNCTION fasted_negative_inner_product(a anyarray, b anycompatiblenonarray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_negative_inner_product'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_negative_inner_product(anyarray, anycompatiblenonarray) IS
	'negative inner product of two vectors';

CREATE FUNCTION fasted_negative_inner_product(a text, b anycompatiblenonarray)
RETURNS double precision
AS 'MODULE_PATHNAME', 'fasted_negative_inner_product'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_negative_inner_product(text, anycompatiblenonarray) IS
	'negative inner product of two vectors';

-- In fasted_within, the type of eps, too, makes PostgreSQL prefer the overload for two arrays.  A
-- literal beside a literal is text, not bits, by an overload of its own.
CREATE DOMAIN fasted_limit AS double precision;

COMMENT ON DOMAIN fasted_limit IS
	'limit of a distance';

CREATE FUNCTION fasted_within(a anycompatiblearray, b anycompatiblearray, eps double precision, metric text DEFAULT 'l2')
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_within'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_within(anycompatiblearray, anycompatiblearray, double precision, text) IS
	'is the distance between two vectors at most eps, by metric l2, cosine or inner_product?';

CREATE FUNCTION fasted_within(a anyelement, b anycompatible, eps fasted_limit, metric text DEFAULT 'l2')
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_within'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_within(anyelement, anycompatible, fasted_limit, text) IS
	'is the distance between two vectors at most eps, by metric l2, cosine or inner_product?';

CREATE FUNCTION fasted_within(a text, b anycompatiblenonarray, eps double precision, metric text DEFAULT 'l2')
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_within'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_within(text, anycompatiblenonarray, double precision, text) IS
	'is the distance between two vectors at most eps, by metric l2, cosine or inner_product?';

CREATE FUNCTION fasted_within(a text, b text, eps double precision, metric text DEFAULT 'l2')
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_within'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_within(text, text, double precision, text) IS
	'is the distance between two vectors at most eps, by metric l2, cosine or inner_product?';

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

CREATE FUNCTION fasted_within(a bit varying, b bit varying, eps double precision, metric text DEFAULT 'l2')
RETURNS boolean
AS 'MODULE_PATHNAME', 'fasted_within_bits'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5
SUPPORT fasted_distance_support;

COMMENT ON FUNCTION fasted_within(bit varying, bit varying, double precision, text) IS
	'is the distance between two vectors of bits at most eps, by metric hamming or jaccard?';

-- Internal objects; other users have no USAGE on this schema.
CREATE SCHEMA fasted_internal;

COMMENT ON SCHEMA fasted_internal IS
	'internal to the extension fasted';

-- Read a vector from text: an array literal, or pgvector's [1,2,3].  IMMUTABLE, so that the
-- planner evaluates a literal once.  The casts are STABLE only because the input functions of
-- other element types may depend on settings.
CREATE FUNCTION fasted_reals(vector text)
RETURNS real[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN pg_catalog.regexp_replace(vector COLLATE pg_catalog."C", '^\s*\[([^]]*)\]\s*$', '{\1}')::real[];

COMMENT ON FUNCTION fasted_reals(text) IS
	'reads a vector from text';

CREATE FUNCTION fasted_doubles(vector text)
RETURNS double precision[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN pg_catalog.regexp_replace(vector COLLATE pg_catalog."C", '^\s*\[([^]]*)\]\s*$', '{\1}')::double precision[];

COMMENT ON FUNCTION fasted_doubles(text) IS
	'reads a vector from text';

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
	confidence double precision DEFAULT 0.95,
	seed bigint DEFAULT NULL,
	metric text DEFAULT 'l2',
	ignore_copies boolean DEFAULT false,
	OUT eps double precision,
	OUT eps_low double precision,
	OUT eps_high double precision,
	OUT rows bigint,
	OUT sampled bigint)
RETURNS record
AS 'MODULE_PATHNAME', 'fasted_epsilon'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 1000000;

COMMENT ON FUNCTION fasted_epsilon(regclass, name, double precision, integer, double precision, bigint, text, boolean) IS
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
	id_column name DEFAULT NULL,
	metric text DEFAULT 'l2',
	partition_by name DEFAULT NULL)
RETURNS TABLE (id bigint, neighbors bigint)
AS 'MODULE_PATHNAME', 'fasted_neighbors'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_neighbors(regclass, name, double precision, name, text, name) IS
	'the number of other rows within eps of each row, for integer keys';

-- Clusters by DBSCAN; with min_points 1, the connected components of the pairs within eps.
CREATE FUNCTION fasted_cluster(
	relation regclass,
	vector_column name,
	eps double precision,
	min_points integer DEFAULT 1,
	id_column name DEFAULT NULL,
	metric text DEFAULT 'l2',
	partition_by name DEFAULT NULL)
RETURNS TABLE (id bigint, cluster integer, core boolean)
AS 'MODULE_PATHNAME', 'fasted_cluster'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_cluster(regclass, name, double precision, integer, name, text, name) IS
	'the cluster of each row, by density (DBSCAN), for integer keys';

-- The representative of each row, among rows within eps of each other.
CREATE FUNCTION fasted_keep_one(
	relation regclass,
	vector_column name,
	eps double precision,
	priority_column name DEFAULT NULL,
	descending boolean DEFAULT false,
	id_column name DEFAULT NULL,
	metric text DEFAULT 'l2',
	partition_by name DEFAULT NULL)
RETURNS TABLE (id bigint, kept bigint, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_keep_one'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_keep_one(regclass, name, double precision, name, boolean, name, text, name) IS
	'the representative of each row, which may be the row itself, for integer keys';

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

CREATE FUNCTION fasted_spanning_tree_typed(
	id_type anycompatible,
	relation regclass,
	vector_column name,
	min_samples integer DEFAULT 1,
	metric text DEFAULT 'l2',
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id_a anycompatible, id_b anycompatible, dist double precision)
AS 'MODULE_PATHNAME', 'fasted_spanning_tree_typed'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_spanning_tree_typed(anycompatible, regclass, name, integer, text, name, name) IS
	'the edges of the minimum spanning tree of the rows, for keys of any ordered type';

-- Clusters of varying density, without an eps (HDBSCAN).
--
-- Not STRICT, because min_samples, max_cluster_size, id_column and partition_by may be NULL.
CREATE FUNCTION fasted_hdbscan(
	relation regclass,
	vector_column name,
	min_cluster_size integer,
	min_samples integer DEFAULT NULL,
	metric text DEFAULT 'l2',
	cluster_selection_method text DEFAULT 'eom',
	cluster_selection_epsilon double precision DEFAULT 0,
	allow_single_cluster boolean DEFAULT false,
	max_cluster_size integer DEFAULT NULL,
	id_column name DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id bigint, cluster integer, probability double precision, outlier_score double precision)
AS 'MODULE_PATHNAME', 'fasted_hdbscan'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_clustering_support;

COMMENT ON FUNCTION fasted_hdbscan(regclass, name, integer, integer, text, text, double precision, boolean, integer, name, name) IS
	'the cluster of each row, by varying density (HDBSCAN), for integer keys';

-- Window functions for the rows of any query; rows are compared within their window partition.
CREATE FUNCTION fasted_dbscan(vector "any", eps double precision, min_points integer, metric text DEFAULT 'l2')
RETURNS integer
AS 'MODULE_PATHNAME', 'fasted_dbscan'
LANGUAGE C IMMUTABLE WINDOW PARALLEL RESTRICTED COST 1000;

COMMENT ON FUNCTION fasted_dbscan("any", double precision, integer, text) IS
	'the cluster of each row in its window partition, by density (DBSCAN)';

CREATE FUNCTION fasted_components(vector "any", eps double precision, metric text DEFAULT 'l2')
RETURNS integer
AS 'MODULE_PATHNAME', 'fasted_components'
LANGUAGE C IMMUTABLE WINDOW PARALLEL RESTRICTED COST 1000;

COMMENT ON FUNCTION fasted_components("any", double precision, text) IS
	'the cluster of each row in its window partition: connected components of the pairs within eps';

CREATE FUNCTION fasted_keep(id anyelement, vector "any", eps double precision, metric text DEFAULT 'l2')
RETURNS anyelement
AS 'MODULE_PATHNAME', 'fasted_keep'
LANGUAGE C IMMUTABLE WINDOW PARALLEL RESTRICTED COST 1000;

COMMENT ON FUNCTION fasted_keep(anyelement, "any", double precision, text) IS
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
	outlier_score double precision);

COMMENT ON TYPE fasted_hdbscan_result IS
	'result of fasted_hdbscan_cluster: the cluster of a row (NULL for noise), probability and outlier score';

-- Not STRICT, because min_samples and max_cluster_size may be NULL.
CREATE FUNCTION fasted_hdbscan_cluster(
	vector "any",
	min_cluster_size integer,
	min_samples integer DEFAULT NULL,
	metric text DEFAULT 'l2',
	cluster_selection_method text DEFAULT 'eom',
	cluster_selection_epsilon double precision DEFAULT 0,
	allow_single_cluster boolean DEFAULT false,
	max_cluster_size integer DEFAULT NULL)
RETURNS fasted_hdbscan_result
AS 'MODULE_PATHNAME', 'fasted_hdbscan_cluster'
LANGUAGE C IMMUTABLE WINDOW PARALLEL RESTRICTED COST 1000;

COMMENT ON FUNCTION fasted_hdbscan_cluster("any", integer, integer, text, text, double precision, boolean, integer) IS
	'the cluster of each row in its window partition, by varying density (HDBSCAN)';

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
	a_id name DEFAULT NULL,
	b_id name DEFAULT NULL,
	metric text DEFAULT 'l2',
	max_distance double precision DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id_a bigint, id_b bigint, dist double precision, rank integer)
AS 'MODULE_PATHNAME', 'fasted_knn_join'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_knn_join_support;

COMMENT ON FUNCTION fasted_knn_join(regclass, name, regclass, name, integer, name, name, text, double precision, name) IS
	'the k nearest rows of b for each row of a, for integer keys';

CREATE FUNCTION fasted_knn_join_typed(
	id_type anycompatible,
	a regclass,
	a_column name,
	b regclass,
	b_column name,
	k integer,
	a_id name DEFAULT NULL,
	b_id name DEFAULT NULL,
	metric text DEFAULT 'l2',
	max_distance double precision DEFAULT NULL,
	partition_by name DEFAULT NULL)
RETURNS TABLE (id_a anycompatible, id_b anycompatible, dist double precision, rank integer)
AS 'MODULE_PATHNAME', 'fasted_knn_join_typed'
LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000000 ROWS 1000
SUPPORT fasted_knn_join_support;

COMMENT ON FUNCTION fasted_knn_join_typed(anycompatible, regclass, name, regclass, name, integer, name, name, text, double precision, name) IS
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
