/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_PSN_H
#define MV_PSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * Packet sequence numbers (PSNs) of an RC connection tell which work requests of a requester the responder has
 * executed. Pure functions.
 *
 * The responder executes packets in the order of their PSNs, each once. Its rq_psn is the first PSN that it has not
 * executed, and final once its QP is in ERR. Each work request takes a known number of PSNs (IBTA 9.7): SEND and WRITE
 * one for each packet, READ one for each packet of its response, an atomic one, an empty message one. So the PSN of the
 * first outstanding work request and the responder's rq_psn determine what was executed. Example: first PSN 100, MTU
 * 1024, SENDs of 3000, 1000 and 500 bytes take PSNs 100-102, 103, 104; with rq_psn 103 the first was executed, the
 * others were not.
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
 * mv_psn_count - number of PSNs that a work request takes
 * @mtu_bytes: path MTU, 256 .. 4096
 *
 * Return: 1 .. 2^23; 0: an opcode that takes none (LOCAL_INV, BIND_MW), a message longer than 2^31 bytes (the maximum),
 * or an unknown opcode.
 */
uint32_t mv_psn_count(enum ibv_wr_opcode opcode, uint64_t length_bytes, uint32_t mtu_bytes);

enum mv_fate {
	/*
	 * Executed, and all of its data has arrived in the program's memory. Completes successfully, in order: not
	 * before a REPLAY that precedes it.
	 */
	MV_FATE_DONE,
	/* Not executed, or a READ whose data may not have arrived: to be posted again, in this order. */
	MV_FATE_REPLAY,
	/*
	 * An executed atomic whose result may be lost. It can be neither completed nor repeated. It has to fail as it
	 * would have without a move, and all work behind it as well.
	 */
	MV_FATE_LOST,
};

/* Properties of a work request that determine its fate. */
struct mv_psn_wr {
	uint8_t opcode; /* enum ibv_wr_opcode */
	bool fence; /* IBV_SEND_FENCE */
	uint64_t length_bytes; /* length of the message; ignored for atomics */
};

struct mv_psn_view {
	uint32_t first_psn; /* PSN of the first one; 24 bits, as is rq_psn */
	uint32_t rq_psn; /* rq_psn of the responder's drained QP */
	uint32_t mtu_bytes;
	/*
	 * Number of work requests, from the first, that are known to be complete: the requester has a successful
	 * completion of the last of them, which includes all before it, also unsignaled ones.
	 */
	size_t n_done;
	/*
	 * Most READs and atomics that the requester has outstanding (IBV_QP_MAX_QP_RD_ATOMIC as modified); 0: not
	 * known. Of the executed ones, all but the last max_rd_atomic have got their responses; otherwise the later
	 * ones would not have been sent.
	 */
	uint32_t max_rd_atomic;
};

/**
 * mv_psn_decide - the fate of each outstanding work request
 * @wrs: all that were posted and may not be complete, oldest first: array of @n
 * @ret_fates: array of @n, written on success only
 * @ret_packets: executed packets of the first work request that was not executed completely; 0: none; may be NULL
 *
 * A partly executed SEND or WRITE is replayed as a whole. That is harmless: the SEND has consumed no receive, and the
 * WRITE puts the same bytes to the same place, where no program may look before the message is complete. A READ is
 * replayed unless its response is known to have arrived: by @n_done, by @max_rd_atomic, or because a later work request
 * with a fence was sent. An executed atomic is LOST under the same conditions.
 *
 * Return: 0; -EOPNOTSUPP: an opcode that cannot be accounted for (with SEND_WITH_INV, LOCAL_INV, BIND_MW the peer's
 * keys have changed); -ERANGE: @rq_psn is impossible for this list with @n_done done; -EINVAL: @n_done is larger than
 * @n, or an invalid MTU. After any error nothing may be replayed.
 */
int mv_psn_decide(const struct mv_psn_wr *wrs, size_t n, const struct mv_psn_view *view, enum mv_fate *ret_fates,
		  uint32_t *ret_packets);

/** mv_psn_consumes - does an executed work request consume a receive of the responder? */
static inline bool mv_psn_consumes(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

#endif
