// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "xfer.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PAD_BYTES   128 /* behind each buffer, to be left alone */
#define POISON      0xee
#define ALIGN_BYTES 128u /* of the parts that queue pairs share a buffer in */
#define WHOLE_BYTES 8192u /* larger ones are written first, then announced */

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t drawn(const struct side *side, uint64_t number, unsigned int what)
{
	return mix(side->plan->seed * 1000003 + side->sender * 10007 + number * 64 + what);
}

static uint32_t n_buffers(const struct side *side, uint64_t number)
{
	uint64_t x = drawn(side, number, 0);

	return x % 3 ? 1 : 1 + (uint32_t)(x >> 8) % MAX_RECVS;
}

static uint32_t size_of(const struct side *side, uint64_t number, uint32_t i)
{
	uint64_t x = drawn(side, number, 1 + i);

	switch (x % 5) {
	case 0:
		return 0;
	case 1:
		return (uint32_t)(x >> 8) % 200;
	default:
		return (uint32_t)(x >> 8) % (side->plan->max_bytes + 1);
	}
}

static uint32_t tag_of(const struct side *side, uint64_t number, uint32_t i)
{
	return (uint32_t)drawn(side, number, 16 + i);
}

static uint8_t byte_of(uint64_t base, size_t at)
{
	return (uint8_t)(base + at * 7 + (at >> 8) * 13);
}

static size_t room(const struct side *side)
{
	return side->plan->max_bytes + PAD_BYTES;
}

static uint8_t *buffer(const struct side *side, uint64_t number, uint32_t i)
{
	return side->memory + (number % MAX_REQS * MAX_RECVS + i) * room(side);
}

static size_t memory_bytes(const struct side *side)
{
	return MAX_REQS * MAX_RECVS * room(side);
}

static void reg(const struct side *side, void *addr, size_t len, struct ibv_mr **ret)
{
	for (int d = 0; d < side->net->n_devs; d++) {
		ret[d] = lib.reg_mr_iova2(side->net->devs[d].pd, addr, len, (uintptr_t)addr,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						  IBV_ACCESS_REMOTE_READ);
		if (!ret[d])
			die(errno, "registering %zu bytes", len);
	}
}

static void dereg(const struct side *side, struct ibv_mr **mr)
{
	for (int d = 0; d < side->net->n_devs; d++) {
		int err = lib.dereg_mr(mr[d]);

		if (err)
			die(err, "dereg_mr");
	}
}

void side_init(struct side *side, struct net *net, const struct plan *plan, uint32_t sender)
{
	side->net = net;
	side->plan = plan;
	side->sender = sender;
	side->memory = aligned_alloc(4096, (memory_bytes(side) + 4095) / 4096 * 4096);
	if (!side->memory)
		die(ENOMEM, "%zu bytes", memory_bytes(side));
	memset(side->memory, 0, memory_bytes(side));
	reg(side, side->memory, memory_bytes(side), side->before);
}

void side_register_between(struct side *side)
{
	reg(side, side->memory, memory_bytes(side), side->between);
}

void side_close(struct side *side)
{
	dereg(side, side->before);
	dereg(side, side->between);
	free(side->memory);
}

/* The keys for transfer @number. */
static void take_keys(struct side *side, struct request *req)
{
	enum mr_policy policy =
		(enum mr_policy)(drawn(side, req->number, 32 + side->end.is_sender) % MR_POLICIES);
	void *addr = buffer(side, req->number, 0);

	req->own_mr = policy == MR_FRESH || policy == MR_AGAIN;
	if (!req->own_mr) {
		memcpy(req->mr, policy == MR_BEFORE ? side->before : side->between,
		       sizeof(req->mr));
		return;
	}
	reg(side, addr, MAX_RECVS * room(side), req->mr);
	if (policy == MR_AGAIN) {
		dereg(side, req->mr);
		reg(side, addr, MAX_RECVS * room(side), req->mr);
	}
}

static struct request *take_request(struct side *side)
{
	struct request *req = &side->reqs[side->posted % MAX_REQS];

	if (side->posted == side->plan->n_transfers || req->used)
		return NULL;
	*req = (struct request){.used = true, .number = side->posted};
	return req;
}

static void finish(struct side *side, struct request *req)
{
	if (req->own_mr)
		dereg(side, req->mr);
	req->used = false;
	side->finished++;
}

static void post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err = ibv_post_send(qp, wr, &bad);

	if (err)
		die(err, "post_send");
}

/* --- sender */

