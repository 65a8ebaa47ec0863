// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* doctor: ports, and the GIDs that programs find on them. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "entry.h"
#include "shell_word.h"

typedef void (*port_visitor)(struct doctor *d, const struct mv_device *device,
			     const struct mv_port *port);

static void each_port(struct doctor *d, port_visitor visit)
{
	size_t i, p;

	if (d->host_error) {
		doctor_skip(d, "there are no RDMA devices, or no netdevs could be read");
		return;
	}
	for (i = 0; i < d->host.topo.n_devices; i++) {
		const struct mv_device *device = &d->host.topo.devices[i];

		for (p = 0; doctor_serves(d, device->name) && p < device->n_ports; p++)
			visit(d, device, &device->ports[p]);
	}
}

static char *port_words(const struct mv_device *device, const struct mv_port *port)
{
	return words("%s port %u", device->name, port->num);
}

static bool is_ethernet(const struct mv_port *port)
{
	return port->link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* The netdev of a port, by its GIDs; a VLAN's only if there is no other. */
static const struct mv_netdev *netdev_of(const struct doctor *d, const struct mv_port *port)
{
	const struct mv_netdev *netdev = NULL, *found;
	size_t g;

	for (g = 0; g < port->n_gids; g++) {
		found = mv_topo_gid_netdev(&d->host.topo, &port->gids[g]);
		if (found && (!netdev || netdev->vlan_id != MV_VLAN_NONE))
			netdev = found;
	}
	return netdev;
}

/* ---- representors
 * --------------------------------------------------------------------------------------------
 */

struct representors {
	const char *device;
	unsigned int n;
};

/* Their netdevs have port names like pf0vf1 or c1pf0sf3 (kernel: Documentation/networking/switchdev.rst); an uplink's is p0. */
static void visit_representor(struct doctor *d, const char *name, void *arg)
{
	struct representors *found = arg;
	const char *at;
	char *text;

	if (files_read(d, &text, "/sys/class/infiniband/%s/device/net/%s/phys_port_name", found->device, name))
		return;
	at = strstr(text, "pf");
	found->n += at && (strstr(at, "vf") || strstr(at, "sf"));
	free(text);
}

/* Of how many VFs and SFs does the device have representors, because its card is in switchdev mode? */
static unsigned int n_representors(struct doctor *d, const struct mv_device *device)
{
	struct representors found = {.device = device->name};
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/net", device->name);
	files_each(d, path, visit_representor, &found);
	return found.n;
}

/* A port for a representor, beside that of the uplink: no RoCE of this host, GIDs never. */
static bool is_representor(struct doctor *d, const struct mv_device *device, const struct mv_port *port)
{
	return port->num > 1 && !port->n_gids && is_ethernet(port) && n_representors(d, device);
}

/* ---- down
 * ----------------------------------------------------------------------------------------------------
 */

static void check_port(struct doctor *d, const struct mv_device *device, const struct mv_port *port)
{
	const struct mv_netdev *netdev = netdev_of(d, port);
	char *what, *fix;

	if (port->state == IBV_PORT_ACTIVE || is_representor(d, device, port))
		return;
	if (!is_ethernet(port)) {
		what = words("its state is %s", port->state == IBV_PORT_INIT ? "INIT: no subnet manager has set it up"
						: port->state == IBV_PORT_ARMED
							? "ARMED: the subnet manager has not activated it"
							: "DOWN");
		fix = words("start a subnet manager (opensm) in that fabric, or check the cable");
	} else if (netdev && !netdev->up) {
		what = words("it is down: netdev %s is not up", netdev->name);
		fix = words("ip link set %s up", MV_SHELL(netdev->name));
	} else if (netdev) {
		what = words("it is down: netdev %s has no carrier", netdev->name);
		fix = words("check the cable of %s, and the port at its other end", netdev->name);
	} else {
		what = words("it is down, and its netdev is not in this network namespace");
		fix = words("check the cable and ip link where the netdev is");
	}
	if (fix) {
		char *longer = words("%s; if it is not to be used, name %s in exclude in %s", fix,
				     device->name, d->status.config_file);

		free(fix);
		fix = longer;
	}
	doctor_find(d, DOCTOR_ACTION, port_words(device, port), what, fix);
}

static void check_down(struct doctor *d)
{
	each_port(d, check_port);
}

/* ---- GIDs
 * ----------------------------------------------------------------------------------------------------
 */

static size_t count_elsewhere(const struct doctor *d, const struct mv_port *port,
			      const struct mv_gid_entry **ret_first)
{
	size_t g, n = 0;

	for (g = 0; g < port->n_gids; g++) {
		if (mv_topo_gid_netdev(&d->host.topo, &port->gids[g]))
			continue;
		if (!n++)
			*ret_first = &port->gids[g];
	}
	return n;
}

static void check_gids_of(struct doctor *d, const struct mv_device *device,
			  const struct mv_port *port)
{
	const struct mv_gid_entry *first = NULL;
	char gid[MV_GID_STRLEN];
	size_t n;

	if (!is_ethernet(port))
		return;
	n = count_elsewhere(d, port, &first);
	if (n && n == port->n_gids)
		doctor_find(
			d, DOCTOR_ACTION, port_words(device, port),
			words("none of its %zu GIDs belongs to a netdev of this network namespace",
			      n),
			d->container ? words("give the pod the netdev as well: a VF by SR-IOV, a "
					     "macvlan on the port, or the host's "
					     "network (" MESHVERBS_DOC_DIR "/containers.md)")
				     : words("run programs where its netdev is (ip netns), or "
					     "bring the netdev here"));
	else if (n)
		doctor_find(d, DOCTOR_NOTE, port_words(device, port),
			    words("%zu of its %zu GIDs, first index %u (%s), belong to netdevs "
				  "that are not here",
				  n, port->n_gids, first->index, mv_gid_format(&first->gid, gid)),
			    words("nothing, where meshverbs is active; programs without it must be "
				  "told an index that "
				  "meshverbs gids calls usable"));
}

static void check_gids(struct doctor *d)
{
	each_port(d, check_gids_of);
}

/* ---- addresses
 * -----------------------------------------------------------------------------------------------
 */

static bool is_routable(const struct mv_gid_entry *entry)
{
	return mv_gid_family(&entry->gid) != MV_FAMILY_LINK_LOCAL;
}

/* Of a netdev that is part of a bridge or bond: the address belongs there. Return: whether it was. */
static bool find_in_master(struct doctor *d, const struct mv_device *device, const struct mv_port *port,
			   const struct mv_netdev *netdev)
{
	bool bond = files_exist(d, "/sys/class/net/%s/bonding_slave", netdev->name);
	bool bridge = files_exist(d, "/sys/class/net/%s/brport", netdev->name);
	char master[64];

	if (!files_link(d, master, sizeof(master), "/sys/class/net/%s/master", netdev->name))
		return false;
	if (bond || bridge)
		doctor_find(d, DOCTOR_ACTION, port_words(device, port),
			    words("netdev %s is in %s %s, and that has neither an IPv4 nor a global IPv6 address", netdev->name,
				  bond ? "bond" : "bridge", master),
			    words("if programs of this host are to use the port: ip addr add ADDRESS/PREFIX dev %s, not dev %s; if it is "
				  "for others alone, name %s in exclude in %s",
				  MV_SHELL(master), MV_SHELL(netdev->name), device->name, d->status.config_file));
	else if (!strcmp(master, "ovs-system"))
		doctor_find(d, DOCTOR_ACTION, port_words(device, port),
			    words("netdev %s is a port of Open vSwitch, and so has no address of its own", netdev->name),
			    words("if programs of this host are to use the NIC, give it, or an SF or VF of it, a netdev outside of Open "
				  "vSwitch; else name %s in exclude in %s",
				  device->name, d->status.config_file));
	else
		return false; /* a VRF, say: its members have addresses of their own */
	return true;
}

static void find_empty_table(struct doctor *d, const struct mv_device *device, const struct mv_port *port)
{
	if (n_representors(d, device))
		doctor_find(d, DOCTOR_ACTION, port_words(device, port),
			    words("its GID table is empty, and the card is in switchdev mode, in which the uplink may have no RoCE"),
			    words("for programs of this host use an SF or VF, or devlink dev eswitch set pci/%s mode legacy; if the NIC is "
				  "for virtual machines alone, name %s in exclude in %s",
				  MV_SHELL(device->pci), device->name, d->status.config_file));
	else
		doctor_find(d, DOCTOR_ACTION, port_words(device, port), words("its GID table is empty"),
			    words("bring its netdev up and give it an address; the kernel makes the GIDs then"));
}

static void check_addresses_of(struct doctor *d, const struct mv_device *device,
			       const struct mv_port *port)
{
	const struct mv_netdev *netdev = netdev_of(d, port);
	size_t g;

	/* A port that is down, or has its netdev elsewhere, has been told of. */
	if (!is_ethernet(port) || port->state != IBV_PORT_ACTIVE || (port->n_gids && !netdev) ||
	    is_representor(d, device, port))
		return;
	for (g = 0; g < port->n_gids; g++)
		if (is_routable(&port->gids[g]) &&
		    mv_topo_gid_netdev(&d->host.topo, &port->gids[g]))
			return;
	if (!port->n_gids)
		find_empty_table(d, device, port);
	else if (!find_in_master(d, device, port, netdev))
		doctor_find(d, DOCTOR_ACTION, port_words(device, port),
			    words("netdev %s has neither an IPv4 nor a global IPv6 address",
				  netdev->name),
			    words("ip addr add ADDRESS/PREFIX dev %s, for good in your network "
				  "configuration",
				  MV_SHELL(netdev->name)));
}

static void check_addresses(struct doctor *d)
{
	each_port(d, check_addresses_of);
}

const struct doctor_check doctor_port_checks[] = {
	{"ports-down", "state of the ports",
	 "A port that is down carries nothing: connections that programs make on it go by another "
	 "one, or fail.",
	 check_down},
	{"gids-elsewhere", "GIDs whose netdev is in another network namespace",
	 "A connection from such a GID fails with 'No such device', or its packets never leave.",
	 check_gids},
	{"addresses", "IP addresses of the ports",
	 "A link-local GID reaches neighbours on its own link only, and many programs take none.",
	 check_addresses},
	{0},
};
