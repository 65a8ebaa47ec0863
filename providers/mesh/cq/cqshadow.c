// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>

#include "cqint.h"

/* Shadow CQs of the program's CQs, and the QPs whose completions arrive there. */

/* Places that req_notify may need: see collect_notification(). */
#define SW_CQ_AT_LEAST 16

static void free_srqs(struct mesh_shadow_cq *scq)
{
	struct mesh_cq_srq *use;

	while ((use = scq->srqs)) {
		scq->srqs = use->next;
		free(use);
	}
}

static void run_free(struct mesh_device_job *job)
{
	struct mesh_shadow_cq *scq = (struct mesh_shadow_cq *)job;

	/* Waits until the helper thread has acknowledged the events that it has read. */
	if (scq->cq && mesh_rail_intact(scq->rail))
		mesh_root.lib.verbs.destroy_cq(scq->cq);
	mesh_rail_put(scq->rail);
	free(scq->qpns.places);
	free_srqs(scq);
	mesh_cq_unref(scq->owner);
	free(scq);
}

void mesh_shadow_cq_free(struct mesh_shadow_cq *scq)
{
	scq->job.run = run_free;
	mesh_device_do(scq->rail->commands, &scq->job);
}

static struct ibv_cq *shadow_create(const struct mesh_cq *cq, struct mesh_shadow_cq *scq, uint32_t cqe)
{
	struct ibv_comp_channel *channel = cq->cq->channel ? scq->rail->channel : NULL;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.cq_context = scq,
		.channel = channel,
		.wc_flags = cq->ex.wc_flags | IBV_WC_EX_WITH_QP_NUM, /* the plugin needs the QPN */
	};
	struct ibv_cq_ex *ex;

	if (!cq->ex.extended)
		return mesh_root.lib.verbs.create_cq(scq->rail->context, (int)cqe, scq, channel, 0);
	ex = ibv_create_cq_ex(scq->rail->context, &attr);
	return ex ? ibv_cq_ex_to_cq(ex) : NULL;
}

/* cq->lock */
static void link_used(struct mesh_shadow_cq *scq)
{
	struct mesh_cq *cq = scq->owner;

	/* The program may have armed its CQ, and be waiting. */
	if (cq->cq->channel)
		ibv_req_notify_cq(scq->cq, 0);
	scq->next = cq->shadows.polled;
	cq->shadows.polled = scq;
}

static void link_standby(struct mesh_shadow_cq *scq)
{
	scq->next = scq->owner->shadows.standby;
	scq->owner->shadows.standby = scq;
}

/* cq->lock */
static void use(struct mesh_shadow_cq *scq)
{
	struct mesh_shadow_cq **at;

	for (at = &scq->owner->shadows.standby; *at && *at != scq; at = &(*at)->next)
		;
	if (!*at)
		return;
	*at = scq->next;
	link_used(scq);
}

void mesh_shadow_cq_use(struct mesh_shadow_cq *scq)
{
	mesh_lock(&scq->owner->lock);
	use(scq);
	mesh_unlock(&scq->owner->lock);
}

static struct mesh_shadow_cq *find_on(struct mesh_shadow_cq *list, const struct mesh_rail *rail)
{
	while (list && list->rail != rail)
		list = list->next;
	return list;
}

static int shadow_new(struct mesh_cq *cq, struct mesh_rail *rail, uint32_t n_wrs, struct mesh_shadow_cq **ret)
{
	uint32_t own = atomic_load_explicit(&cq->size.own_cqe, memory_order_relaxed);
	struct mesh_shadow_cq *scq = calloc(1, sizeof(*scq));
	int err;

	if (!scq)
		return -ENOMEM;
	scq->owner = cq;
	atomic_fetch_add_explicit(&cq->refs, 1, memory_order_relaxed);
	scq->rail = mesh_rail_ref(rail);
	/* Without a channel there are no notifications. */
	err = cq->cq->channel ? mesh_sw_cq_reserve(&cq->sw_cq, SW_CQ_AT_LEAST) : 0;
	if (!err)
		scq->cq = shadow_create(cq, scq, n_wrs > own ? n_wrs : own);
	if (scq->cq)
		err = -mesh_positive(mesh_cq_moderate(cq, scq->cq));
	else if (!err)
		err = errno ? -errno : -EIO;
	if (err) {
		mesh_shadow_cq_free(scq);
		return err;
	}
	link_standby(scq);
	*ret = scq;
	return 0;
}

static struct mesh_cq_srq *find_srq(struct mesh_shadow_cq *scq, const struct mesh_rail_srq *rail_srq)
{
	struct mesh_cq_srq *use;

