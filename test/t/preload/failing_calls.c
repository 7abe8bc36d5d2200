/*-------------------------------------------------------------------------
 *
 * failing_calls.c
 *	  Preloaded into a server: counts allocations and system calls, and makes one of them fail.
 *
 * A call is counted in any process of the server while faults are armed, if
 *
 *	- a function of the extension is on its stack, in a session or in a thread of the engine, or
 *	- it belongs to a parallel worker,
 *
 * but not in a critical section, in which PostgreSQL turns every error into a PANIC.  Functions
 * that release something (free, munmap, close, unlink) never fail.  The allocations that the
 * extension makes without PostgreSQL are counted separately, in each process, to find leaks.
 *
 * The SQL functions are declared in 081_faults.pl.  They use no function of the
 * server, because the library is also loaded by the programs that start the server.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include "fmgr.h"

PG_MODULE_MAGIC;

/* The server's variables; absent in other programs. */
extern PGDLLIMPORT volatile uint32 CritSectionCount __attribute__((weak));
extern PGDLLIMPORT int ParallelWorkerNumber __attribute__((weak));
extern PGDLLIMPORT bool InitializingParallelWorker __attribute__((weak));

/* The C library's own functions. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

#define REAL(name) \
	({ \
		static __typeof__(&name) function; \
		if (function == NULL) \
			function = (__typeof__(&name)) dlsym(RTLD_NEXT, #name); \
		function; \
	})

typedef enum FaultMode
{
	FAULT_ONCE,					/* only one call fails */
	FAULT_FROM					/* that call and all following ones of the extension fail */
} FaultMode;

/* Shared by all processes of the server. */
typedef struct Faults
{
	int			armed;
	int			trace;			/* print the stack of each failing call to the log */
	FaultMode	mode;
	int64		at;				/* number of the call that fails, from 1 on; 0: none */
	int64		calls;			/* since fault_arm */
	int64		failed;			/* of these, how many failed */
} Faults;

static Faults *faults;

/* --- where a call comes from */

typedef struct Module
{
	uintptr_t	begin;
	uintptr_t	end;
} Module;

static Module extension;

static __thread __attribute__((tls_model("initial-exec"))) bool inside;

static void replace_allocations(uintptr_t base, const ElfW(Dyn) *dynamic);

static int
find_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *name = strrchr(info->dlpi_name, '/');
	Module		module = {UINTPTR_MAX, 0};
	const ElfW(Dyn) *dynamic = NULL;

	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		uintptr_t	begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *) begin;
		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		module.begin = Min(module.begin, begin);
		module.end = Max(module.end, begin + info->dlpi_phdr[i].p_memsz);
	}
	if (name != NULL && strcmp(name, "/fasted.so") == 0)
	{
		if (extension.end == 0 && dynamic != NULL)
			replace_allocations(info->dlpi_addr, dynamic);
		extension = module;
	}
	return 0;
}

static bool
is_in(const Module *module, uintptr_t address)
{
	return address >= module->begin && address < module->end;
}

