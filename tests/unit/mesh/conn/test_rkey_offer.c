// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Remote keys that are asked for and told by the messages of a move: for the QPs of one offer, and as long as the peer has the region. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "agreed.h"
#include "vqp_failover.h"
#include "negotiateint.h"
#include "pdstay.h"
#include "sealed.h"
#include "vqp_int.h"

void __wrap_mesh_conn_queue(struct mesh_conn *conn, bool changed);
int __wrap_mesh_thread_wake(bool urgent);
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
void __wrap_mesh_thread_send_later(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);
int __wrap_mesh_key_remote_ready(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey);
size_t __wrap_mesh_failover_remote_keys(struct mesh_vqp *h, uint32_t *ret);
size_t __wrap_mesh_failover_past_keys(struct mesh_vqp *h, uint32_t *ret, size_t n);
bool __wrap_mesh_pd_check_key(struct ibv_pd *of, enum mesh_key_index index, uint32_t key);

static struct ibv_context verbs;
static struct ibv_pd pd = {.context = &verbs};
static struct ibv_qp qp = {.context = &verbs, .pd = &pd, .qp_num = 7};
static struct mesh_vqp vqp = {.mode = MESH_VQP_RX_RECORD}; /* without a log */
static struct mesh_process process;
static struct mesh_pd rail_pd;
static struct mesh_conn *conn;

/* A message, and what goes with it. */
struct mail {
	struct mv_ctl_msg msg;
	struct mv_ctl_keys keys;
};

static struct mail sent[8];
static unsigned int n_sent;
static uint32_t needed[MESH_FAILOVER_KEYS]; /* by what is outstanding */
static size_t n_needed;
static uint32_t past; /* of what is done; 0: nothing is */
static uint32_t checked[4]; /* keys of ours that the peer has asked for */
static unsigned int n_checked;
static uint32_t offered; /* number of the offer */
static bool drops; /* the program takes each region away as soon as it is known that a peer has its key */

void __wrap_mesh_conn_queue(struct mesh_conn *c, bool changed)
{
	(void)c;
	(void)changed;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	assert_true(n_sent < sizeof(sent) / sizeof(sent[0]));
	sent[n_sent++] = (struct mail){.msg = *msg};
}

void __wrap_mesh_thread_send_later(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys)
{
	__wrap_mesh_thread_send(msg);
	sent[n_sent - 1].keys = *keys;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	(void)frame;
	return 0;
}

/* Those above 0xff are of no region. */
int __wrap_mesh_key_remote_ready(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey)
{
	assert_ptr_equal(spd, &rail_pd);
	*ret_rkey = rkey + 0x1000;
	if (drops)
		mesh_conns_key_dropped(&pd, rkey);
	return rkey > 0xff ? -ENOENT : 0;
}

size_t __wrap_mesh_failover_remote_keys(struct mesh_vqp *h, uint32_t *ret)
{
	assert_ptr_equal(h, &vqp);
	memcpy(ret, needed, n_needed * sizeof(*ret));
	return n_needed;
}

size_t __wrap_mesh_failover_past_keys(struct mesh_vqp *h, uint32_t *ret, size_t n)
{
	assert_ptr_equal(h, &vqp);
	if (n < MESH_FAILOVER_KEYS && past)
		ret[n++] = past;
	return n;
}

bool __wrap_mesh_pd_check_key(struct ibv_pd *of, enum mesh_key_index index, uint32_t key)
{
	assert_ptr_equal(of, &pd);
	assert_int_equal(index, MESH_BY_RKEY);
	checked[n_checked++] = key;
	return key <= 0xff;
}

static int setup(void **state)
{
	(void)state;
	conn = agreed_conn(&process, &qp, &vqp);
	conn->state = MESH_CONN_PASSTHROUGH;
	conn->moving.next_path.pd = &rail_pd;
	needed[0] = 0x10;
	needed[1] = 0x20;
	n_needed = 2;
	past = 0;
	n_checked = 0;
	offered = 9;
	n_sent = 0;
	drops = false;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mesh_conn_peer_left(conn);
	conn->vqp = NULL;
	conn->moving.next_path.pd = NULL;
	mesh_conn_unlink(conn);
	mesh_conn_put(conn);
	mesh_context_release(mesh_context_get(&verbs));
	return 0;
}

