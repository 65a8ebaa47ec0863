# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs gids: tables of the kinds that hosts have, and the verdict on each entry."""

import textwrap
import unittest

from fixture import Netlink, Sysfs, ToolTest, V1, V2


class GidsTest(ToolTest):
    def verdicts(self, *args):
        rows = self.run_json("gids", *args)["gids"]
        return [(row["device"], row["index"], row["verdict"], row["verdict_text"]) for row in rows]

    def test_text(self):
        self.connectx()
        self.expect(["gids", "-d", "mlx5_0"], 0, textwrap.dedent("""\
            DEV     PORT  INDEX  GID               IPV4      TYPE     NETDEV  VLAN  VERDICT
            mlx5_0  1     0      fe80::ff:fe00:10  -         RoCE v1  eth0    -     link-local only: neighbours on eth0
            mlx5_0  1     1      fe80::ff:fe00:10  -         RoCE v2  eth0    -     link-local only: neighbours on eth0
            mlx5_0  1     2      ::ffff:10.1.0.1   10.1.0.1  RoCE v1  eth0    -     usable: 10.1.0.0/24 on eth0, not through routers (RoCE v1)
            mlx5_0  1     3      ::ffff:10.1.0.1   10.1.0.1  RoCE v2  eth0    -     usable: 10.1.0.0/24 on eth0
            mlx5_0  1     6      ::ffff:10.5.0.1   10.5.0.1  RoCE v1  eth0.5  5     usable: 10.5.0.0/16 on eth0.5, not through routers (RoCE v1)
            mlx5_0  1     7      ::ffff:10.5.0.1   10.5.0.1  RoCE v2  eth0.5  5     usable: 10.5.0.0/16 on eth0.5

            Ports
              DEV     PORT  LINK LAYER  STATE   GIDS
              mlx5_0  1     Ethernet    active  6
            """))

    def test_json(self):
        self.connectx()
        got = self.run_json("gids")
        self.assertEqual([(row["device"], row["index"]) for row in got["gids"]],
                         [("mlx5_0", i) for i in (0, 1, 2, 3, 6, 7)] + [("mlx5_1", i) for i in (0, 1, 4, 5, 10, 11)])
        self.assertEqual(got["gids"][5], {
            "device": "mlx5_0", "port": 1, "index": 7, "gid": "::ffff:10.5.0.1", "ipv4": "10.5.0.1",
            "type": "RoCE v2", "netdev": "eth0.5", "vlan": 5, "verdict": "usable",
            "verdict_text": "usable: 10.5.0.0/16 on eth0.5"})
        self.assertIsNone(got["gids"][0]["ipv4"])
        self.assertIsNone(got["gids"][0]["vlan"])
        self.assertEqual(got["ports"][1], {
            "device": "mlx5_1", "port": 1, "link_layer": "Ethernet", "state": "active", "rate_mbps": 100000,
            "n_gids": 6})

    def test_link_states(self):
        net = Netlink()
        net.link("eth0", mac="02:00:00:00:00:10", up=False)
        net.link("eth1", mac="02:00:00:00:00:11", carrier=False)
        net.addr("eth0", "10.1.0.1/24")
        net.addr("eth1", "10.2.0.1/24")
        self.netlink(net)
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", gids=[(3, "10.1.0.1", V2, "eth0")], state="1: DOWN")
        sysfs.device("mlx5_1", pci="0000:04:00.0")
        sysfs.port("mlx5_1", gids=[(3, "10.2.0.1", V2, "eth1")], state="1: DOWN")
        self.assertEqual(self.verdicts(), [
            ("mlx5_0", 3, "down", "eth0 is down: ip link set eth0 up"),
            ("mlx5_1", 3, "no-carrier", "no carrier on eth1: check cable and switch port")])

    def test_container(self):
        """A pod's namespace: sparse table, foreign entries with a name, without one, with a name we have too."""
        net = Netlink()
        net.link("eth0", mac="02:00:00:00:00:10")
        net.addr("eth0", "10.1.0.7/24")
        self.netlink(net)
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", gids=[(2, "10.1.0.1", V1, "enp3s0f0"), (5, "10.1.0.5", V2, None),
                                   (6, "10.9.0.1", V2, "eth0"), (13, "10.1.0.7", V2, "eth0")])
        self.assertEqual(self.verdicts(), [
            ("mlx5_0", 2, "no-netdev", "its netdev (enp3s0f0) is not in this network namespace"),
            ("mlx5_0", 5, "no-netdev", "its netdev is not in this network namespace"),
            ("mlx5_0", 6, "no-netdev", "its netdev (eth0) is not in this network namespace"),
            ("mlx5_0", 13, "usable", "usable: 10.1.0.0/24 on eth0")])
        self.assertIsNone(self.run_json("gids")["gids"][2]["netdev"])

    def test_infiniband(self):
        self.netlink(Netlink())
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", gids=[(0, "fe80::c42:a103:65:1c3e", V1, None)], link_layer="InfiniBand", size=8, lid="0x11")
        sysfs.port("mlx5_0", num=2, gids=[(0, "fe80::c42:a103:65:1c3f", V1, None)], link_layer="InfiniBand", size=8,
                   state="2: INIT")
        self.assertEqual(self.verdicts(), [
            ("mlx5_0", 0, "usable", "usable: InfiniBand, LID 17"),
            ("mlx5_0", 0, "port-down", "port is not active: check the cable and the subnet manager")])
        self.assertEqual([port["link_layer"] for port in self.run_json("gids")["ports"]], ["InfiniBand"] * 2)

    def test_many_devices_in_order(self):
        self.netlink(Netlink())
        sysfs = Sysfs(self.dir / "sys")
        for i in (10, 2, 1):
            sysfs.device(f"mlx5_{i}", pci=f"0000:{i:02x}:00.0")
            sysfs.port(f"mlx5_{i}", size=4)
        got = self.run_json("gids", status=1)
        self.assertEqual(got["gids"], [])
        self.assertEqual([port["device"] for port in got["ports"]], ["mlx5_1", "mlx5_2", "mlx5_10"])

    def test_ipv6_prefixes(self):
        net = Netlink()
        net.link("eth0", mac="02:00:00:00:00:10")
        net.addr("eth0", "2001:db8::1:2/126")
        net.addr("eth0", "10.0.0.5/30")
        self.netlink(net)
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", gids=[(0, "2001:db8::1:2", V2, "eth0"), (1, "10.0.0.5", V2, "eth0")])
        self.assertEqual([verdict[3] for verdict in self.verdicts()],
                         ["usable: 2001:db8::1:0/126 on eth0", "usable: 10.0.0.4/30 on eth0"])

    def test_no_rdma(self):
        self.netlink(Netlink())
        Sysfs(self.dir / "sys", with_class=False)
        self.expect_error(["gids"], "meshverbs: there is no DIR/sys/class/infiniband: the RDMA modules are not loaded; "
                          "load the NIC's, e.g. modprobe mlx5_ib, or in a container use the host's /sys\n")
        (self.dir / "sys/class/infiniband").mkdir(parents=True)
        self.expect_error(["gids"], "meshverbs: DIR/sys/class/infiniband is empty: no RDMA device; load the NIC's module, "
                          "e.g. modprobe mlx5_ib, or make a Soft-RoCE one: rdma link add rxe0 type rxe netdev NETDEV\n")

    def test_unknown_device(self):
        self.connectx()
        self.expect_error(["gids", "-d", "mlx5_2"], "meshverbs: no RDMA device 'mlx5_2'; there are mlx5_0, mlx5_1\n")

    def test_bad_capture(self):
        self.connectx()
        data = (self.dir / "netlink").read_bytes()
        (self.dir / "netlink").write_bytes(data[:-3])
        self.expect_error(["gids"], "meshverbs: DIR/netlink does not hold rtnetlink messages: Bad message\n")
        (self.dir / "netlink").write_text("eth0: <UP> mtu 1500, the output of ip link\n")
        self.expect_error(["gids"], "meshverbs: DIR/netlink does not hold rtnetlink messages: Bad message\n")


if __name__ == "__main__":
    unittest.main()
