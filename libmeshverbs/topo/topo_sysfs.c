/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "topo_sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An attribute is one short line, although sysfs allows a page. */
#define ATTR_SIZE 256

/*
 * Missing or unreadable files are normal. Lack of resources is fatal, because the snapshot would have only a part of
 * the GIDs.
 */
static bool is_fatal(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

/* Return: a descriptor or -errno. */
static int open_at(int dir, const char *path, int flags)
{
	int fd;

	do
		fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

/* Return: 0 with NUL-terminated text in @buf; -errno with empty @buf. */
static int read_attr(int dir, const char *path, char buf[static ATTR_SIZE])
{
	int fd = open_at(dir, path, 0);
	ssize_t n;

	buf[0] = '\0';
	if (fd < 0)
		return fd;
	do
		n = read(fd, buf, ATTR_SIZE - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		n = -errno;
	close(fd);
	buf[n < 0 ? 0 : n] = '\0';
	return n < 0 ? (int)n : 0;
}

/*
 * Calls @fn for each name in a directory, except names that begin with a dot.
 * Return: 0; -errno; the first non-zero result of @fn.
 */
static int for_each_name(int dir, const char *path, int (*fn)(void *arg, int dir, const char *name),
			 void *arg)
{
	struct dirent *entry;
	int fd, err = 0;
	DIR *stream;

	fd = open_at(dir, path, O_DIRECTORY);
	if (fd < 0)
		return fd;
	stream = fdopendir(fd);
	if (!stream) {
		err = -errno;
		close(fd);
		return err;
	}
	while (!err) {
		errno = 0;
		entry = readdir(stream);
		if (!entry) {
			err = -errno;
			break;
		}
		if (entry->d_name[0] != '.')
			err = fn(arg, fd, entry->d_name);
	}
	closedir(stream);
	return err;
}

/* ---- GIDs ------------------------------------------------------------------------------------ */

struct gid_walk {
	struct mv_topo *topo;
	struct mv_port *port;
	int port_dir;
};

/* Reads gid_attrs/<what>/<index>. Return: 0, with empty @buf if there is nothing; a fatal error. */
static int read_gid_attr(int port_dir, const char *what, uint32_t index, char buf[static ATTR_SIZE])
{
	char path[64];
	int err;

	snprintf(path, sizeof(path), "gid_attrs/%s/%u", what, index);
	err = read_attr(port_dir, path, buf);
	return is_fatal(err) ? err : 0;
}

static int add_gid(void *arg, int gids_dir, const char *name)
{
	struct gid_walk *walk = arg;
	struct mv_gid_entry entry = {.type = MV_GID_TYPE_UNKNOWN};
	const struct mv_netdev *netdev;
	char text[ATTR_SIZE];
	int err;

	if (mv_sysfs_parse_number(name, UINT32_MAX, &entry.index))
		return 0;
	err = read_attr(gids_dir, name, text);
	if (err)
		return is_fatal(err) ? err : 0;
	/* Most entries are empty: do not read their other two files. */
	if (mv_sysfs_parse_gid(text, &entry.gid) || mv_gid_is_zero(&entry.gid))
		return 0;

	err = read_gid_attr(walk->port_dir, "types", entry.index, text);
	if (err)
		return err;
	mv_sysfs_parse_gid_type(text, &entry.type);
	if (entry.type == MV_GID_TYPE_ROCE_V1 && walk->port->link_layer != IBV_LINK_LAYER_ETHERNET)
		entry.type = MV_GID_TYPE_IB;

	err = read_gid_attr(walk->port_dir, "ndevs", entry.index, text);
	if (err)
		return err;
	text[strcspn(text, "\n")] = '\0';
	netdev = text[0] ? mv_topo_netdev_by_name(walk->topo, text) : NULL;
	if (netdev)
		entry.ifindex = netdev->ifindex;
	return mv_port_add_gid(walk->port, &entry);
}

/* ---- ports and devices ----------------------------------------------------------------------- */

struct port_walk {
	struct mv_topo *topo;
	struct mv_device *device;
};

static int read_port(struct mv_topo *topo, struct mv_port *port, int dir)
{
	struct gid_walk walk = {.topo = topo, .port = port, .port_dir = dir};
	char text[ATTR_SIZE];
	uint32_t lid, lmc;
	int err;

	err = read_attr(dir, "link_layer", text);
	if (is_fatal(err))
		return err;
	mv_sysfs_parse_link_layer(text, &port->link_layer);
	err = read_attr(dir, "state", text);
	if (is_fatal(err))
		return err;
	mv_sysfs_parse_state(text, &port->state);
	err = read_attr(dir, "rate", text);
	if (is_fatal(err))
		return err;
	mv_sysfs_parse_rate(text, &port->rate_mbps);
	err = read_attr(dir, "lid", text);
	if (is_fatal(err))
		return err;
	if (!mv_sysfs_parse_number(text, UINT16_MAX, &lid))
		port->lid = (uint16_t)lid;
	err = read_attr(dir, "lid_mask_count", text);
	if (is_fatal(err))
		return err;
	if (!mv_sysfs_parse_number(text, 7, &lmc))
		port->lmc = (uint8_t)lmc;

	err = for_each_name(dir, "gids", add_gid, &walk);
	return is_fatal(err) ? err : 0;
}

static int add_port(void *arg, int ports_dir, const char *name)
{
	struct port_walk *walk = arg;
	struct mv_port *port;
	uint32_t num;
	int fd, err;

	if (mv_sysfs_parse_number(name, UINT8_MAX, &num) || !num)
		return 0;
	fd = open_at(ports_dir, name, O_DIRECTORY);
	if (fd < 0)
		return is_fatal(fd) ? fd : 0;
	err = mv_topo_add_port(walk->device, (uint8_t)num, &port);
	if (err == -EEXIST)
		err = 0; /* "1" and "01" in a test's tree */
	else if (!err)
		err = read_port(walk->topo, port, fd);
	close(fd);
	return err;
}

static int compare_ports(const void *a, const void *b)
{
	return ((const struct mv_port *)a)->num - ((const struct mv_port *)b)->num;
}

/* "device" is a link to the PCI function, whose directory has its address as name. */
static void read_pci(struct mv_device *device, int dir)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(dir, "device", target, sizeof(target) - 1);
	unsigned int domain, bus, slot, function;
	const char *name;
	int used = 0;

	if (len <= 0)
		return;
	target[len] = '\0';
	name = strrchr(target, '/');
	name = name ? name + 1 : target;
	if (strlen(name) < sizeof(device->pci) &&
	    sscanf(name, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &used) == 4 &&
	    !name[used])
		strcpy(device->pci, name);
}

/*
 * The port with the GUID of the GID. The prefix is not compared: the subnet manager may change a port's prefix, and the
 * netdev's address follows later.
 */
static struct mv_port *port_of_guid(struct mv_device *device, const union ibv_gid *gid)
{
	for (size_t p = 0; p < device->n_ports; p++) {
		struct mv_port *port = &device->ports[p];

		for (size_t g = 0; port->link_layer == IBV_LINK_LAYER_INFINIBAND && g < port->n_gids; g++)
			if (port->gids[g].gid.global.interface_id == gid->global.interface_id)
				return port;
	}
	return NULL;
}

/* Handles a netdev of the PCI function: adds it if it is an IPoIB netdev. */
static int add_ipoib(void *arg, int net_dir, const char *name)
{
	struct port_walk *walk = arg;
	const struct mv_netdev *netdev = mv_topo_netdev_by_name(walk->topo, name);
	char path[IFNAMSIZ + 16], text[ATTR_SIZE];
	struct mv_port *port;
	union ibv_gid gid;
	uint32_t type;
	int err;

	if (!netdev)
		return 0;
	snprintf(path, sizeof(path), "%s/type", name);
	err = read_attr(net_dir, path, text);
	if (err || mv_sysfs_parse_number(text, UINT16_MAX, &type) || type != ARPHRD_INFINIBAND)
		return is_fatal(err) ? err : 0;
	snprintf(path, sizeof(path), "%s/address", name);
	err = read_attr(net_dir, path, text);
	if (err || mv_sysfs_parse_ipoib_address(text, &gid))
		return is_fatal(err) ? err : 0;
	port = port_of_guid(walk->device, &gid);
	if (port)
		mv_port_add_ipoib(port, netdev->ifindex);
	return 0;
}

static bool has_infiniband(const struct mv_device *device)
{
	for (size_t p = 0; p < device->n_ports; p++)
		if (device->ports[p].link_layer == IBV_LINK_LAYER_INFINIBAND)
			return true;
	return false;
}

static int read_device(struct mv_topo *topo, struct mv_device *device, int dir)
{
	struct port_walk walk = {.topo = topo, .device = device};
	char text[ATTR_SIZE];
	uint32_t node;
	int err;

	err = read_attr(dir, "node_guid", text);
	if (is_fatal(err))
		return err;
	mv_sysfs_parse_guid(text, &device->node_guid);
	err = read_attr(dir, "device/numa_node", text);
	if (is_fatal(err))
		return err;
	if (!mv_sysfs_parse_number(text, INT_MAX, &node)) /* refuses "-1", which means unknown */
		device->numa_node = (int)node;
	read_pci(device, dir);

	err = for_each_name(dir, "ports", add_port, &walk);
	if (device->n_ports)
		qsort(device->ports, device->n_ports, sizeof(device->ports[0]), compare_ports);
	if (!is_fatal(err) && has_infiniband(device))
		err = for_each_name(dir, "device/net", add_ipoib, &walk);
	return is_fatal(err) ? err : 0;
}

static int add_device(void *arg, int class_dir, const char *name)
{
	struct mv_topo *topo = arg;
	struct mv_device *device;
	int fd, err;

	fd = open_at(class_dir, name, O_DIRECTORY);
	if (fd < 0)
		return is_fatal(fd) ? fd : 0;
	err = mv_topo_add_device(topo, name, &device);
	if (err == -EINVAL)
		err = 0; /* longer than any name of an RDMA device: something else */
	else if (!err)
		err = read_device(topo, device, fd);
	close(fd);
	return err;
}

static int compare_devices(const void *a, const void *b)
{
	/* mlx5_2 before mlx5_10 */
	return strverscmp(((const struct mv_device *)a)->name, ((const struct mv_device *)b)->name);
}

int mv_sysfs_fill(struct mv_topo *topo, const char *root)
{
	int root_dir, err;

	root_dir = open_at(AT_FDCWD, root, O_DIRECTORY);
	if (root_dir < 0)
		return root_dir;
	err = for_each_name(root_dir, "class/infiniband", add_device, topo);
	close(root_dir);
	if (err) {
		mv_topo_clear_devices(topo);
		return err;
	}
	if (topo->n_devices)
		qsort(topo->devices, topo->n_devices, sizeof(topo->devices[0]), compare_devices);
	return 0;
}

static int fill_state(struct mv_port *port, int root_dir, const char *device)
{
	char path[128], text[ATTR_SIZE];
	int err;

	snprintf(path, sizeof(path), "class/infiniband/%s/ports/%u/state", device, port->num);
	err = read_attr(root_dir, path, text);
	if (is_fatal(err))
		return err;
	if (mv_sysfs_parse_state(text, &port->state))
		port->state = IBV_PORT_NOP;
	return 0;
}

int mv_sysfs_fill_states(struct mv_topo *topo, const char *root)
{
	int root_dir = open_at(AT_FDCWD, root, O_DIRECTORY), err = 0;

	if (root_dir < 0)
		return root_dir;
	for (size_t d = 0; d < topo->n_devices && !err; d++)
		for (size_t p = 0; p < topo->devices[d].n_ports && !err; p++)
			err = fill_state(&topo->devices[d].ports[p], root_dir, topo->devices[d].name);
	close(root_dir);
	return err;
}
