// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "path_select.h"

#include <string.h>

#include "detect.h"
#include "path_failures.h"
#include "ports.h"
#include "path_monitor.h"
#include "proved.h"
#include "unqualified.h"

/*
 * The connections between two GIDs stay together, so that one NIC brings all that one peer writes: nothing orders the
 * writes of two NICs in memory. Two kinds of connections all take the first of the rails that are equally good:
 * - Those of an SRQ: else the receives of the SRQ would have to be divided among the rails.
 * - Those of a process with a self-connected queue pair (NCCL's flush): that queue pair can follow to one NIC only.
 */
static uint64_t spread_of(const struct mesh_conn *conn)
{
	const union ibv_gid *ours = &conn->ends.local.gid, *theirs = &conn->ends.peer.gid;

	if (conn->qp->srq || atomic_load_explicit(&mesh_root.process->conns.followed, memory_order_relaxed))
		return 0;
	return (ours->global.subnet_prefix ^ ours->global.interface_id) + (theirs->global.subnet_prefix ^ theirs->global.interface_id);
}

struct mv_path_request mesh_path_between(const struct mesh_conn *conn, const char *device, uint8_t port,
					 uint8_t gid_type, const union ibv_gid *gid, const union ibv_gid *peer_gid)
{
	return (struct mv_path_request){.device = device,
					.port_num = port,
					.sgid = *gid,
					.sgid_type = gid_type,
					.dgid = *peer_gid,
					.routed = 1,
					.own_host = conn->ends.own_host,
					.made = 1,
					.spread = spread_of(conn),
					.host = mesh_conn_peer_host(conn)};
}

void mesh_path_asked(const struct mesh_conn *conn, struct mv_path_request *ret)
{
	*ret = mesh_path_between(conn, conn->mc->device, conn->attr.rtr.ah_attr.port_num, conn->ends.local_type, &conn->ends.local.gid,
				 &conn->ends.peer.gid);
}

void mesh_path_now(const struct mesh_conn *conn, struct mv_path_request *ret)
{
	const struct mesh_conn_path *path = &conn->path;

	if (conn->state == MESH_CONN_MOVED)
		*ret = mesh_path_between(conn, path->device, path->port, path->gid_type, &path->gid, &path->peer_gid);
	else
		mesh_path_asked(conn, ret);
}

/* Index of the path that the work uses; decision->n_paths if the decision lacks that path. */
static size_t current(const struct mv_path_request *request, const struct mesh_path_decision *decision)
{
	size_t i;

	for (i = 0; i < decision->n_paths; i++)
		if (mv_gid_equal(&decision->paths[i].local_gid, &request->sgid) &&
		    mv_gid_equal(&decision->paths[i].remote_gid, &request->dgid))
			break;
	return i;
}

/* Which end of @left is broken is not known, so a path that shares either end with @left is trusted less. */
unsigned int mesh_path_doubt(const struct mv_path *path, const struct mv_path *left)
{
	switch (mesh_path_monitor_find(&path->local_gid, &path->remote_gid)) {
	case MV_PROBED_UP:
		return 0;
	case MV_PROBED_UNKNOWN:
		return left && (path->local_rail == left->local_rail || path->remote_rail == left->remote_rail) ? 2 : 1;
	default:
		return MESH_PATH_SILENT;
	}
}

