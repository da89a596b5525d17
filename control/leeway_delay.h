/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Queuing delay from delay samples: current delay - base delay (RFC 6817, 2.4.2).
 *
 * Samples are one-way delays with an unknown clock offset or round-trip times, modulo 2^32 us.
 * Everything is compared by difference, so neither the offset nor a wrap changes anything.
 *
 * Scope and limitations:
 * - Delays that differ by 2^31 us (35 minutes) or more cannot be told from negative ones.
 * - A base history of n buckets forgets after n - 1 to n intervals: a route that became longer
 *   looks congested until then, and a flow that never lets the queue empty takes its own queue for
 *   the base after it.
 * - An interval is measured from the first sample of a bucket; idle time does not age the history
 *   (RFC 6817 too).
 * - The late-comer whose first samples already contain a queue cannot know; laws that care slow
 *   down to look.
 * - Skew correction assumes that one-way delays grow linearly and by less than 500 ppm; it needs
 *   four buckets.
 */
#ifndef LEEWAY_DELAY_H
#define LEEWAY_DELAY_H

#include "leeway_math.h"

#define LEEWAY_BASE_MAX     16   /* buckets; a power of two, so that a mask bounds the index */
#define LEEWAY_CURRENT_MAX  8    /* samples; likewise */
#define LEEWAY_SKEW_DIVISOR 2000 /* 500 ppm: worse than any quartz */

enum leeway_filter {
	LEEWAY_FILTER_MIN = 0, /* RFC 6817's choice */
	LEEWAY_FILTER_MEAN = 1,
	LEEWAY_FILTER_EWMA = 2,   /* weight 1 / length */
	LEEWAY_FILTER_MEDIAN = 3, /* the lower one of an even number */
};

enum leeway_delay_source {
	LEEWAY_DELAY_OWD = 0, /* one-way delay; round-trip time until the first one-way sample */
	LEEWAY_DELAY_RTT = 1,
	LEEWAY_DELAY_QUEUE = 2, /* owd_us is the queuing delay: whoever calls has subtracted a base */
};

/* What the estimators need to know; sanitized by leeway_delay_init(). */
struct leeway_delay_config {
	leeway_u32 base_history;     /* buckets, 0: one minimum for ever */
	leeway_u32 base_interval_us; /* length of a bucket */
	leeway_u32 filter;           /* enum leeway_filter */
	leeway_u32 filter_length;    /* samples */
	leeway_u32 source;           /* enum leeway_delay_source */
	leeway_u32 skew;             /* 1: correct a drift of the clocks */
};

/* The base delay: minima of the last buckets, and the minimum of those. */
struct leeway_base {
	leeway_u64 start_us;    /* of the newest bucket */
	leeway_u32 min_us;      /* of all buckets, each advanced by the drift since */
	leeway_u32 interval_us; /* length of a bucket */
	leeway_u32 drift_us;    /* by which the minima grow in an interval; 0 without skew correction */
	leeway_u8 length;       /* buckets kept; 0: one for ever */
	leeway_u8 head;         /* the newest */
	leeway_u8 count;        /* in use */
	leeway_u8 skew;         /* 1: estimate the drift */
	leeway_u32 bucket_us[LEEWAY_BASE_MAX];
};

/* The current delay: a filter over the last samples that are at most one round trip old. */
struct leeway_current {
	leeway_u64 ewma_q8;   /* modulo 2^40 */
	leeway_u8 filter;     /* enum leeway_filter */
	leeway_u8 length;     /* samples looked at */
	leeway_u8 head;       /* the newest */
	leeway_u8 count;      /* in use */
	leeway_u32 newest_us; /* the last sample */
	leeway_u32 sample_us[LEEWAY_CURRENT_MAX];
	leeway_u32 taken_us[LEEWAY_CURRENT_MAX]; /* when, modulo 2^32 */
};

/*
 * Which samples count. One-way and round-trip samples have nothing in common, so the first one-way
 * sample makes a new start, and round-trip times are ignored from there on.
 */
struct leeway_source {
	leeway_u8 wanted;  /* enum leeway_delay_source */
	leeway_u8 one_way; /* one-way samples were seen */
	leeway_u16 reserved;
};

