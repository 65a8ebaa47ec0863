// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The helper thread: REGISTER_QPs and UNREGISTER_QPs that found no room in the socket, and the connection to the agent.
 */
#include <errno.h>
#include <unistd.h>

#include "fault.h"
#include "loopagent.h"
#include "pending_unregister.h"
#include "realagent.h"

/* Once a second it looks whether anybody else is left. */
static bool is_asleep(void)
{
	return atomic_load(&sleeps_ms) > 500;
}

/* The thread does not look for long, as nothing has happened for long. */
static void fall_asleep(void)
{
	settle();
	atomic_fetch_add(&now_ns, 10 * S);
	have_it_look();
	while (!is_asleep())
		usleep(100);
}

static void end(unsigned int i)
{
	mesh_conn_unlink(conns[i]);
	mesh_conn_put(conns[i]);
	conns[i] = NULL;
}

/* As others do that have something for an agent that does not read them. An UNREGISTER_QP is as long. */
static void fill_socket(void)
{
	const struct mv_frame frame = {.type = MV_FRAME_REGISTER_QP, .qp_type = IBV_QPT_RC, .device = "mlx5_0", .qpn = qps[N - 1].qp_num};

	while (mesh_thread_frame(&frame) != -EAGAIN)
		;
}

static void test_sent_again(void **state)
{
	(void)state;
	fill_socket();
	end(0);
	end(1);
	have_it_look();
	assert_true(knows(0) && knows(1));
	settle();
	assert_false(knows(0) || knows(1));
	assert_int_equal(atomic_load(&n_unregistrations[0]), 1);
	assert_int_equal(atomic_load(&n_unregistrations[1]), 1);
}

/* Nothing else wakes the thread. */
static void test_asleep(void **state)
{
	(void)state;
	fall_asleep();
	fill_socket();
	assert_true(is_asleep());
	end(0);
	while (is_asleep())
		usleep(100);
	/* It tries in vain, and less and less often. */
	for (int i = 0; i < 60000 && atomic_load(&sleeps_ms) < 16; i++)
		usleep(1000);
	assert_in_range(atomic_load(&sleeps_ms), 16, 20);
	while (knows(0))
		realagent_run();
	/* That is all. */
	fall_asleep();
	assert_int_equal(atomic_load(&n_unregistrations[0]), 1);
}

/* What can wait is done when nothing has happened for long, before it sleeps until it is woken. */
static void test_rests(void **state)
{
	unsigned int before;

	(void)state;
	settle();
	before = atomic_load(&n_rests);
	settle();
	assert_int_equal(atomic_load(&n_rests), before);
	fall_asleep();
	assert_true(atomic_load(&n_rests) > before);
}

/* Nor does it hurry for what it cannot say. */
static void test_registration_waits(void **state)
{
	(void)state;
	fall_asleep();
	fill_socket();
	mesh_conn_unregistered(conns[0]);
	mesh_conn_queue(conns[0], true);
	have_it_look();
	for (int i = 0; i < 60000 && atomic_load(&sleeps_ms) < 15; i++)
		usleep(1000);
	assert_in_range(atomic_load(&sleeps_ms), 15, 20);
	settle();
	assert_true(knows(0));
}

/* It waits with others in a packet that finds no room, or no memory in the kernel. */
static void test_in_pack(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		fall_asleep();
		failure = i ? ENOBUFS : EAGAIN;
		end(i);
		assert_int_equal(failure, 0);
		while (knows(i))
			realagent_run();
	}
}

/* A new queue pair has the number, and the agent reads after the thread has tried in vain, and before it registers. */
static void test_new_rc(void **state)
{
	(void)state;
	fill_socket();
	end(0);
	have_it_look();
	conns[0] = mesh_conn_new(&context, &qps[0]);
	mesh_conn_queue(conns[0], false);
	atomic_store(&meanwhile, realagent_run);
	have_it_look();
	assert_null(atomic_load(&meanwhile));
	settle();
	assert_true(knows(0));
	assert_int_equal(atomic_load(&n_registrations[0]), 1);
	assert_int_equal(atomic_load(&n_unregistrations[0]), 0);
	/* The registration ends with that one. */
	end(0);
	settle();
	assert_false(knows(0));
}

static void ud_add(unsigned int i)
{
	const struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};

	mesh_ud_modified(&context, &qps[i], &attr, IBV_QP_STATE);
}

static void ud_add_and_read(void)
{
	ud_add(0);
	realagent_run();
}

static void test_new_ud(void **state)
{
	(void)state;
	end(0);
	ud_add(0);
	settle();
	assert_true(knows(0));
	atomic_store(&n_registrations[0], 0);
	atomic_store(&n_unregistrations[0], 0);
	fill_socket();
	mesh_ud_gone(&context, &qps[0]);
	have_it_look();
	atomic_store(&meanwhile, ud_add_and_read);
	have_it_look();
	assert_null(atomic_load(&meanwhile));
	settle();
	assert_true(knows(0));
	assert_int_equal(atomic_load(&n_registrations[0]), 1);
	assert_int_equal(atomic_load(&n_unregistrations[0]), 0);
	mesh_ud_gone(&context, &qps[0]);
	settle();
	assert_false(knows(0));
}

