// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "prearm.h"

#include <errno.h>
#include <string.h>

#include "connpath.h"
#include "count.h"
#include "keyahead.h"
#include "live.h"
#include "memlock.h"
#include "move_live.h"
#include "parity.h"
#include "proved.h"
#include "reasons.h"
#include "ways.h"

/* Of one turn of the helper thread: others wait for it. */
#define TURN_NS 1000000ull
/* From one to the next of those that have to wait; the first waits for that, too. */
#define EACH_NS 1000000ull
/* The longest that anybody waits so: many that were given a time may be gone since. */
#define LAST_NS 10000000000ull
/*
 * Since anything moved in this process: others may be waiting for that thread and for the NIC. And what has moved is told of before: making
 * something may wait, for the kernel's rtnl lock for one.
 */
#define AFTER_NS 250000000ull
/* The peer may not have got so far yet, or not understand it. */
#define MAX_TOLD      4
#define TELL_AGAIN_NS 250000000ull /* four times as long each time */
/*
 * A neighbour who does not answer keeps a worker, and the connection that it works for, for seconds. So when one could not be connected
 * ahead, no others are for a while.
 */
#define STANDBY_AGAIN_NS 60000000000ull
/*
 * A NIC that was reset is back in a moment, or in a minute; a container may not be given it back; and one may be lost again and again. So the
 * process, not each of its connections, tries after the first of these, and then twice as much later each time.
 */
#define RENEW_NS     1000000000ull
#define STUCK_NS     100000000ull
#define RENEW_MAX_NS 64000000000ull

static bool is_shortage(int err)
{
	return err == -ENOMEM || err == -EAGAIN;
}

/* ---- connected ahead ----------------------------------------------------------------------------------------- */

static bool may_stand_by(uint64_t now_ns)
{
	return now_ns >= atomic_load_explicit(&mesh_root.process->standby_at_ns, memory_order_relaxed);
}

static void tell_peer(struct mesh_conn *conn, bool ready)
{
	const struct mesh_conn_spare *ahead = &conn->home.ahead;
	const struct mv_ctl_end mine = {.gid = ahead->gid, .qpn = mesh_live_armed(conn->held)};

	mv_move_ahead(&conn->move, &mine, &ahead->peer_gid, ahead->gid_type, ahead->lid, ahead->mtu_bytes, ready);
}

/* Until ours is connected: by the answer. Return: when to come again. */
static uint64_t tell_of_ours(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_spare *ahead = &conn->home.ahead;

	if (!conn->held || !mesh_live_armed(conn->held) || !conn->rts_mask || ahead->n_told == MAX_TOLD || !may_stand_by(now_ns))
		return UINT64_MAX;
	if (now_ns < ahead->tell_ns)
		return ahead->tell_ns;
	ahead->tell_ns = now_ns + (TELL_AGAIN_NS << (2 * ahead->n_told));
	ahead->n_told++;
	tell_peer(conn, false);
	return ahead->tell_ns;
}

static void connect_ahead(struct mesh_conn *conn, struct mv_move_action *action)
{
	struct mesh_conn_spare *ahead = &conn->home.ahead;
	const struct mesh_conn_path path = {.pd = conn->home.spare, .port = ahead->port, .gid = ahead->gid, .gid_type = ahead->gid_type};
	struct ibv_qp_attr rtr, rts = conn->rts;
	int err;

	if (ahead->mtu_bytes && (!action->mtu_bytes || ahead->mtu_bytes < action->mtu_bytes))
		action->mtu_bytes = ahead->mtu_bytes;
	err = mesh_conn_path_attr(conn, &path, action, &rtr);
	rtr.rq_psn = action->rq_psn;
	rts.sq_psn = action->sq_psn;
	if (!err)
		err = mesh_live_standby(conn->held, &rtr, conn->rtr_mask, &rts, conn->rts_mask);
	if (err) {
		atomic_store_explicit(&mesh_root.process->standby_at_ns, mesh_now_ns() + STANDBY_AGAIN_NS, memory_order_relaxed);
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x: not connected ahead on %s: %s", conn->mc->device, conn->qpn,
		       path.pd->rail->device, mesh_conn_why_not_connected(conn, err));
		mesh_parity_forget(conn->held); /* a move tries again, and looks at other paths */
		return;
	}
	mesh_count(MV_COUNT_AHEAD_CONNECTED);
	ahead->n_told = MAX_TOLD;
	if (action->answer)
		tell_peer(conn, true);
}

