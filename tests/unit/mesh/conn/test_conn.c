// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The table of connections: who is looked at, and when. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "connect.h"
#include "udint.h"

int __wrap_mesh_thread_wake(bool urgent);

static unsigned int n_urgent;

/* There is none. */
int __wrap_mesh_thread_wake(bool urgent)
{
	n_urgent += urgent;
	return 0;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame);

/* To the agent: in the order in which it gets them. */
static struct mv_frame frames[8];
static unsigned int n_frames;
static int frame_result;
static void (*on_frame)(void);

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	void (*meanwhile)(void) = on_frame;

	on_frame = NULL;
	if (meanwhile)
		meanwhile();
	assert_true(n_frames < sizeof(frames) / sizeof(frames[0]));
	if (frame_result != -EAGAIN)
		frames[n_frames++] = *frame;
	return frame_result;
}

#define N 200 /* more than the table has places at first */

static struct mesh_process processes[24]; /* the table of a process is for ever */
static unsigned int n_processes;
static struct mesh_context context = {.device = "mlx5_0"};
static struct ibv_qp qps[N];
static struct mesh_conn *conns[N];

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	assert_true(n_processes < sizeof(processes) / sizeof(processes[0]));
	n_frames = 0;
	frame_result = 0;
	mesh_root.process = &processes[n_processes++];
	mesh_lock_init(&mesh_root.process->conns_lock);
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
	while ((conn = mesh_conns_take(UINT64_MAX, &next))) {
		for (; conn; conn = rest) {
			rest = conn->next_taken;
			mesh_conn_put(conn);
		}
	}
	mesh_conns_next_turn(MESH_TURN_LEADS); /* lets go of those that were waiting, and are gone */
	return 0;
}

/* How many are to be looked at in this turn; which[i] says whether conns[i] is one. */
static unsigned int take_some(uint64_t now_ns, bool *which, uint64_t *ret_next)
{
	struct mesh_conn *conn, *rest;
	unsigned int n = 0;

	for (conn = mesh_conns_take(now_ns, ret_next); conn; conn = rest) {
		rest = conn->next_taken;
		assert_false(which[conn->qpn - 100]);
		which[conn->qpn - 100] = true;
		n++;
		mesh_conn_put(conn);
	}
	return n;
}

/* Without a helper thread. */
static unsigned int take_all(void)
{
	struct mesh_conn *conn, *rest;
	unsigned int n = 0;

	mesh_lock(&mesh_root.process->conns_lock);
	conn = mesh_conns_take_all_locked();
	mesh_unlock(&mesh_root.process->conns_lock);
	for (; conn; conn = rest) {
		rest = conn->next_taken;
		mesh_conn_put(conn);
		n++;
	}
	return n;
}

/* In as many turns as that takes. */
static unsigned int take(uint64_t now_ns, bool *which, uint64_t *ret_next)
{
	unsigned int n = 0, some;

	memset(which, 0, N * sizeof(*which));
	while ((some = take_some(now_ns, which, ret_next)))
		n += some;
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

/* One that is left comes when it is due, however many are before it; what was due and is left as well; and news take nobody's place. */
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
	/* As long as there are news each time. */
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
		if (!conns[i]->linked)
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

static void test_turns(void **state)
{
	bool which[N];
	uint64_t next;

	(void)state;
	mesh_conns_next_turn(MESH_TURN_LEADS); /* of nobody */
	assert_false(mesh_conns_news());
	mesh_conn_wait_turn(conns[3], MESH_TURN_LEADS);
	mesh_conn_wait_turn(conns[1], MESH_TURN_LEADS);
	mesh_conn_wait_turn(conns[3], MESH_TURN_LEADS);
	mesh_conn_wait_turn(conns[2], MESH_TURN_LEADS);
	mesh_conns_next_turn(MESH_TURN_LEADS);
	assert_true(mesh_conns_news());
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[3]);
	assert_false(mesh_conns_news());
	/* Who is gone has no turn, and keeps nobody from his. */
	mesh_conn_unlink(conns[1]);
	mesh_conns_next_turn(MESH_TURN_LEADS);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[2]);
	/* And it may wait again. */
	mesh_conn_wait_turn(conns[3], MESH_TURN_LEADS);
	mesh_conn_wait_turn(conns[4], MESH_TURN_LEADS);
	mesh_conns_next_turn(MESH_TURN_LEADS);
	mesh_conns_next_turn(MESH_TURN_LEADS);
	assert_int_equal(take(0, which, &next), 2);
	assert_true(which[3] && which[4]);
	mesh_conn_wait_turn(conns[9], MESH_TURN_LEADS); /* for teardown() */
}

