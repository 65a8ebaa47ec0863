// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Ports that a program chooses by functions of libmlx5, which nobody tells the plugin of: the UDP source port of a queue pair's packets,
 * and the port of a bond (LAG) that sends them; docs/parity.md. In host a of the topology devx: both NICs have DEVX, and are bonds.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "mlx5qpc.h"
#include "survive.h"
#include "tracked_fixture.h"
#include "vqp_int.h"

static const struct manner moved = {.how = MOVED};

#define PSN	   5
#define CHOSEN	   0xd123 /* UDP source port */
#define CHOSEN_LAG 2

static struct qpc qpc_of(struct ibv_qp *qp)
{
	struct qpc qpc;

	assert_int_equal(qpc_query(qp, &qpc), 0);
	return qpc;
}

static unsigned int lag_port_of(struct ibv_qp *qp)
{
	uint8_t configured, active;

	assert_int_equal(mlx5dv_query_qp_lag_port(qp, &configured, &active), 0);
	return configured;
}

static struct ibv_qp_attr program_rtr(const struct end *e, uint32_t flow_label)
{
	struct ibv_qp_attr attr = world_rtr(&world, false, e->qp->qp_num, PSN);

	attr.path_mtu = IBV_MTU_512;
	attr.ah_attr.grh.flow_label = flow_label;
	return attr;
}

/* Connected to itself. */
static struct mesh_vqp *open_tracked(struct end *e, uint32_t flow_label)
{
	struct mesh_vqp *h;

	end_open(e, &world, &moved, &(struct shape){0});
	tracked_rtr(e, &tracked_ops, program_rtr(e, flow_label), &h);
	tracked_rts(e, h, world_rts(PSN));
	return h;
}

static void assert_works(struct end *e)
{
	assert_int_equal(end_recv(e, 1, 0, 64), 0);
	assert_int_equal(end_send_empty(e, 2, IBV_SEND_SIGNALED), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(end_wait(e).status, IBV_WC_SUCCESS);
}

/* To itself again, on the other NIC. Return: its LAG port there before it was connected. */
static unsigned int move(struct end *e, struct mesh_vqp *h, uint32_t flow_label)
{
	struct ibv_qp_attr rtr = program_rtr(e, flow_label);
	uint32_t next_qpn = tracked_prepare(h);
	unsigned int lag_port = qpc_of(h->next.shadow.qp).lag_port;
	struct mv_move_sync sync;

	tracked_connect_next(h, &rtr, world_rts(PSN), next_qpn);
	tracked_drain(h, true, &sync);
	assert_int_equal(mesh_failover_replay(h, sync.next_psn, sync.n_received, 4, NULL), 0);
	return lag_port;
}

/* The program's own queue pair does no work. libmlx5 does not know that, and the firmware refuses. */
static void assert_refuses(struct end *e)
{
	int errs[2];

	assert_int_equal(e->qp->state, IBV_QPS_RTS);
	errs[0] = mlx5dv_modify_qp_udp_sport(e->qp, CHOSEN);
	errs[1] = mlx5dv_modify_qp_lag_port(e->qp, CHOSEN_LAG);
	for (int i = 0; i < 2; i++)
		assert_true(errs[i] == EINVAL || errs[i] == EREMOTEIO); /* before rdma-core 40 */
}

static void close_tracked(struct end *e, struct mesh_vqp *h)
{
	mesh_vqp_destroy(h);
	end_close(e);
}

/* The next queue pair has the port that Linux gives: that of the program's flow label, as the first one had, or that of its numbers. */
static void test_udp_source_port(void **state)
{
	static const uint32_t labels[] = {0x54321, 0};
	struct mesh_vqp *h;
	struct end e;
	uint32_t qpn;

	(void)state;
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		h = open_tracked(&e, labels[i]);
		qpn = e.qp->qp_num;
		assert_int_equal(qpc_of(e.qp).udp_sport, labels[i] ? sport_of_label(labels[i]) : sport_of_numbers(qpn, qpn));
		assert_int_equal(mlx5dv_modify_qp_udp_sport(e.qp, CHOSEN), 0);
		assert_int_equal(qpc_of(e.qp).udp_sport, CHOSEN);
		assert_works(&e);
		move(&e, h, labels[i]);
		qpn = h->now.qp->qp_num;
		assert_int_equal(qpc_of(h->now.qp).udp_sport, labels[i] ? sport_of_label(labels[i]) : sport_of_numbers(qpn, qpn));
		assert_works(&e);
		assert_refuses(&e);
		assert_works(&e);
		close_tracked(&e, h);
	}
}

/* The next NIC's driver gives its ports in turn, whatever the program has chosen on its own NIC. */
static void test_lag_port(void **state)
{
	unsigned int given, seen = 0;
	struct mesh_vqp *h;
	struct end e;

	(void)state;
	for (int i = 0; i < 2; i++) {
		h = open_tracked(&e, 0);
		assert_int_equal(mlx5dv_modify_qp_lag_port(e.qp, CHOSEN_LAG), 0);
		assert_int_equal(lag_port_of(e.qp), CHOSEN_LAG);
		given = move(&e, h, 0);
		assert_int_equal(lag_port_of(h->now.qp), given);
		seen |= 1u << given;
		assert_works(&e);
		assert_refuses(&e);
		assert_int_equal(lag_port_of(e.qp), CHOSEN_LAG); /* of a queue pair that sends nothing */
		close_tracked(&e, h);
	}
	assert_int_equal(seen, 1 << 1 | 1 << 2);
}

/* A connection that gets another NIC when it is made. */
static void test_made_elsewhere(void **state)
{
	const struct shape shape = {0};
	struct end a, b;

	(void)state;
	end_open(&a, &world, &moved, &shape);
	end_open(&b, &world, &moved, &shape);
	ends_connect(&a, &b, &shape);
	assert_refuses(&a);
	assert_int_equal(end_recv(&b, 1, 0, 64), 0);
	assert_int_equal(end_send_empty(&a, 2, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_wait(&a).status, IBV_WC_SUCCESS);
	assert_int_equal(end_wait(&b).status, IBV_WC_SUCCESS);
	end_close(&a);
	end_close(&b);
}

static int setup(void **state)
{
	world_setup(state);
	set_survive(true);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
		T(test_udp_source_port),
		T(test_lag_port),
		T(test_made_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
