// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heldint.h"
#include "srq.h"

/* What is kept of the program's CQs, and their shadows. The polling itself is in poll.c and cqex.c. */

static struct mesh_cq *cq_new(struct mesh_context *mc, struct ibv_cq *cq)
{
	uintptr_t flags = (uintptr_t)mesh_map_get(&mc->data.extended, cq);
	struct mesh_cq *mcq = calloc(1, sizeof(*mcq));

	if (!mcq)
		return NULL;
	mcq->cq = cq;
	mcq->mc = mc;
	pthread_mutex_init(&mcq->poll_lock, NULL);
	pthread_mutex_init(&mcq->lock, NULL);
	pthread_mutex_init(&mcq->kick_lock, NULL);
	mcq->extended = flags;
	mcq->wc_flags = flags ? (uint32_t)(flags - 1) : 0;
	return mcq;
}

struct mesh_cq *mesh_cq_get(struct mesh_context *mc, struct ibv_cq *cq)
{
	struct mesh_cq *mcq = mesh_map_get(&mc->data.cqs, cq);

	if (mc->data.extended_unknown)
		return NULL;
	if (!mcq) {
		mcq = cq_new(mc, cq);
		if (!mcq)
			return NULL;
		if (mesh_map_put(&mc->data.cqs, cq, mcq)) {
			mesh_cq_free(mcq);
			return NULL;
		}
		if (mcq->extended)
			mesh_cqex_install(mcq);
	}
	mcq->n_held++;
	return mcq;
}

void mesh_cq_use(struct mesh_cq *cq)
{
	cq->mc->data.n_used_cqs += !cq->used;
	cq->used = true;
}

void mesh_cq_put(struct mesh_cq *cq)
{
	cq->n_held--; /* freed when the program destroys it: completions may be left */
}

/* What req_notify may have to put there: see reap_kick(). */
#define STASH_AT_LEAST 16

/* ---- shadows ------------------------------------------------------------------------------------------------- */

static void free_srqs(struct mesh_shadow_cq *scq)
{
	struct mesh_cq_srq *use;

	while ((use = scq->srqs)) {
		scq->srqs = use->next;
		free(use);
	}
}

static void shadow_free(struct mesh_shadow_cq *scq)
{
	/* Waits until the helper thread has acknowledged the events it has taken. */
	if (scq->cq)
		mesh_root.lib.verbs.destroy_cq(scq->cq);
	mesh_rail_put(scq->rail);
	free(scq->qpns.places);
	free_srqs(scq);
	free(scq);
}

static struct ibv_cq *shadow_create(const struct mesh_cq *cq, struct mesh_shadow_cq *scq, uint32_t cqe)
{
	struct ibv_comp_channel *channel = cq->cq->channel ? scq->rail->channel : NULL;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.cq_context = scq,
		.channel = channel,
		.wc_flags = cq->wc_flags | IBV_WC_EX_WITH_QP_NUM, /* whose completion it is, we have to know */
	};
	struct ibv_cq_ex *ex;

	if (!cq->extended)
		return mesh_root.lib.verbs.create_cq(scq->rail->context, (int)cqe, scq, channel, 0);
	ex = ibv_create_cq_ex(scq->rail->context, &attr);
	return ex ? ibv_cq_ex_to_cq(ex) : NULL;
}

static int shadow_new(struct mesh_cq *cq, struct mesh_rail *rail, uint32_t n_wrs, struct mesh_shadow_cq **ret)
{
	uint32_t own = (uint32_t)cq->cq->cqe;
	struct mesh_shadow_cq *scq = calloc(1, sizeof(*scq));
	int err;

	if (!scq)
		return -ENOMEM;
	scq->owner = cq;
	scq->rail = mesh_rail_ref(rail);
	err = mesh_cq_stash_reserve(cq, STASH_AT_LEAST);
	if (!err)
		scq->cq = shadow_create(cq, scq, n_wrs > own ? n_wrs : own);
	if (!scq->cq) {
		err = err ? err : errno ? -errno : -EIO;
		shadow_free(scq);
		return err;
	}
	/* The program may have armed its CQ already, and be waiting. */
	if (cq->cq->channel)
		ibv_req_notify_cq(scq->cq, 0);
	scq->next = cq->shadows;
	cq->shadows = scq;
	*ret = scq;
	return 0;
}

static struct mesh_cq_srq *find_srq(struct mesh_shadow_cq *scq, const struct mesh_srq_home *home)
{
	struct mesh_cq_srq *use;

	for (use = scq->srqs; use && use->home != home; use = use->next)
		;
	return use;
}

/* All QPs of an SRQ together have no more receives outstanding than the SRQ takes. cq->lock */
static int add_srq(struct mesh_shadow_cq *scq, const struct mesh_srq_home *home, uint32_t *n_wrs)
{
	struct mesh_cq_srq *use = find_srq(scq, home);

	if (!use) {
		use = calloc(1, sizeof(*use));
		if (!use)
			return -ENOMEM;
		use->home = home;
		use->next = scq->srqs;
		scq->srqs = use;
		*n_wrs += mesh_srq_size(home);
	}
	use->n_qps++;
	return 0;
}

