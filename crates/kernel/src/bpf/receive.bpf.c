/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Control from the receiver: a law holds back what a cgroup's connections receive, by the window that they announce
 * (RFC 9840 in spirit). All of them share one law and one window. docs/receive.md says how each number comes about.
 *
 * One program measures every packet that arrives, before TCP sees it, and tells the law. Another one sets the window
 * just before TCP chooses what to announce; TCP itself never takes back what it has announced.
 */
#include "kernel.h"
#include "context.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "alone.h"
#include "receive.h"

#define LEEWAY_SEGMENTS_FIRST 10 /* RFC 6928: of the whole budget, before anything was measured */
#define LEEWAY_SYN_LEAST      2  /* segments: a smaller first window makes senders halve their segments */
#define LEEWAY_SYN_MOST       10
#define LEEWAY_EPOCH_US       40000 /* a delayed acknowledgement: the least of an epoch beyond round trips */
#define LEEWAY_TICK_FAST_US   100000
#define LEEWAY_TICK_SEEN_US   2000000
#define LEEWAY_DUPTHRESH      3 /* RFC 5681, 3.2 */
/* The least that the kernel lets a clamp be, and less than a segment: a sender sends that much when its persist timer
 * expires. */
#define LEEWAY_CLOSED_BYTES   1152
#define LEEWAY_SAVED_ROUNDS   16 /* for which a share below one segment may be saved up */
/* Chooses a window scale of 8: fine steps, and windows of up to 16 MB. */
#define LEEWAY_SCALE_CLAMP    ((1U << 24) - 1)

char LEEWAY_LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct leeway_config leeway_config SEC(".rodata.config");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct leeway_budget);
} leeway_budgets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct leeway_connection);
} leeway_received SEC(".maps");

/* The other end: what its smallest round-trip time was outlives connections. */
struct leeway_remote {
	__u32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct leeway_remote);
	__type(value, struct leeway_base);
} leeway_remotes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 25);
} leeway_events SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter__tcp {
	struct sock_common *sk_common;
};

#pragma clang attribute pop

/* What one packet says. */
struct leeway_segment {
	__u64 now_us;
	__u32 seq;
	__u32 bytes; /* of payload */
	__u32 tsval;
	__u32 tsecr;
	__u16 mss;
	__u8 timestamps;
	__u8 marked; /* congestion experienced */
};

static __always_inline const void *leeway_params(void)
{
	const void *params = (const void *)leeway_config.params;

	asm volatile("" : "+r"(params));
	return params;
}

static __always_inline struct leeway_budget *leeway_the_budget(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&leeway_budgets, &key);
}

/* Whoever comes second goes on without: a packet never waits for the law. */
static __always_inline bool leeway_claim(struct leeway_budget *b)
{
	return !__sync_val_compare_and_swap(&b->busy, 0, 1);
}

static __always_inline void leeway_release(struct leeway_budget *b)
{
	__sync_val_compare_and_swap(&b->busy, 1, 0);
}

static __always_inline __u32 leeway_segment_bytes(const struct leeway_connection *c)
{
	return c->segment_bytes ? c->segment_bytes : 1448;
}

/*
 * What one connection may have in flight. Those that fill their windows share what the others leave; nobody gets less
 * than an equal part of all.
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
 * The share in whole segments; what is left over becomes one more for a part of the connections, so that the sum is
 * right. Less than one is one segment now and then: the window is closed, as far as that goes, until the share of the
 * time since pays for what came.
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
	/* Nothing is saved up that the share of today would not pay soon. */
	if (c->owed_bytes < -LEEWAY_SAVED_ROUNDS * (__s64)share)
		c->owed_bytes = -LEEWAY_SAVED_ROUNDS * (__s64)share;
	if (c->owed_bytes > 0 && mss > LEEWAY_CLOSED_BYTES)
		return LEEWAY_CLOSED_BYTES;
	return mss;
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

/* The history of the law's own base delay, here for round-trip times of the other end and delays of a connection. */
static __always_inline void leeway_base_begin(struct leeway_base *b)
{
	/* Both laws' parameters begin with the window's and the delay's. */
	const struct leeway_ledbat_params *p = leeway_params();

	leeway_base_init(b, p->delay.base_history, p->delay.base_interval_us, p->delay.skew);
}

