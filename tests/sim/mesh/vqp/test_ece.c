// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Enhanced connection establishment (ECE): the next queue pair has the options of the first, or the connection stays; docs/parity.md. In a
 * host of the simulator with two NICs.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "parity.h"
#include "qpmade.h"
#include "simhost.h"
#include "survive.h"
#include "tracked_fixture.h"
#include "vqp_int.h"

static const struct manner moved = {.how = MOVED};

#define MELLANOX 0x15b3u
#define ALL_ECE	 0x1000000fu /* that the simulator's devices have */
#define OURS_ECE 0x10000003u

static int (*real_set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
static unsigned int n_set;

static int count_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	n_set++;
	return real_set_ece(qp, ece);
}

static void set_ece(struct ibv_qp *qp, uint32_t options)
{
	assert_int_equal(ibv_set_ece(qp, &(struct ibv_ece){.vendor_id = MELLANOX, .options = options}), 0);
}

static uint32_t ece_of(struct ibv_qp *qp)
{
	struct ibv_ece ece;

	assert_int_equal(ibv_query_ece(qp, &ece), 0);
	assert_int_equal(ece.vendor_id, MELLANOX);
	return ece.options;
}

static void close_tracked(struct end *e, struct mesh_vqp *h)
{
	mesh_vqp_destroy(h);
	end_close(e);
}

/* As a program that has agreed on these with its peer. */
static struct mesh_vqp *open_with_ece(struct end *e, uint32_t options)
{
	struct mesh_vqp *h;

	end_open(e, &world, &moved, &(struct shape){0});
	assert_int_equal(ece_of(e->qp), ALL_ECE); /* what it offers the peer */
	if (options)
		set_ece(e->qp, options);
	tracked_rtr(e, &tracked_ops, world_rtr(&world, false, e->qp->qp_num, 5), &h);
	tracked_rts(e, h, world_rts(5));
	n_set = 0;
	return h;
}

static int connect_to_itself(struct mesh_vqp *h, struct ibv_qp *qp, bool standby)
{
	struct ibv_qp_attr rtr = world_rtr(&world, true, qp->qp_num, 5), rts = world_rts(5);

	return standby ? mesh_failover_standby(h, &rtr, RTR_MASK, &rts, RTS_MASK)
		       : mesh_failover_connect(h, &rtr, RTR_MASK, &rts, RTS_MASK);
}

/* Both ends of the first path have agreed on what each one's NIC says of it: so both ends of the next path have that, or stay. */
static void test_ece(void **state)
{
	struct mesh_vqp *h;
	struct end e;

	(void)state;
	for (int standby = 0; standby < 2; standby++) {
		h = open_with_ece(&e, OURS_ECE);
		assert_int_equal(ece_of(e.qp), OURS_ECE);
		if (standby)
			assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
		else
			tracked_prepare(h);
		assert_int_equal(connect_to_itself(h, standby ? h->standby.shadow.qp : h->next.shadow.qp, standby), 0);
		assert_int_equal(ece_of(standby ? h->standby.shadow.qp : h->next.shadow.qp), OURS_ECE);
		assert_null(mesh_parity_why(h));
		close_tracked(&e, h);
	}
}

/* The peer wants more than this NIC has: what is in use counts, not what was set. */
static void test_ece_reduced(void **state)
{
	struct mesh_vqp *h;
	struct end e;

	(void)state;
	end_open(&e, &world, &moved, &(struct shape){0});
	simhost_lacks_ece("mlx5_0", 2);
	set_ece(e.qp, OURS_ECE);
	tracked_rtr(&e, &tracked_ops, world_rtr(&world, false, e.qp->qp_num, 5), &h);
	tracked_rts(&e, h, world_rts(5));
	assert_int_equal(ece_of(e.qp), OURS_ECE & ~2u);
	tracked_prepare(h);
	assert_int_equal(connect_to_itself(h, h->next.shadow.qp, false), 0);
	assert_int_equal(ece_of(h->next.shadow.qp), OURS_ECE & ~2u);
	close_tracked(&e, h);
}

static void test_ece_not_to_be_had(void **state)
{
	struct mesh_vqp *h;
	struct end e;

	(void)state;
	simhost_lacks_ece("mlx5_1", 2);
	h = open_with_ece(&e, OURS_ECE);
	tracked_prepare(h);
	assert_int_equal(connect_to_itself(h, h->next.shadow.qp, false), -EOPNOTSUPP);
	assert_non_null(strstr(mesh_parity_why(h), "ECE options"));
	mesh_failover_release(h);
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	assert_int_equal(connect_to_itself(h, h->standby.shadow.qp, true), -EOPNOTSUPP);
	assert_int_equal(mesh_failover_take_standby(h), -ENOENT);
	close_tracked(&e, h);
	/* Options that nobody uses do not matter. */
	h = open_with_ece(&e, 0x10000001u);
	tracked_prepare(h);
	assert_int_equal(connect_to_itself(h, h->next.shadow.qp, false), 0);
	close_tracked(&e, h);
}

