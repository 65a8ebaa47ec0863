// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "heldint.h"
#include "srq.h"

/*
 * Shadows that are not needed any more, and cannot be destroyed at once because a thread may be between start_poll and end_poll
 * of one of their CQs (shadow.c). They are destroyed when that is over, or before the program destroys an object that they use.
 */

#define LOOK_AGAIN_US 100

struct mesh_leftover *mesh_leftover_init(struct mesh_shadow *shadow, uint32_t send_wrs, uint32_t recv_wrs)
{
	struct mesh_leftover *leftover = shadow->leftover;

	leftover->qp = shadow->qp;
	leftover->spd = shadow->spd;
	leftover->send_cq = shadow->send_cq;
	leftover->recv_cq = shadow->recv_cq;
	leftover->home = shadow->home;
	leftover->send_wrs = send_wrs;
	leftover->recv_wrs = recv_wrs;
	mesh_shadow_cq_disown(leftover->send_cq, leftover->qp->qp_num);
	mesh_shadow_cq_disown(leftover->recv_cq, leftover->qp->qp_num);
	*shadow = (struct mesh_shadow){0};
	return leftover;
}

void mesh_leftover_leave(struct mesh_leftover *leftover)
{
	atomic_fetch_add_explicit(&leftover->send_cq->away, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&leftover->recv_cq->away, 1, memory_order_relaxed);
}

/* The CQ is polled again. A thread that waits for completion events may have been woken meanwhile, and found nothing. */
static void come_back(struct mesh_shadow_cq *scq)
{
	if (atomic_fetch_sub_explicit(&scq->away, 1, memory_order_seq_cst) == 1 &&
	    atomic_exchange_explicit(&scq->missed, false, memory_order_seq_cst))
		mesh_cq_notify(scq->owner);
}

static void destroy_qp(struct mesh_leftover *leftover)
{
	uint32_t qpn = leftover->qp->qp_num;

	if (mesh_rail_intact(leftover->spd->rail))
		mesh_root.lib.verbs.destroy_qp(leftover->qp); /* also drops its completions from the CQs */
	/* After destroy_qp(): receives taken from an SRQ, and polled meanwhile, have to be counted. */
	mesh_shadow_cq_remove(leftover->send_cq, qpn);
	mesh_shadow_cq_remove(leftover->recv_cq, qpn);
	come_back(leftover->send_cq);
	come_back(leftover->recv_cq);
}

/* Give back places in its CQs, and its SRQ. */
static void give_back(struct mesh_leftover *leftover)
{
	mesh_shadow_cq_unreserve(leftover->send_cq, leftover->send_wrs, NULL);
	mesh_shadow_cq_unreserve(leftover->recv_cq, leftover->recv_wrs, leftover->home);
	if (leftover->home)
		mesh_srq_leave_shadow(leftover->home);
}

static void run_destroy(struct mesh_device_job *job)
{
	struct mesh_leftover *leftover = (struct mesh_leftover *)job;
	struct mesh_pd *spd = leftover->spd;

	destroy_qp(leftover);
	give_back(leftover);
	free(leftover);
	mesh_pd_put(spd);
}

void mesh_leftover_destroy(struct mesh_leftover *leftover)
{
	mesh_pd_ref(leftover->spd);
	leftover->job.run = run_destroy;
	if (leftover->home)
		run_destroy(&leftover->job);
	else
		mesh_device_do(leftover->spd->rail->commands, &leftover->job);
}

void mesh_leftover_add(struct mesh_leftover *leftover)
{
	struct mesh_context *mc = leftover->send_cq->owner->mc;
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct mesh_data *data = &mc->data;

	/* Stops all receiving. No transition to ERR, also from INIT, takes the lock of a CQ. */
	if (mesh_rail_intact(leftover->spd->rail))
		mesh_root.lib.verbs.modify_qp(leftover->qp, &err, IBV_QP_STATE);
	mesh_pd_ref(leftover->spd);
	mesh_lock(&data->lock);
	leftover->next = data->leftovers;
	data->leftovers = leftover;
	atomic_fetch_add_explicit(&data->n_leftovers, 1, memory_order_relaxed);
	mesh_unlock(&data->lock);
	mesh_leftovers_bury(mc, NULL, false); /* the poll may be over */
}

