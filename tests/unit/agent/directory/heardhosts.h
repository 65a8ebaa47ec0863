/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_HEARDHOSTS_H
#define UNIT_HEARDHOSTS_H

#include "unit.h"

#include "dir_build.h"
#include "paths.h"

/*
 * This host, with two rails and the text OWN, and other hosts that it hears. Host N has the id peers_id(N). Links have the
 * interface index 1 for the first rail and 2 for the second one.
 */

#define OWN                                                                                        \
	"rail mlx5_0; gid fe80::1/64 v2; gid 10.1.0.1/24 v1; gid 10.1.0.1/24 v2;"                  \
	"rail mlx5_1; gid 10.2.0.1/24 v2;"

extern struct md_view *view;
extern struct md_hosts hosts;
extern struct md_gidmap map;
extern struct md_targets targets;
extern struct md_probes probes; /* empty, unless the test watches paths */

int setup(void **state);
int teardown(void **state);

struct md_host *host(unsigned int n);
/** hear - a beacon of host @n with description @text comes by netdev @ifindex from the host's rail @rail; GIDs are claimed */
void hear(unsigned int n, uint64_t generation, const char *text, uint32_t ifindex, uint16_t rail, uint64_t now_ns);
/** tell - host @n answers from @address with description @text; GIDs are claimed */
void tell(unsigned int n, const char *text, const char *address, uint64_t now_ns);
/** holder - returns the number of the host that holds the GID; -1: no host does */
int holder(const char *gid_text);
/** claim_again - all hosts claim their GIDs anew, with or without a fleet key */
void claim_again(bool fleet_key);
/** from - what md_dir_build_make() makes a directory from */
struct md_dir_build_from from(void);

#endif
