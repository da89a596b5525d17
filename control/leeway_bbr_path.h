/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * BBR's model of the path (draft-ietf-ccwg-bbr-06, 5.5): the largest delivery rate, the smallest
 * round-trip time, what is acknowledged at once, and what losses say of rate and flight. Sections and
 * names in comments are the draft's.
 *
 * Scope and limitations:
 * - The draft judges every lost segment by its own record; an ack says what was lost since its newest
 *   segment left, and what was in flight then. Where it does not (Linux), both are those since the
 *   start of the round trip.
 * - Of losses, the acks that found some are counted for the end of Startup (5.3.1.3), not their ranges.
 * - extra_acked (5.5.9) is the maximum of two slots of five round trips.
 * - That a connection restarts from idle (5.4.1) shows with the first ack.
 */
#ifndef LEEWAY_BBR_PATH_H
#define LEEWAY_BBR_PATH_H

#include "leeway_rate.h"
#include "leeway_window.h"

#define LEEWAY_BBR_STARTUP_GAIN 2770U /* 5.6.1, thousandths */
#define LEEWAY_BBR_MARK_GAIN    850U
#define LEEWAY_BBR_MARGIN       990U             /* 5.6.2: PacingMarginPercent */
#define LEEWAY_BBR_LOSSES       6U               /* 5.3.1.3: StartupFullLossCnt */
#define LEEWAY_BBR_MIN_RTT_US   10000000U        /* 5.5.7.2: MinRTTFilterLen */
#define LEEWAY_BBR_PROBE_RTT_US 200000U          /* 5.3.4.1: ProbeRTTDuration */
#define LEEWAY_BBR_WAIT_US      2000000U         /* 5.3.3.8: T_bbr, and up to 1 s more */
#define LEEWAY_BBR_RENO_ROUNDS  63U              /* 5.3.3.8: T_reno_bound */
#define LEEWAY_BBR_SLOT_ROUNDS  5U               /* 5.5.9: two slots are ExtraAckedFilterLen */
#define LEEWAY_BBR_RATE_MAX     (1ULL << 38)     /* bytes/s */
#define LEEWAY_BBR_TIME_MAX_US  ((1U << 25) - 1) /* so that rate x time fits */

enum leeway_bbr_state {
	LEEWAY_BBR_STARTUP = 0,
	LEEWAY_BBR_DRAIN = 1,
	LEEWAY_BBR_DOWN = 2,
	LEEWAY_BBR_CRUISE = 3,
	LEEWAY_BBR_REFILL = 4,
	LEEWAY_BBR_UP = 5,
	LEEWAY_BBR_PROBE_RTT = 6,
};

/* Of which part of a probe the acks are (2.14, BBR.ack_phase). */
enum leeway_bbr_acks {
	LEEWAY_BBR_ACKS_INIT = 0,
	LEEWAY_BBR_ACKS_REFILLING = 1,
	LEEWAY_BBR_ACKS_STARTING = 2,
	LEEWAY_BBR_ACKS_FEEDBACK = 3,
	LEEWAY_BBR_ACKS_STOPPING = 4,
};

struct leeway_bbr_params {
	struct leeway_window_config window; /* its floor is MinPipeCwnd */
	leeway_u32 loss_permille;           /* LossThresh */
	leeway_u32 beta_permille;
	leeway_u32 headroom_permille;
	leeway_u32 interval_us; /* ProbeRTTInterval */
};

