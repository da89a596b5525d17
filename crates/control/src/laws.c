/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The one place where the laws become machine code for the Rust crate; src/ffi.rs mirrors the declarations. */
#include "leeway_laws.h"

const struct leeway_law *leeway_law_table(leeway_u32 *count);

const struct leeway_law *leeway_law_table(leeway_u32 *count)
{
	*count = LEEWAY_COUNT_OF(leeway_laws);
	return leeway_laws;
}
