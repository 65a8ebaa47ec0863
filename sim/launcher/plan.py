# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""From a topology to what each simulated host is made of; pure, touches nothing on the machine."""
import dataclasses
import ipaddress

from . import SimError

MGMT_NET = ipaddress.ip_network("192.0.2.0/24")  # documentation range: meets no real network
RATES = {  # Gbit/s: ibv_port_attr.active_speed, .active_width, name in sysfs
    10: (1, 2, "4X SDR"), 25: (32, 1, "1X EDR"), 40: (4, 2, "4X QDR"), 50: (64, 1, "1X HDR"),
    56: (16, 2, "4X FDR"), 100: (32, 2, "4X EDR"), 200: (64, 2, "4X HDR"), 400: (128, 2, "4X NDR"),
}
LINK_LAYERS = {"ethernet": "Ethernet", "infiniband": "InfiniBand"}
ROCE_GIDS, IB_GIDS = 256, 8  # ConnectX: roce_address_table_size, and the IB table with one function
ROCE_PKEYS, IB_PKEYS = 1, 128
MAX_DEVICES, MAX_LIDS = 16, 255  # SIM_MAX_DEVS, SIM_MAX_LIDS less the end mark: sim/common/state.h
MAX_PKEYS = 16  # SIM_MAX_PKEYS
MAX_LMC = 7  # SIM_MAX_LMC
DEFAULT_PREFIX = 0xFE80000000000000  # IB_DEFAULT_GID_PREFIX


@dataclasses.dataclass
class Device:
    """One mlx5 device with one port, and the netdev that carries its packets."""
    name: str
    minor: int
    netdev: str
    mac: str
    pci: str
    link_layer: str
    rate: int
    lid: int
    lmc: int
    subnet_prefix: int
    n_gids: int
    n_pkeys: int
    numa_node: int
    part_id: int
    fw_ver: str
    board_id: str
    firmware_us: int
    devx: int
    lag_ports: int
    pkeys: list

    @property
    def node_guid(self):
        """EUI-64 of the MAC address, as mlx5 makes it: ff:fe in the middle is replaced by 03:00."""
        octets = self.mac.split(":")
        return "".join(octets[:3] + ["03", "00"] + octets[3:])

    @property
    def gid(self):
        """Of an InfiniBand port: index 0."""
        return ipaddress.IPv6Address(self.subnet_prefix << 64 | int(self.node_guid, 16))

    @property
    def hca_type(self):
        return f"MT{self.part_id}"


@dataclasses.dataclass
class HostPlan:
    name: str
    number: int
    mgmt: ipaddress.IPv4Interface
    devices: list
    nics: list


OPTIONS = {  # of `port` lines: how the text becomes a value
    "link_layer": str, "rate": int, "lid": lambda t: int(t, 0), "lmc": int, "subnet_prefix": lambda t: int(t, 0),
    "gids": int, "numa": int, "part_id": int, "fw": str, "board": str,
    "firmware_us": int, "devx": int, "lag_ports": int, "pkeys": lambda t: [int(word, 0) for word in t.split(",")],
}


def options_of(nic):
    values = {}
    for key, text in nic.options.items():
        if key not in OPTIONS:
            raise SimError(f"{nic.port}: unknown port option '{key}'; known: {' '.join(OPTIONS)}")
        try:
            values[key] = OPTIONS[key](text)
        except ValueError:
            raise SimError(f"{nic.port}: '{key}={text}' is not a number") from None
    layer = values.setdefault("link_layer", "ethernet")
    if layer not in LINK_LAYERS:
        raise SimError(f"{nic.port}: link_layer '{layer}' is none of: {' '.join(LINK_LAYERS)}")
    if values.setdefault("rate", 100) not in RATES:
        raise SimError(f"{nic.port}: rate {values['rate']} is none of: {' '.join(map(str, RATES))}")
    most = ROCE_GIDS if layer == "ethernet" else IB_GIDS
    if not 2 <= values.setdefault("gids", most) <= ROCE_GIDS:
        raise SimError(f"{nic.port}: gids={values['gids']} is not a table length from 2 to {ROCE_GIDS}")
    if values.setdefault("devx", 0) not in (0, 1) or values.setdefault("lag_ports", 0) not in (0, 2):
        raise SimError(f"{nic.port}: devx is 0 or 1, lag_ports 0 or 2")
    if not 0 <= values.setdefault("lmc", 0) <= MAX_LMC or (values["lmc"] and layer == "ethernet"):
        raise SimError(f"{nic.port}: lmc is 0 to {MAX_LMC}, and of InfiniBand")
    pkeys = values.setdefault("pkeys", [0xFFFF])
    if layer == "ethernet" and pkeys != [0xFFFF]:
        raise SimError(f"{nic.port}: pkeys are of InfiniBand")
    if not 1 <= len(pkeys) <= MAX_PKEYS or not pkeys[0] or not all(0 <= pkey <= 0xFFFF for pkey in pkeys):
        raise SimError(f"{nic.port}: pkeys are 1 to {MAX_PKEYS} numbers of 16 bits, the first not 0")
    return values


