# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs doctor: findings about devices, ports and networks."""

import os
import unittest

from doctorcase import DoctorTest
from fixture import V2, Directory, Netlink


class Infiniband(DoctorTest):
    def setUp(self):
        super().setUp()
        for i in (0, 1):
            port = f"class/infiniband/mlx5_{i}/ports/1"
            self.sysfs.write(f"{port}/link_layer", "InfiniBand\n")
            self.sysfs.write(f"{port}/lid", f"0x{3 + i}\n")
            for index in (1, 2, 3):
                self.sysfs.write(f"{port}/gids/{index}", ":".join(["0000"] * 8) + "\n")
            for index in range(4):
                self.sysfs.write(f"{port}/pkeys/{index}", "0x0000\n" if index else "0xffff\n")
            netdev = f"devices/pci0000:00/0000:03:00.{i}/net/eth{i}"
            self.sysfs.write(f"{netdev}/type", "32\n")
            self.sysfs.write(f"{netdev}/address", f"80:00:00:48:fe:80:00:00:00:00:00:00:00:00:00:ff:fe:00:00:1{i}\n")
        self.peers = self.fabrics()

    def fabrics(self, lid_of_b=5):
        """Two of them, with one prefix."""
        directory = Directory()
        for host, lids in (("a", (3, 4)), ("b", (lid_of_b, 6))):
            directory.host(host)
            for i in (0, 1):
                directory.rail(f"mlx5_{i}", [(0, f"fe80::{host}{i}", 0)], netdev=f"eth{i}", link_layer=1, lid=lids[i], mtu=0)
        directory.link(0, 2)
        directory.link(1, 3)
        return lambda: directory

    def doctor(self, env=None):
        self.peers = self.peers() if callable(self.peers) else self.peers
        return super().doctor(env)

    def test_nothing(self):
        self.assertEqual(self.doctor()["findings"], [])

    def test_netdev_that_is_down(self):
        self.write_netlink(eth1={"up": False})
        self.found("ib-netdevs", "mlx5_1 port 1", "^its IPoIB netdev eth1 is not up and running$", "^ip link set eth1 up$", level="note")

    def test_no_netdev(self):
        self.sysfs.write("devices/pci0000:00/0000:03:00.0/net/eth0/type", "1\n")
        self.found("ib-netdevs", "mlx5_0 port 1", "^it has no IPoIB netdev here$", "modprobe ib_ipoib", level="note")

    def test_port_that_is_down_needs_none(self):
        self.sysfs.write("devices/pci0000:00/0000:03:00.0/net/eth0/type", "1\n")
        self.sysfs.write("class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n")
        self.assertNotIn("ib-netdevs", {finding["check"] for finding in self.doctor()["findings"]})

    def test_pkeys_that_differ(self):
        self.sysfs.write("class/infiniband/mlx5_1/ports/1/pkeys/2", "0x8001\n")
        self.found("ib-pkeys", "mlx5_0 port 1", "^it has not the P_Key 0x8001, which mlx5_1 port 1 has$", "partitions.conf", level="note")

    def test_pkeys_at_other_places(self):
        self.sysfs.write("class/infiniband/mlx5_0/ports/1/pkeys/3", "0x8001\n")
        self.sysfs.write("class/infiniband/mlx5_1/ports/1/pkeys/2", "0x8001\n")
        self.assertEqual(self.doctor()["findings"], [])

    def test_lid_twice(self):
        self.peers = self.fabrics(lid_of_b=4)
        self.found("lids-twice", "mlx5_1 port 1", "^mlx5_0 of host b has the same LID, 4, and the same subnet prefix", "opensm.conf", level="note")


