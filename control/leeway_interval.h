/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A monitor interval (Dong et al. 2015, PCC): what became of the segments that left in it. Their
 * round-trip times are summed so that least squares over the time of leaving need no list of them.
 * Then what the intervals before were like (Meng et al. 2020, PCC Proteus).
 *
 * Scope and limitations:
 * - Time is in 1/1024 of the planned length; 65,535 samples count.
 * - A round-trip time more than half a second from the first one of the interval counts as half a
 *   second.
 */
#ifndef LEEWAY_INTERVAL_H
#define LEEWAY_INTERVAL_H

#include "leeway_math.h"

#define LEEWAY_INTERVAL_PARTS   1024U
#define LEEWAY_INTERVAL_JUMP_US 524287
#define LEEWAY_INTERVAL_SAMPLES 65535U
#define LEEWAY_INTERVAL_RATE    (1ULL << 34) /* largest rate, bytes/s */

/*
 * Sums over samples; t: when it left, from the middle of the interval, r: its round trip, in us
 * from the first one.
 */
struct leeway_interval {
	leeway_u64 from_us;
	leeway_u64 until_us; /* 0: it goes on */
	leeway_s64 r;
	leeway_s64 tr;
	leeway_u64 tt;
	leeway_u64 rr;
	leeway_s32 t;
	leeway_u32 n;
	leeway_u32 first_us;
	leeway_u32 span_us; /* planned length */
	leeway_u32 acked_bytes;
	leeway_u32 lost_bytes;
};

/* The line through the samples. */
struct leeway_interval_fit {
	leeway_s64 slope_q20; /* us of round trip each us of leaving; 4 at most, either way */
	leeway_u64 error_q20; /* root mean square distance from the line, over the planned length */
	leeway_u32 mean_us;   /* round trip */
	leeway_u32 sigma_us;  /* its standard deviation */
};

/* The square root to within 1, by Newton's method: no branch, which a verifier would follow. */
LEEWAY_ALONE leeway_u32 leeway_sqrt_u64(leeway_u64 x)
{
	leeway_u64 root = 1ULL << 31;
	leeway_u32 i;

	for (i = 0; i < 38; i++)
		root = (root + x / (root | 1)) / 2;
	return (leeway_u32)root;
}

LEEWAY_INLINE leeway_u64 leeway_mbit_q16(leeway_u64 bytes_per_s)
{
	return leeway_min_u64(bytes_per_s, LEEWAY_INTERVAL_RATE) * 65536 / 125000;
}

/* x^0.9 as x over its tenth root, by Newton's method from above; x is below 2^18. */
LEEWAY_ALONE leeway_u64 leeway_power_09_q16(leeway_u64 x_q16)
{
	leeway_u64 root_q20 = 4 << 20, y2, y4, y9;
	leeway_u32 i;

	for (i = 0; i < 32; i++) {
		y2 = root_q20 * root_q20 >> 20;
		y4 = y2 * y2 >> 20;
		y9 = (y4 * y4 >> 20) * root_q20 >> 20;
		root_q20 = (9 * root_q20 + (x_q16 << 24) / (y9 | 1)) / 10;
	}
	return (x_q16 << 20) / (root_q20 | 1);
}

LEEWAY_INLINE void leeway_interval_begin(struct leeway_interval *i, leeway_u64 now_us, leeway_u64 span_us)
{
	__builtin_memset(i, 0, sizeof(*i));
	i->from_us = now_us;
	i->span_us = (leeway_u32)leeway_max_u64(leeway_min_u64(span_us, 1ULL << 31), 1);
}

/* Whether a segment that left at sent_us belongs to it. */
LEEWAY_INLINE int leeway_interval_has(const struct leeway_interval *i, leeway_u64 sent_us)
{
	return sent_us >= i->from_us && (!i->until_us || sent_us < i->until_us);
}

/* Takes the round-trip time of a segment that left in it. Returns how many there are. */
LEEWAY_ALONE leeway_u32 leeway_interval_sample(struct leeway_interval *i LEEWAY_NONNULL, leeway_u64 sent_us,
					       leeway_u32 rtt_us)
{
	leeway_u64 part =
		leeway_min_u64(sent_us - i->from_us, 1ULL << 40) * LEEWAY_INTERVAL_PARTS / i->span_us;
	leeway_s64 t =
		(leeway_s64)leeway_min_u64(part, 2 * LEEWAY_INTERVAL_PARTS) - LEEWAY_INTERVAL_PARTS / 2;
	leeway_s64 r;

	if (i->n >= LEEWAY_INTERVAL_SAMPLES)
		return i->n;
	if (!i->n++)
		i->first_us = rtt_us;
	r = (leeway_s64)rtt_us - i->first_us;
	if (r > LEEWAY_INTERVAL_JUMP_US)
		r = LEEWAY_INTERVAL_JUMP_US;
	else if (r < -LEEWAY_INTERVAL_JUMP_US)
		r = -LEEWAY_INTERVAL_JUMP_US;
	i->t += (leeway_s32)t;
	i->r += r;
	i->tr += t * r;
	i->tt += (leeway_u64)(t * t);
	i->rr += (leeway_u64)(r * r);
	return i->n;
}

