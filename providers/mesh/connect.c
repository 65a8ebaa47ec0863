// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conn.h"
#include "count.h"
#include "held.h"
#include "live.h"
#include "paths.h"
#include "reasons.h"
#include "relocate.h"
#include "srq.h"
#include "ud.h"

/*
 * What the program does to its RC queue pairs: INIT, RTR, RTS, anything later, query, destroy. A connection whose path
 * works goes straight through to the base.
 */

/* ---- helpers ------------------------------------------------------------------------------------------------- */

/* QPs whose address vector is set once, on the way to RTR, and known to the peer. */
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
	return mc->can_move && mesh_view_agent();
}

/* Is the work of this connection ours to handle? Called with conn->lock held. */
static bool is_taken(const struct mesh_conn *conn)
{
	return conn->held && conn->state != MESH_CONN_NATIVE;
}

static void unclaim(struct mesh_conn *conn)
{
	struct mv_frame frame = {.type = MV_FRAME_UNCLAIM, .qpn = conn->qpn};

	memcpy(frame.device, conn->mc->device, sizeof(frame.device));
	mesh_thread_frame(&frame);
}

static void say_bye(struct mesh_conn *conn)
{
	struct mv_ctl_msg bye;

	if (mv_move_bye(&conn->move, &bye))
		mesh_thread_send(&bye);
}

/*
 * The program's QP leaves this connection for good, to be destroyed or used again.
 * @keep_queue: the QP lives on
 */
static void drop(struct mesh_conn *conn)
{
	pthread_mutex_lock(&conn->lock);
	if (conn->state == MESH_CONN_INIT)
		mesh_recvlog_end(conn->mc, conn->qp);
	if (conn->held)
		say_bye(conn);
	conn->gone = true;
	if (conn->held)
		mesh_held_destroy(conn->held);
	conn->held = NULL;
	if (conn->path.pd)
		mesh_pd_put(conn->path.pd);
	conn->path.pd = NULL;
	mesh_conn_moves_no_more(conn);
	mesh_conn_leave(conn);
	mesh_conn_key_peer(conn);
	pthread_mutex_unlock(&conn->lock);
	mesh_conn_unlink(conn);
	unclaim(conn);
}

/* ---- INIT ---------------------------------------------------------------------------------------------------- */

static int to_init(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = mc->modify_qp(qp, attr, mask), cancel, saved_errno;
	struct mesh_conn *conn;
	bool no_memory = false;

	if (err)
		return err;
	saved_errno = errno;
	cancel = mesh_cancel_off();
	conn = mesh_conn_get(qp);
	if (!conn && moves_possible(mc)) {
		conn = mesh_conn_new(mc, qp);
		no_memory = !conn;
	}
	if (conn) {
		pthread_mutex_lock(&conn->lock);
		if (!conn->init_mask && mesh_recvlog_begin(mc, qp))
			conn->gone = no_memory = true; /* to note its receives: it stays where it is */
		mesh_attr_merge(&conn->init, attr, mask);
		conn->init_mask |= mask;
		pthread_mutex_unlock(&conn->lock);
		if (conn->gone)
			mesh_conn_unlink(conn);
	}
	mesh_forgotten_note(mc, qp->qp_num, no_memory);
	mesh_conn_put(conn);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return 0;
}

/* ---- RTR ----------------------------------------------------------------------------------------------------- */

/* @held: NULL: the base's functions are on it */
static int modify_base(struct mesh_context *mc, struct mesh_held *held, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return held ? mesh_held_modify_base(held, attr, mask) : mc->modify_qp(qp, attr, mask);
}

