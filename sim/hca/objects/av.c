/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "av.h"

#include <errno.h>
#include <string.h>

static bool is_v4(const uint8_t *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, prefix, sizeof(prefix));
}

/* A subnet manager would have set the paths up already; here the neighbour table has to learn the
 * MAC. */
static int resolve_lid(struct ucontext *uc, const struct sim_port *port, const struct av *av)
{
	struct sim_state *st = uc->hca->state;
	const uint8_t *src = lid_address(st, port->lid), *dst = lid_address(st, av->dlid);
	uint8_t mac[6];
	bool found, wait;

	if (!src || !dst || av->dlid >> port->lmc == port->lid >> port->lmc)
		return 0; /* packets to it will be lost */
	hca_lock(uc->hca);
	wait = lid_is_worth_waiting(uc->hca, av->dlid);
	hca_unlock(uc->hca);
	if (!wait)
		return 0;
	found = !neigh_resolve(src, dst, port->ifindex, port->mac, st, mac);
	hca_lock(uc->hca);
	lid_learn(uc->hca, av->dlid, found ? mac : NULL);
	hca_unlock(uc->hca);
	return 0;
}

int av_resolve(struct ucontext *uc, struct av *av)
{
	static const uint8_t zero[16];
	struct sim_port *port = ucontext_port(uc, av->port);
	struct sim_gid g;
	uint32_t s;

	if (!port)
		return -EINVAL;
	if (port->link_layer == SIM_LINK_INFINIBAND)
		return resolve_lid(uc, port, av);
	if (!av->is_global || av->sgid_index >= port->n_gids || !memcmp(av->dgid, zero, 16))
		return -EINVAL;
	do {
		s = sim_port_read_begin(port);
		g = port->gids[av->sgid_index];
	} while (sim_port_read_retry(port, s));
	if (g.type == SIM_GID_NONE)
		return -ENODATA;
	if (is_v4(g.raw) != is_v4(av->dgid) && av->dgid[0] != 0xff)
		return -EINVAL;
	return neigh_resolve(g.raw, av->dgid, g.ifindex, g.mac, uc->hca->state, av->dmac);
}
