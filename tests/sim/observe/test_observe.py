#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""mode = observe: programs end as on hosts without meshverbs, with the same words, and the log says what would have been
done.  Wrong GID indexes on a pair of hosts, wrong NICs on a triangle with agents.

    SIM_BUILD=BUILD [OBSERVE_ALL=1] test_observe.py [TEST...]      with OBSERVE_ALL every case of the triangle
"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[2]
sys.path[:0] = [str(HERE.parent / place) for place in ("hosts", "accept", "rightnic")] + [str(REPO / "tests/lab")]
import test_gid  # noqa: E402
from test_hosts import PREFIX, prepare, until  # noqa: E402
from nicmatrix import cases as plans, drive  # noqa: E402
from nicmatrix.programs import PROGRAMS  # noqa: E402
from nicmatrix.world import World  # noqa: E402
from verbsmatrix.simhosts import Simulation  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release"))
ALL = bool(os.environ.get("OBSERVE_ALL"))
# Programs end by themselves; this is for those that hang.
LIMIT_S = test_gid.SECONDS = 120
# Something was done.
DONE = re.compile(r", using \d|goes from .* instead|: no path by|left as the program asked")
# How a program ended: its complaints, without what differs from run to run.
WORDS = re.compile(r"^.*(?:Failed|Couldn't|Unable|error|invalid|ends? with|got a datagram).*$", re.M | re.I)


def observing(parent):
    """A folder with meshverbs installed in it, set to observe."""
    stage = pathlib.Path(tempfile.mkdtemp(dir=parent))
    subprocess.run([REPO / "scripts/stage", BUILD, stage], check=True)
    conf = stage / "etc/libibverbs.d/mesh/mesh.conf"
    conf.write_text(conf.read_text().replace("[meshverbs]\n", "[meshverbs]\nmode = observe\n"))
    return str(stage)


def words(text):
    """What a program complained of, each once, without numbers of queue pairs and the like."""
    return sorted({re.sub(r"0x[0-9a-f]+|\d+", "N", line.strip()) for line in WORDS.findall(text)})


def figures(world, host):
    """{name with labels: value} of a host's agent."""
    status, text = world.run(host, "meshverbs", "metrics")
    assert status == 0 and text.endswith("# EOF\n"), text
    return {name: float(value) for name, value in re.findall(r"^meshverbs_(\S+) (\S+)$", text, re.M)}


class Gids(unittest.TestCase):
    """The cases of test_gid.py that meshverbs would repair, and one that is right."""

    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.tmp)
        cls.do = test_gid.Cases()
        cls.pairs = []
        for label, overlays in (("bare", []), ("observe", [observing(cls.tmp)])):
            up = Simulation.up(str(HERE.parent / "accept/gid.topo"), f"{PREFIX}-gids-{label}", BUILD, overlays)
            cls.pairs.append(test_gid.Pair(up.__enter__()))
            cls.addClassCleanup(up.__exit__, None, None, None)

    def same(self, what, told):
        """what(pair) gives the same on both; @told: in the log of one of the observing hosts, None: nothing special."""
        bare, observed = self.pairs
        before = {host: len(observed.log(host)) for host in "ab"}
        results = [what(pair) for pair in (bare, observed)]
        self.assertEqual(results[0], results[1])
        added = "".join(observed.log(host)[before[host]:] for host in "ab")
        self.assertIn("observing only", added, "the plugin was there")
        self.assertNotRegex(added, DONE)
        if told:
            self.assertRegex(added, told)
        else:
            self.assertNotIn("would", added)
        return results[0]

    def pingpong(self, pair, index, meanwhile=None):
        rcs, said = self.do.pingpong(pair, index, meanwhile)
        # A server whose client has given up is ended by the test, sooner or later.
        return rcs[0], words(said)

    def test_index_that_moved(self):
        def flap(pair):
            try:
                return self.pingpong(pair, 3, lambda: self.leave(pair))
            finally:
                self.do.move_back(pair, "b", 2)
        status, complaints = self.same(flap, r"index 3 is empty, would use \d+ \(10\.1\.0\.2\)")
        self.assertNotEqual(status, 0)
        self.assertTrue(complaints)

    def leave(self, pair):
        """The address goes to another index, and nobody has the old one."""
        self.do.move(pair, "b", 2)
        pair.addr("del", "b.0", "fd66::2/64")
        self.assertIsNotNone(until(lambda: 3 not in pair.table("b")))

    def test_datagrams(self):
        for netdev, gid, destination in (("eth0", "fd01:0000:0000:0000:0000:0000:0000:0001", "10.1.0.2"),
                                         ("eth0.7", test_gid.dotted(10, 7, 0, 1), "10.1.0.2")):
            with self.subTest(netdev=netdev):
                def send(pair):
                    index = pair.index("a", gid, netdev=netdev)
                    status, got, _ = self.do.datagram(pair, index, destination)
                    return index, status == 0, got
                _, arrived, _ = self.same(send, r"index \d+ is [^,]+, would use \d+ \(10\.1\.0\.1\)")
                self.assertFalse(arrived)

    def test_right_index(self):
        status, complaints = self.same(lambda pair: self.pingpong(pair, 3), None)
        self.assertEqual((status, complaints), (0, []))


