// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <unistd.h>

#include "connectint.h"
#include "connpath.h"
#include "failover_exec.h"
#include "vqp_failover.h"
#include "move_failover.h"
#include "qpmade.h"
#include "srq.h"
#include "ud.h"
#include "vqp_int.h"

/* ibv_modify_qp() on the program's QPs: INIT, RTS and later. RTR is in connect.c, RESET in end.c. */

/* QP types whose address vector is set once, at RTR. */
static bool is_connected(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return true;
	default:
		return false;
	}
}

static bool moves_possible(const struct mesh_context *mc)
{
	return mc->can_move && mesh_directory_agent();
}

/* ---- INIT ---------------------------------------------------------------------------------------------------- */

/* The program's own QP has gone to INIT. @conn: NULL: there is no record yet. */
static void begin(struct mesh_context *mc, struct mesh_conn *conn, struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	bool made = !conn && moves_possible(mc), no_memory;
	int err;

	/* From INIT to INIT without a record: receives posted since the first INIT are not known. */
	if (!conn && qp->state != IBV_QPS_RESET && !qp->srq)
		return;
	if (made)
		conn = mesh_conn_new(mc, qp);
	no_memory = made && !conn;
	if (conn) {
		mesh_lock(&conn->lock);
		err = conn->attr.init_mask ? 0 : mesh_recvlog_begin(mc, qp);
		conn->gone |= err != 0; /* its receives are not recorded, so it never moves */
		no_memory |= err == -ENOMEM;
		mesh_attr_merge(&conn->attr.init, attr, mask);
		conn->attr.init_mask |= mask;
		mesh_unlock(&conn->lock);
		if (conn->gone)
			mesh_conn_unlink(conn);
	}
	mesh_forgotten_note(mc, qp->qp_num, no_memory);
	if (made)
		mesh_conn_put(conn);
}

/* Does the plugin keep this QP's state? The program's own QP may still be in INIT, and would accept INIT again. */
static bool is_connected_by_us(struct mesh_conn *conn)
{
	bool ours;

	mesh_lock(&conn->lock);
	ours = conn->vqp;
	mesh_unlock(&conn->lock);
	return ours;
}

static int to_init(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int cancel = mesh_cancel_off(), err, saved_errno;
	struct mesh_conn *conn = mesh_conn_get(qp);

	err = conn && is_connected_by_us(conn) ? mesh_conn_refuse() : mc->lower.qp.modify_qp(qp, attr, mask);
	saved_errno = errno;
	if (!err)
		begin(mc, conn, qp, attr, mask);
	mesh_conn_put(conn);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return err;
}

/*
 * Note a change that the lower provider has made: from INIT to INIT without IBV_QP_STATE, or the first PSN of a
 * connection that stays.
 */
static void note(struct mesh_conn *conn, const struct ibv_qp_attr *attr, int mask)
{
	mesh_lock(&conn->lock);
	if (conn->state == MESH_CONN_INIT && !(mask & IBV_QP_STATE)) {
		mesh_attr_merge(&conn->attr.init, attr, mask & conn->attr.init_mask);
	} else if (conn->state == MESH_CONN_PASSTHROUGH && (mask & IBV_QP_SQ_PSN)) {
		conn->attr.rts = *attr;
		conn->attr.rts_mask = mask;
	}
	mesh_unlock(&conn->lock);
}

/* ---- RTS and later ------------------------------------------------------------------------------------------- */

/* IBTA, 9.7.6.1.3: each try takes at least 4.096 us << timeout; timeout 0 means for ever. Return: ns. */
static uint64_t patience_of(const struct ibv_qp_attr *rts)
{
	unsigned int timeout = rts->timeout & 31;

	return timeout ? ((uint64_t)(rts->retry_cnt & 7) + 1) * 4096 << timeout : UINT64_MAX;
}

/* Called with conn->lock held, and conn->vqp set. */
static int held_to_rts(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask)
{
	int err;

	if (!conn->attr.rtr_mask || conn->attr.rts_mask || !mesh_is_rts(attr, mask))
		return mesh_conn_refuse();
	/* The error that RTR on a bare HCA would have given. */
	if (conn->state == MESH_CONN_FAILED && conn->attempt.rtr_error)
		return errno = conn->attempt.rtr_error;
	conn->attr.rts = *attr;
	conn->attr.rts_mask = mask;
	err = conn->path.connected ? -mesh_conn_shadow_rts(conn) : 0;
	if (err) {
		conn->attr.rts_mask = 0; /* the program may try again with other attributes */
		return err;
	}
	mv_move_patience(&conn->move, patience_of(attr));
	mv_move_rts(&conn->move, attr->sq_psn & 0xffffff, mesh_now_ns());
	return 0;
}

