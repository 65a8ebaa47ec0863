// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The table of connections: which of them run when. */
#include <string.h>

#include "conntable.h"
#include "udint.h"

/* Without a helper thread. */
static unsigned int take_all(void)
{
	struct mesh_conn *conn, *rest;
	unsigned int n = 0;

	mesh_lock(&mesh_root.process->conns.lock);
	conn = mesh_conns_take_all_locked();
	mesh_unlock(&mesh_root.process->conns.lock);
	for (; conn; conn = rest) {
		rest = conn->schedule.next_taken;
		mesh_conn_put(conn);
		n++;
	}
	return n;
}

/* Of hundreds, what is new comes first. */
static void test_new_ones_first(void **state)
{
	bool which[N] = {false}, again[N];
	unsigned int n, i, old = N, taken = 0, rounds;
	uint64_t next;

	(void)state;
	/* The last one of all, if nothing is new. */
	mesh_conns_queue_all(true);
	do {
		memcpy(again, which, sizeof(again));
		n = take_some(7, which, &next);
		for (i = 0; i < N; i++)
			if (which[i] && !again[i])
				old = i;
	} while (n);
	memset(which, 0, sizeof(which));
	mesh_conns_queue_all(true);
	n = take_some(7, which, &next);
	assert_in_range(n, 16, N / 2);
	assert_int_equal(next, 7);
	assert_false(which[old]);
	/* One that is new, one that is due, and one that has been left is queued again. */
	while (!which[taken])
		taken++;
	mesh_conn_queue(conns[taken], false);
	for (i = taken + 1; !which[i]; i++)
		;
	mesh_conn_queue_at(conns[i], 8);
	mesh_conn_queue_at(conns[old], 9000); /* it is to be looked at, at once */
	mesh_conn_queue(conns[old], false);
	memset(again, 0, sizeof(again));
	n += take_some(8, again, &next);
	assert_true(again[taken] && again[i] && again[old]);
	which[taken] = which[i] = false;
	for (i = 0; i < N; i++) {
		assert_false(which[i] && again[i]);
		which[i] |= again[i];
	}
	/* What goes is not looked for among those that are left, and what is new each time keeps none of them waiting for ever. */
	for (rounds = 0; n < N + 2; rounds++) {
		assert_true(rounds < 20);
		for (i = 0; i < N; i++)
			if (which[i])
				mesh_conn_queue(conns[i], false);
		memset(again, 0, sizeof(again));
		take_some(9, again, &next);
		for (i = 0; i < N; i++) {
			n += again[i] && !which[i];
			which[i] |= again[i];
		}
	}
	take(9, again, &next);
	assert_int_equal(take(8999, again, &next), 0);
	assert_true(next == UINT64_MAX);
}

/* One that is left comes when it is due, however many are before it; what was due and is left as well; and changes take nobody's place. */
static void test_left_and_due(void **state)
{
	bool which[N] = {false}, again[N] = {false};
	unsigned int i, n_due = 0, rounds = 0, last = N;
	uint64_t next;

	(void)state;
	mesh_conns_queue_all(true);
	while (take_some(1, which, &next)) {
		rounds++;
		for (i = 0; i < N; i++)
			if (which[i] && !again[i])
				last = i;
		memcpy(again, which, sizeof(again));
	}
	assert_in_range(rounds, 3, 20);
	memset(which, 0, sizeof(which));
	mesh_conn_queue_at(conns[last], 5);
	mesh_conns_queue_all(true);
	take_some(2, which, &next);
	assert_false(which[last]);
	take_some(5, which, &next);
	assert_true(which[last]);
	take(5, which, &next);
	/* All are due at once. */
	for (i = 0; i < N; i++)
		mesh_conn_queue_at(conns[i], 10);
	for (i = 0; i < rounds; i++) {
		memset(which, 0, sizeof(which));
		n_due += take_some(10, which, &next);
	}
	assert_int_equal(n_due, N);
	/* As long as there are changes each time. */
	memset(again, 0, sizeof(again));
	for (i = 0; i < 2 * rounds; i++) {
		mesh_conns_queue_all(true);
		memset(which, 0, sizeof(which));
		take_some(11, which, &next);
		for (unsigned int k = 0; k < N; k++)
			again[k] |= which[k];
	}
	for (i = 0; i < N; i++)
		assert_true(again[i]);
	take(12, which, &next);
	/* One that is left may be told when it is due. */
	mesh_conns_queue_all(true);
	memset(which, 0, sizeof(which));
	take_some(13, which, &next);
	mesh_conn_queue_at(conns[last], 14);
	memset(which, 0, sizeof(which));
	take_some(14, which, &next);
	assert_true(which[last]);
	take(14, again, &next);
	/* More are due than there is room for. */
	mesh_conns_queue_all(true);
	memset(again, 0, sizeof(again));
	take_some(15, again, &next);
	for (i = 0, n_due = 0; i < N && n_due < 60; i++) {
		if (again[i])
			continue;
		mesh_conn_queue_at(conns[i], 16);
		again[i] = true;
		n_due++;
	}
	memset(which, 0, sizeof(which));
	take_some(16, which, &next);
	take_some(16, which, &next);
	while (i-- > 0)
		n_due -= again[i] && which[i];
	assert_int_equal(n_due, 0);
	/* More than that are due each time, and none is kept waiting for ever; nor are those that are only left. */
	mesh_conns_queue_all(true);
	memset(which, 0, sizeof(which));
	take(17, which, &next);
	memset(again, 0, sizeof(again));
	for (rounds = 0; rounds < 20; rounds++) {
		for (i = 0; i < N - 80; i++)
			mesh_conn_queue_at(conns[i], 18 + rounds);
		for (; i < N; i++)
			if (!rounds || which[i])
				mesh_conn_queue(conns[i], false);
		memset(which, 0, sizeof(which));
		take_some(18 + rounds, which, &next);
		for (i = 0; i < N; i++)
			again[i] |= which[i];
	}
	for (i = 0; i < N; i++)
		assert_true(again[i]);
	/* What was due is left alone: it is there, and nobody sleeps. */
	take(50, which, &next);
	for (i = 0; i < N; i++)
		mesh_conn_queue_at(conns[i], 60);
	memset(which, 0, sizeof(which));
	n_due = take_some(60, which, &next);
	assert_in_range(n_due, 33, N - 33);
	assert_int_equal(next, 60);
	assert_int_equal(n_due + take_all(), N);
}

