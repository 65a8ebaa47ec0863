// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "arm.h"
#include "connpath.h"
#include "connstatus.h"
#include "count.h"
#include "failover_exec.h"
#include "failover_policy.h"
#include "vqp_failover.h"
#include "passthrough.h"
#include "negotiateint.h"
#include "proved.h"

/*
 * Carries out the actions of the transaction, for a held connection and for one at work, and tells the transaction the
 * results.
 *
 * Thread: helper thread, or a worker for slow actions, with conn->lock held.
 */

static void log_moved(const struct mesh_conn *conn)
{
	char to[MV_GID_STRLEN], from[MV_GID_STRLEN], peer[MV_GID_STRLEN];

	mv_log(&mesh_root.log, MV_LOG_INFO, "%s QP 0x%x to %s on host %s: %s; goes from %s (%s) to %s instead", conn->mc->device,
	       conn->qpn, mv_gid_format(&conn->ends.peer.gid, to), conn->ends.peer_host,
	       mv_path_verdict_text(conn->own_qp.verdict), conn->path.device, mv_gid_format(&conn->path.gid, from),
	       mv_gid_format(&conn->path.peer_gid, peer));
}

/* Only the shadow is to receive. */
static int stop_listening(struct mesh_conn *conn)
{
	int err;

	if (!conn->own_qp.listens)
		return 0;
	if (!mesh_vqp_stop_posting(conn->vqp))
		return -EAGAIN;
	err = mesh_conn_listen_no_more(conn);
	mesh_vqp_resume_posting(conn->vqp);
	return err;
}

/* A held connection is about to prepare a path: nothing else may receive. */
static int leave_others(struct mesh_conn *conn, const union ibv_gid *remote)
{
	return mesh_conn_is_of_peer(conn, remote) ? stop_listening(conn) : -EPERM;
}

static void do_prepare(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	const struct mesh_conn_path *path = mesh_conn_path_to(conn);
	char why[256] = "the peer has used another";
	bool held = conn->state == MESH_CONN_HELD;
	int err = mesh_conn_release_path(conn);
	struct mv_ctl_end mine;

	if (!held && !mesh_conn_may_prepare(conn, action, now_ns))
		return;
	if (!err && held)
		err = leave_others(conn, &action->remote_gid);
	if (!err)
		err = mesh_conn_make_path(conn, action, why, sizeof(why));
	if (!err && !held && mesh_conn_refuses_keys(conn, now_ns)) {
		mesh_conn_release_path(conn);
		return;
	}
	/* A missing standby is no error worth a warning. */
	if (err && !conn->move.early)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: no path by %s: %s: %s", conn->mc->device,
			    path->device[0] ? path->device : "another rail", why, strerrordesc_np(-err));
	if (err)
		mesh_conn_release_path(conn);
	conn->moving.steps.prepared_ns = mesh_now_ns();
	mine = (struct mv_ctl_end){.gid = path->gid, .qpn = path->qpn};
	mv_move_prepared(&conn->move, err ? NULL : &mine, path->lid, path->mtu_bytes, false, now_ns);
}

static void do_connect(struct mesh_conn *conn, const struct mv_move_action *action)
{
	struct mesh_conn_path *path = mesh_conn_path_to(conn);
	int err = !path->pd ? -EINVAL : mesh_conn_is_of_peer(conn, &action->peer.gid) ? 0 : -EPERM;

	path->peer_gid = action->peer.gid;
	path->sq_psn = action->sq_psn;
	if (!err)
		err = mesh_conn_connect_path(conn, path, action);
	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: no path by %s: it cannot be connected: %s", conn->mc->device,
			    path->device, mesh_conn_why_not_connected(conn, err));
	conn->moving.steps.connected_ns = mesh_now_ns(); /* connecting may have taken long */
	mv_move_connected(&conn->move, !err, conn->moving.steps.connected_ns);
}

