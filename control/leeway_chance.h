/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How much of what is lost may be lost by chance (radio, not a queue): one byte in 20, and ten
 * segments in a burst. All that is lost counts, also within a recovery, of which a loss event tells
 * only the begin.
 *
 * Scope and limitations:
 * - A stack that does not count what it loses (leeway_rate) has one segment lost with each event.
 */
#ifndef LEEWAY_CHANCE_H
#define LEEWAY_CHANCE_H

#include "leeway_math.h"

#define LEEWAY_CHANCE_ONE_IN 20     /* bytes of which chance may take one */
#define LEEWAY_CHANCE_MOST   200ULL /* segments: ten that are lost in a burst, each worth ONE_IN */

struct leeway_chance {
	leeway_u64 lost_bytes; /* of the connection, by the last ack */
	leeway_u64 used_bytes; /* ONE_IN for each lost byte, one less with each acknowledged one */
};

/* Whether what was lost may have been lost by chance. */
LEEWAY_INLINE int leeway_chance_may(const struct leeway_chance *c, leeway_u32 mss)
{
	return c->used_bytes < LEEWAY_CHANCE_MOST * mss;
}

LEEWAY_INLINE void leeway_chance_use(struct leeway_chance *c, leeway_u64 bytes, leeway_u32 mss)
{
	bytes = c->used_bytes + leeway_min_u64(bytes, LEEWAY_CHANCE_MOST * mss) * LEEWAY_CHANCE_ONE_IN;
	c->used_bytes = leeway_min_u64(bytes, 2 * LEEWAY_CHANCE_MOST * mss);
}

/* Takes what an ack says; whether more was lost since the last one than chance takes. */
LEEWAY_INLINE int leeway_chance_on_ack(struct leeway_chance *c, const struct leeway_ack *ack, leeway_u32 mss)
{
	leeway_u64 lost_bytes = leeway_less(ack->rate.lost_bytes, c->lost_bytes);

	c->lost_bytes += lost_bytes;
	c->used_bytes = leeway_less(c->used_bytes, ack->acked_bytes);
	leeway_chance_use(c, lost_bytes, mss);
	return lost_bytes && !leeway_chance_may(c, mss);
}

LEEWAY_INLINE void leeway_chance_on_loss(struct leeway_chance *c, leeway_u32 mss)
{
	if (!c->lost_bytes)
		leeway_chance_use(c, mss, mss);
}

#endif
