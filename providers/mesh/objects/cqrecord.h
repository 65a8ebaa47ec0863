/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CQRECORD_H
#define MESH_CQRECORD_H

#include "rails.h"
#include "wrmlx5.h"

/* Record of a CQ of the program, and of its shadow CQs on other rails. */

struct mesh_vqp; /* vqp_record.h */
struct mesh_walker; /* mlx5_wr_walker.h */
/* Stall check of one CQ: has the helper thread run? poll_lock. */
struct mesh_helper_stall {
	uint32_t turns; /* last seen number of turns of the helper thread */
	uint32_t n_empty; /* empty polls */
	uint64_t looked_ns; /* last look at the clock; 0: none since @turns changed */
	uint64_t waited_ns; /* polled time since @turns changed; time of a stopped process does not count */
	uint64_t gave_ns; /* last call of mesh_stalled_flush() */
};

struct mesh_rail_srq; /* srq.h */

/* A QP whose completions the plugin processes. */
struct mesh_cq_qp {
	uint32_t key, qpn; /* QPN in completions; QPN of the program. qpn 0: empty place */
	/*
	 * In a shadow CQ, NULL: the QP will be destroyed, so its completions are hidden. In the program's CQ: set if there is a
	 * log.
	 */
	struct mesh_vqp *vqp;
	struct mesh_rail_srq *rail_srq; /* whose receives the QP consumes; NULL: no SRQ */
	/*
	 * of @vqp, for a healthy QP of the lower provider: used without vqp->lock; changed with the CQ's CQE lock, too
	 */
	struct mesh_walker *walker;
};

/* Hash table with open addressing by key; the size is a power of two, and at most half of the places are used. */
struct mesh_qpns {
	struct mesh_cq_qp *places;
	size_t n_places, n_used;
};

/* An SRQ with QPs on a shadow CQ. */
struct mesh_cq_srq {
	struct mesh_cq_srq *next;
	const struct mesh_rail_srq *rail_srq;
	unsigned int n_qps;
};

