// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One SRQ, whose queue pairs are partly moved and partly not: each receive that is posted is consumed once, wherever the
 * message comes from, and the completion names the buffer that has it.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "guarded.h"
#include "heldint.h"
#include "srq.h"

#define SLOTS	   48u
#define SLOT_BYTES 256u
#define MAX_PAIRS  6u
#define ROUNDS	   400u

static const struct manner bare = {.how = BARE}, moved = {.how = MOVED};
static const struct manner bare_ex = {.how = BARE, .extended = true}, moved_ex = {.how = MOVED, .extended = true};

/* What a message says, at its start. */
struct message {
	uint32_t pair, seq;
};

/* A sender, and a receiver that takes from the hub's SRQ. */
struct pair {
	bool open;
	struct end from, to;
	uint32_t sent, received;
};

struct hub {
	struct end end; /* has SRQ, CQ and buffers; its own QP is not used */
	bool posted[SLOTS]; /* slot is in the SRQ */
	uint32_t base; /* wr_id of slot 0 */
	struct pair pairs[MAX_PAIRS];
	uint64_t random;
};

static uint32_t pick(struct hub *h, uint32_t n)
{
	h->random = h->random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(h->random >> 33) % n;
}

static void post_slot(struct hub *h, uint32_t slot)
{
	assert_false(h->posted[slot]);
	memset(h->end.buf + slot * SLOT_BYTES, 0, SLOT_BYTES);
	assert_int_equal(end_recv(&h->end, h->base + slot, slot * SLOT_BYTES, SLOT_BYTES), 0);
	h->posted[slot] = true;
}

static void hub_open(struct hub *h, const struct manner *manner)
{
	const struct shape shape = {.srq = true, .noted = true, .cqe = 512};

	memset(h, 0, sizeof(*h));
	h->base = 1000;
	end_open(&h->end, &world, manner, &shape);
}

static void pair_open(struct hub *h, uint32_t i, const struct manner *manner)
{
	const struct shape sender = {0}, receiver = {.hub = &h->end};
	struct pair *p = &h->pairs[i];

	memset(p, 0, sizeof(*p));
	end_open(&p->from, &world, manner->how == MOVED ? &moved : &bare, &sender);
	end_open(&p->to, &world, manner, &receiver);
	ends_connect(&p->from, &p->to, &sender);
	p->open = true;
}

static void pair_send(struct hub *h, uint32_t i)
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

/* Of a receive; returns the slot. */
static uint32_t take_slot(struct hub *h, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id - h->base;

	assert_true(slot < SLOTS);
	assert_true(h->posted[slot]); /* not twice */
	h->posted[slot] = false;
	return slot;
}

/* Return: whether there was one. */
static bool take_one(struct hub *h)
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

static void take_all(struct hub *h, struct pair *p)
{
	time_t end = time(NULL) + 10;

	while (p->received < p->sent) {
		if (!take_one(h) && time(NULL) > end)
			fail_msg("%u of %u messages", p->received, p->sent);
	}
}

static void pair_close(struct hub *h, uint32_t i)
{
	struct pair *p = &h->pairs[i];

	take_all(h, p);
	end_close(&p->to);
	end_close(&p->from);
	p->open = false;
}

static void hub_close(struct hub *h)
{
	uint32_t i;

	for (i = 0; i < MAX_PAIRS; i++)
		if (h->pairs[i].open)
			pair_close(h, i);
	end_close(&h->end);
}

static void post_missing(struct hub *h, uint32_t n)
{
	uint32_t slot, left = n;

	for (slot = 0; slot < SLOTS && left; slot++) {
		if (!h->posted[slot]) {
			post_slot(h, slot);
			left--;
		}
	}
}

