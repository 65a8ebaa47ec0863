/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * InfiniBand link layer: packets are addressed by LID, and travel in the same UDP datagrams between
 * the addresses that the topology gives the LIDs. A GRH is not carried. Unlike on Ethernet nothing
 * is resolved when a queue pair or an address handle is made; a LID that nobody has is a
 * destination that never answers.
 */
#include "hca.h"

#include <string.h>

#define ASK_AGAIN_NS 2000000ull

static int lid_index(const struct sim_state *st, uint16_t lid)
{
	const struct sim_lid *l = sim_lid_find(st, lid);

	return l ? (int)(l - st->lids) : -1;
}

/** lid_address() - GID form of the address behind a LID, or NULL. */
const uint8_t *lid_address(const struct sim_state *st, uint16_t lid)
{
	const struct sim_lid *l = sim_lid_find(st, lid);

	return l ? l->addr : NULL;
}

/** lid_of_address() - the other way round; 0 if no LID has it. */
uint16_t lid_of_address(const struct sim_state *st, const uint8_t *addr)
{
	const struct sim_lid *l = sim_lid_of_address(st, addr);

	return l ? l->lid : 0;
}

/** lid_is_worth_waiting() - has nobody waited for its MAC in vain? No queue pair of a real port waits at all. */
bool lid_is_worth_waiting(const struct hca *h, uint16_t lid)
{
	int i = lid_index(h->state, lid);

	return i >= 0 && !h->lids[i].in_vain;
}

/** lid_learn() - the MAC behind a LID, found by somebody who could wait for it; NULL: it could not be found. */
void lid_learn(struct hca *h, uint16_t lid, const uint8_t *mac)
{
	int i = lid_index(h->state, lid);

	if (i < 0)
		return;
	h->lids[i].in_vain = !mac;
	if (!mac)
		return;
	memcpy(h->lids[i].mac, mac, 6);
	h->lids[i].known = true;
}

/** lid_path() - headers for p->dlid from @port. Return: false if there is no such LID, or its MAC
 * is not known yet. */
bool lid_path(struct hca *h, const struct sim_port *port, uint32_t port_index, struct path *p)
{
	const uint8_t *src = lid_address(h->state, port->lid);
	int i = lid_index(h->state, p->dlid);

	(void)port_index;
	if (!src || i < 0)
		return false;
	memcpy(p->wire.sgid, src, 16);
	memcpy(p->wire.dgid, h->state->lids[i].addr, 16);
	memcpy(p->wire.smac, port->mac, 6);
	p->wire.v1 = false;
	p->wire.hop_limit = 64;
	p->ifindex = port->ifindex;
	p->loopback = p->dlid >> port->lmc == port->lid >> port->lmc;
	if (p->loopback) {
		memcpy(p->wire.dmac, port->mac, 6);
		return true;
	}
	if (!h->lids[i].known && h->now_ns >= h->lids[i].asked_ns) {
		h->lids[i].asked_ns = h->now_ns + ASK_AGAIN_NS;
		h->lids[i].known = !neigh_try(src, p->wire.dgid, p->ifindex, h->lids[i].mac);
	}
	memcpy(p->wire.dmac, h->lids[i].mac, 6);
	return h->lids[i].known;
}
