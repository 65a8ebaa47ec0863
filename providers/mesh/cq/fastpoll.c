// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mlx5_wr_walker.h"

#include "cqint.h"
#include "wrmlx5_hot.h"

/*
 * Polls a CQ of healthy QPs. Hot: no allocation, no system call, no log.
 *
 * The CQE lock is held throughout. A plain CQE is read, which counts PSNs, and consumed here in libmlx5's place
 * (mlx5take.h). If a CQE is not plain, or it is not known how libmlx5 consumes it, a run of CQEs is read, and libmlx5
 * consumes exactly these.
 */

/* Return: the QP's walker; NULL: none. @ret_other: the QP needs mesh_poll_properly(). */
static struct mesh_walker *walker_by_qpn(struct mesh_cq *cq, uint32_t qpn, bool *ret_other)
{
	const struct mesh_cq_qp *qp = mesh_qpns_find(&cq->own_qps.qpns, qpn);

	*ret_other = qp && (qp->rail_srq || (qp->vqp && !qp->walker));
	if (!qp || qp->rail_srq || !qp->walker)
		return NULL;
	cq->reading.hot_qpn = qpn;
	cq->reading.hot_walker = qp->walker;
	return qp->walker;
}

static inline struct mesh_walker *walker_of_cqe(struct mesh_cq *cq, uint32_t qpn, bool *ret_other)
{
	struct mesh_walker *walker = cq->reading.hot_walker;

	return walker && cq->reading.hot_qpn == qpn ? walker : walker_by_qpn(cq, qpn, ret_other);
}

/* Sends up to index @last are done. Return: false: nothing was changed; the slow way has to do it. */
static bool sent(struct mesh_walker *walker, uint16_t last)
{
	struct mesh_wr_tracker *tracker = walker->tracker;
	struct mv_mlx5_run run = {.next = walker->sq_at};
	uint32_t opcode;

	if (walker->sq_at != last || !mv_mlx5_pass_one(&walker->sq, walker->qpn, tracker->mtu_bytes, &run, &opcode))
		return !mesh_walker_pass(tracker, last, true);
	mv_wrring_pass(&tracker->sends, run.psns, run.consumes);
	walker->sq_at = run.next;
	return true;
}

/* As sent(), for a receive. */
static inline bool received(struct mesh_walker *walker, uint16_t at)
{
	if (!walker->tracker->shared && at != walker->rq_at)
		return false;
	walker->rq_at++;
	walker->tracker->n_received++;
	return true;
}

/* ---- CQEs that the plugin consumes ------------------------------------------------------------------------------- */

static bool take_any_send(struct mesh_walker *walker, const struct mlx5_cqe64 *cqe, struct ibv_wc *wc)
{
	struct mesh_take_kind kind = mesh_take_kind_of(be32toh(cqe->sop_drop_qpn) >> 24);
	uint16_t at = be16toh(cqe->wqe_counter);
	uint32_t tail;

	if (!kind.known || !mesh_take_send_tail(&walker->take, walker->sq.n_wqes, at, &tail) || !sent(walker, at))
		return false;
	mesh_take_send(&walker->take, walker->sq.n_wqes, cqe, kind, tail, wc);
	return true;
}

/*
 * Fast case: the CQE completes the next work request of the same QP, which has one WQE and returns no data. Makes no calls, so
 * the caller need not save registers.
 *
 * Return: false: another case, nothing was changed.
 */
__attribute__((always_inline)) static inline bool take_next_send(const struct mesh_cq_reading *reading,
								 const struct mlx5_cqe64 *cqe, struct ibv_wc *wc)
{
	struct mesh_walker *walker = reading->hot_walker;
	struct mv_mlx5_run run;
	uint32_t place, opcode, nth;

	if (!walker || !walker->take.sq_wrid || !mesh_take_plain_send(cqe))
		return false;
	run = (struct mv_mlx5_run){.next = walker->sq_at};
	place = run.next & (walker->sq.n_wqes - 1);
	if (cqe->wqe_counter != htobe16(run.next) ||
	    !mv_mlx5_pass_one(&walker->sq, walker->qpn, walker->tracker->mtu_bytes, &run, &opcode))
		return false;
	nth = walker->take.sq_wqe_head[place];
	if (cqe->sop_drop_qpn != htobe32(opcode << 24 | walker->qpn) || opcode == MLX5_OPCODE_RDMA_READ ||
	    nth != *walker->take.sq_tail)
		return false;
	mv_wrring_pass(&walker->tracker->sends, run.psns, run.consumes);
	walker->sq_at = run.next;
	mesh_take_sent(&walker->take, place, walker->qpn, mesh_take_kind_of(opcode), nth + 1, wc);
	return true;
}

static bool take_receive(struct mesh_walker *walker, const struct mlx5_cqe64 *cqe, struct ibv_wc *wc)
{
	if (!mesh_take_plain_receive(cqe) || walker->tracker->shared || !received(walker, be16toh(cqe->wqe_counter)))
		return false;
	mesh_take_receive(&walker->take, walker->rq.n_wqes, cqe, wc);
	return true;
}

