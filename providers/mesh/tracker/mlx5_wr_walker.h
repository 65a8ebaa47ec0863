/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5_WR_WALKER_H
#define MESH_MLX5_WR_WALKER_H

#include "mlx5.h"
#include "wr_tracker.h"
#include "wrmlx5_hot.h"

/* A completion in error that is being polled, with its work request. */
struct mesh_staged {
	enum mesh_staged_kind {
		MESH_STAGED_NONE,
		MESH_STAGED_SEND,
		MESH_STAGED_RECEIVE,
		MESH_STAGED_SHARED, /* a receive of an SRQ, which has its own log */
	} kind;
	struct mv_wr send; /* its SGEs are in @sges, its inline data in @data */
	int n_sges; /* of a receive; -1: not readable */
	struct ibv_sge *sges;
	char *data; /* NULL: only receives complete there */
};

/*
 * Walker: the log of a program's own mlx5 QP, read from the QP's queues by polls instead of written by posts. So the
 * program posts directly to the provider.
 *
 * Each CQE is read before libmlx5 consumes it. Until then the WQEs that it completes are not reused, even if other threads post:
 * libmlx5 frees them when it consumes the CQE. So
 *
 *   a successful send               adds the PSNs and counts of itself, and of unsignaled sends before it
 *   a failed send                   is copied to the log of wr_tracker.h, and handled as for any other lower provider
 *   a receive                       is counted; a flushed one is copied
 *
 * A QP in ERR completes all of its work in order. At its end the log has exactly the outstanding work.
 *
 * Everything is checked: each WQE names its index and QP, CQEs have to be of the next WQEs, and libmlx5 has to consume exactly
 * the CQEs that were read. Otherwise the log is lost, and the QP cannot move.
 *
 * *Posts that bypass the plugin.* Before a drain the plugin's functions are installed, so that later posts wait. A
 * thread that was about to call libmlx5's function cannot be stopped. Its post before the end of the drain counts as
 * posted earlier. A later post is found by the next post or poll, because the producer index has moved. Then the
 * connection fails.
 */
struct mesh_walker {
	struct mv_mlx5_ring sq, rq; /* constant */
	struct mesh_wr_tracker *tracker; /* constant, as the next */
	uint32_t qpn;
	struct mesh_mlx5_lock lock; /* of the send queue; constant */
	/*
	 * Index behind the last CQE that was read. Guarded by mesh_cqe_lock() of their CQ, and once engaged also
	 * written with vqp->lock.
	 */
	uint16_t sq_at, rq_at;
	bool engaged; /* the plugin's functions are installed; data->lock and vqp->lock, as the next */
	bool noting; /* the QP may go back to INIT, so receives are recorded, and posts of receives intercepted */
	bool failed; /* from the first error on, each WQE gets a CQE; vqp->lock, as the rest */
	bool ended; /* the QP is empty, and nothing may be posted to it any more: */
	uint16_t sq_end, rq_end;
	/*
	 * One for the send CQ, or the CQ of both queues, and one for another receive CQ. Two threads may poll these; between
	 * reading and polling a CQE only its CQ's CQE lock is held, which guards the element, too.
	 */
	struct mesh_staged staged[2];
	uint32_t n_shared; /* completions in error, of receives of an SRQ */
	struct mesh_srqlog later; /* receives posted since the begin of the drain; allocated once engaged */
};

/* Walker of a program's own QP; NULL: none. */
static inline struct mesh_walker *mesh_walker_of(const struct mesh_vqp *h)
{
	return h->tracker ? h->tracker->walker : NULL;
}

/** mesh_walker_rts - the QP is in RTS; no send is outstanding; vqp->lock */
void mesh_walker_rts(struct mesh_walker *walker);

/**
 * mesh_walker_in_batch - is a thread in a batch of libmlx5 although the plugin's functions are installed? It began
 * before.
 *
 * conn->lock or vqp->lock. Return: true also while a thread just posts, bypassing the plugin.
 */
bool mesh_walker_in_batch(const struct mesh_vqp *h);

