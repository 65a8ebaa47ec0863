// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Keys that the peer has to forget are told until it says that it has, and not for ever. */
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <time.h>
#include <cmocka.h>

#include "fault.h"
#include "rkey_fixture.h"

static void test_told_until_forgotten(void **state)
{
	struct mesh_conn *conn = moved();
	struct mv_ctl_msg answer;
	uint64_t next;

	(void)state;
	mesh_conns_key_dropped(&pd, 0x77);
	assert_int_equal(n_sent, 1); /* at once, by the program's thread */
	assert_int_equal(sent[0].type, MV_CTL_KEY_DROP);
	assert_int_equal(sent[0].key, 0x77);
	assert_int_equal(n_queued, 1);
	next = mesh_conn_run_keys(conn, now_ns);
	assert_int_equal(n_sent, 1);
	assert_true(next > now_ns && next < now_ns + 100 * MS);
	mesh_conn_run_keys(conn, next);
	assert_int_equal(n_sent, 2);
	assert_memory_equal(&sent[1], &sent[0], sizeof(sent[0]));

	answer = from_peer(MV_CTL_KEY_DROPPED, &sent[0]);
	answer.request_id++; /* of another one */
	key_message_comes(conn, &answer);
	assert_false(TAILQ_EMPTY(&conn->keys.list));
	answer.request_id--;
	key_message_comes(conn, &answer);
	assert_true(TAILQ_EMPTY(&conn->keys.list));
	assert_int_equal(conn->keys.n_drops, 0);
	assert_true(mesh_conn_run_keys(conn, now_ns + 60000 * MS) == UINT64_MAX);
	assert_int_equal(n_sent, 2);
	end(conn);
}

/* Then the peer is told once. Before any other test: the table of all of them stays. */
static void test_told_without_memory(void **state)
{
	struct mesh_conn *conn = moved();
	unsigned int nth;

	(void)state;
	for (nth = 1; nth <= 2; nth++) {
		fault_arm(FAULT_ALLOC, nth, ENOMEM);
		mesh_conns_key_dropped(&pd, 0x77);
		assert_true(fault_fired());
		fault_disarm();
		assert_int_equal(n_sent, nth);
		assert_int_equal(conn->keys.n_drops, 0);
		assert_int_equal(process.drops.n, 0);
		assert_true(TAILQ_EMPTY(&conn->keys.list));
		mesh_conns_key_given(&pd, 0x77);
		assert_int_equal(n_slept, 0);
	}
	end(conn);
}

/* As long as an agent may be away that is started anew, and some more. */
static void test_not_for_ever(void **state)
{
	struct mesh_conn *conn = moved();
	uint64_t next, last;
	unsigned int n;

	(void)state;
	mesh_conns_key_dropped(&pd, 0x77);
	for (next = last = now_ns; next < now_ns + 50000 * MS; last = next) {
		n = n_sent;
		next = mesh_conn_run_keys(conn, next);
		assert_true(last == now_ns || n_sent == n + 1);
		assert_in_range(next - last, 0, 3000 * MS);
		assert_false(TAILQ_EMPTY(&conn->keys.list));
	}
	assert_in_range(n_sent, 20, 40);
	mesh_conn_run_keys(conn, now_ns + 60000 * MS);
	assert_true(TAILQ_EMPTY(&conn->keys.list));
	assert_int_equal(conn->state, MESH_CONN_MOVED); /* nobody is hurt by it */
	end(conn);
}

static void test_bounded(void **state)
{
	struct mesh_conn *conn = moved();
	uint32_t key;

	(void)state;
	for (key = 1; key <= 1500; key++)
		mesh_conns_key_dropped(&pd, key);
	assert_int_equal(n_sent, 1500);
	assert_int_equal(conn->keys.n_drops, 1024);
	mesh_conn_peer_left(conn);
	assert_int_equal(conn->keys.n_drops, 0);
	assert_true(TAILQ_EMPTY(&conn->keys.list));
	end(conn);
}