static _Unwind_Reason_Code
look_at_frame(struct _Unwind_Context *context, void *found)
{
	uintptr_t	address = _Unwind_GetIP(context);

	*(bool *) found = is_in(&extension, address);
	return *(bool *) found ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

/* Returns true if the call is to be counted; caller is its return address. */
static bool
is_counted(const void *caller)
{
	bool		found = false;

	if (&CritSectionCount == NULL || CritSectionCount > 0)
		return false;
	if (extension.end == 0)
		(void) dl_iterate_phdr(find_module, NULL);
	if (faults->mode == FAULT_ONCE && ParallelWorkerNumber >= 0)
		return true;
	if (extension.end == 0)
		return false;
	if (is_in(&extension, (uintptr_t) caller))
		return true;
	(void) _Unwind_Backtrace(look_at_frame, &found);
	return found;
}

static void
print_stack(void)
{
	void	   *frames[60];

	backtrace_symbols_fd(frames, backtrace(frames, lengthof(frames)), STDERR_FILENO);
}

/* Counts a call with this return address.  Returns whether it must fail, and sets errno then. */
static bool
is_due(const void *caller, int error)
{
	int			before = errno;
	bool		due = false;

	if (faults == NULL || !faults->armed || inside)
		return false;
	inside = true;
	if (is_counted(caller))
	{
		int64		call = __atomic_add_fetch(&faults->calls, 1, __ATOMIC_SEQ_CST);

		due = faults->at > 0 && (call == faults->at || (faults->mode == FAULT_FROM && call > faults->at));
	}
	if (due)
	{
		(void) __atomic_add_fetch(&faults->failed, 1, __ATOMIC_SEQ_CST);
		if (faults->trace)
			print_stack();
	}
	inside = false;
	errno = due ? error : before;
	return due;
}

#define CALLER __builtin_return_address(0)

#define FAILS(error) is_due(CALLER, error)

/* A worker that copies the leader's settings reports invalid settings if it has no memory. */
#define NO_MEMORY \
	((&InitializingParallelWorker == NULL || !InitializingParallelWorker) && FAILS(ENOMEM))

/* PostgreSQL closes other files and tries again if there are too many. */
#define OPEN_ERROR (faults != NULL && faults->at % 2 == 0 ? EMFILE : EIO)

/*
 * --- the extension's calls of the server's functions that allocate memory
 *
 * Few of these calls need more memory from the C library.  A symbol of the server cannot be replaced
 * by a preloaded library, so the addresses in the extension's procedure linkage table are replaced.
 * All arguments of these functions are in integer registers.
 */

#define ALLOCATING_FUNCTIONS \
	X(palloc) X(palloc0) X(repalloc_huge) X(pstrdup) X(MemoryContextAlloc) \
	X(MemoryContextAllocExtended) X(MemoryContextAllocHuge) X(MemoryContextAllocZero) \
	X(MemoryContextAllocZeroAligned) X(MemoryContextStrdup) X(AllocSetContextCreateInternal) \
	X(initStringInfo) X(lappend) X(lappend_int) X(lappend_oid) X(list_make1_impl) X(list_copy) \
	X(bms_add_member) X(bms_add_members)

typedef uintptr_t (*Function) (uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f);

static __thread bool no_memory; /* the next malloc of this thread fails */

/* Raises the server's own error. */
static void
raise_no_memory(void)
{
	Function	allocate = (Function) dlsym(RTLD_DEFAULT, "MemoryContextAllocHuge");
	uintptr_t  *context = dlsym(RTLD_DEFAULT, "CurrentMemoryContext");

	no_memory = true;
	(void) allocate(*context, 1 << 26, 0, 0, 0, 0);
}

#define X(name) \
	static Function real_##name; \
	static uintptr_t \
	failing_##name(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f) \
	{ \
		if (FAILS(ENOMEM)) \
			raise_no_memory(); \
		return real_##name(a, b, c, d, e, f); \
	}
ALLOCATING_FUNCTIONS
#undef X

static const struct
{
	const char *name;
	Function	failing;
	Function   *real;
}			allocating[] = {
#define X(name) {#name, failing_##name, &real_##name},
	ALLOCATING_FUNCTIONS
#undef X
};

/* Replaces the address of a function with this name. */
static void
replace_address(const char *name, Function *place)
{
	size_t		page = sysconf(_SC_PAGESIZE);
	void	   *begin = (void *) ((uintptr_t) place / page * page);

	for (size_t i = 0; i < lengthof(allocating); i++)
		if (strcmp(allocating[i].name, name) == 0)
		{
			*allocating[i].real = (Function) dlsym(RTLD_DEFAULT, name);
			if (mprotect(begin, page, PROT_READ | PROT_WRITE) == 0)
				*place = allocating[i].failing;
		}
}

static void
replace_allocations(uintptr_t base, const ElfW(Dyn) *dynamic)
{
	const ElfW(Rela) *entries = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	size_t		bytes = 0;

	for (; dynamic->d_tag != DT_NULL; dynamic++)
	{
		if (dynamic->d_tag == DT_JMPREL)
			entries = (const ElfW(Rela) *) dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_PLTRELSZ)
			bytes = dynamic->d_un.d_val;
		else if (dynamic->d_tag == DT_SYMTAB)
			symbols = (const ElfW(Sym) *) dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_STRTAB)
			names = (const char *) dynamic->d_un.d_ptr;
	}
	for (size_t i = 0; i < bytes / sizeof(*entries); i++)
		replace_address(names + symbols[ELF64_R_SYM(entries[i].r_info)].st_name,
						(Function *) (base + entries[i].r_offset));
}

