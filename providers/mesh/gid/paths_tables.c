// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* GID tables of a context: first read, later reads, look-ups. */
#include <stdio.h>
#include <string.h>

#include "pathsint.h"
#include "tables.h"

int mesh_paths_open(struct mesh_context *mc, struct ibv_context *verbs, char *why, size_t why_size)
{
	int err;

	mv_topo_init(&mc->tables);
	mc->tables_read_ns = 0; /* netdevs were not read yet */
	mc->seen = mv_seen_new();
	if (!mc->seen) {
		snprintf(why, why_size, "out of memory");
		return -ENOMEM;
	}
	err = mesh_tables_read(&mesh_root.lib, verbs, mc->device, &mc->tables, mc->seen);
	if (err) {
		snprintf(why, why_size, "its GID table cannot be read: %s", strerrordesc_np(-err));
		mesh_paths_close(mc);
	}
	return err;
}

void mesh_paths_close(struct mesh_context *mc)
{
	int cancel = mesh_paths_lock();

	mv_topo_fini(&mc->tables);
	mv_seen_free(mc->seen);
	mc->seen = NULL;
	mesh_paths_unlock(cancel);
}

int mesh_paths_refresh_tables(struct mesh_context *mc, struct ibv_context *verbs, uint64_t now_ns)
{
	int err = mesh_tables_read(&mesh_root.lib, verbs, mc->device, &mc->tables, mc->seen);

	mc->tables_read_ns = err ? 0 : now_ns;
	memset(mc->fits, 0, sizeof(mc->fits));
	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: its GID table cannot be read again: %s",
			    mc->device, strerrordesc_np(-err));
	return err;
}

void mesh_paths_refresh(struct mesh_context *mc, struct ibv_context *verbs)
{
	int cancel = mesh_paths_lock();

	/* The device may be closed when a late event comes. */
	if (mc->seen && atomic_load_explicit(&mc->verbs, memory_order_relaxed) == verbs)
		mesh_paths_refresh_tables(mc, verbs, mesh_now_ns());
	mesh_paths_unlock(cancel);
}

/* Called with process->paths.lock held. */
static const struct mv_gid_entry *towards(const struct mv_gid_entry *entries, size_t n, const union ibv_gid *dgid)
{
	const struct mesh_paths *paths = mesh_paths_own();
	struct mv_topo view;

	if (!paths || !paths->current)
		return entries;
	view = paths->net;
	view.n_routes = 0; /* they belong to another decision */
	return mv_decide_towards(&view, entries, n, dgid);
}

const struct mv_gid_entry *mesh_paths_towards(const struct mv_gid_entry *entries, size_t n, const union ibv_gid *dgid)
{
	const struct mv_gid_entry *found = entries;
	int cancel = mesh_cancel_off();

	/* Tried only: its holder may wait for the kernel's rtnl lock. */
	if (mesh_trylock(&mesh_root.process->paths.lock)) {
		found = towards(entries, n, dgid);
		mesh_unlock(&mesh_root.process->paths.lock);
	}
	mesh_cancel_restore(cancel);
	return found;
}

static bool is_of(const struct mv_gid_entry *entry, const union ibv_gid *gid, enum mv_gid_type type)
{
	return entry->type == type && entry->index <= UINT8_MAX && mv_gid_equal(&entry->gid, gid);
}

/* Called with process->paths.lock held. @ret: array of @max. Return: the number of entries. */
static size_t find_gid(const struct mesh_context *mc, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		       struct mv_gid_entry *ret, size_t max)
{
	const struct mv_port *port = mc->tables.n_devices ? mv_device_port(&mc->tables.devices[0], port_num) : NULL;
	size_t i, n = 0;

	for (i = 0; port && i < port->n_gids && n < max; i++)
		if (is_of(&port->gids[i], gid, type))
			ret[n++] = port->gids[i];
	return n;
}

int mesh_paths_find(struct mesh_context *mc, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		    const union ibv_gid *dgid, uint8_t *ret_index)
{
	struct mv_gid_entry entries[MESH_PATHS_TWINS];
	int cancel = mesh_paths_lock();
	size_t n = find_gid(mc, port_num, gid, type, entries, MESH_PATHS_TWINS);
	const struct mv_port *port = n ? mv_device_port(&mc->tables.devices[0], port_num) : NULL;
	const struct mv_gid_entry *there = port ? mv_port_gid(port, *ret_index) : NULL;

	if (n && !(there && is_of(there, gid, type)))
		*ret_index = (uint8_t)towards(entries, n, dgid)->index;
	mesh_paths_unlock(cancel);
	return n ? 0 : -ENOENT;
}

bool mesh_paths_lack(struct mesh_context *mc, struct ibv_context *verbs, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		     uint8_t index)
{
	int cancel = mesh_paths_lock();
	const struct mv_port *port;
	struct mv_gid_entry entry;
	bool lack;

	lack = mc->seen && !mesh_paths_refresh_tables(mc, verbs, mesh_now_ns()) && !find_gid(mc, port_num, gid, type, &entry, 1);
	port = lack ? mv_device_port(&mc->tables.devices[0], port_num) : NULL;
	lack = port && !mv_port_gid(port, index);
	mesh_paths_unlock(cancel);
	return lack;
}
