// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* REGISTER_QPs and UNREGISTER_QPs: which queue pairs the agent knows of. */
#include <errno.h>

#include "conntable.h"
#include "udint.h"

static void check_frames(unsigned int n, unsigned int last)
{
	assert_int_equal(n_frames, n);
	assert_int_equal(frames[n - 1].type, last);
	assert_string_equal(frames[n - 1].device, "mlx5_0");
	assert_int_equal(frames[n - 1].qpn, 100);
}

static void test_registrations(void **state)
{
	(void)state;
	assert_int_equal(mesh_conn_register(conns[0]), 0);
	check_frames(1, MV_FRAME_REGISTER_QP);
	assert_int_equal(frames[0].qp_type, IBV_QPT_RC);
	assert_int_equal(mesh_conn_register(conns[0]), -EALREADY);
	mesh_conn_unregistered(conns[0]);
	assert_int_equal(mesh_conn_register(conns[0]), 0);
	check_frames(2, MV_FRAME_REGISTER_QP);
	/* A new agent. */
	mesh_conns_queue_all(true);
	frame_result = -EAGAIN;
	assert_int_equal(mesh_conn_register(conns[0]), -EAGAIN);
	frame_result = 0;
	assert_int_equal(mesh_conn_register(conns[0]), 0);
	check_frames(3, MV_FRAME_REGISTER_QP);
	/* No agent: a new one is told of all. */
	mesh_conn_unregistered(conns[0]);
	frame_result = -ENOTCONN;
	assert_int_equal(mesh_conn_register(conns[0]), 0);
	assert_int_equal(mesh_conn_register(conns[0]), -EALREADY);
}

/* Whatever becomes of it, the agent does not keep what the process has not any more; */
static void test_unregister(void **state)
{
	(void)state;
	assert_int_equal(mesh_conn_register(conns[0]), 0);
	mesh_conn_unlink(conns[0]);
	check_frames(2, MV_FRAME_UNREGISTER_QP);
	mesh_conn_unlink(conns[0]);
	assert_int_equal(mesh_conn_register(conns[0]), -EALREADY);
	assert_int_equal(n_frames, 2);
	/* which may have it still when it is to be told again; */
	assert_int_equal(mesh_conn_register(conns[1]), 0);
	mesh_conn_unregistered(conns[1]);
	mesh_conn_unlink(conns[1]);
	assert_int_equal(n_frames, 4);
	assert_int_equal(frames[3].type, MV_FRAME_UNREGISTER_QP);
	/* and is not told of what it never had. */
	mesh_conn_unlink(conns[2]);
	assert_int_equal(n_frames, 4);
}

static struct mesh_conn *next_life;

static void destroy_first(void)
{
	mesh_conn_unlink(conns[0]);
}

static void use_first_again(void)
{
	mesh_conn_unlink(conns[0]);
	next_life = mesh_conn_new(&context, &qps[0]);
	assert_non_null(next_life);
}

/* The program destroys it while the helper thread is about to register it: UNREGISTER_QP comes first. */
static void test_destroyed_while_registered(void **state)
{
	(void)state;
	on_frame = destroy_first;
	assert_int_equal(mesh_conn_register(conns[0]), 0);
	assert_int_equal(frames[0].type, MV_FRAME_UNREGISTER_QP);
	assert_int_equal(frames[1].type, MV_FRAME_REGISTER_QP);
	check_frames(3, MV_FRAME_UNREGISTER_QP);
}

/* The same, and the number is used again at once: that one's registration comes last. */
static void test_used_again_while_registered(void **state)
{
	(void)state;
	on_frame = use_first_again;
	assert_int_equal(mesh_conn_register(conns[0]), 0);
	check_frames(3, MV_FRAME_UNREGISTER_QP);
	assert_int_equal(mesh_conn_register(next_life), 0);
	check_frames(4, MV_FRAME_REGISTER_QP);
	mesh_conn_unlink(next_life);
	check_frames(5, MV_FRAME_UNREGISTER_QP);
	mesh_conn_put(next_life);
}

/* Those of datagrams: what the agent had no room for is told again. */
static void test_datagram_registrations(void **state)
{
	struct mesh_ud_qp u = {.mc = &context, .qpn = 100};

	(void)state;
	mesh_root.ud.qps = &u;
	frame_result = -EAGAIN;
	assert_int_equal(mesh_ud_run(1000), 1000 + 20000000);
	frame_result = 0;
	assert_true(mesh_ud_run(2000) == UINT64_MAX);
	check_frames(1, MV_FRAME_REGISTER_QP);
	assert_int_equal(frames[0].qp_type, IBV_QPT_UD);
	assert_true(mesh_ud_run(3000) == UINT64_MAX);
	assert_int_equal(n_frames, 1);
	mesh_root.ud.qps = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_registrations, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unregister, setup, teardown),
		cmocka_unit_test_setup_teardown(test_destroyed_while_registered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_used_again_while_registered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_datagram_registrations, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
