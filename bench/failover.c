// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What bench/failover measures: traffic on many queue pairs in plain verbs, and a cable that is pulled under it.
 *
 *   failover traffic [OPTIONS] DEV [HOST]     one end: with HOST it connects to the other
 *     -p PORT  TCP                            -f FILE  shared with the cable; default: no faults
 *     -q N     queue pairs                    -c       a completion queue for each
 *     -r N     WRITEs a second, of all queue pairs together; 0: as fast as they complete. When nothing has completed for
 *              2 ms, one goes to every queue pair that has none outstanding, or none that was posted since the fault: so all of
 *              them wait for the new path
 *     -s N     bytes of each                  -d N     outstanding on each at most
 *     -w US    how long it sleeps before it looks again, when there was nothing to do: so much later are stamps at most (200)
 *   failover cable FILE NETNS                 pulls and plugs what is named on its standard input: "down NETDEV", "up NETDEV";
 *                                             "leave NETDEV BRIDGE", "join NETDEV BRIDGE": a switch's port is dead, and carrier stays
 *
 * Both ends write to each other all the time. The cable stamps when a netdev goes down and tells FILE; each end notes for
 * each queue pair when the first WRITE completed that was posted after that: it cannot have gone by the port that is down. All
 * stamps are CLOCK_MONOTONIC, in ns.
 *
 * traffic answers to lines on standard input: "report": how many queue pairs have such a completion since the last fault,
 * then all of their stamps; "bytes": stamp, bytes completed, bytes of private memory. It ends with its input.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "cable.h"
#include "common.h"

#define FIRST_PSN 0xffff00 /* so that it wraps */
#define STALL_NS  2000000
#define N_WC      64

struct options {
	const char *device, *host, *port, *file;
	unsigned int n_qps, rate, depth, nap_us;
	size_t bytes;
	bool own_cqs;
};

struct channel {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	uint64_t addr; /* of the peer */
	uint32_t rkey;
	uint64_t head, tail; /* posted, completed */
	uint64_t *posted_ns; /* of each that is outstanding, @depth places */
	uint64_t fault, first_ns; /* the last one that a completion followed, and when */
};

struct end {
	struct options opt;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	char *memory; /* a WRITE's source, then for each queue pair its target */
	union ibv_gid gid;
	uint8_t gid_index;
	enum ibv_mtu mtu;
	struct channel *channels;
	struct fault *fault;
	uint64_t completed, next_ns;
	uint64_t heard_ns; /* the last completion, or that all were given something */
	unsigned int next; /* queue pair to post to */
};

/* ---- objects -------------------------------------------------------------------------------------------------- */

static void find_gid(struct end *e)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	unsigned int i;

	zero(ibv_query_port(e->ctx, 1, &port), "ibv_query_port");
	e->mtu = port.active_mtu;
	for (i = 0; i < 255; i++) {
		if (ibv_query_gid_ex(e->ctx, 1, i, &entry, 0) || entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(entry.gid.raw, (const uint8_t[12]){[10] = 0xff, 0xff}, 12) != 0)
			continue;
		e->gid = entry.gid;
		e->gid_index = (uint8_t)i;
		return;
	}
	errno = 0;
	die("%s has no IPv4 address", e->opt.device);
}

