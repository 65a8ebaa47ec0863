#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Wrong GID indexes on a real kernel: each case must fail bare and work stacked, or work in both ways untouched.

    test_gids.py BUILD_DIR [-k REGEX]     boots a pair of guests for it
    test_gids.py --lab NAME [-k REGEX]    uses a pair that is up with meshverbs and these tests' programs laid over it
    test_gids.py BUILD_DIR --sample 8     that many cases of each kind's, chosen by --seed, and the questions to the tool
"""
import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from gids import cm, datagrams, judge, moved, safety, stage, untouched, world  # noqa: E402
from rdmalab import Lab  # noqa: E402
from rdmalab.progress import Progress  # noqa: E402

BOOT_S = 300.0  # for a machine with much other work
CASES = (moved, datagrams, cm, untouched, safety)


def choose(args):
    """The cases to run, in their order; a sample has some of every module."""
    modules = [[case for case in module.cases() if re.search(args.only, case.name)] for module in CASES]
    if not args.sample:
        return sum(modules, [])
    print(f"lab-gids: a sample of {args.sample}, --seed {args.seed}")
    pick = random.Random(args.seed)
    firsts = [case for cases in modules if cases for case in pick.sample(cases, 1)]
    rest = [case for cases in modules for case in cases if case not in firsts]
    chosen = firsts + pick.sample(rest, max(0, min(len(rest), args.sample - len(firsts))))
    return [case for cases in modules for case in cases if case in chosen]


def run_cases(w, args):
    failed = count = 0
    for case in choose(args):
        start = time.monotonic()
        outcomes = {mode: w.play(case, mode) for mode in world.MODES}
        wrong = judge.wrong(case, outcomes)
        judge.show(case.name, outcomes, wrong, time.monotonic() - start)
        failed += bool(wrong)
        count += 1
    for name, found, text in safety.answers(w) if re.search(args.only, "meshverbs") else ():
        judge.show_answer(f"meshverbs {name}", found, text)
        failed += bool(found)
        count += 1
    return failed, count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", metavar="BUILD_DIR")
    parser.add_argument("--lab", metavar="NAME")
    parser.add_argument("-k", dest="only", default="", metavar="REGEX", help="cases in whose names this is found")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="this many of them")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    args = parser.parse_args()
    if not args.build and not args.lab:
        parser.error("BUILD_DIR or --lab is needed")
    if os.geteuid() != 0:
        print("lab-gids: skipped: needs root (guests read the host's root file system)")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    if args.lab:
        failed, count = run_cases(world.World(Lab.attach(args.lab)), args)
    else:
        failed, count = in_new_lab(args)
    print(f"lab-gids: {count} cases, {failed} failed, {time.monotonic() - start:.0f} s")
    return 1 if failed or not count else 0


def in_new_lab(args):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="lab-gids."))
    try:
        stage.build(args.build, directory / "stage")
        name = f"gids-{os.getpid()}"
        with Lab.up("pair", name=name, overlays=[directory / "stage"], timeout=BOOT_S, progress=Progress(name)) as lab:
            return run_cases(world.World(lab), args)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(main())
