# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is left on the machine while a simulation is up: /run/meshsim/NAME, and who is alive in it."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import time

from . import SimError

RUN = pathlib.Path(os.environ.get("SIM_RUN", "/run/meshsim"))
STATE_DIR = "/run/meshverbsd/state"  # of a host's agent: each host has an identity, and knows those that it has met
LISTEN = "0A"  # TCP_LISTEN of net/tcp_states.h
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,30}")


def start_time(pid):
    """When process pid started, in the kernel's ticks; None if there is no such process."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


class Sim:
    """A simulation by name; its directory need not exist yet."""

    def __init__(self, name):
        if not NAME.fullmatch(name):
            raise SimError(f"bad name '{name}'; use a-z, 0-9, '_' and '-', at most 31")
        self.name, self.dir = name, RUN / name
        self.fabric = f"msim-{name}"

    @property
    def record_path(self):
        return self.dir / "sim.json"

    def record(self):
        """What `up` wrote; empty where nothing is or where `up` did not get that far."""
        try:
            return json.loads(self.record_path.read_text())
        except (OSError, ValueError):
            return {}

    def write_record(self, record):
        temporary = self.record_path.with_suffix(".new")
        temporary.write_text(json.dumps(record, indent=1))
        temporary.rename(self.record_path)

    def hosts(self):
        """{host: pid of its simhostd} of those alive."""
        known = self.record().get("hosts", {})
        return {name: pid for name, (pid, started) in known.items() if start_time(pid) == started}

    def exists(self):
        return self.dir.is_dir()

    def alive(self):
        """All daemons run: the simulation can be used."""
        record = self.record()
        return bool(record.get("ready")) and len(self.hosts()) == len(record["hosts"])

    def netns(self, host):
        return f"{self.fabric}-{host}"

    def pid(self, host):
        hosts = self.hosts()
        if host not in hosts:
            known = " ".join(self.record().get("hosts", {}))
            raise SimError(f"no host '{host}' in '{self.name}'; it has: {known}")
        return hosts[host]

    def root(self, host):
        """The file system of a host, as a path that is good from outside."""
        return pathlib.Path(f"/proc/{self.pid(host)}/root")

    def listening(self, host, port):
        """Whether some program of the host listens on that TCP port."""
        pattern = re.compile(rf":{port:04X} [0-9A-F:]+ {LISTEN} ")
        for table in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                if pattern.search(pathlib.Path(f"/proc/{self.pid(host)}/net/{table}").read_text()):
                    return True
        return False

    def control(self, host, request):
        """One line to the host's simhostd, its answer back; an "error: ..." answer becomes a SimError."""
        self.pid(host)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(60)
            try:
                sock.connect(str(self.dir / f"{host}.sock"))
                sock.send(request.encode())
                answer = sock.recv(1 << 16).decode()
            except OSError as err:
                raise SimError(f"simhostd of {host} does not answer: {err}; see {self.dir}/{host}.log") from None
        if answer.startswith("error:"):
            raise SimError(answer[6:].strip())
        return answer

    @contextlib.contextmanager
    def locked(self):
        """Only one launcher at a time puts this simulation up or down."""
        RUN.mkdir(parents=True, exist_ok=True)
        path = RUN / f".{self.name}.lock"
        while True:
            with open(path, "w", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                # Whoever held it before may have removed the file: then others lock a new one.
                if path.exists() and path.stat().st_ino == os.fstat(lock.fileno()).st_ino:
                    try:
                        yield
                    finally:
                        if not self.exists():
                            path.unlink()
                    return

    def namespaces(self):
        """{inode: name} of the network namespaces that bear our names."""
        found = {}
        for path in pathlib.Path("/run/netns").glob(f"{self.fabric}*"):
            if path.name == self.fabric or path.name.startswith(f"{self.fabric}-"):
                with contextlib.suppress(OSError):
                    found[path.stat().st_ino] = path.name
        return found

    def processes(self):
        """Processes inside our hosts, daemons included: whoever lives in one of our network namespaces."""
        inodes = set(self.namespaces())
        inodes |= {inode for pid in self.hosts().values() if (inode := net_inode(pid))}
        inodes.discard(net_inode("self"))
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and net_inode(entry) in inodes]

    def remove(self, unname):
        """Ends every process in our hosts, removes names and directory.  unname(netns) drops one name."""
        end(self.processes())
        for name in self.namespaces().values():
            unname(name)
        shutil.rmtree(self.dir, ignore_errors=True)


def net_inode(pid):
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None


def end(pids, patience=2.0):
    """SIGTERM, and SIGKILL for what is left after `patience` seconds."""
    started = {pid: start_time(pid) for pid in pids}
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            if started[pid] is not None and start_time(pid) == started[pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        limit = time.monotonic() + patience
        while time.monotonic() < limit:
            pids = [pid for pid in pids if started[pid] is not None and start_time(pid) == started[pid]]
            if not pids:
                return
            time.sleep(0.005)


def all_sims():
    """Every simulation that left a trace, by name."""
    if not RUN.is_dir():
        return []
    return [Sim(path.name) for path in sorted(RUN.iterdir()) if path.is_dir() and NAME.fullmatch(path.name)]


def choose(name):
    """The named simulation, or the only one that is up."""
    if name:
        sim = Sim(name)
        if not sim.alive():
            state = "is stale; take it away with: sim down " + name if sim.exists() else "is not up"
            raise SimError(f"simulation '{name}' {state}")
        return sim
    up = [sim for sim in all_sims() if sim.alive()]
    if len(up) == 1:
        return up[0]
    if not up:
        raise SimError("no simulation is up; start one with: sim up TOPO")
    raise SimError(f"several simulations are up ({' '.join(s.name for s in up)}); choose one with -n NAME")
