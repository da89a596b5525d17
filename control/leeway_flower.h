/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * FLOWER: a fuzzy controller of the queuing delay (Trang 2014, chapter 5), one step per round trip.
 *
 *	e = target - q, de = q(k-1) - q(k); q(k): the smallest delay of the round trip - base
 *
 * Linguistic values NVL .. PVL are -5 .. 5. A membership is a triangle between neighbouring centres
 * with flat shoulders, so that an input is an index with a fraction: i + f belongs to i by 1 - f
 * and to i + 1 by f.
 *
 * Scope and limitations:
 * - rule(e, de) = clip(e + de, -5, 5), but -6 for de = PVL. Any membership of PVL means that the
 *   queue fell because somebody lost packets: the window goes to the floor at once and -6 itself
 *   never reaches the averaging.
 * - The means s+ and s- start from 0, and the peak detector from 0; each moves its centre only
 *   beyond the starting value (4, 4 and 5 ms).
 * - An estimate of the largest delay at or below the target makes any excess the largest error
 *   (-100 %).
 * - The step is taken on the first ack of a round trip, from the samples before it. It grows by no
 *   more than what the round trip acknowledged. The estimators run in slow start and recovery as
 *   well.
 * - A timeout sets the window to one segment, a loss to the floor; slow start is only ever the
 *   first one.
 * - Control goes on during recovery: a loss leaves the window at the floor, not at half of what the
 *   path carries, and repairing a burst from there would take as many round trips as segments were
 *   lost.
 * - adaptive (off unless set) is ours: the target is that part of the queuing delay at losses.
 * - loss=rules (off unless set) is ours: loss is a third input of the rules. With e of 0 or less it
 *   is the queue's, and the output is the floor; with e of 1 .. 5 the window keeps 10 % per value,
 *   so that a loss with an empty queue halves it as NewReno's. Centre average as for the others.
 */
#ifndef LEEWAY_FLOWER_H
#define LEEWAY_FLOWER_H

#include "leeway_delay.h"
#include "leeway_window.h"

#define LEEWAY_FLOWER_PVL 5 /* the largest linguistic value */

/* Starting centres of de in us: values 1, 2, 3 stay, 4 and 5 move out. */
#define LEEWAY_FLOWER_STEP_US  1000U
#define LEEWAY_FLOWER_THIRD_US 3000U
#define LEEWAY_FLOWER_MEAN_US  4000U
#define LEEWAY_FLOWER_MOST_US  5000U

enum leeway_flower_loss {
	LEEWAY_FLOWER_LOSS_FLOOR = 0,
	LEEWAY_FLOWER_LOSS_RULES = 1,
};

enum leeway_flower_and {
	LEEWAY_FLOWER_MINIMUM = 0,
	LEEWAY_FLOWER_PRODUCT = 1,
};

struct leeway_flower_params {
	struct leeway_window_config window;
	leeway_u32 target_us;
	leeway_u32 conjunction; /* enum leeway_flower_and */
	leeway_u32 step_ppm;    /* segments per round trip and linguistic value: 200000 */
	leeway_u32 delay;       /* enum leeway_delay_source */
	leeway_u32 base_history;
	leeway_u32 base_interval_us;
	leeway_u32 skew;
	leeway_u32 adaptive_permille; /* target as a part of the delay at losses; 0: off */
	leeway_u32 loss;              /* enum leeway_flower_loss */
};

struct leeway_flower {
	struct leeway_window w;
	leeway_u64 grown_bytes; /* acked in this round by acks that may grow the window */
	leeway_u32 newest_us;   /* the last sample */
	leeway_u32 round_us;    /* smallest delay of the round */
	leeway_u32 queuing_us;  /* q(k) */
	leeway_u32 rise_us_q8;  /* s-: mean of rises of the queue, magnitude */
	leeway_u32 fall_us_q8;  /* s+: mean of falls of the queue */
	leeway_s32 error_q16;   /* e as an index, -5 .. 5 */
	leeway_s32 change_q16;  /* de as an index */
	leeway_s32 output_q16;  /* of the rules, before the step size */
	leeway_u32 target_us;
	leeway_u32 target_most_us; /* the parameter */
	leeway_u32 step_ppm;
	leeway_u8 conjunction;
	leeway_u8 in_round; /* round_us is valid */
	leeway_u8 started;  /* queuing_us is valid */
	leeway_u8 loss;     /* enum leeway_flower_loss */
	struct leeway_brim brim;
	struct leeway_source source;
	struct leeway_peaks peaks;
	struct leeway_base base;
};

