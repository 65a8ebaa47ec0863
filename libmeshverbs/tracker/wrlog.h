/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_WRLOG_H
#define MV_WRLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "psn.h"

/*
 * The work requests that a send queue has outstanding, in the form in which they can be posted again: wrring.h. They come there when
 * they are posted, for any provider; or, for mlx5, when they were flushed, read from the queue (wrmlx5.h).
 *
 * Nothing here locks: who posts, retires or reads is serialised by the caller. Nothing here calls a verbs function.
 */

/* A work request as it was posted. */
struct mv_wr {
	struct ibv_send_wr wr; /* next is NULL; sg_list is the caller's array, or with IBV_SEND_INLINE unused */
	/*
	 * IBV_SEND_INLINE: its data, one after the other, in @data of mv_wrlog_get(). wr.sg_list then has one entry, which
	 * points there (no entry when there is no data).
	 */
	uint64_t length_bytes; /* of the message */
};

struct mv_wrlog;

struct mv_wrlog_ops {
	size_t (*count)(const struct mv_wrlog *log);
	int (*get)(const struct mv_wrlog *log, size_t i, struct ibv_sge *sges, void *data, struct mv_wr *ret);
};

/* First member of either kind of log. */
struct mv_wrlog {
	const struct mv_wrlog_ops *ops; /* constant, as is the rest */
	uint32_t max_sge; /* scatter/gather entries of a work request, at least 1 */
	uint32_t max_inline_bytes;
};

/** mv_wrlog_count - work requests that are outstanding */
static inline size_t mv_wrlog_count(const struct mv_wrlog *log)
{
	return log->ops->count(log);
}

/**
 * mv_wrlog_get - read one
 * @i: 0 is the oldest; less than mv_wrlog_count()
 * @sges: array of @log->max_sge, for ret->wr.sg_list
 * @data: array of @log->max_inline_bytes bytes, for the data of an inline one
 *
 * lkeys and rkeys are those that were posted.
 *
 * Return: 0.
 */
static inline int mv_wrlog_get(const struct mv_wrlog *log, size_t i, struct ibv_sge *sges, void *data,
			       struct mv_wr *ret)
{
	return log->ops->get(log, i, sges, data, ret);
}

/** mv_wr_psn - what mv_psn_judge() wants to know of it */
static inline struct mv_psn_wr mv_wr_psn(const struct mv_wr *wr)
{
	return (struct mv_psn_wr){.opcode = (uint8_t)wr->wr.opcode,
				  .fence = (wr->wr.send_flags & IBV_SEND_FENCE) != 0,
				  .length_bytes = wr->length_bytes};
}

/** mv_wr_is_atomic - does it give back what was there? The one kind that cannot be had again */
static inline bool mv_wr_is_atomic(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Of the atomics that a send queue has outstanding. */
enum mv_atomics {
	MV_ATOMICS_NONE,
	MV_ATOMICS_TOLD, /* a completion will tell that they are done: that of the last one, or of one behind it */
	MV_ATOMICS_SILENT, /* none will, as things are: nothing from the last one on is signaled */
};

#endif
