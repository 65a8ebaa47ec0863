// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "conn.h"
#include "srqint.h"

/*
 * Posting to an SRQ and polling from it. Hot: no allocation, no system call, no log; but a home that has run out has the
 * helper thread woken, and so does one that is left without while the program posts.
 */

void mesh_srq_consumed(struct mesh_srq_home *home, uint64_t wr_id)
{
	struct mesh_srq *m = home->owner;
	struct mesh_srq_recv *recv;
	bool wake;

	pthread_mutex_lock(&m->lock);
	recv = mesh_srqlog_find(&home->log, wr_id, false);
	if (recv)
		mesh_srqlog_drop(&home->log, recv);
	wake = mesh_srq_home_hungry(home) && mesh_srq_hungry(m) && mesh_srq_call_helper(m);
	pthread_mutex_unlock(&m->lock);
	if (wake)
		mesh_thread_wake(true);
}

static uint32_t outstanding(const struct mesh_srq *m)
{
	const struct mesh_srq_home *home;
	uint32_t n = m->base.log.n_left + m->reserve.log.n_left + m->pool.n_left;

	for (home = m->shadows; home; home = home->next)
		n += home->log.n_left;
	return n;
}

static int post_split(struct mesh_srq *m, const struct ibv_recv_wr *wr)
{
	struct mesh_srq_home *home = mesh_srq_poorest(m);

	if (outstanding(m) >= m->max_wr)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > m->max_sge)
		return EINVAL;
	if (home)
		return mesh_srq_post_to(home, wr->wr_id, wr->sg_list, wr->num_sge);
	mesh_srqlog_push(&m->pool, wr->wr_id, wr->sg_list, wr->num_sge);
	return 0;
}

static int post_noted(struct mesh_srq *m, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	int err = m->mc->post_srq_recv(m->srq, wr, bad_wr);

	for (; wr && (!err || wr != *bad_wr); wr = wr->next)
		mesh_srqlog_push(&m->base.log, wr->wr_id, wr->sg_list, wr->num_sge);
	return err;
}

int mesh_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct mesh_context *mc = mesh_context_get(srq->context);
	struct mesh_srq *m = mesh_context_active(mc) ? mesh_srq_find(mc, srq) : NULL;
	bool wake;
	int err = 0;

	if (!m)
		return mc->post_srq_recv(srq, wr, bad_wr);
	pthread_mutex_lock(&m->lock);
	if (!m->split)
		err = post_noted(m, wr, bad_wr);
	for (; m->split && wr && !err; wr = wr->next) {
		err = post_split(m, wr);
		if (err)
			*bad_wr = wr;
	}
	/* Where there were none at all, these may be elsewhere than where they are waited for. */
	wake = m->split && mesh_srq_hungry(m) && mesh_srq_call_helper_soon(m);
	pthread_mutex_unlock(&m->lock);
	if (wake)
		mesh_thread_wake(true);
	return err;
}
