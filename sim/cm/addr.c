/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Addresses, the port numbers of the host, and which device has an address. @addr is one in GID form. */
#include "cm.h"

#include <errno.h>
#include <string.h>

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* addr_size() - bytes of the structure for the address' family; 0 for one that rdma_cm has not. */
uint32_t addr_size(const union cm_addr *a)
{
	switch (a->sa.sa_family) {
	case AF_INET:
		return sizeof(a->v4);
	case AF_INET6:
		return sizeof(a->v6);
	case AF_IB:
		return 48; /* struct sockaddr_ib, which has no header of the kernel's */
	default:
		return 0;
	}
}

/* addr_is_loopback() - 127.0.0.0/8, ::1. */
bool addr_is_loopback(const union cm_addr *a)
{
	return (a->sa.sa_family == AF_INET && ntohl(a->v4.sin_addr.s_addr) >> 24 == 127) ||
	       (a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr));
}

/* addr_is_any() - the wildcard of its family; or a loopback address, which no device has, so that
 * rdma_cm takes it for one. */
bool addr_is_any(const union cm_addr *a)
{
	static const uint8_t zero[16];

	switch (a->sa.sa_family) {
	case AF_INET:
		return !a->v4.sin_addr.s_addr || addr_is_loopback(a);
	case AF_INET6:
		return !memcmp(&a->v6.sin6_addr, zero, 16) || addr_is_loopback(a);
	case AF_IB:
		return !memcmp((const uint8_t *)a + 8, zero, 16);
	default:
		return false;
	}
}

/* addr_to_gid() - IPv4 as ::ffff:a.b.c.d. */
void addr_to_gid(const union cm_addr *a, uint8_t *ret)
{
	if (a->sa.sa_family == AF_INET6) {
		memcpy(ret, &a->v6.sin6_addr, 16);
	} else {
		memcpy(ret, v4_prefix, 12);
		memcpy(ret + 12, &a->v4.sin_addr, 4);
	}
}

void addr_from_gid(const uint8_t *gid, uint16_t port, union cm_addr *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (memcmp(gid, v4_prefix, 12)) {
		ret->v6.sin6_family = AF_INET6;
		memcpy(&ret->v6.sin6_addr, gid, 16);
	} else {
		ret->v4.sin_family = AF_INET;
		memcpy(&ret->v4.sin_addr, gid + 12, 4);
	}
	addr_set_port(ret, port);
}

uint16_t addr_port(const union cm_addr *a)
{
	if (a->sa.sa_family == AF_IB) /* the last bytes of the service ID */
		return (uint16_t)(((const uint8_t *)a)[30] << 8 | ((const uint8_t *)a)[31]);
	return ntohs(a->v4.sin_port); /* at the same place in both */
}

void addr_set_port(union cm_addr *a, uint16_t port)
{
	if (a->sa.sa_family == AF_IB) {
		((uint8_t *)a)[30] = (uint8_t)(port >> 8);
		((uint8_t *)a)[31] = (uint8_t)port;
	} else {
		a->v4.sin_port = htons(port);
	}
}

/* The RoCE v2 entry of the address. */
static bool roce_source(struct sim_port *p, const uint8_t *addr, uint32_t ifindex, struct cm_path *ret)
{
	struct sim_gid found_gid;
	uint32_t s;
	bool found;

	do {
		s = sim_port_read_begin(p);
		found = false;
		for (uint32_t i = 0; i < p->n_gids && i < SIM_MAX_GIDS && !found; i++) {
			const struct sim_gid *g = &p->gids[i];

			if (g->type != SIM_GID_ROCE_V2 || memcmp(g->raw, addr, 16) ||
			    (ifindex && g->ifindex != ifindex))
				continue;
			found = true;
			ret->sgid_index = i;
			found_gid = *g;
		}
	} while (sim_port_read_retry(p, s));
	if (!found)
		return false;
	ret->ifindex = found_gid.ifindex;
	ret->slid = ret->pkey_index = 0;
	memcpy(ret->sgid, found_gid.raw, 16);
	memcpy(ret->smac, found_gid.mac, 6);
	return true;
}

/* Where the port has IPoIB's P_Key: that of full members, otherwise that of limited ones. */
static bool find_pkey(const struct sim_port *p, uint16_t *ret_index)
{
	for (int limited = 0; limited < 2; limited++)
		for (uint16_t i = 0; i < SIM_MAX_PKEYS; i++)
			if (p->pkeys[i] == (limited ? CM_PKEY & 0x7fff : CM_PKEY)) {
				*ret_index = i;
				return true;
			}
	return false;
}

/* The LID of an InfiniBand port whose netdev has the address. */
static bool ib_source(struct cm *cm, const struct sim_port *p, const uint8_t *addr, uint32_t ifindex,
		      struct cm_path *ret)
{
	const struct sim_lid *lid = sim_lid_of_address(cm->state, addr);

	if (!lid || lid->lid != p->lid || (ifindex && p->ifindex != ifindex) || !find_pkey(p, &ret->pkey_index))
		return false;
	ret->sgid_index = 0;
	ret->ifindex = p->ifindex;
	ret->slid = p->lid;
	memcpy(ret->sgid, lid->gid, 16);
	memcpy(ret->smac, p->mac, 6);
	return true;
}

/*
 * dev_of_addr() - the device and port that has the address, as rdma_cm chooses the device of a
 * source address. @ifindex: 0 for any netdev. Fills in the source half of @ret.
 */
