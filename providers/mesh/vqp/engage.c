// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "engage.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "vqp_int.h"

/* A batch that is not over within this time fails mesh_walker_engage(): try again later. */
#define BATCH_NS 100000ull

/* Limit of memory per QP that is allocated before a move. */
#define RESERVE_MAX_BYTES 12288

/* data->lock. Threads look at cq->reading.ring only once there is a walker. */
static int open_cq(struct mesh_cq *cq)
{
	if (cq->ex.extended || cq->reading.unreadable)
		return -EOPNOTSUPP;
	if (cq->reading.ring.buf)
		return 0;
	if (mesh_cq_is_resizing(&cq->mc->data, cq->cq))
		return -EBUSY;
	return mesh_mlx5_cq(cq->mc, cq->cq, &cq->reading.ring);
}

static int alloc_staging(struct mesh_walker *walker, const struct mesh_vqp *h)
{
	const struct ibv_qp_cap *cap = &h->made.cap;
	uint32_t max_sge = cap->max_send_sge > cap->max_recv_sge ? cap->max_send_sge : cap->max_recv_sge;
	struct mesh_staged *first = &walker->staged[0], *second = &walker->staged[1];

	first->sges = calloc(max_sge + 1, sizeof(*first->sges));
	first->data = calloc(cap->max_inline_data + 1, 1);
	if (h->recv_cq != h->send_cq)
		second->sges = calloc(cap->max_recv_sge + 1, sizeof(*second->sges));
	return first->sges && first->data && (h->recv_cq == h->send_cq || second->sges) ? 0 : -ENOMEM;
}

static void walker_free(struct mesh_walker *walker)
{
	int i;

	if (!walker)
		return;
	mesh_srqlog_fini(&walker->later);
	for (i = 0; i < 2; i++) {
		free(walker->staged[i].sges);
		free(walker->staged[i].data);
	}
	free(walker);
}

/* A parent domain may have a thread domain: then its queues have no locks, and cannot be read. */
static bool is_read(const struct mesh_vqp *h)
{
	return mesh_pd_underlying(h->qp->pd) == h->qp->pd && mesh_mlx5_known(h->mc);
}

int mesh_walker_open(struct mesh_vqp *h)
{
	struct mesh_walker *walker;
	int err;

	if (!is_read(h) || open_cq(h->send_cq) || open_cq(h->recv_cq))
		return -EOPNOTSUPP;
	walker = calloc(1, sizeof(*walker));
	if (!walker)
		return -ENOMEM;
	err = mesh_mlx5_qp(h->mc, h->qp, &walker->sq, &walker->rq);
	if (!err)
		err = mesh_mlx5_sq_lock(h->mc, h->qp, &walker->lock);
	if (!err)
		err = alloc_staging(walker, h);
	if (err) {
		walker_free(walker);
		return err;
	}
	walker->qpn = h->qp->qp_num;
	walker->tracker = h->tracker;
	h->tracker->walker = walker;
	h->mc->data.n_read++;
	walker->noting = true;
	h->mc->data.n_noted++;
	atomic_fetch_add_explicit(&h->send_cq->reading.n_walkers, 1, memory_order_release);
	atomic_fetch_add_explicit(&h->recv_cq->reading.n_walkers, 1, memory_order_release);
	return 0;
}

void mesh_walker_close(struct mesh_vqp *h)
{
	struct mesh_walker *walker = mesh_walker_of(h);

	if (!walker)
		return;
	h->mc->data.n_read -= !walker->engaged;
	h->mc->data.n_noted -= walker->noting;
	atomic_fetch_sub_explicit(&h->send_cq->reading.n_walkers, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&h->recv_cq->reading.n_walkers, 1, memory_order_relaxed);
	h->tracker->walker = NULL;
	walker_free(walker);
}

void mesh_walker_connected(struct mesh_vqp *h)
{
	struct mesh_data *data = &h->mc->data;
	struct mesh_walker *walker = mesh_walker_of(h);

	if (!walker)
		return;
	mesh_lock(&data->lock);
	mesh_lock(&h->lock);
	data->n_noted -= walker->noting;
	walker->noting = false;
	mesh_recvlog_fini(&h->early.log);
	mesh_data_slots(h->mc);
	mesh_unlock(&h->lock);
	mesh_unlock(&data->lock);
}

