/*-------------------------------------------------------------------------
 *
 * join_push.c
 *	  Forms hash partitions and batches, and passes their vectors to an engine; joins small
 *	  partitions without an engine.
 *
 * The clause's bound becomes the engine's eps.  fasted's own distances are bitwise equal to the
 * engine's, for all metrics, and so is pgvector's Hamming distance.  Similarities and the other
 * distances of pgvector are rounded otherwise.  For these, the engine searches with an enlarged eps,
 * so that no pair is missed.  The clause is then evaluated for pairs near the bound, and skipped for
 * pairs safely within it.
 *
 * Jaccard.  pgvector's 1 - c / u has two roundings, 1 minus it or minus the bound another one, and
 * similarities and the engine's distance have one.  Each is at most 2^-54, as no value exceeds 1
 * where it matters.  JACCARD_ERROR is greater than their sum.
 *
 * Similarity of fasted, cosine.  The engine's distance is 1 - s, rounded to FP64, where s is the
 * similarity.  Rounding is monotone: s >= y implies that this distance is at most 1 - y, rounded, and
 * s <= y that it is at least that.
 *
 * pgvector computes its other distances in FP32.  The engine searches by inner product, or else by
 * Euclidean distance.  With u = 2^-24:
 *
 * FP32, Euclidean.  A difference of two coordinates, its square and a sum of d such squares in any
 * order accumulate at most d + 3 roundings.  All terms are positive, and the square root halves the
 * error.  The relative error of the distance is therefore less than (d + 16) u.  Underflow adds at
 * most 2^-126 for each of d squares.
 *
 * Cosine.  1 - cos is half the squared distance of the unit vectors.  The engine's unit vectors are
 * rounded to FP32.  Each has an error of u, so a distance has an error of 2 u.  The clause's own
 * value has an error of (2 d + 32) u, because the inner product and both norms have d + 2 roundings
 * each.  Rows whose norms overflow or underflow in FP32 become fallback rows.
 *
 * Inner product.  A product of coordinates and a sum of d such products in any order accumulate at
 * most d + 1 roundings.  By the Cauchy-Schwarz inequality, the magnitudes of the products add up to
 * at most |x| |y|.  The error is therefore at most g |x| |y|, where g = 2 (d + 16) u also covers
 * later FP64 roundings, plus 2^-126 for each of d products that may underflow.  The engine's rows
 * have an additional coordinate sqrt(g) |x|, rounded up.  This increases inner products by at least
 * g |x| |y|.  Their margin so depends on the pair, not on the longest vector of the table.  A pair
 * is safely within the bound if its distance is below it by twice the greatest error.
 *
 * The zero vector has no direction.  Its cosine distance is NaN, and its similarity by fasted NULL;
 * neither matches.  PostgreSQL treats NaN as greater than any number, so 1 - NaN matches, and the
 * clause is then evaluated for zero vectors.  The FP64 rounding of 1 - y and 1 - distance is
 * negligible compared with pgvector's FP32 errors.
 *
 * 1 minus a distance of fasted needs no margin.  1 - d is rounded to FP64, and rounding is
 * monotone.  The distances d with 1 - d > y are therefore all those up to a largest one.  Bisection
 * finds this largest distance exactly, and it becomes the radius.
 *
 * If the join has equality clauses too, rows are divided into hash partitions by the hash of their
 * keys.  Different keys may have the same hash, so the equality clauses are checked on the pairs
 * found.  Opening and filling an engine takes milliseconds, in which it could join hundreds of
 * small partitions.  The rows of as many partitions as fit into memory therefore form a batch,
 * which one engine joins.  All vectors of a batch have the same number of dimensions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "base/large_memory.h"
#include "common/hashfn.h"
#include "engine/exact_distance.h"
#include "executor/executor.h"
#include "function_node/function_node.h"
#include "functions/function.h"
#include "join/join.h"
#include "join_node/join_node.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#define FP32_ROUNDOFF 0x1p-24

/* Upper bound of the square root of what underflow of an FP32 square may lose. */
#define FP32_UNDERFLOW 0x1p-62

/* Beyond these limits FP32 squares may overflow or underflow. */
#define FP32_LARGE 1e18
#define FP32_LARGE_NORM 1e15
#define FP32_SMALL_NORM 1e-15

/* Error of the distance between rounded unit vectors, including later FP64 roundings. */
#define UNIT_ERROR 0x1p-22

/* Upper bound of the difference between Jaccard distances that are rounded in different ways. */
#define JACCARD_ERROR 0x1p-50

/*
 * Returns the largest distance, at most 2, whose similarity, rounded to FP64, exceeds the bound (or
 * equals it, unless strict).  The bound must not be NaN.  Returns a negative number if no distance
 * qualifies.
 */
