// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The next queue pair is as good as the first, or the connection stays where it is: one test for each row of docs/parity.md. In a host of
 * the simulator with two NICs.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "conn.h"
#include "fault.h"
#include "parity.h"
#include "arm.h"
#include "survive.h"
#include "tracked_fixture.h"
#include "vqp_int.h"

static const struct manner moved = {.how = MOVED};

/* ---- what a move makes ------------------------------------------------------------------------------------------- */

/* No value is that of a queue pair of which nothing was said, and none is that of another attribute. */
static struct ibv_qp_attr distinct_rtr(uint32_t peer_qpn)
{
	struct ibv_qp_attr attr = world_rtr(&world, false, peer_qpn, 5);

	attr.path_mtu = IBV_MTU_512;
	attr.max_dest_rd_atomic = 8;
	attr.min_rnr_timer = 17;
	attr.ah_attr.sl = 3;
	attr.ah_attr.static_rate = IBV_RATE_40_GBPS;
	attr.ah_attr.grh.traffic_class = 106;
	attr.ah_attr.grh.flow_label = 0x54321;
	return attr;
}

static struct ibv_qp_attr distinct_rts(void)
{
	struct ibv_qp_attr attr = world_rts(5);

	attr.timeout = 19;
	attr.retry_cnt = 6;
	attr.rnr_retry = 2;
	attr.max_rd_atomic = 2;
	return attr;
}

static void query(struct ibv_qp *qp, struct ibv_qp_attr *ret, struct ibv_qp_init_attr *ret_init)
{
	memset(ret, 0, sizeof(*ret));
	memset(ret_init, 0, sizeof(*ret_init));
	assert_int_equal(ibv_query_qp(qp, ret, IBV_QP_STATE, ret_init), 0);
}

static struct mesh_vqp *open_tracked(struct end *e, const struct shape *shape)
{
	struct mesh_vqp *h;

	end_open(e, &world, &moved, shape);
	tracked_rtr(e, &tracked_ops, distinct_rtr(e->qp->qp_num), &h);
	tracked_rts(e, h, distinct_rts());
	return h;
}

static void close_tracked(struct end *e, struct mesh_vqp *h)
{
	mesh_vqp_destroy(h);
	end_close(e);
}

#define ROW(name, member) {name, offsetof(struct ibv_qp_attr, member), sizeof(((struct ibv_qp_attr *)NULL)->member)}

static const struct {
	const char *name; /* as in docs/parity.md */
	size_t offset, size;
} attributes[] = {
	ROW("traffic class", ah_attr.grh.traffic_class),
	ROW("flow label", ah_attr.grh.flow_label),
	ROW("service level", ah_attr.sl),
	ROW("static rate", ah_attr.static_rate),
	ROW("path MTU", path_mtu),
	ROW("P_Key index", pkey_index),
	ROW("access flags", qp_access_flags),
	ROW("min_rnr_timer", min_rnr_timer),
	ROW("timeout", timeout),
	ROW("retry_cnt", retry_cnt),
	ROW("rnr_retry", rnr_retry),
	ROW("max_rd_atomic", max_rd_atomic),
	ROW("max_dest_rd_atomic", max_dest_rd_atomic),
};

static void test_attributes(void **state)
{
	struct ibv_qp_init_attr init, next_init;
	struct ibv_qp_attr first, next, rtr;
	const struct shape shape = {.access = IBV_ACCESS_REMOTE_READ};
	struct mesh_shadow_attr made = {.port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ};
	struct mesh_vqp *h;
	struct end e;
	uint32_t qpn;

	(void)state;
	h = open_tracked(&e, &shape);
	assert_int_equal(mesh_failover_prepare(h, world.spd, &made, &qpn), 0);
	rtr = distinct_rtr(e.qp->qp_num);
	tracked_connect_next(h, &rtr, distinct_rts(), qpn);
	query(e.qp, &first, &init);
	query(h->next.shadow.qp, &next, &next_init);
	assert_int_equal(first.ah_attr.grh.traffic_class, 106); /* what is compared was set */
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (memcmp((char *)&first + attributes[i].offset, (char *)&next + attributes[i].offset, attributes[i].size))
			fail_msg("%s: another one", attributes[i].name);
	close_tracked(&e, h);
}

