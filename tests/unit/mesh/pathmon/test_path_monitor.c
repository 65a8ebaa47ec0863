// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What a process has its agent watch, and what it makes of the answers. */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>

#include "monitor_fixture.h"

/* An agent that knows nothing of paths would end the connection. */
static void test_agent_without_probes(void **state)
{
	struct mesh_path_watch *work = NULL;

	(void)state;
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	assert_true(mesh_path_monitor_run(0) == NEVER);
	mesh_path_monitor_agent(false);
	assert_true(mesh_path_monitor_run(0) == NEVER);
	assert_false(mesh_path_monitor_on());
	assert_int_equal(n_sent, 0);
	mesh_path_monitor_agent(true);
	assert_true(mesh_path_monitor_on());
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), MV_WATCH_WORK);
	/* It goes, and what it did not hear is nothing to the next. */
	mesh_path_monitor_lost();
	assert_true(mesh_path_monitor_on());
	drop(&work, MV_WATCH_WORK);
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 1);
}

static void test_one_for_many(void **state)
{
	struct mesh_path_watch *work[100] = {NULL}, *primary = NULL;
	unsigned int i;

	(void)state;
	mesh_path_monitor_agent(true);
	for (i = 0; i < 100; i++)
		use(&work[i], MV_WATCH_WORK, PRIMARY_PATH);
	mesh_path_monitor_run(0);
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 1);
	use(&primary, MV_WATCH_PRIMARY, PRIMARY_PATH);
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), MV_WATCH_WORK | MV_WATCH_PRIMARY);
	for (i = 0; i < 100; i++)
		drop(&work[i], MV_WATCH_WORK);
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), MV_WATCH_PRIMARY);
	drop(&primary, MV_WATCH_PRIMARY);
	n_woken = 0;
	drop(&primary, MV_WATCH_PRIMARY);
	assert_int_equal(n_woken, 0);
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), 0);
	assert_int_equal(n_sent, 4);
	assert_false(told(PRIMARY_PATH, MV_PROBED_UP)); /* nobody's any more */
}

/* What is known of a path outlives the reason for which it is watched. */
static void test_moves_away(void **state)
{
	struct mesh_path_watch *work = NULL, *primary = NULL;
	union ibv_gid a = gid("10.1.0.1"), b = gid("10.1.0.2");

	(void)state;
	mesh_path_monitor_agent(true);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	mesh_path_monitor_run(0);
	assert_int_equal(mesh_path_monitor_state(work), MV_PROBED_UNKNOWN);
	assert_false(told(PRIMARY_PATH, MV_PROBED_UNKNOWN));
	assert_true(told(PRIMARY_PATH, MV_PROBED_DOWN));
	assert_false(told(PRIMARY_PATH, MV_PROBED_DOWN));
	use(&primary, MV_WATCH_PRIMARY, PRIMARY_PATH);
	use(&work, MV_WATCH_WORK, OTHER_PATH);
	mesh_path_monitor_run(0);
	assert_int_equal(mesh_path_monitor_state(work), MV_PROBED_UNKNOWN);
	assert_int_equal(mesh_path_monitor_state(primary), MV_PROBED_DOWN);
	assert_int_equal(mesh_path_monitor_find(&a, &b), MV_PROBED_DOWN);
	assert_int_equal(mesh_path_monitor_state(NULL), MV_PROBED_UNKNOWN);
	assert_int_equal(asked(PRIMARY_PATH), MV_WATCH_PRIMARY);
	assert_int_equal(asked(OTHER_PATH), MV_WATCH_WORK);
	/* Another agent has to find out for itself. */
	mesh_path_monitor_lost();
	assert_int_equal(mesh_path_monitor_state(primary), MV_PROBED_UNKNOWN);
	n_sent = 0;
	mesh_path_monitor_agent(true);
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 2);
	drop(&work, MV_WATCH_WORK);
	drop(&primary, MV_WATCH_PRIMARY);
}

static void test_alternates(void **state)
{
	struct mesh_path_watch *work = NULL;
	struct mv_path paths[6];
	unsigned int i;

	(void)state;
	mesh_path_monitor_agent(true);
	assert_false(mesh_path_monitor_wants_alternates(NULL, 1));
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	assert_true(mesh_path_monitor_wants_alternates(work, 1));
	assert_false(mesh_path_monitor_wants_alternates(work, 1));
	memset(paths, 0, sizeof(paths));
	for (i = 0; i < 6; i++) {
		paths[i].local_gid = gid("10.2.0.1");
		paths[i].remote_gid = gid("10.2.0.2");
		paths[i].remote_gid.raw[15] = (uint8_t)(2 + i);
	}
	mesh_path_monitor_alternates(work, paths, 6);
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 1 + MESH_ALTERNATES);
	assert_int_equal(asked(OTHER_PATH), MV_WATCH_ALTERNATE);
	assert_false(told(PRIMARY_PATH, MV_PROBED_UNKNOWN)); /* it has taken them */
	assert_false(told(OTHER_PATH, MV_PROBED_UNKNOWN));
	/* Another directory: one stays, the others go. */
	assert_true(mesh_path_monitor_wants_alternates(work, 2));
	n_sent = 0;
	mesh_path_monitor_alternates(work, paths, 1);
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, MESH_ALTERNATES - 1);
	assert_int_equal(asked(OTHER_PATH), -1);
	/* The work goes there: it stays watched, and has no use for alternates of the former one. */
	use(&work, MV_WATCH_WORK, OTHER_PATH);
	mesh_path_monitor_run(0);
	assert_int_equal(asked(OTHER_PATH), MV_WATCH_WORK);
	assert_int_equal(asked(PRIMARY_PATH), 0);
	drop(&work, MV_WATCH_WORK);
}

