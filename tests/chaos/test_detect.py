#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""By what a connection at work finds out that its path is dead, each alone (MESHVERBS_DETECT), with checked traffic on two simulated
hosts with two NICs each. Needs root; SIM_BUILD is the build."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import hosts  # noqa: E402
from schedule.hosts import CLIENT, SERVER, Program  # noqa: E402
from schedule.watched import BUILD, ENDS, N_QPS, TRAFFIC, Watched  # noqa: E402
from nicmatrix.world import need  # noqa: E402

ALL = "carrier,event,probe,retry,peer"
SURFACED = 5  # chaos-traffic: right, but work requests failed
# So long that retries are not used up while a test lasts; and so short that they are soon.
PATIENT, IMPATIENT = ("-T", "20"), ("-T", "12", "-R", "3")
STACK = contextlib.ExitStack()


def setUpModule():
    stage = STACK.enter_context(hosts.staged(BUILD))
    Alone.conf = conf = pathlib.Path(stage, "etc/libibverbs.d/mesh/mesh.conf")
    conf.write_text(conf.read_text().replace("survive = on\n", "survive = on\nhold_down_ms = 500\nmove_timeout_ms = 40000\n"))
    Alone.hosts = STACK.enter_context(hosts.Hosts.up(BUILD, stage, "detect"))


def tearDownModule():
    STACK.close()


