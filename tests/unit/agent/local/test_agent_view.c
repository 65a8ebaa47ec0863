/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What this host says of itself, made from a topology. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bounds.h"
#include "fault.h"
#include "gid_grace.h"
#include "view.h"
#include "world.h"

static struct mv_topo topo;
static struct mv_config config;
static struct md_view *view;

static void make(const char *text, uint32_t default_ifindex)
{
	mv_topo_fini(&topo);
	md_view_free(view);
	world_init(&topo, text);
	for (size_t d = 0; d < topo.n_devices; d++)
		topo.devices[d].ports[0].state = IBV_PORT_ACTIVE;
	assert_int_equal(md_view_make(&topo, &config, NULL, default_ifindex, &view), 0);
}

static int setup(void **state)
{
	(void)state;
	mv_config_defaults(&config);
	mv_topo_init(&topo);
	view = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mv_topo_fini(&topo);
	md_view_free(view);
	return 0;
}

static bool on_link(uint32_t ifindex, const union ibv_gid *gid)
{
	struct md_netset nets = md_view_on_link(view, gid);

	for (size_t n = 0; n < MD_NETS_MAX; n++)
		assert_true(n < view->n_nets || !md_netset_has(&nets, n));
	return md_netset_has(&nets, (size_t)(md_view_net(view, ifindex) - view->nets));
}

#define TWO_NICS                                                                                   \
	"dev 1 eth0; dev 2 eth1; dev 9 mgmt0;"                                                     \
	"addr 1 10.1.0.1/24; addr 1 fe80::ff:fe00:1/64; addr 2 10.2.0.1/30; addr 9 192.0.2.1/24;"  \
	"gid 0 fe80::ff:fe00:1 1 v1; gid 1 fe80::ff:fe00:1 1 v2; gid 2 10.1.0.1 1 v1;"             \
	"gid 3 10.1.0.1 1 v2; gid2 3 10.2.0.1 2 v2;"

static void test_two_nics(void **state)
{
	union ibv_gid gid = unit_gid("10.2.0.1");
	const struct md_desc *desc;
	const char *devices[4];

	(void)state;
	make(TWO_NICS, 0);
	desc = view->desc;
	assert_int_equal(desc->n_rails, 2);
	assert_string_equal(desc->rails[0].device, "mlx5_0");
	assert_string_equal(desc->rails[0].netdev, "eth0");
	assert_int_equal(desc->rails[0].flags, MV_RAIL_UP);
	assert_int_equal(desc->rails[0].n_gids, 4);
	assert_int_equal(desc->rails[1].first_gid, 4);
	assert_int_equal(desc->n_gids, 5);
	assert_gid(desc->gids[3].gid, "10.1.0.1");
	assert_int_equal(desc->gids[3].index, 3);
	assert_int_equal(desc->gids[3].prefix_len, 96 + 24);
	assert_int_equal(desc->gids[3].vlan_id, MV_VLAN_NONE);
	assert_int_equal(desc->gids[0].prefix_len, 64);
	assert_int_equal(desc->gids[4].rail, 1);
	assert_int_equal(desc->gids[4].prefix_len, 96 + 30);
	/* Beacons go out of both, not out of the one without RDMA. */
	assert_int_equal(view->n_nets, 2);
	assert_true(md_view_net(view, 1)->has_ipv6 && md_view_net(view, 1)->has_ipv4);
	assert_false(md_view_net(view, 2)->has_ipv6);
	assert_null(md_view_net(view, 9));
	assert_true(md_view_has_gid(view, &gid));
	assert_int_equal(md_view_devices(view, &gid, devices, 4), 1);
	assert_string_equal(devices[0], "mlx5_1");
	gid = unit_gid("10.2.0.2");
	assert_false(md_view_has_gid(view, &gid));
	assert_true(on_link(2, &gid));
	assert_false(on_link(1, &gid));
	gid = unit_gid("fe80::ff:fe00:9");
	assert_false(on_link(1, &gid));
}

