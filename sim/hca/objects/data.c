/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Move message bytes between packets and the scatter/gather lists of work requests. Every segment
 * is checked against its memory region. @off is the offset in the message. Return: 0, or -EFAULT
 * for a segment that its key does not cover, or -EMSGSIZE if the list is too short.
 */
#include "hca.h"

#include <errno.h>

#include "dma.h"

/** data_gather() - bytes of a send work request, inline or not, into @dst. */
int data_gather(struct qp *qp, const struct send_wqe *w, uint64_t off, uint32_t len, uint8_t *dst)
{
	uint8_t unit = w->data;
	struct wqe_seg s;

	while (len && wqe_next_seg(&qp->sq, w, &unit, &s)) {
		uint32_t n;

		if (off >= s.len) {
			off -= s.len;
			continue;
		}
		n = s.len - (uint32_t)off < len ? s.len - (uint32_t)off : len;
		if (s.inl) {
			wqe_copy_inline(&qp->sq, &s, (uint32_t)off, n, dst);
		} else {
			const uint8_t *src =
				mr_local(qp->obj.uc->hca, qp->pd, s.lkey, s.addr, s.len, false);

			if (!src)
				return -EFAULT;
			late_push(qp->obj.uc->hca, qp->dev, src + off);
			dma_copy(dst, src + off, n);
		}
		dst += n;
		len -= n;
		off = 0;
	}
	return len ? -EMSGSIZE : 0;
}

/* Bytes that have yet to be put into a list. */
struct rest {
	uint64_t off; /* in what is left of the list */
	const uint8_t *src;
	uint32_t len;
};

static int scatter(struct qp *qp, struct pd *pd, const struct wqe_seg *s, struct rest *rest)
{
	uint8_t *dst;
	uint32_t n;

	if (rest->off >= s->len) {
		rest->off -= s->len;
		return 0;
	}
	n = s->len - (uint32_t)rest->off < rest->len ? s->len - (uint32_t)rest->off : rest->len;
	dst = s->inl ? NULL : mr_local(qp->obj.uc->hca, pd, s->lkey, s->addr, s->len, true);
	if (!dst)
		return -EFAULT;
	late_push(qp->obj.uc->hca, qp->dev, dst + rest->off);
	dma_copy(dst + rest->off, rest->src, n);
	rest->src += n;
	rest->len -= n;
	rest->off = 0;
	return 0;
}

/** data_scatter_send() - answer of a READ or atomic into the list of its work request. */
int data_scatter_send(struct qp *qp, const struct send_wqe *w, uint64_t off, const uint8_t *src,
		      uint32_t len)
{
	struct rest rest = {off, src, len};
	uint8_t unit = w->data;
	struct wqe_seg s;
	int err = 0;

	while (!err && rest.len && wqe_next_seg(&qp->sq, w, &unit, &s))
		err = scatter(qp, qp->pd, &s, &rest);
	return !err && rest.len ? -EMSGSIZE : err;
}

/** data_scatter_recv() - received bytes into a receive work request. */
int data_scatter_recv(struct qp *qp, const struct recv_wqe *r, uint64_t off, const uint8_t *src,
		      uint32_t len)
{
	struct pd *pd = qp->srq ? qp->srq->pd : qp->pd;
	struct rest rest = {off, src, len};
	int err = 0;

	for (uint32_t i = 0; !err && rest.len && i < r->n_segs; i++)
		err = scatter(qp, pd, &r->segs[i], &rest);
	return !err && rest.len ? -EMSGSIZE : err;
}
