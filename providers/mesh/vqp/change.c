// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "attr.h"
#include "heldint.h"
#include "live.h"

/* What the program changes of a queue pair at work: those that come in its place, and are made already, have to have it, too. */

/* Nothing can be changed in RTR, and before it is in RTS nobody does. Return: 0 or errno. */
static int change_shadow(struct mesh_shadow *shadow, const struct ibv_qp_attr *attr, int mask)
{
	struct mesh_standby *standby = shadow->standby;
	bool rts = standby ? standby->rts_mask : shadow->rts, rtr = standby || shadow->rtr;
	struct ibv_qp_attr copy = *attr;
	int err = 0;

	if (standby && !standby->rtr_mask)
		return 0; /* begins anew when it is connected */
	if (!rts)
		mask &= rtr ? 0 : IBV_QP_ACCESS_FLAGS; /* the rest comes with RTR */
	if (mask)
		err = mesh_root.lib.verbs.modify_qp(shadow->qp, &copy, mask);
	if (!standby)
		return err;
	mesh_attr_merge(&standby->rtr, attr, mask & standby->rtr_mask);
	mesh_attr_merge(&standby->rts, attr, mask & standby->rts_mask);
	if (err)
		standby->rtr_mask = 0; /* is as none that could be wanted */
	return 0;
}

/* Not connected yet: the base's is in INIT, and may be what is connected in the end. */
static int change_waiting(struct mesh_held *h, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr copy = *attr;
	int err = 0;

	if (mask & IBV_QP_ACCESS_FLAGS)
		err = mesh_held_modify_base(h, &copy, IBV_QP_ACCESS_FLAGS);
	if (!err && h->now.qp)
		err = change_shadow(&h->now, attr, mask);
	return -mesh_positive(err);
}

int mesh_live_change(struct mesh_held *h, const struct ibv_qp_attr *attr, int attr_mask)
{
	int mask = attr_mask & MESH_CHANGES, err;

	if (!mask)
		return 0;
	if (mask & IBV_QP_ACCESS_FLAGS)
		h->ahead_attr.qp_access_flags = attr->qp_access_flags; /* also what @next goes back to INIT with, if it was that */
	if (h->ahead.qp && change_shadow(&h->ahead, attr, mask))
		mesh_live_disarm(h);
	if (h->next.qp) {
		err = change_shadow(&h->next, attr, mask);
		/* One that could not be connected is in no state that is known, and goes. */
		if (err && h->next.rtr)
			return -mesh_positive(err);
	}
	return mesh_held_mode(h) == MESH_HELD_WAITING ? change_waiting(h, attr, mask) : 0;
}
