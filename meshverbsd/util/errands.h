/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ERRANDS_H
#define MD_ERRANDS_H

#include <stdbool.h>
#include <stddef.h>

#include <systemd/sd-event.h>

#include "locks.h"

/*
 * Errands: system calls that may block for seconds, run one after the other in a thread of their own. rtnetlink dumps
 * and joins of multicast groups wait for the kernel's RTNL lock; port states wait for that lock, or for the device's
 * firmware. Just when ports go down, others hold that lock for long (`ip link set down`, network managers, starting
 * pods). Messages of connections that move, probes and the heartbeat must not wait for that.
 */
struct md_errand {
	void (*run)(struct md_errand *errand); /* in the thread; must not touch data that the event loop uses meanwhile */
	void (*done)(struct md_errand *errand); /* in the event loop, afterwards; may free the errand or give it again */
	struct md_errand *next; /* under md_errands.lock */
	bool out; /* given, and done() not called yet; owned by the event loop */
};

/** md_errand_of - the struct that contains an errand */
#define md_errand_of(errand, type, member) ((type *)(void *)((char *)(errand) - offsetof(type, member)))

struct md_errands {
	/*
	 * Set by the caller: signals interrupt blocking system calls after a millisecond. For close(2), which blocks on
	 * the peer of a TCP socket that lingers: the socket is closed nevertheless.
	 */
	bool hurries;
	pthread_t thread;
	bool started;
	struct mv_mutex lock; /* guards the members below */
	pthread_cond_t wanted;
	struct md_errand *todo, **todo_end, *finished, **finished_end;
	bool stop;
	int done_fd; /* eventfd: an errand is finished */
	sd_event_source *source;
};

/**
 * md_errands_start - start the thread
 * @e: zeroed, except @hurries
 *
 * Signals that the caller blocks are blocked in the thread.
 *
 * Return: 0; -errno of eventfd(2), pthread_create(3), sd-event. In any case call md_errands_stop().
 */
int md_errands_start(struct md_errands *e, sd_event *event);

/**
 * md_errands_give - run an errand; event loop only
 * @errand: run and done are filled in; not out. Owned by the caller; must stay valid until done() is called, or the
 * thread has stopped
 */
void md_errands_give(struct md_errands *e, struct md_errand *errand);

/**
 * md_errands_stop - stop the thread, if started; calls no done()
 *
 * Waiting errands are dropped. A system call that blocks longer than MD_ERRANDS_STOP_MS is abandoned.
 *
 * Return: true; false: the thread still blocks, so whatever its errand uses has to stay.
 */
bool md_errands_stop(struct md_errands *e);

#endif
