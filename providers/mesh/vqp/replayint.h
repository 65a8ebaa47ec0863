/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_REPLAYINT_H
#define MESH_REPLAYINT_H

#include "psn.h"
#include "vqp_int.h"

/* Shared by replay.c and flush_errors.c: the work of a drained queue pair. */

/* Sends of a drained QP, oldest first, with their fates. */
struct replay {
	size_t n;
	struct mv_wr *wrs; /* one allocation for all arrays: hundreds of QPs replay at once; sg_list of each has max_sge entries in @sges */
	struct mv_psn_wr *psns;
	struct ibv_sge *sges;
	enum mv_fate *fates;
	char *data; /* max_inline bytes for each */
	struct mesh_sendq queue; /* sends for the next QP */
	bool skipped_wrs; /* @queue has no-ops */
	const struct ibv_send_wr *lost; /* the first atomic whose result is lost; NULL: none */
};

/** mesh_replay_read_log - copy the outstanding sends. Return: 0, or -errno with nothing to free. Locks: vqp->lock. */
int mesh_replay_read_log(struct mesh_vqp *h, struct replay *r);
/** mesh_replay_n_done - number of sends, from the first on, that are known to be done */
size_t mesh_replay_n_done(const struct mesh_vqp *h, const struct replay *r);
void mesh_replay_fini(struct replay *r);

#endif
