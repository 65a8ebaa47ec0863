// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ownpath.h"
#include "srq.h"

/*
 * Consumes the receives of an SRQ. There is no verb for that, but an empty message consumes a receive and writes no data, and its
 * completion names the receive. So two QPs on the SRQ's device, connected to each other, exchange empty messages until the
 * receiver is not ready (RNR).
 */

#define WINDOW	   16
#define UNTAKEN	   (3 * WINDOW) /* receives that may complete before any is polled; with the sends they fill the CQ */
#define PATIENCE_NS 1000000000ull /* without any completion */
#define LOOK_NS	    5000000ull /* without one, until the port is looked at */
#define REST_NS	    2000000000ull /* for completions of what was received before ERR; a receive whose completion is not seen is lost */
#define REST_STEP_US 20
#define PSN_MASK    0xffffffu

struct loop {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	const struct mesh_srq_drain_verbs *qps;
	struct ibv_cq *cq;
	struct ibv_qp *from, *to;
	uint32_t n_taken; /* receives that @to consumed */
	void (*taken)(void *arg, uint64_t wr_id);
	void *arg;
	uint8_t port_num; /* port of both QPs */
};

static int modify(struct loop *l, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = l->qps->modify(qp, attr, mask);

	if (!err)
		qp->state = attr->qp_state; /* as in ibv_modify_qp() */
	return err < 0 ? err : -err;
}

static struct ibv_qp *make_qp(struct loop *l, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = (void *)&mesh_own_qp,
		.send_cq = l->cq,
		.recv_cq = l->cq,
		.srq = srq,
		.cap = {.max_send_wr = WINDOW, .max_recv_wr = srq ? 0 : 1, .max_send_sge = 1, .max_recv_sge = srq ? 0 : 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	return mesh_root.lib.verbs.create_qp(l->pd, &attr);
}

static void destroy_qps(struct loop *l)
{
	if (l->from)
		l->qps->destroy(l->from);
	if (l->to)
		l->qps->destroy(l->to);
	l->from = l->to = NULL;
}

static int make_qps(struct loop *l)
{
	l->from = make_qp(l, NULL);
	l->to = l->from ? make_qp(l, l->srq) : NULL;
	return l->to ? 0 : errno ? -errno : -EIO;
}

static int connect_qp(struct loop *l, struct ibv_qp *qp, const struct ibv_qp *peer, const struct ibv_ah_attr *ah)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = ah->port_num};
	int err;

	err = modify(l, qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err)
		return err;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 4, /* 40 us */
		.ah_attr = *ah,
	};
	err = modify(l, qp, &attr,
		     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	/* The SRQ counts as empty after four RNR NAKs: the HCA may not have read receives that were posted just now. */
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = 10, /* 4 ms */
		.retry_cnt = 7,
		.rnr_retry = 3,
		.max_rd_atomic = 1,
	};
	return modify(l, qp, &attr,
		      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_MAX_QP_RD_ATOMIC);
}

static int connect_both(void *arg, const struct ibv_ah_attr *ah)
{
	struct loop *l = arg;
	int err = make_qps(l);

	l->port_num = ah->port_num;
	if (!err)
		err = connect_qp(l, l->to, l->from, ah);
	if (!err)
		err = connect_qp(l, l->from, l->to, ah);
	if (err)
		destroy_qps(l);
	return err;
}

static bool port_active(struct loop *l, uint8_t port_num)
{
	struct ibv_port_attr port;

	memset(&port, 0, sizeof(port));
	return !mesh_real_port(l->verbs, port_num, &port) && port.state == IBV_PORT_ACTIVE;
}

static void take(struct loop *l, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		return;
	l->n_taken++;
	l->taken(l->arg, wc->wr_id);
}

/*
 * Send until a send is refused. Every send completes: the refused one with an RNR error, later ones flushed.
 *
 * Return: 0: the SRQ is empty.
 */
static int send_all(struct loop *l)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	uint64_t last_ns = mesh_now_ns(), look_ns = last_ns + LOOK_NS, now_ns;
	unsigned int under_way = 0, n_sent = 0;
	int err = -EINPROGRESS, n;
	struct ibv_wc wc;

	while (err == -EINPROGRESS || under_way) {
		while (err == -EINPROGRESS && under_way < WINDOW && n_sent - l->n_taken < UNTAKEN &&
		       !ibv_post_send(l->from, &wr, &bad)) {
			under_way++;
			n_sent++;
		}
		n = ibv_poll_cq(l->cq, 1, &wc);
		if (n <= 0) {
			now_ns = mesh_now_ns();
			if (n < 0 || now_ns - last_ns > PATIENCE_NS)
				return -ETIMEDOUT;
			/* If the port is down, no completion will come, and a QP is waiting to leave this port. */
			if (now_ns > look_ns && !port_active(l, l->port_num))
				return -EHOSTUNREACH;
			if (now_ns > look_ns)
				look_ns = now_ns + LOOK_NS;
			continue;
		}
		last_ns = mesh_now_ns();
		look_ns = last_ns + LOOK_NS;
		if (wc.qp_num == l->to->qp_num) {
			take(l, &wc);
			continue;
		}
		under_way--;
		if (wc.status == IBV_WC_RNR_RETRY_EXC_ERR)
			err = 0;
		else if (wc.status != IBV_WC_SUCCESS && err == -EINPROGRESS)
			err = port_active(l, l->port_num) ? -EIO : -EHOSTUNREACH;
	}
	return err;
}

/* Each message is one packet, and the first PSN is 0. */
static bool has_taken_all(struct loop *l)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	memset(&attr, 0, sizeof(attr));
	return l->qps->query(l->to, &attr, IBV_QP_RQ_PSN, &init) || ((attr.rq_psn ^ l->n_taken) & PSN_MASK) == 0;
}

/* Collect receives that were consumed though the sender got an error. They may complete a little after ERR. */
static void collect_rest(struct loop *l)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint64_t until_ns = mesh_now_ns() + REST_NS;
	struct ibv_wc wc;

	modify(l, l->from, &attr, IBV_QP_STATE);
	modify(l, l->to, &attr, IBV_QP_STATE);
	do {
		while (ibv_poll_cq(l->cq, 1, &wc) > 0)
			if (wc.qp_num == l->to->qp_num)
				take(l, &wc);
	} while (!has_taken_all(l) && mesh_now_ns() < until_ns && !usleep(REST_STEP_US));
}

int mesh_srq_drain(struct ibv_context *verbs, struct ibv_pd *pd, struct ibv_srq *srq,
		   const struct mesh_srq_drain_verbs *qps, void (*taken)(void *arg, uint64_t wr_id), void *arg)
{
	struct loop l = {.verbs = verbs, .pd = pd, .srq = srq, .qps = qps, .taken = taken, .arg = arg};
	int err;

	l.cq = mesh_root.lib.verbs.create_cq(verbs, 4 * WINDOW, NULL, NULL, 0);
	if (!l.cq)
		return errno ? -errno : -EIO;
	err = mesh_ownpath_try(l.verbs, connect_both, &l);
	if (!err) {
		err = send_all(&l);
		collect_rest(&l);
		destroy_qps(&l);
	}
	mesh_root.lib.verbs.destroy_cq(l.cq);
	return err;
}
