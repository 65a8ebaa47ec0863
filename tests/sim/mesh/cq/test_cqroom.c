// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Room in the CQ for all that a move flushes into it, beside what the program has there. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "reading.h"

#define ROOM 511

static const struct shape with_srq = {.cqe = ROOM, .max_wr = 200, .srq = true, .srq_wr = ROOM, .max_inline = 16, .max_sge = 1};
static const struct shape without = {.cqe = ROOM, .max_wr = 200, .max_inline = 16, .max_sge = 1};

static void connect_pair(struct end *from, const struct end *to, bool tracked)
{
	const struct ibv_qp_attr to_rtr = world_rtr(&world, false, to->qp->qp_num, RQ_PSN);

	if (!tracked) {
		connect_bare(from, to_rtr, reading_rts(RQ_PSN));
		return;
	}
	tracked_rtr(from, &tracked_ops, to_rtr, &h);
	tracked_rts(from, h, reading_rts(RQ_PSN));
}

/* Among other events: a QP with an SRQ that goes to ERR gives one. */
static bool has_overrun(void)
{
	struct ibv_async_event event;

	while (world_event(&world, &event, 50))
		if (event.event_type == IBV_EVENT_CQ_ERR)
			return true;
	return false;
}

/*
 * Sends that are not signaled, and receives of an SRQ, have one CQ; it is full of the ones, and then all of the others are flushed. Nobody
 * polls.
 */
static void test_room_beside_srq(void **state)
{
	uint32_t n_sends, n_recvs, i;
	struct mv_move_sync sync;
	struct end c, d;
	struct ibv_wc wc;

	(void)state;
	end_open(&c, &world, &noted, &with_srq);
	end_open(&d, &world, &bare, &without);
	connect_pair(&c, &d, true);
	connect_pair(&d, &c, false);
	for (n_sends = 0; !end_send_empty(&c, n_sends, 0); n_sends++)
		; /* the peer has no receive, and however often they come again, they stay */
	/* By what is logged there is room enough, and no more than that. */
	assert_true(h->send_cq->size.n_lower_wrs + 3 <= (uint32_t)c.cq->cqe);
	n_recvs = (uint32_t)c.cq->cqe - n_sends + 20;
	assert_true(n_recvs < (uint32_t)c.cq->cqe);
	for (i = 0; i < n_recvs; i++) {
		assert_int_equal(end_recv(&c, 1000 + i, 0, 16), 0);
		assert_int_equal(end_send_empty(&d, i, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&d).status, IBV_WC_SUCCESS);
	}
	tracked_prepare(h);
	tracked_drain(h, true, &sync);
	assert_false(has_overrun());
	assert_int_equal(mv_wrlog_count(&h->tracker->sends.log), n_sends);
	for (i = 0; i < n_recvs; i++) {
		wc = end_wait(&c);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, 1000 + i);
	}
	end_quiet(&c);
	mesh_vqp_destroy(h);
	h = NULL;
	end_close(&c);
	end_close(&d);
}

static struct {
	int (*real)(struct ibv_cq *, int);
	unsigned int n;
	int max;
} resizes;

static int resize_to_max(struct ibv_cq *cq, int cqe)
{
	resizes.n++;
	return cqe > resizes.max ? EINVAL : resizes.real(cq, cqe);
}

/* Return: as large as the CQ is then. */
static uint32_t room_after_prepare(void)
{
	tracked_prepare(h);
	mesh_failover_release(h);
	return (uint32_t)a.cq->cqe;
}

/* What was added for a move does not count as the program's wish with the next one; what the program wishes later does. */
static void test_room_does_not_grow(void **state)
{
	uint32_t room, own = (uint32_t)a.cq->cqe;

	(void)state;
	connect_a();
	room = room_after_prepare();
	assert_true(room >= own + h->send_cq->size.n_lower_wrs + 3);
	assert_int_equal(room_after_prepare(), room);
	/* The QP on the other NIC needs room for its own work alone. */
	assert_true((uint32_t)h->send_cq->shadows.polled->cq->cqe <= own);
	assert_int_equal(ibv_resize_cq(a.cq, 3000), 0);
	own = (uint32_t)a.cq->cqe;
	room = room_after_prepare();
	assert_true(room >= own + h->send_cq->size.n_lower_wrs + 3);
	assert_int_equal(room_after_prepare(), room);
	assert_int_equal(ibv_resize_cq(a.cq, 100), 0);
	room = (uint32_t)a.cq->cqe;
	assert_true(room < own);
	assert_true(room_after_prepare() >= room + h->send_cq->size.n_lower_wrs + 3);
	assert_true((uint32_t)a.cq->cqe < own);
}

/* The device has no CQ of that size: those that have a log have room at least, and the move is made. */
static void test_room_refused(void **state)
{
	uint32_t own = (uint32_t)a.cq->cqe, least;

	(void)state;
	connect_a();
	resizes.real = world.mc->lower.cq.resize_cq;
	resizes.n = 0;
	resizes.max = (int)own;
	world.mc->lower.cq.resize_cq = resize_to_max;
	assert_int_equal(room_after_prepare(), own);
	assert_int_equal(room_after_prepare(), own);
	assert_int_equal(resizes.n, 1); /* it is not asked again */
	assert_int_equal(ibv_resize_cq(a.cq, 10), 0);
	least = h->send_cq->size.n_lower_wrs + 3;
	assert_true((uint32_t)a.cq->cqe < least);
	resizes.max = (int)least;
	assert_true(room_after_prepare() >= least);
	world.mc->lower.cq.resize_cq = resizes.real;
}

/*
 * On the other NIC sentinels are posted beside what may be as much as was asked for; the next drain completes all of it at
 * once.
 */
static void test_room_for_drain_wrs(void **state)
{
	uint32_t work;

	(void)state;
	connect_a();
	work = h->made.cap.max_send_wr + h->made.cap.max_recv_wr;
	tracked_prepare(h);
	assert_ptr_equal(h->next.shadow.send_cq, h->next.shadow.recv_cq);
	assert_true(h->next.shadow.send_cq->n_wrs >= work + 2);
	assert_true((uint32_t)h->next.shadow.send_cq->cq->cqe >= work + 2);
	mesh_failover_release(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, reading_setup, reading_teardown)
		T(test_room_beside_srq), T(test_room_does_not_grow), T(test_room_refused),
		T(test_room_for_drain_wrs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