struct leeway_bbr {
	struct leeway_window w;
	leeway_u64 bw;              /* bytes/s, as all rates */
	leeway_u64 max_bw[2];       /* of this cycle, and of the last one */
	leeway_u64 bw_latest;       /* of this loss round */
	leeway_u64 bw_shortterm;    /* LEEWAY_UNLIMITED: none, as below */
	leeway_u64 full_bw;         /* what the rate has to exceed by a quarter */
	leeway_u64 inflight_latest; /* bytes, as all that is in flight */
	leeway_u64 inflight_shortterm;
	leeway_u64 inflight_longterm;
	leeway_u64 extra[2];          /* extra_acked of this slot and of the last one, */
	leeway_u64 extra_bytes;       /* what was acked since */
	leeway_u64 extra_us;          /* this time */
	leeway_u64 rate;              /* RS: this ack's sample, */
	leeway_u64 sampled;           /* RS.delivered */
	leeway_u64 lost;              /* RS.lost */
	leeway_u64 flight;            /* RS.tx_in_flight */
	leeway_u64 delivered;         /* C.delivered */
	leeway_u64 round_end;         /* next_round_delivered */
	leeway_u64 loss_round_end;    /* loss_round_delivered */
	leeway_u64 limited_until;     /* what was delivered before is application-limited (5.3.4.3) */
	leeway_u64 all_lost;          /* C.lost, */
	leeway_u64 round_lost;        /* the same at the start of this round trip, */
	leeway_u64 round_flight;      /* and what was in flight then */
	leeway_u64 prior_q16;         /* prior_cwnd; 0: nothing to restore */
	leeway_u64 up_acked;          /* bw_probe_up_acked */
	leeway_u64 up_per_inc;        /* probe_up_acked_per_inc */
	leeway_u64 cycle_us;          /* cycle_stamp */
	leeway_u64 min_rtt_at_us;     /* min_rtt_stamp */
	leeway_u64 probe_rtt_at_us;   /* probe_rtt_min_stamp */
	leeway_u64 probe_rtt_done_us; /* 0: not down yet */
	leeway_u64 acked_us;          /* the last ack */
	leeway_u32 min_rtt_us;        /* 0: none yet */
	leeway_u32 probe_rtt_min_us;  /* probe_rtt_min_delay */
	leeway_u32 wait_us;           /* bw_probe_wait */
	leeway_u32 chance;
	leeway_u32 rounds;       /* round_count */
	leeway_u32 since_rounds; /* of Drain, of a slot of extra_acked */
	leeway_u32 since_up;     /* rounds_since_probe_up */
	leeway_u32 interval_us;  /* ProbeRTTInterval */
	leeway_u16 loss_permille, beta_permille, headroom_permille;
	leeway_u8 state, acks; /* enum leeway_bbr_state, enum leeway_bbr_acks */
	leeway_u8 full_rounds; /* full_bw_count */
	leeway_u8 full_now, full_reached;
	leeway_u8 up_rounds;  /* bw_probe_up_rounds */
	leeway_u8 losses;     /* acks of this loss round that found losses */
	leeway_u8 recovering; /* round trips in recovery */
	leeway_u8 round_start, loss_round_start, loss_in_round;
	leeway_u8 limited;            /* RS.is_app_limited */
	leeway_u8 probe_sample;       /* is_bw_probe_sample */
	leeway_u8 too_high;           /* prev_probe_too_high */
	leeway_u8 precautionary;      /* prev_probe_precautionary */
	leeway_u8 rtt_round, rtt_due; /* probe_rtt_round_done, probe_rtt_expired */
	leeway_u8 idle;               /* idle_restart */
};

/* 5.2.1 */
LEEWAY_INLINE void leeway_bbr_init(struct leeway_bbr *s, const struct leeway_bbr_params *p,
				   const struct leeway_path *path)
{
	__builtin_memset(s, 0, sizeof(*s));
	leeway_window_init(&s->w, &p->window, path);
	s->w.out.ssthresh_bytes = LEEWAY_UNLIMITED;
	s->w.out.phase = LEEWAY_SLOW_START;
	s->loss_permille = (leeway_u16)leeway_clamp_u32(p->loss_permille, 1, 500);
	s->beta_permille = (leeway_u16)leeway_clamp_u32(p->beta_permille, 1, 999);
	s->headroom_permille = (leeway_u16)leeway_min_u32(p->headroom_permille, 900);
	s->interval_us = leeway_clamp_u32(p->interval_us, 100000, 3600000000U);
	s->bw_shortterm = LEEWAY_UNLIMITED;
	s->inflight_shortterm = LEEWAY_UNLIMITED;
	s->inflight_longterm = LEEWAY_UNLIMITED;
	s->up_per_inc = LEEWAY_UNLIMITED;
	if (!s->w.slow_start) {
		s->full_reached = 1;
		s->state = LEEWAY_BBR_CRUISE;
	}
}

LEEWAY_INLINE leeway_u64 leeway_bbr_cwnd(const struct leeway_bbr *s)
{
	return s->w.out.cwnd_q16 >> 16;
}

LEEWAY_INLINE leeway_u64 leeway_bbr_floor(const struct leeway_bbr *s, const struct leeway_path *path)
{
	return leeway_floor_q16(&s->w, leeway_mss(path)) >> 16;
}

LEEWAY_INLINE leeway_u64 leeway_bbr_part(leeway_u64 x, leeway_u32 permille)
{
	return leeway_min_u64(x, 1ULL << 50) * permille / 1000;
}

/* BDPMultiple(), 5.6.4.2 */
LEEWAY_INLINE leeway_u64 leeway_bbr_bdp(const struct leeway_bbr *s, leeway_u32 gain_permille)
{
	leeway_u64 bdp = s->bw * leeway_min_u32(s->min_rtt_us, LEEWAY_BBR_TIME_MAX_US) / 1000000;

	return leeway_bbr_part(leeway_min_u64(bdp, LEEWAY_WINDOW_MAX_BYTES), gain_permille);
}

/* Inflight(1.0), 5.6.4.2 */
LEEWAY_INLINE leeway_u64 leeway_bbr_inflight(const struct leeway_bbr *s, const struct leeway_path *path)
{
	return leeway_max_u64(leeway_bbr_bdp(s, 1000), leeway_bbr_floor(s, path));
}

