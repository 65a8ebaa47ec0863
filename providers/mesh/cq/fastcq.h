/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_FASTCQ_H
#define MESH_FASTCQ_H

#include "cqint.h"

/*
 * The CQs that mesh_reader_fast_poll() polls, for finding one without walking through contexts and maps. A CQ is in one of the
 * MESH_FAST_WAYS places from its home on, and stays there until it is destroyed. Of 1,000 CQs (one for each connection) as good as all
 * have a place; the others are found by the long way. Pages take memory once there is a CQ in them: 256 KiB in all.
 */
#define MESH_FAST_HOMES_LOG 14
#define MESH_FAST_WAYS	    4u

struct mesh_fast_cq {
	_Atomic(const struct ibv_cq *) key; /* NULL: free */
	struct mesh_cq *cq; /* constant while key is set */
};

extern struct mesh_fast_cq mesh_fast_cqs[(1u << MESH_FAST_HOMES_LOG) + MESH_FAST_WAYS - 1]; /* fastcq.c */

/*
 * Each is allocated like the one before it, so their addresses may differ in few bits, and be as far apart as is bad for a product alone:
 * at some distances that would have most of them in the same places.
 */
static inline struct mesh_fast_cq *mesh_fast_home(const struct ibv_cq *cq)
{
	uint64_t at = (uintptr_t)cq;

	return &mesh_fast_cqs[(at ^ at >> 12) * 0x9e3779b97f4a7c15ull >> (64 - MESH_FAST_HOMES_LOG)];
}

/** mesh_fast_find - where it is; NULL: nowhere */
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

/** mesh_fast_get - NULL: not one of these, or the process was forked. Hot; @cq is alive */
static inline struct mesh_cq *mesh_fast_get(const struct ibv_cq *cq)
{
	const struct mesh_fast_cq *place = mesh_fast_find(cq);
	struct mesh_cq *mcq;

	if (!place)
		return NULL;
	mcq = place->cq;
	return atomic_load_explicit(&mcq->fast, memory_order_relaxed) && mesh_context_active(mcq->mc) ? mcq : NULL;
}

/** mesh_fast_put - if it has no place, and one is free; claimed */
void mesh_fast_put(struct mesh_cq *cq);
/** mesh_fast_drop - it has no place any more. Before the base destroys it: behind that its address may be that of another thread's */
void mesh_fast_drop(const struct ibv_cq *cq);

#endif
