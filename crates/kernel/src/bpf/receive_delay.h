/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Round-trip times, one-way delays and queuing delays at a receiver. */
#ifndef LEEWAY_RECEIVE_DELAY_H
#define LEEWAY_RECEIVE_DELAY_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "alone.h"
#include "receive_packet.h"
#include "receive_share.h"

/* Written by the loader. */
const volatile struct leeway_config leeway_config SEC(".rodata.config");
const volatile struct leeway_base_config leeway_base_config SEC(".rodata.base");

#define LEEWAY_TICK_FAST_US 100000
#define LEEWAY_TICK_SEEN_US 2000000

/* A remote host. Its smallest round-trip time outlives connections. */
struct leeway_remote {
	__u32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct leeway_remote);
	__type(value, struct leeway_base);
} leeway_remotes SEC(".maps");

static __always_inline const void *leeway_params(void)
{
	const void *params = (const void *)leeway_config.params;

	asm volatile("" : "+r"(params));
	return params;
}

/*
 * The base history of the law, applied to round-trip times of a remote host and to delays of a
 * connection.
 */
static __always_inline void leeway_base_begin(struct leeway_base *b)
{
	leeway_base_init(b, leeway_base_config.history, leeway_base_config.interval_us,
			 leeway_base_config.skew);
}

static __always_inline void leeway_find_remote(struct leeway_remote *remote, const struct sock *sk)
{
	remote->address[0] = 0;
	remote->address[1] = 0;
	remote->address[2] = bpf_htonl(0xffff);
	remote->address[3] = sk->__sk_common.skc_daddr;
	if (sk->__sk_common.skc_family != 2)
		BPF_CORE_READ_INTO(&remote->address, sk, __sk_common.skc_v6_daddr);
}

/* Learns the smallest round-trip time to the other end; 0 while it is unknown. */
static __always_inline __u32 leeway_remote_rtt(const struct sock *sk, __u64 now_us, __u32 rtt_us)
{
	struct leeway_remote remote;
	struct leeway_base fresh = {}, *known;

	leeway_find_remote(&remote, sk);
	known = bpf_map_lookup_elem(&leeway_remotes, &remote);
	if (!known) {
		if (!rtt_us)
			return 0;
		leeway_base_begin(&fresh);
		bpf_map_update_elem(&leeway_remotes, &remote, &fresh, BPF_ANY);
		known = bpf_map_lookup_elem(&leeway_remotes, &remote);
		if (!known)
			return 0;
	}
	if (rtt_us)
		leeway_base_update(known, now_us, rtt_us);
	return known->count ? known->min_us : 0;
}

/* RFC 6298, 2, without the variance. */
static __always_inline void leeway_see_rtt(struct leeway_budget *b, __u32 rtt_us)
{
	if (!rtt_us)
		return;
	b->srtt_us = b->srtt_us ? (__u32)((7ULL * b->srtt_us + rtt_us) / 8) : rtt_us;
	if (!b->min_rtt_us || rtt_us < b->min_rtt_us)
		b->min_rtt_us = rtt_us;
}

static __always_inline bool leeway_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

/*
 * Starts a probe: the last acknowledgement with its right edge. A probe measures a round-trip
 * time, and whether the sender fills its window.
 */
static __always_inline void leeway_probe(struct tcp_sock *tp, struct leeway_connection *c)
{
	__u32 ns = BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts) ? 1000 : 1000000;
	__u32 held = tp->rcv_wup + tp->rcv_wnd, edge = tp->rcv_nxt;

	edge += tp->rcv_ssthresh < tp->window_clamp ? tp->rcv_ssthresh : tp->window_clamp;
	c->probe_edge = leeway_after(held, edge) ? held : edge;
	if (!c->timestamps) {
		/* A probe has to allow something new, because earlier edges say nothing. */
		if (c->probe_edge - held < leeway_segment_bytes(c))
			return;
		c->probe_edge = held;
	}
	c->probe_ts = (__u32)(tp->tcp_wstamp_ns / ns) + tp->tsoffset;
	c->probe_us = bpf_ktime_get_ns() / 1000;
	c->probe_below_one = c->below_one;
	barrier();
	c->probe = LEEWAY_PROBE_SENT;
}

