// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>

#include "helper.h"
#include "srqint.h"
#include "survives.h"

/* QPs that receive from an SRQ, of the lower provider and moved ones, as they come and go. */

/*
 * ---- QPs of the lower provider
 * -----------------------------------------------------------------------------------------
 */

/* Count receives that the QP consumes from now on. join_lock */
static int watch(struct mesh_srq *m, struct mesh_srq_own_qp *own_qp)
{
	struct mesh_data *data = &m->mc->data;
	struct mesh_cq *cq;
	int err;

	if (own_qp->cq)
		return 0;
	mesh_lock(&data->lock);
	/*
	 * Polls have to be intercepted. A distributed SRQ goes on: functions that were put over the plugin's since then call the
	 * plugin's.
	 */
	if (!m->split && !mesh_data_takes(m->mc, MESH_POLLING)) {
		mesh_unlock(&data->lock);
		return -EBUSY;
	}
	cq = mesh_cq_get(m->mc, own_qp->qp->recv_cq);
	if (cq)
		mesh_cq_use(cq);
	mesh_data_slots(m->mc);
	mesh_unlock(&data->lock);
	if (!cq)
		return -ENOMEM;
	err = mesh_cq_add_own_qp(cq, own_qp->qpn, &m->lower, NULL);
	if (err) {
		mesh_lock(&data->lock);
		mesh_cq_put(cq);
		mesh_unlock(&data->lock);
		return err;
	}
	own_qp->cq = cq;
	return 0;
}

static void unwatch(struct mesh_srq_own_qp *own_qp)
{
	struct mesh_data *data = &own_qp->owner->mc->data;

	if (!own_qp->cq)
		return;
	mesh_cq_remove_own_qp(own_qp->cq, own_qp->qpn, &own_qp->owner->lower, NULL);
	mesh_lock(&data->lock);
	mesh_cq_put(own_qp->cq);
	mesh_unlock(&data->lock);
	own_qp->cq = NULL;
}

static struct mesh_srq_own_qp **find_own_qp(struct mesh_srq *m, const struct ibv_qp *qp)
{
	struct mesh_srq_own_qp **at;

	for (at = &m->own_qps; *at && (*at)->qp != qp; at = &(*at)->next)
		;
	return at;
}

static int join_lower(struct mesh_srq *m, struct mesh_srq_own_qp *own_qp)
{
	int err = m->split || mesh_survives(m->mc) ? watch(m, own_qp) : 0;
	bool wake = false;

	if (err && m->split)
		return err;
	mesh_lock(&m->lock);
	err = mesh_rail_srq_unstale(&m->lower);
	if (!err) {
		m->lower.n_qps++;
		m->n_staying += own_qp->stays;
		if (m->split && m->lower.n_qps == 1)
			wake = mesh_srq_rebalance(m, NULL);
		else if (!m->reserve.n_qps && mesh_srq_reserve_wanted(m))
			wake = mesh_srq_rebalance(m, NULL);
	} else {
		/*
		 * Behind a port that is down, RTR of the lower provider fails with ETIMEDOUT when it cannot resolve the
		 * peer's address: the same here.
		 */
		err = err == -EHOSTUNREACH ? -ETIMEDOUT : -EBUSY;
	}
	mesh_unlock(&m->lock);
	if (wake)
		mesh_thread_wake(true);
	return err;
}

int mesh_srq_join_lower(struct mesh_context *mc, struct ibv_qp *qp, bool stays)
{
	struct mesh_srq *m = mesh_srq_find(mc, qp->srq);
	struct mesh_srq_own_qp *own_qp;
	int err = 0;

	if (!m)
		return 0;
	mesh_mlx5_is_lower(mc); /* looks up the provider, before locks are taken */
	mesh_lock(&m->join_lock);
	own_qp = *find_own_qp(m, qp);
	if (!own_qp) {
		own_qp = calloc(1, sizeof(*own_qp));
		if (own_qp) {
			own_qp->owner = m;
			own_qp->qp = qp;
			own_qp->qpn = qp->qp_num;
			own_qp->stays = stays;
			err = join_lower(m, own_qp);
		} else {
			err = -ENOMEM;
		}
		if (err) {
			if (own_qp)
				unwatch(own_qp);
			free(own_qp);
		} else {
			own_qp->next = m->own_qps;
			m->own_qps = own_qp;
			m->was_own |= !own_qp->cq;
		}
	}
	mesh_unlock(&m->join_lock);
	return err;
}

struct mesh_srq_own_qp *mesh_srq_leaving(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_srq *m = mesh_srq_find(mc, qp->srq);
	struct mesh_srq_own_qp **at, *own_qp;

	if (!m)
		return NULL;
	mesh_lock(&m->join_lock);
	at = find_own_qp(m, qp);
	own_qp = *at;
	if (own_qp)
		*at = own_qp->next;
	mesh_unlock(&m->join_lock);
	return own_qp;
}

