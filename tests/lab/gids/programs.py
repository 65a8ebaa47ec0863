# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The programs that the cases run, and the addresses they use."""
from .stage import PLACE

A, B = "10.1.0.1", "10.1.0.2"  # of eth0 in tests/topo/pair.topo
A6, B6 = "fd00:1::1", "fd00:1::2"  # added where a case needs them
VLAN_A, VLAN_B = "10.9.0.1", "10.9.0.2"
QUICK = {"rc": "-n 20 -c", "uc": "-n 20 -c", "ud": "-n 20 -c", "srq": "-n 20 -c -q 2"}


def pingpong(kind, index=1, client_index=None):
    """Server and client command of one of libibverbs' examples."""
    command = f"ibv_{kind}_pingpong -d rxe0 {QUICK[kind]} -p {{port}} -g "
    return {"server": command + str(index), "client": command + f"{index if client_index is None else client_index} b"}


def datagrams(index, to, hold=False):
    """A receiver in b, and a sender in a that uses an index towards an address."""
    command = f"/{PLACE}/ud --device rxe0"
    gid = to if ":" in to else f"::ffff:{to}"
    return {"server": f"{command} --index 1 --wait 12", "ready": "said qpn", "client_ready": "said holding",
            "client": f"{command} --index {index} --dgid {gid} --qpn {{qpn}}" + (" --hold" if hold else "")}
