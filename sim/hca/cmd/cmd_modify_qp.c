/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Command: modify a queue pair. */
#include "cmd.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <string.h>

#include "av.h"
#include "doorbell.h"
#include "qp_state.h"
#include "quirk.h"

static void read_av(const struct ib_uverbs_qp_dest *d, struct av *av)
{
	*av = (struct av){.port = d->port_num,
			  .is_global = d->is_global,
			  .sgid_index = d->sgid_index,
			  .dlid = d->dlid};
	memcpy(av->dgid, d->dgid, 16);
}

static int check_values(struct qp *qp, const struct ib_uverbs_modify_qp *in)
{
	uint32_t mask = in->attr_mask;

	if (mask & IBV_QP_CUR_STATE && in->cur_qp_state != qp->state)
		return -EINVAL;
	if (mask & IBV_QP_PORT && !ucontext_port(qp->obj.uc, in->port_num))
		return -EINVAL;
	if (mask & IBV_QP_PKEY_INDEX && in->pkey_index >= ucontext_port(qp->obj.uc, 1)->n_pkeys)
		return -EINVAL;
	if (mask & IBV_QP_PATH_MTU && (in->path_mtu < IBV_MTU_256 || in->path_mtu > IBV_MTU_4096))
		return -EINVAL;
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC && in->max_rd_atomic > MAX_RD_ATOMIC) ||
	    (mask & IBV_QP_MAX_DEST_RD_ATOMIC && in->max_dest_rd_atomic > MAX_RD_ATOMIC))
		return -EINVAL;
	if (mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE))
		return -EOPNOTSUPP;
	if (mask & IBV_QP_TIMEOUT && in->timeout > 31)
		return -EINVAL;
	if ((mask & IBV_QP_RETRY_CNT && in->retry_cnt > 7) ||
	    (mask & IBV_QP_RNR_RETRY && in->rnr_retry > 7))
		return -EINVAL;
	return 0;
}

static void set_av(struct qp *qp, const struct ib_uverbs_qp_dest *d, const struct av *av)
{
	struct hca *h = qp->obj.uc->hca;
	struct qp_attr *at = &qp->attr;
	struct path *path = &qp->path;

	if (qp->holds_gid)
		path_hold_gid(h, qp->dev_index, at->av_port, path->sgid_index, -1);
	memcpy(at->dgid, d->dgid, 16);
	memcpy(at->dmac, av->dmac, 6);
	at->flow_label = d->flow_label;
	at->dlid = d->dlid;
	at->sgid_index = d->sgid_index;
	at->hop_limit = d->hop_limit;
	at->traffic_class = d->traffic_class;
	at->sl = d->sl;
	at->src_path_bits = d->src_path_bits;
	at->static_rate = d->static_rate;
	at->is_global = d->is_global;
	at->av_port = d->port_num;
	memset(path, 0, sizeof(*path));
	memcpy(path->wire.dmac, av->dmac, 6);
	memcpy(path->wire.dgid, d->dgid, 16);
	path->wire.traffic_class = d->traffic_class;
	path->wire.flow_label = d->flow_label;
	/* The kernel replaces the program's hop limit by the route's. */
	path->wire.hop_limit = 64;
	path->sgid_index = d->sgid_index;
	path->dlid = d->dlid;
	qp->holds_gid = d->is_global;
	if (qp->holds_gid)
		path_hold_gid(h, qp->dev_index, at->av_port, path->sgid_index, 1);
}

/* Which UDP source port: from the flow label if there is one, else from both queue pair numbers, as
 * drivers do. */
static void set_sport(struct qp *qp)
{
	uint32_t fl = qp->attr.flow_label & 0xfffff;

	if (!fl) {
		uint64_t v = (uint64_t)qp->qpn * qp->attr.dest_qpn;

		v ^= v >> 20;
		v ^= v >> 40;
		fl = (uint32_t)(v & 0xfffff);
	}
	qp->path.wire.udp_sport = (uint16_t)(0xc000 | ((fl & 0x3fff) ^ (fl >> 14)));
}

/* As mlx5_ib has it: the queue pair's context has logarithms, rounded up. */
static uint8_t power_of_two(uint8_t max)
{
	uint8_t n = 1;

	while (n < max)
		n = (uint8_t)(2 * n);
	return max ? n : 0;
}

static void set_plain(struct qp *qp, const struct ib_uverbs_modify_qp *in)
{
	uint32_t mask = in->attr_mask;
	struct qp_attr *at = &qp->attr;

	if (mask & IBV_QP_ACCESS_FLAGS)
		at->access = in->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		at->pkey_index = in->pkey_index;
	if (mask & IBV_QP_PORT)
		at->port = in->port_num;
	if (mask & IBV_QP_QKEY)
		at->qkey = in->qkey;
	if (mask & IBV_QP_PATH_MTU)
		at->path_mtu = in->path_mtu;
	if (mask & IBV_QP_TIMEOUT)
		at->timeout = in->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		qp->req.retries = at->retry_cnt = in->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		qp->req.rnr_retries = at->rnr_retry = in->rnr_retry;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		at->max_rd_atomic = power_of_two(in->max_rd_atomic);
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		at->max_dest_rd_atomic = power_of_two(in->max_dest_rd_atomic);
	if (mask & IBV_QP_MIN_RNR_TIMER)
		at->min_rnr_timer = in->min_rnr_timer;
	if (mask & IBV_QP_DEST_QPN)
		at->dest_qpn = in->dest_qp_num & 0xffffff;
	if (mask & IBV_QP_RQ_PSN)
		qp->resp.epsn = at->rq_psn = in->rq_psn & PSN_MASK;
	if (mask & IBV_QP_SQ_PSN) {
		at->sq_psn = in->sq_psn & PSN_MASK;
		qp->req.next_psn = qp->req.cur_psn = qp->req.una_psn = qp->req.max_psn = at->sq_psn;
	}
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		qp->sqd.notify = in->en_sqd_async_notify;
}

