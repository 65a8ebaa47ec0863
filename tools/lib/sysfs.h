/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_SYSFS_H
#define TOOL_SYSFS_H

#include <stddef.h>
#include <stdint.h>

/* What the engine has no use for, but people want to know of an RDMA device. */

/**
 * sysfs_devices - names of the RDMA devices, in order
 * @root: as for mv_sysfs_fill()
 * @ret_names: malloc()ed array of malloc()ed strings, written on success
 *
 * Return: their number, -ENOENT when there is no class/infiniband, or -errno.
 */
int sysfs_devices(const char *root, char ***ret_names);

/**
 * sysfs_gid_netdev - netdev name that gid_attrs/ndevs gives for an entry
 * @root: as for mv_sysfs_fill()
 * @buf: filled in; "" when the kernel names none
 *
 * The name is that of the netdev's own network namespace, and may be another device's in this one.
 */
void sysfs_gid_netdev(const char *root, const char *device, uint8_t port_num, uint32_t index,
		      char *buf, size_t size);

/**
 * sysfs_provider - libibverbs' driver name of a device: "mlx5", "rxe", ...
 * @buf: filled in on success
 *
 * Return: 0, or -ENOENT when nothing in sysfs tells.
 */
int sysfs_provider(const char *root, const char *device, char *buf, size_t size);

#endif
