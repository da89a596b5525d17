/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * TCP-LP (Kuzmanovic and Knightly 2003): Reno that yields to an early indication of congestion.
 *
 *	smoothed one-way delay >= min + threshold (max - min): W / 2 and an inference period of 3 round trips without
 *	growth; an indication inside it: W = 1
 *
 * Scope and limitations:
 * - max keeps the second largest delay, as Linux does ("always forget the max of the max").
 * - An indication counts once per round trip: the delay needs that long to show the reaction, and
 *   with every ack counted (indication=ack, the paper's pseudo-code to the letter) each W / 2 is
 *   followed by W = 1 at once.
 * - reset=on is the Linux flavour: an indication also sets min to the smoothed delay and max to
 *   twice that. One-way delays have an unknown offset, so "twice" is taken of min_rtt / 2 +
 *   (smoothed - min), or of the round-trip time. Linux also begins the period anew with every
 *   indication; so does reset=on.
 * - The indication is an estimate from one flow's own samples; it has no meaning before two
 *   different delays.
 * - The paper leaves open when the range of delays is known well enough. With warmup=on the first
 *   slow start runs to its first loss or mark without inference and so sees the whole queue; with
 *   warmup=off a flow takes the queue of its own bursts of two packets for congestion and stays
 *   below a tenth of an idle link.
 */
#ifndef LEEWAY_LP_H
#define LEEWAY_LP_H

#include "leeway_delay.h"
#include "leeway_window.h"

enum leeway_lp_indication {
	LEEWAY_LP_PER_RTT = 0,
	LEEWAY_LP_PER_ACK = 1,
};

struct leeway_lp_params {
	struct leeway_window_config window;
	leeway_u32 threshold_permille; /* part of max - min */
	leeway_u32 inference_permille; /* length of the inference period in round trips */
	leeway_u32 indication;         /* enum leeway_lp_indication */
	leeway_u32 reset;              /* 1: Linux */
	leeway_u32 warmup;             /* 1: no inference in the first slow start */
	leeway_u32 delay;              /* enum leeway_delay_source */
};

struct leeway_lp {
	struct leeway_window w;
	leeway_u64 inference_us; /* end of the inference period; 0: none */
	leeway_u64 indicated_us; /* when the last indication counted */
	leeway_u32 min_us;       /* smallest delay */
	leeway_u32 max_us;       /* second largest delay */
	leeway_u32 largest_us;   /* largest delay */
	leeway_u32 smoothed_us;  /* EWMA, weight 1/8 */
	leeway_u32 threshold_permille;
	leeway_u32 inference_permille;
	struct leeway_source source;
	leeway_u8 sampled; /* the delays above are valid */
	leeway_u8 per_ack;
	leeway_u8 reset;
	leeway_u8 warmup;
	struct leeway_current current;
};

LEEWAY_INLINE void leeway_lp_init(struct leeway_lp *s, const struct leeway_lp_params *p,
				  const struct leeway_path *path)
{
	leeway_window_init(&s->w, &p->window, path);
	leeway_source_init(&s->source, p->delay);
	leeway_current_init(&s->current, LEEWAY_FILTER_EWMA, 8);
	s->inference_us = 0;
	s->indicated_us = 0;
	s->min_us = 0;
	s->max_us = 0;
	s->largest_us = 0;
	s->smoothed_us = 0;
	s->threshold_permille = leeway_min_u32(p->threshold_permille, 1000);
	s->inference_permille = leeway_min_u32(p->inference_permille, LEEWAY_GAIN_MAX_PERMILLE);
	s->sampled = 0;
	s->per_ack = p->indication == LEEWAY_LP_PER_ACK;
	s->reset = p->reset != 0;
	s->warmup = p->warmup != 0;
}

LEEWAY_INLINE void leeway_lp_measure(struct leeway_lp *s, leeway_u64 now_us, leeway_u32 sample_us)
{
	if (!s->sampled) {
		s->sampled = 1;
		s->min_us = sample_us;
		s->max_us = sample_us;
		s->largest_us = sample_us;
		leeway_current_init(&s->current, LEEWAY_FILTER_EWMA, 8);
	}
	if (leeway_before_u32(sample_us, s->min_us))
		s->min_us = sample_us;
	if (leeway_before_u32(s->largest_us, sample_us)) {
		s->max_us = s->largest_us;
		s->largest_us = sample_us;
	} else if (leeway_before_u32(s->max_us, sample_us)) {
		s->max_us = sample_us;
	}
	s->smoothed_us = leeway_current_update(&s->current, now_us, sample_us, 0);
	s->w.out.queuing_delay_us =
		leeway_before_u32(s->smoothed_us, s->min_us) ? 0 : s->smoothed_us - s->min_us;
}

/* Whether the smoothed delay is above the threshold, once the range of delays is known. */
LEEWAY_INLINE int leeway_lp_congested(const struct leeway_lp *s)
{
	leeway_u64 range_us = s->max_us - s->min_us;

	if (s->warmup && leeway_in_slow_start(&s->w) && s->w.out.ssthresh_bytes == LEEWAY_UNLIMITED)
		return 0;
	return range_us && s->w.out.queuing_delay_us * 1000ULL >= range_us * s->threshold_permille;
}

/* Linux: what is normal now becomes the minimum. */
LEEWAY_INLINE void leeway_lp_forget(struct leeway_lp *s, const struct leeway_path *path)
{
	leeway_u32 base_us = s->source.one_way ? path->min_rtt_us / 2 : path->min_rtt_us;
	leeway_u64 delay_us = (leeway_u64)base_us + s->w.out.queuing_delay_us;

	s->min_us = s->smoothed_us;
	s->max_us = s->smoothed_us + (leeway_u32)leeway_min_u64(delay_us, 0x7fffffffU);
	s->largest_us = s->max_us;
	s->w.out.queuing_delay_us = 0;
}

LEEWAY_INLINE void leeway_lp_yield(struct leeway_lp *s, leeway_u64 now_us, const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);
	leeway_u32 rtt_us = path->srtt_us ? path->srtt_us : 1000000;
	leeway_u64 one_q16 = (leeway_u64)mss << 16;
	int inside = now_us < s->inference_us;

	if (s->indicated_us && !s->per_ack && now_us - s->indicated_us < rtt_us)
		return;
	s->indicated_us = now_us;
	if (inside) {
		leeway_set_ssthresh(&s->w, 500, mss);
		s->w.out.cwnd_q16 = leeway_min_u64(s->w.out.cwnd_q16, one_q16);
		leeway_reacted(&s->w, now_us);
	} else {
		leeway_back_off(&s->w, 500, mss, now_us);
	}
	if (!inside || s->reset)
		s->inference_us = now_us + (leeway_u64)rtt_us * s->inference_permille / 1000;
	if (s->reset)
		leeway_lp_forget(s, path);
}

