# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A host's /sys: the real one of its network namespace, with made-up PCI functions, netdevs and mlx5 devices.

Everything that never changes is written here, before simhostd starts; state, GIDs and counters are
simhostd's (sysfs_out.c).  Attribute names and formats: drivers/infiniband/core/sysfs.c,
drivers/infiniband/hw/mlx5/{main,counters}.c, drivers/pci/pci-sysfs.c of Linux.
"""
import os
import re

from . import SimError, mounts
from .plan import LINK_LAYERS

COUNTERS = """VL15_dropped excessive_buffer_overrun_errors link_downed link_error_recovery
    local_link_integrity_errors multicast_rcv_packets multicast_xmit_packets port_rcv_constraint_errors
    port_rcv_data port_rcv_errors port_rcv_packets port_rcv_remote_physical_errors
    port_rcv_switch_relay_errors port_xmit_constraint_errors port_xmit_data port_xmit_discards
    port_xmit_packets port_xmit_wait symbol_error unicast_rcv_packets unicast_xmit_packets""".split()
HW_COUNTERS = """duplicate_request implied_nak_seq_err local_ack_timeout_err np_cnp_sent
    np_ecn_marked_roce_packets out_of_buffer out_of_sequence packet_seq_err req_cqe_error
    req_cqe_flush_error req_remote_access_errors req_remote_invalid_request resp_cqe_error
    resp_cqe_flush_error resp_local_length_error resp_remote_access_errors rnr_nak_retry_err
    roce_adp_retrans roce_adp_retrans_to roce_slow_restart roce_slow_restart_cnps
    roce_slow_restart_trans rp_cnp_handled rp_cnp_ignored rx_atomic_requests rx_icrc_encapsulated
    rx_read_requests rx_write_requests""".split()


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def put_all(directory, **attributes):
    for name, text in attributes.items():
        put(directory / name, text)


def link(path, target):
    """A relative symbolic link from path to target, both below the same tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))


def guid(text):
    return ":".join(re.findall("....", text))