/* Remember attributes for the next QP. */
static void remember(struct mesh_conn *conn, const struct ibv_qp_attr *attr, int mask)
{
	mesh_attr_merge(&conn->attr.init, attr, mask & MESH_CHANGES & conn->attr.init_mask);
	mesh_attr_merge(&conn->attr.rtr, attr, mask & MESH_CHANGES & conn->attr.rtr_mask);
	mesh_attr_merge(&conn->attr.rts, attr, mask & MESH_CHANGES & conn->attr.rts_mask);
}

/* Change a connection after RTS. Return: as mc->lower.qp.modify_qp(). */
static int change(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask)
{
	int err = -mesh_vqp_modify(conn->vqp, attr, mask);

	if (err)
		return err;
	remember(conn, attr, mask);
	if (mask & IBV_QP_RATE_LIMIT && attr->rate_limit)
		mesh_qp_stay(conn->mc, conn->qp, "it has a rate limit (ibv_modify_qp)");
	return -mesh_failover_change(conn->vqp, attr, mask);
}

/* The program's own QP does the work, with a log. Return: as mc->lower.qp.modify_qp(). */
static int modify_logged(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask)
{
	int err;

	if (!(mask & IBV_QP_STATE) || attr->qp_state != IBV_QPS_RTS || conn->attr.rts_mask)
		return change(conn, attr, mask);
	err = mesh_failover_lower_rts(conn->vqp, attr, mask);
	if (err)
		return err;
	conn->attr.rts = *attr;
	conn->attr.rts_mask = mask;
	mv_move_rts(&conn->move, attr->sq_psn & 0xffffff, mesh_now_ns());
	return 0;
}

/*
 * The program has ended a connection during the agreement. Another path would need another QP with the same receives, whose
 * flushes the program is already getting. So the peer is told what a QP that does not move would tell.
 */
static void end_agreement(struct mesh_conn *conn)
{
	mesh_conn_say_bye(conn);
	conn->state = MESH_CONN_FAILED;
}

static int modify_taken(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask)
{
	int err;

	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS && !conn->attr.rts_mask)
		return held_to_rts(conn, attr, mask);
	err = change(conn, attr, mask);
	if (!err && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR && conn->state == MESH_CONN_HELD)
		end_agreement(conn);
	return err;
}

/* Would the kernel refuse this for any connected QP? to_init() handles INIT. */
static bool is_refused(const struct ibv_qp_attr *attr, int mask)
{
	if (!(mask & IBV_QP_STATE))
		return false;
	return attr->qp_state == IBV_QPS_RTR || (attr->qp_state == IBV_QPS_ERR && mask != IBV_QP_STATE);
}

/* May this call modify the program's own QP, and the functions that post to it? conn->lock */
static bool reaches_lower(const struct mesh_conn *conn, int mask)
{
	if (!conn->vqp)
		return false;
	if (!mesh_conn_taken(conn) || conn->state == MESH_CONN_FAILED) /* a failed one may still use the program's own QP */
		return true;
	return conn->state == MESH_CONN_HELD && mask & IBV_QP_ACCESS_FLAGS;
}

/*
 * The program brings the QP to ERR: end the move under way. This waits for pollers, and programs post between ibv_start_poll()
 * and ibv_end_poll(), so posting must not be stopped yet. May be called twice. conn->lock
 */
static void end_move(struct mesh_conn *conn)
{
	if (conn->move.failover) {
		mesh_conn_last_word(conn);
		mv_move_abort(&conn->move, mesh_now_ns());
	}
	mesh_failover_give_up(conn->vqp);
}

#define BATCH_US 100 /* interval to check whether another thread's batch is over */

/*
 * Take conn->lock, and stop posting if the program's own QP may be modified. Waits for another thread's batch (ibv_wr_start()),
 * but without conn->lock, which that thread may need.
 *
 * Return: pass it to leave(), which resumes posting; NULL: posting is not stopped.
 */
static struct mesh_vqp *enter(struct mesh_conn *conn, const struct ibv_qp_attr *attr,
			      int mask) MV_ACQUIRES(&conn->lock);
static struct mesh_vqp *enter(struct mesh_conn *conn, const struct ibv_qp_attr *attr, int mask)
{
	bool ends = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR && !is_refused(attr, mask);

