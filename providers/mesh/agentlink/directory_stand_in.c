// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "ctl.h"
#include "directory_client_int.h"
#include "standin.h"

static void copy(const struct mv_directory *dir, const struct mv_stand_in *found, struct mesh_directory_stand_in *ret)
{
	const struct mv_dir_rail *rail = &dir->rails[found->rail];

	/* The decoder has checked the terminating 0 of both. */
	memcpy(ret->device, rail->device, sizeof(ret->device));
	memcpy(ret->host, dir->hosts[found->host].name, sizeof(ret->host));
	ret->port = rail->port;
	ret->mtu_bytes = rail->mtu_bytes;
	ret->rate_mbps = rail->rate_mbps;
}

int mesh_directory_stand_in(const char *device, uint8_t port_num, struct mesh_directory_stand_in *ret)
{
	const struct mv_stand_in_request request = {
		.device = device,
		.port_num = port_num,
		.agent_version = MV_CTL_VERSION,
		.exclude = &mesh_root.config.exclude,
	};
	int saved_errno = errno, cancel = mesh_directory_lock(), err = -ENOENT;
	const struct mv_directory *dir = mesh_directory_mapped();
	struct mv_stand_in found;

	if (dir)
		err = mv_stand_in_find(dir, &request, &found);
	if (!err)
		copy(dir, &found, ret);
	mesh_directory_unlock(cancel);
	errno = saved_errno;
	return err;
}
