/*-------------------------------------------------------------------------
 *
 * spill.c
 *	  Rows in temporary files, for sets beyond fasted.memory_limit.
 *
 * The files are PostgreSQL's, cut into segments as its own large temporary files
 * are.  We write megabytes at a time, so there is no buffer between.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "commands/tablespace.h"
#include "join/spill.h"
#include "storage/fd.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

/* Bytes between two looks for interrupts. */
#define SPILL_CHUNK (1024 * 1024)

/* Bytes of a segment: what PostgreSQL takes for its own. */
#define SEGMENT_BYTES ((uint64) 1024 * 1024 * 1024)

struct SpillFile
{
	MemoryContext context;
	ResourceOwner owner;		/* closes the files, if nobody else does */
	File	   *segments;
	int			nsegments;
	uint64		size;
	size_t		row_bytes;
};

SpillFile *
SpillCreate(size_t row_bytes)
{
	SpillFile  *spill = palloc0(sizeof(SpillFile));

	PrepareTempTablespaces();
	spill->context = CurrentMemoryContext;
	spill->owner = CurrentResourceOwner;
	spill->row_bytes = row_bytes;
	return spill;
}

static void
AddSegment(SpillFile *spill)
{
	ResourceOwner owner = CurrentResourceOwner;
	Size		size = (spill->nsegments + 1) * sizeof(File);

	spill->segments = spill->segments == NULL ? MemoryContextAlloc(spill->context, size) :
		repalloc(spill->segments, size);

	CurrentResourceOwner = spill->owner;
	spill->segments[spill->nsegments] = OpenTemporaryFile(false);
	CurrentResourceOwner = owner;
	spill->nsegments++;
}

/* The segment with this byte, and how many of so many bytes it holds from there on. */
static File
LocateBytes(const SpillFile *spill, uint64 byte, size_t left, off_t *offset, size_t *n)
{
	*offset = (off_t) (byte % SEGMENT_BYTES);
	*n = Min(Min(left, SPILL_CHUNK), SEGMENT_BYTES - byte % SEGMENT_BYTES);
	return spill->segments[byte / SEGMENT_BYTES];
}

void
SpillAppend(SpillFile *spill, const float *rows, size_t nrows)
{
	const char *from = (const char *) rows;
	size_t		left = nrows * spill->row_bytes;

	while (left > 0)
	{
		size_t		n;
		off_t		offset;
		File		file;

		if (spill->size == spill->nsegments * SEGMENT_BYTES)
			AddSegment(spill);
		file = LocateBytes(spill, spill->size, left, &offset, &n);
		if (FileWrite(file, unconstify(char *, from), n, offset, WAIT_EVENT_BUFFILE_WRITE) != (int) n)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write to file \"%s\": %m", FilePathName(file))));
		spill->size += n;
		from += n;
		left -= n;
		CheckJoinInterrupts();
	}
}

void
SpillRead(SpillFile *spill, uint64 first_row, float *rows, size_t nrows)
{
	char	   *to = (char *) rows;
	uint64		byte = first_row * spill->row_bytes;
	size_t		left = nrows * spill->row_bytes;

	if (byte + left > spill->size)
		elog(ERROR, "row " UINT64_FORMAT " is not in the temporary file", first_row);

	while (left > 0)
	{
		size_t		n;
		off_t		offset;
		File		file = LocateBytes(spill, byte, left, &offset, &n);

		if (FileRead(file, to, n, offset, WAIT_EVENT_BUFFILE_READ) != (int) n)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read vectors back from a temporary file")));
		byte += n;
		to += n;
		left -= n;
		CheckJoinInterrupts();
	}
}

void
SpillClose(SpillFile *spill)
{
	for (int i = 0; i < spill->nsegments; i++)
		FileClose(spill->segments[i]);
}
