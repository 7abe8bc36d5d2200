/*
 * brute_force.c
 *	  Compares the result of a join with a brute-force computation.
 *
 *	brute_force eps METRIC TABLE TYPE QUANTILE ULPS
 *	brute_force check METRIC TABLE TYPE EPS ORDERED SELF_PAIRS RESULT [FAULT]
 *	brute_force nearest METRIC TABLE TYPE K MOST END BEGIN SELF GROUPS RESULT [FAULT]
 *
 * METRIC is l2; cosine, for which a zero vector has no distance, even to itself; inner_product;
 * or hamming or jaccard, for bits.
 * TABLE is a file of the table's rows, written by SQL: lines "rank, key, vector" in the
 * text format of COPY, where rank is the position in key order.  TYPE is the element
 * type: real, double, int or bit; int is compared as real.  RESULT has lines "key, key,
 * distance", the distance as 16 hexadecimal digits of its bits.
 *
 * "eps" prints a distance between two rows, at a quantile of a sample, plus ULPS units
 * in the last place, so that distances tie with eps.
 *
 * "check" compares: RESULT must have each expected pair once, in the right order of keys
 * and with bit-identical distances, and no other pair.  It prints differences and exits
 * with status 1 if there are any.  FAULT damages the result first, to test the
 * comparison: drop, extra, bit, swap or twice.
 *
 * "nearest" compares nearest neighbours: at most K for each row, up to the distance MOST.
 * The first END rows of the table have neighbours among the rows from BEGIN on.  If SELF
 * is 1, no row is its own neighbour.  Neighbours have equal row numbers modulo
 * GROUPS (the number of partitions).  RESULT has lines "key, key, distance, rank".
 *
 * This file deliberately shares no code with the extension.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 32
#define SHOWN 5

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WITH_HARDWARE_FMA __attribute__((target_clones("fma", "default")))
#else
#define WITH_HARDWARE_FMA
#endif

typedef struct Row
{
	char	   *key;
	double	   *vector;
} Row;

static Row *rows;				/* by rank */
static long nrows;
static long dimensions;
static int	cosine;
static int	inner_product;
static int	hamming;
static int	jaccard;
static int	shown;

static void
die(const char *what)
{
	fprintf(stderr, "brute_force: %s\n", what);
	exit(2);
}

static void *
get(size_t size)
{
	void	   *p = calloc(size + 1, 1);

	if (p == NULL)
		die("out of memory");
	return p;
}

static double
butterfly(double *acc)
{
	for (int offset = 16; offset >= 1; offset /= 2)
	{
		double		before[LANES];

		memcpy(before, acc, sizeof(before));
		for (int l = 0; l < LANES; l++)
			acc[l] = before[l] + before[l ^ offset];
	}
	return acc[0];
}

/* The distances, computed literally by their definitions. */
WITH_HARDWARE_FMA static double
euclidean(const double *x, const double *y)
{
	double		acc[LANES] = {0};

	for (long k = 0; k < dimensions; k++)
	{
		double		diff = x[k] - y[k];

		acc[k % LANES] = fma(diff, diff, acc[k % LANES]);
	}
	return sqrt(butterfly(acc));
}

WITH_HARDWARE_FMA static double
product(const double *x, const double *y)
{
	double		acc[LANES] = {0};

	for (long k = 0; k < dimensions; k++)
		acc[k % LANES] = fma(x[k], y[k], acc[k % LANES]);
	return butterfly(acc);
}

/* Rows of zeros and ones: counts those numbers that are one in both, or in either. */
static double
of_bits(const double *x, const double *y)
{
	long		both = 0;
	long		either = 0;

	for (long k = 0; k < dimensions; k++)
	{
		both += x[k] == 1.0 && y[k] == 1.0;
		either += x[k] == 1.0 || y[k] == 1.0;
	}
	if (hamming)
		return (double) (either - both);
	return both == 0 ? 1.0 : (double) (either - both) / (double) either;
}

