// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Ports that flap: how long the primary path has to work before the connection returns to it. */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "failover_exec.h"
#include "failover_policy.h"
#include "oneconn.h"
#include "negotiateint.h"

#define HOLD_NS (5000 * MS) /* hold_down_ms */
#define SOON_NS (100 * MS)

int __wrap_mesh_failover_replay(struct mesh_vqp *h, uint32_t next_psn, uint32_t n_received, uint32_t max_rd_atomic,
				const struct mesh_failover_keys *keys);

int __wrap_mesh_failover_replay(struct mesh_vqp *h, uint32_t next_psn, uint32_t n_received, uint32_t max_rd_atomic,
				const struct mesh_failover_keys *keys)
{
	(void)next_psn;
	(void)n_received;
	(void)max_rd_atomic;
	(void)keys;
	assert_ptr_equal(h, &vqp);
	return 0;
}

static const struct mv_path primary = {.local_rail = 0,
				       .remote_rail = 0,
				       .local_gid = {.raw = {1}},
				       .remote_gid = {.raw = {2}},
				       .type = MV_GID_TYPE_ROCE_V2};
static const struct mv_path other = {
	.local_rail = 1, .remote_rail = 1, .local_gid = {.raw = {3}}, .remote_gid = {.raw = {4}}, .type = MV_GID_TYPE_ROCE_V2};

static int setup(void **state)
{
	oneconn_setup(state);
	is_well();
	conn.ends.local_type = MV_GID_TYPE_ROCE_V2;
	mesh_conn_settled(&conn);
	vqp.now = (struct mesh_shadow){.qp = &qp, .rts = true};
	return 0;
}

static int teardown(void **state)
{
	vqp.now = (struct mesh_shadow){0};
	mesh_root.config.stand_in = false;
	return oneconn_teardown(state);
}

static void check(enum mv_path_verdict verdict, const struct mv_path *path)
{
	decision.verdict = verdict;
	decision.n_paths = 1;
	decision.paths[0] = *path;
	mesh_conn_check(&conn, now_ns, now_ns);
}

/* The move has begun, for @reason, and succeeds. */
static void arrives(enum mv_ctl_reason reason, const struct mv_path *path)
{
	const struct mv_move_action activate = {.type = MV_DO_ACTIVATE, .replay = true};
	struct mv_move_action action;

	assert_true(conn.move.failover);
	assert_int_equal(conn.move.reason, reason);
	while (mv_move_next(&conn.move, &action))
		;
	conn.move.failover = false;
	conn.move.state = MV_MOVE_ACTIVE;
	conn.moving.next_path = (struct mesh_conn_path){.gid = path->local_gid, .peer_gid = path->remote_gid, .gid_type = path->type};
	mesh_conn_carry_out(&conn, &activate, now_ns);
	assert_int_equal(conn.state, MESH_CONN_MOVED);
}

static void moves(enum mv_ctl_reason reason, const struct mv_path *path)
{
	arrives(reason, path);
	assert_int_equal(conn.primary.away, path == &other);
}

/* The port at work goes down, and leaves no choice. */
static void port_goes_down(const struct mv_path *to)
{
	now_ns += SOON_NS;
	check(MV_PATH_LOCAL_DOWN, to);
	moves(MV_CTL_REASON_PORT, to);
}

/* Both ports are up, and stay so. */
static void returns_after(uint64_t hold_ns)
{
	check(MV_PATH_WORKS, &primary);
	now_ns += hold_ns - 1;
	check(MV_PATH_WORKS, &primary);
	assert_false(conn.move.failover);
	now_ns++;
	check(MV_PATH_WORKS, &primary);
	moves(MV_CTL_REASON_PRIMARY, &primary);
}

/* Each return after the hold-down comes too early. */
static void test_primary_port_flaps(void **state)
{
	uint64_t hold_ns;

	(void)state;
	for (hold_ns = HOLD_NS; hold_ns <= 8 * HOLD_NS; hold_ns *= 2) {
		port_goes_down(&other);
		returns_after(hold_ns);
	}
	now_ns += 4 * hold_ns;
	port_goes_down(&other);
	returns_after(HOLD_NS);
}