/* A shadow CQ: counterpart of a CQ of the program on one rail. Guarded by the owner's lock. */
struct mesh_shadow_cq {
	struct mesh_device_job job; /* destroys it */
	struct mesh_shadow_cq *next;
	_Atomic unsigned int away; /* number of its QPs being destroyed; if not 0: not polled; raised while its owner is frozen */
	_Atomic bool missed; /* a poll was skipped meanwhile */
	struct mesh_cq *owner; /* constant, as the next two; referenced, but the program's CQ may be gone */
	struct mesh_rail *rail;
	struct ibv_cq *cq; /* its cq_context is this struct */
	uint32_t n_wrs; /* work requests of all QPs and SRQs on it; the CQ has room for as many completions */
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

/* Source of a completion, between start_poll and end_poll of an extended CQ. */
enum mesh_cq_source { MESH_FROM_NONE, MESH_FROM_SW_CQ, MESH_FROM_SHADOW, MESH_FROM_BASE };

/* Must the shadow CQ not be polled now? Called by a poller of its owner. */
static inline bool mesh_shadow_cq_is_away(struct mesh_shadow_cq *scq)
{
	if (!atomic_load_explicit(&scq->away, memory_order_acquire))
		return false;
	atomic_store_explicit(&scq->missed, true, memory_order_seq_cst);
	return atomic_load_explicit(&scq->away, memory_order_seq_cst);
}

/* Who uses the CQ: cq.c. data->lock. */
struct mesh_cq_users {
	unsigned int n_vqps; /* QPs that use it, counted per queue */
	bool used; /* it has, or had, shadows or a software CQ */
};

/*
 * The CQ's buffer, read before mlx5 takes CQEs out of it: mlx5_wr_walker.c, fastpoll.c, engage.c. Changed while
 * CQE lock, unless noted otherwise.
 */
struct mesh_cq_reading {
	/* program's own QPs whose completions are read; counts twice if both queues use this CQ */
	_Atomic unsigned int n_walkers;
	struct mv_mlx5_cq ring; /* buf NULL: not known; changes under data->lock, too, which is enough while it is not known */
	bool unreadable; /* the buffer is not known any more; guarded as @ring */
	struct mesh_walker *hot_walker; /* of the QP that was found last in the CQ's own_qps; NULL: none */
	unsigned int removals; /* QPs whose CQEs the lower provider is removing: mesh_cq_removal_begin() */
};

/* Shadows, by use: cqshadow.c. cq->lock. */
struct mesh_cq_shadows {
	struct mesh_shadow_cq *polled; /* walked by polls without the lock: only grows at its front */
	struct mesh_shadow_cq *standby; /* for standbys only: not polled */
};

/* What each poll leaves to the next one: poll.c, cqex.c. poll_lock. */
struct mesh_cq_polls {
	struct mesh_helper_stall stall;
	bool shadows_first; /* alternates for fairness between the program's CQ and shadows */
	bool appended; /* a completion was appended to the software CQ: poll all sources again */
};

/* Completions of the plugin, shown before all others: cqrecord.c, cq.c. cq->lock. */
struct mesh_sw_cq {
	struct ibv_wc *wcs;
	size_t n, size;
	size_t reserved; /* places for completions that are being polled */
	struct mesh_vqp *flushing; /* QPs that have more completions for the software CQ, once it has room */
};

/* An extended CQ, as the lower provider made it: cqex.c. Constant. */
struct mesh_cq_ex {
	bool extended; /* false: the rest is not used */
	uint32_t wc_flags; /* with which the program made it */
#define X(f) __typeof__(((struct ibv_cq_ex *)NULL)->f) f;
	struct { MESH_CQ_EX_FUNCTIONS(X) } lower;
#undef X
	/*
	 * The CQ had no completion when the plugin's functions were installed. So no poll can have begun before, and a freezer
	 * finds the lower provider's lock free. Set when they are installed, under data->lock.
	 */
	bool seen_whole;
};

/* Who polls an extended CQ, and who posts meanwhile: cqex.c, post.c. Any thread, without a lock. */
struct mesh_cq_poller {
	_Atomic uintptr_t thread; /* between start_poll and end_poll; 0: none; written under poll_lock */
	/* A send queue may have room: the poller posts after its poll. Any thread: keep_from_polling() of post.c */
	_Atomic bool drain_wanted;
	_Atomic unsigned int posting; /* threads in such a post; no poll of an extended CQ begins meanwhile */
};

/* A poll of an extended CQ, between start_poll and end_poll: cqex.c. poll_lock. */
struct mesh_cq_walk {
	enum mesh_cq_source source; /* of the current completion */
	enum mesh_cq_source open; /* lower provider or shadow that is started, and not ended */
	struct mesh_shadow_cq *open_shadow, *next_shadow; /* started last; next to start */
	bool lower_done; /* the program's CQ had its turn */
	bool notified; /* a notification was polled: poll all sources again */
	uint32_t current_qpn; /* the program's QPN, if the source is a shadow */
	const enum ibv_wc_opcode *current_opcode; /* opcode to show, likewise; NULL: as the shadow says */
	struct ibv_wc current; /* if the source is the software CQ */
};

/*
 * Program's own QPs that share an SRQ with moved ones, or have a log: cqshadow.c. cq->lock; @qpns changes under the CQE
 * lock, too.
 */
struct mesh_cq_own_qps {
	struct mesh_qpns qpns;
	_Atomic bool counts; /* @qpns was ever used; read without the lock */
};

/* How large the CQ is, and has to be: cq.c, vqp_failover.c. */
struct mesh_cq_size {
	uint32_t n_lower_wrs; /* work requests of program's own QPs with a log; data->lock */
	_Atomic uint32_t own_cqe; /* size as the program made it, without resizes by the plugin; written under data->lock */
	_Atomic uint32_t no_cqe; /* size that the lower provider has refused; 0: none */
};

/* Makes completion events: cq_notify.c. */
struct mesh_cq_notify {
	MESH_LOCK(NOTIFY) lock; /* guards @qp, and posts to it */
	struct ibv_qp *qp; /* the notify_qp; NULL: none yet */
	_Atomic bool pending; /* a notification is in the CQ, and was not polled yet */
};

/* A CQ of the program that virtual QPs use. Freed once the program has destroyed the CQ, and all shadows are gone. */
struct mesh_cq {
	_Atomic unsigned int refs; /* of the program's CQ and of each shadow */
	struct ibv_cq *cq; /* constant, as mc */
	struct mesh_context *mc;
	struct mesh_cq_users users;

