// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* An agent that has nothing to say of a path, or no room for so many: what is asked again, and when. */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>

#include "monitor_fixture.h"

#define N_MANY 2000 /* beyond what an agent watches for one process */

static struct mesh_path_watch *many[N_MANY];

static void use_many(void)
{
	union ibv_gid a = gid("10.1.0.1"), b = gid("10.1.0.2");
	unsigned int i;

	for (i = 0; i < N_MANY; i++) {
		b.raw[14] = (uint8_t)(i >> 8);
		b.raw[15] = (uint8_t)i;
		mesh_path_monitor_use(&many[i], MV_WATCH_WORK, &a, &b);
	}
}

static void drop_many(void)
{
	unsigned int i;

	for (i = 0; i < N_MANY; i++)
		drop(&many[i], MV_WATCH_WORK);
}

/* What it refuses is not asked with each change, nor forgotten. */
static void test_many_refused(void **state)
{
	uint64_t now = 5 * SECOND, next = NEVER;
	unsigned int i;

	(void)state;
	mesh_path_monitor_agent(true);
	use_many();
	assert_true(mesh_path_monitor_run(now) == NEVER);
	assert_int_equal(n_sent, N_MANY);
	/* A hundred changes in less than a second; the first may be what it waited for. */
	for (i = 0; i < 100; i++) {
		mesh_path_monitor_changed();
		next = mesh_path_monitor_run(now + i * SECOND / 101);
		assert_int_equal(n_sent, 2 * N_MANY);
		assert_true(!i || (next >= now + SECOND && next <= now + 2 * SECOND));
	}
	/* Nothing changes any more; the others have not been in vain. */
	assert_true(mesh_path_monitor_run(next - 1) == next);
	assert_int_equal(n_sent, 2 * N_MANY);
	assert_true(mesh_path_monitor_run(next) == NEVER);
	assert_int_equal(n_sent, 3 * N_MANY);
	assert_true(mesh_path_monitor_run(next + 1000 * SECOND) == NEVER);
	assert_int_equal(n_sent, 3 * N_MANY);
	drop_many();
}

/* An hour of changes: at once, and then after 1, 2, 4, ... 64, 64 s. */
static void test_ever_more_seldom(void **state)
{
	uint64_t now, asked_at = 0, wait = 0;
	struct mesh_path_watch *work = NULL, *primary = NULL;
	unsigned int n = 1;

	(void)state;
	mesh_path_monitor_agent(true);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	mesh_path_monitor_run(0);
	for (now = SECOND / 10; now < 3600 * SECOND; now += SECOND / 10) {
		mesh_path_monitor_changed();
		mesh_path_monitor_run(now);
		if (n_sent == n)
			continue;
		assert_int_equal(n_sent, ++n);
		assert_true(now - asked_at >= wait && now - asked_at <= wait + SECOND);
		asked_at = now;
		wait = !wait ? SECOND : wait < 64 * SECOND ? 2 * wait : wait;
	}
	assert_in_range(n, 55, 65);
	/* What is new goes out at once all the same. */
	use(&primary, MV_WATCH_PRIMARY, PRIMARY_PATH);
	mesh_path_monitor_run(asked_at + 1);
	assert_int_equal(n_sent, n + 1);
	drop(&primary, MV_WATCH_PRIMARY);
	mesh_path_monitor_run(asked_at + 2);
	assert_int_equal(n_sent, n + 2);
	/* Another agent is another matter. */
	mesh_path_monitor_agent(true);
	mesh_path_monitor_run(asked_at + 3);
	mesh_path_monitor_changed();
	mesh_path_monitor_run(asked_at + 4);
	assert_int_equal(n_sent, n + 4);
	mesh_path_monitor_changed();
	assert_true(mesh_path_monitor_run(asked_at + 5) <= asked_at + 2 * SECOND);
	/* It has said something. */
	told(PRIMARY_PATH, MV_PROBED_UNKNOWN);
	assert_true(mesh_path_monitor_run(asked_at + 100 * SECOND) == NEVER);
	assert_int_equal(n_sent, n + 4);
	drop(&work, MV_WATCH_WORK);
}

