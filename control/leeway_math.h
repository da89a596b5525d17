/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Integer arithmetic that every law shares: bounded, unsigned, without 128-bit products and without
 * signed division, so that it means the same on a processor, in BPF and under a sanitizer.
 *
 * Ranges that the rest relies on:
 *	segment		1 .. 2^16 - 1 bytes
 *	window		.. 2^39 bytes (550 GB), so a window in q16 stays below 2^55
 *	rate		.. 2^31 - 1 in q16 (32768 segments a round trip)
 */
#ifndef LEEWAY_MATH_H
#define LEEWAY_MATH_H

#include "leeway.h"

#define LEEWAY_WINDOW_MAX_BYTES (1ULL << 39)
#define LEEWAY_RATE_MAX_Q16     0x7fffffffU
#define LEEWAY_ONE_Q16          65536U

/* Bounds of the parameters that leeway_gain_q40() takes. */
#define LEEWAY_TARGET_MIN_US     100U
#define LEEWAY_TARGET_MAX_US     10000000U
#define LEEWAY_GAIN_MAX_PERMILLE 100000U
#define LEEWAY_GAIN_MAX_PPM      100000000U

LEEWAY_INLINE leeway_u32 leeway_min_u32(leeway_u32 a, leeway_u32 b)
{
	return a < b ? a : b;
}

LEEWAY_INLINE leeway_u64 leeway_min_u64(leeway_u64 a, leeway_u64 b)
{
	return a < b ? a : b;
}

LEEWAY_INLINE leeway_u64 leeway_max_u64(leeway_u64 a, leeway_u64 b)
{
	return a > b ? a : b;
}

LEEWAY_INLINE leeway_u32 leeway_clamp_u32(leeway_u32 x, leeway_u32 low, leeway_u32 high)
{
	return x < low ? low : x > high ? high : x;
}

/* Subtraction that stops at zero. */
LEEWAY_INLINE leeway_u64 leeway_less(leeway_u64 a, leeway_u64 b)
{
	return a > b ? a - b : 0;
}

/*
 * Whether delay a is below delay b, both modulo 2^32 us and less than 2^31 us (35 minutes) apart.
 */
LEEWAY_INLINE int leeway_before_u32(leeway_u32 a, leeway_u32 b)
{
	return a - b > 0x7fffffffU;
}

/*
 * numerator / denominator toward zero; 0 when the denominator is 0. BPF before cpu v4 only divides
 * unsigned.
 */
LEEWAY_INLINE leeway_s64 leeway_div_s64(leeway_s64 numerator, leeway_u64 denominator)
{
	leeway_u64 magnitude = numerator < 0 ? 0 - (leeway_u64)numerator : (leeway_u64)numerator;

	if (!denominator)
		return 0;
	magnitude /= denominator;
	return numerator < 0 ? (leeway_s64)(0 - magnitude) : (leeway_s64)magnitude;
}

/* permille of x, which is at most 2^55. */
LEEWAY_INLINE leeway_u64 leeway_permille(leeway_u64 x, leeway_u32 permille)
{
	return x / 1000 * permille;
}

/* Thousandths as q16, rounded; at most 100. */
LEEWAY_INLINE leeway_u32 leeway_permille_q16(leeway_u32 permille)
{
	return ((leeway_min_u32(permille, LEEWAY_GAIN_MAX_PERMILLE) << 13) + 62) / 125;
}

/* Millionths as q16, rounded; at most 100. */
LEEWAY_INLINE leeway_u32 leeway_ppm_q16(leeway_u32 ppm)
{
	return (leeway_u32)((((leeway_u64)leeway_min_u32(ppm, LEEWAY_GAIN_MAX_PPM) << 16) + 500000) /
			    1000000);
}

/*
 * gain / span, rounded, as a multiplier for leeway_ratio_q16(), computed once: the ack path then
 * multiplies instead of dividing. gain_ppm of at most LEEWAY_GAIN_MAX_PPM and span_us of at least
 * 100 keep it below 2^41. Rounding is below 0.05 % at a gain of 1e-4 and a span of 100 ms.
 */
LEEWAY_INLINE leeway_u64 leeway_gain_q40(leeway_u32 gain_ppm, leeway_u32 span_us)
{
	/* gain 2^40 / 10^6 = gain 2^34 / 5^6 */
	leeway_u64 divisor = 15625ULL * span_us;

	if (!span_us)
		return 0;
	return (((leeway_u64)leeway_min_u32(gain_ppm, LEEWAY_GAIN_MAX_PPM) << 34) + divisor / 2) / divisor;
}

/* gain x delay / span in q16, rounded, at most LEEWAY_RATE_MAX_Q16. */
LEEWAY_INLINE leeway_u32 leeway_ratio_q16(leeway_u32 delay_us, leeway_u64 reciprocal_q40)
{
	leeway_u64 ratio_q16;

	if (delay_us >> 22) /* 4 s and more: drop low bits of the delay rather than overflow */
		ratio_q16 = ((delay_us >> 16) * reciprocal_q40) >> 8;
	else
		ratio_q16 = (delay_us * reciprocal_q40 + (1ULL << 23)) >> 24;
	return (leeway_u32)leeway_min_u64(ratio_q16, LEEWAY_RATE_MAX_Q16);
}

/*
 * gain x delay / span x bytes, in q16. Where the ratio is below 8 it has 28 fractional bits, for
 * gains such as 1e-4.
 */
LEEWAY_INLINE leeway_u64 leeway_ratio_of_bytes_q16(leeway_u32 delay_us, leeway_u64 reciprocal_q40,
						   leeway_u64 bytes)
{
	leeway_u64 ratio_q28;

	bytes = leeway_min_u64(bytes, 1ULL << 32);
	if (delay_us >> 22)
		return leeway_ratio_q16(delay_us, reciprocal_q40) * bytes;
	ratio_q28 = (delay_us * reciprocal_q40 + (1ULL << 11)) >> 12;
	if (ratio_q28 >> 31)
		return leeway_ratio_q16(delay_us, reciprocal_q40) * bytes;
	return ratio_q28 * bytes >> 12;
}

#endif
