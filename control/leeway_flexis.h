/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * TCP FlexiS (Li 2023): takes a rise of the round-trip times for congestion, so that no base delay
 * has to be known.
 *
 *	trend:     median of (r_j - r_i) / (t_j - t_i) over all pairs of points i < j	(Theil-Sen)
 *	>= theta:  W = gamma W
 *	otherwise: r(t) = r0 + floor(t / alpha)^3 + floor(t / beta)	(segments/s)
 *		   W = max(W, r(t) m), pace = r(t + m) / r(t) x W / srtt
 *
 * A point stands for a millisecond t_i in which segments left; r_i is the median of their
 * round-trip times. Points of the last tau count. t: since the first observation without a trend;
 * r0: W / m then; m: the smallest round-trip time since the last decrease.
 *
 *	observing (inference)	W stands still until the points span tau
 *	increasing (avoidance)	r grows; each new point is a new observation
 *	decreased (yielding)	until what left after the decrease is acked; then a new start
 *
 * The median is >= theta where more than half of the slopes are, and slope (i, j) is >= theta
 * where u_j >= u_i, with u = r - theta t. So a point is one number, and a count stands for the
 * sorted list of the slopes.
 *
 * Scope and limitations:
 * - From the author's module for Linux (docs/laws/flexis.md). Where just half of the slopes are
 *   >= theta, the module takes the mean of the two in the middle; here that is no trend.
 * - The median of a millisecond is that of its first eight samples.
 * - slow_start=standard is our own: W doubles until the first trend, loss or mark, at twice the
 *   pace.
 * - Windows are not rounded to whole segments; no ack adds more than it acknowledged; no pace is
 *   above 10 W / srtt.
 */
#ifndef LEEWAY_FLEXIS_H
#define LEEWAY_FLEXIS_H

#include "leeway_window.h"

#define LEEWAY_FLEXIS_POINTS           64U /* tau has no more milliseconds; a power of two */
#define LEEWAY_FLEXIS_SAMPLES          8U  /* of a millisecond; a power of two */
#define LEEWAY_FLEXIS_GAP_MS           255U
#define LEEWAY_FLEXIS_IDLE_MS          1000U      /* and two round trips without a sample: idle */
#define LEEWAY_FLEXIS_RATE             (1U << 26) /* largest r, segments/s */
#define LEEWAY_FLEXIS_RTT_US           (1U << 24) /* largest m */
#define LEEWAY_FLEXIS_PERCENT          1000U      /* largest pace, of W / srtt */
#define LEEWAY_FLEXIS_ON_LOSS_PERMILLE 500U       /* of W, as Reno */

struct leeway_flexis_params {
	struct leeway_window_config window;
	leeway_u32 sigma; /* slopes without which there is no trend */
	leeway_u32 tau_us;
	leeway_u32 theta_permille; /* us of round trip each ms of leaving */
	leeway_u32 alpha_us;
	leeway_u32 beta_us;
	leeway_u32 gamma_permille;
};

struct leeway_flexis {
	struct leeway_window w;
	leeway_u64 since_us;                         /* when the increase began (avoidance) */
	leeway_u32 rate;                             /* r0, segments/s */
	leeway_u32 min_us;                           /* m; 0: no sample yet */
	leeway_u32 level_us[LEEWAY_FLEXIS_POINTS];   /* u of the points, a ring, modulo 2^32 */
	leeway_u32 sample_us[LEEWAY_FLEXIS_SAMPLES]; /* of the millisecond now, in ascending order */
	leeway_u32 sampled_ms;                       /* when their segments left, modulo 2^32 */
	leeway_u32 newest_ms;                        /* the newest point */
	leeway_u32 span_ms;                          /* from the oldest point to the newest */
	leeway_u32 alpha_us, beta_us;
	leeway_u16 rising; /* slopes >= theta */
	leeway_u16 sigma, theta_permille, gamma_permille;
	leeway_u8 gap_ms[LEEWAY_FLEXIS_POINTS]; /* since the point before */
	leeway_u8 oldest, points, samples, tau_ms;
};

