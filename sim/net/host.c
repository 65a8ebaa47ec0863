// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "sysfs_out.h"

static struct sim_port *port_of(struct host *h, uint32_t dev)
{
	return &h->state->devs[dev].ports[0];
}

static bool is_roce(struct host *h, uint32_t dev)
{
	return port_of(h, dev)->link_layer == SIM_LINK_ETHERNET;
}

static bool slot_referred(void *arg, uint32_t index)
{
	const struct gid_user *u = arg;

	host_reap(u->host);
	return sim_gid_in_use(u->host->state, u->dev, 0, index);
}

static void report(const char *dev, int err)
{
	if (err)
		fprintf(stderr, "simhostd: sysfs of %s: %s\n", dev, strerror(-err));
}

/*
 * Largest RDMA MTU whose packets fit: the kernel (iboe_get_mtu()) takes off what headers can need
 * at most, GRH 40, UDP 8, BTH 12, XRC 4, AtomicETH 28, ICRC 4.
 */
static uint8_t rdma_mtu(uint32_t netdev_mtu)
{
	static const uint32_t headers = 40 + 8 + 12 + 4 + 28 + 4;
	uint8_t mtu = 0;

	for (uint32_t bytes = 256; bytes <= 4096 && bytes + headers <= netdev_mtu; bytes *= 2)
		mtu++;
	return mtu ? mtu : 1;
}

/* Publish what changed in the GID table: shared state first, then files, then events, as readers
 * expect. */
static void publish_gids(struct host *h, uint32_t dev)
{
	struct gid_table *t = &h->tables[dev];
	struct sim_port *p = port_of(h, dev);
	const char *name = h->state->devs[dev].name;
	unsigned int n = 0;

	sim_port_write_begin(p);
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->changed[i]) {
			p->gids[i] = t->gids[i];
			n++;
		}
	}
	p->gid_generation += n;
	sim_port_write_end(p);
	for (uint32_t i = 0; i < t->n; i++) {
		const struct net_link *l = netmon_link(&h->net, t->gids[i].ifindex);

		if (t->changed[i])
			report(name, sysfs_port_gid(name, i, &t->gids[i], l ? l->name : ""));
		t->changed[i] = 0;
	}
	/* One event for each entry, as ib_core sends them. */
	while (n--)
		sim_event_push(h->state, SIM_EVENT_GID_CHANGE, dev, 1, 0);
}

/* As mlx5_query_port_roce(): a RoCE port without carrier is "disabled", whoever caused it. */
static void publish_state(struct host *h, uint32_t dev, const struct net_link *l)
{
	struct sim_port *p = port_of(h, dev);
	bool up = l && (l->flags & IFF_UP) && (l->flags & IFF_LOWER_UP),
	     was_up = p->state == SIM_PORT_ACTIVE;
	uint8_t down_phys = is_roce(h, dev) ? SIM_PHYS_DISABLED : SIM_PHYS_POLLING;

	sim_port_write_begin(p);
	p->state = up ? SIM_PORT_ACTIVE : SIM_PORT_DOWN;
	p->phys_state = up ? SIM_PHYS_LINKUP : down_phys;
	p->ifindex = l ? l->ifindex : 0;
	if (l) {
		p->active_mtu = rdma_mtu(l->mtu);
		memcpy(p->mac, l->mac, sizeof(p->mac));
	}
	sim_port_write_end(p);
	if (up == was_up)
		return;
	report(h->state->devs[dev].name, sysfs_port_state(h->state->devs[dev].name, p));
	sim_event_push(h->state, up ? SIM_EVENT_PORT_ACTIVE : SIM_EVENT_PORT_ERR, dev, 1, 0);
}

static bool is_primary(struct host *h, uint32_t dev, const struct net_link *l)
{
	return !strcmp(port_of(h, dev)->netdev, l->name);
}

