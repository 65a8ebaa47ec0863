// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "relocate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "live.h"
#include "paths.h"

/* ---- the log ------------------------------------------------------------------------------------------------- */

void mesh_conn_guard(struct mesh_conn *conn, uint32_t mtu_bytes)
{
	if (mesh_live_guard(conn->mc, conn->qp, &mesh_conn_held_ops, conn, mtu_bytes, &conn->held))
		conn->held = NULL;
}

/* ---- what people see ----------------------------------------------------------------------------------------- */

static void log_moved(const struct mesh_conn *conn)
{
	char from[MV_GID_STRLEN], to[MV_GID_STRLEN];

	mv_log(&mesh_root.log, MV_LOG_WARN, "%s QP 0x%x to host %s: %s; moved to %s (%s) to %s", conn->mc->device, conn->qpn,
	       conn->peer_host, mv_ctl_reason_text(conn->move.reason), conn->path.device, mv_gid_format(&conn->path.gid, from),
	       mv_gid_format(&conn->path.peer_gid, to));
}

static void log_failed(const struct mesh_conn *conn, const char *why)
{
	mv_log(&mesh_root.log, MV_LOG_ERR, "%s QP 0x%x to host %s: not moved: %s; the program gets its errors", conn->mc->device,
	       conn->qpn, conn->peer_host, why);
}

static void fail(struct mesh_conn *conn, const char *why)
{
	mesh_live_surface(conn->held);
	if (conn->next_path.pd)
		mesh_pd_put(conn->next_path.pd);
	conn->next_path = (struct mesh_conn_path){0};
	conn->state = MESH_CONN_FAILED;
	log_failed(conn, why);
	mesh_conn_tell(conn);
}

/* ---- reasons ------------------------------------------------------------------------------------------------- */

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

/* All paths but the one that it is on. */
static size_t others(const struct mv_path_request *request, struct mesh_view *view)
{
	size_t i, n = 0;

	for (i = 0; i < view->n_paths; i++)
		if (!mv_gid_equal(&view->paths[i].local_gid, &request->sgid) ||
		    !mv_gid_equal(&view->paths[i].remote_gid, &request->dgid))
			view->paths[n++] = view->paths[i];
	return n;
}

static void start(struct mesh_conn *conn, enum mv_ctl_reason reason, uint64_t now_ns)
{
	struct mv_path_request request;
	struct mesh_view view;
	size_t n;

	request_of(conn, &request);
	mesh_view_paths(&request, &view);
	n = others(&request, &view);
	if (n)
		mv_move_start(&conn->move, reason, view.paths, n, now_ns);
	else if (mesh_live_broken(conn->held))
		fail(conn, "no other rail of this host reaches one of the peer's");
}

static bool may_move(const struct mesh_conn *conn)
{
	return (conn->state == MESH_CONN_NATIVE || conn->state == MESH_CONN_MOVED) && !conn->move.live &&
	       conn->rts_mask && !mesh_live_lost(conn->held);
}

void mesh_conn_check(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mv_path_request request;
	struct mesh_view view;

	if (!may_move(conn))
		return;
	if (atomic_load_explicit(&conn->path_failed, memory_order_relaxed)) {
		start(conn, MV_CTL_REASON_PATH, now_ns);
		return;
	}
	request_of(conn, &request);
	mesh_view_judge(&request, &view);
	if (view.verdict == MV_PATH_LOCAL_DOWN || view.verdict == MV_PATH_REMOTE_DOWN)
		start(conn, MV_CTL_REASON_PORT, now_ns);
}

/* ---- carrying out -------------------------------------------------------------------------------------------- */

static void release(struct mesh_conn *conn)
{
	mesh_live_release(conn->held);
	if (conn->next_path.pd)
		mesh_pd_put(conn->next_path.pd);
	conn->next_path = (struct mesh_conn_path){0};
}

static int prepare(struct mesh_conn *conn, const struct mv_move_action *action, struct mv_ctl_end *ret_mine,
		   uint16_t *ret_lid, uint16_t *ret_mtu, char *why, size_t why_size)
{
	struct mesh_shadow_attr attr = {.pkey_index = conn->init.pkey_index,
					.qp_access_flags = conn->init.qp_access_flags};
	int err = mesh_conn_open_path(conn, action, &conn->next_path, why, why_size);

	if (err)
		return err;
	attr.port_num = conn->next_path.port;
	snprintf(why, why_size, "a QP on %s", conn->next_path.device);
	err = mesh_live_prepare(conn->held, conn->next_path.pd, &attr, &ret_mine->qpn);
	if (!err)
		err = mesh_conn_path_limits(conn, &conn->next_path, ret_mtu, ret_lid);
	if (err)
		return err;
	ret_mine->gid = action->local_gid;
	mesh_thread_rail(conn->next_path.pd->rail);
	return 0;
}

