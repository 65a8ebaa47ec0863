# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Address handles whose index does not fit the destination. Any address that gets there will do for a datagram."""
from .case import Case, moved, replaced
from .moved import VLAN_BOTH, empty, ipv6
from .programs import A, A6, B, VLAN_A, VLAN_B, datagrams
from .world import at


def cases():
    yield Case("datagrams: link-local index, IPv4 destination", **datagrams(0, B, hold=True), log={"a": replaced(B, 0, "family", 1, A)},
               move={"a": []}, changes=False, explain={"a": f"--index 0 --to {B} --ud"})
    yield Case("datagrams: IPv6 index, IPv4 destination", **datagrams(2, B), setup={"a": [f"add {A6}/64", at(2, A6)]},
               log={"a": replaced(B, 2, "family", 1, A)})
    yield Case("datagrams: unused index", **datagrams(7, B), log={"a": replaced(B, 7, "empty", 1, A)})
    yield Case("datagrams: moved, slot left empty", **datagrams(1, B, hold=True), move={"a": empty(A)},
               log={"a": moved(B, 1, "empty", 2, A)})
    yield Case("datagrams: moved, slot taken by an IPv6 address", **datagrams(1, B, hold=True), move={"a": ipv6(A)},
               log={"a": moved(B, 1, "family", 2, A)})
    yield Case("datagrams: base index, VLAN destination", **datagrams(1, VLAN_B), setup=VLAN_BOTH,
               log={"a": replaced(VLAN_B, 1, "unroutable", 2, VLAN_A)})
    yield Case("datagrams: VLAN index, base destination", **datagrams(2, B), setup=VLAN_BOTH,
               log={"a": replaced(B, 2, "unroutable", 1, A)})
    yield Case("datagrams: index of another namespace", **datagrams(2, B),
               setup={"a": ["foreign_vlan 10.9.0.9/24", at(2, "10.9.0.9")]}, log={"a": replaced(B, 2, "no-netdev", 1, A)})
