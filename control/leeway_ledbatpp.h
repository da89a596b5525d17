/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus): LEDBAT on round-trip times, with a gain that yields
 * to Reno, a multiplicative decrease, and slowdowns that show the base delay.
 *
 *	GAIN = 1 / min(16, ceil(2 target / base))
 *	q <= target: W += GAIN per round trip
 *	q >  target: W += max(GAIN - constant W (q / target - 1), -W / 2) per round trip
 *
 * Scope and limitations:
 * - The increase is spread over the acks of a round trip, the decrease happens at once at its
 *   start.
 * - Base is the smallest round-trip time in the base history (of the connection when delay=owd).
 * - The first slow start grows by GAIN bytes per byte acked and ends at 3/4 target, or by a loss; 2
 *   round trips later comes the first slowdown: two segments for 2 round trips, then back to
 *   ssthresh. The next one comes after 9 times as long as the last one took.
 * - The ramp doubles every round trip (ramp=standard) or grows by GAIN as the first slow start
 *   (ramp=scaled).
 * - Deadlines are checked when an ack arrives; a slowdown waits for one.
 */
#ifndef LEEWAY_LEDBATPP_H
#define LEEWAY_LEDBATPP_H

#include "leeway_delay.h"
#include "leeway_window.h"

#define LEEWAY_LEDBATPP_SPACING     9 /* draft, 4.4: at most a tenth of the time is spent slowed down */
#define LEEWAY_LEDBATPP_HOLD_ROUNDS 2

enum leeway_ledbatpp_ramp {
	LEEWAY_RAMP_STANDARD = 0,
	LEEWAY_RAMP_SCALED = 1,
};

enum leeway_ledbatpp_stage {
	LEEWAY_LEDBATPP_BEGIN = 0,  /* before and during the first slow start */
	LEEWAY_LEDBATPP_STEADY = 1, /* until the deadline, when a slowdown begins */
	LEEWAY_LEDBATPP_HOLD = 2,   /* two segments until the deadline */
	LEEWAY_LEDBATPP_RAMP = 3,   /* back to ssthresh */
};

struct leeway_ledbatpp_params {
	struct leeway_window_config window;
	struct leeway_delay_config delay;
	leeway_u32 target_us;
	leeway_u32 gain_divisor; /* largest divisor of GAIN: 16 */
	leeway_u32 constant_ppm; /* of the decrease */
	leeway_u32 slowdown;     /* 1: slow down periodically */
	leeway_u32 ramp;         /* enum leeway_ledbatpp_ramp */
};

struct leeway_ledbatpp {
	struct leeway_window w;
	leeway_u64 deadline_us;  /* of the stage */
	leeway_u64 slowed_us;    /* when the slowdown began */
	leeway_u64 decrease_q40; /* constant / target */
	leeway_u64 gain_carry;   /* acked bytes x gain that were less than a byte, q16 */
	leeway_u32 target_us;
	leeway_u32 gain_q16;
	leeway_u32 gain_base_us; /* the base delay that gain_q16 was computed for */
	leeway_u8 gain_divisor;
	leeway_u8 slowdown;
	leeway_u8 ramp;
	leeway_u8 stage; /* enum leeway_ledbatpp_stage */
	struct leeway_delay delay;
};

/* draft, 4.2: GAIN for a base delay; the smallest gain before there is one. */
LEEWAY_INLINE leeway_u32 leeway_ledbatpp_gain_q16(leeway_u32 base_us, leeway_u32 target_us,
						  leeway_u32 largest)
{
	leeway_u64 divisor = largest;

	if (base_us)
		divisor = leeway_min_u64((2ULL * target_us + base_us - 1) / base_us, largest);
	return (leeway_u32)(LEEWAY_ONE_Q16 / leeway_max_u64(divisor, 1));
}

