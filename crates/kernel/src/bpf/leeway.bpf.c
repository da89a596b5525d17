/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The control laws as TCP congestion control: one struct_ops for each law, from one glue text.
 * docs/kernel.md says where each input of a law comes from.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "alone.h"
#include "glue.h"

/* Written by build.rs from the one table of laws, control/leeway_laws.h. */
#include "leeway_every_law.h"

char LEEWAY_LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct leeway_config leeway_config SEC(".rodata.config");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 25);
} leeway_events SEC(".maps");

extern void *bpf_rdonly_cast(const void *object, __u32 btf_id) __ksym;

/*
 * The parameters of the law's init. The loader writes them, so the compiler must not assume their
 * value.
 */
static __always_inline const void *leeway_params(void)
{
	const void *params = (const void *)leeway_config.params;

	asm volatile("" : "+r"(params));
	return params;
}

static __always_inline __u32 leeway_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline void leeway_see_path(struct leeway_path *path, const struct tcp_sock *tp,
					    const struct leeway_glue *g)
{
	path->inflight_bytes = (__u64)leeway_packets_in_flight(tp) * tp->mss_cache;
	path->mss_bytes = tp->mss_cache;
	path->initial_window_bytes = g->initial_window_bytes;
	path->srtt_us = tp->srtt_us >> 3;
	path->min_rtt_us = g->min_rtt_us;
}

/* Time of the last transmission of the first unacknowledged segment. */
static __always_inline __u64 leeway_first_sent_us(struct sock *sk)
{
	struct rb_node *node = sk->tcp_rtx_queue.rb_node, *left;
	struct sk_buff *skb;
	int depth;

	if (!node)
		return 0;
	/* The verifier takes a union for its first member, so every step casts. */
	for (depth = 0; depth < 40; depth++) { /* a red-black tree of 2^20 is at most 40 deep */
		node = bpf_rdonly_cast(node, bpf_core_type_id_kernel(struct rb_node));
		left = node->rb_left;
		if (!left)
			break;
		node = left;
	}
	/* A queued sk_buff begins with its tree node. */
	skb = bpf_rdonly_cast(node, bpf_core_type_id_kernel(struct sk_buff));
	return skb->skb_mstamp_ns / 1000;
}

/* By itself, so that the verifier sees a number instead of the paths to it (alone.h). */
__weak int leeway_in_pairs_alone(__u64 window, __u64 paced, __u32 mss, __u32 srtt_us, __u32 ca_state)
{
	return leeway_in_pairs(window, paced, mss, srtt_us, ca_state >= TCP_CA_RECOVERY);
}

static __always_inline bool leeway_leaves_in_pairs(const struct tcp_sock *tp, const struct leeway_output *out)
{
	return leeway_in_pairs_alone(out->cwnd_q16 >> 16, out->pacing_bytes_per_s, tp->mss_cache,
				     tp->srtt_us >> 3, BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state));
}

/*
 * Whether the window limits the sender, as for the kernel's own laws (tcp_is_cwnd_limited): in
 * slow start, half of the window in use is enough. Below one segment, in pairs, and under a law that
 * paces, the pacing limits the sender; there, unsent data shows the limit.
 */
