/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ROUTE_H
#define MD_ROUTE_H

#include <netinet/in.h>
#include <stdint.h>

/**
 * md_route_ifindex - by which netdev would the kernel send a packet?
 * @to: IPv4 in mapped form
 * @from: source address for policy rules; NULL: the kernel chooses
 *
 * Opens a socket for each call: for rare use.
 *
 * Return: ifindex; 0: not known.
 */
uint32_t md_route_ifindex(const struct in6_addr *to, const struct in6_addr *from);

#endif
