/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The slowest line of a path as acks show it: the time of one segment on it, how much the path's
 * delay varies by itself, and what was delivered at most.
 *
 * Segments that left together come apart on the slowest line (packet pairs: Keshav 1991, A
 * control-theoretic approach to flow control): its time is the least gap. Cross traffic in a FIFO
 * never comes between two segments that arrive together, so it leaves their gap alone. Jitter does
 * not: three mean deviations of the gap are the path's own noise. Segments that left apart come
 * apart, by the time of one at least. Where their acks come at once something held them
 * (aggregation, a medium that is granted in turns). That is noise too where it holds three tenths of
 * a round trip's segments: as long as the first one waited for the last. Fewer are not taken for a
 * queue, and a machine that was busy once is no noise.
 *
 * Scope and limitations:
 * - Behind a fair queue a gap holds the segments of others, so it is a share of the line.
 * - Where noise hides the gap, the mean gap stands for the least one, and the largest delivery rate
 *   bounds it. Without delivery rates that is too long.
 * - A receiver is taken for one that delays its acks as in leeway_sender.h.
 * - A segment that is not full has no gap.
 */
#ifndef LEEWAY_LINE_H
#define LEEWAY_LINE_H

#include "leeway_math.h"

#define LEEWAY_LINE_BURST_US 30U       /* departures that are one burst */
#define LEEWAY_LINE_STACK_US 100U      /* the same, where they come eight times as far apart */
#define LEEWAY_LINE_PAUSE_US 1000000U  /* a longer gap is a pause */
#define LEEWAY_LINE_HELD_US  1000U     /* less is no noise */
#define LEEWAY_LINE_SLOW_US  8000U     /* time of a segment from which no noise hides it */
#define LEEWAY_LINE_NOISE_US 15000U    /* most noise: more would hide a home line's queue */
#define LEEWAY_LINE_AGE_US   20000000U /* half of the history of noise */

struct leeway_line {
	leeway_u64 sent_us;     /* of the last sample: when its segment left, */
	leeway_u64 acked_us;    /* and when its ack came */
	leeway_u64 mean_ns;     /* of the gap within a pair, per segment */
	leeway_u64 dev_ns;      /* its mean deviation */
	leeway_u64 since_us;    /* when the newer half of the history of noise began */
	leeway_u64 rate;        /* last delivery rate, bytes/s */
	leeway_u64 most;        /* largest one; follows by a quarter of the difference */
	leeway_u32 noise_us[2]; /* the most of the newer half, and of the older one */
	leeway_u32 least_us;    /* least gap per segment; 0: none yet */
	leeway_u32 run;         /* segments acknowledged since the first sample of this burst */
	leeway_u32 run_us;      /* in this time */
	leeway_u32 held_us;     /* of acks that came at once, the first waited longer than the last by this */
	leeway_u32 most_us;     /* the most of it in this round trip */
	leeway_u32 held;        /* segments of this round trip whose acks came at once */
	leeway_u32 came;        /* all segments of this round trip */
	leeway_u8 gaps;         /* seen, 16 at most */
	leeway_u8 delays_acks;  /* an ack waits for the second segment */
	leeway_u8 hazy;         /* the gap varies; left later than entered */
	leeway_u8 reserved[5];
};

/* Moves a mean by 1/n of what is new. */
LEEWAY_INLINE leeway_u64 leeway_toward(leeway_u64 mean, leeway_u64 value, leeway_u32 n)
{
	return value > mean ? mean + (value - mean) / n : mean - (mean - value) / n;
}

/* Whether noise hides the gap. */
LEEWAY_INLINE int leeway_line_hazy(const struct leeway_line *l)
{
	return l->gaps >= 3 && l->least_us < LEEWAY_LINE_SLOW_US && l->hazy;
}

/* A segment's time on the line; 0: not seen yet. */
LEEWAY_INLINE leeway_u32 leeway_line_segment_us(const struct leeway_line *l, leeway_u32 mss)
{
	leeway_u64 mean_us = l->mean_ns / 1000 + 1;

	if (!leeway_line_hazy(l))
		return l->least_us;
	return (leeway_u32)(l->most ? leeway_min_u64(mean_us, mss * 1000000ULL / l->most + 1) : mean_us);
}

/*
 * What of the path's own noise in the last 20 to 40 s the last sample may hold: the later it came
 * of those that were held together, the less.
 */
LEEWAY_INLINE leeway_u32 leeway_line_noise_us(const struct leeway_line *l)
{
	leeway_u32 noise_us = l->noise_us[0] > l->noise_us[1] ? l->noise_us[0] : l->noise_us[1];

	if (l->least_us >= LEEWAY_LINE_SLOW_US)
		return 0;
	return (leeway_u32)leeway_less(noise_us, l->held_us);
}

/*
 * Segments that have to leave together: two where acks wait for the second, twice as many to look
 * at the gap.
 */
LEEWAY_INLINE leeway_u32 leeway_line_quantum(const struct leeway_line *l, int look)
{
	look = leeway_line_hazy(l) || (look && l->gaps < 8 && l->least_us < LEEWAY_LINE_SLOW_US);
	return (l->delays_acks ? 2 : 1) << look;
}