/* The part of its bytes that was lost. */
LEEWAY_INLINE leeway_u64 leeway_interval_lost_q16(const struct leeway_interval *i)
{
	leeway_u64 bytes = (leeway_u64)i->acked_bytes + i->lost_bytes;

	return bytes ? ((leeway_u64)i->lost_bytes << 16) / bytes : 0;
}

/*
 * Least squares: slope = tr/tt about the means; what the line leaves of rr is the error. Returns
 * the samples.
 */
LEEWAY_ALONE leeway_u32 leeway_interval_fit(const struct leeway_interval *i LEEWAY_NONNULL,
					    struct leeway_interval_fit *fit LEEWAY_NONNULL)
{
	leeway_s64 t_q8 = leeway_div_s64((leeway_s64)i->t * 256, i->n),
		   r_q8 = leeway_div_s64(i->r * 256, i->n), tr;
	leeway_u64 tt, rr;

	__builtin_memset(fit, 0, sizeof(*fit));
	if (!i->n)
		return 0;
	fit->mean_us = (leeway_u32)((leeway_s64)i->first_us + leeway_div_s64(i->r, i->n));
	/* |t| <= 2^11, |r| < 2^19, n < 2^16: tr < 2^46, tt <= 2^38, rr < 2^54 */
	tr = i->tr - leeway_div_s64(t_q8 * i->r, 256);
	tt = leeway_less(i->tt, (leeway_u64)(t_q8 * i->t) / 256);
	rr = leeway_less(i->rr, (leeway_u64)(r_q8 * i->r) / 256);
	fit->sigma_us = leeway_sqrt_u64(rr / i->n);
	fit->slope_q20 =
		leeway_div_s64(leeway_div_s64(tr * 16384, tt) * (64 * LEEWAY_INTERVAL_PARTS), i->span_us);
	if (fit->slope_q20 > 4 << 20)
		fit->slope_q20 = 4 << 20;
	else if (fit->slope_q20 < -(4 << 20))
		fit->slope_q20 = -(4 << 20);
	rr = leeway_less(rr, (leeway_u64)leeway_div_s64(leeway_div_s64(tr * 256, tt) * tr, 256));
	fit->error_q20 = ((leeway_u64)leeway_sqrt_u64(rr / i->n) << 20) / i->span_us;
	return i->n;
}

#define LEEWAY_USUAL_TREND    6U    /* intervals of a slope */
#define LEEWAY_USUAL_LEAST_US 1000U /* a smaller deviation is never unusual */

/*
 * What the intervals before were like, so that an unusual one shows (Proteus: tolerance by
 * history). EWMA, weights 1/10.
 */
struct leeway_usual {
	leeway_u32 mean_us[LEEWAY_USUAL_TREND]; /* of the last intervals */
	leeway_s32 trend;                       /* slope over them, us/16 an interval, */
	leeway_s32 trend_dev;                   /* what it changes by, */
	leeway_s32 trend_last;                  /* and the last one */
	leeway_u32 sigma_us;                    /* deviation within an interval, */
	leeway_u32 sigma_dev_us;                /* and its mean deviation */
	leeway_u16 odd_permille;                /* intervals of late with an unusual deviation */
	leeway_u8 seen;                         /* intervals, up to one more than a trend has */
	leeway_u8 reserved;
};

LEEWAY_INLINE leeway_s32 leeway_apart_s32(leeway_s32 a, leeway_s32 b)
{
	return a > b ? a - b : b - a;
}

/* The slope over the last intervals: least squares, whose weights are 2 k - 5 over 35. */
LEEWAY_INLINE leeway_s32 leeway_usual_slope(const struct leeway_usual *u)
{
	leeway_s64 sum = 0, most = 1 << 28;
	leeway_u32 k;

	for (k = 0; k < LEEWAY_USUAL_TREND; k++)
		sum += (2 * (leeway_s64)k - 5) * ((leeway_s64)u->mean_us[k] - u->mean_us[0]);
	sum = leeway_div_s64(sum * 16, 35);
	return (leeway_s32)(sum > most ? most : sum < -most ? -most : sum);
}