/* Who comes first, what is under way then, and that the last receive can be had from either side. */
static void joins(const struct manner *first, const struct manner *second, const struct manner *hub_manner)
{
	struct hub *h = calloc(1, sizeof(*h));
	uint32_t i;

	assert_non_null(h);
	hub_open(h, hub_manner);
	for (i = 0; i < 20; i++)
		post_slot(h, i);
	pair_open(h, 0, first);
	for (i = 0; i < 10; i++)
		pair_send(h, 0);
	for (i = 0; i < 5;)
		i += take_one(h);
	pair_open(h, 1, second);
	/* Ten are left; an equal share each. */
	for (i = 0; i < 5; i++)
		pair_send(h, 1);
	take_all(h, &h->pairs[0]);
	take_all(h, &h->pairs[1]);
	for (i = 0; i < 5; i++)
		pair_send(h, 0);
	take_all(h, &h->pairs[0]);
	end_quiet(&h->end);
	for (i = 0; i < SLOTS; i++)
		assert_false(h->posted[i]);
	/* One that goes leaves what it did not use to the other. */
	post_missing(h, 30);
	pair_close(h, 0);
	for (i = 0; i < 30; i++)
		pair_send(h, 1);
	take_all(h, &h->pairs[1]);
	hub_close(h);
	free(h);
}

static void test_joins(void **state)
{
	(void)state;
	joins(&bare, &moved, &bare);
	joins(&moved, &bare, &bare);
	joins(&moved, &moved, &bare);
	joins(&bare, &bare, &bare);
	joins(&bare_ex, &moved_ex, &bare_ex);
	joins(&moved_ex, &bare_ex, &bare_ex);
}

/* The only receive there is, posted when there was none at all, goes to whoever is sent something. */
static void test_late(void **state)
{
	struct hub *h = calloc(1, sizeof(*h));
	uint32_t i;

	(void)state;
	assert_non_null(h);
	hub_open(h, &bare);
	pair_open(h, 0, &bare);
	pair_open(h, 1, &moved);
	for (i = 0; i < 8; i++) {
		post_slot(h, i);
		pair_send(h, i % 2);
		take_all(h, &h->pairs[i % 2]);
	}
	for (i = 0; i < 8; i++) {
		post_slot(h, i);
		pair_send(h, i / 4);
		take_all(h, &h->pairs[i / 4]);
	}
	hub_close(h);
	free(h);
}

/* The far end of this host's cable, which the simulator keeps in a namespace of its own. */
static void cable(bool plugged)
{
	struct ibv_port_attr port;
	char command[128];
	int i;

	snprintf(command, sizeof(command), "ip -n msim-$SIM_NAME link set p1n0 %s", plugged ? "up" : "down");
	assert_int_equal(system(command), 0);
	for (i = 0; i < 5000; i++) {
		memset(&port, 0, sizeof(port));
		assert_int_equal(ibv_query_port(world.context, 1, &port), 0);
		if ((port.state == IBV_PORT_ACTIVE) == plugged)
			return;
		usleep(1000);
	}
	fail_msg("the port does not go %s", plugged ? "up" : "down");
}

/* One connection cannot leave a port that is down, and what is posted there cannot be taken back: another, that can, has receives. */
static void test_port_down(void **state)
{
	struct hub *h = calloc(1, sizeof(*h));
	struct mesh_srq_home *home;
	struct mesh_srq *srq;
	struct end movable;
	uint32_t i;

	(void)state;
	assert_non_null(h);
	mesh_root.config.survive = true;
	hub_open(h, &bare);
	post_missing(h, 40);
	srq = mesh_srq_find(world.mc, h->end.srq);
	assert_non_null(srq);
	pair_open(h, 0, &bare);
	end_open(&movable, &world, &bare, &(struct shape){.hub = &h->end});
	assert_int_equal(srq->reserve.log.n_left, 0);
	assert_int_equal(mesh_srq_join_base(world.mc, movable.qp, false), 0);
	assert_int_equal(srq->reserve.log.n_left, 10);
	/* All of them can be had, though. */
	for (i = 0; i < 40; i++) {
		pair_send(h, 0);
		take_all(h, &h->pairs[0]);
	}
	assert_int_equal(srq->reserve.log.n_left, 0);
	post_missing(h, 40);
	cable(false);
	/* What may wait for what others have: as where it is at work. */
	assert_int_equal(mesh_srq_join_shadow(srq, world.rail, true, &home), 0);
	pair_open(h, 1, &moved);
	for (i = 0; i < 10; i++)
		pair_send(h, 1);
	take_all(h, &h->pairs[1]);
	cable(true);
	for (i = 0; i < 10; i++) {
		pair_send(h, 0);
		pair_send(h, 1);
	}
	pair_close(h, 0);
	pair_close(h, 1);
	mesh_srq_leave_shadow(home);
	end_close(&movable);
	hub_close(h);
	free(h);
	mesh_root.config.survive = false;
}

