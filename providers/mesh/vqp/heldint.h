/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_HELDINT_H
#define MESH_HELDINT_H

#include "guard.h"
#include "held.h"
#include "rails.h"
#include "reader.h"
#include "starved.h"

/*
 * What the files of the data path share: held.c shadow.c leftover.c fail.c guard.c live.c change.c post.c sendq.c recvlog.c poll.c kick.c
 * wrex.c cq.c cqex.c cqshadow.c; srqint.h has what is the SRQs' alone.
 */

/* ---- completion queues --------------------------------------------------------------------------------------- */

struct mesh_srq_home; /* srq.h */

/* A QP whose completions we look at. */
struct mesh_cq_qp {
	uint32_t key, qpn; /* of the completions; of the program. qpn 0: empty place */
	/* In a shadow CQ NULL: the QP is going, late completions are not shown. In the base's: only with a log */
	struct mesh_held *held;
	struct mesh_srq_home *home; /* whose receives it consumes; NULL: its own */
	struct mesh_reader *reader; /* of @held, of a healthy QP of the base: looked at without held->lock. Changed while claimed, too */
};

/* Open addressing by key; a power of two of places, at most half of them used. */
struct mesh_qpns {
	struct mesh_cq_qp *places;
	size_t n_places, n_used;
};

/* One use of an SRQ's receives by QPs of a shadow CQ. */
struct mesh_cq_srq {
	struct mesh_cq_srq *next;
	const struct mesh_srq_home *home;
	unsigned int n_qps;
};

/* What belongs to one CQ of the program on one rail. Guarded by the owner's lock. */
struct mesh_shadow_cq {
	struct mesh_device_job job; /* its end */
	struct mesh_shadow_cq *next;
	_Atomic unsigned int away; /* so many QPs of it are being destroyed: it is not polled; raised while its owner is frozen */
	_Atomic bool missed; /* somebody would have polled it meanwhile */
	struct mesh_cq *owner; /* constant, as are the next two; has a reference to it, but the program's CQ may be gone */
	struct mesh_rail *rail;
	struct ibv_cq *cq; /* its cq_context is this */
	uint32_t n_wrs; /* of all QPs and SRQs on it; it has room for as many completions */
	struct mesh_cq_srq *srqs;
	struct mesh_qpns qpns;
};

#define MESH_CQ_EX_FUNCTIONS(X)                                                                              \
	X(start_poll)                                                                                        \
	X(next_poll)                                                                                         \
	X(end_poll)                                                                                          \
	X(read_opcode)                                                                                       \
	X(read_vendor_err)                                                                                   \
	X(read_byte_len)                                                                                     \
	X(read_imm_data)                                                                                     \
	X(read_qp_num)                                                                                       \
	X(read_src_qp)                                                                                       \
	X(read_wc_flags)                                                                                     \
	X(read_slid)                                                                                         \
	X(read_sl)                                                                                           \
	X(read_dlid_path_bits)                                                                               \
	X(read_completion_ts)                                                                                \
	X(read_cvlan)                                                                                        \
	X(read_flow_tag)                                                                                     \
	X(read_tm_info)                                                                                      \
	X(read_completion_wallclock_ns)

/* Between start_poll and end_poll of an extended CQ. */
enum mesh_cq_source { MESH_FROM_NONE, MESH_FROM_STASH, MESH_FROM_SHADOW, MESH_FROM_BASE };

/* Is it polled now? Who asks polls its owner. */
static inline bool mesh_shadow_cq_is_away(struct mesh_shadow_cq *scq)
{
	if (!atomic_load_explicit(&scq->away, memory_order_acquire))
		return false;
	atomic_store_explicit(&scq->missed, true, memory_order_seq_cst);
	return atomic_load_explicit(&scq->away, memory_order_seq_cst);
}

/* A CQ of the program that held QPs use. Freed when the program has destroyed it, and all shadows are gone. */
struct mesh_cq {
	_Atomic unsigned int refs; /* of the program's CQ, and of each shadow */
	struct ibv_cq *cq; /* constant, as is mc */
	struct mesh_context *mc;
	unsigned int n_held; /* QPs that use it, counted for each role; under data->lock */
	bool used; /* it has, or had, shadows or a stash; under data->lock */

