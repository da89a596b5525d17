/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Every law in one table: what a host (simulator, loader, QUIC stack) needs to build one by name, set its
 * parameters and plot its state. To add a law: write its header, add its two tables and its row.
 *
 * For user space only: pointers to functions and strings have no place in a BPF program, which includes the one
 * header it runs.
 */
#ifndef LEEWAY_LAWS_H
#define LEEWAY_LAWS_H

#include "leeway_bbr.h"
#include "leeway_cubic.h"
#include "leeway_ebb.h"
#include "leeway_fledbat.h"
#include "leeway_flexis.h"
#include "leeway_flower.h"
#include "leeway_ledbat.h"
#include "leeway_ledbatpp.h"
#include "leeway_lp.h"
#include "leeway_newreno.h"
#include "leeway_nice.h"
#include "leeway_proteus.h"
#include "leeway_vegas.h"

enum leeway_param_kind {
	LEEWAY_PARAM_DURATION = 0, /* microseconds */
	LEEWAY_PARAM_PACKETS =
		1,              /* thousandths of a segment; LEEWAY_PERMILLE_UNLIMITED, where max allows it */
	LEEWAY_PARAM_RATIO = 2, /* thousandths */
	LEEWAY_PARAM_COUNT = 3,
	LEEWAY_PARAM_CHOICE = 4, /* index into the words of choices */
	LEEWAY_PARAM_GAIN = 5,   /* millionths */
};

/* One parameter: a leeway_u32 at offset in the law's params struct. */
struct leeway_param {
	const char *name;
	leeway_u32 offset;
	leeway_u32 kind; /* enum leeway_param_kind */
	leeway_u32 fallback;
	leeway_u32 min;
	leeway_u32 max;
	const char *choices; /* words separated by '|', the first is 0; null unless a choice */
	const char *doc;
	const char *source;
};

/* One number of a law's state worth plotting. */
struct leeway_probe {
	const char *name;
	const char *unit;
	leeway_u32 offset;
	leeway_u8 size;          /* bytes: 1, 2, 4 or 8 */
	leeway_u8 is_signed;     /* two's complement */
	leeway_u16 divisor_log2; /* fixed point: divide by 2 to this power */
	leeway_u32 divisor;      /* then by this */
};

struct leeway_law {
	const char *name;
	const char *summary;
	const char *source;
	leeway_u32 state_bytes;
	leeway_u32 params_bytes;
	void (*init)(void *, const void *, const struct leeway_path *);
	void (*on_ack)(void *, const struct leeway_ack *, const struct leeway_path *);
	void (*on_loss)(void *, const struct leeway_loss *, const struct leeway_path *);
	const struct leeway_param *params;
	leeway_u32 n_params;
	leeway_u32 n_probes;
	const struct leeway_probe *probes;
	leeway_u32 needs; /* LEEWAY_NEEDS_* */
};

/* What costs a stack something, so that it does it only for laws that ask. */
#define LEEWAY_NEEDS_RATE          1U /* delivery-rate samples */
#define LEEWAY_NEEDS_RATE_SEGMENTS 2U /* the same, where the parameter `segments` is set */
#define LEEWAY_NEEDS_DELAY         4U /* delays without a receiver's wait: see leeway_sender_waited() */

#define LEEWAY_COUNT_OF(array) ((leeway_u32)(sizeof(array) / sizeof((array)[0])))

/* The three functions of a law behind untyped pointers. */
#define LEEWAY_LAW_ENTRIES(X)                                                                                \
	static void leeway_##X##_init_entry(void *s, const void *p, const struct leeway_path *path)          \
	{                                                                                                    \
		leeway_##X##_init((struct leeway_##X *)s, (const struct leeway_##X##_params *)p, path);      \
	}                                                                                                    \
	static void leeway_##X##_on_ack_entry(void *s, const struct leeway_ack *ack,                         \
					      const struct leeway_path *path)                                \
	{                                                                                                    \
		leeway_##X##_on_ack((struct leeway_##X *)s, ack, path);                                      \
	}                                                                                                    \
	static void leeway_##X##_on_loss_entry(void *s, const struct leeway_loss *loss,                      \
					       const struct leeway_path *path)                               \
	{                                                                                                    \
		leeway_##X##_on_loss((struct leeway_##X *)s, loss, path);                                    \
	}

