/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * CUBIC (RFC 9438), the flavour that ran around 2010 by parameters, and HyStart++ (RFC 9406) as an
 * option.
 *
 *	W_cubic(t) = C (t - K)^3 + W_max,  K = cbrt((W_max - cwnd_epoch) / C)        (RFC 9438, eq. 1, 2)
 *
 * Times are in units of 2^-12 s (q12), windows in bytes q16.
 *
 * Scope and limitations:
 * - flavour=2010 is what Linux 2.6.x and ns-2 ran: beta 0.8, the Reno-friendly increase keeps its
 *   factor for ever, the target is not limited to 1.5 cwnd, t is not advanced by a round trip, and
 *   ACKs count by the estimate below.
 * - ack_ratio=estimate: a running mean of packets per ACK with 4 fractional bits that begins at 2.
 *   Its integer arithmetic rests at 31/16 where each packet has an ACK: the window grows almost
 *   twice as fast as meant.
 * - Time during which the law may not grow (recovery, application-limited) does not count (RFC
 *   9438, 5.8).
 * - K and t are limited to 8192 s; the cube is exact to a thousandth of a segment.
 * - W_est starts from the window at the first ack of congestion avoidance, not at the loss itself.
 * - Spurious losses (RFC 9438, 4.9) are the stack's to undo.
 */
#ifndef LEEWAY_CUBIC_H
#define LEEWAY_CUBIC_H

#include "leeway_hystart.h"
#include "leeway_window.h"

enum leeway_cubic_flavour {
	LEEWAY_CUBIC_RFC9438 = 0,
	LEEWAY_CUBIC_2010 = 1,
};

enum leeway_cubic_acks {
	LEEWAY_CUBIC_ACKS_AUTO = 0, /* exact in RFC 9438, estimated in the 2010 flavour */
	LEEWAY_CUBIC_ACKS_EXACT = 1,
	LEEWAY_CUBIC_ACKS_ESTIMATE = 2,
};

struct leeway_cubic_params {
	struct leeway_window_config window;
	leeway_u32 flavour;          /* enum leeway_cubic_flavour */
	leeway_u32 c_permille;       /* C, segments per second cubed */
	leeway_u32 beta_permille;    /* window left after a loss; 0: 700, or 800 for the 2010 flavour */
	leeway_u32 fast_convergence; /* 1: RFC 9438, 4.7 */
	leeway_u32 friendly;         /* 1: RFC 9438, 4.3 */
	leeway_u32 hystart;          /* 1: HyStart++ in the first slow start */
	leeway_u32 ack_ratio;        /* enum leeway_cubic_acks */
};

struct leeway_cubic {
	struct leeway_window w;
	leeway_u64 epoch_us;     /* start of the epoch, moved on while the law may not grow */
	leeway_u64 last_us;      /* time of the last ack */
	leeway_u64 max_q16;      /* W_max */
	leeway_u64 prior_q16;    /* cwnd_prior: window before the last reaction */
	leeway_u64 estimate_q16; /* W_est */
	leeway_u64 estimate_carry;
	leeway_u32 k_q12; /* K in units of 2^-12 s */
	leeway_u32 c_permille;
	leeway_u32 beta_permille;
	leeway_u32 alpha_q16; /* 3 (1 - beta) / (1 + beta) */
	leeway_u8 in_epoch;   /* epoch_us, k_q12 and estimate_q16 are valid */
	leeway_u8 timed_out;  /* the next epoch starts at its own plateau (RFC 9438, 4.8) */
	leeway_u8 flavour;
	leeway_u8 fast_convergence;
	leeway_u8 friendly;
	leeway_u8 hystart_on;
	leeway_u8 exact; /* an ACK counts by its bytes */
	leeway_u8 reserved;
	leeway_u32 ratio_q4;      /* packets per ACK */
	leeway_u32 counted_bytes; /* what an ACK counts for by that; 0 where it counts by its bytes */
	struct leeway_hystart hystart;
};

#define LEEWAY_CUBIC_LONGEST_Q12 (1U << 25) /* 8192 s */

