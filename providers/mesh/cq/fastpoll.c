// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "reader.h"

#include "cqint.h"
#include "wrmlx5_hot.h"

/*
 * Polling a CQ of healthy QPs. Hot: no allocation, no system call, no log.
 *
 * The CQ is claimed throughout. A plain completion is looked at, which counts PSNs, and taken here (mlx5take.h). Of what is not plain, or
 * where it is not known how libmlx5 takes it, as many as can be looked at at once are, and then libmlx5 takes just these.
 */

/* Return: the QP's reader; NULL: none, and @ret_other says whether it is one that has to be looked at properly. */
static struct mesh_reader *reader_by_qpn(struct mesh_cq *cq, uint32_t qpn, bool *ret_other)
{
	const struct mesh_cq_qp *qp = mesh_qpns_find(&cq->natives, qpn);

	*ret_other = qp && (qp->home || (qp->held && !qp->reader));
	if (!qp || qp->home || !qp->reader)
		return NULL;
	cq->hot_qpn = qpn;
	cq->hot_reader = qp->reader;
	return qp->reader;
}

static inline struct mesh_reader *reader_of_cqe(struct mesh_cq *cq, uint32_t qpn, bool *ret_other)
{
	struct mesh_reader *reader = cq->hot_reader;

	return reader && cq->hot_qpn == qpn ? reader : reader_by_qpn(cq, qpn, ret_other);
}

/* Those up to @last are done. Return: whether that was taken account of; if not, nothing was done. */
static bool sent(struct mesh_reader *reader, uint16_t last)
{
	struct mesh_guard *guard = reader->guard;
	struct mv_mlx5_run run = {.next = reader->sq_at};
	uint32_t opcode;

	if (reader->sq_at != last || !mv_mlx5_pass_one(&reader->sq, reader->qpn, guard->mtu_bytes, &run, &opcode))
		return !mesh_reader_pass(guard, last, true);
	mv_wrring_pass(&guard->sends, run.psns, run.consumes);
	reader->sq_at = run.next;
	return true;
}

/* Likewise. */
static inline bool received(struct mesh_reader *reader, uint16_t at)
{
	if (!reader->guard->shared && at != reader->rq_at)
		return false;
	reader->rq_at++;
	reader->guard->n_received++;
	return true;
}

/* ---- in libmlx5's place ----------------------------------------------------------------------------------------- */

static bool take_any_send(struct mesh_reader *reader, const struct mlx5_cqe64 *cqe, struct ibv_wc *wc)
{
	struct mesh_take_kind kind = mesh_take_kind_of(be32toh(cqe->sop_drop_qpn) >> 24);
	uint16_t at = be16toh(cqe->wqe_counter);
	uint32_t tail;

	if (!kind.known || !mesh_take_send_tail(&reader->take, reader->sq.n_wqes, at, &tail) || !sent(reader, at))
		return false;
	mesh_take_send(&reader->take, reader->sq.n_wqes, cqe, kind, tail, wc);
	return true;
}

/*
 * Most are of the work request behind the last one of the same queue pair, which has one entry and brings no data: then there is less to
 * do. No calls, so that whoever does it needs no registers saved.
 *
 * Return: whether it was such a one; if not, nothing was done.
 */
__attribute__((always_inline)) static inline bool take_next_send(const struct mesh_cq *cq, const struct mlx5_cqe64 *cqe, struct ibv_wc *wc)
{
	struct mesh_reader *reader = cq->hot_reader;
	struct mv_mlx5_run run;
	uint32_t place, opcode, nth;

	if (!reader || !reader->take.sq_wrid || !mesh_take_plain_send(cqe))
		return false;
	run = (struct mv_mlx5_run){.next = reader->sq_at};
	place = run.next & (reader->sq.n_wqes - 1);
	if (cqe->wqe_counter != htobe16(run.next) || !mv_mlx5_pass_one(&reader->sq, reader->qpn, reader->guard->mtu_bytes, &run, &opcode))
		return false;
	nth = reader->take.sq_wqe_head[place];
	if (cqe->sop_drop_qpn != htobe32(opcode << 24 | reader->qpn) || opcode == MLX5_OPCODE_RDMA_READ || nth != *reader->take.sq_tail)
		return false;
	mv_wrring_pass(&reader->guard->sends, run.psns, run.consumes);
	reader->sq_at = run.next;
	mesh_take_sent(&reader->take, place, reader->qpn, mesh_take_kind_of(opcode), nth + 1, wc);
	return true;
}

static bool take_receive(struct mesh_reader *reader, const struct mlx5_cqe64 *cqe, struct ibv_wc *wc)
{
	if (!mesh_take_plain_receive(cqe) || reader->guard->shared || !received(reader, be16toh(cqe->wqe_counter)))
		return false;
	mesh_take_receive(&reader->take, reader->rq.n_wqes, cqe, wc);
	return true;
}

/* Return: whether it was taken; if not, nothing was done. */
static bool take_one(struct mesh_cq *cq, const struct mlx5_cqe64 *cqe, struct ibv_wc *wc)
{
	struct mesh_reader *reader;
	bool other;

	if (take_next_send(cq, cqe, wc))
		return true;
	reader = reader_of_cqe(cq, be32toh(cqe->sop_drop_qpn) & 0xffffff, &other);
	if (!reader || !reader->take.sq_wrid)
		return false;
	return mesh_take_plain_send(cqe) ? take_any_send(reader, cqe, wc) : take_receive(reader, cqe, wc);
}

