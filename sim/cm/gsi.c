/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "gsi.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fault_match.h"
#include "wire.h"

#define GSI_QPN     1
#define GSI_QKEY    0x80010000u
#define GSI_SPORT   0xc000
#define HOP_LIMIT   64
#define MAX_PACKETS 64 /* per call */

/* Accept UDP to the RoCE port whose BTH names queue pair 1. */
static int attach_filter(int fd, bool v6)
{
	struct sock_filter v4[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 9),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 9),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 6),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 7, 0),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + 2),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WIRE_UDP_PORT, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_IND, 14 + 8 + 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, GSI_QPN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0xffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_filter six[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 6),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 6),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 40 + 2),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WIRE_UDP_PORT, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 14 + 40 + 8 + 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffffff),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, GSI_QPN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0xffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog prog = {.len = sizeof(v4) / sizeof(v4[0]), .filter = v4};

	if (v6)
		prog = (struct sock_fprog){.len = sizeof(six) / sizeof(six[0]), .filter = six};
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

static int open_socket(bool v6)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(v6 ? ETH_P_IPV6 : ETH_P_IP)};
	/* Protocol 0: nothing is received before the filter is there and bind() names it. */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (attach_filter(fd, v6) || bind(fd, (struct sockaddr *)&ll, sizeof(ll))) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

int gsi_open(struct gsi *g)
{
	g->lo = if_nametoindex("lo");
	for (int i = 0; i < 2; i++) {
		g->fds[i] = open_socket(i);
		if (g->fds[i] < 0)
			return g->fds[i];
	}
	return 0;
}

void gsi_close(struct gsi *g)
{
	for (int i = 0; i < 2; i++)
		if (g->fds[i] >= 0)
			close(g->fds[i]);
}

static bool port_works(struct sim_state *st, const struct cm_path *p)
{
	struct sim_dev *dev = &st->devs[p->dev];

	return dev->ports[p->port - 1].state == SIM_PORT_ACTIVE && !atomic_load(&dev->dead);
}

/* Delays are for queue pairs: a MAD is lost, damaged, or comes twice. */
static enum sim_fault_action fault(struct sim_state *st, uint8_t dir, const struct cm_path *p)
{
	uint32_t delay_us;

	return fault_match(st, dir, p->dev, p->port, GSI_QPN, OP_UD | OP_SEND_ONLY, 0, &delay_us);
}

void gsi_send(struct gsi *g, struct sim_state *st, const struct cm_path *path, const uint8_t *mad)
{
	struct wire_path w = {.v1 = path->v1,
			      .traffic_class = path->traffic_class,
			      .hop_limit = path->slid ? HOP_LIMIT : path->hop_limit,
			      .flow_label = path->flow_label,
			      .udp_sport = GSI_SPORT};
	struct wire_packet p = {.opcode = OP_UD | OP_SEND_ONLY,
				.pkey = 0xffff,
				.dest_qpn = GSI_QPN,
				.psn = g->psn++ & 0xffffff,
				.qkey = GSI_QKEY,
				.src_qpn = GSI_QPN,
				.payload_len = MAD_BYTES};
	struct sockaddr_ll to = {.sll_family = AF_PACKET};
	const uint8_t *src, *dst;
	uint8_t frame[WIRE_MAX_FRAME];
	enum sim_fault_action action;
	size_t len;

	if (!port_works(st, path) || !path_addrs(st, path, &src, &dst))
		return;
	memcpy(w.smac, path->smac, 6);
	memcpy(w.dmac, path->dmac, 6);
	memcpy(w.sgid, src, 16);
	memcpy(w.dgid, dst, 16);
	wire_begin(frame, &w, &p);
	memcpy(p.payload, mad, MAD_BYTES);
	len = wire_finish(frame, &w, &p);
	action = fault(st, SIM_FAULT_TX, path);
	if (action == SIM_FAULT_DROP)
		return;
	if (action == SIM_FAULT_CORRUPT)
		frame[len - 5] ^= 1;
	to.sll_ifindex = (int)(memcmp(path->smac, path->dmac, 6) ? path->ifindex : g->lo);
	for (int n = action == SIM_FAULT_DUPLICATE ? 2 : 1; n; n--)
		(void)!sendto(g->fds[memcmp(dst, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) != 0],
			      frame, len, 0, (struct sockaddr *)&to, sizeof(to));
}

/* The path back to the sender of a packet that came in through @ifindex. */
static bool path_back(struct gsi *g, struct cm *cm, const struct wire_packet *p, uint32_t ifindex,
		      struct cm_path *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (!dev_of_addr(cm, p->dgid, ifindex == g->lo ? 0 : ifindex, ret) ||
	    !port_works(cm->state, ret) || path_to(cm, p->sgid, ret))
		return false;
	memcpy(ret->dmac, p->smac, 6);
	ret->hop_limit = HOP_LIMIT;
	return true;
}

void gsi_receive(struct gsi *g, struct cm *cm, int fd)
{
	for (int i = 0; i < MAX_PACKETS; i++) {
		uint8_t frame[WIRE_MAX_FRAME];
		struct sockaddr_ll from;
		socklen_t from_len = sizeof(from);
		struct wire_packet p;
		struct cm_path back;
		ssize_t n = recvfrom(fd, frame, sizeof(frame), MSG_DONTWAIT,
				     (struct sockaddr *)&from, &from_len);
		enum sim_fault_action action;

		if (n < 0)
			return;
		if (from.sll_pkttype == PACKET_OUTGOING || wire_decode(frame, (size_t)n, &p) ||
		    p.opcode != (OP_UD | OP_SEND_ONLY) || p.qkey != GSI_QKEY ||
		    !path_back(g, cm, &p, (uint32_t)from.sll_ifindex, &back))
			continue;
		action = fault(cm->state, SIM_FAULT_RX, &back);
		if (action == SIM_FAULT_DROP || action == SIM_FAULT_CORRUPT)
			continue;
		for (int k = action == SIM_FAULT_DUPLICATE ? 2 : 1; k; k--)
			cm_receive(cm, &back, p.payload, p.payload_len);
	}
}
