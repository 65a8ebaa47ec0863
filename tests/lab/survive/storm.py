# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The faults of tests/chaos/schedule on guests, and what is to be thought of each run."""
import collections
import random as randoms
import re

from schedule import cli, drive, faults

from . import stalls
from .guests import TRAFFIC

RATE = "10"  # operations per second, queue pair and direction: what the emulator keeps up with
# retry_cnt 7 is "for ever" for rxe: what is lost without a port going down would be noticed by nobody.
COMMON = ["-r", RATE, "-T", "16", "-R", "6", "-w", "60"]
WRONG, GOOD, VOID = "WRONG", "good", "void"
TRIES = 3  # runs for each that is wanted; more void ones are too many


def traffic_of(random):
    """Options for one run: as in the simulator, but fewer queue pairs. Without atomics nothing may fail."""
    options = ["-t", str(random.randrange(1, 3)), "-q", str(random.randrange(1, 4))]
    options += [flag for flag, chance in (("-e", 0.4), ("-1", 0.3), ("-S", 0.2)) if random.random() < chance]
    return options + (["-x"] if random.random() < 0.5 and "-S" not in options else ["-o", cli.NO_ATOMICS])


def judge(outcome, kinds, stalled_s):
    """
    WRONG, GOOD, or VOID: something failed, but all that was executed was executed once and in its turn, and a guest had stood still
    for so long that the other had to give it up (docs/guarantees.md: two seconds). Violations are never excused.
    """
    may_fail = any(kind in faults.NO_PATH for kind in kinds)
    if outcome.consistent if may_fail else outcome.only_atomics:
        return GOOD
    if re.search(r"VIOLATION: (?!.*process is gone)", outcome.said):
        return WRONG
    return VOID if stalled_s >= stalls.LONG_S else WRONG


def storm(place, seed, n_faults, n_group, kinds, options):
    """Return: whether so many faults were survived in runs that count."""
    random, tally, survived, surfaced = randoms.Random(seed), collections.Counter(), collections.Counter(), collections.Counter()
    number, most = 0, TRIES * -(-n_faults // n_group)
    while sum(survived.values()) < n_faults and not tally[WRONG] and number < most:
        group = [random.choice(kinds) for _ in range(min(n_group, n_faults - sum(survived.values())))]
        number += 1
        words = ["-s", str(seed + number), *COMMON, *(options or traffic_of(random))]
        place.heal()
        watch = stalls.Watch(place.lab)
        outcome = drive.run(place, TRAFFIC, words, group, random, lambda kind, what: print(f"   {kind}: {what}", flush=True))
        stalled_s = watch.end()
        verdict = judge(outcome, group, stalled_s)
        tally[verdict] += 1
        print(f"run {number}: {verdict}: {outcome.text()}; stood still for {stalled_s:.1f} s ({' '.join(words)})", flush=True)
        if verdict == GOOD:
            survived.update(kind for kind, _ in outcome.done)
            surfaced.update((line.what, line.error) for lines in outcome.failures().values() for line in lines)
        else:
            print((outcome.said if verdict == WRONG else outcome.complaint()) + (cli.story(place) if verdict == WRONG else ""), flush=True)
    print(f"{sum(survived.values())} of {n_faults} faults survived: " + ", ".join(f"{n} {kind}" for kind, n in sorted(survived.items())))
    print("runs: " + ", ".join(f"{n} {verdict}" for verdict, n in sorted(tally.items())))
    for (what, error), count in sorted(surfaced.items()):
        print(f"surfaced: {count}: {what}: {error}")
    return sum(survived.values()) >= n_faults and not tally[WRONG]


def killed(place, seed, n, options):
    """One end's process is killed, n times. Return: whether the other one always got its errors."""
    random, good = randoms.Random(seed), 0
    for number in range(n):
        place.heal()
        ok, took, said = drive.run_killed(place, TRAFFIC, [*COMMON, *(options or ["-t", "1", "-q", "2"])], random, cli.KILLED_S)
        good += ok
        print(f"killed {number}: {'errors' if ok else 'WRONG'} after {took:.2f} s", flush=True)
        if not ok:
            print(said + cli.story(place), flush=True)
    print(f"{good} of {n} good")
    return good == n