struct leeway_delay {
	leeway_u32 queuing_us; /* the estimate */
	struct leeway_source source;
	struct leeway_current current;
	struct leeway_base base;
};

LEEWAY_INLINE void leeway_base_restart(struct leeway_base *b)
{
	b->count = 0;
	b->head = 0;
	b->drift_us = 0;
}

LEEWAY_INLINE void leeway_base_init(struct leeway_base *b, leeway_u32 history, leeway_u32 interval_us,
				    leeway_u32 skew)
{
	b->start_us = 0;
	b->min_us = 0;
	b->interval_us = interval_us ? interval_us : 1;
	b->length = (leeway_u8)leeway_min_u32(history, LEEWAY_BASE_MAX);
	b->skew = skew != 0;
	leeway_base_restart(b);
}

/*
 * By how much the minima of the last complete buckets grew at least, if all of them grew like a
 * clock's drift.
 */
LEEWAY_INLINE leeway_u32 leeway_base_drift_us(const struct leeway_base *b)
{
	leeway_u32 most_us = b->interval_us / LEEWAY_SKEW_DIVISOR;
	leeway_u32 drift_us = most_us;
	leeway_u32 i, newer, older, growth_us;

	if (b->count < 4) /* the newest bucket is not complete */
		return 0;
	for (i = 1; i <= 3; i++) {
		if (i + 1 >= b->count)
			break;
		newer = (b->head + b->length - i) % b->length;
		older = (b->head + b->length - i - 1) % b->length;
		growth_us = b->bucket_us[newer & (LEEWAY_BASE_MAX - 1)] -
			    b->bucket_us[older & (LEEWAY_BASE_MAX - 1)];
		if (!growth_us || growth_us > most_us)
			return 0;
		drift_us = leeway_min_u32(drift_us, growth_us);
	}
	return drift_us;
}

LEEWAY_INLINE void leeway_base_rollover(struct leeway_base *b, leeway_u64 now_us, leeway_u32 sample_us)
{
	leeway_u32 i, index, value_us;

	b->head = b->head + 1 < b->length ? b->head + 1 : 0;
	b->count = b->count < b->length ? b->count + 1 : b->length;
	b->bucket_us[b->head & (LEEWAY_BASE_MAX - 1)] = sample_us;
	b->start_us = now_us;
	b->drift_us = b->skew ? leeway_base_drift_us(b) : 0;
	b->min_us = sample_us;
	for (i = 1; i < LEEWAY_BASE_MAX; i++) {
		if (i >= b->count)
			break;
		index = (b->head + b->length - i) % b->length;
		value_us = b->bucket_us[index & (LEEWAY_BASE_MAX - 1)] + i * b->drift_us;
		if (leeway_before_u32(value_us, b->min_us))
			b->min_us = value_us;
	}
}

LEEWAY_INLINE void leeway_base_update(struct leeway_base *b, leeway_u64 now_us, leeway_u32 sample_us)
{
	leeway_u32 *newest_us = &b->bucket_us[b->head & (LEEWAY_BASE_MAX - 1)];

	if (!b->count) {
		b->count = 1;
		b->start_us = now_us;
		b->min_us = sample_us;
		*newest_us = sample_us;
	} else if (b->length && now_us - b->start_us >= b->interval_us) {
		leeway_base_rollover(b, now_us, sample_us);
	} else if (leeway_before_u32(sample_us, *newest_us)) {
		*newest_us = sample_us;
		if (leeway_before_u32(sample_us, b->min_us))
			b->min_us = sample_us;
	}
}

/* The base delay now: the minimum, moved on by the drift since the newest bucket began. */
LEEWAY_INLINE leeway_u32 leeway_base_us(const struct leeway_base *b, leeway_u64 now_us)
{
	leeway_u64 elapsed_us;

	if (!b->drift_us)
		return b->min_us;
	elapsed_us = leeway_min_u64(now_us - b->start_us, b->interval_us);
	return b->min_us + (leeway_u32)(elapsed_us * b->drift_us / b->interval_us);
}

