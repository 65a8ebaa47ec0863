// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "failover_policy.h"

#include <stdio.h>
#include <string.h>

#include "detect.h"
#include "failover_exec.h"
#include "vqp_failover.h"
#include "move_failover.h"
#include "path_failures.h"
#include "path_select.h"
#include "arm.h"
#include "path_monitor.h"
#include "proved.h"
#include "suspect.h"
#include "unqualified.h"

/* A connection that waits to move is called. If the call is missed, it checks again after this time. */
#define TURN_NS 1000000000ull
/* A follower whose host moves many connections waits so long for its leader to begin; then it begins as leaders do. */
#define FOLLOW_NS 250000000ull
/* Interval of looks for a directory, while there is none although the agent is connected. */
#define DIRECTORY_AGAIN_NS 1000000000ull
/* A new path wakes both ends. The peer may hear of the path a little later, so this end tries again. */
#define PATHLESS_AGAIN_NS 10000000ull

void mesh_conn_note_flap(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_primary *primary = &conn->primary;

	if (primary->away)
		return;
	if (!primary->returned_at_ns || now_ns - primary->returned_at_ns >= 4 * primary->hold_ns)
		primary->hold_ns = mesh_root.config.hold_down_ms * 1000000ull;
	else if (!primary->sent_back)
		primary->hold_ns = primary->hold_ns < MESH_HOLD_MAX_NS / 2 ? 2 * primary->hold_ns : MESH_HOLD_MAX_NS;
	primary->returned_at_ns = now_ns;
	primary->sent_back = true;
}

void mesh_conn_begin(struct mesh_conn *conn, enum mv_ctl_reason reason, const struct mv_path *paths, size_t n, uint64_t now_ns)
{
	mesh_conn_note_begin(conn, now_ns);
	conn->watched.prepares = false;
	if (reason != MV_CTL_REASON_PRIMARY)
		mesh_conn_note_flap(conn, now_ns);
	mv_move_start(&conn->move, reason, paths, n, now_ns);
}

static const char no_rail[] = "no other rail of this host reaches one of the peer's";
static const char failed_everywhere[] = "its work did not get through on any path";

/*
 * Ports that flap may leave a QP whose retries are used up without any path for a moment. The program's errors are withheld that
 * long.
 */
bool mesh_conn_waits_for_path(struct mesh_conn *conn, uint64_t now_ns)
{
	uint64_t limit_ns = mesh_root.config.move_timeout_ms * 1000000ull / MESH_PATHLESS_PART;

	if (!conn->retry.pathless_ns) {
		conn->retry.pathless_ns = now_ns;
		mv_log(&mesh_root.log, MV_LOG_INFO, "%s QP 0x%x to host %s: has failed, and there is no path; waits %u ms for one",
		       conn->mc->device, conn->qpn, conn->ends.peer_host, (unsigned int)(limit_ns / 1000000));
	}
	return now_ns - conn->retry.pathless_ns < limit_ns;
}

/* Is the NIC that does the work lost? The program gets no event of that, because its own NIC is another one. */
static bool is_lost(const struct mesh_conn *conn)
{
	return conn->state == MESH_CONN_MOVED && conn->path.pd && mesh_rail_lost(conn->path.pd->rail);
}

static const char *why_no_path(const struct mesh_conn *conn)
{
	const char *unproved = mesh_conn_unproved(conn);
	struct mv_path_request request;
	struct mesh_path_decision decision;

	if (unproved)
		return unproved;
	if (mesh_conn_unqualified(conn))
		return mesh_conn_unqualified(conn);
	if (!mesh_path_failures_any(conn))
		return no_rail;
	mesh_path_now(conn, &request);
	mesh_directory_paths(&request, &decision);
	return decision.n_paths ? failed_everywhere : no_rail;
}

static void stay_for_lack_of_path(struct mesh_conn *conn)
{
	conn->retry.stayed = why_no_path(conn);
	conn->primary.refused = false;
}

static void start(struct mesh_conn *conn, enum mv_ctl_reason reason, uint64_t now_ns)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	size_t n = mesh_conn_paths_for(conn, reason, paths);

	if (!n && reason == MV_CTL_REASON_PATH)
		n = mesh_conn_path_again(conn, false, paths);
	if (!n)
		mesh_conn_say_unproved(conn);
	if (n)
		mesh_conn_begin(conn, reason, paths, n, now_ns);
	else if ((mesh_failover_broken(conn->vqp) || is_lost(conn)) && !mesh_conn_waits_for_path(conn, now_ns))
		mesh_conn_fail(conn, why_no_path(conn));
	else if (reason != MV_CTL_REASON_PRIMARY)
		stay_for_lack_of_path(conn);
}

/*
 * Is the reason of the move a fault of the path? A self-connected QP may follow another connection: then the reason is not about
 * its own path.
 */
