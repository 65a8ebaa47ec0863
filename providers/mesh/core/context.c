// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdlib.h>

#include "context.h"

static _Atomic(struct mesh_context *) records; /* newest first; see context.h */

#define CLAIMED ((struct ibv_context *)1)

struct mesh_context *mesh_context_claim(void)
{
	struct mesh_context *mc;
	struct ibv_context *none;

	for (mc = atomic_load_explicit(&records, memory_order_acquire); mc; mc = mc->next) {
		none = NULL;
		if (atomic_compare_exchange_strong_explicit(&mc->verbs, &none, CLAIMED,
							    memory_order_acquire, memory_order_relaxed))
			return mc;
	}

	mc = calloc(1, sizeof(*mc));
	if (!mc)
		return NULL;
	atomic_init(&mc->verbs, CLAIMED);
	mc->next = atomic_load_explicit(&records, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&records, &mc->next, mc, memory_order_release,
						      memory_order_relaxed))
		;
	return mc;
}

void mesh_context_publish(struct mesh_context *mc, struct ibv_context *verbs)
{
	atomic_store_explicit(&mc->ports_down, 0, memory_order_relaxed); /* of the record's former context */
	atomic_store_explicit(&mc->library, 0, memory_order_relaxed);
	atomic_store_explicit(&mc->verbs, verbs, memory_order_release);
}

void mesh_context_release(struct mesh_context *mc)
{
	atomic_store_explicit(&mc->verbs, NULL, memory_order_release);
}

struct mesh_context *mesh_context_get(const struct ibv_context *verbs)
{
	struct mesh_context *mc;

	for (mc = atomic_load_explicit(&records, memory_order_acquire); mc; mc = mc->next)
		if (atomic_load_explicit(&mc->verbs, memory_order_acquire) == verbs)
			return mc;
	return NULL;
}
