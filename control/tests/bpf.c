/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Every law as an object of its own functions: what a BPF program would inline, to compile and to look into. */
/* Written from leeway_laws.h by check.sh. */
#include "leeway_every_law.h"

#define LAW(X)                                                                                               \
	void X##_init(struct leeway_##X *, const struct leeway_##X##_params *, const struct leeway_path *);  \
	void X##_on_ack(struct leeway_##X *, const struct leeway_ack *, const struct leeway_path *);         \
	void X##_on_loss(struct leeway_##X *, const struct leeway_loss *, const struct leeway_path *);       \
	void X##_init(struct leeway_##X *s, const struct leeway_##X##_params *p,                             \
		      const struct leeway_path *path)                                                        \
	{                                                                                                    \
		leeway_##X##_init(s, p, path);                                                               \
	}                                                                                                    \
	void X##_on_ack(struct leeway_##X *s, const struct leeway_ack *ack, const struct leeway_path *path)  \
	{                                                                                                    \
		leeway_##X##_on_ack(s, ack, path);                                                           \
	}                                                                                                    \
	void X##_on_loss(struct leeway_##X *s, const struct leeway_loss *loss,                               \
			 const struct leeway_path *path)                                                     \
	{                                                                                                    \
		leeway_##X##_on_loss(s, loss, path);                                                         \
	}

LEEWAY_EVERY_LAW(LAW)
