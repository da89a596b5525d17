/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * NewReno: slow start and congestion avoidance (RFC 5681), byte counting (RFC 3465).
 *
 * Scope and limitations:
 * - Retransmission and recovery (RFC 6582, RFC 6675) are the stack's; the law only hears of the
 *   loss, and the window is ssthresh at once, without the inflation by duplicate acks (RFC 5681,
 *   3.2 step 3).
 * - Slow start adds min(acked, L segments) with L = 2, the upper bound of RFC 3465; abc_limit=1 is
 *   RFC 5681. L stays the same after a timeout, where RFC 3465 asks for 1.
 * - ECN marks count as a loss (RFC 3168), without CWR's one-segment pacing.
 */
#ifndef LEEWAY_NEWRENO_H
#define LEEWAY_NEWRENO_H

#include "leeway_window.h"

struct leeway_newreno_params {
	struct leeway_window_config window;
	leeway_u32 beta_permille; /* window left after a loss */
};

struct leeway_newreno {
	struct leeway_window w;
	leeway_u32 beta_permille;
	leeway_u32 reserved;
};

LEEWAY_INLINE void leeway_newreno_init(struct leeway_newreno *s, const struct leeway_newreno_params *p,
				       const struct leeway_path *path)
{
	leeway_window_init(&s->w, &p->window, path);
	s->beta_permille = leeway_clamp_u32(p->beta_permille, 1, 999);
	s->reserved = 0;
}

LEEWAY_INLINE void leeway_newreno_on_ack(struct leeway_newreno *s, const struct leeway_ack *ack,
					 const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);

	if (leeway_marked(&s->w, ack, path))
		leeway_back_off(&s->w, s->beta_permille, mss, ack->now_us);
	else if (leeway_may_grow(ack))
		leeway_reno_grow(&s->w, ack->acked_bytes, mss);
}

LEEWAY_INLINE void leeway_newreno_on_loss(struct leeway_newreno *s, const struct leeway_loss *loss,
					  const struct leeway_path *path)
{
	leeway_reno_on_loss(&s->w, loss, s->beta_permille, leeway_mss(path));
}

#endif
