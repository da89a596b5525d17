/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The window arithmetic that the laws share: slow start, additive steps, the floor, and the
 * reaction to loss, ECN marks and timeouts at most once per round trip.
 *
 * Scope and limitations:
 * - The threshold after a loss comes from the window, not from FlightSize (RFC 5681, eq. 4): so do
 *   Linux and ns-2, and laws do not grow an unused window in the first place.
 * - A timeout sets the window to one segment, even when the floor is higher; growth lifts it again.
 * - A timeout of data sent before the last reaction (a lost retransmission) leaves the threshold
 *   alone: the window has been halved for that round trip already.
 * - No step is faster than slow start: an ack never adds more than it acknowledged. Below one
 *   segment an additive step counts as if the window were one segment, otherwise 1/W would jump
 *   past it.
 * - climb (off unless set) is a conservative reaction to timeouts in a row, which Komnios 2014,
 *   section V, asks for; this form of it is our own. The window halves with each of them, below one
 *   segment and below the floor too, and comes back by a part of itself with each segment acked.
 *   Where the loss rate is ln(1 + climb) / ln(2 + 2 climb) it stands still.
 */
#ifndef LEEWAY_WINDOW_H
#define LEEWAY_WINDOW_H

#include "leeway_math.h"

enum leeway_slow_start_mode {
	LEEWAY_SLOW_START_NONE = 0,     /* grow linearly from the first ack */
	LEEWAY_SLOW_START_STANDARD = 1, /* RFC 5681: until the threshold or a loss */
	LEEWAY_SLOW_START_DELAY = 2,    /* or until there is a queue, where the law has a target for it */
};

enum leeway_timeout_mode {
	LEEWAY_TIMEOUT_ONE = 0,   /* RFC 5681: one segment */
	LEEWAY_TIMEOUT_HALVE = 1, /* one segment, or half of a window that is below one already */
};

/* The part of the state that all laws have; out comes first, as leeway.h demands. */
struct leeway_window {
	struct leeway_output out;
	leeway_u64 reacted_us;     /* one past the time of the last reaction to loss; 0: none yet */
	leeway_u64 carry;          /* remainder of the last additive step's division */
	leeway_u32 floor_permille; /* lowest window of a decrease, thousandths of a segment */
	leeway_u8 slow_start;      /* enum leeway_slow_start_mode */
	leeway_u8 abc_limit;       /* RFC 3465, L: segments that one ack may add in slow start */
	leeway_u8 timeout;         /* enum leeway_timeout_mode */
	leeway_u8 reserved;
};

/* Where climb is on, timeouts leave at least this part of a segment. */
#define LEEWAY_CLIMB_FROM 64

/* Thousandths of a segment that mean "no limit". */
#define LEEWAY_PERMILLE_UNLIMITED 0xffffffffU

LEEWAY_INLINE leeway_u32 leeway_mss(const struct leeway_path *path)
{
	return leeway_clamp_u32(path->mss_bytes, 1, 65535);
}

/* Thousandths of a segment as bytes in q16, rounded up so that a floor is never undercut. */
LEEWAY_INLINE leeway_u64 leeway_segments_q16(leeway_u32 permille, leeway_u32 mss)
{
	return (((leeway_u64)permille * mss << 16) + 999) / 1000;
}

LEEWAY_INLINE leeway_u64 leeway_floor_q16(const struct leeway_window *w, leeway_u32 mss)
{
	return leeway_segments_q16(w->floor_permille, mss);
}

/* What the shared arithmetic needs to know; sanitized by leeway_window_init(). */
struct leeway_window_config {
	leeway_u32 floor_permille;
	leeway_u32 slow_start;        /* enum leeway_slow_start_mode */
	leeway_u32 ssthresh_permille; /* initial threshold; LEEWAY_PERMILLE_UNLIMITED: none */
	leeway_u32 abc_limit;
	leeway_u32 timeout; /* enum leeway_timeout_mode */
};

