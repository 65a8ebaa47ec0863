/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TEST_DIRWORLD_H
#define MV_TEST_DIRWORLD_H

#include "directory.h"

/*
 * A directory from text, so that a test case can be read in one line. Statements end with ';':
 *
 *   host NAME [id N]                             the first one is this host; id: counted from 1, unless it says otherwise
 *   rail DEVICE [down] [drained] [excluded] [ib] [lid N] [numa N] [rate MBPS] [mtu BYTES] [port N] [dev NETDEV]
 *   gid ADDRESS[/LEN] v1|v2|ib|v?|kept [vlan N] [unmet|unanswered] [routed RAIL ...]
 *                                                LEN as people write it: of the address itself; rails of the first host, from 0
 *   link LOCAL_RAIL REMOTE_RAIL                  counted over the whole directory, from 0
 *
 * A rail is 100000 Mb/s, 4096 bytes, up, on NUMA node 0, port 1, unless it says otherwise.
 */
struct dirworld {
	struct mv_dir_header *image; /* what mv_directory_build() made */
	struct mv_directory dir; /* points into it */
	struct mv_dir_host hosts[8];
	struct mv_dir_rail rails[32];
	struct mv_dir_gid gids[64];
	struct mv_dir_link links[64];
	struct mv_dir_content content;
};

void dirworld_init(struct dirworld *world, const char *text);
void dirworld_fini(struct dirworld *world);

#endif
