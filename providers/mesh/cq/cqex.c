// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "cqint.h"

/*
 * Extended CQs: start_poll, next_poll, end_poll and the read functions, over the sources of poll.c. Hot: no allocation, no system
 * call, no log.
 *
 * At most one of the program's CQ and its shadows is open at a time. poll_lock is held from start_poll to end_poll, and so is the
 * provider's lock of the open CQ. cq->lock comes after both, and is taken for look-ups only. Shadows of an extended CQ are made
 * with the same flags, so they have the same functions.
 */

static struct mesh_cq *cq_of(struct ibv_cq_ex *cq)
{
	return mesh_map_get(&mesh_context_get(cq->context)->data.cqs, cq);
}

static struct ibv_cq_ex *shadow_of(const struct mesh_cq_walk *walk)
{
	return (struct ibv_cq_ex *)(void *)walk->open_shadow->cq;
}

static void close_open(struct mesh_cq *cq, struct ibv_cq_ex *ex)
{
	if (cq->walk.open == MESH_FROM_BASE)
		cq->ex.lower.end_poll(ex);
	else if (cq->walk.open == MESH_FROM_SHADOW)
		ibv_end_poll(shadow_of(&cq->walk));
	cq->walk.open = MESH_FROM_NONE;
}

/* Close the open source, which may have more completions, so it gets another turn. */
static void close_for_now(struct mesh_cq *cq, struct ibv_cq_ex *ex)
{
	if (cq->walk.open == MESH_FROM_BASE)
		cq->walk.lower_done = false;
	else if (cq->walk.open == MESH_FROM_SHADOW)
		cq->walk.next_shadow = cq->walk.open_shadow;
	close_open(cq, ex);
}

/* Return: true: a completion of the software CQ is the current one. */
static bool poll_sw_cq(struct mesh_cq *cq, struct ibv_cq_ex *ex)
{
	bool some;

	mesh_lock(&cq->lock);
	some = cq->sw_cq.n;
	if (some) {
		cq->walk.current = cq->sw_cq.wcs[0];
		mesh_sw_cq_remove(cq, 1);
	}
	mesh_unlock(&cq->lock);
	if (!some)
		return false;
	close_for_now(cq, ex);
	cq->walk.source = MESH_FROM_SW_CQ;
	ex->status = cq->walk.current.status;
	ex->wr_id = cq->walk.current.wr_id;
	return true;
}

#define NO_SOURCE (-1)

/* Open the next source. Return: as its start_poll; NO_SOURCE: all sources had their turn. */
static int start_next(struct mesh_cq *cq, struct ibv_cq_ex *ex)
{
	struct ibv_poll_cq_attr none = {0};
	bool lower = cq->polls.shadows_first ? !cq->walk.next_shadow && !cq->walk.lower_done : !cq->walk.lower_done;
	int err;

	if (lower) {
		cq->walk.lower_done = true;
		err = cq->ex.lower.start_poll(ex, &none);
		if (!err)
			cq->walk.open = MESH_FROM_BASE;
		return err;
	}
	while (cq->walk.next_shadow && mesh_shadow_cq_is_away(cq->walk.next_shadow))
		cq->walk.next_shadow = cq->walk.next_shadow->next;
	if (!cq->walk.next_shadow)
		return NO_SOURCE;
	cq->walk.open_shadow = cq->walk.next_shadow;
	cq->walk.next_shadow = cq->walk.next_shadow->next;
	err = ibv_start_poll(shadow_of(&cq->walk), &none);
	if (!err)
		cq->walk.open = MESH_FROM_SHADOW;
	return err;
}

static void start_over(struct mesh_cq *cq)
{
	/* The list only grows at its front, so it is walked without the lock. */
	mesh_lock(&cq->lock);
	cq->walk.next_shadow = cq->shadows.polled;
	mesh_unlock(&cq->lock);
	cq->walk.lower_done = false;
	cq->walk.notified = false;
}

/* Move the current completion of cq->walk.source to the software CQ, if needed: mesh_poll_behind(). cq->lock */
static bool goes_behind(struct mesh_cq *cq, struct ibv_cq_ex *ex);

/*
 * As notice_passthrough() of poll.c. Without QPNs, all QPs of the CQ count as users of one SRQ; none of them has a log
 * (mesh_cq_names_qps()). Return: should it be shown?
 */
