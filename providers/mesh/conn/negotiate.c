// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "conn.h"
#include "count.h"
#include "live.h"
#include "native.h"
#include "parity.h"
#include "proved.h"
#include "reasons.h"
#include "relocate.h"

/*
 * What the helper thread does for a held connection: it carries out what the move wants and tells it how that went.
 * Everything here runs in that thread, or in a worker where it may take long, with conn->lock held.
 */

/* How long the helper thread waits for a connection that somebody else is at, and before it looks again. */
#define PATIENCE_NS 1000000l
/* When the agent has not read what it was told before, or has messages to carry first. */
#define TELL_AGAIN_NS 50000000ull
/* What has moved is told of and logged so long after its move: the others that move with it wait for the same threads. */
#define TELL_MOVED_NS 200000000ull
/* Where many move, one that is through is looked at so long after that. */
#define LOOK_LATER_NS 100000000ull
/* When there was no memory for what wakes a program that waits for completion events. */
#define WAKE_AGAIN_NS 250000000ull
#define LOCKED_NS     1000000ull /* to look whether somebody still posts */
#define FAIL_AGAIN_NS 10000000ull /* to look whether all is done before what has to fail */
/* How long what a port said of itself is believed. */
#define PORT_NS 50000000ull

static enum ibv_mtu mtu_of(unsigned int bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && mesh_mtu_bytes(mtu) > bytes)
		mtu--;
	return mtu;
}

/* ---- what people see ----------------------------------------------------------------------------------------- */

static void log_moved(const struct mesh_conn *conn)
{
	char to[MV_GID_STRLEN], from[MV_GID_STRLEN], peer[MV_GID_STRLEN];

	mv_log(&mesh_root.log, MV_LOG_INFO, "%s QP 0x%x to %s on host %s: %s; goes from %s (%s) to %s instead", conn->mc->device,
	       conn->qpn, mv_gid_format(&conn->peer.gid, to), conn->peer_host, mv_path_verdict_text(conn->verdict),
	       conn->path.device, mv_gid_format(&conn->path.gid, from), mv_gid_format(&conn->path.peer_gid, peer));
}

static const char *state_name(const struct mesh_conn *conn)
{
	static const char *const names[] = {[MESH_CONN_INIT] = "init",
					    [MESH_CONN_NATIVE] = "native",
					    [MESH_CONN_HELD] = "held",
					    [MESH_CONN_MOVED] = "moved",
					    [MESH_CONN_FAILED] = "failed"};

	return names[conn->state];
}

/* Where a queue pair waits for the next move. */
static const char *ahead_on(const struct mesh_conn *conn)
{
	return conn->held && conn->home.spare && mesh_live_armed(conn->held) ? conn->home.spare->rail->device : "";
}

/* What is still being connected has no work that could move, and is not said to be movable. */
static const char *movable_text(const struct mesh_conn *conn, const char *bound)
{
	bool at_work = (conn->state == MESH_CONN_NATIVE || conn->state == MESH_CONN_MOVED) && conn->rts_mask;

	if (bound)
		return ",\"movable\":false";
	return at_work ? ",\"movable\":true" : "";
}

/* For `meshverbs qps`. */
void mesh_conn_tell(struct mesh_conn *conn)
{
	char local[MV_GID_STRLEN], peer[MV_GID_STRLEN], rail[MV_GID_STRLEN], to[MV_GID_STRLEN];
	struct mv_frame frame = {.type = MV_FRAME_STATUS, .qpn = conn->qpn};
	const char *bound = mesh_conn_bound(conn), *why = bound ? bound : conn->stayed, *movable = movable_text(conn, bound);
	int len;

	memcpy(frame.device, conn->mc->device, sizeof(frame.device));
	len = snprintf((char *)frame.payload, sizeof(frame.payload),
		       "{\"state\":\"%s\",\"negotiation\":\"%s\",\"reason\":\"%s\",\"gid\":\"%s\",\"peer_gid\":\"%s\","
		       "\"peer_qpn\":%u,\"peer_host\":\"%s\",\"rail\":\"%s\",\"rail_gid\":\"%s\",\"rail_peer_gid\":\"%s\","
		       "\"ahead\":\"%s\"%s%s%s%s}",
		       state_name(conn), mv_move_state_name(conn->move.state), mv_path_verdict_name(conn->verdict),
		       mv_gid_format(&conn->local.gid, local), mv_gid_format(&conn->peer.gid, peer), conn->peer.qpn,
		       conn->peer_host, conn->path.device, mv_gid_format(&conn->path.gid, rail),
		       mv_gid_format(&conn->path.peer_gid, to), ahead_on(conn), movable, why ? ",\"why\":\"" : "",
		       why ? why : "", why ? "\"" : "");
	if (len < 0 || (size_t)len >= sizeof(frame.payload))
		return;
	frame.len = (uint16_t)len;
	conn->told = mesh_thread_frame(&frame) != -EAGAIN;
	conn->told_state = conn->state;
	conn->told_bound = bound;
	conn->told_movable = movable;
	conn->told_stayed = conn->stayed;
}

