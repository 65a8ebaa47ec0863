// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "negotiateint.h"
#include "ourthreads.h"

/*
 * Workers connect queue pairs. That may take seconds, while the kernel looks for a neighbour that may not be there. The helper
 * thread goes on meanwhile. Mostly one worker is enough. More workers are started when a job has waited, and idle workers end.
 */

#define MAX_WORKERS 16
/* Limit of workers per destination: many queue pairs to a host that is gone must not delay the others. */
#define MAX_PER_DESTINATION 4
/* Limit of workers for low-priority jobs (@tries), which may take seconds each; one per destination. */
#define MAX_TRIES 2
/* A job that has waited so long needs another worker: those that exist wait for a neighbour. */
#define PATIENCE_NS 10000000ull
#define IDLE_SECONDS 10

struct mesh_worker {
	struct mesh_workers *all;
	struct mesh_conn *conn; /* its job; NULL: idle */
	union ibv_gid to;
	bool tries;
	bool used;
};

/* Referred to by the process page that fork() clears. Made once. */
struct mesh_workers {
	MESH_LOCK(WORKERS) lock; /* guards all of it, and conn->job; innermost */
	pthread_cond_t cond;
	struct mesh_conn *first, **end; /* queue; each entry holds a reference */
	unsigned int n_threads, n_idle;
	struct mesh_worker workers[MAX_WORKERS];
};

static struct mesh_workers *get(void)
{
	struct mesh_workers *all = atomic_load_explicit(&mesh_root.process->workers, memory_order_acquire), *other = NULL;

	if (all)
		return all;
	all = calloc(1, sizeof(*all));
	if (!all)
		return NULL;
	mesh_lock_init(&all->lock);
	pthread_cond_init(&all->cond, NULL);
	all->end = &all->first;
	if (atomic_compare_exchange_strong(&mesh_root.process->workers, &other, all))
		return all;
	free(all);
	return other;
}

/* ---- queue of jobs; called with lock held -------------------------------------------------------------------- */

static void append(struct mesh_workers *all, struct mesh_conn *conn)
{
	conn->job.state = MESH_JOB_WAITS;
	conn->job.since_ns = mesh_now_ns();
	conn->job.next = NULL;
	*all->end = conn;
	all->end = &conn->job.next;
}

static unsigned int n_at_work_towards(const struct mesh_workers *all, const union ibv_gid *to)
{
	unsigned int n = 0, i;

	for (i = 0; i < MAX_WORKERS; i++)
		n += all->workers[i].conn && mv_gid_equal(&all->workers[i].to, to);
	return n;
}

static unsigned int n_tries(const struct mesh_workers *all)
{
	unsigned int n = 0, i;

	for (i = 0; i < MAX_WORKERS; i++)
		n += all->workers[i].conn && all->workers[i].tries;
	return n;
}

/* Find the first job that may begin now, normal jobs before tries. Return: its place in the queue; NULL: none. */
static struct mesh_conn **next_job(struct mesh_workers *all)
{
	struct mesh_conn **at, **try = NULL;
	bool may_try = n_tries(all) < MAX_TRIES;

	for (at = &all->first; *at; at = &(*at)->job.next) {
		if (!(*at)->job.tries) {
			if (n_at_work_towards(all, &(*at)->job.to) < MAX_PER_DESTINATION)
				return at;
		} else if (may_try && !try && !n_at_work_towards(all, &(*at)->job.to)) {
			try = at;
		}
	}
	return try;
}

static struct mesh_conn *take_job(struct mesh_workers *all)
{
	struct mesh_conn **at = next_job(all), *conn;

	if (!at)
		return NULL;
	conn = *at;
	*at = conn->job.next;
	if (all->end == &conn->job.next)
		all->end = at;
	return conn;
}

/* ---- workers ------------------------------------------------------------------------------------------------- */

/* Return: false: no job came for IDLE_SECONDS. Called with lock held. */
static bool wait_for_job(struct mesh_workers *all) MV_REQUIRES(&all->lock);
static bool wait_for_job(struct mesh_workers *all)
{
	struct timespec until;
	int err;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_SECONDS;
	all->n_idle++;
	err = mesh_cond_wait_until(&all->cond, &all->lock, &until);
	all->n_idle--;
	return err != ETIMEDOUT || next_job(all);
}

