/*-------------------------------------------------------------------------
 *
 * copies.c
 *	  Withholds copies of rows from the engine, because m copies have m^2 / 2 pairs.
 *
 * Rows with bit for bit the same vector have the same distance from every row.  So only the k + 1
 * first copies, in the order of ids, can be among the k nearest rows of any row: one of them may be
 * that row itself.  All other copies have the same list, which is also the list of copy number
 * k + 1: k other copies precede both of them in every list that has copies at all.
 *
 * For connections, k is the number of pairs that make a core row.  If there are more copies, these
 * and all rows within eps of them have k pairs with the first k + 1 copies, and so are core rows.
 * Other copies are in the same cluster, and no row belongs to a cluster because of one of them.
 *
 * For representatives, copies are only noted, since they may differ in their nearest representative.
 *
 * The order of ids is known only when all rows have been read.  So the engine receives k + 1 copies
 * in the order of reading, which later get the numbers of those that come first.
 *
 * Rows are counted in a table by a hash of their partition and vector.  When a hash has occurred
 * k + 1 times, the vector is stored, and following rows are compared with it.  Only those that are
 * equal are counted as copies.  The vectors that are stored may take a share of the memory limit;
 * when it is used up, the engine gets all rows of other vectors.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "base/large_memory.h"
#include "base/row_numbers.h"
#include "join/row_set.h"
#include "lib/binaryheap.h"
#include "rows/vector.h"
#include "utils/memutils.h"

/* Of the memory limit, groups may use 1 / GROUP_SHARES. */
#define GROUP_SHARES 4

/* A hash value. */
typedef struct Slot
{
	uint32		tag;			/* half of the hash */
	uint32		state:31;		/* how many rows have it, or the number of its group plus `most` */
	uint32		status:1;		/* for simplehash.h */
} Slot;

#define SH_PREFIX slots
#define SH_ELEMENT_TYPE Slot
#define SH_KEY_TYPE uint32
#define SH_KEY tag
#define SH_HASH_KEY(table, key) (key)
#define SH_EQUAL(table, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Copies of a vector. */
typedef struct Group
{
	float	   *vector;
	uint32		partition;
	uint32		count;			/* number of rows in `kept` */
	uint32	   *kept;			/* the engine's numbers of those that it has: at most `most` */
	binaryheap *heap;			/* these rows; the first is the one that comes last */
} Group;

/* A row that the engine does not have. */
typedef struct Withheld
{
	uint32		row;
	uint32		group;
} Withheld;

struct RowCopies
{
	MemoryContext context;
	FastedElement element;
	uint32		dimensions;
	size_t		bytes;			/* of a vector */
	uint32		most;			/* k + 1 */
	bool		keep_zeros;		/* zero vectors have no copies */
	bool		keep_all;		/* no row is withheld, but copies are noted */
	const FastedPartition *partitions;	/* of side b, or NULL */
	uint32		partition;		/* of the next row */

	uint32		rows;			/* number of rows that have been judged */
	bool		last_kept;		/* whether the engine gets the last of them */

	slots_hash *slots;
	Group	   *groups;
	uint32		ngroups;
	uint32		most_groups;
	uint64		group_bytes;	/* that further groups may take */
	Withheld   *withheld;		/* in ascending order of rows */
	uint32		nwithheld;
	uint32		most_withheld;
};

RowCopies *
CopiesCreate(const FastedOptions *options, const FastedProblem *problem)
{
	bool		connects = problem->output == FASTED_OUTPUT_CONNECTIONS;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted copies",
												  ALLOCSET_DEFAULT_SIZES);
	const MetricRules *rules = fasted_metric_rules(options->metric);
	RowCopies  *copies = MemoryContextAllocZero(context, sizeof(RowCopies));

	copies->context = context;
	copies->element = options->element;
	copies->dimensions = options->dimensions;
	copies->bytes = fasted_row_bytes(options);
	copies->most = 1 + (connects ? problem->core_pairs : problem->k);
	copies->keep_all = problem->output == FASTED_OUTPUT_REPRESENTATIVES;
	/* these may have no distance, or 1, from themselves */
	copies->keep_zeros = connects && (rules->has_direction || rules->of_union);
	copies->partitions = problem->partitions;
	copies->group_bytes = (uint64) fasted_setting_memory_limit * 1024 / GROUP_SHARES;
	copies->slots = slots_create(context, 256, NULL);
	return copies;
}

