// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "helper.h"
#include "srqint.h"

/*
 * Posting to an SRQ, and polling from it. This code is hot: it allocates nothing, makes no system call, and logs only the first
 * receive that does not fit. It wakes the helper thread when a rail SRQ has run out of receives, and when a rail SRQ
 * has none while the program posts.
 */

/* lock */
static bool is_to_be_fed(struct mesh_rail_srq *rail_srq)
{
	return mesh_rail_srq_starved(rail_srq) && mesh_srq_starved(rail_srq->owner) && mesh_srq_call_helper(rail_srq->owner);
}

void mesh_srq_consumed(struct mesh_rail_srq *rail_srq, uint64_t wr_id)
{
	struct mesh_srq *m = rail_srq->owner;
	struct mesh_srq_recv *recv;
	bool wake;

	mesh_lock(&m->lock);
	recv = mesh_srqlog_find(&rail_srq->log, wr_id, false);
	if (recv)
		mesh_srqlog_drop(&rail_srq->log, recv);
	wake = is_to_be_fed(rail_srq);
	mesh_unlock(&m->lock);
	if (wake)
		mesh_thread_wake(true);
}

/* Return: was the receive in the log? lock */
static bool move_to(struct mesh_srq_recv *place, struct mesh_srqlog *log, uint64_t wr_id, bool last)
{
	struct mesh_srq_recv *recv = mesh_srqlog_find(log, wr_id, last);

	if (!recv)
		return false;
	memcpy(place, recv, log->stride);
	mesh_srqlog_drop(log, recv);
	return true;
}

void mesh_srq_withhold(struct mesh_rail_srq *rail_srq, uint64_t wr_id, struct mesh_srq_recv *place)
{
	struct mesh_srq *m = rail_srq->owner;
	bool wake;

	if (!place)
		return;
	mesh_lock(&m->lock);
	/*
	 * @begun may list several receives with that wr_id, consumed before receives were counted: the last one is meant, see
	 * to_pool().
	 */
	if (place->gone)
		m->n_withheld += move_to(place, &rail_srq->log, wr_id, false) ||
				 (rail_srq == &m->lower && move_to(place, &m->begun, wr_id, true));
	wake = is_to_be_fed(rail_srq);
	mesh_unlock(&m->lock);
	if (wake)
		mesh_thread_wake(true);
}

/* Before the first move all receives are posted to the lower provider. lock */
static void post_again(struct mesh_srq *m, const struct mesh_srq_recv *recv)
{
	if (!m->split && !mesh_srq_post_to(&m->lower, recv->wr_id, recv->sges, recv->num_sge))
		return;
	mesh_srqlog_push(&m->pool, recv->wr_id, recv->sges, recv->num_sge);
	if (m->split)
		mesh_srq_distribute(m);
}

void mesh_srq_end_withheld(struct mesh_srq *m, struct mesh_srq_recv *place, bool shown)
{
	if (!m || !place)
		return;
	mesh_lock(&m->lock);
	if (!place->gone) {
		place->gone = true;
		m->n_withheld--;
		if (!shown && !m->dead)
			post_again(m, place);
	}
	mesh_unlock(&m->lock);
}

/* Through the pool, because posting may move entries of the log that has the receive. */
void mesh_srq_return(struct mesh_rail_srq *rail_srq, uint64_t wr_id)
{
	struct mesh_srq *m = rail_srq->owner;
	struct mesh_srqlog *log = &rail_srq->log;
	struct mesh_srq_recv *recv;

	mesh_lock(&m->lock);
	recv = mesh_srqlog_find(log, wr_id, false);
	if (!recv && rail_srq == &m->lower && m->begun.places) {
		log = &m->begun;
		recv = mesh_srqlog_find(log, wr_id, true);
	}
	if (recv) {
		mesh_srqlog_push(&m->pool, recv->wr_id, recv->sges, recv->num_sge);
		mesh_srqlog_drop(log, recv);
		recv = mesh_srqlog_find(&m->pool, wr_id, true);
	}
	if (recv && m->split)
		mesh_srq_distribute(m);
	else if (recv && !m->dead && !mesh_srq_post_to(&m->lower, recv->wr_id, recv->sges, recv->num_sge))
		mesh_srqlog_drop(&m->pool, recv);
	mesh_unlock(&m->lock);
}