static int rtr_native(struct mesh_context *mc, struct mesh_held *held, struct ibv_qp *qp, struct ibv_qp_attr *attr,
		      int mask, uint8_t index)
{
	struct ibv_qp_attr repaired;
	int err = mesh_srq_join_base(mc, qp, !held);

	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: a queue pair cannot receive from its SRQ: what is posted there is in use "
			    "by connections that have moved, and cannot be taken back: %s", mc->device, strerrordesc_np(-err));
	if (err)
		return -err;
	if (!attr->ah_attr.is_global || index == attr->ah_attr.grh.sgid_index)
		return modify_base(mc, held, qp, attr, mask);
	repaired = *attr;
	repaired.ah_attr.grh.sgid_index = index;
	if (!modify_base(mc, held, qp, &repaired, mask)) {
		mesh_count(MV_COUNT_REPAIRED_QP);
		return 0;
	}
	mesh_count(MV_COUNT_REPAIR_REFUSED);
	/* The program gets the result it would have had without us. */
	return modify_base(mc, held, qp, attr, mask);
}

/* Grows with each connect on this host, so that no late message of a QP's earlier life is taken for one of this. */
static uint32_t next_attempt(void)
{
	_Atomic uint64_t *last = &mesh_root.process->last_attempt;
	uint64_t before = atomic_load_explicit(last, memory_order_relaxed), next;

	do {
		next = mesh_now_ns() / 1000000;
		if (next <= before)
			next = before + 1;
		if (!(uint32_t)next)
			next++; /* 0 means none */
	} while (!atomic_compare_exchange_weak_explicit(last, &before, next, memory_order_relaxed, memory_order_relaxed));
	return (uint32_t)next;
}

/* Is it its own peer? */
static bool is_itself(const struct mesh_conn *conn, const struct mesh_choice *choice, const struct ibv_qp_attr *attr,
		      const struct mesh_view *view)
{
	return view->verdict == MV_PATH_SELF && attr->dest_qp_num == conn->qpn &&
	       mv_gid_equal(&attr->ah_attr.grh.dgid, &choice->gid);
}

static void describe(struct mesh_conn *conn, const struct ibv_qp_attr *attr, int mask, const struct mesh_choice *choice,
		     const struct mesh_view *view)
{
	conn->rtr = *attr;
	conn->rtr_mask = mask;
	conn->own_host = view->verdict == MV_PATH_SELF;
	conn->self = is_itself(conn, choice, attr, view);
	conn->local = (struct mv_ctl_end){.gid = choice->gid, .qpn = conn->qpn};
	conn->peer = (struct mv_ctl_end){.gid = attr->ah_attr.grh.dgid, .qpn = attr->dest_qp_num};
	conn->local_type = choice->type;
	conn->verdict = view->verdict;
	conn->attempt = next_attempt();
	memcpy(conn->peer_host, view->host, sizeof(conn->peer_host));
}

/* Take the QP's work into our hands and start asking the peer. Called with conn->lock held. */
static int hold(struct mesh_conn *conn, const struct mesh_view *view)
{
	struct mv_move_begin begin = {.local = conn->local,
				      .peer = conn->peer,
				      .local_type = conn->local_type,
				      .verdict = view->verdict,
				      .paths = view->paths,
				      .n_paths = view->n_paths,
				      .rq_psn = conn->rtr.rq_psn & 0xffffff,
				      .attempt = conn->attempt};
	int err;

	err = mesh_held_new(conn->mc, conn->qp, &mesh_conn_held_ops, conn, &conn->held);
	if (err) {
		conn->held = NULL;
		return err;
	}
	conn->state = MESH_CONN_HELD;
	conn->held_ns = mesh_now_ns();
	mesh_count(MV_COUNT_HELD);
	mv_move_begin(&conn->move, &begin, &mesh_root.move_times, conn->held_ns);
	return 0;
}

static bool needs_agreement(const struct mesh_view *view)
{
	return view->verdict != MV_PATH_UNKNOWN && view->verdict != MV_PATH_SELF && view->verdict != MV_PATH_WORKS;
}

/* Why a connection that cannot work as it is is left as it is; NULL when it can be moved. */
static const char *cannot_move(struct mesh_context *mc, const struct mesh_conn *conn, uint32_t qpn, const struct mesh_view *view)
{
	if (!conn && !mc->logged_only)
		return mesh_forgotten_why(mc, qpn);
	if (!view->agent_version)
		return "the peer's host has no agent";
	if (!view->n_paths)
		return "no rail of this host reaches one of the peer's";
	return NULL;
}

