# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The faults of tests/chaos/schedule on guests, and what is to be thought of each run."""
import collections
import pathlib
import random as randoms
import re
import tempfile

from schedule import cli, drive, explain, faults
from schedule.storm import CASES, VIOLATIONS

from . import stalls
from .guests import CLIENT, ENDS, LOG, SERVER, TRAFFIC, WAIT_S

RATE = "10"  # operations per second, queue pair and direction: what the emulator keeps up with
TIMEOUT, STUCK_S = 16, 60
WRONG, GOOD, VOID, SOFT = "WRONG", "good", "void", "soft"
# Soft-RoCE takes an acknowledgement of what came after it for the response of a READ or an atomic, and completes it: README.md
NO_RESULT = re.compile(r"(?:read|add|swap), operation \d+, was completed without its result")
NO_ADDRESS = "local QP operation error"  # what it gives to who sends from an address that was taken away
ALLOWED = [*explain.LATE, *explain.LOST_ATOMIC, *explain.UNLOGGED]  # what the plugin may have given a queue pair errors for
TRIES = 3  # runs for each that is wanted; more void ones are too many


def common(patience):
    """What each run has. retry_cnt 7 is "for ever" for rxe: what is lost without a port going down would be noticed by nobody."""
    return ["-r", RATE, "-T", str(TIMEOUT + patience.bit_length() - 1), "-R", "6", "-i", str(patience), "-w", str(STUCK_S + 10 * (patience - 1))]


def traffic_of(random, case):
    """Options for one run: as in the simulator, but fewer queue pairs. Without atomics nothing may fail."""
    options = ["-t", str(random.randrange(1, 3)), "-q", str(random.randrange(1, 4))]
    options += [flag for flag, chance in (("-e", 0.4), ("-1", 0.3)) if random.random() < chance]
    if case:
        return [*options, *CASES[case], "-x"]
    options += ["-S"] if random.random() < 0.2 else []
    return options + (["-x"] if random.random() < 0.5 and "-S" not in options else ["-o", cli.NO_ATOMICS])


def judge(outcome, unexplained, too_long):
    """
    WRONG, GOOD, or VOID: something failed, but all that was executed was executed once and in its turn, and a guest had stood still
    for so long that the other had to give it up (docs/guarantees.md: move_timeout_ms). Violations are never excused, nor is standing still
    for as long as STUCK_S. SOFT: Soft-RoCE did what it does without meshverbs as well.
    @unexplained: queue pairs that failed, and no log says why
    """
    may_fail = any(kind in faults.NO_PATH for kind, _ in outcome.done)
    if (outcome.consistent if may_fail else outcome.only_atomics) and not unexplained:
        return GOOD
    # What cannot be moved fails as it does bare: at once, where its own address is gone.
    if outcome.consistent and not unexplained and "address" in {kind for kind, _ in outcome.done} and \
            all(line.error == NO_ADDRESS for lines in outcome.failures_but(()).values() for line in lines if not line.is_lost_atomic):
        return SOFT
    violations = re.findall(r"VIOLATION: (?!.*process is gone).*", outcome.said)
    if violations and all(NO_RESULT.search(line) for line in violations):
        return SOFT
    if drive.STUCK in outcome.statuses or violations:
        return WRONG
    return VOID if too_long else WRONG