	for (use = scq->srqs; use && use->rail_srq != rail_srq; use = use->next)
		;
	return use;
}

/* Count an SRQ once: all of its QPs together have no more receives outstanding than the SRQ takes. cq->lock */
static int add_srq(struct mesh_shadow_cq *scq, const struct mesh_rail_srq *rail_srq, uint32_t *n_wrs)
{
	struct mesh_cq_srq *use = find_srq(scq, rail_srq);

	if (!use) {
		use = calloc(1, sizeof(*use));
		if (!use)
			return -ENOMEM;
		use->rail_srq = rail_srq;
		use->next = scq->srqs;
		scq->srqs = use;
		*n_wrs += mesh_srq_size(rail_srq);
	}
	use->n_qps++;
	return 0;
}

static void remove_srq(struct mesh_shadow_cq *scq, const struct mesh_rail_srq *rail_srq)
{
	struct mesh_cq_srq *use = find_srq(scq, rail_srq), **at;

	if (--use->n_qps)
		return;
	for (at = &scq->srqs; *at != use; at = &(*at)->next)
		;
	*at = use->next;
	free(use);
	scq->n_wrs -= mesh_srq_size(rail_srq);
}

/* Tries twice the size first: hundreds of QPs come one after the other. */
static int enlarge(struct mesh_shadow_cq *scq, uint32_t want)
{
	uint32_t twice = 2 * (uint32_t)scq->cq->cqe;
	bool frozen = mesh_cq_freeze(scq->owner);
	int err = -1;

	if ((!frozen && scq->owner->ex.extended) || atomic_load_explicit(&scq->away, memory_order_acquire)) {
		mesh_cq_thaw(scq->owner, frozen);
		return -EBUSY;
	}
	if (twice > want && twice <= INT32_MAX)
		err = mesh_root.lib.verbs.resize_cq(scq->cq, (int)twice);
	if (err)
		err = mesh_root.lib.verbs.resize_cq(scq->cq, (int)want);
	mesh_cq_thaw(scq->owner, frozen);
	return -mesh_positive(err);
}

int mesh_shadow_cq_reserve(struct mesh_cq *cq, struct mesh_rail *rail, uint32_t n_wrs, const struct mesh_rail_srq *rail_srq,
			   bool standby, struct mesh_shadow_cq **ret)
{
	struct mesh_shadow_cq *scq;
	uint32_t own = n_wrs, want = 0;
	int err = 0;

	mesh_lock(&cq->lock);
	scq = find_on(cq->shadows.polled, rail);
	if (!scq)
		scq = find_on(cq->shadows.standby, rail);
	if (!scq)
		err = shadow_new(cq, rail, n_wrs, &scq);
	if (!err && !standby)
		use(scq);
	if (!err && rail_srq)
		err = add_srq(scq, rail_srq, &n_wrs);
	if (!err) {
		scq->n_wrs += n_wrs;
		want = scq->n_wrs;
	}
	mesh_unlock(&cq->lock);
	if (err)
		return err;
	/*
	 * The CQ must not overrun: all work requests may be flushed before the program's next poll. Without cq->lock: the
	 * provider may wait here for a poller, which may wait for cq->lock.
	 */
	if (want > (uint32_t)scq->cq->cqe) {
		err = enlarge(scq, want);
		if (err)
			mesh_shadow_cq_unreserve(scq, own, rail_srq);
	}
	if (!err)
		*ret = scq;
	return err;
}

void mesh_shadow_cq_unreserve(struct mesh_shadow_cq *scq, uint32_t n_wrs, const struct mesh_rail_srq *rail_srq)
{
	mesh_lock(&scq->owner->lock);
	scq->n_wrs -= n_wrs;
	if (rail_srq)
		remove_srq(scq, rail_srq);
	mesh_unlock(&scq->owner->lock);
}

static void insert(struct mesh_cq_qp *places, size_t n_places, const struct mesh_cq_qp *entry)
{
	size_t mask = n_places - 1, i = entry->key * 2654435761u & mask;

	while (places[i].qpn)
		i = (i + 1) & mask;
	places[i] = *entry;
}

/* Rebuild with places for all QPs that exist, without those that are gone. */
static int rebuild(struct mesh_qpns *qpns)
{
	size_t live = 0, n_places = 4, i;
	struct mesh_cq_qp *places, *at;

	for (i = 0; i < qpns->n_places; i++)
		live += qpns->places[i].vqp || qpns->places[i].rail_srq;
	while (n_places < 4 * (live + 1))
		n_places *= 2;
	places = calloc(n_places, sizeof(*places));
	if (!places)
		return -ENOMEM;
	for (i = 0; i < qpns->n_places; i++) {
		at = &qpns->places[i];
		if (at->vqp || at->rail_srq)
			insert(places, n_places, at);
	}
	free(qpns->places);
	*qpns = (struct mesh_qpns){.places = places, .n_places = n_places, .n_used = live};
	return 0;
}

