/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Proteus-S (Meng et al. 2020): tries rates, and goes where a utility grows, as Vivace does (Dong
 * et al. 2018).
 *
 *	U(x) = x^0.9 - b x max(0, dRTT/dt) - c x L - d x sigma(RTT)	(x in Mbit/s, sigma in s)
 *
 * L: part lost; dRTT/dt: slope of the round-trip times of an interval, by least squares; sigma:
 * their deviation.
 *
 *	starting (slow start)	r doubles while U grows, then r/2
 *	probing (inference)	two pairs of intervals at 1.05 r and 0.95 r, in an order by chance; where both agree: move
 *	moving (avoidance up, yielding down)	r += m dU/dx, at most 5 % and 5 % more each time in a row, while U
 *				grows; m: 1, 2, 3, then 2 k - 3 for the k-th move
 *
 * An interval lasts one base round trip, five segments at least. Noise is not counted: samples of
 * acks that were held; slope and deviation where the error of the regression exceeds the slope,
 * unless they are unusual (leeway_interval.h).
 *
 * Scope and limitations:
 * - Constants and the rules for noise are those of the authors' program (PCC-Uspace). Its least
 *   rate and least change of 0.5 Mbit/s are not taken over: the floor is two segments a round trip.
 * - As there, nothing but rises of 1 ms counts while starting, and the floor is a new start. A loss
 *   belongs to the interval of the segment four before the newest acked one.
 * - Own: marks halve the rate (RFC 3168), a timeout is a new start, a window of 2.5 rate x RTT.
 */
#ifndef LEEWAY_PROTEUS_H
#define LEEWAY_PROTEUS_H

#include "leeway_interval.h"
#include "leeway_window.h"

#define LEEWAY_PROTEUS_TRIALS   4U /* intervals of two pairs; a power of two */
#define LEEWAY_PROTEUS_SEGMENTS 5U /* in an interval, at least */

struct leeway_proteus_params {
	struct leeway_window_config window;
	leeway_u32 gradient;      /* b */
	leeway_u32 loss_permille; /* c */
	leeway_u32 deviation;     /* d */
};

struct leeway_proteus {
	struct leeway_window w;
	struct leeway_interval trial[LEEWAY_PROTEUS_TRIALS];
	leeway_u64 rate;       /* r, bytes/s */
	leeway_u64 last_rate;  /* the one before it, */
	leeway_s64 last_q16;   /* and its utility */
	leeway_s64 judged_q16; /* utility of the last trial that is known */
	leeway_s64 sum_q16;    /* of what higher rates gained */
	leeway_u32 base_us;
	struct leeway_ack_pace pace;
	leeway_u32 lost_bytes; /* of the connection, modulo 2^32 */
	struct leeway_usual usual;
	leeway_u32 chance, loss_permille;
	leeway_u16 gradient, deviation;
	leeway_u8 begun, judged; /* trials of this step; those whose utility is known */
	leeway_u8 ups;           /* bit i: trial i is at the higher rate */
	leeway_u8 moves, steps;  /* in a row; by which the limit of a move grew */
	leeway_u8 wins;          /* pairs whose higher rate had more utility */
};

LEEWAY_INLINE void leeway_proteus_init(struct leeway_proteus *s, const struct leeway_proteus_params *p,
				       const struct leeway_path *path)
{
	__builtin_memset(s, 0, sizeof(*s));
	leeway_window_init(&s->w, &p->window, path);
	s->gradient = (leeway_u16)leeway_min_u32(p->gradient, 10000);
	s->loss_permille = leeway_min_u32(p->loss_permille, LEEWAY_GAIN_MAX_PERMILLE);
	s->deviation = (leeway_u16)leeway_min_u32(p->deviation, 10000);
}

/* The rate of a trial; r where there is none. */
LEEWAY_INLINE leeway_u64 leeway_proteus_rate(const struct leeway_proteus *s, leeway_u32 trial)
{
	if (s->w.out.phase != LEEWAY_INFERENCE || trial >= s->begun)
		return s->rate;
	return s->rate / 20 * (s->ups >> trial & 1 ? 21 : 19);
}