/* Packets per ACK before any is known (Linux 2.6.22, bictcp_reset). */
#define LEEWAY_CUBIC_RATIO_FIRST_Q4 32U

/* Cube root of a number below 2^63, rounded down. */
LEEWAY_ALONE leeway_u32 leeway_cube_root(leeway_u64 x)
{
	leeway_u64 root = 0, trial;
	leeway_u32 bit;

	for (bit = 0; bit < 21; bit++) {
		trial = root | 1ULL << (20 - bit);
		if (trial * trial * trial <= x)
			root = trial;
	}
	return (leeway_u32)root;
}

/* K for a window that is below_q16 bytes below W_max: cbrt(segments / C) in units of 2^-12 s. */
LEEWAY_INLINE leeway_u32 leeway_cubic_k_q12(leeway_u64 below_q16, leeway_u32 c_permille, leeway_u32 mss)
{
	leeway_u64 ratio_q16 = leeway_min_u64(below_q16 / mss, 1ULL << 50) * 1000 / c_permille;

	if (ratio_q16 < 1ULL << 43)
		return leeway_cube_root(ratio_q16 << 20);
	return leeway_min_u32(leeway_cube_root(leeway_min_u64(ratio_q16, (1ULL << 55) - 1) << 8) << 4,
			      LEEWAY_CUBIC_LONGEST_Q12);
}

/* C d^3 in bytes q16 for d in units of 2^-12 s, at most the largest window. */
LEEWAY_INLINE leeway_u64 leeway_cubic_rise_q16(leeway_u32 d_q12, leeway_u32 c_permille, leeway_u32 mss)
{
	leeway_u64 d = leeway_min_u32(d_q12, LEEWAY_CUBIC_LONGEST_Q12);
	leeway_u64 cube_q24 = (d * d >> 12) * d;
	leeway_u64 segments_q10;

	if (cube_q24 >> 46)
		segments_q10 = (cube_q24 >> 14) / 1000 * c_permille;
	else
		segments_q10 = cube_q24 * c_permille / 1000 >> 14;
	segments_q10 = leeway_min_u64(segments_q10, 1ULL << 42);
	return leeway_min_u64(segments_q10 * mss, LEEWAY_WINDOW_MAX_BYTES << 10) << 6;
}

LEEWAY_INLINE leeway_u64 leeway_cubic_window_q16(const struct leeway_cubic *s, leeway_u64 t_q12,
						 leeway_u32 mss)
{
	leeway_u32 t = (leeway_u32)leeway_min_u64(t_q12, LEEWAY_CUBIC_LONGEST_Q12);

	if (t < s->k_q12)
		return leeway_less(s->max_q16, leeway_cubic_rise_q16(s->k_q12 - t, s->c_permille, mss));
	return leeway_min_u64(s->max_q16 + leeway_cubic_rise_q16(t - s->k_q12, s->c_permille, mss),
			      LEEWAY_WINDOW_MAX_BYTES << 16);
}

/* Microseconds in units of 2^-12 s; whatever is longer than the longest stays so. */
LEEWAY_INLINE leeway_u64 leeway_cubic_time_q12(leeway_u64 us)
{
	return leeway_min_u64(us, 1ULL << 40) * 64 / 15625;
}

