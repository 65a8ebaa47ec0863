// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* doctor: several NICs in one subnet, and whether ARP keeps them apart. */
#include <string.h>

#include "doctor.h"
#include "entry.h"
#include "shell_word.h"

#define NICS_MAX 64

/* A RoCE netdev with one of its subnets. */
struct nic {
	const char *device;
	uint8_t port_num;
	const struct mv_netdev *netdev;
	union ibv_gid prefix;
	uint8_t prefix_len;
};

struct nics {
	struct nic at[NICS_MAX];
	size_t n;
};

/* A netdev may be found several times, e.g. by VLANs; each address counts once. */
static void add_nic(struct nics *nics, const struct nic *nic)
{
	size_t i;

	for (i = 0; i < nics->n; i++)
		if (nics->at[i].netdev == nic->netdev &&
		    nics->at[i].prefix_len == nic->prefix_len &&
		    mv_gid_equal(&nics->at[i].prefix, &nic->prefix))
			return;
	if (nics->n < NICS_MAX)
		nics->at[nics->n++] = *nic;
}

static void add_port(struct doctor *d, struct nics *nics, const char *device,
		     const struct mv_port *port)
{
	size_t g;

	for (g = 0; g < port->n_gids; g++) {
		const struct mv_gid_entry *entry = &port->gids[g];
		const struct mv_netdev *netdev = mv_topo_gid_netdev(&d->host.topo, entry);
		const struct mv_addr *addr = netdev ? entry_addr(&d->host.topo, entry) : NULL;
		struct nic nic = {.device = device, .port_num = port->num, .netdev = netdev};

		/* A point-to-point address, or a /32, has no shared subnet. */
		if (!addr || mv_gid_family(&addr->gid) == MV_FAMILY_LINK_LOCAL ||
		    addr->prefix_len >= 127)
			continue;
		nic.prefix = mv_gid_network(&addr->prefix, addr->prefix_len);
		nic.prefix_len = addr->prefix_len;
		add_nic(nics, &nic);
	}
}

static void gather(struct doctor *d, struct nics *nics)
{
	size_t i, p;

	nics->n = 0;
	for (i = 0; i < d->host.topo.n_devices; i++) {
		const struct mv_device *device = &d->host.topo.devices[i];

		for (p = 0; doctor_serves(d, device->name) && p < device->n_ports; p++)
			if (device->ports[p].link_layer == IBV_LINK_LAYER_ETHERNET)
				add_port(d, nics, device->name, &device->ports[p]);
	}
}

static bool share(const struct nic *a, const struct nic *b)
{
	uint8_t len = a->prefix_len < b->prefix_len ? a->prefix_len : b->prefix_len;
	union ibv_gid of_a = mv_gid_network(&a->prefix, len),
		      of_b = mv_gid_network(&b->prefix, len);

	/* Netdevs of one port (its own, and a VLAN, macvlan or bridge) are not two NICs. */
	if (a->netdev == b->netdev || (!strcmp(a->device, b->device) && a->port_num == b->port_num))
		return false;
	return mv_gid_equal(&of_a, &of_b);
}

/* Is there a NIC in the same subnet, of indexes @from to @to? */
static bool shares(const struct nics *nics, size_t i, size_t from, size_t to)
{
	size_t o;

	for (o = from; o < to; o++)
		if (o != i && share(&nics->at[i], &nics->at[o]))
			return true;
	return false;
}

static void put_names(const struct nics *nics, size_t first, char *buf, size_t size)
{
	size_t len = 0, i;

	buf[0] = '\0';
	for (i = first; i < nics->n && len < size; i++)
		if (i == first || share(&nics->at[first], &nics->at[i]))
			len += (size_t)snprintf(buf + len, size - len, "%s%s (%s)", len ? ", " : "",
						nics->at[i].device, nics->at[i].netdev->name);
}

static bool can_look(struct doctor *d, struct nics *nics)
{
	if (d->host_error) {
		doctor_skip(d, "there are no RDMA devices, or no netdevs could be read");
		return false;
	}
	gather(d, nics);
	return true;
}

static void check_same_subnet(struct doctor *d)
{
	char names[256], prefix[MV_GID_STRLEN + 8];
	struct nics nics;
	size_t i;

	if (!can_look(d, &nics))
		return;
	for (i = 0; i < nics.n; i++) {
		if (shares(&nics, i, 0, i) || !shares(&nics, i, i, nics.n))
			continue;
		put_names(&nics, i, names, sizeof(names));
		doctor_find(d, DOCTOR_NOTE,
			    words("%s", prefix_text(&nics.at[i].prefix, nics.at[i].prefix_len,
						    prefix, sizeof(prefix))),
			    words("several NICs are in this subnet: %s", names),
			    words("give each rail a subnet of its own; or keep ARP on its "
				  "interface (see arp) and add, for each "
				  "address, a route table with a rule for packets from it"));
	}
}

/* ---- ARP
 * -----------------------------------------------------------------------------------------------------
 */

static long effective(struct doctor *d, const char *netdev, const char *name)
{
	long all = files_number(d, -1, "/proc/sys/net/ipv4/conf/all/%s", name);
	long own = files_number(d, -1, "/proc/sys/net/ipv4/conf/%s/%s", netdev, name);

	return all > own ? all : own;
}

static void check_arp_of(struct doctor *d, const struct nic *nic)
{
	long announce = effective(d, nic->netdev->name, "arp_announce");
	long ignore = effective(d, nic->netdev->name, "arp_ignore");

	if (announce < 0 || ignore < 0) {
		doctor_skip(d, "/proc/sys/net/ipv4/conf cannot be read");
		return;
	}
	if (announce >= 2 && ignore >= 1)
		return;
	doctor_find(
		d, DOCTOR_ACTION, words("%s (%s)", nic->netdev->name, nic->device),
		words("arp_announce is %ld, arp_ignore is %ld, and another NIC is in its subnet",
		      announce, ignore),
		words("sysctl -w net.ipv4.conf.%s.arp_announce=2 net.ipv4.conf.%s.arp_ignore=1, "
		      "for good in a file in /etc/sysctl.d; then ip neigh flush on the other "
		      "hosts. "
		      "meshverbs-arp(8) does that by udev, unless told otherwise",
		      MV_SHELL(nic->netdev->name), MV_SHELL(nic->netdev->name)));
}

static bool is_told(const struct nics *nics, size_t i)
{
	size_t o;

	for (o = 0; o < i; o++)
		if (nics->at[o].netdev == nics->at[i].netdev && shares(nics, o, 0, nics->n) &&
		    mv_gid_family(&nics->at[o].prefix) == MV_FAMILY_IPV4)
			return true;
	return false;
}

static void check_arp(struct doctor *d)
{
	struct nics nics;
	size_t i;

	if (!can_look(d, &nics))
		return;
	for (i = 0; i < nics.n; i++)
		if (mv_gid_family(&nics.at[i].prefix) == MV_FAMILY_IPV4 &&
		    shares(&nics, i, 0, nics.n) && !is_told(&nics, i))
			check_arp_of(d, &nics.at[i]);
}

const struct doctor_check doctor_net_checks[] = {
	{"same-subnet", "NICs that share a subnet",
	 "The kernel sends everything to that subnet through one of them, and other hosts may "
	 "reach one NIC's address at "
	 "another's.",
	 check_same_subnet},
	{"arp", "ARP settings of NICs that share a subnet",
	 "One NIC answers ARP for another's address, peers send to the wrong MAC, and queue pairs "
	 "die with retry errors.",
	 check_arp},
	{0},
};