LEEWAY_INLINE void leeway_ledbatpp_init(struct leeway_ledbatpp *s, const struct leeway_ledbatpp_params *p,
					const struct leeway_path *path)
{
	leeway_window_init(&s->w, &p->window, path);
	leeway_delay_init(&s->delay, &p->delay);
	s->target_us = leeway_clamp_u32(p->target_us, LEEWAY_TARGET_MIN_US, LEEWAY_TARGET_MAX_US);
	s->decrease_q40 = leeway_gain_q40(p->constant_ppm, s->target_us);
	s->gain_divisor = (leeway_u8)leeway_clamp_u32(p->gain_divisor, 1, 255);
	s->gain_base_us = 0;
	s->gain_q16 = leeway_ledbatpp_gain_q16(0, s->target_us, s->gain_divisor);
	s->gain_carry = 0;
	s->slowdown = p->slowdown != 0;
	s->ramp = p->ramp == LEEWAY_RAMP_SCALED ? LEEWAY_RAMP_SCALED : LEEWAY_RAMP_STANDARD;
	s->stage = LEEWAY_LEDBATPP_BEGIN;
	s->deadline_us = 0;
	s->slowed_us = 0;
}

LEEWAY_INLINE void leeway_ledbatpp_measure(struct leeway_ledbatpp *s, const struct leeway_ack *ack,
					   const struct leeway_path *path)
{
	leeway_u32 base_us;

	leeway_delay_on_ack(&s->delay, ack, path);
	s->w.out.queuing_delay_us = s->delay.queuing_us;
	base_us = s->delay.source.one_way ? path->min_rtt_us : s->delay.base.min_us;
	if (base_us == s->gain_base_us)
		return;
	s->gain_base_us = base_us;
	s->gain_q16 = leeway_ledbatpp_gain_q16(base_us, s->target_us, s->gain_divisor);
}

/* Slow start that adds GAIN bytes per byte acked. */
LEEWAY_INLINE leeway_u64 leeway_ledbatpp_scaled(struct leeway_ledbatpp *s, leeway_u64 acked_bytes,
						leeway_u32 mss)
{
	leeway_u64 scaled_q16 = leeway_min_u64(acked_bytes, 1ULL << 32) * s->gain_q16 + s->gain_carry;

	s->gain_carry = scaled_q16 & 0xffff;
	return leeway_slow_start(&s->w, scaled_q16 >> 16, mss);
}

LEEWAY_INLINE leeway_u64 leeway_ledbatpp_rounds_us(const struct leeway_path *path, leeway_u32 rounds)
{
	return (leeway_u64)rounds * (path->srtt_us ? path->srtt_us : 1000000);
}

/* The first slow start is over: the first slowdown comes 2 round trips later (draft, 4.4). */
LEEWAY_INLINE void leeway_ledbatpp_leave(struct leeway_ledbatpp *s, leeway_u64 now_us,
					 const struct leeway_path *path)
{
	s->stage = LEEWAY_LEDBATPP_STEADY;
	s->deadline_us = now_us + leeway_ledbatpp_rounds_us(path, 2);
}

/* Advance the slowdown (draft, 4.4). */
LEEWAY_INLINE void leeway_ledbatpp_schedule(struct leeway_ledbatpp *s, leeway_u64 now_us,
					    const struct leeway_path *path)
{
	leeway_u64 two_q16 = (leeway_u64)leeway_mss(path) << 17;

	if (s->stage == LEEWAY_LEDBATPP_STEADY && s->slowdown && now_us >= s->deadline_us) {
		s->stage = LEEWAY_LEDBATPP_HOLD;
		s->slowed_us = now_us;
		s->deadline_us = now_us + leeway_ledbatpp_rounds_us(path, LEEWAY_LEDBATPP_HOLD_ROUNDS);
		s->w.out.ssthresh_bytes = s->w.out.cwnd_q16 >> 16;
		two_q16 = leeway_max_u64(two_q16, leeway_floor_q16(&s->w, leeway_mss(path)));
		s->w.out.cwnd_q16 = leeway_min_u64(s->w.out.cwnd_q16, two_q16);
	} else if (s->stage == LEEWAY_LEDBATPP_HOLD && now_us >= s->deadline_us) {
		s->stage = LEEWAY_LEDBATPP_RAMP;
	}
	if (s->stage == LEEWAY_LEDBATPP_RAMP && s->w.out.cwnd_q16 >> 16 >= s->w.out.ssthresh_bytes) {
		s->stage = LEEWAY_LEDBATPP_STEADY;
		s->deadline_us = now_us + LEEWAY_LEDBATPP_SPACING * leeway_less(now_us, s->slowed_us);
	}
}