/* Does @l belong to the RoCE port: its netdev, a VLAN on it, or a stand-in for one? */
static bool owns(struct host *h, uint32_t dev, const struct net_link *l, struct gid_owner *owner)
{
	const struct sim_port *p = port_of(h, dev);

	owner->ifindex = l->ifindex;
	owner->vlan_id = l->vlan_id;
	memcpy(owner->mac, l->mac, sizeof(owner->mac));
	if (!is_roce(h, dev))
		return false;
	if (is_primary(h, dev, l) || (l->parent && l->parent == p->ifindex))
		return true;
	for (uint32_t i = 0; i < h->config.n_stand_ins; i++) {
		const struct config_stand_in *s = &h->config.stand_ins[i];

		if (!strcmp(s->netdev, l->name) && !strcmp(s->parent, p->netdev)) {
			owner->vlan_id = s->vlan_id;
			return true;
		}
	}
	return false;
}

/* What the kernel does for NETDEV_REGISTER and NETDEV_UP: default entries, then every address the
 * netdev has. */
static void add_all(struct host *h, uint32_t dev, const struct net_link *l,
		    const struct gid_owner *owner)
{
	if (is_primary(h, dev, l))
		gid_table_set_default(&h->tables[dev], owner);
	for (size_t i = 0; i < h->net.n_addrs; i++)
		if (h->net.addrs[i].ifindex == l->ifindex)
			gid_table_add(&h->tables[dev], h->net.addrs[i].raw, owner);
}

static void on_link(void *arg, const struct net_link *now, const struct net_link *old)
{
	struct host *h = arg;
	bool new_mac = old && memcmp(old->mac, now->mac, sizeof(now->mac));
	bool came_up = (now->flags & IFF_UP) && (!old || !(old->flags & IFF_UP));
	struct gid_owner owner;

	if (old && strcmp(old->name, now->name))
		sysfs_netdev_gone(old->name);
	if (!old || strcmp(old->name, now->name))
		sysfs_netdev_new(now->name);
	for (uint32_t dev = 0; dev < h->state->n_devs; dev++) {
		if (is_primary(h, dev, now))
			publish_state(h, dev, now);
		if (!owns(h, dev, now, &owner))
			continue;
		if (new_mac)
			gid_table_del_netdev(&h->tables[dev], now->ifindex);
		if (!old || new_mac || came_up)
			add_all(h, dev, now, &owner);
		publish_gids(h, dev);
	}
}

static void on_link_gone(void *arg, const struct net_link *old)
{
	struct host *h = arg;

	sysfs_netdev_gone(old->name);
	for (uint32_t dev = 0; dev < h->state->n_devs; dev++) {
		if (is_primary(h, dev, old))
			publish_state(h, dev, NULL);
		if (!is_roce(h, dev))
			continue;
		gid_table_del_netdev(&h->tables[dev], old->ifindex);
		publish_gids(h, dev);
	}
}

static void on_addr(struct host *h, const struct net_link *l, const struct net_addr *a, bool added)
{
	struct gid_owner owner;

	for (uint32_t dev = 0; dev < h->state->n_devs; dev++) {
		if (!owns(h, dev, l, &owner))
			continue;
		if (!added)
			gid_table_del(&h->tables[dev], a->raw, &owner);
		else if (gid_table_add(&h->tables[dev], a->raw, &owner) == -ENOSPC)
			fprintf(stderr, "simhostd: no free GID entry for an address of %s\n",
				l->name);
		publish_gids(h, dev);
	}
}

static void on_addr_added(void *arg, const struct net_link *l, const struct net_addr *a)
{
	on_addr(arg, l, a, true);
}

static void on_addr_removed(void *arg, const struct net_link *l, const struct net_addr *a)
{
	on_addr(arg, l, a, false);
}

static const struct netmon_ops netmon_ops = {
	.link_changed = on_link,
	.link_gone = on_link_gone,
	.addr_added = on_addr_added,
	.addr_removed = on_addr_removed,
};

