# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two hosts with two NICs each, bare or with meshverbs and live moves, and everything that can be done to them."""
import contextlib
import pathlib
import shutil
import subprocess
import tempfile
import time

from launcher import agents, fabric
from nicmatrix import world

from . import REPO

PAIR = REPO / "tests/topo/pair.topo"
TOPOLOGIES = ("pair", "ibpair", "routed")
SURVIVE = "[meshverbs]\nbase = mlx5\nsurvive = on\n[log]\ntarget = /var/log/meshverbs.log\nlevel = debug\n"
SERVER, CLIENT = "a", "b"
CARRIER_SECONDS = 60
KEY_FILE = world.KEY_FILE
world.PREFIX = "chaos"


# Back at once, so that there is somewhere to leave.
FLAPPING = SURVIVE.replace("survive = on\n", "survive = on\nhold_down_ms = 100\n")
# Moves that have to succeed, also where other work leaves the processes no processor for seconds. Errors wait for a quarter of the time.
PATIENT = FLAPPING.replace("survive = on\n", "survive = on\nmove_timeout_ms = 40000\n")


def topology(name):
    return REPO / f"tests/topo/{name}.topo"


@contextlib.contextmanager
def staged(build, conf=SURVIVE):
    """A folder with meshverbs installed, live moves switched on."""
    with world.staged(build) as stage:
        pathlib.Path(stage, "etc/libibverbs.d/mesh/mesh.conf").write_text(conf)
        yield stage


def come_from(place, host, build):
    """As in a fleet that is being upgraded: plugin and agent of one host are of another build. Before agents are started."""
    agents.come_from(place.sim, host, build)
    with world.staged(build) as stage:
        for file in pathlib.Path(stage).rglob("*.so*"):
            if file.is_file() and not file.is_symlink():
                kept = pathlib.Path(place.sim.dir, file.name)
                shutil.copy(file, kept)
                subprocess.run(["nsenter", "-t", str(place.pids[host]), "--mount", "mount", "--bind", str(kept),
                                f"/{file.relative_to(stage)}"], check=True)


class Program(world.Running):
    """One end of the traffic; it goes on until its standard input ends."""

    def __init__(self, argv):  # pylint: disable=super-init-not-called
        self.file = tempfile.NamedTemporaryFile(prefix="chaos-")
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=self.file, stderr=subprocess.STDOUT,
                                        start_new_session=True)

    def stop(self):
        self.process.stdin.close()

    def says(self, words, seconds):
        """Whether it does in that time."""
        until(lambda: words in self.said() or self.poll() is not None, seconds)
        return words in self.said()


class Hosts:
    """What a schedule acts on. Ports are named like a.0, links l0 and l1."""

    def __init__(self, place):
        self.world, self.sim, self.topo = place, place.sim, place.topo

    @classmethod
    @contextlib.contextmanager
    def up(cls, build, stage=None, label="chaos", server_build=None, topo=PAIR):
        """server_build: where that host's plugin and agent are from, if not from where the client's are"""
        other = (lambda place: come_from(place, SERVER, server_build)) if server_build else None
        def before(place):
            if other:
                other(place)
            if stage and place.is_routed():  # no first contact proves who is beyond a router, so nothing would move
                for host in place.ends():
                    place.write(host, KEY_FILE, "5a" * 32 + "\n")

        with world.World.up(topo, build, stage, label, before) as place:
            yield cls(place)

    def linger(self, random, low=0.3, high=1.5):  # pylint: disable=no-self-use
        """How long a fault lasts."""
        time.sleep(random.uniform(low, high))

    def link(self, what, on):
        record = self.sim.record()
        fabric.carrier(self.topo, self.sim.fabric, what, on, record["stand_ins"], record["hosts"])

    def address(self, port, on):
        """The addresses of a port are there or not, and with them the routes that leave by it."""
        nic = self.topo.nic(port)
        routes = [(net, hop) for index, net, hop in self.topo.hosts[nic.host].routes if index == nic.index and on]
        for addr in nic.addrs:
            fabric.ip("-n", self.sim.netns(nic.host), "addr", "replace" if on else "del", str(addr), "dev", nic.netdev)
        for net, hop in routes:
            fabric.ip("-n", self.sim.netns(nic.host), "route", "replace", str(net), "via", str(hop), "dev", nic.netdev)

    def fault(self, port, words):
        nic = self.topo.nic(port)
        self.sim.control(nic.host, f"mlx5_{nic.index} {words}")

    def forward(self, port, on):
        """The switch's port forwards or not; carrier stays. A carrier that has just come is noticed later, and without one the kernel refuses."""
        argv = ["bridge", "-n", self.sim.fabric, "link", "set", "dev", fabric.port_name(self.topo, self.topo.nic(port), None), "state",
                "3" if on else "0"]
        end = time.monotonic() + CARRIER_SECONDS
        while (done := subprocess.run(argv, text=True, capture_output=True, check=False)).returncode:
            if "Network is down" not in done.stderr or time.monotonic() > end:
                raise RuntimeError(f"{' '.join(argv)}: {done.stderr}")
            time.sleep(0.02)

    def control_loss(self, host, percent, netdev=None):
        """That much of the datagrams that the agent of a host sends, by that netdev or any, is lost; 0: none."""
        rules = "table inet chaos\ndelete table inet chaos\n"
        if percent:
            by = f"oifname {netdev} " if netdev else ""
            rules += ("add table inet chaos\nadd chain inet chaos out { type filter hook output priority 0; }\n"
                      f"add rule inet chaos out {by}udp dport 28791 numgen random mod 100 0-{percent - 1} drop\n")
        subprocess.run(["nsenter", "-t", str(self.sim.pid(host)), "--net", "nft", "-f", "-"], input=rules, text=True, check=True)

    def agent_kill(self, host):
        agents.kill(self.sim, [host])

    def agent_start(self, host):
        agents.start(self.sim, [host])

    def agent_restart(self, host, *args):
        agents.stop(self.sim, [host])
        agents.start(self.sim, [host], args)

    def heal(self):
        """All as it was at the start."""
        for port in [nic.port for nic in self.topo.nics()]:
            self.link(port, True)
            self.address(port, True)
            self.forward(port, True)
            self.fault(port, "clear")
        if self.world.stacked:
            for host in (SERVER, CLIENT):
                self.control_loss(host, 0)
            agents.start(self.sim, [SERVER, CLIENT])
            agents.wait(self.sim, self.topo)
            if self.world.is_routed():
                self.world.wait_known([SERVER, CLIENT])

    def both(self, program, options, before=()):
        """(server, client), running; before: what comes before the program in its command"""
        port = str(self.world.fresh_port())
        server = Program(self.world.argv(SERVER, *before, program, "-p", port, *options))
        self.world.wait_listening(server, SERVER, int(port))
        client = Program(self.world.argv(CLIENT, *before, program, "-p", port, *options, SERVER))
        return server, client


def until(condition, seconds):
    limit, nap = time.monotonic() + seconds, 0.01
    while time.monotonic() < limit:
        if condition():
            return True
        time.sleep(nap)
        nap = min(1.2 * nap, 0.05)
    return False