uint32
CopiesWithheld(const RowCopies *copies)
{
	return copies->keep_all ? 0 : copies->nwithheld;
}

/* --- rows as they are read */

/*
 * Makes a group of the following rows with this hash that are equal to `row`.  Returns false if there
 * is no memory for it.
 */
static bool
AddGroup(RowCopies *copies, const float *row)
{
	uint64		bytes = sizeof(Group) + copies->bytes +
		(uint64) copies->most * (sizeof(uint32) + sizeof(Datum));
	Group	   *group;

	if (bytes > copies->group_bytes)
		return false;
	copies->group_bytes -= bytes;
	if (copies->ngroups == copies->most_groups)
		copies->groups = GrowArray(copies->context, copies->groups, &copies->most_groups,
								   sizeof(Group));
	group = &copies->groups[copies->ngroups];
	*group = (Group) {
		.vector = MemoryContextAlloc(copies->context, copies->bytes),
		.partition = copies->partition,
		.kept = MemoryContextAllocHuge(copies->context, (Size) copies->most * sizeof(uint32))
	};
	memcpy(group->vector, row, copies->bytes);
	copies->ngroups++;
	return true;
}

/* Counts the next row.  Returns whether the engine is to get it. */
static bool
JudgeRow(RowCopies *copies, const float *row)
{
	uint64		hash = RowHash(row, copies->bytes, copies->partition);
	bool		found;
	Slot	   *slot = slots_insert(copies->slots, (uint32) (hash >> 32), &found);
	Group	   *group;
	uint32		number;

	if (!found)
		slot->state = 0;
	if (slot->state < copies->most)
	{
		slot->state++;
		return true;
	}
	if (copies->keep_zeros && RowIsZero(row, copies->element, copies->dimensions))
		return true;
	if (slot->state == copies->most)
	{
		if (!AddGroup(copies, row))
			return true;
		slot->state = copies->most + copies->ngroups;
	}
	number = slot->state - copies->most - 1;
	group = &copies->groups[number];
	if (group->partition != copies->partition || memcmp(group->vector, row, copies->bytes) != 0)
		return true;
	if (group->count < copies->most)
	{
		group->kept[group->count++] = copies->rows - CopiesWithheld(copies);
		return true;
	}
	if (copies->nwithheld == copies->most_withheld)
		copies->withheld = GrowArray(copies->context, copies->withheld, &copies->most_withheld,
									 sizeof(Withheld));
	copies->withheld[copies->nwithheld++] = (Withheld) {.row = copies->rows,.group = number};
	return copies->keep_all;
}

bool
CopiesTake(RowCopies *copies, uint64 number, const float *row)
{
	if (number < copies->rows)
		return number + 1 < copies->rows || copies->last_kept;
	if (copies->partitions != NULL)
	{
		const FastedPartition *partition = &copies->partitions[copies->partition];

		/* each of them has rows on this side */
		if (number == partition->first_b + partition->rows_b)
			copies->partition++;
	}
	copies->last_kept = JudgeRow(copies, row);
	copies->rows++;
	return copies->last_kept;
}

/* --- when all rows have been read */

void
CopiesAdjust(const RowCopies *copies, FastedPartition *partitions, uint32 npartitions, bool self)
{
	uint32		before = 0;

	for (uint32 i = 0; i < npartitions; i++)
	{
		FastedPartition *partition = &partitions[i];
		uint32		end = partition->first_b + partition->rows_b;

		partition->first_b -= before;
		while (before < copies->nwithheld && copies->withheld[before].row < end)
			before++;
		partition->rows_b = end - before - partition->first_b;
		if (self)
		{
			partition->first_a = partition->first_b;
			partition->rows_a = partition->rows_b;
		}
	}
}

