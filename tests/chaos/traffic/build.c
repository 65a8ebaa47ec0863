// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "traffic.h"
#include "wrbuild.h"

/* Posting by ibv_wr_*(), as perftest does. */

static void set_data(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf bufs[2];
	int i;

	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		ibv_wr_set_sge_list(qp, (size_t)wr->num_sge, wr->sg_list);
		return;
	}
	for (i = 0; i < wr->num_sge; i++)
		bufs[i] = (struct ibv_data_buf){(void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length};
	ibv_wr_set_inline_data_list(qp, (size_t)wr->num_sge, bufs);
}

int build_send(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	ibv_wr_start(qp);
	if (!wr_build(qp, wr)) {
		ibv_wr_abort(qp);
		return EINVAL;
	}
	set_data(qp, wr);
	return ibv_wr_complete(qp);
}