static int qpns_add(struct mesh_qpns *qpns, const struct mesh_cq_qp *entry)
{
	struct mesh_cq_qp *old = mesh_qpns_find(qpns, entry->key);

	if (old) {
		*old = *entry;
		return 0;
	}
	if (2 * (qpns->n_used + 1) > qpns->n_places && rebuild(qpns))
		return -ENOMEM;
	insert(qpns->places, qpns->n_places, entry);
	qpns->n_used++;
	return 0;
}

int mesh_shadow_cq_add(struct mesh_shadow_cq *scq, uint32_t shadow_qpn, struct mesh_vqp *h,
		       struct mesh_rail_srq *rail_srq)
{
	struct mesh_cq_qp entry = {.key = shadow_qpn, .qpn = h->qp->qp_num, .vqp = h, .rail_srq = rail_srq};
	int err;

	mesh_lock(&scq->owner->lock);
	err = qpns_add(&scq->qpns, &entry);
	mesh_unlock(&scq->owner->lock);
	return err;
}

/* cq->lock */
static void disown(struct mesh_shadow_cq *scq, uint32_t shadow_qpn)
{
	struct mesh_cq_qp *entry = mesh_qpns_find(&scq->qpns, shadow_qpn);

	if (entry)
		entry->vqp = NULL;
}

void mesh_shadow_cq_disown(struct mesh_shadow_cq *scq, uint32_t shadow_qpn)
{
	mesh_lock(&scq->owner->lock);
	disown(scq, shadow_qpn);
	mesh_unlock(&scq->owner->lock);
}

void mesh_shadow_disown(const struct mesh_shadow *shadow)
{
	disown(shadow->send_cq, shadow->qp->qp_num);
	disown(shadow->recv_cq, shadow->qp->qp_num);
}

void mesh_shadow_cq_remove(struct mesh_shadow_cq *scq, uint32_t shadow_qpn)
{
	struct mesh_cq_qp *entry;

	mesh_lock(&scq->owner->lock);
	entry = mesh_qpns_find(&scq->qpns, shadow_qpn);
	if (entry && !entry->vqp)
		entry->rail_srq = NULL;
	mesh_unlock(&scq->owner->lock);
}

/* cq->lock */
static struct mesh_walker *walker_of(struct mesh_vqp *h)
{
	struct mesh_walker *walker = NULL;

	if (!h)
		return NULL;
	mesh_lock(&h->lock);
	if (h->tracker && h->tracker->walker && !h->tracker->walker->engaged)
		walker = h->tracker->walker;
	mesh_unlock(&h->lock);
	return walker;
}

int mesh_cq_add_own_qp(struct mesh_cq *cq, uint32_t qpn, struct mesh_rail_srq *rail_srq, struct mesh_vqp *vqp)
{
	struct mesh_cq_qp entry = {.key = qpn, .qpn = qpn, .rail_srq = rail_srq, .vqp = vqp};
	const struct mesh_cq_qp *old;
	int err;

	mesh_cqe_lock(cq);
	mesh_lock(&cq->lock);
	old = mesh_qpns_find(&cq->own_qps.qpns, qpn);
	if (old && !rail_srq)
		entry.rail_srq = old->rail_srq;
	if (old && !vqp)
		entry.vqp = old->vqp;
	entry.walker = walker_of(entry.vqp);
	cq->reading.hot_walker = NULL;
	err = qpns_add(&cq->own_qps.qpns, &entry);
	atomic_store_explicit(&cq->own_qps.counts, true, memory_order_relaxed);
	mesh_unlock(&cq->lock);
	mesh_cqe_unlock(cq);
	return err;
}

void mesh_cq_remove_own_qp(struct mesh_cq *cq, uint32_t qpn, const struct mesh_rail_srq *rail_srq,
			   const struct mesh_vqp *vqp)
{
	struct mesh_cq_qp *entry;

	mesh_cqe_lock(cq);
	mesh_lock(&cq->lock);
	entry = mesh_qpns_find(&cq->own_qps.qpns, qpn);
	if (entry && entry->rail_srq == rail_srq)
		entry->rail_srq = NULL;
	if (entry && entry->vqp == vqp) {
		entry->vqp = NULL;
		entry->walker = NULL;
		cq->reading.hot_walker = NULL;
	}
	mesh_unlock(&cq->lock);
	mesh_cqe_unlock(cq);
}
