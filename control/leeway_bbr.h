/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * BBR, version 3 (draft-ietf-ccwg-bbr-06): sends at the rate that the path delivers, and keeps little more than a
 * bandwidth-delay product in flight. Sections below are the draft's. It does not yield: it is a primary.
 *
 *	bw = min(max_bw, bw_shortterm)		rate = 0.99 gain bw
 *	bdp = bw min_rtt			window <= gain bdp + extra_acked, inflight_longterm, inflight_shortterm
 *
 * Startup (slow start), Drain (yielding), ProbeBW: DOWN, CRUISE, REFILL, UP (avoidance), ProbeRTT (slowdown).
 *
 * Scope and limitations:
 * - A quantum is one segment, so that offload_budget (5.5.8) is never the bound. The draft leaves the
 *   quantum to the sender.
 * - leeway_bbr_path.h has those of its model. A law does not hear of spurious recoveries (5.5.11).
 * - After a timeout the window is one segment, and what it was at the next round trip (5.6.4.4).
 * - The window does not grow while the application is the limit.
 * - The draft has no response to marks (3.8). Own: 0.85 of the window and the rate (RFC 8511), which ends a probe.
 */
#ifndef LEEWAY_BBR_H
#define LEEWAY_BBR_H

#include "leeway_bbr_path.h"

LEEWAY_INLINE void leeway_bbr_reset_full(struct leeway_bbr *s, leeway_u64 rate)
{
	s->full_bw = rate;
	s->full_rounds = 0;
	s->full_now = 0;
}

LEEWAY_INLINE void leeway_bbr_reset_shortterm(struct leeway_bbr *s)
{
	s->bw_shortterm = LEEWAY_UNLIMITED;
	s->inflight_shortterm = LEEWAY_UNLIMITED;
}

/* StartProbeBW_DOWN() and PickProbeWait(), 5.3.3.8 and 5.3.3.9 */
LEEWAY_INLINE void leeway_bbr_down(struct leeway_bbr *s, leeway_u64 now_us)
{
	s->chance = (s->chance ^ (leeway_u32)now_us) * 1664525U + 1013904223U; /* Numerical Recipes, ranqd1 */
	s->since_up = s->chance >> 31;
	s->wait_us = LEEWAY_BBR_WAIT_US + (leeway_u32)((leeway_u64)(s->chance << 1) * 1000000 >> 32);
	s->loss_in_round = 0; /* ResetCongestionSignals() */
	s->bw_latest = 0;
	s->inflight_latest = 0;
	s->up_per_inc = LEEWAY_UNLIMITED;
	s->cycle_us = now_us;
	s->acks = LEEWAY_BBR_ACKS_STOPPING;
	s->round_end = s->delivered;
	s->state = LEEWAY_BBR_DOWN;
}

LEEWAY_INLINE void leeway_bbr_refill(struct leeway_bbr *s)
{
	leeway_bbr_reset_shortterm(s);
	s->up_rounds = 0;
	s->up_acked = 0;
	s->precautionary = 0;
	s->acks = LEEWAY_BBR_ACKS_REFILLING;
	s->round_end = s->delivered;
	s->state = LEEWAY_BBR_REFILL;
}

/* RaiseInflightLongtermSlope(), 5.3.3.9 */
LEEWAY_INLINE void leeway_bbr_steeper(struct leeway_bbr *s, const struct leeway_path *path)
{
	s->up_per_inc = leeway_max_u64(leeway_bbr_cwnd(s) >> (s->up_rounds & 31), leeway_mss(path));
	s->up_rounds = (leeway_u8)leeway_min_u32(s->up_rounds + 1U, 30);
}

LEEWAY_INLINE void leeway_bbr_up(struct leeway_bbr *s, const struct leeway_path *path)
{
	s->acks = LEEWAY_BBR_ACKS_STARTING;
	s->round_end = s->delivered;
	leeway_bbr_reset_full(s, s->rate);
	s->state = LEEWAY_BBR_UP;
	leeway_bbr_steeper(s, path);
}

/* HandleInflightTooHigh(), 5.5.10.2 */
LEEWAY_INLINE void leeway_bbr_handle_too_high(struct leeway_bbr *s, leeway_u64 now_us,
					      const struct leeway_path *path)
{
	s->too_high = 1;
	s->probe_sample = 0;
	if (!s->limited)
		s->inflight_longterm = leeway_max_u64(
			s->flight, leeway_bbr_part(leeway_bbr_target(s, path), s->beta_permille));
	if (s->state == LEEWAY_BBR_UP)
		leeway_bbr_down(s, now_us);
}

