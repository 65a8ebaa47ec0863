/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"
#include "tmpdir.h"
#include "topo_sysfs.h"

static void test_gid_type(void **state)
{
	enum mv_gid_type type = MV_GID_TYPE_UNKNOWN;

	(void)state;
	assert_int_equal(mv_sysfs_parse_gid_type("RoCE v2\n", &type), 0);
	assert_int_equal(type, MV_GID_TYPE_ROCE_V2);
	assert_int_equal(mv_sysfs_parse_gid_type("RoCE v2", &type), 0);
	assert_int_equal(mv_sysfs_parse_gid_type("IB/RoCE v1\n", &type), 0);
	assert_int_equal(type, MV_GID_TYPE_ROCE_V1);
	assert_int_equal(mv_sysfs_parse_gid_type("", &type), -EINVAL);
	assert_int_equal(mv_sysfs_parse_gid_type("RoCE v", &type), -EINVAL);
	assert_int_equal(mv_sysfs_parse_gid_type("RoCE v22\n", &type), -EINVAL);
	assert_int_equal(mv_sysfs_parse_gid_type("RoCE v2\nx", &type), -EINVAL);
	assert_int_equal(type, MV_GID_TYPE_ROCE_V1);
}

static void test_link_layer(void **state)
{
	uint8_t link_layer = 77;

	(void)state;
	assert_int_equal(mv_sysfs_parse_link_layer("Unknown\n", &link_layer), -EINVAL);
	assert_int_equal(link_layer, 77);
	assert_int_equal(mv_sysfs_parse_link_layer("Ethernet\n", &link_layer), 0);
	assert_int_equal(link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(mv_sysfs_parse_link_layer("InfiniBand\n", &link_layer), 0);
	assert_int_equal(link_layer, IBV_LINK_LAYER_INFINIBAND);
}

static void test_ipoib_address(void **state)
{
	static const char *const bad[] = {"", "00:11:22:33:44:55\n", "80:00:00:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:1c:3e:00\n",
					  "80:00:00:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:1c:3\n",
					  "80:00:00:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:1c:3g\n",
					  "80:00:00:48-fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:1c:3e\n"};
	union ibv_gid gid = unit_gid("2001:db8::1");

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(mv_sysfs_parse_ipoib_address(bad[i], &gid), -EINVAL);
	assert_gid(gid, "2001:db8::1");
	assert_int_equal(mv_sysfs_parse_ipoib_address("80:00:00:48:fe:80:00:00:00:00:00:01:0c:42:A1:03:00:65:1c:3e\n", &gid), 0);
	assert_gid(gid, "fe80::1:c42:a103:65:1c3e");
}

static void test_state(void **state)
{
	uint8_t port_state = 77;

	(void)state;
	assert_int_equal(mv_sysfs_parse_state("6: WHAT\n", &port_state), -EINVAL);
	assert_int_equal(mv_sysfs_parse_state("44: ACTIVE\n", &port_state), -EINVAL);
	assert_int_equal(mv_sysfs_parse_state("ACTIVE\n", &port_state), -EINVAL);
	assert_int_equal(mv_sysfs_parse_state("", &port_state), -EINVAL);
	assert_int_equal(port_state, 77);
	assert_int_equal(mv_sysfs_parse_state("4: ACTIVE\n", &port_state), 0);
	assert_int_equal(port_state, IBV_PORT_ACTIVE);
	assert_int_equal(mv_sysfs_parse_state("1: DOWN\n", &port_state), 0);
	assert_int_equal(port_state, IBV_PORT_DOWN);
}

static void test_rate(void **state)
{
	static const char *const bad[] = {"",
					  "Gb/sec",
					  "-1 Gb/sec",
					  "100",
					  "100 MB/sec",
					  "4294967296 Gb/sec",
					  "99999999999999999999 Gb/sec",
					  "1.x Gb/sec"};
	uint32_t mbps = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(mv_sysfs_parse_rate(bad[i], &mbps), -EINVAL);
	assert_int_equal(mbps, 77);
	assert_int_equal(mv_sysfs_parse_rate("100 Gb/sec (4X EDR)\n", &mbps), 0);
	assert_int_equal(mbps, 100000);
	assert_int_equal(mv_sysfs_parse_rate("2.5 Gb/sec (1X SDR)\n", &mbps), 0);
	assert_int_equal(mbps, 2500);
	assert_int_equal(mv_sysfs_parse_rate("1.2345678 Gb/sec", &mbps), 0);
	assert_int_equal(mbps, 1234);
}

static void test_guid(void **state)
{
	static const char *const bad[] = {"",
					  "0c42",
					  "0c42:a103:0065:1c3",
					  "0c42:a103:0065:1c3e:0000",
					  "0c42-a103:0065:1c3e",
					  "0c42:a103:0065:1c3g",
					  "c42:a103:0065:1c3e1"};
	uint64_t guid = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(mv_sysfs_parse_guid(bad[i], &guid), -EINVAL);
	assert_int_equal(guid, 77);
	assert_int_equal(mv_sysfs_parse_guid("0c42:A103:0065:1c3e\n", &guid), 0);
	assert_true(guid == 0x0c42a10300651c3eull);
}

static void test_number_and_gid(void **state)
{
	static const char *const bad[] = {"",
					  "\n",
					  "x",
					  "0x",
					  "0xg",
					  "1x",
					  "-1",
					  "65536",
					  "0x10000",
					  "12a",
					  "99999999999999999999999"};
	uint32_t number = 77;
	union ibv_gid gid;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (mv_sysfs_parse_number(bad[i], 65535, &number) != -EINVAL)
			fail_msg("'%s' is taken for a number", bad[i]);
	assert_int_equal(number, 77);
	assert_int_equal(mv_sysfs_parse_number("65535\n", 65535, &number), 0);
	assert_int_equal(number, 65535);
	assert_int_equal(mv_sysfs_parse_number("0x1F", 65535, &number), 0);
	assert_int_equal(number, 31);
	assert_int_equal(mv_sysfs_parse_number("0", 65535, &number), 0);
	assert_int_equal(number, 0);

	assert_int_equal(mv_sysfs_parse_gid("0000:0000:0000:0000:0000:ffff:0a01:0002\n", &gid), 0);
	assert_gid(gid, "10.1.0.2");
	assert_int_equal(mv_sysfs_parse_gid("fe80::1\nfe80::2\n", &gid), -EINVAL);
	assert_int_equal(mv_sysfs_parse_gid("", &gid), -EINVAL);
	assert_int_equal(mv_sysfs_parse_gid(
				 "0000:0000:0000:0000:0000:ffff:0a01:0002:0000:0000:0000\n", &gid),
			 -EINVAL);
}

/* ---- a made-up tree -------------------------------------------------------------------------- */

#define CLASS "class/infiniband/"

static void write_gid(const struct tmpdir *dir, const char *port, unsigned int index,
		      const char *gid, const char *type, const char *ndev)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/gids/%u", port, index);
	tmpdir_write(dir, path, gid);
	/* As in real sysfs, entries in use have attributes, and others give EINVAL or nothing. */
	snprintf(path, sizeof(path), "%s/gid_attrs/types/%u", port, index);
	if (type)
		tmpdir_write(dir, path, type);
	snprintf(path, sizeof(path), "%s/gid_attrs/ndevs/%u", port, index);
	if (ndev)
		tmpdir_write(dir, path, ndev);
}