static bool notice_passthrough(struct mesh_cq *cq, struct ibv_cq_ex *ex)
{
	struct mesh_completion c = {
		.wr_id = ex->wr_id,
		.cq = cq,
		.status = ex->status,
		.receive = ex->status == IBV_WC_SUCCESS && cq->ex.lower.read_opcode(ex) & IBV_WC_RECV,
	};
	const struct mesh_cq_qp *qp = NULL;
	bool show;
	size_t i;

	mesh_lock(&cq->lock);
	if (cq->ex.lower.read_qp_num)
		qp = mesh_qpns_find(&cq->own_qps.qpns, cq->ex.lower.read_qp_num(ex));
	for (i = 0; !cq->ex.lower.read_qp_num && !qp && i < cq->own_qps.qpns.n_places; i++)
		if (cq->own_qps.qpns.places[i].rail_srq)
			qp = &cq->own_qps.qpns.places[i];
	cq->walk.source = MESH_FROM_BASE;
	show = !qp || (mesh_poll_noticed(qp, &c) && !(qp->vqp && goes_behind(cq, ex)));
	mesh_unlock(&cq->lock);
	return show;
}

static bool take_shadow(struct mesh_cq *cq, struct ibv_cq_ex *ex)
{
	struct ibv_cq_ex *shadow = shadow_of(&cq->walk);
	struct mesh_completion c = {
		.wr_id = shadow->wr_id,
		.cq = cq,
		.status = shadow->status,
		.receive = shadow->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(shadow) & IBV_WC_RECV,
	};
	const struct mesh_cq_qp *qp;
	bool show;

	mesh_lock(&cq->lock);
	qp = mesh_qpns_find(&cq->walk.open_shadow->qpns, ibv_wc_read_qp_num(shadow));
	show = qp && mesh_poll_noticed(qp, &c) && mesh_poll_is_shown(qp, &c);
	if (show) {
		cq->walk.current_qpn = qp->qpn;
		cq->walk.current_opcode = c.opcode;
		cq->walk.source = MESH_FROM_SHADOW;
		ex->status = c.status;
		ex->wr_id = shadow->wr_id;
		show = !goes_behind(cq, ex);
	}
	mesh_unlock(&cq->lock);
	return show;
}

/* Process the completion of the open source. Return: should it be shown? */
static bool take_open(struct mesh_cq *cq, struct ibv_cq_ex *ex)
{
	if (cq->walk.open == MESH_FROM_BASE) {
		if (mesh_cq_notify_is(cq, ex->wr_id)) {
			mesh_cq_notify_seen(&cq->notify);
			cq->walk.notified = true;
			return false;
		}
		if (atomic_load_explicit(&cq->own_qps.counts, memory_order_relaxed) && !notice_passthrough(cq, ex))
			return false;
		cq->walk.source = MESH_FROM_BASE;
		return true;
	}
	return take_shadow(cq, ex);
}

/* Return: 0: there is a current completion; ENOENT: there is none; else the error of a source. */
static int advance(struct mesh_cq *cq, struct ibv_cq_ex *ex)
{
	int err;

	for (;;) {
		if (poll_sw_cq(cq, ex))
			return 0;
		if (cq->walk.open == MESH_FROM_BASE)
			err = cq->ex.lower.next_poll(ex);
		else if (cq->walk.open == MESH_FROM_SHADOW)
			err = ibv_next_poll(shadow_of(&cq->walk));
		else
			err = start_next(cq, ex);
		if (!err) {
			if (take_open(cq, ex))
				return 0;
		} else if (err == ENOENT) {
			close_open(cq, ex);
		} else if (err != NO_SOURCE) {
			return err;
		} else if (cq->walk.notified) {
			start_over(cq);
		} else {
			return ENOENT;
		}
	}
}

