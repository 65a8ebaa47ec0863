// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fastcq.h"
#include "heldint.h"
#include "reader.h"
#include "srq.h"
#include "ud.h"

/* ---- the public places ------------------------------------------------------------------------------------------ */

#define PLACES(X) X(poll_cq) X(req_notify_cq) X(post_send) X(post_recv) X(post_srq_recv)

/*
 * The program's threads read these places without any order, in functions that libibverbs' headers put into the program.
 * An aligned pointer is written whole; a sanitizer that watches the program must not take it for a race.
 *
 * What is neither the base's nor ours stays: somebody else (a tracer, a fault injector) has put it there, and would not be
 * called any more. If it was put over ours, it calls ours, which call the base where there is nothing to do.
 */
__attribute__((no_sanitize("thread"), noinline)) static void put(struct ibv_context_ops *ops, const struct mesh_context *mc,
								  unsigned int ours)
{
#define X(op)                                                                                                       \
	{                                                                                                           \
		__typeof__(ops->op) from = ours & MESH_AT_##op ? mc->op : mesh_##op;                                \
		__typeof__(ops->op) to = ours & MESH_AT_##op ? mesh_##op : mc->op;                                  \
                                                                                                                    \
		__atomic_compare_exchange_n(&ops->op, &from, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);        \
	}
	PLACES(X)
#undef X
}

/* Return: those that are neither the base's nor ours. */
__attribute__((no_sanitize("thread"), noinline)) static unsigned int intercepted(const struct mesh_context *mc)
{
	const struct ibv_context_ops *ops = &atomic_load_explicit(&mc->verbs, memory_order_relaxed)->ops;
	unsigned int places = 0;

#define X(op)                                                                                                       \
	{                                                                                                           \
		__typeof__(ops->op) now = __atomic_load_n(&ops->op, __ATOMIC_RELAXED);                              \
                                                                                                                    \
		if (now != mc->op && now != mesh_##op)                                                              \
			places |= MESH_AT_##op;                                                                     \
	}
	PLACES(X)
#undef X
	return places;
}

static void log_intercepted(const struct mesh_context *mc, unsigned int places)
{
	char names[80] = "";

#define X(op)                         \
	if (places & MESH_AT_##op)    \
		strcat(names, " " #op);
	PLACES(X)
#undef X
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "%s: posts or polls of this context are intercepted by something else in this process (%s): that stays, and what "
		    "would need ours in its place is left as the program asked",
		    mc->device, names + 1);
}

bool mesh_data_takes(const struct mesh_context *mc, unsigned int places)
{
	unsigned int others = intercepted(mc) & places;

	if (others)
		log_intercepted(mc, others);
	return !others;
}

const char *mesh_data_why_not(const struct mesh_context *mc)
{
	return intercepted(mc) & MESH_FOR_CONNECTIONS ? "posts or polls of its context are intercepted by something else" : NULL;
}

const char *mesh_held_why_busy(struct mesh_context *mc, struct ibv_qp *qp)
{
	const char *why = mesh_data_why_not(mc);

	if (why)
		return why;
	return mesh_mlx5_builds(mc, qp) ? "it was made for work requests that are not seen here (mlx5dv_wr_*, ibv_wr_atomic_write, ibv_wr_flush)" : mesh_cq_why_taken;
}

void mesh_data_slots(struct mesh_context *mc)
{
	struct ibv_context *verbs = atomic_load_explicit(&mc->verbs, memory_order_relaxed);
	const struct mesh_data *data = &mc->data;
	unsigned int ours = 0;

	/* A used CQ may have completions that only our functions show, or hide. */
	if (data->n_held || data->n_used_cqs || mesh_ud_active(mc))
		ours |= MESH_POLLING;
	if (data->n_held > data->n_read || mesh_ud_active(mc))
		ours |= MESH_AT_post_send;
	if (data->n_held > data->n_read || data->n_noted)
		ours |= MESH_AT_post_recv;
	if (data->n_srqs)
		ours |= MESH_AT_post_srq_recv;
	put(&verbs->ops, mc, ours);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

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
	atomic_store_explicit(&h->stop_wanted, false, memory_order_relaxed);
	h->n_at_base = 0;
	h->checked_lkey = h->used_rkey = 0;
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
		mesh_fast_drop(cq->cq);
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
