# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What works bare must go on just as it did, and what cannot be mended alone must fail just as it did."""
from rdmalab import kernel

from .case import FAILS, WORKS, Case, kept, left
from .moved import VLAN_BOTH, other_subnet, readded
from .programs import A, A6, B, B6, VLAN_A, VLAN_B, datagrams, pingpong
from .world import at

A_LINK, B_LINK = r"fe80::6d:76ff:fe00:100", r"fe80::6d:76ff:fe00:200"
SELF = "the destination is an address of this host"


def cases():
    for case in [*works(), *fails()]:
        case.same = True
        yield case


def same(name, to_b, to_a, **more):
    """A case that works both ways; to_b and to_a are the (index, destination) each side keeps."""
    return Case(name, bare=WORKS, stacked=WORKS, log={"a": kept(to_b[1], to_b[0]), "b": kept(to_a[1], to_a[0])}, **more)


def works():
    yield same("right index", (1, B), (1, A), **pingpong("rc"))
    yield same("link-local to link-local", (0, B_LINK), (0, A_LINK), **pingpong("rc", 0))
    second = {"b": ["add 10.1.0.22/24", at(2, "10.1.0.22")]}
    yield same("second address of the same subnet", (1, "10.1.0.22"), (2, A), **pingpong("rc", 2, 1), setup=second)
    both6 = {"a": [f"add {A6}/64", at(2, A6)], "b": [f"add {B6}/64", at(2, B6)]}
    yield same("IPv6", (2, B6), (2, A6), **pingpong("uc", 2), setup=both6)
    yield same("VLAN to VLAN", (2, VLAN_B), (2, VLAN_A), **pingpong("rc", 2), setup=VLAN_BOTH)
    yield same("address back at its index", (1, B), (1, A), **pingpong("rc"), move={"b": readded(B)}, changes=False)
    # This program reads its index when the client has come, and so holds the address that is there by then.
    yield same("slot taken by an address that fits, and read again", (1, "10.1.0.33"), (1, A), server=perftest(), client=perftest("b"),
               move={"b": [f"del {B}/24", "add 10.1.0.33/24", at(1, "10.1.0.33"), f"add {B}/24", at(2, B)]})
    # The same with an address of another subnet: Linux takes the peers to be on the link, and they are.
    yield Case("slot taken by another subnet, and read again", bare=WORKS, stacked=WORKS, server=perftest(), client=perftest("b"),
               move={"b": other_subnet(B)}, log={"b": kept(A, 1)})
    yield Case("datagrams: index of another subnet of the netdev", bare=WORKS, stacked=WORKS, **datagrams(2, B),
               setup={"a": ["add 10.5.0.9/24", at(2, "10.5.0.9")]}, log={"a": kept(B, 2)})
    # A container without any of the netdevs: the kernel sends all the same, but for Linux 5.10, which makes no address handle.
    sends = FAILS if kernel.suite() == "bullseye" else WORKS
    command = datagrams(1, B)
    command["client"] = "ip netns exec other " + command["client"]
    yield Case("datagrams from a namespace without netdevs", bare=sends, stacked=sends, **command, setup={"a": ["ip netns add other"]},
               log={"a": left(B, 1, "no-netdev", "no entry of this port reaches the destination")})
    # Without a route, Linux takes the peer to be on the link that the GID names, and finds it there.
    yield Case("another subnet on the same wire", bare=WORKS, **pingpong("rc"), log={"a": left("10.5.0.9", 1, "unroutable", "no entry")},
               setup={"b": [f"del {B}/24", "add 10.5.0.9/24", at(1, "10.5.0.9"), f"add {B}/24", at(2, B)]})
    yield Case("loopback to the own host", bare=WORKS, stacked=WORKS, client_host="b", **pingpong("rc"),
               log={"b": kept(B, 1, SELF)})


def perftest(peer=""):
    return f"ib_send_bw -d rxe0 -x 1 -F -n 20 -s 1024 -p {{port}} {peer}".rstrip()


def fails():
    """Nothing is remembered that could help, and a connected peer relies on the address it was given."""
    wrong = {"b": [f"del {B}/24", "add fd00:5::9/64", at(1, "fd00:5::9"), f"add {B}/24", at(2, B)]}
    needs_peer = "another entry would reach the destination, but the peer was given this address"
    yield Case("rc: wrong from the start", stacked=FAILS, **pingpong("rc"), setup=wrong, log={"b": left(A, 1, "family", needs_peer)})
    yield Case("rc: VLAN index, base destination", stacked=FAILS, **pingpong("rc", 2, 1), setup=VLAN_BOTH,
               log={"b": left(A, 2, "unroutable", needs_peer)})
    yield Case("rc: unused index", stacked=FAILS, **pingpong("rc", 7, 1), log={"b": left(A, 7, "empty", needs_peer)})