static void remove_srq(struct mesh_shadow_cq *scq, const struct mesh_srq_home *home)
{
	struct mesh_cq_srq *use = find_srq(scq, home), **at;

	if (--use->n_qps)
		return;
	for (at = &scq->srqs; *at != use; at = &(*at)->next)
		;
	*at = use->next;
	free(use);
	scq->n_wrs -= mesh_srq_size(home);
}

int mesh_shadow_cq_reserve(struct mesh_cq *cq, struct mesh_rail *rail, uint32_t n_wrs,
			   const struct mesh_srq_home *home, struct mesh_shadow_cq **ret)
{
	struct mesh_shadow_cq *scq;
	uint32_t own = n_wrs, want = 0;
	int err = 0;

	pthread_mutex_lock(&cq->lock);
	for (scq = cq->shadows; scq && scq->rail != rail; scq = scq->next)
		;
	if (!scq)
		err = shadow_new(cq, rail, n_wrs, &scq);
	if (!err && home)
		err = add_srq(scq, home, &n_wrs);
	if (!err) {
		scq->n_wrs += n_wrs;
		want = scq->n_wrs;
	}
	pthread_mutex_unlock(&cq->lock);
	if (err)
		return err;
	/*
	 * Every work request may be flushed before the program polls once: an overrun must be impossible. The provider may
	 * wait here for a thread that polls, and that one for cq->lock.
	 */
	if (want > (uint32_t)scq->cq->cqe) {
		err = -mesh_positive(mesh_root.lib.verbs.resize_cq(scq->cq, (int)want));
		if (err)
			mesh_shadow_cq_unreserve(scq, own, home);
	}
	if (!err)
		*ret = scq;
	return err;
}

void mesh_shadow_cq_unreserve(struct mesh_shadow_cq *scq, uint32_t n_wrs, const struct mesh_srq_home *home)
{
	pthread_mutex_lock(&scq->owner->lock);
	scq->n_wrs -= n_wrs;
	if (home)
		remove_srq(scq, home);
	pthread_mutex_unlock(&scq->owner->lock);
}

static void insert(struct mesh_cq_qp *places, size_t n_places, const struct mesh_cq_qp *entry)
{
	size_t mask = n_places - 1, i = entry->key * 2654435761u & mask;

	while (places[i].qpn)
		i = (i + 1) & mask;
	places[i] = *entry;
}

