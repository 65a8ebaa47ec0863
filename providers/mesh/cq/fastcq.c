// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fastcq.h"

struct mesh_fast_cq mesh_fast_cqs[(1u << MESH_FAST_HOMES_LOG) + MESH_FAST_WAYS - 1];

#define TAKEN ((const struct ibv_cq *)mesh_fast_cqs) /* the address of no CQ */

/* Other threads put and drop other CQs at the same time. */
static bool take(struct mesh_fast_cq *place)
{
	const struct ibv_cq *none = NULL;

	return !atomic_load_explicit(&place->key, memory_order_relaxed) &&
	       atomic_compare_exchange_strong_explicit(&place->key, &none, TAKEN, memory_order_acquire, memory_order_relaxed);
}

void mesh_fast_put(struct mesh_cq *cq)
{
	struct mesh_fast_cq *place = mesh_fast_home(cq->cq), *end = place + MESH_FAST_WAYS;

	if (mesh_fast_find(cq->cq))
		return;
	while (place != end && !take(place))
		place++;
	if (place == end)
		return;
	place->cq = cq;
	atomic_store_explicit(&place->key, cq->cq, memory_order_release);
}

void mesh_fast_drop(const struct ibv_cq *cq)
{
	struct mesh_fast_cq *place = mesh_fast_find(cq);

	if (place)
		atomic_store_explicit(&place->key, NULL, memory_order_release);
}
