/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_RELAY_FIXTURE_H
#define UNIT_RELAY_FIXTURE_H

#include "msg_relay.h"

/*
 * Messages to one destination, 10.1.0.2, which is at the host peers_id(1) and has as many endpoints as the test
 * says. The network is a list, the clock is ours.
 */

#define ALL (MD_PATHS_MAX + 1)

extern struct md_msg_relay relay;
extern uint64_t now;
extern size_t n_endpoints; /* that the destination has */
extern size_t n_netdevs; /* that they are spread over */
extern size_t said_down, cut; /* which of them; none: MD_PATHS_MAX; @said_down: ALL */
extern bool willing; /* to ask */
extern bool bundles; /* does it take them? */
extern unsigned int n_looked, n_asked, n_sent, n_bundled, n_done, n_unreachable;
extern uint64_t last_client, last_id;
extern uint32_t last_qpn;
extern unsigned int sent_to[MD_PATHS_MAX]; /* copies by endpoint */

/* Whom acks are from: @here is the destination. */
extern const struct md_endpoint here, elsewhere, of_another;

/** relay_setup, relay_teardown - of @relay, which is empty at the end, for cmocka */
int relay_setup(void **state);
int relay_teardown(void **state);

/** send_one - a message that says something new, from @client; returns what md_msg_relay_send() does */
int send_one(uint64_t client);
/** send_same - the same that was said last; returns likewise */
int send_same(uint64_t client);
/** run - let time pass, up to @until, in the steps that the relay asks for; returns how many */
unsigned int run(uint64_t until);
/** n_arrived - messages whose ack has come */
unsigned int n_arrived(void);

#endif