/* As many as the program's SRQ takes, wherever they are. */
static void test_full(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct hub *h = calloc(1, sizeof(*h));
	uint32_t i;

	(void)state;
	assert_non_null(h);
	hub_open(h, &bare);
	pair_open(h, 0, &moved);
	pair_open(h, 1, &bare);
	for (i = 0; i < h->end.srq_size; i++)
		assert_int_equal(ibv_post_srq_recv(h->end.srq, &wr, &bad), 0);
	assert_int_equal(ibv_post_srq_recv(h->end.srq, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	/* All of them fit into either. */
	pair_close(h, 0);
	assert_int_equal(ibv_post_srq_recv(h->end.srq, &wr, &bad), ENOMEM);
	pair_open(h, 0, &moved);
	pair_close(h, 1);
	assert_int_equal(ibv_post_srq_recv(h->end.srq, &wr, &bad), ENOMEM);
	hub_close(h);
	free(h);
}

static void reads_last_wqe(const struct end *e)
{
	struct ibv_async_event event;

	assert_true(world_event(&world, &event, 5000));
	assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(event.element.qp, e->qp);
}

/* What a program waits for before it destroys such a QP. */
static void last_wqe(const struct manner *manner)
{
	struct hub *h = calloc(1, sizeof(*h));
	struct end *to;

	assert_non_null(h);
	hub_open(h, &bare);
	post_missing(h, 10);
	pair_open(h, 0, manner);
	pair_send(h, 0);
	take_all(h, &h->pairs[0]);
	to = &h->pairs[0].to;
	end_err(to);
	reads_last_wqe(to);
	hub_close(h);
	free(h);
}

static void test_last_wqe(void **state)
{
	(void)state;
	last_wqe(&bare);
	last_wqe(&moved);
}

/* ---- the same event, of one that is moved while it is at work ---------------------------------------------------- */

#define PSN 0x123u

/* Queue pairs that are connected to themselves, with the hub's SRQ. */
#define MAX_LIVE 3u

struct live {
	struct hub hub;
	uint32_t n;
	struct end ends[MAX_LIVE];
};

static void live_connect(struct end *e)
{
	guarded_rtr(e, &guarded_ops, world_rtr(&world, false, e->qp->qp_num, PSN), &e->held);
	guarded_rts(e, e->held, world_rts(PSN));
}

static struct live *live_open(uint32_t n)
{
	const struct manner noted = {.how = MOVED};
	struct live *l = calloc(1, sizeof(*l));
	uint32_t i;

	assert_non_null(l);
	mesh_root.config.survive = true;
	hub_open(&l->hub, &bare);
	post_missing(&l->hub, 20);
	for (l->n = i = 0; i < n; i++) {
		end_open(&l->ends[i], &world, &noted, &(struct shape){.hub = &l->hub.end});
		l->ends[i].manner = &moved;
		live_connect(&l->ends[i]);
		l->n++;
	}
	return l;
}

/* If an event was not acknowledged, or once too often, destroying its queue pair does not return. */
static void live_close(struct live *l)
{
	uint32_t i;

	for (i = 0; i < l->n; i++)
		end_close(&l->ends[i]);
	hub_close(&l->hub);
	free(l);
	mesh_root.config.survive = false;
}

/* What has been sent arrives, and takes one of the SRQ's receives. */
static void live_works(struct live *l, struct end *e)
{
	uint32_t seen = 0;
	struct ibv_wc wc;

	assert_int_equal(end_send_empty(e, 7, IBV_SEND_SIGNALED), 0);
	while (seen != 3) {
		wc = end_wait(&l->hub.end);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.qp_num, e->qp->qp_num);
		seen |= wc.wr_id == 7 ? 1 : 2;
	}
}

static void live_fence(struct end *e, struct mv_move_sync *sync)
{
	guarded_prepare_loop(e->held, PSN);
	guarded_fence(e->held, true, sync);
}

static void live_move(struct end *e)
{
	struct mv_move_sync sync;

	live_fence(e, &sync);
	assert_int_equal(mesh_live_replay(e->held, sync.next_psn, sync.n_received, 4), 0);
}

/* All that the program gets of a queue pair that it has not brought to ERR. */
static void reads_nothing(void)
{
	struct ibv_async_event event;

	assert_true(world_event(&world, &event, 5000));
	assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(event.element.port_num, 1);
}

static void no_event(void)
{
	struct ibv_async_event event;

	if (world_event(&world, &event, 50))
		fail_msg("%s", ibv_event_type_str(event.event_type));
}

/* A move is not to be seen, and the end that the program makes is as bare. */
static void test_last_wqe_live(void **state)
{
	struct live *l = live_open(1);

	(void)state;
	live_works(l, &l->ends[0]);
	no_event();
	live_move(&l->ends[0]);
	reads_nothing();
	no_event();
	live_works(l, &l->ends[0]);
	end_err(&l->ends[0]);
	reads_last_wqe(&l->ends[0]);
	no_event();
	end_err(&l->ends[0]);
	no_event();
	live_close(l);
}

/* Who reads late gets the one of the move. */
static void test_last_wqe_late(void **state)
{
	struct live *l = live_open(1);

	(void)state;
	live_move(&l->ends[0]);
	end_err(&l->ends[0]);
	reads_last_wqe(&l->ends[0]);
	no_event();
	live_close(l);
}

/* It failed: the program gets errors of it, before or after it has read what the fence made. */
static void test_last_wqe_surfaced(void **state)
{
	struct mv_move_sync sync;
	struct live *l = live_open(2);
	struct ibv_wc wc;

	(void)state;
	live_fence(&l->ends[0], &sync);
	reads_nothing();
	mesh_live_surface(l->ends[0].held);
	reads_last_wqe(&l->ends[0]);
	live_fence(&l->ends[1], &sync);
	mesh_live_surface(l->ends[1].held);
	reads_last_wqe(&l->ends[1]);
	/* They are there, and the program knows. */
	end_err(&l->ends[0]);
	end_err(&l->ends[1]);
	no_event();
	while (end_poll(&l->hub.end, &wc))
		;
	live_close(l);
}

/* The device itself brings it to ERR, and the event comes before the error that is the program's. */
static void test_last_wqe_of_error(void **state)
{
	struct live *l = live_open(1);
	struct end *e = &l->ends[0];
	struct ibv_send_wr wr = {.wr_id = 8, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = 8, .lkey = e->mr->lkey ^ 0x55500};

	(void)state;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	assert_int_equal(end_send(e, &wr), 0);
	reads_nothing();
	no_event();
	assert_int_equal(end_wait(&l->hub.end).status, IBV_WC_LOC_PROT_ERR);
	reads_last_wqe(e);
	end_err(e);
	no_event();
	live_close(l);
}

/* Several at once: each its own. And nothing of one that is destroyed before, though it was brought to ERR. */
static void test_last_wqe_of_many(void **state)
{
	struct live *l = live_open(3);
	uint32_t i;

	(void)state;
	for (i = 0; i < 3; i++)
		live_move(&l->ends[i]);
	for (i = 0; i < 3; i++)
		reads_nothing();
	for (i = 0; i < 3; i++)
		end_err(&l->ends[i]);
	reads_last_wqe(&l->ends[0]);
	end_close(&l->ends[1]);
	reads_last_wqe(&l->ends[2]);
	no_event();
	end_close(&l->ends[0]);
	l->n = 0;
	end_close(&l->ends[2]);
	live_close(l);
}

/* It goes as it is: kept, due, and not read at all. */
static void test_last_wqe_destroyed(void **state)
{
	struct live *l = live_open(3);
	uint32_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		live_move(&l->ends[i]);
		reads_nothing();
	}
	live_move(&l->ends[2]);
	end_err(&l->ends[1]);
	for (i = 0; i < 3; i++)
		end_close(&l->ends[i]);
	l->n = 0;
	reads_nothing(); /* instead of what was on its way */
	no_event();
	live_close(l);
}

