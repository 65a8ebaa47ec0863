/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_ONEAGENT_H
#define UNIT_ONEAGENT_H

#include "unit.h"

#include "agent.h"

/* An agent without sockets, as the functions of exchange/ take it. Link with --wrap=md_now. */

enum { MALLORY = 1000, VICTIM }; /* accounts */

extern struct md_agent agent;
extern uint64_t clock_ns; /* md_now(); stands still, so that nothing is granted meanwhile */

/** begin_agent, end_agent - @agent with one net, and an address there; without hosts */
void begin_agent(void);
void end_agent(void);
/** setup_agent, teardown_agent - the same, of each test */
int setup_agent(void **state);
int teardown_agent(void **state);
/** add_host - host @n is heard on that net, and may be sent to; all hosts have the same GID */
struct md_host *add_host(unsigned int n);
/** add_holder - host @n is heard on that net, and holds a GID of its own */
struct md_host *add_holder(unsigned int n);

/** make_bundle - writes a bundle of @n messages that are none; returns its bytes. What is counted
 * as malformed was looked at. */
size_t make_bundle(uint8_t *buf, unsigned int n);
/** from_host - what comes from where the host is heard */
void from_host(const struct md_host *host, struct md_received *received, struct md_opened *opened);
/** is_taken - is a bundle taken, or dropped because there are too many? */
bool is_taken(const struct md_received *received, const struct md_opened *opened);
/** is_answered - is one more question of that host answered? */
bool is_answered(const struct md_host *host, uint32_t group);
/** n_datagrams - returns how many were sent, also in vain, or are held */
uint64_t n_datagrams(void);

extern uint64_t last_id; /* of takes_message() */

/** takes - message @id of QP 5 of @host to our QP @qpn; return: false: it was dropped because there
 * are too many */
bool takes(const struct md_host *host, uint32_t ifindex, uint32_t qpn, uint32_t to_attempt,
	   uint64_t id);
/** takes_message - the same with the next id */
bool takes_message(const struct md_host *host, uint32_t ifindex, uint32_t qpn, uint32_t to_attempt);

#endif
