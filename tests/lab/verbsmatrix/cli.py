# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The `matrix` command."""
import argparse
import contextlib
import os
import pathlib
import random
import re
import signal
import sys
import time

from rdmalab import Lab, LabError
from rdmalab.progress import Progress

from . import drive, explained, programs, results, suite
from .simhosts import Simulation

SERVER, CLIENT, LINK = "b", "a", "l0"


def main():
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda number, _: sys.exit(128 + number))
    args = parser().parse_args()
    try:
        return args.function(args)
    except (LabError, ValueError, RuntimeError, OSError) as err:
        print(f"matrix: {err}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("matrix: interrupted", file=sys.stderr)
        return 130


def parser():
    top = argparse.ArgumentParser(prog="matrix", description="Unmodified verbs programs between two hosts.")
    verbs = top.add_subparsers(metavar="VERB", required=True)
    for name, function, text in (("run", do_run, "run the programs, client against server"),
                                 ("pyverbs", do_pyverbs, "run rdma-core's Python suite")):
        p = verbs.add_parser(name, help=text, description=text)
        p.set_defaults(function=function)
        p.add_argument("--label", required=True, help="what to call this run, e.g. bare or stacked")
        p.add_argument("-o", "--output", required=True, metavar="FILE", help="result file (JSON)")
        p.add_argument("--sim", metavar="BUILD", help="on simulated mlx5 hosts, made by that build; else on a lab's")
        p.add_argument("-n", "--name", metavar="LAB", help="use this lab, a pair that is up; else one is booted")
        p.add_argument("--overlay", metavar="DIR", action="append", default=[], help="as in lab up; with --sim: installed in each host, its front made")
        p.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="for the programs")
        p.add_argument("--seed", type=int, default=0, metavar="S", help="of --sample and --one-in")
        p.add_argument("--only", metavar="REGEX", default="", help="only names in which this is found")
        if name == "run":
            p.add_argument("--strict", action="store_true", help="exit status 1 if a program did not work")
            p.add_argument("--sample", type=int, metavar="N", help="the core of the list and N others, picked by --seed")
        if name == "pyverbs":
            p.add_argument("--timeout", type=float, default=20.0, metavar="S", help="for one test (20)")
            p.add_argument("--one-in", type=int, default=1, metavar="N", help="about every Nth test, picked by --seed")
    p = verbs.add_parser("explain", help="check that a pyverbs run's skips and failures are the explained ones")
    p.set_defaults(function=do_explain)
    p.add_argument("results", metavar="PYVERBS.json")
    p.add_argument("file", metavar="EXPLAINED")
    p.add_argument("--part", action="store_true", help="the run was a part of the suite: lines without use are in order")
    p = verbs.add_parser("compare", help="say what differs between two result files")
    p.set_defaults(function=do_compare)
    p.add_argument("one", metavar="BARE.json")
    p.add_argument("other", metavar="STACKED.json")
    p.add_argument("--names", metavar="FILE", help="write what differs there, as an expression for --only")
    return top


@contextlib.contextmanager
def hosts(args):
    """The hosts to use; a lab or simulation that was started for this run ends with it."""
    if args.sim:
        if args.name:
            raise LabError("-n names a lab; with --sim the hosts are made for the run")
        with Simulation.up("pair", f"matrix-{args.label}-{os.getpid()}", args.sim, args.overlay) as simulation:
            yield simulation
        return
    if args.name:
        if args.overlay:
            raise LabError("--overlay is for a lab that is booted; give it to 'lab up', or leave -n away")
        yield Lab.attach(args.name)
        return
    name = f"matrix-{args.label}"
    with Lab.up("pair", name=name, overlays=args.overlay, progress=Progress(name)) as lab:
        yield lab


def do_run(args):
    chosen = [p for p in programs.all_programs("sim" if args.sim else "lab") if re.search(args.only, p.name)]
    if args.sample is not None:
        chosen = sample(chosen, args.sample, args.seed)
    start = time.monotonic()
    found = {}
    with hosts(args) as place:
        for program in chosen:
            entry = drive.run(place, program, SERVER, CLIENT, LINK, args.env)
            found[program.name] = entry
            show("ok" if results.worked(entry) else "FAILED", program.name, entry["seconds"], entry["line"])
    return finish(args, "programs", found, start)


def sample(found, number, seed):
    """The core and `number` quick programs of the others, in the table's order; the same seed picks the same."""
    others = [p for p in found if not p.core and not p.slow]
    picked = random.Random(seed).sample(others, min(number, len(others)))
    return [p for p in found if p.core or p in picked]


def do_pyverbs(args):
    start = time.monotonic()
    with hosts(args) as place:
        found = suite.run(place, (CLIENT, SERVER), LINK, args,
                          lambda name, e: show(e["outcome"], name, e["seconds"], e["reason"]))
        taken = {host: place.overlaid(host) for host in (CLIENT, SERVER)} if place.logs else {}
    if taken:
        print("matrix: contexts that meshverbs took: " + ", ".join(f"{n} on {host}" for host, n in taken.items()))
        if not all(taken.values()):
            raise RuntimeError("meshverbs is installed, but was not active in the suite")
    return finish(args, "pyverbs", dict(sorted(found.items())), start)


def show(word, name, seconds, text):
    print(f"{word:8} {name:40} {seconds:6.2f} s  {' '.join(text.split())[:100]}", flush=True)


def finish(args, kind, found, start):
    seconds = time.monotonic() - start
    results.save(args.output, args.label, kind, found, seconds)
    failed = sum(not results.worked(e) for e in found.values())
    print(f"matrix {args.label}: {len(found)} {kind}, {failed} failed, {seconds:.0f} s; results in {args.output}")
    if not found:
        raise ValueError(f"nothing is called '{args.only}'")
    return 1 if failed and getattr(args, "strict", False) else 0


def do_explain(args):
    found = results.load(args.results)
    if found["kind"] != "pyverbs":
        raise ValueError(f"{args.results} holds {found['kind']}; only those of pyverbs are explained")
    kinds, new, stale = explained.check(found["results"], explained.load(args.file))
    for text, names in kinds.items():
        print(f"{len(names):4} {text}")
    for name, entry in new.items():
        print(f"NOT EXPLAINED in {args.file}: {name}: {results.essence(entry)}")
    for rule in [] if args.part else stale:
        print(f"{args.file}:{rule.line}: explains nothing any more: {rule.text}")
    return 1 if new or (stale and not args.part) else 0


def do_compare(args):
    one, other = results.load(args.one), results.load(args.other)
    if one["kind"] != other["kind"]:
        raise ValueError(f"{args.one} holds {one['kind']}, {args.other} {other['kind']}: not comparable")
    broken = [n for n, e in one["results"].items() if not results.worked(e)]
    if broken:
        print(f"Not working {one['label']} (the proof is that run's own output):")
        for name in broken:
            print(f"  {name}")
            for line in results.proof(one["results"][name]):
                print(f"      {line}")
    different = results.compare(one, other)
    if different:
        print(f"Different ({len(different)}):")
        for name in different:
            print(f"  {name}")
            for run in (one, other):
                print(f"      {run['label']:10} {results.essence(run['results'].get(name))}")
            if entry := other["results"].get(name):
                print("".join(f"      | {line}\n" for line in results.proof(entry)), end="")
    if args.names:
        pathlib.Path(args.names).write_text("|".join(f"^{re.escape(name)}$" for name in different))
    same = len(set(one["results"]) | set(other["results"])) - len(different)
    print(f"{same} the same ({len(broken)} of the {one['label']} ones not working), {len(different)} different")
    return 1 if different else 0
