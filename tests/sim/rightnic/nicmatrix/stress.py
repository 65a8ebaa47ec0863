# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The `stress` command: random sequences of connecting, traffic, breaking off and tearing down on many threads.

Bare, sequences over NICs that reach each other pass, which shows that the program asks for nothing but what verbs promise,
and the rest fails.  With meshverbs at both ends all pass.
"""
import argparse
import pathlib
import random
import re
import sys

from .world import World, need, staged

SERVER, CLIENT = "a", "b"
RIGHT, WRONG = ["-0", "0", "-1", "0"], ["-0", "1", "-1", "1"]  # of a and b in the triangle
SANITIZERS = ["ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=1:halt_on_error=1:exitcode=66",
              "TSAN_OPTIONS=halt_on_error=1:exitcode=66:second_deadlock_stack=1", "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"]
DONE = r"connstress: side \d, seed \d+: (\d+) sequences"


def parse(words):
    top = argparse.ArgumentParser(prog="stress", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("build", metavar="BUILD", help="of plugin and program; may be one of the presets asan and tsan")
    top.add_argument("--sim", metavar="BUILD", help="of HCA and agent, not sanitized (default: build/release beside BUILD, or BUILD)")
    top.add_argument("-n", type=int, default=10000, help="sequences (default: 10000)")
    top.add_argument("-t", type=int, default=8, help="threads on each host")
    top.add_argument("--seed", type=int, help="default: a new one, printed")
    top.add_argument("--first", type=int, default=0, help="number of each thread's first sequence, to repeat one")
    top.add_argument("--seconds", type=int, default=3600, help="it may take at most")
    top.add_argument("--without", action="append", default=[], metavar="WORD",
                     help="leave out srq, events, cq_ex, wr, breaks, bad-keys or rereg, to find out what matters")
    top.add_argument("--half", choices=("bare", "stacked"), help="only this half of the proof")
    return top.parse_args(words)


def together(world, program, options, seconds):
    """(both ended well, how many sequences, what they said)"""
    port = world.fresh_port() + 400  # and as many after it as there are threads
    ends = [world.start(host, "env", *SANITIZERS, program, str(side), SERVER, "-p", str(port), *options)
            for side, host in enumerate((SERVER, CLIENT))]
    world.port += 64
    statuses = []
    for end in ends:
        statuses.append(end.wait(seconds if not any(statuses) else 5))
    said = "".join(f"-- side {side}: {status}\n{end.said()}" for side, (status, end) in enumerate(zip(statuses, ends)))
    done = [int(n) for n in re.findall(DONE, said)]
    return statuses == [0, 0], done, said


def bare(args, sim, program, count):
    with World.up("triangle", sim, None, "stress") as world:
        ok, done, said = together(world, program, [*RIGHT, *args, "-n", str(count)], 600)
        print(said)
        if not ok or done != [count, count]:
            print("WRONG: bare, over NICs that reach each other")
            return False
        ok, _, said = together(world, program, [*WRONG, *args, "-n", "4"], 60)
        if ok or "Connection timed out" not in said:
            print(f"WRONG: bare, over NICs that do not reach each other:\n{said}")
            return False
    print("bare: passes over NICs that reach each other, fails over others", flush=True)
    return True


def stacked(args, sim, program, stage, count, seconds):
    with World.up("triangle", sim, stage, "stress") as world:
        ok, done, said = together(world, program, [*args, "-n", str(count)], seconds)
        print(said)
        if ok and done == [count, count]:
            print(f"with meshverbs: {count} sequences over any NICs pass", flush=True)
            return True
        print("WRONG: with meshverbs")
        for host in (SERVER, CLIENT):
            print(f"-- log of {host}\n{world.told(host)}\n-- its agent\n{world.agent_log(host)[-1500:]}")
    return False


def main(words=None):
    args = parse(words)
    need("ip")
    build = pathlib.Path(args.build).resolve()
    beside = build.parent / "release"
    sim = pathlib.Path(args.sim).resolve() if args.sim else beside if (beside / "sim/libsimhca.so").exists() else build
    program = build / "tests/sim/verbs/sim_connstress"
    if not program.exists():
        sys.exit(f"stress: no {program}; build it")
    seed = args.seed if args.seed is not None else random.randrange(1 << 32)
    print(f"stress: seed {seed}", flush=True)
    options = ["-s", str(seed), "-t", str(args.t), "-b", str(args.first)]
    options += [word for what in args.without for word in ("-x", what)]
    good = True
    if args.half != "stacked":
        good &= bare(options, sim, str(program), max(1, args.n // 10))
    if args.half != "bare":
        with staged(build) as stage:
            good &= stacked(options, sim, str(program), stage, args.n, args.seconds)
    return 0 if good else 1
