/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The traffic of a cgroup, and the work of the law of its uploads. The kernel keeps these figures,
 * so that no process has to poll; docs/run.md says what they mean.
 */
#ifndef LEEWAY_ACCOUNT_H
#define LEEWAY_ACCOUNT_H

#include "glue.h"

#define LEEWAY_LOOK_US      5000    /* least time between two samples of a connection */
#define LEEWAY_LOOK_MOST_US 3000000 /* a longer gap means that the connection was idle */
#define LEEWAY_SECOND_US    1000000
/*
 * A share: seconds in a row at a steady part of the best rate, with an own queue that does not
 * drive the law away.
 */
#define LEEWAY_SHARE_S              10
#define LEEWAY_SHARE_MOST_PM        750 /* thousandths of the best rate: above it, no share */
#define LEEWAY_SHARE_LEAST_PM       100 /* below it, the law yields */
#define LEEWAY_SHARE_LEAST_QUEUE_US 500
/* In place of a target: the law stays beside its own queue alone, whatever its delay. */
#define LEEWAY_TARGET_ANY 0xffffffffU

/*
 * Whether a law gives way, judged by seconds: how much came through, beside the best second so far.
 * The window says less: slow start leaves it far above what the line carries, and a law that fills
 * the line for ever after would seem to give way.
 */
struct leeway_way {
	leeway_u64 second_us;  /* start of the present second */
	leeway_u64 bytes;      /* that came through until then */
	leeway_u64 watched_us; /* time with more to send than the law allowed, until then */
	leeway_u64 best_rate;  /* of all seconds, in bytes a second */
	leeway_u64 held_us;    /* part of watched_us in seconds with less than half of the best rate */
};

struct leeway_account {
	leeway_u64 sent_bytes;     /* of IP packets, headers included */
	leeway_u64 received_bytes; /* likewise */
	leeway_u64 acked_bytes;    /* of TCP under the law */
	leeway_u64 lost_packets;   /* of TCP under the law: retransmissions */
	leeway_u64 watched_us;     /* time with more to send than the law allowed */
	leeway_u64 queue_us2;      /* queuing delay times time, over watched_us */
	leeway_u64 last_us;        /* time of the last sample of a connection */
	struct leeway_way way;
	leeway_u64 second_queue_us2; /* at the start of the present second */
	leeway_u64 second_lost_packets;
	leeway_u64 before_rate;    /* of the second before */
	leeway_u64 early_bytes;    /* acknowledged in the first five seconds of the row */
	leeway_u64 late_rate;      /* of the latest seconds of the row, smoothed with weight 1/4 */
	leeway_u64 row_queue_us;   /* sum over the row of the mean queuing delay of each second */
	leeway_u64 row_lost;       /* retransmissions in the row */
	leeway_u32 row_s;          /* seconds in a row that may be a share */
	leeway_u32 share_s;        /* seconds of such rows, from the tenth of each on */
	leeway_u32 share_permille; /* what the last of them had of the best rate */
	leeway_u32 share_queue_us; /* its mean queuing delay */
};

/* State of a connection. */
struct leeway_watched {
	leeway_u64 looked_us;
	leeway_u64 acked_bytes;
	leeway_u32 retransmitted;
	leeway_u32 reserved;
};

/*
 * The end of a second of span_us, with what came through and was watched in all. Returns whether the
 * law was busy for the whole second; only such a second is compared with later ones.
 */
LEEWAY_INLINE int leeway_way_second(struct leeway_way *w, leeway_u64 span_us, leeway_u64 bytes,
				    leeway_u64 watched_us)
{
	leeway_u64 came = bytes - w->bytes, watched = watched_us - w->watched_us;

	w->bytes = bytes;
	w->watched_us = watched_us;
	if (came * 2 * LEEWAY_SECOND_US < w->best_rate * watched)
		w->held_us += watched;
	if (!span_us || span_us > 3 * LEEWAY_SECOND_US || watched * 8 < span_us * 7)
		return 0;
	w->best_rate = leeway_max_u64(w->best_rate, came * LEEWAY_SECOND_US / span_us);
	return 1;
}

/* The same for a single watcher, who calls it as often as it likes. */
LEEWAY_INLINE void leeway_way_look(struct leeway_way *w, leeway_u64 now_us, leeway_u64 bytes,
				   leeway_u64 watched_us)
{
	leeway_u64 span_us = now_us - w->second_us;

	if (span_us < LEEWAY_SECOND_US)
		return;
	w->second_us = now_us;
	leeway_way_second(w, span_us, bytes, watched_us);
}

/*
 * Whether the seconds of the row look like a share: steady, not still growing, and limited by a
 * queue of its own or by losses.
 */
LEEWAY_INLINE int leeway_is_share(const struct leeway_account *a, leeway_u32 target_us)
{
	leeway_u64 early = a->early_bytes / 5, queue_us = a->row_queue_us / (a->row_s ? a->row_s : 1);

	if (a->row_s < LEEWAY_SHARE_S || a->late_rate > early + early / 8)
		return 0;
	return queue_us >= LEEWAY_SHARE_LEAST_QUEUE_US &&
	       (queue_us >= target_us / 2 || target_us == LEEWAY_TARGET_ANY || a->row_lost);
}

/* The end of a second, on one processor only. */
LEEWAY_INLINE void leeway_account_second(struct leeway_account *a, leeway_u64 span_us, leeway_u32 target_us)
{
	leeway_u64 acked = a->acked_bytes - a->way.bytes, watched = a->watched_us - a->way.watched_us;
	leeway_u64 queue_us = watched ? (a->queue_us2 - a->second_queue_us2) / watched : 0;
	leeway_u64 lost = a->lost_packets - a->second_lost_packets;
	leeway_u64 rate = span_us ? acked * LEEWAY_SECOND_US / span_us : 0, before = a->before_rate, part;

	a->second_queue_us2 = a->queue_us2;
	a->second_lost_packets = a->lost_packets;
	/* A second without data to send says nothing about a share. */
	if (!leeway_way_second(&a->way, span_us, a->acked_bytes, a->watched_us)) {
		a->row_s = 0;
		return;
	}
	a->before_rate = rate;
	part = a->way.best_rate ? rate * 1000 / a->way.best_rate : 0;
	if (!target_us || part < LEEWAY_SHARE_LEAST_PM || part > LEEWAY_SHARE_MOST_PM ||
	    queue_us > target_us + (leeway_u64)target_us / 4 || rate > 2 * before || before > 2 * rate) {
		a->row_s = 0;
		return;
	}
	if (!a->row_s) {
		a->early_bytes = 0;
		a->late_rate = rate;
		a->row_queue_us = 0;
		a->row_lost = 0;
	}
	if (a->row_s < 5)
		a->early_bytes += rate;
	a->late_rate = (3 * a->late_rate + rate) / 4;
	a->row_queue_us += queue_us;
	a->row_lost += lost;
	a->row_s++;
	if (!leeway_is_share(a, target_us))
		return;
	a->share_s++;
	a->share_permille = a->way.best_rate ? (leeway_u32)(a->late_rate * 1000 / a->way.best_rate) : 0;
	a->share_queue_us = (leeway_u32)(a->row_queue_us / a->row_s);
}

#endif
