/*-------------------------------------------------------------------------
 *
 * join_push.c
 *	  Vectors go to an engine, group by group, or are compared here if they are few.
 *
 * The clause's bound becomes the engine's eps, and the clause's vectors become the engine's.
 * Our own distances are the engine's, by either metric, bit for bit.  pgvector computes
 * them in FP32: there the engine searches by Euclidean distance, eps is widened so that
 * nothing is lost, and near the bound the clause itself decides; farther within, it
 * need not be asked.  With u = 2^-24:
 *
 * FP32, Euclidean.  A difference of two coordinates, its square and a sum of d of
 * those in any order have d + 3 roundings at most on a path, all terms positive; the
 * root halves the error.  So the distance is wrong by less than one part in
 * 1 / (d + 16) u, and by what underflow takes from d squares, 2^-126 each.
 *
 * Cosine.  1 - cos is half the squared distance of unit vectors.  The engine has these
 * rounded to FP32: each is u away from where it should be, so a distance is wrong by
 * 2 u; and the clause's own value by (2 d + 32) u, for inner product and both norms have
 * d + 2 roundings each, relative to the norms.  Rows whose norms FP32 cannot hold are
 * for the clause.
 *
 * The zero vector has no direction; its cosine distance is NaN, and no match.  To
 * PostgreSQL NaN is greater than any number, so a similarity of NaN is one: there the
 * clause decides of zero vectors.  Beside pgvector's FP32 errors the rounding of 1 - y and
 * of 1 - distance to FP64 is small.
 *
 * A similarity of ours needs no such margin.  1 - distance is rounded to FP64, and rounding is
 * monotone, so the distances d with 1 - d > y are all those up to a largest one.  This largest
 * distance is found exactly, by bisection, and becomes the radius.
 *
 * With equalities beside the distance only rows with equal keys meet.  Rows are put into groups
 * by the hash of their keys.  Different keys may have one hash: the equalities themselves are
 * checked on what is found, as all clauses are.  Without such equalities there is one group, of
 * all rows.
 *
 * To open an engine and to fill it takes milliseconds, in which it could join hundreds of
 * small groups.  So the rows of as many groups as there is memory for, a batch, go there
 * together, group by group, and it is told which of them meet.  Groups of one batch have
 * vectors of one number of dimensions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "engine/exact_distance.h"
#include "executor/executor.h"
#include "function_node/function_node.h"
#include "functions/function.h"
#include "join/join.h"
#include "join_node/join_node.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#define FP32_ROUNDOFF 0x1p-24

/* The root of what the underflow of a square in FP32 may take away, and more. */
#define FP32_UNDERFLOW 0x1p-62

/* From here on squares in FP32 may overflow, or vanish. */
#define FP32_LARGE 1e18
#define FP32_LARGE_NORM 1e15
#define FP32_SMALL_NORM 1e-15

/* Of the engine's unit vectors, and of what follows in FP64. */
#define UNIT_ERROR 0x1p-22

/*
 * The largest cosine distance whose similarity, rounded to FP64, is above a bound that is not
 * NaN.  The result is negative if there is no such distance.
 */