/* ---- by libmlx5 ------------------------------------------------------------------------------------------------- */

/* Return: whether it was taken account of; if not, nothing was done. */
static bool notice(struct mesh_cq *cq, const struct mlx5_cqe64 *cqe)
{
	struct mesh_reader *reader;
	bool other = false;

	if (!mv_mlx5_cqe_good(cqe))
		return false;
	reader = reader_of_cqe(cq, be32toh(cqe->sop_drop_qpn) & 0xffffff, &other);
	if (!reader)
		return !other;
	return cqe->op_own >> 4 == MLX5_CQE_REQ ? sent(reader, be16toh(cqe->wqe_counter)) : received(reader, be16toh(cqe->wqe_counter));
}

/* Return: how many of the next completions, @n at most, were taken account of. @cqe: at @at; written: the one behind them, NULL: none */
static int notice_some(struct mesh_cq *cq, const struct mlx5_cqe64 **cqe, uint32_t at, int n)
{
	int ready = 0;

	while (*cqe && ready < n && notice(cq, *cqe))
		*cqe = mv_mlx5_cqe_at(&cq->ring, at + (uint32_t)++ready);
	return ready;
}

/* @got were taken. Who is given fewer than he asked for may take it that there are no more. */
static int add_more(int got, int more)
{
	return more > 0 || !got ? got + more : got;
}

/* Claimed, until it returns. @cqe: at @at */
__attribute__((noinline)) static int poll_base(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at, const struct mlx5_cqe64 *cqe)
{
	int ready = notice_some(cq, &cqe, at, n), got = 0;

	if (ready)
		got = cq->mc->poll_cq(cq->cq, ready, wc);
	if (ready && (got != ready || !mesh_reader_took(cq, at, ready)))
		mesh_reader_lose_others(cq);
	mesh_cq_unclaim(cq);
	if (got != ready || got == n || !cqe)
		return got;
	return add_more(got, mesh_poll_properly(cq->cq, n - got, wc + got));
}

/* Likewise, and libmlx5's lock is held as long. @cqe: at @at + @got */
__attribute__((noinline)) static int poll_more(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at, const struct mlx5_cqe64 *cqe,
					       int got)
{
	while (cqe && got < n && take_one(cq, cqe, &wc[got]))
		cqe = mv_mlx5_cqe_at(&cq->ring, at + (uint32_t)++got);
	mesh_take_end(&cq->take, &cq->ring, (uint32_t)got);
	if (cqe && got < n)
		return add_more(got, poll_base(cq, n - got, wc + got, at + (uint32_t)got, cqe));
	mesh_cq_unclaim(cq);
	return got;
}

/* Likewise. Somebody else has libmlx5's lock, or has had it since @at was seen: then it is another completion that comes next. */
__attribute__((noinline)) static int poll_other(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at, const struct mlx5_cqe64 *cqe)
{
	if (mv_mlx5_consumer(&cq->ring) == at)
		return poll_base(cq, n, wc, at, cqe);
	mesh_cq_unclaim(cq);
	return mesh_poll_properly(cq->cq, n, wc);
}

/* Claimed, until it returns. @cqe: at @at */
__attribute__((noinline)) static int poll_some(struct mesh_cq *cq, int n, struct ibv_wc *wc, uint32_t at, const struct mlx5_cqe64 *cqe)
{
	if (!cq->take.lock)
		return poll_base(cq, n, wc, at, cqe);
	if (!mesh_take_begin(&cq->take, at))
		return poll_other(cq, n, wc, at, cqe);
	if (!take_next_send(cq, cqe, wc))
		return poll_more(cq, n, wc, at, cqe, 0);
	cqe = n > 1 ? mv_mlx5_cqe_at(&cq->ring, at + 1) : NULL;
	if (cqe)
		return poll_more(cq, n, wc, at, cqe, 1);
	mesh_take_end(&cq->take, &cq->ring, 1);
	mesh_cq_unclaim(cq);
	return 1;
}

int mesh_reader_fast_poll(struct mesh_cq *cq, int n, struct ibv_wc *wc)
{
	const struct mlx5_cqe64 *cqe;
	uint32_t at;

	/* The CQ may be resized, so not even whether it is empty can be seen before. */
	if (atomic_exchange_explicit(&cq->claimed, true, memory_order_acquire))
		return mesh_poll_properly(cq->cq, n, wc);
	mv_lock_taken(&cq->claimed, MESH_CLASS(CLAIMED), MV_LOCK_HERE);
	at = mv_mlx5_consumer(&cq->ring);
	cqe = mv_mlx5_cqe_at(&cq->ring, at);
	if (cqe && atomic_load_explicit(&cq->fast, memory_order_relaxed))
		return poll_some(cq, n, wc, at, cqe);
	mesh_cq_unclaim(cq);
	return cqe ? mesh_poll_properly(cq->cq, n, wc) : 0;
}
