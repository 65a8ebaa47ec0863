# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The cables: a namespace with one bridge for each cable or switch, and a veth pair to every NIC.

A NIC's netdev is one end of a pair, the other end is a port of the bridge.  Taking the port down takes the
carrier from the NIC, while the NIC's netdev itself stays administratively up: a pulled cable.
"""
import subprocess

from . import SimError
from .plan import MGMT_NET


def ip(*args):
    done = subprocess.run(["ip", *args], text=True, capture_output=True, check=False)
    if done.returncode:
        raise SimError(f"ip {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout


def batch(lines, netns=None):
    where = ["-n", netns] if netns else []
    done = subprocess.run(["ip", *where, "-batch", "-"], input="\n".join(lines) + "\n", text=True,
                          capture_output=True, check=False)
    if done.returncode:
        raise SimError(f"ip: {done.stderr.strip()}")


def kernel_has_vlans(fabric):
    """Whether a real VLAN netdev can be made here; asked in the fabric's own namespace."""
    for args in (["link", "add", "probe", "type", "veth", "peer", "name", "probe2"],
                 ["link", "add", "link", "probe", "name", "probe.2", "type", "vlan", "id", "2"]):
        done = subprocess.run(["ip", "-n", fabric, *args], capture_output=True, check=False)
    subprocess.run(["ip", "-n", fabric, "link", "del", "probe"], capture_output=True, check=False)
    return done.returncode == 0


def port_name(topo, nic, vid=None):
    return f"p{topo.hosts[nic.host].number}n{nic.index}" + (f".{vid}" if vid else "")


def bridge_name(topo, link, vid=None):
    return f"br{list(topo.links).index(link)}" + (f".{vid}" if vid else "")


def vlans_of(topo, link):
    return sorted({vid for nic in topo.links[link].ports for vid in nic.vlans})


def plug(topo, fabric, pids, stand_ins):
    """Make all netdevs.  pids: {host: process in its network namespace}; hosts that are not there get none.

    stand_ins: this kernel has no 802.1Q; each VLAN becomes a wire of its own with the same name and MAC.
    """
    lines, inner = [], [f"addr add {MGMT_NET[-2]}/{MGMT_NET.prefixlen} dev mgmt"]
    bridges = ["mgmt"]
    for link in topo.links:
        bridges.append(bridge_name(topo, link))
        if stand_ins:
            bridges += [bridge_name(topo, link, vid) for vid in vlans_of(topo, link)]
    for host in (topo.hosts[name] for name in pids):
        lines.append(f"link add mgmt0 netns {pids[host.name]} type veth peer name m{host.number} netns {fabric}")
        inner += [f"link set m{host.number} master mgmt", f"link set m{host.number} up"]
        for nic in host.nics.values():
            for vid in [None, *(nic.vlans if stand_ins else ())]:
                name, port = nic.netdev + (f".{vid}" if vid else ""), port_name(topo, nic, vid)
                lines.append(f"link add {name} netns {pids[host.name]} address {nic.mac} mtu {topo.mtu} "
                             f"type veth peer name {port} netns {fabric} mtu {topo.mtu}")
                if nic.link:
                    inner += [f"link set {port} master {bridge_name(topo, nic.link, vid)}", f"link set {port} up"]
    made = [f"link add {name} type bridge forward_delay 0 stp_state 0 mcast_snooping 0" for name in bridges]
    batch(made, fabric)
    batch(lines)
    batch(inner + [f"link set {name} up" for name in bridges], fabric)


def plug_netdev(topo, fabric, port, netdev):
    """A netdev of the fabric's namespace, e.g. a tap, takes the place of a NIC whose host is not simulated."""
    nic = topo.nic(port)
    if not nic.link:
        raise SimError(f"{port} is not cabled in {topo.path}; there is nothing to plug into")
    batch([f"link set {netdev} mtu {topo.mtu} master {bridge_name(topo, nic.link)}", f"link set {netdev} up"], fabric)


def ends(topo, what):
    """The Nics whose carrier `what` names: all of a link, or the one HOST.INDEX."""
    if what in topo.links:
        return topo.links[what].ports
    if "." not in what:
        raise SimError(f"no link '{what}'; there are: {' '.join(topo.links) or 'none'}, or write HOST.INDEX")
    nic = topo.nic(what)
    if not nic.link:
        raise SimError(f"{what} is not cabled in {topo.path}; it never has a carrier")
    return [nic]


def carrier(topo, fabric, what, on, stand_ins, hosts):
    """Plug (on) or pull the cable of a link, or of one port only; `hosts` are those that are simulated."""
    state = "up" if on else "down"
    nics = [nic for nic in ends(topo, what) if nic.host in hosts]
    if not nics:
        raise SimError(f"{what} has no end at a simulated host")
    batch([f"link set {port_name(topo, nic, vid)} {state}"
           for nic in nics for vid in [None, *(nic.vlans if stand_ins else ())]], fabric)
