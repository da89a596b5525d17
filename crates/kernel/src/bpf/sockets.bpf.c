/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Every socket under a law, of all network namespaces: an iterator over the law's socket storage. */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "glue.h"

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
	socket.family = sk->__sk_common.skc_family;
	socket.local_port = sk->__sk_common.skc_num;
	socket.remote_port = sk->__sk_common.skc_dport;
	socket.netns = sk->__sk_common.skc_net.net->ns.inum;
	if (socket.family == 2) {
		__builtin_memcpy(socket.local, &sk->__sk_common.skc_rcv_saddr, 4);
		__builtin_memcpy(socket.remote, &sk->__sk_common.skc_daddr, 4);
	} else {
		BPF_CORE_READ_INTO(&socket.local, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&socket.remote, sk, __sk_common.skc_v6_daddr);
	}
	owner = (struct socket_alloc *)BPF_CORE_READ(sk, sk_socket);
	if (owner)
		socket.inode = BPF_CORE_READ(owner, vfs_inode.i_ino);
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp) {
		socket.mss_bytes = tp->mss_cache;
		socket.srtt_us = tp->srtt_us >> 3;
		socket.acked_bytes = tp->bytes_acked;
		socket.inflight = tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
	}
	bpf_seq_write(ctx->meta->seq, &socket, sizeof(socket));
	return 0;
}
