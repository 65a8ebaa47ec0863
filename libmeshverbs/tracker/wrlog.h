/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_WRLOG_H
#define MV_WRLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "psn.h"

/*
 * Log of the outstanding work requests of a send queue, in a form that can be posted again. There are two kinds: a ring
 * that is filled at post time, for any provider (wrring.h); and, for mlx5, the queue itself, read after the flush
 * (wrmlx5.h).
 *
 * Nothing here locks: the caller serialises posting, retiring and reading. Nothing here calls verbs functions.
 */

/* A work request as posted. */
struct mv_wr {
	struct ibv_send_wr wr; /* next is NULL; sg_list is the caller's array, unused with IBV_SEND_INLINE */
	/*
	 * IBV_SEND_INLINE: the data is in @data of mv_wrlog_get(), without gaps. Then wr.sg_list has one entry that
	 * points there, or none if there is no data.
	 */
	uint64_t length_bytes; /* length of the message */
};

struct mv_wrlog;

struct mv_wrlog_ops {
	size_t (*count)(const struct mv_wrlog *log);
	int (*get)(const struct mv_wrlog *log, size_t i, struct ibv_sge *sges, void *data, struct mv_wr *ret);
};

/* First member of either kind of log. */
struct mv_wrlog {
	const struct mv_wrlog_ops *ops; /* constant, as are all members */
	uint32_t max_sge; /* scatter/gather entries in a work request, at least 1 */
	uint32_t max_inline_bytes;
};

/** mv_wrlog_count - number of outstanding work requests */
static inline size_t mv_wrlog_count(const struct mv_wrlog *log)
{
	return log->ops->count(log);
}

/**
 * mv_wrlog_get - read an outstanding work request
 * @i: 0: the oldest; less than mv_wrlog_count()
 * @sges: array of @log->max_sge, becomes ret->wr.sg_list
 * @data: array of @log->max_inline_bytes, for data of an inline one
 *
 * lkeys and rkeys are as posted.
 *
 * Return: 0.
 */
static inline int mv_wrlog_get(const struct mv_wrlog *log, size_t i, struct ibv_sge *sges, void *data,
			       struct mv_wr *ret)
{
	return log->ops->get(log, i, sges, data, ret);
}

/** mv_wr_psn - properties for mv_psn_decide() */
static inline struct mv_psn_wr mv_wr_psn(const struct mv_wr *wr)
{
	return (struct mv_psn_wr){.opcode = (uint8_t)wr->wr.opcode,
				  .fence = (wr->wr.send_flags & IBV_SEND_FENCE) != 0,
				  .length_bytes = wr->length_bytes};
}

/** mv_wr_is_atomic - is it an atomic? The only kind whose result cannot be obtained again */
static inline bool mv_wr_is_atomic(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Outstanding atomics of a send queue. */
enum mv_atomics {
	MV_ATOMICS_NONE,
	MV_ATOMICS_TOLD, /* a completion will tell that they are done: of the last atomic, or of a later work request */
	MV_ATOMICS_SILENT, /* none will: neither the last atomic nor any later work request is signaled */
};

#endif
