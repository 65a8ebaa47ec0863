// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "reasons.h"

#include <stdio.h>
#include <string.h>

#include "detect.h"
#include "live.h"
#include "paths.h"
#include "prearm.h"
#include "probed.h"
#include "relocate.h"

/* Until a connection that did not leave a drained NIC, or a path that is dead by probes, tries again. */
#define LEAVE_AGAIN_NS 1000000000ull
/* Until a connection that waits for others to have moved looks again, should it not be called. */
#define TURN_NS 1000000000ull
/* How long one whose peer leads waits for that to begin, where many move. */
#define FOLLOW_NS 250000000ull
/* A path that comes is told of; but the peer may hear of it a little later. */
#define PATHLESS_AGAIN_NS 10000000ull
#define PATHLESS_PART     4 /* of move_timeout: how long a QP that has failed waits for a path */

/* The path that the work goes to now. */
static void request_of(const struct mesh_conn *conn, struct mv_path_request *ret)
{
	bool moved = conn->state == MESH_CONN_MOVED;

	*ret = (struct mv_path_request){.device = moved ? conn->path.device : conn->mc->device,
					.port_num = moved ? conn->path.port : conn->rtr.ah_attr.port_num,
					.sgid = moved ? conn->path.gid : conn->local.gid,
					.sgid_type = moved ? conn->path.gid_type : conn->local_type,
					.dgid = moved ? conn->path.peer_gid : conn->peer.gid,
					.routed = 1,
					.own_host = conn->own_host};
}

/* Index of the path that it is on; view->n_paths: it is not among them. */
static size_t current(const struct mv_path_request *request, const struct mesh_view *view)
{
	size_t i;

	for (i = 0; i < view->n_paths; i++)
		if (mv_gid_equal(&view->paths[i].local_gid, &request->sgid) &&
		    mv_gid_equal(&view->paths[i].remote_gid, &request->dgid))
			break;
	return i;
}

/*
 * How little a path is to be trusted, the ports of which are up. @left: the one that does not work any more, although its
 * ports are up, NULL: one does not say so: which of its two ends is to blame is not known.
 */
static unsigned int doubt(const struct mv_path *path, const struct mv_path *left)
{
	switch (mesh_probed_find(&path->local_gid, &path->remote_gid)) {
	case MV_PROBED_UP:
		return 0;
	case MV_PROBED_UNKNOWN:
		return left && (path->local_rail == left->local_rail || path->remote_rail == left->remote_rail) ? 2 : 1;
	default:
		return 3;
	}
}

/* Those that are known to work come first; else the order is as it was. */
static void sort(struct mv_path *paths, size_t n, const struct mv_path *left)
{
	unsigned int doubts[MV_MOVE_MAX_PATHS], d;
	struct mv_path path;
	size_t i, at;

	for (i = 0; i < n; i++) {
		path = paths[i];
		d = doubt(&path, left);
		for (at = i; at && doubts[at - 1] > d; at--) {
			paths[at] = paths[at - 1];
			doubts[at] = doubts[at - 1];
		}
		paths[at] = path;
		doubts[at] = d;
	}
}

/* By its events, which come before the directory has it. */
static bool own_port_is_down(const struct mesh_conn *conn)
{
	struct mesh_rail *rail = conn->state == MESH_CONN_MOVED && conn->path.pd ? conn->path.pd->rail : NULL;

	if (rail)
		return mesh_port_is_down(&rail->ports_down, rail->context, conn->path.port);
	return conn->state == MESH_CONN_NATIVE &&
	       mesh_port_is_down(&conn->mc->ports_down, conn->qp->context, conn->rtr.ah_attr.port_num);
}

/* The first path from a rail; @n: there is none. */
static size_t find_from(const char *device, const struct mv_path *paths, size_t n)
{
	struct mesh_view_rail place;
	size_t i;

	for (i = 0; i < n; i++)
		if (!mesh_view_rail(&paths[i].local_gid, paths[i].type, &place) && !strcmp(place.device, device))
			break;
	return i;
}

