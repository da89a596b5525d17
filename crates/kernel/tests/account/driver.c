/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * driver TARGET: tells an account of a law with this target, in microseconds, of seconds, one a line: bytes acknowledged, retransmissions, microseconds busy, queuing delay.
 */
#include <stdio.h>
#include <stdlib.h>

#include "account.h"

int main(int argc, char **argv)
{
	unsigned target = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	unsigned long long acked, lost, watched, queue;
	struct leeway_account a = {};

	while (scanf("%llu %llu %llu %llu", &acked, &lost, &watched, &queue) == 4) {
		a.acked_bytes += acked;
		a.lost_packets += lost;
		a.watched_us += watched;
		a.queue_us2 += watched * queue;
		leeway_account_second(&a, 1000000, target);
	}
	printf("%u %u %llu\n", a.share_s, a.share_permille, (unsigned long long)a.way.held_us);
	return 0;
}
