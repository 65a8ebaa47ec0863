/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CQRECORD_H
#define MESH_CQRECORD_H

#include "mlx5take.h"
#include "rails.h"

/* A CQ of the program, as the plugin keeps it, and its shadows on other rails. */

struct mesh_held; /* heldrecord.h */
struct mesh_reader; /* reader.h */
/* Of one CQ; under its poll_lock. */
struct mesh_starve {
	uint32_t turns; /* of the helper thread, as they were seen last */
	uint32_t n_empty; /* polls that found nothing */
	uint64_t looked_ns; /* at the clock; 0: not since @turns changed */
	uint64_t waited_ns; /* since then, by those who polled: what a stopped process does not poll does not count */
	uint64_t gave_ns; /* when mesh_starved_give() was due last */
};

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
	MESH_LOCK(POLL) poll_lock;
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
	MESH_LOCK(CQ) lock; /* guards what follows, but for what says otherwise */
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

	MESH_LOCK(KICK) kick_lock; /* guards kicker and posting to it */
	struct ibv_qp *kicker; /* kick.c; NULL: none yet */
	_Atomic bool kicking; /* a kick is in the CQ, or was and has not been polled */
};

/* Is the calling thread between our start_poll and end_poll? It may have started with the base's, before us. */
static inline bool mesh_cq_is_own_poll(const struct mesh_cq *cq)
{
	return atomic_load_explicit(&cq->poller, memory_order_relaxed) == (uintptr_t)pthread_self();
}

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

/** mesh_cq_claim, mesh_cq_unclaim - see @claimed; not for long; waits */
void mesh_cq_claim(struct mesh_cq *cq);
static inline void mesh_cq_unclaim(struct mesh_cq *cq)
{
	mv_lock_given(&cq->claimed);
	atomic_store_explicit(&cq->claimed, false, memory_order_release);
}

/* A resize under way, on the stack of who does it. */
struct mesh_cq_resize {
	const struct ibv_cq *cq;
	struct mesh_cq_resize *next;
};

/** mesh_cq_is_resizing - data->lock */
bool mesh_cq_is_resizing(const struct mesh_data *data, const struct ibv_cq *cq);
/** mesh_cq_stash_reserve - room for that many more than there are and are being polled; cq->lock; 0 or -ENOMEM */
int mesh_cq_stash_reserve(struct mesh_cq *cq, uint32_t n);
/** mesh_cq_stash_room - is there some? cq->lock */
static inline bool mesh_cq_stash_room(const struct mesh_cq *cq)
{
	return cq->n_stash + cq->stash_kept < cq->stash_size;
}
/** mesh_cq_stash - show a completion of our own before all others; cq->lock; dropped if there is no room */
void mesh_cq_stash(struct mesh_cq *cq, const struct ibv_wc *wc);

#endif
