// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What is remembered of a program's queue pair: why it cannot be moved later, as the log says it (nobody to ask when it was made, or no
 * memory to note what it receives), and which state it is said to be in.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "connect_fixture.h"
#include "fault.h"
#include "negotiateint.h"

#define NO_AGENT "mlx5_9 QP 0x7: cannot be moved later: this host had no agent when it was made; the program gets its errors"
#define NO_MEMORY "mlx5_9 QP 0x7: cannot be moved later: there was no memory when it was made; the program gets its errors"
#define INTERCEPTED \
	"mlx5_9 QP 0x7: cannot be moved later: posts or polls of its context are intercepted by something else; the program gets its errors"
#define EITHER "mlx5_9 QP 0x7: cannot be moved later: this host had no agent when it was made, or there was no memory; the program gets its errors"

static int tool_post_send(struct ibv_qp *its, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)its;
	(void)wr;
	(void)bad;
	return 0;
}

/* What the log says when it is connected. */
static void connect_says(const char *line)
{
	char text[4096] = "";
	FILE *file;

	unlink(mesh_root.log.target);
	modify(IBV_QPS_RTR);
	file = fopen(mesh_root.log.target, "r");
	if (file) {
		text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
		fclose(file);
	}
	if (line ? !strstr(text, line) : strstr(text, "cannot be moved later") != NULL)
		fail_msg("it says '%s', not '%s'", text, line ? line : "nothing");
}

static void init_without_memory(unsigned int nth)
{
	fault_arm(FAULT_ALLOC, nth, ENOMEM);
	modify(IBV_QPS_INIT);
	assert_true(fault_fired());
	fault_disarm();
}

static void test_no_agent(void **state)
{
	(void)state;
	agent = false;
	modify(IBV_QPS_INIT);
	agent = true; /* it has come since */
	connect_says(NO_AGENT);
}

static void test_no_memory(void **state)
{
	struct mesh_conn *conn;
	unsigned int nth, n = 0;

	(void)state;
	agent = true;
	for (nth = 1; nth < 20; nth++) {
		fault_arm(FAULT_ALLOC, nth, ENOMEM);
		modify(IBV_QPS_INIT);
		if (!fault_fired())
			break;
		fault_disarm();
		conn = mesh_conn_get(&qp);
		if (!conn) {
			connect_says(NO_MEMORY);
			n++;
		}
		mesh_conn_put(conn);
		modify(IBV_QPS_RESET);
	}
	fault_disarm();
	modify(IBV_QPS_RESET);
	assert_true(n >= 2); /* its own record, and that of its receives */
	/* The next life of the same queue pair. */
	agent = false;
	modify(IBV_QPS_INIT);
	connect_says(NO_AGENT);
}

/* A tool has put its own function where ours would be when it is held. */
static void test_intercepted(void **state)
{
	struct ibv_context_ops hooked;
	struct mesh_conn *conn;
	char text[4096] = "";
	FILE *file;

	(void)state;
	agent = true;
	verbs.ops.post_send = tool_post_send;
	hooked = verbs.ops;
	unlink(mesh_root.log.target);
	modify(IBV_QPS_INIT);
	assert_null(mesh_conn_get(&qp));
	assert_memory_equal(&hooked, &verbs.ops, sizeof(hooked));
	file = fopen(mesh_root.log.target, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	assert_non_null(strstr(text, "mlx5_9: posts or polls of this context are intercepted by something else in this process (post_send)"));
	connect_says(INTERCEPTED);
	modify(IBV_QPS_RESET);
	/* It has gone. */
	verbs.ops.post_send = NULL;
	modify(IBV_QPS_INIT);
	conn = mesh_conn_get(&qp);
	assert_non_null(conn);
	mesh_conn_put(conn);
	modify(IBV_QPS_RESET);
}

static void test_too_many_to_know(void **state)
{
	unsigned int i;

	(void)state;
	agent = true;
	for (i = 0; i < MESH_FORGOTTEN_MAX; i++)
		mesh_forgotten_note(context, 1000 + i, true);
	init_without_memory(1);
	connect_says(EITHER);
}

static void known_to_nobody(struct ibv_qp *other, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	unsigned int before = at_lower.n;

	assert_int_equal(mesh_modify_qp(other, &attr, IBV_QP_STATE | (state == IBV_QPS_RTR ? IBV_QP_AV : 0)), 0);
	assert_int_equal(at_lower.n, before + 1);
	assert_null(mesh_conn_get(other));
	assert_null(mesh_vqp_find(context, other));
}

/* Nobody moves them (docs/guarantees.md, Not protected). */
static void test_other_types(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_DRIVER, IBV_QPT_RAW_PACKET};

	(void)state;
	agent = true;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp other = {.context = &verbs, .qp_num = 9, .qp_type = types[i]};

		known_to_nobody(&other, IBV_QPS_INIT);
		known_to_nobody(&other, IBV_QPS_RTR);
		known_to_nobody(&other, IBV_QPS_RTS);
		known_to_nobody(&other, IBV_QPS_RESET);
	}
}

