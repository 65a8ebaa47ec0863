/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "av.h"

#include <errno.h>
#include <string.h>

static bool is_v4(const uint8_t *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, prefix, sizeof(prefix));
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
		return 0;
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