void mesh_conn_tell_later(struct mesh_conn *conn, uint64_t now_ns)
{
	/* One that moves again meanwhile is not told of later for it. */
	if (conn->told || now_ns >= conn->tell_at_ns)
		conn->tell_at_ns = now_ns + TELL_MOVED_NS;
	conn->told = false;
}

/* Return: when to come again. */
static uint64_t tell_news(struct mesh_conn *conn, uint64_t now_ns)
{
	const char *bound = mesh_conn_bound(conn);

	if (atomic_exchange_explicit(&conn->tell, false, memory_order_relaxed) || !conn->told ||
	    conn->told_state != conn->state || conn->told_stayed != conn->stayed ||
	    conn->told_bound != bound || strcmp(conn->told_movable, movable_text(conn, bound))) {
		if (now_ns < conn->tell_at_ns)
			return conn->tell_at_ns;
		mesh_conn_log_moved(conn);
		mesh_conn_tell(conn);
	}
	return conn->told ? UINT64_MAX : now_ns + TELL_AGAIN_NS;
}

/* ---- the path ------------------------------------------------------------------------------------------------ */

int mesh_conn_release_path(struct mesh_conn *conn)
{
	int err = conn->held ? mesh_held_unprepare(conn->held) : 0;

	if (err)
		return err;
	if (conn->path.pd)
		mesh_pd_put(conn->path.pd);
	conn->path.pd = NULL;
	conn->shadow_connected = false;
	conn->shadow_rts = false;
	return 0;
}

/* Hundreds that move at once ask the device once. */
static int ask_port(struct mesh_rail *rail, uint8_t port_num)
{
	uint64_t now_ns = mesh_now_ns(), old_ns = 0;
	struct ibv_port_attr port;
	int command, err;

	mesh_lock(&rail->gid_lock);
	if (rail->asked_port == port_num)
		old_ns = rail->asked_ns;
	mesh_unlock(&rail->gid_lock);
	/* What it was like once is as good as what a firmware that hangs will say. */
	if (old_ns && (now_ns < old_ns + PORT_NS || mesh_device_stuck(rail->commands)))
		return 0;
	command = mesh_command_begin(rail->commands);
	err = ibv_query_port(rail->context, port_num, &port);
	mesh_command_end(rail->commands, command);
	if (err)
		return -EIO;
	mesh_lock(&rail->gid_lock);
	rail->asked_ns = now_ns;
	rail->asked_port = port_num;
	rail->active_mtu = (uint8_t)port.active_mtu;
	rail->lid = port.lid;
	mesh_unlock(&rail->gid_lock);
	return 0;
}

int mesh_conn_path_limits(const struct mesh_conn *conn, const struct mesh_conn_path *path, uint16_t *ret_mtu_bytes,
			  uint16_t *ret_lid)
{
	struct mesh_rail *rail = path->pd->rail;
	unsigned int mtu;

	if (ask_port(rail, path->port))
		return -EIO;
	mesh_lock(&rail->gid_lock);
	mtu = mesh_mtu_bytes(rail->active_mtu);
	*ret_lid = rail->lid;
	mesh_unlock(&rail->gid_lock);
	if ((conn->rtr_mask & IBV_QP_PATH_MTU) && mesh_mtu_bytes(conn->rtr.path_mtu) < mtu)
		mtu = mesh_mtu_bytes(conn->rtr.path_mtu);
	*ret_mtu_bytes = (uint16_t)mtu;
	/* The subnet manager has not been there yet, or not again. */
	return path->gid_type == MV_GID_TYPE_IB && !mv_lid_is_unicast(*ret_lid) ? -EIO : 0;
}

/*
 * Where something is made ahead, there is all that is needed. Whether its descriptors are ours still the helper thread looks from time to
 * time: six system calls for each of hundreds that move at once would take longer than all else that they do here.
 */
