#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Topology files: which hosts there are, their NICs, addresses, cables and switches.

The lab (virtual machines, Soft-RoCE) and the simulator (network namespaces, mlx5) read the same
files.  One statement per line, "#" starts a comment, a name is declared before it is used:

    host NAME
    nic HOST INDEX [ADDR/PREFIX ...]        netdev eth<INDEX>, IPv4 or IPv6
    vlan HOST INDEX VID [ADDR/PREFIX ...]   netdev eth<INDEX>.<VID>
    cable NAME HOST.INDEX HOST.INDEX        point to point
    switch NAME HOST.INDEX [HOST.INDEX ...] one Ethernet segment
    mtu BYTES                               of every netdev, default 4200
    port HOST INDEX KEY=VALUE ...           for the simulator, e.g. link_layer=infiniband
    pci HOST INDEX BDF                      for the simulator, e.g. 0000:17:00.0
    router HOST                             for the simulator: forwards IP packets; no agent runs there
    route HOST INDEX PREFIX GATEWAY         for the simulator: out of that NIC

A NIC in no cable or switch is not cabled: it has no carrier.

As a command: topo.py FILE prints the parsed topology as JSON, or FILE:LINE: what is wrong.
"""
import dataclasses
import ipaddress
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
DEFAULT_MTU = 4200  # the smallest round figure that leaves room for an RDMA MTU of 4096
MIN_MTU, MAX_MTU = 1280, 9200  # IPv6's minimum; what Ethernet NICs take as jumbo frames
MAX_INDEX = 63
HOST_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")  # a host name, and a part of /etc/hosts aliases
LINK_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")  # no dot: HOST.INDEX names a port
PORT = re.compile(r"([^.]+)\.(\d+)")
BDF = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
KEY_VALUE = re.compile(r"([a-z][a-z0-9_]*)=(\S+)")


class TopoError(Exception):
    """A topology that cannot be used; str() is one line, FILE:LINE: included where known."""


@dataclasses.dataclass
class Nic:
    """One NIC with one port.  link is None while nothing is plugged in."""
    host: str
    index: int
    mac: str
    addrs: list = dataclasses.field(default_factory=list)  # ipaddress interfaces, in file order
    vlans: dict = dataclasses.field(default_factory=dict)  # VLAN id: its ipaddress interfaces
    options: dict = dataclasses.field(default_factory=dict)  # of the `port` lines
    pci: str = None
    link: str = None

    @property
    def port(self):
        return f"{self.host}.{self.index}"

    @property
    def netdev(self):
        return f"eth{self.index}"


@dataclasses.dataclass
class Host:
    name: str
    number: int  # 1 for the file's first host, 2 for the next
    router: bool = False
    routes: list = dataclasses.field(default_factory=list)  # (NIC index, network, gateway), in file order
    nics: dict = dataclasses.field(default_factory=dict)  # index: Nic


@dataclasses.dataclass
class Link:
    name: str
    kind: str  # "cable" or "switch"
    ports: list  # of Nic


@dataclasses.dataclass
class Topo:
    path: str
    hosts: dict = dataclasses.field(default_factory=dict)  # name: Host, in file order
    links: dict = dataclasses.field(default_factory=dict)  # name: Link, in file order
    mtu: int = DEFAULT_MTU

    def nics(self):
        """Every Nic of every host, in file order."""
        return [nic for host in self.hosts.values() for nic in host.nics.values()]

    def nic(self, port):
        """The Nic that HOST.INDEX names; TopoError if there is none."""
        match = PORT.fullmatch(port)
        host = self.hosts.get(match[1]) if match else None
        if not host or int(match[2]) not in host.nics:
            known = " ".join(nic.port for nic in self.nics())
            raise TopoError(f"no NIC '{port}' in {self.path}; it has: {known or 'none'}")
        return host.nics[int(match[2])]

    def neighbours(self, nic):
        """The other Nics on the same cable or switch; empty for one that is not cabled."""
        return [n for n in self.links[nic.link].ports if n is not nic] if nic.link else []


def mac(host_number, index):
    """The same MAC address in the lab and in the simulator, so that fixed neighbour entries fit both."""
    return f"02:6d:76:{host_number >> 8:02x}:{host_number & 255:02x}:{index:02x}"


class Parser:
    def __init__(self, path):
        self.topo = Topo(str(path))
        self.where = str(path)
        self.mtu_seen = False
        self.taken = {}  # (segment or None, VLAN id, address): port, filled after the last line

    def fail(self, text):
        raise TopoError(f"{self.where}: {text}")

    def parse(self, text):
        for number, line in enumerate(text.splitlines(), 1):
            self.where = f"{self.topo.path}:{number}"
            words = line.split("#", 1)[0].split()
            if words:
                self.statement(*words)
        self.where = self.topo.path
        self.check()
        return self.topo

    def statement(self, verb, *args):
        usage = STATEMENTS.get(verb)
        if not usage:
            self.fail(f"unknown statement '{verb}'; known: {' '.join(STATEMENTS)}")
        least, most, form = usage
        if len(args) < least or (most is not None and len(args) > most):
            self.fail(f"'{verb}' has {len(args)} arguments; write: {verb} {form}")
        getattr(self, "do_" + verb)(*args)

    def do_host(self, name):
        if not HOST_NAME.fullmatch(name):
            self.fail(f"bad host name '{name}'; use a-z, 0-9 and '-', a letter first, at most 31")
        if name == "all":
            self.fail("a host cannot be named 'all': that word stands for every host")
        if name in self.topo.hosts:
            self.fail(f"host '{name}' is declared twice")
        self.topo.hosts[name] = Host(name, len(self.topo.hosts) + 1)

    def do_nic(self, host, index, *addrs):
        owner = self.host(host)
        number = self.number(index, "NIC index", 0, MAX_INDEX)
        if number in owner.nics:
            self.fail(f"NIC {host}.{number} is declared twice; give all its addresses on one line")
        nic = Nic(host, number, mac(owner.number, number))
        nic.addrs = self.addresses(addrs)
        owner.nics[number] = nic

    def do_vlan(self, host, index, vid, *addrs):
        nic = self.known_nic(host, index)
        number = self.number(vid, "VLAN id", 1, 4094)
        if number in nic.vlans:
            self.fail(f"VLAN {number} of {nic.port} is declared twice; give all its addresses on one line")
        nic.vlans[number] = self.addresses(addrs)

    def do_cable(self, name, *ports):
        self.link(name, "cable", ports)

    def do_switch(self, name, *ports):
        self.link(name, "switch", ports)

    def do_mtu(self, size):
        if self.mtu_seen:
            self.fail("'mtu' is given twice; it holds for the whole file")
        self.mtu_seen = True
        self.topo.mtu = self.number(size, "MTU", MIN_MTU, MAX_MTU)

    def do_port(self, host, index, *settings):
        nic = self.known_nic(host, index)
        for setting in settings:
            match = KEY_VALUE.fullmatch(setting)
            if not match:
                self.fail(f"bad setting '{setting}'; write KEY=VALUE, e.g. link_layer=infiniband")
            if match[1] in nic.options:
                self.fail(f"'{match[1]}' of {nic.port} is set twice")
            nic.options[match[1]] = match[2]

    def do_pci(self, host, index, bdf):
        nic = self.known_nic(host, index)
        if not BDF.fullmatch(bdf):
            self.fail(f"bad PCI address '{bdf}'; write DOMAIN:BUS:DEVICE.FUNCTION, e.g. 0000:17:00.0")
        if nic.pci:
            self.fail(f"{nic.port} has PCI address {nic.pci} already")
        other = next((n for n in self.topo.hosts[host].nics.values() if n.pci == bdf), None)
        if other:
            self.fail(f"PCI address {bdf} belongs to {other.port} already")
        nic.pci = bdf

    def do_router(self, name):
        self.host(name).router = True

    def do_route(self, host, index, prefix, gateway):
        nic = self.known_nic(host, index)
        try:
            net, hop = ipaddress.ip_network(prefix), ipaddress.ip_address(gateway)
        except ValueError as err:
            self.fail(f"bad route '{prefix} {gateway}': {err}")
        if not any(hop in addr.network for addr in nic.addrs):
            self.fail(f"gateway {hop} is in no network of {nic.port}")
        if net.version != hop.version:
            self.fail(f"'{prefix}' and gateway '{gateway}' are of two address families")
        self.topo.hosts[host].routes.append((nic.index, net, hop))

    def host(self, name):
        if name not in self.topo.hosts:
            self.fail(f"unknown host '{name}'; put 'host {name}' above this line")
        return self.topo.hosts[name]

    def known_nic(self, host, index):
        owner = self.host(host)
        number = self.number(index, "NIC index", 0, MAX_INDEX)
        if number not in owner.nics:
            self.fail(f"unknown NIC {host}.{number}; put 'nic {host} {number}' above this line")
        return owner.nics[number]

    def number(self, text, what, low, high):
        if not re.fullmatch(r"[0-9]{1,6}", text) or not low <= int(text) <= high:
            self.fail(f"bad {what} '{text}'; it is a number from {low} to {high}")
        return int(text)

    def addresses(self, texts):
        addrs = []
        for text in texts:
            addr = self.address(text)
            if addr.ip in [a.ip for a in addrs]:
                self.fail(f"address {addr.ip} is given twice")
            addrs.append(addr)
        return addrs

    def address(self, text):
        if "/" not in text:
            self.fail(f"address '{text}' has no prefix length; write it as {text}/24")
        try:
            addr = ipaddress.ip_interface(text)
        except ValueError as err:
            self.fail(f"bad address '{text}': {err}")
        ip, net = addr.ip, addr.network
        if ip.is_multicast or ip.is_unspecified or ip.is_loopback:
            self.fail(f"address '{text}' cannot be given to a NIC")
        if ip.version == 4 and net.prefixlen < 31 and ip in (net.network_address, net.broadcast_address):
            self.fail(f"'{text}' is the network or broadcast address of {net}, not a host's")
        return addr

    def link(self, name, kind, ports):
        if not LINK_NAME.fullmatch(name):
            self.fail(f"bad {kind} name '{name}'; use a-z, 0-9, '_' and '-', a letter first, at most 31")
        if name in self.topo.links:
            self.fail(f"link '{name}' is declared twice")
        nics = []
        for port in ports:
            match = PORT.fullmatch(port)
            if not match:
                self.fail(f"bad port '{port}'; write HOST.INDEX, e.g. a.0")
            nic = self.known_nic(match[1], match[2])
            if nic.link:
                self.fail(f"port {nic.port} is in '{nic.link}' already")
            nic.link = name
            nics.append(nic)
        self.topo.links[name] = Link(name, kind, nics)

    def check(self):
        """What can only be seen when the whole file is known."""
        if not self.topo.hosts:
            self.fail("no host in this file")
        for nic in self.topo.nics():
            for vid, addrs in [(0, nic.addrs), *nic.vlans.items()]:
                for addr in addrs:
                    self.check_address(nic, vid, addr)
            alias = f"{nic.host}-{nic.link}"
            if nic.link and alias in self.topo.hosts:
                self.fail(f"host '{alias}' has the name that stands for {nic.host} on link '{nic.link}'")

    def check_address(self, nic, vid, addr):
        key = (nic.link or nic.port, vid, addr.ip)
        if key in self.taken:
            self.fail(f"address {addr.ip} is on {self.taken[key]} and on {nic.port}, same segment")
        self.taken[key] = nic.port


STATEMENTS = {  # verb: least and most arguments, usage
    "host": (1, 1, "NAME"),
    "nic": (2, None, "HOST INDEX [ADDR/PREFIX ...]"),
    "vlan": (3, None, "HOST INDEX VID [ADDR/PREFIX ...]"),
    "cable": (3, 3, "NAME HOST.INDEX HOST.INDEX"),
    "switch": (2, None, "NAME HOST.INDEX [HOST.INDEX ...]"),
    "mtu": (1, 1, "BYTES"),
    "port": (3, None, "HOST INDEX KEY=VALUE ..."),
    "pci": (3, 3, "HOST INDEX BDF"),
    "router": (1, 1, "HOST"),
    "route": (4, 4, "HOST INDEX PREFIX GATEWAY"),
}


def parse(text, path="topology"):
    """The Topo described by text; path is used in errors only."""
    return Parser(path).parse(text)


def find(name):
    """Path of the topology: a file as given, else NAME.topo beside this module."""
    path = pathlib.Path(name)
    if path.is_file():
        return path
    shipped = HERE / f"{name}.topo"
    if "/" not in name and shipped.is_file():
        return shipped
    known = " ".join(sorted(p.stem for p in HERE.glob("*.topo")))
    raise TopoError(f"no topology file '{name}'; give a file, or one of: {known}")


def load(name):
    """The Topo of a file, or of a shipped topology named without '.topo'."""
    path = find(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise TopoError(f"{path}: cannot be read: {err}") from None
    return parse(text, path)


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    try:
        topo = load(sys.argv[1])
    except TopoError as err:
        sys.exit(f"topo: {err}")
    print(json.dumps(dataclasses.asdict(topo), indent=2, default=str))


if __name__ == "__main__":
    main()
