/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the two halves of an HCA's network have in common: net.c receives, net_out.c sends. All of it under hca->lock. */
#ifndef SIM_NET_INT_H
#define SIM_NET_INT_H

#include <linux/if_ether.h>

#include "burst.h"
#include "hca.h"

#define N_PROTO     3
#define MAX_NETDEVS 64
#define TX_BATCH    64

static const uint16_t protos[N_PROTO] = {ETH_P_IP, ETH_P_IPV6, WIRE_ETHERTYPE_V1};

struct ndev {
	uint32_t ifindex;
	int fds[N_PROTO];
};

/* A frame on its way out. */
struct outbound {
	int fd;
	size_t len, max_burst; /* bytes; the second: of a burst that it is the first of */
	uint8_t length[BURST_LENGTH]; /* in front of it if it is one of a burst */
};

struct net {
	int epoll;
	int quiet[2]; /* UDP sockets that keep the kernel from answering "port unreachable" */
	uint32_t lo;
	struct ndev ndevs[MAX_NETDEVS];
	uint32_t n_ndevs;
	uint32_t n_out;
	struct outbound outbound[TX_BATCH];
	uint8_t heads[TX_BATCH][BURST_HEAD_MAX];
	uint8_t out[TX_BATCH][WIRE_MAX_FRAME + 2] __attribute__((aligned(16)));
	uint8_t in[NET_RX_BATCH][WIRE_MAX_FRAME + 64] __attribute__((aligned(16)));
};

/** ndev_find() - Return: the netdev, NULL if there are no sockets on it. */
struct ndev *ndev_find(struct net *n, uint32_t ifindex);

#endif
