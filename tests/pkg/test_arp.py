#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs-arp in network namespaces of the test's own: what it sets, what it leaves alone, when, and that ARP then works.

    test_arp.py REPO/udev/meshverbs-arp RULES
"""
import contextlib
import fnmatch
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ARP = str(pathlib.Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 else ""
RULES = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
KEYS = ("arp_announce", "arp_ignore")
SECONDS = 60


def sh(*argv):
    return subprocess.run(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout


class Namespace:
    """Its netdevs are real; what /sys says of RDMA devices and netdevs is below root."""

    def __init__(self, name):
        self.name = f"arp{os.getpid()}{name}"
        self.root = pathlib.Path(tempfile.mkdtemp())
        sh("ip", "netns", "add", self.name)
        self.run("sysctl", "-qw", "net.ipv4.conf.default.rp_filter=0", "net.ipv4.conf.all.rp_filter=0",
                 *(f"net.ipv4.conf.{where}.{key}=0" for where in ("all", "default") for key in KEYS))
        (self.root / "sys/class/infiniband").mkdir(parents=True)

    def close(self):
        sh("ip", "netns", "del", self.name)
        shutil.rmtree(self.root)

    def run(self, *argv):
        return sh("ip", "netns", "exec", self.name, *argv)

    def netdev(self, name, index, lower=None, device=None, kind="1"):
        path = self.root / "sys/class/net" / name
        path.mkdir(parents=True)
        (path / "type").write_text(f"{kind}\n")
        (path / "ifindex").write_text(f"{index}\n")
        if lower:
            (path / f"lower_{lower}").symlink_to(f"../{lower}")
            (path.parent / lower / f"upper_{name}").symlink_to(f"../{name}")
        if device:
            (path / "device").symlink_to(device)

    def plain(self, name, index, **kwargs):
        self.run("ip", "link", "add", name, "type", "bridge")  # the plainest netdev that every kernel has
        self.netdev(name, index, **kwargs)

    def rdma(self, name, netdev, link_layer="Ethernet", by="pci"):
        """An RDMA device; how its netdev is found: function it shares, software device's parent, owner of GIDs."""
        path = self.root / "sys/class/infiniband" / name
        (path / "ports/1/gid_attrs/ndevs").mkdir(parents=True)
        (path / "ports/1/link_layer").write_text(f"{link_layer}\n")
        if by == "pci":
            (path / f"device/net/{netdev}").mkdir(parents=True)
        elif by == "parent":
            (path / "parent").write_text(f"{netdev}\n")
        else:
            (path / "ports/1/gid_attrs/ndevs/0").write_text(f"{netdev}\n")

    def sysctl_d(self, text, folder="etc/sysctl.d"):
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / folder / "50-admin.conf").write_text(text)

    def arp(self, *words):
        return self.run(ARP, "--root", str(self.root), *words)

    def event(self, **event):
        """What udev does with the rules: each == and != as a pattern, and what RUN then names."""
        event.setdefault("SUBSYSTEM", "net")
        event.setdefault("KERNEL", event.get("INTERFACE", ""))
        ran = 0
        for line in (line for line in RULES.read_text().splitlines() if not line.startswith("#")):
            rule = re.findall(r'(\w+)(?:\{(\w+)\})?(==|!=|\+=)"(.*?)"', line)
            if all(self.matches(event, *token) for token in rule if token[2] != "+="):
                for words in (token[3].split() for token in rule if token[0] == "RUN"):
                    named = {"$name": event["KERNEL"], "$env{IFINDEX}": str(event.get("IFINDEX"))}
                    self.arp(*(named.get(word, word) for word in words[1:]))
                    ran += 1
        return ran

    def matches(self, event, key, attribute, operator, pattern):
        if key == "TEST":
            return (self.root / pattern[1:]).exists()
        value = event.get(attribute if key == "ENV" else key, "")
        return any(fnmatch.fnmatchcase(value, one) for one in pattern.split("|")) == (operator == "==")

    def values(self, netdev):
        return tuple(int(self.run("cat", f"/proc/sys/net/ipv4/conf/{netdev}/{key}")) for key in KEYS)

    def set(self, netdev, key, value):
        self.run("sysctl", "-qw", f"net.ipv4.conf.{netdev.replace('.', '/')}.{key}={value}")


