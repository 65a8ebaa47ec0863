// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the transaction wants is carried out for a connection that is held, and for one at work:
 * which objects the path of each has, and that each is given back once. In a host of the simulator
 * with two NICs.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "connect.h"
#include "failover_exec.h"
#include "negotiateint.h"
#include "rails.h"
#include "rkey_exchange.h"
#include "survive.h"
#include "tracked_fixture.h"
#include "vqp_int.h"

#define PSN      0x77u
#define PATH_PSN 0x1234u

static const struct manner noted = {.how = MOVED};

static struct end e;
static struct mesh_conn *conn;
static unsigned int n_refs; /* of the PD on the other NIC, before any path */

/* There are neither an agent nor a helper thread here. */
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
void __wrap_mesh_thread_send_later(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys);
int __wrap_mesh_thread_wake(bool urgent);
void __wrap_mesh_thread_rail(struct mesh_rail *rail);
int __wrap_mesh_directory_rail(const union ibv_gid *gid, uint8_t type,
			       struct mesh_directory_rail *ret);
bool __wrap_mesh_directory_may_join(const union ibv_gid *local, const union ibv_gid *remote);

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	(void)msg;
}

void __wrap_mesh_thread_send_later(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys)
{
	(void)msg;
	(void)keys;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

void __wrap_mesh_thread_rail(struct mesh_rail *rail)
{
	assert_ptr_equal(rail, world.rail);
}

int __wrap_mesh_directory_rail(const union ibv_gid *gid, uint8_t type,
			       struct mesh_directory_rail *ret)
{
	(void)type;
	assert_true(mv_gid_equal(gid, &world.rail_gid));
	*ret = (struct mesh_directory_rail){.device = "mlx5_1", .port = 1};
	return 0;
}

bool __wrap_mesh_directory_may_join(const union ibv_gid *local, const union ibv_gid *remote)
{
	(void)local;
	(void)remote;
	return true;
}

static unsigned int refs(void)
{
	int cancel = mesh_keys_lock();
	unsigned int n = world.spd->refs;

	mesh_keys_unlock(cancel);
	return n;
}

/* A queue pair that is given up is destroyed on another thread, and has a reference until then. */
static void assert_refs(unsigned int n)
{
	for (unsigned int ms = 0; ms < PATIENCE_MS && refs() > n; ms++)
		usleep(1000);
	assert_int_equal(refs(), n);
}

static int setup(void **state)
{
	world_setup(state);
	set_survive(true);
	memset(&e, 0, sizeof(e));
	end_open(&e, &world, &noted, &(struct shape){0});
	conn = mesh_conn_new(world.mc, e.qp);
	assert_non_null(conn);
	conn->attr.rtr = world_rtr(&world, false, e.qp->qp_num, PSN);
	conn->attr.rtr_mask = RTR_MASK;
	conn->attr.rts = world_rts(PSN);
	conn->attr.rts_mask = RTS_MASK;
	conn->primary.standby_pd = mesh_pd_ref(world.spd); /* so that the PD is at hand */
	n_refs = refs();
	return 0;
}

static int teardown(void **state)
{
	end_close(&e);
	mesh_conn_put(conn);
	set_survive(false);
	return world_teardown(state);
}

static void is_held(void)
{
	assert_int_equal(mesh_vqp_new(world.mc, e.qp, &mesh_conn_vqp_ops, conn, &conn->vqp), 0);
	conn->state = MESH_CONN_HELD;
}

static void is_at_work(void)
{
	struct ibv_qp_attr rtr = conn->attr.rtr;

	assert_null(mesh_conn_track(conn, TRACKED_MTU));
	conn->state = MESH_CONN_PASSTHROUGH;
	assert_int_equal(mesh_vqp_modify_lower(conn->vqp, &rtr, RTR_MASK), 0);
	tracked_rts(&e, conn->vqp, world_rts(PSN));
	conn->move.failover = conn->move.leader = conn->move.wish.own = true;
}

static void carry_out(enum mv_move_action_type type, uint32_t qpn, uint32_t psn)
{
	const struct mv_move_action action = {.type = type,
					      .local_gid = world.rail_gid,
					      .remote_gid = world.rail_gid,
					      .gid_type = MV_GID_TYPE_ROCE_V2,
					      .peer = {.gid = world.rail_gid, .qpn = qpn},
					      .mtu_bytes = 1024,
					      .sq_psn = psn,
					      .rq_psn = psn};

	mesh_lock(&conn->lock);
	mesh_conn_carry_out(conn, &action, mesh_now_ns());
	mesh_unlock(&conn->lock);
}

static void assert_is(const struct ibv_qp *qp, enum ibv_qp_state qp_state, uint32_t psn)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr is;

	assert_int_equal(ibv_query_qp((struct ibv_qp *)qp, &is,
				      IBV_QP_STATE | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN, &init),
			 0);
	assert_int_equal(is.qp_state, qp_state);
	assert_int_equal(is.rq_psn, psn);
	assert_int_equal(is.sq_psn, psn);
}