/* Twice the places, or the same without the QPs that are gone. */
static int rebuild(struct mesh_qpns *qpns)
{
	size_t live = 0, n_places = 16, i;
	struct mesh_cq_qp *places, *at;

	for (i = 0; i < qpns->n_places; i++)
		live += qpns->places[i].held || qpns->places[i].home;
	while (n_places < 4 * (live + 1))
		n_places *= 2;
	places = calloc(n_places, sizeof(*places));
	if (!places)
		return -ENOMEM;
	for (i = 0; i < qpns->n_places; i++) {
		at = &qpns->places[i];
		if (at->held || at->home)
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

int mesh_shadow_cq_add(struct mesh_shadow_cq *scq, uint32_t shadow_qpn, struct mesh_held *h)
{
	struct mesh_cq_qp entry = {.key = shadow_qpn, .qpn = h->qp->qp_num, .held = h, .home = h->home};
	int err;

	pthread_mutex_lock(&scq->owner->lock);
	err = qpns_add(&scq->qpns, &entry);
	pthread_mutex_unlock(&scq->owner->lock);
	return err;
}

void mesh_shadow_cq_remove(struct mesh_shadow_cq *scq, uint32_t shadow_qpn)
{
	struct mesh_cq_qp *entry;

	pthread_mutex_lock(&scq->owner->lock);
	entry = mesh_qpns_find(&scq->qpns, shadow_qpn);
	if (entry) {
		entry->held = NULL;
		entry->home = NULL;
	}
	pthread_mutex_unlock(&scq->owner->lock);
}

int mesh_cq_add_native(struct mesh_cq *cq, uint32_t qpn, struct mesh_srq_home *home)
{
	struct mesh_cq_qp entry = {.key = qpn, .qpn = qpn, .home = home};
	int err;

	pthread_mutex_lock(&cq->lock);
	err = qpns_add(&cq->natives, &entry);
	pthread_mutex_unlock(&cq->lock);
	return err;
}

void mesh_cq_remove_native(struct mesh_cq *cq, uint32_t qpn)
{
	struct mesh_cq_qp *entry;

	pthread_mutex_lock(&cq->lock);
	entry = mesh_qpns_find(&cq->natives, qpn);
	if (entry)
		entry->home = NULL;
	pthread_mutex_unlock(&cq->lock);
}

/* ---- completions of our own ---------------------------------------------------------------------------------- */

int mesh_cq_stash_reserve(struct mesh_cq *cq, uint32_t n)
{
	struct ibv_wc *larger = reallocarray(cq->stash, cq->stash_size + n, sizeof(*larger));

	if (!larger)
		return -ENOMEM;
	cq->stash = larger;
	cq->stash_size += n;
	return 0;
}

void mesh_cq_stash(struct mesh_cq *cq, const struct ibv_wc *wc)
{
	if (cq->n_stash < cq->stash_size)
		cq->stash[cq->n_stash++] = *wc;
}

void mesh_cq_unstash(struct mesh_cq *cq, size_t n)
{
	struct mesh_held *h;

	cq->n_stash -= n;
	memmove(cq->stash, cq->stash + n, cq->n_stash * sizeof(*cq->stash));
	for (h = cq->stashing; h; h = h->next_stashing) {
		pthread_mutex_lock(&h->lock);
		mesh_held_stash(h);
		pthread_mutex_unlock(&h->lock);
	}
}

void mesh_cq_forget(struct mesh_cq *cq, struct mesh_held *h)
{
	uint32_t qpn = h->qp->qp_num;
	struct mesh_held **at;
	size_t i, kept = 0;

	for (i = 0; i < cq->n_stash; i++)
		if (cq->stash[i].qp_num != qpn)
			cq->stash[kept++] = cq->stash[i];
	cq->n_stash = kept;
	if (!h->stashing || cq != h->send_cq)
		return;
	for (at = &cq->stashing; *at != h; at = &(*at)->next_stashing)
		;
	*at = h->next_stashing;
	h->stashing = false;
}

/* ---- end ----------------------------------------------------------------------------------------------------- */

static void cq_release(struct mesh_cq *cq)
{
	struct mesh_shadow_cq *scq;

	while ((scq = cq->shadows)) {
		cq->shadows = scq->next;
		shadow_free(scq);
	}
	mesh_kick_fini(cq);
}

void mesh_cq_free(struct mesh_cq *cq)
{
	cq_release(cq);
	free(cq->stash);
	free(cq->natives.places);
	pthread_mutex_destroy(&cq->kick_lock);
	pthread_mutex_destroy(&cq->lock);
	pthread_mutex_destroy(&cq->poll_lock);
	free(cq);
}

/* Take a CQ's records away. Return: false while QPs of ours use it. */
static bool take_cq(struct mesh_data *data, struct ibv_cq *cq, struct mesh_cq **ret_mcq, void **ret_flags)
{
	bool idle;

	pthread_mutex_lock(&data->lock);
	*ret_mcq = mesh_map_get(&data->cqs, cq);
	idle = !*ret_mcq || !(*ret_mcq)->n_held;
	if (idle) {
		mesh_map_drop(&data->cqs, cq);
		*ret_flags = mesh_map_drop(&data->extended, cq);
	}
	pthread_mutex_unlock(&data->lock);
	return idle;
}

static void put_cq_back(struct mesh_data *data, struct ibv_cq *cq, struct mesh_cq *mcq, void *flags)
{
	/* Into the places that they were in, which are free: this takes no memory. */
	pthread_mutex_lock(&data->lock);
	if (mcq)
		mesh_map_put(&data->cqs, cq, mcq);
	if (flags)
		mesh_map_put(&data->extended, cq, flags);
	pthread_mutex_unlock(&data->lock);
}

int mesh_destroy_cq(struct ibv_cq *cq)
{
	struct mesh_context *mc = mesh_context_get(cq->context);
	struct mesh_data *data = &mc->data;
	struct mesh_cq *mcq;
	void *flags;
	int err;

	if (!mesh_context_active(mc))
		return mc->destroy_cq(cq);
	if (!take_cq(data, cq, &mcq, &flags))
		return EBUSY; /* as the kernel says for a CQ with QPs */
	/* The kicker is a QP, too: without it the base decides as it would have. */
	if (mcq)
		cq_release(mcq);
	err = mc->destroy_cq(cq);
	if (err) {
		put_cq_back(data, cq, mcq, flags);
		return err;
	}
	if (mcq) {
		pthread_mutex_lock(&data->lock);
		data->n_used_cqs -= mcq->used;
		mesh_data_slots(mc);
		pthread_mutex_unlock(&data->lock);
		mesh_cq_free(mcq);
	}
	return 0;
}

struct ibv_cq_ex *mesh_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_cq_ex *cq = mc->create_cq_ex(context, attr);
	int saved_errno = errno;

	if (!cq || !mesh_context_active(mc))
		return cq;
	pthread_mutex_lock(&mc->data.lock);
	/* With an extended CQ that we cannot tell from others, none is touched any more. */
	if (mesh_map_put(&mc->data.extended, cq, (void *)(uintptr_t)(attr->wc_flags + 1)))
		mc->data.extended_unknown = true;
	pthread_mutex_unlock(&mc->data.lock);
	errno = saved_errno;
	return cq;
}
