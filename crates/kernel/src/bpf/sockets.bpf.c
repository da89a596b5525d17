/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Every socket under a law, of all network namespaces: iterators over socket storage, from both sides. */
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

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

/* The beginning of every law's value. */
struct value {
	struct leeway_glue glue;
	struct leeway_output out;
};

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

SEC("iter/bpf_sk_storage_map")
int leeway_sockets(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct leeway_socket socket = {};
	const struct value *value = ctx->value;
	struct socket_alloc *owner;
	struct sock *sk = ctx->sk;
	struct tcp_sock *tp;

	if (!sk || !value || !value->glue.live)
		return 0;
	socket.out = value->out;
	LEEWAY_ADDRESSES(socket, sk);
	owner = (struct socket_alloc *)BPF_CORE_READ(sk, sk_socket);
	if (owner)
		socket.inode = BPF_CORE_READ(owner, vfs_inode.i_ino);
	socket.uid = BPF_CORE_READ(sk, sk_uid.val);
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp) {
		socket.mss_bytes = tp->mss_cache;
		socket.srtt_us = tp->srtt_us >> 3;
		socket.acked_bytes = tp->bytes_acked;
		socket.busy = tp->write_seq != tp->snd_nxt;
		socket.inflight = tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
	}
	bpf_seq_write(ctx->meta->seq, &socket, sizeof(socket));
	return 0;
}

SEC("iter/bpf_sk_storage_map")
int leeway_receivers(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct leeway_received received = {};
	const struct leeway_connection *connection = ctx->value;
	struct socket_alloc *owner;
	struct sock *sk = ctx->sk;
	struct tcp_sock *tp;

	if (!sk || !connection)
		return 0;
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
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp) {
		received.announced_bytes = tp->rcv_wup + tp->rcv_wnd - tp->rcv_nxt;
		received.received_bytes = tp->bytes_received;
	}
	bpf_seq_write(ctx->meta->seq, &received, sizeof(received));
	return 0;
}
