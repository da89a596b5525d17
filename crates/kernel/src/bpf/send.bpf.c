/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The sockets of a cgroup: all TCP connections are under one law and all packets carry one DSCP,
 * whatever its programs ask for. docs/run.md says when each hook runs.
 */
#include "context.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "account.h"
#include "send.h"

#define AF_INET        2
#define AF_INET6       10
#define SOCK_STREAM    1
#define IPPROTO_IP     0
#define IPPROTO_TCP    6
#define IPPROTO_IPV6   41
#define IP_TOS         1
#define IPV6_TCLASS    67
#define TCP_CONGESTION 13
#define ECN_MASK       3
#define ETH_P_IP       0x0800
#define ETH_P_IPV6     0x86dd
#define TCX_NEXT       (-1) /* the device's other programs decide */

/* uapi/linux/bpf.h */
#define BPF_SOCK_OPS_TCP_CONNECT_CB         3
#define BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB  4
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5
#define BPF_SOCK_OPS_TCP_LISTEN_CB          11
#define BPF_SOCK_OPS_RTT_CB                 12
#define BPF_SOCK_OPS_RTT_CB_FLAG            8
#define BPF_F_CLONE                         (1U << 9)

char LEEWAY_LICENSE[] SEC("license") = "Dual MIT/GPL";

extern void *bpf_cast_to_kern_ctx(void *context) __ksym;

const volatile struct leeway_send leeway_send SEC(".rodata.send");

/*
 * The depth of the cgroup that decided about a socket. All attachments share this map. With nested
 * cgroups the innermost decides, although the kernel runs its programs first.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, __u32);
} leeway_levels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct leeway_account);
} leeway_accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct leeway_watched);
} leeway_watched SEC(".maps");

/* The beginning of every law's state of a socket. The loader puts the map of the law here. */
struct leeway_law {
	struct leeway_glue glue;
	struct leeway_output out;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct leeway_law);
} leeway_laws SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file {
	int dummy_for_type_only;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

#pragma clang attribute pop

/* Whether no cgroup deeper in the hierarchy has decided about the socket. */
#define leeway_decides(sk)                                                                                   \
	({                                                                                                   \
		__u32 *level = bpf_sk_storage_get(&leeway_levels, sk, NULL, BPF_LOCAL_STORAGE_GET_CREATE);   \
		bool mine = !level || *level <= leeway_send.level;                                           \
		if (level && mine)                                                                           \
			*level = leeway_send.level;                                                          \
		mine;                                                                                        \
	})

/* `to` is the first argument of bpf_setsockopt: a context or a socket. */
static __always_inline void leeway_put_law(void *to)
{
	char law[LEEWAY_CA_NAME_MAX];
	int i;

	for (i = 0; i < LEEWAY_CA_NAME_MAX; i++)
		law[i] = leeway_send.law[i];
	bpf_setsockopt(to, IPPROTO_TCP, TCP_CONGESTION, law, sizeof(law));
}

/*
 * The kernel lets programs set only the byte of the socket's own family; leeway_packets sets the
 * other one.
 */
static __always_inline void leeway_put_mark(void *to, __u32 family)
{
	int level = family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
	int option = family == AF_INET6 ? IPV6_TCLASS : IP_TOS, tos = 0;

	if (!leeway_send.mark || (family != AF_INET && family != AF_INET6))
		return;
	bpf_getsockopt(to, level, option, &tos, sizeof(tos));
	tos = (tos & ECN_MASK) | leeway_send.tos;
	bpf_setsockopt(to, level, option, &tos, sizeof(tos));
}

static __always_inline struct leeway_account *leeway_the_account(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&leeway_accounts, &key);
}