static uint32_t part_bytes(uint32_t bytes, int n_qps)
{
	uint32_t each = (bytes + (uint32_t)n_qps - 1) / (uint32_t)n_qps;

	return (each + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* Queue pair @q's part of each buffer, then what completes the receiver's receive. */
static void post_parts(struct side *side, struct request *req, const struct cts *cts, uint32_t n,
		       int q)
{
	int d = q % side->net->n_devs;
	uint32_t there = side->end.theirs.qps[q].dev;
	struct ibv_sge sge[MAX_RECVS + 1] = {};
	struct ibv_send_wr wr[MAX_RECVS + 1] = {}, *last;
	uint64_t slot = req->number % MAX_REQS;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t bytes = req->sizes[i], part = part_bytes(bytes, side->net->n_qps),
			 at = part * (uint32_t)q;

		sge[i].addr = (uintptr_t)buffer(side, req->number, i) + at;
		sge[i].lkey = req->mr[d]->lkey;
		sge[i].length = at >= bytes ? 0 : bytes - at < part ? bytes - at : part;
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].wr.rdma.remote_addr = cts[i].addr + at;
		wr[i].wr.rdma.rkey = cts[i].rkeys[there];
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = sge[i].length ? 1 : 0;
		wr[i].next = &wr[i + 1];
	}
	last = &wr[n - 1];
	if (n > 1) { /* sizes of all buffers go into the receiver's list */
		last = &wr[n];
		sge[n] = (struct ibv_sge){(uintptr_t)side->end.send.sizes[slot],
					  n * sizeof(uint32_t), side->end.own_mr[d]->lkey};
		last->sg_list = &sge[n];
		last->num_sge = 1;
		last->wr.rdma.remote_addr =
			side->end.theirs.addr + slot * sizeof(side->end.send.sizes[0]);
		last->wr.rdma.rkey = side->end.theirs.devs[there].rkey;
	} else if (req->sizes[0] >
		   WHOLE_BYTES) { /* all data before, nothing but the number with it */
		last = &wr[n];
	}
	last->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	last->imm_data = req->sizes[0];
	last->send_flags = IBV_SEND_SIGNALED;
	last->wr_id = slot;
	last->next = NULL;
	post(side->end.qp[q], wr);
}

/* Has the receiver said where transfer @number goes? Then @ret is what it said. */
static uint32_t cleared(struct side *side, uint64_t number, struct cts *ret)
{
	struct cts *slot = side->end.send.cts[number % MAX_REQS];
	uint32_t n;

	if (*(volatile uint64_t *)&slot[0].number != number + 1)
		return 0;
	n = *(volatile uint32_t *)&slot[0].n;
	for (uint32_t i = 1; i < n; i++) {
		while (*(volatile uint64_t *)&slot[i].number != number + 1)
			;
	}
	atomic_thread_fence(memory_order_acquire);
	memcpy(ret, slot, n * sizeof(*slot));
	memset(slot, 0, sizeof(side->end.send.cts[0]));
	return n;
}

static void check_cts(const struct side *side, uint64_t number, const struct cts *cts, uint32_t n)
{
	if (n != n_buffers(side, number))
		die(0, "transfer %lu: the receiver asks for %u buffers", number, n);
	for (uint32_t i = 0; i < n; i++) {
		if (cts[i].tag != tag_of(side, number, i) ||
		    cts[i].bytes < size_of(side, number, i))
			die(0, "transfer %lu: CTS of buffer %u is wrong", number, i);
	}
}

static bool send_one(struct side *side)
{
	struct cts cts[MAX_RECVS];
	struct request *req;
	uint64_t number = side->posted;
	uint32_t n;

	if (side->reqs[number % MAX_REQS].used || number == side->plan->n_transfers)
		return false;
	n = cleared(side, number, cts);
	if (!n)
		return false;
	check_cts(side, number, cts, n);
	req = take_request(side);
	take_keys(side, req);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t base = drawn(side, number, 48 + i);
		uint8_t *at = buffer(side, number, i);

		req->sizes[i] = size_of(side, number, i);
		side->end.send.sizes[number % MAX_REQS][i] = req->sizes[i];
		for (size_t k = 0; k < req->sizes[i]; k++)
			at[k] = byte_of(base, k);
	}
	for (int q = 0; q < side->net->n_qps; q++)
		post_parts(side, req, cts, n, q);
	req->events = side->net->n_qps;
	side->posted++;
	return true;
}

/* --- receiver */

static void post_receives(struct side *side, uint64_t slot)
{
	for (int q = 0; q < side->net->n_qps; q++) {
		struct ibv_recv_wr wr = {.wr_id = slot}, *bad;
		int err = ibv_post_recv(side->end.qp[q], &wr, &bad);

		if (err)
			die(err, "post_recv");
	}
}

