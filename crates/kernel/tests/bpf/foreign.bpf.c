/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What another version of leeway might load: its configuration has a law that this version does not know. For tests. */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "glue.h"

char LEEWAY_LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct leeway_config leeway_config SEC(".rodata.config");
/* Not the loader's: it is what tells the versions apart. */
const volatile __u32 other_config SEC(".rodata.other") = 1;

SEC("struct_ops")
__u32 BPF_PROG(newreno_ssthresh, struct sock *sk)
{
	return other_config;
}

SEC("struct_ops")
__u32 BPF_PROG(newreno_undo_cwnd, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(newreno_cong_control, struct sock *sk, __u32 number, int flag, const struct rate_sample *rs)
{
}

SEC(".struct_ops.link")
struct tcp_congestion_ops leeway_newreno = {
	.ssthresh = (void *)newreno_ssthresh,
	.undo_cwnd = (void *)newreno_undo_cwnd,
	.cong_control = (void *)newreno_cong_control,
	.name = "leeway_newreno",
};
