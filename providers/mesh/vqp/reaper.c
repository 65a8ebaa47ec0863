// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "srq.h"
#include "vqp_int.h"

/*
 * Shadows that are not needed any more, and cannot be destroyed at once because a thread may be between start_poll and end_poll
 * of one of their CQs (shadow.c). They are destroyed when that is over, or before the program destroys an object that they use.
 */

#define LOOK_AGAIN_US 100

struct mesh_reap_entry *mesh_reap_entry_init(struct mesh_shadow *shadow, uint32_t send_wrs, uint32_t recv_wrs)
{
	struct mesh_reap_entry *entry = shadow->reap_entry;

	entry->qp = shadow->qp;
	entry->spd = shadow->spd;
	entry->send_cq = shadow->send_cq;
	entry->recv_cq = shadow->recv_cq;
	entry->rail_srq = shadow->rail_srq;
	entry->send_wrs = send_wrs;
	entry->recv_wrs = recv_wrs;
	mesh_shadow_cq_disown(entry->send_cq, entry->qp->qp_num);
	mesh_shadow_cq_disown(entry->recv_cq, entry->qp->qp_num);
	*shadow = (struct mesh_shadow){0};
	return entry;
}

void mesh_reap_entry_leave(struct mesh_reap_entry *entry)
{
	atomic_fetch_add_explicit(&entry->send_cq->away, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&entry->recv_cq->away, 1, memory_order_relaxed);
}

/* The CQ is polled again. A thread that waits for completion events may have been woken meanwhile, and found nothing. */
static void come_back(struct mesh_shadow_cq *scq)
{
	if (atomic_fetch_sub_explicit(&scq->away, 1, memory_order_seq_cst) == 1 &&
	    atomic_exchange_explicit(&scq->missed, false, memory_order_seq_cst))
		mesh_cq_notify(scq->owner);
}

static void destroy_qp(struct mesh_reap_entry *entry)
{
	uint32_t qpn = entry->qp->qp_num;

	if (mesh_rail_intact(entry->spd->rail))
		mesh_root.lib.verbs.destroy_qp(entry->qp); /* also drops its completions from the CQs */
	/* After destroy_qp(): receives taken from an SRQ, and polled meanwhile, have to be counted. */
	mesh_shadow_cq_remove(entry->send_cq, qpn);
	mesh_shadow_cq_remove(entry->recv_cq, qpn);
	come_back(entry->send_cq);
	come_back(entry->recv_cq);
}

/* Give back places in its CQs, and its SRQ. */
static void give_back(struct mesh_reap_entry *entry)
{
	mesh_shadow_cq_unreserve(entry->send_cq, entry->send_wrs, NULL);
	mesh_shadow_cq_unreserve(entry->recv_cq, entry->recv_wrs, entry->rail_srq);
	if (entry->rail_srq)
		mesh_srq_leave_shadow(entry->rail_srq, entry->stopped);
}

static void run_destroy(struct mesh_device_job *job)
{
	struct mesh_reap_entry *entry = (struct mesh_reap_entry *)job;
	struct mesh_pd *spd = entry->spd;

	destroy_qp(entry);
	give_back(entry);
	free(entry);
	mesh_pd_put(spd);
}

void mesh_reap_entry_destroy(struct mesh_reap_entry *entry)
{
	mesh_pd_ref(entry->spd);
	entry->job.run = run_destroy;
	if (entry->rail_srq)
		run_destroy(&entry->job);
	else
		mesh_device_do(entry->spd->rail->commands, &entry->job);
}

void mesh_reaper_add(struct mesh_reap_entry *entry)
{
	struct mesh_context *mc = entry->send_cq->owner->mc;
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct mesh_data *data = &mc->data;

	/* Stops all receiving. No transition to ERR, also from INIT, takes the lock of a CQ. */
	if (mesh_rail_intact(entry->spd->rail))
		mesh_root.lib.verbs.modify_qp(entry->qp, &err, IBV_QP_STATE);
	mesh_pd_ref(entry->spd);
	mesh_lock(&data->lock);
	entry->next = data->reap_list;
	data->reap_list = entry;
	atomic_fetch_add_explicit(&data->n_reap, 1, memory_order_relaxed);
	mesh_unlock(&data->lock);
	mesh_reaper_run(mc, NULL, false); /* the poll may be over */
}

