// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "relocate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "count.h"
#include "detect.h"
#include "live.h"
#include "paths.h"
#include "probed.h"

#define HOLD_MAX_NS (600 * 1000000000ull)
/* Until a connection that did not leave a drained NIC, or a path that is dead by probes, tries again. */
#define LEAVE_AGAIN_NS 1000000000ull
/* A path that comes is told of; but the peer may hear of it a little later. */
#define PATHLESS_AGAIN_NS 10000000ull
#define PATHLESS_PART     4 /* of move_timeout: how long a QP that has failed waits for a path */

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

static void count_moved(struct mesh_conn *conn)
{
	unsigned int reason = conn->move.reason;

	if (reason >= MV_CTL_REASON_PORT && reason < MV_CTL_REASON_END) {
		reason -= MV_CTL_REASON_PORT;
		mesh_count(MV_COUNT_MOVED_LIVE + reason);
		mesh_count_pause(MV_COUNT_LIVE_PAUSE + reason * MV_PAUSE_PLACES, mesh_now_ns() - conn->moving_ns);
	}
	conn->moving_ns = 0;
}

static void count_stayed(struct mesh_conn *conn, const struct mv_move_action *action)
{
	mesh_count(MV_COUNT_GIVEN_UP + (action->timed_out ? MV_CTL_REASON_NONE : action->reason));
	conn->moving_ns = 0;
}

static void fail(struct mesh_conn *conn, const char *why)
{
	mesh_count(MV_COUNT_SURFACED);
	conn->moving_ns = 0;
	mesh_live_surface(conn->held);
	if (conn->next_path.pd)
		mesh_pd_put(conn->next_path.pd);
	conn->next_path = (struct mesh_conn_path){0};
	conn->state = MESH_CONN_FAILED;
	log_failed(conn, why);
	mesh_conn_tell(conn);
}

/* The end that hears of it from its peer first has no reason of its own to start from. */
static void note_begin(struct mesh_conn *conn, uint64_t now_ns)
{
	conn->stayed = NULL;
	if (!conn->moving_ns)
		conn->moving_ns = now_ns;
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

/* Return: how many paths there are for a reason; the room is MV_MOVE_MAX_PATHS */
static size_t paths_for(const struct mesh_conn *conn, enum mv_ctl_reason reason, struct mv_path *ret)
{
	struct mv_path_request request;
	struct mesh_view view;
	size_t n;

	if (reason == MV_CTL_REASON_HOME)
		return way_home(conn, ret);
	request_of(conn, &request);
	mesh_view_paths(&request, &view);
	n = others(conn, &request, reason, &view);
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
		home->hold_ns = home->hold_ns < HOLD_MAX_NS / 2 ? 2 * home->hold_ns : HOLD_MAX_NS;
	else
		home->hold_ns = mesh_root.config.hold_down_ms * 1000000ull;
	home->returned_at_ns = 0;
}

static void begin(struct mesh_conn *conn, enum mv_ctl_reason reason, const struct mv_path *paths, size_t n, uint64_t now_ns)
{
	note_begin(conn, now_ns);
	if (reason != MV_CTL_REASON_HOME)
		note_flap(conn, now_ns);
	mv_move_start(&conn->move, reason, paths, n, now_ns);
}

static const char no_rail[] = "no other rail of this host reaches one of the peer's";

/*
 * Ports that flap may leave a QP that has used up its retries without any path for a moment. Its errors are not the program's yet: they
 * can wait for a while. Return: whether they still can.
 */
static bool waits_for_path(struct mesh_conn *conn, uint64_t now_ns)
{
	uint64_t limit_ns = mesh_root.config.move_timeout_ms * 1000000ull / PATHLESS_PART;

	if (!conn->pathless_ns) {
		conn->pathless_ns = now_ns;
		mv_log(&mesh_root.log, MV_LOG_INFO, "%s QP 0x%x to host %s: has failed, and there is no path; waits %u ms for one",
		       conn->mc->device, conn->qpn, conn->peer_host, (unsigned int)(limit_ns / 1000000));
	}
	return now_ns - conn->pathless_ns < limit_ns;
}

static void start(struct mesh_conn *conn, enum mv_ctl_reason reason, uint64_t now_ns)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	size_t n = paths_for(conn, reason, paths);

	if (n)
		begin(conn, reason, paths, n, now_ns);
	else if (mesh_live_broken(conn->held) && !waits_for_path(conn, now_ns))
		fail(conn, no_rail);
	else if (reason != MV_CTL_REASON_HOME)
		conn->stayed = no_rail;
}

