/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ROUTE_H
#define MD_ROUTE_H

#include <netinet/in.h>
#include <stdint.h>

/**
 * md_route_ifindex - by which netdev would the kernel send something?
 * @to: IPv4 in mapped form
 * @from: address that it is sent from, which policy rules may look at; NULL: the kernel's choice
 *
 * A socket for each call: it is for exceptions.
 *
 * Return: 0 when that cannot be told.
 */
uint32_t md_route_ifindex(const struct in6_addr *to, const struct in6_addr *from);

#endif
