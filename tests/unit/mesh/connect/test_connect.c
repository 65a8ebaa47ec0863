// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What is remembered of a program's queue pair: why it cannot be moved later, as the log says it (nobody to ask when it was made, or no
 * memory to note what it receives), what it changes of it, that what the kernel refuses changes nothing, and which state it is said to be in.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fault.h"
#include "negotiateint.h"
#include "tmpdir.h"
#include "udint.h"
#include "vqp_int.h"

#define NO_AGENT "mlx5_9 QP 0x7: cannot be moved later: this host had no agent when it was made; the program gets its errors"
#define NO_MEMORY "mlx5_9 QP 0x7: cannot be moved later: there was no memory when it was made; the program gets its errors"
#define INTERCEPTED \
	"mlx5_9 QP 0x7: cannot be moved later: posts or polls of its context are intercepted by something else; the program gets its errors"
#define EITHER "mlx5_9 QP 0x7: cannot be moved later: this host had no agent when it was made, or there was no memory; the program gets its errors"

bool __wrap_mesh_directory_agent(void);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);
int __wrap_mesh_thread_wake(bool urgent);

static struct mesh_process process;
static struct mesh_context *context;
static struct ibv_context verbs;
static struct ibv_qp qp = {.context = &verbs, .qp_num = 7, .qp_type = IBV_QPT_RC};
static struct tmpdir tmp;
static bool agent;

bool __wrap_mesh_directory_agent(void)
{
	return agent;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	(void)frame;
	return 0;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

/* By the lower provider, and by libibverbs, for a queue pair of ours. */
static struct modified {
	unsigned int n, access;
	int mask, err;
} at_lower, at_next;

static int note_modify(struct modified *modified, const struct ibv_qp_attr *attr, int mask)
{
	modified->n++;
	modified->mask = mask;
	modified->access = attr->qp_access_flags;
	return modified->err;
}

static int modify_qp(struct ibv_qp *its, struct ibv_qp_attr *attr, int mask)
{
	(void)its;
	return note_modify(&at_lower, attr, mask);
}

static int modify_next(struct ibv_qp *its, struct ibv_qp_attr *attr, int mask)
{
	(void)its;
	return note_modify(&at_next, attr, mask);
}

static int tool_post_send(struct ibv_qp *its, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)its;
	(void)wr;
	(void)bad;
	return 0;
}

static int setup(void **state)
{
	char path[300];

	(void)state;
	tmpdir_make(&tmp);
	snprintf(path, sizeof(path), "%s/log", tmp.path);
	mv_log_init(&mesh_root.log, path, MV_LOG_DEBUG);
	mesh_root.process = &process;
	mesh_root.config.survive = true;
	mesh_lock_init(&process.conns.lock);
	context = mesh_context_get_free();
	assert_non_null(context);
	context->can_move = true;
	context->lower.qp.modify_qp = modify_qp;
	strcpy(context->device, "mlx5_9");
	mesh_lock_init(&context->data.lock);
	mesh_context_publish(context, &verbs);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tmpdir_remove(&tmp);
	return 0;
}

static void modify(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	assert_int_equal(mesh_modify_qp(&qp, &attr, IBV_QP_STATE | (state == IBV_QPS_RTR ? IBV_QP_AV : 0)), 0);
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

#define READS  IBV_ACCESS_REMOTE_READ
#define WRITES IBV_ACCESS_REMOTE_WRITE

static int change(unsigned int access, uint8_t min_rnr_timer, int mask)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .qp_access_flags = access, .min_rnr_timer = min_rnr_timer, .timeout = 9};

	at_lower.n = at_next.n = 0;
	return mesh_modify_qp(&qp, &attr, mask);
}

