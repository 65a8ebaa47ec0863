/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_GID_GRACE_H
#define MD_GID_GRACE_H

#include <stdint.h>

#include "view.h"

/*
 * GIDs in grace: GIDs of ours that have just gone. When a port loses its carrier, address managers remove its addresses
 * (systemd-networkd at once, NetworkManager some seconds later, the kernel removes IPv6 addresses when a netdev is shut
 * down), and add them again some time after the carrier returns. But processes identify connections by these GIDs, also
 * connections that have moved to another port, and messages are addressed to them. So a GID stays in our description
 * while its port is down and its netdev exists, and MD_GID_GRACE_NS longer. A GID in grace has no index and no type, so no path
 * uses it, and no netdev, so nothing is sent from it. GIDs in grace are lost when the agent restarts.
 */

/**
 * md_gid_grace_add - add GIDs in grace to a new view
 * @view: the new view, without GIDs in grace
 * @old: the view before, with its GIDs in grace
 * @topo: from which @view was made
 * @taken: does another host have the GID now? Then it has no grace. NULL: no host has any
 *
 * Return: 0; -ENOMEM: @view is unchanged, except for its rails' netdevs.
 */
int md_gid_grace_add(struct md_view *view, const struct md_view *old, const struct mv_topo *topo, uint64_t now_ns,
		bool (*taken)(void *arg, const union ibv_gid *gid), void *arg);

#endif