/* The driver spreads the queue pairs of a context over the ports of a bond. */
static uint8_t next_lag_port(struct ucontext *uc)
{
	uint32_t n = uc->dev->lag_ports;

	return n ? (uint8_t)(++uc->lag_turn % n + 1) : 0;
}

static void enter(struct qp *qp, uint8_t to)
{
	if (to == IBV_QPS_RESET) {
		qp_reset(qp);
		return;
	}
	if (to == IBV_QPS_ERR) {
		if (qp->state == IBV_QPS_RESET) {
			qp->state = IBV_QPS_ERR;
			doorbell_state(qp->obj.uc->hca, qp);
		} else {
			qp_enter_err(qp);
		}
		return;
	}
	if (qp->state == IBV_QPS_RESET)
		qp->attr.lag_port = next_lag_port(qp->obj.uc);
	qp->sqd.drained = false;
	qp->state = to;
	doorbell_state(qp->obj.uc->hca, qp);
	qp_kick(qp);
}

static int apply(struct qp *qp, const struct ib_uverbs_modify_qp *in, uint8_t to,
		 const struct av *av)
{
	if (in->attr_mask & IBV_QP_AV)
		set_av(qp, &in->dest, av);
	set_plain(qp, in);
	if (qp->type == IBV_QPT_UD) {
		struct sim_port *port = ucontext_port(qp->obj.uc, qp->attr.port);

		qp->mtu = port ? 128u << port->active_mtu : 0;
	} else {
		qp->mtu = 128u << qp->attr.path_mtu;
		if (qp->mtu == 512 && quirk_is(qp, SIM_QUIRK_PSN_COUNT))
			qp->mtu = 256;
		if (in->attr_mask & IBV_QP_AV)
			set_sport(qp);
	}
	enter(qp, to);
	return 0;
}

/* Without the lock: the destination may have to be resolved. The program may change the queue pair
 * meanwhile; what it then asked for is checked again.
 */
static int modify(struct cmd_args *a, const struct ib_uverbs_modify_qp *in)
{
	struct hca *h = a->uc->hca;
	struct av av = {0};
	struct qp *qp;
	uint8_t to;
	int err = 0;

	for (bool resolved = false;; resolved = true) {
		hca_lock(h);
		qp = (struct qp *)obj_get(a->uc, in->qp_handle, OBJ_QP);
		if (!qp) {
			err = -EINVAL;
			break;
		}
		to = in->attr_mask & IBV_QP_STATE ? in->qp_state : qp->state;
		/* A command finds the state as the program knows it before what was posted since.
		 */
		qp_poll_send(qp);
		if (!qp_modify_ok(qp->type, qp->state, to, in->attr_mask))
			err = -EINVAL;
		if (!err)
			err = check_values(qp, in);
		if (err || resolved || !(in->attr_mask & IBV_QP_AV)) {
			if (!err)
				err = apply(qp, in, to, &av);
			break;
		}
		hca_unlock(h);
		read_av(&in->dest, &av);
		err = av_resolve(a->uc, &av);
		if (err)
			return err;
	}
	hca_unlock(h);
	return err;
}

int cmd_modify_qp(struct cmd_args *a)
{
	return modify(a, a->in);
}

/* Of what the program wants it gets what the device has. Return: that */
static uint32_t take_ece(struct cmd_args *a, uint32_t handle, uint32_t options)
{
	uint32_t taken = 0;
	struct qp *qp;

	hca_lock(a->uc->hca);
	qp = (struct qp *)obj_get(a->uc, handle, OBJ_QP);
	if (qp && options)
		taken = options & qp_ece(qp);
	hca_unlock(a->uc->hca);
	return taken;
}

int cmd_ex_modify_qp(struct cmd_args *a)
{
	const struct ib_uverbs_ex_modify_qp *in = a->in;
	struct mlx5_ib_modify_qp_resp drv = {.response_length = sizeof(drv)};
	struct mlx5_ib_modify_qp drv_in;
	struct ib_uverbs_ex_modify_qp_resp *out = a->out;
	int err;

	if (in->base.attr_mask & IBV_QP_RATE_LIMIT)
		return -EOPNOTSUPP;
	cmd_drv_in(a, &drv_in, sizeof(drv_in));
	err = modify(a, &in->base);
	if (err)
		return err;
	drv.ece_options = take_ece(a, in->base.qp_handle, drv_in.ece_options);
	out->response_length = sizeof(*out);
	cmd_drv_out(a, &drv, sizeof(drv));
	return 0;
}