/* What the program may change in RTS is what the next queue pair is made with; one that is made already gets it at once. */
static void test_changed(void **state)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .qp_access_flags = WRITES};
	const int both = IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp next = {.context = &verbs, .qp_num = 8};
	struct mesh_wr_tracker tracker = {.broken = false};
	struct mesh_vqp vqp = {.mc = context, .qp = &qp, .mode = MESH_VQP_TRACKED, .tracker = &tracker};
	struct mesh_conn *conn;

	(void)state;
	agent = true;
	mesh_root.lib.verbs.modify_qp = modify_next;
	assert_int_equal(mesh_modify_qp(&qp, &init, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), 0);
	conn = mesh_conn_get(&qp);
	assert_non_null(conn);
	/* In INIT, also of one that does not say that it stays there; */
	assert_int_equal(change(0, 0, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(at_lower.n, 1);
	assert_int_equal(conn->attr.init.qp_access_flags, 0);

	conn->state = MESH_CONN_PASSTHROUGH;
	conn->vqp = &vqp;
	conn->attr.rtr_mask = IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER;
	conn->attr.rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_ACCESS_FLAGS;
	/* at work; */
	assert_int_equal(change(READS, 3, both), 0);
	assert_int_equal(at_lower.n, 1);
	assert_int_equal(at_next.n, 0);
	assert_int_equal(conn->attr.init.qp_access_flags, READS);
	assert_int_equal(conn->attr.rtr.qp_access_flags, 0); /* it was not given there */
	assert_int_equal(conn->attr.rtr.min_rnr_timer, 3);
	assert_int_equal(conn->attr.rts.qp_access_flags, READS);
	/* if it is refused, it is as it was; */
	at_lower.err = EINVAL;
	assert_int_equal(change(WRITES, 4, both | IBV_QP_STATE), EINVAL);
	at_lower.err = 0;
	assert_int_equal(conn->attr.init.qp_access_flags, READS);
	assert_int_equal(conn->attr.rtr.min_rnr_timer, 3);
	/* while the next one is there; */
	vqp.next.shadow = (struct mesh_shadow){.qp = &next, .rtr = true, .rts = true};
	assert_int_equal(change(WRITES, 4, both | IBV_QP_STATE), 0);
	assert_int_equal(at_lower.n, 1);
	assert_int_equal(at_next.n, 1);
	assert_int_equal(at_next.mask, both);
	assert_int_equal(at_next.access, WRITES);
	/* while the last one is in ERR, of which the program does not know: before the drain and behind it. */
	tracker.broken = true;
	assert_int_equal(change(READS, 5, both), 0);
	assert_int_equal(at_lower.n, 0);
	assert_int_equal(at_next.access, READS);
	tracker.broken = false;
	vqp.mode = MESH_VQP_DRAINED;
	assert_int_equal(change(0, 6, both), 0);
	assert_int_equal(at_lower.n, 0);
	assert_int_equal(at_next.n, 1);
	assert_int_equal(at_next.access, 0);
	assert_int_equal(conn->attr.init.qp_access_flags, 0);
	assert_int_equal(conn->attr.rtr.min_rnr_timer, 6);
	at_next.err = EINVAL;
	assert_int_equal(change(READS, 5, both), EINVAL);
	at_next.err = 0;

	conn->vqp = NULL;
	mesh_conn_put(conn);
	modify(IBV_QPS_RESET);
}

/* ---- what is refused ------------------------------------------------------------------------------------------- */

/* In INIT, with what it needs to be taken for connected. */
static struct mesh_conn *connection(enum mesh_conn_state state, struct mesh_vqp *vqp)
{
	struct mesh_conn *conn;

	agent = true;
	modify(IBV_QPS_INIT);
	conn = mesh_conn_get(&qp);
	assert_non_null(conn);
	conn->state = state;
	conn->vqp = vqp;
	conn->attempt.number = 5;
	conn->attr.rtr_mask = conn->attr.rts_mask = IBV_QP_STATE;
	conn->ends.peer.qpn = 9;
	return conn;
}

static void end(struct mesh_conn *conn)
{
	conn->vqp = NULL;
	mesh_conn_put(conn);
	modify(IBV_QPS_RESET);
}

static int to(enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {.qp_state = state, .sq_psn = 77};

	at_lower.n = at_next.n = 0;
	return mesh_modify_qp(&qp, &attr, IBV_QP_STATE | mask);
}

static void assert_untouched(const struct mesh_conn *conn, enum mesh_conn_state state, const struct mesh_vqp *vqp)
{
	struct mesh_conn *found = mesh_conn_get(&qp);

	assert_ptr_equal(found, conn);
	mesh_conn_put(found);
	assert_int_equal(conn->state, state);
	assert_ptr_equal(conn->vqp, vqp);
	assert_int_equal(conn->attempt.number, 5);
	assert_int_equal(conn->attr.rtr_mask, IBV_QP_STATE);
	assert_int_equal(conn->attr.rts_mask, IBV_QP_STATE);
	assert_int_equal(conn->ends.peer.qpn, 9);
	assert_false(conn->gone);
}

static void refuses(enum ibv_qp_state asked, int mask)
{
	errno = 0;
	assert_int_equal(to(asked, mask), EINVAL);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(at_lower.n + at_next.n, 0);
}

/* The lower provider's may be in INIT still, and would do all of it. */
static void connected_refuses(enum mesh_conn_state state, enum mesh_vqp_mode mode)
{
	struct mesh_wr_tracker tracker = {.broken = false};
	struct mesh_vqp vqp = {.mc = context, .qp = &qp, .mode = mode, .tracker = &tracker};
	struct mesh_conn *conn = connection(state, &vqp);

	refuses(IBV_QPS_RTR, IBV_QP_AV);
	refuses(IBV_QPS_RTR, 0);
	refuses(IBV_QPS_INIT, IBV_QP_ACCESS_FLAGS);
	refuses(IBV_QPS_ERR, IBV_QP_ACCESS_FLAGS);
	assert_untouched(conn, state, &vqp);
	assert_int_equal(vqp.mode, mode);
	at_lower.err = EINVAL;
	assert_int_equal(to(IBV_QPS_RESET, IBV_QP_ACCESS_FLAGS), EINVAL);
	at_lower.err = 0;
	assert_untouched(conn, state, &vqp);
	end(conn);
}

static void test_connected_again(void **state)
{
	(void)state;
	connected_refuses(MESH_CONN_PASSTHROUGH, MESH_VQP_TRACKED);
	connected_refuses(MESH_CONN_HELD, MESH_VQP_QUEUING);
	connected_refuses(MESH_CONN_MOVED, MESH_VQP_ACTIVE);
	connected_refuses(MESH_CONN_FAILED, MESH_VQP_FLUSHING);
}

/* One that cannot be moved is the lower provider's, and its peer may ask for what was agreed. */
static void test_passthrough_again(void **state)
{
	struct mesh_conn *conn = connection(MESH_CONN_PASSTHROUGH, NULL);

	(void)state;
	at_lower.err = EINVAL;
	assert_int_equal(to(IBV_QPS_RTR, IBV_QP_AV), EINVAL);
	assert_int_equal(at_lower.n, 1);
	assert_int_equal(to(IBV_QPS_INIT, 0), EINVAL);
	assert_int_equal(to(IBV_QPS_RTS, IBV_QP_SQ_PSN), EINVAL);
	assert_untouched(conn, MESH_CONN_PASSTHROUGH, NULL);
	at_lower.err = 0;
	assert_int_equal(to(IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
	assert_int_equal(conn->attr.rts_mask, IBV_QP_STATE | IBV_QP_SQ_PSN);
	assert_int_equal(conn->attr.rts.sq_psn, 77);
	end(conn);
}

/* The same of one whose transitions are none of ours. */
static void test_untouched_again(void **state)
{
	struct mesh_conn *conn = connection(MESH_CONN_PASSTHROUGH, NULL);

	(void)state;
	mesh_conn_connected(conn, &conn->ends.local.gid, true);
	at_lower.err = EINVAL;
	assert_int_equal(to(IBV_QPS_RTS, IBV_QP_SQ_PSN), EINVAL);
	assert_int_equal(at_lower.n, 1);
	assert_int_equal(mesh_conn_sq_psn(conn), MV_CTL_PSN_NONE);
	at_lower.err = 0;
	assert_int_equal(to(IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
	assert_int_equal(mesh_conn_sq_psn(conn), 77);
	assert_untouched(conn, MESH_CONN_PASSTHROUGH, NULL);
	end(conn);
}

/* Programs try again where the kernel has not found the neighbour, as if they had not tried. */
static void test_rtr_tried_again(void **state)
{
	struct mesh_conn *conn = connection(MESH_CONN_INIT, NULL);

	(void)state;
	at_lower.err = ETIMEDOUT;
	assert_int_equal(to(IBV_QPS_RTR, IBV_QP_AV), ETIMEDOUT);
	assert_int_equal(to(IBV_QPS_RTR, IBV_QP_AV), ETIMEDOUT);
	assert_int_equal(at_lower.n, 1);
	assert_int_equal(conn->state, MESH_CONN_INIT);
	assert_non_null(mesh_vqp_find(context, &qp)); /* its receives are noted still */
	at_lower.err = 0;
	assert_int_equal(to(IBV_QPS_RTR, IBV_QP_AV), 0);
	assert_int_equal(conn->state, MESH_CONN_PASSTHROUGH);
	end(conn);
}

#define RTS_MASK (IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

/* The QP in its place has not taken it: so it is in RTR, and may be asked for something else. */
static void test_rts_tried_again(void **state)
{
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7};
	struct ibv_qp next = {.context = &verbs, .qp_num = 8};
	struct mesh_vqp vqp = {.mc = context, .qp = &qp, .mode = MESH_VQP_QUEUING,
			       .now = {.qp = &next, .rtr = true}};
	struct mesh_conn *conn = connection(MESH_CONN_HELD, &vqp);

	(void)state;
	mesh_root.lib.verbs.modify_qp = modify_next;
	conn->attr.rts_mask = 0;
	conn->shadow.connected = true;
	at_next.err = EINVAL;
	assert_int_equal(to(IBV_QPS_RTS, RTS_MASK), EINVAL);
	assert_int_equal(at_next.n, 1);
	at_next.err = 0;
	assert_int_equal(conn->attr.rts_mask, 0);
	assert_false(vqp.now.rts);
	/* What the kernel would not take nobody is asked for. */
	refuses(IBV_QPS_RTS, RTS_MASK & ~IBV_QP_TIMEOUT);
	refuses(IBV_QPS_RTS, RTS_MASK | IBV_QP_DEST_QPN);
	refuses(IBV_QPS_RTS, RTS_MASK | IBV_QP_CUR_STATE); /* RESET */
	assert_int_equal(conn->attr.rts_mask, 0);
	at_next.n = 0;
	assert_int_equal(mesh_modify_qp(&qp, &rts, IBV_QP_STATE | RTS_MASK), 0);
	assert_int_equal(at_next.n, 1);
	assert_true(conn->move.timers.patience_ns == 8 * (4096ull << 14));
	assert_true(conn->attr.rts_mask);
	assert_true(vqp.now.rts);
	end(conn);
}

static bool is_relayed(void)
{
	int cancel = mesh_ud_lock();
	bool found = mesh_ud_qp_find(&qp);

	mesh_ud_unlock(cancel);
	return found;
}

static struct ibv_qp_ex *no_qp_ex(struct ibv_qp *its)
{
	(void)its;
	return NULL;
}

/* One that goes on after all has its relays still. */
static void test_datagrams_go_on(void **state)
{
	(void)state;
	mesh_root.lib.verbs.qp_to_qp_ex = no_qp_ex;
	agent = true;
	qp.qp_type = IBV_QPT_UD;
	modify(IBV_QPS_INIT);
	assert_true(is_relayed());
	at_lower.err = EINVAL;
	assert_int_equal(to(IBV_QPS_RESET, IBV_QP_QKEY), EINVAL);
	assert_int_equal(at_lower.n, 1);
	assert_true(is_relayed());
	at_lower.err = 0;
	assert_int_equal(to(IBV_QPS_RESET, 0), 0);
	assert_false(is_relayed());
	qp.qp_type = IBV_QPT_RC;
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
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_connected_again),
		cmocka_unit_test(test_passthrough_again),
		cmocka_unit_test(test_untouched_again),
		cmocka_unit_test(test_rtr_tried_again),
		cmocka_unit_test(test_rts_tried_again),
		cmocka_unit_test(test_datagrams_go_on),
		cmocka_unit_test(test_other_types),
		cmocka_unit_test(test_agent_comes_in_init),
		cmocka_unit_test(test_never_less_than_said),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
