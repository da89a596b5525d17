/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The shares of a cgroup's connections in one window. */
#ifndef LEEWAY_RECEIVE_SHARE_H
#define LEEWAY_RECEIVE_SHARE_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "receive.h"

#define LEEWAY_SEGMENTS_FIRST 10    /* RFC 6928: of the whole budget, before anything was measured */
#define LEEWAY_EPOCH_US       40000 /* a delayed acknowledgement: the least of an epoch beyond round trips */
/*
 * The smallest clamp that the kernel takes, less than a segment. A sender sends this much when its
 * persist timer expires.
 */
#define LEEWAY_CLOSED_BYTES 1152
#define LEEWAY_SAVED_ROUNDS 16 /* for which a share below one segment may be saved up */

static __always_inline __u32 leeway_segment_bytes(const struct leeway_connection *c)
{
	return c->segment_bytes ? c->segment_bytes : 1448;
}

/*
 * The share of one connection, in bytes. Connections that fill their windows share what the others
 * leave. No connection gets less than an equal part of the window.
 */
static __always_inline __u32 leeway_share(const struct leeway_budget *b, const struct leeway_connection *c)
{
	__u64 all = b->window_bytes, mss = leeway_segment_bytes(c), share, equal;
	__u32 active = b->active > b->active_coming ? b->active : b->active_coming;
	__u32 hungry = b->hungry > b->hungry_coming ? b->hungry : b->hungry_coming;

	if (!all)
		all = LEEWAY_SEGMENTS_FIRST * mss;
	equal = active ? all / active : all;
	share = leeway_less(all, b->modest_bytes);
	share = leeway_max_u64(hungry ? share / hungry : share, equal);
	if (!c->hungry)
		share = leeway_min_u64(share, 2ULL * c->used_bytes + 2 * mss);
	return (__u32)leeway_min_u64(share, 1U << 30);
}

/*
 * The share in whole segments. The remainder becomes one more segment for some of the connections,
 * so that the sum is right. A share below one segment is one segment from time to time: the window
 * is as good as closed until the share of the time since then covers the bytes that arrived.
 */
static __always_inline __u32 leeway_window(const struct leeway_budget *b, struct leeway_connection *c)
{
	__u32 share = leeway_share(b, c), mss = leeway_segment_bytes(c), srtt_us = b->srtt_us;
	__u64 now_us, elapsed_us;

	c->below_one = share < mss;
	if (share >= mss)
		return (share / mss + ((__u64)(share % mss) << 16 > (__u64)c->place * mss)) * mss;
	now_us = bpf_ktime_get_ns() / 1000;
	elapsed_us = leeway_min_u64(now_us - c->paid_us, 1U << 22);
	c->paid_us = now_us;
	if (srtt_us)
		__sync_fetch_and_add(&c->owed_bytes, -(__s64)(elapsed_us * share / srtt_us));
	c->owed_bytes = c->owed_bytes > (__s64)mss ? (__s64)mss : c->owed_bytes;
	/* At most LEEWAY_SAVED_ROUNDS round trips of the present share are saved up. */
	if (c->owed_bytes < -LEEWAY_SAVED_ROUNDS * (__s64)share)
		c->owed_bytes = -LEEWAY_SAVED_ROUNDS * (__s64)share;
	if (c->owed_bytes > 0 && mss > LEEWAY_CLOSED_BYTES)
		return LEEWAY_CLOSED_BYTES;
	return mss;
}

static __always_inline void leeway_count_in(struct leeway_connection *c, struct leeway_budget *b)
{
	c->hungry = 1;
	c->epoch = b->epoch;
	/* Multiples of the golden ratio, modulo 1: consecutive ones are spread evenly. */
	c->place = (__u16)(__sync_fetch_and_add(&b->connections, 1) * 40503);
	__sync_fetch_and_add(&b->active_coming, 1);
	__sync_fetch_and_add(&b->hungry_coming, 1);
}

/* Counts the active connections: an epoch is long enough for each of them to receive something. */
static __always_inline void leeway_count(struct leeway_budget *b, struct leeway_connection *c, __u64 now_us)
{
	__u64 length_us = 2ULL * b->srtt_us + LEEWAY_EPOCH_US, since_us = now_us - b->epoch_us;

	if (since_us >= length_us) {
		b->active = b->active_coming;
		b->hungry = b->hungry_coming;
		b->modest_bytes = b->modest_coming;
		b->active_coming = 0;
		b->hungry_coming = 0;
		b->modest_coming = 0;
		b->epoch_us = now_us;
		b->epoch++;
	}
	if (c->epoch == b->epoch)
		return;
	c->used_bytes =
		(__u32)leeway_min_u64(c->epoch_bytes * b->srtt_us / (length_us ? length_us : 1), 1U << 30);
	if (b->epoch - c->epoch > 1)
		c->used_bytes = 0;
	c->epoch_bytes = 0;
	c->epoch = b->epoch;
	__sync_fetch_and_add(&b->active_coming, 1);
	if (c->hungry)
		__sync_fetch_and_add(&b->hungry_coming, 1);
	else
		b->modest_coming += 2ULL * c->used_bytes + 2ULL * leeway_segment_bytes(c);
}

#endif
