# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Network namespaces with agents in them, and an attacker's sockets in any of them.

    alice --- v --- mallory       v: the agent under attack, with three rails mlx5_0..2, one on each link
              |                   mallory: on a link with v, not on alice's
            router --- outsider   outsider: reaches v through a router only

Everything happens in namespaces that this made, and ends with them.
"""

import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import wire

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tool"))
os.environ.setdefault("MESHVERBS_TOOL", "/bin/false")
from fixture import Sysfs, V2  # noqa: E402

AGENT = os.environ.get("MESHVERBS_AGENT")
CLONE_NEWNET = 0x40000000
SKIPPED = 77
WAIT_S = 60  # for what has to happen, and takes milliseconds on an idle machine
libc = ctypes.CDLL(None, use_errno=True)


def run(*args, **kwargs):
    return subprocess.run(args, check=True, capture_output=True, text=True, **kwargs)


def ip(namespace, *args):
    run("ip", "-n", namespace, *args)


class inside:
    """With this thread in a network namespace: sockets made there stay there."""

    def __init__(self, namespace):
        self.path = f"/run/netns/{namespace}"

    def __enter__(self):
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        there = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        assert not libc.setns(there, CLONE_NEWNET), os.strerror(ctypes.get_errno())
        os.close(there)

    def __exit__(self, *_):
        assert not libc.setns(self.home, CLONE_NEWNET)
        os.close(self.home)


# Namespace, netdev, its addresses; the two ends of each cable.
CABLES = [
    (("alice", "a0", "10.0.1.2/24"), ("v", "v0", "10.0.1.1/24")),
    (("mallory", "m0", "10.0.2.2/24"), ("v", "v1", "10.0.2.1/24")),
    (("router", "r0", "10.0.3.2/24"), ("v", "v2", "10.0.3.1/24")),
    (("outsider", "o0", "10.0.4.2/24"), ("router", "r1", "10.0.4.1/24")),
]


def mac_of(cable, end):
    return f"02:00:00:00:0{cable}:0{end}"


def link_local(cable, end):
    return f"fe80::ff:fe00:{cable}0{end}" if cable else f"fe80::ff:fe00:{end}"


def make_network():
    for name in ("alice", "v", "mallory", "router", "outsider"):
        run("ip", "netns", "add", name)
        ip(name, "link", "set", "lo", "up")
    for number, (one, two) in enumerate(CABLES):
        ip(one[0], "link", "add", one[1], "address", mac_of(number, 1), "type", "veth",
           "peer", "name", two[1], "address", mac_of(number, 2), "netns", two[0])
        for namespace, netdev, address in (one, two):
            run("ip", "netns", "exec", namespace, "sysctl", "-qw", f"net.ipv6.conf.{netdev}.accept_dad=0")
            ip(namespace, "addr", "add", address, "dev", netdev)
            ip(namespace, "link", "set", netdev, "up")
    run("ip", "netns", "exec", "router", "sysctl", "-qw", "net.ipv4.ip_forward=1")
    # The kernel's help against forged sources is not counted on.
    for name in ("v", "router"):
        for netdev in ("all", "default", *(end[1] for cable in CABLES for end in cable if end[0] == name)):
            run("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv4.conf.{netdev}.rp_filter=0")
    ip("v", "route", "add", "10.0.4.0/24", "via", "10.0.3.2")
    ip("outsider", "route", "add", "10.0.0.0/16", "via", "10.0.4.1")


def dropped(namespace):
    """Datagrams to the port of agents that the kernel has dropped there, for whatever reason."""
    lines = run("ip", "netns", "exec", namespace, "cat", "/proc/net/udp", "/proc/net/udp6").stdout.splitlines()
    return sum(int(line.split()[-1]) for line in lines if f":{wire.PORT:04X} " in line.upper())


class Manager:
    """What the service manager does: it keeps descriptors for an agent that starts again (sd_notify(3), sd_listen_fds(3))."""

    def __init__(self, work):
        self.path = tempfile.mktemp(prefix="notify.", dir=work)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        self.sock.setblocking(False)
        self.kept = {}

    def close(self):
        self.sock.close()
        for fd in self.kept.values():
            os.close(fd)

    def read(self):
        """Names of what is kept."""
        try:
            while True:
                text, fds, _, _ = socket.recv_fds(self.sock, 4096, 8)
                words = dict(line.split("=", 1) for line in text.decode().splitlines())
                for fd in fds:
                    assert words["FDSTORE"] == "1" and words["FDNAME"] not in self.kept, words
                    self.kept[words["FDNAME"]] = fd
        except BlockingIOError:
            return set(self.kept)

    def words(self):
        """What stands before an agent's command line."""
        return ["env", f"NOTIFY_SOCKET={self.path}", f"LISTEN_FDS={len(self.kept)}", f"LISTEN_FDNAMES={':'.join(self.kept)}",
                "sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh"]

    def options(self):
        """Of Popen()."""
        def hand_over():
            for number, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in self.kept.values()]):
                os.dup2(fd, 3 + number)
        return {"preexec_fn": hand_over, "pass_fds": tuple(range(3, 3 + len(self.kept)))}


