/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The HCA without its thread and its sockets: the input is a script of work requests (raw bytes in
 * the rings, raw doorbells), packets to the queue pairs (fields from the input, with numbers near
 * those that matter), time, and state changes. Whatever it says, the HCA must stay within its
 * memory and within the memory regions.
 */
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "hca.h"
#include "input.h"
#include "root.h"

#define N_QPS    3
#define RING_BBS 16
#define N_RECV   16
#define MR_BYTES 16384
#define GUARD    4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In place of net.c, engine.c, neigh.c, faults.c and root.c. */
static uint8_t out_frame[WIRE_MAX_FRAME];

uint64_t engine_clock(void)
{
	return 1;
}

void engine_hurry(struct hca *h)
{
	(void)h;
}

void net_update(struct hca *h)
{
	(void)h;
}

uint8_t *net_frame(struct hca *h)
{
	(void)h;
	return out_frame;
}

void net_send(struct hca *h, struct qp *qp, const struct path *path, struct wire_packet *p,
	      uint8_t *frame)
{
	(void)h;
	(void)qp;
	if (wire_finish(frame, &path->wire, p) > sizeof(out_frame))
		abort();
}

enum sim_fault_action fault_check(struct hca *h, uint8_t dir, uint32_t dev, uint32_t port,
				  uint32_t qpn, uint8_t opcode, uint8_t syndrome,
				  uint32_t *delay_us)
{
	(void)h;
	(void)dir;
	(void)dev;
	(void)port;
	(void)qpn;
	(void)opcode;
	(void)syndrome;
	(void)delay_us;
	return SIM_FAULT_OFF;
}

void fault_delay(struct hca *h, bool rx, uint32_t ifindex, const uint8_t *frame, size_t len,
		 uint32_t delay_us)
{
	(void)h;
	(void)rx;
	(void)ifindex;
	(void)frame;
	(void)len;
	(void)delay_us;
}

int neigh_resolve(const uint8_t *sgid, const uint8_t *dgid, uint32_t ifindex,
		  const uint8_t *own_mac, struct sim_state *st, uint8_t *ret_mac)
{
	(void)sgid;
	(void)dgid;
	(void)ifindex;
	(void)own_mac;
	(void)st;
	memset(ret_mac, 2, 6);
	return 0;
}

int neigh_try(const uint8_t *sgid, const uint8_t *dgid, uint32_t ifindex, uint8_t *ret_mac)
{
	return neigh_resolve(sgid, dgid, ifindex, NULL, NULL, ret_mac);
}

struct hca *root_peek(void)
{
	return NULL;
}

static struct hca hca;
static struct ucontext *uc;
static uint8_t *memory; /* GUARD, MR_BYTES, GUARD */
static uint8_t rq[N_QPS][N_RECV * 64 + RING_BBS * WQE_BB] __attribute__((aligned(4096)));
static uint32_t db[N_QPS][2], cq_db[2];
static uint8_t cqes[64 * 256];
static uint32_t handles[N_QPS], key;

static long command(uint32_t cmd, const void *body, size_t len, const void *drv, size_t drv_len,
		    void *resp, size_t resp_len)
{
	uint64_t buf[64] = {0};
	struct ib_uverbs_cmd_hdr *hdr = (void *)buf;

	hdr->command = cmd;
	hdr->in_words = (uint16_t)((sizeof(*hdr) + len + drv_len) / 4);
	hdr->out_words = (uint16_t)(resp_len / 4);
	memcpy(hdr + 1, body, len);
	if (resp_len)
		memcpy(hdr + 1, &resp, 8);
	memcpy((uint8_t *)(hdr + 1) + len, drv, drv_len);
	return cmd_write(uc, buf, sizeof(*hdr) + len + drv_len);
}

static void must(long rc)
{
	if (rc < 0)
		abort();
}

static void modify(uint32_t handle, uint8_t state, uint32_t mask)
{
	struct ib_uverbs_modify_qp m = {.qp_handle = handle,
					.attr_mask = mask | IBV_QP_STATE,
					.qp_state = state,
					.port_num = 1,
					.qp_access_flags = 0xf,
					.qkey = 0x11,
					.path_mtu = IBV_MTU_256,
					.dest_qp_num = 0x1234,
					.rq_psn = 0xfffff0,
					.sq_psn = 0xfffff0,
					.max_rd_atomic = 2,
					.max_dest_rd_atomic = 2,
					.timeout = 1,
					.retry_cnt = 3,
					.rnr_retry = 3};

	m.dest = (struct ib_uverbs_qp_dest){.is_global = 1, .port_num = 1};
	memset(m.dest.dgid, 0x20, 16);
	command(IB_USER_VERBS_CMD_MODIFY_QP, &m, sizeof(m), NULL, 0, NULL, 0);
}

