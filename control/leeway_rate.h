/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, 3.3), with what
 * draft-ietf-ccwg-bbr (4.1) adds to a segment's record. For stacks that have none of their own;
 * Linux has.
 *
 * Scope and limitations:
 * - Of the segments that one ack covers the sample is that of the one that was sent last; the draft
 *   looks at each and keeps the same one.
 * - A sample whose interval is shorter than the smallest round trip is none (the draft's 3.3,
 *   GenerateRateSample).
 */
#ifndef LEEWAY_RATE_H
#define LEEWAY_RATE_H

#include "leeway_math.h"

/* The connection (C.*). */
struct leeway_rate_state {
	leeway_u64 delivered_bytes;
	leeway_u64 delivered_us;
	leeway_u64 first_sent_us; /* of the sampling interval */
	leeway_u64 lost_bytes;
	leeway_u64 app_limited_bytes; /* samples are limited until so much is delivered; 0: they are not */
};

/* One segment (P.*), taken when it leaves. */
struct leeway_rate_stamp {
	leeway_u64 delivered_bytes;
	leeway_u64 delivered_us;
	leeway_u64 first_sent_us;
	leeway_u64 sent_us;
	leeway_u64 lost_bytes;
	leeway_u64 inflight_bytes; /* right after, it included */
	leeway_u64 app_limited;
};

LEEWAY_INLINE void leeway_rate_init(struct leeway_rate_state *r)
{
	r->delivered_bytes = 0;
	r->delivered_us = 0;
	r->first_sent_us = 0;
	r->lost_bytes = 0;
	r->app_limited_bytes = 0;
}

/* SendPacket(): inflight_bytes is what is in flight before this segment. */
LEEWAY_INLINE void leeway_rate_sent(struct leeway_rate_state *r, struct leeway_rate_stamp *p,
				    leeway_u64 now_us, leeway_u64 inflight_bytes, leeway_u64 bytes)
{
	if (!inflight_bytes) {
		r->first_sent_us = now_us;
		r->delivered_us = now_us;
	}
	p->delivered_bytes = r->delivered_bytes;
	p->delivered_us = r->delivered_us;
	p->first_sent_us = r->first_sent_us;
	p->sent_us = now_us;
	p->lost_bytes = r->lost_bytes;
	p->inflight_bytes = inflight_bytes + bytes;
	p->app_limited = r->app_limited_bytes != 0;
}

/* CheckIfApplicationLimited(): the sender has nothing to send although it might. */
LEEWAY_INLINE void leeway_rate_app_limited(struct leeway_rate_state *r, leeway_u64 inflight_bytes)
{
	r->app_limited_bytes = leeway_max_u64(r->delivered_bytes + inflight_bytes, 1);
}

LEEWAY_INLINE void leeway_rate_lost(struct leeway_rate_state *r, leeway_u64 bytes)
{
	r->lost_bytes += bytes;
}

/* An ack of acked_bytes; p: the stamp of the segment sent last among them. */
LEEWAY_INLINE void leeway_rate_sample(struct leeway_rate_state *r, const struct leeway_rate_stamp *p,
				      leeway_u64 now_us, leeway_u64 acked_bytes, leeway_u32 min_rtt_us,
				      struct leeway_rate *sample)
{
	leeway_u64 interval_us = 0;

	r->delivered_bytes += acked_bytes;
	r->delivered_us = now_us;
	if (r->app_limited_bytes && r->delivered_bytes > r->app_limited_bytes)
		r->app_limited_bytes = 0;
	interval_us = leeway_max_u64(p->sent_us - p->first_sent_us, now_us - p->delivered_us);
	r->first_sent_us = p->sent_us;
	sample->delivered_bytes = r->delivered_bytes;
	sample->prior_delivered_bytes = p->delivered_bytes;
	sample->lost_bytes = r->lost_bytes;
	sample->prior_lost_bytes = p->lost_bytes;
	sample->inflight_bytes = p->inflight_bytes;
	sample->interval_us = interval_us < min_rtt_us || interval_us >> 32 ? 0 : (leeway_u32)interval_us;
	sample->app_limited = (leeway_u32)p->app_limited;
}

/* A sample as a rate, in bytes/s; 0: none. */
LEEWAY_INLINE leeway_u64 leeway_rate_bytes_per_s(const struct leeway_rate *sample)
{
	leeway_u64 bytes = leeway_less(sample->delivered_bytes, sample->prior_delivered_bytes);

	return sample->interval_us ? leeway_min_u64(bytes, 1ULL << 44) * 1000000 / sample->interval_us : 0;
}

#endif
