/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTS_LIB_MLX5QPC_H
#define TESTS_LIB_MLX5QPC_H

#include <infiniband/mlx5dv.h>
#include <stdint.h>

/* The context that an mlx5 device has of a queue pair, read by DEVX; and the UDP source ports that Linux gives. */

struct qpc {
	unsigned int state; /* as in enum ibv_qp_state, up to RTS */
	unsigned int lag_port, udp_sport;
};

/** qpc_query - Return: 0, or an errno */
static inline int qpc_query(struct ibv_qp *qp, struct qpc *ret)
{
	uint8_t in[16] = {[0] = 0x05, [1] = 0x0b, [9] = (uint8_t)(qp->qp_num >> 16), [10] = (uint8_t)(qp->qp_num >> 8),
			  [11] = (uint8_t)qp->qp_num}; /* QUERY_QP */
	uint8_t out[0x110] = {0};
	int err = mlx5dv_devx_qp_query(qp, in, sizeof(in), out, sizeof(out));

	*ret = (struct qpc){.state = out[24] >> 4, .lag_port = out[24] & 15, .udp_sport = (unsigned int)out[82] << 8 | out[83]};
	return err;
}

static inline unsigned int sport_of_label(uint32_t flow_label)
{
	return 0xc000 | ((flow_label & 0x3fff) ^ (flow_label >> 14));
}

/** sport_of_numbers - of a queue pair whose program has set no flow label */
static inline unsigned int sport_of_numbers(uint32_t qpn, uint32_t peer_qpn)
{
	uint64_t v = (uint64_t)qpn * peer_qpn;

	v ^= v >> 20;
	v ^= v >> 40;
	return sport_of_label(v & 0xfffff);
}

#endif
