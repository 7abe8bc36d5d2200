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
#include "join/engines.h"
#include "join_node/join_state.h"
#include "miscadmin.h"
#include "scan/scan_explain.h"
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
	const JoinPlan *plan = &node->plan;
	bool		isnull;
	Datum		value = ExecEvalExprSwitchContext(node->bound, ScanTuple(node), &isnull);
	double		bound = isnull ? 0.0 : DatumGetFloat8(value);

	node->exact = plan->form != FORM_FOREIGN;
	node->radius_known = true;
	node->nothing = isnull;
	node->radius = bound;
	/* to PostgreSQL NaN is greater than any number; a negative eps is an error */
	node->undecided = isnan(bound) || (plan->form == FORM_WITHIN && bound < 0.0);
	if (isnull || node->undecided || plan->form == FORM_WITHIN)
		return;
	if (!plan->similarity)
		node->nothing = bound < 0.0 || (plan->strict && bound == 0.0);
	else
		node->radius = node->exact ? LargestDistance(bound, plan->strict) : 1.0 - bound;
}

static double
EuclideanEps(JoinNode *node)
{
	double		delta = (node->dimensions + 16) * FP32_ROUNDOFF;
	double		lost = sqrt(node->dimensions) * FP32_UNDERFLOW;

	node->surely_within = fmin((node->radius - lost) * (1.0 - delta), FP32_LARGE);
	return (node->radius + lost) * (1.0 + 2.0 * delta);
}

static double
CosineEps(JoinNode *node)
{
	double		error = (2.0 * node->dimensions + 32.0) * FP32_ROUNDOFF;
	double		least = node->radius - error;
	double		most = fmax(fmin(node->radius + error, 2.0), 0.0);

	node->surely_within = least > 0.0 ? sqrt(2.0 * fmin(least, 2.0)) - UNIT_ERROR : 0.0;
	return sqrt(2.0 * most) + UNIT_ERROR;
}

static FastedMetric
JoinNodeMetric(const JoinNode *node)
{
	return node->exact && node->plan.cosine ? FASTED_METRIC_COSINE : FASTED_METRIC_L2;
}

/* The engine's eps for the radius, when the dimensions are known: no match is beyond. */
static double
JoinNodeEps(JoinNode *node)
{
	double		eps = node->radius;

	if (!node->exact)
		return node->plan.cosine ? CosineEps(node) : EuclideanEps(node);
	/* below the radius is at most the number before it; infinite distances are not below infinity */
	if (node->plan.strict && !node->plan.similarity)
		eps = nextafter(eps, 0.0);
	return node->plan.cosine ? fmin(eps, 2.0) : eps;
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

	if (!node->plan.cosine)
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
		return node->plan.similarity ? CLAUSES_DECIDE : NEVER_MATCHES;
	/* no similarity but that of a zero vector is above the bound */
	if (node->exact && node->radius < 0.0)
		return NEVER_MATCHES;
	if (node->exact)
		return ENGINE_TAKES_IT;
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
	foreach(cell, side->keys)
	{
		int			n = foreach_current_index(cell);
		Datum		value;

		if (isnull)
			break;
		value = ExecEvalExpr((ExprState *) lfirst(cell), econtext, &isnull);
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
	uint32		grouped = 0;
	GroupedRow *rows = MemoryContextAllocHuge(node->context, (Size) count * sizeof(GroupedRow));

	for (uint32 row = 0; row < count; row++)
	{
		CHECK_FOR_INTERRUPTS();
		if (HashKeys(node, side, row, &rows[grouped].hash))
			rows[grouped++].row = row;
	}
	qsort_interruptible(rows, grouped, sizeof(GroupedRow), CompareGroupedRows, NULL);
	side->group = (GroupPlace) {.rows = rows,.total = grouped};
}

/* Rows of one hash, from first on. */
static uint32
CountGroup(const GroupPlace *place)
{
	uint32		end = place->first;

	while (end < place->total && place->rows[end].hash == place->rows[place->first].hash)
	{
		CHECK_FOR_INTERRUPTS();
		end++;
	}
	return end - place->first;
}

/*
 * Goes on to the next hash that both sides have, behind the rows that outer and inner
 * have come to; their counts are those of its rows.  False: there is none.
 */
static bool
NextGroup(GroupPlace *outer, GroupPlace *inner)
{
	outer->first += outer->count;
	inner->first += inner->count;
	while (outer->first < outer->total && inner->first < inner->total)
	{
		uint64		x = outer->rows[outer->first].hash;
		uint64		y = inner->rows[inner->first].hash;

		CHECK_FOR_INTERRUPTS();
		if (x < y)
			outer->first++;
		else if (x > y)
			inner->first++;
		else
		{
			outer->count = CountGroup(outer);
			inner->count = CountGroup(inner);
			return true;
		}
	}
	outer->count = inner->count = 0;
	return false;
}

static double
PairsOf(const JoinNode *node, double outer, double inner)
{
	return node->plan.shared ? 0.5 * outer * (outer - 1.0) : outer * inner;
}

/* Of shared rows the inner side has none of its own. */
static uint64
RowsOf(const JoinNode *node, uint64 outer, uint64 inner)
{
	return node->plan.shared ? outer : outer + inner;
}

void
FindGroups(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];
	GroupPlace	places[2];

	node->nothing = IsEmptySide(node, outer) || IsEmptySide(node, inner);
	if (node->nothing)
		return;
	node->group_waits = node->plan.outer_keys == NIL;
	if (node->group_waits)
	{
		outer->group = (GroupPlace) {.count = outer->kept->count};
		inner->group = (GroupPlace) {.count = inner->kept->count};
	}
	else
	{
		GroupSide(node, outer);
		inner->group = outer->group;
		if (!node->plan.shared && outer->group.total > 0)
			GroupSide(node, inner);
	}
	for (int i = 0; i < 2; i++)
		places[i] = node->next_group[i] = node->sides[i].group;
	while (NextGroup(&places[OUTER_SIDE], &places[INNER_SIDE]))
	{
		node->all_pairs += PairsOf(node, places[OUTER_SIDE].count, places[INNER_SIDE].count);
		node->all_rows += RowsOf(node, places[OUTER_SIDE].count, places[INNER_SIDE].count);
	}
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
	if (side->group.rows == NULL)
		return;
	if (i + 2 * ROWS_AHEAD < side->group.count)
		KeptRowsPrefetch(side->kept, RowOfGroup(side, i + 2 * ROWS_AHEAD));
	if (values && i + ROWS_AHEAD < side->group.count)
		KeptRowsPrefetchValues(side->kept, RowOfGroup(side, i + ROWS_AHEAD));
}

