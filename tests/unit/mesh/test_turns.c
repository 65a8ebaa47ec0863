// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The turns of connections in the helper thread: with a message, or because they are due. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "turns.h"
#include "ud.h"

#define MS 1000000ull
#define NOW_NS (1000 * MS)
#define SILENT_NS (NOW_NS - 7 * MS)
#define N 3

static struct mesh_process processes[16]; /* the table of a process is for ever */
static unsigned int n_processes;
static struct mesh_context context = {.device = "mlx5_0"};
static struct ibv_qp qps[N];
static struct mesh_conn *conns[N];
static const union ibv_gid own_gid = {.raw = {0xfe, 0x80, [15] = 1}};

/* ---- what is done with them ---------------------------------------------------------------------------------------- */

static char did[256]; /* "message 101, run 101" */
static uint64_t deadline; /* what a run says */
static bool moves;
static int agent_err; /* of what the agent is told */

static void note(const char *what, uint32_t qpn)
{
	size_t len = strlen(did);

	assert_true(snprintf(did + len, sizeof(did) - len, "%s%s %u", len ? ", " : "", what, qpn) < (int)(sizeof(did) - len));
}

int __wrap_mesh_thread_wake(bool urgent);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);
void __wrap_mesh_conn_message(struct mesh_conn *conn, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint64_t now_ns);
void __wrap_mesh_conn_key_message(struct mesh_conn *conn, const struct mv_ctl_msg *msg);
void __wrap_mesh_conn_unreachable(struct mesh_conn *conn, const struct mv_ctl_msg *msg, uint64_t now_ns);
bool __wrap_mesh_conn_run(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns, uint64_t *ret_deadline);
void __wrap_mesh_ud_message(const char *device, uint32_t qpn, const struct mv_ctl_msg *msg, uint64_t now_ns);
void __wrap_mesh_ud_unreachable(const struct mv_ctl_msg *msg, uint64_t now_ns);

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	if (frame->type == MV_FRAME_CLAIM)
		note("claim", frame->qpn);
	return agent_err;
}

void __wrap_mesh_conn_message(struct mesh_conn *conn, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint64_t now_ns)
{
	(void)keys;
	assert_int_equal(now_ns, NOW_NS);
	assert_int_equal(msg->type, MV_CTL_HELLO);
	note("message", conn->qpn);
}

void __wrap_mesh_conn_key_message(struct mesh_conn *conn, const struct mv_ctl_msg *msg)
{
	(void)msg;
	note("key", conn->qpn);
}

void __wrap_mesh_conn_unreachable(struct mesh_conn *conn, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	(void)msg;
	assert_int_equal(now_ns, NOW_NS);
	note("unreachable", conn->qpn);
}

bool __wrap_mesh_conn_run(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns, uint64_t *ret_deadline)
{
	assert_int_equal(now_ns, NOW_NS);
	assert_int_equal(silent_ns, SILENT_NS);
	note("run", conn->qpn);
	*ret_deadline = deadline;
	return moves;
}

void __wrap_mesh_ud_message(const char *device, uint32_t qpn, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	(void)msg;
	assert_string_equal(device, context.device);
	assert_int_equal(now_ns, NOW_NS);
	note("datagrams", qpn);
}

void __wrap_mesh_ud_unreachable(const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	assert_int_equal(now_ns, NOW_NS);
	note("datagrams unreachable", msg->from.qpn);
}

/* ---- frames -------------------------------------------------------------------------------------------------------- */

static struct mv_frame frame_of(uint8_t frame_type, uint8_t type, uint32_t qpn)
{
	const struct mv_ctl_msg msg = {.type = type, .attempt = 1, .request_id = 1, .from = {own_gid, qpn}, .to = {own_gid, qpn}};
	struct mv_frame frame = {.type = frame_type, .qpn = qpn};

	snprintf(frame.device, sizeof(frame.device), "%s", context.device);
	frame.len = (uint16_t)mv_ctl_encode(&msg, frame.payload);
	return frame;
}

static struct mesh_turn turn;