/* The file under a temporary name, in one piece; magic stays 0 until everything else is there. */
static int make_state(struct host *h, char temporary[PATH_MAX])
{
	const struct config *c = &h->config;
	struct sim_state *st;

	if (snprintf(temporary, PATH_MAX, "%s.new", c->state_path) >= PATH_MAX)
		return -ENAMETOOLONG;
	h->state_fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (h->state_fd < 0)
		return -errno;
	/* Programs run as any user, and all of them write their slot. */
	if (fchmod(h->state_fd, 0666) || ftruncate(h->state_fd, sizeof(*st)))
		return -errno;
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED, h->state_fd, 0);
	if (st == MAP_FAILED)
		return -errno;
	h->state = st;
	st->version = SIM_STATE_VERSION;
	st->size = sizeof(*st);
	memcpy(st->host, c->host, sizeof(st->host));
	st->seed = c->seed;
	st->n_lids = c->n_lids;
	memcpy(st->lids, c->lids, sizeof(st->lids));
	memcpy(st->devs, c->devs, sizeof(st->devs));
	st->n_devs = c->n_devs;
	return 0;
}

static void init_ib_gid(struct sim_port *p)
{
	struct sim_gid *g = &p->gids[0];

	for (int i = 0; i < 8; i++)
		g->raw[i] = (uint8_t)(p->subnet_prefix >> (56 - 8 * i));
	memcpy(g->raw + 8, p->port_guid, 8);
	g->vlan_id = SIM_NO_VLAN;
	g->type = SIM_GID_IB;
}

static int init_port(struct host *h, uint32_t dev)
{
	struct sim_port *p = port_of(h, dev);
	const char *name = h->state->devs[dev].name;
	int err;

	p->state = SIM_PORT_DOWN;
	p->phys_state = is_roce(h, dev) ? SIM_PHYS_DISABLED : SIM_PHYS_POLLING;
	p->active_mtu = p->max_mtu;
	h->users[dev] = (struct gid_user){.host = h, .dev = dev};
	gid_table_init(&h->tables[dev], p->n_gids);
	h->tables[dev].in_use = slot_referred;
	h->tables[dev].arg = &h->users[dev];
	err = sysfs_port_init(name, p);
	if (err || is_roce(h, dev))
		return err;
	init_ib_gid(p);
	return sysfs_port_gid(name, 0, &p->gids[0], "");
}

int host_open(struct host *h)
{
	char temporary[PATH_MAX];
	int err;

	h->state_fd = h->net.fd = -1;
	err = make_state(h, temporary);
	if (err) {
		fprintf(stderr, "simhostd: %s: %s\n", h->config.state_path, strerror(-err));
		return err;
	}
	for (uint32_t dev = 0; !err && dev < h->state->n_devs; dev++) {
		err = init_port(h, dev);
		report(h->state->devs[dev].name, err);
	}
	if (err)
		return err;
	err = netmon_open(&h->net, &netmon_ops, h);
	if (err) {
		fprintf(stderr, "simhostd: rtnetlink: %s\n", strerror(-err));
		return err;
	}
	atomic_store_explicit(&h->state->magic, SIM_STATE_MAGIC, memory_order_release);
	if (rename(temporary, h->config.state_path)) {
		err = -errno;
		fprintf(stderr, "simhostd: %s: %s\n", h->config.state_path, strerror(-err));
	}
	return err;
}

void host_close(struct host *h)
{
	netmon_close(&h->net);
	if (h->state)
		munmap(h->state, sizeof(*h->state));
	if (h->state_fd >= 0)
		close(h->state_fd);
	h->state = NULL;
	h->state_fd = -1;
}

void host_reap(struct host *h)
{
	for (int i = 0; i < SIM_MAX_SLOTS; i++) {
		struct flock lock = {.l_type = F_WRLCK,
				     .l_whence = SEEK_SET,
				     .l_start = SIM_SLOT_LOCK + i,
				     .l_len = 1};
		struct sim_slot *s = &h->state->slots[i];

		if (!atomic_load_explicit(&s->pid, memory_order_relaxed) ||
		    fcntl(h->state_fd, F_OFD_SETLK, &lock))
			continue;
		for (uint32_t dev = 0; dev < h->state->n_devs; dev++)
			for (int k = 0; k < SIM_MAX_GIDS; k++)
				atomic_store_explicit(&s->gid_refs[dev][0][k], 0,
						      memory_order_relaxed);
		atomic_store_explicit(&s->n_qps, 0, memory_order_relaxed);
		atomic_store_explicit(&s->pid, 0, memory_order_release);
		lock.l_type = F_UNLCK;
		fcntl(h->state_fd, F_OFD_SETLK, &lock);
	}
}