static __always_inline int leeway_limited(struct tcp_sock *tp, const struct leeway_output *out)
{
	if (leeway_leaves_in_pairs(tp, out) || out->cwnd_q16 >> 16 < tp->mss_cache || out->pacing_bytes_per_s)
		return tp->write_seq != tp->snd_nxt;
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return out->phase == LEEWAY_SLOW_START && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/*
 * The kernel's delivery-rate sample counts packets (net/ipv4/tcp_rate.c). It has neither losses
 * nor the flight at the segment's departure.
 */
static __always_inline void leeway_see_rate(struct leeway_rate *rate, const struct tcp_sock *tp,
					    const struct rate_sample *rs)
{
	__u64 mss = tp->mss_cache;

	rate->delivered_bytes = tp->delivered * mss;
	rate->prior_delivered_bytes = rs->prior_delivered * mss;
	rate->lost_bytes = tp->lost * mss;
	rate->prior_lost_bytes = rate->lost_bytes;
	if (rs->delivered > 0 && rs->interval_us > 0 && !(rs->interval_us >> 32))
		rate->interval_us = (__u32)rs->interval_us;
	rate->app_limited = rs->is_app_limited;
}

#define LEEWAY_WAIT_MAX_US 500000 /* RFC 9293, 3.8.6.3: an ack waits no longer for the next segment */

/* By itself, as above. */
__weak int leeway_waited_alone(const struct leeway_ack *ack __arg_nonnull,
			       struct leeway_glue *g __arg_nonnull, __u32 mss)
{
	return leeway_sender_waited(&g->common, ack, mss);
}

/*
 * The timestamp of the newest segment acknowledged, which left rtt_us ago. The echo is that of the
 * first one, which has waited at the receiver for the others. (The kernel has taken its own offset
 * of timestamps from the echo.)
 */
__weak __u32 leeway_newest_sent(__u64 now_us, __u32 rtt_us, __u32 echo, __u32 resolution_us)
{
	__u32 unit_us = resolution_us ? resolution_us : 1; /* the verifier sees any number */
	__u32 later = (__u32)((now_us - rtt_us) / unit_us) - echo;

	return rtt_us && later <= LEEWAY_WAIT_MAX_US / unit_us ? echo + later : echo;
}

/*
 * A one-way delay sample: the receiver's clock minus the sender's, from the timestamps of this
 * acknowledgement. Only acknowledgements in sequence give a sample: behind a hole the receiver
 * echoes the last segment before the hole (RFC 7323, 4.3).
 */
static __always_inline void leeway_see_owd(struct leeway_ack *ack, struct tcp_sock *tp)
{
	__u32 resolution_us = BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts) ? 1 : 1000;
	__u32 sent;

	if (leeway_config.timestamps == LEEWAY_TIMESTAMPS_OFF)
		return;
	if (!BPF_CORE_READ_BITFIELD(tp, rx_opt.saw_tstamp) || !tp->rx_opt.rcv_tsecr)
		return;
	sent = leeway_newest_sent(tp->tcp_mstamp, ack->rtt_us, tp->rx_opt.rcv_tsecr, resolution_us);
	ack->owd_us = (tp->rx_opt.rcv_tsval - sent) * resolution_us;
	ack->owd_resolution_us = resolution_us;
}

/*
 * Bytes newly acknowledged. The kernel counts packets, and those of a program that sends little at a time are not full;
 * with gaps in the sequence nothing better is known.
 */
static __always_inline __u64 leeway_acked_bytes(const struct tcp_sock *tp, const struct leeway_glue *g,
						const struct rate_sample *rs)
{
	__u64 most = (__u64)rs->acked_sacked * tp->mss_cache;
	__u32 advanced = tp->snd_una - g->una;

	return tp->sacked_out || !advanced ? most : leeway_min_u64(most, advanced);
}