LEEWAY_INLINE void leeway_flower_init(struct leeway_flower *s, const struct leeway_flower_params *p,
				      const struct leeway_path *path)
{
	leeway_window_init(&s->w, &p->window, path);
	leeway_source_init(&s->source, p->delay);
	leeway_peaks_init(&s->peaks);
	leeway_base_init(&s->base, p->base_history, p->base_interval_us, p->skew);
	leeway_brim_init(&s->brim, p->adaptive_permille);
	s->target_most_us = leeway_min_u32(p->target_us, LEEWAY_TARGET_MAX_US);
	s->target_us = s->target_most_us;
	s->step_ppm = leeway_min_u32(p->step_ppm, 1000000);
	s->conjunction =
		p->conjunction == LEEWAY_FLOWER_PRODUCT ? LEEWAY_FLOWER_PRODUCT : LEEWAY_FLOWER_MINIMUM;
	s->loss = p->loss == LEEWAY_FLOWER_LOSS_RULES ? LEEWAY_FLOWER_LOSS_RULES : LEEWAY_FLOWER_LOSS_FLOOR;
	s->grown_bytes = 0;
	s->newest_us = 0;
	s->round_us = 0;
	s->queuing_us = 0;
	s->rise_us_q8 = 0;
	s->fall_us_q8 = 0;
	s->error_q16 = 0;
	s->change_q16 = 0;
	s->output_q16 = 0;
	s->in_round = 0;
	s->started = 0;
}

/* The rule table: linguistic values of e and de to that of the output, -6 .. 5. */
LEEWAY_INLINE leeway_s32 leeway_flower_rule(leeway_s32 e, leeway_s32 de)
{
	leeway_s32 sum = e + de;

	if (de == LEEWAY_FLOWER_PVL)
		return -6;
	return sum < -5 ? -5 : sum > 5 ? 5 : sum;
}

/* part / whole as a fraction of one in q16; one when there is nothing to divide by. */
LEEWAY_INLINE leeway_u32 leeway_flower_fraction_q16(leeway_u32 part_us, leeway_u32 whole_us)
{
	if (part_us >= whole_us)
		return LEEWAY_ONE_Q16;
	return (leeway_u32)(((leeway_u64)part_us << 16) / whole_us);
}

/*
 * e as an index: 100 e / target percent below the target, 100 e / (largest - target) above, 20 % a
 * value.
 */
LEEWAY_INLINE leeway_s32 leeway_flower_error_q16(const struct leeway_flower *s, leeway_u32 queuing_us)
{
	leeway_u32 most_us = s->peaks.max_us;

	if (queuing_us == s->target_us)
		return 0;
	if (queuing_us < s->target_us)
		return (leeway_s32)(5 * leeway_flower_fraction_q16(s->target_us - queuing_us, s->target_us));
	most_us = most_us > s->target_us ? most_us - s->target_us : 0;
	return -(leeway_s32)(5 * leeway_flower_fraction_q16(queuing_us - s->target_us, most_us));
}

/*
 * |de| as an index, from the centre of value 4 (the mean of such changes); the centre of 5 is the
 * largest delay.
 */
LEEWAY_INLINE leeway_u32 leeway_flower_index_q16(const struct leeway_flower *s, leeway_u32 change_us,
						 leeway_u32 mean_us)
{
	leeway_u32 most_us =
		s->peaks.max_us > LEEWAY_FLOWER_MOST_US ? s->peaks.max_us : LEEWAY_FLOWER_MOST_US;

	mean_us = leeway_min_u32(mean_us > LEEWAY_FLOWER_MEAN_US ? mean_us : LEEWAY_FLOWER_MEAN_US, most_us);
	if (change_us <= LEEWAY_FLOWER_THIRD_US)
		return (change_us << 16) / LEEWAY_FLOWER_STEP_US;
	if (change_us <= mean_us)
		return 3 * LEEWAY_ONE_Q16 + leeway_flower_fraction_q16(change_us - LEEWAY_FLOWER_THIRD_US,
								       mean_us - LEEWAY_FLOWER_THIRD_US);
	return 4 * LEEWAY_ONE_Q16 + leeway_flower_fraction_q16(change_us - mean_us, most_us - mean_us);
}

LEEWAY_INLINE leeway_u64 leeway_flower_and_q16(const struct leeway_flower *s, leeway_u64 a_q16,
					       leeway_u64 b_q16)
{
	return s->conjunction == LEEWAY_FLOWER_PRODUCT ? a_q16 * b_q16 >> 16 : leeway_min_u64(a_q16, b_q16);
}

