#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The traffic program finds each plugin whose replay makes a mistake: test_mutants.py BUILD

Every queue pair has work requests to replay: the test drops all requests on the rail in use, waits until each queue pair has posted
MISSING more, and only then pulls the cable. Nothing but carrier tells the plugin of the fault, so no move begins before that.
"""
import os
import pathlib
import shutil
import sys
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from schedule import hosts, watch  # noqa: E402  (the path comes first)
from launcher import agents  # noqa: E402
from schedule.cli import need  # noqa: E402
from schedule.drive import CLEAN, STUCK, SURFACED, VIOLATION  # noqa: E402
from schedule.hosts import CLIENT, SERVER, until  # noqa: E402

MISTAKES = {0: "none", 1: "skips one", 2: "repeats one", 3: "PSN off by one", 4: "reorders"}
N_THREADS, N_QPS = 2, 3
MISSING = 3  # work requests of each queue pair that the peer certainly has not executed
SECONDS = 60  # until the test gives up; what it waits for takes milliseconds
STILL_S = 1  # without a completion and a post at any queue pair: each send queue is full
# Each of these kinds is missed, or seen out of turn, by the message behind it. The timeout (2^20 * 4 us) outlasts the drop. Nearly every message
# is one packet of that path MTU: one of which a part is thought to have been executed is posted again as a whole, and nothing is wrong.
OPTIONS = ["-m", "4096", "-t", str(N_THREADS), "-q", str(N_QPS), "-r", "300", "-w", str(SECONDS), "-T", "20", "-o", "send,send_imm,write,write_imm",
           "-P", watch.PATH]


class Failed(Exception):
    """The run did not come to the point where a mistake could show."""


def need_until(what, condition):
    if not until(condition, SECONDS):
        raise Failed(f"not within {SECONDS} s: {what}")


def movable(place, host):
    """How many queue pairs of a host its agent knows as such that can be moved."""
    return sum(qp["movable"] is True for qp in agents.qps(place.sim, host))


def pull(place, progress, alive):
    """The cable, with work requests outstanding at every queue pair that the peer has not executed."""
    for host in (SERVER, CLIENT):
        place.fault(f"{host}.0", "drop dir=tx class=request")
    before, still = progress.posted(), watch.Still(progress, STILL_S)
    # A queue pair that filled its send queue before the second fault was set posts nothing more: its whole queue is missing.
    need_until("each queue pair posts into the loss", lambda: not alive() or still() or all(
        now >= then + MISSING for now, then in zip(progress.posted(), before)))
    place.link("l0", False)
    for host in (SERVER, CLIENT):
        place.fault(f"{host}.0", "clear")


def outcome(place, build):
    """(statuses of server and client, what both said)"""
    with mock.patch.dict(os.environ, MESHVERBS_DETECT="carrier,peer"):
        server, client = place.both(str(build / "tests/chaos/chaos-traffic"), OPTIONS)
    alive = lambda: server.poll() is None and client.poll() is None  # noqa: E731
    try:
        need_until("the programs run", lambda: client.says("running", 1) or not alive())
        progress = watch.Progress(place.world, (SERVER, CLIENT), N_THREADS * N_QPS)
        need_until("all queue pairs can be moved", lambda: not alive() or all(
            movable(place, host) == N_THREADS * N_QPS for host in (SERVER, CLIENT)))
        if not progress.wait(alive, SECONDS) or place.world.bytes_of(CLIENT)[0] == 0:
            raise Failed("no traffic on the first rail before the fault")
        pull(place, progress, alive)
        progress.wait(alive, SECONDS)
        for end in (client, server):
            end.stop()
        return (server.wait(SECONDS), client.wait(SECONDS)), f"{server.said()}{client.said()}"
    finally:
        server.kill()
        client.kill()


def judge(build, mutant):
    """(whether the traffic program found a mistake, its words). Raises Failed."""
    with hosts.staged(build) as stage:
        plugins = list(pathlib.Path(stage).rglob("meshverbs-provider.so"))
        assert len(plugins) == 1, plugins
        if mutant:
            shutil.copyfile(build / f"tests/chaos/mutant-{mutant}.so", plugins[0])
        with hosts.Hosts.up(build, stage, f"mutant{mutant}") as place:
            statuses, said = outcome(place, build)
            if statuses == (CLEAN, CLEAN):
                return False, "clean"
            if not set(statuses) & {VIOLATION, STUCK, SURFACED}:
                raise Failed(f"statuses {statuses}\n{said}")
            lines = [line for line in said.splitlines()
                     if any(word in line for word in ("VIOLATION", "STUCK", "failed: ")) and "process is gone" not in line]
            return True, f"{statuses}: {lines[0] if lines else said}"


def main():
    need("ip", "nft", "bridge")
    build = pathlib.Path(sys.argv[1]).resolve()
    wrong = 0
    for mutant, what in MISTAKES.items():
        try:
            found, said = judge(build, mutant)
        except Failed as failure:
            found, said = not mutant, f"FAILED: {failure}"
        ok = found == bool(mutant)
        print(f"mutant {mutant} ({what}): {'' if ok else 'WRONG: '}{said}", flush=True)
        wrong += not ok
    return 1 if wrong else 0


sys.exit(main())
