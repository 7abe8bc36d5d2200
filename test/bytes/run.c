/*-------------------------------------------------------------------------
 *
 * run.c
 *	  Runs libFuzzer in a process of the PostgreSQL server, but instead of the server.
 *
 * Each fuzzer is a shared library for LD_PRELOAD with the program postgres.  It replaces main, so
 * that no server and no database are needed, but the parsers call PostgreSQL's own functions.
 * System catalogs cannot be read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "bytes.h"
#include "fasted_citus.h"
#include "utils/memutils.h"

typedef int (*MainFunction) (int argc, char **argv, char **environment);

extern int	__libc_start_main(MainFunction main_function, int argc, char **argv, void (*init) (void),
							  void (*fini) (void), void (*rtld_fini) (void), void *stack_end);
extern int	LLVMFuzzerRunDriver(int *argc, char ***argv, int (*test) (const uint8 *data, size_t size));

void
CheckJoinInterrupts(void)
{
}

const CoreFunctions *core = &(const CoreFunctions) {
	.CheckJoinInterrupts = CheckJoinInterrupts,.TakeSourceRow = TakeSourceRow,
	.VectorElements = VectorElements,.VectorShape = VectorShape,
	.fasted_add_stats = fasted_add_stats,.fasted_scale_direction = fasted_scale_direction
};

void
Fail(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	abort();
}

/* --- input and memory */

size_t
TakeBytes(Input *input, void *to, size_t count)
{
	count = Min(count, input->left);
	if (count > 0)
		memcpy(to, input->next, count);
	input->next += count;
	input->left -= count;
	return count;
}

unsigned
TakeByte(Input *input)
{
	uint8		byte = 0;

	TakeBytes(input, &byte, 1);
	return byte;
}

unsigned
TakeShort(Input *input)
{
	unsigned	low = TakeByte(input);

	return low | TakeByte(input) << 8;
}

/* The header of an exact allocation. */
typedef struct Block
{
	struct Block *next;
	uint64		padding;
} Block;

static Block *blocks;

void *
AllocExact(size_t bytes)
{
	Block	   *block = malloc(sizeof(Block) + bytes);

	block->next = blocks;
	blocks = block;
	return block + 1;
}

static void
FreeBlocks(void)
{
	while (blocks != NULL)
	{
		Block	   *next = blocks->next;

		free(blocks);
		blocks = next;
	}
}

/* --- the decoder of vectors */

static int32
Int32At(const uint8 *bytes)
{
	int32		number;

	memcpy(&number, bytes, sizeof(number));
	return number;
}

static int
DecodeBits(const uint8 *bytes, size_t length, double **elements)
{
	size_t		count = length < 4 ? 0 : (uint32) Int32At(bytes);

	if (count == 0 || count > FASTED_MAX_DIMENSIONS || length != 4 + (count + 7) / 8)
		return 0;
	*elements = AllocExact(count * sizeof(double));
	for (size_t k = 0; k < 8 * (length - 4); k++)
	{
		int			bit = bytes[4 + k / 8] >> (7 - k % 8) & 1;

		if (k < count)
			(*elements)[k] = bit;
		else if (bit != 0)
			return 0;
	}
	return (int) count;
}

/* Returns the offset of an array's elements in the bytes; 0 if it is wrong, or a bit is not set. */
static size_t
OffsetOfElements(const uint8 *bytes, size_t length, size_t count)
{
	size_t		bitmap = (count + 7) / 8;

	if (Int32At(bytes + 4) == 0)
		return 20;
	if (length < 20 + bitmap || Int32At(bytes + 4) != (int32) MAXALIGN(24 + bitmap))
		return 0;
	for (size_t k = 0; k < count; k++)
		if ((bytes[20 + k / 8] >> k % 8 & 1) == 0)
			return 0;
	return MAXALIGN(24 + bitmap) - 4;
}

int
DecodeVector(VectorForm form, const uint8 *bytes, size_t length, double **elements)
{
	size_t		width = form == VECTOR_FLOAT8 ? 8 : 4;
	size_t		count;
	size_t		offset;

	if (form == VECTOR_BIT)
		return DecodeBits(bytes, length, elements);
	if (length < 20 || Int32At(bytes) != 1 ||
		Int32At(bytes + 8) != (form == VECTOR_FLOAT8 ? FLOAT8OID : FLOAT4OID))
		return 0;
	count = (uint32) Int32At(bytes + 12);
	if (count == 0 || count > FASTED_MAX_DIMENSIONS)
		return 0;
	offset = OffsetOfElements(bytes, length, count);
	if (offset == 0 || length < offset + count * width)
		return 0;
	*elements = AllocExact(count * sizeof(double));
	for (size_t k = 0; k < count; k++)
	{
		float		single;

		memcpy(&single, bytes + offset + k * width, sizeof(single));
		(*elements)[k] = single;
		if (width == 8)
			memcpy(&(*elements)[k], bytes + offset + k * width, width);
		if (!isfinite((*elements)[k]))
			return 0;
	}
	return (int) count;
}

double
RowElement(const float *row, FastedElement element, int k)
{
	return element == FASTED_ELEMENT_BIT ? ((const uint8 *) row)[k / 8] >> (7 - k % 8) & 1 :
		element == FASTED_ELEMENT_DOUBLE ? ((const double *) row)[k] : row[k];
}

/* --- running */

/* Returns true if the SQLSTATE is one of those with which fasted may report corrupt bytes. */
static bool
IsExpected(int sqlstate)
{
	return ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_DATA_EXCEPTION ||
		sqlstate == ERRCODE_PROTOCOL_VIOLATION || sqlstate == ERRCODE_FEATURE_NOT_SUPPORTED ||
		sqlstate == ERRCODE_T_R_SERIALIZATION_FAILURE ||
		sqlstate == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE ||
		sqlstate == ERRCODE_NOT_NULL_VIOLATION || sqlstate == ERRCODE_PROGRAM_LIMIT_EXCEEDED;
}

static int
RunInput(const uint8 *data, size_t size)
{
	static MemoryContext context;
	Input		input = {.next = data,.left = size};
	volatile int sqlstate = 0;

	/* with such small blocks, each chunk of more than 128 bytes is allocated by malloc */
	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "input", 0, 1024, 1024);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		Decode(&input);
	}
	PG_CATCH();
	{
		sqlstate = geterrcode();
		if (!IsExpected(sqlstate))
		{
			MemoryContextSwitchTo(context);
			Fail("unexpected SQLSTATE %s: %s", unpack_sql_state(sqlstate), CopyErrorData()->message);
		}
		FlushErrorState();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	Verify(sqlstate);
	FreeBlocks();
	MemoryContextReset(context);
	return 0;
}

static int
RunFuzzer(int argc, char **argv, char **environment)
{
	/* not for programs that this one starts, such as a symbolizer */
	unsetenv("LD_PRELOAD");
	MemoryContextInit();
	return LLVMFuzzerRunDriver(&argc, &argv, RunInput);
}

__attribute__((visibility("default"))) int
__libc_start_main(MainFunction main_function, int argc, char **argv, void (*init) (void),
				  void (*fini) (void), void (*rtld_fini) (void), void *stack_end)
{
	return ((typeof(__libc_start_main) *) dlsym(RTLD_NEXT, "__libc_start_main"))
		(RunFuzzer, argc, argv, init, fini, rtld_fini, stack_end);
}
