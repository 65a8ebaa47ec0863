/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PLACES_H
#define MESH_PLACES_H

#include "context.h"

/* The context's public places (struct ibv_context_ops) that may get our functions, and what needs which of them. */
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
 * mesh_data_slots - put our functions into the context's public places, or take them out, as is needed; data->lock
 *
 * In a place that mesh_data_takes() does not take nothing changes.
 */
void mesh_data_slots(struct mesh_context *mc);
/**
 * mesh_data_takes - have all these places the base's function, or ours? Before anything is begun that needs ours there
 *
 * Else something else has put its own there, and what needs ours is not to be done. That is logged, once. Whether it was put
 * over ours and calls it cannot be known, so that is the same; for what has begun before, ours goes on working below it.
 *
 * data->lock; any other lock of ours but the logger's may be held.
 */
bool mesh_data_takes(const struct mesh_context *mc, unsigned int places);
/** mesh_data_why_not - why the places do not do for a connection now, a constant; NULL: they do; any thread */
const char *mesh_data_why_not(const struct mesh_context *mc);

/* Our functions for these places, of the rooms above; callbacks.c writes them before anything else of the plugin runs. */
struct mesh_places_ops {
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
};
extern struct mesh_places_ops mesh_places_ops;

/** mesh_ud_active - may work requests of UD QPs of this context be for us? */
static inline bool mesh_ud_active(const struct mesh_context *mc)
{
	return atomic_load_explicit(&mc->ud.n_ahs, memory_order_acquire);
}

#endif
