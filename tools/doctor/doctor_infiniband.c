// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* doctor: requirements of InfiniBand, so that connections by LID can move. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "lidfind.h"
#include "shell_word.h"

struct ib_port {
	const struct mv_device *device;
	const struct mv_port *port;
};

/* Ports that are served. Return: number, at most @max. */
static size_t ib_ports(struct doctor *d, struct ib_port *ret, size_t max)
{
	size_t n = 0;

	if (d->host_error) {
		doctor_skip(d, "there are no RDMA devices, or no netdevs could be read");
		return 0;
	}
	for (size_t i = 0; i < d->host.topo.n_devices; i++) {
		const struct mv_device *device = &d->host.topo.devices[i];

		for (size_t p = 0; doctor_serves(d, device->name) && p < device->n_ports && n < max; p++)
			if (device->ports[p].link_layer == IBV_LINK_LAYER_INFINIBAND)
				ret[n++] = (struct ib_port){device, &device->ports[p]};
	}
	return n;
}

#define PORTS_MAX 64

/* ---- IPoIB ----------------------------------------------------------------------------------- */

static const struct mv_netdev *running_netdev(const struct doctor *d, const struct mv_port *port)
{
	for (size_t i = 0; i < port->n_ipoib; i++) {
		const struct mv_netdev *netdev = mv_topo_netdev(&d->host.topo, port->ipoib[i]);

		if (netdev && netdev->up && netdev->running)
			return netdev;
	}
	return NULL;
}

static void check_netdev(struct doctor *d, const struct ib_port *ib)
{
	const struct mv_netdev *first = ib->port->n_ipoib ? mv_topo_netdev(&d->host.topo, ib->port->ipoib[0]) : NULL;

	if (ib->port->state != IBV_PORT_ACTIVE || running_netdev(d, ib->port))
		return;
	doctor_find(d, DOCTOR_NOTE, words("%s port %u", ib->device->name, ib->port->num),
		    first ? words("its IPoIB netdev %s is not up and running", first->name) : words("it has no IPoIB netdev here"),
		    first ? words("ip link set %s up", MV_SHELL(first->name)) : words("modprobe ib_ipoib; then bring the port's netdev up"));
}

static void check_netdevs(struct doctor *d)
{
	struct ib_port ports[PORTS_MAX];
	size_t n = ib_ports(d, ports, PORTS_MAX);

	for (size_t i = 0; i < n; i++)
		check_netdev(d, &ports[i]);
}

/* ---- P_Keys ---------------------------------------------------------------------------------- */

#define PKEYS_MAX 128

struct pkeys {
	uint32_t keys[PKEYS_MAX];
	size_t n;
};

/* Non-empty entries of the table. */
static void read_pkeys(const struct doctor *d, const struct ib_port *ib, struct pkeys *ret)
{
	char *text;

	ret->n = 0;
	for (unsigned int i = 0; i < PKEYS_MAX; i++) {
		unsigned long key;

		if (files_read(d, &text, "/sys/class/infiniband/%s/ports/%u/pkeys/%u", ib->device->name, ib->port->num, i))
			return;
		key = strtoul(text, NULL, 16);
		free(text);
		if (key & 0x7fff && key <= 0xffff)
			ret->keys[ret->n++] = (uint32_t)key;
	}
}

static bool has_pkey(const struct pkeys *pkeys, uint32_t key)
{
	for (size_t i = 0; i < pkeys->n; i++)
		if (pkeys->keys[i] == key)
			return true;
	return false;
}

static void compare_pkeys(struct doctor *d, const struct ib_port *one, const struct pkeys *pkeys, const struct ib_port *other,
			  const struct pkeys *others)
{
	for (size_t i = 0; i < pkeys->n; i++)
		if (!has_pkey(others, pkeys->keys[i])) {
			doctor_find(d, DOCTOR_NOTE, words("%s port %u", other->device->name, other->port->num),
				    words("it has not the P_Key 0x%04x, which %s port %u has", pkeys->keys[i], one->device->name, one->port->num),
				    words("make both ports members of that partition, in the subnet manager's partitions.conf; or leave it, if no program that "
					  "is to survive uses it"));
			return;
		}
}

static void check_pkeys(struct doctor *d)
{
	struct ib_port ports[PORTS_MAX];
	size_t n = ib_ports(d, ports, PORTS_MAX);
	struct pkeys *pkeys = calloc(n + 1, sizeof(*pkeys));

	if (!pkeys) {
		d->out_of_memory = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		read_pkeys(d, &ports[i], &pkeys[i]);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++)
			if (i != k && pkeys[i].n && pkeys[k].n)
				compare_pkeys(d, &ports[i], &pkeys[i], &ports[k], &pkeys[k]);
	free(pkeys);
}

/* ---- LIDs ------------------------------------------------------------------------------------ */

/* The first GID, which has the subnet prefix. NULL: none. */
static const union ibv_gid *gid_of(const struct mv_directory *dir, const struct mv_dir_rail *rail)
{
	return rail->link_layer == IBV_LINK_LAYER_INFINIBAND && rail->n_gids && mv_lid_is_unicast(rail->lid) ?
		       &dir->gids[rail->first_gid].gid : NULL;
}

static bool are_twins(const struct mv_directory *dir, uint32_t a, uint32_t b)
{
	const union ibv_gid *x = gid_of(dir, &dir->rails[a]), *y = gid_of(dir, &dir->rails[b]);

	return x && y && (mv_lid_is_of(dir->rails[a].lid, dir->rails[a].lmc, dir->rails[b].lid) || mv_lid_is_of(dir->rails[b].lid, dir->rails[b].lmc, dir->rails[a].lid)) && x->global.subnet_prefix == y->global.subnet_prefix;
}

static void find_twin(struct doctor *d, const struct mv_directory *dir, uint32_t ours)
{
	for (uint32_t r = 0; r < dir->header->n_rails; r++) {
		const struct mv_dir_rail *rail = &dir->rails[r];

		if (r == ours || !are_twins(dir, ours, r))
			continue;
		doctor_find(d, DOCTOR_NOTE, words("%s port %u", dir->rails[ours].device, dir->rails[ours].port),
			    words("%s of host %s has the same LID, %u, and the same subnet prefix: they are on two fabrics", rail->device,
				  dir->hosts[rail->host].name, rail->lid),
			    words("give each fabric a subnet prefix of its own (subnet_prefix in opensm.conf)"));
		return;
	}
}

static void check_lids_twice(struct doctor *d)
{
	const struct mv_directory *dir = &d->view.dir;

	if (d->view_error || !d->view.alive) {
		doctor_skip(d, "there is no directory of peers");
		return;
	}
	for (uint32_t r = 0; r < dir->hosts[0].n_rails; r++)
		find_twin(d, dir, r);
}

const struct doctor_check doctor_infiniband_checks[] = {
	{"ib-netdevs", "IPoIB netdevs of InfiniBand ports",
	 "Agents do not hear each other on that port, so its connections without a GRH stay as programs make them.", check_netdevs},
	{"ib-pkeys", "P_Keys of this host's InfiniBand ports", "Connections with that P_Key do not move to that port.", check_pkeys},
	{"lids-twice", "LIDs of this host that another port with the same subnet prefix has, too",
	 "Connections by that LID stay as programs make them while it cannot be told which port is meant.", check_lids_twice},
	{0},
};
