/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_REPLAYINT_H
#define MESH_REPLAYINT_H

#include "heldint.h"
#include "psn.h"

/* What the files share that say what becomes of the work of a fenced queue pair: replay.c surface.c. */

/* The sends of a fenced QP, oldest first, and what is to become of them. */
struct replay {
	size_t n;
	struct mv_wr *wrs; /* sg_list of each: max_sge entries in @sges. What follows lies behind them: hundreds replay at once, mostly little */
	struct mv_psn_wr *psns;
	struct ibv_sge *sges;
	enum mv_fate *fates;
	char *data; /* max_inline bytes for each */
	struct mesh_sendq queue; /* what goes to the next QP */
	bool placeholders; /* are in it */
	const struct ibv_send_wr *lost; /* the first atomic whose result is lost; NULL: none */
};

/** mesh_replay_read_log - what is outstanding; held->lock. Return: 0, or -errno and there is nothing to be given back */
int mesh_replay_read_log(struct mesh_held *h, struct replay *r);
/** mesh_replay_n_done - so many of the first are known to be done */
size_t mesh_replay_n_done(const struct mesh_held *h, const struct replay *r);
void mesh_replay_fini(struct replay *r);

#endif
