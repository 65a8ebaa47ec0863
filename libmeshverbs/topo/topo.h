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
 * Topology snapshot: this host's devices, netdevs, addresses and routes at one moment. Plain data, owned by one struct
 * mv_topo, without locks: the caller guards a shared one. The collectors (topo_netlink.h, topo_sysfs.h, the plugin's
 * verbs query) fill it; mv_decide() reads it.
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
	bool running; /* IFF_RUNNING: carrier */
};

/* An address of a network device. */
struct mv_addr {
	uint32_t ifindex;
	union ibv_gid gid; /* IPv4 in mapped form */
	uint8_t prefix_len; /* bits of the GID, so 96 + n for IPv4 */
	/* subnet of the peer address; differs from that of @gid on point-to-point links */
	union ibv_gid prefix;
};

/* A unicast route out of one netdev. */
struct mv_route {
	uint32_t ifindex;
	union ibv_gid dst;
	/* bits of the GID, so 96 + n for IPv4; 128: looked up for one destination */
	uint8_t dst_len;
	/* prefix length of the kernel's table entry, at most dst_len */
	uint8_t fib_len;
	union ibv_gid src; /* valid for this source address only (policy routing); zero: for all */
	union ibv_gid gateway; /* zero: on the link */
	union ibv_gid prefsrc; /* zero: none */
	uint32_t table; /* RT_TABLE_... */
	uint32_t metric; /* smaller is preferred */
};

/* A non-empty entry of a port's GID table. */
struct mv_gid_entry {
	union ibv_gid gid;
	uint32_t index;
	uint32_t ifindex; /* from the kernel; may be an index of another network namespace; 0: none */
	enum mv_gid_type type;
};

#define MV_IPOIB_MAX 8

struct mv_port {
	uint8_t num; /* 1.. */
	uint8_t link_layer; /* IBV_LINK_LAYER_... */
	uint8_t state; /* enum ibv_port_state */
	uint8_t lmc; /* InfiniBand: the port has 2^lmc LIDs, from @lid on; 0 .. 7 */
	uint16_t lid;
	uint32_t rate_mbps; /* 0: unknown */
	size_t n_gids, cap_gids; /* in use, allocated */
	struct mv_gid_entry *gids; /* n_gids, ascending index */
	size_t n_ipoib;
	/* InfiniBand: netdevs of IP over InfiniBand on this port, in this namespace; ascending ifindex */
	uint32_t ipoib[MV_IPOIB_MAX];
};

struct mv_device {
	char name[IBV_SYSFS_NAME_MAX];
	char pci[16]; /* e.g. "0000:03:00.0"; "": not a PCI device */
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

/** mv_topo_init - make an empty snapshot */
void mv_topo_init(struct mv_topo *topo);

/**
 * mv_topo_fini - free everything in a snapshot
 * @topo: may be half built; empty afterwards, as after mv_topo_init()
 */
void mv_topo_fini(struct mv_topo *topo);

/** mv_topo_clear_devices - remove all devices with their ports and GIDs */
void mv_topo_clear_devices(struct mv_topo *topo);

/** mv_topo_clear_net - remove all netdevs, addresses and routes; keeps the memory */
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

/** mv_port_clear_gids - remove all entries of a port; keeps the memory */
void mv_port_clear_gids(struct mv_port *port);

/**
 * mv_port_add_ipoib - add a netdev of IP over InfiniBand; beyond MV_IPOIB_MAX, those with the highest ifindexes are
 * left out
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

/** mv_topo_remove_netdev - remove a netdev, if present, with its addresses; the others keep their order */
void mv_topo_remove_netdev(struct mv_topo *topo, uint32_t ifindex);
/** mv_topo_insert_addr - insert before index @at, at most n_addrs. Return: 0 or -ENOMEM */
int mv_topo_insert_addr(struct mv_topo *topo, size_t at, const struct mv_addr *addr);
/** mv_topo_remove_addr - remove the address at index @at, below n_addrs */
void mv_topo_remove_addr(struct mv_topo *topo, size_t at);

/* Look-ups. Return: pointer into the snapshot; NULL: none. */
const struct mv_device *mv_topo_device(const struct mv_topo *topo, const char *name);
const struct mv_port *mv_device_port(const struct mv_device *device, uint8_t num);
const struct mv_gid_entry *mv_port_gid(const struct mv_port *port, uint32_t index);
const struct mv_netdev *mv_topo_netdev(const struct mv_topo *topo, uint32_t ifindex);
const struct mv_netdev *mv_topo_netdev_by_name(const struct mv_topo *topo, const char *name);

/**
 * mv_topo_gid_netdev - the netdev of this network namespace that an entry belongs to
 *
 * The kernel reports an interface index that may be of another namespace, where the same number means another device.
 * So an entry belongs to this namespace only if the netdev with that index has the entry's address, or has the MAC
 * address of which the entry is the default link-local GID.
 *
 * Return: the netdev; NULL: none in this namespace.
 */
const struct mv_netdev *mv_topo_gid_netdev(const struct mv_topo *topo,
					   const struct mv_gid_entry *entry);

#endif