static void make_roce(const struct tmpdir *dir)
{
	const char *port = CLASS "mlx5_10/ports/1";

	tmpdir_link(dir, CLASS "mlx5_10/device", "../../../devices/pci0000:00/0000:03:00.1");
	tmpdir_write(dir, "devices/pci0000:00/0000:03:00.1/numa_node", "1\n");
	tmpdir_write(dir, CLASS "mlx5_10/node_guid", "0c42:a103:0065:1c3e\n");
	tmpdir_write(dir, CLASS "mlx5_10/ports/1/link_layer", "Ethernet\n");
	tmpdir_write(dir, CLASS "mlx5_10/ports/1/state", "4: ACTIVE\n");
	tmpdir_write(dir, CLASS "mlx5_10/ports/1/rate", "100 Gb/sec (4X EDR)\n");
	tmpdir_write(dir, CLASS "mlx5_10/ports/1/lid", "0x0\n");
	write_gid(dir, port, 0, "fe80:0000:0000:0000:0000:00ff:fe00:0002\n", "IB/RoCE v1\n",
		  "eth0\n");
	write_gid(dir, port, 3, "0000:0000:0000:0000:0000:ffff:0a01:0001\n", "RoCE v2\n", "eth0\n");
	write_gid(dir, port, 12, "0000:0000:0000:0000:0000:ffff:0a01:004d\n", "RoCE v2\n",
		  "pod1\n");
	write_gid(dir, port, 4, "0000:0000:0000:0000:0000:0000:0000:0000\n", NULL, NULL);
	write_gid(dir, port, 5, "0000:0000:0000:0000:0000:ffff:0a01:0005\n", NULL, NULL);
	write_gid(dir, port, 6, "nonsense\n", "RoCE v2\n", "eth0\n");
	write_gid(dir, port, 7, "0000:0000:0000:0000:0000:ffff:0a01:0007\n", "RoCE v9\n", "\n");
	tmpdir_write(dir, CLASS "mlx5_10/ports/1/gids/x", "fe80::1\n");
}

