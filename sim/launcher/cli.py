# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The `sim` command."""
import argparse
import os
import signal
import subprocess
import sys
import time

import topo as topologies
from . import SimError, agents, fabric, lifecycle, runtime

FAULT_HELP = """what to do to the packets of a device, as its HCA sends (tx) or receives (rx) them:
  drop|corrupt|duplicate [dir=tx|rx|both] [class=request,ack,nak,response,ud|any] [qpn=N] [nth=N]
                         [skip=N] [every=N] [ppm=N] [limit=N]
  delay us=N [...]       as above
  clear [RULE]           all rules of the device, or one
  list                   rules with how many packets they saw and hit
  seed=N                 of the random choice by ppm
  dead | alive           the HCA answers nothing any more / again
  reset                  its driver lets go of it and takes it again: who had it open has to open it anew
  firmware us=N [at-once=N] [command=open,query,create,modify,reg_mr,dereg,destroy]
                         each such command of any process takes so long; without command= all; us=0: no time, as at first;
                         at-once: the device executes so many commands at a time, up to 32; without: any number
  late us=N              receives complete N microseconds after they were acknowledged, and LAST_WQE_REACHED comes as long after
                         that, as the specification allows; 0: at once again
  quirk NAME... | none   assumptions of meshverbs that the device breaks: psn-off-by-one, psn-highest, psn-moves, psn-messages,
                         psn-reads, psn-atomics, psn-count, late-dma, late-dmabuf, pushed-dma, pushed-dmabuf, late-reads,
                         late-srq, srq-hides, lost-flush, flush-order, wqe-format, ece; what each does is in quirk.h. Instead of those that were set before
  qp-fatal qpn=N         that QP goes to ERR by itself
  event TYPE             port-err, port-active, gid-change, lid-change, pkey-change, sm-change,
                         client-reregister, device-fatal: the asynchronous event alone"""


def topo_of(sim):
    return topologies.load(str(sim.dir / "topology.topo"))


def split_command(words):
    """Options and operands before "--", the command after it."""
    if "--" not in words:
        raise SimError("put the command after '--', e.g.: sim run pair a -- ibv_devices")
    cut = words.index("--")
    if not words[cut + 1:]:
        raise SimError("no command after '--'")
    return words[:cut], words[cut + 1:]


def only(args):
    """The hosts to start; None: all."""
    return args.only.split(",") if args.only else None


def do_up(args):
    sim = lifecycle.up(args.topology, args.name, args.build, args.seed, only(args))
    if args.agents:
        with_agents(sim)
    print(sim.name)
    return 0


def with_agents(sim):
    """Start an agent in each host of a simulation that was just put up, and wait; without them it goes again."""
    try:
        agents.start(sim, sim.hosts())
        agents.wait(sim, topo_of(sim))
    except BaseException:
        lifecycle.down(sim)
        raise


def do_agents(args):
    sim = runtime.choose(args.name)
    chosen = args.hosts or list(sim.hosts())
    for host in chosen:
        sim.pid(host)  # a SimError names the hosts there are
    if args.action == "start":
        agents.start(sim, chosen)
    if args.action == "stop":
        agents.stop(sim, chosen)
    if args.action == "kill":
        agents.kill(sim, chosen)
    if args.action in ("start", "wait"):
        print(f"all is known after {agents.wait(sim, topo_of(sim), args.hosts, args.seconds):.2f} s")
    return 0


def do_down(args):
    if args.all or args.stale:
        sims = [s for s in runtime.all_sims() if args.all or not s.alive()]
    elif args.name:
        sims = [runtime.Sim(args.name)]
        if not sims[0].exists():
            raise SimError(f"simulation '{args.name}' is not up")
    else:
        sims = [runtime.choose(None)]
    for sim in sims:
        lifecycle.down(sim)
    return 0


def do_exec(args):
    sim = runtime.choose(args.name)
    argv = lifecycle.command(sim, args.host, args.command)
    sys.stdout.flush()
    os.execvp(argv[0], argv)


def do_run(args):
    """In a simulation that is up under the topology's name, else in one made for this command."""
    with lifecycle.topology_errors():
        stem = topologies.find(args.topology).stem
    sim = runtime.Sim(args.name or stem)
    mine = not sim.alive()
    if mine:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
        sim = lifecycle.up(args.topology, args.name or f"{stem[:20]}-{os.getpid()}", args.build, args.seed, only(args))
        if args.agents:
            with_agents(sim)
    try:
        return subprocess.run(lifecycle.command(sim, args.host, args.command), check=False).returncode % 256
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        if mine:
            lifecycle.down(sim)


def do_link(args):
    sim = runtime.choose(args.name)
    record = sim.record()
    with lifecycle.topology_errors():
        topo = topo_of(sim)
        fabric.carrier(topo, sim.fabric, args.what, args.state == "on", record["stand_ins"], record["hosts"])
    return 0


def do_plug(args):
    sim = runtime.choose(args.name)
    with lifecycle.topology_errors():
        topo = topo_of(sim)
        nic = topo.nic(args.port)
        if nic.host in sim.hosts():
            raise SimError(f"{args.port} belongs to a host of '{sim.name}'; plug in for one that was left out by --only")
        fabric.plug_netdev(topo, sim.fabric, args.port, args.netdev)
    return 0


def do_addr(args):
    sim = runtime.choose(args.name)
    words = args.port.split(".")
    with lifecycle.topology_errors():
        nic = topo_of(sim).nic(".".join(words[:2]))
    netdev = ".".join([nic.netdev, *words[2:]])
    extra = ["nodad"] if args.action == "add" and ":" in args.address else []
    fabric.ip("-n", sim.netns(nic.host), "addr", args.action, args.address, "dev", netdev, *extra)
    return 0


