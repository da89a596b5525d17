/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Control from the receiver: a law holds the downloads of a cgroup back by the announced windows,
 * after the idea of RFC 9840. All connections share one law and one window. docs/receive.md
 * explains each number.
 *
 * One program measures every arriving packet before TCP sees it, and tells the law. Another sets
 * the window just before TCP chooses the announced window. TCP itself never takes back what it has
 * announced.
 */
#include "context.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "receive_delay.h"
#include "receive_packet.h"
#include "receive_share.h"

#define LEEWAY_SYN_LEAST 2 /* segments: a smaller first window makes senders halve their segments */
#define LEEWAY_SYN_MOST  10
#define LEEWAY_DUPTHRESH 3 /* RFC 5681, 3.2 */
/* Chooses a window scale of 8: fine steps, and windows of up to 16 MB. */
#define LEEWAY_SCALE_CLAMP ((1U << 24) - 1)

char LEEWAY_LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile __u64 leeway_cgroup SEC(".rodata.cgroup"); /* its number */

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

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 25);
} leeway_events SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter__tcp {
	struct sock_common *sk_common;
};

#pragma clang attribute pop

static __always_inline struct leeway_budget *leeway_the_budget(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&leeway_budgets, &key);
}

/* A second processor goes on without the law, because a packet never waits for the law. */
static __always_inline bool leeway_claim(struct leeway_budget *b)
{
	return !__sync_val_compare_and_swap(&b->busy, 0, 1);
}

static __always_inline void leeway_release(struct leeway_budget *b)
{
	__sync_val_compare_and_swap(&b->busy, 1, 0);
}

/*
 * A connection within this host has no queue on its path, so its samples would hide the queues of
 * the others.
 */
static __always_inline bool leeway_is_local(const struct sock_common *common)
{
	struct in6_addr here, there;

	if ((common->skc_daddr & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000))
		return 1;
	if (common->skc_daddr && common->skc_daddr == common->skc_rcv_saddr)
		return 1;
	if (common->skc_family == 2)
		return 0;
	BPF_CORE_READ_INTO(&here, common, skc_v6_rcv_saddr);
	BPF_CORE_READ_INTO(&there, common, skc_v6_daddr);
	return here.in6_u.u6_addr32[0] == there.in6_u.u6_addr32[0] &&
	       here.in6_u.u6_addr32[1] == there.in6_u.u6_addr32[1] &&
	       here.in6_u.u6_addr32[2] == there.in6_u.u6_addr32[2] &&
	       here.in6_u.u6_addr32[3] == there.in6_u.u6_addr32[3];
}

/*
 * A new connection counts at once, so that each of thirty new ones does not take the whole window.
 */
static __always_inline struct leeway_connection *leeway_enter(struct bpf_sock *sk, struct leeway_budget *b)
{
	struct leeway_connection *c = bpf_sk_storage_get(&leeway_received, sk, NULL, 0);
	const struct tcp_sock *tp;

	if (c)
		return c;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || leeway_is_local(&tp->inet_conn.icsk_inet.sk.__sk_common))
		return NULL;
	c = bpf_sk_storage_get(&leeway_received, sk, NULL, BPF_LOCAL_STORAGE_GET_CREATE);
	if (c)
		leeway_count_in(c, b);
	return c;
}

static __always_inline void leeway_look_at(struct leeway_connection *c, struct tcp_sock *tp)
{
	leeway_base_begin(&c->down);
	leeway_base_begin(&c->up);
	c->high = tp->rcv_nxt;
	c->tick_us = BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts) ? 1 : 1000;
	c->timestamps = BPF_CORE_READ_BITFIELD(tp, rx_opt.tstamp_ok);
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
	leeway_look_at(c, tp);
	/*
	 * The handshake is one round trip, and its last packet has passed the queue that the data
	 * will pass.
	 */
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
	struct leeway_connection stranger = {.hungry = 1};
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
		/*
		 * Not by the clamp: before the handshake the clamp would choose a window scale
		 * that is too small for the whole connection.
		 */
		segments = leeway_share(b, &stranger) / leeway_segment_bytes(&stranger);
		/* The reply is in the field of the arguments. */
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