/* One that goes with others goes first where they are. */
static void prefer_led(const struct mesh_conn *conn, struct mv_path *paths, size_t n)
{
	char device[IBV_SYSFS_NAME_MAX];
	enum mv_ctl_reason why;
	struct mv_path path;
	size_t i;

	if (!conn->self || !mesh_conn_led(conn, device, &why))
		return;
	i = find_from(device, paths, n);
	if (i == n)
		return;
	path = paths[i];
	memmove(&paths[1], &paths[0], i * sizeof(path));
	paths[0] = path;
}

/* All paths but those between the two ports that it is on: with other addresses they are as dead. */
static size_t others(const struct mesh_conn *conn, const struct mv_path_request *request, enum mv_ctl_reason reason,
		     struct mesh_view *view)
{
	size_t i, n = 0, now = current(request, view);
	bool from_elsewhere = reason == MV_CTL_REASON_PORT && own_port_is_down(conn);
	struct mv_path path;

	if (now == view->n_paths) {
		sort(view->paths, view->n_paths, NULL);
		return view->n_paths;
	}
	path = view->paths[now];
	for (i = 0; i < view->n_paths; i++)
		if (view->paths[i].local_rail != path.local_rail ||
		    (view->paths[i].remote_rail != path.remote_rail && !from_elsewhere))
			view->paths[n++] = view->paths[i];
	sort(view->paths, n, reason == MV_CTL_REASON_PATH ? &path : NULL);
	return n;
}

/* Where it belongs. */
static void home_request(const struct mesh_conn *conn, struct mv_path_request *ret)
{
	const struct mesh_conn_home *home = &conn->home;

	*ret = (struct mv_path_request){.device = home->device,
					.port_num = home->port,
					.sgid = home->gid,
					.sgid_type = home->gid_type,
					.dgid = home->peer_gid,
					.routed = 1,
					.own_host = conn->own_host};
}

/* The path home, if it works. Return: how many. */
static size_t way_home(const struct mesh_conn *conn, struct mv_path *ret)
{
	struct mv_path_request request;
	struct mesh_view view;
	size_t i;

	home_request(conn, &request);
	/* Of all that are away, each asks with each news, mostly while home does not work. */
	mesh_view_verdict(&request, &view);
	if (view.verdict != MV_PATH_WORKS)
		return 0;
	mesh_view_paths(&request, &view);
	for (i = 0; i < view.n_paths; i++) {
		if (mv_gid_equal(&view.paths[i].local_gid, &conn->home.gid) && view.paths[i].type == conn->home.gid_type &&
		    mv_gid_equal(&view.paths[i].remote_gid, &conn->home.peer_gid)) {
			*ret = view.paths[i];
			return view.verdict == MV_PATH_WORKS;
		}
	}
	return 0;
}

size_t mesh_conn_paths_for(const struct mesh_conn *conn, enum mv_ctl_reason reason, struct mv_path *ret)
{
	struct mv_path_request request;
	struct mesh_view view;
	size_t n;

	if (reason == MV_CTL_REASON_HOME)
		return way_home(conn, ret);
	request_of(conn, &request);
	mesh_view_paths(&request, &view);
	n = others(conn, &request, reason, &view);
	prefer_led(conn, view.paths, n);
	memcpy(ret, view.paths, n * sizeof(*ret));
	return n;
}

/* A home that fails again soon after its return has to work for longer the next time. */
static void note_flap(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_home *home = &conn->home;

	if (home->away)
		return;
	if (home->returned_at_ns && now_ns - home->returned_at_ns < 4 * home->hold_ns)
		home->hold_ns = home->hold_ns < MESH_HOLD_MAX_NS / 2 ? 2 * home->hold_ns : MESH_HOLD_MAX_NS;
	else
		home->hold_ns = mesh_root.config.hold_down_ms * 1000000ull;
	home->returned_at_ns = 0;
}

void mesh_conn_begin(struct mesh_conn *conn, enum mv_ctl_reason reason, const struct mv_path *paths, size_t n, uint64_t now_ns)
{
	mesh_conn_note_begin(conn, now_ns);
	if (reason != MV_CTL_REASON_HOME)
		note_flap(conn, now_ns);
	mv_move_start(&conn->move, reason, paths, n, now_ns);
}

