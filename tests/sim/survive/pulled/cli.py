# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A cable is pulled under unmodified programs, each when a part of its work is done, and plugged in again.

Two simulated hosts with two NICs each. With meshverbs, `survive = on` and agents, each program has to end with 0 at both ends and
right results, over the other NIC, and to return when the cable is back; or to fail as an atomic may. Bare, each has to fail or hang.
"""
import argparse
import contextlib
import pathlib
import random as randoms
import re
import time

from nicmatrix.world import need
from schedule import hosts

from . import REPO, judge
from .play import Early, Play, go_before
from .programs import CASES, INFINIBAND, SHORT

N_LINES = 60  # of the plugins' logs, where something was wrong
HEAD = f"{'program':34} {'half':8} {'verdict':9} {'pulled':6} {'after':>9} {'moves':>9} {'other NIC':>10} {'home':>7} {'ends':>9} {'s':>5}"


def parse(words):
    top = argparse.ArgumentParser(prog="programs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("build", metavar="BUILD")
    top.add_argument("--half", choices=("stacked", "bare", "both"), default="both")
    top.add_argument("--only", metavar="REGEX", default="", help="of the programs' names")
    top.add_argument("--topology", choices=("pair", "routed", "ibpair"), default="pair",
                     help="routed: each NIC in a subnet of its own, with a router between; ibpair: InfiniBand, programs that connect by LIDs")
    top.add_argument("--short", action="store_true", help="some of them: what ./check runs")
    top.add_argument("--seed", type=int, help="when and where it is pulled; default: a new one, printed")
    return top.parse_args(words)


def row(case, half, verdict, out, seconds):
    moves = "-" if half == "bare" else "{} and {}".format(*(len(out.moves(host)) for host in judge.ENDS))
    home = "-" if half == "bare" or verdict == "surfaced" or case.stays_out else "yes" if judge.returned(case, out) else "no time"
    return (f"{case.name:34} {half:8} {verdict:9} {out.pulled:6} {out.before:6.1f} MB {moves:>9} {out.away:7.1f} MB {home:>7} "
            f"{out.client!s:>4} {out.server!s:>4} {seconds:5.1f}")


def explain(case, half, wrong, out):
    """Print what was said, of something that is not as it has to be."""
    said = "".join(f"-- {who}\n{text[-3000:]}\n" for who, text in out.said.items())
    logs = "".join(f"-- log of {host}\n" + "\n".join(log.splitlines()[-N_LINES:]) + "\n" for host, log in out.logs.items() if log)
    print(f"{case.name}, {half}: {wrong}\n{said}{logs}", flush=True)


def play(place, case, half, seed, build):
    """(verdict, row of the table, whether it was on the primary path again)"""
    begun, one = time.monotonic(), Play(place, case, randoms.Random(f"{seed} {case.name}"), build)
    try:
        out = one.go()
        verdict, wrong = getattr(judge, half)(case, out)
    except Early as err:
        out, verdict, wrong = one.out, "WRONG", str(err)
    line = row(case, half, verdict, out, time.monotonic() - begun)
    print(line, flush=True)
    if wrong:
        explain(case, half, wrong, out)
    return verdict, line, judge.returned(case, out)


def run(build, half, cases, seed, topo):
    """[(verdict, row)]"""
    with contextlib.ExitStack() as stack:
        stage = stack.enter_context(hosts.staged(build, hosts.PATIENT)) if half == "stacked" else None
        place = stack.enter_context(hosts.Hosts.up(build, stage, "programs", topo=topo))
        done = [play(place, case, half, seed, build) for case in cases]
    rows = [(verdict, line) for verdict, line, _ in done]
    wrong = judge.none_returned(half, [home for _, _, home in done])
    return rows + [("WRONG", wrong)] if wrong else rows


def main(words=None):
    args = parse(words)
    need("ip", "bridge", "ib_write_bw", "ibv_rc_pingpong", "rping", "ucx_perftest", "mpiexec.mpich", "mpicc.mpich", "nft")
    build = pathlib.Path(args.build).resolve()
    cases = [case for case in (INFINIBAND if args.topology == "ibpair" else CASES) if re.search(args.only, case.name)]
    seed = args.seed if args.seed is not None else randoms.randrange(1 << 32)
    print(f"programs: seed {seed}", flush=True)
    go_before()
    print(HEAD, flush=True)
    done = []
    for half in ("stacked", "bare") if args.half == "both" else (args.half,):
        done += run(build, half, [case for case in cases if not args.short or case.name in SHORT[args.topology][half]], seed, REPO / f"tests/topo/{args.topology}.topo")
    wrong = sum(verdict == "WRONG" for verdict, _ in done)
    if wrong:
        print("\n".join(["", HEAD, *(line for _, line in done)]))
    print(f"programs: {len(done) - wrong} of {len(done)} as they have to be")
    return 0 if done and not wrong else 1
