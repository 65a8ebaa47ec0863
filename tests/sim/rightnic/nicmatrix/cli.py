# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The `matrix` command: every program, pair of hosts and choice of NICs."""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import pathlib
import queue
import random
import re
import sys
import threading

from . import cases as plans
from . import drive, report
from .programs import PROGRAMS
from .world import World, need, staged
import topo as topologies

TOPOLOGIES = ("triangle", "ring4")
OTHERS = ("flat", "linklocal", "ring4ll", "spur", "oneswitch", "routed", "pod8", "ibcards", "ibtrunk")
BARE_S, STACKED_S = 12, 60
BY_LID_S = 60  # bare, where no neighbour is looked for: what fails has used up its retries


def parse(words):
    top = argparse.ArgumentParser(prog="matrix", description=__doc__)
    top.add_argument("build", metavar="BUILD")
    top.add_argument("--topology", choices=TOPOLOGIES + OTHERS, action="append", help="default: " + ", ".join(TOPOLOGIES))
    top.add_argument("--no-hosts-file", action="store_true", help="hosts beyond routers stand in nobody's hosts file")
    top.add_argument("--short", action="store_true", help="one wrong choice for each program, some right ones")
    top.add_argument("--seed", type=int, help="of the sample (default: a new one, printed)")
    top.add_argument("--only", metavar="REGEX", help="cases by name, e.g. 'ib_write_bw a.0 < b.1'")
    top.add_argument("--half", choices=("bare", "stacked"), help="only this half of the proof")
    top.add_argument("--jobs", type=int, default=2, help="simulations side by side")
    top.add_argument("-o", dest="out", metavar="FILE", help="all results as JSON")
    return top.parse_args(words)


def run_all(topology, cases, build, stage, jobs, notify, hosts_file=None):
    """{Case: (result, what is wrong)}; jobs simulations, each running one case at a time."""
    stacked, todo, outcomes, lock = bool(stage), queue.SimpleQueue(), {}, threading.Lock()
    for case in cases:
        todo.put(case)

    def work(number):
        with World.up(topology, build, stage, f"{topology[:4]}{number}", hosts_file=hosts_file) as world:
            with contextlib.suppress(queue.Empty):
                while True:
                    case = todo.get_nowait()
                    bare_s = BY_LID_S if plans.by_lid(world.topo, case.client, case.client_nic) else BARE_S
                    result = drive.run(world, case, STACKED_S if stacked or case.right else bare_s)
                    wrong = plans.judge(case, stacked, result)
                    with lock:
                        outcomes[case] = result, wrong
                        notify(case, result, wrong)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(work, number) for number in range(min(jobs, len(cases)))]:
            done.result()
    return {case: outcomes[case] for case in cases}


def show(case, result, wrong):
    """Progress for people, on the screen only; and at once what went wrong."""
    if wrong:
        print(f"WRONG: {case.name}: {wrong}")
        for role in ("server", "client"):
            print(f"  {role} ended with {result[role]}:", *result["output"][role].strip().splitlines()[-6:], sep="\n    ")
        for host, text in result["log"].items():
            print(f"  log of {host}:", *text.strip().splitlines()[-6:], sep="\n    ")
        sys.stdout.flush()
    elif sys.stderr.isatty():
        print(f"\r\033[K{case.name}: {result['seconds']} s", end="", file=sys.stderr)


def chosen(args, topo):
    cases = [case for case in plans.all_cases(topo, PROGRAMS) if plans.can_start(topo, case)]
    if args.only:
        cases = [case for case in cases if re.search(args.only, case.name)]
    elif args.short:
        cases = plans.sample(cases, f"{args.seed} {pathlib.Path(topo.path).stem}", 2)
    return cases


def main(words=None):
    args = parse(words)
    need("ib_write_bw", "ibv_rc_pingpong", "ip")
    if args.short:
        args.seed = args.seed if args.seed is not None else random.randrange(1 << 16)
        print(f"matrix: seed {args.seed}")
    kept, bad = [], 0
    with staged(args.build) if args.half != "bare" else contextlib.nullcontext() as stage:
        for name in args.topology or TOPOLOGIES:
            cases = chosen(args, topologies.load(name))
            for stacked in [half for half in (False, True) if args.half in (None, "stacked" if half else "bare")]:
                outcomes = run_all(name, cases, args.build, stage if stacked else None, args.jobs, show, False if args.no_hosts_file else None)
                title = f"{name}, {'meshverbs at both ends' if stacked else 'bare'}"
                print("\n" + report.matrix(title, outcomes, stacked))
                wrong = sum(bool(text) for _, text in outcomes.values())
                ok = sum(result["ok"] for result, _ in outcomes.values())
                print(f"{title}: {len(cases)} cases, {ok} worked, {len(cases) - ok} failed; {wrong} not as they have to be", flush=True)
                bad += wrong
                kept += [{**dataclasses.asdict(case), "right": case.right, "topology": name, "stacked": stacked,
                          "wrong": text, **result} for case, (result, text) in outcomes.items()]
    if args.out:
        report.write_json(args.out, kept)
    return 1 if bad or not kept else 0
