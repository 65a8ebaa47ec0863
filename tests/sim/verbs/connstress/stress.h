/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef CONNSTRESS_STRESS_H
#define CONNSTRESS_STRESS_H

#include "script.h"

#include <infiniband/verbs.h>
#include <stdatomic.h>

#define MAX_WR  (2 * MAX_OPS)
#define N_SLOTS (MAX_QPS * MAX_OPS) /* receive buffers of a domain */

/* A device of this host, shared by all threads. */
struct device {
	const char *name;
	struct ibv_context *ctx;
	union ibv_gid gid;
	int gid_index;
};

/* What stands for one completion, however it was polled. */
struct comp {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode; /* valid with success only */
	uint32_t qp_num, byte_len, imm;
};

/* Everything of one sequence on one device. */
struct domain {
	struct device *dev; /* NULL: not used in this sequence */
	struct ibv_pd *pd, *other_pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex; /* NULL: plain */
	struct ibv_srq *srq;
	struct ibv_mr *local_mr, *target_mr, *other_mr;
	unsigned int n_events;
	unsigned int n_slots; /* posted receives */
	uint8_t slot_done[N_SLOTS]; /* 1 + status of its completion; 0: none yet */
};

struct endpoint {
	struct domain *dom;
	struct ibv_qp *qp;
	uint32_t qp_num;
	uint32_t peer_qpn;
	bool connected, broken;
	unsigned int n_posted; /* operations, from the first */
	uint8_t send_done[MAX_OPS + 1]; /* completions of each */
	enum ibv_wc_status status[MAX_OPS + 1];
	unsigned int n_recv; /* receives posted for it, without SRQ */
	unsigned int n_received; /* with success */
	unsigned int recv_op; /* the peer's operation that comes next */
	unsigned int n_recv_comps;
};

/* What the sides tell each other; same machine architecture. */
struct told {
	uint32_t step; /* both have to be at the same point */
	uint32_t qpn[MAX_QPS];
	union ibv_gid gid[2];
	uint32_t rkey[2], other_rkey[2];
	uint64_t target;
};

struct counts {
	_Atomic uint64_t sequences, connections, posted, signaled, completed, flushed, received,
		key_errors, broken;
};

struct worker {
	unsigned int number, side; /* @side: of both processes, 0 or 1 */
	int fd;
	struct device *devs; /* two */
	struct counts *counts;
	_Atomic uint64_t heartbeat; /* grows with everything done */
	_Atomic(const char *) doing; /* for the watchdog */
	uint64_t sequence;
	struct script script;
	struct domain doms[2];
	struct endpoint eps[MAX_QPS];
	struct told mine, theirs;
	uint8_t *local, *target; /* memory of this sequence */
	uint32_t old_rkey[2]; /* deregistered */
};

_Noreturn __attribute__((format(printf, 3, 4))) void die(struct worker *w, int err,
							 const char *format, ...);

/* --- memory: offsets */
#define TARGET_BYTES_PER_QP                                                                        \
	((size_t)(3 + MAX_OPS) * MAX_BYTES) /* the last: for a WRITE that must fail */
#define LOCAL_BYTES_PER_QP ((size_t)2 * (MAX_OPS + 1) * MAX_BYTES)
#define SLOTS_AT           (MAX_QPS * LOCAL_BYTES_PER_QP) /* in local: receive buffers of domain 0, then 1 \
							   */
#define LOCAL_BYTES  (SLOTS_AT + (size_t)2 * N_SLOTS * MAX_BYTES)
#define TARGET_BYTES (MAX_QPS * TARGET_BYTES_PER_QP)

static inline size_t counter_at(unsigned int qp)
{
	return qp * TARGET_BYTES_PER_QP;
}

static inline size_t read_at(unsigned int qp)
{
	return qp * TARGET_BYTES_PER_QP + MAX_BYTES;
}

static inline size_t write_at(unsigned int qp, unsigned int op)
{
	return qp * TARGET_BYTES_PER_QP + (2 + op) * (size_t)MAX_BYTES;
}

static inline uint8_t *source_of(const struct worker *w, unsigned int qp, unsigned int op)
{
	return w->local + qp * LOCAL_BYTES_PER_QP + op * (size_t)MAX_BYTES;
}

static inline uint8_t *result_of(const struct worker *w, unsigned int qp, unsigned int op)
{
	return source_of(w, qp, MAX_OPS + 1 + op);
}

static inline uint8_t *slot_of(const struct worker *w, unsigned int dom, unsigned int slot)
{
	return w->local + SLOTS_AT + (dom * N_SLOTS + slot) * (size_t)MAX_BYTES;
}

static inline struct side_script *my_side(struct worker *w)
{
	return &w->script.sides[w->side];
}

static inline struct side_script *their_side(struct worker *w)
{
	return &w->script.sides[!w->side];
}

/* objects.c */
void objects_make(struct worker *w);
void objects_destroy(struct worker *w);
void qp_destroy(struct worker *w, unsigned int q);
void target_register(struct worker *w); /* fills mine.rkey */
void target_deregister(struct worker *w);
/** qp_to() - INIT has been; RTR, RTS, ERR or RESET */
void qp_to(struct worker *w, unsigned int q, enum ibv_qp_state state);

/* traffic.c */
void receives_post(struct worker *w);
/** ops_post() - operations [@from, @to) of queue pair @q */
void ops_post(struct worker *w, unsigned int q, unsigned int from, unsigned int to);
/** bad_write_post() - one more WRITE, with @rkey */
void bad_write_post(struct worker *w, unsigned int q, uint32_t rkey);

/* complete.c */
/** wait_for() - take completions until @done says so; dies when they do not come */
void wait_for(struct worker *w, bool (*done)(struct worker *w), const char *what);
/** take_some() - what is there now */
unsigned int take_some(struct worker *w);
void check_memory(struct worker *w, unsigned int half);

/* sequence.c */
void sequence_run(struct worker *w);

#endif
