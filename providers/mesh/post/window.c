// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "postint.h"

/*
 * Type 1 memory windows. Binding one is a work request, with a libibverbs function of its own. A window is bound on one NIC only,
 * so it is refused if the connection has moved, or is about to.
 */

/* Return: 0 or errno. */
static int to_lower(struct mesh_vqp *h, const struct ibv_qp *qp)
{
	int err = 0;

	mesh_lock(&h->lock);
	if (h->qp == qp && h->mode == MESH_VQP_TRACKED) {
		/* From here on no move begins, so later posts go to the QP that does the work. */
		if (!h->tracker->lost)
			h->tracker->lost = mesh_tracker_kind;
		h->paused.quiet = MESH_QUIET_NO; /* atomics need not wait any more */
		if (h->queue.n && !mesh_vqp_is_own_poll(h))
			mesh_post_drain(h);
		if (h->queue.n)
			err = ENOMEM; /* the bind must not overtake waiting sends; mlx5 reports a full queue so */
	} else if (h->qp == qp && h->mode > MESH_VQP_RX_RECORD && h->mode != MESH_VQP_PASSTHROUGH) {
		err = EOPNOTSUPP;
	}
	mesh_unlock(&h->lock);
	return err;
}

int mesh_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	struct mesh_vqp *h = mesh_context_active(mc) ? mesh_vqp_find(mc, qp) : NULL;
	int err = h ? to_lower(h, qp) : 0;

	if (err == EOPNOTSUPP)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: a memory window is not bound: its connection has moved to another NIC, or is about to",
			    mc->device);
	return err ? err : mc->lower.qp.bind_mw(qp, mw, bind);
}