class Nics(unittest.TestCase):
    """Programs that choose the wrong NIC, with agents on the hosts that observe."""

    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.tmp)
        cls.worlds = []
        for stage in (None, observing(cls.tmp)):
            up = contextlib.ExitStack()
            cls.worlds.append(up.enter_context(World.up("triangle", BUILD, stage, f"observe-{PREFIX}")))
            cls.addClassCleanup(up.close)

    def cases(self):
        every = plans.all_cases(self.worlds[0].topo, PROGRAMS)
        if ALL:
            return every
        by = {case.name: case for case in every}
        return [by[name] for name in ("ibv_rc_pingpong a.1 < b.1", "ib_write_bw b.0 < c.1", "ib_send_bw c.1 < a.0",
                                      "ibv_rc_pingpong -e a.0 < b.0")]

    def test_same_ends(self):
        bare, observed = self.worlds
        for case in self.cases():
            with self.subTest(case=case.name):
                without, result = [drive.run(world, case, LIMIT_S) for world in (bare, observed)]
                self.assertEqual((result["client"], result["ok"], result["reached"]),
                                 (without["client"], without["ok"], without["reached"]), result["output"])
                self.assertEqual(words(result["output"]["client"]), words(without["output"]["client"]))
                self.assertEqual(without["ok"], case.right)
                told = "".join(result["log"].values())
                self.assertIn("observing only", told)
                self.assertNotRegex(told, DONE)
                (self.assertNotRegex if case.right else self.assertRegex)(told, r"would go from 10\.\d\.0\.\d to 10\.\d\.0\.\d instead")


    def test_counted(self):
        """The agents know what would have been done, with the plugin's own figures."""
        observed = self.worlds[1]
        case = next(case for case in self.cases() if not case.right)
        before = figures(observed, case.server)
        drive.run(observed, case, LIMIT_S)
        grown = {name: value - before.get(name, 0) for name, value in figures(observed, case.server).items()}
        self.assertGreater(grown['observed_total{would="move"}'], 0)
        self.assertEqual([grown[name] for name in ("connections_negotiated_total", 'moves_total{at="connect"}')], [0, 0])


class Counters(unittest.TestCase):
    """Hosts that do move: what they count, from the plugin to Prometheus."""

    def test_moves(self):
        with tempfile.TemporaryDirectory() as tmp, contextlib.ExitStack() as stack:
            subprocess.run([REPO / "scripts/stage", BUILD, tmp], check=True)
            world = stack.enter_context(World.up("triangle", BUILD, tmp, f"counters-{PREFIX}"))
            case = plans.Case("ibv_rc_pingpong", "a", "b", 1, 1, ((0, 0),))
            result = drive.run(world, case, LIMIT_S)
            self.assertTrue(result["ok"], result)
            for host in "ab":
                now = figures(world, host)
                # A server and a client have one queue pair each, and have ended.
                self.assertEqual([now[name] for name in (
                    "connections_negotiated_total", 'moves_total{at="connect"}', 'pause_seconds_count{cause="connect"}',
                    'pause_seconds_bucket{cause="connect",le="+Inf"}', "flushed_errors_total", "processes")], [1, 1, 1, 1, 0, 0])
                self.assertGreater(now['pause_seconds_sum{cause="connect"}'], 0)
            families = re.findall(r"^# TYPE (\S+)", self.text(world, "a"), re.M)
            self.assertEqual(len(set(families)), len(families))
            known = {re.sub(r"[{ ].*", "", line) for line in self.text(world, "a").splitlines() if line.startswith("meshverbs_")}
            used = set(re.findall(r"meshverbs_\w+", (REPO / "docs/grafana.json").read_text()))
            self.assertEqual(used - known, set(), "the dashboard asks for what is not there")
            self.assertGreater(len(used), 10)

    def text(self, world, host):
        return world.run(host, "meshverbs", "metrics")[1]


if __name__ == "__main__":
    prepare()
    unittest.main()
