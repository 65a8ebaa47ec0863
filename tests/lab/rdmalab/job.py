# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A command in a guest: a script, its output as it comes, its exit status.

All of it are files in the guest's directory, which both sides see; the control port only says which.
"""
import dataclasses
import itertools
import os
import time

from .errors import LabError

POLL_S = 0.02
counter = itertools.count()


@dataclasses.dataclass
class Result:
    rc: int  # exit status; 124 after a timeout
    out: str  # stdout and stderr together


class Waiting:
    """What can be waited for: has poll(), text(), kill(), check() and a name."""

    def wait(self, timeout=60.0):
        """The Result; a command that takes longer is killed and has rc 124."""
        end = time.monotonic() + timeout
        while (rc := self.poll()) is None and time.monotonic() < end:
            self.check()
            time.sleep(POLL_S)
        if rc is None:
            self.kill()
            rc = 124
        return Result(rc, self.text())

    def wait_output(self, text, timeout=60.0):
        """Return when `text` is in the output; LabError if it ends or takes too long before that."""
        end = time.monotonic() + timeout
        while text not in self.text():
            done = self.poll() is not None and text not in self.text()
            if done or time.monotonic() > end:
                raise LabError(f"'{text}' not seen from {self.name} "
                               f"{'before it ended' if done else f'in {timeout:g} s'}:\n{self.text()[-2000:]}")
            self.check()
            time.sleep(POLL_S)


class Job(Waiting):
    def __init__(self, guest, command):
        """Start `command`, text for bash, in the guest."""
        self.guest, self.name = guest, guest.name
        self.ident = f"{time.time_ns():x}-{os.getpid()}-{next(counter)}"
        self.base = guest.dir / "jobs" / self.ident
        self.out = self.base.with_suffix(".out")
        self.position = 0
        self.base.with_suffix(".sh").write_text(f"echo $$ >/run/lab/jobs/{self.ident}.pid\n{command}\n")
        guest.control(f"run {self.ident}")

    def poll(self):
        """Exit status, None while it runs."""
        try:
            return int(self.base.with_suffix(".rc").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def fresh(self):
        """Output bytes that came since the last call."""
        try:
            with open(self.out, "rb") as file:
                file.seek(self.position)
                data = file.read()
        except FileNotFoundError:
            return b""
        self.position += len(data)
        return data

    def text(self):
        """All output so far."""
        return self.out.read_text(errors="replace") if self.out.exists() else ""

    def kill(self, sig="KILL"):
        """Send a signal to the command and all it started; nothing if it has ended."""
        if self.poll() is None:
            self.guest.control(f"kill {self.ident} {sig}")

    def check(self):
        """LabError if the guest is gone."""
        self.guest.check()
