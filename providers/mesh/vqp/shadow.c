// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "srq.h"
#include "vqp_int.h"

#define FLUSH_STEP_US 20
#define FLUSH_NS      200000000ull /* longest wait for a device to flush */

/* The shadow of a virtual QP: made on the agreed rail, connected, put to work, destroyed. */

/*
 * Places of sends in the CQ: all work requests, and the sentinel of a drain. libmlx5 may round the send queue up, so a full
 * log leaves room for the sentinel.
 */
static uint32_t send_wrs(const struct mesh_vqp *h)
{
	return h->made.cap.max_send_wr + 1;
}

static uint32_t recv_wrs(const struct mesh_vqp *h)
{
	return h->srq ? 0 : h->made.cap.max_recv_wr + 1; /* receives of an SRQ are counted with its mesh_rail_srq */
}

static int use_cqs(struct mesh_vqp *h, bool standby)
{
	struct mesh_data *data = &h->mc->data;
	int err;

	mesh_lock(&data->lock);
	err = mesh_cq_notify_prepare(h->send_cq);
	if (!err)
		err = mesh_cq_notify_prepare(h->recv_cq);
	if (!err && !standby) {
		mesh_cq_use(h->send_cq);
		mesh_cq_use(h->recv_cq);
	}
	mesh_unlock(&data->lock);
	return err;
}

static void dispose(struct mesh_vqp *h, struct mesh_shadow *shadow);

/* The opcodes that translate_send() of post.c posts. */
#define SHADOW_OPS                                                                                           \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |                    \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

/*
 * Without send_ops_flags, libmlx5 makes each WQE large enough to bind a memory window: 192 bytes before the first SGE instead of
 * 48. For small work requests that is half of the queue. All else is as with ibv_create_qp().
 */
static struct ibv_qp *create_lean(const struct mesh_shadow *shadow, const struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = init->qp_context,
		.send_cq = init->send_cq,
		.recv_cq = init->recv_cq,
		.cap = init->cap,
		.srq = init->srq,
		.qp_type = init->qp_type,
		.sq_sig_all = init->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = shadow->spd->pd,
		.send_ops_flags = SHADOW_OPS,
	};

	return ibv_create_qp_ex(shadow->spd->rail->context, &attr);
}

int mesh_shadow_to_init(struct ibv_qp *qp, const struct mesh_shadow_attr *attr)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = attr->pkey_index,
		.port_num = attr->port_num,
		.qp_access_flags = attr->qp_access_flags,
	};

	return mesh_root.lib.verbs.modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int make_qp(struct mesh_vqp *h, const struct mesh_shadow_attr *attr, struct mesh_shadow *shadow)
{
	struct ibv_qp_init_attr init = {
		.qp_context = shadow->reap_entry,
		.send_cq = shadow->send_cq->cq,
		.recv_cq = shadow->recv_cq->cq,
		.cap = h->made.cap,
		.srq = shadow->rail_srq ? shadow->rail_srq->srq : NULL,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = h->made.sq_sig_all,
	};
	struct ibv_qp *qp = mesh_mlx5_is_lower(h->mc) ? create_lean(shadow, &init) : NULL;
	int err;

	if (!qp)
		qp = mesh_root.lib.verbs.create_qp(shadow->spd->pd, &init);
	if (!qp)
		return mesh_failure();
	err = mesh_shadow_to_init(qp, attr);
	if (!err) {
		err = mesh_shadow_cq_add(shadow->send_cq, qp->qp_num, h, shadow->rail_srq);
		if (!err)
			err = mesh_shadow_cq_add(shadow->recv_cq, qp->qp_num, h, shadow->rail_srq);
	}
	shadow->qp = qp;
	return -mesh_positive(err);
}

static int make(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr, bool later, bool standby,
		struct mesh_shadow *ret)
{
	struct mesh_shadow shadow = {.spd = spd};
	/* One CQ for both queues gets room for both in one step. */
	uint32_t recv = h->recv_cq == h->send_cq ? 0 : recv_wrs(h), send = send_wrs(h) + recv_wrs(h) - recv;
	int err;