MV_LOCKS_UNCHECKED static void finish(struct mesh_cq *cq, struct ibv_cq_ex *ex)
{
	bool drain;

	close_open(cq, ex);
	cq->walk.source = MESH_FROM_NONE;
	cq->polls.shadows_first = !cq->polls.shadows_first;
	/* In this order, see keep_from_polling() of post.c. Another poll begins with poll_lock. */
	atomic_store_explicit(&cq->poller.thread, 0, memory_order_seq_cst);
	drain = atomic_load_explicit(&cq->poller.drain_wanted, memory_order_seq_cst);
	if (drain)
		atomic_store_explicit(&cq->poller.drain_wanted, false, memory_order_relaxed);
	mesh_unlock(&cq->poll_lock);
	if (drain)
		mesh_cq_clients.post_drain_all(cq->mc);
	if (atomic_load_explicit(&cq->mc->data.n_reap, memory_order_relaxed))
		mesh_cq_clients.reaper_run(cq->mc, cq, false);
}

/*
 * Wait for a thread that posts, and may look at the CQ with locks that this poll will need. That thread waits for no lock of this
 * one. poll_lock
 */
static void wait_for_posting(struct mesh_cq *cq)
{
	unsigned int n;
	int cancel;

	if (!atomic_load_explicit(&cq->poller.posting, memory_order_seq_cst))
		return;
	cancel = mesh_cancel_off();
	for (n = 0; atomic_load_explicit(&cq->poller.posting, memory_order_seq_cst); n++)
		if (n < 100)
			sched_yield();
		else
			usleep(20); /* the other thread may have a lower priority */
	mesh_cancel_restore(cancel);
}

MV_LOCKS_UNCHECKED static int mesh_cqex_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct mesh_cq *cq = cq_of(ex);
	bool stalled;
	int err;

	if (attr->comp_mask)
		return EINVAL;
	mesh_lock(&cq->poll_lock);
	start_over(cq);
	cq->walk.source = cq->walk.open = MESH_FROM_NONE;
	atomic_store_explicit(&cq->poller.thread, (uintptr_t)pthread_self(), memory_order_seq_cst);
	wait_for_posting(cq);
	err = advance(cq, ex);
	if (err) {
		stalled = err == ENOENT && mesh_helper_stalled(&cq->polls.stall);
		finish(cq, ex);
		if (stalled)
			mesh_cq_clients.stalled_flush(cq);
	} else {
		mesh_lock_lend(&cq->poll_lock);
	}
	return err;
}

static int mesh_cqex_next_poll(struct ibv_cq_ex *ex)
{
	struct mesh_cq *cq = cq_of(ex);
	int err;

	if (mesh_cq_is_own_poll(cq))
		return advance(cq, ex);
	do
		err = cq->ex.lower.next_poll(ex);
	while (!err && mesh_cq_notify_is(cq, ex->wr_id) && (mesh_cq_notify_seen(&cq->notify), true));
	return err;
}

static void mesh_cqex_end_poll(struct ibv_cq_ex *ex)
{
	struct mesh_cq *cq = cq_of(ex);

	if (!mesh_cq_is_own_poll(cq)) {
		cq->ex.lower.end_poll(ex);
		return;
	}
	finish(cq, ex);
}

static enum mesh_cq_source source_of(struct mesh_cq *cq)
{
	return mesh_cq_is_own_poll(cq) ? cq->walk.source : MESH_FROM_BASE;
}

/* Read functions: ask the source of the current completion; @made: the answer for completions of the software CQ. */
#define READ(type, f, made)                                                                                  \
	static type mesh_cqex_##f(struct ibv_cq_ex *ex)                                                      \
	{                                                                                                    \
		struct mesh_cq *cq = cq_of(ex);                                                              \
                                                                                                             \
		switch (source_of(cq)) {                                                                     \
		case MESH_FROM_SW_CQ:                                                                        \
			return (made);                                                                       \
		case MESH_FROM_SHADOW:                                                                       \
			return shadow_of(&cq->walk)->f(shadow_of(&cq->walk));                                \
		default:                                                                                     \
			return cq->ex.lower.f(ex);                                                            \
		}                                                                                            \
	}

READ(uint32_t, read_vendor_err, cq->walk.current.vendor_err)
READ(uint32_t, read_byte_len, cq->walk.current.byte_len)
READ(__be32, read_imm_data, cq->walk.current.imm_data)
READ(uint32_t, read_src_qp, cq->walk.current.src_qp)
READ(unsigned int, read_wc_flags, cq->walk.current.wc_flags)
READ(uint32_t, read_slid, cq->walk.current.slid)
READ(uint8_t, read_sl, cq->walk.current.sl)
READ(uint8_t, read_dlid_path_bits, cq->walk.current.dlid_path_bits)
READ(uint64_t, read_completion_ts, 0)
READ(uint16_t, read_cvlan, 0)
READ(uint32_t, read_flow_tag, 0)
READ(uint64_t, read_completion_wallclock_ns, 0)

