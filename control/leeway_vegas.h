/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Vegas (Brakmo and Peterson 1995): keeps alpha to beta segments of its own in the queue.
 *
 *	diff = W (R - base) / R, once per round trip: below alpha W + 1, above beta W - 1
 *
 * The round's R is its smallest sample (Linux) or the mean (ns-2); base is the smallest ever seen.
 *
 * Scope and limitations:
 * - alpha, beta, gamma are 2, 4, 1 as in Linux; ns-2 uses 1, 3, 1.
 * - Slow start doubles every second round trip (Brakmo 1995, 3.3) and ends when diff > gamma, with
 *   the window cut to W base / R + 1 as Linux does.
 * - No special retransmissions: loss is handled like Reno. A round that saw recovery takes no step.
 * - The base round-trip time never grows: a route that becomes longer looks like a queue.
 * - With fewer than three samples a round Linux falls back to Reno; here one sample is enough.
 */
#ifndef LEEWAY_VEGAS_H
#define LEEWAY_VEGAS_H

#include "leeway_window.h"

enum leeway_vegas_sample {
	LEEWAY_VEGAS_MIN = 0,  /* Linux */
	LEEWAY_VEGAS_MEAN = 1, /* Brakmo 1995, ns-2 */
};

struct leeway_vegas_params {
	struct leeway_window_config window;
	leeway_u32 alpha_permille; /* segments */
	leeway_u32 beta_permille;  /* segments */
	leeway_u32 gamma_permille; /* segments */
	leeway_u32 sample;         /* enum leeway_vegas_sample */
};

struct leeway_vegas {
	struct leeway_window w;
	leeway_u64 grown_bytes;   /* acked in this round by acks that may grow the window */
	leeway_u64 sum_us;        /* of the round's samples */
	leeway_u32 samples;       /* of the round */
	leeway_u32 round_us;      /* the smallest of them; ~0: none */
	leeway_u32 base_us;       /* the smallest ever; ~0: none */
	leeway_u32 diff_permille; /* of the last round, thousandths of a segment */
	leeway_u32 alpha_permille;
	leeway_u32 beta_permille;
	leeway_u32 gamma_permille;
	leeway_u8 sample;
	leeway_u8 doubling;  /* slow start: this round grows, the next one looks */
	leeway_u8 recovered; /* the round saw recovery */
	leeway_u8 reserved;
};

LEEWAY_INLINE void leeway_vegas_new_round(struct leeway_vegas *s)
{
	s->grown_bytes = 0;
	s->sum_us = 0;
	s->samples = 0;
	s->round_us = ~0U;
	s->recovered = 0;
}

LEEWAY_INLINE void leeway_vegas_init(struct leeway_vegas *s, const struct leeway_vegas_params *p,
				     const struct leeway_path *path)
{
	leeway_window_init(&s->w, &p->window, path);
	s->alpha_permille = leeway_min_u32(p->alpha_permille, 1000000);
	s->beta_permille = leeway_clamp_u32(p->beta_permille, s->alpha_permille, 1000000);
	s->gamma_permille = leeway_min_u32(p->gamma_permille, 1000000);
	s->sample = p->sample == LEEWAY_VEGAS_MEAN ? LEEWAY_VEGAS_MEAN : LEEWAY_VEGAS_MIN;
	s->base_us = ~0U;
	s->diff_permille = 0;
	s->doubling = 1;
	s->reserved = 0;
	leeway_vegas_new_round(s);
}

LEEWAY_INLINE void leeway_vegas_measure(struct leeway_vegas *s, const struct leeway_ack *ack)
{
	if (ack->recovering)
		s->recovered = 1;
	if (!ack->rtt_us)
		return;
	s->base_us = leeway_min_u32(s->base_us, ack->rtt_us);
	s->round_us = leeway_min_u32(s->round_us, ack->rtt_us);
	s->sum_us += ack->rtt_us;
	s->samples++;
	s->w.out.queuing_delay_us = ack->rtt_us - s->base_us;
}

/* part / whole in q16, for part <= whole. */
LEEWAY_INLINE leeway_u32 leeway_vegas_fraction_q16(leeway_u32 part, leeway_u32 whole)
{
	return whole ? (leeway_u32)(((leeway_u64)part << 16) / whole) : 0;
}

/* The decision at the end of a round that brought samples. */
LEEWAY_INLINE void leeway_vegas_step(struct leeway_vegas *s, const struct leeway_ack *ack, leeway_u32 mss)
{
	leeway_u64 one_q16 = (leeway_u64)mss << 16;
	leeway_u64 step_q16 = leeway_min_u64(s->grown_bytes, mss) << 16;
	leeway_u32 round_us = s->round_us;
	leeway_u64 queued_q16;

	if (s->sample == LEEWAY_VEGAS_MEAN)
		round_us = (leeway_u32)(s->sum_us / s->samples);
	queued_q16 = (s->w.out.cwnd_q16 >> 16) * leeway_vegas_fraction_q16(round_us - s->base_us, round_us);
	s->diff_permille = (leeway_u32)leeway_min_u64((queued_q16 / mss) * 1000 >> 16, ~0U);
	if (leeway_in_slow_start(&s->w)) {
		s->doubling = !s->doubling;
		if (s->diff_permille <= s->gamma_permille)
			return;
		leeway_lower(&s->w, leeway_less(queued_q16, one_q16), mss);
		s->w.out.ssthresh_bytes = leeway_min_u64(s->w.out.ssthresh_bytes, s->w.out.cwnd_q16 >> 16);
		s->w.out.phase = LEEWAY_AVOIDANCE;
		return;
	}
	s->w.out.phase = LEEWAY_AVOIDANCE;
	if (s->diff_permille < s->alpha_permille) {
		if (leeway_may_grow(ack))
			leeway_raise(&s->w, step_q16);
	} else if (s->diff_permille > s->beta_permille) {
		s->w.out.phase = LEEWAY_YIELDING;
		leeway_lower(&s->w, one_q16, mss);
	}
}

/* Slow start within a round, and the step at its end. */
LEEWAY_INLINE void leeway_vegas_advance(struct leeway_vegas *s, const struct leeway_ack *ack, leeway_u32 mss)
{
	if (ack->round_start) {
		if (s->samples && !s->recovered)
			leeway_vegas_step(s, ack, mss);
		leeway_vegas_new_round(s);
	}
	if (!leeway_may_grow(ack))
		return;
	if (!leeway_in_slow_start(&s->w)) {
		s->grown_bytes += leeway_min_u64(ack->acked_bytes, LEEWAY_WINDOW_MAX_BYTES);
		return;
	}
	s->w.out.phase = LEEWAY_SLOW_START;
	if (s->doubling)
		leeway_slow_start(&s->w, ack->acked_bytes, mss);
}

LEEWAY_INLINE void leeway_vegas_on_ack(struct leeway_vegas *s, const struct leeway_ack *ack,
				       const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);

	if (leeway_marked(&s->w, ack, path)) {
		leeway_back_off(&s->w, 500, mss, ack->now_us);
		leeway_vegas_new_round(s);
	} else {
		leeway_vegas_advance(s, ack, mss);
	}
	leeway_vegas_measure(s, ack);
}

LEEWAY_INLINE void leeway_vegas_on_loss(struct leeway_vegas *s, const struct leeway_loss *loss,
					const struct leeway_path *path)
{
	leeway_reno_on_loss(&s->w, loss, 500, leeway_mss(path));
	s->doubling = 1;
	s->recovered = 1;
}

#endif
