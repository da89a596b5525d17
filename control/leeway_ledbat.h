/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * LEDBAT: Low Extra Delay Background Transport (RFC 6817), and its 2009 draft by parameters.
 *
 *	off = (target - q) / target;  W += gain x off x acked / W  (RFC 6817, 2.4.2)
 *
 * Scope and limitations:
 * - The decrease is not limited to one segment per segment acked unless clamp is on: so do the
 *   literature's modules.
 * - gain_down scales the decrease only (Trang 2014, "decrease gain").
 * - ALLOWED_INCREASE bounds growth: a window above flight size + allowed is kept, where RFC 6817
 *   cuts it; growth needs the window to be the limit in the first place, and a cut during recovery
 *   would count a loss twice.
 * - The stack computes the retransmission timeout (RFC 6817's CTO); a timeout sets the window to
 *   one segment.
 * - 2009 draft (Rossi 2010): base_history=0, filter_length=1, target=25ms, floor=1.
 * - Without one-way samples the round-trip time serves: congestion of the reverse path then counts
 *   as well.
 * - accelerate (off unless set) is ours, after the max probing of BIC-TCP (Xu, Harfoush, Rhee
 *   2004): a packet per round trip takes minutes to fill a long fat path. The increase doubles with
 *   each round trip that grew and saw no queue of 3/4 target, up to that part of the window, and is
 *   the gain's again with a longer queue or a loss.
 * - window=whole is the module of ns-2 and Linux (TCP-LEDBAT, Valenti 2010): the window is whole
 *   packets. Each segment acked adds (target - q) / target to a credit. A credit of a window is a
 *   packet more; a negative one a packet less at once, and the credit is then a packet short of
 *   full.
 * - segments (off unless set) is ours: target = max(target, n segments at the line's rate). What
 *   keeps a line busy is a queue of some segments; what others notice of it is its length in time.
 *   The gain is per queue of those n segments. At a gain of one packet a round trip for a target of
 *   one segment the loop's gain is 1, with a delay of more than a round trip: it swings.
 *   The rate is the highest delivery rate of the last 5 to 10 s, so it needs a stack that measures
 *   delivery rates (leeway_rate.h).
 * - adaptive (off unless set) is ours: target = that part of the queuing delay at losses, so that a
 *   buffer shorter than the target does not make the law one of loss.
 * - delay=queue is for a caller that knows the base delay better than one connection can
 *   (crates/share).
 */
#ifndef LEEWAY_LEDBAT_H
#define LEEWAY_LEDBAT_H

#include "leeway_delay.h"
#include "leeway_rate.h"
#include "leeway_window.h"

#define LEEWAY_LEDBAT_LINE_US 5000000 /* half of the memory of the line's rate */

struct leeway_ledbat_params {
	struct leeway_window_config window;
	struct leeway_delay_config delay;
	leeway_u32 target_us;
	leeway_u32 gain_up_ppm;
	leeway_u32 gain_down_ppm;
	leeway_u32 clamp;               /* 1: off is at least -1 */
	leeway_u32 allowed_permille;    /* ALLOWED_INCREASE, thousandths of a segment */
	leeway_u32 climb_permille;      /* 0: off */
	leeway_u32 accelerate_permille; /* of the window, a round trip; 0: off */
	leeway_u32 segments_permille;   /* least target in segments at the line's rate; 0: off */
	leeway_u32 whole;               /* 1: the window moves by whole packets */
	leeway_u32 adaptive_permille;   /* target as a part of the delay at losses; 0: off */
};

struct leeway_ledbat {
	struct leeway_window w;
	leeway_u64 up_q40;              /* gain_up / target */
	leeway_u64 down_q40;            /* gain_down / target */
	leeway_u64 line_bytes_per_s[2]; /* highest delivery rate since line_us, and in the time before */
	leeway_u64 line_us;
	leeway_u64 credit_q16; /* packets, where the window is whole packets */
	leeway_u32 target_us;
	leeway_u32 target_param_us; /* the parameter */
	leeway_u32 span_us;         /* of those segments at the line's rate */
	leeway_u32 segments_permille;
	leeway_u32 gain_up_ppm;
	leeway_u32 gain_down_ppm;
	leeway_u32 rate_limit_q16; /* of the decrease */
	leeway_u32 allowed_permille;
	leeway_u32 climb_permille;
	leeway_u32 accelerate_q16; /* part of the window */
	leeway_u8 doublings;       /* of the gain */
	leeway_u8 accelerates;     /* this round trip could have grown faster, and saw no queue in the end */
	leeway_u8 whole;
	leeway_u8 reserved;
	struct leeway_brim brim;
	struct leeway_delay delay;
};

/*
 * Sets the target and what follows from it: a part of the buffer where that is asked for, and the
 * segments at the line's rate at least, of whose time the gain is then.
 */
LEEWAY_INLINE void leeway_ledbat_aim(struct leeway_ledbat *s)
{
	leeway_u32 target_us = leeway_brim_target_us(&s->brim, s->target_param_us);
	leeway_u32 span_us = s->span_us ? s->span_us : target_us;

	target_us = target_us > s->span_us ? target_us : s->span_us;
	s->target_us = leeway_clamp_u32(target_us, LEEWAY_TARGET_MIN_US, LEEWAY_TARGET_MAX_US);
	span_us = leeway_clamp_u32(span_us, LEEWAY_TARGET_MIN_US, s->target_us);
	s->up_q40 = leeway_gain_q40(s->gain_up_ppm, span_us);
	s->down_q40 = leeway_gain_q40(s->gain_down_ppm, span_us);
}

/* The line's rate: a sample that the application limited can only show that it is higher. */
LEEWAY_INLINE void leeway_ledbat_line(struct leeway_ledbat *s, const struct leeway_ack *ack, leeway_u32 mss)
{
	leeway_u64 rate = leeway_rate_bytes_per_s(&ack->rate);
	leeway_u32 queue_us;

	if (!s->segments_permille)
		return;
	if (ack->now_us - s->line_us >= LEEWAY_LEDBAT_LINE_US && rate) {
		s->line_us = ack->now_us;
		s->line_bytes_per_s[1] = s->line_bytes_per_s[0];
		s->line_bytes_per_s[0] = 0;
	}
	s->line_bytes_per_s[0] = leeway_max_u64(s->line_bytes_per_s[0], rate);
	rate = leeway_max_u64(s->line_bytes_per_s[0], s->line_bytes_per_s[1]);
	if (!ack->round_start || !rate)
		return;
	queue_us = (leeway_u32)leeway_min_u64((leeway_u64)s->segments_permille * mss * 1000 / rate,
					      LEEWAY_TARGET_MAX_US);
	if (queue_us != s->span_us) {
		s->span_us = queue_us;
		leeway_ledbat_aim(s);
	}
}

LEEWAY_INLINE void leeway_ledbat_init(struct leeway_ledbat *s, const struct leeway_ledbat_params *p,
				      const struct leeway_path *path)
{
	leeway_window_init(&s->w, &p->window, path);
	s->gain_up_ppm = p->gain_up_ppm;
	s->gain_down_ppm = p->gain_down_ppm;
	s->segments_permille = leeway_min_u32(p->segments_permille, 1000000);
	s->span_us = 0;
	s->target_param_us = leeway_clamp_u32(p->target_us, LEEWAY_TARGET_MIN_US, LEEWAY_TARGET_MAX_US);
	leeway_brim_init(&s->brim, p->adaptive_permille);
	leeway_ledbat_aim(s);
	s->line_bytes_per_s[0] = 0;
	s->line_bytes_per_s[1] = 0;
	s->line_us = 0;
	s->rate_limit_q16 = LEEWAY_RATE_MAX_Q16;
	if (p->clamp)
		s->rate_limit_q16 = leeway_ppm_q16(s->gain_down_ppm);
	s->allowed_permille = leeway_min_u32(p->allowed_permille, 1000000);
	s->climb_permille = leeway_min_u32(p->climb_permille, 1000);
	s->accelerate_q16 = leeway_permille_q16(leeway_min_u32(p->accelerate_permille, 1000));
	s->doublings = 0;
	s->accelerates = 0;
	s->whole = p->whole != 0;
	s->reserved = 0;
	s->credit_q16 = 0;
	leeway_delay_init(&s->delay, &p->delay);
}

/* What an increase doubles at most: a packet per round trip is then more than any window. */
#define LEEWAY_DOUBLINGS_MAX 24

/*
 * Whether there is a queue that ends what is faster than the gain: as for slow start, three
 * quarters of the target.
 */
LEEWAY_INLINE int leeway_ledbat_queues(const struct leeway_ledbat *s)
{
	return s->delay.queuing_us > s->target_us - s->target_us / 4;
}

/* A round trip that grew and saw no queue lets the next one grow twice as fast. */
LEEWAY_INLINE void leeway_ledbat_accelerate(struct leeway_ledbat *s, const struct leeway_ack *ack)
{
	if (ack->round_start) {
		if (s->accelerates && s->doublings < LEEWAY_DOUBLINGS_MAX)
			s->doublings++;
		s->accelerates = 0;
	}
	if (leeway_ledbat_queues(s))
		s->doublings = 0;
}

/* An increase of rate packets per round trip, or as often doubled as it may be. */
LEEWAY_INLINE void leeway_ledbat_grow(struct leeway_ledbat *s, leeway_u64 acked_bytes, leeway_u32 mss,
				      leeway_u32 rate_q16)
{
	leeway_u64 faster_q16 = leeway_min_u64((leeway_u64)rate_q16 << s->doublings, LEEWAY_RATE_MAX_Q16);
	leeway_u64 step_q16 = leeway_step_q16(&s->w, acked_bytes, mss, (leeway_u32)faster_q16);
	leeway_u64 most_q16;

	acked_bytes = leeway_min_u64(acked_bytes, LEEWAY_WINDOW_MAX_BYTES);
	most_q16 = acked_bytes * s->accelerate_q16;
	if (step_q16 >= most_q16)
		step_q16 = leeway_max_u64(step_q16 >> s->doublings, most_q16);
	else
		s->accelerates = !leeway_ledbat_queues(s);
	leeway_raise(&s->w, leeway_min_u64(step_q16, acked_bytes << 16));
}

/* The step of one ack where the window is whole packets: tcp_ledbat_cong_avoid() of the module. */
LEEWAY_INLINE void leeway_ledbat_step_whole(struct leeway_ledbat *s, const struct leeway_ack *ack,
					    leeway_u64 acked_bytes, leeway_u32 mss)
{
	leeway_u32 queuing_us = s->delay.queuing_us;
	leeway_u64 packets = leeway_max_u64((s->w.out.cwnd_q16 >> 16) / mss, 1);
	leeway_u64 acked =
		leeway_clamp_u32((leeway_u32)(leeway_min_u64(acked_bytes, 1U << 30) / mss), 1, 1024);
	leeway_u64 step_q16;

	if (queuing_us > s->target_us) {
		s->w.out.phase = LEEWAY_YIELDING;
		step_q16 = leeway_ratio_q16(queuing_us - s->target_us, s->down_q40);
		step_q16 = leeway_min_u64(step_q16, s->rate_limit_q16) * acked;
		if (step_q16 <= s->credit_q16) {
			s->credit_q16 -= step_q16;
			return;
		}
		s->credit_q16 = 0;
		if (packets > 1 && s->w.out.cwnd_q16 > leeway_floor_q16(&s->w, mss)) {
			s->credit_q16 = (packets - 2) << 16;
			leeway_yield(&s->w, (leeway_u64)mss << 16, mss);
		}
		return;
	}
	s->w.out.phase = LEEWAY_AVOIDANCE;
	if (!leeway_may_grow(ack))
		return;
	s->credit_q16 += leeway_ratio_q16(s->target_us - queuing_us, s->up_q40) * acked;
	if (s->credit_q16 >= packets << 16) {
		s->credit_q16 = 0;
		if (s->w.out.cwnd_q16 < LEEWAY_WINDOW_MAX_BYTES << 16)
			s->w.out.cwnd_q16 = (packets + 1) * mss << 16;
	}
}

/* The delay-based step of one ack. */
LEEWAY_INLINE void leeway_ledbat_step(struct leeway_ledbat *s, const struct leeway_ack *ack,
				      leeway_u64 acked_bytes, leeway_u32 mss)
{
	leeway_u32 queuing_us = s->delay.queuing_us;
	leeway_u64 before_q16 = s->w.out.cwnd_q16;
	leeway_u64 allowed_q16;
	leeway_u32 rate_q16;

	if (queuing_us > s->target_us) {
		rate_q16 = leeway_ratio_q16(queuing_us - s->target_us, s->down_q40);
		rate_q16 = leeway_min_u32(rate_q16, s->rate_limit_q16);
		leeway_decrease(&s->w, acked_bytes, mss, rate_q16);
		s->w.out.phase = LEEWAY_YIELDING;
		return;
	}
	s->w.out.phase = LEEWAY_AVOIDANCE;
	if (!leeway_may_grow(ack))
		return;
	leeway_ledbat_grow(s, acked_bytes, mss, leeway_ratio_q16(s->target_us - queuing_us, s->up_q40));
	/* RFC 6817, 2.4.2: max_allowed_cwnd = flightsize + ALLOWED_INCREASE * MSS */
	allowed_q16 = leeway_min_u64(ack->prior_inflight_bytes, LEEWAY_WINDOW_MAX_BYTES) << 16;
	allowed_q16 += leeway_segments_q16(s->allowed_permille, mss);
	if (s->w.out.cwnd_q16 > allowed_q16)
		s->w.out.cwnd_q16 = leeway_max_u64(before_q16, allowed_q16);
}

/* A loss or a mark shows the buffer. */
LEEWAY_INLINE void leeway_ledbat_brim(struct leeway_ledbat *s)
{
	leeway_brim_update(&s->brim, s->delay.queuing_us);
	leeway_ledbat_aim(s);
}

LEEWAY_INLINE void leeway_ledbat_on_ack(struct leeway_ledbat *s, const struct leeway_ack *ack,
					const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);
	leeway_u64 acked_bytes = ack->acked_bytes;

	leeway_delay_on_ack(&s->delay, ack, path);
	s->w.out.queuing_delay_us = s->delay.queuing_us;
	leeway_ledbat_line(s, ack, mss);
	leeway_ledbat_accelerate(s, ack);
	if (leeway_marked(&s->w, ack, path)) {
		leeway_ledbat_brim(s);
		leeway_back_off(&s->w, 500, mss, ack->now_us);
		return;
	}
	if (leeway_climb(&s->w, ack, s->climb_permille, s->delay.queuing_us > s->target_us, mss))
		return;
	if (leeway_in_slow_start(&s->w)) {
		s->w.out.phase = LEEWAY_SLOW_START;
		if (leeway_slow_start_ends(&s->w, s->delay.queuing_us, s->target_us, mss) ||
		    !leeway_may_grow(ack))
			return;
		acked_bytes = leeway_slow_start(&s->w, acked_bytes, mss);
	}
	if (acked_bytes && s->whole)
		leeway_ledbat_step_whole(s, ack, acked_bytes, mss);
	else if (acked_bytes)
		leeway_ledbat_step(s, ack, acked_bytes, mss);
}

LEEWAY_INLINE void leeway_ledbat_on_loss(struct leeway_ledbat *s, const struct leeway_loss *loss,
					 const struct leeway_path *path)
{
	s->doublings = 0;
	if (leeway_new_loss(&s->w, loss))
		leeway_ledbat_brim(s);
	leeway_climber_on_loss(&s->w, loss, s->climb_permille, 500, leeway_mss(path));
}

#endif