static void post_cts(struct side *side, struct request *req)
{
	uint64_t slot = req->number % MAX_REQS;
	int q = (int)(req->number % (uint64_t)side->net->n_devs),
	    d = q; /* queue pair number q is on device q */
	uint32_t n = n_buffers(side, req->number);
	struct cts *cts = side->end.recv.cts[slot];
	struct ibv_sge sge = {(uintptr_t)cts, n * (uint32_t)sizeof(*cts),
			      side->end.own_mr[d]->lkey};
	struct ibv_send_wr wr = {.wr_id = slot,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_INLINE};

	memset(cts, 0, sizeof(side->end.recv.cts[0]));
	for (uint32_t i = 0; i < n; i++) {
		cts[i] = (struct cts){.addr = (uintptr_t)buffer(side, req->number, i),
				      .bytes = side->plan->max_bytes,
				      .n = n,
				      .tag = tag_of(side, req->number, i),
				      .number = req->number + 1};
		for (int k = 0; k < side->net->n_devs; k++)
			cts[i].rkeys[k] = req->mr[k]->rkey;
	}
	wr.wr.rdma.remote_addr = side->end.theirs.addr + slot * sizeof(side->end.recv.cts[0]);
	wr.wr.rdma.rkey = side->end.theirs.devs[side->end.theirs.qps[q].dev].rkey;
	if ((int)slot == d) { /* now and then, or the send queue would never be seen to empty */
		wr.send_flags |= IBV_SEND_SIGNALED;
		req->events++;
	}
	post(side->end.qp[q], &wr);
}

static bool receive_one(struct side *side)
{
	struct request *req = take_request(side);

	if (!req)
		return false;
	memset(buffer(side, req->number, 0), POISON, MAX_RECVS * room(side));
	take_keys(side, req);
	req->events = side->net->n_qps;
	side->posted++;
	post_receives(side, req->number % MAX_REQS);
	post_cts(side, req);
	return true;
}

/* Reads of one byte through every device, as a GPU's memory wants. */
static void flush(struct side *side, struct request *req)
{
	req->flushing = true;
	for (int d = 0; d < side->net->n_devs; d++) {
		struct ibv_sge sge = {(uintptr_t)&side->end.flush_target, 1,
				      side->end.flush_mr[d]->lkey};
		struct ibv_send_wr wr = {.wr_id = req->number % MAX_REQS,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_READ,
					 .send_flags = IBV_SEND_SIGNALED};

		wr.wr.rdma.remote_addr = (uintptr_t)buffer(side, req->number, 0);
		wr.wr.rdma.rkey = req->mr[d]->rkey;
		post(side->end.flush_qp[d], &wr);
		req->events++;
	}
}

static void check_buffer(const struct side *side, const struct request *req, uint32_t i,
			 uint32_t came)
{
	uint32_t bytes = size_of(side, req->number, i);
	uint64_t base = drawn(side, req->number, 48 + i);
	const uint8_t *at = buffer(side, req->number, i);

	if (came != bytes)
		die(0, "transfer %lu, buffer %u: %u bytes came, not %u", req->number, i, came,
		    bytes);
	for (size_t k = 0; k < room(side); k++) {
		uint8_t want = k < bytes ? byte_of(base, k) : POISON;

		if (at[k] != want)
			die(0, "transfer %lu, buffer %u of %u bytes: byte %zu is %02x, not %02x",
			    req->number, i, bytes, k, at[k], want);
	}
}

static void received(struct side *side, struct request *req)
{
	uint32_t n = n_buffers(side, req->number), any = 0;

	for (uint32_t i = 0; i < n; i++)
		any |= size_of(side, req->number, i);
	if (any && !req->flushing) {
		flush(side, req);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t came =
			n > 1 ? side->end.recv.sizes[req->number % MAX_REQS][i] : req->sizes[0];

		check_buffer(side, req, i, came);
		side->bytes += came;
	}
	finish(side, req);
}

/* --- completions */

static void check_owner(const struct side *side, int d, const struct ibv_wc *wc)
{
	if (side->end.flush_qp[d] && wc->qp_num == side->end.flush_qp[d]->qp_num)
		return;
	for (int q = d; q < side->net->n_qps; q += side->net->n_devs) {
		if (wc->qp_num == side->end.qp[q]->qp_num)
			return;
	}
	die(0, "a completion of QP %#x, which is none of mine", wc->qp_num);
}

static void completed(struct side *side, int d, const struct ibv_wc *wc)
{
	struct request *req = &side->reqs[wc->wr_id % MAX_REQS];

	check_owner(side, d, wc);
	if (wc->status != IBV_WC_SUCCESS)
		die(0, "transfer %lu on %s: status %d, vendor %#x", req->number,
		    side->net->devs[d].name, wc->status, wc->vendor_err);
	if (wc->wr_id >= MAX_REQS || !req->used || req->events <= 0)
		die(0, "a completion with wr_id %lu that nobody waits for", wc->wr_id);
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		req->sizes[0] = wc->imm_data;
	if (--req->events)
		return;
	if (side->end.is_sender)
		finish(side, req);
	else
		received(side, req);
}

static void poll_all(struct side *side)
{
	struct ibv_wc wc[4];

	for (int d = 0; d < side->net->n_devs; d++) {
		int n = ibv_poll_cq(side->end.cq[d], 4, wc);

		if (n < 0)
			die(0, "poll_cq");
		for (int i = 0; i < n; i++)
			completed(side, d, &wc[i]);
	}
}

void send_progress(struct side *side)
{
	while (send_one(side))
		;
	poll_all(side);
}

void recv_progress(struct side *side)
{
	while (receive_one(side))
		;
	poll_all(side);
}
