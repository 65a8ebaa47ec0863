/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_VQP_RECORD_H
#define MESH_VQP_RECORD_H

#include <sys/queue.h>

#include "cqrecord.h"
#include "srqrecord.h"

/*
 * Record of a virtual QP: a QP of the program whose work another QP may do. vqp.h describes its life, and the order of
 * locks.
 */

struct mesh_pd; /* rails.h */
struct mesh_vqp;
struct mesh_wr_tracker; /* wr_tracker.h */
struct mesh_reap_entry; /* reaper.c */
struct mesh_wrex; /* wrex.c */

struct mesh_vqp_ops {
	/**
	 * want_key - the program used a remote key whose translation is not known
	 * @arg: of mesh_vqp_new()
	 * @rkey: as the peer's program gave it out
	 *
	 * Called with vqp->lock: must not block, and must not call functions of this file. Either returns the
	 * translation, or sees to it that mesh_vqp_put_key() is called later. Not called again for that key until then,
	 * or until the key is dropped.
	 *
	 * Return: 0 with @ret written; -EAGAIN: later. The pointer is NULL for a self-connected QP, whose remote keys are of its
	 * own PD.
	 */
	int (*want_key)(void *arg, uint32_t rkey, uint32_t *ret);

	/**
	 * work_waits - the first send was queued
	 *
	 * Called with vqp->lock, with the same rules. May be NULL.
	 */
	void (*work_waits)(void *arg);

	/**
	 * path_failed - the QP that does the work went to ERR, because the peer does not acknowledge
	 *
	 * Called with vqp->lock, with the same rules. Completions in error are withheld until
	 * mesh_failover_flush_errors(), or for good if the connection moves. May be NULL: then nothing is withheld.
	 */
	void (*path_failed)(void *arg);
};

/* Attributes for INIT of a shadow: the program's, with the port of the rail. */
struct mesh_shadow_attr {
	uint8_t port_num;
	uint16_t pkey_index;
	unsigned int qp_access_flags;
};

#define MESH_FAILOVER_KEYS 2 /* remote keys that are asked for before they are needed */

struct mesh_failover_key {
	uint32_t rkey, path_rkey; /* the program's key; its translation for the next QP */
};

struct mesh_failover_keys {
	struct mesh_failover_key keys[MESH_FAILOVER_KEYS];
	size_t n;
};

enum mesh_vqp_mode {
	MESH_VQP_FREE, /* the record is not in use */
	MESH_VQP_RX_RECORD, /* receives go to the program's own QP, and are recorded */
	MESH_VQP_TRACKED, /* all work goes to the program's own QP, and is logged */
	MESH_VQP_QUEUING, /* sends wait in the queue */
	MESH_VQP_ACTIVE, /* all work goes to the shadow */
	MESH_VQP_DRAINING, /* the QP at work is being drained: sends wait in the queue, receives in the log */
	MESH_VQP_DRAINED, /* that QP is empty: sends wait, receives go to the next QP */
	MESH_VQP_FAILING, /* the next send fails */
	MESH_VQP_FLUSHING, /* the QP that has the work is in ERR */
	MESH_VQP_PASSTHROUGH, /* all work goes to the program's own QP */
};

/* Record of receives in the order of posting; none was consumed yet. */
struct mesh_recvlog {
	struct mesh_recv_note {
		uint64_t wr_id;
		int num_sge;
	} *notes;
	struct ibv_sge *sges; /* SGEs of all receives, one after the other */
	size_t n, size, n_sges, sges_size;
	bool incomplete; /* no memory for a receive */
};

/* A waiting send, followed by its SGEs and inline data. */
struct mesh_send {
	struct ibv_send_wr wr;
	struct ibv_sge sges[]; /* then inline data */
};

/* Ring of waiting sends, stride bytes apart. */
struct mesh_sendq {
	char *places; /* NULL: none */
	size_t stride;
	uint32_t size, head, n;
	uint32_t max_inline, max_sge;
};

#define MESH_KEYS 64u /* cached keys of each kind per QP; power of two */

struct mesh_rkey {
	uint32_t key, path_key;
	enum { MESH_RKEY_NONE, MESH_RKEY_ASKED, MESH_RKEY_KNOWN } state;
};

struct mesh_lkey {
	uint32_t key, path_key;
	uint64_t epoch; /* 0: empty place */
};

/* Cache of translated keys, for the QP that does the work. */
struct mesh_key_places {
	struct mesh_rkey rkeys[MESH_KEYS];
	struct mesh_lkey lkeys[MESH_KEYS];
};