/* What a program reads while something of ours is on its device and is going to be destroyed. */
static struct {
	int (*real)(struct ibv_qp *);
	unsigned int n_read;
} destroying;

static int destroy_when_read(struct ibv_qp *qp)
{
	struct ibv_async_event event;
	struct pollfd fd = {.fd = world.context->async_fd, .events = POLLIN};

	if (poll(&fd, 1, 0) == 1) {
		assert_int_equal(ibv_get_async_event(world.context, &event), 0);
		assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE); /* and it need not be acknowledged */
		destroying.n_read++;
	}
	return destroying.real(qp);
}

/* Receives are taken out of the program's SRQ by a queue pair of ours, of which the program does not know. */
static void test_last_wqe_of_ours(void **state)
{
	struct hub *h = calloc(1, sizeof(*h));

	(void)state;
	assert_non_null(h);
	destroying.n_read = 0;
	destroying.real = world.mc->destroy_qp;
	world.mc->destroy_qp = destroy_when_read;
	hub_open(h, &bare);
	post_missing(h, 20);
	pair_open(h, 0, &bare);
	pair_open(h, 1, &moved);
	assert_true(destroying.n_read > 0);
	pair_send(h, 0);
	pair_send(h, 1);
	hub_close(h);
	world.mc->destroy_qp = destroying.real;
	free(h);
}

