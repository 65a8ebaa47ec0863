# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A cable is pulled in the middle of a loop of all_reduces."""
import contextlib
import random as randoms
import shlex
import time

from pulled import cli, judge
from pulled.play import Early, Play
from pulled.programs import Case
from schedule import hosts
from verbsmatrix.program import Program

from . import ranks
from .paths import FLUSH, MERGE, ONE, SPLIT

LIMIT_S = 580  # the test itself ends it before, when it is stuck
HEAD = cli.HEAD + f" {'longest':>11} results"


def command(program, rank, settings):
    """The program's words but for {port}, which play.py fills in. Names of settings have PORT in them."""
    words = map(shlex.quote, program.argv(rank, 2, hosts.SERVER, "@port@", LIMIT_S, settings)[1:])
    return " ".join(word if word != "@port@" else "{port}" for word in words)


def case(program, name, settings, **more):
    """Each rank gives and gets what an all_reduce has, once each way."""
    sane = (r"rank 0 of 2: \d+ all_reduces of \d+ bytes, every number right, results (?P<first>[0-9a-f]+);[^\0]*"
            r"rank 1 of 2: (?P<count>\d+) all_reduces of \d+ bytes, every number right, results (?P=first);")
    return Case(Program(name, command(program, 0, settings), command(program, 1, settings), sane, forbidden="nccl: wrong:"),
                2 * program.rounds * program.size / 1e6, program.rounds, **more)


def cases(program, known=()):
    """@known: which of NCCL's own failover and recovery it has. With a failover each case comes once with that off and once on."""
    if ranks.FAILOVER not in known:
        return cases_of(program, {}, "")
    on, merged = {ranks.FAILOVER: "1"} | ranks.BY_ID, {"failover": {}}
    if ranks.RECOVERY in known:
        merged["failover, recovery"] = {ranks.RECOVERY: "1"}
    return cases_of(program, {ranks.FAILOVER: "0"}, "") + cases_of(program, on, ", failover") + tuple(
        case(program, f"NCCL, NICs merged, {name}", MERGE | on | more, both_nics=True, heals_itself=True) for name, more in merged.items())


def cases_of(program, more, suffix):
    own = {"NCCL_IB_TIMEOUT": None}
    rows = (("one NIC", ONE, {}),
            ("one NIC, cable stays out", ONE, {"stays_out": True}),
            ("4 queue pairs, split", ONE | SPLIT, {}),
            ("its own timeouts", ONE | own, {}),
            ("both NICs", {}, {"both_nics": True}),
            ("flush of GPUDirect", ONE | FLUSH, {}),
            ("both NICs, flush", FLUSH, {"both_nics": True}))
    done = tuple(case(program, f"NCCL, {name}{suffix}", settings | more, **what) for name, settings, what in rows)
    return done if suffix else done + (case(program, "NCCL, NICs merged", MERGE | more, both_nics=True),)


SHORT = ("NCCL, flush of GPUDirect",)


def play(place, one, half, seed, build):
    """(verdict, row)"""
    begun, played = time.monotonic(), Play(place, one, randoms.Random(f"{seed} {one.name}"), build)
    try:
        out = played.go()
        verdict, wrong = getattr(judge, half)(one, out)
        if verdict == "failed" and None in (out.client, out.server):
            verdict = "hung"  # until it was ended; then the other rank found it gone
    except Early as err:
        out, verdict, wrong = played.out, "WRONG", str(err)
    said = "\n".join(out.said.values())
    ranks.skip_if_told(said)
    got, _ = ranks.results(said, 2, one.count)
    row = cli.row(one, half, verdict, out, time.monotonic() - begun) + f" {f'{ranks.longest(said):.1f} ms' if got else '-':>11} {got or '-'}"
    print(row, flush=True)
    if wrong:
        cli.explain(one, half, wrong, out)
    return verdict, row


def run_all(build, program, chosen, halves, seed, gpu, begin=iter):
    """[(verdict, row)]"""
    done = []
    print(HEAD, flush=True)
    for half in halves:
        with contextlib.ExitStack() as stack:
            stage = stack.enter_context(hosts.staged(build, hosts.PATIENT)) if half == "stacked" else None
            place = stack.enter_context(hosts.Hosts.up(build, stage, "nccl"))
            if not gpu:
                ranks.seem_gpudirect(place.world)
            done += [play(place, one, half, seed, build) for one in begin(chosen)]
    return done
