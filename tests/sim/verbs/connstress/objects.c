// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The verbs objects of one sequence. */
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define CQ_ENTRIES 128
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_mr *reg(struct worker *w, struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, addr, len, access);

	if (!mr)
		die(w, errno, "reg_mr of %zu bytes", len);
	return mr;
}

static void dereg(struct worker *w, struct ibv_mr **mr)
{
	int err = *mr ? ibv_dereg_mr(*mr) : 0;

	if (err)
		die(w, err, "dereg_mr");
	*mr = NULL;
}

static void make_cq(struct worker *w, struct domain *dom)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = CQ_ENTRIES,
		.channel = dom->channel,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM,
	};

	if (!my_side(w)->cq_ex) {
		dom->cq = ibv_create_cq(dom->dev->ctx, CQ_ENTRIES, NULL, dom->channel, 0);
	} else {
		dom->cq_ex = ibv_create_cq_ex(dom->dev->ctx, &attr);
		dom->cq = dom->cq_ex ? ibv_cq_ex_to_cq(dom->cq_ex) : NULL;
	}
	if (!dom->cq)
		die(w, errno, "CQ");
}

static void make_domain(struct worker *w, struct domain *dom, struct device *dev)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = N_SLOTS, .max_sge = 1}};

	memset(dom, 0, sizeof(*dom));
	dom->dev = dev;
	dom->pd = ibv_alloc_pd(dev->ctx);
	dom->other_pd = ibv_alloc_pd(dev->ctx);
	if (!dom->pd || !dom->other_pd)
		die(w, errno, "PD");
	if (my_side(w)->events) {
		dom->channel = ibv_create_comp_channel(dev->ctx);
		if (!dom->channel)
			die(w, errno, "channel");
		fcntl(dom->channel->fd, F_SETFL, O_NONBLOCK);
	}
	make_cq(w, dom);
	if (my_side(w)->srq) {
		dom->srq = ibv_create_srq(dom->pd, &srq);
		if (!dom->srq)
			die(w, errno, "SRQ");
	}
	dom->local_mr = reg(w, dom->pd, w->local, LOCAL_BYTES, IBV_ACCESS_LOCAL_WRITE);
	dom->other_mr = reg(w, dom->other_pd, w->target, TARGET_BYTES, ACCESS);
	w->mine.other_rkey[dev - w->devs] = dom->other_mr->rkey;
}

static void make_qp(struct worker *w, unsigned int q)
{
	const struct qp_script *script = &my_side(w)->qps[q];
	struct endpoint *ep = &w->eps[q];
	struct domain *dom = &w->doms[script->dev];
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = dom->cq,
		.recv_cq = dom->cq,
		.srq = dom->srq,
		.pd = dom->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     (script->wr_api ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.cap = {.max_send_wr = MAX_WR,
			.max_recv_wr = dom->srq ? 0 : MAX_WR,
			.max_send_sge = 1,
			.max_recv_sge = dom->srq ? 0 : 1,
			.max_inline_data = INLINE_BYTES},
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};
	int err;

	memset(ep, 0, sizeof(*ep));
	ep->dom = dom;
	ep->qp = ibv_create_qp_ex(dom->dev->ctx, &init);
	if (!ep->qp)
		die(w, errno, "QP");
	ep->qp_num = ep->qp->qp_num;
	w->mine.qpn[q] = ep->qp_num;
	err = ibv_modify_qp(ep->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (err)
		die(w, err, "modify QP to INIT");
}

void target_register(struct worker *w)
{
	for (unsigned int d = 0; d < 2; d++) {
		struct domain *dom = &w->doms[d];

		if (!dom->dev)
			continue;
		dom->target_mr = reg(w, dom->pd, w->target, TARGET_BYTES, ACCESS);
		w->mine.rkey[d] = dom->target_mr->rkey;
	}
	w->mine.target = (uintptr_t)w->target;
}

void target_deregister(struct worker *w)
{
	for (unsigned int d = 0; d < 2; d++) {
		if (w->doms[d].target_mr)
			w->old_rkey[d] = w->doms[d].target_mr->rkey;
		dereg(w, &w->doms[d].target_mr);
	}
}

static void fill(struct worker *w)
{
	for (unsigned int q = 0; q < w->script.n_qps; q++) {
		for (size_t at = 0; at < MAX_BYTES; at++)
			w->target[read_at(q) + at] =
				script_byte(&w->script, w->side, q, MAX_OPS, at);
	}
}

void objects_make(struct worker *w)
{
	memset(w->local, 0, LOCAL_BYTES);
	memset(w->target, 0, TARGET_BYTES);
	memset(w->doms, 0, sizeof(w->doms));
	memset(&w->mine, 0, sizeof(w->mine));
	fill(w);
	for (unsigned int q = 0; q < w->script.n_qps; q++) {
		unsigned int d = my_side(w)->qps[q].dev;

		if (!w->doms[d].dev)
			make_domain(w, &w->doms[d], &w->devs[d]);
	}
	if (my_side(w)->mr_time == MR_FIRST)
		target_register(w);
	for (unsigned int q = 0; q < w->script.n_qps; q++)
		make_qp(w, q);
	for (unsigned int d = 0; d < 2; d++)
		w->mine.gid[d] = w->devs[d].gid;
}

static void to_rtr(struct worker *w, unsigned int q, struct ibv_qp_attr *attr, int *mask)
{
	const struct qp_script *theirs = &their_side(w)->qps[q];

	*attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = w->theirs.qpn[q],
		.rq_psn = theirs->psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = w->theirs.gid[theirs->dev],
				    .hop_limit = 64,
				    .sgid_index = (uint8_t)w->eps[q].dom->dev->gid_index}},
	};
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	w->eps[q].peer_qpn = w->theirs.qpn[q];
}

