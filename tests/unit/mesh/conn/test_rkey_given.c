// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Keys that the peer has yet to forget are not given to the program again before; other keys are at once. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>

#include "rkey_fixture.h"

static struct mesh_conn *answering;

static void answer_late(void)
{
	struct mv_ctl_msg answer = from_peer(MV_CTL_KEY_DROPPED, &sent[n_sent - 1]);

	if (n_slept == 3)
		key_message_comes(answering, &answer);
}

/* The program does not have it before the peer has forgotten what it was. */
static void test_given_again(void **state)
{
	struct mesh_conn *conn = answering = moved();

	(void)state;
	mesh_conns_key_given(&pd, 0x77);
	mesh_conns_key_dropped(&pd, 0x77);
	mesh_conns_key_given(&pd, 0x78);
	assert_int_equal(n_slept, 0);
	on_sleep = answer_late;
	mesh_conns_key_given(&pd, 0x77);
	assert_int_equal(n_slept, 3);
	assert_true(TAILQ_EMPTY(&conn->keys.list));
	assert_int_equal(process.drops.n, 0);
	mesh_conns_key_given(&pd, 0x77);
	assert_int_equal(n_slept, 3);
	end(conn);
}

/* A peer that is not there keeps the program waiting once, and not for long. */
static void test_given_in_vain(void **state)
{
	struct mesh_conn *conn = answering = moved();
	uint64_t before = now_ns;
	struct mv_ctl_msg answer;

	(void)state;
	mesh_conns_key_dropped(&pd, 0x77);
	mesh_conns_key_given(&pd, 0x77);
	assert_in_range(now_ns - before, 50 * MS, 52 * MS);
	before = now_ns;
	mesh_conns_key_dropped(&pd, 0x77);
	mesh_conns_key_given(&pd, 0x77);
	assert_true(now_ns == before);
	/* It was slow, and is not waited for the next time, either. */
	answer = from_peer(MV_CTL_KEY_DROPPED, &sent[0]);
	key_message_comes(conn, &answer);
	mesh_conns_key_dropped(&pd, 0x78);
	mesh_conns_key_given(&pd, 0x78);
	assert_true(now_ns == before);
	/* Until it has answered in time. */
	answer = from_peer(MV_CTL_KEY_DROPPED, &sent[n_sent - 1]);
	key_message_comes(conn, &answer);
	mesh_conns_key_dropped(&pd, 0x79);
	n_slept = 0;
	on_sleep = answer_late;
	mesh_conns_key_given(&pd, 0x79);
	assert_int_equal(n_slept, 3);
	end(conn);
}

/* Nobody waits for one that has failed, that has left, or whose peer has. */
static void test_given_without_peer(void **state)
{
	struct mesh_conn *conn = moved();

	(void)state;
	mesh_conns_key_dropped(&pd, 0x77);
	conn->state = MESH_CONN_FAILED;
	mesh_conn_key_peer(conn);
	assert_int_equal(process.drops.n, 0);
	mesh_conns_key_dropped(&pd, 0x77);
	assert_int_equal(n_sent, 2); /* its last work may not be through */
	mesh_conns_key_given(&pd, 0x77);
	end(conn);

	conn = moved();
	mesh_conns_key_dropped(&pd, 0x77);
	conn->gone = true;
	mesh_conn_key_peer(conn);
	assert_int_equal(process.drops.n, 0);
	mesh_conns_key_given(&pd, 0x77);
	end(conn);

	conn = moved();
	mesh_conn_peer_left(conn);
	mesh_conns_key_dropped(&pd, 0x77);
	mesh_conns_key_given(&pd, 0x77);
	assert_int_equal(n_slept, 0);
	end(conn);
	assert_int_equal(process.drops.n, 0); /* with the connection */
}

static uint32_t answered;

static void answer_at_once(void)
{
	struct mv_ctl_msg answer = from_peer(MV_CTL_KEY_DROPPED, &sent[answered - 1]);

	key_message_comes(answering, &answer);
}

/* Whatever the peers have yet to forget, the program gets other keys, and those of other devices, as if there were none. */
static void test_others_given_at_once(void **state)
{
	struct mesh_conn *conn = answering = moved();
	struct ibv_context other_verbs;
	struct ibv_pd other_pd = {.context = &other_verbs};
	struct mesh_context *other = mesh_context_get_free();
	uint32_t key;

	(void)state;
	assert_non_null(other);
	mesh_context_publish(other, &other_verbs);
	for (key = 1; key <= 1024; key++)
		mesh_conns_key_dropped(&pd, key);
	assert_int_equal(process.drops.n, 1024);
	n_walks = 0;
	for (key = 1025; key <= 5000; key++)
		mesh_conns_key_given(&pd, key);
	for (key = 1; key <= 1024; key++)
		mesh_conns_key_given(&other_pd, key);
	assert_int_equal(n_slept, 0);
	assert_int_equal(n_walks, 0);
	/* Answers come in the order of the questions, and are not to look through all of them. */
	on_sleep = answer_at_once;
	for (answered = 1; answered <= 1024; answered++) {
		assert_int_equal(TAILQ_FIRST(&conn->keys.list)->key, answered);
		mesh_conns_key_given(&pd, answered);
		assert_int_equal(n_slept, answered);
	}
	assert_int_equal(n_walks, 0);
	assert_int_equal(process.drops.n, 0);
	mesh_context_release(other);
	end(conn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_given_again),
		cmocka_unit_test(test_given_in_vain),
		cmocka_unit_test(test_given_without_peer),
		cmocka_unit_test(test_others_given_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
