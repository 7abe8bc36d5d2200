/*-------------------------------------------------------------------------
 *
 * spill.c
 *	  Rows of floats in a temporary file, for sets beyond fasted.memory_limit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "interrupts.h"
#include "spill.h"
#include "storage/buffile.h"

/* Bytes between two looks for interrupts. */
#define SPILL_CHUNK (4 * 1024 * 1024)

struct SpillFile
{
	BufFile    *file;
	size_t		row_bytes;
};

SpillFile *
SpillCreate(uint32 dimensions)
{
	SpillFile  *spill = palloc(sizeof(SpillFile));

	spill->row_bytes = (size_t) dimensions * sizeof(float);
	spill->file = BufFileCreateTemp(false);
	return spill;
}

void
SpillAppend(SpillFile *spill, const float *rows, size_t nrows)
{
	const char *from = (const char *) rows;
	size_t		left = nrows * spill->row_bytes;

	while (left > 0)
	{
		size_t		n = Min(left, SPILL_CHUNK);

		BufFileWrite(spill->file, unconstify(char *, from), n);
		from += n;
		left -= n;
		CheckJoinInterrupts();
	}
}

void
SpillRead(SpillFile *spill, uint64 first_row, float *rows, size_t nrows)
{
	char	   *to = (char *) rows;
	size_t		left = nrows * spill->row_bytes;

	if (BufFileSeek(spill->file, 0, (off_t) (first_row * spill->row_bytes), SEEK_SET) != 0)
		elog(ERROR, "could not seek to row " UINT64_FORMAT " of the temporary file", first_row);

	while (left > 0)
	{
		size_t		n = Min(left, SPILL_CHUNK);

		if (BufFileRead(spill->file, to, n) != n)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read vectors back from a temporary file")));
		to += n;
		left -= n;
		CheckJoinInterrupts();
	}
}

void
SpillClose(SpillFile *spill)
{
	BufFileClose(spill->file);
	pfree(spill);
}