_Static_assert(__builtin_offsetof(struct leeway_ledbat_params, delay) ==
		       __builtin_offsetof(struct leeway_ledbatpp_params, delay),
	       "leeway_base_begin() reads the same words for both");

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

/* What went out last and what it allowed: the beginning of a round-trip time, and of the question whether the sender
 * fills its window. */
static __always_inline void leeway_probe(struct tcp_sock *tp, struct leeway_connection *c)
{
	__u32 ns = BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts) ? 1000 : 1000000;
	__u32 held = tp->rcv_wup + tp->rcv_wnd, edge = tp->rcv_nxt;

	edge += tp->rcv_ssthresh < tp->window_clamp ? tp->rcv_ssthresh : tp->window_clamp;
	c->probe_edge = leeway_after(held, edge) ? held : edge;
	if (!c->timestamps) {
		/* What was allowed before says nothing, so there has to be something new. */
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

/* A connection that begins counts at once, so that thirty do not think each that it is alone. */
static __always_inline struct leeway_connection *leeway_enter(struct bpf_sock *sk, struct leeway_budget *b)
{
	struct leeway_connection *c = bpf_sk_storage_get(&leeway_received, sk, NULL, 0);

	if (c)
		return c;
	c = bpf_sk_storage_get(&leeway_received, sk, NULL, BPF_LOCAL_STORAGE_GET_CREATE);
	if (!c)
		return NULL;
	c->hungry = 1;
	c->epoch = b->epoch;
	/* Multiples of the golden ratio, modulo 1: any few of them in a row are spread evenly. */
	c->place = (__u16)(__sync_fetch_and_add(&b->connections, 1) * 40503);
	__sync_fetch_and_add(&b->active_coming, 1);
	__sync_fetch_and_add(&b->hungry_coming, 1);
	return c;
}

static __always_inline void leeway_begin(struct bpf_sock_ops *ops, struct leeway_budget *b)
{
	__u64 now_us = bpf_ktime_get_ns() / 1000;
	struct leeway_connection *c;
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp;
	__u32 rtt_us, owd_us;

	if (!sk)
		return;
	c = leeway_enter(sk, b);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!c || !tp)
		return;
	leeway_base_begin(&c->down);
	leeway_base_begin(&c->up);
	c->high = tp->rcv_nxt;
	c->tick_us = BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts) ? 1 : 1000;
	c->timestamps = BPF_CORE_READ_BITFIELD(tp, rx_opt.tstamp_ok);
	/* The handshake is one round trip, and the packet that ends it has seen the queue that the data will see. */
	rtt_us = tp->srtt_us >> 3;
	if (rtt_us && leeway_claim(b)) {
		if (!b->srtt_us)
			leeway_see_rtt(b, rtt_us);
		leeway_remote_rtt(&tp->inet_conn.icsk_inet.sk, now_us, rtt_us);
		leeway_release(b);
	}
	c->rtt_us = rtt_us;
	if (rtt_us && c->timestamps) {
		owd_us = (__u32)now_us - tp->rx_opt.rcv_tsval * c->tick_us;
		leeway_base_update(&c->down, now_us, owd_us);
		leeway_base_update(&c->up, now_us, rtt_us - owd_us);
	}
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

static __always_inline void leeway_announce(struct bpf_sock_ops *ops, struct leeway_budget *b)
{
	struct bpf_sock *sk = ops->sk;
	struct leeway_connection *c;
	struct tcp_sock *tp;
	__u32 window;

	if (!sk)
		return;
	c = bpf_sk_storage_get(&leeway_received, sk, NULL, 0);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!c || !tp)
		return;
	window = leeway_window(b, c);
	c->window_bytes = window;
	if (window != tp->window_clamp)
		bpf_setsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &window, sizeof(window));
	if (c->probe == LEEWAY_PROBE_NONE)
		leeway_probe(tp, c);
}

SEC("sockops")
int leeway_windows(struct bpf_sock_ops *ops)
{
	struct leeway_budget *b = leeway_the_budget();
	struct leeway_connection stranger = { .hungry = 1 };
	__u32 segments, clamp = LEEWAY_SCALE_CLAMP;

	if (!b)
		return 1;
	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		if (ops->sk)
			leeway_enter(ops->sk, b);
		/* fall through */
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		bpf_setsockopt(ops, SOL_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
		break;
	case BPF_SOCK_OPS_RWND_INIT:
		/* Not by the clamp: before the handshake that would choose a window scale too small for good. */
		segments = leeway_share(b, &stranger) / leeway_segment_bytes(&stranger);
		/* The answer lies where the arguments did. */
		ops->args[0] = leeway_clamp_u32(segments, LEEWAY_SYN_LEAST, LEEWAY_SYN_MOST);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		leeway_begin(ops, b);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (ops->args[0] != BPF_WRITE_HDR_TCP_CURRENT_MSS)
			leeway_announce(ops, b);
		break;
	}
	return 1;
}

