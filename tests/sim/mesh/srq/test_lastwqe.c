// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * IBV_EVENT_QP_LAST_WQE_REACHED of queue pairs with an SRQ, some of which are moved: the program gets one of each that
 * it has brought to ERR, or has been shown an error of, and none of a move.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "hub.h"

static const struct manner bare = {.how = BARE}, moved = {.how = MOVED};

static void reads_last_wqe(const struct end *e)
{
	struct ibv_async_event event;

	assert_true(world_event(&world, &event, PATIENCE_MS));
	assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(event.element.qp, e->qp);
}

/* What a program waits for before it destroys such a QP. */
static void last_wqe(const struct manner *manner)
{
	struct hub *h = calloc(1, sizeof(*h));
	struct end *to;

	assert_non_null(h);
	hub_open(h, &bare);
	post_missing(h, 10);
	pair_open(h, 0, manner);
	pair_send(h, 0);
	take_all(h, &h->pairs[0]);
	to = &h->pairs[0].to;
	end_err(to);
	reads_last_wqe(to);
	hub_close(h);
	free(h);
}

static void test_last_wqe(void **state)
{
	(void)state;
	last_wqe(&bare);
	last_wqe(&moved);
}

/* ---- of one that is moved while it is at work ------------------------------------------------------------------ */

/* All that the program gets of a queue pair that it has not brought to ERR. */
static void reads_nothing(void)
{
	struct ibv_async_event event;

	assert_true(world_event(&world, &event, PATIENCE_MS));
	assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(event.element.port_num, 1);
}

static void no_event(void)
{
	struct ibv_async_event event;

	if (world_event(&world, &event, 50))
		fail_msg("%s", ibv_event_type_str(event.event_type));
}

/* A move is not to be seen, and the end that the program makes is as bare. */
static void test_last_wqe_failover(void **state)
{
	struct at_work *l = at_work_open(1);

	(void)state;
	at_work_works(l, &l->ends[0]);
	no_event();
	failover_move(&l->ends[0]);
	reads_nothing();
	no_event();
	at_work_works(l, &l->ends[0]);
	end_err(&l->ends[0]);
	reads_last_wqe(&l->ends[0]);
	no_event();
	end_err(&l->ends[0]);
	no_event();
	at_work_close(l);
}

/* Who reads late gets the one of the move. */
static void test_last_wqe_late(void **state)
{
	struct at_work *l = at_work_open(1);

	(void)state;
	failover_move(&l->ends[0]);
	end_err(&l->ends[0]);
	reads_last_wqe(&l->ends[0]);
	no_event();
	at_work_close(l);
}

/* It failed: the program gets errors of it, before or after it has read what the drain made. */
static void test_last_wqe_move_failed(void **state)
{
	struct mv_move_sync sync;
	struct at_work *l = at_work_open(2);
	struct ibv_wc wc;

	(void)state;
	failover_drain(&l->ends[0], &sync);
	reads_nothing();
	mesh_failover_flush_errors(l->ends[0].vqp);
	reads_last_wqe(&l->ends[0]);
	failover_drain(&l->ends[1], &sync);
	mesh_failover_flush_errors(l->ends[1].vqp);
	reads_last_wqe(&l->ends[1]);
	/* They are there, and the program knows. */
	end_err(&l->ends[0]);
	end_err(&l->ends[1]);
	no_event();
	while (end_poll(&l->hub.end, &wc))
		;
	at_work_close(l);
}

/* The device itself brings it to ERR, and the event comes before the error that is the program's. */
static void test_last_wqe_of_error(void **state)
{
	struct at_work *l = at_work_open(1);
	struct end *e = &l->ends[0];
	struct ibv_send_wr wr = {.wr_id = 8, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = 8, .lkey = e->mr->lkey ^ 0x55500};

	(void)state;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	assert_int_equal(end_send(e, &wr), 0);
	reads_nothing();
	no_event();
	assert_int_equal(end_wait(&l->hub.end).status, IBV_WC_LOC_PROT_ERR);
	reads_last_wqe(e);
	end_err(e);
	no_event();
	at_work_close(l);
}

/* Several at once: each its own. And nothing of one that is destroyed before, though it was brought to ERR. */
static void test_last_wqe_of_many(void **state)
{
	struct at_work *l = at_work_open(3);
	uint32_t i;

	(void)state;
	for (i = 0; i < 3; i++)
		failover_move(&l->ends[i]);
	for (i = 0; i < 3; i++)
		reads_nothing();
	for (i = 0; i < 3; i++)
		end_err(&l->ends[i]);
	reads_last_wqe(&l->ends[0]);
	end_close(&l->ends[1]);
	reads_last_wqe(&l->ends[2]);
	no_event();
	end_close(&l->ends[0]);
	l->n = 0;
	end_close(&l->ends[2]);
	at_work_close(l);
}

/* It goes as it is: withheld, due, and not read at all. */
static void test_last_wqe_destroyed(void **state)
{
	struct at_work *l = at_work_open(3);
	uint32_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		failover_move(&l->ends[i]);
		reads_nothing();
	}
	failover_move(&l->ends[2]);
	end_err(&l->ends[1]);
	for (i = 0; i < 3; i++)
		end_close(&l->ends[i]);
	l->n = 0;
	reads_nothing(); /* instead of what was on its way */
	no_event();
	at_work_close(l);
}

/* What a program reads while something of ours is on its device and is going to be destroyed. */
static struct {
	int (*real)(struct ibv_qp *);
	unsigned int n_read;
} destroying;

static int destroy_when_read(struct ibv_qp *qp)
{
	struct ibv_async_event event;
	struct pollfd fd = {.fd = world.context->async_fd, .events = POLLIN};

	if (poll(&fd, 1, 0) == 1) {
		assert_int_equal(ibv_get_async_event(world.context, &event), 0);
		assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE); /* and it need not be acknowledged */
		destroying.n_read++;
	}
	return destroying.real(qp);
}

/* Receives are taken out of the program's SRQ by a queue pair of ours, of which the program does not know. */
static void test_last_wqe_of_ours(void **state)
{
	struct hub *h = calloc(1, sizeof(*h));

	(void)state;
	assert_non_null(h);
	destroying.n_read = 0;
	destroying.real = world.mc->lower.qp.destroy_qp;
	world.mc->lower.qp.destroy_qp = destroy_when_read;
	hub_open(h, &bare);
	post_missing(h, 20);
	pair_open(h, 0, &bare);
	pair_open(h, 1, &moved);
	assert_true(destroying.n_read > 0);
	pair_send(h, 0);
	pair_send(h, 1);
	hub_close(h);
	world.mc->lower.qp.destroy_qp = destroying.real;
	free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_last_wqe, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_failover, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_late, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_move_failed, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_of_error, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_of_many, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_destroyed, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_of_ours, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
