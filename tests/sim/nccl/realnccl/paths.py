# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Connections: on paths that work, and with NICs and GIDs that do not reach the next rank."""
import contextlib
import dataclasses
import re

from nicmatrix import HERE as RIGHTNIC
from nicmatrix.world import World

from . import ranks

GIDS = RIGHTNIC / "gids.topo"
DIES_S, WORKS_S = 20, 60
UNREACHED = r"ibv_modify_qp failed with \d+|status=IBV_WC_RETRY_EXC_ERR|took too long"


@dataclasses.dataclass(frozen=True)
class Path:
    name: str
    topology: str
    hosts: str  # of the ranks, in their order
    settings: dict = dataclasses.field(default_factory=dict)
    gids: tuple = ()  # NCCL_IB_GID_INDEX of each rank
    works_bare: bool = False


ONE, SPLIT = {"NCCL_IB_HCA": "mlx5_0"}, {"NCCL_IB_QPS_PER_CONNECTION": "4", "NCCL_IB_SPLIT_DATA_ON_QPS": "1"}
FLUSH, MERGE = {"FLUSH": "1"}, {"MERGE": "1"}
PATHS = (
    Path("as it comes", "pair", "ab", works_bare=True),
    Path("4 queue pairs, split, inline", "pair", "ab", SPLIT | {"NCCL_IB_USE_INLINE": "1"}, works_bare=True),
    Path("RoCE v2 and v1", "pair", "ab", gids=(3, 2)),
    Path("IPv4 and IPv6", GIDS, "ab", gids=(3, 7)),
    Path("a port and its VLAN", GIDS, "ab", gids=(3, 11)),
    Path("triangle, a ring", "triangle", "abc"),
    Path("triangle, the other way", "triangle", "cba", SPLIT),
    Path("triangle, wrong NICs", "triangle", "ac", ONE),
)
SHORT = ("as it comes", "RoCE v2 and v1", "triangle, a ring")
HEAD = f"{'connections':30} {'half':8} {'verdict':8} {'results':9} {'longest':>11}  ends"


def run(world, program, path):
    """(exit statuses, what all ranks said)"""
    port, seconds = world.fresh_port(), WORKS_S if world.stacked or path.works_bare else DIES_S
    argv = [program.argv(rank, len(path.hosts), path.hosts[0], port, seconds,
                         path.settings | ({"NCCL_IB_GID_INDEX": path.gids[rank]} if path.gids else {})) for rank in range(len(path.hosts))]
    running = [world.start(host, *words) for host, words in zip(path.hosts, argv)]
    try:
        ends = [one.wait(seconds + 5) for one in running]
    finally:
        for one in running:
            one.kill()
    return ends, "".join(f"-- rank {rank}\n{one.said()}" for rank, one in enumerate(running))


def judge(path, stacked, ends, said, rounds):
    """(verdict, results, what is wrong)"""
    got, wrong = ranks.results(said, len(path.hosts), rounds)
    if stacked or path.works_bare:
        wrong = wrong or ("" if ends == [0] * len(ends) else "not all ranks ended with 0")
        return "WRONG" if wrong else "works", got, wrong
    if ends.count(0):
        return "WRONG", got, "works bare, so it proves nothing"
    return ("fails", "", "") if re.search(UNREACHED, said) else ("WRONG", "", "fails, but for another reason than the path")


def play(world, program, path):
    """(verdict, row)"""
    ends, said = run(world, program, path)
    ranks.skip_if_told(said)
    verdict, got, wrong = judge(path, world.stacked, ends, said, program.rounds)
    half = "stacked" if world.stacked else "bare"
    row = (f"{path.name:30} {half:8} {verdict:8} {got or '-':9} {f'{ranks.longest(said):.1f} ms' if got else '-':>11}  "
           + " ".join(map(str, ends)))
    print(row, flush=True)
    if wrong:
        logs = "".join(f"-- log of {host}\n{world.told(host)}\n" for host in sorted(path.hosts)) if world.stacked else ""
        print(f"{path.name}, {half}: {wrong}\n{said[-6000:]}\n{logs}", flush=True)
    return verdict, row


def run_all(build, stage, program, paths, halves, gpu, begin=iter):
    """[(verdict, row)]"""
    done = []
    print(HEAD, flush=True)
    for half in halves:
        for topology in dict.fromkeys(path.topology for path in paths):
            with contextlib.ExitStack() as stack:
                label = getattr(topology, "stem", topology)
                world = stack.enter_context(World.up(topology, build, stage if half == "stacked" else None, label))
                if not gpu:
                    ranks.seem_gpudirect(world)
                done += [play(world, program, path) for path in begin([path for path in paths if path.topology == topology])]
    return done