static void make_objects(struct end *e)
{
	size_t size = (1 + e->opt.n_qps) * e->opt.bytes;
	struct ibv_cq *shared = NULL;
	unsigned int i;

	e->pd = need(ibv_alloc_pd(e->ctx), "ibv_alloc_pd");
	e->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (e->memory == MAP_FAILED)
		die("memory");
	e->mr = need(ibv_reg_mr(e->pd, e->memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), "ibv_reg_mr");
	e->channels = need(calloc(e->opt.n_qps, sizeof(*e->channels)), "memory");
	if (!e->opt.own_cqs)
		shared = need(ibv_create_cq(e->ctx, (int)(e->opt.n_qps * e->opt.depth), NULL, NULL, 0), "ibv_create_cq");
	for (i = 0; i < e->opt.n_qps; i++) {
		struct channel *c = &e->channels[i];
		struct ibv_qp_init_attr init = {
			.cap = {.max_send_wr = e->opt.depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
			.qp_type = IBV_QPT_RC,
		};
		struct ibv_qp_attr attr = {
			.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

		c->posted_ns = need(calloc(e->opt.depth, sizeof(*c->posted_ns)), "memory");
		c->cq = shared ? shared : need(ibv_create_cq(e->ctx, (int)e->opt.depth, NULL, NULL, 0), "ibv_create_cq");
		init.send_cq = init.recv_cq = c->cq;
		c->qp = need(ibv_create_qp(e->pd, &init), "ibv_create_qp");
		c->qp->qp_context = c;
		zero(ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	}
}

static void connect_qp(struct end *e, struct channel *c, const struct address *peer)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = e->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = FIRST_PSN,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer->gid, .sgid_index = e->gid_index, .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = FIRST_PSN,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	zero(ibv_modify_qp(c->qp, &rtr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	zero(ibv_modify_qp(c->qp, &rts,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
	c->addr = peer->addr;
	c->rkey = peer->rkey;
}

/* ---- the other end -------------------------------------------------------------------------------------------- */

static void exchange(int sock, void *mine, void *peers, size_t n)
{
	if (!transfer(sock, mine, n, true) || !transfer(sock, peers, n, false))
		die("the other end");
}

static void connect_all(struct end *e)
{
	int sock = e->opt.host ? connect_to(e->opt.host, e->opt.port) : accept_one(listen_at(e->opt.port));
	char ready = 1, peer_ready;
	unsigned int i;

	for (i = 0; i < e->opt.n_qps; i++) {
		struct address mine = {e->channels[i].qp->qp_num, e->mr->rkey, (uintptr_t)e->memory + (1 + i) * e->opt.bytes, e->gid};
		struct address peer;

		exchange(sock, &mine, &peer, sizeof(mine));
		connect_qp(e, &e->channels[i], &peer);
	}
	exchange(sock, &ready, &peer_ready, 1);
	close(sock);
}

/* ---- traffic -------------------------------------------------------------------------------------------------- */

static bool post(struct end *e, struct channel *c)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->memory, .length = (uint32_t)e->opt.bytes, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)c,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = c->addr, .rkey = c->rkey},
	}, *bad;

	if (c->head - c->tail == e->opt.depth)
		return false;
	c->posted_ns[c->head++ % e->opt.depth] = now_ns();
	zero(ibv_post_send(c->qp, &wr, &bad), "ibv_post_send");
	return true;
}

static void completed(struct end *e, const struct ibv_wc *wc)
{
	struct channel *c = (struct channel *)(uintptr_t)wc->wr_id;
	uint64_t posted_ns, number;

	errno = 0;
	if (wc->status)
		die("QP 0x%x: %s", wc->qp_num, ibv_wc_status_str(wc->status));
	posted_ns = c->posted_ns[c->tail++ % e->opt.depth];
	e->completed++;
	e->heard_ns = now_ns();
	number = e->fault ? atomic_load_explicit(&e->fault->number, memory_order_acquire) : 0;
	if (number == c->fault || posted_ns < atomic_load_explicit(&e->fault->down_ns, memory_order_relaxed))
		return;
	c->fault = number;
	c->first_ns = now_ns();
}

static bool poll_one(struct end *e, struct ibv_cq *cq)
{
	struct ibv_wc wcs[N_WC];
	int n = ibv_poll_cq(cq, N_WC, wcs), i;

	if (n < 0)
		die("ibv_poll_cq");
	for (i = 0; i < n; i++)
		completed(e, &wcs[i]);
	return n;
}

static bool poll_all(struct end *e)
{
	unsigned int i, n = e->opt.own_cqs ? e->opt.n_qps : 1;
	bool any = false;

	for (i = 0; i < n; i++)
		any |= poll_one(e, e->channels[i].cq);
	return any;
}

/* Has nothing completed since the last fault, nor is there a work request whose completion would say that it goes on? */
static bool is_silent(const struct end *e, const struct channel *c)
{
	uint64_t number = e->fault ? atomic_load_explicit(&e->fault->number, memory_order_acquire) : 0;

	if (c->fault == number)
		return false;
	return c->head == c->tail ||
	       c->posted_ns[(c->head - 1) % e->opt.depth] < atomic_load_explicit(&e->fault->down_ns, memory_order_relaxed);
}

/* Return: whether anything was posted. */
static bool post_due(struct end *e)
{
	uint64_t now = now_ns(), step;
	bool any = false;
	unsigned int i;

	if (!e->opt.rate) {
		for (i = 0; i < e->opt.n_qps; i++)
			while (post(e, &e->channels[i]))
				any = true;
		return any;
	}
	if (now > e->heard_ns + STALL_NS) {
		for (i = 0; i < e->opt.n_qps; i++)
			if (is_silent(e, &e->channels[i]))
				any |= post(e, &e->channels[i]);
		e->heard_ns = now;
	}
	step = 1000000000ull / e->opt.rate;
	if (now > e->next_ns + step * e->opt.n_qps)
		e->next_ns = now - step * e->opt.n_qps; /* what was missed for longer stays so */
	for (; e->next_ns <= now; e->next_ns += step) {
		any |= post(e, &e->channels[e->next]);
		e->next = (e->next + 1) % e->opt.n_qps;
	}
	return any;
}

/* ---- what is asked -------------------------------------------------------------------------------------------- */

static void report(const struct end *e)
{
	uint64_t number = e->fault ? atomic_load_explicit(&e->fault->number, memory_order_acquire) : 0;
	unsigned int i, n = 0;

	for (i = 0; i < e->opt.n_qps; i++)
		n += e->channels[i].fault == number;
	printf("%u", n);
	for (i = 0; i < e->opt.n_qps && n == e->opt.n_qps; i++)
		printf(" %llu", (unsigned long long)e->channels[i].first_ns);
	putchar('\n');
}

/* Return: false at the end of the input. */
static bool answer(struct end *e)
{
	struct pollfd fd = {.fd = 0, .events = POLLIN};
	char line[32];
	ssize_t n;

	if (poll(&fd, 1, 0) <= 0)
		return true;
	n = read(0, line, sizeof(line) - 1);
	if (n <= 0)
		return false;
	line[n] = '\0';
	if (!strcmp(line, "report\n"))
		report(e);
	else if (!strcmp(line, "bytes\n"))
		printf("%llu %llu %llu\n", (unsigned long long)now_ns(), (unsigned long long)(e->completed * e->opt.bytes),
		       (unsigned long long)own_bytes());
	else
		die("what is '%s'?", line);
	fflush(stdout);
	return true;
}

static int traffic(struct end *e)
{
	const struct timespec nap = {.tv_nsec = e->opt.nap_us * 1000l};
	unsigned int turns = 0;
	bool busy;

	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	e->ctx = open_device(e->opt.device);
	find_gid(e);
	make_objects(e);
	connect_all(e);
	if (e->opt.file)
		e->fault = map_fault(e->opt.file);
	puts("running");
	fflush(stdout);
	e->next_ns = e->heard_ns = now_ns();
	for (;;) {
		busy = post_due(e);
		busy |= poll_all(e);
		if (!(++turns % 16) && !answer(e))
			return 0;
		if (!busy)
			nanosleep(&nap, NULL);
	}
}

static void usage(void)
{
	fputs("usage: failover traffic [-p PORT] [-f FILE] [-q QPS] [-c] [-r RATE] [-s BYTES] [-d DEPTH] [-w US] DEV [HOST]\n"
	      "       failover cable FILE NETNS\n", stderr);
	exit(2);
}

static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 0);
	if (errno || *end || !*text || n > max)
		die("'%s' is no number up to %lu", text, max);
	return n;
}

