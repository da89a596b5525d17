/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * HyStart++ (RFC 9406): leaves slow start when the round-trip time rises, after a look at whether
 * it really does.
 *
 * Scope and limitations:
 * - For the first slow start only, as the RFC recommends.
 * - Rounds are those of the stack (ack.round_start).
 * - The limit on an ack's growth (L) is the law's abc_limit; the RFC allows 8 without pacing.
 */
#ifndef LEEWAY_HYSTART_H
#define LEEWAY_HYSTART_H

#include "leeway_math.h"

#define LEEWAY_HYSTART_SAMPLES 8     /* N_RTT_SAMPLE */
#define LEEWAY_HYSTART_MIN_US  4000  /* MIN_RTT_THRESH */
#define LEEWAY_HYSTART_MAX_US  16000 /* MAX_RTT_THRESH */
#define LEEWAY_HYSTART_ROUNDS  5     /* CSS_ROUNDS */
#define LEEWAY_HYSTART_GROWTH  4     /* CSS_GROWTH_DIVISOR */

struct leeway_hystart {
	leeway_u32 last_us;     /* minimum of the round before; ~0: none */
	leeway_u32 current_us;  /* of this round; ~0: none */
	leeway_u32 baseline_us; /* when conservative slow start began */
	leeway_u8 samples;      /* of this round, up to LEEWAY_HYSTART_SAMPLES */
	leeway_u8 rounds;       /* of conservative slow start, this one included; 0: not in it */
	leeway_u8 remainder;    /* acked bytes below LEEWAY_HYSTART_GROWTH that did not count yet */
	leeway_u8 reserved;
};

LEEWAY_INLINE void leeway_hystart_init(struct leeway_hystart *h)
{
	h->last_us = ~0U;
	h->current_us = ~0U;
	h->baseline_us = ~0U;
	h->samples = 0;
	h->rounds = 0;
	h->remainder = 0;
	h->reserved = 0;
}

/* Conservative slow start has lasted its rounds: congestion avoidance begins. */
LEEWAY_INLINE int leeway_hystart_done(const struct leeway_hystart *h)
{
	return h->rounds > LEEWAY_HYSTART_ROUNDS;
}

/* Take an ack of slow start; returns the bytes of it that may grow the window (RFC 9406, 4.2). */
LEEWAY_INLINE leeway_u64 leeway_hystart_on_ack(struct leeway_hystart *h, const struct leeway_ack *ack)
{
	leeway_u64 acked_bytes;
	leeway_u32 threshold_us;

	if (ack->round_start) {
		h->last_us = h->current_us;
		h->current_us = ~0U;
		h->samples = 0;
		if (h->rounds && !leeway_hystart_done(h))
			h->rounds++;
	}
	if (ack->rtt_us) {
		h->current_us = leeway_min_u32(h->current_us, ack->rtt_us);
		if (h->samples < LEEWAY_HYSTART_SAMPLES)
			h->samples++;
	}
	if (h->samples >= LEEWAY_HYSTART_SAMPLES && !h->rounds && h->last_us != ~0U) {
		threshold_us = leeway_clamp_u32(h->last_us / 8, LEEWAY_HYSTART_MIN_US, LEEWAY_HYSTART_MAX_US);
		if (h->current_us >= h->last_us && h->current_us - h->last_us >= threshold_us) {
			h->baseline_us = h->current_us;
			h->rounds = 1;
		}
	} else if (h->samples >= LEEWAY_HYSTART_SAMPLES && h->rounds && h->current_us < h->baseline_us) {
		h->baseline_us = ~0U; /* a false alarm: back to slow start */
		h->rounds = 0;
	}
	if (!h->rounds)
		return ack->acked_bytes;
	acked_bytes = leeway_min_u64(ack->acked_bytes, LEEWAY_WINDOW_MAX_BYTES) + h->remainder;
	h->remainder = (leeway_u8)(acked_bytes % LEEWAY_HYSTART_GROWTH);
	return acked_bytes / LEEWAY_HYSTART_GROWTH;
}

#endif
