/*-------------------------------------------------------------------------
 *
 * cpu_join.h
 *	  One join of the CPU engine, and who does what in it.
 *
 *	  cpu_engine.c	the engine's interface: rows in, pairs out, panels
 *	  release.c		memory goes back, beside other work
 *	  cpu_setup.c	what a join will hold: threads, blocks, memory
 *	  processors.c	how many threads there should be
 *	  cpu_workers.c	threads and the phases of a round
 *	  cpu_pack.c	centre, scale; packed rows and thresholds in FP32
 *	  cpu_int8.c	the same in INT8
 *	  cpu_choice.c	which of the two
 *	  cpu_unit.c	units of work, filter and recheck
 *
 * A round joins the rows of two slots, or of one with itself.  Rows that fit
 * into memory need one round, with one slot.  Otherwise the rows are cut into
 * panels 0 .. T-1 and there is a round for each pair of panels.  The slots
 * begin with panel 0 in A.  Then, for i = 0, 1, ...:
 *
 *	  (i, i), then (i, j) with panel j in B, for j = T-1 down to i+1;
 *	  B now holds panel i+1: the slots change places.
 *
 * So each round but (0, 0) and (i, i) reads one panel, and no panel is read
 * when it is there already.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_JOIN_H
#define FASTED_CPU_JOIN_H

#include <pthread.h>
#include <stdatomic.h>

#include "../engine/engine.h"
#include "../engine/tile_order.h"
#include "cpu_kernel.h"
#include "pair_pool.h"
#include "row_store.h"

/* Rows looked at to find the centre and the scale. */
#define SAMPLE_ROWS 64

/*
 * How long workers go on after the caller's last call: after pause, which is long
 * enough for callers that come in quick turns, such as the loops of PL/pgSQL; and
 * without it, where nobody told us that pairs are not wanted for now.
 */
#define PAUSE_MS 25
#define CALLER_AWAY_MS 1000

/* One side of a tile: packed rows, and a threshold each; no row reaches padding's. */
typedef struct Operand
{
	void	   *packed;
	void	   *threshold;
} Operand;

/* A set of rows, resident, as they came and packed. */
typedef struct Slot
{
	RowStore	rows;
	PackLayout	layout;
	void	   *packed;
	size_t		packed_bytes;
	void	   *threshold;
	size_t		threshold_bytes;
	Operand		as_a;			/* rows of tiles; in FP32 the same as columns */
	Operand		as_b;			/* columns of tiles */
	uint64_t	first_row;		/* number of the slot's first row in the set */
} Slot;

/*
 * Work in hand: one block of a slot against neighbouring blocks of a slot.  Rows
 * are numbers within the slots.
 */
typedef struct Strip
{
	size_t		first_a;
	uint32_t	rows_a;
	size_t		first_b;		/* of the first block */
	uint32_t	blocks;
	bool		diagonal;		/* the first block is block A itself */
} Strip;

/* What the threads of a join do, one after the other. */
typedef enum Phase
{
	PHASE_IDLE,					/* until the caller begins a round */
	PHASE_CENTRE,				/* the centre of slot A, by coordinates */
	PHASE_CHOOSE,				/* INT8 or FP32; one thread */
	PHASE_PACK,					/* a slot's packed rows, by slivers */
	PHASE_JOIN					/* units of work */
} Phase;

/* A pair of rows of the strip at work: distances from its first ones. */
typedef struct Candidate
{
	uint16_t	row;
	uint16_t	col;
} Candidate;

#define CANDIDATE_LIST 1024

typedef struct Worker
{
	struct FastedJoin *join;
	pthread_t	thread;

	void	   *partial;		/* unfinished sums of a block pair */
	uint8_t    *hits;			/* hit_stride bytes for each row of a block */
	double	   *wide;			/* one row in FP64 */
	float	   *image;			/* INT8: room for two rows, padded; or NULL */
	float		sample[SAMPLE_ROWS];	/* values of one coordinate */
	Candidate	list[CANDIDATE_LIST];
	uint32_t	listed;

	PairBlock  *block;			/* being filled, or NULL */
	uint64_t	candidates;		/* of the strip at work */
	uint64_t	counted;		/* pairs of it, where they are not handed out */
} Worker;

struct FastedJoin
{
	FastedProblem problem;
	const CpuKernel *kernel;
	char		device[96];		/* the processor's name */
	char		error[256];
	bool		failed;

	/* Plan: cpu_setup.c. */
	MemoryCount memory;
	uint32_t	slice;			/* words of a slice, in FP32 */
	int			thread_limit;
	size_t		block_pairs;
	uint64_t	row_limit;		/* rows that may be resident with one slot */
	size_t		chunk_bytes;
	uint32_t	block_rows;		/* rows of a block */
	size_t		hit_stride;		/* bytes of one row of a strip's hit map */

	/* Rows. */
	bool		started;
	bool		refused;		/* stage has answered FASTED_FULL */
	uint64_t	total_rows;
	uint64_t	panel_rows;
	uint64_t	npanels;
	uint64_t	panel_a;		/* the round at work or to come */
	uint64_t	panel_b;
	bool		wanted;			/* rows of a panel are being staged */
	Slot		slots[2];
	Slot	   *slot_a;
	Slot	   *slot_b;			/* slot_a, when that is joined with itself */
	Slot	   *filling;		/* where staged rows go; NULL: nowhere */

