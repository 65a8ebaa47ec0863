// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Where the CQs are found that are polled the short way. Programs have one for each of thousands of connections, and none may be found
 * that is gone: the next one may be at its address.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fastcq.h"
#include "vqp_int.h"

static struct mesh_process process = {.generation = 1};
static struct ibv_context verbs;
static struct mesh_context *mc;
static unsigned int n_polls;

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq;
	(void)n;
	(void)wc;
	n_polls++;
	return 0;
}

static struct mesh_cq *record_of(struct ibv_cq *cq)
{
	struct mesh_cq *mcq = calloc(1, sizeof(*mcq));

	assert_non_null(mcq);
	*mcq = (struct mesh_cq){.cq = cq, .mc = mc, .fast = true, .refs = 1};
	mesh_lock_init(&mcq->poll_lock);
	mesh_lock_init(&mcq->lock);
	mesh_lock_init(&mcq->notify.lock);
	return mcq;
}

static struct mesh_cq *put(struct ibv_cq *cq)
{
	struct mesh_cq *mcq = record_of(cq);

	mesh_fast_put(mcq);
	return mcq;
}

static void end(struct mesh_cq *mcq)
{
	mesh_fast_drop(mcq->cq);
	assert_null(mesh_fast_get(mcq->cq));
	mesh_cq_free(mcq);
}

static int setup(void **state)
{
	(void)state;
	mesh_root.process = &process;
	mc = mesh_context_get_free();
	assert_non_null(mc);
	mc->generation = 1;
	mc->lower.io.poll_cq = poll_cq;
	mesh_data_open(mc);
	mesh_context_publish(mc, &verbs);
	n_polls = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mesh_data_close(mc);
	mesh_context_release(mc);
	return 0;
}

/* ---- many ------------------------------------------------------------------------------------------------------ */

#define MANY	  1000
#define CQ_BYTES  1104 /* what libmlx5 allocates for one, in about */
#define SEED	  20261123

/* As a program makes them that makes connections: other things of it lie in between. */
static void make_many(struct ibv_cq **cqs, void **others)
{
	unsigned int i;

	srandom(SEED);
	for (i = 0; i < MANY; i++) {
		cqs[i] = calloc(1, CQ_BYTES);
		others[i] = malloc((size_t)random() % 4096);
		assert_non_null(cqs[i]);
	}
}

static void assert_found(struct ibv_cq **cqs)
{
	static struct mesh_cq *mcqs[MANY];
	unsigned int i, n_found = 0;

	for (i = 0; i < MANY; i++)
		mcqs[i] = put(cqs[i]);
	for (i = 0; i < MANY; i++) {
		if (!mesh_fast_get(cqs[i]))
			continue;
		assert_ptr_equal(mesh_fast_get(cqs[i]), mcqs[i]);
		n_found++;
	}
	for (i = 0; i < MANY; i++)
		end(mcqs[i]);
	assert_in_range(n_found, MANY - MANY / 20, MANY);
}

static void test_many(void **state)
{
	static struct ibv_cq *cqs[MANY];
	static void *others[MANY];
	unsigned int i;

	(void)state;
	make_many(cqs, others);
	assert_found(cqs);
	for (i = 0; i < MANY; i++) {
		free(cqs[i]);
		free(others[i]);
	}
}

/* As those that do the same for each connection. The last ones are in the ratio of Fibonacci's numbers, at which a product alone repeats. */
static void test_at_distances(void **state)
{
	static const uintptr_t distances[] = {CQ_BYTES, 2048, 4096, 8192, 65536, 1 << 20, 1 << 26, 46368, 53680, 92432, 121024};
	static struct ibv_cq *cqs[MANY];
	unsigned int i, j;

	(void)state;
	for (i = 0; i < sizeof(distances) / sizeof(distances[0]); i++) {
		for (j = 0; j < MANY; j++)
			cqs[j] = (struct ibv_cq *)(0x5e0000010 + j * distances[i]);
		assert_found(cqs);
	}
}

/* ---- places ---------------------------------------------------------------------------------------------------- */

/* Made-up addresses of CQs with the same home as @cq: nobody looks there. */
static void neighbours(const struct ibv_cq *cq, struct ibv_cq **ret, unsigned int n)
{
	uintptr_t at;

	for (at = 4096; n; at += 16)
		if (mesh_fast_home((struct ibv_cq *)at) == mesh_fast_home(cq))
			ret[--n] = (struct ibv_cq *)at;
}