/* Nothing is known of the path. */
LEEWAY_INLINE void leeway_flexis_restart(struct leeway_flexis *s, leeway_u32 phase)
{
	s->w.out.phase = phase;
	s->min_us = 0;
	s->span_ms = 0;
	s->rising = 0;
	s->points = 0;
	s->samples = 0;
}

LEEWAY_INLINE void leeway_flexis_init(struct leeway_flexis *s, const struct leeway_flexis_params *p,
				      const struct leeway_path *path)
{
	__builtin_memset(s, 0, sizeof(*s));
	leeway_window_init(&s->w, &p->window, path);
	s->sigma = (leeway_u16)leeway_clamp_u32(p->sigma, 1, 2016);
	s->tau_ms = (leeway_u8)leeway_clamp_u32(p->tau_us / 1000, 2, LEEWAY_FLEXIS_POINTS);
	s->theta_permille = (leeway_u16)leeway_clamp_u32(p->theta_permille, 1, 1000);
	s->alpha_us = leeway_clamp_u32(p->alpha_us, 1000, 10000000);
	s->beta_us = leeway_clamp_u32(p->beta_us, 1000, 10000000);
	s->gamma_permille = (leeway_u16)leeway_clamp_u32(p->gamma_permille, 1, 999);
	leeway_flexis_restart(s, LEEWAY_INFERENCE);
}

/*
 * Whether the slope between the k-th point and one of this level is >= theta; the latter comes
 * before it, or after it.
 */
LEEWAY_ALONE leeway_u32 leeway_flexis_rises(const struct leeway_flexis *s LEEWAY_NONNULL, leeway_u32 k,
					    leeway_u32 level_us, leeway_u32 before)
{
	leeway_u32 other_us = s->level_us[(s->oldest + k) & (LEEWAY_FLEXIS_POINTS - 1)];

	if (k >= s->points)
		return 0;
	return before ? !leeway_before_u32(other_us, level_us) : !leeway_before_u32(level_us, other_us);
}

LEEWAY_ALONE leeway_u32 leeway_flexis_rising(const struct leeway_flexis *s LEEWAY_NONNULL,
					     leeway_u32 level_us, leeway_u32 before)
{
	leeway_u32 k, count = 0;

	for (k = 0; k < LEEWAY_FLEXIS_POINTS; k++)
		count += leeway_flexis_rises(s, k, level_us, before);
	return count;
}

/* A sample at place k of the ascending order, if it fits there. Returns the one that goes on. */
LEEWAY_ALONE leeway_u32 leeway_flexis_place(struct leeway_flexis *s LEEWAY_NONNULL, leeway_u32 k,
					    leeway_u32 rtt_us)
{
	leeway_u32 other_us = s->sample_us[k & (LEEWAY_FLEXIS_SAMPLES - 1)];

	if (k < s->samples && other_us <= rtt_us)
		return rtt_us;
	s->sample_us[k & (LEEWAY_FLEXIS_SAMPLES - 1)] = rtt_us;
	return other_us;
}

/* A sample of the millisecond now. */
LEEWAY_INLINE void leeway_flexis_sample(struct leeway_flexis *s, leeway_u32 rtt_us)
{
	leeway_u32 k;

	if (s->samples >= LEEWAY_FLEXIS_SAMPLES)
		return;
	for (k = 0; k < LEEWAY_FLEXIS_SAMPLES; k++)
		rtt_us = leeway_flexis_place(s, k, rtt_us);
	s->samples++;
}

/* The millisecond is over and becomes a point. Returns how many there are. */
LEEWAY_ALONE leeway_u32 leeway_flexis_point(struct leeway_flexis *s LEEWAY_NONNULL)
{
	leeway_u32 low_us = s->sample_us[((s->samples - 1U) / 2) & (LEEWAY_FLEXIS_SAMPLES - 1)];
	leeway_u32 high_us = s->sample_us[(s->samples / 2U) & (LEEWAY_FLEXIS_SAMPLES - 1)];
	leeway_u32 level_us = low_us + (high_us - low_us) / 2 - s->sampled_ms * s->theta_permille;
	leeway_u32 at = (s->oldest + s->points) & (LEEWAY_FLEXIS_POINTS - 1);
	leeway_u32 gap_ms = s->points ? s->sampled_ms - s->newest_ms : 0;

	s->rising = (leeway_u16)(s->rising + leeway_flexis_rising(s, level_us, 0));
	s->level_us[at] = level_us;
	s->gap_ms[at] = (leeway_u8)leeway_min_u32(gap_ms, LEEWAY_FLEXIS_GAP_MS);
	s->span_ms += s->gap_ms[at];
	s->newest_ms = s->sampled_ms;
	s->samples = 0;
	s->points = (leeway_u8)leeway_min_u32(s->points + 1U, LEEWAY_FLEXIS_POINTS);
	return s->points;
}