/** mesh_walker_quicken - poll a CQ by fastpoll.c, if possible; no lock but conn->lock */
void mesh_walker_quicken(struct mesh_cq *cq);
/** mesh_walker_quicken_again - the same, if any QP of the CQ has a walker: the reason for slow polls is gone */
void mesh_walker_quicken_again(struct mesh_cq *cq);

/**
 * mesh_walker_poll - ibv_poll_cq() of the lower provider for one completion, which is read before; CQE lock held
 * @ret_failed_receive: certainly an error of a receive, which the verbs do not tell
 */
int mesh_walker_poll(struct mesh_cq *cq, struct ibv_wc *wc, bool *ret_failed_receive);

/**
 * mesh_walker_keep - log the work request that was staged for this failed completion; c->cq's CQE lock is held;
 * c->cq->lock, vqp->lock
 */
void mesh_walker_keep(struct mesh_vqp *h, const struct mesh_completion *c);

/**
 * mesh_walker_settle - append receives posted since the begin of the drain to those that it flushed; vqp->lock
 *
 * If the log differs from the withheld completions, the log is lost.
 */
void mesh_walker_settle(struct mesh_wr_tracker *tracker);

/**
 * mesh_walker_through - has all posted work been read? vqp->lock. Return: false: there is work behind the sentinels.
 */
bool mesh_walker_through(const struct mesh_wr_tracker *tracker);
/** mesh_walker_end - the drain is over: from now on nothing may be posted; vqp->lock */
void mesh_walker_end(struct mesh_wr_tracker *tracker);

/** mesh_walker_stray - a post has bypassed the plugin after the drain: the connection fails; vqp->lock */
void mesh_walker_stray(struct mesh_vqp *h);
/** mesh_walker_strayed - has a post bypassed the plugin since the drain? vqp->lock */
static inline bool mesh_walker_strayed(const struct mesh_walker *walker)
{
	return walker && walker->ended &&
	       (mv_mlx5_sq_end(&walker->sq) != walker->sq_end || mv_mlx5_rq_end(&walker->rq) != walker->rq_end);
}

/** mesh_walker_atomics - mv_wrring_atomics() of an engaged QP that is not drained; vqp->lock */
enum mv_atomics mesh_walker_atomics(struct mesh_vqp *h);

/**
 * mesh_walker_send - an outstanding send of an engaged QP that is not drained; vqp->lock
 * @at: its index, at first @walker->sq_at; written: that of the next
 * @ret: without SGEs and inline data
 *
 * Return: false: there are no more, or the next is not readable.
 */
bool mesh_walker_send(const struct mesh_vqp *h, uint16_t *at, struct ibv_send_wr *ret);

/** mesh_walker_cq_refresh - a CQ whose buffer is known was resized; CQE lock held; takes data->lock */
void mesh_walker_cq_refresh(struct mesh_cq *cq);

/* ---- for fastpoll.c ------------------------------------------------------------------------------------------- */

/**
 * mesh_walker_pass - successful sends up to @last, or without @last_too before it, are done; CQE lock held
 *
 * Return: 0; -errno: not the expected sends, and nothing was changed.
 */
int mesh_walker_pass(struct mesh_wr_tracker *tracker, uint16_t last, bool last_too);

/** mesh_walker_took - has libmlx5 consumed exactly @n CQEs? CQE lock held. @before: mv_mlx5_consumer(), before it polled */
static inline bool mesh_walker_took(const struct mesh_cq_reading *reading, uint32_t before, int n)
{
	return ((mv_mlx5_consumer(&reading->ring) - before) & MV_MLX5_CONSUMER_BITS) == (uint32_t)n;
}
/**
 * mesh_walker_took_others - it has not: logs of QPs of that CQ are lost; CQE lock held
 * @qpn: of the CQE that was read
 * @error: did this one tell an error?
 * @got: number of completions in @wc that libmlx5 gave, or an error
 *
 * libmlx5 removes the CQEs of a QP that is destroyed: mesh_cq_removal_begin(). Meanwhile only one CQE is read before each poll, and
 * what libmlx5 gives is that one, or the first one that it has not removed. At other times a thread has polled past the plugin, and
 * all logs are lost.
 */
void mesh_walker_took_others(struct mesh_cq *cq, uint32_t qpn, bool error, const struct ibv_wc *wc, int got);

#endif
