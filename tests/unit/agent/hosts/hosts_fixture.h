/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_HOSTS_FIXTURE_H
#define UNIT_HOSTS_FIXTURE_H

#include "unit.h"

#include "gidmap.h"
#include "peers.h"

/*
 * The table of hosts, and addresses that are asked. Host N has the id peers_id(N). One thread
 * calls these functions. Times are in nanoseconds of a clock that is the test's.
 */

extern struct md_targets targets;
extern unsigned int n_asked; /* queries by ask() */

/** reset_targets, free_targets - @targets without any; the latter looks whether any is left */
int reset_targets(void **state);
int free_targets(void **state);
/** ask - counts a query; for md_targets_tick() */
bool ask(void *arg, const struct md_target *target);
/** tick - what is due is asked; returns when the next one is */
uint64_t tick(uint64_t now_ns);
/** first_tries - first queries that had no answer are repeated; the first one was at @now_ns */
void first_tries(uint64_t now_ns);
/** use - returns the target, which is @targets', at an address that the account needs now */
struct md_target *use(const char *text, uint64_t account, uint64_t now_ns);
/** grow - the account comes to need 5,000 addresses of IPv4, from @from (host's byte order) on */
void grow(uint64_t account, uint32_t from, uint64_t now_ns);

#define OWN                                                                                        \
	"rail mlx5_0; gid fe80::1/64 v2; gid 10.1.0.1/28 v1; gid 10.1.0.1/28 v2; rail mlx5_1; "    \
	"gid 10.2.0.1/28 v2; gid fd02::1/64 v2;"
#define PEER                                                                                       \
	"rail mlx5_0; gid fe80::2/64 v2; gid 10.3.0.1/28 v1; gid 10.3.0.1/28 v2; rail mlx5_1; "    \
	"gid 10.4.0.1/28 v2; gid 10.1.0.2/28 v2;"

extern struct md_view *view; /* of this host, by OWN */
extern struct md_gidmap map;

#define ONE_RAIL "rail mlx5_0; gid 10.1.0.2/24 v2;"

extern struct md_hosts hosts;
extern unsigned int n_left; /* hosts, and descriptions, that went; each host had one */

/** table_setup, table_teardown - @hosts without any; the latter looks whether anything is left */
int table_setup(void **state);
int table_teardown(void **state);
/** host - returns host @n, which is @hosts'; NULL: it is not known */
struct md_host *host(unsigned int n);

/** hosts_setup, hosts_teardown - @view, and @hosts, @map and @targets without any */
int hosts_setup(void **state);
int hosts_teardown(void **state);
/** tell - host @n answers from 10.3.0.1 with description @text; GIDs are claimed */
void tell(unsigned int n, uint64_t generation, const char *text);

#endif
