/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TOPO_H
#define MV_TOPO_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "gid.h"

/*
 * The topology snapshot: what this host looks like at one moment. Plain data, owned by one struct
 * mv_topo, no locks: whoever shares one between threads guards it. The collectors (topo_netlink.h,
 * topo_sysfs.h, the plugin's verbs query) fill it; mv_decide() only reads it.
 */

/* A network device of this network namespace. */
struct mv_netdev {
	uint32_t ifindex;
	uint32_t lower_ifindex; /* IFLA_LINK, 0: none or in another namespace */
	char name[IFNAMSIZ];
	uint8_t mac[6]; /* zero unless Ethernet */
	uint16_t vlan_id; /* host byte order, MV_VLAN_NONE when not a VLAN device */
	uint32_t mtu_bytes;
	bool up; /* IFF_UP */
	bool running; /* IFF_RUNNING: has carrier */
};

/* An address of a network device. */
struct mv_addr {
	uint32_t ifindex;
	union ibv_gid gid; /* IPv4 in mapped form */
	uint8_t prefix_len; /* bits of the GID, so 96 + n for IPv4 */
	/* network of the peer address: differs from gid's on point-to-point links */
	union ibv_gid prefix;
};

/* A unicast route out of one netdev. */
struct mv_route {
	uint32_t ifindex;
	union ibv_gid dst;
	/* bits of the GID, so 96 + n for IPv4; 128: known for one destination only */
	uint8_t dst_len;
	/* bits of the kernel's table entry behind it, at most dst_len: how specific it is */
	uint8_t fib_len;
	union ibv_gid src; /* holds for this source address only (policy routing); zero: for all */
	union ibv_gid gateway; /* zero: on the link */
	union ibv_gid prefsrc; /* zero: none */
	uint32_t table; /* RT_TABLE_... */
	uint32_t metric; /* smaller is preferred */
};

/* One entry of a port's GID table. Only used (non-zero) entries are stored. */
struct mv_gid_entry {
	union ibv_gid gid;
	uint32_t index;
	uint32_t ifindex; /* as the kernel says; may be of another network namespace; 0: none */
	enum mv_gid_type type;
};

#define MV_IPOIB_MAX 8

struct mv_port {
	uint8_t num; /* 1.. */
	uint8_t link_layer; /* IBV_LINK_LAYER_... */
	uint8_t state; /* enum ibv_port_state */
	uint16_t lid;
	uint32_t rate_mbps; /* 0: unknown */
	size_t n_gids, cap_gids; /* used, allocated */
	struct mv_gid_entry *gids; /* n_gids, ascending index */
	size_t n_ipoib;
	uint32_t ipoib[MV_IPOIB_MAX]; /* InfiniBand: netdevs of IP over InfiniBand on this port, here; ascending ifindex */
};

struct mv_device {
	char name[IBV_SYSFS_NAME_MAX];
	char pci[16]; /* "0000:03:00.0", "" when it has no PCI place */
	int numa_node; /* -1: unknown */
	uint64_t node_guid; /* host byte order, 0: unknown */
	size_t n_ports, cap_ports;
	struct mv_port *ports;
};

struct mv_topo {
	size_t n_devices, n_netdevs, n_addrs, n_routes;
	size_t cap_devices, cap_netdevs, cap_addrs, cap_routes; /* allocated */
	struct mv_device *devices;
	struct mv_netdev *netdevs;
	struct mv_addr *addrs;
	struct mv_route *routes;
};

/**
 * mv_topo_init - an empty snapshot
 */
void mv_topo_init(struct mv_topo *topo);

/**
 * mv_topo_fini - release everything in a snapshot
 * @topo: may be half built; afterwards it is empty, as after mv_topo_init()
 */
void mv_topo_fini(struct mv_topo *topo);

/**
 * mv_topo_clear_devices - forget all devices with their ports and GIDs
 */
void mv_topo_clear_devices(struct mv_topo *topo);

/**
 * mv_topo_clear_net - forget all netdevs, addresses and routes, keeping the memory
 */
void mv_topo_clear_net(struct mv_topo *topo);

/**
 * mv_topo_add_device - append a device without ports
 * @ret_device: written on success; valid until the next device is added
 *
 * Return: 0, -EINVAL for a name that is empty or too long, -EEXIST, -ENOMEM.
 */
int mv_topo_add_device(struct mv_topo *topo, const char *name, struct mv_device **ret_device);

/**
 * mv_topo_add_port - append a port without GIDs to a device
 * @ret_port: written on success; valid until the next port is added to @device
 *
 * Return: 0, -EEXIST, -ENOMEM.
 */
int mv_topo_add_port(struct mv_device *device, uint8_t num, struct mv_port **ret_port);

/**
 * mv_port_add_gid - put an entry into a port's table
 * @entry: copied; a zero GID is ignored; an entry of the same index is replaced
 *
 * Return: 0 or -ENOMEM.
 */
int mv_port_add_gid(struct mv_port *port, const struct mv_gid_entry *entry);

/**
 * mv_port_clear_gids - forget all entries of a port, keeping the memory
 */
void mv_port_clear_gids(struct mv_port *port);

/**
 * mv_port_add_ipoib - note a netdev of IP over InfiniBand; those beyond MV_IPOIB_MAX with the highest ifindexes are left out
 */
void mv_port_add_ipoib(struct mv_port *port, uint32_t ifindex);

/**
 * mv_topo_add_netdev - append a netdev, or replace the one of the same ifindex
 *
 * Return: 0 or -ENOMEM. Likewise for addresses and routes, which are always appended.
 */
int mv_topo_add_netdev(struct mv_topo *topo, const struct mv_netdev *netdev);
int mv_topo_add_addr(struct mv_topo *topo, const struct mv_addr *addr);
int mv_topo_add_route(struct mv_topo *topo, const struct mv_route *route);

/** mv_topo_remove_netdev - with its addresses; the others keep their order. May not be there */
void mv_topo_remove_netdev(struct mv_topo *topo, uint32_t ifindex);
/** mv_topo_insert_addr - before the address at place @at, at most n_addrs. Return: 0 or -ENOMEM. */
int mv_topo_insert_addr(struct mv_topo *topo, size_t at, const struct mv_addr *addr);
/** mv_topo_remove_addr - the one at place @at, below n_addrs */
void mv_topo_remove_addr(struct mv_topo *topo, size_t at);

/*
 * Look-ups: NULL when there is none. Results point into the snapshot.
 */
const struct mv_device *mv_topo_device(const struct mv_topo *topo, const char *name);
const struct mv_port *mv_device_port(const struct mv_device *device, uint8_t num);
const struct mv_gid_entry *mv_port_gid(const struct mv_port *port, uint32_t index);
const struct mv_netdev *mv_topo_netdev(const struct mv_topo *topo, uint32_t ifindex);
const struct mv_netdev *mv_topo_netdev_by_name(const struct mv_topo *topo, const char *name);

/**
 * mv_topo_gid_netdev - the netdev of this network namespace that an entry really belongs to
 *
 * The kernel reports an interface index that may be of another namespace, where the same number
 * means another device. So an entry counts as here only if the netdev of that index holds the
 * entry's address, or has the MAC address of which the entry is the default link-local GID.
 *
 * Return: the netdev, or NULL when the entry has none here.
 */
const struct mv_netdev *mv_topo_gid_netdev(const struct mv_topo *topo,
					   const struct mv_gid_entry *entry);

#endif
