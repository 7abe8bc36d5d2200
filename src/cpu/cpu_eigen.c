/*-------------------------------------------------------------------------
 *
 * cpu_eigen.c
 *	  Eigenvectors of a small symmetric matrix, by Jacobi's rotations.
 *
 * They choose directions, of which any will do: a few sweeps are enough.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "cpu_prune.h"

#define SWEEPS 4

/* Coordinates smaller than this part of the diagonal are left. */
#define SMALL 1e-4

/* Turns rows p and q of n numbers. */
static void
turn_rows(double *p, double *q, uint32_t n, double c, double s)
{
	for (uint32_t k = 0; k < n; k++)
	{
		double		x = p[k];
		double		y = q[k];

		p[k] = c * x - s * y;
		q[k] = s * x + c * y;
	}
}

/* One rotation that makes the coordinate (p, q) zero. */
static void
turn(double *matrix, double *vectors, uint32_t n, uint32_t p, uint32_t q)
{
	double		off = matrix[p * n + q];
	double		theta = (matrix[q * n + q] - matrix[p * n + p]) / (2.0 * off);
	double		t = (theta >= 0.0 ? 1.0 : -1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
	double		c = 1.0 / sqrt(t * t + 1.0);
	double		s = t * c;
	double		pp = matrix[p * n + p] - t * off;
	double		qq = matrix[q * n + q] + t * off;

	turn_rows(matrix + p * n, matrix + q * n, n, c, s);
	turn_rows(vectors + p * n, vectors + q * n, n, c, s);
	for (uint32_t k = 0; k < n; k++)
	{
		matrix[k * n + p] = matrix[p * n + k];
		matrix[k * n + q] = matrix[q * n + k];
	}
	matrix[p * n + p] = pp;
	matrix[q * n + q] = qq;
	matrix[p * n + q] = matrix[q * n + p] = 0.0;
}

/*
 * Rows of vectors become eigenvectors, the diagonal of the matrix their values; places
 * are their numbers, that of the largest value first.
 */
void
cpu_eigenvectors(double *matrix, double *vectors, uint32_t *places, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
	{
		for (uint32_t j = 0; j < n; j++)
			vectors[i * n + j] = i == j;
		places[i] = i;
	}
	for (int sweep = 0; sweep < SWEEPS; sweep++)
	{
		for (uint32_t p = 0; p < n; p++)
		{
			for (uint32_t q = p + 1; q < n; q++)
			{
				double		off = matrix[p * n + q];

				if (off * off > SMALL * SMALL * fabs(matrix[p * n + p] * matrix[q * n + q]))
					turn(matrix, vectors, n, p, q);
			}
		}
	}
	for (uint32_t i = 1; i < n; i++)
	{
		uint32_t	place = places[i];
		uint32_t	j = i;

		for (; j > 0 && matrix[places[j - 1] * n + places[j - 1]] < matrix[place * n + place]; j--)
			places[j] = places[j - 1];
		places[j] = place;
	}
}
