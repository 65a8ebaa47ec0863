/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "cqe.h"

#include <endian.h>
#include <string.h>
#include <infiniband/mlx5dv.h>

void cqe_encode(const struct cqe_fields *f, unsigned int owner, uint8_t ret[64])
{
	struct mlx5_cqe64 c;
	struct mlx5_err_cqe e;

	_Static_assert(sizeof(c) == 64 && sizeof(e) == 64, "CQE size");
	if (f->op == MLX5_CQE_REQ_ERR || f->op == MLX5_CQE_RESP_ERR) {
		memset(&e, 0, sizeof(e));
		e.srqn = htobe32(f->uidx);
		e.vendor_err_synd = f->vendor_syndrome;
		e.syndrome = f->syndrome;
		e.s_wqe_opcode_qpn = htobe32((uint32_t)f->wqe_opcode << 24 | f->qpn);
		e.wqe_counter = htobe16(f->wqe_counter);
		e.op_own = (uint8_t)(f->op << 4 | owner);
		memcpy(ret, &e, sizeof(e));
		return;
	}
	memset(&c, 0, sizeof(c));
	c.slid = htobe16(f->slid);
	/* On Ethernet, the place of the service level tells what the GRH bytes hold. */
	c.flags_rqpn = htobe32((f->grh ? 1u << 28 : 0) | (uint32_t)(f->sl | f->l3_type) << 24 |
			       f->src_qpn);
	c.l4_hdr_type_etc = (uint8_t)(f->l3_type << 2);
	c.srqn_uidx = htobe32(f->uidx);
	c.imm_inval_pkey = f->imm;
	c.byte_cnt = htobe32(f->byte_cnt);
	c.timestamp = htobe64(f->timestamp);
	c.sop_drop_qpn = htobe32((uint32_t)f->wqe_opcode << 24 | f->qpn);
	c.wqe_counter = htobe16(f->wqe_counter);
	c.op_own = (uint8_t)(f->op << 4 | owner);
	memcpy(ret, &c, sizeof(c));
}