class Logs:
    """What the plugin logs at both ends from now on."""

    def __init__(self, place):
        self.place = place
        self.begin = {host: int(place.lab.run(host, f"cat {LOG} 2>/dev/null | wc -l", WAIT_S).out) for host in ENDS}

    def since(self, host, command):
        return self.place.lab.run(host, f"tail -n +{self.begin[host] + 1} {LOG} 2>/dev/null | {command}", WAIT_S).out

    def moves(self):
        """So many live moves, each counted at both ends."""
        return sum(int(self.since(host, "grep -c '; moved to '") or 0) for host in ENDS)

    def keep(self, name, outcome):
        """All that both ends said and logged, in a new folder below /tmp."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}."))
        (folder / "said").write_text(outcome.said)
        for host in ENDS:
            (folder / f"{host}.log").write_text(self.since(host, "cat"))
            (folder / f"{host}.agent").write_text(self.place.agent_log(host))
        print(f"logs: {folder}", flush=True)

    def unexplained(self, outcome):
        """{queue pair: (its failures, what the logs say)} of those that failed for no reason that is allowed"""
        failures = outcome.failures()
        if not failures:
            return {}
        ends = zip(outcome.said.split("-- server\n", 1), [self.since(host, "grep 'gets its error'") for host in (CLIENT, SERVER)])
        return explain.Explained(ends).unexplained(failures, ALLOWED)


class Tally:
    """What one case came to."""

    HEAD = f"{'case':10} {'faults':>6} {'good':>5} {'void':>5} {'soft':>5} {'WRONG':>5} {'moved':>6} {'surfaced':>9} " + " ".join(
        f"{name:>9}" for name, _ in VIOLATIONS)

    def __init__(self, case):
        self.case, self.runs, self.survived, self.surfaced = case or "any", collections.Counter(), collections.Counter(), collections.Counter()
        self.violations, self.moved = collections.Counter(), 0

    def add(self, verdict, outcome, moved):
        self.runs[verdict] += 1
        violation = re.search(r"VIOLATION: .*", outcome.said)
        if violation and verdict == WRONG:
            self.violations[next(name for name, words in VIOLATIONS if re.search(words, violation.group(0)))] += 1
        if verdict == GOOD:
            self.moved += moved
            self.survived.update(kind for kind, _ in outcome.done)
            self.surfaced.update((line.what, line.error) for lines in outcome.failures().values() for line in lines)

    def row(self):
        return (f"{self.case:10} {self.survived.total():6} {self.runs[GOOD]:5} {self.runs[VOID]:5} {self.runs[SOFT]:5} {self.runs[WRONG]:5} {self.moved:6} "
                f"{self.surfaced.total():9} " + " ".join(f"{self.violations[name]:9}" for name, _ in VIOLATIONS))


def storm(place, seed, n_faults, n_group, kinds, options, patience=1, case=None):
    """(whether so many faults were survived in runs that count, the Tally); @case: of CASES, None: any mixture"""
    random, tally = randoms.Random(f"{seed} {case}" if case else seed), Tally(case)
    number, most = 0, TRIES * -(-n_faults // n_group)
    while tally.survived.total() < n_faults and not tally.runs[WRONG] and number < most:
        group = [random.choice(kinds) for _ in range(min(n_group, n_faults - tally.survived.total()))]
        number += 1
        words = ["-s", str(seed + number), *common(patience), *(options or traffic_of(random, case))]
        place.heal()
        logs, watch = Logs(place), stalls.Watch(place.lab)
        outcome = drive.run(place, TRAFFIC, words, group, random, lambda kind, what: print(f"   {kind}: {what}", flush=True),
                            drive.END_S * patience)
        stalled_s = watch.end()
        unexplained = logs.unexplained(outcome)
        verdict = judge(outcome, unexplained, stalled_s >= stalls.LONG_S * patience)
        tally.add(verdict, outcome, logs.moves())
        print(f"run {number}: {verdict}: {outcome.text()}; stood still for {stalled_s:.1f} s ({' '.join(words)})", flush=True)
        if verdict != GOOD:
            print(f"no reason: {unexplained}" if unexplained else "", flush=True)
            print((outcome.said if verdict == WRONG else outcome.complaint()) + (cli.story(place) if verdict == WRONG else ""), flush=True)
            logs.keep(f"survive-{seed}-{case or 'any'}-{number}", outcome)
    print(f"{tally.survived.total()} of {n_faults} faults survived: " + ", ".join(f"{n} {kind}" for kind, n in sorted(tally.survived.items())))
    print("runs: " + ", ".join(f"{n} {verdict}" for verdict, n in sorted(tally.runs.items())))
    for (what, error), count in sorted(tally.surfaced.items()):
        print(f"surfaced: {count}: {what}: {error}")
    return tally.survived.total() >= n_faults and not tally.runs[WRONG], tally


def cases(place, seed, n_faults, n_group, kinds, options, patience, names):
    """storm() of each of these cases, and a table. Return: whether all was right."""
    done = []
    for case in names:
        print(f"case {case or 'any'}", flush=True)
        done.append(storm(place, seed, n_faults, n_group, kinds, options, patience, case))
    print("\n".join([Tally.HEAD, *(tally.row() for _, tally in done)]))
    return all(good for good, _ in done)


def killed(place, seed, n, options):
    """One end's process is killed, n times. Return: whether the other one always got its errors."""
    random, good = randoms.Random(seed), 0
    for number in range(n):
        place.heal()
        ok, took, said = drive.run_killed(place, TRAFFIC, [*common(1), *(options or ["-t", "1", "-q", "2"])], random, cli.KILLED_S)
        good += ok
        print(f"killed {number}: {'errors' if ok else 'WRONG'} after {took:.2f} s", flush=True)
        if not ok:
            print(said + cli.story(place), flush=True)
    print(f"{good} of {n} good")
    return good == n