#define LEEWAY_LAW_ROW(X, SUMMARY, SOURCE) LEEWAY_LAW_ROW_NEEDS(X, SUMMARY, SOURCE, 0)
#define LEEWAY_LAW_ROW_NEEDS(X, SUMMARY, SOURCE, NEEDS)                                                      \
	{                                                                                                    \
		#X, SUMMARY, SOURCE, (leeway_u32)sizeof(struct leeway_##X),                                  \
			(leeway_u32)sizeof(struct leeway_##X##_params), leeway_##X##_init_entry,             \
			leeway_##X##_on_ack_entry, leeway_##X##_on_loss_entry, leeway_##X##_param_table,     \
			LEEWAY_COUNT_OF(leeway_##X##_param_table),                                           \
			LEEWAY_COUNT_OF(leeway_##X##_probe_table), leeway_##X##_probe_table, NEEDS           \
	}

/* In C++ a void pointer is no string. */
#define LEEWAY_NO_CHOICES ((const char *)0)

#define LEEWAY_AT(X, FIELD) ((leeway_u32) __builtin_offsetof(struct leeway_##X##_params, FIELD))

#define LEEWAY_DURATION(X, NAME, FIELD, FALLBACK, MIN, MAX, DOC, SOURCE)                                     \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_DURATION, FALLBACK, MIN, MAX, LEEWAY_NO_CHOICES,     \
			DOC, SOURCE                                                                          \
	}
#define LEEWAY_PACKETS(X, NAME, FIELD, FALLBACK, MIN, MAX, DOC, SOURCE)                                      \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_PACKETS, FALLBACK, MIN, MAX, LEEWAY_NO_CHOICES, DOC, \
			SOURCE                                                                               \
	}
#define LEEWAY_RATIO(X, NAME, FIELD, FALLBACK, MIN, MAX, DOC, SOURCE)                                        \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_RATIO, FALLBACK, MIN, MAX, LEEWAY_NO_CHOICES, DOC,   \
			SOURCE                                                                               \
	}
/* What an ack or a round trip adds or takes; a part or a multiple of something is a ratio. */
#define LEEWAY_GAIN(X, NAME, FIELD, FALLBACK, MIN, MAX, DOC, SOURCE)                                         \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_GAIN, FALLBACK, MIN, MAX, LEEWAY_NO_CHOICES, DOC,    \
			SOURCE                                                                               \
	}
#define LEEWAY_COUNT(X, NAME, FIELD, FALLBACK, MIN, MAX, DOC, SOURCE)                                        \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_COUNT, FALLBACK, MIN, MAX, LEEWAY_NO_CHOICES, DOC,   \
			SOURCE                                                                               \
	}
#define LEEWAY_CHOICE(X, NAME, FIELD, FALLBACK, WORDS, DOC, SOURCE)                                          \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_CHOICE, FALLBACK, 0, 0, WORDS, DOC, SOURCE           \
	}

#define LEEWAY_SWITCH(X, NAME, FIELD, FALLBACK, DOC, SOURCE)                                                 \
	LEEWAY_CHOICE(X, NAME, FIELD, FALLBACK, "off|on", DOC, SOURCE)

/* Parameters that several laws share, so that they read the same everywhere. */
#define LEEWAY_FLOOR(X, FALLBACK)                                                                            \
	LEEWAY_PACKETS(X, "floor", window.floor_permille, FALLBACK, 10, 1000000,                             \
		       "lowest window of a decrease, in packets; below 1: one packet every 1/W round trips", \
		       "RFC 6817 2.4.2 (MIN_CWND)")
#define LEEWAY_SLOW_START_PARAM(X, FALLBACK)                                                                 \
	LEEWAY_CHOICE(X, "slow_start", window.slow_start, FALLBACK, "none|standard",                         \
		      "how to begin: linearly, or exponentially until the threshold or a loss",              \
		      "RFC 5681 3.1")
#define LEEWAY_SLOW_START_DELAY_PARAM(X, FALLBACK)                                                           \
	LEEWAY_CHOICE(                                                                                       \
		X, "slow_start", window.slow_start, FALLBACK, "none|standard|delay",                         \
		"how to begin: linearly, doubling until the threshold or a loss, or until a queue of 3/4 "   \
		"target, too",                                                                               \
		"RFC 5681 3.1; ledbat-plus-plus 4.3")
#define LEEWAY_SSTHRESH(X)                                                                                   \
	LEEWAY_PACKETS(X, "ssthresh", window.ssthresh_permille, LEEWAY_PERMILLE_UNLIMITED, 1000,             \
		       LEEWAY_PERMILLE_UNLIMITED, "initial slow-start threshold, in packets",                \
		       "RFC 5681 3.1")
#define LEEWAY_ABC(X)                                                                                        \
	LEEWAY_COUNT(X, "abc_limit", window.abc_limit, 2, 1, 255,                                            \
		     "segments that one ack may add in slow start (L); 1 is RFC 5681", "RFC 3465 2.2")
#define LEEWAY_TIMEOUT_PARAM(X)                                                                              \
	LEEWAY_CHOICE(X, "timeout", window.timeout, LEEWAY_TIMEOUT_ONE, "one|halve",                         \
		      "window after a timeout: one packet, or half where it is below one already",           \
		      "RFC 5681 3.1; Komnios 2014, section V")
#define LEEWAY_CLIMB(X)                                                                                      \
	LEEWAY_RATIO(                                                                                        \
		X, "climb", climb_permille, 0, 0, 1000,                                                      \
		"timeouts halve windows up to one packet; below, a packet acked adds this part; 0: off",     \
		"after Komnios 2014, section V")
#define LEEWAY_DELAY_PARAM(X, FIELD, FALLBACK)                                                               \
	LEEWAY_CHOICE(                                                                                       \
		X, "delay", FIELD, FALLBACK, "owd|rtt",                                                      \
		"what is measured: one-way delay (round-trip time where there is none), or round-trip time", \
		"RFC 6817 2.1")
