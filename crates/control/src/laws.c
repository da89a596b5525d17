/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The one place where the laws become machine code for the Rust crate; src/ffi.rs mirrors the declarations. */
#include "leeway_laws.h"

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
