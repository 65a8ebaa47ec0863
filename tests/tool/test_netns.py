# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""gids and explain with a real kernel's netdevs, addresses and routes, in a network namespace of their own."""

import os
import subprocess
import sys
import unittest

from fixture import Sysfs, ToolTest, V2

SKIPPED = 77


def ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


class NetnsTest(ToolTest):
    @classmethod
    def setUpClass(cls):
        ip("link", "set", "lo", "up")
        for name, mac in (("net0", "02:00:00:00:00:10"), ("net1", "02:00:00:00:00:11"), ("net2", "02:00:00:00:00:12")):
            ip("link", "add", name, "address", mac, "type", "veth", "peer", "name", f"peer-{name}")
            ip("link", "set", name, "up")
        for name in ("net0", "net1"):
            ip("link", "set", f"peer-{name}", "up")
        ip("addr", "add", "10.1.0.1/24", "dev", "net0")
        ip("addr", "add", "2001:db8:1::1/64", "dev", "net0", "nodad")
        ip("addr", "add", "10.2.0.1/24", "dev", "net1")
        ip("addr", "add", "10.3.0.1/24", "dev", "net2")
        ip("route", "add", "10.20.0.0/16", "via", "10.2.0.254", "src", "10.2.0.1")
        ip("route", "add", "default", "via", "10.1.0.254")

    def setUp(self):
        super().setUp()
        sysfs = Sysfs(self.dir / "sys")
        for i in range(3):
            sysfs.device(f"mlx5_{i}", pci=f"0000:0{i}:00.0")
        sysfs.port("mlx5_0", size=16, gids=[
            (0, "fe80::ff:fe00:10", V2, "net0"), (1, "10.1.0.1", V2, "net0"), (3, "2001:db8:1::1", V2, "net0")])
        sysfs.port("mlx5_1", size=16, gids=[(0, "fe80::ff:fe00:11", V2, "net1"), (1, "10.2.0.1", V2, "net1")])
        sysfs.port("mlx5_2", size=16, gids=[(1, "10.3.0.1", V2, "net2"), (2, "10.9.0.1", V2, "net2")])

    def test_gids(self):
        rows = self.run_json("gids")["gids"]
        self.assertEqual([(row["device"], row["index"], row["netdev"], row["verdict_text"]) for row in rows], [
            ("mlx5_0", 0, "net0", "link-local only: neighbours on net0"),
            ("mlx5_0", 1, "net0", "usable: 10.1.0.0/24 on net0"),
            ("mlx5_0", 3, "net0", "usable: 2001:db8:1::/64 on net0"),
            ("mlx5_1", 0, "net1", "link-local only: neighbours on net1"),
            ("mlx5_1", 1, "net1", "usable: 10.2.0.0/24 on net1"),
            ("mlx5_2", 1, "net2", "no carrier on net2: check cable and switch port"),
            ("mlx5_2", 2, None, "its netdev (net2) is not in this network namespace")])

    def test_prefix(self):
        got = self.run_json("explain", "--from", "mlx5_0", "--to", "2001:db8:1::2")
        self.assertEqual(got["result"]["index"], 3)
        self.assertEqual(got["routes"][0]["lookup"], "prefix")

    def test_routes(self):
        got = self.run_json("explain", "--from", "mlx5_1", "--to", "10.20.3.4", "--index", "0", "--ud")
        self.assertEqual(got["routes"], [{
            "netdev": "net1", "lookup": "route", "gateway": "10.2.0.254", "source": "10.2.0.1",
            "text": "route via 10.2.0.254, source 10.2.0.1"}])
        self.assertEqual((got["result"]["action"], got["result"]["index"]), ("replace", 1))

    def test_no_route_out_of_this_port(self):
        """The default route is another netdev's; the kernel's guess for an interface without one does not count."""
        got = self.run_json("explain", "--from", "mlx5_1", "--to", "192.0.2.1", status=1)
        self.assertEqual(got["routes"][0]["lookup"], "none")
        self.assertEqual([(row["device"], row["index"]) for row in got["elsewhere"]], [("mlx5_0", 1)])


class VlanTest(ToolTest):
    def test_vlan(self):
        try:
            ip("link", "add", "link", "net0", "name", "net0.5", "type", "vlan", "id", "5")
        except subprocess.CalledProcessError as error:
            self.skipTest(f"no VLANs in this kernel: {error.stderr.strip()}")
        ip("link", "set", "net0.5", "up")
        ip("addr", "add", "10.5.0.1/24", "dev", "net0.5")
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", size=8, gids=[(4, "10.5.0.1", V2, "net0.5")])
        row = self.run_json("gids")["gids"][0]
        self.assertEqual((row["netdev"], row["vlan"], row["verdict"]), ("net0.5", 5, "usable"))


def in_namespace():
    """Runs this file once more, in namespaces of its own. Return: exit status."""
    command = ["unshare", "--user", "--map-root-user", "--net"]
    try:
        check = subprocess.run([*command, "ip", "link", "add", "test0", "type", "veth", "peer", "name", "test1"],
                               capture_output=True, text=True, check=False)
        error = check.stderr.strip() if check.returncode else None
    except FileNotFoundError as missing:
        error = str(missing)
    if error:
        print(f"skipped: no network namespace with veth can be had: {error}")
        return SKIPPED
    return subprocess.run([*command, sys.executable, "-B", *sys.argv], env={**os.environ, "IN_NETNS": "1"},
                          check=False).returncode


if __name__ == "__main__":
    if "IN_NETNS" not in os.environ:
        sys.exit(in_namespace())
    unittest.main()
