/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_FORGED_H
#define UNIT_FORGED_H

#include "unit.h"

#include "agent.h"

/*
 * An agent without sockets, and a neighbour who sends in any host's name, from any address. Link with --wrap=md_now,
 * md_udp_receive, md_udp_send, md_udp_waiting.
 */

#define NET  1 /* our netdev */
#define DESC "rail mlx5_0; gid 10.1.0.2/24 v2;"

extern struct md_agent agent;
extern struct md_secure *forger; /* makes datagrams, under any id */
extern uint64_t clock_ns; /* md_now() */

/* What is sent to single addresses. */
struct sent {
	size_t n, bytes, of_kind[MD_KIND_END], of_net[3];
	size_t longest;
	uint8_t last[MD_DATAGRAM_MAX_BYTES];
	size_t last_len;
};
extern struct sent sent;
extern size_t came_bytes;
extern unsigned int waiting_pct; /* of the send buffer, in use */

/* The datagram that arrives next. */
extern struct md_received next;
extern bool is_next;
extern uint32_t arrives_on; /* netdev */
extern uint16_t from_rail;
extern uint64_t generation;

/** begin - @n_heard: hosts on our link; where there are many, newcomers are greeted one by one */
void begin(const char *name, size_t n_heard);
void end(void);
void use_two_links(void);
struct in6_addr address(uint32_t n);
/** arrive - a datagram of the host @n from the address @at arrives on our link */
void arrive(enum md_kind kind, unsigned int n, uint32_t at, bool multicast, const void *payload, size_t len);
/** beacon, beacon_on - @desc: NULL: without the description */
void beacon(unsigned int n, uint32_t at, const char *desc);
void beacon_on(uint32_t ifindex, unsigned int n, uint32_t at, const char *desc);
void statement(unsigned int n, uint32_t at, bool asks, bool multicast);

#endif