/* --- the extension's own allocations in this process */

#define MOST_BLOCKS (1 << 16)	/* a power of two */

/* A hash table of the blocks on the heap, with linear probing.  free is also called by pfree. */
static void *blocks[MOST_BLOCKS];
static int64 nblocks;
static int64 mapped;			/* bytes of mappings */
static char lock;

static size_t
place_of(const void *block)
{
	return ((uintptr_t) block >> 4) * 0x9E3779B97F4A7C15 >> 32 & (MOST_BLOCKS - 1);
}

static size_t
find_block(const void *block)
{
	size_t		i = place_of(block);

	while (blocks[i] != NULL && blocks[i] != block)
		i = (i + 1) % MOST_BLOCKS;
	return i;
}

/* Stores a block that the extension has allocated. */
static void
add_block(void *block, const void *caller)
{
	if (block == NULL || !is_in(&extension, (uintptr_t) caller) || nblocks == MOST_BLOCKS / 2)
		return;
	while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
		 /* spin */ ;
	blocks[find_block(block)] = block;
	nblocks++;
	__atomic_clear(&lock, __ATOMIC_RELEASE);
}

/* Removes a block that is freed, if it is stored. */
static void
remove_block(void *block)
{
	size_t		i;

	if (block == NULL || nblocks == 0)
		return;
	while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
		 /* spin */ ;
	i = find_block(block);
	nblocks -= blocks[i] != NULL;
	/* move up those that would not be found any more */
	for (size_t next = (i + 1) % MOST_BLOCKS; blocks[i] != NULL && blocks[next] != NULL;
		 next = (next + 1) % MOST_BLOCKS)
		if ((next - place_of(blocks[next])) % MOST_BLOCKS >= (next - i) % MOST_BLOCKS)
		{
			blocks[i] = blocks[next];
			i = next;
		}
	blocks[i] = NULL;
	__atomic_clear(&lock, __ATOMIC_RELEASE);
}

static void
count_mapped(int64 change, const void *caller)
{
	if (is_in(&extension, (uintptr_t) caller))
		(void) __atomic_add_fetch(&mapped, change, __ATOMIC_SEQ_CST);
}

/* --- wrappers: memory */

void *
malloc(size_t size)
{
	void	   *memory;

	if (no_memory)
	{
		no_memory = false;
		errno = ENOMEM;
		return NULL;
	}
	memory = NO_MEMORY ? NULL : __libc_malloc(size);

	add_block(memory, CALLER);
	return memory;
}

void *
calloc(size_t count, size_t size)
{
	void	   *memory = NO_MEMORY ? NULL : __libc_calloc(count, size);

	add_block(memory, CALLER);
	return memory;
}

void *
realloc(void *memory, size_t size)
{
	void	   *result;

	if (NO_MEMORY)
		return NULL;
	remove_block(memory);
	result = __libc_realloc(memory, size);
	add_block(result != NULL ? result : memory, CALLER);
	return result;
}

int
posix_memalign(void **memory, size_t alignment, size_t size)
{
	if (NO_MEMORY || (*memory = __libc_memalign(alignment, size)) == NULL)
		return ENOMEM;
	add_block(*memory, CALLER);
	return 0;
}

void
free(void *memory)
{
	remove_block(memory);
	__libc_free(memory);
}

void *
mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	void	   *memory = FAILS(ENOMEM) ? MAP_FAILED : REAL(mmap) (address, size, protection, flags, fd, offset);

	if (memory != MAP_FAILED)
		count_mapped(size, CALLER);
	return memory;
}

void *
mremap(void *address, size_t size, size_t new_size, int flags, ...)
{
	void	   *memory = FAILS(ENOMEM) ? MAP_FAILED : REAL(mremap) (address, size, new_size, flags);

	if (memory != MAP_FAILED)
		count_mapped((int64) new_size - (int64) size, CALLER);
	return memory;
}

int
munmap(void *address, size_t size)
{
	count_mapped(-(int64) size, CALLER);
	return REAL(munmap) (address, size);
}

/* --- wrappers: threads and the machine */

int
pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*work) (void *), void *argument)
{
	return FAILS(EAGAIN) ? EAGAIN : REAL(pthread_create) (thread, attr, work, argument);
}

