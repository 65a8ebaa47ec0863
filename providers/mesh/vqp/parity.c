// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "parity.h"

#include <errno.h>

#include "qpmade.h"
#include "vqp_int.h"

static const char why_ece[] = "the queue pair there has other ECE options than the one that does the work";
static const char why_order[] = "the queue pair there does not place data in order, the one that does the work does";

/* ---- ECE ----------------------------------------------------------------------------------------------------- */

static int ask(struct ibv_qp *qp, struct ibv_ece *ret)
{
	*ret = (struct ibv_ece){0};
	return mesh_root.lib.query_ece ? mesh_root.lib.query_ece(qp, ret) : EOPNOTSUPP;
}

/*
 * ECE options for the next QP: of a QP at work, those that its NIC reports; of a QP that was never connected, those that the
 * program has set, of which a NIC may take fewer.
 *
 * @ret_exact: the NIC has to take all of the options
 * Return: true: the program has set options.
 */
static bool wanted(struct mesh_vqp *h, const struct ibv_qp *qp, struct ibv_ece *ret, bool *ret_exact)
{
	const struct mesh_shadow *now = &h->now;
	struct mesh_qp_ece noted;
	int err;

	if (!mesh_qp_ece(h->mc, h->qp, &noted))
		return false;
	*ret = noted.ece;
	*ret_exact = noted.told;
	if (now->qp && now->qp != qp && now->rtr)
		err = ask(now->qp, ret);
	else if (h->logged_lower)
		err = h->mc->lower.qp.query_ece(h->qp, ret);
	else
		return true;
	*ret_exact = true;
	if (err)
		*ret = noted.ece;
	return true;
}

int mesh_parity_set(struct mesh_vqp *h, struct ibv_qp *qp)
{
	struct ibv_ece ece;
	bool exact;

	h->parity.poorer = NULL;
	if (!wanted(h, qp, &ece, &exact) || !ece.options)
		return 0;
	if (mesh_root.lib.set_ece && !mesh_root.lib.set_ece(qp, &ece))
		return 0;
	h->parity.poorer = why_ece;
	return -EOPNOTSUPP;
}

static bool has_ece(struct mesh_vqp *h, struct ibv_qp *qp)
{
	struct ibv_ece want, has;
	bool exact;

	/* Before any options were set, a query reports the supported ones. */
	if (!wanted(h, qp, &want, &exact) || !exact || !want.options)
		return true;
	return !ask(qp, &has) && has.vendor_id == want.vendor_id && has.options == want.options;
}

int mesh_parity_query_ece(struct mesh_vqp *h, bool connected, struct ibv_ece *ret)
{
	struct mesh_qp_ece noted;
	int err;

	if (!mesh_qp_ece(h->mc, h->qp, &noted))
		return h->mc->lower.qp.query_ece(h->qp, ret);
	if (connected && h->now.qp)
		return ask(h->now.qp, ret);
	err = h->mc->lower.qp.query_ece(h->qp, ret);
	if (err)
		return err;
	noted.ece = *ret;
	noted.told = true;
	/* If the program's own QP is connected after all, it uses the options that the program was told. */
	if (!ret->options)
		h->mc->lower.qp.set_ece(h->qp, &(struct ibv_ece){.vendor_id = ret->vendor_id});
	mesh_qp_note_ece(h->mc, h->qp, &noted);
	return 0;
}

/* ---- order of data ------------------------------------------------------------------------------------------- */

/* On mlx5 the answer is the same for all opcodes. */
static bool in_order(struct ibv_qp *qp)
{
	return mesh_root.lib.query_qp_data_in_order && mesh_root.lib.query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) > 0;
}

bool mesh_parity_may_learn(struct mesh_vqp *h)
{
	return !h->parity.order_known && h->qp->state == IBV_QPS_RTS && mesh_vqp_mode(h) == MESH_VQP_TRACKED;
}

void mesh_parity_learn(struct mesh_vqp *h)
{
	h->parity.in_order = in_order(h->qp);
	h->parity.order_known = true;
}

/* ---- both ---------------------------------------------------------------------------------------------------- */

int mesh_parity_check(struct mesh_vqp *h, struct ibv_qp *qp, bool rts)
{
	h->parity.poorer = NULL;
	if (!has_ece(h, qp))
		h->parity.poorer = why_ece;
	else if (rts && h->parity.in_order && !in_order(qp))
		h->parity.poorer = why_order;
	return h->parity.poorer ? -EOPNOTSUPP : 0;
}

void mesh_parity_forget(struct mesh_vqp *h)
{
	h->parity.poorer = NULL;
}

const char *mesh_parity_why(const struct mesh_vqp *h)
{
	return h->parity.poorer;
}