/* The agent's socket is full; it had no such host yet. */
static void test_again(void **state)
{
	struct mesh_path_watch *work = NULL;

	(void)state;
	mesh_path_monitor_agent(true);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	send_result = -EAGAIN;
	assert_true(mesh_path_monitor_run(1000) < 1000000000);
	send_result = 0;
	assert_true(mesh_path_monitor_run(1000) == NEVER);
	assert_int_equal(n_sent, 1);
	mesh_path_monitor_changed();
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 2);
	told(PRIMARY_PATH, MV_PROBED_UP);
	mesh_path_monitor_changed();
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 2);
	drop(&work, MV_WATCH_WORK);
	send_result = -EAGAIN;
	assert_true(mesh_path_monitor_run(0) != NEVER);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH); /* wanted again before that was said */
	send_result = 0;
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), MV_WATCH_WORK);
	drop(&work, MV_WATCH_WORK);
}

/* Whatever it has not said, it hears that a path need not be watched any more. */
static void test_refused_or_not(void **state)
{
	struct mesh_path_watch *work = NULL;

	(void)state;
	mesh_path_monitor_agent(true);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	mesh_path_monitor_run(0);
	drop(&work, MV_WATCH_WORK);
	mesh_path_monitor_changed();
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), 0);
}

static enum mesh_path_monitor_change suspected(const char *local, const char *remote, uint64_t now_ns)
{
	struct mv_frame frame = {.type = MV_FRAME_SUSPECT, .sgid = gid(local), .dgid = gid(remote)};

	return mesh_path_monitor_told(&frame, now_ns);
}

/* The agent has doubts, and says in a moment what comes of them; or ends before that. */
static void test_suspect(void **state)
{
	struct mesh_path_watch *work = NULL;
	struct mv_frame frame = {.type = MV_FRAME_PATH, .sgid = gid("10.1.0.1"), .dgid = gid("10.1.0.2"), .probed = MV_PROBED_UP};

	(void)state;
	assert_int_equal(mesh_path_monitor_suspect(NULL, SECOND), 0);
	assert_int_equal(suspected(PRIMARY_PATH, SECOND), MESH_MONITOR_NOTHING);
	mesh_path_monitor_agent(true);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	assert_int_equal(mesh_path_monitor_told(&frame, SECOND), MESH_MONITOR_CHANGED);
	assert_int_equal(mesh_path_monitor_told(&frame, SECOND), MESH_MONITOR_NOTHING);
	assert_int_equal(mesh_path_monitor_suspect(work, SECOND), 0);
	assert_int_equal(suspected(PRIMARY_PATH, SECOND), MESH_MONITOR_CHANGED);
	assert_int_equal(mesh_path_monitor_state(work), MV_PROBED_UP);
	assert_int_equal(mesh_path_monitor_suspect(work, SECOND + 1), SECOND);
	/* All is well. */
	assert_int_equal(mesh_path_monitor_told(&frame, SECOND + 2), MESH_MONITOR_URGENT);
	assert_int_equal(mesh_path_monitor_suspect(work, SECOND + 2), 0);
	assert_int_equal(mesh_path_monitor_told(&frame, SECOND + 2), MESH_MONITOR_NOTHING);
	/* It is not. */
	suspected(PRIMARY_PATH, 2 * SECOND);
	frame.probed = MV_PROBED_DOWN;
	assert_int_equal(mesh_path_monitor_told(&frame, 2 * SECOND), MESH_MONITOR_URGENT);
	assert_int_equal(mesh_path_monitor_suspect(work, 2 * SECOND), 0);
	/* Nothing is heard any more. */
	suspected(PRIMARY_PATH, 3 * SECOND);
	assert_int_equal(mesh_path_monitor_suspect(work, 3 * SECOND + MESH_SUSPECT_NS - 1), 3 * SECOND);
	assert_int_equal(mesh_path_monitor_suspect(work, 3 * SECOND + MESH_SUSPECT_NS), 0);
	mesh_path_monitor_lost();
	assert_int_equal(mesh_path_monitor_suspect(work, 3 * SECOND), 0);
	drop(&work, MV_WATCH_WORK);
	mesh_path_monitor_run(4 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_agent_without_probes, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_one_for_many, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_moves_away, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_alternates, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_again, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_refused_or_not, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_suspect, monitor_setup, monitor_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
