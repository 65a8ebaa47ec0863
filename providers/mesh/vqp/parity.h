/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PARITY_H
#define MESH_PARITY_H

#include "vqp.h"

/*
 * Parity: does a QP of the plugin have the properties of the program's QP that only show once it is connected? These are the
 * options of enhanced connection establishment (ECE), and whether the NIC places data in order (docs/parity.md).
 *
 * Locks: conn->lock, for all functions.
 */

/**
 * mesh_parity_set - before RTR: set the ECE options that are in use
 * @qp: of the plugin, in INIT
 *
 * Return: 0; -EOPNOTSUPP: the NIC does not take the options; mesh_parity_why() says so.
 */
int mesh_parity_set(struct mesh_vqp *h, struct ibv_qp *qp);
/**
 * mesh_parity_check - in RTR or RTS: does @qp have the same properties?
 * @rts: @qp is in RTS; only then can the order of data be asked for
 *
 * Return: 0; -EOPNOTSUPP: a property is missing; mesh_parity_why() says so.
 */
int mesh_parity_check(struct mesh_vqp *h, struct ibv_qp *qp, bool rts);
/** mesh_parity_why - which property the last QP lacked, a constant; NULL: none, or something else failed */
const char *mesh_parity_why(const struct mesh_vqp *h);
/** mesh_parity_forget - forget mesh_parity_why() */
void mesh_parity_forget(struct mesh_vqp *h);

/**
 * mesh_parity_may_learn - can the program's own QP be asked now (RTS) whether it places data in order, and was it not asked yet?
 */
bool mesh_parity_may_learn(struct mesh_vqp *h);
/** mesh_parity_learn - ask it. NICs that support the query get a firmware command. */
void mesh_parity_learn(struct mesh_vqp *h);

/**
 * mesh_parity_query_ece - the program queries the ECE options of a QP whose work a QP of the plugin does
 * @connected: the QP that does the work is in RTR
 *
 * Before RTR no NIC has said which options it takes. But programs query early, and send the answer to the peer. So that answer is
 * final: the options of the program's own QP, or none.
 *
 * Return: 0; else as ibv_query_ece().
 */
int mesh_parity_query_ece(struct mesh_vqp *h, bool connected, struct ibv_ece *ret);

#endif
