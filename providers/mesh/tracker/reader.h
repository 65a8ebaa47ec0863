/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_READER_H
#define MESH_READER_H

#include "guard.h"
#include "mlx5take.h"

/* A completion in error that is being polled: what it stands for. */
struct mesh_staged {
	enum mesh_staged_kind {
		MESH_STAGED_NONE,
		MESH_STAGED_SEND,
		MESH_STAGED_RECEIVE,
		MESH_STAGED_SHARED, /* a receive of an SRQ, which has a log of its own */
	} kind;
	struct mv_wr send; /* its scatter/gather list is @sges, inline data @data */
	int n_sges; /* of a receive; -1: none could be read */
	struct ibv_sge *sges;
	char *data; /* NULL: only receives complete there */
};

/*
 * The log of a QP of mlx5 that does the work itself: not written when the program posts, but read from the QP's own queues when
 * it polls. So posting is the base's own functions, with nothing in between.
 *
 * Each completion is looked at before the base takes it. Until then the places in the queue of all that it stands for are not used
 * again, whoever posts meanwhile: libmlx5 counts them as free when it takes it. So
 *
 *   a send that was successful      what it and the unsignaled ones before it took is added to PSN and counts
 *   one that was not                itself is copied to the log of guard.h, where from there on everything is as for any other base
 *   a receive                       is counted; one that was flushed is copied
 *
 * A QP in ERR completes all that it has, in order. When it is through, the log has all that was outstanding, and nothing else.
 *
 * Nothing is taken on trust: each work request has its place and its QP in it, completions have to be of the places that come next, and
 * the base has to take those that were looked at, and only those. If not, the log is lost, and the QP is as without us.
 *
 * *Posting past us.* Before it is fenced, our functions are put in again, so that what is posted from then on waits. A thread that
 * was about to call the base's cannot be stopped. What it posts before the fence is through is as what was posted before. What
 * it posts later is found when anybody posts or polls next: the producer's index has moved. Then the connection fails, as without us.
 */
struct mesh_reader {
	struct mv_mlx5_ring sq, rq; /* constant */
	struct mesh_guard *guard; /* likewise, as is the next */
	uint32_t qpn;
	struct mesh_take_qp take; /* constant */
	struct mesh_mlx5_lock lock; /* of the sends; constant */
	/*
	 * Guarded by the lock of polling of their CQ (mesh_cq_claim()), and written with held->lock, too, once engaged: places behind
	 * the last completion that was looked at.
	 */
	uint16_t sq_at, rq_at;
	bool engaged; /* our functions are in; data->lock and held->lock, as the next */
	bool noting; /* it may go back to INIT, so what is received there is noted, and for that posting receives is ours */
	bool failed; /* from the first error on each has a completion; held->lock, as is the rest */
	bool ended; /* it is empty, and nothing may be posted to it any more: */
	uint16_t sq_end, rq_end;
	/*
	 * Of the send CQ, or the one of both, and of another receive CQ. A thread may poll each: between looking at a completion and
	 * polling it only its CQ is claimed, so the claim guards its place here, too.
	 */
	struct mesh_staged staged[2];
	uint32_t n_shared; /* completions in error of receives of an SRQ */
	struct mesh_srqlog later; /* receives that were posted since the fence began; has room once engaged */
};

/* Of a QP of the base that does the work; NULL: it has none. */
static inline struct mesh_reader *mesh_reader_of(const struct mesh_held *h)
{
	return h->guard ? h->guard->reader : NULL;
}

/** mesh_reader_rts - it can send from now on: nothing is outstanding; held->lock */
void mesh_reader_rts(struct mesh_reader *reader);

/**
 * mesh_reader_in_batch - is a thread in a batch of libmlx5's, all the same? It was about to begin one when our functions came in.
 *
 * conn->lock or held->lock. Return: true also while somebody just posts without ours.
 */
bool mesh_reader_in_batch(const struct mesh_held *h);