static void up(int i)
{
	int init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | (i == 2 ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	int rtr = i == 2 ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int rts = IBV_QP_SQ_PSN;

	if (i == 0) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	}
	modify(handles[i], IBV_QPS_RESET, 0);
	memset(db[i], 0, sizeof(db[i]));
	modify(handles[i], IBV_QPS_INIT, (uint32_t)init);
	modify(handles[i], IBV_QPS_RTR, (uint32_t)rtr);
	modify(handles[i], IBV_QPS_RTS, (uint32_t)rts);
}

static void set_up_state(void)
{
	struct sim_state *st = calloc(1, sizeof(*st));
	struct sim_port *p = &st->devs[0].ports[0];

	st->n_devs = 1;
	st->devs[0].present = 1;
	st->devs[0].n_ports = 1;
	p->link_layer = SIM_LINK_ETHERNET;
	p->state = SIM_PORT_ACTIVE;
	p->active_mtu = 3;
	p->n_gids = 4;
	p->n_pkeys = 1;
	p->gids[0].type = SIM_GID_ROCE_V2;
	memset(p->gids[0].raw, 0x20, 16);
	hca.state = st;
}

static void set_up(void)
{
	static const uint8_t types[N_QPS] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct mlx5_ib_alloc_ucontext_req_v2 req = {.total_num_bfregs = 16, .max_cqe_version = 1};
	struct mlx5_ib_create_cq cq = {
		.buf_addr = (uintptr_t)cqes, .db_addr = (uintptr_t)cq_db, .cqe_size = 64};
	struct ib_uverbs_create_cq ccq = {.cqe = 255, .comp_channel = -1};
	struct ib_uverbs_reg_mr mr = {.length = MR_BYTES, .access_flags = 0xf};
	struct ib_uverbs_reg_mr_resp mr_resp;
	uint32_t resp[128];

	memory = aligned_alloc(4096, GUARD + MR_BYTES + GUARD);
	memset(memory, 0, GUARD + MR_BYTES + GUARD);
	set_up_state();
	pthread_mutex_init(&hca.lock, NULL);
	TAILQ_INIT(&hca.sending.busy);
	TAILQ_INIT(&hca.sending.waiting);
	hca.qps = calloc(1u << SIM_SLOT_QPN_BITS, sizeof(struct qp *));
	hca.regions.base = 0x100;
	hca.engine.wake_fd = -1;
	uc = ucontext_open(&hca, 0);
	must(command(IB_USER_VERBS_CMD_GET_CONTEXT, resp, 8, &req, sizeof(req), resp, 8));
	must(command(IB_USER_VERBS_CMD_ALLOC_PD, resp, 8, NULL, 0, resp, 4));
	mr.start = mr.hca_va = (uintptr_t)memory + GUARD;
	must(command(IB_USER_VERBS_CMD_REG_MR, &mr, sizeof(mr), NULL, 0, &mr_resp,
		     sizeof(mr_resp)));
	key = mr_resp.rkey;
	must(command(IB_USER_VERBS_CMD_CREATE_CQ, &ccq, sizeof(ccq), &cq, sizeof(cq), resp, 8));
	for (int i = 0; i < N_QPS; i++) {
		struct ib_uverbs_create_qp c = {.pd_handle = 0,
						.send_cq_handle = resp[0],
						.recv_cq_handle = resp[0],
						.qp_type = types[i]};
		struct mlx5_ib_create_qp d = {.buf_addr = (uintptr_t)rq[i],
					      .db_addr = (uintptr_t)db[i],
					      .sq_wqe_count = RING_BBS,
					      .rq_wqe_count = N_RECV,
					      .rq_wqe_shift = 6};
		struct ib_uverbs_create_qp_resp r;

		must(command(IB_USER_VERBS_CMD_CREATE_QP, &c, sizeof(c), &d, sizeof(d), &r,
			     sizeof(r)));
		handles[i] = r.qp_handle;
	}
}

/* An address in or near the region. */
static uint64_t address(struct input *in)
{
	return (uintptr_t)memory + GUARD + (uint64_t)(int16_t)take(in, 2);
}

