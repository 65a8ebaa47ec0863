// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "ports.h"

#include "context.h"
#include "detect.h"

static uint32_t bit_of(unsigned int port)
{
	return port < 32 ? 1u << port : 0;
}

bool mesh_port_event(_Atomic uint32_t *ports_down, const struct ibv_async_event *event)
{
	uint32_t bit = event->event_type == IBV_EVENT_PORT_ERR || event->event_type == IBV_EVENT_PORT_ACTIVE
			       ? bit_of((unsigned int)event->element.port_num)
			       : 0;

	if (event->event_type != IBV_EVENT_PORT_ERR) {
		if (bit)
			atomic_fetch_and_explicit(ports_down, ~bit, memory_order_relaxed);
		return false;
	}
	atomic_fetch_or_explicit(ports_down, bit, memory_order_relaxed);
	return true;
}

bool mesh_port_is_down(_Atomic uint32_t *ports_down, struct ibv_context *context, uint8_t port)
{
	struct ibv_port_attr attr;

	if (!(atomic_load_explicit(ports_down, memory_order_relaxed) & bit_of(port)) || !mesh_detects(MESH_DETECT_EVENT))
		return false;
	if (mesh_real_port(context, port, &attr) || attr.state != IBV_PORT_ACTIVE)
		return true;
	atomic_fetch_and_explicit(ports_down, ~bit_of(port), memory_order_relaxed);
	return false;
}
