# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Faults under traffic whose every work request is checked."""
import argparse
import collections
import pathlib
import random as randoms
import sys

from nicmatrix.world import need

from . import drive, faults, hosts, watch

BEGIN_S = 60.0
KILLED_S = 15.0  # retries of a bare queue pair, then move_timeout, on a slow machine
OF_AGENTS = ("agent", "control")
NO_ATOMICS = "send,send_imm,write,write_imm,private,read"


def parse(words):
    words = list(sys.argv[1:] if words is None else words)
    cut = words.index("--") if "--" in words else len(words)
    top = argparse.ArgumentParser(prog="run", description=__doc__, usage="%(prog)s [options] BUILD [-- OPTION-OF-CHAOS-TRAFFIC ...]")
    top.add_argument("build", metavar="BUILD")
    top.add_argument("-n", type=int, default=20, help="faults (default: 20)")
    top.add_argument("-g", "--group", type=int, default=5, help="faults in one run of the programs")
    top.add_argument("--seed", type=int, help="default: a new one, printed")
    top.add_argument("--faults", help="kinds, with commas between them (default: all; on InfiniBand those without probes)")
    top.add_argument("--topology", choices=hosts.TOPOLOGIES, default="pair", help="ibpair: InfiniBand, by LIDs; routed: a router between (default: pair)")
    top.add_argument("--half", choices=("bare", "stacked"), default="stacked")
    top.add_argument("--killed", action="store_true", help="instead, kill one end's process each time; the other has to get its errors")
    top.add_argument("--keep-on", action="store_true", help="after something was wrong, too")
    args = top.parse_args(words[:cut])
    args.traffic = words[cut + 1:]
    return args


def story(world):
    return "\n".join(f"-- log of {host}\n{world.told(host, 60)}\n-- its agent\n{world.agent_log(host)[-1500:]}"
                     for host in (hosts.SERVER, hosts.CLIENT)) if world.stacked else ""


def traffic_of(random):
    """Options for one run. Without atomics nothing may fail."""
    options = ["-t", "2", "-q", str(random.randrange(1, 4)), "-r", "200"]
    options += [flag for flag, chance in (("-e", 0.4), ("-1", 0.3), ("-S", 0.2)) if random.random() < chance]
    # Not with -S, for now: RTR of a new queue pair with an SRQ says EBUSY where the SRQ's port is down and moved ones use it.
    return options + (["-x"] if random.random() < 0.5 and "-S" not in options else ["-o", NO_ATOMICS])


def all_work(place, options):
    """Waits until each queue pair has completed something: one that a fault finds half connected may have no other path."""
    def wait(client, alive):
        if client.says("running", BEGIN_S):
            watch.Progress(place.world, (hosts.SERVER, hosts.CLIENT), watch.n_qps(options)).wait(alive, BEGIN_S, 1)
    return wait


def storm(args, place, program, seed):
    random = randoms.Random(seed)
    chosen = args.faults.split(",") if args.faults else faults.usual(place.world.has_infiniband())
    kinds = [kind for kind in chosen if place.world.stacked or kind not in OF_AGENTS]
    counts, errors, good, left, number = collections.Counter(), collections.Counter(), 0, args.n, 0
    while left > 0 and (good == number or args.keep_on):
        group = [random.choice(kinds) for _ in range(min(left, args.group))]
        left -= len(group)
        number += 1
        options = ["-s", str(seed + number), "-w", "15", *(args.traffic or traffic_of(random))]
        place.heal()
        begun = all_work(place, options) if place.world.stacked else None
        outcome = drive.run(place, program, [*options, "-P", watch.PATH] if begun else options, group, random,
                            lambda kind, what: print(f"   {kind}: {what}", flush=True), wait_begun=begun)
        counts.update(kind for kind, _ in outcome.done)
        errors.update((line.what, line.error) for lines in outcome.failures().values() for line in lines)
        may_fail = args.half == "bare" or any(kind in faults.NO_PATH for kind, _ in outcome.done)
        ok = outcome.consistent if may_fail else outcome.only_atomics
        good += ok
        print(f"run {number}: {'good' if ok else 'WRONG'}: {outcome.text()} ({' '.join(options)})", flush=True)
        if not ok:
            print(outcome.said + story(place.world), flush=True)
    print(f"{good} of {number} runs good; faults: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    for (what, error), count in sorted(errors.items()):
        print(f"surfaced: {count}: {what}: {error}")
    return good == number


def killed(args, place, program, seed):
    random, good = randoms.Random(seed), 0
    for number in range(args.n):
        place.heal()
        ok, took, said = drive.run_killed(place, program, args.traffic or ["-t", "1", "-q", "2", "-r", "200"], random, KILLED_S)
        good += ok
        print(f"killed {number}: {'errors' if ok else 'WRONG'} after {took:.2f} s", flush=True)
        if not ok:
            print(said + story(place.world), flush=True)
    print(f"{good} of {args.n} good")
    return good == args.n


def main(words=None):
    args = parse(words)
    need("ip", "nft", "bridge")
    build = pathlib.Path(args.build).resolve()
    program = build / "tests/chaos/chaos-traffic"
    if not program.exists():
        sys.exit(f"storm: no {program}; build it")
    seed = args.seed if args.seed is not None else randoms.randrange(1 << 32)
    print(f"storm: seed {seed}", flush=True)
    what = killed if args.killed else storm
    if args.half == "bare":
        with hosts.Hosts.up(build, topo=hosts.topology(args.topology)) as place:
            return 0 if what(args, place, str(program), seed) else 1
    with hosts.staged(build) as stage, hosts.Hosts.up(build, stage, topo=hosts.topology(args.topology)) as place:
        return 0 if what(args, place, str(program), seed) else 1