static double
LargestDistance(double bound, bool strict)
{
	union
	{
		uint64		bits;		/* non-negative numbers sort like their bits */
		double		distance;
	}			low = {.distance = 0.0}, high = {.distance = 2.0}, middle;

	if (!(strict ? 1.0 > bound : 1.0 >= bound))
		return -1.0;
	while (low.bits < high.bits)
	{
		middle.bits = low.bits + (high.bits - low.bits + 1) / 2;
		if (strict ? 1.0 - middle.distance > bound : 1.0 - middle.distance >= bound)
			low = middle;
		else
			high.bits = middle.bits - 1;
	}
	return low.distance;
}

/* Evaluates the bound and sets the radius, empty and clauses_decide. */
static void
FindRadius(JoinNode *node)
{
	const DistanceKind *distance = &node->plan.distance;
	bool		isnull;
	Datum		value = ExecEvalExprSwitchContext(node->bound, ScanTuple(node), &isnull);
	double		bound = isnull ? 0.0 : DatumGetFloat8(value);

	node->radius_known = true;
	node->empty = isnull;
	node->radius = bound;
	/* to PostgreSQL NaN is greater than any number; an eps below every distance is an error */
	node->clauses_decide = isnan(bound) ||
		(distance->metric == FASTED_METRIC_INNER_PRODUCT ? bound <= -DBL_MAX :
		 distance->form == FORM_WITHIN && bound < 0.0);
	if (isnull || node->clauses_decide || distance->form == FORM_WITHIN ||
		distance->metric == FASTED_METRIC_INNER_PRODUCT)
		return;
	if (!distance->similarity)
		node->empty = bound < 0.0 || (distance->strict && bound == 0.0);
	else
	{
		node->radius = IsExact(node) ? LargestDistance(bound, distance->strict) : 1.0 - bound;
		/* only NaN exceeds such a bound: 1 minus the cosine distance of a zero vector */
		node->empty = distance->metric == FASTED_METRIC_JACCARD && node->radius < -JACCARD_ERROR;
	}
}

/* Returns g, which bounds the relative error of pgvector's inner products. */
static double
ProductError(const JoinNode *node)
{
	return 2.0 * (node->dimensions + 16) * FP32_ROUNDOFF;
}

/* Returns the largest sum that the underflow of d FP32 products may lose, for d dimensions. */
static double
ProductUnderflow(const JoinNode *node)
{
	return node->dimensions * FP32_UNDERFLOW * FP32_UNDERFLOW;
}

/*
 * Sets surely_within for pgvector's inner products, when the norms of all rows are known.  There are
 * two errors: that of the clause, and the one by which the engine's distance is too small.
 */
static void
FindSurelyWithin(JoinNode *node)
{
	double		error = ProductError(node) * node->norms[OUTER_SIDE] *
		node->norms[node->plan.shared ? OUTER_SIDE : INNER_SIDE] + ProductUnderflow(node);

	if (HasMargin(node))
		node->surely_within = nextafter(node->radius - 2.5 * error, -HUGE_VAL);
}

/* Returns the engine's eps for a clause that is not exact, and sets surely_within. */
static double
EnlargedEps(JoinNode *node)
{
	double		radius = node->radius;

	if (node->plan.distance.metric == FASTED_METRIC_JACCARD)
	{
		node->surely_within = radius - JACCARD_ERROR;
		return fmax(radius + JACCARD_ERROR, 0.0);
	}
	if (!DistanceIsForeign(node))
	{
		node->surely_within = radius;
		return fmin(radius, 2.0);
	}
	if (node->plan.distance.metric == FASTED_METRIC_INNER_PRODUCT)
	{
		/* all pairs are evaluated until all norms are known */
		node->surely_within = -HUGE_VAL;
		return nextafter(radius + ProductUnderflow(node), HUGE_VAL);
	}
	else if (node->plan.distance.metric == FASTED_METRIC_COSINE)
	{
		double		error = (2.0 * node->dimensions + 32.0) * FP32_ROUNDOFF;
		double		least = radius - error;
		double		most = fmax(fmin(radius + error, 2.0), 0.0);

		node->surely_within = least > 0.0 ? sqrt(2.0 * fmin(least, 2.0)) - UNIT_ERROR : 0.0;
		return sqrt(2.0 * most) + UNIT_ERROR;
	}
	else
	{
		double		delta = (node->dimensions + 16) * FP32_ROUNDOFF;
		double		lost = sqrt(node->dimensions) * FP32_UNDERFLOW;

		node->surely_within = fmin((radius - lost) * (1.0 - delta), FP32_LARGE);
		return (radius + lost) * (1.0 + 2.0 * delta);
	}
}

