/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DATA_H
#define MESH_DATA_H

#include <stdbool.h>
#include <sys/queue.h>

#include <infiniband/verbs.h>

#include "map.h"
#include "mlx5state.h"
#include "ranks.h"

struct mesh_held;

/*
 * What a context has for the data path of held and moved QPs; part of struct mesh_context. All zero but for the lock
 * until the first extended CQ, SRQ or connection.
 *
 * The public places ops.post_send, ops.post_recv, ops.poll_cq and ops.req_notify_cq of the context have the base's
 * functions, except: post_recv ours while a QP's receives are noted; all four ours while a QP is held, and after that
 * until no completion of ours is left to be shown or hidden. While all that are held have a reader (reader.h), both posts are the base's. ops.post_srq_recv is ours while there are SRQs that may
 * have to be shared with moved QPs (srq.h). What somebody else has put there stays: mesh_data_takes().
 */
#define MESH_FORGOTTEN_MAX 64u

/* Of events that say that a QP with an SRQ is in ERR: those that the program read before it was to know. lastwqe.c */
struct mesh_last_wqe {
	/* Guards the rest, and last_wqe and next_due of every struct mesh_held. Taken with any other lock of ours; takes none of them. */
	MESH_LOCK(LAST_WQE) lock;
	struct ibv_qp *qp; /* our own, on the base's device; NULL before it was needed; stays then, as do the next two */
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	_Atomic bool program_reads; /* the program has read an event of this device: written once */
	bool speaking; /* it has an event for the first of @due that the program has not read */
	TAILQ_HEAD(, mesh_held) due; /* QPs whose event has to come now */
};

struct mesh_data {
	MESH_LOCK(DATA) lock; /* guards changes of the maps and everything below; see held.h for its order */
	struct mesh_map qps; /* struct mesh_held; look-ups need no lock */
	struct mesh_map cqs; /* struct mesh_cq */
	struct mesh_map srqs; /* struct mesh_srq */
	struct mesh_map extended; /* CQs made by create_cq_ex: wc_flags + 1, as a pointer */
	struct mesh_map moderated; /* CQs with a moderation: moderation.c */
	struct mesh_held *all; /* every record ever made; they are freed with the context */
	struct mesh_held *free; /* those not in use */
	unsigned int n_noted, n_held, n_used_cqs, n_srqs;
	unsigned int n_read; /* of n_held: those whose posts go to the base itself (reader.h) */
	struct mesh_mlx5 mlx5;
	struct mesh_cq_resize *resizing; /* CQs that are being resized, and of which nobody is to ask meanwhile where they are */
	uint32_t forgotten[MESH_FORGOTTEN_MAX]; /* QPs for which there was no memory when they went to INIT, and then no record */
	_Atomic unsigned int n_forgotten; /* read without the lock, too: mostly there are none */
	bool forgotten_more; /* there was no room for one there */
	bool extended_unknown; /* there was no memory for one of @extended or @moderated: no QP is held any more */
	struct ibv_pd *pd; /* our own, on the base's device; NULL before it was needed */
	MESH_LOCK(MADE) made_lock; /* guards the next two; takes no lock of ours */
	struct mesh_map made; /* struct mesh_qp_made: qpmade.h */
	bool made_unknown; /* there was no memory for one of @made: of one that is not there nothing is known */
	/*
	 * Held while the base makes or destroys an SRQ: libmlx5 (rdma-core 44 to 64) counts its table of SRQs up with a lock
	 * and down without, and two threads at once make it free the table too early. Takes no lock of ours.
	 */
	MESH_LOCK(SRQ_TABLE) srq_table_lock;
	struct mesh_last_wqe last_wqe;
	struct mesh_leftover *leftovers; /* leftover.c */
	_Atomic unsigned int n_leftovers; /* of these; written under the lock */
};

/* What a context has for datagrams to other rails (ud.h); part of struct mesh_context. Changed under ud_lock. */
struct mesh_ud_data {
	struct mesh_map ahs; /* address handles of the program: struct mesh_ud_ah; look-ups need no lock */
	struct mesh_map setters; /* QPs with ibv_wr_*: the base's wr_set_ud_addr; look-ups need no lock */
	_Atomic unsigned int n_ahs;
};

#endif
