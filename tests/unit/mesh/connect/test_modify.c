// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a program changes of its queue pair is what the next one is made with; and what the kernel refuses, or would
 * refuse, changes nothing.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "connect_fixture.h"
#include "udint.h"

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
	conn->path.connected = true;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_connected_again),
		cmocka_unit_test(test_passthrough_again),
		cmocka_unit_test(test_untouched_again),
		cmocka_unit_test(test_rtr_tried_again),
		cmocka_unit_test(test_rts_tried_again),
		cmocka_unit_test(test_datagrams_go_on),
	};

	return cmocka_run_group_tests(tests, connect_setup, connect_teardown);
}
