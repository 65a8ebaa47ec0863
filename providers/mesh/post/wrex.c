// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "postint.h"

#define GIVE_WAY_US 3000u /* three times what who wants to stop posting waits for */

/*
 * ibv_wr_*(): the functions of one struct ibv_qp_ex, replaced while its QP is held. Work requests are built in the places
 * behind the end of the queue and become part of it with wr_complete(). Hot: no allocation, no system call, no log.
 *
 * What a moved QP cannot do (memory windows, invalidation, segmentation) makes wr_complete() fail as on a device that does
 * not have it. A QP that has mlx5's own builders (mlx5dv_wr_*), or those that rdma-core 44 and later have (wr_atomic_write, wr_flush), is none
 * of ours: mesh_mlx5_builds().
 */

#define WR_FUNCTIONS(X)                                                                                      \
	X(wr_atomic_cmp_swp)                                                                                 \
	X(wr_atomic_fetch_add)                                                                               \
	X(wr_bind_mw)                                                                                        \
	X(wr_local_inv)                                                                                      \
	X(wr_rdma_read)                                                                                      \
	X(wr_rdma_write)                                                                                     \
	X(wr_rdma_write_imm)                                                                                 \
	X(wr_send)                                                                                           \
	X(wr_send_imm)                                                                                       \
	X(wr_send_inv)                                                                                       \
	X(wr_send_tso)                                                                                       \
	X(wr_set_ud_addr)                                                                                    \
	X(wr_set_xrc_srqn)                                                                                   \
	X(wr_set_inline_data)                                                                                \
	X(wr_set_inline_data_list)                                                                           \
	X(wr_set_sge)                                                                                        \
	X(wr_set_sge_list)                                                                                   \
	X(wr_complete)                                                                                       \
	X(wr_abort)                                                                                          \
	X(wr_start)

/* Under held->post_lock; base and installed also under held->lock. */
struct mesh_wrex {
#define X(f) __typeof__(((struct ibv_qp_ex *)NULL)->f) f;
	struct { WR_FUNCTIONS(X) } base;
#undef X
	bool installed;
	_Atomic uintptr_t builder; /* thread in a batch that our wr_start began; written under post_lock and held->lock */
	struct mesh_sendq queue; /* with the places that the batch builds in: held->queue as it began */
	bool left; /* held->queue is another one since, and those places are the batch's own; held->lock */
	uint32_t end, room, n; /* end of the queue, free places, requests of this batch */
	struct mesh_send *current; /* NULL: none, or the batch has failed */
	int err;
};

/*
 * Ours may be put in while a thread is in a batch that the base's wr_start began (reader.h): that goes on with the base's.
 * Return: the base's functions, for this call; NULL: the batch is ours.
 */
static const struct mesh_wrex *of_base(struct ibv_qp_ex *qp)
{
	struct mesh_held *h = mesh_held_find(mesh_context_get(qp->qp_base.context), &qp->qp_base);
	const struct mesh_wrex *w = atomic_load_explicit(&h->wrex, memory_order_acquire);

	return atomic_load_explicit(&w->builder, memory_order_relaxed) == (uintptr_t)pthread_self() ? NULL : w;
}