/* Returns the engine's eps.  No match is beyond it.  The dimensions must be known. */
static double
JoinNodeEps(JoinNode *node)
{
	double		eps = node->radius;

	if (!IsExact(node))
		return EnlargedEps(node);
	/* a strict bound excludes the radius itself; infinity is not below infinity */
	if (node->plan.distance.strict && !node->plan.distance.similarity)
		eps = nextafter(eps, -HUGE_VAL);
	return node->plan.distance.metric == FASTED_METRIC_COSINE ? fmin(eps, 2.0) : eps;
}

/* How a row's vector takes part in the join. */
typedef enum VectorUse
{
	HAS_NO_VECTOR,				/* the vector is null, or a nested loop would not evaluate it */
	ENGINE_TAKES_IT,
	CLAUSES_DECIDE,				/* its row is a fallback row */
	NEVER_MATCHES
} VectorUse;

/*
 * Converts a vector in place to the engine's representation, and returns its use.  There must be
 * space for EngineDimensions.
 */
static VectorUse
JoinNodeVector(JoinNode *node, int side, float *vector)
{
	bool		product = HasMargin(node);
	double		norm2 = 0.0;
	double		norm;

	if (node->plan.distance.metric != FASTED_METRIC_COSINE && !product)
		return ENGINE_TAKES_IT;
	if (node->element == FASTED_ELEMENT_DOUBLE)
	{
		fasted_scale_direction((double *) vector, node->dimensions);
		norm2 = RowIsZero(vector, node->element, node->dimensions) ? 0.0 : 1.0;
	}
	else
		for (int k = 0; k < node->dimensions; k++)
			norm2 += (double) vector[k] * vector[k];
	norm = sqrt(norm2);
	if (product && (norm == 0.0 || (norm > FP32_SMALL_NORM && norm < FP32_LARGE_NORM)))
	{
		node->norms[side] = fmax(node->norms[side], norm);
		vector[node->dimensions] = sqrt(ProductError(node)) * norm * (1.0 + 4.0 * FP32_ROUNDOFF);
		return ENGINE_TAKES_IT;
	}
	if (product)
		return CLAUSES_DECIDE;
	if (norm == 0.0)
		return node->plan.distance.similarity && node->plan.distance.form != FORM_SIMILARITY ?
			CLAUSES_DECIDE : NEVER_MATCHES;
	/* with a negative radius, at most 1 minus the distance of a zero vector is above the bound */
	if (!DistanceIsForeign(node))
		return node->radius < 0.0 ? NEVER_MATCHES : ENGINE_TAKES_IT;
	if (!(norm > FP32_SMALL_NORM && norm < FP32_LARGE_NORM))
		return CLAUSES_DECIDE;
	for (int k = 0; k < node->dimensions; k++)
		vector[k] = (float) (vector[k] / norm);
	return ENGINE_TAKES_IT;
}

/*
 * Partitions with at least this number of pairs per row are joined separately.  They gain more from
 * the CPU engine's reordering of rows (cpu/rows/kd_order.c) than from a batch.
 */
#define LARGE_GROUP_PAIRS_PER_ROW 10000.0

/* Up to this number of pairs per row, comparing the rows here is faster than an engine. */
#define FEW_PAIRS_A_ROW 24.0

/* Prefetch distance in rows. */
#define ROWS_AHEAD 8

/* --- hash partitions */

/* Returns true if the row passes the clauses on outer columns.  Always true for inner rows. */
static bool
PassesOuterQuals(JoinNode *node, const JoinSide *side)
{
	return side == &node->sides[INNER_SIDE] ||
		ExecQual(node->outer_quals, node->css.ss.ps.ps_ExprContext);
}

typedef struct PartitionNumber
{
	uint64		hash;
	uint32		number;			/* index in node->partitions */
	char		status;
} PartitionNumber;

#define SH_PREFIX partition
#define SH_ELEMENT_TYPE PartitionNumber
#define SH_KEY_TYPE uint64
#define SH_KEY hash
#define SH_HASH_KEY(table, key) ((uint32) (key))
#define SH_EQUAL(table, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static void
AddNumber(JoinNode *node, RowList *list, uint32 number)
{
	if (list->count == list->capacity)
		list->numbers = GrowArray(node->context, list->numbers, &list->capacity, sizeof(uint32));
	list->numbers[list->count++] = number;
}

/*
 * Loads row *i of the current partition into the scan tuple, including its vector.  If the side
 * has not been read completely, reads its next row.  If blocks have been read before that row, and
 * their vectors have been used, advances *i to it.  Returns false at the end.
 */
static bool
LoadRowOfPartition(JoinNode *node, JoinSide *side, uint32 *i)
{
	if (*i >= side->partition.count)
	{
		bool		more = ReadRow(node, side);

		if (side->order == NULL)
			side->partition.count = side->retained->count;
		if (!more)
			return false;
		if (side->takes_vectors)
			*i = side->partition.count - 1;
		if (side->has_vector && *i == side->partition.count - 1)
			return true;
	}
	ScanTuple(node);
	LoadRow(node, side, RowOfPartition(side, *i));
	LoadVector(node, side);
	return true;
}