LEEWAY_INLINE void leeway_cubic_init(struct leeway_cubic *s, const struct leeway_cubic_params *p,
				     const struct leeway_path *path)
{
	leeway_u32 beta = p->beta_permille;

	leeway_window_init(&s->w, &p->window, path);
	leeway_hystart_init(&s->hystart);
	s->flavour = p->flavour == LEEWAY_CUBIC_2010 ? LEEWAY_CUBIC_2010 : LEEWAY_CUBIC_RFC9438;
	if (!beta)
		beta = s->flavour == LEEWAY_CUBIC_2010 ? 800 : 700;
	s->beta_permille = leeway_min_u32(beta, 999);
	s->alpha_q16 = 3 * LEEWAY_ONE_Q16 * (1000 - s->beta_permille) / (1000 + s->beta_permille);
	s->c_permille = leeway_clamp_u32(p->c_permille, 10, 10000);
	s->fast_convergence = p->fast_convergence != 0;
	s->friendly = p->friendly != 0;
	s->hystart_on = p->hystart != 0;
	s->epoch_us = 0;
	s->last_us = 0;
	s->max_q16 = 0;
	s->prior_q16 = 0;
	s->estimate_q16 = 0;
	s->estimate_carry = 0;
	s->k_q12 = 0;
	s->in_epoch = 0;
	s->timed_out = 0;
	s->exact = p->ack_ratio == LEEWAY_CUBIC_ACKS_EXACT ||
		   (p->ack_ratio != LEEWAY_CUBIC_ACKS_ESTIMATE && s->flavour != LEEWAY_CUBIC_2010);
	s->counted_bytes = 0;
	s->ratio_q4 = LEEWAY_CUBIC_RATIO_FIRST_Q4;
	s->reserved = 0;
}

LEEWAY_INLINE void leeway_cubic_begin(struct leeway_cubic *s, leeway_u64 now_us, leeway_u32 mss)
{
	s->in_epoch = 1;
	s->epoch_us = now_us;
	s->estimate_q16 = s->w.out.cwnd_q16;
	s->estimate_carry = 0;
	if (s->timed_out || s->max_q16 <= s->w.out.cwnd_q16) {
		s->max_q16 = s->w.out.cwnd_q16;
		s->k_q12 = 0;
	} else {
		s->k_q12 = leeway_cubic_k_q12(s->max_q16 - s->w.out.cwnd_q16, s->c_permille, mss);
	}
	s->timed_out = 0;
}

/* Advance W_est by one ack (RFC 9438, eq. 4). */
LEEWAY_INLINE void leeway_cubic_estimate(struct leeway_cubic *s, leeway_u64 acked_bytes, leeway_u32 mss)
{
	leeway_u32 alpha_q16 = s->alpha_q16;

	if (s->flavour == LEEWAY_CUBIC_RFC9438 && s->estimate_q16 >= s->prior_q16)
		alpha_q16 = LEEWAY_ONE_Q16;
	s->estimate_q16 += leeway_share_q16((leeway_u64)mss * alpha_q16, acked_bytes,
					    leeway_divisor_q8(&s->w, mss), &s->estimate_carry);
	s->estimate_q16 = leeway_min_u64(s->estimate_q16, LEEWAY_WINDOW_MAX_BYTES << 16);
}

/*
 * Linux 2.6.22, bictcp_acked(): while no loss is repaired. What an ACK counts for is kept in the
 * state: a choice there would double what a verifier has to look at.
 */
LEEWAY_INLINE void leeway_cubic_note_ratio(struct leeway_cubic *s, const struct leeway_ack *ack,
					   leeway_u32 mss)
{
	leeway_u64 packets;

	if (s->exact)
		return;
	packets = (leeway_min_u64(ack->acked_bytes, 1U << 24) + mss - 1) / mss;
	if (packets && !ack->recovering)
		s->ratio_q4 =
			leeway_min_u32(s->ratio_q4 - (s->ratio_q4 >> 4) + (leeway_u32)packets, 1U << 20);
	s->counted_bytes = (leeway_u32)leeway_min_u64((leeway_u64)mss * s->ratio_q4 / 16, ~0U);
}

