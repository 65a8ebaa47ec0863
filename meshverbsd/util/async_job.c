/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "async_job.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "bounds.h"

#ifndef sigev_notify_thread_id /* glibc before 2.42 */
#define sigev_notify_thread_id _sigev_un._tid
#endif
#define HURRY_SIGNAL SIGURG

static const struct mv_lock_class lock_class = {.name = "jobs->lock", .rank = MV_LOCK_INNERMOST};

static void add(struct md_job ***end, struct md_job *job)
{
	job->next = NULL;
	**end = job;
	*end = &job->next;
}

static struct md_job *take(struct md_job **first, struct md_job ***end)
{
	struct md_job *job = *first;

	if (job)
		*first = job->next;
	if (!*first)
		*end = first;
	return job;
}

static void on_hurry(int number)
{
	(void)number;
}

/* Runs in the thread. Return: true: a timer sends the signal. */
static bool make_timer(timer_t *ret)
{
	struct sigaction action = {.sa_handler = on_hurry};
	struct sigevent event;
	sigset_t set;

	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = HURRY_SIGNAL;
	event.sigev_notify_thread_id = gettid();
	sigemptyset(&set);
	sigaddset(&set, HURRY_SIGNAL);
	return !sigaction(HURRY_SIGNAL, &action, NULL) && !pthread_sigmask(SIG_UNBLOCK, &set, NULL) &&
	       !timer_create(CLOCK_MONOTONIC, &event, ret);
}

/* Repeats, because a signal may come before the blocking call. @period_ns: 0: stop */
static void set_timer(timer_t timer, long period_ns)
{
	const struct itimerspec times = {.it_interval.tv_nsec = period_ns, .it_value.tv_nsec = period_ns};

	timer_settime(timer, 0, &times, NULL);
}

static void *run(void *arg)
{
	const uint64_t one = 1;
	struct md_jobs *e = arg;
	timer_t timer;
	bool hurries = e->hurries && make_timer(&timer);

	mv_mutex_lock(&e->lock, &lock_class, MV_LOCK_HERE);
	for (;;) {
		struct md_job *job;

		while (!e->stop && !e->todo)
			mv_mutex_wait(&e->wanted, &e->lock, &lock_class, MV_LOCK_HERE, NULL);
		if (e->stop)
			break;
		job = take(&e->todo, &e->todo_end);
		mv_mutex_unlock(&e->lock);
		if (hurries)
			set_timer(timer, MD_HURRY_NS);
		job->run(job);
		if (hurries)
			set_timer(timer, 0);
		mv_mutex_lock(&e->lock, &lock_class, MV_LOCK_HERE);
		add(&e->finished_end, job);
		/* Fails only at 2^64. */
		while (write(e->done_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	mv_mutex_unlock(&e->lock);
	if (hurries)
		timer_delete(timer);
	return NULL;
}

static int on_done(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct md_jobs *e = arg;
	struct md_job *job;
	uint64_t count;

	(void)source;
	(void)revents;
	if (read(fd, &count, sizeof(count)) < 0)
		return 0;
	for (;;) {
		mv_mutex_lock(&e->lock, &lock_class, MV_LOCK_HERE);
		job = take(&e->finished, &e->finished_end);
		mv_mutex_unlock(&e->lock);
		if (!job)
			return 0;
		job->out = false;
		job->done(job);
	}
}

int md_jobs_start(struct md_jobs *e, sd_event *event)
{
	int err;

	e->todo_end = &e->todo;
	e->finished_end = &e->finished;
	pthread_mutex_init(&e->lock.pthread, NULL);
	pthread_cond_init(&e->wanted, NULL);
	e->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->done_fd < 0)
		return -errno;
	err = sd_event_add_io(event, &e->source, e->done_fd, EPOLLIN, on_done, e);
	if (err < 0)
		return err;
	err = pthread_create(&e->thread, NULL, run, e);
	e->started = !err;
	return -err;
}

void md_jobs_give(struct md_jobs *e, struct md_job *job)
{
	job->out = true;
	mv_mutex_lock(&e->lock, &lock_class, MV_LOCK_HERE);
	add(&e->todo_end, job);
	pthread_cond_signal(&e->wanted);
	mv_mutex_unlock(&e->lock);
}

bool md_jobs_stop(struct md_jobs *e)
{
	struct timespec until;

	if (e->started) {
		mv_mutex_lock(&e->lock, &lock_class, MV_LOCK_HERE);
		e->stop = true;
		pthread_cond_signal(&e->wanted);
		mv_mutex_unlock(&e->lock);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += MD_JOBS_STOP_MS / 1000;
		if (pthread_timedjoin_np(e->thread, NULL, &until))
			return false;
		e->started = false;
	}
	e->source = sd_event_source_disable_unref(e->source);
	if (e->todo_end) { /* md_jobs_start() was called */
		if (e->done_fd >= 0)
			close(e->done_fd);
		pthread_cond_destroy(&e->wanted);
		pthread_mutex_destroy(&e->lock.pthread);
	}
	e->todo_end = NULL;
	return true;
}
