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
/** add_host - host @n is heard on that net, and may be sent to; all hosts have the same GID */
struct md_host *add_host(unsigned int n);
/** add_holder - host @n is heard on that net, and holds a GID of its own */
struct md_host *add_holder(unsigned int n);

#endif
