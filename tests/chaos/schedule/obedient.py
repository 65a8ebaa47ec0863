# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Tests of one connection between told.py on two simulated hosts, which does what a test says, when it says so."""
import pathlib
import subprocess

from .hosts import CLIENT, SERVER, Program
from .watched import ENDS, SECONDS, Watched

TOLD = str(pathlib.Path(__file__).resolve().parents[1] / "told.py")
PYTHON = "/usr/bin/python3"  # which python3-pyverbs is for
SUCCESS, FLUSHED, RETRY_EXCEEDED = "status 0", "status 5", "status 12"  # IBV_WC_*


def has_pyverbs():
    return not subprocess.run([PYTHON, "-c", "import pyverbs"], check=False, capture_output=True).returncode


class Obedient(Watched):
    def start(self, *options, before=()):
        """Both ends, not connected; before: what comes before the program in its command"""
        self.programs = [Program(self.hosts.world.argv(host, *before, PYTHON, "-B", TOLD, *options)) for host in ENDS]

    def connect(self):
        ends = [self.line(host, 0, "end").split() for host in ENDS]
        for host, (qpn, gid) in zip(ENDS, reversed(ends)):
            self.tell(host, f"connect {qpn} {gid}", "connected")

    def clean(self):
        for program in self.programs:
            program.stop()
            program.wait(SECONDS)
        self.kill()
        self.hosts.heal()

    def program(self, host):
        return self.programs[ENDS.index(host)]

    def line(self, host, number, begin):
        said = lambda: self.program(host).said().splitlines()  # noqa: E731
        self.wait_for(f"{host} says '{begin}'", lambda: len(said()) > number or self.program(host).poll() is not None)
        self.assertTrue(said()[number:] and said()[number].startswith(begin), f"{begin}: {said()}\n{self.story()}")
        return said()[number][len(begin):].strip()

    def tell(self, host, words, answer):
        program = self.program(host)
        number = len(program.said().splitlines())
        program.process.stdin.write(f"{words}\n".encode())
        program.process.stdin.flush()
        return self.line(host, number, answer)

    def region(self, host):
        """Memory that the other end has not heard of, as the other end is to be told of it."""
        return self.tell(CLIENT if host == SERVER else SERVER, "register", "region")

    def exchange(self, host):
        """The other end registers memory, and this one writes there."""
        self.tell(host, f"write {self.region(host)}", SUCCESS)

    def are_movable(self, movable=True):
        self.wait_for(f"the agents know both, movable: {movable}",
                      lambda: all([qp["movable"] for qp in self.qps(host)] == [movable] for host in ENDS))

    def are_on(self, device):
        self.wait_for(f"both are on {device}", lambda: all(self.used(host) == {device} for host in ENDS))