void mesh_conn_stands_by_again(struct mesh_conn *conn, uint64_t now_ns)
{
	if (!conn->move.leader)
		return;
	conn->home.ahead.n_told = 0;
	conn->home.ahead.tell_ns = now_ns + TELL_AGAIN_NS;
}

void mesh_conn_standby(struct mesh_conn *conn, const struct mv_move_action *action)
{
	const struct mesh_conn_spare *ahead = &conn->home.ahead;
	struct mv_move_action ours = *action;

	if (conn->move.live || !conn->rts_mask || !conn->home.spare || mesh_rail_lost(conn->home.spare->rail) ||
	    !mesh_live_armed(conn->held) || !may_stand_by(mesh_now_ns()) || !mesh_conn_is_of_peer(conn, &action->peer.gid) ||
	    mesh_conn_unproved(conn) ||
	    action->gid_type != ahead->gid_type || !mv_gid_equal(&action->local_gid, &ahead->gid))
		return;
	connect_ahead(conn, &ours);
}

/* ---- made ahead ---------------------------------------------------------------------------------------------- */

/* Return: 0, also when there is none; -errno of what cannot be made. */
static int arm_qp(struct mesh_conn *conn, uint8_t port, uint8_t gid_type)
{
	struct mesh_shadow_attr attr;
	int err;

	/* Nor will it be there when the connection is to move. */
	if (mesh_conn_shadow_attr(conn, conn->home.spare->rail, port, gid_type, &attr))
		return 0;
	err = mesh_live_arm(conn->held, conn->home.spare, &attr);
	if (!err) {
		mesh_count(MV_COUNT_AHEAD_QP);
		conn->told = false;
	}
	return err == -EOPNOTSUPP || err == -EBUSY ? 0 : err;
}

/* What the peer is to be told of it. */
static void note_path(struct mesh_conn *conn, const struct mesh_view_rail *place, const struct mv_path *path)
{
	struct mesh_conn_path end = {.pd = conn->home.spare, .port = place->port, .gid_type = path->type};
	struct mesh_conn_spare *ahead = &conn->home.ahead;

	*ahead = (struct mesh_conn_spare){
		.gid = path->local_gid, .peer_gid = path->remote_gid, .port = place->port, .gid_type = path->type};
	if (mesh_conn_path_limits(conn, &end, &ahead->mtu_bytes, &ahead->lid))
		ahead->n_told = MAX_TOLD; /* nothing that could be used */
}

static void arm(struct mesh_conn *conn, const struct mesh_view_rail *place, const struct mv_path *path)
{
	int err;

	if (!mesh_root.config.prearm)
		return;
	/* Whatever the program makes later, in whatever thread, has to find the room that it would have without us. */
	if (mesh_memlock_bounded()) {
		mv_log_once(&mesh_root.log, MV_LOG_INFO,
			    "nothing is made ahead of moves, which take longer so: the limit of locked memory (RLIMIT_MEMLOCK), "
			    "against which it would count, is not unlimited");
		return;
	}
	mesh_keys_ahead(conn->home.spare);
	err = arm_qp(conn, place->port, path->type);
	if (!err) {
		note_path(conn, place, path);
		return;
	}
	mesh_count(MV_COUNT_AHEAD_FAILED);
	if (is_shortage(err))
		mesh_keys_ahead_give_back();
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "a queue pair cannot be made on %s ahead: %s; it will be when a connection moves there, which takes longer",
		    place->device, strerrordesc_np(-err));
}

/* Return: false when there is no other path now. */
static bool find_next(const struct mesh_conn *conn, struct mesh_view_rail *ret, struct mv_path *ret_path)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];

	if (!mesh_conn_paths_for(conn, MV_CTL_REASON_PORT, paths) || mesh_view_rail(&paths[0].local_gid, paths[0].type, ret))
		return false;
	*ret_path = paths[0];
	return true;
}

/* ---- after a reset ------------------------------------------------------------------------------------------- */

void mesh_conn_rail_lost(uint64_t now_ns)
{
	mesh_root.process->renew_at_ns = now_ns + RENEW_NS;
	mesh_root.process->renew_step_ns = 2 * RENEW_NS;
}

