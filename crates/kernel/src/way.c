/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the kernel's programs use of bpf/account.h, for user space. */
#include "account.h"

void leeway_kernel_way_look(struct leeway_way *w, leeway_u64 now_us, leeway_u64 bytes, leeway_u64 watched_us);

void leeway_kernel_way_look(struct leeway_way *w, leeway_u64 now_us, leeway_u64 bytes, leeway_u64 watched_us)
{
	leeway_way_look(w, now_us, bytes, watched_us);
}