/* Observing only: what would be asked of the peer. */
static void log_would_move(const struct mesh_context *mc, const struct ibv_qp_attr *attr, const struct mesh_view *view)
{
	const struct mv_path *path = &view->paths[0];
	char to[MV_GID_STRLEN], from[MV_GID_STRLEN], peer[MV_GID_STRLEN];

	mesh_count(MV_COUNT_OBSERVED_MOVE);
	mv_gid_format(&attr->ah_attr.grh.dgid, to);
	if (view->verdict == MV_PATH_ASK)
		mv_log_once(&mesh_root.log, MV_LOG_INFO,
			    "%s port %u to %s on host %s: would ask the peer for its RoCE version: observing only", mc->device,
			    attr->ah_attr.port_num, to, view->host);
	else
		mv_log_once(&mesh_root.log, MV_LOG_INFO,
			    "%s port %u to %s on host %s: %s; would go from %s to %s instead: observing only", mc->device,
			    attr->ah_attr.port_num, to, view->host, mv_path_verdict_text(view->verdict),
			    mv_gid_format(&path->local_gid, from), mv_gid_format(&path->remote_gid, peer));
}

static void log_stuck(const struct mesh_context *mc, const struct ibv_qp_attr *attr, const struct mesh_view *view,
		      const char *why)
{
	char to[MV_GID_STRLEN];

	mesh_count(MV_COUNT_STUCK);
	mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s port %u to %s on host %s: %s; left as the program asked: %s", mc->device,
		    attr->ah_attr.port_num, mv_gid_format(&attr->ah_attr.grh.dgid, to), view->host,
		    mv_path_verdict_text(view->verdict), why);
}

static void judge_by(struct mesh_context *mc, struct ibv_qp *qp, const struct ibv_qp_attr *attr, bool sure,
		     struct mesh_choice *choice, struct mesh_view *view)
{
	struct mv_path_request request = {.device = mc->device,
					  .port_num = attr->ah_attr.port_num,
					  .dgid = attr->ah_attr.grh.dgid};

	mesh_choice_none(choice, attr->ah_attr.grh.sgid_index);
	view->verdict = MV_PATH_UNKNOWN;
	if (!attr->ah_attr.is_global)
		return;
	mesh_paths_choose(mc, qp->context, &attr->ah_attr, MV_CONNECTED, sure, choice);
	if (!mc->sees_peers || qp->qp_type != IBV_QPT_RC)
		return;
	request.sgid = choice->gid;
	request.sgid_type = choice->type;
	request.routed = choice->fits;
	mesh_view_judge(&request, view);
}

static void judge(struct mesh_context *mc, struct ibv_qp *qp, const struct ibv_qp_attr *attr, struct mesh_choice *choice,
		  struct mesh_view *view)
{
	judge_by(mc, qp, attr, false, choice, view);
	/* What was read a moment ago is good enough to leave a connection as it is, and for no more. */
	if (needs_agreement(view) && !choice->sure)
		judge_by(mc, qp, attr, true, choice, view);
}

/* Of another pair of rails: one that is down now may be all that is left later. */
static bool has_another_way(const struct mesh_conn *conn, const struct mesh_choice *choice, const struct ibv_qp_attr *attr)
{
	struct mv_path_request request = {.device = conn->mc->device,
					  .port_num = attr->ah_attr.port_num,
					  .sgid = choice->gid,
					  .sgid_type = choice->type,
					  .dgid = attr->ah_attr.grh.dgid,
					  .routed = choice->fits,
					  .own_host = conn->own_host,
					  .down_too = true};
	struct mesh_view view;
	size_t i;

	mesh_view_paths(&request, &view);
	for (i = 0; i < view.n_paths && view.paths[i].stays == 3; i++)
		;
	return i < view.n_paths;
}

