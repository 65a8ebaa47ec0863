// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "ports.h"
#include "rails.h"

struct mesh_rail_clients mesh_rail_clients;

/* Events of the plugin's own objects on a rail. Unread events would pile up. */
bool mesh_rail_async_events(struct mesh_rail *rail)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(rail->context, &event)) {
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s: event %s", rail->device, ibv_event_type_str(event.event_type));
		if (mesh_port_event(&rail->ports_down, &event))
			mesh_rail_clients.port_down();
		if (event.event_type == IBV_EVENT_GID_CHANGE)
			mesh_rail_forget_gid(rail);
		if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
			mesh_rail_clients.last_wqe(event.element.qp);
		if (event.event_type == IBV_EVENT_DEVICE_FATAL)
			atomic_store_explicit(&rail->fatal, true, memory_order_relaxed);
		ibv_ack_async_event(&event);
	}
	return !atomic_load_explicit(&rail->fatal, memory_order_relaxed);
}
