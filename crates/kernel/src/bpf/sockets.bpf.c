/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Every socket of one network namespace that is under a law, at the sender or at the receiver. The
 * iterator is the one over TCP sockets, because locked-down kernels refuse the one over socket
 * storage.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "receive.h"

char LEEWAY_LICENSE[] SEC("license") = "Dual MIT/GPL";

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

/* The beginning of every law's value. */
struct value {
	struct leeway_glue glue;
	struct leeway_output out;
};

/*
 * The map whose sockets are listed. The loader puts the map of a loaded law, or of a receiver, in
 * the place of one of these.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct value);
} leeway_senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct leeway_connection);
} leeway_receivers SEC(".maps");

/* Both kinds of socket begin their addresses alike. */
#define LEEWAY_ADDRESSES(to, sk)                                                                             \
	do {                                                                                                 \
		(to).family = (sk)->__sk_common.skc_family;                                                  \
		(to).local_port = (sk)->__sk_common.skc_num;                                                 \
		(to).remote_port = (sk)->__sk_common.skc_dport;                                              \
		(to).netns = (sk)->__sk_common.skc_net.net->ns.inum;                                         \
		if ((to).family == 2) {                                                                      \
			__builtin_memcpy((to).local, &(sk)->__sk_common.skc_rcv_saddr, 4);                   \
			__builtin_memcpy((to).remote, &(sk)->__sk_common.skc_daddr, 4);                      \
		} else {                                                                                     \
			BPF_CORE_READ_INTO(&(to).local, (sk), __sk_common.skc_v6_rcv_saddr);                 \
			BPF_CORE_READ_INTO(&(to).remote, (sk), __sk_common.skc_v6_daddr);                    \
		}                                                                                            \
	} while (0)

SEC("iter/tcp")
int leeway_list_senders(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct leeway_socket socket = {};
	const struct value *value;
	struct socket_alloc *owner;
	struct tcp_sock *tp;
	struct sock *sk;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	value = bpf_sk_storage_get(&leeway_senders, tp, NULL, 0);
	if (!value || !value->glue.live)
		return 0;
	sk = (struct sock *)tp;
	socket.out = value->out;
	LEEWAY_ADDRESSES(socket, sk);
	owner = (struct socket_alloc *)BPF_CORE_READ(sk, sk_socket);
	if (owner)
		socket.inode = BPF_CORE_READ(owner, vfs_inode.i_ino);
	socket.uid = BPF_CORE_READ(sk, sk_uid.val);
	socket.mss_bytes = tp->mss_cache;
	socket.srtt_us = tp->srtt_us >> 3;
	socket.acked_bytes = tp->bytes_acked;
	socket.busy = tp->write_seq != tp->snd_nxt;
	socket.inflight = tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
	bpf_seq_write(ctx->meta->seq, &socket, sizeof(socket));
	return 0;
}

SEC("iter/tcp")
int leeway_list_receivers(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct leeway_received received = {};
	const struct leeway_connection *connection;
	struct socket_alloc *owner;
	struct tcp_sock *tp;
	struct sock *sk;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	connection = bpf_sk_storage_get(&leeway_receivers, tp, NULL, 0);
	if (!connection)
		return 0;
	sk = (struct sock *)tp;
	received.hungry = connection->hungry;
	received.timestamps = connection->timestamps;
	received.window_bytes = connection->window_bytes;
	received.segment_bytes = connection->segment_bytes;
	received.queuing_us = connection->queuing_us;
	received.rtt_us = connection->rtt_us;
	LEEWAY_ADDRESSES(received, sk);
	owner = (struct socket_alloc *)BPF_CORE_READ(sk, sk_socket);
	if (owner)
		received.inode = BPF_CORE_READ(owner, vfs_inode.i_ino);
	received.uid = BPF_CORE_READ(sk, sk_uid.val);
	received.announced_bytes = tp->rcv_wup + tp->rcv_wnd - tp->rcv_nxt;
	received.received_bytes = tp->bytes_received;
	bpf_seq_write(ctx->meta->seq, &received, sizeof(received));
	return 0;
}
