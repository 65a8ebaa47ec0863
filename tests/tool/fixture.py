# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hosts made of files, for the tests of the command: sysfs trees and captured rtnetlink messages.

The trees have the shape of a ConnectX's: GID tables with an entry file for every index, of which most
read as zero, and attribute files for the used ones only (reading the others' gives EINVAL on a real host,
which no plain file does; here they are missing).
"""

import atexit
import ipaddress
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

TOOL = os.environ["MESHVERBS_TOOL"]
CTL_VERSION = 3  # MV_CTL_VERSION of libmeshverbs/wire/ctl.h

V1, V2 = "IB/RoCE v1", "RoCE v2"


def gid(text):
    """A GID's sixteen bytes; IPv4 in its mapped form."""
    address = ipaddress.ip_address(text)
    if address.version == 4:
        return bytes(10) + b"\xff\xff" + address.packed
    return address.packed


def gid_line(raw):
    return ":".join(raw[i:i + 2].hex() for i in range(0, 16, 2)) + "\n"


class Sysfs:
    """A made-up /sys with RDMA devices."""

    def __init__(self, root, with_class=True):
        self.root = pathlib.Path(root)
        self.root.mkdir()
        if with_class:
            (self.root / "class/infiniband").mkdir(parents=True)

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def device(self, name, driver="mlx5_core", pci="0000:03:00.0"):
        """As the kernel does it: the class holds links into the devices' directories."""
        real = f"devices/pci0000:00/{pci}" if driver else "devices/virtual"
        (self.root / real / "infiniband" / name).mkdir(parents=True)
        (self.root / f"class/infiniband/{name}").symlink_to(f"../../{real}/infiniband/{name}")
        self.write(f"class/infiniband/{name}/node_guid", "0c42:a103:0065:1c3e\n")
        if not driver:
            return
        (self.root / f"class/infiniband/{name}/device").symlink_to(f"../../../{pci}")
        (self.root / f"bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
        (self.root / real / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
        self.write(f"{real}/vendor", "0x15b3\n")
        self.write(f"{real}/numa_node", "0\n")

    def port(self, device, num=1, gids=(), link_layer="Ethernet", state="4: ACTIVE", size=256, lid="0x0"):
        """gids: (index, address, type, name of the netdev or None)"""
        port = f"class/infiniband/{device}/ports/{num}"
        for name, text in (("link_layer", link_layer), ("state", state), ("rate", "100 Gb/sec (4X EDR)"),
                           ("lid", lid)):
            self.write(f"{port}/{name}", text + "\n")
        gid_dir = self.root / port / "gids"
        gid_dir.mkdir(parents=True)
        empty = gid_line(bytes(16))
        for index in range(size):  # by the hundred, so without ceremony
            with open(f"{gid_dir}/{index}", "w", encoding="ascii") as file:
                file.write(empty)
        for index, address, gid_type, netdev in gids:
            self.write(f"{port}/gids/{index}", gid_line(gid(address)))
            self.write(f"{port}/gid_attrs/types/{index}", gid_type + "\n")
            if netdev:
                self.write(f"{port}/gid_attrs/ndevs/{index}", netdev + "\n")


def attribute(kind, value):
    data = struct.pack("=HH", 4 + len(value), kind) + value
    return data + bytes(-len(data) % 4)


def u32(kind, value):
    return attribute(kind, struct.pack("=I", value))


class Netlink:
    """Messages as the kernel sends them in answer to dumps of links, addresses and routes."""

    RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, NLMSG_DONE = 16, 20, 24, 3
    IFF_UP, IFF_RUNNING = 0x1, 0x40

    def __init__(self):
        self.data = b""
        self.indexes = {}

    def _message(self, kind, body):
        message = struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 0) + body
        self.data += message + bytes(-len(message) % 4)

    def done(self):
        self._message(self.NLMSG_DONE, struct.pack("=i", 0))

    def link(self, name, mac="02:00:00:00:00:01", up=True, carrier=True, vlan=None, lower=None):
        self.indexes[name] = len(self.indexes) + 1
        flags = (self.IFF_UP if up else 0) | (self.IFF_RUNNING if up and carrier else 0)
        body = struct.pack("=BBHiII", 0, 0, 1, self.indexes[name], flags, 0)
        body += attribute(3, name.encode() + b"\0") + u32(4, 1500)
        body += attribute(1, bytes.fromhex(mac.replace(":", "")))
        if lower:
            body += u32(5, self.indexes[lower])
        if vlan is not None:
            data = attribute(1, struct.pack("=H", vlan))
            body += attribute(18, attribute(1, b"vlan\0") + attribute(2, data))
        self._message(self.RTM_NEWLINK, body)

    def addr(self, name, text):
        interface = ipaddress.ip_interface(text)
        family = socket.AF_INET if interface.version == 4 else socket.AF_INET6
        body = struct.pack("=BBBBI", family, interface.network.prefixlen, 0x80, 0, self.indexes[name])
        body += attribute(1, interface.ip.packed)
        if interface.version == 4:
            body += attribute(2, interface.ip.packed)
        self._message(self.RTM_NEWADDR, body)

    def route(self, name, destination, via=None, source=None, metric=100):
        network = ipaddress.ip_network(destination)
        family = socket.AF_INET if network.version == 4 else socket.AF_INET6
        body = struct.pack("=BBBBBBBBI", family, network.prefixlen, 0, 0, 254, 3, 0, 1, 0)
        if network.prefixlen:
            body += attribute(1, network.network_address.packed)
        body += u32(4, self.indexes[name]) + u32(6, metric)
        if via:
            body += attribute(5, ipaddress.ip_address(via).packed)
        if source:
            body += attribute(7, ipaddress.ip_address(source).packed)
        self._message(self.RTM_NEWROUTE, body)


class Directory:
    """What an agent writes: libmeshverbs/directory/directory.h has the layout. The first host is this one."""

    UP, EXCLUDED, DRAINED = 1, 2, 4
    MAGIC = 0x3130726964766D

    def __init__(self):
        self.hosts, self.rails, self.gids, self.links = [], [], [], []

    AUTHENTICATED, ROUTED = 1, 2
    UNMET, UNANSWERED = 1 << 31, 1 << 30  # in a GID's index

    def host(self, name, agent_version=CTL_VERSION, heard_s=0.5, flags=0):
        self.hosts.append({"name": name, "first": len(self.rails), "n": 0, "version": agent_version, "heard_s": heard_s, "flags": flags})

    def rail(self, device, gids=(), flags=UP, netdev="", link_layer=2, rate=100000, port=1, mtu=4096, lid=0):
        """gids: (index, address/prefix, RoCE version; 0: InfiniBand)"""
        self.hosts[-1]["n"] += 1
        self.rails.append(struct.pack("=64s16sIIIIiHHBBBx", device.encode(), netdev.encode(), len(self.hosts) - 1,
                                      len(self.gids), len(gids), rate, 0, lid, mtu, port, link_layer, flags))
        for index, text, version in gids:
            address, _, length = text.partition("/")
            bits = int(length) + (96 if "." in address else 0) if length else 0
            self.gids.append(struct.pack("=16sIIHBB4x", gid(address), len(self.rails) - 1, index, 0xffff, 1 + version, bits))

    def link(self, local, remote):
        self.links.append((local, remote))

    def image(self, age_s=0.0):
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        hosts = [struct.pack("=16s64sIIIIQ", bytes([i + 1] * 16), host["name"].encode(), host["first"], host["n"],
                             host["version"], host["flags"], max(0, now - int(host["heard_s"] * 1e9)))
                 for i, host in enumerate(self.hosts)]
        order = sorted(range(len(self.gids)), key=lambda i: (self.gids[i][:16], i))
        arrays = [b"".join(part) for part in (
            hosts, self.rails, self.gids, [struct.pack("=I", i) for i in order],
            [struct.pack("=II", *link) for link in sorted(self.links)])]
        at, body = [], b""
        for array in arrays:
            at.append(80 + len(body))
            body += array + bytes(-len(array) % 8)
        return struct.pack("=QIIQIIQ4I5I4x", self.MAGIC, 1, 80 + len(body), max(0, now - int(age_s * 1e9)), 0, 4711, 9,
                           len(hosts), len(self.rails), len(self.gids), len(self.links), *at) + body


ROOT = tempfile.mkdtemp(prefix="meshverbs-tool.")
atexit.register(shutil.rmtree, ROOT, ignore_errors=True)


def ended(number, _):
    """By a time limit: unittest would go on after an exception."""
    shutil.rmtree(ROOT, ignore_errors=True)
    os._exit(128 + number)


signal.signal(signal.SIGTERM, ended)


class Agent:
    """Listens where one would, and gives answers."""

    def __init__(self, directory, answers):
        """answers: {what is asked for: bytes}, or bytes for whatever is asked"""
        self.answers, self.requests = answers, []
        directory.mkdir(exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(directory / "control"))
        self.listener.listen()
        self.server = threading.Thread(target=self.serve, daemon=True)
        self.server.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                request = connection.makefile().readline()
                self.requests.append(request)
                answer = self.answers
                if isinstance(answer, dict):
                    answer = answer.get(json.loads(request).get("get", "do"), b'{"error": "unknown"}')
                try:
                    connection.sendall(answer)
                except OSError:
                    pass

    def close(self):
        # A thread still on its way into accept() would do so at whatever is opened next under the same number,
        # and give this test's answers to another's questions.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.server.join()
        self.listener.close()


class ToolTest(unittest.TestCase):
    """A directory of its own, and the command run on what lies in it."""

    maxDiff = None

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(dir=ROOT))
        self.addCleanup(shutil.rmtree, self.dir)
        # An agent of this machine is none of our business.
        self.env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "MESHVERBS_RUN_DIR": str(self.dir / "run")}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    def run_tool(self, *args, env=None, before=()):
        """Return (exit status, stdout, stderr); paths of the test's directory read as DIR."""
        options = []
        for option, name in (("--sysfs", "sys"), ("--netlink", "netlink"), ("--etc", "etc"), ("--probe", "probe")):
            if (self.dir / name).exists():
                options += [option, str(self.dir / name)]
        done = subprocess.run([TOOL, *options, *before, *args], env={**self.env, **(env or {})}, text=True,
                              capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
        out, err = (text.replace(str(self.dir), "DIR") for text in (done.stdout, done.stderr))
        self.assertNotIn("Sanitizer", err)
        self.assertNotIn("runtime error", err)
        return done.returncode, out, err

    def expect(self, args, status, out, err=""):
        self.assertEqual(self.run_tool(*args), (status, out, err))

    def expect_error(self, args, err, status=2):
        self.assertEqual(self.run_tool(*args), (status, "", err))

    def run_json(self, *args, status=0, **kwargs):
        code, out, err = self.run_tool(*args, "-j", **kwargs)
        self.assertEqual((code, err), (status, ""))
        return json.loads(out)

    def netlink(self, netlink):
        (self.dir / "netlink").write_bytes(netlink.data)

    def directory(self, directory, **kwargs):
        (self.dir / "run").mkdir(exist_ok=True)
        path = self.dir / "run/directory"
        path.write_bytes(directory.image(**kwargs))
        path.chmod(0o644)

    def agent(self, answers, directory="rund"):
        agent = Agent(self.dir / directory, answers)
        self.addCleanup(agent.close)
        self.requests = agent.requests

    def connectx(self):
        """Two ports of one host: eth0 with VLAN 5 on mlx5_0, eth1 on mlx5_1; v1 and v2 of each address."""
        net = Netlink()
        net.link("lo", mac="00:00:00:00:00:00")
        net.link("eth0", mac="02:00:00:00:00:10")
        net.link("eth1", mac="02:00:00:00:00:11")
        net.link("eth0.5", mac="02:00:00:00:00:10", vlan=5, lower="eth0")
        net.done()
        net.addr("lo", "127.0.0.1/8")
        net.addr("eth0", "10.1.0.1/24")
        net.addr("eth0", "fe80::ff:fe00:10/64")
        net.addr("eth1", "10.2.0.1/24")
        net.addr("eth1", "2001:db8:2::1/64")
        net.addr("eth0.5", "10.5.0.1/16")
        net.done()
        net.route("eth0", "0.0.0.0/0", via="10.1.0.254")
        net.route("eth1", "10.20.0.0/16", via="10.2.0.254", source="10.2.0.1")
        net.done()
        self.netlink(net)
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0", pci="0000:03:00.0")
        sysfs.device("mlx5_1", pci="0000:03:00.1")
        sysfs.port("mlx5_0", gids=[
            (0, "fe80::ff:fe00:10", V1, "eth0"), (1, "fe80::ff:fe00:10", V2, "eth0"),
            (2, "10.1.0.1", V1, "eth0"), (3, "10.1.0.1", V2, "eth0"),
            (6, "10.5.0.1", V1, "eth0.5"), (7, "10.5.0.1", V2, "eth0.5")])
        sysfs.port("mlx5_1", gids=[
            (0, "fe80::ff:fe00:11", V1, "eth1"), (1, "fe80::ff:fe00:11", V2, "eth1"),
            (4, "10.2.0.1", V1, "eth1"), (5, "10.2.0.1", V2, "eth1"),
            (10, "2001:db8:2::1", V1, "eth1"), (11, "2001:db8:2::1", V2, "eth1")])
        return sysfs
