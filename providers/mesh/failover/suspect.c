// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "suspect.h"

#include "detect.h"
#include "failover_exec.h"
#include "failover_policy.h"
#include "vqp_failover.h"
#include "move_failover.h"
#include "path_select.h"
#include "path_monitor.h"

/*
 * A follower knows that its path is dead, and its leader, which has prepared to move, does not seem to know: so long later the
 * follower tells the leader.
 */
#define TELL_NS 20000000ull

void mesh_conn_unwatch(struct mesh_conn *conn)
{
	mesh_path_monitor_use(&conn->watched.primary, MV_WATCH_PRIMARY, NULL, NULL);
	mesh_path_monitor_use(&conn->watched.work, MV_WATCH_WORK, NULL, NULL);
}

void mesh_conn_watch(struct mesh_conn *conn, const struct mv_path_request *request,
		     const struct mesh_path_decision *decision)
{
	struct mesh_conn_watched *watched = &conn->watched;
	struct mesh_conn_primary *primary = &conn->primary;
	struct mv_path paths[MV_MOVE_MAX_PATHS];

	/* No agent probes paths within its host, or InfiniBand paths: only port states are known there. */
	if (!mesh_path_monitor_on() || conn->ends.own_host || request->sgid_type == MV_GID_TYPE_IB) {
		mesh_conn_unwatch(conn);
		return;
	}
	mesh_path_monitor_use(&watched->primary, MV_WATCH_PRIMARY, primary->away ? &primary->gid : NULL,
			      &primary->peer_gid);
	mesh_path_monitor_use(&watched->work, MV_WATCH_WORK, &request->sgid, &request->dgid);
	watched->primary_answers |=
		mesh_path_monitor_state(primary->away ? watched->primary : watched->work) != MV_PROBED_UNKNOWN;
	if (mesh_path_monitor_wants_alternates(watched->work, decision->generation))
		mesh_path_monitor_alternates(watched->work, paths,
					     mesh_conn_paths_for(conn, MV_CTL_REASON_PATH, paths));
}

/*
 * Does the path agreed upon on suspicion answer probes? A shortcut: hundreds of connections come here at once, and a search for
 * paths is slow.
 */
static bool next_answers(const struct mesh_conn *conn)
{
	const struct mv_move_path *next = &conn->move.next;

	return conn->move.unsure && mesh_path_monitor_find(&next->mine.gid, &next->peer.gid) == MV_PROBED_UP;
}

bool mesh_conn_is_dead(const struct mesh_conn *conn)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];

	if (!mesh_detects(MESH_DETECT_PROBE) || mesh_path_monitor_state(conn->watched.work) != MV_PROBED_DOWN)
		return false;
	return next_answers(conn) || (mesh_conn_paths_for(conn, MV_CTL_REASON_PATH, paths) &&
				      mesh_path_doubt(&paths[0], NULL) < MESH_PATH_SILENT);
}

/*
 * The current path may be found dead soon. Both ends agree on the next path while the agent makes sure, because both take about
 * as long. With a standby the program then notices nothing. Return: whether the agreement has begun.
 */
static bool prepare_to_leave(struct mesh_conn *conn, uint64_t suspect_ns, uint64_t now_ns)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	size_t n = mesh_conn_paths_for(conn, MV_CTL_REASON_PATH, paths);

	if (!n || mesh_path_doubt(&paths[0], NULL))
		return false;
	conn->watched.suspect_ns = suspect_ns;
	conn->watched.prepares = true;
	mesh_conn_note_begin(conn, now_ns);
	mv_move_expect(&conn->move, paths, n, now_ns);
	return true;
}

/* Return: since when there is a suspicion for which the leader has not prepared yet, and may; 0: none. */
static uint64_t new_suspicion(const struct mesh_conn *conn, uint64_t now_ns)
{
	uint64_t suspect_ns =
		mesh_detects(MESH_DETECT_PROBE) ? mesh_path_monitor_suspect(conn->watched.work, now_ns) : 0;

	if (!conn->move.leader || suspect_ns == conn->watched.suspect_ns ||
	    (conn->retry.stayed && now_ns < conn->retry.stayed_ns + MESH_LEAVE_AGAIN_NS))
		return 0;
	return mesh_may_prepare() ? suspect_ns : 0;
}

