/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A connection as NCCL's net_ib makes one: a sender and a receiver, each with several queue pairs
 * spread over its devices; the two meet over TCP, which carries QPNs, GIDs and keys. Nothing
 * blocks: one thread brings a sender and a receiver forward in turns.
 */
#ifndef NCCLISH_CONN_H
#define NCCLISH_CONN_H

#include "lib.h"

#include <stdbool.h>

#define MAX_DEVS  4
#define MAX_QPS   16
#define MAX_REQS  8 /* transfers under way */
#define MAX_RECVS 4 /* buffers that one transfer fills */

struct dev {
	char name[64];
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
};

/* "Clear to send": where the receiver wants the data, written into the sender's memory. */
struct cts {
	uint64_t addr;
	uint64_t bytes;
	uint32_t rkeys[MAX_DEVS]; /* for each of the receiver's devices */
	uint32_t n;
	uint32_t tag;
	uint64_t number; /* of the transfer, from 1; last to be looked at */
	uint8_t reserved[16];
};

/* What one side tells the other over TCP; both are the same program. */
struct meta {
	uint32_t n_devs, n_qps;
	struct {
		uint32_t qpn, dev;
	} qps[MAX_QPS];
	struct {
		union ibv_gid gid;
		uint32_t lid; /* InfiniBand */
		uint32_t mtu;
		uint32_t rkey; /* of @addr */
	} devs[MAX_DEVS];
	uint64_t addr; /* sender: its CTS queue; receiver: where sizes of grouped transfers go */
};

struct end {
	int fd;
	size_t moved; /* bytes of the message under way over @fd */
	int stage;
	struct meta mine, theirs;
	struct ibv_cq *cq[MAX_DEVS];
	struct ibv_qp *qp[MAX_QPS]; /* number i is on device i % n_devs */
	struct ibv_mr *mr[MAX_DEVS]; /* of what the other side writes to */
	struct ibv_mr *own_mr[MAX_DEVS]; /* of what is sent from here besides data */
	bool is_sender;
	union {
		struct {
			struct cts cts[MAX_REQS][MAX_RECVS]; /* written by the receiver */
			uint32_t sizes[MAX_REQS][MAX_RECVS]; /* sent after grouped data */
		} send;
		struct {
			uint32_t sizes[MAX_REQS][MAX_RECVS]; /* written by the sender */
			struct cts cts[MAX_REQS][MAX_RECVS]; /* sent */
		} recv;
	} __attribute__((aligned(64)));
	/* Receiver: queue pairs connected to themselves, by which a READ makes arrived data
	 * visible. */
	struct ibv_qp *flush_qp[MAX_DEVS];
	struct ibv_mr *flush_mr[MAX_DEVS];
	int flush_target;
};

struct net {
	int n_devs, n_qps; /* n_qps: for each connection */
	bool lean; /* as NCCL from 2.29.7 on: what never receives has no receive queue */
	struct dev devs[MAX_DEVS];
};

/** net_open() - @names: with commas between them, NULL: all mlx5 devices; @gid_index: -1: as NCCL
 * chooses */
void net_open(struct net *net, const char *names, int qps_per_dev, int gid_index);
void net_close(struct net *net);

/* Listens; and a connection under way, not waited for (-1: try again). */
int tcp_listen(int port);
int tcp_try_connect(const char *host, int port);

/** end_init() - a sender or receiver over the TCP connection @fd */
void end_init(struct end *end, int fd, bool is_sender);

/**
 * end_progress() - go as far as possible without waiting
 *
 * Sender: makes its queue pairs, tells, hears, connects, says that it is ready. Receiver: hears,
 * makes and connects its queue pairs, tells, hears that the sender is ready.
 *
 * Return: true when connected.
 */
bool end_progress(struct net *net, struct end *end);

/* This side is done; the other is (waits for it). */
void end_say_done(struct end *end);
void end_hear_done(struct end *end);
void end_close(struct net *net, struct end *end);

#endif
