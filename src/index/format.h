/*-------------------------------------------------------------------------
 *
 * format.h
 *	  Pages of an index.
 *
 *	  block 0			IndexMeta
 *	  null_chunks pages	chunks of rows without a vector that came before the first vector: heads only
 *	  basis_pages pages	the basis: the centre and the reflections, FP32
 *	  then				sections of BOX_CHUNKS further chunks; each begins with a page of their boxes
 *
 * A chunk is for chunk_rows rows, and has chunk_pages pages.  It begins with its head page, which has arrays
 * of as many elements:
 *
 *	  hashes[columns]	hashes of the further columns
 *	  codes				of the first 16 coordinates, of each group of 8 rows: [pair][row][2]
 *	  scales, seconds	of these codes (below)
 *	  tids
 *
 * The pages of a level follow.  Those of level 1 have such codes, scales and seconds of page_rows rows, and
 * those of further levels LevelRow.  A row has the same number in all pages of its chunk.  A scan reads the
 * box of a chunk first, then the heads of its rows, and the levels of those rows whose heads pass.
 *
 * Scales and seconds are the upper halves of FP32 numbers.  A coordinate is its scale times its code.
 * The second number is the norm of the coordinates of all further levels or, in the last level, the
 * error of the whole row.  In the head it may be a RowState in place of that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INDEX_FORMAT_H
#define FASTED_INDEX_FORMAT_H

#include "postgres.h"

#include "base/compat.h"
#include "index/index.h"
#include "storage/bufmgr.h"
#include "storage/itemptr.h"
#include "utils/rel.h"

#define INDEX_MAGIC 0x46535431
#define META_BLOCK 0

#define CACHE_LINE 64

#define INDEX_LEVELS 4
#define HEAD_WORDS 16			/* coordinates of the first level, which is in the head */
#define GROUP_ROWS 8
#define GROUPED_LEVELS 2		/* whose codes are in groups of rows */
#define MOST_REFLECTIONS 128
#define MOST_INDEX_DIMENSIONS 8000
#define QUANTILES 12
#define BOX_LEVEL INDEX_LEVELS	/* in place of a level: boxes */

/* States of a row of which there are no codes. */
typedef enum RowState
{
	ROW_FREE = 0x8000,			/* no row */
	ROW_PASSES,					/* no bound; each scan returns it */
	ROW_NAN,					/* its distance from each vector is NaN */
	ROW_NULL
} RowState;

#define HAS_STATE(second) (((second) & 0x8000) != 0)

typedef struct IndexMeta
{
	uint32		magic;
	uint32		dimensions;		/* 0: there has been no vector yet */
	uint32		metric;			/* FastedMetric */
	uint32		columns;		/* further columns */
	uint32		reflections;
	int32		exponent;		/* vectors are scaled by this power of two */
	uint32		null_chunks;	/* set with the dimensions */
	uint32		chunks;			/* all */
	uint32		list_bits;		/* of a row's key, which select a list of chunks */
	double		most_radius;	/* of the balls */

	/*
	 * For estimates, from the build.  2^-q of the pairs of vectors have bounds of at most
	 * quantiles[level][q]; the last quantiles are those of vectors and boxes.
	 */
	uint32		built_chunks;
	uint32		pairs[BOX_LEVEL + 1];	/* 0: unknown */
	float		quantiles[BOX_LEVEL + 1][QUANTILES];
} IndexMeta;

/*
 * Lists of chunks with free places follow in the metapage: one for rows whose keys begin with the same bits,
 * so that rows of a chunk are similar, and one of chunks without rows.  Each is the number of the first chunk
 * plus 1, or 0.
 */
#define MOST_LIST_BITS 10
#define EMPTY_LIST (1 << MOST_LIST_BITS)

/* Chunks for each list; fewer would leave too many places free. */
#define LIST_CHUNKS 8

static inline uint32 *
ChunkLists(IndexMeta *meta)
{
	return (uint32 *) (meta + 1);
}

typedef struct LevelRow
{
	uint16		scale;
	uint16		second;
	int8		codes[FLEXIBLE_ARRAY_MEMBER];
} LevelRow;