static __always_inline void leeway_see_ack(struct leeway_ack *ack, struct tcp_sock *tp, struct leeway_glue *g,
					   const struct leeway_output *out, int flag,
					   const struct rate_sample *rs)
{
	__u32 mss = tp->mss_cache;

	ack->now_us = tp->tcp_mstamp;
	ack->acked_bytes = leeway_acked_bytes(tp, g, rs);
	ack->prior_inflight_bytes = (__u64)rs->prior_in_flight * mss;
	if (rs->rtt_us > 0) {
		ack->rtt_us = rs->rtt_us >> 32 ? ~0U : (__u32)rs->rtt_us;
		if (!g->min_rtt_us || ack->rtt_us < g->min_rtt_us)
			g->min_rtt_us = ack->rtt_us;
		/*
		 * The kernel's own sample is from the newest segment (tcp_clean_rtx_queue,
		 * last_ackt).
		 */
		ack->last_rtt_us = ack->rtt_us;
		ack->last_kind = leeway_sender_last(&g->common, ack->acked_bytes, mss, g->recovering);
	}
	leeway_see_rate(&ack->rate, tp, rs);
	if (leeway_waited_alone(ack, g, mss) && out->cwnd_q16 >> 16 >= mss)
		ack->rtt_us = 0;
	else if (tp->snd_una != g->una)
		leeway_see_owd(ack, tp);
	g->una = tp->snd_una;
	if (flag & FLAG_ECE && leeway_sender_marked(&g->common, tp->snd_una, tp->snd_nxt))
		g->congested = 1;
	if (g->congested)
		ack->ce_bytes = ack->acked_bytes ? ack->acked_bytes : 1;
	g->congested = 0;
	ack->app_limited =
		leeway_sender_app_limited(&g->common, out, ack->acked_bytes, leeway_limited(tp, out));
	if (rs->delivered >= 0 && (__s32)(rs->prior_delivered - g->round_delivered) >= 0) {
		ack->round_start = 1;
		g->round_delivered = tp->delivered;
	}
	ack->recovering = g->recovering;
	g->recovering = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state) == TCP_CA_RECOVERY;
}

static __always_inline void leeway_see_loss(struct leeway_loss *loss, struct sock *sk, struct tcp_sock *tp,
					    struct leeway_glue *g, const struct leeway_output *out,
					    __u8 state)
{
	loss->now_us = tp->tcp_mstamp;
	loss->lost_bytes = (__u64)tp->lost_out * tp->mss_cache;
	loss->sent_us = leeway_first_sent_us(sk);
	if (state == TCP_CA_LOSS) {
		loss->kind = LEEWAY_LOSS_TIMEOUT;
		/* The kernel counts this timeout after this call. */
		loss->timeouts = tp->inet_conn.icsk_retransmits + 1;
	}
	/* A timeout within a recovery, and further timeouts, belong to the same loss. */
	if (!g->undoable || BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state) < TCP_CA_RECOVERY) {
		g->undo_cwnd_q16 = out->cwnd_q16;
		g->undo_ssthresh_bytes = out->ssthresh_bytes;
		g->undoable = 1;
	}
}

/*
 * The pacing rate. A window below one segment is paced, one segment every 1/W round trips, and so is
 * one that leaves in pairs.
 * Otherwise leeway_pace_stack() does what the kernel does for laws without cong_control: it sizes
 * TSO bursts, and paces under fq.
 *
 * Pacing ends only after the last planned departure. A segment that left earlier would carry that
 * departure, which lies in the future, in its timestamp and in its round-trip time.
 */
static __always_inline void leeway_set_pace(struct sock *sk, struct tcp_sock *tp, struct leeway_glue *g,
					    const struct leeway_output *out, bool pairs)
{
	__u64 srtt_us = tp->srtt_us >> 3, mss = tp->mss_cache, rate, packets;
	bool is_rate = pairs || out->cwnd_q16 >> 16 < tp->mss_cache;

	if (!srtt_us)
		return;
	if (out->pacing_bytes_per_s) {
		rate = out->pacing_bytes_per_s;
	} else if (is_rate) {
		rate = leeway_pace_below_one(out, srtt_us);
	} else {
		packets = tp->snd_cwnd > tp->packets_out ? tp->snd_cwnd : tp->packets_out;
		rate = leeway_pace_stack(packets * mss, tp->snd_cwnd, tp->snd_ssthresh, srtt_us);
	}
	sk->sk_pacing_rate = rate ? rate : 1;
	if ((is_rate || out->pacing_bytes_per_s) && sk->sk_pacing_status == SK_PACING_NONE) {
		sk->sk_pacing_status = SK_PACING_NEEDED;
		g->paced = 1;
	} else if (g->paced && !is_rate && !out->pacing_bytes_per_s &&
		   tp->tcp_wstamp_ns <= bpf_ktime_get_ns()) {
		if (sk->sk_pacing_status == SK_PACING_NEEDED)
			sk->sk_pacing_status = SK_PACING_NONE;
		g->paced = 0;
	}
}

