/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The agent has doubts about a path: connections agree on another one meanwhile, and nothing is drained before it is
 * sure.
 */
#include "suspect_fixture.h"

#include <errno.h>

#include "path_monitor.h"
#include "ports.h"
#include "negotiateint.h"

static void test_dead(void **state)
{
	(void)state;
	prepare();
	check();
	assert_int_equal(conn.move.state, MV_MOVE_QUIESCING);
	assert_int_equal(n_taken, 0);
	found(MV_PROBED_DOWN);
	assert_goes(MV_CTL_REASON_PATH);
}

/* What has been agreed upon answers, so no other path is looked for: hundreds would, in that moment. */
static void test_dead_and_agreed(void **state)
{
	(void)state;
	prepare();
	conn.move.next.mine.gid = alternate_local;
	conn.move.next.peer.gid = alternate_remote;
	n_searched = 0;
	found(MV_PROBED_DOWN);
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_false(conn.move.unsure);
	assert_int_equal(n_searched, 0);
}

/* It does not answer any more: is there another? */
static void test_dead_but_agreed(void **state)
{
	(void)state;
	prepare();
	conn.move.next.mine.gid = alternate_local;
	conn.move.next.peer.gid = alternate_remote;
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, MV_PROBED_DOWN);
	n_searched = 0;
	found(MV_PROBED_DOWN);
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_int_not_equal(n_searched, 0);
}

/* That is known before both are ready. */
static void test_dead_soon(void **state)
{
	(void)state;
	prepare();
	conn.move.state = MV_MOVE_CONNECTING;
	found(MV_PROBED_DOWN);
	check();
	assert_int_equal(conn.move.state, MV_MOVE_CONNECTING);
	assert_false(conn.move.unsure);
	mv_move_connected(&conn.move, true, now_ns);
	quiesce();
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
}

/*
 * Where another path is better by now, or what was made in advance is gone, it begins anew; not where a batch is in the
 * way.
 */
static void sure_but(int error, enum mv_probed alternate)
{
	prepare();
	take_error = error;
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, alternate);
	found(MV_PROBED_DOWN);
	mesh_conn_check(&conn, now_ns, now_ns);
	conn.move.attempts.peer = 0; /* there is no rail that could be prepared */
	quiesce();
}

static void test_gone_meanwhile(void **state)
{
	(void)state;
	sure_but(-ENOENT, MV_PROBED_UP);
	assert_int_equal(conn.move.state, MV_MOVE_ASKING);
	assert_true(conn.move.failover);
	assert_false(conn.move.early);
	assert_int_equal(conn.move.reason, MV_CTL_REASON_PATH);
}

static void test_in_a_batch(void **state)
{
	(void)state;
	sure_but(-EBUSY, MV_PROBED_UP);
	assert_int_equal(conn.move.state, MV_MOVE_QUIESCING);
	assert_true(conn.move.early);
	take_error = 0;
	mv_move_tick(&conn.move, now_ns + 10 * MS);
	quiesce();
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
}

static void test_better_path(void **state)
{
	(void)state;
	decision.n_paths = 2;
	decision.paths[1] = decision.paths[0];
	decision.paths[1].local_gid.raw[0] = 5;
	decision.paths[1].local_rail = 2;
	sure_but(0, MV_PROBED_SILENT);
	assert_int_equal(n_taken, 0);
	assert_int_equal(conn.move.state, MV_MOVE_ASKING);
	assert_false(conn.move.early);
	assert_memory_equal(&conn.move.paths.list[0].local_gid, &decision.paths[1].local_gid, 16);
}

static void test_no_path_any_more(void **state)
{
	(void)state;
	prepare();
	found(MV_PROBED_DOWN);
	mesh_conn_check(&conn, now_ns, now_ns);
	decision.n_paths = 0;
	quiesce();
	carry_out();
	assert_false(conn.move.failover);
	assert_int_equal(n_taken, 0);
	assert_int_equal(sent.type, MV_CTL_REFUSE);
}

static void test_well(void **state)
{
	uint64_t hold_ns = conn.primary.hold_ns;

	(void)state;
	conn.primary.returned_at_ns = now_ns;
	prepare();
	found(MV_PROBED_UP);
	/* There may be another reason. */
	assert_int_equal(check(), now_ns);
	assert_is_off();
	assert_int_equal(sent.type, MV_CTL_REFUSE);
	assert_int_equal(sent.reason, MV_CTL_REASON_HEALED);
	check();
	assert_false(conn.move.failover);
	/* It was no flap. */
	assert_int_equal(conn.primary.hold_ns, hold_ns);
	assert_true(conn.primary.returned_at_ns);
	/* The next one. */
	now_ns += 20 * MS;
	prepare();
	found(MV_PROBED_DOWN);
	assert_goes(MV_CTL_REASON_PATH);
	assert_true(conn.primary.hold_ns > hold_ns);
}

/* The agent is stopped; what its doubts have held back at the peer goes on. Once for each. */
static void test_nothing_comes_of_it(void **state)
{
	(void)state;
	prepare();
	now_ns += MESH_SUSPECT_NS;
	check();
	assert_is_off();
	assert_int_equal(sent.reason, MV_CTL_REASON_HEALED);
	check();
	assert_false(conn.move.failover);
	found(MV_PROBED_DOWN);
	check();
	assert_true(conn.move.failover);
	assert_false(conn.watched.prepares);
}

