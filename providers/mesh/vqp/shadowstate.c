// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "parity.h"
#include "vqp_int.h"

int mesh_shadow_modify(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask)
{
	return h->now.qp ? -mesh_positive(mesh_root.lib.verbs.modify_qp(h->now.qp, attr, attr_mask)) : -EINVAL;
}

int mesh_vqp_connect(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask)
{
	bool lacks;
	int err;

	mesh_lock(&h->lock);
	lacks = h->now.recv_failed;
	/* Before modify to RTR: from then on, unprepare has to check whether a message arrived. */
	h->now.rtr = !lacks && h->now.qp;
	if (h->tracker)
		mesh_tracker_rtr(h->tracker, mesh_mtu_bytes(attr->path_mtu));
	mesh_unlock(&h->lock);
	err = lacks ? -ENOMEM : h->now.qp ? mesh_parity_set(h, h->now.qp) : 0;
	if (!err)
		err = mesh_shadow_modify(h, attr, attr_mask);
	return err ? err : mesh_parity_check(h, h->now.qp, false);
}

int mesh_vqp_rts(struct mesh_vqp *h, struct ibv_qp_attr *attr, int attr_mask)
{
	int err = mesh_shadow_modify(h, attr, attr_mask);

	if (err)
		return err;
	mesh_lock(&h->lock);
	if (h->tracker)
		mesh_tracker_rts(h->tracker, attr->sq_psn);
	h->now.rts = true;
	mesh_post_drain(h);
	mesh_unlock(&h->lock);
	return 0;
}

void mesh_vqp_activate(struct mesh_vqp *h)
{
	mesh_lock(&h->lock);
	if (h->mode == MESH_VQP_QUEUING && h->now.qp) {
		h->mode = MESH_VQP_ACTIVE;
		mesh_recvlog_fini(&h->early.log);
		mesh_post_drain(h);
	}
	mesh_unlock(&h->lock);
}
