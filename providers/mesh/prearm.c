// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "prearm.h"

#include <errno.h>
#include <string.h>

#include "count.h"
#include "keyahead.h"
#include "live.h"
#include "reasons.h"

/* Of one turn of the helper thread: others wait for it. */
#define TURN_NS  1000000ull
#define AGAIN_NS 5000000ull
/* Since anything moved in this process: others may be waiting for that thread and for the NIC. */
#define AFTER_NS 100000000ull

static bool is_shortage(int err)
{
	return err == -ENOMEM || err == -EAGAIN;
}

/* Return: 0, also when there is none; -errno of what cannot be made. */
static int arm_qp(struct mesh_conn *conn, uint8_t port)
{
	struct mesh_shadow_attr attr = {.port_num = port,
					.pkey_index = conn->init.pkey_index,
					.qp_access_flags = conn->init.qp_access_flags};
	int err = mesh_live_arm(conn->held, conn->home.spare, &attr);

	if (!err) {
		mesh_count(MV_COUNT_AHEAD_QP);
		conn->told = false;
	}
	return err == -EOPNOTSUPP || err == -EBUSY ? 0 : err;
}

static void arm(struct mesh_conn *conn, const struct mesh_view_rail *place)
{
	int err;

	if (!mesh_root.config.prearm)
		return;
	mesh_keys_ahead(conn->home.spare);
	err = arm_qp(conn, place->port);
	if (!err)
		return;
	mesh_count(MV_COUNT_AHEAD_FAILED);
	if (is_shortage(err))
		mesh_keys_ahead_give_back();
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "a queue pair cannot be made on %s ahead: %s; it will be when a connection moves there, which takes longer",
		    place->device, strerrordesc_np(-err));
}

/* Return: false when there is no other path now. */
static bool find_next(const struct mesh_conn *conn, struct mesh_view_rail *ret)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];

	return mesh_conn_paths_for(conn, MV_CTL_REASON_PORT, paths) && !mesh_view_rail(&paths[0].local_gid, paths[0].type, ret);
}

uint64_t mesh_conn_prearm(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mesh_conn_home *home = &conn->home;
	struct mesh_view_rail place;
	struct mesh_rail *rail;
	uint64_t moved_ns;
	char why[256];

	if (home->spared)
		return UINT64_MAX;
	moved_ns = atomic_load_explicit(&mesh_root.process->moving_ns, memory_order_relaxed);
	if (now_ns < moved_ns + AFTER_NS)
		return moved_ns + AFTER_NS;
	if (mesh_now_ns() > now_ns + TURN_NS)
		return now_ns + AGAIN_NS;
	mesh_conn_reap(conn);
	if (!find_next(conn, &place))
		return UINT64_MAX;
	home->spared = true;
	rail = mesh_rail_get(place.device, why, sizeof(why));
	if (!rail)
		return UINT64_MAX; /* it will be said when it matters */
	home->spare = mesh_pd_get(conn->mc, conn->qp->pd, rail, why, sizeof(why));
	mesh_rail_put(rail);
	if (home->spare)
		arm(conn, &place);
	return UINT64_MAX;
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