static void do_prepare(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	struct mv_ctl_end mine = {0};
	uint16_t lid = 0, mtu = 0;
	char why[256] = "";
	int err;

	release(conn);
	if (mesh_live_lost(conn->held)) {
		mv_move_refuse(&conn->move, MV_CTL_REASON_UNSUPPORTED, now_ns);
		return;
	}
	err = prepare(conn, action, &mine, &lid, &mtu, why, sizeof(why));
	if (err) {
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: no path by %s: %s: %s", conn->mc->device,
			    conn->next_path.device[0] ? conn->next_path.device : "another rail", why, strerrordesc_np(-err));
		release(conn);
	}
	mv_move_prepared(&conn->move, err ? NULL : &mine, lid, mtu, false, now_ns);
}

static void do_connect(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	struct ibv_qp_attr rtr, rts = conn->rts;
	int err;

	conn->next_path.peer_gid = action->peer.gid;
	err = mesh_conn_path_attr(conn, &conn->next_path, action, &rtr);
	rtr.rq_psn = action->rq_psn;
	rts.sq_psn = conn->next_path.sq_psn = action->sq_psn;
	if (!err)
		err = mesh_live_connect(conn->held, &rtr, conn->rtr_mask, &rts, conn->rts_mask);
	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: no path by %s: it cannot be connected: %s", conn->mc->device,
			    conn->next_path.device, strerrordesc_np(-err));
	mv_move_connected(&conn->move, !err, now_ns);
}

static void do_fence(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mv_move_sync sync = {0};
	int err = mesh_live_fence(conn->held, &sync);

	conn->fenced = true;
	mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x: fenced: next PSN 0x%x, %u received", conn->mc->device, conn->qpn,
	       sync.next_psn, sync.n_received);
	if (err)
		mv_log(&mesh_root.log, MV_LOG_ERR, "%s QP 0x%x: what it has executed cannot be found out: %s", conn->mc->device,
		       conn->qpn, err == -EOPNOTSUPP ? mesh_live_lost(conn->held) : strerrordesc_np(-err));
	mv_move_fenced(&conn->move, err ? NULL : &sync, now_ns);
}

static void do_replay(struct mesh_conn *conn, const struct mv_move_action *action)
{
	int err;

	mesh_conn_free_keys(conn); /* questions of the old path; replay asks its own */
	err = mesh_live_replay(conn->held, action->next_psn, action->n_received, conn->rts.max_rd_atomic);
	conn->fenced = false;
	mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x: the peer is at PSN 0x%x and has received %u", conn->mc->device,
	       conn->qpn, action->next_psn, action->n_received);
	if (err) {
		fail(conn, err == -ENODATA ? "the result of an atomic is lost" : strerrordesc_np(-err));
		return;
	}
	if (conn->path.pd)
		mesh_pd_put(conn->path.pd);
	conn->path = conn->next_path;
	conn->next_path = (struct mesh_conn_path){0};
	conn->shadow_connected = true;
	conn->shadow_rts = conn->rts_mask;
	conn->state = MESH_CONN_MOVED;
	atomic_store_explicit(&conn->path_failed, false, memory_order_relaxed);
	log_moved(conn);
	mesh_conn_tell(conn);
}

static void do_stay(struct mesh_conn *conn, const struct mv_move_action *action)
{
	if (mesh_live_broken(conn->held))
		fail(conn, action->timed_out ? "the peer's process did not answer" : mv_ctl_reason_text(action->reason));
	else
		mv_log(&mesh_root.log, MV_LOG_INFO, "%s QP 0x%x to host %s: stays where it is: %s", conn->mc->device, conn->qpn,
		       conn->peer_host, action->timed_out ? "the peer's process did not answer" : mv_ctl_reason_text(action->reason));
}

static void wanted(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	struct mv_path_request request;
	struct mesh_view view;
	size_t n;

	request_of(conn, &request);
	mesh_view_paths(&request, &view);
	n = others(&request, &view);
	if (mesh_live_lost(conn->held))
		mv_move_refuse(&conn->move, MV_CTL_REASON_UNSUPPORTED, now_ns);
	else if (!n)
		mv_move_refuse(&conn->move, MV_CTL_REASON_NO_PATH, now_ns);
	else
		mv_move_start(&conn->move, action->reason, view.paths, n, now_ns);
}

bool mesh_conn_live(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	switch (action->type) {
	case MV_DO_PREPARE:
		if (!conn->move.live)
			return false;
		do_prepare(conn, action, now_ns);
		return true;
	case MV_DO_CONNECT:
		if (!conn->move.live)
			return false;
		do_connect(conn, action, now_ns);
		return true;
	case MV_DO_RELEASE:
		if (conn->state == MESH_CONN_HELD)
			return false;
		release(conn);
		return true;
	case MV_DO_ACTIVATE:
		if (!action->replay)
			return false;
		do_replay(conn, action);
		return true;
	case MV_DO_FENCE:
		do_fence(conn, now_ns);
		return true;
	case MV_DO_STAY:
		do_stay(conn, action);
		return true;
	case MV_DO_SURFACE:
		fail(conn, action->timed_out ? "the peer's process did not answer" : mv_ctl_reason_text(action->reason));
		return true;
	case MV_DO_WANTED:
		wanted(conn, action, now_ns);
		return true;
	default:
		return false;
	}
}

struct mesh_pd *mesh_conn_key_pd(const struct mesh_conn *conn)
{
	/* A peer that has our word that the old path is fenced may be on the next one already. */
	return conn->fenced ? conn->next_path.pd : conn->path.pd;
}
