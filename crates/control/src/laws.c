/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The one place where the laws become machine code for the Rust crate; src/ffi.rs mirrors the declarations. */
#include "leeway_laws.h"
#include "leeway_rate.h"
#include "leeway_sender.h"

const struct leeway_law *leeway_law_table(leeway_u32 *count);

const struct leeway_law *leeway_law_table(leeway_u32 *count)
{
	*count = LEEWAY_COUNT_OF(leeway_laws);
	return leeway_laws;
}

/* FLOWER's rules by themselves, to be looked at: most cells of the table cannot be reached one by one from outside. */
leeway_s32 leeway_test_flower_rule(leeway_s32 e, leeway_s32 de);
leeway_s32 leeway_test_flower_infer_q16(leeway_s32 e_q16, leeway_s32 de_q16, leeway_u32 conjunction);

leeway_s32 leeway_test_flower_rule(leeway_s32 e, leeway_s32 de)
{
	return leeway_flower_rule(e, de);
}

leeway_s32 leeway_test_flower_infer_q16(leeway_s32 e_q16, leeway_s32 de_q16, leeway_u32 conjunction)
{
	struct leeway_flower flower = {
		.error_q16 = e_q16,
		.change_q16 = de_q16,
		.conjunction = (leeway_u8)conjunction,
	};

	return leeway_flower_infer_q16(&flower);
}

/* What senders have in common, for senders in Rust. */
void leeway_sender_c_init(struct leeway_sender *s);
int leeway_sender_c_app_limited(struct leeway_sender *s, const struct leeway_output *out,
				leeway_u64 acked_bytes, int limited);
int leeway_sender_c_marked(struct leeway_sender *s, leeway_u32 una, leeway_u32 next);
leeway_u8 leeway_sender_c_last(struct leeway_sender *s, leeway_u64 acked_bytes, leeway_u32 mss,
			       int recovering);
int leeway_sender_c_waited(struct leeway_sender *s, const struct leeway_ack *ack, leeway_u32 mss);
void leeway_sender_c_sent(struct leeway_sender *s, const struct leeway_output *out, leeway_u64 now_ns,
			  leeway_u64 bytes, leeway_u64 rate);
leeway_u64 leeway_sender_c_departure_ns(const struct leeway_sender *s, const struct leeway_output *out);
int leeway_c_in_pairs(leeway_u64 window, leeway_u64 paced, leeway_u32 mss, leeway_u64 srtt, int recovering);
leeway_u64 leeway_c_pace(leeway_u64 bytes, leeway_u32 percent, leeway_u64 srtt_us);
leeway_u64 leeway_c_pace_stack(leeway_u64 bytes, leeway_u64 window, leeway_u64 ssthresh, leeway_u64 srtt_us);
leeway_u64 leeway_c_gap_below_one_ns(const struct leeway_output *out, leeway_u32 mss, leeway_u64 srtt_ns);
int leeway_c_uses_window(const struct leeway_output *out, leeway_u64 used_bytes);
void leeway_c_rate_sent(struct leeway_rate_state *r, struct leeway_rate_stamp *p, leeway_u64 now_us,
			leeway_u64 inflight_bytes, leeway_u64 bytes);
void leeway_c_rate_app_limited(struct leeway_rate_state *r, leeway_u64 inflight_bytes);
void leeway_c_rate_sample(struct leeway_rate_state *r, const struct leeway_rate_stamp *p, leeway_u64 now_us,
			  leeway_u64 acked_bytes, leeway_u32 min_rtt_us, struct leeway_rate *sample);

void leeway_sender_c_init(struct leeway_sender *s)
{
	leeway_sender_init(s, 0);
}

int leeway_sender_c_app_limited(struct leeway_sender *s, const struct leeway_output *out,
				leeway_u64 acked_bytes, int limited)
{
	return leeway_sender_app_limited(s, out, acked_bytes, limited);
}

int leeway_sender_c_marked(struct leeway_sender *s, leeway_u32 una, leeway_u32 next)
{
	return leeway_sender_marked(s, una, next);
}

leeway_u8 leeway_sender_c_last(struct leeway_sender *s, leeway_u64 acked_bytes, leeway_u32 mss,
			       int recovering)
{
	return leeway_sender_last(s, acked_bytes, mss, recovering);
}

int leeway_sender_c_waited(struct leeway_sender *s, const struct leeway_ack *ack, leeway_u32 mss)
{
	return leeway_sender_waited(s, ack, mss);
}

void leeway_sender_c_sent(struct leeway_sender *s, const struct leeway_output *out, leeway_u64 now_ns,
			  leeway_u64 bytes, leeway_u64 rate)
{
	leeway_sender_sent(s, out, now_ns, bytes, rate);
}

leeway_u64 leeway_sender_c_departure_ns(const struct leeway_sender *s, const struct leeway_output *out)
{
	return leeway_sender_departure_ns(s, out);
}

int leeway_c_in_pairs(leeway_u64 window, leeway_u64 paced, leeway_u32 mss, leeway_u64 srtt, int recovering)
{
	return leeway_in_pairs(window, paced, mss, srtt, recovering);
}

leeway_u64 leeway_c_pace(leeway_u64 bytes, leeway_u32 percent, leeway_u64 srtt_us)
{
	return leeway_pace(bytes, percent, srtt_us);
}

leeway_u64 leeway_c_pace_stack(leeway_u64 bytes, leeway_u64 window, leeway_u64 ssthresh, leeway_u64 srtt_us)
{
	return leeway_pace_stack(bytes, window, ssthresh, srtt_us);
}

leeway_u64 leeway_c_gap_below_one_ns(const struct leeway_output *out, leeway_u32 mss, leeway_u64 srtt_ns)
{
	return leeway_gap_below_one_ns(out, mss, srtt_ns);
}

int leeway_c_uses_window(const struct leeway_output *out, leeway_u64 used_bytes)
{
	return leeway_uses_window(out, used_bytes);
}

void leeway_c_rate_sent(struct leeway_rate_state *r, struct leeway_rate_stamp *p, leeway_u64 now_us,
			leeway_u64 inflight_bytes, leeway_u64 bytes)
{
	leeway_rate_sent(r, p, now_us, inflight_bytes, bytes);
}

void leeway_c_rate_app_limited(struct leeway_rate_state *r, leeway_u64 inflight_bytes)
{
	leeway_rate_app_limited(r, inflight_bytes);
}

void leeway_c_rate_sample(struct leeway_rate_state *r, const struct leeway_rate_stamp *p, leeway_u64 now_us,
			  leeway_u64 acked_bytes, leeway_u32 min_rtt_us, struct leeway_rate *sample)
{
	leeway_rate_sample(r, p, now_us, acked_bytes, min_rtt_us, sample);
}