/* Who waits looks at all news when it is his turn. A new agent has to hear of him. */
static void test_news_while_they_wait(void **state)
{
	bool which[N];
	uint64_t next;

	(void)state;
	mesh_conn_wait_turn(conns[3], MESH_TURN_LEADS);
	mesh_conns_queue_all(false);
	assert_int_equal(take(0, which, &next), N - 1);
	assert_false(which[3]);
	mesh_conns_queue_all(true);
	assert_int_equal(take(0, which, &next), N);
	mesh_conns_next_turn(MESH_TURN_LEADS);
	mesh_conns_queue_all(false);
	assert_int_equal(take(0, which, &next), N);
}

/* Those that wait need not have a reason to move. Each that has none calls the next, or they would wait for one that ends. */
static void test_turn_is_passed_on(void **state)
{
	uint64_t next;
	bool which[N];

	(void)state;
	mesh_conn_wait_turn(conns[1], MESH_TURN_LEADS);
	mesh_conn_wait_turn(conns[2], MESH_TURN_LEADS);
	atomic_store(&mesh_root.process->n_moving, 127);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[1]);
	/* Nobody else has it meanwhile, whoever is looked at. */
	assert_true(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	assert_false(mesh_has_turn(conns[2], MESH_TURN_LEADS));
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 0);
	mesh_conn_run(conns[1], 1, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[2]);
	/* Not while as many move as may. */
	mesh_conn_wait_turn(conns[3], MESH_TURN_LEADS);
	atomic_store(&mesh_root.process->n_moving, 128);
	mesh_conn_run(conns[2], 1, 1);
	assert_int_equal(take(0, which, &next), 0);
	/* Then as many as are free. */
	mesh_conn_wait_turn(conns[4], MESH_TURN_LEADS);
	mesh_conn_wait_turn(conns[5], MESH_TURN_LEADS);
	atomic_store(&mesh_root.process->n_moving, 126);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 2);
	assert_true(which[3] && which[4]);
	assert_int_equal(atomic_load(&mesh_root.process->n_called), 2);
}

/* The peers of those that follow begin, unless they do not. */
static void test_those_that_follow_wait_longer(void **state)
{
	uint64_t next;
	bool which[N];

	(void)state;
	atomic_store(&mesh_root.process->n_fresh, MESH_MANY_MOVING);
	assert_true(mesh_many_move());
	assert_false(mesh_has_turn(conns[1], MESH_TURN_FOLLOWS));
	assert_true(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	mesh_conn_wait_turn(conns[1], MESH_TURN_FOLLOWS);
	mesh_conn_wait_turn(conns[2], MESH_TURN_LEADS);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[2]);
	atomic_store(&mesh_root.process->n_fresh, MESH_MANY_MOVING - 2);
	assert_false(mesh_many_move());
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[1]);
	mesh_turns_forget(conns[1]);
	mesh_turns_forget(conns[2]);
}

