/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Decode mlx5 work queue elements. */
#include "wqe.h"

#include <endian.h>
#include <string.h>
#include <infiniband/mlx5dv.h>

#include "dma.h"

#define CTRL_UNITS   1
#define RADDR_UNITS  1
#define ATOMIC_UNITS 1
#define AV_UNITS     3

static const uint8_t *unit_at(const struct wqe_ring *ring, uint16_t index, uint32_t unit)
{
	uint32_t n = ring->n_bbs * (WQE_BB / WQE_UNIT);

	return ring->buf + (((uint32_t)index * (WQE_BB / WQE_UNIT) + unit) & (n - 1)) * WQE_UNIT;
}

static void read_units(const struct wqe_ring *ring, uint16_t index, uint32_t unit, uint32_t n,
		       void *dst)
{
	for (uint32_t i = 0; i < n; i++)
		dma_read((uint8_t *)dst + i * WQE_UNIT, unit_at(ring, index, unit + i), WQE_UNIT);
}

static void decode_av(const struct wqe_ring *ring, struct send_wqe *w)
{
	struct mlx5_wqe_av av;
	uint32_t grh_gid_fl;

	_Static_assert(sizeof(av) == AV_UNITS * WQE_UNIT, "mlx5_wqe_av");
	read_units(ring, w->index, CTRL_UNITS, AV_UNITS, &av);
	grh_gid_fl = be32toh(av.grh_gid_fl);
	w->av.qkey = be32toh(av.key.qkey.qkey);
	w->av.dest_qpn = be32toh(av.dqp_dct) & 0xffffff;
	w->av.sl = av.stat_rate_sl & 0xf;
	w->av.rlid = w->av.udp_sport = be16toh(av.rlid);
	memcpy(w->av.dmac, av.rmac, 6);
	w->av.traffic_class = av.tclass;
	w->av.hop_limit = av.hop_limit;
	w->av.grh = grh_gid_fl >> 30 & 1;
	w->av.sgid_index = grh_gid_fl >> 20 & 0xff;
	w->av.flow_label = grh_gid_fl & 0xfffff;
	memcpy(w->av.dgid, av.rgid, 16);
}

static void decode_raddr(const struct wqe_ring *ring, struct send_wqe *w)
{
	struct mlx5_wqe_raddr_seg r;

	read_units(ring, w->index, CTRL_UNITS, RADDR_UNITS, &r);
	w->raddr = be64toh(r.raddr);
	w->rkey = be32toh(r.rkey);
}

static void decode_atomic(const struct wqe_ring *ring, struct send_wqe *w)
{
	struct mlx5_wqe_atomic_seg a;

	read_units(ring, w->index, CTRL_UNITS + RADDR_UNITS, ATOMIC_UNITS, &a);
	w->swap_add = be64toh(a.swap_add);
	w->compare = be64toh(a.compare);
}

/* Segments between control and data, by opcode. Return: units, or -1 for an opcode that this HCA
 * does not have. */
static int head_units(const struct send_wqe *w, enum wqe_transport t)
{
	if (w->opcode == MLX5_OPCODE_NOP)
		return 0;
	if (t == WQE_DATAGRAM)
		return w->opcode == MLX5_OPCODE_SEND || w->opcode == MLX5_OPCODE_SEND_IMM ? AV_UNITS
											  : -1;
	switch (w->opcode) {
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
		return 0;
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_RDMA_READ:
		return RADDR_UNITS;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		return RADDR_UNITS + ATOMIC_UNITS;
	default:
		return -1;
	}
}

static void decode_heads(const struct wqe_ring *ring, struct send_wqe *w, enum wqe_transport t,
			 int units)
{
	if (units == 0)
		return;
	if (t == WQE_DATAGRAM) {
		decode_av(ring, w);
		return;
	}
	decode_raddr(ring, w);
	if (units > RADDR_UNITS)
		decode_atomic(ring, w);
}

