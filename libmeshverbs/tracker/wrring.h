/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_WRRING_H
#define MV_WRRING_H

#include "wrlog.h"

/*
 * Log of work requests that is written at post time: a ring of max_send_wr work requests, each with its scatter/gather
 * list or a copy of its inline data. mv_wrring_add() and mv_wrring_retire() are hot: no allocation, and no loop except
 * over the list. Not thread-safe.
 *
 * The log also counts PSNs, so the PSN of the first outstanding work request is known.
 *
 * After a drain: successful completions are retired as usual. Of the work requests left, the last ones, as many as
 * there were completions with an error, were not executed. Those before them were successful and unsignaled: n_done of
 * struct mv_psn_view.
 */
struct mv_wrring {
	struct mv_wrlog log; /* &ring->log is the argument of wrlog.h */
	char *places; /* @size places of @stride bytes; NULL: no room yet */
	size_t stride;
	uint32_t size; /* power of two, at least max_send_wr */
	uint32_t head, tail; /* next to be added, oldest; free-running; readable */
	uint32_t max_wr;
	uint32_t mtu_bytes;
	uint32_t first_psn; /* PSN of the one at @tail; readable */
	/* number of work requests, outstanding or retired, that consume a receive of the peer, modulo 2^32; readable */
	uint32_t n_sent;
	bool sq_sig_all;
};

/**
 * mv_wrring_init - an empty log without room, which can only count PSNs (mv_wrring_pass())
 * @cap: max_send_wr, max_send_sge and max_inline_data of the QP
 */
void mv_wrring_init(struct mv_wrring *ring, const struct ibv_qp_cap *cap, bool sq_sig_all);
/** mv_wrring_room - allocate the room if there is none, before the first mv_wrring_add(). Return: 0; -ENOMEM */
int mv_wrring_room(struct mv_wrring *ring);
void mv_wrring_fini(struct mv_wrring *ring); /* also for a zeroed one */

/** mv_wrring_connect - empty the log for a QP that was just connected (RTR, RTS): path MTU, first PSN of its sends */
void mv_wrring_connect(struct mv_wrring *ring, uint32_t mtu_bytes, uint32_t sq_psn);

/**
 * mv_wrring_add - a work request is about to be posted
 * @wr: copied; wr->next is ignored
 *
 * Call before the provider gets it, because its completion may come before the post returns. If the provider refuses
 * it, call mv_wrring_undo().
 *
 * Return: 0; -ENOSPC: more than max_send_wr; -EINVAL: more entries or inline data than @cap, or an opcode that cannot
 * be posted again. After an error nothing was added.
 */
int mv_wrring_add(struct mv_wrring *ring, const struct ibv_send_wr *wr);

/**
 * mv_wrring_pass - work requests that never were in the log are done; the log is empty
 * @psns: PSNs that they took in total
 * @consumes: number that consume a receive of the peer
 */
static inline void mv_wrring_pass(struct mv_wrring *ring, uint32_t psns, uint32_t consumes)
{
	ring->first_psn = mv_psn_add(ring->first_psn, psns);
	ring->n_sent += consumes;
}

/** mv_wrring_undo - the last @n added were not posted */
void mv_wrring_undo(struct mv_wrring *ring, uint32_t n);

/**
 * mv_wrring_retire - a send completed successfully
 *
 * The completion is of the oldest signaled work request: this one and all before it are done.
 *
 * Return: number retired; -ENOENT: no signaled one is outstanding; -EILSEQ: the oldest signaled one has another wr_id,
 * so the log is no longer reliable. After an error nothing was retired.
 */
int mv_wrring_retire(struct mv_wrring *ring, uint64_t wr_id);

/** mv_wrring_at - an outstanding work request, without its lists, owned by the log; @i: 0: the oldest. NULL: no more */
const struct ibv_send_wr *mv_wrring_at(const struct mv_wrring *ring, uint32_t i);

/** mv_wrring_first_signaled - the oldest signaled one, without its lists, owned by the log; NULL: none */
const struct ibv_send_wr *mv_wrring_first_signaled(const struct mv_wrring *ring);

/**
 * mv_wrring_has - is a work request with that wr_id outstanding, signaled or not?
 * @at: in: where to look first; out: after the one found
 */
bool mv_wrring_has(const struct mv_wrring *ring, uint64_t wr_id, uint32_t *at);

/** mv_wrring_atomics - are atomics outstanding? Looks at all work requests */
enum mv_atomics mv_wrring_atomics(const struct mv_wrring *ring);

/** mv_wrring_retire_n - the oldest @n are done, by other evidence than completions (mv_psn_decide()) */
void mv_wrring_retire_n(struct mv_wrring *ring, uint32_t n);

#endif
