#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A simulated mlx5 host and a guest with the kernel's Soft-RoCE on one cable: do both speak the same RoCE?

The guest is host a of tests/topo/pair.topo, its NIC 0 a tap in the simulator's cables; the simulated host is b.
Programs exchange addresses over the same cable.  Exits 77 where the lab cannot run.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest

from test_hosts import PREFIX, enter, prepare, runtime, sim, until

LAB = str(pathlib.Path(__file__).resolve().parents[2] / "lab/lab")
sys.path.append(str(pathlib.Path(LAB).parent))
from rdmalab import Lab  # noqa: E402
from rdmalab.job import Result  # noqa: E402

NAME = f"{PREFIX}-rxe"
SECONDS = 90
GUEST = {"device": "rxe0", "gid": "1", "address": "10.1.0.1"}
HOST = {"device": "mlx5_0", "gid": "3", "address": "10.1.0.2"}
# Soft-RoCE and mlx5 have other defaults for reads under way, and perftest does not agree on one by itself.
PERFTESTS = [["ib_write_bw"], ["ib_read_bw", "-o", "16"], ["ib_send_bw"], ["ib_atomic_bw", "-o", "16"],
             ["ib_write_lat"], ["ib_send_bw", "-c", "UD"]]


def lab(*args, check=True):
    done = subprocess.run([LAB, *args], text=True, capture_output=True, check=False, timeout=300)
    if check and done.returncode:
        raise AssertionError(f"lab {' '.join(args)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class InHost:
    """A program of the simulated host, with the interface of one of the guest."""

    def __init__(self, words):
        self.process = subprocess.Popen(enter(NAME, "b", "timeout", str(SECONDS), *words), stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)

    def wait(self, seconds):
        said, _ = self.process.communicate(timeout=seconds)
        return Result(self.process.returncode, said)


class Rxe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sim("up", "-n", NAME, "--only", "b", "pair")
        cls.addClassCleanup(sim, "down", NAME)
        lab("up", "pair", "--name", NAME, "--only", "a", "--tap", f"a.0=msim-{NAME}:tap0")
        cls.addClassCleanup(lab, "down", "-n", NAME)
        sim("plug", "-n", NAME, "a.0", "tap0")
        cls.guest = Lab.attach(NAME)

    def in_host(self, *argv, check=True):
        return self.done(subprocess.run(enter(NAME, "b", "timeout", str(SECONDS), *argv), text=True, capture_output=True, check=False),
                         argv, check)

    def in_guest(self, *argv, check=True):
        found = self.guest.run("a", shlex.join(argv), SECONDS)
        return self.done(subprocess.CompletedProcess(argv, found.rc, found.out, ""), argv, check)

    def done(self, found, argv, check):
        if check:
            self.assertEqual(found.returncode, 0, f"{argv}: {found.stdout}{found.stderr}")
        return found

    def listens(self, server):
        """Whether one does, there."""
        if server == self.in_host:
            return until(lambda: runtime.Sim(NAME).listening("b", 18515), SECONDS)
        # One command: each takes the guest longer than the server to start.
        looks = "for i in {1..600}; do grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 && exit; sleep 0.1; done; exit 1"
        return self.guest.run("a", looks, SECONDS).rc == 0 or None

    def both_ways(self, argv, good):
        """The same command between guest and host, either one as the server; `good` is in the client's output."""
        ends = ((self.in_guest, GUEST, self.in_host, HOST), (self.in_host, HOST, self.in_guest, GUEST))
        for client, mine, server, theirs in ends:
            with self.subTest(argv=argv, client=mine["device"]):
                full = [argv[0], "-d", "{device}", argv[1], "{gid}", *argv[2:]]
                words = [w.format(**theirs) for w in full]
                serving = self.guest.start("a", shlex.join(words)) if server == self.in_guest else InHost(words)
                self.assertIsNotNone(self.listens(server), "no server")
                done = client(*[w.format(**mine) for w in full], theirs["address"], check=False)
                said = serving.wait(SECONDS).out
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr + said)
                self.assertRegex(done.stdout, good)

    def perftest(self, tool, *more):
        """-x takes the GID index, as -g does in the pingpongs. -u 17 is 0.5 s, eight times over: on a busy machine a guest,
        whose processor is a thread like any other, stands still for longer than the default of 67 ms allows."""
        size = [] if "atomic" in tool else ["-s", "1024"] if "UD" in more else ["-s", "4096"]
        self.both_ways([tool, "-x", "-F", "-n", "200", "-m", "1024", "-u", "17", *size, *more], r"\n \d+ +\d+ ")

    def test_pingpong(self):
        for tool in ("ibv_rc_pingpong", "ibv_ud_pingpong", "ibv_uc_pingpong"):
            mtu = ["-s", "1024"] if tool == "ibv_ud_pingpong" else []
            self.both_ways([tool, "-g", "-n", "200", *mtu], "200 iters")

    def test_perftest(self):
        for command in PERFTESTS:
            self.perftest(*command)

    def test_one_percent_lost_by_the_guest(self):
        """Of what Soft-RoCE sends, by its kernel's netem: its requests, or its answers to ours."""
        self.in_guest("modprobe", "sch_netem")
        self.in_guest("tc", "qdisc", "replace", "dev", "eth0", "root", "netem", "loss", "1%")
        try:
            self.both_ways(["ibv_rc_pingpong", "-g", "-n", "200"], "200 iters")
            for command in PERFTESTS[:4]:
                self.perftest(*command)
            said = self.in_guest("tc", "-s", "qdisc", "show", "dev", "eth0").stdout
        finally:
            self.in_guest("tc", "qdisc", "del", "dev", "eth0", "root")
        self.assertRegex(said, r"netem .*loss 1%")
        self.assertRegex(said, r"dropped [1-9]")

    def test_perftest_with_one_percent_lost(self):
        if self.in_host("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "loss", "1%", check=False).returncode == 0:
            self.addCleanup(self.in_host, "tc", "qdisc", "del", "dev", "eth0", "root")
        else:  # this kernel has no netem
            sim("fault", "-n", NAME, "b.0", "drop", "dir=both", "ppm=10000", "class=request,ack,nak,response")
            self.addCleanup(sim, "fault", "-n", NAME, "b.0", "clear")
        for command in PERFTESTS[:4]:
            self.perftest(*command)
        rules = sim("fault", "-n", NAME, "b.0", "list").stdout
        for hits in re.findall(r"hits=(\d+)", rules):
            self.assertGreater(int(hits), 0)


if __name__ == "__main__":
    prepare()
    if not shutil.which("qemu-system-x86_64"):
        print("skipped: no qemu-system-x86_64; scripts/deps lab")
        sys.exit(77)
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    # The pingpongs have no option for their timeouts. What else the machine does has to wait for guest and programs.
    os.setpriority(os.PRIO_PROCESS, 0, -15)
    unittest.main()