/* The utility of a trial whose segments are all accounted for. */
LEEWAY_ALONE leeway_s64 leeway_proteus_utility_q16(struct leeway_proteus *s LEEWAY_NONNULL, leeway_u32 trial)
{
	const struct leeway_interval *i = &s->trial[trial & (LEEWAY_PROTEUS_TRIALS - 1)];
	struct leeway_interval_fit fit;
	leeway_u64 x_q16 = leeway_mbit_q16(leeway_proteus_rate(s, trial)), bad_q16;
	int enough = leeway_interval_fit(i, &fit) >= 2, slopes = fit.slope_q20 > (leeway_s64)fit.error_q20;
	int deviates = slopes || -fit.slope_q20 > (leeway_s64)fit.error_q20, trend;

	if (enough) {
		trend = leeway_usual_trend(&s->usual, fit.mean_us);
		slopes |= trend > 0 && fit.slope_q20 > 0;
		deviates |= leeway_usual_deviates(&s->usual, fit.sigma_us) || trend;
	}
	if (s->w.out.phase == LEEWAY_SLOW_START) {
		slopes &= (leeway_u64)fit.slope_q20 * i->span_us > (leeway_u64)LEEWAY_USUAL_LEAST_US << 20;
		deviates = 0;
	}
	bad_q16 = leeway_interval_lost_q16(i) * s->loss_permille / 1000;
	bad_q16 += slopes ? (leeway_u64)fit.slope_q20 * s->gradient >> 4 : 0;
	bad_q16 += deviates ? ((leeway_u64)fit.sigma_us * s->deviation << 16) / 1000000 : 0;
	return (leeway_s64)leeway_power_09_q16(x_q16) -
	       (leeway_s64)(x_q16 * leeway_min_u64(bad_q16, 1 << 29) >> 16);
}

/* By how much a move changes the rate, where the last change of apart gained so much. */
LEEWAY_INLINE leeway_u64 leeway_proteus_change(struct leeway_proteus *s, leeway_s64 gain_q16,
					       leeway_u64 apart)
{
	leeway_u64 gain = leeway_min_u64((leeway_u64)(gain_q16 < 0 ? -gain_q16 : gain_q16), 1ULL << 40);
	leeway_u64 most = s->rate / 20 * (1 + s->steps), m = s->moves <= 3 ? s->moves : 2U * s->moves - 3;
	leeway_u64 slope_q16 = (gain << 16) / leeway_max_u64(leeway_mbit_q16(apart), 1);
	leeway_u64 change = leeway_min_u64(slope_q16 * m, 1ULL << 46) * 125000 >> 16;

	if (change <= most) {
		s->steps -= s->steps > 0;
		return change;
	}
	s->steps = (leeway_u8)leeway_min_u32(s->steps + 1U, 19);
	return most;
}

/* A new step of the search, at rate. */
LEEWAY_ALONE leeway_u32 leeway_proteus_step(struct leeway_proteus *s LEEWAY_NONNULL, leeway_u32 phase,
					    leeway_u64 rate, const struct leeway_path *path LEEWAY_NONNULL)
{
	leeway_u64 floor = leeway_floor_q16(&s->w, leeway_mss(path)) >> 8;
	leeway_u64 least = leeway_max_u64(floor * 1000000 / leeway_max_u64(s->base_us, 1) >> 8, 20);

	s->rate = leeway_min_u64(rate, LEEWAY_INTERVAL_RATE);
	if (rate <= least) { /* probing again from there is of no use: start */
		s->rate = least;
		s->steps = 0;
		phase = s->w.out.phase == LEEWAY_INFERENCE ? LEEWAY_SLOW_START : LEEWAY_INFERENCE;
	}
	s->w.out.phase = phase;
	s->begun = 0;
	s->judged = 0;
	s->wins = 0;
	s->sum_q16 = 0;
	return s->w.out.phase;
}

/* Two trials of a pair are known, the second one now: which rate was better? */
LEEWAY_INLINE void leeway_proteus_pair(struct leeway_proteus *s, leeway_s64 u_q16)
{
	leeway_s64 gain_q16 = s->ups >> s->judged & 1 ? u_q16 - s->judged_q16 : s->judged_q16 - u_q16;

	s->wins += gain_q16 > 0;
	s->sum_q16 += gain_q16;
	s->last_q16 = u_q16 > s->judged_q16 ? u_q16 : s->judged_q16;
}