#define LEEWAY_DELAY_QUEUE_PARAM(X, FIELD, FALLBACK)                                                         \
	LEEWAY_CHOICE(X, "delay", FIELD, FALLBACK, "owd|rtt|queue",                                          \
		      "one-way delay (round trips where there is none), round trips, or the caller's "       \
		      "queuing delay",                                                                       \
		      "RFC 6817 2.1")
#define LEEWAY_BASE_HISTORY(X, FIELD, FALLBACK)                                                              \
	LEEWAY_COUNT(X, "base_history", FIELD, FALLBACK, 0, LEEWAY_BASE_MAX,                                 \
		     "intervals of which the base delay is the minimum; 0: all",                             \
		     "RFC 6817 2.4.2 (BASE_HISTORY)")
#define LEEWAY_BASE_INTERVAL(X, FIELD)                                                                       \
	LEEWAY_DURATION(X, "base_interval", FIELD, 60000000U, 10000U, 3600000000U,                           \
			"length of an interval of the base history", "RFC 6817 2.4.2")
#define LEEWAY_FILTER(X)                                                                                     \
	LEEWAY_CHOICE(X, "filter", delay.filter, LEEWAY_FILTER_MIN, "min|mean|ewma|median",                  \
		      "how the current delay follows from the last samples", "RFC 6817 2.4.2 (FILTER)")
#define LEEWAY_FILTER_LENGTH(X)                                                                              \
	LEEWAY_COUNT(X, "filter_length", delay.filter_length, 4, 1, LEEWAY_CURRENT_MAX,                      \
		     "samples in the filter, none older than a round trip; 1/weight of ewma",                \
		     "RFC 6817 2.4.2 (CURRENT_FILTER)")
#define LEEWAY_SKEW(X, FIELD)                                                                                \
	LEEWAY_CHOICE(                                                                                       \
		X, "skew", FIELD, 0, "off|minima",                                                           \
		"correct a drift of the clocks by the drift of the minima (base_history of 4 or more)",      \
		"RFC 6817 A.2")

#define LEEWAY_ADAPTIVE(X)                                                                                   \
	LEEWAY_RATIO(X, "adaptive", adaptive_permille, 0, 0, 1000,                                           \
		     "target as a part of the queuing delay at losses, `target` at most; 0: off", "own")

