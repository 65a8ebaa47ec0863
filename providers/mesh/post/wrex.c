// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wrexint.h"

#define GIVE_WAY_US 3000u /* three times the interval of threads that want to stop posting */

/* Batches: begin and end, and the functions that are installed in struct ibv_qp_ex. */

/* Pause between batches, if another thread wants to stop posting: back-to-back batches would keep it out for ever. */
static void give_way(struct mesh_vqp *h)
{
	int cancel;

	if (!atomic_load_explicit(&h->posting.stop_wanted, memory_order_relaxed) ||
	    !atomic_exchange_explicit(&h->posting.stop_wanted, false, memory_order_relaxed))
		return;
	cancel = mesh_cancel_off(); /* on a bare HCA this is no cancellation point */
	usleep(GIVE_WAY_US);
	mesh_cancel_restore(cancel);
}

MV_LOCKS_UNCHECKED static void mesh_wr_start(struct ibv_qp_ex *qp)
{
	struct mesh_vqp *h = vqp_of(qp);
	struct mesh_wrex *w;
	bool ours, left;

	if (!h) {
		qp->wr_start(qp); /* became passthrough a moment ago: the lower provider's function is installed again */
		return;
	}
	give_way(h);
	mesh_lock(&h->posting.lock);
	mesh_lock(&h->lock);
	w = atomic_load_explicit(&h->posting.wrex, memory_order_relaxed);
	ours = h->qp == &qp->qp_base && w && w->installed;
	left = ours && mesh_post_is_left(h);
	if (ours && !left) {
		if (h->queue.n)
			mesh_post_drain(h);
		w->queue = h->queue;
		w->left = false;
		w->end = h->queue.head + h->queue.n;
		if (w->end >= h->queue.size)
			w->end -= h->queue.size;
		w->room = h->queue.size - h->queue.n;
		w->n = 0;
		w->current = NULL;
		w->err = 0;
		atomic_store_explicit(&w->builder, (uintptr_t)pthread_self(), memory_order_relaxed);
	}
	mesh_unlock(&h->lock);
	if (ours && !left) {
		mesh_lock_lend(&h->posting.lock);
		return;
	}
	mesh_unlock(&h->posting.lock);
	(left ? w->lower.wr_start : qp->wr_start)(qp);
}

/* vqp->lock */
static void end_batch(struct mesh_wrex *w)
{
	if (w->left)
		mesh_sendq_fini(&w->queue);
	w->left = false;
	atomic_store_explicit(&w->builder, 0, memory_order_relaxed);
}

/* Copy the batch to the queue that has replaced the one in which it was built. vqp->lock. Return: 0 or errno. */
static int carry_over(struct mesh_vqp *h, const struct mesh_wrex *w)
{
	uint32_t had = h->queue.n, i;
	int err = 0;

	for (i = 0; i < w->n && !err; i++)
		err = mesh_sendq_push(&h->queue, &place_of(w, i)->wr);
	h->queue.n = had; /* mesh_post_append() adds all or none */
	return err;
}

/* Post sends that waited for the end of a batch of the lower provider. */
static void drain(struct mesh_vqp *h)
{
	mesh_lock(&h->lock);
	if (h->queue.n)
		mesh_post_drain(h);
	mesh_unlock(&h->lock);
}

MV_LOCKS_UNCHECKED static int mesh_wr_complete(struct ibv_qp_ex *qp)
{
	struct mesh_vqp *h = vqp_of(qp);
	struct mesh_wrex *w = atomic_load_explicit(&h->posting.wrex, memory_order_relaxed);
	bool fails = false;
	int err;

	if (of_lower(qp)) {
		err = w->lower.wr_complete(qp);
		drain(h);
		return err;
	}
	err = w->err;
	if (!err && !mesh_vqp_takes_sends(h))
		err = EINVAL; /* as mlx5 */
	mesh_lock(&h->lock);
	if (!err && w->left)
		err = carry_over(h, w);
	if (!err) {
		mesh_post_append(h, w->n);
		fails = mesh_vqp_fails(h);
	}
	end_batch(w);
	mesh_unlock(&h->lock);
	mesh_unlock(&h->posting.lock);
	if (fails)
		mesh_post_fails(h);
	return err;
}

