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
#define REFRESH_NS (6 * SECOND_NS) /* a peer in use is asked again sooner */
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
	bool infiniband, no_pkey;
	uint16_t lid;
	struct ibv_ah_attr ah; /* of the last handle made there */
	struct ibv_wc wc; /* to be polled */
	bool has_wc;
	unsigned int n_flood; /* how many more of them come at once */
};

extern struct fake_rail rails[N_RAILS];
extern unsigned int n_objects, n_qps; /* objects that exist; QPs ever made */
extern uint64_t now_ns;

/* The last datagram posted; n: all of them. */
struct sent {
	unsigned int n;
	uint32_t from, to;
};

extern struct sent sent;
extern uint16_t pkey_shift; /* how much further on another port has a P_Key in its table */
extern uint16_t last_pkey_index; /* of the last QP that was brought to INIT */

extern bool silent; /* neighbours on rails other than the program's do not answer */
extern bool mute; /* no handle can be made, and errno does not say why */
extern unsigned int n_waited;
extern uint64_t search_ns; /* how long a search for an address takes on a NIC that has none */
extern unsigned int n_lines; /* of the log, but for debugging */

extern const struct mv_host_id host_b, host_c;
extern const struct mv_host_id no_host;
extern bool by_links; /* of the last request for paths */
extern struct mv_host_id last_host; /* the host that paths were last looked up for; zero: any */
extern enum mesh_holder holder; /* the directory: does the host that the peer was met on hold the peer's GID? */
extern unsigned int n_holders; /* of the peer's GID */
extern bool c_has_it; /* host c has the peer's GID, too */
extern union ibv_gid doubted; /* this address is in doubt */
extern bool apart; /* no two addresses are joined */
extern struct mv_ctl_msg asked; /* the last question */
extern unsigned int n_asked;

union ibv_gid gid(unsigned int rail, unsigned int host);

extern struct mesh_ud_qp u;

/** paths - the directory has paths by these rails, the best first; N_RAILS: no more */
void paths(enum mv_path_verdict verdict, unsigned int first, unsigned int second);
struct mesh_ud_peer *new_peer(void);
/** infiniband - all rails are of InfiniBand, with LIDs 0x10, 0x11, ... */
void infiniband(void);
/** talk - the program's datagram goes through the relay; returns: it was sent on, by sent.from */
bool talk(const struct mesh_ud_peer *peer);
/** asked_rail - returns the rail of the last question */
unsigned int asked_rail(void);
void answer(enum mv_ctl_reason reason);
void ready_by(struct mesh_ud_peer *peer, unsigned int rail);
/** go_on - the peer is in use until it is asked again */
void go_on(struct mesh_ud_peer *peer);
int setup(void **state);
int teardown(void **state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
