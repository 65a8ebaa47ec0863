/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_WR_TRACKER_H
#define MESH_WR_TRACKER_H

#include "srqlog.h"
#include "vqp_record.h"
#include "wrring.h"

struct mesh_walker;

/* A completion, as the log needs it. */
struct mesh_completion {
	uint64_t wr_id;
	struct mesh_cq *cq; /* of the program, where the completion is polled */
	uint32_t qpn; /* of the QP; written by mesh_poll_noticed() */
	enum ibv_wc_status status;
	bool receive; /* with status SUCCESS only */
	bool failed_receive; /* certainly an error of a receive; the verbs do not tell which queue an error is of */
	bool withheld; /* not shown, and possibly posted again; written by mesh_tracker_completed() */
	bool late; /* a receive of an SRQ that a QP flushed after it was drained; written by mesh_tracker_completed() */
	const enum ibv_wc_opcode *opcode; /* opcode to show; NULL: that of the device */
};

/*
 * Log of a queue pair that may move at work: its outstanding work requests, and its PSNs and counts in both directions. Written
 * by posts, retired by polls, read by moves (vqp_failover.c).
 *
 * Guarded by vqp->lock.
 */
struct mesh_wr_tracker {
	struct mv_wrring sends; /* of the QP that does the work, with the program's keys */
	struct mesh_srqlog receives; /* of the QP that does the work; during a drain: of the next QP */
	/*
	 * NULL: posts write both logs. Otherwise, until the end of a drain, the logs only have flushed work, and the
	 * rest is in mlx5's queues.
	 */
	struct mesh_walker *walker;
	bool shared; /* receives are of an SRQ, and not logged here */
	uint32_t n_received; /* receives consumed since the QP that does the work was connected, modulo 2^32 */
	uint32_t mtu_bytes; /* of its path; 0: not connected yet */
	bool rts; /* it can send */
	/* the peer has acknowledged a send of the QP that does the work; not written with a walker */
	bool acknowledged;
	uint32_t n_flushed; /* DRAINED: receives that the next QP has flushed, so the move fails */
	bool skipped_wrs; /* @sends has, or had, no-ops; a later move may post them again */
	/*
	 * @sends has an atomic whose result is lost, with @lost_wr_id: it will fail in its turn, and all work behind it. NULL:
	 * no.
	 */
	const char *lost_atomic;
	uint64_t lost_wr_id;
	uint32_t n_undone; /* DRAINED: number of the last of @sends that were flushed; all earlier ones are done */

	/*
	 * The QP that does the work is being drained, or went to ERR for a reason that another path may cure. Its
	 * completions in error are withheld until the end of the move.
	 */
	bool broken;
	/* The QP that does the work is in ERR since then (mesh_now_ns()), and has not left its SRQ; 0: not known to be so */
	uint64_t err_ns;
	/* withheld completions, in their order, for all outstanding work. NULL: none yet */
	struct mesh_completion *withheld;
	uint32_t n_withheld, max_withheld;
	/* withheld receive of an SRQ, in no rail SRQ's log: mesh_srq_withhold(); lock of the SRQ. NULL: no SRQ */
	struct mesh_srq_recv *begun;
	bool unlogged; /* a send was posted to the QP that does the work without being logged */
	uint32_t next_failed; /* where to search @sends for the next failed one */
	/*
	 * Sentinel work requests of a drain, posted last to each queue. A QP in ERR flushes its work in order, but does not
	 * report unsignaled sends that were done before: so only a sentinel tells that the queue is empty.
	 */
	enum mesh_drain_wr_state { MESH_DRAIN_WR_NONE, MESH_DRAIN_WR_POSTED, MESH_DRAIN_WR_SEEN } send_drain_wr, recv_drain_wr;
	/* The log is incomplete, or its work cannot be posted again: the QP cannot move any more. */
	const char *lost; /* why, for the operator; NULL: not lost */
};