static void do_activate(struct mesh_conn *conn)
{
	mesh_vqp_activate(conn->vqp);
	conn->state = MESH_CONN_MOVED;
	mesh_conn_settled(conn);
	mesh_conn_goes(conn, conn->path.device, MV_CTL_REASON_PATH);
	mesh_count(MV_COUNT_MOVED);
	mesh_count_pause(MV_COUNT_CONNECT_PAUSE, mesh_now_ns() - conn->attempt.held_ns);
	log_moved(conn);
	mesh_conn_tell(conn);
}

void mesh_conn_carry_out(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	struct mv_ctl_keys keys;

	switch (action->type) {
	case MV_DO_NOTHING:
		break;
	case MV_DO_SEND:
		mesh_conn_keys_go(conn, &action->msg, &keys);
		mesh_thread_send_later(&action->msg, &keys); /* a worker wakes the helper thread afterwards */
		break;
	case MV_DO_PREPARE:
		do_prepare(conn, action, now_ns);
		break;
	case MV_DO_CONNECT:
		do_connect(conn, action);
		break;
	case MV_DO_ACTIVATE:
		if (action->replay)
			mesh_conn_replay(conn, action);
		else
			do_activate(conn);
		break;
	case MV_DO_PASSTHROUGH:
		mesh_conn_passthrough(conn, action);
		break;
	case MV_DO_RELEASE:
		mesh_conn_release_path(conn);
		break;
	case MV_DO_QUIESCE:
		mesh_conn_quiesce(conn);
		break;
	case MV_DO_DRAIN:
		mesh_conn_begin_drain(conn, now_ns);
		break;
	case MV_DO_STAY:
		mesh_conn_stay(conn, action);
		break;
	case MV_DO_FLUSH:
		mesh_conn_flush(conn, action);
		break;
	case MV_DO_WANTED:
		mesh_conn_wanted(conn, action, now_ns);
		break;
	case MV_DO_STANDBY:
		mesh_conn_standby(conn, action);
		break;
	}
}

/* ---- the loop ------------------------------------------------------------------------------------------------ */

/* Connecting is slow: the kernel looks for the destination's neighbour. */
static bool is_slow(const struct mv_move_action *action)
{
	return action->type == MV_DO_CONNECT || action->type == MV_DO_PASSTHROUGH || action->type == MV_DO_STANDBY;
}

bool mesh_conn_is_in_batch(struct mesh_conn *conn)
{
	conn->blocked.in_batch = mesh_vqp_in_batch(conn->vqp);
	if (conn->blocked.in_batch)
		mesh_vqp_want_stop(conn->vqp);
	return conn->blocked.in_batch;
}

/* A poller of an extended CQ may take long, and wait for conn->lock. */
static bool is_polled(struct mesh_conn *conn, const struct mv_move_action *next)
{
	conn->blocked.in_batch = !mesh_conn_may_listen_on(conn, next) && mesh_vqp_is_polled(conn->vqp);
	return conn->blocked.in_batch;
}

/*
 * Is the next action for the other kind of thread? Only the helper thread prepares, one connection after the other: the size of a
 * CQ depends on all of its QPs. A move that was agreed on suspicion prepares in QUIESCE.
 */
static bool hand_over(struct mesh_conn *conn, const struct mv_move_action *next, bool worker)
{
	const union ibv_gid *to = next->type == MV_DO_PASSTHROUGH ? &conn->ends.peer.gid : &next->peer.gid;

	if (worker)
		return next->type == MV_DO_PREPARE ||
		       (next->type == MV_DO_QUIESCE && conn->move.early && !mesh_failover_has_next(conn->vqp));
	/* See stop_posting() and stops_listening(): a worker could not do the action either. */
	if (next->type == MV_DO_PASSTHROUGH && (mesh_conn_is_in_batch(conn) || is_polled(conn, next)))
		return true;
	/* Fast cases: an obsolete STANDBY, and a QP that is connected already. */
	if (next->type == MV_DO_STANDBY && conn->move.failover)
		return false;
	if (next->type == MV_DO_CONNECT && conn->move.failover && mesh_failover_on_standby(conn->vqp, &next->peer))
		return false;
	return is_slow(next) && mesh_work_submit(conn, to, false);
}

