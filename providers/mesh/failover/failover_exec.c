// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "failover_exec.h"

#include <errno.h>
#include <string.h>

#include "connpath.h"
#include "connstatus.h"
#include "count.h"
#include "detect.h"
#include "failover_policy.h"
#include "vqp_failover.h"
#include "move_failover.h"
#include "parity.h"
#include "path_failures.h"
#include "path_select.h"
#include "arm.h"
#include "proved.h"
#include "suspect.h"
#include "unqualified.h"

/*
 * Interval between two polls of a QP that is being drained. With many moves the device needs longer, so the interval is
 * longer.
 */
#define DRAIN_STEP_NS      20000ull
#define DRAIN_STEP_MANY_NS 300000ull

/* ---- steps --------------------------------------------------------------------------------------------------- */

/* Return: NULL if the standby there is ready. */
static struct mesh_device *device_to_prepare(const struct mesh_conn *conn, const struct mv_move_action *action)
{
	const struct mesh_pd *standby_pd = conn->primary.standby_pd;
	struct mesh_directory_rail place;

	if (mesh_directory_rail(&action->local_gid, action->gid_type, &place))
		return NULL;
	if (standby_pd && mesh_failover_armed(conn->vqp) && !strcmp(standby_pd->rail->device, place.device))
		return NULL;
	return mesh_device_get(place.device);
}

/*
 * Does the leader offer the path that the work uses already, though a new queue pair there is of no use? Our queue pair has not
 * failed, so the drain may lose the result of an atomic. Or the path does not work, as this end knows, and the leader does not: RTR would
 * wait for the neighbour for seconds.
 */
static bool is_of_no_use(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	struct mv_path_request request;
	struct mv_path path;

	/* The way home may be by another address of the same rail. */
	if (conn->move.reason == MV_CTL_REASON_PRIMARY)
		return false;
	mesh_path_now(conn, &request);
	if (!mesh_directory_same_rail(&request.sgid, &action->local_gid) ||
	    !mesh_directory_same_rail(&request.dgid, &action->remote_gid))
		return false;
	mesh_path_failures_update(conn, now_ns);
	return (conn->move.wish.own && !mesh_failover_broken(conn->vqp)) || !mesh_conn_path_again(conn, true, &path);
}

/*
 * Must this end not use the path that the leader offers? The leader knows neither our failed paths nor which of our NICs are
 * qualified.
 */
static bool is_barred(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	mesh_path_failures_update(conn, now_ns);
	if (!mesh_conn_may_go_by(conn, &action->local_gid, action->gid_type))
		return true;
	if (conn->move.reason == MV_CTL_REASON_PRIMARY)
		return mesh_path_failures_has(conn, &action->local_gid, &action->remote_gid);
	return mesh_path_failures_bar(conn, &action->local_gid, &action->remote_gid);
}

bool mesh_conn_may_prepare(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	mesh_conn_note_begin(conn, now_ns);
	mesh_parity_forget(conn->vqp);
	mesh_conn_say_unproved(conn);
	if (mesh_failover_lost(conn->vqp) || mesh_conn_unproved(conn) || mesh_conn_unqualified(conn) ||
	    (!conn->move.wish.own && !mesh_detects(MESH_DETECT_PEER)))
		mv_move_refuse(&conn->move, MV_CTL_REASON_UNSUPPORTED, now_ns);
	else if (!conn->move.leader && is_of_no_use(conn, action, now_ns))
		mv_move_refuse(&conn->move, MV_CTL_REASON_NO_PATH, now_ns);
	else if (!mesh_conn_is_of_peer(conn, &action->remote_gid) || is_barred(conn, action, now_ns) ||
		 mesh_device_stuck(device_to_prepare(conn, action)))
		/* Refuse this path only: the leader tries the next. A NIC whose firmware hangs makes no objects. */
		mv_move_prepared(&conn->move, NULL, 0, 0, false, now_ns);
	else
		return true;
	return false;
}