/* All trials of this step are known. */
LEEWAY_ALONE leeway_u32 leeway_proteus_decide(struct leeway_proteus *s LEEWAY_NONNULL, leeway_s64 u_q16,
					      const struct leeway_path *path LEEWAY_NONNULL)
{
	int up = s->w.out.phase == LEEWAY_AVOIDANCE, better = u_q16 > s->last_q16;
	leeway_u64 rate = s->rate, change = rate > s->last_rate ? rate - s->last_rate : s->last_rate - rate;
	leeway_s64 gain_q16 = u_q16 - s->last_q16;

	if (better && s->w.out.phase != LEEWAY_INFERENCE)
		s->last_q16 = u_q16;
	if (s->w.out.phase == LEEWAY_SLOW_START) {
		leeway_proteus_step(s, better ? LEEWAY_SLOW_START : LEEWAY_INFERENCE,
				    better ? rate * 2 : rate / 2, path);
		return s->w.out.phase;
	}
	if (s->w.out.phase == LEEWAY_INFERENCE) {
		better = s->wins == 0 || s->wins == LEEWAY_PROTEUS_TRIALS / 2;
		up = s->wins != 0;
		gain_q16 = leeway_div_s64(s->sum_q16, LEEWAY_PROTEUS_TRIALS / 2);
		change = better ? rate / 10 : 0;
		rate = better ? rate / 20 * (up ? 21 : 19) : rate;
		s->moves = 0;
		s->steps = 0;
	}
	s->moves = (leeway_u8)leeway_min_u32(s->moves + (better ? 1U : 0U), 100);
	s->last_rate = rate;
	change = change ? leeway_proteus_change(s, gain_q16, change) : 0;
	leeway_proteus_step(s,
			    !better ? LEEWAY_INFERENCE
			    : up    ? LEEWAY_AVOIDANCE
				    : LEEWAY_YIELDING,
			    up == better ? rate + change : leeway_less(rate, change), path);
	return s->w.out.phase;
}

/* The next trial begins when the last one has had its time; after the last of a step r goes on. */
LEEWAY_ALONE leeway_u32 leeway_proteus_send(struct leeway_proteus *s LEEWAY_NONNULL, leeway_u64 now_us,
					    const struct leeway_path *path LEEWAY_NONNULL)
{
	leeway_u32 trials = s->w.out.phase == LEEWAY_INFERENCE ? LEEWAY_PROTEUS_TRIALS : 1, up;
	struct leeway_interval *i = &s->trial[(s->begun - 1U) & (LEEWAY_PROTEUS_TRIALS - 1)];
	leeway_u64 segments_us = LEEWAY_PROTEUS_SEGMENTS * 1000000ULL * leeway_mss(path);

	if (s->begun && !i->until_us && now_us - i->from_us >= i->span_us)
		i->until_us = now_us;
	if (s->begun >= trials || (s->begun && !i->until_us))
		return s->begun;
	s->chance = (s->chance ^ s->pace.average_us) * 1664525U + 1013904223U; /* Numerical Recipes, ranqd1 */
	up = s->begun & 1 ? !(s->ups >> (s->begun - 1) & 1) : s->chance >> 31;
	s->ups = (leeway_u8)((s->ups & ~(1U << s->begun)) | up << s->begun);
	i = &s->trial[s->begun++ & (LEEWAY_PROTEUS_TRIALS - 1)];
	leeway_interval_begin(
		i, now_us, leeway_max_u64(s->base_us, segments_us / leeway_proteus_rate(s, s->begun - 1U)));
	return s->begun;
}

/* Pacing and window; the window grows with what is acknowledged. */
LEEWAY_INLINE void leeway_proteus_output(struct leeway_proteus *s, leeway_u64 grown_bytes,
					 const struct leeway_path *path)
{
	leeway_u64 rtt_us = leeway_min_u64(leeway_max_u64(path->srtt_us, s->base_us), 1 << 24), window_q16;

	s->w.out.pacing_bytes_per_s = leeway_proteus_rate(
		s, s->begun && !s->trial[(s->begun - 1U) & (LEEWAY_PROTEUS_TRIALS - 1)].until_us
			   ? s->begun - 1U
			   : LEEWAY_PROTEUS_TRIALS);
	window_q16 = s->rate * rtt_us / 400000 << 16; /* 2.5 of what is in flight (PCC-Uspace) */
	window_q16 = leeway_max_u64(window_q16, leeway_floor_q16(&s->w, leeway_mss(path)));
	if (window_q16 < s->w.out.cwnd_q16)
		s->w.out.cwnd_q16 = window_q16;
	else
		leeway_raise(&s->w,
			     leeway_min_u64(window_q16 - s->w.out.cwnd_q16,
					    leeway_min_u64(grown_bytes, LEEWAY_WINDOW_MAX_BYTES) << 16));
}

