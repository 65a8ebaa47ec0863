// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdlib.h>
#include <string.h>

#include "context.h"

static _Atomic(struct mesh_context *) records; /* newest first; see context.h */

#define RESERVED ((struct ibv_context *)1)

struct mesh_context *mesh_context_get_free(void)
{
	struct mesh_context *mc;
	struct ibv_context *none;

	for (mc = atomic_load_explicit(&records, memory_order_acquire); mc; mc = mc->next) {
		none = NULL;
		if (atomic_compare_exchange_strong_explicit(&mc->verbs, &none, RESERVED,
							    memory_order_acquire, memory_order_relaxed))
			return mc;
	}

	mc = calloc(1, sizeof(*mc));
	if (!mc)
		return NULL;
	atomic_init(&mc->verbs, RESERVED);
	mc->next = atomic_load_explicit(&records, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&records, &mc->next, mc, memory_order_release,
						      memory_order_relaxed))
		;
	return mc;
}

void mesh_context_publish(struct mesh_context *mc, struct ibv_context *verbs)
{
	atomic_store_explicit(&mc->ports_down, 0, memory_order_relaxed); /* of the record's former context */
	atomic_store_explicit(&mc->stood_in, 0, memory_order_relaxed);
	atomic_store_explicit(&mc->library, 0, memory_order_relaxed);
	atomic_store_explicit(&mc->qualified, 0, memory_order_relaxed);
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

int mesh_real_port(struct ibv_context *verbs, uint8_t port_num, struct ibv_port_attr *ret)
{
	const struct mesh_context *mc = mesh_context_get(verbs);
	union {
		struct ibv_port_attr attr;
		char room[256]; /* for members of later releases, which the lower provider may fill */
	} out;
	int err;

	if (!mc || !mc->lower.query_port)
		return ibv_query_port(verbs, port_num, ret);
	memset(&out, 0, sizeof(out));
	err = mc->lower.query_port(verbs, port_num, &out.attr);
	if (!err)
		*ret = out.attr;
	return err;
}

static _Atomic unsigned long *place_of(unsigned long from, unsigned long to)
{
	_Atomic unsigned long *places = mesh_root.process->lookers;
	unsigned long there;
	int i;

	for (i = 0; i < MESH_LOOKERS; i++) {
		there = from;
		if (atomic_compare_exchange_strong(&places[i], &there, to))
			return &places[i];
	}
	return NULL;
}

_Atomic unsigned long *mesh_looking_begin(void)
{
	return place_of(0, (unsigned long)pthread_self());
}

void mesh_looking_end(_Atomic unsigned long *looking)
{
	if (looking)
		atomic_store_explicit(looking, 0, memory_order_relaxed);
}

bool mesh_looking(void)
{
	unsigned long self = (unsigned long)pthread_self();

	return place_of(self, self);
}