/* The oldest point leaves, and the slopes from it. */
LEEWAY_INLINE void leeway_flexis_forget(struct leeway_flexis *s)
{
	leeway_u32 level_us = s->level_us[s->oldest & (LEEWAY_FLEXIS_POINTS - 1)];

	/* It is among the points, and no less than itself. */
	s->rising = (leeway_u16)(s->rising + 1U - leeway_flexis_rising(s, level_us, 1));
	s->oldest = (leeway_u8)((s->oldest + 1U) & (LEEWAY_FLEXIS_POINTS - 1));
	s->points--;
	s->span_ms -= s->gap_ms[s->oldest & (LEEWAY_FLEXIS_POINTS - 1)];
}

/* r(t), segments/s. */
LEEWAY_INLINE leeway_u64 leeway_flexis_rate(const struct leeway_flexis *s, leeway_u64 now_us)
{
	leeway_u64 t_us = now_us - s->since_us;
	leeway_u64 cubic = leeway_min_u64(t_us / s->alpha_us, 1 << 10);

	return leeway_max_u64(
		leeway_min_u64(s->rate + cubic * cubic * cubic + t_us / s->beta_us, LEEWAY_FLEXIS_RATE), 1);
}

/* The increase begins with the rate that W has now. */
LEEWAY_INLINE void leeway_flexis_begin(struct leeway_flexis *s, leeway_u64 now_us, leeway_u32 mss)
{
	leeway_u64 segments_s = (s->w.out.cwnd_q16 >> 16) * 1000000 / mss / leeway_max_u64(s->min_us, 1);

	s->w.out.phase = LEEWAY_AVOIDANCE;
	s->since_us = now_us;
	s->rate = (leeway_u32)leeway_min_u64(segments_s, LEEWAY_FLEXIS_RATE);
}

/* The points span tau, and one of them is new. */
LEEWAY_INLINE void leeway_flexis_decide(struct leeway_flexis *s, leeway_u64 now_us, leeway_u32 mss)
{
	leeway_u32 slopes = s->points * (s->points - 1U) / 2;

	if (slopes >= s->sigma && 2U * s->rising > slopes) {
		leeway_yield(&s->w, s->w.out.cwnd_q16 / 1000 * (1000U - s->gamma_permille), mss);
		leeway_reacted(&s->w, now_us);
		leeway_flexis_restart(s, LEEWAY_YIELDING);
		return;
	}
	if (s->w.out.phase != LEEWAY_AVOIDANCE)
		leeway_flexis_begin(s, now_us, mss);
	leeway_flexis_forget(s);
}

/* W = max(W, r m). */
LEEWAY_INLINE void leeway_flexis_grow(struct leeway_flexis *s, const struct leeway_ack *ack, leeway_u32 mss)
{
	/* r < 2^27, m <= 2^24: 2^16/10^6 = 2^10/5^6, and m r / 10^6 < 2^31 segments */
	leeway_u64 segments_q16 = (leeway_flexis_rate(s, ack->now_us) * s->min_us << 10) / 15625;
	leeway_u64 more_q16 = leeway_less(segments_q16 * mss, s->w.out.cwnd_q16);

	leeway_raise(&s->w, leeway_min_u64(more_q16, leeway_min_u64(ack->acked_bytes, LEEWAY_WINDOW_MAX_BYTES)
							     << 16));
}

