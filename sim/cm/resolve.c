/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* From addresses to devices and paths. */
#include "cm.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>

#define ASK_AGAIN_NS 2000000ull
#define HOP_LIMIT    64

static uint32_t scope_of(const union cm_addr *a)
{
	return a->sa.sa_family == AF_INET6 ? a->v6.sin6_scope_id : 0;
}

static bool is_link_local(const union cm_addr *a)
{
	const uint8_t *b = (const uint8_t *)&a->v6.sin6_addr;

	return a->sa.sa_family == AF_INET6 && b[0] == 0xfe && (b[1] & 0xc0) == 0x80;
}

static void set_dev(struct cm *cm, struct cm_id *id)
{
	id->has_dev = true;
	id->conn.local_guid = 0;
	for (int i = 0; i < 8; i++)
		id->conn.local_guid =
			id->conn.local_guid << 8 | cm->state->devs[id->conn.path.dev].node_guid[i];
}

/* The device with that address. -ENODEV: it belongs to a netdev without one. */
static int acquire_dev(struct cm *cm, struct cm_id *id, const union cm_addr *a)
{
	struct cm_path *path = &id->conn.path;
	uint8_t addr[16];
	bool own;

	addr_to_gid(a, addr);
	own = cm->ops->own_address(cm->arg, addr);
	/* A removed address takes its GID along, but stands in the table of LIDs for ever. */
	if (dev_of_addr(cm, addr, scope_of(a), path) && (own || !path->slid)) {
		set_dev(cm, id);
		return 0;
	}
	return own ? -ENODEV : -EADDRNOTAVAIL;
}

int id_bind(struct cm *cm, struct cm_id *id, const union cm_addr *a)
{
	int err = 0;

	if (id->state != ID_IDLE)
		return -EINVAL;
	if (!addr_size(a))
		return -EAFNOSUPPORT;
	if (is_link_local(a) && !scope_of(a))
		return -EINVAL;
	if (!addr_is_any(a))
		err = a->sa.sa_family == AF_IB ? -EADDRNOTAVAIL : acquire_dev(cm, id, a);
	if (err)
		return err;
	id->src = *a;
	id->dst.sa.sa_family = a->sa.sa_family;
	err = port_take(cm, id);
	if (err) {
		memset(&id->src, 0, sizeof(id->src));
		memset(&id->dst, 0, sizeof(id->dst));
		id->has_dev = false;
		return err;
	}
	id->state = ID_BOUND;
	return 0;
}

static int bind_any(struct cm *cm, struct cm_id *id, uint16_t family)
{
	union cm_addr any = {.sa.sa_family = family};

	return id_bind(cm, id, &any);
}

int id_listen(struct cm *cm, struct cm_id *id, uint32_t backlog)
{
	int err = id->state == ID_IDLE ? bind_any(cm, id, AF_INET) : 0;

	if (err)
		return err;
	if (id->state != ID_BOUND || id->src.sa.sa_family == AF_IB)
		return -EINVAL;
	id->backlog = backlog && backlog < CM_MAX_BACKLOG ? backlog : CM_MAX_BACKLOG;
	id->state = ID_LISTEN;
	return 0;
}

static void resolved(struct cm *cm, struct cm_id *id, int err)
{
	id->resolve_at_ns = 0;
	id->state = err ? ID_BOUND : ID_ADDR_RESOLVED;
	id_event(cm, id, err ? EVENT_ADDR_ERROR : EVENT_ADDR_RESOLVED, err);
}

/* id_resolve_more() - one step. Whether it ends is told by an event. */
void id_resolve_more(struct cm *cm, struct cm_id *id)
{
	struct cm_path *path = &id->conn.path;
	struct cm_route route;
	union cm_addr src;
	uint8_t from[16], dst[16];
	int err, nowhere;

	addr_to_gid(&id->dst, dst);
	addr_to_gid(&id->src, from);
	err = cm->ops->route(cm->arg, addr_is_any(&id->src) ? NULL : from, dst,
			     scope_of(&id->dst), &route);
	if (err) {
		resolved(cm, id, err);
		return;
	}
	if (!id->has_dev) {
		addr_from_gid(route.src, addr_port(&id->src), &src);
		if (is_link_local(&src))
			src.v6.sin6_scope_id = route.ifindex;
		err = acquire_dev(cm, id, &src);
		if (err) {
			resolved(cm, id, -ENODEV);
			return;
		}
		id->src = src;
	}
	addr_to_gid(&id->src, from);
	nowhere = path_to(cm, dst, path);
	if (route.local) {
		struct cm_path own;

		err = dev_of_addr(cm, dst, 0, &own) ? 0 : -ENODEV;
		if (!err)
			memcpy(path->dmac, own.smac, 6);
	} else {
		err = cm->ops->neighbour(cm->arg, from, dst, path->ifindex, path->dmac);
	}
	if (err == -EAGAIN && cm->now_ns < id->resolve_until_ns)
		id->resolve_at_ns = cm->now_ns + ASK_AGAIN_NS;
	else
		resolved(cm, id, err == -EAGAIN ? -ETIMEDOUT : err ? err : nowhere);
}

