// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heldint.h"

/* What is kept of the program's CQs, and their shadows. The polling itself is in poll.c and cqex.c. */

static struct mesh_cq *cq_new(struct mesh_context *mc, struct ibv_cq *cq)
{
	uintptr_t flags = (uintptr_t)mesh_map_get(&mc->data.extended, cq);
	pthread_mutexattr_t recursive;
	struct mesh_cq *mcq = calloc(1, sizeof(*mcq));

	if (!mcq)
		return NULL;
	mcq->cq = cq;
	mcq->mc = mc;
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&mcq->lock, &recursive);
	pthread_mutexattr_destroy(&recursive);
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

static void shadow_free(struct mesh_shadow_cq *scq)
{
	/* Waits until the helper thread has acknowledged the events it has taken. */
	if (scq->cq)
		mesh_root.lib.verbs.destroy_cq(scq->cq);
	mesh_rail_put(scq->rail);
	free(scq->table);
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

int mesh_shadow_cq_reserve(struct mesh_cq *cq, struct mesh_rail *rail, uint32_t n_wrs, struct mesh_shadow_cq **ret)
{
	struct mesh_shadow_cq *scq;
	int err;

	for (scq = cq->shadows; scq && scq->rail != rail; scq = scq->next)
		;
	if (!scq) {
		err = shadow_new(cq, rail, n_wrs, &scq);
		if (err)
			return err;
	} else if (scq->n_wrs + n_wrs > (uint32_t)scq->cq->cqe) {
		/* Every work request may be flushed before the program polls once: an overrun must be impossible. */
		err = mesh_root.lib.verbs.resize_cq(scq->cq, (int)(scq->n_wrs + n_wrs));
		if (err)
			return err < 0 ? -errno : -err;
	}
	scq->n_wrs += n_wrs;
	*ret = scq;
	return 0;
}

static void insert(struct mesh_cq_qp *table, size_t n_places, const struct mesh_cq_qp *entry)
{
	size_t mask = n_places - 1, i = entry->shadow_qpn * 2654435761u & mask;

	while (table[i].qpn)
		i = (i + 1) & mask;
	table[i] = *entry;
}

/* Twice the places, or the same without the QPs that are gone. */
static int rebuild(struct mesh_shadow_cq *scq)
{
	size_t live = 0, n_places = 16, i;
	struct mesh_cq_qp *table;

	for (i = 0; i < scq->n_places; i++)
		live += scq->table[i].qpn && scq->table[i].held;
	while (n_places < 4 * (live + 1))
		n_places *= 2;
	table = calloc(n_places, sizeof(*table));
	if (!table)
		return -ENOMEM;
	for (i = 0; i < scq->n_places; i++)
		if (scq->table[i].qpn && scq->table[i].held)
			insert(table, n_places, &scq->table[i]);
	free(scq->table);
	scq->table = table;
	scq->n_places = n_places;
	scq->n_used = live;
	return 0;
}

int mesh_shadow_cq_add(struct mesh_shadow_cq *scq, uint32_t shadow_qpn, struct mesh_held *h)
{
	struct mesh_cq_qp entry = {.shadow_qpn = shadow_qpn, .qpn = h->qp->qp_num, .held = h}, *old;

	old = mesh_shadow_cq_find(scq, shadow_qpn);
	if (old) {
		*old = entry;
		return 0;
	}
	if (2 * (scq->n_used + 1) > scq->n_places && rebuild(scq))
		return -ENOMEM;
	insert(scq->table, scq->n_places, &entry);
	scq->n_used++;
	return 0;
}

void mesh_shadow_cq_remove(struct mesh_shadow_cq *scq, uint32_t shadow_qpn, uint32_t n_wrs)
{
	struct mesh_cq_qp *entry = mesh_shadow_cq_find(scq, shadow_qpn);

	if (entry)
		entry->held = NULL;
	scq->n_wrs -= n_wrs;
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
	pthread_mutex_destroy(&cq->kick_lock);
	pthread_mutex_destroy(&cq->lock);
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