LEEWAY_INLINE void leeway_current_init(struct leeway_current *c, leeway_u32 filter, leeway_u32 length)
{
	c->ewma_q8 = 0;
	c->filter = (leeway_u8)leeway_min_u32(filter, LEEWAY_FILTER_MEDIAN);
	c->length = (leeway_u8)leeway_clamp_u32(length, 1, LEEWAY_CURRENT_MAX);
	c->head = 0;
	c->count = 0;
	c->newest_us = 0;
}

LEEWAY_INLINE int leeway_current_valid(const struct leeway_current *c, leeway_u32 i, leeway_u32 now_us,
				       leeway_u32 age_us)
{
	return i < c->count && (i == c->head || now_us - c->taken_us[i] <= age_us);
}

LEEWAY_INLINE leeway_u32 leeway_current_min(const struct leeway_current *c, leeway_u32 now_us,
					    leeway_u32 age_us)
{
	leeway_u32 i, least_us = c->newest_us;

	for (i = 0; i < LEEWAY_CURRENT_MAX; i++) {
		if (i >= c->count)
			break;
		if (now_us - c->taken_us[i] <= age_us && leeway_before_u32(c->sample_us[i], least_us))
			least_us = c->sample_us[i];
	}
	return least_us;
}

LEEWAY_INLINE leeway_u32 leeway_current_mean(const struct leeway_current *c, leeway_u32 now_us,
					     leeway_u32 age_us)
{
	leeway_s64 sum_us = 0;
	leeway_u32 i, n = 0;

	for (i = 0; i < LEEWAY_CURRENT_MAX; i++) {
		if (!leeway_current_valid(c, i, now_us, age_us))
			continue;
		sum_us += (leeway_s32)(c->sample_us[i] - c->newest_us);
		n++;
	}
	return c->newest_us + (leeway_u32)leeway_div_s64(sum_us, n);
}

/*
 * How many of the valid samples come before sample i in their order; of equal ones the older index
 * comes first.
 */
LEEWAY_ALONE leeway_u32 leeway_current_rank(const struct leeway_current *c LEEWAY_NONNULL, leeway_u32 i,
					    leeway_u32 now_us, leeway_u32 age_us)
{
	leeway_u32 own_us = c->sample_us[i & (LEEWAY_CURRENT_MAX - 1)];
	leeway_u32 j, lower = 0;

	for (j = 0; j < LEEWAY_CURRENT_MAX; j++) {
		if (!leeway_current_valid(c, j, now_us, age_us))
			continue;
		if (leeway_before_u32(c->sample_us[j], own_us) || (c->sample_us[j] == own_us && j < i))
			lower++;
	}
	return lower;
}

LEEWAY_INLINE leeway_u32 leeway_current_median(const struct leeway_current *c, leeway_u32 now_us,
					       leeway_u32 age_us)
{
	leeway_u32 i, n = 0;

	for (i = 0; i < LEEWAY_CURRENT_MAX; i++)
		n += leeway_current_valid(c, i, now_us, age_us) ? 1 : 0;
	for (i = 0; i < LEEWAY_CURRENT_MAX; i++) {
		if (!leeway_current_valid(c, i, now_us, age_us))
			continue;
		if (leeway_current_rank(c, i, now_us, age_us) == (n - 1) / 2)
			return c->sample_us[i];
	}
	return c->newest_us;
}

LEEWAY_INLINE leeway_u32 leeway_current_ewma(struct leeway_current *c, leeway_u32 sample_us)
{
	leeway_u64 mask = (1ULL << 40) - 1;
	leeway_u64 apart = (((leeway_u64)sample_us << 8) - c->ewma_q8) & mask;
	leeway_s64 error_q8 = apart >> 39 ? (leeway_s64)apart - (leeway_s64)(mask + 1) : (leeway_s64)apart;

	if (c->count <= 1)
		c->ewma_q8 = (leeway_u64)sample_us << 8;
	else
		c->ewma_q8 = (c->ewma_q8 + (leeway_u64)leeway_div_s64(error_q8, c->length)) & mask;
	return (leeway_u32)(c->ewma_q8 >> 8);
}

