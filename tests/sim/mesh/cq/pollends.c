// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "pollends.h"
#include "survive.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct end hub; /* has the CQ; its own QP is not used */
struct end tracked; /* connected to itself, may be moved */
struct end bare; /* connected to itself, not ours */
struct end from, to; /* moved; @from on the hub's CQ */

const struct manner bare_ex = {.how = BARE, .extended = true}, moved_ex = {.how = MOVED, .extended = true};
const struct manner bare_plain = {.how = BARE}, moved_plain = {.how = MOVED};

int setup(void **state)
{
	world_setup(state);
	set_survive(true);
	return 0;
}

void close_end(struct end *e)
{
	if (e->mr)
		end_close(e);
	memset(e, 0, sizeof(*e));
}

/* A test that failed may have left a poll open. libmlx5 waits for the end of that poll for ever when a queue pair is destroyed. */
static void end_open_poll(void)
{
	struct mesh_cq *cq = hub.cq_ex ? mesh_map_get(&world.mc->data.cqs, hub.cq) : NULL;

	if (cq && mesh_cq_is_own_poll(cq))
		ibv_end_poll(hub.cq_ex);
}

int teardown(void **state)
{
	alarm(PATIENCE_S);
	end_open_poll();
	close_end(&tracked);
	close_end(&bare);
	close_end(&from);
	close_end(&to);
	close_end(&hub);
	set_survive(false);
	world_teardown(state);
	alarm(0);
	return 0;
}

struct mesh_cq *cq_of_hub(void)
{
	struct mesh_cq *cq = mesh_map_get(&world.mc->data.cqs, hub.cq);

	assert_non_null(cq);
	return cq;
}

void open_hub(const struct manner *manner, const struct shape *shape)
{
	end_open(&hub, &world, manner, shape);
}

void open_tracked(const struct manner *manner, uint32_t max_wr)
{
	end_open(&tracked, &world, manner, &(struct shape){.hub = &hub, .max_wr = max_wr});
	tracked_rtr(&tracked, &tracked_ops, world_rtr(&world, false, tracked.qp->qp_num, PSN), &tracked.vqp);
	tracked_rts(&tracked, tracked.vqp, world_rts(PSN));
}

void open_bare(const struct manner *manner)
{
	const struct shape shape = {.hub = &hub};

	end_open(&bare, &world, manner, &shape);
	end_rtr(&bare, &bare, &shape);
	end_rts(&bare, &shape);
}

void open_moved(void)
{
	end_open(&from, &world, &moved_ex, &(struct shape){.hub = &hub});
	end_open(&to, &world, &moved_plain, &(struct shape){0});
	ends_connect(&from, &to, &(struct shape){0});
}

void write_nothing(struct end *e, const struct end *peer, uint64_t wr_id)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = (uintptr_t)peer->buf, .rkey = peer->mr->rkey}};

	assert_int_equal(end_send(e, &wr), 0);
}

void start_poll(uint64_t wr_id)
{
	struct ibv_poll_cq_attr attr = {0};
	unsigned int i;
	int err = ENOENT;

	for (i = 0; err == ENOENT && i < PATIENCE_S * 1000; i++) {
		err = ibv_start_poll(hub.cq_ex, &attr);
		if (err)
			usleep(1000);
	}
	assert_int_equal(err, 0);
	assert_int_equal(hub.cq_ex->wr_id, wr_id);
}

void end_poll_ex(void)
{
	assert_int_equal(ibv_next_poll(hub.cq_ex), ENOENT);
	ibv_end_poll(hub.cq_ex);
	alarm(0);
}

int in_a_thread(void *(*fn)(void *arg))
{
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, fn, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	return (int)(intptr_t)result;
}

struct mv_move_sync sync_of_drain;

void *drain_elsewhere(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)mesh_failover_drain(tracked.vqp, true, &sync_of_drain);
}

void *wait_elsewhere(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)mesh_failover_waits(tracked.vqp);
}

uint64_t n_given, n_received; /* so many of @tracked's sends have been flushed, in order; and of its receives */

void given(uint64_t wr_id, enum ibv_wc_status status)
{
	assert_int_equal(status, IBV_WC_WR_FLUSH_ERR);
	if (wr_id == RECEIVE)
		n_received++;
	else
		assert_int_equal(wr_id, n_given++);
}

uint64_t open_full(void)
{
	uint64_t n = 0;

	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_tracked(&moved_ex, 0);
	open_bare(&bare_ex);
	tracked_prepare(tracked.vqp);
	while (!end_send_empty(&tracked, n, IBV_SEND_SIGNALED))
		n++;
	write_nothing(&bare, &bare, 2);
	start_poll(2);
	alarm(PATIENCE_S);
	return n;
}
