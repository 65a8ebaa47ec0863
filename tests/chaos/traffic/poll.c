// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "traffic.h"

static void read_wc(struct ibv_cq_ex *cq, struct ibv_wc *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->wr_id = cq->wr_id;
	ret->status = cq->status;
	ret->qp_num = ibv_wc_read_qp_num(cq);
	ret->vendor_err = ibv_wc_read_vendor_err(cq);
	if (cq->status != IBV_WC_SUCCESS)
		return;
	ret->opcode = ibv_wc_read_opcode(cq);
	ret->byte_len = ibv_wc_read_byte_len(cq);
	ret->wc_flags = ibv_wc_read_wc_flags(cq);
	if (ret->wc_flags & IBV_WC_WITH_IMM)
		ret->imm_data = ibv_wc_read_imm_data(cq);
}

static int poll_extended(struct ibv_cq_ex *cq, int max, struct ibv_wc *wcs)
{
	struct ibv_poll_cq_attr attr = {0};
	int n = 0, err = ibv_start_poll(cq, &attr);

	if (err)
		return err == ENOENT ? 0 : -err;
	do
		read_wc(cq, &wcs[n++]);
	while (n < max && !(err = ibv_next_poll(cq)));
	ibv_end_poll(cq);
	return err && err != ENOENT ? -err : n;
}

int poll_by_itself(const struct thread *t, struct ibv_cq *cq, int max, struct ibv_wc *wcs)
{
	if (t->opt->extended)
		return poll_extended((struct ibv_cq_ex *)(void *)cq, max, wcs);
	return ibv_poll_cq(cq, max, wcs);
}

int poll_cq(const struct thread *t, struct ibv_cq *cq, int max, struct ibv_wc *wcs)
{
	struct poller *p = cq == t->send_cq ? t->send_poller : t->recv_poller;

	return p ? poller_take(p, max, wcs) : poll_by_itself(t, cq, max, wcs);
}
