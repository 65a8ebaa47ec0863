// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "conn.h"
#include "paths.h"
#include "ports.h"
#include "portview.h"

/* A program that handles GID changes may read the table now: so read and keep the same entries. */
void mesh_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct mesh_context *mc = mesh_context_get(context);
	int saved_errno = errno, cancel;

	if (event->event_type == IBV_EVENT_GID_CHANGE && mesh_context_active(mc))
		mesh_paths_refresh(mc, context);
	if (mesh_context_active(mc)) {
		cancel = mesh_cancel_off();
		if (mc->can_move)
			mesh_last_wqe_event(mc, event);
		if (mesh_port_event(&mc->ports_down, event))
			mesh_conns_port_down();
		mesh_cancel_restore(cancel);
	}
	errno = saved_errno;
	mc->lower.async_event(context, event);
	if (!mesh_context_active(mc))
		return;
	cancel = mesh_cancel_off();
	mesh_portview_event(mc, context, event);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}
