/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One queue pair of a pair (pair.h), whose rings are read as libmlx5 has them (wrmlx5.h). What is not
 * said to return fails the test. */
#ifndef SIM_VERBS_RING_H
#define SIM_VERBS_RING_H

#include "pair.h"
#include "wrmlx5.h"

#define ROUNDS     250
#define MAX_SGE    4
#define MAX_INLINE 200
#define SEND_WRS   40
#define RECV_WRS   24
#define MARKER     UINT64_C(0xabcdef0123456789)
#define MTU        1024
#define PATIENCE   2000000000 /* polls; minutes */

/* A work request as it was posted, without what leaves no trace: empty entries. */
struct posted {
	struct ibv_send_wr wr;
	struct ibv_sge sges[MAX_SGE];
	uint8_t data[MAX_INLINE];
	uint32_t inline_bytes;
	uint64_t length;
};

struct received {
	uint64_t wr_id;
	struct ibv_sge sges[MAX_SGE];
	int n;
};

struct ring {
	struct pair pair;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct mv_mlx5_ring sq, rq;
	struct mv_mlx5_cq cq;
	uint64_t next_id;
	struct posted posted[SEND_WRS];
	size_t n_posted;
	struct received received[RECV_WRS];
	size_t n_received;
	uint8_t source[4096];
};

/* The one that is open while a test runs. */
extern struct ring t;

/** ring_open() - of a pair that is not connected; seeds random.h, by TEST_SEED if that is set. */
void ring_open(bool sig_all);
void ring_close(void);

/** modify() - @peer: whom it is connected to; of RTR only, else NULL. */
void modify(struct ibv_qp *qp, enum ibv_qp_state state, struct ibv_qp *peer);
/** connect_both() - the ring's queue pair and b's, from RESET. */
void connect_both(void);
/** post_old() - returns what ibv_post_send() does. */
int post_old(const struct posted *p, struct ibv_sge *list, int n);

struct done {
	uint64_t wr_id;
	uint16_t wqe_counter;
	bool error;
};

struct drained {
	struct done sends[SEND_WRS + 1], receives[RECV_WRS + 1];
	size_t n_sends, n_receives;
	uint16_t sq_end, rq_end;
	bool marked; /* there was room for a marker in the send queue */
};

/** drain() - what comes of all that was posted to the queue pair, which is in ERR. */
void drain(struct drained *d);

#endif
