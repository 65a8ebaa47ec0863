/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_UDNICS_H
#define UNIT_UDNICS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "udint.h"

/* NICs, an agent and a peer for datagrams over another rail: verbs, the view of the directory and messages are made up here. */

#define SECOND_NS  1000000000ull
#define REFRESH_NS (6 * SECOND_NS) /* more than it takes until a peer in use is asked again */
#define N_RAILS	   3u
#define QPN	   0x40u
#define PEER_QPN   0x50u
#define PATH_QPN   0x60u /* of the peer's outlets */
#define QKEY	   0x1234u

struct fake_rail {
	struct mesh_rail rail;
	struct ibv_context context;
	bool bare; /* has no addresses */
	bool shut; /* cannot be opened, or is not in the directory */
	struct ibv_wc wc; /* to be polled */
	bool has_wc;
};

extern struct fake_rail rails[N_RAILS];
extern unsigned int n_objects, n_qps; /* there; ever made */
extern uint64_t now_ns;

/* What was posted last, and how many in all. */
struct sent {
	unsigned int n;
	uint32_t from, to;
};

extern struct sent sent;

extern bool silent; /* the neighbours, on rails other than the program's */
extern unsigned int n_waited;

extern const struct mv_host_id host_b, host_c;
extern const struct mv_host_id no_host;
extern struct mv_host_id last_host; /* that paths were looked for to; zero: any */
extern enum mesh_holder holder; /* what the directory says of the peer's GID, and the host it was met on */
extern unsigned int n_holders; /* of the peer's GID */
extern bool c_has_it; /* host c has the GID, too */
extern union ibv_gid doubted; /* this address is in doubt */
extern bool apart; /* no two addresses are joined */
extern struct mv_ctl_msg asked; /* last */
extern unsigned int n_asked;

union ibv_gid gid(unsigned int rail, unsigned int host);

extern struct mesh_ud_qp u;

/* The paths by these rails, the best first; a number too many ends them. */
void paths(enum mv_path_verdict verdict, unsigned int first, unsigned int second);
struct mesh_ud_peer *new_peer(void);

/* A datagram of the program's, by the relay. Return: whether it went on; sent.from says from where. */
bool talk(const struct mesh_ud_peer *peer);

/* By which rail did the last question want to go? */
unsigned int asked_rail(void);
void answer(enum mv_ctl_reason reason);
void ready_by(struct mesh_ud_peer *peer, unsigned int rail);

/* Until it is asked again, in use. */
void go_on(struct mesh_ud_peer *peer);
int setup(void **state);
int teardown(void **state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