#define LEAVE_TO_BASE(f, ...)                                                                               \
	do {                                                                                                 \
		const struct mesh_wrex *base_ = of_base(qp);                                                 \
		if (base_) {                                                                                 \
			base_->base.f(qp, ##__VA_ARGS__);                                                    \
			return;                                                                              \
		}                                                                                            \
	} while (0)

/* Only between wr_start and the end of a batch, so the QP is held and post_lock is ours. */
static struct mesh_held *held_of(struct ibv_qp_ex *qp)
{
	return mesh_held_find(mesh_context_get(qp->qp_base.context), &qp->qp_base);
}

static void fail(struct mesh_wrex *w, int err)
{
	if (!w->err)
		w->err = err;
	w->current = NULL;
}

static struct mesh_send *place_of(const struct mesh_wrex *w, uint32_t n)
{
	uint32_t i = w->end + n;

	return (struct mesh_send *)(void *)(w->queue.places + (size_t)(i >= w->queue.size ? i - w->queue.size : i) * w->queue.stride);
}

static struct ibv_send_wr *begin(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct mesh_wrex *w = atomic_load_explicit(&held_of(qp)->wrex, memory_order_relaxed);

	if (w->err)
		return NULL;
	if (w->n == w->room) {
		fail(w, ENOMEM);
		return NULL;
	}
	w->current = place_of(w, w->n++);
	w->current->wr = (struct ibv_send_wr){
		.wr_id = qp->wr_id,
		.sg_list = w->current->sges,
		.opcode = opcode,
		.send_flags = qp->wr_flags,
	};
	return &w->current->wr;
}

static void refuse(struct ibv_qp_ex *qp)
{
	fail(atomic_load_explicit(&held_of(qp)->wrex, memory_order_relaxed), EOPNOTSUPP);
}

static void atomic(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
		   uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = begin(qp, opcode);

	if (!wr)
		return;
	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
	wr->wr.atomic.rkey = rkey;
}

static void rdma(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	struct ibv_send_wr *wr = begin(qp, opcode);

	if (!wr)
		return;
	wr->imm_data = imm;
	wr->wr.rdma.remote_addr = remote_addr;
	wr->wr.rdma.rkey = rkey;
}

static void mesh_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
				   uint64_t swap)
{
	LEAVE_TO_BASE(wr_atomic_cmp_swp, rkey, remote_addr, compare, swap);
	atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void mesh_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	LEAVE_TO_BASE(wr_atomic_fetch_add, rkey, remote_addr, add);
	atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

static void mesh_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	LEAVE_TO_BASE(wr_rdma_read, rkey, remote_addr);
	rdma(qp, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}

static void mesh_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	LEAVE_TO_BASE(wr_rdma_write, rkey, remote_addr);
	rdma(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

static void mesh_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
	LEAVE_TO_BASE(wr_rdma_write_imm, rkey, remote_addr, imm_data);
	rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm_data);
}

static void mesh_wr_send(struct ibv_qp_ex *qp)
{
	LEAVE_TO_BASE(wr_send);
	begin(qp, IBV_WR_SEND);
}

static void mesh_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	struct ibv_send_wr *wr;

	LEAVE_TO_BASE(wr_send_imm, imm_data);
	wr = begin(qp, IBV_WR_SEND_WITH_IMM);
	if (wr)
		wr->imm_data = imm_data;
}

static void mesh_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
			    const struct ibv_mw_bind_info *bind_info)
{
	LEAVE_TO_BASE(wr_bind_mw, mw, rkey, bind_info);
	refuse(qp);
}

static void mesh_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	LEAVE_TO_BASE(wr_local_inv, invalidate_rkey);
	refuse(qp);
}

static void mesh_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	LEAVE_TO_BASE(wr_send_inv, invalidate_rkey);
	refuse(qp);
}

static void mesh_wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	LEAVE_TO_BASE(wr_send_tso, hdr, hdr_sz, mss);
	refuse(qp);
}

static void mesh_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	LEAVE_TO_BASE(wr_set_ud_addr, ah, remote_qpn, remote_qkey);
	refuse(qp);
}

static void mesh_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	LEAVE_TO_BASE(wr_set_xrc_srqn, remote_srqn);
	refuse(qp);
}

static void mesh_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct mesh_wrex *w = atomic_load_explicit(&held_of(qp)->wrex, memory_order_relaxed);

	LEAVE_TO_BASE(wr_set_sge_list, num_sge, sg_list);
	if (!w->current)
		return;
	if (num_sge > w->queue.max_sge) {
		fail(w, ENOMEM);
		return;
	}
	if (num_sge) /* else there may be no list */
		memcpy(w->current->sges, sg_list, num_sge * sizeof(*sg_list));
	w->current->wr.num_sge = (int)num_sge;
}

static void mesh_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	LEAVE_TO_BASE(wr_set_sge, lkey, addr, length);
	mesh_wr_set_sge_list(qp, 1, &sge);
}