/* What the next one of the SRQ's receives has. */
static void takes_one(struct hub *h, struct end *e, struct ibv_cq *recv_cq)
{
	struct ibv_wc wc;
	uint32_t ms;
	int n = 0;

	for (ms = 0; !n && ms < 5000; ms++) {
		n = ibv_poll_cq(recv_cq, 1, &wc);
		if (!n)
			usleep(1000);
	}
	assert_int_equal(n, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.qp_num, e->qp->qp_num);
	take_slot(h, &wc);
}

static void sends_one(struct hub *h, struct end *e)
{
	struct ibv_wc wc;

	assert_int_equal(end_send_empty(e, 7, IBV_SEND_SIGNALED), 0);
	wc = end_wait(&h->end);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/*
 * Somebody polls the CQ of the receives, which is not that of the sends, while all the sends are through: what has been received and is
 * still there is not taken once more.
 */
static void test_fence_unpolled(void **state)
{
	const struct manner noted = {.how = MOVED};
	struct hub *h = calloc(1, sizeof(*h));
	struct mv_move_sync sync;
	struct ibv_cq *recv_cq;
	struct mesh_cq *cq;
	struct end e;
	uint32_t i;
	int err;

	(void)state;
	assert_non_null(h);
	mesh_root.config.survive = true;
	hub_open(h, &bare);
	post_missing(h, 20);
	recv_cq = ibv_create_cq(world.context, 256, NULL, NULL, 0);
	assert_non_null(recv_cq);
	end_open(&e, &world, &noted, &(struct shape){.hub = &h->end, .recv_cq = recv_cq});
	live_connect(&e);
	sends_one(h, &e);
	guarded_prepare_loop(e.held, PSN);
	cq = mesh_map_get(&world.mc->data.cqs, recv_cq);
	assert_non_null(cq);
	pthread_mutex_lock(&cq->poll_lock);
	err = mesh_live_fence(e.held, true, &sync);
	for (i = 0; i < 3 && err == -EAGAIN; i++)
		err = mesh_live_fence(e.held, false, &sync);
	pthread_mutex_unlock(&cq->poll_lock);
	for (i = 0; i < 500 && err == -EAGAIN; i++)
		err = mesh_live_fence(e.held, false, &sync);
	assert_int_equal(err, 0);
	assert_int_equal(sync.n_received, 1);
	assert_int_equal(mesh_live_replay(e.held, sync.next_psn, sync.n_received, 4), 0);
	takes_one(h, &e, recv_cq);
	for (i = 1; i < 20; i++) {
		sends_one(h, &e);
		takes_one(h, &e, recv_cq);
	}
	end_close(&e);
	assert_int_equal(ibv_destroy_cq(recv_cq), 0);
	hub_close(h);
	free(h);
	mesh_root.config.survive = false;
}

/* ---- receives that fail ------------------------------------------------------------------------------------------ */

/* Who sends to @to, and whose message ends in its middle: @to has begun to fill a receive. */
static void half_open(struct end *from, struct end *to)
{
	struct ibv_qp_attr rtr = world_rtr(&world, false, to->qp->qp_num, PSN), rts = world_rts(PSN);
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND, .num_sge = 2}, *bad;
	struct ibv_sge halves[2];

	rtr.path_mtu = IBV_MTU_256;
	assert_int_equal(world.mc->modify_qp(from->qp, &rtr, RTR_MASK), 0);
	assert_int_equal(world.mc->modify_qp(from->qp, &rts, RTS_MASK), 0);
	from->qp->state = IBV_QPS_RTS;
	halves[0] = (struct ibv_sge){(uintptr_t)from->buf, SLOT_BYTES, from->mr->lkey};
	halves[1] = (struct ibv_sge){(uintptr_t)from->buf, SLOT_BYTES, ~from->mr->lkey};
	wr.sg_list = halves;
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
	assert_int_equal(end_wait(from).status, IBV_WC_LOC_PROT_ERR);
	end_wait_begun(to, PSN);
}

