// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs and completions for trials. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "psn.h"

#define ALL_REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* ---- queue pairs ------------------------------------------------------------------------------- */

static struct ibv_qp *create_qp(struct q_qp *qp, const struct q_size *size)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = qp->send_cq,
		.recv_cq = qp->recv_cq,
		.srq = qp->srq,
		.cap = {.max_send_wr = size->send_wr,
			.max_recv_wr = qp->srq ? 0 : size->recv_wr,
			.max_send_sge = size->sge,
			.max_recv_sge = size->sge,
			.max_inline_data = size->inline_bytes},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = qp->port->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD};
	struct ibv_qp_init_attr plain = {.send_cq = qp->send_cq, .recv_cq = qp->recv_cq, .srq = qp->srq, .cap = attr.cap, .qp_type = IBV_QPT_RC};
	struct ibv_qp *made = ibv_create_qp_ex(qp->port->ctx, &attr);

	if (made) {
		qp->ex = ibv_qp_to_qp_ex(made);
		return made;
	}
	return errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL ? ibv_create_qp(qp->port->pd, &plain) : NULL;
}

int q_qp_make(struct q_port *port, const struct q_size *size, struct q_qp *ret)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = size->recv_wr, .max_sge = size->sge}};
	struct q_qp qp = {.port = port};
	int err;

	errno = 0;
	qp.send_cq = ibv_create_cq(port->ctx, (int)size->send_wr + 16, NULL, NULL, 0);
	qp.recv_cq = ibv_create_cq(port->ctx, (int)size->recv_wr + 16, NULL, NULL, 0);
	if (size->with_srq)
		qp.srq = ibv_create_srq(port->pd, &srq);
	if (qp.send_cq && qp.recv_cq && !!qp.srq == size->with_srq)
		qp.qp = create_qp(&qp, size);
	if (!qp.qp) {
		err = errno ? -errno : -ENOMEM;
		q_qp_end(&qp);
		return err;
	}
	*ret = qp;
	return 0;
}

void q_qp_end(struct q_qp *qp)
{
	if (qp->qp)
		ibv_destroy_qp(qp->qp);
	if (qp->srq)
		ibv_destroy_srq(qp->srq);
	if (qp->recv_cq)
		ibv_destroy_cq(qp->recv_cq);
	if (qp->send_cq)
		ibv_destroy_cq(qp->send_cq);
	memset(qp, 0, sizeof(*qp));
}

/* ---- states ------------------------------------------------------------------------------------ */

struct q_way q_way(struct q_bench *b, enum ibv_mtu mtu)
{
	q_rest(b);
	/* 2^15 * 4 us is 0.13 s: long enough for a busy machine, and lost packets are repeated soon. */
	return (struct q_way){.psn = q_random(b, 1u << 24), .back_psn = q_random(b, 1u << 24), .mtu = mtu, .rd_atomic = 4, .timeout = 15, .retry_cnt = 7,
			      .rnr_retry = 7};
}

uint32_t q_mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

/* verbs functions return a positive errno, or some -1 with errno set */
static int modify(struct q_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int err = ibv_modify_qp(qp->qp, attr, mask);

	return err < 0 ? -errno : -err;
}

int q_to(struct q_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return modify(qp, &attr, IBV_QP_STATE);
}

int q_to_init(struct q_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = qp->port->num, .qp_access_flags = ALL_REMOTE | IBV_ACCESS_LOCAL_WRITE};

	return modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int q_to_rts(struct q_qp *qp, const struct q_qp *to, const struct q_way *way, uint32_t send_psn, uint32_t recv_psn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = way->mtu,
				   .dest_qp_num = to->qp->qp_num,
				   .rq_psn = recv_psn & MV_PSN_MASK,
				   .max_dest_rd_atomic = way->rd_atomic,
				   .min_rnr_timer = 14, /* 1.28 ms: a message without receive does not keep the device busy */
				   .ah_attr = qp->port->own};
	int err;

	attr.ah_attr.grh.dgid = to->port->own.grh.dgid;
	attr.ah_attr.dlid = to->port->own.dlid;
	err = modify(qp, &attr,
		     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .sq_psn = send_psn & MV_PSN_MASK,
				    .timeout = way->timeout,
				    .retry_cnt = way->retry_cnt,
				    .rnr_retry = way->rnr_retry,
				    .max_rd_atomic = way->rd_atomic};
	return modify(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int restart(struct q_qp *qp)
{
	int err = q_to(qp, IBV_QPS_RESET);

	if (!err)
		err = q_drain(qp->send_cq);
	if (!err)
		err = q_drain(qp->recv_cq);
	return err ? err : q_to_init(qp);
}

int q_connect(struct q_qp *a, struct q_qp *b, const struct q_way *way)
{
	int err = restart(a);

	if (!err)
		err = restart(b);
	if (!err)
		err = q_to_rts(b, a, way, way->back_psn, way->psn);
	return err ? err : q_to_rts(a, b, way, way->psn, way->back_psn);
}

int q_rq_psn(struct q_qp *qp, uint32_t *ret)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err;

	memset(&attr, 0, sizeof(attr));
	memset(&init, 0, sizeof(init));
	err = ibv_query_qp(qp->qp, &attr, IBV_QP_RQ_PSN, &init);
	if (err)
		return err < 0 ? -errno : -err;
	*ret = attr.rq_psn & MV_PSN_MASK;
	return 0;
}

/* ---- work -------------------------------------------------------------------------------------- */

int q_post(struct q_qp *qp, const struct q_post *p)
{
	struct ibv_sge sge = {.addr = p->from->addr + p->from_at, .length = p->length, .lkey = p->from->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = p->wr_id, .opcode = p->opcode, .send_flags = p->flags, .sg_list = &sge, .num_sge = p->length ? 1 : 0}, *bad;
	int err;

	if (p->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = p->to->addr + p->to_at;
		wr.wr.atomic.rkey = p->to->mr->rkey;
		wr.wr.atomic.compare_add = p->operand;
	} else if (p->to) {
		wr.wr.rdma.remote_addr = p->to->addr + p->to_at;
		wr.wr.rdma.rkey = p->to->mr->rkey;
	}
	err = ibv_post_send(qp->qp, &wr, &bad);
	return err < 0 ? -errno : -err;
}

int q_post_recv(struct q_qp *qp, uint64_t wr_id, const struct q_mem *mem, size_t at, uint32_t length)
{
	struct ibv_sge sge = {.addr = mem->addr + at, .length = length, .lkey = mem->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = length ? 1 : 0}, *bad;
	int err = qp->srq ? ibv_post_srq_recv(qp->srq, &wr, &bad) : ibv_post_recv(qp->qp, &wr, &bad);

	return err < 0 ? -errno : -err;
}

int q_poll(struct ibv_cq *cq, struct ibv_wc *ret)
{
	int n = ibv_poll_cq(cq, 1, ret);

	return n < 0 ? -EIO : n;
}

/* Yields the processor while waiting. */
int q_wait(struct ibv_cq *cq, uint64_t ns, struct ibv_wc *ret)
{
	uint64_t began_ns = q_now_ns();
	bool over;
	int n;

	for (;;) {
		over = q_now_ns() - began_ns > ns; /* poll once more then: this thread may have been preempted */
		n = q_poll(cq, ret);
		if (n)
			return n < 0 ? n : 0;
		if (over)
			return -ETIMEDOUT;
		q_pause_after(began_ns);
	}
}

int q_drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while ((n = q_poll(cq, &wc)) > 0)
		;
	return n;
}
