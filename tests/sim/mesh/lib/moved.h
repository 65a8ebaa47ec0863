/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_MOVED_H
#define SIM_MESH_MOVED_H

#include <pthread.h>
#include <stdbool.h>

#include "keys.h"
#include "patience.h"
#include "vqp.h"

/*
 * Two queue pairs of one program on mlx5_0, connected to each other there, or moved, both, to mlx5_1: what is the
 * coordinator's and the peer's part is played by moved.c, so the same scenario can be run both ways and compared.
 */

#define END_BYTES  (1 << 20)
#define ALL_REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

#define RTR_MASK                                                                                             \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                      \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                                             \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |               \
	 IBV_QP_MAX_QP_RD_ATOMIC)

struct world {
	struct ibv_context *context; /* mlx5_0, overlaid */
	struct mesh_context *mc;
	struct ibv_pd *pd;
	struct mesh_rail *rail; /* mlx5_1 */
	struct mesh_pd *spd;
	union ibv_gid gid, rail_gid;
	uint8_t gid_index, rail_gid_index;
	/* The helper thread: turns events of the rail into events of the program. */
	pthread_t helper;
	_Atomic bool stop;
};

enum how { BARE, MOVED };

struct manner {
	enum how how;
	bool extended; /* polls with the functions of struct ibv_cq_ex */
	bool builders; /* posts with ibv_wr_*() */
	bool late_keys; /* translations of remote keys come later, from another thread */
};

struct key_wait {
	uint32_t rkey;
	struct key_wait *next;
};

struct end {
	struct world *world;
	const struct manner *manner;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex; /* the same, if extended */
	struct ibv_cq *recv_cq; /* shape->two_cqs: another one, which nothing here polls; else NULL */
	struct ibv_srq *srq;
	uint32_t srq_size; /* receives it takes */
	struct ibv_qp *qp;
	struct ibv_qp_ex *qp_ex;
	struct ibv_mr *mr;
	uint8_t *buf;
	bool spoke; /* CQ and SRQ are the hub's */
	/* Moved. */
	struct mesh_vqp *vqp;
	uint32_t shadow_qpn;
	bool late_rts; /* the program is in RTS before there is a shadow that could be */
	_Atomic unsigned int n_waits; /* calls of work_waits */
	_Atomic unsigned int n_asked; /* calls of want_key */
	pthread_mutex_t keys_lock;
	struct key_wait *asked;
};

struct end;

struct shape {
	const struct end *hub; /* its CQ and SRQ are used, not own ones */
	uint32_t cqe, max_wr, max_inline, max_sge; /* 0: 256, 64, 64, 4 */
	uint32_t srq_wr; /* 0: 64 */
	const struct ibv_qp_cap *cap; /* NULL: as @max_wr, @max_inline and @max_sge say */
	uint64_t wc_flags; /* of an extended CQ; 0: what end_poll() reads */
	uint32_t cq_mask, cq_flags; /* comp_mask and flags of an extended CQ */
	bool later; /* which is made by a later libibverbs */
	struct ibv_cq *recv_cq; /* NULL: one CQ for both */
	bool srq, sig_all;
	bool two_cqs; /* another one for receives, not extended */
	bool noted; /* the SRQ is noted, also if this end is not moved */
	int access; /* of MR and QP besides local write; 0: all */
	uint8_t timeout, retry_cnt, rnr_retry;
};

/* The one that is open while a test runs. */
extern struct world world;

void world_open(struct world *w);
void world_close(struct world *w);
/** world_setup, world_teardown - open and close @world, for cmocka */
int world_setup(void **state);
int world_teardown(void **state);

/** world_rtr, world_rts - what a program asks for, at mlx5_0 or with the GIDs of @rail, with RTR_MASK and RTS_MASK */
struct ibv_qp_attr world_rtr(const struct world *w, bool rail, uint32_t peer_qpn, uint32_t psn);
struct ibv_qp_attr world_rts(uint32_t psn);
/** world_event - up to one asynchronous event of mlx5_0, acknowledged; returns whether it came within @ms */
bool world_event(const struct world *w, struct ibv_async_event *ret, int ms);

/** end_open - QP in INIT */
void end_open(struct end *e, struct world *w, const struct manner *manner, const struct shape *shape);
void end_close(struct end *e);

/** ends_rtr, ends_rts, ends_move - the program's steps, and what comes of them: moved ends are held, then moved */
void end_rtr(struct end *e, const struct end *peer, const struct shape *shape);
void end_rts(struct end *e, const struct shape *shape);
/** end_shadow_rts - what end_rts() leaves out for an end with late_rts */
void end_shadow_rts(struct end *e, const struct shape *shape);
/** end_err - the program ends the connection */
void end_err(struct end *e);
void end_prepare(struct end *e);
void end_connect(struct end *e, const struct end *peer, const struct shape *shape);
/** end_passthrough - connect the lower provider's own QP of a held one */
void end_passthrough(struct end *e, const struct end *peer, const struct shape *shape);
/** ends_connect - all of it, for both */
void ends_connect(struct end *a, struct end *b, const struct shape *shape);
/** end_keys - answer want_key(), if keys are late; returns how many */
unsigned int end_keys(struct end *e);

/** end_send - in the manner of this end; returns the errno */
int end_send(struct end *e, struct ibv_send_wr *wr);
/** end_send_empty - a SEND of nothing; returns the errno */
int end_send_empty(struct end *e, uint64_t wr_id, unsigned int flags);
/** end_recv - returns the errno */
int end_recv(struct end *e, uint64_t wr_id, uint32_t offset, uint32_t length);
/** end_poll - up to one completion, in the manner of this end */
int end_poll(struct end *e, struct ibv_wc *wc);
/** end_wait - fails the test if none comes */
struct ibv_wc end_wait(struct end *e);
/** cq_wait_arrived - until the device has written @n completions to @cq, the program's or a shadow, that nobody has taken; as above */
void cq_wait_arrived(struct ibv_cq *cq, uint32_t n);
/** end_wait_begun - until the lower provider's queue pair has received something of what begins with @psn; as above */
void end_wait_begun(const struct end *e, uint32_t psn);
/** end_quiet - nothing comes for some milliseconds */
void end_quiet(struct end *e);
/** end_event - up to one event of its CQ, acknowledged; returns whether it came within @ms */
bool end_event(struct end *e, int ms);

typedef int (*query_qp_fn)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);

/** remote_access - what of ALL_REMOTE @qp allows, as @query_qp says */
unsigned int remote_access(query_qp_fn query_qp, struct ibv_qp *qp);

#endif