/* Why it cannot be moved later; NULL: it can. */
static const char *bound_by(const struct mesh_conn *conn, const struct mesh_choice *choice, const struct ibv_qp_attr *attr,
		       const struct mesh_view *view)
{
	if (!mesh_root.config.survive)
		return "survive = off when it was made";
	if (conn->mc->logged_only)
		return "mode = observe";
	if (conn->own_host)
		return has_another_way(conn, choice, attr) ? NULL : "its peer is on this host, which had no other rail when it was made";
	if (!view->agent_version)
		return "the peer's host had no agent when it was made";
	/* A port that is down may come back, or the other path may: then there is somewhere to go. */
	if (view->verdict != MV_PATH_WORKS && view->verdict != MV_PATH_LOCAL_DOWN && view->verdict != MV_PATH_REMOTE_DOWN)
		return "its path did not fit when it was made";
	return has_another_way(conn, choice, attr) ? NULL : "no other rail reached one of the peer's when it was made";
}

static void adopt(struct mesh_conn *conn)
{
	const struct mv_move_begin begin = {.local = conn->local,
					    .peer = conn->peer,
					    .local_type = conn->local_type,
					    .rq_psn = conn->rtr.rq_psn & 0xffffff,
					    .attempt = conn->attempt};

	mv_move_adopt(&conn->move, &begin, MV_CTL_PSN_NONE, &mesh_root.move_times, mesh_now_ns());
}

/* RTR with the log begun. conn->lock */
static int rtr_logged(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask, const struct mesh_choice *choice,
		      const struct mesh_view *view)
{
	int err;

	describe(conn, attr, mask, choice, view);
	conn->unlogged = bound_by(conn, choice, attr, view);
	if (!conn->unlogged) {
		mesh_conn_guard(conn, mesh_mtu_bytes(attr->path_mtu));
		conn->unlogged = mesh_cq_names_qps(conn->mc, conn->qp->send_cq) && mesh_cq_names_qps(conn->mc, conn->qp->recv_cq) ?
					 "its work requests cannot be logged" :
					 "its CQ does not say whose completions are polled (IBV_WC_EX_WITH_QP_NUM)";
	}
	err = rtr_native(conn->mc, conn->held, conn->qp, attr, mask, choice->index);
	if (err && conn->held) {
		/* Programs try again where the kernel did not find the neighbour. */
		mesh_live_unguard(conn->held);
		conn->held = NULL;
	}
	if (err)
		return err;
	if (!conn->held)
		mesh_recvlog_end(conn->mc, conn->qp);
	conn->state = MESH_CONN_NATIVE;
	if (conn->held) {
		adopt(conn);
		mesh_conn_settled(conn);
	} else {
		mesh_conn_log_unlogged(conn);
	}
	return 0;
}

/* What it receives is not noted. */
static void log_unknown(struct mesh_context *mc, const struct ibv_qp *qp)
{
	int saved_errno = errno;

	if (mc->can_move && mesh_root.config.survive && qp->qp_type == IBV_QPT_RC)
		mv_log(&mesh_root.log, MV_LOG_DEBUG,
		       "%s QP 0x%x: cannot be moved later: %s; the program gets its errors", mc->device, qp->qp_num,
		       mesh_forgotten_why(mc, qp->qp_num));
	errno = saved_errno;
}

/* @conn: may be NULL */
static int connect_native(struct mesh_context *mc, struct mesh_conn *conn, struct ibv_qp *qp, struct ibv_qp_attr *attr,
			  int mask, const struct mesh_choice *choice, const struct mesh_view *view)
{
	bool logged;
	int err, saved_errno;

	if (!conn) {
		err = rtr_native(mc, NULL, qp, attr, mask, choice->index);
		if (!err)
			log_unknown(mc, qp);
		return err;
	}
	pthread_mutex_lock(&conn->lock);
	err = rtr_logged(conn, attr, mask, choice, view);
	saved_errno = errno;
	logged = conn->held;
	pthread_mutex_unlock(&conn->lock);
	if (err)
		goto out;
	if (logged || (view->verdict == MV_PATH_WORKS && view->agent_version)) {
		/* So that the peer, if it sees things differently, gets an answer. */
		if (logged && conn->self)
			mesh_conn_follows(conn);
		mesh_conn_connected(conn, &choice->gid, !logged);
		mesh_thread_wake(false);
	} else {
		mesh_conn_unlink(conn);
	}
out:
	errno = saved_errno;
	return err;
}

