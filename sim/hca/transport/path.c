/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * From an address vector to the headers of a packet. As in the hardware, a queue pair holds the
 * *index* of its source GID: what the table says there when a packet leaves is what the packet
 * carries, and an entry that was emptied makes the queue pair mute.
 */
#include "hca.h"

#include <string.h>

static void read_entry(struct sim_port *port, uint32_t index, struct sim_gid *ret,
		       uint32_t *ret_generation)
{
	uint32_t s;

	do {
		s = sim_port_read_begin(port);
		*ret = port->gids[index];
		*ret_generation = port->gid_generation;
	} while (sim_port_read_retry(port, s));
}

/**
 * path_refresh() - bring source GID, MAC, RoCE version and netdev of @p up to date with the port's
 * table.
 * @port: from 1.
 *
 * Return: whether a packet can leave.
 */
bool path_refresh(struct hca *h, struct sim_dev *dev, uint32_t port, struct path *p)
{
	struct sim_port *sp = &dev->ports[port - 1];
	struct sim_gid g;

	if (sp->link_layer == SIM_LINK_INFINIBAND) {
		if (!p->usable)
			p->usable = lid_path(h, sp, port, p);
		return p->usable;
	}
	if (p->fresh && p->gid_generation == *(volatile uint32_t *)&sp->gid_generation)
		return p->usable;
	if (p->sgid_index >= SIM_MAX_GIDS)
		return false;
	read_entry(sp, p->sgid_index, &g, &p->gid_generation);
	p->fresh = true;
	p->usable = g.type == SIM_GID_ROCE_V1 || g.type == SIM_GID_ROCE_V2;
	if (!p->usable)
		return false;
	memcpy(p->wire.smac, g.mac, 6);
	memcpy(p->wire.sgid, g.raw, 16);
	p->wire.v1 = g.type == SIM_GID_ROCE_V1;
	p->ifindex = g.ifindex;
	p->loopback = !memcmp(p->wire.dmac, g.mac, 6);
	return true;
}

/** path_hold_gid() - @n more (or fewer) objects of this process refer to entry @index; @port
 * from 1. */
void path_hold_gid(struct hca *h, uint32_t dev, uint32_t port, uint32_t index, int n)
{
	if (index < SIM_MAX_GIDS && port >= 1 && port <= SIM_MAX_PORTS)
		atomic_fetch_add_explicit(&h->state->slots[h->slot].gid_refs[dev][port - 1][index],
					  (uint16_t)n, memory_order_acq_rel);
}
