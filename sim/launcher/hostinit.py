# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A process of the launcher that becomes a host: it takes namespaces, makes /sys, /dev and /etc there, then becomes simhostd.

The process writes a line when it has namespaces. The launcher plugs the host's netdevs in, and then writes the line of lifecycle.tell(), a JSON
object. The next line is simhostd's "ready". A failure ends the process with a line in its log. The launcher forks the process: an interpreter
would take longer to start than all of this.
"""
import json
import os
import pathlib
import socket
import stat
import subprocess
import traceback
import uuid

from . import SimError, mounts, plan as plans, runtime, sysfs
import topo as topologies

HAS_NAMESPACES = "namespaces\n"
UVERBS_MAJOR, UVERBS_MINOR = 231, 192
RDMA_CM = 231, 255  # no misc device, as the kernel has it: its number could be another device's
DEV_NODES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "kmsg", "fuse", "kvm",
             "cpu_dma_latency", "net/tun")
GPUS = "nvidia*"  # nodes and folders of all GPUs of the machine: simulated hosts share them
DEV_DIRS = ("pts", "hugepages", "mqueue", "vfio")
AGENT_DIRS = ("/run/meshverbs", "/run/meshverbsd")  # of meshverbs' agent: each host has its own
SYSCTLS = {  # one NIC must not answer for another; addresses must be usable at once
    "ipv4/conf/all/arp_ignore": 1, "ipv4/conf/all/arp_announce": 2,
    "ipv4/conf/default/arp_ignore": 1, "ipv4/conf/default/arp_announce": 2,
    "ipv4/conf/all/rp_filter": 0, "ipv4/conf/default/rp_filter": 0,
    "ipv6/conf/all/accept_dad": 0, "ipv6/conf/default/accept_dad": 0,
    "ipv6/conf/all/accept_ra": 0, "ipv6/conf/default/accept_ra": 0,
    "ipv4/ping_group_range": "0 2147483647",
}


def set_sysctls(netdevs):
    for key, value in SYSCTLS.items():
        write_sysctl(key, value)
    for netdev in netdevs:
        name = netdev
        for key, value in (("arp_ignore", 1), ("arp_announce", 2), ("rp_filter", 0)):
            write_sysctl(f"ipv4/conf/{name}/{key}", value)
        for key, value in (("accept_dad", 0), ("accept_ra", 0)):
            write_sysctl(f"ipv6/conf/{name}/{key}", value)


def write_sysctl(key, value):
    path = pathlib.Path("/proc/sys/net") / key
    if path.exists():
        path.write_text(f"{value}\n")


def ip_batch(lines):
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise SimError(f"ip: {done.stderr.strip()}")


def network(plan, host, stand_ins):
    """Bring the netdevs up and give them their addresses and routes."""
    lines = ["link set lo up", f"addr add {plan.mgmt} dev mgmt0", "link set mgmt0 up",
             f"route add default via {plans.MGMT_NET[-2]} dev mgmt0"]
    for nic in plan.nics:
        lines.append(f"link set {nic.netdev} up")
        lines += [f"addr add {addr} dev {nic.netdev}{nodad(addr)}" for addr in nic.addrs]
        for vid, addrs in nic.vlans.items():
            name = f"{nic.netdev}.{vid}"
            if not stand_ins:
                lines.append(f"link add link {nic.netdev} name {name} type vlan id {vid}")
            lines.append(f"link set {name} up")
            lines += [f"addr add {addr} dev {name}{nodad(addr)}" for addr in addrs]
    lines += [f"route add {net} via {hop} dev eth{index}" for index, net, hop in host.routes]
    ip_batch(lines)
    if host.router:
        write_sysctl("ipv4/ip_forward", 1)
        write_sysctl("ipv6/conf/all/forwarding", 1)


def nodad(addr):
    return " nodad" if addr.version == 6 else ""


def make_dev(root, plan):
    mounts.tmpfs(root)
    for name in DEV_NODES:
        if os.path.exists(f"/dev/{name}"):
            (root / name).parent.mkdir(exist_ok=True)
            mounts.clone_node(f"/dev/{name}", root / name)
    for name in DEV_DIRS:
        if os.path.isdir(f"/dev/{name}"):
            mounts.bind(f"/dev/{name}", root / name)
    for path in pathlib.Path("/dev").glob(GPUS):
        if path.is_dir():
            mounts.bind(path, root / path.name)
        elif path.is_char_device():
            mounts.clone_node(path, root / path.name)
    mounts.tmpfs(root / "shm", "1777")
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (root / name).symlink_to(f"/proc/self/{target}")
    (root / "infiniband").mkdir()
    nodes = {f"uverbs{dev.minor}": (UVERBS_MAJOR, UVERBS_MINOR + dev.minor) for dev in plan.devices}
    for name, number in {**nodes, "rdma_cm": RDMA_CM}.items():
        try:
            mounts.device_node(root / "infiniband" / name, stat.S_IFCHR, 0o666, os.makedev(*number))
        except PermissionError:
            raise SimError("making a device node is not permitted here: this needs CAP_MKNOD (and a "
                           "container must be run with it)") from None


def make_files(files, plan):
    """The host's own view of the file system, in its mount namespace only."""
    work = pathlib.Path(files["work"])
    mounts.tmpfs(work)
    real = work / "real"
    real.mkdir()
    mounts.mount("sysfs", real, "sysfs", mounts.MS_NOSUID)
    sysfs.Tree(work / "sys", real).build(plan)
    make_dev(work / "dev", plan)
    for name, text in (("boot_id", f"{uuid.uuid4()}\n"), ("machine-id", f"{uuid.uuid4().hex}\n")):
        (work / name).write_text(text)
    mounts.bind(work / "boot_id", pathlib.Path("/proc/sys/kernel/random/boot_id"))
    if os.path.exists("/etc/machine-id"):
        mounts.bind(work / "machine-id", pathlib.Path("/etc/machine-id"))
    mounts.bind(files["hosts"], pathlib.Path("/etc/hosts"))
    for name in AGENT_DIRS:
        mounts.tmpfs(pathlib.Path(name))
    pathlib.Path(runtime.STATE_DIR).mkdir(0o700)
    mounts.bind(work / "dev", pathlib.Path("/dev"))
    mounts.bind(work / "sys", pathlib.Path("/sys"))


