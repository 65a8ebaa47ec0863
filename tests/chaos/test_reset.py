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
from schedule.watched import BUILD, ENDS, N_QPS, SECONDS, TRAFFIC, Watched  # noqa: E402
from nicmatrix.world import need  # noqa: E402

SURFACED = 5  # chaos-traffic: right, but work requests failed
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
        self.programs = ()
        self.addCleanup(self.clean)

    def begin(self, *options):
        self.before = self.made(SERVER)
        self.programs = self.hosts.both(TRAFFIC, ["-t", "2", "-q", str(N_QPS // 2), "-r", "50", "-s", "1", "-o", OPS, *options])
        self.wait_for("the agents know all queue pairs", lambda: self.known((True,)))

    def begin_armed(self):
        self.begin()
        self.armed(1)

    def clean(self):
        self.kill()
        self.hosts.fault("a.1", "alive")
        self.hosts.heal()

    def made(self, host):
        """Queue pairs and connections that were made in advance."""
        said = self.metrics(host)
        return [int(re.search(rf'^meshverbs_armed_total{{what="{what}"}} (\d+)$', said, re.MULTILINE).group(1))
                for what in ("qp", "connection")]

    def armed(self, times):
        """Each connection has had a standby so often."""
        def enough():
            return all(now >= before + times * N_QPS for now, before in zip(self.made(SERVER), self.before))
        self.wait_for("others are ready on mlx5_1",
                      lambda: enough() and all(qp["standby"] == "mlx5_1" for host in ENDS for qp in self.qps(host)))

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
        before, begun = self.processor(), time.monotonic()
        time.sleep(1)
        used = self.processor() - before
        self.assertLess(used / (time.monotonic() - begun), 0.3, self.story())

    def is_on(self, device):
        self.wait_for(f"all are on {device}", lambda: all(self.used(host) == {device} for host in ENDS))

    def there_and_back(self):
        self.hosts.link("a.0", False)
        self.is_on("mlx5_1")
        self.hosts.link("a.0", True)
        self.is_on("mlx5_0")

    def test_never_used(self):
        """Only what waits for the next move is there; the next move finds other."""
        self.begin_armed()
        self.hosts.fault("a.1", "reset")
        self.armed(2)
        self.sleeps()
        self.there_and_back()
        self.end()

    def test_used_before(self):
        self.begin_armed()
        self.there_and_back()
        for _ in range(3):
            self.hosts.fault("a.1", "reset")
            self.sleeps()
            self.there_and_back()
        self.end()

    def test_at_once(self):
        """The other NIC fails in the same moment."""
        self.begin_armed()
        self.hosts.fault("a.1", "reset")
        self.there_and_back()
        self.end()

    def test_away_for_a_while(self):
        self.begin_armed()
        self.hosts.fault("a.1", "dead")
        self.hosts.fault("a.1", "reset")
        self.sleeps()
        self.wait_for("no other is ready", lambda: {qp["standby"] for qp in self.qps(SERVER)} == {None})
        self.hosts.fault("a.1", "alive")
        self.armed(2)
        self.there_and_back()
        self.end()

    def test_in_use(self):
        """What is there is lost with it, and nobody knows what of it was done: both ends get each error once, and are not left waiting."""
        for options in (("-Q",), ("-e", "-1"), ("-E", "-W"), ("-S", "-e")):
            with self.subTest(options=options):
                self.begin(*options)
                self.hosts.link("a.0", False)
                self.is_on("mlx5_1")
                self.hosts.link("a.0", True)
                self.hosts.fault("a.1", "reset")
                self.surfaces()

    def test_goes_on(self):
        """The program gives up what failed, and makes others."""
        self.begin("-x")
        for _ in range(3):
            self.hosts.link("a.0", False)
            self.is_on("mlx5_1")
            self.hosts.link("a.0", True)
            self.hosts.fault("a.1", "reset")
            self.is_on("mlx5_0")
            self.wait_for("they can be moved", lambda: self.known((True,)))
        self.end(0, SURFACED)

    def test_in_use_without_other(self):
        self.begin()
        self.assertEqual(self.tool(SERVER, "drain", "mlx5_0")[0], 0)
        self.addCleanup(self.tool, SERVER, "undrain", "mlx5_0")
        self.is_on("mlx5_1")
        self.hosts.fault("a.1", "reset")
        self.surfaces()

    def surfaces(self):
        server, client = self.programs
        ended = server.wait(SECONDS), client.wait(SECONDS)
        server.stop()
        client.stop()
        # The client may hear of it from the other program before its own retries are used up.
        self.assertIn(ended, ((SURFACED, 0), (SURFACED, SURFACED)), f"{client.said()}\n{server.said()}\n{self.story()}")


if __name__ == "__main__":
    need("ip", "tc", "bridge")
    unittest.main()