static struct mesh_pd *spare_on(const struct mesh_conn *conn, const char *device)
{
	struct mesh_pd *spare = conn->home.spare;

	if (!spare || mesh_rail_lost(spare->rail) || mesh_rail_taken(spare->rail) || strcmp(spare->rail->device, device))
		return NULL;
	return mesh_pd_ref(spare);
}

static struct mesh_pd *pd_on(struct mesh_conn *conn, const char *device, char *why, size_t why_size)
{
	struct mesh_pd *pd = spare_on(conn, device);
	struct mesh_rail *rail = pd ? NULL : mesh_rail_get(device, why, why_size);

	if (rail)
		pd = mesh_pd_get(conn->mc, conn->qp->pd, rail, why, why_size);
	mesh_rail_put(rail); /* the pd has a reference */
	return pd;
}

int mesh_conn_open_path(struct mesh_conn *conn, const struct mv_move_action *action, struct mesh_conn_path *ret,
			char *why, size_t why_size)
{
	struct mesh_view_rail place;
	int err;

	err = mesh_view_rail(&action->local_gid, action->gid_type, &place);
	if (err) {
		snprintf(why, why_size, "the rail is not in the directory any more");
		return err;
	}
	/* The peer's routes lead here, as it says; ours have to lead there. */
	if (!mesh_view_may_join(&action->local_gid, &action->remote_gid)) {
		snprintf(why, why_size, "no route of this host leads there");
		return -EHOSTUNREACH;
	}
	ret->pd = pd_on(conn, place.device, why, why_size);
	if (!ret->pd)
		return -EIO;
	memcpy(ret->device, place.device, sizeof(ret->device));
	ret->port = place.port;
	ret->gid = action->local_gid;
	ret->gid_type = action->gid_type;
	ret->sq_psn = MV_CTL_PSN_NONE;
	return 0;
}

/* The shadow is to receive, and nothing else. */
static int stop_listening(struct mesh_conn *conn)
{
	int err;

	if (!conn->listens)
		return 0;
	if (!mesh_held_stop_posting(conn->held))
		return -EAGAIN;
	err = mesh_conn_listen_no_more(conn);
	mesh_held_resume_posting(conn->held);
	return err;
}

static int prepare(struct mesh_conn *conn, const struct mv_move_action *action, struct mv_ctl_end *ret_mine,
		   uint16_t *ret_lid, uint16_t *ret_mtu, char *why, size_t why_size)
{
	struct mesh_shadow_attr attr;
	int err = stop_listening(conn);

	if (err)
		return err;
	err = mesh_conn_open_path(conn, action, &conn->path, why, why_size);
	if (err)
		return err;
	err = mesh_conn_shadow_attr(conn, conn->path.pd->rail, conn->path.port, conn->path.gid_type, &attr);
	if (err) {
		snprintf(why, why_size, "%s has not the P_Key of the program's port", conn->path.device);
		return err;
	}
	err = mesh_held_prepare(conn->held, conn->path.pd, &attr, &ret_mine->qpn);
	if (!err)
		err = mesh_conn_path_limits(conn, &conn->path, ret_mtu, ret_lid);
	if (err) {
		snprintf(why, why_size, "a QP on %s", conn->path.device);
		return err;
	}
	ret_mine->gid = action->local_gid;
	mesh_thread_rail(conn->path.pd->rail);
	return 0;
}

static void do_prepare(struct mesh_conn *conn, const struct mv_move_action *action, uint64_t now_ns)
{
	struct mv_ctl_end mine = {0};
	uint16_t lid = 0, mtu = 0;
	char why[256] = "the peer has used another";
	int err = conn->path.pd ? mesh_conn_release_path(conn) : 0;

	if (!err && !mesh_conn_is_of_peer(conn, &action->remote_gid))
		err = -EPERM;
	if (!err)
		err = prepare(conn, action, &mine, &lid, &mtu, why, sizeof(why));
	if (err) {
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: no path by %s: %s: %s", conn->mc->device,
			    conn->path.device[0] ? conn->path.device : "another rail", why, strerrordesc_np(-err));
		mesh_conn_release_path(conn);
	}
	mv_move_prepared(&conn->move, err ? NULL : &mine, lid, mtu, false, now_ns);
}

int mesh_conn_shadow_rts(struct mesh_conn *conn)
{
	struct ibv_qp_attr attr = conn->rts;
	int err;

	if (conn->shadow_rts)
		return 0;
	if (conn->path.sq_psn != MV_CTL_PSN_NONE)
		attr.sq_psn = conn->path.sq_psn;
	err = mesh_held_rts(conn->held, &attr, conn->rts_mask);
	if (!err)
		conn->shadow_rts = true;
	return err;
}