static bool is_of(const struct mesh_reap_entry *entry, const struct mesh_cq *cq)
{
	return !cq || entry->send_cq->owner == cq || entry->recv_cq->owner == cq;
}

/* @ret_others: another thread works on some entries */
static struct mesh_reap_entry *take_entries(struct mesh_data *data, const struct mesh_cq *cq, bool *ret_others)
{
	struct mesh_reap_entry *l, *mine = NULL;

	*ret_others = false;
	mesh_lock(&data->lock);
	for (l = data->reap_list; l; l = l->next) {
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

static void put_back(struct mesh_data *data, struct mesh_reap_entry *entry)
{
	mesh_lock(&data->lock);
	entry->busy = false;
	mesh_unlock(&data->lock);
}

static void unlist(struct mesh_data *data, const struct mesh_reap_entry *entry)
{
	struct mesh_reap_entry **at;

	mesh_lock(&data->lock);
	for (at = &data->reap_list; *at != entry; at = &(*at)->next)
		;
	*at = entry->next;
	atomic_fetch_sub_explicit(&data->n_reap, 1, memory_order_relaxed);
	mesh_unlock(&data->lock);
}

static bool freeze(struct mesh_cq *cq, bool all)
{
	return all ? mesh_cq_freeze(cq) : mesh_cq_try_freeze(cq);
}

/* Return: true: it can be destroyed now. */
static bool may_go(struct mesh_reap_entry *entry, bool all)
{
	struct mesh_cq *a = entry->send_cq->owner, *b = entry->recv_cq->owner;
	bool frozen_a = freeze(a, all), frozen_b = a != b && freeze(b, all);
	bool now = all || (frozen_a && (frozen_b || a == b));

	if (now)
		mesh_reap_entry_leave(entry);
	mesh_cq_thaw(b, frozen_b);
	mesh_cq_thaw(a, frozen_a);
	return now;
}

static void reap(struct mesh_data *data, struct mesh_reap_entry *entry, bool all)
{
	struct mesh_pd *spd = entry->spd;

	if (!may_go(entry, all)) {
		put_back(data, entry);
		return;
	}
	if (entry->rail_srq) {
		/* Listed until it has left its SRQ: the program may destroy the SRQ once nothing is listed. */
		destroy_qp(entry);
		give_back(entry);
		unlist(data, entry);
		free(entry);
	} else {
		unlist(data, entry);
		mesh_reap_entry_destroy(entry);
	}
	mesh_pd_put(spd);
}

void mesh_reaper_run(struct mesh_context *mc, const struct mesh_cq *cq, bool all)
{
	struct mesh_data *data = &mc->data;
	struct mesh_reap_entry *l, *rest;
	int saved_errno = errno, cancel = mesh_cancel_off(); /* waits for a CQ with the lock of another held */
	bool others = true;

	while (others && atomic_load_explicit(&data->n_reap, memory_order_relaxed)) {
		for (l = take_entries(data, cq, &others); l; l = rest) {
			rest = l->next_mine;
			reap(data, l, all);
		}
		if (!all)
			break;
		if (others)
			usleep(LOOK_AGAIN_US);
	}
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

/* QPs of srq_drain.c have no record. The event is not acknowledged yet, so @qp still exists. */
void mesh_reaper_last_wqe(const struct ibv_qp *qp)
{
	struct mesh_reap_entry *record = qp->qp_context != &mesh_own_qp ? qp->qp_context : NULL;

	if (record)
		atomic_store_explicit(&record->last_wqe, true, memory_order_release);
}
