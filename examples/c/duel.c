/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Two laws, chosen by name, share a link of 10 Mbit/s and 50 ms with a drop-tail buffer of 50 packets. The second
 * begins after 10 s and ends after 30 s. Prints what each got in every 5 s, and the mean wait in the queue.
 *
 *     cc -O2 $(pkg-config --cflags leeway) duel.c -o duel
 *     ./duel ledbat cubic
 *
 * The network is a toy (a step is one packet's time on the link; lost data is not sent again). What counts here is
 * how a program builds a law from its row, what it reports to the law, and what it reads back.
 */
#include "leeway_laws.h"
#include "leeway_rate.h"
#include "leeway_sender.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MSS            1500
#define STEP_US        1200 /* 1500 bytes at 10 Mbit/s */
#define PATH_US        50000
#define BUFFER_PACKETS 50
#define RING           65536
#define END_US         40000000

struct packet {
	int flow;
	int is_lost;
	leeway_u64 number;
	leeway_u64 sent_us;
	leeway_u64 returns_us; /* when the sender hears of it */
	struct leeway_rate_stamp stamp;
};

struct ring {
	struct packet packets[RING];
	unsigned first, last;
};

struct flow {
	const struct leeway_law *law;
	void *state; /* begins with struct leeway_output */
	struct leeway_path path;
	struct leeway_rate_state rate;
	struct leeway_sender sender;
	leeway_u64 from_us, until_us;
	leeway_u64 next;         /* number of the next packet */
	leeway_u64 round_end;    /* a round trip ends when this packet is acknowledged */
	leeway_u64 recovery_end; /* recovery from a loss ends when this packet is acknowledged */
	leeway_u64 delivered_bytes;
};

static struct ring queue, returning;

static void push(struct ring *ring, const struct packet *packet)
{
	ring->packets[ring->last++ % RING] = *packet;
}

/* A law with every parameter at its default. */
static void build(struct flow *flow, const char *name)
{
	struct leeway_path path = {.mss_bytes = MSS, .initial_window_bytes = 10 * MSS};
	unsigned char *params;
	leeway_u32 i;

	for (i = 0; i < LEEWAY_COUNT_OF(leeway_laws); i++)
		if (!strcmp(leeway_laws[i].name, name))
			flow->law = &leeway_laws[i];
	if (!flow->law) {
		fprintf(stderr, "duel: no law %s; there are:", name);
		for (i = 0; i < LEEWAY_COUNT_OF(leeway_laws); i++)
			fprintf(stderr, " %s", leeway_laws[i].name);
		fprintf(stderr, "\n");
		exit(2);
	}
	params = calloc(1, flow->law->params_bytes + 1);
	flow->state = calloc(1, flow->law->state_bytes);
	if (!params || !flow->state)
		abort();
	for (i = 0; i < flow->law->n_params; i++)
		memcpy(params + flow->law->params[i].offset, &flow->law->params[i].fallback, 4);
	flow->path = path;
	flow->law->init(flow->state, params, &flow->path);
	leeway_sender_init(&flow->sender, 0);
	leeway_rate_init(&flow->rate);
	free(params);
}

static void acknowledged(struct flow *flow, const struct packet *packet, leeway_u64 now_us)
{
	const struct leeway_output *out = flow->state;
	leeway_u32 rtt_us = (leeway_u32)(now_us - packet->sent_us);
	struct leeway_ack ack = {.now_us = now_us, .acked_bytes = MSS, .rtt_us = rtt_us};

	ack.prior_inflight_bytes = flow->path.inflight_bytes;
	flow->path.inflight_bytes -= MSS;
	flow->path.srtt_us = flow->path.srtt_us ? (7 * flow->path.srtt_us + rtt_us) / 8 : rtt_us;
	if (!flow->path.min_rtt_us || rtt_us < flow->path.min_rtt_us)
		flow->path.min_rtt_us = rtt_us;
	ack.round_start = packet->number >= flow->round_end;
	if (ack.round_start)
		flow->round_end = flow->next;
	ack.recovering = packet->number < flow->recovery_end;
	ack.app_limited = !leeway_uses_window(out, ack.prior_inflight_bytes + MSS);
	/* The clocks of this toy are one clock, so a one-way sample needs no more than a subtraction. */
	ack.owd_us = rtt_us;
	ack.owd_resolution_us = 1;
	ack.last_kind = leeway_sender_last(&flow->sender, MSS, MSS, ack.recovering);
	ack.last_rtt_us = rtt_us;
	leeway_rate_sample(&flow->rate, &packet->stamp, now_us, MSS, flow->path.min_rtt_us, &ack.rate);
	flow->delivered_bytes += MSS;
	flow->law->on_ack(flow->state, &ack, &flow->path);
}

static void lost(struct flow *flow, const struct packet *packet, leeway_u64 now_us)
{
	struct leeway_loss loss = {.now_us = now_us, .lost_bytes = MSS, .sent_us = packet->sent_us};

	flow->path.inflight_bytes -= MSS;
	leeway_rate_lost(&flow->rate, MSS);
	if (packet->number < flow->recovery_end)
		return; /* one reaction each round trip */
	flow->recovery_end = flow->next;
	loss.kind = LEEWAY_LOSS_DUPACK;
	flow->law->on_loss(flow->state, &loss, &flow->path);
}

static void send_packets(struct flow *flows, leeway_u64 now_us)
{
	for (int i = 0; i < 2; i++) {
		struct flow *flow = &flows[i];
		const struct leeway_output *out = flow->state;
		leeway_u64 window = leeway_max_u64(leeway_sender_window(&flow->sender, out, MSS), MSS);

		if (now_us < flow->from_us || now_us >= flow->until_us)
			continue;
		while (flow->path.inflight_bytes + MSS <= window) {
			struct packet packet = {.flow = i, .number = flow->next++, .sent_us = now_us};

			leeway_rate_sent(&flow->rate, &packet.stamp, now_us, flow->path.inflight_bytes, MSS);
			packet.is_lost = queue.last - queue.first >= BUFFER_PACKETS;
			flow->path.inflight_bytes += MSS;
			push(&queue, &packet);
		}
	}
}

int main(int argc, char **argv)
{
	static struct flow flows[2];
	leeway_u64 now_us, waited_us = 0, served = 0, before[2] = {0, 0};

	if (argc != 3) {
		fprintf(stderr, "usage: duel LAW LAW, for example: duel ledbat cubic\n");
		return 2;
	}
	build(&flows[0], argv[1]);
	build(&flows[1], argv[2]);
	flows[0].until_us = END_US;
	flows[1].from_us = 10000000;
	flows[1].until_us = 30000000;
	printf("%8s %12s %12s %10s\n", "until s", argv[1], argv[2], "queue ms");
	for (now_us = STEP_US; now_us <= END_US + STEP_US; now_us += STEP_US) {
		while (returning.first != returning.last &&
		       returning.packets[returning.first % RING].returns_us <= now_us) {
			struct packet *packet = &returning.packets[returning.first++ % RING];

			(packet->is_lost ? lost : acknowledged)(&flows[packet->flow], packet, now_us);
		}
		send_packets(flows, now_us);
		/* One packet leaves the queue; lost ones before it take no time. */
		while (queue.first != queue.last) {
			struct packet *packet = &queue.packets[queue.first++ % RING];

			packet->returns_us = now_us + PATH_US;
			push(&returning, packet);
			if (!packet->is_lost) {
				waited_us += now_us - packet->sent_us;
				served++;
				break;
			}
		}
		if (now_us % 5000000 < STEP_US) {
			double mbit[2];

			for (int i = 0; i < 2; i++) {
				mbit[i] = (double)(flows[i].delivered_bytes - before[i]) * 8 / 5e6;
				before[i] = flows[i].delivered_bytes;
			}
			printf("%8.0f %12.2f %12.2f %10.1f\n", (double)now_us / 1e6, mbit[0], mbit[1],
			       served ? (double)waited_us / (double)served / 1000 : 0.0);
			waited_us = served = 0;
		}
	}
	free(flows[0].state);
	free(flows[1].state);
	return 0;
}
