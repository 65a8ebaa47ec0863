// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fastcq.h"
#include "cqint.h"
#include "survives.h"

struct mesh_cq_clients mesh_cq_clients;

/* Records of the program's CQs. Their shadows are in cqshadow.c, polls in poll.c and cqex.c. */

static struct mesh_cq *cq_new(struct mesh_context *mc, struct ibv_cq *cq)
{
	uintptr_t flags = (uintptr_t)mesh_map_get(&mc->data.extended, cq);
	struct mesh_cq *mcq = calloc(1, sizeof(*mcq));

	if (!mcq)
		return NULL;
	atomic_init(&mcq->refs, 1);
	mcq->cq = cq;
	mcq->mc = mc;
	atomic_store_explicit(&mcq->size.own_cqe, (uint32_t)cq->cqe, memory_order_relaxed);
	mesh_lock_init(&mcq->poll_lock);
	mesh_lock_init(&mcq->lock);
	mesh_lock_init(&mcq->notify.lock);
	mcq->ex.extended = flags;
	mcq->ex.wc_flags = flags ? (uint32_t)(flags - 1) : 0;
	if (mcq->ex.extended)
		mesh_cqex_save(mcq);
	return mcq;
}

/*
 * Is this an extended CQ that the plugin did not make (mlx5dv_create_cq())? Then it has libmlx5's poll functions. libmlx5
 * allocates every CQ as an extended one, zeroed, and sets start_poll only in extended ones.
 */
static bool is_unseen(struct mesh_context *mc, const struct ibv_cq *cq)
{
	return mesh_mlx5_is_lower(mc) && !mesh_map_get(&mc->data.extended, cq) &&
	       ((const struct ibv_cq_ex *)(const void *)cq)->start_poll;
}

/*
 * Flag in data->extended, the top bit: the CQ asks for fields that the plugin cannot provide. Examples: functions of a later
 * libibverbs, and time stamps, which come from the clock of the CQ's own NIC.
 */
#define STRANGE ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1))
#define SHOWN_WC_FLAGS                                                                                       \
	((uint64_t)IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO)
#define SHOWN_CREATE_FLAGS ((uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
#define SHOWN_MASK	   ((uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))

static bool asks_for_more(const struct ibv_cq_init_attr_ex *attr)
{
	if (attr->wc_flags & ~SHOWN_WC_FLAGS || attr->comp_mask & ~SHOWN_MASK)
		return true;
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~SHOWN_CREATE_FLAGS;
}

static bool is_strange(struct mesh_context *mc, const struct ibv_cq *cq)
{
	return (uintptr_t)mesh_map_get(&mc->data.extended, cq) & STRANGE;
}

static const char why_strange[] = "its CQ was made with time stamps, or with flags that are not known here (ibv_create_cq_ex)";
const char mesh_cq_why_taken[] = "the program polls its CQ by functions that are not seen here (mlx5dv)";

bool mesh_cq_is_taken(struct mesh_context *mc, const struct ibv_cq *cq)
{
	const struct mesh_cq *mcq = mesh_map_get(&mc->data.cqs, cq);

	if (mcq && mcq->reading.ring.buf)
		return false; /* it was checked before */
	return is_strange(mc, cq) || is_unseen(mc, cq) || mesh_mlx5_is_taken(mc, cq);
}

const char *mesh_cq_why_stays(struct mesh_context *mc, const struct ibv_cq *cq)
{
	return is_strange(mc, cq) ? why_strange : NULL;
}

bool mesh_cq_names_qps(struct mesh_context *mc, const struct ibv_cq *cq)
{
	uintptr_t flags = (uintptr_t)mesh_map_get(&mc->data.extended, cq);

	return !flags || (flags - 1) & IBV_WC_EX_WITH_QP_NUM;
}

struct mesh_cq *mesh_cq_get(struct mesh_context *mc, struct ibv_cq *cq)
{
	struct mesh_cq *mcq = mesh_map_get(&mc->data.cqs, cq);

	if (mc->data.extended_unknown || is_strange(mc, cq) || is_unseen(mc, cq))
		return NULL;
	if (!mcq) {
		mcq = cq_new(mc, cq);
		if (!mcq)
			return NULL;
		if (mesh_map_put(&mc->data.cqs, cq, mcq)) {
			mesh_cq_free(mcq);
			return NULL;
		}
		if (mcq->ex.extended) {
			mesh_cqex_install(mcq);
			mcq->ex.seen_whole = !mesh_cq_is_resizing(&mc->data, cq) && mesh_mlx5_cq_is_unused(mc, cq);
		}
	}
	mcq->users.n_vqps++;
	return mcq;
}

