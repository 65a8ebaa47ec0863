/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "topo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Makes room for one more element. @array: address of the pointer to the elements. memcpy() accesses the pointer,
 * because a void ** may not alias it.
 */
static int reserve_one(void *array, size_t n, size_t *cap, size_t size)
{
	size_t new_cap = *cap ? 2 * *cap : 8;
	void *old, *grown;

	if (n < *cap)
		return 0;
	memcpy(&old, array, sizeof(old));
	grown = reallocarray(old, new_cap, size);
	if (!grown)
		return -ENOMEM;
	memcpy(array, &grown, sizeof(grown));
	*cap = new_cap;
	return 0;
}

void mv_topo_init(struct mv_topo *topo)
{
	*topo = (struct mv_topo){0};
}

void mv_topo_clear_devices(struct mv_topo *topo)
{
	for (size_t d = 0; d < topo->n_devices; d++) {
		struct mv_device *device = &topo->devices[d];

		for (size_t p = 0; p < device->n_ports; p++)
			free(device->ports[p].gids);
		free(device->ports);
	}
	topo->n_devices = 0;
}

void mv_topo_clear_net(struct mv_topo *topo)
{
	topo->n_netdevs = 0;
	topo->n_addrs = 0;
	topo->n_routes = 0;
}

void mv_topo_fini(struct mv_topo *topo)
{
	mv_topo_clear_devices(topo);
	free(topo->devices);
	free(topo->netdevs);
	free(topo->addrs);
	free(topo->routes);
	mv_topo_init(topo);
}

int mv_topo_add_device(struct mv_topo *topo, const char *name, struct mv_device **ret_device)
{
	struct mv_device *device;
	size_t len = strlen(name);
	int err;

	if (!len || len >= sizeof(device->name))
		return -EINVAL;
	if (mv_topo_device(topo, name))
		return -EEXIST;
	err = reserve_one(&topo->devices, topo->n_devices, &topo->cap_devices, sizeof(*device));
	if (err)
		return err;

	device = &topo->devices[topo->n_devices++];
	*device = (struct mv_device){.numa_node = -1};
	memcpy(device->name, name, len + 1);
	*ret_device = device;
	return 0;
}

int mv_topo_add_port(struct mv_device *device, uint8_t num, struct mv_port **ret_port)
{
	struct mv_port *port;
	int err;

	if (mv_device_port(device, num))
		return -EEXIST;
	err = reserve_one(&device->ports, device->n_ports, &device->cap_ports, sizeof(*port));
	if (err)
		return err;

	port = &device->ports[device->n_ports++];
	*port = (struct mv_port){.num = num};
	*ret_port = port;
	return 0;
}