/* Times that lie close together are one. */
static void test_one_turn_for_many(void **state)
{
	uint64_t now = 5 * SECOND, end = now + 2 * SECOND, next;
	unsigned int i, n_turns = 0;

	(void)state;
	mesh_path_monitor_agent(true);
	use_many();
	mesh_path_monitor_run(now);
	/* They are asked one after another, each at another time. */
	for (i = 0; i < N_MANY; i++) {
		union ibv_gid a = gid("10.1.0.1"), b = gid("10.1.0.2");

		mesh_path_monitor_use(&many[i], MV_WATCH_WORK, NULL, NULL);
		mesh_path_monitor_run(now);
		b.raw[14] = (uint8_t)(i >> 8);
		b.raw[15] = (uint8_t)i;
		mesh_path_monitor_use(&many[i], MV_WATCH_WORK, &a, &b);
		mesh_path_monitor_run(now);
		mesh_path_monitor_changed();
		mesh_path_monitor_run(now += SECOND / N_MANY);
	}
	for (next = now; next < end; n_turns++) {
		now = next;
		next = mesh_path_monitor_run(now);
	}
	assert_true(n_turns <= 4);
	drop_many();
}

/* Where there is no room for one there is none for the rest, either. */
static void test_no_room_for_many(void **state)
{
	(void)state;
	mesh_path_monitor_agent(true);
	use_many();
	send_result = -EAGAIN;
	assert_true(mesh_path_monitor_run(SECOND) != NEVER);
	assert_int_equal(n_refused, 1);
	send_result = 0;
	assert_true(mesh_path_monitor_run(SECOND) == NEVER);
	assert_int_equal(n_sent, N_MANY);
	drop_many();
}

/* The host at the other end comes when much else has changed: it is asked for with the first directory that has it. */
static void test_host_comes_late(void **state)
{
	struct mesh_path_watch *work = NULL;
	uint64_t now = 5 * SECOND;
	unsigned int i;

	(void)state;
	mesh_path_monitor_agent(true);
	has_path = false;
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	assert_true(mesh_path_monitor_run(now) == NEVER);
	assert_int_equal(n_sent, 1);
	for (i = 0; i < 100; i++) {
		mesh_path_monitor_changed();
		assert_true(mesh_path_monitor_run(now += SECOND) == NEVER);
	}
	assert_int_equal(n_sent, 1);
	has_path = true;
	mesh_path_monitor_changed();
	mesh_path_monitor_run(now);
	assert_int_equal(n_sent, 2);
	assert_false(told(PRIMARY_PATH, MV_PROBED_UNKNOWN));
	drop(&work, MV_WATCH_WORK);
	mesh_path_monitor_run(now);
}

/* The agent takes no more of this process, which then gives some up: whatever the order, what was refused is asked for again. */
static void test_room_is_made(void **state)
{
	struct mesh_path_watch *works[2] = {NULL};
	unsigned int which;

	(void)state;
	for (which = 0; which < 2; which++) {
		mesh_path_monitor_agent(true);
		use(&works[0], MV_WATCH_WORK, PRIMARY_PATH);
		use(&works[1], MV_WATCH_WORK, OTHER_PATH);
		mesh_path_monitor_run(SECOND);
		n_sent = 0;
		drop(&works[which], MV_WATCH_WORK);
		mesh_path_monitor_run(SECOND);
		assert_int_equal(n_sent, 2);
		assert_int_equal(sent[0].watch, 0);
		assert_int_equal(sent[1].watch, MV_WATCH_WORK);
		drop(&works[!which], MV_WATCH_WORK);
		mesh_path_monitor_run(SECOND);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_many_refused, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_ever_more_seldom, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_one_turn_for_many, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_no_room_for_many, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_host_comes_late, monitor_setup, monitor_teardown),
		cmocka_unit_test_setup_teardown(test_room_is_made, monitor_setup, monitor_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
