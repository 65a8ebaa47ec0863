# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Indexes that went stale while a program held them: after addresses were removed and added, and after flaps."""
from .case import Case, moved
from .programs import A, A6, B, B6, VLAN_A, VLAN_B, pingpong
from .world import at

VLAN_BOTH = {"a": [f"vlan {VLAN_A}/24", at(2, VLAN_A)], "b": [f"vlan {VLAN_B}/24", at(2, VLAN_B)]}


def to_slot_2(own, taken_by, settle=()):
    """Shell lines: slot 1 is taken by something else before the own address comes back in slot 2."""
    return [f"del {own}/24", *taken_by, f"add {own}/24", at(2, own), *settle]


def empty(own):
    return to_slot_2(own, ["add 10.5.0.9/24", at(1, "10.5.0.9")], ["del 10.5.0.9/24", "free 1"])


def other_subnet(own):
    return to_slot_2(own, ["add 10.5.0.9/24", at(1, "10.5.0.9")])


def ipv6(own):
    return to_slot_2(own, ["add fd00:5::9/64", at(1, "fd00:5::9")])


def vlan(own):
    """The VLAN netdev's link-local address comes along, to slot 2."""
    return [f"del {own}/24", "vlan 10.9.0.9/24", at(1, "10.9.0.9"), "taken 2", f"add {own}/24", at(3, own)]


def other_namespace(own):
    """A VLAN netdev that lives in another network namespace takes slots 1 and 2."""
    return [f"del {own}/24", "free 1", "foreign_vlan 10.9.0.9/24", at(1, "10.9.0.9"), "taken 2", f"add {own}/24", at(3, own)]


def readded(own):
    """The address comes back at its own index."""
    return [f"del {own}/24", "free 1", "add 10.5.0.9/24", at(1, "10.5.0.9"), "del 10.5.0.9/24", f"add {own}/24", at(1, own)]


def flap(own, other):
    """The link goes down, which takes IPv6 addresses away; an IPv4 address is faster than the one that comes back.

    Until neighbours have found each other again, rxe fails with the right index too.
    """
    return ["ip link set eth0 down", "free 2", "ip link set eth0 up", "add 10.5.0.9/24", at(2, "10.5.0.9"),
            f"add {own}/64", at(3, own),
            f"ping -q -c 1 -w 15 {other}"]


def server_moved(kind, name, move, verdict, new=2, **more):
    return Case(f"{kind}: server's slot {name}", **pingpong(kind), move={"b": move(B)},
                log={"b": moved(A, 1, verdict, new, B)}, **more)


def cases():
    explain = {"explain": {"b": f"--index 1 --seen {B} --to {A}"}}
    yield server_moved("rc", "left empty", empty, "empty", **explain)
    yield server_moved("rc", "taken by an IPv6 address", ipv6, "family", **explain)
    yield server_moved("rc", "taken by a VLAN", vlan, "unroutable", 3)
    yield server_moved("rc", "taken by another namespace", other_namespace, "no-netdev", 3)
    yield server_moved("uc", "left empty", empty, "empty")
    yield server_moved("srq", "left empty", empty, "empty")
    yield server_moved("ud", "left empty", empty, "empty")
    yield server_moved("ud", "taken by an IPv6 address", ipv6, "family")

    both6 = {"a": [f"add {A6}/64", at(2, A6)], "b": [f"add {B6}/64", at(2, B6)]}
    yield Case("rc: IPv6 address moved by a link flap", **pingpong("rc", 2), setup=both6, move={"b": flap(B6, A6)},
               log={"b": moved(A6, 2, "family", 3, B6)})

    yield Case("rc: client's slot left empty", **pingpong("rc"), move={"a": empty(A)}, log={"a": moved(B, 1, "empty", 2, A)})
    yield Case("rc: both sides moved", **pingpong("rc"), move={"a": empty(A), "b": ipv6(B)},
               log={"a": moved(B, 1, "empty", 2, A), "b": moved(A, 1, "family", 2, B)})
    yield Case("uc: both sides moved", **pingpong("uc"), move={"a": ipv6(A), "b": empty(B)},
               log={"a": moved(B, 1, "family", 2, A), "b": moved(A, 1, "empty", 2, B)})

    # The VLAN's netdev is made anew, as when a bond or a port flaps, and something else is faster.
    yield Case("rc: VLAN made anew at another index", **pingpong("rc", 2), setup=VLAN_BOTH,
               move={"b": ["ip link del eth0.100", "free 2", "add 10.5.0.9/24", at(2, "10.5.0.9"), "free 3", "add fd00:5::9/64",
                           at(3, "fd00:5::9"), f"vlan {VLAN_B}/24", at(4, VLAN_B), f"ping -q -c 1 -w 15 {VLAN_A}"]},
               log={"b": moved(VLAN_A, 2, "unroutable", 4, VLAN_B)})
    yield Case("rc: same address in two namespaces", **pingpong("rc"), log={"b": moved(A, 1, "no-netdev", 3, B)},
               setup={"b": [f"del {B}/24", "free 1", f"foreign_vlan {B}/24", at(1, B), "taken 2", f"add {B}/24", at(3, B)]})