/* It is over before what is under way can be called off; and then it is sure. */
static void test_called_off_late(void **state)
{
	uint64_t hold_ns = conn.primary.hold_ns;

	(void)state;
	conn.primary.returned_at_ns = now_ns;
	prepare();
	conn.move.state = MV_MOVE_CONNECTING;
	found(MV_PROBED_UP);
	assert_int_equal(check(), UINT64_MAX); /* whoever is at it has it looked at */
	assert_true(conn.move.failover);
	found(MV_PROBED_DOWN);
	check();
	assert_true(conn.move.failover);
	assert_int_equal(conn.move.state, MV_MOVE_CONNECTING);
	mv_move_connected(&conn.move, true, now_ns);
	carry_out();
	assert_false(conn.move.failover);
	assert_int_equal(conn.primary.hold_ns, 2 * hold_ns); /* one flap */
}

static void test_peers_word(void **state)
{
	(void)state;
	prepare();
	mv_move_sure(&conn.move, MV_CTL_REASON_PORT, now_ns); /* so the transaction has heard */
	now_ns += 5 * MS;
	assert_true(conn.watched.prepares);
	quiesce();
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
	assert_int_equal(conn.moving.since_ns, now_ns);
	assert_false(conn.watched.prepares);
}

/* What the suspicion connected otherwise is told of again; by the leader. */
static void test_stands_by_again(void **state)
{
	(void)state;
	conn.primary.standby.n_told = 99;
	prepare();
	found(MV_PROBED_UP);
	check();
	assert_int_equal(conn.primary.standby.n_told, 0);
	assert_true(conn.primary.standby.tell_ns > now_ns);
	conn.primary.standby.n_told = 99;
	conn.move.leader = false;
	mesh_conn_stands_by_again(&conn, now_ns);
	assert_int_equal(conn.primary.standby.n_told, 99);
}

/* The peer wants to leave for a reason of its own, which is none to note twice. */
static void test_flap_is_noted_once(void **state)
{
	const struct mv_move_action wanted = {.type = MV_DO_WANTED, .reason = MV_CTL_REASON_DRAIN};
	uint64_t hold_ns = conn.primary.hold_ns;

	(void)state;
	conn.primary.returned_at_ns = now_ns;
	prepare();
	conn.move.attempts.peer = 0;
	mesh_conn_carry_out(&conn, &wanted, now_ns);
	assert_false(conn.watched.prepares || conn.move.unsure);
	assert_int_equal(conn.move.reason, MV_CTL_REASON_DRAIN);
	assert_int_equal(conn.primary.hold_ns, 2 * hold_ns);
	mesh_conn_note_sure(&conn, now_ns);
	assert_int_equal(conn.primary.hold_ns, 2 * hold_ns);
}

static void test_port(void **state)
{
	(void)state;
	prepare();
	decision.verdict = MV_PATH_REMOTE_DOWN;
	assert_goes(MV_CTL_REASON_PORT);
}

/* A drained one works; it leaves when nothing else is under way. */
static void test_drained(void **state)
{
	(void)state;
	prepare();
	decision.verdict = MV_PATH_LOCAL_DOWN;
	decision.drained = true;
	check();
	assert_true(conn.move.unsure);
	found(MV_PROBED_UP);
	assert_int_equal(check(), now_ns);
	assert_is_off();
	check();
	assert_true(conn.move.failover);
	assert_int_equal(conn.move.reason, MV_CTL_REASON_DRAIN);
}

static int query_port(struct ibv_context *of, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	(void)of;
	(void)port;
	(void)size;
	attr->state = IBV_PORT_DOWN;
	return 0;
}

/* By its event, before the directory has it. */
static void test_own_port(void **state)
{
	struct verbs_context verbs = {.sz = sizeof(verbs), .query_port = query_port, .context.abi_compat = __VERBS_ABI_IS_EXTENDED};
	const struct ibv_async_event event = {.event_type = IBV_EVENT_PORT_ERR, .element.port_num = 1};
	struct ibv_context *before = qp.context;

	(void)state;
	prepare();
	qp.context = &verbs.context;
	conn.attr.rtr.ah_attr.port_num = 1;
	mesh_port_event(&context.ports_down, &event);
	assert_goes(MV_CTL_REASON_PORT);
	context.ports_down = 0;
	qp.context = before;
}

static void test_retries(void **state)
{
	(void)state;
	prepare();
	vqp.tracker->broken = true;
	assert_goes(MV_CTL_REASON_PATH);
}

/* All others are as dead: nothing to go to. */
static void test_all_dead(void **state)
{
	(void)state;
	prepare();
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, MV_PROBED_SILENT);
	found(MV_PROBED_DOWN);
	assert_int_equal(check(), now_ns);
	assert_is_off();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_dead, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_dead_and_agreed, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_dead_but_agreed, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_dead_soon, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_gone_meanwhile, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_in_a_batch, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_better_path, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_no_path_any_more, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_well, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_nothing_comes_of_it, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_called_off_late, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_peers_word, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_stands_by_again, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_flap_is_noted_once, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_port, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_drained, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_own_port, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_retries, suspect_setup, suspect_teardown),
		cmocka_unit_test_setup_teardown(test_all_dead, suspect_setup, suspect_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
