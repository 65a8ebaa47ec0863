/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PARITY_H
#define MESH_PARITY_H

#include "held.h"

/*
 * A queue pair of ours that is to do the work of one of the program's is as good as that, in what only shows when it is connected
 * (docs/parity.md): options of enhanced connection establishment (ECE), and whether data is placed in order. The caller has conn->lock.
 */

/**
 * mesh_parity_set - before it goes to RTR: it gets the ECE options that are in use
 * @qp: of ours, in INIT
 *
 * Return: 0; -EOPNOTSUPP: the NIC does not take them; mesh_parity_why() says so.
 */
int mesh_parity_set(struct mesh_held *h, struct ibv_qp *qp);
/**
 * mesh_parity_check - it is in RTR, or in RTS: is it as good?
 * @rts: whether it is in RTS: before nobody can ask for the order of data
 *
 * Return: 0; -EOPNOTSUPP: it is not; mesh_parity_why() says so.
 */
int mesh_parity_check(struct mesh_held *h, struct ibv_qp *qp, bool rts);
/** mesh_parity_why - what made the last one poorer; NULL: it was as good, or something else failed; a constant */
const char *mesh_parity_why(const struct mesh_held *h);
/** mesh_parity_forget - that does not matter any more */
void mesh_parity_forget(struct mesh_held *h);

/** mesh_parity_may_learn - it is not known whether the program's own queue pair places data in order, and can be asked now: in RTS */
bool mesh_parity_may_learn(struct mesh_held *h);
/** mesh_parity_learn - ask it. On cards that do, a command to the firmware */
void mesh_parity_learn(struct mesh_held *h);

/**
 * mesh_parity_query_ece - the program asks for the ECE options of one whose work is ours, as it sees it in RTR at least
 * @connected: whether the one that does the work is in RTR
 *
 * Before that no NIC has said what it takes. Programs ask at once, and tell the peer: so the answer is final, and it is none, unless the
 * program's own queue pair has answered.
 *
 * Return: 0; what ibv_query_ece() returned.
 */
int mesh_parity_query_ece(struct mesh_held *h, bool connected, struct ibv_ece *ret);

#endif
