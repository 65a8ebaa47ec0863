// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "detect.h"

#include <string.h>

#include "conn.h"

bool mesh_detect_parse(const char *text, unsigned int *ret)
{
	static const struct {
		const char *name;
		enum mesh_detect what;
	} names[] = {{"carrier", MESH_DETECT_CARRIER},
		     {"event", MESH_DETECT_EVENT},
		     {"probe", MESH_DETECT_PROBE},
		     {"retry", MESH_DETECT_RETRY},
		     {"peer", MESH_DETECT_PEER}};
	unsigned int mask = 0;
	size_t len, i;

	for (; text && *text; text += len + (text[len] == ',')) {
		len = strcspn(text, ",");
		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (strlen(names[i].name) == len && !memcmp(names[i].name, text, len))
				break;
		if (i == sizeof(names) / sizeof(names[0]))
			return false;
		mask |= names[i].what;
	}
	*ret = text ? MESH_DETECT_ALL & ~mask : 0;
	return true;
}

bool mesh_detects(enum mesh_detect what)
{
	return !(mesh_root.undetected & what);
}

static uint32_t bit_of(unsigned int port)
{
	return port < 32 ? 1u << port : 0;
}

void mesh_port_event(_Atomic uint32_t *ports_down, const struct ibv_async_event *event)
{
	uint32_t bit = event->event_type == IBV_EVENT_PORT_ERR || event->event_type == IBV_EVENT_PORT_ACTIVE
			       ? bit_of((unsigned int)event->element.port_num)
			       : 0;

	if (event->event_type != IBV_EVENT_PORT_ERR) {
		if (bit)
			atomic_fetch_and_explicit(ports_down, ~bit, memory_order_relaxed);
		return;
	}
	atomic_fetch_or_explicit(ports_down, bit, memory_order_relaxed);
	/* Without a helper thread there are no connections. */
	if (!mesh_root.config.survive || !atomic_load_explicit(&mesh_root.process->thread, memory_order_acquire))
		return;
	mesh_conns_queue_all(false);
	mesh_thread_wake(true);
}

bool mesh_port_is_down(_Atomic uint32_t *ports_down, struct ibv_context *context, uint8_t port)
{
	struct ibv_port_attr attr;

	if (!(atomic_load_explicit(ports_down, memory_order_relaxed) & bit_of(port)) || !mesh_detects(MESH_DETECT_EVENT))
		return false;
	if (ibv_query_port(context, port, &attr) || attr.state != IBV_PORT_ACTIVE)
		return true;
	atomic_fetch_and_explicit(ports_down, ~bit_of(port), memory_order_relaxed);
	return false;
}