	/*
	 * Held while polling, from start_poll to end_poll, as a provider does: the program may call anything meanwhile.
	 * So nothing but polling waits for it. Taken before the providers' locks of the CQs, those before @lock: nobody polls
	 * or resizes a CQ of a provider with @lock held.
	 */
	pthread_mutex_t poll_lock;
	/*
	 * mesh_reader_fast_poll() takes this alone. Who polls otherwise, or freezes, has both, poll_lock first; who changes @natives or
	 * @ring has this one, but data->lock does while @ring is not known.
	 */
	_Atomic bool claimed;
	_Atomic bool fast; /* there is nothing of ours among its completions, and nothing to be hidden; written while claimed to true */
	_Atomic unsigned int n_readers; /* QPs of the base whose completions have to be looked at; twice if it is both their CQs */
	struct mv_mlx5_cq ring; /* buf NULL: not known; changes under data->lock, too */
	bool unreadable; /* it could not be told any more where it is; as @ring */
	struct mesh_take_cq take; /* set with @ring the first time, constant then */
	uint32_t hot_qpn; /* the last one that was found in @natives with @hot_reader; changed while claimed, as that */
	struct mesh_reader *hot_reader; /* NULL: none */
	pthread_mutex_t lock; /* guards what follows, but for what says otherwise */
	struct mesh_shadow_cq *shadows;
	struct mesh_shadow_cq *ahead; /* that nothing uses yet: nobody polls them */
	struct mesh_starve starve; /* under poll_lock */
	bool shadows_first; /* under poll_lock: alternates, so that neither side starves the other */
	/* Completions made up by us, of QPs that failed. Shown before anything else. */
	struct ibv_wc *stash;
	size_t n_stash, stash_size;
	size_t stash_kept; /* places kept free for completions that are being polled */
	struct mesh_held *stashing; /* QPs that may have more for it, when there is room */

	/* Extended CQs: the base's functions, constant; and the state of a poll. */
	bool extended;
	uint32_t wc_flags; /* that it was made with */
#define X(f) __typeof__(((struct ibv_cq_ex *)NULL)->f) f;
	struct { MESH_CQ_EX_FUNCTIONS(X) } base;
#undef X
	_Atomic uintptr_t poller; /* thread between start_poll and end_poll; written under poll_lock */
	/*
	 * There had been no completion when our functions came in, so no thread began a poll before, and who has frozen it finds the base's
	 * lock free; set with them, under data->lock.
	 */
	bool seen_whole;
	/* Some send queue may have room: the poller posts when he is through. Any thread: keep_from_polling() of post.c */
	_Atomic bool drain_wanted;
	_Atomic unsigned int posting; /* so many do that, and a poll of an extended one does not begin meanwhile; likewise */
	/* Under poll_lock: */
	enum mesh_cq_source source; /* where the current completion comes from */
	enum mesh_cq_source open; /* base or shadow: started and not ended */
	struct mesh_shadow_cq *open_shadow, *next_shadow; /* started last; next one to start */
	bool base_done; /* the base had its turn */
	bool kicked; /* a kick was seen: look at all of them again */
	bool restashed; /* likewise: something has gone behind what is in the stash */
	uint32_t current_qpn; /* of the program; source is a shadow */
	const enum ibv_wc_opcode *current_opcode; /* likewise; NULL: as the shadow says */
	struct ibv_wc current; /* source is the stash */

	struct mesh_qpns natives; /* QPs of the base that share an SRQ with moved ones, or have a log; under lock */
	uint32_t n_base_wrs; /* of QPs of the base that have a log, all work requests; data->lock */
	_Atomic uint32_t own_cqe; /* its size as the program made it, without what we have added; written under data->lock */
	_Atomic uint32_t no_cqe; /* so many the base has refused, 0: none */
	_Atomic bool counts; /* there have been some; written under lock */

	pthread_mutex_t kick_lock; /* guards kicker and posting to it */
	struct ibv_qp *kicker; /* kick.c; NULL: none yet */
	_Atomic bool kicking; /* a kick is in the CQ, or was and has not been polled */
};

/* Is the calling thread between our start_poll and end_poll? It may have started with the base's, before us. */
static inline bool mesh_cq_is_own_poll(const struct mesh_cq *cq)
{
	return atomic_load_explicit(&cq->poller, memory_order_relaxed) == (uintptr_t)pthread_self();
}

/* ---- queue pairs --------------------------------------------------------------------------------------------- */

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
	pthread_mutex_t post_lock;
	_Atomic uintptr_t stopper; /* thread that has stopped posting; 0: none; written under post_lock */
	_Atomic bool stop_wanted; /* one has tried to, and could not for a batch; the next batch begins a little later */

	pthread_mutex_t lock; /* guards the rest but for the atomics */
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

	pthread_mutex_lock(&h->lock);
	mode = h->mode;
	pthread_mutex_unlock(&h->lock);
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

/* ---- data.c -------------------------------------------------------------------------------------------------- */

