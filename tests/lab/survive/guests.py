# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The two hosts of tests/topo/pair.topo as guests, and all that can be done to them.

Has what the fault schedules of tests/chaos/schedule act on, and what they ask of its world; ports are named like a.0, links l0 and l1.
"""
import base64
import contextlib
import itertools
import os
import pathlib
import re
import shutil
import tempfile
import time

from gids import stage
from launcher import directory
from rdmalab import Lab, LabError
from rdmalab.progress import Progress
from schedule.hosts import until

ENDS = ("a", "b")
SERVER, CLIENT = ENDS
TRAFFIC = f"/{stage.PLACE}/chaos-traffic"
BARE = f"/{stage.PLACE}/bare "
BOOT_S = 300.0
WAIT_S = 180.0  # for what takes a second on an idle machine
EMULATED = 2.0  # what takes time takes so much longer than on simulated hosts
HOLD_DOWN_MS = 1000  # so that paths are returned to while a test runs
LOG = "/var/log/meshverbs.log"
MOVE_TIMEOUT_MS = 2000  # as it comes
PROBE_INTERVAL_MS = 10
CONF = "survive = on\nhold_down_ms = {}\nmove_timeout_ms = {}\n[agent]\nprobe_interval_ms = {}\n"
FLOWS = 20000  # bytes on the links by which traffic is known to have begun

# BTH opcodes of RC: the first byte behind the UDP header.
OPCODES = {"ack": "0x11", "response": "{ 0x0d, 0x0e, 0x0f, 0x10, 0x12 }", "request": "!= 0x0d-0x12", "any": ""}
MANY = 1 << 20


def rule_of(words):
    """The nftables statement for a fault in the words of the simulator (sim/hca/faults/faults.c): drop [class=] [skip=] [limit=]."""
    given = dict(word.split("=", 1) for word in words.split() if "=" in word)
    if "class" not in given:
        return "drop"  # all that there is, the agents' datagrams included
    opcode = OPCODES[given["class"]]
    rule = "udp dport 4791" + (f" @th,64,8 {opcode}" if opcode else "")
    if "limit" in given:
        skip = int(given.get("skip", 0))
        rule += f" numgen inc mod {MANY} {skip}-{skip + int(given['limit']) - 1}"
    return rule + " drop"


class Program:
    """One end of the traffic; it goes on until its standard input ends."""

    numbers = itertools.count()

    def __init__(self, guests, host, command):
        self.guests, self.host = guests, host
        self.input = f"/run/input-{next(self.numbers)}"
        self.job = guests.lab.start(host, f"{command} < <(echo $BASHPID >{self.input}; exec sleep infinity) 2>&1\n"
                                          f"rc=$?; kill $(<{self.input}) 2>/dev/null; exit $rc")

    def poll(self):
        return self.job.poll()

    def stop(self):
        """It is asked to end."""
        self.guests.lab.run(self.host, f"kill $(<{self.input})", WAIT_S)

    def wait(self, seconds):
        """Exit status; None when it had to be killed."""
        done = self.job.wait(seconds)
        return None if done.rc == 124 else done.rc

    def kill(self):
        self.job.kill()

    def said(self):
        return self.job.text()


class Guests:
    stacked = True

    def __init__(self, lab):
        self.lab, self.topo, self.world = lab, lab.topo, self
        self.port = 25000
        self.agents = {}

    @classmethod
    @contextlib.contextmanager
    def up(cls, build, label, patience=1):
        """Both booted, their agents running and each hearing the other; @patience: times are so many times what they are by default."""
        conf = stage.CONF.replace("[log]", CONF.format(HOLD_DOWN_MS, MOVE_TIMEOUT_MS * patience, PROBE_INTERVAL_MS * patience) + "[log]")
        name = f"{label}-{os.getpid()}"
        with tempfile.TemporaryDirectory(prefix=f"lab-{label}.") as folder:
            stage.build(build, folder)
            pathlib.Path(folder, "etc/libibverbs.d/mesh/mesh.conf").write_text(conf)
            shutil.copy(pathlib.Path(build, "tests/chaos/chaos-traffic"), pathlib.Path(folder, stage.PLACE))
            with Lab.up("pair", name=name, overlays=[folder], mem=512, timeout=BOOT_S, progress=Progress(name)) as lab:
                guests = cls(lab)
                for host in ENDS:
                    guests.agent_start(host)
                guests.wait_agents()
                yield guests

    # ---- what schedules do

    def linger(self, random, low=0.3, high=1.5):  # pylint: disable=no-self-use
        """How long a fault lasts."""
        time.sleep(EMULATED * random.uniform(low, high))

    def link(self, what, on):
        self.lab.link(what, on)

    def address(self, port, on):
        """The addresses of a port are there or not."""
        nic = self.topo.nic(port)
        words = "; ".join(f"ip addr {'replace' if on else 'del'} {addr} dev {nic.netdev}" for addr in nic.addrs)
        done = self.lab.run(nic.host, words, WAIT_S)
        if done.rc:
            raise LabError(f"{nic.host}: {words}: {done.out}")

    def nft(self, host, rules):
        done = self.lab.run(host, f"nft -f - <<'END'\n{rules}END", WAIT_S)
        if done.rc:
            raise LabError(f"{host}: nft: {done.out}")

    def other(self, port):
        """The port at the other end of its link."""
        return self.topo.neighbours(self.topo.nic(port))[0].port

    def fault(self, port, words):
        """As with a simulated NIC; what a NIC sends is dropped where it arrives, so the sender notices nothing."""
        if words == "clear":
            for where in (port, self.other(port)):
                self.forget(where, "fault")
            return
        self.drop(self.other(port) if "dir=tx" in words else port, "fault", rule_of(words))

    def drop(self, port, table, rule):
        nic = self.topo.nic(port)
        name = f"{table}{nic.index}"
        self.nft(nic.host, f"add table netdev {name}\n"
                           f"add chain netdev {name} in {{ type filter hook ingress device {nic.netdev} priority 0; }}\n"
                           f"add rule netdev {name} in {rule}\n")

    def forget(self, port, table):
        nic = self.topo.nic(port)
        name = f"{table}{nic.index}"
        self.nft(nic.host, f"add table netdev {name}\ndelete table netdev {name}\n")

    def forward(self, port, on):
        """The switch's port forwards or not; carrier stays."""
        for where in (port, self.other(port)):
            self.forget(where, "switch")
            if not on:
                self.drop(where, "switch", "drop")

    def control_loss(self, host, percent):
        """That much of the datagrams that the agent of a host sends is lost; 0: none."""
        rules = "add table inet chaos\ndelete table inet chaos\n"
        if percent:
            rules += ("add table inet chaos\nadd chain inet chaos out { type filter hook output priority 0; }\n"
                      f"add rule inet chaos out udp dport 28791 numgen random mod 100 < {percent} drop\n")
        self.nft(host, rules)

    def agent_kill(self, host):
        self.agents[host].kill()
        self.agents[host].wait(WAIT_S)

    def agent_start(self, host):
        """Starts it if it does not run."""
        if host not in self.agents or self.agents[host].poll() is not None:
            self.agents[host] = self.lab.start(host, "exec meshverbsd --foreground 2>&1")

    def heard(self, host):
        """{(own device, other host, its device)} in the directory of a host."""
        done = self.lab.run(host, "base64 /run/meshverbs/directory", WAIT_S)
        try:
            return directory.parse(base64.b64decode(done.out)).links if done.rc == 0 else set()
        except (directory.BadDirectory, ValueError):
            return set()

    def wait_agents(self):
        """Until each hears the other on both links."""
        for host in ENDS:
            other = ENDS[1 - ENDS.index(host)]
            want = {(f"rxe{i}", other, f"rxe{i}") for i in (0, 1)}
            if not until(lambda h=host, w=want: self.heard(h) >= w, WAIT_S):
                raise LabError(f"the agent of {host} does not hear {other} on both links:\n{self.agents[host].text()[-2000:]}")

    def heal(self):
        """All as it was at the start."""
        for port in ("a.0", "a.1", "b.0", "b.1"):
            self.link(port, True)
        for host in ENDS:
            self.nft(host, "flush ruleset\n")
            self.agent_start(host)
        self.wait_agents()

    def both(self, program, options):
        """(server, client), running, with traffic between them"""
        command = " ".join([program, "-d", "rxe0", "-p", str(self.fresh_port()), *options])
        before = sum(self.bytes_of(SERVER).values())
        server = Program(self, SERVER, command)
        client = Program(self, CLIENT, f"{command} {SERVER}")
        until(lambda: sum(self.bytes_of(SERVER).values()) - before > FLOWS or None not in (server.poll(), client.poll()), WAIT_S)
        return server, client

    def fresh_port(self):
        self.port += 1
        return self.port

    # ---- what is asked of the world

    def bytes_of(self, host):
        """{NIC: bytes sent and received since the host came up}"""
        said = self.lab.run(host, "cat /proc/net/dev", WAIT_S).out
        found = re.findall(r"^ *eth(\d+): *(\d+)(?: +\d+){7} +(\d+)", said, re.M)
        if len(found) != len(ENDS):
            raise LabError(f"{host} does not tell what its NICs have carried: {said}")
        return {int(nic): int(received) + int(sent) for nic, received, sent in found}

    def log(self, host):
        return self.lab.run(host, f"cat {LOG} 2>/dev/null", WAIT_S).out

    def told(self, host, n_lines=40):
        """The end of the plugin's log without what it says when a program starts."""
        dull = re.compile(r"config: /|libibverbs: /|driver-list:|base:\w+:|calibration:|: overlaid|: kept, ")
        return "\n".join([line for line in self.log(host).splitlines() if not dull.search(line)][-n_lines:])

    def agent_log(self, host):
        return self.agents[host].text()