	err = use_cqs(h, standby);
	if (err)
		return err;
	err = h->srq ? mesh_srq_join_shadow(h->srq, spd->rail, later, &shadow.rail_srq) : 0;
	if (err)
		return err;
	err = mesh_shadow_cq_reserve(h->send_cq, spd->rail, send, NULL, standby, &shadow.send_cq);
	if (err)
		goto err_srq;
	err = mesh_shadow_cq_reserve(h->recv_cq, spd->rail, recv, shadow.rail_srq, standby, &shadow.recv_cq);
	if (err)
		goto err_send;
	shadow.reap_entry = calloc(1, sizeof(*shadow.reap_entry));
	err = shadow.reap_entry ? make_qp(h, attr, &shadow) : -ENOMEM;
	if (err && shadow.qp) {
		dispose(h, &shadow);
		return err;
	}
	if (err)
		goto err_recv;
	*ret = shadow;
	return 0;

err_recv:
	free(shadow.reap_entry);
	mesh_shadow_cq_unreserve(shadow.recv_cq, recv, shadow.rail_srq);
err_send:
	mesh_shadow_cq_unreserve(shadow.send_cq, send, NULL);
err_srq:
	if (shadow.rail_srq)
		mesh_srq_leave_shadow(shadow.rail_srq, false);
	return err;
}

int mesh_shadow_make(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr, bool later,
		     struct mesh_shadow *ret)
{
	return make(h, spd, attr, later, false, ret);
}

int mesh_shadow_make_standby(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
			     struct mesh_shadow *ret)
{
	/* With an SRQ, a standby would take a share of its receives. */
	return h->srq ? -EOPNOTSUPP : make(h, spd, attr, true, true, ret);
}

void mesh_shadow_take_up(struct mesh_vqp *h, const struct mesh_shadow *shadow)
{
	struct mesh_data *data = &h->mc->data;

	mesh_lock(&data->lock);
	mesh_cq_use(h->send_cq);
	mesh_cq_use(h->recv_cq);
	mesh_unlock(&data->lock);
	mesh_shadow_cq_use(shadow->send_cq);
	mesh_shadow_cq_use(shadow->recv_cq);
}

/* vqp->lock */
static int post_noted(struct mesh_vqp *h)
{
	const struct mesh_recvlog *log = &h->early.log;
	size_t i, sge = 0;
	int err = 0;

	if (log->incomplete)
		return -ENOMEM;
	for (i = 0; i < log->n && !err; i++) {
		err = mesh_post_shadow_recv(h, log->notes[i].wr_id, &log->sges[sge], log->notes[i].num_sge);
		sge += (size_t)log->notes[i].num_sge;
	}
	return -mesh_positive(err);
}

int mesh_vqp_prepare(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
		     uint32_t *ret_qpn)
{
	struct mesh_shadow shadow;
	int err;

	if (h->now.qp)
		return -EALREADY;
	if (mesh_vqp_mode(h) != MESH_VQP_QUEUING)
		return -ESHUTDOWN; /* its receives were flushed or consumed already */
	err = mesh_shadow_make(h, spd, attr, false, &shadow);
	if (err)
		return err;
	mesh_lock(&h->lock);
	h->now = shadow;
	mesh_vqp_forget_keys(&h->keys);
	err = post_noted(h);
	mesh_unlock(&h->lock);
	if (err) {
		mesh_vqp_unprepare(h);
		return err;
	}
	*ret_qpn = shadow.qp->qp_num;
	return 0;
}

/* ---- destroying ---------------------------------------------------------------------------------------------- */

/* Its CQs, sorted by address, so that all threads lock in the same order; cqs[1] is NULL if both queues have the same CQ. */
static void cqs_of(const struct mesh_vqp *h, struct mesh_cq *cqs[2])
{
	bool swap = (uintptr_t)h->recv_cq < (uintptr_t)h->send_cq;

	cqs[0] = swap ? h->recv_cq : h->send_cq;
	cqs[1] = h->recv_cq == h->send_cq ? NULL : swap ? h->send_cq : h->recv_cq;
}

/* Return: true: all are frozen, so no thread polls them. */
static bool freeze(struct mesh_vqp *h, bool frozen[2])
{
	struct mesh_cq *cqs[2];

	cqs_of(h, cqs);
	frozen[0] = mesh_cq_freeze(cqs[0]);
	frozen[1] = cqs[1] && mesh_cq_freeze(cqs[1]);
	return frozen[0] && (frozen[1] || !cqs[1]);
}

static void thaw(struct mesh_vqp *h, const bool frozen[2])
{
	struct mesh_cq *cqs[2];

	cqs_of(h, cqs);
	if (cqs[1])
		mesh_cq_thaw(cqs[1], frozen[1]);
	mesh_cq_thaw(cqs[0], frozen[0]);
}

