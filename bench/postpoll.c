// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What bench/run measures: a client that does one thing many times against a passive server.
 *
 *   postpoll server DEV GID-INDEX
 *   postpoll client DEV GID-INDEX HOST post_send|wr|setup|connect|cqs COUNT
 *
 * post_send, wr: COUNT signaled RDMA WRITEs of 64 bytes, one at a time, posted with ibv_post_send()
 * or the ibv_wr_*() calls. The functions named measured_*() do nothing but the call in question,
 * for callgrind's --toggle-collect; which of them are called how often does not depend on timing,
 * since the client sleeps on the completion channel in between.
 *
 * setup: COUNT connections one after the other; prints the time of each state change, the first decile: how the threads
 * of this process share the processors doubles what is above.
 *
 * connect: COUNT connections that all stay, each with one WRITE; prints the median times of state changes and from INIT->RTR
 * to the completion of the WRITE, and how much memory a connection takes here.
 *
 * cqs: as many connections as N_CQS, each with a CQ of its own; COUNT polls of those, one after the other, which find nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define PORT       "18515"
#define BYTES      64
#define FIRST_PSN  0x1000
#define RETRIES    6 /* 7 would mean for ever on some devices */
#define TIMEOUT    14 /* 67 ms */
#ifdef __clang__ /* has no noclone, and makes no clones */
#define NOT_INLINE __attribute__((noinline, used))
#else
#define NOT_INLINE __attribute__((noinline, noclone, used))
#endif

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	union ibv_gid gid;
	uint8_t gid_index;
	enum ibv_mtu mtu;
	bool wr_ops; /* create the QP for ibv_wr_*() */
	char buffer[4096];
};

static void open_side(struct side *s, const char *device, const char *gid_index)
{
	struct ibv_port_attr port;

	s->ctx = open_device(device);
	s->gid_index = (uint8_t)atoi(gid_index);
	zero(ibv_query_port(s->ctx, 1, &port), "ibv_query_port");
	zero(ibv_query_gid(s->ctx, 1, s->gid_index, &s->gid), "ibv_query_gid");
	s->mtu = port.active_mtu;
	s->pd = need(ibv_alloc_pd(s->ctx), "ibv_alloc_pd");
	s->channel = need(ibv_create_comp_channel(s->ctx), "ibv_create_comp_channel");
	s->cq = need(ibv_create_cq(s->ctx, 64, NULL, s->channel, 0), "ibv_create_cq");
	s->mr = need(ibv_reg_mr(s->pd, s->buffer, sizeof(s->buffer),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ),
		     "ibv_reg_mr");
}

static void create_qp(struct side *s)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | (s->wr_ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = s->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	s->qp = need(ibv_create_qp_ex(s->ctx, &init), "ibv_create_qp_ex");
	zero(ibv_modify_qp(s->qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "RESET to INIT");
}

static struct address address_of(const struct side *s)
{
	return (struct address){s->qp->qp_num, s->mr->rkey, (uintptr_t)s->buffer, s->gid};
}

NOT_INLINE static int measured_rtr(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return ibv_modify_qp(qp, attr, mask);
}

NOT_INLINE static int measured_rts(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return ibv_modify_qp(qp, attr, mask);
}

static uint64_t to_rtr(struct side *s, const struct address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = s->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = FIRST_PSN,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer->gid,
				    .sgid_index = s->gid_index,
				    .hop_limit = 64}},
	};
	uint64_t start = now_ns();

	zero(measured_rtr(s->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER),
	     "INIT to RTR");
	return now_ns() - start;
}

static uint64_t to_rts(struct side *s)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = FIRST_PSN,
		.timeout = TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = RETRIES,
		.max_rd_atomic = 1,
	};
	uint64_t start = now_ns();

	zero(measured_rts(s->qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTR to RTS");
	return now_ns() - start;
}

/* A QP for every one of the client's, until the client goes away. */
__attribute__((noreturn)) static void serve(struct side *s)
{
	int listener = listen_at(PORT), sock;

	puts("listening");
	fflush(stdout);
	sock = accept_one(listener);
	for (;;) {
		struct address mine, peer;

		if (!transfer(sock, &peer, sizeof(peer), false))
			exit(0); /* the client is done */
		create_qp(s);
		to_rtr(s, &peer);
		to_rts(s);
		mine = address_of(s);
		transfer(sock, &mine, sizeof(mine), true);
	}
}

static struct address exchange(struct side *s, int sock)
{
	struct address mine = address_of(s), peer;

	if (!transfer(sock, &mine, sizeof(mine), true) || !transfer(sock, &peer, sizeof(peer), false))
		die("the server");
	return peer;
}

NOT_INLINE static int measured_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
					 struct ibv_send_wr **bad)
{
	return ibv_post_send(qp, wr, bad);
}

NOT_INLINE static int measured_wr(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t to, uint32_t lkey,
				  uint64_t from)
{
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, rkey, to);
	ibv_wr_set_sge(qp, lkey, from, BYTES);
	return ibv_wr_complete(qp);
}

NOT_INLINE static int measured_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, 1, wc);
}

NOT_INLINE static int measured_empty_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, 1, wc);
}

