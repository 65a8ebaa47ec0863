/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ASYNC_JOB_H
#define MD_ASYNC_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include <systemd/sd-event.h>

#include "locks.h"

/*
 * Jobs: system calls that may block for seconds, run one after the other in a thread of their own. rtnetlink dumps
 * and joins of multicast groups wait for the kernel's RTNL lock; port states wait for that lock, or for the device's
 * firmware. Just when ports go down, others hold that lock for long (`ip link set down`, network managers, starting
 * pods). Messages of connections that move, probes and the heartbeat must not wait for that.
 */
struct md_job {
	void (*run)(struct md_job *job); /* in the thread; must not touch data that the event loop uses meanwhile */
	void (*done)(struct md_job *job); /* in the event loop, afterwards; may free the job or give it again */
	struct md_job *next; /* under md_jobs.lock */
	bool out; /* given, and done() not called yet; owned by the event loop */
};

/** md_job_of - the struct that contains a job */
#define md_job_of(job, type, member) ((type *)(void *)((char *)(job) - offsetof(type, member)))

struct md_jobs {
	/*
	 * Set by the caller: signals interrupt blocking system calls after a millisecond. For close(2), which blocks on
	 * the peer of a TCP socket that lingers: the socket is closed nevertheless.
	 */
	bool hurries;
	pthread_t thread;
	bool started;
	struct mv_mutex lock; /* guards the members below */
	pthread_cond_t wanted;
	struct md_job *todo, **todo_end, *finished, **finished_end;
	bool stop;
	int done_fd; /* eventfd: a job is finished */
	sd_event_source *source;
};

/**
 * md_jobs_start - start the thread
 * @e: zeroed, except @hurries
 *
 * Signals that the caller blocks are blocked in the thread.
 *
 * Return: 0; -errno of eventfd(2), pthread_create(3), sd-event. In any case call md_jobs_stop().
 */
int md_jobs_start(struct md_jobs *e, sd_event *event);

/**
 * md_jobs_give - run a job; event loop only
 * @job: run and done are filled in; not out. Owned by the caller; must stay valid until done() is called, or the
 * thread has stopped
 */
void md_jobs_give(struct md_jobs *e, struct md_job *job);

/**
 * md_jobs_stop - stop the thread, if started; calls no done()
 *
 * Waiting jobs are dropped. A system call that blocks longer than MD_JOBS_STOP_MS is abandoned.
 *
 * Return: true; false: the thread still blocks, so whatever its job uses has to stay.
 */
bool md_jobs_stop(struct md_jobs *e);

#endif
