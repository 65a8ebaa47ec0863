/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"
#include "world.h"

static void test_devices(void **state)
{
	char too_long[IBV_SYSFS_NAME_MAX + 1];
	struct mv_device *device = NULL, *kept;
	struct mv_topo topo;

	(void)state;
	mv_topo_init(&topo);
	memset(too_long, 'x', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = '\0';
	assert_int_equal(mv_topo_add_device(&topo, "", &device), -EINVAL);
	assert_int_equal(mv_topo_add_device(&topo, too_long, &device), -EINVAL);
	assert_null(device);
	assert_int_equal(mv_topo_add_device(&topo, too_long + 1, &device), 0);
	assert_int_equal(device->numa_node, -1);
	assert_string_equal(device->pci, "");
	kept = device;
	assert_int_equal(mv_topo_add_device(&topo, too_long + 1, &kept), -EEXIST);
	assert_ptr_equal(kept, device);
	for (int i = 0; i < 50; i++) {
		char name[16];

		snprintf(name, sizeof(name), "mlx5_%d", i);
		assert_int_equal(mv_topo_add_device(&topo, name, &device), 0);
	}
	assert_string_equal(mv_topo_device(&topo, "mlx5_33")->name, "mlx5_33");
	assert_null(mv_topo_device(&topo, "mlx5_3x"));
	assert_null(mv_topo_device(&topo, ""));
	mv_topo_fini(&topo);
	assert_null(mv_topo_device(&topo, "mlx5_33"));
	mv_topo_fini(&topo);
}

static void test_ports(void **state)
{
	struct mv_port *port, *kept;
	struct mv_topo topo;

	(void)state;
	world_init(&topo, "");
	kept = &topo.devices[0].ports[0];
	assert_int_equal(mv_topo_add_port(&topo.devices[0], 1, &kept), -EEXIST);
	for (int num = 2; num <= 255; num++) {
		assert_int_equal(mv_topo_add_port(&topo.devices[0], (uint8_t)num, &port), 0);
		assert_int_equal(port->num, num);
	}
	assert_int_equal(mv_device_port(&topo.devices[0], 255)->num, 255);
	assert_null(mv_device_port(&topo.devices[0], 0));
	mv_topo_fini(&topo);
}

static void test_gids(void **state)
{
	static const uint32_t indexes[] = {9, 3, 200, 0, UINT32_MAX, 3, 255, 1};
	struct mv_gid_entry entry = {.type = MV_GID_TYPE_ROCE_V2};
	struct mv_topo topo;
	struct mv_port *port;

	(void)state;
	world_init(&topo, "");
	port = &topo.devices[0].ports[0];
	assert_null(mv_port_gid(port, 0));
	for (size_t i = 0; i < 8; i++) {
		entry.gid = unit_gid("10.1.0.1");
		entry.gid.raw[15] = (uint8_t)(i + 1);
		entry.index = indexes[i];
		assert_int_equal(mv_port_add_gid(port, &entry), 0);
	}
	assert_int_equal(port->n_gids, 7);
	for (size_t i = 1; i < port->n_gids; i++)
		assert_true(port->gids[i - 1].index < port->gids[i].index);
	assert_gid(mv_port_gid(port, 3)->gid, "10.1.0.6");
	assert_gid(mv_port_gid(port, UINT32_MAX)->gid, "10.1.0.5");
	assert_null(mv_port_gid(port, 4));

	/* A zero GID is no entry, and removes none. */
	entry.gid = unit_gid("::");
	entry.index = 3;
	assert_int_equal(mv_port_add_gid(port, &entry), 0);
	assert_gid(mv_port_gid(port, 3)->gid, "10.1.0.6");

	mv_port_clear_gids(port);
	assert_int_equal(port->n_gids, 0);
	assert_null(mv_port_gid(port, 3));
	/* The memory was kept: filling it again asks for none. */
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	entry.gid = unit_gid("10.1.0.1");
	for (size_t i = 0; i < 7; i++) {
		entry.index = (uint32_t)i;
		assert_int_equal(mv_port_add_gid(port, &entry), 0);
	}
	assert_false(fault_fired());
	fault_disarm();
	mv_topo_fini(&topo);
}

static void test_netdevs(void **state)
{
	struct mv_netdev netdev = {.ifindex = 2, .name = "renamed"};
	struct mv_topo topo;

	(void)state;
	world_init(&topo, "dev 2 eth0; dev 3 eth1; addr 2 10.1.0.1/24; route 2 10.2.0.0/16;");
	assert_int_equal(mv_topo_add_netdev(&topo, &netdev), 0);
	assert_int_equal(topo.n_netdevs, 2);
	assert_string_equal(mv_topo_netdev(&topo, 2)->name, "renamed");
	assert_int_equal(mv_topo_netdev_by_name(&topo, "eth1")->ifindex, 3);
	assert_null(mv_topo_netdev_by_name(&topo, "eth0"));
	assert_null(mv_topo_netdev(&topo, 4));
	mv_topo_clear_net(&topo);
	assert_int_equal(topo.n_netdevs + topo.n_addrs + topo.n_routes, 0);
	assert_int_equal(topo.n_devices, 2);
	mv_topo_clear_devices(&topo);
	assert_int_equal(topo.n_devices, 0);
	mv_topo_fini(&topo);
}

static void test_gid_netdev(void **state)
{
	static const struct {
		const char *gid;
		uint32_t ifindex;
		const char *netdev; /* NULL: not here */
	} cases[] = {
		{"10.1.0.1", 2, "eth0"},
		{"10.1.0.1", 3, NULL}, /* another netdev's address */
		{"10.1.0.1", 0, NULL}, /* none named */
		{"10.1.0.1", 9, NULL}, /* no such netdev */
		{"10.1.0.2", 2, NULL}, /* same subnet, not its address */
		{"fe80::ff:fe00:2", 2, "eth0"}, /* default GID by MAC */
		{"fe80::ff:fe00:3", 2, NULL},
		{"fe80::200:0:100:2", 2, "eth0"}, /* default GID with dev_id 1 */
		{"fe81::ff:fe00:2", 2, NULL},
		{"2001:db8::ff:fe00:2", 2, NULL},
		{"fe80::200:ff:fe00:0", 5, NULL}, /* lo has no MAC */
		{"fe80::ff:fe00:0", 5, NULL},
	};
	struct mv_topo topo;

	(void)state;
	world_init(&topo, "dev 2 eth0; dev 3 eth1; dev 5 lo; addr 2 10.1.0.1/24;");
	memset(topo.netdevs[2].mac, 0, 6);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mv_gid_entry entry = {.gid = unit_gid(cases[i].gid),
					     .ifindex = cases[i].ifindex};
		const struct mv_netdev *netdev = mv_topo_gid_netdev(&topo, &entry);

		if (!netdev != !cases[i].netdev ||
		    (netdev && strcmp(netdev->name, cases[i].netdev)))
			fail_msg("%s at %u: %s", cases[i].gid, cases[i].ifindex,
				 netdev ? netdev->name : "not here");
	}
	mv_topo_fini(&topo);
}