static void test_place_freed(void **state)
{
	struct ibv_cq *cqs[MESH_FAST_WAYS + 1];
	struct mesh_cq *mcqs[MESH_FAST_WAYS + 1];
	unsigned int i;

	(void)state;
	neighbours((struct ibv_cq *)4096, cqs, MESH_FAST_WAYS + 1);
	for (i = 0; i <= MESH_FAST_WAYS; i++) {
		mcqs[i] = put(cqs[i]);
		assert_ptr_equal(mesh_fast_get(cqs[i]), i < MESH_FAST_WAYS ? mcqs[i] : NULL);
	}
	/* Whose home is free now stays where it is. */
	end(mcqs[0]);
	mesh_fast_put(mcqs[1]);
	mesh_fast_put(mcqs[MESH_FAST_WAYS]);
	for (i = 1; i <= MESH_FAST_WAYS; i++)
		assert_ptr_equal(mesh_fast_get(cqs[i]), mcqs[i]);
	for (i = 1; i <= MESH_FAST_WAYS; i++)
		end(mcqs[i]);
}

static void test_not_fast(void **state)
{
	struct ibv_cq cq;
	struct mesh_cq *mcq = put(&cq);

	(void)state;
	mcq->fast = false;
	assert_null(mesh_fast_get(&cq));
	mcq->fast = true;
	assert_ptr_equal(mesh_fast_get(&cq), mcq);
	process.generation = 0; /* a child */
	assert_null(mesh_fast_get(&cq));
	process.generation = 1;
	end(mcq);
}

/* Who polls gives it a place, at once or as soon as there is one. */
static void test_polled(void **state)
{
	struct ibv_cq cq = {.context = &verbs}, *others[MESH_FAST_WAYS];
	struct mesh_cq *mcqs[MESH_FAST_WAYS], *mcq = record_of(&cq);
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	assert_int_equal(mesh_map_put(&mc->data.cqs, &cq, mcq), 0);
	neighbours(&cq, others, MESH_FAST_WAYS);
	for (i = 0; i < MESH_FAST_WAYS; i++)
		mcqs[i] = put(others[i]);
	assert_int_equal(mesh_poll_cq(&cq, 1, &wc), 0);
	assert_null(mesh_fast_get(&cq));
	end(mcqs[1]);
	mcq->fast = false;
	assert_int_equal(mesh_poll_cq(&cq, 1, &wc), 0);
	assert_null(mesh_fast_find(&cq));
	mcq->fast = true;
	assert_int_equal(mesh_poll_cq(&cq, 1, &wc), 0);
	assert_ptr_equal(mesh_fast_get(&cq), mcq);
	assert_int_equal(n_polls, 3);
	for (i = 0; i < MESH_FAST_WAYS; i++)
		if (i != 1)
			end(mcqs[i]);
	mesh_data_close(mc); /* the program left it */
	assert_null(mesh_fast_find(&cq));
	mesh_data_open(mc);
}

/* ---- destroyed ------------------------------------------------------------------------------------------------- */

static struct mesh_cq *next_cq;
static int destroy_err;

/* Another thread's next one is at this address at once. */
static int destroy_cq(struct ibv_cq *cq)
{
	assert_null(mesh_fast_find(cq));
	if (next_cq)
		mesh_fast_put(next_cq);
	return destroy_err;
}

static void test_destroyed(void **state)
{
	struct ibv_cq cq = {.context = &verbs};
	struct mesh_cq *mcq = put(&cq), *next = record_of(&cq);

	(void)state;
	assert_int_equal(mesh_map_put(&mc->data.cqs, &cq, mcq), 0);
	mc->lower.cq.destroy_cq = destroy_cq;
	destroy_err = EBUSY;
	next_cq = NULL;
	assert_int_equal(mesh_destroy_cq(&cq), EBUSY);
	mesh_fast_put(mcq);
	assert_ptr_equal(mesh_fast_get(&cq), mcq);
	destroy_err = 0;
	next_cq = next;
	assert_int_equal(mesh_destroy_cq(&cq), 0);
	assert_ptr_equal(mesh_fast_get(&cq), next);
	end(next);
}

/* A child closes what it has of its parent, and opens the device anew: in the same record, and with a CQ at the same address. */
static void test_destroyed_by_child(void **state)
{
	struct ibv_cq cq = {.context = &verbs};
	struct mesh_cq *mcq = put(&cq);

	(void)state;
	mc->lower.cq.destroy_cq = destroy_cq;
	destroy_err = 0;
	next_cq = NULL;
	process.generation = 0;
	assert_int_equal(mesh_destroy_cq(&cq), 0);
	process.generation = 1;
	assert_null(mesh_fast_get(&cq));
	mesh_cq_free(mcq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_at_distances, setup, teardown),
		cmocka_unit_test_setup_teardown(test_place_freed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_fast, setup, teardown),
		cmocka_unit_test_setup_teardown(test_polled, setup, teardown),
		cmocka_unit_test_setup_teardown(test_destroyed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_destroyed_by_child, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
