/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The fields of an arriving packet that control from the receiver reads. */
#ifndef LEEWAY_RECEIVE_PACKET_H
#define LEEWAY_RECEIVE_PACKET_H

#include "context.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* The fields of one packet. */
struct leeway_segment {
	__u64 now_us;
	__u32 seq;
	__u32 bytes; /* of payload */
	__u32 tsval;
	__u32 tsecr;
	__u16 mss;
	__u8 timestamps;
	__u8 marked; /* congestion experienced */
};

/* The timestamps option at any position (RFC 7323, 3.2). */
static __always_inline void leeway_see_timestamps(struct __sk_buff *skb, struct leeway_segment *seg, __u32 at,
						  __u32 end)
{
	__u32 words[3];
	__u8 option[2];
	int i;

	/* The usual form: two NOPs and the option. */
	if (at + 12 <= end && !bpf_skb_load_bytes(skb, at, words, sizeof(words)) &&
	    words[0] == bpf_htonl(0x0101080a)) {
		seg->tsval = bpf_ntohl(words[1]);
		seg->tsecr = bpf_ntohl(words[2]);
		seg->timestamps = 1;
		return;
	}
	for (i = 0; i < 20; i++) {
		if (at + 2 > end || bpf_skb_load_bytes(skb, at, option, sizeof(option)) || !option[0])
			return;
		if (option[0] == 1) {
			at++;
		} else if (option[0] == 8 && option[1] == 10) {
			if (at + 10 > end || bpf_skb_load_bytes(skb, at + 2, words, 8))
				return;
			seg->tsval = bpf_ntohl(words[0]);
			seg->tsecr = bpf_ntohl(words[1]);
			seg->timestamps = 1;
			return;
		} else {
			at += option[1] < 2 ? 2 : option[1];
		}
	}
}

/* Reads the headers; `bytes` stays 0 for a packet without a payload to count. */
__weak int leeway_see_packet(struct __sk_buff *skb, struct leeway_segment *seg __arg_nonnull)
{
	__u32 at, end, total;
	__u8 ip[20], tcp[20];

	seg->now_us = bpf_ktime_get_ns() / 1000;
	if (bpf_skb_load_bytes(skb, 0, ip, sizeof(ip)))
		return 0;
	if (ip[0] >> 4 == 4) {
		if (ip[9] != 6)
			return 0;
		at = (ip[0] & 15) * 4;
		seg->marked = (ip[1] & 3) == 3;
	} else {
		/* A packet with extension headers is received, but not measured. */
		if (ip[6] != 6)
			return 0;
		at = 40;
		seg->marked = (ip[1] >> 4 & 3) == 3;
	}
	if (bpf_skb_load_bytes(skb, at, tcp, sizeof(tcp)))
		return 0;
	total = skb->len;
	end = at + (tcp[12] >> 4) * 4;
	if (end >= total)
		return 0;
	seg->seq = (__u32)tcp[4] << 24 | (__u32)tcp[5] << 16 | (__u32)tcp[6] << 8 | tcp[7];
	seg->bytes = total - end;
	seg->mss = skb->gso_size ? skb->gso_size : (seg->bytes < 65535 ? seg->bytes : 65535);
	leeway_see_timestamps(skb, seg, at + 20, end);
	return 0;
}

#endif