/* Return: true: the CQE was consumed; false: nothing was changed. */
static bool take_one(struct mesh_cq *cq, const struct mlx5_cqe64 *cqe, struct ibv_wc *wc)
{
	struct mesh_walker *walker;
	bool other;

	if (take_next_send(&cq->reading, cqe, wc))
		return true;
	walker = walker_of_cqe(cq, be32toh(cqe->sop_drop_qpn) & 0xffffff, &other);
	if (!walker || !walker->take.sq_wrid)
		return false;
	return mesh_take_plain_send(cqe) ? take_any_send(walker, cqe, wc) : take_receive(walker, cqe, wc);
}

/* ---- CQEs that libmlx5 consumes ---------------------------------------------------------------------------------- */

/* Return: true: the CQE was accounted for; false: nothing was changed. */
static bool notice(struct mesh_cq *cq, const struct mlx5_cqe64 *cqe)
{
	struct mesh_walker *walker;
	bool other = false;

	if (!mv_mlx5_cqe_good(cqe))
		return false;
	walker = walker_of_cqe(cq, be32toh(cqe->sop_drop_qpn) & 0xffffff, &other);
	if (!walker)
		return !other;
	return cqe->op_own >> 4 == MLX5_CQE_REQ ? sent(walker, be16toh(cqe->wqe_counter))
						: received(walker, be16toh(cqe->wqe_counter));
}

/* Account for up to @n CQEs. @cqe: in: the CQE at @at; out: the next CQE; NULL: none. Return: their number. */
static int notice_some(struct mesh_cq *cq, const struct mlx5_cqe64 **cqe, uint32_t at, int n)
{
	int ready = 0;

	while (*cqe && ready < n && notice(cq, *cqe))
		*cqe = mv_mlx5_cqe_at(&cq->reading.ring, at + (uint32_t)++ready);
	return ready;
}

/* Sum of @got and @more completions. @more is a count, or an error, which counts only if @got is 0. */
static int add_more(int got, int more)
{
	return more > 0 || !got ? got + more : got;
}

/* The CQ's CQE lock is held, until return. @cqe: at @at */
__attribute__((noinline)) static int poll_lower(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at, const struct mlx5_cqe64 *cqe)
{
	int ready = notice_some(cq, &cqe, at, n), got = 0;

	if (ready)
		got = cq->mc->lower.io.poll_cq(cq->cq, ready, wc);
	if (ready && (got != ready || !mesh_walker_took(&cq->reading, at, ready)))
		mesh_walker_lose_others(cq);
	mesh_cqe_unlock(cq);
	if (got != ready || got == n || !cqe)
		return got;
	return add_more(got, mesh_poll_properly(cq->cq, n - got, wc + got));
}

/* The CQ's CQE lock is held, and libmlx5's lock held, until return. @cqe: at @at + @got */
__attribute__((noinline)) static int poll_more(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at, const struct mlx5_cqe64 *cqe,
					       int got)
{
	while (cqe && got < n && take_one(cq, cqe, &wc[got]))
		cqe = mv_mlx5_cqe_at(&cq->reading.ring, at + (uint32_t)++got);
	mesh_take_end(&cq->reading.take, &cq->reading.ring, (uint32_t)got);
	if (cqe && got < n)
		return add_more(got, poll_lower(cq, n - got, wc + got, at + (uint32_t)got, cqe));
	mesh_cqe_unlock(cq);
	return got;
}

/*
 * Another thread has libmlx5's lock, or had it since @at was read. Then the next CQE is another one. The CQ's CQE lock
 * is held, until return.
 */
__attribute__((noinline)) static int poll_other(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at, const struct mlx5_cqe64 *cqe)
{
	if (mv_mlx5_consumer(&cq->reading.ring) == at)
		return poll_lower(cq, n, wc, at, cqe);
	mesh_cqe_unlock(cq);
	return mesh_poll_properly(cq->cq, n, wc);
}

/* The CQ's CQE lock is held, until return. @cqe: at @at. Inlined: GCC then saves registers only if there is a completion. */
static inline int poll_some(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at, const struct mlx5_cqe64 *cqe)
{
	if (!cq->reading.take.lock)
		return poll_lower(cq, n, wc, at, cqe);
	if (!mesh_take_begin(&cq->reading.take, at))
		return poll_other(cq, n, wc, at, cqe);
	if (!take_next_send(&cq->reading, cqe, wc))
		return poll_more(cq, n, wc, at, cqe, 0);
	cqe = n > 1 ? mv_mlx5_cqe_at(&cq->reading.ring, at + 1) : NULL;
	if (cqe)
		return poll_more(cq, n, wc, at, cqe, 1);
	mesh_take_end(&cq->reading.take, &cq->reading.ring, 1);
	mesh_cqe_unlock(cq);
	return 1;
}

int mesh_walker_fast_poll(struct mesh_cq *cq, int n, struct ibv_wc *wc)
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
