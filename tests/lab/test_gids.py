#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Wrong GID indexes on a real kernel: each case must fail bare and work stacked, or work in both ways untouched.

    test_gids.py BUILD_DIR [-k REGEX]     boots a pair of guests for it
    test_gids.py --lab NAME [-k REGEX]    uses a pair that is up with meshverbs and these tests' programs laid over it
"""
import argparse
import os
import pathlib
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


def run_cases(w, only):
    failed = count = 0
    for case in (case for module in CASES for case in module.cases() if re.search(only, case.name)):
        start = time.monotonic()
        outcomes = {mode: w.play(case, mode) for mode in world.MODES}
        wrong = judge.wrong(case, outcomes)
        judge.show(case.name, outcomes, wrong, time.monotonic() - start)
        failed += bool(wrong)
        count += 1
    for name, found, text in safety.answers(w) if re.search(only, "meshverbs") else ():
        judge.show_answer(f"meshverbs {name}", found, text)
        failed += bool(found)
        count += 1
    return failed, count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", metavar="BUILD_DIR")
    parser.add_argument("--lab", metavar="NAME")
    parser.add_argument("-k", dest="only", default="", metavar="REGEX", help="cases in whose names this is found")
    args = parser.parse_args()
    if not args.build and not args.lab:
        parser.error("BUILD_DIR or --lab is needed")
    if os.geteuid() != 0:
        print("lab-gids: skipped: needs root (guests read the host's root file system)")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    if args.lab:
        failed, count = run_cases(world.World(Lab.attach(args.lab)), args.only)
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
            return run_cases(world.World(lab), args.only)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(main())
