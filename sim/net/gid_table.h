/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The GID table of a RoCE port, with the slot rules of Linux' ib_core
 * (drivers/infiniband/core/cache.c: find_gid(), gid_table_reserve_default(); roce_gid_mgmt.c: which
 * events add and remove what). Pure: no netlink, no files.
 *
 * In short: the first slots, one for each RoCE version, are kept for the default (link-local) GID.
 * Every address then takes the first free slot for v1 and the next free one for v2. A removed
 * address empties its slots at once, but a slot that a queue pair still refers to is not given to
 * another address before that reference is gone.
 */
#ifndef SIM_GID_TABLE_H
#define SIM_GID_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

/* What an entry belongs to: a port's netdev, or a VLAN on top of it. */
struct gid_owner {
	uint32_t ifindex;
	uint16_t vlan_id; /* SIM_NO_VLAN without */
	uint8_t mac[6];
};

enum gid_slot_use {
	GID_SLOT_FREE,
	GID_SLOT_VALID,
	GID_SLOT_PENDING, /* its address is gone, a queue pair still refers to it */
};

struct gid_table {
	uint32_t n; /* slots */
	uint32_t n_default; /* the first ones, for default GIDs only */
	/* Does a queue pair refer to the slot? NULL: never. */
	bool (*in_use)(void *arg, uint32_t index);
	void *arg;
	uint8_t use[SIM_MAX_GIDS]; /* enum gid_slot_use */
	uint8_t changed[SIM_MAX_GIDS]; /* set by every change of a slot; the caller looks and clears
					*/
	struct sim_gid gids[SIM_MAX_GIDS]; /* all zero unless valid */
};

/**
 * gid_table_init() - an empty table of a RoCE port.
 * @n: slots, 2 to SIM_MAX_GIDS; with fewer than two per RoCE version some addresses never get an
 * entry.
 */
void gid_table_init(struct gid_table *t, uint32_t n);

/**
 * gid_table_add() - give an address its v1 and v2 entries, unless it has them.
 *
 * Return: 0, -EINVAL for the zero GID, -ENOSPC if one of the two found no slot (the other may
 * have).
 */
int gid_table_add(struct gid_table *t, const uint8_t raw[16], const struct gid_owner *owner);

/** gid_table_del() - take an address' entries away; default entries stay. Nothing happens if it has
 * none. */
void gid_table_del(struct gid_table *t, const uint8_t raw[16], const struct gid_owner *owner);

/** gid_table_set_default() - the default entries, formed from owner->mac, unless there are some. */
void gid_table_set_default(struct gid_table *t, const struct gid_owner *owner);

/** gid_table_del_netdev() - all entries of a netdev, the default ones too. */
void gid_table_del_netdev(struct gid_table *t, uint32_t ifindex);

/** gid_link_local() - fe80::/64 with the modified EUI-64 of @mac. */
void gid_link_local(uint8_t raw[16], const uint8_t mac[6]);

/** gid_from_ipv4() - ::ffff:a.b.c.d; @addr in network byte order. */
void gid_from_ipv4(uint8_t raw[16], const void *addr);

#endif
