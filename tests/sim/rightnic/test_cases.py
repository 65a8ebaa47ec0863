#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Which choices of NIC are right, and what a result is worth; no hosts needed."""
import collections
import pathlib
import struct
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from nicmatrix import cases, drive, gids, world  # noqa: E402
from nicmatrix.programs import UNREACHED  # noqa: E402
from launcher import directory  # noqa: E402
import topo as topologies  # noqa: E402

TWO_PATHS = "host a\nhost b\nnic a 0\nnic a 1\nnic b 0\nnic b 1\nswitch l0 a.0 b.0\nswitch l1 a.1 b.1\n"


def result(ok, carried=None, reached=True):
    return {"ok": ok, "reached": reached, "carried": carried or {"a": {0: 0.99, 1: 0.01}, "b": {0: 0.99, 1: 0.01}}}


class Cases(unittest.TestCase):
    def test_every_pair_and_choice(self):
        for name, pairs in (("triangle", 6), ("ring4", 8)):
            found = cases.all_cases(topologies.load(name), ["p", "q"])
            self.assertEqual(len(set(found)), pairs * 4 * 2)
            self.assertEqual(sum(case.right for case in found), pairs * 2)
            self.assertEqual(set(collections.Counter((c.server, c.client) for c in found).values()), {8})

    def test_right_is_what_the_cables_say(self):
        found = cases.all_cases(topologies.load("triangle"), ["p"])
        right = {(f"{c.server}.{c.server_nic}", f"{c.client}.{c.client_nic}") for c in found if c.right}
        self.assertEqual(right, {("a.0", "b.0"), ("b.0", "a.0"), ("b.1", "c.0"), ("c.0", "b.1"), ("c.1", "a.1"), ("a.1", "c.1")})

    def test_two_paths(self):
        found = cases.all_cases(topologies.parse(TWO_PATHS, "t"), ["p"])
        self.assertEqual({(c.server_nic, c.client_nic) for c in found if c.right}, {(0, 0), (1, 1)})
        self.assertEqual(len(found), 8)

    def test_routes_of_both_ends(self):
        topo = topologies.load("routed")
        self.assertEqual(cases.paths(topo, "a", "b"), [(0, 0), (1, 1)])
        self.assertEqual({(c.server, c.client) for c in cases.all_cases(topo, ["p"])}, {("a", "b"), ("b", "a")})
        topo.hosts["b"].routes.pop(0)  # no way back
        self.assertEqual(cases.paths(topo, "a", "b"), [(1, 1)])

    def test_one_card_of_two_is_cabled(self):
        topo = topologies.load("ibcards")
        found = [case for case in cases.all_cases(topo, ["ib_write_bw", "ibv_rc_pingpong"]) if cases.can_start(topo, case)]
        self.assertEqual({c.name for c in found if c.program == "ib_write_bw"}, {"ib_write_bw a.0 < b.1", "ib_write_bw b.1 < a.0"})
        self.assertEqual(sum(c.program == "ibv_rc_pingpong" for c in found), 8)
        self.assertTrue(all(c.right for c in found if c.program == "ib_write_bw"))
        self.assertEqual({c.program for c in cases.sample(found, 3, 0)}, {"ibv_rc_pingpong"})
        self.assertTrue(cases.by_lid(topo, "a", 1))
        self.assertFalse(cases.by_lid(topologies.load("triangle"), "a", 1))

    def test_datagrams_that_stay(self):
        def wrong(name):
            found = cases.all_cases(topologies.load(name), ["ibv_ud_pingpong"])
            return {c.name.split(maxsplit=1)[1] for c in found if not c.right}, sum(c.right for c in found)

        self.assertEqual(wrong("ibcards"), (set(), 2))
        self.assertEqual(wrong("ibtrunk"), (set(), 8))
        self.assertEqual(wrong("spur"), ({"a.0 < b.1", "b.1 < a.0", "a.1 < c.0", "c.0 < a.1"}, 4))  # not those of b.0

    def test_a_sample_has_every_program_wrong_and_repeats_itself(self):
        found = cases.all_cases(topologies.load("triangle"), ["p", "q", "r"])
        some = cases.sample(found, 5, 2)
        self.assertEqual({c.program for c in some if not c.right}, {"p", "q", "r"})
        self.assertEqual(sum(c.right for c in some), 2)
        self.assertEqual(some, cases.sample(found, 5, 2))
        self.assertNotEqual([cases.sample(found, seed, 2) for seed in range(9)], [some] * 9)


class Shares(unittest.TestCase):
    def test_what_agents_say(self):
        before = {nic: 1000 for nic in range(8)}
        self.assertEqual(world.shares(before, {**{nic: 1500 for nic in range(8)}, 3: 9500}), {**{nic: 0.0 for nic in range(8)}, 3: 1.0})
        self.assertEqual(world.shares({}, {0: 500, 1: 500, 2: 0}), {0: 0.5, 1: 0.5, 2: 0.0})
        self.assertEqual(world.shares({0: 100, 1: 100}, {0: 190, 1: 110}), {0: 0.9, 1: 0.1})
        self.assertEqual(world.shares({0: 1, 1: 1}, {0: 1, 1: 1}), {})


