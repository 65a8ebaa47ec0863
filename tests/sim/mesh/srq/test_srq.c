// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One SRQ, whose queue pairs are partly moved and partly not: each receive that is posted is consumed once, wherever the
 * message comes from, and the completion names the buffer that has it.
 */
#include <errno.h>
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

#define ROUNDS 400u

static const struct manner bare = {.how = BARE}, moved = {.how = MOVED};
static const struct manner bare_ex = {.how = BARE, .extended = true}, moved_ex = {.how = MOVED, .extended = true};

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

/* One connection cannot leave a port that is down, and what is posted there cannot be taken back: another, that can, has receives. */
static void test_port_down(void **state)
{
	struct hub *h = calloc(1, sizeof(*h));
	struct mesh_rail_srq *rail_srq;
	struct mesh_srq *srq;
	struct end movable;
	uint32_t i;

	(void)state;
	assert_non_null(h);
	set_survive(true);
	hub_open(h, &bare);
	post_missing(h, 40);
	srq = mesh_srq_find(world.mc, h->end.srq);
	assert_non_null(srq);
	pair_open(h, 0, &bare);
	end_open(&movable, &world, &bare, &(struct shape){.hub = &h->end});
	assert_int_equal(srq->reserve.log.n_left, 0);
	assert_int_equal(mesh_srq_join_lower(world.mc, movable.qp, false), 0);
	assert_int_equal(srq->reserve.log.n_left, 10);
	/* All of them can be had, though. */
	for (i = 0; i < 40; i++) {
		pair_send(h, 0);
		take_all(h, &h->pairs[0]);
	}
	assert_int_equal(srq->reserve.log.n_left, 0);
	post_missing(h, 40);
	hub_cable(false, false);
	/* What may wait for what others have: as where it is at work. */
	assert_int_equal(mesh_srq_join_shadow(srq, world.rail, true, &rail_srq), 0);
	pair_open(h, 1, &moved);
	for (i = 0; i < 10; i++)
		pair_send(h, 1);
	take_all(h, &h->pairs[1]);
	hub_cable(false, true);
	for (i = 0; i < 10; i++) {
		pair_send(h, 0);
		pair_send(h, 1);
	}
	pair_close(h, 0);
	pair_close(h, 1);
	mesh_srq_leave_shadow(rail_srq, false);
	end_close(&movable);
	hub_close(h);
	free(h);
	set_survive(false);
}

/* All have left the port that is down, with what was posted; so who is to receive there cannot, until the port is back. */
static void test_joins_port_down(void **state)
{
	struct hub *h = calloc(1, sizeof(*h));
	struct ibv_qp_attr attr;
	struct end late;
	uint32_t i;

	(void)state;
	assert_non_null(h);
	hub_open(h, &bare);
	post_missing(h, 20);
	pair_open(h, 0, &moved);
	pair_send(h, 0);
	take_all(h, &h->pairs[0]);
	hub_cable(false, false);
	end_open(&late, &world, &bare, &(struct shape){.hub = &h->end});
	attr = world_rtr(&world, false, late.qp->qp_num, PSN);
	assert_int_equal(ibv_modify_qp(late.qp, &attr, RTR_MASK), ETIMEDOUT);
	assert_int_equal(late.qp->state, IBV_QPS_INIT);
	/* It costs the others nothing. */
	for (i = 0; i < 10; i++)
		pair_send(h, 0);
	take_all(h, &h->pairs[0]);
	hub_cable(false, true);
	assert_int_equal(ibv_modify_qp(late.qp, &attr, RTR_MASK), 0);
	end_close(&late);
	pair_open(h, 1, &bare);
	for (i = 0; i < 9; i++) {
		post_slot(h, 20 + i);
		pair_send(h, i % 2);
		take_all(h, &h->pairs[i % 2]);
	}
	hub_close(h);
	free(h);
}

/*
 * Receives were consumed before anybody counted them, and the port is down when the first queue pair is to move: it cannot, and
 * nothing changes. Once the port is back it can, and consumed receives are not counted then, either.
 */
