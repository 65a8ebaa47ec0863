# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Did the machine stand still? A virtual one does when its host takes its processors away, and then everything is late at once."""
import os
import threading
import time

NAP_S, STALL_S = 0.05, 0.25


class Stalls(threading.Thread):
    """A thread that sleeps, above all that works in the hosts, and notes when it woke far too late."""

    def __init__(self):
        super().__init__(daemon=True)
        self.found = []  # (until when, monotonic seconds; for how long)
        self.start()

    def run(self):
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))  # 0 is this thread
        except PermissionError:
            pass
        last = time.monotonic()
        while True:
            time.sleep(NAP_S)
            now = time.monotonic()
            if now - last > STALL_S:
                self.found.append((now, now - last))
            last = now

    def since(self, begin):
        return [(until, seconds) for until, seconds in self.found if until >= begin]
