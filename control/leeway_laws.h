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

#include "leeway_ledbat.h"
#include "leeway_newreno.h"

enum leeway_param_kind {
	LEEWAY_PARAM_DURATION = 0, /* microseconds */
	LEEWAY_PARAM_PACKETS =
	    1,                  /* thousandths of a segment; LEEWAY_PERMILLE_UNLIMITED, where max allows it */
	LEEWAY_PARAM_RATIO = 2, /* thousandths */
	LEEWAY_PARAM_COUNT = 3,
	LEEWAY_PARAM_CHOICE = 4, /* index into the words of choices */
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
};

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

#define LEEWAY_LAW_ROW(X, SUMMARY, SOURCE)                                                                   \
	{                                                                                                    \
		#X, SUMMARY, SOURCE, (leeway_u32)sizeof(struct leeway_##X),                                  \
		    (leeway_u32)sizeof(struct leeway_##X##_params), leeway_##X##_init_entry,                 \
		    leeway_##X##_on_ack_entry, leeway_##X##_on_loss_entry, leeway_##X##_param_table,         \
		    LEEWAY_COUNT_OF(leeway_##X##_param_table), LEEWAY_COUNT_OF(leeway_##X##_probe_table),    \
		    leeway_##X##_probe_table                                                                 \
	}

#define LEEWAY_AT(X, FIELD) ((leeway_u32) __builtin_offsetof(struct leeway_##X##_params, FIELD))

#define LEEWAY_DURATION(X, NAME, FIELD, FALLBACK, MIN, MAX, DOC, SOURCE)                                     \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_DURATION, FALLBACK, MIN, MAX, (void *)0, DOC, SOURCE \
	}
#define LEEWAY_PACKETS(X, NAME, FIELD, FALLBACK, MIN, MAX, DOC, SOURCE)                                      \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_PACKETS, FALLBACK, MIN, MAX, (void *)0, DOC, SOURCE  \
	}
#define LEEWAY_RATIO(X, NAME, FIELD, FALLBACK, MIN, MAX, DOC, SOURCE)                                        \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_RATIO, FALLBACK, MIN, MAX, (void *)0, DOC, SOURCE    \
	}
#define LEEWAY_COUNT(X, NAME, FIELD, FALLBACK, MIN, MAX, DOC, SOURCE)                                        \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_COUNT, FALLBACK, MIN, MAX, (void *)0, DOC, SOURCE    \
	}
#define LEEWAY_CHOICE(X, NAME, FIELD, FALLBACK, WORDS, DOC, SOURCE)                                          \
	{                                                                                                    \
		NAME, LEEWAY_AT(X, FIELD), LEEWAY_PARAM_CHOICE, FALLBACK, 0, 0, WORDS, DOC, SOURCE           \
	}

/* Parameters that several laws share, so that they read the same everywhere. */
#define LEEWAY_FLOOR(X, FALLBACK)                                                                            \
	LEEWAY_PACKETS(X, "floor", floor_permille, FALLBACK, 10, 1000000,                                    \
	               "lowest window of a decrease, in packets; below 1: one packet every 1/W round trips", \
	               "RFC 6817 2.4.2 (MIN_CWND)")
#define LEEWAY_SLOW_START_PARAM(X, FALLBACK)                                                                 \
	LEEWAY_CHOICE(X, "slow_start", slow_start, FALLBACK, "none|standard",                                \
	              "how to begin: grow linearly, or double until the threshold or a loss",                \
	              "RFC 5681 3.1")
#define LEEWAY_SSTHRESH(X)                                                                                   \
	LEEWAY_PACKETS(X, "ssthresh", ssthresh_permille, LEEWAY_PERMILLE_UNLIMITED, 1000,                    \
	               LEEWAY_PERMILLE_UNLIMITED, "initial slow-start threshold, in packets",                \
	               "RFC 5681 3.1")
#define LEEWAY_ABC(X)                                                                                        \
	LEEWAY_COUNT(X, "abc_limit", abc_limit, 2, 1, 255,                                                   \
	             "segments that one ack may add in slow start (L); 1 is RFC 5681", "RFC 3465 2.2")
#define LEEWAY_TIMEOUT_PARAM(X)                                                                              \
	LEEWAY_CHOICE(X, "timeout", timeout, LEEWAY_TIMEOUT_ONE, "one|halve",                                \
	              "window after a timeout: one packet, or half where it is below one already",           \
	              "RFC 5681 3.1; Komnios 2014, section V")
#define LEEWAY_DELAY_PARAM(X, FALLBACK)                                                                      \
	LEEWAY_CHOICE(                                                                                       \
	    X, "delay", delay, FALLBACK, "owd|rtt",                                                          \
	    "what is measured: one-way delay (round-trip time where there is none), or round-trip time",     \
	    "RFC 6817 2.1")
