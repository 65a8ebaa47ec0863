// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "paths.h"

/* QPs whose address vector is set once, on the way to RTR, and known to the peer. */
static bool is_connected(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return true;
	default:
		return false;
	}
}

int mesh_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	struct ibv_qp_attr repaired;
	uint8_t index;

	if (!(attr_mask & IBV_QP_STATE) || !(attr_mask & IBV_QP_AV) || attr->qp_state != IBV_QPS_RTR ||
	    !attr->ah_attr.is_global || !is_connected(qp->qp_type) || !mesh_context_active(mc))
		return mc->modify_qp(qp, attr, attr_mask);

	index = mesh_paths_choose(mc, qp->context, &attr->ah_attr, MV_CONNECTED);
	if (index == attr->ah_attr.grh.sgid_index)
		return mc->modify_qp(qp, attr, attr_mask);

	repaired = *attr;
	repaired.ah_attr.grh.sgid_index = index;
	if (!mc->modify_qp(qp, &repaired, attr_mask))
		return 0;
	/* The program gets the result it would have had without us. */
	return mc->modify_qp(qp, attr, attr_mask);
}