MV_LOCKS_UNCHECKED static void mesh_wr_abort(struct ibv_qp_ex *qp)
{
	const struct mesh_wrex *lower = of_lower(qp);
	struct mesh_vqp *h = vqp_of(qp);

	if (lower) {
		lower->lower.wr_abort(qp);
		drain(h);
		return;
	}
	mesh_lock(&h->lock);
	end_batch(atomic_load_explicit(&h->posting.wrex, memory_order_relaxed));
	mesh_unlock(&h->lock);
	mesh_unlock(&h->posting.lock);
}

static uintptr_t builder_of(const struct mesh_vqp *h)
{
	struct mesh_wrex *w = atomic_load_explicit(&h->posting.wrex, memory_order_acquire);

	return w ? atomic_load_explicit(&w->builder, memory_order_relaxed) : 0;
}

bool mesh_vqp_in_batch(const struct mesh_vqp *h)
{
	return builder_of(h);
}

bool mesh_vqp_in_own_batch(const struct mesh_vqp *h)
{
	return builder_of(h) == (uintptr_t)pthread_self();
}

void mesh_wrex_leave_queue(struct mesh_vqp *h)
{
	struct mesh_wrex *w = atomic_load_explicit(&h->posting.wrex, memory_order_relaxed);

	if (!mesh_vqp_in_batch(h) || w->left) {
		mesh_sendq_fini(&h->queue);
		return;
	}
	w->left = true;
	h->queue = (struct mesh_sendq){0};
}

int mesh_wrex_alloc(struct mesh_vqp *h)
{
	struct mesh_wrex *w = atomic_load_explicit(&h->posting.wrex, memory_order_relaxed);

	if (w || !mesh_root.lib.verbs.qp_to_qp_ex(h->qp))
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	atomic_store_explicit(&h->posting.wrex, w, memory_order_release);
	return 0;
}

/* The program's threads read these pointers without ordering; see data.c. */
__attribute__((no_sanitize("thread"), noinline)) static void put_functions(struct ibv_qp_ex *qp)
{
	/* Functions that the provider lacks stay NULL. wr_start is last, so that a batch of the plugin finds all of them. */
#define X(f)                                                                                                 \
	if (qp->f)                                                                                           \
		__atomic_store_n(&qp->f, mesh_##f, __ATOMIC_RELEASE);
	WR_FUNCTIONS(X)
#undef X
}

/* wr_start last here, too: a batch of the lower provider's finds none of ours, which are lost without the record. */
__attribute__((no_sanitize("thread"), noinline)) static void put_back_functions(struct ibv_qp_ex *qp, const struct mesh_wrex *w)
{
#define X(f) __atomic_store_n(&qp->f, w->lower.f, __ATOMIC_RELEASE);
	WR_FUNCTIONS(X)
#undef X
}

void mesh_wrex_install(struct mesh_vqp *h)
{
	struct ibv_qp_ex *qp = mesh_root.lib.verbs.qp_to_qp_ex(h->qp);
	struct mesh_wrex *w = atomic_load_explicit(&h->posting.wrex, memory_order_relaxed);

	if (!qp || w->installed)
		return;
#define X(f) w->lower.f = qp->f;
	WR_FUNCTIONS(X)
#undef X
	atomic_thread_fence(memory_order_release);
	put_functions(qp);
	w->installed = true;
}

void mesh_wrex_remove(struct mesh_vqp *h)
{
	struct mesh_wrex *w = atomic_load_explicit(&h->posting.wrex, memory_order_relaxed);

	if (!w || !w->installed)
		return;
	put_back_functions(mesh_root.lib.verbs.qp_to_qp_ex(h->qp), w);
	w->installed = false;
}

void mesh_wrex_changed(struct mesh_vqp *h)
{
	struct mesh_wrex *w = atomic_load_explicit(&h->posting.wrex, memory_order_relaxed);
	struct ibv_qp_ex *qp;

	if (!w || !w->installed)
		return;
	qp = mesh_root.lib.verbs.qp_to_qp_ex(h->qp);
#define X(f)                                                                                                 \
	if (qp->f && qp->f != mesh_##f) {                                              \
		w->lower.f = qp->f;                                                                           \
		qp->f = mesh_##f;                                                                            \
	}
	WR_FUNCTIONS(X)
#undef X
}
