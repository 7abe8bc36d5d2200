/*-------------------------------------------------------------------------
 *
 * prune_bound.h
 *	  The bound that makes a test at few dimensions lose no pair.
 *
 * A row's level row is its projection on some directions, and the norm of what they
 * leave as one more coordinate.  This header says how much longer the distance of two
 * level rows may be than that of the rows, and how far a computed level row is from
 * the exact one.  What is made of that is filter_bound.h's: level rows are quantised,
 * tested and have thresholds as rows do.  The proof is doc/bound-pruning.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PRUNE_BOUND_H
#define FASTED_PRUNE_BOUND_H

#include "filter_bound.h"

/* Terms of one sum in FP32; such sums are added up in FP64. */
#define FASTED_PRUNE_PIECE 64

/*
 * By what factor distances of level rows may exceed those of rows: eta bounds the
 * Frobenius norm of P P' - I.
 */
FASTED_EVERYWHERE double
fasted_prune_stretch(double eta)
{
	return sqrt(1.0 + eta + eta * eta) * (1.0 + 8 * FASTED_U64);
}

/*
 * An upper bound of ||P q - z||, z as computed and rounded to FP32.  norm is an upper
 * bound of ||q||, projected one of ||z||; directions are those of P; gamma bounds the
 * relative error of a sum of d products.
 */
FASTED_EVERYWHERE double
fasted_prune_product_error(double gamma, double norm, double projected, double eta,
						   uint32_t directions, uint32_t dimensions)
{
	double		rows = sqrt(directions * (1.0 + eta));

	return (gamma * rows * norm + 2.0 * FASTED_U32 * projected
			+ fasted_alpha32(dimensions) * rows) * (1.0 + 16 * FASTED_U64)
		+ ldexp(1.0, -140);
}

/* The same where pieces are added in FP64. */
FASTED_EVERYWHERE double
fasted_prune_projection_error(double norm, double projected, double eta,
							  uint32_t directions, uint32_t dimensions)
{
	double		gamma = fasted_gamma32(FASTED_PRUNE_PIECE, 2)
		+ (dimensions + 32.0) * FASTED_U64;

	return fasted_prune_product_error(gamma, norm, projected, eta, directions, dimensions);
}

/* The relative error of such a sum where pieces are added in FP32, too, one by one. */
FASTED_EVERYWHERE double
fasted_prune_gamma_fp32(uint32_t dimensions)
{
	uint32_t	pieces = (dimensions + FASTED_PRUNE_PIECE - 1) / FASTED_PRUNE_PIECE;

	return fasted_gamma32(FASTED_PRUNE_PIECE + pieces, 2);
}

/*
 * An upper bound of ||w - q||, where q is s (x - c) by a subtraction in FP32 and a product
 * with a power of two, and did not overflow.  norm is an upper bound of ||q||.
 */
FASTED_EVERYWHERE double
fasted_prune_image_error(double norm, uint32_t dimensions)
{
	return FASTED_U32 * norm * (1.0 + 16 * FASTED_U64) + ldexp((double) dimensions, -149);
}

/*
 * An upper bound of the error of r = sqrt(max(0, norm2 - projected2)), rounded to
 * FP32, against the norm of (I - P' P) q.  norm2 and projected2 are FP64 sums of
 * squares of q and z; error bounds ||P q - z||.
 */
FASTED_EVERYWHERE double
fasted_prune_residual_error(double norm2, double projected2, double residual, double error,
							double eta, uint32_t dimensions)
{
	double		slack = 2.0 * fasted_sum_slack(dimensions + 32);
	double		projected = sqrt(projected2) * (1.0 + slack);
	double		longest = projected + error;
	double		error2 = (slack * (norm2 + projected2) + error * (2.0 * projected + error)
						  + eta * longest * longest) * (1.0 + 16 * FASTED_U64);
	double		bound = sqrt(error2);

	if (residual > bound)
		bound = error2 / residual;
	return (bound + 2.0 * FASTED_U32 * residual) * (1.0 + 16 * FASTED_U64) + ldexp(1.0, -140);
}

/*
 * An upper bound of the distance between the exact level row of a row's image and the
 * computed one.  moved bounds the distance between the image and q, error and
 * residual_error are the two above.
 */
FASTED_EVERYWHERE double
fasted_prune_moved(double moved, double eta, double error, double residual_error)
{
	return (fasted_prune_stretch(eta) * moved
			+ sqrt(error * error + residual_error * residual_error))
		* (1.0 + 16 * FASTED_U64);
}

#endif							/* FASTED_PRUNE_BOUND_H */