static void live_takes(struct live *l, struct end *e)
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

static uint32_t n_counted(const struct mesh_srq *srq)
{
	const struct mesh_srq_home *home;
	uint32_t n = srq->base.log.n_left + srq->reserve.log.n_left + srq->pool.n_left + srq->n_kept;

	for (home = srq->shadows; home; home = home->next)
		n += home->log.n_left;
	return n;
}

/* @to is at the base, as are @l's, and about to move. */
static void half_received(struct live *l, struct end *from, struct end *to)
{
	const struct manner noted = {.how = MOVED};
	struct ibv_qp_attr rtr;

	end_open(from, &world, &bare, &(struct shape){.cqe = 64});
	end_open(to, &world, &noted, &(struct shape){.hub = &l->hub.end});
	to->manner = &moved;
	rtr = world_rtr(&world, false, from->qp->qp_num, PSN);
	rtr.path_mtu = IBV_MTU_256;
	guarded_rtr(to, &guarded_ops, rtr, &to->held);
	guarded_rts(to, to->held, world_rts(PSN));
	half_open(from, to);
	guarded_prepare(to->held);
}

/* Somebody stays at the base. All of the SRQ's receives can be had, each once, also that which was being filled at the fence. */
static void begun(bool first_move)
{
	struct live *l = live_open(2);
	struct mv_move_sync sync;
	struct end from, to;
	uint32_t i;

	if (!first_move)
		live_move(&l->ends[0]);
	half_received(l, &from, &to);
	guarded_fence(to.held, true, &sync);
	assert_int_equal(sync.n_received, 0);
	for (i = 0; i < 20; i++)
		live_takes(l, &l->ends[i % 2]);
	for (i = 0; i < SLOTS; i++)
		assert_false(l->hub.posted[i]);
	end_close(&to);
	end_close(&from);
	live_close(l);
}

