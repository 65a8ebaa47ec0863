#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A NIC is reset under programs that may need it later, with checked traffic on two simulated hosts with two NICs each. Needs root;
SIM_BUILD is the build."""
import contextlib
import os
import pathlib
import re
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import hosts  # noqa: E402
from schedule.hosts import SERVER  # noqa: E402
from schedule.watched import BUILD, ENDS, N_QPS, TRAFFIC, Watched  # noqa: E402
from nicmatrix.world import need  # noqa: E402

OPS = "send,send_imm,write,write_imm,private,read"
STACK = contextlib.ExitStack()


def setUpModule():
    stage = STACK.enter_context(hosts.staged(BUILD))
    conf = pathlib.Path(stage, "etc/libibverbs.d/mesh/mesh.conf")
    conf.write_text(conf.read_text().replace("survive = on\n", "survive = on\nhold_down_ms = 500\n"))
    Reset.hosts = STACK.enter_context(hosts.Hosts.up(BUILD, stage, "reset"))


def tearDownModule():
    STACK.close()


class Reset(Watched):
    def setUp(self):
        self.before = {host: self.made(host) for host in ENDS}
        self.addCleanup(self.clean)
        self.programs = self.hosts.both(TRAFFIC, ["-t", "2", "-q", str(N_QPS // 2), "-r", "50", "-s", "1", "-o", OPS])
        self.wait_for("the agents know all queue pairs", lambda: self.known((True,)))
        self.ahead(1)

    def clean(self):
        self.kill()
        self.hosts.fault("a.1", "alive")
        self.hosts.heal()

    def made(self, host):
        """Queue pairs and connections that were made ahead."""
        said = self.tool(host, "metrics")[1]
        return [int(re.search(rf'^meshverbs_made_ahead_total{{what="{what}"}} (\d+)$', said, re.MULTILINE).group(1))
                for what in ("qp", "connection")]

    def ahead(self, times):
        """Each connection has had one ahead so often."""
        def enough():
            return all(now >= before + times * N_QPS for now, before in zip(self.made(SERVER), self.before[SERVER]))
        self.wait_for("others are ready on mlx5_1",
                      lambda: enough() and all(qp["ahead"] == "mlx5_1" for host in ENDS for qp in self.qps(host)))

    def processor(self):
        """Seconds of it that the helper thread of the server's process has used."""
        pid, = {qp["pid"] for qp in self.qps(SERVER)}
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "meshverbs":
                words = (task / "stat").read_text().rpartition(")")[2].split()
                return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        self.fail("no helper thread")
        return None

    def sleeps(self):
        before = self.processor()
        time.sleep(1)
        self.assertLess(self.processor() - before, 0.3, self.story())

    def is_on(self, device):
        self.wait_for(f"all are on {device}", lambda: all(self.used(host) == {device} for host in ENDS))

    def there_and_back(self):
        self.hosts.link("a.0", False)
        self.is_on("mlx5_1")
        self.hosts.link("a.0", True)
        self.is_on("mlx5_0")

    def test_never_used(self):
        """Only what waits for the next move is there; the next move finds other."""
        self.hosts.fault("a.1", "reset")
        self.ahead(2)
        self.sleeps()
        self.there_and_back()
        self.end()

    def test_used_before(self):
        self.there_and_back()
        for _ in range(3):
            self.hosts.fault("a.1", "reset")
            self.sleeps()
            self.there_and_back()
        self.end()

    def test_at_once(self):
        """The other NIC fails in the same moment."""
        self.hosts.fault("a.1", "reset")
        self.there_and_back()
        self.end()

    def test_away_for_a_while(self):
        self.hosts.fault("a.1", "dead")
        self.hosts.fault("a.1", "reset")
        self.sleeps()
        self.assertEqual({qp["ahead"] for qp in self.qps(SERVER)}, {None})
        self.hosts.fault("a.1", "alive")
        self.ahead(2)
        self.there_and_back()
        self.end()


if __name__ == "__main__":
    need("ip", "tc", "bridge")
    unittest.main()
