/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DATA_H
#define MESH_DATA_H

#include <stdbool.h>
#include <sys/queue.h>

#include <infiniband/verbs.h>

#include "map.h"
#include "mlx5state.h"
#include "ranks.h"

struct mesh_vqp;

/*
 * Data path of virtual QPs, per context; part of struct mesh_context. All zero but the lock, until the first extended CQ, SRQ or
 * connection.
 *
 * Which functions are installed in the context's ops: post_recv of the plugin while receives of a QP are recorded. post_send,
 * post_recv, poll_cq and req_notify_cq of the plugin while a QP is virtual, and then until no completion of the plugin is left to
 * be shown or hidden. While all virtual QPs have a walker (mlx5_wr_walker.h), both posts are the lower provider's.
 * post_srq_recv of the plugin while there are SRQs that may be shared with moved QPs (srq.h). Otherwise the lower
 * provider's functions. A function of another library is left in place: mesh_data_takes().
 */
#define MESH_FORGOTTEN_MAX 64u

/* Withheld IBV_EVENT_QP_LAST_WQE_REACHED events: lastwqe.c. */
struct mesh_last_wqe {
	/* Guards the rest, and last_wqe of each struct mesh_vqp. Innermost. */
	MESH_LOCK(LAST_WQE) lock;
	struct ibv_qp *qp; /* QP of the plugin on the program's device, made when needed, as the next two; NULL before */
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	_Atomic bool program_reads; /* the program has read an event of this device; written once */
	bool speaking; /* @qp has caused an event for the first of @due, which the program has not read */
	TAILQ_HEAD(, mesh_vqp) due; /* QPs whose event has to come now */
};

struct mesh_data {
	MESH_LOCK(DATA) lock; /* guards changes of the maps, and all below; for its order see vqp.h */
	struct mesh_map qps; /* struct mesh_vqp; look-ups need no lock */
	struct mesh_map cqs; /* struct mesh_cq */
	struct mesh_map srqs; /* struct mesh_srq */
	struct mesh_map extended; /* CQs made by create_cq_ex: wc_flags + 1, as a pointer */
	struct mesh_map moderated; /* CQs with a moderation: moderation.c */
	struct mesh_vqp *all; /* all records ever made; freed with the context */
	struct mesh_vqp *free; /* records not in use */
	unsigned int n_noted, n_vqps, n_used_cqs, n_srqs;
	unsigned int n_read; /* those of n_vqps whose posts go directly to the lower provider (mlx5_wr_walker.h) */
	struct mesh_mlx5 mlx5;
	struct mesh_cq_resize *resizing; /* resizes under way, during which no walker of the CQ is opened */
	uint32_t forgotten[MESH_FORGOTTEN_MAX]; /* QPNs of QPs without record, for lack of memory in INIT */
	_Atomic unsigned int n_forgotten; /* also read without the lock: mostly 0 */
	bool forgotten_more; /* there were more */
	bool extended_unknown; /* no memory for an entry of @extended or @moderated: no QP is held any more */
	struct ibv_pd *pd; /* of the plugin, on the program's device; NULL before it was needed */
	MESH_LOCK(MADE) made_lock; /* guards the next two; innermost */
	struct mesh_map made; /* struct mesh_qp_made: qpmade.h */
	bool made_unknown; /* no memory for an entry of @made: nothing is known of QPs without entry */
	/*
	 * Held while the lower provider makes or destroys an SRQ. libmlx5 (rdma-core 44 to 64) counts references to its
	 * table of SRQs up with a lock, and down without: two threads at once may make it free the table too early.
	 * Innermost.
	 */
	MESH_LOCK(SRQ_TABLE) srq_table_lock;
	struct mesh_last_wqe last_wqe;
	struct mesh_reap_entry *reap_list; /* reaper.c */
	_Atomic unsigned int n_reap; /* their number; written under the lock */
};

/* Datagrams to other rails, per context (ud.h); part of struct mesh_context. Changed under ud_lock. */
struct mesh_ud_data {
	struct mesh_map ahs; /* the program's address handles: struct mesh_ud_ah; look-ups need no lock */
	struct mesh_map setters; /* QPs with ibv_wr_*: the lower provider's wr_set_ud_addr; look-ups need no lock */
	_Atomic unsigned int n_ahs;
};

#endif
