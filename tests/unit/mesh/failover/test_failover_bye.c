// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The last words of a peer (BYE), and of a connection itself. */
#include <pthread.h>

#include "failing_over.h"
#include "failover_exec.h"
#include "sealed.h"

static uint64_t late_ns; /* the peer may have sent something since then */

/* Return: when it is to be looked at. */
static uint64_t say_bye(uint32_t attempt)
{
	const struct mv_ctl_msg bye = {.type = MV_CTL_BYE,
				       .from = conn.ends.peer,
				       .to = conn.ends.local,
				       .attempt = attempt,
				       .to_attempt = conn.move.attempts.mine,
				       .from_psn = conn.move.rq_psn,
				       .to_psn = conn.move.sq_psn};

	return message_comes(&conn, &bye, &no_keys, now_ns, now_ns - late_ns);
}

/* Where many move, it is looked at later if there is nothing that it has to do soon. The message is not the peer's, and changes nothing. */
static void test_look_after_message(void **state)
{
	struct mesh_conn_key key = {.key = 1};

	(void)state;
	is_well();
	conn.move.attempts.peer = 3;
	process.moves.n_fresh = 15;
	assert_int_equal(say_bye(2), now_ns);
	process.moves.n_fresh = 16;
	assert_int_equal(say_bye(2), now_ns + 100 * MS);
	conn.retry.stayed = "of something";
	assert_int_equal(say_bye(2), now_ns);
	conn.retry.stayed = NULL;
	conn.retry.pathless_ns = 1;
	assert_int_equal(say_bye(2), now_ns);
	conn.retry.pathless_ns = 0;
	vqp.tracker->broken = true;
	assert_int_equal(say_bye(2), now_ns);
	vqp.tracker->broken = false;
	vqp.tracker->lost = "of something";
	assert_int_equal(say_bye(2), now_ns);
	vqp.tracker->lost = NULL;
	conn.state = MESH_CONN_HELD; /* it is being connected */
	assert_int_equal(say_bye(2), now_ns);
	conn.state = MESH_CONN_PASSTHROUGH;
	conn.flags.at_work = true;
	assert_int_equal(say_bye(2), now_ns);
	conn.flags.at_work = false;
	conn.move.failover = true;
	conn.move.timers.phase_since = now_ns;
	conn.move.timers.resend_at = now_ns + 7 * MS;
	assert_int_equal(say_bye(2), now_ns + 7 * MS);
	late_ns = 30 * MS;
	assert_int_equal(say_bye(2), now_ns + 37 * MS);
	late_ns = 0;
	conn.move.state = MV_MOVE_QUIESCING; /* what it holds back is looked at more often */
	assert_int_equal(say_bye(2), now_ns);
	conn.move.state = MV_MOVE_PASSTHROUGH;
	conn.moving.draining = true;
	assert_int_equal(say_bye(2), now_ns);
	conn.moving.draining = false;
	conn.move.actions.list[conn.move.actions.n++] = (struct mv_move_action){.type = MV_DO_CONNECT}; /* a worker's */
	assert_int_equal(say_bye(2), now_ns);
	conn.move.actions.n = conn.move.actions.next = 0;
	conn.move.failover = false;
	TAILQ_INIT(&conn.keys.list);
	assert_int_equal(say_bye(2), now_ns + 100 * MS);
	TAILQ_INSERT_TAIL(&conn.keys.list, &key, of_conn); /* which it may have to ask for again */
	assert_int_equal(say_bye(2), now_ns);
	TAILQ_REMOVE(&conn.keys.list, &key, of_conn);
}

/* A worker has the connection, or the program is in the middle of a call, when the peer says that it goes. */
static void bye_is_kept(_Atomic bool *worker)
{
	is_well();
	conn.move.attempts.peer = 3;
	if (worker)
		*worker = true;
	else
		pthread_mutex_lock(&conn.lock.mutex.pthread); /* another thread has it */
	say_bye(3);
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(vqp.tracker->lost);
	if (worker)
		*worker = false; /* and has it queued */
	else
		pthread_mutex_unlock(&conn.lock.mutex.pthread);
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_non_null(vqp.tracker->lost);
	vqp.tracker->lost = NULL;
	/* Once. */
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(vqp.tracker->lost);
}

static void test_bye_at_work(void **state)
{
	(void)state;
	bye_is_kept(&conn.flags.at_work);
}

static void test_bye_in_a_call(void **state)
{
	(void)state;
	bye_is_kept(NULL);
}

/* It proves what it says like any other. */
static void test_late_bye_of_another(void **state)
{
	(void)state;
	is_well();
	conn.move.attempts.peer = 3;
	conn.flags.at_work = true;
	say_bye(2);
	conn.flags.at_work = false;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(vqp.tracker->lost);
}

/* So it is where the PSNs prove nothing: the host that it was from is kept with it. */
static void test_late_bye_of_another_host(void **state)
{
	(void)state;
	is_well();
	conn.move.attempts.peer = 3;
	conn.ends.host_id.bytes[0] = 5;
	holder = MESH_HOLDER_SAME;
	for (said_by.bytes[0] = 6; said_by.bytes[0] >= 5; said_by.bytes[0]--) {
		conn.flags.at_work = true;
		say_bye(3);
		conn.flags.at_work = false;
		mesh_conn_run(&conn, now_ns, now_ns);
		assert_int_equal(vqp.tracker->lost != NULL, said_by.bytes[0] == 5);
	}
	said_by.bytes[0] = 0;
}

/* It goes while ours is being drained: what that flushes is not the program's to see. */
static void test_bye_while_draining(void **state)
{
	struct mesh_completion flushed = {.wr_id = 1, .cq = &cq, .status = IBV_WC_WR_FLUSH_ERR};

	(void)state;
	is_well();
	conn.move.attempts.peer = 3;
	vqp.mode = MESH_VQP_DRAINING;
	say_bye(3);
	assert_true(conn.ends.peer_gone);
	assert_null(vqp.tracker->lost);
	assert_false(mesh_tracker_completed(&vqp, &flushed));
}

/* Its own program takes it away when the peer waits to be told what it has executed. */
static void test_last_word(void **state)
{
	(void)state;
	is_well();
	sent = (struct mv_ctl_msg){0};
	mesh_conn_last_word(&conn);
	assert_int_equal(sent.type, 0); /* nothing moves */
	conn.move.attempts.peer = 3;
	conn.move.failover = true;
	conn.move.state = MV_MOVE_DRAINED;
	conn.move.next.offer = 5;
	conn.move.sync.mine = (struct mv_move_sync){0x123, 4};
	mesh_conn_last_word(&conn);
	assert_int_equal(sent.type, MV_CTL_SYNC);
	assert_int_equal(sent.request_id, 5);
	assert_int_equal(sent.next_psn, 0x123);
	assert_int_equal(sent.n_received, 4);
	/* It cannot be known any more: better nothing than something wrong. */
	sent = (struct mv_ctl_msg){0};
	conn.move.state = MV_MOVE_DRAINING;
	vqp.mode = MESH_VQP_DRAINING;
	mesh_conn_last_word(&conn);
	assert_int_equal(sent.type, 0);
	conn.move.failover = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_bye_at_work),
		T(test_bye_in_a_call),
		T(test_look_after_message),
		T(test_late_bye_of_another),
		T(test_late_bye_of_another_host),
		T(test_bye_while_draining),
		T(test_last_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