static double
LargestDistance(double bound, bool strict)
{
	union
	{
		uint64		bits;		/* numbers of one sign are in the order of their bits */
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

/* Evaluates the bound, and finds the radius. */
static void
FindRadius(JoinNode *node)
{
	const DistanceKind *distance = &node->plan.distance;
	bool		isnull;
	Datum		value = ExecEvalExprSwitchContext(node->bound, ScanTuple(node), &isnull);
	double		bound = isnull ? 0.0 : DatumGetFloat8(value);

	node->radius_known = true;
	node->nothing = isnull;
	node->radius = bound;
	/* to PostgreSQL NaN is greater than any number; a negative eps is an error */
	node->undecided = isnan(bound) || (distance->form == FORM_WITHIN && bound < 0.0);
	if (isnull || node->undecided || distance->form == FORM_WITHIN)
		return;
	if (!distance->similarity)
		node->nothing = bound < 0.0 || (distance->strict && bound == 0.0);
	else
		node->radius = IsExact(node) ? LargestDistance(bound, distance->strict) : 1.0 - bound;
}

/* The engine's eps for a foreign distance, and below which one a pair is surely within the radius. */
static double
ForeignEps(JoinNode *node)
{
	double		radius = node->radius;

	if (node->plan.distance.cosine)
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

static FastedMetric
JoinNodeMetric(const JoinNode *node)
{
	return IsExact(node) && node->plan.distance.cosine ? FASTED_METRIC_COSINE : FASTED_METRIC_L2;
}

/* The engine's eps for the radius, when the dimensions are known: no match is beyond. */
static double
JoinNodeEps(JoinNode *node)
{
	double		eps = node->radius;

	if (!IsExact(node))
		return ForeignEps(node);
	/* below the radius is at most the number before it; infinite distances are not below infinity */
	if (node->plan.distance.strict && !node->plan.distance.similarity)
		eps = nextafter(eps, 0.0);
	return node->plan.distance.cosine ? fmin(eps, 2.0) : eps;
}

/* What becomes of a vector. */
typedef enum VectorUse
{
	HAS_NO_VECTOR,				/* the vector is null, or a nested loop would not evaluate it */
	ENGINE_TAKES_IT,
	CLAUSES_DECIDE,				/* its row is odd */
	NEVER_MATCHES
} VectorUse;

/* Makes of a vector what the engine is to have. */
static VectorUse
JoinNodeVector(const JoinNode *node, float *vector)
{
	double		norm2 = 0.0;
	double		norm;

	if (!node->plan.distance.cosine)
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
	if (norm == 0.0)
		return node->plan.distance.similarity ? CLAUSES_DECIDE : NEVER_MATCHES;
	/* no similarity but that of a zero vector is above the bound */
	if (IsExact(node))
		return node->radius < 0.0 ? NEVER_MATCHES : ENGINE_TAKES_IT;
	if (!(norm > FP32_SMALL_NORM && norm < FP32_LARGE_NORM))
		return CLAUSES_DECIDE;
	for (int k = 0; k < node->dimensions; k++)
		vector[k] = (float) (vector[k] / norm);
	return ENGINE_TAKES_IT;
}

/*
 * Groups of so many pairs a row are joined one by one where rows are put in order for
 * each join of many (the CPU engine's cpu_choice.c), which gains more than a batch.
 */
#define LARGE_GROUP_PAIRS_A_ROW 10000.0

/* Where rows meet so few others, it takes an engine longer to prepare them than us to compare them. */
#define FEW_PAIRS_A_ROW 24.0

/* Rows between asking for one and working with it. */
#define ROWS_AHEAD 8

/* --- groups */

/* Does the row of the side in the scan tuple pass the clauses about the outer side alone?  Inner rows do. */
static bool
PassesOuterQuals(JoinNode *node, const JoinSide *side)
{
	return side == &node->sides[INNER_SIDE] ||
		ExecQual(node->outer_quals, node->css.ss.ps.ps_ExprContext);
}

/* The hash of a row's keys; false: the row has no match, because a key is null or a clause is false. */
static bool
HashKeys(JoinNode *node, JoinSide *side, uint32 row, uint64 *hash)
{
	ExprContext *econtext = ScanTuple(node);
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	bool		isnull;
	ListCell   *cell;

	*hash = 0;
	LoadRow(node, side, row);
	isnull = !PassesOuterQuals(node, side);
	foreach(cell, isnull ? NIL : side->keys)
	{
		int			n = foreach_current_index(cell);
		Datum		value = ExecEvalExpr((ExprState *) lfirst(cell), econtext, &isnull);

		if (isnull)
			break;
		value = FunctionCall1Coll(&side->hashes[n], list_nth_oid(node->plan.key_collations, n), value);
		*hash = hash_combine64(*hash, DatumGetUInt32(value));
	}
	MemoryContextSwitchTo(old);
	return !isnull;
}

/* In order of row within a group, as they are read from memory or a file. */
static int
CompareGroupedRows(const void *x, const void *y, void *arg)
{
	const GroupedRow *a = x;
	const GroupedRow *b = y;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return (a->row > b->row) - (a->row < b->row);
}

/* Puts the side's rows with one hash side by side. */
static void
GroupSide(JoinNode *node, JoinSide *side)
{
	uint32		count = side->kept->count;
	GroupedRow *rows = MemoryContextAllocHuge(node->context, (Size) count * sizeof(GroupedRow));

	for (uint32 row = 0; row < count; row++)
	{
		CHECK_FOR_INTERRUPTS();
		if (HashKeys(node, side, row, &rows[side->ngrouped].hash))
			rows[side->ngrouped++].row = row;
	}
	qsort_interruptible(rows, side->ngrouped, sizeof(GroupedRow), CompareGroupedRows, NULL);
	side->grouped = rows;
}

/* Rows of one hash, from first on. */
static uint32
CountGroup(const JoinSide *side, uint32 first)
{
	uint32		end = first;

	while (end < side->ngrouped && side->grouped[end].hash == side->grouped[first].hash)
	{
		CHECK_FOR_INTERRUPTS();
		end++;
	}
	return end - first;
}

/*
 * Goes on to the next hash that both sides have, behind the rows that they have come to; their
 * counts are those of its rows.  False: there is none.
 */
static bool
NextGroup(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	outer->next.first += outer->next.count;
	inner->next.first += inner->next.count;
	while (outer->next.first < outer->ngrouped && inner->next.first < inner->ngrouped)
	{
		uint64		x = outer->grouped[outer->next.first].hash;
		uint64		y = inner->grouped[inner->next.first].hash;

		CHECK_FOR_INTERRUPTS();
		if (x == y)
		{
			outer->next.count = CountGroup(outer, outer->next.first);
			inner->next.count = CountGroup(inner, inner->next.first);
			return true;
		}
		node->sides[x < y ? OUTER_SIDE : INNER_SIDE].next.first++;
	}
	outer->next.count = inner->next.count = 0;
	return false;
}

/* Of the group that was taken last, and others. */
static GroupSize
SizeWithNext(const JoinNode *node, GroupSize others)
{
	double		outer = node->sides[OUTER_SIDE].next.count;
	double		inner = node->sides[INNER_SIDE].next.count;

	others.rows += node->plan.shared ? outer : outer + inner;
	others.pairs += node->plan.shared ? 0.5 * outer * (outer - 1.0) : outer * inner;
	return others;
}

void
FindGroups(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	node->nothing = IsEmptySide(node, outer) || IsEmptySide(node, inner);
	if (node->nothing)
		return;
	node->group_waits = node->plan.keys[OUTER_SIDE] == NIL;
	if (node->group_waits)
	{
		outer->next.count = outer->kept->count;
		inner->next.count = inner->kept->count;
		return;
	}
	GroupSide(node, outer);
	if (node->plan.shared)
	{
		inner->grouped = outer->grouped;
		inner->ngrouped = outer->ngrouped;
	}
	else if (outer->ngrouped > 0)
		GroupSide(node, inner);
	while (NextGroup(node))
		node->all_size = SizeWithNext(node, node->all_size);
	outer->next = inner->next = (GroupPlace) {0};
}

/* --- the group at work */

/* Puts a pair of rows of the group at work into the scan tuple. */
static ExprContext *
LoadPairOfGroup(JoinNode *node, uint32 outer, uint32 inner)
{
	ExprContext *econtext = ScanTuple(node);

	LoadPair(node, RowOfGroup(&node->sides[OUTER_SIDE], outer),
			 RowOfGroup(&node->sides[INNER_SIDE], inner));
	return econtext;
}

/* Rows of a group lie far from each other in memory. */
static void
PrefetchGroup(const JoinSide *side, uint32 i, bool values)
{
	if (side->grouped == NULL)
		return;
	if (i + 2 * ROWS_AHEAD < side->group.count)
		KeptRowsPrefetch(side->kept, RowOfGroup(side, i + 2 * ROWS_AHEAD));
	if (values && i + ROWS_AHEAD < side->group.count)
		KeptRowsPrefetchValues(side->kept, RowOfGroup(side, i + ROWS_AHEAD));
}

/*
 * Are all keys equal in each of these groups, and not only their hashes?  Each row of a side has
 * to have the keys of the other side's first row: the clauses beside distance and order are
 * equalities.  Shared rows are those of both sides.
 */
static bool
AreGroups(JoinNode *node)
{
	for (uint32 g = 0; g < node->nbatch; g++)
	{
		TakeGroup(node, g);
		for (int number = 0; number < (node->plan.shared ? 1 : 2); number++)
		{
			const JoinSide *side = &node->sides[number];

			for (uint32 i = 0; i < side->group.count; i++)
			{
				uint32		outer = number == OUTER_SIDE ? i : 0;

				CHECK_FOR_INTERRUPTS();
				PrefetchGroup(side, i, false);
				if (!ExecQual(node->join_quals, LoadPairOfGroup(node, outer, i - outer)))
					return false;
			}
		}
	}
	return true;
}

/* --- groups that are joined together */

/* Can they be compared without an engine? */
static bool
AreFew(const JoinNode *node, GroupSize size)
{
	/*
	 * That is for many groups, and for one row that is evaluated once more.  A side whose vectors
	 * stay in the table is not read yet: nobody knows how many there are.
	 */
	if (node->plan.keys[OUTER_SIDE] == NIL &&
		(node->css.ss.ps.state->es_epq_active == NULL ||
		 Max(node->plan.left_vector[OUTER_SIDE], node->plan.left_vector[INNER_SIDE]) >= 0))
		return false;
	return size.pairs <= SMALL_JOIN_PAIRS && size.rows * JoinNodeRowFloats(node) <= SMALL_JOIN_FLOATS;
}

void
TakeGroup(JoinNode *node, uint32 g)
{
	for (int i = 0; i < 2; i++)
		node->sides[i].group = node->batch[g][i].place;
}

/* --- which rows can match */

/*
 * Would a nested loop compare the vector of the side's row with any vector?  The row is given by
 * its number in the group.  The search begins at the partner that was found for the row before,
 * which for most clauses is a partner of this row as well.  Shared rows are of both sides.  If a
 * partner is found, the row is in the scan tuple.
 */
static bool
HasPartner(JoinNode *node, JoinSide *side, uint32 row)
{
	JoinSide   *other = &node->sides[1 - side->number];

	for (uint32 k = 0; k < other->group.count; k++)
	{
		uint32		partner = (other->partner + k) % other->group.count;

		CHECK_FOR_INTERRUPTS();
		for (int as = 0; as < 2; as++)
		{
			ExprContext *econtext;

			if (as != side->number && !node->plan.shared)
				continue;
			econtext = LoadPairOfGroup(node, as == OUTER_SIDE ? row : partner,
									   as == OUTER_SIDE ? partner : row);
			if (!ExecQual(node->outer_quals, econtext) || !ExecQual(node->partner_quals, econtext))
				continue;
			other->partner = partner;
			LoadRow(node, side, RowOfGroup(side, row));
			return true;
		}
	}
	return false;
}

/* --- vectors */

/*
 * Puts the group's row number i into the scan tuple, vector and all.  False: there is
 * none, also when the side is read to its end.
 */
static bool
LoadRowOfGroup(JoinNode *node, JoinSide *side, uint32 i)
{
	if (i < side->group.count)
	{
		ScanTuple(node);
		LoadRow(node, side, RowOfGroup(side, i));
		LoadVector(node, side);
		return true;
	}
	if (!ReadRow(node, side))
		return false;
	side->group.count++;
	return true;
}

/* The vector of the row in the scan tuple; null if a nested loop would not evaluate it. */
static VectorView
VectorOfRow(JoinNode *node, JoinSide *side, uint32 i)
{
	/* rows that are in groups have passed */
	if ((side->grouped == NULL && !PassesOuterQuals(node, side)) ||
		(node->partner_quals != NULL && !HasPartner(node, side, i)))
		return (VectorView) {.isnull = true};
	return ViewVector(node, side);
}

/*
 * The dimensions of the first vector of the group at work that has some; zero: none has, or
 * clauses decide.  Evaluates the bound when there is a vector to be compared.
 */
static int
DimensionsOfGroup(JoinNode *node)
{
	JoinSide   *side = &node->sides[OUTER_SIDE];

	for (uint32 i = 0; !node->undecided && LoadRowOfGroup(node, side, i); i++)
	{
		VectorView	vector = VectorOfRow(node, side, i);

		if (vector.elements != NULL && (uint32) vector.dimensions <= FASTED_MAX_DIMENSIONS)
		{
			if (!node->radius_known)
				FindRadius(node);
			return node->undecided ? 0 : vector.dimensions;
		}
		CHECK_FOR_INTERRUPTS();
	}
	return 0;
}

/* Adds a row number. */
static void
AddNumber(JoinNode *node, RowList *list, uint32 number)
{
	if (list->count == list->room)
		list->numbers = GrowArray(node->context, list->numbers, &list->room, sizeof(uint32));
	list->numbers[list->count++] = number;
}

/* What becomes of the group's row in the scan tuple; its vector, if the engine is to have it. */
static VectorUse
UseOf(JoinNode *node, JoinSide *side, uint32 i, float *vector)
{
	VectorView	view = VectorOfRow(node, side, i);
	bool		finite;

	if (view.isnull)
		return HAS_NO_VECTOR;
	if (view.elements == NULL || node->undecided || view.dimensions != node->dimensions)
		return CLAUSES_DECIDE;
	finite = node->element == FASTED_ELEMENT_DOUBLE ?
		CopyFiniteDoubles((const double *) view.elements, (double *) vector, view.dimensions) :
		CopyFinite(view.elements, vector, view.dimensions);
	return finite ? JoinNodeVector(node, vector) : CLAUSES_DECIDE;
}

/*
 * Gives the vectors of the group at work to the engine, or keeps them here; those of a
 * side that is not read yet as they come.  Counts vectors that are not null.  False: the
 * engine takes no more.
 */
static bool
PushSideOfGroup(JoinNode *node, VectorJoin *join, int number, float *vector, uint32 *nvectors)
{
	JoinSide   *side = &node->sides[number];
	bool		taken = true;

	for (uint32 i = 0; taken && LoadRowOfGroup(node, side, i); i++)
	{
		VectorUse	use;

		CHECK_FOR_INTERRUPTS();
		PrefetchGroup(side, i, true);
		use = UseOf(node, side, i, vector);
		*nvectors += use != HAS_NO_VECTOR;
		if (use == ENGINE_TAKES_IT)
		{
			if (join != NULL)
				taken = JoinPush(join, number, vector);
			else
				memcpy(side->vectors + side->pushed.count * JoinNodeRowFloats(node), vector,
					   JoinNodeRowFloats(node) * sizeof(float));
			AddNumber(node, &side->pushed, RowOfGroup(side, i));
		}
		else if (use == CLAUSES_DECIDE)
			AddNumber(node, &side->odd, i);
	}
	return taken;
}

/* All groups that are joined together; of the inner side only those whose outer rows have vectors. */
static bool
PushSide(JoinNode *node, VectorJoin *join, int number)
{
	JoinSide   *side = &node->sides[number];
	float	   *vector = palloc(Max(JoinNodeRowFloats(node), 1) * sizeof(float));
	bool		taken = true;

	side->pushed.count = side->odd.count = 0;
	for (uint32 g = 0; g < node->nbatch && taken; g++)
	{
		BatchSide  *pushed = &node->batch[g][number];
		FastedRowGroup *rows = &node->row_groups[g];
		uint32		first_row = side->pushed.count;

		TakeGroup(node, g);
		pushed->first_odd = side->odd.count;
		pushed->nvectors = 0;
		if (number == OUTER_SIDE || node->batch[g][OUTER_SIDE].nvectors > 0)
			taken = PushSideOfGroup(node, join, number, vector, &pushed->nvectors);
		pushed->place = side->group;
		pushed->nodd = side->odd.count - pushed->first_odd;
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
	return taken;
}

/* Gives the vectors of the groups that are joined to the engine, or keeps them here. */
static void
PushGroups(RowPusher *pusher, VectorJoin *join)
{
	JoinNode   *node = (JoinNode *) ((char *) pusher - offsetof(JoinNode, pusher));
	const JoinSide *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	if (PushSide(node, join, OUTER_SIDE) && !node->plan.shared)
		(void) PushSide(node, join, INNER_SIDE);
	if (node->plan.shared)
	{
		inner->pushed = outer->pushed;
		inner->odd = outer->odd;
		inner->complete = outer->complete;
	}
}

/* --- batches */

/* Had such groups better be joined alone? */
static bool
AreLarge(const JoinNode *node, GroupSize size)
{
	return node->alone && size.pairs >= LARGE_GROUP_PAIRS_A_ROW * size.rows;
}

/* Does the group that both sides are at go with those of the batch? */
static bool
GoesWithBatch(JoinNode *node, int dimensions)
{
	GroupSize	size = SizeWithNext(node, node->batch_size);

	if (node->nbatch == 0)
		return true;
	if (dimensions != 0 && node->dimensions != 0 && dimensions != node->dimensions)
		return false;
	if (AreFew(node, size) || node->dimensions == 0)
		return true;
	if (node->all_size.pairs <= FEW_PAIRS_A_ROW * node->all_size.rows && AreFew(node, node->batch_size))
		return false;
	if (node->room_dimensions != node->dimensions)
		node->most_rows = JoinRoom(node->all_size.pairs, node->element, node->dimensions, &node->alone);
	node->room_dimensions = node->dimensions;
	return size.rows <= node->most_rows && !AreLarge(node, SizeWithNext(node, (GroupSize) {0})) &&
		!AreLarge(node, node->batch_size);
}

/*
 * Goes on to the next groups that are joined together; false: there are no more.  Their rows are a
 * guess: that an engine takes all.
 */
static bool
NextBatch(JoinNode *node)
{
	memset(&node->nbatch, 0, sizeof(JoinNode) - offsetof(JoinNode, nbatch));
	while (!node->nothing && (node->group_waits || NextGroup(node)))
	{
		uint32		room = node->batch_room;
		int			dimensions;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < 2; i++)
			node->sides[i].group = node->sides[i].next;
		dimensions = DimensionsOfGroup(node);
		node->group_waits = !node->nothing && !GoesWithBatch(node, dimensions);
		if (node->nothing || node->group_waits)
			break;
		if (node->nbatch == room)
		{
			node->row_groups = GrowArray(node->context, node->row_groups, &room, sizeof(FastedRowGroup));
			node->batch = GrowArray(node->context, node->batch, &node->batch_room, sizeof(BatchGroup));
		}
		for (int i = 0; i < 2; i++)
			node->batch[node->nbatch][i] = (BatchSide) {.place = node->sides[i].group};
		node->row_groups[node->nbatch++] =
			(FastedRowGroup) {.rows_a = node->sides[OUTER_SIDE].group.count,
			.rows_b = node->sides[INNER_SIDE].group.count};
		node->batch_size = SizeWithNext(node, node->batch_size);
		if (node->dimensions == 0)
			node->dimensions = dimensions;
	}
	return node->nbatch > 0;
}

/* --- the join of groups */

static void
JoinFewRows(JoinNode *node)
{
	SmallJoin	join = {.metric = JoinNodeMetric(node),.element = node->element,
	.dimensions = node->dimensions,.eps = JoinNodeEps(node)};

	if (node->own_pairs == NULL)
	{
		node->own_pairs = MemoryContextAlloc(node->context, SMALL_JOIN_PAIRS * sizeof(FastedPair));
		for (int i = 0; i < 2; i++)
			node->sides[i].vectors = MemoryContextAlloc(node->context, SMALL_JOIN_FLOATS * sizeof(float));
	}
	PushGroups(&node->pusher, NULL);
	join.a = node->sides[OUTER_SIDE].vectors;
	join.b = node->plan.shared ? NULL : node->sides[INNER_SIDE].vectors;
	for (uint32 g = 0; g < node->nbatch; g++)
		node->npairs += SmallJoinPairs(&join, &node->row_groups[g], node->own_pairs + node->npairs);
	node->pairs = node->own_pairs;
}

/* Of the groups that are joined; a guess where the side is not read yet. */
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
	JoinRequest request = {.pusher = &node->pusher,.problem.eps = JoinNodeEps(node)};
	MemoryContext old;

	node->distance_decides = node->plan.distance_decides &&
		(node->plan.keys[OUTER_SIDE] == NIL || AreGroups(node));
	request.problem.output = node->distance_decides && IsExact(node) ?
		FASTED_OUTPUT_COUNT : FASTED_OUTPUT_PAIRS;
	if (node->nbatch > 1)
	{
		request.problem.groups = node->row_groups;
		request.problem.ngroups = node->nbatch;
	}
	node->pusher = (RowPusher) {
		.push = PushGroups,.sides = node->plan.shared ? 1 : 2,.metric = JoinNodeMetric(node),
		.element = node->element,.dimensions = node->dimensions,
		.expected_rows = {ExpectedRows(node, OUTER_SIDE), ExpectedRows(node, INNER_SIDE)}
	};
	node->engine_groups += node->nbatch;
	old = MemoryContextSwitchTo(node->context);
	node->join = JoinBegin(&request);
	MemoryContextSwitchTo(old);
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
BeginNextGroups(JoinNode *node)
{
	if (!NextBatch(node))
	{
		/* the rows that have no match */
		ReadSide(node, &node->sides[OUTER_SIDE]);
		return false;
	}
	node->all_groups += node->nbatch;
	if (node->dimensions == 0)
		PushGroups(&node->pusher, NULL);	/* all are odd */
	else if (AreFew(node, node->batch_size))
		JoinFewRows(node);
	else
		BeginEngine(node);
	return true;
}