class Tree:
    """The tree under construction at root; `real` is a sysfs mount of the host's network namespace."""

    def __init__(self, root, real):
        self.root, self.real = root, real

    def build(self, plan):
        mounts.tmpfs(self.root)
        mounts.mirror(self.real, self.root, skip=("devices", "bus", "class", "dev", "fs"))
        mounts.bind("/sys/fs", self.root / "fs")  # with the control groups mounted there
        self.frame({dev.pci for dev in plan.devices})
        for dev in plan.devices:
            self.pci_function(dev)
            self.netdev(dev)
            self.ibdev(dev)
            self.uverbs(dev)
        for name in ("infiniband", "infiniband_verbs"):
            self.sort(self.root / "class" / name)
        put(self.root / "class/infiniband_verbs/abi_version", 6)
        put_all(self.root / "class/misc/rdma_cm", abi_version=4, dev="231:255",
                uevent="MAJOR=231\nMINOR=255\nDEVNAME=infiniband/rdma_cm\nDEVMODE=0666")
        for entry in os.scandir(self.real / "class/net"):
            there = self.root / "class/net" / entry.name
            if entry.is_symlink() and not there.is_symlink():
                there.symlink_to(f"../../devices/virtual/net/{entry.name}")

    @staticmethod
    def sort(directory):
        """Make readdir(3) list the devices in order: programs take the first one.

        Whether a tmpfs lists the newest entry first or last depends on the kernel, so try.
        """
        targets = {name: os.readlink(directory / name) for name in os.listdir(directory)}
        wanted = sorted(targets, key=lambda name: int(re.search(r"\d+$", name)[0]))
        for order in (wanted, wanted[::-1]):
            for name in targets:
                (directory / name).unlink()
            for name in order:
                (directory / name).symlink_to(targets[name])
            if os.listdir(directory) == wanted:
                return

    def frame(self, bdfs):
        """Directories of which some entries are real and some are ours."""
        roots = {self.pci_root(bdf) for bdf in bdfs}
        mounts.mirror(self.real / "devices", self.root / "devices", skip=roots)
        for name in roots:
            if (self.real / "devices" / name).is_dir():
                mounts.mirror(self.real / "devices" / name, self.root / "devices" / name)
            (self.root / "devices" / name).mkdir(exist_ok=True)
        mounts.mirror(self.real / "bus", self.root / "bus", skip=("pci",))
        pci, real_pci = self.root / "bus/pci", self.real / "bus/pci"
        (pci / "devices").mkdir(parents=True)
        (pci / "drivers/mlx5_core").mkdir(parents=True)
        if real_pci.is_dir():
            mounts.mirror(real_pci, pci, skip=("devices", "drivers"))
            mounts.mirror(real_pci / "devices", pci / "devices")
            mounts.mirror(real_pci / "drivers", pci / "drivers", skip=("mlx5_core",))
        mounts.mirror(self.real / "class", self.root / "class",
                      skip=("net", "misc", "infiniband", "infiniband_verbs", "infiniband_mad", "infiniband_cm"))
        for name in ("net", "misc", "infiniband", "infiniband_verbs"):
            (self.root / "class" / name).mkdir()
        mounts.mirror(self.real / "class/misc", self.root / "class/misc", skip=("rdma_cm",))
        for kind in ("block", "char"):
            mounts.mirror(self.real / "dev" / kind, self.root / "dev" / kind)

    @staticmethod
    def pci_root(bdf):
        domain, bus, _ = bdf.split(":")
        return f"pci{domain}:{max(int(bus, 16) - 1, 0):02x}"

    def pci_dir(self, dev):
        """Root complex, root port, function; the port is the first device number that the machine has not."""
        domain, bus, _ = dev.pci.split(":")
        name = self.pci_root(dev.pci)
        root = self.root / "devices" / name
        if int(bus, 16) == 0:
            return root / dev.pci
        slots = (f"{domain}:{int(bus, 16) - 1:02x}:{slot:02x}.0" for slot in range(1, 32))
        return root / next(s for s in slots if not (self.real / "devices" / name / s).exists()) / dev.pci

    def pci_function(self, dev):
        func = self.pci_dir(dev)
        if func.exists():
            raise SimError(f"PCI address {dev.pci} belongs to a real device of this machine; choose another")
        self.pci_attributes(func, dev, 0x15B3, dev.part_id, 0x020000, "mlx5_core")
        link(func / "driver", self.root / "bus/pci/drivers/mlx5_core")
        link(self.root / "bus/pci/drivers/mlx5_core" / dev.pci, func)
        port = func.parent
        if port.parent != self.root / "devices" and not (port / "vendor").exists():
            self.pci_attributes(port, dev, 0x8086, 0x347A, 0x060400, "pcieport")

    def pci_attributes(self, path, dev, vendor, part, cls, driver):
        cpus = node_cpus(self.real, dev.numa_node)
        put_all(path, vendor=f"0x{vendor:04x}", device=f"0x{part:04x}", subsystem_vendor=f"0x{vendor:04x}",
                subsystem_device="0x0007", revision="0x00", numa_node=dev.numa_node, enable=1, irq=0,
                local_cpus=cpus[0], local_cpulist=cpus[1], dma_mask_bits=64, msi_bus=1,
                max_link_speed="16.0 GT/s PCIe", max_link_width=16, current_link_speed="16.0 GT/s PCIe",
                current_link_width=16, broken_parity_status=0, ari_enabled=0)
        path.joinpath("class").write_text(f"0x{cls:06x}\n")
        modalias = f"pci:v{vendor:08X}d{part:08X}sv{vendor:08X}sd00000007bc{cls >> 16:02X}sc{cls >> 8 & 255:02X}i{cls & 255:02X}"
        put(path / "modalias", modalias)
        put(path / "uevent", f"DRIVER={driver}\nPCI_CLASS={cls:X}\nPCI_ID={vendor:04X}:{part:04X}\n"
            f"PCI_SUBSYS_ID={vendor:04X}:0007\nPCI_SLOT_NAME={path.name}\nMODALIAS={modalias}")
        put(path / "resource", "\n".join(["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13))
        path.joinpath("config").write_bytes(pci_config(vendor, part, cls))
        link(path / "subsystem", self.root / "bus/pci")
        link(self.root / "bus/pci/devices" / path.name, path)

    def netdev(self, dev):
        """class/net/ETH leads to the PCI function, as on a real host; its files are the live ones."""
        path = self.pci_dir(dev) / "net" / dev.netdev
        path.mkdir(parents=True)
        live = f"/sys/devices/virtual/net/{dev.netdev}"
        for entry in os.scandir(self.real / "devices/virtual/net" / dev.netdev):
            if entry.name not in ("device", "subsystem"):
                (path / entry.name).symlink_to(f"{live}/{entry.name}")
        for name in ("speed", "uevent"):
            (path / name).unlink()
        put(path / "speed", dev.rate * 1000)
        if dev.link_layer == "infiniband":
            self.ipoib(path, dev)
        put(path / "uevent", f"INTERFACE={dev.netdev}\nIFINDEX=" +
            (self.real / "devices/virtual/net" / dev.netdev / "ifindex").read_text().strip())
        link(path / "device", self.pci_dir(dev))
        link(path / "subsystem", self.root / "class/net")
        link(self.root / "class/net" / dev.netdev, path)

    @staticmethod
    def ipoib(path, dev):
        """The netdev of an InfiniBand port is one of IP over InfiniBand, as /sys has it (drivers/infiniband/ulp/ipoib)."""
        address = f"80000048{dev.subnet_prefix:016x}{dev.node_guid}"
        known = {"type": 32, "address": ":".join(re.findall("..", address)), "addr_len": 20, "pkey": "0xffff", "mode": "datagram",
                 "dev_port": 0, "dev_id": "0x0"}
        for name, value in known.items():
            (path / name).unlink(missing_ok=True)
            put(path / name, value)

    def ibdev(self, dev):
        path = self.pci_dir(dev) / "infiniband" / dev.name
        put_all(path, node_type="1: CA", node_guid=guid(dev.node_guid), sys_image_guid=guid(dev.node_guid),
                fw_ver=dev.fw_ver, hca_type=dev.hca_type, hw_rev=0, board_id=dev.board_id,
                node_desc=f"{os.uname().nodename} {dev.name}", fw_pages=0, reg_pages=0,
                uevent=f"NAME={dev.name}")
        link(path / "device", self.pci_dir(dev))
        link(path / "subsystem", self.root / "class/infiniband")
        link(self.root / "class/infiniband" / dev.name, path)
        self.port(path / "ports/1", dev)

    @staticmethod
    def port(path, dev):
        infiniband = dev.link_layer == "infiniband"
        put_all(path, link_layer=LINK_LAYERS[dev.link_layer], lid=f"0x{dev.lid:x}", sm_sl=0, lid_mask_count=dev.lmc,
                sm_lid=f"0x{1 if infiniband else 0:x}", has_smi=int(infiniband),
                cap_mask="0x2651e848" if infiniband else "0x00010000")
        for index in range(dev.n_pkeys):
            put(path / "pkeys" / str(index), f"0x{dev.pkeys[index] if index < len(dev.pkeys) else 0:04x}")
        for name in COUNTERS:
            put(path / "counters" / name, 0)
        for name in HW_COUNTERS:
            put(path / "hw_counters" / name, 0)
        put(path / "hw_counters/lifespan", 10)
        for name in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
            (path / name).mkdir(parents=True)

    def uverbs(self, dev):
        name = f"uverbs{dev.minor}"
        path = self.pci_dir(dev) / "infiniband_verbs" / name
        put_all(path, ibdev=dev.name, abi_version=1, dev=f"231:{192 + dev.minor}",
                uevent=f"MAJOR=231\nMINOR={192 + dev.minor}\nDEVNAME=infiniband/{name}\nDEVMODE=0666")
        link(path / "device", self.pci_dir(dev))
        link(path / "subsystem", self.root / "class/infiniband_verbs")
        link(self.root / "class/infiniband_verbs" / name, path)
        link(self.root / "dev/char" / f"231:{192 + dev.minor}", path)


def node_cpus(real, node):
    """(mask, list) of the CPUs near NUMA node `node`; all that are online where the machine has no such node."""
    base = real / f"devices/system/node/node{node}"
    if node >= 0 and base.is_dir():
        return base.joinpath("cpumap").read_text().strip(), base.joinpath("cpulist").read_text().strip()
    text = (real / "devices/system/cpu/online").read_text().strip()
    mask = 0
    for part in text.split(","):
        low, _, high = part.partition("-")
        mask |= (1 << int(high or low) + 1) - (1 << int(low))
    words = [f"{mask >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(mask.bit_length(), 1), 32)]
    return ",".join(reversed(words)), text


def pci_config(vendor, part, cls):
    """Configuration space: header, and one PCI Express capability that tells speed and width."""
    space = bytearray(256)
    space[0:4] = vendor.to_bytes(2, "little") + part.to_bytes(2, "little")
    space[4:8] = bytes([0x46, 0x05, 0x10, 0x00])  # memory space and bus master on; has capabilities
    space[9:12] = cls.to_bytes(3, "little")
    space[14] = 1 if cls == 0x060400 else 0  # header type
    space[0x2C:0x30] = vendor.to_bytes(2, "little") + bytes([7, 0])
    space[0x34] = 0x60
    space[0x60:0x64] = bytes([0x10, 0, 0x42 if cls == 0x060400 else 0x02, 0])
    space[0x6C:0x70] = (4 | 16 << 4).to_bytes(4, "little")  # link capabilities: 16 GT/s, x16
    space[0x72:0x74] = (4 | 16 << 4).to_bytes(2, "little")  # link status, the same
    return bytes(space)
