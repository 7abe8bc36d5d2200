/*-------------------------------------------------------------------------
 *
 * rotation.cuh
 *	  The rotation of INT8 rows: randomized Walsh-Hadamard transforms.
 *
 * A row is padded to D = 32 m coordinates.  If D is a power of two, the rotation has one pass,
 * otherwise two.  A pass applies random signs and a Walsh-Hadamard transform of length p
 * (fasted_rotation_length). The first pass transforms the first p coordinates, the second pass
 * the last p.  Place k mod p of a pass holds coordinate k.  Coordinates of both passes therefore
 * keep their places, and p places suffice for any row.
 *
 * There are two versions with the same signs: a warp with the places in registers, and a block
 * with the places in shared memory.  Both take two callbacks:
 *
 *   load(coordinate, value)		sets C (4) values from this coordinate on; arbitrary values
 * 								for coordinates beyond the row
 *   emit(coordinate, value)		receives C (4) rotated values
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_ROTATION_CUH
#define FASTED_CUDA_ROTATION_CUH

#include <cstdint>

#include "engine/filter_bound.h"

namespace fasted
{

/* The length p of a pass, and the number of places that hold two coordinates (0: one pass). */
struct Rotation
{
	uint32_t	length;
	uint32_t	wrap;			/* D - p */

	__host__ __device__ explicit Rotation(uint32_t padded)
		: length(fasted_rotation_length(padded)), wrap(padded - length)
	{
	}
};

/* 1 / sqrt(2^levels), rounded once. */
__host__ __device__ constexpr float
inverse_root(uint32_t levels)
{
	return (levels % 2 != 0 ? 0.70710678118654752f : 1.0f) / (float) (1u << levels / 2);
}

__host__ __device__ constexpr uint32_t
levels_of(uint32_t length)
{
	uint32_t	levels = 0;

	while (length >> levels > 1)
		levels++;
	return levels;
}

/*
 * Place k has sign bit (k / 128 mod 16) 4 + k mod 4 of group k / 2048 * 32 + k / 4 mod 32
 * (fasted_sign_bits). A group holds the signs of one lane's part of a row in registers.
 */
__device__ __forceinline__ uint32_t
sign_group(uint32_t place)
{
	return place / 2048 * 32 + place / 4 % 32;
}

__device__ __forceinline__ uint32_t
sign_bit(uint32_t place)
{
	return place / 128 % 16 * 4 + place % 4;
}

/* Negates the value if bit number `bit` of `bits` is set. */
__device__ __forceinline__ float
with_sign(float value, uint64_t bits, uint32_t bit)
{
	return __uint_as_float(__float_as_uint(value) ^ (uint32_t) (bits >> bit) << 31);
}

/* One level of the transform between lanes. */
__device__ __forceinline__ float
across_lanes(float value, uint32_t mask)
{
	float		other = __shfl_xor_sync(0xffffffff, value, mask);

	return fmaf(value, (threadIdx.x & mask) != 0 ? -1.0f : 1.0f, other);
}

/* Unnormalized Walsh-Hadamard transform of N values, N a power of two. */
template <int N>
__device__ __forceinline__ void
walsh_hadamard(float (&value)[N])
{
#pragma unroll
	for (int half = 1; half < N; half *= 2)
	{
#pragma unroll
		for (int i = 0; i < N; i++)
		{
			if ((i & half) != 0)
				continue;

			float		a = value[i];
			float		b = value[i + half];

			value[i] = a + b;
			value[i + half] = a - b;
		}
	}
}

/* One pass over the places in a warp's registers; layout as in rotate_in_registers. */
template <int C, int P>
__device__ __forceinline__ void
pass_in_registers(float (&value)[P][C], uint32_t first, uint32_t pass)
{
	constexpr float kRoot = inverse_root(levels_of(32 * C * P));
	uint64_t	bits = fasted_sign_bits(sign_group(first), pass);

#pragma unroll
	for (int j = 0; j < P; j++)
	{
		if (C == 1)
			bits = fasted_sign_bits(sign_group(first + 32 * j), pass);
#pragma unroll
		for (int i = 0; i < C; i++)
			value[j][i] = with_sign(value[j][i] * kRoot, bits,
									C == 1 ? first % 4 : 4 * j + i);
		walsh_hadamard(value[j]);
#pragma unroll
		for (int i = 0; i < C; i++)
		{
#pragma unroll
			for (int mask = 1; mask < 32; mask *= 2)
				value[j][i] = across_lanes(value[j][i], mask);
		}
	}

#pragma unroll
	for (int i = 0; i < C; i++)
	{
		float		column[P];

#pragma unroll
		for (int j = 0; j < P; j++)
			column[j] = value[j][i];
		walsh_hadamard(column);
#pragma unroll
		for (int j = 0; j < P; j++)
			value[j][i] = column[j];
	}
}

