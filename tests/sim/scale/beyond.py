# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hosts beyond a router, made up: they answer the queries of one real agent, and query it as often, as real hosts do.

Each rail of each host has a subnet of its own, a /28 or a /31. One thread is the agent's gateway on each of its links,
and all the hosts behind.
"""
import ipaddress
import json
import os
import select
import socket
import struct
import threading
import time
import types

import attacknet
import wire
from launcher import fabric

RAILS_MAX = 8
FILE_MAX = 4096  # MD_FILE_ADDRS_MAX
USER = 65534  # whose process asks for the hosts that have no room in the hosts file
COOKIE = b"m" * 16  # of every host for the agent
GID = struct.Struct("=16sIIHBBI")  # as in wire.Directory, with struct mv_dir_gid.routed_from
SOL_PACKET, PACKET_IGNORE_OUTGOING, SO_RCVBUFFORCE = 263, 23, 33
KIND, GIVEN, MINE = 5, 48, 64  # where they stand in wire.HEADER: the kind, the cookie of the receiver's, that of the sender's
FIRST = int(ipaddress.ip_address("10.128.0.0"))


def gateway(link):
    return f"10.{link}.255.254"


def address(number, rail):
    """Of a rail of a host, and bits of its prefix: hosts with a /28 and hosts with a /31 take turns."""
    return str(ipaddress.ip_address(FIRST + (rail << 20) + (number << 4) + 1)), 96 + (31 if number % 2 else 28)


def place(packed):
    """(Number of the host, rail) of a packed address."""
    value = int.from_bytes(packed, "big") - FIRST
    return (value & 0xfffff) >> 4, value >> 20


def cable(world, reached):
    """A gateway on each link. From each of its rails the agent has routes to the first @reached rails of each host.

    Returns a listener and a forger for each link.
    """
    links, netns, prefix = range(world.rails), world.netns(0), world.netns(0).rpartition("-")[0]
    fabric.batch([f"link add gate{link} address 02:00:00:00:fe:0{link} type veth peer name gp{link}" for link in links] +
                 [f"link set {dev}{link} up" for link in links for dev in ("gate", "gp")] +
                 [f"link set gp{link} master br{link}" for link in links], prefix)
    macs = {link["ifname"]: link["address"] for link in json.loads(attacknet.run("ip", "-j", "-n", netns, "link").stdout)}
    fabric.batch([f"neigh add {gateway(link)} lladdr 02:00:00:00:fe:0{link} dev eth{link} nud permanent" for link in links] +
                 [f"route add 10.{128 + 16 * rail}.0.0/12 via {gateway(link)} dev eth{link} metric {100 + link}"
                  for link in links for rail in range(reached)], netns)
    ports = [(attacknet.Listener(prefix, f"gate{link}"), attacknet.Forger(prefix, f"gate{link}", macs[f"eth{link}"])) for link in links]
    for listener, _ in ports:
        listener.sock.setblocking(False)
        listener.sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        listener.sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
    return ports


class Hosts(threading.Thread):
    """@descriptions: of each host, the payloads of an answer."""

    def __init__(self, ports, descriptions):
        super().__init__(daemon=True)
        self.by_fd = {listener.sock.fileno(): (listener.sock, forger) for listener, forger in ports}
        self.ports, self.count, self.descriptions = ports, len(descriptions), descriptions
        self.asked_at = {}  # by (host, rail): when its address was last queried
        self.longest = 0.0  # time between two queries of an address, since reset()
        self.queries = self.challenges = self.answers = self.counter = 0
        self.running = True

    def reset(self):
        self.longest = 0.0
        self.queries = self.challenges = self.answers = 0

    def send(self, forger, query, kind, payload, about=0):
        """From where a query went to where it came from. Cheap: answers that come late are none. UDP over IPv4 needs no checksum."""
        self.counter += 1
        source, to = query[16:20], query[12:16]
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + wire.HEADER.size + len(payload), 0, 0, 63, 17, 0, source, to)
        total = sum(struct.unpack("!10H", head))
        total = ~((total & 0xffff) + (total >> 16)) & 0xffff
        datagram = wire.HEADER.pack(b"MVDG", 1, kind, 0, about, 0, (place(source)[0] + 1).to_bytes(16, "big"), 1, self.counter,
                                    query[28 + MINE:28 + MINE + 16], COOKIE)
        forger.sock.send(forger.to_mac + forger.mac + b"\x08\0" + head[:10] + total.to_bytes(2, "big") + head[12:] +
                         struct.pack("!HHHH", wire.PORT, wire.PORT, 8 + len(datagram) + len(payload), 0) + datagram + payload)

    def answer(self, forger, query):
        """As a host does that has no cookie of the agent but this one. It queries the agent as often as the agent queries it."""
        if query[28 + GIVEN:28 + GIVEN + 16] != COOKIE:
            self.challenges += 1
            self.send(forger, query, wire.CHALLENGE, b"", wire.QUERY)
            return
        where, now = place(query[16:20]), time.monotonic()
        self.longest = max(self.longest, now - self.asked_at.get(where, now))
        self.asked_at[where] = now
        self.queries += 1
        for payload in self.descriptions[where[0]]:
            self.send(forger, query, wire.ENTRY, payload)
        self.send(forger, query, wire.QUERY, struct.pack("!Q", 1))

    def take(self, sock, forger):
        raw = sock.recv(4096)
        if raw[28:32] != b"MVDG" or raw[0] != 0x45:
            return
        if raw[28 + KIND] == wire.QUERY:
            self.answer(forger, raw)
        elif raw[28 + KIND] == wire.ENTRY:
            self.answers += 1

    def run(self):
        while self.running:
            for fd in select.select(list(self.by_fd), [], [], 0.1)[0]:
                try:
                    while True:
                        self.take(*self.by_fd[fd])
                except BlockingIOError:
                    pass

    def close(self):
        self.running = False
        self.join()
        for port in self.ports:
            for end in port:
                end.close()


class Program:
    """A process of a user that asks for hosts. It stays, so that the agent goes on querying them."""

    def __init__(self, run_dir):
        attacknet.wait_for((run_dir / "directory").exists, "the agent writes no directory")
        os.seteuid(USER)
        try:
            self.process = attacknet.Process(types.SimpleNamespace(run_dir=run_dir))
        finally:
            os.seteuid(0)

    def look(self, gid):
        self.process.sock.send(wire.frame(wire.LOOK, dgid=gid))

    def close(self):
        self.process.close()


def hosts_in(world):
    """Hosts that have answered. The directory has those of the hosts file from the start."""
    agent = types.SimpleNamespace(control_dir=world.dir / "run0d")
    try:
        return next(int(line.split()[1]) for line in attacknet.Agent.request(agent, {"get": "openmetrics"}).splitlines()
                    if line.startswith("meshverbs_hosts "))
    except OSError:
        return 0


def gids_in(world):
    """{address: (name of the host, number of its rail, mask of the agent's rails with a route to it)}, of IPv4 and RoCE v2."""
    raw = (world.dir / "run0/directory").read_bytes()
    head = wire.Directory.HEAD.unpack_from(raw)
    n_hosts, n_rails, n_gids, _, hosts_at, rails_at, gids_at = head[7:14]
    hosts = [row[1].rstrip(b"\0").decode() for row in wire.Directory.HOST.iter_unpack(raw[hosts_at:hosts_at + n_hosts * wire.Directory.HOST.size])]
    rails = [(row[2], row[3]) for row in wire.Directory.RAIL.iter_unpack(raw[rails_at:rails_at + n_rails * wire.Directory.RAIL.size])]
    first = {}
    for index, (host, _) in enumerate(rails):
        first.setdefault(host, index)
    return {gid[12:]: (hosts[rails[rail][0]], rail - first[rails[rail][0]], routed)
            for gid, rail, _, _, kind, _, routed in GID.iter_unpack(raw[gids_at:gids_at + n_gids * GID.size])
            if kind == wire.ROCE_V2 and gid[:12] == bytes(10) + b"\xff\xff" and rails[rail][0]}


def is_routed(world):
    """How many addresses of rails beyond the router are in the directory with routes to them."""
    return sum(1 for _, _, routed in gids_in(world).values() if routed)


def wrong(world, hosts, rails, reached):
    """What the directory, and the queries, lack: every rail of every host, and routes to those that are reached only."""
    gids, found = gids_in(world), []
    for number in range(hosts.count):
        for rail in range(rails):
            text = address(number, rail)[0]
            expected = (f"h{number}", rail, (1 << world.rails) - 1 if rail < reached else 0)
            got = gids.get(socket.inet_aton(text))
            if got != expected:
                found.append(f"{text} is {got}, not {expected}")
            if ((number, rail) in hosts.asked_at) != (rail < reached):
                found.append(f"{text} is queried, and no route leads there" if rail >= reached else f"{text} is not queried")
    return found