const char *mesh_conn_why_not_connected(const struct mesh_conn *conn, int err)
{
	const char *poorer = mesh_parity_why(conn->held);

	return err == -EOPNOTSUPP && poorer ? poorer : strerrordesc_np(-err);
}

int mesh_conn_path_attr(const struct mesh_conn *conn, const struct mesh_conn_path *path,
			const struct mv_move_action *action, struct ibv_qp_attr *ret)
{
	*ret = conn->rtr;
	ret->dest_qp_num = action->peer.qpn;
	ret->path_mtu = mtu_of(action->mtu_bytes);
	ret->ah_attr.port_num = path->port;
	ret->ah_attr.dlid = action->peer_lid;
	ret->ah_attr.grh.dgid = action->peer.gid;
	if (path->gid_type == MV_GID_TYPE_IB) {
		int err = mesh_conn_pkey_index(conn, path->pd->rail, path->port, path->gid_type, &ret->pkey_index);

		ret->ah_attr.src_path_bits = 0; /* the peer knows the base LID */
		if (err || !ret->ah_attr.is_global)
			return err;
	}
	ret->ah_attr.is_global = 1;
	/* A program may have meant "this link only" for a path that was never used. */
	if (path->gid_type != MV_GID_TYPE_IB && ret->ah_attr.grh.hop_limit < 64)
		ret->ah_attr.grh.hop_limit = 64;
	return mesh_rail_recall_gid(path->pd->rail, path->port, &path->gid, path->gid_type, &action->peer.gid,
				    &ret->ah_attr.grh.sgid_index);
}

static void do_connect(struct mesh_conn *conn, const struct mv_move_action *action)
{
	int err = conn->path.pd ? 0 : -EINVAL;
	struct ibv_qp_attr attr;

	if (!err && !mesh_conn_is_of_peer(conn, &action->peer.gid))
		err = -EPERM;
	conn->path.peer_gid = action->peer.gid;
	if (!err)
		err = mesh_conn_path_attr(conn, &conn->path, action, &attr);
	if (!err)
		err = mesh_held_connect(conn->held, &attr, conn->rtr_mask);
	if (!err) {
		conn->shadow_connected = true;
		if (conn->rts_mask)
			err = mesh_conn_shadow_rts(conn);
	}
	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: no path by %s: it cannot be connected: %s", conn->mc->device,
			    conn->path.device, mesh_conn_why_not_connected(conn, err));
	mv_move_connected(&conn->move, !err, mesh_now_ns()); /* that may have taken long */
}

static void do_activate(struct mesh_conn *conn)
{
	mesh_held_activate(conn->held);
	conn->state = MESH_CONN_MOVED;
	mesh_conn_settled(conn);
	mesh_conn_goes(conn, conn->path.device, MV_CTL_REASON_PATH);
	mesh_count(MV_COUNT_MOVED);
	mesh_count_pause(MV_COUNT_CONNECT_PAUSE, mesh_now_ns() - conn->held_ns);
	log_moved(conn);
	mesh_conn_tell(conn);
}

/* ---- the loop ------------------------------------------------------------------------------------------------ */

/* The kernel looks for the destination's neighbour when a QP is connected. */
static bool is_slow(const struct mv_move_action *action)
{
	return action->type == MV_DO_CONNECT || action->type == MV_DO_NATIVE || action->type == MV_DO_STANDBY;
}

static bool is_in_batch(struct mesh_conn *conn)
{
	conn->in_batch = mesh_held_in_batch(conn->held);
	if (conn->in_batch)
		mesh_held_want_stop(conn->held);
	return conn->in_batch;
}

/* Who polls an extended CQ may take as long, and ask for the same. */
static bool is_polled(struct mesh_conn *conn, const struct mv_move_action *next)
{
	conn->in_batch = !mesh_conn_may_listen_on(conn, next) && mesh_held_is_polled(conn->held);
	return conn->in_batch;
}

/*
 * Is the next action for the other kind of thread? Preparing is for the helper thread alone, one after the other: how much
 * room a CQ needs depends on all of its QPs. What was agreed upon early is prepared with QUIESCE.
 */
