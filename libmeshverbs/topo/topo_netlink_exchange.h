/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TOPO_NETLINK_EXCHANGE_H
#define MV_TOPO_NETLINK_EXCHANGE_H

#include <linux/netlink.h>

#include "topo_netlink.h"

/* Shared by the files of the netlink collector. Not thread-safe, as struct mv_netlink is not. */

/**
 * mv_netlink_socket - a bound rtnetlink socket (CLOEXEC) that waits 2 s at most
 * @groups: RTMGRP_... bits to listen to
 * @ret_ino: its inode, written on success
 *
 * Return: a descriptor or -errno of socket(2), bind(2), fstat(2).
 */
int mv_netlink_socket(uint32_t groups, uint64_t *ret_ino);

/**
 * mv_netlink_socket_is - does a descriptor lead to the socket of that inode?
 */
bool mv_netlink_socket_is(int fd, uint64_t ino);

/**
 * mv_netlink_socket_close - close a descriptor if it does; it becomes -1 in any case
 */
void mv_netlink_socket_close(int *fd, uint64_t ino);

/**
 * mv_netlink_exchange - send a request and parse the whole answer into a snapshot
 * @request: complete but for its sequence number; with NLM_F_DUMP or NLM_F_ACK, so that the answer
 *           ends
 * @ret_answered: whether the kernel's answer was read to its end, so that an error is its own
 *
 * An answer that is given up half way closes the request socket; the next call opens another.
 *
 * Return: 0; the (negative) error of the kernel's answer; -errno of the socket calls, -ETIMEDOUT,
 * -ENOMEM, -EBADMSG for a malformed answer; -EINTR when the dump was inconsistent; -EOPNOTSUPP when
 * a route came from the route cache, for then the kernel does not know RTM_F_FIB_MATCH.
 */
int mv_netlink_exchange(struct mv_netlink *nl, struct mv_topo *topo, struct nlmsghdr *request,
			bool *ret_answered);

#endif