/* Fills one of everything, past the first reallocation. Returns the first error. */
static int fill(struct mv_topo *topo)
{
	struct mv_gid_entry entry = {.gid = unit_gid("10.1.0.1")};
	struct mv_netdev netdev = {0};
	struct mv_route route = {0};
	struct mv_addr addr = {0};
	struct mv_device *device;
	struct mv_port *port;
	char name[16];
	int err = 0;

	for (uint32_t i = 1; i <= 20 && !err; i++) {
		snprintf(name, sizeof(name), "mlx5_%u", i);
		netdev.ifindex = entry.index = i;
		err = mv_topo_add_device(topo, name, &device);
		err = err ? err : mv_topo_add_port(device, 1, &port);
		err = err ? err : mv_port_add_gid(port, &entry);
		err = err ? err : mv_topo_add_netdev(topo, &netdev);
		err = err ? err : mv_topo_add_addr(topo, &addr);
		err = err ? err : mv_topo_add_route(topo, &route);
	}
	return err;
}

static void check_fill(void)
{
	struct mv_topo topo;
	int err;

	mv_topo_init(&topo);
	err = fill(&topo);
	assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
	mv_topo_fini(&topo);
}

static void test_no_memory(void **state)
{
	(void)state;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, check_fill());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices),    cmocka_unit_test(test_ports),
		cmocka_unit_test(test_gids),       cmocka_unit_test(test_netdevs),
		cmocka_unit_test(test_gid_netdev), cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
