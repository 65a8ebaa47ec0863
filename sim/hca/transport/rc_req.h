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

/*
 * The attribute t stands for T = 4.096 us * 2^t, 0 for no timer at all. A timer that was started may
 * expire between T and 4T after it (section 9.7.6.1.3), and hardware takes more than T; 2T is in between.
 */
static inline void rc_timer_start(struct qp *qp)
{
	uint64_t t_ns = 4096ull << (qp->attr.timeout & 0x1f);

	qp->req.deadline_ns = qp->attr.timeout ? qp->obj.uc->hca->now_ns + 2 * t_ns : 0;
}

static inline bool rc_outstanding(const struct requester *r)
{
	return psn_diff(r->max_psn, r->una_psn) > 0;
}

#endif