/* One that is left is destroyed, and all are given up. */
static void test_left_and_gone(void **state)
{
	bool which[N] = {false};
	unsigned int n, i;
	uint64_t next;

	(void)state;
	mesh_conns_queue_all(true);
	n = take_some(0, which, &next);
	for (i = 0; which[i]; i++)
		;
	mesh_conn_unlink(conns[i]);
	mesh_conn_queue(conns[i], false); /* too late */
	for (i++; which[i]; i++)
		;
	mesh_conn_queue(conns[i], false);
	assert_int_equal(n + take_all(), N);
	for (i = 0; i < N; i++)
		if (!conns[i]->table.linked)
			mesh_conn_queue(conns[i], false);
	assert_int_equal(take(0, which, &next), 0);
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

/* Put off with each look, as one that moves is: it comes at the last of these times, once, and nobody is woken for the others. */
static void test_put_off(void **state)
{
	bool which[N];
	uint64_t next, now;

	(void)state;
	mesh_conn_queue_at(conns[1], 450);
	for (now = 100; now < 400; now += 100) {
		mesh_conn_queue_at(conns[0], now + 50);
		mesh_conn_queue(conns[0], false);
		assert_int_equal(take(now, which, &next), 1);
		assert_true(which[0]);
		assert_int_equal(next, 450);
		mesh_conn_queue_at(conns[0], now + 220);
		assert_int_equal(take(now, which, &next), 0);
		assert_int_equal(next, now + 220 < 450 ? now + 220 : 450);
	}
	assert_int_equal(take(519, which, &next), 1);
	assert_true(which[1]);
	assert_int_equal(next, 520);
	assert_int_equal(take(520, which, &next), 1);
	assert_true(which[0]);
	/* Not any more at all. */
	mesh_conn_queue_at(conns[0], 600);
	mesh_conn_queue(conns[0], false);
	assert_int_equal(take(530, which, &next), 1);
	assert_true(next == UINT64_MAX);
	assert_int_equal(take(1000, which, &next), 0);
}

/* Changes concern those of which something is held or logged; a new agent has to hear of all. */
static void test_changes_of_own_qps(void **state)
{
	const union ibv_gid gid = {.raw = {0xfe, 0x80}};
	bool which[N];
	uint64_t next;
	unsigned int i;

	(void)state;
	for (i = 0; i < N; i++)
		mesh_conn_connected(conns[i], &gid, i != 7);
	assert_int_equal(take(0, which, &next), N);
	mesh_conns_queue_all(false);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[7]);
	mesh_conns_queue_all(true);
	assert_int_equal(take(0, which, &next), N);
}

/* Who has not moved may call others, too, and the thread that is to hear of it may be asleep. */
static void test_called_are_heard(void **state)
{
	bool which[N];
	uint64_t next;

	(void)state;
	n_urgent = 0;
	conns[0]->gone = true;
	mesh_conn_queue(conns[2], true); /* what others have to be looked at for is none of its business */
	mesh_move_limiter_end(conns[0]);
	assert_int_equal(n_urgent, 0);
	assert_int_equal(take(0, which, &next), 1);
	mesh_conn_wait_to_move(conns[1], MESH_MOVER_LEADS);
	mesh_move_limiter_end(conns[0]);
	assert_int_equal(n_urgent, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_due, setup, teardown),
		cmocka_unit_test_setup_teardown(test_new_ones_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_and_due, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_and_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_put_off, setup, teardown),
		cmocka_unit_test_setup_teardown(test_called_are_heard, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changes_of_own_qps, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