LEEWAY_INLINE void leeway_window_init(struct leeway_window *w, const struct leeway_window_config *config,
				      const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);
	leeway_u64 cwnd_q16 = (leeway_u64)path->initial_window_bytes << 16;

	w->abc_limit = (leeway_u8)leeway_clamp_u32(config->abc_limit, 1, 255);
	w->floor_permille = leeway_clamp_u32(config->floor_permille, 1, 1000000);
	w->slow_start = (leeway_u8)leeway_min_u32(config->slow_start, LEEWAY_SLOW_START_DELAY);
	w->timeout = config->timeout == LEEWAY_TIMEOUT_HALVE ? LEEWAY_TIMEOUT_HALVE : LEEWAY_TIMEOUT_ONE;
	w->out.cwnd_q16 = leeway_max_u64(cwnd_q16, leeway_floor_q16(w, mss));
	w->out.ssthresh_bytes = LEEWAY_UNLIMITED;
	if (config->ssthresh_permille != LEEWAY_PERMILLE_UNLIMITED)
		w->out.ssthresh_bytes = leeway_segments_q16(config->ssthresh_permille, mss) >> 16;
	w->out.pacing_bytes_per_s = 0;
	w->out.queuing_delay_us = 0;
	w->out.probe_us = 0;
	w->out.quantum = 0;
	w->out.reserved = 0;
	w->out.phase = w->slow_start ? LEEWAY_SLOW_START : LEEWAY_AVOIDANCE;
	w->reacted_us = 0;
	w->carry = 0;
	w->reserved = 0;
}

LEEWAY_INLINE int leeway_may_grow(const struct leeway_ack *ack)
{
	return ack->acked_bytes && !ack->app_limited && !ack->recovering;
}

LEEWAY_INLINE int leeway_in_slow_start(const struct leeway_window *w)
{
	return w->slow_start && w->out.cwnd_q16 >> 16 < w->out.ssthresh_bytes;
}

/* Raise the window by step_q16, never past the largest window there is. */
LEEWAY_INLINE void leeway_raise(struct leeway_window *w, leeway_u64 step_q16)
{
	leeway_u64 most_q16 = LEEWAY_WINDOW_MAX_BYTES << 16;

	w->out.cwnd_q16 = leeway_min_u64(w->out.cwnd_q16 + leeway_min_u64(step_q16, most_q16), most_q16);
}

/*
 * Lower the window by step_q16, to the floor at most; a window below the floor (after a timeout)
 * stays.
 */
LEEWAY_INLINE void leeway_lower(struct leeway_window *w, leeway_u64 step_q16, leeway_u32 mss)
{
	leeway_u64 floor_q16 = leeway_floor_q16(w, mss);

	if (w->out.cwnd_q16 > floor_q16)
		w->out.cwnd_q16 = leeway_max_u64(leeway_less(w->out.cwnd_q16, step_q16), floor_q16);
}

/*
 * Slow start, RFC 5681 3.1 with byte counting (RFC 3465 2.2): each ack adds what it acknowledged, L
 * segments at most, up to the threshold. Returns the bytes left for congestion avoidance.
 */
LEEWAY_INLINE leeway_u64 leeway_slow_start(struct leeway_window *w, leeway_u64 acked_bytes, leeway_u32 mss)
{
	leeway_u64 step_bytes = leeway_min_u64(acked_bytes, (leeway_u64)w->abc_limit * mss);
	leeway_u64 limit_q16 = leeway_min_u64(w->out.ssthresh_bytes, LEEWAY_WINDOW_MAX_BYTES) << 16;
	leeway_u64 room_q16 = leeway_less(limit_q16, w->out.cwnd_q16);

	if (step_bytes << 16 <= room_q16) {
		w->out.cwnd_q16 += step_bytes << 16;
		return 0;
	}
	w->out.cwnd_q16 += room_q16;
	return ((step_bytes << 16) - room_q16) >> 16;
}

/*
 * The end of a slow start that looks at the delay, at three quarters of the target
 * (ledbat-plus-plus 4.3). What is acked now was sent a round trip ago, when the window was half as
 * large: that is the window whose queue is seen, and the law goes on from there. Returns whether it
 * ended.
 */
LEEWAY_INLINE int leeway_slow_start_ends(struct leeway_window *w, leeway_u32 queuing_us, leeway_u32 target_us,
					 leeway_u32 mss)
{
	if (w->slow_start != LEEWAY_SLOW_START_DELAY || queuing_us <= target_us - target_us / 4)
		return 0;
	leeway_lower(w, w->out.cwnd_q16 / 2, mss);
	w->out.ssthresh_bytes = leeway_max_u64(w->out.cwnd_q16 >> 16, 1);
	return 1;
}

/*
 * change x acked / W, in the unit of change (bytes, q16): what one ack brings of a change that
 * takes a round trip. The remainder is carried to the next ack, without which a window of 100
 * Gbit/s x 1 s would grow several percent too slowly and shrink not at all.
 */
