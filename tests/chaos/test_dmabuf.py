#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A cable is pulled under checked traffic whose memory is all of dma-bufs, at both ends, with descriptors that the program has closed. Then
the same, and with host memory, on devices whose bytes reach memory late. Needs root; SIM_BUILD is the build."""
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
OPS = "send,send_imm,write,write_imm,private,read"
PORTS = ("a.0", "a.1", "b.0", "b.1")


def setUpModule():
    stage = STACK.enter_context(hosts.staged(watched.BUILD, hosts.PATIENT))
    Dmabuf.hosts = STACK.enter_context(hosts.Hosts.up(watched.BUILD, stage, "dmabuf"))


def tearDownModule():
    STACK.close()


class Dmabuf(watched.Watched):
    def setUp(self):
        self.addCleanup(self.clean)

    def test_cable(self):
        for options in ((), ("-S", "-W")):
            with self.subTest(options=options):
                self.there_and_back("-M", "-t", "2", "-q", str(watched.N_QPS // 2), "-r", "100",
                                    "-o", OPS, *options)

    def test_late_bytes(self):
        """The devices keep bytes of WRITEs back until a completion or an answer pushes them: what the old NIC has executed is there before what
        the new one brings. tests/sim/mesh/failover/test_order.c has queues of each kind, and a device that pushes nothing.
        """
        for port in PORTS:
            self.hosts.fault(port, "quirk pushed-dma")
            self.addCleanup(self.hosts.fault, port, "quirk none")
        for options in ((), ("-M", "-S")):
            with self.subTest(options=options):
                self.there_and_back("-t", "2", "-q", str(watched.N_QPS // 2), "-r", "100", "-o", OPS, *options)


if __name__ == "__main__":
    need("ip", "bridge")
    unittest.main()