/*
 * Adds the row in the scan tuple to its partition.  Returns NO_ROW if the row cannot match, because
 * a key is null or a clause on outer columns is false.
 */
static uint32
PartitionOfRow(JoinNode *node, JoinSide *side)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	PartitionNumber *entry = NULL;
	HashPartition *partition;
	bool		unmatched = !PassesOuterQuals(node, side);
	bool		found = true;
	uint64		hash = 0;

	for (int i = 0; i < side->nkeys && !unmatched; i++)
	{
		EqualityKey *key = &side->keys[i];

		key->value = ExecEvalExpr(key->expr, econtext, &unmatched);
		if (!unmatched)
			hash = hash_combine64(hash, DatumGetUInt32(FunctionCall1Coll(&key->hash, key->collation,
																		 key->value)));
	}
	if (!unmatched)
		entry = side->number == INNER_SIDE ? partition_lookup(node->partition_numbers, hash) :
			partition_insert(node->partition_numbers, hash, &found);
	MemoryContextSwitchTo(node->context);
	if (!found)
	{
		if (node->npartitions == node->partition_capacity)
			node->partitions = GrowArray(node->context, node->partitions, &node->partition_capacity,
										 sizeof(HashPartition));
		entry->number = node->npartitions++;
		partition = &node->partitions[entry->number];
		*partition = (HashPartition) {.keys = palloc(side->nkeys * sizeof(Datum)),.equal_keys = true};
		for (int i = 0; i < side->nkeys; i++)
			partition->keys[i] = datumCopy(side->keys[i].value, side->keys[i].typbyval,
										   side->keys[i].typlen);
	}
	MemoryContextSwitchTo(old);
	if (entry == NULL)
		return NO_ROW;
	partition = &node->partitions[entry->number];
	partition->places[side->number].count++;
	for (int i = 0; i < side->nkeys && partition->equal_keys; i++)
		partition->equal_keys = side->keys[i].comparable &&
			datum_image_eq(side->keys[i].value, partition->keys[i], side->keys[i].typbyval,
						   side->keys[i].typlen);
	return entry->number;
}

/*
 * Reads the side and divides its rows into partitions.  Computes the order of the rows by
 * partition, then by row number for sequential access.
 */
static void
DivideSide(JoinNode *node, JoinSide *side)
{
	RowList		numbers = {0};
	uint32		first = 0;
	PartitionPlace *place;

	side->partition.count = side->retained->count;
	for (uint32 row = 0; LoadRowOfPartition(node, side, &row); row++)
	{
		CHECK_FOR_INTERRUPTS();
		AddNumber(node, &numbers, PartitionOfRow(node, side));
	}
	for (uint32 i = 0; i < node->npartitions; i++)
	{
		CHECK_FOR_INTERRUPTS();
		place = &node->partitions[i].places[side->number];
		place->first = first;
		first += place->count;
		place->count = 0;
	}
	side->order = MemoryContextAllocHuge(node->context, ((Size) first + 1) * sizeof(uint32));
	for (uint32 row = 0; row < numbers.count; row++)
	{
		CHECK_FOR_INTERRUPTS();
		if (numbers.numbers[row] == NO_ROW)
			continue;
		place = &node->partitions[numbers.numbers[row]].places[side->number];
		side->order[place->first + place->count++] = row;
	}
	if (numbers.numbers != NULL)
		pfree(numbers.numbers);
}

/*
 * Advances to the next partition that has rows on both sides, and stores its rows in outer->next
 * and inner->next.  Returns false if there is none.
 */
static bool
NextPartition(JoinNode *node)
{
	while (node->next_partition < node->npartitions)
	{
		const HashPartition *partition = &node->partitions[node->next_partition++];

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < 2; i++)
			node->sides[i].next = partition->places[node->plan.shared ? OUTER_SIDE : i];
		if (node->sides[OUTER_SIDE].next.count > 0 && node->sides[INNER_SIDE].next.count > 0)
			return true;
	}
	return false;
}

/* Returns the given size plus that of the partition most recently taken. */
static PartitionSize
SizeWithNext(const JoinNode *node, PartitionSize others)
{
	double		outer = node->sides[OUTER_SIDE].next.count;
	double		inner = node->sides[INNER_SIDE].next.count;

	others.rows += node->plan.shared ? outer : outer + inner;
	others.pairs += node->plan.shared ? 0.5 * outer * (outer - 1.0) : outer * inner;
	return others;
}