#define FREEZE_SPINS 300 /* an empty poll is over in less */
#define FREEZE_TRIES 1000 /* of 100 us each */

MV_LOCKS_UNCHECKED bool mesh_cq_try_freeze(struct mesh_cq *cq)
{
	if (!mesh_trylock(&cq->poll_lock))
		return false;
	mesh_cqe_lock(cq);
	return true;
}

bool mesh_cq_freeze(struct mesh_cq *cq)
{
	int tries;

	for (tries = 0; !mesh_cq_try_freeze(cq); tries++) {
		if (tries == FREEZE_SPINS + FREEZE_TRIES || mesh_cq_is_own_poll(cq))
			return false;
		if (tries >= FREEZE_SPINS)
			usleep(100);
	}
	return true;
}

MV_LOCKS_UNCHECKED void mesh_cq_thaw(struct mesh_cq *cq, bool frozen)
{
	if (!frozen)
		return;
	mesh_cqe_unlock(cq);
	mesh_unlock(&cq->poll_lock);
}

void mesh_cq_use(struct mesh_cq *cq)
{
	cq->mc->data.n_used_cqs += !cq->users.used;
	cq->users.used = true;
	atomic_store_explicit(&cq->fast, false, memory_order_relaxed);
}

void mesh_cq_put(struct mesh_cq *cq)
{
	cq->users.n_vqps--; /* freed when the program destroys the CQ: completions may be left */
}

/* ---- the software CQ -------------------------------------------------------------------------------------------- */

bool mesh_sw_cq_hold_place(struct mesh_cq *cq)
{
	bool room;

	mesh_lock(&cq->lock);
	room = mesh_sw_cq_room(&cq->sw_cq);
	cq->sw_cq.reserved += room;
	mesh_unlock(&cq->lock);
	return room;
}

bool mesh_sw_cq_fill_place(struct mesh_cq *cq, const struct ibv_wc *wc)
{
	mesh_lock(&cq->lock);
	cq->sw_cq.reserved--;
	if (wc)
		mesh_sw_cq_append(cq, wc);
	mesh_unlock(&cq->lock);
	return wc;
}

void mesh_sw_cq_remove(struct mesh_cq *cq, size_t n)
{
	struct mesh_sw_cq *sw_cq = &cq->sw_cq;
	struct mesh_vqp *h;

	sw_cq->n -= n;
	memmove(sw_cq->wcs, sw_cq->wcs + n, sw_cq->n * sizeof(*sw_cq->wcs));
	for (h = sw_cq->flushing; h; h = h->flushing.next) {
		mesh_lock(&h->lock);
		mesh_cq_clients.flush_queued(h);
		mesh_unlock(&h->lock);
	}
}

/* cq->lock */
static void forget(struct mesh_sw_cq *sw_cq, uint32_t qpn)
{
	size_t i, kept = 0;

	for (i = 0; i < sw_cq->n; i++)
		if (sw_cq->wcs[i].qp_num != qpn)
			sw_cq->wcs[kept++] = sw_cq->wcs[i];
	sw_cq->n = kept;
}

void mesh_cq_forget(struct mesh_cq *cq, struct mesh_vqp *h)
{
	struct mesh_vqp **at;

	forget(&cq->sw_cq, h->qp->qp_num);
	if (!h->flushing.on || cq != h->send_cq)
		return;
	for (at = &cq->sw_cq.flushing; *at != h; at = &(*at)->flushing.next)
		;
	*at = h->flushing.next;
	h->flushing.on = false;
}

/* Is any completion in the software CQ, or on its way there? */
static bool sw_cq_in_use(struct mesh_cq *cq)
{
	bool some;

	mesh_lock(&cq->lock);
	some = cq->sw_cq.n || cq->sw_cq.reserved;
	mesh_unlock(&cq->lock);
	return some;
}

void mesh_cq_forget_qp(struct mesh_context *mc, struct ibv_cq *cq, uint32_t qpn)
{
	struct mesh_cq *mcq = mesh_map_get(&mc->data.cqs, cq);
	bool frozen;

	/* Shadows of the QP that wait to be reaped may use objects that the program destroys next. */
	if (mcq)
		mesh_cq_clients.reaper_run(mc, mcq, true);
	/* The lower provider polls no completion of a QP that is gone, so no further ones come into the software CQ. */
	if (!mcq || !sw_cq_in_use(mcq))
		return;
	frozen = mesh_cq_freeze(mcq); /* without freezing, a completion on its way to the software CQ would be missed */
	mesh_lock(&mcq->lock);
	forget(&mcq->sw_cq, qpn);
	mesh_unlock(&mcq->lock);
	mesh_cq_thaw(mcq, frozen);
}

