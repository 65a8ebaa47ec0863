/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_GUARD_H
#define MESH_GUARD_H

#include "heldrecord.h"
#include "srqlog.h"
#include "wrring.h"

struct mesh_reader;

/* A completion, as far as it matters here. */
struct mesh_completion {
	uint64_t wr_id;
	struct mesh_cq *cq; /* of the program, where it was or will be polled */
	uint32_t qpn; /* of the QP that it is of; written by mesh_poll_noticed() */
	enum ibv_wc_status status;
	bool receive; /* with status SUCCESS only */
	bool failed_receive; /* an error that is a receive's for certain; in others the program does not see that, nor do we */
	bool kept; /* not shown, and not done with either; written by mesh_guard_completed() */
	bool late; /* a receive of an SRQ that a drained QP flushed after its drain; written by mesh_guard_completed() */
	const enum ibv_wc_opcode *opcode; /* what to show instead of what the device said; NULL: nothing */
};

/*
 * The log of a queue pair that may be moved while it is at work: which of its work requests are outstanding, and how far
 * each direction has come. Written when the program posts, retired when it polls; see live.c for what it is read for.
 *
 * All of it is guarded by held->lock.
 */
struct mesh_guard {
	struct mv_wrring sends; /* of the QP that does the work, with the program's own keys */
	struct mesh_srqlog receives; /* of that QP, or while it is being fenced: of the one that comes next */
	/*
	 * NULL: both are written when the program posts. Else until the fence is through they have only what was flushed, and the base's
	 * own queues have the rest.
	 */
	struct mesh_reader *reader;
	bool shared; /* receives are an SRQ's: not logged here */
	uint32_t n_received; /* receives consumed since the QP that does the work was connected, modulo 2^32 */
	uint32_t mtu_bytes; /* of its path; 0: not connected yet */
	bool rts; /* it can send */
	bool acknowledged; /* a send has completed on the QP that does the work; with a reader that is not noted */
	uint32_t n_flushed; /* FENCED: receives that the QP that comes next has flushed: the move failed */
	bool placeholders; /* there are some among @sends, or were; a later move may post them again */
	/*
	 * Among @sends is an atomic whose result was lost: it fails in its turn, and all that is behind it. NULL: not so. Its
	 * completion is @lost_wr_id's.
	 */
	const char *lost_atomic;
	uint64_t lost_wr_id;
	uint32_t n_undone; /* FENCED: the last that many of @sends were flushed, so all before them are done */

	/*
	 * The QP that does the work went to ERR for a reason that another path may help against, or is being fenced: its
	 * completions in error are kept from the program until it is known how this ends.
	 */
	bool broken;
	struct mesh_completion *kept; /* in their order; room for all that can be outstanding. NULL: none yet */
	uint32_t n_kept, max_kept;
	struct mesh_srq_recv *begun; /* such a one, out of its home's log: mesh_srq_keep(); its SRQ's lock. NULL: none is taken out */
	bool unlogged; /* a send was posted to the QP that does the work that is not among @sends */
	uint32_t next_failed; /* where to look first among @sends for one that fails */
	/*
	 * A QP in ERR flushes what it has, in order; but it says nothing of unsignaled sends that were done before. So that
	 * it is through is told by a work request of ours, posted last to each of its queues.
	 */
	enum mesh_mark_state { MESH_MARK_NONE, MESH_MARK_POSTED, MESH_MARK_SEEN } send_mark, recv_mark;
	/* What cannot be given back to the program by posting again happened: it is as without us from here on. */
	const char *lost; /* why, for the operator; NULL: it has not */
};

/* Why a log is lost: what was posted is not in it, or could not be posted again. */
extern const char mesh_guard_kind[];

/**
 * mesh_guard_new - an empty log, without room for any work request
 * @shared: the receives are an SRQ's
 *
 * Return: to be freed with mesh_guard_free(); NULL: no memory.
 */
struct mesh_guard *mesh_guard_new(const struct ibv_qp_cap *cap, bool sq_sig_all, bool shared);
/**
 * mesh_guard_room - give it room for all that its QP can have outstanding, if it has none yet
 * @cap: as above
 *
 * With a reader that is before the first completion in error is looked at, or when a move is prepared, or ahead; else before
 * anything is posted. held->lock. Return: 0; -ENOMEM.
 */
int mesh_guard_room(struct mesh_guard *guard, const struct ibv_qp_cap *cap);
void mesh_guard_free(struct mesh_guard *guard); /* NULL is fine */

/** mesh_guard_reads - is the work read from the base's queues, and not logged? held->lock */
bool mesh_guard_reads(const struct mesh_guard *guard);

/** mesh_guard_rtr - the QP that does the work from now on can receive; no receive has been consumed yet */
void mesh_guard_rtr(struct mesh_guard *guard, uint32_t mtu_bytes);
/** mesh_guard_rts - it can send: no send is outstanding */
void mesh_guard_rts(struct mesh_guard *guard, uint32_t sq_psn);

/**
 * mesh_guard_send - a send is about to be posted; hot
 *
 * Return: 0: it is in the log, and has to be taken back (mv_wrring_undo()) if the provider refuses it; ENOMEM: the queue is
 * full; -1: it goes unlogged.
 */
int mesh_guard_send(struct mesh_guard *guard, const struct ibv_send_wr *wr);

/**
 * mesh_guard_placeholder - what is posted in the place of a send that the peer has executed already
 *
 * It completes in its turn, behind a READ that has to be done again, or with an error where that one fails. On the wire it is a
 * READ of nothing: as there is one before it, the peer allows READs, and WRITEs perhaps not.
 */
void mesh_guard_placeholder(const struct ibv_send_wr *done, struct ibv_send_wr *ret);
/** In send_flags of our own queue and log, not of what is posted: its completion is for us alone. */
#define MESH_SEND_UNASKED (1u << 31)

/** mesh_guard_lost - what is posted in the place of an atomic whose result is lost; mesh_guard_is_lost() - is it one? */
void mesh_guard_lost(const struct ibv_send_wr *atomic, struct ibv_send_wr *ret);
bool mesh_guard_is_lost(const struct ibv_send_wr *wr);
/** mesh_wc_opcode - of the completion of a send */
enum ibv_wc_opcode mesh_wc_opcode(enum ibv_wr_opcode opcode);
/** mesh_guard_wc_opcode - of the completion of a send, or of that whose place it holds */
enum ibv_wc_opcode mesh_guard_wc_opcode(const struct ibv_send_wr *wr);

/**
 * mesh_guard_completed - a completion of the QP that does the work was polled, c->cq->lock is held; hot
 * @c: its opcode is written; failed_receive, if the log tells; kept
 *
 * Return: whether the program is to see it.
 */
bool mesh_guard_completed(struct mesh_held *h, struct mesh_completion *c);

/* The wr_ids of these: no number of the program's is the address of our memory. */
static inline uint64_t mesh_guard_send_mark(const struct mesh_guard *guard)
{
	return (uintptr_t)&guard->send_mark;
}
static inline uint64_t mesh_guard_recv_mark(const struct mesh_guard *guard)
{
	return (uintptr_t)&guard->recv_mark;
}

#endif