/*
 * Can a QP be destroyed now? libmlx5 takes the locks of its CQs for that. A poller of an extended CQ holds that lock from
 * start_poll to end_poll, and may be waiting for conn->lock, or be this thread.
 */
static bool may_destroy(const struct mesh_vqp *h, const bool frozen[2])
{
	struct mesh_cq *cqs[2];

	cqs_of(h, cqs);
	return (frozen[0] || !cqs[0]->ex.extended) && (!cqs[1] || frozen[1] || !cqs[1]->ex.extended);
}

/* Take the shadow out of the record, and forget the receives that it has. */
static struct mesh_shadow take_away(struct mesh_vqp *h)
{
	struct mesh_shadow shadow;

	mesh_lock(&h->lock);
	shadow = h->now;
	h->now = (struct mesh_shadow){0};
	if (h->tracker && !h->tracker->shared)
		mesh_srqlog_clear(&h->tracker->receives);
	mesh_unlock(&h->lock);
	return shadow;
}

/*
 * The CQs are frozen if possible. Return: the caller passes it to mesh_reap_entry_destroy() or mesh_reaper_add() once
 * the CQs are thawed.
 */
static struct mesh_reap_entry *end_qp(struct mesh_vqp *h, struct mesh_shadow *shadow, bool now)
{
	struct mesh_reap_entry *entry = mesh_reap_entry_init(shadow, send_wrs(h), recv_wrs(h));

	if (now)
		mesh_reap_entry_leave(entry);
	return entry;
}

static void dispose(struct mesh_vqp *h, struct mesh_shadow *shadow)
{
	struct mesh_reap_entry *entry;
	bool frozen[2], now;

	freeze(h, frozen);
	now = may_destroy(h, frozen);
	entry = end_qp(h, shadow, now);
	thaw(h, frozen);
	if (now)
		mesh_reap_entry_destroy(entry);
	else
		mesh_reaper_add(entry);
}

void mesh_shadow_unmake(struct mesh_vqp *h, struct mesh_shadow *shadow)
{
	free(shadow->standby);
	dispose(h, shadow);
}

/* Reserve a place in the software CQ for one completion. poll_lock is held. Return: false: no memory. */
static bool make_room(struct mesh_cq *cq)
{
	mesh_lock(&cq->lock);
	if (!mesh_sw_cq_room(&cq->sw_cq))
		mesh_sw_cq_reserve(&cq->sw_cq, 64);
	mesh_unlock(&cq->lock);
	return mesh_sw_cq_hold_place(cq);
}

/*
 * Has the peer used the shadow? Completions in its CQ go to the software CQ. Exception: receives that a QP in ERR
 * flushes, unless any receive was consumed, because the program's own QP has the same receives. The CQs are frozen.
 */
static bool is_consumed(struct mesh_vqp *h, bool err, uint32_t *n_flushed)
{
	struct mesh_shadow_cq *scq = h->now.recv_cq;
	struct mesh_cq *cq = scq->owner;
	struct ibv_wc wc;
	bool flushed;
	int got = 1;

	while (got > 0) {
		if (!make_room(cq))
			return true; /* no memory: use cannot be excluded */
		got = mesh_poll_shadow(scq, 1, &wc);
		flushed = got > 0 && err && wc.qp_num == h->qp->qp_num &&
			  wc.status == IBV_WC_WR_FLUSH_ERR &&
			  !atomic_load_explicit(&h->flags.consumed, memory_order_relaxed);
		*n_flushed += flushed;
		mesh_sw_cq_fill_place(cq, got > 0 && !flushed ? &wc : NULL);
	}
	return atomic_load_explicit(&h->flags.consumed, memory_order_relaxed);
}

/* @ret_notified: a completion was a notification, so its event is to be made again. Return: true: nothing is left. */
static bool collect_one(struct mesh_cq *cq, struct mesh_shadow_cq *scq, bool *ret_notified)
{
	struct ibv_wc wc;
	int got = 1;

	while (got > 0 && make_room(cq)) {
		got = scq ? mesh_poll_shadow(scq, 1, &wc) : mesh_poll_lower(cq, 1, &wc, ret_notified);
		mesh_sw_cq_fill_place(cq, got > 0 ? &wc : NULL);
	}
	return !got;
}