/* ---- end ----------------------------------------------------------------------------------------------------- */

static void cq_release(struct mesh_cq *cq)
{
	struct mesh_shadow_cq *scq;

	while ((scq = cq->shadows.polled ? cq->shadows.polled : cq->shadows.standby)) {
		*(cq->shadows.polled ? &cq->shadows.polled : &cq->shadows.standby) = scq->next;
		mesh_shadow_cq_free(scq);
	}
	mesh_cq_notify_fini(cq);
}

void mesh_cq_unref(struct mesh_cq *cq)
{
	if (atomic_fetch_sub_explicit(&cq->refs, 1, memory_order_acq_rel) != 1)
		return;
	free(cq->sw_cq.wcs);
	free(cq->own_qps.qpns.places);
	mesh_lock_fini(&cq->notify.lock);
	mesh_lock_fini(&cq->lock);
	mesh_lock_fini(&cq->poll_lock);
	free(cq);
}

void mesh_cq_free(struct mesh_cq *cq)
{
	cq_release(cq);
	mesh_cq_unref(cq);
}

/* Remove the records of a CQ. Return: false: virtual QPs use the CQ. */
static bool take_cq(struct mesh_data *data, struct ibv_cq *cq, struct mesh_cq **ret_mcq, void **ret_flags, void **ret_moderated)
{
	bool idle;

	mesh_lock(&data->lock);
	*ret_mcq = mesh_map_get(&data->cqs, cq);
	idle = !*ret_mcq || !(*ret_mcq)->users.n_vqps;
	if (idle) {
		mesh_map_drop(&data->cqs, cq);
		*ret_flags = mesh_map_drop(&data->extended, cq);
		*ret_moderated = mesh_map_drop(&data->moderated, cq);
	}
	mesh_unlock(&data->lock);
	return idle;
}

static void put_cq_back(struct mesh_data *data, struct ibv_cq *cq, struct mesh_cq *mcq, void *flags, void *moderated)
{
	/* The places in the maps are still free: no memory is needed. */
	mesh_lock(&data->lock);
	if (mcq)
		mesh_map_put(&data->cqs, cq, mcq);
	if (flags)
		mesh_map_put(&data->extended, cq, flags);
	if (moderated)
		mesh_map_put(&data->moderated, cq, moderated);
	mesh_unlock(&data->lock);
}

static int destroy_cq(struct mesh_context *mc, struct ibv_cq *cq)
{
	struct mesh_data *data = &mc->data;
	struct mesh_cq *mcq;
	void *flags, *moderated;
	int err;

	if (!take_cq(data, cq, &mcq, &flags, &moderated))
		return EBUSY; /* as the kernel for a CQ with QPs */
	mesh_fast_drop(cq); /* a new CQ may get this address */
	/* Destroy the notify QP, too, which is a QP of this CQ: then the lower provider decides as on a bare HCA. */
	if (mcq) {
		mesh_cq_clients.reaper_run(mc, mcq, true);
		cq_release(mcq);
	}
	err = mc->lower.cq.destroy_cq(cq);
	mesh_devices_settle();
	if (err) {
		put_cq_back(data, cq, mcq, flags, moderated);
		return err;
	}
	if (mcq) {
		mesh_lock(&data->lock);
		data->n_used_cqs -= mcq->users.used;
		mesh_data_slots(mc);
		mesh_unlock(&data->lock);
		mesh_cq_free(mcq);
	}
	return 0;
}

int mesh_destroy_cq(struct ibv_cq *cq)
{
	struct mesh_context *mc = mesh_context_get(cq->context);
	int cancel, err;

	if (!mesh_context_active(mc)) {
		mesh_fast_drop(cq); /* in a child, a new CQ may get this address, and its context the same record */
		return mc->lower.cq.destroy_cq(cq);
	}
	cancel = mesh_cancel_off();
	err = destroy_cq(mc, cq);
	mesh_cancel_restore(cancel);
	return err;
}

/* ---- resizing ------------------------------------------------------------------------------------------------ */

bool mesh_cq_resize_begin(struct mesh_data *data, const struct ibv_cq *cq, struct mesh_cq_resize *ret)
{
	const struct mesh_cq *mcq;
	bool known;

	mesh_lock(&data->lock);
	mcq = mesh_map_get(&data->cqs, cq);
	known = mcq && mcq->reading.ring.buf && !mcq->reading.unreadable;
	if (!known) {
		*ret = (struct mesh_cq_resize){.cq = cq, .next = data->resizing};
		data->resizing = ret;
	}
	mesh_unlock(&data->lock);
	return known;
}