static void deliver(const struct mv_frame *frame)
{
	struct mesh_conn *conn = mesh_turn_whose(frame);

	mesh_turn_deliver(&turn, frame, conn);
	mesh_conn_put(conn);
}

/* All have been told of, and none is queued. */
static void settle(void)
{
	struct mesh_conn *conn, *rest;
	uint64_t next;
	unsigned int i;

	for (i = 0; i < N; i++)
		assert_int_equal(mesh_conn_claim(conns[i]), 0);
	for (conn = mesh_conns_take(NOW_NS, &next); conn; conn = rest) {
		rest = conn->next_taken;
		mesh_conn_put(conn);
	}
	did[0] = '\0';
}

static int setup(void **state)
{
	unsigned int i;

	(void)state;
	assert_true(n_processes < sizeof(processes) / sizeof(processes[0]));
	mesh_root.process = &processes[n_processes++];
	pthread_mutex_init(&mesh_root.process->conns_lock, NULL);
	agent_err = 0;
	moves = false;
	deadline = UINT64_MAX;
	did[0] = '\0';
	turn = (struct mesh_turn){.now_ns = NOW_NS, .silent_ns = SILENT_NS, .next_ns = UINT64_MAX};
	for (i = 0; i < N; i++) {
		qps[i].qp_num = 100 + i;
		conns[i] = mesh_conn_new(&context, &qps[i]);
		assert_non_null(conns[i]);
		mesh_conn_connected(conns[i], &own_gid, false);
	}
	return 0;
}

static int teardown(void **state)
{
	struct mesh_conn *conn, *rest;
	uint64_t next;
	unsigned int i;

	(void)state;
	for (i = 0; i < N; i++) {
		assert_int_equal(atomic_load(&conns[i]->refs) - conns[i]->queued, 2);
		mesh_conn_unlink(conns[i]);
		mesh_conn_put(conns[i]);
	}
	for (conn = mesh_conns_take(UINT64_MAX, &next); conn; conn = rest) {
		rest = conn->next_taken;
		mesh_conn_put(conn);
	}
	return 0;
}

/* ---- with a message ------------------------------------------------------------------------------------------------ */

static void test_with_message(void **state)
{
	struct mv_frame hello = frame_of(MV_FRAME_DELIVER, MV_CTL_HELLO, 101);

	(void)state;
	settle();
	moves = true;
	deliver(&hello);
	assert_string_equal(did, "message 101, run 101");
	assert_int_equal(turn.n_live, 1);
	assert_false(turn.worked);
	assert_int_equal(turn.next_ns, UINT64_MAX);
	/* And not once more for it. */
	assert_false(conns[1]->queued);
}

static void test_due_again(void **state)
{
	struct mv_frame hello = frame_of(MV_FRAME_DELIVER, MV_CTL_HELLO, 101);
	struct mesh_conn *conn;
	uint64_t next;

	(void)state;
	settle();
	mesh_conn_queue_at(conns[1], NOW_NS + 3 * MS);
	deadline = NOW_NS + 5 * MS;
	deliver(&hello);
	assert_int_equal(turn.next_ns, NOW_NS + 5 * MS);
	/* What it was due for before is settled. */
	assert_null(mesh_conns_take(NOW_NS + 4 * MS, &next));
	assert_int_equal(next, NOW_NS + 5 * MS);
	conn = mesh_conns_take(NOW_NS + 5 * MS, &next);
	assert_ptr_equal(conn, conns[1]);
	assert_null(conn->next_taken);
	mesh_conn_put(conn);
}

/* Also while others have queued it: that is news of their own. */
static void test_queued_meanwhile(void **state)
{
	struct mv_frame hello = frame_of(MV_FRAME_DELIVER, MV_CTL_HELLO, 101);
	struct mesh_conn *conn;
	uint64_t next;

	(void)state;
	settle();
	mesh_conn_queue(conns[1], true);
	deliver(&hello);
	assert_string_equal(did, "message 101, run 101");
	conn = mesh_conns_take(NOW_NS, &next);
	assert_ptr_equal(conn, conns[1]);
	mesh_conn_put(conn);
}

