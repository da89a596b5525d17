/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The types of a kernel before 6.10, as far as it matters: cong_control without the number and the flag. For tests. */
struct sock;
struct rate_sample;

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	void (*cong_control)(struct sock *sk, const struct rate_sample *rs);
};

struct tcp_congestion_ops of_6_9 = {};