/*
 * A box around the decoded codes of the heads of a chunk, with the second number as one more coordinate.
 * Upper halves of FP32 numbers.  If most_scale is 0, then there are no bounds.
 *
 * The range of the hashes of the first further column is that of all rows, with codes or without; upper halves, too.
 */
typedef struct ChunkBox
{
	uint16		low[HEAD_WORDS + 1];
	uint16		high[HEAD_WORDS + 1];
	uint16		most_scale;
	uint16		least_hash;
	uint16		most_hash;
} ChunkBox;

/* Follows from the metapage. */
typedef struct IndexLayout
{
	uint32		levels;
	uint32		first[INDEX_LEVELS + 1];	/* coordinates of a level: [first[l], first[l + 1]) */
	uint32		words[INDEX_LEVELS];	/* codes of a row, with padding */
	uint32		stride[INDEX_LEVELS];	/* bytes of a row */
	uint32		page_rows[INDEX_LEVELS];
	uint32		page[INDEX_LEVELS]; /* of the level's first page in the chunk */
	uint32		chunk_rows;
	uint32		chunk_pages;
	uint32		basis_pages;
	uint32		null_chunks;
	BlockNumber basis_block;
	BlockNumber chunk_block;	/* the first chunk but null chunks */
} IndexLayout;

/* What scans and inserts know of an index, in one piece of memory. */
typedef struct IndexState
{
	IndexMeta	meta;			/* as it was when this was read */
	IndexLayout layout;
	const IndexedKind *kind;
	double		scale;
	float	   *centre;
	float	   *reflections;	/* [reflection][coordinate] */
	double	   *factors;		/* 2 / |v|^2 of each reflection v */
} IndexState;

typedef enum PageKind
{
	META_PAGE = 0xFA01,
	BASIS_PAGE,
	HEAD_PAGE,
	LEVEL_PAGE,
	BOX_PAGE
} PageKind;

/* The special space of each page. */
typedef struct PageOpaque
{
	uint32		chunk;			/* or the number of the page of the basis, or the first chunk of the section */
	uint16		level;
	uint16		kind;
	uint32		next;			/* of a head: the next chunk of its list plus 1, LIST_END, or 0: it is in no list */
} PageOpaque;

#define LIST_END PG_UINT32_MAX

#define PAGE_ROOM (BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - MAXALIGN(sizeof(PageOpaque)))
#define BASIS_PAGE_FLOATS (PAGE_ROOM / sizeof(float))
#define BOX_CHUNKS (PAGE_ROOM / sizeof(ChunkBox))

static inline PageOpaque *
OpaqueOf(Page page)
{
	return (PageOpaque *) PageGetSpecialPointer(page);
}

/* --- arrays of a head page */

static inline uint32 *
HeadHashes(Page page, const IndexLayout *layout, uint32 column)
{
	return (uint32 *) PageGetContents(page) + (Size) column * layout->chunk_rows;
}

/* The codes, scales and seconds of a page of a grouped level. */
static inline int8 *
GroupCodes(Page page, const IndexState *state, uint32 level)
{
	return (int8 *) PageGetContents(page) +
		(level == 0 ? state->meta.columns * sizeof(uint32) * state->layout.chunk_rows : 0);
}

static inline uint16 *
GroupScales(Page page, const IndexState *state, uint32 level)
{
	return (uint16 *) (GroupCodes(page, state, level) +
					   state->layout.words[level] * state->layout.page_rows[level]);
}

static inline uint16 *
GroupSeconds(Page page, const IndexState *state, uint32 level)
{
	return GroupScales(page, state, level) + state->layout.page_rows[level];
}

static inline uint16 *
HeadSeconds(Page page, const IndexState *state)
{
	return GroupSeconds(page, state, 0);
}

static inline ItemPointerData *
HeadTids(Page page, const IndexState *state)
{
	return (ItemPointerData *) (HeadSeconds(page, state) + state->layout.chunk_rows);
}

/* The place of coordinate k of a row among codes of that many words. */
static inline uint32
GroupCodePlace(uint32 words, uint32 row, uint32 k)
{
	return row / GROUP_ROWS * GROUP_ROWS * words + k / 2 * 2 * GROUP_ROWS + row % GROUP_ROWS * 2 + k % 2;
}

