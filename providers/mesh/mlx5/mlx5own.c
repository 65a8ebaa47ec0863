// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mlx5own.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "context.h"
#include "ownpath.h"
#include "wrmlx5_hot.h"

#define CQES     31 /* libmlx5 rounds up to 32, more than are written before they are consumed */
#define FIRST    MESH_OWN_KINDS /* kind of the first send, a READ that waits for ever */
#define INLINE   64u
#define FLUSH_NS 2000000000ull /* limit for a flush: a device takes microseconds, a simulated one on a busy machine took 200 ms */

/* ---- making ----------------------------------------------------------------------------------------------------- */

/* Return: NULL and errno. */
static struct ibv_qp *make_qp(struct mesh_own *own)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = (void *)&mesh_own_qp,
		.send_cq = own->device_cq,
		.recv_cq = own->device_cq,
		.cap = {.max_send_wr = MESH_OWN_WRS,
			.max_recv_wr = MESH_OWN_WRS,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = INLINE},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = mesh_data_pd(own->mc),
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};

	errno = ENOMEM;
	return attr.pd ? own->mc->lower.qp.create_qp_ex(atomic_load_explicit(&own->mc->verbs, memory_order_relaxed), &attr)
		       : NULL;
}

static int make_qps(struct mesh_own *own)
{
	own->qp = make_qp(own);
	own->sink = own->qp ? make_qp(own) : NULL;
	if (!own->sink)
		return errno == EOPNOTSUPP ? -EOPNOTSUPP : -ENOMEM;
	return mesh_root.lib.verbs.qp_to_qp_ex(own->qp) ? 0 : -EOPNOTSUPP;
}

static int modify(struct mesh_own *own, struct ibv_qp_attr attr, int mask)
{
	int err = own->mc->lower.qp.modify_qp(own->qp, &attr, IBV_QP_STATE | mask);

	if (!err)
		own->qp->state = attr.qp_state; /* as ibv_modify_qp() does */
	return -mesh_positive(err);
}

/* Reads srqn_uidx in the only CQE that the device writes: of a receive that it flushes. */
static int learn_uidx(struct mesh_own *own)
{
	uint64_t until_ns = mesh_now_ns() + FLUSH_NS;
	const struct mlx5_cqe64 *cqe;
	struct ibv_wc wc;
	int err;

	err = -mesh_own_to_err(own->mc, own->qp);
	if (err)
		return err;
	if (!mesh_own_recv(own, 0))
		return -EOPNOTSUPP;
	while (!(cqe = mv_mlx5_cqe_at(&own->device_cqes, 0))) {
		if (mesh_now_ns() > until_ns)
			return -ETIMEDOUT;
		sched_yield();
	}
	own->uidx = be32toh(cqe->srqn_uidx);
	return own->mc->lower.io.poll_cq(own->device_cq, 1, &wc) == 1 && mv_mlx5_consumer(&own->device_cqes) == 1 ? 0
														  : -EOPNOTSUPP;
}