bool mesh_conn_refuses_keys(struct mesh_conn *conn, uint64_t now_ns)
{
	mesh_failover_check_keys(conn->vqp);
	if (!mesh_failover_lost(conn->vqp))
		return false;
	mv_move_refuse(&conn->move, MV_CTL_REASON_UNSUPPORTED, now_ns);
	return true;
}

/* Take the standby for a move that was agreed on suspicion, and is sure by now. Return: can the move go on now? */
static bool make_next(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	size_t n;
	int err;

	if (!conn->move.early || mesh_failover_has_next(conn->vqp))
		return true;
	n = mesh_conn_paths_for(conn, conn->move.reason, paths);
	/* The best path may have changed since the agreement. */
	err = mesh_conn_is_among_best(&conn->moving.next_path, paths, n) ? mesh_failover_take_standby(conn->vqp)
									 : -ENOENT;
	if (err && err != -EBUSY && n)
		mv_move_start(&conn->move, conn->move.reason, paths, n, now_ns);
	else if (err && err != -EBUSY)
		mv_move_refuse(&conn->move, MV_CTL_REASON_NO_PATH, now_ns);
	return !err;
}

/*
 * Wait for outstanding atomics while the path works. Otherwise the result of an atomic that the peer has executed would be lost.
 */
void mesh_conn_quiesce(struct mesh_conn *conn)
{
	uint64_t now_ns = mesh_now_ns();

	mesh_conn_note_sure(conn, now_ns);
	/* Keys may have been lost since MV_DO_PREPARE. Nothing is drained yet, so the move can still be refused. */
	if (!mesh_conn_refuses_keys(conn, now_ns) && make_next(conn, now_ns) &&
	    (mesh_failover_quiesce(conn->vqp) || !mesh_conn_path_works(conn)))
		mv_move_quiesced(&conn->move, mesh_many_move(), now_ns);
}

/* A follower whose move was agreed on suspicion takes its standby now. Return: as mesh_failover_take_standby(). */
static int take_standby(struct mesh_conn *conn)
{
	int err = conn->move.early && !mesh_failover_has_next(conn->vqp) ? mesh_failover_take_standby(conn->vqp) : 0;

	/* The leader waits for half of move_timeout. Give up after 45 % of it, so that the leader gets our answer in time. */
	if (err == -EBUSY && mesh_now_ns() >= conn->moving.steps.draining_ns + mesh_root.move_times.move_ns / 20 * 9)
		err = -ETIMEDOUT;
	conn->moving.drain_waits = err == -EBUSY;
	return err;
}

/* Device of the QP that does the work. */
static struct mesh_device *device_at_work(const struct mesh_conn *conn)
{
	return conn->state == MESH_CONN_MOVED && conn->path.pd ? conn->path.pd->rail->commands : mesh_device_get(conn->mc->device);
}

struct mesh_device *mesh_conn_device_for(const struct mesh_conn *conn, const struct mv_move_action *action)
{
	if (!conn->move.failover && action->type != MV_DO_FLUSH)
		return NULL;
	switch (action->type) {
	case MV_DO_PREPARE:
		return device_to_prepare(conn, action);
	case MV_DO_QUIESCE:
	case MV_DO_DRAIN:
	case MV_DO_FLUSH:
		return device_at_work(conn);
	default:
		return NULL;
	}
}

