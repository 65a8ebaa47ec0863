// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Threads that make UD queue pairs and address handles, send to whatever QPN, and take everything away again in any order,
 * while the other host does the same: every send has to complete, everything can be destroyed, nothing is left.
 *
 *    udchaos -d DEVICE -g GID_INDEX -t THREADS -s SEED -n ROUNDS PEER_GID...
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QKEY  0x11223344u
#define GRH   40u
#define BYTES 256u
#define DEPTH 16u

static const char *device;
static uint8_t gid_index;
static unsigned int rounds = 50, n_peers;
static union ibv_gid peers[8];
static struct ibv_context *context;
static struct ibv_pd *pd;
static atomic_uint sends, receives;

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			printf("line %d: %s: %m\n", __LINE__, #what);                                                  \
			fflush(stdout);                                                                                \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

struct one {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ahs[2];
	struct ibv_mr *mr;
	uint8_t *bytes; /* DEPTH to receive into, one to send from */
	unsigned int seed, outstanding;
};

static unsigned int below(struct one *o, unsigned int n)
{
	return (unsigned int)rand_r(&o->seed) % n;
}

static void post_recv(struct one *o, uint64_t i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)o->bytes + i * (GRH + BYTES), .length = GRH + BYTES, .lkey = o->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(o->qp, &wr, &bad));
}

static void make_qp(struct one *o)
{
	struct ibv_qp_init_attr init = {
		.send_cq = o->cq,
		.recv_cq = o->cq,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	unsigned int i;

	o->qp = ibv_create_qp(pd, &init);
	CHECK(o->qp);
	CHECK(!ibv_modify_qp(o->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(o->qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(o->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	for (i = 0; i < DEPTH; i++)
		post_recv(o, i);
}

static void make_ah(struct one *o, unsigned int i)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = peers[below(o, n_peers)], .sgid_index = gid_index, .hop_limit = 64},
	};

	o->ahs[i] = ibv_create_ah(pd, &attr);
	CHECK(o->ahs[i]);
}

static void send_one(struct one *o)
{
	uint8_t *from = o->bytes + DEPTH * (GRH + BYTES);
	struct ibv_sge sge = {.addr = (uintptr_t)from, .length = BYTES, .lkey = o->mr->lkey};
	uint32_t qpn = 0x40 + below(o, 600);
	struct ibv_send_wr wr = {
		.wr_id = DEPTH,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = {.ah = o->ahs[below(o, 2)], .remote_qpn = qpn, .remote_qkey = QKEY},
	}, *bad;

	if (o->outstanding == DEPTH || qpn == o->qp->qp_num)
		return;
	CHECK(!ibv_post_send(o->qp, &wr, &bad));
	o->outstanding++;
	sends++;
}

static void poll(struct one *o)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(o->cq, 1, &wc) > 0) {
		CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == o->qp->qp_num);
		if (wc.wr_id == DEPTH) {
			o->outstanding--;
			continue;
		}
		CHECK(wc.byte_len == GRH + BYTES);
		receives++;
		post_recv(o, wc.wr_id);
	}
}

static void *run(void *arg)
{
	struct one o = {.seed = (unsigned int)(uintptr_t)arg};
	unsigned int round, i, n;
	bool ahs_first;

	o.bytes = calloc(DEPTH + 1, GRH + BYTES);
	o.mr = ibv_reg_mr(pd, o.bytes, (DEPTH + 1) * (GRH + BYTES), IBV_ACCESS_LOCAL_WRITE);
	CHECK(o.mr);
	for (round = 0; round < rounds; round++) {
		o.cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
		CHECK(o.cq);
		make_qp(&o);
		for (i = 0; i < 2; i++)
			make_ah(&o, i);
		for (i = 0, n = below(&o, 60); i < n; i++) {
			if (!below(&o, 10)) {
				CHECK(!ibv_destroy_ah(o.ahs[0]));
				make_ah(&o, 0);
			}
			send_one(&o);
			poll(&o);
			usleep(below(&o, 2000));
		}
		ahs_first = below(&o, 2);
		for (i = 0; i < 2 && ahs_first; i++)
			CHECK(!ibv_destroy_ah(o.ahs[i]));
		CHECK(!ibv_destroy_qp(o.qp));
		for (i = 0; i < 2 && !ahs_first; i++)
			CHECK(!ibv_destroy_ah(o.ahs[i]));
		CHECK(!ibv_destroy_cq(o.cq));
		o.outstanding = 0;
	}
	CHECK(!ibv_dereg_mr(o.mr));
	free(o.bytes);
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned int n = 4, seed = 1, i;
	pthread_t threads[16];
	int c;

	while ((c = getopt(argc, argv, "d:g:t:s:n:")) >= 0) {
		switch (c) {
		case 'd': device = optarg; break;
		case 'g': gid_index = (uint8_t)atoi(optarg); break;
		case 't': n = (unsigned int)atoi(optarg); break;
		case 's': seed = (unsigned int)atoi(optarg); break;
		case 'n': rounds = (unsigned int)atoi(optarg); break;
		default: return 1;
		}
	}
	for (; optind < argc && n_peers < 8; optind++)
		CHECK(inet_pton(AF_INET6, argv[optind], &peers[n_peers++]) == 1);
	CHECK(n_peers && n <= 16);
	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), device))
			context = ibv_open_device(list[i]);
	CHECK(context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	for (i = 0; i < n; i++)
		CHECK(!pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)(seed * 100 + i)));
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	printf("%u sent, %u received\n", sends, receives);
	return 0;
}