/* Goes from RESET, where libmlx5's counts begin at 0 again, to RTS. */
static int connect_by(void *arg, const struct ibv_ah_attr *ah)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, init = {.qp_state = IBV_QPS_INIT, .port_num = ah->port_num};
	struct mesh_own *own = arg;
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = own->sink->qp_num,
		.min_rnr_timer = 1,
		.ah_attr = *ah,
	};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 0, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	int err;

	err = modify(own, reset, 0);
	if (!err)
		err = modify(own, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!err)
		err = modify(own, rtr,
			     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
	if (!err)
		err = modify(own, rts, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	own->n_recvs = own->n_sends = 0;
	return err;
}

/* Posts the READ that all later sends wait for. It has no SGE, so the device finds no wrong key. libmlx5 gets a CQE for it. */
static int post_first(struct mesh_own *own)
{
	struct mesh_own_send send;
	struct ibv_wc wc;

	if (!mesh_own_send(own, FIRST, 0, &send))
		return -EOPNOTSUPP;
	mesh_own_sent(own, &send, 0);
	return own->mc->lower.io.poll_cq(own->cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS ? 0 : -EOPNOTSUPP;
}

static int make_cq(struct mesh_context *mc, struct ibv_cq **ret, struct mv_mlx5_cq *ret_cqes)
{
	*ret = mesh_root.lib.verbs.create_cq(atomic_load_explicit(&mc->verbs, memory_order_relaxed), CQES, NULL, NULL, 0);
	return *ret ? mesh_mlx5_cq(mc, *ret, ret_cqes) : -ENOMEM;
}

int mesh_own_open(struct mesh_context *mc, struct mesh_own *ret)
{
	int err;

	memset(ret, 0, sizeof(*ret));
	ret->mc = mc;
	err = make_cq(mc, &ret->cq, &ret->cqes);
	if (!err)
		err = make_cq(mc, &ret->device_cq, &ret->device_cqes);
	if (!err)
		err = make_qps(ret);
	if (!err)
		err = mesh_mlx5_qp(mc, ret->qp, &ret->sq, &ret->rq);
	if (!err)
		err = learn_uidx(ret);
	if (!err)
		err = mesh_ownpath_try(atomic_load_explicit(&mc->verbs, memory_order_relaxed), connect_by, ret);
	if (!err)
		err = post_first(ret);
	if (err)
		mesh_own_close(ret);
	return err;
}

void mesh_own_close(struct mesh_own *own)
{
	/* mesh_destroy_qp() and mesh_destroy_cq() would take data->lock. */
	if (own->qp)
		own->mc->lower.qp.destroy_qp(own->qp);
	if (own->sink)
		own->mc->lower.qp.destroy_qp(own->sink);
	if (own->device_cq)
		own->mc->lower.cq.destroy_cq(own->device_cq);
	if (own->cq)
		own->mc->lower.cq.destroy_cq(own->cq);
	memset(own, 0, sizeof(*own));
}

/* ---- posting ---------------------------------------------------------------------------------------------------- */

/* Has the device written no CQE but the first one, which learn_uidx() has consumed? */
static bool is_quiet(const struct mesh_own *own)
{
	return !mv_mlx5_cqe_at(&own->device_cqes, 1);
}

/* The kind with inline data takes two basic blocks: without it, serial number and place of each send would be equal. */
static uint8_t build(struct ibv_qp_ex *qp, unsigned int kind)
{
	static char data[INLINE];

	switch (kind) {
	case FIRST:
		qp->wr_rdma_read(qp, 1, 2);
		qp->wr_set_sge_list(qp, 0, NULL);
		return MLX5_OPCODE_RDMA_READ;
	case 0:
		qp->wr_rdma_write(qp, 1, 2);
		qp->wr_set_inline_data(qp, data, sizeof(data));
		return MLX5_OPCODE_RDMA_WRITE;
	case 1:
		qp->wr_send(qp);
		qp->wr_set_sge(qp, 1, 2, 3);
		return MLX5_OPCODE_SEND;
	case 2:
		qp->wr_send_imm(qp, 4);
		qp->wr_set_sge(qp, 1, 2, 3);
		return MLX5_OPCODE_SEND_IMM;
	case 3:
		qp->wr_rdma_write_imm(qp, 1, 2, 4);
		qp->wr_set_sge(qp, 1, 2, 3);
		return MLX5_OPCODE_RDMA_WRITE_IMM;
	case 4:
		qp->wr_rdma_read(qp, 1, 2);
		qp->wr_set_sge(qp, 1, 2, 3);
		return MLX5_OPCODE_RDMA_READ;
	case 5:
		qp->wr_atomic_cmp_swp(qp, 1, 8, 4, 5);
		qp->wr_set_sge(qp, 1, 2, 8);
		return MLX5_OPCODE_ATOMIC_CS;
	case 6:
		qp->wr_atomic_fetch_add(qp, 1, 8, 4);
		qp->wr_set_sge(qp, 1, 2, 8);
		return MLX5_OPCODE_ATOMIC_FA;
	default:
		qp->wr_rdma_write(qp, 1, 2);
		qp->wr_set_sge(qp, 1, 2, 3);
		return MLX5_OPCODE_RDMA_WRITE;
	}
}

bool mesh_own_send(struct mesh_own *own, unsigned int kind, uint64_t wr_id, struct mesh_own_send *ret)
{
	struct ibv_qp_ex *qp = mesh_root.lib.verbs.qp_to_qp_ex(own->qp);

	/* A send takes two basic blocks at most. */
	if (!is_quiet(own) || own->n_sends == MESH_OWN_WRS || mv_mlx5_sq_end(&own->sq) + 2u > own->sq.n_wqes)
		return false;
	*ret = (struct mesh_own_send){.wr_id = wr_id, .nth = own->n_sends, .place = mv_mlx5_sq_end(&own->sq)};
	qp->wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED | (own->n_sends ? IBV_SEND_FENCE : 0);
	ret->opcode = build(qp, kind);
	if (qp->wr_complete(qp))
		return false;
	own->n_sends++;
	return true;
}

bool mesh_own_recv(struct mesh_own *own, uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = 2, .length = 3, .lkey = 1};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	if (!is_quiet(own) || own->n_recvs == MESH_OWN_WRS || own->mc->lower.io.post_recv(own->qp, &wr, &bad))
		return false;
	own->n_recvs++;
	return true;
}

/* ---- completing ------------------------------------------------------------------------------------------------- */

void mesh_own_write(const struct mv_mlx5_cq *to, uint32_t index, const struct mlx5_cqe64 *cqe)
{
	char *end = (char *)to->buf + ((size_t)(index & (to->n_cqes - 1)) + 1) * to->cqe_bytes;
	struct mlx5_cqe64 *place = (struct mlx5_cqe64 *)(void *)(end - sizeof(*cqe)), whole = *cqe;

	whole.op_own = MLX5_CQE_INVALID << 4;
	*place = whole;
	__atomic_store_n(&place->op_own, (uint8_t)((cqe->op_own & ~MLX5_CQE_OWNER_MASK) | !!(index & to->n_cqes)), __ATOMIC_RELEASE);
}

void mesh_own_cqe(const struct mesh_own *own, const struct mesh_own_send *send, uint32_t bytes, struct mlx5_cqe64 *ret)
{
	*ret = (struct mlx5_cqe64){
		.srqn_uidx = htobe32(own->uidx),
		.byte_cnt = htobe32(bytes),
		.sop_drop_qpn = htobe32((uint32_t)send->opcode << 24 | own->qp->qp_num),
		.wqe_counter = htobe16(send->place),
		.op_own = MLX5_CQE_REQ << 4,
	};
}

void mesh_own_sent(struct mesh_own *own, const struct mesh_own_send *send, uint32_t bytes)
{
	struct mlx5_cqe64 cqe;

	mesh_own_cqe(own, send, bytes, &cqe);
	mesh_own_write(&own->cqes, own->n_written++, &cqe);
}

void mesh_own_received(struct mesh_own *own, uint32_t nth, unsigned int opcode, uint32_t bytes, uint32_t imm, uint32_t flags_rqpn)
{
	const struct mlx5_cqe64 cqe = {
		.ml_path = 0x15,
		.slid = htobe16(0x1234),
		.flags_rqpn = htobe32(flags_rqpn),
		.srqn_uidx = htobe32(own->uidx),
		.imm_inval_pkey = htobe32(imm),
		.byte_cnt = htobe32(bytes),
		.sop_drop_qpn = htobe32(own->qp->qp_num),
		.wqe_counter = htobe16((uint16_t)nth),
		.op_own = (uint8_t)(opcode << 4),
	};

	mesh_own_write(&own->cqes, own->n_written++, &cqe);
}

/* ---- looking ---------------------------------------------------------------------------------------------------- */

void *mesh_own_room(size_t n)
{
	void *room = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return room == MAP_FAILED ? NULL : room;
}

void mesh_own_room_free(void *room, size_t n)
{
	if (room)
		munmap(room, n);
}

int mesh_own_look(const struct mesh_own *own, struct mesh_own_state *ret)
{
	const struct mesh_mlx5 *m = &own->mc->data.mlx5;
	int err = mesh_mlx5_copy(m, own->cq, ret->cq.bytes);

	return err ? err : mesh_mlx5_copy(m, own->qp, ret->qp.bytes);
}