uint64_t mesh_conn_suspect(struct mesh_conn *conn, uint64_t now_ns)
{
	uint64_t suspect_ns = new_suspicion(conn, now_ns);

	return suspect_ns && prepare_to_leave(conn, suspect_ns, now_ns) ? suspect_ns : 0;
}

void mesh_conn_note_sure(struct mesh_conn *conn, uint64_t now_ns)
{
	if (!conn->watched.prepares)
		return;
	conn->watched.prepares = false;
	conn->moving.since_ns = now_ns;
	mesh_conn_note_flap(conn, now_ns);
}

/* Is the path known to have failed: by the work, probes, the port or the directory? */
static bool is_failed(const struct mesh_conn *conn, enum mv_ctl_reason *ret_why)
{
	struct mv_path_request request;
	struct mesh_path_decision decision;

	*ret_why = MV_CTL_REASON_PATH;
	if (mesh_failover_broken(conn->vqp) || mesh_conn_is_dead(conn))
		return true;
	*ret_why = MV_CTL_REASON_PORT;
	if (mesh_conn_port_is_down(conn))
		return true;
	mesh_path_now(conn, &request);
	mesh_directory_verdict(&request, &decision);
	return (decision.verdict == MV_PATH_LOCAL_DOWN || decision.verdict == MV_PATH_REMOTE_DOWN) &&
	       !decision.drained && mesh_detects(MESH_DETECT_CARRIER);
}

/*
 * Tell the leader that the path is dead, after a delay: most likely the leader finds that out, too, and its message may already
 * be queued here among hundreds. Return: when to look again.
 */
static uint64_t tell_leader(struct mesh_conn *conn, enum mv_ctl_reason why, uint64_t now_ns, uint64_t silent_ns)
{
	uint64_t tell_ns = TELL_NS + (now_ns - silent_ns);

	if (!conn->watched.dead_ns)
		conn->watched.dead_ns = now_ns;
	if (now_ns < conn->watched.dead_ns + tell_ns)
		return conn->watched.dead_ns + tell_ns;
	conn->watched.dead_ns = now_ns;
	mv_move_start(&conn->move, why, NULL, 0, now_ns);
	return now_ns + tell_ns;
}

/* Has a follower answered a leader's offer, and lost the standby that it offered? */
static bool has_lost_next(struct mesh_conn *conn)
{
	return conn->move.state == MV_MOVE_ANSWERED &&
	       (mesh_failover_lost(conn->vqp) || mesh_failover_armed(conn->vqp) != conn->move.next.mine.qpn);
}

uint64_t mesh_conn_check_suspicion(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns)
{
	enum mv_ctl_reason why;
	uint64_t suspect_ns;

	if (has_lost_next(conn)) {
		mv_move_refuse(&conn->move, MV_CTL_REASON_UNSUPPORTED, now_ns);
		return now_ns;
	}
	if (is_failed(conn, &why)) {
		if (!conn->move.leader)
			return tell_leader(conn, why, now_ns, silent_ns);
		mv_move_sure(&conn->move, why, now_ns);
		mesh_conn_note_sure(conn, now_ns);
		return UINT64_MAX;
	}
	conn->watched.dead_ns = 0;
	if (!conn->move.leader)
		return UINT64_MAX;
	suspect_ns = mesh_path_monitor_suspect(conn->watched.work, now_ns);
	if (suspect_ns)
		return suspect_ns + MESH_SUSPECT_NS;
	mv_move_cancel(&conn->move, now_ns);
	/* If another reason remains, a worker queues the connection when it is done. */
	return conn->move.failover ? UINT64_MAX : now_ns;
}
