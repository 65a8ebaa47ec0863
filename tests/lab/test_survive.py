#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A cable is pulled under programs on two Soft-RoCE guests with two links each, plugin, agent and survive = on in both.

Bare, ib_send_bw fails; with meshverbs, ib_write_bw, ib_send_bw, ibv_rc_pingpong -e and rping end as if nothing had been, over the
other link.

    test_survive.py BUILD_DIR [-k REGEX]
"""
import argparse
import os
import re
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rdmalab import kernel  # noqa: E402
from survive import cut, guests  # noqa: E402

# Soft-RoCE's QP 1 goes to ERR there when rdma_cm speaks while the carrier is gone, and stays in ERR, bare as well: no later connection.
CM_DIES = ("trixie", "sid")


def run(place, only):
    """(how many were wrong, how many there were)"""
    cases = [(cut.BARE_PROGRAM, False), *((program, True) for program in cut.PROGRAMS)]
    bad = count = 0
    for program, stacked in cases:
        name = f"{program.name}, {'stacked' if stacked else 'bare'}"
        if not re.search(only, name):
            continue
        if stacked and program.cm and kernel.suite() in CM_DIES:
            print(f"----  {name}: not with the kernel of {kernel.suite()}, whose rdma_cm does not come back with the cable", flush=True)
            continue
        start = time.monotonic()
        said = ""
        try:
            outcome = cut.play(place, program, stacked)
            wrong, said = cut.wrong(program, stacked, outcome), outcome.said
            what = (f"cable pulled after {outcome.cut_at:.1f} MB, ended with {outcome.client} and {outcome.server}, "
                    f"{outcome.other:.1f} MB over the other link")
        except cut.Cut as err:
            wrong, what = f"the cable was never pulled: {err}", ""
        print(f"{'WRONG' if wrong else 'ok   '} {name}: {wrong or what} ({time.monotonic() - start:.0f} s)", flush=True)
        if stacked and not wrong:
            for host, lines in outcome.moves.items():
                print(f"      {host}: {lines[0]}", flush=True)
        if wrong:
            print(said + cut.story(place), flush=True)
        bad += bool(wrong)
        count += 1
    return bad, count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_DIR")
    parser.add_argument("-k", dest="only", default="", metavar="REGEX", help="cases in whose names this is found")
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("lab-survive: skipped: needs root (guests read the host's root file system)")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    with guests.Guests.up(args.build, "survive") as place:
        bad, count = run(place, args.only)
    print(f"lab-survive: {count} cases, {bad} not as they have to be, {time.monotonic() - start:.0f} s")
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