static const char no_rail[] = "no other rail of this host reaches one of the peer's";

/*
 * Ports that flap may leave a QP that has used up its retries without any path for a moment. Its errors are not the program's yet: they
 * can wait for a while.
 */
bool mesh_conn_waits_for_path(struct mesh_conn *conn, uint64_t now_ns)
{
	uint64_t limit_ns = mesh_root.config.move_timeout_ms * 1000000ull / PATHLESS_PART;

	if (!conn->pathless_ns) {
		conn->pathless_ns = now_ns;
		mv_log(&mesh_root.log, MV_LOG_INFO, "%s QP 0x%x to host %s: has failed, and there is no path; waits %u ms for one",
		       conn->mc->device, conn->qpn, conn->peer_host, (unsigned int)(limit_ns / 1000000));
	}
	return now_ns - conn->pathless_ns < limit_ns;
}

/* Nothing comes of it any more, and nothing tells the program so: its own NIC is another. */
static bool is_lost(const struct mesh_conn *conn)
{
	return conn->state == MESH_CONN_MOVED && conn->path.pd && mesh_rail_lost(conn->path.pd->rail);
}

static void start(struct mesh_conn *conn, enum mv_ctl_reason reason, uint64_t now_ns)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	size_t n = mesh_conn_paths_for(conn, reason, paths);

	if (n)
		mesh_conn_begin(conn, reason, paths, n, now_ns);
	else if ((mesh_live_broken(conn->held) || is_lost(conn)) && !mesh_conn_waits_for_path(conn, now_ns))
		mesh_conn_fail(conn, no_rail);
	else if (reason != MV_CTL_REASON_HOME)
		conn->stayed = no_rail;
}

const char *mesh_conn_bound(const struct mesh_conn *conn)
{
	if (conn->state == MESH_CONN_HELD || conn->state == MESH_CONN_INIT)
		return NULL;
	if (conn->state == MESH_CONN_FAILED)
		return "it has failed";
	if (!conn->held)
		return conn->unlogged;
	return mesh_live_lost(conn->held);
}

/* One that is connected to itself may follow others, whose reasons say nothing of its own path. */
static bool has_reason(const struct mesh_conn *conn)
{
	if (conn->self)
		return own_port_is_down(conn);
	return conn->move.reason == MV_CTL_REASON_PORT || conn->move.reason == MV_CTL_REASON_PATH;
}

bool mesh_conn_path_works(const struct mesh_conn *conn)
{
	struct mv_path_request request;
	struct mesh_view view;

	if (has_reason(conn) || mesh_live_broken(conn->held) || mesh_probed_of(conn->probed.work) == MV_PROBED_DOWN)
		return false;
	request_of(conn, &request);
	mesh_view_verdict(&request, &view);
	return view.drained || (view.verdict != MV_PATH_LOCAL_DOWN && view.verdict != MV_PATH_REMOTE_DOWN);
}

/*
 * Bare, what was made while a port was down works when that is back; a drained one works until it is pulled; what goes to another
 * subnet of the link does if the kernel finds a neighbour, else the base refuses. What fits now, a peer that comes late judges
 * likewise, and goes there. Whether an index of RoCE v1 is right only the peer could say. And where no agent knows of the peer any
 * more, ours or its own, nobody is left with whom another path could be agreed upon: what was held for that is as bare.
 */
static bool seems_to_work(const struct mesh_view *view)
{
	return view->verdict == MV_PATH_WORKS || view->verdict == MV_PATH_ASK || view->verdict == MV_PATH_OTHER_SUBNET ||
	       view->verdict == MV_PATH_UNKNOWN || view->drained;
}

/* An agent that is started anew knows nothing for a moment. */
static uint64_t works_since(struct mesh_conn *conn, enum mv_path_verdict verdict, uint64_t now_ns)
{
	bool known = verdict != MV_PATH_UNKNOWN;

	if (!conn->works_since_ns || conn->works_known != known)
		conn->works_since_ns = now_ns;
	conn->works_known = known;
	return conn->works_since_ns;
}