/* The context's public places (struct ibv_context_ops) that may get our functions, and what needs which of them. */
enum {
	MESH_AT_poll_cq = 1,
	MESH_AT_req_notify_cq = 2,
	MESH_AT_post_send = 4,
	MESH_AT_post_recv = 8,
	MESH_AT_post_srq_recv = 16,
};
#define MESH_POLLING	     (MESH_AT_poll_cq | MESH_AT_req_notify_cq)
#define MESH_POSTING	     (MESH_AT_post_send | MESH_AT_post_recv)
#define MESH_FOR_CONNECTIONS (MESH_POLLING | MESH_POSTING)
#define MESH_FOR_SRQS	     (MESH_FOR_CONNECTIONS | MESH_AT_post_srq_recv)
#define MESH_FOR_DATAGRAMS   (MESH_POLLING | MESH_AT_post_send)

/**
 * mesh_data_slots - put our functions into the context's public places, or take them out, as is needed; data->lock
 *
 * In a place that mesh_data_takes() does not take nothing changes.
 */
void mesh_data_slots(struct mesh_context *mc);
/**
 * mesh_data_takes - have all these places the base's function, or ours? Before anything is begun that needs ours there
 *
 * Else something else has put its own there, and what needs ours is not to be done. That is logged, once. Whether it was put
 * over ours and calls it cannot be known, so that is the same; for what has begun before, ours goes on working below it.
 *
 * data->lock; any other lock of ours but the logger's may be held.
 */
bool mesh_data_takes(const struct mesh_context *mc, unsigned int places);
/** mesh_data_why_not - why the places do not do for a connection now, a constant; NULL: they do; any thread */
const char *mesh_data_why_not(const struct mesh_context *mc);

/** mesh_held_find - the record of a QP; any thread. It may be for another QP once its lock is taken: compare. */
static inline struct mesh_held *mesh_held_find(struct mesh_context *mc, const struct ibv_qp *qp)
{
	return mesh_map_get(&mc->data.qps, qp);
}

/** mesh_held_claim - a free record, in mode NOTING, known by its QP; data->lock. NULL: no memory */
struct mesh_held *mesh_held_claim(struct mesh_context *mc, struct ibv_qp *qp);

/** mesh_held_release - the other way; data->lock and held->lock */
void mesh_held_release(struct mesh_held *h);

/** mesh_data_pd - our own protection domain on the base's device; NULL: there is none to be had; data->lock */
struct ibv_pd *mesh_data_pd(struct mesh_context *mc);

/* ---- held.c, live.c ------------------------------------------------------------------------------------------ */

/** mesh_held_begin - mesh_held_new() into mode WAITING or, with a log, GUARDED */
int mesh_held_begin(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_held_ops *ops, void *arg,
		    enum mesh_held_mode mode, struct mesh_held **ret);
/**
 * mesh_held_room - the memory that is needed once posts pass by us: where they wait, where they are logged, and keys
 *
 * All of it before our functions are put in: from there on nothing that the program posts fails for lack of it. While the base does
 * the work and it is read from its queues (reader.h), that is when a move is prepared, for most never move; or ahead, if it is little.
 *
 * held->lock. Return: 0, also if it is there already; -ENOMEM: nothing has changed, and it may be tried again.
 */
int mesh_held_room(struct mesh_held *h);
/**
 * mesh_held_try_modify_base - mesh_held_modify_base(), not to RTR, without waiting for another thread in a batch of ibv_wr_start()
 *
 * Return: EAGAIN: there is one; what mc->modify_qp() does.
 */
int mesh_held_try_modify_base(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask);
/** mesh_held_begin_again - the other way, before anything completed: mode NOTING, with the receives that the log had */
void mesh_held_begin_again(struct mesh_held *h);
/** mesh_live_post_recv - one receive to the QP that comes next; held->lock; 0 or errno */
int mesh_live_post_recv(struct mesh_held *h, uint64_t wr_id, const struct ibv_sge *sges, int num_sge);
/**
 * mesh_live_give_up - the program brings it to ERR: no more moves, and nothing is kept back
 *
 * No lock of ours but conn->lock is held. Return: whether the base does the work, and is to be brought to ERR.
 */
bool mesh_live_give_up(struct mesh_held *h);
/** mesh_live_end_fence - if it is being fenced, wait until it is empty; conn->lock */
void mesh_live_end_fence(struct mesh_held *h);
/** mesh_live_end - the QP goes: nothing of it is looked for in the base's CQs, and what comes next goes, too */
void mesh_live_end(struct mesh_held *h);

/* ---- cq.c, cqshadow.c ---------------------------------------------------------------------------------------------------- */