#define LEEWAY_BURST_MAX 40 /* segments of Ethernet's length; a burst of the kernel is 64 kB at most */

/*
 * The law's decision in the kernel's units. The kernel sends half of the window as one burst at most
 * (tcp_cwnd_test), so what a law lets leave together needs twice the room.
 */
static __always_inline void leeway_apply(struct sock *sk, struct tcp_sock *tp, struct leeway_glue *g,
					 const struct leeway_output *out)
{
	__u32 mss = tp->mss_cache ? tp->mss_cache : 1;
	__u64 packets = leeway_sender_window(&g->common, out, mss) / mss;
	__u64 ssthresh = TCP_INFINITE_SSTHRESH;
	bool pairs = leeway_leaves_in_pairs(tp, out);

	if (out->pacing_bytes_per_s && out->quantum > 1)
		packets = leeway_max_u64(packets, 2 * leeway_min_u32(out->quantum, LEEWAY_BURST_MAX));
	/* Whatever is on its way besides a pair is answered first. */
	if (pairs)
		packets = leeway_packets_in_flight(tp) ? 1 : 2;
	packets = leeway_min_u64(packets, tp->snd_cwnd_clamp);
	tp->snd_cwnd = packets ? (__u32)packets : 1;
	if (out->ssthresh_bytes != LEEWAY_UNLIMITED)
		ssthresh = leeway_min_u64(out->ssthresh_bytes / mss, TCP_INFINITE_SSTHRESH);
	tp->snd_ssthresh = (__u32)ssthresh;
	leeway_set_pace(sk, tp, g, out, pairs);
}

#define LEEWAY_TOGETHER_NS                                                                                   \
	10000U /* between segments that leave together; leeway_line.h takes 30 us for one burst */

/*
 * How many segments leave together where the kernel would pace each by itself; 1: none. That is a
 * quantum where the device has no segmentation offload (GSO), so that a burst is one segment: below
 * one quantum in flight, lone segments would wait for the receiver's timer. And it is a pair.
 */
static __always_inline __u32 leeway_together(const struct sock *sk, const struct tcp_sock *tp,
					     const struct leeway_output *out)
{
	if (leeway_leaves_in_pairs(tp, out))
		return 2;
	if (sk->sk_gso_max_segs == 1 && out->pacing_bytes_per_s && out->quantum > 1 &&
	    out->cwnd_q16 >> 16 < (__u64)out->quantum * tp->mss_cache)
		return out->quantum;
	return 1;
}

/* The first of them leaves: the next one follows at once. Of a pair, the second one has to be there. */
static __always_inline void leeway_quantum_begins(struct sock *sk, const struct tcp_sock *tp,
						  const struct leeway_output *out)
{
	if (leeway_together(sk, tp, out) > 1 &&
	    (out->pacing_bytes_per_s || tp->write_seq - tp->snd_nxt > tp->mss_cache))
		sk->sk_pacing_rate = (__u64)tp->mss_cache * 1000000000 / LEEWAY_TOGETHER_NS;
}

/* A further one may leave: the pause of all of them follows the last one. */
static __always_inline void leeway_quantum_goes_on(struct sock *sk, const struct tcp_sock *tp,
						   const struct leeway_output *out)
{
	__u32 flight = leeway_packets_in_flight(tp), together = leeway_together(sk, tp, out);
	__u64 rate = out->pacing_bytes_per_s ? out->pacing_bytes_per_s
					     : leeway_pace_below_one(out, tp->srtt_us >> 3);

	if (flight && together > 1 && flight + 1 == together)
		sk->sk_pacing_rate = leeway_max_u64(rate / together, 1);
}

/*
 * Restart after idling (RFC 5681, 4.1), which the kernel leaves to laws with cong_control. The
 * simulator does the same.
 */