/* CheckFullBWReached(), 5.3.1.2; the ends of Startup and of Drain, 5.3.1.1 and 5.3.2. */
LEEWAY_ALONE leeway_u32 leeway_bbr_fill(struct leeway_bbr *s LEEWAY_NONNULL, leeway_u64 now_us,
					const struct leeway_path *path LEEWAY_NONNULL)
{
	if (!s->full_now && s->round_start && !s->limited) {
		if (s->rate >= s->full_bw + s->full_bw / 4)
			leeway_bbr_reset_full(s, s->rate);
		else if (++s->full_rounds >= 3)
			s->full_now = s->full_reached = 1;
	}
	if (s->state == LEEWAY_BBR_STARTUP && s->full_reached) {
		s->state = LEEWAY_BBR_DRAIN;
		s->since_rounds = s->rounds;
	}
	if (s->state == LEEWAY_BBR_DRAIN &&
	    (path->inflight_bytes <= leeway_bbr_inflight(s, path) || s->rounds - s->since_rounds > 3))
		leeway_bbr_down(s, now_us);
	return s->state;
}

/* AdaptLongTermModel() and ProbeInflightLongtermUpward(), 5.3.3.9; 1: it went to REFILL. */
LEEWAY_ALONE leeway_u32 leeway_bbr_longterm(struct leeway_bbr *s LEEWAY_NONNULL,
					    const struct leeway_ack *ack LEEWAY_NONNULL,
					    const struct leeway_path *path LEEWAY_NONNULL)
{
	leeway_u64 steps;

	if (s->acks == LEEWAY_BBR_ACKS_STARTING && s->round_start)
		s->acks = LEEWAY_BBR_ACKS_FEEDBACK;
	if (s->acks == LEEWAY_BBR_ACKS_STOPPING && s->round_start) {
		s->probe_sample = 0;
		s->acks = LEEWAY_BBR_ACKS_INIT;
		if (leeway_bbr_in_probe_bw(s) && !s->limited) { /* AdvanceMaxBwFilter(), 5.5.6 */
			s->max_bw[1] = s->max_bw[0];
			s->max_bw[0] = 0;
		}
		if (leeway_bbr_in_probe_bw(s) && s->precautionary && !s->too_high) {
			leeway_bbr_refill(s);
			return 1;
		}
	}
	if (s->inflight_longterm == LEEWAY_UNLIMITED || leeway_bbr_too_high(s))
		return 0;
	s->inflight_longterm = leeway_max_u64(s->inflight_longterm, s->flight);
	if (s->state != LEEWAY_BBR_UP || !leeway_bbr_limited(s, ack, path) ||
	    leeway_bbr_cwnd(s) < s->inflight_longterm)
		return 0;
	s->up_acked += leeway_min_u64(ack->acked_bytes, LEEWAY_WINDOW_MAX_BYTES);
	steps = s->up_acked / leeway_max_u64(s->up_per_inc, 1);
	s->up_acked -= steps * s->up_per_inc;
	s->inflight_longterm += leeway_min_u64(steps * leeway_mss(path), LEEWAY_WINDOW_MAX_BYTES);
	s->inflight_longterm = leeway_min_u64(s->inflight_longterm, LEEWAY_WINDOW_MAX_BYTES);
	if (s->round_start)
		leeway_bbr_steeper(s, path);
	return 0;
}

/* IsTimeToGoDown(), 5.3.3.9 */
LEEWAY_INLINE int leeway_bbr_goes_down(struct leeway_bbr *s, const struct leeway_ack *ack,
				       const struct leeway_path *path)
{
	if (s->too_high && path->inflight_bytes >= s->inflight_longterm) {
		s->precautionary = 1;
		return 1;
	}
	if (leeway_bbr_limited(s, ack, path) && leeway_bbr_cwnd(s) >= s->inflight_longterm) {
		leeway_bbr_reset_full(s, s->rate);
		return 0;
	}
	return s->full_now;
}

/* UpdateProbeBWCyclePhase(), 5.3.3.9 */
LEEWAY_ALONE leeway_u32 leeway_bbr_cycle(struct leeway_bbr *s LEEWAY_NONNULL,
					 const struct leeway_ack *ack LEEWAY_NONNULL,
					 const struct leeway_path *path LEEWAY_NONNULL)
{
	leeway_u64 reno =
		leeway_min_u64(leeway_bbr_target(s, path) / leeway_mss(path), LEEWAY_BBR_RENO_ROUNDS);

	if (!s->full_reached || leeway_bbr_longterm(s, ack, path))
		return s->state;
	if (s->state == LEEWAY_BBR_DOWN || s->state == LEEWAY_BBR_CRUISE) {
		if (ack->now_us - s->cycle_us > s->wait_us || s->since_up >= reno)
			leeway_bbr_refill(s);
		else if (path->inflight_bytes <= leeway_bbr_headroom(s, path) &&
			 path->inflight_bytes <= leeway_bbr_inflight(s, path))
			s->state = LEEWAY_BBR_CRUISE;
	} else if (s->state == LEEWAY_BBR_REFILL) {
		if (s->round_start) {
			s->probe_sample = 1;
			leeway_bbr_up(s, path);
		}
	} else if (s->state == LEEWAY_BBR_UP && leeway_bbr_goes_down(s, ack, path)) {
		s->too_high = 0;
		leeway_bbr_down(s, ack->now_us);
	}
	return s->state;
}

