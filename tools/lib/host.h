/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_HOST_H
#define TOOL_HOST_H

#include <stdbool.h>

#include "cli.h"
#include "topo.h"
#include "topo_netlink.h"

/* This host, or a captured one. */
struct host {
	struct mv_topo topo;
	struct mv_netlink netlink;
	bool captured; /* netdevs, addresses and routes are from a file; the kernel is not asked */
};

/**
 * host_open - read netdevs, addresses and RDMA devices
 * @host: filled in; release with host_close(), also after an error
 *
 * Prints errors to stderr, with the likely fix. A host without RDMA devices is an error.
 *
 * Return: 0 or -errno.
 */
int host_open(const struct cli *cli, struct host *host);
/** host_read - the same without messages; the error's text is written to @why */
int host_read(const struct cli *cli, struct host *host, char *why, size_t why_size);
void host_close(struct host *host);

/**
 * host_device - find an RDMA device by name
 *
 * Return: the device, in @host; NULL: none, after a message with the known ones.
 */
const struct mv_device *host_device(const struct host *host, const char *name);

/**
 * host_no_devices - why the host has no RDMA devices, and what to do
 * @sysfs: the root that was searched
 * @have_class: it has class/infiniband
 * @buf: gets a sentence
 */
void host_no_devices(const char *sysfs, bool have_class, char *buf, size_t size);

/**
 * host_find_routes - add the routes from a netdev to a GID to the snapshot, for mv_decide()
 *
 * No effect on a captured host, whose routes are all there.
 *
 * Return: 0; -errno of rtnetlink, after an error message.
 */
int host_find_routes(struct host *host, const struct mv_netdev *netdev, const union ibv_gid *dgid);

#endif
