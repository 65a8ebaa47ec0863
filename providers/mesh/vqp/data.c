// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fastcq.h"
#include "mlx5_wr_walker.h"
#include "qpmade.h"
#include "srq.h"
#include "ud.h"
#include "vqp_int.h"

const char *mesh_vqp_why_busy(struct mesh_context *mc, struct ibv_qp *qp)
{
	const char *why = mesh_data_why_not(mc);

	if (!why)
		why = mesh_cq_why_stays(mc, qp->send_cq);
	if (!why)
		why = mesh_cq_why_stays(mc, qp->recv_cq);
	if (!why && mesh_mlx5_builds(mc, qp))
		why = "it was made for work requests that are not seen here (mlx5dv_wr_*, ibv_wr_atomic_write, ibv_wr_flush)";
	if (!why)
		why = mesh_qp_stays(mc, qp);
	return why ? why : mesh_cq_why_taken;
}

static struct mesh_vqp *held_new(struct mesh_context *mc)
{
	struct mesh_vqp *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->mc = mc;
	mesh_lock_init(&h->posting.lock);
	mesh_lock_init(&h->lock);
	h->lists.next_made = mc->data.all;
	mc->data.all = h;
	return h;
}

struct mesh_vqp *mesh_vqp_get_free(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_data *data = &mc->data;
	struct mesh_vqp *h = data->free;

	if (h)
		data->free = h->lists.next_free;
	else
		h = held_new(mc);
	if (!h)
		return NULL;
	/* A thread that found the record as that of another QP may still be using it. */
	mesh_lock(&h->lock);
	h->qp = qp;
	h->mode = MESH_VQP_RX_RECORD;
	if (mesh_map_put(&data->qps, qp, h)) {
		mesh_vqp_release(h);
		mesh_unlock(&h->lock);
		return NULL;
	}
	mesh_unlock(&h->lock);
	return h;
}

void mesh_vqp_release(struct mesh_vqp *h)
{
	mesh_last_wqe_forget(h);
	h->failure = (struct mesh_vqp_failure){0};
	mesh_recvlog_fini(&h->early.log);
	h->early.n_at_lower = 0;
	h->early.hides_lower = false;
	mesh_sendq_fini(&h->queue);
	mesh_walker_close(h);
	mesh_tracker_free(h->tracker);
	h->tracker = NULL;
	free(h->keys.sges);
	free(h->keys.places);
	h->keys = (struct mesh_vqp_keys){0};
	h->qp = NULL;
	h->mode = MESH_VQP_FREE;
	h->client = (struct mesh_vqp_client){0};
	h->send_cq = h->recv_cq = NULL;
	h->srq = NULL;
	h->now = h->next.shadow = (struct mesh_shadow){0};
	h->paused = (struct mesh_vqp_paused){0};
	atomic_store_explicit(&h->posting.stop_wanted, false, memory_order_relaxed);
	h->logged_lower = false;
	h->unwoken = false;
	h->parity = (struct mesh_vqp_parity){0};
	h->flushing.on = false;
	atomic_store_explicit(&h->flags.backlog, false, memory_order_relaxed);
	atomic_store_explicit(&h->flags.consumed, false, memory_order_relaxed);
	h->lists.next_free = h->mc->data.free;
	h->mc->data.free = h;
}

void mesh_data_open(struct mesh_context *mc)
{
	memset(&mc->data, 0, sizeof(mc->data));
	mesh_lock_init(&mc->data.lock);
	mesh_lock_init(&mc->data.srq_table_lock);
	mesh_lock_init(&mc->data.made_lock);
	mesh_last_wqe_open(mc);
}

static void close_cqs(struct mesh_data *data)
{
	struct mesh_cq *cq;

	while ((cq = mesh_map_any(&data->cqs))) {
		mesh_map_drop(&data->cqs, cq->cq);
		mesh_fast_drop(cq->cq);
		mesh_cq_free(cq);
	}
}

void mesh_data_close(struct mesh_context *mc)
{
	struct mesh_data *data = &mc->data;
	struct mesh_vqp *h;

	for (h = data->all; h; h = h->lists.next_made)
		if (h->mode > MESH_VQP_RX_RECORD)
			mesh_vqp_destroy(h);
	mesh_reaper_run(mc, NULL, true);
	mesh_last_wqe_close(mc);
	mesh_srqs_close(mc);
	close_cqs(data);
	if (data->pd)
		mesh_root.lib.verbs.dealloc_pd(data->pd);
	while ((h = data->all)) {
		data->all = h->lists.next_made;
		mesh_recvlog_fini(&h->early.log);
		free(atomic_load_explicit(&h->posting.wrex, memory_order_relaxed));
		mesh_lock_fini(&h->lock);
		mesh_lock_fini(&h->posting.lock);
		free(h);
	}
	mesh_qps_forget(mc);
	mesh_map_fini(&data->qps);
	mesh_map_fini(&data->cqs);
	mesh_map_fini(&data->srqs);
	mesh_map_fini(&data->extended);
	mesh_map_fini(&data->moderated);
	mesh_lock_fini(&data->srq_table_lock);
	mesh_lock_fini(&data->lock);
}
