/*-------------------------------------------------------------------------
 *
 * row.c
 *	  From the values of a row to its place in the pages of an index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "index/access.h"

double *
ElementsOf(const IndexedKind *kind, Datum value, int *dimensions, double *radius)
{
	Datum		flat = PointerGetDatum(PG_DETOAST_DATUM(value));
	double	   *elements;

	*dimensions = kind->dimensions(flat);
	if (*dimensions > MOST_INDEX_DIMENSIONS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("vector has %d dimensions, but an index supports at most %d", *dimensions,
						MOST_INDEX_DIMENSIONS)));
	if (*dimensions == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("vector without dimensions cannot be indexed")));
	*radius = kind->radius == NULL ? 0.0 : kind->radius(flat);
	elements = palloc(*dimensions * sizeof(double));
	kind->elements(flat, *dimensions, elements);
	if (DatumGetPointer(flat) != DatumGetPointer(value))
		pfree(DatumGetPointer(flat));
	return elements;
}

void
ReportIndexDimensions(Relation index, int dimensions, uint32 expected)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("expected %u dimensions, not %d", expected, dimensions),
			 errdetail("All vectors of index \"%s\" must have the same number of dimensions.",
					   RelationGetRelationName(index)),
			 errhint("Use a partial index for the vectors of each number of dimensions.  "
					 "REINDEX the index if no row has %u.", expected)));
}

void
SetHashes(Relation index, const Datum *values, const bool *isnull, uint32 *hashes)
{
	int			columns = IndexRelationGetNumberOfKeyAttributes(index) - 1;

	for (int c = 0; c < columns; c++)
	{
		FmgrInfo   *function = index_getprocinfo(index, c + 2, INDEX_HASH_PROC);

		hashes[c] = isnull[c + 1] ? 0 :
			DatumGetUInt32(FunctionCall1Coll(function, index->rd_indcollation[c + 1], values[c + 1]));
	}
}

/* Returns the key of a row with this hash of the first further column and these codes in its head. */
static int64
key_of(const IndexState *state, uint32 hash, const int8 *codes)
{
	int64		key = 0;

	for (uint32 k = 0; k < HEAD_WORDS; k++)
	{
		if (state->meta.columns > 0)
			key = key << 2 | (hash >> (30 - 2 * k)) % 4;
		key = key << 1 | (codes[k] > 0);
	}
	return state->meta.columns > 0 ? key : key << (KEY_BITS - HEAD_WORDS);
}

int64
RowKey(const IndexState *state, const IndexRow *row)
{
	int8		codes[HEAD_WORDS] = {0};

	memcpy(codes, RowCodes((IndexRow *) row, state), state->layout.first[1]);
	return row->state != 0 ? -1 : key_of(state, state->meta.columns > 0 ? RowHashes((IndexRow *) row)[0] : 0, codes);
}

int64
HeadKey(const IndexState *state, Page page)
{
	int8		codes[HEAD_WORDS];
	uint32		row = 0;

	while (row < state->layout.chunk_rows && HAS_STATE(HeadSeconds(page, state)[row]))
		row++;
	if (row == state->layout.chunk_rows)
		return -1;
	for (uint32 k = 0; k < HEAD_WORDS; k++)
		codes[k] = GroupCodes(page, state, 0)[GroupCodePlace(HEAD_WORDS, row, k)];
	return key_of(state, state->meta.columns > 0 ? HeadHashes(page, &state->layout, 0)[row] : 0, codes);
}

void
PutRow(const IndexState *state, const IndexRow *row, uint32 number, uint32 level, Page page)
{
	const IndexLayout *layout = &state->layout;
	uint32		n = layout->first[level + 1] - layout->first[level];
	uint32		words = layout->words[level];
	uint32		place = number % layout->page_rows[level];
	const int8 *codes = RowCodes((IndexRow *) row, state) + layout->first[level];

	if (level >= GROUPED_LEVELS)
	{
		LevelRow   *to = LevelRowOf(page, layout, level, number);

		to->scale = row->scales[level];
		to->second = row->seconds[level];
		memcpy(to->codes, codes, n);
		return;
	}
	for (uint32 k = 0; k < words; k++)
		GroupCodes(page, state, level)[GroupCodePlace(words, place, k)] = k < n ? codes[k] : 0;
	GroupScales(page, state, level)[place] = row->scales[level];
	GroupSeconds(page, state, level)[place] = level == 0 && row->state != 0 ? row->state : row->seconds[level];
	if (level > 0)
		return;
	for (uint32 c = 0; c < state->meta.columns; c++)
		HeadHashes(page, layout, c)[number] = RowHashes((IndexRow *) row)[c];
	HeadTids(page, state)[number] = row->tid;
}