/*
 * Judged as at RTR. A port that has been down may flap: as one that is gone home to, it has to work for a while. ASK, and an index
 * that is empty, are for the transaction.
 */
uint64_t mesh_conn_native_at(struct mesh_conn *conn, uint64_t now_ns)
{
	uint64_t hold_down_ns = mesh_root.config.hold_down_ms * 1000000ull, at = mv_move_native_at(&conn->move), since;
	struct mv_path_request request;
	struct mesh_view view;

	if (conn->state != MESH_CONN_HELD || at == UINT64_MAX || conn->verdict == MV_PATH_ASK || conn->verdict == MV_PATH_NO_ENTRY)
		return UINT64_MAX;
	request_of(conn, &request);
	/* While the own port was down there was no route. Now the base is to say. */
	request.routed = conn->fits || conn->verdict == MV_PATH_LOCAL_DOWN;
	mesh_view_verdict(&request, &view);
	if (!seems_to_work(&view)) {
		conn->works_since_ns = 0;
		return UINT64_MAX;
	}
	since = works_since(conn, view.verdict, now_ns);
	return at > since + hold_down_ns ? at : since + hold_down_ns;
}

static bool may_move(const struct mesh_conn *conn)
{
	return (conn->state == MESH_CONN_NATIVE || conn->state == MESH_CONN_MOVED) && !conn->move.live &&
	       conn->rts_mask && !mesh_live_lost(conn->held);
}

/* Flushed receives were kept before the send that failed was polled, for a reason that no other path helps against. */
static bool is_stranded(const struct mesh_conn *conn)
{
	if ((conn->state != MESH_CONN_NATIVE && conn->state != MESH_CONN_MOVED) || conn->move.live || !conn->held)
		return false;
	/* A NIC that is lost does not even tell. */
	return (mesh_live_broken(conn->held) && mesh_live_lost(conn->held)) || (is_lost(conn) && mesh_live_is_failing(conn->held));
}

/*
 * A path that has answered probes before it was left, or since, has to go on doing so before anyone returns; of one that never
 * did, carrier is all there is to know.
 */
static bool is_proven(const struct mesh_conn *conn)
{
	enum mv_probed state = mesh_probed_of(conn->probed.home);

	if (!mesh_probed_on() || !mesh_detects(MESH_DETECT_PROBE))
		return true;
	return state == MV_PROBED_UP || (state == MV_PROBED_UNKNOWN && !conn->probed.home_answers);
}

/* Return: when to look again. */
static uint64_t check_home(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_home *home = &conn->home;
	struct mv_path path;

	if (!way_home(conn, &path) || !is_proven(conn)) {
		home->works_since_ns = 0;
		return UINT64_MAX;
	}
	if (!home->works_since_ns)
		home->works_since_ns = now_ns;
	if (now_ns - home->works_since_ns < home->hold_ns)
		return home->works_since_ns + home->hold_ns;
	home->works_since_ns = now_ns; /* should it come to nothing */
	start(conn, MV_CTL_REASON_HOME, now_ns);
	return now_ns + home->hold_ns;
}

/* Return: when to look again. A peer that refused is not asked again at once. */
static uint64_t leave(struct mesh_conn *conn, enum mv_ctl_reason reason, uint64_t now_ns)
{
	if (conn->stayed && now_ns < conn->stayed_ns + LEAVE_AGAIN_NS)
		return conn->stayed_ns + LEAVE_AGAIN_NS;
	conn->stayed_ns = now_ns;
	start(conn, reason, now_ns);
	return now_ns + LEAVE_AGAIN_NS;
}

void mesh_conn_back_off(struct mesh_conn *conn)
{
	conn->again_ns = conn->again_ns ? 2 * conn->again_ns : PATHLESS_AGAIN_NS;
	if (conn->again_ns > LEAVE_AGAIN_NS)
		conn->again_ns = LEAVE_AGAIN_NS;
}

