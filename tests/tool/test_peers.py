# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs peers and paths, and explain with the agent's directory."""

import os
import re
import textwrap
import unittest

from fixture import CTL_VERSION, Directory, Netlink, Sysfs, ToolTest, V1, V2

NO_AGENT = ("meshverbs: there is no DIR/run/directory: no agent runs on this host; start meshverbsd, or name its "
            "directory with --run-dir\n")


def triangle():
    """Hosts a, b and c, a cable and a /30 for each pair; a's mlx5_0 leads to b, its mlx5_1 to c."""
    directory = Directory()
    directory.host("a")
    directory.rail("mlx5_0", [(0, "fe80::a1", 1), (1, "fe80::a1", 2), (2, "10.0.1.1/30", 1), (3, "10.0.1.1/30", 2)],
                   netdev="eth0")
    directory.rail("mlx5_1", [(3, "10.0.3.1/30", 2)], netdev="eth1")
    directory.host("b", heard_s=1.2)
    directory.rail("mlx5_0", [(3, "10.0.1.2/30", 1), (4, "10.0.1.2/30", 2)], rate=25000)
    directory.rail("mlx5_1", [(3, "10.0.2.1/30", 2)])
    directory.host("c", heard_s=3)
    directory.rail("mlx5_0", [(3, "10.0.2.2/30", 2)], flags=0)
    directory.rail("mlx5_1", [(3, "10.0.3.2/30", 2)])
    directory.link(0, 2)
    directory.link(1, 5)
    return directory


def cards():
    """Two InfiniBand cards per host, one of them cabled."""
    directory = Directory()
    directory.host("a")
    directory.rail("mlx5_0", [(0, "fe80::a0", 0)], netdev="ib0", link_layer=1, lid=3)
    directory.rail("mlx5_1", [(0, "fe80::a1", 0)], netdev="ib1", link_layer=1, lid=4, flags=0)
    directory.host("b")
    directory.rail("mlx5_0", [(0, "fe80::b0", 0)], netdev="ib0", link_layer=1, lid=5, flags=0)
    directory.rail("mlx5_1", [(0, "fe80::b1", 0)], netdev="ib1", link_layer=1, lid=6)
    directory.link(0, 3)
    return directory


class LidTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.netlink(Netlink())
        sysfs = Sysfs(self.dir / "sys")
        for i in (0, 1):
            sysfs.device(f"mlx5_{i}", pci=f"0000:03:00.{i}")
            sysfs.port(f"mlx5_{i}", gids=[(0, f"fe80::a{i}", V1, None)], link_layer="InfiniBand", size=8, lid=f"0x{3 + i}")

    def explain(self, device, lid, status=0):
        return self.run_json("explain", "--from", device, "--to", lid, status=status)

    def test_peers_have_lids(self):
        self.directory(cards())
        self.assertEqual([rail["lid"] for rail in self.run_json("peers")["rails"]], [3, 4, 5, 6])

    def test_works(self):
        self.directory(cards())
        got = self.explain("mlx5_0", "6")
        self.assertEqual((got["to"], got["lid"]["known"]), ("LID 6", True))
        self.assertEqual((got["directory"]["verdict"], got["directory"]["host"], got["directory"]["device"]), ("works", "b", "mlx5_1"))

    def test_itself(self):
        self.directory(cards())
        got = self.explain("mlx5_0", "3")
        self.assertEqual((got["lid"]["known"], got["directory"]["verdict"]), (True, "self"))

    def test_moved(self):
        self.directory(cards())
        for device, lid, verdict in (("mlx5_0", "0x5", "remote-down"), ("mlx5_1", "6", "local-down"), ("mlx5_1", "5", "local-down")):
            got = self.explain(device, lid)
            self.assertEqual((got["directory"]["verdict"], got["directory"]["reaches"]), (verdict, True))
            self.assertEqual([(path["device"], path["peer_device"]) for path in got["directory"]["paths"]], [("mlx5_0", "mlx5_1")])

    def test_unknown(self):
        got = self.explain("mlx5_0", "6", status=1)
        self.assertEqual(got["lid"], {"known": False, "text": "as the program asks: no agent runs on this host"})
        self.directory(cards())
        for lid, why in (("7", "no host with an agent"), ("4", "another port of this host has it"), ("0xc001", "no LID of one port")):
            got = self.explain("mlx5_0", lid, status=1)
            self.assertFalse(got["lid"]["known"])
            self.assertIn(why, got["lid"]["text"])
        status, out, _ = self.run_tool("explain", "--from", "mlx5_0", "--to", "7")
        self.assertEqual(status, 1)
        self.assertIn("LID\n  Outcome:        as the program asks: no host with an agent is known to have it in this subnet\n", out)


