/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Transfers as NCCL's net_ib makes them. The receiver posts receives without buffers and writes
 * "clear to send" into the sender's queue (inline, signaled once per round and device); the sender
 * writes the data over all queue pairs, without completions, and ends each with a WRITE_WITH_IMM;
 * the receiver reads back by a READ to itself. What is sent is a function of seed, sender and
 * number, so that the receiver can check every byte.
 */
#ifndef NCCLISH_XFER_H
#define NCCLISH_XFER_H

#include "conn.h"

/* When the memory of a transfer is registered; each has its turn. */
enum mr_policy {
	MR_BEFORE, /* before the connection was made */
	MR_BETWEEN, /* while it was being made */
	MR_FRESH, /* for this transfer only */
	MR_AGAIN, /* registered, deregistered, and registered again at the same address */
	MR_POLICIES,
};

struct plan {
	uint64_t seed;
	uint32_t max_bytes; /* of one buffer */
	uint64_t n_transfers;
};

struct request {
	bool used, flushing;
	uint64_t number; /* from 0 */
	int events; /* completions to come */
	uint32_t sizes[MAX_RECVS]; /* receiver: what came */
	struct ibv_mr *mr[MAX_DEVS];
	bool own_mr; /* to be deregistered */
};

struct side {
	struct net *net;
	struct end end;
	const struct plan *plan;
	uint32_t sender; /* rank that the data comes from */
	uint8_t *memory; /* MAX_REQS * MAX_RECVS buffers */
	struct ibv_mr *before[MAX_DEVS], *between[MAX_DEVS];
	struct request reqs[MAX_REQS];
	uint64_t posted, finished, bytes;
};

void side_init(struct side *side, struct net *net, const struct plan *plan, uint32_t sender);
/** side_register_between() - to be called once, after the connection was begun and before it is
 * made. */
void side_register_between(struct side *side);
void side_close(struct side *side);

/* Start what can be started, take completions; wrong data ends the program. */
void send_progress(struct side *side);
void recv_progress(struct side *side);

#endif
