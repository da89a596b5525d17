/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Structs of the programs of a cgroup and their loader. */
#ifndef LEEWAY_SEND_H
#define LEEWAY_SEND_H

#define LEEWAY_CA_NAME_MAX 16 /* TCP_CA_NAME_MAX of the kernel */
#define LEEWAY_WHAT_MAX    64 /* bytes of the name of a command, with its final zero */

/* Read-only data of one attachment, written by the loader. */
struct leeway_send {
	__u64 cgroup; /* the kernel's number of the cgroup */
	__u64 started_unix_s;
	__u32 level;      /* depth of the cgroup; the root has 0 */
	__u32 owner;      /* user id that asked for it */
	__u32 persistent; /* 1: until it is detached, 0: as long as a command runs in the cgroup */
	__u32 mark;       /* 1: packets carry `tos` */
	__u32 tos;        /* the DSCP in the upper six bits, zeros in the two of ECN */
	__u32 target_us;  /* queuing delay that the law aims at, or LEEWAY_TARGET_ANY; 0: it aims at none */
	char law[LEEWAY_CA_NAME_MAX]; /* the kernel's name of the law */
	char what[LEEWAY_WHAT_MAX];   /* the command, for people */
};

#endif
