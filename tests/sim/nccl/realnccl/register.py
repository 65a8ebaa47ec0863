# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Registrations of a GPU's memory (sim_gpu_register): the same answers bare and with meshverbs, right data, a cable pulled."""
import contextlib
import re

from pulled import cli
from pulled.programs import Case
from schedule import hosts
from verbsmatrix.program import Program

from . import pulls, ranks

N_ROUNDS, N_SHORT, BYTES = 200, 5, 256 << 10  # under a cable; without; of a region and direction
N_HOST = 2  # regions of host memory, which is never refused
LIMIT_S = 400
ENDS = (hosts.SERVER, hosts.CLIENT)
ANSWER = re.compile(r"^gpu: (rank \d+: [^:]+: [^:]+: .+)$", re.M)
RIGHT = r"gpu: rank {} of 2: (?P<{}>\d+) rounds of \d+ bytes in each of \d+ regions, every byte right"
WAYS = ("--without-gpu", "--without-gpu=refused")


def command(build, way, rank, port, rounds):
    return " ".join(filter(None, (str(build / "tests/sim/nccl/sim_gpu_register"), way, str(rank), "2", hosts.SERVER, port, "-n", str(rounds),
                                  "-s", str(BYTES), "-t", str(LIMIT_S))))


def case(build, way):
    """For play.py."""
    sane = rf"{RIGHT.format(0, 'other')}[^\0]*{RIGHT.format(1, 'count')}"
    name = f"registrations{way.removeprefix('--without-gpu').replace('=', ', ')}"
    return Case(Program(name, *(command(build, way, rank, "{port}", N_ROUNDS) for rank in (0, 1)), sane, forbidden="nccl: wrong:"),
                2 * N_ROUNDS * N_HOST * BYTES / 1e6, N_ROUNDS)


def ask(place, build, way):
    """(answers to each rank, what is wrong)"""
    port = str(place.world.fresh_port())
    ends = [place.world.start(host, *command(build, way, rank, port, N_SHORT).split()) for rank, host in enumerate(ENDS)]
    try:
        statuses = [end.wait(LIMIT_S) for end in ends]
    finally:
        for end in ends:
            end.kill()
    said = "".join(end.said() for end in ends)
    ranks.skip_if_told(said)
    done = all(re.search(RIGHT.format(rank, "n"), said) for rank in (0, 1))
    return sorted(ANSWER.findall(said)), "" if statuses == [0, 0] and done else f"ended with {statuses}:\n{said}"


def half_of(build, half, ways, seed, pulled):
    """({way: answers}, whether all was right) of bare or stacked hosts"""
    answers, right = {}, True
    with contextlib.ExitStack() as stack:
        stage = stack.enter_context(hosts.staged(build, hosts.PATIENT)) if half == "stacked" else None
        place = stack.enter_context(hosts.Hosts.up(build, stage, "register"))
        for way in ways:
            answers[way], wrong = ask(place, build, way)
            print("\n".join((f"{half} {way}".rstrip() + ":", *(f"    {line}" for line in answers[way]), *([f"WRONG: {wrong}"] if wrong else ()))), flush=True)
            right &= not wrong
        if pulled:
            print(cli.HEAD, flush=True)
        for way in pulled:
            right &= pulls.play(place, case(build, way), half, seed, build)[0] != "WRONG"
    return answers, right


def run(build, gpu, seed, short):
    """Whether all is as it has to be. short: a cable is pulled once, with meshverbs, under the first way."""
    ways = ("",) if gpu else WAYS
    bare, bare_right = half_of(build, "bare", ways, seed, () if short else ways)
    stacked, stacked_right = half_of(build, "stacked", ways, seed, ways[:1] if short else ways)
    same = bare == stacked and all(bare.values())
    print(f"registrations: {'the same answers bare and stacked' if same else 'WRONG: other answers with meshverbs than bare'}", flush=True)
    return same and bare_right and stacked_right