/*
 * A loss at the receiver: a hole that three segments have overtaken. Returns 1 if the law is to be
 * told now.
 */
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
		c->hole_bytes = seg->seq - c->high;
		c->hole_us = seg->now_us;
		c->overtaken = 1;
		return 0;
	}
	if (c->overtaken > LEEWAY_DUPTHRESH)
		return 0;
	/* Segments that the kernel merged count as one. */
	c->overtaken++;
	return c->overtaken > LEEWAY_DUPTHRESH;
}

/*
 * Counts new bytes, and moves the highest sequence number. A law that knows of delayed
 * acknowledgements hears of two segments together, as its sender's law would: this end delays its
 * acknowledgements, so segments leave in pairs, and the second of a pair waits for the first. With a
 * window below two segments, and behind a hole, each segment is acknowledged (RFC 5681, 4.2).
 */
static __always_inline __u64 leeway_see_bytes(struct leeway_budget *b, struct leeway_connection *c,
					      const struct leeway_segment *seg, __u32 together)
{
	__u32 end = seg->seq + seg->bytes, fresh = 0;
	__u64 bytes;

	if (leeway_after(end, c->high)) {
		fresh = end - c->high;
		fresh = fresh < seg->bytes ? fresh : seg->bytes;
		c->high = end;
	}
	c->epoch_bytes += fresh;
	if (c->below_one)
		__sync_fetch_and_add(&c->owed_bytes, fresh);
	bytes = fresh + __sync_lock_test_and_set(&c->missed_bytes, 0);
	if (bytes > (together - 1ULL) * leeway_segment_bytes(c) || seg->marked ||
	    (b->live && (c->missing || c->window_bytes < 2 * leeway_segment_bytes(c))))
		return bytes;
	__sync_fetch_and_add(&c->missed_bytes, bytes);
	return 0;
}

/* What came since the round trip before the present one began, as a delivery rate. */
static __always_inline void leeway_see_rate(struct leeway_budget *b, struct leeway_ack *ack)
{
	__u64 span_us = ack->now_us - b->prior_us;

	ack->rate.delivered_bytes = b->received_bytes;
	ack->rate.prior_delivered_bytes = b->prior_bytes;
	ack->rate.lost_bytes = b->lost_bytes;
	ack->rate.prior_lost_bytes = b->lost_bytes;
	ack->rate.app_limited = ack->app_limited;
	if (b->prior_us && span_us >= b->srtt_us && !(span_us >> 32))
		ack->rate.interval_us = (__u32)span_us;
	if (!ack->round_start)
		return;
	b->prior_us = b->round_us;
	b->prior_bytes = b->round_bytes;
	b->round_us = ack->now_us;
	b->round_bytes = b->received_bytes;
}

/*
 * What only a law hears that is told of something: the round trip's start, and the sample of a sender
 * whose acknowledgements come back on an empty path.
 */
