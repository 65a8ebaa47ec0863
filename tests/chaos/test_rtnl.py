#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A port goes down while others have the kernel's rtnl lock, and keep it (rtnl.c), at both hosts. Needs root; SIM_BUILD is the
build."""
import contextlib
import pathlib
import shutil
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import hosts  # noqa: E402
from schedule.watched import BUILD, ENDS, N_QPS, TRAFFIC, Watched  # noqa: E402
from nicmatrix.world import need  # noqa: E402

STACK = contextlib.ExitStack()
HELD = "/etc/rtnl.held"
HELD_S = 4  # twice as long as a peer waits for an agreement
OPS = "send,send_imm,write,write_imm,private,read"  # no atomics: one whose result is lost with the cable ends its queue pair


def setUpModule():
    stage = STACK.enter_context(hosts.staged(BUILD))
    shutil.copy(BUILD / "tests/chaos/rtnl.so", pathlib.Path(stage, "usr/lib"))
    pathlib.Path(stage, "etc/ld.so.preload").write_text("/usr/lib/rtnl.so\n")
    Held.hosts = STACK.enter_context(hosts.Hosts.up(BUILD, stage, "rtnl"))


def tearDownModule():
    STACK.close()


class Held(Watched):
    def setUp(self):
        self.programs = self.hosts.both(TRAFFIC, ("-t", "2", "-q", str(N_QPS // 2), "-r", "50", "-o", OPS))
        self.addCleanup(self.clean)
        self.wait_for("the agents know all queue pairs", lambda: self.known((True,)))
        time.sleep(1)  # paths have been probed

    def clean(self):
        self.hold(False)
        self.kill()
        self.hosts.heal()

    def hold(self, held):
        for host in ENDS:
            self.hosts.world.run(host, *(("touch", HELD) if held else ("rm", "-f", HELD)))

    def moved(self, host):
        return self.hosts.world.run(host, "grep", "-c", "; moved to ", "/var/log/meshverbs.log")[1].strip()

    def test_they_move(self):
        """The kernel tells nobody, but probes do; agents go on, and nobody waits for what they look at: they move while the lock is held."""
        self.hold(True)
        self.hosts.link("l0", False)
        until = time.monotonic() + HELD_S
        self.wait_for("they move", lambda: all(self.moved(host) == str(N_QPS) for host in ENDS))
        time.sleep(max(0.0, until - time.monotonic()))
        self.hold(False)
        self.wait_for("the agents see it", lambda: all(self.used(host) == {"mlx5_1"} for host in ENDS))
        self.hosts.link("l0", True)
        self.wait_for("they return", lambda: all(self.used(host) == {"mlx5_0"} for host in ENDS))
        self.end()


if __name__ == "__main__":
    need("ip", "tc", "bridge")
    unittest.main()
