# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hosts for these tests: bare, or with meshverbs installed and its agent running; and programs on them."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import REPO
from launcher import agents, lifecycle, runtime
from verbsmatrix.simhosts import Simulation

PREFIX = "nics"
KEY_FILE = "/etc/libibverbs.d/mesh/key"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def need(*programs):
    """End with 77 where this cannot run at all."""
    if os.geteuid() != 0:
        skip("namespaces need root")
    for program in programs:
        if not shutil.which(program):
            skip(f"no {program}; scripts/deps sim installs it")
    # An exit from the middle still takes the simulations down.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def enter(case, context):
    """What a context gives, for as long as the tests of a class run. (Python 3.9, of Debian 11, has no enterClassContext.)"""
    given = context.__enter__()
    case.addClassCleanup(context.__exit__, None, None, None)
    return given


@contextlib.contextmanager
def staged(build):
    """A folder with meshverbs installed in it."""
    stage = tempfile.mkdtemp(prefix="nics-stage-")
    try:
        subprocess.run([REPO / "scripts/stage", build, stage], check=True)
        yield stage
    finally:
        shutil.rmtree(stage)


class Running:
    """A program in a host, its output in a file."""

    def __init__(self, argv):
        self.file = tempfile.NamedTemporaryFile(prefix="nics-")
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.file, stderr=subprocess.STDOUT,
                                        start_new_session=True)

    def poll(self):
        return self.process.poll()

    def wait(self, seconds):
        """Exit status; None when it had to be killed."""
        try:
            return self.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def said(self):
        return pathlib.Path(self.file.name).read_text(errors="replace")