static __always_inline void leeway_see_round(struct leeway_budget *b, struct leeway_ack *ack,
					     __u32 queuing_us)
{
	if (!ack->acked_bytes)
		return;
	ack->round_start = ack->now_us - b->round_us >= b->srtt_us;
	leeway_see_rate(b, ack);
	if (ack->owd_resolution_us && b->min_rtt_us) {
		ack->last_rtt_us = b->min_rtt_us + queuing_us;
		ack->last_kind = LEEWAY_LAST_EXACT;
	}
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

/* The law's input for a segment. */
struct leeway_told {
	struct leeway_ack ack;
	struct leeway_loss loss;
	struct leeway_path path;
	__u32 lost;
};

/* Everything but the law itself. This processor alone works on the budget. */
static __always_inline void leeway_measure(struct leeway_budget *b, struct leeway_connection *c,
					   const struct leeway_segment *seg, struct tcp_sock *tp,
					   __u32 together, struct leeway_told *told)
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
	told->ack.acked_bytes = leeway_see_bytes(b, c, seg, together);
	b->received_bytes += told->ack.acked_bytes;
	if (told->lost)
		b->lost_bytes += c->hole_bytes;
	/* A sender that waits for its program, or for its persist timer, lengthens round trips. */
	if (rtt_us && ((c->hungry && !c->probe_below_one) || rtt_us < b->srtt_us)) {
		c->rtt_us = rtt_us;
		leeway_see_rtt(b, rtt_us);
		/*
		 * Near and far hosts get the same round-trip time: that of the nearest, plus the
		 * queue.
		 */
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
	leeway_see_round(b, &told->ack, queuing_us);
	told->loss.now_us = seg->now_us;
	told->loss.lost_bytes = c->hole_bytes;
	told->loss.sent_us = leeway_less(c->hole_us, b->srtt_us);
}

/*
 * Counts the time for which the law held the sender back, the queue in this time, and whether the law
 * gave way.
 */
static __always_inline void leeway_note(struct leeway_budget *b, const struct leeway_told *told)
{
	__u64 gap_us = told->ack.now_us - b->seen_us;

	b->seen_us = told->ack.now_us;
	if (!told->ack.app_limited && gap_us < LEEWAY_LOOK_MOST_US) {
		b->watched_us += gap_us;
		b->queue_us2 += gap_us * b->law.out.queuing_delay_us;
	}
	leeway_way_look(&b->way, told->ack.now_us, b->received_bytes, b->watched_us);
}

/* X: the law; TOGETHER: segments that it hears of at once. */
#define LEEWAY_RECEIVE(X, TOGETHER)                                                                          \
	/* By itself, so that its paths do not multiply with those of the measurement (alone.h). */          \
	__weak int X##_on_ack_alone(struct leeway_##X *law __arg_nonnull,                                    \
				    const struct leeway_ack *ack __arg_nonnull,                              \
				    const struct leeway_path *path __arg_nonnull)                            \
	{                                                                                                    \
		leeway_##X##_on_ack(law, ack, path);                                                         \
		return 0;                                                                                    \
	}                                                                                                    \
                                                                                                             \
	static __always_inline void X##_keep(struct leeway_budget *b, __u32 kind,                            \
					     const struct leeway_told *told)                                 \
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
		leeway_measure(b, c, &seg, tp, TOGETHER, &told);                                             \
		if (!b->live && told.ack.acked_bytes) {                                                      \
			b->live = 1;                                                                         \
			leeway_##X##_init(&b->law.X, leeway_params(), &told.path);                           \
			X##_keep(b, LEEWAY_RECORD_INIT, &told);                                              \
		}                                                                                            \
		if (b->live && (told.ack.acked_bytes || told.ack.ce_bytes)) {                                \
			X##_on_ack_alone(&b->law.X, &told.ack, &told.path);                                  \
			X##_keep(b, LEEWAY_RECORD_ACK, &told);                                               \
		}                                                                                            \
		if (b->live && told.lost) {                                                                  \
			leeway_##X##_on_loss(&b->law.X, &told.loss, &told.path);                             \
			X##_keep(b, LEEWAY_RECORD_LOSS, &told);                                              \
		}                                                                                            \
		leeway_note(b, &told);                                                                       \
		leeway_release(b);                                                                           \
		return 1;                                                                                    \
	}

LEEWAY_RECEIVE(ebb, 2)
LEEWAY_RECEIVE(ledbat, 1)
LEEWAY_RECEIVE(ledbatpp, 1)

static __always_inline bool leeway_inside(const struct tcp_sock *tp)
{
	const struct cgroup *cgroup = ((const struct sock___cgroup *)tp)->sk_cgrp_data.cgroup;
	const struct cgroup_subsys_state *parent;
	int depth;

	for (depth = 0; depth < 32; depth++) {
		if (!cgroup)
			return 0;
		if (cgroup->kn->id == leeway_cgroup)
			return 1;
		parent = cgroup->self.parent;
		if (!parent)
			return 0;
		cgroup = parent->cgroup;
	}
	return 0;
}

/*
 * The present connections of one network namespace. Their announced windows are used up first;
 * their base delays begin with their next packets.
 */
SEC("iter/tcp")
int leeway_adopt_all(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct leeway_budget *b = leeway_the_budget();
	struct leeway_connection *c;
	struct tcp_sock *tp;
	int flags;

	if (!common || !b)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || !leeway_inside(tp) || leeway_is_local(common) ||
	    bpf_sk_storage_get(&leeway_received, tp, NULL, 0))
		return 0;
	if (common->skc_state != TCP_ESTABLISHED && common->skc_state != TCP_FIN_WAIT1 &&
	    common->skc_state != TCP_FIN_WAIT2)
		return 0;
	c = bpf_sk_storage_get(&leeway_received, tp, NULL, BPF_LOCAL_STORAGE_GET_CREATE);
	if (!c)
		return 0;
	leeway_look_at(c, tp);
	leeway_count_in(c, b);
	flags = tp->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
	bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
	return 0;
}

/*
 * The end of control: the connections of one network namespace may announce as much as their
 * buffers hold again.
 */
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
