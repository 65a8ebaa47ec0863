// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A queue pair in ERR receives no more. So others get the receives of its SRQ at once, also the receives behind a port
 * that is down, and not only when the program destroys the queue pair.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "hub.h"
#include "srq.h"
#include "vqp_int.h"

static _Thread_local unsigned int n_sleeps, n_flush_sleeps; /* of this thread; while errors were given */

int __real_usleep(useconds_t us);
int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
	n_sleeps++;
	return __real_usleep(us);
}

/* Two queue pairs on two NICs, and 20 receives: each NIC has half of them. */
struct shared {
	struct at_work *l;
	struct mesh_srq *srq;
	struct end *stops, *goes_on, *other; /* @other: at the lower provider; NULL: none */
	bool on_rail; /* where @stops is, and the port goes down */
};

static struct shared shared_open(bool on_rail, bool third)
{
	struct shared s = {.l = at_work_open(third ? 3 : 2), .on_rail = on_rail};

	s.stops = &s.l->ends[0];
	s.goes_on = &s.l->ends[1];
	s.other = third ? &s.l->ends[2] : NULL;
	failover_move(on_rail ? s.stops : s.goes_on);
	s.srq = mesh_srq_find(world.mc, s.l->hub.end.srq);
	assert_int_equal(s.srq->lower.log.n_left, 10);
	assert_int_equal(s.srq->shadows->log.n_left, 10);
	hub_cable(on_rail, false);
	return s;
}

/* The port is still down. All receives can be had, each once, and none is posted meanwhile. */
static void gets_all(struct shared *s)
{
	uint32_t i;

	for (i = 0; i < 20; i++)
		at_work_works(s->l, i % 2 && s->other ? s->other : s->goes_on);
	for (i = 0; i < SLOTS; i++)
		assert_false(s->l->hub.posted[i]);
}

static void shared_close(struct shared *s)
{
	hub_cable(s->on_rail, true);
	at_work_close(s->l);
}

/* Nobody answers the send: it fails, and the failure is withheld. */
static void breaks(struct shared *s)
{
	struct ibv_wc wc;
	bool broken = false;
	uint32_t ms;

	assert_int_equal(end_send_empty(s->stops, 7, IBV_SEND_SIGNALED), 0);
	for (ms = 0; !broken && ms < PATIENCE_MS; ms++) {
		assert_false(end_poll(&s->l->hub.end, &wc));
		mesh_lock(&s->stops->vqp->lock);
		broken = s->stops->vqp->tracker->broken;
		mesh_unlock(&s->stops->vqp->lock);
		usleep(1000);
	}
	assert_true(broken);
}

/* The move came to nothing: the program gets the failure. */
static void fails(struct shared *s)
{
	struct ibv_wc wc;

	mesh_failover_flush_errors(s->stops->vqp);
	n_flush_sleeps = n_sleeps;
	wc = end_wait(&s->l->hub.end);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
}

static void broken(bool on_rail)
{
	struct shared s = shared_open(on_rail, false);

	breaks(&s);
	fails(&s);
	gets_all(&s);
	shared_close(&s);
}

static void test_broken(void **state)
{
	(void)state;
	broken(false);
	broken(true);
}

/* The queue pair is drained, and waits for its peer, or for a path. */
static void drained(bool on_rail)
{
	struct shared s = shared_open(on_rail, false);
	struct mv_move_sync sync;

	tracked_drain(s.stops->vqp, true, &sync);
	gets_all(&s);
	mesh_failover_flush_errors(s.stops->vqp);
	shared_close(&s);
}

static void test_drained(void **state)
{
	(void)state;
	drained(false);
	drained(true);
}

/* The program brings the queue pair to ERR, and keeps it. On the program's own NIC the queue pair is broken by then. */
static void ended(bool on_rail)
{
	struct shared s = shared_open(on_rail, false);

	if (!on_rail)
		breaks(&s);
	end_err(s.stops);
	if (!on_rail)
		assert_int_equal(end_wait(&s.l->hub.end).wr_id, 7);
	gets_all(&s);
	shared_close(&s);
}

static void test_ended(void **state)
{
	(void)state;
	ended(false);
	ended(true);
}

/*
 * The helper thread gives the errors of perhaps thousands of queue pairs, long after these went to ERR. It does not wait for
 * their last receives, although nobody reads the event that the last receive has completed.
 */
static void test_no_wait(void **state)
{
	struct shared s = shared_open(false, false);

	(void)state;
	breaks(&s);
	usleep(100000); /* longer than anybody waits for the last receive of the program's own queue pair */
	n_sleeps = 0;
	fails(&s);
	assert_int_equal(n_flush_sleeps, 0);
	gets_all(&s);
	shared_close(&s);
}

/*
 * A thread was in a batch all the time, so the drain did not bring the queue pair to ERR. The queue pair still receives,
 * and keeps its part.
 */
static void test_not_in_err(void **state)
{
	struct shared s = shared_open(false, false);

	(void)state;
	mesh_lock(&s.stops->vqp->lock);
	s.stops->vqp->mode = MESH_VQP_DRAINING;
	mesh_unlock(&s.stops->vqp->lock);
	mesh_failover_flush_errors(s.stops->vqp);
	assert_int_equal(s.srq->lower.n_qps, 1);
	assert_int_equal(s.srq->lower.log.n_left, 10);
	shared_close(&s);
}

/*
 * A queue pair comes to the NIC where a queue pair in ERR is attached. The NIC's SRQ still has receives that others have
 * got: nobody gets them twice. The queue pair in ERR is destroyed first, or last.
 */
static void comes(bool first)
{
	struct shared s = shared_open(true, true);
	struct ibv_wc wc;

	breaks(&s);
	fails(&s);
	hub_cable(true, true);
	if (first) {
		end_close(s.stops);
		*s.stops = *s.other;
		s.other = s.stops;
		s.l->n = 2;
	}
	failover_move(s.goes_on);
	gets_all(&s);
	post_missing(&s.l->hub, 20);
	gets_all(&s);
	assert_false(end_poll(&s.l->hub.end, &wc));
	at_work_close(s.l);
}

static void test_comes(void **state)
{
	(void)state;
	comes(false);
	comes(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_broken, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_drained, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_ended, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_no_wait, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_not_in_err, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_comes, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