/*
 * The port is down. Where leaving it has come to nothing, the peer may refuse for as long as that lasts, and thousands may have nothing
 * to do but to ask. Return: when to look again.
 */
static uint64_t leave_port(struct mesh_conn *conn, uint64_t generation, uint64_t now_ns)
{
	uint64_t again_ns = generation == conn->again_generation ? conn->again_ns : PATHLESS_AGAIN_NS;

	if (conn->stayed && conn->again_ns && now_ns < conn->stayed_ns + again_ns)
		return conn->stayed_ns + again_ns;
	conn->again_generation = generation;
	start(conn, MV_CTL_REASON_PORT, now_ns);
	return now_ns + LEAVE_AGAIN_NS; /* it may come to nothing before anything is sent */
}

/* Is it elsewhere than those that it goes with? It is as well off where it is, so this comes last. */
static bool strays(struct mesh_conn *conn, const struct mv_path_request *request, char *ret_device, enum mv_ctl_reason *ret_why)
{
	return conn->self && mesh_conn_led(conn, ret_device, ret_why) && strcmp(ret_device, request->device);
}

/* Return: when to look again. */
static uint64_t follow(struct mesh_conn *conn, const char *device, enum mv_ctl_reason why, uint64_t now_ns)
{
	struct mv_path_request request;
	struct mesh_view view;
	struct mv_path home;
	size_t i;

	if (conn->stayed && now_ns < conn->stayed_ns + LEAVE_AGAIN_NS)
		return conn->stayed_ns + LEAVE_AGAIN_NS;
	if (!strcmp(device, conn->home.device) && way_home(conn, &home)) {
		mesh_conn_begin(conn, why, &home, 1, now_ns);
		return UINT64_MAX;
	}
	request_of(conn, &request);
	mesh_view_paths(&request, &view);
	i = find_from(device, view.paths, view.n_paths);
	if (i == view.n_paths)
		return now_ns + LEAVE_AGAIN_NS;
	mesh_conn_begin(conn, why, &view.paths[i], 1, now_ns);
	return UINT64_MAX;
}

void mesh_conn_unwatch(struct mesh_conn *conn)
{
	mesh_probed_use(&conn->probed.home, MV_WATCH_HOME, NULL, NULL);
	mesh_probed_use(&conn->probed.work, MV_WATCH_WORK, NULL, NULL);
}

/* Have the path that it is on watched, the way home, and others to compare with. */
static void watch(struct mesh_conn *conn, const struct mv_path_request *request, const struct mesh_view *view)
{
	struct mesh_conn_probed *probed = &conn->probed;
	struct mesh_conn_home *home = &conn->home;
	struct mv_path paths[MV_MOVE_MAX_PATHS];

	/* Nobody probes ways to oneself: ports are all there is to know. */
	if (!mesh_probed_on() || conn->own_host || request->sgid_type == MV_GID_TYPE_IB) {
		mesh_conn_unwatch(conn);
		return;
	}
	mesh_probed_use(&probed->home, MV_WATCH_HOME, home->away ? &home->gid : NULL, &home->peer_gid);
	mesh_probed_use(&probed->work, MV_WATCH_WORK, &request->sgid, &request->dgid);
	probed->home_answers |= mesh_probed_of(home->away ? probed->home : probed->work) != MV_PROBED_UNKNOWN;
	if (mesh_probed_wants_spares(probed->work, view->generation))
		mesh_probed_spares(probed->work, paths, mesh_conn_paths_for(conn, MV_CTL_REASON_PATH, paths));
}

/* Nothing gets through any more, and there is a path that is better. */
static bool is_dead(const struct mesh_conn *conn)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];

	return mesh_detects(MESH_DETECT_PROBE) && mesh_probed_of(conn->probed.work) == MV_PROBED_DOWN &&
	       mesh_conn_paths_for(conn, MV_CTL_REASON_PATH, paths) && doubt(&paths[0], NULL) < 3;
}

/*
 * May it begin to move? One that is its own peer keeps nobody waiting, and may be waited for; one that has failed has not long to find a
 * path, and knows of something that its peer may not know. @ret_again: when to look again
 */