static int to_rtr(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int cancel = mesh_cancel_off(), err = 0;
	struct mesh_conn *conn = mc->can_move ? mesh_conn_get(qp) : NULL;
	struct mesh_choice choice;
	struct mesh_view view;
	const char *why;

	judge(mc, qp, attr, &choice, &view);
	if (needs_agreement(&view)) {
		why = cannot_move(mc, conn, qp->qp_num, &view);
		if (!why && mc->logged_only) {
			log_would_move(mc, attr, &view);
			goto native;
		}
		if (!why) {
			pthread_mutex_lock(&conn->lock);
			describe(conn, attr, mask, &choice, &view);
			err = hold(conn, &view);
			pthread_mutex_unlock(&conn->lock);
			if (!err) {
				mesh_conn_connected(conn, &choice.gid, false);
				err = mesh_thread_wake(true);
				if (!err)
					goto out;
				pthread_mutex_lock(&conn->lock);
				mesh_held_destroy(conn->held); /* its receives are at the base, too */
				conn->held = NULL;
				mesh_conn_key_peer(conn);
				pthread_mutex_unlock(&conn->lock);
			}
			why = strerrordesc_np(err < 0 ? -err : err);
		}
		if (view.verdict != MV_PATH_ASK)
			log_stuck(mc, attr, &view, why);
	} else {
		mesh_paths_why_not(&choice);
	}
native:
	err = connect_native(mc, conn, qp, attr, mask, &choice, &view);
	if (choice.differs || needs_agreement(&view))
		mesh_counts_news();
out:
	mesh_conn_put(conn);
	mesh_cancel_restore(cancel);
	return err;
}

/* ---- RTS and later ------------------------------------------------------------------------------------------- */

/* Called with conn->lock held, conn->held set. */
static int held_to_rts(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask)
{
	if (!conn->rtr_mask || conn->rts_mask)
		return EINVAL;
	conn->rts = *attr;
	conn->rts_mask = mask;
	mv_move_rts(&conn->move, attr->sq_psn & 0xffffff, mesh_now_ns());
	return conn->shadow_connected ? -mesh_conn_shadow_rts(conn) : 0;
}

/* What the next QP is made with. */
static void remember(struct mesh_conn *conn, const struct ibv_qp_attr *attr, int mask)
{
	mesh_attr_merge(&conn->init, attr, mask & MESH_CHANGES & conn->init_mask);
	mesh_attr_merge(&conn->rtr, attr, mask & MESH_CHANGES & conn->rtr_mask);
	mesh_attr_merge(&conn->rts, attr, mask & MESH_CHANGES & conn->rts_mask);
}

/* Behind RTS. Return: what mc->modify_qp() does. */
static int change(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask)
{
	int err = -mesh_held_modify(conn->held, attr, mask);

	if (err)
		return err;
	remember(conn, attr, mask);
	return -mesh_live_change(conn->held, attr, mask);
}

/* The base does the work, and it is logged. Return: what mc->modify_qp() does. */
static int modify_logged(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask)
{
	int err;

	if (!(mask & IBV_QP_STATE) || attr->qp_state != IBV_QPS_RTS || conn->rts_mask)
		return change(conn, attr, mask);
	err = mesh_live_base_rts(conn->held, attr, mask);
	if (err)
		return err;
	conn->rts = *attr;
	conn->rts_mask = mask;
	mv_move_rts(&conn->move, attr->sq_psn & 0xffffff, mesh_now_ns());
	return 0;
}

/*
 * The program has ended a connection that was being agreed upon. Another path would be another QP with its receives, of which
 * the program gets the flushes already; the peer is told what a QP that is not moved tells.
 */
static void end_agreement(struct mesh_conn *conn)
{
	say_bye(conn);
	conn->state = MESH_CONN_FAILED;
}

