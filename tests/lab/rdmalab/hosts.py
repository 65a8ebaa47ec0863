# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""hosts:NxM, N pretend hosts with M NICs each in one guest: faster, for what needs no separate kernel.

Host hH's NIC K is netdev hHethK, RDMA device hHrxeK, 10.(K+1).0.H/24 on link lK; `hosts` beside the
package makes them in the guest, from ports hHportK of bridges.
"""
import pathlib
import re
import shutil

from . import plan
from .errors import LabError

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "hosts"
GUEST = "hosts"  # name of the one guest
MAX_HOSTS, MAX_NICS = 64, 8


def size(what):
    """(hosts, NICs) if `what` is hosts:NxM, else None."""
    if not what.startswith("hosts:"):
        return None
    match = re.fullmatch(r"hosts:(\d{1,2})x(\d)", what)
    if not match or not 1 <= int(match[1]) <= MAX_HOSTS or not 1 <= int(match[2]) <= MAX_NICS:
        raise LabError(f"bad '{what}'; write hosts:NxM, up to {MAX_HOSTS} hosts with up to {MAX_NICS} NICs, "
                       "e.g. hosts:3x2")
    return int(match[1]), int(match[2])


def topology(hosts, nics):
    """Text of the topology file that says the same."""
    lines = [f"host h{h}" for h in range(1, hosts + 1)]
    lines += [f"nic h{h} {k} 10.{k + 1}.0.{h}/24" for h in range(1, hosts + 1) for k in range(nics)]
    for k in range(nics):
        lines.append(f"switch l{k} " + " ".join(f"h{h}.{k}" for h in range(1, hosts + 1)))
    return "\n".join(lines) + "\n"


def build(topo):
    """Text of `plan` for the guest."""
    nics = len(next(iter(topo.hosts.values())).nics)
    lines = plan.common(GUEST, plan.etc_hosts(topo))
    return "\n".join([*lines, f"/run/lab/hosts {len(topo.hosts)} {nics} {topo.mtu}"]) + "\n"


def prepare(guest_dir):
    """Put the script where the guest sees it."""
    shutil.copy(SCRIPT, guest_dir / "hosts")


def device(nic):
    return f"{nic.host}rxe{nic.index}"


def netdev(nic):
    return f"{nic.host}eth{nic.index}"


def carrier(nic, on):
    """Command that gives or takes a NIC's carrier."""
    return f"ip link set {nic.host}port{nic.index} {'up' if on else 'down'}"