static bool hand_over(struct mesh_conn *conn, const struct mv_move_action *next, bool worker)
{
	const union ibv_gid *to = next->type == MV_DO_NATIVE ? &conn->peer.gid : &next->peer.gid;

	if (worker)
		return next->type == MV_DO_PREPARE ||
		       (next->type == MV_DO_QUIESCE && conn->move.early && !mesh_live_has_next(conn->held));
	/* See stop_posting() and stops_listening(); a worker could only give it back. */
	if (next->type == MV_DO_NATIVE && (is_in_batch(conn) || is_polled(conn, next)))
		return true;
	/* Nothing comes of it any more, and what is behind it does not wait for a worker to find that. */
	if (next->type == MV_DO_STANDBY && conn->move.live)
		return false;
	if (next->type == MV_DO_CONNECT && conn->move.live && mesh_live_on_standby(conn->held, &next->peer))
		return false;
	return is_slow(next) && mesh_work_submit(conn, to, false);
}

/*
 * The base's QP is not connected in the middle of a batch (ibv_wr_start()). Who is in one may take his time, and ask for the state of the
 * queue pair meanwhile, which takes conn->lock: so nobody waits here, and the action is left until that is over.
 */
static bool stop_posting(struct mesh_conn *conn, const struct mv_move_action *next)
{
	if (next->type != MV_DO_NATIVE)
		return true;
	mesh_conn_release_path(conn); /* again, if it could not be done: that waits for who polls, and who polls may post */
	conn->in_batch = !mesh_held_stop_posting(conn->held);
	return !conn->in_batch;
}

/*
 * The base's QP listens with another RoCE version than that of the action, or a shadow is to receive in its place: back to INIT. Like the
 * above, that waits for who is in a batch or polls, and the action is left meanwhile.
 */
static bool stops_listening(struct mesh_conn *conn, const struct mv_move_action *next)
{
	if (mesh_conn_may_listen_on(conn, next))
		return true;
	conn->in_batch = is_polled(conn, next) || stop_listening(conn) == -EAGAIN;
	return !conn->in_batch;
}

/* A worker has found that NATIVE has to wait; see mesh_conn_native_waits(). */
static bool rests(const struct mesh_conn *conn, const struct mv_move_action *next, uint64_t now_ns)
{
	return next->type == MV_DO_NATIVE && now_ns < conn->entry_again_ns;
}

static bool awaits_entry(struct mesh_conn *conn, const struct mv_move_action *next, uint64_t now_ns)
{
	return next->type == MV_DO_NATIVE && mesh_conn_native_waits(conn, now_ns);
}

/* A command would keep this thread as long as the one that is there already. */
static bool awaits_device(struct mesh_conn *conn, const struct mv_move_action *next, struct mesh_device **ret)
{
	*ret = mesh_conn_device_for(conn, next);
	/* A path that cannot be prepared is refused, and another one is tried. */
	conn->device_again_ns = next->type != MV_DO_PREPARE && mesh_device_stuck(*ret) ? mesh_now_ns() + MESH_STUCK_AGAIN_NS : 0;
	return conn->device_again_ns;
}

/* @worker: in a worker thread, which is here for what is slow */
static void act(struct mesh_conn *conn, uint64_t now_ns, bool worker)
{
	struct mv_move_action action;
	const struct mv_move_action *next;
	struct mesh_device *device = NULL;
	struct mv_ctl_keys keys;
	bool live;
	int command;

	conn->in_batch = false;
	conn->device_again_ns = 0;
	/* Carrying one out may give a new one, and may end our part. */
	while (conn->held && (next = mv_move_peek(&conn->move)) && !rests(conn, next, now_ns) &&
	       !hand_over(conn, next, worker) && !awaits_entry(conn, next, now_ns) && !awaits_device(conn, next, &device) &&
	       stops_listening(conn, next) && stop_posting(conn, next)) {
		mv_move_next(&conn->move, &action);
		command = mesh_command_begin(device);
		live = mesh_conn_live(conn, &action, now_ns);
		mesh_command_end(device, command);
		if (live)
			continue;
		switch (action.type) {
		case MV_DO_SEND:
			mesh_conn_keys_go(conn, &action.msg, &keys);
			mesh_thread_send_later(&action.msg, &keys); /* a worker wakes the helper thread afterwards */
			break;
		case MV_DO_PREPARE:
			do_prepare(conn, &action, now_ns);
			break;
		case MV_DO_CONNECT:
			do_connect(conn, &action);
			break;
		case MV_DO_ACTIVATE:
			do_activate(conn);
			break;
		case MV_DO_NATIVE:
			mesh_conn_native(conn, &action);
			break;
		case MV_DO_RELEASE:
			mesh_conn_release_path(conn);
			break;
		default:
			break; /* of a live QP: above */
		}
	}
}

