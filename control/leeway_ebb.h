/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Ebb: fills an idle path to just below its first queue, asks by a small cut whose a queue is, and
 * runs dry while somebody else is there. docs/laws/ebb.md derives the equations.
 *
 * base: least round trip; q = RTT - base; S: time of a segment on the line; P = base/S, the pipe;
 * W: the window, paced at W/base; n: segments that leave together; N: noise (leeway_line.h).
 *
 *	T = max(clamp(base/100, 1 ms, threshold), min(1.2 S, base/4), N) + (n - 1) S	q > T: a busy sample
 *	short: losses come before a queue of four times that max(); then max(a quarter of it, S/2,
 *		min(N, half of it)) takes the place of the max()
 *	begin (slow start)	W doubles each round trip, up to 3/4 P or to the first queue
 *	fill (avoidance)	W += max(1/4, min(base/step, P/32)) + fill (0.9 P - W) min(base/60 ms, 60 ms/base)
 *	check (inference)	max(2, 0.3 W) busy samples: R = 0.9 W base/(base + q), W = 0.9 R
 *				clear: the queue was ours, fill from R; busy: yield
 *	yield			W/2 with each busy round trip, 0.7 W below one segment; 1.5 base (short: 7.5)
 *				without a busy sample: fill, from 3/4 M
 *
 * Below one segment: pairs, as lone acks may be held; n in n max(0.5 s, 100 S, 4 base). M, the
 * memory: the largest W that met no queue; fade less with each round trip of check or yield.
 *
 * Scope and limitations:
 * - Behind a fair queue a flow meets its own queue alone: it takes a fair share and cannot know
 *   better.
 * - A route that becomes longer looks like a queue until the base forgets, for up to ten minutes.
 * - A queue on the way of the acks counts as one on the way of the data.
 */
#ifndef LEEWAY_EBB_H
#define LEEWAY_EBB_H

#include "leeway_chance.h"
#include "leeway_delay.h"
#include "leeway_line.h"
#include "leeway_room.h"
#include "leeway_window.h"

#define LEEWAY_EBB_T_MIN_US 1000U    /* what a clock of 1 ms shows */
#define LEEWAY_EBB_FILL_US  60000U   /* base of the path on which a round trip adds fill */
#define LEEWAY_EBB_QUIET_US 1000000U /* after 1 s without a queue fill triples */
#define LEEWAY_EBB_PROBE_US 500000U  /* between probes */
#define LEEWAY_EBB_T_US     14400U   /* 1.2 S until S is seen: a line of 1 Mbit/s */

struct leeway_ebb_params {
	struct leeway_window_config window;
	leeway_u32 threshold_us;  /* most of T on a fast, quiet path */
	leeway_u32 step_us;       /* round trip that adds one segment */
	leeway_u32 fill_permille; /* part of what lacks to 0.9 P that a round trip adds */
	leeway_u32 fade_permille; /* what a round trip of check or yield takes of M */
};

struct leeway_ebb {
	struct leeway_window w;
	struct leeway_base base;
	struct leeway_line line;
	struct leeway_chance chance;
	struct leeway_room room;
	leeway_u64 resume_q16;  /* R */
	leeway_u64 memory_q16;  /* M */
	leeway_u64 since_us;    /* what left before says nothing of this phase */
	leeway_u64 busy_us;     /* when the last busy sample came */
	leeway_u64 met_sent_us; /* when the last segment left that met a queue, however short */
	leeway_u64 queue_us;    /* sum of q over the busy samples of this phase */
	leeway_u32 busy;        /* samples of this phase, in segments */
	leeway_u32 clear;
	leeway_u32 s_us; /* S; 0: not seen yet */
	leeway_u32 t_us; /* T */
	leeway_u32 threshold_us;
	leeway_u32 step_us;
	leeway_u16 fill_permille;
	leeway_u16 fade_permille;
	leeway_u32 probed; /* 1: a probe was clear */
};