/**
 * mesh_cq_get - what we keep of a CQ, made if need be; one more QP uses it; data->lock, behind mesh_mlx5_is_base()
 *
 * Return: it; NULL: no memory, or an extended CQ that we did not see being made.
 */
struct mesh_cq *mesh_cq_get(struct mesh_context *mc, struct ibv_cq *cq);
void mesh_cq_put(struct mesh_cq *cq); /* data->lock */
/** mesh_cq_is_taken - is it polled by what is not ours? data->lock, behind mesh_mlx5_is_base() */
bool mesh_cq_is_taken(struct mesh_context *mc, const struct ibv_cq *cq);
/**
 * mesh_cq_freeze - let nobody poll
 *
 * Changes to shadow CQs are made so: the providers' locks may be off (MLX5_SINGLE_THREADED), because the program promised to use one
 * thread. But who polls may be between start_poll and end_poll and wait for the caller, so this gives up after a while, and at once if
 * the caller is the one who polls. Without it, the caller must not call what takes the provider's lock of the CQ or of its shadows, if
 * it is an extended one: libmlx5 holds that from start_poll to end_poll.
 *
 * Return: whether nobody polls; for mesh_cq_thaw().
 */
bool mesh_cq_freeze(struct mesh_cq *cq);
bool mesh_cq_try_freeze(struct mesh_cq *cq); /* does not wait */
void mesh_cq_thaw(struct mesh_cq *cq, bool frozen);
/* A resize under way, on the stack of who does it. */
struct mesh_cq_resize {
	const struct ibv_cq *cq;
	struct mesh_cq_resize *next;
};

/**
 * mesh_cq_resize_begin - a CQ is about to be resized by the base; takes data->lock
 * @cq: of the program
 *
 * Return: true: it is known where its completions are. It has to be frozen, and mesh_reader_cq_refresh() has to follow. False: nobody
 * asks for that until mesh_cq_resize_end().
 */
bool mesh_cq_resize_begin(struct mesh_data *data, const struct ibv_cq *cq, struct mesh_cq_resize *ret);
void mesh_cq_resize_end(struct mesh_data *data, struct mesh_cq_resize *resize);
/** mesh_cq_is_resizing - data->lock */
bool mesh_cq_is_resizing(const struct mesh_data *data, const struct ibv_cq *cq);

/** mesh_cq_claim, mesh_cq_unclaim - see @claimed; not for long; waits */
void mesh_cq_claim(struct mesh_cq *cq);
static inline void mesh_cq_unclaim(struct mesh_cq *cq)
{
	atomic_store_explicit(&cq->claimed, false, memory_order_release);
}

/** mesh_cq_use - from now on our functions have to poll it; data->lock */
void mesh_cq_use(struct mesh_cq *cq);
/** mesh_cq_unref - a shadow is gone */
void mesh_cq_unref(struct mesh_cq *cq);
/** mesh_cq_free - with shadows, kicker and stash; it has no place (mesh_fast_drop()); the base's CQ stays */
void mesh_cq_free(struct mesh_cq *cq);
/** mesh_cq_stash_reserve - room for that many more than there are and are being polled; cq->lock; 0 or -ENOMEM */
int mesh_cq_stash_reserve(struct mesh_cq *cq, uint32_t n);
/** mesh_cq_stash_room - is there some? cq->lock */
static inline bool mesh_cq_stash_room(const struct mesh_cq *cq)
{
	return cq->n_stash + cq->stash_kept < cq->stash_size;
}
/** mesh_cq_stash_keep - keep a place for a completion that is about to be polled; poll_lock, not cq->lock; is there one? */
bool mesh_cq_stash_keep(struct mesh_cq *cq);
/** mesh_cq_stash_kept - that was polled, or NULL; as above; whether there was one */
bool mesh_cq_stash_kept(struct mesh_cq *cq, const struct ibv_wc *wc);

/**
 * mesh_shadow_cq_reserve - a shadow CQ on a rail, with room for @n_wrs more; no lock of ours is held
 * @home: SRQ whose receives will complete there, too; NULL: none
 * @ahead: nothing completes there before mesh_shadow_cq_use()
 *
 * Return: 0; -ENOMEM; -EBUSY: it would have to grow, and somebody polls it; what ibv_create_cq() or ibv_resize_cq() say.
 */
int mesh_shadow_cq_reserve(struct mesh_cq *cq, struct mesh_rail *rail, uint32_t n_wrs,
			   const struct mesh_srq_home *home, bool ahead, struct mesh_shadow_cq **ret);
