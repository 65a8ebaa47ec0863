// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "arm.h"

#include <errno.h>
#include <string.h>

#include "connpath.h"
#include "count.h"
#include "failover_policy.h"
#include "vqp_failover.h"
#include "memlock.h"
#include "move_failover.h"
#include "mr_prereg.h"
#include "parity.h"
#include "path_select.h"
#include "proved.h"

/* Longest time in one turn of the helper thread. Other connections wait for the helper thread. */
#define TURN_NS 1000000ull
/* Interval between the turns of connections that wait to be armed. The first of them waits for one interval, too. */
#define EACH_NS 1000000ull
/* Longest delay of such a turn. The list of turns may have grown by connections that are gone since. */
#define LAST_NS 10000000000ull
/*
 * Nothing is armed for this long after any move in this process: other moves may need the helper thread and the NIC. Making
 * objects may block, for example on the kernel's rtnl lock, so the log tells of the moves first.
 */
#define AFTER_NS 250000000ull
/* How often the peer is told of the standby. The peer may not have got so far yet, or may not know the message. */
#define MAX_TOLD      4
#define TELL_AGAIN_NS 250000000ull /* times 4 after each message */
/*
 * Pause in which no standby is connected, after one could not be. A neighbour that does not answer ARP or ND blocks a worker, and
 * the connection that the worker has locked, for seconds.
 */
#define STANDBY_AGAIN_NS 60000000000ull
/*
 * When the process, not each connection, looks for a lost NIC: first after RENEW_NS, then at doubling intervals up to
 * RENEW_MAX_NS. A NIC that was reset is back within moments or a minute. A container may not get the NIC back. A NIC may be lost
 * repeatedly.
 */
#define RENEW_NS     1000000000ull
#define STUCK_NS     100000000ull
#define RENEW_MAX_NS 64000000000ull

static bool is_shortage(int err)
{
	return err == -ENOMEM || err == -EAGAIN;
}

/* ---- connect the standby ------------------------------------------------------------------------------------- */

static bool may_stand_by(uint64_t now_ns)
{
	return now_ns >= atomic_load_explicit(&mesh_root.process->standby.at_ns, memory_order_relaxed);
}

static void tell_peer(struct mesh_conn *conn, bool ready)
{
	const struct mesh_standby_path *standby = &conn->primary.standby;
	const struct mv_ctl_end mine = {.gid = standby->gid, .qpn = mesh_failover_armed(conn->vqp)};

	mv_move_tell_standby(&conn->move, &mine, &standby->peer_gid, standby->gid_type, standby->lid,
			     standby->mtu_bytes, ready);
}

/* Tell the peer of our standby, up to MAX_TOLD times, until the peer's answer has ours connected. Return: when to come again. */
static uint64_t tell_of_ours(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_standby_path *standby = &conn->primary.standby;

	if (!conn->vqp || !mesh_failover_armed(conn->vqp) || !conn->attr.rts_mask || standby->n_told == MAX_TOLD ||
	    !may_stand_by(now_ns))
		return UINT64_MAX;
	if (now_ns < standby->tell_ns)
		return standby->tell_ns;
	standby->tell_ns = now_ns + (TELL_AGAIN_NS << (2 * standby->n_told));
	standby->n_told++;
	tell_peer(conn, false);
	return standby->tell_ns;
}

static void connect_standby(struct mesh_conn *conn, struct mv_move_action *action)
{
	struct mesh_standby_path *standby = &conn->primary.standby;
	struct mesh_conn_path path = {
		.pd = conn->primary.standby_pd, .port = standby->port, .gid = standby->gid, .gid_type = standby->gid_type};
	int err;

	if (standby->mtu_bytes && (!action->mtu_bytes || standby->mtu_bytes < action->mtu_bytes))
		action->mtu_bytes = standby->mtu_bytes;
	err = mesh_conn_connect_path(conn, &path, action);
	if (err) {
		atomic_store_explicit(&mesh_root.process->standby.at_ns, mesh_now_ns() + STANDBY_AGAIN_NS, memory_order_relaxed);
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x: not connected in advance on %s: %s", conn->mc->device,
		       conn->qpn, path.pd->rail->device, mesh_conn_why_not_connected(conn, err));
		mesh_parity_forget(conn->vqp); /* a move tries again, and looks at other paths, too */
		return;
	}
	mesh_count(MV_COUNT_ARMED_CONNECTED);
	standby->n_told = MAX_TOLD;
	if (action->answer)
		tell_peer(conn, true);
}