LEEWAY_INLINE void leeway_ebb_enter(struct leeway_ebb *s, leeway_u32 phase, leeway_u64 since_us)
{
	s->w.out.phase = phase;
	s->probed = 0;
	s->since_us = since_us;
	s->busy = 0;
	s->clear = 0;
	s->queue_us = 0;
}

/* Lowers W to permille of w_q16, to the floor at most. */
LEEWAY_INLINE void leeway_ebb_cut(struct leeway_ebb *s, leeway_u64 w_q16, leeway_u32 permille, leeway_u32 mss)
{
	w_q16 = leeway_max_u64(leeway_permille(w_q16, permille), leeway_floor_q16(&s->w, mss));
	s->w.out.cwnd_q16 = leeway_min_u64(s->w.out.cwnd_q16, w_q16);
}

/*
 * Pacing at W/base; below one segment at W/srtt, as a probe must not join the one before in a
 * queue.
 */
LEEWAY_INLINE void leeway_ebb_output(struct leeway_ebb *s, const struct leeway_path *path)
{
	leeway_u64 mss = leeway_mss(path), one_q16 = mss << 16, round_us = s->base.min_us;
	leeway_u64 gap_us =
		leeway_max_u64(LEEWAY_EBB_PROBE_US, leeway_max_u64(100ULL * s->s_us, 4 * round_us));

	s->w.out.cwnd_q16 = leeway_min_u64(s->w.out.cwnd_q16, LEEWAY_WINDOW_MAX_BYTES << 16);
	if (!round_us)
		return;
	s->w.out.quantum = leeway_line_quantum(&s->line, s->w.out.phase == LEEWAY_SLOW_START ||
								 s->w.out.cwnd_q16 < 4 * one_q16);
	if (s->w.out.cwnd_q16 < one_q16) {
		round_us = leeway_max_u64(round_us, path->srtt_us);
		s->w.out.quantum = 2;
	}
	s->w.out.pacing_bytes_per_s =
		leeway_max_u64((s->w.out.cwnd_q16 >> 12) * 1000000 / round_us >> 4, mss * 1000000 / gap_us);
}

LEEWAY_INLINE void leeway_ebb_init(struct leeway_ebb *s, const struct leeway_ebb_params *p,
				   const struct leeway_path *path)
{
	__builtin_memset(s, 0, sizeof(*s));
	leeway_window_init(&s->w, &p->window, path);
	s->w.out.ssthresh_bytes = LEEWAY_UNLIMITED;
	leeway_base_init(&s->base, 10, 60000000, 0); /* RFC 6817, 2.4.2 */
	s->threshold_us = leeway_clamp_u32(p->threshold_us, LEEWAY_EBB_T_MIN_US, 1000000);
	s->step_us = leeway_clamp_u32(p->step_us, 100, 10000000);
	s->fill_permille = (leeway_u16)leeway_min_u32(p->fill_permille, 300);
	s->fade_permille = (leeway_u16)leeway_min_u32(p->fade_permille, 1000);
}

/* What the last of the segments that left together waits for those before it. */
LEEWAY_INLINE leeway_u64 leeway_ebb_before_us(const struct leeway_ebb *s)
{
	return leeway_less(s->w.out.quantum, 1) * s->s_us;
}

/* T, from S, the base, the noise and the room. */
LEEWAY_INLINE leeway_u32 leeway_ebb_threshold_us(struct leeway_ebb *s, leeway_u32 noise_us)
{
	leeway_u64 base_us = s->base.min_us, t_us;

	t_us = leeway_clamp_u32((leeway_u32)base_us / 100, LEEWAY_EBB_T_MIN_US, s->threshold_us);
	t_us = leeway_max_u64(t_us,
			      leeway_min_u64(s->s_us ? s->s_us * 6ULL / 5 : LEEWAY_EBB_T_US, base_us / 4));
	t_us = leeway_max_u64(t_us, noise_us);
	t_us = leeway_room_threshold_us(&s->room, t_us, s->s_us / 2, noise_us);
	return (leeway_u32)(t_us + leeway_ebb_before_us(s));
}

