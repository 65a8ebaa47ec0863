/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ERRANDS_H
#define MD_ERRANDS_H

#include <stdbool.h>
#include <stddef.h>

#include <systemd/sd-event.h>

#include "locks.h"

/*
 * System calls that may wait for seconds, one after the other, in a thread that does nothing else. rtnetlink dumps and joining a
 * multicast group wait for the kernel's rtnl lock, and the state of a port for that lock or for the card's firmware; just when
 * ports go down, others (an `ip link set down`, network managers, whoever starts pods) have them for long. Messages of connections
 * that move, probes and the directory's heartbeat do not wait for that.
 */
struct md_errand {
	void (*run)(struct md_errand *errand); /* in the thread: touches nothing that the event loop uses while the errand is out */
	void (*done)(struct md_errand *errand); /* in the event loop, afterwards; may free it, or give it again */
	struct md_errand *next; /* md_errands.lock */
	bool out; /* given, and done() not called yet; the event loop's */
};

/** md_errand_of - what an errand is a member of */
#define md_errand_of(errand, type, member) ((type *)(void *)((char *)(errand) - offsetof(type, member)))

struct md_errands {
	/*
	 * Filled by the caller: signals end the waits of its system calls, a millisecond after they began. What the calls are for is done
	 * all the same: for close(2), which waits for the peer of a TCP socket that lingers.
	 */
	bool hurries;
	pthread_t thread;
	bool started;
	struct mv_mutex lock; /* guards the following */
	pthread_cond_t wanted;
	struct md_errand *todo, **todo_end, *finished, **finished_end;
	bool stop;
	int done_fd; /* eventfd: something is finished */
	sd_event_source *source;
};

/**
 * md_errands_start - start the thread
 * @e: zeroed, but for @hurries
 *
 * Signals that the caller has blocked are blocked in the thread.
 *
 * Return: 0; -errno of eventfd(2), pthread_create(3), sd-event. md_errands_stop() is to be called in either case.
 */
int md_errands_start(struct md_errands *e, sd_event *event);

/**
 * md_errands_give - have it run; the event loop only
 * @errand: run and done are filled; not out; the caller's, who keeps it until done() is called, or the thread has been stopped
 */
void md_errands_give(struct md_errands *e, struct md_errand *errand);

/**
 * md_errands_stop - end the thread; no done() is called any more. Also where it was not started
 *
 * What is still to be done is dropped. A system call that has not come back within MD_ERRANDS_STOP_MS is left alone.
 *
 * Return: true; false: the thread is still in one, so all that its errand uses has to stay.
 */
bool md_errands_stop(struct md_errands *e);

#endif