static void work_on(struct mesh_workers *all, struct mesh_worker *worker, struct mesh_conn *conn) MV_REQUIRES(&all->lock);
static void work_on(struct mesh_workers *all, struct mesh_worker *worker, struct mesh_conn *conn)
{
	bool again;

	worker->conn = conn;
	worker->to = conn->job.to;
	worker->tries = conn->job.tries;
	conn->job.state = MESH_JOB_AT_WORK;
	atomic_store_explicit(&conn->flags.at_work, true, memory_order_release);
	mesh_unlock(&all->lock);

	mesh_conn_work(conn);

	mesh_lock(&all->lock);
	atomic_store_explicit(&conn->flags.at_work, false, memory_order_release);
	worker->conn = NULL;
	again = conn->job.state == MESH_JOB_AGAIN;
	if (again)
		append(all, conn);
	else
		conn->job.state = MESH_JOB_NONE;
	mesh_unlock(&all->lock);
	/* The helper thread looks after the connection's timers and messages again. */
	mesh_conn_queue(conn, true);
	mesh_thread_wake(true);
	if (!again)
		mesh_conn_put(conn);
	mesh_lock(&all->lock);
}

static void *work(void *arg)
{
	struct mesh_worker *worker = arg;
	struct mesh_workers *all = worker->all;
	struct mesh_conn *conn;

	pthread_setname_np(pthread_self(), "meshverbs-conn");
	mesh_lock(&all->lock);
	do {
		while ((conn = take_job(all)))
			work_on(all, worker, conn);
	} while (wait_for_job(all));
	worker->used = false;
	all->n_threads--;
	mesh_unlock(&all->lock);
	return NULL;
}

/* Called with lock held. */
static int start_one(struct mesh_workers *all)
{
	unsigned int i;
	int err;

	for (i = 0; i < MAX_WORKERS && all->workers[i].used; i++)
		;
	if (i == MAX_WORKERS)
		return -EAGAIN;
	all->workers[i] = (struct mesh_worker){.all = all, .used = true};
	err = mesh_thread_start(work, &all->workers[i]);
	if (err)
		all->workers[i].used = false;
	else
		all->n_threads++;
	return err;
}

/* ---- the helper thread --------------------------------------------------------------------------------------- */

bool mesh_work_submit(struct mesh_conn *conn, const union ibv_gid *to, bool tries)
{
	struct mesh_workers *all = get();
	bool done;

	if (!all)
		return false;
	mesh_lock(&all->lock);
	done = all->n_threads || !start_one(all);
	if (done) {
		conn->job.to = *to;
		conn->job.tries = tries && (conn->job.state == MESH_JOB_NONE || conn->job.tries);
		if (conn->job.state == MESH_JOB_NONE) {
			mesh_conn_ref(conn);
			append(all, conn);
		} else if (conn->job.state == MESH_JOB_AT_WORK) {
			conn->job.state = MESH_JOB_AGAIN;
		}
		/* Signal also for a job that was queued before as a try. */
		if (all->n_idle)
			pthread_cond_signal(&all->cond);
	}
	mesh_unlock(&all->lock);
	return done;
}

uint64_t mesh_work_run(uint64_t now_ns)
{
	struct mesh_workers *all = mesh_root.process->workers;
	uint64_t next = UINT64_MAX;
	struct mesh_conn **at;

	if (!all)
		return UINT64_MAX;
	mesh_lock(&all->lock);
	at = next_job(all);
	/* The worker that was signalled may have taken another job, and the end of a job may allow two others. */
	if (at && all->n_idle)
		pthread_cond_signal(&all->cond);
	else if (at && now_ns >= (*at)->job.since_ns + PATIENCE_NS)
		start_one(all); /* on failure the existing workers go on */
	if (at && (all->n_idle || all->n_threads < MAX_WORKERS))
		next = (now_ns > (*at)->job.since_ns ? now_ns : (*at)->job.since_ns) + PATIENCE_NS;
	mesh_unlock(&all->lock);
	return next;
}