static __always_inline void leeway_idle(struct sock *sk, struct tcp_sock *tp, struct leeway_glue *g)
{
	if ((__s32)((__u32)bpf_jiffies64() - tp->lsndtime) <= (__s32)tp->inet_conn.icsk_rto)
		return;
	if (sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_slow_start_after_idle)
		leeway_sender_idle(&g->common, g->initial_window_bytes);
}

/* Undo of a spurious loss: window and threshold as before it, unless they are higher by now. */
static __always_inline void leeway_undo(struct leeway_glue *g, struct leeway_output *out)
{
	if (!g->undoable)
		return;
	out->cwnd_q16 = leeway_max_u64(out->cwnd_q16, g->undo_cwnd_q16);
	out->ssthresh_bytes = leeway_max_u64(out->ssthresh_bytes, g->undo_ssthresh_bytes);
	g->undoable = 0;
}

static __always_inline void leeway_begin(struct tcp_sock *tp, struct leeway_glue *g)
{
	g->live = 1;
	leeway_sender_init(&g->common, tp->snd_una);
	g->initial_window_bytes = tp->snd_cwnd * tp->mss_cache;
	g->una = tp->snd_una;
	g->round_delivered = tp->delivered;
}

static __always_inline struct leeway_record *leeway_record(struct sock *sk, struct leeway_glue *g, __u32 kind,
							   const struct leeway_path *path)
{
	struct leeway_record *record;

	g->events++;
	record = bpf_ringbuf_reserve(&leeway_events, sizeof(*record), 0);
	if (!record)
		return NULL;
	record->socket = (__u64)(unsigned long)sk;
	record->number = g->events;
	record->kind = kind;
	record->path = *path;
	return record;
}

