// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdlib.h>
#include <string.h>

#include "heldint.h"
#include "reader.h"
#include "srq.h"
#include "ud.h"

/*
 * The program's threads read these places without any order, in functions that libibverbs' headers put into the program.
 * An aligned pointer is written whole; a sanitizer that watches the program must not take it for a race.
 */
__attribute__((no_sanitize("thread"), noinline)) static void put_polling(struct ibv_context_ops *ops,
									  const struct mesh_context *mc, bool ours)
{
	__atomic_store_n(&ops->poll_cq, ours ? mesh_poll_cq : mc->poll_cq, __ATOMIC_RELEASE);
	__atomic_store_n(&ops->req_notify_cq, ours ? mesh_req_notify_cq : mc->req_notify_cq, __ATOMIC_RELEASE);
}

__attribute__((no_sanitize("thread"), noinline)) static void put_posting(struct ibv_context_ops *ops,
									  const struct mesh_context *mc, bool sends,
									  bool receives, bool shared)
{
	__atomic_store_n(&ops->post_send, sends ? mesh_post_send : mc->post_send, __ATOMIC_RELEASE);
	__atomic_store_n(&ops->post_recv, receives ? mesh_post_recv : mc->post_recv, __ATOMIC_RELEASE);
	__atomic_store_n(&ops->post_srq_recv, shared ? mesh_post_srq_recv : mc->post_srq_recv, __ATOMIC_RELEASE);
}

void mesh_data_slots(struct mesh_context *mc)
{
	struct ibv_context *verbs = atomic_load_explicit(&mc->verbs, memory_order_relaxed);
	const struct mesh_data *data = &mc->data;

	/* A used CQ may have completions that only our functions show, or hide. */
	put_polling(&verbs->ops, mc, data->n_held || data->n_used_cqs || mesh_ud_active(mc));
	put_posting(&verbs->ops, mc, data->n_held > data->n_read || mesh_ud_active(mc),
		    data->n_held > data->n_read || data->n_noted, data->n_srqs);
}

static struct mesh_held *held_new(struct mesh_context *mc)
{
	struct mesh_held *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->mc = mc;
	pthread_mutex_init(&h->post_lock, NULL);
	pthread_mutex_init(&h->lock, NULL);
	h->next_made = mc->data.all;
	mc->data.all = h;
	return h;
}

struct mesh_held *mesh_held_claim(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_data *data = &mc->data;
	struct mesh_held *h = data->free;

	if (h)
		data->free = h->next_free;
	else
		h = held_new(mc);
	if (!h)
		return NULL;
	/* Somebody who found the record when it was another QP's may be looking. */
	pthread_mutex_lock(&h->lock);
	h->qp = qp;
	h->mode = MESH_HELD_NOTING;
	if (mesh_map_put(&data->qps, qp, h)) {
		mesh_held_release(h);
		pthread_mutex_unlock(&h->lock);
		return NULL;
	}
	pthread_mutex_unlock(&h->lock);
	return h;
}

void mesh_held_release(struct mesh_held *h)
{
	mesh_last_wqe_forget(h);
	h->ended = false;
	mesh_recvlog_fini(&h->log);
	mesh_sendq_fini(&h->queue);
	mesh_reader_close(h);
	mesh_guard_free(h->guard);
	h->guard = NULL;
	free(h->sges);
	h->sges = NULL;
	h->qp = NULL;
	h->mode = MESH_HELD_FREE;
	h->quiet = MESH_QUIET_NO;
	h->ops = NULL;
	h->arg = NULL;
	h->send_cq = h->recv_cq = NULL;
	h->srq = NULL;
	h->now = h->next = (struct mesh_shadow){0};
	h->n_new_receives = 0;
	h->poisoned = false;
	h->n_at_base = 0;
	h->hides_base = false;
	h->logged_base = false;
	h->unwoken = false;
	h->stashing = false;
	atomic_store_explicit(&h->backlog, false, memory_order_relaxed);
	atomic_store_explicit(&h->consumed, false, memory_order_relaxed);
	free(h->keys);
	h->keys = NULL;
	h->next_free = h->mc->data.free;
	h->mc->data.free = h;
}

struct ibv_pd *mesh_data_pd(struct mesh_context *mc)
{
	if (!mc->data.pd)
		mc->data.pd = mesh_root.lib.verbs.alloc_pd(atomic_load_explicit(&mc->verbs, memory_order_relaxed));
	return mc->data.pd;
}

void mesh_data_open(struct mesh_context *mc)
{
	memset(&mc->data, 0, sizeof(mc->data));
	pthread_mutex_init(&mc->data.lock, NULL);
	pthread_mutex_init(&mc->data.srq_table_lock, NULL);
	mesh_last_wqe_open(mc);
}

static void close_cqs(struct mesh_data *data)
{
	struct mesh_cq *cq;

	while ((cq = mesh_map_any(&data->cqs))) {
		mesh_map_drop(&data->cqs, cq->cq);
		mesh_cq_free(cq);
	}
}

void mesh_data_close(struct mesh_context *mc)
{
	struct mesh_data *data = &mc->data;
	struct mesh_held *h;

	for (h = data->all; h; h = h->next_made)
		if (h->mode > MESH_HELD_NOTING)
			mesh_held_destroy(h);
	mesh_leftovers_bury(mc, NULL, true);
	mesh_last_wqe_close(mc);
	mesh_srqs_close(mc);
	close_cqs(data);
	if (data->pd)
		mesh_root.lib.verbs.dealloc_pd(data->pd);
	while ((h = data->all)) {
		data->all = h->next_made;
		mesh_recvlog_fini(&h->log);
		free(atomic_load_explicit(&h->wrex, memory_order_relaxed));
		pthread_mutex_destroy(&h->lock);
		pthread_mutex_destroy(&h->post_lock);
		free(h);
	}
	mesh_map_fini(&data->qps);
	mesh_map_fini(&data->cqs);
	mesh_map_fini(&data->srqs);
	mesh_map_fini(&data->extended);
	pthread_mutex_destroy(&data->srq_table_lock);
	pthread_mutex_destroy(&data->lock);
}
