/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * DEVX, as far as the simulated HCA has it: what libmlx5's functions for the UDP source port and the LAG port of a queue pair do to
 * its packets and its context. Runs in host a of the topology devx, whose mlx5_0 has DEVX and whose mlx5_2 has not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "mlx5qpc.h"
#include "pair.h"

#define ROCE_PORT  4791
#define ANY_PORT   0xd123
#define OTHER_PORT 0xd124

static void open_pair(struct pair *p)
{
	pair_open(p, &(struct options){.device = "mlx5_0"});
}

/* ---- UDP source port ------------------------------------------------------------------------------ */

/* Packets to a queue pair of the same port take the loopback netdev. */
static int listen_on_loopback(void)
{
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)if_nametoindex("lo")};
	int fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* The next packet to that queue pair: IPv4 without options, UDP, BTH. */
static unsigned int sport_of_packet(int fd, uint32_t qpn)
{
	struct timeval patience = {.tv_sec = 60};
	uint8_t p[2048];
	ssize_t n;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	do {
		n = recv(fd, p, sizeof(p), 0);
		assert_true(n >= 0);
	} while (n < 40 || p[9] != IPPROTO_UDP || (p[22] << 8 | p[23]) != ROCE_PORT ||
		 ((uint32_t)p[33] << 16 | (uint32_t)p[34] << 8 | p[35]) != qpn);
	return (unsigned int)p[20] << 8 | p[21];
}

static void assert_sport(struct pair *p, unsigned int sport)
{
	int fd = listen_on_loopback();
	struct qpc qpc;

	post_recv(p, 1, 0, 64);
	assert_int_equal(post_send(p, 1, IBV_WR_SEND, 64, IBV_SEND_SIGNALED), 0);
	assert_int_equal(wait_wc(p->a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(wait_wc(p->b.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(sport_of_packet(fd, p->b.qp->qp_num), sport);
	close(fd);
	assert_int_equal(qpc_query(p->a.qp, &qpc), 0);
	assert_int_equal(qpc.udp_sport, sport);
	assert_int_equal(qpc.state, IBV_QPS_RTS);
}

static void udp_sport(void **state)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = 5};
	struct pair p;

	(void)state;
	open_pair(&p);
	assert_sport(&p, sport_of_numbers(p.a.qp->qp_num, p.b.qp->qp_num));
	assert_int_equal(mlx5dv_modify_qp_udp_sport(p.a.qp, ANY_PORT), 0);
	assert_sport(&p, ANY_PORT);
	/* What leaves the address vector as it is leaves the port as it is. */
	assert_int_equal(ibv_modify_qp(p.a.qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
	assert_sport(&p, ANY_PORT);
	assert_int_equal(mlx5dv_modify_qp_udp_sport(p.a.qp, OTHER_PORT), 0);
	assert_sport(&p, OTHER_PORT);
	pair_close(&p);
}

/* ---- LAG port --------------------------------------------------------------------------------------- */

static unsigned int lag_port_of(struct ibv_qp *qp)
{
	uint8_t configured, active;
	struct qpc qpc;

	assert_int_equal(mlx5dv_query_qp_lag_port(qp, &configured, &active), 0);
	assert_int_equal(active, configured);
	assert_int_equal(qpc_query(qp, &qpc), 0);
	assert_int_equal(qpc.lag_port, configured);
	return configured;
}

static void lag_port(void **state)
{
	struct mlx5dv_context caps = {.comp_mask = MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS};
	struct pair p;
	int err;

	(void)state;
	open_pair(&p);
	assert_int_equal(mlx5dv_query_device(p.ctx, &caps), 0);
	assert_int_equal(caps.num_lag_ports, 2);
	/* The driver gives the ports in turn. */
	assert_int_equal(lag_port_of(p.a.qp) + lag_port_of(p.b.qp), 3);
	for (uint8_t port = 1; port <= 2; port++) {
		assert_int_equal(mlx5dv_modify_qp_lag_port(p.a.qp, port), 0);
		assert_int_equal(lag_port_of(p.a.qp), port);
	}
	err = mlx5dv_modify_qp_lag_port(p.a.qp, 3);
	assert_true(err == EINVAL || err == EREMOTEIO); /* before rdma-core 40 */
	assert_int_equal(lag_port_of(p.a.qp), 2);
	pair_close(&p);
}

/* ---- refusals ----------------------------------------------------------------------------------------- */

/* libmlx5 itself sends no such command. Return: the errno; the status of the firmware, if it was asked. */
static int give_udp_sport(struct ibv_qp *qp, uint32_t qpn, uint8_t *ret_status)
{
	uint8_t in[0x1d0] = {[0] = 0x05,  [1] = 0x05, /* RTS2RTS_QP */
			     [9] = (uint8_t)(qpn >> 16),  [10] = (uint8_t)(qpn >> 8),
			     [11] = (uint8_t)qpn,	  [82] = 0xd1,
			     [0x10f] = 4 /* UDP source port */};
	uint8_t out[16] = {0};
	int err = mlx5dv_devx_qp_modify(qp, in, sizeof(in), out, sizeof(out));

	*ret_status = out[0];
	return err;
}

static void refused(void **state)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	uint8_t in[16] = {[0] = 0x07}, out[16] = {0}, status;
	struct pair p;

	(void)state;
	open_pair(&p);
	assert_int_equal(give_udp_sport(p.a.qp, p.a.qp->qp_num, &status), 0);
	assert_int_equal(give_udp_sport(p.a.qp, p.b.qp->qp_num, &status), EINVAL);
	assert_int_equal(mlx5dv_devx_qp_modify(p.a.qp, in, sizeof(in), out, sizeof(out)), EINVAL);
	assert_int_equal(ibv_modify_qp(p.a.qp, &err, IBV_QP_STATE), 0);
	assert_int_equal(give_udp_sport(p.a.qp, p.a.qp->qp_num, &status), EREMOTEIO);
	assert_int_equal(status, 0x10); /* the state of the queue pair */
	assert_int_equal(mlx5dv_modify_qp_udp_sport(p.a.qp, ANY_PORT), EOPNOTSUPP);
	pair_close(&p);
}

static void without(void **state)
{
	struct mlx5dv_context_attr devx = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	uint8_t configured, active;
	struct qpc qpc;
	struct pair p;

	(void)state;
	pair_open(&p, &(struct options){.device = "mlx5_2"});
	assert_null(mlx5dv_open_device(p.ctx->device, &devx));
	assert_int_equal(qpc_query(p.a.qp, &qpc), EINVAL);
	assert_int_equal(mlx5dv_modify_qp_udp_sport(p.a.qp, ANY_PORT), EOPNOTSUPP);
	assert_int_equal(mlx5dv_query_qp_lag_port(p.a.qp, &configured, &active), EOPNOTSUPP);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(udp_sport),
		cmocka_unit_test(lag_port),
		cmocka_unit_test(refused),
		cmocka_unit_test(without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
