// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "vqp_failover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "parity.h"
#include "pdstay.h"
#include "qpmade.h"
#include "srq.h"
#include "vqp_int.h"

/* From the log to the next QP. drain.c and replay.c do the steps after that. */

/* ---- the log of the program's own QP ------------------------------------------------------------------------- */

static void count_lower_wrs(struct mesh_vqp *h, int sign)
{
	struct mesh_data *data = &h->mc->data;

	mesh_lock(&data->lock);
	h->send_cq->size.n_lower_wrs += (uint32_t)sign * h->made.cap.max_send_wr;
	h->recv_cq->size.n_lower_wrs += (uint32_t)sign * h->made.cap.max_recv_wr;
	mesh_unlock(&data->lock);
}

static void unlist(struct mesh_vqp *h)
{
	mesh_cq_remove_own_qp(h->send_cq, h->qp->qp_num, NULL, h);
	mesh_cq_remove_own_qp(h->recv_cq, h->qp->qp_num, NULL, h);
	count_lower_wrs(h, -1);
}

int mesh_failover_track(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_vqp_ops *ops, void *arg,
			uint32_t mtu_bytes, struct mesh_vqp **ret)
{
	struct mesh_vqp *h;
	int err;

	err = mesh_vqp_begin(mc, qp, ops, arg, MESH_VQP_TRACKED, &h);
	if (err)
		return err;
	mesh_lock(&h->lock);
	mesh_tracker_rtr(h->tracker, mtu_bytes);
	mesh_unlock(&h->lock);
	/* In INIT no work completes, so no completion is missed. */
	count_lower_wrs(h, 1);
	h->logged_lower = true;
	err = mesh_cq_add_own_qp(h->send_cq, qp->qp_num, NULL, h);
	if (!err)
		err = mesh_cq_add_own_qp(h->recv_cq, qp->qp_num, NULL, h);
	if (err) {
		mesh_vqp_destroy(h);
		return err;
	}
	if (mesh_tracker_reads(h->tracker)) {
		mesh_walker_quicken(h->send_cq);
		mesh_walker_quicken(h->recv_cq);
	}
	*ret = h;
	return 0;
}

void mesh_failover_untrack(struct mesh_vqp *h)
{
	unlist(h);
	h->logged_lower = false;
	mesh_vqp_begin_again(h);
}

int mesh_failover_lower_rts(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask)
{
	bool drained;

	mesh_lock(&h->lock);
	drained = h->mode == MESH_VQP_DRAINING || h->mode == MESH_VQP_DRAINED;
	if (!drained)
		mesh_tracker_rts(h->tracker, attr->sq_psn);
	mesh_unlock(&h->lock);
	if (drained)
		return 0;
	return mesh_vqp_modify_lower(h, attr, attr_mask);
}

void mesh_failover_end(struct mesh_vqp *h)
{
	if (!h->tracker)
		return;
	mesh_failover_end_drain(h);
	mesh_failover_release(h);
	mesh_failover_disarm(h);
	mesh_failover_reap(h);
	if (h->logged_lower)
		unlist(h);
	h->logged_lower = false;
	if (h->early.hides_lower)
		mesh_cq_remove_own_qp(h->recv_cq, h->qp->qp_num, NULL, h);
	h->early.hides_lower = false;
}

const char *mesh_failover_lost(struct mesh_vqp *h)
{
	const char *lost;

	mesh_lock(&h->lock);
	lost = !h->tracker ? "it has no log" : h->tracker->lost ? h->tracker->lost : h->tracker->lost_atomic;
	/* A QP that has moved fails on any NIC with that key, so the move makes no difference. */
	if (!lost && h->mode == MESH_VQP_TRACKED)
		lost = mesh_pd_stays(h->qp->pd);
	if (!lost && h->mode == MESH_VQP_TRACKED)
		lost = mesh_qp_stays(h->mc, h->qp);
	mesh_unlock(&h->lock);
	return lost;
}

void mesh_failover_end_of_peer(struct mesh_vqp *h)
{
	bool drained;

	if (!h)
		return;
	mesh_lock(&h->lock);
	drained = h->mode == MESH_VQP_DRAINING || h->mode == MESH_VQP_DRAINED;
	/* An atomic whose error is still to come keeps waiting for its turn: post.c. */
	if (h->tracker && !h->tracker->broken && !h->tracker->lost && !h->tracker->lost_atomic && !drained)
		h->tracker->lost = "the peer's QP is gone";
	mesh_unlock(&h->lock);
}