class Devices(DoctorTest):
    def without_rdma(self):
        for i in (0, 1):
            (self.dir / f"sys/class/infiniband/mlx5_{i}").unlink()
            real = self.dir / f"sys/devices/pci0000:00/0000:03:00.{i}/infiniband"
            os.rename(real, self.dir / f"gone{i}")
        self.peers = None

    def test_module_of_the_nic(self):
        self.without_rdma()
        self.found("modules", "PCI 0000:03:00.0", "ConnectX, but no RDMA device", "modprobe mlx5_ib", also={"agent"})

    def test_no_driver(self):
        self.without_rdma()
        (self.dir / "sys/devices/pci0000:00/0000:03:00.0/driver").unlink()
        self.found("modules", "PCI 0000:03:00.0", "ConnectX, but no RDMA device", "modprobe mlx5_core", also={"agent"})

    def test_a_function_without(self):
        self.sysfs.write("bus/pci/devices/0000:05:00.0/vendor", "0x15b3\n")
        self.sysfs.write("bus/pci/devices/0000:05:00.0/class", "0x020000\n")
        self.found("modules", "PCI 0000:05:00.0", "1 of 3 ConnectX functions", "bind it to mlx5_core", level="note")

    def function(self, name, driver=None, more=()):
        """One more ConnectX function, without an RDMA device."""
        place = f"bus/pci/devices/{name}"
        self.sysfs.write(f"{place}/vendor", "0x15b3\n")
        self.sysfs.write(f"{place}/class", "0x020000\n")
        if driver:
            (self.sysfs.root / place / "driver").symlink_to(f"../../drivers/{driver}")
        for path in more:
            self.sysfs.write(f"{place}/{path}", "")

    def test_functions_of_virtual_machines(self):
        for i, driver in enumerate(("vfio-pci", "mlx5_vfio_pci", "uio_pci_generic")):
            self.function(f"0000:05:00.{i}", driver)
        self.function("0000:05:00.4", None, ["physfn"])  # sriov_drivers_autoprobe is off
        self.assertEqual(self.doctor()["findings"], [])

    def test_all_are_given_away(self):
        self.without_rdma()
        for i in (0, 1):
            driver = self.dir / f"sys/devices/pci0000:00/0000:03:00.{i}/driver"
            driver.unlink()
            driver.symlink_to("../../../bus/pci/drivers/vfio-pci")
        self.found("modules", "RDMA devices", "all 2 ConnectX functions are kept for virtual machines", "bind one to mlx5_core",
                   level="note", also={"agent"})

    def bond(self, function, netdev, bond):
        place = f"bus/pci/devices/{function}/net/{netdev}"
        self.sysfs.write(f"{place}/bonding_slave/state", "active\n")
        (self.sysfs.root / place / "master").symlink_to(f"../../../../virtual/net/{bond}")

    def test_second_function_of_a_lag(self):
        self.function("0000:03:00.2", "mlx5_core")
        self.bond("0000:03:00.0", "eth0", "bond0")
        self.bond("0000:03:00.2", "eth2", "bond0")
        self.assertEqual(self.doctor()["findings"], [])

    def test_bond_without_an_rdma_device(self):
        self.function("0000:05:00.0", "mlx5_core")
        self.bond("0000:03:00.0", "eth0", "bond0")
        self.bond("0000:05:00.0", "eth2", "bond1")
        self.found("modules", "PCI 0000:05:00.0", "1 of 3 ConnectX functions", "bind it to mlx5_core", level="note")

    def test_no_nic(self):
        os.rename(self.dir / "sys", self.dir / "other")
        (self.dir / "sys").mkdir()
        self.peers = None
        self.found("modules", "RDMA devices", "no DIR/sys/class/infiniband", "load the module of your NIC", also={"agent"})

    def test_uverbs_module(self):
        os.rename(self.dir / "sys/class/infiniband_verbs", self.dir / "verbs")
        self.found("modules", "ib_uverbs", "not loaded", "modprobe ib_uverbs")

    def test_uverbs_file(self):
        (self.dir / "dev/infiniband/uverbs1").unlink()
        self.found("uverbs", "/dev/infiniband/uverbs1", "missing, so mlx5_1 cannot be opened", "modprobe ib_uverbs")

    def test_uverbs_file_in_a_container(self):
        (self.dir / "dev/infiniband/uverbs1").unlink()
        self.file("run/.containerenv", "")
        got = self.found("uverbs", "/dev/infiniband/uverbs1", "missing", "--device /dev/infiniband/uverbs1")
        self.assertTrue(got["container"])

    @unittest.skipUnless(os.geteuid(), "root may open every file")
    def test_uverbs_permission(self):
        (self.dir / "dev/infiniband/uverbs1").chmod(0)
        self.found("uverbs", "/dev/infiniband/uverbs1", "cannot be opened by this user: Permission denied", "udev rules")

    def test_rdma_cm(self):
        (self.dir / "dev/infiniband/rdma_cm").unlink()
        self.found("rdma-cm", "/dev/infiniband/rdma_cm", "missing", "modprobe rdma_ucm", level="note")