LEEWAY_INLINE leeway_u64 leeway_share_q16(leeway_u64 change_q16, leeway_u64 acked_bytes, leeway_u64 window_q8,
					  leeway_u64 *carry)
{
	leeway_u64 dividend, share_q24;

	window_q8 = leeway_max_u64(window_q8, 1U << 8);
	acked_bytes = leeway_min_u64(acked_bytes, window_q8 >> 8);
	if (!(acked_bytes >> 20) && !(change_q16 >> 35)) {
		dividend = (change_q16 * acked_bytes << 8) + *carry;
		*carry = dividend % window_q8;
		return dividend / window_q8;
	}
	share_q24 = (acked_bytes << 24) / (window_q8 >> 8); /* at most 2^24, as acked <= W < 2^40 */
	if (change_q16 >> 38)
		return (change_q16 >> 20) * share_q24 >> 4;
	return change_q16 * share_q24 >> 24;
}

/* The window that a step divides by: one segment at least. */
LEEWAY_INLINE leeway_u64 leeway_divisor_q8(const struct leeway_window *w, leeway_u32 mss)
{
	return leeway_max_u64(w->out.cwnd_q16 >> 8, (leeway_u64)mss << 8);
}

/*
 * rate x MSS x acked / W in bytes, q16: the share of one ack in a change of rate segments per round
 * trip.
 */
LEEWAY_INLINE leeway_u64 leeway_step_q16(struct leeway_window *w, leeway_u64 acked_bytes, leeway_u32 mss,
					 leeway_u32 rate_q16)
{
	return leeway_share_q16((leeway_u64)mss * leeway_min_u32(rate_q16, LEEWAY_RATE_MAX_Q16), acked_bytes,
				leeway_divisor_q8(w, mss), &w->carry);
}

/* Additive increase of rate segments per round trip. */
LEEWAY_INLINE void leeway_increase(struct leeway_window *w, leeway_u64 acked_bytes, leeway_u32 mss,
				   leeway_u32 rate_q16)
{
	leeway_u64 step_q16 = leeway_step_q16(w, acked_bytes, mss, rate_q16);

	acked_bytes = leeway_min_u64(acked_bytes, LEEWAY_WINDOW_MAX_BYTES);
	leeway_raise(w, leeway_min_u64(step_q16, acked_bytes << 16));
}

/*
 * A decrease for delay takes the threshold with it where slow start would give back what was
 * yielded.
 */
LEEWAY_INLINE void leeway_yield(struct leeway_window *w, leeway_u64 step_q16, leeway_u32 mss)
{
	leeway_lower(w, step_q16, mss);
	if (leeway_in_slow_start(w))
		w->out.ssthresh_bytes = w->out.cwnd_q16 >> 16;
}

/* Additive decrease of rate segments per round trip, to the floor at most. */
LEEWAY_INLINE void leeway_decrease(struct leeway_window *w, leeway_u64 acked_bytes, leeway_u32 mss,
				   leeway_u32 rate_q16)
{
	leeway_yield(w, leeway_step_q16(w, acked_bytes, mss, rate_q16), mss);
}

/* Reno: slow start below the threshold, one segment per round trip above it. */
LEEWAY_INLINE void leeway_reno_grow(struct leeway_window *w, leeway_u64 acked_bytes, leeway_u32 mss)
{
	if (leeway_in_slow_start(w)) {
		w->out.phase = LEEWAY_SLOW_START;
		acked_bytes = leeway_slow_start(w, acked_bytes, mss);
		if (!acked_bytes)
			return;
	}
	w->out.phase = LEEWAY_AVOIDANCE;
	leeway_increase(w, acked_bytes, mss, LEEWAY_ONE_Q16);
}

/* Whether marks reported by this ack call for a reaction: no reaction in the round trip before. */
LEEWAY_INLINE int leeway_marked(const struct leeway_window *w, const struct leeway_ack *ack,
				const struct leeway_path *path)
{
	leeway_u32 rtt_us = path->srtt_us ? path->srtt_us : 1000000; /* RFC 6298, 2.1: before any sample */

	if (!ack->ce_bytes)
		return 0;
	return !w->reacted_us || ack->now_us - (w->reacted_us - 1) >= rtt_us;
}

/* Whether a loss calls for a reaction: what was lost was sent after the last reaction. */
LEEWAY_INLINE int leeway_new_loss(const struct leeway_window *w, const struct leeway_loss *loss)
{
	return loss->sent_us >= w->reacted_us;
}

