#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Connections within one host that has two NICs, every work request checked: of a queue pair with itself, and of two processes. Needs
root; SIM_BUILD is the build, PLUGIN_BUILD, if it is another (asan, tsan), that of plugin and programs."""
import contextlib
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import hosts  # noqa: E402
from schedule.hosts import SERVER, Program  # noqa: E402
from schedule.watched import BUILD, ENDS, SECONDS, Watched  # noqa: E402
from nicmatrix.world import need  # noqa: E402

PLUGIN_BUILD = pathlib.Path(os.environ.get("PLUGIN_BUILD", BUILD)).resolve()
SELF, TRAFFIC = (str(PLUGIN_BUILD / "tests/chaos" / name) for name in ("chaos-self", "chaos-traffic"))
N_QPS = 3
FAILED = 5  # chaos-self: right, but work requests failed
STACK = contextlib.ExitStack()


def setUpModule():
    stage = STACK.enter_context(hosts.staged(PLUGIN_BUILD, hosts.SURVIVE.replace("survive = on\n", "survive = on\nhold_down_ms = 500\nmove_timeout_ms = 10000\n")))
    Watched.hosts = STACK.enter_context(hosts.Hosts.up(BUILD, stage, "self"))


def tearDownModule():
    STACK.close()


class OwnHost(Watched):
    def setUp(self):
        self.programs = ()
        self.addCleanup(self.clean)

    def is_on(self, device):
        self.wait_for(f"all are on {device}", lambda: self.used(SERVER) == {device})

    def knows(self, n):
        self.wait_for("the agent knows all", lambda: sum(qp["movable"] is True for qp in self.qps(SERVER)) == n)

    def flap(self):
        for _ in range(8):
            for port in ("a.0", "a.1"):
                self.hosts.link(port, False)
                time.sleep(random.uniform(0, 0.1))
                self.hosts.link(port, True)
                time.sleep(random.uniform(0, 0.3))
        self.is_on("mlx5_0")

    def pull(self):
        self.hosts.link("a.0", False)
        self.is_on("mlx5_1")
        time.sleep(0.2)
        self.hosts.link("a.0", True)
        self.is_on("mlx5_0")

    def drain(self):
        status, said = self.tool(SERVER, "drain", "mlx5_0", "--json")
        self.assertEqual(status, 0, f"{said}\n{self.story()}")
        self.assertEqual(json.loads(said), {"device": "mlx5_0", "drained": True, "safe": True, "timed_out": False, "qps": []})
        self.assertEqual(self.used(SERVER), {"mlx5_1"})
        status, said = self.tool(SERVER, "undrain", "mlx5_0")
        self.assertEqual(status, 0, said)
        self.is_on("mlx5_0")


class Self(OwnHost):
    def begin(self, *options, within=()):
        self.programs = (Program(self.hosts.world.argv(SERVER, *within, SELF, "-q", str(N_QPS), *options)),)
        self.wait_for("it has begun", lambda: "begun" in self.programs[0].said())

    def begin_tracked(self, *options):
        self.begin(*options)
        self.knows(N_QPS)

    def end(self, status=0):
        program, = self.programs
        program.stop()
        self.assertEqual(program.wait(SECONDS), status, f"{program.said()}\n{self.story()}")
        self.assertIn("all right", program.said())

    def test_cable(self):
        for options in ((), ("-R", "1")):  # and where retries tell of it
            with self.subTest(options=options):
                self.begin_tracked(*options)
                self.pull()
                self.end()

    def test_flaps(self):
        self.begin_tracked()
        self.flap()
        self.end()

    def test_drain(self):
        """Atomics, too: they are let finish."""
        self.begin_tracked("-a")
        self.drain()
        self.end()

    def test_rights(self):
        """What is set in RTS is so wherever the queue pair is, also if it is set while that changes."""
        for options in (("-A",), ("-A", "-A", "-a")):
            with self.subTest(options=options):
                self.begin_tracked(*options)
                self.drain()
                self.pull()
                self.end()

    def connected_standbys(self):
        return int(re.search(r'^meshverbs_armed_total{what="connection"} (\d+)$', self.metrics(SERVER), re.MULTILINE).group(1))

    def test_standby(self):
        """The next one waits, connected to itself."""
        before = self.connected_standbys()
        self.begin_tracked()
        self.wait_for("there are others on mlx5_1", lambda: all(qp["standby"] == "mlx5_1" for qp in self.qps(SERVER)))
        self.wait_for("they are connected", lambda: self.connected_standbys() == before + N_QPS)
        self.pull()
        self.end()

    def test_locked_memory(self):
        """What is made in advance would count against the program's limit."""
        before = self.connected_standbys()
        self.begin(within=("setpriv", "--bounding-set=-ipc_lock", "prlimit", f"--memlock={8 << 20}"))
        self.knows(N_QPS)
        self.wait_for("it says so", lambda: "nothing is made in advance of moves" in self.hosts.world.told(SERVER, 100))
        self.pull()
        self.end()
        self.assertEqual(self.connected_standbys(), before, self.story())

    def test_made_without_port(self):
        self.hosts.link("a.0", False)
        self.begin()
        self.is_on("mlx5_1")
        self.hosts.link("a.0", True)
        self.is_on("mlx5_0")
        self.end()

    def test_follows(self):
        """Where the connection goes that has the same CQ, though its own port is well: there and back."""
        self.programs = [Program(self.hosts.world.argv(host, SELF, "-c", "-q", "1")) for host in ENDS]
        first, second = self.programs
        self.wait_for("they say where they are", lambda: all("\n" in program.said() for program in self.programs))
        for program, other in ((first, second.said()), (second, first.said())):
            program.process.stdin.write(other.encode())
            program.process.stdin.flush()
        self.wait_for("the agents know all", lambda: all(sum(qp["movable"] is True for qp in self.qps(host)) == 2 for host in ENDS))
        for _ in range(3):
            self.hosts.forward("b.0", False)
            self.wait_for("all are on mlx5_1", lambda: all(self.used(host) == {"mlx5_1"} for host in ENDS))
            self.hosts.forward("b.0", True)
            self.wait_for("all are on mlx5_0", lambda: all(self.used(host) == {"mlx5_0"} for host in ENDS))
        for program in self.programs:
            program.stop()
        for program in self.programs:
            self.assertEqual(program.wait(SECONDS), 0, f"{program.said()}\n{self.story()}")

    def test_no_other_port(self):
        """The errors of a bare NIC, each once."""
        self.hosts.link("a.1", False)
        self.begin_tracked("-R", "2")
        self.hosts.link("a.0", False)
        self.wait_for("it fails", lambda: self.programs[0].poll() is not None)
        self.end(FAILED)

    def test_bare(self):
        """What is prevented above."""
        with mock.patch.dict(os.environ, MESHVERBS="off"):
            self.begin("-R", "2")
        self.hosts.link("a.0", False)
        self.wait_for("it fails", lambda: self.programs[0].poll() is not None)
        self.end(FAILED)


