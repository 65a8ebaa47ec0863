// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mlx5_wr_walker.h"

#include "cqint.h"
#include "fastcq.h"
#include "wrmlx5_hot.h"

/*
 * Polls a CQ of healthy QPs. Hot: no allocation, no system call, no log.
 *
 * The CQE lock is held throughout. An empty CQ is recognised without libmlx5. Otherwise a run of plain CQEs is read, which counts
 * PSNs, and libmlx5 consumes exactly these. A CQE that is not plain ends the run, and is left to mesh_poll_properly().
 */

#define RUN 32 /* CQEs in a run, at most */

/* Return: the QP's walker; NULL: none. @ret_other: the QP needs mesh_poll_properly(). */
static struct mesh_walker *walker_by_qpn(struct mesh_cq *cq, uint32_t qpn, bool *ret_other)
{
	const struct mesh_cq_qp *qp = mesh_qpns_find(&cq->own_qps.qpns, qpn);

	*ret_other = qp && (qp->rail_srq || (qp->vqp && !qp->walker));
	if (!qp || qp->rail_srq || !qp->walker)
		return NULL;
	cq->reading.hot_walker = qp->walker;
	return qp->walker;
}

/* A receive is done. Return: false: nothing was changed; the slow way has to do it. */
static inline bool received(struct mesh_walker *walker, uint16_t at)
{
	if (!walker->tracker->shared && at != walker->rq_at)
		return false;
	walker->rq_at++;
	walker->tracker->n_received++;
	return true;
}

/*
 * Fast case: the CQE is of the QP that had the last one, and of a receive, or of the next send, which has one WQE with one SGE.
 * Makes no calls.
 *
 * Return: true: the CQE was accounted for; false: nothing was changed.
 */
__attribute__((always_inline)) static inline bool notice_next(const struct mesh_cq_reading *reading, const struct mlx5_cqe64 *cqe)
{
	struct mesh_walker *walker = reading->hot_walker;
	struct mv_mlx5_run run;
	uint32_t opcode;

	if (!walker || mv_mlx5_cqe_qpn(cqe) != walker->qpn)
		return false;
	if (!mv_mlx5_cqe_sent(cqe))
		return mv_mlx5_cqe_good(cqe) && received(walker, be16toh(cqe->wqe_counter));
	run = (struct mv_mlx5_run){.next = walker->sq_at};
	if (cqe->wqe_counter != htobe16(run.next) ||
	    !mv_mlx5_pass_one(&walker->sq, walker->qpn, walker->tracker->mtu_bytes, &run, &opcode))
		return false;
	mv_wrring_pass(&walker->tracker->sends, run.psns, run.consumes);
	walker->sq_at = run.next;
	return true;
}

/* As notice_next(), for all plain CQEs. */
__attribute__((noinline)) static bool notice_any(struct mesh_cq *cq, const struct mlx5_cqe64 *cqe)
{
	struct mesh_walker *walker = cq->reading.hot_walker;
	uint32_t qpn = mv_mlx5_cqe_qpn(cqe);
	bool other = false;

	if (!mv_mlx5_cqe_good(cqe))
		return false;
	if (!walker || walker->qpn != qpn)
		walker = walker_by_qpn(cq, qpn, &other);
	if (!walker)
		return !other;
	if (!mv_mlx5_cqe_sent(cqe))
		return received(walker, be16toh(cqe->wqe_counter));
	return !mesh_walker_pass(walker->tracker, be16toh(cqe->wqe_counter), true);
}

/* Account for up to @n CQEs from @at on. @ret_other: is there another CQE, which is not plain? Return: their number. */
static int read_run(struct mesh_cq *cq, int n, uint32_t at, bool *ret_other)
{
	const struct mlx5_cqe64 *cqe = NULL;
	int ready;

	for (ready = 0; ready < n; ready++) {
		cqe = mv_mlx5_cqe_at(&cq->reading.ring, at + (uint32_t)ready);
		if (!cqe || !(notice_next(&cq->reading, cqe) || notice_any(cq, cqe)))
			break;
	}
	*ret_other = cqe && ready < n;
	return ready;
}

