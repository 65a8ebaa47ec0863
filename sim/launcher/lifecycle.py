# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Putting a simulation up and taking it down; whatever fails half-way is taken down again."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import topo as topologies
from . import SimError, fabric, hostinit, plan as plans
from .runtime import Sim, start_time

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[1]
NEEDED = {"ip": "iproute2", "nsenter": "util-linux"}


def check_machine():
    if os.geteuid() != 0:
        raise SimError("simulated hosts are network and mount namespaces: run as root")
    for tool, package in NEEDED.items():
        if not shutil.which(tool):
            raise SimError(f"'{tool}' is not installed; apt-get install {package}")


def build_dir(given):
    """Where simhostd and libsimhca.so were built."""
    path = pathlib.Path(given or os.environ.get("SIM_BUILD") or REPO / "build/release").resolve()
    if not (path / "sim/simhostd").is_file():
        raise SimError(f"no simhostd in {path}; build it (cmake --preset release && cmake --build build/release) "
                       "or name the build with --build DIR or SIM_BUILD")
    return path


def find_hca(build):
    """The preload library; None while it is not built (then hosts have everything but verbs)."""
    path = build / "sim/libsimhca.so"
    return str(path) if path.is_file() else None


def unname(netns):
    subprocess.run(["ip", "netns", "del", netns], capture_output=True, check=False)


@contextlib.contextmanager
def topology_errors():
    try:
        yield
    except topologies.TopoError as err:
        raise SimError(str(err)) from None


def chosen(topo, hosts, only):
    """The plans of the hosts to start: all, or those that `only` names."""
    unknown = [name for name in only or () if name not in topo.hosts]
    if unknown:
        raise SimError(f"no host '{unknown[0]}' in {topo.path}; it has: {' '.join(topo.hosts)}")
    return [plan for plan in hosts if not only or plan.name in only]


def up(topo_name, name, build, seed=1, only=None):
    """Start the hosts of a topology (or `only` some) under `name`; the Sim.

    A stale one of that name is cleaned away first.
    """
    check_machine()
    build = build_dir(build)
    with topology_errors():
        path = topologies.find(topo_name)
        topo = topologies.load(topo_name)
        hosts = chosen(topo, plans.hosts(topo), only)
    sim = Sim(name or path.stem)
    with sim.locked():
        if sim.alive():
            raise SimError(f"simulation '{sim.name}' is up already; use it, or another --name")
        sim.remove(unname)
        sim.dir.mkdir(parents=True)
        try:
            start(sim, topo, hosts, path, build, seed)
        except BaseException:
            save_logs(sim)
            sim.remove(unname)
            raise
    return sim


def save_logs(sim):
    """What the daemons said is the reason for a failed start: show it before it is removed."""
    for path in sorted(sim.dir.glob("*.log")):
        text = path.read_text(errors="replace").strip()
        if text:
            print(f"{path.stem}: {text}", file=sys.stderr)


def start(sim, topo, hosts, path, build, seed):
    copy = sim.dir / "topology.topo"
    copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (sim.dir / "hosts").write_text(plans.etc_hosts(topo))
    fabric.ip("netns", "add", sim.fabric)
    # Where the machine has br_netfilter loaded, each frame in a bridge would be routed and filtered as by a host.
    subprocess.run(["ip", "netns", "exec", sim.fabric, "sh", "-c",
                    "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; "
                    "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6; "
                    "for kind in ip ip6 arp; do echo 0 >/proc/sys/net/bridge/bridge-nf-call-${kind}tables; done"],
                   check=False, capture_output=True)
    stand_ins = any(nic.vlans for nic in topo.nics()) and not fabric.kernel_has_vlans(sim.fabric)
    record = {"name": sim.name, "topology": str(path), "stand_ins": stand_ins, "build": str(build),
              "hca": find_hca(build), "seed": seed, "off": [], "hosts": {}}
    children = {plan.name: hostinit.Host(sim.dir / f"{plan.name}.log") for plan in hosts}
    try:
        record["hosts"] = {host: [child.pid, start_time(child.pid)] for host, child in children.items()}
        sim.write_record(record)
        for host, child in children.items():
            if child.stdout.readline() != hostinit.HAS_NAMESPACES:
                raise SimError(f"host {host} cannot have namespaces")
            fabric.ip("netns", "attach", sim.netns(host), str(child.pid))
        fabric.plug(topo, sim.fabric, {host: child.pid for host, child in children.items()}, stand_ins)
        for plan in hosts:
            tell(sim, plan, topo, children[plan.name], build, seed, stand_ins)
        for host, child in children.items():
            if child.stdout.readline() != "ready\n":
                raise SimError(f"host {host} did not start")
    finally:
        for child in children.values():
            with contextlib.suppress(OSError):
                child.stdin.close()
            child.stdout.close()
    record["ready"] = True
    sim.write_record(record)


def tell(sim, plan, topo, child, build, seed, stand_ins):
    """Write the host's configuration and let it go on."""
    config = sim.dir / f"{plan.name}.conf"
    config.write_text(plans.daemon_config(plan, topo, sim.dir / f"{plan.name}.state",
                                          sim.dir / f"{plan.name}.sock", seed, stand_ins))
    work = sim.dir / f"{plan.name}.fs"
    work.mkdir()
    try:
        child.stdin.write(json.dumps({
            "host": plan.name, "topology": str(sim.dir / "topology.topo"), "work": str(work),
            "hosts": str(sim.dir / "hosts"), "stand_ins": stand_ins, "config": str(config),
            "daemon": str(build / "sim/simhostd")}) + "\n")
        child.stdin.flush()
    except BrokenPipeError:
        raise SimError(f"host {plan.name} ended before it was set up") from None


def down(sim):
    """Take away whatever is left of it, alive or stale."""
    check_machine()
    with sim.locked():
        sim.remove(unname)


def command(sim, host, argv):
    """argv of a process that runs the command argv in a host, in the caller's directory and environment.

    The preload is set by env(1) inside the host, so that nsenter itself runs without it. (Debian 11's has no --wdns either.)
    """
    record = sim.record()
    inside = ["nsenter", "-t", str(sim.pid(host)), "--net", "--mount", "--uts", "--ipc"]
    settings = [f"SIM_STATE={sim.dir / f'{host}.state'}", f"SIM_HOST={host}", f"SIM_NAME={sim.name}"]
    if record.get("hca"):
        preload = os.environ.get("LD_PRELOAD")
        settings.append("LD_PRELOAD=" + (f"{preload}:" if preload else "") + record["hca"])
    return [*inside, "env", f"--chdir={os.getcwd()}", *settings, *argv]