bool dev_of_addr(struct cm *cm, const uint8_t *addr, uint32_t ifindex, struct cm_path *ret)
{
	for (uint32_t d = 0; d < cm->state->n_devs && d < SIM_MAX_DEVS; d++) {
		struct sim_dev *dev = &cm->state->devs[d];

		if (!atomic_load(&dev->present))
			continue;
		for (uint32_t p = 0; p < dev->n_ports && p < SIM_MAX_PORTS; p++) {
			struct sim_port *port = &dev->ports[p];

			if (port->link_layer == SIM_LINK_INFINIBAND ? !ib_source(cm, port, addr, ifindex, ret)
								    : !roce_source(port, addr, ifindex, ret))
				continue;
			ret->dev = d;
			ret->port = p + 1;
			ret->v1 = false;
			ret->mtu = port->active_mtu;
			return true;
		}
	}
	return false;
}

/* path_to() - the destination half of @path, without the MAC. -EHOSTUNREACH: InfiniBand, and no LID has the address. */
int path_to(struct cm *cm, const uint8_t *addr, struct cm_path *path)
{
	const struct sim_lid *lid = path->slid ? sim_lid_of_address(cm->state, addr) : NULL;

	if (path->slid && !lid)
		return -EHOSTUNREACH;
	path->dlid = lid ? lid->lid : 0;
	memcpy(path->dgid, lid ? lid->gid : addr, 16);
	return 0;
}

/* path_addrs() - the addresses between which a path's datagrams travel. Return: false if a LID has none. */
bool path_addrs(const struct sim_state *st, const struct cm_path *path, const uint8_t **ret_src,
		const uint8_t **ret_dst)
{
	const struct sim_lid *src = sim_lid_find(st, path->slid), *dst = sim_lid_find(st, path->dlid);

	if (path->slid && (!src || !dst))
		return false;
	*ret_src = path->slid ? src->addr : path->sgid;
	*ret_dst = path->slid ? dst->addr : path->dgid;
	return true;
}

/*
 * dev_for_loopback() - the first device that works, to talk to itself: on RoCE with the family's
 * first GID, on InfiniBand with its LID.
 */
bool dev_for_loopback(struct cm *cm, uint16_t family, struct cm_path *ret)
{
	for (uint32_t d = 0; d < cm->state->n_devs && d < SIM_MAX_DEVS; d++) {
		struct sim_port *p = &cm->state->devs[d].ports[0];
		const struct sim_lid *lid = sim_lid_find(cm->state, p->lid);

		if (p->state != SIM_PORT_ACTIVE)
			continue;
		if (lid && dev_of_addr(cm, lid->addr, 0, ret))
			return true;
		for (uint32_t i = 0; i < p->n_gids && i < SIM_MAX_GIDS; i++) {
			struct sim_gid g = p->gids[i];

			if (g.type == SIM_GID_ROCE_V2 &&
			    !memcmp(g.raw, v4_prefix, 12) == (family == AF_INET) &&
			    dev_of_addr(cm, g.raw, g.ifindex, ret))
				return true;
		}
	}
	return false;
}

static bool same_host_address(const union cm_addr *a, const union cm_addr *b)
{
	uint8_t x[16], y[16];

	if (a->sa.sa_family != b->sa.sa_family || a->sa.sa_family == AF_IB)
		return false;
	addr_to_gid(a, x);
	addr_to_gid(b, y);
	return !memcmp(x, y, 16);
}

/* Two identifiers may have one port if they cannot be taken for each other. -EADDRNOTAVAIL if one
 * of them has the wildcard: the kernel's choice. */
static int clash(const struct cm_id *a, const struct cm_id *b)
{
	if (a->reuse_addr && b->reuse_addr && b->state != ID_LISTEN)
		return 0;
	if (a->only_family && a->src.sa.sa_family != b->src.sa.sa_family)
		return 0;
	if (addr_is_any(&a->src) || addr_is_any(&b->src))
		return -EADDRNOTAVAIL;
	return same_host_address(&a->src, &b->src) ? -EADDRINUSE : 0;
}

/* Whether @id can have the port. */
static int check_port(struct cm *cm, const struct cm_id *id, uint16_t port)
{
	struct cm_id *other;
	int err = 0;

	TAILQ_FOREACH(other, &cm->all, link)
		if (!err && other != id && other->bound && other->ps == id->ps &&
		    addr_port(&other->src) == port)
			err = clash(id, other);
	return err;
}

/* port_take() - the port in id->src, or any if that is 0. -EADDRINUSE, -EADDRNOTAVAIL. */
int port_take(struct cm *cm, struct cm_id *id)
{
	uint32_t n = CM_PORT_LAST - CM_PORT_FIRST + 1, first;

	if (id->bound)
		return 0;
	if (addr_port(&id->src)) {
		int err = check_port(cm, id, addr_port(&id->src));

		id->bound = !err;
		return err;
	}
	first = cm_random(cm) % n;
	for (uint32_t i = 0; i < n; i++) {
		uint16_t port = (uint16_t)(CM_PORT_FIRST + (first + i) % n);

		if (check_port(cm, id, port))
			continue;
		addr_set_port(&id->src, port);
		id->bound = true;
		return 0;
	}
	return -EADDRNOTAVAIL;
}

/* port_listener() - who listens for what comes to @local; the one with that very address first. */
struct cm_id *port_listener(struct cm *cm, uint16_t ps, const union cm_addr *local)
{
	struct cm_id *id, *any = NULL;

	TAILQ_FOREACH(id, &cm->all, link) {
		if (id->state != ID_LISTEN || id->ps != ps ||
		    addr_port(&id->src) != addr_port(local))
			continue;
		if (same_host_address(&id->src, local))
			return id;
		if (addr_is_any(&id->src) &&
		    (id->src.sa.sa_family == local->sa.sa_family || !id->only_family))
			any = id;
	}
	return any;
}