static void write_netdev(const struct tmpdir *dir, const char *name, const char *type, const char *address)
{
	char path[256];

	snprintf(path, sizeof(path), CLASS "mlx5_9/device/net/%s/type", name);
	tmpdir_write(dir, path, type);
	snprintf(path, sizeof(path), CLASS "mlx5_9/device/net/%s/address", name);
	tmpdir_write(dir, path, address);
}

static void make_infiniband(const struct tmpdir *dir)
{
	const char *port = CLASS "mlx5_9/ports/2";

	tmpdir_write(dir, CLASS "mlx5_9/device/numa_node", "-1\n");
	tmpdir_write(dir, CLASS "mlx5_9/ports/2/link_layer", "InfiniBand\n");
	tmpdir_write(dir, CLASS "mlx5_9/ports/2/state", "2: INIT\n");
	tmpdir_write(dir, CLASS "mlx5_9/ports/2/rate", "2.5 Gb/sec (1X SDR)\n");
	tmpdir_write(dir, CLASS "mlx5_9/ports/2/lid", "0x1a\n");
	tmpdir_write(dir, CLASS "mlx5_9/ports/2/lid_mask_count", "1\n");
	write_gid(dir, port, 0, "fe80:0000:0000:0000:0c42:a103:0065:1c3e\n", "IB/RoCE v1\n", NULL);
	write_netdev(dir, "ib1", "32\n", "80:00:00:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:1c:3e\n");
	write_netdev(dir, "ib1.8001", "32\n", "80:00:00:49:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:1c:3e\n");
	/* Of another port, of another kind, of another namespace, and without a good address. */
	write_netdev(dir, "ib0", "32\n", "80:00:00:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:1c:3f\n");
	write_netdev(dir, "eth0", "1\n", "0c:42:a1:65:1c:3e\n");
	write_netdev(dir, "pod1", "32\n", "80:00:00:48:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:1c:3e\n");
	write_netdev(dir, "ib2", "32\n", "\n");
	/* A port without anything readable, and names that are no ports. */
	tmpdir_write(dir, CLASS "mlx5_9/ports/1/x", "");
	tmpdir_write(dir, CLASS "mlx5_9/ports/0/x", "");
	tmpdir_write(dir, CLASS "mlx5_9/ports/256/x", "");
	tmpdir_write(dir, CLASS "mlx5_9/ports/01/x", "");
	tmpdir_write(dir, CLASS "abi_version", "1\n");
	tmpdir_write(dir,
		     CLASS
		     "a_directory_whose_name_is_longer_than_the_64_characters_of_an_rdma_device/x",
		     "");
}