/* To itself. */
static void prepare_and_connect(const struct mesh_conn_path *path, const struct mesh_shadow *shadow,
				uint32_t psn)
{
	carry_out(MV_DO_PREPARE, 0, 0);
	assert_ptr_equal(path->pd, world.spd);
	assert_refs(n_refs + 1);
	assert_non_null(shadow->qp);
	assert_int_equal(path->qpn, shadow->qp->qp_num);
	assert_int_equal(path->mtu_bytes, 1024);
	assert_true(mv_gid_equal(&path->gid, &world.rail_gid));
	assert_false(path->connected);
	carry_out(MV_DO_CONNECT, path->qpn, psn);
	assert_true(path->connected);
	assert_true(mv_gid_equal(&path->peer_gid, &world.rail_gid));
	assert_int_equal(path->sq_psn, psn);
}

static void assert_is_no_path(const struct mesh_conn_path *path, const struct mesh_shadow *shadow)
{
	assert_null(path->pd);
	assert_null(shadow->qp);
	assert_false(path->connected);
	assert_string_equal(path->device, "");
	assert_refs(n_refs);
}

static void destroy(void)
{
	assert_int_equal(ibv_destroy_qp(e.qp), 0);
	e.qp = NULL;
	assert_refs(n_refs - 1); /* that of the standby is gone, too */
}

/* The program's first PSNs; RTS with the program's attributes. */
static void test_held(void **state)
{
	(void)state;
	is_held();
	prepare_and_connect(&conn->path, &conn->vqp->now, MV_CTL_PSN_NONE);
	assert_is(conn->vqp->now.qp, IBV_QPS_RTS, PSN);
	assert_null(conn->moving.next_path.pd);
	carry_out(MV_DO_RELEASE, 0, 0);
	assert_is_no_path(&conn->path, &conn->vqp->now);
	carry_out(MV_DO_RELEASE, 0, 0);
	assert_is_no_path(&conn->path, &conn->vqp->now);
	/* The next offer takes the place of one that was taken up. */
	prepare_and_connect(&conn->path, &conn->vqp->now, MV_CTL_PSN_NONE);
	prepare_and_connect(&conn->path, &conn->vqp->now, MV_CTL_PSN_NONE);
	carry_out(MV_DO_ACTIVATE, 0, 0);
	assert_int_equal(conn->state, MESH_CONN_MOVED);
	/* A move that comes to nothing leaves it there. */
	carry_out(MV_DO_RELEASE, 0, 0);
	assert_ptr_equal(conn->path.pd, world.spd);
	assert_true(conn->path.connected);
	assert_is(conn->vqp->now.qp, IBV_QPS_RTS, PSN);
	assert_refs(n_refs + 1);
	destroy();
}

/* The program is in RTR: what it asks for in RTS is then done at once. */
static void test_held_in_rtr(void **state)
{
	struct ibv_qp_attr rts = world_rts(PSN);

	(void)state;
	is_held();
	conn->attr.rts_mask = 0;
	prepare_and_connect(&conn->path, &conn->vqp->now, MV_CTL_PSN_NONE);
	assert_false(mesh_failover_sends(conn->vqp));
	assert_int_equal(ibv_modify_qp(e.qp, &rts, RTS_MASK), 0);
	assert_true(mesh_failover_sends(conn->vqp));
	assert_is(conn->vqp->now.qp, IBV_QPS_RTS, PSN);
}