/* From now on each completion of this QP is checked, also in the poll that is under way. */
static void slow_down(struct mesh_cq *cq, uint32_t qpn)
{
	struct mesh_cq_qp *qp;

	mesh_cqe_lock(cq);
	atomic_store_explicit(&cq->fast, false, memory_order_relaxed);
	cq->reading.hot_walker = NULL;
	mesh_lock(&cq->lock);
	qp = mesh_qpns_find(&cq->own_qps.qpns, qpn);
	if (qp)
		qp->walker = NULL;
	mesh_unlock(&cq->lock);
	mesh_cqe_unlock(cq);
}

/* Memory for everything that the installed functions may have to store. */
static int get_room(struct mesh_vqp *h, struct mesh_walker *walker)
{
	const struct ibv_qp_cap *cap = &h->made.cap;
	int err;

	mesh_lock(&h->lock);
	err = mesh_vqp_room(h);
	if (!err && !h->tracker->shared && !walker->later.places)
		err = mesh_srqlog_init(&walker->later, cap->max_recv_wr, cap->max_recv_sge ? cap->max_recv_sge : 1);
	mesh_unlock(&h->lock);
	return err;
}

/* Approximate bytes of the send queue, the logs, and twice the receives; rounding up is not counted. */
static size_t room_bytes(const struct ibv_qp_cap *cap)
{
	size_t send = sizeof(struct mesh_send) + cap->max_send_sge * sizeof(struct ibv_sge) + cap->max_inline_data;
	size_t recv = sizeof(struct mesh_srq_recv) + cap->max_recv_sge * sizeof(struct ibv_sge);

	return sizeof(struct mesh_key_places) + 2 * (cap->max_send_wr * send + cap->max_recv_wr * recv);
}

void mesh_walker_reserve(struct mesh_vqp *h)
{
	struct mesh_walker *walker = mesh_walker_of(h);

	if (walker && room_bytes(&h->made.cap) <= RESERVE_MAX_BYTES)
		get_room(h, walker);
}

/*
 * Install the batch functions, which wait for posting.lock, held by the caller. So once libmlx5's lock was free, no batch of
 * libmlx5 can begin. A thread in such a batch can only wait for conn->lock here, so the wait is limited. Return: 0; -EBUSY: there
 * is a batch.
 */
static int begin_batches(struct mesh_vqp *h)
{
	uint64_t until_ns = mesh_now_ns() + BATCH_NS;
	bool busy;

	mesh_lock(&h->lock);
	mesh_wrex_install(h);
	mesh_unlock(&h->lock);
	atomic_thread_fence(memory_order_seq_cst);
	while ((busy = mesh_walker_in_batch(h)) && mesh_now_ns() < until_ns)
		sched_yield();
	if (!busy)
		return 0;
	mesh_lock(&h->lock);
	mesh_wrex_remove(h);
	mesh_unlock(&h->lock);
	return -EBUSY;
}

/* posting.lock */
static void engage(struct mesh_vqp *h, struct mesh_walker *walker)
{
	struct mesh_data *data = &h->mc->data;

	slow_down(h->send_cq, walker->qpn);
	slow_down(h->recv_cq, walker->qpn);
	mesh_lock(&data->lock);
	mesh_lock(&h->lock);
	walker->engaged = true;
	data->n_read--;
	mesh_data_slots(h->mc);
	mesh_unlock(&h->lock);
	mesh_unlock(&data->lock);
}

/* Polls are intercepted already; functions that were put over the plugin's since then call the plugin's. */
static bool can_post(struct mesh_context *mc)
{
	bool can;

	mesh_lock(&mc->data.lock);
	can = mesh_data_takes(mc, MESH_POSTING);
	mesh_unlock(&mc->data.lock);
	return can;
}

int mesh_walker_prepare(struct mesh_vqp *h)
{
	struct mesh_walker *walker = mesh_walker_of(h);

	if (!walker || walker->engaged)
		return 0;
	return can_post(h->mc) ? get_room(h, walker) : -EBUSY;
}

int mesh_walker_engage(struct mesh_vqp *h)
{
	struct mesh_walker *walker = mesh_walker_of(h);
	int err;

	if (!walker || walker->engaged)
		return 0;
	err = mesh_walker_prepare(h);
	if (err)
		return err;
	mesh_lock(&h->posting.lock);
	err = begin_batches(h);
	if (!err)
		engage(h, walker);
	mesh_unlock(&h->posting.lock);
	return err;
}
