# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How far each queue pair has come, as chaos-traffic counts it for us; so that nobody has to sleep."""
import mmap
import struct
import time

PATH = "/run/meshverbs/chaos.progress"  # a folder that each host has for itself; /run is the machine's
STEP_S = 0.002


def n_qps(options):
    """Of chaos-traffic with these options."""
    value = {flag: int(options[options.index(flag) + 1]) if flag in options else 1 for flag in ("-t", "-q")}
    return value["-t"] * value["-q"]


class Progress:
    """Completions of every queue pair at both ends, and work requests that it has posted."""

    def __init__(self, world, hosts, n_qps):
        self.n, self.pages = n_qps, []
        for host in hosts:
            with open(f"/proc/{world.pids[host]}/root{PATH}", "rb") as file:
                self.pages.append(mmap.mmap(file.fileno(), 2 * 8 * n_qps, prot=mmap.PROT_READ))

    def counts(self, first=0):
        return [count for page in self.pages for count in struct.unpack(f"{self.n}Q", page[8 * first:8 * (first + self.n)])]

    def posted(self):
        return self.counts(self.n)

    def wait(self, alive, seconds, at_least=2):
        """Whether every queue pair has completed some more in that time; @alive: whether the programs still run."""
        before, limit = self.counts(), time.monotonic() + seconds
        while time.monotonic() < limit and alive():
            if all(now >= then + at_least for now, then in zip(self.counts(), before)):
                return True
            time.sleep(STEP_S)
        return False


class Still:
    """Called again and again: whether nothing was posted or completed for so many seconds."""

    def __init__(self, progress, seconds):
        self.progress, self.seconds, self.seen, self.since = progress, seconds, None, None

    def __call__(self):
        seen = self.progress.counts() + self.progress.posted()
        if seen != self.seen:
            self.seen, self.since = seen, time.monotonic()
        return time.monotonic() - self.since >= self.seconds