/* Returns NaN if the rows have no distance. */
static double
distance(const double *x, const double *y)
{
	double		similarity;

	if (hamming || jaccard)
		return of_bits(x, y);
	if (inner_product)
		return 0.0 - product(x, y);
	if (!cosine)
		return euclidean(x, y);
	similarity = product(x, y) / sqrt(product(x, x) * product(y, y));
	if (similarity > 1.0)
		similarity = 1.0;
	if (similarity < -1.0)
		similarity = -1.0;
	return 1.0 - similarity;
}

static void
parse_vector(char *text, char type, Row *row)
{
	long		n = 1;

	for (char *c = text; *c != '\0'; c++)
		n += *c == ',';
	if (type == 'b')
		n = strlen(text);
	if (dimensions == 0)
		dimensions = n;
	if (n != dimensions)
		die("dimensions differ");
	row->vector = get(n * sizeof(double));
	if (type == 'b')
	{
		for (long k = 0; k < n; k++)
			row->vector[k] = text[k] - '0';
		return;
	}
	text++;
	for (long k = 0; k < n; k++)
	{
		char	   *end;

		row->vector[k] = type == 'r' ? strtof(text, &end) : strtod(text, &end);
		if (type == 'i')
			row->vector[k] = (float) row->vector[k];
		if (end == text || !isfinite(row->vector[k]))
			die("not a finite number");
		text = end + 1;
	}
}

static FILE *
open_file(const char *name)
{
	FILE	   *file = fopen(name, "r");

	if (file == NULL)
	{
		perror(name);
		exit(2);
	}
	return file;
}

static char *
column(char **line)
{
	char	   *c = strsep(line, "\t\n");

	if (c == NULL)
		die("too few columns");
	return c;
}

static void
read_table(const char *name, const char *type)
{
	FILE	   *file = open_file(name);
	char	   *line = NULL;
	size_t		size = 0;
	long		room = 0;

	while (getline(&line, &size, file) > 0)
	{
		char	   *rest = line;
		long		rank = atol(column(&rest));

		if (rank != nrows + 1)
			die("rows are not in the order of their rank");
		if (nrows == room)
		{
			room = 2 * room + 64;
			rows = realloc(rows, room * sizeof(Row));
			if (rows == NULL)
				die("out of memory");
		}
		rows[nrows].key = strdup(column(&rest));
		parse_vector(column(&rest), type[0], &rows[nrows]);
		nrows++;
	}
	fclose(file);
	free(line);
}

