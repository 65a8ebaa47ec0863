# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Processes that outlive the command that started them, named so that a reused pid is not mistaken."""
import os
import pathlib
import signal
import time


def identity(pid):
    """"PID STARTTIME" of a living process, None if there is none or it is a zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rsplit(")", 1)[1].split()  # fields[0] is the state, the 3rd of proc(5)
    return None if fields[0] in "ZX" else f"{pid} {fields[19]}"


def keep_nice():
    """Sessions share the processors by a nice value of their own (sched(7), autogroup), which is 0 in a new one: make it the process's."""
    try:
        pathlib.Path("/proc/self/autogroup").write_text(str(os.nice(0)))
    except OSError:
        pass  # no autogroups, or negative and not allowed


def alive(ident):
    """Whether the process that identity() named still lives."""
    return bool(ident) and identity(ident.split()[0]) == ident


def kill(ident, grace_s=0.0):
    """End a process and return when it is gone: SIGTERM first if it is given time for that."""
    pid = int(ident.split()[0])
    for sig, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        end = time.monotonic() + wait_s
        if wait_s and alive(ident):
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        while alive(ident) and time.monotonic() < end:
            reap(pid)
            time.sleep(0.01)
    reap(pid)


def reap(pid):
    """Take the exit status of pid if it is our child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
