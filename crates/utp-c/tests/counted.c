/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Two contexts in one process, with a clock and a network of this program: what the library counts, measures and
 * logs. It is built with libutp's header, and linked with either library.
 *
 * usage: counted [ms]; ms: the program has a clock of milliseconds alone
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>

#include "utp.h"

enum { ROUND_MS = 40, BYTES = 300000, PACKETS = 4096 };

static struct packet {
	unsigned long due_ms;
	int to;
	size_t len;
	unsigned char bytes[1500];
} queue[PACKETS];

static unsigned long now_ms = 1000, cut_from_ms = -1ul, cut_until_ms, more_ms;
static unsigned long left, asked, lines, received, on_the_way_bytes[2];
static utp_context *context[2];
static utp_socket *ends[2];

static void check(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static struct sockaddr_in address(int end)
{
	struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons((unsigned short)(1000 + end))};
	there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return there;
}

static uint64 milliseconds(utp_callback_arguments *a)
{
	(void)a;
	asked++;
	return now_ms;
}

static uint64 microseconds(utp_callback_arguments *a)
{
	(void)a;
	return now_ms * 1000;
}

static uint64 on_log(utp_callback_arguments *a)
{
	check(a->buf && strlen((const char *)a->buf) > 0, "an empty line");
	lines++;
	return 0;
}

static uint64 on_read(utp_callback_arguments *a)
{
	received += a->len;
	return 0;
}

static uint64 on_accept(utp_callback_arguments *a)
{
	ends[1] = a->socket;
	return 0;
}

static uint64 on_state(utp_callback_arguments *a)
{
	(void)a;
	return 0;
}

/* What the first end sends is cut off for a while, and takes longer later. */
static uint64 send_to(utp_callback_arguments *a)
{
	int from = a->context == context[1];
	struct packet *free = queue + left % PACKETS;
	on_the_way_bytes[from] += a->len;
	if (!from && now_ms >= cut_from_ms && now_ms < cut_until_ms)
		return 0;
	check(free->len == 0, "too many packets");
	left++;
	free->due_ms = now_ms + ROUND_MS / 2 + (from ? 0 : more_ms);
	free->to = !from;
	free->len = a->len;
	memcpy(free->bytes, a->buf, a->len);
	return 0;
}

static void wait_ms(unsigned long ms)
{
	for (; ms > 0; ms--) {
		now_ms++;
		/* In the order in which they left. */
		for (unsigned long first = left, at = left; at < first + PACKETS; at++) {
			struct packet *one = queue + at % PACKETS;
			struct sockaddr_in from = address(!one->to);
			if (one->len == 0 || one->due_ms > now_ms)
				continue;
			utp_process_udp(context[one->to], one->bytes, one->len, (struct sockaddr *)&from,
					sizeof(from));
			one->len = 0;
		}
		for (int end = 0; end < 2; end++) {
			utp_issue_deferred_acks(context[end]);
			utp_check_timeouts(context[end]);
		}
	}
}

/* Carries BYTES from the first end to the second. */
static void carry(void)
{
	static char bytes[BYTES];
	unsigned long written = 0, before = received;
	for (unsigned long waited = 0; received - before < BYTES; waited++) {
		ssize_t count = utp_write(ends[0], bytes, BYTES - written);
		written += count > 0 ? (unsigned long)count : 0;
		wait_ms(1);
		check(waited < 100000, "nothing arrives");
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in there = address(1);
	uint32 ours, theirs, age;
	utp_socket_stats *stats;
	(void)argv;
	for (int end = 0; end < 2; end++) {
		context[end] = utp_init(2);
		utp_set_callback(context[end], UTP_GET_MILLISECONDS, milliseconds);
		if (argc == 1)
			utp_set_callback(context[end], UTP_GET_MICROSECONDS, microseconds);
		utp_set_callback(context[end], UTP_SENDTO, send_to);
		utp_set_callback(context[end], UTP_ON_READ, on_read);
		utp_set_callback(context[end], UTP_ON_ACCEPT, on_accept);
		utp_set_callback(context[end], UTP_ON_STATE_CHANGE, on_state);
		utp_set_callback(context[end], UTP_LOG, on_log);
	}
	ends[0] = utp_create_socket(context[0]);
	check(utp_connect(ends[0], (struct sockaddr *)&there, sizeof(there)) == 0, "utp_connect");
	check(utp_get_delays(ends[0], &ours, &theirs, &age) == 0 && age > 1000000000,
	      "delays before any packet");
	wait_ms(2 * ROUND_MS);
	carry();
	check(argc == 1 || asked > 0, "UTP_GET_MILLISECONDS is not asked");
	stats = utp_get_stats(ends[0]);
	check(stats->rexmit == 0 && stats->fastrexmit == 0, "nothing was lost");

	check(lines == 0, "lines that nobody wants");
	check(utp_context_get_option(context[0], UTP_LOG_NORMAL) == 0, "UTP_LOG_NORMAL");
	check(utp_context_set_option(context[0], UTP_LOG_NORMAL, 1) == 0, "UTP_LOG_NORMAL");
	check(utp_context_get_option(context[0], UTP_LOG_NORMAL) == 1, "UTP_LOG_NORMAL");
	check(utp_context_get_option(context[0], UTP_LOG_MTU) == 0, "UTP_LOG_MTU");
	cut_from_ms = now_ms + ROUND_MS;
	cut_until_ms = now_ms + 1500;
	carry();
	stats = utp_get_stats(ends[0]);
	check(stats->fastrexmit > 0, "packets after one that timed out");
	check(lines > 0, "no lines");

	more_ms = 30;
	carry();
	check(utp_get_delays(ends[0], &ours, &theirs, &age) == 0, "utp_get_delays");
	check(ours >= 29000 && ours <= 35000 && theirs <= 1000, "the delays of the sender");
	check(utp_get_delays(ends[1], &ours, &theirs, &age) == 0, "utp_get_delays");
	check(theirs >= 29000 && theirs <= 35000 && ours <= 1000, "the delays of the receiver");
	check(age <= 1000, "the age of a new measurement");
	wait_ms(2000);
	utp_get_delays(ends[1], &ours, &theirs, &age);
	check(age >= 1000 && age <= 2100, "the age of an old measurement");

	stats = utp_get_stats(ends[0]);
	check(stats->nbytes_xmit == on_the_way_bytes[0], "bytes that were sent");
	check(stats->nxmit > 3 * BYTES / 1480 && stats->nrecv > 100, "packets");
	check(stats->mtu_guess > 1300 && stats->mtu_guess <= 1472, "bytes of a packet");
	stats = utp_get_stats(ends[1]);
	check(stats->nbytes_recv > 3 * BYTES + stats->nrecv * 20, "bytes that arrived");
	check(stats->nbytes_xmit == on_the_way_bytes[1], "bytes of acknowledgements");
	utp_destroy(context[0]);
	utp_destroy(context[1]);
	return 0;
}