/* RFC 7323, 3.2: the timestamps option, wherever it stands. */
static __always_inline void leeway_see_timestamps(struct __sk_buff *skb, struct leeway_segment *seg, __u32 at,
						  __u32 end)
{
	__u32 words[3];
	__u8 option[2];
	int i;

	/* What nearly everybody sends: two NOPs and the option. */
	if (at + 12 <= end && !bpf_skb_load_bytes(skb, at, words, sizeof(words)) &&
	    words[0] == bpf_htonl(0x0101080a)) {
		seg->tsval = bpf_ntohl(words[1]);
		seg->tsecr = bpf_ntohl(words[2]);
		seg->timestamps = 1;
		return;
	}
	for (i = 0; i < 20; i++) {
		if (at + 2 > end || bpf_skb_load_bytes(skb, at, option, sizeof(option)) || !option[0])
			return;
		if (option[0] == 1) {
			at++;
		} else if (option[0] == 8 && option[1] == 10) {
			if (at + 10 > end || bpf_skb_load_bytes(skb, at + 2, words, 8))
				return;
			seg->tsval = bpf_ntohl(words[0]);
			seg->tsecr = bpf_ntohl(words[1]);
			seg->timestamps = 1;
			return;
		} else {
			at += option[1] < 2 ? 2 : option[1];
		}
	}
}

/* Reads the headers; the packet has no payload for us where bytes stays 0. */
__weak int leeway_see_packet(struct __sk_buff *skb, struct leeway_segment *seg __arg_nonnull)
{
	__u32 at, end, total;
	__u8 ip[20], tcp[20];

	seg->now_us = bpf_ktime_get_ns() / 1000;
	if (bpf_skb_load_bytes(skb, 0, ip, sizeof(ip)))
		return 0;
	if (ip[0] >> 4 == 4) {
		if (ip[9] != 6)
			return 0;
		at = (ip[0] & 15) * 4;
		seg->marked = (ip[1] & 3) == 3;
	} else {
		/* With extension headers it is received all the same, but not measured. */
		if (ip[6] != 6)
			return 0;
		at = 40;
		seg->marked = (ip[1] >> 4 & 3) == 3;
	}
	if (bpf_skb_load_bytes(skb, at, tcp, sizeof(tcp)))
		return 0;
	total = skb->len;
	end = at + (tcp[12] >> 4) * 4;
	if (end >= total)
		return 0;
	seg->seq = (__u32)tcp[4] << 24 | (__u32)tcp[5] << 16 | (__u32)tcp[6] << 8 | tcp[7];
	seg->bytes = total - end;
	seg->mss = skb->gso_size ? skb->gso_size : (seg->bytes < 65535 ? seg->bytes : 65535);
	leeway_see_timestamps(skb, seg, at + 20, end);
	return 0;
}

/* How the peer's timestamps tick: milliseconds nearly always, microseconds or something else where the clocks say so. */
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
	/* A queue that grows or empties changes the figure, by a factor of two within two seconds at most. */
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
 * The answer to a probe: the first data that its arrival at the sender can have caused. Where there are timestamps, it
 * echoes the probe's; where there are none, it lies beyond the edge that was known before, which takes longer where
 * the window is not what limits the sender.
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
		/* All that the probe allowed has come before: less than a segment was left. */
		c->hungry = leeway_after(c->high + leeway_segment_bytes(c), c->probe_edge);
		c->probe = LEEWAY_PROBE_NONE;
	}
	return rtt_us;
}

/*
 * The queue that this packet stood in. A connection's smallest one-way delay is not enough: one that begins in a
 * standing queue has never seen less. But round-trip times to the same host have no unknown offset and outlive
 * connections, and base_down = base_rtt - base_up, so an empty way up is enough to know the way down.
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

/* Counts who is active: an epoch is long enough for everybody to receive something. */
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
	c->used_bytes = (__u32)leeway_min_u64(c->epoch_bytes * b->srtt_us / (length_us ? length_us : 1), 1U << 30);
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

