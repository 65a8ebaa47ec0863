# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Traffic between two hosts, faults while it runs, what came of it."""
import collections
import re
import time

from . import faults

CLEAN, VIOLATION, USAGE, STUCK, SURFACED = 0, 1, 2, 3, 5
NAMES = {CLEAN: "clean", VIOLATION: "VIOLATION", STUCK: "STUCK", SURFACED: "surfaced", None: "HANGS"}
SETTLE_S = 0.5
FAILED = re.compile(r"([\d.]+) thread (\d+), queue pair ([\d.]+) \(0x[0-9a-f]+\): (?:then )?failed: (\w+), ([^,]+), (\d+) atomics")


def busy_rail(hosts):
    """The rail that carries more at the moment; what agents say to each other does not count."""
    before = hosts.world.bytes_of("a")
    for _ in range(20):
        time.sleep(0.005)
        after = hosts.world.bytes_of("a")
        grown = [after[rail] - before[rail] for rail in (0, 1)]
        if max(grown) > 3000:
            break
    return grown.index(max(grown))


Line = collections.namedtuple("Line", "at what error atomics")  # at: monotonic, s; atomics: outstanding then


class Failure(Line):
    @property
    def is_lost_atomic(self):
        """It is the atomic itself that fails: what was posted before it has been completed."""
        return self.what in ("add", "swap") and self.error == "transport retry counter exceeded"


class Outcome:
    def __init__(self, statuses, said, done):
        self.statuses, self.said, self.done = statuses, said, done

    @property
    def ok(self):
        return all(status == CLEAN for status in self.statuses)

    @property
    def consistent(self):
        return all(status in (CLEAN, SURFACED) for status in self.statuses)

    def text(self):
        return ", ".join(NAMES.get(status, str(status)) for status in self.statuses)

    def complaint(self):
        """The first line that says what was wrong."""
        found = re.search(r"(?:VIOLATION: |STUCK)(?!.*process is gone).*", self.said) or re.search(r": failed: .*", self.said)
        return found.group(0) if found else ""

    def failures(self):
        """{(thread, queue pair and how often it was replaced): [Failure]}, of both ends"""
        found = collections.defaultdict(list)
        for at_ms, thread, pair, what, error, atomics in FAILED.findall(self.said):
            found[thread, pair].append(Failure(float(at_ms) / 1000, what, error, int(atomics)))
        return found

    @property
    def only_atomics(self):
        """Whether queue pairs failed for nothing but an atomic whose result may be lost."""
        return self.consistent and not self.failures_but(())

    def failures_but(self, excused):
        """Queue pairs that failed for another reason than a lost atomic; @excused: [(begin, end)], monotonic seconds."""
        return {pair: lines for pair, lines in self.failures().items()
                if not any(line.is_lost_atomic for line in lines)
                and not any(begin <= line.at <= end for line in lines for begin, end in excused)}


END_S = 40  # in which the programs end that have been told to


def run(hosts, program, options, kinds, random, on_fault=None, end_s=END_S, wait_begun=None):
    """An Outcome; @kinds: names of faults, one after the other; @wait_begun: waits until the first may come, by the client and whether both run."""
    server, client = hosts.both(program, options)
    done = []
    try:
        if wait_begun:
            wait_begun(client, lambda: server.poll() is None and client.poll() is None)
        else:
            time.sleep(SETTLE_S)
        for kind in kinds:
            if server.poll() is not None or client.poll() is not None:
                break
            rail = busy_rail(hosts)
            what = faults.KINDS[kind](hosts, random, rail)
            done.append((kind, what))
            if on_fault:
                on_fault(kind, f"{what}, rail {rail}")
            time.sleep(SETTLE_S)
        for end in (client, server):
            end.stop()
        statuses = [client.wait(end_s), server.wait(end_s)]
        return Outcome(statuses, f"-- client\n{client.said()}-- server\n{server.said()}", done)
    finally:
        client.kill()
        server.kill()


def run_killed(hosts, program, options, random, seconds):
    """(whether the other end got errors and ended, how long that took, what it said): one process is killed, now and then with a port."""
    ends = list(hosts.both(program, [*options, "-k"]))
    random.shuffle(ends)
    victim, other = ends
    port = f"{random.choice('ab')}.{busy_rail(hosts)}" if random.random() < 0.5 else None
    try:
        time.sleep(SETTLE_S)
        if port:
            hosts.link(port, False)
            time.sleep(random.uniform(0.0, 0.3))
        victim.kill()
        begun = time.monotonic()
        status = other.wait(seconds)
        took = time.monotonic() - begun
        return status == SURFACED, took, other.said()
    finally:
        victim.kill()
        other.kill()
        if port:
            hosts.link(port, True)