class Agent:
    """An agent in a namespace, with rails on @netdevs: (netdev, its IPv4 address, cable, end)."""

    def __init__(self, work, namespace, netdevs, key=None, extra_gids=(), settings="", trusts=True, has_identity=False):
        self.dir = pathlib.Path(work) / f"agent-{namespace}"
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir()
        self.dir.chmod(0o755)
        self.namespace, self.run_dir, self.control_dir = namespace, self.dir / "run", self.dir / "rund"
        # There are no such queue pairs, so without that no process registers any.
        self.trust = ["env", "MESHVERBS_TEST_TRUST_REGISTRATIONS=1"] if trusts else []
        self._write_sysfs(netdevs, extra_gids)
        self.key_file = self.dir / "key"
        if key:
            self.write_key(key)
        self.reloads = 0
        self.settings = f"hosts = {self.dir}/hosts\nexclude_default_route = off\nbeacon_interval_ms = 500\n{settings}"
        (self.dir / "hosts").write_text("")
        self.state = []
        if has_identity:
            (self.dir / "state").mkdir()
            self.state = ["--state-dir", self.dir / "state"]
        self.log = open(self.dir / "log", "a+")
        self.process = self.manager = None
        self.start()

    def _write_sysfs(self, netdevs, extra_gids):
        sysfs = Sysfs(self.dir / "sys")
        for number, (netdev, address, cable, end) in enumerate(netdevs):
            sysfs.device(f"mlx5_{number}", pci=f"0000:0{number}:00.0")
            gids = [(0, link_local(cable, end), V2, netdev), (1, address.split("/")[0], V2, netdev)]
            gids += [(2 + i, gid, V2, netdev) for i, gid in enumerate(extra_gids)]
            sysfs.port(f"mlx5_{number}", size=16, gids=gids)

    def write_key(self, text):
        self.key_file.write_text(text + "\n")
        self.key_file.chmod(0o600)

    def start(self, key_line=None):
        """@key_line: of mesh.conf; else it names the key file if there is one."""
        if key_line is None:
            key_line = f"key = {self.key_file}\n" if self.key_file.exists() else ""
        (self.dir / "mesh.conf").write_text(f"[agent]\n{key_line}{self.settings}")
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, *self.trust, *(self.manager.words() if self.manager else ()), AGENT, "--foreground", "--run-dir", self.run_dir,
             "--sysfs", self.dir / "sys", "--config", self.dir / "mesh.conf", *self.state],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, **(self.manager.options() if self.manager else {}))
        wait_for(lambda: self._answers(), f"the agent of {self.namespace}: {self.text()}")

    def _answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the agent ended: {self.text()}")
        try:
            return bool(self.metrics())
        except OSError:
            return False

    def text(self):
        return (self.dir / "log").read_text()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGCONT)  # some tests stop it for a while
            try:
                self.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.process = None

    def close(self):
        self.stop()
        self.log.close()

    def reload(self):
        """The agent reads its files again, and has done so when this returns: it reads the key file directly after the hosts file."""
        self.reloads += 1
        name = f"reload{self.reloads}"
        (self.dir / "hosts").write_text(f"{name} 192.0.2.1\n")
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: name in [entry["name"] for entry in json.loads(self.ask("peers"))["asked"]], lambda: f"{name}: {self.text()}")

    def ask(self, name, timeout=WAIT_S):
        return self.request({"get": name}, timeout)

    def request(self, request, timeout=WAIT_S):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(str(self.control_dir / "control"))  # waits while others are before us
            sock.settimeout(timeout)
            sock.sendall(json.dumps(request).encode() + b"\n")
            answer = bytearray()
            while more := sock.recv(65536):
                answer += more
        return answer.decode()

    def metrics(self):
        """{name: value}, without meshverbs_ and _total; labels as in name{label="value"}."""
        found = {}
        for line in self.ask("openmetrics").splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                found[name.removeprefix("meshverbs_").replace("_total", "")] = float(value) if "." in value else int(value)
        return found

    def rejected(self, reason):
        return self.metrics()[f'datagrams_rejected{{reason="{reason}"}}']

    def directory(self):
        return wire.Directory(self.run_dir / "directory")

    def rss_kib(self):
        return self._status("VmRSS:")

    def _status(self, name):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
        raise AssertionError(name)

    def waited_seconds(self):
        """How long its thread was ready to run, and other processes had the processors."""
        return waited_seconds(self.process.pid)

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waited_seconds(pid="self"):
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


