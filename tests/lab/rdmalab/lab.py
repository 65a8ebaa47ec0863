# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A lab: the guests of one topology, from up to down."""
import contextlib
import json
import os
import pathlib
import time

import topo as topology

from . import hosts, initramfs, kernel, plan, process, state, tap
from .errors import LabError
from .guest import Guest, nics_of
from .job import Job
from .progress import Silent
from .wires import Wires

BOOT_TIMEOUT_S = 300.0  # an idle machine needs 6 to 10 s, one with other work up to 30 s
MERGED = ("bin", "sbin", "lib", "lib64")  # links into /usr on Debian 12


class Lab:
    """Handle of a lab that is up.  Any number of processes may hold one; calls are not thread-safe."""

    kind = "lab"
    logs = False  # overlaid() is not there

    def __init__(self, path, description, topo):
        self.path = path
        self.name = path.name
        self.what = description["what"]
        self.topo = topo
        self.in_one = description["in_one"]  # all hosts are pretend hosts in one guest
        self.taps = description["taps"]
        self.guests = {name: Guest(path, name) for name in description["guests"]}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.down()

    @classmethod
    def up(cls, what, name=None, only=(), overlays=(), shares=(), smp=1, mem=768, taps=(),
           timeout=BOOT_TIMEOUT_S, progress=None, keep=False):
        """Boot the hosts of a topology and return when all are ready; on any failure nothing is left.

        what      topology file, name of a shipped one, or hosts:NxM
        only      names of the hosts to boot; all if empty
        overlays  directories laid over the host's root, the last one on top
        shares    directories that host and guests both write to, under the same path
        taps      texts HOST.INDEX=NETNS:IFNAME
        keep      leave a failed lab's directory for inspection
        """
        try:
            request = Request(what, only, overlays, shares, smp, mem, taps)
            name = name or pathlib.Path(what).stem.replace(":", "-")
            kern = kernel.ensure()
            path, _ = state.claim(name, request.description())
        except topology.TopoError as err:
            raise LabError(str(err)) from None
        progress = progress or Silent()
        try:
            state.write(path / "topology", request.text)
            lab = cls(path, request.description(), request.topo)
            lab.boot(request, kern, timeout, progress)
            (path / "up.pid").unlink()
            return lab
        except BaseException:
            progress.end()
            for ident in state.living(path) if keep else ():
                if ident != process.identity(os.getpid()):
                    process.kill(ident)
            if not keep:
                state.remove(path)
            raise

    @classmethod
    def attach(cls, name=None):
        """The lab of that name; without a name, the only one there is."""
        name = name or only_name()
        path = state.directory(name)
        try:
            description = json.loads((path / "lab.json").read_text())
            topo = topology.parse((path / "topology").read_text(), description["what"])
        except FileNotFoundError:
            raise LabError(f"no lab '{name}'; there is: {' '.join(state.names()) or 'none'}") from None
        return cls(path, description, topo)

    def boot(self, request, kern, timeout, progress):
        wires = Wires()
        try:
            wires.plug(self.topo, {} if self.in_one else self.guests, request.taps)
            initrd = self.path / "initrd"
            initrd.write_bytes(initramfs.build(kern))
            for guest in self.guests.values():
                guest.prepare(self.plan(guest), request.overlays, request.shares, kern, request.ldconfig)
                if self.in_one:
                    hosts.prepare(guest.dir)
                nics = [] if self.in_one else nics_of(self.topo.hosts[guest.name])
                guest.start(kern, initrd, nics, wires, request.smp, request.mem, request.overlays, request.shares)
        finally:
            wires.close()
        for guest in self.guests.values():
            self.begin(guest, request)
        self.wait_ready(timeout, request.mem, progress)

    def plan(self, guest):
        if self.in_one:
            return hosts.build(self.topo)
        return plan.build(self.topo, self.topo.hosts[guest.name])

    def begin(self, guest, request):
        """Let a guest that was started in the stopped state run, its uncabled NICs without carrier."""
        end = time.monotonic() + BOOT_TIMEOUT_S
        while not (guest.root / "qmp").exists() and guest.alive() and time.monotonic() < end:
            time.sleep(0.01)
        if not guest.alive():
            return  # wait_ready says it with all there is to say
        for nic in [] if self.in_one else self.topo.hosts[guest.name].nics.values():
            if not nic.link and nic.port not in request.taps:
                guest.set_carrier(nic.index, False)
        guest.qmp("cont")

    def wait_ready(self, timeout, mem, progress):
        start = time.monotonic()
        while True:
            elapsed = time.monotonic() - start
            dead = [g for g in self.guests.values() if not g.alive()]
            stages = {name: guest.stage() for name, guest in self.guests.items()}
            progress.update(stages, elapsed)
            if all(stage == "ready" for stage in stages.values()):
                return progress.end()
            failed = dead + [self.guests[n] for n, s in stages.items() if s == "failed" and self.guests[n] not in dead]
            late = [self.guests[n] for n, s in stages.items() if s != "ready"] if elapsed > timeout else []
            if failed or late:
                progress.end()
                raise LabError(explain(failed or late, timeout, mem))
            time.sleep(0.05)

    def host(self, name):
        """The Guest that is, or holds, a host of the topology."""
        guest = self.guests.get(hosts.GUEST if self.in_one and name in self.topo.hosts else name)
        if not guest:
            known = [*self.guests, *self.topo.hosts] if self.in_one else self.guests
            raise LabError(f"no host '{name}' in lab '{self.name}'; it has: {' '.join(known)}")
        return guest

    def start(self, host, command):
        """Start a shell command on a host; returns the Job."""
        guest = self.host(host)
        return Job(guest, f"export LAB_HOST={host}\n{command}" if self.in_one else command)

    def run(self, host, command, timeout=60.0):
        """Run a shell command on a host; returns its Result."""
        return self.start(host, command).wait(timeout)

    def device(self, port):
        """Name of the RDMA device at HOST.INDEX."""
        nic = self.nic(port)
        return hosts.device(nic) if self.in_one else f"rxe{nic.index}"

    def gid(self, kind):
        """Index in a host's GID tables: rxe has RoCE v2 only, the link-local entry first."""
        return {"link-local": 0, "ipv4": 1}[kind]

    def script(self, host, path):
        """Where a host finds a copy of a file of ours."""
        (self.host(host).dir / "jobs" / path.name).write_bytes(path.read_bytes())
        return f"/run/lab/jobs/{path.name}"

    def check(self, host):
        """LabError if the guest that is, or holds, a host is gone."""
        self.host(host).check()

    def netdev(self, port):
        """Name of the netdev at HOST.INDEX."""
        nic = self.nic(port)
        return hosts.netdev(nic) if self.in_one else nic.netdev

    def nic(self, port):
        try:
            return self.topo.nic(port)
        except topology.TopoError as err:
            raise LabError(str(err)) from None

    def link(self, what, on):
        """Give or take the carrier of every port of a link, or of one port, HOST.INDEX."""
        if what in self.topo.links:
            nics = self.topo.links[what].ports
        elif "." in what:
            nics = [self.nic(what)]
        else:
            raise LabError(f"no link '{what}' in lab '{self.name}'; it has: {' '.join(self.topo.links)} "
                           "and ports written HOST.INDEX")
        for nic in nics:
            if on and not nic.link and nic.port not in self.taps:
                raise LabError(f"{nic.port} is in no cable or switch of {self.what}: it cannot have a carrier")
            if self.in_one:
                self.run(nic.host, hosts.carrier(nic, on))
            elif nic.host in self.guests:
                self.guests[nic.host].set_carrier(nic.index, on)

    def pause(self, host):
        """Stop a guest's processors, as a hung or very slow machine."""
        self.host(host).qmp("stop")

    def resume(self, host):
        self.host(host).qmp("cont")

    def down(self):
        """End the guests and delete the lab's directory."""
        state.remove(self.path)


