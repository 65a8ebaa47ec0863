// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tracked_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>

#include "connpath.h"

static void path_failed(void *arg)
{
	(void)arg;
}

const struct mesh_vqp_ops tracked_ops = {.path_failed = path_failed};
const struct mesh_shadow_attr shadow_attr = {.port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

void tracked_rtr(struct end *e, const struct mesh_vqp_ops *ops, struct ibv_qp_attr attr, struct mesh_vqp **ret)
{
	assert_int_equal(mesh_failover_track(e->world->mc, e->qp, ops, NULL, TRACKED_MTU, ret), 0);
	assert_int_equal(mesh_vqp_modify_lower(*ret, &attr, RTR_MASK), 0);
	e->qp->state = IBV_QPS_RTR;
}

void tracked_rts(struct end *e, struct mesh_vqp *h, struct ibv_qp_attr attr)
{
	assert_int_equal(mesh_failover_lower_rts(h, &attr, RTS_MASK), 0);
	e->qp->state = IBV_QPS_RTS;
}

uint32_t tracked_prepare(struct mesh_vqp *h)
{
	uint32_t qpn;

	assert_int_equal(mesh_failover_prepare(h, world.spd, &shadow_attr, &qpn), 0);
	return qpn;
}

void tracked_prepare_loop(struct mesh_vqp *h, uint32_t psn)
{
	struct ibv_qp_attr rtr = world_rtr(&world, true, tracked_prepare(h), psn), rts = world_rts(psn);

	assert_int_equal(mesh_failover_connect(h, &rtr, RTR_MASK, &rts, RTS_MASK), 0);
}

void tracked_connect_next(struct mesh_vqp *h, const struct ibv_qp_attr *program_rtr, struct ibv_qp_attr rts, uint32_t peer_qpn)
{
	const struct mesh_conn conn = {.mc = world.mc, .qp = h->qp, .attr.rtr = *program_rtr, .attr.rtr_mask = RTR_MASK};
	const struct mesh_conn_path path = {.pd = world.spd, .port = 1, .gid = world.rail_gid, .gid_type = MV_GID_TYPE_ROCE_V2};
	const struct mv_move_action action = {.peer = {.gid = world.rail_gid, .qpn = peer_qpn}, .mtu_bytes = 512};
	struct ibv_qp_attr rtr;

	assert_int_equal(mesh_conn_path_attr(&conn, &path, &action, &rtr), 0);
	assert_int_equal(mesh_failover_connect(h, &rtr, RTR_MASK, &rts, RTS_MASK), 0);
}

int tracked_drain_ends(struct mesh_vqp *h, bool first, struct mv_move_sync *sync)
{
	int err = mesh_failover_drain(h, first, sync);
	unsigned int ms;

	for (ms = 0; err == -EAGAIN && ms < PATIENCE_MS; ms++) {
		usleep(1000);
		err = mesh_failover_drain(h, false, sync);
	}
	return err;
}

void tracked_drain(struct mesh_vqp *h, bool first, struct mv_move_sync *sync)
{
	assert_int_equal(tracked_drain_ends(h, first, sync), 0);
}

struct mesh_conn *as_connection(struct end *e, struct mesh_vqp *h, enum mesh_conn_state state)
{
	struct mesh_conn *conn = mesh_conn_new(world.mc, e->qp);

	assert_non_null(conn);
	conn->vqp = h;
	conn->state = state;
	return conn;
}

void end_connection(struct mesh_conn *conn)
{
	conn->vqp = NULL;
	mesh_conn_unlink(conn);
	mesh_conn_put(conn);
}