class Judge(unittest.TestCase):
    right = cases.Case("p", "a", "b", 0, 0, ((0, 0), (1, 1)))
    wrong = cases.Case("p", "a", "b", 1, 0, ((0, 0), (1, 1)))

    def test_bare(self):
        self.assertEqual(cases.judge(self.right, False, result(True)), "")
        self.assertEqual(cases.judge(self.right, False, result(False)), "fails")
        self.assertEqual(cases.judge(self.wrong, False, result(False)), "")
        self.assertIn("works bare", cases.judge(self.wrong, False, result(True)))
        self.assertIn("another reason", cases.judge(self.wrong, False, result(False, reached=False)))

    def test_stacked(self):
        for case in (self.right, self.wrong):
            self.assertEqual(cases.judge(case, True, result(True)), "")
            self.assertEqual(cases.judge(case, True, result(False)), "fails")
            other = {"a": {0: 0.99}, "b": {0: 0.1, 1: 0.9}}
            self.assertIn("other NICs than", cases.judge(case, True, result(True, other)))
        one = {"a": {1: 0.99}, "b": {1: 0.99}}
        self.assertIn("other NICs than 0 and 0", cases.judge(self.right, True, result(True, one)))
        self.assertEqual(cases.judge(self.wrong, True, result(True, one)), "")


class GidPairs(unittest.TestCase):
    def test_what_cannot_work_bare(self):
        v1, v2, six = ("fe80::1", "IB/RoCE v1"), ("::ffff:10.1.0.1", "RoCE v2"), ("fd00::1", "RoCE v2")
        self.assertTrue(gids.must_fail(v1, v2))
        self.assertTrue(gids.must_fail(v2, six))
        self.assertFalse(gids.must_fail(v2, v2))
        self.assertFalse(gids.must_fail(six, six))

    def test_vlans(self):
        """A port has its link-local address in each VLAN: a packet for one reaches the other."""
        four, local = ("::ffff:10.1.0.1", "RoCE v2", "eth0"), ("fe80::1", "RoCE v2", "eth0")
        self.assertTrue(gids.must_fail(four, (*four[:2], "eth0.7")))
        self.assertTrue(gids.must_fail(("fd00::1", "RoCE v2", "eth0"), (*local[:2], "eth0.7")))
        self.assertFalse(gids.must_fail(local, (*local[:2], "eth0.7")))


class Directory(unittest.TestCase):
    def image(self):
        rails = [("mlx5_0", 0, 1), ("mlx5_1", 1, 0)]
        hosts = b"".join(directory.HOST.pack(b"i" * 16, name, i, 1, 1, 0, 0) for i, name in enumerate((b"a", b"b")))
        body = b"".join(directory.RAIL.pack(dev.encode(), b"eth", host, 0, 3, 0, 0, 0, 0, 1, 2, up, 0) for dev, host, up in rails)
        links = directory.LINK.pack(0, 1)
        at = directory.HEADER.size
        offsets = (at, at + len(hosts), at, at, at + len(hosts) + len(body))
        size = at + len(hosts) + len(body) + len(links)
        return directory.HEADER.pack(directory.MAGIC, 1, size, 0, 0, 7, 9, 2, 2, 0, 1, *offsets) + hosts + body + links

    def test_what_is_in_it(self):
        seen = directory.parse(self.image())
        self.assertEqual((seen.hosts, seen.links, seen.pid, seen.generation), (["a", "b"], {("mlx5_0", "b", "mlx5_1")}, 7, 9))
        self.assertEqual([(r.host, r.device, r.up) for r in seen.rails], [("a", "mlx5_0", True), ("b", "mlx5_1", False)])

    def test_nonsense_is_named(self):
        image = self.image()
        outside = image[:-directory.LINK.size] + directory.LINK.pack(0, 2)
        for bad in (b"", image[:-1], b"x" + image[1:], outside, image[:8] + struct.pack("=I", 2) + image[12:]):
            with self.assertRaises(directory.BadDirectory):
                directory.parse(bad)


class Grace(unittest.TestCase):
    """A server whose words or status are judged is not killed after moments."""

    def seconds(self, status, said, *enough):
        serving = mock.Mock(**{"wait.return_value": 1, "said.return_value": ""})
        world = mock.Mock(**{"start.return_value": serving, "run.return_value": (status, said)})
        drive.talk(world, "a", "b", [], [], 1, 25, *enough)
        return serving.wait.call_args[0][0]

    def test_waits(self):
        self.assertEqual(self.seconds(0, ""), drive.GRACE_S)
        self.assertEqual(self.seconds(1, "anything"), drive.FAILED_GRACE_S)
        self.assertEqual(self.seconds(1, "Failed to modify QP", UNREACHED), drive.FAILED_GRACE_S)
        self.assertEqual(self.seconds(1, "nothing of the path", UNREACHED), drive.GRACE_S)
        self.assertEqual(self.seconds(1, "Failed to modify QP", None), drive.GRACE_S)


if __name__ == "__main__":
    unittest.main()