/* What the delay varies by itself, the most of 20 to 40 s. */
LEEWAY_INLINE void leeway_line_noise(struct leeway_line *l, leeway_u64 now_us, leeway_u64 noise_us)
{
	if (now_us - l->since_us > LEEWAY_LINE_AGE_US) {
		l->noise_us[1] = l->noise_us[0];
		l->noise_us[0] = 0;
		l->since_us = now_us;
	}
	noise_us = leeway_min_u64(noise_us, LEEWAY_LINE_NOISE_US);
	if (noise_us > l->noise_us[0])
		l->noise_us[0] = (leeway_u32)noise_us;
}

/* The end of a round trip: what held the acks is noise where they would be taken for a queue. */
LEEWAY_INLINE void leeway_line_round(struct leeway_line *l, leeway_u64 now_us)
{
	if (l->most_us > LEEWAY_LINE_HELD_US && 10ULL * l->held >= 3ULL * l->came)
		leeway_line_noise(l, now_us, l->most_us);
	l->most_us = 0;
	l->held = 0;
	l->came = 0;
}

/* The gap between the first sample of a burst and the next one, a segment's part of it. */
LEEWAY_INLINE void leeway_line_gap(struct leeway_line *l, leeway_u64 now_us, leeway_u64 gap_ns)
{
	leeway_u64 dev_ns = gap_ns > l->mean_ns ? gap_ns - l->mean_ns : l->mean_ns - gap_ns;

	l->gaps = (leeway_u8)leeway_min_u32(l->gaps + 1U, 16);
	l->mean_ns = leeway_toward(l->mean_ns, gap_ns, l->gaps);
	l->dev_ns = leeway_toward(l->dev_ns, l->gaps > 1 ? dev_ns : 0, leeway_min_u32(l->gaps, 8));
	l->hazy = l->dev_ns > l->mean_ns / (l->hazy ? 16 : 8);
	leeway_line_noise(l, now_us, l->gaps >= 6 ? 3 * l->dev_ns / 1000 : 0);
}

/*
 * Whether segments left together: by the time between their departures, and between their acks. A
 * stack that has to send them one by one takes some time for each.
 */
LEEWAY_INLINE int leeway_line_together(leeway_u64 apart_us, leeway_u64 gap_us)
{
	return apart_us < LEEWAY_LINE_BURST_US || (apart_us < LEEWAY_LINE_STACK_US && 8 * apart_us < gap_us);
}

/*
 * Takes the round-trip sample of an ack, whose newest segment left at sent_us; a segment's time on
 * the line.
 */
LEEWAY_ALONE leeway_u32 leeway_line_sample(struct leeway_line *l LEEWAY_NONNULL,
					   const struct leeway_ack *ack LEEWAY_NONNULL, leeway_u64 sent_us,
					   leeway_u32 mss)
{
	leeway_u32 segments = (leeway_u32)leeway_max_u64(leeway_min_u64(ack->acked_bytes / mss, 1000), 1);
	leeway_u64 gap_us = ack->now_us - l->acked_us, apart_us = sent_us - l->sent_us;

	l->came += segments;
	/* No line delivers at once what left apart: something held the acks, or the segments. */
	if (gap_us < LEEWAY_LINE_BURST_US && apart_us < LEEWAY_LINE_PAUSE_US) {
		l->held += apart_us ? segments * (l->held_us ? 1 : 2) : 0;
		l->held_us += (leeway_u32)apart_us;
		l->most_us = l->held_us > l->most_us ? l->held_us : l->most_us;
	} else {
		l->held_us = 0;
	}
	if (l->acked_us && leeway_line_together(apart_us, gap_us) && gap_us < LEEWAY_LINE_PAUSE_US &&
	    ack->acked_bytes >= mss && l->run < 1000) {
		if (l->run <= l->delays_acks) /* later ones of a burst may wait for each other */
			leeway_line_gap(l, ack->now_us, gap_us * 1000 / segments);
		l->run += segments;
		l->run_us += (leeway_u32)gap_us;
		gap_us = l->run_us / l->run;
		if (gap_us && (!l->least_us || gap_us < l->least_us))
			l->least_us = (leeway_u32)gap_us;
	} else {
		l->run = 0;
		l->run_us = 0;
	}
	l->sent_us = sent_us;
	l->acked_us = ack->now_us;
	return leeway_line_segment_us(l, mss);
}

/* Takes the rest of an ack: its delivery rate, and whether it waited for a second segment. */
LEEWAY_INLINE void leeway_line_on_ack(struct leeway_line *l, const struct leeway_ack *ack, leeway_u32 mss)
{
	leeway_u64 bytes = leeway_less(ack->rate.delivered_bytes, ack->rate.prior_delivered_bytes);

	if (ack->round_start)
		leeway_line_round(l, ack->now_us);
	if (ack->rate.interval_us) {
		l->rate = leeway_min_u64(bytes, 1ULL << 40) * 1000000 / ack->rate.interval_us;
		if (bytes >= 16ULL * mss && !ack->recovering && l->rate > l->most)
			l->most += (l->rate - l->most) / 4 + 1;
	}
	if (!ack->recovering && ack->acked_bytes >= 2ULL * mss)
		l->delays_acks = 1;
}

#endif
