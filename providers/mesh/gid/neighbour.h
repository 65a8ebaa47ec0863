/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_NEIGHBOUR_H
#define MESH_NEIGHBOUR_H

#include "paths.h"
#include "peerview.h"

/**
 * mesh_neighbour_is_missing - does no host on a link have a link-local address?
 * @port_num, @index: a GID table entry, whose netdev is on the link
 *
 * The kernel computes the MAC address of a link-local GID from the GID, without asking (drivers/infiniband/core/addr.c,
 * rdma_addr_find_l2_eth_by_grh()). So this function makes the kernel resolve the neighbour, by a datagram to UDP port 9 (discard,
 * RFC 863). Waits for the answer, for the kernel to give up after three seconds, or for four seconds.
 *
 * Thread: any in the network namespace of the netdev; cancellation is off. Return: true: the kernel has found no neighbour.
 * False: a host has the address, or that is not known.
 */
bool mesh_neighbour_is_missing(struct mesh_context *mc, uint8_t port_num, uint8_t index, const union ibv_gid *gid);

/**
 * mesh_neighbour_is_meant - may a program mean another host than the one in @view?
 * @choice: for the program's index
 * @view: of @dgid, with a verdict that would use another path
 *
 * True if only a host on another link announces the link-local address (mv_path_is_hearsay()), and a host on the link of the
 * program's own port has the address, or may have it. If no host on that link has it, the other host is believed for ten seconds.
 * Logs one line per address. Waits as mesh_neighbour_is_missing(), and only if another path would be used.
 */
bool mesh_neighbour_is_meant(struct mesh_context *mc, uint8_t port_num, const struct mesh_choice *choice, const union ibv_gid *dgid,
			     const struct mesh_view *view);

#endif