/* Other hosts would refuse the description, and readers the directory. */
static void test_odd_netdev(void **state)
{
	(void)state;
	make("dev 1 e\"\\\001\303; addr 1 10.1.0.1/24; gid 3 10.1.0.1 1 v2;", 0);
	assert_string_equal(view->desc->rails[0].netdev, "e????");
	assert_string_equal(view->nets[0].name, "e\"\\\001\303");
}

/* A GID whose netdev is of another namespace: the number means something else here. */
static void test_foreign_gids(void **state)
{
	(void)state;
	make("dev 1 eth0; dev 2 eth1; addr 1 10.1.0.1/24; gid 2 10.1.0.1 1 v1; gid 3 10.5.0.1 1 "
	     "v2; gid 4 "
	     "10.6.0.1 2 v2; gid 5 10.7.0.1 44 v2;",
	     0);
	assert_int_equal(view->desc->n_gids, 1);
	assert_gid(view->desc->gids[0].gid, "10.1.0.1");
	/* A port of which nothing is here is not up. */
	make("dev 1 eth0; gid 3 10.5.0.1 44 v2;", 0);
	assert_int_equal(view->desc->rails[0].n_gids, 0);
	assert_string_equal(view->desc->rails[0].netdev, "");
	assert_int_equal(view->desc->rails[0].flags, 0);
}

static void test_up_and_down(void **state)
{
	(void)state;
	make("dev 1 eth0 nocarrier; addr 1 10.1.0.1/24; gid 2 10.1.0.1 1 v2;", 0);
	assert_int_equal(view->desc->rails[0].flags, 0);
	assert_false(view->nets[0].running);
	make("dev 1 eth0; addr 1 10.1.0.1/24; gid 2 10.1.0.1 1 v2;", 0);
	assert_int_equal(view->desc->rails[0].flags, MV_RAIL_UP);
	topo.devices[0].ports[0].state = IBV_PORT_DOWN;
	md_view_free(view);
	assert_int_equal(md_view_make(&topo, &config, NULL, 0, &view), 0);
	assert_int_equal(view->desc->rails[0].flags, 0);
}