/** mesh_reader_quicken - poll a CQ by mesh_reader_fast_poll(), if it can be; no lock but conn->lock */
void mesh_reader_quicken(struct mesh_cq *cq);
/** mesh_reader_quicken_again - the same, if any of its QPs has a reader: nothing waits any more of what it was polled properly for */
void mesh_reader_quicken_again(struct mesh_cq *cq);

/**
 * mesh_reader_poll - as ibv_poll_cq() of the base, for one completion, after having looked at it; claimed
 * @ret_failed_receive: is it an error, and a receive's? The verbs do not say. False also where that is not known
 */
int mesh_reader_poll(struct mesh_cq *cq, struct ibv_wc *wc, bool *ret_failed_receive);

/** mesh_reader_keep - the work request that was staged for this completion was not done; c->cq is claimed; c->cq->lock, held->lock */
void mesh_reader_keep(struct mesh_held *h, const struct mesh_completion *c);

/**
 * mesh_reader_settle - receives posted since the fence began come behind those that it flushed; held->lock
 *
 * If what was logged is not what was kept from the program, the log is lost.
 */
void mesh_reader_settle(struct mesh_guard *guard);

/** mesh_reader_through - has all been looked at that was posted? held->lock. Return: false: there is something behind the marks */
bool mesh_reader_through(const struct mesh_guard *guard);
/** mesh_reader_end - the fence is through: from now on nothing may be posted to it; held->lock */
void mesh_reader_end(struct mesh_guard *guard);

/** mesh_reader_stray - something was: it fails, and what is posted from now on with it; held->lock */
void mesh_reader_stray(struct mesh_held *h);
/** mesh_reader_strayed - was something posted past us since? held->lock */
static inline bool mesh_reader_strayed(const struct mesh_reader *reader)
{
	return reader && reader->ended &&
	       (mv_mlx5_sq_end(&reader->sq) != reader->sq_end || mv_mlx5_rq_end(&reader->rq) != reader->rq_end);
}

/** mesh_reader_atomics - as mv_wrring_atomics(), for one that is engaged and not fenced; held->lock */
enum mv_atomics mesh_reader_atomics(struct mesh_held *h);

/**
 * mesh_reader_send - one work request that is outstanding, of one that is engaged and not fenced; held->lock
 * @at: its place, first of all @reader->sq_at; written: the next one's
 * @ret: as far as it is not in its lists
 *
 * Return: false: there are no more, or none that can be told.
 */
bool mesh_reader_send(const struct mesh_held *h, uint16_t *at, struct ibv_send_wr *ret);

/** mesh_reader_cq_refresh - a CQ of which it is known where its completions are was resized; claimed; takes data->lock */
void mesh_reader_cq_refresh(struct mesh_cq *cq);

/* ---- for fastpoll.c ------------------------------------------------------------------------------------------- */

/**
 * mesh_reader_pass - successful sends up to @last, or with @last_too false before it, are done; claimed
 *
 * Return: 0; -errno: they are not what was expected, and nothing was done.
 */
int mesh_reader_pass(struct mesh_guard *guard, uint16_t last, bool last_too);

/** mesh_reader_took - has the base taken just @n? If a QP is destroyed meanwhile, it takes others away; claimed */
bool mesh_reader_took(const struct mesh_cq *cq, uint32_t before, int n);
/** mesh_reader_lose_others - it has not: nothing of that CQ is known any more; claimed */
void mesh_reader_lose_others(struct mesh_cq *cq);

/* ---- fastpoll.c ----------------------------------------------------------------------------------------------- */

/**
 * mesh_reader_fast_poll - poll a CQ all of whose logged QPs have readers; hot
 *
 * An empty one is seen to be empty without the base, and plain completions are taken in its place (mlx5take.h).
 *
 * What has to be looked at more closely goes to mesh_poll_properly(). @n: more than 0. Return: as ibv_poll_cq().
 */
int mesh_reader_fast_poll(struct mesh_cq *cq, int n, struct ibv_wc *wc);

#endif