MV_LOCKS_UNCHECKED bool mesh_conn_enter(struct mesh_conn *conn)
{
	struct timespec until;

	if (atomic_load_explicit(&conn->at_work, memory_order_acquire))
		return false;
	if (mesh_trylock(&conn->lock))
		return true;
	/* The program, most likely, in the middle of a modify_qp of its own. */
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += PATIENCE_NS;
	if (until.tv_nsec >= 1000000000l) {
		until.tv_nsec -= 1000000000l;
		until.tv_sec++;
	}
	return mesh_lock_until(&conn->lock, &until);
}

static void leave(struct mesh_conn *conn) MV_RELEASES(&conn->lock);
static void leave(struct mesh_conn *conn)
{
	mesh_conn_key_peer(conn);
	mesh_unlock(&conn->lock);
}

void mesh_conn_work(struct mesh_conn *conn)
{
	mesh_lock(&conn->lock);
	if (mesh_conn_negotiates(conn))
		act(conn, mesh_now_ns(), true);
	if (mesh_conn_negotiates(conn))
		mesh_conn_try_native(conn);
	mesh_turns_note(conn, false, mesh_now_ns());
	leave(conn);
}

/* A peer that wants to move need not wait for one that is not there any more. */
static void answer_failed(struct mesh_conn *conn, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	struct mv_move_action action;

	mv_move_abort(&conn->move, now_ns);
	if (conn->move.state == MV_MOVE_FAILED)
		mv_move_message(&conn->move, msg, now_ns);
	while (mv_move_next(&conn->move, &action))
		if (action.type == MV_DO_SEND)
			mesh_thread_send(&action.msg);
}

/* It is not negotiating. conn->lock */
static void answer_native(struct mesh_conn *conn, const struct mv_ctl_msg *msg)
{
	struct mv_ctl_msg reply;

	if (conn->gone || (conn->state != MESH_CONN_NATIVE && conn->state != MESH_CONN_FAILED) ||
	    !mv_move_answer_native(&conn->local, &conn->peer, conn->local_type,
				   conn->rts_mask ? conn->rts.sq_psn & 0xffffff : mesh_conn_sq_psn(conn),
				   conn->rtr.rq_psn & 0xffffff, conn->attempt, conn->nonce, msg, &reply))
		return;
	/* Its program has ended it, which is no news of the path. */
	if (conn->state == MESH_CONN_FAILED && !conn->rtr_error)
		reply.reason = MV_CTL_REASON_GONE;
	mesh_thread_send(&reply);
}

/* It takes our own PSN, which is not known in RTR. Who stays there has to say so. conn->lock */
static void meet_unopened(struct mesh_conn *conn, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	if (mesh_conn_negotiates(conn)) {
		mv_move_unopened(&conn->move, msg, now_ns);
		act(conn, now_ns, false);
	} else if (mesh_conn_may_speak(conn->rtr_ns, now_ns)) {
		answer_native(conn, msg);
	}
}

/* conn->lock */
static void take_opened(struct mesh_conn *conn, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint64_t now_ns)
{
	if (mesh_conn_take_receives(conn, msg))
		return;
	if (conn->state == MESH_CONN_FAILED && conn->held && !conn->gone && msg->flags & MV_CTL_MOVE) {
		answer_failed(conn, msg, now_ns);
	} else if (mesh_conn_negotiates(conn)) {
		if (msg->type == MV_CTL_BYE && mv_move_is_from_peer(&conn->move, msg)) {
			mesh_conn_peer_left(conn);
			mesh_conn_peer_gone(conn);
		}
		mv_move_message(&conn->move, msg, now_ns);
		mesh_conn_keys_came(conn, msg, keys);
		act(conn, now_ns, false);
	} else {
		answer_native(conn, msg);
	}
}

/* conn->lock */
static void take_message(struct mesh_conn *conn, const struct mv_ctl_msg *sealed, const struct mv_ctl_keys *sealed_keys,
			 uint64_t now_ns)
{
	struct mv_ctl_keys keys = *sealed_keys;
	struct mv_ctl_msg msg = *sealed;
	int err = mesh_conn_open(conn, &msg, &keys, now_ns);

	if (!err)
		take_opened(conn, &msg, &keys, now_ns);
	else if (err == -ENOKEY)
		meet_unopened(conn, &msg, now_ns);
}

