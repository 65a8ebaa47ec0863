# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The agent of meshverbs in simulated hosts: one per host, as on real ones; it ends with the host."""
import ipaddress
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

from . import SimError, directory, lifecycle, runtime

RUN_DIR = "/run/meshverbs"
STATE_DIR = runtime.STATE_DIR
CONTROL = "/run/meshverbsd/control"
WAIT_SECONDS = 60
PRIORITY = ["chrt", "--rr", "1"]
# No kernel has the simulated queue pairs, so nobody can say whose they are.
TRUST = "MESHVERBS_TEST_TRUST_REGISTRATIONS=1"
UNSAID = dict.fromkeys(("state", "rail", "rail_gid", "rail_peer_gid", "standby", "movable", "why", "reason"))  # of a queue pair not reported yet
_children = []  # kept, for they outlive what started them and nobody waits for them


def binary(sim, host):
    record = sim.record()
    path = pathlib.Path(record.get("agent_builds", {}).get(host, record["build"])) / "meshverbsd/meshverbsd"
    if not path.is_file():
        raise SimError(f"no agent in {path.parent}; build it first")
    return str(path)


def running(sim):
    """{host: pid} of the agents that live."""
    known = sim.record().get("agents", {})
    return {host: pid for host, (pid, started) in known.items() if runtime.start_time(pid) == started}


def log_path(sim, host):
    return sim.dir / f"{host}.agent.log"


def spawn(sim, host, program, args):
    """Without the HCA's preload: it is for programs that open the device, the agent reads what the kernel shows.

    With the priority of the HCAs' threads (sim/hca/process/engine.c): a real HCA takes no processor away from it.
    """
    argv = lifecycle.command(sim, host, ["env", "-u", "LD_PRELOAD", TRUST, *PRIORITY, program, "--foreground", "--run-dir", RUN_DIR, "--state-dir", STATE_DIR, *args])
    with open(log_path(sim, host), "a", encoding="utf-8") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def start(sim, hosts, args=()):
    """Start those that do not run yet."""
    there = running(sim)
    children = {host: spawn(sim, host, binary(sim, host), args) for host in hosts if host not in there}
    _children.extend(children.values())
    record = sim.record()
    agents = {host: pair for host, pair in record.get("agents", {}).items() if host in there}
    agents.update({host: [child.pid, runtime.start_time(child.pid)] for host, child in children.items()})
    record["agents"] = agents
    sim.write_record(record)
    for host, child in children.items():
        try:
            child.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        raise SimError(f"the agent of {host} ended at once:\n{log_path(sim, host).read_text(errors='replace')[-2000:]}")


def come_from(sim, host, build):
    """The agent of that host is of another build from now on, when it is started."""
    record = sim.record()
    record.setdefault("agent_builds", {})[host] = str(build)
    sim.write_record(record)


def stop(sim, hosts):
    runtime.end([pid for host, pid in running(sim).items() if host in hosts])


def kill(sim, hosts):
    """As kill -9 would: nothing is tidied up."""
    for host, pid in running(sim).items():
        if host in hosts:
            os.kill(pid, signal.SIGKILL)


def ask(sim, host, what):
    """What the agent of a host answers to `meshverbs`: a status, peers, qps, openmetrics; OSError while none answers.

    For tests that wait for a change: to start the tool for each look takes more of the processor than what is tested.
    """
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(WAIT_SECONDS)
        sock.connect(f"/proc/{sim.pid(host)}/root{CONTROL}")
        sock.sendall(json.dumps({"get": what}).encode() + b"\n")
        said = b""
        while part := sock.recv(1 << 16):
            said += part
    return said.decode()


def qps(sim, host):
    """As `meshverbs qps --json` has them; none while no agent answers."""
    try:
        known = json.loads(ask(sim, host, "qps"))["qps"]
    except OSError:
        return []
    return [{**UNSAID, **qp, **{key: None if value == "" else value for key, value in qp.get("status", {}).items()}} for qp in known]


def active(sim, host, device):
    """Whether the port is up, as the host's own /sys has it."""
    path = pathlib.Path(f"/proc/{sim.pid(host)}/root/sys/class/infiniband/{device}/ports/1/state")
    try:
        return path.read_text().startswith("4")
    except OSError:
        return False


def expected(sim, topo, host, others):
    """{(own device, other host, its device)} that the agent has to hear of, as ports and cables are now."""
    found = set()
    for nic in topo.hosts[host].nics.values():
        if not active(sim, host, f"mlx5_{nic.index}"):
            continue
        found |= {(f"mlx5_{nic.index}", other.host, f"mlx5_{other.index}") for other in topo.neighbours(nic)
                  if other.host in others and other.host != host and active(sim, other.host, f"mlx5_{other.index}")}
    return found


def image(sim, host):
    """What is in the directory's file of a host; b"" while there is none."""
    try:
        return pathlib.Path(f"/proc/{sim.pid(host)}/root{RUN_DIR}/directory").read_bytes()
    except OSError:
        return b""


def read(sim, host):
    """The Directory of a host; None while there is none."""
    there = image(sim, host)
    try:
        return directory.parse(there) if there else None
    except directory.BadDirectory as err:
        raise SimError(f"the agent of {host} wrote a bad directory: {err}") from None


def knows(sim, host, address):
    """Whether an IPv4 address is in the directory of a host."""
    return bytes(10) + b"\xff\xff" + ipaddress.ip_interface(address).ip.packed in image(sim, host)


def lacking(sim, topo, host, others):
    """What the host's agent does not know yet, as text; "" when nothing."""
    seen = read(sim, host)
    if not seen:
        return f"{host}: no directory"
    missing = sorted(expected(sim, topo, host, others) - seen.links)
    return f"{host}: " + ", ".join(f"{other}'s {theirs} on {ours}" for ours, other, theirs in missing) if missing else ""


def wait(sim, topo, hosts=None, seconds=WAIT_SECONDS):
    """Until each agent hears all hosts that are on a cable or switch with its own; seconds that took."""
    begun = time.monotonic()
    others = set(running(sim))
    while True:
        dead = [host for host in hosts or others if host not in running(sim)]
        if dead:
            raise SimError(f"the agent of {dead[0]} is not running; it said:\n"
                           + (log_path(sim, dead[0]).read_text(errors="replace")[-2000:] if log_path(sim, dead[0]).exists() else ""))
        wanting = [text for host in hosts or sorted(others) if (text := lacking(sim, topo, host, others))]
        took = time.monotonic() - begun
        if not wanting:
            return took
        if took > seconds:
            raise SimError(f"after {seconds:g} s agents do not know all they could: {'; '.join(wanting)} "
                           f"(logs: {sim.dir}/HOST.agent.log)")
        time.sleep(0.02)
