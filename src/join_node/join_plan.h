/*-------------------------------------------------------------------------
 *
 * join_plan.h
 *	  What the join node's planning and execution share: distance clauses, their bounds, and the plan.
 *
 * In arrays of two elements, element 0 belongs to the outer side and element 1 to the inner side.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_PLAN_H
#define FASTED_JOIN_PLAN_H

#include "distance/distance.h"
#include "engine/metric_rules.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

/* --- join_clause.c: clauses that bound a distance or order the rows of a self-join; their selectivity */

#define OUTER_SIDE 0
#define INNER_SIDE 1

typedef struct DistanceKind
{
	DistanceFunctionKind function;	/* not PGVECTOR_PRODUCT */
	FastedMetric metric;
	bool		strict;			/* < or >; false: <= or >= */
	bool		similarity;		/* a similarity is compared; 1 - NaN exceeds every bound */
} DistanceKind;

/*
 * A join clause that bounds the distance of two vectors:
 *
 *	  fasted_within(a, b, x)
 *	  fasted_distance(a, b) < x, also with <= or with the operands exchanged
 *	  fasted_cosine_distance(a, b) < x ..., and the other distances of fasted
 *	  a <-> b < x, a <=> b < x, a <#> b < x ...
 *							for arrays, and for pgvector's vector and halfvec; also as functions
 *	  a <~> b < x, a <%> b < x ...	for bits; also as pgvector's functions
 *	  fasted_cosine_similarity(a, b) > y, fasted_jaccard_similarity(a, b) > y, also with >=
 *	  1 - (a <=> b) > y, 1 - (a <%> b) > y
 *							for pgvector, and 1 - fasted_cosine_distance(a, b) > y ...
 *	  -(a <#> b) > z, (a <#> b) * -1 > z, inner_product(a, b) > z
 *							as a <#> b < x, where x = -z
 *	  (a <~> b) / n < q		as a <~> b <= x, for constants n and q
 *	  (one of these) IS TRUE
 *
 * The vectors a and b belong to different sides of the join.  The bound x or y is constant during
 * the join.
 */
typedef struct DistanceClause
{
	RestrictInfo *rinfo;		/* the whole clause */
	DistanceKind kind;
	Expr	   *written[2];		/* a and b as written in the query */
	Expr	   *vectors[2];		/* cast to real[], unless they are double precision[] or bits */
	Expr	   *bound;			/* x or y, as double precision */
} DistanceClause;

/*
 * Returns true and fills in *clause, except the vectors to be read, if rinfo is such a comparison, of
 * any vectors and with any bound.
 */
extern bool RecognizeDistance(RestrictInfo *rinfo, DistanceClause *clause);

/* Returns true and fills in *clause if rinfo is a distance clause with one vector from each side. */
extern bool MatchDistanceClause(RestrictInfo *rinfo, RelOptInfo *const rels[2],
								DistanceClause *clause);

/*
 * Returns true if expr is bit for bit the distance that the engine computes for the pairs of the
 * clause: a distance by the clause's metric of its vectors, in any order.
 */
extern bool IsEngineDistance(const DistanceClause *clause, Expr *expr);

/*
 * Returns true if the clause compares one column of both rows, as in a.x < b.x.  In a self-join,
 * such a clause determines which row of a pair is the outer row.  It also excludes pairs of a row
 * with itself.
 */
extern bool IsRowOrder(PlannerInfo *root, const RestrictInfo *rinfo);

/* Returns true if the column is unique and not null, so that the clause orders all row pairs. */
extern bool IsTotalOrder(PlannerInfo *root, RelOptInfo *rel, const RestrictInfo *order);

/* Installs a planner hook that sets the selectivity of distance clauses. */
extern void InstallJoinEstimates(void);

/*
 * --- join_bound.c: from the clause's bound to the engine's eps, and from a vector to the engine's row
 *
 * The engine's metric, eps and rows are such that the engine misses no pair for which the clause is
 * true.  join_bound.c states the proofs.
 */

/* What becomes of a row, according to its vector. */
typedef enum VectorUse
{
	HAS_NO_VECTOR,				/* the vector is null, or a clause on outer columns is false */
	PASSED_TO_ENGINE,
	CLAUSES_DECIDE,				/* its row is a fallback row */
	NEVER_MATCHES
} VectorUse;

/* What is known of the bound in one execution.  Zero before that. */
typedef struct BoundValue
{
	bool		known;			/* the bound has been evaluated: the next fields are set */
	bool		empty;			/* no pair can match */
	bool		clauses_decide; /* no engine: clauses are evaluated for every pair */
	double		radius;			/* the bound as a distance */
	double		surely_within;	/* unless exact: the clause is true below this distance */
	double		norms[2];		/* with has_margin: the greatest norms of both sides so far */
} BoundValue;