LEEWAY_INLINE void leeway_lp_on_ack(struct leeway_lp *s, const struct leeway_ack *ack,
				    const struct leeway_path *path)
{
	enum leeway_sample what = leeway_source_look(&s->source, ack);
	leeway_u32 mss = leeway_mss(path);

	if (what == LEEWAY_SAMPLE_FIRST)
		s->sampled = 0;
	if (what != LEEWAY_SAMPLE_NONE)
		leeway_lp_measure(s, ack->now_us, leeway_source_us(&s->source, ack));
	if (leeway_marked(&s->w, ack, path)) {
		leeway_back_off(&s->w, 500, mss, ack->now_us);
		return;
	}
	if (what != LEEWAY_SAMPLE_NONE && leeway_lp_congested(s))
		leeway_lp_yield(s, ack->now_us, path);
	if (ack->now_us < s->inference_us)
		s->w.out.phase = LEEWAY_INFERENCE;
	else if (leeway_may_grow(ack))
		leeway_reno_grow(&s->w, ack->acked_bytes, mss);
	else if (s->w.out.phase == LEEWAY_INFERENCE)
		s->w.out.phase = LEEWAY_AVOIDANCE;
}

LEEWAY_INLINE void leeway_lp_on_loss(struct leeway_lp *s, const struct leeway_loss *loss,
				     const struct leeway_path *path)
{
	leeway_reno_on_loss(&s->w, loss, 500, leeway_mss(path));
}

#endif
