/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_WRRING_H
#define MV_WRRING_H

#include "wrlog.h"

/*
 * A log written at post time: room for max_send_wr work requests, each with its scatter/gather list or a copy of its
 * inline data. mv_wrring_add() and mv_wrring_retire() are hot: no allocation, no loop but over the list.
 *
 * It also keeps account of PSNs, so that those of the first outstanding work request are known.
 *
 * After a fence: successful completions are retired as ever. Of what is left, as many as there were completions with an
 * error were not done; the others, before them, were successful and unsignaled: n_done of struct mv_psn_view.
 */
struct mv_wrring {
	struct mv_wrlog log; /* &ring->log is what wrlog.h takes */
	char *places; /* @size of them, @stride bytes each; NULL: no room yet */
	size_t stride;
	uint32_t size; /* power of two, at least max_send_wr */
	uint32_t head, tail; /* next one to be added, oldest; free-running; readable */
	uint32_t max_wr;
	uint32_t mtu_bytes;
	uint32_t first_psn; /* of the one at @tail; readable */
	uint32_t n_sent; /* outstanding and retired ones that consume a receive of the peer, modulo 2^32; readable */
	bool sq_sig_all;
};

/**
 * mv_wrring_init - an empty log, without room: PSNs can be counted (mv_wrring_pass()), and that is all
 * @cap: max_send_wr, max_send_sge and max_inline_data as the QP has them
 */
void mv_wrring_init(struct mv_wrring *ring, const struct ibv_qp_cap *cap, bool sq_sig_all);
/** mv_wrring_room - give it its room, if it has none: before the first mv_wrring_add(). Return: 0; -ENOMEM */
int mv_wrring_room(struct mv_wrring *ring);
void mv_wrring_fini(struct mv_wrring *ring); /* zeroed or initialised */

/** mv_wrring_connect - empties it for a QP that was just connected (RTR, RTS): path MTU, first PSN of its sends */
void mv_wrring_connect(struct mv_wrring *ring, uint32_t mtu_bytes, uint32_t sq_psn);

/**
 * mv_wrring_add - a work request is about to be posted
 * @wr: the first one of a list counts; wr->next is not looked at
 *
 * To be called before the provider has it (completions may be quicker than the caller); what the provider refuses is
 * taken back with mv_wrring_undo().
 *
 * Return: 0; -ENOSPC: more than max_send_wr; -EINVAL: more entries or inline data than announced, or an opcode that cannot
 * be posted again. Then nothing was added.
 */
int mv_wrring_add(struct mv_wrring *ring, const struct ibv_send_wr *wr);

/**
 * mv_wrring_pass - work requests that were never in the log are done; it is empty
 * @psns: that they took together
 * @consumes: those among them that consume a receive of the peer
 */
static inline void mv_wrring_pass(struct mv_wrring *ring, uint32_t psns, uint32_t consumes)
{
	ring->first_psn = mv_psn_add(ring->first_psn, psns);
	ring->n_sent += consumes;
}

/** mv_wrring_undo - the @n last ones added were not posted after all */
void mv_wrring_undo(struct mv_wrring *ring, uint32_t n);

/**
 * mv_wrring_retire - a send completed successfully
 *
 * It is that of the oldest signaled one: it and all before it are done.
 *
 * Return: how many left the log; -ENOENT: no signaled one is outstanding, nothing was done; -EILSEQ: the oldest
 * signaled one has another wr_id: the log is not to be relied upon any more. Nothing was done.
 */
int mv_wrring_retire(struct mv_wrring *ring, uint64_t wr_id);

/** mv_wrring_at - one that is outstanding, without its lists; @i: 0: the oldest. NULL: there are no more */
const struct ibv_send_wr *mv_wrring_at(const struct mv_wrring *ring, uint32_t i);

/** mv_wrring_first_signaled - the oldest signaled one, without its lists; NULL: there is none */
const struct ibv_send_wr *mv_wrring_first_signaled(const struct mv_wrring *ring);

/**
 * mv_wrring_has - is there one with that number, signaled or not?
 * @at: where to look first; written: behind the one that was found
 */
bool mv_wrring_has(const struct mv_wrring *ring, uint64_t wr_id, uint32_t *at);

/** mv_wrring_atomics - are some outstanding? Looks at all */
enum mv_atomics mv_wrring_atomics(const struct mv_wrring *ring);

/** mv_wrring_retire_n - the @n oldest are done, by other evidence than completions (mv_psn_judge()) */
void mv_wrring_retire_n(struct mv_wrring *ring, uint32_t n);

#endif
