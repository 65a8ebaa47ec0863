/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The attributes that a program's library hands to ibv_modify_qp(): as ib_cm gives them. */
#include "cm.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

/* id_ah_attr() - the address vector of the path. */
void id_ah_attr(const struct cm_id *id, struct ib_uverbs_ah_attr *ret)
{
	const struct cm_path *p = &id->conn.path;

	memset(ret, 0, sizeof(*ret));
	ret->port_num = (uint8_t)p->port;
	if (p->slid) { /* InfiniBand, in one subnet: no GRH */
		ret->dlid = p->dlid;
		ret->static_rate = p->rate;
		return;
	}
	memcpy(ret->grh.dgid, p->dgid, 16);
	ret->grh.flow_label = p->flow_label;
	ret->grh.sgid_index = (uint8_t)p->sgid_index;
	ret->grh.hop_limit = p->hop_limit;
	ret->grh.traffic_class = p->traffic_class;
	ret->is_global = 1;
}

/* What any state takes before there is a connection, and datagrams always. */
static void without_connection(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	bool ud = id->qp_type == IBV_QPT_UD;

	a->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	a->port_num = (uint8_t)id->conn.path.port;
	a->pkey_index = id->conn.path.pkey_index;
	a->qkey = ud ? CM_UDP_QKEY : 0;
}

static void to_init(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	without_connection(id, a);
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->conn.responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void to_rtr(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	const struct conn *c = &id->conn;

	a->qp_attr_mask =
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	id_ah_attr(id, &a->ah_attr);
	a->path_mtu = c->path.mtu;
	a->dest_qp_num = c->remote_qpn;
	a->rq_psn = c->rq_psn;
	if (id->qp_type == IBV_QPT_RC) {
		a->qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a->max_dest_rd_atomic = c->responder_resources;
		a->min_rnr_timer = 0;
	}
}

static void to_rts(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	const struct conn *c = &id->conn;

	a->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->sq_psn = c->sq_psn;
	if (id->qp_type == IBV_QPT_RC) {
		a->qp_attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_MAX_QP_RD_ATOMIC;
		a->timeout = id->timeout_set ? id->timeout : c->ack_timeout;
		a->retry_cnt = c->retry_count;
		a->rnr_retry = c->rnr_retry_count;
		a->max_rd_atomic = c->initiator_depth;
	}
}

/* Are both ends' parameters known? */
static bool agreed(const struct conn *c)
{
	switch (c->state) {
	case CONN_REQ_RCVD:
	case CONN_REP_SENT:
	case CONN_REP_RCVD:
	case CONN_ESTABLISHED:
		return true;
	default:
		return false;
	}
}

/* id_qp_attr() - for going to @state (IBV_QPS_INIT, RTR, RTS). */
int id_qp_attr(const struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *ret)
{
	const struct conn *c = &id->conn;

	memset(ret, 0, sizeof(*ret));
	if (!id->has_dev || state < IBV_QPS_INIT || state > IBV_QPS_RTS)
		return -EINVAL;
	ret->qp_state = (uint8_t)state;
	if (id->qp_type == IBV_QPT_UD || id->state != ID_CONNECT)
		without_connection(id, ret);
	else if (state == IBV_QPS_INIT && (agreed(c) || c->state == CONN_REQ_SENT))
		to_init(id, ret);
	else if (state == IBV_QPS_RTR && agreed(c))
		to_rtr(id, ret);
	else if (state == IBV_QPS_RTS && agreed(c))
		to_rts(id, ret);
	else
		return -EINVAL;
	return 0;
}
