// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Datagrams to an address that the command line names, from a GID index that it names: what no
 *example program of rdma-core does, for they send to the GID their peer read under its own index.
 *
 *	ud --device D --index I                          receive: prints its QPN, then what came
 *	ud --device D --index I --dgid G --qpn Q         send
 *	... --count N --wait S    this many datagrams (10), patience in seconds (5)
 *	... --hold                print "holding" with the device open, go on with a line from stdin
 *
 * Status: 0 all of it worked, 1 not, 2 wrong usage.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GRH_BYTES 40
#define COUNT_MAX 64
#define QKEY      0x11223344
#define PATTERN   UINT64_C(0x6d65736876657262)

struct payload {
	uint64_t pattern;
	uint32_t number;
	uint32_t count;
};

struct slot {
	unsigned char grh[GRH_BYTES];
	struct payload payload;
};

struct options {
	const char *device, *dgid;
	uint32_t qpn;
	unsigned int index, count, wait_s;
	bool hold;
};

struct endpoint {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct slot slots[COUNT_MAX];
};

static int complain(const char *what, int err)
{
	fprintf(stderr, "ud: %s: %s\n", what, strerror(err));
	return -err;
}

static int open_device(struct endpoint *ep, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int err = ENODEV;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name)) {
			ep->verbs = ibv_open_device(list[i]);
			err = errno;
			break;
		}
	if (list)
		ibv_free_device_list(list);
	return ep->verbs ? 0 : complain(name, err);
}

static int make_objects(struct endpoint *ep)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = COUNT_MAX,
			.max_recv_wr = COUNT_MAX,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
	};

	ep->pd = ibv_alloc_pd(ep->verbs);
	ep->cq = ibv_create_cq(ep->verbs, 2 * COUNT_MAX, NULL, NULL, 0);
	if (!ep->pd || !ep->cq)
		return complain("PD and CQ", errno);
	ep->mr = ibv_reg_mr(ep->pd, ep->slots, sizeof(ep->slots), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = ep->cq;
	ep->qp = ibv_create_qp(ep->pd, &init);
	return ep->mr && ep->qp ? 0 : complain("MR and QP", errno);
}

static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	int err;

	err = ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return err ? complain("QP to RTS", err) : 0;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* The next completion: 1, or 0 when none came in time. */
static int next_completion(struct endpoint *ep, double until_s, struct ibv_wc *ret)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int n;

	do {
		n = ibv_poll_cq(ep->cq, 1, ret);
		if (n)
			return n;
		nanosleep(&pause, NULL);
	} while (now_s() < until_s);
	return 0;
}

static int receive(struct endpoint *ep, const struct options *opt)
{
	double until_s;
	unsigned int received = 0;
	bool seen[COUNT_MAX] = {false};
	struct ibv_wc wc;

	for (unsigned int i = 0; i < COUNT_MAX; i++) {
		struct ibv_sge sge = {(uintptr_t)&ep->slots[i], sizeof(ep->slots[i]), ep->mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		if (ibv_post_recv(ep->qp, &wr, &bad))
			return complain("post receive", errno);
	}
	printf("qpn %u\n", ep->qp->qp_num);
	fflush(stdout);
	until_s = now_s() + opt->wait_s;
	while (received < opt->count && next_completion(ep, until_s, &wc) > 0) {
		const struct payload *p = &ep->slots[wc.wr_id].payload;

		if (wc.status != IBV_WC_SUCCESS || wc.byte_len != sizeof(struct slot) ||
		    p->pattern != PATTERN || p->number >= opt->count || seen[p->number]) {
			printf("wrong datagram: %s, %u bytes, number %u\n",
			       ibv_wc_status_str(wc.status), wc.byte_len, p->number);
			return -EPROTO;
		}
		seen[p->number] = true;
		received++;
	}
	printf("received %u of %u\n", received, opt->count);
	return received == opt->count ? 0 : -ETIMEDOUT;
}

static int send_all(struct endpoint *ep, const struct options *opt)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
	struct ibv_ah *ah;
	struct ibv_wc wc;

	if (inet_pton(AF_INET6, opt->dgid, &attr.grh.dgid) != 1)
		return complain(opt->dgid, EINVAL);
	attr.grh.sgid_index = (uint8_t)opt->index;
	ah = ibv_create_ah(ep->pd, &attr);
	if (!ah)
		return complain("create_ah", errno);

	for (unsigned int i = 0; i < opt->count; i++) {
		struct payload *payload = &ep->slots[i].payload;
		struct ibv_sge sge = {(uintptr_t)payload, sizeof(*payload), ep->mr->lkey};
		struct ibv_send_wr wr = {.wr_id = i,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.ud = {.ah = ah,
						   .remote_qpn = opt->qpn,
						   .remote_qkey = QKEY}},
				   *bad;

		*payload = (struct payload){.pattern = PATTERN, .number = i, .count = opt->count};
		if (ibv_post_send(ep->qp, &wr, &bad))
			return complain("post send", errno);
		if (next_completion(ep, now_s() + opt->wait_s, &wc) <= 0)
			return complain("send completion", ETIMEDOUT);
		if (wc.status != IBV_WC_SUCCESS) {
			printf("completion: %s\n", ibv_wc_status_str(wc.status));
			return -EIO;
		}
	}
	printf("sent %u\n", opt->count);
	ibv_destroy_ah(ah);
	return 0;
}

static bool parse(int argc, char **argv, struct options *opt)
{
	static const struct option known[] = {
		{"device", required_argument, NULL, 'd'}, {"index", required_argument, NULL, 'i'},
		{"dgid", required_argument, NULL, 'g'},   {"qpn", required_argument, NULL, 'q'},
		{"count", required_argument, NULL, 'n'},  {"wait", required_argument, NULL, 'w'},
		{"hold", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (c) {
		case 'd':
			opt->device = optarg;
			break;
		case 'i':
			opt->index = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 'g':
			opt->dgid = optarg;
			break;
		case 'q':
			opt->qpn = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'n':
			opt->count = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 'w':
			opt->wait_s = (unsigned int)strtoul(optarg, NULL, 0);
			break;
		case 'h':
			opt->hold = true;
			break;
		default:
			return false;
		}
	return opt->device && opt->index <= UINT8_MAX && opt->count && opt->count <= COUNT_MAX &&
	       optind == argc && !opt->dgid == !opt->qpn;
}

static void destroy(struct endpoint *ep)
{
	if (ep->qp)
		ibv_destroy_qp(ep->qp);
	if (ep->cq)
		ibv_destroy_cq(ep->cq);
	if (ep->mr)
		ibv_dereg_mr(ep->mr);
	if (ep->pd)
		ibv_dealloc_pd(ep->pd);
	if (ep->verbs)
		ibv_close_device(ep->verbs);
}

int main(int argc, char **argv)
{
	static struct endpoint ep;
	struct options opt = {.count = 10, .wait_s = 5};
	int err;

	if (!parse(argc, argv, &opt)) {
		fputs("usage: ud --device DEV --index N [--dgid GID --qpn N] [--count N] [--wait "
		      "S] [--hold]\n",
		      stderr);
		return 2;
	}
	err = open_device(&ep, opt.device);
	if (!err && opt.hold) {
		puts("holding");
		fflush(stdout);
		if (getchar() == EOF)
			err = complain("stdin", EPIPE);
	}
	if (!err)
		err = make_objects(&ep);
	if (!err)
		err = to_rts(ep.qp);
	if (!err)
		err = opt.dgid ? send_all(&ep, &opt) : receive(&ep, &opt);
	destroy(&ep);
	return err ? 1 : 0;
}
