/*-------------------------------------------------------------------------
 *
 * outlet_scan.h
 *	  A scan node whose rows come in blocks, in parallel plans too.
 *
 * In a parallel plan the leader produces blocks and deals them to the workers, who do
 * what stands above the node: aggregate, join, check conditions.  Rows in blocks are
 * values, not row numbers, so that workers need no ids; that is why only ids that are
 * passed by value are dealt.
 *
 * Nobody may wait for a process that may wait for him: a worker may be stuck
 * before a full tuple queue or at a barrier of a hash join.  So the leader never
 * waits for workers: what nobody takes, it consumes itself.  And workers wait for
 * the leader only before it has begun, and while it is at its work.  When it has
 * been away for a while and left no block, they go: a worker that goes early
 * loses no row, for the leader stays to the end.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_OUTLET_SCAN_H
#define FASTED_OUTLET_SCAN_H

#include "access/parallel.h"
#include "base/block_ring.h"
#include "nodes/execnodes.h"
#include "scan/outlet_block.h"

typedef struct OutletScan OutletScan;

/* What a node begins with. */
struct OutletScan
{
	CustomScanState css;

	/* Fills the block with at least one row; false: there are none. */
	bool		(*produce) (OutletScan *scan, OutletBlock *block);
	/* Nobody asks for more rows here, or not for now. */
	void		(*pause) (OutletScan *scan);
	/* Where the only row is the number of all of them: counts them.  Else NULL. */
	uint64		(*count) (OutletScan *scan);
	bool		over;			/* produce has said so */

	/* The block at work; NULL: none. */
	OutletBlock *block;
	uint32		next_row;
	OutletBlock *own_block;		/* where there are no workers */

	/* In a parallel plan. */
	BlockRing *ring;			/* NULL: not in one */
	bool		dealer;			/* this process produces */
	int			ring_block;		/* the number of the block at work; -1: none */
};

/* With the node, whose functions are set; the scan tuple has the blocks' columns. */
extern void BeginOutletScan(OutletScan *scan);

/* There is no block at work, and rows may come. */
extern void RestartOutletScan(OutletScan *scan);

/* Methods of the node. */
extern TupleTableSlot *NextOutletRow(CustomScanState *node);
extern Size EstimateSharedOutlet(CustomScanState *node, ParallelContext *pcxt);
extern void InitializeSharedOutlet(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void ReinitializeSharedOutlet(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void InitializeSharedOutletInWorker(CustomScanState *node, shm_toc *toc, void *shared);
extern void LeaveSharedOutlet(CustomScanState *node);

#endif							/* FASTED_OUTLET_SCAN_H */
