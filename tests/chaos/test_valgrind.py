#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs under valgrind's memcheck, with connections that move: no error that bare programs do not have. Needs root; SIM_BUILD is the
build."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import hosts  # noqa: E402
from schedule.watched import BUILD, ENDS, N_QPS, TRAFFIC, Watched  # noqa: E402
from nicmatrix.world import need  # noqa: E402

ERRORS = 99  # exit status
MEMCHECK = ("valgrind", "--quiet", f"--error-exitcode={ERRORS}", "--fair-sched=try", "--num-callers=20")
# So long that no retries are used up, however slow it is, and few enough that the HCA leaves time for the rest. The result of an atomic
# may be lost.
SLOW = ["-t", "2", "-q", str(N_QPS // 2), "-r", "10", "-T", "20", "-o", "send,send_imm,write,write_imm,private,read"]
CONF = hosts.SURVIVE.replace("survive = on\n", "survive = on\nmove_timeout_ms = 60000\n")


class Valgrind(Watched):
    seconds = 5 * Watched.seconds  # programs are many times slower here

    def run_traffic(self, stage, options=()):
        with hosts.Hosts.up(BUILD, stage, "valgrind") as self.hosts:
            self.programs = self.hosts.both(TRAFFIC, [*SLOW, *options], MEMCHECK)
            try:
                if stage:
                    self.wait_for("the agents know all queue pairs", lambda: self.known((True,)))
                    self.hosts.link("a.0", False)
                    self.wait_for("all have moved", lambda: all(self.used(host) == {"mlx5_1"} for host in ENDS))
                self.end()
            finally:
                self.kill()

    def test_bare(self):
        """What is found below is ours."""
        self.run_traffic(None)

    def test_moved(self):
        with hosts.staged(BUILD, CONF) as stage:
            self.run_traffic(stage)

    def test_moved_extended(self):
        """By ibv_wr_*(), and polled by ibv_start_poll()."""
        with hosts.staged(BUILD, CONF) as stage:
            self.run_traffic(stage, ["-W", "-E"])


if __name__ == "__main__":
    need("ip", "tc", "bridge", "valgrind")
    unittest.main()