class Process:
    """A process that has registered with an agent."""

    def __init__(self, agent, register=True, timeout=WAIT_S):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(timeout)
        wait_for(lambda: self.connect(str(agent.run_dir / "agent")), "no connection to the agent")
        if register:
            self.sock.send(wire.frame(wire.REGISTER, payload=b"attack", version=wire.CTL_VERSION))
            assert wire.parse_frame(self.sock.recv(2048))[0] == wire.WELCOME

    def connect(self, path):
        """False: so many others connect just now that there is no room, and as the plugin does one tries again."""
        try:
            self.sock.connect(path)
        except BlockingIOError:
            return False
        return True

    def register(self, device, qpn):
        self.sock.send(wire.frame(wire.REGISTER_QP, device=device, qpn=qpn, qp_type=2))

    def settle(self, timeout=WAIT_S):
        """Waits until the agent has taken all frames before: the answer to this one comes at once, and after them. Returns how often the
        process was told meanwhile that the directory has changed."""
        self.sock.send(wire.frame(wire.LOOK, dgid="fe80::1"))
        self.sock.settimeout(timeout)
        told = 0
        while (kind := wire.parse_frame(self.sock.recv(2048))[0]) != wire.LOOKED:
            told += kind == wire.CHANGED
        return told

    def send(self, dgid, message):
        self.sock.send(wire.frame(wire.SEND, dgid=dgid, payload=message))

    def receive(self, timeout=WAIT_S):
        """The next message that is delivered; None: none within that time."""
        return self.receive_from(timeout)[1]

    def receive_from(self, timeout=WAIT_S):
        """(id of the host that it is from, the next message that is delivered); the id is zero but for who has sent SENDERS."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            self.sock.settimeout(left)
            try:
                raw = self.sock.recv(2048)
            except TimeoutError:
                break
            kind, _, _, payload = wire.parse_frame(raw)
            if kind == wire.DELIVER:
                return raw[8:24], payload
        return None, None

    def refused(self, timeout=WAIT_S):
        """(device, QPN) of the next registration that is refused."""
        self.sock.settimeout(timeout)
        while True:
            kind, device, qpn, _ = wire.parse_frame(self.sock.recv(2048))
            if kind == wire.REFUSED:
                return device, qpn

    def wakes(self, number, seconds):
        """How often it is told that the directory has changed: for that time, and until it was told so @number times."""
        end, told = time.monotonic() + seconds, 0
        self.sock.settimeout(WAIT_S)
        while told < number or time.monotonic() < end:
            told += wire.parse_frame(self.sock.recv(2048))[0] == wire.CHANGED
        return told

    def closed(self, timeout=WAIT_S):
        """Has the agent hung up?"""
        self.sock.settimeout(timeout)
        try:
            while self.sock.recv(2048):
                pass
            return True
        except TimeoutError:
            return False
        except OSError:
            return True

    def close(self):
        self.sock.close()


class Container:
    """A program in a container as a runtime makes it: PID and mount namespace of its own (or the host's PID namespace), a root file
    system of its own, user 0 without any capability, and what docs/containers.md says mounted read-only. @mounts: {path in it: path
    of the host}, in place of that."""

    ROOT = """
root=$1 mode=$2; shift 2
mount -t tmpfs none "$root"
for name in usr bin sbin lib lib32 lib64 etc; do
    if [ -L "/$name" ]; then cp -P "/$name" "$root/"
    elif [ -d "/$name" ]; then mkdir "$root/$name" && mount --rbind "/$name" "$root/$name"
    fi
done
mkdir "$root/proc" "$root/dev" "$root/run" "$root/tmp"
if [ "$mode" = host-pid ]; then mount --rbind /proc "$root/proc"; else mount -t proc proc "$root/proc"; fi
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
    mkdir -p "$root$1"
    mount --bind "$2" "$root$1"
    mount -o remount,bind,ro,nosuid,nodev "$root$1"
    shift 2
done
shift
exec chroot "$root" setpriv --bounding-set=-all --inh-caps=-all --no-new-privs /usr/bin/python3 -c "$@"
"""

    def __init__(self, agent, code, *args, mounts=None, host_pid=False, before=()):
        root = tempfile.mkdtemp(dir=os.environ["IN_NETNS"])
        mounts = mounts or {"/run/meshverbs": agent.run_dir}
        self.parent = subprocess.Popen(
            ["ip", "netns", "exec", agent.namespace, *before, "unshare", "--mount", *(() if host_pid else ("--pid",)), "--fork", "--kill-child",
             "sh", "-ec", self.ROOT, "sh", root, "host-pid" if host_pid else "own-pid",
             *(str(word) for pair in mounts.items() for word in pair), "--", code, *map(str, args)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def pid(self):
        """Of the program, as the host sees it."""
        return int(pathlib.Path(f"/proc/{self.parent.pid}/task/{self.parent.pid}/children").read_text().split()[0])

    def read(self):
        """What it prints next: a line of JSON."""
        line = self.parent.stdout.readline()
        assert line, f"the program ended with {self.parent.wait()}"
        return json.loads(line)

    def close(self):
        """Its end: it reads its standard input to the end when it has done."""
        self.parent.stdin.close()
        self.parent.stdout.close()
        try:
            self.parent.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.parent.kill()
            self.parent.wait()
            raise


class Speaker:
    """A stranger's agent, by hand and without a key: one UDP socket with what it has learnt."""

    def __init__(self, namespace, address, netdev=None, sender=b"M" * 16, port=0):
        self.sender, self.counter, self.start = sender, 0, 1
        self.cookies = {}
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with inside(namespace):
            self.sock = socket.socket(family, socket.SOCK_DGRAM)
            self.scope = socket.if_nametoindex(netdev) if netdev else 0
            self.sock.bind((address, port, 0, self.scope) if self.scope else (address, port))
        self.sock.settimeout(1)

    def close(self):
        self.sock.close()

    def datagram(self, kind, payload=b"", **fields):
        self.counter += 1
        head = {"sender": self.sender, "start": self.start, "counter": self.counter, "mine": b"m" * 16, **fields}
        return wire.Header(kind=kind, **head).pack() + payload

    def to(self, address):
        return (address, wire.PORT, 0, self.scope) if ":" in address else (address, wire.PORT)

    def say(self, address, kind, payload=b"", **fields):
        self.sock.sendto(self.datagram(kind, payload, cookie=self.cookies.get(address, wire.NO_COOKIE), **fields),
                         self.to(address))

    def hear(self, timeout=1.0):
        """(Header, payload) or None."""
        self.sock.settimeout(timeout)
        try:
            raw = self.sock.recv(2048)
        except TimeoutError:
            return None
        return wire.Header.parse(raw), raw[wire.HEADER.size:]

    def meet(self, address):
        """Get the cookie that the agent at @address has for us, as every honest agent does."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            self.say(address, wire.QUERY)
            heard = self.hear()
            if heard and heard[0].kind == wire.CHALLENGE:
                self.cookies[address] = heard[0].mine
                return
        raise AssertionError(f"no challenge from {address}")


class Forger:
    """Datagrams with any source address, hop limit and hardware address, out of one netdev."""

    def __init__(self, namespace, netdev, to_mac):
        with inside(namespace):
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.sock.bind((netdev, 0))
            self.mac = self.sock.getsockname()[4]
        self.to_mac = bytes.fromhex(to_mac.replace(":", ""))

    def close(self):
        self.sock.close()

    def packet(self, source, destination, payload, hop_limit=255, port=wire.PORT):
        """An Ethernet frame with IPv4 or IPv6 and UDP."""
        v6 = ":" in source
        source, destination = (socket.inet_pton(socket.AF_INET6 if v6 else socket.AF_INET, a) for a in (source, destination))
        length = 8 + len(payload)
        udp = struct.pack("!HHHH", port, wire.PORT, length, 0) + payload
        total = checksum(source + destination + struct.pack("!II", length, 17) + udp) or 0xffff
        udp = struct.pack("!HHHH", port, wire.PORT, length, total) + payload
        if v6:
            head = struct.pack("!IHBB", 6 << 28, length, 17, hop_limit) + source + destination
            to_mac = b"\x33\x33" + destination[12:] if destination[0] == 0xff else self.to_mac
        else:
            head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, hop_limit, 17, 0) + source + destination
            head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
            to_mac = self.to_mac
        return to_mac + self.mac + (b"\x86\xdd" if v6 else b"\x08\x00") + head + udp

    def send(self, *args, **kwargs):
        self.sock.send(self.packet(*args, **kwargs))


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Listener:
    """What is sent on a link, as anybody there may hear it."""

    def __init__(self, namespace, netdev):
        with inside(namespace):
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
            self.sock.bind((netdev, 3))

    def close(self):
        self.sock.close()

    def datagram(self, wanted, timeout=WAIT_S):
        """(source address, datagram) of the next one from an agent that @wanted(header) likes."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            self.sock.settimeout(left)
            try:
                raw, address = self.sock.recvfrom(4096)
            except TimeoutError:
                break
            at = {6: 48, 4: 28}.get(raw[0] >> 4)
            if not at or raw[at:at + 4] != b"MVDG" or address[2] == socket.PACKET_OUTGOING:
                continue
            if wanted(wire.Header.parse(raw[at:])):
                source = raw[8:24] if at == 48 else raw[12:16]
                return socket.inet_ntop(socket.AF_INET6 if at == 48 else socket.AF_INET, source), raw[at:]
        raise AssertionError("nothing like that was heard")


def wait_for(condition, what, timeout=WAIT_S):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"timed out: {what() if callable(what) else what}")


def in_namespaces():
    """Runs the calling file once more, in namespaces of its own. Return: exit status."""
    command = ["unshare", "--net", "--mount", "--fork", "--kill-child"]
    if os.geteuid():
        command += ["--user", "--map-root-user"]
    setup = "mount -t tmpfs none /run && mkdir /run/netns && mount -t sysfs none /sys 2>/dev/null; exec \"$@\""
    command += ["sh", "-c", setup, "sh"]
    try:
        check = subprocess.run([*command, "sh", "-c", "ip netns add probe && ip link add x0 type veth peer name x1"],
                               capture_output=True, text=True, check=False)
        error = check.stderr.strip() if check.returncode else None
    except FileNotFoundError as missing:
        error = str(missing)
    if error:
        print(f"skipped: no network namespaces with veth can be had: {error}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="mv-attack.") as work:
        os.chmod(work, 0o755)
        return subprocess.run([*command, sys.executable, "-B", *sys.argv],
                              env={**os.environ, "IN_NETNS": work}, check=False).returncode
