// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "cqint.h"

/*
 * Makes a completion event on the program's CQ. The program waits on a completion channel of its own device, so events of other
 * devices have to become events there. Work posted to a QP in ERR is flushed at once: its completion makes an event if the
 * program's CQ is armed. The QP for that (the notify QP) belongs to the plugin, never leaves ERR, and its completions
 * are hidden from the program.
 *
 * mlx5 refuses sends of a QP that was never in RTS, and RTS would need an address: there a receive is posted. Soft-RoCE makes no
 * event for a flushed receive: there a send is posted. Soft-RoCE of Linux 5.10 flushes that send only at the next modify to ERR.
 *
 * Room in the program's CQ: a notification takes one place, and at most one is outstanding. Completions of a moved QP,
 * for which the program made room, go to shadow CQs.
 */

int mesh_cq_notify_prepare(struct mesh_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = (void *)&mesh_own_qp,
		.send_cq = cq->cq,
		.recv_cq = cq->cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_pd *pd;
	int err = 0;

	if (!cq->cq->channel || cq->notify.qp)
		return 0;
	pd = mesh_data_pd(cq->mc);
	if (!pd)
		return errno ? -errno : -ENOMEM;
	mesh_lock(&cq->notify.lock);
	cq->notify.qp = mesh_root.lib.verbs.create_qp(pd, &attr);
	if (!cq->notify.qp)
		err = errno ? -errno : -EIO;
	else
		err = -mesh_own_to_err(cq->mc, cq->notify.qp);
	if (err && cq->notify.qp) {
		cq->mc->lower.qp.destroy_qp(cq->notify.qp); /* mesh_destroy_qp() would take data->lock */
		cq->notify.qp = NULL;
	}
	mesh_unlock(&cq->notify.lock);
	return err;
}

/* Works on Soft-RoCE only. */
static bool notify_by_send(struct mesh_cq *cq)
{
	struct ibv_send_wr send = {.wr_id = (uintptr_t)cq, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad_send;
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	if (cq->mc->lower.io.post_send(cq->notify.qp, &send, &bad_send))
		return false;
	cq->mc->lower.qp.modify_qp(cq->notify.qp, &err, IBV_QP_STATE);
	return true;
}

void mesh_cq_notify(struct mesh_cq *cq)
{
	struct ibv_recv_wr recv = {.wr_id = (uintptr_t)cq}, *bad_recv;
	int cancel = mesh_cancel_off(); /* Soft-RoCE posts with a write() */

	mesh_lock(&cq->notify.lock);
	if (cq->notify.qp && !atomic_exchange_explicit(&cq->notify.pending, true, memory_order_seq_cst) &&
	    !notify_by_send(cq) && cq->mc->lower.io.post_recv(cq->notify.qp, &recv, &bad_recv))
		atomic_store_explicit(&cq->notify.pending, false, memory_order_seq_cst);
	mesh_unlock(&cq->notify.lock);
	mesh_cancel_restore(cancel);
}

void mesh_cq_notify_fini(struct mesh_cq *cq)
{
	struct ibv_qp *notify_qp;

	mesh_lock(&cq->notify.lock);
	notify_qp = cq->notify.qp;
	cq->notify.qp = NULL;
	/* The completion of a notification is destroyed with the notify_qp, or is recognised. */
	atomic_store_explicit(&cq->notify.pending, false, memory_order_relaxed);
	mesh_unlock(&cq->notify.lock);
	if (notify_qp)
		mesh_root.lib.verbs.destroy_qp(notify_qp);
}

void mesh_cq_notify_owner(struct ibv_cq *shadow)
{
	struct mesh_shadow_cq *scq = shadow->cq_context;

	mesh_cq_notify(scq->owner);
}
