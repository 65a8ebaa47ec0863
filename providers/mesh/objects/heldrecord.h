/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_HELDRECORD_H
#define MESH_HELDRECORD_H

#include <sys/queue.h>

#include "cqrecord.h"
#include "srqrecord.h"

/* A QP of the program whose work may go elsewhere, as the plugin keeps it; held.h has its life and the order of locks. */

struct mesh_pd; /* rails.h */
struct mesh_held;
struct mesh_guard; /* guard.h */
struct mesh_leftover; /* leftover.c */
struct mesh_wrex; /* wrex.c */

struct mesh_held_ops {
	/**
	 * want_key - the program used a remote key whose translation is not known
	 * @arg: of mesh_held_new()
	 * @rkey: as the peer's program gave it out
	 *
	 * Called with held->lock: must not wait and must not call functions of this file. Either it knows at once,
	 * or sees to it that mesh_held_put_key() will be called some time; it is not called again for a key until
	 * then, or until the key is dropped.
	 *
	 * Return: 0 with @ret written; -EAGAIN: later. NULL: it is connected to itself, and the keys that it uses are its program's
	 * own, of the same PD.
	 */
	int (*want_key)(void *arg, uint32_t rkey, uint32_t *ret);

	/**
	 * work_waits - the first send was queued
	 *
	 * Called with held->lock, same rules. May be NULL.
	 */
	void (*work_waits)(void *arg);

	/**
	 * path_failed - the QP that does the work went to ERR because nothing came back from the peer
	 *
	 * Called with held->lock, same rules. What it completes in error is kept from the program until mesh_live_surface(),
	 * or for good if the connection is moved. May be NULL: then nothing is kept.
	 */
	void (*path_failed)(void *arg);
};

/* What the shadow's INIT needs: the program's own attributes, with the port of the rail. */
struct mesh_shadow_attr {
	uint8_t port_num;
	uint16_t pkey_index;
	unsigned int qp_access_flags;
};

#define MESH_LIVE_KEYS 2 /* remote keys that can be asked for before they are needed */

struct mesh_live_key {
	uint32_t rkey, path_rkey; /* the program's; the one for the next QP */
};

struct mesh_live_keys {
	struct mesh_live_key keys[MESH_LIVE_KEYS];
	size_t n;
};

enum mesh_held_mode {
	MESH_HELD_FREE, /* record not in use */
	MESH_HELD_NOTING, /* receives go to the base and are noted */
	MESH_HELD_GUARDED, /* everything goes to the base and is logged */
	MESH_HELD_WAITING, /* sends wait in the queue */
	MESH_HELD_ACTIVE, /* sends go to the shadow */
	MESH_HELD_FENCING, /* what did the work is being emptied: sends wait in the queue, receives in the log */
	MESH_HELD_FENCED, /* it is empty: sends wait, receives go to what comes next */
	MESH_HELD_FAILING, /* the next send fails */
	MESH_HELD_FLUSHING, /* target is in ERR */
	MESH_HELD_NATIVE, /* everything goes to the base */
};

/* Receives in the order they were posted, none of them consumed yet. */
struct mesh_recvlog {
	struct mesh_recv_note {
		uint64_t wr_id;
		int num_sge;
	} *notes;
	struct ibv_sge *sges; /* of all of them, one after the other */
	size_t n, size, n_sges, sges_size;
	bool incomplete; /* there was no memory for one */
};

/* A send that waits; its scatter/gather list and inline data follow it. */
struct mesh_send {
	struct ibv_send_wr wr;
	struct ibv_sge sges[]; /* then the data of an inline send */
};

/* A ring of them. Places are stride bytes apart. */
struct mesh_sendq {
	char *places; /* NULL: none */
	size_t stride;
	uint32_t size, head, n;
	uint32_t max_inline, max_sge;
};

#define MESH_KEYS 64u /* of each kind, that a QP remembers; power of two */

struct mesh_rkey {
	uint32_t key, path_key;
	enum { MESH_RKEY_NONE, MESH_RKEY_ASKED, MESH_RKEY_KNOWN } state;
};

struct mesh_lkey {
	uint32_t key, path_key;
	uint64_t epoch; /* 0: empty place */
};

/* Translations for the QP that does the work. */
struct mesh_key_places {
	struct mesh_rkey rkeys[MESH_KEYS];
	struct mesh_lkey lkeys[MESH_KEYS];
};

/* A QP of ours in the program's place, on another rail. */
struct mesh_shadow {
	struct ibv_qp *qp; /* NULL: none; then the rest does not count */
	struct mesh_pd *spd;
	struct mesh_shadow_cq *send_cq, *recv_cq;
	struct mesh_srq_home *home; /* where its receives are; NULL: its own */
	bool recv_failed; /* it did not take a receive that the base took */
	bool rtr, rts; /* it is at least there */
	struct mesh_standby *standby; /* how it was connected ahead; NULL: it was not, or that does not matter any more */
	struct mesh_leftover *leftover; /* for mesh_leftover_add() */
};

/* What a QP that was made ahead was brought to RTR and RTS with. */
struct mesh_standby {
	struct ibv_qp_attr rtr, rts;
	int rtr_mask, rts_mask;
};

/* A QP that is being fenced: when to bring it to ERR again, and when to give up. */
struct mesh_fence {
	bool on;
	bool in_err; /* it has been brought there */
	bool drained; /* all that it took from an SRQ has completed: mesh_held_drained() */
	bool received; /* and has been polled */
	uint64_t err_ns; /* since then it is in ERR */
	uint64_t until_ns, again_ns, step_ns;
	uint64_t limit_ns; /* from its begin to @until_ns */
};

