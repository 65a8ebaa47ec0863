// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The table of connections: who is looked at, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "conn.h"

int __wrap_mesh_thread_wake(bool urgent);

/* There is none. */
int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

#define N 200 /* more than the table has places at first */

static struct mesh_process processes[5]; /* the table of a process is for ever */
static unsigned int n_processes;
static struct mesh_context context = {.device = "mlx5_0"};
static struct ibv_qp qps[N];
static struct mesh_conn *conns[N];

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	assert_true(n_processes < sizeof(processes) / sizeof(processes[0]));
	mesh_root.process = &processes[n_processes++];
	pthread_mutex_init(&mesh_root.process->conns_lock, NULL);
	for (i = 0; i < N; i++) {
		qps[i].qp_num = 100 + i;
		conns[i] = mesh_conn_new(&context, &qps[i]);
		assert_non_null(conns[i]);
	}
	return 0;
}

static int teardown(void **state)
{
	uint64_t next;
	struct mesh_conn *conn, *rest;
	unsigned int i;

	(void)state;
	for (i = 0; i < N; i++) {
		mesh_conn_unlink(conns[i]);
		mesh_conn_put(conns[i]);
	}
	for (conn = mesh_conns_take(UINT64_MAX, &next); conn; conn = rest) {
		rest = conn->next_taken;
		mesh_conn_put(conn);
	}
	mesh_conns_next_turn(); /* lets go of those that were waiting, and are gone */
	return 0;
}

/* How many are to be looked at; which[i] says whether conns[i] is one. */
static unsigned int take(uint64_t now_ns, bool *which, uint64_t *ret_next)
{
	struct mesh_conn *conn, *rest;
	unsigned int n = 0;

	memset(which, 0, N * sizeof(*which));
	for (conn = mesh_conns_take(now_ns, ret_next); conn; conn = rest) {
		rest = conn->next_taken;
		assert_false(which[conn->qpn - 100]);
		which[conn->qpn - 100] = true;
		n++;
		mesh_conn_put(conn);
	}
	return n;
}

static void test_due(void **state)
{
	bool which[N];
	uint64_t next;
	unsigned int i;

	(void)state;
	assert_int_equal(take(0, which, &next), 0);
	assert_true(next == UINT64_MAX);
	for (i = 0; i < N; i++)
		mesh_conn_queue_at(conns[i], 1000 + (i * 37) % N);
	mesh_conn_queue_at(conns[5], 500); /* earlier */
	mesh_conn_queue_at(conns[6], 5000); /* later does not count */
	assert_int_equal(take(499, which, &next), 0);
	assert_int_equal(next, 500);
	assert_int_equal(take(500, which, &next), 1);
	assert_true(which[5]);
	assert_int_equal(next, 1000);
	/* At once, and not once more at its time. */
	mesh_conn_queue(conns[7], false);
	assert_int_equal(take(600, which, &next), 1);
	assert_true(which[7]);
	/* One that is gone is not looked at. */
	mesh_conn_unlink(conns[8]);
	assert_int_equal(take(1000 + N, which, &next), N - 3);
	assert_true(which[6] && !which[5] && !which[7] && !which[8]);
	assert_true(next == UINT64_MAX);
}

static void test_turns(void **state)
{
	bool which[N];
	uint64_t next;

	(void)state;
	mesh_conns_next_turn(); /* of nobody */
	assert_false(mesh_conns_news());
	mesh_conn_wait_turn(conns[3]);
	mesh_conn_wait_turn(conns[1]);
	mesh_conn_wait_turn(conns[3]);
	mesh_conn_wait_turn(conns[2]);
	mesh_conns_next_turn();
	assert_true(mesh_conns_news());
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[3]);
	assert_false(mesh_conns_news());
	/* Who is gone has no turn, and keeps nobody from his. */
	mesh_conn_unlink(conns[1]);
	mesh_conns_next_turn();
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[2]);
	/* And it may wait again. */
	mesh_conn_wait_turn(conns[3]);
	mesh_conn_wait_turn(conns[4]);
	mesh_conns_next_turn();
	mesh_conns_next_turn();
	assert_int_equal(take(0, which, &next), 2);
	assert_true(which[3] && which[4]);
	mesh_conn_wait_turn(conns[9]); /* for teardown() */
}

/* Those that wait need not have a reason to move. Each that has none calls the next, or they would wait for one that ends. */
static void test_turn_is_passed_on(void **state)
{
	uint64_t next, deadline;
	bool which[N];

	(void)state;
	mesh_conn_wait_turn(conns[1]);
	mesh_conn_wait_turn(conns[2]);
	mesh_conn_run(conns[0], 1, 1, &deadline);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[1]);
	mesh_conn_run(conns[1], 1, 1, &deadline);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[2]);
	/* Not while as many move as may. */
	mesh_conn_wait_turn(conns[3]);
	atomic_store(&mesh_root.process->n_moving, 1000);
	mesh_conn_run(conns[2], 1, 1, &deadline);
	assert_int_equal(take(0, which, &next), 0);
	atomic_store(&mesh_root.process->n_moving, 0);
}

/* One that the program has destroyed while it moved leaves its turn to others. */
static void test_turn_of_one_that_is_gone(void **state)
{
	bool which[N];
	uint64_t next;

	(void)state;
	conns[0]->counted = true;
	mesh_root.process->n_moving = 1000;
	mesh_conn_wait_turn(conns[1]);
	assert_false(mesh_conn_has_turn());
	conns[0]->gone = true;
	mesh_root.process->n_moving = 1;
	mesh_conn_moves_no_more(conns[0]);
	assert_int_equal(mesh_root.process->n_moving, 0);
	assert_false(conns[0]->counted);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[1]);
	mesh_conn_moves_no_more(conns[0]);
	assert_int_equal(mesh_root.process->n_moving, 0);
}

static void test_claims(void **state)
{
	(void)state;
	assert_true(mesh_conn_claim(conns[0]));
	assert_false(mesh_conn_claim(conns[0]));
	mesh_conn_unclaimed(conns[0]);
	assert_true(mesh_conn_claim(conns[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_due, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turn_is_passed_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turn_of_one_that_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_claims, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
