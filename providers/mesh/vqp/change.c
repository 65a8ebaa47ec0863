// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "attr.h"
#include "vqp_failover.h"
#include "vqp_int.h"

/* Applies changes by the program to QPs that are made already, and may replace the QP at work. */

/* Changes a QP in INIT or RTS; in RTR no attribute can be changed. Return: 0 or errno. */
static int change_shadow(struct mesh_shadow *shadow, const struct ibv_qp_attr *attr, int mask)
{
	struct mesh_standby *standby = shadow->standby;
	bool rts = standby ? standby->rts_mask : shadow->rts, rtr = standby || shadow->rtr;
	struct ibv_qp_attr copy = *attr;
	int err = 0;

	if (standby && !standby->rtr_mask)
		return 0; /* mesh_failover_standby() brings it to RESET first */
	if (!rts)
		mask &= rtr ? 0 : IBV_QP_ACCESS_FLAGS; /* RTR sets the other attributes */
	if (mask)
		err = mesh_root.lib.verbs.modify_qp(shadow->qp, &copy, mask);
	if (!standby)
		return err;
	mesh_attr_merge(&standby->rtr, attr, mask & standby->rtr_mask);
	mesh_attr_merge(&standby->rts, attr, mask & standby->rts_mask);
	if (err)
		standby->rtr_mask = 0; /* no valid attributes: the next connect begins with RESET */
	return 0;
}

/* Not connected yet: also changes the program's own QP in INIT, which may be connected in the end. */
static int change_waiting(struct mesh_vqp *h, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr copy = *attr;
	int err = 0;

	if (mask & IBV_QP_ACCESS_FLAGS)
		err = mesh_vqp_modify_lower(h, &copy, IBV_QP_ACCESS_FLAGS);
	if (!err && h->now.qp)
		err = change_shadow(&h->now, attr, mask);
	return -mesh_positive(err);
}

int mesh_failover_change(struct mesh_vqp *h, const struct ibv_qp_attr *attr, int attr_mask)
{
	int mask = attr_mask & MESH_CHANGES, err;

	if (!mask)
		return 0;
	if (mask & IBV_QP_ACCESS_FLAGS)
		/* for @next, too, if it was the standby: back_to_init() */
		h->standby.attr.qp_access_flags = attr->qp_access_flags;
	if (h->standby.shadow.qp && change_shadow(&h->standby.shadow, attr, mask))
		mesh_failover_disarm(h);
	if (h->next.shadow.qp) {
		err = change_shadow(&h->next.shadow, attr, mask);
		/* A QP that was not brought to RTR yet is connected later with all attributes. */
		if (err && h->next.shadow.rtr)
			return -mesh_positive(err);
	}
	return mesh_vqp_mode(h) == MESH_VQP_QUEUING ? change_waiting(h, attr, mask) : 0;
}
