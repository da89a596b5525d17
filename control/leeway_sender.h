/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What all senders do around a law: when the next segment may leave, whether the window was the
 * limit, one reaction to marks in a round trip, the window after idling, what a round-trip sample
 * is worth, and how a window of one segment leaves. No law includes this.
 *
 * Scope and limitations:
 * - A departure is fixed when the segment before it leaves, as in Linux: a law that changes its
 *   pacing changes the departure after the next one. Only leeway_output.probe_us moves the next.
 * - A receiver is taken for one that delays its acks from the first ack of two segments or more
 *   outside of recovery, and for ever (RFC 5681, 4.2). One whose acks are thinned on the way back
 *   looks the same.
 * - The ack of a lone segment that is not full, of a program that talks back and forth, may always
 *   wait.
 */
#ifndef LEEWAY_SENDER_H
#define LEEWAY_SENDER_H

#include "leeway_math.h"

/*
 * The pacing of Linux (net/ipv4/tcp_input.c, tcp_update_pacing_rate) and of RFC 9002, 7.7; percent
 * of window / RTT.
 */
#define LEEWAY_PACE_SLOW_START_PERCENT 200
#define LEEWAY_PACE_PERCENT            120

/* How long an ack waits for the next segment: Linux (TCP_DELACK_MIN) less its tick. */
#define LEEWAY_WAIT_MIN_US 30000

#define LEEWAY_FEW 4 /* segments in flight; with more, waits are few among the samples */

struct leeway_sender {
	leeway_u64 restart_bytes; /* limit of the window after idling; LEEWAY_UNLIMITED: none */
	leeway_u64 departure_ns;  /* no quantum begins before */
	leeway_u64 sent_ns;       /* when the last paced segment left */
	leeway_u32 mark_end;      /* sequence number: one mark is passed on until this is acknowledged */
	leeway_u32 quantum_left;  /* segments that follow the last one at once */
	leeway_u32 delays_acks;   /* 1: the receiver answers several segments with one ack */
	leeway_u32 answered_us;   /* the last round trip in which no ack waited; 0: none */
};

LEEWAY_INLINE void leeway_sender_init(struct leeway_sender *s, leeway_u32 una)
{
	s->restart_bytes = LEEWAY_UNLIMITED;
	s->departure_ns = 0;
	s->sent_ns = 0;
	s->mark_end = una;
	s->quantum_left = 0;
	s->delays_acks = 0;
	s->answered_us = 0;
}

/*
 * The connection was idle for longer than its retransmission timeout: begin again (RFC 5681, 4.1).
 */
LEEWAY_INLINE void leeway_sender_idle(struct leeway_sender *s, leeway_u32 initial_window_bytes)
{
	s->restart_bytes = initial_window_bytes;
}

/*
 * What may be in flight. A law that paces is held by its rate: its window leaves room for a quantum
 * that is about to leave and, where segments leave together, for one whose ack waits. Below one
 * segment, see leeway_pace_below_one().
 */
LEEWAY_INLINE leeway_u64 leeway_sender_window(const struct leeway_sender *s, const struct leeway_output *out,
					      leeway_u32 mss)
{
	leeway_u64 window = out->cwnd_q16 >> 16, segments = leeway_min_u32(out->quantum, 1000);

	if (out->pacing_bytes_per_s)
		window += (segments > 1 ? segments + 1 : 1) * mss;
	return leeway_min_u64(window, s->restart_bytes);
}

/*
 * Whether the law is told that its window was not the limit. limited: the window is what stopped
 * the sender. After idling the limit grows with what is acknowledged until it reaches the window.
 */
LEEWAY_INLINE int leeway_sender_app_limited(struct leeway_sender *s, const struct leeway_output *out,
					    leeway_u64 acked_bytes, int limited)
{
	if (s->restart_bytes != LEEWAY_UNLIMITED) {
		s->restart_bytes += acked_bytes;
		if (s->restart_bytes >= out->cwnd_q16 >> 16)
			s->restart_bytes = LEEWAY_UNLIMITED;
	}
	return !limited || s->restart_bytes != LEEWAY_UNLIMITED;
}

/*
 * Whether used bytes are a used window: nearly all of it, or half of it in slow start, which
 * doubles it (RFC 7661).
 */
LEEWAY_INLINE int leeway_uses_window(const struct leeway_output *out, leeway_u64 used_bytes)
{
	leeway_u64 window = out->cwnd_q16 >> 16;

	return used_bytes >= window || (out->phase == LEEWAY_SLOW_START && used_bytes >= window - window / 2);
}

/*
 * ECN echo of an ack up to una while next is sent: whether the law hears of it. The receiver
 * repeats the echo until it sees the answer, so one counts in a window of data (RFC 3168, 6.1.2).
 */
LEEWAY_INLINE int leeway_sender_marked(struct leeway_sender *s, leeway_u32 una, leeway_u32 next)
{
	if ((una - s->mark_end) >> 31)
		return 0;
	s->mark_end = next;
	return 1;
}

/*
 * What the round-trip time of the newest segment is worth (enum leeway_last); call it for every
 * ack.
 */
LEEWAY_INLINE leeway_u8 leeway_sender_last(struct leeway_sender *s, leeway_u64 acked_bytes, leeway_u32 mss,
					   int recovering)
{
	if (!recovering && acked_bytes >= 2ULL * mss)
		s->delays_acks = 1;
	/* In recovery every segment is answered at once (RFC 5681, 4.2). */
	if (recovering || acked_bytes >= 2ULL * mss)
		return LEEWAY_LAST_EXACT;
	return s->delays_acks || acked_bytes < mss ? LEEWAY_LAST_BOUND : LEEWAY_LAST_EXACT;
}