/* ProbeRTTCwnd(), 5.6.4.5 */
LEEWAY_INLINE leeway_u64 leeway_bbr_rtt_cwnd(const struct leeway_bbr *s, const struct leeway_path *path)
{
	return leeway_max_u64(leeway_bbr_bdp(s, 500), leeway_bbr_floor(s, path));
}

/* CheckProbeRTT(), 5.3.4.3, and the way out of it, 5.3.4.4. */
LEEWAY_ALONE leeway_u32 leeway_bbr_probe_rtt(struct leeway_bbr *s LEEWAY_NONNULL, leeway_u64 now_us,
					     const struct leeway_path *path LEEWAY_NONNULL)
{
	if (s->state != LEEWAY_BBR_PROBE_RTT) {
		if (!s->rtt_due || s->idle)
			return s->state;
		s->state = LEEWAY_BBR_PROBE_RTT;
		s->prior_q16 = leeway_max_u64(s->prior_q16, s->w.out.cwnd_q16);
		s->probe_rtt_done_us = 0;
		s->acks = LEEWAY_BBR_ACKS_STOPPING;
		s->round_end = s->delivered;
	}
	s->limited_until = s->delivered + path->inflight_bytes;
	if (!s->probe_rtt_done_us) {
		if (path->inflight_bytes > leeway_bbr_rtt_cwnd(s, path))
			return s->state;
		s->probe_rtt_done_us = now_us + LEEWAY_BBR_PROBE_RTT_US;
		s->rtt_round = 0;
		s->round_end = s->delivered;
		return s->state;
	}
	s->rtt_round |= s->round_start;
	if (!s->rtt_round || now_us <= s->probe_rtt_done_us)
		return s->state;
	s->probe_rtt_at_us = now_us;
	leeway_bbr_reset_shortterm(s);
	s->state = LEEWAY_BBR_STARTUP;
	if (s->full_reached) {
		leeway_bbr_down(s, now_us);
		s->state = LEEWAY_BBR_CRUISE;
	}
	return s->state;
}

/* Gain of the rate, 5.6.1. */
LEEWAY_INLINE leeway_u32 leeway_bbr_gain(const struct leeway_bbr *s)
{
	switch (s->state) {
	case LEEWAY_BBR_STARTUP:
		return LEEWAY_BBR_STARTUP_GAIN;
	case LEEWAY_BBR_DRAIN:
		return 500;
	case LEEWAY_BBR_DOWN:
		return 900;
	case LEEWAY_BBR_UP:
		return 1250;
	default:
		return 1000;
	}
}

/* What bounds the window, 5.6.4.2 and 5.6.4.7. */
LEEWAY_ALONE leeway_u64 leeway_bbr_cap(const struct leeway_bbr *s LEEWAY_NONNULL,
				       const struct leeway_path *path LEEWAY_NONNULL)
{
	leeway_u64 cap = LEEWAY_UNLIMITED;

	if (s->state == LEEWAY_BBR_PROBE_RTT || s->state == LEEWAY_BBR_CRUISE)
		cap = leeway_bbr_headroom(s, path);
	else if (leeway_bbr_in_probe_bw(s))
		cap = s->inflight_longterm;
	cap = leeway_min_u64(cap, s->inflight_shortterm);
	if (s->state == LEEWAY_BBR_PROBE_RTT && s->bw)
		cap = leeway_min_u64(cap, leeway_bbr_rtt_cwnd(s, path));
	return leeway_max_u64(cap, leeway_bbr_floor(s, path));
}