class PeersTest(ToolTest):
    def test_text(self):
        self.directory(triangle())
        status, out, err = self.run_tool("peers")
        self.assertEqual((status, err), (0, ""))
        out = re.sub(r"\b(1\.[2-9]|2\.\d) s ago", "1.2 s ago", out)  # it is read later than it was written
        out = re.sub(r"\b(3\.\d|4\.\d) s ago", "3.0 s ago", out)
        self.assertEqual(out, textwrap.dedent("""\
            Agent:          process 4711

            Hosts
              HOST  RAILS  UP  LAST HEARD  STATE
              a     2      2   -           this host
              b     2      2   1.2 s ago   its agent is heard
              c     2      1   3.0 s ago   its agent is heard

            Rails
              HOST  DEV     PORT  NETDEV  STATE  HEARD ON  ADDRESSES
              a     mlx5_0  1     eth0    up     -         fe80::a1, 10.0.1.1
              a     mlx5_1  1     eth1    up     -         10.0.3.1
              b     mlx5_0  1     -       up     mlx5_0    10.0.1.2
              b     mlx5_1  1     -       up     -         10.0.2.1
              c     mlx5_0  1     -       down   -         10.0.2.2
              c     mlx5_1  1     -       up     mlx5_1    10.0.3.2
            """))

    def test_json(self):
        directory = triangle()
        directory.host("d", agent_version=0)
        directory.rail("mlx5_0", flags=Directory.UP | Directory.EXCLUDED)
        directory.rail("mlx5_1", flags=Directory.DRAINED)
        directory.host("e", agent_version=7)
        self.directory(directory)
        got = self.run_json("peers")
        self.assertEqual((got["agent"]["pid"], got["agent"]["alive"], got["agent"]["generation"]), (4711, True, 9))
        self.assertEqual([(host["host"], host["state"]) for host in got["hosts"]], [
            ("a", "self"), ("b", "talks"), ("c", "talks"), ("d", "silent"), ("e", "other-version")])
        self.assertIsNone(got["hosts"][3]["heard_ms"])
        self.assertGreaterEqual(got["hosts"][1]["heard_ms"], 1200)
        self.assertEqual(got["hosts"][1]["id"], "02" * 16)
        self.assertEqual([rail["state"] for rail in got["rails"]], ["up", "up", "up", "up", "down", "up", "excluded", "drained"])
        self.assertEqual([rail["drained"] for rail in got["rails"]], [False] * 7 + [True])
        self.assertEqual(got["rails"][2]["rate_mbps"], 25000)
        self.assertEqual(len(got["gids"]), 10)
        self.assertEqual(got["gids"][3], {
            "host": "a", "device": "mlx5_0", "port": 1, "index": 3, "gid": "::ffff:10.0.1.1", "ipv4": "10.0.1.1",
            "type": "RoCE v2", "vlan": None, "prefix_len": 126})
        _, out, _ = self.run_tool("peers")
        self.assertIn(f"speaks version 7, this one {CTL_VERSION}", out)

    def test_alone(self):
        directory = Directory()
        directory.host("a")
        self.directory(directory)
        self.assertEqual(len(self.run_json("peers", status=1)["hosts"]), 1)

    def test_old(self):
        self.directory(triangle(), age_s=60)
        self.assertFalse(self.run_json("peers", status=1)["agent"]["alive"])
        self.assertRegex(self.run_tool("peers")[1], r"^Agent: +not heard of for 6\d\.\d s: what follows is old")

    def test_no_agent(self):
        for command in (["peers"], ["paths", "b"]):
            self.expect_error(command, NO_AGENT)

    def test_bad_files(self):
        self.directory(triangle())
        path = self.dir / "run/directory"
        path.chmod(0o666)
        self.expect_error(["peers"], "meshverbs: DIR/run/directory is not taken seriously: somebody other than its owner may "
                          "write it\n")
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-8])
        self.expect_error(["peers"], "meshverbs: DIR/run/directory is not a directory of peers, or of another version of "
                          "meshverbs\n")
        path.unlink()
        path.symlink_to("elsewhere")
        self.expect_error(["paths", "b"], "meshverbs: cannot read DIR/run/directory: Too many levels of symbolic links\n")

    def test_run_dir_option(self):
        self.directory(triangle())
        os.rename(self.dir / "run", self.dir / "other")
        self.expect_error(["peers"], NO_AGENT)
        self.assertEqual(self.run_tool("peers", before=["--run-dir", str(self.dir / "other")])[0], 0)
        self.assertEqual(self.run_tool("peers", env={"MESHVERBS_RUN_DIR": str(self.dir / "other")})[0], 0)