void mesh_conn_refuse_peer(struct mesh_conn *conn)
{
	const struct mesh_conn_refusal refusal = {.on = true,
						  .local_type = conn->local_type,
						  .local = conn->local,
						  .peer = conn->peer,
						  .rq_psn = conn->rtr.rq_psn & 0xffffff,
						  .attempt = conn->attempt,
						  .nonce = conn->nonce,
						  .rtr_ns = conn->rtr_ns};

	mesh_lock(&conn->key_lock);
	conn->refusal = refusal;
	mesh_unlock(&conn->key_lock);
}

void mesh_conn_refuse_no_more(struct mesh_conn *conn)
{
	mesh_lock(&conn->key_lock);
	conn->refusal.on = false;
	mesh_unlock(&conn->key_lock);
}

/* No conn->lock. Return: whether that is all there is to say. */
static bool refuse(struct mesh_conn *conn, const struct mv_ctl_msg *sealed, uint64_t now_ns)
{
	struct mv_ctl_msg msg = *sealed, reply;
	struct mesh_conn_refusal refusal;
	int err;

	mesh_lock(&conn->key_lock);
	refusal = conn->refusal;
	mesh_unlock(&conn->key_lock);
	if (!refusal.on)
		return false;
	err = mesh_conn_open_refused(conn, &refusal, &msg, now_ns);
	if ((!err || (err == -ENOKEY && mesh_conn_may_speak(refusal.rtr_ns, now_ns))) &&
	    mv_move_answer_native(&refusal.local, &refusal.peer, refusal.local_type, MV_CTL_PSN_NONE, refusal.rq_psn, refusal.attempt,
				  refusal.nonce, &msg, &reply))
		mesh_thread_send(&reply);
	return true;
}

/* Came while somebody else had the connection. */
static void take_late_bye(struct mesh_conn *conn, uint64_t now_ns)
{
	const struct mv_ctl_keys none = {0};
	struct mv_ctl_msg bye = conn->late_bye;

	conn->late_bye.type = 0;
	if (bye.type)
		take_message(conn, &bye, &none, now_ns);
}

/* It may be that its path works meanwhile. Return: when to look again, should it go on doing so. */
static uint64_t look_back(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns)
{
	uint64_t at = mesh_conn_native_at(conn, now_ns);

	conn->native_due = at <= silent_ns;
	if (!conn->native_due)
		return at < UINT64_MAX - now_ns ? at + (now_ns - silent_ns) : UINT64_MAX;
	if (is_in_batch(conn) || mesh_work_submit(conn, &conn->peer.gid, true))
		return UINT64_MAX; /* who comes from a worker is queued again */
	/* It may take seconds, and this thread has others to look after. */
	conn->native_due = false;
	mv_move_tried(&conn->move, false, now_ns);
	return mv_move_native_at(&conn->move);
}