	/* Scale of the packed rows: the same for both slots of a round. */
	float	   *centre;
	double		scale;
	double		eps_upper;
	double		sample_peak[SAMPLE_ROWS];	/* largest centred coordinate */

	/* INT8, if it is tried at all. */
	bool		may_use_int8;
	Int8Transform transform;
	float	   *int8_centre;
	double		int8_eps_upper;
	atomic_bool int8;			/* the choice of a round of slot A with itself */
	atomic_bool filter_sampled;
	_Atomic uint64_t sampled_candidates;
	_Atomic uint64_t sampled_pairs;

	/* Threads.  The lock guards all of this and the pool. */
	Worker	   *workers;
	int			nworkers;
	int			nthreads;		/* of them started */
	pthread_mutex_t lock;
	pthread_cond_t work_cond;	/* a phase begins */
	pthread_cond_t free_cond;	/* a block was drained */
	pthread_cond_t out_cond;	/* a block is filled, or the round is over */
	pthread_cond_t rest_cond;	/* the caller is back */
	int			resting;		/* workers that wait for it */
	Phase		phase;
	uint64_t	phase_number;
	int			at_work;		/* workers that have not finished the phase */
	bool		round_over;
	bool		all_over;
	uint64_t	round_start;
	PairPool	pool;
	PairBlock  *handed_out;		/* the caller's until its next call */
	FastedOrder order;			/* of the round */

	/* Read and written without the lock. */
	atomic_bool stop;
	_Atomic uint64_t rest_at;	/* from then on workers rest; see cpu_now */
	_Atomic uint64_t next_claim;	/* of the phase */
	_Atomic uint64_t candidates;
	_Atomic uint64_t pairs;
	_Atomic uint64_t units_done;
	_Atomic uint64_t filter_ns;
	_Atomic uint64_t refine_ns;
	_Atomic uint64_t prepare_ns;
	uint64_t	units_total;
};

/* cpu_setup.c */
extern void cpu_plan_memory(FastedJoin *join);
extern FastedStatus cpu_plan_rounds(FastedJoin *join);
extern FastedStatus cpu_fail(FastedJoin *join, FastedStatus status,
							 const char *format,...)
			__attribute__((format(printf, 3, 4)));
extern bool cpu_slot_reserve(FastedJoin *join, Slot *slot, uint64_t rows);
extern void cpu_slot_lay_out(const FastedJoin *join, Slot *slot, bool int8);
extern void cpu_slot_free(FastedJoin *join, Slot *slot);

/* cpu_workers.c */
extern FastedStatus cpu_start_workers(FastedJoin *join);
extern void cpu_stop_workers(FastedJoin *join);
extern void cpu_begin_round(FastedJoin *join);
extern uint64_t cpu_now(void);
extern void cpu_rest_after(FastedJoin *join, uint64_t ms);
extern void cpu_rest(FastedJoin *join);

/* Dimensions of rows in INT8. */
static inline uint32_t
cpu_padded(const FastedJoin *join)
{
	return (join->problem.dimensions + 31) / 32 * 32;
}

/* Bytes of a worker's image: two rows, padded. */
static inline size_t
cpu_image_bytes(const FastedJoin *join)
{
	return 2 * cpu_padded(join) * sizeof(float);
}

static inline bool
cpu_stopping(const FastedJoin *join)
{
	return atomic_load_explicit(&join->stop, memory_order_relaxed);
}

/*
 * Between pieces of work of some milliseconds at most; now is cpu_now.  Waits
 * where the caller has not asked for pairs for a while.
 */
static inline void
cpu_rest_if_alone(FastedJoin *join, uint64_t now)
{
	if (now >= atomic_load_explicit(&join->rest_at, memory_order_relaxed))
		cpu_rest(join);
}

static inline uint64_t
cpu_claim(FastedJoin *join)
{
	return atomic_fetch_add_explicit(&join->next_claim, 1,
									 memory_order_relaxed);
}

/* cpu_pack.c */
extern uint32_t cpu_sample_count(const FastedJoin *join, uint32_t coordinates,
								 uint32_t least, uint32_t most);
extern const float *cpu_sample_row(const RowStore *rows, uint32_t s, uint32_t count);
extern void cpu_centre(Worker *worker);
extern void cpu_choose_scale(FastedJoin *join);
extern void cpu_pack(Worker *worker);

/* cpu_int8.c */
extern void cpu_int8_find_transform(Worker *worker);
extern void cpu_int8_pack(Worker *worker, const Slot *slot, size_t sliver,
						  const float *const *rows);

/* cpu_choice.c */
extern void cpu_choose_filter(Worker *worker);

/* cpu_unit.c */
extern void cpu_filter_strip(Worker *worker, const Slot *slot_a,
							 const Slot *slot_b, const Strip *strip);
extern void cpu_list_row(Worker *worker, const Strip *strip, uint32_t row,
						 uint32_t number);
extern void cpu_join_units(Worker *worker);

#endif							/* FASTED_CPU_JOIN_H */
