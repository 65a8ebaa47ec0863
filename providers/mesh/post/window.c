// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "postint.h"

/*
 * Memory windows of type 1: to bind one is a work request, but libibverbs has a function of its own for it. What is bound is so on that NIC
 * alone, so where a connection has moved, or is about to, it cannot be had.
 */

/* Return: 0 or errno. */
static int to_base(struct mesh_held *h, const struct ibv_qp *qp)
{
	int err = 0;

	mesh_lock(&h->lock);
	if (h->qp == qp && h->mode == MESH_HELD_GUARDED) {
		/* From here on no move begins, so what is posted behind the lock goes to what does the work. */
		if (!h->guard->lost)
			h->guard->lost = mesh_guard_kind;
		h->quiet = MESH_QUIET_NO; /* atomics wait for nothing any more */
		if (h->queue.n && !mesh_held_is_own_poll(h))
			mesh_post_drain(h);
		if (h->queue.n)
			err = ENOMEM; /* it would be before what was posted before; what mlx5 says of a queue that is full */
	} else if (h->qp == qp && h->mode > MESH_HELD_NOTING && h->mode != MESH_HELD_NATIVE) {
		err = EOPNOTSUPP;
	}
	mesh_unlock(&h->lock);
	return err;
}

int mesh_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	struct mesh_held *h = mesh_context_active(mc) ? mesh_held_find(mc, qp) : NULL;
	int err = h ? to_base(h, qp) : 0;

	if (err == EOPNOTSUPP)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: a memory window is not bound: its connection has moved to another NIC, or is about to",
			    mc->device);
	return err ? err : mc->bind_mw(qp, mw, bind);
}
