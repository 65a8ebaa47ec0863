// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "ways.h"

#include <string.h>

#include "detect.h"
#include "path_failures.h"
#include "ports.h"
#include "probed.h"
#include "proved.h"
#include "unqualified.h"

void mesh_way_now(const struct mesh_conn *conn, struct mv_path_request *ret)
{
	bool moved = conn->state == MESH_CONN_MOVED;

	*ret = (struct mv_path_request){.device = moved ? conn->path.device : conn->mc->device,
					.port_num = moved ? conn->path.port : conn->rtr.ah_attr.port_num,
					.sgid = moved ? conn->path.gid : conn->local.gid,
					.sgid_type = moved ? conn->path.gid_type : conn->local_type,
					.dgid = moved ? conn->path.peer_gid : conn->peer.gid,
					.routed = 1,
					.own_host = conn->own_host,
					.made = 1,
					.host = mesh_conn_peer_host(conn)};
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

/* Which of its two ends is to blame that @left does not work is not known. */
unsigned int mesh_way_doubt(const struct mv_path *path, const struct mv_path *left)
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
		d = mesh_way_doubt(&path, left);
		for (at = i; at && doubts[at - 1] > d; at--) {
			paths[at] = paths[at - 1];
			doubts[at] = doubts[at - 1];
		}
		paths[at] = path;
		doubts[at] = d;
	}
}

bool mesh_conn_port_is_down(const struct mesh_conn *conn)
{
	struct mesh_rail *rail = conn->state == MESH_CONN_MOVED && conn->path.pd ? conn->path.pd->rail : NULL;

	if (rail)
		return mesh_port_is_down(&rail->ports_down, rail->context, conn->path.port);
	return conn->state == MESH_CONN_NATIVE &&
	       mesh_port_is_down(&conn->mc->ports_down, conn->qp->context, conn->rtr.ah_attr.port_num);
}

size_t mesh_ways_from(const char *device, const struct mv_path *paths, size_t n)
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
	i = mesh_ways_from(device, paths, n);
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
	bool from_elsewhere = reason == MV_CTL_REASON_PORT && mesh_conn_port_is_down(conn);
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
					.own_host = conn->own_host,
					.made = 1,
					.host = mesh_conn_peer_host(conn)};
}

size_t mesh_way_home(const struct mesh_conn *conn, struct mv_path *ret)
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

static size_t drop_barred(const struct mesh_conn *conn, struct mv_path *paths, size_t n_paths)
{
	size_t i, n = 0;

	for (i = 0; i < n_paths; i++)
		if (!mesh_path_failures_bar(conn, &paths[i].local_gid, &paths[i].remote_gid) &&
		    mesh_conn_may_go_by(conn, &paths[i].local_gid, paths[i].type))
			paths[n++] = paths[i];
	return n;
}

size_t mesh_conn_paths_for(const struct mesh_conn *conn, enum mv_ctl_reason reason, struct mv_path *ret)
{
	struct mv_path_request request;
	struct mesh_view view;
	size_t n;

	if (mesh_conn_unproved(conn) || mesh_conn_unqualified(conn))
		return 0;
	if (reason == MV_CTL_REASON_HOME)
		return mesh_way_home(conn, ret) && mesh_conn_may_go_by(conn, &conn->home.gid, (uint8_t)conn->home.gid_type);
	mesh_way_now(conn, &request);
	mesh_view_paths(&request, &view);
	n = drop_barred(conn, view.paths, others(conn, &request, reason, &view));
	prefer_led(conn, view.paths, n);
	memcpy(ret, view.paths, n * sizeof(*ret));
	return n;
}

bool mesh_conn_is_among_best(const struct mesh_conn_path *chosen, const struct mv_path *paths, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (mv_gid_equal(&paths[i].local_gid, &chosen->gid) && mv_gid_equal(&paths[i].remote_gid, &chosen->peer_gid))
			return mesh_way_doubt(&paths[i], NULL) <= mesh_way_doubt(&paths[0], NULL);
	return false;
}