static void drop_lost(struct mesh_conn *conn)
{
	if (!conn->home.spare || !mesh_rail_lost(conn->home.spare->rail))
		return;
	mesh_conn_disarm(conn);
	conn->home.renews = true;
	conn->told = false;
}

/* It could not be had. Of a NIC that was not lost that will be said when it matters. Return: when to come again */
static uint64_t renew_later(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_process *process = mesh_root.process;

	if (!conn->home.renews)
		return UINT64_MAX;
	conn->home.spared = false;
	process->renew_at_ns = now_ns + process->renew_step_ns;
	if (process->renew_step_ns < RENEW_MAX_NS)
		process->renew_step_ns *= 2;
	return process->renew_at_ns;
}

/*
 * Hundreds want one at once, when they have been connected or have moved. Each is given a time of its own: whoever comes in vain has had its
 * paths looked at first. Return: when to come again; 0: now is the time.
 */
static uint64_t turn_of(struct mesh_conn_home *home, uint64_t now_ns)
{
	struct mesh_process *process = mesh_root.process;
	uint64_t first_ns = atomic_load_explicit(&process->moving_ns, memory_order_relaxed) + AFTER_NS;

	if (now_ns < home->turn_ns)
		return home->turn_ns;
	if (now_ns >= first_ns && mesh_now_ns() <= now_ns + TURN_NS)
		return 0;
	if (first_ns < now_ns)
		first_ns = now_ns;
	if (process->turn_ns < first_ns || process->turn_ns > first_ns + LAST_NS)
		process->turn_ns = first_ns;
	process->turn_ns += EACH_NS;
	home->turn_ns = process->turn_ns;
	return home->turn_ns;
}

/* Before anything can fail: of one in ERR nobody can ask. */
static void learn_order(struct mesh_conn *conn)
{
	struct mesh_device *device;
	int command;

	if (!conn->held || !conn->rts_mask || !mesh_parity_may_learn(conn->held))
		return;
	device = mesh_device_get(conn->mc->device);
	if (mesh_device_behind(device))
		return;
	command = mesh_command_begin(device);
	mesh_parity_learn(conn->held);
	mesh_command_end(device, command);
}

/* ---- the whole of it ----------------------------------------------------------------------------------------- */

uint64_t mesh_conn_prearm(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_home *home = &conn->home;
	struct mesh_view_rail place;
	struct mesh_rail *rail;
	struct mv_path path;
	uint64_t turn_ns;
	char why[256];
	int command;

	learn_order(conn);
	drop_lost(conn);
	if (home->spared)
		return tell_of_ours(conn, now_ns);
	if (home->renews && now_ns < mesh_root.process->renew_at_ns)
		return mesh_root.process->renew_at_ns;
	turn_ns = turn_of(home, now_ns);
	if (turn_ns)
		return turn_ns;
	mesh_conn_reap(conn);
	if (!find_next(conn, &place, &path))
		return UINT64_MAX;
	/* With the connection's lock, so one of its connections waits for a firmware that hangs, and no more. */
	if (mesh_device_behind(mesh_device_get(place.device)))
		return now_ns + STUCK_NS;
	home->spared = true;
	rail = mesh_rail_get(place.device, why, sizeof(why));
	home->spare = rail ? mesh_pd_get(conn->mc, conn->qp->pd, rail, why, sizeof(why)) : NULL;
	mesh_rail_put(rail);
	if (!home->spare)
		return renew_later(conn, now_ns);
	home->renews = false;
	mesh_thread_rail(home->spare->rail); /* so that we hear when it is lost */
	command = mesh_command_begin(home->spare->rail->commands);
	arm(conn, &place, &path);
	mesh_command_end(home->spare->rail->commands, command);
	return tell_of_ours(conn, now_ns);
}

void mesh_conn_disarm(struct mesh_conn *conn)
{
	struct mesh_conn_home *home = &conn->home;

	if (conn->held)
		mesh_live_disarm(conn->held);
	if (home->spare)
		mesh_pd_put(home->spare);
	home->spare = NULL;
	home->spared = false;
}

void mesh_conn_reap(struct mesh_conn *conn)
{
	if (conn->held)
		mesh_live_reap(conn->held);
	if (conn->home.old_pd)
		mesh_pd_put(conn->home.old_pd);
	conn->home.old_pd = NULL;
}
