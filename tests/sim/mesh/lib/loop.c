// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "gid.h"
#include "patience.h"

struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	int i;

	assert_non_null(list);
	for (i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!context)
		fail_msg("no device %s: run this in a host of the simulator", name);
	return context;
}

/* A RoCE v2 entry with an IPv4 address. */
static union ibv_gid own_gid(struct ibv_context *context)
{
	struct ibv_gid_entry entries[64];
	ssize_t n = ibv_query_gid_table(context, entries, 64, 0), i;

	for (i = 0; i < n; i++)
		if (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 && mv_gid_family(&entries[i].gid) == MV_FAMILY_IPV4)
			return entries[i].gid;
	fail_msg("no RoCE v2 GID with an IPv4 address among %zd entries", n);
	return entries[0].gid;
}

static struct ibv_qp *qp_new(struct loop *l, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = {
		.send_cq = l->cq,
		.recv_cq = l->cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	assert_non_null(qp);
	assert_int_equal(
		ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	return qp;
}

static void connect_qp(struct loop *l, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}},
	};

	attr.ah_attr.grh.dgid = own_gid(l->rail->context);
	assert_int_equal(mesh_rail_find_gid(l->rail, 1, &attr.ah_attr.grh.dgid, MV_GID_TYPE_ROCE_V2,
					    &attr.ah_attr.grh.dgid, &attr.ah_attr.grh.sgid_index),
			 0);
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .max_rd_atomic = 1};
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

void loop_open(struct loop *l, struct mesh_rail *rail, struct ibv_pd *pd)
{
	l->rail = rail;
	l->cq = ibv_create_cq(rail->context, 64, NULL, rail->channel, 0);
	assert_non_null(l->cq);
	l->a = qp_new(l, pd);
	l->b = qp_new(l, pd);
	connect_qp(l, l->a, l->b->qp_num);
	connect_qp(l, l->b, l->a->qp_num);
}

void loop_close(struct loop *l)
{
	assert_int_equal(ibv_destroy_qp(l->a), 0);
	assert_int_equal(ibv_destroy_qp(l->b), 0);
	assert_int_equal(ibv_destroy_cq(l->cq), 0);
}

static enum ibv_wc_status rdma(struct loop *l, enum ibv_wr_opcode opcode, uint64_t local, uint32_t lkey,
			       uint64_t remote, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = {.addr = local, .length = length, .lkey = lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	time_t end = time(NULL) + PATIENCE_S;
	int n = 0;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	assert_int_equal(ibv_post_send(l->a, &wr, &bad), 0);
	while (!n && time(NULL) < end)
		n = ibv_poll_cq(l->cq, 1, &wc);
	assert_int_equal(n, 1);
	return wc.status;
}

enum ibv_wc_status loop_write(struct loop *l, const void *from, uint32_t lkey, uint64_t to, uint32_t rkey,
			      uint32_t length)
{
	return rdma(l, IBV_WR_RDMA_WRITE, (uintptr_t)from, lkey, to, rkey, length);
}

enum ibv_wc_status loop_read(struct loop *l, void *to, uint32_t lkey, uint64_t from, uint32_t rkey, uint32_t length)
{
	return rdma(l, IBV_WR_RDMA_READ, (uintptr_t)to, lkey, from, rkey, length);
}

enum ibv_wc_status loop_once(struct mesh_pd *spd, const void *from, uint32_t lkey, uint64_t to, uint32_t rkey,
			     uint32_t length)
{
	enum ibv_wc_status status;
	struct loop l;

	loop_open(&l, spd->rail, spd->pd);
	status = loop_write(&l, from, lkey, to, rkey, length);
	loop_close(&l);
	return status;
}
