/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CQ_H
#define MESH_CQ_H

#include "context.h"

/* CQs of the program, as the rooms above see them. */

/* Reason for -EBUSY of a QP: the program polls its CQ by other functions than the plugin's. */
extern const char mesh_cq_why_taken[];
/** mesh_cq_why_stays - why QPs with this CQ cannot move, a constant; NULL: they can. Any thread. */
const char *mesh_cq_why_stays(struct mesh_context *mc, const struct ibv_cq *cq);

/** mesh_cq_names_qps - do the CQ's completions say their QPN? Not those of an extended CQ without IBV_WC_EX_WITH_QP_NUM. */
bool mesh_cq_names_qps(struct mesh_context *mc, const struct ibv_cq *cq);
/** mesh_cq_forget_qp - a QP was destroyed or reset: drop its completions from @cq. Any thread; no lock of the plugin is held. */
void mesh_cq_forget_qp(struct mesh_context *mc, struct ibv_cq *cq, uint32_t qpn);

/**
 * mesh_cq_notify_owner - make a completion event on the program's CQ, because a shadow CQ has had one
 * @shadow: as ibv_get_cq_event() on the rail's channel returned it
 *
 * Call before the event is acknowledged, which keeps the CQ alive. Any thread.
 */
void mesh_cq_notify_owner(struct ibv_cq *shadow);

/* Verbs entry points. Contracts, errors and thread-safety as in libibverbs. */
struct ibv_cq_ex *mesh_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int mesh_destroy_cq(struct ibv_cq *cq);
int mesh_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int mesh_resize_cq(struct ibv_cq *cq, int cqe);

#endif
