// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "tables.h"

/*
 * Numbers of entries to ask for, in this order: the kernel returns EINVAL if there are more. mlx5 has 256 per port, Soft-RoCE
 * 1024. An attribute of an ioctl has 65535 bytes at most, which is 2047 entries.
 */
static const size_t table_sizes[] = {64, 512, 2047};

static enum mv_gid_type gid_type(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_IB:
		return MV_GID_TYPE_IB;
	case IBV_GID_TYPE_ROCE_V1:
		return MV_GID_TYPE_ROCE_V1;
	case IBV_GID_TYPE_ROCE_V2:
		return MV_GID_TYPE_ROCE_V2;
	default:
		return MV_GID_TYPE_UNKNOWN;
	}
}

/* Number of used entries or -errno; the caller frees *ret_entries, NULL on error. */
static ssize_t query(const struct mesh_library *lib, struct ibv_context *verbs,
		     struct ibv_gid_entry **ret_entries)
{
	struct ibv_gid_entry *entries = NULL, *larger;
	_Atomic unsigned long *looking;
	ssize_t n = -EINVAL;
	size_t i;

	*ret_entries = NULL;
	for (i = 0; i < sizeof(table_sizes) / sizeof(table_sizes[0]) && n == -EINVAL; i++) {
		larger = realloc(entries, table_sizes[i] * sizeof(*entries));
		if (!larger) {
			free(entries);
			return -ENOMEM;
		}
		entries = larger;
		looking = mesh_looking_begin();
		n = lib->query_gid_table(verbs, entries, table_sizes[i], 0, sizeof(*entries));
		mesh_looking_end(looking);
	}
	if (n < 0)
		free(entries);
	else
		*ret_entries = entries;
	return n;
}

static struct mv_gid_entry entry_of(const struct ibv_gid_entry *from)
{
	return (struct mv_gid_entry){
		.gid = from->gid,
		.index = from->gid_index,
		.ifindex = from->ndev_ifindex,
		.type = gid_type(from->gid_type),
	};
}

static int add_entry(struct mv_device *device, const struct ibv_gid_entry *from)
{
	struct mv_gid_entry entry = entry_of(from);
	struct mv_port *port;
	int err;

	port = (struct mv_port *)mv_device_port(device, (uint8_t)from->port_num);
	if (!port) {
		err = mv_topo_add_port(device, (uint8_t)from->port_num, &port);
		if (err)
			return err;
		port->link_layer = entry.type == MV_GID_TYPE_IB ? IBV_LINK_LAYER_INFINIBAND :
								  IBV_LINK_LAYER_ETHERNET;
	}
	return mv_port_add_gid(port, &entry);
}

/* Is the history of the last read still up to date? */
static bool is_as_before(const struct mv_topo *before, const struct mv_port *port)
{
	const struct mv_port *old = before->n_devices ? mv_device_port(&before->devices[0], port->num) : NULL;
	size_t i;

	if (!old || old->n_gids != port->n_gids)
		return false;
	for (i = 0; i < port->n_gids; i++)
		if (old->gids[i].index != port->gids[i].index || old->gids[i].type != port->gids[i].type ||
		    !mv_gid_equal(&old->gids[i].gid, &port->gids[i].gid))
			return false;
	return true;
}

int mesh_tables_read(const struct mesh_library *lib, struct ibv_context *verbs, const char *name,
		     struct mv_topo *tables, struct mv_seen_log *seen)
{
	struct ibv_gid_entry *entries;
	struct mv_device *device;
	struct mv_topo fresh;
	ssize_t n, i;
	size_t p;
	int err;

	n = query(lib, verbs, &entries);
	if (n < 0)
		return (int)n;

	mv_topo_init(&fresh);
	err = mv_topo_add_device(&fresh, name, &device);
	for (i = 0; !err && i < n; i++)
		err = add_entry(device, &entries[i]);
	for (p = 0; !err && p < device->n_ports; p++)
		if (!is_as_before(tables, &device->ports[p]))
			err = mv_seen_update(seen, &device->ports[p]);
	free(entries);
	if (err) {
		mv_topo_fini(&fresh);
		return err;
	}
	mv_topo_fini(tables);
	*tables = fresh;
	return 0;
}

/* Insert in the order of indexes. Return: the new number of entries. */
static size_t insert(struct mv_gid_entry *entries, size_t n, size_t max, const struct mv_gid_entry *entry)
{
	size_t at = n;

	while (at && entries[at - 1].index > entry->index)
		at--;
	if (at == max)
		return n;
	n += n < max;
	memmove(&entries[at + 1], &entries[at], (n - 1 - at) * sizeof(*entries));
	entries[at] = *entry;
	return n;
}

ssize_t mesh_tables_find_gid(const struct mesh_library *lib, struct ibv_context *verbs, uint8_t port_num,
			     const union ibv_gid *gid, uint8_t type, struct mv_gid_entry *ret, size_t max)
{
	struct ibv_gid_entry *entries;
	struct mv_gid_entry entry;
	size_t n_found = 0;
	ssize_t n, i;

	n = query(lib, verbs, &entries);
	if (n < 0)
		return n;
	for (i = 0; i < n; i++) {
		entry = entry_of(&entries[i]);
		/* ibv_global_route has 8 bits */
		if (entries[i].port_num == port_num && entry.type == type && mv_gid_equal(&entry.gid, gid) && entry.index <= UINT8_MAX)
			n_found = insert(ret, n_found, max, &entry);
	}
	free(entries);
	return (ssize_t)n_found;
}
