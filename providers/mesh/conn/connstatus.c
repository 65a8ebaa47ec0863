// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "connstatus.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vqp_failover.h"
#include "proved.h"
#include "unqualified.h"

/* Pause after a frame for which the socket to the agent had no room. */
#define TELL_AGAIN_NS 50000000ull
/* Delay of report and log of a move: other connections that move at the same time need the same threads. */
#define TELL_MOVED_NS 200000000ull

const char *mesh_conn_bound(const struct mesh_conn *conn)
{
	if (conn->state == MESH_CONN_HELD || conn->state == MESH_CONN_INIT)
		return NULL;
	if (conn->state == MESH_CONN_FAILED)
		return "it has failed";
	if (!conn->vqp)
		return conn->attempt.unlogged;
	if (atomic_load_explicit(&conn->flags.refused, memory_order_relaxed))
		return "the agent refuses to register it";
	if (mesh_failover_lost(conn->vqp))
		return mesh_failover_lost(conn->vqp);
	return mesh_conn_unproved(conn) ? mesh_conn_unproved(conn) : mesh_conn_unqualified(conn);
}

/* Logged late: hundreds of connections move at once, and a log line takes half as long as a move. */
void mesh_conn_log_moved(struct mesh_conn *conn)
{
	char from[MV_GID_STRLEN], to[MV_GID_STRLEN];

	if (!conn->status.untold_move)
		return;
	mv_log(&mesh_root.log, MV_LOG_WARN, "%s QP 0x%x to host %s: %s; moved to %s (%s) to %s", conn->mc->device, conn->qpn,
	       conn->ends.peer_host, mv_ctl_reason_text(conn->status.untold_move), conn->path.device,
	       mv_gid_format(&conn->path.gid, from), mv_gid_format(&conn->path.peer_gid, to));
	conn->status.untold_move = MV_CTL_REASON_NONE;
}

static const char *state_name(const struct mesh_conn *conn)
{
	static const char *const names[] = {[MESH_CONN_INIT] = "init",
					    [MESH_CONN_PASSTHROUGH] = "passthrough",
					    [MESH_CONN_HELD] = "held",
					    [MESH_CONN_MOVED] = "moved",
					    [MESH_CONN_FAILED] = "failed"};

	return names[conn->state];
}

/* Device of the standby; "": none. */
static const char *standby_on(const struct mesh_conn *conn)
{
	return conn->vqp && conn->primary.standby_pd && mesh_failover_armed(conn->vqp)
		       ? conn->primary.standby_pd->rail->device
		       : "";
}

/* A connection that is not at work yet is not reported as movable. */
static const char *movable_text(const struct mesh_conn *conn, const char *bound)
{
	bool at_work = (conn->state == MESH_CONN_PASSTHROUGH || conn->state == MESH_CONN_MOVED) && conn->attr.rts_mask;

	if (bound)
		return ",\"movable\":false";
	return at_work ? ",\"movable\":true" : "";
}

/* @why_max: characters of @why that are shown. Return: as snprintf(). */
static int put_status(const struct mesh_conn *conn, const char *movable, const char *why, int why_max, struct mv_frame *frame)
{
	char local[MV_GID_STRLEN], peer[MV_GID_STRLEN], rail[MV_GID_STRLEN], to[MV_GID_STRLEN];

	return snprintf(
		(char *)frame->payload, sizeof(frame->payload),
		"{\"state\":\"%s\",\"negotiation\":\"%s\",\"reason\":\"%s\",\"gid\":\"%s\",\"peer_gid\":\"%s\","
		"\"peer_qpn\":%u,\"peer_host\":\"%s\",\"rail\":\"%s\",\"rail_gid\":\"%s\",\"rail_peer_gid\":\"%s\","
		"\"standby\":\"%s\"%s%s%.*s%s}",
		state_name(conn), mv_move_state_name(conn->move.state), mv_path_verdict_name(conn->own_qp.verdict),
		mv_gid_format(&conn->ends.local.gid, local), mv_gid_format(&conn->ends.peer.gid, peer),
		conn->ends.peer.qpn, conn->ends.peer_host, conn->path.device, mv_gid_format(&conn->path.gid, rail),
		mv_gid_format(&conn->path.peer_gid, to), standby_on(conn), movable, why ? ",\"why\":\"" : "",
		why_max, why ? why : "", why ? "\"" : "");
}

void mesh_conn_tell(struct mesh_conn *conn)
{
	struct mv_frame frame = {.type = MV_FRAME_STATUS, .qpn = conn->qpn};
	const char *bound = mesh_conn_bound(conn), *why = bound ? bound : conn->retry.stayed,
		   *movable = movable_text(conn, bound);
	int why_max = why ? (int)strlen(why) : 0, len = put_status(conn, movable, why, why_max, &frame),
	    n_beyond = len - (int)sizeof(frame.payload) + 1;

	memcpy(frame.device, conn->mc->device, sizeof(frame.device));
	if (n_beyond > 0)
		len = put_status(conn, movable, why, why_max > n_beyond ? why_max - n_beyond : 0, &frame);
	frame.len = (uint16_t)len;
	/* With device names of some 40 characters, the status does not fit without @why either. It would not fit the next time. */
	conn->status.told = (size_t)len >= sizeof(frame.payload) || mesh_thread_frame(&frame) != -EAGAIN;
	conn->status.state = conn->state;
	conn->status.bound = bound;
	conn->status.movable = movable;
	conn->status.stayed = conn->retry.stayed;
}

void mesh_conn_tell_later(struct mesh_conn *conn, uint64_t now_ns)
{
	/* A further move does not postpone the report. */
	if (conn->status.told || now_ns >= conn->status.tell_at_ns)
		conn->status.tell_at_ns = now_ns + TELL_MOVED_NS;
	conn->status.told = false;
}

uint64_t mesh_conn_tell_changes(struct mesh_conn *conn, uint64_t now_ns)
{
	const char *bound = mesh_conn_bound(conn);

	if (atomic_exchange_explicit(&conn->flags.tell, false, memory_order_relaxed) || !conn->status.told ||
	    conn->status.state != conn->state || conn->status.stayed != conn->retry.stayed ||
	    conn->status.bound != bound || strcmp(conn->status.movable, movable_text(conn, bound))) {
		if (now_ns < conn->status.tell_at_ns)
			return conn->status.tell_at_ns;
		mesh_conn_log_moved(conn);
		mesh_conn_tell(conn);
	}
	return conn->status.told ? UINT64_MAX : now_ns + TELL_AGAIN_NS;
}
