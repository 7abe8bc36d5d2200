/*-------------------------------------------------------------------------
 *
 * sgemm.c
 *	  Time OpenBLAS's sgemm for X X^T, where X has n x d normal random numbers.
 *
 *	  sgemm n d threads repeats
 *
 * The program prints OpenBLAS's core type.  Then it prints two times in seconds
 * for each repetition.  "Full" is one call that computes the whole n x n
 * product.  "Tiled" is a sequence of calls that compute 480 x 480 tiles into one
 * buffer, which stays in the cache.
 *
 *-------------------------------------------------------------------------
 */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TILE 480

extern void openblas_set_num_threads(int threads);
extern char *openblas_get_corename(void);

/* Reads the monotonic clock, in seconds. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Returns a random number of the standard normal distribution. */
static float
normal(void)
{
	double		u = drand48();

	return (float) (sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * drand48()));
}

/* Computes the product in one call into c (n x n floats); returns the seconds. */
static double
full(const float *x, float *c, int n, int d)
{
	double		begin = now();

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, d, 1, x, d, x, d, 0, c, n);
	return now() - begin;
}

/* Computes the product in tiles, all into the beginning of c; returns the seconds. */
static double
tiled(const float *x, float *c, int n, int d)
{
	double		begin = now();

	for (int i = 0; i < n; i += TILE)
		for (int j = 0; j < n; j += TILE)
			cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans,
						n - i < TILE ? n - i : TILE, n - j < TILE ? n - j : TILE, d,
						1, x + (size_t) i * d, d, x + (size_t) j * d, d, 0, c, TILE);
	return now() - begin;
}

int
main(int argc, char **argv)
{
	int			n = argc > 1 ? atoi(argv[1]) : 20000;
	int			d = argc > 2 ? atoi(argv[2]) : 128;
	int			repeats = argc > 4 ? atoi(argv[4]) : 5;
	float	   *x = malloc((size_t) n * d * sizeof(float));
	float	   *c = malloc((size_t) n * n * sizeof(float));

	if (x == NULL || c == NULL)
		return 1;
	openblas_set_num_threads(argc > 3 ? atoi(argv[3]) : 2);
	for (size_t i = 0; i < (size_t) n * d; i++)
		x[i] = normal();

	printf("%s\n", openblas_get_corename());
	full(x, c, n, d);			/* touches every page of c */
	for (int r = 0; r < repeats; r++)
		printf("%.6f %.6f\n", full(x, c, n, d), tiled(x, c, n, d));
	return 0;
}