/* The other port sends the connection back each time: no hold-down has been too short. */
static void test_both_ports_flap(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 8; i++) {
		port_goes_down(&other);
		port_goes_down(&primary);
	}
	port_goes_down(&other);
	returns_after(HOLD_NS);
}

/* Nor does such a return take back what the connection has learned. */
static void test_other_port_flaps_once(void **state)
{
	(void)state;
	port_goes_down(&other);
	returns_after(HOLD_NS);
	port_goes_down(&other);
	port_goes_down(&primary);
	port_goes_down(&other);
	returns_after(2 * HOLD_NS);
	port_goes_down(&other);
	port_goes_down(&primary);
	now_ns += 16 * HOLD_NS;
	port_goes_down(&other);
	returns_after(HOLD_NS);
}

/* The move comes to nothing, and begins again a second later. */
static void comes_to_nothing(void)
{
	struct mv_move_action action;

	assert_true(conn.move.failover);
	while (mv_move_next(&conn.move, &action))
		;
	conn.move.failover = false;
	conn.move.state = MV_MOVE_ACTIVE;
	stay(MV_CTL_REASON_NO_PATH);
	now_ns += 1000 * MS;
}

/* Each attempt to leave the primary path is of the same failure. */
static void test_move_comes_to_nothing(void **state)
{
	unsigned int i;

	(void)state;
	port_goes_down(&other);
	returns_after(HOLD_NS);
	now_ns += SOON_NS;
	for (i = 0; i < 100; i++) {
		check(MV_PATH_LOCAL_DOWN, &other);
		comes_to_nothing();
	}
	port_goes_down(&other);
	returns_after(2 * HOLD_NS);
	/* The path has worked for a while since the last one. */
	now_ns += SOON_NS;
	check(MV_PATH_LOCAL_DOWN, &other);
	comes_to_nothing();
	now_ns += 16 * HOLD_NS;
	port_goes_down(&other);
	returns_after(HOLD_NS);
}

/* The port was down when the connection was made. */
static void made_elsewhere(enum mv_path_verdict verdict)
{
	conn.state = MESH_CONN_MOVED;
	conn.own_qp.verdict = verdict;
	conn.path = (struct mesh_conn_path){.gid = other.local_gid, .peer_gid = other.remote_gid, .gid_type = other.type};
	mesh_conn_settled(&conn);
}

static void test_stood_in(void **state)
{
	const enum mv_path_verdict verdicts[] = {MV_PATH_LOCAL_DOWN, MV_PATH_REMOTE_DOWN, MV_PATH_APART};
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		mesh_root.config.stand_in = false;
		made_elsewhere(verdicts[i]);
		assert_false(conn.primary.away);
		assert_true(mv_gid_equal(&conn.primary.gid, &other.local_gid));
		mesh_root.config.stand_in = true;
		made_elsewhere(verdicts[i]);
		assert_int_equal(conn.primary.away, i < 2);
	}
	made_elsewhere(MV_PATH_LOCAL_DOWN);
	assert_true(mv_gid_equal(&conn.primary.gid, &primary.local_gid));
	assert_true(mv_gid_equal(&conn.primary.peer_gid, &primary.remote_gid));
	assert_string_equal(conn.primary.device, context.device);
	returns_after(HOLD_NS);
}

/* A peer with stand_in = off leads to the path on which the connection was made: this end does not ask again. */
static void test_peer_has_another_primary(void **state)
{
	(void)state;
	mesh_root.config.stand_in = true;
	made_elsewhere(MV_PATH_REMOTE_DOWN);
	check(MV_PATH_WORKS, &primary);
	now_ns += HOLD_NS;
	check(MV_PATH_WORKS, &primary);
	arrives(MV_CTL_REASON_PRIMARY, &other);
	assert_false(conn.primary.away);
	assert_true(mv_gid_equal(&conn.primary.gid, &other.local_gid));
	now_ns += 100 * HOLD_NS;
	check(MV_PATH_WORKS, &primary);
	assert_false(conn.move.failover);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_primary_port_flaps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_both_ports_flap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_port_flaps_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_move_comes_to_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stood_in, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peer_has_another_primary, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