/*
 * Do all rows of the side have the keys of the other side's first row?  The clauses beside
 * distance and order are equalities.
 */
static bool
HasOneKey(JoinNode *node, int number)
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
	return true;
}

/* Are all keys equal in each of these groups, and not only their hashes? */
static bool
AreGroups(JoinNode *node)
{
	for (uint32 g = 0; g < node->nbatch; g++)
	{
		TakeGroup(node, g);
		/* shared rows are those of both sides */
		if (!HasOneKey(node, OUTER_SIDE) || (!node->plan.shared && !HasOneKey(node, INNER_SIDE)))
			return false;
	}
	return true;
}

/* --- groups that are joined together */

/* A side whose vectors stay in the table is not read yet: nobody knows how many there are. */
static bool
AreCounted(const JoinNode *node)
{
	return node->sides[OUTER_SIDE].complete && (node->plan.shared || node->sides[INNER_SIDE].complete);
}

static bool
AreFew(const JoinNode *node, double pairs, uint64 rows)
{
	/* that is for many groups, and for one row that is evaluated once more */
	if (node->plan.outer_keys == NIL &&
		(node->css.ss.ps.state->es_epq_active == NULL || !AreCounted(node)))
		return false;
	return pairs <= SMALL_JOIN_PAIRS && rows * JoinNodeRowFloats(node) <= SMALL_JOIN_FLOATS;
}

/* Can they be compared without an engine? */
static bool
IsSmallBatch(const JoinNode *node)
{
	return AreFew(node, node->batch_pairs, node->batch_rows);
}

/*
 * The group's rows are those of both sides from here on.  Its odd rows meet none of another
 * side that has no vectors.
 */
void
TakeGroup(JoinNode *node, uint32 g)
{
	for (int i = 0; i < 2; i++)
	{
		JoinSide   *side = &node->sides[i];
		const BatchSide *from = &node->batch[g][i];

		side->group = from->place;
		side->nodd = node->batch[g][1 - i].nvectors > 0 ? from->nodd : 0;
		if (side->nodd > 0)
			side->odd = side->all_odd + from->first_odd;
	}
}

/* --- which rows can match */

