// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "traffic.h"

#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define DMABUF_IOVA 0x700000000000
/* No power of two: mlx5 rounds up. */
#define RD_ATOMIC 3

static void open_device(struct thread *t)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned int i, n = t->opt->own_gids ? t->number : 0;
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), t->opt->device))
			t->ctx = ibv_open_device(list[i]);
	if (!t->ctx)
		cannot("no device %s", t->opt->device);
	ibv_free_device_list(list);
	if (!ibv_query_port(t->ctx, 1, &port) && port.link_layer == IBV_LINK_LAYER_INFINIBAND) {
		t->lid = port.lid;
		t->n_lids = 1u << port.lmc;
		return;
	}
	for (i = 0; i < 255; i++)
		if (!ibv_query_gid_ex(t->ctx, 1, i, &entry, 0) &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !memcmp(entry.gid.raw, (const uint8_t[12]){[10] = 0xff, 0xff}, 12) && !n--) {
			t->gid = entry.gid;
			t->gid_index = (uint8_t)i;
			return;
		}
	cannot("%s has too few IPv4 addresses", t->opt->device);
}

static struct ibv_cq *make_cq(struct thread *t, int cqe)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = (uint32_t)cqe, .cq_context = t, .channel = t->channel, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *cq;

	if (!t->opt->extended)
		return ibv_create_cq(t->ctx, cqe, t, t->channel, 0);
	cq = ibv_create_cq_ex(t->ctx, &attr);
	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

/* With -M in the second page of a file, at an address that is none of the process, and without its descriptor. */
static void make_area(struct link_qp *q)
{
	long page = sysconf(_SC_PAGESIZE);
	int fd = -1;

	if (q->thread->opt->dmabuf) {
		fd = memfd_create("chaos-dmabuf", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, page + (long)sizeof(struct area)))
			cannot("dma-buf: %s", strerror(errno));
	}
	q->area = mmap(NULL, sizeof(struct area), PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd,
		       fd < 0 ? 0 : page);
	if (q->area == MAP_FAILED)
		cannot("memory: %s", strerror(errno));
	q->iova = fd < 0 ? (uintptr_t)q->area : DMABUF_IOVA;
	q->mr = fd < 0 ? ibv_reg_mr(q->thread->pd, q->area, sizeof(struct area), ACCESS) :
			 ibv_reg_dmabuf_mr(q->thread->pd, (uint64_t)page, sizeof(struct area), q->iova, fd, ACCESS);
	if (!q->mr)
		cannot("reg_mr: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
}

void thread_open(struct thread *t)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = thread_recvs(t) * t->opt->n_qps, .max_sge = 1}};
	int n_send = (int)((t->opt->small_cq ? SIGNALED : N_RECORDS) * t->opt->n_qps);
	int n_recv = (int)(thread_recvs(t) * t->opt->n_qps);
	unsigned int i;

	open_device(t);
	t->pd = ibv_alloc_pd(t->ctx);
	if (t->opt->events)
		t->channel = ibv_create_comp_channel(t->ctx);
	t->send_cq = make_cq(t, t->opt->one_cq ? n_send + n_recv : n_send);
	t->recv_cq = t->opt->one_cq ? t->send_cq : make_cq(t, n_recv);
	if (t->opt->srq)
		t->srq = ibv_create_srq(t->pd, &srq);
	t->qps = calloc(t->opt->n_qps, sizeof(*t->qps));
	if (!t->pd || !t->send_cq || !t->recv_cq || !t->qps || (t->opt->srq && !t->srq) ||
	    (t->opt->events && !t->channel))
		cannot("objects: %s", strerror(errno));
	for (i = 0; i < t->opt->n_qps; i++) {
		t->qps[i].thread = t;
		t->qps[i].index = i;
		make_area(&t->qps[i]);
	}
	if (!t->opt->pollers)
		return;
	t->send_poller = poller_start(t, t->send_cq);
	t->recv_poller = t->send_cq == t->recv_cq ? NULL : poller_start(t, t->recv_cq);
}

static void must(int err, const char *what)
{
	if (err)
		violated(NULL, "%s: %s", what, strerror(err));
}

void thread_close(struct thread *t)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < t->opt->n_qps; i++)
		qp_free(&t->qps[i]);
	/* A destroyed QP's completions may be left out, but after all were taken there is nothing
	 * more to come. */
	if (poll_cq(t, t->send_cq, 1, &wc) || poll_cq(t, t->recv_cq, 1, &wc))
		violated(NULL, "a completion after the QPs were destroyed: wr_id 0x%lx status %s",
			 wc.wr_id, ibv_wc_status_str(wc.status));
	poller_stop(t->send_poller);
	poller_stop(t->recv_poller);
	if (t->n_events)
		ibv_ack_cq_events(t->send_cq, t->n_events);
	for (i = 0; i < t->opt->n_qps; i++) {
		must(ibv_dereg_mr(t->qps[i].mr), "dereg_mr");
		munmap(t->qps[i].area, sizeof(struct area));
	}
	if (t->srq)
		must(ibv_destroy_srq(t->srq), "destroy_srq");
	if (t->recv_cq != t->send_cq)
		must(ibv_destroy_cq(t->recv_cq), "destroy_cq");
	must(ibv_destroy_cq(t->send_cq), "destroy_cq");
	if (t->channel)
		must(ibv_destroy_comp_channel(t->channel), "destroy_comp_channel");
	must(ibv_dealloc_pd(t->pd), "dealloc_pd");
	must(ibv_close_device(t->ctx), "close_device");
	free(t->qps);
}

