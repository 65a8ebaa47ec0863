# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hosts for the agent's tests: a network namespace, RDMA devices in a made-up sysfs, an agent without privileges."""
import contextlib
import ipaddress
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

NOBODY = 65534
CTL_H = pathlib.Path(__file__).resolve().parents[2] / "libmeshverbs/wire/ctl.h"
WELCOME = "welcome " + re.search(r"#define MV_CTL_VERSION (\d+)", CTL_H.read_text())[1]
SKIP = 77
WAIT_S = 60.0  # for what has to happen, and takes milliseconds on an idle machine


def as_user(uid):
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs")


TRUST = "MESHVERBS_TEST_TRUST_REGISTRATIONS=1"
AS_NOBODY = as_user(NOBODY)


def sh(*words, **kwargs):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs).stdout


def ip(*words):
    return sh("ip", *map(str, words))


def wait_for(what, condition, timeout=WAIT_S):
    """Waits until the condition is true (returns it), or fails. Returns also how long it took, in seconds."""
    begun, nap = time.monotonic(), 0.01
    while True:
        value = condition()
        took = time.monotonic() - begun
        if value:
            return value, took
        if took > timeout:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(nap)
        nap = min(1.2 * nap, 0.05)  # the agent works for each look as well


def wait_until_still(what, value, seconds):
    """Waits until value() does not change for so long, and returns it. What goes on for ever fails; what is only late does not."""
    def still():
        before = value()
        time.sleep(seconds)
        return [before] if value() == before else None
    return wait_for(f"{what} does not change", still)[0][0]


def gid_of(address):
    """An address as sysfs shows it: eight groups."""
    address = ipaddress.ip_address(address)
    if address.version == 4:
        address = ipaddress.ip_address(f"::ffff:{address}")
    return address.exploded