class World:
    """A simulation that is up."""

    def __init__(self, place, stacked):
        self.place, self.stacked, self.topo = place, stacked, place.topo
        self.sim = runtime.Sim(place.name)
        self.pids = self.sim.hosts()
        self.port = 18700

    @classmethod
    @contextlib.contextmanager
    def up(cls, topology, build, stage=None, label="", before_agents=None, hosts_file=None):
        """stage: a folder that meshverbs was installed into, for hosts that have it and its agent; None for bare ones.

        before_agents: called with the World when all but the agents is there. hosts_file: whether hosts beyond routers stand in the
        hosts file of each other; default: where the topology has routers.
        """
        name = f"{PREFIX}-{os.getpid()}{'-' + label if label else ''}-{'on' if stage else 'bare'}"
        with Simulation.up(str(topology), name, build, [stage] if stage else []) as place:
            world = cls(place, bool(stage))
            if before_agents:
                before_agents(world)
            if stage and world.has_infiniband():  # without a fleet key nobody there is believed
                for host in world.ends():
                    world.write(host, KEY_FILE, "5a" * 32 + "\n")
            if stage:
                world.start_agents(world.is_routed() if hosts_file is None else hosts_file)
            yield world

    def ends(self):
        """Hosts that are no routers."""
        return [host for host in self.pids if not self.topo.hosts[host].router]

    def is_routed(self):
        return len(self.ends()) < len(self.pids)

    def has_infiniband(self):
        return any(nic.options.get("link_layer") == "infiniband" for host in self.topo.hosts.values() for nic in host.nics.values())

    def start_agents(self, hosts_file=False):
        hosts = self.ends()
        for host in hosts if hosts_file else ():
            self.write(host, "/etc/libibverbs.d/mesh/hosts", "".join(
                f"{name} {' '.join(str(addr.ip) for nic in self.topo.hosts[name].nics.values() for addr in nic.addrs)}\n"
                for name in hosts if name != host))
        agents.start(self.sim, hosts)
        agents.wait(self.sim, self.topo)
        if hosts_file:
            self.wait_known(hosts)

    def lacking(self, host, other):
        """What the directory of a host lacks of one beyond routers, as text; "" when nothing."""
        seen = agents.read(self.sim, host)
        down = [rail.device for rail in seen.rails if rail.host == other and not rail.up] if seen else []
        unknown = [str(addr) for nic in self.topo.hosts[other].nics.values() for addr in nic.addrs
                   if not agents.knows(self.sim, host, str(addr))]
        return f"{host}: of {other} lacks {unknown}, down {down}" if unknown or down else ""

    def wait_known(self, hosts, seconds=60):
        """Until each knows all addresses of the others, and has their ports as up."""
        limit = time.monotonic() + seconds
        while lacking := "; ".join(filter(None, (self.lacking(host, other) for host in hosts for other in hosts if other != host))):
            if time.monotonic() > limit:
                raise RuntimeError(f"after {seconds} s: {lacking}")
            time.sleep(0.05)

    def write(self, host, path, text):
        """A file as the host sees it."""
        done = subprocess.run(self.argv(host, "env", "LD_PRELOAD=", "sh", "-c", 'cat >"$1"; chmod 600 "$1"', "write", path), input=text, text=True,
                              capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{path} of {host}: {done.stderr}")

    def argv(self, host, *command):
        return lifecycle.command(self.sim, host, list(command))

    def start(self, host, *command):
        return Running(self.argv(host, *command))

    def run(self, host, *command, seconds=60):
        """(exit status or None, output)"""
        done = self.start(host, *command)
        return done.wait(seconds), done.said()

    def fresh_port(self):
        self.port += 1
        return self.port

    def wait_listening(self, server, host, port, seconds=60):
        """Whether the program listens; False too when it ended."""
        return self.wait_running(server, lambda: self.sim.listening(host, port), seconds)

    def identifiers(self, host):
        """Of librdmacm's programs on a host, a line for each."""
        return self.sim.control(host, "cm").splitlines()

    def wait_cm_listening(self, server, host, port, seconds=60):
        """The same of a program of librdmacm."""
        listens = re.compile(rf"/{port} \S+ listen$")
        return self.wait_running(server, lambda: any(listens.search(line) for line in self.identifiers(host)), seconds)

    @staticmethod
    def wait_running(program, condition, seconds):
        """Whether the condition came true while the program ran."""
        limit, nap = time.monotonic() + seconds, 0.01
        while time.monotonic() < limit and program.poll() is None:
            if condition():
                return True
            time.sleep(nap)
            nap = min(1.2 * nap, 0.05)
        return False

    def bytes_of(self, host):
        """{NIC: bytes sent and received since the host came up}"""
        counts = {}
        for line in pathlib.Path(f"/proc/{self.pids[host]}/net/dev").read_text().splitlines():
            name, _, rest = line.partition(":")
            if re.fullmatch(r"\s*eth\d+", name):
                fields = rest.split()
                counts[int(name.strip()[3:])] = int(fields[0]) + int(fields[8])
        return counts

    def file(self, host, path):
        """Text of a file as the host sees it; "" where there is none."""
        try:
            return pathlib.Path(f"/proc/{self.pids[host]}/root{path}").read_text(errors="replace")
        except OSError:
            return ""

    def log(self, host):
        return self.file(host, "/var/log/meshverbs.log") if self.stacked else ""

    def told(self, host, n_lines=40):
        """The end of the plugin's log without what it says when a program starts."""
        dull = re.compile(r"config: \S+$|libibverbs: /|driver-list:|base:\w+:|calibration:|: overlaid|: kept, ")
        return "\n".join([line for line in self.log(host).splitlines() if not dull.search(line)][-n_lines:])

    def agent_log(self, host):
        path = agents.log_path(self.sim, host)
        return path.read_text(errors="replace") if path.exists() else ""


def shares(before, after):
    """{NIC: share of the bytes between two counts}. Of three NICs and more the idlest one tells what agents say over each: that does not count."""
    grown = {nic: after[nic] - before.get(nic, 0) for nic in after}
    said = min(grown.values()) if len(grown) > 2 else 0
    grown = {nic: count - said for nic, count in grown.items()}
    total = sum(grown.values())
    return {nic: round(count / total, 3) for nic, count in grown.items()} if total else {}