const char *mesh_conn_bound(const struct mesh_conn *conn)
{
	const char *why;

	if (conn->state == MESH_CONN_HELD || conn->state == MESH_CONN_INIT)
		return NULL;
	if (conn->state == MESH_CONN_FAILED)
		return "it has failed";
	if (!conn->held)
		return conn->unlogged;
	why = mesh_live_lost(conn->held);
	if (!why && mesh_live_atomics(conn->held))
		why = "it uses atomics, of which a move could lose a result: it moves only when its path fails";
	return why;
}

/*
 * The fence throws away what is on its way. All of it can be had again but the result of an atomic that the peer has executed:
 * with a path that has failed it may be lost anyhow; one that works is not to be left for that.
 */
static bool would_lose(const struct mesh_conn *conn, unsigned int reason)
{
	return (reason == MV_CTL_REASON_DRAIN || reason == MV_CTL_REASON_HOME) && !mesh_live_broken(conn->held) &&
	       mesh_live_atomics(conn->held);
}

static bool may_move(const struct mesh_conn *conn)
{
	return (conn->state == MESH_CONN_NATIVE || conn->state == MESH_CONN_MOVED) && !conn->move.live &&
	       conn->rts_mask && !mesh_live_lost(conn->held);
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

	if (!way_home(conn, &path) || !is_proven(conn) || would_lose(conn, MV_CTL_REASON_HOME)) {
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

/* What the next move will need and takes long to make. */
static void spare(struct mesh_conn *conn)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	struct mesh_conn_home *home = &conn->home;
	struct mesh_view_rail place;
	struct mesh_rail *rail;
	char why[256];

	if (home->spared)
		return;
	home->spared = true;
	if (!paths_for(conn, MV_CTL_REASON_PORT, paths) || mesh_view_rail(&paths[0].local_gid, paths[0].type, &place))
		return;
	rail = mesh_rail_get(place.device, why, sizeof(why));
	if (!rail)
		return; /* it will be said when it matters */
	home->spare = mesh_pd_get(conn->mc, conn->qp->pd, rail, why, sizeof(why));
	mesh_rail_put(rail);
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

static void unwatch(struct mesh_conn *conn)
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

	if (!mesh_probed_on() || request->sgid_type == MV_GID_TYPE_IB) {
		unwatch(conn);
		return;
	}
	mesh_probed_use(&probed->home, MV_WATCH_HOME, home->away ? &home->gid : NULL, &home->peer_gid);
	mesh_probed_use(&probed->work, MV_WATCH_WORK, &request->sgid, &request->dgid);
	probed->home_answers |= mesh_probed_of(home->away ? probed->home : probed->work) != MV_PROBED_UNKNOWN;
	if (mesh_probed_wants_spares(probed->work, view->generation))
		mesh_probed_spares(probed->work, paths, paths_for(conn, MV_CTL_REASON_PATH, paths));
}

/* Nothing gets through any more, and there is a path that is better. */
static bool is_dead(const struct mesh_conn *conn)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];

	return mesh_detects(MESH_DETECT_PROBE) && mesh_probed_of(conn->probed.work) == MV_PROBED_DOWN && paths_for(conn, MV_CTL_REASON_PATH, paths) &&
	       doubt(&paths[0], NULL) < 3;
}

