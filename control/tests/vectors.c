/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Test vectors of ebb: reads events with what the law must decide after each (ebb_vectors.txt, docs/ebb-spec.md), and
 * says where the header decides otherwise. With an argument it writes what the header decides.
 */
#include "leeway_ebb.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct leeway_ebb_params defaults = {
	.window = {.floor_permille = 10, .slow_start = LEEWAY_SLOW_START_STANDARD, .abc_limit = 2},
	.threshold_us = 2500,
	.step_us = 5000,
	.fill_permille = 100,
	.fade_permille = 30,
};

int main(int argc, char **argv)
{
	struct leeway_path path = {.mss_bytes = 1500, .initial_window_bytes = 15000};
	struct leeway_ebb law;
	char line[512], got[256], *want;
	int number = 0, wrong = 0, flags;

	(void)argv;
	leeway_ebb_init(&law, &defaults, &path);
	while (fgets(line, sizeof(line), stdin)) {
		struct leeway_ack ack = {.last_kind = LEEWAY_LAST_EXACT};
		struct leeway_loss loss = {0};

		number++;
		line[strcspn(line, "\n")] = 0;
		want = strstr(line, " = ");
		if (want)
			*want = 0;
		if (sscanf(line, "ack %" SCNu64 " %" SCNu64 " %u %u %d %" SCNu64 " %" SCNu64 " %u %" SCNu64,
			   &ack.now_us, &ack.acked_bytes, &ack.last_rtt_us, &path.srtt_us, &flags,
			   &ack.rate.delivered_bytes, &ack.rate.prior_delivered_bytes, &ack.rate.interval_us,
			   &ack.rate.lost_bytes) >= 8) {
			ack.round_start = flags & 1;
			ack.app_limited = flags >> 1 & 1;
			ack.recovering = flags >> 2 & 1;
			ack.ce_bytes = flags >> 3 & 1;
			if (flags & 16)
				ack.last_kind = LEEWAY_LAST_BOUND;
			leeway_ebb_on_ack(&law, &ack, &path);
		} else if (sscanf(line, "loss %" SCNu64 " %" SCNu64 " %u %u", &loss.now_us, &loss.sent_us,
				  &loss.kind, &loss.timeouts) == 4) {
			leeway_ebb_on_loss(&law, &loss, &path);
		} else {
			if (!strcmp(line, "new"))
				leeway_ebb_init(&law, &defaults, &path);
			if (argc > 1)
				puts(line);
			continue;
		}
		snprintf(got, sizeof(got), "%" PRIu64 " %" PRIu64 " %u %u %u", law.w.out.cwnd_q16,
			 law.w.out.pacing_bytes_per_s, law.w.out.quantum, law.w.out.phase,
			 law.w.out.queuing_delay_us);
		if (argc > 1)
			printf("%s = %s\n", line, got), fflush(stdout);
		else if (!want || strcmp(want + 3, got))
			printf("line %d: %s, expected %s\n", number, got, want ? want + 3 : "nothing"),
				wrong++;
	}
	if (argc == 1)
		printf("%d lines, %d wrong\n", number, wrong);
	return wrong != 0 || number == 0;
}
