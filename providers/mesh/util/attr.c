// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "attr.h"

void mesh_attr_merge(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define COPY(flag, member)                                                                                             \
	do {                                                                                                           \
		if (mask & (flag))                                                                                     \
			to->member = from->member;                                                                     \
	} while (0)
	COPY(IBV_QP_STATE, qp_state);
	COPY(IBV_QP_CUR_STATE, cur_qp_state);
	COPY(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	COPY(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	COPY(IBV_QP_PKEY_INDEX, pkey_index);
	COPY(IBV_QP_PORT, port_num);
	COPY(IBV_QP_QKEY, qkey);
	COPY(IBV_QP_AV, ah_attr);
	COPY(IBV_QP_PATH_MTU, path_mtu);
	COPY(IBV_QP_TIMEOUT, timeout);
	COPY(IBV_QP_RETRY_CNT, retry_cnt);
	COPY(IBV_QP_RNR_RETRY, rnr_retry);
	COPY(IBV_QP_RQ_PSN, rq_psn);
	COPY(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	COPY(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	COPY(IBV_QP_SQ_PSN, sq_psn);
	COPY(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	COPY(IBV_QP_PATH_MIG_STATE, path_mig_state);
	COPY(IBV_QP_CAP, cap);
	COPY(IBV_QP_DEST_QPN, dest_qp_num);
	COPY(IBV_QP_RATE_LIMIT, rate_limit);
#undef COPY
}