def do_fault(args):
    sim = runtime.choose(args.name)
    with lifecycle.topology_errors():
        nic = topo_of(sim).nic(args.port)
    answer = sim.control(nic.host, " ".join([f"mlx5_{nic.index}", *args.words]))
    if answer.strip() not in ("", "ok"):
        print(answer.rstrip())
    return 0


def do_cm(args):
    print(runtime.choose(args.name).control(args.host, "cm").rstrip())
    return 0


def do_script(args):
    """Timed faults: lines "MILLISECONDS link|addr|fault ARGUMENTS", counted from the start of the script."""
    with open(args.file, encoding="utf-8") as file:
        lines = [line.split("#", 1)[0].split() for line in file]
    start, status = time.monotonic(), 0
    for number, words in enumerate(lines, 1):
        if not words:
            continue
        if not words[0].isdigit() or len(words) < 2 or words[1] not in ("link", "addr", "fault"):
            raise SimError(f"{args.file}:{number}: write: MILLISECONDS link|addr|fault ARGUMENTS")
        time.sleep(max(0.0, start + int(words[0]) / 1000 - time.monotonic()))
        name = ["-n", args.name] if args.name else []
        status |= run([words[1], *name, *words[2:]])
    return status


def do_status(args):
    sims = [runtime.Sim(args.name)] if args.name else runtime.all_sims()
    for sim in sims:
        if not sim.exists():
            raise SimError(f"simulation '{sim.name}' is not up")
        record = sim.record()
        if not sim.alive():
            print(f"{sim.name}: stale (take it away with: sim down {sim.name})")
            continue
        print(f"{sim.name}: up, {record['topology']}" + ("" if record["hca"] else ", without HCA library"))
        if record["stand_ins"]:
            print("  VLANs are separate wires: this kernel has no 802.1Q")
        for host in record["hosts"]:
            print("\n".join(f"  {host} {line}" for line in sim.control(host, "status").splitlines()))
        if agents.running(sim):
            print(f"  agents in: {' '.join(agents.running(sim))}")
    return 0


def parser():
    top = argparse.ArgumentParser(prog="sim", description="Simulated mlx5 hosts in network namespaces.")
    commands = top.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    def add(verb, function, text, named=True, **kwargs):
        sub = commands.add_parser(verb, help=text, description=text, **kwargs)
        sub.set_defaults(function=function)
        if named:
            sub.add_argument("-n", "--name", help="simulation; not needed while only one is up")
        return sub

    for verb, function, text in (("run", do_run, "run a command in a host, putting the topology up for it"),
                                 ("up", do_up, "put a topology up")):
        sub = add(verb, function, text)
        sub.add_argument("--build", metavar="DIR", help="build directory (default: SIM_BUILD, build/release)")
        sub.add_argument("--seed", type=int, default=1, help="of random faults")
        sub.add_argument("--agents", action="store_true", help="start meshverbs' agent in each host, wait until they know all")
        sub.add_argument("--only", metavar="HOST,...", help="these hosts; the rest is nowhere, or somewhere else: see plug")
        sub.add_argument("topology", metavar="TOPO", help="file, or name of a shipped topology")
        if verb == "run":
            sub.add_argument("host", metavar="HOST")
    add("exec", do_exec, "run a command in a host: sim exec HOST -- CMD").add_argument("host", metavar="HOST")
    sub = add("agents", do_agents, "start, end or wait for meshverbs' agents in hosts of a simulation that is up")
    sub.add_argument("--seconds", type=float, default=agents.WAIT_SECONDS, help="to wait until they know all")
    sub.add_argument("action", choices=("start", "stop", "kill", "wait"))
    sub.add_argument("hosts", metavar="HOST", nargs="*", help="default: all")
    sub = add("link", do_link, "pull or plug a cable")
    sub.add_argument("what", metavar="LINK|HOST.INDEX", help="all ends of a link, or one port")
    sub.add_argument("state", choices=("on", "off"))
    sub = add("plug", do_plug, "put a netdev of the cables' namespace in the place of a NIC that is not simulated")
    sub.add_argument("port", metavar="HOST.INDEX")
    sub.add_argument("netdev", metavar="NETDEV")
    sub = add("addr", do_addr, "add or remove an address")
    sub.add_argument("action", choices=("add", "del"))
    sub.add_argument("port", metavar="HOST.INDEX[.VLAN]")
    sub.add_argument("address", metavar="ADDR/PREFIX")
    sub = add("fault", do_fault, "make packets, QPs and HCAs fail",
              formatter_class=argparse.RawDescriptionHelpFormatter, epilog=FAULT_HELP)
    sub.add_argument("port", metavar="HOST.INDEX")
    sub.add_argument("words", metavar="ACTION", nargs="+")
    add("cm", do_cm, "list the connection manager's identifiers of a host").add_argument("host", metavar="HOST")
    add("script", do_script, "run a file of timed links, addresses and faults").add_argument("file", metavar="FILE")
    add("status", do_status, "show what is up")
    sub = add("down", do_down, "take a simulation down", named=False)
    sub.add_argument("name", nargs="?", metavar="NAME")
    sub.add_argument("--all", action="store_true", help="all of them")
    sub.add_argument("--stale", action="store_true", help="those whose daemons are gone")
    return top


def run(words):
    command = None
    if words[:1] in (["run"], ["exec"]) and "-h" not in words and "--help" not in words[:2]:
        words, command = split_command(words)
    args = parser().parse_args(words)
    args.command = command
    return args.function(args)


def main(words=None):
    try:
        return run(sys.argv[1:] if words is None else words)
    except (SimError, topologies.TopoError) as err:
        print(f"sim: {err}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