/*
 * 1: the round trips rise as they did not before; -1: they fall so; 0: as usual, which this
 * interval adds to.
 */
LEEWAY_ALONE int leeway_usual_trend(struct leeway_usual *u LEEWAY_NONNULL, leeway_u32 mean_us)
{
	leeway_s32 slope;
	leeway_u32 k;

	for (k = 0; k + 1 < LEEWAY_USUAL_TREND; k++)
		u->mean_us[k] = u->mean_us[k + 1];
	u->mean_us[LEEWAY_USUAL_TREND - 1] = mean_us;
	u->seen = (leeway_u8)leeway_min_u32(u->seen + 1U, LEEWAY_USUAL_TREND + 1);
	if (u->seen < LEEWAY_USUAL_TREND)
		return 0;
	slope = leeway_usual_slope(u);
	if (u->seen == LEEWAY_USUAL_TREND) {
		u->trend_dev = leeway_apart_s32(slope, 0);
	} else if (leeway_apart_s32(slope, u->trend) > 2 * u->trend_dev) {
		return slope > 0 ? 1 : -1;
	} else {
		u->trend_dev +=
			(leeway_s32)leeway_div_s64(leeway_apart_s32(slope, u->trend_last) - u->trend_dev, 10);
		u->trend += (leeway_s32)leeway_div_s64(slope - u->trend, 10);
	}
	u->trend_last = slope;
	return 0;
}

/*
 * Whether the deviation of an interval is above the usual one by four of its own; where nearly all
 * are, it is usual.
 */
LEEWAY_ALONE int leeway_usual_deviates(struct leeway_usual *u LEEWAY_NONNULL, leeway_u32 sigma_us)
{
	leeway_u32 apart_us = sigma_us > u->sigma_us ? sigma_us - u->sigma_us : u->sigma_us - sigma_us;
	int odd = u->sigma_us && sigma_us > u->sigma_us + 4 * u->sigma_dev_us &&
		  sigma_us > LEEWAY_USUAL_LEAST_US;

	u->odd_permille = (leeway_u16)(u->odd_permille - u->odd_permille / 10 + (odd ? 100 : 0));
	if (!u->sigma_us || u->odd_permille > 950) {
		u->sigma_us = u->odd_permille > 950 ? 0 : sigma_us;
		u->sigma_dev_us = sigma_us / 2;
		u->odd_permille = 0;
	} else if (!odd) {
		u->sigma_dev_us = (leeway_u32)((9ULL * u->sigma_dev_us + apart_us) / 10);
		u->sigma_us = (leeway_u32)((9ULL * u->sigma_us + sigma_us) / 10);
	}
	return odd;
}

#define LEEWAY_ACK_PACE_RATIO 50U /* times the usual ratio of two gaps between acks: something held them */

/*
 * Acks that were held come in bursts, and their round trips are those of what held them (Proteus).
 */
struct leeway_ack_pace {
	leeway_u32 average_us; /* EWMA of round trips, weight 1/8 */
	leeway_u32 acked_us;   /* last ack, modulo 2^32 */
	leeway_u32 gap_us;     /* before it; 0: none yet */
	leeway_u32 ratio_q4; /* of a gap and the one before, the larger over the smaller: EWMA, weight 1/10 */
	leeway_u32 burst;    /* 1: samples do not count, until one is no longer than the average */
};

/* Whether the sample of this ack counts. */
LEEWAY_ALONE int leeway_ack_pace_counts(struct leeway_ack_pace *p LEEWAY_NONNULL,
					const struct leeway_ack *ack LEEWAY_NONNULL)
{
	leeway_u32 gap_us = leeway_clamp_u32((leeway_u32)ack->now_us - p->acked_us, 1, 1 << 24);
	leeway_u32 last_us = p->gap_us, ratio_q4;

	p->gap_us = p->average_us ? gap_us : 0;
	p->acked_us = (leeway_u32)ack->now_us;
	if (last_us) {
		ratio_q4 = gap_us > last_us ? gap_us * 16 / last_us : last_us * 16 / gap_us;
		if (p->ratio_q4 && ratio_q4 / LEEWAY_ACK_PACE_RATIO > p->ratio_q4)
			p->burst = 1;
		else if (ack->last_rtt_us <= p->average_us)
			p->burst = 0;
		p->ratio_q4 = p->ratio_q4 ? (leeway_u32)((9ULL * p->ratio_q4 + ratio_q4) / 10) : ratio_q4;
	}
	p->average_us = p->average_us ? (leeway_u32)((7ULL * p->average_us + ack->last_rtt_us) / 8)
				      : ack->last_rtt_us;
	return !p->burst;
}

#endif
