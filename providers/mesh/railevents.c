// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "conn.h"
#include "detect.h"
#include "ud.h"

/*
 * The program waits on its own completion channel, whose descriptor the kernel fills. So a completion on a rail is made
 * a completion of the program's CQ (kick.c).
 */
void mesh_rail_events(struct mesh_rail *rail)
{
	struct ibv_cq *cq;
	void *context;

	/* The channel does not block: the last call says EAGAIN. */
	while (!ibv_get_cq_event(rail->channel, &cq, &context)) {
		if (!mesh_ud_event(rail, cq))
			mesh_kick_cq_event(cq);
		ibv_ack_cq_events(cq, 1);
	}
}

/* Of the rail's own objects, of which the program knows nothing; left unread they would only pile up. */
bool mesh_rail_async_events(struct mesh_rail *rail)
{
	struct ibv_async_event event;
	bool fatal = false;

	while (!ibv_get_async_event(rail->context, &event)) {
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s: event %s", rail->device, ibv_event_type_str(event.event_type));
		mesh_port_event(&rail->ports_down, &event);
		if (event.event_type == IBV_EVENT_GID_CHANGE)
			mesh_rail_forget_gid(rail);
		fatal |= event.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&event);
	}
	return !fatal;
}
