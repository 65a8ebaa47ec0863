/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Queue pair 1 of all RoCE ports of the host: MADs in RoCE v2 datagrams, on packet sockets. */
#ifndef SIM_CM_GSI_H
#define SIM_CM_GSI_H

#include "cm.h"

struct gsi {
	int fds[2]; /* IPv4, IPv6 */
	uint32_t lo;
	uint32_t psn;
};

/** gsi_open() - Return: 0 or -errno of the sockets. */
int gsi_open(struct gsi *g);

/** gsi_close() - also of one that was not opened, if its descriptors are -1. */
void gsi_close(struct gsi *g);

/** gsi_send() - a MAD of MAD_BYTES along @path, if port and faults let it. */
void gsi_send(struct gsi *g, struct sim_state *st, const struct cm_path *path, const uint8_t *mad);

/** gsi_receive() - hand what has arrived at @fd, one of the two, to cm_receive(). */
void gsi_receive(struct gsi *g, struct cm *cm, int fd);

#endif