bool mesh_failover_sends(struct mesh_vqp *h)
{
	bool rts;

	mesh_lock(&h->lock);
	rts = h->now.qp && h->now.rts;
	mesh_unlock(&h->lock);
	return rts;
}

bool mesh_failover_got_through(struct mesh_vqp *h)
{
	bool through;

	mesh_lock(&h->lock);
	through = h->tracker && (mesh_tracker_reads(h->tracker) || h->tracker->acknowledged);
	mesh_unlock(&h->lock);
	return through;
}

bool mesh_failover_broken(struct mesh_vqp *h)
{
	bool broken;

	mesh_lock(&h->lock);
	broken = h->tracker && h->tracker->broken;
	mesh_unlock(&h->lock);
	return broken;
}

/* ---- the next QP --------------------------------------------------------------------------------------------- */

/* Return: 0; -EBUSY: a thread polls the CQ; -errno. */
static int resize(struct mesh_cq *cq, uint32_t cqe)
{
	struct mesh_data *data = &cq->mc->data;
	struct mesh_cq_resize resize;
	bool frozen, known;
	int err;

	known = mesh_cq_resize_begin(data, cq->cq, &resize);
	do
		frozen = mesh_cq_freeze(cq);
	while (!frozen && known); /* as mesh_resize_cq() */
	err = !frozen && cq->ex.extended ? -EBUSY : -mesh_positive(cq->mc->lower.cq.resize_cq(cq->cq, (int)cqe));
	if (known)
		mesh_walker_cq_refresh(cq);
	else
		mesh_cq_resize_end(data, &resize);
	mesh_cq_thaw(cq, frozen);
	return err;
}

/*
 * Resize the program's CQ so that a flush fits. The program sized its CQ for signaled work, but a QP in ERR completes all of its
 * work requests. Completions that are not polled yet come on top, of QPs without log and of receives of an SRQ: as many as the
 * program sized the CQ for.
 */
static int make_room(struct mesh_cq *cq)
{
	struct mesh_data *data = &cq->mc->data;
	uint32_t least;
	uint64_t want;
	int err;

	mesh_lock(&data->lock);
	least = cq->size.n_lower_wrs + 3; /* a notification, and two sentinels of a drain */
	want = (uint64_t)least + atomic_load_explicit(&cq->size.own_cqe, memory_order_relaxed);
	mesh_unlock(&data->lock);
	if (want <= (uint32_t)cq->cq->cqe)
		return 0;
	if (want <= INT32_MAX && (!cq->size.no_cqe || want < cq->size.no_cqe)) {
		err = resize(cq, (uint32_t)want);
		if (!err || err == -EBUSY)
			return err;
		if (err != -ENOMEM)
			cq->size.no_cqe = (uint32_t)want;
	}
	/* The CQ cannot be so large. At least make room for all QPs that have a log. */
	return least <= (uint32_t)cq->cq->cqe ? 0 : resize(cq, least);
}

int mesh_failover_arm(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr)
{
	int err;

	if (h->standby.shadow.qp)
		return -EBUSY;
	if (mesh_failover_lost(h))
		return -EOPNOTSUPP;
	err = mesh_shadow_make_standby(h, spd, attr, &h->standby.shadow);
	if (err)
		return err;
	h->standby.attr = *attr;
	mesh_walker_reserve(h);
	return 0;
}

void mesh_failover_reap(struct mesh_vqp *h)
{
	if (h->old.qp)
		mesh_shadow_unmake(h, &h->old);
	h->old = (struct mesh_shadow){0};
}

void mesh_failover_disarm(struct mesh_vqp *h)
{
	if (h->standby.shadow.qp)
		mesh_shadow_unmake(h, &h->standby.shadow);
	h->standby.shadow = (struct mesh_shadow){0};
}

uint32_t mesh_failover_armed(const struct mesh_vqp *h)
{
	return h->standby.shadow.qp ? h->standby.shadow.qp->qp_num : 0;
}

/* Is there a standby that fits? */
static bool is_armed_for(const struct mesh_vqp_standby *armed, const struct mesh_pd *spd,
			 const struct mesh_shadow_attr *attr)
{
	return armed->shadow.qp && armed->shadow.spd == spd && armed->attr.port_num == attr->port_num &&
	       armed->attr.pkey_index == attr->pkey_index && armed->attr.qp_access_flags == attr->qp_access_flags;
}

