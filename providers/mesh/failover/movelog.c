// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "failover_exec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "connpath.h"
#include "connstatus.h"
#include "count.h"
#include "failover_policy.h"
#include "vqp_failover.h"
#include "move_limiter.h"
#include "move_failover.h"
#include "parity.h"
#include "arm.h"
#include "suspect.h"

const char *mesh_conn_track(struct mesh_conn *conn, uint32_t mtu_bytes)
{
	const struct mesh_vqp_ops *ops = conn->ends.self ? &mesh_conn_self_ops : &mesh_conn_vqp_ops;
	int err = mesh_failover_track(conn->mc, conn->qp, ops, conn, mtu_bytes, &conn->vqp);

	if (!err)
		return NULL;
	conn->vqp = NULL;
	if (err == -EBUSY)
		return mesh_vqp_why_busy(conn->mc, conn->qp);
	return mesh_cq_names_qps(conn->mc, conn->qp->send_cq) && mesh_cq_names_qps(conn->mc, conn->qp->recv_cq) ?
		       "its work requests cannot be logged" :
		       "its CQ does not say whose completions are polled (IBV_WC_EX_WITH_QP_NUM)";
}

static void log_failed(const struct mesh_conn *conn, const char *why)
{
	mv_log(&mesh_root.log, MV_LOG_ERR, "%s QP 0x%x to host %s: not moved: %s; the program gets its errors", conn->mc->device,
	       conn->qpn, conn->ends.peer_host, why);
}

void mesh_conn_log_unlogged(const struct mesh_conn *conn)
{
	const char *host = conn->ends.peer_host;

	if (mv_log_wants(&mesh_root.log, MV_LOG_DEBUG) && mesh_root.config.survive != MV_SURVIVE_OFF)
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x%s%s: cannot be moved later: %s; the program gets its errors", conn->mc->device,
		       conn->qpn, host[0] ? " to host " : "", host, conn->attempt.unlogged);
}

void mesh_conn_log_steps(const struct mesh_conn *conn)
{
	const struct mesh_conn_steps *steps = &conn->moving.steps;

	mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x: steps: %llu %llu %llu %llu %llu %llu ns", conn->mc->device,
	       conn->qpn, (unsigned long long)conn->moving.since_ns, (unsigned long long)steps->prepared_ns,
	       (unsigned long long)steps->connected_ns, (unsigned long long)steps->draining_ns,
	       (unsigned long long)steps->drained_ns, (unsigned long long)mesh_now_ns());
}

void mesh_conn_count_moved(struct mesh_conn *conn)
{
	unsigned int reason = conn->move.reason;
	uint64_t took_ns = mesh_now_ns() - conn->moving.since_ns;

	mesh_move_limiter_took(took_ns);
	if (reason >= MV_CTL_REASON_PORT && reason < MV_CTL_REASON_END) {
		reason -= MV_CTL_REASON_PORT;
		mesh_count(MV_COUNT_MOVED_FAILOVER + reason);
		mesh_count_pause(MV_COUNT_FAILOVER_PAUSE + reason * MV_PAUSE_PLACES, took_ns);
	}
	conn->moving.since_ns = 0;
}

void mesh_conn_count_stayed(struct mesh_conn *conn, const struct mv_move_action *action)
{
	mesh_count(MV_COUNT_GIVEN_UP + (action->timed_out ? MV_CTL_REASON_NONE : action->reason));
	if (action->timed_out || action->reason == MV_CTL_REASON_TIMEOUT)
		mesh_move_limiter_took(UINT64_MAX);
	conn->moving.since_ns = 0;
}

void mesh_conn_fail(struct mesh_conn *conn, const char *why)
{
	mesh_conn_log_moved(conn);
	mesh_count(MV_COUNT_SURFACED);
	conn->moving.since_ns = 0;
	mesh_failover_flush_errors(conn->vqp);
	mesh_conn_put_path(&conn->moving.next_path);
	conn->state = MESH_CONN_FAILED;
	mv_move_abort(&conn->move, mesh_now_ns()); /* the peer gets an answer when it asks */
	mesh_conn_unwatch(conn);
	log_failed(conn, why);
	mesh_conn_tell(conn);
}