void mesh_conn_stands_by_again(struct mesh_conn *conn, uint64_t now_ns)
{
	if (!conn->move.leader)
		return;
	conn->primary.standby.n_told = 0;
	conn->primary.standby.tell_ns = now_ns + TELL_AGAIN_NS;
}

void mesh_conn_standby(struct mesh_conn *conn, const struct mv_move_action *action)
{
	const struct mesh_standby_path *standby = &conn->primary.standby;
	struct mv_move_action ours = *action;

	if (conn->move.failover || !conn->attr.rts_mask || !conn->primary.standby_pd ||
	    mesh_rail_lost(conn->primary.standby_pd->rail) || !mesh_failover_armed(conn->vqp) ||
	    !may_stand_by(mesh_now_ns()) || !mesh_conn_is_of_peer(conn, &action->peer.gid) ||
	    mesh_conn_unproved(conn) || action->gid_type != standby->gid_type ||
	    !mv_gid_equal(&action->local_gid, &standby->gid))
		return;
	connect_standby(conn, &ours);
}

/* ---- make the standby ---------------------------------------------------------------------------------------- */

/* Return: 0, also if no standby is possible; -errno if one is possible, and could not be made. */
static int arm_qp(struct mesh_conn *conn, uint8_t port, uint8_t gid_type)
{
	struct mesh_shadow_attr attr;
	int err;

	/* The rail lacks the program's P_Key, and will lack it in a move, too. */
	if (mesh_conn_shadow_attr(conn, conn->primary.standby_pd->rail, port, gid_type, &attr))
		return 0;
	err = mesh_failover_arm(conn->vqp, conn->primary.standby_pd, &attr);
	if (!err) {
		mesh_count(MV_COUNT_ARMED_QP);
		conn->status.told = false;
	}
	return err == -EOPNOTSUPP || err == -EBUSY ? 0 : err;
}

/* Note the standby's path, of which the peer is to be told. */
static void note_path(struct mesh_conn *conn, const struct mesh_directory_rail *place, const struct mv_path *path)
{
	struct mesh_conn_path end = {.pd = conn->primary.standby_pd, .port = place->port, .gid_type = path->type};
	struct mesh_standby_path *standby = &conn->primary.standby;

	*standby = (struct mesh_standby_path){
		.gid = path->local_gid, .peer_gid = path->remote_gid, .port = place->port, .gid_type = path->type};
	if (mesh_conn_path_limits(conn, &end, &standby->mtu_bytes, &standby->lid))
		standby->n_told = MAX_TOLD; /* the standby's path is of no use: do not tell the peer */
}

static void arm(struct mesh_conn *conn, const struct mesh_directory_rail *place, const struct mv_path *path)
{
	int err;

	if (!mesh_root.config.arm)
		return;
	/* Objects of the plugin must not use up RLIMIT_MEMLOCK: the program would fail to register memory later. */
	if (mesh_memlock_bounded()) {
		mv_log_once(
			&mesh_root.log, MV_LOG_INFO,
			"nothing is made in advance of moves, which take longer so: the limit of locked memory (RLIMIT_MEMLOCK), "
			"against which it would count, is not unlimited");
		return;
	}
	mesh_mr_prereg(conn->primary.standby_pd);
	err = arm_qp(conn, place->port, path->type);
	if (!err) {
		note_path(conn, place, path);
		return;
	}
	mesh_count(MV_COUNT_ARM_FAILED);
	if (is_shortage(err))
		mesh_mr_prereg_give_back();
	mv_log_once(
		&mesh_root.log, MV_LOG_WARN,
		"a queue pair cannot be made on %s in advance: %s; it will be when a connection moves there, which takes longer",
		place->device, strerrordesc_np(-err));
}

/* Find the path of the next move. Return: false if there is no other path now. */
static bool find_next(const struct mesh_conn *conn, struct mesh_directory_rail *ret, struct mv_path *ret_path)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];

	if (!mesh_conn_paths_for(conn, MV_CTL_REASON_PORT, paths) ||
	    mesh_directory_rail(&paths[0].local_gid, paths[0].type, ret))
		return false;
	*ret_path = paths[0];
	return true;
}

/* ---- after a reset ------------------------------------------------------------------------------------------- */

void mesh_conn_rail_lost(uint64_t now_ns)
{
	mesh_root.process->standby.renew_at_ns = now_ns + RENEW_NS;
	mesh_root.process->standby.renew_step_ns = 2 * RENEW_NS;
}

static void drop_lost(struct mesh_conn *conn)
{
	if (!conn->primary.standby_pd || !mesh_rail_lost(conn->primary.standby_pd->rail))
		return;
	mesh_conn_disarm(conn);
	conn->primary.renews = true;
	conn->status.told = false;
}