static void test_keys(void **state)
{
	struct mv_frame frame = frame_of(MV_FRAME_DELIVER, MV_CTL_KEY_GET, 102);

	(void)state;
	settle();
	deliver(&frame);
	assert_string_equal(did, "key 102, run 102");
}

static void test_datagrams(void **state)
{
	struct mv_frame get = frame_of(MV_FRAME_DELIVER, MV_CTL_UD_GET, 7), back = frame_of(MV_FRAME_UNREACHABLE, MV_CTL_UD_GET, 8);

	(void)state;
	settle();
	deliver(&get);
	mesh_turn_unreachable(&turn, &back);
	assert_string_equal(did, "datagrams 7, datagrams unreachable 8");
}

static void test_nobodys(void **state)
{
	struct mv_frame hello = frame_of(MV_FRAME_DELIVER, MV_CTL_HELLO, 99), back = frame_of(MV_FRAME_UNREACHABLE, MV_CTL_HELLO, 99);
	struct mv_frame other = frame_of(MV_FRAME_DELIVER, MV_CTL_HELLO, 101);

	(void)state;
	settle();
	deliver(&hello);
	mesh_turn_unreachable(&turn, &back);
	snprintf(other.device, sizeof(other.device), "mlx5_1");
	deliver(&other);
	assert_string_equal(did, "");
}

static void test_malformed(void **state)
{
	struct mv_frame hello = frame_of(MV_FRAME_DELIVER, MV_CTL_HELLO, 101), back = frame_of(MV_FRAME_UNREACHABLE, MV_CTL_HELLO, 101);

	(void)state;
	settle();
	hello.len--;
	back.len--;
	deliver(&hello);
	mesh_turn_unreachable(&turn, &back);
	assert_string_equal(did, "");
}

static void test_unreachable(void **state)
{
	struct mv_frame back = frame_of(MV_FRAME_UNREACHABLE, MV_CTL_HELLO, 102);

	(void)state;
	settle();
	mesh_conn_queue_at(conns[2], NOW_NS + 3 * MS);
	deadline = NOW_NS + 5 * MS;
	mesh_turn_unreachable(&turn, &back);
	assert_string_equal(did, "unreachable 102, run 102");
	assert_int_equal(conns[2]->due_ns, NOW_NS + 5 * MS);
}

/* ---- the agent is told --------------------------------------------------------------------------------------------- */

static void test_claimed(void **state)
{
	(void)state;
	mesh_turn_run(&turn, conns[0]);
	assert_string_equal(did, "claim 100, run 100");
	assert_true(turn.worked);
	assert_true(atomic_load(&conns[0]->tell));
	/* Once. */
	turn.worked = false;
	mesh_turn_run(&turn, conns[0]);
	assert_string_equal(did, "claim 100, run 100, run 100");
	assert_false(turn.worked);
}

static void test_no_room(void **state)
{
	(void)state;
	agent_err = -EAGAIN;
	mesh_conn_begin_turn(conns[0]);
	mesh_turn_run(&turn, conns[0]);
	assert_false(turn.worked);
	assert_int_equal(turn.next_ns, NOW_NS + 20 * MS);
	/* If there is nothing earlier. */
	deadline = NOW_NS + MS;
	mesh_turn_run(&turn, conns[0]);
	assert_int_equal(turn.next_ns, NOW_NS + MS);
}

static void test_earliest(void **state)
{
	(void)state;
	settle();
	mesh_turn_fetch(NULL);
	deadline = NOW_NS + 2 * MS;
	mesh_turn_run(&turn, conns[0]);
	deadline = NOW_NS + 3 * MS;
	mesh_turn_run(&turn, conns[1]);
	assert_int_equal(turn.next_ns, NOW_NS + 2 * MS);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_with_message), TEST(test_due_again),	  TEST(test_queued_meanwhile), TEST(test_keys),
		TEST(test_datagrams),	 TEST(test_nobodys),	  TEST(test_malformed),	       TEST(test_unreachable),
		TEST(test_claimed),	 TEST(test_no_room), TEST(test_earliest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
