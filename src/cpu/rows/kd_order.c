/*-------------------------------------------------------------------------
 *
 * kd_order.c
 *	  Order of rows in which near rows are adjacent, like the leaves of a k-d tree.
 *
 * Each part is halved near the median of the coordinate that varies most, among the leading ones and
 * the residual.  Halves are whole tile columns, and whole tile rows once a part is not larger than
 * one tile column.  The same rows always get the same order, for any number of threads.
 *
 *-------------------------------------------------------------------------
 */
#include "order.h"
#include "projection.h"

/* Number of coordinates that may divide a part, and of rows sampled to choose among them. */
#define COORDINATES 10
#define VARIANCE_ROWS 64

/* Rows between two checks for a pause or stop. */
#define CHECK_EVERY 16384

typedef struct Key
{
	float		key;
	uint32_t	row;
} Key;

typedef struct KdOrder
{
	Worker	   *worker;
	const float *projected;
	uint32_t	stride;
	uint32_t	coordinates[COORDINATES];
	uint32_t	ncoordinates;
	Key		   *keys;
	uint32_t   *order;
} KdOrder;

static float
value(const KdOrder *kd, uint32_t row, uint32_t coordinate)
{
	return kd->projected[(size_t) row * kd->stride + coordinate];
}

/* Returns the coordinate with the largest variance in a sample of a part's rows. */
static uint32_t
choose_coordinate(const KdOrder *kd, size_t first, size_t count)
{
	double		widest = -1.0;
	uint32_t	best = 0;
	size_t		rows = count < VARIANCE_ROWS ? count : VARIANCE_ROWS;

	for (uint32_t c = 0; c < kd->ncoordinates; c++)
	{
		double		sum = 0.0;
		double		squares = 0.0;
		double		variance;
		double		origin = value(kd, kd->order[first], kd->coordinates[c]);

		for (size_t i = 0; i < rows; i++)
		{
			double		x = value(kd, kd->order[first + i * count / rows], kd->coordinates[c]) - origin;

			sum += x;
			squares += x * x;
		}
		variance = squares - sum * sum / rows;
		if (variance > widest)
		{
			widest = variance;
			best = kd->coordinates[c];
		}
	}
	return best;
}

/*
 * Moves the `middle` smallest keys to the front: Hoare's selection algorithm, with the median of
 * three as pivot.  Returns false if the join is being closed.
 */
static bool
select_keys(const KdOrder *kd, int64_t count, int64_t middle)
{
	Key		   *keys = kd->keys;
	int64_t		low = 0;
	int64_t		high = count - 1;
	size_t		steps = 0;

	while (low < high)
	{
		float		a = keys[low].key;
		float		b = keys[low + (high - low) / 2].key;
		float		c = keys[high].key;
		float		pivot = fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
		int64_t		i = low;
		int64_t		j = high;

		while (i <= j)
		{
			Key			key = keys[i];

			if (key.key < pivot)
				i++;
			else if (keys[j].key > pivot)
				j--;
			else
			{
				keys[i++] = keys[j];
				keys[j--] = key;
			}
			if (++steps % CHECK_EVERY == 0 && !cpu_may_continue(kd->worker->context))
				return false;
		}
		if (j < middle)
			low = i;
		if (middle < i)
			high = j;
	}
	return true;
}

/* Divides a part, so that the first `left` rows form one half.  False if the join is being closed. */
static bool
divide(const KdOrder *kd, size_t first, size_t count, size_t left)
{
	uint32_t	coordinate = choose_coordinate(kd, first, count);

	for (size_t i = 0; i < count; i++)
	{
		uint32_t	row = kd->order[first + i];

		if (i % CHECK_EVERY == 0 && !cpu_may_continue(kd->worker->context))
			return false;
		kd->keys[i] = (Key) {.key = value(kd, row, coordinate),.row = row};
	}
	if (!select_keys(kd, (int64_t) count, (int64_t) left))
		return false;
	for (size_t i = 0; i < count; i++)
	{
		/* skip the check in small parts, of which there are many */
		if ((i + 1) % CHECK_EVERY == 0 && !cpu_may_continue(kd->worker->context))
			return false;
		kd->order[first + i] = kd->keys[i].row;
	}
	return true;
}

/*
 * Returns the rows of the left half, in whole tile columns or tile rows.  Returns `count` if the
 * part is not to be divided.
 */
static size_t
half_of(const CpuKernel *kernel, size_t count)
{
	size_t		step = count > kernel->tile_cols ? kernel->tile_cols : kernel->tile_rows;

	return count <= step ? count : (count / step + 1) / 2 * step;
}

/* Orders a part recursively.  Returns false if the join is being closed. */
static bool
order_part(const KdOrder *kd, size_t first, size_t count)
{
	size_t		left = half_of(kd->worker->context->kernel, count);

	return left >= count ||
		(divide(kd, first, count, left) && order_part(kd, first + left, count - left) &&
		 order_part(kd, first, left));
}

/*
 * Lists all rows, those without coordinates last, and counts the others.  Returns false if the
 * join is being closed.
 */
static bool
separate_unplaced(const KdOrder *kd, const Projection *projection, size_t rows, size_t *count)
{
	size_t		placed = 0;
	size_t		others = rows;

	for (size_t row = 0; row < rows; row++)
	{
		if (row % CHECK_EVERY == 0 && !cpu_may_continue(kd->worker->context))
			return false;
		if (isfinite(value(kd, (uint32_t) row, projected_moved(projection, 0))))
			kd->order[placed++] = (uint32_t) row;
		else
			kd->order[--others] = (uint32_t) row;
	}
	*count = placed;
	return true;
}

bool
cpu_kd_order(Worker *worker, const Projection *projection, const float *projected,
			 size_t rows, void *buffer, uint32_t *order)
{
	KdOrder		kd = {
		.worker = worker,.projected = projected,.stride = projection->stride,.keys = buffer,
		.order = order
	};
	size_t		placed;

	while (kd.ncoordinates < COORDINATES - 1 && kd.ncoordinates < projection->directions)
	{
		kd.coordinates[kd.ncoordinates] = kd.ncoordinates;
		kd.ncoordinates++;
	}
	kd.coordinates[kd.ncoordinates++] = projected_residual(projection, 0);
	return separate_unplaced(&kd, projection, rows, &placed) && order_part(&kd, 0, placed);
}
