/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A quirk on demand (sim_dev.late_us): completions of receives are written some time after the message was acknowledged, and
 * IBV_EVENT_QP_LAST_WQE_REACHED comes as long after the last of them. InfiniBand Architecture Specification volume 1, 10.3.1 and 11.6.3.3,
 * allows both: a queue pair is in ERR when modify returns, and not before the event it is through with its shared receive queue.
 */
#include "quirk.h"

#include <infiniband/verbs.h>
#include <stdlib.h>

#include "dma.h"

enum late_kind { LATE_RECV, LATE_EVENT, LATE_DMA };

struct late {
	TAILQ_ENTRY(late) link;
	uint64_t due_ns;
	struct qp *qp;
	enum late_kind kind; /* LATE_EVENT: LAST_WQE_REACHED */
	struct recv_done done;
	enum late_push by; /* LATE_DMA, as all that follow */
	uint8_t *dst;
	uint32_t len;
	uint8_t bytes[];
};

#define LATE_SRQ_NS 80000000ull /* SIM_QUIRK_LATE_SRQ */

static uint64_t late_ns(const struct qp *qp)
{
	return atomic_load_explicit(&qp->dev->late_us, memory_order_relaxed) * 1000ull;
}

static void insert(struct hca *h, struct late *e)
{
	struct late *after;

	e->qp->late.n++;
	TAILQ_FOREACH_REVERSE(after, &h->late, late_queue, link)
		if (after->due_ns <= e->due_ns)
			break;
	if (after)
		TAILQ_INSERT_AFTER(&h->late, after, e, link);
	else
		TAILQ_INSERT_HEAD(&h->late, e, link);
}

/* In the order of their time; of one queue pair in the order they were made. Return: whether it is put off. */
static bool put_off(struct qp *qp, const struct late *what, uint64_t delay_ns)
{
	uint64_t now_ns;
	struct late *e;

	if (!delay_ns && !qp->late.n)
		return false;
	e = malloc(sizeof(*e));
	if (!e)
		return false;
	*e = *what;
	now_ns = engine_clock();
	e->due_ns = (e->kind == LATE_EVENT && qp->late.due_ns > now_ns ? qp->late.due_ns : now_ns) + delay_ns;
	if (e->due_ns < qp->late.due_ns)
		e->due_ns = qp->late.due_ns;
	qp->late.due_ns = e->due_ns;
	insert(qp->obj.uc->hca, e);
	return true;
}

/** late_dma() - bytes land in memory later, in no order with what is late else. Return: whether they do; else the caller writes them. */
bool late_dma(struct qp *qp, uint8_t *dst, const uint8_t *src, uint32_t len, uint64_t delay_ns, enum late_push by)
{
	struct late *e = malloc(sizeof(*e) + len);

	if (!e)
		return false;
	*e = (struct late){.due_ns = engine_clock() + delay_ns, .qp = qp, .kind = LATE_DMA, .by = by, .dst = dst, .len = len};
	dma_copy(e->bytes, src, len);
	insert(qp->obj.uc->hca, e);
	return true;
}

static void drop(struct hca *h, struct late *e)
{
	TAILQ_REMOVE(&h->late, e, link);
	e->qp->late.n--;
	free(e);
}

/** late_forget() - memory is no longer registered: nothing lands there. */
void late_forget(struct hca *h, const uint8_t *from, uint64_t len)
{
	struct late *e, *next;

	for (e = TAILQ_FIRST(&h->late); e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->kind == LATE_DMA && e->dst < from + len && e->dst + e->len > from)
			drop(h, e);
	}
}

/* A dead HCA completes nothing. */
static void let_go(struct hca *h, struct late *e)
{
	if (!qp_dead(e->qp)) {
		if (e->kind == LATE_EVENT)
			qp_async(e->qp, IBV_EVENT_QP_LAST_WQE_REACHED);
		else if (e->kind == LATE_RECV)
			cq_recv_done_now(e->qp, &e->done);
		else
			dma_write(e->dst, e->bytes, e->len);
	}
	drop(h, e);
}

/**
 * late_push() - @dev reads or writes for other reasons: what it wrote before is in memory first, as PCIe orders that
 * @at: the byte; NULL: a completion, or the answer to a query
 */
void late_push(struct hca *h, const struct sim_dev *dev, const uint8_t *at)
{
	const struct mr *region;
	struct late *e, *next;

	if (TAILQ_EMPTY(&h->late))
		return;
	region = at ? mr_dmabuf(h, at) : NULL;
	for (e = TAILQ_FIRST(&h->late); e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->kind != LATE_DMA || e->qp->dev != dev)
			continue;
		if (e->by == LATE_BY_ALL || (e->by == LATE_BY_REGION && region && mr_dmabuf(h, e->dst) == region))
			let_go(h, e);
	}
}

/** late_recv_done() - a receive is done. Return: whether its completion is written later; else the caller does so. */
bool late_recv_done(struct qp *qp, const struct recv_done *d)
{
	uint64_t srq_ns = qp->srq && quirk_is(qp, SIM_QUIRK_LATE_SRQ) ? LATE_SRQ_NS : 0;

	return put_off(qp, &(struct late){.qp = qp, .kind = LATE_RECV, .done = *d}, srq_ns ? srq_ns : late_ns(qp));
}

/** late_last_wqe() - the queue pair is through with its shared receive queue. Return: as late_recv_done() */
bool late_last_wqe(struct qp *qp)
{
	if (quirk_is(qp, SIM_QUIRK_LATE_SRQ))
		return false;
	return put_off(qp, &(struct late){.qp = qp, .kind = LATE_EVENT}, late_ns(qp));
}

/** late_flush() - a queue pair is reset: when that command returns, nothing of it is under way any more */
void late_flush(struct qp *qp)
{
	struct hca *h = qp->obj.uc->hca;
	struct late *e;

	/* From the first one again each time: a completion that is let go pushes others. */
	while (qp->late.n) {
		TAILQ_FOREACH(e, &h->late, link)
			if (e->qp == qp)
				break;
		let_go(h, e);
	}
	qp->late.due_ns = 0;
}

/** late_run() - let go what is due. Return: whether anything was. */
bool late_run(struct hca *h)
{
	struct late *e;
	bool any = false;

	while ((e = TAILQ_FIRST(&h->late)) && e->due_ns <= h->now_ns) {
		let_go(h, e);
		any = true;
	}
	return any;
}

/** late_due() - when the next one is, 0 if there is none. */
uint64_t late_due(struct hca *h)
{
	const struct late *e = TAILQ_FIRST(&h->late);

	return e ? e->due_ns : 0;
}
