# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How far the guests' boot is: one line that changes on a terminal, a line for each change elsewhere."""
import sys


class Progress:
    def __init__(self, name, stream=None):
        self.name = name
        self.stream = stream or sys.stderr
        self.tty = self.stream.isatty()
        self.said = None

    def update(self, stages, elapsed_s):
        """stages: guest name to kernel, root, network, ready or failed."""
        text = "  ".join(f"{guest}: {stage}" for guest, stage in stages.items())
        if self.tty:
            print(f"\r\033[Klab {self.name}: {text}  ({elapsed_s:.0f} s)", end="", file=self.stream, flush=True)
        elif text != self.said:
            print(f"lab {self.name}: {text}  ({elapsed_s:.1f} s)", file=self.stream, flush=True)
        self.said = text

    def end(self):
        if self.tty and self.said:
            print("\r\033[K", end="", file=self.stream, flush=True)


class Silent:
    """For programs: says nothing."""

    def update(self, stages, elapsed_s):
        pass

    def end(self):
        pass
