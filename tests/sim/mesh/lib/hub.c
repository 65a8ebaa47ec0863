// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "hub.h"
#include "srq.h"
#include "survive.h"

static const struct manner bare = {.how = BARE}, moved = {.how = MOVED};

void post_slot(struct hub *h, uint32_t slot)
{
	assert_false(h->posted[slot]);
	memset(h->end.buf + slot * SLOT_BYTES, 0, SLOT_BYTES);
	assert_int_equal(end_recv(&h->end, h->lower + slot, slot * SLOT_BYTES, SLOT_BYTES), 0);
	h->posted[slot] = true;
}

void hub_open(struct hub *h, const struct manner *manner)
{
	const struct shape shape = {.srq = true, .noted = true, .cqe = 512};

	memset(h, 0, sizeof(*h));
	h->lower = 1000;
	end_open(&h->end, &world, manner, &shape);
}

void pair_open(struct hub *h, uint32_t i, const struct manner *manner)
{
	const struct shape sender = {0}, receiver = {.hub = &h->end};
	struct pair *p = &h->pairs[i];

	memset(p, 0, sizeof(*p));
	end_open(&p->from, &world, manner->how == MOVED ? &moved : &bare, &sender);
	end_open(&p->to, &world, manner, &receiver);
	ends_connect(&p->from, &p->to, &sender);
	p->open = true;
}

void pair_send(struct hub *h, uint32_t i)
{
	struct pair *p = &h->pairs[i];
	struct message message = {.pair = i, .seq = p->sent++};
	struct ibv_sge sge = {.addr = (uintptr_t)&message, .length = sizeof(message)};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};

	wr.send_flags |= p->sent % 8 ? 0 : IBV_SEND_SIGNALED;
	assert_int_equal(end_send(&p->from, &wr), 0);
	if (!(p->sent % 8))
		assert_int_equal(end_wait(&p->from).status, IBV_WC_SUCCESS);
}

uint32_t take_slot(struct hub *h, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id - h->lower;

	assert_true(slot < SLOTS);
	assert_true(h->posted[slot]); /* not twice */
	h->posted[slot] = false;
	return slot;
}

bool take_one(struct hub *h)
{
	const struct message *message;
	struct ibv_wc wc;
	struct pair *p;
	uint32_t slot;

	memset(&wc, 0, sizeof(wc));
	if (!end_poll(&h->end, &wc))
		return false;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	slot = take_slot(h, &wc);
	message = (const void *)(h->end.buf + slot * SLOT_BYTES);
	assert_int_equal(wc.byte_len, sizeof(*message));
	assert_true(message->pair < MAX_PAIRS);
	p = &h->pairs[message->pair];
	assert_int_equal(wc.qp_num, p->to.qp->qp_num);
	assert_int_equal(message->seq, p->received);
	p->received++;
	return true;
}

void take_all(struct hub *h, struct pair *p)
{
	time_t end = time(NULL) + PATIENCE_S; /* HCAs of other tests may have the processors */

	while (p->received < p->sent) {
		if (!take_one(h) && time(NULL) > end)
			fail_msg("%u of %u messages", p->received, p->sent);
	}
}

void pair_close(struct hub *h, uint32_t i)
{
	struct pair *p = &h->pairs[i];

	take_all(h, p);
	end_close(&p->to);
	end_close(&p->from);
	p->open = false;
}

void hub_close(struct hub *h)
{
	uint32_t i;

	for (i = 0; i < MAX_PAIRS; i++)
		if (h->pairs[i].open)
			pair_close(h, i);
	end_close(&h->end);
}

void post_missing(struct hub *h, uint32_t n)
{
	uint32_t slot, left = n;

	for (slot = 0; slot < SLOTS && left; slot++) {
		if (!h->posted[slot]) {
			post_slot(h, slot);
			left--;
		}
	}
}

/* ---- queue pairs that are moved while they are at work ------------------------------------------------------------ */

void failover_connect(struct end *e)
{
	tracked_rtr(e, &tracked_ops, world_rtr(&world, false, e->qp->qp_num, PSN), &e->vqp);
	tracked_rts(e, e->vqp, world_rts(PSN));
}