static void test_uncounted_port_down(void **state)
{
	struct hub *h = calloc(1, sizeof(*h));
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct mesh_rail_srq *rail_srq;
	struct mesh_srq *srq;
	uint32_t i, n = 0;

	(void)state;
	assert_non_null(h);
	hub_open(h, &bare);
	post_missing(h, 40);
	srq = mesh_srq_find(world.mc, h->end.srq);
	assert_non_null(srq);
	pair_open(h, 0, &bare);
	for (i = 0; i < 10; i++)
		pair_send(h, 0);
	take_all(h, &h->pairs[0]);
	hub_cable(false, false);
	assert_int_equal(mesh_srq_join_shadow(srq, world.rail, false, &rail_srq), -EHOSTUNREACH);
	assert_int_equal(mesh_srq_join_shadow(srq, world.rail, true, &rail_srq), -EHOSTUNREACH);
	assert_false(srq->split);
	hub_cable(false, true);
	for (i = 0; i < 10; i++)
		pair_send(h, 0);
	take_all(h, &h->pairs[0]);
	pair_open(h, 1, &moved);
	post_missing(h, SLOTS);
	for (i = 0; i < 20; i++)
		pair_send(h, i % 2);
	take_all(h, &h->pairs[0]);
	take_all(h, &h->pairs[1]);
	while (!ibv_post_srq_recv(h->end.srq, &wr, &bad))
		n++;
	assert_int_equal(n, h->end.srq_size - (SLOTS - 20));
	hub_close(h);
	free(h);
}

/* How many lines of a file have that text? */
static unsigned int n_lines(const char *path, const char *text)
{
	FILE *file = fopen(path, "r");
	char line[1024];
	unsigned int n = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		n += !!strstr(line, text);
	fclose(file);
	return n;
}

/* As many as the program's SRQ takes, wherever they are. The log says where. */
static void test_full(void **state)
{
	char log[] = "/tmp/test_srq.XXXXXX", there[80];
	int fd = mkstemp(log);
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct hub *h = calloc(1, sizeof(*h));
	uint32_t i;

	(void)state;
	assert_non_null(h);
	assert_true(fd >= 0);
	close(fd);
	hub_open(h, &bare);
	pair_open(h, 0, &moved);
	pair_open(h, 1, &bare);
	for (i = 0; i < h->end.srq_size; i++)
		assert_int_equal(ibv_post_srq_recv(h->end.srq, &wr, &bad), 0);
	mv_log_init(&mesh_root.log, log, MV_LOG_INFO);
	assert_int_equal(ibv_post_srq_recv(h->end.srq, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	snprintf(there, sizeof(there), "%u on 1 other NICs, 0 nowhere yet, 0 withheld while a connection moves", h->end.srq_size / 2);
	assert_int_equal(n_lines(log, there), 1);
	/* Only the first one. */
	assert_int_equal(ibv_post_srq_recv(h->end.srq, &wr, &bad), ENOMEM);
	assert_int_equal(n_lines(log, "it is full; there are "), 1);
	unlink(log);
	/* All of them fit into either. */
	pair_close(h, 0);
	assert_int_equal(ibv_post_srq_recv(h->end.srq, &wr, &bad), ENOMEM);
	pair_open(h, 0, &moved);
	pair_close(h, 1);
	assert_int_equal(ibv_post_srq_recv(h->end.srq, &wr, &bad), ENOMEM);
	hub_close(h);
	free(h);
}

static uint32_t pick(uint64_t *random, uint32_t n)
{
	*random = *random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*random >> 33) % n;
}

static void churn(uint64_t seed, bool extended)
{
	const struct manner *of[2] = {extended ? &bare_ex : &bare, extended ? &moved_ex : &moved};
	struct hub *h = calloc(1, sizeof(*h));
	uint32_t round, i, in_flight;

	assert_non_null(h);
	hub_open(h, of[0]);
	for (round = 0; round < ROUNDS; round++) {
		i = pick(&seed, MAX_PAIRS);
		switch (pick(&seed, 16)) {
		case 0:
			if (!h->pairs[i].open)
				pair_open(h, i, of[pick(&seed, 2)]);
			break;
		case 1:
			post_missing(h, SLOTS);
			if (h->pairs[i].open)
				pair_close(h, i);
			break;
		case 2:
		case 3:
			post_missing(h, pick(&seed, 10));
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
			i = pick(&seed, MAX_PAIRS);
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
		cmocka_unit_test_setup_teardown(test_joins_port_down, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_uncounted_port_down, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_full, world_setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_churn, world_setup, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
