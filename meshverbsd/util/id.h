/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ID_H
#define MD_ID_H

#include "directory.h"

/* What tells this host from all others, and stays the same when the agent starts again. */
struct md_id_from {
	char machine_id[64], boot_id[64]; /* as in their files; "" where there is none */
	char hostname[64];
	uint64_t netns; /* inode of the network namespace: containers are hosts of their own */
};

/** md_id_gather - read it from this machine; what is missing stays empty */
void md_id_gather(struct md_id_from *ret);

/** md_id_make - the host id: a hash of all but the name, and of the name where machine and boot id are both missing */
struct mv_host_id md_id_make(const struct md_id_from *from);

#endif
