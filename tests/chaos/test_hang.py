#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The firmware of a NIC hangs on which queue pairs wait for the next move, and another NIC's port changes, with checked traffic on two
simulated hosts with three NICs each. Needs root; SIM_BUILD is the build."""
import contextlib
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import REPO, hosts  # noqa: E402
from schedule.hosts import SERVER  # noqa: E402
from schedule.watched import BUILD, ENDS, N_QPS, TRAFFIC, Watched  # noqa: E402
from nicmatrix.world import need  # noqa: E402

OPS = "send,send_imm,write,write_imm,private,read"
HANGS = "firmware us=600000000"  # longer than anything is waited for here
ANSWERS = "firmware us=0"
STACK = contextlib.ExitStack()


def setUpModule():
    stage = STACK.enter_context(hosts.staged(BUILD, hosts.FLAPPING))
    Hang.hosts = STACK.enter_context(hosts.Hosts.up(BUILD, stage, "hang", topo=REPO / "tests/topo/rails3.topo"))


def tearDownModule():
    STACK.close()


class Hang(Watched):
    def setUp(self):
        self.programs = ()
        self.addCleanup(self.clean)

    def clean(self):
        for index in (1, 2):
            self.hosts.fault(f"{SERVER}.{index}", ANSWERS)
        self.kill()
        self.hosts.heal()

    def begin(self):
        self.programs = self.hosts.both(TRAFFIC, ["-t", "2", "-q", str(N_QPS // 2), "-r", "50", "-s", "1", "-o", OPS])
        self.wait_for("the agents know all queue pairs", lambda: self.known((True,)))

    def is_on(self, device):
        self.wait_for(f"all are on {device}", lambda: all(self.used(host) == {device} for host in ENDS))

    def armed(self):
        """The one NIC on which all of the server's have another one ready."""
        def made():
            return {qp["standby"] for qp in self.qps(SERVER)}
        self.wait_for("others are ready", lambda: len(made()) == 1 and None not in made())
        return made().pop()

    def test_others_move_and_go(self):
        """They leave one healthy NIC for another, and give up what is ready on the one that hangs; the program takes all away and ends."""
        self.begin()
        middle = self.armed()
        self.hosts.link("a.0", False)
        self.is_on(middle)
        third = self.armed()
        self.assertEqual({middle, third}, {"mlx5_1", "mlx5_2"})
        self.hosts.fault(f"{SERVER}.{third[-1]}", HANGS)
        self.hosts.link("a.0", True)
        self.is_on("mlx5_0")
        self.hosts.link("a.0", False)
        self.is_on(middle)
        self.end()

    def test_only_the_one_that_is_being_armed_waits(self):
        """All move, and the first next queue pair is made on a NIC that hangs: that command keeps the helper thread, and one connection. All
        others return."""
        self.begin()
        ready = self.armed()
        hung = ({"mlx5_1", "mlx5_2"} - {ready}).pop()
        self.hosts.fault(f"{SERVER}.{hung[-1]}", HANGS)
        self.hosts.link("a.0", False)
        self.is_on(ready)
        self.wait_for("a command does not return", lambda: "does not answer a command" in self.hosts.world.log(SERVER))
        self.hosts.link("a.0", True)
        self.wait_for("all but one are back", lambda: self.devices(SERVER).count("mlx5_0") == N_QPS - 1)


if __name__ == "__main__":
    need("ip", "tc", "bridge")
    unittest.main()