/*
 * Rotates a row of 32 C P to 64 C P - 1 coordinates with one warp.  Lane l holds the places 32 C j
 * + C l + i, j < P, i < C. C is 4, or 1 for rows of fewer than 128 coordinates.
 */
template <int C, int P, typename Load, typename Emit>
__device__ __forceinline__ void
rotate_in_registers(uint32_t wrap, Load load, Emit emit)
{
	constexpr uint32_t kLength = 32 * C * P;
	uint32_t	first = threadIdx.x % 32 * C;
	float		value[P][C] = {};

	for (uint32_t pass = 0; pass < 2; pass++)
	{
		bool		last = pass == 1 || wrap == 0;
		uint32_t	fresh = pass == 0 ? kLength : wrap;
		uint32_t	done = last ? kLength : wrap;
		uint32_t	offset = pass == 0 ? 0 : kLength;

#pragma unroll
		for (int j = 0; j < P; j++)
		{
			float		loaded[C];

			load(first + 32 * C * j + offset, loaded);
#pragma unroll
			for (int i = 0; i < C; i++)
				value[j][i] = first + 32 * C * j < fresh ? loaded[i] : value[j][i];
		}
		pass_in_registers<C, P>(value, first, pass);
#pragma unroll
		for (int j = 0; j < P; j++)
		{
			uint32_t	place = first + 32 * C * j;

			if (place < done)
				emit(place < wrap ? place + offset : place, value[j]);
		}
		if (last)
			break;
	}
}

/* Transform over N places that are `stride` apart: log2(N) levels, by all threads of the block. */
template <int N>
__device__ __forceinline__ void
levels_in_shared(float *place, uint32_t length, uint32_t stride)
{
	for (uint32_t t = threadIdx.x; t < length / N; t += blockDim.x)
	{
		uint32_t	first = t / stride * stride * N + t % stride;
		float		value[N];

#pragma unroll
		for (int i = 0; i < N; i++)
			value[i] = place[first + i * stride];
		walsh_hadamard(value);
#pragma unroll
		for (int i = 0; i < N; i++)
			place[first + i * stride] = value[i];
	}
	__syncthreads();
}

/* One pass over the places in shared memory: signs, five levels between lanes, then the others. */
__device__ __forceinline__ void
pass_in_shared(float *place, uint32_t length, uint32_t pass)
{
	float		root = inverse_root(levels_of(length));
	uint32_t	stride = 32;

	for (uint32_t k = threadIdx.x; k < length; k += blockDim.x)
	{
		float		value = with_sign(place[k] * root, fasted_sign_bits(sign_group(k), pass),
									  sign_bit(k));

#pragma unroll
		for (int mask = 1; mask < 32; mask *= 2)
			value = across_lanes(value, mask);
		place[k] = value;
	}
	__syncthreads();

	for (; stride * 8 <= length; stride *= 8)
		levels_in_shared<8>(place, length, stride);
	if (stride * 4 == length)
		levels_in_shared<4>(place, length, stride);
	else if (stride * 2 == length)
		levels_in_shared<2>(place, length, stride);
}

/*
 * Rotates a row of any length with one block of whole warps.  `place` is shared memory for
 * rotation.length floats, aligned to 16 bytes.
 */
template <typename Load, typename Emit>
__device__ __forceinline__ void
rotate_in_shared(float *place, const Rotation &rotation, Load load, Emit emit)
{
	uint32_t	length = rotation.length;
	uint32_t	wrap = rotation.wrap;

	for (uint32_t pass = 0; pass < 2; pass++)
	{
		bool		last = pass == 1 || wrap == 0;
		uint32_t	fresh = pass == 0 ? length : wrap;
		uint32_t	done = last ? length : wrap;
		uint32_t	offset = pass == 0 ? 0 : length;

		for (uint32_t k = threadIdx.x * 4; k < fresh; k += blockDim.x * 4)
		{
			float		value[4];

			load(k + offset, value);
			*(float4 *) &place[k] = make_float4(value[0], value[1], value[2], value[3]);
		}
		__syncthreads();
		pass_in_shared(place, length, pass);
		for (uint32_t k = threadIdx.x * 4; k < done; k += blockDim.x * 4)
		{
			float4		four = *(const float4 *) &place[k];
			float		value[4] = {four.x, four.y, four.z, four.w};

			emit(k < wrap ? k + offset : k, value);
		}

		/* no barrier needed: each thread writes the next values to the places it has read here */
		if (last)
			break;
	}
}

}								/* namespace fasted */

#endif							/* FASTED_CUDA_ROTATION_CUH */