/* Also the agent that has it registered is not to keep it for one that is gone before its registration. */
static void test_never_registered(void **state)
{
	(void)state;
	fill_socket();
	end(0);
	conns[0] = mesh_conn_new(&context, &qps[0]); /* not queued */
	have_it_look();
	realagent_run();
	settle();
	end(0);
	settle();
	assert_false(knows(0));
}

static void test_bound(void **state)
{
	struct mv_frame frame = {.type = MV_FRAME_UNREGISTER_QP, .device = "mlx5_0"};
	unsigned int i;

	(void)state;
	fill_socket();
	for (i = 0; i < MESH_PENDING_UNREGISTER_MAX + 10; i++) {
		frame.qpn = 1000 + i;
		assert_int_equal(mesh_thread_frame(&frame), -EAGAIN);
	}
	settle();
	while (atomic_load(&n_other_unregistrations) < MESH_PENDING_UNREGISTER_MAX)
		realagent_run();
	settle();
	/* One may be in the thread's hands. */
	assert_in_range(atomic_load(&n_other_unregistrations), MESH_PENDING_UNREGISTER_MAX, MESH_PENDING_UNREGISTER_MAX + 1);
}

static void close_socket(void)
{
	close(atomic_load(&socket_fd));
}

/* Somebody closes all descriptors, and the next connection has been made before anything is said again. */
static void test_closed(void **state)
{
	uint64_t before = clients.count.connected;

	(void)state;
	fill_socket();
	end(0);
	have_it_look();
	atomic_fetch_add(&now_ns, S);
	atomic_store(&meanwhile, close_socket);
	while (clients.count.connected == before) {
		have_it_look();
		realagent_run();
	}
	settle();
	assert_int_equal(clients.count.connected, before + 1);
	assert_int_equal(atomic_load(&n_unregistrations[0]), 0);
	assert_false(knows(0));
	assert_true(knows(1));
}

static void test_without_memory(void **state)
{
	const struct mv_frame unregister = {.type = MV_FRAME_UNREGISTER_QP, .device = "mlx5_0", .qpn = 7};
	struct mesh_pending_unregister pending = {.n = 0};
	struct mv_frame frame;

	(void)state;
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_false(mesh_pending_unregister_add(&pending, &unregister));
	fault_disarm();
	assert_false(mesh_pending_unregister_take(&pending, &frame));
	assert_true(mesh_pending_unregister_add(&pending, &unregister));
	assert_false(mesh_pending_unregister_add(&pending, &unregister));
	assert_true(mesh_pending_unregister_take(&pending, &frame));
	assert_int_equal(frame.type, MV_FRAME_UNREGISTER_QP);
	assert_int_equal(frame.qpn, 7);
	assert_string_equal(frame.device, "mlx5_0");
	mesh_pending_unregister_drop(&pending);
	assert_false(mesh_pending_unregister_take(&pending, &frame));
	assert_true(mesh_pending_unregister_add(&pending, &unregister));
	mesh_pending_unregister_drop(&pending);
}

/* It has as many as it takes, and closes each one at once. */
static void test_refused(void **state)
{
	uint64_t before = clients.count.refused, passed;

	(void)state;
	clients.max = 0;
	disconnect();
	for (passed = 0; passed < 5; passed++) {
		for (int i = 0; i < 10; i++)
			settle();
		assert_in_range(clients.count.refused - before, passed, passed + 2);
		atomic_fetch_add(&now_ns, RECONNECT_NS << passed);
	}
	/* Less and less often, */
	atomic_fetch_add(&now_ns, 32 * RECONNECT_NS);
	before = clients.count.refused;
	for (passed = 0; passed < 8; passed++) {
		settle();
		atomic_fetch_add(&now_ns, RECONNECT_NS);
	}
	assert_in_range(clients.count.refused - before, 0, 1);
	/* until it is welcome. */
	clients.max = 8;
	atomic_fetch_add(&now_ns, 32 * RECONNECT_NS);
	settle();
	assert_int_equal(clients.n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_memory), /* before there is a thread, which allocates as well */
		cmocka_unit_test_setup(test_sent_again, setup),
		cmocka_unit_test_setup(test_sent_again, setup_no_packs),
		cmocka_unit_test_setup(test_asleep, setup),
		cmocka_unit_test_setup(test_rests, setup),
		cmocka_unit_test_setup(test_registration_waits, setup),
		cmocka_unit_test_setup(test_asleep, setup_no_packs),
		cmocka_unit_test_setup(test_in_pack, setup),
		cmocka_unit_test_setup(test_new_rc, setup),
		cmocka_unit_test_setup(test_new_rc, setup_no_packs),
		cmocka_unit_test_setup(test_new_ud, setup),
		cmocka_unit_test_setup(test_new_ud, setup_no_packs),
		cmocka_unit_test_setup(test_never_registered, setup),
		cmocka_unit_test_setup(test_bound, setup),
		cmocka_unit_test_setup(test_closed, setup),
		cmocka_unit_test_setup(test_refused, setup),
	};

	return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