/* As it would be sent. */
static struct mail ours(enum mv_ctl_type type, unsigned int flags)
{
	struct mail mail;

	mv_move_header(&conn->move, type, &mail.msg);
	mail.msg.flags = (uint8_t)flags;
	mail.msg.request_id = offered;
	mesh_conn_keys_go(conn, &mail.msg, &mail.keys);
	return mail;
}

static struct mail from_peer(enum mv_ctl_type type)
{
	struct mv_ctl_msg to, msg;

	mv_move_header(&conn->move, type, &to);
	msg = to;
	msg.from = to.to;
	msg.to = to.from;
	msg.attempt = to.to_attempt;
	msg.to_attempt = to.attempt;
	msg.from_psn = to.to_psn;
	msg.to_psn = to.from_psn;
	msg.flags = MV_CTL_MOVE | MV_CTL_READY;
	msg.request_id = offered;
	return (struct mail){.msg = msg};
}

static void comes(const struct mail *mail)
{
	mesh_conn_keys_came(conn, &mail->msg, &mail->keys);
}

/* An answer to all that @question asked for. */
static struct mail told(enum mv_ctl_type type, const struct mail *question)
{
	const struct mv_ctl_key *asked = question->keys.asked;
	struct mail mail = from_peer(type);
	size_t i;

	for (i = 0; i < MV_CTL_KEYS; i++)
		if (asked[i].id)
			mail.keys.given[i] = (struct mv_ctl_key){.id = asked[i].id, .key = asked[i].key + 0x1000};
	return mail;
}

static void peer_drops(uint32_t key)
{
	struct mail drop = from_peer(MV_CTL_KEY_DROP);

	drop.msg.key = key;
	key_message_comes(conn, &drop.msg);
}

static void assert_known(size_t n, uint32_t first, uint32_t second)
{
	struct mesh_failover_keys known = {.n = 99};

	mesh_conn_keys_use(conn, &known);
	assert_int_equal(known.n, n);
	if (n) {
		assert_int_equal(known.keys[0].rkey, first);
		assert_int_equal(known.keys[0].path_rkey, first + 0x1000);
	}
	if (n > 1) {
		assert_int_equal(known.keys[1].rkey, second);
		assert_int_equal(known.keys[1].path_rkey, second + 0x1000);
	}
}

static void test_leader(void **state)
{
	struct mail offer = ours(MV_CTL_OFFER, MV_CTL_MOVE), again, answer;

	(void)state;
	assert_int_equal(offer.keys.asked[0].key, 0x10);
	assert_int_equal(offer.keys.asked[1].key, 0x20);
	assert_int_not_equal(offer.keys.asked[0].id, 0);
	assert_int_not_equal(offer.keys.asked[0].id, offer.keys.asked[1].id);
	again = ours(MV_CTL_OFFER, MV_CTL_MOVE); /* who did not understand it understands this */
	assert_int_equal(again.keys.asked[0].id, 0);
	assert_int_equal(again.keys.asked[1].id, 0);
	answer = told(MV_CTL_ANSWER, &offer);
	comes(&answer);
	assert_known(2, 0x10, 0x20);
	mesh_conn_keys_begin(conn);
	assert_known(0, 0, 0);
}

/* Where little is outstanding the peer is to say of others whether it could give them. */
static void test_past(void **state)
{
	struct mail offer;

	(void)state;
	n_needed = 1;
	past = 0x30;
	offer = ours(MV_CTL_OFFER, MV_CTL_MOVE);
	assert_int_equal(offer.keys.asked[0].key, 0x10);
	assert_int_equal(offer.keys.asked[1].key, 0x30);
}

