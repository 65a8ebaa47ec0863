/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_NEIGHBOUR_H
#define MESH_NEIGHBOUR_H

#include "paths.h"
#include "peerview.h"

/**
 * mesh_neighbour_is_missing - does no host on a link have a link-local address?
 * @port_num, @index: a GID table entry, whose netdev is on the link
 *
 * The kernel makes the MAC address of a link-local GID out of the GID itself (drivers/infiniband/core/addr.c,
 * rdma_addr_find_l2_eth_by_grh()) and asks nobody. So this function has the kernel look for the neighbour, by a datagram to UDP port 9
 * (discard, RFC 863). Waits until the neighbour answers, or the kernel gives up after three seconds, or for 4 seconds.
 *
 * Any thread, in the network namespace of the netdev; cancellation is off. Return: true: the kernel has found nobody. False: a host has
 * the address, or nothing is known.
 */
bool mesh_neighbour_is_missing(struct mesh_context *mc, uint8_t port_num, uint8_t index, const union ibv_gid *gid);

/**
 * mesh_neighbour_is_meant - may a program mean another host than the one that a view names?
 * @choice: what was chosen for the program's index
 * @view: of the destination @dgid, with a verdict for which something would be led elsewhere
 *
 * That is so where only a host on another link says that it has the link-local address (mv_path_is_hearsay()), and a host on the link of the
 * program's own port has it, too, or may have it. If nobody on that link has it, the host on the other link is believed for ten seconds. Logs
 * one line for each address. Waits as mesh_neighbour_is_missing(), and only where something would be led.
 */
bool mesh_neighbour_is_meant(struct mesh_context *mc, uint8_t port_num, const struct mesh_choice *choice, const union ibv_gid *dgid,
			     const struct mesh_view *view);

#endif