/* A CQ of the program has one shadow CQ on a rail, for sends and receives. */
static bool collect_from(struct mesh_vqp *h, const struct mesh_shadow *shadow, struct mesh_cq *cq, bool *ret_notified)
{
	struct mesh_shadow_cq *scq = NULL;

	if (shadow->qp)
		scq = h->recv_cq == cq ? shadow->recv_cq : shadow->send_cq;
	if (scq && mesh_shadow_cq_is_away(scq))
		return false;
	return collect_one(cq, scq, ret_notified);
}

bool mesh_shadow_collect(struct mesh_vqp *h, const struct mesh_shadow *shadow)
{
	bool frozen[2], wake[2] = {false}, empty, received = false;
	struct mesh_cq *cqs[2];
	int i;

	cqs_of(h, cqs);
	freeze(h, frozen);
	for (i = 0; i < 2 && cqs[i]; i++) {
		empty = frozen[i] && collect_from(h, shadow, cqs[i], &wake[i]); /* if not frozen, the thread that polls collects */
		received |= empty && cqs[i] == h->recv_cq;
		mesh_lock(&cqs[i]->lock);
		wake[i] |= cqs[i]->sw_cq.n;
		mesh_unlock(&cqs[i]->lock);
	}
	thaw(h, frozen);
	for (i = 0; i < 2 && cqs[i]; i++)
		if (wake[i])
			mesh_cq_notify(cqs[i]);
	return received;
}

void mesh_shadow_collect_sends(struct mesh_vqp *h)
{
	struct mesh_cq *cq = h->send_cq;
	bool wake = false;

	if (!mesh_cq_try_freeze(cq))
		return;
	collect_from(h, &h->now, cq, &wake);
	mesh_lock(&cq->lock);
	wake |= cq->sw_cq.n;
	mesh_unlock(&cq->lock);
	mesh_cq_thaw(cq, true);
	if (wake)
		mesh_cq_notify(cq);
}

/* The shadow is in ERR since @err_ns, and has flushed @n_flushed receives. Return: true: no more completions will come. */
static bool is_through(struct mesh_vqp *h, uint32_t n_flushed, uint64_t err_ns)
{
	bool all;

	mesh_lock(&h->lock);
	all = h->srq || n_flushed >= h->early.log.n;
	mesh_unlock(&h->lock);
	return (all || mesh_now_ns() > err_ns + FLUSH_NS) && mesh_shadow_drained(h, &h->now, err_ns);
}

/*
 * Bring the shadow to ERR, and check that no message arrived: a receive may complete after modify to ERR has returned. The CQs
 * are frozen.
 */
static bool is_unused(struct mesh_vqp *h)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint32_t n_flushed = 0;
	uint64_t err_ns;
	bool through;

	if (!h->now.rtr)
		return true; /* nothing can arrive before RTR */
	if (is_consumed(h, false, &n_flushed) || mesh_shadow_modify(h, &attr, IBV_QP_STATE))
		return false;
	err_ns = mesh_now_ns();
	do {
		through = is_through(h, n_flushed, err_ns);
		if (is_consumed(h, true, &n_flushed))
			return false;
		if (!through)
			usleep(FLUSH_STEP_US);
	} while (!through);
	return true;
}

int mesh_vqp_unprepare(struct mesh_vqp *h)
{
	struct mesh_reap_entry *entry = NULL;
	struct mesh_shadow shadow;
	bool frozen[2], now, unused;

	if (!h->now.qp)
		return 0;
	now = freeze(h, frozen);
	unused = !h->now.rtr || (now && is_unused(h));
	now = may_destroy(h, frozen);
	if (unused) {
		shadow = take_away(h);
		entry = end_qp(h, &shadow, now);
	}
	thaw(h, frozen);
	if (!unused)
		return -EBUSY;
	if (now)
		mesh_reap_entry_destroy(entry);
	else
		mesh_reaper_add(entry);
	return 0;
}

void mesh_shadow_destroy(struct mesh_vqp *h)
{
	struct mesh_reap_entry *entry;
	struct mesh_shadow shadow;
	bool frozen[2];

	if (!h->now.qp)
		return;
	freeze(h, frozen);
	shadow = take_away(h);
	entry = end_qp(h, &shadow, true); /* destroying the program's own QP waits for pollers, too */
	thaw(h, frozen);
	mesh_reap_entry_destroy(entry);
}
