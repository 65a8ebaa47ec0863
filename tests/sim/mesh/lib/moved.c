// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "moved.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "gid.h"
#include "loop.h"
#include "patience.h"
#include "srq.h"

#define PSN 0x123u

struct world world;

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
			mesh_cq_notify_owner(cq);
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

static bool rails_are_left(void)
{
	bool left;

	mesh_lock(&mesh_root.process->rails_lock);
	left = mesh_root.rails;
	mesh_unlock(&mesh_root.process->rails_lock);
	return left;
}

void world_close(struct world *w)
{
	atomic_store(&w->stop, true);
	pthread_join(w->helper, NULL);
	mesh_pd_put(w->spd);
	mesh_rail_put(w->rail);
	assert_int_equal(ibv_dealloc_pd(w->pd), 0);
	/* Nothing of ours is left there. The thread that registers memory in advance may be about to put its rail. */
	for (int ms = 0; ms < PATIENCE_MS && rails_are_left(); ms++)
		usleep(1000);
	assert_false(rails_are_left());
	assert_int_equal(ibv_close_device(w->context), 0);
}

int world_setup(void **state)
{
	(void)state;
	world_open(&world);
	return 0;
}

int world_teardown(void **state)
{
	(void)state;
	world_close(&world);
	return 0;
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

static const struct mesh_vqp_ops held_ops = {.want_key = want_key, .work_waits = work_waits};

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
		mesh_vqp_put_key(e->vqp, wait->rkey, key);
		free(wait);
		n++;
	}
}

/* ---- ends ---------------------------------------------------------------------------------------------------- */

static int access_of(const struct shape *shape)
{
	return IBV_ACCESS_LOCAL_WRITE | (shape->access ? shape->access : ALL_REMOTE);
}

/* As a later libibverbs: ours refuses what it does not know before anybody else sees it. */
static struct ibv_cq_ex *create_later_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *ex = mesh_create_cq_ex(context, attr);

	if (!ex)
		return NULL;
	ex->context = context;
	ex->channel = attr->channel;
	if (attr->channel)
		attr->channel->refcnt++;
	ex->cq_context = attr->cq_context;
	ex->comp_events_completed = ex->async_events_completed = 0;
	pthread_mutex_init(&ex->mutex, NULL);
	pthread_cond_init(&ex->cond, NULL);
	return ex;
}

static void make_cq(struct end *e, const struct shape *shape)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = shape->cqe ? shape->cqe : 256,
		.channel = e->channel,
		.wc_flags = shape->wc_flags ? shape->wc_flags :
					      IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM,
		.comp_mask = shape->cq_mask,
		.flags = shape->cq_flags,
	};

	if (e->manner->extended) {
		e->cq_ex = shape->later ? create_later_cq(e->world->context, &attr) : ibv_create_cq_ex(e->world->context, &attr);
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

	if (shape->cap)
		attr.cap = *shape->cap;
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
	mesh_vqp_destroy(e->vqp);
	mesh_recvlog_end(e->world->mc, e->qp);
	e->vqp = NULL;
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

struct ibv_qp_attr world_rtr(const struct world *w, bool rail, uint32_t peer_qpn, uint32_t psn)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qpn,
		.rq_psn = psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = rail ? w->rail_gid : w->gid,
				    .sgid_index = rail ? w->rail_gid_index : w->gid_index,
				    .hop_limit = 4}},
	};
}

struct ibv_qp_attr world_rts(uint32_t psn)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};
}

void end_rtr(struct end *e, const struct end *peer, const struct shape *shape)
{
	struct ibv_qp_attr attr = world_rtr(e->world, false, peer->qp->qp_num, PSN);

	(void)shape;
	if (e->manner->how == BARE)
		assert_int_equal(ibv_modify_qp(e->qp, &attr, RTR_MASK), 0);
	else
		assert_int_equal(mesh_vqp_new(e->world->mc, e->qp, &held_ops, e, &e->vqp), 0);
	e->qp->state = IBV_QPS_RTR; /* as ibv_modify_qp() does */
}

static struct ibv_qp_attr rts_attr(const struct shape *shape)
{
	struct ibv_qp_attr attr = world_rts(PSN);

	if (shape->timeout)
		attr.timeout = shape->timeout;
	if (shape->retry_cnt)
		attr.retry_cnt = shape->retry_cnt;
	if (shape->rnr_retry)
		attr.rnr_retry = shape->rnr_retry;
	return attr;
}

void end_rts(struct end *e, const struct shape *shape)
{
	struct ibv_qp_attr attr = rts_attr(shape);

	if (e->manner->how == BARE)
		assert_int_equal(ibv_modify_qp(e->qp, &attr, RTS_MASK), 0);
	else if (!e->late_rts)
		assert_int_equal(mesh_vqp_rts(e->vqp, &attr, RTS_MASK), 0);
	e->qp->state = IBV_QPS_RTS;
}

void end_passthrough(struct end *e, const struct end *peer, const struct shape *shape)
{
	struct ibv_qp_attr rtr = world_rtr(e->world, false, peer->qp->qp_num, PSN), rts = rts_attr(shape);

	assert_int_equal(mesh_vqp_modify_lower(e->vqp, &rtr, RTR_MASK), 0);
	assert_int_equal(mesh_vqp_modify_lower(e->vqp, &rts, RTS_MASK), 0);
}

void end_shadow_rts(struct end *e, const struct shape *shape)
{
	struct ibv_qp_attr attr = rts_attr(shape);

	assert_int_equal(mesh_vqp_rts(e->vqp, &attr, RTS_MASK), 0);
}

void end_err(struct end *e)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (e->manner->how == BARE)
		assert_int_equal(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE), 0);
	else
		assert_int_equal(mesh_vqp_modify(e->vqp, &attr, IBV_QP_STATE), 0);
}

void end_prepare(struct end *e)
{
	struct mesh_shadow_attr attr = {.port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE};

	assert_int_equal(mesh_vqp_prepare(e->vqp, e->world->spd, &attr, &e->shadow_qpn), 0);
}

void end_connect(struct end *e, const struct end *peer, const struct shape *shape)
{
	struct ibv_qp_attr attr = world_rtr(e->world, true, peer->shadow_qpn, PSN);

	(void)shape;
	assert_int_equal(mesh_vqp_connect(e->vqp, &attr, RTR_MASK), 0);
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
		mesh_vqp_activate(a->vqp);
		mesh_vqp_activate(b->vqp);
	}
	end_rts(a, shape);
	end_rts(b, shape);
}