void
FindPartitions(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	/* the workers of an inner side do not start before the outer side has been read */
	node->empty = IsEmptySide(node, outer) || (inner->input == NULL && IsEmptySide(node, inner));
	if (node->empty)
		return;
	node->partition_pending = node->plan.keys[OUTER_SIDE] == NIL;
	if (node->partition_pending)
	{
		outer->next.count = outer->retained->count;
		inner->next.count = inner->retained->count;
		return;
	}
	node->partition_numbers = partition_create(node->context, 256, NULL);
	DivideSide(node, outer);
	if (node->plan.shared)
		inner->order = outer->order;
	else if (node->npartitions > 0)
		DivideSide(node, inner);
	while (NextPartition(node))
		node->all_size = SizeWithNext(node, node->all_size);
	node->next_partition = 0;
}

/* --- the size of batches, and the current partition */

/* Returns true if partitions of this total size can be joined without an engine. */
static bool
AreSmall(const JoinNode *node, PartitionSize size)
{
	/*
	 * This is limited to joins with equality keys and to EvalPlanQual rechecks.  A side with
	 * late-materialized vectors has not been read yet, so its size is unknown.
	 */
	if (node->plan.keys[OUTER_SIDE] == NIL &&
		(node->css.ss.ps.state->es_epq_active == NULL ||
		 Max(node->plan.late_vector[OUTER_SIDE], node->plan.late_vector[INNER_SIDE]) >= 0))
		return false;
	return size.pairs <= SMALL_JOIN_PAIRS &&
		size.rows * RowFloats(node->element, EngineDimensions(node)) <= SMALL_JOIN_FLOATS;
}

void
TakePartition(JoinNode *node, uint32 g)
{
	for (int i = 0; i < 2; i++)
		node->sides[i].partition = node->batch[g][i].place;
}

/* --- rows with a possible partner */

/*
 * After this number of pairs that do not need the bound, it is evaluated although it may raise an
 * error.  Trying all pairs of large tables would take longer than joining them.
 */
#define MAX_TRIED_PAIRS (1 << 23)

/*
 * Returns true if a nested loop would compare the vector of the side's row with any vector, and
 * leaves the row in the scan tuple.  row is an index in the current partition.  The search starts
 * at the previous row's partner, which most clauses accept for this row as well.  Shared rows are
 * tried as outer and as inner rows.
 */
static bool
HasPartner(JoinNode *node, JoinSide *side, uint32 row)
{
	JoinSide   *other = &node->sides[1 - side->number];

	for (uint32 k = 0; k < other->partition.count; k++)
	{
		uint32		partner = (other->partner + k) % other->partition.count;

		CHECK_FOR_INTERRUPTS();
		for (int as = 0; as < 2; as++)
		{
			ExprContext *econtext;

			if (as != side->number && !node->plan.shared)
				continue;
			econtext = ScanTuple(node);
			LoadPair(node, RowOfPartition(&node->sides[OUTER_SIDE], as == OUTER_SIDE ? row : partner),
					 RowOfPartition(&node->sides[INNER_SIDE], as == OUTER_SIDE ? partner : row));
			if ((!ExecQual(node->outer_quals, econtext) || !ExecQual(node->partner_quals, econtext)) &&
				(node->plan.may_raise || ++node->tried_pairs < MAX_TRIED_PAIRS))
				continue;
			other->partner = partner;
			LoadRow(node, side, RowOfPartition(side, row));
			return true;
		}
	}
	return false;
}

/* --- vectors */

/* Returns the vector of the current row, or null if a nested loop would not evaluate it. */
static VectorView
VectorOfRow(JoinNode *node, JoinSide *side, uint32 i)
{
	/* rows in hash partitions have passed the outer clauses already */
	if ((side->order == NULL && !PassesOuterQuals(node, side)) ||
		(node->partner_quals != NULL && (node->plan.may_raise || !node->radius_known) &&
		 !HasPartner(node, side, i)))
		return (VectorView) {.isnull = true};
	return ViewVector(node, side);
}

/*
 * Returns the dimensions of the partition's first usable outer vector.  Returns 0 if there is
 * none or the clauses decide.  Evaluates the bound when a usable vector has been found.
 */
static int
DimensionsOfPartition(JoinNode *node)
{
	JoinSide   *side = &node->sides[OUTER_SIDE];

	for (uint32 i = 0; !node->clauses_decide && LoadRowOfPartition(node, side, &i); i++)
	{
		VectorView	vector = VectorOfRow(node, side, i);

		if (vector.elements != NULL && (uint32) vector.dimensions <= FASTED_MAX_DIMENSIONS)
		{
			if (!node->radius_known)
				FindRadius(node);
			return node->clauses_decide ? 0 : vector.dimensions;
		}
		CHECK_FOR_INTERRUPTS();
	}
	return 0;
}

