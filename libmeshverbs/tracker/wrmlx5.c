/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "wrmlx5.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "wrmlx5_hot.h"

#define BLOCK_BYTES    64u /* MLX5_SEND_WQE_BB */
#define UNIT_BYTES     16u /* unit of a work request's size */
#define BLOCK_UNITS    (BLOCK_BYTES / UNIT_BYTES)
#define MAX_UNITS      63u
#define CTRL_UNITS     1u
#define RADDR_UNITS    1u
#define ATOMIC_UNITS   1u
#define INVALID_LKEY   0x100u /* ends the list of a receive */
#define COMPRESSED     3 /* mlx5dv_get_cqe_format() */
#define INLINE_HEADER  4u /* struct mlx5_wqe_inl_data_seg */

/* ---- completions -------------------------------------------------------------------------------
 */

int mv_mlx5_cqe_peek(const struct mv_mlx5_cq *cq, uint32_t ahead, struct mv_mlx5_cqe *ret)
{
	const struct mlx5_cqe64 *cqe = mv_mlx5_cqe_at(cq, mv_mlx5_consumer(cq) + ahead);
	uint8_t opcode;

	if (!cqe)
		return -EAGAIN;
	opcode = cqe->op_own >> 4;
	if ((cqe->op_own >> 2 & 3) == COMPRESSED)
		return -EBADMSG;
	switch (opcode) {
	case MLX5_CQE_REQ:
	case MLX5_CQE_REQ_ERR:
	case MLX5_CQE_RESP_WR_IMM:
	case MLX5_CQE_RESP_SEND:
	case MLX5_CQE_RESP_SEND_IMM:
	case MLX5_CQE_RESP_SEND_INV:
	case MLX5_CQE_RESP_ERR:
		break;
	default:
		return -EBADMSG;
	}
	*ret = (struct mv_mlx5_cqe){.qpn = be32toh(cqe->sop_drop_qpn) & 0xffffff,
				    .wqe_counter = be16toh(cqe->wqe_counter),
				    .send = opcode == MLX5_CQE_REQ || opcode == MLX5_CQE_REQ_ERR,
				    .error = opcode == MLX5_CQE_REQ_ERR ||
					     opcode == MLX5_CQE_RESP_ERR};
	return 0;
}

/* ---- one work request of the send queue --------------------------------------------------------
 */

struct wqe {
	uint16_t index;
	uint8_t opcode, opmod, flags;
	uint32_t imm; /* byte order as in memory */
	unsigned int units, blocks;
};

/* Copies out, because the program could change its ring meanwhile. Wraps at the end of the ring. */
static void read_bytes(const struct mv_mlx5_ring *ring, uint16_t index, unsigned int at, void *ret,
		       size_t n)
{
	size_t size = (size_t)ring->n_wqes * BLOCK_BYTES;
	size_t from = ((size_t)index * BLOCK_BYTES + at) & (size - 1);
	size_t first = n < size - from ? n : size - from;

	memcpy(ret, (const char *)ring->buf + from, first);
	memcpy((char *)ret + first, ring->buf, n - first);
}

/* @room: blocks up to the end of posted work. Return: 0; -EBADMSG: no work request of this QP begins there. */
static int read_wqe(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t index, uint16_t room,
		    struct wqe *ret)
{
	struct mlx5_wqe_ctrl_seg ctrl;
	uint32_t opmod_idx_opcode, qpn_ds;

	read_bytes(ring, index, 0, &ctrl, sizeof(ctrl));
	opmod_idx_opcode = be32toh(ctrl.opmod_idx_opcode);
	qpn_ds = be32toh(ctrl.qpn_ds);
	*ret = (struct wqe){.index = index,
			    .opcode = (uint8_t)opmod_idx_opcode,
			    .opmod = (uint8_t)(opmod_idx_opcode >> 24),
			    .flags = ctrl.fm_ce_se,
			    .imm = ctrl.imm,
			    .units = qpn_ds & 0x3f};
	ret->blocks = (ret->units + BLOCK_UNITS - 1) / BLOCK_UNITS;
	if ((opmod_idx_opcode >> 8 & 0xffff) != index || qpn_ds >> 8 != qpn || !ret->units ||
	    ret->units > MAX_UNITS || ret->blocks > room || ret->blocks > ring->n_wqes)
		return -EBADMSG;
	return 0;
}

