#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A cable is pulled under checked traffic whose memory is all of dma-bufs, at both ends, with descriptors that the program has closed. Needs
root; SIM_BUILD is the build."""
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
                                    "-o", "send,send_imm,write,write_imm,private,read", *options)


if __name__ == "__main__":
    need("ip", "bridge")
    unittest.main()