LEEWAY_INLINE void leeway_ebb_grow(struct leeway_ebb *s, const struct leeway_ack *ack, leeway_u32 mss)
{
	leeway_u64 acked_q16 = leeway_min_u64(ack->acked_bytes, LEEWAY_WINDOW_MAX_BYTES) << 16, step_q16;
	leeway_u64 base_us = s->base.min_us, pipe_q16 = s->s_us ? (base_us << 16) / s->s_us : 0;
	leeway_u64 ramp_q16 = leeway_permille(s->memory_q16, 900), *w_q16 = &s->w.out.cwnd_q16;
	leeway_u32 k = (ack->now_us - s->busy_us > LEEWAY_EBB_QUIET_US ? 3 : 1) * s->fill_permille;

	if (!acked_q16 || ack->app_limited || !base_us)
		return;
	if (s->w.out.phase == LEEWAY_SLOW_START) {
		*w_q16 += acked_q16;
		if (pipe_q16 && *w_q16 / mss >= pipe_q16 / 4 * 3) {
			step_q16 = leeway_max_u64(pipe_q16 / 4 * 3, LEEWAY_ONE_Q16);
			s->memory_q16 = *w_q16 = leeway_min_u64(*w_q16, step_q16 * mss);
			leeway_ebb_enter(s, LEEWAY_AVOIDANCE, s->since_us);
		}
		return;
	}
	if (*w_q16 < ramp_q16) {
		*w_q16 += leeway_min_u64(acked_q16, ramp_q16 - *w_q16);
		return;
	}
	step_q16 = leeway_min_u64((base_us << 16) / s->step_us, (pipe_q16 ? pipe_q16 : *w_q16 / mss) / 32);
	step_q16 = leeway_max_u64(step_q16, LEEWAY_ONE_Q16 / 4);
	step_q16 += leeway_permille(leeway_less(leeway_permille(pipe_q16, 900), *w_q16 / mss), k) *
		    leeway_min_u64(base_us, LEEWAY_EBB_FILL_US) / leeway_max_u64(base_us, LEEWAY_EBB_FILL_US);
	step_q16 = leeway_share_q16(mss * leeway_min_u64(step_q16, LEEWAY_RATE_MAX_Q16), acked_q16 >> 16,
				    leeway_divisor_q8(&s->w, mss), &s->w.carry);
	*w_q16 += leeway_min_u64(step_q16, acked_q16);
}

LEEWAY_INLINE void leeway_ebb_yield(struct leeway_ebb *s, leeway_u64 now_us, leeway_u32 permille,
				    leeway_u32 mss)
{
	leeway_ebb_cut(s, s->w.out.cwnd_q16, permille, mss);
	leeway_ebb_enter(s, LEEWAY_YIELDING, now_us);
}

/* Somebody else lost packets, or will: hardly anything is left of W. */
LEEWAY_INLINE void leeway_ebb_leave(struct leeway_ebb *s, leeway_u64 now_us, leeway_u32 mss)
{
	leeway_ebb_yield(s, now_us, 50, mss);
	s->memory_q16 = leeway_permille(s->memory_q16, 800);
}

/* Go on at R if the next round trip is clear, from a part of it. */
LEEWAY_INLINE void leeway_ebb_check(struct leeway_ebb *s, leeway_u64 now_us, leeway_u64 resume_q16,
				    leeway_u32 permille, leeway_u32 mss)
{
	s->resume_q16 = resume_q16;
	leeway_ebb_cut(s, resume_q16, permille, mss);
	leeway_ebb_enter(s, LEEWAY_INFERENCE, now_us);
}