/* What the peer has begun does not wait, nor is it called. */
static void test_begun_by_its_peer(void **state)
{
	uint64_t next;
	bool which[N];

	(void)state;
	mesh_conn_wait_turn(conns[1], MESH_TURN_FOLLOWS);
	assert_int_equal(atomic_load(&conns[1]->refs), 3);
	conns[1]->held = (struct mesh_held *)conns; /* not looked at */
	conns[1]->move.live = true;
	assert_false(mesh_turns_note(conns[1], false, 1));
	assert_int_equal(atomic_load(&mesh_root.process->n_moving), 1);
	assert_int_equal(atomic_load(&conns[1]->refs), 2);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 0);
	/* One that was called, and begins, has had its turn. */
	mesh_conn_wait_turn(conns[2], MESH_TURN_LEADS);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_int_equal(atomic_load(&mesh_root.process->n_called), 1);
	conns[2]->held = conns[1]->held;
	conns[2]->move.live = true;
	mesh_turns_note(conns[2], false, 1);
	mesh_turns_note(conns[2], false, 2);
	assert_int_equal(atomic_load(&mesh_root.process->n_called), 0);
	assert_int_equal(atomic_load(&mesh_root.process->n_moving), 2);
	conns[1]->move.live = conns[2]->move.live = false;
	mesh_turns_note(conns[1], false, 3);
	mesh_turns_note(conns[2], false, 3);
	assert_int_equal(atomic_load(&mesh_root.process->n_moving), 0);
	conns[1]->held = conns[2]->held = NULL;
}