int
pthread_attr_init(pthread_attr_t *attr)
{
	return FAILS(ENOMEM) ? ENOMEM : REAL(pthread_attr_init) (attr);
}

int
sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	return FAILS(EINVAL) ? -1 : REAL(sched_getaffinity) (pid, size, set);
}

long
sysconf(int name)
{
	return FAILS(EINVAL) ? -1 : REAL(sysconf) (name);
}

/* --- wrappers: files and shared memory */

int
open(const char *path, int flags, ...)
{
	mode_t		mode = 0;
	va_list		args;

	va_start(args, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(args, mode_t);
	va_end(args);
	return FAILS(OPEN_ERROR) ? -1 : REAL(open) (path, flags, mode);
}

FILE *
fopen(const char *path, const char *mode)
{
	return FAILS(EMFILE) ? NULL : REAL(fopen) (path, mode);
}

int
mkdir(const char *path, mode_t mode)
{
	return FAILS(ENOSPC) ? -1 : REAL(mkdir) (path, mode);
}

int
shm_open(const char *name, int flags, mode_t mode)
{
	return FAILS(EMFILE) ? -1 : REAL(shm_open) (name, flags, mode);
}

int
ftruncate(int fd, off_t size)
{
	return FAILS(ENOSPC) ? -1 : REAL(ftruncate) (fd, size);
}

int
posix_fallocate(int fd, off_t offset, off_t size)
{
	return FAILS(ENOSPC) ? ENOSPC : REAL(posix_fallocate) (fd, offset, size);
}

off_t
lseek(int fd, off_t offset, int whence)
{
	return FAILS(EIO) ? -1 : REAL(lseek) (fd, offset, whence);
}

ssize_t
pread(int fd, void *bytes, size_t size, off_t offset)
{
	return FAILS(EIO) ? -1 : REAL(pread) (fd, bytes, size, offset);
}

ssize_t
preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
	return FAILS(EIO) ? -1 : REAL(preadv) (fd, parts, count, offset);
}

ssize_t
pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	return FAILS(ENOSPC) ? -1 : REAL(pwrite) (fd, bytes, size, offset);
}

ssize_t
pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
	return FAILS(ENOSPC) ? -1 : REAL(pwritev) (fd, parts, count, offset);
}

/* --- SQL functions */

static void __attribute__((constructor))
share_faults(void)
{
	void	   *frame;
	void	   *memory = REAL(mmap) (NULL, sizeof(Faults), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory != MAP_FAILED)
		faults = memory;
	/* loads what it needs */
	(void) backtrace(&frame, 1);
}

PG_FUNCTION_INFO_V1(fault_arm);
PG_FUNCTION_INFO_V1(fault_disarm);
PG_FUNCTION_INFO_V1(fault_failed);
PG_FUNCTION_INFO_V1(fault_blocks);
PG_FUNCTION_INFO_V1(fault_mapped);

/* fault_arm(at bigint, from_there_on boolean, trace boolean): makes that call fail; 0: only counts. */
Datum
fault_arm(PG_FUNCTION_ARGS)
{
	(void) dl_iterate_phdr(find_module, NULL);
	faults->at = PG_GETARG_INT64(0);
	faults->mode = PG_GETARG_BOOL(1) ? FAULT_FROM : FAULT_ONCE;
	faults->trace = PG_GETARG_BOOL(2);
	faults->calls = faults->failed = 0;
	__atomic_store_n(&faults->armed, 1, __ATOMIC_SEQ_CST);
	PG_RETURN_VOID();
}

/* Ends the failures.  Returns the number of calls that have been counted. */
Datum
fault_disarm(PG_FUNCTION_ARGS)
{
	__atomic_store_n(&faults->armed, 0, __ATOMIC_SEQ_CST);
	PG_RETURN_INT64(faults->calls);
}

/* Returns the number of calls that have failed since fault_arm. */
Datum
fault_failed(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(faults->failed);
}

/* Returns the number of blocks of this process that the extension has allocated and not freed. */
Datum
fault_blocks(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(__atomic_load_n(&nblocks, __ATOMIC_SEQ_CST));
}

/* Returns the number of bytes that the extension has mapped in this process. */
Datum
fault_mapped(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(__atomic_load_n(&mapped, __ATOMIC_SEQ_CST));
}