/*
 * The tick of the peer's timestamps: nearly always milliseconds; microseconds or unknown if the
 * comparison of the clocks says so.
 */
static __always_inline void leeway_see_tick(struct leeway_connection *c, const struct leeway_segment *seg)
{
	__u64 elapsed_us = seg->now_us - c->first_us, tick_ns;
	__u32 ticks = seg->tsval - c->first_ts, tick_us = 0;

	if (!c->first_us) {
		c->first_us = seg->now_us;
		c->first_ts = seg->tsval;
		return;
	}
	if (elapsed_us < LEEWAY_TICK_FAST_US || !ticks)
		return;
	tick_ns = elapsed_us * 1000 / ticks;
	/*
	 * A queue that grows or empties changes the ratio, at most by a factor of two within two
	 * seconds.
	 */
	if (elapsed_us < LEEWAY_TICK_SEEN_US && tick_ns > 50000)
		return;
	if (tick_ns >= 500 && tick_ns <= 2000)
		tick_us = 1;
	else if (tick_ns >= 500000 && tick_ns <= 2000000)
		tick_us = 1000;
	c->tick = tick_us ? LEEWAY_TICK_KNOWN : LEEWAY_TICK_UNKNOWN;
	if (tick_us == c->tick_us)
		return;
	c->timestamps = tick_us != 0;
	c->tick_us = tick_us;
	leeway_base_begin(&c->down);
	leeway_base_begin(&c->up);
}

/*
 * The answer to a probe: the first data that the probe's arrival at the sender can have caused.
 * With timestamps, this data echoes the probe's timestamp. Without, the data lies beyond the
 * earlier right edge, which takes longer if the window does not limit the sender.
 */
static __always_inline __u32 leeway_see_answer(struct leeway_connection *c, const struct leeway_segment *seg)
{
	__u32 rtt_us = 0;

	if (c->probe == LEEWAY_PROBE_NONE)
		return 0;
	if (!seg->timestamps) {
		if (!leeway_after(seg->seq + seg->bytes, c->probe_edge))
			return 0;
		c->hungry = 1;
		c->probe = LEEWAY_PROBE_NONE;
		return (__u32)(seg->now_us - c->probe_us);
	}
	if (c->probe == LEEWAY_PROBE_SENT && !leeway_after(c->probe_ts, seg->tsecr)) {
		rtt_us = (__u32)(seg->now_us - c->probe_us);
		c->probe_rtt_us = rtt_us ? rtt_us : 1;
		c->probe = LEEWAY_PROBE_ANSWERED;
	}
	if (c->probe == LEEWAY_PROBE_ANSWERED && leeway_after(seg->tsecr, c->probe_ts)) {
		/* All data that the probe allowed arrived before, up to less than a segment. */
		c->hungry = leeway_after(c->high + leeway_segment_bytes(c), c->probe_edge);
		c->probe = LEEWAY_PROBE_NONE;
	}
	return rtt_us;
}

/*
 * The queuing delay of this packet. A connection's smallest one-way delay is not enough: a
 * connection that begins in a standing queue has never seen less. But round-trip times to the same
 * host have no unknown offset and outlive connections. Since base_down = base_rtt - base_up, an
 * empty direction up is enough to know the base of the direction down.
 */
static __always_inline __u32 leeway_see_queue(struct leeway_connection *c, const struct leeway_segment *seg,
					      __u32 rtt_us, __u32 least_rtt_us)
{
	__u32 owd_us, base_us, other_us;

	if (!c->timestamps || !seg->timestamps)
		return rtt_us && least_rtt_us && rtt_us > least_rtt_us ? rtt_us - least_rtt_us : 0;
	owd_us = (__u32)seg->now_us - seg->tsval * c->tick_us;
	leeway_base_update(&c->down, seg->now_us, owd_us);
	if (rtt_us)
		leeway_base_update(&c->up, seg->now_us, rtt_us - owd_us);
	base_us = leeway_base_us(&c->down, seg->now_us);
	if (c->up.count && least_rtt_us) {
		other_us = least_rtt_us - leeway_base_us(&c->up, seg->now_us);
		if (leeway_before_u32(other_us, base_us))
			base_us = other_us;
	}
	return leeway_before_u32(owd_us, base_us) ? 0 : owd_us - base_us;
}

#endif
