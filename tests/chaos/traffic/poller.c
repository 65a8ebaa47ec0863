// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Threads that do nothing but poll one CQ each, as programs have them that wait for sends and for receives in different threads. What they
 * find waits here for the thread that the queue pairs belong to, which alone judges it; where nothing waits, that polls for itself, so what
 * is known of a CQ at any moment is as without them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "traffic.h"

#define N_FOUND 256u
#define BATCH   8
#define REST_US 50

struct poller {
	const struct thread *t;
	struct ibv_cq *cq;
	pthread_t thread;
	_Atomic bool stop;
	pthread_mutex_t lock; /* held while the CQ is polled, too: nothing is between it and @found. Guards the following */
	struct ibv_wc found[N_FOUND];
	unsigned int first, n;
	int err; /* what polling gave */
};

static void push(struct poller *p, const struct ibv_wc *wc)
{
	p->found[(p->first + p->n++) % N_FOUND] = *wc;
}

/* Return: whether there was something. */
static bool poll_some(struct poller *p)
{
	struct ibv_wc wcs[BATCH];
	int n = 0, i;

	pthread_mutex_lock(&p->lock);
	if (!p->err && p->n + BATCH <= N_FOUND)
		n = poll_by_itself(p->t, p->cq, BATCH, wcs);
	for (i = 0; i < n; i++)
		push(p, &wcs[i]);
	if (n < 0)
		p->err = n;
	pthread_mutex_unlock(&p->lock);
	return n > 0;
}

static void *run(void *arg)
{
	struct poller *p = arg;

	while (!atomic_load(&p->stop))
		if (!poll_some(p))
			usleep(REST_US);
	return NULL;
}

struct poller *poller_start(const struct thread *t, struct ibv_cq *cq)
{
	struct poller *p = calloc(1, sizeof(*p));

	if (!p)
		cannot("memory");
	p->t = t;
	p->cq = cq;
	pthread_mutex_init(&p->lock, NULL);
	if (pthread_create(&p->thread, NULL, run, p))
		cannot("a thread");
	return p;
}

void poller_stop(struct poller *p)
{
	if (!p)
		return;
	atomic_store(&p->stop, true);
	pthread_join(p->thread, NULL);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int poller_take(struct poller *p, int max, struct ibv_wc *wcs)
{
	int n = 0;

	pthread_mutex_lock(&p->lock);
	for (; n < max && p->n; n++, p->n--)
		wcs[n] = p->found[p->first++ % N_FOUND];
	if (!n)
		n = p->err ? p->err : poll_by_itself(p->t, p->cq, max, wcs);
	pthread_mutex_unlock(&p->lock);
	return n;
}

void poller_forget(struct poller *p, uint32_t qpn)
{
	unsigned int i, n;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	n = p->n;
	p->n = 0;
	for (i = 0; i < n; i++)
		if (p->found[(p->first + i) % N_FOUND].qp_num != qpn)
			push(p, &p->found[(p->first + i) % N_FOUND]);
	pthread_mutex_unlock(&p->lock);
}