static void test_follower(void **state)
{
	struct mail offer = from_peer(MV_CTL_OFFER), answer, confirm;

	(void)state;
	offer.keys.asked[0] = (struct mv_ctl_key){.id = 50, .key = 0x40};
	offer.keys.asked[1] = (struct mv_ctl_key){.id = 51, .key = 0x4000}; /* of no region */
	comes(&offer);
	/* Before anything is made. */
	assert_int_equal(n_checked, 2);
	assert_int_equal(checked[0], 0x40);
	assert_int_equal(checked[1], 0x4000);
	mesh_conn_keys_begin(conn); /* that is when its QP is made */
	answer = ours(MV_CTL_ANSWER, MV_CTL_MOVE);
	assert_int_equal(answer.keys.given[0].id, 0); /* not on this path */
	answer = ours(MV_CTL_ANSWER, MV_CTL_MOVE | MV_CTL_READY);
	assert_int_equal(answer.keys.given[0].id, 50);
	assert_int_equal(answer.keys.given[0].key, 0x1040);
	assert_int_equal(answer.keys.given[1].id, 0);
	assert_int_equal(answer.keys.given[1].key, 0);
	assert_int_equal(answer.keys.asked[0].key, 0x10);
	confirm = told(MV_CTL_CONFIRM, &answer);
	comes(&confirm);
	assert_known(2, 0x10, 0x20);
}

/* Of the leader's, what the follower has asked for: by the offer that it has answered. */
static void test_confirm(void **state)
{
	struct mail answer = from_peer(MV_CTL_ANSWER), confirm;

	(void)state;
	answer.keys.asked[0] = (struct mv_ctl_key){.id = 60, .key = 0x41};
	comes(&answer);
	answer.keys.asked[0].id = 0; /* repeated, before the first was answered */
	answer.keys.asked[0].key = 0;
	comes(&answer);
	answer.keys.asked[0] = (struct mv_ctl_key){.id = 60, .key = 0x41};
	confirm = ours(MV_CTL_CONFIRM, MV_CTL_MOVE);
	assert_int_equal(confirm.keys.given[0].id, 60);
	assert_int_equal(confirm.keys.given[0].key, 0x1041);
	assert_int_equal(confirm.keys.asked[0].id, 0);
	confirm = ours(MV_CTL_CONFIRM, MV_CTL_MOVE); /* again */
	assert_int_equal(confirm.keys.given[0].id, 0);
	offered++;
	confirm = ours(MV_CTL_CONFIRM, MV_CTL_MOVE); /* it has asked for another offer */
	assert_int_equal(confirm.keys.given[0].id, 0);
	offered++;
	answer.msg.request_id = offered;
	comes(&answer);
	conn->moving.next_path.pd = NULL;
	confirm = ours(MV_CTL_CONFIRM, MV_CTL_MOVE);
	assert_int_equal(confirm.keys.given[0].id, 0);
}

/* Where the leader does not confirm, they come with its SYNC. */
static void test_sync(void **state)
{
	struct mail answer = from_peer(MV_CTL_ANSWER), sync;

	(void)state;
	answer.keys.asked[0] = (struct mv_ctl_key){.id = 60, .key = 0x41};
	comes(&answer);
	sync = ours(MV_CTL_SYNC, 0);
	assert_int_equal(sync.keys.given[0].id, 60);
	assert_int_equal(sync.keys.given[0].key, 0x1041);
	sync = ours(MV_CTL_SYNC, 0); /* again */
	assert_int_equal(sync.keys.given[0].id, 0);
}

static void test_follower_of_sync(void **state)
{
	struct mail answer, sync;

	(void)state;
	answer = ours(MV_CTL_ANSWER, MV_CTL_MOVE | MV_CTL_READY);
	sync = told(MV_CTL_SYNC, &answer);
	sync.msg.flags = 0;
	comes(&sync);
	assert_known(2, 0x10, 0x20);
}

