/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * TCP Nice (Venkataramani, Kokku, Dahlin 2002): Vegas, and a window halved when too many packets of
 * a round trip met a queue.
 *
 *	R > Rmin + threshold (Rmax - Rmin) for more than fraction of the round's packets: W / 2
 *
 * Scope and limitations:
 * - threshold 0.2 and fraction 0.5 are the paper's; implementations with 0.1 and 0.2 exist.
 * - The share of packets is known at the end of the round, and the window is halved there, once per
 *   round.
 * - The window falls to 1/48 (floor), where the stack sends one segment every 1/W round trips; it
 *   grows from there as Vegas does, by one segment for one acked.
 * - Rmin and Rmax are of the whole connection, as in the paper; a longer route shifts both late or
 *   never.
 */
#ifndef LEEWAY_NICE_H
#define LEEWAY_NICE_H

#include "leeway_vegas.h"

struct leeway_nice_params {
	struct leeway_window_config window;
	leeway_u32 alpha_permille; /* Vegas' parameters */
	leeway_u32 beta_permille;
	leeway_u32 gamma_permille;
	leeway_u32 sample;
	leeway_u32 threshold_permille; /* part of Rmax - Rmin */
	leeway_u32 fraction_permille;  /* part of a round's samples */
};

struct leeway_nice {
	struct leeway_vegas vegas;
	leeway_u32 max_us;  /* the largest round-trip time ever */
	leeway_u32 delayed; /* samples of the round above the threshold */
	leeway_u32 threshold_permille;
	leeway_u32 fraction_permille;
};

LEEWAY_INLINE void leeway_nice_init(struct leeway_nice *s, const struct leeway_nice_params *p,
				    const struct leeway_path *path)
{
	struct leeway_vegas_params vegas;

	vegas.window = p->window;
	vegas.alpha_permille = p->alpha_permille;
	vegas.beta_permille = p->beta_permille;
	vegas.gamma_permille = p->gamma_permille;
	vegas.sample = p->sample;
	leeway_vegas_init(&s->vegas, &vegas, path);
	s->max_us = 0;
	s->delayed = 0;
	s->threshold_permille = leeway_min_u32(p->threshold_permille, 1000);
	s->fraction_permille = leeway_min_u32(p->fraction_permille, 1000);
}

/*
 * Whether more than fraction of the round's samples were above the threshold; a loss has had its
 * reaction.
 */
LEEWAY_INLINE int leeway_nice_congested(const struct leeway_nice *s)
{
	return !s->vegas.recovered &&
	       (leeway_u64)s->delayed * 1000 > (leeway_u64)s->vegas.samples * s->fraction_permille;
}

LEEWAY_INLINE void leeway_nice_on_ack(struct leeway_nice *s, const struct leeway_ack *ack,
				      const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);
	leeway_u64 range_us;

	if (ack->round_start && leeway_nice_congested(s)) {
		leeway_back_off(&s->vegas.w, 500, mss, ack->now_us);
		s->vegas.w.out.phase = LEEWAY_YIELDING;
		leeway_vegas_new_round(&s->vegas);
		leeway_vegas_measure(&s->vegas, ack);
	} else {
		leeway_vegas_on_ack(&s->vegas, ack, path);
	}
	if (ack->round_start)
		s->delayed = 0;
	if (!ack->rtt_us)
		return;
	s->max_us = ack->rtt_us > s->max_us ? ack->rtt_us : s->max_us;
	range_us = s->max_us - s->vegas.base_us;
	if ((ack->rtt_us - s->vegas.base_us) * 1000ULL > range_us * s->threshold_permille)
		s->delayed++;
}

LEEWAY_INLINE void leeway_nice_on_loss(struct leeway_nice *s, const struct leeway_loss *loss,
				       const struct leeway_path *path)
{
	leeway_vegas_on_loss(&s->vegas, loss, path);
}

#endif