/* Samples a connection under the law, at one of its round-trip samples. */
static __always_inline void leeway_watch(struct bpf_sock_ops *ctx)
{
	__u64 now_us = bpf_ktime_get_ns() / 1000, acked, gap_us, second_us;
	struct leeway_account *a = leeway_the_account();
	struct bpf_sock *sk = ctx->sk;
	struct leeway_watched *w;
	struct leeway_law *law;
	struct tcp_sock *tp;
	__u32 again;

	if (!a || !sk)
		return;
	law = bpf_sk_storage_get(&leeway_laws, sk, NULL, 0);
	w = bpf_sk_storage_get(&leeway_watched, sk, NULL, BPF_LOCAL_STORAGE_GET_CREATE);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!law || !law->glue.live || !w || !tp || now_us - w->looked_us < LEEWAY_LOOK_US)
		return;
	acked = tp->bytes_acked;
	again = tp->total_retrans;
	if (w->looked_us) {
		__sync_fetch_and_add(&a->acked_bytes, acked - w->acked_bytes);
		__sync_fetch_and_add(&a->lost_packets, again - w->retransmitted);
	}
	w->looked_us = now_us;
	w->acked_bytes = acked;
	w->retransmitted = again;
	gap_us = now_us - __sync_lock_test_and_set(&a->last_us, now_us);
	if (gap_us < LEEWAY_LOOK_MOST_US && tp->write_seq != tp->snd_nxt) {
		__sync_fetch_and_add(&a->watched_us, gap_us);
		__sync_fetch_and_add(&a->queue_us2, gap_us * law->out.queuing_delay_us);
	}
	second_us = a->way.second_us;
	if (now_us - second_us >= LEEWAY_SECOND_US &&
	    __sync_val_compare_and_swap(&a->way.second_us, second_us, now_us) == second_us)
		leeway_account_second(a, now_us - second_us, leeway_send.target_us);
}

/* Packets of the cgroup, whatever they carry. */
SEC("cgroup_skb/egress")
int leeway_sent(struct __sk_buff *skb)
{
	struct leeway_account *a = leeway_the_account();

	if (a)
		__sync_fetch_and_add(&a->sent_bytes, skb->len);
	return 1;
}

SEC("cgroup_skb/ingress")
int leeway_came(struct __sk_buff *skb)
{
	struct leeway_account *a = leeway_the_account();

	if (a)
		__sync_fetch_and_add(&a->received_bytes, skb->len);
	return 1;
}

/*
 * A new connection: before its SYN, and again when it is established, because routes may choose a
 * congestion control in between (`congctl`). A listener: its accepted connections inherit law and
 * mark, and the SYN-ACK carries the listener's mark.
 */