class Ports(DoctorTest):
    def down(self):
        self.sysfs.write("class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n")

    def test_no_carrier(self):
        self.down()
        self.write_netlink(eth1={"carrier": False})
        self.found("ports-down", "mlx5_1 port 1", "netdev eth1 has no carrier", "check the cable of eth1.*exclude in DIR/etc")

    def test_not_up(self):
        self.down()
        self.write_netlink(eth1={"up": False})
        self.found("ports-down", "mlx5_1 port 1", "netdev eth1 is not up", "ip link set eth1 up;")

    def test_excluded(self):
        self.down()
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[meshverbs]\nexclude = mlx5_1\n")
        self.assertEqual(self.doctor()["findings"], [])

    def test_infiniband_without_subnet_manager(self):
        for name, text in (("state", "2: INIT"), ("link_layer", "InfiniBand")):
            self.sysfs.write(f"class/infiniband/mlx5_1/ports/1/{name}", text + "\n")
        self.found("ports-down", "mlx5_1 port 1", "no subnet manager", "opensm")

    def test_some_gids_elsewhere(self):
        self.sysfs.write("class/infiniband/mlx5_1/ports/1/gids/4", "0000:0000:0000:0000:0000:ffff:0a07:0001\n")
        self.sysfs.write("class/infiniband/mlx5_1/ports/1/gid_attrs/types/4", V2 + "\n")
        self.found("gids-elsewhere", "mlx5_1 port 1", r"1 of its 5 GIDs, first index 4 \(10.7.0.1\)", "meshverbs gids", level="note")

    def test_all_gids_elsewhere(self):
        net = Netlink()
        net.link("eth0", mac="02:00:00:00:00:10")
        net.done()
        net.addr("eth0", "10.1.0.1/24")
        net.addr("eth0", "fe80::ff:fe00:10/64")
        net.done()
        self.netlink(net)
        self.file(".dockerenv", "")
        self.found("gids-elsewhere", "mlx5_1 port 1", "none of its 4 GIDs belongs to a netdev", "SR-IOV.*macvlan")

    def test_link_local_only(self):
        for i in (2, 3):
            (self.dir / f"sys/class/infiniband/mlx5_1/ports/1/gids/{i}").write_text("0000:" * 7 + "0000\n")
        self.write_netlink(("10.1.0.1/24", None))
        self.found("addresses", "mlx5_1 port 1", "eth1 has neither an IPv4 nor a global IPv6", "ip addr add ADDRESS/PREFIX dev eth1")

    def test_empty_table(self):
        for i in range(4):
            (self.dir / f"sys/class/infiniband/mlx5_1/ports/1/gids/{i}").write_text("0000:" * 7 + "0000\n")
        self.found("addresses", "mlx5_1 port 1", "GID table is empty", "bring its netdev up")


    def empty(self, device, port=1):
        for i in range(4):
            (self.dir / f"sys/class/infiniband/{device}/ports/{port}/gids/{i}").write_text("0000:" * 7 + "0000\n")

    def representors(self):
        for name, port_name in (("eth1", "p1"), ("eth1_0", "pf1vf0"), ("eth1_1", "c1pf1sf3")):
            self.sysfs.write(f"devices/pci0000:00/0000:03:00.1/net/{name}/phys_port_name", port_name + "\n")

    def test_representors(self):
        """The device of an uplink in switchdev mode has a port for each representor."""
        self.representors()
        self.sysfs.port("mlx5_1", 2, size=1)
        self.sysfs.port("mlx5_1", 3, size=1, state="1: DOWN")
        self.assertEqual(self.doctor()["findings"], [])

    def test_second_port_without_representors(self):
        self.sysfs.port("mlx5_1", 2, size=1)
        self.found("addresses", "mlx5_1 port 2", "GID table is empty", "bring its netdev up")

    def test_uplink_without_roce(self):
        self.representors()
        self.empty("mlx5_1")
        self.found("addresses", "mlx5_1 port 1", "switchdev mode, in which the uplink may have no RoCE",
                   "SF or VF.*eswitch set pci/0000:03:00.1 mode legacy.*exclude in DIR/etc")

    def link_local_only(self, master, kind=None):
        for i in (2, 3):
            (self.dir / f"sys/class/infiniband/mlx5_1/ports/1/gids/{i}").write_text("0000:" * 7 + "0000\n")
        self.write_netlink(("10.1.0.1/24", None))
        self.sysfs.write("class/net/eth1/mtu", "1500\n")
        (self.sysfs.root / "class/net/eth1/master").symlink_to(f"../{master}")
        if kind:
            self.sysfs.write(f"class/net/eth1/{kind}/state", "3\n")

    def test_bridge_member(self):
        self.link_local_only("br7", "brport")
        self.found("addresses", "mlx5_1 port 1", "eth1 is in bridge br7, and that has neither",
                   "ADDRESS/PREFIX dev br7, not dev eth1; .*name mlx5_1 in exclude")

    def test_bond_member(self):
        self.link_local_only("bond7", "bonding_slave")
        self.found("addresses", "mlx5_1 port 1", "eth1 is in bond bond7", "dev bond7, not dev eth1")

    def test_open_vswitch(self):
        self.link_local_only("ovs-system")
        self.found("addresses", "mlx5_1 port 1", "port of Open vSwitch", "outside of Open vSwitch; else name mlx5_1 in exclude")

    def test_vrf(self):
        """A VRF's members have addresses of their own."""
        self.link_local_only("red")
        self.found("addresses", "mlx5_1 port 1", "eth1 has neither an IPv4", "ip addr add ADDRESS/PREFIX dev eth1")

    def test_armed(self):
        for name, text in (("state", "3: ARMED"), ("link_layer", "InfiniBand")):
            self.sysfs.write(f"class/infiniband/mlx5_1/ports/1/{name}", text + "\n")
        self.found("ports-down", "mlx5_1 port 1", "ARMED: the subnet manager has not activated it", "opensm")


