/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Threads that make and destroy shared receive queues of one context, which verbs allow: srqthreads [ROUNDS]. Bare,
 * libmlx5 spoils the heap now and then (see docs/compatibility.md). Ends with 0 when all went well.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 8

static struct ibv_pd *pd;
static int rounds = 20000;

static void *make_and_destroy(void *unused)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 16, .max_sge = 1}};

	for (int i = 0; i < rounds; i++) {
		struct ibv_srq *srq = ibv_create_srq(pd, &attr);

		if (!srq || ibv_destroy_srq(srq)) {
			fprintf(stderr, "srqthreads: %s: %s\n", srq ? "destroy_srq" : "create_srq",
				strerror(errno));
			exit(1);
		}
	}
	return unused;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	pthread_t threads[THREADS];

	if (argc > 1)
		rounds = atoi(argv[1]);
	pd = context ? ibv_alloc_pd(context) : NULL;
	if (!pd) {
		fprintf(stderr, "srqthreads: no device, or no PD\n");
		return 1;
	}
	for (int t = 0; t < THREADS; t++)
		if (pthread_create(&threads[t], NULL, make_and_destroy, NULL))
			return 1;
	for (int t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	if (ibv_dealloc_pd(pd) || ibv_close_device(context))
		return 1;
	ibv_free_device_list(list);
	return 0;
}