typedef struct JoinBound
{
	DistanceKind kind;
	FastedElement element;		/* element type of the engine's rows */
	FastedMetric metric;		/* of the engine.  pgvector's cosine distance: L2 of unit vectors */
	bool		of_pgvector;	/* the distance is pgvector's, and rounded otherwise */
	bool		exact;			/* the engine's distance alone decides the clause */
	bool		has_margin;		/* rows have another dimension for the error of an inner product */
	bool		shared;			/* both sides have the same rows */
	BoundValue	value;
} JoinBound;

/* Returns the bound for clauses of a kind.  The engine's metric is among the fields that it sets. */
extern JoinBound MakeJoinBound(const DistanceKind *kind, FastedElement element, bool shared);

/* Sets the value that the bound has in this execution.  surely_within depends on the dimensions. */
extern void SetBound(JoinBound *bound, Datum value, bool isnull);

/*
 * Returns the engine's eps for vectors with this number of dimensions.  No match is beyond it.  Sets
 * surely_within if it does not depend on the vectors.
 */
extern double EngineEps(JoinBound *bound, int dimensions);

/*
 * Sets surely_within if it depends on the norms of the vectors.  They are known when all vectors
 * have been converted.
 */
extern void FinishSurelyWithin(JoinBound *bound, int dimensions);

/*
 * Converts a vector with this number of dimensions in place to the engine's row, and returns its
 * use.  There must be space for EngineDimensions.
 */
extern VectorUse ConvertVector(JoinBound *bound, int side, float *vector, int dimensions);

/* Returns true if the distance of every row of the engine to itself is 0, and the pair matches. */
extern bool EqualRowsMatch(const JoinBound *bound);

/* Returns true if the engine's distance decides clauses with such a function. */
static inline bool
IsExactFunction(DistanceFunctionKind function)
{
	return function == WITHIN_FUNCTION || function == DISTANCE_FUNCTION;
}

/* Returns true if the engine's rows have a dimension for the error of pgvector's inner product. */
static inline bool
HasMargin(const DistanceKind *kind)
{
	return kind->function == PGVECTOR_DISTANCE && fasted_metric_rules(kind->metric)->negative_product;
}

/* Returns the number of dimensions of the engine's rows, given that of the vectors. */
static inline uint32
EngineDimensions(const JoinBound *bound, int dimensions)
{
	return dimensions + bound->has_margin;
}

/*
 * --- join_plan.c: the plan data, and how a CustomScan holds it
 *
 * The scan tuple of the node consists of an outer row followed by an inner row, and by the distances
 * that the query selects.  All expressions are evaluated on the scan tuple.  Expressions of one side are
 * evaluated while the other side's columns are null.  If the node computes count(*), that is the last
 * column, and there are no distances.
 */

/* A new field also needs a row in an array of join_plan.c. */
typedef struct JoinPlan
{
	JoinType	type;			/* INNER, LEFT, SEMI or ANTI */
	DistanceKind distance;
	bool		count;			/* return count(*) in the last column of the scan tuple */
	bool		distance_decides;	/* count every pair within the radius that has equal keys */
	bool		shared;			/* self-join of identical rows, which are read once */
	int			outer_columns;	/* outer columns of the scan tuple; inner columns follow */

	int			late_vector[2]; /* child plan's column of late vectors; -1: none */
	int			late_ctid[2];	/* column of its row's ctid */
	int			order_qual;		/* index of the row-ordering clause in join_quals; -1: none */
	int			distance_qual;	/* index of the distance clause in join_quals */
	int			outer_quals;	/* number of leading join_quals that use only outer columns */

	List	   *shared_columns; /* IntList: for each inner column, the outer column that holds it */
	List	   *hashes[2];		/* OidLists: hash functions of the equality clauses */
	List	   *key_collations; /* OidList */

	/* expressions over the scan tuple */
	Expr	   *vectors[2];
	Expr	   *bound;			/* bound of the distance or similarity */
	List	   *keys[2];		/* operands of the equality clauses */
	List	   *join_quals;		/* all join clauses, in evaluation order */
	List	   *other_quals;	/* filters above an outer join */
	List	   *distances;		/* for pairs whose distance the engine has not computed */
} JoinPlan;

/* Stores the plan data in the lists of a CustomScan, without a copy of the expressions. */
extern void WriteJoinPlan(const JoinPlan *plan, CustomScan *scan);

/* Returns the plan data of a CustomScan.  Its lists and expressions are those of the plan. */
extern JoinPlan ReadJoinPlan(const CustomScan *scan);

#endif							/* FASTED_JOIN_PLAN_H */