/* Ranks of rows; NULL: their numbers. */
static inline uint32
RankOf(const uint32 *rank, uint32 row)
{
	return rank == NULL ? row : rank[row];
}

/* Compares rows by rank, for a heap whose first row comes last. */
static int
CompareRanks(Datum a, Datum b, void *rank)
{
	uint32		x = RankOf(rank, DatumGetUInt32(a));
	uint32		y = RankOf(rank, DatumGetUInt32(b));

	return x < y ? -1 : x > y;
}

/* Exchanges withheld rows for rows of the engine that come after them. */
static void
ExchangeRows(RowCopies *copies, uint32 *row_of, const uint32 *rank)
{
	MemoryContext old = MemoryContextSwitchTo(copies->context);

	for (uint32 i = 0; i < copies->ngroups; i++)
	{
		Group	   *group = &copies->groups[i];

		CheckJoinInterrupts();
		group->heap = binaryheap_allocate(group->count, CompareRanks, unconstify(uint32 *, rank));
		for (uint32 at = 0; at < group->count; at++)
			binaryheap_add_unordered(group->heap, UInt32GetDatum(row_of[group->kept[at]]));
		binaryheap_build(group->heap);
	}
	for (uint32 i = 0; i < copies->nwithheld; i++)
	{
		Withheld   *withheld = &copies->withheld[i];
		binaryheap *heap = copies->groups[withheld->group].heap;
		Datum		last = binaryheap_first(heap);

		CheckEveryRows(i);
		if (CompareRanks(UInt32GetDatum(withheld->row), last, unconstify(uint32 *, rank)) > 0)
			continue;
		binaryheap_replace_first(heap, UInt32GetDatum(withheld->row));
		withheld->row = DatumGetUInt32(last);
	}
	for (uint32 i = 0; i < copies->ngroups; i++)
		for (uint32 at = 0; at < copies->groups[i].count; at++)
			row_of[copies->groups[i].kept[at]] = DatumGetUInt32(copies->groups[i].heap->bh_nodes[at]);
	MemoryContextSwitchTo(old);
}

CopiedRows
CopiesFinish(RowCopies *copies, const uint32 *rank, bool self)
{
	uint32		count = copies->rows - copies->nwithheld;
	CopiedRows	result = {.ranks = AllocRowNumbers(count),.row_of = AllocRowNumbers(count)};
	uint32		next = 0;

	for (uint32 row = 0; row < copies->rows; row++)
	{
		CheckEveryRows(row);
		if (next < copies->nwithheld && copies->withheld[next].row == row)
			next++;
		else
			result.row_of[row - next] = row;
	}
	ExchangeRows(copies, result.row_of, rank);
	for (uint32 i = 0; i < count; i++)
	{
		CheckEveryRows(i);
		result.ranks[i] = RankOf(rank, result.row_of[i]);
	}
	if (!self)
		return result;
	result.next = SameRowNumbers(copies->rows, NO_COPY);
	for (uint32 i = 0; i < copies->nwithheld; i++)
	{
		Withheld	withheld = copies->withheld[i];
		uint32		last = result.row_of[copies->groups[withheld.group].kept[0]];

		CheckEveryRows(i);
		result.next[withheld.row] = result.next[last];
		result.next[last] = withheld.row;
	}
	return result;
}

uint32 *
CopiesNoted(const RowCopies *copies)
{
	uint32	   *copy_of = OwnRowNumbers(copies->rows);

	for (uint32 i = 0; i < copies->nwithheld; i++)
	{
		CheckEveryRows(i);
		copy_of[copies->withheld[i].row] = copies->groups[copies->withheld[i].group].kept[0];
	}
	return copy_of;
}
