# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Many faults of one transport case, or of all, one after the other under traffic that goes on.

The hosts stay up for all of them, the programs for a group. A fault lasts until all queue pairs have gone on without what it took, or,
three times in ten, some milliseconds: so the next one comes in the middle of a move.
"""
import argparse
import collections
import pathlib
import random as randoms
import re
import sys
import time

from nicmatrix.stress import SANITIZERS
from nicmatrix.world import need

from . import REPO, drive, explain, faults, hosts, watch
from .cli import story
from .stalls import Stalls

# What each does; a message now and then lets the other end look (script.c).
CASES = {
    "send": ["-o", "send,send_imm"],
    "send+srq": ["-o", "send,send_imm", "-S"],
    "write": ["-o", "write,private"],
    "write_imm": ["-o", "write_imm"],
    "read": ["-o", "private,read"],
    "fetch_add": ["-o", "add"],
    "cmp_swap": ["-o", "swap"],
    "mixed": ["-o", "send,send_imm,write,write_imm,private,read,add,swap"],
}
ATOMIC = ("fetch_add", "cmp_swap", "mixed")
SUPPRESSED = REPO / "tests/chaos/tsan.supp"
SANITIZED = [f"{options}:suppressions={SUPPRESSED}" if options.startswith("TSAN_OPTIONS=") else options for options in SANITIZERS]
GROUP = 50
# The traffic program ends when a queue pair has completed nothing for so long. A fault takes milliseconds, and a busy machine seconds.
STUCK_S = 120
GO_ON_S = 2.0 * STUCK_S  # by then each queue pair has gone on, or the program has ended
EXCUSED_S = 6.0  # after a moment without any path: when the last retries are used up
VIOLATIONS = (
    ("repeated", r"written again|after the last one|after it had been|with success after"),
    ("reordered", r"but due is|but none of|outstanding are"),
    ("lost", r"missing|was lost|nothing was written|no event|without its result"),
    ("corrupted", r"."),
)


def parse(words):
    top = argparse.ArgumentParser(prog="storm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--case", choices=(*CASES, "all"), default="all")
    top.add_argument("--faults", type=int, default=1000, help="of each case (default: 1000)")
    top.add_argument("--kinds", help="with commas between them (default: all; on InfiniBand those without probes)")
    top.add_argument("--seed", type=int, help="default: a new one, printed; the same faults and options again")
    top.add_argument("--build", default=str(REPO / "build/release"), help="of plugin and traffic program; may be one of the presets asan and tsan")
    top.add_argument("--sim", help="build of HCA and agent, not sanitized (default: build/release beside BUILD, or BUILD)")
    top.add_argument("--server", type=pathlib.Path, help="build of plugin and agent of the server's host: an older one, as in a fleet that is being upgraded")
    top.add_argument("--topology", choices=hosts.TOPOLOGIES, default="pair", help="ibpair: InfiniBand, by LIDs; routed: a router between (default: pair)")
    top.add_argument("--late", type=int, default=0, metavar="US",
                     help="a quirk of all adapters: receives complete that much later than they are acknowledged")
    top.add_argument("--options", help="of chaos-traffic, instead of those that are drawn for each group")
    top.add_argument("-v", "--verbose", action="store_true", help="tell each fault")
    return top.parse_args(words)


def draw_options(random, case):
    """What else a program may do differently. Without atomics, nothing may fail, so CQs need not have room for what would be flushed."""
    options = ["-t", str(random.randrange(1, 3)), "-q", str(random.randrange(1, 4)), "-m", random.choice(("256", "512", "1024", "2048", "4096"))]
    options += [flag for flag, chance in (("-e", 0.4), ("-1", 0.3), ("-W", 0.5), ("-E", 0.4), ("-b", 0.3), ("-N", 0.2)) if random.random() < chance]
    if case not in ATOMIC and random.random() < 0.3:
        options.append("-C")
    if case != "send+srq" and random.random() < 0.3:
        options.append("-2")
    if random.random() < 0.2:
        options.append("-M")  # last, so that seeds of before draw the same otherwise
    return options


class Pace:
    """Faults last as long as it takes; see hosts.linger()."""

    def __init__(self, progress, alive):
        self.progress, self.alive = progress, alive

    def linger(self, random, low=0.0, high=0.0):  # pylint: disable=unused-argument
        if random.random() < 0.3:
            time.sleep(random.uniform(0.0, 0.03))
        else:
            self.progress.wait(self.alive, GO_ON_S)


class Tally:
    def __init__(self, stalls):
        self.stalls = stalls
        self.faults, self.moved, self.surfaced, self.late, self.seconds = collections.Counter(), 0, 0, 0, 0.0
        self.violations, self.good = collections.Counter(), True

    def add_violation(self, line):
        self.good = False
        if line:
            self.violations[next(name for name, words in VIOLATIONS if re.search(words, line))] += 1

    def row(self, case):
        done = sum(self.faults.values())
        return (f"{case:10} {done:7} {done / self.seconds if self.seconds else 0:7.1f} {self.moved:7} {self.surfaced:9} {self.late:5} "
                + " ".join(f"{self.violations[name]:9}" for name, _ in VIOLATIONS) + ("" if self.good else "  WRONG"))


HEAD = f"{'case':10} {'faults':>7} {'per s':>7} {'moved':>7} {'surfaced':>9} {'late':>5} " + " ".join(f"{name:>9}" for name, _ in VIOLATIONS)


def logs_of(place):
    return [place.world.log(host) for host in (hosts.CLIENT, hosts.SERVER)]


def tell_late(late, explained, logs, times, stalls):
    """What there is to find out why: a machine that stood still, a fault that came too soon after another, or a defect."""
    print("  late:", flush=True)
    qpns = set()
    for pair, lines in late.items():
        print(f"    {pair}: {'; '.join(f'{line.at:.3f} {line.what}: {line.error}' for line in lines)}; {explained.why(pair)}")
        qpns |= {f"QP 0x{pairs[pair]:x} " for pairs, _ in explained.ends if pair in pairs}
    for begin, kind, what in times:
        print(f"    {begin:.3f} {kind}: {what}")
    for until, seconds in stalls:
        print(f"    {until:.3f} the machine had stood still for {seconds:.3f} s")
    for host, log in zip((hosts.CLIENT, hosts.SERVER), logs):
        for line in log.splitlines():
            if any(qpn in line for qpn in qpns) or " QP " not in line:
                print(f"    {host} {line}")
    sys.stdout.flush()


def group(args, place, program, options, kinds, random, tally):
    """One run of the programs. Return: whether all was right."""
    before = [len(log) for log in logs_of(place)]
    server, client = place.both(program, [*options, "-P", watch.PATH], ["env", *SANITIZED])
    alive = lambda: server.poll() is None and client.poll() is None  # noqa: E731
    excused, stale, done, times, begun, stalled = [], [], [], [], time.monotonic(), False
    try:
        if not client.says("running", STUCK_S):
            raise RuntimeError(f"chaos-traffic does not start:\n{client.said()}{server.said()}")
        progress = watch.Progress(place.world, (hosts.SERVER, hosts.CLIENT), watch.n_qps(options))
        progress.wait(alive, GO_ON_S, 1)
        pace = Pace(progress, alive)
        place.linger = pace.linger
        for kind in kinds:
            if stalled or not alive():
                break
            since = time.monotonic()
            rail = drive.busy_rail(place)
            what = faults.KINDS[kind](place, random, rail)
            done.append((kind, what))
            times.append((since, kind, f"{what}, rail {rail}"))
            stalled = not progress.wait(alive, GO_ON_S) and alive()
            if kind in faults.NO_PATH:
                excused.append((since, time.monotonic() + EXCUSED_S))
            if kind in explain.NO_NEWS_KINDS:
                stale.append((since, time.monotonic() + explain.STALE_S))
            if args.verbose:
                print(f"   {since:.3f} {kind}: {what}, rail {rail}, {time.monotonic() - since:.3f} s{', STALLED' if stalled else ''}", flush=True)
        for end in (client, server):
            end.stop()
        statuses = [client.wait(GO_ON_S), server.wait(GO_ON_S)]
        said = [client.said(), server.said()]
        outcome = drive.Outcome(statuses, f"-- client\n{said[0]}-- server\n{said[1]}", done)
    finally:
        vars(place).pop("linger", None)
        client.kill()
        server.kill()
    tally.seconds += time.monotonic() - begun
    tally.faults.update(kind for kind, _ in done)
    logs = [log[length:] for log, length in zip(logs_of(place), before)]
    tally.moved += sum(log.count("; moved to ") for log in logs)
    tally.surfaced += len(outcome.failures())
    explained = explain.Explained(zip(said, logs))
    wrong = explained.unexplained(outcome.failures(), explain.allowed({kind for kind, _ in done}, place.world.has_infiniband()), stale)
    if outcome.consistent and not wrong:
        late = outcome.failures_but(excused)
        tally.late += len(late)
        if late:
            tell_late(late, explained, logs, times, tally.stalls.since(begun))
        return True
    tally.add_violation(next(iter(re.findall("VIOLATION: .*", outcome.said)), "") if not outcome.consistent else "")
    print(f"WRONG: {outcome.text()}: {outcome.complaint()}\n{wrong}\n{done}\n{outcome.said}{story(place.world)}", flush=True)
    for pairs, log in zip((pairs for pairs, _ in explained.ends), logs):
        words = [f"QP 0x{pairs[pair]:x}" for pair in wrong if pair in pairs]
        print("\n".join(["-- what is logged of what is not explained", *(line for line in log.splitlines() if any(word in line for word in words))]), flush=True)
    return False


def storm(args, place, program, case, seed, stalls):
    random, tally, left = randoms.Random(f"{seed} {case}"), Tally(stalls), args.faults
    while left > 0 and tally.good:
        options = args.options.split() if args.options else draw_options(random, case)
        options = ["-s", str(random.randrange(1 << 31)), "-w", str(STUCK_S), "-r", "150", "-T", "12", *CASES[case], *options]
        kinds = args.kinds.split(",") if args.kinds else faults.usual(place.world.has_infiniband())
        if "-C" in options:
            kinds = [kind for kind in kinds if kind in faults.SEEN] or list(faults.SEEN)
        if "-C" not in options:
            options.append("-x")
        chosen = [random.choice(kinds) for _ in range(min(left, GROUP))]
        left -= len(chosen)
        place.heal()
        print(f"  {' '.join(options)}", flush=True)
        if not group(args, place, program, options, chosen, random, tally):
            print(f"again: --case {case} --seed {seed} --faults {args.faults - left}", flush=True)
    print(f"  {tally.row(case)}", flush=True)
    return tally


def main(words=None):
    args = parse(words)
    need("ip", "nft", "bridge")
    build = pathlib.Path(args.build).resolve()
    beside = build.parent / "release"
    sim = pathlib.Path(args.sim).resolve() if args.sim else beside if (beside / "sim/libsimhca.so").exists() else build
    program = build / "tests/chaos/chaos-traffic"
    if not program.exists():
        sys.exit(f"storm: no {program}; build it")
    seed = args.seed if args.seed is not None else randoms.randrange(1 << 32)
    print(f"storm: seed {seed}", flush=True)
    rows, stalls = {}, Stalls()
    with hosts.staged(build, hosts.FLAPPING) as stage, hosts.Hosts.up(sim, stage, "storm", args.server and args.server.resolve(),
                                                                         hosts.topology(args.topology)) as place:
        for port in ("a.0", "a.1", "b.0", "b.1"):
            place.fault(port, f"late us={args.late}")
        for case in CASES if args.case == "all" else [args.case]:
            rows[case] = storm(args, place, str(program), case, seed, stalls)
    print("\n".join([HEAD, *(tally.row(case) for case, tally in rows.items())]))
    return 0 if all(tally.good for tally in rows.values()) else 1