static int modify_taken(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask)
{
	int err;

	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS && !conn->rts_mask)
		return held_to_rts(conn, attr, mask);
	err = change(conn, attr, mask);
	if (!err && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR && conn->state == MESH_CONN_HELD)
		end_agreement(conn);
	return err;
}

/*
 * @ret_taken: whether this connection's transitions are ours
 */
static int modify_conn(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask, bool *ret_taken)
{
	int err = 0;

	pthread_mutex_lock(&conn->lock);
	*ret_taken = conn->held;
	if (conn->held && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR && conn->move.live)
		mv_move_abort(&conn->move, mesh_now_ns());
	if (is_taken(conn))
		err = modify_taken(conn, attr, mask);
	else if (conn->held)
		err = modify_logged(conn, attr, mask);
	else if (conn->state == MESH_CONN_NATIVE && (mask & IBV_QP_SQ_PSN)) {
		conn->rts = *attr;
		conn->rts_mask = mask;
	}
	mesh_conn_key_peer(conn);
	pthread_mutex_unlock(&conn->lock);
	if (*ret_taken) {
		mesh_conn_queue(conn, true);
		mesh_thread_wake(true);
	}
	return err;
}

/* From INIT to INIT; not all say so. */
static void note_in_init(struct mesh_conn *conn, const struct ibv_qp_attr *attr, int mask)
{
	pthread_mutex_lock(&conn->lock);
	if (conn->state == MESH_CONN_INIT && !(mask & IBV_QP_STATE))
		mesh_attr_merge(&conn->init, attr, mask & conn->init_mask);
	pthread_mutex_unlock(&conn->lock);
}

/* The base took those of its CQs away; some may be in our hands. */
static void forget_completions(struct mesh_context *mc, struct ibv_cq *send_cq,
			       struct ibv_cq *recv_cq, uint32_t qpn)
{
	if (send_cq)
		mesh_cq_forget_qp(mc, send_cq, qpn);
	if (recv_cq && recv_cq != send_cq)
		mesh_cq_forget_qp(mc, recv_cq, qpn);
}

static int to_reset(struct mesh_context *mc, struct mesh_conn *conn, struct ibv_qp *qp,
		    struct ibv_qp_attr *attr, int mask)
{
	struct mesh_srq_native *leaving = mesh_srq_leaving(mc, qp);
	int err;

	if (conn)
		drop(conn);
	err = mc->modify_qp(qp, attr, mask);
	mesh_srq_left(leaving, !err);
	if (!err)
		forget_completions(mc, qp->send_cq, qp->recv_cq, qp->qp_num);
	return err;
}

static int modify_ud(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	bool reset = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET;
	struct mesh_srq_native *leaving = NULL;
	int err;

	if (reset) {
		mesh_ud_gone(mc, qp);
		leaving = mesh_srq_leaving(mc, qp);
	}
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR && mesh_srq_join_base(mc, qp, true))
		return EBUSY;
	err = mc->modify_qp(qp, attr, mask);
	mesh_srq_left(leaving, !err);
	if (!err)
		mesh_ud_modified(mc, qp, attr, mask);
	return err;
}

int mesh_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	bool state = attr_mask & IBV_QP_STATE, taken = false;
	struct mesh_conn *conn;
	int err = 0, cancel;

	if (!mesh_context_active(mc))
		return mc->modify_qp(qp, attr, attr_mask);
	if (state && attr->qp_state == IBV_QPS_RTR && (attr_mask & IBV_QP_AV) && is_connected(qp->qp_type) &&
	    (attr->ah_attr.is_global || qp->qp_type == IBV_QPT_RC))
		return to_rtr(mc, qp, attr, attr_mask);
	if (qp->qp_type == IBV_QPT_UD && mc->can_move)
		return modify_ud(mc, qp, attr, attr_mask);
	if (qp->qp_type != IBV_QPT_RC || !mc->can_move)
		return mc->modify_qp(qp, attr, attr_mask);
	if (state && attr->qp_state == IBV_QPS_INIT)
		return to_init(mc, qp, attr, attr_mask);
	if (!(state && attr->qp_state == IBV_QPS_RESET) && mesh_conn_untouched(qp, attr, attr_mask))
		return mc->modify_qp(qp, attr, attr_mask);

	cancel = mesh_cancel_off();
	conn = mesh_conn_get(qp);
	if (state && attr->qp_state == IBV_QPS_RESET) {
		err = to_reset(mc, conn, qp, attr, attr_mask);
		taken = true;
	} else if (conn) {
		err = modify_conn(conn, attr, attr_mask, &taken);
	}
	if (!taken)
		err = mc->modify_qp(qp, attr, attr_mask);
	if (conn && !taken && !err)
		note_in_init(conn, attr, attr_mask);
	mesh_conn_put(conn);
	mesh_cancel_restore(cancel);
	return err;
}

