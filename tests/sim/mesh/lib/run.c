// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

void run_open(struct run *r, const struct manner *manner, const struct shape *shape)
{
	memset(r, 0, sizeof(*r));
	end_open(&r->a, &world, manner, shape);
	end_open(&r->b, &world, manner, shape);
}

void run_close(struct run *r)
{
	end_close(&r->a);
	end_close(&r->b);
}

void run_early_rts(struct run *r)
{
	r->a.qp->state = r->b.qp->state = IBV_QPS_RTS;
}

struct sending *sending(struct sending *s, struct run *r, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length,
			unsigned int flags)
{
	s->sge = (struct ibv_sge){.addr = (uintptr_t)r->a.buf + offset, .length = length, .lkey = r->a.mr->lkey};
	s->wr = (struct ibv_send_wr){
		.wr_id = wr_id,
		.sg_list = &s->sge,
		.num_sge = length ? 1 : 0,
		.opcode = opcode,
		.send_flags = flags,
		.imm_data = htobe32((uint32_t)wr_id),
	};
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		s->wr.wr.atomic.remote_addr = (uintptr_t)r->b.buf + offset;
		s->wr.wr.atomic.rkey = r->b.mr->rkey;
		s->wr.wr.atomic.compare_add = 5;
		s->wr.wr.atomic.swap = 77;
	} else {
		s->wr.wr.rdma.remote_addr = (uintptr_t)r->b.buf + offset;
		s->wr.wr.rdma.rkey = r->b.mr->rkey;
	}
	return s;
}

int run_send(struct run *r, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length, unsigned int flags)
{
	struct sending s;
	int err = end_send(&r->a, &sending(&s, r, wr_id, opcode, offset, length, flags)->wr);

	end_keys(&r->a);
	return err;
}

void must_send(struct run *r, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length, unsigned int flags)
{
	assert_int_equal(run_send(r, wr_id, opcode, offset, length, flags), 0);
}

void must_come(struct end *e)
{
	if (!end_event(e, PATIENCE_MS))
		fail_msg("no event, %s%s%s%s", e->manner->how == BARE ? "bare" : "moved", e->manner->extended ? ", extended" : "",
			 e->manner->builders ? ", ibv_wr" : "", e->manner->late_keys ? ", late keys" : "");
}