/* TargetInflight(), 5.3.3.8; MinPipeCwnd at least, so that a path below a segment is not probed all the time. */
LEEWAY_INLINE leeway_u64 leeway_bbr_target(const struct leeway_bbr *s, const struct leeway_path *path)
{
	return leeway_min_u64(leeway_bbr_inflight(s, path), leeway_bbr_cwnd(s));
}

/* InflightWithHeadroom(), 5.3.3.9 */
LEEWAY_INLINE leeway_u64 leeway_bbr_headroom(const struct leeway_bbr *s, const struct leeway_path *path)
{
	leeway_u64 room;

	if (s->inflight_longterm == LEEWAY_UNLIMITED)
		return LEEWAY_UNLIMITED;
	room = leeway_max_u64(leeway_bbr_part(s->inflight_longterm, s->headroom_permille), leeway_mss(path));
	return leeway_max_u64(leeway_less(s->inflight_longterm, room), leeway_bbr_floor(s, path));
}

LEEWAY_INLINE int leeway_bbr_in_probe_bw(const struct leeway_bbr *s)
{
	return s->state >= LEEWAY_BBR_DOWN && s->state <= LEEWAY_BBR_UP;
}

/* IsInflightTooHigh(), 5.5.10.2 */
LEEWAY_INLINE int leeway_bbr_too_high(const struct leeway_bbr *s)
{
	return s->lost > leeway_bbr_part(s->flight, s->loss_permille);
}

/* C.is_cwnd_limited */
LEEWAY_INLINE int leeway_bbr_limited(const struct leeway_bbr *s, const struct leeway_ack *ack,
				     const struct leeway_path *path)
{
	return ack->prior_inflight_bytes >= leeway_less(leeway_bbr_cwnd(s), leeway_mss(path));
}

/* The sample of an ack (4.1.2.1.3), the round trips (5.5.1), and what it found lost (5.5.10.2). */
LEEWAY_ALONE leeway_u32 leeway_bbr_sample(struct leeway_bbr *s LEEWAY_NONNULL,
					  const struct leeway_ack *ack LEEWAY_NONNULL)
{
	const struct leeway_rate *r = &ack->rate;
	int found = r->lost_bytes > s->all_lost, tells = r->inflight_bytes != 0;
	leeway_u64 lost = r->lost_bytes - (tells ? r->prior_lost_bytes : s->round_lost);

	s->rate = leeway_min_u64(leeway_rate_bytes_per_s(r), LEEWAY_BBR_RATE_MAX);
	s->sampled = leeway_less(r->delivered_bytes, r->prior_delivered_bytes);
	s->sampled = leeway_min_u64(s->sampled, LEEWAY_WINDOW_MAX_BYTES);
	s->limited = r->app_limited || r->prior_delivered_bytes < s->limited_until;
	s->lost = leeway_min_u64(lost, LEEWAY_WINDOW_MAX_BYTES);
	s->flight = leeway_min_u64(tells ? r->inflight_bytes : s->round_flight, LEEWAY_WINDOW_MAX_BYTES);
	s->delivered = r->delivered_bytes;
	s->round_start = r->delivered_bytes && r->prior_delivered_bytes >= s->round_end;
	s->loss_round_start = r->delivered_bytes && r->prior_delivered_bytes >= s->loss_round_end;
	if (s->round_start) {
		s->round_end = r->delivered_bytes;
		s->rounds++;
		s->since_up++;
		s->round_lost = s->all_lost;
		s->round_flight = ack->prior_inflight_bytes;
		s->recovering = (leeway_u8)(ack->recovering ? leeway_min_u32(s->recovering + 1U, 2) : 0);
	}
	if (s->loss_round_start)
		s->loss_round_end = r->delivered_bytes;
	s->bw_latest = leeway_max_u64(s->bw_latest, s->rate);
	s->inflight_latest = leeway_max_u64(s->inflight_latest, s->sampled);
	s->all_lost = r->lost_bytes;
	if (!found)
		return 0;
	s->losses = (leeway_u8)leeway_min_u32(s->losses + 1U, LEEWAY_BBR_LOSSES);
	if (!s->loss_in_round)
		s->loss_round_end = r->delivered_bytes;
	s->loss_in_round = 1;
	return s->losses;
}

