/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_HOST_H
#define TOOL_HOST_H

#include <stdbool.h>

#include "cli.h"
#include "topo.h"
#include "topo_netlink.h"

/* This host, or what was captured of another one, as the commands see it. */
struct host {
	struct mv_topo topo;
	struct mv_netlink netlink;
	bool captured; /* netdevs, addresses and routes are from a file, so there is no kernel to
			  ask */
};

/**
 * host_open - read netdevs, addresses and RDMA devices
 * @host: filled in; release it with host_close(), also after an error
 *
 * What goes wrong is said on stderr, with the likely fix. A host without any RDMA device is an
 * error.
 *
 * Return: 0 or -errno.
 */
int host_open(const struct cli *cli, struct host *host);
/** host_read - the same without a word on stderr: what goes wrong is written to @why */
int host_read(const struct cli *cli, struct host *host, char *why, size_t why_size);
void host_close(struct host *host);

/**
 * host_device - an RDMA device by name
 *
 * Return: the device, or NULL when there is none; then the known ones have been named on stderr.
 */
const struct mv_device *host_device(const struct host *host, const char *name);

/**
 * host_no_devices - why a host has no RDMA devices, and what to do
 * @sysfs: the root that was looked at
 * @have_class: it has class/infiniband
 * @buf: filled with a sentence
 */
void host_no_devices(const char *sysfs, bool have_class, char *buf, size_t size);

/**
 * host_find_routes - have the routes from a netdev to a GID in the snapshot, for mv_decide()
 *
 * A captured host's routes are all there, so nothing happens then.
 *
 * Return: 0, or -errno of rtnetlink, which has been said.
 */
int host_find_routes(struct host *host, const struct mv_netdev *netdev, const union ibv_gid *dgid);

#endif
