/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_PSN_H
#define MV_PSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * What the packet sequence numbers of an RC connection tell: which of a requester's work requests the responder has
 * executed. Pure functions.
 *
 * The responder executes packets in the order of their PSNs, each once, and its rq_psn is the first one that it has not
 * executed; final once its QP is in ERR. So with the PSN of the requester's first outstanding work request and the
 * number of PSNs that each takes (IBTA 9.7: a SEND or WRITE one per packet, a READ one per packet of its response, an
 * atomic one; an empty message one) the fate of each follows, and nothing has to be guessed.
 */

#define MV_PSN_MASK 0xffffffu

static inline uint32_t mv_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & MV_PSN_MASK;
}

/** mv_psn_ahead - packets from @from forward to @to, 0 .. 2^24 - 1 */
static inline uint32_t mv_psn_ahead(uint32_t from, uint32_t to)
{
	return (to - from) & MV_PSN_MASK;
}

/**
 * mv_psn_count - PSNs that a work request takes
 * @mtu_bytes: path MTU, 256 .. 4096
 *
 * Return: 1 .. 2^23; 0 for an opcode that takes none (LOCAL_INV, BIND_MW), a message longer than 2^31 bytes (the
 * longest there is) or one that is not known here.
 */
uint32_t mv_psn_count(enum ibv_wr_opcode opcode, uint64_t length_bytes, uint32_t mtu_bytes);

enum mv_fate {
	/*
	 * Executed, and the program's memory has all that it gets: completes successfully, in its turn. (One that follows
	 * a REPLAY: not before that one.)
	 */
	MV_FATE_DONE,
	/* Not executed, or a READ whose data may not have come: to be posted again, in this order. */
	MV_FATE_REPLAY,
	/*
	 * An atomic that was executed, but its result may be lost: can be neither completed nor repeated. Has to fail as
	 * it would have without us, and with it everything behind it.
	 */
	MV_FATE_LOST,
};

/* What has to be known of a work request. */
struct mv_psn_wr {
	uint8_t opcode; /* enum ibv_wr_opcode */
	bool fence; /* IBV_SEND_FENCE */
	uint64_t length_bytes; /* of the message; atomics: not looked at */
};

struct mv_psn_view {
	uint32_t first_psn; /* of the first one; 24 bits, as is the next */
	uint32_t rq_psn; /* of the responder, fenced */
	uint32_t mtu_bytes;
	/*
	 * That many, from the first one, are known to have been completed: the requester has a successful completion of
	 * the last of them (which says that all before it, unsignaled ones, too, are done).
	 */
	size_t n_done;
	/*
	 * READs and atomics that the requester has outstanding at most (IBV_QP_MAX_QP_RD_ATOMIC as modified); 0: not
	 * known. All but the last that many of those executed must have had their responses, or the later ones would not
	 * have been sent.
	 */
	uint32_t max_rd_atomic;
};

/**
 * mv_psn_judge - the fate of each outstanding work request
 * @wrs: all that were posted and may not be completed, oldest first: array of @n
 * @ret_fates: array of @n, written on success only
 * @ret_packets: NULL or: packets of the first REPLAY that is no READ which were executed (a part of it was)
 *
 * A SEND or WRITE of which only some packets were executed is REPLAYed as a whole: a SEND's receive has not been
 * consumed, a WRITE puts the same bytes to the same place, and no program may look there before the message is
 * complete. A READ is REPLAYed unless its response is known to have come: by @n_done, by @max_rd_atomic, or because a
 * later work request with a fence has been sent. An executed atomic is LOST under the same conditions.
 *
 * Return: 0; -EOPNOTSUPP: an opcode that cannot be accounted for (with SEND_WITH_INV, LOCAL_INV, BIND_MW: the peer's
 * keys have changed); -ERANGE: @rq_psn is not one that this list, with @n_done of it done, could have led to; -EINVAL:
 * @n_done is more than @n or MTU that does not exist. In all these cases nothing may be replayed.
 */
int mv_psn_judge(const struct mv_psn_wr *wrs, size_t n, const struct mv_psn_view *view,
		 enum mv_fate *ret_fates, uint32_t *ret_packets);

/** mv_psn_consumes - does a work request, once executed, consume a receive of the responder? */
static inline bool mv_psn_consumes(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

#endif