class Talk:
    """A process of the plugin's kind (talk.c)."""

    def __init__(self, host, name="prog", user=0):
        self.host = host
        self.process = subprocess.Popen([*(as_user(user) if user else ()), f"{host.world.build}/tests/agent/agent-talk", host.run_dir, name],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.lines = []
        os.set_blocking(self.process.stdout.fileno(), False)
        self.expect(WELCOME)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def register(self, device, qpn):
        """Registers a QP, and waits until the agent has taken it."""
        self.say(f"register {device} {qpn}")
        wait_for(f"registration of {qpn}", lambda: any((qp["device"], qp["qpn"], qp["pid"]) == (device, qpn, self.process.pid)
                                                for qp in self.host.get("qps")["qps"]))

    def poll(self):
        while True:
            line = self.process.stdout.readline()
            if not line:
                return self.lines
            self.lines.append(line.rstrip("\n"))

    def expect(self, line, timeout=WAIT_S):
        return wait_for(f"'{line}', there is {self.lines}", lambda: line in self.poll(), timeout)[1]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()


class Host:
    def __init__(self, world, name):
        self.world, self.name = world, name
        self.netns = f"{world.prefix}-{name}"
        self.dir = world.dir / name
        self.sysfs = self.dir / "sys"
        self.run_dir = self.dir / "run"
        self.control_dir = self.dir / "rund"
        self.conf = self.dir / "mesh.conf"
        self.log = self.dir / "log"
        self.agent = None
        self.program = f"{world.build}/meshverbsd/meshverbsd"
        self.state_dir = None  # of its identity: it has none
        self.trusts = True  # of queue pairs that there are not; else it registers none
        self.settings = {"beacon_interval_ms": 300, "hosts": self.dir / "hosts"}
        self.common = {}  # of section [meshverbs], which is the plugin's as well
        (self.sysfs / "class/infiniband").mkdir(parents=True)
        self.run_dir.mkdir()
        for path in (self.dir, self.run_dir):
            os.chmod(path, 0o755)
            os.chown(path, NOBODY, NOBODY)
        ip("netns", "add", self.netns)
        self.ip("link", "set", "lo", "up")
        self.sysctl("ipv6/conf/default/accept_dad", 0)
        self.sysctl("ipv6/conf/all/accept_dad", 0)

    def ip(self, *words):
        return ip("-n", self.netns, *words)

    def neighbours(self, dev):
        """[(address, state)] of which the kernel does not know who has them."""
        lines = [line.split() for line in self.ip("neigh", "show", "dev", dev).splitlines()]
        return [(words[0], words[-1]) for words in lines if words[-1] in ("INCOMPLETE", "FAILED")]

    def addresses(self):
        return {address["local"] for link in json.loads(self.ip("-j", "addr")) if link["ifname"] != "lo"
                for address in link["addr_info"]}

    @contextlib.contextmanager
    def mute(self, dev):
        """What it sends to other hosts there goes to nobody; what they send is heard."""
        known = {address for host in self.world.hosts.values() if host is not self for address in host.addresses()}
        for address in known:
            self.ip("neigh", "replace", address, "lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", dev)
        yield
        for address in known:
            self.ip("neigh", "del", address, "dev", dev)

    def sysctl(self, key, value):
        sh("ip", "netns", "exec", self.netns, "sh", "-c", f"echo {value} >/proc/sys/net/{key}")

    def device(self, name, netdev, gids, state="4: ACTIVE"):
        """A port with these GIDs, each as (address, netdev) or address, every one as v1 and v2. There is one at any time, as in the kernel:
        of a device that is away for a moment the agent forgets what it keeps. Who reads the one before has all of that."""
        port = self.sysfs / "class/infiniband" / name / "ports/1"
        port.parent.mkdir(parents=True, exist_ok=True)
        new = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self.sysfs))
        new.chmod(0o755)
        for sub in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
            (new / sub).mkdir(parents=True)
        for key, value in {"link_layer": "Ethernet", "state": state, "rate": "100 Gb/sec (4X EDR)",
                           "lid": "0x0"}.items():
            (new / key).write_text(value + "\n")
        index = 0
        for gid in gids:
            address, dev = gid if isinstance(gid, tuple) else (gid, netdev)
            for kind in ("IB/RoCE v1", "RoCE v2"):
                (new / f"gids/{index}").write_text(gid_of(address) + "\n")
                (new / f"gid_attrs/types/{index}").write_text(kind + "\n")
                (new / f"gid_attrs/ndevs/{index}").write_text(dev + "\n")
                index += 1
        link = new / "link"
        link.symlink_to(new)
        link.rename(port)

    def start(self, wait=True, config=True):
        key = self.dir / "key"
        settings = {**self.settings, **({"key": key} if key.exists() else {})}  # one that is named has to be there
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        common = "".join(f"{name} = {value}\n" for name, value in self.common.items())
        self.conf.write_text(f"[agent]\n{lines}[log]\nlevel = debug\n[meshverbs]\n{common}")
        with self.log.open("a") as log:
            self.agent = subprocess.Popen(
                ["ip", "netns", "exec", self.netns, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', self.name,
                 "env", *([TRUST] if self.trusts else []), *AS_NOBODY, self.program, "--foreground", "--run-dir", self.run_dir,
                 *(("--state-dir", self.state_dir) if self.state_dir else ()), *(("--config", self.conf) if config else ()), "--sysfs", self.sysfs], stdout=log, stderr=log)
        if wait:
            wait_for(f"agent of {self.name}: {self.log.read_text()}", self.answers)
        return self

    def halt(self):
        """Stops the agent's process until SIGCONT. It stands still when this returns."""
        self.agent.send_signal(signal.SIGSTOP)
        stat = pathlib.Path(f"/proc/{self.agent.pid}/stat")
        wait_for(f"agent of {self.name} stands still", lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T")

    def answers(self):
        if self.agent.poll() is not None:
            raise AssertionError(f"agent of {self.name} ended with {self.agent.returncode}: {self.log.read_text()}")
        try:
            return self.get("status")
        except OSError:
            return None

    def stop(self, sig=signal.SIGTERM):
        """Ends the agent: its process is the one that was started, by exec."""
        self.agent.send_signal(sig)
        status = self.agent.wait(timeout=WAIT_S)
        self.agent = None
        return status

    def get(self, what):
        text = self.ask(json.dumps({"get": what}))
        return text if what == "openmetrics" else json.loads(text)

    def ask(self, line):
        with socket.socket(socket.AF_UNIX) as sock:
            # As our tool: with a timeout it would be EAGAIN at once where others that connect have filled the agent's queue.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(WAIT_S), 0))
            sock.connect(str(self.control_dir / "control"))
            sock.settimeout(WAIT_S)
            sock.sendall(line.encode() + b"\n")
            parts = []
            while part := sock.recv(65536):
                parts.append(part)
        return b"".join(parts).decode()

    def peers(self):
        """Names of the hosts that are known with their description."""
        return sorted(host["name"] for host in self.get("peers")["hosts"] if host["described"])

    def metric(self, name):
        return self.get("metrics")[name]

    def talk(self, name="prog", user=0):
        talk = Talk(self, name, user)
        self.world.talks.append(talk)
        return talk


class World:
    """All hosts of one test; fini() takes everything away."""

    def __init__(self, build):
        self.build = build
        self.prefix = f"mvagent{os.getpid()}"
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="meshverbs-agent-"))
        os.chmod(self.dir, 0o755)
        self.hosts, self.talks, self.index = {}, [], 10

    def host(self, name):
        self.hosts[name] = Host(self, name)
        return self.hosts[name]

    def identify(self, *group):
        """These hosts have a directory for their identity."""
        for host in group:
            host.state_dir = host.dir / "state"
            host.state_dir.mkdir()
            os.chmod(host.state_dir, 0o700)
            os.chown(host.state_dir, NOBODY, NOBODY)

    def cable(self, a, a_dev, b, b_dev, a_addrs=(), b_addrs=()):
        # Ends with the same number would be told of a lost carrier up to a second later.
        self.index += 2
        ip("link", "add", a_dev, "index", self.index, "netns", a.netns, "type", "veth",
           "peer", "name", b_dev, "index", self.index + 1, "netns", b.netns)
        for host, dev, addrs in ((a, a_dev, a_addrs), (b, b_dev, b_addrs)):
            host.ip("link", "set", dev, "up")
            for addr in addrs:
                host.ip("addr", "add", addr, "dev", dev)

    def fini(self):
        for talk in self.talks:
            talk.close()
        for host in self.hosts.values():
            if host.agent:
                host.agent.kill()
                host.agent.wait()
            subprocess.run(["ip", "netns", "del", host.netns], check=False)
        shutil.rmtree(self.dir)


def cannot_run():
    """Why these tests cannot run here, or None."""
    if os.geteuid():
        return "needs root, to make network namespaces"
    probe = f"mvagent{os.getpid()}-probe"
    if subprocess.run(["ip", "netns", "add", probe], stderr=subprocess.DEVNULL, check=False).returncode:
        return "cannot make network namespaces"
    ip("netns", "del", probe)
    return None