LEEWAY_INLINE void leeway_cubic_avoid(struct leeway_cubic *s, const struct leeway_ack *ack,
				      const struct leeway_path *path, leeway_u64 acked_bytes)
{
	leeway_u32 mss = leeway_mss(path);
	leeway_u64 before_q16 = s->w.out.cwnd_q16;
	leeway_u64 most_q16 = leeway_min_u64(acked_bytes, LEEWAY_WINDOW_MAX_BYTES) << 16;
	leeway_u64 elapsed_us, counted, target_q16, step_q16 = 0;

	if (!s->in_epoch)
		leeway_cubic_begin(s, ack->now_us, mss);
	if (s->friendly)
		leeway_cubic_estimate(s, acked_bytes, mss);
	elapsed_us = leeway_less(ack->now_us, s->epoch_us);
	counted = acked_bytes * s->exact + s->counted_bytes;
	target_q16 = elapsed_us;
	if (s->flavour == LEEWAY_CUBIC_RFC9438)
		target_q16 = leeway_min_u64(elapsed_us, 1ULL << 40) + path->srtt_us; /* W_cubic(t + RTT) */
	target_q16 = leeway_cubic_window_q16(s, leeway_cubic_time_q12(target_q16), mss);
	if (s->flavour == LEEWAY_CUBIC_RFC9438)
		target_q16 = leeway_min_u64(target_q16, before_q16 + before_q16 / 2);
	if (target_q16 > before_q16)
		step_q16 = leeway_share_q16(target_q16 - before_q16, counted, leeway_divisor_q8(&s->w, mss),
					    &s->w.carry);
	leeway_raise(&s->w, leeway_min_u64(step_q16, most_q16));
	/* RFC 9438, 4.3: below W_est, CUBIC is slower than Reno would be. */
	if (s->friendly && s->estimate_q16 > s->w.out.cwnd_q16 &&
	    leeway_cubic_window_q16(s, leeway_cubic_time_q12(elapsed_us), mss) < s->estimate_q16)
		s->w.out.cwnd_q16 = leeway_min_u64(s->estimate_q16, before_q16 + most_q16);
}

/* What a congestion event leaves behind for the next epoch (RFC 9438, 4.6, 4.7). */
LEEWAY_INLINE void leeway_cubic_remember(struct leeway_cubic *s)
{
	leeway_u64 cwnd_q16 = s->w.out.cwnd_q16;

	s->prior_q16 = cwnd_q16;
	if (s->fast_convergence && cwnd_q16 < s->max_q16)
		s->max_q16 = cwnd_q16 / 2000 * (1000 + s->beta_permille);
	else
		s->max_q16 = cwnd_q16;
	s->in_epoch = 0;
}

LEEWAY_INLINE void leeway_cubic_on_ack(struct leeway_cubic *s, const struct leeway_ack *ack,
				       const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);
	leeway_u64 acked_bytes = ack->acked_bytes;
	leeway_u64 since_us = leeway_less(ack->now_us, s->last_us);

	s->last_us = ack->now_us;
	leeway_cubic_note_ratio(s, ack, mss);
	if (leeway_marked(&s->w, ack, path)) {
		leeway_cubic_remember(s);
		leeway_back_off(&s->w, s->beta_permille, mss, ack->now_us);
		return;
	}
	if (!leeway_may_grow(ack)) {
		if (s->in_epoch)
			s->epoch_us += since_us;
		return;
	}
	if (leeway_in_slow_start(&s->w)) {
		s->w.out.phase = LEEWAY_SLOW_START;
		if (s->hystart_on && s->w.out.ssthresh_bytes == LEEWAY_UNLIMITED) {
			acked_bytes = leeway_hystart_on_ack(&s->hystart, ack);
			if (leeway_hystart_done(&s->hystart))
				s->w.out.ssthresh_bytes = s->w.out.cwnd_q16 >> 16;
		}
		acked_bytes = leeway_slow_start(&s->w, acked_bytes, mss);
		if (!acked_bytes)
			return;
	}
	s->w.out.phase = LEEWAY_AVOIDANCE;
	leeway_cubic_avoid(s, ack, path, acked_bytes);
}

LEEWAY_INLINE void leeway_cubic_on_loss(struct leeway_cubic *s, const struct leeway_loss *loss,
					const struct leeway_path *path)
{
	int again = loss->kind == LEEWAY_LOSS_TIMEOUT && loss->timeouts > 1;

	if (leeway_new_loss(&s->w, loss) && !again)
		leeway_cubic_remember(s);
	if (loss->kind == LEEWAY_LOSS_TIMEOUT) {
		s->in_epoch = 0;
		s->timed_out = 1;
		s->ratio_q4 = LEEWAY_CUBIC_RATIO_FIRST_Q4;
	}
	leeway_reno_on_loss(&s->w, loss, s->beta_permille, leeway_mss(path));
}

#endif
