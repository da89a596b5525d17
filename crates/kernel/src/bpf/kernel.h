/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The fields of the kernel's types that the glue uses. Offsets are relocated at load (CO-RE), so
 * the structs need not be complete, and other kernels may differ. Names and types of fields are
 * those of Linux 6.10.
 */
#ifndef LEEWAY_KERNEL_H
#define LEEWAY_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;

#define NULL ((void *)0)

/* uapi/linux/bpf.h */
#define BPF_MAP_TYPE_ARRAY           2
#define BPF_MAP_TYPE_LRU_HASH        9
#define BPF_MAP_TYPE_SK_STORAGE      24
#define BPF_MAP_TYPE_RINGBUF         27
#define BPF_F_NO_PREALLOC            1
#define BPF_LOCAL_STORAGE_GET_CREATE 1
#define BPF_ANY                      0

#define BPF_SOCK_OPS_RWND_INIT              2
#define BPF_SOCK_OPS_TCP_CONNECT_CB         3
#define BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB  4
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5
#define BPF_SOCK_OPS_TCP_LISTEN_CB          11
#define BPF_SOCK_OPS_HDR_OPT_LEN_CB         14
#define BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG  64
#define BPF_WRITE_HDR_TCP_CURRENT_MSS       1

/* net/tcp.h, uapi/linux/tcp.h, net/sock.h */
#define TCP_INFINITE_SSTHRESH     0x7fffffff
#define TCP_CA_CWR                2
#define TCP_CA_RECOVERY           3
#define TCP_CA_LOSS               4
#define CA_EVENT_TX_START         0
#define SK_PACING_NONE            0
#define SK_PACING_NEEDED          1
#define SOL_TCP                   6
#define TCP_WINDOW_CLAMP          10
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008
#define TCP_ESTABLISHED           1
#define TCP_FIN_WAIT1             4
#define TCP_FIN_WAIT2             5

/* net/ipv4/tcp_input.c: the acknowledgement carried ECN-echo (or AccECN counted new marks). */
#define FLAG_ECE 0x40

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rb_node {
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct sk_buff {
	__u64 skb_mstamp_ns; /* when it was last sent, CLOCK_MONOTONIC */
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
};

struct ns_common {
	unsigned int inum;
};

struct netns_ipv4 {
	__u8 sysctl_tcp_slow_start_after_idle;
};

struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};

typedef struct {
	__u32 val;
} kuid_t;

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct inode {
	unsigned long i_ino;
};

struct socket_alloc {
	struct inode vfs_inode;
};

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket; /* the first member of a struct socket_alloc */
	struct rb_root tcp_rtx_queue;
	__u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	__u16 sk_gso_max_segs; /* 1: the device takes one segment at a time */
	kuid_t sk_uid;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u32 icsk_rto;
	__u8 icsk_ca_state : 5;
	__u8 icsk_ca_initialized : 1; /* init was called */
	__u8 icsk_retransmits;
};

struct tcp_options_received {
	__u32 rcv_tsval;
	__u32 rcv_tsecr;
	__u16 saw_tstamp : 1;
	__u16 tstamp_ok : 1;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 bytes_acked;
	__u64 tcp_mstamp;    /* now, in microseconds of CLOCK_MONOTONIC */
	__u64 tcp_wstamp_ns; /* of the last transmission, CLOCK_MONOTONIC */
	__u64 bytes_received;
	__u32 delivered;
	__u32 lost;
	__u32 lost_out;
	__u32 lsndtime;
	__u32 max_packets_out;
	__u32 mss_cache;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 sacked_out;
	__u32 rcv_nxt;
	__u32 rcv_ssthresh; /* largest window to announce now */
	__u32 rcv_wnd;
	__u32 rcv_wup; /* rcv_nxt when rcv_wnd was announced */
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_nxt;
	__u32 snd_ssthresh;
	__u32 snd_una;
	__u32 srtt_us; /* eighths of a microsecond */
	__u32 total_retrans;
	__u32 tsoffset; /* of the timestamps sent */
	__u32 window_clamp;
	__u32 write_seq;
	__u8 bpf_sock_ops_cb_flags;
	__u8 is_cwnd_limited : 1;
	__u8 tcp_usec_ts : 1;
	struct tcp_options_received rx_opt;
};

struct rate_sample {
	__u64 prior_mstamp;
	__u32 prior_delivered;
	__s32 delivered;
	long interval_us;
	bool is_app_limited;
	long rtt_us;
	__u32 acked_sacked;
	__u32 prior_in_flight;
};

/* The cgroup that a socket belongs to, and those above it. */
struct kernfs_node {
	__u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock___cgroup {
	struct sock_cgroup_data sk_cgrp_data;
};

#pragma clang attribute pop

/* Matched member by member with the kernel's struct at load; missing members are zero. */
struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, int event);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*min_tso_segs)(struct sock *sk);
	char name[16];
};

#endif