struct mesh_held {
	struct mesh_held *next_made; /* in data->all; constant */
	struct mesh_held *next_free; /* data->lock */
	struct mesh_context *mc; /* constant */

	/*
	 * For QPs with ibv_wr_*: held from wr_start to wr_complete or wr_abort, and by ibv_post_send(), as providers do.
	 * Taken before @lock. A thread may call anything while it has it, or take its time, so nothing but posting and what the program
	 * itself does to its QP waits for it: the helper thread would keep all connections waiting, and a worker conn->lock, which that
	 * thread may ask for. See mesh_held_stop_posting().
	 */
	MESH_LOCK(POST) post_lock;
	_Atomic uintptr_t stopper; /* thread that has stopped posting; 0: none; written under post_lock */
	_Atomic bool stop_wanted; /* one has tried to, and could not for a batch; the next batch begins a little later */

	MESH_LOCK(HELD) lock; /* guards the rest but for the atomics */
	struct ibv_qp *qp; /* NULL: record is free */
	enum mesh_held_mode mode;
	bool ended; /* the program knows that it is in ERR: it brought it there, or was given an error of it */
	const struct mesh_held_ops *ops;
	void *arg;
	struct ibv_qp_cap cap;
	uint8_t port_num; /* of the base's */
	bool sq_sig_all;
	struct mesh_cq *send_cq, *recv_cq; /* constant while held */
	struct mesh_srq *srq; /* NULL: none */
	struct mesh_recvlog log;
	struct mesh_sendq queue; /* without room as long as @keys is NULL */
	_Atomic bool backlog; /* the queue is not empty though the QP can send: poll tries to post more */
	_Atomic bool consumed; /* a receive of the shadow has completed */
	bool stashing; /* in send_cq->stashing; under its lock, as is the next */
	struct mesh_held *next_stashing;
	struct mesh_wrex *_Atomic wrex; /* wrex.c; NULL: no ibv_wr_*; stays with the record */

	struct mesh_shadow now; /* that does the work, or will when the connection is made */
	struct mesh_shadow next; /* that will do it when a live move is through */
	struct mesh_shadow old; /* that did it before; conn->lock, as are the next three */
	struct mesh_fence fence;
	struct mesh_shadow ahead; /* that may come next, made ahead */
	struct mesh_shadow_attr ahead_attr;
	struct mesh_guard *guard; /* NULL: no log, so no live moves */
	enum {
		MESH_QUIET_NO,
		MESH_QUIET_SOON, /* when something signaled is posted, which will tell that the atomics before it are done */
		MESH_QUIET_YES, /* atomics wait in the queue, and what is behind them */
	} quiet;
	uint32_t n_new_receives; /* logged, and at no QP: FENCING, yet; FENCED, because the next one does not take them */
	uint32_t next_mtu_bytes, next_sq_psn; /* of @next */
	const char *poorer; /* than the first: the one that was connected last; conn->lock, as are the next two; parity.h */
	bool order_known, in_order; /* does the program's own place data in order? */
	bool unwoken; /* there are completions in the stash, and no kicker could be made that tells of them; conn->lock */
	bool logged_base; /* its completions are looked for in the base's CQs; conn->lock */
	enum ibv_wc_status fail_status; /* of the first send that fails: mode FAILING; mode FLUSHING, for want of a key */
	bool poisoned; /* such a one was posted in mode FLUSHING, and its completion has not been seen */
	uint64_t poison_wr_id; /* its */
	/* Receives that the base was given in INIT. If it is to flush what comes in the end, those are not the program's to see: */
	uint32_t n_at_base;
	bool hides_base;

	struct ibv_sge *sges; /* max(max_send_sge, max_recv_sge): translated, for one work request */
	uint32_t checked_lkey, used_rkey; /* last of what was posted to the base and passed by here; 0: none */
	struct mesh_key_places *keys; /* NULL: mesh_held_room() was not called yet, so there is no shadow in use */

	/* IBV_EVENT_QP_LAST_WQE_REACHED of the base's, as the program read it; last_wqe->lock, as the next. */
	enum mesh_last_wqe_state {
		MESH_LAST_WQE_NONE,
		MESH_LAST_WQE_KEPT, /* and did not get it, and so did not acknowledge it */
		MESH_LAST_WQE_DUE, /* likewise, but it gets it as soon as it reads the next one */
	} last_wqe;
	TAILQ_ENTRY(mesh_held) next_due;
	bool base_last_wqe; /* the program has read it */
};

/* Takes held->lock. */
static inline enum mesh_held_mode mesh_held_mode(struct mesh_held *h)
{
	enum mesh_held_mode mode;

	mesh_lock(&h->lock);
	mode = h->mode;
	mesh_unlock(&h->lock);
	return mode;
}

/* Does the calling thread poll one of its CQs, an extended one? Who waits for that to end would wait for himself. */
static inline bool mesh_held_is_own_poll(const struct mesh_held *h)
{
	return mesh_cq_is_own_poll(h->send_cq) || mesh_cq_is_own_poll(h->recv_cq);
}

/* As the program sees it: no sends before RTS. libibverbs writes the state when ibv_modify_qp() has succeeded. */
static inline bool mesh_held_takes_sends(const struct mesh_held *h)
{
	return h->qp->state >= IBV_QPS_RTS;
}

/* Will the device complete it, if it is done? */
static inline bool mesh_held_signals(const struct mesh_held *h, const struct ibv_send_wr *wr)
{
	return h->sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED;
}

/** mesh_held_find - the record of a QP; any thread. It may be for another QP once its lock is taken: compare. */
static inline struct mesh_held *mesh_held_find(struct mesh_context *mc, const struct ibv_qp *qp)
{
	return mesh_map_get(&mc->data.qps, qp);
}

#endif
