/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ID_H
#define MD_ID_H

#include "directory.h"

/* Facts that identify this host, and stay the same when the agent restarts. */
struct md_id_from {
	char machine_id[64], boot_id[64]; /* content of the files; "": no such file */
	char hostname[64];
	uint64_t netns; /* inode of the network namespace: a container with its own counts as a host */
};

/** md_id_gather - read the facts; missing ones stay empty */
void md_id_gather(struct md_id_from *ret);

/**
 * md_id_make - the host id: hash of all facts except the name; of the name too if neither machine id nor boot id exists
 */
struct mv_host_id md_id_make(const struct md_id_from *from);

#endif