class Processes(OwnHost):
    """Two of them, connected over the NIC of their host."""

    def begin(self, *options, ops="send,send_imm,write,write_imm,private,read"):
        port = str(self.hosts.world.fresh_port())
        words = [TRAFFIC, "-p", port, "-t", "2", "-q", "2", "-r", "50", "-s", "1", "-o", ops, *options]
        server = Program(self.hosts.world.argv(SERVER, *words))
        self.programs = (server,)
        self.hosts.world.wait_listening(server, SERVER, int(port))
        self.programs = (server, Program(self.hosts.world.argv(SERVER, *words, SERVER)))
        self.knows(8)

    def test_cable(self):
        for options in (("-Q",), ("-S", "-e")):
            with self.subTest(options=options):
                self.begin(*options)
                self.pull()
                self.end()

    def test_flaps(self):
        self.begin()
        self.flap()
        self.end()

    def test_killed(self):
        """The other one gets its errors."""
        self.begin("-k")
        server, client = self.programs
        server.kill()
        self.assertEqual(client.wait(SECONDS), FAILED, f"{client.said()}\n{self.story()}")

    def test_killed_asleep(self):
        """Also one that does nothing before there is a completion event, and for which nothing was made in advance."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write(hosts.SURVIVE.replace("survive = on\n", "survive = on\narm = off\n"))
            conf.flush()
            for options, env in ((("-S",), {}), ((), {"MESHVERBS_CONF": conf.name})):
                with self.subTest(options=options), mock.patch.dict(os.environ, env):
                    # As many as it can: something is outstanding at any time. By itself it looks long after the test has given up.
                    self.begin("-k", "-Q", "-e", "-i", str(10 * SECONDS * 1000), "-r", "100000", *options)
                    server, client = self.programs
                    server.kill()
                    self.assertEqual(client.wait(SECONDS), FAILED, f"{client.said()}\n{self.story()}")

    def test_drain(self):
        self.begin(ops="send,add,swap")
        self.drain()
        self.end()


del OwnHost  # is none by itself

if __name__ == "__main__":
    need("ip", "tc", "bridge")
    unittest.main()