/*
 * The rules that apply, averaged by centre: the output as a linguistic value. At most four of 121
 * apply.
 */
LEEWAY_ALONE leeway_s32 leeway_flower_infer_q16(const struct leeway_flower *s LEEWAY_NONNULL)
{
	leeway_u32 e = (leeway_u32)(s->error_q16 + 5 * (leeway_s32)LEEWAY_ONE_Q16);
	leeway_u32 de = (leeway_u32)(s->change_q16 + 5 * (leeway_s32)LEEWAY_ONE_Q16);
	leeway_u64 weight_q16, total_q16 = 0;
	leeway_s64 sum_q16 = 0;
	leeway_u32 i, e_up, de_up;

	for (i = 0; i < 4; i++) {
		e_up = i & 1;
		de_up = i >> 1;
		weight_q16 = leeway_flower_and_q16(s, e_up ? e & 0xffff : LEEWAY_ONE_Q16 - (e & 0xffff),
						   de_up ? de & 0xffff : LEEWAY_ONE_Q16 - (de & 0xffff));
		total_q16 += weight_q16;
		sum_q16 += (leeway_s64)weight_q16 * leeway_flower_rule((leeway_s32)((e >> 16) + e_up) - 5,
								       (leeway_s32)((de >> 16) + de_up) - 5);
	}
	return (leeway_s32)leeway_div_s64(sum_q16 * (leeway_s64)LEEWAY_ONE_Q16, total_q16);
}

/* A mean with weight 1/8. */
LEEWAY_INLINE leeway_u32 leeway_flower_mean_q8(leeway_u32 mean_q8, leeway_u32 us)
{
	leeway_u64 value_q8 = (leeway_u64)leeway_min_u32(us, LEEWAY_TARGET_MAX_US) << 8;

	return (leeway_u32)((7ULL * mean_q8 + value_q8) / 8);
}

/*
 * Take the queuing delay of a round trip; whether the queue fell so sharply that somebody lost
 * packets.
 */
LEEWAY_ALONE int leeway_flower_observe(struct leeway_flower *s LEEWAY_NONNULL, leeway_u32 queuing_us)
{
	leeway_u32 before_us = s->started ? s->queuing_us : queuing_us;
	leeway_u32 index_q16;

	s->started = 1;
	s->queuing_us = queuing_us;
	s->w.out.queuing_delay_us = queuing_us;
	leeway_peaks_update(&s->peaks, queuing_us);
	s->error_q16 = leeway_flower_error_q16(s, queuing_us);
	if (queuing_us > before_us) {
		s->rise_us_q8 = leeway_flower_mean_q8(s->rise_us_q8, queuing_us - before_us);
		index_q16 = leeway_flower_index_q16(s, queuing_us - before_us, s->rise_us_q8 >> 8);
		s->change_q16 = -(leeway_s32)index_q16;
		return 0;
	}
	s->fall_us_q8 = leeway_flower_mean_q8(s->fall_us_q8, before_us - queuing_us);
	index_q16 = leeway_flower_index_q16(s, before_us - queuing_us, s->fall_us_q8 >> 8);
	s->change_q16 = (leeway_s32)index_q16;
	return index_q16 > 4 * LEEWAY_ONE_Q16;
}

/* The control step at the end of a round trip. */
LEEWAY_INLINE void leeway_flower_step(struct leeway_flower *s, const struct leeway_ack *ack, leeway_u32 mss)
{
	leeway_u32 base_us = leeway_base_us(&s->base, ack->now_us);
	leeway_u32 queuing_us = leeway_before_u32(s->round_us, base_us) ? 0 : s->round_us - base_us;
	int fell = leeway_flower_observe(s, queuing_us);
	leeway_u64 size_q16, step_q16;

	if (leeway_in_slow_start(&s->w))
		return;
	s->w.slow_start = 0; /* never again */
	if (fell) {
		s->output_q16 = -6 * (leeway_s32)LEEWAY_ONE_Q16;
		s->w.out.cwnd_q16 = leeway_min_u64(s->w.out.cwnd_q16, leeway_floor_q16(&s->w, mss));
		s->w.out.phase = LEEWAY_LOSS_ZONE;
		return;
	}
	s->output_q16 = leeway_flower_infer_q16(s);
	size_q16 = (leeway_u64)mss * s->step_ppm;
	if (s->output_q16 < 0) {
		step_q16 = size_q16 * (leeway_u32)-s->output_q16 / 1000000;
		leeway_lower(&s->w, step_q16, mss);
		s->w.out.phase = LEEWAY_YIELDING;
		return;
	}
	s->w.out.phase = LEEWAY_AVOIDANCE;
	step_q16 = size_q16 * (leeway_u32)s->output_q16 / 1000000;
	if (ack->acked_bytes && !ack->app_limited)
		leeway_raise(&s->w, leeway_min_u64(step_q16, leeway_min_u64(s->grown_bytes, mss) << 16));
}

