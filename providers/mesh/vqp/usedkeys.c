// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdlib.h>

#include "vqp_failover.h"
#include "pdstay.h"
#include "srq.h"
#include "vqp_int.h"

/*
 * Checks the keys of a queue pair's recent work before the QP moves: its next work will use the same keys.
 *
 * A queue of mlx5 keeps a work request until its place is reused, so completed work can be read, too. Where the plugin intercepts
 * posts, keys were checked at that time (post.c).
 */

/* Number of send WQE blocks, and of receives, that are checked, counted from the last. */
#define LOOKED_BACK 256u

#define N_KNOWN 16u /* power of two */

struct look {
	struct mesh_vqp *h;
	uint32_t known[N_KNOWN]; /* keys that were checked already; hashed */
};

static void look_at(struct look *look, const struct ibv_sge *sges, int n)
{
	uint32_t *known;
	int i;

	for (i = 0; i < n; i++) {
		known = &look->known[sges[i].lkey >> 8 & (N_KNOWN - 1)];
		if (!sges[i].length || *known == sges[i].lkey)
			continue;
		*known = sges[i].lkey;
		mesh_pd_check_key(look->h->qp->pd, MESH_BY_LKEY, sges[i].lkey);
	}
}

static uint32_t at_most(uint32_t n)
{
	return n < LOOKED_BACK ? n : LOOKED_BACK;
}

/*
 * ---- mlx5's own queues; vqp->lock, the send CQ's CQE lock is held
 * --------------------------------------------------------
 */

/* Read the send that ends @back blocks before the end of the queue, if one begins there. */
static bool read_send(const struct mesh_vqp *h, uint32_t back, struct ibv_sge *sges, struct mv_wr *ret)
{
	const struct mesh_walker *walker = h->tracker->walker;
	uint16_t at = (uint16_t)(mv_mlx5_sq_end(&walker->sq) - back), next;

	return !mv_mlx5_sq_get(&walker->sq, walker->qpn, at, h->tracker->sends.log.max_sge,
			       h->tracker->sends.log.max_inline_bytes, sges, NULL, ret, &next);
}

static void look_at_queues(struct look *look)
{
	struct mesh_vqp *h = look->h;
	const struct mv_mlx5_ring *rq = &h->tracker->walker->rq;
	uint32_t n = at_most(h->tracker->walker->sq.n_wqes), i;
	struct mv_wr wr;
	int n_sges;

	for (i = 1; i <= n; i++)
		if (read_send(h, i, h->keys.sges, &wr) && !(wr.wr.send_flags & IBV_SEND_INLINE))
			look_at(look, h->keys.sges, wr.wr.num_sge);
	n = h->tracker->shared ? 0 : at_most(rq->n_wqes);
	if (n > mv_mlx5_rq_end(rq))
		n = mv_mlx5_rq_end(rq);
	for (i = 0; i < n; i++) {
		n_sges = mv_mlx5_rq_read(rq, mv_mlx5_rq_end(rq), n, i, h->made.cap.max_recv_sge, h->keys.sges);
		look_at(look, h->keys.sges, n_sges);
	}
}

/* ---- logs ------------------------------------------------------------------------------------------------------------ */

static void look_at_receives(struct look *look, struct mesh_srqlog *log)
{
	const struct mesh_srq_recv *recv;
	uint32_t i;

	for (i = 0; i < log->n; i++) {
		recv = mesh_srqlog_at(log, i);
		if (!recv->gone)
			look_at(look, recv->sges, recv->num_sge);
	}
}

/* vqp->lock */
static void look_at_logs(struct look *look, void *data)
{
	struct mesh_vqp *h = look->h;
	const struct mv_wrlog *log = &h->tracker->sends.log;
	struct mv_wr wr;
	size_t i;

	for (i = 0; i < mv_wrlog_count(log); i++)
		if (!mv_wrlog_get(log, i, h->keys.sges, data, &wr) && !(wr.wr.send_flags & IBV_SEND_INLINE))
			look_at(look, h->keys.sges, wr.wr.num_sge);
	look_at_receives(look, &h->tracker->receives);
}

static void look_at_srq(struct look *look, struct mesh_srq *srq)
{
	if (!srq)
		return;
	mesh_lock(&srq->lock);
	look_at_receives(look, &srq->lower.log);
	look_at_receives(look, &srq->reserve.log);
	mesh_unlock(&srq->lock);
}

void mesh_failover_check_keys(struct mesh_vqp *h)
{
	struct look look = {.h = h};
	void *data = malloc(h->made.cap.max_inline_data + 1); /* without memory, logged sends are not checked */

	look_at_srq(&look, h->srq);
	mesh_cqe_lock(h->send_cq);
	mesh_lock(&h->lock);
	if (h->mode == MESH_VQP_TRACKED && h->tracker && mesh_tracker_reads(h->tracker))
		look_at_queues(&look);
	if (h->mode == MESH_VQP_TRACKED && h->tracker && data)
		look_at_logs(&look, data);
	mesh_unlock(&h->lock);
	mesh_cqe_unlock(h->send_cq);
	free(data);
}

/* ---- keys of the peer ---------------------------------------------------------------------------------------- */

size_t mesh_failover_past_keys(struct mesh_vqp *h, uint32_t ret[MESH_FAILOVER_KEYS], size_t n)
{
	struct mv_wr wr;
	uint32_t blocks, i;

	mesh_cqe_lock(h->send_cq);
	mesh_lock(&h->lock);
	blocks = h->mode == MESH_VQP_TRACKED && h->tracker &&
		 mesh_tracker_reads(h->tracker) ? at_most(h->tracker->walker->sq.n_wqes) : 0;
	if (h->mode == MESH_VQP_TRACKED && h->keys.used_rkey && n < MESH_FAILOVER_KEYS &&
	    (!n || ret[0] != h->keys.used_rkey))
		ret[n++] = h->keys.used_rkey;
	for (i = 1; i <= blocks && n < MESH_FAILOVER_KEYS; i++)
		if (read_send(h, i, NULL, &wr))
			n = mesh_vqp_note_key(&wr.wr, ret, n);
	mesh_unlock(&h->lock);
	mesh_cqe_unlock(h->send_cq);
	return n;
}