class Alone(Watched):
    conf = None

    def setUp(self):
        self.programs = ()
        self.failures, self.left = {}, False
        self.addCleanup(self.clean)

    def clean(self):
        self.kill()
        for host in ENDS:
            self.oneway(host, None)
        self.hosts.heal()

    def begin(self, server, client, retries=PATIENT, options=()):
        """Traffic of which each end finds out by these alone."""
        port = str(self.hosts.world.fresh_port())
        words = ["-p", port, "-t", "2", "-q", str(N_QPS // 2), "-r", "50", "-o", "send,send_imm,write,write_imm,private,read",
                 *retries, *options]
        with mock.patch.dict(os.environ, MESHVERBS_DETECT=server):
            first = Program(self.hosts.world.argv(SERVER, TRAFFIC, *words))
        self.programs = (first,)
        self.hosts.world.wait_listening(first, SERVER, int(port))
        with mock.patch.dict(os.environ, MESHVERBS_DETECT=client):
            self.programs = (first, Program(self.hosts.world.argv(CLIENT, TRAFFIC, *words, SERVER)))
        self.wait_for("the agents know all queue pairs", lambda: self.known((True,)))
        self.wait_for("the path has been probed", lambda: all(self.probed(host, "mlx5_0") == "up" for host in ENDS))
        self.failures = {host: self.metric(host, "path_failures") for host in ENDS}

    def oneway(self, host, netdev, chain="output", way="oifname"):
        """Nothing leaves, or enters, a host by a netdev: agents' datagrams and RoCE alike. None: all is well."""
        rules = "table inet oneway\ndelete table inet oneway\n"
        if netdev:
            rules += (f"add table inet oneway\nadd chain inet oneway c {{ type filter hook {chain} priority 0; }}\n"
                      f"add rule inet oneway c {way} {netdev} udp dport {{ 4791, 28791 }} drop\n")
        subprocess.run(["nsenter", "-t", str(self.hosts.sim.pid(host)), "--net", "nft", "-f", "-"], input=rules, text=True,
                       check=True)

    def metric(self, host, name):
        return int(re.search(rf"^meshverbs_{name}(?:_total)? (\d+)$", self.metrics(host), re.MULTILINE).group(1))

    def healed(self):
        """Moves that were called off before anything was drained, of both ends."""
        return sum(self.counted(host, "moves_given_up", 'reason="healed"') for host in ENDS)

    def counted(self, host, name, label):
        match = re.search(rf'^meshverbs_{name}_total\{{{label}\}} (\d+)$', self.metrics(host), re.MULTILINE)
        return int(match.group(1)) if match else 0

    def armed(self):
        """Queue pairs, by the programs at each end."""
        return [self.counted(host, "armed", 'what="qp"') for host in ENDS]

    def probed(self, host, device):
        """What probes say of the path from that device to the same of the other host."""
        other = CLIENT if host == SERVER else SERVER
        status, said = self.tool(host, "paths", other, "--json")
        self.assertEqual(status, 0, said)
        return next(path["probe"] for path in json.loads(said)["paths"]
                    if path["device"] == path["peer_device"] == device)

    def figures(self, host):
        counted = re.compile(r"^meshverbs_(?:path|probe|echo|moves).* [1-9]\d*$", re.MULTILINE)
        return f"{counted.findall(self.metrics(host))}\n{self.tool(host, 'paths', CLIENT if host == SERVER else SERVER)[1]}\n"

    def moves(self, where="mlx5_1"):
        self.wait_for(f"all are on {where}", lambda: all(self.used(host) == {where} for host in ENDS))

    def found_by_probes(self, *, anyone):
        found = [self.metric(host, "path_failures") - self.failures[host] for host in ENDS]
        self.assertEqual(any(found), anyone, f"{found}\n{self.story()}")

    def test_nothing_is_wrong(self):
        """No probe takes a path for dead that works, however little of the processors agents get here."""
        self.begin(ALL, ALL)
        time.sleep(3)
        self.assertEqual([self.used(host) for host in ENDS], [{"mlx5_0"}] * 2)
        self.found_by_probes(anyone=False)
        self.end()

    def test_carrier(self):
        self.begin("carrier,peer", "carrier,peer")
        self.hosts.link("a.0", False)
        self.moves()
        self.end()

    def test_peers_word(self):
        """Only one end looks, and the other believes it."""
        for ends in (("carrier,peer", "peer"), ("peer", "carrier,peer")):
            with self.subTest(ends=ends):
                self.begin(*ends)
                self.hosts.link("a.0", False)
                self.moves()
                self.end()
                self.hosts.link("a.0", True)

    def test_event(self):
        """Of the NIC that they have moved to: its events are the plugin's to read."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            # None of them is to return by itself meanwhile.
            conf.write(Alone.conf.read_text().replace("hold_down_ms = 500", "hold_down_ms = 60000"))
            conf.flush()
            with mock.patch.dict(os.environ, MESHVERBS_CONF=conf.name):
                self.begin("event,peer", "event,peer")
        status, said = self.tool(SERVER, "drain", "mlx5_0")
        self.assertEqual(status, 0, f"{said}\n{self.story()}")
        self.moves()
        self.assertEqual(self.tool(SERVER, "undrain", "mlx5_0")[0], 0)
        self.wait_for("the NIC is back", lambda: self.states(CLIENT)["mlx5_0"] == "up")
        self.hosts.link("a.1", False)
        self.moves("mlx5_0")
        self.end()

    def states(self, host):
        """Of the other's ports."""
        other = CLIENT if host == SERVER else SERVER
        return {rail["device"]: rail["state"] for rail in json.loads(self.tool(host, "peers", "--json")[1])["rails"]
                if rail["host"] == other}

    def test_nobodys_word(self):
        """Whoever is told by nobody goes on as without meshverbs."""
        self.begin("", "", IMPATIENT)
        self.hosts.link("a.0", False)
        self.wait_for("the program gets its errors", lambda: any(program.poll() is not None for program in self.programs))
        # Who hears of the other end's errors before its own retries are used up has none.
        self.assertIn(SURFACED, self.end(0, SURFACED))

    def test_probe_switch(self):
        """A port of the switch is dead, its carrier is on; then it is alive again."""
        self.begin("probe,peer", "probe,peer")
        self.hosts.forward("a.0", False)
        self.moves()
        self.found_by_probes(anyone=True)
        self.hosts.forward("a.0", True)
        self.moves("mlx5_0")
        self.end()

    def restart_agents(self, *args):
        for host in ENDS:
            self.hosts.agent_restart(host, *args)
            self.failures[host] = 0  # it counts from the beginning

    def blip(self, *args):
        """Nothing gets through for a while. Return: was that too short for probes, and long enough for queue pairs to prepare to leave?"""
        before = self.armed()
        self.hosts.forward("a.0", False)
        time.sleep(0.22)
        self.hosts.forward("a.0", True)
        time.sleep(0.5)
        failed = any(self.metric(host, "path_failures") for host in ENDS)
        if self.healed() and not failed:
            # What was made in advance for the next move is there still.
            self.assertEqual(self.armed(), before)
            return True
        if failed:
            self.left = True  # and an atomic's reply may be lost
            self.moves("mlx5_0")
        self.restart_agents(*args)  # which have warned in vain lately, perhaps
        self.wait_for("it is probed again", lambda: all(self.probed(host, "mlx5_0") == "up" for host in ENDS))
        return False

    def test_suspicion(self):
        """A path that seems to be dead, and is not: queue pairs prepare to leave it, atomics and all, and stay."""
        # Else it would take a blip of 20 ms.
        conf = STACK.enter_context(tempfile.NamedTemporaryFile("w", suffix=".conf"))
        conf.write("[agent]\nprobe_interval_ms = 100\n")
        conf.flush()
        args = "--config", conf.name
        self.addCleanup(self.restart_agents)
        self.restart_agents(*args)
        self.begin(ALL, ALL, options=("-o", "send,write_imm,read,add,swap"))
        self.wait_for("something is made in advance", lambda: min(self.armed()) >= N_QPS)
        self.assertTrue(any(self.blip(*args) for _ in range(10)), self.story())
        self.assertEqual([self.used(host) for host in ENDS], [{"mlx5_0"}] * 2)
        self.found_by_probes(anyone=False)
        self.end(0, *((SURFACED,) if self.left else ()))

    def test_probe_keeps_away(self):
        """Carrier alone brings nobody back: the path has to answer."""
        self.begin(ALL, ALL)
        self.hosts.forward("a.0", False)
        self.hosts.link("b.0", False)
        self.moves()
        self.hosts.link("b.0", True)
        self.wait_for("b's port is up", lambda: self.metric(CLIENT, "rails_up") == 2)
        time.sleep(2)  # four times as long as it would take
        self.assertEqual([self.used(host) for host in ENDS], [{"mlx5_1"}] * 2)
        self.hosts.forward("a.0", True)
        self.moves("mlx5_0")
        self.end()

    def test_probe_oneway(self):
        for host, *way in ((SERVER, "output", "oifname"), (SERVER, "input", "iifname"), (CLIENT, "output", "oifname")):
            with self.subTest(host=host, way=way):
                self.begin("probe,peer", "probe,peer")
                self.oneway(host, "eth0", *way)
                self.moves()
                self.found_by_probes(anyone=True)
                self.oneway(host, None)
                self.moves("mlx5_0")
                self.end()

    def test_retry(self):
        """RoCE alone is lost: probes see nothing."""
        self.begin("retry,peer", "retry,peer", IMPATIENT, ("-Q",))
        self.hosts.fault("a.0", "drop")
        self.moves()
        self.found_by_probes(anyone=False)
        self.hosts.fault("a.0", "clear")
        self.end()

    def test_no_path_for_a_moment(self):
        """Retries are used up while there is no path at all; then there is one again."""
        for up in ("a.1", "b.1"):
            with self.subTest(up=up):
                self.begin("retry,peer", "retry,peer", IMPATIENT)
                self.hosts.link(up, False)
                self.wait_for("the port is down", lambda up=up: self.metric(up[0], "rails_up") == 1)
                before = self.waiting()
                self.hosts.fault("a.0", "drop")
                self.wait_for("some wait for a path", lambda before=before: self.waiting() > before)
                self.hosts.link(up, True)
                self.moves()
                self.hosts.fault("a.0", "clear")
                self.end()

    def test_own_path_comes_back(self):
        """Retries are used up while there is no path at all; then the path is back that the queue pairs were on."""
        for host in ENDS:
            with self.subTest(host=host):
                self.begin("carrier,retry,peer", "carrier,retry,peer", IMPATIENT)
                self.hosts.link(f"{host}.1", False)
                self.wait_for("the port is down", lambda host=host: self.metric(host, "rails_up") == 1)
                before = self.waiting()
                self.hosts.link(f"{host}.0", False)
                self.wait_for("queue pairs wait for a path", lambda before=before: self.waiting() >= before + N_QPS)
                self.hosts.link(f"{host}.0", True)
                self.wait_for("all have got their path again", lambda: all(
                    qp["state"] == "moved" and qp["rail"] == "mlx5_0" for end in ENDS for qp in self.qps(end)))
                self.end()
                self.hosts.heal()

    def waiting(self):
        return sum(self.hosts.world.log(host).count("waits 10000 ms for one") for host in ENDS)

    def test_peer_without_probes(self):
        """An agent that is gone, and one that comes back: nothing moves."""
        self.begin(ALL, ALL)
        self.hosts.agent_kill(CLIENT)
        time.sleep(1)
        self.hosts.agent_start(CLIENT)
        self.failures[CLIENT] = 0  # it counts from the beginning
        self.wait_for("it is probed again", lambda: all(self.probed(host, "mlx5_0") == "up" for host in ENDS))
        self.assertEqual([self.used(host) for host in ENDS], [{"mlx5_0"}] * 2)
        self.found_by_probes(anyone=False)
        self.end()


if __name__ == "__main__":
    need("ip", "tc", "bridge", "nft")
    unittest.main()