/* A QP of the plugin in the program's place, on another rail. */
struct mesh_shadow {
	struct ibv_qp *qp; /* NULL: none, and the rest is invalid */
	struct mesh_pd *spd;
	struct mesh_shadow_cq *send_cq, *recv_cq;
	struct mesh_rail_srq *rail_srq; /* where its receives are; NULL: no SRQ */
	bool recv_failed; /* it refused a receive that the program's own QP took */
	bool rtr, rts; /* at least in that state */
	struct mesh_standby *standby; /* attributes of a connected standby; NULL: not connected, or taken */
	struct mesh_reap_entry *reap_entry; /* for mesh_reaper_add() */
};

/* Attributes with which a standby was brought to RTR and RTS. */
struct mesh_standby {
	struct ibv_qp_attr rtr, rts;
	int rtr_mask, rts_mask;
};

/* State of a drain: drain.c. conn->lock. */
struct mesh_drain {
	bool on;
	bool in_err; /* the QP has been brought to ERR */
	bool drained; /* all receives taken from an SRQ have completed: mesh_vqp_drained() */
	bool received; /* and have been polled */
	uint64_t err_ns; /* in ERR since, mesh_now_ns() */
	uint64_t until_ns, again_ns, step_ns;
	uint64_t limit_ns; /* from the begin of the drain to @until_ns */
};

/* Lists of records: data.c. */
struct mesh_vqp_lists {
	struct mesh_vqp *next_made; /* in data->all; constant */
	struct mesh_vqp *next_free; /* data->lock */
};

/* Batches of the program, and who stops them: wrex.c, vqp.c. */
struct mesh_vqp_posting {
	/*
	 * For QPs with ibv_wr_*: held from wr_start to wr_complete or wr_abort, and by ibv_post_send(), as providers do. Taken
	 * before vqp->lock. The program may call any function, and take its time, with posting.lock held. So only
	 * posts, and the program's own calls on this QP, wait for it. The helper thread would delay all connections,
	 * and a worker would hold conn->lock, which the program's thread may need. See mesh_vqp_stop_posting().
	 */
	MESH_LOCK(POST) lock;
	_Atomic uintptr_t stopper; /* thread that has stopped posting; 0: none; written under @lock */
	_Atomic bool stop_wanted; /* a thread failed to stop posting because of a batch: delay the next batch a little */
	struct mesh_wrex *_Atomic wrex; /* NULL: no ibv_wr_*; kept with the record */
};

/* The connection that the QP belongs to: vqp.c. vqp->lock. */
struct mesh_vqp_client {
	const struct mesh_vqp_ops *ops;
	void *arg;
};

/* As the program has made its own QP: vqp.c. vqp->lock; constant in all modes after RX_RECORD. */
struct mesh_vqp_made {
	struct ibv_qp_cap cap;
	uint8_t port_num;
	bool sq_sig_all;
};

/* Receives posted to the program's own QP before RTR: recvlog.c, postrecv.c, flush_errors.c. vqp->lock. */
struct mesh_vqp_early {
	struct mesh_recvlog log;
	uint32_t n_at_lower; /* those that the program's own QP has */
	bool hides_lower; /* that QP only flushes later: the completions of @n_at_lower are hidden */
};

/* What posts and polls tell each other: post.c, poll.c. Any thread, without a lock. */
struct mesh_vqp_flags {
	_Atomic bool backlog; /* the QP can send, but sends wait for room: polls try to post more */
	_Atomic bool consumed; /* a receive of the shadow has completed */
};

/* The list send_cq->sw_cq.flushing: fail.c, cq.c. Lock of that CQ. */
struct mesh_vqp_flushing {
	bool on; /* in the list */
	struct mesh_vqp *next;
};

/*
 * The QP that will do the work after the current move: vqp_failover.c. Written with conn->lock and vqp->lock, read with
 * either.
 */
struct mesh_vqp_next {
	struct mesh_shadow shadow;
	uint32_t mtu_bytes, sq_psn; /* with which it was connected */
};

/* The standby: vqp_failover.c. conn->lock. */
struct mesh_vqp_standby {
	struct mesh_shadow shadow;
	struct mesh_shadow_attr attr;
};

/* Work that the QP at work does not get, while it is brought to rest: drain.c, post.c, postrecv.c. vqp->lock. */
struct mesh_vqp_paused {
	enum {
		MESH_QUIET_NO,
		MESH_QUIET_SOON, /* once a signaled request is posted, which tells that earlier atomics are done */
		MESH_QUIET_YES, /* atomics, and work behind them, wait in the queue */
	} quiet;
	/* logged receives that no QP has; DRAINING: not yet; DRAINED: refused by the next QP */
	uint32_t n_new_receives;
};

/* Properties that a QP on another rail has to have: parity.c. conn->lock. */
struct mesh_vqp_parity {
	const char *poorer; /* property that the last connected QP lacked; NULL: none */
	bool order_known, in_order; /* does the program's own QP place data in order? */
};