/* Enough busy samples: whose is the queue? */
LEEWAY_INLINE void leeway_ebb_met(struct leeway_ebb *s, leeway_u64 now_us, leeway_u32 mss)
{
	leeway_u64 base_us = s->base.min_us, mean_us = s->queue_us / s->busy, w_q16 = s->w.out.cwnd_q16;

	if (s->w.out.phase == LEEWAY_SLOW_START) { /* the queue that W/2 met */
		s->memory_q16 = w_q16 / 2;
		leeway_ebb_check(s, now_us, w_q16 / 2, 900, mss);
	} else if (s->w.out.phase == LEEWAY_AVOIDANCE) {
		w_q16 = (leeway_permille(w_q16, 900) >> 16) * base_us / (base_us + mean_us) << 16;
		leeway_ebb_check(s, now_us, w_q16, 900, mss);
	} else {
		leeway_ebb_yield(s, now_us, w_q16 >> 16 <= mss ? 700 : 500, mss);
	}
}

/* Enough clear samples in check or yield. One probe may be clear by chance: a second follows. */
LEEWAY_INLINE void leeway_ebb_free(struct leeway_ebb *s, leeway_u64 now_us, leeway_u32 srtt_us,
				   leeway_u64 one_q16)
{
	int yielding = s->w.out.phase == LEEWAY_YIELDING, again = s->w.out.cwnd_q16 < one_q16 && !s->probed;
	leeway_u64 back_q16 = s->resume_q16;

	if (yielding) {
		back_q16 = leeway_max_u64(one_q16, leeway_permille(s->memory_q16, 750));
		s->w.out.probe_us = now_us + (again ? srtt_us : 1);
	}
	if (!yielding || !again)
		s->w.out.cwnd_q16 = leeway_max_u64(s->w.out.cwnd_q16, back_q16);
	leeway_ebb_enter(s, yielding && again ? LEEWAY_YIELDING : LEEWAY_AVOIDANCE, now_us);
	s->probed = yielding && again;
}

LEEWAY_INLINE void leeway_ebb_sample(struct leeway_ebb *s, const struct leeway_ack *ack,
				     const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path),
		   segments = s->line.delays_acks && ack->acked_bytes / mss >= 2 ? 2 : 1;
	leeway_u64 sent_us = ack->now_us - ack->last_rtt_us, one_q16 = (leeway_u64)mss << 16;
	leeway_u64 queue_us, need = (s->w.out.cwnd_q16 >> 16) * 3 / 10 / mss;
	int yields = s->w.out.phase == LEEWAY_YIELDING, busy, calm;
	int waits = yields || s->w.out.phase == LEEWAY_INFERENCE;
	leeway_u32 noise_us;

	leeway_base_update(&s->base, ack->now_us, ack->last_rtt_us);
	s->w.out.queuing_delay_us = (leeway_u32)leeway_less(ack->last_rtt_us, s->base.min_us);
	s->s_us = leeway_line_sample(&s->line, ack, sent_us, mss);
	noise_us = leeway_line_noise_us(&s->line);
	s->t_us = leeway_ebb_threshold_us(s, noise_us);
	busy = s->w.out.queuing_delay_us > s->t_us;
	queue_us = leeway_less(s->w.out.queuing_delay_us, leeway_ebb_before_us(s));
	leeway_room_on_sample(&s->room, queue_us);
	if (busy)
		s->busy_us = ack->now_us;
	/* Half a segment of somebody else, where noise does not hide it. */
	if (busy || (s->s_us && queue_us > leeway_max_u64(s->s_us / 2, noise_us)))
		s->met_sent_us = sent_us;
	if (sent_us < s->since_us)
		return;
	s->busy += busy ? segments : 0;
	s->clear += busy ? 0 : segments;
	/* A probe asks twice already. A short buffer is empty most of the time. */
	calm = !yields || (s->w.out.cwnd_q16 < one_q16 && !s->room.is_short) ||
	       2 * (ack->now_us - s->busy_us) >= (s->room.is_short ? 15ULL : 3ULL) * s->base.min_us;
	s->queue_us += busy ? (leeway_u64)s->w.out.queuing_delay_us * segments : 0;
	if (s->busy >= leeway_max_u64(need, waits && s->w.out.cwnd_q16 < one_q16 ? 1 : 2)) {
		leeway_ebb_met(s, ack->now_us, mss);
	} else if (waits && calm && s->clear >= leeway_max_u64(need, 1) && !ack->app_limited) {
		leeway_ebb_free(s, ack->now_us, path->srtt_us, one_q16);
	} else if (!waits && s->clear * one_q16 >= s->w.out.cwnd_q16 && s->w.out.phase == LEEWAY_AVOIDANCE) {
		s->memory_q16 = leeway_max_u64(s->memory_q16, s->w.out.cwnd_q16);
		leeway_ebb_enter(s, LEEWAY_AVOIDANCE, s->since_us);
	}
}