/* Returns the use of the row in the scan tuple.  Stores its vector if the engine is to take it. */
static VectorUse
UseOf(JoinNode *node, JoinSide *side, uint32 i, float *vector)
{
	VectorView	view = VectorOfRow(node, side, i);
	bool		finite;

	if (view.isnull)
		return HAS_NO_VECTOR;
	if (view.elements == NULL || node->clauses_decide || view.dimensions != node->dimensions)
		return CLAUSES_DECIDE;
	if (node->element == FASTED_ELEMENT_BIT)
	{
		CopyBits(view.elements, vector, view.dimensions);
		return ENGINE_TAKES_IT;
	}
	finite = node->element == FASTED_ELEMENT_DOUBLE ?
		CopyFiniteDoubles((const double *) view.elements, (double *) vector, view.dimensions) :
		CopyFinite(view.elements, vector, view.dimensions);
	return finite ? JoinNodeVector(node, side->number, vector) : CLAUSES_DECIDE;
}

/* Returns the use of a row of a block, whose vector it converts in place. */
static VectorUse
UseOfInput(JoinNode *node, const JoinSide *side, const InputBlock *block, uint32 i)
{
	if (block->vectors[i] == INPUT_NULL)
		return HAS_NO_VECTOR;
	if (block->vectors[i] == INPUT_UNUSABLE || node->clauses_decide ||
		block->dimensions != (uint32) node->dimensions)
		return CLAUSES_DECIDE;
	/* without a zero vector, JoinNodeVector would compute the norm in vain */
	if (!DistanceIsForeign(node) && node->radius >= 0.0 && !block->has_zeros)
		return ENGINE_TAKES_IT;
	return JoinNodeVector(node, side->number, InputRow(side->input, block, i));
}

/* Records the use of a row, given its number and its index in the current partition. */
static void
AddUse(JoinNode *node, JoinSide *side, VectorUse use, uint32 row, uint32 i)
{
	side->nvectors += use != HAS_NO_VECTOR;
	if (use == ENGINE_TAKES_IT)
		AddNumber(node, &side->pushed, row);
	else if (use == CLAUSES_DECIDE)
		AddNumber(node, &side->fallback, i);
}

/* Retains the rows of a block, and passes their vectors to the engine if takes_vectors is set. */
bool
TakeBlock(InputReader *reader, const InputBlock *block)
{
	JoinSide   *side = reader->arg;
	JoinNode   *node = side->node;
	uint32		first = side->retained->count;
	uint32		pushed = 0;

	RetainBlock(node, side, block);
	for (uint32 i = 0; i < block->nrows && side->takes_vectors; i++)
	{
		VectorUse	use = UseOfInput(node, side, block, i);
		uint32		end = i + (use == ENGINE_TAKES_IT);

		AddUse(node, side, use, first + i, first + i);
		if (use == ENGINE_TAKES_IT && end < block->nrows)
			continue;
		/* pass the preceding rows that have not been passed yet */
		side->takes_vectors = PassVectors(reader, block, NULL, pushed, end - pushed);
		pushed = i + 1;
	}
	return side->takes_vectors;
}

/*
 * Passes the vectors of the current partition's side to the engine, or stores them in
 * side->vectors if join is NULL.  Reads a side that has not been read yet.  Sets nvectors to the
 * number of non-null vectors.  Returns false if the engine accepts no more rows.
 */
static bool
PushSideOfPartition(JoinNode *node, VectorJoin *join, int number, float *vector)
{
	JoinSide   *side = &node->sides[number];
	Size		bytes = RowBytes(node->element, EngineDimensions(node));
	bool		taken = true;

	side->takes_vectors = side->input != NULL && side->late_vector >= 0;
	if (side->takes_vectors)
	{
		side->input->dimensions = node->dimensions;
		SetInputSink(side->input, join == NULL ? NULL : JoinSink(join, number));
	}
	for (uint32 i = 0; taken && LoadRowOfPartition(node, side, &i); i++)
	{
		VectorUse	use;

		CHECK_FOR_INTERRUPTS();
		/* prefetch later rows of the partition, because they are scattered in memory */
		if (side->order != NULL && i + 2 * ROWS_AHEAD < side->partition.count)
			RetainedRowsPrefetch(side->retained, RowOfPartition(side, i + 2 * ROWS_AHEAD));
		if (side->order != NULL && i + ROWS_AHEAD < side->partition.count)
			RetainedRowsPrefetchValues(side->retained, RowOfPartition(side, i + ROWS_AHEAD));
		use = UseOf(node, side, i, vector);
		if (use == ENGINE_TAKES_IT && join != NULL)
			taken = JoinPush(join, number, vector);
		else if (use == ENGINE_TAKES_IT)
			memcpy((char *) side->vectors + side->pushed.count * bytes, vector, bytes);
		AddUse(node, side, use, RowOfPartition(side, i), i);
	}
	side->takes_vectors = false;
	if (side->input != NULL)
		SetInputSink(side->input, NULL);
	return taken;
}