/* Return: enum ibv_wr_opcode; -EBADMSG: one that cannot be posted again. */
static int opcode_of(const struct wqe *wqe)
{
	if (wqe->opmod) /* masked atomics, and others that verbs do not have */
		return -EBADMSG;
	switch (wqe->opcode) {
	case MLX5_OPCODE_SEND:
		return IBV_WR_SEND;
	case MLX5_OPCODE_SEND_IMM:
		return IBV_WR_SEND_WITH_IMM;
	case MLX5_OPCODE_RDMA_WRITE:
		return IBV_WR_RDMA_WRITE;
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		return IBV_WR_RDMA_WRITE_WITH_IMM;
	case MLX5_OPCODE_RDMA_READ:
		return IBV_WR_RDMA_READ;
	case MLX5_OPCODE_ATOMIC_CS:
		return IBV_WR_ATOMIC_CMP_AND_SWP;
	case MLX5_OPCODE_ATOMIC_FA:
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	default:
		return -EBADMSG;
	}
}

static bool is_send(int opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}

static bool is_atomic(int opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Return: number of units before the data. */
static unsigned int head_units(int opcode)
{
	if (is_send(opcode))
		return CTRL_UNITS;
	return CTRL_UNITS + RADDR_UNITS + (is_atomic(opcode) ? ATOMIC_UNITS : 0);
}

/* State of the walk over the data segments. Either array may be NULL: then only count. */
struct gather {
	struct ibv_sge *sges;
	char *data;
	uint32_t max_sge, max_inline_bytes;
	uint32_t n_sges, inline_bytes;
	bool inlined;
	uint64_t length;
};

static int gather_inline(const struct mv_mlx5_ring *ring, const struct wqe *wqe, unsigned int *unit,
			 uint32_t bytes, struct gather *g)
{
	unsigned int at = *unit * UNIT_BYTES + INLINE_HEADER;

	/* Length 0 is refused: an entry of 2^31 bytes that is not inline looks like that. */
	if (!bytes || bytes > wqe->units * UNIT_BYTES - at || g->n_sges ||
	    bytes > g->max_inline_bytes - g->inline_bytes)
		return -EBADMSG;
	if (g->data)
		read_bytes(ring, wqe->index, at, g->data + g->inline_bytes, bytes);
	g->inline_bytes += bytes;
	g->inlined = true;
	g->length += bytes;
	*unit += (bytes + INLINE_HEADER + UNIT_BYTES - 1) / UNIT_BYTES;
	return 0;
}

static int gather_data(const struct mv_mlx5_ring *ring, const struct wqe *wqe, unsigned int from,
		       struct gather *g)
{
	struct mlx5_wqe_data_seg seg;
	unsigned int unit = from;
	uint32_t bytes;

	while (unit < wqe->units) {
		read_bytes(ring, wqe->index, unit * UNIT_BYTES, &seg, sizeof(seg));
		bytes = be32toh(seg.byte_count);
		if (bytes & MLX5_INLINE_SEG) {
			if (gather_inline(ring, wqe, &unit, bytes & ~MLX5_INLINE_SEG, g))
				return -EBADMSG;
			continue;
		}
		if (!bytes || g->inlined || g->n_sges == g->max_sge)
			return -EBADMSG;
		if (g->sges)
			g->sges[g->n_sges] = (struct ibv_sge){.addr = be64toh(seg.addr),
							      .length = bytes,
							      .lkey = be32toh(seg.lkey)};
		g->n_sges++;
		g->length += bytes;
		unit++;
	}
	return 0;
}

static void read_remote(const struct mv_mlx5_ring *ring, const struct wqe *wqe,
			struct ibv_send_wr *wr)
{
	struct mlx5_wqe_raddr_seg raddr;
	struct mlx5_wqe_atomic_seg atomic;

	if (is_send((int)wr->opcode))
		return;
	read_bytes(ring, wqe->index, CTRL_UNITS * UNIT_BYTES, &raddr, sizeof(raddr));
	if (!is_atomic((int)wr->opcode)) {
		wr->wr.rdma.remote_addr = be64toh(raddr.raddr);
		wr->wr.rdma.rkey = be32toh(raddr.rkey);
		return;
	}
	read_bytes(ring, wqe->index, (CTRL_UNITS + RADDR_UNITS) * UNIT_BYTES, &atomic,
		   sizeof(atomic));
	wr->wr.atomic.remote_addr = be64toh(raddr.raddr);
	wr->wr.atomic.rkey = be32toh(raddr.rkey);
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.compare_add = be64toh(atomic.swap_add);
	} else {
		wr->wr.atomic.swap = be64toh(atomic.swap_add);
		wr->wr.atomic.compare_add = be64toh(atomic.compare);
	}
}