/* Have libmlx5 consume the @n CQEs from @at on, which were accounted for. Return: as ibv_poll_cq(). */
static int consume(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at)
{
	uint32_t qpn = mv_mlx5_cqe_qpn(mv_mlx5_cqe_place(&cq->reading.ring, at));
	int got = cq->mc->lower.io.poll_cq(cq->cq, n, wc);

	if (got != n || !mesh_walker_took(&cq->reading, at, n))
		mesh_walker_took_others(cq, qpn, false, wc, got);
	return got;
}

/* Sum of @got and @more completions. @more is a count, or an error, which counts only if @got is 0. */
static int add_more(int got, int more)
{
	return more > 0 || !got ? got + more : got;
}

/*
 * The CQ's CQE lock is held, until return. @at: index of the next CQE. While libmlx5 removes CQEs, it moves others up, but never
 * writes to the place of the next one: so only that one is read.
 */
__attribute__((noinline)) static int poll_runs(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at)
{
	const int most = cq->reading.removals ? 1 : RUN;
	int got = 0, ready, some;
	bool other;

	for (;; at = mv_mlx5_consumer(&cq->reading.ring)) {
		ready = read_run(cq, n - got < most ? n - got : most, at, &other);
		some = ready ? consume(cq, ready, wc + got, at) : 0;
		got = add_more(got, some);
		if (some != most || got == n)
			break;
	}
	mesh_cqe_unlock(cq);
	if (some != ready || !other)
		return got;
	return add_more(got, mesh_poll_properly(cq->cq, n - got, wc + got));
}

/* The CQ's CQE lock is held, until return. @got: of libmlx5, which has consumed others than the CQE of the hot QP. */
__attribute__((noinline)) static int took_others(struct mesh_cq *cq, const struct ibv_wc *wc, int got)
{
	mesh_walker_took_others(cq, cq->reading.hot_walker->qpn, false, wc, got);
	mesh_cqe_unlock(cq);
	return got;
}

/* The CQ's CQE lock is held, until return. @cqe: at @at. Not inlined: an empty poll saves no registers. */
__attribute__((noinline)) static int poll_some(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at, const struct mlx5_cqe64 *cqe)
{
	int got;

	if ((n > 1 && mv_mlx5_cqe_at(&cq->reading.ring, at + 1)) || !notice_next(&cq->reading, cqe))
		return poll_runs(cq, n, wc, at);
	got = cq->mc->lower.io.poll_cq(cq->cq, 1, wc);
	if (got != 1 || !mesh_walker_took(&cq->reading, at, 1))
		return took_others(cq, wc, got);
	mesh_cqe_unlock(cq);
	return 1;
}

/* @n: more than 0 */
__attribute__((always_inline)) static inline int fast_poll(struct mesh_cq *cq, int n, struct ibv_wc *wc)
{
	const struct mlx5_cqe64 *cqe;
	bool is_there;
	uint32_t at;

	/* The CQE lock comes first: the CQ may be resized, so without the lock not even its emptiness can be read. */
	if (atomic_exchange_explicit(&cq->cqe_locked, true, memory_order_acquire))
		return mesh_poll_properly(cq->cq, n, wc);
	mv_lock_taken(&cq->cqe_locked, MESH_CLASS(CQE_LOCK), MV_LOCK_HERE);
	at = mv_mlx5_consumer(&cq->reading.ring);
	cqe = mv_mlx5_cqe_place(&cq->reading.ring, at);
	is_there = mv_mlx5_cqe_is_there(&cq->reading.ring, cqe, at);
	if (is_there && atomic_load_explicit(&cq->fast, memory_order_relaxed))
		return poll_some(cq, n, wc, at, cqe);
	mesh_cqe_unlock(cq);
	return is_there ? mesh_poll_properly(cq->cq, n, wc) : 0;
}

int mesh_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	struct mesh_cq *mcq = mesh_fast_get(cq);

	/* Tail calls: saved registers would cost half of an empty poll. */
	return mcq && num_entries > 0 ? fast_poll(mcq, num_entries, wc) : mesh_poll_properly(cq, num_entries, wc);
}
