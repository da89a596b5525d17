/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * fLEDBAT: LEDBAT made fair by additive increase and multiplicative decrease (Carofiglio,
 * Muscariello, Rossi, Testa, Valenti 2013; the sub-packet study Komnios 2014).
 *
 *	q <= target: W += alpha / W
 *	q >  target: W += alpha / W - zeta (q - target) / target        (Carofiglio 2013, eq. 5), per segment acked
 *
 * The decrease is per segment and not per round trip: over a round trip it is proportional to the
 * window, which is what makes late-comers and elders converge.
 *
 * Scope and limitations:
 * - zeta is 0.1 unless set; the fluid model is stable for 0.005 to 0.5, Komnios uses 5.
 * - The window may fall below one segment (floor); the stack then sends one segment every 1/W round
 *   trips.
 * - Above the target the increase is left out while the law may not grow (recovery,
 *   application-limited).
 */
#ifndef LEEWAY_FLEDBAT_H
#define LEEWAY_FLEDBAT_H

#include "leeway_delay.h"
#include "leeway_window.h"

struct leeway_fledbat_params {
	struct leeway_window_config window;
	struct leeway_delay_config delay;
	leeway_u32 target_us;
	leeway_u32 alpha_ppm; /* segments per round trip */
	leeway_u32 zeta_ppm;
	leeway_u32 climb_permille; /* 0: off */
};

struct leeway_fledbat {
	struct leeway_window w;
	leeway_u64 zeta_q40; /* zeta / target */
	leeway_u32 target_us;
	leeway_u32 alpha_q16;
	leeway_u32 climb_permille;
	leeway_u32 reserved;
	struct leeway_delay delay;
};

LEEWAY_INLINE void leeway_fledbat_init(struct leeway_fledbat *s, const struct leeway_fledbat_params *p,
				       const struct leeway_path *path)
{
	leeway_window_init(&s->w, &p->window, path);
	leeway_delay_init(&s->delay, &p->delay);
	s->target_us = leeway_clamp_u32(p->target_us, LEEWAY_TARGET_MIN_US, LEEWAY_TARGET_MAX_US);
	s->zeta_q40 = leeway_gain_q40(p->zeta_ppm, s->target_us);
	s->alpha_q16 = leeway_ppm_q16(p->alpha_ppm);
	s->climb_permille = leeway_min_u32(p->climb_permille, 1000);
	s->reserved = 0;
}

LEEWAY_INLINE void leeway_fledbat_on_ack(struct leeway_fledbat *s, const struct leeway_ack *ack,
					 const struct leeway_path *path)
{
	leeway_u32 mss = leeway_mss(path);
	leeway_u64 acked_bytes = ack->acked_bytes;
	leeway_u64 step_q16;

	leeway_delay_on_ack(&s->delay, ack, path);
	s->w.out.queuing_delay_us = s->delay.queuing_us;
	if (leeway_marked(&s->w, ack, path)) {
		leeway_back_off(&s->w, 500, mss, ack->now_us);
		return;
	}
	if (leeway_climb(&s->w, ack, s->climb_permille, s->delay.queuing_us > s->target_us, mss))
		return;
	if (leeway_in_slow_start(&s->w)) {
		s->w.out.phase = LEEWAY_SLOW_START;
		if (leeway_slow_start_ends(&s->w, s->delay.queuing_us, s->target_us, mss) ||
		    !leeway_may_grow(ack))
			return;
		acked_bytes = leeway_slow_start(&s->w, acked_bytes, mss);
		if (!acked_bytes)
			return;
	}
	s->w.out.phase = LEEWAY_AVOIDANCE;
	if (leeway_may_grow(ack))
		leeway_increase(&s->w, acked_bytes, mss, s->alpha_q16);
	if (s->delay.queuing_us > s->target_us) {
		s->w.out.phase = LEEWAY_YIELDING;
		step_q16 = leeway_ratio_of_bytes_q16(s->delay.queuing_us - s->target_us, s->zeta_q40,
						     acked_bytes);
		leeway_yield(&s->w, step_q16, mss);
	}
}

LEEWAY_INLINE void leeway_fledbat_on_loss(struct leeway_fledbat *s, const struct leeway_loss *loss,
					  const struct leeway_path *path)
{
	leeway_climber_on_loss(&s->w, loss, s->climb_permille, 500, leeway_mss(path));
}

#endif
