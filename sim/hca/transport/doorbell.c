/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "doorbell.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "dma.h"
#include "hca.h"

#define FIRST_ROOM 64
#define AHEAD      16 /* records that are on their way from memory while one is looked at */

static bool make_room(struct hca *h)
{
	uint32_t room = h->doorbells.room ? 2 * h->doorbells.room : FIRST_ROOM;
	struct doorbell *larger;

	if (h->doorbells.n < h->doorbells.room)
		return true;
	larger = realloc(h->doorbells.list, room * sizeof(*larger));
	if (!larger)
		return false;
	h->doorbells.list = larger;
	h->doorbells.room = room;
	return true;
}

int doorbell_add(struct hca *h, struct qp *qp)
{
	if (!make_room(h))
		return -ENOMEM;
	qp->doorbell = h->doorbells.n++;
	h->doorbells.list[qp->doorbell] = (struct doorbell){
		.db = qp->db, .qp = qp, .seen_recv = DOORBELL_NONE, .seen_send = DOORBELL_NONE};
	return 0;
}

static void swap(struct hca *h, uint32_t i, uint32_t j)
{
	struct doorbell was = h->doorbells.list[i];

	h->doorbells.list[i] = h->doorbells.list[j];
	h->doorbells.list[j] = was;
	h->doorbells.list[i].qp->doorbell = i;
	h->doorbells.list[j].qp->doorbell = j;
}

static void watch(struct hca *h, struct qp *qp, bool on)
{
	if (on && qp->doorbell >= h->doorbells.n_watched)
		swap(h, qp->doorbell, h->doorbells.n_watched++);
	else if (!on && qp->doorbell < h->doorbells.n_watched)
		swap(h, qp->doorbell, --h->doorbells.n_watched);
}

void doorbell_remove(struct hca *h, struct qp *qp)
{
	watch(h, qp, false);
	swap(h, qp->doorbell, --h->doorbells.n);
	if (h->doorbells.n)
		return;
	free(h->doorbells.list);
	h->doorbells.list = NULL;
	h->doorbells.room = 0;
}

void doorbell_state(struct hca *h, struct qp *qp)
{
	struct doorbell *d = &h->doorbells.list[qp->doorbell];

	d->seen_recv = d->seen_send = DOORBELL_NONE;
	d->flushes = qp->state == IBV_QPS_ERR && qp->rq.cnt;
	watch(h, qp, qp->state >= IBV_QPS_RTS);
}

/* What follows a record is read after it by those who take it. */
static uint32_t peek(const volatile uint32_t *db)
{
	return __atomic_load_n(db, __ATOMIC_RELAXED);
}

static void take(struct doorbell *d)
{
	uint32_t recv = peek(&d->db[0]), send = peek(&d->db[1]);
	struct qp *qp = d->qp;

	/* A dead HCA looks at nothing and completes nothing. */
	if (qp_dead(qp))
		return;
	qp_poll_send(qp);
	/* Before RTS nothing is taken. */
	if ((uint16_t)be32toh(send) == qp->sq_parsed)
		d->seen_send = send;
	if (!d->flushes)
		return;
	rq_flush(qp);
	if ((uint16_t)be32toh(recv) == qp->rq.taken)
		d->seen_recv = recv;
}

void doorbells_look(struct hca *h)
{
	struct doorbell *d;

	for (uint32_t i = 0; i < h->doorbells.n_watched; i++) {
		if (i + AHEAD < h->doorbells.n_watched)
			__builtin_prefetch((const void *)h->doorbells.list[i + AHEAD].db);
		d = &h->doorbells.list[i];
		if (peek(&d->db[1]) != d->seen_send ||
		    (d->flushes && peek(&d->db[0]) != d->seen_recv))
			take(d);
	}
}