static enum ibv_wc_opcode mesh_cqex_read_opcode(struct ibv_cq_ex *ex)
{
	struct mesh_cq *cq = cq_of(ex);

	switch (source_of(cq)) {
	case MESH_FROM_SW_CQ:
		return cq->walk.current.opcode;
	case MESH_FROM_SHADOW:
		return cq->walk.current_opcode ? *cq->walk.current_opcode : ibv_wc_read_opcode(shadow_of(&cq->walk));
	default:
		return cq->ex.lower.read_opcode(ex);
	}
}

static uint32_t mesh_cqex_read_qp_num(struct ibv_cq_ex *ex)
{
	struct mesh_cq *cq = cq_of(ex);

	switch (source_of(cq)) {
	case MESH_FROM_SW_CQ:
		return cq->walk.current.qp_num;
	case MESH_FROM_SHADOW:
		return cq->walk.current_qpn;
	default:
		return cq->ex.lower.read_qp_num(ex);
	}
}

/* Reads all fields that the program can read. */
static bool goes_behind(struct mesh_cq *cq, struct ibv_cq_ex *ex)
{
	struct ibv_wc wc = {.wr_id = ex->wr_id, .status = ex->status};

	if (!cq->sw_cq.n)
		return false;
	wc.vendor_err = mesh_cqex_read_vendor_err(ex);
	if (cq->walk.source == MESH_FROM_SHADOW || cq->ex.lower.read_qp_num)
		wc.qp_num = mesh_cqex_read_qp_num(ex);
	if (ex->status == IBV_WC_SUCCESS) {
		wc.opcode = mesh_cqex_read_opcode(ex);
		if (cq->ex.lower.read_byte_len)
			wc.byte_len = mesh_cqex_read_byte_len(ex);
		if (cq->ex.lower.read_wc_flags)
			wc.wc_flags = mesh_cqex_read_wc_flags(ex);
		if (cq->ex.lower.read_imm_data)
			wc.imm_data = mesh_cqex_read_imm_data(ex);
		if (cq->ex.lower.read_src_qp)
			wc.src_qp = mesh_cqex_read_src_qp(ex);
		if (cq->ex.lower.read_slid)
			wc.slid = (uint16_t)mesh_cqex_read_slid(ex);
		if (cq->ex.lower.read_sl)
			wc.sl = mesh_cqex_read_sl(ex);
		if (cq->ex.lower.read_dlid_path_bits)
			wc.dlid_path_bits = mesh_cqex_read_dlid_path_bits(ex);
	}
	return mesh_poll_behind(cq, &wc);
}

static void mesh_cqex_read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *tm_info)
{
	struct mesh_cq *cq = cq_of(ex);

	switch (source_of(cq)) {
	case MESH_FROM_SW_CQ:
		*tm_info = (struct ibv_wc_tm_info){0};
		break;
	case MESH_FROM_SHADOW:
		ibv_wc_read_tm_info(shadow_of(&cq->walk), tm_info);
		break;
	default:
		cq->ex.lower.read_tm_info(ex, tm_info);
	}
}

/* The program's threads read these pointers without ordering; see data.c. */
__attribute__((no_sanitize("thread"), noinline)) static void put_functions(struct ibv_cq_ex *ex)
{
	/* Functions that the provider leaves NULL for these flags stay NULL. */
#define X(f)                                                                                                 \
	if (ex->f)                                                                                           \
		__atomic_store_n(&ex->f, mesh_cqex_##f, __ATOMIC_RELEASE);
	MESH_CQ_EX_FUNCTIONS(X)
#undef X
}

void mesh_cqex_save(struct mesh_cq *cq)
{
	const struct ibv_cq_ex *ex = (const struct ibv_cq_ex *)(void *)cq->cq;

#define X(f) cq->ex.lower.f = ex->f;
	MESH_CQ_EX_FUNCTIONS(X)
#undef X
}

void mesh_cqex_install(struct mesh_cq *cq)
{
	atomic_thread_fence(memory_order_release);
	put_functions((struct ibv_cq_ex *)(void *)cq->cq);
}
