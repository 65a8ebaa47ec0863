/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TEST_AGREED_H
#define MESH_TEST_AGREED_H

#include "conn.h"

/**
 * agreed_conn - a connection of @qp in @process, whose ends have agreed
 *
 * Attempts: 3 here, 4 at the peer. PSNs: sends from 5, receives from 6. Queue pairs: 7 here, 8 at the peer. The caller sets the
 * state, and ends the connection.
 */
struct mesh_conn *agreed_conn(struct mesh_process *process, struct ibv_qp *qp, struct mesh_vqp *vqp);

#endif