/* Of a QP that was given up for another one the keys are others. */
static void test_late(void **state)
{
	struct mail first = ours(MV_CTL_OFFER, MV_CTL_MOVE), second, answer;

	(void)state;
	mesh_conn_keys_begin(conn);
	offered++;
	second = ours(MV_CTL_OFFER, MV_CTL_MOVE);
	assert_int_equal(second.keys.asked[0].key, 0x10);
	answer = told(MV_CTL_ANSWER, &first);
	comes(&answer);
	assert_known(0, 0, 0);
}

/* It may overtake the answer, and the answer may come twice. */
static void test_dropped(void **state)
{
	struct mail offer, answer;

	(void)state;
	offer = ours(MV_CTL_OFFER, MV_CTL_MOVE);
	answer = told(MV_CTL_ANSWER, &offer);
	peer_drops(0x10);
	comes(&answer);
	peer_drops(0x30);
	assert_known(1, 0x20, 0);

	offered++;
	offer = ours(MV_CTL_OFFER, MV_CTL_MOVE);
	answer = told(MV_CTL_ANSWER, &offer);
	comes(&answer);
	peer_drops(0x20);
	comes(&answer);
	assert_known(1, 0x10, 0);
}

/* Whom one of ours was told is told when it goes, at once also: before the message is sent it may have gone. */
static void test_told_of_drops(void **state)
{
	struct mail offer = from_peer(MV_CTL_OFFER);

	(void)state;
	offer.keys.asked[0] = (struct mv_ctl_key){.id = 50, .key = 0x40};
	mesh_conns_key_dropped(&pd, 0x40);
	assert_int_equal(n_sent, 0);
	comes(&offer);
	drops = true;
	ours(MV_CTL_ANSWER, MV_CTL_MOVE | MV_CTL_READY);
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent[0].msg.type, MV_CTL_KEY_DROP);
	assert_int_equal(sent[0].msg.key, 0x40);
	assert_int_equal(sent[0].msg.to_attempt, 4);
}

static void test_not_of_others(void **state)
{
	struct mail msg, offer = ours(MV_CTL_OFFER, MV_CTL_MOVE), answer = told(MV_CTL_ANSWER, &offer);

	(void)state;
	answer.msg.to_attempt++;
	comes(&answer);
	answer.msg.to_attempt--;
	answer.msg.flags &= (uint8_t)~MV_CTL_MOVE;
	comes(&answer);
	answer.msg.flags |= MV_CTL_MOVE;
	answer.keys.given[0].id += 100;
	answer.keys.given[1].id = 0;
	comes(&answer);
	assert_known(0, 0, 0);
	/* Connecting, nothing has been posted. */
	offered++;
	msg = ours(MV_CTL_OFFER, 0);
	assert_int_equal(msg.keys.asked[0].id, 0);
	msg = ours(MV_CTL_SYNC, MV_CTL_MOVE);
	assert_int_equal(msg.keys.asked[0].id, 0);
	n_needed = 0;
	msg = ours(MV_CTL_OFFER, MV_CTL_MOVE);
	assert_int_equal(msg.keys.asked[0].id, 0);
}

/* All that is sent passes there, and all that comes. */
static void test_on_the_way(void **state)
{
	struct mail offer = from_peer(MV_CTL_OFFER);
	struct mv_move_action *action = &conn->move.actions.list[conn->move.actions.next];

	(void)state;
	action->type = MV_DO_SEND;
	mv_move_header(&conn->move, MV_CTL_OFFER, &action->msg);
	action->msg.flags = MV_CTL_MOVE;
	action->msg.request_id = offered;
	conn->move.actions.n = 1;
	mesh_conn_work(conn);
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent[0].keys.asked[1].key, 0x20);
	offer.keys.asked[0] = (struct mv_ctl_key){.id = 50, .key = 0x40};
	conn->moving.next_path.pd = NULL;
	message_comes(conn, &offer.msg, &offer.keys, 1, 1); /* it has no log, so it refuses */
	assert_int_equal(conn->moving.keys.asked[0].key, 0x40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_leader), T(test_past), T(test_follower), T(test_confirm), T(test_late), T(test_dropped), T(test_told_of_drops), T(test_on_the_way),
		T(test_sync), T(test_follower_of_sync),
		T(test_not_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