static void check_view(struct worker *w, unsigned int q)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(w->eps[q].qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN | IBV_QP_AV,
			       &init);

	if (err)
		die(w, err, "query_qp");
	if (attr.qp_state != IBV_QPS_RTS || attr.dest_qp_num != w->eps[q].peer_qpn)
		die(w, 0, "query_qp says state %d, peer %#x; I connected it to %#x", attr.qp_state,
		    attr.dest_qp_num, w->eps[q].peer_qpn);
}

void qp_to(struct worker *w, unsigned int q, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask = IBV_QP_STATE, err;

	if (state == IBV_QPS_RTR) {
		to_rtr(w, q, &attr, &mask);
	} else if (state == IBV_QPS_RTS) {
		attr.sq_psn = my_side(w)->qps[q].psn;
		attr.timeout = 17; /* 0.5 s: beside other work, the threads of one side may wait that long */
		attr.retry_cnt = 7;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 4;
		mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	}
	err = ibv_modify_qp(w->eps[q].qp, &attr, mask);
	if (err)
		die(w, err, "modify QP to state %d", state);
	if (state == IBV_QPS_RTS) {
		w->eps[q].connected = true;
		atomic_fetch_add_explicit(&w->counts->connections, 1, memory_order_relaxed);
		check_view(w, q);
	}
}

void qp_destroy(struct worker *w, unsigned int q)
{
	int err = w->eps[q].qp ? ibv_destroy_qp(w->eps[q].qp) : 0;

	if (err)
		die(w, err, "destroy_qp");
	w->eps[q].qp = NULL;
}

static void destroy_domain(struct worker *w, struct domain *dom)
{
	int err = dom->srq ? ibv_destroy_srq(dom->srq) : 0;

	if (err)
		die(w, err, "destroy_srq");
	if (dom->n_events)
		ibv_ack_cq_events(dom->cq, dom->n_events);
	err = ibv_destroy_cq(dom->cq);
	if (err)
		die(w, err, "destroy_cq");
	err = dom->channel ? ibv_destroy_comp_channel(dom->channel) : 0;
	if (err)
		die(w, err, "destroy_comp_channel");
	dereg(w, &dom->local_mr);
	dereg(w, &dom->other_mr);
	dereg(w, &dom->target_mr);
	err = ibv_dealloc_pd(dom->pd);
	if (!err)
		err = ibv_dealloc_pd(dom->other_pd);
	if (err)
		die(w, err, "dealloc_pd");
}

void objects_destroy(struct worker *w)
{
	unsigned int order = my_side(w)->teardown, n = w->script.n_qps;

	if (order & 1)
		target_deregister(w);
	for (unsigned int i = 0; i < n; i++)
		qp_destroy(w, order & 2 ? n - 1 - i : i);
	for (unsigned int d = 0; d < 2; d++) {
		if (w->doms[d].dev)
			destroy_domain(w, &w->doms[d]);
	}
}