def become(line):
    """The host that line tells of."""
    files = json.loads(line)
    topo = topologies.load(files["topology"])
    plan = next(p for p in plans.hosts(topo) if p.name == files["host"])
    socket.sethostname(plan.name)
    set_sysctls([nic.netdev for nic in plan.nics])
    network(plan, topo.hosts[plan.name], files["stand_ins"])
    make_files(files, plan)
    os.execv(files["daemon"], [files["daemon"], files["config"]])


def child(told, says, log):
    """All of the new process, with these descriptors; does not return."""
    status = 1
    try:
        for number, fd in enumerate((told, says, log)):
            os.dup2(fd, number)
        os.closerange(3, 1 << 16)  # those of other hosts among them: they end with the launcher
        os.setsid()
        os.chdir("/")
        os.environ.pop("LD_PRELOAD", None)
        mounts.own_namespaces()
        os.write(1, HAS_NAMESPACES.encode())
        with os.fdopen(0, closefd=False) as lines:
            line = lines.readline()
        if line:
            become(line)
        status = 0  # the launcher gave up
    except (SimError, topologies.TopoError, OSError) as err:
        os.write(2, f"sim: {err}\n".encode())
    except BaseException:  # pylint: disable=broad-except
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


class Host:
    """The process, seen by the launcher."""

    def __init__(self, log):
        """log: path of a file for what it has to say of failures."""
        told, stdin = os.pipe()
        stdout, says = os.pipe()
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self.pid = os.fork()
        if not self.pid:
            child(told, says, file)
        for fd in (told, says, file):
            os.close(fd)
        self.stdin, self.stdout = os.fdopen(stdin, "w"), os.fdopen(stdout)
