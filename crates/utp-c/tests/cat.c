/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program for libutp: sends a file and receives one over one connection, then ends. It is built with
 * libutp's header and with ours, and linked with either library.
 *
 * usage: cat PORT PEER_PORT SEND_FILE RECEIVE_FILE RECEIVE_BYTES [half]; PEER_PORT 0: waits for a peer; half: ends
 * its direction once it has written all, whether it has received all or not
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>

#include "utp.h"

static int fd, has_ended, is_closed, errors, half, has_shut, destroyed;
static utp_socket *peer;
static char *out;
static size_t out_bytes, written;
static FILE *in;
static unsigned long received, expected;
static size_t unread_bytes;
/* Bytes by direction and by type (libutp's bandwidth_type_t), and samples of the delay. */
static unsigned long overhead[2][6], samples;
enum { CONNECT = 1, ACK = 3, HEADER = 4 };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void close_if_done(void)
{
	if (peer && !is_closed && written == out_bytes && received == expected) {
		is_closed = 1;
		utp_close(peer);
	}
}

static void write_some(void)
{
	while (peer && written < out_bytes) {
		size_t left = out_bytes - written, half = left / 2;
		struct utp_iovec parts[2] = {{out + written, half}, {out + written + half, left - half}};
		ssize_t count = left % 2 ? utp_writev(peer, parts, 2) : utp_write(peer, out + written, left);
		if (count <= 0)
			break;
		written += (size_t)count;
	}
	if (half && peer && !has_shut && written == out_bytes) {
		has_shut = 1;
		utp_shutdown(peer, SHUT_WR);
	}
	close_if_done();
}

static uint64 on_accept(utp_callback_arguments *a)
{
	struct sockaddr_in name;
	socklen_t len = sizeof(name);
	peer = a->socket;
	if (utp_getpeername(peer, (struct sockaddr *)&name, &len) != 0 || name.sin_family != AF_INET ||
	    memcmp(&name, a->address, 8) != 0)
		die("utp_getpeername");
	utp_set_userdata(peer, &fd);
	write_some();
	return 0;
}

static uint64 on_state(utp_callback_arguments *a)
{
	if (a->callback_type != UTP_ON_STATE_CHANGE || !utp_state_names[a->state])
		die("a state without a name");
	if (a->state == UTP_STATE_CONNECT || a->state == UTP_STATE_WRITABLE)
		write_some();
	if (a->state == UTP_STATE_DESTROYING) {
		if (utp_get_userdata(a->socket) != &fd)
			die("another socket");
		has_ended = 1;
		if (destroyed++)
			die("destroyed twice");
		utp_check_timeouts(a->context); /* which calls this: it has nothing more to do */
	}
	return 0;
}

static uint64 on_error(utp_callback_arguments *a)
{
	fprintf(stderr, "error %s\n", utp_error_code_names[a->error_code]);
	errors += !is_closed;
	has_ended = 1;
	return 0;
}

/* Read by the program in pieces, so that the window matters. */
static uint64 on_read(utp_callback_arguments *a)
{
	if (fwrite(a->buf, 1, a->len, in) != a->len)
		die("fwrite");
	received += a->len;
	unread_bytes += a->len;
	return 0;
}

static uint64 read_buffer_size(utp_callback_arguments *a)
{
	(void)a;
	return unread_bytes;
}

static uint64 send_to(utp_callback_arguments *a)
{
	sendto(fd, a->buf, a->len, 0, a->address, a->address_len);
	return 0;
}

static uint64 on_overhead(utp_callback_arguments *a)
{
	if (!a->socket || a->send < 0 || a->send > 1 || a->type < 1 || a->type > 5 || a->len < 48)
		die("UTP_ON_OVERHEAD_STATISTICS");
	overhead[a->send][a->type] += a->len;
	return 0;
}

static uint64 on_sample(utp_callback_arguments *a)
{
	if (!a->socket || a->sample_ms < 0 || a->sample_ms > 100000)
		die("UTP_ON_DELAY_SAMPLE");
	samples++;
	return 0;
}

/* What a transfer both ways comes to, with either library. */
static int is_counted(int connects)
{
	return samples > 0 && overhead[0][HEADER] > 0 && overhead[1][HEADER] > 0 && overhead[1][ACK] > 0 &&
	       (overhead[1][CONNECT] > 0) == connects;
}

static void loop(utp_context *context)
{
	struct pollfd ready = {fd, POLLIN, 0};
	poll(&ready, 1, 10);
	for (;;) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		unsigned char packet[4096];
		ssize_t count =
			recvfrom(fd, packet, sizeof(packet), MSG_DONTWAIT, (struct sockaddr *)&from, &len);
		if (count < 0)
			break;
		if (!utp_process_udp(context, packet, (size_t)count, (struct sockaddr *)&from, len))
			die("not uTP");
	}
	utp_issue_deferred_acks(context);
	if (unread_bytes > 0) {
		unread_bytes = 0;
		if (peer && !has_ended)
			utp_read_drained(peer);
	}
	if (!has_ended)
		write_some(); /* libutp says nothing when an accepted socket becomes writable first */
	utp_check_timeouts(context);
}

int main(int argc, char **argv)
{
	struct sockaddr_in here = {.sin_family = AF_INET}, there = {.sin_family = AF_INET};
	utp_context *context = utp_init(2);
	FILE *file;
	if (argc < 6 || argc > 7 || !context)
		die("usage");
	half = argc == 7;
	alarm(100);
	here.sin_port = htons((unsigned short)atoi(argv[1]));
	there.sin_port = htons((unsigned short)atoi(argv[2]));
	here.sin_addr.s_addr = there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof(here)) != 0)
		die("bind");
	file = fopen(argv[3], "rb");
	if (!file || fseek(file, 0, SEEK_END) != 0)
		die(argv[3]);
	out_bytes = (size_t)ftell(file);
	rewind(file);
	out = malloc(out_bytes + 1);
	if (!out || fread(out, 1, out_bytes, file) != out_bytes)
		die(argv[3]);
	in = fopen(argv[4], "wb");
	expected = strtoul(argv[5], NULL, 10);

	utp_context_set_userdata(context, &here);
	if (utp_context_get_userdata(context) != &here ||
	    utp_context_set_option(context, UTP_RCVBUF, 1 << 18) != 0 ||
	    utp_context_get_option(context, UTP_RCVBUF) != 1 << 18)
		die("options");
	utp_set_callback(context, UTP_SENDTO, send_to);
	utp_set_callback(context, UTP_ON_ACCEPT, on_accept);
	utp_set_callback(context, UTP_ON_STATE_CHANGE, on_state);
	utp_set_callback(context, UTP_ON_ERROR, on_error);
	utp_set_callback(context, UTP_ON_READ, on_read);
	utp_set_callback(context, UTP_GET_READ_BUFFER_SIZE, read_buffer_size);
	utp_set_callback(context, UTP_ON_OVERHEAD_STATISTICS, on_overhead);
	utp_set_callback(context, UTP_ON_DELAY_SAMPLE, on_sample);
	if (there.sin_port != 0) {
		peer = utp_create_socket(context);
		utp_set_userdata(peer, &fd);
		if (utp_get_context(peer) != context ||
		    utp_connect(peer, (struct sockaddr *)&there, sizeof(there)) != 0)
			die("utp_connect");
	}
	while (!has_ended)
		loop(context);
	fclose(in);
	utp_destroy(context);
	if (!is_counted(there.sin_port != 0))
		fprintf(stderr, "what is counted is missing\n"), errors++;
	return errors || written != out_bytes || received != expected;
}