static void drain(struct mesh_conn *conn, bool first, uint64_t now_ns)
{
	struct mv_move_sync sync = {0};
	int err = first ? take_standby(conn) : 0;

	conn->moving.draining = conn->moving.drain_waits; /* a thread of the program is in a batch */
	if (conn->moving.draining)
		return;
	if (err) {
		mv_log(&mesh_root.log, MV_LOG_ERR, "%s QP 0x%x: the queue pair on %s that it was to go on with cannot be had: %s",
		       conn->mc->device, conn->qpn, conn->moving.next_path.device, strerrordesc_np(-err));
		mv_move_drained(&conn->move, NULL, now_ns);
		return;
	}
	err = mesh_failover_drain(conn->vqp, first, &sync);
	conn->moving.draining = err == -EAGAIN;
	if (conn->moving.draining)
		return;
	conn->moving.steps.drained_ns = mesh_now_ns();
	conn->moving.drained = true;
	mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x: drained: next PSN 0x%x, %u received", conn->mc->device,
	       conn->qpn, sync.next_psn, sync.n_received);
	if (err)
		mv_log(&mesh_root.log, MV_LOG_ERR, "%s QP 0x%x: what it has executed cannot be found out: %s",
		       conn->mc->device, conn->qpn,
		       err == -EOPNOTSUPP ? mesh_failover_lost(conn->vqp) : strerrordesc_np(-err));
	mv_move_drained(&conn->move, err ? NULL : &sync, now_ns);
}

void mesh_conn_begin_drain(struct mesh_conn *conn, uint64_t now_ns)
{
	conn->moving.steps.draining_ns = mesh_now_ns();
	/* For a follower the move begins now. For the leader it began when it was sure (mesh_conn_note_sure()). */
	if (conn->move.early && !conn->move.leader)
		conn->moving.since_ns = conn->moving.steps.draining_ns;
	if (conn->ends.self)
		mesh_conn_leaves(conn, conn->state == MESH_CONN_MOVED ? conn->path.device : conn->mc->device);
	else
		mesh_conn_goes(conn, conn->moving.next_path.device, conn->move.reason);
	drain(conn, true, now_ns);
}

void mesh_conn_drain(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_device *device = conn->moving.draining ? device_at_work(conn) : NULL;
	int command;

	if (!conn->moving.draining || mesh_device_stuck(device))
		return;
	command = mesh_command_begin(device);
	drain(conn, conn->moving.drain_waits, now_ns);
	mesh_command_end(device, command);
}

uint64_t mesh_conn_drain_at(const struct mesh_conn *conn)
{
	if (!conn->moving.draining)
		return UINT64_MAX;
	if (mesh_device_stuck(device_at_work(conn)))
		return mesh_now_ns() + MESH_STUCK_AGAIN_NS;
	return mesh_now_ns() + (mesh_many_move() ? DRAIN_STEP_MANY_NS : DRAIN_STEP_NS);
}

/* The move is over: note whether the new path is the primary path, and drop what was armed. */
static void arrived(struct mesh_conn *conn)
{
	struct mesh_conn_primary *primary = &conn->primary;

	primary->away = !mv_gid_equal(&conn->path.gid, &primary->gid) ||
			!mv_gid_equal(&conn->path.peer_gid, &primary->peer_gid);
	/* The peer's primary path may be another one, if only one end has stand_in = on: then two ends would move to and fro. */
	if (primary->away && conn->move.reason == MV_CTL_REASON_PRIMARY && mesh_root.config.stand_in)
		mesh_conn_adopt(conn);
	primary->works_since_ns = 0;
	primary->returned_at_ns = primary->away ? 0 : mesh_now_ns();
	primary->sent_back = conn->move.reason != MV_CTL_REASON_PRIMARY;
	mesh_conn_disarm(conn);
}

/* Report an atomic whose result is lost. Work before the atomic completes; the atomic and all work behind it fail. */
static void note_lost(const struct mesh_conn *conn)
{
	const char *lost = mesh_failover_lost(conn->vqp);

	if (!lost)
		return;
	mesh_count(MV_COUNT_SURFACED);
	mv_log(&mesh_root.log, MV_LOG_ERR, "%s QP 0x%x to host %s: %s; the program gets its error", conn->mc->device, conn->qpn,
	       conn->ends.peer_host, lost);
}