/* Sort by mesh_path_doubt(), stable. */
static void sort(struct mv_path *paths, size_t n, const struct mv_path *left)
{
	unsigned int doubts[MV_MOVE_MAX_PATHS], d;
	struct mv_path path;
	size_t i, at;

	for (i = 0; i < n; i++) {
		path = paths[i];
		d = mesh_path_doubt(&path, left);
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
	return conn->state == MESH_CONN_PASSTHROUGH &&
	       mesh_port_is_down(&conn->mc->ports_down, conn->qp->context, conn->attr.rtr.ah_attr.port_num);
}

size_t mesh_paths_from(const char *device, const struct mv_path *paths, size_t n)
{
	struct mesh_directory_rail place;
	size_t i;

	for (i = 0; i < n; i++)
		if (!mesh_directory_rail(&paths[i].local_gid, paths[i].type, &place) && !strcmp(place.device, device))
			break;
	return i;
}

/* A self-connected QP follows another connection: the path from that connection's rail comes first. */
static void prefer_led(const struct mesh_conn *conn, struct mv_path *paths, size_t n)
{
	char device[IBV_SYSFS_NAME_MAX];
	enum mv_ctl_reason why;
	struct mv_path path;
	size_t i;

	if (!conn->ends.self || !mesh_conn_led(conn, device, &why))
		return;
	i = mesh_paths_from(device, paths, n);
	if (i == n)
		return;
	path = paths[i];
	memmove(&paths[1], &paths[0], i * sizeof(path));
	paths[0] = path;
}

/* Keep the paths that avoid the current pair of ports: other GIDs of the same ports are as dead. */
static size_t others(const struct mesh_conn *conn, const struct mv_path_request *request, enum mv_ctl_reason reason,
		     struct mesh_path_decision *decision)
{
	size_t i, n = 0, now = current(request, decision);
	bool from_elsewhere = reason == MV_CTL_REASON_PORT && mesh_conn_port_is_down(conn);
	struct mv_path path;

	if (now == decision->n_paths) {
		sort(decision->paths, decision->n_paths, NULL);
		return decision->n_paths;
	}
	path = decision->paths[now];
	for (i = 0; i < decision->n_paths; i++)
		if (decision->paths[i].local_rail != path.local_rail ||
		    (decision->paths[i].remote_rail != path.remote_rail && !from_elsewhere))
			decision->paths[n++] = decision->paths[i];
	sort(decision->paths, n, reason == MV_CTL_REASON_PATH ? &path : NULL);
	return n;
}

size_t mesh_path_primary(const struct mesh_conn *conn, struct mv_path *ret, uint64_t *ret_generation)
{
	const struct mesh_conn_primary *primary = &conn->primary;
	const struct mv_path_request request = mesh_path_between(conn, primary->device, primary->port,
								 primary->gid_type, &primary->gid, &primary->peer_gid);
	struct mesh_path_decision decision;
	size_t i;

	/*
	 * Cheap check first: each connection that is off its primary path asks after each change of the directory, mostly in
	 * vain.
	 */
	mesh_directory_verdict(&request, &decision);
	if (ret_generation)
		*ret_generation = decision.generation;
	if (decision.verdict != MV_PATH_WORKS)
		return 0;
	mesh_directory_paths(&request, &decision);
	for (i = 0; i < decision.n_paths; i++) {
		if (mv_gid_equal(&decision.paths[i].local_gid, &primary->gid) &&
		    decision.paths[i].type == primary->gid_type &&
		    mv_gid_equal(&decision.paths[i].remote_gid, &primary->peer_gid)) {
			*ret = decision.paths[i];
			return decision.verdict == MV_PATH_WORKS;
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
	struct mesh_path_decision decision;
	size_t n;

	if (mesh_conn_unproved(conn) || mesh_conn_unqualified(conn))
		return 0;
	if (reason == MV_CTL_REASON_PRIMARY)
		return mesh_path_primary(conn, ret, NULL) &&
		       mesh_conn_may_go_by(conn, &conn->primary.gid, (uint8_t)conn->primary.gid_type);
	mesh_path_now(conn, &request);
	mesh_directory_paths(&request, &decision);
	n = drop_barred(conn, decision.paths, others(conn, &request, reason, &decision));
	prefer_led(conn, decision.paths, n);
	memcpy(ret, decision.paths, n * sizeof(*ret));
	return n;
}

size_t mesh_conn_path_again(const struct mesh_conn *conn, bool peer_asks, struct mv_path *ret)
{
	struct mv_path_request request;
	struct mesh_path_decision decision;
	size_t now;

	if (mesh_conn_unproved(conn) || mesh_conn_unqualified(conn))
		return 0;
	mesh_path_now(conn, &request);
	mesh_directory_paths(&request, &decision);
	now = current(&request, &decision);
	if (now == decision.n_paths || !(peer_asks || mesh_path_failures_outdated(conn, decision.generation)))
		return 0;
	*ret = decision.paths[now];
	return mesh_path_doubt(ret, NULL) < MESH_PATH_SILENT ? drop_barred(conn, ret, 1) : 0;
}

bool mesh_conn_is_among_best(const struct mesh_conn_path *chosen, const struct mv_path *paths, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (mv_gid_equal(&paths[i].local_gid, &chosen->gid) && mv_gid_equal(&paths[i].remote_gid, &chosen->peer_gid))
			return mesh_path_doubt(&paths[i], NULL) <= mesh_path_doubt(&paths[0], NULL);
	return false;
}
