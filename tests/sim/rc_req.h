/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the two halves of the requester share: rc_send.c sends, rc_req.c handles answers and timers.
 */
#ifndef SIM_RC_REQ_H
#define SIM_RC_REQ_H

#include <infiniband/mlx5dv.h>

#include "hca.h"

#define ACK_REQUEST_EACH 32 /* packets */

/** rc_req_retire() - complete what lies before una_psn. */
void rc_req_retire(struct qp *qp);

static inline struct send_wqe *rc_wqe(struct qp *qp, uint32_t i)
{
	return &qp->req.ring[i & (qp->sq.n_bbs - 1)];
}

static inline bool rc_is_read(const struct send_wqe *w)
{
	return w->opcode == MLX5_OPCODE_RDMA_READ;
}

static inline bool rc_is_atomic(const struct send_wqe *w)
{
	return w->opcode == MLX5_OPCODE_ATOMIC_CS || w->opcode == MLX5_OPCODE_ATOMIC_FA;
}

static inline bool rc_has_answer(const struct send_wqe *w)
{
	return rc_is_read(w) || rc_is_atomic(w);
}

static inline void rc_timer_start(struct qp *qp)
{
	/* 0 means no timer at all. */
	qp->req.deadline_ns =
		qp->attr.timeout ? qp->obj.uc->hca->now_ns + (4096ull << (qp->attr.timeout & 0x1f))
				 : 0;
}

static inline bool rc_outstanding(const struct requester *r)
{
	return psn_diff(r->max_psn, r->una_psn) > 0;
}

#endif