static unsigned int send_flags(const struct wqe *wqe, const struct gather *g)
{
	return (wqe->flags & MLX5_WQE_CTRL_CQ_UPDATE ? IBV_SEND_SIGNALED : 0u) |
	       (wqe->flags & MLX5_WQE_CTRL_SOLICITED ? IBV_SEND_SOLICITED : 0u) |
	       (wqe->flags & MLX5_WQE_CTRL_FENCE ? IBV_SEND_FENCE : 0u) |
	       (g->inlined ? IBV_SEND_INLINE : 0u);
}

/* Return: 0: ret->wr and the length are written; -EBADMSG. */
static int read_wr(const struct mv_mlx5_ring *ring, const struct wqe *wqe, struct gather *g,
		   struct mv_wr *ret)
{
	int opcode = opcode_of(wqe);

	if (opcode < 0 || head_units(opcode) > wqe->units ||
	    gather_data(ring, wqe, head_units(opcode), g))
		return -EBADMSG;
	if (is_atomic(opcode) && g->length != 8)
		return -EBADMSG;
	*ret = (struct mv_wr){.wr = {.opcode = (enum ibv_wr_opcode)opcode,
				     .send_flags = send_flags(wqe, g),
				     .num_sge = (int)g->n_sges},
			      .length_bytes = g->length};
	if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		ret->wr.imm_data = wqe->imm;
	read_remote(ring, wqe, &ret->wr);
	return 0;
}

/* ---- the send queue ----------------------------------------------------------------------------
 */

uint16_t mv_mlx5_sq_end(const struct mv_mlx5_ring *ring)
{
	return (uint16_t)be32toh(__atomic_load_n(&ring->dbrec[MLX5_SND_DBR], __ATOMIC_ACQUIRE));
}

int mv_mlx5_sq_get(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t at, uint32_t max_sge, uint32_t max_inline_bytes,
		   struct ibv_sge *sges, void *data, struct mv_wr *ret, uint16_t *ret_next)
{
	struct gather g = {.sges = sges, .data = data, .max_sge = max_sge, .max_inline_bytes = max_inline_bytes};
	struct mv_wr wr;
	struct wqe wqe;

	if (read_wqe(ring, qpn, at, UINT16_MAX, &wqe) || read_wr(ring, &wqe, &g, &wr))
		return -EBADMSG;
	wr.wr.sg_list = sges;
	if (g.inlined && sges) {
		sges[0] = (struct ibv_sge){.addr = (uintptr_t)data, .length = g.inline_bytes};
		wr.wr.num_sge = 1;
	}
	*ret = wr;
	*ret_next = (uint16_t)(at + wqe.blocks);
	return 0;
}