static void packet(struct input *in)
{
	int i = (int)(take(in, 1) % N_QPS);
	struct qp *qp = (struct qp *)obj_get(uc, handles[i], OBJ_QP);
	uint32_t near = take(in, 1) & 1 ? qp->req.una_psn : qp->resp.epsn;
	uint8_t payload[WIRE_MAX_MTU];
	struct wire_packet p = {.opcode = (uint8_t)((take(in, 1) & OP_MASK) | (i == 0   ? 0
									       : i == 1 ? OP_UC
											: OP_UD))};
	uint32_t f = wire_op_flags(p.opcode);

	if (!f)
		return;
	p.psn = psn_add(near, (int8_t)take(in, 1));
	p.syndrome = (uint8_t)take(in, 1);
	p.va = address(in);
	p.rkey = take(in, 1) & 0xf ? key : (uint32_t)take(in, 4);
	p.dma_len = (uint32_t)take(in, 1) % 3 ? (uint32_t)take(in, 2) : (uint32_t)take(in, 4);
	p.payload_len =
		f & WIRE_PAYLOAD
			? (uint32_t)(take(in, 1) & 1 ? 256 : take(in, 2) % (WIRE_MAX_MTU + 1))
			: 0;
	p.ack_request = true;
	p.qkey = 0x11;
	p.l3 = payload;
	p.l3_len = 40;
	p.payload = payload;
	memset(payload, 0xaa, sizeof(payload));
	if (qp->state < IBV_QPS_RTR)
		return;
	if (i == 1)
		uc_receive(qp, &p);
	else if (i == 2)
		ud_receive(qp, &p);
	else if (f & WIRE_RESPONSE)
		rc_req_response(qp, &p);
	else
		rc_resp_request(qp, &p);
}

/* Raw bytes into the ring, but often with a control segment that is believable. */
static void post(struct input *in)
{
	int i = (int)(take(in, 1) % N_QPS);
	struct qp *qp = (struct qp *)obj_get(uc, handles[i], OBJ_QP);
	uint8_t *ring = rq[i] + N_RECV * 64;
	uint16_t posted = (uint16_t)be32toh(db[i][1]);
	uint32_t bbs = 1 + (uint32_t)take(in, 1) % 4;

	for (uint32_t k = 0; k < bbs * WQE_BB / 8; k++) {
		uint64_t v = take(in, 1) & 3 ? htobe64(address(in)) : take(in, 8);

		memcpy(ring + (posted * WQE_BB + k * 8) % (RING_BBS * WQE_BB), &v, 8);
	}
	if (take(in, 1) & 7) {
		uint32_t head[4] = {htobe32((uint32_t)posted << 8 | (uint32_t)take(in, 1)),
				    htobe32(qp->qpn << 8 | (1 + (uint32_t)take(in, 1) % (bbs * 4))),
				    (uint32_t)take(in, 1) << 24, 0};

		memcpy(ring + posted * WQE_BB % (RING_BBS * WQE_BB), head, 16);
	}
	for (uint32_t u = 1; u < bbs * 4; u++) {
		uint32_t seg[2] = {htobe32((uint32_t)take(in, 2) % 600), htobe32(key)};

		if (take(in, 1) & 1)
			memcpy(ring + (posted * WQE_BB + u * 16) % (RING_BBS * WQE_BB), seg, 8);
	}
	db[i][1] = htobe32((uint32_t)(posted + (take(in, 1) & 0xf ? bbs : take(in, 2))) & 0xffff);
	qp_poll_send(qp);
}

static void post_receive(struct input *in)
{
	int i = (int)(take(in, 1) % N_QPS);
	uint16_t posted = (uint16_t)be32toh(db[i][0]);
	uint8_t *wqe = rq[i] + posted % N_RECV * 64;

	for (int k = 0; k < 4; k++, wqe += 16) {
		uint32_t seg[2] = {htobe32((uint32_t)take(in, 2) % 5000),
				   htobe32(take(in, 1) & 7 ? key : (uint32_t)take(in, 4))};
		uint64_t addr = htobe64(address(in));

		memcpy(wqe, seg, 8);
		memcpy(wqe + 8, &addr, 8);
	}
	db[i][0] = htobe32((uint32_t)posted + 1);
}

static void check_guards(void)
{
	for (int i = 0; i < GUARD; i++)
		if (memory[i] || memory[GUARD + MR_BYTES + i])
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	if (!uc)
		set_up();
	for (int i = 0; i < N_QPS; i++)
		up(i);
	while (in.left) {
		uint8_t what = (uint8_t)take(&in, 1);
		struct qp *qp = (struct qp *)obj_get(uc, handles[what >> 4 & 1], OBJ_QP);

		switch (what & 7) {
		case 0:
		case 1:
			packet(&in);
			break;
		case 2:
		case 3:
			post(&in);
			break;
		case 4:
			post_receive(&in);
			break;
		case 5:
			hca.now_ns += take(&in, 2) * 1000;
			break;
		case 6:
			for (int i = 0; i < N_QPS; i++)
				qp_transmit((struct qp *)obj_get(uc, handles[i], OBJ_QP), 8);
			break;
		case 7:
			if (what & 8)
				qp_fatal(qp, IBV_EVENT_QP_FATAL);
			else
				cq_db[0] = htobe32(hca.cqs.lh_first->pi & 0xffffff);
			break;
		}
		cq_run_failures(&hca);
		hca.cqs.lh_first->overrun = false;
	}
	evq_drop(uc->async, NULL);
	for (int i = 0; i < N_QPS; i++)
		evq_drop(uc->async, obj_get(uc, handles[i], OBJ_QP));
	evq_drop(uc->async, hca.cqs.lh_first);
	check_guards();
	return 0;
}
