/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "pair.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#define PATIENCE_MS 60000
#define ALL_REMOTE  (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static int access_of(const struct options *opt)
{
	return IBV_ACCESS_LOCAL_WRITE | (opt->access ? opt->access : ALL_REMOTE);
}

static void side_open(struct pair *p, struct side *s, const struct options *opt, bool with_srq)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 64, .max_sge = 2}};
	struct ibv_qp_init_attr qp = {
		.cap = {.max_send_wr = 128,
			.max_recv_wr = 128,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = opt->type ? opt->type : IBV_QPT_RC,
	};

	s->buf = aligned_alloc(4096, BUF_BYTES);
	assert_non_null(s->buf);
	memset(s->buf, 0, BUF_BYTES);
	s->mr = ibv_reg_mr(p->pd, s->buf, BUF_BYTES, access_of(opt));
	s->channel = ibv_create_comp_channel(p->ctx);
	s->cq = ibv_create_cq(p->ctx, opt->cqe ? opt->cqe : 256, NULL, s->channel, 0);
	assert_non_null(s->mr);
	assert_non_null(s->cq);
	if (with_srq) {
		s->srq = ibv_create_srq(p->pd, &srq);
		assert_non_null(s->srq);
	}
	qp.send_cq = qp.recv_cq = s->cq;
	qp.srq = s->srq;
	s->qp = ibv_create_qp(p->pd, &qp);
	assert_non_null(s->qp);
}

static void to_init(struct side *s, const struct options *opt)
{
	struct ibv_qp_attr at = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags =
			(unsigned int)(opt->qp_access ? opt->qp_access : access_of(opt))};

	assert_int_equal(
		ibv_modify_qp(s->qp, &at,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
}

static void to_rts(struct pair *p, struct side *s, struct side *peer, const struct options *opt,
		   uint32_t psn, uint32_t peer_psn)
{
	bool rc = s->qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = peer_psn,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = p->gid,
				    .sgid_index = (uint8_t)p->gid_index,
				    .hop_limit = 1}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = opt->timeout ? opt->timeout : 14,
		.retry_cnt = opt->retry_cnt,
		.rnr_retry = opt->rnr_retry,
		.max_rd_atomic = opt->rd_atomic ? opt->rd_atomic : 4,
	};

	assert_int_equal(
		ibv_modify_qp(s->qp, &rtr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN |
				      (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
		0);
	if (opt->stop_at_rtr && s == &p->b)
		return;
	assert_int_equal(
		ibv_modify_qp(s->qp, &rts,
			      IBV_QP_STATE | IBV_QP_SQ_PSN |
				      (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						       IBV_QP_MAX_QP_RD_ATOMIC
					  : 0)),
		0);
}

/* A RoCE v2 entry with an IPv4 address. */
static void choose_gid(struct pair *p)
{
	struct ibv_gid_entry entries[64];
	ssize_t n = ibv_query_gid_table(p->ctx, entries, 64, 0);

	for (ssize_t i = 0; i < n; i++)
		if (entries[i].port_num == 1 && entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    entries[i].gid.raw[10] == 0xff) {
			p->gid = entries[i].gid;
			p->gid_index = (int)entries[i].gid_index;
			return;
		}
	fail_msg("no RoCE v2 GID with an IPv4 address among %zd entries", n);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **device = list;
	struct ibv_context *ctx;

	assert_non_null(list);
	while (name && *device && strcmp(ibv_get_device_name(*device), name))
		device++;
	if (!*device)
		fail_msg("no device %s: run this in a host of the simulator", name ? name : "");
	ctx = ibv_open_device(*device);
	ibv_free_device_list(list);
	assert_non_null(ctx);
	return ctx;
}

void pair_open(struct pair *p, const struct options *opt)
{
	memset(p, 0, sizeof(*p));
	p->ctx = open_device(opt->device);
	choose_gid(p);
	p->pd = ibv_alloc_pd(p->ctx);
	side_open(p, &p->a, opt, false);
	side_open(p, &p->b, opt, opt->srq);
	to_init(&p->a, opt);
	to_init(&p->b, opt);
	if (!opt->unconnected)
		to_rts(p, &p->b, &p->a, opt, 0x100, opt->psn);
	to_rts(p, &p->a, &p->b, opt, opt->psn, 0x100);
}

static void side_close(struct side *s)
{
	assert_int_equal(ibv_destroy_qp(s->qp), 0);
	if (s->srq)
		assert_int_equal(ibv_destroy_srq(s->srq), 0);
	assert_int_equal(ibv_destroy_cq(s->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(s->channel), 0);
	assert_int_equal(ibv_dereg_mr(s->mr), 0);
	free(s->buf);
}

void pair_close(struct pair *p)
{
	side_close(&p->a);
	side_close(&p->b);
	assert_int_equal(ibv_dealloc_pd(p->pd), 0);
	assert_int_equal(ibv_close_device(p->ctx), 0);
}

void post_recv(struct pair *p, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)p->b.buf + off, .length = len, .lkey = p->b.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = len ? 1 : 0}, *bad;

	if (p->b.srq)
		assert_int_equal(ibv_post_srq_recv(p->b.srq, &wr, &bad), 0);
	else
		assert_int_equal(ibv_post_recv(p->b.qp, &wr, &bad), 0);
}

int post_rdma(struct pair *p, uint64_t wr_id, enum ibv_wr_opcode op, uint32_t len,
	      unsigned int flags, uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)p->a.buf, .length = len, .lkey = p->a.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = len ? 1 : 0,
				 .opcode = op,
				 .send_flags = flags,
				 .imm_data = htobe32((uint32_t)wr_id)},
			   *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = wr_id;
		wr.wr.atomic.swap = wr_id + 1;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(p->a.qp, &wr, &bad);
}

int post_send(struct pair *p, uint64_t wr_id, enum ibv_wr_opcode op, uint32_t len,
	      unsigned int flags)
{
	return post_rdma(p, wr_id, op, len, flags, (uintptr_t)p->b.buf, p->b.mr->rkey);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

struct ibv_wc wait_wc(struct ibv_cq *cq)
{
	int64_t end = now_ms() + PATIENCE_MS;
	struct ibv_wc wc;

	while (now_ms() < end) {
		int n = ibv_poll_cq(cq, 1, &wc);

		assert_true(n >= 0);
		if (n)
			return wc;
	}
	fail_msg("no completion within %d ms", PATIENCE_MS);
	abort();
}

enum ibv_event_type wait_async(struct pair *p)
{
	struct pollfd fd = {.fd = p->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	if (poll(&fd, 1, PATIENCE_MS) != 1)
		fail_msg("no asynchronous event within %d ms", PATIENCE_MS);
	assert_int_equal(ibv_get_async_event(p->ctx, &ev), 0);
	ibv_ack_async_event(&ev);
	return ev.event_type;
}

uint32_t rq_psn(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr at;

	assert_int_equal(ibv_query_qp(qp, &at, IBV_QP_RQ_PSN, &init), 0);
	return at.rq_psn;
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr at;

	assert_int_equal(ibv_query_qp(qp, &at, IBV_QP_STATE, &init), 0);
	return at.qp_state;
}