class PathsTest(ToolTest):
    def test_text(self):
        self.directory(triangle())
        self.expect(["paths", "10.0.2.1", "--from", "mlx5_0"], 0, textwrap.dedent("""\
            Agent:          process 4711
            Host:           b
            To:             10.0.2.1

            Programs that use
              DEV     PORT  INDEX  GID              IPV4      TYPE     VERDICT
              mlx5_0  1     0      fe80::a1         -         RoCE v1  the two addresses are of different subnets, links, families or RoCE versions
              mlx5_0  1     1      fe80::a1         -         RoCE v2  the two addresses are of different subnets, links, families or RoCE versions
              mlx5_0  1     2      ::ffff:10.0.1.1  10.0.1.1  RoCE v1  the two addresses are of different subnets, links, families or RoCE versions
              mlx5_0  1     3      ::ffff:10.0.1.1  10.0.1.1  RoCE v2  the two addresses are of different subnets, links, families or RoCE versions

            Paths, best first
              RANK  DEV     PORT  GID       PEER DEV  PORT  PEER GID  TYPE     KNOWN BY  RATE
              1     mlx5_0  1     10.0.1.1  mlx5_0    1     10.0.1.2  RoCE v2  beacons   25 Gb/s
            """))

    def test_host(self):
        self.directory(triangle())
        for name in ("c", "03" * 16):
            got = self.run_json("paths", name)
            self.assertEqual((got["host"], got["to"], got["programs"]), ("c", None, []))
            self.assertEqual([(path["device"], path["peer_device"]) for path in got["paths"]], [("mlx5_1", "mlx5_1")])

    def test_verdicts(self):
        self.directory(triangle())
        got = self.run_json("paths", "10.0.1.2")
        self.assertEqual([(row["device"], row["index"], row["verdict"]) for row in got["programs"]], [
            ("mlx5_0", 0, "apart"), ("mlx5_0", 1, "apart"), ("mlx5_0", 2, "ask"), ("mlx5_0", 3, "works"),
            ("mlx5_1", 3, "apart")])
        self.assertEqual([(path["rank"], path["type"], path["linked"], path["peer_stays"]) for path in got["paths"]],
                         [(1, "RoCE v2", True, True)])
        self.assertEqual({row["verdict"] for row in self.run_json("paths", "10.0.2.2")["programs"]}, {"remote-down"})

    def test_from_keeps_its_rail(self):
        directory = Directory()
        for host in (1, 2):
            directory.host("ab"[host - 1])
            directory.rail("mlx5_0", [(0, f"10.1.0.{host}/24", 2)])
            directory.rail("mlx5_1", [(0, f"10.2.0.{host}/24", 2)], port=2)
        self.directory(directory)
        for device, expected in (("mlx5_0", ["mlx5_0", "mlx5_1"]), ("mlx5_1:2", ["mlx5_1", "mlx5_0"])):
            got = self.run_json("paths", "--from", device, "b")
            self.assertEqual([path["device"] for path in got["paths"]], expected)
            self.assertEqual([path["stays"] for path in got["paths"]], [True, False])

    def test_none(self):
        directory = Directory()
        directory.host("a")
        directory.rail("mlx5_0", [(0, "10.1.0.1/24", 2)])
        directory.host("b", agent_version=0)
        directory.rail("mlx5_0", [(0, "10.2.0.1/24", 2)])
        self.directory(directory)
        self.assertEqual(self.run_json("paths", "b", status=1)["paths"], [])
        _, out, _ = self.run_tool("paths", "b")
        self.assertIn("none: no rail of this host reaches it", out)
        self.assertIn("its agent has not been heard", out)

    def test_link_local_of_two_hosts(self):
        directory = Directory()
        directory.host("a")
        directory.rail("mlx5_0", [(0, "fe80::a", 2)])
        for name in ("b", "c"):
            directory.host(name)
            directory.rail("mlx5_0", [(0, "fe80::1", 2)])
        directory.link(0, 2)
        self.directory(directory)
        self.assertEqual(self.run_json("paths", "fe80::1")["host"], "c")

    def test_whom(self):
        directory = triangle()
        directory.host("b")
        self.directory(directory)
        for args, error in (
                (["x"], "the directory has no host 'x'; meshverbs peers lists them"),
                (["a"], "'a' is this host"),
                (["b"], "2 hosts are called 'b': give an id of meshverbs peers --json"),
                (["10.9.9.9"], "the directory has no host with the address 10.9.9.9"),
                (["10.0.1.1"], "10.0.1.1 is an address of this host"),
                (["c", "--from", "mlx5_9"], "the directory has no port 1 of a device 'mlx5_9' on this host"),
                (["c", "--from", "mlx5_0:2"], "the directory has no port 2 of a device 'mlx5_0' on this host")):
            with self.subTest(args=args):
                self.expect_error(["paths", *args], f"meshverbs: {error}\n")

    def test_usage(self):
        hint = "\nTry: meshverbs help paths\n"
        for args, error in (
                ([], "a host or one of its addresses is missing"),
                (["a", "b"], "'b' is not expected"),
                (["a", "--from", "mlx5_0:x"], "--from 'mlx5_0:x': the port is a number from 1 to 255"),
                (["a", "--from", ""], "--from: the name of the RDMA device is missing")):
            with self.subTest(args=args):
                self.expect_error(["paths", *args], f"meshverbs paths: {error}{hint}")
        self.expect_error(["peers", "b"], "meshverbs peers: 'b' is not expected\nTry: meshverbs help peers\n")


