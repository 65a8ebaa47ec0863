// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "unclaims.h"

#include <stdlib.h>
#include <string.h>

struct mesh_unclaim {
	SLIST_ENTRY(mesh_unclaim) of_list;
	uint32_t qpn;
	char device[IBV_SYSFS_NAME_MAX];
};

bool mesh_unclaims_add(struct mesh_unclaims *unclaims, const struct mv_frame *frame)
{
	struct mesh_unclaim *unclaim = unclaims->n < MESH_UNCLAIMS_MAX ? malloc(sizeof(*unclaim)) : NULL;

	if (!unclaim)
		return false;
	unclaim->qpn = frame->qpn;
	memcpy(unclaim->device, frame->device, sizeof(unclaim->device));
	SLIST_INSERT_HEAD(&unclaims->list, unclaim, of_list);
	return !unclaims->n++;
}

bool mesh_unclaims_take(struct mesh_unclaims *unclaims, struct mv_frame *ret)
{
	struct mesh_unclaim *unclaim = SLIST_FIRST(&unclaims->list);

	if (!unclaim)
		return false;
	SLIST_REMOVE_HEAD(&unclaims->list, of_list);
	unclaims->n--;
	*ret = (struct mv_frame){.type = MV_FRAME_UNCLAIM, .qpn = unclaim->qpn};
	memcpy(ret->device, unclaim->device, sizeof(ret->device));
	free(unclaim);
	return true;
}

void mesh_unclaims_drop(struct mesh_unclaims *unclaims)
{
	struct mv_frame frame;

	while (mesh_unclaims_take(unclaims, &frame))
		;
}