void mesh_srq_left(struct mesh_srq_own_qp *own_qp, bool really)
{
	bool wake = false;
	struct mesh_srq *m;

	if (!own_qp)
		return;
	m = own_qp->owner;
	mesh_lock(&m->join_lock);
	if (really) {
		unwatch(own_qp);
		mesh_lock(&m->lock);
		m->lower.n_qps--;
		m->n_staying -= own_qp->stays;
		if (m->split && (!m->lower.n_qps || (m->reserve.n_qps && !mesh_srq_reserve_wanted(m))))
			wake = mesh_srq_rebalance(m, NULL);
		mesh_unlock(&m->lock);
		free(own_qp);
	} else {
		own_qp->next = m->own_qps;
		m->own_qps = own_qp;
	}
	mesh_unlock(&m->join_lock);
	if (wake)
		mesh_thread_wake(true);
}

/* ---- moved QPs ----------------------------------------------------------------------------------------------- */

void mesh_rail_srq_free(struct mesh_rail_srq *rail_srq)
{
	mesh_rail_srq_close(rail_srq);
	mesh_pd_put(rail_srq->spd);
	mesh_srqlog_fini(&rail_srq->log);
	free(rail_srq);
}

/* join_lock; the list is also guarded by lock. */
static struct mesh_rail_srq *rail_srq_get(struct mesh_srq *m, struct mesh_rail *rail)
{
	struct mesh_rail_srq *rail_srq;
	char why[256];

	for (rail_srq = m->shadows; rail_srq; rail_srq = rail_srq->next)
		if (rail_srq->rail == rail)
			return rail_srq;
	rail_srq = calloc(1, sizeof(*rail_srq));
	if (!rail_srq)
		return NULL;
	rail_srq->owner = m;
	rail_srq->rail = rail; /* @spd has a reference to the rail */
	rail_srq->spd = mesh_pd_get(m->mc, m->pd, rail, why, sizeof(why));
	if (!rail_srq->spd || mesh_srqlog_init(&rail_srq->log, m->max_wr, m->max_sge)) {
		mesh_rail_srq_free(rail_srq);
		return NULL;
	}
	mesh_lock(&m->lock);
	rail_srq->next = m->shadows;
	m->shadows = rail_srq;
	mesh_unlock(&m->lock);
	return rail_srq;
}

static int rail_srq_open(struct mesh_rail_srq *rail_srq)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = rail_srq->owner->max_wr, .max_sge = rail_srq->owner->max_sge}};

	if (rail_srq->srq)
		return mesh_rail_srq_unstale(rail_srq);
	rail_srq->srq = mesh_rail_create_srq(rail_srq->rail, rail_srq->spd->pd, &attr);
	return rail_srq->srq ? 0 : errno ? -errno : -EIO;
}

static int watch_all(struct mesh_srq *m)
{
	struct mesh_srq_own_qp *own_qp;
	int err = 0;

	for (own_qp = m->own_qps; own_qp && !err; own_qp = own_qp->next)
		err = watch(m, own_qp);
	return err;
}

int mesh_srq_join_shadow(struct mesh_srq *m, struct mesh_rail *rail, bool later, struct mesh_rail_srq **ret)
{
	struct mesh_rail_srq *rail_srq;
	bool wake = false;
	int err;

	mesh_lock(&m->join_lock);
	rail_srq = rail_srq_get(m, rail);
	err = rail_srq ? watch_all(m) : -ENOMEM;
	if (!err) {
		mesh_lock(&m->lock);
		err = rail_srq_open(rail_srq);
		if (!err && !rail_srq->n_qps++) {
			wake = mesh_srq_rebalance(m, &err);
			if (later && m->split)
				err = 0;
		}
		if (err && rail_srq->n_qps == 1) {
			rail_srq->n_qps = 0;
			if (m->split)
				wake = mesh_srq_rebalance(m, NULL);
			else
				mesh_rail_srq_close(rail_srq);
		}
		rail_srq->n_attached += !err;
		mesh_unlock(&m->lock);
	}
	mesh_unlock(&m->join_lock);
	if (wake)
		mesh_thread_wake(true);
	if (!err)
		*ret = rail_srq;
	return err;
}

/* @receives: until now; @attached: from now on */
static void leave_shadow(struct mesh_rail_srq *rail_srq, bool receives, bool attached)
{
	struct mesh_srq *m = rail_srq->owner;
	bool wake = false;

	mesh_lock(&m->join_lock);
	mesh_lock(&m->lock);
	rail_srq->n_qps -= receives;
	rail_srq->n_attached -= !attached;
	if (receives && !rail_srq->n_qps)
		wake = mesh_srq_rebalance(m, NULL);
	else if (!rail_srq->n_attached)
		mesh_rail_srq_close(rail_srq);
	mesh_unlock(&m->lock);
	mesh_unlock(&m->join_lock);
	if (wake)
		mesh_thread_wake(true);
}

void mesh_srq_stop_shadow(struct mesh_rail_srq *rail_srq)
{
	leave_shadow(rail_srq, true, true);
}

void mesh_srq_leave_shadow(struct mesh_rail_srq *rail_srq, bool stopped)
{
	leave_shadow(rail_srq, !stopped, false);
}