/** mesh_shadow_cq_use - from now on it is polled, if it is not yet; no lock of ours is held */
void mesh_shadow_cq_use(struct mesh_shadow_cq *scq);
/** mesh_shadow_cq_free - nobody uses it any more but QPs that are about to be destroyed; by its device's thread */
void mesh_shadow_cq_free(struct mesh_shadow_cq *scq);
void mesh_shadow_cq_unreserve(struct mesh_shadow_cq *scq, uint32_t n_wrs, const struct mesh_srq_home *home);
/** mesh_shadow_cq_add - completions of @shadow_qpn are the held QP's; 0 or -ENOMEM */
int mesh_shadow_cq_add(struct mesh_shadow_cq *scq, uint32_t shadow_qpn, struct mesh_held *h,
		       struct mesh_srq_home *home);
/** mesh_shadow_cq_disown - the QP is going: of what it completes only what it takes from an SRQ is shown, and does not lead to the record */
void mesh_shadow_cq_disown(struct mesh_shadow_cq *scq, uint32_t shadow_qpn);
/** mesh_shadow_disown - the same, of both CQs of a QP; their owners' locks */
void mesh_shadow_disown(const struct mesh_shadow *shadow);
/** mesh_shadow_cq_remove - it is gone, after that; its number may be another one's by now */
void mesh_shadow_cq_remove(struct mesh_shadow_cq *scq, uint32_t shadow_qpn);

/** mesh_qpns_find - NULL: not one of ours */
static inline struct mesh_cq_qp *mesh_qpns_find(const struct mesh_qpns *qpns, uint32_t key)
{
	size_t mask = qpns->n_places - 1, i;

	if (!qpns->n_places)
		return NULL;
	for (i = key * 2654435761u & mask; qpns->places[i].qpn; i = (i + 1) & mask)
		if (qpns->places[i].key == key)
			return &qpns->places[i];
	return NULL;
}

/**
 * mesh_cq_add_native - take notice of what a QP of the base completes
 * @home: count what it consumes of that SRQ; NULL: no
 * @held: log what it completes; NULL: no
 *
 * One QP may be added for either. Return: 0 or -ENOMEM.
 */
int mesh_cq_add_native(struct mesh_cq *cq, uint32_t qpn, struct mesh_srq_home *home, struct mesh_held *held);
/** mesh_cq_remove_native - of the two, what is not NULL is taken out */
void mesh_cq_remove_native(struct mesh_cq *cq, uint32_t qpn, const struct mesh_srq_home *home,
			   const struct mesh_held *held);

/** mesh_cq_stash - show a completion of our own before all others; cq->lock; dropped if there is no room */
void mesh_cq_stash(struct mesh_cq *cq, const struct ibv_wc *wc);
/** mesh_cq_forget - drop stashed completions of a held QP that goes; cq->lock */
void mesh_cq_forget(struct mesh_cq *cq, struct mesh_held *h);
/** mesh_cq_unstash - completions were taken out of the stash: there is room for others; cq->lock */
void mesh_cq_unstash(struct mesh_cq *cq, size_t n);

/* ---- kick.c -------------------------------------------------------------------------------------------------- */

/**
 * mesh_own_to_err - bring a QP of our own from RESET or ERR to ERR
 *
 * By the base's own function: ours would take it for a connection of the program. One caller at a time for each QP.
 * Return: 0 or errno
 */
int mesh_own_to_err(struct mesh_context *mc, struct ibv_qp *qp);
/** mesh_kick - give the program's CQ an event, if it has a channel; any thread, no cq->lock needed */
void mesh_kick(struct mesh_cq *cq);
/** mesh_kick_prepare - make the kicker; data->lock. Return: 0 or -errno */
int mesh_kick_prepare(struct mesh_cq *cq);
/** mesh_kick_fini - destroy it */
void mesh_kick_fini(struct mesh_cq *cq);
/** mesh_kick_is - is a completion from the base a kick? No number of the program's is the address of our memory. */
static inline bool mesh_kick_is(const struct mesh_cq *cq, uint64_t wr_id)
{
	return wr_id == (uintptr_t)cq;
}
/**
 * mesh_kick_seen - a kick was polled
 *
 * Whoever calls this looks at shadows and stash afterwards: the next kick may have been left out because of this one.
 */
static inline void mesh_kick_seen(struct mesh_cq *cq)
{
	atomic_store_explicit(&cq->kicking, false, memory_order_seq_cst);
	atomic_thread_fence(memory_order_seq_cst);
}

/* ---- post.c: hot --------------------------------------------------------------------------------------------- */

