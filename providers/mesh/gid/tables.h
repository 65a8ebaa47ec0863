/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TABLES_H
#define MESH_TABLES_H

#include "abi.h"
#include "seen.h"
#include "topo.h"

/*
 * GID tables of an open device, through verbs: one system call, where sysfs would take three for each
 * of up to 256 entries. Callers serialise.
 */

/**
 * mesh_tables_read - replace the one device of a snapshot by what the kernel says now
 * @device: its name
 * @tables: may be empty; unchanged on error
 * @seen: what it finds is recorded there
 *
 * Ports without any GID do not appear. The link layer is told by the types of a port's entries.
 *
 * Return: 0, -ENOMEM, or the query's error.
 */
int mesh_tables_read(const struct mesh_library *lib, struct ibv_context *verbs, const char *device,
		     struct mv_topo *tables, struct mv_seen_log *seen);

/**
 * mesh_tables_find_gid - under which indexes does a port have an address now? Several netdevs of a port may have one
 * @type: enum mv_gid_type
 * @ret: array of @max; in the order of the indexes, those with the lowest ones
 *
 * Return: how many; 0: none; -ENOMEM; the query's error.
 */
ssize_t mesh_tables_find_gid(const struct mesh_library *lib, struct ibv_context *verbs, uint8_t port_num,
			     const union ibv_gid *gid, uint8_t type, struct mv_gid_entry *ret, size_t max);

#endif