uint32_t mesh_failover_could_take(struct mesh_vqp *h, const struct mesh_pd *spd, const struct mesh_shadow_attr *attr)
{
	bool fits = !h->next.shadow.qp && is_armed_for(&h->standby, spd, attr);

	return fits && !mesh_failover_lost(h) && !mesh_walker_prepare(h) ? h->standby.shadow.qp->qp_num : 0;
}

static struct mesh_shadow take_standby(struct mesh_vqp *h)
{
	struct mesh_shadow armed = h->standby.shadow;

	h->standby.shadow = (struct mesh_shadow){0};
	mesh_shadow_take_up(h, &armed);
	return armed;
}

/* Intercept posts, and make room in the CQs for the flush of a drain. */
static int get_ready(struct mesh_vqp *h)
{
	int err;

	if (h->next.shadow.qp)
		return -EBUSY;
	if (mesh_failover_lost(h))
		return -EOPNOTSUPP;
	err = mesh_walker_engage(h);
	if (!err && mesh_vqp_mode(h) == MESH_VQP_TRACKED) {
		err = make_room(h->send_cq);
		if (!err && h->recv_cq != h->send_cq)
			err = make_room(h->recv_cq);
	}
	return err;
}

int mesh_failover_prepare(struct mesh_vqp *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
			  uint32_t *ret_qpn)
{
	struct mesh_shadow next;
	int err = get_ready(h);

	if (!err && is_armed_for(&h->standby, spd, attr))
		next = take_standby(h);
	else if (!err)
		err = mesh_shadow_make(h, spd, attr, true, &next);
	if (err)
		return err;
	mesh_lock(&h->lock);
	h->next.shadow = next;
	mesh_unlock(&h->lock);
	*ret_qpn = next.qp->qp_num;
	return 0;
}

/* @qp was never posted to. Return: 0 or errno. */
static int back_to_init(struct ibv_qp *qp, const struct mesh_shadow_attr *made)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	int err = mesh_root.lib.verbs.modify_qp(qp, &reset, IBV_QP_STATE);

	return err ? err : mesh_shadow_to_init(qp, made);
}

/* Return: 0 or errno; EOPNOTSUPP: see mesh_parity_why(). */
static int to_rts(struct mesh_vqp *h, struct ibv_qp *qp, struct ibv_qp_attr *rtr, int rtr_mask, struct ibv_qp_attr *rts,
		  int rts_mask)
{
	int err = -mesh_parity_set(h, qp);

	if (!err)
		err = mesh_root.lib.verbs.modify_qp(qp, rtr, rtr_mask);
	if (!err && rts_mask)
		err = mesh_root.lib.verbs.modify_qp(qp, rts, rts_mask);
	return err ? err : -mesh_parity_check(h, qp, rts_mask);
}

static bool same(const struct mesh_standby *standby, const struct ibv_qp_attr *rtr, int rtr_mask,
		 const struct ibv_qp_attr *rts, int rts_mask)
{
	return standby->rtr_mask == rtr_mask && standby->rts_mask == rts_mask &&
	       !memcmp(&standby->rtr, rtr, sizeof(*rtr)) && !memcmp(&standby->rts, rts, sizeof(*rts));
}

int mesh_failover_standby(struct mesh_vqp *h, struct ibv_qp_attr *rtr, int rtr_mask, struct ibv_qp_attr *rts,
			  int rts_mask)
{
	struct mesh_shadow *armed = &h->standby.shadow;
	struct mesh_standby *standby = armed->standby;
	int err = 0;

	if (!armed->qp)
		return -ENOENT;
	if (standby && same(standby, rtr, rtr_mask, rts, rts_mask))
		return 0;
	if (standby)
		err = back_to_init(armed->qp, &h->standby.attr);
	else
		standby = armed->standby = calloc(1, sizeof(*standby));
	if (!standby)
		return -ENOMEM;
	/* Copied before the calls: modify_qp() may change the attributes. memcpy() keeps padding for memcmp(). */
	memcpy(&standby->rtr, rtr, sizeof(*rtr));
	memcpy(&standby->rts, rts, sizeof(*rts));
	standby->rtr_mask = rtr_mask;
	standby->rts_mask = rts_mask;
	if (!err)
		err = to_rts(h, armed->qp, rtr, rtr_mask, rts, rts_mask);
	if (err)
		standby->rtr_mask = 0; /* no valid attributes: the next connect begins with RESET */
	return -mesh_positive(err);
}