uint64_t qp_id(const struct link_qp *q, unsigned int side)
{
	const struct thread *t = q->thread;

	return script_mix(t->opt->seed ^
			  script_mix((uint64_t)side << 60 | (uint64_t)t->number << 40 |
				     (uint64_t)q->index << 20 | q->epoch));
}

static void forget(struct link_qp *q)
{
	struct link_qp fresh = {.thread = q->thread,
				.index = q->index,
				.epoch = q->epoch,
				.mr = q->mr,
				.area = q->area,
				.iova = q->iova,
				.heard = q->heard};

	*q = fresh;
	/* What others of an SRQ have received may be in the first part. */
	memset(q->area->sources, POISON, sizeof(*q->area) - offsetof(struct area, sources));
	q->area->counter = q->area->word = q->area->acked = 0;
	script_begin(&q->sends.script, qp_id(q, q->thread->side), q->thread->opt->kinds);
	script_begin(&q->receives.script, qp_id(q, !q->thread->side), q->thread->opt->kinds);
	q->progress_ns = now_ns();
}

static struct ibv_qp *make_qp(struct thread *t, uint32_t *ret_depth)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = t->send_cq,
		.recv_cq = t->recv_cq,
		.srq = t->srq,
		.cap = {.max_send_wr = t->opt->brim ? BRIM_WRS : N_RECORDS,
			.max_recv_wr = t->srq ? 0 : thread_recvs(t),
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = INLINE_BYTES},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (t->opt->builders ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0u),
		.pd = t->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(t->ctx, &init);

	*ret_depth = init.cap.max_send_wr < N_RECORDS ? init.cap.max_send_wr : N_RECORDS;
	return qp;
}

void qp_new(struct link_qp *q)
{
	struct thread *t = q->thread;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};
	struct message m = {0};
	uint32_t i;

	forget(q);
	q->qp = make_qp(t, &q->sends.depth);
	if (!q->qp)
		cannot("QP: %s", strerror(errno));
	must(ibv_modify_qp(q->qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	for (i = 0; i < thread_recvs(t) && (!t->srq || !q->epoch); i++)
		recv_post(q, i);
	/* Near the end of the numbers, so that they wrap. */
	q->mine = (struct address){.gid = t->gid,
				   .lid = t->lid ? (uint16_t)(t->lid + q->index % t->n_lids) : 0,
				   .qpn = q->qp->qp_num,
				   .rkey = q->mr->rkey,
				   .area = q->iova,
				   .psn = (0xffffc0 + q->index * 7) & 0xffffff};
	m.address = q->mine;
	wire_say(t, WORD_ADDRESS, q, &m);
}

/*
 * No way to the peer at the moment: to be tried again, as programs do. ENODATA: our own address went with its carrier, and its entry of
 * the GID table is empty; once it is back, at whatever index, the plugin finds it.
 */
static bool is_unreachable(int err)
{
	return err == ETIMEDOUT || err == ENETUNREACH || err == EHOSTUNREACH || err == ENODATA;
}

void qp_connect(struct link_qp *q)
{
	struct thread *t = q->thread;
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = t->opt->mtu,
		.dest_qp_num = q->theirs.qpn,
		.rq_psn = q->theirs.psn,
		.max_dest_rd_atomic = RD_ATOMIC,
		/* 1.28 ms: a sender that tries again every 10 us leaves no processor to who would post the receive. */
		.min_rnr_timer = t->opt->few_recvs ? 14 : 1,
		.ah_attr = {.is_global = !t->lid,
			    .dlid = q->theirs.lid,
			    .src_path_bits = (uint8_t)(q->mine.lid - t->lid),
			    .port_num = 1,
			    .grh = {.dgid = q->theirs.gid,
				    .sgid_index = t->gid_index,
				    .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = q->mine.psn,
		.timeout = (uint8_t)t->opt->timeout,
		.retry_cnt = (uint8_t)t->opt->retry_cnt,
		.rnr_retry = 7,
		.max_rd_atomic = RD_ATOMIC,
	};
	int err;

	err = ibv_modify_qp(q->qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	if (is_unreachable(err))
		return;
	must(err, "RTR");
	must(ibv_modify_qp(q->qp, &rts,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
	q->state = QP_CONNECTED;
	wire_say(t, WORD_READY, q, NULL);
}

void qp_to_err(struct link_qp *q)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	must(ibv_modify_qp(q->qp, &attr, IBV_QP_STATE), "ERR");
}

void qp_free(struct link_qp *q)
{
	uint32_t qpn = q->qp ? q->qp->qp_num : 0;

	if (q->qp) {
		must(ibv_destroy_qp(q->qp), "destroy_qp");
		poller_forget(q->thread->send_poller, qpn);
		poller_forget(q->thread->recv_poller, qpn);
	}
	q->qp = NULL;
}
