/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The interface of every control law: what goes in, what comes out.
 *
 * A law is a state struct and three functions of the same shape,
 *
 *	void leeway_X_init(struct leeway_X *, const struct leeway_X_params *, const struct leeway_path *);
 *	void leeway_X_on_ack(struct leeway_X *, const struct leeway_ack *, const struct leeway_path *);
 *	void leeway_X_on_loss(struct leeway_X *, const struct leeway_loss *, const struct leeway_path *);
 *
 * and its state begins with a struct leeway_output, which is all that a stack has to read. Nothing
 * here reads a clock or allocates; the same text is compiled for user space and for BPF.
 */
#ifndef LEEWAY_H
#define LEEWAY_H

/* Of these headers, and the program that they come with. */
#define LEEWAY_VERSION        "0.1.0"
#define LEEWAY_VERSION_NUMBER 100 /* 10000 major + 100 minor + patch, to compare */

/* The compiler's own names: stdint.h clashes with a kernel's vmlinux.h. */
typedef __UINT8_TYPE__ leeway_u8;
typedef __UINT16_TYPE__ leeway_u16;
typedef __UINT32_TYPE__ leeway_u32;
typedef __UINT64_TYPE__ leeway_u64;
typedef __INT32_TYPE__ leeway_s32;
typedef __INT64_TYPE__ leeway_s64;

#define LEEWAY_INLINE static inline __attribute__((always_inline, unused))
/*
 * A function whose loop multiplies the paths of its caller, so that a kernel's verifier should judge
 * it by itself: whoever loads the laws into one gives it a storage class that keeps it apart.
 */
#ifndef LEEWAY_ALONE
#define LEEWAY_ALONE LEEWAY_INLINE
#endif
/* A pointer argument of such a function, which is never NULL; a verifier has to be told. */
#ifndef LEEWAY_NONNULL
#define LEEWAY_NONNULL
#endif

/* "No limit" for a window or threshold in bytes. */
#define LEEWAY_UNLIMITED (~0ULL)

enum leeway_phase {
	LEEWAY_SLOW_START = 0,
	LEEWAY_AVOIDANCE = 1, /* congestion avoidance, or the law's own steady state */
	LEEWAY_YIELDING = 2,  /* decreasing because the delay is above the target */
	LEEWAY_INFERENCE = 3, /* holding still to see whether others are there (TCP-LP) */
	LEEWAY_SLOWDOWN = 4,  /* periodic slowdown to see the base delay (LEDBAT++) */
	LEEWAY_LOSS_ZONE = 5, /* the queue fell sharply: somebody else lost packets (FLOWER) */
};

/* What the path looks like now. */
struct leeway_path {
	leeway_u64 inflight_bytes;       /* sent, neither acknowledged nor known lost, after the event */
	leeway_u32 mss_bytes;            /* one full segment as counted in the window */
	leeway_u32 initial_window_bytes; /* the stack's initial window (RFC 6928: ten segments) */
	leeway_u32 srtt_us;              /* RFC 6298; 0: no sample yet */
	leeway_u32 min_rtt_us;           /* of the connection; 0: no sample yet */
};

/*
 * What the round-trip time of the newest segment that an ack acknowledges says. rtt_us is the
 * stack's own sample: that of the first segment covered where timestamps are echoed (RFC 7323,
 * 4.3), which holds the receiver's wait for the second.
 */
enum leeway_last {
	LEEWAY_LAST_NONE = 0,  /* no sample: nothing new, or the segment was sent twice (Karn) */
	LEEWAY_LAST_EXACT = 1, /* the ack left when the segment arrived */
	LEEWAY_LAST_BOUND = 2, /* it may have waited for the receiver's timer: an upper bound */
};

/*
 * One delivery-rate sample (draft-cheng-iccrg-delivery-rate-estimation, 3.3; the last two:
 * draft-ietf-ccwg-bbr, 4.1).
 */
struct leeway_rate {
	leeway_u64 delivered_bytes; /* C.delivered: of the connection, this ack included */
	leeway_u64
		prior_delivered_bytes; /* RS.prior_delivered: the same when the newest acked segment left */
	leeway_u64 lost_bytes;         /* C.lost: of the connection */
	leeway_u64 prior_lost_bytes;   /* the same when the newest acked segment left */
	leeway_u64 inflight_bytes;     /* in flight right after that segment left, it included; 0: unknown */
	leeway_u32 interval_us; /* in which delivered_bytes - prior_delivered_bytes came; 0: no sample */
	leeway_u32 app_limited; /* 1: the application was what limited sending then */
};

/* What one acknowledgement said. */
struct leeway_ack {
	leeway_u64 now_us;               /* any clock that does not go back */
	leeway_u64 acked_bytes;          /* newly acknowledged, cumulatively or selectively */
	leeway_u64 prior_inflight_bytes; /* in flight before it arrived */
	leeway_u64 ce_bytes;             /* newly reported as marked congestion-experienced */
	leeway_u32 rtt_us;               /* sample; 0: none */
	leeway_u32 owd_us; /* relative one-way delay modulo 2^32: receiver clock - sender timestamp */
	leeway_u32 owd_resolution_us; /* of that sample's clocks; 0: no one-way sample with this ack */
	leeway_u8 app_limited;        /* 1: the window was not what limited sending */
	leeway_u8 round_start;        /* 1: the first ack of a round trip */
	leeway_u8 recovering;         /* 1: loss recovery is under way: measure, may shrink, must not grow */
	leeway_u8 last_kind;          /* enum leeway_last: what last_rtt_us says */
	leeway_u32 last_rtt_us; /* of the newest segment newly acknowledged, by the sender's own clock */
	leeway_u32 reserved;
	struct leeway_rate rate; /* for laws whose row of leeway_laws.h asks for it; otherwise no sample */
};

enum leeway_loss_kind {
	LEEWAY_LOSS_DUPACK = 0,  /* fast retransmit: duplicate or selective acknowledgements */
	LEEWAY_LOSS_TIMEOUT = 1, /* the retransmission timer expired */
};

/* What one loss event said. */
struct leeway_loss {
	leeway_u64 now_us;
	leeway_u64 lost_bytes;
	leeway_u64 sent_us;  /* when the first of the lost bytes was last sent */
	leeway_u32 kind;     /* enum leeway_loss_kind */
	leeway_u32 timeouts; /* in a row, this one included; 0 for a duplicate-ACK loss */
};

/* The common prefix of every law's state: the law's decision. */
struct leeway_output {
	leeway_u64 cwnd_q16;           /* window in bytes, 16 fractional bits; may be below one segment */
	leeway_u64 ssthresh_bytes;     /* slow-start threshold; LEEWAY_UNLIMITED: not set */
	leeway_u64 pacing_bytes_per_s; /* 0: the law does not ask for pacing */
	leeway_u32 queuing_delay_us;   /* the law's estimate; 0 where it has none */
	leeway_u32 phase;              /* enum leeway_phase */
	leeway_u64 probe_us; /* a quantum leaves by then, whatever the pacing; 0: the pacing alone decides */
	leeway_u32 quantum;  /* segments that leave together where the law paces; 0: one */
	leeway_u32 reserved;
};

#endif