	/*
	 * Held by a poll, and from start_poll to end_poll, as a provider's lock is. The program may call any function meanwhile,
	 * so only polls wait for poll_lock. Order: poll_lock, then the providers' locks of CQs, then @lock. So no provider's CQ
	 * is polled or resized with @lock held.
	 */
	MESH_LOCK(POLL) poll_lock;
	/*
	 * fastpoll.c takes only this. Other polls, and freezers, hold both, poll_lock first. Needed to change @own_qps or
	 * @reading.
	 */
	_Atomic bool cqe_locked;
	_Atomic bool fast; /* no completion needs processing by the plugin; set to true only under the CQE lock */
	struct mesh_cq_reading reading;
	MESH_LOCK(CQ) lock; /* guards @shadows, @sw_cq and @own_qps */
	struct mesh_cq_shadows shadows;
	struct mesh_cq_polls polls;
	struct mesh_sw_cq sw_cq;
	struct mesh_cq_ex ex;
	struct mesh_cq_poller poller;
	struct mesh_cq_walk walk;
	struct mesh_cq_own_qps own_qps;
	struct mesh_cq_size size;
	struct mesh_cq_notify notify;
};

/*
 * Is the calling thread in a poll of the plugin's start_poll? A poll that began before the functions were installed is the
 * lower provider's.
 */
static inline bool mesh_cq_is_own_poll(const struct mesh_cq *cq)
{
	return atomic_load_explicit(&cq->poller.thread, memory_order_relaxed) == (uintptr_t)pthread_self();
}

/** mesh_qpns_find - the entry of a QPN; NULL: none */
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

/** mesh_cqe_lock, mesh_cqe_unlock - take and release @cqe_locked; waits; hold it for a short time only */
void mesh_cqe_lock(struct mesh_cq *cq);
static inline void mesh_cqe_unlock(struct mesh_cq *cq)
{
	mv_lock_given(&cq->cqe_locked);
	atomic_store_explicit(&cq->cqe_locked, false, memory_order_release);
}

/* CQs of a QP that is being destroyed, or goes to RESET. On the stack of the thread that does it. */
struct mesh_cq_removal {
	struct mesh_cq *cqs[2]; /* NULL: without a record, or the same CQ */
};

/**
 * mesh_cq_removal_begin, mesh_cq_removal_end - the lower provider removes a QP's CQEs from its CQs in between
 * @send_cq, @recv_cq: of the program, or NULL
 *
 * Other threads may poll these CQs meanwhile, and know of it by @reading.removals. Each call takes the CQE locks for a moment, and
 * may sleep. Cancellation is off.
 */
void mesh_cq_removal_begin(struct mesh_context *mc, struct ibv_cq *send_cq, struct ibv_cq *recv_cq, struct mesh_cq_removal *ret);
void mesh_cq_removal_end(const struct mesh_cq_removal *removal);

/* A resize under way, on the stack of the thread that resizes. */
struct mesh_cq_resize {
	const struct ibv_cq *cq;
	struct mesh_cq_resize *next;
};

/** mesh_cq_is_resizing - is a resize of that CQ under way? data->lock */
bool mesh_cq_is_resizing(const struct mesh_data *data, const struct ibv_cq *cq);
/**
 * mesh_sw_cq_reserve - make room in the software CQ for @n more, besides reserved places; cq->lock. Return: 0 or
 * -ENOMEM.
 */
int mesh_sw_cq_reserve(struct mesh_sw_cq *sw_cq, uint32_t n);
/** mesh_sw_cq_room - has the software CQ a free place? cq->lock */
static inline bool mesh_sw_cq_room(const struct mesh_sw_cq *sw_cq)
{
	return sw_cq->n + sw_cq->reserved < sw_cq->size;
}
/** mesh_sw_cq_append - append a completion to the software CQ; cq->lock; dropped if there is no room */
void mesh_sw_cq_append(struct mesh_cq *cq, const struct ibv_wc *wc);

#endif
