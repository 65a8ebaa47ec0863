// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "reasons.h"

#include <stdio.h>
#include <string.h>

#include "live.h"
#include "paths.h"
#include "prearm.h"
#include "relocate.h"

/* Until a connection that did not leave a drained NIC tries again. */
#define DRAIN_AGAIN_NS 1000000000ull

/* The path that the work goes to now. */
static void request_of(const struct mesh_conn *conn, struct mv_path_request *ret)
{
	bool moved = conn->state == MESH_CONN_MOVED;

	*ret = (struct mv_path_request){.device = moved ? conn->path.device : conn->mc->device,
					.port_num = moved ? conn->path.port : conn->rtr.ah_attr.port_num,
					.sgid = moved ? conn->path.gid : conn->local.gid,
					.sgid_type = moved ? conn->path.gid_type : conn->local_type,
					.dgid = moved ? conn->path.peer_gid : conn->peer.gid,
					.routed = 1};
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

/* All paths but those between the two ports that it is on: with other addresses they are as dead. */
static size_t others(const struct mv_path_request *request, struct mesh_view *view)
{
	size_t i, n = 0, now = current(request, view);
	struct mv_path path;

	if (now == view->n_paths)
		return view->n_paths;
	path = view->paths[now];
	for (i = 0; i < view->n_paths; i++)
		if (view->paths[i].local_rail != path.local_rail || view->paths[i].remote_rail != path.remote_rail)
			view->paths[n++] = view->paths[i];
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
					.routed = 1};
}

/* The path home, if it works. Return: how many. */
static size_t way_home(const struct mesh_conn *conn, struct mv_path *ret)
{
	struct mv_path_request request;
	struct mesh_view view;
	size_t i;

	home_request(conn, &request);
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
	n = others(&request, &view);
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

static void start(struct mesh_conn *conn, enum mv_ctl_reason reason, uint64_t now_ns)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	size_t n = mesh_conn_paths_for(conn, reason, paths);

	if (n)
		mesh_conn_begin(conn, reason, paths, n, now_ns);
	else if (mesh_live_broken(conn->held))
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

bool mesh_conn_path_works(const struct mesh_conn *conn)
{
	struct mv_path_request request;
	struct mesh_view view;

	if (conn->move.reason == MV_CTL_REASON_PORT || conn->move.reason == MV_CTL_REASON_PATH || mesh_live_broken(conn->held))
		return false;
	request_of(conn, &request);
	mesh_view_judge(&request, &view);
	return view.drained || (view.verdict != MV_PATH_LOCAL_DOWN && view.verdict != MV_PATH_REMOTE_DOWN);
}

static bool may_move(const struct mesh_conn *conn)
{
	return (conn->state == MESH_CONN_NATIVE || conn->state == MESH_CONN_MOVED) && !conn->move.live &&
	       conn->rts_mask && !mesh_live_lost(conn->held);
}

/* Flushed receives were kept before the send that failed was polled, for a reason that no other path helps against. */
static bool is_stranded(const struct mesh_conn *conn)
{
	return (conn->state == MESH_CONN_NATIVE || conn->state == MESH_CONN_MOVED) && !conn->move.live && conn->held &&
	       mesh_live_broken(conn->held) && mesh_live_lost(conn->held);
}

/* Return: when to look again. */
static uint64_t check_home(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_home *home = &conn->home;
	struct mv_path path;

	if (!way_home(conn, &path)) {
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
static uint64_t leave_drained(struct mesh_conn *conn, uint64_t now_ns)
{
	if (conn->stayed && now_ns < conn->stayed_ns + DRAIN_AGAIN_NS)
		return conn->stayed_ns + DRAIN_AGAIN_NS;
	conn->stayed_ns = now_ns;
	start(conn, MV_CTL_REASON_DRAIN, now_ns);
	return now_ns + DRAIN_AGAIN_NS;
}

uint64_t mesh_conn_check(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mv_path_request request;
	uint64_t armed_ns, home_ns;
	struct mesh_view view;

	if (is_stranded(conn)) {
		mesh_conn_fail(conn, mesh_live_lost(conn->held));
		return UINT64_MAX;
	}
	if (!may_move(conn))
		return UINT64_MAX;
	if (atomic_load_explicit(&conn->path_failed, memory_order_relaxed)) {
		start(conn, MV_CTL_REASON_PATH, now_ns);
		return UINT64_MAX;
	}
	request_of(conn, &request);
	mesh_view_judge(&request, &view);
	if (view.verdict == MV_PATH_LOCAL_DOWN || view.verdict == MV_PATH_REMOTE_DOWN) {
		if (!view.drained)
			start(conn, MV_CTL_REASON_PORT, now_ns);
		else
			return leave_drained(conn, now_ns);
		return UINT64_MAX;
	}
	armed_ns = mesh_conn_prearm(conn, now_ns);
	home_ns = conn->home.away ? check_home(conn, now_ns) : UINT64_MAX;
	return armed_ns < home_ns ? armed_ns : home_ns;
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
