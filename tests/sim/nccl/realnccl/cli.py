# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""An unmodified NCCL on simulated hosts, bare and with meshverbs: all_reduces, of which every number is checked.

connections: with NICs and GIDs that do not reach the next rank it has to fail bare and to work with meshverbs at all ends; elsewhere to work
with the same results. cable: pulled in the middle of a loop, bare it has to fail or hang; with `survive = on` to go on over the other NIC.
"""
import argparse
import math
import pathlib
import random
import re
import time

from nicmatrix.world import need, staged
from pulled.play import go_before

from . import paths, pulls, ranks, storm
from .ranks import Ranks

N_ROUNDS, N_ROUNDS_GPU = 1200, 300  # under which a cable is pulled
N_SHORT = 20  # over a connection


class Clock:
    """Lets cases begin for so many seconds, and keeps the names of the others."""

    def __init__(self, seconds):
        self.end, self.left = time.monotonic() + seconds, []

    def begin(self, cases):
        for case in cases:
            if time.monotonic() < self.end:
                yield case
            else:
                self.left.append(case.name)


def parse(words):
    top = argparse.ArgumentParser(prog="nccl", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("build", metavar="BUILD")
    top.add_argument("--gpu", action="store_true", help="by NCCL's own calls in a GPU's memory; both ranks may share one. Without: its NET/IB alone")
    top.add_argument("--half", choices=("stacked", "bare", "both"), default="both")
    top.add_argument("--part", choices=("connections", "cable", "both", "storm"), default="both",
                     help="storm: cables are pulled one after the other, with meshverbs only")
    top.add_argument("--only", metavar="REGEX", default="", help="of the cases' names")
    top.add_argument("--short", action="store_true", help=f"only {'; '.join((*paths.SHORT, *pulls.SHORT))}")
    top.add_argument("-n", dest="rounds", type=int, help=f"all_reduces under which cables are pulled; default: {N_ROUNDS}, with a GPU {N_ROUNDS_GPU}")
    top.add_argument("-s", dest="size", type=int, default=1 << 20, help="bytes of each; default: 1 MiB")
    top.add_argument("--seconds", type=float, default=math.inf, help="after which no connection or cable begins; those left are named, and the status is 1")
    top.add_argument("--seed", type=int, help="when and where the cable is pulled; default: a new one, printed")
    return top.parse_args(words)


def chosen(args, cases, short):
    return [case for case in cases if re.search(args.only, case.name) and (not args.short or case.name in short)]


def play(args, build, seed, halves, clock):
    """[(verdict, row)]"""
    looped = Ranks.find(build, args.gpu, args.rounds or (N_ROUNDS_GPU if args.gpu else N_ROUNDS), args.size)
    print(f"nccl: {looped.settings['NCCL_LIBRARY']}, seed {seed}", flush=True)
    known = ranks.knows(looped.settings["NCCL_LIBRARY"], ranks.FAILOVER, ranks.RECOVERY)
    if args.part == "storm":
        go_before()
        wanted = {name: more for name, more in storm.cases(known).items() if re.search(args.only, name)}
        return storm.run_all(build, looped, wanted, seed, args.gpu)
    done, wanted = [], chosen(args, paths.PATHS, paths.SHORT)
    if wanted and args.part != "cable":
        with staged(build) as stage:
            done += paths.run_all(build, stage, Ranks.find(build, args.gpu, N_SHORT, args.size), wanted, halves, args.gpu, clock.begin)
    wanted = chosen(args, pulls.cases(looped, known), pulls.SHORT)
    if wanted and args.part != "connections":
        go_before()
        done += pulls.run_all(build, looped, wanted, halves, seed, args.gpu, clock.begin)
    return done


def main(words=None):
    args = parse(words)
    need("ip", "bridge", "nft")
    seed = args.seed if args.seed is not None else random.randrange(1 << 32)
    clock = Clock(args.seconds)
    done = play(args, pathlib.Path(args.build).resolve(), seed, ("bare", "stacked") if args.half == "both" else (args.half,), clock)
    wrong = sum(verdict == "WRONG" for verdict, _ in done)
    if wrong:
        print("\n".join(["", *(row for _, row in done)]))
    print(f"nccl: {len(done) - wrong} of {len(done)} as they have to be")
    if clock.left:
        print(f"nccl: no time was left for {'; '.join(clock.left)}")
    return 0 if done and not wrong and not clock.left else 1