int mesh_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int mesh_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/** mesh_post_append - @n requests were built behind the end of the queue: they are part of it now; held->lock */
void mesh_post_append(struct mesh_held *h, uint32_t n);
/**
 * mesh_post_drain - post what waits, as far as it goes; held->lock
 *
 * Of one that has failed, or whose log is lost, nothing while its CQ is being polled by the functions of an extended one: whoever does
 * that posts it when he is through.
 */
void mesh_post_drain(struct mesh_held *h);
/** mesh_post_drain_all - the same for all of a context that may have room; no lock of ours is held, nor a CQ open */
void mesh_post_drain_all(struct mesh_context *mc);
/**
 * mesh_post_is_left - what is posted cannot be noted any more: it is left to the base, without our lock; held->lock
 *
 * libmlx5 looks at the CQ when its queue is full, and who polls an extended one has that from start_poll to end_poll, and waits for our
 * lock meanwhile. As long as all is noted, what does not fit is known before. Of one that is read, receives are noted all the same.
 */
bool mesh_post_is_left(const struct mesh_held *h);
/** mesh_post_poisoned - a completion with the status that devices give to what lacks a key: it gets h->fail_status; c->cq->lock */
void mesh_post_poisoned(struct mesh_held *h, struct mesh_completion *c);
/** mesh_post_shadow_recv - one receive to the shadow; held->lock; 0 or errno */
int mesh_post_shadow_recv(struct mesh_held *h, uint64_t wr_id, const struct ibv_sge *sges, int num_sge);

/* ---- sendq.c ------------------------------------------------------------------------------------------------- */

/** mesh_sendq_init - 0 or -ENOMEM */
int mesh_sendq_init(struct mesh_sendq *q, const struct ibv_qp_cap *cap);
void mesh_sendq_fini(struct mesh_sendq *q);
/** mesh_sendq_push - copy one to the end; 0, or the errno that a provider gives: ENOMEM, EINVAL */
int mesh_sendq_push(struct mesh_sendq *q, const struct ibv_send_wr *wr);
/** mesh_sendq_place - the place @ahead of the end; may lie behind what is there */
static inline struct mesh_send *mesh_sendq_place(const struct mesh_sendq *q, uint32_t at)
{
	uint32_t i = q->head + at;

	return (struct mesh_send *)(void *)(q->places + (size_t)(i >= q->size ? i - q->size : i) * q->stride);
}
static inline void mesh_sendq_pop(struct mesh_sendq *q)
{
	q->head = q->head + 1 == q->size ? 0 : q->head + 1;
	q->n--;
}

/* ---- recvlog.c ----------------------------------------------------------------------------------------------- */

/** mesh_recvlog_add - note one down; never fails, but may make the log incomplete; held->lock */
void mesh_recvlog_add(struct mesh_recvlog *log, const struct ibv_recv_wr *wr);
void mesh_recvlog_fini(struct mesh_recvlog *log);

/* ---- poll.c: hot --------------------------------------------------------------------------------------------- */