/* First PSNs of the offer. */
static void test_at_work(void **state)
{
	struct mv_move_action activate = {.type = MV_DO_ACTIVATE, .replay = true};
	struct mv_move_sync sync;
	struct ibv_qp *works;

	(void)state;
	is_at_work();
	prepare_and_connect(&conn->moving.next_path, &conn->vqp->next.shadow, PATH_PSN);
	assert_is(conn->vqp->next.shadow.qp, IBV_QPS_RTS, PATH_PSN);
	assert_null(conn->path.pd);
	carry_out(MV_DO_RELEASE, 0, 0);
	assert_is_no_path(&conn->moving.next_path, &conn->vqp->next.shadow);
	prepare_and_connect(&conn->moving.next_path, &conn->vqp->next.shadow, PATH_PSN);
	tracked_drain(conn->vqp, true, &sync);
	activate.next_psn = PSN;
	activate.n_received = sync.n_received;
	mesh_lock(&conn->lock);
	mesh_conn_carry_out(conn, &activate, mesh_now_ns());
	mesh_unlock(&conn->lock);
	assert_int_equal(conn->state, MESH_CONN_MOVED);
	assert_ptr_equal(conn->path.pd, world.spd);
	assert_true(conn->path.connected);
	assert_int_equal(conn->path.sq_psn, PATH_PSN);
	assert_null(conn->moving.next_path.pd);
	assert_refs(n_refs); /* nothing is armed any more */
	/* What is left of a move that is off already is not for the queue pair that works. */
	works = conn->vqp->now.qp;
	conn->vqp->tracker->lost = "this test says so";
	conn->move.failover = false;
	carry_out(MV_DO_PREPARE, 0, 0);
	carry_out(MV_DO_CONNECT, 0, 0);
	carry_out(MV_DO_RELEASE, 0, 0);
	assert_ptr_equal(conn->vqp->now.qp, works);
	assert_is(works, IBV_QPS_RTS, PATH_PSN);
	assert_ptr_equal(conn->path.pd, world.spd);
	destroy();
}

static int (*real_modify)(struct ibv_qp *, struct ibv_qp_attr *, int);

static int refuse_rtr(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR ? ETIMEDOUT
								    : real_modify(qp, attr, mask);
}

static void cannot_be_connected(const struct mesh_conn_path *path, const struct mesh_shadow *shadow)
{
	carry_out(MV_DO_PREPARE, 0, 0);
	real_modify = mesh_root.lib.verbs.modify_qp;
	mesh_root.lib.verbs.modify_qp = refuse_rtr;
	carry_out(MV_DO_CONNECT, path->qpn, PATH_PSN);
	mesh_root.lib.verbs.modify_qp = real_modify;
	assert_ptr_equal(path->pd, world.spd);
	assert_false(path->connected);
	carry_out(MV_DO_RELEASE, 0, 0);
	assert_is_no_path(path, shadow);
	/* Nothing was prepared. */
	carry_out(MV_DO_CONNECT, 0, PATH_PSN);
	assert_is_no_path(path, shadow);
}

static void test_cannot_be_connected(void **state)
{
	(void)state;
	is_held();
	cannot_be_connected(&conn->path, &conn->vqp->now);
}

static void test_cannot_be_connected_at_work(void **state)
{
	(void)state;
	is_at_work();
	cannot_be_connected(&conn->moving.next_path, &conn->vqp->next.shadow);
}

/* The program ends the connection while a path is there. */
static void test_ends_meanwhile(void **state)
{
	(void)state;
	is_at_work();
	prepare_and_connect(&conn->moving.next_path, &conn->vqp->next.shadow, PATH_PSN);
	destroy();
}

static void test_ends_held(void **state)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	(void)state;
	is_held();
	prepare_and_connect(&conn->path, &conn->vqp->now, MV_CTL_PSN_NONE);
	assert_int_equal(ibv_modify_qp(e.qp, &err, IBV_QP_STATE), 0);
	assert_int_equal(conn->state, MESH_CONN_FAILED);
	carry_out(MV_DO_RELEASE, 0, 0);
	assert_ptr_equal(conn->path.pd, world.spd);
	destroy();
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_held),
		T(test_held_in_rtr),
		T(test_at_work),
		T(test_cannot_be_connected),
		T(test_cannot_be_connected_at_work),
		T(test_ends_meanwhile),
		T(test_ends_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