static void fill_netdevs(struct mv_topo *topo)
{
	static const struct mv_netdev netdevs[] = {{.ifindex = 2, .name = "eth0"},
						   {.ifindex = 9, .name = "ib1"},
						   {.ifindex = 4, .name = "ib1.8001"},
						   {.ifindex = 5, .name = "ib0"},
						   {.ifindex = 6, .name = "ib2"}};

	mv_topo_init(topo);
	for (size_t i = 0; i < sizeof(netdevs) / sizeof(netdevs[0]); i++)
		assert_int_equal(mv_topo_add_netdev(topo, &netdevs[i]), 0);
}

static void check_roce(const struct mv_device *device)
{
	const struct mv_port *port = mv_device_port(device, 1);

	assert_string_equal(device->pci, "0000:03:00.1");
	assert_int_equal(device->numa_node, 1);
	assert_true(device->node_guid == 0x0c42a10300651c3eull);
	assert_int_equal(device->n_ports, 1);
	assert_int_equal(port->link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(port->state, IBV_PORT_ACTIVE);
	assert_int_equal(port->rate_mbps, 100000);
	assert_int_equal(port->n_gids, 5);
	assert_int_equal(port->n_ipoib, 0);
	assert_int_equal(mv_port_gid(port, 0)->type, MV_GID_TYPE_ROCE_V1);
	assert_int_equal(mv_port_gid(port, 0)->ifindex, 2);
	assert_gid(mv_port_gid(port, 3)->gid, "10.1.0.1");
	assert_int_equal(mv_port_gid(port, 3)->type, MV_GID_TYPE_ROCE_V2);
	assert_int_equal(mv_port_gid(port, 3)->ifindex, 2);
	assert_null(mv_port_gid(port, 4));
	assert_int_equal(mv_port_gid(port, 5)->type, MV_GID_TYPE_UNKNOWN);
	assert_int_equal(mv_port_gid(port, 5)->ifindex, 0);
	assert_null(mv_port_gid(port, 6));
	assert_int_equal(mv_port_gid(port, 7)->ifindex, 0);
	/* Its netdev is in another network namespace. */
	assert_int_equal(mv_port_gid(port, 12)->ifindex, 0);
}

static void check_infiniband(const struct mv_device *device)
{
	const struct mv_port *port = mv_device_port(device, 2);

	assert_string_equal(device->pci, "");
	assert_int_equal(device->numa_node, -1);
	assert_true(device->node_guid == 0);
	assert_int_equal(device->n_ports, 2);
	assert_int_equal(device->ports[0].num, 1);
	assert_int_equal(device->ports[0].link_layer, IBV_LINK_LAYER_UNSPECIFIED);
	assert_int_equal(port->link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(port->lid, 0x1a);
	assert_int_equal(port->lmc, 1);
	assert_int_equal(port->rate_mbps, 2500);
	assert_int_equal(port->n_gids, 1);
	assert_int_equal(port->gids[0].type, MV_GID_TYPE_IB);
	assert_int_equal(port->n_ipoib, 2);
	assert_int_equal(port->ipoib[0], 4);
	assert_int_equal(port->ipoib[1], 9);
	assert_int_equal(device->ports[0].n_ipoib, 0);
}

static void check_tree(const struct mv_topo *topo)
{
	assert_int_equal(topo->n_devices, 2);
	assert_string_equal(topo->devices[0].name, "mlx5_9");
	assert_string_equal(topo->devices[1].name, "mlx5_10");
	check_infiniband(&topo->devices[0]);
	check_roce(&topo->devices[1]);
}

static void make_tree(struct tmpdir *dir)
{
	tmpdir_make(dir);
	make_roce(dir);
	make_infiniband(dir);
}

static void test_tree(void **state)
{
	unsigned int fds = fault_open_fds();
	struct mv_topo topo;
	struct tmpdir dir;

	(void)state;
	make_tree(&dir);
	fill_netdevs(&topo);
	assert_int_equal(mv_sysfs_fill(&topo, dir.path), 0);
	check_tree(&topo);
	assert_int_equal(fault_open_fds(), fds);
	mv_topo_fini(&topo);
	tmpdir_remove(&dir);
}

static void test_no_rdma(void **state)
{
	struct mv_topo topo;
	struct tmpdir dir;

	(void)state;
	tmpdir_make(&dir);
	mv_topo_init(&topo);
	assert_int_equal(mv_sysfs_fill(&topo, dir.path), -ENOENT);
	assert_int_equal(mv_sysfs_fill(&topo, tmpdir_at(&dir, "none")), -ENOENT);
	tmpdir_write(&dir, "class/infiniband", "");
	assert_int_equal(mv_sysfs_fill(&topo, dir.path), -ENOTDIR);
	unlink(tmpdir_at(&dir, "class/infiniband"));
	assert_int_equal(mkdir(tmpdir_at(&dir, "class/infiniband"), 0755), 0);
	assert_int_equal(mv_sysfs_fill(&topo, dir.path), 0);
	assert_int_equal(topo.n_devices, 0);
	mv_topo_fini(&topo);
	tmpdir_remove(&dir);
}

/* @fatal: running out of something is no reason to show half a host */
static void check_faulty_fill(const char *root, int err, bool fatal)
{
	unsigned int fds = fault_open_fds();
	struct mv_topo topo;
	int rc;

	fill_netdevs(&topo);
	rc = mv_sysfs_fill(&topo, root);
	if (!fault_fired() || err == EINTR)
		check_tree(&topo);
	else if (fatal)
		assert_int_equal(rc, -err);
	if (rc)
		assert_int_equal(topo.n_devices, 0);
	assert_int_equal(fault_open_fds(), fds);
	mv_topo_fini(&topo);
}

static void test_faults(void **state)
{
	struct tmpdir dir;

	(void)state;
	make_tree(&dir);
	FAULT_EACH(FAULT_OPEN, EMFILE, check_faulty_fill(dir.path, EMFILE, true));
	FAULT_EACH(FAULT_OPEN, EINTR, check_faulty_fill(dir.path, EINTR, false));
	FAULT_EACH(FAULT_OPEN, EACCES, check_faulty_fill(dir.path, EACCES, false));
	FAULT_EACH(FAULT_READ, EINTR, check_faulty_fill(dir.path, EINTR, false));
	FAULT_EACH(FAULT_READ, EINVAL, check_faulty_fill(dir.path, EINVAL, false));
	FAULT_EACH(FAULT_FDOPENDIR, ENOMEM, check_faulty_fill(dir.path, ENOMEM, true));
	FAULT_EACH(FAULT_READDIR, EIO, check_faulty_fill(dir.path, EIO, false));
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		/* The netdev of the fill is an allocation too, and not what is tested. */
		struct mv_topo topo;
		unsigned int fds = fault_open_fds();
		int rc;

		mv_topo_init(&topo);
		rc = mv_sysfs_fill(&topo, dir.path);
		assert_int_equal(rc, fault_fired() ? -ENOMEM : 0);
		assert_int_equal(topo.n_devices, rc ? 0 : 2);
		assert_int_equal(fault_open_fds(), fds);
		mv_topo_fini(&topo);
	});
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gid_type), cmocka_unit_test(test_link_layer), cmocka_unit_test(test_ipoib_address),
		cmocka_unit_test(test_state),    cmocka_unit_test(test_rate),
		cmocka_unit_test(test_guid),     cmocka_unit_test(test_number_and_gid),
		cmocka_unit_test(test_tree),     cmocka_unit_test(test_no_rdma),
		cmocka_unit_test(test_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