/* The queuing delay of the last sample. */
LEEWAY_INLINE leeway_u32 leeway_flower_newest_us(const struct leeway_flower *s, leeway_u64 now_us)
{
	leeway_u32 base_us = leeway_base_us(&s->base, now_us);

	return leeway_before_u32(s->newest_us, base_us) ? 0 : s->newest_us - base_us;
}

/* What the rules leave of the window after a loss: 10 % per value of e above 0. */
LEEWAY_INLINE leeway_u32 leeway_flower_kept_permille(const struct leeway_flower *s, leeway_u32 queuing_us)
{
	leeway_s32 error_q16 = leeway_flower_error_q16(s, queuing_us);

	if (s->loss != LEEWAY_FLOWER_LOSS_RULES || error_q16 <= 0)
		return 0;
	return (leeway_u32)error_q16 * 100 >> 16;
}

/* A loss or a mark shows the buffer. */
LEEWAY_INLINE void leeway_flower_brim(struct leeway_flower *s, leeway_u32 queuing_us)
{
	leeway_brim_update(&s->brim, queuing_us);
	s->target_us = leeway_brim_target_us(&s->brim, s->target_most_us);
}

/*
 * A loss or a mark: to what the rules leave, or to the floor, and back to control without slow
 * start.
 */
LEEWAY_INLINE void leeway_flower_restart(struct leeway_flower *s, leeway_u32 mss, leeway_u64 now_us)
{
	leeway_u32 queuing_us = leeway_flower_newest_us(s, now_us);

	leeway_flower_brim(s, queuing_us);
	leeway_back_off(&s->w, leeway_flower_kept_permille(s, queuing_us), mss, now_us);
	s->w.slow_start = 0;
}

LEEWAY_INLINE void leeway_flower_measure(struct leeway_flower *s, const struct leeway_ack *ack)
{
	enum leeway_sample what = leeway_source_look(&s->source, ack);
	leeway_u32 sample_us = leeway_source_us(&s->source, ack);

	if (what == LEEWAY_SAMPLE_NONE)
		return;
	if (what == LEEWAY_SAMPLE_FIRST) {
		leeway_base_restart(&s->base);
		s->in_round = 0;
		s->started = 0;
	}
	s->newest_us = sample_us;
	leeway_base_update(&s->base, ack->now_us, sample_us);
	if (!s->in_round || leeway_before_u32(sample_us, s->round_us))
		s->round_us = sample_us;
	s->in_round = 1;
}

LEEWAY_INLINE void leeway_flower_on_ack(struct leeway_flower *s, const struct leeway_ack *ack,
					const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);

	if (ack->round_start) {
		if (s->in_round)
			leeway_flower_step(s, ack, mss);
		s->in_round = 0;
		s->grown_bytes = 0;
	}
	leeway_flower_measure(s, ack);
	if (leeway_marked(&s->w, ack, path)) {
		leeway_flower_restart(s, mss, ack->now_us);
		return;
	}
	if (!leeway_in_slow_start(&s->w)) {
		if (!ack->app_limited)
			s->grown_bytes += leeway_min_u64(ack->acked_bytes, LEEWAY_WINDOW_MAX_BYTES);
	} else if (leeway_may_grow(ack)) {
		s->w.out.phase = LEEWAY_SLOW_START;
		leeway_slow_start(&s->w, ack->acked_bytes, mss);
	}
}

LEEWAY_INLINE void leeway_flower_on_loss(struct leeway_flower *s, const struct leeway_loss *loss,
					 const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);

	if (loss->kind == LEEWAY_LOSS_TIMEOUT) {
		if (leeway_new_loss(&s->w, loss))
			leeway_flower_brim(s, leeway_flower_newest_us(s, loss->now_us));
		leeway_time_out(&s->w, loss, 500, mss);
		s->w.slow_start = 0;
		s->w.out.phase = LEEWAY_AVOIDANCE;
	} else if (leeway_new_loss(&s->w, loss)) {
		leeway_flower_restart(s, mss, loss->now_us);
	}
}

#endif
