// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "udint.h"

/*
 * Neighbours that do not answer. The kernel needs a second per try (drivers/infiniband/core/addr.c), which blocks the calling
 * thread, and programs try repeatedly.
 */

#define LONG_NS	  100000000ull
#define SILENT_NS 4000000000ull

bool mesh_ud_is_silent(const void *from, const union ibv_gid *gid)
{
	uint64_t now_ns = mesh_now_ns();

	for (unsigned int i = 0; i < MESH_UD_SILENT; i++) {
		const struct mesh_ud_silent *silent = &mesh_root.ud.silent[i];

		if (silent->from == from && now_ns < silent->until_ns && mv_gid_equal(&silent->gid, gid))
			return true;
	}
	return false;
}

void mesh_ud_refused(const void *from, const union ibv_gid *gid, int err, uint64_t began_ns)
{
	uint64_t now_ns = mesh_now_ns();

	if (err == ENOMEM || now_ns - began_ns < LONG_NS)
		return;
	mesh_root.ud.silent[mesh_root.ud.n_silent++ % MESH_UD_SILENT] =
		(struct mesh_ud_silent){.from = from, .gid = *gid, .until_ns = now_ns + SILENT_NS};
}
