/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The netdevs and addresses of a network namespace, from rtnetlink, and a call for each change. */
#ifndef SIM_NETMON_H
#define SIM_NETMON_H

#include <linux/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_link {
	uint32_t ifindex;
	uint32_t flags; /* IFF_* */
	uint32_t mtu;
	uint32_t parent; /* ifindex of the netdev below a VLAN; 0 if this is none */
	uint16_t vlan_id; /* SIM_NO_VLAN if this is none */
	uint8_t mac[6];
	char name[IFNAMSIZ];
};

struct net_addr {
	uint32_t ifindex;
	uint8_t raw[16]; /* as a GID: IPv6, or ::ffff:a.b.c.d */
};

struct netmon_ops {
	/* @old is NULL for a netdev that is new; both are valid during the call only */
	void (*link_changed)(void *arg, const struct net_link *now, const struct net_link *old);
	void (*link_gone)(void *arg, const struct net_link *old);
	void (*addr_added)(void *arg, const struct net_link *link, const struct net_addr *addr);
	void (*addr_removed)(void *arg, const struct net_link *link, const struct net_addr *addr);
};

struct netmon {
	int fd; /* poll it for input, then call netmon_read() */
	const struct netmon_ops *ops;
	void *arg;
	struct net_link *links; /* by growing ifindex as the kernel lists them */
	struct net_addr *addrs; /* of each netdev: IPv4 first, each family in the kernel's order */
	size_t n_links, n_addrs;
};

/**
 * netmon_open() - subscribe, read everything, and report it as new.
 *
 * Return: 0, or -errno of the netlink socket; -ENOMEM.
 */
int netmon_open(struct netmon *m, const struct netmon_ops *ops, void *arg);

/**
 * netmon_read() - take in what the kernel has sent and report it, without blocking.
 *
 * Where messages were lost, everything is read again and only the differences are reported.
 *
 * Return: 0, or -errno: the monitor cannot go on.
 */
int netmon_read(struct netmon *m);

void netmon_close(struct netmon *m);

/** netmon_link() - a netdev by index, NULL if there is none. */
const struct net_link *netmon_link(const struct netmon *m, uint32_t ifindex);

#endif