static void test_begun(void **state)
{
	(void)state;
	begun(true);
	begun(false);
}

/* The fence is not through yet, and the program posts as many as its SRQ takes; then it destroys the queue pair. */
static void test_begun_destroyed(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct live *l = live_open(2);
	struct mv_move_sync sync;
	struct end from, to;
	struct mesh_srq *srq;
	struct ibv_wc wc;
	uint32_t i;

	(void)state;
	live_move(&l->ends[0]);
	half_received(l, &from, &to);
	srq = mesh_srq_find(world.mc, l->hub.end.srq);
	assert_int_equal(mesh_live_fence(to.held, true, &sync), -EAGAIN);
	for (i = 0; i < 5000 && !srq->n_kept; i++) {
		assert_false(end_poll(&l->hub.end, &wc));
		usleep(1000);
	}
	assert_int_equal(srq->n_kept, 1);
	for (i = 20; i < l->hub.end.srq_size; i++)
		assert_int_equal(ibv_post_srq_recv(l->hub.end.srq, &wr, &bad), 0);
	assert_int_equal(ibv_post_srq_recv(l->hub.end.srq, &wr, &bad), ENOMEM);
	end_close(&to);
	assert_int_equal(srq->n_kept, 0);
	assert_int_equal(n_counted(srq), l->hub.end.srq_size);
	end_close(&from);
	live_close(l);
}

enum { ONE_CQ = 0, TWO_CQS = 1, LOST = 2 };

/*
 * A message that is too long for what it is given, of a connection that has moved. @wr_id: of the send, NULL: of the receive, too;
 * LOST: there is no log of sends any more. Return: how many receives count as being somewhere, of 20.
 */
