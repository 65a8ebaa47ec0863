// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Many threads of one program post to moved queue pairs and poll their CQ, while connections come about and keys are dropped. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "run.h"
#include "vqp.h"

#define N_PAIRS	   4u
#define N_MESSAGES 600u
#define N_WINDOW   30u

/*
 * Pairs whose senders share a CQ, which two threads poll; each sender posts in a thread of its own; keys come late. @full: until the
 * queue is full each time. libmlx5 looks at the CQ then, which who polls an extended one has until he is done with it.
 */
struct crowd {
	bool full;
	struct end hub;
	struct run pairs[N_PAIRS];
	_Atomic unsigned int done[N_PAIRS];
	_Atomic bool stop;
	_Atomic unsigned int next;
};

static void *crowd_poll(void *arg)
{
	struct crowd *c = arg;
	unsigned int i;
	struct ibv_wc wc;

	while (!atomic_load(&c->stop)) {
		if (!end_poll(&c->hub, &wc))
			continue;
		for (i = 0; i < N_PAIRS && c->pairs[i].a.qp->qp_num != wc.qp_num; i++)
			;
		if (i == N_PAIRS || wc.status || wc.wr_id >> 32 != i)
			return (void *)1;
		atomic_fetch_add(&c->done[i], 1);
	}
	return NULL;
}

static void *crowd_post(void *arg)
{
	struct crowd *c = arg;
	unsigned int i = atomic_fetch_add(&c->next, 1), n;
	struct run *r = &c->pairs[i];
	struct sending s;
	int err;

	for (n = 0; n < N_MESSAGES; n++) {
		while (!c->full && n - atomic_load(&c->done[i]) >= N_WINDOW)
			;
		sending(&s, r, (uint64_t)i << 32 | n, n % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, n * 8, 8, SIGNALED);
		while ((err = end_send(&r->a, &s.wr)) == ENOMEM && c->full)
			sched_yield();
		if (err)
			return (void *)1;
		if (n % 100 == 50)
			mesh_vqp_drop_key(r->a.vqp, r->b.mr->rkey);
	}
	return NULL;
}

/* The coordinator's part. */
static void *crowd_help(void *arg)
{
	struct crowd *c = arg;
	const struct shape shape = {0};
	unsigned int i;

	for (i = 0; i < N_PAIRS; i++) {
		end_prepare(&c->pairs[i].a);
		end_prepare(&c->pairs[i].b);
		end_connect(&c->pairs[i].a, &c->pairs[i].b, &shape);
		end_connect(&c->pairs[i].b, &c->pairs[i].a, &shape);
		end_shadow_rts(&c->pairs[i].b, &shape);
		mesh_vqp_activate(c->pairs[i].b.vqp);
		mesh_vqp_activate(c->pairs[i].a.vqp);
		end_shadow_rts(&c->pairs[i].a, &shape);
	}
	while (!atomic_load(&c->stop))
		for (i = 0; i < N_PAIRS; i++)
			end_keys(&c->pairs[i].a);
	return NULL;
}

static void crowd(const struct manner *manner, bool full)
{
	const struct shape sender = {.cqe = 1024};
	struct crowd *c = calloc(1, sizeof(*c));
	struct shape of_hub = sender;
	pthread_t posts[N_PAIRS], polls[2], help;
	unsigned int i, done;
	void *result;

	assert_non_null(c);
	c->full = full;
	end_open(&c->hub, &world, manner, &sender);
	of_hub.hub = &c->hub;
	for (i = 0; i < N_PAIRS; i++) {
		end_open(&c->pairs[i].a, &world, manner, &of_hub);
		end_open(&c->pairs[i].b, &world, manner, &(struct shape){0});
		end_rtr(&c->pairs[i].a, &c->pairs[i].b, &sender);
		end_rtr(&c->pairs[i].b, &c->pairs[i].a, &sender);
		run_early_rts(&c->pairs[i]);
	}
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&polls[i], NULL, crowd_poll, c), 0);
	for (i = 0; i < N_PAIRS; i++)
		assert_int_equal(pthread_create(&posts[i], NULL, crowd_post, c), 0);
	assert_int_equal(pthread_create(&help, NULL, crowd_help, c), 0);
	for (i = 0; i < N_PAIRS; i++) {
		pthread_join(posts[i], &result);
		assert_null(result);
	}
	do
		for (done = i = 0; i < N_PAIRS; i++)
			done += atomic_load(&c->done[i]);
	while (done < N_PAIRS * N_MESSAGES);
	atomic_store(&c->stop, true);
	pthread_join(help, &result);
	for (i = 0; i < 2; i++) {
		pthread_join(polls[i], &result);
		assert_null(result);
	}
	for (i = 0; i < N_PAIRS; i++)
		run_close(&c->pairs[i]);
	end_close(&c->hub);
	free(c);
}

static void test_threads(void **state)
{
	const struct manner manners[] = {
		{.how = MOVED, .late_keys = true},
		{.how = MOVED, .late_keys = true, .extended = true},
		{.how = MOVED, .late_keys = true, .builders = true},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
		crowd(&manners[i], false);
		crowd(&manners[i], true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_threads, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