/* ---- query, destroy ------------------------------------------------------------------------------------------ */

static void say_state(struct ibv_qp *qp, struct ibv_qp_attr *attr, enum ibv_qp_state state)
{
	attr->qp_state = attr->cur_qp_state = state;
	qp->state = state;
}

/* conn->lock */
static void correct(struct mesh_conn *conn, struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	const enum ibv_qp_state state = conn->rts_mask ? IBV_QPS_RTS : IBV_QPS_RTR;

	if (is_taken(conn)) {
		/* As the program set it, with the state of the QP that does the work. */
		mesh_attr_merge(attr, &conn->init, conn->init_mask & IBV_QP_ACCESS_FLAGS);
		mesh_attr_merge(attr, &conn->rtr, conn->rtr_mask & ~IBV_QP_STATE);
		mesh_attr_merge(attr, &conn->rts, conn->rts_mask & ~IBV_QP_STATE);
		attr->qp_state = state;
		mesh_held_query(conn->held, attr); /* -ENODATA: none does the work yet */
		say_state(qp, attr, attr->qp_state);
	}
	/* Programs that look at the state give up a connection that is in ERR; this one is being moved, or is about to be. */
	if (conn->held && attr->qp_state == IBV_QPS_ERR && mesh_live_goes_on(conn->held))
		say_state(qp, attr, state);
}

int mesh_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct ibv_qp_init_attr *init_attr)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	int err = mc->query_qp(qp, attr, attr_mask, init_attr), cancel;
	struct mesh_conn *conn;

	if (err || !mc->can_move || !mesh_context_active(mc))
		return err;
	cancel = mesh_cancel_off();
	conn = mesh_conn_get(qp);
	if (conn) {
		pthread_mutex_lock(&conn->lock);
		correct(conn, qp, attr);
		pthread_mutex_unlock(&conn->lock);
	}
	mesh_conn_put(conn);
	mesh_cancel_restore(cancel);
	return err;
}

int mesh_destroy_qp(struct ibv_qp *qp)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	struct ibv_cq *send_cq = qp->send_cq, *recv_cq = qp->recv_cq;
	struct mesh_srq_native *leaving;
	uint32_t qpn = qp->qp_num;
	struct mesh_conn *conn;
	int cancel, err;

	if (!mc->can_move || !mesh_context_active(mc))
		return mc->destroy_qp(qp);
	cancel = mesh_cancel_off();
	conn = mesh_conn_get(qp);
	if (conn)
		drop(conn);
	mesh_conn_put(conn);
	if (qp->qp_type == IBV_QPT_UD)
		mesh_ud_gone(mc, qp);
	leaving = mesh_srq_leaving(mc, qp);
	err = mc->destroy_qp(qp);
	mesh_srq_left(leaving, !err);
	if (!err)
		forget_completions(mc, send_cq, recv_cq, qpn);
	mesh_cancel_restore(cancel);
	return err;
}

void mesh_conns_close(struct mesh_context *mc)
{
	struct mesh_conn *some[32];
	size_t n, i;

	do {
		n = mesh_conns_of(mc, some, sizeof(some) / sizeof(some[0]), 0);
		for (i = 0; i < n; i++) {
			drop(some[i]);
			mesh_conn_put(some[i]);
		}
	} while (n);
}