/*
 * May a later move succeed, so that errors stay withheld? Yes, if ports flap: there is no path now, or the tried path was dead by
 * then. Yes, if the peer says that an earlier attempt, or one for another reason, came to nothing: the peer answers, so the next
 * attempt may succeed. No, if a NIC makes queue pairs with fewer capabilities (parity.h): that does not change.
 */
static bool may_pass(const struct mesh_conn *conn, const struct mv_move_action *action)
{
	if (mesh_parity_why(conn->vqp))
		return false;
	switch (action->reason) {
	case MV_CTL_REASON_NO_PATH:
	case MV_CTL_REASON_NO_RESOURCES:
		return true;
	case MV_CTL_REASON_TIMEOUT:
	case MV_CTL_REASON_BUSY:
	case MV_CTL_REASON_HEALED:
		return !action->timed_out;
	default:
		return false;
	}
}

/* Why the connection stays. The message to the peer only says UNSUPPORTED; this end knows the cause. */
static const char *why_stays(const struct mesh_conn *conn, const struct mv_move_action *action)
{
	const char *bound = action->reason == MV_CTL_REASON_UNSUPPORTED ? mesh_conn_bound(conn) : NULL;

	if (action->timed_out)
		return "the peer's process did not answer";
	if (!bound && conn->vqp)
		bound = mesh_parity_why(conn->vqp);
	return bound ? bound : mv_ctl_reason_text(action->reason);
}

void mesh_conn_stay(struct mesh_conn *conn, const struct mv_move_action *action)
{
	const char *why = why_stays(conn, action);

	mesh_conn_count_stayed(conn, action);
	conn->watched.prepares = false;
	/*
	 * The move began on suspicion, ours or the peer's. The program could not notice anything, so the log has one line for
	 * debugging only.
	 */
	if (action->unsure && !mesh_failover_broken(conn->vqp)) {
		mesh_conn_stands_by_again(conn, mesh_now_ns());
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x to host %s: prepared to move, and stays: %s", conn->mc->device,
		       conn->qpn, conn->ends.peer_host, why);
		return;
	}
	if (mesh_failover_broken(conn->vqp) &&
	    (!may_pass(conn, action) || !mesh_conn_waits_for_path(conn, mesh_now_ns()))) {
		mesh_conn_fail(conn, why);
		return;
	}
	conn->retry.stayed = why;
	conn->retry.stayed_ns = mesh_now_ns();
	conn->primary.refused = conn->move.reason == MV_CTL_REASON_PRIMARY;
	mesh_conn_back_off(conn);
	if (action->timed_out)
		mesh_conn_unregistered(conn); /* the agent may have refused the registration, and then drops messages of this QP */
	if (conn->move.reason == MV_CTL_REASON_PRIMARY && conn->primary.hold_ns < MESH_HOLD_MAX_NS / 2)
		conn->primary.hold_ns *= 2; /* a peer that refuses now may refuse always: ask less often */
	mv_log(&mesh_root.log, MV_LOG_INFO, "%s QP 0x%x to host %s: stays where it is: %s", conn->mc->device, conn->qpn,
	       conn->ends.peer_host, why);
}

/* The move of a follower may begin with a message of the leader, without a reason of this end. */
void mesh_conn_note_begin(struct mesh_conn *conn, uint64_t now_ns)
{
	mesh_conn_log_moved(conn);
	conn->retry.stayed = NULL;
	conn->retry.limited_ns = 0;
	if (!conn->moving.since_ns)
		conn->moving.since_ns = now_ns;
}

void mesh_conn_peer_gone(struct mesh_conn *conn)
{
	conn->ends.peer_gone = true;
	mesh_failover_end_of_peer(conn->vqp);
}

void mesh_conn_last_word(struct mesh_conn *conn)
{
	struct mv_move_sync sync = conn->move.sync.mine;
	struct mv_ctl_msg msg;

	if (!conn->vqp || !mv_move_owes_sync(&conn->move))
		return;
	if (conn->move.state != MV_MOVE_DRAINED && mesh_failover_last_word(conn->vqp, &sync))
		return;
	mv_move_last_sync(&conn->move, &sync, &msg);
	mesh_thread_send(&msg);
}

void mesh_conn_leave(struct mesh_conn *conn)
{
	mesh_conn_log_moved(conn);
	mesh_conn_put_path(&conn->path);
	mesh_conn_put_path(&conn->moving.next_path);
	mesh_conn_disarm(conn);
	mesh_conn_reap(conn);
	mesh_conn_unwatch(conn);
}