static uint32_t too_long(const uint64_t *wr_id, int how)
{
	const struct manner noted = {.how = MOVED};
	struct live *l = live_open(0);
	struct ibv_cq *recv_cq = how == TWO_CQS ? ibv_create_cq(world.context, 256, NULL, NULL, 0) : NULL;
	struct ibv_sge sge = {(uintptr_t)l->hub.end.buf, 2 * SLOT_BYTES, l->hub.end.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
	struct end *e = &l->ends[0];
	struct mesh_srq *srq;
	struct ibv_wc wc;
	uint32_t i, n = 0;

	end_open(e, &world, &noted, &(struct shape){.hub = &l->hub.end, .recv_cq = recv_cq});
	e->manner = &moved;
	l->n = 1;
	live_connect(e);
	live_move(e);
	srq = mesh_srq_find(world.mc, l->hub.end.srq);
	assert_int_equal(n_counted(srq), 20);
	wr.wr_id = wr_id ? *wr_id : mesh_srqlog_first(&srq->shadows->log)->wr_id;
	if (how == LOST)
		e->held->guard->lost = "a test";
	assert_int_equal(end_send(e, &wr), 0);
	for (i = 0; i < 5000 && n < 2; i++) {
		if (i == 50)
			mesh_live_surface(e->held); /* the send was flushed before, and waits for another path */
		n += (uint32_t)ibv_poll_cq(l->hub.end.cq, 1, &wc);
		n += recv_cq ? (uint32_t)ibv_poll_cq(recv_cq, 1, &wc) : 0;
		usleep(1000);
	}
	assert_int_equal(n, 2);
	n = n_counted(srq);
	end_close(e);
	l->n = 0;
	if (recv_cq)
		assert_int_equal(ibv_destroy_cq(recv_cq), 0);
	live_close(l);
	return n;
}

static void test_too_long(void **state)
{
	const uint64_t seven = 7;

	(void)state;
	assert_int_equal(too_long(&seven, ONE_CQ), 19);
	assert_int_equal(too_long(NULL, TWO_CQS), 19);
	/* Who cannot tell does nothing. */
	assert_int_equal(too_long(NULL, ONE_CQ), 20);
	assert_int_equal(too_long(NULL, LOST), 20);
	assert_int_equal(too_long(&seven, LOST), 20);
}

static int unasked(void *arg, uint32_t rkey, uint32_t *ret)
{
	(void)arg;
	(void)rkey;
	(void)ret;
	fail_msg("it has ended");
	return 0;
}

/* The program has ended it, and posts what never gets a key: that is flushed like others, is in no log, and has the number of a receive. */
static void test_flushed_without_key(void **state)
{
	struct live *l = live_open(1);
	struct end *e = &l->ends[0];
	struct ibv_sge sge = {(uintptr_t)l->hub.end.buf, 8, l->hub.end.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .wr.rdma.rkey = 0x12300};
	const struct mesh_held_ops *ops = e->held->ops;
	struct mesh_held_ops keys = *ops;
	struct mesh_srq *srq;
	struct ibv_wc wc;

	(void)state;
	keys.want_key = unasked;
	live_move(e);
	e->held->ops = &keys;
	end_err(e);
	srq = mesh_srq_find(world.mc, l->hub.end.srq);
	wr.wr_id = mesh_srqlog_first(&srq->shadows->log)->wr_id;
	assert_int_equal(end_send(e, &wr), 0);
	wc = end_wait(&l->hub.end);
	assert_int_equal(wc.wr_id, wr.wr_id);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(n_counted(srq), 20);
	e->held->ops = ops;
	live_close(l);
}

static void churn(uint64_t seed, bool extended)
{
	const struct manner *of[2] = {extended ? &bare_ex : &bare, extended ? &moved_ex : &moved};
	struct hub *h = calloc(1, sizeof(*h));
	uint32_t round, i, in_flight;

	assert_non_null(h);
	hub_open(h, of[0]);
	h->random = seed;
	for (round = 0; round < ROUNDS; round++) {
		i = pick(h, MAX_PAIRS);
		switch (pick(h, 16)) {
		case 0:
			if (!h->pairs[i].open)
				pair_open(h, i, of[pick(h, 2)]);
			break;
		case 1:
			post_missing(h, SLOTS);
			if (h->pairs[i].open)
				pair_close(h, i);
			break;
		case 2:
		case 3:
			post_missing(h, pick(h, 10));
			break;
		case 4:
		case 5:
		case 6:
			while (take_one(h))
				;
			break;
		default:
			for (in_flight = i = 0; i < MAX_PAIRS; i++)
				in_flight += h->pairs[i].sent - h->pairs[i].received;
			i = pick(h, MAX_PAIRS);
			/* All that are on their way find a receive, once there is enough for everybody. */
			if (h->pairs[i].open && in_flight < 6) {
				post_missing(h, SLOTS);
				pair_send(h, i);
			}
		}
	}
	post_missing(h, SLOTS);
	for (i = 0; i < MAX_PAIRS; i++)
		if (h->pairs[i].open)
			take_all(h, &h->pairs[i]);
	hub_close(h);
	free(h);
}

static void test_churn(void **state)
{
	const char *fixed = getenv("SEED");
	uint64_t seed = fixed ? strtoull(fixed, NULL, 0) : (uint64_t)time(NULL), i;

	(void)state;
	for (i = 0; i < (fixed ? 1 : 6); i++) {
		print_message("SEED=%lu\n", seed + i);
		churn(seed + i, (seed + i) & 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_joins, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_late, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_port_down, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_full, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_live, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_late, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_surfaced, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_of_error, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_of_many, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_destroyed, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_last_wqe_of_ours, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_fence_unpolled, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_begun, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_begun_destroyed, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_too_long, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_flushed_without_key, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_churn, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
