/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_SYSFS_H
#define TOOL_SYSFS_H

#include <stddef.h>
#include <stdint.h>

/* Facts about RDMA devices that the engine does not need. */

/**
 * sysfs_devices - names of the RDMA devices, sorted
 * @root: as for mv_sysfs_fill()
 * @ret_names: written on success; array and strings for free()
 *
 * Return: their number; -ENOENT: no class/infiniband; another -errno.
 */
int sysfs_devices(const char *root, char ***ret_names);

/**
 * sysfs_gid_netdev - name of an entry's netdev, from gid_attrs/ndevs
 * @root: as for mv_sysfs_fill()
 * @buf: filled in; "": none
 *
 * The name is from the netdev's own network namespace; in this one it may be another device's.
 */
void sysfs_gid_netdev(const char *root, const char *device, uint8_t port_num, uint32_t index,
		      char *buf, size_t size);

/**
 * sysfs_provider - libibverbs driver name of a device, e.g. "mlx5", "rxe"
 * @buf: written on success
 *
 * Return: 0; -ENOENT: sysfs does not tell.
 */
int sysfs_provider(const char *root, const char *device, char *buf, size_t size);

#endif
