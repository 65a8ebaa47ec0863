// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "moved.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "gid.h"
#include "loop.h"
#include "srq.h"

#define PATIENCE_MS 5000
#define ALL_REMOTE  (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static void choose_gid(struct ibv_context *context, union ibv_gid *ret, uint8_t *ret_index)
{
	struct ibv_gid_entry entries[64];
	ssize_t n = ibv_query_gid_table(context, entries, 64, 0), i;

	for (i = 0; i < n; i++) {
		if (entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 && mv_gid_family(&entries[i].gid) == MV_FAMILY_IPV4) {
			*ret = entries[i].gid;
			*ret_index = (uint8_t)entries[i].gid_index;
			return;
		}
	}
	fail_msg("no RoCE v2 GID with an IPv4 address among %zd entries", n);
}

static void *helper(void *arg)
{
	struct world *w = arg;
	struct pollfd fd = {.fd = w->rail->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *cq_context;

	while (!atomic_load(&w->stop)) {
		if (poll(&fd, 1, 10) <= 0)
			continue;
		while (!ibv_get_cq_event(w->rail->channel, &cq, &cq_context)) {
			mesh_kick_cq_event(cq);
			ibv_ack_cq_events(cq, 1);
		}
	}
	return NULL;
}

void world_open(struct world *w)
{
	char why[256] = "";

	memset(w, 0, sizeof(*w));
	w->context = open_named("mlx5_0");
	w->mc = mesh_context_get(w->context);
	assert_non_null(w->mc);
	assert_true(w->mc->can_move);
	atomic_store(&mesh_root.moves, true);
	w->pd = ibv_alloc_pd(w->context);
	w->rail = mesh_rail_get("mlx5_1", why, sizeof(why));
	if (!w->rail)
		fail_msg("%s", why);
	w->spd = mesh_pd_get(w->mc, w->pd, w->rail, why, sizeof(why));
	if (!w->spd)
		fail_msg("%s", why);
	choose_gid(w->context, &w->gid, &w->gid_index);
	choose_gid(w->rail->context, &w->rail_gid, &w->rail_gid_index);
	assert_int_equal(pthread_create(&w->helper, NULL, helper, w), 0);
}

void world_close(struct world *w)
{
	atomic_store(&w->stop, true);
	pthread_join(w->helper, NULL);
	mesh_pd_put(w->spd);
	mesh_rail_put(w->rail);
	assert_int_equal(ibv_dealloc_pd(w->pd), 0);
	assert_null(mesh_root.rails); /* nothing of ours is left there */
	assert_int_equal(ibv_close_device(w->context), 0);
}

/* ---- the coordinator's part ---------------------------------------------------------------------------------- */

static int want_key(void *arg, uint32_t rkey, uint32_t *ret)
{
	struct end *e = arg;
	struct key_wait *wait;

	atomic_fetch_add(&e->n_asked, 1);
	if (!e->manner->late_keys) {
		mesh_key_remote(e->world->spd, rkey, ret);
		return 0;
	}
	wait = malloc(sizeof(*wait));
	assert_non_null(wait);
	wait->rkey = rkey;
	pthread_mutex_lock(&e->keys_lock);
	wait->next = e->asked;
	e->asked = wait;
	pthread_mutex_unlock(&e->keys_lock);
	return -EAGAIN;
}

static void work_waits(void *arg)
{
	struct end *e = arg;

	atomic_fetch_add(&e->n_waits, 1);
}

static const struct mesh_held_ops held_ops = {.want_key = want_key, .work_waits = work_waits};

unsigned int end_keys(struct end *e)
{
	struct key_wait *wait;
	unsigned int n = 0;
	uint32_t key;

	for (;;) {
		pthread_mutex_lock(&e->keys_lock);
		wait = e->asked;
		if (wait)
			e->asked = wait->next;
		pthread_mutex_unlock(&e->keys_lock);
		if (!wait)
			return n;
		mesh_key_remote(e->world->spd, wait->rkey, &key);
		mesh_held_put_key(e->held, wait->rkey, key);
		free(wait);
		n++;
	}
}

/* ---- ends ---------------------------------------------------------------------------------------------------- */

static int access_of(const struct shape *shape)
{
	return IBV_ACCESS_LOCAL_WRITE | (shape->access ? shape->access : ALL_REMOTE);
}

static void make_cq(struct end *e, const struct shape *shape)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = shape->cqe ? shape->cqe : 256,
		.channel = e->channel,
		.wc_flags = shape->wc_flags ? shape->wc_flags :
					      IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM,
	};

	if (e->manner->extended) {
		e->cq_ex = ibv_create_cq_ex(e->world->context, &attr);
		assert_non_null(e->cq_ex);
		e->cq = ibv_cq_ex_to_cq(e->cq_ex);
	} else {
		e->cq = ibv_create_cq(e->world->context, (int)attr.cqe, NULL, e->channel, 0);
	}
	assert_non_null(e->cq);
	if (shape->two_cqs) {
		e->recv_cq = ibv_create_cq(e->world->context, (int)attr.cqe, NULL, NULL, 0);
		assert_non_null(e->recv_cq);
	}
}