static void wait_for_event(struct side *s)
{
	struct ibv_cq *cq;
	void *context;

	zero(ibv_get_cq_event(s->channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

static void write_once(struct side *s, const struct address *peer)
{
	struct ibv_sge sge = {.addr = (uintptr_t)s->buffer, .length = BYTES, .lkey = s->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = peer->addr, .rkey = peer->rkey}},
			   *bad;
	struct ibv_wc wc;

	zero(ibv_req_notify_cq(s->cq, 0), "ibv_req_notify_cq");
	if (measured_empty_poll(s->cq, &wc) != 0)
		die("a completion before its work request");
	zero(s->wr_ops ? measured_wr(ibv_qp_to_qp_ex(s->qp), peer->rkey, peer->addr, s->mr->lkey,
				     sge.addr)
		       : measured_post_send(s->qp, &wr, &bad),
	     "posting");
	wait_for_event(s);
	if (measured_poll(s->cq, &wc) != 1 || wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "postpoll: completion: %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), compare);
	return values[n / 2];
}

static uint64_t decile(uint64_t *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), compare);
	return values[n / 10];
}

static int measure_setup(struct side *s, int sock, int n)
{
	uint64_t *rtr = need(calloc((size_t)n, sizeof(*rtr)), "calloc");
	uint64_t *rts = need(calloc((size_t)n, sizeof(*rts)), "calloc");

	for (int i = 0; i < n; i++) {
		struct address peer;

		create_qp(s);
		peer = exchange(s, sock);
		rtr[i] = to_rtr(s, &peer);
		rts[i] = to_rts(s);
		zero(ibv_destroy_qp(s->qp), "ibv_destroy_qp");
	}
	printf("rtr_ns %llu\nrts_ns %llu\n", (unsigned long long)decile(rtr, n),
	       (unsigned long long)decile(rts, n));
	free(rtr);
	free(rts);
	return 0;
}

/* The first ones fill caches and start what is started once. */
#define WARM_UP 20

static int measure_connections(struct side *s, int sock, int n)
{
	uint64_t *rtr = need(calloc((size_t)n, sizeof(*rtr)), "calloc"), *rts = need(calloc((size_t)n, sizeof(*rts)), "calloc");
	uint64_t *first = need(calloc((size_t)n, sizeof(*first)), "calloc"), before = 0;
	struct ibv_qp **qps = need(calloc((size_t)n, sizeof(struct ibv_qp *)), "calloc");

	for (int i = 0; i < n; i++) {
		struct address peer;
		uint64_t start;

		if (i == WARM_UP)
			before = own_bytes();
		create_qp(s);
		qps[i] = s->qp;
		peer = exchange(s, sock);
		start = now_ns();
		rtr[i] = to_rtr(s, &peer);
		rts[i] = to_rts(s);
		write_once(s, &peer);
		first[i] = now_ns() - start;
	}
	if (n > WARM_UP)
		printf("bytes_per_qp %llu\n", (unsigned long long)((own_bytes() - before) / (uint64_t)(n - WARM_UP)));
	printf("rtr_ns %llu\nrts_ns %llu\nfirst_ns %llu\n", (unsigned long long)median(rtr, n), (unsigned long long)median(rts, n),
	       (unsigned long long)median(first, n));
	for (int i = 0; i < n; i++)
		zero(ibv_destroy_qp(qps[i]), "ibv_destroy_qp");
	free(rtr);
	free(rts);
	free(first);
	free(qps);
	return 0;
}

#define N_CQS 500

static int measure_cqs(struct side *s, int sock, int n)
{
	static struct ibv_cq *cqs[N_CQS];
	struct ibv_wc wc;

	for (int i = 0; i < N_CQS; i++) {
		struct address peer;

		s->cq = cqs[i] = need(ibv_create_cq(s->ctx, 64, NULL, s->channel, 0), "ibv_create_cq");
		create_qp(s);
		peer = exchange(s, sock);
		to_rtr(s, &peer);
		to_rts(s);
		ibv_poll_cq(s->cq, 1, &wc); /* what is done once is not counted */
	}
	for (int i = 0; i < n; i++)
		if (measured_empty_poll(cqs[i % N_CQS], &wc) != 0)
			die("a completion without a work request");
	printf("done %d\n", n);
	return 0;
}

static int measure_writes(struct side *s, int sock, int n)
{
	struct address peer;

	create_qp(s);
	peer = exchange(s, sock);
	to_rtr(s, &peer);
	to_rts(s);
	for (int i = 0; i < n; i++)
		write_once(s, &peer);
	printf("done %d\n", n);
	return 0;
}

int main(int argc, char **argv)
{
	static struct side s;
	int sock, n;

	if (argc == 4 && !strcmp(argv[1], "server")) {
		open_side(&s, argv[2], argv[3]);
		serve(&s);
	}
	if (argc != 7 || strcmp(argv[1], "client")) {
		fprintf(stderr,
			"usage: postpoll server DEV GID-INDEX\n"
			"       postpoll client DEV GID-INDEX HOST post_send|wr|setup|connect|cqs COUNT\n");
		return 2;
	}
	open_side(&s, argv[2], argv[3]);
	s.wr_ops = !strcmp(argv[5], "wr");
	sock = connect_to(argv[4], PORT);
	n = atoi(argv[6]);
	if (!strcmp(argv[5], "setup"))
		return measure_setup(&s, sock, n);
	if (!strcmp(argv[5], "connect"))
		return measure_connections(&s, sock, n);
	if (!strcmp(argv[5], "cqs"))
		return measure_cqs(&s, sock, n);
	return measure_writes(&s, sock, n);
}