int mesh_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
/** mesh_poll_properly - the same, whatever is in the CQ */
int mesh_poll_properly(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int mesh_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/**
 * mesh_poll_shadow - poll one shadow CQ, as the program is to see it; poll_lock, not cq->lock
 * @wc: for the stash: the caller sees to it that it comes behind what is there
 */
int mesh_poll_shadow(struct mesh_shadow_cq *scq, int n, struct ibv_wc *wc);
/** mesh_poll_base - poll the base's, without kicks and what its QPs' logs keep back; as above */
int mesh_poll_base(struct mesh_cq *cq, int n, struct ibv_wc *wc, bool *ret_kicked);
/**
 * mesh_poll_behind - if there is something in the stash, this comes behind it
 *
 * While who polls had a completion in his hands, those before it may have been put there, by a move that came to its end: the
 * stash was empty when he looked. So that is only for those of queue pairs of which there may be some: others have nothing there then.
 * cq->lock and poll_lock. Return: whether there was, and it went there.
 */
bool mesh_poll_behind(struct mesh_cq *cq, const struct ibv_wc *wc);
/** mesh_poll_noticed - a completion of one of these was polled; @c->opcode is written; cq->lock. Return: whether to show it */
bool mesh_poll_noticed(const struct mesh_cq_qp *qp, struct mesh_completion *c);
/**
 * mesh_poll_is_shown - is one of a shadow CQ to be shown, whoever has noticed it?
 *
 * Of one that is going what it had outstanding has been dealt with otherwise; but a receive that it took from an SRQ is nowhere else.
 */
static inline bool mesh_poll_is_shown(const struct mesh_cq_qp *qp, const struct mesh_completion *c)
{
	return qp->held || (qp->home && c->receive);
}

/* ---- wrex.c, cqex.c ------------------------------------------------------------------------------------------ */

/** mesh_wrex_alloc - what the next one needs; 0 or -ENOMEM */
int mesh_wrex_alloc(struct mesh_held *h);
/** mesh_wrex_install - put ours over a QP's ibv_wr_* functions, if it has them; once it is in use, with post_lock and held->lock */
void mesh_wrex_install(struct mesh_held *h);
/** mesh_wrex_remove - and take them out again; post_lock and held->lock */
void mesh_wrex_remove(struct mesh_held *h);
/** mesh_wrex_changed - the provider may have put in others (mlx5's wr_complete depends on the state); as above */
void mesh_wrex_changed(struct mesh_held *h);

/** mesh_wrex_leave_queue - the queue is emptied for another one; a batch that is being built in it goes to that; held->lock */
void mesh_wrex_leave_queue(struct mesh_held *h);

/** mesh_cqex_save - keep an extended CQ's functions, before any thread can find @cq: a thread that polls finds all of them */
void mesh_cqex_save(struct mesh_cq *cq);
/** mesh_cqex_install - put ours over an extended CQ's functions, after mesh_cqex_save() */
void mesh_cqex_install(struct mesh_cq *cq);

/* ---- heldkeys.c ---------------------------------------------------------------------------------------------- */

/** mesh_held_forget_keys - keys of one rail mean nothing on another; held->lock */
void mesh_held_forget_keys(struct mesh_held *h);
/** mesh_held_note_key - add the remote key of a work request to @n others, unless it is there. Return: how many there are now */
size_t mesh_held_note_key(const struct ibv_send_wr *wr, uint32_t *keys, size_t n);
/** mesh_held_take_keys - those are good from now on; after the former; held->lock; NULL is fine */
void mesh_held_take_keys(struct mesh_held *h, const struct mesh_live_keys *keys);

/* ---- shadow.c ------------------------------------------------------------------------------------------------ */

/** mesh_shadow_modify - 0; -EINVAL: there is none; -errno */
int mesh_shadow_modify(struct mesh_held *h, struct ibv_qp_attr *attr, int attr_mask);
/**
 * mesh_shadow_make - a QP of ours in INIT on a rail, with CQs and SRQ there
 * @live: another one does the work: receives of its SRQ may come later
 * @ret: written on success; not in h->now yet, so nothing is posted to it
 *
 * No lock of ours is held. Return: 0; -ENOMEM; -EBUSY: its CQs have to grow, and somebody polls them; what the verbs returned.
 */
int mesh_shadow_make(struct mesh_held *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr, bool live,
		     struct mesh_shadow *ret);
/** mesh_shadow_make_ahead - the same for a QP without SRQ that may never be used: polling costs nothing more before the next */
int mesh_shadow_make_ahead(struct mesh_held *h, struct mesh_pd *spd, const struct mesh_shadow_attr *attr,
			   struct mesh_shadow *ret);
/** mesh_shadow_to_init - from RESET to INIT. Return: as ibv_modify_qp(). */
int mesh_shadow_to_init(struct ibv_qp *qp, const struct mesh_shadow_attr *attr);
/** mesh_shadow_take_up - one that was made ahead is going to be used */
void mesh_shadow_take_up(struct mesh_held *h, const struct mesh_shadow *shadow);
/** mesh_shadow_unmake - and away with it, at once if its CQs can be frozen; nothing refers to it any more */
void mesh_shadow_unmake(struct mesh_held *h, struct mesh_shadow *shadow);
/**
 * mesh_shadow_collect - completions in the CQs of both, our and the base's, go to the stash: those to be shown; no lock
 *
 * Return: whether that was all that its receives have completed; else somebody polls, or there is no memory.
 */
bool mesh_shadow_collect(struct mesh_held *h, const struct mesh_shadow *shadow);
/** mesh_shadow_collect_sends - the same of its send CQ at the NIC that it was moved to, if nobody polls it now; conn->lock */
void mesh_shadow_collect_sends(struct mesh_held *h);
/** mesh_shadow_destroy - take it away, used or not: the program's QP goes; no lock of ours is held */
void mesh_shadow_destroy(struct mesh_held *h);

/* ---- lastrecv.c ---------------------------------------------------------------------------------------------- */

/**
 * mesh_shadow_drained - has every receive completed that a QP of ours took from an SRQ? It was in RTR, and is in ERR since @err_ns
 *
 * The completions may still have to be polled. Some system calls; conn->lock. Return: true also where the QP has no SRQ, where
 * the event that tells so did not come in time, and where the device is gone.
 */
bool mesh_shadow_drained(const struct mesh_held *h, const struct mesh_shadow *shadow, uint64_t err_ns);
/** mesh_shadow_wait_drained - until that is so, for half a second at most; it has just been brought to ERR */
void mesh_shadow_wait_drained(const struct mesh_held *h, const struct mesh_shadow *shadow);
/** mesh_held_drained - the same of what does the work, the base's or ours, and is being fenced */
bool mesh_held_drained(struct mesh_held *h);

/* ---- leftover.c ---------------------------------------------------------------------------------------------- */

/* A shadow that nobody refers to any more, from mesh_leftover_init() on. */
struct mesh_leftover {
	struct mesh_device_job job; /* its end */
	struct mesh_leftover *next, *next_mine; /* data->lock; of who has them */
	bool busy; /* data->lock: somebody has it */
	_Atomic bool last_wqe; /* IBV_EVENT_QP_LAST_WQE_REACHED has come; valid from the QP's creation on */
	struct ibv_qp *qp;
	struct mesh_pd *spd;
	struct mesh_shadow_cq *send_cq, *recv_cq;
	struct mesh_srq_home *home; /* NULL: its receives are its own */
	uint32_t send_wrs, recv_wrs; /* counted in those */
};

/**
 * mesh_leftover_init - make one of a shadow
 * @shadow: emptied
 * @send_wrs, @recv_wrs: to be given back with its CQs
 *
 * Return: shadow->leftover, now the caller's, to be given to one of the next two.
 */
struct mesh_leftover *mesh_leftover_init(struct mesh_shadow *shadow, uint32_t send_wrs, uint32_t recv_wrs);
/** mesh_leftover_leave - its CQs are not polled until it is gone; they are frozen, if that could be had */
void mesh_leftover_leave(struct mesh_leftover *leftover);
/**
 * mesh_leftover_destroy - have it destroyed by its device's thread, after that; the CQs are not frozen any more
 *
 * With an SRQ by the caller: it leaves that.
 */
void mesh_leftover_destroy(struct mesh_leftover *leftover);
/** mesh_leftover_add - it cannot go now, because somebody may be polling its CQs; it goes when that is over */
void mesh_leftover_add(struct mesh_leftover *leftover);
/**
 * mesh_leftovers_bury - those of a CQ go that can; any thread, no lock of ours is held
 * @cq: NULL: of all
 * @all: all of them, though it may have to wait for who polls: the program destroys what they came from
 */
void mesh_leftovers_bury(struct mesh_context *mc, const struct mesh_cq *cq, bool all);

/* ---- fail.c -------------------------------------------------------------------------------------------------- */

/** mesh_wc_opcode - of the completion of a send */
enum ibv_wc_opcode mesh_wc_opcode(enum ibv_wr_opcode opcode);
/** mesh_held_flush - the program brings it to ERR; caller serialises, no lock of ours is held; 0 or -errno */
int mesh_held_flush(struct mesh_held *h);
/**
 * mesh_held_fail_now - the first send that waits fails, the rest is flushed, as far as there is room in the stash
 *
 * Caller holds neither held->lock nor post_lock.
 */
void mesh_held_fail_now(struct mesh_held *h);
/** mesh_held_fails - is that to be done after posting? held->lock */
static inline bool mesh_held_fails(const struct mesh_held *h)
{
	return h->queue.n && (h->mode == MESH_HELD_FAILING || h->mode == MESH_HELD_FLUSHING);
}
/** mesh_held_stash - flush what waits into the stash, if that is the way; cq->lock, held->lock; whether there was any */
bool mesh_held_stash(struct mesh_held *h);

/* ---- lastwqe.c ----------------------------------------------------------------------------------------------- */

/** mesh_last_wqe_open - a context gets the overlay; mesh_last_wqe_close - it goes, and so have its QPs */
void mesh_last_wqe_open(struct mesh_context *mc);
void mesh_last_wqe_close(struct mesh_context *mc);
/**
 * mesh_last_wqe_due - what was kept of that event is to come now; any locks of ours
 *
 * For one that has ended (held->ended), when the QP that does the work is in ERR. Several system calls, if there was any.
 */
void mesh_last_wqe_due(struct mesh_held *h);
/** mesh_last_wqe_ended - the program is shown an error of a QP that is in ERR; held->lock, and any other */
void mesh_last_wqe_ended(struct mesh_held *h);
/** mesh_last_wqe_forget - the record is given up; held->lock, and any other */
void mesh_last_wqe_forget(struct mesh_held *h);

static inline int mesh_positive(int err)
{
	return err < 0 ? -err : err;
}

#endif
