// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "portview.h"

#include <errno.h>

#include "directory_client.h"
#include "lidfind.h"
#include "rails.h"
#include "standin.h"

#define LINK_UP 5 /* PortPhysicalState (IBTA 14.2.5.6) */

static uint32_t bit_of(unsigned int port_num)
{
	return port_num < 32 ? 1u << port_num : 0;
}

static bool is_waiting(const struct ibv_port_attr *attr)
{
	return attr->state == IBV_PORT_DOWN || attr->state == IBV_PORT_INIT || attr->state == IBV_PORT_ARMED;
}

/* Programs on InfiniBand give their LID to the peer. A port that no subnet manager has configured has none. */
static bool has_address(const struct ibv_port_attr *attr)
{
	return attr->link_layer != IBV_LINK_LAYER_INFINIBAND || mv_lid_is_unicast(attr->lid);
}

static enum ibv_mtu mtu_of(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && mesh_mtu_bytes(mtu) < bytes)
		mtu++;
	return mtu;
}

/* What is not named here stays the port's own: LID, tables, capabilities, limits. */
static void put(const struct mesh_directory_stand_in *by, struct ibv_port_attr *attr)
{
	attr->state = IBV_PORT_ACTIVE;
	attr->phys_state = LINK_UP;
	/* The connection returns later: its MTU has to fit both ports. */
	if (by->mtu_bytes && (!attr->active_mtu || mtu_of(by->mtu_bytes) < attr->active_mtu))
		attr->active_mtu = mtu_of(by->mtu_bytes);
	mv_port_speed(by->rate_mbps, &attr->active_width, &attr->active_speed);
}

/* @attr: of a port that is not active; changed if another port stands in. Return: does one? */
static bool stand_in(struct mesh_context *mc, uint8_t port_num, struct ibv_port_attr *attr)
{
	struct mesh_directory_stand_in by;
	bool stands = is_waiting(attr) && has_address(attr) && bit_of(port_num) &&
		      !mesh_directory_stand_in(mc->device, port_num, &by) && mesh_rail_may_open(by.device);

	if (!stands) {
		atomic_fetch_and_explicit(&mc->stood_in, ~bit_of(port_num), memory_order_relaxed);
		return false;
	}
	put(&by, attr);
	atomic_fetch_or_explicit(&mc->stood_in, bit_of(port_num), memory_order_relaxed);
	mv_log_once(&mesh_root.log, MV_LOG_INFO,
		    "%s port %u is down and is shown as active: %s port %u serves it, for example to host %s",
		    mc->device, port_num, by.device, by.port, by.host);
	return true;
}

int mesh_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	struct mesh_context *mc = mesh_context_get(context);
	int err = mc->lower.query_port(context, port_num, attr), saved_errno, cancel;

	if (err || attr->state == IBV_PORT_ACTIVE || !mesh_context_active(mc) || mesh_looking())
		return err;
	saved_errno = errno;
	cancel = mesh_cancel_off();
	stand_in(mc, port_num, attr);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return 0;
}

/* The program may read an event late: the port's state now decides. */
static bool is_hidden(struct mesh_context *mc, struct ibv_context *context, const struct ibv_async_event *event)
{
	uint8_t port_num = (uint8_t)event->element.port_num;
	uint32_t bit = bit_of(port_num);
	struct ibv_port_attr attr;

	if (event->event_type == IBV_EVENT_PORT_ACTIVE)
		return atomic_fetch_and_explicit(&mc->stood_in, ~bit, memory_order_relaxed) & bit;
	return !mesh_real_port(context, port_num, &attr) && stand_in(mc, port_num, &attr);
}

void mesh_portview_event(struct mesh_context *mc, struct ibv_context *context, struct ibv_async_event *event)
{
	if (event->event_type != IBV_EVENT_PORT_ERR && event->event_type != IBV_EVENT_PORT_ACTIVE)
		return;
	if (mc->lower.query_port && is_hidden(mc, context, event))
		event->event_type = IBV_EVENT_GID_CHANGE;
}
