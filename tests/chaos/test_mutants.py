#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A plugin whose replay makes a mistake is found out by the traffic program: test_mutants.py BUILD"""
import pathlib
import random
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from schedule import drive, hosts  # noqa: E402  (the path comes first)
from schedule.cli import NO_ATOMICS, need  # noqa: E402

MISTAKES = {0: "none", 1: "skips one", 2: "repeats one", 3: "PSN off by one", 4: "reorders"}
TRIES = 4  # of three faults: one with nothing outstanding shows nothing
OPTIONS = ["-t", "2", "-q", "3", "-r", "300", "-w", "10", "-o", NO_ATOMICS]


def found(build, mutant):
    """What the programs said when they noticed; None when they did not."""
    with hosts.staged(build) as stage:
        plugins = list(pathlib.Path(stage).rglob("meshverbs-provider.so"))
        assert len(plugins) == 1, plugins
        if mutant:
            shutil.copyfile(build / f"tests/chaos/mutant-{mutant}.so", plugins[0])
        with hosts.Hosts.up(build, stage, f"mutant{mutant}") as place:
            for attempt in range(TRIES if mutant else 1):
                place.heal()
                outcome = drive.run(place, str(build / "tests/chaos/chaos-traffic"), ["-s", str(attempt), *OPTIONS],
                                    ["cable", "cable", "cable"], random.Random(attempt))
                if not outcome.only_atomics:
                    return f"{outcome.text()}: {outcome.complaint()}"
    return None


def main():
    need("ip", "nft", "bridge")
    build = pathlib.Path(sys.argv[1]).resolve()
    missed = 0
    for mutant, what in MISTAKES.items():
        said = found(build, mutant)
        print(f"mutant {mutant} ({what}): {said or 'NOT FOUND'}", flush=True)
        missed += bool(mutant) != bool(said)
    return 1 if missed else 0


sys.exit(main())
