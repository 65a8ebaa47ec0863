// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "path_failures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vqp_failover.h"
#include "path_select.h"
#include "path_monitor.h"
#include "proved.h"

/* ---- the list ------------------------------------------------------------------------------------------------ */

static bool has_failed(const struct mesh_conn *conn)
{
	return atomic_load_explicit(&conn->flags.path_failed, memory_order_relaxed);
}

static bool joins(const struct mesh_conn_failure *failure, const union ibv_gid *local, const union ibv_gid *remote)
{
	return mesh_directory_same_rail(&failure->gid, local) && mesh_directory_same_rail(&failure->peer_gid, remote);
}

static const struct mesh_conn_failure *find(const struct mesh_conn *conn, const union ibv_gid *local, const union ibv_gid *remote)
{
	const struct mesh_conn_failures *failures = conn->failures;
	unsigned int i;

	for (i = 0; failures && i < failures->n; i++)
		if (joins(&failures->paths[i], local, remote))
			return &failures->paths[i];
	return NULL;
}

static void add(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_failures *failures = conn->failures;
	struct mesh_conn_failure *failure;
	struct mv_path_request request;
	struct mesh_path_decision decision;

	mesh_path_now(conn, &request);
	mesh_directory_verdict(&request, &decision);
	failures->generation = decision.generation;
	if (!failures->n)
		failures->since_ns = now_ns;
	if (failures->n == MESH_PATH_FAILURES || find(conn, &request.sgid, &request.dgid))
		return;
	failure = &failures->paths[failures->n++];
	*failure = (struct mesh_conn_failure){
		.port = request.port_num, .gid_type = request.sgid_type, .gid = request.sgid, .peer_gid = request.dgid};
	snprintf(failure->device, sizeof(failure->device), "%s", request.device);
}

/* ---- what is known of the failed paths ----------------------------------------------------------------------- */

static bool port_is_down(const struct mesh_conn *conn, const struct mesh_conn_failure *failure)
{
	const struct mv_path_request request =
		mesh_path_between(conn, failure->device, failure->port, failure->gid_type, &failure->gid,
				  &failure->peer_gid);
	struct mesh_path_decision decision;

	mesh_directory_verdict(&request, &decision);
	return decision.verdict == MV_PATH_LOCAL_DOWN || decision.verdict == MV_PATH_REMOTE_DOWN;
}

/*
 * A path comes back when its port was down and is up, or when the path was silent and answers. That outage may have been the
 * failure.
 */
static bool has_come_back(const struct mesh_conn *conn, struct mesh_conn_failure *failure)
{
	enum mv_probed watched = mesh_path_monitor_find(&failure->gid, &failure->peer_gid);
	bool down = port_is_down(conn, failure);

	failure->was_down |= down;
	failure->was_silent |= watched == MV_PROBED_DOWN;
	if (down || watched == MV_PROBED_DOWN)
		return false;
	return failure->was_silent ? watched == MV_PROBED_UP : failure->was_down;
}

static void drop_those_back(struct mesh_conn *conn)
{
	struct mesh_conn_failures *failures = conn->failures;
	unsigned int i, n = 0;

	for (i = 0; i < failures->n; i++)
		if (!has_come_back(conn, &failures->paths[i]))
			failures->paths[n++] = failures->paths[i];
	failures->n = n;
}

void mesh_path_failures_update(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_failures *failures = conn->failures;
	bool failed = has_failed(conn);

	if (!failed && !(failures && failures->n))
		return;
	/* The list is allocated at the first failure: few connections ever fail. Without memory no path is barred. */
	if (!failures)
		failures = conn->failures = calloc(1, sizeof(*failures));
	if (!failures)
		return;
	/* Work got through since the listed failures, so they are over. */
	if (!(failed && failures->noted) && mesh_failover_got_through(conn->vqp))
		failures->n = 0;
	if (failed && !failures->noted)
		add(conn, now_ns);
	failures->noted = failed;
	drop_those_back(conn);
}

void mesh_path_failures_forget(struct mesh_conn *conn)
{
	if (conn->failures)
		conn->failures->noted = false;
}

/*
 * With few retries all paths may fail within a moment. So no path is barred in the first part of the time that errors are
 * withheld.
 */
bool mesh_path_failures_any(const struct mesh_conn *conn)
{
	const struct mesh_conn_failures *failures = conn->failures;
	uint64_t grace_ns = mesh_root.config.move_timeout_ms * 1000000ull / MESH_PATHLESS_PART;

	return failures && failures->n && has_failed(conn) && mesh_now_ns() - failures->since_ns >= grace_ns;
}

bool mesh_path_failures_outdated(const struct mesh_conn *conn, uint64_t generation)
{
	const struct mesh_conn_failures *failures = conn->failures;

	return failures && failures->noted && failures->generation != generation;
}

bool mesh_path_failures_has(const struct mesh_conn *conn, const union ibv_gid *local, const union ibv_gid *remote)
{
	return find(conn, local, remote);
}

bool mesh_path_failures_bar(const struct mesh_conn *conn, const union ibv_gid *local, const union ibv_gid *remote)
{
	return mesh_path_failures_any(conn) && (conn->failures->n == MESH_PATH_FAILURES || find(conn, local, remote));
}
