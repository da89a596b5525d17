/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Prints the table of laws, tab-separated, for law_tables.py: a line "law" each, followed by its parameters
 * ("param") and the numbers of its state worth plotting ("probe").
 */
#include <stdio.h>

#include "leeway_laws.h"

static void print_param(const struct leeway_param *p)
{
	printf("param\t%s\t%u\t%u\t%u\t%u\t%s\t%s\t%s\n", p->name, p->kind, p->fallback, p->min, p->max,
	       p->choices ? p->choices : "", p->doc, p->source);
}

static void print_law(const struct leeway_law *law)
{
	leeway_u32 i;

	printf("law\t%s\t%s\t%s\t%u\n", law->name, law->summary, law->source, law->state_bytes);
	for (i = 0; i < law->n_params; i++)
		print_param(&law->params[i]);
	for (i = 0; i < law->n_probes; i++)
		printf("probe\t%s\t%s\n", law->probes[i].name, law->probes[i].unit);
}

int main(void)
{
	leeway_u32 i;

	for (i = 0; i < LEEWAY_COUNT_OF(leeway_laws); i++)
		print_law(&leeway_laws[i]);
	return 0;
}