bool mesh_failover_on_standby(const struct mesh_vqp *h, const struct mv_ctl_end *peer)
{
	const struct mesh_shadow *shadow = h->next.shadow.qp ? &h->next.shadow : &h->standby.shadow;
	const struct mesh_standby *standby = shadow->qp ? shadow->standby : NULL;

	return standby && standby->rtr_mask && standby->rtr.dest_qp_num == peer->qpn &&
	       mv_gid_equal(&standby->rtr.ah_attr.grh.dgid, &peer->gid);
}

/* vqp->lock */
static void note_connected(struct mesh_vqp_next *next, const struct ibv_qp_attr *rtr, const struct ibv_qp_attr *rts,
			   int rts_mask)
{
	next->shadow.rtr = true;
	next->shadow.rts = rts_mask;
	next->mtu_bytes = mesh_mtu_bytes(rtr->path_mtu);
	next->sq_psn = rts->sq_psn;
}

int mesh_failover_connect(struct mesh_vqp *h, struct ibv_qp_attr *rtr, int rtr_mask, struct ibv_qp_attr *rts,
			  int rts_mask)
{
	struct mesh_standby *standby = h->next.shadow.standby;
	int err = 0;

	if (!h->next.shadow.qp)
		return mesh_failover_standby(h, rtr, rtr_mask, rts, rts_mask);
	if (!standby || !same(standby, rtr, rtr_mask, rts, rts_mask)) {
		if (standby)
			err = back_to_init(h->next.shadow.qp, &h->standby.attr);
		if (!err)
			err = to_rts(h, h->next.shadow.qp, rtr, rtr_mask, rts, rts_mask);
	}
	if (err)
		return -mesh_positive(err);
	mesh_lock(&h->lock);
	note_connected(&h->next, rtr, rts, rts_mask);
	mesh_unlock(&h->lock);
	h->next.shadow.standby = NULL;
	free(standby);
	return 0;
}

bool mesh_failover_has_next(const struct mesh_vqp *h)
{
	return h->next.shadow.qp;
}

int mesh_failover_take_standby(struct mesh_vqp *h)
{
	struct mesh_standby *standby = h->standby.shadow.qp ? h->standby.shadow.standby : NULL;
	struct mesh_shadow next;
	int err;

	if (!standby || !standby->rtr_mask)
		return -ENOENT;
	err = get_ready(h);
	if (err)
		return err;
	next = take_standby(h);
	next.standby = NULL;
	mesh_lock(&h->lock);
	h->next.shadow = next;
	note_connected(&h->next, &standby->rtr, &standby->rts, standby->rts_mask);
	mesh_unlock(&h->lock);
	free(standby);
	return 0;
}

void mesh_failover_release(struct mesh_vqp *h)
{
	struct mesh_shadow next;

	mesh_lock(&h->lock);
	next = h->next.shadow;
	h->next.shadow = (struct mesh_shadow){0};
	h->paused.quiet = MESH_QUIET_NO;
	mesh_post_drain(h);
	mesh_unlock(&h->lock);
	if (next.qp)
		mesh_shadow_unmake(h, &next);
}

bool mesh_failover_waits(struct mesh_vqp *h)
{
	bool some;

	mesh_lock(&h->lock);
	if (h->mode == MESH_VQP_TRACKED)
		mesh_post_drain(h);
	some = h->mode == MESH_VQP_TRACKED && h->queue.n;
	mesh_unlock(&h->lock);
	return some;
}

/* Does a shadow do the work, with a good log? vqp->lock */
static bool is_logged(const struct mesh_vqp *h)
{
	return h->mode == MESH_VQP_ACTIVE && h->tracker && !h->tracker->lost;
}

bool mesh_failover_is_failing(struct mesh_vqp *h)
{
	bool failing;

	mesh_lock(&h->lock);
	failing = is_logged(h) && h->tracker->lost_atomic;
	mesh_unlock(&h->lock);
	return failing;
}

bool mesh_failover_waits_to_fail(struct mesh_vqp *h)
{
	bool waits;

	mesh_lock(&h->lock);
	waits = is_logged(h) && h->tracker->lost_atomic && h->queue.n;
	mesh_unlock(&h->lock);
	if (waits)
		mesh_shadow_collect_sends(h); /* polling posts the failing send */
	return waits;
}

bool mesh_failover_has_done_all(struct mesh_vqp *h)
{
	bool done;

	mesh_lock(&h->lock);
	done = h->mode == MESH_VQP_ACTIVE && h->tracker && !h->tracker->unlogged &&
	       !mv_wrlog_count(&h->tracker->sends.log);
	mesh_unlock(&h->lock);
	return done;
}
