// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "postint.h"

#include "keys.h"

bool mesh_wr_remote_key(const struct ibv_send_wr *wr, uint32_t *ret)
{
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
		*ret = wr->wr.rdma.rkey;
		return wr->num_sge > 0 || wr->send_flags & IBV_SEND_INLINE;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		*ret = wr->wr.atomic.rkey;
		return true;
	default:
		return false;
	}
}

size_t mesh_vqp_note_key(const struct ibv_send_wr *wr, uint32_t *keys, size_t n)
{
	uint32_t key;
	size_t i;

	if (n == MESH_FAILOVER_KEYS || !mesh_wr_remote_key(wr, &key))
		return n;
	for (i = 0; i < n; i++)
		if (keys[i] == key)
			return n;
	keys[n] = key;
	return n + 1;
}

int mesh_failover_post_recv(struct mesh_vqp *h, uint64_t wr_id, const struct ibv_sge *sges, int num_sge)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = h->keys.sges, .num_sge = num_sge}, *bad;
	int i;

	for (i = 0; i < num_sge; i++) {
		h->keys.sges[i] = sges[i];
		/* Without such a key, the device reports the same error as on a bare HCA. */
		mesh_key_local(h->next.shadow.spd, sges[i].lkey, &h->keys.sges[i].lkey);
	}
	return ibv_post_recv(h->next.shadow.qp, &wr, &bad);
}