void mesh_cq_resize_end(struct mesh_data *data, struct mesh_cq_resize *resize)
{
	struct mesh_cq_resize **at;

	mesh_lock(&data->lock);
	for (at = &data->resizing; *at != resize; at = &(*at)->next)
		;
	*at = resize->next;
	mesh_unlock(&data->lock);
}

/* Note a new size that the program has asked for. */
static void note_size(struct mesh_data *data, const struct ibv_cq *cq)
{
	struct mesh_cq *mcq;

	mesh_lock(&data->lock);
	mcq = mesh_map_get(&data->cqs, cq);
	if (mcq)
		atomic_store_explicit(&mcq->size.own_cqe, (uint32_t)cq->cqe, memory_order_relaxed);
	mesh_unlock(&data->lock);
}

static int resize_cq(struct mesh_context *mc, struct ibv_cq *cq, int cqe)
{
	struct mesh_cq_resize resize;
	struct mesh_cq *mcq;
	bool frozen;
	int err;

	if (!mesh_cq_resize_begin(&mc->data, cq, &resize)) {
		err = mc->lower.cq.resize_cq(cq, cqe);
		if (!err)
			note_size(&mc->data, cq);
		mesh_cq_resize_end(&mc->data, &resize);
		return err;
	}
	mcq = mesh_map_get(&mc->data.cqs, cq);
	/* Walkers must not see the buffer change. CQs with walkers are not extended, so polls are short. */
	do
		frozen = mesh_cq_freeze(mcq);
	while (!frozen);
	err = mc->lower.cq.resize_cq(cq, cqe);
	if (!err)
		note_size(&mc->data, cq);
	mesh_walker_cq_refresh(mcq);
	mesh_cq_thaw(mcq, frozen);
	return err;
}

int mesh_resize_cq(struct ibv_cq *cq, int cqe)
{
	struct mesh_context *mc = mesh_context_get(cq->context);
	int cancel, err;

	if (!mesh_context_active(mc))
		return mc->lower.cq.resize_cq(cq, cqe);
	cancel = mesh_cancel_off();
	err = resize_cq(mc, cq, cqe);
	mesh_cancel_restore(cancel);
	return err;
}

/*
 * Make an extended CQ with IBV_WC_EX_WITH_QP_NUM, which the plugin needs, and few programs ask for: UCX, for example, polls
 * extended CQs by ibv_poll_cq(), which reports QPNs anyway. The program's CQ only has one more function. Return: NULL
 * if the lower provider refuses, or if @attr has unknown bits.
 */
static struct ibv_cq_ex *create_named(struct mesh_context *mc, struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr)
{
	/* The struct of an older program ends before members that comp_mask does not name: so copy single members. */
	struct ibv_cq_init_attr_ex named = {
		.cqe = attr->cqe,
		.cq_context = attr->cq_context,
		.channel = attr->channel,
		.comp_vector = attr->comp_vector,
		.wc_flags = attr->wc_flags | IBV_WC_EX_WITH_QP_NUM,
		.comp_mask = attr->comp_mask,
	};

	if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return NULL;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		named.flags = attr->flags;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		named.parent_domain = attr->parent_domain;
	return mc->lower.cq.create_cq_ex(context, &named);
}

struct ibv_cq_ex *mesh_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct mesh_context *mc = mesh_context_get(context);
	uint64_t flags = attr->wc_flags | IBV_WC_EX_WITH_QP_NUM;
	bool strange = asks_for_more(attr);
	struct ibv_cq_ex *cq = NULL;
	int saved_errno = errno;
	uintptr_t note;

	if (!mesh_context_active(mc))
		return mc->lower.cq.create_cq_ex(context, attr);
	/* A NIC may have qualified since the last RTR, and the CQ outlives the next one. */
	if (flags != attr->wc_flags && !strange && mesh_survives_on(mc, mc->device))
		cq = create_named(mc, context, attr);
	if (!cq) {
		flags = attr->wc_flags;
		errno = saved_errno;
		cq = mc->lower.cq.create_cq_ex(context, attr);
	}
	if (!cq)
		return NULL;
	saved_errno = errno;
	note = (uintptr_t)(flags & SHOWN_WC_FLAGS) + 1;
	mesh_lock(&mc->data.lock);
	/* Without a note, extended CQs cannot be told from others: hold no QP any more. */
	if (mesh_map_put(&mc->data.extended, cq, (void *)(strange ? note | STRANGE : note)))
		mc->data.extended_unknown = true;
	mesh_unlock(&mc->data.lock);
	errno = saved_errno;
	return cq;
}
