/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The doorbell records of all queue pairs, side by side. Nobody tells the HCA of a record that was
 * written, so it looks at them all the time; through the queue pairs each look would be several
 * cache misses, one after the other. Those of queue pairs in RTS and beyond come first: before, nothing
 * is taken, and a program may have as many that are not connected. All under hca->lock.
 */
#ifndef SIM_DOORBELL_H
#define SIM_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

struct hca;
struct qp;

struct doorbell {
	const volatile uint32_t *db; /* as in struct qp */
	struct qp *qp;
	uint32_t seen_recv, seen_send; /* db[], as they were when all of it had been taken */
	bool flushes; /* in ERR what is posted is completed at once, receives too */
};

#define DOORBELL_NONE 0xffffffffu /* a record counts in 16 bits */

/** doorbell_add() - a new queue pair. Return: 0 or -ENOMEM. */
int doorbell_add(struct hca *h, struct qp *qp);
void doorbell_remove(struct hca *h, struct qp *qp);
/** doorbell_state() - the queue pair has another state: look at its record anew */
void doorbell_state(struct hca *h, struct qp *qp);
/** doorbells_look() - take what was posted since the last time, of every queue pair whose HCA is
 * alive */
void doorbells_look(struct hca *h);

#endif