static void make_qp(struct end *e, const struct shape *shape)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = e->cq,
		.recv_cq = e->recv_cq ? e->recv_cq : shape->recv_cq ? shape->recv_cq : e->cq,
		.srq = e->srq,
		.cap = {.max_send_wr = shape->max_wr ? shape->max_wr : 64,
			.max_recv_wr = shape->max_wr ? shape->max_wr : 64,
			.max_send_sge = shape->max_sge ? shape->max_sge : 4,
			.max_recv_sge = shape->max_sge ? shape->max_sge : 4,
			.max_inline_data = shape->max_inline ? shape->max_inline : 64},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = shape->sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = e->world->pd,
	};

	if (e->manner->builders) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
				      IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
				      IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	}
	e->qp = ibv_create_qp_ex(e->world->context, &attr);
	assert_non_null(e->qp);
	e->qp_ex = e->manner->builders ? ibv_qp_to_qp_ex(e->qp) : NULL;
}

static void to_init(struct end *e, const struct shape *shape)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned int)access_of(shape)};

	if (e->manner->how == MOVED)
		assert_int_equal(mesh_recvlog_begin(e->world->mc, e->qp), 0);
	assert_int_equal(
		ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
}

void end_open(struct end *e, struct world *w, const struct manner *manner, const struct shape *shape)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = shape->srq_wr ? shape->srq_wr : 64, .max_sge = 4}};

	memset(e, 0, sizeof(*e));
	e->world = w;
	e->manner = manner;
	pthread_mutex_init(&e->keys_lock, NULL);
	e->buf = aligned_alloc(4096, END_BYTES);
	assert_non_null(e->buf);
	memset(e->buf, 0, END_BYTES);
	e->mr = ibv_reg_mr(w->pd, e->buf, END_BYTES, access_of(shape));
	assert_non_null(e->mr);
	if (shape->hub) {
		e->spoke = true;
		e->cq = shape->hub->cq;
		e->cq_ex = shape->hub->cq_ex;
		e->srq = shape->hub->srq;
	} else {
		e->channel = ibv_create_comp_channel(w->context);
		assert_non_null(e->channel);
		make_cq(e, shape);
	}
	if (shape->srq && !e->spoke) {
		e->srq = ibv_create_srq(w->pd, &srq);
		assert_non_null(e->srq);
		e->srq_size = srq.attr.max_wr;
		if (manner->how == MOVED || shape->noted)
			mesh_srq_note(w->mc, w->pd, e->srq, &srq.attr); /* as if there were an agent */
	}
	make_qp(e, shape);
	to_init(e, shape);
}

static void close_qp(struct end *e)
{
	mesh_held_destroy(e->held);
	mesh_recvlog_end(e->world->mc, e->qp);
	e->held = NULL;
	assert_int_equal(ibv_destroy_qp(e->qp), 0);
	e->qp = NULL;
}

void end_close(struct end *e)
{
	if (e->qp)
		close_qp(e);
	while (e->asked) {
		struct key_wait *wait = e->asked;

		e->asked = wait->next;
		free(wait);
	}
	if (e->srq && !e->spoke)
		assert_int_equal(ibv_destroy_srq(e->srq), 0);
	if (e->recv_cq)
		assert_int_equal(ibv_destroy_cq(e->recv_cq), 0);
	if (e->cq && !e->spoke)
		assert_int_equal(ibv_destroy_cq(e->cq), 0);
	if (e->channel)
		assert_int_equal(ibv_destroy_comp_channel(e->channel), 0);
	assert_int_equal(ibv_dereg_mr(e->mr), 0);
	free(e->buf);
	pthread_mutex_destroy(&e->keys_lock);
}

static struct ibv_qp_attr rtr_attr(const struct end *e, bool moved, uint32_t peer_qpn)
{
	const struct world *w = e->world;

	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qpn,
		.rq_psn = 0x123,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = moved ? w->rail_gid : w->gid,
				    .sgid_index = moved ? w->rail_gid_index : w->gid_index,
				    .hop_limit = 4}},
	};
}

#define RTR_MASK                                                                                             \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                      \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                                             \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |               \
	 IBV_QP_MAX_QP_RD_ATOMIC)

void end_rtr(struct end *e, const struct end *peer, const struct shape *shape)
{
	struct ibv_qp_attr attr = rtr_attr(e, false, peer->qp->qp_num);

	(void)shape;
	if (e->manner->how == BARE)
		assert_int_equal(ibv_modify_qp(e->qp, &attr, RTR_MASK), 0);
	else
		assert_int_equal(mesh_held_new(e->world->mc, e->qp, &held_ops, e, &e->held), 0);
	e->qp->state = IBV_QPS_RTR; /* as ibv_modify_qp() does */
}

static struct ibv_qp_attr rts_attr(const struct shape *shape)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0x123,
		.timeout = shape->timeout ? shape->timeout : 14,
		.retry_cnt = shape->retry_cnt ? shape->retry_cnt : 7,
		.rnr_retry = shape->rnr_retry ? shape->rnr_retry : 7,
		.max_rd_atomic = 4,
	};
}

