/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Two queue pairs of one process, connected to each other: what the tests of verbs semantics start
 * from. */
#ifndef SIM_VERBS_PAIR_H
#define SIM_VERBS_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define BUF_BYTES (1 << 20)

struct side {
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
};

struct pair {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int gid_index;
	struct side a, b; /* a asks, b answers */
};

struct options {
	const char *device; /* NULL: any */
	enum ibv_qp_type type;
	uint32_t psn; /* of a's requests */
	int cqe; /* 0: 256 */
	bool srq; /* b receives from one */
	bool unconnected; /* b stays in INIT */
	bool stop_at_rtr; /* b stays in RTR */
	uint8_t timeout, retry_cnt, rnr_retry, rd_atomic;
	int access; /* of b's MR, besides local write; 0: all */
	int qp_access; /* of b's QP; 0: as the MR */
};

/** pair_open() - from RESET to RTS; exits with a message if a verb fails. @opt: zeroes mean
 * defaults. */
void pair_open(struct pair *p, const struct options *opt);
void pair_close(struct pair *p);

/** post_recv() - one buffer of @len bytes at @off of b. */
void post_recv(struct pair *p, uint64_t wr_id, uint32_t off, uint32_t len);
/** post_send() - returns what ibv_post_send() does; the buffer is @len bytes at the start of a's.
 */
int post_send(struct pair *p, uint64_t wr_id, enum ibv_wr_opcode op, uint32_t len,
	      unsigned int flags);
/** post_rdma() - the same with an address in b's buffer, or any other, and a key. */
int post_rdma(struct pair *p, uint64_t wr_id, enum ibv_wr_opcode op, uint32_t len,
	      unsigned int flags, uint64_t raddr, uint32_t rkey);
/** wait_wc() - the next completion; fails the test if none comes within five seconds. */
struct ibv_wc wait_wc(struct ibv_cq *cq);
/** wait_async() - the next asynchronous event, acknowledged; fails the test after five seconds. */
enum ibv_event_type wait_async(struct pair *p);
uint32_t rq_psn(struct ibv_qp *qp);
enum ibv_qp_state qp_state(struct ibv_qp *qp);

#endif