/* Take a sample and return the filtered delay. age_us: how old the others may be; 0: of any age. */
LEEWAY_INLINE leeway_u32 leeway_current_update(struct leeway_current *c, leeway_u64 now_us,
					       leeway_u32 sample_us, leeway_u32 age_us)
{
	leeway_u32 now = (leeway_u32)now_us;

	c->newest_us = sample_us;
	c->head = (leeway_u8)(c->count && c->head + 1 < c->length ? c->head + 1 : 0);
	c->count = (leeway_u8)(c->count < c->length ? c->count + 1 : c->length);
	c->sample_us[c->head & (LEEWAY_CURRENT_MAX - 1)] = sample_us;
	c->taken_us[c->head & (LEEWAY_CURRENT_MAX - 1)] = now;
	if (!age_us)
		age_us = ~0U;
	if (c->filter == LEEWAY_FILTER_MEAN)
		return leeway_current_mean(c, now, age_us);
	if (c->filter == LEEWAY_FILTER_EWMA)
		return leeway_current_ewma(c, sample_us);
	if (c->filter == LEEWAY_FILTER_MEDIAN)
		return leeway_current_median(c, now, age_us);
	return leeway_current_min(c, now, age_us);
}

enum leeway_sample {
	LEEWAY_SAMPLE_NONE = 0,
	LEEWAY_SAMPLE_NEXT = 1,
	LEEWAY_SAMPLE_FIRST = 2, /* forget what came before */
};

LEEWAY_INLINE void leeway_source_init(struct leeway_source *source, leeway_u32 wanted)
{
	if (wanted > LEEWAY_DELAY_QUEUE)
		wanted = LEEWAY_DELAY_OWD;
	source->wanted = (leeway_u8)wanted;
	source->one_way = 0;
	source->reserved = 0;
}

LEEWAY_INLINE enum leeway_sample leeway_source_look(struct leeway_source *source,
						    const struct leeway_ack *ack)
{
	if (source->wanted != LEEWAY_DELAY_RTT && ack->owd_resolution_us) {
		if (source->one_way)
			return LEEWAY_SAMPLE_NEXT;
		source->one_way = 1;
		return LEEWAY_SAMPLE_FIRST;
	}
	if (source->wanted == LEEWAY_DELAY_QUEUE)
		return LEEWAY_SAMPLE_NONE;
	return ack->rtt_us && !source->one_way ? LEEWAY_SAMPLE_NEXT : LEEWAY_SAMPLE_NONE;
}

LEEWAY_INLINE leeway_u32 leeway_source_us(const struct leeway_source *source, const struct leeway_ack *ack)
{
	return source->one_way ? ack->owd_us : ack->rtt_us;
}

LEEWAY_INLINE void leeway_delay_restart(struct leeway_delay *d)
{
	d->queuing_us = 0;
	d->current.count = 0;
	leeway_base_restart(&d->base);
}

LEEWAY_INLINE void leeway_delay_init(struct leeway_delay *d, const struct leeway_delay_config *config)
{
	leeway_source_init(&d->source, config->source);
	leeway_current_init(&d->current, config->filter, config->filter_length);
	leeway_base_init(&d->base, config->base_history, config->base_interval_us, config->skew);
	leeway_delay_restart(d);
}

/* Take a sample; age_us: how old the others in the filter may be, 0: of any age. */
LEEWAY_INLINE void leeway_delay_update(struct leeway_delay *d, leeway_u64 now_us, leeway_u32 sample_us,
				       leeway_u32 age_us)
{
	leeway_u32 current_us = leeway_current_update(&d->current, now_us, sample_us, age_us);
	leeway_u32 base_us;

	if (d->source.wanted == LEEWAY_DELAY_QUEUE) {
		d->queuing_us = current_us;
		return;
	}
	leeway_base_update(&d->base, now_us, sample_us);
	base_us = leeway_base_us(&d->base, now_us);
	d->queuing_us = leeway_before_u32(current_us, base_us) ? 0 : current_us - base_us;
}

/* Take the sample that an ack brought; 0 when it brought none. */
LEEWAY_INLINE int leeway_delay_on_ack(struct leeway_delay *d, const struct leeway_ack *ack,
				      const struct leeway_path *path)
{
	enum leeway_sample what = leeway_source_look(&d->source, ack);

	if (what == LEEWAY_SAMPLE_NONE)
		return 0;
	if (what == LEEWAY_SAMPLE_FIRST)
		leeway_delay_restart(d);
	leeway_delay_update(d, ack->now_us, leeway_source_us(&d->source, ack), path->srtt_us);
	return 1;
}

