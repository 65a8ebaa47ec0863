/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PLACES_H
#define MESH_PLACES_H

#include "context.h"

/* Function pointers of a context (struct ibv_context_ops) that the plugin may replace, and which uses need which. */
enum {
	MESH_AT_poll_cq = 1,
	MESH_AT_req_notify_cq = 2,
	MESH_AT_post_send = 4,
	MESH_AT_post_recv = 8,
	MESH_AT_post_srq_recv = 16,
};
#define MESH_POLLING	     (MESH_AT_poll_cq | MESH_AT_req_notify_cq)
#define MESH_POSTING	     (MESH_AT_post_send | MESH_AT_post_recv)
#define MESH_FOR_CONNECTIONS (MESH_POLLING | MESH_POSTING)
#define MESH_FOR_SRQS	     (MESH_FOR_CONNECTIONS | MESH_AT_post_srq_recv)
#define MESH_FOR_DATAGRAMS   (MESH_POLLING | MESH_AT_post_send)

/**
 * mesh_data_slots - install the plugin's functions in the context, or restore the lower provider's, as needed;
 * data->lock
 *
 * Does not change a pointer that mesh_data_takes() refuses.
 */
void mesh_data_slots(struct mesh_context *mc);
/**
 * mesh_data_takes - have all these pointers the lower provider's function, or the plugin's? Call before beginning
 * something that needs the plugin's there.
 *
 * Otherwise another library has put its function there, and what needs the plugin's must not be done. Logged once. That function
 * may, or may not, call the plugin's: that cannot be known. Uses that began before go on.
 *
 * data->lock; any other lock of the plugin but the logger's may be held.
 */
bool mesh_data_takes(const struct mesh_context *mc, unsigned int places);
/** mesh_data_why_not - why the pointers cannot be used for a connection now, a constant; NULL: they can; any thread */
const char *mesh_data_why_not(const struct mesh_context *mc);

/* Functions of the rooms above for these pointers. callbacks.c fills the table before any other code of the plugin runs. */
struct mesh_places_ops {
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
};
extern struct mesh_places_ops mesh_places_ops;

/** mesh_ud_active - may a work request of a UD QP of this context be redirected? */
static inline bool mesh_ud_active(const struct mesh_context *mc)
{
	return atomic_load_explicit(&mc->ud.n_ahs, memory_order_acquire);
}

#endif