/* Of each kind as many at least, and the same kind of completions. */
static void test_capabilities(void **state)
{
	const struct ibv_qp_cap cap = {
		.max_send_wr = 100, .max_recv_wr = 50, .max_send_sge = 3, .max_recv_sge = 2, .max_inline_data = 200};
	struct ibv_qp_init_attr init, next_init;
	struct ibv_qp_attr first, next;
	struct mesh_vqp *h;
	struct end e;

	(void)state;
	for (int sig_all = 0; sig_all < 2; sig_all++) {
		h = open_tracked(&e, &(struct shape){.cap = &cap, .sig_all = sig_all});
		tracked_prepare(h);
		query(e.qp, &first, &init);
		query(h->next.shadow.qp, &next, &next_init);
		assert_true(init.cap.max_inline_data >= 200);
		assert_true(next_init.cap.max_inline_data >= init.cap.max_inline_data);
		assert_true(next_init.cap.max_send_wr >= init.cap.max_send_wr);
		assert_true(next_init.cap.max_recv_wr >= init.cap.max_recv_wr);
		assert_true(next_init.cap.max_send_sge >= init.cap.max_send_sge);
		assert_true(next_init.cap.max_recv_sge >= init.cap.max_recv_sge);
		assert_int_equal(next_init.sq_sig_all, sig_all);
		close_tracked(&e, h);
	}
}

/* ---- what it was made with ----------------------------------------------------------------------------------- */

static struct ibv_qp_init_attr_ex init_of(const struct end *e)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = world.pd,
	};
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	assert_int_equal(mesh_recvlog_begin(world.mc, qp), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
}

