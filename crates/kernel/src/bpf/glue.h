/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Structs of the kernel's programs and the loader: configuration, state of a socket, records. */
#ifndef LEEWAY_GLUE_H
#define LEEWAY_GLUE_H

#include "leeway_sender.h"

#define LEEWAY_PARAMS_MAX 64  /* words of a law's params struct */
#define LEEWAY_SPEC_MAX   512 /* bytes of a specification, with its final zero */
#define LEEWAY_STATE_MAX  512 /* bytes of a law's state */

/* Where one-way delays come from. */
enum leeway_timestamps {
	LEEWAY_TIMESTAMPS_KERNEL = 0, /* TCP timestamps: 1 us where the kernel says so, otherwise 1 ms */
	LEEWAY_TIMESTAMPS_OFF = 1,    /* nowhere: the law sees round-trip times */
};

/* Read-only data of one load, written by the loader. */
struct leeway_config {
	leeway_u64 loaded_unix_s;
	leeway_u32 timestamps; /* enum leeway_timestamps */
	leeway_u32 record;     /* 1: every event goes to the ring buffer */
	leeway_u32 params[LEEWAY_PARAMS_MAX];
	char spec[LEEWAY_SPEC_MAX];
};

/* The glue's state of a socket; in socket storage the law's state follows. */
struct leeway_glue {
	struct leeway_sender common;    /* shared with the simulator's sender; the kernel does the pacing */
	leeway_u64 undo_cwnd_q16;       /* window before the last loss */
	leeway_u64 undo_ssthresh_bytes; /* threshold before the last loss */
	leeway_u32 initial_window_bytes;
	leeway_u32 min_rtt_us;
	leeway_u32 una;             /* snd_una at the last acknowledgement */
	leeway_u32 round_delivered; /* tp->delivered when the round began */
	leeway_u32 events;          /* number of events of the law */
	leeway_u8 live;             /* the law is initialised */
	leeway_u8 recovering;       /* fast recovery, up to the acknowledgement that ends it */
	leeway_u8 congested;        /* this host's own queue dropped: to be reported as a mark */
	leeway_u8 undoable;         /* undo_* are those of a loss that was not undone */
	leeway_u32 paced;           /* sk_pacing_status was set here */
};

enum leeway_record_kind {
	LEEWAY_RECORD_INIT = 0,
	LEEWAY_RECORD_ACK = 1,
	LEEWAY_RECORD_LOSS = 2,
	LEEWAY_RECORD_UNDO = 3, /* window and threshold were set to those of the output in state */
};

/* One event, and the law's state after it. */
struct leeway_record {
	leeway_u64 socket; /* the socket's address, as an identifier only */
	leeway_u32 number; /* of the event in its socket, from 1 */
	leeway_u32 kind;   /* enum leeway_record_kind */
	struct leeway_path path;
	union {
		struct leeway_ack ack;
		struct leeway_loss loss;
	};
	leeway_u8 state[LEEWAY_STATE_MAX];
};

/* One socket as the iterator over a law's socket storage shows it. */
struct leeway_socket {
	struct leeway_output out;
	leeway_u8 local[16];
	leeway_u8 remote[16];
	leeway_u16 family; /* AF_INET: the first four bytes of the addresses */
	leeway_u16 local_port;
	leeway_u16 remote_port;
	leeway_u16 reserved;
	leeway_u32 netns; /* inode number of the network namespace */
	leeway_u32 mss_bytes;
	leeway_u32 srtt_us;
	leeway_u32 inflight;    /* packets */
	leeway_u64 acked_bytes; /* acknowledged since the connection began */
	leeway_u64 inode;       /* of the program's socket; 0: the program has closed it */
	leeway_u32 uid;         /* user id of the owner */
	leeway_u32 busy;        /* 1: the program has more to send than the law allows */
};

#endif