uint64_t mesh_conn_run(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns)
{
	uint64_t deadline = UINT64_MAX, keys, tell, fence, move, again, back, await;
	bool ticked;

	if (!mesh_conn_enter(conn)) {
		/* One that comes from a worker is queued again then. */
		return atomic_load_explicit(&conn->at_work, memory_order_acquire) ? UINT64_MAX : now_ns + PATIENCE_NS;
	}
	take_late_bye(conn, now_ns);
	if (mesh_conn_negotiates(conn) && atomic_load_explicit(&conn->refused, memory_order_relaxed))
		mv_move_unreachable(&conn->move, now_ns);
	if (mesh_conn_negotiates(conn)) {
		if (atomic_exchange_explicit(&conn->work_waits, false, memory_order_relaxed))
			mv_move_work_waits(&conn->move, now_ns);
		ticked = mv_move_deadline(&conn->move) <= silent_ns;
		if (ticked) {
			mv_move_tick(&conn->move, now_ns);
			act(conn, now_ns, false);
		}
		/* One move is over before the next begins; who comes from a worker is queued again. */
		if (mesh_conn_negotiates(conn) && !(ticked && mv_move_peek(&conn->move)))
			deadline = mesh_conn_check(conn, now_ns, silent_ns);
		mesh_conn_fence(conn, now_ns);
		act(conn, now_ns, false);
	}
	if (mesh_conn_negotiates(conn)) {
		back = look_back(conn, now_ns, silent_ns);
		if (back < deadline)
			deadline = back;
	}
	if (mesh_conn_negotiates(conn)) {
		await = mesh_conn_await_peer(conn, now_ns);
		if (await < deadline)
			deadline = await;
	}
	if (mesh_conn_negotiates(conn)) {
		move = mv_move_deadline(&conn->move);
		if (move < UINT64_MAX - now_ns)
			move += now_ns - silent_ns;
		if (move < deadline)
			deadline = move;
		fence = mesh_conn_fence_at(conn);
		if (fence < deadline)
			deadline = fence;
		/* What has just begun may have come to nothing already. */
		again = mesh_conn_again_at(conn, now_ns);
		if (again < deadline)
			deadline = again;
		keys = mesh_conn_run_keys(conn, now_ns);
		if (keys < deadline)
			deadline = keys;
	}
	if (conn->state == MESH_CONN_FAILED)
		mesh_conn_unwatch(conn);
	if (!conn->gone && conn->held && !mesh_live_wake(conn->held) && deadline > now_ns + WAKE_AGAIN_NS)
		deadline = now_ns + WAKE_AGAIN_NS;
	if (!conn->gone && conn->held && mesh_live_waits(conn->held) && deadline > now_ns + LOCKED_NS)
		deadline = now_ns + LOCKED_NS;
	if (!conn->gone && conn->held && deadline > now_ns + FAIL_AGAIN_NS && mesh_live_waits_to_fail(conn->held))
		deadline = now_ns + FAIL_AGAIN_NS;
	if (mesh_conn_negotiates(conn) && conn->in_batch && deadline > now_ns + LOCKED_NS)
		deadline = now_ns + LOCKED_NS;
	if (mesh_conn_negotiates(conn) && conn->entry_again_ns > now_ns && deadline > conn->entry_again_ns)
		deadline = conn->entry_again_ns;
	if (mesh_conn_negotiates(conn) && conn->device_again_ns && deadline > conn->device_again_ns)
		deadline = conn->device_again_ns;
	tell = conn->gone ? UINT64_MAX : tell_news(conn, now_ns);
	if (tell < deadline)
		deadline = tell;
	mesh_turns_note(conn, true, now_ns);
	leave(conn);
	return deadline;
}

/* It has moved, or has not, and there is nothing that it would have to do soon. */
static bool is_through(struct mesh_conn *conn)
{
	return (conn->state == MESH_CONN_NATIVE || conn->state == MESH_CONN_MOVED) && !conn->stayed && !conn->pathless_ns &&
	       !mesh_live_broken(conn->held) && !mesh_conn_asks(conn);
}

/*
 * Where many move, most have nothing to do after a message but to wait for the next one, or are through: whether there is a way home, and
 * what the next move needs, can be looked at when the others are, too.
 */
static uint64_t look_after_message(struct mesh_conn *conn, uint64_t now_ns, uint64_t late_ns)
{
	uint64_t at_ns;

	if (!mesh_many_move() || !mesh_conn_negotiates(conn) || conn->fencing || mv_move_peek(&conn->move) || mesh_live_lost(conn->held))
		return now_ns;
	if (!conn->move.live)
		return is_through(conn) ? now_ns + LOOK_LATER_NS : now_ns;
	at_ns = mv_move_deadline(&conn->move);
	return conn->move.state == MV_MOVE_QUIESCING || at_ns >= UINT64_MAX - late_ns ? now_ns : at_ns + late_ns;
}

uint64_t mesh_conn_message(struct mesh_conn *conn, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint64_t now_ns,
			   uint64_t silent_ns)
{
	uint64_t at;

	if (refuse(conn, msg, now_ns))
		return UINT64_MAX;
	if (!mesh_conn_enter(conn)) {
		/* The peer repeats all but its last one. The connection is queued again when whoever has it is through. */
		if (msg->type == MV_CTL_BYE)
			conn->late_bye = *msg;
		return now_ns;
	}
	take_message(conn, msg, keys, now_ns);
	mesh_turns_note(conn, false, now_ns);
	at = look_after_message(conn, now_ns, now_ns - silent_ns);
	leave(conn);
	return at;
}

void mesh_conn_unreachable(struct mesh_conn *conn, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	if (!mesh_conn_enter(conn))
		return;
	if (mesh_conn_negotiates(conn) && conn->state == MESH_CONN_HELD && msg->attempt == conn->attempt) {
		/* On a busy host an agent may be late; it is gone when its beacons are. */
		if (mesh_view_alive(&conn->peer.gid))
			mv_move_undelivered(&conn->move);
		else
			mv_move_unreachable(&conn->move, now_ns);
		act(conn, now_ns, false);
	}
	mesh_turns_note(conn, false, now_ns);
	leave(conn);
}
