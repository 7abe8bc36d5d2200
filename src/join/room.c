/*-------------------------------------------------------------------------
 *
 * room.c
 *	  How many rows an engine surely takes at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/engines.h"
#include "join/room.h"
#include "rows/vector.h"

/* Bytes of a row: as it came, packed twice, and the rest; of half of the memory. */
#define ROW_BYTES(floats, dimensions) ((uint64) ((floats) + 2 * (dimensions)) * sizeof(float) + 64)
#define ROWS_SHARE 2

/* Of a GPU's memory, where no limit is set; it takes seconds to fill so much. */
#define DEVICE_BYTES (UINT64_C(8) << 30)

uint64
JoinRoom(double row_pairs, FastedElement element, uint32 dimensions, bool *orders)
{
	JoinOptions options = OptionsFromSettings();
	const FastedEngine *engine = ChooseEngine(&options, row_pairs, dimensions);
	uint64		limit = options.memory_limit;

	*orders = engine == fasted_cpu_engine();
	if (!*orders)
		limit = options.device_memory_limit > 0 ? options.device_memory_limit : DEVICE_BYTES;
	return Min(limit / ROWS_SHARE / ROW_BYTES(RowFloats(element, dimensions), dimensions),
			   FASTED_MAX_ROWS);
}
