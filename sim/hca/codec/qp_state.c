/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "qp_state.h"

#include <infiniband/verbs.h>
#include <stddef.h>

enum { UD, UC, RC, N_TYPES };

#define PATH_OPT (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS)

struct transition {
	uint8_t from, to;
	uint32_t required[N_TYPES], optional[N_TYPES];
};

#define INIT_CONNECTED (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define INIT_DATAGRAM  (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define RTS_DATAGRAM   (IBV_QP_CUR_STATE | IBV_QP_QKEY)
#define RTS_UC         (IBV_QP_CUR_STATE | PATH_OPT | IBV_QP_PATH_MIG_STATE)
#define RTS_RC         (RTS_UC | IBV_QP_MIN_RNR_TIMER)

static const struct transition transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, {INIT_DATAGRAM, INIT_CONNECTED, INIT_CONNECTED}, {0, 0, 0}},
	{IBV_QPS_INIT, IBV_QPS_INIT, {0, 0, 0}, {INIT_DATAGRAM, INIT_CONNECTED, INIT_CONNECTED}},
	{IBV_QPS_INIT,
	 IBV_QPS_RTR,
	 {0, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
	 {IBV_QP_PKEY_INDEX | IBV_QP_QKEY, PATH_OPT | IBV_QP_PKEY_INDEX,
	  PATH_OPT | IBV_QP_PKEY_INDEX}},
	{IBV_QPS_RTR,
	 IBV_QPS_RTS,
	 {IBV_QP_SQ_PSN, IBV_QP_SQ_PSN,
	  IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		  IBV_QP_MAX_QP_RD_ATOMIC},
	 {RTS_DATAGRAM, RTS_UC, RTS_RC}},
	{IBV_QPS_RTS, IBV_QPS_RTS, {0, 0, 0}, {RTS_DATAGRAM, RTS_UC, RTS_RC}},
	{IBV_QPS_RTS,
	 IBV_QPS_SQD,
	 {0, 0, 0},
	 {IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY}},
	{IBV_QPS_SQD, IBV_QPS_RTS, {0, 0, 0}, {RTS_DATAGRAM, RTS_UC, RTS_RC}},
	{IBV_QPS_SQD,
	 IBV_QPS_SQD,
	 {0, 0, 0},
	 {IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
	  IBV_QP_AV | PATH_OPT | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE,
	  IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | PATH_OPT |
		  IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE}},
	{IBV_QPS_SQE,
	 IBV_QPS_RTS,
	 {0, 0, 0},
	 {RTS_DATAGRAM, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS, 0}},
};

static int type_index(uint8_t type)
{
	return type == IBV_QPT_UD ? UD : type == IBV_QPT_UC ? UC : RC;
}

bool qp_modify_ok(uint8_t type, uint8_t from, uint8_t to, uint32_t mask)
{
	int t = type_index(type);

	mask &= ~(uint32_t)IBV_QP_STATE;
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return !mask;
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *x = &transitions[i];

		if (x->from == from && x->to == to)
			return (mask & x->required[t]) == x->required[t] &&
			       !(mask & ~(x->required[t] | x->optional[t]));
	}
	return false;
}