/* As many at once as have been no trouble. */
static void test_how_many_is_learned(void **state)
{
	uint64_t move_ns = mesh_root.move_times.move_ns;
	unsigned int i;

	(void)state;
	mesh_root.move_times.move_ns = 4000;
	atomic_store(&mesh_root.process->n_moving, 128);
	assert_false(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	atomic_store(&mesh_root.process->n_moving, 63);
	mesh_turns_took(1); /* which says nothing of many */
	atomic_store(&mesh_root.process->n_moving, 128);
	assert_false(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	mesh_turns_took(100); /* neither fast nor slow */
	mesh_turns_took(401); /* it is the least already */
	assert_false(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	mesh_turns_took(99);
	assert_true(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	mesh_turns_took(400);
	assert_true(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	mesh_turns_took(401);
	assert_false(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	atomic_store(&mesh_root.process->n_moving, 1023);
	for (i = 0; i < 2000; i++)
		mesh_turns_took(1);
	assert_true(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	atomic_store(&mesh_root.process->n_moving, 1024);
	assert_false(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	mesh_turns_took(UINT64_MAX); /* they have not been without trouble */
	atomic_store(&mesh_root.process->n_moving, 576);
	assert_false(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	atomic_store(&mesh_root.process->n_moving, 575);
	assert_true(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	mesh_root.move_times.move_ns = move_ns;
}

/* Those that wait for a peer that does not answer do not make many of the others. */
static void test_moves_for_long(void **state)
{
	(void)state;
	conns[1]->held = (struct mesh_held *)conns; /* not looked at */
	conns[1]->move.live = true;
	mesh_turns_note(conns[1], false, 1000);
	assert_int_equal(mesh_n_moving(), 1);
	mesh_turns_note(conns[1], false, 1000 + 249999999);
	assert_int_equal(mesh_n_moving(), 1);
	mesh_turns_note(conns[1], false, 1000 + 250000000);
	assert_int_equal(mesh_n_moving(), 0);
	assert_int_equal(atomic_load(&mesh_root.process->n_moving), 1);
	conns[1]->move.live = false;
	mesh_turns_note(conns[1], false, 1000 + 250000000);
	assert_int_equal(mesh_n_moving(), 0);
	assert_int_equal(atomic_load(&mesh_root.process->n_moving), 0);
	conns[1]->held = NULL;
}

/* It waits as one that follows, and then knows of something that its peer does not. */
static void test_waits_otherwise(void **state)
{
	uint64_t next;
	bool which[N];

	(void)state;
	mesh_conn_wait_turn(conns[1], MESH_TURN_FOLLOWS);
	mesh_conn_wait_turn(conns[1], MESH_TURN_LEADS);
	assert_int_equal(atomic_load(&conns[1]->refs), 3);
	assert_false(mesh_conns_next_turn(MESH_TURN_FOLLOWS));
	assert_true(mesh_conns_next_turn(MESH_TURN_LEADS));
	assert_int_equal(take(0, which, &next), 1);
	/* It is called once more before the first call is forgotten. */
	mesh_conn_wait_turn(conns[1], MESH_TURN_LEADS);
	assert_true(mesh_conns_next_turn(MESH_TURN_LEADS));
	assert_int_equal(atomic_load(&mesh_root.process->n_called), 1);
	assert_int_equal(take(0, which, &next), 1);
	/* What comes for it meanwhile does not take it away. */
	mesh_turns_note(conns[1], false, 1);
	assert_int_equal(atomic_load(&mesh_root.process->n_called), 1);
	mesh_turns_note(conns[1], true, 1);
	assert_int_equal(atomic_load(&mesh_root.process->n_called), 0);
}

/* One that was called, and is destroyed before it is looked at. */
static void test_called_and_gone(void **state)
{
	struct ibv_qp qp = {.qp_num = 77};
	struct mesh_conn *conn = mesh_conn_new(&context, &qp);
	uint64_t next;
	bool which[N];

	(void)state;
	mesh_conn_wait_turn(conn, MESH_TURN_LEADS);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(atomic_load(&mesh_root.process->n_called), 1);
	mesh_conn_unlink(conn);
	mesh_conn_put(conn);
	conn = mesh_conns_take(0, &next);
	mesh_conn_put(conn);
	assert_int_equal(atomic_load(&mesh_root.process->n_called), 0);
	assert_int_equal(take(0, which, &next), 0);
}

/* One that the program has destroyed while it moved leaves its turn to others. */
static void test_turn_of_one_that_is_gone(void **state)
{
	bool which[N];
	uint64_t next;

	(void)state;
	conns[0]->counted = true;
	mesh_root.process->n_moving = 1000;
	mesh_conn_wait_turn(conns[1], MESH_TURN_LEADS);
	assert_false(mesh_has_turn(conns[1], MESH_TURN_LEADS));
	conns[0]->gone = true;
	mesh_root.process->n_moving = 1;
	mesh_turns_end(conns[0]);
	assert_int_equal(mesh_root.process->n_moving, 0);
	assert_false(conns[0]->counted);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[1]);
	mesh_turns_end(conns[0]);
	assert_int_equal(mesh_root.process->n_moving, 0);
}

/* News concern those of which something is held or logged; a new agent has to hear of all. */
static void test_news_of_natives(void **state)
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
	mesh_turns_end(conns[0]);
	assert_int_equal(n_urgent, 0);
	assert_int_equal(take(0, which, &next), 1);
	mesh_conn_wait_turn(conns[1], MESH_TURN_LEADS);
	mesh_turns_end(conns[0]);
	assert_int_equal(n_urgent, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[1]);
}

static void check_frames(unsigned int n, unsigned int last)
{
	assert_int_equal(n_frames, n);
	assert_int_equal(frames[n - 1].type, last);
	assert_string_equal(frames[n - 1].device, "mlx5_0");
	assert_int_equal(frames[n - 1].qpn, 100);
}

static void test_claims(void **state)
{
	(void)state;
	assert_int_equal(mesh_conn_claim(conns[0]), 0);
	check_frames(1, MV_FRAME_CLAIM);
	assert_int_equal(frames[0].qp_type, IBV_QPT_RC);
	assert_int_equal(mesh_conn_claim(conns[0]), -EALREADY);
	mesh_conn_unclaimed(conns[0]);
	assert_int_equal(mesh_conn_claim(conns[0]), 0);
	check_frames(2, MV_FRAME_CLAIM);
	/* A new agent. */
	mesh_conns_queue_all(true);
	frame_result = -EAGAIN;
	assert_int_equal(mesh_conn_claim(conns[0]), -EAGAIN);
	frame_result = 0;
	assert_int_equal(mesh_conn_claim(conns[0]), 0);
	check_frames(3, MV_FRAME_CLAIM);
	/* No agent: a new one is told of all. */
	mesh_conn_unclaimed(conns[0]);
	frame_result = -ENOTCONN;
	assert_int_equal(mesh_conn_claim(conns[0]), 0);
	assert_int_equal(mesh_conn_claim(conns[0]), -EALREADY);
}

/* Whatever becomes of it, the agent does not keep what the process has not any more; */
static void test_unclaims(void **state)
{
	(void)state;
	assert_int_equal(mesh_conn_claim(conns[0]), 0);
	mesh_conn_unlink(conns[0]);
	check_frames(2, MV_FRAME_UNCLAIM);
	mesh_conn_unlink(conns[0]);
	assert_int_equal(mesh_conn_claim(conns[0]), -EALREADY);
	assert_int_equal(n_frames, 2);
	/* which may have it still when it is to be told again; */
	assert_int_equal(mesh_conn_claim(conns[1]), 0);
	mesh_conn_unclaimed(conns[1]);
	mesh_conn_unlink(conns[1]);
	assert_int_equal(n_frames, 4);
	assert_int_equal(frames[3].type, MV_FRAME_UNCLAIM);
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

/* The program destroys it while the helper thread is about to claim it: UNCLAIM comes first. */
static void test_destroyed_while_claimed(void **state)
{
	(void)state;
	on_frame = destroy_first;
	assert_int_equal(mesh_conn_claim(conns[0]), 0);
	assert_int_equal(frames[0].type, MV_FRAME_UNCLAIM);
	assert_int_equal(frames[1].type, MV_FRAME_CLAIM);
	check_frames(3, MV_FRAME_UNCLAIM);
}

/* The same, and the number is used again at once: that one's claim comes last. */
static void test_used_again_while_claimed(void **state)
{
	(void)state;
	on_frame = use_first_again;
	assert_int_equal(mesh_conn_claim(conns[0]), 0);
	check_frames(3, MV_FRAME_UNCLAIM);
	assert_int_equal(mesh_conn_claim(next_life), 0);
	check_frames(4, MV_FRAME_CLAIM);
	mesh_conn_unlink(next_life);
	check_frames(5, MV_FRAME_UNCLAIM);
	mesh_conn_put(next_life);
}

/* Those of datagrams: what the agent had no room for is told again. */
static void test_datagram_claims(void **state)
{
	struct mesh_ud_qp u = {.mc = &context, .qpn = 100};

	(void)state;
	mesh_root.ud.qps = &u;
	frame_result = -EAGAIN;
	assert_int_equal(mesh_ud_run(1000), 1000 + 20000000);
	frame_result = 0;
	assert_true(mesh_ud_run(2000) == UINT64_MAX);
	check_frames(1, MV_FRAME_CLAIM);
	assert_int_equal(frames[0].qp_type, IBV_QPT_UD);
	assert_true(mesh_ud_run(3000) == UINT64_MAX);
	assert_int_equal(n_frames, 1);
	mesh_root.ud.qps = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_due, setup, teardown),
		cmocka_unit_test_setup_teardown(test_new_ones_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_and_due, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_and_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_put_off, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_news_while_they_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turn_is_passed_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_those_that_follow_wait_longer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_begun_by_its_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_how_many_is_learned, setup, teardown),
		cmocka_unit_test_setup_teardown(test_called_and_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moves_for_long, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits_otherwise, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turn_of_one_that_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_called_are_heard, setup, teardown),
		cmocka_unit_test_setup_teardown(test_news_of_natives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_claims, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unclaims, setup, teardown),
		cmocka_unit_test_setup_teardown(test_destroyed_while_claimed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_used_again_while_claimed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_datagram_claims, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
