/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_KNOWNHOSTS_H
#define UNIT_KNOWNHOSTS_H

#include "unit.h"

#include "agent.h"
#include "peers.h"
#include "pins.h"
#include "tmpdir.h"

/*
 * A table of keys with a directory for its file, and an agent without sockets that meets hosts.
 * Host N has the id peers_id(N). One thread calls these functions; each of them fails the test
 * where something fails.
 */

#define UP "rail mlx5_0; gid 10.1.0.2/24 v2;"

extern struct tmpdir dir;
extern int dir_fd; /* of @dir */
extern struct md_pins pins;
extern const struct md_public one, two;
extern struct md_agent met;

/** pins_setup, pins_teardown - @pins, which is empty; @dir and @dir_fd */
int pins_setup(void **state);
int pins_teardown(void **state);
/** is_pinned - does @pins have @key for the host of that name? */
bool is_pinned(const char *name, const struct md_public *key);

/** meeting_setup, meeting_teardown - @met, without hosts and keys; its rail has netdev 1
 * and 10.1.0.1/24 */
int meeting_setup(void **state);
int meeting_teardown(void **state);
/** show - the host of @peer says that it has @name and the key of @identity, in a statement with
 * its start number */
void show(const struct peer *peer, const char *name, const struct md_identity *identity);
/** vouch_of - what @met knows by host @n's statement, until the host is forgotten; NULL: no
 * statement of the host counts */
const struct md_vouch *vouch_of(unsigned int n);
/** is_trusted - does a statement of host @n count, with a key that is pinned? */
bool is_trusted(unsigned int n);
/** make_lasting, rotate - a key that stays when the agent is started again; the next key of the
 * same host */
void make_lasting(struct md_identity *identity);
void rotate(struct md_identity *identity);

#endif
