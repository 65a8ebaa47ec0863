/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Between a program's /dev/infiniband/rdma_cm (client.c, in the preloaded library) and the host's
 * connection manager (server.c, in simhostd): an abstract seqpacket socket in the host's network
 * namespace, one connection per open file. The first datagram carries one end of a stream socket
 * pair, whose other end is the program's descriptor: it holds bytes while there are events, so that
 * poll(), epoll and O_NONBLOCK work on it as on the kernel's file. Each datagram after it is a
 * command, answered by one.
 */
#ifndef SIM_CM_PROTO_H
#define SIM_CM_PROTO_H

#include <stdint.h>

#define CM_SOCKET_NAME "\0simhca-rdma_cm" /* with its length: sizeof() - 1 */
#define CM_MAX_IN      1024 /* of a command with what is behind it */
#define CM_MAX_OUT     1024

struct cm_request {
	uint32_t command, in_len, out_len, reserved;
	uint8_t in[CM_MAX_IN];
};

struct cm_reply {
	int32_t err; /* 0 or -errno */
	uint32_t len;
	uint32_t drain; /* no event is left: take a byte off the program's descriptor */
	uint32_t file; /* number of the file, for MIGRATE_ID */
	uint8_t out[CM_MAX_OUT];
};

#define CM_HEAD_BYTES 16 /* of both */

#endif