/* The decrease at the start of a round trip above the target. */
LEEWAY_INLINE void leeway_ledbatpp_yield(struct leeway_ledbatpp *s, const struct leeway_ack *ack,
					 leeway_u64 acked_bytes, leeway_u32 mss)
{
	leeway_u32 excess_q16 = leeway_ratio_q16(s->delay.queuing_us - s->target_us, s->decrease_q40);
	leeway_u64 half_q16 = s->w.out.cwnd_q16 / 2;
	leeway_u64 down_q16 = s->w.out.cwnd_q16, up_q16 = 0;

	s->w.out.phase = LEEWAY_YIELDING;
	if (!ack->round_start)
		return;
	if (leeway_may_grow(ack))
		up_q16 = (leeway_u64)s->gain_q16 * leeway_min_u64(mss, acked_bytes);
	if (excess_q16 <= LEEWAY_ONE_Q16)
		down_q16 = (s->w.out.cwnd_q16 >> 8) * excess_q16 >> 8;
	if (up_q16 > down_q16)
		leeway_raise(&s->w, up_q16 - down_q16);
	else
		leeway_yield(&s->w, leeway_min_u64(down_q16 - up_q16, half_q16), mss);
}

LEEWAY_INLINE void leeway_ledbatpp_avoid(struct leeway_ledbatpp *s, const struct leeway_ack *ack,
					 leeway_u64 acked_bytes, leeway_u32 mss)
{
	if (s->delay.queuing_us > s->target_us) {
		leeway_ledbatpp_yield(s, ack, acked_bytes, mss);
		return;
	}
	s->w.out.phase = LEEWAY_AVOIDANCE;
	if (leeway_may_grow(ack))
		leeway_increase(&s->w, acked_bytes, mss, s->gain_q16);
}

LEEWAY_INLINE void leeway_ledbatpp_on_ack(struct leeway_ledbatpp *s, const struct leeway_ack *ack,
					  const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);
	leeway_u64 acked_bytes = ack->acked_bytes;

	leeway_ledbatpp_measure(s, ack, path);
	if (leeway_marked(&s->w, ack, path)) {
		leeway_back_off(&s->w, 500, mss, ack->now_us);
		if (s->stage == LEEWAY_LEDBATPP_BEGIN)
			leeway_ledbatpp_leave(s, ack->now_us, path);
		return;
	}
	if (s->stage == LEEWAY_LEDBATPP_BEGIN &&
	    (!leeway_in_slow_start(&s->w) || s->delay.queuing_us > s->target_us - s->target_us / 4)) {
		s->w.out.ssthresh_bytes = leeway_min_u64(s->w.out.ssthresh_bytes, s->w.out.cwnd_q16 >> 16);
		leeway_ledbatpp_leave(s, ack->now_us, path);
	}
	leeway_ledbatpp_schedule(s, ack->now_us, path);
	if (s->stage == LEEWAY_LEDBATPP_HOLD) {
		s->w.out.phase = LEEWAY_SLOWDOWN;
		return;
	}
	if (leeway_in_slow_start(&s->w)) {
		s->w.out.phase = s->stage == LEEWAY_LEDBATPP_RAMP ? LEEWAY_SLOWDOWN : LEEWAY_SLOW_START;
		if (!leeway_may_grow(ack))
			return;
		if (s->stage == LEEWAY_LEDBATPP_BEGIN || s->ramp == LEEWAY_RAMP_SCALED)
			acked_bytes = leeway_ledbatpp_scaled(s, acked_bytes, mss);
		else
			acked_bytes = leeway_slow_start(&s->w, acked_bytes, mss);
		if (!acked_bytes)
			return;
	}
	leeway_ledbatpp_avoid(s, ack, acked_bytes, mss);
}

LEEWAY_INLINE void leeway_ledbatpp_on_loss(struct leeway_ledbatpp *s, const struct leeway_loss *loss,
					   const struct leeway_path *path)
{
	leeway_reno_on_loss(&s->w, loss, 500, leeway_mss(path));
	if (s->stage == LEEWAY_LEDBATPP_BEGIN)
		leeway_ledbatpp_leave(s, loss->now_us, path);
}

#endif