static void test_peer_not_met(void **state)
{
	struct mesh_conn *conn = moved();

	(void)state;
	conn->move.attempts.peer = 0;
	mesh_conn_key_peer(conn);
	mesh_conns_key_dropped(&pd, 1);
	assert_int_equal(n_sent, 0);
	end(conn);
}

/* Who takes the memory away is not kept waiting by whoever is at the connection, perhaps for seconds. */
static void *drop_one(void *arg)
{
	(void)arg;
	mesh_conns_key_dropped(&pd, 0x77);
	return NULL;
}

static void test_nobody_waits(void **state)
{
	struct mesh_conn *conn = moved();
	struct timespec limit;
	pthread_t thread;

	(void)state;
	mesh_lock(&conn->lock);
	assert_int_equal(pthread_create(&thread, NULL, drop_one, NULL), 0);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 60;
	assert_int_equal(pthread_timedjoin_np(thread, NULL, &limit), 0);
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent[0].key, 0x77);
	assert_int_equal(sent[0].attempt, 3);
	assert_int_equal(sent[0].to_attempt, 4);
	assert_int_equal(conn->keys.n_drops, 1);
	mesh_unlock(&conn->lock);
	end(conn);
}

/* One that has left is told nothing. */
static void test_gone(void **state)
{
	struct mesh_conn *conn = moved();

	(void)state;
	conn->gone = true;
	mesh_conn_key_peer(conn);
	mesh_conns_key_dropped(&pd, 0x77);
	assert_int_equal(n_sent, 0);
	end(conn);
}

/* The peer may have been on the next path before us, and have asked there: what it has to forget it is told again after the move. */
static void test_told_behind_a_move(void **state)
{
	struct mesh_conn *conn = moved();
	uint32_t unused;
	uint64_t next;

	(void)state;
	assert_int_not_equal(mesh_conn_vqp_ops.want_key(conn, 0x99, &unused), 0);
	mesh_conns_key_dropped(&pd, 0x77);
	assert_int_not_equal(mesh_conn_vqp_ops.want_key(conn, 0x98, &unused), 0);
	mesh_conn_ask_no_more(conn);
	next = mesh_conn_run_keys(conn, now_ns);
	assert_int_equal(n_sent, 1);
	mesh_conn_run_keys(conn, next);
	assert_int_equal(n_sent, 2);
	assert_int_equal(sent[1].type, MV_CTL_KEY_DROP);
	assert_int_equal(sent[1].key, 0x77);
	mesh_conn_peer_left(conn);
	end(conn);
}

/* An answer that the drop has overtaken says what the key was before. */
static void test_overtaken(void **state)
{
	struct mesh_conn *conn = asking = moved();
	struct mv_ctl_msg drop, before, after;
	uint32_t unused;

	(void)state;
	mesh_conn_vqp_ops.want_key(conn, 0x99, &unused);
	mesh_conn_run_keys(conn, now_ns);
	assert_int_equal(n_sent, 1);
	before = from_peer(MV_CTL_KEY_PUT, &sent[0]);
	before.rkey = 0xbad;
	drop = before;
	drop.type = MV_CTL_KEY_DROP;
	key_message_comes(conn, &drop);
	assert_int_equal(n_sent, 2);
	assert_int_equal(sent[1].type, MV_CTL_KEY_DROPPED);
	path_key = 0;
	key_message_comes(conn, &before);
	assert_int_equal(path_key, 0);
	mesh_conn_run_keys(conn, now_ns);
	assert_int_equal(n_sent, 3);
	assert_int_equal(sent[2].type, MV_CTL_KEY_GET);
	after = from_peer(MV_CTL_KEY_PUT, &sent[2]);
	after.rkey = 0x900d;
	key_message_comes(conn, &after);
	assert_int_equal(path_key, 0x900d);
	assert_true(TAILQ_EMPTY(&conn->keys.list));
	asking = NULL;
	end(conn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_told_without_memory),
		cmocka_unit_test(test_told_until_forgotten),
		cmocka_unit_test(test_not_for_ever),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_peer_not_met),
		cmocka_unit_test(test_nobody_waits),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_told_behind_a_move),
		cmocka_unit_test(test_overtaken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