static void test_mtu(void **state)
{
	static const struct {
		uint32_t netdev, rdma;
	} cases[] = {{1500, 1024}, {9000, 4096}, {4192, 4096}, {4191, 2048},
		     {1280, 1024}, {576, 256},   {300, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make("dev 1 eth0; addr 1 10.1.0.1/24; gid 2 10.1.0.1 1 v2;", 0);
		topo.netdevs[0].mtu_bytes = cases[i].netdev;
		md_view_free(view);
		assert_int_equal(md_view_make(&topo, &config, NULL, 0, &view), 0);
		assert_int_equal(view->desc->rails[0].mtu_bytes, cases[i].rdma);
	}
}

static void test_vlan(void **state)
{
	(void)state;
	make("dev 1 eth0; dev 2 eth0.7; addr 1 10.1.0.1/24; addr 2 10.7.0.1/24; gid 2 10.7.0.1 2 "
	     "v2; gid 3 10.1.0.1 1 "
	     "v2;",
	     0);
	topo.netdevs[1].vlan_id = 7;
	topo.netdevs[1].lower_ifindex = 1;
	md_view_free(view);
	assert_int_equal(md_view_make(&topo, &config, NULL, 0, &view), 0);
	assert_string_equal(view->desc->rails[0].netdev, "eth0");
	assert_int_equal(view->desc->gids[0].vlan_id, 7);
	assert_int_equal(view->desc->gids[1].vlan_id, MV_VLAN_NONE);
	assert_int_equal(view->n_nets, 2);
	assert_int_equal(md_view_net(view, 2)->rail, 0);
}

static void test_exclude(void **state)
{
	(void)state;
	strcpy(config.exclude.names[0], "mlx5_1");
	config.exclude.n = 1;
	make(TWO_NICS, 0);
	assert_int_equal(view->desc->rails[0].flags, MV_RAIL_UP);
	assert_int_equal(view->desc->rails[1].flags, MV_RAIL_UP | MV_RAIL_EXCLUDED);
	/* The administrator wants nothing to do with it: no beacons there. */
	assert_int_equal(view->n_nets, 1);
	/* The default route's would be the last one left. */
	make(TWO_NICS, 1);
	assert_int_equal(view->desc->rails[0].flags, MV_RAIL_UP);
}

static void test_default_route(void **state)
{
	(void)state;
	make(TWO_NICS, 2);
	assert_int_equal(view->desc->rails[1].flags, MV_RAIL_UP | MV_RAIL_EXCLUDED);
	assert_int_equal(view->n_nets, 2); /* control messages may go there */
	make(TWO_NICS, 9);
	assert_int_equal(view->desc->rails[0].flags | view->desc->rails[1].flags, MV_RAIL_UP);
	config.exclude_default_route = false;
	make(TWO_NICS, 2);
	assert_int_equal(view->desc->rails[1].flags, MV_RAIL_UP);
	config.exclude_default_route = true;
	/* The only rail stays. */
	make("dev 1 eth0; addr 1 10.1.0.1/24; gid 2 10.1.0.1 1 v2;", 1);
	assert_int_equal(view->desc->rails[0].flags, MV_RAIL_UP);
	assert_true(md_view_is_rail_netdev(&topo, 1));
	assert_false(md_view_is_rail_netdev(&topo, 2));
}

static void test_infiniband(void **state)
{
	(void)state;
	make("dev 1 ib0; gid 0 fe80::1 0 v1;", 0);
	topo.devices[0].ports[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
	topo.devices[0].ports[0].lid = 8;
	topo.devices[0].ports[0].lmc = 3;
	topo.devices[0].ports[0].gids[0].type = MV_GID_TYPE_IB;
	md_view_free(view);
	assert_int_equal(md_view_make(&topo, &config, NULL, 0, &view), 0);
	assert_int_equal(view->desc->n_gids, 1);
	assert_int_equal(view->desc->rails[0].lid, 8);
	assert_int_equal(view->desc->rails[0].lmc, 3);
	assert_int_equal(view->desc->rails[0].flags, MV_RAIL_UP);
	assert_int_equal(view->n_nets, 0);
}

static void make_ipoib(const char *text)
{
	make(text, 0);
	topo.devices[0].ports[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
	topo.devices[0].ports[0].gids[0].type = MV_GID_TYPE_IB;
	for (size_t i = 0; i < topo.n_netdevs; i++)
		mv_port_add_ipoib(&topo.devices[0].ports[0], topo.netdevs[i].ifindex);
	md_view_free(view);
	assert_int_equal(md_view_make(&topo, &config, NULL, 0, &view), 0);
}

/* Beacons go out of all netdevs of IP over InfiniBand; a port is up without them. */
static void test_ipoib(void **state)
{
	(void)state;
	make_ipoib("dev 3 ib0 nocarrier; dev 4 ib0.8001; addr 4 10.1.0.1/24; addr 4 fe80::ff:fe00:1/64; gid 0 fe80::1 0 v1;");
	assert_string_equal(view->desc->rails[0].netdev, "ib0.8001");
	assert_int_equal(view->desc->rails[0].mtu_bytes, 0);
	assert_int_equal(view->desc->rails[0].flags, MV_RAIL_UP);
	assert_int_equal(view->n_nets, 2);
	assert_true(md_view_net(view, 4)->running && md_view_net(view, 4)->has_ipv4 && md_view_net(view, 4)->has_ipv6);
	assert_int_equal(md_view_net(view, 4)->rail, 0);
	assert_false(md_view_net(view, 3)->running);
	assert_int_equal(view->gid_ifindexes[0], 0);

	make_ipoib("dev 3 ib0 nocarrier; gid 0 fe80::1 0 v1;");
	assert_string_equal(view->desc->rails[0].netdev, "ib0");
	assert_int_equal(view->desc->rails[0].flags, MV_RAIL_UP);

	strcpy(config.exclude.names[0], "mlx5_0");
	config.exclude.n = 1;
	make_ipoib("dev 3 ib0; gid 0 fe80::1 0 v1;");
	assert_int_equal(view->n_nets, 0);
}

/* No more than there is room for. */
static void test_many_ipoib(void **state)
{
	struct mv_port port = {.num = 1};

	(void)state;
	for (uint32_t i = 20; i; i--)
		mv_port_add_ipoib(&port, i);
	mv_port_add_ipoib(&port, 99);
	assert_int_equal(port.n_ipoib, MV_IPOIB_MAX);
	for (uint32_t i = 0; i < MV_IPOIB_MAX; i++)
		assert_int_equal(port.ipoib[i], i + 1);
}

static void test_same(void **state)
{
	struct md_view *other;

	(void)state;
	make(TWO_NICS, 0);
	assert_int_equal(md_view_make(&topo, &config, NULL, 0, &other), 0);
	assert_true(md_view_same(view, other));
	md_view_free(other);
	topo.devices[1].ports[0].rate_mbps = 400000;
	assert_int_equal(md_view_make(&topo, &config, NULL, 0, &other), 0);
	assert_false(md_view_same(view, other));
	md_view_free(other);
}

/* More than there may be is left out. */
static void test_limits(void **state)
{
	(void)state;
	make("dev 1 eth0;", 0);
	for (uint32_t i = 0; i < 2000; i++) {
		struct mv_gid_entry entry = {.index = i, .ifindex = 1, .type = MV_GID_TYPE_ROCE_V2};
		struct mv_addr addr = {.ifindex = 1, .prefix_len = 96 + 8};

		entry.gid = mv_gid_from_ipv4(htonl(0x0a000001 + i));
		addr.gid = addr.prefix = entry.gid;
		assert_int_equal(mv_port_add_gid(&topo.devices[0].ports[0], &entry), 0);
		assert_int_equal(mv_topo_add_addr(&topo, &addr), 0);
	}
	for (int i = 0; i < 100; i++) {
		struct mv_device *device;
		struct mv_port *port;
		char name[16];

		snprintf(name, sizeof(name), "x%d", i);
		assert_int_equal(mv_topo_add_device(&topo, name, &device), 0);
		assert_int_equal(mv_topo_add_port(device, 1, &port), 0);
	}
	md_view_free(view);
	assert_int_equal(md_view_make(&topo, &config, NULL, 0, &view), 0);
	assert_int_equal(view->desc->n_rails, MD_RAILS_MAX);
	assert_int_equal(view->desc->n_gids, MD_GIDS_MAX);
}

/* Announced as down, whatever it is, and as what it is; beacons go on. */
static void test_drained(void **state)
{
	struct md_drained drained = {0};
	struct md_view *other;

	(void)state;
	assert_int_equal(md_drained_add(&drained, "mlx5_1"), 0);
	make(TWO_NICS, 0);
	assert_int_equal(md_view_make(&topo, &config, &drained, 0, &other), 0);
	assert_int_equal(other->desc->rails[0].flags, MV_RAIL_UP);
	assert_int_equal(other->desc->rails[1].flags, MV_RAIL_DRAINED);
	assert_int_equal(other->n_nets, 2);
	assert_true(md_view_net(other, 2)->running);
	assert_false(md_view_same(view, other));
	md_view_free(other);
	assert_int_equal(md_drained_remove(&drained, "mlx5_1"), 0);
	assert_int_equal(md_view_make(&topo, &config, &drained, 0, &other), 0);
	assert_true(md_view_same(view, other));
	md_view_free(other);
}

/* ---- what has gone and is in grace ----------------------------------------------------------------
 */

static bool nobody_has(void *arg, const union ibv_gid *gid)
{
	(void)arg;
	(void)gid;
	return false;
}

static bool somebody_has(void *arg, const union ibv_gid *gid)
{
	return mv_gid_equal(arg, gid);
}

/* The next view, after the one before; which is released. */
static void next(const char *text, uint64_t now_ns,
		 bool (*taken)(void *arg, const union ibv_gid *gid), void *arg)
{
	struct md_view *old = view;

	view = NULL;
	make(text, 0);
	assert_int_equal(md_gid_grace_add(view, old, &topo, now_ns, taken, arg), 0);
	md_view_free(old);
}

#define NO_ADDRESS                                                                                 \
	"dev 2 eth1; dev 9 mgmt0;"                                                                 \
	"addr 1 fe80::ff:fe00:1/64; addr 2 10.2.0.1/30; addr 9 192.0.2.1/24;"                      \
	"gid 0 fe80::ff:fe00:1 1 v1; gid 1 fe80::ff:fe00:1 1 v2; gid2 3 10.2.0.1 2 v2;"
#define CABLE_OUT "dev 1 eth0 nocarrier;" NO_ADDRESS
#define CABLE_IN  "dev 1 eth0;" NO_ADDRESS

static void test_gid_grace(void **state)
{
	union ibv_gid gid = unit_gid("10.1.0.1"), other = unit_gid("10.2.0.1");
	const struct mv_dir_gid *kept;
	const char *devices[4];

	(void)state;
	make(TWO_NICS, 0);
	assert_false(md_view_gid_in_grace(view, &gid));
	/* As long as the port is down, */
	for (uint64_t now_ns = 1000 * MD_S; now_ns < 5000 * MD_S; now_ns += 1000 * MD_S) {
		next(CABLE_OUT, now_ns, nobody_has, NULL);
		assert_int_equal(view->desc->n_gids, 4); /* once, not in two versions */
		kept = &view->desc->gids[2];
		assert_gid(kept->gid, "10.1.0.1");
		assert_true(mv_dir_gid_in_grace(kept)); /* no path is made of it */
		assert_int_equal(kept->rail, 0);
		assert_int_equal(view->desc->rails[0].n_gids, 3);
		assert_int_equal(view->desc->rails[1].first_gid, 3);
		assert_int_equal(view->desc->gids[3].rail, 1);
		assert_true(md_view_has_gid(view, &gid) && md_view_gid_in_grace(view, &gid));
		assert_false(md_view_gid_in_grace(view, &other));
		assert_int_equal(md_view_devices(view, &gid, devices, 4), 1);
		assert_string_equal(devices[0], "mlx5_0");
		/* Nothing is sent from it. */
		assert_int_equal(md_view_gid_ifindex(view, &gid), 0);
		assert_false(on_link(1, &gid));
	}
	/* and for a while after that. */
	next(CABLE_IN, 6000 * MD_S, nobody_has, NULL);
	assert_true(md_view_gid_in_grace(view, &gid));
	next(CABLE_IN, 6000 * MD_S + MD_GID_GRACE_NS - 1, nobody_has, NULL);
	assert_true(md_view_gid_in_grace(view, &gid));
	next(CABLE_IN, 6000 * MD_S + MD_GID_GRACE_NS, nobody_has, NULL);
	assert_false(md_view_has_gid(view, &gid));
	assert_int_equal(view->desc->n_gids, 3);
}

static void test_gid_grace_comes_back(void **state)
{
	union ibv_gid gid = unit_gid("10.1.0.1");

	(void)state;
	make(TWO_NICS, 0);
	next(CABLE_OUT, MD_S, nobody_has, NULL);
	next(TWO_NICS, 2 * MD_S, nobody_has, NULL);
	assert_int_equal(view->desc->n_gids, 5);
	assert_false(md_view_gid_in_grace(view, &gid));
	assert_int_equal(md_view_gid_ifindex(view, &gid), 1);
	assert_null(view->grace_until_ns);
	/* On another port of ours. */
	next(CABLE_OUT, 3 * MD_S, nobody_has, NULL);
	next("dev 1 eth0 nocarrier; dev 2 eth1; addr 2 10.1.0.1/24; gid2 3 10.1.0.1 2 v2;",
	     4 * MD_S, nobody_has, NULL);
	assert_false(md_view_gid_in_grace(view, &gid));
	assert_int_equal(md_view_gid_ifindex(view, &gid), 2);
}

static void test_gid_grace_taken(void **state)
{
	union ibv_gid gid = unit_gid("10.1.0.1");

	(void)state;
	make(TWO_NICS, 0);
	next(CABLE_OUT, MD_S, somebody_has, &gid);
	assert_false(md_view_has_gid(view, &gid));
	make(TWO_NICS, 0);
	next(CABLE_OUT, MD_S, nobody_has, NULL);
	assert_true(md_view_has_gid(view, &gid));
	next(CABLE_OUT, MD_S, somebody_has, &gid);
	assert_false(md_view_has_gid(view, &gid));
}

/* What there is goes before what there was. */
static void test_gid_grace_limits(void **state)
{
	struct md_view *old;

	(void)state;
	make(TWO_NICS, 0);
	old = view;
	view = NULL;
	make("dev 1 eth0 nocarrier; dev 2 eth1;", 0);
	for (uint32_t i = 0; i < MD_GIDS_MAX; i++) {
		struct mv_gid_entry entry = {.index = i, .ifindex = 2, .type = MV_GID_TYPE_ROCE_V2};
		struct mv_addr addr = {.ifindex = 2, .prefix_len = 96 + 8};

		entry.gid = mv_gid_from_ipv4(htonl(0x0b000001 + i));
		addr.gid = addr.prefix = entry.gid;
		assert_int_equal(mv_port_add_gid(&topo.devices[0].ports[0], &entry), 0);
		assert_int_equal(mv_topo_add_addr(&topo, &addr), 0);
	}
	md_view_free(view);
	assert_int_equal(md_view_make(&topo, &config, NULL, 0, &view), 0);
	assert_int_equal(view->desc->n_gids, MD_GIDS_MAX);
	assert_int_equal(md_gid_grace_add(view, old, &topo, MD_S, NULL, NULL), 0);
	assert_int_equal(view->desc->n_gids, MD_GIDS_MAX);
	md_view_free(old);
}

/* A netdev that moves into another network namespace takes its addresses along, and its port stays. */
static void test_gid_grace_of_netdev_elsewhere(void **state)
{
	static const char elsewhere[] = "dev 2 eth1; dev 9 mgmt0; addr 2 10.2.0.1/30; addr 9 192.0.2.1/24;"
					"gid 0 fe80::ff:fe00:1 1 v1; gid 3 10.1.0.1 1 v2; gid2 3 10.2.0.1 2 v2;";
	union ibv_gid gid = unit_gid("10.1.0.1");

	(void)state;
	make(TWO_NICS, 0);
	next(elsewhere, 1000 * MD_S, NULL, NULL);
	assert_true(md_view_gid_in_grace(view, &gid));
	next(elsewhere, 1004 * MD_S, NULL, NULL);
	assert_true(md_view_gid_in_grace(view, &gid));
	next(elsewhere, 1006 * MD_S, NULL, NULL);
	assert_false(md_view_has_gid(view, &gid));
	assert_int_equal(view->desc->n_gids, 1);
}

static void test_gid_grace_faults(void **state)
{
	struct md_view *old;

	(void)state;
	make(TWO_NICS, 0);
	old = view;
	view = NULL;
	make(CABLE_OUT, 0);
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		int err = md_gid_grace_add(view, old, &topo, MD_S, NULL, NULL);

		assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
		assert_int_equal(view->desc->n_gids, err ? 3 : 4);
	});
	md_view_free(old);
}

static void test_faults(void **state)
{
	(void)state;
	make(TWO_NICS, 0);
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		struct md_view *made = NULL;
		int err = md_view_make(&topo, &config, NULL, 0, &made);

		assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
		if (!err)
			md_view_free(made);
	});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_two_nics, setup, teardown),
		cmocka_unit_test_setup_teardown(test_odd_netdev, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_gids, setup, teardown),
		cmocka_unit_test_setup_teardown(test_up_and_down, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mtu, setup, teardown),
		cmocka_unit_test_setup_teardown(test_vlan, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exclude, setup, teardown),
		cmocka_unit_test_setup_teardown(test_default_route, setup, teardown),
		cmocka_unit_test_setup_teardown(test_infiniband, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ipoib, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_ipoib, setup, teardown),
		cmocka_unit_test_setup_teardown(test_same, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_drained, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gid_grace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gid_grace_comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gid_grace_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gid_grace_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gid_grace_of_netdev_elsewhere, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gid_grace_faults, setup, teardown),
		cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
