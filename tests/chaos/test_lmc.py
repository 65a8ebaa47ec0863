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

    def test_cable(self):
        self.there_and_back("-t", "1", "-q", str(watched.N_QPS), "-r", "100", "-o", "send,write,read")


if __name__ == "__main__":
    need("ip", "bridge")
    unittest.main()