static inline LevelRow *
LevelRowOf(Page page, const IndexLayout *layout, uint32 level, uint32 row)
{
	return (LevelRow *) (PageGetContents(page) +
						 (Size) (row % layout->page_rows[level]) * layout->stride[level]);
}

/* The first chunk of a chunk's section.  Not for null chunks. */
static inline uint32
SectionOf(const IndexLayout *layout, uint32 chunk)
{
	return chunk - (chunk - layout->null_chunks) % BOX_CHUNKS;
}

static inline BlockNumber
ChunkBlock(const IndexLayout *layout, uint32 chunk)
{
	uint32		number = chunk - layout->null_chunks;

	return chunk < layout->null_chunks ? META_BLOCK + 1 + chunk :
		layout->chunk_block + number * layout->chunk_pages + number / BOX_CHUNKS + 1;
}

/* The page of the boxes of a chunk's section. */
static inline BlockNumber
BoxBlock(const IndexLayout *layout, uint32 chunk)
{
	return ChunkBlock(layout, SectionOf(layout, chunk)) - 1;
}

static inline ChunkBox *
BoxOf(Page page, const IndexLayout *layout, uint32 chunk)
{
	return (ChunkBox *) PageGetContents(page) + (chunk - layout->null_chunks) % BOX_CHUNKS;
}

static inline BlockNumber
LevelBlock(const IndexLayout *layout, uint32 chunk, uint32 level, uint32 row)
{
	return ChunkBlock(layout, chunk) + layout->page[level] + row / layout->page_rows[level];
}

/* The number whose upper half this is. */
static inline float
FromHalf(uint16 half)
{
	union
	{
		uint32		bits;
		float		value;
	}			word = {.bits = (uint32) half << 16};

	return word.value;
}

/* Computes the layout.  If there has been no vector yet, it is that for one dimension, without a basis. */
extern void SetLayout(IndexLayout *layout, const IndexMeta *meta);

/* Returns the kind of the index's operator class. */
extern const IndexedKind *KindOf(Relation index);

/* Returns the metapage of an index that has had no vector. */
extern IndexMeta EmptyMeta(Relation index);

/* Allocates the state for an index with this metapage.  Sets the layout and pointers. */
extern IndexState *MakeState(const IndexMeta *meta, const IndexedKind *kind, MemoryContext context);

/* Sets the factors of the reflections.  Returns false if they are not those of an index. */
extern bool SetFactors(IndexState *state);

/* Reads the centre and the reflections of an index. */
extern void ReadBasis(Relation index, IndexState *state);

/*
 * Returns the state of an index, which is valid until invalidations are processed, as by any access to
 * catalogs.  If the index has had no vector yet, its dimensions are 0.  `meta` gets the present
 * metapage.
 */
extern const IndexState *ReadState(Relation index, IndexMeta *meta);

/* Returns the metapage's contents.  Error: the page is not a metapage of this index. */
extern IndexMeta *MetaOf(Relation index, Buffer buffer);

/* Makes an empty page. */
extern void InitIndexPage(Page page, PageKind kind, uint32 chunk, uint32 level);

/* Makes the `number`th page of a chunk without rows. */
extern void InitChunkPage(Page page, const IndexState *state, uint32 chunk, uint32 number);

/*
 * Begins to fetch n bytes of a page, and what ReadIndexPage checks, into the CPU's cache, if this session has used the page
 * before.
 */
extern void FetchAhead(Relation index, BlockNumber block, Size first, Size n);

/* Pins and locks a page.  Error: it is not of this kind, chunk and level. */
extern Buffer ReadIndexPage(Relation index, BlockNumber block, int lock, PageKind kind,
							uint32 chunk, uint32 level);

/*
 * Appends a page, or returns one that is there already at this block.  The buffer is locked
 * exclusively.  Others must not extend the index meanwhile.
 */
extern Buffer NewIndexPage(Relation index, BlockNumber block);

/* Fills the `number`th page of the basis of this state. */
extern void FillBasisPage(Page page, const IndexState *state, uint32 number);

pg_noreturn extern void ReportCorruption(Relation index, BlockNumber block);

#endif							/* FASTED_INDEX_FORMAT_H */