void end_rts(struct end *e, const struct shape *shape)
{
	struct ibv_qp_attr attr = rts_attr(shape);

	if (e->manner->how == BARE)
		assert_int_equal(ibv_modify_qp(e->qp, &attr, RTS_MASK), 0);
	else if (!e->late_rts)
		assert_int_equal(mesh_held_rts(e->held, &attr, RTS_MASK), 0);
	e->qp->state = IBV_QPS_RTS;
}

void end_native(struct end *e, const struct end *peer, const struct shape *shape)
{
	struct ibv_qp_attr rtr = rtr_attr(e, false, peer->qp->qp_num), rts = rts_attr(shape);

	assert_int_equal(mesh_held_modify_base(e->held, &rtr, RTR_MASK), 0);
	assert_int_equal(mesh_held_modify_base(e->held, &rts, RTS_MASK), 0);
}

void end_shadow_rts(struct end *e, const struct shape *shape)
{
	struct ibv_qp_attr attr = rts_attr(shape);

	assert_int_equal(mesh_held_rts(e->held, &attr, RTS_MASK), 0);
}

void end_prepare(struct end *e)
{
	struct mesh_shadow_attr attr = {.port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE};

	assert_int_equal(mesh_held_prepare(e->held, e->world->spd, &attr, &e->shadow_qpn), 0);
}

void end_connect(struct end *e, const struct end *peer, const struct shape *shape)
{
	struct ibv_qp_attr attr = rtr_attr(e, true, peer->shadow_qpn);

	(void)shape;
	assert_int_equal(mesh_held_connect(e->held, &attr, RTR_MASK), 0);
}

void ends_connect(struct end *a, struct end *b, const struct shape *shape)
{
	end_rtr(a, b, shape);
	end_rtr(b, a, shape);
	if (a->manner->how == MOVED) {
		end_prepare(a);
		end_prepare(b);
		end_connect(a, b, shape);
		end_connect(b, a, shape);
		mesh_held_activate(a->held);
		mesh_held_activate(b->held);
	}
	end_rts(a, shape);
	end_rts(b, shape);
}

/* ---- work ---------------------------------------------------------------------------------------------------- */

static void build(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf bufs[16];
	int i;

	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags & ~(unsigned int)IBV_SEND_INLINE;
	switch (wr->opcode) {
	case IBV_WR_SEND:
		ibv_wr_send(qp);
		break;
	case IBV_WR_SEND_WITH_IMM:
		ibv_wr_send_imm(qp, wr->imm_data);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
		break;
	default:
		fail_msg("opcode %d", wr->opcode);
	}
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (wr->num_sge == 1)
			ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
		else
			ibv_wr_set_sge_list(qp, (size_t)wr->num_sge, wr->sg_list);
		return;
	}
	for (i = 0; i < wr->num_sge; i++)
		bufs[i] = (struct ibv_data_buf){.addr = (void *)(uintptr_t)wr->sg_list[i].addr,
						.length = wr->sg_list[i].length};
	ibv_wr_set_inline_data_list(qp, (size_t)wr->num_sge, bufs);
}

int end_send(struct end *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (!e->qp_ex)
		return ibv_post_send(e->qp, wr, &bad);
	ibv_wr_start(e->qp_ex);
	for (; wr; wr = wr->next)
		build(e->qp_ex, wr);
	return ibv_wr_complete(e->qp_ex);
}

int end_recv(struct end *e, uint64_t wr_id, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf + offset, .length = length, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = length ? 1 : 0}, *bad;

	return e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
}

static int poll_extended(struct ibv_cq_ex *cq, struct ibv_wc *wc)
{
	struct ibv_poll_cq_attr attr = {0};
	int err = ibv_start_poll(cq, &attr);

	if (err == ENOENT)
		return 0;
	assert_int_equal(err, 0);
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = cq->wr_id;
	wc->status = cq->status;
	wc->qp_num = ibv_wc_read_qp_num(cq);
	if (!wc->status) {
		wc->opcode = ibv_wc_read_opcode(cq);
		wc->wc_flags = ibv_wc_read_wc_flags(cq);
		wc->byte_len = ibv_wc_read_byte_len(cq);
		if (wc->wc_flags & IBV_WC_WITH_IMM)
			wc->imm_data = ibv_wc_read_imm_data(cq);
	}
	ibv_end_poll(cq);
	return 1;
}

int end_poll(struct end *e, struct ibv_wc *wc)
{
	return e->cq_ex ? poll_extended(e->cq_ex, wc) : ibv_poll_cq(e->cq, 1, wc);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

struct ibv_wc end_wait(struct end *e)
{
	int64_t end = now_ms() + PATIENCE_MS;
	struct ibv_wc wc;
	int n;

	while (now_ms() < end) {
		n = end_poll(e, &wc);
		assert_true(n >= 0);
		if (n)
			return wc;
	}
	fail_msg("no completion within %d ms", PATIENCE_MS);
	abort();
}

void end_quiet(struct end *e)
{
	int64_t end = now_ms() + 20;
	struct ibv_wc wc;

	while (now_ms() < end)
		assert_int_equal(end_poll(e, &wc), 0);
}
