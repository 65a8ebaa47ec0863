// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Keys that the peer has to forget are told until it says that it has, and not for ever; they are not given again before. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "agreed.h"
#include "fault.h"
#include "sealed.h"
#include "vqp_int.h"

#define MS 1000000ull

void __wrap_mesh_conn_queue(struct mesh_conn *conn, bool news);
int __wrap_mesh_thread_wake(bool urgent);
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);
uint64_t __wrap_mesh_now_ns(void);
void __wrap_mesh_vqp_drop_key(struct mesh_vqp *h, uint32_t rkey);
void __wrap_mesh_vqp_put_key(struct mesh_vqp *h, uint32_t rkey, uint32_t path_rkey);
int __wrap_mesh_key_remote(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey);
int __wrap_usleep(useconds_t us);
size_t __real_mesh_conns_of(const struct mesh_context *mc, struct mesh_conn **ret, size_t max, const struct mesh_conn *after);
size_t __wrap_mesh_conns_of(const struct mesh_context *mc, struct mesh_conn **ret, size_t max, const struct mesh_conn *after);

static struct mv_ctl_msg sent[2048];
static unsigned int n_sent, n_queued, n_slept, n_walks;
static uint64_t now_ns;
static void (*on_send)(void), (*on_sleep)(void);
static struct mesh_conn *asking; /* work of this one waits for a key that is dropped */
static uint32_t path_key; /* the last one that was translated to */

void __wrap_mesh_conn_queue(struct mesh_conn *conn, bool news)
{
	(void)conn;
	(void)news;
	n_queued++;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	assert_true(n_sent < sizeof(sent) / sizeof(sent[0]));
	sent[n_sent++] = *msg;
	if (on_send)
		on_send();
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	(void)frame;
	return 0;
}

/* What waits for it asks again, as it does there. */
void __wrap_mesh_vqp_drop_key(struct mesh_vqp *h, uint32_t rkey)
{
	uint32_t unused;

	(void)h;
	if (asking)
		mesh_conn_vqp_ops.want_key(asking, rkey, &unused);
}

void __wrap_mesh_vqp_put_key(struct mesh_vqp *h, uint32_t rkey, uint32_t path_rkey)
{
	(void)h;
	(void)rkey;
	path_key = path_rkey;
}

static void (*on_translate)(void);

int __wrap_mesh_key_remote(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey)
{
	(void)spd;
	if (on_translate)
		on_translate();
	*ret_rkey = rkey + 1;
	return 0;
}

/* Time passes only here. */
int __wrap_usleep(useconds_t us)
{
	now_ns += us * 1000ull;
	n_slept++;
	if (on_sleep)
		on_sleep();
	return 0;
}

size_t __wrap_mesh_conns_of(const struct mesh_context *mc, struct mesh_conn **ret, size_t max, const struct mesh_conn *after)
{
	n_walks++;
	return __real_mesh_conns_of(mc, ret, max, after);
}

uint64_t __wrap_mesh_now_ns(void)
{
	return now_ns;
}

static struct ibv_context verbs;
static struct ibv_pd pd = {.context = &verbs};
static struct ibv_qp qp = {.context = &verbs, .qp_num = 7};
static struct mesh_vqp vqp = {.mode = MESH_VQP_RX_RECORD}; /* without a log */
static struct mesh_process process;

/* A connection that has moved, and whose peer is known and has asked for every key. */
static struct mesh_conn *moved(void)
{
	struct mesh_conn *conn = agreed_conn(&process, &qp, &vqp);

	conn->state = MESH_CONN_MOVED;
	memset(conn->keys.told, 0xff, sizeof(conn->keys.told));
	mesh_conn_key_peer(conn);
	n_sent = n_queued = n_slept = 0;
	on_send = on_sleep = NULL;
	now_ns = 1000 * MS;
	return conn;
}

/* The region goes as soon as it is known that a peer has its key. */
static void drop_meanwhile(void)
{
	mesh_conns_key_dropped(&pd, 0x77);
}

static struct mv_ctl_msg from_peer(enum mv_ctl_type type, const struct mv_ctl_msg *to)
{
	struct mv_ctl_msg msg = *to;

	msg.type = (uint8_t)type;
	msg.from = to->to;
	msg.to = to->from;
	msg.attempt = to->to_attempt;
	msg.to_attempt = to->attempt;
	msg.from_psn = to->to_psn;
	msg.to_psn = to->from_psn;
	return msg;
}

static void end(struct mesh_conn *conn)
{
	conn->vqp = NULL;
	mesh_conn_unlink(conn);
	mesh_conn_put(conn);
	mesh_context_release(mesh_context_get(&verbs));
}

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

/* ---- given again --------------------------------------------------------------------------------------------- */

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

/* ---- many of them -------------------------------------------------------------------------------------------- */

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
		cmocka_unit_test(test_told_without_memory),
		cmocka_unit_test(test_told_until_forgotten),
		cmocka_unit_test(test_not_for_ever),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_peer_not_met),
		cmocka_unit_test(test_nobody_waits),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_told_behind_a_move),
		cmocka_unit_test(test_given_again),
		cmocka_unit_test(test_given_in_vain),
		cmocka_unit_test(test_given_without_peer),
		cmocka_unit_test(test_others_given_at_once),
		cmocka_unit_test(test_overtaken),
		cmocka_unit_test(test_all_told),
		cmocka_unit_test(test_all_told_while_some_end),
		cmocka_unit_test(test_all_told_while_the_last_ends),
		cmocka_unit_test(test_all_told_while_some_begin),
		cmocka_unit_test(test_only_who_asked_is_told),
		cmocka_unit_test(test_others_given_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
