// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "wrexint.h"

/* Work requests of a batch, built in the places behind the end of the queue. */

static void fail(struct mesh_wrex *w, int err)
{
	if (!w->err)
		w->err = err;
	w->current = NULL;
}

static struct ibv_send_wr *begin(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct mesh_wrex *w = atomic_load_explicit(&vqp_of(qp)->posting.wrex, memory_order_relaxed);

	if (w->err)
		return NULL;
	if (w->n == w->room) {
		fail(w, ENOMEM);
		return NULL;
	}
	w->current = place_of(w, w->n++);
	w->current->wr = (struct ibv_send_wr){
		.wr_id = qp->wr_id,
		.sg_list = w->current->sges,
		.opcode = opcode,
		.send_flags = qp->wr_flags,
	};
	return &w->current->wr;
}

static void refuse(struct ibv_qp_ex *qp)
{
	fail(atomic_load_explicit(&vqp_of(qp)->posting.wrex, memory_order_relaxed), EOPNOTSUPP);
}

static void atomic(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
		   uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = begin(qp, opcode);

	if (!wr)
		return;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
	wr->wr.atomic.rkey = rkey;
}

static void rdma(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	struct ibv_send_wr *wr = begin(qp, opcode);

	if (!wr)
		return;
	wr->imm_data = imm;
	wr->wr.rdma.remote_addr = remote_addr;
	wr->wr.rdma.rkey = rkey;
}

void mesh_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
				   uint64_t swap)
{
	LEAVE_TO_BASE(wr_atomic_cmp_swp, rkey, remote_addr, compare, swap);
	atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

void mesh_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	LEAVE_TO_BASE(wr_atomic_fetch_add, rkey, remote_addr, add);
	atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

void mesh_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	LEAVE_TO_BASE(wr_rdma_read, rkey, remote_addr);
	rdma(qp, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}

void mesh_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	LEAVE_TO_BASE(wr_rdma_write, rkey, remote_addr);
	rdma(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

void mesh_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
	LEAVE_TO_BASE(wr_rdma_write_imm, rkey, remote_addr, imm_data);
	rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm_data);
}

void mesh_wr_send(struct ibv_qp_ex *qp)
{
	LEAVE_TO_BASE(wr_send);
	begin(qp, IBV_WR_SEND);
}

void mesh_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	struct ibv_send_wr *wr;

	LEAVE_TO_BASE(wr_send_imm, imm_data);
	wr = begin(qp, IBV_WR_SEND_WITH_IMM);
	if (wr)
		wr->imm_data = imm_data;
}

void mesh_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
			    const struct ibv_mw_bind_info *bind_info)
{
	LEAVE_TO_BASE(wr_bind_mw, mw, rkey, bind_info);
	refuse(qp);
}

void mesh_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	LEAVE_TO_BASE(wr_local_inv, invalidate_rkey);
	refuse(qp);
}

void mesh_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	LEAVE_TO_BASE(wr_send_inv, invalidate_rkey);
	refuse(qp);
}

void mesh_wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	LEAVE_TO_BASE(wr_send_tso, hdr, hdr_sz, mss);
	refuse(qp);
}

void mesh_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	LEAVE_TO_BASE(wr_set_ud_addr, ah, remote_qpn, remote_qkey);
	refuse(qp);
}

void mesh_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	LEAVE_TO_BASE(wr_set_xrc_srqn, remote_srqn);
	refuse(qp);
}

void mesh_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct mesh_wrex *w = atomic_load_explicit(&vqp_of(qp)->posting.wrex, memory_order_relaxed);

	LEAVE_TO_BASE(wr_set_sge_list, num_sge, sg_list);
	if (!w->current)
		return;
	if (num_sge > w->queue.max_sge) {
		fail(w, ENOMEM);
		return;
	}
	if (num_sge) /* else there may be no list */
		memcpy(w->current->sges, sg_list, num_sge * sizeof(*sg_list));
	w->current->wr.num_sge = (int)num_sge;
}

void mesh_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	LEAVE_TO_BASE(wr_set_sge, lkey, addr, length);
	mesh_wr_set_sge_list(qp, 1, &sge);
}

void mesh_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf, const struct ibv_data_buf *buf_list)
{
	struct mesh_wrex *w = atomic_load_explicit(&vqp_of(qp)->posting.wrex, memory_order_relaxed);
	size_t used = 0, i;
	char *data;

	LEAVE_TO_BASE(wr_set_inline_data_list, num_buf, buf_list);
	if (!w->current)
		return;
	data = (char *)&w->current->sges[w->queue.max_sge];
	for (i = 0; i < num_buf; i++) {
		if (buf_list[i].length > w->queue.max_inline - used) {
			fail(w, ENOMEM);
			return;
		}
		if (buf_list[i].length)
			memcpy(data + used, buf_list[i].addr, buf_list[i].length);
		used += buf_list[i].length;
	}
	w->current->sges[0] = (struct ibv_sge){.addr = (uintptr_t)data, .length = (uint32_t)used};
	w->current->wr.num_sge = used ? 1 : 0;
	w->current->wr.send_flags |= IBV_SEND_INLINE;
}

void mesh_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	LEAVE_TO_BASE(wr_set_inline_data, addr, length);
	mesh_wr_set_inline_data_list(qp, 1, &buf);
}
