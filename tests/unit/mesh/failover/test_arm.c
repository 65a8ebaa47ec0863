// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Hundreds of connections want a queue pair made in advance at once: each comes when it is its turn, and not before. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "paths.h"
#include "arm.h"

#define MS    1000000ull
#define CONNS 100

uint64_t __wrap_mesh_now_ns(void);
void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret);

static uint64_t clock_ns, cost_ns;
static unsigned int n_looked;

uint64_t __wrap_mesh_now_ns(void)
{
	return clock_ns;
}

/* There is none; to find that out takes as long as to make one. */
void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	(void)request;
	memset(ret, 0, sizeof(*ret));
	n_looked++;
	clock_ns += cost_ns;
}

static struct mesh_process process;
static struct mesh_context context;
static struct ibv_qp qp;
static struct mesh_conn conns[CONNS];
static uint64_t at_ns[CONNS];

static int setup(void **state)
{
	size_t i;

	(void)state;
	memset(&process, 0, sizeof(process));
	memset(conns, 0, sizeof(conns));
	mesh_root.process = &process;
	mesh_root.config.survive = MV_SURVIVE_ON;
	for (i = 0; i < CONNS; i++) {
		conns[i].mc = &context;
		conns[i].qp = &qp;
		conns[i].state = MESH_CONN_PASSTHROUGH;
		at_ns[i] = 1000 * MS;
	}
	clock_ns = 1000 * MS;
	cost_ns = 400000;
	n_looked = 0;
	return 0;
}

/* One round of the helper thread. Return: how many it came for. */
static unsigned int round_at(uint64_t now_ns)
{
	unsigned int n = 0;
	size_t i;

	clock_ns = now_ns;
	for (i = 0; i < CONNS; i++) {
		if (at_ns[i] > now_ns)
			continue;
		at_ns[i] = mesh_conn_arm(&conns[i], now_ns);
		n++;
	}
	return n;
}

/* Rounds until none wants to come again. Return: how many came, all in all. */
static unsigned int all_rounds(void)
{
	unsigned int n = 0;
	uint64_t next;
	size_t i;

	for (;;) {
		for (next = UINT64_MAX, i = 0; i < CONNS; i++)
			if (at_ns[i] < next)
				next = at_ns[i];
		if (next == UINT64_MAX)
			return n;
		n += round_at(next > clock_ns ? next : clock_ns);
	}
}

static void test_each_comes_once_more(void **state)
{
	unsigned int n;

	(void)state;
	n = all_rounds();
	assert_int_equal(n_looked, CONNS);
	assert_in_range(n, CONNS + 1, 2 * CONNS); /* the first few need not wait */
}

/* Making one takes longer than was thought: those that come too early go to the end of the queue. */
static void test_slow(void **state)
{
	unsigned int n;

	(void)state;
	cost_ns = 5 * MS;
	n = all_rounds();
	assert_int_equal(n_looked, CONNS);
	assert_in_range(n, CONNS + 1, 8 * CONNS);
}

static void test_not_while_others_move(void **state)
{
	(void)state;
	process.moves.last_ns = 990 * MS;
	assert_int_equal(round_at(1000 * MS), CONNS);
	assert_int_equal(n_looked, 0);
	assert_in_range(at_ns[0], 1240 * MS, 1250 * MS);
	process.moves.last_ns = 1050 * MS;
	assert_true(round_at(1290 * MS) > 0);
	assert_int_equal(n_looked, 0);
	assert_true(all_rounds() <= 4 * CONNS);
	assert_int_equal(n_looked, CONNS);
}

/* Something else has it looked at again. */
static void test_keeps_its_turn(void **state)
{
	uint64_t last_ns;

	(void)state;
	process.moves.last_ns = 1000 * MS;
	round_at(1000 * MS);
	last_ns = process.standby.turn_ns;
	assert_int_equal(mesh_conn_arm(&conns[CONNS - 1], 1010 * MS), at_ns[CONNS - 1]);
	assert_int_equal(process.standby.turn_ns, last_ns);
	assert_int_equal(n_looked, 0);
}

/* Those that were before it in the queue have gone, and do not keep the next one waiting for their time. */
static void test_gone(void **state)
{
	uint64_t late_ns = 0;
	unsigned int i;

	(void)state;
	process.moves.last_ns = 1000 * MS;
	for (i = 0; i < 1000000; i++) {
		conns[0].primary.turn_ns = 0; /* another one each time */
		late_ns = mesh_conn_arm(&conns[0], 1000 * MS);
		assert_in_range(late_ns, 1250 * MS, 11350 * MS);
	}
	assert_int_equal(n_looked, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_each_comes_once_more, setup),
		cmocka_unit_test_setup(test_slow, setup),
		cmocka_unit_test_setup(test_not_while_others_move, setup),
		cmocka_unit_test_setup(test_keeps_its_turn, setup),
		cmocka_unit_test_setup(test_gone, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