int main(int argc, char **argv)
{
	static struct end e = {.opt = {.port = "18516", .n_qps = 1, .rate = 2000, .depth = 16, .nap_us = 200, .bytes = 64}};
	struct options *opt = &e.opt;
	int option;

	if (argc == 4 && !strcmp(argv[1], "cable"))
		return cable(argv[2], argv[3]);
	if (argc < 3 || strcmp(argv[1], "traffic") != 0)
		usage();
	optind = 2;
	while ((option = getopt(argc, argv, "p:f:q:cr:s:d:w:")) != -1) {
		if (option == 'p')
			opt->port = optarg;
		else if (option == 'f')
			opt->file = optarg;
		else if (option == 'q')
			opt->n_qps = (unsigned int)number(optarg, 10000);
		else if (option == 'c')
			opt->own_cqs = true;
		else if (option == 'r')
			opt->rate = (unsigned int)number(optarg, 1000000);
		else if (option == 's')
			opt->bytes = number(optarg, 1 << 20);
		else if (option == 'd')
			opt->depth = (unsigned int)number(optarg, 4096);
		else if (option == 'w')
			opt->nap_us = (unsigned int)number(optarg, 999999);
		else
			usage();
	}
	if (optind == argc || optind + 2 < argc || !opt->n_qps || !opt->depth || !opt->bytes)
		usage();
	opt->device = argv[optind];
	opt->host = argv[optind + 1];
	return traffic(&e);
}
