#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The triangle on Soft-RoCE guests: three hosts, a cable and a /30 for each pair, programs told NICs that do not reach each other.

Bare they fail; with meshverbs at both ends and its agent in each guest they work, through the NICs that do.

    test_rightnic.py BUILD_DIR [--short] [--seed N] [-k REGEX]
    test_rightnic.py --lab NAME ...         a triangle that is up with meshverbs laid over it
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
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "sim/rightnic"), str(HERE.parent / "topo")]
from gids import stage  # noqa: E402
from nicmatrix import cases as plans  # noqa: E402
from rdmalab import Lab, LabError  # noqa: E402
from rdmalab.progress import Progress  # noqa: E402

BOOT_S = 400.0  # three guests, on a machine with much other work
WORKS_S, FAILS_S, GRACE_S, LISTENS_S = 60.0, 20.0, 3.0, 60.0
GID = 1  # the first address of a Soft-RoCE device
PROGRAMS = {
    **{name: (f"{name} -d {{dev}} -x {GID} -F -n {count} {size} -p {{port}}", r"\n *\d+ +%d +(?:[\d.]+|inf)" % count)
       for name, count, size in (("ib_write_bw", 50, "-s 4096"), ("ib_read_bw", 50, "-s 4096"), ("ib_send_bw", 50, "-s 4096"),
                                 ("ib_atomic_bw", 50, ""))},
    **{name: (f"{name} -d {{dev}} -g {GID} -n 100 -c -p {{port}}", r"\d+ iters in ")
       for name in ("ibv_rc_pingpong", "ibv_rc_pingpong -e", "ibv_srq_pingpong")},
}
# Of RDMA alone: what else the guests send counts for more, the longer a busy machine takes.
PACKETS = "for n in 0 1; do read -r b </sys/class/infiniband/rxe$n/ports/1/hw_counters/sent_pkts; printf '@@packets %s\\n' $b; done"
MODES = {"bare": f"/{stage.PLACE}/bare ", "stacked": ""}


def choose(topo, args):
    """A wrong choice of NICs for each pair of hosts and program; short: two programs a pair."""
    rng = random.Random(args.seed)
    everything = [case for case in plans.all_cases(topo, PROGRAMS) if not case.right]
    chosen = []
    for pair in sorted({frozenset((case.server, case.client)) for case in everything}, key=sorted):
        mine = [case for case in everything if {case.server, case.client} == pair]
        for program in rng.sample(list(PROGRAMS), 2) if args.short else PROGRAMS:
            chosen.append(rng.choice([case for case in mine if case.program == program]))
    return [case for case in chosen if re.search(args.only, case.name)]


class World:
    def __init__(self, lab):
        self.lab, self.port = lab, 24000
        self.agents = {}

    def start_agents(self):
        """One in each guest; returns when each has heard both others."""
        for host in self.lab.topo.hosts:
            self.agents[host] = self.lab.start(host, "exec meshverbsd --foreground 2>&1")
        for host, agent in self.agents.items():
            for other in self.lab.topo.hosts:
                if other != host:
                    agent.wait_output(f"host {other}: heard", WORKS_S)
            self.lab.run(host, "until [ -s /run/meshverbs/directory ]; do sleep 0.1; done", WORKS_S)

    def play(self, case, mode):
        """(worked, None where there was no server to talk to; share of the client's packets that left through the right NIC; what was said)"""
        self.port += 1
        command, sane = PROGRAMS[case.program]
        server, client = (MODES[mode] + command.format(dev=f"rxe{nic}", port=self.port) for nic in (case.server_nic, case.client_nic))
        serving = self.lab.start(case.server, f"{server} 2>&1")
        try:
            hexport = f"{self.port:04X}"
            looks = f"until grep -q ':{hexport} [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done"
            if self.lab.run(case.server, looks, LISTENS_S).rc:
                return None, 0.0, f"the server does not listen:\n{serving.text()}"
            done = self.lab.run(case.client, f"{PACKETS}\n{client} {case.server} 2>&1\nrc=$?\n{PACKETS}\nexit $rc",
                                FAILS_S if mode == "bare" else WORKS_S)
            served = serving.wait(GRACE_S if done.rc else WORKS_S)
        except LabError as err:
            return False, 0.0, f"{err}\n{serving.text()}"
        finally:
            serving.kill()
        said = f"-- client {done.rc}\n{done.out}\n-- server {served.rc}\n{served.out}"
        counts = [int(n) for n in re.findall(r"@@packets (\d+)", done.out)]
        grown = [counts[2] - counts[0], counts[3] - counts[1]] if len(counts) == 4 else [0, 0]
        share = grown[case.ways[0][1]] / sum(grown) if sum(grown) else 0.0
        return (done.rc, served.rc) == (0, 0) and bool(re.search(sane, done.out)), share, said

    def play_served(self, case, mode):
        """The same; once more where the server did not listen, which a guest that stands still may be the reason of."""
        outcome = self.play(case, mode)
        if outcome[0] is not None:
            return outcome
        print(f"      {case.name}, {mode}, once more: {outcome[2]}", flush=True)
        return self.play(case, mode)


