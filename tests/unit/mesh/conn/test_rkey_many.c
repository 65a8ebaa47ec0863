// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Keys that many connections have to forget, of which some come and go meanwhile. */
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "rkey_fixture.h"

/* The region goes as soon as it is known that a peer has its key. */
static void drop_meanwhile(void)
{
	mesh_conns_key_dropped(&pd, 0x77);
}

#define N 200

static struct ibv_qp qps[2 * N];
static struct mesh_conn *conns[2 * N];
static unsigned int n_conns;

static void one_more(void)
{
	struct mesh_conn *conn;

	assert_true(n_conns < sizeof(conns) / sizeof(conns[0]));
	qps[n_conns] = (struct ibv_qp){.context = &verbs, .qp_num = 1000 + n_conns};
	conn = conns[n_conns] = mesh_conn_new(mesh_context_get(&verbs), &qps[n_conns]);
	assert_non_null(conn);
	conn->state = MESH_CONN_MOVED;
	conn->vqp = &vqp;
	conn->move.attempts.peer = 4;
	conn->move.peer.qpn = conn->qpn;
	memset(conn->keys.told, 0xff, sizeof(conn->keys.told));
	mesh_conn_key_peer(conn);
	n_conns++;
}

/* Another thread ends the first that are told, when they have been; later ones move up into their places. */
static void end_some(void)
{
	if (n_sent > 10 && n_sent <= 20)
		mesh_conn_unlink(conns[sent[n_sent - 11].to.qpn - 1000]);
}

/* The one that it goes on from ends meanwhile. */
static void end_of_page(void)
{
	if (n_sent % 64 == 0)
		mesh_conn_unlink(conns[sent[n_sent - 1].to.qpn - 1000]);
}

/* Another thread makes some, so that the table becomes larger. */
static void make_some(void)
{
	if (n_sent <= N / 2)
		one_more();
}

static void tell_many(void (*meanwhile)(void))
{
	struct mesh_conn *conn = moved();
	unsigned int i, told[2 * N] = {0};

	for (n_conns = 0; n_conns < N;)
		one_more();
	n_sent = 0;
	on_send = meanwhile;
	mesh_conns_key_dropped(&pd, 0x77);
	on_send = NULL;
	for (i = 0; i < n_sent; i++)
		if (sent[i].to.qpn >= 1000)
			told[sent[i].to.qpn - 1000]++;
	for (i = 0; i < N; i++)
		assert_int_equal(told[i], 1);
	for (i = 0; i < n_conns; i++) {
		mesh_conn_unlink(conns[i]);
		mesh_conn_put(conns[i]);
	}
	end(conn);
	assert_int_equal(process.drops.n, 0);
}

static void test_all_told(void **state)
{
	(void)state;
	tell_many(NULL);
}

static void test_all_told_while_some_end(void **state)
{
	(void)state;
	tell_many(end_some);
}

static void test_all_told_while_the_last_ends(void **state)
{
	(void)state;
	tell_many(end_of_page);
}

static void test_all_told_while_some_begin(void **state)
{
	(void)state;
	tell_many(make_some);
}

/* A program with thousands of connections tells the one peer that has used the key. */
static void test_only_who_asked_is_told(void **state)
{
	static struct mesh_pd rail_pd;
	struct mesh_conn *conn = moved();
	struct mv_ctl_msg get;
	unsigned int i;

	(void)state;
	memset(conn->keys.told, 0, sizeof(conn->keys.told));
	conn->path.pd = &rail_pd;
	for (n_conns = 0; n_conns < N;) {
		one_more();
		memset(conns[n_conns - 1]->keys.told, 0, sizeof(conn->keys.told));
	}
	mesh_conns_key_dropped(&pd, 0x77);
	assert_int_equal(n_sent, 0);
	/* What a question looks like: from what it would be told. */
	get = conn->keys.drop;
	get = from_peer(MV_CTL_KEY_GET, &get);
	get.key = 0x77;
	on_translate = drop_meanwhile;
	key_message_comes(conn, &get);
	on_translate = NULL;
	assert_int_equal(n_sent, 2); /* the drop, and the answer */
	assert_int_equal(sent[0].type, MV_CTL_KEY_DROP);
	assert_int_equal(sent[1].type, MV_CTL_KEY_PUT);
	mesh_conns_key_dropped(&pd, 0x77);
	mesh_conns_key_dropped(&pd, 0x78);
	assert_int_equal(n_sent, 3);
	assert_int_equal(sent[2].type, MV_CTL_KEY_DROP);
	assert_int_equal(sent[2].key, 0x77);
	assert_int_equal(sent[2].to.qpn, 8);
	for (i = 0; i < n_conns; i++) {
		mesh_conn_unlink(conns[i]);
		mesh_conn_put(conns[i]);
	}
	mesh_conn_peer_left(conn);
	end(conn);
}

static void *give_others(void *arg)
{
	_Atomic bool *stop = arg;
	uint32_t key;

	while (!atomic_load(stop))
		for (key = 1025; key <= 5000; key++)
			mesh_conns_key_given(&pd, key);
	return NULL;
}

/* Also while connections, and what their peers are to forget, come and go. */
static void test_others_given_meanwhile(void **state)
{
	struct mesh_conn *conn = moved();
	_Atomic bool stop = false;
	pthread_t thread;
	uint32_t key;
	int i;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, give_others, &stop), 0);
	for (i = 0; i < 20; i++) {
		n_conns = n_sent = 0;
		one_more();
		for (key = 1; key <= 1024; key++)
			mesh_conns_key_dropped(&pd, key);
		mesh_conn_unlink(conns[0]);
		mesh_conn_put(conns[0]);
		mesh_conn_peer_left(conn);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(n_slept, 0);
	assert_int_equal(process.drops.n, 0);
	end(conn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_told),
		cmocka_unit_test(test_all_told_while_some_end),
		cmocka_unit_test(test_all_told_while_the_last_ends),
		cmocka_unit_test(test_all_told_while_some_begin),
		cmocka_unit_test(test_only_who_asked_is_told),
		cmocka_unit_test(test_others_given_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