/* Would a nested loop compare the vectors of the rows, by their numbers in the group? */
static bool
AreCompared(JoinNode *node, uint32 outer, uint32 inner)
{
	ExprContext *econtext = LoadPairOfGroup(node, outer, inner);

	return ExecQual(node->outer_quals, econtext) && ExecQual(node->partner_quals, econtext);
}

/*
 * Would a nested loop compare the vector of the side's row with any vector?  The row is given by
 * its number in the group.  The search begins at the partner that was found for the row before,
 * which for most clauses is a partner of this row as well.  If one is found, the row is in the
 * scan tuple.
 */
static bool
HasPartner(JoinNode *node, JoinSide *side, uint32 row)
{
	bool		is_outer = side == &node->sides[OUTER_SIDE];
	JoinSide   *other = &node->sides[is_outer ? INNER_SIDE : OUTER_SIDE];

	for (uint32 k = 0; k < other->group.count; k++)
	{
		uint32		partner = (other->partner + k) % other->group.count;

		CHECK_FOR_INTERRUPTS();
		if ((is_outer && AreCompared(node, row, partner)) ||
			((!is_outer || node->plan.shared) && AreCompared(node, partner, row)))
		{
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
	if ((side->group.rows == NULL && !PassesOuterQuals(node, side)) ||
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
AddNumber(JoinNode *node, uint32 **numbers, uint32 *count, uint32 *room, uint32 number)
{
	if (*count == *room)
		*numbers = GrowArray(node->context, *numbers, room, sizeof(uint32));
	(*numbers)[(*count)++] = number;
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
PushSideOfGroup(JoinNode *node, Join *join, int number, float *vector, uint32 *nvectors)
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
		switch (use)
		{
			case ENGINE_TAKES_IT:
				if (join != NULL)
					taken = JoinPush(join, number, vector);
				else
					memcpy(side->vectors + side->nrows * JoinNodeRowFloats(node), vector,
						   JoinNodeRowFloats(node) * sizeof(float));
				AddNumber(node, &side->rows, &side->nrows, &side->rows_room, RowOfGroup(side, i));
				break;
			case CLAUSES_DECIDE:
				AddNumber(node, &side->all_odd, &side->all_nodd, &side->odd_room, i);
				break;
			case NEVER_MATCHES:
			case HAS_NO_VECTOR:
				break;
		}
	}
	return taken;
}

/* All groups that are joined together; of the inner side only those whose outer rows have vectors. */
static bool
PushSide(JoinNode *node, Join *join, int number)
{
	JoinSide   *side = &node->sides[number];
	float	   *vector = palloc(Max(JoinNodeRowFloats(node), 1) * sizeof(float));
	bool		taken = true;

	side->nrows = side->all_nodd = 0;
	for (uint32 g = 0; g < node->nbatch && taken; g++)
	{
		BatchSide  *pushed = &node->batch[g][number];
		FastedRowGroup *rows = &node->row_groups[g];
		uint32		first_row = side->nrows;

		TakeGroup(node, g);
		pushed->first_odd = side->all_nodd;
		pushed->nvectors = 0;
		if (number == OUTER_SIDE || node->batch[g][OUTER_SIDE].nvectors > 0)
			taken = PushSideOfGroup(node, join, number, vector, &pushed->nvectors);
		pushed->place = side->group;
		pushed->nodd = side->all_nodd - pushed->first_odd;
		if (number == OUTER_SIDE)
		{
			rows->first_a = first_row;
			rows->rows_a = side->nrows - first_row;
		}
		if (number == INNER_SIDE || node->plan.shared)
		{
			node->batch[g][INNER_SIDE] = *pushed;
			rows->first_b = first_row;
			rows->rows_b = side->nrows - first_row;
		}
	}
	pfree(vector);
	return taken;
}

void
PushGroups(RowPusher *pusher, Join *join)
{
	JoinNode   *node = (JoinNode *) ((char *) pusher - offsetof(JoinNode, pusher));
	const JoinSide *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	if (PushSide(node, join, OUTER_SIDE) && !node->plan.shared)
		(void) PushSide(node, join, INNER_SIDE);
	if (node->plan.shared)
	{
		inner->rows = outer->rows;
		inner->all_odd = outer->all_odd;
		inner->complete = outer->complete;
	}
}

/* --- batches */

/* Adds the group that both sides are at, and what is guessed of it: that an engine takes all. */
static void
AddGroup(JoinNode *node)
{
	uint32		outer = node->sides[OUTER_SIDE].group.count;
	uint32		inner = node->sides[INNER_SIDE].group.count;
	uint32		room = node->batch_room;
	BatchGroup *group;

	if (node->nbatch == room)
	{
		node->row_groups = GrowArray(node->context, node->row_groups, &room, sizeof(FastedRowGroup));
		node->batch = GrowArray(node->context, node->batch, &node->batch_room, sizeof(BatchGroup));
	}
	group = &node->batch[node->nbatch];
	memset(group, 0, sizeof(*group));
	for (int i = 0; i < 2; i++)
		(*group)[i].place = node->sides[i].group;
	node->row_groups[node->nbatch++] = (FastedRowGroup) {.rows_a = outer,.rows_b = inner};
	node->batch_pairs += PairsOf(node, outer, inner);
	node->batch_rows += RowsOf(node, outer, inner);
}

/* Both sides go to the group that is next; false: there is none. */
static bool
FindNextGroup(JoinNode *node)
{
	if (!node->group_waits && !NextGroup(&node->next_group[OUTER_SIDE], &node->next_group[INNER_SIDE]))
		return false;
	node->group_waits = false;
	for (int i = 0; i < 2; i++)
		node->sides[i].group = node->next_group[i];
	return true;
}

/* Had that group better be joined alone? */
static bool
IsLarge(const JoinNode *node, double rows, double pairs)
{
	return node->alone && pairs >= LARGE_GROUP_PAIRS_A_ROW * rows;
}

/* Does the group that both sides are at go with those of the batch? */
static bool
GoesWithBatch(JoinNode *node, int dimensions)
{
	uint64		outer = node->sides[OUTER_SIDE].group.count;
	uint64		inner = node->sides[INNER_SIDE].group.count;
	uint64		rows = RowsOf(node, outer, inner);
	double		pairs = PairsOf(node, outer, inner);

	if (node->nbatch == 0)
		return true;
	if (dimensions != 0 && node->dimensions != 0 && dimensions != node->dimensions)
		return false;
	if (AreFew(node, node->batch_pairs + pairs, node->batch_rows + rows) || node->dimensions == 0)
		return true;
	if (node->all_pairs <= FEW_PAIRS_A_ROW * node->all_rows && IsSmallBatch(node))
		return false;
	if (node->room_dimensions != node->dimensions)
		node->most_rows = JoinRoom(node->all_pairs, node->element, node->dimensions, &node->alone);
	node->room_dimensions = node->dimensions;
	return node->batch_rows + rows <= node->most_rows && !IsLarge(node, rows, pairs) &&
		!IsLarge(node, node->batch_rows, node->batch_pairs);
}

/* Goes on to the next groups that are joined together; false: there are no more. */
static bool
NextBatch(JoinNode *node)
{
	node->nbatch = 0;
	node->batch_rows = 0;
	node->batch_pairs = 0.0;
	node->dimensions = 0;
	while (!node->nothing && FindNextGroup(node))
	{
		int			dimensions = DimensionsOfGroup(node);

		CHECK_FOR_INTERRUPTS();
		if (node->nothing)
			break;
		if (!GoesWithBatch(node, dimensions))
		{
			node->group_waits = true;
			break;
		}
		AddGroup(node);
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
	uint64		expected[2] = {ExpectedRows(node, OUTER_SIDE), ExpectedRows(node, INNER_SIDE)};
	FastedOutput output;
	MemoryContext old;

	node->distance_decides = node->plan.distance_decides &&
		(node->plan.outer_keys == NIL || AreGroups(node));
	node->engine_counts = node->distance_decides && node->exact;
	output = node->engine_counts ? FASTED_OUTPUT_COUNT : FASTED_OUTPUT_PAIRS;
	node->pusher.groups = node->nbatch > 1 ? node->row_groups : NULL;
	node->pusher.ngroups = node->nbatch;
	node->engine_groups += node->nbatch;
	old = MemoryContextSwitchTo(node->context);
	node->join = JoinBeginPushed(&node->pusher, node->plan.shared ? 1 : 2, node->element,
								 node->dimensions, expected, JoinNodeMetric(node), JoinNodeEps(node), output);
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
	node->next_pair = node->npairs = 0;
	node->next_equal = 0;
	node->mirrored = false;
	/* behind the odd rows of the group before the first */
	node->odd_group = 0;
	node->odd_inner = true;
	node->next_odd = PG_UINT32_MAX;
	node->distance_decides = node->engine_counts = false;
	if (node->dimensions == 0)
		PushGroups(&node->pusher, NULL);	/* all are odd */
	else if (IsSmallBatch(node))
		JoinFewRows(node);
	else
		BeginEngine(node);
	return true;
}