class Nets(DoctorTest):
    def share(self):
        for i in (2, 3):
            (self.dir / f"sys/class/infiniband/mlx5_1/ports/1/gids/{i}").write_text("0000:0000:0000:0000:0000:ffff:0a01:0007\n")
        self.write_netlink(("10.1.0.1/24", "10.1.0.7/24"))

    def arp(self, netdev, announce, ignore):
        self.file(f"proc/sys/net/ipv4/conf/{netdev}/arp_announce", f"{announce}\n")
        self.file(f"proc/sys/net/ipv4/conf/{netdev}/arp_ignore", f"{ignore}\n")

    def test_same_subnet(self):
        self.share()
        self.arp("all", 2, 1)
        self.found("same-subnet", "10.1.0.0/24", r"mlx5_0 \(eth0\), mlx5_1 \(eth1\)", "a subnet of its own", level="note")

    def test_two_netdevs_of_one_port(self):
        """An address on a VLAN and its subnet on the port's own netdev: one NIC all the same."""
        self.sysfs.write("class/infiniband/mlx5_0/ports/1/gids/5", "0000:0000:0000:0000:0000:ffff:0a01:0009\n")
        self.sysfs.write("class/infiniband/mlx5_0/ports/1/gid_attrs/types/5", V2 + "\n")
        self.sysfs.write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/5", "eth0.7\n")
        net = Netlink()
        net.link("lo", mac="00:00:00:00:00:00")
        for i in (0, 1):
            net.link(f"eth{i}", mac=f"02:00:00:00:00:1{i}")
        net.link("eth0.7", mac="02:00:00:00:00:10", vlan=7, lower="eth0")
        net.done()
        for i in (0, 1):
            net.addr(f"eth{i}", f"fe80::ff:fe00:1{i}/64")
            net.addr(f"eth{i}", f"10.{i + 1}.0.1/24")
        net.addr("eth0.7", "10.1.0.9/24")
        net.done()
        self.netlink(net)
        self.assertEqual(self.doctor()["findings"], [])

    def test_arp(self):
        self.share()
        self.arp("eth0", 2, 1)
        self.arp("eth1", 1, 1)
        self.found("arp", "eth1 (mlx5_1)", "arp_announce is 1, arp_ignore is 1", "net.ipv4.conf.eth1.arp_announce=2",
                   also={"same-subnet"})

    def test_arp_of_both(self):
        self.share()
        self.assertEqual([f["thing"] for f in self.doctor()["findings"] if f["check"] == "arp"], ["eth0 (mlx5_0)", "eth1 (mlx5_1)"])


if __name__ == "__main__":
    unittest.main()