/* The far end of a cable is in a namespace of the simulator. */
void hub_cable(bool rail, bool plugged)
{
	struct ibv_context *context = rail ? world.rail->context : world.context;
	struct ibv_port_attr port;
	char command[128];
	int i;

	snprintf(command, sizeof(command), "ip -n msim-$SIM_NAME link set p1n%d %s", rail,
		 plugged ? "up" : "down");
	assert_int_equal(system(command), 0);
	for (i = 0; i < PATIENCE_MS; i++) {
		memset(&port, 0, sizeof(port));
		assert_int_equal(ibv_query_port(context, 1, &port), 0);
		if ((port.state == IBV_PORT_ACTIVE) == plugged)
			return;
		usleep(1000);
	}
	fail_msg("the port does not go %s", plugged ? "up" : "down");
}

struct at_work *at_work_open(uint32_t n)
{
	const struct manner noted = {.how = MOVED};
	struct at_work *l = calloc(1, sizeof(*l));
	uint32_t i;

	assert_non_null(l);
	set_survive(true);
	hub_open(&l->hub, &bare);
	post_missing(&l->hub, 20);
	for (l->n = i = 0; i < n; i++) {
		end_open(&l->ends[i], &world, &noted, &(struct shape){.hub = &l->hub.end});
		l->ends[i].manner = &moved;
		failover_connect(&l->ends[i]);
		l->n++;
	}
	return l;
}

void at_work_close(struct at_work *l)
{
	uint32_t i;

	for (i = 0; i < l->n; i++)
		end_close(&l->ends[i]);
	hub_close(&l->hub);
	free(l);
	set_survive(false);
}

void at_work_works(struct at_work *l, struct end *e)
{
	uint32_t seen = 0;
	struct ibv_wc wc;

	assert_int_equal(end_send_empty(e, 7, IBV_SEND_SIGNALED), 0);
	while (seen != 3) {
		wc = end_wait(&l->hub.end);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.qp_num, e->qp->qp_num);
		seen |= wc.wr_id == 7 ? 1 : 2;
		if (wc.wr_id != 7)
			take_slot(&l->hub, &wc);
	}
}

void failover_drain(struct end *e, struct mv_move_sync *sync)
{
	tracked_prepare_loop(e->vqp, PSN);
	tracked_drain(e->vqp, true, sync);
}

void failover_move(struct end *e)
{
	struct mv_move_sync sync;

	failover_drain(e, &sync);
	assert_int_equal(mesh_failover_replay(e->vqp, sync.next_psn, sync.n_received, 4, NULL), 0);
}

void half_open(struct end *from, struct end *to)
{
	struct ibv_qp_attr rtr = world_rtr(&world, false, to->qp->qp_num, PSN), rts = world_rts(PSN);
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .num_sge = 2}, *bad;
	struct ibv_sge halves[2];

	rtr.path_mtu = IBV_MTU_256;
	assert_int_equal(world.mc->lower.qp.modify_qp(from->qp, &rtr, RTR_MASK), 0);
	assert_int_equal(world.mc->lower.qp.modify_qp(from->qp, &rts, RTS_MASK), 0);
	from->qp->state = IBV_QPS_RTS;
	halves[0] = (struct ibv_sge){(uintptr_t)from->buf, SLOT_BYTES, from->mr->lkey};
	halves[1] = (struct ibv_sge){(uintptr_t)from->buf, SLOT_BYTES, ~from->mr->lkey};
	wr.sg_list = halves;
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
	assert_int_equal(end_wait(from).status, IBV_WC_LOC_PROT_ERR);
	end_wait_begun(to, PSN);
}

uint32_t n_counted(const struct mesh_srq *srq)
{
	const struct mesh_rail_srq *rail_srq;
	uint32_t n = srq->lower.log.n_left + srq->reserve.log.n_left + srq->pool.n_left + srq->n_withheld;

	for (rail_srq = srq->shadows; rail_srq; rail_srq = rail_srq->next)
		n += rail_srq->log.n_left;
	return n;
}
