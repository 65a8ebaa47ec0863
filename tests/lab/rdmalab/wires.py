# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the guests' NICs are plugged into: QEMU network backends, all of them private to this lab.

Two ports on one link: a pair of connected UDP sockets on the loopback.  More: a multicast group on
the loopback (a sender gets its own frames back there; NICs filter unicast ones).  --tap: a tap device.
Not cabled: a hub with nothing else on it, and its carrier taken away before the guest starts.
"""
import os
import secrets
import socket

from . import tap

RECEIVE_BYTES = 4 << 20  # a guest that the emulator starves for a moment must not lose frames for it
MGMT = "mgmt"


class Wires:
    """Backends by port; descriptors stay open until close(), which comes after QEMU inherited them."""

    def __init__(self):
        self.netdevs = {}  # port: text for -netdev, less the id
        self.fds = {}  # port: descriptors QEMU needs for it

    def plug(self, topo, guests, taps):
        """Wire every NIC of the named hosts, and their management network."""
        for port, (netns, ifname) in taps.items():
            self.add_fd(port, "tap,fd=", tap.create(netns, ifname, topo.mtu))
        segments = {name: [nic.port for nic in link.ports] for name, link in topo.links.items()}
        segments[MGMT] = [f"{host}.{MGMT}" for host in topo.hosts]
        for ports in segments.values():
            self.join([p for p in ports if p.split(".")[0] in guests and p not in taps])
        for number, nic in enumerate(topo.nics()):
            if not nic.link and nic.port not in taps:
                self.netdevs[nic.port] = f"hubport,hubid={number}"

    def join(self, ports):
        if len(ports) == 2:
            for port, sock in zip(ports, socket_pair()):
                self.add_fd(port, "dgram,local.type=fd,local.str=", sock.detach())
        elif ports:
            group = multicast_group()
            for port in ports:
                self.netdevs[port] = f"socket,mcast={group},localaddr=127.0.0.1"

    def add_fd(self, port, text, fd):
        self.netdevs[port] = f"{text}{fd}"
        self.fds[port] = fd

    def close(self):
        while self.fds:
            os.close(self.fds.popitem()[1])


def socket_pair():
    ends = [udp_socket() for _ in range(2)]
    for end, other in (ends, reversed(ends)):
        end.connect(other.getsockname())
    return ends


def udp_socket():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), RECEIVE_BYTES)
    sock.bind(("127.0.0.1", 0))
    return sock


def multicast_group():
    """A group of the organisation-local range and a free port: 45 random bits, so labs do not meet."""
    with udp_socket() as sock:
        port = sock.getsockname()[1]
    return "239." + ".".join(str(1 + b % 254) for b in secrets.token_bytes(3)) + f":{port}"