/* From INIT to INIT, as librdmacm goes: what was posted in between is not known. */
static void test_agent_comes_in_init(void **state)
{
	(void)state;
	agent = false;
	modify(IBV_QPS_INIT);
	qp.state = IBV_QPS_INIT;
	agent = true;
	modify(IBV_QPS_INIT);
	assert_null(mesh_conn_get(&qp));
	qp.state = IBV_QPS_RESET;
	connect_says("this host had no agent when it was made");
	modify(IBV_QPS_RESET);
}

/* ---- what is said ---------------------------------------------------------------------------------------------- */

#define RESOLVES_US 200000 /* as long as the kernel looks for the neighbour */

static _Atomic enum ibv_qp_state lower_state;

static int modify_slowly(struct ibv_qp *its, struct ibv_qp_attr *attr, int mask)
{
	(void)its;
	if (attr->qp_state == IBV_QPS_RTR)
		usleep(RESOLVES_US);
	if (mask & IBV_QP_STATE)
		lower_state = attr->qp_state;
	return 0;
}

static int query_lower(struct ibv_qp *its, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init_attr)
{
	(void)its;
	(void)mask;
	(void)init_attr;
	attr->qp_state = attr->cur_qp_state = lower_state;
	return 0;
}

static _Atomic bool is_passthrough;

static void *make_passthrough(void *conn)
{
	mesh_conn_work(conn);
	is_passthrough = true;
	return NULL;
}

/*
 * Held, and then left as it is: the lower provider's goes to RTS long after the program has been told that it is there.
 */
static void test_never_less_than_said(void **state)
{
	const struct mv_move_begin begin = {.local.qpn = 7, .peer.qpn = 9, .verdict = MV_PATH_ASK, .attempt = 5};
	static struct mesh_cq cq;
	struct mesh_vqp *h;
	struct mesh_conn *conn = connection(MESH_CONN_HELD, NULL);
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;
	pthread_t worker;
	unsigned int n;

	(void)state;
	h = mesh_vqp_find(context, &qp);
	assert_non_null(h);
	h->mode = MESH_VQP_QUEUING;
	h->send_cq = h->recv_cq = &cq;
	context->data.n_noted--;
	context->data.n_vqps++;
	conn->vqp = h;
	conn->attr.rtr.qp_state = IBV_QPS_RTR;
	conn->attr.rts.qp_state = IBV_QPS_RTS;
	mv_move_begin(&conn->move, &begin, &mv_move_default_times, mesh_now_ns());
	mv_move_unreachable(&conn->move, mesh_now_ns());
	lower_state = IBV_QPS_INIT;
	context->lower.qp.modify_qp = modify_slowly;
	context->lower.qp.query_qp = query_lower;
	is_passthrough = false;
	assert_int_equal(pthread_create(&worker, NULL, make_passthrough, conn), 0);
	for (n = 0; !is_passthrough || !n; n++) {
		assert_int_equal(mesh_query_qp(&qp, &attr, IBV_QP_STATE, &init_attr), 0);
		assert_int_equal(attr.qp_state, IBV_QPS_RTS);
		usleep(1000);
	}
	assert_int_equal(pthread_join(worker, NULL), 0);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(lower_state, IBV_QPS_RTS);
	context->lower.qp.modify_qp = modify_qp;
	end(conn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_agent),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_intercepted),
		cmocka_unit_test(test_too_many_to_know),
		cmocka_unit_test(test_other_types),
		cmocka_unit_test(test_agent_comes_in_init),
		cmocka_unit_test(test_never_less_than_said),
	};

	return cmocka_run_group_tests(tests, connect_setup, connect_teardown);
}