def judge(outcomes):
    """What is wrong, "" when nothing."""
    (bare, _, _), (stacked, share, _) = outcomes["bare"], outcomes["stacked"]
    if bare is not False:
        return "works bare: proves nothing" if bare else "has no server bare: proves nothing"
    if not stacked:
        return "fails with meshverbs"
    return "" if share > 0.8 else f"went through another NIC: {share:.2f} of the packets through the right one"


def run_cases(lab, args):
    world, bad, count = World(lab), 0, 0
    world.start_agents()
    for case in choose(lab.topo, args):
        start = time.monotonic()
        outcomes = {mode: world.play_served(case, mode) for mode in MODES}
        wrong = judge(outcomes)
        print(f"{'WRONG' if wrong else 'ok   '} {case.name}: {wrong or 'fails bare, works with meshverbs'} "
              f"({time.monotonic() - start:.0f} s)", flush=True)
        if wrong:
            show(world, case, outcomes)
        bad += bool(wrong)
        count += 1
    for host, agent in world.agents.items():
        if agent.poll() is not None:
            print(f"WRONG: the agent of {host} ended:\n{agent.text()}")
            bad += 1
        agent.kill()
    return bad, count


def show(world, case, outcomes):
    for mode, (_, _, said) in outcomes.items():
        print(f"  {mode}:", *said.strip().splitlines(), sep="\n    ")
    for host in (case.server, case.client):
        log = world.lab.run(host, "tail -n 12 /var/log/meshverbs.log", WORKS_S).out
        print(f"  log of {host}:", *log.strip().splitlines(), sep="\n    ")
        print("  its agent:", *world.agents[host].text().strip().splitlines()[-5:], sep="\n    ", flush=True)


def in_new_lab(args):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="lab-rightnic."))
    try:
        stage.build(args.build, directory / "stage")
        name = f"rightnic-{os.getpid()}"
        with Lab.up("triangle", name=name, overlays=[directory / "stage"], mem=512, timeout=BOOT_S, progress=Progress(name)) as lab:
            return run_cases(lab, args)
    finally:
        shutil.rmtree(directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", metavar="BUILD_DIR")
    parser.add_argument("--lab", metavar="NAME")
    parser.add_argument("--short", action="store_true", help="two programs for each pair of hosts")
    parser.add_argument("--seed", type=int, default=1, help="which choices")
    parser.add_argument("-k", dest="only", default="", metavar="REGEX", help="cases in whose names this is found")
    args = parser.parse_args()
    if not args.build and not args.lab:
        parser.error("BUILD_DIR or --lab is needed")
    if os.geteuid() != 0:
        print("lab-rightnic: skipped: needs root (guests read the host's root file system)")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    bad, count = run_cases(Lab.attach(args.lab), args) if args.lab else in_new_lab(args)
    print(f"lab-rightnic: {count} cases, {bad} not as they have to be, {time.monotonic() - start:.0f} s")
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