LEEWAY_INLINE void leeway_reacted(struct leeway_window *w, leeway_u64 now_us)
{
	w->reacted_us = now_us + 1;
}

/* Threshold as permille of the window, two segments at least (RFC 5681, eq. 4 with 500). */
LEEWAY_INLINE void leeway_set_ssthresh(struct leeway_window *w, leeway_u32 permille, leeway_u32 mss)
{
	leeway_u64 bytes = (w->out.cwnd_q16 >> 16) * permille / 1000;

	w->out.ssthresh_bytes = leeway_max_u64(bytes, 2ULL * mss);
}

/* Multiplicative decrease to permille of the window, to the floor at most. */
LEEWAY_INLINE void leeway_back_off(struct leeway_window *w, leeway_u32 permille, leeway_u32 mss,
				   leeway_u64 now_us)
{
	leeway_set_ssthresh(w, permille, mss);
	leeway_lower(w, w->out.cwnd_q16 / 1000 * (1000 - leeway_min_u32(permille, 1000)), mss);
	w->out.phase = LEEWAY_AVOIDANCE;
	leeway_reacted(w, now_us);
}

/*
 * A timeout: one segment, and a new threshold only for the first of a series (RFC 5681, eq. 4 and
 * after).
 */
LEEWAY_INLINE void leeway_time_out(struct leeway_window *w, const struct leeway_loss *loss,
				   leeway_u32 permille, leeway_u32 mss)
{
	leeway_u64 one_q16 = (leeway_u64)mss << 16;

	if (loss->timeouts <= 1 && leeway_new_loss(w, loss))
		leeway_set_ssthresh(w, permille, mss);
	if (w->timeout == LEEWAY_TIMEOUT_HALVE && w->out.cwnd_q16 <= one_q16)
		leeway_lower(w, w->out.cwnd_q16 / 2, mss);
	else
		w->out.cwnd_q16 = one_q16;
	w->out.phase = w->slow_start ? LEEWAY_SLOW_START : LEEWAY_AVOIDANCE;
	leeway_reacted(w, loss->now_us);
}

/*
 * The reaction to loss of Reno and of most laws: permille of the window, one segment after a
 * timeout.
 */
LEEWAY_INLINE void leeway_reno_on_loss(struct leeway_window *w, const struct leeway_loss *loss,
				       leeway_u32 permille, leeway_u32 mss)
{
	if (loss->kind == LEEWAY_LOSS_TIMEOUT)
		leeway_time_out(w, loss, permille, mss);
	else if (leeway_new_loss(w, loss))
		leeway_back_off(w, permille, mss, loss->now_us);
}

/* The same, where timeouts halve a window of one segment or less. */
LEEWAY_INLINE void leeway_climber_on_loss(struct leeway_window *w, const struct leeway_loss *loss,
					  leeway_u32 climb_permille, leeway_u32 permille, leeway_u32 mss)
{
	leeway_u64 before_q16 = w->out.cwnd_q16;
	leeway_u64 one_q16 = (leeway_u64)mss << 16;

	leeway_reno_on_loss(w, loss, permille, mss);
	if (climb_permille && loss->kind == LEEWAY_LOSS_TIMEOUT && before_q16 <= one_q16)
		w->out.cwnd_q16 = leeway_max_u64(before_q16 / 2, one_q16 / LEEWAY_CLIMB_FROM);
}

/*
 * What an ack does to a window below one segment that has to climb. False where it has not: a delay
 * above the target rules down to the floor, and nothing but loss below it.
 */
LEEWAY_INLINE int leeway_climb(struct leeway_window *w, const struct leeway_ack *ack,
			       leeway_u32 climb_permille, int above_target, leeway_u32 mss)
{
	leeway_u64 step_q16;

	if (!climb_permille || w->out.cwnd_q16 >= (leeway_u64)mss << 16)
		return 0;
	if (above_target && w->out.cwnd_q16 >= leeway_floor_q16(w, mss))
		return 0;
	w->out.phase = LEEWAY_AVOIDANCE;
	if (leeway_may_grow(ack)) {
		step_q16 = leeway_max_u64(w->out.cwnd_q16 * climb_permille / 1000, 1);
		leeway_raise(w, leeway_min_u64(step_q16, leeway_min_u64(ack->acked_bytes, mss) << 16));
	}
	return 1;
}

#endif
