// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "context.h"

/* Objects of the plugin on the program's device. */

const char mesh_own_qp;

struct ibv_pd *mesh_data_pd(struct mesh_context *mc)
{
	if (!mc->data.pd)
		mc->data.pd = mesh_root.lib.verbs.alloc_pd(atomic_load_explicit(&mc->verbs, memory_order_relaxed));
	return mc->data.pd;
}

int mesh_own_to_err(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, init = {.qp_state = IBV_QPS_INIT, .port_num = 1},
			   err = {.qp_state = IBV_QPS_ERR};
	int ret = 0;

	if (qp->state != IBV_QPS_RESET)
		ret = mc->lower.qp.modify_qp(qp, &reset, IBV_QP_STATE);
	if (!ret) {
		qp->state = IBV_QPS_RESET;
		ret = mc->lower.qp.modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	}
	if (!ret) {
		qp->state = IBV_QPS_INIT;
		ret = mc->lower.qp.modify_qp(qp, &err, IBV_QP_STATE);
	}
	if (!ret)
		qp->state = IBV_QPS_ERR;
	return mesh_positive(ret);
}