	for (;;) {
		mesh_lock(&conn->lock);
		if (conn->vqp && ends)
			end_move(conn);
		if (!reaches_lower(conn, mask) || mesh_vqp_in_own_batch(conn->vqp))
			return NULL;
		if (mesh_vqp_stop_posting(conn->vqp))
			return conn->vqp;
		mesh_unlock(&conn->lock);
		usleep(BATCH_US);
	}
}

static void leave(struct mesh_conn *conn, struct mesh_vqp *stopped) MV_RELEASES(&conn->lock);
static void leave(struct mesh_conn *conn, struct mesh_vqp *stopped)
{
	if (stopped)
		mesh_vqp_resume_posting(stopped);
	mesh_unlock(&conn->lock);
}

/* @ret_taken: the plugin handles this connection's transitions. */
static int modify_conn(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask, bool *ret_taken)
{
	struct mesh_vqp *stopped = enter(conn, attr, mask);
	int err = 0;

	*ret_taken = conn->vqp;
	if (conn->vqp && is_refused(attr, mask)) {
		leave(conn, stopped);
		return mesh_conn_refuse();
	}
	if (mesh_conn_taken(conn))
		err = modify_taken(conn, attr, mask);
	else if (conn->vqp)
		err = modify_logged(conn, attr, mask);
	mesh_conn_key_peer(conn);
	leave(conn, stopped);
	if (*ret_taken) {
		mesh_conn_queue(conn, true);
		mesh_thread_wake(true);
	}
	return err;
}

/* ---- ibv_modify_qp ------------------------------------------------------------------------------------------- */

static int modify_ud(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	bool reset = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET;
	struct mesh_srq_own_qp *leaving = NULL;
	int err;

	if (reset)
		leaving = mesh_srq_leaving(mc, qp);
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR && mesh_srq_join_lower(mc, qp, true))
		return EBUSY;
	err = mesh_lower_modify(mc, qp, attr, mask);
	mesh_srq_left(leaving, !err);
	/* Datagrams that relays have received by then are still delivered. */
	if (!err && reset)
		mesh_ud_gone(mc, qp);
	else if (!err)
		mesh_ud_modified(mc, qp, attr, mask);
	return err;
}

/* Nothing to do but to note the PSN, for which the peer may ask. */
static int modify_untouched(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = mc->lower.qp.modify_qp(qp, attr, mask);

	if (!err && mask & IBV_QP_SQ_PSN)
		mesh_conn_note_sq_psn(qp, attr->sq_psn & 0xffffff);
	return err;
}

int mesh_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	bool state = attr_mask & IBV_QP_STATE, taken = false;
	struct mesh_conn *conn;
	int err = 0, cancel;

	if (!mesh_context_active(mc))
		return mc->lower.qp.modify_qp(qp, attr, attr_mask);
	if (state && attr->qp_state == IBV_QPS_RTR && (attr_mask & IBV_QP_AV) && is_connected(qp->qp_type) &&
	    (attr->ah_attr.is_global || qp->qp_type == IBV_QPT_RC))
		return mesh_qp_to_rtr(mc, qp, attr, attr_mask);
	if (qp->qp_type == IBV_QPT_UD && mc->can_move) {
		cancel = mesh_cancel_off(); /* the kernel is called with locks of an SRQ held */
		err = modify_ud(mc, qp, attr, attr_mask);
		mesh_cancel_restore(cancel);
		return err;
	}
	if (qp->qp_type != IBV_QPT_RC || !mc->can_move)
		return mesh_lower_modify(mc, qp, attr, attr_mask);
	if (state && attr->qp_state == IBV_QPS_INIT)
		return to_init(mc, qp, attr, attr_mask);
	if (!(state && attr->qp_state == IBV_QPS_RESET) && mesh_conn_untouched(qp))
		return modify_untouched(mc, qp, attr, attr_mask);

	cancel = mesh_cancel_off();
	conn = mesh_conn_get(qp);
	if (state && attr->qp_state == IBV_QPS_RESET) {
		err = mesh_qp_to_reset(mc, conn, qp, attr, attr_mask);
		taken = true;
	} else if (conn) {
		err = modify_conn(conn, attr, attr_mask, &taken);
	}
	if (!taken)
		err = mc->lower.qp.modify_qp(qp, attr, attr_mask);
	if (conn && !taken && !err)
		note(conn, attr, attr_mask);
	mesh_conn_put(conn);
	mesh_cancel_restore(cancel);
	return err;
}
