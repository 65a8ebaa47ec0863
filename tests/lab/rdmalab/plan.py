# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The shell text by which a guest becomes a host of the topology: names, netdevs, addresses, RDMA devices.

Few processes (ip, rdma and tc in batch mode), because each costs tens of milliseconds under emulation.
"""
import ipaddress

import topo as topology

SPEED_MBPS = 10000  # without one, rxe logs "speed is unknown" at every port query
SYSCTLS = {
    "net/core/default_qdisc": "pfifo_fast",  # Debian's fq_codel drops what waits 5 ms, usual under emulation
    "net/ipv4/conf/all/arp_ignore": 1,  # a NIC answers for its own address only ...
    "net/ipv4/conf/default/arp_ignore": 1,
    "net/ipv4/conf/all/arp_announce": 2,  # ... and asks with it
    "net/ipv4/conf/default/arp_announce": 2,
    "net/ipv6/conf/default/accept_dad": 0,  # link-local addresses, and so GIDs, are there at once
    "net/ipv6/conf/default/accept_ra": 0,
}
LOCALHOST = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]


def mgmt_address(host):
    return f"192.0.2.{host.number}"


def mgmt_mac(host):
    return topology.mac(host.number, 0xff)


def build(topo, host):
    """Text of `plan` for one host of a topo."""
    lines = ["# Written by the lab for this guest; sourced by setup."]
    lines += common(host.name, etc_hosts(topo))
    lines += rename(host)
    lines += batch("ip -batch -", ip_commands(topo, host))
    for nic in host.nics.values():
        lines.append(f"ethtool -s {nic.netdev} speed {SPEED_MBPS} duplex full")
    lines += batch("tc -batch -", tc_commands(host))
    lines += batch("rdma -b -", rdma_commands(host))
    return "\n".join(lines) + "\n"


def common(hostname, hosts):
    """What every guest needs, whatever its NICs."""
    lines = [f"echo {hostname} >/proc/sys/kernel/hostname"]
    lines += heredoc("cat >/etc/hosts", hosts)
    lines += [f"echo {value} >/proc/sys/{name}" for name, value in SYSCTLS.items()]
    return lines + ["modprobe -a rdma_rxe rdma_ucm", "ip link set lo up"]


def etc_hosts(topo):
    """NAME is the management address, NAME-LINK the first address on that link, NAME-LINK.VID of a VLAN."""
    lines = list(LOCALHOST)
    for host in topo.hosts.values():
        lines.append(f"{mgmt_address(host)} {host.name}")
        for nic in host.nics.values():
            for suffix, addrs in [("", nic.addrs), *((f".{v}", a) for v, a in nic.vlans.items())]:
                if nic.link and addrs:
                    lines.append(f"{addrs[0].ip} {host.name}-{nic.link}{suffix}")
    return lines


def rename(host):
    """Netdevs come as eth0, eth1 ... in PCI order, the management NIC last; give them their names.

    From the last to the first, so that no name is taken while it is needed: an index is never below
    its place in the order.
    """
    nics = sorted(host.nics.values(), key=lambda nic: nic.index)
    names = [(nic.netdev, nic.mac) for nic in nics] + [("mgmt", mgmt_mac(host))]
    lines = []
    for place, (name, mac) in reversed(list(enumerate(names))):
        lines.append(f"[ \"$(</sys/class/net/eth{place}/address)\" = {mac} ]")
        if name != f"eth{place}":
            lines.append(f"ip link set eth{place} name {name}")
    return lines


def ip_commands(topo, host):
    yield f"addr add {mgmt_address(host)}/24 dev mgmt"
    yield "link set mgmt up"
    for nic in host.nics.values():
        yield f"link set {nic.netdev} mtu {topo.mtu} up"
        yield from netdev_commands(topo, nic, nic.netdev, nic.addrs, lambda n: n.addrs)
        for vid, addrs in nic.vlans.items():
            netdev = f"{nic.netdev}.{vid}"
            yield f"link add link {nic.netdev} name {netdev} type vlan id {vid}"
            yield f"link set {netdev} up"
            yield from netdev_commands(topo, nic, netdev, addrs, lambda n, v=vid: n.vlans.get(v))


def netdev_commands(topo, nic, netdev, addrs, addrs_of):
    for addr in addrs:
        yield f"addr add {addr} dev {netdev}" + (" nodad" if addr.version == 6 else "")
    # Fixed neighbours: else carrier loss flushes them, and packets wait seconds for an answer to ARP.
    for other in topo.neighbours(nic):
        theirs = addrs_of(other)
        if theirs is None:
            continue
        for ip in [link_local(other.mac), *(a.ip for a in theirs)]:
            yield f"neigh replace {ip} lladdr {other.mac} dev {netdev} nud permanent"


def link_local(mac):
    """The link-local address that Linux makes of a MAC address (modified EUI-64)."""
    octets = [int(o, 16) for o in mac.split(":")]
    octets[0] ^= 2
    eui = bytes(octets[:3] + [0xff, 0xfe] + octets[3:])
    return ipaddress.IPv6Address(bytes.fromhex("fe80000000000000") + eui)


def tc_commands(host):
    """A queue on VLAN netdevs: without one, rxe takes a dead link for "try again" and spins."""
    for nic in host.nics.values():
        for vid in nic.vlans:
            yield f"qdisc add dev {nic.netdev}.{vid} root pfifo"


def rdma_commands(host):
    for nic in host.nics.values():
        yield f"link add rxe{nic.index} type rxe netdev {nic.netdev}"


def batch(command, lines):
    lines = list(lines)
    return heredoc(command, lines) if lines else []


def heredoc(command, lines):
    return [f"{command} <<'END'", *lines, "END"]