/*
 * Stop posting before MV_DO_PASSTHROUGH: the program's own QP must not be connected in the middle of a batch
 * (ibv_wr_start()). A thread in a batch may take long, and wait for conn->lock, for example to query the QP. So do not
 * wait, but leave the action for later. Return: false: later.
 */
static bool stop_posting(struct mesh_conn *conn, const struct mv_move_action *next)
{
	if (next->type != MV_DO_PASSTHROUGH)
		return true;
	mesh_conn_release_path(conn); /* may be a second call: it waits for pollers, which may post */
	conn->blocked.in_batch = !mesh_vqp_stop_posting(conn->vqp);
	return !conn->blocked.in_batch;
}

/*
 * Bring the program's own QP back to INIT if it listens with another RoCE version than the action's, or a shadow is to receive
 * instead. Waits for batches and polls as stop_posting() does. Return: false: later.
 */
static bool stops_listening(struct mesh_conn *conn, const struct mv_move_action *next)
{
	if (mesh_conn_may_listen_on(conn, next))
		return true;
	conn->blocked.in_batch = is_polled(conn, next) || stop_listening(conn) == -EAGAIN;
	return !conn->blocked.in_batch;
}

/* A worker has found that PASSTHROUGH has to wait: mesh_conn_passthrough_waits(). */
static bool rests(const struct mesh_conn *conn, const struct mv_move_action *next, uint64_t now_ns)
{
	return next->type == MV_DO_PASSTHROUGH && now_ns < conn->blocked.entry_again_ns;
}

static bool awaits_entry(struct mesh_conn *conn, const struct mv_move_action *next, uint64_t now_ns)
{
	return next->type == MV_DO_PASSTHROUGH && mesh_conn_passthrough_waits(conn, now_ns);
}

/* The device does not answer a command: another command would block this thread, too. */
static bool awaits_device(struct mesh_conn *conn, const struct mv_move_action *next, struct mesh_device **ret)
{
	*ret = mesh_conn_device_for(conn, next);
	/* PREPARE goes on: the path is refused, and the leader offers another. */
	conn->blocked.device_again_ns =
		next->type != MV_DO_PREPARE && mesh_device_stuck(*ret) ? mesh_now_ns() + MESH_STUCK_AGAIN_NS : 0;
	return conn->blocked.device_again_ns;
}

void mesh_conn_act(struct mesh_conn *conn, uint64_t now_ns, bool worker)
{
	struct mv_move_action action;
	const struct mv_move_action *next;
	struct mesh_device *device = NULL;
	int command;

	conn->blocked.in_batch = false;
	conn->blocked.device_again_ns = 0;
	/* An action may produce the next one, and may end the agreement (@vqp). */
	while (conn->vqp && (next = mv_move_peek(&conn->move)) && !rests(conn, next, now_ns) &&
	       !hand_over(conn, next, worker) && !awaits_entry(conn, next, now_ns) && !awaits_device(conn, next, &device) &&
	       stops_listening(conn, next) && stop_posting(conn, next)) {
		mv_move_next(&conn->move, &action);
		command = mesh_command_begin(device);
		mesh_conn_carry_out(conn, &action, now_ns);
		mesh_command_end(device, command);
	}
}

void mesh_conn_work(struct mesh_conn *conn)
{
	mesh_lock(&conn->lock);
	if (mesh_conn_negotiates(conn))
		mesh_conn_act(conn, mesh_now_ns(), true);
	if (mesh_conn_negotiates(conn))
		mesh_conn_try_passthrough(conn);
	mesh_move_limiter_note(conn, false, mesh_now_ns());
	mesh_conn_exit(conn);
}
