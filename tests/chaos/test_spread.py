#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Connections that leave a dead NIC spread over all others that are equally good, those between two GIDs together, with checked traffic on
two simulated hosts with four NICs each. Needs root; SIM_BUILD is the build."""
import collections
import contextlib
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import REPO, hosts, watched  # noqa: E402
from nicmatrix.world import need  # noqa: E402

N_GIDS = 12  # of rails4.topo's first NICs
N_QPS = 2 * N_GIDS
STACK = contextlib.ExitStack()


def setUpModule():
    stage = STACK.enter_context(hosts.staged(watched.BUILD, hosts.PATIENT))
    Spread.hosts = STACK.enter_context(hosts.Hosts.up(watched.BUILD, stage, "spread", topo=REPO / "tests/topo/rails4.topo"))


def tearDownModule():
    STACK.close()


class Spread(watched.Watched):
    def setUp(self):
        self.addCleanup(self.clean)

    def all_are_on(self, devices):
        return all(len(self.devices(host)) == N_QPS and self.used(host) == devices for host in watched.ENDS)

    def test_all_others_take_their_part(self):
        self.programs = self.hosts.both(watched.TRAFFIC, ["-a", "-t", str(N_GIDS), "-q", str(N_QPS // N_GIDS), "-r", "50", "-s", "1", "-o", "send,write,read"])
        self.wait_for("the agents know all queue pairs, which can move", lambda: all(
            sum(qp["movable"] is True for qp in self.qps(host)) == N_QPS for host in watched.ENDS))
        self.hosts.link("l0", False)
        self.wait_for("they are on all others", lambda: self.all_are_on({"mlx5_1", "mlx5_2", "mlx5_3"}))
        before = collections.Counter(self.devices(watched.CLIENT))
        self.assertEqual(before, collections.Counter(self.devices(watched.SERVER)), "both ends of each connection have chosen alike")
        self.assertTrue(all(count % (N_QPS // N_GIDS) == 0 for count in before.values()), f"two GIDs' connections stay together: {before}")
        self.hosts.link("l1", False)
        self.wait_for("those of the second NIC have left as well", lambda: self.all_are_on({"mlx5_2", "mlx5_3"}))
        for device, count in collections.Counter(self.devices(watched.CLIENT)).items():
            self.assertGreaterEqual(count, before[device], "none has left a NIC that works")
        self.hosts.link("l0", True)
        self.hosts.link("l1", True)
        self.wait_for("all are back", lambda: self.all_are_on({"mlx5_0"}))
        self.end()


if __name__ == "__main__":
    need("ip", "tc", "bridge")
    unittest.main()
