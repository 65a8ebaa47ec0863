/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CQ_H
#define MESH_CQ_H

#include "context.h"

/* CQs of the program, as the rooms above see them. */

/* Why a QP is not held or logged (-EBUSY): to its work, too, nothing of ours could be added. */
extern const char mesh_cq_why_taken[];
/** mesh_cq_why_stays - why those whose completions it takes stay where they are; NULL: they may go; a constant; any thread */
const char *mesh_cq_why_stays(struct mesh_context *mc, const struct ibv_cq *cq);

/** mesh_cq_names_qps - does who polls it learn whose completions they are? Not of an extended one without IBV_WC_EX_WITH_QP_NUM */
bool mesh_cq_names_qps(struct mesh_context *mc, const struct ibv_cq *cq);
/** mesh_cq_forget_qp - a QP was destroyed or reset: nothing of it is to be polled from @cq any more; any thread, no lock of ours */
void mesh_cq_forget_qp(struct mesh_context *mc, struct ibv_cq *cq, uint32_t qpn);

/**
 * mesh_kick_cq_event - a shadow CQ has had a completion event: let the program's CQ have one
 * @shadow: what ibv_get_cq_event() on the rail's channel gave
 *
 * To be called before the event is acknowledged: that is what keeps the CQ alive. Any thread.
 */
void mesh_kick_cq_event(struct ibv_cq *shadow);

/* Verbs entry points. Contracts are those of libibverbs. */
struct ibv_cq_ex *mesh_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int mesh_destroy_cq(struct ibv_cq *cq);
int mesh_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int mesh_resize_cq(struct ibv_cq *cq, int cqe);

#endif