class Settings(unittest.TestCase):
    def setUp(self):
        self.host = Namespace("s")
        self.addCleanup(self.host.close)
        for number in (0, 1):
            self.host.plain(f"eth{number}", 10 + number, device="../pci")
            self.host.rdma(f"mlx5_{number}", f"eth{number}")

    def test_two_ports(self):
        self.host.plain("mgmt0", 20, device="../pci")
        self.host.arp("apply")
        self.assertEqual([self.host.values(n) for n in ("eth0", "eth1", "mgmt0")], [(2, 1), (2, 1), (0, 0)])

    def test_a_port_alone_needs_nothing(self):
        shutil.rmtree(self.host.root / "sys/class/infiniband/mlx5_1")
        self.host.arp("apply")
        self.assertEqual(self.host.values("eth0"), (0, 0))

    def test_ways_to_the_netdev(self):
        for number, by in ((2, "parent"), (3, "gid")):
            self.host.plain(f"eth{number}", 30 + number)
            self.host.rdma(f"rxe{number}", f"eth{number}", by=by)
        self.host.arp("apply")
        self.assertEqual([self.host.values(f"eth{n}") for n in range(4)], [(2, 1)] * 4)

    def test_infiniband_is_not_meant(self):
        self.host.plain("ib0", 40, kind="32")
        self.host.rdma("mlx5_4", "ib0")
        self.host.plain("ib1", 41)
        self.host.rdma("mlx5_5", "ib1", link_layer="InfiniBand")
        self.host.arp("apply")
        self.assertEqual([self.host.values(n) for n in ("ib0", "ib1")], [(0, 0)] * 2)

    def test_vlans(self):
        self.host.plain("eth0.100", 50, lower="eth0")
        self.host.plain("vlan7", 51, lower="eth0.100")  # one in another
        self.host.arp("apply")
        self.assertEqual([self.host.values(n) for n in ("eth0.100", "vlan7")], [(2, 1)] * 2)

    def test_a_vlan_is_no_second_port(self):
        shutil.rmtree(self.host.root / "sys/class/infiniband/mlx5_1")
        self.host.plain("eth0.100", 50, lower="eth0")
        self.host.arp("apply")
        self.assertEqual(self.host.values("eth0.100"), (0, 0))

    def test_event_of_another_netdev(self):
        self.host.plain("veth9", 60)
        self.host.arp("apply", "veth9")
        self.assertEqual(self.host.values("eth0"), (0, 0))  # not looked at: hosts have thousands of these
        self.host.arp("apply", "eth1")
        self.assertEqual(self.host.values("eth0"), (2, 1))

    def test_renamed(self):
        self.host.arp("apply")
        self.host.set("eth0", "arp_ignore", 0)  # somebody's wish, which a change of the name leaves alone
        self.host.run("ip", "link", "set", "eth0", "name", "rail0")
        (self.host.root / "sys/class/net/eth0").rename(self.host.root / "sys/class/net/rail0")
        shutil.rmtree(self.host.root / "sys/class/infiniband/mlx5_0")
        self.host.rdma("mlx5_0", "rail0")
        self.assertEqual(self.host.event(ACTION="move", INTERFACE="rail0", IFINDEX="10"), 1)
        self.assertEqual(self.host.values("rail0"), (2, 0))

    def test_coldplug(self):
        """udevadm trigger: the netdev was there all the time. What was set is known, and somebody's 0 stays."""
        for _ in range(2):
            for number in (0, 1):
                self.assertEqual(self.host.event(ACTION="add", INTERFACE=f"eth{number}", IFINDEX=f"{10 + number}", SYNTH_UUID="0"), 1)
            self.host.event(ACTION="add", SUBSYSTEM="infiniband", KERNEL="mlx5_0", SYNTH_UUID="0")
            self.host.event(ACTION="remove", INTERFACE="eth1", IFINDEX="11", SYNTH_UUID="0")
            self.host.set("eth0", "arp_ignore", 0)
        self.assertEqual([self.host.values(n) for n in ("eth0", "eth1")], [(2, 0), (2, 1)])
        self.host.arp("restore")
        self.assertEqual([self.host.values(n) for n in ("eth0", "eth1")], [(0, 0), (0, 0)])

    def test_comes_anew(self):
        """It was in another network namespace for a time, or it is another with its index: its settings are the kernel's again."""
        self.host.arp("apply")
        self.assertEqual(self.host.event(ACTION="remove", INTERFACE="eth0", IFINDEX="10"), 1)
        for key in KEYS:
            self.host.set("eth0", key, 0)
        self.assertEqual(self.host.event(ACTION="add", INTERFACE="eth0", IFINDEX="10"), 1)
        self.assertEqual(self.host.values("eth0"), (2, 1))
        self.host.set("eth1", "arp_ignore", 0)
        self.host.event(ACTION="remove", INTERFACE="eth0", IFINDEX="10")
        self.assertEqual(self.host.event(ACTION="add", INTERFACE="eth1", IFINDEX="11"), 1)
        self.assertEqual(self.host.values("eth1"), (2, 0))  # not the one that went

    def test_one_goes_where_nothing_was_set(self):
        self.assertEqual(self.host.event(ACTION="remove", INTERFACE="veth9", IFINDEX="60"), 0)  # no shell for each container's

    def test_set_otherwise(self):
        cases = {
            "value": lambda: self.host.set("eth0", "arp_ignore", 2),
            "all": lambda: self.host.set("all", "arp_ignore", 1),
        }
        for name, change in cases.items():
            with self.subTest(name):
                change()
                before = self.host.values("eth0")[1]
                self.host.arp("apply")
                self.assertEqual(self.host.values("eth0"), (2, before))
                for netdev in ("eth0", "eth1"):
                    for key in KEYS:
                        self.host.set(netdev, key, 0)
                self.host.set("all", "arp_ignore", 0)
                shutil.rmtree(self.host.root / "run")

    def test_set_in_files(self):
        lines = {
            "net.ipv4.conf.eth0.arp_ignore = 0\n": {"eth0"},
            "  -net.ipv4.conf.eth*.arp_ignore=0": {"eth0", "eth1", "eth1.5"},  # no newline at the end
            "net/ipv4/conf/eth1.5/arp_ignore=0\n": {"eth1.5"},
            "net.ipv4.conf.eth1/5.arp_ignore\t=\t0\n": {"eth1.5"},
            "net.ipv4.conf.default.arp_ignore=0\n": {"eth0", "eth1", "eth1.5"},
            "net.ipv4.conf.all.arp_ignore=0\n": {"eth0", "eth1", "eth1.5"},
            "#net.ipv4.conf.eth0.arp_ignore=0\n; net.ipv4.conf.eth0.arp_ignore=0\n": set(),
            "net.ipv4.conf.eth0.rp_filter=2\nnet.ipv4.conf.eth0.arp_ignore_not=1\n": set(),
        }
        self.host.plain("eth1.5", 70, lower="eth1")
        for folder, texts in (("etc/sysctl.d", lines), ("run/sysctl.d", [*lines][:1]), ("usr/lib/sysctl.d", [*lines][:1])):
            for text, chosen in ((text, lines[text]) for text in texts):
                with self.subTest(folder=folder, text=text):
                    self.host.sysctl_d(text, folder)
                    self.host.arp("apply")
                    for netdev in ("eth0", "eth1", "eth1.5"):
                        self.assertEqual(self.host.values(netdev), (2, 0 if netdev in chosen else 1), netdev)
                        if chosen == {netdev}:
                            self.assertIn(f"{netdev} arp_ignore=0 (left alone: in sysctl's files)", self.host.arp("show"))
                    self.host.arp("restore")
            shutil.rmtree(self.host.root / folder)

    def test_restore(self):
        self.host.set("eth1", "arp_announce", 1)
        self.host.arp("apply")
        self.host.set("eth0", "arp_ignore", 3)
        self.host.arp("restore")
        self.assertEqual([self.host.values(n) for n in ("eth0", "eth1")], [(0, 3), (1, 0)])
        self.assertFalse((self.host.root / "run/meshverbs-arp").exists())

    def test_usage(self):
        for words in ([], ["appply"], ["apply", "a", "b"], ["restore", "a"], ["--root"], ["forget"], ["forget", "eth0"]):
            done = subprocess.run([ARP, *words], stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((done.returncode, "usage:" in done.stderr), (2, True), words)


class Wire(unittest.TestCase):
    """One host with two ports in one subnet, and a peer on the same switch."""

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.peer, self.host, self.switch = (self.enter(Namespace(name)) for name in "phw")
        self.switch.run("ip", "link", "add", "br0", "type", "bridge")
        self.switch.run("ip", "link", "set", "br0", "up")
        self.plug(self.peer, "eth0", "10.99.0.1")
        for number in (0, 1):
            self.plug(self.host, f"eth{number}", f"10.99.0.{number + 2}")
            self.host.netdev(f"eth{number}", number + 10, device="../pci")
            self.host.rdma(f"mlx5_{number}", f"eth{number}")
        self.macs = {self.host.run("cat", f"/sys/class/net/eth{n}/address").strip(): f"eth{n}" for n in (0, 1)}

    def enter(self, namespace):
        self.stack.callback(namespace.close)
        return namespace

    def plug(self, host, name, address):
        port = f"{host.name[-1]}{name}"
        sh("ip", "link", "add", name, "netns", host.name, "type", "veth", "peer", "name", port, "netns", self.switch.name)
        self.switch.run("ip", "link", "set", port, "master", "br0", "up")
        host.run("ip", "addr", "add", f"{address}/24", "dev", name)
        host.run("ip", "link", "set", name, "up")

    def learnt(self, number):
        """Whose MAC the peer has for the address of eth<number>; "" if nobody answers."""
        address = f"10.99.0.{number + 2}"
        self.peer.run("ip", "neigh", "flush", "all")
        # Once: a second datagram makes the kernel ask again, and FAILED is over before anybody looks.
        self.peer.run("bash", "-c", f"echo x >/dev/udp/{address}/9")
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            said = self.peer.run("ip", "neigh", "show", address).split()
            if "lladdr" in said:
                return self.macs[said[said.index("lladdr") + 1]]
            if "FAILED" in said:
                return ""
            time.sleep(0.05)
        self.fail(f"{address}: neither a MAC nor FAILED within {SECONDS} s: {said}")

    def test_each_answers_for_itself(self):
        self.host.arp("apply")
        for _ in range(5):
            self.assertEqual([self.learnt(0), self.learnt(1)], ["eth0", "eth1"])

    def test_filters_would_silence_the_second(self):
        """Why arp_filter and rp_filter are not among the settings."""
        self.host.arp("apply")
        for key in ("arp_filter", "rp_filter"):
            with self.subTest(key):
                for netdev in ("eth0", "eth1"):
                    self.host.set(netdev, key, 1)
                self.assertEqual([self.learnt(0), self.learnt(1)], ["eth0", ""])
                for netdev in ("eth0", "eth1"):
                    self.host.set(netdev, key, 0)
                self.assertEqual(self.learnt(1), "eth1")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        sys.exit(77)
    socket.setdefaulttimeout(SECONDS)
    unittest.main()