/*
 * No protection domain could be had on the rail. Only for a lost NIC there is a next try: otherwise the move itself reports the
 * problem. Return: when to come again.
 */
static uint64_t renew_later(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_process *process = mesh_root.process;

	if (!conn->primary.renews)
		return UINT64_MAX;
	conn->primary.standby_tried = false;
	process->standby.renew_at_ns = now_ns + process->standby.renew_step_ns;
	if (process->standby.renew_step_ns < RENEW_MAX_NS)
		process->standby.renew_step_ns *= 2;
	return process->standby.renew_at_ns;
}

/*
 * Turns of connections that want to be armed. Hundreds may want that at once, after they were connected or moved. Each connection
 * gets a time of its own, because its paths are looked up at each call, even in vain.
 *
 * Return: when to come again; 0: now.
 */
static uint64_t turn_of(struct mesh_conn_primary *primary, uint64_t now_ns)
{
	struct mesh_process *process = mesh_root.process;
	uint64_t first_ns = atomic_load_explicit(&process->moves.last_ns, memory_order_relaxed) + AFTER_NS;

	if (now_ns < primary->turn_ns)
		return primary->turn_ns;
	if (now_ns >= first_ns && mesh_now_ns() <= now_ns + TURN_NS)
		return 0;
	if (first_ns < now_ns)
		first_ns = now_ns;
	if (process->standby.turn_ns < first_ns || process->standby.turn_ns > first_ns + LAST_NS)
		process->standby.turn_ns = first_ns;
	process->standby.turn_ns += EACH_NS;
	primary->turn_ns = process->standby.turn_ns;
	return primary->turn_ns;
}

/* Learn how the NIC orders completions (parity.h) before anything fails: a QP in ERR cannot be asked any more. */
static void learn_order(struct mesh_conn *conn)
{
	struct mesh_device *device;
	int command;

	if (!conn->vqp || !conn->attr.rts_mask || !mesh_parity_may_learn(conn->vqp))
		return;
	device = mesh_device_get(conn->mc->device);
	if (mesh_device_behind(device))
		return;
	command = mesh_command_begin(device);
	mesh_parity_learn(conn->vqp);
	mesh_command_end(device, command);
}

/* ---- arm ----------------------------------------------------------------------------------------------------- */

uint64_t mesh_conn_arm(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_primary *primary = &conn->primary;
	struct mesh_directory_rail place;
	struct mesh_rail *rail;
	struct mv_path path;
	uint64_t turn_ns;
	char why[256];
	int command;

	learn_order(conn);
	drop_lost(conn);
	if (primary->standby_tried)
		return tell_of_ours(conn, now_ns);
	if (primary->renews && now_ns < mesh_root.process->standby.renew_at_ns)
		return mesh_root.process->standby.renew_at_ns;
	turn_ns = turn_of(primary, now_ns);
	if (turn_ns)
		return turn_ns;
	mesh_conn_reap(conn);
	if (!find_next(conn, &place, &path))
		return UINT64_MAX;
	/* Firmware that hangs would block this call with conn->lock held. At most one connection waits for such a NIC. */
	if (mesh_device_behind(mesh_device_get(place.device)))
		return now_ns + STUCK_NS;
	primary->standby_tried = true;
	rail = mesh_rail_get(place.device, why, sizeof(why));
	primary->standby_pd = rail ? mesh_pd_get(conn->mc, conn->qp->pd, rail, why, sizeof(why)) : NULL;
	mesh_rail_put(rail);
	if (!primary->standby_pd)
		return renew_later(conn, now_ns);
	primary->renews = false;
	mesh_thread_rail(primary->standby_pd->rail); /* so that the helper thread gets the event when the NIC is lost */
	command = mesh_command_begin(primary->standby_pd->rail->commands);
	arm(conn, &place, &path);
	mesh_command_end(primary->standby_pd->rail->commands, command);
	return tell_of_ours(conn, now_ns);
}

void mesh_conn_disarm(struct mesh_conn *conn)
{
	struct mesh_conn_primary *primary = &conn->primary;

	if (conn->vqp)
		mesh_failover_disarm(conn->vqp);
	if (primary->standby_pd)
		mesh_pd_put(primary->standby_pd);
	primary->standby_pd = NULL;
	primary->standby_tried = false;
}

void mesh_conn_reap(struct mesh_conn *conn)
{
	if (conn->vqp)
		mesh_failover_reap(conn->vqp);
	if (conn->primary.old_pd)
		mesh_pd_put(conn->primary.old_pd);
	conn->primary.old_pd = NULL;
}