/*
 * Passes one side of all partitions of the batch.  Skips inner rows of partitions whose outer
 * rows have no vectors.  Returns false if the engine accepts no more rows.
 */
static bool
PushSide(JoinNode *node, VectorJoin *join, int number)
{
	JoinSide   *side = &node->sides[number];
	float	   *vector = palloc(RowBytes(node->element, EngineDimensions(node)) + 1);
	bool		taken = true;

	side->pushed.count = side->fallback.count = 0;
	for (uint32 g = 0; g < node->nbatch && taken; g++)
	{
		BatchSide  *pushed = &node->batch[g][number];
		FastedPartition *rows = &node->engine_partitions[g];
		uint32		first_row = side->pushed.count;

		TakePartition(node, g);
		pushed->first_fallback = side->fallback.count;
		side->nvectors = 0;
		if (number == OUTER_SIDE || node->batch[g][OUTER_SIDE].nvectors > 0)
			taken = PushSideOfPartition(node, join, number, vector);
		pushed->nvectors = side->nvectors;
		pushed->place = side->partition;
		pushed->nfallback = side->fallback.count - pushed->first_fallback;
		if (number == OUTER_SIDE)
		{
			rows->first_a = first_row;
			rows->rows_a = side->pushed.count - first_row;
		}
		if (number == INNER_SIDE || node->plan.shared)
		{
			node->batch[g][INNER_SIDE] = *pushed;
			rows->first_b = first_row;
			rows->rows_b = side->pushed.count - first_row;
		}
	}
	pfree(vector);
	/* without partitions, rows are pushed in ascending order */
	side->all_pushed = side->order == NULL && side->pushed.count > 0 &&
		side->pushed.numbers[side->pushed.count - 1] == side->pushed.count - 1;
	return taken;
}

/* Withdraws the workers' memory; also called when the session ends, before its transaction does. */
static void
UnregisterInputs(int code, Datum arg)
{
	JoinNode   *node = (JoinNode *) DatumGetPointer(arg);

	for (int i = 0; i < 2; i++)
		if (node->sides[i].input != NULL)
			SetInputSink(node->sides[i].input, NULL);
}

/* Passes the batch's vectors to the join, or stores them if join is NULL. */
static void
PushPartitions(JoinNode *node, VectorJoin *join)
{
	const JoinSide *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	/* however this ends, the engine may not read the workers' memory after it is freed */
	PG_ENSURE_ERROR_CLEANUP(UnregisterInputs, PointerGetDatum(node));
	{
		if (PushSide(node, join, OUTER_SIDE) && !node->plan.shared)
			(void) PushSide(node, join, INNER_SIDE);
	}
	PG_END_ENSURE_ERROR_CLEANUP(UnregisterInputs, PointerGetDatum(node));
	if (node->plan.shared)
	{
		inner->pushed = outer->pushed;
		inner->all_pushed = outer->all_pushed;
		inner->fallback = outer->fallback;
		inner->complete = outer->complete;
	}
}

/* --- batches */

/* Returns true if partitions of this size should be joined separately. */
static bool
AreLarge(const JoinNode *node, PartitionSize size)
{
	return node->separate_large && size.pairs >= LARGE_GROUP_PAIRS_PER_ROW * size.rows;
}

/* Returns true if the partition most recently taken fits into the current batch. */
static bool
GoesWithBatch(JoinNode *node, int dimensions)
{
	PartitionSize size = SizeWithNext(node, node->batch_size);

	if (node->nbatch == 0)
		return true;
	if (dimensions != 0 && node->dimensions != 0 && dimensions != node->dimensions)
		return false;
	if (AreSmall(node, size) || node->dimensions == 0)
		return true;
	if (node->all_size.pairs <= FEW_PAIRS_A_ROW * node->all_size.rows && AreSmall(node, node->batch_size))
		return false;
	if (node->capacity_dimensions != node->dimensions)
		node->max_rows = JoinCapacity(node->all_size.pairs, node->element, node->dimensions,
									  &node->separate_large);
	node->capacity_dimensions = node->dimensions;
	return size.rows <= node->max_rows &&
		!AreLarge(node, SizeWithNext(node, (PartitionSize) {0})) &&
		!AreLarge(node, node->batch_size);
}

/*
 * Forms the next batch.  Returns false if no partition is left.  The row ranges are estimates that
 * assume that the engine takes every row.
 */