/* Why a log is lost: an unknown work request. */
extern const char mesh_tracker_kind[];

/**
 * mesh_tracker_new - an empty log, without memory for work requests
 * @shared: receives are of an SRQ
 *
 * Return: to be freed with mesh_tracker_free(); NULL: no memory.
 */
struct mesh_wr_tracker *mesh_tracker_new(const struct ibv_qp_cap *cap, bool sq_sig_all, bool shared);
/**
 * mesh_tracker_room - allocate memory for all work that the QP can have outstanding, if not done yet
 * @cap: as above
 *
 * Without a walker: before the first post. With a walker: at the first error, when a move is prepared, or in advance.
 * vqp->lock.
 *
 * Return: 0; -ENOMEM.
 */
int mesh_tracker_room(struct mesh_wr_tracker *tracker, const struct ibv_qp_cap *cap);
void mesh_tracker_free(struct mesh_wr_tracker *tracker); /* NULL is fine */

/** mesh_tracker_reads - is the work read from mlx5's queues, and not logged? vqp->lock */
bool mesh_tracker_reads(const struct mesh_wr_tracker *tracker);

/** mesh_tracker_rtr - the QP that does the work is in RTR; no receive was consumed yet */
void mesh_tracker_rtr(struct mesh_wr_tracker *tracker, uint32_t mtu_bytes);
/** mesh_tracker_rts - it is in RTS; no send is outstanding */
void mesh_tracker_rts(struct mesh_wr_tracker *tracker, uint32_t sq_psn);

/**
 * mesh_tracker_send - log a send that is about to be posted; hot
 *
 * Return: 0: logged; undo by mv_wrring_undo() if the provider refuses the send; ENOMEM: the queue is full; -1: not logged.
 */
int mesh_tracker_send(struct mesh_wr_tracker *tracker, const struct ibv_send_wr *wr);

/**
 * mesh_tracker_skipped_wr - make the no-op to post in place of a send that the peer has executed
 *
 * The no-op completes in its turn, behind a READ that is posted again, or with an error if that fails. On the wire the no-op is a
 * READ of no bytes: the peer allows READs, since there is one before it, and perhaps no WRITEs.
 */
void mesh_tracker_skipped_wr(const struct ibv_send_wr *done, struct ibv_send_wr *ret);
/** Flag in the plugin's queue and log only, not in posted requests: the completion is not shown to the program. */
#define MESH_SEND_UNASKED (1u << 31)

/**
 * mesh_tracker_lost - make the entry to queue in place of an atomic whose result is lost; mesh_tracker_is_lost() - is
 * it such an entry?
 */
void mesh_tracker_lost(const struct ibv_send_wr *atomic, struct ibv_send_wr *ret);
bool mesh_tracker_is_lost(const struct ibv_send_wr *wr);
/** mesh_wc_opcode - opcode of the completion of a send */
enum ibv_wc_opcode mesh_wc_opcode(enum ibv_wr_opcode opcode);
/** mesh_tracker_wc_opcode - the same; for a no-op, of the send that it replaces */
enum ibv_wc_opcode mesh_tracker_wc_opcode(const struct ibv_send_wr *wr);

/**
 * mesh_tracker_completed - a completion of the QP that does the work was polled; c->cq->lock; hot
 * @c: opcode and withheld are written, and failed_receive if the log tells
 *
 * Return: should the program see it?
 */
bool mesh_tracker_completed(struct mesh_vqp *h, struct mesh_completion *c);

/* wr_ids of the sentinels: addresses of the plugin's memory, which no wr_id of the program is. */
static inline uint64_t mesh_tracker_send_drain_wr(const struct mesh_wr_tracker *tracker)
{
	return (uintptr_t)&tracker->send_drain_wr;
}
static inline uint64_t mesh_tracker_recv_drain_wr(const struct mesh_wr_tracker *tracker)
{
	return (uintptr_t)&tracker->recv_drain_wr;
}

#endif