def lids_of(topo):
    """{port: LID} of all InfiniBand ports: the given ones, and the lowest free ones for the rest."""
    lids, wanting, taken = {}, [], set()
    for nic in topo.nics():
        values = options_of(nic)
        if values["link_layer"] != "infiniband":
            continue
        if not nic.addrs:
            raise SimError(f"{nic.port}: an InfiniBand port needs an address, its packets travel in UDP; "
                           f"write e.g.: nic {nic.host} {nic.index} 10.1.0.{nic.index + 1}/24")
        if "lid" not in values:
            wanting.append((nic.port, values["lmc"]))
            continue
        own = range(values["lid"], values["lid"] + (1 << values["lmc"]))
        if not 1 <= own.start < own.stop <= 0xC000 or not taken.isdisjoint(own):
            raise SimError(f"{nic.port}: lid {own.start} is no unicast LID (1 to 0xbfff) or is taken")
        if own.start % len(own):
            raise SimError(f"{nic.port}: lid {own.start} is no multiple of 2^lmc, {len(own)}")
        lids[nic.port] = own.start
        taken.update(own)
    for port, lmc in wanting:
        n = 1 << lmc
        lids[port] = next(lid for lid in range(n, 0xC000, n) if taken.isdisjoint(range(lid, lid + n)))
        taken.update(range(lids[port], lids[port] + n))
    return lids


def lid_table(topo):
    """[(LID, address of the netdev behind it, GID of the port, LMC)], the same on every host."""
    lids = lids_of(topo)
    return sorted((lids[nic.port], nic.addrs[0].ip, device(nic, 0, lids).gid, options_of(nic)["lmc"])
                  for nic in topo.nics() if nic.port in lids)


def device(nic, minor, lids):
    values = options_of(nic)
    infiniband = values["link_layer"] == "infiniband"
    return Device(
        name=f"mlx5_{nic.index}", minor=minor, netdev=nic.netdev, mac=nic.mac,
        pci=nic.pci or f"0000:{0xC1 + 2 * minor:02x}:00.0", link_layer=values["link_layer"],
        rate=values["rate"], lid=lids.get(nic.port, 0), lmc=values["lmc"],
        subnet_prefix=values.get("subnet_prefix", DEFAULT_PREFIX), n_gids=values["gids"],
        n_pkeys=IB_PKEYS if infiniband else ROCE_PKEYS, numa_node=values.get("numa", -1),
        part_id=values.get("part_id", 4123), fw_ver=values.get("fw", "20.31.1014"),
        board_id=values.get("board", "MT_0000000224"),
        firmware_us=values.get("firmware_us", 0), devx=values["devx"], lag_ports=values["lag_ports"],
        pkeys=values["pkeys"])


def hosts(topo):
    """[HostPlan] in file order; SimError names the port whose options cannot be."""
    if len(topo.hosts) > MGMT_NET.num_addresses - 3:
        raise SimError(f"{topo.path}: {len(topo.hosts)} hosts do not fit {MGMT_NET}")
    lids = lids_of(topo)
    if len(lids) > MAX_LIDS:
        raise SimError(f"{topo.path}: {len(lids)} InfiniBand ports, at most {MAX_LIDS} fit")
    plans = []
    for host in topo.hosts.values():
        nics = sorted(host.nics.values(), key=lambda nic: nic.index)
        if len(nics) > MAX_DEVICES:
            raise SimError(f"{topo.path}: host {host.name} has {len(nics)} NICs, at most {MAX_DEVICES} fit")
        plans.append(HostPlan(
            host.name, host.number, ipaddress.ip_interface(f"{MGMT_NET[host.number]}/{MGMT_NET.prefixlen}"),
            [device(nic, minor, lids) for minor, nic in enumerate(nics)], nics))
    return plans


def etc_hosts(topo):
    """/etc/hosts of every host: NAME is the management address, NAME-LINK those on a cable or switch."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    for host in topo.hosts.values():
        lines.append(f"{MGMT_NET[host.number]} {host.name}")
        lines += [f"{addr.ip} {host.name}-{nic.link}"
                  for nic in host.nics.values() if nic.link for addr in nic.addrs]
    return "\n".join(lines) + "\n"


def daemon_config(plan, topo, state, socket, seed, stand_ins):
    """The text that simhostd reads; one statement per line, see sim/net/config.c."""
    lines = [f"host {plan.name}", f"state {state}", f"socket {socket}", f"seed {seed}"]
    for dev in plan.devices:
        speed, width, _ = RATES[dev.rate]
        lines.append(
            f"dev {dev.name} minor={dev.minor} netdev={dev.netdev} pci={dev.pci} "
            f"node_guid={dev.node_guid} sys_image_guid={plan.devices[0].node_guid} "
            f"part_id={dev.part_id} hw_ver=0 numa={dev.numa_node} fw={dev.fw_ver} board={dev.board_id} "
            f"link_layer={dev.link_layer} speed={speed} width={width} gids={dev.n_gids} "
            f"pkeys={dev.n_pkeys} pkey_table={','.join(f'{pkey:x}' for pkey in dev.pkeys)} lid={dev.lid} lmc={dev.lmc} prefix={dev.subnet_prefix:016x} firmware_us={dev.firmware_us} "
            f"devx={dev.devx} lag_ports={dev.lag_ports}")
    for nic in plan.nics:
        lines += [f"vlan {nic.netdev}.{vid} {nic.netdev} {vid}" for vid in nic.vlans if stand_ins]
    lines += [f"lid {lid} {addr} {gid} {lmc}" for lid, addr, gid, lmc in lid_table(topo)]
    return "\n".join(lines) + "\n"
