/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TOPO_NETLINK_EXCHANGE_H
#define MV_TOPO_NETLINK_EXCHANGE_H

#include <linux/netlink.h>

#include "topo_netlink.h"

/* Shared by the files of the netlink collector only. Not thread-safe, like struct mv_netlink. */

/**
 * mv_netlink_socket - a bound rtnetlink socket (CLOEXEC) with a timeout of 2 s
 * @groups: RTMGRP_... bits to subscribe to
 * @ret_ino: its inode, written on success
 *
 * Return: a descriptor, owned by the caller; -errno of socket(2), bind(2), fstat(2).
 */
int mv_netlink_socket(uint32_t groups, uint64_t *ret_ino);

/** mv_netlink_socket_is - is the descriptor the socket with that inode? */
bool mv_netlink_socket_is(int fd, uint64_t ino);

/** mv_netlink_socket_close - close the descriptor if it is the socket with that inode; sets it to -1 in any case */
void mv_netlink_socket_close(int *fd, uint64_t ino);

/**
 * mv_netlink_exchange - send a request and parse the whole answer into a snapshot
 * @request: complete except for its sequence number; with NLM_F_DUMP or NLM_F_ACK, so that the answer has an end
 * @ret_answered: true: the answer was read to its end, so an error is the kernel's
 *
 * If the answer is not read to its end, the request socket is closed; the next call opens another.
 *
 * Return: 0; the (negative) error of the kernel's answer; -errno of the socket calls; -ETIMEDOUT; -ENOMEM; -EBADMSG:
 * malformed answer; -EINTR: inconsistent dump; -EOPNOTSUPP: a route came from the route cache, so the kernel does not
 * know RTM_F_FIB_MATCH.
 */
int mv_netlink_exchange(struct mv_netlink *nl, struct mv_topo *topo, struct nlmsghdr *request,
			bool *ret_answered);

#endif