static bool has_turn(struct mesh_conn *conn, bool path_failed, uint64_t now_ns, uint64_t *ret_again)
{
	bool waits_long = conn->turn_ns && now_ns - conn->turn_ns >= FOLLOW_NS, leads = conn->move.leader || path_failed || waits_long;
	enum mesh_turn turn = leads ? MESH_TURN_LEADS : MESH_TURN_FOLLOWS;

	if (conn->self || conn->pathless_ns || mesh_has_turn(conn, turn)) {
		conn->turn_ns = 0;
		return true;
	}
	mesh_conn_wait_turn(conn, turn);
	if (!conn->turn_ns)
		conn->turn_ns = now_ns;
	*ret_again = now_ns + (leads ? TURN_NS : FOLLOW_NS);
	return false;
}

uint64_t mesh_conn_check(struct mesh_conn *conn, uint64_t now_ns)
{
	char device[IBV_SYSFS_NAME_MAX];
	struct mv_path_request request;
	bool path_failed = atomic_load_explicit(&conn->path_failed, memory_order_relaxed);
	uint64_t armed_ns, home_ns, turn_ns;
	enum mv_ctl_reason why;
	struct mesh_view view;

	if (is_stranded(conn)) {
		mesh_conn_fail(conn, mesh_live_lost(conn->held));
		return UINT64_MAX;
	}
	if (!may_move(conn)) {
		if (!conn->move.live)
			mesh_conn_unwatch(conn);
		return UINT64_MAX;
	}
	if (!has_turn(conn, path_failed, now_ns, &turn_ns))
		return turn_ns;
	if (path_failed) {
		/* What cannot be had now is not tried again at once. */
		if (conn->pathless_ns && now_ns < conn->stayed_ns + PATHLESS_AGAIN_NS)
			return conn->stayed_ns + PATHLESS_AGAIN_NS;
		start(conn, MV_CTL_REASON_PATH, now_ns);
		return conn->pathless_ns ? now_ns + PATHLESS_AGAIN_NS : UINT64_MAX;
	}
	request_of(conn, &request);
	mesh_view_verdict(&request, &view);
	watch(conn, &request, &view);
	if ((view.verdict == MV_PATH_LOCAL_DOWN || view.verdict == MV_PATH_REMOTE_DOWN) &&
	    (view.drained || mesh_detects(MESH_DETECT_CARRIER))) {
		return view.drained ? leave(conn, MV_CTL_REASON_DRAIN, now_ns) : leave_port(conn, view.generation, now_ns);
	}
	if (own_port_is_down(conn))
		return leave(conn, MV_CTL_REASON_PORT, now_ns);
	if (is_dead(conn))
		return leave(conn, MV_CTL_REASON_PATH, now_ns);
	if (strays(conn, &request, device, &why))
		return follow(conn, device, why, now_ns);
	armed_ns = mesh_conn_prearm(conn, now_ns);
	home_ns = conn->home.away && !(conn->self && mesh_conn_led(conn, device, &why)) ? check_home(conn, now_ns) : UINT64_MAX;
	return armed_ns < home_ns ? armed_ns : home_ns;
}

uint64_t mesh_conn_again_at(const struct mesh_conn *conn, uint64_t now_ns)
{
	if (!may_move(conn))
		return UINT64_MAX;
	if (conn->pathless_ns)
		return now_ns + PATHLESS_AGAIN_NS;
	return conn->stayed && conn->again_ns && conn->stayed_ns >= now_ns ? conn->stayed_ns + conn->again_ns : UINT64_MAX;
}

void mesh_conn_settled(struct mesh_conn *conn)
{
	struct mv_path_request request;
	struct mesh_conn_home *home = &conn->home;

	request_of(conn, &request);
	snprintf(home->device, sizeof(home->device), "%s", request.device);
	home->port = request.port_num;
	home->gid = request.sgid;
	home->gid_type = request.sgid_type;
	home->peer_gid = request.dgid;
	home->hold_ns = mesh_root.config.hold_down_ms * 1000000ull;
}