/* A round trip of a segment that left at sent_us. Returns the phase. */
LEEWAY_ALONE leeway_u32 leeway_flexis_observe(struct leeway_flexis *s LEEWAY_NONNULL,
					      const struct leeway_ack *ack LEEWAY_NONNULL, leeway_u64 sent_us,
					      const struct leeway_path *path LEEWAY_NONNULL)
{
	leeway_u32 sent_ms = (leeway_u32)(sent_us / 1000), later_ms = sent_ms - s->sampled_ms;
	leeway_u32 rtt_us = leeway_clamp_u32(ack->last_rtt_us, 1, LEEWAY_FLEXIS_RTT_US);

	if (s->w.out.phase == LEEWAY_YIELDING)
		s->w.out.phase = LEEWAY_INFERENCE;
	if (s->samples && later_ms >> 31) /* an earlier segment, acked later */
		return s->w.out.phase;
	if (s->samples && later_ms > LEEWAY_FLEXIS_IDLE_MS + path->srtt_us / 500)
		leeway_flexis_restart(s, LEEWAY_INFERENCE);
	if (s->samples && later_ms && leeway_flexis_point(s) >= 2 && s->span_ms + 1 >= s->tau_ms) {
		leeway_flexis_decide(s, ack->now_us, leeway_mss(path));
		if (s->w.out.phase == LEEWAY_YIELDING)
			return LEEWAY_YIELDING;
	}
	s->sampled_ms = sent_ms;
	leeway_flexis_sample(s, rtt_us);
	s->min_us = s->min_us && s->min_us < rtt_us ? s->min_us : rtt_us;
	return s->w.out.phase;
}

/* W / srtt, and faster by as much as r grows in m. */
LEEWAY_INLINE void leeway_flexis_pace(struct leeway_flexis *s, leeway_u64 now_us,
				      const struct leeway_path *path)
{
	leeway_u64 window = leeway_min_u64(s->w.out.cwnd_q16 >> 16, LEEWAY_WINDOW_MAX_BYTES);
	leeway_u64 rate, percent = leeway_in_slow_start(&s->w) ? 200 : 100;

	if (percent == 100 && s->w.out.phase == LEEWAY_AVOIDANCE) {
		rate = leeway_flexis_rate(s, now_us);
		percent = (leeway_flexis_rate(s, now_us + s->min_us) * 100 + rate - 1) / rate;
	}
	percent = leeway_min_u64(percent, LEEWAY_FLEXIS_PERCENT);
	s->w.out.pacing_bytes_per_s = path->srtt_us ? window * percent * 10000 / path->srtt_us : 0;
}

LEEWAY_INLINE void leeway_flexis_on_ack(struct leeway_flexis *s, const struct leeway_ack *ack,
					const struct leeway_path *path)
{
	leeway_u64 sent_us = leeway_less(ack->now_us, ack->last_rtt_us);
	int slow;

	if (leeway_marked(&s->w, ack, path)) {
		leeway_back_off(&s->w, LEEWAY_FLEXIS_ON_LOSS_PERMILLE, leeway_mss(path), ack->now_us);
		leeway_flexis_restart(s, LEEWAY_YIELDING);
	}
	if (ack->last_kind && !ack->recovering && sent_us >= s->w.reacted_us)
		leeway_flexis_observe(s, ack, sent_us, path);
	slow = leeway_in_slow_start(&s->w);
	if (slow && leeway_may_grow(ack))
		leeway_slow_start(&s->w, ack->acked_bytes, leeway_mss(path));
	if (s->w.out.phase == LEEWAY_AVOIDANCE && (slow || ack->app_limited))
		leeway_flexis_begin(s, ack->now_us, leeway_mss(path));
	else if (s->w.out.phase == LEEWAY_AVOIDANCE && leeway_may_grow(ack))
		leeway_flexis_grow(s, ack, leeway_mss(path));
	leeway_flexis_pace(s, ack->now_us, path);
}

LEEWAY_INLINE void leeway_flexis_on_loss(struct leeway_flexis *s, const struct leeway_loss *loss,
					 const struct leeway_path *path)
{
	if (loss->kind == LEEWAY_LOSS_TIMEOUT || leeway_new_loss(&s->w, loss)) {
		leeway_reno_on_loss(&s->w, loss, LEEWAY_FLEXIS_ON_LOSS_PERMILLE, leeway_mss(path));
		leeway_flexis_restart(s, LEEWAY_YIELDING);
	}
	leeway_flexis_pace(s, loss->now_us, path);
}

#endif