/* SetPacingRate(), 5.6.2, and SetCwnd(), 5.6.4.6. */
LEEWAY_ALONE leeway_u32 leeway_bbr_output(struct leeway_bbr *s LEEWAY_NONNULL,
					  const struct leeway_ack *ack LEEWAY_NONNULL,
					  const struct leeway_path *path LEEWAY_NONNULL)
{
	leeway_u64 rate = leeway_bbr_part(leeway_bbr_part(s->bw, leeway_bbr_gain(s)), LEEWAY_BBR_MARGIN);
	leeway_u64 cwnd = leeway_bbr_cwnd(s), most = cwnd, acked;
	leeway_u32 gain = s->state == LEEWAY_BBR_UP ? 2250 : 2000;

	if (rate && (s->full_reached || rate > s->w.out.pacing_bytes_per_s))
		s->w.out.pacing_bytes_per_s = rate;
	if (s->bw) { /* before a sample the window is what it is */
		most = leeway_bbr_bdp(s, gain) + leeway_max_u64(s->extra[0], s->extra[1]);
		most = leeway_max_u64(most, leeway_bbr_floor(s, path));
		most += s->state == LEEWAY_BBR_UP ? 2 * leeway_mss(path) : 0;
	}
	if (!ack->app_limited) {
		acked = leeway_min_u64(ack->acked_bytes, LEEWAY_WINDOW_MAX_BYTES);
		if (s->full_reached || cwnd < most ||
		    (s->delivered && s->delivered < path->initial_window_bytes))
			cwnd += acked;
		cwnd = leeway_max_u64(cwnd, leeway_bbr_floor(s, path));
		if (s->prior_q16 && s->round_start && s->state != LEEWAY_BBR_PROBE_RTT) {
			cwnd = leeway_max_u64(cwnd, s->prior_q16 >> 16); /* RestoreCwnd() */
			s->prior_q16 = 0;
		}
	}
	if (s->full_reached)
		cwnd = leeway_min_u64(cwnd, most);
	cwnd = leeway_min_u64(leeway_min_u64(cwnd, leeway_bbr_cap(s, path)), LEEWAY_WINDOW_MAX_BYTES);
	s->w.out.cwnd_q16 = leeway_max_u64(cwnd, 1) << 16;
	s->w.out.phase = s->state == LEEWAY_BBR_STARTUP     ? LEEWAY_SLOW_START
			 : s->state == LEEWAY_BBR_DRAIN     ? LEEWAY_YIELDING
			 : s->state == LEEWAY_BBR_PROBE_RTT ? LEEWAY_SLOWDOWN
							    : LEEWAY_AVOIDANCE;
	return s->state;
}

/* Marks: own. */
LEEWAY_INLINE void leeway_bbr_mark(struct leeway_bbr *s, leeway_u64 now_us, const struct leeway_path *path)
{
	leeway_u64 cwnd = leeway_bbr_part(leeway_bbr_cwnd(s), LEEWAY_BBR_MARK_GAIN);

	leeway_reacted(&s->w, now_us);
	s->full_reached = 1;
	if (s->state == LEEWAY_BBR_REFILL || s->state == LEEWAY_BBR_UP) {
		s->inflight_longterm = leeway_bbr_cwnd(s);
		s->too_high = 1;
		leeway_bbr_down(s, now_us);
	}
	s->bw_shortterm = leeway_bbr_part(s->bw ? s->bw : LEEWAY_BBR_RATE_MAX, LEEWAY_BBR_MARK_GAIN);
	s->inflight_shortterm = leeway_max_u64(cwnd, leeway_bbr_floor(s, path));
}

/* 5.2.3 */
LEEWAY_INLINE void leeway_bbr_on_ack(struct leeway_bbr *s, const struct leeway_ack *ack,
				     const struct leeway_path *path)
{
	if (leeway_marked(&s->w, ack, path))
		leeway_bbr_mark(s, ack->now_us, path);
	if (ack->acked_bytes) {
		if (leeway_bbr_sample(s, ack) && s->probe_sample && leeway_bbr_too_high(s))
			leeway_bbr_handle_too_high(s, ack->now_us, path);
		leeway_bbr_congestion(s);
		leeway_bbr_aggregation(s, ack);
		leeway_bbr_fill(s, ack->now_us, path);
		leeway_bbr_cycle(s, ack, path);
		leeway_bbr_min_rtt(s, ack, path);
		leeway_bbr_probe_rtt(s, ack->now_us, path);
		if (s->loss_round_start) { /* AdvanceLatestDeliverySignals(), 5.5.10.3 */
			s->bw_latest = s->rate;
			s->inflight_latest = s->sampled;
		}
	}
	leeway_bbr_output(s, ack, path);
}

/* 5.6.4.4; what was lost the acks tell. */
LEEWAY_INLINE void leeway_bbr_on_loss(struct leeway_bbr *s, const struct leeway_loss *loss,
				      const struct leeway_path *path)
{
	if (leeway_new_loss(&s->w, loss))
		leeway_reacted(&s->w, loss->now_us);
	if (loss->kind != LEEWAY_LOSS_TIMEOUT)
		return;
	s->prior_q16 = leeway_max_u64(s->prior_q16, s->w.out.cwnd_q16);
	s->round_end = s->delivered;
	s->w.out.cwnd_q16 = leeway_min_u64(s->w.out.cwnd_q16, (leeway_u64)leeway_mss(path) << 16);
}

#endif