void wqe_decode(const struct wqe_ring *ring, uint16_t index, uint16_t avail, uint32_t qpn,
		enum wqe_transport t, struct send_wqe *ret)
{
	struct mlx5_wqe_ctrl_seg ctrl;
	struct wqe_seg seg;
	uint32_t opmod, qpn_ds;
	uint8_t unit;
	int units;

	memset(ret, 0, sizeof(*ret));
	ret->index = index;
	ret->n_bbs = 1;
	read_units(ring, index, 0, CTRL_UNITS, &ctrl);
	opmod = be32toh(ctrl.opmod_idx_opcode);
	qpn_ds = be32toh(ctrl.qpn_ds);
	ret->opcode = opmod & 0xff;
	ret->signaled = ctrl.fm_ce_se & MLX5_WQE_CTRL_CQ_UPDATE;
	ret->solicited = ctrl.fm_ce_se & MLX5_WQE_CTRL_SOLICITED;
	ret->fence = ctrl.fm_ce_se >> 5;
	ret->imm = ctrl.imm;
	ret->ds = qpn_ds & 0x3f;
	if (ret->ds < CTRL_UNITS || qpn_ds >> 8 != qpn || (opmod >> 8 & 0xffff) != index ||
	    (ret->ds + 3) / 4 > avail || (ret->ds + 3u) / 4 > ring->n_bbs) {
		ret->error = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
		return;
	}
	ret->n_bbs = (ret->ds + 3) / 4;
	units = head_units(ret, t);
	if (units < 0 || CTRL_UNITS + units > ret->ds) {
		ret->error = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
		return;
	}
	decode_heads(ring, ret, t, units);
	ret->data = (uint8_t)(CTRL_UNITS + units);
	unit = ret->data;
	while (wqe_next_seg(ring, ret, &unit, &seg))
		ret->length += seg.len;
	if (unit < ret->ds)
		ret->error = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR;
}

bool wqe_next_seg(const struct wqe_ring *ring, const struct send_wqe *w, uint8_t *unit,
		  struct wqe_seg *ret)
{
	struct mlx5_wqe_data_seg d;
	uint32_t count, units;

	if (*unit >= w->ds)
		return false;
	read_units(ring, w->index, *unit, 1, &d);
	count = be32toh(d.byte_count);
	if (count & MLX5_INLINE_SEG) {
		count &= ~MLX5_INLINE_SEG;
		units = (count + 4 + WQE_UNIT - 1) / WQE_UNIT;
		if (count > WQE_MAX_DS * WQE_UNIT || *unit + units > w->ds)
			return false;
		*ret = (struct wqe_seg){.len = count, .inl = unit_at(ring, w->index, *unit) + 4};
		*unit = (uint8_t)(*unit + units);
		return true;
	}
	*ret = (struct wqe_seg){.len = count, .lkey = be32toh(d.lkey), .addr = be64toh(d.addr)};
	++*unit;
	return true;
}

void wqe_copy_inline(const struct wqe_ring *ring, const struct wqe_seg *s, uint32_t off,
		     uint32_t len, uint8_t *dst)
{
	uint32_t size = ring->n_bbs * WQE_BB;
	uint32_t at = ((uint32_t)(s->inl - ring->buf) + off) & (size - 1);
	uint32_t first = size - at < len ? size - at : len;

	dma_read(dst, ring->buf + at, first);
	dma_read(dst + first, ring->buf, len - first);
}

uint32_t wqe_recv_segs(const uint8_t *wqe, uint32_t max, struct wqe_seg *segs)
{
	uint32_t n;

	for (n = 0; n < max; n++) {
		struct mlx5_wqe_data_seg d;

		dma_read(&d, wqe + n * sizeof(d), sizeof(d));
		if (be32toh(d.lkey) == WQE_INVALID_LKEY)
			break;
		segs[n] = (struct wqe_seg){.len = be32toh(d.byte_count),
					   .lkey = be32toh(d.lkey),
					   .addr = be64toh(d.addr)};
	}
	return n;
}