/*
 * Whether an ack has waited for the receiver's timer: that of one segment, with few in flight, which
 * took longer than the last one that was answered at once, by the timer or more. Its delays are
 * samples only where the window is below one segment. Call it for every ack, where the receiver may
 * delay them.
 */
LEEWAY_INLINE int leeway_sender_waited(struct leeway_sender *s, const struct leeway_ack *ack, leeway_u32 mss)
{
	if (ack->last_kind == LEEWAY_LAST_EXACT)
		s->answered_us = ack->last_rtt_us;
	return ack->last_kind == LEEWAY_LAST_BOUND &&
	       ack->prior_inflight_bytes <= LEEWAY_FEW * (leeway_u64)mss && s->answered_us &&
	       ack->last_rtt_us > s->answered_us && ack->last_rtt_us - s->answered_us >= LEEWAY_WAIT_MIN_US;
}

/*
 * Whether a window of one segment up to two leaves as pairs, two segments every 2/W round trips and
 * none while others are in flight: a receiver that delays its acks keeps the ack of a lone segment
 * until its timer expires, and that wait looks like a queue. paced: the law paces. recovering: every
 * segment is answered at once.
 */
LEEWAY_INLINE int leeway_in_pairs(leeway_u64 window, leeway_u64 paced, leeway_u32 mss, leeway_u64 srtt,
				  int recovering)
{
	return !paced && srtt && window >= mss && window < 2ULL * mss && !recovering;
}

/* percent of bytes each srtt, in bytes/s; 0 without a round-trip time. */
LEEWAY_INLINE leeway_u64 leeway_pace(leeway_u64 bytes, leeway_u32 percent, leeway_u64 srtt_us)
{
	return srtt_us ? leeway_min_u64(bytes, LEEWAY_WINDOW_MAX_BYTES) * percent * 10000 / srtt_us : 0;
}

/*
 * What a stack that paces gives a law that does not: twice the window each round trip in slow
 * start, 1.2 times after.
 */
LEEWAY_INLINE leeway_u64 leeway_pace_stack(leeway_u64 bytes, leeway_u64 window, leeway_u64 ssthresh,
					   leeway_u64 srtt_us)
{
	return leeway_pace(
		bytes, window < ssthresh / 2 ? LEEWAY_PACE_SLOW_START_PERCENT : LEEWAY_PACE_PERCENT, srtt_us);
}

/* Below one segment a window is a rate: one segment every 1/W round trips, in bytes/s. */
LEEWAY_INLINE leeway_u64 leeway_pace_below_one(const struct leeway_output *out, leeway_u64 srtt_us)
{
	return srtt_us ? (leeway_min_u64(out->cwnd_q16, 1ULL << 32) * 1000000 / srtt_us) >> 16 : 0;
}

/*
 * The same as a span: what lies between two segments of mss bytes, and between two pairs half of what
 * does.
 */
LEEWAY_INLINE leeway_u64 leeway_gap_below_one_ns(const struct leeway_output *out, leeway_u32 mss,
						 leeway_u64 srtt_ns)
{
	leeway_u64 part_q16 = leeway_min_u64(leeway_max_u64(out->cwnd_q16, 1), 0xffffffffU);
	leeway_u64 one_q16 = (leeway_u64)mss << 16;
	leeway_u64 times = leeway_min_u64(srtt_ns, 1ULL << 38) / part_q16, rest = srtt_ns % part_q16;

	/* part < 2^32, so rest x one < 2^64; more than 2^62 ns is never. */
	if (times >= (1ULL << 62) / one_q16)
		return 1ULL << 62;
	return times * one_q16 + rest * one_q16 / part_q16;
}

/* A segment of bytes leaves now at this pace; rate 0: nothing paces. */
LEEWAY_INLINE void leeway_sender_sent(struct leeway_sender *s, const struct leeway_output *out,
				      leeway_u64 now_ns, leeway_u64 bytes, leeway_u64 rate)
{
	leeway_u64 from_ns = leeway_max_u64(s->departure_ns, now_ns);

	s->sent_ns = now_ns;
	if (!rate) {
		s->quantum_left = 0;
		return;
	}
	if (s->quantum_left) {
		s->quantum_left--;
	} else {
		s->quantum_left = out->pacing_bytes_per_s && out->quantum ? out->quantum - 1 : 0;
		if (out->probe_us) /* a probe leaves before its departure, which is then no longer due */
			from_ns = now_ns;
	}
	s->departure_ns = from_ns + leeway_min_u64(bytes, 1ULL << 32) * 1000000000 / rate;
}

/*
 * When the next segment may leave, as far as pacing goes: at once within a quantum; by probe_us,
 * once.
 */
LEEWAY_INLINE leeway_u64 leeway_sender_departure_ns(const struct leeway_sender *s,
						    const struct leeway_output *out)
{
	leeway_u64 departure_ns = s->quantum_left ? 0 : s->departure_ns;

	if (out->probe_us < LEEWAY_UNLIMITED / 1000 && out->probe_us * 1000 > s->sent_ns)
		departure_ns = leeway_min_u64(departure_ns, out->probe_us * 1000);
	return departure_ns;
}

#endif