struct mesh_srq_recv *mesh_srq_place(const struct mesh_srq *m)
{
	struct mesh_srq_recv *place = calloc(1, sizeof(*place) + m->max_sge * sizeof(*place->sges));

	if (place)
		place->gone = true;
	return place;
}

static uint32_t outstanding(const struct mesh_srq *m)
{
	const struct mesh_rail_srq *rail_srq;
	uint32_t n = m->lower.log.n_left + m->reserve.log.n_left + m->pool.n_left + m->n_withheld;

	for (rail_srq = m->shadows; rail_srq; rail_srq = rail_srq->next)
		n += rail_srq->log.n_left;
	return n;
}

/*
 * UCX aborts with this error, so the log says once what the plugin has counted. @rail_srq: where posting failed; NULL:
 * nowhere. lock
 */
static int refuse_full(struct mesh_srq *m, const struct mesh_rail_srq *rail_srq)
{
	const struct mesh_rail_srq *shadow;
	uint32_t n_shadows = 0, n_there = 0;

	if (m->said_full)
		return ENOMEM;
	m->said_full = true;
	for (shadow = m->shadows; shadow; shadow = shadow->next) {
		n_shadows++;
		n_there += shadow->log.n_left;
	}
	mv_log(&mesh_root.log, MV_LOG_INFO,
	       "%s: a receive does not fit into an SRQ of %u: %s; there are %u on the program's NIC, %u on %u other NICs, %u nowhere yet, "
	       "%u withheld while a connection moves",
	       m->mc->device, m->max_wr, rail_srq ? "its NIC says so" : "it is full", m->lower.log.n_left, n_there,
	       n_shadows, m->pool.n_left + m->reserve.log.n_left, m->n_withheld);
	return ENOMEM;
}

static int post_split(struct mesh_srq *m, const struct ibv_recv_wr *wr)
{
	struct mesh_rail_srq *rail_srq = mesh_srq_emptiest(m);
	int err;

	if (outstanding(m) >= m->max_wr)
		return refuse_full(m, NULL);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > m->max_sge)
		return EINVAL;
	if (rail_srq) {
		err = mesh_srq_post_to(rail_srq, wr->wr_id, wr->sg_list, wr->num_sge);
		return err == ENOMEM ? refuse_full(m, rail_srq) : err;
	}
	mesh_srqlog_push(&m->pool, wr->wr_id, wr->sg_list, wr->num_sge);
	return 0;
}

static int post_noted(struct mesh_srq *m, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	int err = m->mc->lower.io.post_srq_recv(m->srq, wr, bad_wr);

	for (; wr && (!err || wr != *bad_wr); wr = wr->next)
		mesh_srqlog_push(&m->lower.log, wr->wr_id, wr->sg_list, wr->num_sge);
	return err;
}

int mesh_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct mesh_context *mc = mesh_context_get(srq->context);
	struct mesh_srq *m = mesh_context_active(mc) ? mesh_srq_find(mc, srq) : NULL;
	bool wake;
	int err = 0;

	if (!m)
		return mc->lower.io.post_srq_recv(srq, wr, bad_wr);
	mesh_lock(&m->lock);
	if (!m->split)
		err = post_noted(m, wr, bad_wr);
	for (; m->split && wr && !err; wr = wr->next) {
		err = post_split(m, wr);
		if (err)
			*bad_wr = wr;
	}
	/* With all rail SRQs empty before, these receives may be at other rail SRQs than where messages wait. */
	wake = m->split && mesh_srq_starved(m) && mesh_srq_call_helper_soon(m);
	mesh_unlock(&m->lock);
	if (wake)
		mesh_thread_wake(true);
	return err;
}
