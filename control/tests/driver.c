/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Random and extreme events for every law, to be run under address and undefined-behaviour sanitizers. Parameters
 * are arbitrary words here, not only what the table allows: a law sanitizes what it is given.
 */
#include "leeway_laws.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long long chance_state;

static unsigned long long chance(void)
{
	chance_state ^= chance_state >> 12;
	chance_state ^= chance_state << 25;
	chance_state ^= chance_state >> 27;
	return chance_state * 0x2545f4914f6cdd1dULL;
}

/* Mostly the ends of the range and their neighbours, sometimes anything. */
static unsigned long long odd(void)
{
	unsigned long long r = chance();

	switch (r >> 61) {
	case 0:
		return 0;
	case 1:
		return ~0ULL - (r & 3);
	case 2:
		return 1ULL << (r & 63);
	case 3:
		return (1ULL << (r & 63)) - 1;
	case 4:
		return r & 0xffff;
	case 5:
		return r & 0xffffffff;
	default:
		return chance();
	}
}

/* A plausible value of the size of `typical`, or an odd one. */
static unsigned long long near(unsigned long long typical, int wild)
{
	if (wild)
		return odd();
	return typical / 2 + chance() % (typical + 1);
}

static int check(const struct leeway_law *law, const void *state, unsigned long event)
{
	const struct leeway_output *out = state;

	if (out->cwnd_q16 && out->cwnd_q16 <= 1ULL << 56 && out->phase <= LEEWAY_LOSS_ZONE)
		return 0;
	fprintf(stderr, "%s, event %lu: window %llu, phase %u\n", law->name, event,
		(unsigned long long)out->cwnd_q16, out->phase);
	return 1;
}

static int run(const struct leeway_law *law, unsigned long seed, unsigned long events)
{
	struct leeway_path path;
	struct leeway_ack ack;
	struct leeway_loss loss;
	unsigned long i;
	unsigned long long now = 0;
	int wild = seed % 3 == 0, odd_params = seed % 5 == 0, failed = 0;
	leeway_u32 *params = malloc(law->params_bytes); /* of their exact size: an access beyond is seen */
	void *state = malloc(law->state_bytes);

	if (!params || !state)
		abort();
	chance_state = seed * 0x9e3779b97f4a7c15ULL | 1;
	memset(params, 0, law->params_bytes);
	memset(state, 0xa5, law->state_bytes); /* what init forgets is seen as nonsense */
	for (i = 0; i < law->n_params; i++)
		params[law->params[i].offset / 4] = odd_params ? (leeway_u32)odd() : law->params[i].fallback;
	for (i = 0; i < events && !failed; i++) {
		if (i == 0 || (wild && chance() % 64 == 0)) {
			path.inflight_bytes = near(100000, wild);
			path.mss_bytes = (leeway_u32)near(1500, wild);
			path.initial_window_bytes = (leeway_u32)near(15000, wild);
			path.srtt_us = (leeway_u32)near(100000, wild);
			path.min_rtt_us = (leeway_u32)near(50000, wild);
		}
		if (i == 0)
			law->init(state, params, &path);
		now = wild && chance() % 8 == 0 ? odd() : now + near(1000, 0);
		if (chance() % 32 == 0) {
			loss.now_us = now;
			loss.lost_bytes = near(1500, wild);
			loss.sent_us = wild ? odd() : now - near(50000, 0);
			loss.kind = (leeway_u32)(wild ? odd() : chance() % 2);
			loss.timeouts = (leeway_u32)(wild ? odd() : chance() % 4);
			law->on_loss(state, &loss, &path);
		} else {
			memset(&ack, 0, sizeof(ack));
			ack.now_us = now;
			ack.acked_bytes = near(3000, wild);
			ack.prior_inflight_bytes = near(100000, wild);
			ack.ce_bytes = chance() % 16 == 0 ? near(1500, wild) : 0;
			ack.rtt_us = (leeway_u32)near(100000, wild);
			ack.owd_us = (leeway_u32)near(80000, wild);
			ack.owd_resolution_us = (leeway_u32)(seed % 2 ? chance() % 2 : 0);
			ack.app_limited = chance() % 16 == 0;
			ack.round_start = chance() % 8 == 0;
			ack.recovering = chance() % 16 == 0;
			law->on_ack(state, &ack, &path);
		}
		failed = check(law, state, i);
	}
	free(params);
	free(state);
	return failed;
}

int main(int argc, char **argv)
{
	unsigned long runs = argc > 1 ? strtoul(argv[1], NULL, 10) : 300;
	unsigned long seed;
	leeway_u32 i;
	int failed = 0;

	for (i = 0; i < LEEWAY_COUNT_OF(leeway_laws); i++)
		for (seed = 1; seed <= runs; seed++)
			failed |= run(&leeway_laws[i], seed, 1000);
	if (!failed)
		printf("%u laws, %lu runs of 1000 events each\n", (unsigned)LEEWAY_COUNT_OF(leeway_laws),
		       runs);
	return failed;
}