class ExplainTest(ToolTest):
    """The host of fixture.connectx(), a, and a directory in which it has peers."""

    def setUp(self):
        super().setUp()
        self.connectx()
        self.peers = Directory()
        self.peers.host("a")
        self.peers.rail("mlx5_0", [(2, "10.1.0.1/24", 1), (3, "10.1.0.1/24", 2)])
        self.peers.rail("mlx5_1", [(4, "10.2.0.1/24", 1), (5, "10.2.0.1/24", 2)])
        self.peers.host("b")
        self.peers.rail("mlx5_0", [(3, "192.168.7.1/30", 2)])
        self.peers.rail("mlx5_1", [(2, "10.2.0.7/24", 1), (3, "10.2.0.7/24", 2)])
        self.peers.link(1, 3)

    def explain(self, *args, status=0):
        return self.run_json("explain", *args, status=status)

    def test_no_agent(self):
        self.assertIsNone(self.explain("--from", "mlx5_0", "--to", "10.1.0.2")["directory"])

    def test_works(self):
        self.directory(self.peers)
        got = self.explain("--from", "mlx5_1", "--to", "10.2.0.7", "--index", "5")["directory"]
        self.assertEqual((got["verdict"], got["host"], got["device"], got["paths"]), ("works", "b", "mlx5_1", []))

    def test_beyond_a_router(self):
        """A host that has only answered does not have connections at work moved, unless it is authenticated."""
        args = ("--from", "mlx5_1", "--to", "10.2.0.7", "--index", "5")
        for flags, stays in ((0, None), (Directory.ROUTED, "not authenticated"), (Directory.ROUTED | Directory.AUTHENTICATED, None)):
            with self.subTest(flags=flags):
                self.peers.hosts[1]["flags"] = flags
                self.directory(self.peers)
                self.assertEqual(self.explain(*args)["directory"]["stays"], stays)
                self.assertEqual(" At work:        stays on its path: b is beyond a router and not authenticated; " in self.run_tool("explain", *args)[1],
                                 stays is not None)

    def test_not_met(self):
        """The address is of a network of ours, and the host that announces it was never heard there: it is not believed."""
        args = ("--from", "mlx5_1", "--to", "10.2.0.9", "--index", "5")
        self.peers.rail("mlx5_2", [(Directory.UNMET | 3, "10.2.0.9/24", 2)], flags=0)
        self.directory(self.peers)
        got = self.explain(*args)["directory"]
        self.assertEqual((got["verdict"], got["host"], got["stays"], got["paths"]), ("unknown", None, "not met", []))
        self.assertIn(" At work:        stays on its path: b announces the address, but was never heard ", self.run_tool("explain", *args)[1])
        self.assertIn((3, "::ffff:10.2.0.9"), [(gid["index"], gid["gid"]) for gid in self.run_json("peers")["gids"]])

    def test_not_answered(self):
        """The address is of no network of ours, and its host has never answered there. A route leads there out of eth0 only."""
        self.peers.rail("mlx5_2", [(Directory.UNANSWERED | 3, "10.9.0.9/24", 2)])
        self.directory(self.peers)
        for device, index, stays in (("mlx5_0", 3, "not met"), ("mlx5_1", 5, None)):
            with self.subTest(device=device):
                got = self.explain("--from", device, "--to", "10.9.0.9", "--index", str(index))["directory"]
                self.assertEqual(got["stays"], stays)

    def test_other_rail(self):
        """Nothing of mlx5_1 leads to the peer's other address, but the peer has one that can be reached."""
        self.directory(self.peers)
        args = ("--from", "mlx5_1", "--to", "192.168.7.1", "--index", "5")
        got = self.explain(*args)
        self.assertEqual(got["result"]["reaches"], False)
        self.assertEqual((got["directory"]["verdict"], got["directory"]["reaches"]), ("apart", True))
        self.assertEqual([(path["gid"], path["peer_gid"]) for path in got["directory"]["paths"]],
                         [("10.2.0.1", "10.2.0.7")])
        _, out, _ = self.run_tool("explain", *args)
        self.assertEqual(out[out.index("Directory\n"):], textwrap.dedent("""\
            Directory
              Peer:           b, mlx5_0 port 1
              Verdict:        the two addresses are of different subnets, links, families or RoCE versions
              Outcome:        the two hosts agree on a path, at best mlx5_1 10.2.0.1 to mlx5_1 10.2.0.7; UD, UC and XRC as the program asks

              Paths, best first
                RANK  DEV     PORT  GID       PEER DEV  PORT  PEER GID  TYPE     KNOWN BY  RATE
                1     mlx5_1  1     10.2.0.1  mlx5_1    1     10.2.0.7  RoCE v2  beacons   100 Gb/s
            """))

    def test_routed(self):
        """eth0 has a default route: as far as this host can see, it gets there."""
        self.directory(self.peers)
        got = self.explain("--from", "mlx5_0", "--to", "192.168.7.1")
        self.assertEqual(got["directory"]["verdict"], "works")

    def test_ask(self):
        self.directory(self.peers)
        got = self.explain("--from", "mlx5_1", "--to", "10.2.0.7", "--index", "4")["directory"]
        self.assertEqual((got["verdict"], got["reaches"]), ("ask", True))
        self.assertIn("RoCE v2 if the peer uses that", got["text"])

    def test_hole(self):
        """A program reads the zero GID under an index without an entry; its peer cannot connect to that."""
        self.directory(self.peers)
        for to, index in (("192.168.7.1", "5"), ("10.2.0.7", "5"), ("10.9.9.9", None)):
            with self.subTest(to=to):
                got = self.explain("--from", "mlx5_1", "--to", to, "--index", "3", status=1)
                self.assertEqual((got["result"]["reaches"], got["directory"]["reaches"], got["directory"]["paths"]), (False, False, []))
                self.assertIn("index 3 is empty: a program that reads it gets the zero GID", got["result"]["text"])
                self.assertIn("no GID to give to the peer", got["directory"]["text"])
                self.assertIn(f"start the program with index {index} " if to == "10.2.0.7" else "start the program with ",
                              got["result"]["advice"])
        self.assertIn("meshverbs gids -d mlx5_1", self.explain("--from", "mlx5_1", "--to", "192.168.7.1", "--index", "3", status=1)
                      ["result"]["advice"])
        # What the program has seen there its peer was given; an address handle gives nobody a GID.
        got = self.explain("--from", "mlx5_1", "--to", "10.2.0.7", "--index", "3", "--seen", "10.2.0.1")
        self.assertEqual((got["result"]["action"], got["directory"]["reaches"]), ("repair", True))
        self.assertEqual(self.explain("--from", "mlx5_1", "--to", "10.2.0.7", "--index", "3", "--ud")["result"]["action"], "replace")

    def test_entry_of_another_namespace(self):
        """The plugin leaves those to the kernel, which knows the routes there."""
        self.directory(self.peers)
        self.netlink(Netlink())
        got = self.explain("--from", "mlx5_1", "--to", "192.168.7.1", "--index", "5", status=1)
        self.assertEqual((got["directory"]["reaches"], got["directory"]["paths"]), (False, []))
        self.assertIn("another network namespace", got["directory"]["text"])

    def test_peer_without_agent(self):
        self.peers.hosts[1]["version"] = 0
        self.directory(self.peers)
        got = self.explain("--from", "mlx5_1", "--to", "192.168.7.1", status=1)["directory"]
        self.assertEqual((got["verdict"], got["reaches"]), ("apart", False))
        self.assertIn("the peer's agent has not been heard", got["text"])

    def test_dead_agent(self):
        self.directory(self.peers, age_s=30)
        got = self.explain("--from", "mlx5_1", "--to", "192.168.7.1", status=1)["directory"]
        self.assertIn("the agent of this host does not run", got["text"])

    def test_no_path(self):
        self.peers.rails[3] = self.peers.rails[3][:-2] + bytes([Directory.EXCLUDED | Directory.UP, 0])
        self.directory(self.peers)
        got = self.explain("--from", "mlx5_1", "--to", "192.168.7.1", status=1)["directory"]
        self.assertEqual((got["paths"], got["reaches"]), ([], False))

    def test_unknown_and_datagrams(self):
        self.directory(self.peers)
        got = self.explain("--from", "mlx5_1", "--to", "10.2.0.9")["directory"]
        self.assertEqual((got["verdict"], got["host"], got["reaches"]), ("unknown", None, True))
        self.assertIsNone(self.explain("--from", "mlx5_1", "--to", "192.168.7.1", "--ud", status=1)["directory"])

    def test_bad_directory(self):
        self.directory(self.peers)
        (self.dir / "run/directory").write_bytes(b"x" * 100)
        status, _, err = self.run_tool("explain", "--from", "mlx5_1", "--to", "10.2.0.7", "-j")
        self.assertEqual(status, 2)
        self.assertIn("is not a directory of peers", err)

    def test_infiniband(self):
        self.netlink(Netlink())
        sysfs = Sysfs(self.dir / "sys2")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", gids=[(0, "fe80::1", V1, None)], link_layer="InfiniBand", size=8)
        os.rename(self.dir / "sys", self.dir / "sys1")
        os.rename(self.dir / "sys2", self.dir / "sys")
        directory = Directory()
        for name, address in (("a", "fe80::1"), ("b", "fe80::2")):
            directory.host(name)
            directory.rail("mlx5_0", [(0, address, 0)], link_layer=1)
        self.directory(directory)
        self.assertEqual(self.explain("--from", "mlx5_0", "--to", "fe80::2")["directory"]["verdict"], "works")


if __name__ == "__main__":
    unittest.main()
