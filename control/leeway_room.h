/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How long a queue the bottleneck bears. The longest one that a flow met is direct evidence; it
 * fades by an eighth with each loss. It counts where half of the last losses came near it: this round
 * trip had a queue of a quarter of it, or the last round trip one of half of it. A loss by chance
 * comes at any time, and most of the time there is no queue.
 *
 * Scope and limitations:
 * - Losses of others are not seen.
 * - Two flows that make queues for each other lose by chance near them, too.
 */
#ifndef LEEWAY_ROOM_H
#define LEEWAY_ROOM_H

#include "leeway_line.h"

struct leeway_room {
	leeway_u32 peak_us; /* longest queue of this round trip, half of that of the one before, and so on */
	leeway_u32 room_us; /* longest queue ever; fades */
	leeway_u32 near;    /* part of the losses that came near it, 1024: all; 0: no loss yet */
	leeway_u32 is_short;
};

LEEWAY_INLINE void leeway_room_on_ack(struct leeway_room *r, const struct leeway_ack *ack)
{
	r->peak_us /= ack->round_start ? 2 : 1;
}

LEEWAY_INLINE void leeway_room_on_sample(struct leeway_room *r, leeway_u64 queue_us)
{
	r->peak_us = (leeway_u32)leeway_max_u64(r->peak_us, queue_us);
	r->room_us = (leeway_u32)leeway_max_u64(r->room_us, queue_us);
}

LEEWAY_INLINE void leeway_room_on_loss(struct leeway_room *r)
{
	r->room_us = (leeway_u32)leeway_max_u64(r->room_us - r->room_us / 8, r->peak_us);
	r->near = (leeway_u32)leeway_toward(r->near, 4ULL * r->peak_us >= r->room_us ? 1024 : 1,
					    r->near ? 4 : 1);
}

/*
 * The room is short where losses come before a queue of four times t_us. Then a quarter of it takes
 * the place of t_us, least_us or more. The path's noise is not to hide all of the room: it counts up
 * to half of it.
 */
LEEWAY_INLINE leeway_u64 leeway_room_threshold_us(struct leeway_room *r, leeway_u64 t_us, leeway_u64 least_us,
						  leeway_u64 noise_us)
{
	r->is_short = r->near > 512 && r->room_us / 4 < t_us;
	noise_us = leeway_min_u64(noise_us, r->room_us / 2);
	return r->is_short ? leeway_max_u64(r->room_us / 4, leeway_max_u64(least_us, noise_us)) : t_us;
}

#endif
