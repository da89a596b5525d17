/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How much of what is lost may be lost by chance (radio, not a queue): one segment in 20, and ten
 * in a burst. Every lost segment counts, also those of one recovery, whose begin is all that a loss
 * event tells.
 *
 * Scope and limitations:
 * - A stack that does not count what it loses (leeway_rate) has one segment lost with each event.
 */
#ifndef LEEWAY_CHANCE_H
#define LEEWAY_CHANCE_H

#include "leeway_math.h"

#define LEEWAY_CHANCE_ONE_IN 20  /* segments of which chance may take one */
#define LEEWAY_CHANCE_MOST   200 /* ten of them in a burst */

struct leeway_chance {
	leeway_u64 lost_bytes; /* of the connection, by the last ack */
	leeway_u32 used;       /* ONE_IN for each lost segment, one less with each acknowledged one */
	leeway_u32 reserved;
};

/* Whether what was lost may have been lost by chance. */
LEEWAY_INLINE int leeway_chance_may(const struct leeway_chance *c)
{
	return c->used < LEEWAY_CHANCE_MOST;
}

LEEWAY_INLINE void leeway_chance_use(struct leeway_chance *c, leeway_u64 segments)
{
	leeway_u64 used = c->used + leeway_min_u64(segments, LEEWAY_CHANCE_MOST) * LEEWAY_CHANCE_ONE_IN;

	c->used = (leeway_u32)leeway_min_u64(used, 2 * LEEWAY_CHANCE_MOST);
}

/* Takes what an ack says; whether more was lost since the last one than chance takes. */
LEEWAY_INLINE int leeway_chance_on_ack(struct leeway_chance *c, const struct leeway_ack *ack, leeway_u32 mss)
{
	leeway_u64 lost = leeway_less(ack->rate.lost_bytes, c->lost_bytes) / mss;

	c->lost_bytes = leeway_max_u64(c->lost_bytes, ack->rate.lost_bytes);
	c->used = (leeway_u32)leeway_less(c->used, ack->acked_bytes / mss);
	leeway_chance_use(c, lost);
	return lost && !leeway_chance_may(c);
}

LEEWAY_INLINE void leeway_chance_on_loss(struct leeway_chance *c)
{
	if (!c->lost_bytes)
		leeway_chance_use(c, 1);
}

#endif
