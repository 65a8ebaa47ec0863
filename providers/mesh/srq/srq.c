// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "directory_client.h"
#include "srqint.h"

/* SRQs of the program, from creation to destruction. */

/* The lower provider's SRQ is destroyed: stop redistributing, and free the shadow SRQs. */
static void srq_kill(struct mesh_srq *m)
{
	struct mesh_rail_srq *rail_srq;

	mesh_lock(&m->lock);
	m->dead = true;
	m->rebalance_at_ns = 0;
	while ((rail_srq = m->shadows)) {
		m->shadows = rail_srq->next;
		mesh_rail_srq_free(rail_srq);
	}
	mesh_unlock(&m->lock);
}

static void srq_free(struct mesh_srq *m)
{
	struct mesh_srq_own_qp *own_qp;

	while ((own_qp = m->own_qps)) {
		m->own_qps = own_qp->next;
		free(own_qp);
	}
	mesh_srqlog_fini(&m->lower.log);
	mesh_srqlog_fini(&m->reserve.log);
	mesh_srqlog_fini(&m->pool);
	mesh_srqlog_fini(&m->begun);
	free(m->sges);
	mesh_lock_fini(&m->lock);
	mesh_lock_fini(&m->join_lock);
	free(m);
}

void mesh_srq_put(struct mesh_srq *m)
{
	bool last;

	mesh_lock(&mesh_root.process->srqs.lock);
	last = !--m->refs;
	mesh_unlock(&mesh_root.process->srqs.lock);
	if (last)
		srq_free(m);
}

static struct mesh_srq *srq_new(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_srq *srq,
				const struct ibv_srq_attr *attr)
{
	struct mesh_srq *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->refs = 1;
	m->mc = mc;
	m->srq = srq;
	m->pd = pd;
	m->max_wr = attr->max_wr;
	m->max_sge = attr->max_sge;
	mesh_lock_init(&m->join_lock);
	mesh_lock_init(&m->lock);
	m->lower.owner = m;
	m->lower.srq = srq;
	m->reserve.owner = m;
	m->sges = calloc(m->max_sge ? m->max_sge : 1, sizeof(*m->sges));
	if (!m->sges || mesh_srqlog_init(&m->lower.log, m->max_wr, m->max_sge) ||
	    mesh_srqlog_init(&m->pool, m->max_wr, m->max_sge)) {
		srq_free(m);
		return NULL;
	}
	return m;
}

void mesh_srq_note(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_srq *srq, const struct ibv_srq_attr *attr)
{
	struct mesh_data *data = &mc->data;
	struct mesh_srq *m = srq_new(mc, pd, srq, attr);

	if (!m)
		return; /* its QPs cannot move */
	mesh_lock(&data->lock);
	if (!mesh_data_takes(mc, MESH_FOR_SRQS) || mesh_map_put(&data->srqs, srq, m)) {
		srq_free(m);
	} else {
		data->n_srqs++;
		mesh_data_slots(mc);
	}
	mesh_unlock(&data->lock);
}

static bool is_noted(const struct mesh_context *mc)
{
	return mc->can_move && mesh_context_active(mc) && mesh_directory_agent();
}

/*
 * Serialise making and destroying of SRQs, see struct mesh_data. Not in a child of fork(), where another thread may have held the
 * lock. Return: pass it to mesh_cancel_restore().
 */
MV_LOCKS_UNCHECKED static int srq_table_lock(struct mesh_context *mc)
{
	int cancel = mesh_cancel_off();

	if (mesh_context_active(mc))
		mesh_lock(&mc->data.srq_table_lock);
	return cancel;
}

MV_LOCKS_UNCHECKED static void srq_table_unlock(struct mesh_context *mc)
{
	if (mesh_context_active(mc))
		mesh_unlock(&mc->data.srq_table_lock);
}

struct ibv_srq *mesh_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct mesh_context *mc = mesh_context_get(pd->context);
	int cancel = srq_table_lock(mc);
	struct ibv_srq *srq = mc->lower.srq.create_srq(pd, attr);
	int saved_errno = errno;

	srq_table_unlock(mc);

	if (srq && is_noted(mc))
		mesh_srq_note(mc, pd, srq, &attr->attr);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return srq;
}

struct ibv_srq *mesh_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct mesh_context *mc = mesh_context_get(context);
	int cancel = srq_table_lock(mc);
	struct ibv_srq *srq = mc->lower.srq.create_srq_ex(context, attr);
	int saved_errno = errno;
	bool basic = !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || attr->srq_type == IBV_SRQT_BASIC;

	srq_table_unlock(mc);
	if (srq && basic && attr->comp_mask & IBV_SRQ_INIT_ATTR_PD && is_noted(mc))
		mesh_srq_note(mc, attr->pd, srq, &attr->attr);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return srq;
}

MV_LOCKS_UNCHECKED int mesh_destroy_srq(struct ibv_srq *srq)
{
	struct mesh_context *mc = mesh_context_get(srq->context);
	struct mesh_data *data = &mc->data;
	struct mesh_srq *m;
	int err, cancel;

	if (!mesh_context_active(mc))
		return mc->lower.srq.destroy_srq(srq);
	cancel = mesh_cancel_off();
	mesh_lock(&data->lock);
	m = mesh_map_drop(&data->srqs, srq);
	mesh_unlock(&data->lock);
	if (m)
		mesh_lock(&m->join_lock); /* the helper thread may be redistributing */
	mesh_lock(&data->srq_table_lock);
	err = mc->lower.srq.destroy_srq(srq);
	mesh_unlock(&data->srq_table_lock);
	if (m && !err)
		srq_kill(m);
	if (m)
		mesh_unlock(&m->join_lock);
	mesh_lock(&data->lock);
	if (m && err) {
		mesh_map_put(&data->srqs, srq, m); /* its place in the map is still free: no memory is needed */
	} else if (m) {
		data->n_srqs--;
		mesh_data_slots(mc);
	}
	mesh_unlock(&data->lock);
	if (m && !err)
		mesh_srq_put(m);
	mesh_cancel_restore(cancel);
	return err;
}

void mesh_srqs_close(struct mesh_context *mc)
{
	struct mesh_srq *m;

	while ((m = mesh_map_any(&mc->data.srqs))) {
		mesh_map_drop(&mc->data.srqs, m->srq);
		mesh_lock(&m->join_lock);
		srq_kill(m);
		mesh_unlock(&m->join_lock);
		mesh_srq_put(m);
	}
}