int mv_mlx5_sq_psns(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t from, uint16_t to,
		    uint32_t mtu_bytes, uint32_t *ret_psns, uint32_t *ret_consumes)
{
	uint16_t left = (uint16_t)(to - from);
	uint32_t psns = 0, consumes = 0, n;
	struct mv_wr wr;
	struct wqe wqe;

	for (; left; left = (uint16_t)(left - wqe.blocks)) {
		struct gather g = {.max_sge = MAX_UNITS,
				   .max_inline_bytes = MAX_UNITS * UNIT_BYTES};

		if (read_wqe(ring, qpn, (uint16_t)(to - left), left, &wqe))
			return -ESTALE;
		if (read_wr(ring, &wqe, &g, &wr))
			return -EOPNOTSUPP;
		n = mv_psn_count(wr.wr.opcode, wr.length_bytes, mtu_bytes);
		if (!n)
			return -EOPNOTSUPP;
		psns = mv_psn_add(psns, n);
		consumes += mv_psn_consumes(wr.wr.opcode);
	}
	*ret_psns = psns;
	if (ret_consumes)
		*ret_consumes = consumes;
	return 0;
}

static int pass_one(const struct mv_mlx5_ring *ring, uint32_t qpn, uint32_t mtu_bytes, struct mv_mlx5_run *run)
{
	struct gather g = {.max_sge = MAX_UNITS, .max_inline_bytes = MAX_UNITS * UNIT_BYTES};
	struct mv_wr wr;
	struct wqe wqe;
	uint32_t n;

	if (read_wqe(ring, qpn, run->next, UINT16_MAX, &wqe))
		return -EBADMSG;
	if (read_wr(ring, &wqe, &g, &wr))
		return -EOPNOTSUPP;
	n = mv_psn_count(wr.wr.opcode, wr.length_bytes, mtu_bytes);
	if (!n)
		return -EOPNOTSUPP;
	run->psns += n;
	run->consumes += mv_psn_consumes(wr.wr.opcode);
	run->next = (uint16_t)(run->next + wqe.blocks);
	return 0;
}

int mv_mlx5_sq_pass(const struct mv_mlx5_ring *ring, uint32_t qpn, uint16_t from, uint16_t last, uint32_t mtu_bytes,
		    struct mv_mlx5_run *ret)
{
	struct mv_mlx5_run run = {.next = from};
	uint16_t left = (uint16_t)(last - from), done;
	uint32_t opcode;
	int err;

	if (left >= ring->n_wqes)
		return -EBADMSG;
	for (;;) {
		done = (uint16_t)(run.next - from);
		if (done > left)
			return -EBADMSG; /* no work request begins at @last */
		if (!mv_mlx5_pass_one(ring, qpn, mtu_bytes, &run, &opcode)) {
			err = pass_one(ring, qpn, mtu_bytes, &run);
			if (err)
				return err;
		}
		if (done == left)
			break;
	}
	run.psns &= MV_PSN_MASK;
	*ret = run;
	return 0;
}

/* ---- the receive queue -------------------------------------------------------------------------
 */

uint16_t mv_mlx5_rq_end(const struct mv_mlx5_ring *ring)
{
	return (uint16_t)be32toh(__atomic_load_n(&ring->dbrec[MLX5_RCV_DBR], __ATOMIC_ACQUIRE));
}

int mv_mlx5_rq_read(const struct mv_mlx5_ring *ring, uint16_t end, uint32_t n_flushed, uint32_t i,
		    uint32_t max_sge, struct ibv_sge *sges)
{
	uint32_t place = (uint16_t)(end - n_flushed + i) & (ring->n_wqes - 1);
	const char *wqe = (const char *)ring->buf + (size_t)place * ring->stride;
	uint32_t n_segs = ring->stride / sizeof(struct mlx5_wqe_data_seg), n = 0;
	struct mlx5_wqe_data_seg seg;

	if (n_flushed > ring->n_wqes || i >= n_flushed)
		return -ERANGE;
	for (; n < n_segs && n < max_sge; n++) {
		memcpy(&seg, wqe + n * sizeof(seg), sizeof(seg));
		if (be32toh(seg.lkey) == INVALID_LKEY)
			break;
		sges[n] = (struct ibv_sge){.addr = be64toh(seg.addr),
					   .length = be32toh(seg.byte_count),
					   .lkey = be32toh(seg.lkey)};
	}
	return (int)n;
}
