#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""From topology to hosts, without touching the machine."""
import pathlib
import sys
import unittest

REPO = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(REPO / "sim"), str(REPO / "tests/topo")]
sys.dont_write_bytecode = True

import topo as topologies  # noqa: E402
from launcher import SimError, plan  # noqa: E402


def hosts(text):
    return plan.hosts(topologies.parse("host a\nhost b\nnic a 0 10.0.0.1/24\nnic b 3 fd00::1/64\n" + text, "t"))


class Plan(unittest.TestCase):
    def test_devices_are_named_by_nic_and_numbered_without_gaps(self):
        a, b = hosts("nic b 1\n")
        self.assertEqual([(d.name, d.minor, d.netdev) for d in b.devices],
                         [("mlx5_1", 0, "eth1"), ("mlx5_3", 1, "eth3")])
        self.assertEqual(len({d.pci for d in b.devices}), 2)
        self.assertEqual(str(a.mgmt), "192.0.2.1/24")

    def test_node_guid_is_made_of_the_mac_as_mlx5_makes_it(self):
        a, _ = hosts("")
        a.devices[0].mac = "0c:42:a1:12:34:56"
        self.assertEqual(a.devices[0].node_guid, "0c42a10300123456")

    def test_given_pci_address_and_options(self):
        _, b = hosts("pci b 3 0000:17:00.1\nport b 3 rate=200 numa=1 gids=32\n")
        dev = b.devices[0]
        self.assertEqual((dev.pci, dev.rate, dev.numa_node, dev.n_gids), ("0000:17:00.1", 200, 1, 32))

    def test_devx(self):
        topo = topologies.parse("host b\nnic b 0\nnic b 1\nport b 1 devx=1 lag_ports=2\n", "t")
        (b,) = plan.hosts(topo)
        self.assertEqual([(d.devx, d.lag_ports) for d in b.devices], [(0, 0), (1, 2)])
        self.assertIn(" devx=1 lag_ports=2\n", plan.daemon_config(b, topo, "s", "c", 1, False))
        for option in "devx=2", "lag_ports=1":
            with self.subTest(option), self.assertRaisesRegex(SimError, "b.1: devx is 0 or 1"):
                hosts(f"nic b 1\nport b 1 {option}\n")

    def test_infiniband_lids(self):
        _, b = hosts("nic b 1 10.0.1.1/24\nnic b 2\nport b 1 link_layer=infiniband\nport b 3 link_layer=infiniband lid=1\n")
        self.assertEqual([(d.lid, d.n_gids, d.n_pkeys) for d in b.devices],
                         [(2, 8, 128), (0, 256, 1), (1, 8, 128)])

    def test_pkeys(self):
        topo = topologies.parse("host b\nnic b 0 10.0.1.1/24\nport b 0 link_layer=infiniband pkeys=0xffff,0,0x8001\n", "t")
        (b,) = plan.hosts(topo)
        self.assertEqual(b.devices[0].pkeys, [0xFFFF, 0, 0x8001])
        self.assertIn(" pkey_table=ffff,0,8001 ", plan.daemon_config(b, topo, "s", "c", 1, False))

    def test_lid_table_has_an_address_for_every_lid(self):
        topo = topologies.parse("host a\nnic a 0 fd00::1/64 10.0.1.1/24\nnic a 1 10.0.0.1/24\nport a 0 link_layer=infiniband\n"
                                "port a 1 link_layer=infiniband\n", "t")
        gids = [plan.device(nic, 0, {}).gid for nic in topo.nics()]
        self.assertEqual([(lid, str(ip), gid, lmc) for lid, ip, gid, lmc in plan.lid_table(topo)],
                         [(1, "fd00::1", gids[0], 0), (2, "10.0.0.1", gids[1], 0)])
        self.assertRegex(str(gids[0]), "^fe80::")

    def test_etc_hosts(self):
        topo = topologies.parse("host a\nnic a 0 10.0.0.1/24 fd00::1/64\nnic a 1 10.9.0.1/24\nswitch l a.0\n", "t")
        self.assertEqual(plan.etc_hosts(topo).splitlines()[2:],
                         ["192.0.2.1 a", "10.0.0.1 a-l", "fd00::1 a-l"])

    def test_bad_options_name_the_port(self):
        for option, said in (("speed=3", "unknown port option 'speed'"), ("rate=30", "rate 30"), ("rate=x", "rate=x"),
                             ("link_layer=token", "'token'"), ("gids=999", "gids=999"),
                             ("link_layer=infiniband lid=0xc000", "lid 49152"), ("pkeys=0x8001", "pkeys"),
                             ("link_layer=infiniband pkeys=0,0x8001", "pkeys"), ("link_layer=infiniband pkeys=0x18001", "pkeys"),
                             ("link_layer=infiniband pkeys=" + ",".join(["1"] * 17), "pkeys")):
            with self.assertRaises(SimError, msg=option) as caught:
                hosts(f"port b 3 {option}\n")
            self.assertIn("b.3", str(caught.exception))
            self.assertIn(said, str(caught.exception))

    def test_a_lid_cannot_be_given_twice(self):
        with self.assertRaisesRegex(SimError, "b.3: lid 5 .* taken"):
            hosts("port a 0 link_layer=infiniband lid=5\nport b 3 link_layer=infiniband lid=5\n")

    def test_lmc(self):
        """A port has as many LIDs, and no other port has one of them."""
        infiniband = "link_layer=infiniband"
        plans = hosts(f"port a 0 {infiniband}\nnic b 0 10.0.0.2/24\nport b 0 {infiniband} lmc=2\nport b 3 {infiniband} lid=2 lmc=1\n")
        self.assertEqual([(dev.lid, dev.lmc) for host in plans for dev in host.devices if dev.lid], [(1, 0), (4, 2), (2, 1)])
        for ports, said in ((f"port a 0 {infiniband} lid=5\nport b 3 {infiniband} lid=4 lmc=1\n", "b.3: lid 4 .* taken"),
                            (f"port b 3 {infiniband} lid=6 lmc=2\n", "b.3: lid 6 is no multiple"), (f"port b 3 {infiniband} lmc=8\n", "b.3: lmc"),
                            (f"port b 3 {infiniband} lid=0xbffe lmc=2\n", "b.3: lid"), ("port b 3 lmc=1\n", "b.3: lmc")):
            with self.assertRaisesRegex(SimError, said):
                hosts(ports)

    def test_infiniband_needs_an_address(self):
        with self.assertRaisesRegex(SimError, "b.1: an InfiniBand port needs an address"):
            hosts("nic b 1\nport b 1 link_layer=infiniband\n")

    def test_too_many_nics(self):
        with self.assertRaisesRegex(SimError, "17 NICs"):
            hosts("".join(f"nic a {i}\n" for i in range(1, 17)))


if __name__ == "__main__":
    unittest.main()
