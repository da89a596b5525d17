/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * uTP under a control law of Leeway, with the names, types and callbacks that programs for libutp use.
 * docs/utp.md says what differs. Times are microseconds unless a name says otherwise.
 */
#ifndef LEEWAY_UTP_H
#define LEEWAY_UTP_H

#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Programs for libutp use these names. */
typedef unsigned char byte;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;

typedef struct struct_utp_context utp_context;
typedef struct UTPSocket utp_socket;

/* Flags of UTP_SENDTO: the packet must not be fragmented. */
enum { UTP_UDP_DONTFRAG = 2 };

/* States of UTP_ON_STATE_CHANGE. After UTP_STATE_DESTROYING the socket is gone. */
enum { UTP_STATE_CONNECT = 1, UTP_STATE_WRITABLE = 2, UTP_STATE_EOF = 3, UTP_STATE_DESTROYING = 4 };

/* Errors of UTP_ON_ERROR. */
enum { UTP_ECONNREFUSED = 0, UTP_ECONNRESET = 1, UTP_ETIMEDOUT = 2 };

/* Callbacks, then options. */
enum {
	UTP_ON_FIREWALL = 0,
	UTP_ON_ACCEPT = 1,
	UTP_ON_CONNECT = 2,
	UTP_ON_ERROR = 3,
	UTP_ON_READ = 4,
	UTP_ON_OVERHEAD_STATISTICS = 5,
	UTP_ON_STATE_CHANGE = 6,
	UTP_GET_READ_BUFFER_SIZE = 7,
	UTP_ON_DELAY_SAMPLE = 8,
	UTP_GET_UDP_MTU = 9,
	UTP_GET_UDP_OVERHEAD = 10,
	UTP_GET_MILLISECONDS = 11,
	UTP_GET_MICROSECONDS = 12,
	UTP_GET_RANDOM = 13,
	UTP_LOG = 14,
	UTP_SENDTO = 15,

	UTP_LOG_NORMAL = 16,
	UTP_LOG_MTU = 17,
	UTP_LOG_DEBUG = 18,
	UTP_SNDBUF = 19,
	UTP_RCVBUF = 20,
	UTP_TARGET_DELAY = 21,

	UTP_ARRAY_SIZE = 22
};

extern const char *utp_state_names[];
extern const char *utp_error_code_names[];
extern const char *utp_callback_names[];

/* What a callback is told; which of the unions holds depends on the callback. */
typedef struct {
	utp_context *context;
	utp_socket *socket;
	size_t len;
	uint32 flags;
	int callback_type;
	const byte *buf;
	union {
		const struct sockaddr *address;
		int send;
		int sample_ms;
		int error_code;
		int state;
	};
	union {
		socklen_t address_len;
		int type;
	};
} utp_callback_arguments;

typedef uint64 utp_callback_t(utp_callback_arguments *);

/* Packets of up to 23, 373, 723, 1,400 bytes, and longer ones. */
typedef struct {
	uint32 _nraw_recv[5];
	uint32 _nraw_send[5];
} utp_context_stats;

typedef struct {
	uint64 nbytes_recv;
	uint64 nbytes_xmit;
	uint32 rexmit;
	uint32 fastrexmit;
	uint32 nxmit;
	uint32 nrecv;
	uint32 nduprecv;
	uint32 mtu_guess;
} utp_socket_stats;

#define UTP_IOV_MAX 1024

struct utp_iovec {
	void *iov_base;
	size_t iov_len;
};

utp_context *utp_init(int version);
void utp_destroy(utp_context *context);
void utp_set_callback(utp_context *context, int callback_name, utp_callback_t *callback);
void *utp_context_set_userdata(utp_context *context, void *userdata);
void *utp_context_get_userdata(utp_context *context);
int utp_context_set_option(utp_context *context, int option, int value);
int utp_context_get_option(utp_context *context, int option);
int utp_process_udp(utp_context *context, const byte *packet, size_t len, const struct sockaddr *from,
		    socklen_t from_len);
int utp_process_icmp_error(utp_context *context, const byte *packet, size_t len, const struct sockaddr *to,
			   socklen_t to_len);
int utp_process_icmp_fragmentation(utp_context *context, const byte *packet, size_t len,
				   const struct sockaddr *to, socklen_t to_len, uint16 next_hop_mtu);
void utp_check_timeouts(utp_context *context);
void utp_issue_deferred_acks(utp_context *context);
utp_context_stats *utp_get_context_stats(utp_context *context);

utp_socket *utp_create_socket(utp_context *context);
void *utp_set_userdata(utp_socket *socket, void *userdata);
void *utp_get_userdata(utp_socket *socket);
int utp_setsockopt(utp_socket *socket, int option, int value);
int utp_getsockopt(utp_socket *socket, int option);
int utp_connect(utp_socket *socket, const struct sockaddr *to, socklen_t to_len);
ssize_t utp_write(utp_socket *socket, void *bytes, size_t count);
ssize_t utp_writev(utp_socket *socket, struct utp_iovec *parts, size_t count);
int utp_getpeername(utp_socket *socket, struct sockaddr *address, socklen_t *address_len);
void utp_read_drained(utp_socket *socket);
int utp_get_delays(utp_socket *socket, uint32 *ours, uint32 *theirs, uint32 *age);
utp_socket_stats *utp_get_stats(utp_socket *socket);
utp_context *utp_get_context(utp_socket *socket);
void utp_shutdown(utp_socket *socket, int how);
void utp_close(utp_socket *socket);

/*
 * Not in libutp. The law of connections that are made from now on, for instance "ledbat:target=25ms":
 * 0, or -1 where there is no such law. And microseconds until utp_check_timeouts has something to do;
 * -1: nothing before a packet arrives.
 */
int leeway_utp_set_law(utp_context *context, const char *law);
long long leeway_utp_next_timeout_us(utp_context *context);

#ifdef __cplusplus
}
#endif

#endif