static void mesh_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf, const struct ibv_data_buf *buf_list)
{
	struct mesh_wrex *w = atomic_load_explicit(&held_of(qp)->wrex, memory_order_relaxed);
	size_t used = 0, i;
	char *data;

	LEAVE_TO_BASE(wr_set_inline_data_list, num_buf, buf_list);
	if (!w->current)
		return;
	data = (char *)&w->current->sges[w->queue.max_sge];
	for (i = 0; i < num_buf; i++) {
		if (buf_list[i].length > w->queue.max_inline - used) {
			fail(w, ENOMEM);
			return;
		}
		if (buf_list[i].length)
			memcpy(data + used, buf_list[i].addr, buf_list[i].length);
		used += buf_list[i].length;
	}
	w->current->sges[0] = (struct ibv_sge){.addr = (uintptr_t)data, .length = (uint32_t)used};
	w->current->wr.num_sge = used ? 1 : 0;
	w->current->wr.send_flags |= IBV_SEND_INLINE;
}

static void mesh_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	LEAVE_TO_BASE(wr_set_inline_data, addr, length);
	mesh_wr_set_inline_data_list(qp, 1, &buf);
}

/* Somebody has come in the middle of a batch to stop posting, and comes again: one batch after the other would keep him out for ever. */
static void give_way(struct mesh_held *h)
{
	int cancel;

	if (!atomic_load_explicit(&h->stop_wanted, memory_order_relaxed) ||
	    !atomic_exchange_explicit(&h->stop_wanted, false, memory_order_relaxed))
		return;
	cancel = mesh_cancel_off(); /* bare no thread is cancelled here */
	usleep(GIVE_WAY_US);
	mesh_cancel_restore(cancel);
}

MV_LOCKS_UNCHECKED static void mesh_wr_start(struct ibv_qp_ex *qp)
{
	struct mesh_held *h = held_of(qp);
	struct mesh_wrex *w;
	bool ours, left;

	if (!h) {
		qp->wr_start(qp); /* went native a moment ago: the functions are the base's again */
		return;
	}
	give_way(h);
	mesh_lock(&h->post_lock);
	mesh_lock(&h->lock);
	w = atomic_load_explicit(&h->wrex, memory_order_relaxed);
	ours = h->qp == &qp->qp_base && w && w->installed;
	left = ours && mesh_post_is_left(h);
	if (ours && !left) {
		if (h->queue.n)
			mesh_post_drain(h);
		w->queue = h->queue;
		w->left = false;
		w->end = h->queue.head + h->queue.n;
		if (w->end >= h->queue.size)
			w->end -= h->queue.size;
		w->room = h->queue.size - h->queue.n;
		w->n = 0;
		w->current = NULL;
		w->err = 0;
		atomic_store_explicit(&w->builder, (uintptr_t)pthread_self(), memory_order_relaxed);
	}
	mesh_unlock(&h->lock);
	if (ours && !left) {
		mesh_lock_lend(&h->post_lock);
		return;
	}
	mesh_unlock(&h->post_lock);
	(left ? w->base.wr_start : qp->wr_start)(qp);
}

/* held->lock */
static void end_batch(struct mesh_wrex *w)
{
	if (w->left)
		mesh_sendq_fini(&w->queue);
	w->left = false;
	atomic_store_explicit(&w->builder, 0, memory_order_relaxed);
}

/* To the queue that has come in the place of the one it was built for. held->lock. Return: 0 or errno. */
static int carry_over(struct mesh_held *h, const struct mesh_wrex *w)
{
	uint32_t had = h->queue.n, i;
	int err = 0;

	for (i = 0; i < w->n && !err; i++)
		err = mesh_sendq_push(&h->queue, &place_of(w, i)->wr);
	h->queue.n = had; /* mesh_post_append() adds them, all or none */
	return err;
}

/* What others have posted since waits for the end of a batch of the base's. */
static void drain(struct mesh_held *h)
{
	mesh_lock(&h->lock);
	if (h->queue.n)
		mesh_post_drain(h);
	mesh_unlock(&h->lock);
}

MV_LOCKS_UNCHECKED static int mesh_wr_complete(struct ibv_qp_ex *qp)
{
	struct mesh_held *h = held_of(qp);
	struct mesh_wrex *w = atomic_load_explicit(&h->wrex, memory_order_relaxed);
	bool fails = false;
	int err;

	if (of_base(qp)) {
		err = w->base.wr_complete(qp);
		drain(h);
		return err;
	}
	err = w->err;
	if (!err && !mesh_held_takes_sends(h))
		err = EINVAL; /* what mlx5 says */
	mesh_lock(&h->lock);
	if (!err && w->left)
		err = carry_over(h, w);
	if (!err) {
		mesh_post_append(h, w->n);
		fails = mesh_held_fails(h);
	}
	end_batch(w);
	mesh_unlock(&h->lock);
	mesh_unlock(&h->post_lock);
	if (fails)
		mesh_post_fails(h);
	return err;
}