static bool
FormNextBatch(JoinNode *node)
{
	memset(&node->nbatch, 0, sizeof(JoinNode) - offsetof(JoinNode, nbatch));
	while (!node->empty && (node->partition_pending || NextPartition(node)))
	{
		uint32		capacity = node->batch_capacity;
		int			dimensions;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < 2; i++)
			node->sides[i].partition = node->sides[i].next;
		dimensions = DimensionsOfPartition(node);
		node->partition_pending = !node->empty && !GoesWithBatch(node, dimensions);
		if (node->empty || node->partition_pending)
			break;
		if (node->nbatch == capacity)
		{
			node->engine_partitions = GrowArray(node->context, node->engine_partitions, &capacity, sizeof(FastedPartition));
			node->batch = GrowArray(node->context, node->batch, &node->batch_capacity,
									sizeof(BatchPartition));
		}
		for (int i = 0; i < 2; i++)
			node->batch[node->nbatch][i] = (BatchSide) {.place = node->sides[i].partition};
		node->engine_partitions[node->nbatch++] =
			(FastedPartition) {.rows_a = node->sides[OUTER_SIDE].partition.count,
			.rows_b = node->sides[INNER_SIDE].partition.count};
		node->batch_size = SizeWithNext(node, node->batch_size);
		if (node->dimensions == 0)
			node->dimensions = dimensions;
		node->unequal_keys |= node->npartitions > 0 &&
			!node->partitions[node->next_partition - 1].equal_keys;
	}
	return node->nbatch > 0;
}

/* --- the join of a batch */

static void
JoinFewRows(JoinNode *node)
{
	SmallJoin	join = {.metric = JoinNodeMetric(node),.element = node->element,
	.dimensions = EngineDimensions(node),.eps = JoinNodeEps(node)};

	if (node->own_pairs == NULL)
	{
		node->own_pairs = MemoryContextAlloc(node->context, SMALL_JOIN_PAIRS * sizeof(FastedPair));
		for (int i = 0; i < 2; i++)
			node->sides[i].vectors = MemoryContextAlloc(node->context, SMALL_JOIN_FLOATS * sizeof(float));
	}
	PushPartitions(node, NULL);
	FindSurelyWithin(node);
	join.a = node->sides[OUTER_SIDE].vectors;
	join.b = node->plan.shared ? NULL : node->sides[INNER_SIDE].vectors;
	for (uint32 g = 0; g < node->nbatch; g++)
		node->npairs += SmallJoinPairs(&join, &node->engine_partitions[g], node->own_pairs + node->npairs);
	node->pairs = node->own_pairs;
}

/* Returns the batch's number of rows on a side.  Estimates it if the side has not been read. */
static uint64
ExpectedRows(const JoinNode *node, int number)
{
	const JoinSide *side = &node->sides[number];
	uint64		count = 0;

	for (uint32 g = 0; g < node->nbatch; g++)
		count += node->batch[g][number].place.count;
	return side->complete ? count : Max(count, (uint64) side->plan->plan->plan_rows);
}

static void
BeginEngine(JoinNode *node)
{
	JoinRequest request = {
		.problem.eps = JoinNodeEps(node),
		.sides = node->plan.shared ? 1 : 2,.metric = JoinNodeMetric(node),.element = node->element,
		.dimensions = EngineDimensions(node),
		.expected_rows = {ExpectedRows(node, OUTER_SIDE), ExpectedRows(node, INNER_SIDE)}
	};
	MemoryContext old;

	node->distance_decides = node->plan.distance_decides &&
		!node->unequal_keys;
	request.problem.output = node->distance_decides && IsExact(node) ?
		FASTED_OUTPUT_COUNT : FASTED_OUTPUT_PAIRS;
	if (node->nbatch > 1)
	{
		request.problem.partitions = node->engine_partitions;
		request.problem.npartitions = node->nbatch;
	}
	node->nengine_partitions += node->nbatch;
	old = MemoryContextSwitchTo(node->context);
	node->join = JoinOpen(&request);
	MemoryContextSwitchTo(old);
	do
		PushPartitions(node, node->join);
	while (!JoinStart(node->join));
	FindSurelyWithin(node);
}

FastedStats
JoinNodeStatistics(const JoinNode *node)
{
	FastedStats stats = node->stats;
	double		read_seconds = 0.0;

	if (node->join != NULL)
		(void) AddJoinStatistics(&stats, &read_seconds, node->join);
	return stats;
}

void
EndJoin(JoinNode *node)
{
	if (node->join == NULL)
		return;
	node->stats = JoinNodeStatistics(node);
	JoinEnd(node->join);
	node->join = NULL;
}

bool
JoinNextBatch(JoinNode *node)
{
	if (!FormNextBatch(node))
	{
		/* outer rows without a match are returned next */
		ReadSide(node, &node->sides[OUTER_SIDE]);
		return false;
	}
	node->all_partitions += node->nbatch;
	if (node->dimensions == 0)
		PushPartitions(node, NULL); /* all rows are fallback rows */
	else if (AreSmall(node, node->batch_size))
		JoinFewRows(node);
	else
		BeginEngine(node);
	return true;
}