/* A loss as the receiver sees it: a hole that three segments have overtaken. 1: tell the law now. */
static __always_inline bool leeway_see_loss(struct leeway_connection *c, const struct leeway_segment *seg,
					    __u32 rcv_nxt)
{
	if (c->missing && leeway_after(rcv_nxt, c->hole))
		c->missing = 0;
	if (!c->missing) {
		if (!leeway_after(seg->seq, c->high))
			return 0;
		c->missing = 1;
		c->hole = c->high;
		c->hole_us = seg->now_us;
		c->overtaken = 1;
		return 0;
	}
	if (c->overtaken > LEEWAY_DUPTHRESH)
		return 0;
	/* Merged segments count as the one that they came in as. */
	c->overtaken++;
	return c->overtaken > LEEWAY_DUPTHRESH;
}

/* Bytes that were not seen before, and where the stream stands now. */
static __always_inline __u64 leeway_see_bytes(struct leeway_connection *c, const struct leeway_segment *seg)
{
	__u32 end = seg->seq + seg->bytes, fresh = 0;

	if (leeway_after(end, c->high)) {
		fresh = end - c->high;
		fresh = fresh < seg->bytes ? fresh : seg->bytes;
		c->high = end;
	}
	c->epoch_bytes += fresh;
	if (c->below_one)
		__sync_fetch_and_add(&c->owed_bytes, fresh);
	return fresh + __sync_lock_test_and_set(&c->missed_bytes, 0);
}

static __always_inline struct leeway_record *leeway_record(struct leeway_budget *b, __u32 kind,
							   const struct leeway_path *path)
{
	struct leeway_record *record;

	b->events++;
	record = bpf_ringbuf_reserve(&leeway_events, sizeof(*record), 0);
	if (!record)
		return NULL;
	record->socket = (__u64)(unsigned long)b;
	record->number = b->events;
	record->kind = kind;
	record->path = *path;
	return record;
}

/* What the law hears of a segment. */
struct leeway_told {
	struct leeway_ack ack;
	struct leeway_loss loss;
	struct leeway_path path;
	__u32 lost;
};

/* Everything but the law itself; the budget is ours alone. */
static __always_inline void leeway_measure(struct leeway_budget *b, struct leeway_connection *c,
					   const struct leeway_segment *seg, struct tcp_sock *tp,
					   struct leeway_told *told)
{
	__u32 rtt_us, queuing_us, least_rtt_us;

	if (seg->mss > c->segment_bytes)
		c->segment_bytes = seg->mss;
	if (c->timestamps && seg->timestamps && c->tick == LEEWAY_TICK_ASSUMED)
		leeway_see_tick(c, seg);
	leeway_count(b, c, seg->now_us);
	told->lost = leeway_see_loss(c, seg, tp->rcv_nxt);
	rtt_us = leeway_see_answer(c, seg);
	least_rtt_us = leeway_remote_rtt(&tp->inet_conn.icsk_inet.sk, seg->now_us, rtt_us);
	queuing_us = leeway_see_queue(c, seg, rtt_us, least_rtt_us);
	c->queuing_us = queuing_us;
	told->ack.acked_bytes = leeway_see_bytes(c, seg);
	b->received_bytes += told->ack.acked_bytes;
	/* A sender that waits for its program, or for its persist timer, makes round trips look long. */
	if (rtt_us && ((c->hungry && !c->probe_below_one) || rtt_us < b->srtt_us)) {
		c->rtt_us = rtt_us;
		leeway_see_rtt(b, rtt_us);
		/* Connections to near and far hosts look alike: as far as the nearest, plus the queue. */
		told->ack.rtt_us = b->min_rtt_us + leeway_less(rtt_us, least_rtt_us);
	}
	b->mss_bytes = leeway_segment_bytes(c);
	told->path.mss_bytes = b->mss_bytes;
	told->path.initial_window_bytes = LEEWAY_SEGMENTS_FIRST * b->mss_bytes;
	told->path.srtt_us = b->srtt_us;
	told->path.min_rtt_us = b->min_rtt_us;
	told->path.inflight_bytes = b->window_bytes;
	told->ack.now_us = seg->now_us;
	told->ack.ce_bytes = seg->marked ? seg->bytes : 0;
	if (c->timestamps || rtt_us) {
		told->ack.owd_us = queuing_us;
		told->ack.owd_resolution_us = c->tick_us ? c->tick_us : 1;
	}
	told->ack.app_limited = !c->hungry;
	told->ack.prior_inflight_bytes = b->window_bytes;
	told->ack.recovering = c->missing;
	if (seg->now_us - b->round_us >= b->srtt_us) {
		told->ack.round_start = 1;
		b->round_us = seg->now_us;
	}
	told->loss.now_us = seg->now_us;
	told->loss.lost_bytes = c->segment_bytes;
	told->loss.sent_us = leeway_less(c->hole_us, b->srtt_us);
}