/* To whoever listens on this host. */
static void resolve_loopback(struct cm *cm, struct cm_id *id)
{
	struct cm_path *path = &id->conn.path;
	uint16_t port = addr_port(&id->src);

	if (!id->has_dev && !dev_for_loopback(cm, id->dst.sa.sa_family, path)) {
		resolved(cm, id, -ENODEV);
		return;
	}
	set_dev(cm, id);
	path->dlid = path->slid;
	memcpy(path->dgid, path->sgid, 16);
	memcpy(path->dmac, path->smac, 6);
	if (addr_is_any(&id->src)) {
		id->src = id->dst;
		addr_set_port(&id->src, port);
	}
	resolved(cm, id, 0);
}

int id_resolve_addr(struct cm *cm, struct cm_id *id, const union cm_addr *src,
		    const union cm_addr *dst, uint32_t timeout_ms)
{
	int err = 0;

	if (dst->sa.sa_family != AF_INET && dst->sa.sa_family != AF_INET6)
		return dst->sa.sa_family == AF_IB ? -EADDRNOTAVAIL : -EAFNOSUPPORT;
	if (id->state == ID_IDLE)
		err = src && src->sa.sa_family ? id_bind(cm, id, src)
					       : bind_any(cm, id, dst->sa.sa_family);
	if (err)
		return err;
	if (id->state != ID_BOUND || id->src.sa.sa_family != dst->sa.sa_family)
		return -EINVAL;
	id->dst = *dst;
	if (addr_is_any(dst)) {
		resolve_loopback(cm, id);
		return 0;
	}
	id->state = ID_ADDR_QUERY;
	id->resolve_until_ns = cm->now_ns + (uint64_t)timeout_ms * 1000000;
	id->resolve_at_ns = cm->now_ns;
	id_resolve_more(cm, id);
	return 0;
}

static uint32_t gbps_of(const struct sim_port *p)
{
	uint32_t lane = p->active_speed == 1    ? 25
			: p->active_speed == 2  ? 50
			: p->active_speed == 4  ? 100
			: p->active_speed == 16 ? 140
			: p->active_speed == 32 ? 250
			: p->active_speed == 64 ? 500
						: 1000;

	return lane * (p->active_width == 2 ? 4 : 1) / 10;
}

/* As rdma_cm takes the speed of a netdev. */
static uint8_t roce_rate(uint32_t gbps)
{
	return gbps >= 40   ? IBV_RATE_40_GBPS
	       : gbps >= 30 ? IBV_RATE_30_GBPS
	       : gbps >= 10 ? IBV_RATE_10_GBPS
			    : IBV_RATE_MAX;
}

/* As a subnet manager has it. */
static uint8_t ib_rate(uint32_t gbps)
{
	switch (gbps) {
	case 10:
		return IBV_RATE_10_GBPS;
	case 25:
		return IBV_RATE_25_GBPS;
	case 40:
		return IBV_RATE_40_GBPS;
	case 50:
		return IBV_RATE_50_GBPS;
	case 56:
		return IBV_RATE_56_GBPS;
	case 100:
		return IBV_RATE_100_GBPS;
	case 200:
		return IBV_RATE_200_GBPS;
	default:
		return IBV_RATE_400_GBPS;
	}
}

/* Like ib_core, spread connections over UDP source ports by what tells them apart. */
static uint32_t flow_label(const struct cm_id *id)
{
	uint64_t v = (uint64_t)addr_port(&id->src) * addr_port(&id->dst);

	v ^= v >> 20;
	v ^= v >> 40;
	return (uint32_t)(v & 0xfffff);
}

int id_resolve_route(struct cm *cm, struct cm_id *id)
{
	struct cm_path *path = &id->conn.path;
	uint32_t gbps;

	if (id->state != ID_ADDR_RESOLVED)
		return -EINVAL;
	gbps = gbps_of(&cm->state->devs[path->dev].ports[path->port - 1]);
	path->lifetime = CM_PACKET_LIFETIME;
	if (path->slid) { /* a subnet manager's path record: nothing for a GRH */
		path->rate = ib_rate(gbps);
	} else {
		path->hop_limit = HOP_LIMIT;
		path->traffic_class = id->tos_set ? id->tos : 0;
		path->flow_label = flow_label(id);
		path->rate = roce_rate(gbps);
		if (id->timeout_set && id->timeout)
			path->lifetime = (uint8_t)(id->timeout - 1);
	}
	id->has_route = true;
	id->state = ID_ROUTE_RESOLVED;
	id_event(cm, id, EVENT_ROUTE_RESOLVED, 0);
	return 0;
}