#define LEEWAY_PROBE(X, NAME, UNIT, FIELD, SIGNED, LOG2, DIVISOR)                                            \
	{                                                                                                    \
		NAME, UNIT, (leeway_u32) __builtin_offsetof(struct leeway_##X, FIELD),                       \
			(leeway_u8)sizeof(((struct leeway_##X *)0)->FIELD), SIGNED, LOG2, DIVISOR            \
	}
#define LEEWAY_DELAY_PROBES(X)                                                                               \
	LEEWAY_PROBE(X, "current_delay", "us", delay.current.newest_us, 0, 0, 1),                            \
		LEEWAY_PROBE(X, "base_delay", "us", delay.base.min_us, 0, 0, 1),                             \
		LEEWAY_PROBE(X, "drift", "us/interval", delay.base.drift_us, 0, 0, 1)

static const struct leeway_param leeway_newreno_param_table[] = {
	LEEWAY_RATIO(newreno, "beta", beta_permille, 500, 1, 999, "part of the window left after a loss",
		     "RFC 5681 3.1 eq. 4"),
	LEEWAY_FLOOR(newreno, 1000),
	LEEWAY_SLOW_START_PARAM(newreno, LEEWAY_SLOW_START_STANDARD),
	LEEWAY_SSTHRESH(newreno),
	LEEWAY_ABC(newreno),
};

static const struct leeway_probe leeway_newreno_probe_table[] = {
	LEEWAY_PROBE(newreno, "last_reaction", "us", w.reacted_us, 0, 0, 1),
};

static const struct leeway_param leeway_ledbat_param_table[] = {
	LEEWAY_DURATION(ledbat, "target", target_us, 100000U, LEEWAY_TARGET_MIN_US, LEEWAY_TARGET_MAX_US,
			"queuing delay aimed at", "RFC 6817 2.4.2 (TARGET)"),
	LEEWAY_GAIN(ledbat, "gain_up", gain_up_ppm, 1000000, 1000, LEEWAY_GAIN_MAX_PPM,
		    "packets per round trip that an empty queue adds", "RFC 6817 2.4.2 (GAIN)"),
	LEEWAY_GAIN(ledbat, "gain_down", gain_down_ppm, 1000000, 0, LEEWAY_GAIN_MAX_PPM,
		    "gain of the decrease above the target", "Trang 2014, 3.2"),
	LEEWAY_SWITCH(ledbat, "clamp", clamp, 0, "limit the decrease to gain_down packets per round trip",
		      "RFC-era deployments"),
	LEEWAY_FLOOR(ledbat, 2000),
	LEEWAY_SLOW_START_DELAY_PARAM(ledbat, LEEWAY_SLOW_START_NONE),
	LEEWAY_SSTHRESH(ledbat),
	LEEWAY_ABC(ledbat),
	LEEWAY_PACKETS(ledbat, "allowed_increase", allowed_permille, 1000, 0, 1000000,
		       "packets that growth may lead the flight size by",
		       "RFC 6817 2.4.2 (ALLOWED_INCREASE)"),
	LEEWAY_TIMEOUT_PARAM(ledbat),
	LEEWAY_CLIMB(ledbat),
	LEEWAY_RATIO(ledbat, "accelerate", accelerate_permille, 0, 0, 1000,
		     "growth doubles each round trip until a queue of 3/4 target, up to this part of the "
		     "window; 0: off",
		     "after BIC-TCP (Xu 2004), max probing"),
	LEEWAY_CHOICE(ledbat, "window", whole, 0, "continuous|whole",
		      "moves by any part of a packet, or by whole packets with a credit, as in ns-2",
		      "TCP-LEDBAT (Valenti 2010)"),
	LEEWAY_PACKETS(ledbat, "segments", segments_permille, 0, 0, 1000000,
		       "least target in segments at the line's rate, where the stack measures delivery "
		       "rates; 0: off",
		       "docs/sharing.md"),
	LEEWAY_ADAPTIVE(ledbat),
	LEEWAY_DELAY_QUEUE_PARAM(ledbat, delay.source, LEEWAY_DELAY_OWD),
	LEEWAY_BASE_HISTORY(ledbat, delay.base_history, 10),
	LEEWAY_BASE_INTERVAL(ledbat, delay.base_interval_us),
	LEEWAY_FILTER(ledbat),
	LEEWAY_FILTER_LENGTH(ledbat),
	LEEWAY_SKEW(ledbat, delay.skew),
};

static const struct leeway_probe leeway_ledbat_probe_table[] = {
	LEEWAY_DELAY_PROBES(ledbat),
	LEEWAY_PROBE(ledbat, "target", "us", target_us, 0, 0, 1),
};

static const struct leeway_param leeway_fledbat_param_table[] = {
	LEEWAY_DURATION(fledbat, "target", target_us, 100000U, LEEWAY_TARGET_MIN_US, LEEWAY_TARGET_MAX_US,
			"queuing delay above which the window decreases", "Carofiglio 2013, eq. 5 (tau)"),
	LEEWAY_GAIN(fledbat, "alpha", alpha_ppm, 1000000, 1000, LEEWAY_GAIN_MAX_PPM,
		    "packets added per round trip", "Carofiglio 2013, eq. 5"),
	LEEWAY_GAIN(fledbat, "zeta", zeta_ppm, 100000, 100, LEEWAY_GAIN_MAX_PPM,
		    "packets removed per packet acked at twice the target",
		    "Carofiglio 2013, eq. 5; Komnios 2014: 5"),
	LEEWAY_FLOOR(fledbat, 2000),
	LEEWAY_SLOW_START_DELAY_PARAM(fledbat, LEEWAY_SLOW_START_NONE),
	LEEWAY_SSTHRESH(fledbat),
	LEEWAY_ABC(fledbat),
	LEEWAY_TIMEOUT_PARAM(fledbat),
	LEEWAY_CLIMB(fledbat),
	LEEWAY_DELAY_PARAM(fledbat, delay.source, LEEWAY_DELAY_OWD),
	LEEWAY_BASE_HISTORY(fledbat, delay.base_history, 10),
	LEEWAY_BASE_INTERVAL(fledbat, delay.base_interval_us),
	LEEWAY_FILTER(fledbat),
	LEEWAY_FILTER_LENGTH(fledbat),
	LEEWAY_SKEW(fledbat, delay.skew),
};

static const struct leeway_probe leeway_fledbat_probe_table[] = {
	LEEWAY_DELAY_PROBES(fledbat),
};

static const struct leeway_param leeway_cubic_param_table[] = {
	LEEWAY_CHOICE(cubic, "flavour", flavour, LEEWAY_CUBIC_RFC9438, "rfc9438|2010",
		      "which CUBIC: the standard, or what the papers around 2010 ran", "RFC 9438; Ha 2008"),
	LEEWAY_RATIO(cubic, "c", c_permille, 400, 10, 10000, "C: how fast the window grows, packets / s^3",
		     "RFC 9438 5.1"),
	LEEWAY_RATIO(cubic, "beta", beta_permille, 0, 0, 999,
		     "part of the window left after a loss; 0: the flavour's own, 0.7 or 0.8",
		     "RFC 9438 4.6"),
	LEEWAY_CHOICE(cubic, "ack_ratio", ack_ratio, LEEWAY_CUBIC_ACKS_AUTO, "auto|exact|estimate",
		      "an ACK counts by its bytes, or by Linux 2.6's packets per ACK; auto: by flavour",
		      "Linux 2.6.22, tcp_cubic.c"),
	LEEWAY_SWITCH(cubic, "fast_convergence", fast_convergence, 1,
		      "release capacity when the window at a loss fell", "RFC 9438 4.7"),
	LEEWAY_SWITCH(cubic, "friendly", friendly, 1, "never slower than Reno", "RFC 9438 4.3"),
	LEEWAY_SWITCH(cubic, "hystart", hystart, 0, "HyStart++ in the first slow start", "RFC 9406"),
	LEEWAY_FLOOR(cubic, 1000),
	LEEWAY_SLOW_START_PARAM(cubic, LEEWAY_SLOW_START_STANDARD),
	LEEWAY_SSTHRESH(cubic),
	LEEWAY_ABC(cubic),
};

static const struct leeway_probe leeway_cubic_probe_table[] = {
	LEEWAY_PROBE(cubic, "w_max", "B", max_q16, 0, 16, 1),
	LEEWAY_PROBE(cubic, "w_est", "B", estimate_q16, 0, 16, 1),
	LEEWAY_PROBE(cubic, "k", "s", k_q12, 0, 12, 1),
	LEEWAY_PROBE(cubic, "hystart_rounds", "rounds", hystart.rounds, 0, 0, 1),
};

static const struct leeway_param leeway_bbr_param_table[] = {
	LEEWAY_RATIO(bbr, "loss", loss_permille, 20, 1, 500,
		     "part of a flight that is lost where the flight is too large (LossThresh)",
		     "ccwg-bbr 5.5.10.2"),
	LEEWAY_RATIO(bbr, "beta", beta_permille, 700, 1, 999,
		     "least part of rate and flight left after a round trip with losses (Beta)",
		     "ccwg-bbr 5.5.10.3"),
	LEEWAY_RATIO(bbr, "headroom", headroom_permille, 150, 0, 900,
		     "part of the largest flight without loss left to others while cruising",
		     "ccwg-bbr 5.3.3.9"),
	LEEWAY_DURATION(
		bbr, "probe_rtt", interval_us, 5000000U, 100000U, 3600000000U,
		"time without a new minimum of round trips after which it drains the queue to see one",
		"ccwg-bbr 5.3.4.3"),
	LEEWAY_FLOOR(bbr, 4000),
	LEEWAY_SLOW_START_PARAM(bbr, LEEWAY_SLOW_START_STANDARD),
};

static const struct leeway_probe leeway_bbr_probe_table[] = {
	LEEWAY_PROBE(bbr, "state", "", state, 0, 0, 1),
	LEEWAY_PROBE(bbr, "bandwidth", "B/s", bw, 0, 0, 1),
	LEEWAY_PROBE(bbr, "min_rtt", "us", min_rtt_us, 0, 0, 1),
	LEEWAY_PROBE(bbr, "extra_acked", "B", extra[0], 0, 0, 1),
	LEEWAY_PROBE(bbr, "round_trips", "", rounds, 0, 0, 1),
};

#define LEEWAY_VEGAS_PARAMS(X)                                                                               \
	LEEWAY_PACKETS(X, "alpha", alpha_permille, 2000, 0, 1000000,                                         \
		       "packets in the queue below which the window grows", "Brakmo 1995; ns-2: 1"),         \
		LEEWAY_PACKETS(X, "beta", beta_permille, 4000, 0, 1000000,                                   \
			       "packets in the queue above which the window shrinks; alpha at least",        \
			       "Brakmo 1995; ns-2: 3"),                                                      \
		LEEWAY_PACKETS(X, "gamma", gamma_permille, 1000, 0, 1000000,                                 \
			       "packets in the queue that end slow start", "Brakmo 1995"),                   \
		LEEWAY_CHOICE(X, "sample", sample, LEEWAY_VEGAS_MIN, "min|mean",                             \
			      "round-trip time of a round: its smallest sample, or the mean",                \
			      "Linux: min; ns-2: mean")

static const struct leeway_param leeway_vegas_param_table[] = {
	LEEWAY_VEGAS_PARAMS(vegas),
	LEEWAY_FLOOR(vegas, 2000),
	LEEWAY_SLOW_START_PARAM(vegas, LEEWAY_SLOW_START_STANDARD),
	LEEWAY_SSTHRESH(vegas),
	LEEWAY_ABC(vegas),
};

static const struct leeway_probe leeway_vegas_probe_table[] = {
	LEEWAY_PROBE(vegas, "base_rtt", "us", base_us, 0, 0, 1),
	LEEWAY_PROBE(vegas, "diff", "pkt", diff_permille, 0, 0, 1000),
};

static const struct leeway_param leeway_nice_param_table[] = {
	LEEWAY_RATIO(nice, "threshold", threshold_permille, 200, 0, 1000,
		     "part of the range of round-trip times that counts as a queue", "Venkataramani 2002, 3"),
	LEEWAY_RATIO(nice, "fraction", fraction_permille, 500, 0, 1000,
		     "part of a round's packets in the queue above which the window is halved",
		     "Venkataramani 2002, 3"),
	LEEWAY_VEGAS_PARAMS(nice),
	LEEWAY_FLOOR(nice, 21),
	LEEWAY_SLOW_START_PARAM(nice, LEEWAY_SLOW_START_STANDARD),
	LEEWAY_SSTHRESH(nice),
	LEEWAY_ABC(nice),
	LEEWAY_TIMEOUT_PARAM(nice),
};

static const struct leeway_probe leeway_nice_probe_table[] = {
	LEEWAY_PROBE(nice, "base_rtt", "us", vegas.base_us, 0, 0, 1),
	LEEWAY_PROBE(nice, "max_rtt", "us", max_us, 0, 0, 1),
	LEEWAY_PROBE(nice, "diff", "pkt", vegas.diff_permille, 0, 0, 1000),
	LEEWAY_PROBE(nice, "delayed", "samples", delayed, 0, 0, 1),
};

static const struct leeway_param leeway_lp_param_table[] = {
	LEEWAY_RATIO(lp, "threshold", threshold_permille, 150, 0, 1000,
		     "part of the range of delays that is an indication of congestion",
		     "Kuzmanovic 2003, III.B"),
	LEEWAY_RATIO(lp, "inference", inference_permille, 3000, 0, LEEWAY_GAIN_MAX_PERMILLE,
		     "round trips without growth after an indication", "Kuzmanovic 2003, III.C"),
	LEEWAY_CHOICE(lp, "indication", indication, LEEWAY_LP_PER_RTT, "rtt|ack",
		      "an indication counts once per round trip, or with every ack",
		      "Kuzmanovic 2003, fig. 4: ack"),
	LEEWAY_SWITCH(lp, "reset", reset, 0, "an indication also moves min and max, as in Linux", "tcp_lp.c"),
	LEEWAY_SWITCH(lp, "warmup", warmup, 1,
		      "no inference in the first slow start, which measures the delays", "own"),
	LEEWAY_DELAY_PARAM(lp, delay, LEEWAY_DELAY_OWD),
	LEEWAY_FLOOR(lp, 1000),
	LEEWAY_SLOW_START_PARAM(lp, LEEWAY_SLOW_START_STANDARD),
	LEEWAY_SSTHRESH(lp),
	LEEWAY_ABC(lp),
};

static const struct leeway_probe leeway_lp_probe_table[] = {
	LEEWAY_PROBE(lp, "min_delay", "us", min_us, 0, 0, 1),
	LEEWAY_PROBE(lp, "max_delay", "us", max_us, 0, 0, 1),
	LEEWAY_PROBE(lp, "smoothed_delay", "us", smoothed_us, 0, 0, 1),
	LEEWAY_PROBE(lp, "inference_end", "us", inference_us, 0, 0, 1),
};

static const struct leeway_param leeway_ledbatpp_param_table[] = {
	LEEWAY_DURATION(ledbatpp, "target", target_us, 60000U, LEEWAY_TARGET_MIN_US, LEEWAY_TARGET_MAX_US,
			"queuing delay aimed at", "ledbat-plus-plus 4.5"),
	LEEWAY_COUNT(ledbatpp, "gain_divisor", gain_divisor, 16, 1, 255,
		     "largest divisor of the gain, 1/min(16, ceil(2 target/base))", "ledbat-plus-plus 4.2"),
	LEEWAY_GAIN(ledbatpp, "constant", constant_ppm, 1000000, 1000, LEEWAY_GAIN_MAX_PPM,
		    "of the multiplicative decrease", "ledbat-plus-plus 4.2"),
	LEEWAY_SWITCH(ledbatpp, "slowdown", slowdown, 1, "slow down periodically to see the base delay",
		      "ledbat-plus-plus 4.4"),
	LEEWAY_CHOICE(ledbatpp, "ramp", ramp, LEEWAY_RAMP_STANDARD, "standard|scaled",
		      "way back from a slowdown: doubling, or by the gain", "ledbat-plus-plus 4.4"),
	LEEWAY_FLOOR(ledbatpp, 2000),
	LEEWAY_SLOW_START_PARAM(ledbatpp, LEEWAY_SLOW_START_STANDARD),
	LEEWAY_SSTHRESH(ledbatpp),
	LEEWAY_ABC(ledbatpp),
	LEEWAY_TIMEOUT_PARAM(ledbatpp),
	LEEWAY_DELAY_PARAM(ledbatpp, delay.source, LEEWAY_DELAY_RTT),
	LEEWAY_BASE_HISTORY(ledbatpp, delay.base_history, 10),
	LEEWAY_BASE_INTERVAL(ledbatpp, delay.base_interval_us),
	LEEWAY_FILTER(ledbatpp),
	LEEWAY_FILTER_LENGTH(ledbatpp),
	LEEWAY_SKEW(ledbatpp, delay.skew),
};

static const struct leeway_probe leeway_ledbatpp_probe_table[] = {
	LEEWAY_DELAY_PROBES(ledbatpp),
	LEEWAY_PROBE(ledbatpp, "gain", "pkt", gain_q16, 0, 16, 1),
	LEEWAY_PROBE(ledbatpp, "stage", "", stage, 0, 0, 1),
	LEEWAY_PROBE(ledbatpp, "deadline", "us", deadline_us, 0, 0, 1),
};

static const struct leeway_param leeway_flower_param_table[] = {
	LEEWAY_DURATION(flower, "target", target_us, 100000U, 0, LEEWAY_TARGET_MAX_US,
			"queuing delay aimed at", "Trang 2014, 5.2"),
	LEEWAY_CHOICE(flower, "and", conjunction, LEEWAY_FLOWER_MINIMUM, "minimum|product",
		      "conjunction of the two conditions of a rule", "Trang 2014, 5.2"),
	LEEWAY_GAIN(flower, "step", step_ppm, 200000, 1000, 1000000,
		    "packets per round trip and linguistic value of the output", "Trang 2014, 5.2"),
	LEEWAY_ADAPTIVE(flower),
	LEEWAY_CHOICE(flower, "loss", loss, LEEWAY_FLOWER_LOSS_FLOOR, "floor|rules",
		      "window after a loss: the floor, or by the rules, half of it with an empty queue",
		      "own"),
	LEEWAY_FLOOR(flower, 1000),
	LEEWAY_SLOW_START_PARAM(flower, LEEWAY_SLOW_START_STANDARD),
	LEEWAY_SSTHRESH(flower),
	LEEWAY_ABC(flower),
	LEEWAY_DELAY_PARAM(flower, delay, LEEWAY_DELAY_OWD),
	LEEWAY_BASE_HISTORY(flower, base_history, 10),
	LEEWAY_BASE_INTERVAL(flower, base_interval_us),
	LEEWAY_SKEW(flower, skew),
};

static const struct leeway_probe leeway_flower_probe_table[] = {
	LEEWAY_PROBE(flower, "error_value", "", error_q16, 1, 16, 1),
	LEEWAY_PROBE(flower, "change_value", "", change_q16, 1, 16, 1),
	LEEWAY_PROBE(flower, "output_value", "", output_q16, 1, 16, 1),
	LEEWAY_PROBE(flower, "largest_delay", "us", peaks.max_us, 0, 0, 1),
	LEEWAY_PROBE(flower, "mean_rise", "us", rise_us_q8, 0, 8, 1),
	LEEWAY_PROBE(flower, "mean_fall", "us", fall_us_q8, 0, 8, 1),
	LEEWAY_PROBE(flower, "base_delay", "us", base.min_us, 0, 0, 1),
	LEEWAY_PROBE(flower, "target", "us", target_us, 0, 0, 1),
};

static const struct leeway_param leeway_ebb_param_table[] = {
	LEEWAY_FLOOR(ebb, 10),
	LEEWAY_SLOW_START_PARAM(ebb, LEEWAY_SLOW_START_STANDARD),
	LEEWAY_DURATION(ebb, "threshold", threshold_us, 2500U, LEEWAY_EBB_T_MIN_US, 1000000U,
			"most queuing delay that is no queue, where neither packets nor noise take longer",
			"own"),
	LEEWAY_DURATION(ebb, "step", step_us, 5000U, 100U, 10000000U,
			"round trip that adds one packet, where the pipe holds 32 packets or more", "own"),
	LEEWAY_RATIO(ebb, "fill", fill_permille, 100, 0, 300,
		     "part of what lacks to 0.9 of the pipe that a round trip of 60 ms adds", "own"),
	LEEWAY_RATIO(ebb, "fade", fade_permille, 30, 0, 1000,
		     "part of the remembered window that a round trip of yielding takes", "own"),
};

static const struct leeway_probe leeway_ebb_probe_table[] = {
	LEEWAY_PROBE(ebb, "base_delay", "us", base.min_us, 0, 0, 1),
	LEEWAY_PROBE(ebb, "packet_time", "us", s_us, 0, 0, 1),
	LEEWAY_PROBE(ebb, "threshold", "us", t_us, 0, 0, 1),
	LEEWAY_PROBE(ebb, "noise", "us", line.noise_us[0], 0, 0, 1),
	LEEWAY_PROBE(ebb, "memory", "B", memory_q16, 0, 16, 1),
	LEEWAY_PROBE(ebb, "line", "B/s", line.most, 0, 0, 1),
};

static const struct leeway_param leeway_proteus_param_table[] = {
	LEEWAY_COUNT(proteus, "gradient", gradient, 900, 0, 10000,
		     "weight of the slope of round-trip times (b)", "Dong 2018; Meng 2020"),
	LEEWAY_RATIO(proteus, "loss", loss_permille, 11350, 0, LEEWAY_GAIN_MAX_PERMILLE,
		     "weight of the part that is lost (c)", "Dong 2018; Meng 2020"),
	LEEWAY_COUNT(proteus, "deviation", deviation, 1500, 0, 10000,
		     "weight of the deviation of round-trip times, in s (d); 0: not a scavenger",
		     "Meng 2020; PCC-Uspace"),
	LEEWAY_FLOOR(proteus, 2000),
	LEEWAY_SLOW_START_PARAM(proteus, LEEWAY_SLOW_START_STANDARD),
};

static const struct leeway_probe leeway_proteus_probe_table[] = {
	LEEWAY_PROBE(proteus, "rate", "B/s", rate, 0, 0, 1),
	LEEWAY_PROBE(proteus, "utility", "", judged_q16, 1, 16, 1),
	LEEWAY_PROBE(proteus, "base_delay", "us", base_us, 0, 0, 1),
	LEEWAY_PROBE(proteus, "usual_deviation", "us", usual.sigma_us, 0, 0, 1),
	LEEWAY_PROBE(proteus, "moves", "", moves, 0, 0, 1),
};

static const struct leeway_param leeway_flexis_param_table[] = {
	LEEWAY_DURATION(flexis, "tau", tau_us, 60000U, 2000U, 64000U,
			"time of sending in which a trend is looked for", "Li 2023 (module)"),
	LEEWAY_RATIO(flexis, "theta", theta_permille, 30, 1, 1000,
		     "slope of round-trip times over the time of sending that is a trend",
		     "Li 2023 (module)"),
	LEEWAY_COUNT(flexis, "sigma", sigma, 3, 1, 2016, "slopes without which there is no trend",
		     "Li 2023 (module)"),
	LEEWAY_RATIO(flexis, "gamma", gamma_permille, 850, 1, 999, "part of the window left by a trend",
		     "Li 2023 (module)"),
	LEEWAY_DURATION(flexis, "alpha", alpha_us, 100000U, 1000U, 10000000U,
			"unit of time of the cubic increase, packets/s", "Li 2023 (module)"),
	LEEWAY_DURATION(flexis, "beta", beta_us, 10000U, 1000U, 10000000U,
			"unit of time of the linear increase, packets/s", "Li 2023 (module)"),
	LEEWAY_FLOOR(flexis, 2000),
	LEEWAY_SLOW_START_PARAM(flexis, LEEWAY_SLOW_START_NONE),
	LEEWAY_SSTHRESH(flexis),
	LEEWAY_ABC(flexis),
};

static const struct leeway_probe leeway_flexis_probe_table[] = {
	LEEWAY_PROBE(flexis, "points", "", points, 0, 0, 1),
	LEEWAY_PROBE(flexis, "rising_slopes", "", rising, 0, 0, 1),
	LEEWAY_PROBE(flexis, "first_rate", "packets/s", rate, 0, 0, 1),
	LEEWAY_PROBE(flexis, "min_rtt", "us", min_us, 0, 0, 1),
};

LEEWAY_LAW_ENTRIES(newreno)
LEEWAY_LAW_ENTRIES(cubic)
LEEWAY_LAW_ENTRIES(bbr)
LEEWAY_LAW_ENTRIES(vegas)
LEEWAY_LAW_ENTRIES(nice)
LEEWAY_LAW_ENTRIES(lp)
LEEWAY_LAW_ENTRIES(ledbat)
LEEWAY_LAW_ENTRIES(fledbat)
LEEWAY_LAW_ENTRIES(ledbatpp)
LEEWAY_LAW_ENTRIES(flower)
LEEWAY_LAW_ENTRIES(proteus)
LEEWAY_LAW_ENTRIES(flexis)
LEEWAY_LAW_ENTRIES(ebb)

static const struct leeway_law leeway_laws[] = {
	LEEWAY_LAW_ROW(newreno, "TCP NewReno: additive increase, halved by loss", "RFC 5681, RFC 3465"),
	LEEWAY_LAW_ROW(cubic, "CUBIC: cubic growth around the window of the last loss", "RFC 9438"),
	LEEWAY_LAW_ROW_NEEDS(bbr, "BBRv3: sends at the rate that the path delivers, for primary traffic",
			     "draft-ietf-ccwg-bbr", LEEWAY_NEEDS_RATE),
	LEEWAY_LAW_ROW_NEEDS(vegas, "Vegas: keeps a few packets of its own in the queue",
			     "Brakmo and Peterson 1995", LEEWAY_NEEDS_DELAY),
	LEEWAY_LAW_ROW_NEEDS(nice, "TCP Nice: Vegas that halves when most packets meet a queue",
			     "Venkataramani, Kokku, Dahlin 2002", LEEWAY_NEEDS_DELAY),
	LEEWAY_LAW_ROW_NEEDS(lp, "TCP-LP: Reno that backs off at an early indication of a queue",
			     "Kuzmanovic and Knightly 2003", LEEWAY_NEEDS_DELAY),
	LEEWAY_LAW_ROW_NEEDS(ledbat, "LEDBAT: holds the queuing delay at a target, yields above it",
			     "RFC 6817", LEEWAY_NEEDS_RATE_SEGMENTS | LEEWAY_NEEDS_DELAY),
	LEEWAY_LAW_ROW_NEEDS(fledbat, "fLEDBAT: LEDBAT with multiplicative decrease, fair to late-comers",
			     "Carofiglio et al. 2013; Komnios 2014", LEEWAY_NEEDS_DELAY),
	LEEWAY_LAW_ROW_NEEDS(ledbatpp, "LEDBAT++: LEDBAT on round-trip times with periodic slowdowns",
			     "draft-irtf-iccrg-ledbat-plus-plus", LEEWAY_NEEDS_DELAY),
	LEEWAY_LAW_ROW_NEEDS(flower, "FLOWER: fuzzy control of the queuing delay", "Trang 2014",
			     LEEWAY_NEEDS_DELAY),
	LEEWAY_LAW_ROW_NEEDS(proteus,
			     "PCC Proteus-S: goes to the rate with the most utility, less where delays vary",
			     "Meng et al. 2020; Dong et al. 2018", LEEWAY_NEEDS_RATE | LEEWAY_NEEDS_DELAY),
	LEEWAY_LAW_ROW_NEEDS(flexis, "FlexiS: grows along a cubic of time until round-trip times rise",
			     "Li 2023", LEEWAY_NEEDS_DELAY),
	LEEWAY_LAW_ROW_NEEDS(ebb,
			     "Ebb: fills an idle path below its first queue, runs dry while others are there",
			     "own", LEEWAY_NEEDS_RATE | LEEWAY_NEEDS_DELAY),
};

#endif
