# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Cables are pulled and plugged in again, one after the other, under one job."""
import random as randoms
import time

from pulled.play import at_once
from schedule import hosts

from . import ranks
from .paths import FLUSH, MERGE, SPLIT

WARM_MB, LIMIT_S = 50, 580
OUT_S, IN_S = (0.05, 0.8), (1.1, 2.0)  # the kernel tells of a carrier that is back up to a second later
HEAD = f"{'storm':30} {'verdict':8} {'pulls':>5} {'moves':>9} {'longest':>11} results   ends"


def cases(known=()):
    """{name: settings}. @known: which of NCCL's own failover and recovery it has."""
    done = {"both NICs": {}, "both NICs, 4 queue pairs": SPLIT, "both NICs, flush": FLUSH, "NICs merged": MERGE}
    if known:
        suffix = ", ".join(name.rsplit("_", 1)[1].lower() for name in known)
        done[f"NICs merged, {suffix}"] = MERGE | {name: "1" for name in known} | ranks.BY_ID
    return done


def pull_until_over(place, ends, random):
    """How many it were. Not before data is carried: a rank that starts with a port down does without that NIC."""
    carried = lambda: sum(place.world.bytes_of(hosts.SERVER).values()) / 1e6  # noqa: E731
    begun, n_pulls = carried(), 0
    hosts.until(lambda: carried() - begun > WARM_MB or any(end.poll() is not None for end in ends), LIMIT_S)
    while all(end.poll() is None for end in ends):
        what = random.choice((*place.topo.links, *(f"{host}.{nic}" for host in (hosts.SERVER, hosts.CLIENT) for nic in (0, 1))))
        for on, pause in ((False, OUT_S), (True, IN_S)):
            with at_once():
                place.link(what, on)
            time.sleep(random.uniform(*pause))
        n_pulls += 1
    return n_pulls


def play(place, program, name, settings, random):
    """(verdict, row)"""
    both, port = (hosts.SERVER, hosts.CLIENT), place.world.fresh_port()
    ends = [place.world.start(host, *program.argv(rank, 2, hosts.SERVER, port, LIMIT_S, settings)) for rank, host in enumerate(both)]
    try:
        n_pulls = pull_until_over(place, ends, random)
        statuses = [end.wait(10) for end in ends]
    finally:
        for end in ends:
            end.kill()
    said = "".join(end.said() for end in ends)
    ranks.skip_if_told(said)
    got, wrong = ranks.results(said, 2, program.rounds)
    wrong = wrong or ("" if statuses == [0, 0] else "not all ranks ended with 0")
    moves = " and ".join(str(place.world.log(host).count("; moved to ")) for host in both)
    row = (f"{name:30} {'WRONG' if wrong else 'survived':8} {n_pulls:5} {moves:>9} {ranks.longest(said):8.1f} ms {got or '-':9} "
           + " ".join(map(str, statuses)))
    print(row, flush=True)
    if wrong:
        print(f"{name}: {wrong}\n{said[-6000:]}\n" + "".join(f"-- log of {host}\n{place.world.told(host)}\n" for host in both), flush=True)
    return "WRONG" if wrong else "survived", row


def run_all(build, program, settings, seed, gpu):
    """[(verdict, row)] of {name: settings}"""
    print(HEAD, flush=True)
    done = []
    for name, more in settings.items():
        with hosts.staged(build, hosts.FLAPPING) as stage, hosts.Hosts.up(build, stage, "nccl") as place:
            if not gpu:
                ranks.seem_gpudirect(place.world)
            done.append(play(place, program, name, more, randoms.Random(f"{seed} {name}")))
    return done