LEEWAY_INLINE void leeway_ebb_on_ack(struct leeway_ebb *s, const struct leeway_ack *ack,
				     const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);

	leeway_line_on_ack(&s->line, ack, mss);
	if (leeway_chance_on_ack(&s->chance, ack, mss) && s->w.out.phase != LEEWAY_YIELDING) {
		leeway_ebb_leave(s, ack->now_us, mss);
		leeway_reacted(&s->w, ack->now_us);
	}
	leeway_room_on_ack(&s->room, ack);
	if (ack->round_start && (s->w.out.phase == LEEWAY_INFERENCE || s->w.out.phase == LEEWAY_YIELDING))
		s->memory_q16 -= leeway_permille(s->memory_q16, s->fade_permille);
	/* What the receiver's timer may have held is clear all the same where it is below T. */
	if (ack->last_rtt_us &&
	    (ack->last_kind == LEEWAY_LAST_EXACT ||
	     (s->w.out.cwnd_q16 >> 16 < mss && ack->last_rtt_us <= s->base.min_us + s->t_us)))
		leeway_ebb_sample(s, ack, path);
	if (s->w.out.phase == LEEWAY_SLOW_START || s->w.out.phase == LEEWAY_AVOIDANCE)
		leeway_ebb_grow(s, ack, mss);
	if (leeway_marked(&s->w, ack, path)) { /* RFC 3168, 5: as a loss, of which nothing is lost */
		leeway_ebb_yield(s, ack->now_us, 500, mss);
		leeway_reacted(&s->w, ack->now_us);
	}
	leeway_ebb_output(s, path);
}

/*
 * By chance where no queue announced it; ours where nearly all of the line is; else somebody's
 * queue.
 */
LEEWAY_INLINE void leeway_ebb_on_loss(struct leeway_ebb *s, const struct leeway_loss *loss,
				      const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path), phase = s->w.out.phase;
	int timeout = loss->kind == LEEWAY_LOSS_TIMEOUT;
	int few = !timeout && s->w.out.cwnd_q16 >> 17 >= mss && leeway_chance_may(&s->chance, mss);
	int chance = few && s->met_sent_us + s->base.min_us / 2 < loss->sent_us;
	int ours = few && (phase == LEEWAY_AVOIDANCE || phase == LEEWAY_INFERENCE) &&
		   s->line.rate / mss * s->s_us >= 850000;

	if (!leeway_new_loss(&s->w, loss))
		return;
	leeway_chance_on_loss(&s->chance, mss);
	if (!timeout)
		leeway_room_on_loss(&s->room);
	if (chance) {
		leeway_ebb_cut(s, s->w.out.cwnd_q16, 950, mss);
	} else if (ours) {
		leeway_ebb_check(s, loss->now_us, leeway_permille(s->w.out.cwnd_q16, 900), 944, mss);
	} else {
		leeway_ebb_leave(s, loss->now_us, mss);
		if (timeout)
			s->w.out.cwnd_q16 = leeway_min_u64(s->w.out.cwnd_q16, (leeway_u64)mss << 16);
	}
	leeway_reacted(&s->w, loss->now_us);
	leeway_ebb_output(s, path);
}

#endif