static void before_replay(struct mesh_conn *conn)
{
	mesh_conn_ask_no_more(conn); /* replay asks for the keys that it needs */
	mesh_conn_reap(conn);
	/* Clear the flag before replay: the next QP may fail at any time from then on, and sets the flag only once. */
	atomic_store_explicit(&conn->flags.path_failed, false, memory_order_relaxed);
	mesh_path_failures_forget(conn);
}

/* The next QP takes over the work. Return: false if it could not be brought to RTS, and the connection has failed. */
static bool take_over(struct mesh_conn *conn)
{
	conn->moving.drained = false;
	conn->primary.old_pd = conn->path.pd;
	conn->path = conn->moving.next_path;
	conn->moving.next_path = (struct mesh_conn_path){0};
	conn->state = MESH_CONN_MOVED;
	/* The program may have gone to RTS since the next QP was connected. */
	if (conn->attr.rts_mask && mesh_conn_shadow_rts(conn)) {
		mesh_conn_fail(conn, "it cannot be brought to RTS");
		return false;
	}
	conn->retry.pathless_ns = 0;
	conn->retry.again_ns = 0;
	mesh_conn_log_steps(conn);
	mesh_conn_count_moved(conn);
	arrived(conn);
	conn->status.untold_move = conn->move.reason;
	mesh_conn_tell_later(conn, mesh_now_ns());
	return true;
}

void mesh_conn_replay(struct mesh_conn *conn, const struct mv_move_action *action)
{
	struct mesh_failover_keys keys;
	int err;

	before_replay(conn);
	mesh_conn_keys_use(conn, &keys);
	mesh_conn_keys_begin(conn);
	mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x: the peer is at PSN 0x%x and has received %u; remote keys known: %zu",
	       conn->mc->device, conn->qpn, action->next_psn, action->n_received, keys.n);
	err = mesh_failover_replay(conn->vqp, action->next_psn, action->n_received, conn->attr.rts.max_rd_atomic,
				   &keys);
	if (err)
		mesh_conn_fail(conn, strerrordesc_np(-err));
	else
		note_lost(conn); /* before anything else: a program may exit as soon as it has its error */
	if (err || !take_over(conn))
		return;
	/* The peer has sent its state, and then left. */
	if (conn->ends.peer_gone)
		mesh_failover_end_of_peer(conn->vqp);
}

/*
 * The peer has left, or does not answer. On a bare NIC a program without outstanding sends would not notice: its QP stays in RTS
 * with its receives. So such a QP moves all the same. The peer's state matters to sends only.
 */
void mesh_conn_flush(struct mesh_conn *conn, const struct mv_move_action *action)
{
	const char *why = action->timed_out ? "the peer's process did not answer" : mv_ctl_reason_text(action->reason);

	before_replay(conn);
	if (action->timed_out || action->reason == MV_CTL_REASON_TIMEOUT)
		mesh_move_limiter_took(UINT64_MAX);
	if (mesh_failover_alone(conn->vqp)) {
		mesh_conn_fail(conn, why);
	} else if (take_over(conn)) {
		mv_log(&mesh_root.log, MV_LOG_INFO, "%s QP 0x%x to host %s: nothing was under way when it moved, and it has no peer any more: %s",
		       conn->mc->device, conn->qpn, conn->ends.peer_host, why);
	}
}

void mesh_conn_wanted(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	size_t n;

	mesh_path_failures_update(conn, now_ns);
	n = mesh_conn_paths_for(conn, action->reason, paths);
	if (!n && action->reason == MV_CTL_REASON_PATH)
		n = mesh_conn_path_again(conn, true, paths);
	if (!n)
		mesh_conn_say_unproved(conn);
	if (mesh_failover_lost(conn->vqp) || !mesh_detects(MESH_DETECT_PEER)) {
		mv_move_refuse(&conn->move, MV_CTL_REASON_UNSUPPORTED, now_ns);
	} else if (!n) {
		mv_move_refuse(&conn->move, MV_CTL_REASON_NO_PATH, now_ns);
	} else {
		mesh_conn_begin(conn, action->reason, paths, n, now_ns);
	}
}
