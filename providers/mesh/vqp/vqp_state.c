// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "vqp_failover.h"
#include "vqp_int.h"

/* The program's modify and query of a virtual QP, and work that is withheld from the program. */

/* Attributes of the program's own port and path, which do not apply to the shadow. */
#define PATH_ATTRIBUTES (IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX)

enum mesh_withheld mesh_vqp_withholds(struct mesh_vqp *h)
{
	enum mesh_withheld withheld = MESH_WITHHELD_NOTHING;

	mesh_lock(&h->lock);
	if ((h->tracker && h->tracker->broken) || h->mode == MESH_VQP_DRAINING || h->mode == MESH_VQP_DRAINED)
		withheld = MESH_WITHHELD_ERRORS;
	else if (h->mode == MESH_VQP_QUEUING && h->queue.n)
		withheld = MESH_WITHHELD_SENDS;
	else if ((h->mode == MESH_VQP_TRACKED || h->mode == MESH_VQP_ACTIVE) && h->queue.n &&
		 h->paused.quiet != MESH_QUIET_NO)
		withheld = MESH_WITHHELD_BY_QUIESCE;
	else if (h->mode == MESH_VQP_ACTIVE && h->queue.n && mesh_vqp_awaits_key(h))
		withheld = MESH_WITHHELD_SENDS;
	mesh_unlock(&h->lock);
	return withheld;
}

int mesh_vqp_modify(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask)
{
	enum mesh_vqp_mode mode = mesh_vqp_mode(h);

	if (attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		return mesh_vqp_flush(h);
	if (mode == MESH_VQP_DRAINING || mode == MESH_VQP_DRAINED || mesh_failover_broken(h))
		return 0; /* a QP in ERR would refuse the change */
	if (mode == MESH_VQP_TRACKED)
		return -mesh_positive(mesh_vqp_modify_lower(h, attr, attr_mask));
	if (h->now.qp && mode != MESH_VQP_QUEUING)
		return mesh_shadow_modify(h, attr, attr_mask & ~PATH_ATTRIBUTES);
	return 0;
}

int mesh_vqp_query(struct mesh_vqp *h, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;
	enum mesh_vqp_mode mode = mesh_vqp_mode(h);
	struct ibv_qp_attr now;
	int err;

	memset(&now, 0, sizeof(now));
	memset(&init, 0, sizeof(init));
	if (h->now.qp && mode != MESH_VQP_QUEUING)
		err = mesh_root.lib.verbs.query_qp(h->now.qp, &now, IBV_QP_STATE, &init);
	else if (mode == MESH_VQP_FLUSHING || mode == MESH_VQP_TRACKED ||
		 (mode == MESH_VQP_FAILING && h->failure.ended))
		err = h->mc->lower.qp.query_qp(h->qp, &now, IBV_QP_STATE, &init);
	else
		return -ENODATA;
	if (err)
		return -mesh_positive(err);
	attr->qp_state = now.qp_state;
	attr->cur_qp_state = now.cur_qp_state;
	attr->sq_psn = now.sq_psn;
	attr->rq_psn = now.rq_psn;
	attr->sq_draining = now.sq_draining;
	return 0;
}