/* Return: position of the first entry with an index of @index or more. */
static size_t gid_position(const struct mv_port *port, uint32_t index)
{
	size_t low = 0, high = port->n_gids;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (port->gids[middle].index < index)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int mv_port_add_gid(struct mv_port *port, const struct mv_gid_entry *entry)
{
	size_t at = gid_position(port, entry->index);
	int err;

	if (mv_gid_is_zero(&entry->gid))
		return 0;
	if (at < port->n_gids && port->gids[at].index == entry->index) {
		port->gids[at] = *entry;
		return 0;
	}
	err = reserve_one(&port->gids, port->n_gids, &port->cap_gids, sizeof(*entry));
	if (err)
		return err;

	memmove(&port->gids[at + 1], &port->gids[at], (port->n_gids - at) * sizeof(*entry));
	port->gids[at] = *entry;
	port->n_gids++;
	return 0;
}

void mv_port_clear_gids(struct mv_port *port)
{
	port->n_gids = 0;
}

void mv_port_add_ipoib(struct mv_port *port, uint32_t ifindex)
{
	size_t at = port->n_ipoib;

	while (at && port->ipoib[at - 1] > ifindex)
		at--;
	if (at == MV_IPOIB_MAX)
		return;
	if (port->n_ipoib < MV_IPOIB_MAX)
		port->n_ipoib++;
	memmove(&port->ipoib[at + 1], &port->ipoib[at], (port->n_ipoib - 1 - at) * sizeof(port->ipoib[0]));
	port->ipoib[at] = ifindex;
}

int mv_topo_add_netdev(struct mv_topo *topo, const struct mv_netdev *netdev)
{
	int err;

	for (size_t i = 0; i < topo->n_netdevs; i++) {
		if (topo->netdevs[i].ifindex == netdev->ifindex) {
			topo->netdevs[i] = *netdev;
			return 0;
		}
	}
	err = reserve_one(&topo->netdevs, topo->n_netdevs, &topo->cap_netdevs, sizeof(*netdev));
	if (err)
		return err;
	topo->netdevs[topo->n_netdevs++] = *netdev;
	return 0;
}

void mv_topo_remove_netdev(struct mv_topo *topo, uint32_t ifindex)
{
	size_t i, n = 0;

	for (i = 0; i < topo->n_netdevs; i++)
		if (topo->netdevs[i].ifindex != ifindex)
			topo->netdevs[n++] = topo->netdevs[i];
	topo->n_netdevs = n;
	for (i = n = 0; i < topo->n_addrs; i++)
		if (topo->addrs[i].ifindex != ifindex)
			topo->addrs[n++] = topo->addrs[i];
	topo->n_addrs = n;
}

int mv_topo_add_addr(struct mv_topo *topo, const struct mv_addr *addr)
{
	return mv_topo_insert_addr(topo, topo->n_addrs, addr);
}

int mv_topo_insert_addr(struct mv_topo *topo, size_t at, const struct mv_addr *addr)
{
	int err = reserve_one(&topo->addrs, topo->n_addrs, &topo->cap_addrs, sizeof(*addr));

	if (err)
		return err;
	memmove(&topo->addrs[at + 1], &topo->addrs[at], (topo->n_addrs - at) * sizeof(*addr));
	topo->addrs[at] = *addr;
	topo->n_addrs++;
	return 0;
}

void mv_topo_remove_addr(struct mv_topo *topo, size_t at)
{
	topo->n_addrs--;
	memmove(&topo->addrs[at], &topo->addrs[at + 1], (topo->n_addrs - at) * sizeof(topo->addrs[0]));
}

int mv_topo_add_route(struct mv_topo *topo, const struct mv_route *route)
{
	int err = reserve_one(&topo->routes, topo->n_routes, &topo->cap_routes, sizeof(*route));

	if (err)
		return err;
	topo->routes[topo->n_routes++] = *route;
	return 0;
}

const struct mv_device *mv_topo_device(const struct mv_topo *topo, const char *name)
{
	for (size_t i = 0; i < topo->n_devices; i++)
		if (!strcmp(topo->devices[i].name, name))
			return &topo->devices[i];
	return NULL;
}

const struct mv_port *mv_device_port(const struct mv_device *device, uint8_t num)
{
	for (size_t i = 0; i < device->n_ports; i++)
		if (device->ports[i].num == num)
			return &device->ports[i];
	return NULL;
}

const struct mv_gid_entry *mv_port_gid(const struct mv_port *port, uint32_t index)
{
	size_t at = gid_position(port, index);

	return at < port->n_gids && port->gids[at].index == index ? &port->gids[at] : NULL;
}

const struct mv_netdev *mv_topo_netdev(const struct mv_topo *topo, uint32_t ifindex)
{
	for (size_t i = 0; i < topo->n_netdevs; i++)
		if (topo->netdevs[i].ifindex == ifindex)
			return &topo->netdevs[i];
	return NULL;
}

const struct mv_netdev *mv_topo_netdev_by_name(const struct mv_topo *topo, const char *name)
{
	for (size_t i = 0; i < topo->n_netdevs; i++)
		if (!strcmp(topo->netdevs[i].name, name))
			return &topo->netdevs[i];
	return NULL;
}

/*
 * Is @gid the default link-local GID of @mac? If a driver sets dev_id (second port of mlx4), kernels put it in place of
 * ff:fe, and leave the universal/local bit alone. So these bits are ignored. It is harmless if the other five bytes of
 * an entry with the right interface index agree by accident.
 */
static bool is_default_gid(const union ibv_gid *gid, const uint8_t mac[6])
{
	static const uint8_t no_mac[6];
	union ibv_gid expected;

	if (!memcmp(mac, no_mac, sizeof(no_mac)))
		return false;
	expected = mv_gid_from_mac(mac);
	expected.raw[8] = (expected.raw[8] & ~2) | (gid->raw[8] & 2);
	memcpy(&expected.raw[11], &gid->raw[11], 2);
	return mv_gid_equal(gid, &expected);
}

const struct mv_netdev *mv_topo_gid_netdev(const struct mv_topo *topo,
					   const struct mv_gid_entry *entry)
{
	const struct mv_netdev *netdev;

	/* No netdev has index 0, except in a snapshot made by hand. */
	netdev = entry->ifindex ? mv_topo_netdev(topo, entry->ifindex) : NULL;
	if (!netdev)
		return NULL;
	if (is_default_gid(&entry->gid, netdev->mac))
		return netdev;
	for (size_t i = 0; i < topo->n_addrs; i++)
		if (topo->addrs[i].ifindex == entry->ifindex &&
		    mv_gid_equal(&topo->addrs[i].gid, &entry->gid))
			return netdev;
	return NULL;
}