static int
by_size(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

static int
print_eps(double quantile, int ulps)
{
	long		count = 0;
	double	   *sample = get(1000 * sizeof(double));
	double		eps;

	for (long i = 0; nrows > 1 && i < 1000; i++)
	{
		long		a = i * 7919 % nrows;
		long		b = (i * 104729 + i / nrows + 1) % nrows;

		if (a == b)
			continue;
		sample[count] = distance(rows[a].vector, rows[b].vector);
		count += !isnan(sample[count]);
	}
	qsort(sample, count, sizeof(double), by_size);
	eps = count > 0 ? sample[(long) (quantile * (count - 1))] : 1.0;
	for (; ulps > 0; ulps--)
		eps = nextafter(eps, INFINITY);
	for (; ulps < 0; ulps++)
		eps = nextafter(eps, inner_product ? -INFINITY : 0.0);
	printf("%.17g\n", eps);
	return 0;
}

/* --- the result */

typedef struct Hit
{
	const char *a;
	const char *b;
	uint64_t	bits;
	long		rank;			/* of a nearest neighbour; else 0 */
} Hit;

static Hit *hits;
static long nhits;

static void
read_result(const char *name, int ranked)
{
	FILE	   *file = open_file(name);
	char	   *line = NULL;
	size_t		size = 0;
	long		room = 0;

	while (getline(&line, &size, file) > 0)
	{
		char	   *rest = line;

		if (nhits + 1 >= room)
		{
			room = 2 * room + 1024;
			hits = realloc(hits, room * sizeof(Hit));
			if (hits == NULL)
				die("out of memory");
		}
		hits[nhits].a = strdup(column(&rest));
		hits[nhits].b = strdup(column(&rest));
		hits[nhits].bits = strtoull(column(&rest), NULL, 16);
		hits[nhits].rank = ranked ? atol(column(&rest)) : 0;
		nhits++;
	}
	fclose(file);
	free(line);
}

static void
damage(const char *fault)
{
	Hit		   *victim;
	Hit			hit;

	if (nhits == 0)
		die("no pair to damage");
	victim = &hits[nhits / 2];
	hit = *victim;
	if (strcmp(fault, "drop") == 0)
		*victim = hits[--nhits];
	else if (strcmp(fault, "bit") == 0)
		victim->bits ^= 1;
	else if (strcmp(fault, "swap") == 0)
		*victim = (Hit) {hit.b, hit.a, hit.bits, hit.rank};
	else if (strcmp(fault, "twice") == 0)
		hits[nhits ? nhits - 1 : 0] = hits[0];
	else if (strcmp(fault, "extra") == 0)
	{
		/* shrinks the array, which has capacity for one more hit */
		hits = realloc(hits, (nhits + 1) * sizeof(Hit));
		hits[nhits++] = (Hit) {rows[0].key, rows[0].key, 0, 1};
	}
	else
		die("unknown fault");
}

/* Row numbers, sorted by the bytes of their keys. */
static long *by_key;

static int
compare_keys(const void *a, const void *b)
{
	return strcmp(rows[*(const long *) a].key, rows[*(const long *) b].key);
}

static void
sort_keys(void)
{
	by_key = get(nrows * sizeof(long));
	for (long i = 0; i < nrows; i++)
		by_key[i] = i;
	qsort(by_key, nrows, sizeof(long), compare_keys);
}

static long
find_key(const char *key)
{
	long		low = 0;
	long		high = nrows - 1;

	while (low <= high)
	{
		long		middle = (low + high) / 2;
		int			order = strcmp(key, rows[by_key[middle]].key);

		if (order == 0)
			return by_key[middle];
		if (order < 0)
			high = middle - 1;
		else
			low = middle + 1;
	}
	return -1;
}

static void
differs(const char *what, const char *a, const char *b, double dist)
{
	if (shown++ < SHOWN)
		printf("    %s: %.40s, %.40s, %.17g\n", what, a, b, dist);
}

static double
from_bits(uint64_t bits)
{
	double		x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static uint64_t
to_bits(double x)
{
	uint64_t	bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static int
is_due(long a, long b, double dist, double eps, int ordered, int self_pairs)
{
	return dist <= eps && (a == b ? self_pairs : ordered || a < b);
}

static int
check(double eps, int ordered, int self_pairs)
{
	unsigned char *seen = get((size_t) nrows * nrows);

	sort_keys();
	for (long h = 0; h < nhits; h++)
	{
		const Hit  *hit = &hits[h];
		long		a = find_key(hit->a);
		long		b = find_key(hit->b);
		double		dist = from_bits(hit->bits);

		if (a < 0 || b < 0)
			differs("no such key", hit->a, hit->b, dist);
		else if (seen[a * nrows + b]++)
			differs("twice", hit->a, hit->b, dist);
		else
		{
			double		due = distance(rows[a].vector, rows[b].vector);

			if (!is_due(a, b, due, eps, ordered, self_pairs))
				differs("not due", hit->a, hit->b, due);
			else if (to_bits(due) != hit->bits)
				differs("wrong distance", hit->a, hit->b, dist);
		}
	}
	for (long a = 0; a < nrows; a++)
		for (long b = ordered ? 0 : a; b < nrows; b++)
		{
			double		due;

			if (seen[a * nrows + b])
				continue;
			due = distance(rows[a].vector, rows[b].vector);
			if (is_due(a, b, due, eps, ordered, self_pairs))
				differs("missing", rows[a].key, rows[b].key, due);
		}
	printf("%ld rows, %ld pairs, %d differences\n", nrows, nhits, shown);
	return shown > 0;
}

/* --- nearest neighbours */

typedef struct Neighbor
{
	long		row;
	double		dist;
} Neighbor;

static int
nearer(const void *a, const void *b)
{
	const Neighbor *x = a;
	const Neighbor *y = b;

	if (x->dist != y->dist)
		return x->dist < y->dist ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static long
nearest_of(long a, long k, double most, long begin, int self, long partitions, Neighbor *list)
{
	long		n = 0;

	for (long b = begin; b < nrows; b++)
	{
		if ((self && a == b) || a % partitions != b % partitions)
			continue;
		list[n] = (Neighbor) {b, distance(rows[a].vector, rows[b].vector)};
		n += list[n].dist <= most;
	}
	qsort(list, n, sizeof(Neighbor), nearer);
	return n < k ? n : k;
}

/* Compares by row, then by rank. */
static int
compare_hits(const void *a, const void *b)
{
	const Hit  *x = a;
	const Hit  *y = b;
	int			order = strcmp(x->a, y->a);

	return order != 0 ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

/* Compares the expected neighbours of row a with those found. */
static void
check_list(long a, const Neighbor *due, long ndue, const Hit *found, long nfound)
{
	for (long i = 0; i < ndue || i < nfound; i++)
	{
		if (i >= nfound)
			differs("missing", rows[a].key, rows[due[i].row].key, due[i].dist);
		else if (i >= ndue || strcmp(found[i].b, rows[due[i].row].key) != 0)
			differs("not due", found[i].a, found[i].b, from_bits(found[i].bits));
		else if (found[i].bits != to_bits(due[i].dist))
			differs("wrong distance", found[i].a, found[i].b, from_bits(found[i].bits));
		else if (found[i].rank != i + 1)
			differs("wrong rank", found[i].a, found[i].b, (double) found[i].rank);
	}
}

static int
check_nearest(long k, double most, long end, long begin, int self, long partitions)
{
	Neighbor   *due = get(nrows * sizeof(Neighbor));
	long	   *place = get(nrows * sizeof(long));
	long	   *length = get(nrows * sizeof(long));

	/* rows without a vector are not in the table */
	if (end > nrows)
		end = nrows;
	sort_keys();
	qsort(hits, nhits, sizeof(Hit), compare_hits);
	for (long h = 0; h < nhits; h++)
	{
		long		a = find_key(hits[h].a);

		if (a < 0 || a >= end)
			differs("no such key", hits[h].a, hits[h].b, from_bits(hits[h].bits));
		else if (length[a]++ == 0)
			place[a] = h;
	}
	for (long a = 0; a < end; a++)
	{
		long		n = nearest_of(a, k, most, begin, self, partitions, due);

		check_list(a, due, n, hits + place[a], length[a]);
	}
	printf("%ld rows, %ld neighbours, %d differences\n", nrows, nhits, shown);
	return shown > 0;
}

int
main(int argc, char **argv)
{
	cosine = argc > 2 && strcmp(argv[2], "cosine") == 0;
	inner_product = argc > 2 && strcmp(argv[2], "inner_product") == 0;
	hamming = argc > 2 && strcmp(argv[2], "hamming") == 0;
	jaccard = argc > 2 && strcmp(argv[2], "jaccard") == 0;
	if (argc == 7 && strcmp(argv[1], "eps") == 0)
	{
		read_table(argv[3], argv[4]);
		return print_eps(atof(argv[5]), atoi(argv[6]));
	}
	if ((argc == 9 || argc == 10) && strcmp(argv[1], "check") == 0)
	{
		read_table(argv[3], argv[4]);
		read_result(argv[8], 0);
		if (argc == 10)
			damage(argv[9]);
		return check(strtod(argv[5], NULL), atoi(argv[6]), atoi(argv[7]));
	}
	if ((argc == 12 || argc == 13) && strcmp(argv[1], "nearest") == 0)
	{
		read_table(argv[3], argv[4]);
		read_result(argv[11], 1);
		if (argc == 13)
			damage(argv[12]);
		return check_nearest(atol(argv[5]), strtod(argv[6], NULL), atol(argv[7]), atol(argv[8]),
							 atoi(argv[9]), atol(argv[10]));
	}
	fprintf(stderr, "usage: see the head of brute_force.c\n");
	return 2;
}