static bool has_reason(const struct mesh_conn *conn)
{
	if (conn->ends.self)
		return mesh_conn_port_is_down(conn);
	return conn->move.reason == MV_CTL_REASON_PORT || conn->move.reason == MV_CTL_REASON_PATH;
}

bool mesh_conn_path_works(const struct mesh_conn *conn)
{
	struct mv_path_request request;
	struct mesh_path_decision decision;

	if (has_reason(conn) || mesh_failover_broken(conn->vqp) ||
	    mesh_path_monitor_state(conn->watched.work) == MV_PROBED_DOWN)
		return false;
	mesh_path_now(conn, &request);
	mesh_directory_verdict(&request, &decision);
	return decision.drained || (decision.verdict != MV_PATH_LOCAL_DOWN && decision.verdict != MV_PATH_REMOTE_DOWN);
}

static bool may_move(const struct mesh_conn *conn)
{
	return (conn->state == MESH_CONN_PASSTHROUGH || conn->state == MESH_CONN_MOVED) && !conn->move.failover &&
	       conn->attr.rts_mask && !mesh_failover_lost(conn->vqp);
}

/*
 * Has the connection errors to give, and can it not move? For example, flushed receives were withheld before the failed send was
 * polled, and that send cannot be posted on another path.
 */
static bool is_stranded(const struct mesh_conn *conn)
{
	if ((conn->state != MESH_CONN_PASSTHROUGH && conn->state != MESH_CONN_MOVED) || conn->move.failover ||
	    !conn->vqp)
		return false;
	/* A NIC that is lost reports nothing, so a failing work request is enough. */
	return (mesh_failover_broken(conn->vqp) && mesh_failover_lost(conn->vqp)) ||
	       (is_lost(conn) && mesh_failover_is_failing(conn->vqp));
}

/*
 * Does the primary path answer probes? A path that ever answered has to answer now. For a path that never answered, carrier
 * decides.
 */
static bool is_proven(const struct mesh_conn *conn)
{
	enum mv_probed state = mesh_path_monitor_state(conn->watched.primary);

	if (!mesh_path_monitor_on() || !mesh_detects(MESH_DETECT_PROBE))
		return true;
	return state == MV_PROBED_UP || (state == MV_PROBED_UNKNOWN && !conn->watched.primary_answers);
}

/*
 * An agent that did not run for a while goes on with the directory that it had, and sends no CHANGED. Without a connection to the
 * agent no look is needed: the helper thread looks at all connections once it has one.
 * @generation: of the directory; 0: there was none
 *
 * Return: when to look again.
 */
static uint64_t look_for_directory(uint64_t generation, uint64_t now_ns)
{
	return !generation && mesh_thread_has_agent() ? now_ns + DIRECTORY_AGAIN_NS : UINT64_MAX;
}

/* Move back to the primary path once it has worked for the hold-down. Return: when to look again. */
static uint64_t check_primary(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_primary *primary = &conn->primary;
	struct mv_path path;
	uint64_t generation;

	if (!mesh_path_primary(conn, &path, &generation) || !is_proven(conn)) {
		primary->works_since_ns = 0;
		return look_for_directory(generation, now_ns);
	}
	/*
	 * Work failed on the primary path, and has got through nowhere since. So the fault may not be of the primary path: look
	 * again after the hold-down.
	 */
	if (mesh_path_failures_has(conn, &primary->gid, &primary->peer_gid)) {
		primary->works_since_ns = 0;
		return now_ns + primary->hold_ns;
	}
	if (!primary->works_since_ns)
		primary->works_since_ns = now_ns;
	if (now_ns - primary->works_since_ns < primary->hold_ns)
		return primary->works_since_ns + primary->hold_ns;
	primary->works_since_ns = now_ns; /* restarts the hold-down, should the move come to nothing */
	start(conn, MV_CTL_REASON_PRIMARY, now_ns);
	return now_ns + primary->hold_ns;
}

/*
 * Leave the path, at most once per MESH_LEAVE_AGAIN_NS: a peer that refused is not asked again at once. Return: when to look
 * again.
 */
static uint64_t leave(struct mesh_conn *conn, enum mv_ctl_reason reason, uint64_t now_ns)
{
	if (conn->retry.stayed && now_ns < conn->retry.stayed_ns + MESH_LEAVE_AGAIN_NS)
		return conn->retry.stayed_ns + MESH_LEAVE_AGAIN_NS;
	conn->retry.stayed_ns = now_ns;
	start(conn, reason, now_ns);
	return now_ns + MESH_LEAVE_AGAIN_NS;
}

void mesh_conn_back_off(struct mesh_conn *conn)
{
	conn->retry.again_ns = conn->retry.again_ns ? 2 * conn->retry.again_ns : PATHLESS_AGAIN_NS;
	if (conn->retry.again_ns > MESH_LEAVE_AGAIN_NS)
		conn->retry.again_ns = MESH_LEAVE_AGAIN_NS;
}

