/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Checks the test vectors of ebb (ebb_vectors.txt, docs/ebb-spec.md): reads events, each with what the
 * law must decide, and writes them with what the header decides. Fails where the two differ.
 */
#include "leeway_ebb.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	struct leeway_ebb_params params = {{.floor_permille = 10, .slow_start = 1}, 2500, 5000, 100, 30};
	struct leeway_path path = {.mss_bytes = 1500, .initial_window_bytes = 15000};
	struct leeway_ebb law;
	char line[256], got[512];
	unsigned int lines, flags, wrong = 0;

	leeway_ebb_init(&law, &params, &path);
	for (lines = 0; fgets(line, sizeof(line), stdin); lines++) {
		struct leeway_ack a = {0};
		struct leeway_loss l = {0};

		if (sscanf(line, "ack %" SCNu64 "%" SCNu64 "%u%u%u%" SCNu64 "%" SCNu64 "%u%" SCNu64,
			   &a.now_us, &a.acked_bytes, &a.last_rtt_us, &path.srtt_us, &flags,
			   &a.rate.delivered_bytes, &a.rate.prior_delivered_bytes, &a.rate.interval_us,
			   &a.rate.lost_bytes) == 9) {
			a.round_start = flags & 1;
			a.app_limited = flags >> 1 & 1;
			a.recovering = flags >> 2 & 1;
			a.ce_bytes = flags >> 3 & 1;
			a.last_kind = flags & 16 ? LEEWAY_LAST_BOUND : LEEWAY_LAST_EXACT;
			leeway_ebb_on_ack(&law, &a, &path);
		} else if (sscanf(line, "loss %" SCNu64 "%" SCNu64 "%u", &l.now_us, &l.sent_us, &l.kind) ==
			   3) {
			leeway_ebb_on_loss(&law, &l, &path);
		} else if (!strcmp(line, "new\n")) {
			leeway_ebb_init(&law, &params, &path);
		}
		snprintf(got, sizeof(got), "%.*s= %" PRIu64 " %" PRIu64 " %u %u %u\n",
			 (int)strcspn(line, "=\n"), line, law.w.out.cwnd_q16, law.w.out.pacing_bytes_per_s,
			 law.w.out.quantum, law.w.out.phase, law.w.out.queuing_delay_us);
		wrong += strchr("al", line[0]) && strcmp(line, got);
		fputs(strchr("al", line[0]) ? got : line, stdout);
	}
	fprintf(stderr, "%u lines, %u wrong\n", lines, wrong);
	return wrong || !lines;
}