/* A program that knows nothing of it has none: neither has the next one, and nobody asks for it. */
static void test_no_ece(void **state)
{
	struct mesh_vqp *h;
	struct end e;

	(void)state;
	simhost_lacks_ece("mlx5_1", 0xf);
	h = open_with_ece(&e, 0);
	tracked_prepare(h);
	assert_int_equal(connect_to_itself(h, h->next.shadow.qp, false), 0);
	assert_int_equal(n_set, 0);
	close_tracked(&e, h);
}

static void test_ece_reset(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct mesh_qp_ece noted;
	struct end e;

	(void)state;
	end_open(&e, &world, &moved, &(struct shape){0});
	set_ece(e.qp, OURS_ECE);
	assert_true(mesh_qp_ece(world.mc, e.qp, &noted));
	assert_int_equal(ibv_modify_qp(e.qp, &reset, IBV_QP_STATE), 0);
	assert_false(mesh_qp_ece(world.mc, e.qp, &noted));
	end_close(&e);
}

/* Before there is a path: its NIC takes of what the program has set what it has. */
static void test_ece_when_connected(void **state)
{
	struct end e;

	(void)state;
	simhost_lacks_ece("mlx5_1", 2);
	end_open(&e, &world, &moved, &(struct shape){0});
	set_ece(e.qp, OURS_ECE);
	end_rtr(&e, &e, NULL);
	end_prepare(&e);
	end_connect(&e, &e, NULL);
	assert_int_equal(ece_of(e.vqp->now.qp), OURS_ECE & ~2u);
	assert_int_equal(mesh_parity_query_ece(e.vqp, true, &(struct ibv_ece){0}), 0);
	end_close(&e);
}

/* The program asks before any NIC could say, and tells its peer: from then on there is none, wherever it is connected in the end. */
static void test_ece_asked_early(void **state)
{
	struct mesh_conn *conn;
	struct end e;

	(void)state;
	for (int passthrough = 0; passthrough < 2; passthrough++) {
		end_open(&e, &world, &moved, &(struct shape){0});
		set_ece(e.qp, OURS_ECE);
		end_rtr(&e, &e, NULL);
		n_set = 0;
		conn = as_connection(&e, e.vqp, MESH_CONN_HELD);
		assert_int_equal(ece_of(e.qp), 0);
		if (passthrough) {
			end_passthrough(&e, &e, &(struct shape){0});
			assert_int_equal(ece_of(e.qp), 0);
		} else {
			end_prepare(&e);
			end_connect(&e, &e, NULL);
			conn->path.connected = true;
			assert_int_equal(n_set, 0);
		}
		end_connection(conn);
		end_close(&e);
	}
	/* Once it is connected it says what that NIC has taken. */
	end_open(&e, &world, &moved, &(struct shape){0});
	set_ece(e.qp, OURS_ECE);
	end_rtr(&e, &e, NULL);
	end_prepare(&e);
	end_connect(&e, &e, NULL);
	conn = as_connection(&e, e.vqp, MESH_CONN_MOVED);
	conn->path.connected = true;
	assert_int_equal(ece_of(e.qp), OURS_ECE);
	end_connection(conn);
	end_close(&e);
}

/* The program's own has listened, and begins again in INIT: RESET has taken its options away. */
static void test_ece_of_one_that_begins_again(void **state)
{
	const struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct end e;

	(void)state;
	end_open(&e, &world, &moved, &(struct shape){0});
	set_ece(e.qp, OURS_ECE);
	end_rtr(&e, &e, NULL);
	end_passthrough(&e, &e, &(struct shape){0});
	assert_int_equal(ece_of(e.qp), OURS_ECE);
	assert_true(mesh_vqp_stop_posting(e.vqp));
	assert_int_equal(mesh_vqp_begin_lower_again(e.vqp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						   IBV_QP_ACCESS_FLAGS), 0);
	mesh_vqp_resume_posting(e.vqp);
	simhost_lacks_ece("mlx5_0", 2); /* it asks anew */
	end_passthrough(&e, &e, &(struct shape){0});
	assert_int_equal(ece_of(e.qp), OURS_ECE & ~2u);
	end_close(&e);
}

static int setup(void **state)
{
	world_setup(state);
	set_survive(true);
	simhost_open();
	real_set_ece = mesh_root.lib.set_ece;
	mesh_root.lib.set_ece = count_set_ece;
	return 0;
}

static int teardown(void **state)
{
	simhost_lacks_ece("mlx5_0", 0);
	simhost_lacks_ece("mlx5_1", 0);
	mesh_root.lib.set_ece = real_set_ece;
	return world_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_ece),	    T(test_ece_reduced),	 T(test_ece_not_to_be_had), T(test_no_ece),
		T(test_ece_reset), T(test_ece_when_connected), T(test_ece_asked_early),   T(test_ece_of_one_that_begins_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
