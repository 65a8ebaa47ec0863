/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Assumptions that the device breaks on demand (sim_dev.quirks), each alone: meshverbs qualify has a trial for each. What a
 * quirk says of rq_psn is what ibv_query_qp() answers; packets are accepted as ever.
 *
 *   psn-off-by-one  in ERR rq_psn is one more than what was executed
 *   psn-highest     rq_psn is behind the last packet that came, though some before it are missing
 *   psn-moves       in ERR rq_psn is one more each time it is asked for, from the second time on
 *   psn-messages    in ERR rq_psn leaves out the packets of a message that is not complete
 *   psn-reads       in ERR rq_psn counts one packet for each READ
 *   psn-atomics     in ERR rq_psn leaves out an atomic that was executed last
 *   psn-count       at an MTU of 512 packets are of 256 bytes; of both ends
 *   late-dma        the last packet of a WRITE of 32 KiB or more is in memory 300 ms after it was acknowledged
 *   late-dmabuf     the same of WRITEs to a dma-buf, as the memory of a GPU is
 *   pushed-dma      bytes of a WRITE stay 300 ms on their way to memory, unless the device pushes them: it writes a completion or the
 *                   answer to a query, or reads or writes other bytes for a queue pair. No assumption is broken: PCIe allows that
 *   pushed-dmabuf   the same of WRITEs to a dma-buf, but only what the device reads or writes in that region pushes them
 *   late-reads      as late-dma, of the last packet of a READ's response
 *   late-srq        of a queue pair with an SRQ receives complete 80 ms late, but IBV_EVENT_QP_LAST_WQE_REACHED comes at once
 *   srq-hides       the last receive of an SRQ is not taken
 *   lost-flush      of the work requests that are flushed the first unsignaled one has no completion
 *   flush-order     of the work requests that are flushed the second one completes before the first
 *   wqe-format      a work request's size in the ring is another one when it has been read
 *   ece             every other queue pair has other ECE options
 */
#ifndef SIM_QUIRK_H
#define SIM_QUIRK_H

#include "hca.h"

static inline bool quirk_of_dev(const struct sim_dev *dev, enum sim_quirk quirk)
{
	return atomic_load_explicit(&dev->quirks, memory_order_relaxed) >> quirk & 1;
}

static inline bool quirk_is(const struct qp *qp, enum sim_quirk quirk)
{
	return quirk_of_dev(qp->dev, quirk);
}

/** qp_ece() - the options of ECE that a queue pair can have */
static inline uint32_t qp_ece(const struct qp *qp)
{
	uint32_t options = SIM_ECE & ~atomic_load_explicit(&qp->dev->no_ece, memory_order_relaxed);

	return quirk_is(qp, SIM_QUIRK_ECE) ? options ^ (qp->qpn & 1) : options;
}

uint32_t quirk_rq_psn(struct qp *qp);
bool quirk_late_write(struct qp *qp, uint8_t *dst, const uint8_t *src, uint32_t len, bool last);
bool quirk_late_read(struct qp *qp, const struct send_wqe *w, uint64_t off, const uint8_t *src, uint32_t len);
void quirk_flush(struct qp *qp);
void quirk_wqe_format(struct qp *qp, const struct send_wqe *w);

#endif