#define LEEWAY_STRUCT_OPS(X)                                                                                 \
	struct X##_socket {                                                                                  \
		struct leeway_glue glue;                                                                     \
		union {                                                                                      \
			struct leeway_##X law;                                                               \
			struct leeway_output out;                                                            \
		};                                                                                           \
	};                                                                                                   \
	_Static_assert(sizeof(struct leeway_##X) <= LEEWAY_STATE_MAX, "LEEWAY_STATE_MAX");                   \
	_Static_assert(sizeof(struct leeway_##X##_params) <= 4 * LEEWAY_PARAMS_MAX, "LEEWAY_PARAMS_MAX");    \
	struct {                                                                                             \
		__uint(type, BPF_MAP_TYPE_SK_STORAGE);                                                       \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                        \
		__type(key, int);                                                                            \
		__type(value, struct X##_socket);                                                            \
	} X##_sockets SEC(".maps");                                                                          \
                                                                                                             \
	static __always_inline void X##_submit(struct leeway_record *record, const struct X##_socket *s)     \
	{                                                                                                    \
		__builtin_memcpy(record->state, &s->law, sizeof(s->law));                                    \
		bpf_ringbuf_submit(record, 0);                                                               \
	}                                                                                                    \
                                                                                                             \
	static __always_inline void X##_begin(struct sock *sk, struct X##_socket *s)                         \
	{                                                                                                    \
		struct tcp_sock *tp = (struct tcp_sock *)sk;                                                 \
		struct leeway_record *record;                                                                \
		struct leeway_path path = {};                                                                \
                                                                                                             \
		leeway_begin(tp, &s->glue);                                                                  \
		leeway_see_path(&path, tp, &s->glue);                                                        \
		leeway_##X##_init(&s->law, leeway_params(), &path);                                          \
		leeway_apply(sk, tp, &s->glue, &s->out);                                                     \
		if (leeway_config.record) {                                                                  \
			record = leeway_record(sk, &s->glue, LEEWAY_RECORD_INIT, &path);                     \
			if (record)                                                                          \
				X##_submit(record, s);                                                       \
		}                                                                                            \
	}                                                                                                    \
                                                                                                             \
	/* Where memory is short, the window stays the initial one until the next attempt. */                \
	static __always_inline void X##_create(struct sock *sk)                                              \
	{                                                                                                    \
		struct X##_socket *s =                                                                       \
			bpf_sk_storage_get(&X##_sockets, sk, NULL, BPF_LOCAL_STORAGE_GET_CREATE);            \
                                                                                                             \
		if (s)                                                                                       \
			X##_begin(sk, s);                                                                    \
	}                                                                                                    \
                                                                                                             \
	SEC("struct_ops")                                                                                    \
	void BPF_PROG(X##_init, struct sock *sk)                                                             \
	{                                                                                                    \
		X##_create(sk);                                                                              \
	}                                                                                                    \
                                                                                                             \
	SEC("struct_ops")                                                                                    \
	void BPF_PROG(X##_release, struct sock *sk)                                                          \
	{                                                                                                    \
		bpf_sk_storage_delete(&X##_sockets, sk);                                                     \
	}                                                                                                    \
                                                                                                             \
	/* The kernel asks before it tells of a loss; set_state has the answer. */                           \
	SEC("struct_ops")                                                                                    \
	__u32 BPF_PROG(X##_ssthresh, struct sock *sk)                                                        \
	{                                                                                                    \
		return ((struct tcp_sock *)sk)->snd_ssthresh;                                                \
	}                                                                                                    \
                                                                                                             \
	SEC("struct_ops")                                                                                    \
	void BPF_PROG(X##_set_state, struct sock *sk, __u8 state)                                            \
	{                                                                                                    \
		struct X##_socket *s = bpf_sk_storage_get(&X##_sockets, sk, NULL, 0);                        \
		struct tcp_sock *tp = (struct tcp_sock *)sk;                                                 \
		struct leeway_record *record;                                                                \
		struct leeway_loss loss = {};                                                                \
		struct leeway_path path = {};                                                                \
                                                                                                             \
		if (!s || !s->glue.live)                                                                     \
			return;                                                                              \
		if (state == TCP_CA_CWR)                                                                     \
			s->glue.congested = 1;                                                               \
		if (state != TCP_CA_RECOVERY && state != TCP_CA_LOSS)                                        \
			return;                                                                              \
		s->glue.recovering = state == TCP_CA_RECOVERY;                                               \
		leeway_see_loss(&loss, sk, tp, &s->glue, &s->out, state);                                    \
		leeway_see_path(&path, tp, &s->glue);                                                        \
		leeway_##X##_on_loss(&s->law, &loss, &path);                                                 \
		leeway_apply(sk, tp, &s->glue, &s->out);                                                     \
		if (leeway_config.record) {                                                                  \
			record = leeway_record(sk, &s->glue, LEEWAY_RECORD_LOSS, &path);                     \
			if (record) {                                                                        \
				record->loss = loss;                                                         \
				X##_submit(record, s);                                                       \
			}                                                                                    \
		}                                                                                            \
	}                                                                                                    \
                                                                                                             \
	SEC("struct_ops")                                                                                    \
	void BPF_PROG(X##_cwnd_event, struct sock *sk, int event)                                            \
	{                                                                                                    \
		struct tcp_sock *tp = (struct tcp_sock *)sk;                                                 \
		struct X##_socket *s;                                                                        \
                                                                                                             \
		if (event != CA_EVENT_TX_START)                                                              \
			return;                                                                              \
		s = bpf_sk_storage_get(&X##_sockets, sk, NULL, 0);                                           \
		if (!s || !s->glue.live)                                                                     \
			return;                                                                              \
		leeway_idle(sk, tp, &s->glue);                                                               \
		leeway_apply(sk, tp, &s->glue, &s->out);                                                     \
		leeway_quantum_begins(sk, tp, &s->out);                                                      \
	}                                                                                                    \
                                                                                                             \
	SEC("struct_ops")                                                                                    \
	__u32 BPF_PROG(X##_undo_cwnd, struct sock *sk)                                                       \
	{                                                                                                    \
		struct X##_socket *s = bpf_sk_storage_get(&X##_sockets, sk, NULL, 0);                        \
		struct tcp_sock *tp = (struct tcp_sock *)sk;                                                 \
		struct leeway_record *record;                                                                \
		struct leeway_path path = {};                                                                \
                                                                                                             \
		if (!s || !s->glue.live)                                                                     \
			return tp->snd_cwnd;                                                                 \
		leeway_undo(&s->glue, &s->out);                                                              \
		leeway_apply(sk, tp, &s->glue, &s->out);                                                     \
		if (leeway_config.record) {                                                                  \
			leeway_see_path(&path, tp, &s->glue);                                                \
			record = leeway_record(sk, &s->glue, LEEWAY_RECORD_UNDO, &path);                     \
			if (record)                                                                          \
				X##_submit(record, s);                                                       \
		}                                                                                            \
		return tp->snd_cwnd;                                                                         \
	}                                                                                                    \
                                                                                                             \
	SEC("struct_ops")                                                                                    \
	void BPF_PROG(X##_cong_control, struct sock *sk, __u32 number, int flag,                             \
		      const struct rate_sample *rs)                                                          \
	{                                                                                                    \
		struct X##_socket *s = bpf_sk_storage_get(&X##_sockets, sk, NULL, 0);                        \
		struct tcp_sock *tp = (struct tcp_sock *)sk;                                                 \
		struct leeway_record *record;                                                                \
		struct leeway_ack ack = {};                                                                  \
		struct leeway_path path = {};                                                                \
                                                                                                             \
		if (!s) {                                                                                    \
			/* The acknowledgement of the SYN comes before init. */                              \
			if (BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_initialized))                       \
				X##_create(sk);                                                              \
			return;                                                                              \
		}                                                                                            \
		if (!s->glue.live)                                                                           \
			return;                                                                              \
		leeway_see_ack(&ack, tp, &s->glue, &s->out, flag, rs);                                       \
		if (!ack.acked_bytes && !ack.ce_bytes)                                                       \
			return;                                                                              \
		leeway_see_path(&path, tp, &s->glue);                                                        \
		leeway_##X##_on_ack(&s->law, &ack, &path);                                                   \
		leeway_apply(sk, tp, &s->glue, &s->out);                                                     \
		if (leeway_config.record) {                                                                  \
			record = leeway_record(sk, &s->glue, LEEWAY_RECORD_ACK, &path);                      \
			if (record) {                                                                        \
				record->ack = ack;                                                           \
				X##_submit(record, s);                                                       \
			}                                                                                    \
		}                                                                                            \
	}                                                                                                    \
                                                                                                             \
	/* Segments of a burst at least: what the law asks for, and two as everywhere in the kernel. */      \
	SEC("struct_ops")                                                                                    \
	__u32 BPF_PROG(X##_min_tso_segs, struct sock *sk)                                                    \
	{                                                                                                    \
		struct X##_socket *s = bpf_sk_storage_get(&X##_sockets, sk, NULL, 0);                        \
                                                                                                             \
		if (s && s->glue.live)                                                                       \
			leeway_quantum_goes_on(sk, (struct tcp_sock *)sk, &s->out);                          \
		return s && s->out.quantum > 2 ? leeway_min_u32(s->out.quantum, LEEWAY_BURST_MAX) : 2;       \
	}                                                                                                    \
                                                                                                             \
	SEC(".struct_ops.link")                                                                              \
	struct tcp_congestion_ops leeway_##X = {                                                             \
		.init = (void *)X##_init,                                                                    \
		.release = (void *)X##_release,                                                              \
		.ssthresh = (void *)X##_ssthresh,                                                            \
		.set_state = (void *)X##_set_state,                                                          \
		.cwnd_event = (void *)X##_cwnd_event,                                                        \
		.undo_cwnd = (void *)X##_undo_cwnd,                                                          \
		.cong_control = (void *)X##_cong_control,                                                    \
		.min_tso_segs = (void *)X##_min_tso_segs,                                                    \
		.name = "leeway_" #X,                                                                        \
	};

LEEWAY_EVERY_LAW(LEEWAY_STRUCT_OPS)