/* How the QP ends in ERR: fail.c, flush_errors.c, post.c, lastwqe.c. vqp->lock. */
struct mesh_vqp_failure {
	bool ended; /* the program knows that the QP is in ERR: it brought the QP there, or got an error */
	enum ibv_wc_status status; /* of the first send that fails: in FAILING, or in FLUSHING for lack of a key */
	/* A send that fails on purpose, in place of one that the device must not execute. */
	struct mesh_flush_marker {
		bool posted; /* in FLUSHING, and has not completed */
		uint64_t wr_id;
	} flush_marker;
};

/*
 * Keys of the program's work, and their translations for the QP at work: post.c, keysof.c, rkey_cache.c, usedkeys.c.
 * vqp->lock.
 */
struct mesh_vqp_keys {
	struct ibv_sge *sges; /* scratch for the translated SGEs of one request: max(max_send_sge, max_recv_sge) */
	uint32_t checked_lkey, used_rkey; /* keys of the last intercepted posts to the program's own QP; 0: none */
	struct mesh_key_places *places; /* NULL: mesh_vqp_room() was not called yet, so no shadow is in use */
};

/* IBV_EVENT_QP_LAST_WQE_REACHED of the program's own QP: lastwqe.c. last_wqe->lock. */
struct mesh_vqp_last_wqe {
	enum mesh_last_wqe_state {
		MESH_LAST_WQE_NONE,
		MESH_LAST_WQE_WITHHELD, /* was read, and is withheld and unacknowledged */
		MESH_LAST_WQE_DUE, /* the same, but the program gets it with its next read */
	} state;
	TAILQ_ENTRY(mesh_vqp) next_due;
	bool of_lower; /* the event was read */
};

struct mesh_vqp {
	struct mesh_vqp_lists lists;
	struct mesh_context *mc; /* constant */
	struct mesh_vqp_posting posting;

	MESH_LOCK(VQP) lock; /* guards the rest, unless noted otherwise */
	struct ibv_qp *qp; /* NULL: the record is free */
	enum mesh_vqp_mode mode;
	struct mesh_vqp_client client;
	struct mesh_vqp_made made;
	struct mesh_cq *send_cq, *recv_cq; /* constant in all modes after RX_RECORD, as the next */
	struct mesh_srq *srq; /* NULL: none */
	struct mesh_vqp_early early;
	struct mesh_sendq queue; /* not allocated as long as @keys.places is NULL */
	struct mesh_vqp_flags flags;
	struct mesh_vqp_flushing flushing;

	struct mesh_shadow now; /* does the work, or will once the connection is made */
	struct mesh_vqp_next next;
	struct mesh_shadow old; /* did the work before; conn->lock, as the next two */
	struct mesh_drain drain;
	struct mesh_vqp_standby standby;
	struct mesh_wr_tracker *tracker; /* the log; NULL: none, so the QP cannot move at work */
	struct mesh_vqp_paused paused;
	struct mesh_vqp_parity parity; /* conn->lock, as the next two */
	bool unwoken; /* the software CQ has completions, but no completion event could be made */
	bool logged_lower; /* completions of the program's own QP are logged */
	struct mesh_vqp_failure failure;
	struct mesh_vqp_keys keys;
	struct mesh_vqp_last_wqe last_wqe;
};

/* Takes vqp->lock. */
static inline enum mesh_vqp_mode mesh_vqp_mode(struct mesh_vqp *h)
{
	enum mesh_vqp_mode mode;

	mesh_lock(&h->lock);
	mode = h->mode;
	mesh_unlock(&h->lock);
	return mode;
}

/* Is the calling thread polling one of the QP's extended CQs? Waiting for the end of that poll would be a deadlock. */
static inline bool mesh_vqp_is_own_poll(const struct mesh_vqp *h)
{
	return mesh_cq_is_own_poll(h->send_cq) || mesh_cq_is_own_poll(h->recv_cq);
}

/* By the state that the program sees: no sends before RTS. libibverbs writes the state after a successful ibv_modify_qp(). */
static inline bool mesh_vqp_takes_sends(const struct mesh_vqp *h)
{
	return h->qp->state >= IBV_QPS_RTS;
}

/* Does a successful request get a completion? */
static inline bool mesh_vqp_signals(const struct mesh_vqp *h, const struct ibv_send_wr *wr)
{
	return h->made.sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED;
}

/** mesh_vqp_find - the record of a QP; any thread. Compare @qp once its lock is held: the record may be reused. */
static inline struct mesh_vqp *mesh_vqp_find(struct mesh_context *mc, const struct ibv_qp *qp)
{
	return mesh_map_get(&mc->data.qps, qp);
}

#endif