static bool is_of(const struct mesh_leftover *leftover, const struct mesh_cq *cq)
{
	return !cq || leftover->send_cq->owner == cq || leftover->recv_cq->owner == cq;
}

/* @ret_others: another thread works on some leftovers */
static struct mesh_leftover *claim(struct mesh_data *data, const struct mesh_cq *cq, bool *ret_others)
{
	struct mesh_leftover *l, *mine = NULL;

	*ret_others = false;
	mesh_lock(&data->lock);
	for (l = data->leftovers; l; l = l->next) {
		if (!is_of(l, cq))
			continue;
		if (l->busy) {
			*ret_others = true;
			continue;
		}
		l->busy = true;
		l->next_mine = mine;
		mine = l;
	}
	mesh_unlock(&data->lock);
	return mine;
}

static void unclaim(struct mesh_data *data, struct mesh_leftover *leftover)
{
	mesh_lock(&data->lock);
	leftover->busy = false;
	mesh_unlock(&data->lock);
}

static void unlist(struct mesh_data *data, const struct mesh_leftover *leftover)
{
	struct mesh_leftover **at;

	mesh_lock(&data->lock);
	for (at = &data->leftovers; *at != leftover; at = &(*at)->next)
		;
	*at = leftover->next;
	atomic_fetch_sub_explicit(&data->n_leftovers, 1, memory_order_relaxed);
	mesh_unlock(&data->lock);
}

static bool freeze(struct mesh_cq *cq, bool all)
{
	return all ? mesh_cq_freeze(cq) : mesh_cq_try_freeze(cq);
}

/* Return: true: it can be destroyed now. */
static bool may_go(struct mesh_leftover *leftover, bool all)
{
	struct mesh_cq *a = leftover->send_cq->owner, *b = leftover->recv_cq->owner;
	bool frozen_a = freeze(a, all), frozen_b = a != b && freeze(b, all);
	bool now = all || (frozen_a && (frozen_b || a == b));

	if (now)
		mesh_leftover_leave(leftover);
	mesh_cq_thaw(b, frozen_b);
	mesh_cq_thaw(a, frozen_a);
	return now;
}

static void bury(struct mesh_data *data, struct mesh_leftover *leftover, bool all)
{
	struct mesh_pd *spd = leftover->spd;

	if (!may_go(leftover, all)) {
		unclaim(data, leftover);
		return;
	}
	unlist(data, leftover);
	mesh_leftover_destroy(leftover);
	mesh_pd_put(spd);
}

void mesh_leftovers_bury(struct mesh_context *mc, const struct mesh_cq *cq, bool all)
{
	struct mesh_data *data = &mc->data;
	struct mesh_leftover *l, *rest;
	int saved_errno = errno, cancel = mesh_cancel_off(); /* waits for a CQ with the lock of another held */
	bool others = true;

	while (others && atomic_load_explicit(&data->n_leftovers, memory_order_relaxed)) {
		for (l = claim(data, cq, &others); l; l = rest) {
			rest = l->next_mine;
			bury(data, l, all);
		}
		if (!all)
			break;
		if (others)
			usleep(LOOK_AGAIN_US);
	}
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

/* QPs of srqloop.c have no record. The event is not acknowledged yet, so @qp still exists. */
void mesh_leftover_last_wqe(const struct ibv_qp *qp)
{
	struct mesh_leftover *record = qp->qp_context != &mesh_own_qp ? qp->qp_context : NULL;

	if (record)
		atomic_store_explicit(&record->last_wqe, true, memory_order_release);
}