/* Neither at work nor when it is connected. */
static void assert_stays(struct ibv_qp *qp, const char *why)
{
	struct mesh_vqp *h;

	assert_non_null(qp);
	to_init(qp);
	assert_int_equal(mesh_failover_track(world.mc, qp, &tracked_ops, NULL, TRACKED_MTU, &h), -EBUSY);
	assert_non_null(strstr(mesh_vqp_why_busy(world.mc, qp), why));
	assert_int_equal(mesh_recvlog_begin(world.mc, qp), 0);
	assert_int_equal(mesh_vqp_new(world.mc, qp, &tracked_ops, NULL, &h), -EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void assert_goes(struct ibv_qp *qp)
{
	struct mesh_vqp *h;

	assert_non_null(qp);
	to_init(qp);
	assert_int_equal(mesh_failover_track(world.mc, qp, &tracked_ops, NULL, TRACKED_MTU, &h), 0);
	mesh_vqp_destroy(h);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The device of the simulator takes that flag; what others it would refuse. */
static void test_creation_flags(void **state)
{
	struct ibv_qp_init_attr_ex attr;
	struct end e;

	(void)state;
	end_open(&e, &world, &moved, &(struct shape){0});
	attr = init_of(&e);
	assert_goes(ibv_create_qp_ex(world.context, &attr));
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	assert_goes(ibv_create_qp_ex(world.context, &attr));
	attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	assert_stays(ibv_create_qp_ex(world.context, &attr), "creation flags");
	end_close(&e);
}

/* mlx5dv_create_qp() does what libmlx5's own function does: libibverbs, and so we, see nothing of it. */
static void test_made_past_libibverbs(void **state)
{
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp *qp;
	struct end e;

	(void)state;
	end_open(&e, &world, &moved, &(struct shape){0});
	attr = init_of(&e);
	qp = world.mc->lower.qp.create_qp_ex(world.context, &attr);
	assert_stays(qp, "mlx5dv_create_qp");
	/* At the address of one that could go, or could not. */
	for (int i = 0; i < 4; i++) {
		assert_goes(ibv_create_qp(world.pd, &(struct ibv_qp_init_attr){
							    .send_cq = e.cq, .recv_cq = e.cq, .cap = attr.cap, .qp_type = IBV_QPT_RC}));
		assert_stays(world.mc->lower.qp.create_qp_ex(world.context, &attr), "mlx5dv_create_qp");
	}
	end_close(&e);
}

/* Nobody is worse off than without meshverbs. */
static void test_made_without_memory(void **state)
{
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp *qp;
	unsigned int n;
	struct end e;

	(void)state;
	end_open(&e, &world, &moved, &(struct shape){0});
	attr = init_of(&e);
	for (n = 1; !world.mc->data.made_unknown; n++) {
		assert_true(n < 1000);
		fault_arm(FAULT_ALLOC, n, ENOMEM);
		qp = ibv_create_qp_ex(world.context, &attr);
		fault_disarm();
		if (!qp)
			continue; /* libmlx5's own */
		if (world.mc->data.made_unknown)
			assert_stays(qp, "no memory");
		else
			assert_goes(qp);
	}
	assert_goes(ibv_create_qp_ex(world.context, &attr));
	end_close(&e);
}

/* ---- order of data ----------------------------------------------------------------------------------------------- */

static struct {
	int lower, rail; /* what they answer */
} order;

/* Older libraries do not have it. */
static int (*real_order)(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

static int say_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)op;
	(void)flags;
	if (qp->state != IBV_QPS_RTS)
		return 0; /* as libmlx5 */
	return qp->context == world.context ? order.lower : order.rail;
}

static int connect_to_itself(struct mesh_vqp *h)
{
	struct ibv_qp_attr rtr = world_rtr(&world, true, h->next.shadow.qp->qp_num, 5), rts = world_rts(5);

	return mesh_failover_connect(h, &rtr, RTR_MASK, &rts, RTS_MASK);
}

static void test_data_in_order(void **state)
{
	static const struct {
		int lower, rail, err;
	} cases[] = {{0, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 0, -EOPNOTSUPP}};
	struct mesh_conn *conn;
	struct mesh_vqp *h;
	struct end e;

	(void)state;
	mesh_root.lib.query_qp_data_in_order = say_order;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		order.lower = cases[i].lower;
		order.rail = cases[i].rail;
		h = open_tracked(&e, &(struct shape){0});
		/* As the helper thread, when it looks after the connection for the first time. */
		conn = as_connection(&e, h, MESH_CONN_PASSTHROUGH);
		conn->attr.rts_mask = RTS_MASK;
		conn->primary.standby_tried = true;
		mesh_conn_arm(conn, 0);
		end_connection(conn);
		assert_true(h->parity.order_known);
		assert_false(mesh_parity_may_learn(h)); /* once is enough */
		tracked_prepare(h);
		assert_int_equal(connect_to_itself(h), cases[i].err);
		if (cases[i].err)
			assert_non_null(strstr(mesh_parity_why(h), "data in order"));
		close_tracked(&e, h);
	}
	/* Before RTS nobody knows. */
	end_open(&e, &world, &moved, &(struct shape){0});
	tracked_rtr(&e, &tracked_ops, distinct_rtr(e.qp->qp_num), &h);
	assert_false(mesh_parity_may_learn(h));
	close_tracked(&e, h);
}

/* ---- rate limit -------------------------------------------------------------------------------------------------- */

static int accept_rate(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	(void)qp;
	(void)attr;
	return 0;
}

static int (*lower_modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

static int accept_rate_by_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return mask == IBV_QP_RATE_LIMIT ? 0 : lower_modify_qp(qp, attr, mask);
}

/* The kernel has none for RC, of mlx5. Where there is one, the next queue pair would lack it. */
static void test_rate_limit(void **state)
{
	int (*real)(struct ibv_qp *, struct ibv_qp_rate_limit_attr *) = world.mc->lower.qp.modify_qp_rate_limit;
	struct ibv_qp_attr by_modify = {.rate_limit = 1000};
	struct mesh_conn *conn;
	struct mesh_vqp *h;
	struct end e;

	(void)state;
	h = open_tracked(&e, &(struct shape){0});
	assert_int_not_equal(ibv_modify_qp_rate_limit(e.qp, &(struct ibv_qp_rate_limit_attr){.rate_limit = 1000}), 0);
	assert_null(mesh_failover_lost(h));
	world.mc->lower.qp.modify_qp_rate_limit = accept_rate;
	assert_int_equal(ibv_modify_qp_rate_limit(e.qp, &(struct ibv_qp_rate_limit_attr){.rate_limit = 0}), 0);
	assert_null(mesh_failover_lost(h));
	assert_int_equal(ibv_modify_qp_rate_limit(e.qp, &(struct ibv_qp_rate_limit_attr){.rate_limit = 1000}), 0);
	assert_non_null(strstr(mesh_failover_lost(h), "rate limit"));
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), -EOPNOTSUPP);
	world.mc->lower.qp.modify_qp_rate_limit = real;
	close_tracked(&e, h);

	h = open_tracked(&e, &(struct shape){0});
	lower_modify_qp = world.mc->lower.qp.modify_qp;
	world.mc->lower.qp.modify_qp = accept_rate_by_modify;
	conn = as_connection(&e, h, MESH_CONN_PASSTHROUGH);
	conn->attr.rts_mask = RTS_MASK;
	assert_int_equal(ibv_modify_qp(e.qp, &by_modify, IBV_QP_RATE_LIMIT), 0);
	assert_non_null(strstr(mesh_failover_lost(h), "rate limit"));
	end_connection(conn);
	world.mc->lower.qp.modify_qp = lower_modify_qp;
	close_tracked(&e, h);
}

