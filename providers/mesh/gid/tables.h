/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TABLES_H
#define MESH_TABLES_H

#include "abi.h"
#include "seen.h"
#include "topo.h"

/*
 * GID tables of an open device, through verbs: one system call, instead of three per entry (up to 256) through sysfs. Callers
 * serialise.
 */

/**
 * mesh_tables_read - read the device's GID tables into a snapshot
 * @device: its name
 * @tables: may be empty; unchanged on error
 * @seen: history, to which the entries are added
 *
 * Ports without any GID are left out. The link layer follows from the types of a port's entries.
 *
 * Return: 0, -ENOMEM, or -errno of the query.
 */
int mesh_tables_read(const struct mesh_library *lib, struct ibv_context *verbs, const char *device,
		     struct mv_topo *tables, struct mv_seen_log *seen);

/**
 * mesh_tables_find_gid - current indexes of a GID on a port, which several netdevs may have
 * @type: enum mv_gid_type
 * @ret: array of @max; the lowest indexes, in order
 *
 * Return: their number; 0: none; -ENOMEM; -errno of the query.
 */
ssize_t mesh_tables_find_gid(const struct mesh_library *lib, struct ibv_context *verbs, uint8_t port_num,
			     const union ibv_gid *gid, uint8_t type, struct mv_gid_entry *ret, size_t max);

#endif