/* UpdateCongestionSignals(), 5.5.10.3; the loss rate that ends Startup, 5.3.1.3. */
LEEWAY_ALONE leeway_u32 leeway_bbr_congestion(struct leeway_bbr *s LEEWAY_NONNULL)
{
	leeway_u64 max_bw = leeway_max_u64(s->max_bw[0], s->max_bw[1]), part;

	if (s->rate && (s->rate >= max_bw || !s->limited)) { /* 5.5.5 */
		s->max_bw[0] = leeway_max_u64(s->max_bw[0], s->rate);
		max_bw = leeway_max_u64(max_bw, s->rate);
	}
	if (s->loss_round_start && s->loss_in_round) {
		if (s->state == LEEWAY_BBR_STARTUP && s->recovering > 1 && s->losses >= LEEWAY_BBR_LOSSES &&
		    leeway_bbr_too_high(s)) {
			s->full_reached = 1;
			s->inflight_longterm = leeway_max_u64(leeway_bbr_bdp(s, 1000), s->inflight_latest);
		}
		if (s->state != LEEWAY_BBR_STARTUP && s->state != LEEWAY_BBR_REFILL &&
		    s->state != LEEWAY_BBR_UP) {
			part = leeway_bbr_part(leeway_min_u64(s->bw_shortterm, max_bw), s->beta_permille);
			s->bw_shortterm = leeway_max_u64(s->bw_latest, part);
			part = leeway_min_u64(s->inflight_shortterm, leeway_bbr_cwnd(s));
			part = leeway_bbr_part(part, s->beta_permille);
			s->inflight_shortterm = leeway_max_u64(s->inflight_latest, part);
		}
	}
	if (s->loss_round_start) {
		s->loss_in_round = 0;
		s->losses = 0;
	}
	s->bw = leeway_min_u64(max_bw, s->bw_shortterm); /* BoundBWForModel() */
	return s->losses;
}

/* UpdateACKAggregation(), 5.5.9: a maximum over one round trip in Startup, over two slots of five after it. */
LEEWAY_ALONE leeway_u32 leeway_bbr_aggregation(struct leeway_bbr *s LEEWAY_NONNULL,
					       const struct leeway_ack *ack LEEWAY_NONNULL)
{
	leeway_u64 interval_us = leeway_min_u64(ack->now_us - s->extra_us, LEEWAY_BBR_TIME_MAX_US);
	leeway_u64 expected = s->bw * interval_us / 1000000, extra;

	if (s->extra_bytes <= expected) {
		s->extra_bytes = 0;
		s->extra_us = ack->now_us;
		expected = 0;
	}
	s->extra_bytes += leeway_min_u64(ack->acked_bytes, LEEWAY_WINDOW_MAX_BYTES);
	extra = leeway_min_u64(s->extra_bytes - expected, leeway_bbr_cwnd(s));
	if (s->round_start && s->state != LEEWAY_BBR_DRAIN &&
	    s->rounds - s->since_rounds >= (s->full_reached ? LEEWAY_BBR_SLOT_ROUNDS : 1)) {
		s->since_rounds = s->rounds;
		s->extra[1] = s->full_reached ? s->extra[0] : 0;
		s->extra[0] = 0;
	}
	s->extra[0] = leeway_max_u64(s->extra[0], extra);
	return s->rounds;
}

/* UpdateMinRTT(), 5.3.4.3; idleness, 5.4.1. */
LEEWAY_ALONE leeway_u32 leeway_bbr_min_rtt(struct leeway_bbr *s LEEWAY_NONNULL,
					   const struct leeway_ack *ack LEEWAY_NONNULL,
					   const struct leeway_path *path LEEWAY_NONNULL)
{
	leeway_u32 rtt_us = ack->last_kind ? ack->last_rtt_us : 0;
	leeway_u64 now_us = ack->now_us;

	/* Two round trips and 200 ms without an ack: a flight would have timed out, so the sender was idle. */
	s->idle = s->acked_us && now_us - s->acked_us > 2ULL * path->srtt_us + LEEWAY_BBR_PROBE_RTT_US;
	s->acked_us = now_us;
	if (!rtt_us)
		return 0;
	if (!s->min_rtt_us) /* InitPacingRate(), 5.6.2: the first window leaves at once */
		s->w.out.pacing_bytes_per_s = leeway_bbr_cwnd(s) * LEEWAY_BBR_STARTUP_GAIN * 1000 / rtt_us;
	s->rtt_due = s->min_rtt_us && now_us - s->probe_rtt_at_us > s->interval_us;
	if (!s->min_rtt_us || rtt_us < s->probe_rtt_min_us || s->rtt_due) {
		s->probe_rtt_min_us = rtt_us;
		s->probe_rtt_at_us = now_us;
	}
	if (!s->min_rtt_us || s->probe_rtt_min_us < s->min_rtt_us ||
	    now_us - s->min_rtt_at_us > LEEWAY_BBR_MIN_RTT_US) {
		s->min_rtt_us = s->probe_rtt_min_us;
		s->min_rtt_at_us = s->probe_rtt_at_us;
	}
	s->w.out.queuing_delay_us = rtt_us - leeway_min_u32(rtt_us, s->min_rtt_us);
	return rtt_us;
}

#endif
