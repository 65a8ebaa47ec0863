# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs explain: the decision, what led to it, and how it is told."""

import textwrap
import unittest

from fixture import Netlink, Sysfs, ToolTest, V1, V2


class ExplainTest(ToolTest):
    def explain(self, *args, status=0):
        return self.run_json("explain", *args, status=status)

    def test_text_without_index(self):
        self.connectx()
        self.expect(["explain", "--from", "mlx5_0", "--to", "10.2.0.9"], 0, textwrap.dedent("""\
            From:           mlx5_0 port 1
            To:             10.2.0.9
            Transport:      connected

            Routes
              NETDEV  RESULT
              eth0    route via 10.1.0.254
              eth0.5  no address prefix and no route of eth0.5 covers it

            Candidates
              INDEX  GID               IPV4      TYPE     NETDEV  VLAN  IF USED  VERDICT
              0      fe80::ff:fe00:10  -         RoCE v1  eth0    -     pass     link-local entry, IPv4 destination
              1      fe80::ff:fe00:10  -         RoCE v2  eth0    -     pass     link-local entry, IPv4 destination
              2      ::ffff:10.1.0.1   10.1.0.1  RoCE v1  eth0    -     pass     no prefix of eth0 covers it, and routers forward no RoCE v1
              3      ::ffff:10.1.0.1   10.1.0.1  RoCE v2  eth0    -     keep     reaches it: route of eth0
              6      ::ffff:10.5.0.1   10.5.0.1  RoCE v1  eth0.5  5     pass     no prefix of eth0.5 covers it, and routers forward no RoCE v1
              7      ::ffff:10.5.0.1   10.5.0.1  RoCE v2  eth0.5  5     pass     no prefix and no route of eth0.5 covers it

            Result
              Decision:       index 3 (10.1.0.1) is the best entry for it
            """))

    def test_text_of_repair(self):
        self.connectx()
        status, out, _ = self.run_tool("explain", "--from", "mlx5_1:1", "--to", "10.20.0.9", "--index", "3",
                                       "--seen", "10.2.0.1")
        self.assertEqual(status, 0)
        self.assertIn("From:           mlx5_1 port 1, index 3\nSeen there:     10.2.0.1 (RoCE v2)\n", out)
        self.assertIn("  eth1    route via 10.2.0.254, source 10.2.0.1\n", out)
        self.assertTrue(out.endswith(
            "  Decision:       a program that uses index 3 gets index 5 (10.2.0.1) instead: "
            "the address seen under this index is at another index now\n"), out)

    def test_keep(self):
        self.connectx()
        got = self.explain("--from", "mlx5_0", "--to", "10.1.0.2", "--index", "3")
        self.assertEqual(got["from"], {"device": "mlx5_0", "port": 1, "index": 3, "seen": []})
        self.assertEqual((got["to"], got["transport"]), ("10.1.0.2", "connected"))
        self.assertEqual(got["routes"][0], {
            "netdev": "eth0", "lookup": "prefix", "gateway": None, "source": None,
            "text": "10.1.0.0/24 covers it, no route look-up needed"})
        self.assertEqual(got["result"], {
            "action": "keep", "reason": "fits", "index": 3, "reaches": True,
            "text": "a program that uses index 3 keeps it: the entry reaches the destination", "advice": None})
        self.assertNotIn("elsewhere", got)

    def test_vlan(self):
        """The destination is in the VLAN's prefix, the program has the untagged entry."""
        self.connectx()
        got = self.explain("--from", "mlx5_0", "--to", "10.5.3.4", "--index", "3", "--ud")
        # The default route of eth0 covers it: the entry can work, so it is kept.
        self.assertEqual(got["result"]["action"], "keep")
        got = self.explain("--from", "mlx5_0", "--to", "10.5.3.4", "--index", "1", "--ud")
        self.assertEqual((got["result"]["action"], got["result"]["index"]), ("replace", 7))
        best = self.explain("--from", "mlx5_0", "--to", "10.5.3.4")
        self.assertEqual(best["result"]["index"], 7)

    def test_pass_names_the_index(self):
        self.connectx()
        got = self.explain("--from", "mlx5_1", "--to", "10.2.0.9", "--index", "11", status=1)
        self.assertEqual((got["result"]["action"], got["result"]["reason"], got["result"]["index"]),
                         ("pass", "needs-peer", 11))
        self.assertIn("index 5", got["result"]["advice"])
        self.assertFalse(got["result"]["reaches"])

    def test_each_index(self):
        self.connectx()
        got = self.explain("--from", "mlx5_1", "--to", "10.2.0.9", "--ud")
        self.assertEqual({row["index"]: (row["action"], row["uses_index"]) for row in got["candidates"]},
                         {0: ("replace", 5), 1: ("replace", 5), 4: ("keep", 4), 5: ("keep", 5), 10: ("replace", 5),
                          11: ("replace", 5)})
        got = self.explain("--from", "mlx5_1", "--to", "10.2.0.9")
        self.assertEqual([row["action"] for row in got["candidates"]], ["pass", "pass", "keep", "keep", "pass", "pass"])

    def test_seen_versions(self):
        self.connectx()
        args = ("--from", "mlx5_1", "--to", "10.2.0.9", "--index", "20")
        self.assertEqual(self.explain(*args, "--seen", "10.2.0.1,v1")["result"]["index"], 4)
        self.assertEqual(self.explain(*args, "--seen", "10.2.0.1,v2")["result"]["index"], 5)
        got = self.explain(*args, "--seen", "10.3.0.1", "--seen", "::ffff:10.2.0.1")
        self.assertEqual((got["result"]["action"], got["result"]["index"]), ("repair", 5))
        self.assertEqual([seen["gid"] for seen in got["from"]["seen"]], ["::ffff:10.3.0.1", "::ffff:10.2.0.1"])
        self.assertEqual(self.explain(*args, "--seen", "10.3.0.1", status=1)["result"]["action"], "pass")

    def test_elsewhere(self):
        """Another rail reaches it: not ours to use, but worth saying."""
        self.connectx()
        got = self.explain("--from", "mlx5_0", "--to", "2001:db8:2::9", status=1)
        self.assertEqual(got["result"]["text"], "no entry of mlx5_0 port 1 reaches it")
        self.assertEqual([(row["device"], row["index"], row["netdev"]) for row in got["elsewhere"]],
                         [("mlx5_1", 11, "eth1")])
        _, out, _ = self.run_tool("explain", "--from", "mlx5_0", "--to", "2001:db8:2::9")
        self.assertIn("Other ports of this host that reach it\n", out)

    def test_nowhere(self):
        self.connectx()
        got = self.explain("--from", "mlx5_1", "--to", "2001:db8:3::9", status=1)
        self.assertEqual(got["elsewhere"], [])
        self.assertEqual(got["routes"][0]["lookup"], "none")

    def test_default_route_of_the_other_family(self):
        """::/0 holds all mapped addresses, bit by bit, and yet says nothing of IPv4."""
        net = Netlink()
        net.link("eth0", mac="02:00:00:00:00:10")
        net.addr("eth0", "10.1.0.1/24")
        net.route("eth0", "::/0", via="fe80::1")
        self.netlink(net)
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", gids=[(3, "10.1.0.1", V2, "eth0")])
        got = self.explain("--from", "mlx5_0", "--to", "10.7.0.1", status=1)
        self.assertEqual([route["lookup"] for route in got["routes"]], ["none"])

    def test_slot_reused(self):
        """Another address of the same netdev took the program's slot."""
        net = Netlink()
        net.link("eth0", mac="02:00:00:00:00:10")
        net.addr("eth0", "10.1.0.1/24")
        net.addr("eth0", "10.9.0.1/24")
        self.netlink(net)
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", gids=[(1, "10.9.0.1", V2, "eth0"), (3, "10.1.0.1", V2, "eth0")])
        got = self.explain("--from", "mlx5_0", "--to", "10.1.0.9", "--index", "1", "--seen", "10.1.0.1")
        self.assertEqual((got["result"]["action"], got["result"]["index"]), ("keep", 1))
        self.assertEqual(got["candidates"][0]["verdict"], "subnet")
        self.assertEqual(got["candidates"][0]["verdict_text"], "not in 10.1.0.0/24 of eth0")

    def test_own_address(self):
        self.connectx()
        got = self.explain("--from", "mlx5_1", "--to", "10.1.0.1")
        self.assertEqual(got["result"]["text"], "every index is kept: the destination is an address of this host")

    def test_down(self):
        net = Netlink()
        net.link("eth0", mac="02:00:00:00:00:10", carrier=False)
        net.addr("eth0", "10.1.0.1/24")
        self.netlink(net)
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", gids=[(3, "10.1.0.1", V2, "eth0")])
        got = self.explain("--from", "mlx5_0", "--to", "10.1.0.2", "--index", "3", status=1)
        self.assertEqual((got["result"]["action"], got["result"]["reason"]), ("keep", "port-down"))
        self.assertEqual(got["candidates"][0]["verdict"], "down")
        self.assertEqual(got["candidates"][0]["verdict_text"], "would reach it, but eth0 has no carrier")

    def test_infiniband(self):
        self.netlink(Netlink())
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", gids=[(0, "fe80::1", V1, None)], link_layer="InfiniBand", size=8)
        got = self.explain("--from", "mlx5_0", "--to", "fe80::2")
        self.assertEqual((got["candidates"], got["result"]["reason"]), ([], "infiniband"))
        got = self.explain("--from", "mlx5_0", "--to", "fe80::2", "--index", "0")
        self.assertEqual((got["result"]["action"], got["result"]["reaches"]), ("keep", True))

    def test_usage(self):
        self.connectx()
        hint = "\nTry: meshverbs help explain\n"
        base = ["explain", "--from", "mlx5_0", "--to", "10.1.0.2"]
        for args, error in (
                (["explain", "--to", "10.1.0.2"], "--from DEV is missing: the RDMA device that the program uses"),
                (["explain", "--from", "mlx5_0"], "--to GID|IP|LID is missing: the peer's GID or address, or its LID"),
                (["explain", "--from", "", "--to", "::1"], "--from: the name of the RDMA device is missing"),
                (["explain", "--from", "mlx5_0:x"], "--from 'mlx5_0:x': the port is a number from 1 to 255"),
                (["explain", "--from", "mlx5_0:0"], "--from 'mlx5_0:0': the port is a number from 1 to 255"),
                (["explain", "--from", "mlx5_0:256"], "--from 'mlx5_0:256': the port is a number from 1 to 255"),
                (["explain", "--to", "node7"], "--to 'node7' is neither a GID nor an IPv4 or IPv6 address, nor a LID"),
                (["explain", "--from", "mlx5_0", "--to", "6", "--ud"], "--to LID is for connections without a GRH: neither --index nor --ud goes with it"),
                (["explain", "--from", "mlx5_0", "--to", "0x6", "--index", "0"], "--to LID is for connections without a GRH: neither --index nor --ud goes with it"),
                (["explain", "--from", "mlx5_0", "--to", "65536"], "--to '65536' is neither a GID nor an IPv4 or IPv6 address, nor a LID"),
                (["explain", "--to", "::"], "--to '::' is the zero GID, which no peer has"),
                ([*base, "--index", "-1"], "--index '-1' is not a GID index"),
                ([*base, "--index", "4294967296"], "--index '4294967296' is not a GID index"),
                ([*base, "--index", "3x"], "--index '3x' is not a GID index"),
                ([*base, "--seen", "10.1.0.1"], "--seen says what was read under an index: add --index"),
                ([*base, "--seen", "10.1.0.1,v3"], "--seen '10.1.0.1,v3': after the comma comes v1 or v2"),
                ([*base, "--seen", "there"], "--seen 'there' is neither a GID nor an IPv4 or IPv6 address"),
                ([*base, *["--seen", "::1"] * 17], "--seen can be given 16 times"),
                ([*base, "now"], "'now' is not expected")):
            with self.subTest(args=args):
                self.expect_error(args, f"meshverbs explain: {error}{hint}")

    def test_unknown_places(self):
        self.connectx()
        self.expect_error(["explain", "--from", "mlx4_0", "--to", "10.1.0.2"],
                          "meshverbs: no RDMA device 'mlx4_0'; there are mlx5_0, mlx5_1\n")
        self.expect_error(["explain", "--from", "mlx5_0:2", "--to", "10.1.0.2"],
                          "meshverbs: mlx5_0 has no port 2; its last one is 1\n")


if __name__ == "__main__":
    unittest.main()
