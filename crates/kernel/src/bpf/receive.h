/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Structs of control from the receiver, for the kernel's programs and the loader: a budget and its
 * connections.
 */
#ifndef LEEWAY_RECEIVE_H
#define LEEWAY_RECEIVE_H

#include "account.h"
#include "leeway_ebb.h"
#include "leeway_ledbat.h"
#include "leeway_ledbatpp.h"

/*
 * The laws that can drive a window from the receiver: laws on delay whose window means bytes in
 * flight.
 */
union leeway_receive_law {
	struct leeway_output out;
	struct leeway_ebb ebb;
	struct leeway_ledbat ledbat;
	struct leeway_ledbatpp ledbatpp;
};

/*
 * The shared state of all connections of a cgroup. The measuring programs change it, one processor
 * at a time. The announcing programs read single words of it, and count themselves in by atomic
 * addition.
 */
struct leeway_budget {
	leeway_u32 busy;           /* a processor is at work here */
	leeway_u32 live;           /* the law is initialised */
	leeway_u64 window_bytes;   /* decision of the law, for all connections together */
	leeway_u64 modest_bytes;   /* what connections that do not fill their windows keep */
	leeway_u64 modest_coming;  /* the same, counted in this epoch */
	leeway_u64 received_bytes; /* since the beginning */
	leeway_u64 round_us;       /* when the round trip began */
	leeway_u64 epoch_us;       /* when the epoch began */
	leeway_u32 epoch;          /* its number, from 1 */
	leeway_u32 active;         /* connections that received something in the last epoch */
	leeway_u32 active_coming;  /* counted in this one */
	leeway_u32 hungry;         /* those of them that filled their windows */
	leeway_u32 hungry_coming;
	leeway_u32 srtt_us;
	leeway_u32 min_rtt_us;
	leeway_u32 mss_bytes;   /* of the last segment */
	leeway_u32 events;      /* that the law was told of */
	leeway_u32 connections; /* that ever began */
	leeway_u64 seen_us;     /* when the last packet came */
	leeway_u64 watched_us;  /* for how long a sender filled its window */
	leeway_u64 queue_us2;   /* queuing delay times time, of that */
	struct leeway_way way;  /* whether the law gives way */
	leeway_u64 lost_bytes;  /* in holes that were told to the law as losses */
	leeway_u64 round_bytes; /* received when the round trip began */
	leeway_u64 prior_us;    /* the same of the round trip before: its begin, */
	leeway_u64 prior_bytes; /* and what was received by then */
	union leeway_receive_law law;
};

enum leeway_probe_state {
	LEEWAY_PROBE_NONE = 0,
	LEEWAY_PROBE_SENT = 1, /* an acknowledgement went out */
	LEEWAY_PROBE_ANSWERED =
		2, /* data came that its arrival allowed; later data tells what the window did */
};

enum leeway_tick {
	LEEWAY_TICK_ASSUMED = 0, /* until two seconds were seen */
	LEEWAY_TICK_KNOWN = 1,
	LEEWAY_TICK_UNKNOWN = 2, /* no one-way delays from this peer */
};

/* State of a connection. */
struct leeway_connection {
	struct leeway_base down; /* one-way delays from the peer, with an unknown offset */
	struct leeway_base up;   /* round-trip time less those: the other way, with the opposite offset */
	leeway_u64 missed_bytes; /* received while another processor held the budget */
	leeway_u64 epoch_bytes;  /* received in this epoch */
	leeway_u64 first_us;     /* when the first timestamp came */
	leeway_u64 hole_us;      /* when the hole was seen */
	leeway_u64 paid_us;      /* when the share was last counted against what came */
	leeway_s64 owed_bytes;   /* received beyond a share below one segment */
	leeway_u64 probe_us;     /* when the probe went out */
	leeway_u32 first_ts;     /* the first timestamp */
	leeway_u32 tick_us;      /* of the peer's timestamps */
	leeway_u32 epoch;        /* the last one that it was counted in */
	leeway_u32 used_bytes;   /* received in a round trip of the epoch before */
	leeway_u32 high;         /* the highest sequence number seen, plus one */
	leeway_u32 hole;         /* where data is missing */
	leeway_u32 hole_bytes;   /* how much */
	leeway_u32 probe_ts;     /* the timestamp that the probe carried */
	leeway_u32 probe_edge;   /* the right edge that it announced */
	leeway_u32 probe_rtt_us;
	leeway_u32 window_bytes; /* decided last */
	leeway_u32 queuing_us;
	leeway_u32 rtt_us;
	leeway_u8 hungry;          /* the window was what limited the sender */
	leeway_u8 tick;            /* enum leeway_tick */
	leeway_u8 probe;           /* enum leeway_probe_state */
	leeway_u8 missing;         /* there is a hole */
	leeway_u8 overtaken;       /* segments that came after it; four: the law knows of the loss */
	leeway_u8 timestamps;      /* one-way delays come from timestamps */
	leeway_u8 below_one;       /* the share is less than a segment */
	leeway_u8 probe_below_one; /* it was when the probe went out */
	leeway_u16 segment_bytes;
	leeway_u16 place; /* among the connections, 0 to 1 in 16 bits */
	leeway_u16 reserved;
};

/* How the smallest delays are remembered: leeway_base_init(). */
struct leeway_base_config {
	leeway_u32 history;
	leeway_u32 interval_us;
	leeway_u32 skew;
};

/* One connection as the iterator shows it. */
struct leeway_received {
	leeway_u8 local[16];
	leeway_u8 remote[16];
	leeway_u16 family; /* AF_INET: the first four bytes of the addresses */
	leeway_u16 local_port;
	leeway_u16 remote_port;
	leeway_u16 segment_bytes;
	leeway_u32 netns;
	leeway_u32 window_bytes; /* what it may have in flight */
	leeway_u32
		announced_bytes; /* of it, what the sender was told and has not sent yet, as far as is known here */
	leeway_u32 queuing_us;
	leeway_u32 rtt_us;
	leeway_u8 hungry;
	leeway_u8 timestamps;
	leeway_u16 reserved;
	leeway_u64 received_bytes;
	leeway_u64 inode; /* of the program's socket; 0: the program has closed it */
	leeway_u32 uid;   /* whose it is */
	leeway_u32 reserved_too;
};

#endif
