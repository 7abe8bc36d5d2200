/*-------------------------------------------------------------------------
 *
 * cpu_kd_order.c
 *	  The order of a set's rows: those near each other come together.
 *
 * Halves of halves, each time by the median of the coordinate that differs most, of
 * the leading ones and the residual.  Halves are whole tiles' columns as long as
 * they are larger than one, then whole tiles' rows.  The order is the same for the
 * same rows, however many threads there are.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "cpu_prune.h"

/* Coordinates that may divide rows, and rows that show which of them does it best. */
#define COORDINATES 10
#define SPREAD_ROWS 64

/* Rows between two looks whether to stop. */
#define LOOK_EVERY 16384

/* Halves that wait, one a level. */
#define STACK 64

typedef struct Key
{
	float		key;
	uint32_t	row;
} Key;

typedef struct Part
{
	size_t		first;
	size_t		count;
} Part;

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

static bool
goes_on(const KdOrder *kd)
{
	cpu_rest_if_alone(kd->worker->context, cpu_now());
	return !cpu_stopping(kd->worker->context);
}

static float
value(const KdOrder *kd, uint32_t row, uint32_t coordinate)
{
	return kd->projected[(size_t) row * kd->stride + coordinate];
}

/* The coordinate that differs most, of some rows of a part. */
static uint32_t
choose_coordinate(const KdOrder *kd, Part part)
{
	double		widest = -1.0;
	uint32_t	best = 0;
	size_t		rows = part.count < SPREAD_ROWS ? part.count : SPREAD_ROWS;

	for (uint32_t c = 0; c < kd->ncoordinates; c++)
	{
		double		sum = 0.0;
		double		squares = 0.0;
		double		spread;
		double		origin = value(kd, kd->order[part.first], kd->coordinates[c]);

		for (size_t i = 0; i < rows; i++)
		{
			double		x = value(kd, kd->order[part.first + i * part.count / rows],
								  kd->coordinates[c]) - origin;

			sum += x;
			squares += x * x;
		}
		spread = squares - sum * sum / rows;
		if (spread > widest)
		{
			widest = spread;
			best = kd->coordinates[c];
		}
	}
	return best;
}

static void
swap_keys(Key *x, Key *y)
{
	Key			z = *x;

	*x = *y;
	*y = z;
}

/*
 * Hoare's partition round the middle of three; where the right part begins.  Zero: it was
 * stopped.
 */
static size_t
partition(const KdOrder *kd, size_t low, size_t high)
{
	Key		   *keys = kd->keys;
	float		a = keys[low].key;
	float		b = keys[low + (high - low) / 2].key;
	float		c = keys[high].key;
	float		pivot = fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
	size_t		i = low;
	size_t		j = high;

	for (size_t swaps = 1;; swaps++)
	{
		if (swaps % LOOK_EVERY == 0 && !goes_on(kd))
			return 0;
		while (keys[i].key < pivot)
			i++;
		while (keys[j].key > pivot)
			j--;
		if (i >= j)
			return i == low ? low + 1 : i;
		swap_keys(&keys[i++], &keys[j--]);
	}
}

/* The first `middle` of the keys become those that are not above the others. */
static bool
select_keys(const KdOrder *kd, size_t count, size_t middle)
{
	size_t		low = 0;
	size_t		high = count - 1;

	while (low < high)
	{
		size_t		right;

		if (high - low > LOOK_EVERY && !goes_on(kd))
			return false;
		right = partition(kd, low, high);
		if (right == 0)
			return false;
		if (middle < right)
			high = right - 1;
		else
			low = right;
	}
	return true;
}

/* Divides a part; false: it was stopped. */
static bool
divide(const KdOrder *kd, Part part, size_t left)
{
	uint32_t	coordinate = choose_coordinate(kd, part);

	for (size_t i = 0; i < part.count; i++)
	{
		uint32_t	row = kd->order[part.first + i];

		if (i % LOOK_EVERY == 0 && !goes_on(kd))
			return false;
		kd->keys[i] = (Key) {.key = value(kd, row, coordinate),.row = row};
	}
	if (!select_keys(kd, part.count, left))
		return false;
	for (size_t i = 0; i < part.count; i++)
	{
		/* not in small parts, of which there are many */
		if ((i + 1) % LOOK_EVERY == 0 && !goes_on(kd))
			return false;
		kd->order[part.first + i] = kd->keys[i].row;
	}
	return true;
}

/* Rows of the left half, whole tiles' columns or rows; all: there is nothing to divide. */
static size_t
half_of(const CpuKernel *kernel, size_t count)
{
	size_t		step = count > kernel->tile_cols ? kernel->tile_cols : kernel->tile_rows;

	return count <= step ? count : (count / step + 1) / 2 * step;
}

/* All rows, those without a place last, and how many have one; false: it was stopped. */
static bool
set_others_apart(const KdOrder *kd, const Projection *projection, size_t rows, size_t *count)
{
	size_t		placed = 0;
	size_t		others = rows;

	for (size_t row = 0; row < rows; row++)
	{
		if (row % LOOK_EVERY == 0 && !goes_on(kd))
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
			 size_t rows, void *room, uint32_t *order)
{
	const CpuKernel *kernel = worker->context->kernel;
	KdOrder		kd = {
		.worker = worker,.projected = projected,.stride = projection->stride,.keys = room,
		.order = order
	};
	Part		stack[STACK];
	int			depth = 0;
	size_t		placed;

	while (kd.ncoordinates < COORDINATES - 1 && kd.ncoordinates < projection->directions)
	{
		kd.coordinates[kd.ncoordinates] = kd.ncoordinates;
		kd.ncoordinates++;
	}
	kd.coordinates[kd.ncoordinates++] = projected_residual(projection, 0);
	if (!set_others_apart(&kd, projection, rows, &placed))
		return false;
	stack[depth++] = (Part) {.count = placed};
	while (depth > 0)
	{
		Part		part = stack[--depth];
		size_t		left = half_of(kernel, part.count);

		if (left >= part.count)
			continue;
		if (!divide(&kd, part, left))
			return false;
		stack[depth++] = (Part) {.first = part.first,.count = left};
		stack[depth++] = (Part) {.first = part.first + left,.count = part.count - left};
	}
	return true;
}
