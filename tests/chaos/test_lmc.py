#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A cable is pulled under checked traffic of queue pairs that name each port by another one of its LIDs (LMC). Needs root; SIM_BUILD is the
build."""
import contextlib
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import hosts, watched  # noqa: E402
from nicmatrix.world import need  # noqa: E402

STACK = contextlib.ExitStack()


def setUpModule():
    stage = STACK.enter_context(hosts.staged(watched.BUILD, hosts.PATIENT))
    Lmc.hosts = STACK.enter_context(hosts.Hosts.up(watched.BUILD, stage, "lmc", topo=hosts.topology("ibpair")))


def tearDownModule():
    STACK.close()


class Lmc(watched.Watched):
    def setUp(self):
        self.addCleanup(self.clean)

    def clean(self):
        self.kill()
        self.hosts.heal()

    def are_on(self, device):
        self.wait_for(f"all are on {device}", lambda: all(self.devices(host) == [device] * watched.N_QPS for host in watched.ENDS))

    def test_cable(self):
        self.programs = self.hosts.both(watched.TRAFFIC, ["-t", "1", "-q", str(watched.N_QPS), "-r", "100", "-o", "send,write,read"])
        self.wait_for("the agents know all queue pairs, which can move", lambda: self.known((True,)))
        self.hosts.link("l0", False)
        self.are_on("mlx5_1")
        self.hosts.link("l0", True)
        self.are_on("mlx5_0")
        self.end()


if __name__ == "__main__":
    need("ip", "bridge")
    unittest.main()