MV_LOCKS_UNCHECKED static void mesh_wr_abort(struct ibv_qp_ex *qp)
{
	const struct mesh_wrex *base = of_base(qp);
	struct mesh_held *h = held_of(qp);

	if (base) {
		base->base.wr_abort(qp);
		drain(h);
		return;
	}
	mesh_lock(&h->lock);
	end_batch(atomic_load_explicit(&h->wrex, memory_order_relaxed));
	mesh_unlock(&h->lock);
	mesh_unlock(&h->post_lock);
}

static uintptr_t builder_of(const struct mesh_held *h)
{
	struct mesh_wrex *w = atomic_load_explicit(&h->wrex, memory_order_acquire);

	return w ? atomic_load_explicit(&w->builder, memory_order_relaxed) : 0;
}

bool mesh_held_in_batch(const struct mesh_held *h)
{
	return builder_of(h);
}

bool mesh_held_in_own_batch(const struct mesh_held *h)
{
	return builder_of(h) == (uintptr_t)pthread_self();
}

void mesh_wrex_leave_queue(struct mesh_held *h)
{
	struct mesh_wrex *w = atomic_load_explicit(&h->wrex, memory_order_relaxed);

	if (!mesh_held_in_batch(h) || w->left) {
		mesh_sendq_fini(&h->queue);
		return;
	}
	w->left = true;
	h->queue = (struct mesh_sendq){0};
}

int mesh_wrex_alloc(struct mesh_held *h)
{
	struct mesh_wrex *w = atomic_load_explicit(&h->wrex, memory_order_relaxed);

	if (w || !mesh_root.lib.verbs.qp_to_qp_ex(h->qp))
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	atomic_store_explicit(&h->wrex, w, memory_order_release);
	return 0;
}

/* The program's threads read these places without any order; see data.c. */
__attribute__((no_sanitize("thread"), noinline)) static void put_functions(struct ibv_qp_ex *qp)
{
	/* What the provider does not have stays without. wr_start last: a batch of ours finds all of them. */
#define X(f)                                                                                                 \
	if (qp->f)                                                                                           \
		__atomic_store_n(&qp->f, mesh_##f, __ATOMIC_RELEASE);
	WR_FUNCTIONS(X)
#undef X
}

/* wr_start last here, too: a batch of the base's finds none of ours, which are lost without the record. */
__attribute__((no_sanitize("thread"), noinline)) static void put_back_functions(struct ibv_qp_ex *qp, const struct mesh_wrex *w)
{
#define X(f) __atomic_store_n(&qp->f, w->base.f, __ATOMIC_RELEASE);
	WR_FUNCTIONS(X)
#undef X
}

void mesh_wrex_install(struct mesh_held *h)
{
	struct ibv_qp_ex *qp = mesh_root.lib.verbs.qp_to_qp_ex(h->qp);
	struct mesh_wrex *w = atomic_load_explicit(&h->wrex, memory_order_relaxed);

	if (!qp || w->installed)
		return;
#define X(f) w->base.f = qp->f;
	WR_FUNCTIONS(X)
#undef X
	atomic_thread_fence(memory_order_release);
	put_functions(qp);
	w->installed = true;
}

void mesh_wrex_remove(struct mesh_held *h)
{
	struct mesh_wrex *w = atomic_load_explicit(&h->wrex, memory_order_relaxed);

	if (!w || !w->installed)
		return;
	put_back_functions(mesh_root.lib.verbs.qp_to_qp_ex(h->qp), w);
	w->installed = false;
}

void mesh_wrex_changed(struct mesh_held *h)
{
	struct mesh_wrex *w = atomic_load_explicit(&h->wrex, memory_order_relaxed);
	struct ibv_qp_ex *qp;

	if (!w || !w->installed)
		return;
	qp = mesh_root.lib.verbs.qp_to_qp_ex(h->qp);
#define X(f)                                                                                                 \
	if (qp->f && qp->f != mesh_##f) {                                              \
		w->base.f = qp->f;                                                                           \
		qp->f = mesh_##f;                                                                            \
	}
	WR_FUNCTIONS(X)
#undef X
}