/* ---- moderation -------------------------------------------------------------------------------------------------- */

static struct {
	int err;
	unsigned int n;
	struct ibv_moderate_cq last;
} moderated;

static int note_moderation(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	(void)cq;
	assert_int_equal(attr->attr_mask, IBV_CQ_ATTR_MODERATE);
	moderated.n++;
	moderated.last = attr->moderate;
	return moderated.err;
}

static void moderate(struct ibv_cq *cq, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {.cq_count = count, .cq_period = period}};

	moderated.n = 0;
	assert_int_equal(ibv_modify_cq(cq, &attr), 0);
}

static void test_moderation(void **state)
{
	struct verbs_context *rail = verbs_get_ctx(world.rail->context);
	int (*real)(struct ibv_cq *, struct ibv_modify_cq_attr *) = rail->modify_cq;
	struct mesh_vqp *h;
	uint32_t qpn;
	struct end e;

	(void)state;
	rail->modify_cq = note_moderation;
	moderated.n = 0;
	moderated.err = 0;
	h = open_tracked(&e, &(struct shape){0});
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	assert_int_equal(moderated.n, 0);
	/* What is made already, and is not used yet, or is. */
	moderate(e.cq, 16, 100);
	assert_int_equal(moderated.n, 1);
	assert_int_equal(moderated.last.cq_count, 16);
	assert_int_equal(moderated.last.cq_period, 100);
	tracked_prepare(h);
	moderate(e.cq, 0xffff, 0xfffe);
	assert_int_equal(moderated.n, 1);
	assert_int_equal(moderated.last.cq_count, 0xffff);
	assert_int_equal(moderated.last.cq_period, 0xfffe);
	close_tracked(&e, h);

	/* What is made later; where that cannot be, nothing is. */
	h = open_tracked(&e, &(struct shape){0});
	moderate(e.cq, 8, 0);
	assert_int_equal(moderated.n, 0);
	moderated.err = EINVAL;
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), -EINVAL);
	assert_int_equal(mesh_failover_prepare(h, world.spd, &shadow_attr, &qpn), -EINVAL);
	moderated.err = 0;
	tracked_prepare(h);
	assert_int_equal(moderated.n, 3);
	assert_int_equal(moderated.last.cq_count, 8);
	assert_int_equal(moderated.last.cq_period, 0);
	close_tracked(&e, h);
	assert_null(mesh_map_any(&world.mc->data.moderated));
	rail->modify_cq = real;
}

/* Nobody is told of our crafted connections. */
int __wrap_mesh_thread_wake(bool changed);

int __wrap_mesh_thread_wake(bool changed)
{
	(void)changed;
	return 0;
}

static int setup(void **state)
{
	world_setup(state);
	set_survive(true);
	real_order = mesh_root.lib.query_qp_data_in_order;
	return 0;
}

static int teardown(void **state)
{
	mesh_root.lib.query_qp_data_in_order = real_order;
	return world_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_attributes),
		T(test_capabilities),
		T(test_creation_flags),
		T(test_made_past_libibverbs),
		T(test_made_without_memory),
		T(test_data_in_order),
		T(test_rate_limit),
		T(test_moderation),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