/*
 * Leave a port that is down. After a move that came to nothing, wait for again_ns, or for a new directory: the peer may refuse as
 * long as its own state lasts, and thousands of connections would ask repeatedly. Return: when to look again.
 */
static uint64_t leave_port(struct mesh_conn *conn, uint64_t generation, uint64_t now_ns)
{
	uint64_t again_ns = generation == conn->retry.again_generation ? conn->retry.again_ns : PATHLESS_AGAIN_NS;

	if (conn->retry.stayed && conn->retry.again_ns && now_ns < conn->retry.stayed_ns + again_ns)
		return conn->retry.stayed_ns + again_ns;
	conn->retry.again_generation = generation;
	start(conn, MV_CTL_REASON_PORT, now_ns);
	return now_ns + MESH_LEAVE_AGAIN_NS; /* the move may come to nothing before any message is sent */
}

/* Is a self-connected QP on another rail than the connections that it follows? Its path works, so this check comes last. */
static bool strays(struct mesh_conn *conn, const struct mv_path_request *request, char *ret_device, enum mv_ctl_reason *ret_why)
{
	return conn->ends.self && mesh_conn_led(conn, ret_device, ret_why) && strcmp(ret_device, request->device);
}

/* Follow to @device. Return: when to look again. */
static uint64_t follow(struct mesh_conn *conn, const char *device, enum mv_ctl_reason why, uint64_t now_ns)
{
	struct mv_path_request request;
	struct mesh_path_decision decision;
	struct mv_path primary;
	size_t i;

	if (conn->retry.stayed && now_ns < conn->retry.stayed_ns + MESH_LEAVE_AGAIN_NS)
		return conn->retry.stayed_ns + MESH_LEAVE_AGAIN_NS;
	if (!strcmp(device, conn->primary.device) && mesh_path_primary(conn, &primary, NULL)) {
		mesh_conn_begin(conn, why, &primary, 1, now_ns);
		return UINT64_MAX;
	}
	mesh_path_now(conn, &request);
	mesh_directory_paths(&request, &decision);
	i = mesh_paths_from(device, decision.paths, decision.n_paths);
	if (i == decision.n_paths)
		return now_ns + MESH_LEAVE_AGAIN_NS;
	mesh_conn_begin(conn, why, &decision.paths[i], 1, now_ns);
	return UINT64_MAX;
}

/*
 * May the connection begin to move now (move_limiter.h)? Two kinds do not wait: a self-connected QP, which keeps no
 * peer waiting, and a failed connection without a path, whose time is short and whose peer may not know of the failure.
 * @ret_again: when to look again, if the return value is false
 */
static bool may_move_now(struct mesh_conn *conn, bool path_failed, uint64_t now_ns, uint64_t *ret_again)
{
	bool waits_long = conn->retry.limited_ns && now_ns - conn->retry.limited_ns >= FOLLOW_NS,
	     leads = conn->move.leader || path_failed || waits_long;
	enum mesh_mover mover = leads ? MESH_MOVER_LEADS : MESH_MOVER_FOLLOWS;

	if (conn->ends.self || conn->retry.pathless_ns || mesh_move_limiter_allows(conn, mover)) {
		conn->retry.limited_ns = 0;
		return true;
	}
	mesh_conn_wait_to_move(conn, mover);
	if (!conn->retry.limited_ns)
		conn->retry.limited_ns = now_ns;
	*ret_again = now_ns + (leads ? TURN_NS : FOLLOW_NS);
	return false;
}

/* May the current path be dead, as far as is known? */
static bool is_doubtful(const struct mesh_conn *conn, enum mv_path_verdict verdict)
{
	return verdict == MV_PATH_UNKNOWN || verdict == MV_PATH_LOCAL_DOWN || verdict == MV_PATH_REMOTE_DOWN ||
	       mesh_path_monitor_state(conn->watched.work) == MV_PROBED_DOWN;
}

/*
 * The connection has no reason to leave its path any more: forget why it stayed there. Exception: it did not move back to its
 * primary path, which works. Return: when to look again.
 */