/*
 * Puts what an ack says into the trials that its segments left in, and judges one that is complete.
 */
LEEWAY_ALONE leeway_u32 leeway_proteus_account(struct leeway_proteus *s LEEWAY_NONNULL,
					       const struct leeway_ack *ack LEEWAY_NONNULL,
					       const struct leeway_path *path LEEWAY_NONNULL)
{
	leeway_u64 sent_us = ack->now_us - ack->last_rtt_us;
	leeway_u64 late_us = 4 * 1000000ULL * leeway_mss(path) / s->rate;
	leeway_u32 lost_bytes = (leeway_u32)ack->rate.lost_bytes - s->lost_bytes, k;
	int counts = leeway_ack_pace_counts(&s->pace, ack) && ack->last_kind == LEEWAY_LAST_EXACT;
	struct leeway_interval *i = &s->trial[s->judged & (LEEWAY_PROTEUS_TRIALS - 1)];
	leeway_s64 u_q16;

	s->lost_bytes = (leeway_u32)ack->rate.lost_bytes;
	for (k = 0; k < LEEWAY_PROTEUS_TRIALS; k++) {
		if (k < s->begun && leeway_interval_has(&s->trial[k], sent_us)) {
			s->trial[k].acked_bytes += (leeway_u32)leeway_min_u64(ack->acked_bytes, 1 << 30);
			if (counts)
				leeway_interval_sample(&s->trial[k], sent_us, ack->last_rtt_us);
		}
		if (k < s->begun && leeway_interval_has(&s->trial[k], leeway_less(sent_us, late_us)))
			s->trial[k].lost_bytes += lost_bytes;
	}
	if (s->judged >= s->begun || !i->until_us || leeway_less(sent_us, late_us) < i->until_us)
		return s->judged;
	u_q16 = leeway_proteus_utility_q16(s, s->judged);
	if (s->judged & 1)
		leeway_proteus_pair(s, u_q16);
	s->judged_q16 = u_q16;
	s->judged++;
	if (s->w.out.phase != LEEWAY_INFERENCE || s->judged >= LEEWAY_PROTEUS_TRIALS)
		leeway_proteus_decide(s, u_q16, path);
	return s->judged;
}

LEEWAY_INLINE void leeway_proteus_on_ack(struct leeway_proteus *s, const struct leeway_ack *ack,
					 const struct leeway_path *path)
{
	leeway_u32 rtt_us = ack->last_kind ? ack->last_rtt_us : 0;

	if (rtt_us) {
		s->base_us = s->base_us && s->base_us < rtt_us ? s->base_us : rtt_us;
		s->w.out.queuing_delay_us = rtt_us - s->base_us;
		if (!s->rate)
			leeway_proteus_step(s, s->w.slow_start ? LEEWAY_SLOW_START : LEEWAY_INFERENCE,
					    (s->w.out.cwnd_q16 >> 16) * 1000000 / s->base_us, path);
		leeway_proteus_account(s, ack, path);
	}
	if (leeway_marked(&s->w, ack, path)) {
		leeway_lower(&s->w, s->w.out.cwnd_q16 / 2, leeway_mss(path));
		leeway_reacted(&s->w, ack->now_us);
		if (s->rate)
			leeway_proteus_step(s, LEEWAY_INFERENCE, s->rate / 2, path);
	}
	if (!s->rate)
		return;
	if (ack->app_limited) /* what was sent says nothing of the rate */
		s->begun = s->judged = s->wins = 0;
	leeway_proteus_send(s, ack->now_us, path);
	leeway_proteus_output(s, ack->app_limited ? 0 : ack->acked_bytes, path);
}

LEEWAY_INLINE void leeway_proteus_on_loss(struct leeway_proteus *s, const struct leeway_loss *loss,
					  const struct leeway_path *path)
{
	if (loss->kind != LEEWAY_LOSS_TIMEOUT) /* the utility has it */
		return;
	s->w.out.cwnd_q16 = leeway_min_u64(s->w.out.cwnd_q16, (leeway_u64)leeway_mss(path) << 16);
	if (s->rate)
		leeway_proteus_step(s, LEEWAY_SLOW_START, 0, path);
	s->w.out.phase = LEEWAY_SLOW_START;
	s->last_q16 = 0;
}

#endif