#define LEEWAY_RECEIVE(X)                                                                                    \
	static __always_inline void X##_keep(struct leeway_budget *b, __u32 kind, const struct leeway_told *told)   \
	{                                                                                                    \
		struct leeway_record *record;                                                                \
                                                                                                             \
		b->window_bytes = b->law.out.cwnd_q16 >> 16;                                                 \
		if (!leeway_config.record)                                                                   \
			return;                                                                              \
		record = leeway_record(b, kind, &told->path);                                                \
		if (!record)                                                                                 \
			return;                                                                              \
		if (kind == LEEWAY_RECORD_LOSS)                                                              \
			record->loss = told->loss;                                                           \
		else                                                                                         \
			record->ack = told->ack;                                                             \
		__builtin_memcpy(record->state, &b->law.X, sizeof(b->law.X));                                \
		bpf_ringbuf_submit(record, 0);                                                               \
	}                                                                                                    \
                                                                                                             \
	SEC("cgroup_skb/ingress")                                                                            \
	int X##_arrivals(struct __sk_buff *skb)                                                              \
	{                                                                                                    \
		struct leeway_budget *b = leeway_the_budget();                                               \
		struct leeway_segment seg = {};                                                              \
		struct leeway_told told = {};                                                                \
		struct bpf_sock *sk = skb->sk;                                                               \
		struct leeway_connection *c;                                                                 \
		struct tcp_sock *tp;                                                                         \
                                                                                                             \
		if (!b || !sk)                                                                               \
			return 1;                                                                            \
		sk = bpf_sk_fullsock(sk);                                                                    \
		if (!sk)                                                                                     \
			return 1;                                                                            \
		c = bpf_sk_storage_get(&leeway_received, sk, NULL, 0);                                       \
		tp = bpf_skc_to_tcp_sock(sk);                                                                \
		if (!c || !tp)                                                                               \
			return 1;                                                                            \
		leeway_see_packet(skb, &seg);                                                                \
		if (!seg.bytes)                                                                              \
			return 1;                                                                            \
		if (!leeway_claim(b)) {                                                                      \
			__sync_fetch_and_add(&c->missed_bytes, seg.bytes);                                   \
			return 1;                                                                            \
		}                                                                                            \
		leeway_measure(b, c, &seg, tp, &told);                                                       \
		if (!b->live) {                                                                              \
			b->live = 1;                                                                         \
			leeway_##X##_init(&b->law.X, leeway_params(), &told.path);                           \
			X##_keep(b, LEEWAY_RECORD_INIT, &told);                                              \
		}                                                                                            \
		if (told.ack.acked_bytes || told.ack.ce_bytes) {                                             \
			leeway_##X##_on_ack(&b->law.X, &told.ack, &told.path);                               \
			X##_keep(b, LEEWAY_RECORD_ACK, &told);                                               \
		}                                                                                            \
		if (told.lost) {                                                                             \
			leeway_##X##_on_loss(&b->law.X, &told.loss, &told.path);                             \
			X##_keep(b, LEEWAY_RECORD_LOSS, &told);                                              \
		}                                                                                            \
		leeway_release(b);                                                                           \
		return 1;                                                                                    \
	}

LEEWAY_RECEIVE(ledbat)
LEEWAY_RECEIVE(ledbatpp)

/* Nobody holds back any more: the connections of one network namespace may announce again what their buffers take. */
SEC("iter/tcp")
int leeway_release_all(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	__u32 clamp = LEEWAY_SCALE_CLAMP;
	struct tcp_sock *tp;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (tp && bpf_sk_storage_get(&leeway_received, tp, NULL, 0))
		bpf_setsockopt(tp, SOL_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
	return 0;
}