static uint64_t forget_stayed(struct mesh_conn *conn, enum mv_path_verdict verdict, uint64_t now_ns)
{
	if (!conn->retry.stayed || is_doubtful(conn, verdict) ||
	    (conn->primary.refused && conn->primary.works_since_ns))
		return UINT64_MAX;
	if (now_ns < conn->retry.stayed_ns + MESH_LEAVE_AGAIN_NS)
		return conn->retry.stayed_ns + MESH_LEAVE_AGAIN_NS;
	conn->retry.stayed = NULL;
	return UINT64_MAX;
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

uint64_t mesh_conn_check(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns)
{
	char device[IBV_SYSFS_NAME_MAX];
	struct mv_path_request request;
	bool path_failed = atomic_load_explicit(&conn->flags.path_failed, memory_order_relaxed);
	uint64_t again_ns, limited_ns, suspect_ns;
	enum mv_ctl_reason why;
	struct mesh_path_decision decision;

	mesh_path_failures_update(conn, now_ns);
	if (is_stranded(conn)) {
		mesh_conn_fail(conn, mesh_failover_lost(conn->vqp));
		return UINT64_MAX;
	}
	if (conn->move.unsure)
		return mesh_conn_check_suspicion(conn, now_ns, silent_ns);
	conn->watched.dead_ns = 0;
	if (!may_move(conn)) {
		if (!conn->move.failover)
			mesh_conn_unwatch(conn);
		return UINT64_MAX;
	}
	if (!may_move_now(conn, path_failed, now_ns, &limited_ns))
		return limited_ns;
	if (path_failed) {
		/* No path a moment ago: no new attempt within PATHLESS_AGAIN_NS. */
		if (conn->retry.pathless_ns && now_ns < conn->retry.stayed_ns + PATHLESS_AGAIN_NS)
			return conn->retry.stayed_ns + PATHLESS_AGAIN_NS;
		start(conn, MV_CTL_REASON_PATH, now_ns);
		return conn->retry.pathless_ns ? now_ns + PATHLESS_AGAIN_NS : UINT64_MAX;
	}
	mesh_path_now(conn, &request);
	mesh_directory_verdict(&request, &decision);
	mesh_conn_watch(conn, &request, &decision);
	if ((decision.verdict == MV_PATH_LOCAL_DOWN || decision.verdict == MV_PATH_REMOTE_DOWN) &&
	    (decision.drained || mesh_detects(MESH_DETECT_CARRIER))) {
		return decision.drained ? leave(conn, MV_CTL_REASON_DRAIN, now_ns)
					: leave_port(conn, decision.generation, now_ns);
	}
	if (mesh_conn_port_is_down(conn))
		return leave(conn, MV_CTL_REASON_PORT, now_ns);
	if (mesh_conn_is_dead(conn))
		return leave(conn, MV_CTL_REASON_PATH, now_ns);
	suspect_ns = mesh_conn_suspect(conn, now_ns);
	if (suspect_ns)
		return suspect_ns + MESH_SUSPECT_NS;
	if (strays(conn, &request, device, &why))
		return follow(conn, device, why, now_ns);
	again_ns = earlier(mesh_conn_arm(conn, now_ns), look_for_directory(decision.generation, now_ns));
	if (conn->primary.away && !(conn->ends.self && mesh_conn_led(conn, device, &why)))
		again_ns = earlier(again_ns, check_primary(conn, now_ns));
	return earlier(again_ns, forget_stayed(conn, decision.verdict, now_ns));
}

uint64_t mesh_conn_again_at(const struct mesh_conn *conn, uint64_t now_ns)
{
	if (!may_move(conn))
		return UINT64_MAX;
	if (conn->retry.pathless_ns)
		return now_ns + PATHLESS_AGAIN_NS;
	return conn->retry.stayed && conn->retry.again_ns && conn->retry.stayed_ns >= now_ns
		       ? conn->retry.stayed_ns + conn->retry.again_ns
		       : UINT64_MAX;
}

/*
 * With stand_in = on the program was shown the port as active, though it was down (at either end). So the path that the program
 * asked for is the primary path.
 */
static bool stands_in(const struct mesh_conn *conn)
{
	return mesh_root.config.stand_in && conn->state == MESH_CONN_MOVED &&
	       (conn->own_qp.verdict == MV_PATH_LOCAL_DOWN || conn->own_qp.verdict == MV_PATH_REMOTE_DOWN);
}

static void set_primary(struct mesh_conn_primary *primary, const struct mv_path_request *request, bool away)
{
	snprintf(primary->device, sizeof(primary->device), "%s", request->device);
	primary->port = request->port_num;
	primary->gid = request->sgid;
	primary->gid_type = request->sgid_type;
	primary->peer_gid = request->dgid;
	primary->away = away;
}

void mesh_conn_settled(struct mesh_conn *conn)
{
	bool away = stands_in(conn);
	struct mv_path_request request;

	if (away)
		mesh_path_asked(conn, &request);
	else
		mesh_path_now(conn, &request);
	set_primary(&conn->primary, &request, away);
	conn->primary.hold_ns = mesh_root.config.hold_down_ms * 1000000ull;
}

void mesh_conn_adopt(struct mesh_conn *conn)
{
	struct mv_path_request request;

	mesh_path_now(conn, &request);
	set_primary(&conn->primary, &request, false);
}