#define LEEWAY_BASE_HISTORY(X, FALLBACK)                                                                     \
	LEEWAY_COUNT(X, "base_history", base_history, FALLBACK, 0, LEEWAY_BASE_MAX,                          \
	             "intervals of which the base delay is the minimum; 0: all",                             \
	             "RFC 6817 2.4.2 (BASE_HISTORY)")
#define LEEWAY_BASE_INTERVAL(X)                                                                              \
	LEEWAY_DURATION(X, "base_interval", base_interval_us, 60000000U, 10000U, 3600000000U,                \
	                "length of an interval of the base history", "RFC 6817 2.4.2")
#define LEEWAY_FILTER(X)                                                                                     \
	LEEWAY_CHOICE(X, "filter", filter, LEEWAY_FILTER_MIN, "min|mean|ewma|median",                        \
	              "how the current delay follows from the last samples", "RFC 6817 2.4.2 (FILTER)")
#define LEEWAY_FILTER_LENGTH(X)                                                                              \
	LEEWAY_COUNT(X, "filter_length", filter_length, 4, 1, LEEWAY_CURRENT_MAX,                            \
	             "samples in the filter, none older than a round trip; 1/weight of ewma",                \
	             "RFC 6817 2.4.2 (CURRENT_FILTER)")
#define LEEWAY_SKEW(X)                                                                                       \
	LEEWAY_CHOICE(                                                                                       \
	    X, "skew", skew, 0, "off|minima",                                                                \
	    "correct a drift of the clocks by the drift of the minima (base_history of 4 or more)",          \
	    "RFC 6817 A.2")

#define LEEWAY_PROBE(X, NAME, UNIT, FIELD, SIGNED, LOG2, DIVISOR)                                            \
	{                                                                                                    \
		NAME, UNIT, (leeway_u32) __builtin_offsetof(struct leeway_##X, FIELD),                       \
		    (leeway_u8)sizeof(((struct leeway_##X *)0)->FIELD), SIGNED, LOG2, DIVISOR                \
	}
#define LEEWAY_DELAY_PROBES(X)                                                                               \
	LEEWAY_PROBE(X, "current_delay", "us", delay.current.newest_us, 0, 0, 1),                            \
	    LEEWAY_PROBE(X, "base_delay", "us", delay.base.min_us, 0, 0, 1),                                 \
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
    LEEWAY_RATIO(ledbat, "gain_up", gain_up_permille, 1000, 1, LEEWAY_GAIN_MAX_PERMILLE,
                 "packets per round trip that an empty queue adds", "RFC 6817 2.4.2 (GAIN)"),
    LEEWAY_RATIO(ledbat, "gain_down", gain_down_permille, 1000, 0, LEEWAY_GAIN_MAX_PERMILLE,
                 "gain of the decrease above the target", "Trang 2014, 3.2"),
    LEEWAY_CHOICE(ledbat, "clamp", clamp, 0, "off|on",
                  "limit the decrease to gain_down packets per round trip", "RFC-era deployments"),
    LEEWAY_FLOOR(ledbat, 2000),
    LEEWAY_SLOW_START_PARAM(ledbat, LEEWAY_SLOW_START_NONE),
    LEEWAY_SSTHRESH(ledbat),
    LEEWAY_ABC(ledbat),
    LEEWAY_PACKETS(ledbat, "allowed_increase", allowed_permille, 1000, 0, 1000000,
                   "packets that growth may lead the flight size by", "RFC 6817 2.4.2 (ALLOWED_INCREASE)"),
    LEEWAY_TIMEOUT_PARAM(ledbat),
    LEEWAY_DELAY_PARAM(ledbat, LEEWAY_DELAY_OWD),
    LEEWAY_BASE_HISTORY(ledbat, 10),
    LEEWAY_BASE_INTERVAL(ledbat),
    LEEWAY_FILTER(ledbat),
    LEEWAY_FILTER_LENGTH(ledbat),
    LEEWAY_SKEW(ledbat),
};

static const struct leeway_probe leeway_ledbat_probe_table[] = {
    LEEWAY_DELAY_PROBES(ledbat),
};

LEEWAY_LAW_ENTRIES(newreno)
LEEWAY_LAW_ENTRIES(ledbat)

static const struct leeway_law leeway_laws[] = {
    LEEWAY_LAW_ROW(newreno, "TCP NewReno: additive increase, halved by loss", "RFC 5681, RFC 3465"),
    LEEWAY_LAW_ROW(ledbat, "LEDBAT: holds the queuing delay at a target, yields above it", "RFC 6817"),
};

#endif