#define LEEWAY_PEAK_RIGHT 5 /* right neighbours that a peak must exceed (Trang 2014) */

/*
 * The largest queuing delay, from peaks and valleys that alternate in one value per round trip
 * (Trang 2014).
 */
struct leeway_peaks {
	leeway_u32 max_us;      /* the estimate */
	leeway_u32 smoothed_us; /* S: peaks smoothed, weight 1/8 */
	leeway_u32 value_us[8]; /* the last ones, in a ring */
	leeway_u8 head;         /* the newest */
	leeway_u8 count;
	leeway_u8 valley; /* a valley comes next */
	leeway_u8 reserved;
};

LEEWAY_INLINE void leeway_peaks_init(struct leeway_peaks *p)
{
	p->max_us = 0;
	p->smoothed_us = 0;
	p->head = 0;
	p->count = 0;
	p->valley = 0;
	p->reserved = 0;
}

LEEWAY_INLINE void leeway_peaks_update(struct leeway_peaks *p, leeway_u32 value_us)
{
	leeway_u32 most_us = 0, least_us = ~0U, i, candidate_us;

	p->head = (p->head + 1) & 7;
	p->value_us[p->head & 7] = value_us;
	if (value_us > p->max_us)
		p->max_us = value_us;
	if (p->count < LEEWAY_PEAK_RIGHT + 1)
		p->count++;
	if (p->count < LEEWAY_PEAK_RIGHT + 1)
		return;
	for (i = 0; i < LEEWAY_PEAK_RIGHT; i++) {
		most_us = p->value_us[(p->head - i) & 7] > most_us ? p->value_us[(p->head - i) & 7] : most_us;
		least_us = leeway_min_u32(least_us, p->value_us[(p->head - i) & 7]);
	}
	candidate_us = p->value_us[(p->head - LEEWAY_PEAK_RIGHT) & 7];
	if (p->valley) {
		p->valley = candidate_us >= least_us;
	} else if (candidate_us > most_us) {
		p->valley = 1;
		p->smoothed_us = (leeway_u32)((7ULL * p->smoothed_us + candidate_us) / 8);
		if (candidate_us > p->smoothed_us)
			p->max_us = candidate_us;
	}
}

/* The least target that follows from a buffer: the queue that CoDel lets stand (RFC 8289, 4.4). */
#define LEEWAY_BRIM_TARGET_MIN_US 5000U

/*
 * An adaptive target: a part of the queuing delay that the losses of the flow show, which is the
 * length of the buffer, or of what an AQM leaves of it. A law that aims for more than the buffer
 * holds yields to nobody: loss comes first.
 *
 * A longer delay counts at once, a shorter one by an eighth: a loss by chance shows any queue.
 */
struct leeway_brim {
	leeway_u32 delay_us;      /* the estimate */
	leeway_u32 part_permille; /* of it that is aimed for; 0: off */
	leeway_u32 known;         /* there was a loss, and it counts */
};

LEEWAY_INLINE void leeway_brim_init(struct leeway_brim *b, leeway_u32 part_permille)
{
	b->delay_us = 0;
	b->part_permille = leeway_min_u32(part_permille, 1000);
	b->known = 0;
}

/* A loss or a mark, with that queuing delay. */
LEEWAY_INLINE void leeway_brim_update(struct leeway_brim *b, leeway_u32 queuing_us)
{
	if (queuing_us < b->delay_us)
		queuing_us = (leeway_u32)((7ULL * b->delay_us + queuing_us) / 8);
	b->delay_us = queuing_us;
	b->known = b->part_permille != 0;
}

/* The target, from one that is the most. */
LEEWAY_INLINE leeway_u32 leeway_brim_target_us(const struct leeway_brim *b, leeway_u32 most_us)
{
	leeway_u32 part_us = (leeway_u32)((leeway_u64)b->delay_us * b->part_permille / 1000);

	if (!b->known)
		return most_us;
	return leeway_min_u32(most_us,
			      part_us > LEEWAY_BRIM_TARGET_MIN_US ? part_us : LEEWAY_BRIM_TARGET_MIN_US);
}

#endif
