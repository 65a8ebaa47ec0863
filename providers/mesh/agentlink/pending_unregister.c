// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "pending_unregister.h"

#include <stdlib.h>
#include <string.h>

struct mesh_pending_qp {
	SLIST_ENTRY(mesh_pending_qp) of_list;
	uint32_t qpn;
	char device[IBV_SYSFS_NAME_MAX];
};

bool mesh_pending_unregister_add(struct mesh_pending_unregister *pending, const struct mv_frame *frame)
{
	struct mesh_pending_qp *entry = pending->n < MESH_PENDING_UNREGISTER_MAX ? malloc(sizeof(*entry)) : NULL;

	if (!entry)
		return false;
	entry->qpn = frame->qpn;
	memcpy(entry->device, frame->device, sizeof(entry->device));
	SLIST_INSERT_HEAD(&pending->list, entry, of_list);
	return !pending->n++;
}

bool mesh_pending_unregister_take(struct mesh_pending_unregister *pending, struct mv_frame *ret)
{
	struct mesh_pending_qp *entry = SLIST_FIRST(&pending->list);

	if (!entry)
		return false;
	SLIST_REMOVE_HEAD(&pending->list, of_list);
	pending->n--;
	*ret = (struct mv_frame){.type = MV_FRAME_UNREGISTER_QP, .qpn = entry->qpn};
	memcpy(ret->device, entry->device, sizeof(ret->device));
	free(entry);
	return true;
}

void mesh_pending_unregister_drop(struct mesh_pending_unregister *pending)
{
	struct mv_frame frame;

	while (mesh_pending_unregister_take(pending, &frame))
		;
}