uint64_t mesh_conn_check(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mv_path_request request;
	struct mesh_view view;

	if (!may_move(conn)) {
		if (!conn->move.live)
			unwatch(conn);
		return UINT64_MAX;
	}
	if (atomic_load_explicit(&conn->path_failed, memory_order_relaxed)) {
		start(conn, MV_CTL_REASON_PATH, now_ns);
		return conn->pathless_ns ? now_ns + PATHLESS_AGAIN_NS : UINT64_MAX;
	}
	request_of(conn, &request);
	mesh_view_judge(&request, &view);
	watch(conn, &request, &view);
	if ((view.verdict == MV_PATH_LOCAL_DOWN || view.verdict == MV_PATH_REMOTE_DOWN) &&
	    (view.drained || mesh_detects(MESH_DETECT_CARRIER))) {
		if (!view.drained)
			start(conn, MV_CTL_REASON_PORT, now_ns);
		else if (!would_lose(conn, MV_CTL_REASON_DRAIN))
			return leave(conn, MV_CTL_REASON_DRAIN, now_ns);
		return UINT64_MAX;
	}
	if (own_port_is_down(conn))
		return leave(conn, MV_CTL_REASON_PORT, now_ns);
	if (is_dead(conn))
		return leave(conn, MV_CTL_REASON_PATH, now_ns);
	spare(conn);
	return conn->home.away ? check_home(conn, now_ns) : UINT64_MAX;
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

void mesh_conn_peer_gone(struct mesh_conn *conn)
{
	mesh_live_end_of_peer(conn->held);
}

void mesh_conn_leave(struct mesh_conn *conn)
{
	if (conn->next_path.pd)
		mesh_pd_put(conn->next_path.pd);
	if (conn->home.spare)
		mesh_pd_put(conn->home.spare);
	conn->next_path.pd = conn->home.spare = NULL;
	unwatch(conn);
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

	note_begin(conn, now_ns);
	release(conn);
	if (mesh_live_lost(conn->held) || would_lose(conn, conn->move.reason) ||
	    (!conn->move.own_wish && !mesh_detects(MESH_DETECT_PEER))) {
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

/* On the next path: perhaps that is home. */
static void arrived(struct mesh_conn *conn)
{
	struct mesh_conn_home *home = &conn->home;

	home->away = !mv_gid_equal(&conn->path.gid, &home->gid) || !mv_gid_equal(&conn->path.peer_gid, &home->peer_gid);
	home->works_since_ns = 0;
	home->returned_at_ns = home->away ? 0 : mesh_now_ns();
	if (home->spare)
		mesh_pd_put(home->spare);
	home->spare = NULL;
	home->spared = false;
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
	conn->pathless_ns = 0;
	count_moved(conn);
	arrived(conn);
	log_moved(conn);
	mesh_conn_tell(conn);
}

static void do_stay(struct mesh_conn *conn, const struct mv_move_action *action)
{
	const char *why = action->timed_out ? "the peer's process did not answer" : mv_ctl_reason_text(action->reason);

	count_stayed(conn, action);
	if (mesh_live_broken(conn->held) && (action->reason != MV_CTL_REASON_NO_PATH || !waits_for_path(conn, mesh_now_ns()))) {
		fail(conn, why);
		return;
	}
	conn->stayed = why;
	conn->stayed_ns = mesh_now_ns();
	if (conn->move.reason == MV_CTL_REASON_HOME && conn->home.hold_ns < HOLD_MAX_NS / 2)
		conn->home.hold_ns *= 2; /* what the peer does not want now it may never want */
	mv_log(&mesh_root.log, MV_LOG_INFO, "%s QP 0x%x to host %s: stays where it is: %s", conn->mc->device, conn->qpn,
	       conn->peer_host, why);
}

static void wanted(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	size_t n = paths_for(conn, action->reason, paths);

	if (mesh_live_lost(conn->held) || would_lose(conn, action->reason) || !mesh_detects(MESH_DETECT_PEER)) {
		mv_move_refuse(&conn->move, MV_CTL_REASON_UNSUPPORTED, now_ns);
	} else if (!n) {
		mv_move_refuse(&conn->move, MV_CTL_REASON_NO_PATH, now_ns);
	} else {
		begin(conn, action->reason, paths, n, now_ns);
	}
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
