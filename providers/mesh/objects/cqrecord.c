// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cqrecord.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "context.h"

#define CQE_LOCK_SPINS 300 /* an empty poll is over in less */
#define CQE_LOCK_YIELDS 100

void mesh_cqe_lock(struct mesh_cq *cq)
{
	int tries;

	mv_lock_check(&cq->cqe_locked, MESH_CLASS(CQE_LOCK), MV_LOCK_HERE);
	for (tries = 0; atomic_exchange_explicit(&cq->cqe_locked, true, memory_order_acquire); tries++)
		if (tries >= CQE_LOCK_SPINS + CQE_LOCK_YIELDS)
			usleep(20); /* the owner may have a lower priority */
		else if (tries >= CQE_LOCK_SPINS)
			sched_yield();
	mv_lock_taken(&cq->cqe_locked, MESH_CLASS(CQE_LOCK), MV_LOCK_HERE);
}

static void count_removals(const struct mesh_cq_removal *removal, int more)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (!removal->cqs[i])
			continue;
		mesh_cqe_lock(removal->cqs[i]);
		removal->cqs[i]->reading.removals += (unsigned int)more;
		mesh_cqe_unlock(removal->cqs[i]);
	}
}

void mesh_cq_removal_begin(struct mesh_context *mc, struct ibv_cq *send_cq, struct ibv_cq *recv_cq, struct mesh_cq_removal *ret)
{
	ret->cqs[0] = send_cq ? mesh_map_get(&mc->data.cqs, send_cq) : NULL;
	ret->cqs[1] = recv_cq && recv_cq != send_cq ? mesh_map_get(&mc->data.cqs, recv_cq) : NULL;
	count_removals(ret, 1);
}

void mesh_cq_removal_end(const struct mesh_cq_removal *removal)
{
	count_removals(removal, -1);
}

bool mesh_cq_is_resizing(const struct mesh_data *data, const struct ibv_cq *cq)
{
	const struct mesh_cq_resize *resize;

	for (resize = data->resizing; resize; resize = resize->next)
		if (resize->cq == cq)
			return true;
	return false;
}

int mesh_sw_cq_reserve(struct mesh_sw_cq *sw_cq, uint32_t n)
{
	size_t want = sw_cq->n + sw_cq->reserved + n;
	struct ibv_wc *larger;

	if (want <= sw_cq->size)
		return 0;
	larger = reallocarray(sw_cq->wcs, want, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	sw_cq->wcs = larger;
	sw_cq->size = want;
	return 0;
}

void mesh_sw_cq_append(struct mesh_cq *cq, const struct ibv_wc *wc)
{
	atomic_store_explicit(&cq->fast, false, memory_order_relaxed);
	if (cq->sw_cq.n < cq->sw_cq.size)
		cq->sw_cq.wcs[cq->sw_cq.n++] = *wc;
}