class Request:
    """What `up` was asked for, checked before anything is made."""

    def __init__(self, what, only, overlays, shares, smp, mem, taps):
        self.what = str(what)
        size = hosts.size(self.what)
        self.in_one = bool(size)
        if size:
            self.text = hosts.topology(*size)
            self.topo = topology.parse(self.text, self.what)
        else:
            self.topo = topology.load(what)
            self.text = pathlib.Path(self.topo.path).read_text(encoding="utf-8")
        self.only = self.known_hosts(only)
        self.overlays = [self.overlay(d) for d in overlays]
        self.shares = [directory(d, "--share") for d in shares]
        self.ldconfig = any(needs_ldconfig(d) for d in self.overlays)
        self.smp, self.mem = smp, mem
        if smp < 1 or mem < 1:
            raise LabError(f"bad size: {smp} processors, {mem} MB; both must be positive")
        self.taps = {}
        for spec in taps:
            port, netns, ifname = tap.parse(spec)
            if self.in_one:
                raise LabError(f"--tap {spec}: {self.what} has no NICs of its own; use a topology with guests")
            self.topo.nic(port)
            self.taps[port] = (netns, ifname)

    def known_hosts(self, only):
        for name in only:
            if self.in_one or name not in self.topo.hosts:
                raise LabError(f"--only {name}: {self.what} boots: "
                               f"{hosts.GUEST if self.in_one else ' '.join(self.topo.hosts)}")
        return list(only)

    def overlay(self, path):
        path = directory(path, "--overlay")
        for name in MERGED:
            if (path / name).is_dir() and not (path / name).is_symlink() and pathlib.Path("/", name).is_symlink():
                raise LabError(f"--overlay {path} has /{name}, which is a link to usr/{name} on this host; "
                               "install with prefix /usr")
        return path

    def description(self):
        guests = [hosts.GUEST] if self.in_one else self.only or list(self.topo.hosts)
        return {"what": self.what, "in_one": self.in_one, "guests": guests, "taps": list(self.taps)}


def directory(path, option):
    path = pathlib.Path(path).resolve()
    if not path.is_dir():
        raise LabError(f"{option} {path}: no such directory")
    if "\n" in str(path):
        raise LabError(f"{option}: a path with a line break cannot be used")
    return path


def needs_ldconfig(overlay):
    """Whether the loader's cache must be made anew, as a package's installation would do."""
    return any((overlay / "etc/ld.so.conf.d").glob("*")) or any(overlay.glob("usr/lib/**/lib*.so.*"))


def explain(guests, timeout, mem):
    text = ""
    for guest in guests:
        if guest.failure():
            why = f"said: {guest.failure()}"
        elif not guest.alive():
            why = "ended: its QEMU is gone"
        else:
            why = f"was not ready within {timeout:.0f} s (stage: {guest.stage()})"
        if not guest.spoke():
            why += f"; its kernel never printed a line, so {mem} MB of memory (--mem) may be too little to load it"
        text += f"guest {guest.name} did not come up, it {why}\n{guest.tails()}"
    return text + ("look first at the last console lines above; the usual causes are too little memory (--mem), "
                   "a busy machine (--timeout) and a changed host file system; --keep keeps the files named")


def only_name():
    found = state.names()
    if len(found) == 1:
        return found[0]
    if not found:
        raise LabError("no lab is up; start one, e.g. with 'lab up pair'")
    raise LabError(f"several labs are up ({' '.join(found)}); say which with -n NAME")
