/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_FASTCQ_H
#define MESH_FASTCQ_H

#include "cqint.h"

/*
 * Hash table of the CQs that fastpoll.c polls: finds a CQ without contexts and maps. A CQ is in one of the
 * MESH_FAST_WAYS places from its hash on, until it is destroyed. Nearly all of 1,000 CQs (for example one per connection) have a
 * place; the others take the slow way. Pages are touched only for CQs in them: 256 KiB in all.
 */
#define MESH_FAST_HOMES_LOG 14
#define MESH_FAST_WAYS	    4u

struct mesh_fast_cq {
	_Atomic(const struct ibv_cq *) key; /* NULL: free */
	struct mesh_cq *cq; /* constant while key is set */
};

extern struct mesh_fast_cq mesh_fast_cqs[(1u << MESH_FAST_HOMES_LOG) + MESH_FAST_WAYS - 1]; /* fastcq.c */

/*
 * The addresses of CQs may differ in few bits only, and lie at regular distances. For some distances a multiplication alone would
 * map most to the same places, so higher bits are mixed in first.
 */
static inline struct mesh_fast_cq *mesh_fast_home(const struct ibv_cq *cq)
{
	uint64_t at = (uintptr_t)cq;

	return &mesh_fast_cqs[(at ^ at >> 12) * 0x9e3779b97f4a7c15ull >> (64 - MESH_FAST_HOMES_LOG)];
}

/** mesh_fast_find - the place of a CQ; NULL: none */
static inline struct mesh_fast_cq *mesh_fast_find(const struct ibv_cq *cq)
{
	struct mesh_fast_cq *home = mesh_fast_home(cq), *place;

	if (atomic_load_explicit(&home->key, memory_order_acquire) == cq)
		return home;
	for (place = home + 1; place != home + MESH_FAST_WAYS; place++)
		if (atomic_load_explicit(&place->key, memory_order_acquire) == cq)
			return place;
	return NULL;
}

/** mesh_fast_get - the record of a CQ that can be polled fast; NULL: no such CQ, or in a child of fork(). Hot; @cq is alive. */
static inline struct mesh_cq *mesh_fast_get(const struct ibv_cq *cq)
{
	const struct mesh_fast_cq *place = mesh_fast_find(cq);
	struct mesh_cq *mcq;

	if (!place)
		return NULL;
	mcq = place->cq;
	return atomic_load_explicit(&mcq->fast, memory_order_relaxed) && mesh_context_active(mcq->mc) ? mcq : NULL;
}

/** mesh_fast_put - give the CQ a place, if it has none, and one is free; the CQ's CQE lock is held */
void mesh_fast_put(struct mesh_cq *cq);
/**
 * mesh_fast_drop - free the CQ's place. Before the lower provider destroys the CQ: afterwards another thread may get
 * its address.
 */
void mesh_fast_drop(const struct ibv_cq *cq);

#endif
