// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "conn.h"
#include "ud.h"

/* Limit of RC queue pairs that are looked at per address handle. */
#define MAX_LOOKS 64

/* @last_cq: CQ of the last QP that was checked; most QPs have the same CQ. */
static bool is_driven_rc(struct mesh_conn *conn, const struct ibv_pd *pd, const struct ibv_cq **last_cq)
{
	bool driven = false;

	mesh_lock(&conn->lock);
	if (!conn->gone && conn->qp->send_cq != *last_cq && mesh_pd_underlying(conn->qp->pd) == pd) {
		*last_cq = conn->qp->send_cq;
		driven = mesh_ud_is_driven(conn->mc, conn->qp);
	}
	mesh_unlock(&conn->lock);
	return driven;
}

/* Looks at the newest connections: those are being set up with the help of datagrams. */
bool mesh_conns_are_driven(struct mesh_context *mc, const struct ibv_pd *pd)
{
	struct mesh_conn *newest[MAX_LOOKS];
	const struct ibv_cq *last_cq = NULL;
	size_t n = mesh_conns_of(mc, newest, MAX_LOOKS, NULL), i;
	bool driven = false;

	for (i = 0; i < n; i++) {
		driven = driven || is_driven_rc(newest[i], pd, &last_cq);
		mesh_conn_put(newest[i]);
	}
	return driven;
}
