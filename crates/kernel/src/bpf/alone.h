/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The estimators as global functions, which the verifier checks once each. The verifier walks
 * every path of a program; inlined, the paths of their loops would multiply with those of the laws
 * that call them.
 */
#ifndef LEEWAY_ALONE_H
#define LEEWAY_ALONE_H

#define LEEWAY_ALONE   __weak __attribute__((noinline))
#define LEEWAY_NONNULL __arg_nonnull

#include "leeway_delay.h"

__weak int leeway_delay_on_ack_alone(struct leeway_delay *d __arg_nonnull,
				     const struct leeway_ack *ack __arg_nonnull,
				     const struct leeway_path *path __arg_nonnull)
{
	return leeway_delay_on_ack(d, ack, path);
}

__weak int leeway_base_update_alone(struct leeway_base *b __arg_nonnull, __u64 now_us, __u32 sample_us)
{
	leeway_base_update(b, now_us, sample_us);
	return 0;
}

__weak __u32 leeway_current_update_alone(struct leeway_current *c __arg_nonnull, __u64 now_us,
					 __u32 sample_us, __u32 age_us)
{
	return leeway_current_update(c, now_us, sample_us, age_us);
}

#define leeway_delay_on_ack   leeway_delay_on_ack_alone
#define leeway_base_update    leeway_base_update_alone
#define leeway_current_update leeway_current_update_alone

#endif
