/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_KEPT_H
#define MD_KEPT_H

#include <stdint.h>

#include "view.h"

/*
 * GIDs of ours that have just gone. Who manages addresses takes those of a port that has lost its carrier away (systemd-networkd at
 * once, NetworkManager some seconds later, the kernel those of IPv6 when a netdev is shut down), and gives them back some time after
 * the carrier. By them processes know connections, also those that have moved elsewhere, and they say where messages go. So a GID
 * stays in our description, as long as its port is not up though its netdev is there, and MD_KEPT_NS longer: with no index and of no type, so that no path is made of
 * it, and without a netdev, so that nothing is sent from it. Nothing else remembers it: an agent that starts again knows it no more.
 */

/**
 * md_kept_add - keep what has gone since
 * @view: of now, has kept nothing yet
 * @old: the one before, with what it has kept
 * @topo: that @view was made from
 * @taken: has another host that GID now? Such a one is not kept. May be NULL: none has
 *
 * Return: 0; -ENOMEM: @view is as it was.
 */
int md_kept_add(struct md_view *view, const struct md_view *old, const struct mv_topo *topo, uint64_t now_ns,
		bool (*taken)(void *arg, const union ibv_gid *gid), void *arg);

#endif