SEC("sockops")
int leeway_connections(struct bpf_sock_ops *ctx)
{
	__u32 op = ctx->op;

	if (op == BPF_SOCK_OPS_RTT_CB) {
		leeway_watch(ctx);
		return 1;
	}
	if (op != BPF_SOCK_OPS_TCP_CONNECT_CB && op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB && op != BPF_SOCK_OPS_TCP_LISTEN_CB)
		return 1;
	if (!ctx->sk || !leeway_decides(ctx->sk))
		return 1;
	leeway_put_law(ctx);
	leeway_put_mark(ctx, ctx->family);
	if (op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
	return 1;
}

/*
 * The program's own choices. A choice of congestion control gets the answer "success" and is
 * dropped (an optlen of -1 keeps it from the kernel). Of a DSCP only the ECN bits stay, which a
 * transport over UDP may use.
 */
SEC("cgroup/setsockopt")
int leeway_options(struct bpf_sockopt *ctx)
{
	__u8 *value = ctx->optval, *end = ctx->optval_end;
	__s32 level = ctx->level, option = ctx->optname;
	bool v4 = level == IPPROTO_IP && option == IP_TOS;
	bool v6 = level == IPPROTO_IPV6 && option == IPV6_TCLASS;
	__u8 ecn;

	if (level == IPPROTO_TCP && option == TCP_CONGESTION && ctx->sk->type == SOCK_STREAM) {
		ctx->optlen = -1;
		return 1;
	}
	if (!leeway_send.mark || !(v4 || v6) || !leeway_decides(ctx->sk))
		return 1;
	if (value + 4 <= end) {
		/* -1 is the default traffic class, without marks of ECN (RFC 3542, 6.5). */
		ecn = *(__s32 *)value < 0 ? 0 : *(__s32 *)value & ECN_MASK;
		*(__s32 *)value = ecn | leeway_send.tos;
	} else if (v4 && value + 1 <= end) {
		*value = (*value & ECN_MASK) | leeway_send.tos;
	}
	return 1;
}

/* Datagram and raw sockets, mostly before their first packet (docs/run.md). */
static __always_inline int leeway_datagram(struct bpf_sock_addr *ctx)
{
	if (ctx->sk && leeway_decides(ctx->sk))
		leeway_put_mark(ctx, ctx->family);
	return 1;
}

SEC("cgroup/bind4")
int leeway_bind4(struct bpf_sock_addr *ctx)
{
	return leeway_datagram(ctx);
}

SEC("cgroup/bind6")
int leeway_bind6(struct bpf_sock_addr *ctx)
{
	return leeway_datagram(ctx);
}

SEC("cgroup/connect4")
int leeway_connect4(struct bpf_sock_addr *ctx)
{
	return leeway_datagram(ctx);
}

SEC("cgroup/connect6")
int leeway_connect6(struct bpf_sock_addr *ctx)
{
	return leeway_datagram(ctx);
}

SEC("cgroup/sendmsg4")
int leeway_sendmsg4(struct bpf_sock_addr *ctx)
{
	return leeway_datagram(ctx);
}

SEC("cgroup/sendmsg6")
int leeway_sendmsg6(struct bpf_sock_addr *ctx)
{
	return leeway_datagram(ctx);
}

/* Puts the DSCP into a header at that offset; the two bits of ECN stay. */
static __always_inline void leeway_mark_ipv4(struct __sk_buff *skb, __u32 at)
{
	__u8 tos, marked;

	if (bpf_skb_load_bytes(skb, at + 1, &tos, sizeof(tos)))
		return;
	marked = (tos & ECN_MASK) | leeway_send.tos;
	if (marked == tos)
		return;
	/* The byte is the second of its word. */
	bpf_l3_csum_replace(skb, at + 10, bpf_htons(tos), bpf_htons(marked), sizeof(__u16));
	bpf_skb_store_bytes(skb, at + 1, &marked, sizeof(marked), 0);
}

static __always_inline void leeway_mark_ipv6(struct __sk_buff *skb, __u32 at)
{
	__u8 head[2], class, marked;

	if (bpf_skb_load_bytes(skb, at, head, sizeof(head)))
		return;
	class = head[0] << 4 | head[1] >> 4;
	marked = (class & ECN_MASK) | leeway_send.tos;
	if (marked == class)
		return;
	head[0] = (head[0] & 0xf0) | marked >> 4;
	head[1] = (head[1] & 0x0f) | marked << 4;
	bpf_skb_store_bytes(skb, at, head, sizeof(head), 0);
}

/*
 * A packet at a device: marked whatever its socket says, including IPv4 packets of IPv6 sockets.
 */
SEC("tcx/egress")
int leeway_packets(struct __sk_buff *skb)
{
	struct bpf_sock *common = skb->sk, *sk;
	struct sk_buff *kernel;
	__u32 at;

	if (!common || bpf_skb_ancestor_cgroup_id(skb, leeway_send.level) != leeway_send.cgroup)
		return TCX_NEXT;
	sk = bpf_sk_fullsock(common);
	if (!sk) /* a SYN-ACK belongs to its listener */
		sk = bpf_get_listener_sock(common);
	if (!sk || !leeway_decides(sk))
		return TCX_NEXT;
	kernel = bpf_cast_to_kern_ctx(skb);
	at = kernel->network_header - (__u32)(kernel->data - kernel->head);
	if (skb->protocol == bpf_htons(ETH_P_IP))
		leeway_mark_ipv4(skb, at);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		leeway_mark_ipv6(skb, at);
	return TCX_NEXT;
}

static __always_inline int leeway_inside(struct sock___cgroup *sk)
{
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;
	struct cgroup_subsys_state *parent;
	int depth;

	for (depth = 0; depth < 64 && cgroup; depth++) {
		if (cgroup->kn->id == leeway_send.cgroup)
			return 1;
		parent = cgroup->self.parent;
		if (!parent)
			break;
		cgroup = parent->cgroup;
	}
	return 0;
}

/* The present connections of one network namespace; one byte of output for each. */
SEC("iter/tcp")
int leeway_running(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	__u8 one = 1;
	int flags;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp || !leeway_inside((struct sock___cgroup *)tp) || !leeway_decides(tp))
		return 0;
	leeway_put_law(tp);
	leeway_put_mark(tp, common->skc_family);
	flags = tp->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG;
	bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
	bpf_seq_write(ctx->meta->seq, &one, sizeof(one));
	return 0;
}
